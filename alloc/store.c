/*
** store.c: blocks of every origin: see store.h.
**
** The rare paths only: the allocator's fast path uses the arena directly when
** store->small_max says so.
*/
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "../common/assert.h"

enum origin {
    ORIGIN_ARENA,
    ORIGIN_SYSTEM,
    ORIGIN_CHAINED,
    ORIGIN_FOREIGN,
};

/* The fast path is allowed when no other origin can hold a small block. */
static void choose_small_max(struct tide_store *store)
{
    const struct tide_arena *arena = &store->arena;
    const bool is_plain = arena->base != NULL && !store->use_system &&
                          store->chain == NULL && store->side.n == 0 &&
                          !store->has_foreign && !store->is_slow &&
                          arena->range_bytes >= TIDE_RANGE_AMPLE;
    store->small_max = is_plain ? TIDE_SMALL_MAX : 0;
}

void tideA_store_settle(struct tide_store *store)
{
    choose_small_max(store);
}

void tideA_store_open(struct tide_store *store, struct tide_mem *mem,
                      bool use_system)
{
    memset(store, 0, sizeof *store);
    store->mem = mem;
    store->use_system = use_system;
    if (!use_system)
        tideA_arena_open(&store->arena);
    choose_small_max(store);
}

void tideA_store_close(struct tide_store *store)
{
    tideC_hashtab_close(&store->side, store->mem);
    tideC_hashtab_close(&store->large, store->mem);
    tideA_arena_close(&store->arena);
}

void tideA_store_chain(struct tide_store *store, tide_alloc_fn f, void *ud)
{
    store->chain = f;
    store->chain_ud = ud;
    choose_small_max(store);
}

void tideA_store_adopt(struct tide_store *store, tide_alloc_fn f, void *ud)
{
    store->before = f;
    store->before_ud = ud;
    store->has_foreign = true;
    choose_small_max(store);
}

static enum origin origin_of(const struct tide_store *store, const void *block)
{
    tide_assert(block != NULL);
    if (tideA_arena_has(&store->arena, block))
        return ORIGIN_ARENA;
    const uint64_t key = (uint64_t)(uintptr_t)block;
    if (tideC_hashtab_find(&store->side, key) != NULL)
        return ORIGIN_CHAINED;
    if (store->has_foreign && tideC_hashtab_find(&store->large, key) == NULL)
        return ORIGIN_FOREIGN;
    return ORIGIN_SYSTEM;
}

static void *system_alloc(struct tide_store *store, size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    void *p = malloc(tideA_round(bytes) + TIDE_TAG_BYTES);
    if (p == NULL || !store->has_foreign)
        return p;
    if (tideC_hashtab_put(&store->large, store->mem, (uint64_t)(uintptr_t)p) ==
        NULL) {
        free(p);
        return NULL;
    }
    return p;
}

static void system_free(struct tide_store *store, void *block)
{
    if (store->has_foreign)
        tideC_hashtab_remove(&store->large, (uint64_t)(uintptr_t)block, NULL);
    free(block);
}

static void *chained_alloc(struct tide_store *store, size_t osize, size_t bytes)
{
    void *p = store->chain(store->chain_ud, NULL, osize, bytes);
    if (p == NULL)
        return NULL;
    if (tideC_hashtab_put(&store->side, store->mem, (uint64_t)(uintptr_t)p) ==
        NULL) {
        store->chain(store->chain_ud, p, bytes, 0);
        return NULL;
    }
    return p;
}

static void *own_alloc(struct tide_store *store, size_t bytes)
{
    if (bytes <= TIDE_SMALL_MAX && store->arena.base != NULL) {
        void *p = tideA_arena_alloc(&store->arena, tideA_class(bytes));
        if (p != NULL)
            return p;
    }
    return system_alloc(store, bytes);
}

void *tideA_store_alloc(struct tide_store *store, size_t osize_or_kind,
                        size_t bytes)
{
    tide_assert(bytes > 0);
    if (store->chain != NULL)
        return chained_alloc(store, osize_or_kind, bytes);
    return own_alloc(store, bytes);
}

void tideA_store_free(struct tide_store *store, void *block, size_t bytes)
{
    switch (origin_of(store, block)) {
    case ORIGIN_ARENA:
        tide_assert(tideA_class(bytes) * 8 ==
                    tideA_arena_bytes(&store->arena, block));
        tideA_arena_free(&store->arena, block, tideA_class(bytes));
        break;
    case ORIGIN_SYSTEM:
        system_free(store, block);
        break;
    case ORIGIN_CHAINED:
        tideC_hashtab_remove(&store->side, (uint64_t)(uintptr_t)block, NULL);
        if (store->chain != NULL)
            store->chain(store->chain_ud, block, bytes, 0);
        break;
    case ORIGIN_FOREIGN:
        store->before(store->before_ud, block, bytes, 0);
        break;
    }
}

/* By a new block and a copy; the new one is ours or chained. */
static void *move_block(struct tide_store *store, void *block, size_t old_bytes,
                        size_t new_bytes)
{
    void *p = tideA_store_alloc(store, 0, new_bytes);
    if (p == NULL)
        return NULL;
    memcpy(p, block, old_bytes < new_bytes ? old_bytes : new_bytes);
    tideA_store_free(store, block, old_bytes);
    return p;
}

static void *chained_realloc(struct tide_store *store, void *block,
                             size_t old_bytes, size_t new_bytes)
{
    const uint64_t old_key = (uint64_t)(uintptr_t)block;
    /* room for the new key first: after the call nothing may fail */
    const uint64_t spare = UINT64_MAX;
    if (tideC_hashtab_put(&store->side, store->mem, spare) == NULL)
        return NULL;
    tideC_hashtab_remove(&store->side, spare, NULL);
    void *p = store->chain(store->chain_ud, block, old_bytes, new_bytes);
    if (p == NULL)
        return NULL;
    if (p != block) {
        tideC_hashtab_remove(&store->side, old_key, NULL);
        tideC_hashtab_put(&store->side, store->mem, (uint64_t)(uintptr_t)p);
    }
    return p;
}

static void *system_realloc(struct tide_store *store, void *block,
                            size_t old_bytes, size_t new_bytes)
{
    if (store->has_foreign || store->chain != NULL || new_bytes > SIZE_MAX / 2)
        return move_block(store, block, old_bytes, new_bytes);
    if (new_bytes <= TIDE_SMALL_MAX && !store->use_system)
        return move_block(store, block, old_bytes, new_bytes);
    return realloc(block, tideA_round(new_bytes) + TIDE_TAG_BYTES);
}

void *tideA_store_realloc(struct tide_store *store, void *block,
                          size_t old_bytes, size_t new_bytes)
{
    switch (origin_of(store, block)) {
    case ORIGIN_ARENA:
        if (new_bytes <= TIDE_SMALL_MAX &&
            tideA_class(old_bytes) == tideA_class(new_bytes))
            return block;
        return move_block(store, block, old_bytes, new_bytes);
    case ORIGIN_SYSTEM:
        return system_realloc(store, block, old_bytes, new_bytes);
    case ORIGIN_CHAINED:
        if (store->chain == NULL)
            return move_block(store, block, old_bytes, new_bytes);
        return chained_realloc(store, block, old_bytes, new_bytes);
    case ORIGIN_FOREIGN:
        if (new_bytes <= old_bytes)
            return store->before(store->before_ud, block, old_bytes, new_bytes);
        return move_block(store, block, old_bytes, new_bytes);
    }
    return NULL;
}

bool tideA_store_tag(const struct tide_store *store, void *block, size_t bytes,
                     uint64_t *tag)
{
    switch (origin_of(store, block)) {
    case ORIGIN_ARENA:
    case ORIGIN_SYSTEM:
        *tag = *tideA_tag_place(block, bytes);
        return true;
    case ORIGIN_CHAINED:
        *tag = *tideC_hashtab_find(&store->side, (uint64_t)(uintptr_t)block);
        return true;
    case ORIGIN_FOREIGN:
        break;
    }
    return false;
}

void tideA_store_set_tag(struct tide_store *store, void *block, size_t bytes,
                         uint64_t tag)
{
    switch (origin_of(store, block)) {
    case ORIGIN_ARENA:
    case ORIGIN_SYSTEM:
        *tideA_tag_place(block, bytes) = tag;
        break;
    case ORIGIN_CHAINED:
        *tideC_hashtab_find(&store->side, (uint64_t)(uintptr_t)block) = tag;
        break;
    case ORIGIN_FOREIGN:
        break;
    }
}
