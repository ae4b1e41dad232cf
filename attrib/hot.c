/*
** hot.c: the path of every allocation and every free.
**
** Budget, x86-64, gcc 12 -O2, entry.S included: 125 instructions to make a
** small block where the last one was made, 52 to free one; tests/abi/budget.py
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
    const struct tide_site *site = h->site;
    if (kind == TIDE_KIND_TABLE) {
        *parts = (uint8_t)site->parts;
        return ra->pc_word != TIDE_NO_WORD &&
               words[ra->pc_word] + (uintptr_t)(intptr_t)ra->pc_bias ==
                   (uintptr_t)site->pc;
    }
    if (kind == TIDE_KIND_STORAGE && h->parts_left != 0) {
        const uint32_t bit = tideT_part_bit(site, nsize);
        *parts = h->parts_left & (uint8_t)~bit;
        return (h->parts_left & bit) != 0;
    }
    *parts = 0;
    return tideT_ci_savedpc(ci) == site->pc;
}

/* Same thread, same activation of the same frame, same instruction. */
TIDE_INLINE bool is_same_place(const struct tide_heap *h,
                               const struct tide_ra *ra, const uintptr_t *words,
                               unsigned kind, size_t nsize, uint8_t *parts)
{
    const lua_State *L = (const lua_State *)words[ra->l_word];
    if (L != h->cur_L || ra->address != words[TIDE_WORD_RA])
        return false;
    if (tideT_gc_word(h) != h->gc_word)
        return false;
    const char *ci = tideT_L_ci(L);
    if (ci != h->top_ci || !tideT_is_same_call(h, ci) ||
        (*h->link & TIDE_CIST_MARK) == 0)
        return false;
    *parts = 0;
    return !h->top_is_lua || is_same_pc(h, ra, words, ci, kind, nsize, parts);
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

/* Growth of a small block of table storage; all else is slow. */
static TIDE_NOINLINE void *grow_storage(struct tide_heap *h, void *ptr,
                                        size_t osize, size_t nsize,
                                        const uintptr_t *words)
{
    const struct tide_ra *ra = ra_of(h, words);
    uint8_t parts;
    if (nsize > h->store.small_max || nsize <= osize || ra->is_buffer)
        return tideT_realloc_slow(h, ptr, osize, nsize, words);
    const uint64_t tag = *tideA_tag_place(ptr, osize);
    const uint32_t old = tideA_tag_cell(tag);
    if (h->cells[old].kind != TIDE_KIND_STORAGE)
        return tideT_realloc_slow(h, ptr, osize, nsize, words);
    h->parts_left = 0;
    if (!is_same_place(h, ra, words, TIDE_KIND_STORAGE, nsize, &parts) &&
        !tideT_step(h, ra, words, ptr, TIDE_KIND_STORAGE, nsize))
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

/* Somewhere else than the last one. */
static TIDE_NOINLINE void *alloc_elsewhere(struct tide_heap *h, size_t osize,
                                           size_t nsize, const uintptr_t *words)
{
    const unsigned kind = tideT_kind_of[osize & 15];
    if (!tideT_step(h, ra_of(h, words), words, NULL, kind, nsize))
        return tideT_alloc_slow(h, osize, nsize, words);
    return alloc_here(h, kind, osize, nsize);
}

/* A large block, a block of a new cell or class, or of a doubtful kind. */
static TIDE_NOINLINE void *alloc_unusual(struct tide_heap *h, size_t osize,
                                         size_t nsize, const uintptr_t *words)
{
    const struct tide_ra *ra = ra_of(h, words);
    const unsigned kind = tideT_kind_of[osize & 15];
    uint8_t parts;
    if (is_doubtful(h, ra, words, kind, nsize))
        return tideT_alloc_slow(h, osize, nsize, words);
    if (!is_same_place(h, ra, words, kind, nsize, &parts))
        return alloc_elsewhere(h, osize, nsize, words);
    h->parts_left = parts;
    return alloc_here(h, kind, osize, nsize);
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
    uint8_t parts;
    if (TIDE_UNLIKELY(nsize > h->store.small_max ||
                      is_doubtful(h, ra, words, kind, nsize)))
        return alloc_unusual(h, osize, nsize, words);
    if (!is_same_place(h, ra, words, kind, nsize, &parts))
        return alloc_elsewhere(h, osize, nsize, words);
    struct tide_p_cell *cell = &h->cells[h->site->cell[kind & 3]];
    const size_t class = tideA_class(nsize);
    void **block = h->store.arena.free[class];
    if (TIDE_UNLIKELY(cell->kind != kind || block == NULL))
        return alloc_unusual(h, osize, nsize, words);
    tideT_check_place(h);
    h->parts_left = parts;
    tideA_arena_unpoison(block, class);
    h->store.arena.free[class] = *block;
    return charge_block(h, cell, block, nsize);
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
    if (TIDE_UNLIKELY((cell->flags & TIDE_CELL_WATCHED) != 0))
        return tideT_free_slow(h, ptr, osize);
    tide_assert(tideT_held_bytes(cell) >= osize && h->live_bytes >= osize);
    tideT_peak_keep(h, cell);
    cell->freed_bytes += osize;
    cell->freed_blocks++;
    if (h->cycle - tideA_tag_birth(tag) <= 1) {
        cell->young_bytes += osize;
        cell->young_blocks++;
    }
    h->live_bytes -= osize;
    h->freed_blocks++;
    tideA_arena_free(&h->store.arena, ptr, tideA_class(osize));
    return NULL;
}
