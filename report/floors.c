/*
** floors.c: what lines had alive after whole collections.
**
** The profile has for each cell what survived some sixteen collections, spread
** over the run (TIDE_P_CELL_FLOORS).  A floor that keeps rising is a leak
** (trend.c); one that is flat below much allocation is churn.
*/
#include <stdlib.h>
#include <string.h>

#include "model_impl.h"

#define START_PART 64   /* of the work: before it a program starts up */
#define END_PART   0.75 /* of the work: letting go before is no end */

static bool has_floors(const struct tide_p_view *view)
{
    return view != NULL && view->n_columns > 0 && view->n_floors > 0;
}

/* The heap that says most: with the most columns, then the most collections. */
static uint32_t best_heap(const struct tide_model *model)
{
    const struct tide_p_view *best = NULL;
    uint32_t heap = 0;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, i);
        if (!has_floors(view))
            continue;
        if (best == NULL || view->n_columns > best->n_columns ||
            (view->n_columns == best->n_columns &&
             view->head->gc_cycle > best->head->gc_cycle)) {
            best = view;
            heap = i;
        }
    }
    return heap;
}

static void fill_columns(const struct tide_model *model,
                         const struct tide_p_heap *head,
                         struct tide_r_floors *floors)
{
    for (uint32_t i = 0; i < floors->n; i++) {
        floors->cycles[i] = head->column_cycle[i];
        floors->seconds[i] = tideR_seconds(model, head->column_mono_ns[i]);
        floors->heap[i] = head->column_bytes[i];
        floors->alloc[i] = (double)head->column_alloc[i];
    }
}

/*
** Programs often let go of everything before they end: columns of that say
** nothing of the work before.
*/
static void find_end_of_work(const struct tide_model *model, uint32_t heap,
                             struct tide_r_floors *floors)
{
    floors->n_work = floors->n;
    floors->end_s = model->seconds;
    floors->end_alloc = (double)model->heaps[heap].alloc_bytes;
    while (floors->n_work >= 3) {
        const uint32_t i = floors->n_work - 1;
        if (floors->heap[i] > floors->heap[i - 1] / 2 ||
            floors->alloc[i] < floors->end_alloc * END_PART)
            break;
        floors->end_s = floors->seconds[i];
        floors->end_alloc = floors->alloc[i];
        floors->n_work--;
    }
}

/*
** Heaps that start small have their first collections close together, before
** the work has begun: these say nothing of it.
*/
static void find_start_of_work(struct tide_r_floors *floors)
{
    floors->start = 0;
    while (floors->start < floors->n_work &&
           floors->alloc[floors->start] * START_PART < floors->end_alloc)
        floors->start++;
}

/*
** Minor collections leave garbage among what is old: what rises through them
** may be that or a leak, and only what does not rise is known.
*/
static void find_since(const struct tide_p_view *view,
                       struct tide_r_floors *floors)
{
    if (view->n_cycles == 0 || floors->n_work == 0 ||
        floors->n_work != floors->n)
        return;
    const struct tide_p_cycle *last = &view->cycles[view->n_cycles - 1];
    floors->n_since = (double)last->n - (double)floors->cycles[floors->n - 1];
    floors->grown_since =
        (double)last->after_bytes - (double)floors->heap[floors->n - 1];
}

static uint32_t column_of_cycle(const struct tide_r_floors *floors, uint32_t n)
{
    uint32_t k = 0;
    while (k + 1 < floors->n && floors->cycles[k + 1] <= n)
        k++;
    return k;
}

/*
** Columns are few; what every whole collection left of the heap shows how it
** goes up and down between them.
*/
static void find_lows(const struct tide_p_view *view,
                      struct tide_r_floors *floors)
{
    memcpy(floors->lows, floors->heap, sizeof floors->lows);
    for (uint32_t i = 0; i < view->n_cycles; i++) {
        const struct tide_p_cycle *c = &view->cycles[i];
        const uint32_t k = column_of_cycle(floors, c->n);
        if (c->mode != TIDE_P_MODE_MINOR && c->n > floors->cycles[k] &&
            k + 1 < floors->n && c->after_bytes < floors->lows[k])
            floors->lows[k] = c->after_bytes;
    }
}

/* Goes along the stacks of a heap as its floors come. */
struct floors_walk {
    const struct tide_model *model;
    uint32_t heap;
    uint32_t stack; /* the next one */
    struct tide_r_floors *out;
};

uint32_t tideR_first_stack(const struct tide_model *model, uint32_t heap)
{
    uint32_t low = 1, high = model->n_stacks;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (model->stacks[middle].heap < heap)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct floors_walk walk_heap(const struct tide_model *model,
                                    uint32_t heap)
{
    return (struct floors_walk){
        .model = model, .heap = heap, .stack = tideR_first_stack(model, heap)};
}

/* Stacks are in the order of heaps and cells; not every cell has one. */
static const struct tide_r_stack *stack_of_cell(struct floors_walk *walk,
                                                uint32_t cell)
{
    const struct tide_model *model = walk->model;
    for (; walk->stack < model->n_stacks; walk->stack++) {
        const struct tide_r_stack *stack = &model->stacks[walk->stack];
        if (stack->heap > walk->heap ||
            (stack->heap == walk->heap && stack->cell >= cell))
            return stack->heap == walk->heap && stack->cell == cell ? stack
                                                                    : NULL;
    }
    return NULL;
}

/* The table of strings grows with all of them: it is no line's. */
static void add_floor(void *ctx, uint32_t cell, const struct tide_p_floor *from)
{
    struct floors_walk *walk = ctx;
    const struct tide_model *model = walk->model;
    struct tide_r_floors *floors = walk->out;
    const struct tide_r_stack *stack = stack_of_cell(walk, cell);
    if (stack == NULL || stack->cell_kind == TIDE_KIND_OTHER)
        return;
    const uint32_t frame = model->nodes[stack->node].lua_frame;
    uint64_t *row =
        floors->bytes + (size_t)model->frames[frame].line_row * TIDE_P_FLOORS;
    for (uint32_t k = 0; k < floors->n; k++)
        row[k] += (uint64_t)from->at[k] * TIDE_P_FLOOR_UNIT;
}

enum tide_err tideR_floors_open(const struct tide_model *model, uint32_t heap,
                                struct tide_r_floors *out)
{
    const struct tide_p_view *view =
        heap < tideP_reader_n_heaps(model->profile)
            ? tideP_reader_heap(model->profile, heap)
            : NULL; /* a profile may have none at all */
    *out = (struct tide_r_floors){.number = heap};
    out->bytes =
        calloc((size_t)model->n_lines * TIDE_P_FLOORS, sizeof *out->bytes);
    TIDE_FAIL_IF(out->bytes == NULL, TIDE_ERR_NOMEM);
    if (!has_floors(view))
        return TIDE_OK;
    out->n = view->n_columns;
    fill_columns(model, view->head, out);
    find_end_of_work(model, heap, out);
    find_start_of_work(out);
    find_since(view, out);
    find_lows(view, out);
    struct floors_walk walk = walk_heap(model, heap);
    walk.out = out;
    return tideP_reader_each_floor(model->profile, heap, add_floor, &walk);
}

/* The same lines' counters: without the table of strings, as above. */
void tideR_heap_counts(const struct tide_model *model, uint32_t heap,
                       struct tide_r_counts *lines)
{
    memset(lines, 0, model->n_lines * sizeof *lines);
    for (uint32_t i = tideR_first_stack(model, heap);
         i < model->n_stacks && model->stacks[i].heap == heap; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        const uint32_t frame = model->nodes[stack->node].lua_frame;
        struct tide_r_counts counts;
        if (stack->cell_kind == TIDE_KIND_OTHER)
            continue;
        tideR_unpack(&model->packed, stack->counts, &counts);
        tideR_counts_add(&lines[model->frames[frame].line_row], &counts);
    }
}

void tideR_floors_close(struct tide_r_floors *floors)
{
    free(floors->bytes);
    floors->bytes = NULL;
}

enum tide_err tideR_fill_floors(struct tide_model *model)
{
    return tideR_floors_open(model, best_heap(model), &model->floors);
}

/* Where a cell's floors go when they are wanted by stack. */
struct stack_walk {
    struct floors_walk walk;
    const struct tide_r_floors *floors;
    uint32_t *first; /* by stack: that of its node and kind */
    uint64_t *rows;
};

static void add_stack_floor(void *ctx, uint32_t cell,
                            const struct tide_p_floor *from)
{
    struct stack_walk *walk = ctx;
    const struct tide_model *model = walk->walk.model;
    const struct tide_r_stack *stack = stack_of_cell(&walk->walk, cell);
    if (stack == NULL)
        return;
    uint64_t *row =
        walk->rows + (size_t)walk->first[stack - model->stacks] * TIDE_P_FLOORS;
    for (uint32_t k = 0; k < walk->floors->n; k++)
        row[k] += (uint64_t)from->at[k] * TIDE_P_FLOOR_UNIT;
}

static enum tide_err fill_stack_floors(struct stack_walk *walk)
{
    const struct tide_model *model = walk->walk.model;
    if (walk->floors->n == 0)
        return TIDE_OK;
    for (uint32_t i = 1; i < model->n_stacks; i++)
        if (model->stacks[i].kind != TIDE_R_KIND_MORE)
            for (uint32_t k = i; k != TIDE_R_NONE; k = model->stacks[k].more)
                walk->first[k] = i;
    return tideP_reader_each_floor(model->profile, walk->floors->number,
                                   add_stack_floor, walk);
}

enum tide_err tideR_stack_floors(const struct tide_model *model,
                                 const struct tide_r_floors *floors,
                                 uint64_t **rows)
{
    struct stack_walk walk = {
        .walk = walk_heap(model, floors->number),
        .floors = floors,
        .first = calloc(model->n_stacks, sizeof *walk.first),
        .rows =
            calloc((size_t)model->n_stacks * TIDE_P_FLOORS, sizeof *walk.rows),
    };
    enum tide_err err = TIDE_ERR_NOMEM;
    if (walk.first != NULL && walk.rows != NULL)
        err = fill_stack_floors(&walk);
    free(walk.first);
    if (err != TIDE_OK)
        free(walk.rows);
    *rows = err == TIDE_OK ? walk.rows : NULL;
    return err;
}
