/*
** account.c: the rare half of counting: peaks, blocks whose kind shows
** late, blocks whose freeing means something, and the end of a state.
*/
#include <time.h>

#include "check.h"
#include "session.h"

const char tideT_no_gc[8] = {0};

const uint8_t tideT_kind_of[16] = {
    TIDE_KIND_STORAGE,  TIDE_KIND_OTHER,    TIDE_KIND_OTHER,
    TIDE_KIND_OTHER,    TIDE_KIND_STRING,   TIDE_KIND_TABLE,
    TIDE_KIND_FUNCTION, TIDE_KIND_USERDATA, TIDE_KIND_THREAD,
    TIDE_KIND_UPVALUE,  TIDE_KIND_PROTO,    TIDE_KIND_OTHER,
    TIDE_KIND_OTHER,    TIDE_KIND_OTHER,    TIDE_KIND_OTHER,
    TIDE_KIND_OTHER,
};

/* ---- the peak: see tide_p_heap.peak_epoch in profile.h ---- */

void tideT_peak_save(struct tide_heap *h, struct tide_p_cell *cell)
{
    if (!h->peak_is_past) {
        h->peak_is_past = true;
        h->head->peak_bytes = h->peak_bytes;
        h->head->peak_epoch = h->epoch;
        h->head->peak_is_past = 1;
    }
    const uint64_t bytes = tideT_held_bytes(h, cell);
    const uint64_t blocks = tideT_held_blocks(h, cell);
    if (cell->rest != 0 || bytes != 0 || blocks != 0) {
        struct tide_p_rest *rest = tideT_rest(h, cell);
        rest->peak_bytes = bytes;
        rest->peak_blocks = blocks;
    }
    TIDE_PUBLISH(&cell->peak_epoch, h->epoch); /* it covers the two */
}

void tideT_peak_rise(struct tide_heap *h)
{
    h->peak_is_past = false;
    if (++h->epoch == 0) { /* numbers start anew: no cell may seem to match */
        for (uint32_t i = 0; i < h->n_cells; i++)
            h->cells[i].peak_epoch = 0;
        h->epoch = 1;
    }
    h->head->peak_epoch = h->epoch;
    h->head->peak_is_past = 0;
}

void tideT_move(struct tide_heap *h, uint32_t from, uint32_t to, size_t bytes)
{
    if (from == to)
        return;
    tide_assert(from < h->n_cells && to < h->n_cells);
    struct tide_p_cell *a = &h->cells[from];
    struct tide_p_cell *b = &h->cells[to];
    tide_assert(tideT_held_bytes(h, a) >= bytes && tideT_held_blocks(h, a) > 0);
    if (h->peak_is_past) {
        tideT_peak_keep(h, a);
        tideT_peak_keep(h, b);
    }
    struct tide_p_rest *lost = tideT_rest(h, a);
    struct tide_p_rest *gained = tideT_rest(h, b);
    lost->moved_bytes -= (int64_t)bytes;
    lost->moved_blocks--;
    gained->moved_bytes += (int64_t)bytes;
    gained->moved_blocks++;
}

/* ---- blocks whose kind shows at the next call ---- */

static bool is_vector_of(const char *proto, const char *block)
{
    return (const char *)tideT_proto_code(proto) == block ||
           tideT_proto_k(proto) == block || tideT_proto_p(proto) == block ||
           tideT_proto_upvalues(proto) == block ||
           (const char *)tideT_proto_lineinfo(proto) == block ||
           (const char *)tideT_proto_absline(proto) == block ||
           tideT_proto_locvars(proto) == block;
}

/* A vector that was made while compiling: of a prototype, of the scanner's
** table, or the compiler's own. */
static enum tide_kind kind_of_code(const struct tide_heap *h, const char *block)
{
    /* the last ones first: the innermost function grows most */
    for (uint32_t i = 1; i <= TIDE_PROTOS_OPEN; i++) {
        const char *p = h->open_protos[(h->n_protos - i) % TIDE_PROTOS_OPEN];
        if (p != NULL && is_vector_of(p, block))
            return TIDE_KIND_CODE;
    }
    const char *t = h->last_table;
    if (t != NULL &&
        (tideT_table_node(t) == block || tideT_table_array(t) == block))
        return TIDE_KIND_STORAGE;
    return TIDE_KIND_OTHER;
}

/*
** A call record stands behind the one that was current.  Lua takes it off that
** list just before it frees it, but leaves the way back.
*/
static bool is_callinfo(const struct tide_pending *p, const void *freed)
{
    return tideT_ci_next(p->ci) == p->block ||
           (freed == p->block && tideT_ci_previous(p->block) == p->ci);
}

static enum tide_kind settled_kind(const struct tide_heap *h,
                                   const struct tide_pending *p,
                                   const void *freed)
{
    switch (p->what) {
    case TIDE_PENDING_CALLINFO:
        if (is_callinfo(p, freed))
            return TIDE_KIND_CALLINFO;
        return p->is_compiling ? kind_of_code(h, p->block) : TIDE_KIND_STORAGE;
    case TIDE_PENDING_CODE:
        return kind_of_code(h, p->block);
    case TIDE_PENDING_BUFFER:
        /* the frees since then are in both counts */
        return tideT_g_total(h->g) - p->total ==
                       (int64_t)(h->live_bytes - p->live)
                   ? TIDE_KIND_STORAGE
                   : TIDE_KIND_BUFFER;
    }
    return TIDE_KIND_OTHER;
}

/* The whole of a block goes from one cell to the other, as it was counted. */
static void pass_block(struct tide_heap *h, struct tide_p_cell *a,
                       struct tide_p_cell *b, size_t bytes)
{
    if (a->alloc_blocks > 0 && a->alloc_bytes >= bytes) {
        a->alloc_bytes -= bytes;
        a->alloc_blocks--;
        b->alloc_bytes += bytes;
        b->alloc_blocks++;
        return;
    }
    /* counting began anew since: a fork, a reset */
    struct tide_p_rest *from = tideT_rest(h, a);
    struct tide_p_rest *to = tideT_rest(h, b);
    tide_assert(from->inherited_bytes >= bytes && from->inherited_blocks > 0);
    from->inherited_bytes -= bytes;
    from->inherited_blocks--;
    to->inherited_bytes += bytes;
    to->inherited_blocks++;
}

/* A whole block was charged to the wrong kind of its node. */
static void recharge(struct tide_heap *h, char *block, size_t bytes,
                     uint32_t from, uint32_t to)
{
    struct tide_p_cell *a = &h->cells[from];
    struct tide_p_cell *b = &h->cells[to];
    uint64_t tag = 0;
    if (from == to || !tideA_store_tag(&h->store, block, bytes, &tag))
        return;
    if (h->peak_is_past) {
        tideT_peak_keep(h, a);
        tideT_peak_keep(h, b);
    }
    pass_block(h, a, b, bytes);
    tideT_huge_moved(h, from, to, bytes);
    tideA_store_set_tag(&h->store, block, bytes,
                        tideA_tag(to, tideA_tag_birth(tag)));
}

void tideT_pending_settle(struct tide_heap *h, const void *freed_or_null)
{
    const struct tide_pending p = h->pending;
    tide_assert(p.block != NULL && p.cell < h->n_cells);
    h->pending.block = NULL;
    h->pending.bytes = 0;
    const enum tide_kind kind = settled_kind(h, &p, freed_or_null);
    if (kind != (enum tide_kind)h->cells[p.cell].kind)
        recharge(h, p.block, p.bytes, p.cell, tideT_cell(h, p.node, kind));
}

/* ---- blocks whose freeing means something ---- */

static void forget_proto(struct tide_heap *h, const char *proto)
{
    tideT_proto_forget(h, proto);
    for (uint32_t i = 0; i < TIDE_PROTOS_OPEN; i++)
        if (h->open_protos[i] == proto)
            h->open_protos[i] = NULL;
    if (h->sites != NULL && h->is_compiling)
        h->cur_L = NULL;
}

/* The bottom of L's stack as its frames have it. */
static char *stack_by_frames(const lua_State *L)
{
    char *ci = tideT_L_ci(L);
    while (tideT_ci_previous(ci) != NULL)
        ci = tideT_ci_previous(ci);
    return tideT_ci_func(ci);
}

/*
** Lua 5.4.3 and 5.4.4 resize a stack by a new block and a free: at the free,
** L->stack is still the old one, but the frames are in the new one.
** Returns the new stack, NULL when `old` is not being replaced.
*/
static char *replacing_stack(const struct tide_heap *h, const lua_State *L,
                             const char *old)
{
    if (L == NULL || tideT_L_ci(L) == NULL ||
        TIDE_AT(char *, L, h->cal->layout.stack) != old)
        return NULL;
    char *new = stack_by_frames(L);
    return new == old ? NULL : new;
}

/*
** A new stack's size: in the arena its class tells, since stacks are multiples
** of 16 bytes; a large one was surely noted as the last vector.
*/
static size_t bytes_of_stack(const struct tide_heap *h, const char *block)
{
    if (tideA_arena_has(&h->store.arena, block))
        return tideA_arena_bytes(&h->store.arena, block);
    return block == h->last_vector ? h->last_vector_bytes : 0;
}

/* Undoes the charge of a new block. */
static void uncharge(struct tide_heap *h, uint32_t cell, size_t bytes)
{
    struct tide_p_cell *c = &h->cells[cell];
    tide_assert(c->alloc_bytes >= bytes && c->alloc_blocks > 0);
    tideT_peak_keep(h, c);
    c->alloc_bytes -= bytes;
    c->alloc_blocks--;
}

/* Turns "new block, old block freed" into what a realloc would have counted. */
static bool stack_resized(struct tide_heap *h, char *old, size_t old_bytes,
                          char *new, size_t new_bytes)
{
    uint64_t old_tag = 0;
    uint64_t new_tag = 0;
    if (new_bytes == 0 ||
        !tideA_store_tag(&h->store, old, old_bytes, &old_tag) ||
        !tideA_store_tag(&h->store, new, new_bytes, &new_tag))
        return false;
    const uint32_t owner = tideA_tag_cell(old_tag);
    const uint32_t made = tideA_tag_cell(new_tag);
    tide_assert(owner < h->n_cells && made < h->n_cells);
    if (owner >= h->n_cells || made >= h->n_cells)
        return false; /* not a tag: rather two blocks than a wild row */
    uncharge(h, made, new_bytes);
    tideT_peak_keep(h, &h->cells[owner]);
    h->live_bytes -= old_bytes;
    uint32_t to = owner;
    if (new_bytes > old_bytes) {
        to = tideT_cell(h, h->cells[made].node, TIDE_KIND_STACK);
        tideT_peak_keep(h, &h->cells[to]);
        h->alloc_bytes -= old_bytes;
        h->cells[to].alloc_bytes += new_bytes - old_bytes;
        tideT_move(h, owner, to, old_bytes);
    } else {
        h->alloc_bytes -= new_bytes;
        h->cells[owner].freed_bytes += old_bytes - new_bytes;
        tideT_count_ageless(h, &h->cells[owner], old_bytes - new_bytes, 0);
    }
    tideT_huge_moved(h, made, to, new_bytes);
    tideA_store_set_tag(&h->store, new, new_bytes,
                        tideA_tag(to, tideA_tag_birth(old_tag)));
    return true;
}

/* The stack that takes the place of `old`; NULL: it is simply freed. */
static char *find_new_stack(const struct tide_heap *h, const char *old)
{
    const lua_State *cur_L = h->cur_L == TIDE_NATIVE_L ? NULL : h->cur_L;
    char *new = replacing_stack(h, cur_L, old);
    return new != NULL ? new : replacing_stack(h, h->last_L, old);
}

static bool stack_freed(struct tide_heap *h, char *ptr, size_t bytes)
{
    char *new = find_new_stack(h, ptr);
    return new !=
           NULL &&stack_resized(h, ptr, bytes, new, bytes_of_stack(h, new));
}

/* A stack from before the attach: the new one is ours, and was not known. */
static void foreign_stack_freed(struct tide_heap *h, const char *ptr)
{
    char *new = find_new_stack(h, ptr);
    const size_t bytes = new == NULL ? 0 : bytes_of_stack(h, new);
    uint64_t tag = 0;
    if (bytes == 0 || !tideA_store_tag(&h->store, new, bytes, &tag))
        return;
    const uint32_t made = tideA_tag_cell(tag);
    recharge(h, new, bytes, made,
             tideT_cell(h, h->cells[made].node, TIDE_KIND_STACK));
}

static void thread_freed(struct tide_heap *h, const char *block, size_t bytes)
{
    tideT_links_cut(h, block, bytes);
    const lua_State *L =
        (const lua_State *)(const void *)(block + h->cal->layout.extra_bytes);
    if (h->last_L == L)
        h->last_L = NULL;
    if (h->main_L != L)
        tideT_thread_forget(h, L);
}

bool tideT_freed_watched(struct tide_heap *h, char *ptr, size_t bytes,
                         enum tide_kind kind)
{
    if (h->g == NULL || h->is_closing)
        return false;
    switch (kind) {
    case TIDE_KIND_PROTO:
        forget_proto(h, ptr);
        return false;
    case TIDE_KIND_CALLINFO:
        tideT_links_cut(h, ptr, bytes);
        return false;
    case TIDE_KIND_STACK:
        return stack_freed(h, ptr, bytes);
    case TIDE_KIND_THREAD:
        if (bytes == h->cal->layout.thread_bytes) {
            thread_freed(h, ptr, bytes);
            return false;
        }
        return stack_freed(h, ptr, bytes);
    default:
        return false;
    }
}

void tideT_freed_foreign(struct tide_heap *h, const char *ptr, size_t bytes)
{
    if (h->g == NULL || h->is_closing)
        return;
    tideT_proto_forget(h, ptr);
    tideT_links_cut(h, ptr, bytes);
    foreign_stack_freed(h, ptr);
    if (bytes == h->cal->layout.thread_bytes)
        thread_freed(h, ptr, bytes);
}

/* ---- the end of a state ---- */

void tideT_closing(struct tide_heap *h)
{
    if (h->is_closing)
        return;
    if (h->pending.block != NULL)
        tideT_pending_settle(h, NULL);
    tideT_gc_closing(h);
    if (h->cal->has_layout)
        tideT_threads_reset(h); /* frames still open get their figures */
    h->is_closing = true;
    h->cycle++; /* tells blocks that finalizers make while closing */
    h->head->close_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    /* every free takes the slow path from now on */
    h->gc_mask = 0;
    h->gc_word = 1;
}

void tideT_state_gone(struct tide_heap *h)
{
    h->is_dead = true;
    h->head->n_gone++;
    h->head->left_bytes += h->live_bytes;
    TIDE_PUBLISH(&h->head->state, TIDE_P_HEAP_CLOSED);
    h->g = NULL;
    h->main_L = NULL;
    h->gc_at = tideT_no_gc;
}
