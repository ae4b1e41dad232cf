/*
** test_select.c: which rows a report shows, and in which order.
*/
#include "../../report/select.h"
#include "report_help.h"

/* Three functions on lines 1 to 3 of @s.lua: 100, 300 and 200 bytes. */
static struct tide_model *three_lines(void)
{
    static const uint64_t bytes[] = {100, 300, 200};
    static const uint64_t freed[] = {100, 50, 0};
    static const char *const names[] = {"beta", "gamma", "alpha"};
    struct made made;
    struct syn_heap *heap = made_open(&made);
    uint32_t parent = 0;
    for (unsigned i = 0; i < 3; i++) {
        const uint32_t f =
            syn_func(heap, TIDE_P_LUA, "@s.lua", names[i], i + 1, i + 1);
        const uint32_t node = syn_node(heap, parent, f, i + 1);
        struct tide_p_cell *cell =
            add_cell(heap, node, TIDE_KIND_TABLE, bytes[i], freed[i]);
        cell->alloc_blocks = 10 - i;
        syn_node_at(heap, node)->calls = i + 1;
        syn_node_at(heap, node)->max_call_bytes = 1000 - i;
        if (i == 0)
            parent = node;
    }
    return made_model(&made);
}

/* The picked lines (or first lines of functions) as "2 3 1". */
static const char *picked(const struct tide_model *model, enum tide_r_by by,
                          const struct tide_r_query *query)
{
    static char text[128];
    struct tide_r_pick pick;
    size_t n = 0;
    CHECK_EQ(tideR_pick(model, by, query, &pick), TIDE_OK);
    text[0] = '\0';
    for (uint32_t i = 0; i < pick.n; i++) {
        uint32_t number = pick.rows[i];
        if (by == TIDE_R_BY_LINE)
            number = model->lines[number].line;
        else if (by == TIDE_R_BY_FUNCTION)
            number = model->funcs[number].linedefined;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u",
                              i > 0 ? " " : "", number);
    }
    tideR_pick_close(&pick);
    return text;
}

static const char *lines_by(const struct tide_model *model,
                            enum tide_r_sort sort)
{
    return picked(model, TIDE_R_BY_LINE, &(struct tide_r_query){.sort = sort});
}

static const char *funcs_by(const struct tide_model *model,
                            enum tide_r_sort sort)
{
    return picked(model, TIDE_R_BY_FUNCTION,
                  &(struct tide_r_query){.sort = sort});
}

TEST(select_sorts_by_every_key)
{
    struct tide_model *model = three_lines();
    CHECK_STR(lines_by(model, TIDE_R_SORT_ALLOC), "2 3 1");
    CHECK_STR(lines_by(model, TIDE_R_SORT_BLOCKS), "1 2 3");
    CHECK_STR(lines_by(model, TIDE_R_SORT_LIVE), "2 3 1");
    CHECK_STR(lines_by(model, TIDE_R_SORT_FREED), "1 2 3");
    CHECK_STR(lines_by(model, TIDE_R_SORT_CALLS), "3 2 1");
    CHECK_STR(lines_by(model, TIDE_R_SORT_PER_CALL), "2 1 3");
    CHECK_STR(lines_by(model, TIDE_R_SORT_WORST), "1 2 3");
    CHECK_STR(lines_by(model, TIDE_R_SORT_NAME), "3 1 2");
    CHECK_STR(lines_by(model, TIDE_R_SORT_LINE), "1 2 3");
    CHECK_STR(funcs_by(model, TIDE_R_SORT_ALLOC), "2 3 1");
    CHECK_STR(funcs_by(model, TIDE_R_SORT_TOTAL), "1 2 3");
    CHECK_STR(funcs_by(model, TIDE_R_SORT_PER_CALL), "1 2 3");
    CHECK_STR(funcs_by(model, TIDE_R_SORT_NAME), "3 1 2");
    tideR_model_close(model);
}

TEST(select_falls_back_where_a_list_lacks_the_key)
{
    struct tide_model *model = three_lines();
    CHECK_STR(lines_by(model, TIDE_R_SORT_TOTAL), "2 3 1");
    CHECK_EQ(tideR_sort_of(TIDE_R_BY_KIND, TIDE_R_SORT_CALLS),
             TIDE_R_SORT_ALLOC);
    CHECK_EQ(tideR_sort_of(TIDE_R_BY_STACK, TIDE_R_SORT_LIVE),
             TIDE_R_SORT_LIVE);
    tideR_model_close(model);
}

TEST(select_reverses)
{
    struct tide_model *model = three_lines();
    const struct tide_r_query query = {.is_reversed = true};
    CHECK_STR(picked(model, TIDE_R_BY_LINE, &query), "1 3 2");
    tideR_model_close(model);
}

TEST(select_leaves_small_rows_out)
{
    struct tide_model *model = three_lines();
    struct tide_r_query query = {.min_bytes = 200};
    CHECK_STR(picked(model, TIDE_R_BY_LINE, &query), "2 3");
    query = (struct tide_r_query){.min_share = 0.5};
    CHECK_STR(picked(model, TIDE_R_BY_LINE, &query), "2");
    /* what is sorted by counts, when it is bytes */
    query = (struct tide_r_query){.min_bytes = 220, .sort = TIDE_R_SORT_LIVE};
    CHECK_STR(picked(model, TIDE_R_BY_LINE, &query), "2");
    query = (struct tide_r_query){.min_bytes = 220, .sort = TIDE_R_SORT_BLOCKS};
    CHECK_STR(picked(model, TIDE_R_BY_LINE, &query), "2");
    tideR_model_close(model);
}

TEST(select_cuts_at_the_top_and_counts_the_rest)
{
    struct tide_model *model = three_lines();
    struct tide_r_pick pick;
    const struct tide_r_query query = {.top = 2};
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_LINE, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 2);
    CHECK_EQ(pick.n_all, 3);
    CHECK_EQ(pick.shown_bytes, 500);
    CHECK_EQ(pick.all_bytes, 600);
    tideR_pick_close(&pick);
    tideR_model_close(model);
}

/* What a filter leaves of a list. */
static const char *filtered(const struct tide_model *model, enum tide_r_by by,
                            const char *regex)
{
    char why[64];
    struct tide_r_query query = {.sort = TIDE_R_SORT_LINE};
    CHECK_EQ(tideR_query_filter(&query, regex, why, sizeof why), TIDE_OK);
    const char *text = picked(model, by, &query);
    tideR_query_close(&query);
    return text;
}

TEST(select_filters_on_source_line_and_function)
{
    struct tide_model *model = three_lines();
    CHECK_STR(filtered(model, TIDE_R_BY_LINE, "s\\.lua:2"), "2");
    CHECK_STR(filtered(model, TIDE_R_BY_LINE, "^s.lua:[13] "), "1 3");
    CHECK_STR(filtered(model, TIDE_R_BY_LINE, "alpha|beta"), "1 3");
    CHECK_STR(filtered(model, TIDE_R_BY_LINE, "nothing"), "");
    CHECK_STR(filtered(model, TIDE_R_BY_FUNCTION, "gamma$"), "2");
    CHECK_STR(filtered(model, TIDE_R_BY_KIND, "^ta"), "1");
    tideR_model_close(model);
}

TEST(select_filters_stacks_on_any_frame)
{
    struct tide_model *model = three_lines();
    struct tide_r_pick pick;
    char why[64];
    struct tide_r_query query = {.sort = TIDE_R_SORT_ALLOC};
    CHECK_EQ(tideR_query_filter(&query, "beta", why, sizeof why), TIDE_OK);
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_STACK, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 3); /* beta calls the others */
    tideR_pick_close(&pick);
    CHECK_EQ(tideR_query_filter(&query, "alpha", why, sizeof why), TIDE_OK);
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_STACK, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 1);
    tideR_pick_close(&pick);
    tideR_query_close(&query);
    tideR_model_close(model);
}

TEST(select_stacks_have_a_lua_line)
{
    struct made made;
    struct tide_r_pick pick;
    struct syn_heap *heap = made_open(&made);
    const uint32_t c = syn_func(heap, TIDE_P_C, "host", "init", 0, 0);
    add_cell(heap, syn_node(heap, 0, c, 0), TIDE_KIND_TABLE, 10, 0);
    add_cell(heap, 0, TIDE_KIND_TABLE, 10, 0);
    struct tide_model *model = made_model(&made);
    const struct tide_r_query query = {.top = 0};
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_STACK, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 0);
    tideR_pick_close(&pick);
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_FUNCTION, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 2);
    tideR_pick_close(&pick);
    tideR_model_close(model);
}

TEST(select_stacks_without_a_line_are_listed_with_c_frames)
{
    struct made made;
    struct tide_r_pick pick;
    struct syn_heap *heap = made_open(&made);
    const uint32_t c = syn_func(heap, TIDE_P_NATIVE, "", "", 0, 0);
    syn_func_at(heap, c)->address = 0x1000;
    add_cell(heap, syn_node(heap, 0, c, 0), TIDE_KIND_TABLE, 30, 0);
    add_cell(heap, 0, TIDE_KIND_TABLE, 10, 0);
    struct tide_model *model = made_model(&made);
    const struct tide_r_query query = {.top = 0};
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_STACK, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 2);
    CHECK_EQ(pick.all_bytes, 40);
    CHECK_EQ(pick.all_bytes, model->totals.alloc_bytes);
    tideR_pick_close(&pick);
    tideR_model_close(model);
}

TEST(select_says_what_is_wrong_with_a_filter)
{
    char why[64] = "";
    struct tide_r_query query = {.top = 0};
    CHECK_EQ(tideR_query_filter(&query, "(", why, sizeof why), TIDE_ERR_ARG);
    CHECK(why[0] != '\0');
    CHECK(!query.has_filter);
}

TEST(select_names_are_known)
{
    enum tide_r_sort sort = TIDE_R_SORT_COUNT_;
    enum tide_r_by by = TIDE_R_BY_COUNT_;
    char names[256];
    snprintf(names, sizeof names, "%s", tideR_sort_names());
    for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", "))
        CHECK_EQ(tideR_sort_parse(name, &sort), TIDE_OK);
    CHECK_EQ(tideR_sort_parse("alloc_bytes", &sort), TIDE_OK);
    CHECK_EQ(sort, TIDE_R_SORT_ALLOC);
    CHECK_EQ(tideR_sort_parse("peak_live_bytes", &sort), TIDE_OK);
    CHECK_EQ(sort, TIDE_R_SORT_PEAK);
    CHECK_EQ(tideR_sort_parse("", &sort), TIDE_ERR_ARG);
    CHECK_EQ(tideR_sort_parse("size", &sort), TIDE_ERR_ARG);
    CHECK_EQ(tideR_by_parse("group", &by), TIDE_OK);
    CHECK_EQ(by, TIDE_R_BY_GROUP);
    CHECK_EQ(tideR_by_parse("lines", &by), TIDE_ERR_ARG);
}

TEST(select_order_is_total)
{
    struct tide_r_pick a;
    struct tide_r_pick b;
    struct tide_model *model = model_of_shape(&(struct syn_shape){
        .seed = 5, .n_heaps = 2, .n_funcs = 40, .n_nodes = 400});
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++)
        for (unsigned sort = 0; sort < TIDE_R_SORT_COUNT_; sort++) {
            struct tide_r_query query = {.sort = (enum tide_r_sort)sort};
            CHECK_EQ(tideR_pick(model, (enum tide_r_by)by, &query, &a),
                     TIDE_OK);
            query.is_reversed = true;
            CHECK_EQ(tideR_pick(model, (enum tide_r_by)by, &query, &b),
                     TIDE_OK);
            CHECK(a.n > 0);
            CHECK_EQ(a.n, b.n);
            for (uint32_t i = 0; i < a.n; i++)
                CHECK_EQ(a.rows[i], b.rows[a.n - 1 - i]);
            tideR_pick_close(&a);
            tideR_pick_close(&b);
        }
    tideR_model_close(model);
}
