/*
** sums.c: the part of a model that needs the whole tree: totals of functions,
** the function that each line names, figures of the collector.
**
** A function's total counts each byte once: a node adds what it and the nodes
** below it allocated only when no node above it is of the same function.
*/
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "model_impl.h"

/* Allocated by every node and the nodes below it. */
struct below {
    uint64_t bytes;
    uint64_t blocks;
};

struct totals_walk {
    struct tide_model *model;
    struct below *below;
    uint32_t *on_path; /* by function: nodes of it between root and here */
};

static void fill_below(const struct tide_model *model, struct below *below)
{
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        struct tide_r_counts counts;
        tideR_unpack(&model->packed, stack->counts, &counts);
        below[stack->node].bytes += counts.alloc_bytes;
        below[stack->node].blocks += counts.alloc_blocks;
    }
    for (uint32_t i = model->n_nodes - 1; i > 0; i--) {
        const uint32_t parent = model->nodes[i].parent;
        below[parent].bytes += below[i].bytes;
        below[parent].blocks += below[i].blocks;
    }
}

static uint32_t func_of(const struct tide_model *model, uint32_t node)
{
    return model->frames[model->nodes[node].frame].func;
}

static void enter_node(struct totals_walk *walk, uint32_t node)
{
    const uint32_t func = func_of(walk->model, node);
    if (walk->on_path[func]++ > 0)
        return;
    walk->model->funcs[func].total_bytes += walk->below[node].bytes;
    walk->model->funcs[func].total_blocks += walk->below[node].blocks;
}

static void leave_node(void *ctx, uint32_t node)
{
    struct totals_walk *walk = ctx;
    walk->on_path[func_of(walk->model, node)]--;
}

static enum tide_err walk_totals(struct totals_walk *walk)
{
    struct tide_model *model = walk->model;
    struct tide_r_children children;
    fill_below(model, walk->below);
    TIDE_TRY(tideR_children_open(model, &children));
    uint32_t node = tideR_children_step(model, &children, 0, leave_node, walk);
    while (node != 0) {
        enter_node(walk, node);
        node = tideR_children_step(model, &children, node, leave_node, walk);
    }
    tideR_children_close(&children);
    /* the root is no call: what stands in its row has no frame at all */
    model->funcs[0].total_bytes = model->funcs[0].own.alloc_bytes;
    model->funcs[0].total_blocks = model->funcs[0].own.alloc_blocks;
    return TIDE_OK;
}

static enum tide_err sum_totals(struct tide_model *model)
{
    struct totals_walk walk = {
        .model = model,
        .below = calloc(model->n_nodes, sizeof *walk.below),
        .on_path = calloc(model->n_funcs, sizeof *walk.on_path),
    };
    enum tide_err err = TIDE_ERR_NOMEM;
    if (walk.below != NULL && walk.on_path != NULL)
        err = walk_totals(&walk);
    free(walk.below);
    free(walk.on_path);
    return err;
}

/* Among functions that share a line, the one that allocated most there. */
static void name_lines(struct tide_model *model)
{
    for (uint32_t i = 1; i < model->n_frames; i++) {
        const struct tide_r_frame *frame = &model->frames[i];
        if (frame->line_row == TIDE_R_NONE)
            continue;
        uint32_t *best = &model->lines[frame->line_row].best_frame;
        if (*best == TIDE_R_NONE ||
            frame->line_bytes > model->frames[*best].line_bytes)
            *best = i;
    }
}

static uint32_t line_of_stack(const struct tide_model *model, uint32_t stack)
{
    const uint32_t node = model->stacks[stack].node;
    return model->frames[model->nodes[node].lua_frame].line_row;
}

/* Sorts the stacks by line: counts, then places, from the last on. */
static enum tide_err sort_by_line(struct tide_model *model)
{
    uint32_t n = 0;
    model->line_stacks = malloc(model->n_stacks * sizeof *model->line_stacks);
    TIDE_FAIL_IF(model->line_stacks == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 1; i < model->n_stacks; i++)
        model->lines[line_of_stack(model, i)].first_stack++;
    for (uint32_t i = 0; i < model->n_lines; i++)
        model->lines[i].first_stack = n += model->lines[i].first_stack;
    for (uint32_t i = model->n_stacks; i-- > 1;) {
        struct tide_r_line *line = &model->lines[line_of_stack(model, i)];
        model->line_stacks[--line->first_stack] = i;
    }
    return TIDE_OK;
}

enum tide_err tideR_summarize(struct tide_model *model)
{
    TIDE_TRY(sort_by_line(model));
    TIDE_TRY(sum_totals(model));
    name_lines(model);
    return tideR_fill_groups(model);
}

static int compare_cycles(const void *pa, const void *pb)
{
    const struct tide_p_cycle *a = ((const struct tide_r_cycle *)pa)->record;
    const struct tide_p_cycle *b = ((const struct tide_r_cycle *)pb)->record;
    if (a->atomic_mono_ns != b->atomic_mono_ns)
        return a->atomic_mono_ns < b->atomic_mono_ns ? -1 : 1;
    return a->n < b->n ? -1 : a->n > b->n;
}

const char *tideR_mode_name(const struct tide_p_cycle *cycle)
{
    if (cycle->mode >= TIDE_P_MODE_COUNT_)
        return "unknown";
    return cycle->is_generational || cycle->mode == TIDE_P_MODE_MINOR ||
                   cycle->mode == TIDE_P_MODE_MAJOR
               ? "generational"
               : "incremental";
}

const char *tideR_collection_name(unsigned mode)
{
    static const char *const names[TIDE_P_MODE_COUNT_] = {
        [TIDE_P_MODE_INCREMENTAL] = "incremental",
        [TIDE_P_MODE_MINOR] = "minor",
        [TIDE_P_MODE_MAJOR] = "major",
        [TIDE_P_MODE_FULL] = "full",
    };
    return mode < TIDE_P_MODE_COUNT_ ? names[mode] : "unknown";
}

static void sum_cycles(struct tide_model *model)
{
    struct tide_r_gc *gc = &model->gc;
    uint64_t freed = 0, n = 0;
    gc->mode = "unknown";
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        const struct tide_p_cycle *record = model->cycles[i].record;
        const uint64_t n_here = 1 + (uint64_t)record->n_joined;
        freed += record->freed_bytes;
        n += n_here;
        gc->last_kb = (double)record->freed_bytes / 1024 / (double)n_here;
        gc->mode = tideR_mode_name(record);
        if (record->cause == TIDE_P_CAUSE_EXPLICIT)
            gc->n_explicit += n_here;
        if (record->cause == TIDE_P_CAUSE_EMERGENCY)
            gc->n_emergency += n_here;
    }
    gc->reclaimed_kb = (double)freed / 1024;
    if (n > 0)
        gc->average_kb = gc->reclaimed_kb / (double)n;
}

static void sum_heads(struct tide_model *model)
{
    struct tide_r_gc *gc = &model->gc;
    const uint32_t n = tideP_reader_n_heaps(model->profile);
    for (uint32_t i = 0; i < n; i++) {
        const struct tide_p_heap *head =
            tideP_reader_heap(model->profile, i)->head;
        gc->collect_s += (double)head->collect_ns / 1e9;
        gc->n_timed += head->n_timed;
        gc->emergency_s += (double)head->emergency_ns / 1e9;
        gc->sweep_s += (double)head->sweep_ns / 1e9;
    }
}

void tideR_sum_gc(struct tide_model *model)
{
    struct tide_r_gc *gc = &model->gc;
    if (model->n_cycles > 0)
        qsort(model->cycles, model->n_cycles, sizeof *model->cycles,
              compare_cycles);
    sum_cycles(model);
    sum_heads(model);
    gc->heap_kb = (double)model->totals.live_bytes / 1024;
    gc->peak_kb = (double)model->totals.peak_bytes / 1024;
    if (model->seconds > 0) {
        const double allocated = (double)model->totals.alloc_bytes / 1024;
        gc->alloc_kb_s = allocated / model->seconds;
        gc->cycles_min = (double)gc->cycles * 60 / model->seconds;
    }
}
