/*
** reader_mark.c: what a profile was at one of its marks.
**
** The records of a mark and of those before it, from the last whole one on, are
** laid over the cells; what came later is left out: cycles, points of the
** timeline, events, columns of floors.  What is not kept at marks (calls, ages)
** is as if it had not been counted.
*/
#include "reader_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/assert.h"

#define NONE UINT32_MAX

/* Which mark is meant. */
struct wanted {
    const char *label; /* not terminated */
    size_t bytes;
    uint32_t nth; /* from 1; 0: the last of that name */
};

static bool has_label(const struct tide_p_view *view, uint32_t mark,
                      const struct wanted *want)
{
    size_t bytes;
    const char *label =
        tideP_view_string(view, view->marks[mark].label, &bytes);
    return bytes == want->bytes && memcmp(label, want->label, bytes) == 0;
}

/* The mark of a heap; NONE: it has no such mark. */
static uint32_t find_mark(const struct tide_p_view *view,
                          const struct wanted *want)
{
    uint32_t found = NONE, n = 0;
    for (uint32_t i = 0; i < view->n_marks; i++)
        if (has_label(view, i, want) && (want->nth == 0 || ++n == want->nth))
            found = i;
    return found;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
    return a < b ? b - a : a - b;
}

/* The mark of that name which was made at about the same time. */
static uint32_t nearest_mark(const struct tide_p_view *view,
                             const struct wanted *want, uint64_t mono_ns)
{
    uint32_t found = NONE;
    for (uint32_t i = 0; i < view->n_marks; i++)
        if (has_label(view, i, want) &&
            (found == NONE ||
             distance(view->marks[i].mono_ns, mono_ns) <=
                 distance(view->marks[found].mono_ns, mono_ns)))
            found = i;
    return found;
}

/* ---- one heap ---- */

static void set_cell(struct tide_cell *cell, const struct tide_p_snap *snap,
                     uint32_t peak_epoch)
{
    cell->alloc_bytes = snap->alloc_bytes;
    cell->alloc_blocks = snap->alloc_blocks;
    cell->freed_bytes = snap->freed_bytes;
    cell->freed_blocks = snap->freed_blocks;
    cell->young_bytes = snap->young_bytes;
    cell->young_blocks = snap->young_blocks;
    cell->moved_bytes = snap->moved_bytes;
    cell->moved_blocks = snap->moved_blocks;
    cell->peak_bytes = snap->peak_bytes;
    cell->peak_blocks = snap->peak_blocks;
    cell->peak_epoch = peak_epoch;
}

/* What it held when counting began, and nothing since. */
static void clear_cell(struct tide_cell *cell)
{
    static const struct tide_p_snap nothing;
    set_cell(cell, &nothing, 0);
    cell->closed_bytes = cell->closed_blocks = 0;
}

/* The last mark up to `mark` that stands for itself. */
static uint32_t base_of(const struct tide_p_view *view, uint32_t mark)
{
    while (mark > 0 && (view->marks[mark].flags & TIDE_P_MARK_IS_WHOLE) == 0)
        mark--;
    return mark;
}

/* A cell that has no record with this peak's number held the same then. */
static void settle_peak(struct tide_cell *cell, uint32_t peak_epoch)
{
    if (cell->peak_epoch == peak_epoch && peak_epoch != 0)
        return;
    cell->peak_bytes = tideP_cell_live_bytes(cell);
    cell->peak_blocks = tideP_cell_live_blocks(cell);
    cell->peak_epoch = peak_epoch;
}

static void lay_over(struct tide_loaded *heap, uint32_t mark)
{
    const struct tide_p_view *view = &heap->view;
    const uint32_t epoch = view->marks[mark].peak_epoch;
    for (uint32_t c = 1; c < view->n_cells; c++)
        clear_cell(&heap->cells[c]);
    for (uint32_t m = base_of(view, mark); m <= mark; m++) {
        const struct tide_p_mark *from = &view->marks[m];
        if ((from->flags & TIDE_P_MARK_HAS_SNAPS) == 0)
            continue;
        for (uint32_t i = 0; i < from->n_snaps; i++) {
            const struct tide_p_snap *snap = &view->snaps[from->first_snap + i];
            set_cell(&heap->cells[snap->cell], snap, from->peak_epoch);
        }
    }
    for (uint32_t c = 1; c < view->n_cells; c++)
        settle_peak(&heap->cells[c], epoch);
}

/* A cell that had a larger block later has none: its first is not known. */
static void cut_huge(struct tide_loaded *heap, uint64_t mono_ns)
{
    struct tide_p_huge *all = heap->head.huge;
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < heap->view.n_huge; i++)
        if (all[i].mono_ns <= mono_ns)
            all[n_kept++] = all[i];
    heap->view.n_huge = n_kept;
}

/* Nothing of what came after. */
static void cut_times(struct tide_loaded *heap, uint64_t mono_ns)
{
    struct tide_p_view *view = &heap->view;
    uint32_t n = 0;
    while (n < view->n_cycles && view->cycles[n].atomic_mono_ns <= mono_ns)
        n++;
    view->n_cycles = n;
    for (n = 0; n < view->n_moments && view->moments[n].mono_ns <= mono_ns;)
        n++;
    view->n_moments = n;
    for (n = 0; n < view->n_events && view->events[n].mono_ns <= mono_ns;)
        n++;
    view->n_events = n;
    for (n = 0; n < view->n_columns && heap->head.column_mono_ns[n] <= mono_ns;)
        n++;
    view->n_columns = n;
    for (n = 0; n < view->n_marks && view->marks[n].mono_ns <= mono_ns;)
        n++;
    view->n_marks = n;
    view->n_lives = 0;
    cut_huge(heap, mono_ns);
}

/* What is not kept at marks. */
static void forget_calls(struct tide_loaded *heap)
{
    for (uint32_t i = 0; heap->nodes != NULL && i < heap->view.n_nodes; i++)
        heap->nodes[i].calls = heap->nodes[i].max_call_bytes = 0;
}

static void set_head(struct tide_p_heap *head, const struct tide_p_mark *mark)
{
    head->state = TIDE_P_HEAP_OPEN;
    head->gc_cycle = mark->cycle;
    head->peak_epoch = mark->peak_epoch;
    head->peak_is_past = 1;
    head->peak_bytes = mark->peak_bytes;
    head->before_freed_bytes = head->before_bytes - mark->before_bytes;
    head->failed_blocks = mark->failed_blocks;
    head->close_mono_ns = 0;
    head->collect_ns = head->n_timed = 0;
    head->emergency_ns = head->sweep_ns = 0;
    head->n_merged = 0;
}

/* As the writer notes it, so that nobody takes the books for open. */
static void settle_books(struct tide_loaded *heap, uint64_t live_bytes)
{
    struct tide_p_heap *head = &heap->head;
    head->settled = 1;
    head->settled_alloc_bytes = head->settled_freed_bytes = 0;
    for (uint32_t c = 1; c < heap->view.n_cells; c++) {
        head->settled_alloc_bytes += heap->cells[c].alloc_bytes;
        head->settled_freed_bytes += heap->cells[c].freed_bytes;
    }
    head->settled_live_bytes = live_bytes;
}

static void go_to_mark(struct tide_loaded *heap, uint32_t index)
{
    const struct tide_p_mark mark = heap->view.marks[index];
    lay_over(heap, index);
    cut_times(heap, mark.mono_ns);
    forget_calls(heap);
    set_head(&heap->head, &mark);
    settle_books(heap, mark.live_bytes);
}

/* The heap did not exist yet, or is not meant. */
static void empty_heap(struct tide_loaded *heap)
{
    const struct tide_p_mark nothing = {.peak_epoch = 1};
    for (uint32_t c = 1; c < heap->view.n_cells; c++) {
        clear_cell(&heap->cells[c]);
        heap->cells[c].inherited_bytes = heap->cells[c].inherited_blocks = 0;
    }
    cut_times(heap, 0);
    heap->view.n_columns = 0;
    forget_calls(heap);
    heap->head.n_states = 0;
    heap->head.before_bytes = 0;
    set_head(&heap->head, &nothing);
    settle_books(heap, 0);
}

/* ---- the profile ---- */

static bool is_merged_otherwise(const struct tide_loaded *a,
                                const struct tide_loaded *b)
{
    return a->head.pid != b->head.pid;
}

/*
** The mark of each heap that stands for the one of `first`: of the same time,
** or in another process the one of the same name.
*/
static uint32_t mark_in(const struct tide_loaded *heap,
                        const struct tide_loaded *first, uint64_t mono_ns,
                        const struct wanted *want)
{
    if (is_merged_otherwise(heap, first))
        return find_mark(&heap->view, want);
    return nearest_mark(&heap->view, want, mono_ns);
}

static void go_to(struct tide_profile *profile, const struct tide_loaded *first,
                  uint32_t index, const struct wanted *want)
{
    const struct tide_p_mark mark = first->view.marks[index];
    for (uint32_t i = 0; i < profile->n_heaps; i++) {
        struct tide_loaded *heap = &profile->heaps[i];
        const uint32_t m = mark_in(heap, first, mark.mono_ns, want);
        const bool is_later = !is_merged_otherwise(heap, first) &&
                              heap->head.open_mono_ns > mark.mono_ns;
        if (m != NONE && !is_later)
            go_to_mark(heap, m);
        else if (is_later || mark.what == TIDE_P_MARK_FAILED)
            empty_heap(heap);
        /* else it was closed before: it is as it was then */
    }
    profile->header.end_mono_ns = mark.mono_ns;
    profile->header.rss_peak_bytes = 0;
}

/* The heap that has the mark, the one with the last of them. */
static const struct tide_loaded *heap_with(const struct tide_profile *profile,
                                           const struct wanted *want,
                                           uint32_t *mark)
{
    const struct tide_loaded *found = NULL;
    for (uint32_t i = 0; i < profile->n_heaps; i++) {
        const struct tide_loaded *heap = &profile->heaps[i];
        const uint32_t m = find_mark(&heap->view, want);
        if (m == NONE || (found != NULL && found->view.marks[*mark].mono_ns >=
                                               heap->view.marks[m].mono_ns))
            continue;
        found = heap;
        *mark = m;
    }
    return found;
}

/* "frame#3" is the third mark "frame", where none is called "frame#3". */
static bool split_number(struct wanted *want)
{
    size_t digits = 0;
    while (digits < want->bytes && digits < 8 &&
           want->label[want->bytes - 1 - digits] >= '0' &&
           want->label[want->bytes - 1 - digits] <= '9')
        digits++;
    if (digits == 0 || digits >= want->bytes ||
        want->label[want->bytes - 1 - digits] != '#')
        return false;
    want->nth = (uint32_t)strtoul(want->label + want->bytes - digits, NULL, 10);
    want->bytes -= digits + 1;
    return want->nth > 0 && want->bytes > 0;
}

enum tide_err tideP_reader_to_mark(struct tide_profile *profile,
                                   const char *label,
                                   struct tide_p_problem *problem)
{
    struct wanted want = {label, strlen(label), 0};
    uint32_t mark;
    const struct tide_loaded *first = heap_with(profile, &want, &mark);
    if (first == NULL && split_number(&want))
        first = heap_with(profile, &want, &mark);
    if (first == NULL) {
        tideP_problem(problem, TIDE_ERR_ARG, 0, "no mark is called '%.60s'",
                      label);
        return TIDE_ERR_ARG;
    }
    if ((first->view.marks[mark].flags & TIDE_P_MARK_HAS_SNAPS) == 0) {
        tideP_problem(problem, TIDE_ERR_ARG, 0,
                      "the figures of mark '%.60s' were given up: the last %u "
                      "marks keep theirs",
                      label, TIDE_P_SNAPSHOTS_MAX);
        return TIDE_ERR_ARG;
    }
    go_to(profile, first, mark, &want);
    for (uint32_t i = 0; i < profile->n_heaps; i++)
        profile->heaps[i].view.n_snaps = 0;
    return TIDE_OK;
}

/* ---- when memory ran out ---- */

enum tide_err tideP_load_held(struct tide_loaded *heap)
{
    struct tide_p_view *view = &heap->view;
    const struct tide_p_mark *mark = NULL;
    for (uint32_t i = 0; i < view->n_marks && mark == NULL; i++)
        if (view->marks[i].what == TIDE_P_MARK_FAILED &&
            (view->marks[i].flags & TIDE_P_MARK_IS_WHOLE) != 0)
            mark = &view->marks[i];
    if (mark == NULL)
        return TIDE_OK;
    heap->held = calloc(view->n_cells, sizeof *heap->held);
    if (heap->held == NULL)
        return TIDE_ERR_NOMEM;
    for (uint32_t c = 1; c < view->n_cells; c++)
        heap->held[c] = (struct tide_p_held){view->cells[c].inherited_bytes,
                                             view->cells[c].inherited_blocks};
    for (uint32_t i = 0; i < mark->n_snaps; i++) {
        const struct tide_p_snap *s = &view->snaps[mark->first_snap + i];
        struct tide_p_held *held = &heap->held[s->cell];
        held->bytes +=
            s->alloc_bytes + (uint64_t)s->moved_bytes - s->freed_bytes;
        held->blocks +=
            s->alloc_blocks + (uint64_t)s->moved_blocks - s->freed_blocks;
    }
    view->held = heap->held;
    view->failed = mark;
    return TIDE_OK;
}
