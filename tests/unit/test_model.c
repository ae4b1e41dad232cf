/*
** test_model.c: the model against figures worked out by hand, and against a
** naive count over random profiles.
**
** The naive count walks from every cell to the root and looks its rows up by
** their texts, one after the other: as slow and as plain as can be, and
** sharing nothing with the model but the reader.
*/
#include <inttypes.h>

#include "report_help.h"

/* ---- by hand ------------------------------------------------------------ */

/* main (app.lua:3) -> work (app.lua:11) -> string.rep */
struct small {
    struct made made;
    struct syn_heap *heap;
    uint32_t main_node;
    uint32_t work_node;
    uint32_t rep_node;
};

static void open_small(struct small *small)
{
    struct syn_heap *heap = made_open(&small->made);
    const uint32_t chunk = syn_func(heap, TIDE_P_MAIN, "@app.lua", "", 0, 30);
    const uint32_t work =
        syn_func(heap, TIDE_P_LUA, "@app.lua", "work", 10, 20);
    const uint32_t rep = syn_func(heap, TIDE_P_C, "=[C]", "string.rep", 0, 0);
    small->heap = heap;
    small->main_node = syn_node(heap, 0, chunk, 3);
    small->work_node = syn_node(heap, small->main_node, work, 11);
    small->rep_node = syn_node(heap, small->work_node, rep, 0);
}

TEST(model_charges_c_functions_to_their_caller)
{
    struct small small;
    open_small(&small);
    add_cell(small.heap, small.rep_node, TIDE_KIND_STRING, 1000, 400);
    add_cell(small.heap, small.work_node, TIDE_KIND_TABLE, 56, 0);
    struct tide_model *model = made_model(&small.made);
    const struct tide_r_line *line = line_of(model, "app.lua", 11);
    CHECK_EQ(line->counts.alloc_bytes, 1056);
    CHECK_EQ(line->counts.freed_bytes, 400);
    CHECK_EQ(line->counts.live_bytes, 656);
    CHECK_STR(text_of(model, tideR_line_func(model, line)->name), "work");
    CHECK_EQ(func_of(model, "string.rep")->own.alloc_bytes, 1000);
    CHECK_EQ(func_of(model, "work")->own.alloc_bytes, 56);
    CHECK_EQ(func_of(model, "work")->total_bytes, 1056);
    CHECK_EQ(func_of(model, "main chunk")->own.alloc_bytes, 0);
    CHECK_EQ(func_of(model, "main chunk")->total_bytes, 1056);
    CHECK_EQ(model->unattributed.alloc_bytes, 0);
    tideR_model_close(model);
}

TEST(model_splits_a_line_by_kind)
{
    struct small small;
    open_small(&small);
    add_cell(small.heap, small.rep_node, TIDE_KIND_STRING, 1000, 400);
    add_cell(small.heap, small.work_node, TIDE_KIND_STRING, 7, 0);
    add_cell(small.heap, small.work_node, TIDE_KIND_TABLE, 56, 0);
    struct tide_model *model = made_model(&small.made);
    struct tide_r_line_kind kinds[TIDE_KIND_COUNT_];
    const struct tide_r_line *line = line_of(model, "app.lua", 11);
    tideR_line_kinds(model, (uint32_t)(line - model->lines), kinds);
    CHECK_EQ(kinds[TIDE_KIND_STRING].alloc_bytes, 1007);
    CHECK_EQ(kinds[TIDE_KIND_STRING].live_bytes, 607);
    CHECK_EQ(kinds[TIDE_KIND_TABLE].alloc_bytes, 56);
    CHECK_EQ(kinds[TIDE_KIND_OTHER].alloc_bytes, 0);
    CHECK_EQ(model->kinds[TIDE_KIND_STRING].live_bytes, 607);
    tideR_model_close(model);
}

TEST(model_does_not_blame_the_interrupted_line)
{
    struct small small;
    open_small(&small);
    struct syn_heap *heap = small.heap;
    const uint32_t pseudo = syn_func(heap, TIDE_P_FINALIZER, "", "", 0, 0);
    const uint32_t gc = syn_func(heap, TIDE_P_C, "=[C]", "file:__gc", 0, 0);
    const uint32_t lua_gc =
        syn_func(heap, TIDE_P_LUA, "@gc.lua", "on_gc", 5, 8);
    const uint32_t finalizer = syn_node(heap, small.work_node, pseudo, 0);
    const uint32_t in_c = syn_node(heap, finalizer, gc, 0);
    const uint32_t in_lua = syn_node(heap, finalizer, lua_gc, 6);
    add_cell(heap, in_c, TIDE_KIND_STRING, 100, 0);
    add_cell(heap, in_lua, TIDE_KIND_STRING, 30, 0);
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(line_of(model, "app.lua", 11)->counts.alloc_bytes, 0);
    CHECK_EQ(line_of(model, "gc.lua", 6)->counts.alloc_bytes, 30);
    CHECK_EQ(model->unattributed.alloc_bytes, 100);
    CHECK_EQ(func_of(model, "[finalizer]")->total_bytes, 130);
    tideR_model_close(model);
}

TEST(model_counts_recursion_once)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t a = syn_func(heap, TIDE_P_LUA, "@r.lua", "a", 1, 9);
    const uint32_t b = syn_func(heap, TIDE_P_LUA, "@r.lua", "b", 10, 19);
    const uint32_t n1 = syn_node(heap, 0, a, 2);
    const uint32_t n2 = syn_node(heap, n1, b, 11);
    const uint32_t n3 = syn_node(heap, n2, a, 3);
    const uint32_t n4 = syn_node(heap, n3, b, 11);
    add_cell(heap, n1, TIDE_KIND_TABLE, 1, 0);
    add_cell(heap, n2, TIDE_KIND_TABLE, 10, 0);
    add_cell(heap, n3, TIDE_KIND_TABLE, 100, 0);
    add_cell(heap, n4, TIDE_KIND_TABLE, 1000, 0);
    struct tide_model *model = made_model(&made);
    CHECK_EQ(func_of(model, "a")->total_bytes, 1111);
    CHECK_EQ(func_of(model, "b")->total_bytes, 1110);
    CHECK_EQ(func_of(model, "a")->own.alloc_bytes, 101);
    CHECK_EQ(func_of(model, "b")->total_blocks, 6);
    CHECK_EQ(line_of(model, "r.lua", 11)->counts.alloc_bytes, 1010);
    tideR_model_close(model);
}

TEST(model_adds_calls_and_takes_the_worst)
{
    struct small small;
    open_small(&small);
    const uint32_t again = syn_node(
        small.heap, 0, syn_node_at(small.heap, small.work_node)->func, 12);
    syn_node_at(small.heap, small.work_node)->calls = 7;
    syn_node_at(small.heap, small.work_node)->max_call_bytes = 500;
    syn_node_at(small.heap, again)->calls = 5;
    syn_node_at(small.heap, again)->max_call_bytes = 900;
    add_cell(small.heap, again, TIDE_KIND_TABLE, 56, 0);
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(func_of(model, "work")->calls, 12);
    CHECK_EQ(func_of(model, "work")->max_call_bytes, 900);
    CHECK_EQ(func_of(model, "main chunk")->calls, 0);
    tideR_model_close(model);
}

TEST(model_follows_blocks_that_move)
{
    struct small small;
    open_small(&small);
    struct tide_p_cell *from =
        add_cell(small.heap, small.main_node, TIDE_KIND_STORAGE, 1000, 100);
    struct tide_p_cell *to =
        add_cell(small.heap, small.work_node, TIDE_KIND_STORAGE, 50, 0);
    rest_of(small.heap, from)->moved_bytes = -600;
    rest_of(small.heap, to)->moved_bytes = 600;
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(line_of(model, "app.lua", 3)->counts.live_bytes, 300);
    CHECK_EQ(line_of(model, "app.lua", 3)->counts.moved_bytes, -600);
    CHECK_EQ(line_of(model, "app.lua", 11)->counts.live_bytes, 650);
    CHECK_EQ(model->totals.moved_bytes, 0);
    CHECK_EQ(model->totals.live_bytes, 950);
    tideR_model_close(model);
}

TEST(model_knows_what_was_held_at_the_peak)
{
    struct small small;
    open_small(&small);
    struct tide_p_cell *changed =
        add_cell(small.heap, small.main_node, TIDE_KIND_STORAGE, 1000, 900);
    struct tide_p_cell *same =
        add_cell(small.heap, small.work_node, TIDE_KIND_STORAGE, 50, 0);
    small.heap->head->peak_is_past = 1;
    small.heap->head->peak_epoch = 4;
    changed->peak_epoch = 4;
    rest_of(small.heap, changed)->peak_bytes = 700;
    same->peak_epoch = 3;
    rest_of(small.heap, same)->peak_bytes =
        12345; /* of an older peak: does not count */
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(line_of(model, "app.lua", 3)->counts.peak_bytes, 700);
    CHECK_EQ(line_of(model, "app.lua", 11)->counts.peak_bytes, 50);
    CHECK_EQ(model->totals.peak_bytes, 750);
    tideR_model_close(model);
}

TEST(model_has_inherited_bytes_in_live_only)
{
    struct small small;
    open_small(&small);
    struct tide_p_cell *cell =
        add_cell(small.heap, small.work_node, TIDE_KIND_TABLE, 100, 30);
    rest_of(small.heap, cell)->inherited_bytes = 1000;
    rest_of(small.heap, cell)->inherited_blocks = 10;
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(model->totals.alloc_bytes, 100);
    CHECK_EQ(model->totals.live_bytes, 1070);
    CHECK_EQ(model->totals.inherited_bytes, 1000);
    CHECK_EQ(model->n_findings, 1);
    CHECK(strstr(model->findings[0].text, "1000 B were alive") != NULL);
    tideR_model_close(model);
}

TEST(model_names_the_function_that_allocated_most_on_a_line)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t outer = syn_func(heap, TIDE_P_LUA, "@x.lua", "outer", 1, 9);
    const uint32_t inner = syn_func(heap, TIDE_P_LUA, "@x.lua", "inner", 4, 4);
    const uint32_t n1 = syn_node(heap, 0, outer, 4);
    const uint32_t n2 = syn_node(heap, n1, inner, 4);
    add_cell(heap, n1, TIDE_KIND_FUNCTION, 40, 0);
    add_cell(heap, n2, TIDE_KIND_TABLE, 56, 0);
    struct tide_model *model = made_model(&made);
    const struct tide_r_line *line = line_of(model, "x.lua", 4);
    CHECK_EQ(line->counts.alloc_bytes, 96);
    CHECK_STR(text_of(model, tideR_line_func(model, line)->name), "inner");
    tideR_model_close(model);
}

TEST(model_merges_heaps)
{
    struct made made;
    struct syn_heap *first = made_open(&made);
    struct syn_heap *second = made_heap(&made);
    for (unsigned i = 0; i < 2; i++) {
        struct syn_heap *heap = i == 0 ? first : second;
        /* other numbers in the second heap */
        if (i == 1)
            syn_func(heap, TIDE_P_C, "=[C]", "print", 0, 0);
        const uint32_t f =
            syn_func(heap, TIDE_P_LUA, "@m.lua", i == 0 ? "" : "late", 1, 9);
        const uint32_t node = syn_node(heap, 0, f, 2);
        add_cell(heap, node, TIDE_KIND_TABLE, i == 0 ? 100 : 10, 0);
    }
    struct tide_model *model = made_model(&made);
    CHECK_EQ(line_of(model, "m.lua", 2)->counts.alloc_bytes, 110);
    CHECK_EQ(func_of(model, "late")->own.alloc_bytes, 110);
    CHECK(func_of(model, "function <m.lua:1>") == NULL);
    CHECK_EQ(model->n_nodes, 2);
    CHECK_EQ(model->n_stacks, 3); /* none, the merged one, its second half */
    struct tide_r_counts counts;
    tideR_model_stack_counts(model, model->nodes[1].first_stack, &counts);
    CHECK_EQ(counts.alloc_bytes, 110);
    CHECK_EQ(model->n_states, 2);
    tideR_model_close(model);
}

TEST(model_shows_sources_without_marks)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    static const char *const sources[] = {"@a.lua", "=stdin",
                                          "[string \"return 1\"]", "@"};
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t f = syn_func(heap, TIDE_P_LUA, sources[i], "f", 1, 9);
        add_cell(heap, syn_node(heap, 0, f, 2), TIDE_KIND_TABLE, 10, 0);
    }
    struct tide_model *model = made_model(&made);
    CHECK(line_of(model, "a.lua", 2) != NULL);
    CHECK(line_of(model, "stdin", 2) != NULL);
    CHECK(line_of(model, "[string \"return 1\"]", 2) != NULL);
    CHECK(line_of(model, "", 2) != NULL);
    tideR_model_close(model);
}

/* The group that a C function gets by its name and object. */
static const char *c_group(const char *object, const char *name)
{
    static char text[256];
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t f = syn_func(heap, TIDE_P_C, object, name, 0, 0);
    syn_func_at(heap, f)->address = 0x1234;
    syn_node(heap, 0, f, 0);
    struct tide_model *model = made_model(&made);
    snprintf(text, sizeof text, "%s", group_of(model, &model->funcs[1]));
    tideR_model_close(model);
    return text;
}

TEST(model_groups_c_functions_by_module)
{
    CHECK_STR(c_group("=[C]", "string.rep"), "string");
    CHECK_STR(c_group("/usr/bin/lua5.4", "socket.core.tcp"), "socket.core");
    CHECK_STR(c_group("/usr/bin/lua5.4", "file:lines"), "file");
    CHECK_STR(c_group("/usr/bin/lua5.4", "print"), "lua5.4");
    CHECK_STR(c_group("/lib/lua/lpeg.so.1", ""), "lpeg");
    CHECK_STR(c_group("lib.so", ".x"), "lib");
    CHECK_STR(c_group("", ""), "C");
    CHECK_STR(c_group("/a/b.so", "for iterator 'a.b'"), "b");
}

TEST(model_names_what_has_no_name)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t c = syn_func(heap, TIDE_P_C, "x.so", "", 0, 0);
    syn_func_at(heap, c)->address = 0xabc;
    syn_func(heap, TIDE_P_LUA, "@x.lua", "", 7, 9);
    syn_func(heap, TIDE_P_LUA, "@x.lua", "?", 17, 19);
    syn_func(heap, TIDE_P_COROUTINE, "@x.lua", "body", 7, 0);
    syn_func(heap, TIDE_P_COROUTINE, "@x.lua", "", 8, 0);
    syn_func(heap, TIDE_P_OTHER_STACKS, "", "", 0, 0);
    struct tide_model *model = made_model(&made);
    CHECK(func_of(model, "[host]") == &model->funcs[0]);
    CHECK(func_of(model, "C function <0xabc>") != NULL);
    CHECK(func_of(model, "function <x.lua:7>") != NULL);
    CHECK(func_of(model, "function <x.lua:17>") != NULL);
    CHECK(func_of(model, "[coroutine body]") != NULL);
    CHECK(func_of(model, "[coroutine]") != NULL);
    CHECK(func_of(model, "[other stacks]") != NULL);
    CHECK_STR(group_of(model, func_of(model, "[coroutine body]")),
              "[coroutine]");
    tideR_model_close(model);
}

TEST(model_tells_nameless_c_functions_apart_by_address)
{
    struct made made;
    struct syn_heap *first = made_open(&made);
    struct syn_heap *second = made_heap(&made);
    const uint32_t a = syn_func(first, TIDE_P_C, "x.so", "", 0, 0);
    const uint32_t b = syn_func(first, TIDE_P_C, "x.so", "", 0, 0);
    const uint32_t c = syn_func(second, TIDE_P_C, "x.so", "", 0, 0);
    syn_func_at(first, a)->address = 1;
    syn_func_at(first, b)->address = 2;
    syn_func_at(second, c)->address = 2;
    struct tide_model *model = made_model(&made);
    CHECK_EQ(model->n_funcs, 3);
    tideR_model_close(model);
}

TEST(model_groups_text_chunks_together)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t a = syn_func(heap, TIDE_P_LUA, "[string \"a\"]", "f", 1, 2);
    const uint32_t b = syn_func(heap, TIDE_P_MAIN, "[string \"b\"]", "", 0, 2);
    add_cell(heap, syn_node(heap, 0, a, 1), TIDE_KIND_TABLE, 10, 0);
    add_cell(heap, syn_node(heap, 0, b, 1), TIDE_KIND_TABLE, 20, 0);
    struct tide_model *model = made_model(&made);
    const struct tide_r_func *func = func_of(model, "f");
    CHECK_STR(group_of(model, func), "[string]");
    CHECK_EQ(model->groups[func->group].counts.alloc_bytes, 30);
    tideR_model_close(model);
}

TEST(model_keeps_what_has_no_lua_line)
{
    struct small small;
    open_small(&small);
    const uint32_t host =
        syn_func(small.heap, TIDE_P_C, "host", "host_init", 0, 0);
    const uint32_t node = syn_node(small.heap, 0, host, 0);
    add_cell(small.heap, 0, TIDE_KIND_OTHER, 1000, 0);
    add_cell(small.heap, node, TIDE_KIND_TABLE, 56, 0);
    add_cell(small.heap, small.work_node, TIDE_KIND_TABLE, 1, 0);
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(model->unattributed.alloc_bytes, 1056);
    CHECK_EQ(model->totals.alloc_bytes, 1057);
    CHECK_EQ(model->funcs[0].own.alloc_bytes, 1000);
    CHECK_EQ(model->funcs[0].total_bytes, 1000);
    CHECK_EQ(func_of(model, "host_init")->total_bytes, 56);
    tideR_model_close(model);
}

/* ---- the run and the collector ------------------------------------------ */

TEST(model_orders_cycles_by_time)
{
    struct small small;
    open_small(&small);
    struct syn_heap *second = made_heap(&small.made);
    struct tide_p_cycle cycle = {.atomic_mono_ns = 3000000000u,
                                 .before_bytes = 5000,
                                 .freed_bytes = 2048,
                                 .n = 4,
                                 .node = small.rep_node,
                                 .mode = 1,
                                 .cause = TIDE_P_CAUSE_EXPLICIT};
    syn_cycle(small.heap, &cycle);
    cycle.atomic_mono_ns = 2000000000u;
    cycle.freed_bytes = 1024;
    cycle.n = 1;
    cycle.node = 0;
    cycle.cause = TIDE_P_CAUSE_EMERGENCY;
    syn_cycle(second, &cycle);
    small.heap->head->gc_cycle = 4;
    second->head->gc_cycle = 1;
    struct tide_model *model = made_model(&small.made);
    CHECK_EQ(model->n_cycles, 2);
    CHECK_EQ(model->cycles[0].record->n, 1);
    CHECK_EQ(model->cycles[0].line_row, TIDE_R_NONE);
    CHECK_EQ(model->lines[model->cycles[1].line_row].line, 11);
    CHECK_EQ(model->gc.cycles, 5); /* three were seen and not recorded */
    CHECK(model->gc.last_kb == 2.0);
    CHECK(model->gc.reclaimed_kb == 3.0);
    CHECK(model->gc.average_kb == 1.5);
    CHECK_EQ(model->gc.n_explicit, 1);
    CHECK_EQ(model->gc.n_emergency, 1);
    CHECK_STR(model->gc.mode, "generational");
    tideR_model_close(model);
}

TEST(model_gives_rates_over_the_whole_run)
{
    struct small small;
    open_small(&small);
    struct tide_p_header *header = tideP_writer_header(small.made.writer);
    header->start_mono_ns = 1000000000u;
    header->end_mono_ns = 31000000000u;
    add_cell(small.heap, small.work_node, TIDE_KIND_TABLE, 60 * 1024, 0);
    small.heap->head->gc_cycle = 7;
    struct tide_model *model = made_model(&small.made);
    CHECK(model->seconds == 30.0);
    CHECK(model->gc.alloc_kb_s == 2.0);
    CHECK(model->gc.cycles_min == 14.0);
    CHECK(model->gc.heap_kb == 60.0);
    CHECK(model->is_complete);
    tideR_model_close(model);
}

TEST(model_says_what_limits_it)
{
    struct small small;
    open_small(&small);
    struct tide_p_header *header = tideP_writer_header(small.made.writer);
    header->tier = TIDE_TIER_PARTIAL;
    strcpy(header->tier_reason, "the pc was not found");
    add_cell(small.heap, 0, TIDE_KIND_OTHER, 1000, 0);
    small.heap->head->before_bytes = 5000;
    small.heap->head->before_freed_bytes = 1000;
    small.heap->head->failed_blocks = 3;
    small.heap->head->inferred_bytes = 77;
    small.heap->head->unknown_calls = 9;
    const uint32_t off =
        syn_func(small.heap, TIDE_P_NOT_RECORDED, "", "", 0, 0);
    add_cell(small.heap, syn_node(small.heap, 0, off, 0), TIDE_KIND_OTHER, 512,
             0);
    struct tide_model *model = made_model(&small.made);
    static const char *const wanted[] = {
        "the pc was not found",
        "77 B was inferred",
        "9 calls",
        "have no Lua line",
        "3.91 KiB were made before",
        "3 allocations failed",
        "[not recorded]",
    };
    CHECK_EQ(model->before_bytes, 4000);
    CHECK_EQ(model->n_findings, sizeof wanted / sizeof wanted[0]);
    for (unsigned i = 0; i < model->n_findings; i++) {
        CHECK_STR(model->findings[i].kind, "note");
        CHECK(strstr(model->findings[i].text, wanted[i]) != NULL);
    }
    tideR_model_close(model);
}

TEST(model_of_a_killed_run_says_so)
{
    struct tide_model *model =
        model_of_shape(&(struct syn_shape){.seed = 3, .is_left_running = true});
    CHECK(!model->is_complete);
    uint32_t i = 0;
    while (i < model->n_findings &&
           strcmp(model->findings[i].kind, "note") != 0)
        i++;
    CHECK(i < model->n_findings);
    CHECK(strstr(model->findings[i].text, "was killed") != NULL);
    tideR_model_close(model);
}

TEST(model_of_an_empty_profile_is_empty)
{
    struct made made;
    made_open(&made);
    struct tide_model *model = made_model(&made);
    CHECK_EQ(model->n_nodes, 1);
    CHECK_EQ(model->n_lines, 1);
    CHECK_EQ(model->totals.alloc_bytes, 0);
    CHECK_EQ(model->n_findings, 0);
    tideR_model_close(model);
}

TEST(model_open_says_why_not)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    CHECK_EQ(tideR_model_open(scratch_path("absent"), &model, &problem),
             TIDE_ERR_IO);
    CHECK(problem.text[0] != '\0');
    const char *path = scratch_path("text");
    scratch_write(path, "no profile\n", 11);
    CHECK_EQ(tideR_model_open(path, &model, &problem), TIDE_ERR_FORMAT);
    CHECK(problem.text[0] != '\0');
}

/* ---- against a naive count ---------------------------------------------- */

#define NAIVE_ROWS 2000

struct naive_row {
    char key[400];
    struct tide_r_counts counts;
};

struct naive {
    struct naive_row rows[NAIVE_ROWS];
    unsigned n;
};

static struct naive_row *naive_find(struct naive *naive, const char *key)
{
    for (unsigned i = 0; i < naive->n; i++)
        if (strcmp(naive->rows[i].key, key) == 0)
            return &naive->rows[i];
    return NULL;
}

static void naive_add(struct naive *naive, const char *key,
                      const struct tide_p_view *view, uint32_t i)
{
    const struct tide_p_heap *head = view->head;
    const struct tide_cell *cell = &view->cells[i];
    struct naive_row *row = naive_find(naive, key);
    if (row == NULL) {
        CHECK(naive->n < NAIVE_ROWS);
        row = &naive->rows[naive->n++];
        snprintf(row->key, sizeof row->key, "%s", key);
    }
    struct tide_r_counts *c = &row->counts;
    c->alloc_bytes += cell->alloc_bytes;
    c->alloc_blocks += cell->alloc_blocks;
    c->freed_bytes += cell->freed_bytes;
    c->freed_blocks += cell->freed_blocks;
    c->young_bytes += cell->young_bytes;
    c->young_blocks += cell->young_blocks;
    if (i < view->n_lives) {
        c->once_bytes += view->lives[i].once_bytes;
        c->once_blocks += view->lives[i].once_blocks;
        c->twice_bytes += view->lives[i].twice_bytes;
        c->twice_blocks += view->lives[i].twice_blocks;
        c->ageless_bytes += view->lives[i].ageless_bytes;
        c->ageless_blocks += view->lives[i].ageless_blocks;
        c->regrown_bytes += view->lives[i].regrown_bytes;
        c->n_regrown += view->lives[i].n_regrown;
    }
    c->moved_bytes += cell->moved_bytes;
    c->moved_blocks += cell->moved_blocks;
    c->inherited_bytes += cell->inherited_bytes;
    c->inherited_blocks += cell->inherited_blocks;
    const int64_t live = (int64_t)cell->inherited_bytes +
                         (int64_t)cell->alloc_bytes + cell->moved_bytes -
                         (int64_t)cell->freed_bytes;
    const int64_t blocks = (int64_t)cell->inherited_blocks +
                           (int64_t)cell->alloc_blocks + cell->moved_blocks -
                           (int64_t)cell->freed_blocks;
    const int is_kept =
        head->peak_is_past && cell->peak_epoch == head->peak_epoch;
    c->live_bytes += (uint64_t)live;
    c->live_blocks += (uint64_t)blocks;
    c->peak_bytes += is_kept ? cell->peak_bytes : (uint64_t)live;
    c->peak_blocks += is_kept ? cell->peak_blocks : (uint64_t)blocks;
}

static const char *bare(const char *source)
{
    return *source == '@' || *source == '=' ? source + 1 : source;
}

/* What a function is told apart by, as text. */
static void naive_func_key(const struct tide_p_view *view, uint32_t f,
                           char *key, size_t bytes)
{
    const struct tide_p_func *func = &view->funcs[f];
    const char *source = bare(tideP_view_string(view, func->source, NULL));
    const char *name = tideP_view_string(view, func->name, NULL);
    if (func->what == TIDE_P_LUA || func->what == TIDE_P_MAIN)
        name = "";
    snprintf(key, bytes, "%u %s:%" PRIu32 " %s", func->what, source,
             func->linedefined, name);
}

static void naive_line_key(const struct tide_p_view *view, uint32_t node,
                           char *key, size_t bytes)
{
    for (uint32_t i = node; i != 0; i = view->nodes[i].parent) {
        const struct tide_p_func *func = &view->funcs[view->nodes[i].func];
        if (func->what == TIDE_P_FINALIZER)
            break;
        if (func->what != TIDE_P_LUA && func->what != TIDE_P_MAIN &&
            func->what != TIDE_P_OTHER_CHUNKS)
            continue;
        snprintf(key, bytes, "%s:%" PRIu32,
                 bare(tideP_view_string(view, func->source, NULL)),
                 view->nodes[i].line);
        return;
    }
    snprintf(key, bytes, "none");
}

/* Every function on the way to the root gets the cell once. */
static void naive_totals(struct naive *totals, const struct tide_p_view *view,
                         uint32_t cell)
{
    char seen[100][400];
    unsigned n = 0;
    for (uint32_t i = view->cells[cell].node; i != 0;
         i = view->nodes[i].parent) {
        char key[400];
        unsigned k = 0;
        naive_func_key(view, view->nodes[i].func, key, sizeof key);
        while (k < n && strcmp(seen[k], key) != 0)
            k++;
        if (k < n)
            continue;
        CHECK(n < 100);
        strcpy(seen[n++], key);
        naive_add(totals, key, view, cell);
    }
}

struct naive_count {
    struct naive lines;
    struct naive own;
    struct naive totals;
    struct naive kinds;
};

static struct naive_count *count_naively(const char *path)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    struct naive_count *count = calloc(1, sizeof *count);
    CHECK(count != NULL);
    for (uint32_t h = 0; h < tideP_reader_n_heaps(profile); h++) {
        const struct tide_p_view *view = tideP_reader_heap(profile, h);
        for (uint32_t i = 1; i < view->n_cells; i++) {
            const struct tide_cell *cell = &view->cells[i];
            char key[400];
            naive_line_key(view, cell->node, key, sizeof key);
            naive_add(&count->lines, key, view, i);
            naive_func_key(view, view->nodes[cell->node].func, key, sizeof key);
            naive_add(&count->own, key, view, i);
            snprintf(key, sizeof key, "%s", tideC_kind_name(cell->kind));
            naive_add(&count->kinds, key, view, i);
            naive_totals(&count->totals, view, i);
        }
    }
    tideP_reader_close(profile);
    return count;
}

static void check_same(const struct tide_r_counts *a,
                       const struct tide_r_counts *b)
{
    CHECK_EQ(a->alloc_bytes, b->alloc_bytes);
    CHECK_EQ(a->alloc_blocks, b->alloc_blocks);
    CHECK_EQ(a->freed_bytes, b->freed_bytes);
    CHECK_EQ(a->freed_blocks, b->freed_blocks);
    CHECK_EQ(a->live_bytes, b->live_bytes);
    CHECK_EQ(a->live_blocks, b->live_blocks);
    CHECK_EQ(a->young_bytes, b->young_bytes);
    CHECK_EQ(a->young_blocks, b->young_blocks);
    CHECK_EQ(a->peak_bytes, b->peak_bytes);
    CHECK_EQ(a->peak_blocks, b->peak_blocks);
    CHECK_EQ(a->moved_bytes, b->moved_bytes);
    CHECK_EQ(a->moved_blocks, b->moved_blocks);
    CHECK_EQ(a->inherited_bytes, b->inherited_bytes);
    CHECK_EQ(a->inherited_blocks, b->inherited_blocks);
    CHECK_EQ(a->once_bytes, b->once_bytes);
    CHECK_EQ(a->once_blocks, b->once_blocks);
    CHECK_EQ(a->twice_bytes, b->twice_bytes);
    CHECK_EQ(a->twice_blocks, b->twice_blocks);
    CHECK_EQ(a->ageless_bytes, b->ageless_bytes);
    CHECK_EQ(a->ageless_blocks, b->ageless_blocks);
    CHECK_EQ(a->regrown_bytes, b->regrown_bytes);
    CHECK_EQ(a->n_regrown, b->n_regrown);
}

/* Kinds add up to the line; which is which the lines' own test says. */
static void check_line_kinds(const struct tide_model *model, uint32_t line)
{
    const struct tide_r_counts *counts = &model->lines[line].counts;
    struct tide_r_line_kind kinds[TIDE_KIND_COUNT_], sum = {0};
    tideR_line_kinds(model, line, kinds);
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++) {
        sum.alloc_bytes += kinds[i].alloc_bytes;
        sum.alloc_blocks += kinds[i].alloc_blocks;
        sum.live_bytes += kinds[i].live_bytes;
        sum.live_blocks += kinds[i].live_blocks;
    }
    CHECK_EQ(sum.alloc_bytes, counts->alloc_bytes);
    CHECK_EQ(sum.alloc_blocks, counts->alloc_blocks);
    CHECK_EQ(sum.live_bytes, counts->live_bytes);
    CHECK_EQ(sum.live_blocks, counts->live_blocks);
}

static void compare_lines(const struct tide_model *model,
                          struct naive_count *count)
{
    unsigned n = 0;
    for (uint32_t i = 1; i < model->n_lines; i++) {
        const struct tide_r_line *line = &model->lines[i];
        char key[400];
        snprintf(key, sizeof key, "%s:%" PRIu32, text_of(model, line->source),
                 line->line);
        const struct naive_row *row = naive_find(&count->lines, key);
        CHECK(row != NULL || tideR_counts_are_zero(&line->counts));
        if (row != NULL)
            check_same(&line->counts, &row->counts);
        check_line_kinds(model, i);
        n += row != NULL;
    }
    const struct naive_row *none = naive_find(&count->lines, "none");
    if (none != NULL)
        check_same(&model->unattributed, &none->counts);
    CHECK_EQ(n + (none != NULL), count->lines.n);
}

/*
** The model's functions by the keys of the naive count: of those that are not
** Lua, only C functions have names in a random profile.
*/
static void compare_funcs(const struct tide_model *model,
                          struct naive_count *count)
{
    unsigned n_own = 0;
    unsigned n_total = 0;
    for (uint32_t i = 1; i < model->n_funcs; i++) {
        const struct tide_r_func *func = &model->funcs[i];
        const int has_name = func->what == TIDE_P_C;
        char key[400];
        snprintf(key, sizeof key, "%u %s:%" PRIu32 " %s", func->what,
                 text_of(model, func->source), func->linedefined,
                 has_name ? text_of(model, func->name) : "");
        const struct naive_row *own = naive_find(&count->own, key);
        const struct naive_row *total = naive_find(&count->totals, key);
        CHECK(own != NULL || tideR_counts_are_zero(&func->own));
        if (own != NULL)
            check_same(&func->own, &own->counts);
        CHECK_EQ(func->total_bytes,
                 total != NULL ? total->counts.alloc_bytes : 0);
        CHECK_EQ(func->total_blocks,
                 total != NULL ? total->counts.alloc_blocks : 0);
        n_own += own != NULL;
        n_total += total != NULL;
    }
    CHECK_EQ(n_own, count->own.n);
    CHECK_EQ(n_total, count->totals.n);
}

static void compare_kinds(const struct tide_model *model,
                          struct naive_count *count)
{
    for (unsigned kind = 0; kind < TIDE_KIND_COUNT_; kind++) {
        const struct naive_row *row =
            naive_find(&count->kinds, tideC_kind_name(kind));
        if (row != NULL)
            check_same(&model->kinds[kind], &row->counts);
        else
            CHECK(tideR_counts_are_zero(&model->kinds[kind]));
    }
}

static void add_counts(struct tide_r_counts *sum, const struct tide_r_counts *c)
{
    uint64_t *to = (uint64_t *)(void *)sum;
    const uint64_t *from = (const uint64_t *)(const void *)c;
    for (unsigned i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

/* Lines, functions, groups, kinds and stacks each sum to the totals. */
static void check_sums(const struct tide_model *model)
{
    struct tide_r_counts sums[5] = {{0}};
    sums[0] = model->unattributed;
    for (uint32_t i = 1; i < model->n_lines; i++)
        add_counts(&sums[0], &model->lines[i].counts);
    for (uint32_t i = 0; i < model->n_funcs; i++)
        add_counts(&sums[1], &model->funcs[i].own);
    for (uint32_t i = 0; i < model->n_groups; i++)
        add_counts(&sums[2], &model->groups[i].counts);
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++)
        add_counts(&sums[3], &model->kinds[i]);
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        struct tide_r_counts counts;
        if (model->stacks[i].kind == TIDE_R_KIND_MORE)
            continue;
        tideR_model_stack_counts(model, i, &counts);
        add_counts(&sums[4], &counts);
    }
    for (unsigned i = 0; i < 5; i++)
        check_same(&sums[i], &model->totals);
    CHECK_EQ(model->totals.moved_bytes, 0);
    CHECK_EQ(model->totals.live_bytes, model->totals.inherited_bytes +
                                           model->totals.alloc_bytes -
                                           model->totals.freed_bytes);
}

static void compare_shape(const struct syn_shape *shape)
{
    struct tide_model *model = model_of_shape(shape);
    struct naive_count *count = count_naively(scratch_path("random.tide"));
    compare_lines(model, count);
    compare_funcs(model, count);
    compare_kinds(model, count);
    check_sums(model);
    free(count);
    tideR_model_close(model);
}

TEST(model_equals_a_naive_count)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        compare_shape(&(struct syn_shape){
            .seed = seed, .n_heaps = 1, .n_funcs = 40, .n_nodes = 300});
}

TEST(model_equals_a_naive_count_with_recursion)
{
    for (uint64_t seed = 10; seed <= 13; seed++)
        compare_shape(&(struct syn_shape){
            .seed = seed, .n_heaps = 1, .n_funcs = 5, .n_nodes = 300});
}

TEST(model_equals_a_naive_count_over_heaps)
{
    for (uint64_t seed = 20; seed <= 22; seed++)
        compare_shape(&(struct syn_shape){
            .seed = seed, .n_heaps = 3, .n_funcs = 33, .n_nodes = 150});
}

TEST(model_takes_a_large_profile)
{
    struct tide_model *model = model_of_shape(&(struct syn_shape){
        .seed = 7, .n_funcs = 1000, .n_nodes = 200000, .n_cycles = 1000});
    CHECK_EQ(model->n_nodes, 200000);
    check_sums(model);
    tideR_model_close(model);
}

/* A profile of a process with so much resident beside 20 MiB of Lua's. */
static struct tide_model *resident_model(uint64_t rss_bytes)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    tideP_writer_header(made.writer)->rss_peak_bytes = rss_bytes;
    const uint32_t func = syn_func(heap, TIDE_P_LUA, "@a.lua", "f", 1, 9);
    const uint32_t node = syn_node(heap, 0, func, 3);
    add_cell(heap, node, TIDE_KIND_STRING, 19u << 20, 0);
    add_cell(heap, node, TIDE_KIND_BUFFER, 1u << 20, 0);
    return made_model(&made);
}

TEST(model_finds_memory_that_is_not_lua_s)
{
    struct tide_model *model = resident_model(400u << 20);
    const struct tide_r_finding *found = NULL;
    for (uint32_t i = 0; i < model->n_findings; i++)
        if (strstr(model->findings[i].text, "is not Lua's") != NULL)
            found = &model->findings[i];
    CHECK(found != NULL);
    CHECK_STR(found->kind, "memory");
    CHECK(strstr(found->text, "resident at most 400 MiB, by Lua's allocator at "
                              "most 20.0 MiB, by collectgarbage(\"count\") "
                              "19.0 MiB at the end") != NULL);
    CHECK_EQ(found->n_facts, 3);
    CHECK(found->facts[0].value == 400u << 20);
    CHECK(found->facts[1].value == 20u << 20);
    CHECK(found->facts[2].value == 19u << 20);
    tideR_model_close(model);
    model = resident_model(60u << 20);
    for (uint32_t i = 0; i < model->n_findings; i++)
        CHECK(strstr(model->findings[i].text, "is not Lua's") == NULL);
    tideR_model_close(model);
}
