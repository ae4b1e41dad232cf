/*
** heap.c: the life of a heap: opened before its state, closed after it, used
** again for the next one.
*/
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "session.h"

#define MIB ((size_t)1 << 20)

/* Address space for a section: all it may need, less under RLIMIT_AS. */
static size_t room_for(const struct tide_session *s, enum tide_p_section id)
{
    const size_t nodes = (size_t)s->options.nodes + 131072;
    size_t want = 64 * MIB;
    if (id == TIDE_P_HEAD)
        want = TIDE_P_PAGE;
    else if (id == TIDE_P_STRINGS)
        want = 256 * MIB;
    else if (id == TIDE_P_NODES)
        want = nodes * sizeof(struct tide_p_node);
    else if (id == TIDE_P_CELLS)
        want = nodes * 3 * sizeof(struct tide_p_cell);
    else if (id == TIDE_P_CELL_FLOORS)
        want = nodes * 3 * sizeof(struct tide_p_floor);
    else if (id == TIDE_P_MOMENTS || id == TIDE_P_EVENTS)
        want = MIB;
    struct rlimit lim;
    if (getrlimit(RLIMIT_AS, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY &&
        want > lim.rlim_cur / 64)
        want = lim.rlim_cur / 64;
    return want < TIDE_P_PAGE ? TIDE_P_PAGE : want;
}

static enum tide_err open_sections(struct tide_heap *h)
{
    TIDE_TRY(tideP_writer_add_heap(h->writer, &h->number));
    for (int id = 0; id < TIDE_P_SECTION_COUNT_; id++)
        TIDE_TRY(tideP_section_open(
            h->writer, h->number, (enum tide_p_section)id,
            room_for(h->session, (enum tide_p_section)id), &h->sections[id]));
    h->head = (void *)h->sections[TIDE_P_HEAD].base;
    h->funcs = (void *)h->sections[TIDE_P_FUNCS].base;
    h->nodes = (void *)h->sections[TIDE_P_NODES].base;
    h->cells = (void *)h->sections[TIDE_P_CELLS].base;
    h->cycles = (void *)h->sections[TIDE_P_CYCLES].base;
    return TIDE_OK;
}

/* String 0 is "", function 0 the root. */
static bool open_tables(struct tide_heap *h)
{
    h->head->string_bytes = 8;
    h->funcs[0].what = TIDE_P_ROOT;
    h->n_funcs = 1;
    TIDE_PUBLISH(&h->head->n_funcs, 1);
    const bool has_sites = tideT_sites_open(h, TIDE_SITES_FIRST);
    h->epoch = 1;
    h->head->peak_epoch = 1;
    return has_sites && tideT_tree_open(h);
}

/* What every new state starts with. */
static void prepare(struct tide_heap *h)
{
    const struct tide_session *s = h->session;
    tideA_store_open(&h->store, &h->mem,
                     s->options.backend == TIDE_BACKEND_SYSTEM);
    h->ras = h->cal->ras;
    h->ra_multiplier = h->cal->multiplier;
    h->mark_mask = TIDE_CIST_MARK | h->cal->layout.cist_tail;
    h->gc_at = tideT_no_gc;
    h->gc_mask = 0;
    h->gc_word = 0;
    h->link = &tideT_link_invalid;
    h->root_site = (struct tide_site){.node = 0};
    h->site = &h->root_site;
    h->is_detached = false;
    h->is_off = s->is_off;
    h->cur_L = NULL;
    h->head->state = TIDE_P_HEAP_OPEN;
    if (h->head->open_mono_ns == 0)
        h->head->open_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
}

static struct tide_heap *take_idle(struct tide_session *s)
{
    tideT_lock(&s->lock);
    struct tide_heap *h = s->heaps;
    while (h != NULL && !h->is_idle)
        h = h->next;
    if (h != NULL)
        h->is_idle = false;
    tideT_unlock(&s->lock);
    return h;
}

/* Forgets the addresses of a state that is gone. */
static void forget_state(struct tide_heap *h)
{
    struct tide_hashtab *t = &h->threads;
    for (uint32_t i = 0; t->pairs != NULL && i <= t->mask; i++) {
        if (t->pairs[i].key == 0)
            continue;
        struct tide_thread *thread =
            (struct tide_thread *)(uintptr_t)t->pairs[i].value;
        tideC_mem_free(&h->mem, thread->frames,
                       thread->max_frames * sizeof *thread->frames);
        tideC_mem_free(&h->mem, thread, sizeof *thread);
    }
    tideC_hashtab_close(t, &h->mem);
    t = &h->protos;
    for (uint32_t i = 0; t->pairs != NULL && i <= t->mask; i++) {
        struct tide_proto *p =
            (struct tide_proto *)(uintptr_t)t->pairs[i].value;
        if (t->pairs[i].key != 0)
            tideC_mem_free(&h->mem, p, p->bytes);
    }
    tideC_hashtab_close(t, &h->mem);
    memset(h->sites, 0, h->n_sites * sizeof *h->sites);
    memset(h->open_protos, 0, sizeof h->open_protos);
    memset(h->proto_hits, 0, sizeof h->proto_hits);
    h->g = NULL;
    h->main_L = h->last_L = h->cur_L = h->moving_L = NULL;
    h->main = h->cur = h->compile_thread = NULL;
    h->main_block = h->last_table = h->last_vector = NULL;
    h->pending = (struct tide_pending){0};
    h->is_newborn = h->is_compiling = h->is_closing = h->is_dead = false;
    h->is_untagged_slow = false;
    h->parts_left = 0;
}

/* What the last state held when it closed is now simply freed. */
static void settle_closed(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_cell *c = &h->cells[i];
        if (c->closed_blocks == 0 && c->closed_bytes == 0)
            continue;
        c->freed_bytes += c->closed_bytes;
        c->freed_blocks += c->closed_blocks;
        c->closed_bytes = c->closed_blocks = 0;
    }
}

enum tide_err tide_heap_open(struct tide_session *session,
                             struct tide_heap **out)
{
    if (session->is_forked)
        tideT_after_fork(session);
    struct tide_heap *h = take_idle(session);
    if (h != NULL) {
        settle_closed(h);
        prepare(h);
        *out = h;
        return TIDE_OK;
    }
    h = tideC_pages_alloc(sizeof *h);
    TIDE_FAIL_IF(h == NULL, TIDE_ERR_NOMEM);
    h->session = session;
    h->writer = session->writer;
    h->cal = &session->cal;
    const enum tide_err err = open_sections(h);
    if (err != TIDE_OK || !open_tables(h)) {
        /* its sections stay with the writer, so it must stay as well */
        return err != TIDE_OK ? err : TIDE_ERR_NOMEM;
    }
    prepare(h);
    h->off_site = (struct tide_site){
        .node = tideT_child(
            h, 0, tideT_func_special(h, TIDE_P_NOT_RECORDED, "[not recorded]"),
            0)};
    tideT_lock(&session->lock);
    h->next = session->heaps;
    TIDE_PUBLISH(&session->heaps, h);
    tideT_unlock(&session->lock);
    *out = h;
    return TIDE_OK;
}

void tide_heap_chain(struct tide_heap *heap, tide_alloc_fn f_or_null, void *ud)
{
    if (heap->session->is_forked)
        tideT_after_fork(heap->session);
    tideA_store_chain(&heap->store, f_or_null, ud);
}

void tide_heap_closing(struct tide_heap *heap)
{
    tideT_closing(heap);
}

/* What a host that never calls lua_close leaves behind. */
static void abandon_blocks(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_cell *c = &h->cells[i];
        const uint64_t bytes = tideT_held_bytes(c);
        const uint64_t blocks = tideT_held_blocks(c);
        if (bytes == 0 && blocks == 0)
            continue;
        tideT_peak_keep(h, c);
        c->closed_bytes += bytes;
        c->closed_blocks += blocks;
    }
    h->live_bytes = 0;
}

void tide_heap_close(struct tide_heap *heap_or_null)
{
    struct tide_heap *h = heap_or_null;
    if (h == NULL || h->is_idle)
        return;
    if (h->session->is_forked)
        tideT_after_fork(h->session);
    if (!h->is_dead) {
        h->g = NULL; /* the state may be gone already: do not read it */
        h->is_closing = true;
    }
    abandon_blocks(h);
    h->head->state = TIDE_P_HEAP_CLOSED;
    if (h->head->close_mono_ns == 0)
        h->head->close_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    tideT_session_note_end(h->session);
    forget_state(h);
    tideA_store_close(&h->store);
    tideT_lock(&h->session->lock);
    h->is_idle = true;
    tideT_unlock(&h->session->lock);
}

void tideT_heap_free(struct tide_heap *h)
{
    tideC_pages_free(h->sites, h->n_sites * sizeof *h->sites);
    tideC_mem_close(&h->mem);
    tideT_fork_note_free(h);
    tideC_pages_free(h, sizeof *h);
}

void tideT_heap_flush(struct tide_heap *h)
{
    if (!h->peak_is_past)
        h->head->peak_bytes = h->peak_bytes;
    if (h->is_closing || h->g == NULL)
        return;
    tideT_gc_flush(h);
    tideT_calls_flush(h);
}

void tideT_heap_reset(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_cell *c = &h->cells[i];
        c->inherited_bytes = tideT_held_bytes(c);
        c->inherited_blocks = tideT_held_blocks(c);
        c->alloc_bytes = c->alloc_blocks = 0;
        c->freed_bytes = c->freed_blocks = 0;
        c->young_bytes = c->young_blocks = 0;
        c->moved_bytes = c->moved_blocks = 0;
        c->closed_bytes = c->closed_blocks = 0;
        c->peak_epoch = 0;
    }
    for (uint32_t i = 0; i < h->n_nodes; i++)
        h->nodes[i].calls = h->nodes[i].max_call_bytes = 0;
    h->peak_bytes = h->live_bytes;
    h->head->peak_bytes = h->peak_bytes;
    tideT_peak_rise(h);
    tideT_gc_reset(h);
    if (h->g != NULL)
        h->wants_clear = true;
    h->cur_L = NULL;
}

/* ---- states ---- */

struct lua_State *tide_newstate(struct tide_session *session,
                                struct tide_heap **heap_or_null)
{
    struct tide_heap *h;
    if (session->cal.api.newstate == NULL ||
        tide_heap_open(session, &h) != TIDE_OK)
        return NULL;
    lua_State *L = session->cal.api.newstate(tide_alloc, h, 0);
    if (L == NULL) {
        tide_heap_close(h);
        return NULL;
    }
    if (heap_or_null != NULL)
        *heap_or_null = h;
    return L;
}

struct tide_heap *tide_heap_of(struct tide_session *session,
                               struct lua_State *L)
{
    const char *g = session->cal.has_layout ? tideT_L_global(L) : NULL;
    for (struct tide_heap *h = TIDE_OBSERVE(&session->heaps); h != NULL;
         h = h->next) {
        if (g != NULL && h->g == g)
            return h;
        if (g == NULL && h->main_L == L)
            return h;
    }
    return NULL;
}

void tideT_heap_switch(struct tide_heap *h)
{
    const bool is_off = h->is_detached || h->session->is_off;
    if (is_off == h->is_off)
        return;
    h->is_off = is_off;
    h->wants_clear = true;
    h->cur_L = NULL;
}

void tide_heap_detach(struct tide_heap *heap)
{
    if (heap->session->is_forked)
        tideT_after_fork(heap->session);
    heap->is_detached = true;
    tideT_heap_switch(heap);
}

/* A state that was detached has our allocator still. */
static enum tide_err attach_again(struct tide_heap *h, struct tide_heap **out)
{
    TIDE_FAIL_IF(!h->is_detached, TIDE_ERR_STATE);
    h->is_detached = false;
    tideT_heap_switch(h);
    *out = h;
    return TIDE_OK;
}

/* The main thread of L's state, through the registry. */
static const lua_State *main_thread_of(const struct tide_lua_api *api,
                                       lua_State *L)
{
    if (!api->checkstack(L, 1))
        return NULL;
    api->rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    const lua_State *main = api->tothread(L, -1);
    api->settop(L, -2);
    return main;
}

enum tide_err tide_heap_attach(struct tide_session *session,
                               struct lua_State *L, struct tide_heap **out)
{
    const struct tide_lua_api *api = &session->cal.api;
    TIDE_FAIL_IF(api->setallocf == NULL, TIDE_ERR_LUA);
    TIDE_FAIL_IF((int)api->version(L) != LUA_VERSION_NUM, TIDE_ERR_LUA);
    void *ud = NULL;
    const lua_Alloc before = api->getallocf(L, &ud);
    if (before == tide_alloc)
        return attach_again(ud, out);
    const lua_State *main = main_thread_of(api, L);
    TIDE_FAIL_IF(main == NULL, TIDE_ERR_NOMEM);
    struct tide_heap *h;
    TIDE_TRY(tide_heap_open(session, &h));
    tideA_store_adopt(&h->store, before, ud);
    h->main_L = main;
    h->is_whole = true;
    h->head->n_states++;
    if (h->cal->has_layout) /* its first call may be to resize a stack */
        tideT_meet_state(h);
    const uint64_t count = (uint64_t)api->gc(L, LUA_GCCOUNT) * 1024u +
                           (uint64_t)api->gc(L, LUA_GCCOUNTB);
    h->head->before_bytes += count;
    api->setallocf(L, tide_alloc, h);
    *out = h;
    return TIDE_OK;
}

static void set_hint(struct tide_session *session, struct lua_State *co,
                     const lua_State *from_or_null)
{
    struct tide_heap *h = tide_heap_of(session, co);
    if (h == NULL || h->g == NULL || h->is_off)
        return;
    struct tide_thread *t = tideT_thread_of(h, co);
    if (t == NULL || t->hint == from_or_null)
        return;
    h->n_hints += from_or_null != NULL ? 1u : 0u;
    h->n_hints -= t->hint != NULL ? 1u : 0u;
    t->hint = from_or_null;
}

void tide_resume_begin(struct tide_session *session, struct lua_State *co,
                       struct lua_State *from_or_null)
{
    if (!session->cal.has_layout)
        return;
    /* coroutine.resume and wrap show it on the stack */
    if (from_or_null != NULL && tideT_resumed_by(from_or_null) == co)
        return;
    set_hint(session, co, from_or_null);
}

void tide_resume_end(struct tide_session *session, struct lua_State *co)
{
    if (!session->cal.has_layout)
        return;
    for (struct tide_heap *h = TIDE_OBSERVE(&session->heaps); h != NULL;
         h = h->next) {
        if (h->n_hints != 0) {
            set_hint(session, co, NULL);
            return;
        }
    }
}

/* ---- totals ---- */

static bool has_line(const struct tide_heap *h, uint32_t node)
{
    for (; node != 0; node = h->nodes[node].parent) {
        const uint8_t what = h->funcs[h->nodes[node].func].what;
        if (what == TIDE_P_LUA || what == TIDE_P_MAIN ||
            what == TIDE_P_OTHER_CHUNKS)
            return true;
    }
    return false;
}

void tide_heap_totals(const struct tide_heap *heap, struct tide_totals *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 1; i < heap->n_cells; i++) {
        const struct tide_p_cell *c = &heap->cells[i];
        out->alloc_bytes += c->alloc_bytes;
        out->alloc_blocks += c->alloc_blocks;
        out->freed_bytes += c->freed_bytes + c->closed_bytes;
        out->freed_blocks += c->freed_blocks + c->closed_blocks;
        out->live_bytes += tideT_held_bytes(c);
        out->live_blocks += tideT_held_blocks(c);
        if (c->kind == TIDE_KIND_BUFFER)
            out->buffer_bytes += tideT_held_bytes(c);
        if (!has_line(heap, c->node))
            out->unattributed_bytes += c->alloc_bytes;
    }
    out->peak_bytes = heap->peak_bytes;
    out->before_bytes =
        heap->head->before_bytes - heap->head->before_freed_bytes;
    out->gc_cycles = heap->head->gc_cycle;
    out->failed_blocks = heap->head->failed_blocks;
}
