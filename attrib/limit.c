/*
** limit.c: a limit of a heap's bytes, and what is kept when an allocation
** fails for good.
**
** The fast path knows of no limit.  It takes small blocks off free lists only,
** so it is safe while all slots that were ever cut, all large blocks and what
** is from before an attach fit below the limit together.  The arena is allowed
** to cut up to there; then the heap goes the slow way for each block
** (store.is_slow), where its bytes are compared, until a collection has given
** enough back.  Blocks of other origins are always slow.
**
** When an allocation fails Lua collects and tries once more with the same
** sizes; buffers it does not try again.  So what the cells hold is noted at
** each failure, and taken back when that very request is met after all.
*/
#include "session.h"

#define CUT_STEP   ((size_t)256 << 10) /* cut between two looks at requests */
#define TRIMS_LOST 64u                 /* most cycles without a trim */

/* ---- pace ---- */

/* The slow way or the fast one, by what is going on. */
static void set_pace(struct tide_heap *h)
{
    h->store.is_slow = h->limit.is_tight || h->failure.is_open;
    tideA_store_settle(&h->store);
}

/* Bytes that slots of the arena may take; 0: none more. */
static size_t room_of_arena(const struct tide_heap *h)
{
    if (h->limit.bytes == 0)
        return SIZE_MAX;
    const uint64_t others = h->limit.large_bytes + tideT_before_bytes(h);
    return others < h->limit.bytes ? h->limit.bytes - others : 0;
}

/* Decides how `bytes` more of slots may be cut. */
static void allow_cuts(struct tide_heap *h, size_t bytes)
{
    struct tide_arena *arena = &h->store.arena;
    const size_t room = room_of_arena(h);
    const size_t next = arena->cut_bytes + bytes;
    h->limit.is_tight = next > room;
    arena->cut_max = next + CUT_STEP;
    if (!h->limit.is_tight && arena->cut_max > room)
        arena->cut_max = room;
    set_pace(h);
}

void tideT_cuts_refused(struct tide_heap *h, size_t bytes)
{
    allow_cuts(h, tideA_class(bytes) * 8);
}

/* ---- the limit ---- */

bool tideT_is_within(struct tide_heap *h, uint64_t growth)
{
    const uint64_t held = h->live_bytes + tideT_before_bytes(h);
    return growth <= h->limit.bytes && held <= h->limit.bytes - growth;
}

void tideT_large_changed(struct tide_heap *h)
{
    if (h->limit.bytes != 0 && !h->limit.is_tight)
        allow_cuts(h, 0);
}

/*
** After a collection: is there room for the fast path again?  Slots that are
** free count against it, so pages may have to be given back first; where that
** does not help it is tried more and more rarely.
*/
void tideT_limit_cycle(struct tide_heap *h)
{
    struct tide_limit *limit = &h->limit;
    struct tide_arena *arena = &h->store.arena;
    if (!limit->is_tight)
        return;
    const size_t room = room_of_arena(h);
    if (arena->cut_bytes > room && h->live_bytes < limit->bytes / 4 * 3 &&
        limit->n_lost++ >= limit->n_wait) {
        tideA_arena_trim(arena);
        limit->n_lost = 0;
        if (arena->cut_bytes <= room)
            limit->n_wait = 0;
        else if (limit->n_wait < TRIMS_LOST)
            limit->n_wait = limit->n_wait * 2 + 1;
    }
    if (arena->cut_bytes <= room)
        allow_cuts(h, 0);
}

void tideT_limit_set(struct tide_heap *h, uint64_t bytes)
{
    h->limit.bytes = bytes;
    h->limit.n_lost = h->limit.n_wait = 0;
    allow_cuts(h, 0);
}

void tide_heap_limit(struct tide_heap *heap, uint64_t bytes)
{
    if (heap->session->is_forked)
        tideT_after_fork(heap->session);
    tideT_limit_set(heap, bytes);
}

/* ---- failures ---- */

static bool is_same_request(const struct tide_heap *h, const void *ptr,
                            size_t osize, size_t nsize)
{
    const struct tide_failure *f = &h->failure;
    return f->ptr == ptr && f->osize == osize && f->nsize == nsize &&
           f->alloc_bytes == h->alloc_bytes;
}

/* Is there a state that could raise an error? */
static bool is_state_whole(const struct tide_heap *h)
{
    return h->cal->has_layout ? h->g != NULL : h->is_whole;
}

void tideT_failed(struct tide_heap *h, const void *ptr, size_t osize,
                  size_t nsize)
{
    struct tide_failure *f = &h->failure;
    if (f->is_kept || h->is_closing || !is_state_whole(h))
        return;
    if (f->is_open)
        tideT_mark_take_back(h); /* as it was before the collection */
    f->is_kept = f->is_open;
    f->is_open = !f->is_kept;
    f->ptr = ptr;
    f->osize = osize;
    f->nsize = nsize;
    f->alloc_bytes = h->alloc_bytes;
    if (!tideT_mark_failed(h, ptr == NULL     ? nsize
                              : nsize > osize ? nsize - osize
                                              : 0))
        f->is_open = false;
    set_pace(h);
}

void tideT_failure_next(struct tide_heap *h, const void *ptr, size_t osize,
                        size_t nsize)
{
    if (!is_same_request(h, ptr, osize, nsize)) {
        h->failure.is_kept = true; /* it was not tried again */
        h->failure.is_open = false;
        set_pace(h);
    }
}

void tideT_failure_met(struct tide_heap *h)
{
    tideT_mark_take_back(h);
    h->failure.is_open = false;
    set_pace(h);
}

void tideT_failure_reset(struct tide_heap *h)
{
    h->failure = (struct tide_failure){0};
    set_pace(h);
}
