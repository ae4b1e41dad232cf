/*
** heap.c: the life of a heap: opened before its state, closed after it, used
** again for the next one.
*/
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "native.h"
#include "session.h"

#define MIB         ((size_t)1 << 20)
#define HEAPS_APART 255u /* with states=apart; later states share them */

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
    else if (id == TIDE_P_RESTS)
        want = nodes * 3 * sizeof(struct tide_p_rest);
    else if (id == TIDE_P_LIVES)
        want = nodes * 3 * sizeof(struct tide_p_life);
    else if (id == TIDE_P_MOMENTS || id == TIDE_P_EVENTS ||
             id == TIDE_P_OBJECTS || id == TIDE_P_MARKS)
        want = MIB;
    else if (id == TIDE_P_TARGETS)
        want = 16 * MIB;
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
    h->rests = (void *)h->sections[TIDE_P_RESTS].base;
    h->lives = (void *)h->sections[TIDE_P_LIVES].base;
    h->cycles = (void *)h->sections[TIDE_P_CYCLES].base;
    h->objects = (void *)h->sections[TIDE_P_OBJECTS].base;
    return TIDE_OK;
}

/* String 0 is "", function 0 the root, object 0 none. */
static bool open_tables(struct tide_heap *h)
{
    h->head->string_bytes = h->string_bytes = 8;
    h->funcs[0].what = TIDE_P_ROOT;
    h->n_funcs = 1;
    TIDE_PUBLISH(&h->head->n_funcs, 1);
    h->n_objects = 1;
    TIDE_PUBLISH(&h->head->n_objects, 1);
    const bool has_sites = tideT_sites_open(h, TIDE_SITES_FIRST);
    h->epoch = 1;
    h->head->peak_epoch = 1;
    return has_sites && tideT_native_open(h) && tideT_tree_open(h);
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
    h->root_site =
        (struct tide_site){.at = h->native != NULL ? tideT_native_at(0) : 0};
    h->site = &h->root_site;
    h->is_detached = false;
    h->is_off = s->is_off;
    h->cur_L = NULL;
    h->head->settled = 0;
    h->request = &tideP_control(tideP_writer_header(h->writer))->request;
    h->control_seen = *h->request;
    h->n_resets = s->n_resets;
    h->limit.large_bytes = 0;
    h->failure.is_open = false;
    tideT_limit_set(h, s->options.limit);
    tideT_log_open(h);
    h->head->state = TIDE_P_HEAP_OPEN;
    if (h->head->open_mono_ns == 0)
        h->head->open_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
}

static bool is_room_apart(const struct tide_session *s)
{
    uint32_t n = 0;
    for (const struct tide_heap *h = s->heaps; h != NULL; h = h->next)
        n++;
    return s->options.states == TIDE_STATES_APART && n < HEAPS_APART;
}

static struct tide_heap *take_idle(struct tide_session *s)
{
    tideT_lock(&s->lock);
    struct tide_heap *h = is_room_apart(s) ? NULL : s->heaps;
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
        tideT_thread_free(h, thread);
    }
    tideC_hashtab_close(t, &h->mem);
    t = &h->protos;
    for (uint32_t i = 0; t->pairs != NULL && i <= t->mask; i++) {
        struct tide_proto *p =
            (struct tide_proto *)(uintptr_t)t->pairs[i].value;
        if (t->pairs[i].key != 0)
            tideT_proto_free(h, p);
    }
    tideC_hashtab_close(t, &h->mem);
    memset(h->sites, 0, h->n_sites * sizeof *h->sites);
    memset(h->open_protos, 0, sizeof h->open_protos);
    memset(h->proto_hits, 0, sizeof h->proto_hits);
    tideT_native_forget(h);
    h->native_site.at = 0;
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
        struct tide_p_rest *rest = &h->rests[c->rest];
        if (rest->closed_blocks == 0 && rest->closed_bytes == 0)
            continue;
        c->freed_bytes += rest->closed_bytes;
        c->freed_blocks += rest->closed_blocks;
        tideT_count_ageless(h, c, rest->closed_bytes, rest->closed_blocks);
        rest->closed_bytes = rest->closed_blocks = 0;
    }
}

static enum tide_err use_again(struct tide_heap *h, struct tide_heap **out)
{
    if (h->sites == NULL && !tideT_sites_open(h, TIDE_SITES_FIRST)) {
        h->is_idle = true;
        return TIDE_ERR_NOMEM;
    }
    settle_closed(h);
    prepare(h);
    *out = h;
    return TIDE_OK;
}

enum tide_err tide_heap_open(struct tide_session *session,
                             struct tide_heap **out)
{
    if (session->is_forked)
        tideT_after_fork(session);
    struct tide_heap *h = take_idle(session);
    if (h != NULL)
        return use_again(h, out);
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
    if (h->number == 0)
        tideT_rules_read(h);
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
        const uint64_t bytes = tideT_held_bytes(h, c);
        const uint64_t blocks = tideT_held_blocks(h, c);
        if (bytes == 0 && blocks == 0)
            continue;
        tideT_peak_keep(h, c);
        struct tide_p_rest *rest = tideT_rest(h, c);
        rest->closed_bytes += bytes;
        rest->closed_blocks += blocks;
    }
    h->live_bytes = 0;
}

static void drop_sites(struct tide_heap *h)
{
    tideC_pages_free(h->sites, h->n_sites * sizeof *h->sites);
    h->sites = NULL;
    h->n_sites = 0;
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
    TIDE_PUBLISH(&h->head->state, TIDE_P_HEAP_CLOSED);
    if (h->head->close_mono_ns == 0)
        h->head->close_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    tideT_session_note_end(h->session);
    forget_state(h);
    tideA_store_close(&h->store);
    if (h->session->options.states == TIDE_STATES_APART)
        drop_sites(h); /* it may never be used again */
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

void tideT_inherit(struct tide_heap *h, struct tide_p_cell *cell,
                   uint64_t bytes, uint64_t blocks)
{
    if (cell->rest != 0 || bytes != 0 || blocks != 0)
        *tideT_rest(h, cell) = (struct tide_p_rest){
            .inherited_bytes = bytes,
            .inherited_blocks = blocks,
        };
}

void tideT_heap_reset(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_cell *c = &h->cells[i];
        const uint64_t bytes = tideT_held_bytes(h, c);
        const uint64_t blocks = tideT_held_blocks(h, c);
        c->alloc_bytes = c->alloc_blocks = 0;
        c->freed_bytes = c->freed_blocks = 0;
        c->peak_epoch = 0;
        tideT_inherit(h, c, bytes, blocks);
    }
    for (uint32_t i = 0; i < h->n_nodes; i++)
        h->nodes[i].calls = h->nodes[i].max_call_bytes = 0;
    tideT_calls_reset(h);
    h->head->n_gone = 0;
    h->head->left_bytes = 0;
    h->peak_bytes = h->live_bytes;
    h->head->peak_bytes = h->peak_bytes;
    tideT_peak_rise(h);
    tideT_lives_reset(h);
    tideT_huge_reset(h);
    tideT_gc_reset(h);
    tideT_marks_reset(h);
    tideT_failure_reset(h);
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

/*
** What L's state holds, in bytes; -1 if it does not say.  Inside of a finalizer
** lua_gc refuses everything, so it is asked only where g cannot be read.
*/
static int64_t bytes_held(const struct tide_heap *h, lua_State *L)
{
    const struct tide_lua_api *api = &h->cal->api;
    if (h->g != NULL)
        return tideT_g_total(h->g);
    const int kib = api->gc(L, LUA_GCCOUNT);
    const int rest = api->gc(L, LUA_GCCOUNTB);
    return kib < 0 || rest < 0 ? -1 : (int64_t)kib * 1024 + rest;
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
    if (h->cal->has_layout) /* its first call may be to resize a stack */
        tideT_meet_state(h);
    const int64_t held = bytes_held(h, L);
    if (held < 0) {
        tide_heap_close(h);
        return TIDE_ERR_STATE;
    }
    h->head->n_states++;
    h->head->before_bytes += (uint64_t)held;
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
        const struct tide_p_rest *rest = &heap->rests[c->rest];
        out->freed_bytes += c->freed_bytes + rest->closed_bytes;
        out->freed_blocks += c->freed_blocks + rest->closed_blocks;
        out->live_bytes += tideT_held_bytes(heap, c);
        out->live_blocks += tideT_held_blocks(heap, c);
        if (c->kind == TIDE_KIND_BUFFER)
            out->buffer_bytes += tideT_held_bytes(heap, c);
        if (!has_line(heap, c->node))
            out->unattributed_bytes += c->alloc_bytes;
    }
    out->peak_bytes = heap->peak_bytes;
    out->before_bytes =
        heap->head->before_bytes - heap->head->before_freed_bytes;
    out->gc_cycles = heap->head->gc_cycle;
    out->failed_blocks = heap->head->failed_blocks;
}
