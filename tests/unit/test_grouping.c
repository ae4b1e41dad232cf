/*
** test_grouping.c: groups and targets against figures worked out by hand.
*/
#include "../../report/callers.h"
#include "../../report/select.h"
#include "report_help.h"

/*
** main (app.lua) -> think (ai.lua:10) -> path (ai.lua:30) -> string.rep
**                -> string.rep
**                -> helper (lib.lua:5) -> think
*/
struct game {
    struct made made;
    struct syn_heap *heap;
    uint32_t think, path, rep, helper;
    uint32_t n_main, n_think, n_path, n_deep_rep, n_rep, n_helper, n_inner;
};

static void open_game(struct game *g)
{
    struct syn_heap *heap = g->heap = made_open(&g->made);
    const uint32_t chunk = syn_func(heap, TIDE_P_MAIN, "@app.lua", "", 0, 90);
    g->think = syn_func(heap, TIDE_P_LUA, "@game/ai.lua", "think", 10, 20);
    g->path = syn_func(heap, TIDE_P_LUA, "@game/ai.lua", "path", 30, 40);
    g->rep = syn_func(heap, TIDE_P_C, "=[C]", "string.rep", 0, 0);
    g->helper = syn_func(heap, TIDE_P_LUA, "@lib.lua", "helper", 5, 9);
    g->n_main = syn_node(heap, 0, chunk, 1);
    g->n_think = syn_node(heap, g->n_main, g->think, 11);
    g->n_path = syn_node(heap, g->n_think, g->path, 31);
    g->n_deep_rep = syn_node(heap, g->n_path, g->rep, 0);
    g->n_rep = syn_node(heap, g->n_main, g->rep, 0);
    g->n_helper = syn_node(heap, g->n_main, g->helper, 6);
    g->n_inner = syn_node(heap, g->n_helper, g->think, 12);
    add_cell(heap, g->n_main, TIDE_KIND_TABLE, 1, 0);
    add_cell(heap, g->n_think, TIDE_KIND_TABLE, 10, 0);
    add_cell(heap, g->n_path, TIDE_KIND_TABLE, 100, 0);
    add_cell(heap, g->n_deep_rep, TIDE_KIND_STRING, 1000, 0);
    add_cell(heap, g->n_rep, TIDE_KIND_STRING, 10000, 0);
    add_cell(heap, g->n_helper, TIDE_KIND_TABLE, 100000, 0);
    add_cell(heap, g->n_inner, TIDE_KIND_TABLE, 1000000, 0);
    syn_node_at(heap, g->n_think)->calls = 4;
    syn_node_at(heap, g->n_inner)->calls = 1;
    syn_node_at(heap, g->n_think)->max_call_bytes = 700;
    syn_node_at(heap, g->n_inner)->max_call_bytes = 900;
}

static void put(struct game *g, struct tide_p_target target, const char *group,
                const char *name, const char *source, const char *module)
{
    target.group = syn_string(g->heap, group);
    target.name = syn_string(g->heap, name);
    target.source = syn_string(g->heap, source);
    target.module = syn_string(g->heap, module);
    syn_target(g->heap, &target);
}

#define FUNCTION(f) ((struct tide_p_target){.func = (f)})
#define RULE        ((struct tide_p_target){.what = TIDE_P_TARGET_RULE})
#define MODULE(f)                                                              \
 ((struct tide_p_target){.func = (f), .what = TIDE_P_TARGET_MODULE})

/* NULL: there is none. */
static const struct tide_r_target *
target_of(const struct tide_model *model, const char *group, const char *name)
{
    const struct tide_r_target *found = NULL;
    for (uint32_t i = 1; i < model->n_targets; i++) {
        const struct tide_r_target *t = &model->targets[i];
        if (strcmp(text_of(model, t->name), name) != 0 ||
            strcmp(text_of(model, model->groups[t->group].name), group) != 0)
            continue;
        CHECK(found == NULL);
        found = t;
    }
    return found;
}

static uint64_t bytes_of(const struct tide_model *model, const char *group,
                         const char *name)
{
    const struct tide_r_target *t = target_of(model, group, name);
    return t == NULL ? UINT64_MAX : t->counts.alloc_bytes;
}

static uint64_t group_bytes(const struct tide_model *model, const char *group)
{
    for (uint32_t i = 0; i < model->n_groups; i++)
        if (strcmp(text_of(model, model->groups[i].name), group) == 0)
            return model->groups[i].counts.alloc_bytes;
    return UINT64_MAX;
}

static uint64_t rest_bytes(const struct tide_model *model)
{
    CHECK_EQ(model->targets[0].sort, TIDE_R_TARGET_REST);
    return model->targets[0].counts.alloc_bytes;
}

/* Both lists add up, in every counter that is looked at here. */
static void check_sums(const struct tide_model *model)
{
    struct tide_r_counts targets = {0}, groups = {0};
    for (uint32_t i = 0; i < model->n_targets; i++) {
        targets.alloc_bytes += model->targets[i].counts.alloc_bytes;
        targets.live_bytes += model->targets[i].counts.live_bytes;
        targets.alloc_blocks += model->targets[i].counts.alloc_blocks;
    }
    for (uint32_t i = 0; i < model->n_groups; i++) {
        groups.alloc_bytes += model->groups[i].counts.alloc_bytes;
        groups.live_bytes += model->groups[i].counts.live_bytes;
        groups.alloc_blocks += model->groups[i].counts.alloc_blocks;
    }
    CHECK_EQ(targets.alloc_bytes, model->totals.alloc_bytes);
    CHECK_EQ(targets.live_bytes, model->totals.live_bytes);
    CHECK_EQ(targets.alloc_blocks, model->totals.alloc_blocks);
    CHECK_EQ(groups.alloc_bytes, model->totals.alloc_bytes);
    CHECK_EQ(groups.live_bytes, model->totals.live_bytes);
    CHECK_EQ(groups.alloc_blocks, model->totals.alloc_blocks);
}

TEST(grouping_without_asking_is_by_library_and_file)
{
    struct game g;
    open_game(&g);
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(group_bytes(model, "string"), 11000);
    CHECK_EQ(group_bytes(model, "game/ai.lua"), 1000110);
    CHECK_EQ(group_bytes(model, "lib.lua"), 100000);
    CHECK_EQ(bytes_of(model, "string", "string.rep"), 11000);
    CHECK_EQ(target_of(model, "string", "string.rep")->sort,
             TIDE_R_TARGET_NONE);
    CHECK_EQ(rest_bytes(model), 1100111);
    tideR_model_close(model);
}

TEST(grouping_gives_bytes_to_the_nearest_target)
{
    struct game g;
    open_game(&g);
    put(&g, FUNCTION(g.think), "ai", "AI.think", "", "");
    put(&g, FUNCTION(g.helper), "util", "", "", "");
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "ai", "AI.think"), 1001110);
    CHECK_EQ(bytes_of(model, "util", "helper"), 100000); /* its own name */
    CHECK_EQ(bytes_of(model, "string", "string.rep"), 10000);
    CHECK_EQ(rest_bytes(model), 1);
    CHECK_EQ(group_bytes(model, "ai"), 1001110);
    CHECK_EQ(group_bytes(model, "game/ai.lua"), 0);
    const struct tide_r_target *t = target_of(model, "ai", "AI.think");
    CHECK_EQ(t->calls, 5);
    CHECK_EQ(t->max_call_bytes, 900);
    CHECK_STR(text_of(model, t->source), "game/ai.lua");
    CHECK_EQ(t->linedefined, 10);
    CHECK_STR(group_of(model, func_of(model, "think")), "ai");
    tideR_model_close(model);
}

TEST(grouping_nested_targets_take_from_the_outer_ones)
{
    struct game g;
    open_game(&g);
    put(&g, FUNCTION(g.think), "ai", "think", "", "");
    put(&g, FUNCTION(g.path), "ai", "path", "", "");
    put(&g, FUNCTION(g.rep), "text", "rep", "", "");
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "ai", "think"), 1000010);
    CHECK_EQ(bytes_of(model, "ai", "path"), 100);
    CHECK_EQ(bytes_of(model, "text", "rep"), 11000);
    CHECK_EQ(group_bytes(model, "ai"), 1000110);
    CHECK_EQ(rest_bytes(model), 100001);
    tideR_model_close(model);
}

TEST(grouping_by_rules)
{
    struct game g;
    open_game(&g);
    put(&g, RULE, "all", "", "*.lua", "");
    put(&g, RULE, "ai", "", "*/ai.lua", "");
    put(&g, RULE, "think", "th*", "game*", "");
    put(&g, RULE, "text", "", "", "str*");
    put(&g, RULE, "nothing", "x*", "*.lua", "");
    struct tide_p_target off = RULE;
    off.is_off = 1;
    put(&g, off, "off", "", "*", "");
    put(&g, FUNCTION(g.helper), "mine", "helper", "", "");
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "all", "main chunk"), 1);
    CHECK_EQ(bytes_of(model, "ai", "path"), 100);
    CHECK_EQ(bytes_of(model, "think", "think"), 1000010);
    CHECK_EQ(bytes_of(model, "text", "string.rep"), 11000);
    CHECK_EQ(bytes_of(model, "mine", "helper"), 100000);
    CHECK_EQ(rest_bytes(model), 0);
    CHECK_EQ(group_bytes(model, "off"), UINT64_MAX);
    CHECK_EQ(group_bytes(model, "nothing"), 0);
    tideR_model_close(model);
}

TEST(grouping_knows_modules)
{
    struct game g;
    open_game(&g);
    const uint32_t chunk =
        syn_func(g.heap, TIDE_P_MAIN, "@game/ai.lua", "", 0, 90);
    const uint32_t print = syn_func(g.heap, TIDE_P_C, "lua5.4", "print", 0, 0);
    add_cell(g.heap, syn_node(g.heap, g.n_main, print, 0), TIDE_KIND_STRING, 7,
             0);
    put(&g, MODULE(chunk), "game.ai", "", "", "");
    put(&g, MODULE(print), "base", "", "", "");
    put(&g, RULE, "net", "path", "", "game.*");
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "game.ai", "think"), 1000010);
    CHECK_EQ(bytes_of(model, "net", "path"), 1100);
    CHECK_EQ(bytes_of(model, "base", "print"), 7);
    CHECK_EQ(group_bytes(model, "game/ai.lua"), UINT64_MAX);
    CHECK_EQ(rest_bytes(model), 100001);
    tideR_model_close(model);
}

TEST(grouping_regions_of_one_name_are_one)
{
    struct game g;
    open_game(&g);
    const uint32_t pushed =
        syn_func(g.heap, TIDE_P_REGION, "", "[region] load", 0, 0);
    const uint32_t called =
        syn_func(g.heap, TIDE_P_LUA, "=[region] load", "", 1, 1);
    uint32_t node = syn_node(g.heap, g.n_main, pushed, 0);
    node = syn_node(g.heap, node, g.path, 32);
    add_cell(g.heap, node, TIDE_KIND_TABLE, 5, 0);
    node = syn_node(g.heap, g.n_main, called, 1);
    syn_node_at(g.heap, node)->calls = 3;
    node = syn_node(g.heap, node, g.helper, 7);
    add_cell(g.heap, node, TIDE_KIND_TABLE, 50, 0);
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "regions", "load"), 55);
    CHECK_EQ(target_of(model, "regions", "load")->calls, 3);
    CHECK_EQ(target_of(model, "regions", "load")->sort, TIDE_R_TARGET_REGION);
    CHECK(func_of(model, "[region] load") != NULL);
    /* what is made in a region belongs to the line that makes it */
    CHECK_EQ(line_of(model, "game/ai.lua", 32)->counts.alloc_bytes, 5);
    tideR_model_close(model);
}

TEST(grouping_shows_groups_that_are_empty)
{
    struct game g;
    open_game(&g);
    const uint32_t idle =
        syn_func(g.heap, TIDE_P_LUA, "@game/ai.lua", "idle", 50, 51);
    put(&g, FUNCTION(idle), "ai", "AI.idle", "", "");
    put(&g, (struct tide_p_target){.what = TIDE_P_TARGET_GROUP}, "empty", "",
        "", "");
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    const struct tide_r_query query = {.top = 0};
    struct tide_r_pick pick;
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_TARGET, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 3); /* the rest, string.rep, AI.idle */
    CHECK_EQ(model->targets[pick.rows[2]].counts.alloc_bytes, 0);
    CHECK_STR(text_of(model, model->targets[pick.rows[2]].name), "AI.idle");
    tideR_pick_close(&pick);
    CHECK_EQ(tideR_pick(model, TIDE_R_BY_GROUP, &query, &pick), TIDE_OK);
    CHECK_EQ(pick.n, 6);
    CHECK_EQ(group_bytes(model, "empty"), 0);
    tideR_pick_close(&pick);
    tideR_model_close(model);
}

TEST(grouping_two_states_are_grouped_together)
{
    struct game g;
    open_game(&g);
    put(&g, FUNCTION(g.think), "ai", "think", "", "");
    struct syn_heap *other = made_heap(&g.made);
    const uint32_t think =
        syn_func(other, TIDE_P_LUA, "@game/ai.lua", "think", 10, 20);
    add_cell(other, syn_node(other, 0, think, 11), TIDE_KIND_TABLE, 3, 0);
    struct tide_model *model = made_model(&g.made);
    check_sums(model);
    CHECK_EQ(bytes_of(model, "ai", "think"), 1001113);
    tideR_model_close(model);
}

TEST(grouping_of_random_profiles_adds_up)
{
    for (unsigned seed = 1; seed <= 20; seed++) {
        struct tide_model *model =
            model_of_shape(&(struct syn_shape){.seed = seed,
                                               .n_heaps = 1 + seed % 3,
                                               .n_funcs = 30,
                                               .n_nodes = 200,
                                               .n_targets = seed});
        check_sums(model);
        tideR_model_close(model);
    }
}

TEST(callers_are_lines_with_all_that_was_called)
{
    struct game g;
    open_game(&g);
    put(&g, FUNCTION(g.think), "ai", "AI.think", "", "");
    /* the callers that a function has in its own recursion do not count */
    const uint32_t again = syn_node(g.heap, g.n_path, g.think, 13);
    add_cell(g.heap, again, TIDE_KIND_TABLE, 4, 0);
    struct tide_model *model = made_model(&g.made);
    struct tide_r_callers callers;
    CHECK_EQ(tideR_callers_find(model, "AI.think", &callers), TIDE_OK);
    CHECK_EQ(callers.n, 2);
    CHECK_EQ(callers.n_funcs, 1);
    CHECK_EQ(callers.rows[0].bytes, 1000000);
    CHECK_EQ(callers.rows[0].calls, 1);
    CHECK_EQ(callers.rows[0].max_call_bytes, 900);
    CHECK_EQ(model->frames[callers.rows[0].frame].line, 6);
    CHECK_EQ(callers.rows[1].bytes, 1114);
    CHECK_EQ(callers.rows[1].calls, 4);
    CHECK_EQ(model->frames[callers.rows[1].frame].line, 1);
    tideR_callers_close(&callers);
    CHECK_EQ(tideR_callers_find(model, "string.rep", &callers), TIDE_OK);
    CHECK_EQ(callers.n, 2);
    CHECK_EQ(callers.rows[0].bytes, 10000);
    CHECK_EQ(callers.rows[1].bytes, 1000);
    CHECK_EQ(model->frames[callers.rows[1].frame].line, 31);
    tideR_callers_close(&callers);
    CHECK_EQ(tideR_callers_find(model, "nobody", &callers), TIDE_OK);
    CHECK_EQ(callers.n, 0);
    tideR_callers_close(&callers);
    tideR_model_close(model);
}
