/*
** store.h: where a heap's blocks come from.
**
** Four origins of a block, told apart by its address:
**
**   arena     small, from the heap's size classes (arena.h)
**   system    from malloc: large ones, all with backend=system, and small ones
**             when the arena's range is full
**   chained   from the host's own allocator, called with the sizes that Lua
**             gave
**   foreign   made by the allocator that the state had before an attach
**
** Arena and system blocks carry their tag behind their bytes (tag.h), a
** chained block's tag stands in a side table by address, a foreign block has
** none.
**
** `small_max` is what makes the fast path: blocks up to it are surely from the
** arena, with no question asked.  It is 0 when any other origin is possible
** for a small block, or when every block is to be looked at.
*/
#ifndef TIDE_STORE_H
#define TIDE_STORE_H

#include <stdbool.h>

#include "../common/hashtab.h"
#include "../include/tidemark.h"
#include "arena.h"

struct tide_store {
    struct tide_arena arena;
    size_t small_max;    /* TIDE_SMALL_MAX, or 0: ask for the origin */
    bool use_system;     /* backend=system */
    bool has_foreign;    /* attached in mid-life */
    bool is_slow;        /* somebody wants to see each block */
    tide_alloc_fn chain; /* the host's allocator; NULL: none */
    void *chain_ud;
    tide_alloc_fn before; /* the allocator before the attach */
    void *before_ud;
    struct tide_hashtab side;  /* chained blocks: address to tag */
    struct tide_hashtab large; /* system blocks, kept when has_foreign */
    struct tide_mem *mem;      /* for the tables; not owned */
};

/*
** Opens a store.  mem is kept.  A store without an arena (no address space)
** works with malloc.
*/
void tideA_store_open(struct tide_store *store, struct tide_mem *mem,
                      bool use_system);

/*
** Frees all arena blocks.  System and chained ones must be freed before; Lua
** does that in lua_close.
*/
void tideA_store_close(struct tide_store *store);

/* Chained from now on (f NULL: not any more). */
void tideA_store_chain(struct tide_store *store, tide_alloc_fn f, void *ud);

/* Sets small_max to what it must be, after somebody has set it to 0. */
void tideA_store_settle(struct tide_store *store);

/* Blocks that are not known belong to f from now on. */
void tideA_store_adopt(struct tide_store *store, tide_alloc_fn f, void *ud);

/* A block without a tag yet; NULL: no memory, nothing changed. */
void *tideA_store_alloc(struct tide_store *store, size_t osize_or_kind,
                        size_t bytes);

void tideA_store_free(struct tide_store *store, void *block, size_t bytes);

/*
** The block with another size, at the same or another place; its tag is lost
** unless the block is foreign and stays so.  NULL: no memory, nothing changed
** (with the tag still in place).
*/
void *tideA_store_realloc(struct tide_store *store, void *block,
                          size_t old_bytes, size_t new_bytes);

/* Reads a tag; false: the block is foreign and has none. */
bool tideA_store_tag(const struct tide_store *store, void *block, size_t bytes,
                     uint64_t *tag);

/* Writes a tag.  Does nothing for a foreign block. */
void tideA_store_set_tag(struct tide_store *store, void *block, size_t bytes,
                         uint64_t tag);

#endif
