/*
** agent_state.c: the lua_States that were seen, and whose allocator is below.
**
** Every state's real allocator is (tide_alloc, heap).  Below it stand levels:
** level 0 is what the state was made with (tidemark's own arena, when that was
** luaL_newstate's allocator), and each lua_setallocf by another object file
** adds one, as memory meters and limits do: they keep the pair that
** lua_getallocf gave them and call it from their own.  So that this ends at
** the level below and not at the top again, they are given base_alloc, which
** knows from `cursor` whether such a call is under way.
**
** What lua_getallocf answers depends on who asks: the object that supplied
** the topmost pair gets it back (hosts keep their own structs in `ud`), the
** shared liblua gets the real pair, everyone else base_alloc, which outside of
** a call is the same as tide_alloc.
*/
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#define LEVELS_MAX 8
#define NO_CURSOR  (-1)

struct level {
    tide_alloc_fn f;
    void *ud;
    /*
    ** Who supplied it: the object that holds f, and the caller's, which is
    ** less certain: a tail call shows the caller's caller.
    */
    struct tideG_range holder;
    struct tideG_range caller;
};

struct tideG_state {
    struct tide_heap *heap;
    struct tideG_lua *lua;
    struct tideG_state *next; /* in its bucket */
    int top;                  /* level in use, 0 .. LEVELS_MAX - 1 */
    int cursor;               /* level that is being called, or NO_CURSOR */
    bool is_arena;            /* level 0 was luaL_newstate's allocator */
    struct level levels[LEVELS_MAX];
};

static struct tideG_state **bucket_of(const struct tide_heap *heap)
{
    const uintptr_t key = (uintptr_t)heap;
    return &g_agent.states[(key >> 4 ^ key >> 12) & (TIDEG_BUCKETS - 1)];
}

/* Under the lock. */
static void add_state(struct tideG_state *state)
{
    struct tideG_state **bucket = bucket_of(state->heap);
    state->next = *bucket;
    *bucket = state;
    g_agent.n_states++;
}

static void remove_state(struct tideG_state *state)
{
    tideG_lock();
    struct tideG_state **at = bucket_of(state->heap);
    while (*at != state)
        at = &(*at)->next;
    *at = state->next;
    tideG_unlock();
    free(state);
}

/* The state of which (f, ud) is the real allocator; NULL: not one of ours. */
static struct tideG_state *state_of(tide_alloc_fn f, const void *ud)
{
    if (f != tide_alloc)
        return NULL;
    tideG_lock();
    struct tideG_state *state = *bucket_of(ud);
    while (state != NULL && state->heap != ud)
        state = state->next;
    tideG_unlock();
    return state;
}

static struct tideG_state *state_of_lua(const struct tideG_lua *lua,
                                        struct lua_State *L)
{
    void *ud = NULL;
    const tide_alloc_fn f = lua->getallocf(L, &ud);
    return state_of(f, ud);
}

static void *call_level(struct tideG_state *state, int at, void *ptr,
                        size_t osize, size_t nsize)
{
    const int saved = state->cursor;
    state->cursor = at;
    void *out = state->levels[at].f(state->levels[at].ud, ptr, osize, nsize);
    state->cursor = saved;
    return out;
}

/* What the heap is chained to once there is more than one level. */
static void *top_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct tideG_state *state = ud;
    return call_level(state, state->top, ptr, osize, nsize);
}

/* "The old allocator", for whoever puts his own on top of it. */
static void *base_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct tideG_state *state = ud;
    if (state->cursor == NO_CURSOR)
        return tide_alloc(state->heap, ptr, osize, nsize);
    return call_level(state, state->cursor > 0 ? state->cursor - 1 : 0, ptr,
                      osize, nsize);
}

static void *malloc_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize > 0)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

static void set_level(struct level *level, tide_alloc_fn f, void *ud,
                      uintptr_t caller)
{
    memset(level, 0, sizeof *level);
    level->f = f;
    level->ud = ud;
    if (caller == 0)
        return;
    tideG_object_at((uintptr_t)f, &level->holder, NULL);
    tideG_object_at(caller, &level->caller, NULL);
}

static bool is_owner(const struct level *level, uintptr_t caller)
{
    return tideG_range_has(&level->holder, caller) ||
           tideG_range_has(&level->caller, caller);
}

/*
** The first time that an arena state is chained it stays so: blocks that were
** made through the chain must go back through one that can free them.
*/
static void chain_top(struct tideG_state *state)
{
    const struct level *level = &state->levels[state->top];
    if (state->top > 0)
        tide_heap_chain(state->heap, top_alloc, state);
    else
        tide_heap_chain(state->heap, level->f, level->ud);
}

/*
** The record of a state that is made with, or has, the allocator (f, ud).
** caller  who supplied it; 0: nobody who would ask for it.
*/
static struct tideG_state *state_create(struct tideG_lua *lua, tide_alloc_fn f,
                                        void *ud, uintptr_t caller)
{
    struct tideG_state *state = calloc(1, sizeof *state);
    if (state == NULL)
        return NULL;
    state->lua = lua;
    state->cursor = NO_CURSOR;
    state->is_arena = f == lua->std_alloc;
    if (state->is_arena)
        set_level(&state->levels[0], malloc_alloc, NULL, 0);
    else
        set_level(&state->levels[0], f, ud, caller);
    return state;
}

/*
** Under the lock, so that the session is not closed at exit while a thread
** opens a heap in it.
*/
static bool open_heap(struct tideG_state *state)
{
    bool is_open = false;
    tideG_lock();
    struct tide_session *session = TIDE_OBSERVE(&g_agent.session);
    if (session != NULL)
        is_open = tide_heap_open(session, &state->heap) == TIDE_OK;
    if (is_open)
        add_state(state);
    tideG_unlock();
    return is_open;
}

static struct tideG_state *state_open(struct tideG_lua *lua, tide_alloc_fn f,
                                      void *ud, uintptr_t caller)
{
    struct tideG_state *state = state_create(lua, f, ud, caller);
    if (state == NULL)
        return NULL;
    if (!open_heap(state)) {
        free(state);
        return NULL;
    }
    if (!state->is_arena)
        chain_top(state);
    return state;
}

static void state_free(struct tideG_state *state)
{
    tide_heap_close(state->heap);
    remove_state(state);
}

/*
** With a host's own allocator lua_getallocf has to be ours too: a host that
** got the heap back for its own struct would not survive.
*/
static bool can_hide_allocator(const struct tideG_lua *lua, tide_alloc_fn f)
{
    if (!lua->is_program || f == lua->std_alloc || lua->has_allocf)
        return true;
    tideG_warn_once("not profiled", "the program has an allocator of its own, "
                                    "and its lua_getallocf cannot be patched");
    return false;
}

struct lua_State *tideG_state_new(struct tideG_lua *lua, tide_alloc_fn f,
                                  void *ud, unsigned seed, uintptr_t caller)
{
    struct tideG_state *state = NULL;
    struct tide_session *session = tideG_session_or_null(lua);
    if (session != NULL && can_hide_allocator(lua, f))
        state = state_open(lua, f, ud, caller);
    if (state == NULL)
        return lua->newstate(f, ud, seed);
    struct lua_State *L = lua->newstate(tide_alloc, state->heap, seed);
    if (L == NULL)
        state_free(state);
    return L;
}

enum tide_err tideG_state_attach(struct tide_session *session,
                                 struct tideG_lua *lua, struct lua_State *L,
                                 struct tide_heap **out_or_null)
{
    void *ud = NULL;
    const tide_alloc_fn f = lua->getallocf(L, &ud);
    if (f == tide_alloc) {
        struct tide_heap *heap = ud;
        const enum tide_err again = tide_heap_attach(session, L, &heap);
        if (out_or_null != NULL)
            *out_or_null = heap;
        return again == TIDE_ERR_STATE ? TIDE_OK : again;
    }
    struct tideG_state *state = state_create(lua, f, ud, (uintptr_t)f);
    TIDE_FAIL_IF(state == NULL, TIDE_ERR_NOMEM);
    tideG_lock(); /* as in open_heap */
    const enum tide_err err = TIDE_OBSERVE(&g_agent.session) == session
                                  ? tide_heap_attach(session, L, &state->heap)
                                  : TIDE_ERR_STATE;
    if (err == TIDE_OK)
        add_state(state);
    tideG_unlock();
    if (err != TIDE_OK) {
        free(state);
        return err;
    }
    if (!state->is_arena)
        chain_top(state);
    if (out_or_null != NULL)
        *out_or_null = state->heap;
    return TIDE_OK;
}

void tideG_state_close(struct tideG_lua *lua, struct lua_State *L)
{
    struct tideG_state *state = state_of_lua(lua, L);
    if (state == NULL) {
        lua->close(L);
        return;
    }
    if (TIDE_OBSERVE(&g_agent.session) != NULL)
        tide_heap_closing(state->heap);
    state->lua->close(L); /* which made it, whoever the caller seems to be */
    state_free(state);
}

tide_alloc_fn tideG_state_getallocf(struct tideG_lua *lua, struct lua_State *L,
                                    void **ud_or_null, uintptr_t caller)
{
    void *ud = NULL;
    tide_alloc_fn f = lua->getallocf(L, &ud);
    const bool is_liblua =
        !lua->is_program && tideG_range_has(&lua->range, caller);
    struct tideG_state *state = is_liblua ? NULL : state_of(f, ud);
    if (state != NULL) {
        const struct level *level = &state->levels[state->top];
        f = is_owner(level, caller) ? level->f : base_alloc;
        ud = is_owner(level, caller) ? level->ud : state;
    }
    if (ud_or_null != NULL)
        *ud_or_null = ud;
    /* cppcheck-suppress returnDanglingLifetime; f is a function */
    return f;
}

/* The level that (f, ud) names, -1 when it is a new pair. */
static int find_level(const struct tideG_state *state, tide_alloc_fn f,
                      const void *ud)
{
    const bool is_ours = (f == base_alloc && ud == state) ||
                         (f == tide_alloc && ud == state->heap);
    if (is_ours) /* what the one above had found when it came */
        return state->top > 0 ? state->top - 1 : 0;
    for (int i = state->top; i >= 0; i--)
        if (state->levels[i].f == f && state->levels[i].ud == ud)
            return i;
    return -1;
}

void tideG_state_setallocf(struct tideG_lua *lua, struct lua_State *L,
                           tide_alloc_fn f, void *ud, uintptr_t caller)
{
    struct tideG_state *state = state_of_lua(lua, L);
    if (state == NULL) {
        lua->setallocf(L, f, ud);
        return;
    }
    const int known = find_level(state, f, ud);
    if (known == state->top)
        return;
    if (known >= 0) {
        state->top = known;
    } else {
        const struct level *top = &state->levels[state->top];
        const bool is_same = tideG_range_has(&top->holder, (uintptr_t)f);
        if (!is_same && state->top < LEVELS_MAX - 1)
            state->top++;
        set_level(&state->levels[state->top], f, ud, caller);
    }
    chain_top(state);
}
