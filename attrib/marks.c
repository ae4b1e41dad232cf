/*
** marks.c: moments with a name, and what every cell was then.
**
** A mark's snapshot holds the cells that have changed since the mark before it
** (see struct tide_p_mark), so that a program may mark each of its frames.  Of
** more than TIDE_P_SNAPSHOTS_MAX the oldest label loses its snapshot: what the
** next one needs of it is joined to that one's.  The moment when memory ran out
** (limit.c) keeps its own.
**
** Guarded by the session's lock.  A reader of a live profile sees by n_rewrites
** that records behind its back were moved.
*/
#include <string.h>
#include <time.h>

#include "../common/mem.h"
#include "session.h"

#define MARKS_MAX 4096u

static struct tide_p_mark *marks_of(const struct tide_heap *h)
{
    return (void *)h->sections[TIDE_P_MARKS].base;
}

static struct tide_p_snap *snaps_of(const struct tide_heap *h)
{
    return (void *)h->sections[TIDE_P_SNAPS].base;
}

static bool has_snaps(const struct tide_p_mark *mark)
{
    return (mark->flags & TIDE_P_MARK_HAS_SNAPS) != 0;
}

/* ---- taking one ---- */

static struct tide_p_snap snap_of(const struct tide_heap *h, uint32_t cell)
{
    const struct tide_p_cell *c = &h->cells[cell];
    const struct tide_p_rest *rest = &h->rests[TIDE_OBSERVE(&c->rest)];
    const bool is_kept = h->peak_is_past && c->peak_epoch == h->epoch;
    return (struct tide_p_snap){
        .cell = cell,
        .alloc_bytes = c->alloc_bytes,
        .alloc_blocks = c->alloc_blocks,
        .freed_bytes = c->freed_bytes,
        .freed_blocks = c->freed_blocks,
        .young_bytes = tideT_young_bytes(h, c),
        .young_blocks = tideT_young_blocks(h, c),
        .moved_bytes = rest->moved_bytes,
        .moved_blocks = rest->moved_blocks,
        .peak_bytes = is_kept ? rest->peak_bytes : tideT_held_bytes(h, c),
        .peak_blocks = is_kept ? rest->peak_blocks : tideT_held_blocks(h, c),
    };
}

/* The same counters, but for the peak's: those follow from the epoch. */
static bool are_same(const struct tide_p_snap *a, const struct tide_p_snap *b)
{
    return a->alloc_bytes == b->alloc_bytes &&
           a->alloc_blocks == b->alloc_blocks &&
           a->freed_bytes == b->freed_bytes &&
           a->freed_blocks == b->freed_blocks &&
           a->young_bytes == b->young_bytes &&
           a->young_blocks == b->young_blocks &&
           a->moved_bytes == b->moved_bytes &&
           a->moved_blocks == b->moved_blocks;
}

/* Records of SNAPS from the last whole one on. */
static uint32_t first_of_base(const struct tide_heap *h)
{
    for (uint32_t i = h->head->n_marks; i > 0; i--) {
        const struct tide_p_mark *mark = &marks_of(h)[i - 1];
        if (has_snaps(mark) && (mark->flags & TIDE_P_MARK_IS_WHOLE) != 0)
            return mark->first_snap;
    }
    return h->head->n_snaps;
}

/* What each cell was last noted as: its record + 1; NULL: no memory. */
static uint32_t *last_notes(const struct tide_heap *h)
{
    uint32_t *last = tideC_pages_alloc(h->n_cells * sizeof *last);
    if (last == NULL)
        return NULL;
    for (uint32_t i = first_of_base(h); i < h->head->n_snaps; i++)
        last[snaps_of(h)[i].cell] = i + 1;
    return last;
}

/*
** Notes the cells that differ from their last notes; all when `last` is NULL.
** Returns how many, or UINT32_MAX when there is no room.
*/
static uint32_t note_cells(struct tide_heap *h, const uint32_t *last)
{
    static const struct tide_p_snap nothing;
    struct tide_section *s = &h->sections[TIDE_P_SNAPS];
    const uint32_t first = h->head->n_snaps;
    const uint32_t n_cells = TIDE_OBSERVE(&h->n_cells);
    uint32_t n = first;
    for (uint32_t i = 1; i < n_cells; i++) {
        const struct tide_p_snap snap = snap_of(h, i);
        const uint32_t at = last == NULL ? 0 : last[i];
        if (are_same(&snap, at != 0 ? &snaps_of(h)[at - 1] : &nothing))
            continue;
        if (tideP_section_reserve(h->writer, s,
                                  ((size_t)n + 1) * sizeof snap) != TIDE_OK)
            return UINT32_MAX;
        snaps_of(h)[n++] = snap;
    }
    TIDE_PUBLISH(&h->head->n_snaps, n);
    return n - first;
}

/* False: no room. */
static bool take_snapshot(struct tide_heap *h, struct tide_p_mark *mark,
                          bool is_whole)
{
    uint32_t *last = NULL;
    const size_t n_cells = h->n_cells;
    mark->first_snap = h->head->n_snaps;
    is_whole = is_whole || first_of_base(h) == h->head->n_snaps;
    if (!is_whole && (last = last_notes(h)) == NULL)
        return false;
    mark->n_snaps = note_cells(h, last);
    if (last != NULL)
        tideC_pages_free(last, n_cells * sizeof *last);
    if (mark->n_snaps == UINT32_MAX) {
        mark->first_snap = mark->n_snaps = 0;
        return false;
    }
    mark->flags = TIDE_P_MARK_HAS_SNAPS | (is_whole ? TIDE_P_MARK_IS_WHOLE : 0);
    return true;
}

/* ---- giving one up ---- */

static void begin_rewrite(struct tide_heap *h)
{
    TIDE_PUBLISH(&h->head->n_rewrites, h->head->n_rewrites + 1);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void end_rewrite(struct tide_heap *h)
{
    TIDE_PUBLISH(&h->head->n_rewrites, h->head->n_rewrites + 1);
}

/* The next mark with a snapshot; NULL: none. */
static struct tide_p_mark *next_snapshot(const struct tide_heap *h, uint32_t i)
{
    while (++i < h->head->n_marks)
        if (has_snaps(&marks_of(h)[i]))
            return &marks_of(h)[i];
    return NULL;
}

/*
** Moves to the front of mark's records those that `next`, the one behind it,
** needs: of cells that it has no record of.  How many; UINT32_MAX: no memory.
*/
static uint32_t keep_needed(struct tide_heap *h, const struct tide_p_mark *mark,
                            const struct tide_p_mark *next)
{
    struct tide_p_snap *snaps = snaps_of(h);
    if (next == NULL || (next->flags & TIDE_P_MARK_IS_WHOLE) != 0)
        return 0;
    const size_t n_cells = h->n_cells;
    uint8_t *has = tideC_pages_alloc(n_cells);
    if (has == NULL)
        return UINT32_MAX;
    for (uint32_t i = 0; i < next->n_snaps; i++)
        has[snaps[next->first_snap + i].cell] = 1;
    uint32_t n = mark->first_snap;
    for (uint32_t i = 0; i < mark->n_snaps; i++)
        if (!has[snaps[mark->first_snap + i].cell])
            snaps[n++] = snaps[mark->first_snap + i];
    tideC_pages_free(has, n_cells);
    return n - mark->first_snap;
}

/* Takes n records from `first` on out of the section. */
static void cut_records(struct tide_heap *h, uint32_t first, uint32_t n)
{
    struct tide_p_snap *snaps = snaps_of(h);
    const uint32_t left = h->head->n_snaps - first - n;
    memmove(&snaps[first], &snaps[first + n], left * sizeof *snaps);
    for (uint32_t i = 0; i < h->head->n_marks; i++) {
        struct tide_p_mark *mark = &marks_of(h)[i];
        if (has_snaps(mark) && mark->first_snap > first)
            mark->first_snap -= n;
    }
    TIDE_PUBLISH(&h->head->n_snaps, h->head->n_snaps - n);
}

/* False: no memory, nothing has changed. */
static bool drop_snapshot(struct tide_heap *h, uint32_t i)
{
    struct tide_p_mark *mark = &marks_of(h)[i];
    struct tide_p_mark *next = next_snapshot(h, i);
    if (!has_snaps(mark))
        return true;
    begin_rewrite(h);
    const uint32_t n_kept = keep_needed(h, mark, next);
    if (n_kept != UINT32_MAX) {
        const uint32_t first = mark->first_snap;
        const uint32_t n_cut = mark->n_snaps - n_kept;
        const uint8_t whole = mark->flags & TIDE_P_MARK_IS_WHOLE;
        mark->flags = 0;
        mark->first_snap = mark->n_snaps = 0;
        cut_records(h, first + n_kept, n_cut);
        if (next != NULL) {
            next->first_snap = first;
            next->n_snaps += n_kept;
            next->flags |= whole;
        }
    }
    end_rewrite(h);
    return n_kept != UINT32_MAX;
}

/* The oldest label gives up its snapshot; false: none has one. */
static bool drop_oldest(struct tide_heap *h)
{
    for (uint32_t i = 0; i < h->head->n_marks; i++) {
        const struct tide_p_mark *mark = &marks_of(h)[i];
        if (has_snaps(mark) && mark->what == TIDE_P_MARK_LABEL)
            return drop_snapshot(h, i);
    }
    return false;
}

static uint32_t count_snapshots(const struct tide_heap *h)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->head->n_marks; i++)
        n += has_snaps(&marks_of(h)[i]);
    return n;
}

/* ---- marks ---- */

/* Without a snapshot: the figures of the heap. */
static struct tide_p_mark new_mark(struct tide_heap *h, const char *label,
                                   size_t label_bytes)
{
    return (struct tide_p_mark){
        .mono_ns = tideT_clock_ns(CLOCK_MONOTONIC),
        .live_bytes = h->live_bytes,
        .alloc_bytes = h->alloc_bytes - h->gc.alloc_base,
        .peak_bytes = h->peak_bytes,
        .before_bytes = tideT_before_bytes(h),
        .failed_blocks = h->head->failed_blocks,
        .label = tideT_string(h, label, label_bytes),
        .cycle = h->head->gc_cycle,
        .peak_epoch = h->epoch,
    };
}

static bool add_mark(struct tide_heap *h, struct tide_p_mark *mark)
{
    struct tide_section *s = &h->sections[TIDE_P_MARKS];
    const uint32_t n = h->head->n_marks;
    if (n >= MARKS_MAX ||
        tideP_section_reserve(h->writer, s, (n + 1) * sizeof *mark) !=
            TIDE_OK) {
        h->head->n_lost_marks++;
        return false;
    }
    while (count_snapshots(h) >= TIDE_P_SNAPSHOTS_MAX && drop_oldest(h))
        continue;
    const bool is_whole = mark->what == TIDE_P_MARK_FAILED;
    while (!take_snapshot(h, mark, is_whole) && drop_oldest(h))
        continue;
    marks_of(h)[n] = *mark;
    TIDE_PUBLISH(&h->head->n_marks, n + 1);
    return true;
}

bool tideT_mark_label(struct tide_heap *h, const char *label,
                      size_t label_bytes)
{
    struct tide_p_mark mark = new_mark(h, label, label_bytes);
    mark.what = TIDE_P_MARK_LABEL;
    return add_mark(h, &mark);
}

bool tideT_mark_failed(struct tide_heap *h, uint64_t want_bytes)
{
    static const char label[] = "out of memory";
    struct tide_p_mark mark = new_mark(h, label, sizeof label - 1);
    mark.what = TIDE_P_MARK_FAILED;
    mark.want_bytes = want_bytes;
    mark.limit_bytes = h->limit.bytes;
    mark.node = h->site->node;
    tideT_lock(&h->session->lock);
    const bool is_added = add_mark(h, &mark);
    tideT_unlock(&h->session->lock);
    return is_added;
}

void tideT_mark_take_back(struct tide_heap *h)
{
    tideT_lock(&h->session->lock);
    struct tide_p_mark *marks = marks_of(h);
    const uint32_t n = h->head->n_marks;
    uint32_t i = n;
    while (i > 0 && marks[i - 1].what != TIDE_P_MARK_FAILED)
        i--;
    if (i > 0 && drop_snapshot(h, i - 1)) {
        begin_rewrite(h);
        memmove(&marks[i - 1], &marks[i], (n - i) * sizeof *marks);
        TIDE_PUBLISH(&h->head->n_marks, n - 1);
        end_rewrite(h);
    }
    tideT_unlock(&h->session->lock);
}

void tideT_marks_reset(struct tide_heap *h)
{
    begin_rewrite(h);
    TIDE_PUBLISH(&h->head->n_marks, 0);
    TIDE_PUBLISH(&h->head->n_snaps, 0);
    h->head->n_lost_marks = 0;
    end_rewrite(h);
}

/* ---- the C interface ---- */

enum tide_err tide_session_mark(struct tide_session *session, const char *label)
{
    const size_t n = strlen(label);
    TIDE_FAIL_IF(n == 0, TIDE_ERR_ARG);
    if (session->is_forked)
        tideT_after_fork(session);
    TIDE_FAIL_IF(session->is_finished, TIDE_ERR_STATE);
    return tideT_session_mark(session, label, n);
}

enum tide_err tideT_session_mark(struct tide_session *s, const char *label,
                                 size_t label_bytes)
{
    bool is_whole = true;
    tideT_lock(&s->lock);
    for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
        is_whole = tideT_mark_label(h, label, label_bytes) && is_whole;
    tideT_unlock(&s->lock);
    return is_whole ? TIDE_OK : TIDE_ERR_NOMEM;
}
