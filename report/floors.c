/*
** floors.c: what lines had alive after whole collections, and how that goes.
**
** The profile has for each cell what survived some sixteen collections, spread
** over the run (TIDE_P_CELL_FLOORS).  A floor that keeps rising is a leak; one
** that is flat below much allocation is churn.
*/
#include <stdlib.h>

#include "model_impl.h"

#define MINORS_LEAST  20u  /* collections of a heap that does not grow */
#define WARM_PART     4u   /* the first quarter of the columns is warming up */
#define LATE_PART     0.6  /* of the work: the rest is late ... */
#define LATE_GROWTH   0.15 /* ... and has at least so much of the growth */
#define LAST_DOUBLING 0.45 /* of the work: the last one is no earlier */
#define LAST_RISE     0.25 /* of the time of a long run: no earlier */
#define LONG_RUN_S    5.0
#define END_PART      0.75 /* of the work: letting go before is no end */

/* The heap that says most: with the most columns, then the most collections. */
static const struct tide_p_view *best_view(const struct tide_model *model,
                                           uint32_t *heap)
{
    const struct tide_p_view *best = NULL;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, i);
        if (view->n_columns == 0 || view->n_floors == 0)
            continue;
        if (best == NULL || view->n_columns > best->n_columns ||
            (view->n_columns == best->n_columns &&
             view->head->gc_cycle > best->head->gc_cycle)) {
            best = view;
            *heap = i;
        }
    }
    return best;
}

static void fill_columns(const struct tide_model *model,
                         const struct tide_p_heap *head,
                         struct tide_r_floors *floors)
{
    const uint64_t start = model->header->start_mono_ns;
    for (uint32_t i = 0; i < floors->n; i++) {
        floors->cycles[i] = head->column_cycle[i];
        floors->seconds[i] =
            head->column_mono_ns[i] > start
                ? (double)(head->column_mono_ns[i] - start) / 1e9
                : 0;
        floors->heap[i] = head->column_bytes[i];
        floors->alloc[i] = (double)head->column_alloc[i];
    }
}

/*
** Programs often let go of everything before they end: columns of that say
** nothing of the work before.
*/
static void find_end_of_work(const struct tide_model *model,
                             const struct tide_p_view *view,
                             struct tide_r_floors *floors)
{
    floors->n_work = floors->n;
    floors->end_s = model->seconds;
    floors->end_alloc = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        floors->end_alloc += (double)view->cells[i].alloc_bytes;
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

static void add_stack_floors(const struct tide_model *model,
                             const struct tide_p_view *view,
                             const struct tide_r_stack *stack)
{
    const struct tide_r_floors *floors = &model->floors;
    const uint32_t frame = model->nodes[stack->node].lua_frame;
    uint64_t *row =
        floors->bytes + (size_t)model->frames[frame].line_row * TIDE_P_FLOORS;
    const struct tide_p_floor *from = &view->floors[stack->cell];
    for (uint32_t k = 0; k < floors->n; k++)
        row[k] += (uint64_t)from->at[k] * TIDE_P_FLOOR_UNIT;
}

enum tide_err tideR_fill_floors(struct tide_model *model)
{
    uint32_t heap = 0;
    struct tide_r_floors *floors = &model->floors;
    floors->bytes =
        calloc((size_t)model->n_lines * TIDE_P_FLOORS, sizeof *floors->bytes);
    TIDE_FAIL_IF(floors->bytes == NULL, TIDE_ERR_NOMEM);
    const struct tide_p_view *view = best_view(model, &heap);
    if (view == NULL)
        return TIDE_OK;
    floors->n = view->n_columns;
    fill_columns(model, view->head, floors);
    find_end_of_work(model, view, floors);
    for (uint32_t i = 1; i < model->n_stacks; i++)
        if (model->stacks[i].heap == heap &&
            model->stacks[i].cell < view->n_floors)
            add_stack_floors(model, view, &model->stacks[i]);
    return TIDE_OK;
}

/*
** The floor when so much had been allocated, between the columns; `last` is
** the last column.
*/
static double floor_at(const struct tide_r_floors *floors, const uint64_t *row,
                       uint32_t last, double alloc)
{
    uint32_t i = 0;
    while (i < last && floors->alloc[i + 1] < alloc)
        i++;
    if (i == last || floors->alloc[i + 1] <= floors->alloc[i])
        return (double)row[i];
    const double part =
        (alloc - floors->alloc[i]) / (floors->alloc[i + 1] - floors->alloc[i]);
    return (double)row[i] +
           ((double)row[i + 1] - (double)row[i]) * (part > 0 ? part : 0);
}

/* The part of the growth that came late, by what had been allocated. */
static double late_growth(const struct tide_r_floors *floors,
                          const uint64_t *row, uint32_t first, uint32_t last,
                          uint64_t live_bytes)
{
    const double growth = (double)row[last] - (double)row[first];
    const double start = floors->alloc[first];
    const double middle = start + (floors->end_alloc - start) * LATE_PART;
    double end = (double)row[last];
    if (floors->n_work == floors->n && (double)live_bytes > end)
        end = (double)live_bytes;
    return (end - floor_at(floors, row, last, middle)) / growth;
}

/* How a row goes from column to column. */
struct steps {
    uint32_t n;
    uint32_t n_rises;
    uint32_t n_doublings; /* of the rises: by half and more */
    uint32_t last_rise;   /* column that it led to */
    double rises;         /* bytes */
    double falls;
};

static struct steps count_steps(const uint64_t *row, uint32_t first,
                                uint32_t last)
{
    struct steps steps = {.n = last - first};
    for (uint32_t i = first; i < last; i++) {
        const double step = (double)row[i + 1] - (double)row[i];
        if (step > 0) {
            steps.n_rises++;
            steps.n_doublings += step >= (double)row[i] / 2;
            steps.last_rise = i + 1;
            steps.rises += step;
        } else {
            steps.falls -= step;
        }
    }
    return steps;
}

/* Loaded, then worked on without allocating?  A short run cannot say. */
static bool is_long_ago(const struct tide_r_floors *floors,
                        const struct steps *steps)
{
    return floors->end_s >= LONG_RUN_S &&
           floors->seconds[steps->last_rise] < floors->end_s * LAST_RISE;
}

/*
** A table that grows for ever does so by doubling: rarely, each time later by
** as much as it took so far.
*/
static bool is_doubling(const struct tide_r_floors *floors,
                        const struct steps *steps)
{
    return steps->falls == 0 && steps->n_rises >= 3 &&
           steps->n_doublings == steps->n_rises &&
           floors->alloc[steps->last_rise] >= floors->end_alloc * LAST_DOUBLING;
}

/*
** 0 unless it rises most of the time, hardly ever falls, and goes on to rise:
** what fills up and stays so is no leak.
*/
static unsigned judge(const struct tide_r_floors *floors, const uint64_t *row,
                      uint32_t first, uint32_t last, uint64_t live_bytes)
{
    const struct steps steps = count_steps(row, first, last);
    if (steps.rises - steps.falls <= 0 || steps.falls > steps.rises * 0.1 ||
        steps.n_rises < 3 || is_long_ago(floors, &steps))
        return 0;
    if (steps.n_rises * 10 < steps.n * 6 ||
        late_growth(floors, row, first, last, live_bytes) < LATE_GROWTH)
        return is_doubling(floors, &steps) ? 1 : 0;
    if (steps.n_rises * 10 >= steps.n * 9 && steps.n >= 8)
        return 3;
    return steps.n_rises == steps.n || steps.n >= 8 ? 2 : 1;
}

struct tide_r_trend tideR_trend(const struct tide_r_floors *floors,
                                const uint64_t *row, uint64_t live_bytes)
{
    struct tide_r_trend trend = {.confidence = 0};
    if (floors->n_work < 2)
        return trend;
    const uint32_t last = floors->n_work - 1;
    const uint32_t first = floors->n_work / WARM_PART;
    trend.first_bytes = row[first];
    trend.last_bytes = row[last];
    trend.n_steps = last - first;
    for (uint32_t i = first; i < last; i++)
        trend.n_rises += row[i + 1] > row[i];
    const double growth = (double)row[last] - (double)row[first];
    const double cycles =
        (double)floors->cycles[last] - (double)floors->cycles[first];
    const double seconds = floors->seconds[last] - floors->seconds[first];
    trend.growth_per_cycle = cycles > 0 ? growth / cycles : 0;
    trend.growth_per_min = seconds > 0 ? growth * 60 / seconds : 0;
    if (floors->n_work >= TIDE_R_COLUMNS_LEAST)
        trend.confidence = judge(floors, row, first, last, live_bytes);
    return trend;
}

bool tideR_has_verdict(const struct tide_model *model)
{
    const struct tide_r_floors *floors = &model->floors;
    if (floors->n_work >= TIDE_R_COLUMNS_LEAST)
        return true;
    if (floors->n_work == 0)
        return false;
    const uint32_t last = floors->n_work - 1;
    return model->gc.cycles >= floors->cycles[last] + MINORS_LEAST &&
           model->totals.live_bytes / 3 * 2 <= floors->heap[last];
}
