/*
** test_diff.c: which row of one model is which of another.
*/
#include <stdlib.h>
#include <string.h>

#include "../../report/diffrows.h"
#include "report_help.h"

static struct tide_model *made_from(const char *name,
                                    const struct syn_shape *shape)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    const char *path = scratch_path(name);
    syn_write(path, shape);
    CHECK_EQ(tideR_model_open(path, &model, &problem), TIDE_OK);
    return model;
}

/* Every row of both models stands in one pair, and no pair is empty. */
static void check_pairs(const struct tide_r_pair *pairs, uint32_t n,
                        uint32_t first, uint32_t n_base, uint32_t n_now)
{
    unsigned char *base = calloc(n_base + 1, 1);
    unsigned char *now = calloc(n_now + 1, 1);
    CHECK(base != NULL && now != NULL);
    for (uint32_t i = first; i < n; i++) {
        CHECK(i == 0 || pairs[i].base != TIDE_R_NONE ||
              pairs[i].now != TIDE_R_NONE);
        CHECK(pairs[i].base < n_base && pairs[i].now < n_now);
        base[pairs[i].base]++;
        now[pairs[i].now]++;
    }
    for (uint32_t i = 1; i < n_base; i++)
        CHECK_EQ(base[i], 1);
    for (uint32_t i = 1; i < n_now; i++)
        CHECK_EQ(now[i], 1);
    free(base);
    free(now);
}

static void check_whole(const struct tide_diff *diff)
{
    const struct tide_model *base = diff->base_or_null;
    const struct tide_model *now = diff->now;
    struct tide_r_pair *nodes = calloc(diff->n_nodes, sizeof *nodes);
    CHECK(nodes != NULL);
    check_pairs(diff->funcs, diff->n_funcs, 0, base->n_funcs, now->n_funcs);
    check_pairs(diff->lines, diff->n_lines, 1, base->n_lines, now->n_lines);
    check_pairs(diff->targets, diff->n_targets, 0, base->n_targets,
                now->n_targets);
    for (uint32_t i = 0; i < diff->n_nodes; i++) {
        nodes[i] = diff->nodes[i].nodes;
        CHECK(i == 0 || diff->nodes[i].parent < i);
    }
    check_pairs(nodes, diff->n_nodes, 0, base->n_nodes, now->n_nodes);
    free(nodes);
}

TEST(diff_of_equal_models_pairs_every_row)
{
    const struct syn_shape shape = {
        .seed = 3, .n_nodes = 400, .n_heaps = 2, .n_targets = 9};
    struct tide_model *base = made_from("base.tide", &shape);
    struct tide_model *now = made_from("now.tide", &shape);
    struct tide_diff diff;
    struct tide_r_dpick pick;
    const struct tide_r_query all = {.sort = TIDE_R_SORT_ALLOC};
    CHECK_EQ(tideR_diff_open(base, now, NULL, &diff), TIDE_OK);
    check_whole(&diff);
    CHECK_EQ(diff.n_funcs, now->n_funcs);
    CHECK_EQ(diff.n_lines, now->n_lines);
    CHECK_EQ(diff.n_targets, now->n_targets);
    CHECK_EQ(diff.n_nodes, now->n_nodes);
    CHECK_EQ(tideR_dpick(&diff, TIDE_R_BY_LINE, &all, false, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 0);
    CHECK_EQ(pick.n_noise, 0);
    tideR_dpick_close(&pick);
    tideR_diff_close(&diff);
    tideR_model_close(base);
    tideR_model_close(now);
}

TEST(diff_of_any_models_has_every_row_once)
{
    for (uint64_t seed = 1; seed < 12; seed++) {
        const struct syn_shape a = {.seed = seed, .n_nodes = 300};
        const struct syn_shape b = {
            .seed = seed + 100, .n_nodes = 200, .n_funcs = 40, .n_heaps = 2};
        struct tide_model *base = made_from("base.tide", &a);
        struct tide_model *now = made_from("now.tide", &b);
        struct tide_diff diff;
        struct tide_r_dpick pick;
        const struct tide_r_query all = {.sort = TIDE_R_SORT_ALLOC};
        uint64_t sums[2] = {0, 0};
        CHECK_EQ(tideR_diff_open(base, now, NULL, &diff), TIDE_OK);
        check_whole(&diff);
        CHECK_EQ(tideR_dpick(&diff, TIDE_R_BY_LINE, &all, true, &pick),
                 TIDE_OK);
        for (uint32_t i = 0; i < pick.n; i++) {
            sums[0] += pick.rows[i].base.counts.alloc_bytes;
            sums[1] += pick.rows[i].now.counts.alloc_bytes;
        }
        CHECK_EQ(sums[0] + base->unattributed.alloc_bytes,
                 base->totals.alloc_bytes);
        CHECK_EQ(sums[1] + now->unattributed.alloc_bytes,
                 now->totals.alloc_bytes);
        tideR_dpick_close(&pick);
        tideR_diff_close(&diff);
        tideR_model_close(base);
        tideR_model_close(now);
    }
}

/* One function of 10 lines with one line that allocates. */
static struct tide_model *one_function(const char *source, uint32_t first,
                                       uint64_t bytes)
{
    static struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t main_func = syn_func(heap, TIDE_P_MAIN, source, "", 0, 90);
    const uint32_t func =
        syn_func(heap, TIDE_P_LUA, source, "work", first, first + 9);
    const uint32_t top = syn_node(heap, 0, main_func, first + 20);
    const uint32_t node = syn_node(heap, top, func, first + 3);
    add_cell(heap, node, TIDE_KIND_TABLE, bytes, 0);
    return made_model(&made);
}

static struct tide_r_drow only_line(const struct tide_diff *diff)
{
    struct tide_r_dpick pick;
    const struct tide_r_query all = {.sort = TIDE_R_SORT_ALLOC};
    CHECK_EQ(tideR_dpick(diff, TIDE_R_BY_LINE, &all, true, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 1);
    const struct tide_r_drow row = pick.rows[0];
    tideR_dpick_close(&pick);
    return row;
}

TEST(diff_matches_lines_by_their_place_in_the_function)
{
    struct tide_model *base = one_function("@app.lua", 5, 1000);
    struct tide_model *now = one_function("@app.lua", 25, 4000);
    struct tide_diff diff;
    CHECK_EQ(tideR_diff_open(base, now, NULL, &diff), TIDE_OK);
    const struct tide_r_drow row = only_line(&diff);
    CHECK(row.has_base && row.has_now);
    CHECK_EQ(row.base.counts.alloc_bytes, 1000);
    CHECK_EQ(row.now.counts.alloc_bytes, 4000);
    CHECK(!diff.has_texts);
    tideR_diff_close(&diff);
    tideR_model_close(base);
    tideR_model_close(now);
}

TEST(diff_matches_a_file_in_another_folder)
{
    struct tide_model *base = one_function("@old/app.lua", 5, 1000);
    struct tide_model *now = one_function("@new/app.lua", 6, 1000);
    struct tide_diff diff;
    CHECK_EQ(tideR_diff_open(base, now, NULL, &diff), TIDE_OK);
    const struct tide_r_drow row = only_line(&diff);
    CHECK(row.has_base && row.has_now);
    tideR_diff_close(&diff);
    tideR_model_close(base);
    tideR_model_close(now);
}

TEST(diff_without_a_base_is_the_model)
{
    const struct syn_shape shape = {.seed = 8, .n_nodes = 100};
    struct tide_model *now = made_from("now.tide", &shape);
    struct tide_diff diff;
    CHECK_EQ(tideR_diff_open(NULL, now, NULL, &diff), TIDE_OK);
    CHECK_EQ(diff.n_funcs, now->n_funcs);
    CHECK_EQ(diff.n_lines, now->n_lines);
    CHECK_EQ(diff.n_nodes, now->n_nodes);
    for (uint32_t i = 1; i < diff.n_nodes; i++)
        CHECK_EQ(diff.nodes[i].nodes.now, i);
    tideR_diff_close(&diff);
    tideR_model_close(now);
}

TEST(diff_noise_is_one_percent)
{
    CHECK(tideR_diff_is_noise(1000, 1000));
    CHECK(tideR_diff_is_noise(1000, 1010));
    CHECK(tideR_diff_is_noise(1000, 990));
    CHECK(!tideR_diff_is_noise(1000, 1011));
    CHECK(!tideR_diff_is_noise(1000, 980));
    CHECK(!tideR_diff_is_noise(0, 1));
    CHECK(tideR_diff_is_noise(0, 0));
}

/* Functions of a group "g": name, first line, bytes; up to a NULL name. */
struct made_target {
    const char *name;
    uint32_t line;
    uint64_t bytes;
};

static struct tide_model *targets_of(const struct made_target *targets)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    for (; targets->name != NULL; targets++) {
        const struct tide_p_target record = {
            .func = syn_func(heap, TIDE_P_LUA, "@app.lua", targets->name,
                             targets->line, targets->line + 5),
            .group = syn_string(heap, "g"),
            .name = syn_string(heap, targets->name),
        };
        syn_target(heap, &record);
        add_cell(heap, syn_node(heap, 0, record.func, targets->line + 1),
                 TIDE_KIND_TABLE, targets->bytes, 0);
    }
    return made_model(&made);
}

TEST(diff_matches_targets_by_name_and_order)
{
    static const struct made_target before[] = {{"same", 10, 1000},
                                                {"twice", 20, 2000},
                                                {"twice", 40, 4000},
                                                {"gone", 60, 6000},
                                                {NULL, 0, 0}};
    static const struct made_target after[] = {{"new", 5, 50},
                                               {"same", 30, 1500},
                                               {"twice", 40, 2100},
                                               {"twice", 60, 9000},
                                               {NULL, 0, 0}};
    struct tide_model *base = targets_of(before);
    struct tide_model *now = targets_of(after);
    struct tide_diff diff;
    struct tide_r_dpick pick;
    const struct tide_r_query all = {.sort = TIDE_R_SORT_ALLOC};
    CHECK_EQ(tideR_diff_open(base, now, NULL, &diff), TIDE_OK);
    check_whole(&diff);
    CHECK_EQ(diff.n_targets, 6); /* the rest, and five */
    CHECK_EQ(tideR_dpick(&diff, TIDE_R_BY_TARGET, &all, true, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 5);
    static const struct {
        const char *name;
        uint64_t base, now;
    } want[] = {{"twice", 4000, 9000},
                {"same", 1000, 1500},
                {"twice", 2000, 2100},
                {"new", 0, 50},
                {"gone", 6000, 0}};
    for (uint32_t i = 0; i < 5; i++) {
        const struct tide_r_drow *row = &pick.rows[i];
        const struct tide_model *of =
            tideR_diff_model(&diff, diff.targets[row->pair]);
        CHECK_STR(text_of(of, tideR_diff_target(&diff, row->pair)->name),
                  want[i].name);
        CHECK_EQ(row->base.counts.alloc_bytes, want[i].base);
        CHECK_EQ(row->now.counts.alloc_bytes, want[i].now);
    }
    tideR_dpick_close(&pick);
    tideR_diff_close(&diff);
    tideR_model_close(base);
    tideR_model_close(now);
}
