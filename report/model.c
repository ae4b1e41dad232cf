/*
** model.c: opens, closes and answers questions about a model; model.h says
** what it is.  gather.c merges the heaps, sums.c adds up what needs the whole
** tree, notes.c says what limits the figures.
*/
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

/* From the start to the end or to the last thing that was noted. */
static double seconds_of(const struct tide_p_header *header)
{
    if (header->end_mono_ns <= header->start_mono_ns)
        return 0;
    return (double)(header->end_mono_ns - header->start_mono_ns) / 1e9;
}

static bool is_complete(const struct tide_model *model)
{
    return model->header->state == TIDE_P_CLOSED &&
           (model->header->flags & TIDE_P_FLAG_PARTLY_IN_MEMORY) == 0 &&
           tideP_reader_problem(model->profile)->err == TIDE_OK;
}

static enum tide_err build_model(struct tide_model *model)
{
    model->header = tideP_reader_header(model->profile);
    model->seconds = seconds_of(model->header);
    model->is_complete = is_complete(model);
    TIDE_TRY(tideR_strtab_open(&model->strings));
    TIDE_TRY(tideR_gather(model));
    TIDE_TRY(tideR_summarize(model));
    tideR_sum_gc(model);
    TIDE_TRY(tideR_fill_floors(model));
    TIDE_TRY(tideR_find(model));
    tideR_note_limits(model);
    tideR_note_too_few(model);
    return TIDE_OK;
}

enum tide_err tideR_model_open(const char *path, struct tide_model **out,
                               struct tide_p_problem *problem)
{
    struct tide_model *model = calloc(1, sizeof *model);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (model != NULL) {
        err = tideP_reader_open(path, &model->profile, problem);
        if (err != TIDE_OK) {
            free(model);
            return err;
        }
        err = build_model(model);
    }
    if (err == TIDE_OK) {
        *out = model;
        return TIDE_OK;
    }
    *problem = (struct tide_p_problem){.err = err};
    snprintf(problem->text, sizeof problem->text, "%s", tide_err_text(err));
    tideR_model_close(model);
    return err;
}

void tideR_model_close(struct tide_model *model)
{
    if (model == NULL)
        return;
    free(model->funcs);
    free(model->frames);
    free(model->nodes);
    free(model->stacks);
    free(model->lines);
    free(model->line_kinds);
    free(model->groups);
    free(model->cycles);
    free(model->events);
    free(model->floors.bytes);
    tideR_strtab_close(&model->strings);
    tideP_reader_close(model->profile);
    free(model);
}

/* Counts of one cell as the profile has them. */
static void add_cell(const struct tide_model *model,
                     const struct tide_r_stack *stack,
                     struct tide_r_counts *out)
{
    const struct tide_p_view *view =
        tideP_reader_heap(model->profile, stack->heap);
    const struct tide_p_cell *cell = &view->cells[stack->cell];
    const struct tide_r_counts counts = {
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
    };
    tideR_counts_add(out, &counts);
}

void tideR_model_stack_counts(const struct tide_model *model, uint32_t stack,
                              struct tide_r_counts *out)
{
    *out = (struct tide_r_counts){0};
    for (uint32_t i = stack; i != TIDE_R_NONE; i = model->stacks[i].more)
        add_cell(model, &model->stacks[i], out);
}

bool tideR_counts_are_zero(const struct tide_r_counts *c)
{
    return (c->alloc_bytes | c->alloc_blocks | c->freed_bytes |
            c->freed_blocks | c->live_bytes | c->live_blocks | c->peak_bytes |
            (uint64_t)c->moved_bytes | (uint64_t)c->moved_blocks) == 0;
}

const struct tide_r_func *tideR_model_func(const struct tide_model *model,
                                           uint32_t node)
{
    return &model->funcs[model->frames[model->nodes[node].frame].func];
}

const struct tide_r_func *tideR_line_func(const struct tide_model *model,
                                          const struct tide_r_line *line)
{
    return &model->funcs[model->frames[line->best_frame].func];
}

const char *tideR_what_name(enum tide_p_what what)
{
    if (what == TIDE_P_MAIN)
        return "main";
    return tideR_what_is_lua(what) ? "Lua" : "C";
}

bool tideR_what_is_lua(enum tide_p_what what)
{
    return what == TIDE_P_LUA || what == TIDE_P_MAIN ||
           what == TIDE_P_OTHER_CHUNKS;
}

const char *tideR_model_text(const struct tide_model *model, uint32_t string,
                             size_t *n)
{
    *n = model->strings.strs[string].length;
    return tideR_strtab_text(&model->strings, string);
}

enum tide_err tideR_children_open(const struct tide_model *model,
                                  struct tide_r_children *out)
{
    uint32_t *first = calloc(model->n_nodes, sizeof *first);
    uint32_t *next = calloc(model->n_nodes, sizeof *next);
    if (first == NULL || next == NULL) {
        free(first);
        free(next);
        return TIDE_ERR_NOMEM;
    }
    for (uint32_t i = model->n_nodes - 1; i > 0; i--) {
        const uint32_t parent = model->nodes[i].parent;
        next[i] = first[parent];
        first[parent] = i;
    }
    *out = (struct tide_r_children){first, next};
    return TIDE_OK;
}

void tideR_children_close(struct tide_r_children *children)
{
    free(children->first);
    free(children->next);
    *children = (struct tide_r_children){0};
}

uint32_t tideR_children_step(const struct tide_model *model,
                             const struct tide_r_children *children,
                             uint32_t node, tide_r_left_fn left_fn, void *ctx)
{
    if (children->first[node] != 0)
        return children->first[node];
    for (; node != 0; node = model->nodes[node].parent) {
        left_fn(ctx, node);
        if (children->next[node] != 0)
            return children->next[node];
    }
    return 0;
}
