/*
** gather.c: merges the heaps of a profile into one model.
**
** Every heap has numbers of its own for strings, functions and nodes; maps
** from them to the model's numbers live while a heap is read.  Tables from
** pairs of numbers to rows are exact: a frame is (function, line), a node is
** (parent, frame), a line is (source, line).  Nodes come after their parents
** in a profile, so one pass in order is enough.
*/
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "model_impl.h"
#include "rowtab.h"

/* What makes a function: equal keys are one function.  No padding. */
struct func_key {
    uint32_t what;
    uint32_t source;
    uint32_t name; /* 0 where the name does not count */
    uint32_t linedefined;
    uint64_t address; /* 0 where it does not count */
};

/* What a function is in machine code; all zero: it is none. */
struct place {
    uint32_t line; /* in its source; 0: not known */
    bool is_hidden;
};

struct gather {
    struct tide_model *model;
    struct tide_strtab func_keys; /* string n + 1 is the key of function n */
    struct tide_rowtab by_frame;
    struct tide_rowtab by_node;
    struct tide_rowtab by_line;
    uint32_t max_funcs;
    uint32_t max_frames;
    uint32_t max_nodes;
    uint32_t max_stacks;
    uint32_t max_lines;
    uint32_t max_cycles;
    uint32_t max_events;
    uint32_t max_rules;
    uint32_t max_marks;
    /* of the heap being read */
    uint32_t heap;
    const struct tide_p_view *view;
    uint32_t *func_map;
    uint32_t *node_map;
    struct place *places; /* by function of the heap */
};

void tideR_counts_add(struct tide_r_counts *a, const struct tide_r_counts *b)
{
    a->alloc_bytes += b->alloc_bytes;
    a->alloc_blocks += b->alloc_blocks;
    a->freed_bytes += b->freed_bytes;
    a->freed_blocks += b->freed_blocks;
    a->live_bytes += b->live_bytes;
    a->live_blocks += b->live_blocks;
    a->young_bytes += b->young_bytes;
    a->young_blocks += b->young_blocks;
    a->peak_bytes += b->peak_bytes;
    a->peak_blocks += b->peak_blocks;
    a->inherited_bytes += b->inherited_bytes;
    a->inherited_blocks += b->inherited_blocks;
    a->once_bytes += b->once_bytes;
    a->once_blocks += b->once_blocks;
    a->twice_bytes += b->twice_bytes;
    a->twice_blocks += b->twice_blocks;
    a->ageless_bytes += b->ageless_bytes;
    a->ageless_blocks += b->ageless_blocks;
    a->held_bytes += b->held_bytes;
    a->held_blocks += b->held_blocks;
    a->regrown_bytes += b->regrown_bytes;
    a->n_regrown += b->n_regrown;
    /* unsigned: a damaged profile may hold anything */
    a->moved_bytes =
        (int64_t)((uint64_t)a->moved_bytes + (uint64_t)b->moved_bytes);
    a->moved_blocks =
        (int64_t)((uint64_t)a->moved_blocks + (uint64_t)b->moved_blocks);
}

static uint64_t pair_of(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

static uint64_t key_of_frame(const void *ctx, uint32_t row)
{
    const struct tide_model *model = ctx;
    return pair_of(model->frames[row].func, model->frames[row].line);
}

static uint64_t key_of_node(const void *ctx, uint32_t row)
{
    const struct tide_model *model = ctx;
    return pair_of(model->nodes[row].parent, model->nodes[row].frame);
}

static uint64_t key_of_line(const void *ctx, uint32_t row)
{
    const struct tide_model *model = ctx;
    return pair_of(model->lines[row].source, model->lines[row].line);
}

static struct func_key key_of_func(const struct tide_r_func *func,
                                   uint64_t address)
{
    struct func_key key = {
        .what = func->what,
        .source = func->source,
        .linedefined = func->linedefined,
    };
    if (func->what == TIDE_P_LUA || func->what == TIDE_P_MAIN)
        return key;
    key.name = func->name;
    if ((func->what == TIDE_P_C || func->what == TIDE_P_NATIVE) &&
        func->name == 0)
        key.address = address;
    return key;
}

/* The model's function for one of the heap. */
static enum tide_err add_func(struct gather *g, const struct tide_p_func *from,
                              struct place *place, uint32_t *out)
{
    struct tide_model *model = g->model;
    struct tide_r_func func = {.what = from->what,
                               .linedefined = from->linedefined};
    model->has_native |= from->what == TIDE_P_NATIVE;
    size_t n;
    const char *text = tideP_view_string(g->view, from->source, &n);
    TIDE_TRY(tideR_put_source(model, text, n, &func.source));
    text = tideP_view_string(g->view, from->name, &n);
    if (n == 1 && *text == '?')
        n = 0; /* Lua's word for a name that it does not know */
    TIDE_TRY(tideR_strtab_put(&model->strings, text, n, &func.name));
    func.object = func.what == TIDE_P_NATIVE ? func.source : 0;
    TIDE_TRY(tideR_place_func(model, g->view, from, &func, &place->line,
                              &place->is_hidden));
    const struct func_key key = key_of_func(&func, from->address);
    func.address = key.address;
    uint32_t string;
    TIDE_TRY(tideR_strtab_put(&g->func_keys, (const char *)&key, sizeof key,
                              &string));
    *out = string - 1;
    if (*out < model->n_funcs) {
        if (model->funcs[*out].name == 0)
            model->funcs[*out].name = func.name;
        return TIDE_OK;
    }
    TIDE_TRY(tideR_grow(&model->funcs, &g->max_funcs,
                        (uint64_t)model->n_funcs + 1, sizeof func));
    model->funcs[model->n_funcs++] = func;
    return TIDE_OK;
}

static enum tide_err add_line(struct gather *g, uint32_t source, uint32_t line,
                              uint32_t *out)
{
    struct tide_model *model = g->model;
    uint32_t *row;
    TIDE_TRY(tideR_rowtab_put(&g->by_line, pair_of(source, line), &row));
    if (*row == 0) {
        TIDE_TRY(tideR_grow(&model->lines, &g->max_lines,
                            (uint64_t)model->n_lines + 1,
                            sizeof *model->lines));
        *row = model->n_lines++;
        model->lines[*row] =
            (struct tide_r_line){.source = source, .line = line};
    }
    *out = *row;
    return TIDE_OK;
}

static enum tide_err add_frame(struct gather *g, uint32_t func, uint32_t line,
                               uint32_t *out)
{
    struct tide_model *model = g->model;
    uint32_t *row;
    TIDE_TRY(tideR_rowtab_put(&g->by_frame, pair_of(func, line), &row));
    if (*row == 0) {
        struct tide_r_frame frame = {.func = func, .line = line};
        if (tideR_what_is_lua(model->funcs[func].what))
            TIDE_TRY(
                add_line(g, model->funcs[func].source, line, &frame.line_row));
        TIDE_TRY(tideR_grow(&model->frames, &g->max_frames,
                            (uint64_t)model->n_frames + 1, sizeof frame));
        *row = model->n_frames++;
        model->frames[*row] = frame;
    }
    *out = *row;
    return TIDE_OK;
}

/* The frame whose line gets the bytes of a node. */
static uint32_t lua_frame_of(const struct tide_model *model, uint32_t frame,
                             uint32_t parent)
{
    if (model->frames[frame].line_row != TIDE_R_NONE)
        return frame;
    const struct tide_r_func *func = &model->funcs[model->frames[frame].func];
    /* the line below a finalizer is the one that happened to be interrupted */
    if (func->what == TIDE_P_FINALIZER)
        return TIDE_R_NONE;
    return model->nodes[parent].lua_frame;
}

static enum tide_err append_node(struct gather *g, uint32_t parent,
                                 uint32_t frame, uint32_t lua_frame)
{
    struct tide_model *model = g->model;
    TIDE_TRY(tideR_grow(&model->nodes, &g->max_nodes,
                        (uint64_t)model->n_nodes + 1, sizeof *model->nodes));
    model->nodes[model->n_nodes++] = (struct tide_r_node){
        .parent = parent, .frame = frame, .lua_frame = lua_frame};
    return TIDE_OK;
}

static enum tide_err add_node(struct gather *g, uint32_t parent,
                              const struct tide_p_node *from, uint32_t *out)
{
    struct tide_model *model = g->model;
    uint32_t frame;
    const struct place *place = &g->places[from->func];
    if (place->is_hidden) {
        *out = parent;
        return TIDE_OK;
    }
    TIDE_TRY(add_frame(g, g->func_map[from->func],
                       place->line != 0 ? place->line : from->line, &frame));
    uint32_t *row;
    TIDE_TRY(tideR_rowtab_put(&g->by_node, pair_of(parent, frame), &row));
    if (*row == 0) {
        *row = model->n_nodes;
        TIDE_TRY(
            append_node(g, parent, frame, lua_frame_of(model, frame, parent)));
    }
    *out = *row;
    struct tide_r_node *node = &model->nodes[*row];
    node->calls += from->calls;
    if (from->max_call_bytes > node->max_call_bytes)
        node->max_call_bytes = from->max_call_bytes;
    struct tide_r_func *func = &model->funcs[model->frames[frame].func];
    func->calls += from->calls;
    if (from->max_call_bytes > func->max_call_bytes)
        func->max_call_bytes = from->max_call_bytes;
    return TIDE_OK;
}

/* Charges the counts of one cell to its line. */
static void charge_line(struct tide_model *model, uint32_t lua_frame,
                        const struct tide_r_counts *counts)
{
    if (lua_frame == TIDE_R_NONE) {
        tideR_counts_add(&model->unattributed, counts);
        return;
    }
    struct tide_r_frame *frame = &model->frames[lua_frame];
    frame->line_bytes += counts->alloc_bytes;
    tideR_counts_add(&model->lines[frame->line_row].counts, counts);
}

/* Hangs a stack behind the one of the same node and kind, or makes it one. */
static void link_stack(struct tide_model *model, uint32_t added)
{
    struct tide_r_stack *stack = &model->stacks[added];
    struct tide_r_node *node = &model->nodes[stack->node];
    uint32_t i = node->first_stack;
    while (i != TIDE_R_NONE && model->stacks[i].kind != stack->kind)
        i = model->stacks[i].next;
    if (i == TIDE_R_NONE) {
        stack->next = node->first_stack;
        node->first_stack = added;
    } else {
        stack->more = model->stacks[i].more;
        stack->kind = TIDE_R_KIND_MORE;
        model->stacks[i].more = added;
    }
}

/* Counts of a cell as the profile has them. */
static struct tide_r_counts counts_of(const struct tide_p_view *view,
                                      uint32_t index,
                                      const struct tide_cell *cell,
                                      const struct tide_p_life *life)
{
    return (struct tide_r_counts){
        .alloc_bytes = cell->alloc_bytes,
        .alloc_blocks = cell->alloc_blocks,
        .freed_bytes = cell->freed_bytes,
        .freed_blocks = cell->freed_blocks,
        .live_bytes = tideP_cell_live_bytes(cell),
        .live_blocks = tideP_cell_live_blocks(cell),
        .young_bytes = cell->young_bytes,
        .young_blocks = cell->young_blocks,
        .peak_bytes = tideP_cell_peak_bytes(view->head, cell),
        .peak_blocks = tideP_cell_peak_blocks(view->head, cell),
        .inherited_bytes = cell->inherited_bytes,
        .inherited_blocks = cell->inherited_blocks,
        .moved_bytes = cell->moved_bytes,
        .moved_blocks = cell->moved_blocks,
        .once_bytes = life->once_bytes,
        .once_blocks = life->once_blocks,
        .twice_bytes = life->twice_bytes,
        .twice_blocks = life->twice_blocks,
        .ageless_bytes = life->ageless_bytes,
        .ageless_blocks = life->ageless_blocks,
        .regrown_bytes = life->regrown_bytes,
        .n_regrown = life->n_regrown,
        .held_bytes = view->held != NULL ? view->held[index].bytes : 0,
        .held_blocks = view->held != NULL ? view->held[index].blocks : 0,
    };
}

static enum tide_err append_stack(struct gather *g, uint32_t cell,
                                  uint32_t node, uint32_t kind,
                                  const struct tide_r_counts *counts)
{
    struct tide_model *model = g->model;
    const uint32_t added = model->n_stacks;
    TIDE_TRY(tideR_grow(&model->stacks, &g->max_stacks, (uint64_t)added + 1,
                        sizeof *model->stacks));
    struct tide_r_stack *stack = &model->stacks[added];
    *stack = (struct tide_r_stack){.node = node,
                                   .cell = cell,
                                   .heap = (uint16_t)g->heap,
                                   .kind = (uint8_t)kind,
                                   .cell_kind = (uint8_t)kind};
    TIDE_TRY(tideR_pack(&model->packed, counts, &stack->counts));
    model->n_stacks++;
    link_stack(model, added);
    return TIDE_OK;
}

static enum tide_err add_cell(void *ctx, uint32_t index,
                              const struct tide_cell *cell,
                              const struct tide_p_life *life)
{
    struct gather *g = ctx;
    struct tide_model *model = g->model;
    const struct tide_r_counts counts = counts_of(g->view, index, cell, life);
    if (tideR_counts_are_zero(&counts))
        return TIDE_OK;
    const uint32_t node = g->node_map[cell->node];
    TIDE_TRY(append_stack(g, index, node, cell->kind, &counts));
    tideR_counts_add(&model->totals, &counts);
    tideR_counts_add(&model->heaps[g->heap], &counts);
    tideR_counts_add(&model->kinds[cell->kind], &counts);
    const uint32_t func = model->frames[model->nodes[node].frame].func;
    tideR_counts_add(&model->funcs[func].own, &counts);
    charge_line(model, model->nodes[node].lua_frame, &counts);
    return TIDE_OK;
}

/* The line of a node of the heap, for what is no cell. */
static uint32_t line_of_node(const struct gather *g, uint32_t node)
{
    const struct tide_model *model = g->model;
    if (node == 0 || node >= g->view->n_nodes)
        return TIDE_R_NONE;
    return model->frames[model->nodes[g->node_map[node]].lua_frame].line_row;
}

static enum tide_err add_event(struct gather *g,
                               const struct tide_p_event *record)
{
    struct tide_model *model = g->model;
    TIDE_TRY(tideR_grow(&model->events, &g->max_events,
                        (uint64_t)model->n_events + 1, sizeof *model->events));
    model->events[model->n_events++] =
        (struct tide_r_event){record, line_of_node(g, record->node), g->heap};
    return TIDE_OK;
}

static enum tide_err add_mark(struct gather *g,
                              const struct tide_p_mark *record)
{
    struct tide_model *model = g->model;
    size_t n;
    const char *label = tideP_view_string(g->view, record->label, &n);
    TIDE_TRY(tideR_grow(&model->marks, &g->max_marks,
                        (uint64_t)model->n_marks + 1, sizeof *model->marks));
    struct tide_r_mark *mark = &model->marks[model->n_marks];
    *mark = (struct tide_r_mark){
        .record = record,
        .line_row = line_of_node(g, record->node),
        .heap = g->heap,
        .live_bytes = record->live_bytes,
        .alloc_bytes = record->alloc_bytes,
    };
    TIDE_TRY(tideR_strtab_put(&model->strings, label, n, &mark->label));
    model->n_marks++;
    return TIDE_OK;
}

static enum tide_err add_cycle(struct gather *g,
                               const struct tide_p_cycle *record)
{
    struct tide_model *model = g->model;
    const uint32_t line_row = line_of_node(g, record->node);
    TIDE_TRY(tideR_grow(&model->cycles, &g->max_cycles,
                        (uint64_t)model->n_cycles + 1, sizeof *model->cycles));
    model->cycles[model->n_cycles++] =
        (struct tide_r_cycle){record, line_row, g->heap};
    return TIDE_OK;
}

static enum tide_err put_view_text(struct gather *g, uint32_t offset,
                                   uint32_t *out)
{
    size_t n;
    const char *text = tideP_view_string(g->view, offset, &n);
    return tideR_strtab_put(&g->model->strings, text, n, out);
}

static enum tide_err add_rule(struct gather *g,
                              const struct tide_p_target *record)
{
    struct tide_model *model = g->model;
    TIDE_TRY(tideR_grow(&model->rules, &g->max_rules,
                        (uint64_t)model->n_rules + 1, sizeof *model->rules));
    struct tide_r_rule *rule = &model->rules[model->n_rules];
    TIDE_TRY(put_view_text(g, record->group, &rule->group));
    TIDE_TRY(put_view_text(g, record->source, &rule->source));
    TIDE_TRY(put_view_text(g, record->module, &rule->module));
    TIDE_TRY(put_view_text(g, record->name, &rule->name));
    rule->has_pattern = record->what == TIDE_P_TARGET_RULE;
    model->n_rules++;
    return TIDE_OK;
}

/* How functions are grouped; grouping.c makes use of it. */
static enum tide_err add_target(struct gather *g,
                                const struct tide_p_target *record)
{
    struct tide_r_func *func = &g->model->funcs[g->func_map[record->func]];
    if (record->is_off != 0)
        return TIDE_OK;
    if (record->what == TIDE_P_TARGET_MODULE)
        return put_view_text(g, record->group, &func->module);
    if (record->what != TIDE_P_TARGET_FUNCTION)
        return add_rule(g, record);
    if (record->func == 0)
        return TIDE_OK; /* a damaged one: the root is no function */
    func->sort = TIDE_R_TARGET_NAMED;
    TIDE_TRY(put_view_text(g, record->group, &func->target_group));
    return put_view_text(g, record->name, &func->target_name);
}

static void add_head(struct tide_model *model, const struct tide_p_view *view)
{
    const struct tide_p_heap *head = view->head;
    const uint64_t n_records = view->n_cycles;
    model->n_states += head->n_states;
    model->before_bytes += head->before_bytes - head->before_freed_bytes;
    model->before_freed_bytes += head->before_freed_bytes;
    model->failed_blocks += head->failed_blocks;
    model->n_lost_marks += head->n_lost_marks;
    model->unknown_calls += head->unknown_calls;
    model->inferred_bytes += head->inferred_bytes;
    model->gc.cycles += head->gc_cycle > n_records ? head->gc_cycle : n_records;
}

/* What finds rows is large, and done with before the last heap's cells. */
static void close_tables(struct gather *g)
{
    tideR_rowtab_close(&g->by_frame);
    tideR_rowtab_close(&g->by_node);
    tideR_rowtab_close(&g->by_line);
}

/* The heap's own root becomes the model's, whatever the file says of it. */
static enum tide_err read_heap(struct gather *g)
{
    const struct tide_p_view *view = g->view;
    add_head(g->model, view);
    g->func_map[0] = 0;
    for (uint32_t i = 1; i < view->n_funcs; i++)
        TIDE_TRY(add_func(g, &view->funcs[i], &g->places[i], &g->func_map[i]));
    g->node_map[0] = 0;
    for (uint32_t i = 1; i < view->n_nodes; i++)
        TIDE_TRY(add_node(g, g->node_map[view->nodes[i].parent],
                          &view->nodes[i], &g->node_map[i]));
    if (g->heap + 1 == tideP_reader_n_heaps(g->model->profile))
        close_tables(g);
    tideP_reader_drop_nodes(g->model->profile, g->heap);
    TIDE_TRY(tideP_reader_each_cell(g->model->profile, g->heap, add_cell, g));
    for (uint32_t i = 0; i < view->n_cycles; i++)
        TIDE_TRY(add_cycle(g, &view->cycles[i]));
    for (uint32_t i = 0; i < view->n_events; i++)
        TIDE_TRY(add_event(g, &view->events[i]));
    for (uint32_t i = 0; i < view->n_targets; i++)
        TIDE_TRY(add_target(g, &view->targets[i]));
    for (uint32_t i = 0; i < view->n_marks; i++)
        TIDE_TRY(add_mark(g, &view->marks[i]));
    return TIDE_OK;
}

static enum tide_err add_heap(struct gather *g, uint32_t heap)
{
    g->heap = heap;
    g->view = tideP_reader_heap(g->model->profile, heap);
    g->func_map = calloc(g->view->n_funcs, sizeof *g->func_map);
    g->node_map = calloc(g->view->n_nodes, sizeof *g->node_map);
    g->places = calloc(g->view->n_funcs, sizeof *g->places);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (g->func_map != NULL && g->node_map != NULL && g->places != NULL)
        err = read_heap(g);
    free(g->func_map);
    free(g->node_map);
    free(g->places);
    return err;
}

/* Row 0 of each table: the root, and the ones that mean "none". */
static enum tide_err add_first_rows(struct gather *g)
{
    struct tide_model *model = g->model;
    const struct func_key root = {.what = TIDE_P_ROOT};
    const struct tide_r_counts none = {0};
    uint32_t string;
    TIDE_TRY(tideR_strtab_open(&g->func_keys));
    TIDE_TRY(tideR_strtab_put(&g->func_keys, (const char *)&root, sizeof root,
                              &string));
    TIDE_TRY(tideR_grow(&model->funcs, &g->max_funcs, 1, sizeof *model->funcs));
    TIDE_TRY(
        tideR_grow(&model->frames, &g->max_frames, 1, sizeof *model->frames));
    TIDE_TRY(
        tideR_grow(&model->stacks, &g->max_stacks, 1, sizeof *model->stacks));
    TIDE_TRY(tideR_grow(&model->lines, &g->max_lines, 1, sizeof *model->lines));
    model->funcs[0] = (struct tide_r_func){.what = TIDE_P_ROOT};
    model->frames[0] = (struct tide_r_frame){0};
    model->stacks[0] = (struct tide_r_stack){.kind = TIDE_R_KIND_MORE};
    TIDE_TRY(tideR_pack(&model->packed, &none, &model->stacks[0].counts));
    model->lines[0] = (struct tide_r_line){0};
    model->n_funcs = model->n_frames = model->n_stacks = 1;
    model->n_lines = 1;
    return append_node(g, 0, 0, TIDE_R_NONE);
}

static enum tide_err gather_all(struct gather *g)
{
    TIDE_TRY(add_first_rows(g));
    const uint32_t n = tideP_reader_n_heaps(g->model->profile);
    g->model->heaps = calloc(n + 1, sizeof *g->model->heaps);
    TIDE_FAIL_IF(g->model->heaps == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < n; i++)
        TIDE_TRY(add_heap(g, i));
    return TIDE_OK;
}

enum tide_err tideR_gather(struct tide_model *model)
{
    struct gather g = {
        .model = model,
        .by_frame = {.key_fn = key_of_frame, .ctx = model},
        .by_node = {.key_fn = key_of_node, .ctx = model},
        .by_line = {.key_fn = key_of_line, .ctx = model},
    };
    const enum tide_err err = gather_all(&g);
    tideR_strtab_close(&g.func_keys);
    close_tables(&g);
    return err;
}
