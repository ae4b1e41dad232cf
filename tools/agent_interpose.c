/*
** agent_interpose.c: the functions of Lua that the library stands in for.
**
** Each exists twice: as tideG_NAME, whose address is surely this library's own
** (`lua_newstate` in an expression would mean the executable's, if it exports
** one), and under its public name, versioned LUA_5.4 by agent.map, so that
** hosts of Debian's Lua 5.1 to 5.3 are not even bound to it.  A patched
** executable jumps to the former, the dynamic linker binds the latter.
**
** A call is passed on untouched when the library is not active, when it comes
** from the library itself, and when the Lua is not 5.4.
*/
#include <stdarg.h>

#include "agent.h"

/* As in lua.h; no Lua was found for the caller. */
#define LUA_ERRRUN 2

#define NEWSTATE_ARGS  tide_alloc_fn f, void *ud, unsigned seed
#define GETALLOCF_ARGS struct lua_State *L, void **ud_or_null
#define SETALLOCF_ARGS struct lua_State *L, tide_alloc_fn f, void *ud
#define GC_ARGS        struct lua_State *L, int what, ...
#define RESUME_ARGS                                                            \
 struct lua_State *L, struct lua_State *from, int n_args, int *n_results

TIDE_API struct lua_State *lua_newstate(NEWSTATE_ARGS)
    TIDE_ALIAS(tideG_newstate);
TIDE_API struct lua_State *luaL_newstate(void) TIDE_ALIAS(tideG_L_newstate);
TIDE_API void lua_close(struct lua_State *L) TIDE_ALIAS(tideG_close);
TIDE_API int lua_resume(RESUME_ARGS) TIDE_ALIAS(tideG_resume);
TIDE_API int lua_gc(GC_ARGS) TIDE_ALIAS(tideG_gc);
TIDE_API tide_alloc_fn lua_getallocf(GETALLOCF_ARGS)
    TIDE_ALIAS(tideG_getallocf);
TIDE_API void lua_setallocf(SETALLOCF_ARGS) TIDE_ALIAS(tideG_setallocf);

static bool is_own_call(uintptr_t caller)
{
    return tideG_range_has(&g_agent.own, caller) || tideG_is_bypassed();
}

/* A call that the profiler takes, when the Lua is 5.4 (or not known yet). */
static bool is_taken(uintptr_t caller)
{
    return (g_agent.is_active || TIDE_OBSERVE(&g_agent.session) != NULL) &&
           !is_own_call(caller);
}

/* There are states of ours, so this may be about one. */
static bool is_about_ours(uintptr_t caller)
{
    return TIDE_OBSERVE(&g_agent.n_states) > 0 && !is_own_call(caller);
}

struct lua_State *tideG_newstate(NEWSTATE_ARGS)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->newstate == NULL)
        return NULL;
    if (!is_taken(caller) || f == tide_alloc || !tideG_lua_check(lua))
        return lua->newstate(f, ud, seed);
    return tideG_state_new(lua, f, ud, seed, caller);
}

/*
** A liblua that binds its own calls itself (-Bsymbolic) has made the state
** past lua_newstate above: it is attached to while it is still young.
*/
static void attach_if_missed(struct tideG_lua *lua, struct lua_State *L)
{
    if (!tideG_lua_check(lua) || lua->getallocf(L, NULL) == tide_alloc)
        return;
    struct tide_session *session = tideG_session_or_null(lua);
    if (session == NULL)
        return;
    const enum tide_err err = tideG_state_attach(session, lua, L, NULL);
    if (err != TIDE_OK)
        tideG_warn_once("not profiled", tide_err_text(err));
}

struct lua_State *tideG_L_newstate(void)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->L_newstate == NULL)
        return NULL;
    struct lua_State *L = lua->L_newstate();
    if (L != NULL && is_taken(caller))
        attach_if_missed(lua, L);
    return L;
}

void tideG_close(struct lua_State *L)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->close == NULL)
        return;
    if (is_about_ours(caller) && lua->is_54)
        tideG_state_close(lua, L);
    else
        lua->close(L);
}

/* Under the lock, and in the thread that learns. */
static void learn_resume(struct tideG_lua *lua, uintptr_t caller)
{
    const unsigned n = g_agent.n_own_resumes;
    for (unsigned i = 0; i < n; i++)
        if (g_agent.own_resumes[i].caller == caller)
            return;
    if (n == TIDEG_RESUMES_MAX || !tideG_range_has(&lua->range, caller))
        return;
    g_agent.own_resumes[n].caller = caller;
    g_agent.own_resumes[n].resume = lua->resume;
    TIDE_PUBLISH(&g_agent.n_own_resumes, n + 1);
}

static TIDE_NOINLINE int resume_slow(RESUME_ARGS, uintptr_t caller)
{
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->resume == NULL)
        return LUA_ERRRUN;
    if (tideG_is_bypassed() && g_agent.is_learning)
        learn_resume(lua, caller);
    struct tide_session *session = TIDE_OBSERVE(&g_agent.session);
    if (session == NULL || !lua->is_54 || is_own_call(caller))
        return lua->resume(L, from, n_args, n_results);
    tide_resume_begin(session, L, from);
    const int status = lua->resume(L, from, n_args, n_results);
    /* The session may have ended meanwhile, as in os.exit. */
    if (TIDE_OBSERVE(&g_agent.session) == session)
        tide_resume_end(session, L);
    return status;
}

int tideG_resume(RESUME_ARGS)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    const unsigned n = TIDE_OBSERVE(&g_agent.n_own_resumes);
    for (unsigned i = 0; i < n; i++)
        if (g_agent.own_resumes[i].caller == caller)
            return g_agent.own_resumes[i].resume(L, from, n_args, n_results);
    return resume_slow(L, from, n_args, n_results, caller);
}

/* As in lua.h: these ask only. */
static bool is_question(int what)
{
    enum {
        COUNT = 3,
        COUNTB = 4,
        IS_RUNNING = 9
    };
    return what == COUNT || what == COUNTB || what == IS_RUNNING;
}

/*
** No call of 5.4 has more than three numbers behind `what`; those that are not
** there are read as whatever stands in their place, and handed on.
*/
int tideG_gc(GC_ARGS)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    int numbers[3];
    va_list args;
    if (lua == NULL || lua->gc == NULL)
        return -1;
    va_start(args, what);
    for (unsigned i = 0; i < 3; i++)
        numbers[i] = va_arg(args, int);
    va_end(args);
    struct tide_session *session = TIDE_OBSERVE(&g_agent.session);
    const bool is_noted = session != NULL && lua->is_54 && !is_question(what) &&
                          is_about_ours(caller);
    if (is_noted)
        tide_gc_begin(session, L, what);
    const int result = lua->gc(L, what, numbers[0], numbers[1], numbers[2]);
    /* The session may have ended meanwhile, as in os.exit. */
    if (is_noted && TIDE_OBSERVE(&g_agent.session) == session)
        tide_gc_end(session, L);
    return result;
}

tide_alloc_fn tideG_getallocf(GETALLOCF_ARGS)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->getallocf == NULL)
        return NULL;
    if (is_about_ours(caller) && lua->is_54)
        return tideG_state_getallocf(lua, L, ud_or_null, caller);
    return lua->getallocf(L, ud_or_null);
}

void tideG_setallocf(SETALLOCF_ARGS)
{
    const uintptr_t caller = TIDE_RETURN_ADDRESS;
    struct tideG_lua *lua = tideG_lua_for(caller);
    if (lua == NULL || lua->setallocf == NULL)
        return;
    if (is_about_ours(caller) && lua->is_54)
        tideG_state_setallocf(lua, L, f, ud, caller);
    else
        lua->setallocf(L, f, ud);
}
