/*
** hot.c: the path of every allocation and every free.
**
** Budget, x86-64, gcc 12 -O2, entry.S included: 120 instructions to make a
** small block where the last one was made, 38 to free one; tests/abi/budget.py
** counts them.  All that is rare is a tail call to elsewhere.
**
** Must not: allocate from malloc, take a lock, call stdio, call Lua.
*/
#include "check.h"

/*
** Is a Lua frame still at the site's pc?  A table constructor has not saved
** its pc: it is taken from the caller's frame; its parts follow at once.
** *parts  gets the parts of a constructor that are still to come.
*/
TIDE_INLINE bool is_same_pc(const struct tide_heap *h, const struct tide_ra *ra,
                            const uintptr_t *words, const char *ci,
                            unsigned kind, size_t nsize, uint8_t *parts)
{
    if (kind == TIDE_KIND_TABLE) {
        *parts = h->made.parts;
        return ra->pc_word != TIDE_NO_WORD &&
               words[ra->pc_word] + (uintptr_t)(intptr_t)ra->pc_bias ==
                   h->made.pc;
    }
    if (kind == TIDE_KIND_STORAGE && h->parts_left != 0) {
        const uint8_t bit = tideT_part_bit(h, nsize);
        *parts = h->parts_left & (uint8_t)~bit;
        return (h->parts_left & bit) != 0;
    }
    *parts = 0;
    return (uintptr_t)tideT_ci_savedpc(ci) == h->site->at;
}

/* It is called from a known address; no cycle has turned. */
TIDE_INLINE bool is_known_call(const struct tide_heap *h,
                               const struct tide_ra *ra, const uintptr_t *words)
{
    return ra->address == words[TIDE_WORD_RA] && tideT_gc_word(h) == h->gc_word;
}

/* The same, and by the thread that ran last. */
TIDE_INLINE bool is_known_thread(const struct tide_heap *h,
                                 const struct tide_ra *ra,
                                 const uintptr_t *words)
{
    return (const lua_State *)words[ra->l_word] == h->cur_L &&
           is_known_call(h, ra, words);
}

/* The frame that resumed the running thread has not been left since. */
TIDE_INLINE bool is_linked(const struct tide_heap *h)
{
    return TIDE_LIKELY((*h->link & TIDE_CIST_MARK) != 0);
}

/* The running thread's innermost frame is the activation seen last. */
TIDE_INLINE bool is_same_frame(const struct tide_heap *h, const char *ci)
{
    return ci == h->top_ci && tideT_is_same_call(h, ci);
}

/* Same thread, same activation of the same frame, same instruction. */
TIDE_INLINE bool is_same_place(const struct tide_heap *h,
                               const struct tide_ra *ra, const uintptr_t *words,
                               unsigned kind, size_t nsize, uint8_t *parts)
{
    *parts = 0;
    if (!is_known_thread(h, ra, words))
        return false;
    const char *ci = tideT_L_ci(h->cur_L);
    return is_linked(h) && is_same_frame(h, ci) &&
           (!h->top_is_lua || is_same_pc(h, ra, words, ci, kind, nsize, parts));
}

/* May a block of its size be a new call record, at the end of their list? */
TIDE_INLINE bool may_be_callinfo(const struct tide_heap *h,
                                 const struct tide_ra *ra,
                                 const uintptr_t *words)
{
    const lua_State *L = (const lua_State *)words[ra->l_word];
    return ra->address != words[TIDE_WORD_RA] || L != h->cur_L ||
           tideT_ci_next(tideT_L_ci(L)) == NULL;
}

/* A block without a kind that may be something else than table storage. */
TIDE_INLINE bool is_doubtful(const struct tide_heap *h,
                             const struct tide_ra *ra, const uintptr_t *words,
                             unsigned kind, size_t nsize)
{
    return kind == TIDE_KIND_STORAGE &&
           (h->is_untagged_slow || ra->is_buffer ||
            (nsize == TIDE_CALLINFO_BYTES && may_be_callinfo(h, ra, words)));
}

TIDE_INLINE const struct tide_ra *ra_of(const struct tide_heap *h,
                                        const uintptr_t *words)
{
    return &h->ras[tideT_ra_place(h->ra_multiplier, words[TIDE_WORD_RA])];
}

/* The site's cell for a kind. */
TIDE_INLINE struct tide_p_cell *cell_here(struct tide_heap *h, unsigned kind)
{
    struct tide_site *site = h->site;
    struct tide_p_cell *cell = &h->cells[site->cell[kind & 3]];
    if (TIDE_UNLIKELY(cell->kind != kind))
        cell = tideT_site_cell(h, site, (enum tide_kind)kind);
    return cell;
}

/* A new block is charged and tagged. */
TIDE_INLINE void *charge_block(struct tide_heap *h, struct tide_p_cell *cell,
                               void *block, size_t nsize)
{
    tideT_count_made(h, cell, nsize);
    tide_assert(tideA_arena_bytes(&h->store.arena, block) >= nsize);
    *tideA_tag_place(block, nsize) =
        tideA_tag((uint32_t)(cell - h->cells), h->cycle);
    return block;
}

/*
** Nothing is being recorded, all is settled, and nobody calls.  Collections are
** not looked at then: a program whose heap is steady has no slow calls, so that
** this is where it hears that it shall record again.
*/
TIDE_INLINE bool is_resting(const struct tide_heap *h)
{
    return h->is_off && !h->wants_clear && h->g != NULL &&
           h->pending.block == NULL && !h->session->is_forked &&
           !tideT_is_called(h);
}

/* Goes to where table storage grows; false: the cold path must find it. */
TIDE_INLINE bool enter_growth(struct tide_heap *h, const struct tide_ra *ra,
                              const uintptr_t *words, const void *ptr,
                              size_t nsize)
{
    uint8_t parts;
    h->parts_left = 0;
    if (!is_known_thread(h, ra, words)) {
        if (!is_resting(h))
            return tideT_step(h, ra, words, ptr, TIDE_KIND_STORAGE, nsize);
        h->site = &h->off_site;
        return true;
    }
    if (is_same_place(h, ra, words, TIDE_KIND_STORAGE, nsize, &parts))
        return true;
    const struct tide_asked asked = {
        ra,  words, h->cur_L,         tideT_L_ci(h->cur_L),
        ptr, nsize, TIDE_KIND_STORAGE};
    struct tide_site *site = NULL;
    if (is_linked(h)) {
        site = step_near(h, h->cur, &asked);
        if (site == NULL)
            site = step_far(h, h->cur, &asked);
    }
    if (site == NULL)
        return tideT_step(h, ra, words, ptr, TIDE_KIND_STORAGE, nsize);
    const struct tide_frame *top = &h->cur->frames[h->cur->n_frames] - 1;
    enter_site(h, site, asked.ci, TIDE_KIND_STORAGE, top->is_lua);
    return true;
}

/* Growth of a small block of table storage; all else is slow. */
static TIDE_NOINLINE void *grow_storage(struct tide_heap *h, void *ptr,
                                        size_t osize, size_t nsize,
                                        const uintptr_t *words)
{
    const struct tide_ra *ra = ra_of(h, words);
    if (nsize > h->store.small_max || nsize <= osize || ra->is_buffer)
        return tideT_realloc_slow(h, ptr, osize, nsize, words);
    const uint64_t tag = *tideA_tag_place(ptr, osize);
    const uint32_t old = tideA_tag_cell(tag);
    if (h->cells[old].kind != TIDE_KIND_STORAGE ||
        !enter_growth(h, ra, words, ptr, nsize))
        return tideT_realloc_slow(h, ptr, osize, nsize, words);
    tideT_check_place(h);
    void *block = tideA_arena_alloc(&h->store.arena, tideA_class(nsize));
    if (block == NULL)
        return tideT_realloc_slow(h, ptr, osize, nsize, words);
    __builtin_memcpy(block, ptr, osize);
    tideA_arena_free(&h->store.arena, ptr, tideA_class(osize));
    struct tide_p_cell *cell = cell_here(h, TIDE_KIND_STORAGE);
    const uint32_t new = (uint32_t)(cell - h->cells);
    tideT_heap_grows(h, cell, nsize - osize);
    cell->alloc_bytes += nsize - osize;
    tideT_move(h, old, new, osize);
    *tideA_tag_place(block, nsize) = tideA_tag(new, tideA_tag_birth(tag));
    return block;
}

/* A new block at h->site, whose cell may be new, from any origin. */
TIDE_INLINE void *alloc_here(struct tide_heap *h, unsigned kind, size_t osize,
                             size_t nsize)
{
    tideT_check_place(h);
    struct tide_p_cell *cell = cell_here(h, kind);
    void *block = NULL;
    if (nsize <= h->store.small_max)
        block = tideA_arena_alloc(&h->store.arena, tideA_class(nsize));
    if (TIDE_UNLIKELY(block == NULL))
        return tideT_alloc_large(h, cell, osize, nsize);
    return charge_block(h, cell, block, nsize);
}

/* The same; after a thread comes its first stack. */
TIDE_INLINE void *new_here(struct tide_heap *h, unsigned kind, size_t osize,
                           size_t nsize)
{
    void *block = alloc_here(h, kind, osize, nsize);
    if (kind == TIDE_KIND_THREAD && block != NULL)
        h->is_newborn = h->is_untagged_slow = true;
    return block;
}

/*
** A block without a kind that is not table storage: the first stack of a
** coroutine that was just made, or a call record.
*/
static TIDE_NOINLINE void *alloc_doubtful(struct tide_heap *h,
                                          const struct tide_ra *ra,
                                          size_t nsize, const uintptr_t *words)
{
    const bool is_stack =
        h->is_newborn && nsize == h->cal->layout.first_stack_bytes;
    if (h->pending.block != NULL)
        tideT_pending_settle(h, NULL);
    if (ra->is_buffer || h->is_newborn != is_stack ||
        !tideT_step(h, ra, words, NULL, TIDE_KIND_STORAGE, nsize))
        return tideT_alloc_slow(h, 0, nsize, words);
    char *block = alloc_here(
        h, is_stack ? TIDE_KIND_THREAD : TIDE_KIND_CALLINFO, 0, nsize);
    if (block == NULL)
        return NULL;
    if (is_stack) {
        h->is_newborn = h->is_untagged_slow = false;
        return block;
    }
    h->pending = (struct tide_pending){
        .block = block,
        .bytes = nsize,
        .cell = tideT_cell(h, h->site->node, TIDE_KIND_CALLINFO),
        .node = h->site->node,
        .ci = tideT_L_ci((const lua_State *)words[ra->l_word]),
        .what = TIDE_PENDING_CALLINFO,
    };
    return block;
}

/* From anywhere. */
static TIDE_NOINLINE void *alloc_elsewhere(struct tide_heap *h, size_t osize,
                                           size_t nsize, const uintptr_t *words)
{
    const struct tide_ra *ra = ra_of(h, words);
    const unsigned kind = tideT_kind_of[osize & 15];
    if (is_doubtful(h, ra, words, kind, nsize))
        return alloc_doubtful(h, ra, nsize, words);
    if (!tideT_step(h, ra, words, NULL, kind, nsize))
        return tideT_alloc_slow(h, osize, nsize, words);
    return new_here(h, kind, osize, nsize);
}

/* A large block, a block of a new cell or class, or of a doubtful kind. */
static TIDE_NOINLINE void *alloc_unusual(struct tide_heap *h, size_t osize,
                                         size_t nsize, const uintptr_t *words)
{
    const struct tide_ra *ra = ra_of(h, words);
    const unsigned kind = tideT_kind_of[osize & 15];
    uint8_t parts;
    if (kind == TIDE_KIND_THREAD || kind == TIDE_KIND_PROTO ||
        is_doubtful(h, ra, words, kind, nsize) ||
        !is_same_place(h, ra, words, kind, nsize, &parts))
        return alloc_elsewhere(h, osize, nsize, words);
    h->parts_left = parts;
    return alloc_here(h, kind, osize, nsize);
}

/*
** What is needed to charge a small block at a site, when nothing of it is
** unusual: its cell is known, there is a free slot, the peak needs no care.
*/
struct tide_charge {
    struct tide_p_cell *cell;
    void **block;
    uint64_t live;
};

TIDE_INLINE bool can_charge(const struct tide_heap *h,
                            const struct tide_site *site, unsigned kind,
                            size_t nsize, struct tide_charge *charge)
{
    charge->cell = &h->cells[site->cell[kind & 3]];
    charge->block = h->store.arena.free[tideA_class(nsize)];
    charge->live = h->live_bytes + nsize;
    return charge->cell->kind == kind && charge->block != NULL &&
           (charge->live > h->peak_bytes
                ? !h->peak_is_past
                : charge->cell->peak_epoch == h->epoch);
}

TIDE_INLINE void *charge_small(struct tide_heap *h, size_t nsize,
                               const struct tide_charge *charge)
{
    struct tide_p_cell *cell = charge->cell;
    const size_t class = tideA_class(nsize);
    tideT_check_place(h);
    tideA_arena_unpoison(charge->block, class);
    tideA_arena_pop(&h->store.arena, charge->block, class);
    h->alloc_bytes += nsize;
    h->live_bytes = charge->live;
    if (charge->live > h->peak_bytes)
        h->peak_bytes = charge->live;
    cell->alloc_bytes += nsize;
    cell->alloc_blocks++;
    *tideA_tag_place(charge->block, nsize) =
        tideA_tag((uint32_t)(cell - h->cells), h->cycle);
    return charge->block;
}

/* Something new, or unusual. */
static TIDE_NOINLINE void *alloc_beyond(struct tide_heap *h, char *ci,
                                        size_t osize, size_t nsize,
                                        const uintptr_t *words,
                                        const struct tide_ra *ra)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    if (!step_to(h, ci, ra, words, NULL, kind, nsize))
        return tideT_alloc_slow(h, osize, nsize, words);
    return new_here(h, kind, osize, nsize);
}

/* Several calls or returns further. */
static TIDE_NOINLINE void *alloc_far(struct tide_heap *h, char *ci,
                                     size_t osize, size_t nsize,
                                     const uintptr_t *words,
                                     const struct tide_ra *ra)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    const struct tide_asked asked = {ra,   words, h->cur_L, ci,
                                     NULL, nsize, kind};
    struct tide_charge charge;
    bool is_lua;
    struct tide_site *site = enter_far(h, h->cur, &asked, &is_lua);
    if (site == NULL || !can_charge(h, site, kind, nsize, &charge))
        return alloc_beyond(h, ci, osize, nsize, words, ra);
    enter_site(h, site, ci, kind, is_lua);
    return charge_small(h, nsize, &charge);
}

/* Near by: seen before, or new. */
TIDE_INLINE void *alloc_at(struct tide_heap *h, char *ci, size_t osize,
                           size_t nsize, const uintptr_t *words,
                           const struct tide_ra *ra, bool is_seen)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    const struct tide_asked asked = {ra,   words, h->cur_L, ci,
                                     NULL, nsize, kind};
    struct tide_thread *t = h->cur;
    struct tide_near near;
    struct tide_charge charge;
    if (!(is_seen ? find_seen(h, t, &asked, &near)
                  : find_call(h, t, &asked, &near)) ||
        !can_charge(h, near.site, kind, nsize, &charge))
        return alloc_far(h, ci, osize, nsize, words, ra);
    enter_frame(h, t, &asked, &near);
    enter_site(h, near.site, ci, kind, near.is_lua);
    return charge_small(h, nsize, &charge);
}

/* The same activation at another instruction, or its caller. */
static TIDE_NOINLINE void *alloc_seen(struct tide_heap *h, char *ci,
                                      size_t osize, size_t nsize,
                                      const uintptr_t *words,
                                      const struct tide_ra *ra)
{
    return alloc_at(h, ci, osize, nsize, words, ra, true);
}

/* A new activation: one call further, or one return and one call. */
static TIDE_NOINLINE void *alloc_call(struct tide_heap *h, char *ci,
                                      size_t osize, size_t nsize,
                                      const uintptr_t *words,
                                      const struct tide_ra *ra)
{
    return alloc_at(h, ci, osize, nsize, words, ra, false);
}

/* Each has a function of its own, so that neither pays for the other. */
TIDE_INLINE void *alloc_near(struct tide_heap *h, char *ci, size_t osize,
                             size_t nsize, const uintptr_t *words,
                             const struct tide_ra *ra)
{
    if ((tideT_ci_status(ci) & TIDE_CIST_MARK) != 0)
        return alloc_seen(h, ci, osize, nsize, words, ra);
    return alloc_call(h, ci, osize, nsize, words, ra);
}

/* The running thread was resumed anew. */
static TIDE_NOINLINE void *alloc_resumed(struct tide_heap *h, char *ci,
                                         size_t osize, size_t nsize,
                                         const uintptr_t *words,
                                         const struct tide_ra *ra)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    struct tide_charge charge;
    uint8_t parts = 0;
    if (!step_resumed(h, h->cur))
        return tideT_alloc_slow(h, osize, nsize, words);
    if (!is_same_frame(h, ci) ||
        (h->top_is_lua && !is_same_pc(h, ra, words, ci, kind, nsize, &parts)))
        return alloc_near(h, ci, osize, nsize, words, ra);
    if (!can_charge(h, h->site, kind, nsize, &charge))
        return alloc_elsewhere(h, osize, nsize, words);
    h->parts_left = parts;
    return charge_small(h, nsize, &charge);
}

/*
** Another thread than the last one, a cycle has turned, or nothing is being
** recorded, which costs no more than the block.
*/
static TIDE_NOINLINE void *alloc_apart(struct tide_heap *h, size_t osize,
                                       size_t nsize, const uintptr_t *words)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    const struct tide_ra *ra = ra_of(h, words);
    struct tide_charge charge;
    if (is_resting(h) && can_charge(h, &h->off_site, kind, nsize, &charge))
        return charge_small(h, nsize, &charge);
    if (is_known_call(h, ra, words) &&
        step_switch(h, (const lua_State *)words[ra->l_word]))
        return alloc_near(h, tideT_L_ci(h->cur_L), osize, nsize, words, ra);
    return tideT_alloc_slow(h, osize, nsize, words);
}

/*
** Everything but the common case leaves by a tail call, so that the common
** case needs no register saved.
*/
void *tideT_alloc(void *heap, void *ptr, size_t osize, size_t nsize,
                  const uintptr_t *words)
{
    struct tide_heap *h = heap;
    if (ptr != NULL)
        return grow_storage(h, ptr, osize, nsize, words);
    const struct tide_ra *ra = ra_of(h, words);
    const unsigned kind = tideT_kind_of[osize & 15];
    if (TIDE_UNLIKELY(nsize > h->store.small_max ||
                      is_doubtful(h, ra, words, kind, nsize)))
        return alloc_unusual(h, osize, nsize, words);
    if (TIDE_UNLIKELY(!is_known_thread(h, ra, words)))
        return alloc_apart(h, osize, nsize, words);
    char *ci = tideT_L_ci(h->cur_L);
    uint8_t parts = 0;
    if (!is_linked(h))
        return alloc_resumed(h, ci, osize, nsize, words, ra);
    if (!is_same_frame(h, ci) ||
        (h->top_is_lua && !is_same_pc(h, ra, words, ci, kind, nsize, &parts)))
        return alloc_near(h, ci, osize, nsize, words, ra);
    struct tide_charge charge;
    if (TIDE_UNLIKELY(!can_charge(h, h->site, kind, nsize, &charge)))
        return alloc_unusual(h, osize, nsize, words);
    h->parts_left = parts;
    return charge_small(h, nsize, &charge);
}

/* A small block leaves its cell, which has kept what it held at the peak. */
TIDE_INLINE void discharge_block(struct tide_heap *h, struct tide_p_cell *cell,
                                 void *ptr, size_t osize)
{
    tide_assert(tideT_held_bytes(h, cell) >= osize && h->live_bytes >= osize);
    cell->freed_bytes += osize;
    cell->freed_blocks++;
    h->live_bytes -= osize;
    h->freed_blocks++;
    tideA_arena_free(&h->store.arena, ptr, tideA_class(osize));
}

/* Perhaps the first of its cell since the heap stood at its peak. */
static TIDE_NOINLINE void *free_first(struct tide_heap *h, void *ptr,
                                      size_t osize, struct tide_p_cell *cell)
{
    tideT_peak_keep(h, cell);
    discharge_block(h, cell, ptr, osize);
    return NULL;
}

/* It had survived a collection.  Ages come last: they are of what was freed. */
static TIDE_NOINLINE void *free_older(struct tide_heap *h, void *ptr,
                                      size_t osize, struct tide_p_cell *cell,
                                      uint32_t age)
{
    tideT_peak_keep(h, cell);
    discharge_block(h, cell, ptr, osize);
    tideT_count_aged(h, cell, osize, age);
    return NULL;
}

/* Its freeing means something: a call record, a stack, a thread (account.c). */
static TIDE_NOINLINE void *free_watched(struct tide_heap *h, void *ptr,
                                        size_t osize, struct tide_p_cell *cell,
                                        uint32_t age)
{
    if (h->g == NULL || h->is_closing || h->pending.block != NULL ||
        h->session->is_forked)
        return tideT_free_slow(h, ptr, osize);
    if (tideT_freed_watched(h, ptr, osize, (enum tide_kind)cell->kind)) {
        tideA_arena_free(&h->store.arena, ptr, tideA_class(osize));
        return NULL;
    }
    if (age > 1)
        return free_older(h, ptr, osize, cell, age);
    return free_first(h, ptr, osize, cell);
}

void *tideT_free(void *heap, void *ptr, size_t osize, size_t nsize)
{
    struct tide_heap *h = heap;
    (void)nsize;
    if (TIDE_UNLIKELY(osize > h->store.small_max || ptr == NULL ||
                      tideT_gc_word(h) != h->gc_word))
        return tideT_free_slow(h, ptr, osize);
    const uint64_t tag = *tideA_tag_place(ptr, osize);
    tide_assert(tideA_tag_cell(tag) > 0 && tideA_tag_cell(tag) < h->n_cells);
    struct tide_p_cell *cell = &h->cells[tideA_tag_cell(tag)];
    const uint32_t age = h->cycle - tideA_tag_birth(tag);
    if (TIDE_UNLIKELY((cell->flags & TIDE_CELL_WATCHED) != 0))
        return free_watched(h, ptr, osize, cell, age);
    if (TIDE_UNLIKELY(age > 1))
        return free_older(h, ptr, osize, cell, age);
    if (TIDE_UNLIKELY(cell->peak_epoch != h->epoch))
        return free_first(h, ptr, osize, cell);
    discharge_block(h, cell, ptr, osize);
    return NULL;
}
