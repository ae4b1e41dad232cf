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

/* What makes a function: equal keys are one function.  No padding. */
struct func_key {
    uint32_t what;
    uint32_t source;
    uint32_t name; /* 0 where the name does not count */
    uint32_t linedefined;
    uint64_t address; /* 0 where it does not count */
};

struct gather {
    struct tide_model *model;
    struct tide_strtab func_keys; /* string n + 1 is the key of function n */
    struct tide_mem mem;          /* holds the tables */
    struct tide_hashtab by_frame;
    struct tide_hashtab by_node;
    struct tide_hashtab by_line;
    uint32_t max_funcs;
    uint32_t max_frames;
    uint32_t max_nodes;
    uint32_t max_stacks;
    uint32_t max_lines;
    uint32_t max_line_kinds;
    uint32_t max_cycles;
    uint32_t max_events;
    /* of the heap being read */
    uint32_t heap;
    const struct tide_p_view *view;
    uint32_t *func_map;
    uint32_t *node_map;
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
    /* unsigned: a damaged profile may hold anything */
    a->moved_bytes =
        (int64_t)((uint64_t)a->moved_bytes + (uint64_t)b->moved_bytes);
    a->moved_blocks =
        (int64_t)((uint64_t)a->moved_blocks + (uint64_t)b->moved_blocks);
}

/* The row of a pair of numbers; *row is 0 when the pair is new. */
static enum tide_err find_pair(struct gather *g, struct tide_hashtab *tab,
                               uint32_t a, uint32_t b, uint64_t **row)
{
    *row = tideC_hashtab_put(tab, &g->mem, ((uint64_t)a << 32 | b) + 1);
    return *row == NULL ? TIDE_ERR_NOMEM : TIDE_OK;
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
    if (func->what == TIDE_P_C && func->name == 0)
        key.address = address;
    return key;
}

/* The model's function for one of the heap. */
static enum tide_err add_func(struct gather *g, const struct tide_p_func *from,
                              uint32_t *out)
{
    struct tide_model *model = g->model;
    struct tide_r_func func = {.what = from->what,
                               .linedefined = from->linedefined};
    size_t n;
    const char *text = tideP_view_string(g->view, from->source, &n);
    TIDE_TRY(tideR_put_source(model, text, n, &func.source));
    text = tideP_view_string(g->view, from->name, &n);
    if (n == 1 && *text == '?')
        n = 0; /* Lua's word for a name that it does not know */
    TIDE_TRY(tideR_strtab_put(&model->strings, text, n, &func.name));
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
    uint64_t *row;
    TIDE_TRY(find_pair(g, &g->by_line, source, line, &row));
    if (*row == 0) {
        TIDE_TRY(tideR_grow(&model->lines, &g->max_lines,
                            (uint64_t)model->n_lines + 1,
                            sizeof *model->lines));
        *row = model->n_lines++;
        model->lines[*row] =
            (struct tide_r_line){.source = source, .line = line};
    }
    *out = (uint32_t)*row;
    return TIDE_OK;
}

static enum tide_err add_frame(struct gather *g, uint32_t func, uint32_t line,
                               uint32_t *out)
{
    struct tide_model *model = g->model;
    uint64_t *row;
    TIDE_TRY(find_pair(g, &g->by_frame, func, line, &row));
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
    *out = (uint32_t)*row;
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
    TIDE_TRY(add_frame(g, g->func_map[from->func], from->line, &frame));
    uint64_t *row;
    TIDE_TRY(find_pair(g, &g->by_node, parent, frame, &row));
    if (*row == 0) {
        *row = model->n_nodes;
        TIDE_TRY(
            append_node(g, parent, frame, lua_frame_of(model, frame, parent)));
    }
    *out = (uint32_t)*row;
    struct tide_r_func *func = &model->funcs[model->frames[frame].func];
    func->calls += from->calls;
    if (from->max_call_bytes > func->max_call_bytes)
        func->max_call_bytes = from->max_call_bytes;
    return TIDE_OK;
}

static enum tide_err add_line_kind(struct gather *g, uint32_t line,
                                   uint32_t kind, uint32_t *out)
{
    struct tide_model *model = g->model;
    uint32_t i = model->lines[line].first_kind;
    while (i != TIDE_R_NONE && model->line_kinds[i].kind != kind)
        i = model->line_kinds[i].next;
    if (i == TIDE_R_NONE) {
        TIDE_TRY(tideR_grow(&model->line_kinds, &g->max_line_kinds,
                            (uint64_t)model->n_line_kinds + 1,
                            sizeof *model->line_kinds));
        i = model->n_line_kinds++;
        model->line_kinds[i] = (struct tide_r_line_kind){
            .kind = kind, .next = model->lines[line].first_kind};
        model->lines[line].first_kind = i;
    }
    *out = i;
    return TIDE_OK;
}

/* Charges the counts of one cell to its line. */
static enum tide_err charge_line(struct gather *g, uint32_t lua_frame,
                                 uint32_t kind,
                                 const struct tide_r_counts *counts)
{
    struct tide_model *model = g->model;
    if (lua_frame == TIDE_R_NONE) {
        tideR_counts_add(&model->unattributed, counts);
        return TIDE_OK;
    }
    struct tide_r_frame *frame = &model->frames[lua_frame];
    frame->line_bytes += counts->alloc_bytes;
    tideR_counts_add(&model->lines[frame->line_row].counts, counts);
    uint32_t i;
    TIDE_TRY(add_line_kind(g, frame->line_row, kind, &i));
    struct tide_r_line_kind *row = &model->line_kinds[i];
    row->alloc_bytes += counts->alloc_bytes;
    row->alloc_blocks += counts->alloc_blocks;
    row->live_bytes += counts->live_bytes;
    row->live_blocks += counts->live_blocks;
    return TIDE_OK;
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

static enum tide_err add_cell(struct gather *g, uint32_t cell)
{
    struct tide_model *model = g->model;
    const struct tide_p_cell *from = &g->view->cells[cell];
    const uint32_t kind =
        from->kind < TIDE_KIND_COUNT_ ? from->kind : TIDE_KIND_OTHER;
    const uint32_t node = g->node_map[from->node];
    const uint32_t added = model->n_stacks;
    TIDE_TRY(tideR_grow(&model->stacks, &g->max_stacks, (uint64_t)added + 1,
                        sizeof *model->stacks));
    model->stacks[added] = (struct tide_r_stack){
        .node = node, .heap = g->heap, .cell = cell, .kind = kind};
    struct tide_r_counts counts;
    tideR_model_stack_counts(model, added, &counts);
    if (tideR_counts_are_zero(&counts))
        return TIDE_OK;
    model->n_stacks++;
    link_stack(model, added);
    tideR_counts_add(&model->totals, &counts);
    tideR_counts_add(&model->kinds[kind], &counts);
    const uint32_t func = model->frames[model->nodes[node].frame].func;
    tideR_counts_add(&model->funcs[func].own, &counts);
    return charge_line(g, model->nodes[node].lua_frame, kind, &counts);
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

static enum tide_err add_cycle(struct gather *g,
                               const struct tide_p_cycle *record)
{
    struct tide_model *model = g->model;
    const uint32_t line_row = line_of_node(g, record->node);
    TIDE_TRY(tideR_grow(&model->cycles, &g->max_cycles,
                        (uint64_t)model->n_cycles + 1, sizeof *model->cycles));
    model->cycles[model->n_cycles++] = (struct tide_r_cycle){record, line_row};
    return TIDE_OK;
}

static void add_head(struct tide_model *model, const struct tide_p_view *view)
{
    const struct tide_p_heap *head = view->head;
    const uint64_t n_records = view->n_cycles;
    model->n_states += head->n_states;
    model->before_bytes += head->before_bytes - head->before_freed_bytes;
    model->before_freed_bytes += head->before_freed_bytes;
    model->failed_blocks += head->failed_blocks;
    model->unknown_calls += head->unknown_calls;
    model->inferred_bytes += head->inferred_bytes;
    model->gc.cycles += head->gc_cycle > n_records ? head->gc_cycle : n_records;
}

/* The heap's own root becomes the model's, whatever the file says of it. */
static enum tide_err read_heap(struct gather *g)
{
    const struct tide_p_view *view = g->view;
    add_head(g->model, view);
    g->func_map[0] = 0;
    for (uint32_t i = 1; i < view->n_funcs; i++)
        TIDE_TRY(add_func(g, &view->funcs[i], &g->func_map[i]));
    g->node_map[0] = 0;
    for (uint32_t i = 1; i < view->n_nodes; i++)
        TIDE_TRY(add_node(g, g->node_map[view->nodes[i].parent],
                          &view->nodes[i], &g->node_map[i]));
    for (uint32_t i = 1; i < view->n_cells; i++)
        TIDE_TRY(add_cell(g, i));
    for (uint32_t i = 0; i < view->n_cycles; i++)
        TIDE_TRY(add_cycle(g, &view->cycles[i]));
    for (uint32_t i = 0; i < view->n_events; i++)
        TIDE_TRY(add_event(g, &view->events[i]));
    return TIDE_OK;
}

static enum tide_err add_heap(struct gather *g, uint32_t heap)
{
    g->heap = heap;
    g->view = tideP_reader_heap(g->model->profile, heap);
    g->func_map = calloc(g->view->n_funcs, sizeof *g->func_map);
    g->node_map = calloc(g->view->n_nodes, sizeof *g->node_map);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (g->func_map != NULL && g->node_map != NULL)
        err = read_heap(g);
    free(g->func_map);
    free(g->node_map);
    return err;
}

/* Row 0 of each table: the root, and the ones that mean "none". */
static enum tide_err add_first_rows(struct gather *g)
{
    struct tide_model *model = g->model;
    const struct func_key root = {.what = TIDE_P_ROOT};
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
    TIDE_TRY(tideR_grow(&model->line_kinds, &g->max_line_kinds, 1,
                        sizeof *model->line_kinds));
    model->funcs[0] = (struct tide_r_func){.what = TIDE_P_ROOT};
    model->frames[0] = (struct tide_r_frame){0};
    model->stacks[0] = (struct tide_r_stack){.kind = TIDE_R_KIND_MORE};
    model->lines[0] = (struct tide_r_line){0};
    model->line_kinds[0] = (struct tide_r_line_kind){0};
    model->n_funcs = model->n_frames = model->n_stacks = 1;
    model->n_lines = model->n_line_kinds = 1;
    return append_node(g, 0, 0, TIDE_R_NONE);
}

static enum tide_err gather_all(struct gather *g)
{
    TIDE_TRY(add_first_rows(g));
    const uint32_t n = tideP_reader_n_heaps(g->model->profile);
    for (uint32_t i = 0; i < n; i++)
        TIDE_TRY(add_heap(g, i));
    return TIDE_OK;
}

enum tide_err tideR_gather(struct tide_model *model)
{
    struct gather g = {.model = model};
    const enum tide_err err = gather_all(&g);
    tideR_strtab_close(&g.func_keys);
    tideC_hashtab_close(&g.by_frame, &g.mem);
    tideC_hashtab_close(&g.by_node, &g.mem);
    tideC_hashtab_close(&g.by_line, &g.mem);
    tideC_mem_close(&g.mem);
    return err;
}
