/*
** survive.c: what survives whole collections, cell by cell.
**
** What a collection leaves of a cell is known when the next one is noted: what
** the cell held at the flip less what was freed since.  That takes a pass over
** the cells at each flip, so columns become rarer as cycles go by, but not as
** what is allocated does, and passes are put off when they would take more than
** a hundredth of the time.
**
** Between two passes there is a note of each cell that held anything, in
** memory of our own.  A cell has a record in CELL_FLOORS once something of it
** survived.
*/
#include <string.h>
#include <time.h>

#include "session.h"

#define PASS_SHARE   128u      /* of the time that passes may take */
#define PASS_PART    6u        /* of what was allocated: no more between two */
#define PASS_CELL_NS 30u       /* about, for one cell */
#define PASS_FREE_NS 20000000u /* as if so much had gone by already */
#define FIRST_NOTES  256u

/*
** A cell when the last collection began to sweep.  What it had freed by then
** grows by parts of tables for which larger ones came since.
*/
struct tide_note {
    uint64_t end_bytes; /* held and freed in all: what is freed up to here has
                           not survived */
    uint32_t cell;
    uint32_t reserved;
};

static struct tide_p_floor *floors_of(const struct tide_heap *h)
{
    return (void *)h->sections[TIDE_P_CELL_FLOORS].base;
}

static void fold_columns(struct tide_heap *h)
{
    struct tide_p_floor *floors = floors_of(h);
    struct tide_p_heap *head = h->head;
    const uint32_t n = TIDE_P_FLOORS / 2;
    for (uint32_t k = 0; k < n; k++) {
        head->column_cycle[k] = head->column_cycle[2 * k + 1];
        head->column_mono_ns[k] = head->column_mono_ns[2 * k + 1];
        head->column_bytes[k] = head->column_bytes[2 * k + 1];
        head->column_alloc[k] = head->column_alloc[2 * k + 1];
    }
    for (uint32_t i = 1; i < head->n_floors; i++) {
        for (uint32_t k = 0; k < n; k++)
            floors[i].at[k] = floors[i].at[2 * k + 1];
        memset(&floors[i].at[n], 0, n * sizeof floors[i].at[0]);
    }
    TIDE_PUBLISH(&head->n_columns, n);
    h->gc.stride *= 2;
}

static uint32_t floor_units(uint64_t bytes)
{
    const uint64_t n = (bytes + TIDE_P_FLOOR_UNIT - 1) / TIDE_P_FLOOR_UNIT;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The record of a cell; NULL: no memory, then it is as if nothing survived. */
static struct tide_p_floor *floor_of(struct tide_heap *h,
                                     struct tide_p_cell *cell)
{
    const uint32_t i = h->head->n_floors;
    if (cell->floor != 0)
        return &floors_of(h)[cell->floor];
    if (tideP_section_reserve(h->writer, &h->sections[TIDE_P_CELL_FLOORS],
                              ((size_t)i + 1) * sizeof(struct tide_p_floor)) !=
        TIDE_OK)
        return NULL;
    floors_of(h)[i] = (struct tide_p_floor){.at = {0}};
    TIDE_PUBLISH(&h->head->n_floors, i + 1);
    TIDE_PUBLISH(&cell->floor, i);
    return &floors_of(h)[i];
}

/* A column for the cycle that was noted last. */
static void add_column(struct tide_heap *h)
{
    struct tide_p_heap *head = h->head;
    if (head->n_columns >= TIDE_P_FLOORS)
        fold_columns(h);
    const uint32_t k = head->n_columns;
    tide_assert_internal(k < TIDE_P_FLOORS);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < h->gc.n_notes; i++) {
        const struct tide_note *note = &h->gc.notes[i];
        struct tide_p_cell *cell = &h->cells[note->cell];
        if (note->end_bytes <= cell->freed_bytes)
            continue;
        const uint64_t left = note->end_bytes - cell->freed_bytes;
        struct tide_p_floor *floor = floor_of(h, cell);
        if (floor != NULL)
            floor->at[k] = floor_units(left);
        sum += left;
    }
    head->column_cycle[k] = h->gc.noted_cycle;
    head->column_mono_ns[k] = h->gc.flip_ns;
    head->column_bytes[k] = sum;
    head->column_alloc[k] = h->gc.cycle_alloc - h->gc.alloc_base;
    head->n_passes++;
    TIDE_PUBLISH(&head->n_columns, k + 1);
}

/* Room for one more; false: no memory. */
static bool reserve_note(struct tide_heap *h)
{
    struct tide_gcwatch *w = &h->gc;
    if (w->n_notes < w->max_notes)
        return true;
    const uint32_t max = w->max_notes == 0 ? FIRST_NOTES : w->max_notes * 2;
    void *notes =
        tideC_mem_grow(&h->mem, w->notes, w->max_notes * sizeof *w->notes,
                       max * sizeof *w->notes);
    if (notes == NULL)
        return false;
    w->notes = notes;
    w->max_notes = max;
    return true;
}

/* Notes what cells hold; their survivors are what is not freed of it. */
static void note_held(struct tide_heap *h)
{
    struct tide_gcwatch *w = &h->gc;
    w->n_notes = 0;
    w->noted_cycle = 0;
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_cell *cell = &h->cells[i];
        const uint64_t held = tideT_held_bytes(h, cell);
        if (held == 0)
            continue;
        if (!reserve_note(h))
            return;
        w->notes[w->n_notes] = (struct tide_note){
            .end_bytes = held + cell->freed_bytes,
            .cell = i,
        };
        cell->note = w->n_notes++;
    }
    w->noted_cycle = h->head->gc_cycle;
}

void tideT_replaced(struct tide_heap *h, const struct tide_p_cell *cell,
                    size_t bytes)
{
    const struct tide_gcwatch *w = &h->gc;
    const uint32_t i = (uint32_t)(cell - h->cells);
    if (w->noted_cycle != 0 && cell->note < w->n_notes &&
        w->notes[cell->note].cell == i)
        w->notes[cell->note].end_bytes += bytes;
}

/* May a pass be made now, or would they take too much of the time? */
static bool can_afford(const struct tide_heap *h, uint64_t now_ns)
{
    const uint64_t gone = now_ns - h->head->open_mono_ns + PASS_FREE_NS;
    return h->gc.pass_ns + h->n_cells * (uint64_t)PASS_CELL_NS <
           gone / PASS_SHARE;
}

/* On a busy machine others may have run meanwhile. */
static uint64_t cost_of_pass(const struct tide_heap *h, uint64_t ns)
{
    const uint64_t most = h->n_cells * (uint64_t)PASS_CELL_NS * 4;
    return ns < most ? ns : most;
}

/*
** By the number of collections; and where they have become so rare that a good
** part of all that was allocated came since the last one that was noted.
*/
static bool is_pass_due(const struct tide_heap *h)
{
    const struct tide_gcwatch *w = &h->gc;
    const uint64_t alloc = h->alloc_bytes - w->alloc_base;
    return h->head->gc_cycle >= w->next_cycle ||
           (alloc - w->noted_alloc) * PASS_PART >= alloc;
}

/*
** At a flip: the cycle before is over, gc_cycle is the new one.  A minor
** collection leaves garbage among what is old: it says nothing of survivors.
*/
void tideT_survivors(struct tide_heap *h, uint8_t mode, uint64_t now_ns)
{
    struct tide_gcwatch *w = &h->gc;
    const bool has_noted = w->noted_cycle != 0;
    if (w->stride == 0)
        w->stride = 1;
    const bool is_due = mode != TIDE_P_MODE_MINOR && is_pass_due(h);
    const bool notes = is_due && can_afford(h, now_ns);
    if (is_due && !notes)
        h->head->n_skipped++;
    if (!has_noted && !notes)
        return;
    if (has_noted)
        add_column(h);
    w->noted_cycle = 0;
    if (notes) {
        note_held(h);
        w->next_cycle = h->head->gc_cycle + w->stride;
        w->noted_alloc = h->alloc_bytes - w->alloc_base;
    }
    w->pass_ns += cost_of_pass(h, tideT_clock_ns(CLOCK_MONOTONIC) - now_ns);
}

void tideT_last_survivors(struct tide_heap *h, bool is_swept)
{
    if (is_swept && h->gc.noted_cycle == h->head->gc_cycle &&
        h->gc.noted_cycle != 0)
        add_column(h);
    h->gc.noted_cycle = 0;
}

void tideT_survivors_reset(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++)
        h->cells[i].floor = h->cells[i].note = 0;
    TIDE_PUBLISH(&h->head->n_columns, 0);
    TIDE_PUBLISH(&h->head->n_floors, 1);
    h->head->n_passes = h->head->n_skipped = 0;
    h->gc.n_notes = 0;
    h->gc.noted_cycle = 0;
    h->gc.stride = 0;
    h->gc.next_cycle = 0;
    h->gc.noted_alloc = 0;
}
