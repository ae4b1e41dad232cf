/*
** arena.h: small blocks in size classes of 8 bytes, without headers.
**
** Lua gives a block's size when it frees it, so a slot needs no header and a
** free list per class is enough: making a block is a pop, freeing one a push.
** The path below is six instructions each way; everything else is cold.
**
** Slots are cut from pages of 32 KiB, one class per page, and pages from one
** reserved range of addresses, so that "is this block ours?" is one
** comparison.  Pages in which no block is left are found by tideA_arena_trim
** and serve any class again.
**
** A program that holds little would touch a few lines of each of many pages, so
** the first pages of the range are mixed: each class gets a few short runs of
** slots there, aligned to TIDE_MIXED_STEP, before it gets a page of its own.
** They are never given back.
*/
#ifndef TIDE_ARENA_H
#define TIDE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/assert.h"
#include "../common/compiler.h"
#include "tag.h"

#define TIDE_SMALL_MAX   1024u /* largest block served, bytes without tag */
#define TIDE_CLASSES     (TIDE_SMALL_MAX / 8 + 1)
#define TIDE_PAGE_SHIFT  15
#define TIDE_PAGE_BYTES  ((size_t)1 << TIDE_PAGE_SHIFT)
#define TIDE_CHUNK_BYTES ((size_t)1 << 20)     /* made accessible at a time */
#define TIDE_MIXED_BYTES (8 * TIDE_PAGE_BYTES) /* of mixed pages, at base */
#define TIDE_MIXED_STEP  ((size_t)64)
#define TIDE_CLASS_MIXED 0xffu /* in page_class: see mixed_class */
/* A range that no heap fills: small blocks are then never from elsewhere. */
#define TIDE_RANGE_AMPLE ((size_t)1 << 34)

struct tide_arena {
    void *free[TIDE_CLASSES]; /* free slots by class; class 0 is unused */
    unsigned char *base;      /* reserved range */
    size_t range_bytes;       /* its length */
    size_t open_bytes;        /* base[0 .. open_bytes) is accessible */
    size_t used_bytes;        /* base[0 .. used_bytes) was cut into pages */
    size_t limit_bytes;       /* stop below range_bytes: RLIMIT_AS */
    size_t cut_bytes;         /* slots of pages in use, without their tags */
    size_t cut_max;           /* no more of these without being allowed to */
    unsigned char *bump[TIDE_CLASSES]; /* rest of each class's last page */
    unsigned char *bump_end[TIDE_CLASSES];
    uint8_t *page_class;          /* class of each page; 0: free */
    uint8_t *mixed_class;         /* class by step of the mixed pages */
    unsigned char *mixed;         /* rest of them; NULL: none was cut yet */
    uint8_t n_runs[TIDE_CLASSES]; /* runs of each class in them */
    uint32_t *page_free;          /* scratch for trim: free slots of a page */
    uint32_t *empty;              /* stack of pages without a block */
    size_t n_empty;
    size_t map_bytes;        /* of the four tables together */
    size_t pages_since_trim; /* pages taken since the last trim */
};

/*
** Reserves the range; false: no address space at all, the arena then serves
** nothing and tideA_arena_alloc returns NULL.
*/
bool tideA_arena_open(struct tide_arena *arena);
void tideA_arena_close(struct tide_arena *arena);

/* Cuts more slots of a class; NULL: no memory, or cut_max does not allow it. */
TIDE_COLD void *tideA_arena_refill(struct tide_arena *arena, size_t class);

/*
** Finds pages with no block left and gives them back, to any class and, when
** there are many, to the system.  Costs a walk over the free lists.
** Returns the bytes given back.
*/
TIDE_COLD size_t tideA_arena_trim(struct tide_arena *arena);

/* Class of a block of 1 ... TIDE_SMALL_MAX bytes. */
TIDE_INLINE size_t tideA_class(size_t bytes)
{
    return (bytes + 7) >> 3;
}

TIDE_INLINE size_t tideA_slot_bytes(size_t class)
{
    return class * 8 + TIDE_TAG_BYTES;
}

/*
** Checked builds fill free slots with a pattern, and look at it when they are
** used again: a write to a freed block, or a second free, is found there.
*/
#if TIDE_CHECK >= 1
# define TIDE_POISON 0xdd
void tideA_arena_poison(void *slot, size_t class);
void tideA_arena_unpoison(void *slot, size_t class);
#else
# define tideA_arena_poison(slot, class)   ((void)0)
# define tideA_arena_unpoison(slot, class) ((void)0)
#endif

/*
** Takes the first slot of a class off its list.  The one behind it will be
** wanted soon, and was freed long ago where much is freed at once: it is
** fetched meanwhile.
*/
TIDE_INLINE void tideA_arena_pop(struct tide_arena *arena, void **slot,
                                 size_t class)
{
    void *next = *slot;
    arena->free[class] = next;
    __builtin_prefetch(next, 1);
}

TIDE_INLINE void *tideA_arena_alloc(struct tide_arena *arena, size_t class)
{
    void **slot = arena->free[class];
    if (TIDE_UNLIKELY(slot == NULL))
        return tideA_arena_refill(arena, class);
    tideA_arena_unpoison(slot, class);
    tideA_arena_pop(arena, slot, class);
    return slot;
}

TIDE_INLINE void tideA_arena_free(struct tide_arena *arena, void *slot,
                                  size_t class)
{
    tideA_arena_poison(slot, class);
    *(void **)slot = arena->free[class];
    arena->free[class] = slot;
}

/* Bytes of a block of this arena, rounded up to 8. */
static inline size_t tideA_arena_bytes(const struct tide_arena *arena,
                                       const void *block)
{
    const size_t at = (size_t)((const unsigned char *)block - arena->base);
    const uint8_t class = arena->page_class[at >> TIDE_PAGE_SHIFT];
    if (class != TIDE_CLASS_MIXED)
        return (size_t) class * 8;
    return (size_t)arena->mixed_class[at / TIDE_MIXED_STEP] * 8;
}

TIDE_INLINE bool tideA_arena_has(const struct tide_arena *arena,
                                 const void *block)
{
    return (size_t)((const unsigned char *)block - arena->base) <
           arena->range_bytes;
}

#endif
