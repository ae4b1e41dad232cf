/*
** test_live.c: the live table: rows, filters, order, sections, rates, and what
** is known of a row.
*/
#include "../../report/live.h"
#include "report_help.h"

/* What one line of a made profile has. */
struct spec {
    const char *source;
    const char *name;
    uint32_t line;
    uint64_t bytes;
    uint64_t freed;
};

static const struct spec three[] = {
    {"@lib/Mixer.lua", "blend", 10, 6000, 5000},
    {"@lib/mixer.lua", "fade", 20, 2000, 0},
    {"@app.lua", "blend_all", 3, 500, 100},
};

/* Functions below each other: each called from the one before. */
static struct tide_model *model_of(const struct spec *specs, unsigned n)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    uint32_t parent = 0;
    for (unsigned i = 0; i < n; i++) {
        const uint32_t f = syn_func(heap, TIDE_P_LUA, specs[i].source,
                                    specs[i].name, specs[i].line, 99);
        parent = syn_node(heap, parent, f, specs[i].line);
        add_cell(heap, parent, TIDE_KIND_TABLE, specs[i].bytes, specs[i].freed);
        syn_node_at(heap, parent)->calls = 2;
        syn_node_at(heap, parent)->max_call_bytes = specs[i].bytes / 2;
    }
    return made_model(&made);
}

/* The names of the rows with blanks between; sections as "[name:rows]". */
static const char *names_of(const struct tide_model *model,
                            const struct tide_r_live_query *query,
                            const struct tide_r_live_rows *rows)
{
    static char text[1024];
    struct tide_r_live_labels labels;
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < rows->n; i++) {
        const struct tide_r_live_row *row = &rows->rows[i];
        const bool is_line = query->by == TIDE_R_BY_LINE && row->n_rows == 0;
        tideR_live_labels(model, query->by, row, &labels);
        n += (size_t)snprintf(
            text + n, sizeof text - n, row->n_rows > 0 ? "%s[%s:%u]" : "%s%s",
            i > 0 ? " " : "", is_line ? labels.second : labels.first,
            row->n_rows);
    }
    return text;
}

static const struct tide_r_rates no_rates;

static const char *names_by(const struct tide_model *model,
                            const struct tide_r_live_query *query)
{
    struct tide_r_live_rows rows;
    CHECK_EQ(tideR_live_rows(model, query, &no_rates, &rows), TIDE_OK);
    const char *text = names_of(model, query, &rows);
    tideR_live_close(&rows);
    return text;
}

static const char *names_with(const struct tide_model *model,
                              const char *filter)
{
    struct tide_r_live_query query = {.by = TIDE_R_BY_FUNCTION};
    snprintf(query.filter, sizeof query.filter, "%s", filter);
    return names_by(model, &query);
}

TEST(live_rows_are_sorted_by_any_column)
{
    struct tide_model *model = model_of(three, 3);
    struct tide_r_live_query query = {.by = TIDE_R_BY_LINE};
    CHECK_STR(names_by(model, &query), "blend fade blend_all");
    query.metric = TIDE_R_METRIC_LIVE;
    CHECK_STR(names_by(model, &query), "fade blend blend_all");
    query.is_reversed = true;
    CHECK_STR(names_by(model, &query), "blend_all blend fade");
    query = (struct tide_r_live_query){.sort = TIDE_R_COL_NAME};
    CHECK_STR(names_by(model, &query), "blend blend_all fade");
    query.sort = TIDE_R_COL_SOURCE;
    CHECK_STR(names_by(model, &query), "blend_all blend fade");
    query.sort = TIDE_R_COL_GROUP;
    CHECK_STR(names_by(model, &query), "blend_all blend fade");
    query.by = TIDE_R_BY_FUNCTION;
    query.sort = TIDE_R_COL_TOTAL;
    query.is_reversed = true;
    CHECK_STR(names_by(model, &query), "blend_all fade blend");
    tideR_model_close(model);
}

TEST(live_rows_carry_the_figures_of_the_model)
{
    struct tide_model *model = model_of(three, 3);
    const struct tide_r_live_query query = {.by = TIDE_R_BY_FUNCTION};
    struct tide_r_live_rows rows;
    char text[TIDE_R_UNIT_MAX];
    CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
    CHECK_EQ(rows.n, 3);
    CHECK_EQ(rows.n_all, 3);
    CHECK_EQ(rows.whole_bytes, 8500);
    CHECK_EQ(rows.rows[0].counts.live_bytes, 1000);
    CHECK_EQ(rows.rows[0].total_bytes, 8500);
    CHECK_EQ(rows.rows[0].per_call, 4250);
    CHECK_EQ(rows.rows[0].worst, 3000);
    CHECK_STR(
        tideR_live_text(&query, &rows, &rows.rows[0], TIDE_R_COL_SHARE, text),
        "70.6%");
    CHECK_STR(
        tideR_live_text(&query, &rows, &rows.rows[0], TIDE_R_COL_LIVE, text),
        "1000 B");
    CHECK_STR(
        tideR_live_text(&query, &rows, &rows.rows[0], TIDE_R_COL_RATE, text),
        "0 B/s");
    CHECK_STR(
        tideR_live_text(&query, &rows, &rows.rows[0], TIDE_R_COL_NAME, text),
        "");
    tideR_live_close(&rows);
    tideR_model_close(model);
}

TEST(live_filter_needs_every_word_somewhere)
{
    struct tide_model *model = model_of(three, 3);
    CHECK_STR(names_with(model, ""), "blend fade blend_all");
    CHECK_STR(names_with(model, "BLEND"), "blend blend_all");
    CHECK_STR(names_with(model, "blend lib"), "blend");
    CHECK_STR(names_with(model, "  mixer   fade "), "fade");
    CHECK_STR(names_with(model, "source:app.lua:3"), "blend_all");
    CHECK_STR(names_with(model, "name:mixer"), "");
    CHECK_STR(names_with(model, "group:mixer"), "blend fade");
    CHECK_STR(names_with(model, "name:"), "blend fade blend_all");
    CHECK_STR(names_with(model, "nothing"), "");
    tideR_model_close(model);
}

TEST(live_small_rows_are_hidden_by_what_is_looked_at)
{
    struct tide_model *model = model_of(three, 3);
    struct tide_r_live_query query = {.hides_small = true};
    CHECK_STR(names_by(model, &query), "blend fade");
    query.metric = TIDE_R_METRIC_LIVE;
    CHECK_STR(names_by(model, &query), "fade");
    query.metric = TIDE_R_METRIC_RATE;
    CHECK_STR(names_by(model, &query), "");
    tideR_model_close(model);
}

/* Two rows in one group, one in another. */
static const struct spec grouped[] = {
    {"@a.lua", "a1", 1, 3000, 0},
    {"@b.lua", "b1", 1, 5000, 0},
    {"@a.lua", "a2", 5, 4000, 0},
};

TEST(live_sections_have_sums_and_fold)
{
    struct tide_model *model = model_of(grouped, 3);
    struct tide_r_live_query query = {.has_sections = true};
    struct tide_r_live_rows rows;
    CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
    CHECK_STR(names_of(model, &query, &rows), "[a.lua:2] a2 a1 [b.lua:1] b1");
    CHECK_EQ(rows.rows[0].counts.alloc_bytes, 7000);
    CHECK_EQ(rows.n_sections, 2);
    CHECK_EQ(rows.n_found, 3);
    const uint64_t keys[] = {rows.rows[0].key, rows.rows[3].key};
    tideR_live_close(&rows);
    query.folded = keys;
    query.n_folded = 1;
    CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
    CHECK_STR(names_of(model, &query, &rows), "[a.lua:2] [b.lua:1] b1");
    CHECK_EQ(rows.rows[0].counts.alloc_bytes, 7000);
    CHECK(rows.rows[0].is_folded);
    tideR_live_close(&rows);
    query.n_folded = 2;
    CHECK_STR(names_by(model, &query), "[a.lua:2] [b.lua:1]");
    query.is_reversed = true;
    CHECK_STR(names_by(model, &query), "[b.lua:1] [a.lua:2]");
    query.by = TIDE_R_BY_GROUP; /* no sections of groups */
    CHECK_STR(names_by(model, &query), "b.lua a.lua");
    tideR_model_close(model);
}

/* The rate of a row by its name; -1: there is none. */
static double rate_of(const struct tide_model *model, enum tide_r_by by,
                      const struct tide_r_rates *rates, const char *name)
{
    const struct tide_r_live_query query = {.by = by};
    struct tide_r_live_labels labels;
    struct tide_r_live_rows rows;
    double rate = -1;
    CHECK_EQ(tideR_live_rows(model, &query, rates, &rows), TIDE_OK);
    for (uint32_t i = 0; i < rows.n; i++) {
        tideR_live_labels(model, by, &rows.rows[i], &labels);
        if (strcmp(by == TIDE_R_BY_LINE ? labels.second : labels.first, name) ==
            0)
            rate = rows.rows[i].rate;
    }
    tideR_live_close(&rows);
    return rate;
}

TEST(live_rates_are_between_readings)
{
    /* in the second reading the rows stand in another order */
    static const struct spec later[] = {
        {"@app.lua", "blend_all", 3, 500, 100},
        {"@new.lua", "fresh", 1, 800, 0},
        {"@lib/Mixer.lua", "blend", 10, 10000, 5000},
        {"@lib/mixer.lua", "fade", 20, 1000, 0}, /* less: after a reset */
    };
    struct tide_model *first = model_of(three, 3);
    struct tide_r_rates rates = {.n = 0};
    CHECK_EQ(tideR_rates_note(&rates, first, 100.0), TIDE_OK);
    CHECK_EQ(rate_of(first, TIDE_R_BY_LINE, &rates, "blend"), 0);
    struct tide_model *second = model_of(later, 4);
    CHECK_EQ(tideR_rates_note(&rates, second, 102.0), TIDE_OK);
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "blend"), 2000);
    CHECK_EQ(rate_of(second, TIDE_R_BY_FUNCTION, &rates, "blend"), 2000);
    CHECK_EQ(rate_of(second, TIDE_R_BY_GROUP, &rates, "lib/Mixer.lua"), 2000);
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "blend_all"), 0);
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "fresh"), 400);
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "fade"), 0);
    /* the oldest reading falls out of the window */
    for (unsigned i = 0; i < TIDE_R_PASTS - 1; i++)
        CHECK_EQ(tideR_rates_note(&rates, second, 103.0 + i), TIDE_OK);
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "blend"), 0);
    rates.run_s = 10;
    CHECK_EQ(rate_of(second, TIDE_R_BY_LINE, &rates, "blend"), 1000);
    tideR_rates_close(&rates);
    tideR_model_close(first);
    tideR_model_close(second);
}

TEST(live_keys_tell_rows_apart)
{
    const struct syn_shape shape = {.seed = 5, .n_funcs = 200, .n_nodes = 900};
    struct tide_model *model = model_of_shape(&shape);
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++) {
        const struct tide_r_live_query query = {.by = (enum tide_r_by)by};
        struct tide_r_live_rows rows;
        if (by == TIDE_R_BY_STACK || by == TIDE_R_BY_KIND)
            continue;
        CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
        CHECK(rows.n > 3);
        for (uint32_t i = 0; i < rows.n; i++)
            for (uint32_t k = 0; k < i; k++)
                CHECK(rows.rows[i].key != rows.rows[k].key);
        tideR_live_close(&rows);
    }
    tideR_model_close(model);
}

TEST(live_columns_begin_with_what_is_looked_at)
{
    enum tide_r_column columns[TIDE_R_COL_COUNT_];
    CHECK(tideR_columns_of(TIDE_R_BY_LINE, TIDE_R_METRIC_LIVE, columns) > 3);
    CHECK_EQ(columns[0], TIDE_R_COL_SHARE);
    CHECK_EQ(columns[1], TIDE_R_COL_LIVE);
    tideR_columns_of(TIDE_R_BY_LINE, TIDE_R_METRIC_RATE, columns);
    CHECK_EQ(columns[1], TIDE_R_COL_RATE);
    const unsigned n =
        tideR_columns_of(TIDE_R_BY_GROUP, TIDE_R_METRIC_ALLOC, columns);
    for (unsigned i = 0; i < n; i++)
        CHECK(columns[i] != TIDE_R_COL_CALLS && columns[i] != TIDE_R_COL_TOTAL);
}

/* What live_details writes of the first row. */
static char *details_of(const struct tide_model *model,
                        const struct tide_r_live_query *query, uint32_t top)
{
    struct tide_r_live_rows rows;
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out != NULL);
    CHECK_EQ(tideR_live_rows(model, query, &no_rates, &rows), TIDE_OK);
    CHECK_EQ(tideR_live_details(model, query, &rows, &rows.rows[0], top, out),
             TIDE_OK);
    tideR_live_close(&rows);
    fclose(out);
    return text;
}

/* One line that is reached in two ways. */
static struct tide_model *two_ways(void)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t one = syn_func(heap, TIDE_P_LUA, "@app.lua", "one", 1, 2);
    const uint32_t two = syn_func(heap, TIDE_P_LUA, "@app.lua", "two", 3, 4);
    const uint32_t hot =
        syn_func(heap, TIDE_P_LUA, "@hot.lua", "h\x1b[31mot", 7, 9);
    const uint32_t a = syn_node(heap, syn_node(heap, 0, one, 2), hot, 8);
    const uint32_t b = syn_node(heap, syn_node(heap, 0, two, 4), hot, 8);
    add_cell(heap, a, TIDE_KIND_TABLE, 1000, 0);
    add_cell(heap, b, TIDE_KIND_STRING, 2000, 1900);
    add_cell(heap, b, TIDE_KIND_TABLE, 1000, 1000);
    return made_model(&made);
}

TEST(live_details_show_stacks_the_heaviest_first)
{
    struct tide_model *model = two_ways();
    struct tide_r_live_query query = {.by = TIDE_R_BY_LINE};
    char *text = details_of(model, &query, 10);
    CHECK(strstr(text, "hot.lua:8") == text);
    CHECK(strchr(text, '\x1b') == NULL);
    const char *heavy = strstr(text, " 75.0%  2.93 KiB in 4 blocks");
    const char *light =
        strstr(text, " 25.0%  1000 B in 2 blocks, table 100.0%");
    CHECK(heavy != NULL && light != NULL && heavy < light);
    CHECK(strstr(heavy, "string 66.7%") != NULL);
    const char *caller = strstr(heavy, "two  app.lua:4");
    CHECK(caller != NULL && caller < light);
    CHECK(strstr(light, "one  app.lua:2") != NULL);
    free(text);
    query.metric = TIDE_R_METRIC_LIVE;
    text = details_of(model, &query, 1);
    CHECK(strstr(text, " 90.9%  1000 B in 2 blocks live, table") != NULL);
    CHECK(strstr(text, "\n1 more stacks\n") != NULL);
    free(text);
    tideR_model_close(model);
}

TEST(live_row_that_allocates_nothing_itself_says_so)
{
    struct tide_model *model = two_ways();
    struct tide_r_live_query query = {.by = TIDE_R_BY_FUNCTION,
                                      .filter = "name:two"};
    char *text = details_of(model, &query, 10);
    CHECK(strstr(text, "allocates nothing itself") != NULL);
    free(text);
    tideR_model_close(model);
}

/* A target with a function below it, a group that saw nothing. */
static struct tide_model *with_targets(void)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t think = syn_func(heap, TIDE_P_LUA, "@ai.lua", "think", 1, 9);
    const uint32_t help = syn_func(heap, TIDE_P_LUA, "@lib.lua", "help", 2, 3);
    const uint32_t rest = syn_func(heap, TIDE_P_LUA, "@app.lua", "rest", 4, 5);
    const uint32_t idle = syn_func(heap, TIDE_P_LUA, "@ai.lua", "idle", 20, 29);
    const uint32_t a = syn_node(heap, 0, think, 5);
    add_cell(heap, a, TIDE_KIND_TABLE, 100, 0);
    add_cell(heap, syn_node(heap, a, help, 2), TIDE_KIND_TABLE, 2000, 0);
    add_cell(heap, syn_node(heap, 0, rest, 4), TIDE_KIND_TABLE, 300, 0);
    syn_target(heap, &(struct tide_p_target){.func = think,
                                             .group = syn_string(heap, "hooks"),
                                             .name = syn_string(heap, "ai")});
    syn_target(heap, &(struct tide_p_target){.func = idle,
                                             .group = syn_string(heap, "hooks"),
                                             .name = syn_string(heap, "idle")});
    syn_target(heap,
               &(struct tide_p_target){.what = TIDE_P_TARGET_GROUP,
                                       .group = syn_string(heap, "timers")});
    return made_model(&made);
}

TEST(live_targets_have_what_is_below_them)
{
    struct tide_model *model = with_targets();
    struct tide_r_live_query query = {.by = TIDE_R_BY_TARGET};
    struct tide_r_live_labels labels;
    struct tide_r_live_rows rows;
    CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
    CHECK_STR(names_of(model, &query, &rows), "ai no target idle");
    CHECK_EQ(rows.rows[0].counts.alloc_bytes, 2100);
    CHECK_EQ(rows.rows[1].counts.alloc_bytes, 300);
    tideR_live_labels(model, query.by, &rows.rows[2], &labels);
    CHECK_STR(labels.second, "nothing recorded");
    tideR_live_close(&rows);
    char *text = details_of(model, &query, 10);
    CHECK(strstr(text, "help  lib.lua:2\n      think  ai.lua:5") != NULL);
    CHECK(strstr(text, "rest") == NULL);
    free(text);
    query.has_sections = true;
    CHECK_STR(names_by(model, &query),
              "[hooks:2] ai idle [[host]:1] no target");
    tideR_model_close(model);
}

TEST(live_groups_that_saw_nothing_are_shown)
{
    struct tide_model *model = with_targets();
    struct tide_r_live_query query = {.by = TIDE_R_BY_GROUP};
    struct tide_r_live_rows rows;
    struct tide_r_live_labels labels;
    CHECK_EQ(tideR_live_rows(model, &query, &no_rates, &rows), TIDE_OK);
    CHECK_STR(names_of(model, &query, &rows), "hooks app.lua timers");
    CHECK_EQ(rows.rows[0].counts.alloc_bytes, 2100);
    tideR_live_labels(model, query.by, &rows.rows[2], &labels);
    CHECK_STR(labels.second, "nothing recorded");
    tideR_live_close(&rows);
    tideR_model_close(model);
}
