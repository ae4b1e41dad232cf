/*
** slow.c: every call of the allocator that is not the common one.
**
** The order is always: find the place, get the block, and only then change
** what is counted; a failed allocation returns NULL and changes nothing.
*/
#include "attrib.h"

static const struct tide_ra *find_ra(const struct tide_heap *h,
                                     const uintptr_t *words)
{
    const uintptr_t address = words[TIDE_WORD_RA];
    const struct tide_ra *ra =
        &h->ras[tideT_ra_place(h->ra_multiplier, address)];
    return ra->address == address && address != 0 ? ra : NULL;
}

/* An allocation, as given to us, has failed. */
static void *fail(struct tide_heap *h, const void *ptr, size_t osize,
                  size_t nsize)
{
    h->pending.block = NULL;
    h->pending.bytes = 0;
    h->head->failed_blocks++;
    tideT_gc_failed(h);
    tideT_failed(h, ptr, osize, nsize);
    return NULL;
}

/* The arena cuts no more than it is allowed to. */
static void allow_block(struct tide_heap *h, size_t bytes)
{
    const struct tide_arena *arena = &h->store.arena;
    if (bytes <= TIDE_SMALL_MAX &&
        arena->cut_bytes + tideA_class(bytes) * 8 > arena->cut_max)
        tideT_cuts_refused(h, bytes);
}

/* Before a block is asked for: may the heap grow so? */
static bool may_grow(struct tide_heap *h, const void *ptr, size_t osize,
                     size_t nsize)
{
    const size_t growth = ptr == NULL ? nsize : nsize - osize;
    if (TIDE_UNLIKELY(h->failure.is_open))
        tideT_failure_next(h, ptr, osize, nsize);
    if (TIDE_UNLIKELY(h->limit.bytes != 0) && !tideT_is_within(h, growth))
        return false;
    allow_block(h, nsize);
    return true;
}

/* Large blocks, which a limit has to know of. */
static void count_large(struct tide_heap *h, size_t bytes_before,
                        size_t bytes_now)
{
    if (bytes_before <= TIDE_SMALL_MAX && bytes_now <= TIDE_SMALL_MAX)
        return;
    if (bytes_before > TIDE_SMALL_MAX)
        h->limit.large_bytes -= bytes_before;
    if (bytes_now > TIDE_SMALL_MAX)
        h->limit.large_bytes += bytes_now;
    tideT_large_changed(h);
}

/* Few blocks are, and these take longer to make than to note. */
static void note_huge(struct tide_heap *h, uint32_t cell, size_t bytes)
{
    if (TIDE_UNLIKELY(bytes >= TIDE_P_HUGE_LEAST))
        tideT_huge_made(h, cell, bytes);
}

/* A block was had: of the limit's books. */
static void note_grown(struct tide_heap *h, size_t bytes_before,
                       size_t bytes_now)
{
    if (TIDE_UNLIKELY(h->failure.is_open))
        tideT_failure_met(h);
    count_large(h, bytes_before, bytes_now);
}

/*
** The block's kind is settled at the next call: remember it.  A call record's
** can wait until something is freed that it depends on, which is always cold.
*/
static void set_pending(struct tide_heap *h, char *block, uint32_t cell)
{
    if (h->pending.bytes == 0)
        return;
    h->pending.block = block;
    h->pending.cell = cell;
    h->pending.node = h->site->node;
    if (h->pending.what != TIDE_PENDING_CALLINFO)
        h->cur_L = NULL;
}

/* The very first block holds the main thread and global_State. */
static void note_first(struct tide_heap *h, char *block)
{
    h->main_L = (const lua_State *)(void *)(block + h->cal->layout.extra_bytes);
    h->main_block = block;
    h->head->n_states++;
    h->is_newborn = true;
}

/* What only a watched kind or a state in the making needs to know. */
static void note_block(struct tide_heap *h, char *block, size_t osize,
                       size_t bytes, enum tide_kind kind)
{
    if (osize == 0) {
        h->last_vector = block;
        h->last_vector_bytes = bytes;
        h->last_vector_alloc = h->alloc_bytes;
    }
    if (h->main_L == NULL && osize == TIDE_LUA_TTHREAD && h->cal->has_layout)
        note_first(h, block);
    else if (osize == TIDE_LUA_TTHREAD && h->cal->is_sniffed)
        tideT_thread_of(
            h, (const lua_State *)(void *)(block + h->cal->layout.extra_bytes));
    if (!h->is_compiling)
        return;
    if (kind == TIDE_KIND_PROTO)
        h->open_protos[h->n_protos++ % TIDE_PROTOS_OPEN] = block;
    else if (kind == TIDE_KIND_TABLE)
        h->last_table = block;
}

void *tideT_alloc_large(struct tide_heap *h, struct tide_p_cell *cell,
                        size_t osize, size_t nsize)
{
    tideT_listen(h);
    char *block = may_grow(h, NULL, osize, nsize)
                      ? tideA_store_alloc(&h->store, osize, nsize)
                      : NULL;
    if (block == NULL)
        return fail(h, NULL, osize, nsize);
    note_grown(h, 0, nsize);
    const uint32_t index = (uint32_t)(cell - h->cells);
    tide_assert(index > 0 && index < h->n_cells);
    tideT_count_made(h, cell, nsize);
    tideA_store_set_tag(&h->store, block, nsize, tideA_tag(index, h->cycle));
    note_block(h, block, osize, nsize, (enum tide_kind)cell->kind);
    note_huge(h, index, nsize);
    if (TIDE_UNLIKELY(h->log.every_ns != 0) && nsize > TIDE_SMALL_MAX)
        tideT_log_look(h);
    return block;
}

void *tideT_alloc_slow(struct tide_heap *h, size_t osize, size_t nsize,
                       const uintptr_t *words)
{
    if (h->session->is_forked)
        tideT_after_fork(h->session);
    if (h->pending.block != NULL)
        tideT_pending_settle(h, NULL);
    tideT_listen(h);
    const struct tide_ra *ra = find_ra(h, words);
    const enum tide_kind kind =
        h->cal->has_layout ? tideT_locate(h, ra, words, NULL, osize, nsize)
                           : tideT_public_locate(h, ra, words, osize);
    struct tide_p_cell *cell = &h->cells[h->site->cell[kind & 3]];
    if (cell->kind != kind)
        cell = tideT_site_cell(h, h->site, kind);
    char *block = tideT_alloc_large(h, cell, osize, nsize);
    if (block != NULL)
        set_pending(h, block, (uint32_t)(cell - h->cells));
    return block;
}

/* Freed bytes of a cell; no blocks: one of them shrank. */
static void count_freed(struct tide_heap *h, struct tide_p_cell *cell,
                        size_t bytes, uint32_t blocks, uint32_t birth)
{
    tide_assert(h->live_bytes >= bytes);
    tide_assert(tideT_held_bytes(h, cell) >= bytes);
    tideT_peak_keep(h, cell);
    h->live_bytes -= bytes;
    h->freed_blocks += blocks;
    if (h->is_closing && birth != h->cycle) {
        struct tide_p_rest *rest = tideT_rest(h, cell);
        rest->closed_bytes += bytes;
        rest->closed_blocks += blocks;
        return;
    }
    cell->freed_bytes += bytes;
    cell->freed_blocks += blocks;
    const uint32_t age = h->cycle - birth;
    if (blocks == 0)
        tideT_count_ageless(h, cell, bytes, 0);
    else if (age > 1)
        tideT_count_aged(h, cell, bytes, age);
}

/*
** A table that grows makes a hash part of twice the size, then frees the old
** one: what survives of the cell is no less for it.
*/
static bool is_outgrown(const struct tide_heap *h, enum tide_kind kind,
                        size_t bytes)
{
    return kind == TIDE_KIND_STORAGE && h->last_vector_bytes == 2 * bytes &&
           h->alloc_bytes == h->last_vector_alloc;
}

void *tideT_free_slow(struct tide_heap *h, void *ptr, size_t osize)
{
    if (ptr == NULL)
        return NULL;
    if (h->session->is_forked)
        tideT_after_fork(h->session);
    if (h->pending.block != NULL)
        tideT_pending_settle(h, ptr);
    tideT_listen(h);
    if (h->g != NULL && tideT_gc_word(h) != h->gc_word)
        tideT_note_gc(h);
    uint64_t tag;
    if (!tideA_store_tag(&h->store, ptr, osize, &tag)) {
        if (!h->is_closing)
            h->head->before_freed_bytes += osize;
        tideT_freed_foreign(h, ptr, osize);
        tideA_store_free(&h->store, ptr, osize);
        if (ptr == h->main_block) { /* sniff.c: nobody is told of lua_close */
            tideT_state_gone(h);
            tide_heap_close(h);
        }
        return NULL;
    }
    tide_assert(tideA_tag_cell(tag) > 0 && tideA_tag_cell(tag) < h->n_cells);
    struct tide_p_cell *cell = &h->cells[tideA_tag_cell(tag)];
    const enum tide_kind kind = (enum tide_kind)cell->kind;
    if (osize > TIDE_SMALL_MAX &&
        (kind == TIDE_KIND_STRING || kind == TIDE_KIND_USERDATA))
        tideT_gc_swept(h);
    if (is_outgrown(h, kind, osize)) {
        tideT_replaced(h, cell, osize);
        if (osize >= TIDE_P_REGROWN_LEAST)
            tideT_count_regrown(h, cell, osize);
    }
    if ((cell->flags & TIDE_CELL_WATCHED) == 0 ||
        !tideT_freed_watched(h, ptr, osize, kind))
        count_freed(h, cell, osize, 1, tideA_tag_birth(tag));
    tideA_store_free(&h->store, ptr, osize);
    count_large(h, osize, 0);
    if (ptr == h->main_block) {
        /* the last one of all: lua_close has freed the others before it */
        tide_assert_internal(h->live_bytes == 0 || h->store.has_foreign);
        tideT_state_gone(h);
    }
    return NULL;
}

/* The thread whose stack is being resized: its frames are read otherwise. */
static void set_moving(struct tide_heap *h, const struct tide_ra *ra,
                       const uintptr_t *words, const void *ptr, size_t bytes)
{
    const uint16_t stack = h->cal->layout.stack;
    const lua_State *L =
        ra == NULL ? NULL : (const lua_State *)words[ra->l_word];
    h->moving_bytes = bytes;
    if (L != NULL && TIDE_AT(void *, L, stack) == ptr) {
        h->moving_L = L;
        return;
    }
    for (const struct tide_thread *t = h->cur; t != NULL; t = t->resumer)
        if (TIDE_AT(void *, t->L, stack) == ptr)
            h->moving_L = t->L;
}

/*
** Finds the place for growth.  A stack is moving: Lua 5.4.5 and later have
** turned the thread's pointers into offsets.
*/
static void locate_growth(struct tide_heap *h, void *ptr, size_t osize,
                          size_t nsize, const uintptr_t *words, bool is_stack)
{
    const struct tide_ra *ra = find_ra(h, words);
    if (!h->cal->has_layout) {
        if (!is_stack) /* its frames cannot be read: where we were last */
            tideT_public_locate(h, ra, words, osize);
        return;
    }
    if (is_stack && h->g != NULL)
        set_moving(h, ra, words, ptr, osize);
    tideT_locate(h, ra, words, ptr, osize, nsize);
    h->moving_L = NULL;
}

/* A block that existed before the attach grows: it is ours from now on. */
static void *grow_foreign(struct tide_heap *h, void *ptr, size_t osize,
                          size_t nsize, const uintptr_t *words)
{
    const struct tide_ra *ra = find_ra(h, words);
    const lua_State *L = ra != NULL ? (const lua_State *)words[ra->l_word]
                         : h->cal->is_sniffed ? h->main_L
                                              : NULL;
    const bool is_stack = h->cal->has_layout && L != NULL &&
                          TIDE_AT(void *, L, h->cal->layout.stack) == ptr;
    const bool is_strings = h->cal->has_layout && ptr == tideT_g_strings(h->g);
    locate_growth(h, ptr, osize, nsize, words, is_stack);
    char *block = may_grow(h, ptr, osize, nsize)
                      ? tideA_store_realloc(&h->store, ptr, osize, nsize)
                      : NULL;
    if (block == NULL)
        return fail(h, ptr, osize, nsize);
    h->head->before_freed_bytes += osize;
    note_grown(h, 0, nsize);
    const uint32_t cell = tideT_cell(h, h->site->node,
                                     is_stack     ? TIDE_KIND_STACK
                                     : is_strings ? TIDE_KIND_OTHER
                                                  : TIDE_KIND_STORAGE);
    tideT_count_made(h, &h->cells[cell], nsize);
    note_huge(h, cell, nsize);
    tideA_store_set_tag(&h->store, block, nsize, tideA_tag(cell, h->cycle));
    return block;
}

static void *shrink(struct tide_heap *h, void *ptr, size_t osize, size_t nsize,
                    bool is_ours, uint64_t tag)
{
    allow_block(h, nsize); /* a limit refuses no shrinking */
    char *block = tideA_store_realloc(&h->store, ptr, osize, nsize);
    if (block == NULL)
        return fail(h, ptr, osize, nsize);
    if (!is_ours) {
        h->head->before_freed_bytes += osize - nsize;
        return block;
    }
    count_large(h, osize, nsize);
    count_freed(h, &h->cells[tideA_tag_cell(tag)], osize - nsize, 0,
                tideA_tag_birth(tag));
    tideA_store_set_tag(&h->store, block, nsize, tag);
    return block;
}

/* Stacks are the blocks of their kind, and first stacks of kind thread. */
static bool is_stack_block(const struct tide_heap *h, enum tide_kind kind,
                           size_t bytes)
{
    return kind == TIDE_KIND_STACK ||
           (kind == TIDE_KIND_THREAD && bytes != h->cal->layout.thread_bytes);
}

/* What a block is from now on, seen as it grows. */
static enum tide_kind grown_kind(const struct tide_heap *h, const void *ptr,
                                 enum tide_kind kind, bool is_stack)
{
    if (is_stack)
        return TIDE_KIND_STACK;
    if (h->g != NULL && ptr == tideT_g_strings(h->g))
        return TIDE_KIND_OTHER;
    return kind;
}

/* `ptr` grows and passes to the line that made it grow. */
static void *grow(struct tide_heap *h, void *ptr, size_t osize, size_t nsize,
                  const uintptr_t *words, uint64_t tag)
{
    const uint32_t old = tideA_tag_cell(tag);
    tide_assert(old > 0 && old < h->n_cells);
    const enum tide_kind old_kind = (enum tide_kind)h->cells[old].kind;
    const bool is_stack = is_stack_block(h, old_kind, osize);
    const enum tide_kind kind = grown_kind(h, ptr, old_kind, is_stack);
    locate_growth(h, ptr, osize, nsize, words, is_stack);
    char *block = may_grow(h, ptr, osize, nsize)
                      ? tideA_store_realloc(&h->store, ptr, osize, nsize)
                      : NULL;
    if (block == NULL)
        return fail(h, ptr, osize, nsize);
    note_grown(h, osize, nsize);
    const uint32_t new = tideT_cell(h, h->site->node, kind);
    tideT_heap_grows(h, &h->cells[new], nsize - osize);
    h->cells[new].alloc_bytes += nsize - osize;
    tideT_move(h, old, new, osize);
    if (kind == TIDE_KIND_STORAGE && osize >= TIDE_P_REGROWN_LEAST)
        tideT_count_regrown(h, &h->cells[new], osize);
    note_huge(h, new, nsize);
    tideA_store_set_tag(&h->store, block, nsize,
                        tideA_tag(new, tideA_tag_birth(tag)));
    return block;
}

void *tideT_realloc_slow(struct tide_heap *h, void *ptr, size_t osize,
                         size_t nsize, const uintptr_t *words)
{
    if (h->session->is_forked)
        tideT_after_fork(h->session);
    if (h->pending.block != NULL)
        tideT_pending_settle(h, NULL);
    tideT_listen(h);
    h->parts_left = 0;
    uint64_t tag = 0;
    const bool is_ours = tideA_store_tag(&h->store, ptr, osize, &tag);
    if (nsize <= osize)
        return shrink(h, ptr, osize, nsize, is_ours, tag);
    if (!is_ours)
        return grow_foreign(h, ptr, osize, nsize, words);
    return grow(h, ptr, osize, nsize, words, tag);
}
