/*
** probe.c: runs the workload of the calibration in a throwaway state.
**
** Everything that may raise runs below one protected call; a state that
** cannot be made, or a workload that fails, leaves a fault and thereby a lower
** tier.
*/
#include "probe.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define N_THREADS 3

/* LUA_REGISTRYINDEX of Lua 5.5, whatever headers we are built with. */
#define REGISTRY_INDEX_505 (-(INT_MAX / 2 + 1000))

/*
** The probe stands in the extra space that every lua_State has for its host;
** new threads inherit the main thread's.
*/
static struct tide_probe *probe_of(lua_State *L)
{
    struct tide_probe *p;
    memcpy(&p, lua_getextraspace(L), sizeof p);
    return p;
}

static const struct tide_lua_api *api_of(lua_State *L, struct tide_probe **p)
{
    *p = probe_of(L);
    return (*p)->api;
}

void tideT_probe_running(struct tide_probe *p, const lua_State *L)
{
    p->running = L;
    if (L == NULL)
        return;
    for (unsigned i = 0; i < p->n_threads; i++) {
        if (p->threads[i] == L) {
            p->running_index = i;
            return;
        }
    }
    if (p->n_threads == 32) {
        p->running = NULL; /* enough was seen */
        return;
    }
    p->running_index = p->n_threads;
    p->threads[p->n_threads++] = L;
}

/* A C function was called: where will it return to? */
static void note_entry(lua_State *L, uintptr_t address)
{
    struct tide_cal *cal = probe_of(L)->cal;
    for (uint32_t i = 0; i < cal->n_entries; i++)
        if (cal->entries[i] == address)
            return;
    if (cal->n_entries < TIDE_ENTRIES_MAX)
        cal->entries[cal->n_entries++] = address;
}

static int f_mark(lua_State *L)
{
    note_entry(L, TIDE_RETURN_ADDRESS);
    tideT_probe_running(probe_of(L), L);
    return 0;
}

static int f_blind(lua_State *L)
{
    note_entry(L, TIDE_RETURN_ADDRESS);
    tideT_probe_running(probe_of(L), NULL);
    return 0;
}

static int f_checkframe(lua_State *L)
{
    struct tide_probe *p = probe_of(L);
    if (p->has_layout)
        tideT_verify_frame(p, L);
    return 0;
}

static int f_checktail(lua_State *L)
{
    struct tide_probe *p;
    const struct tide_lua_api *api = api_of(L, &p);
    if (!p->has_layout)
        return 0;
    const char *caller = tideT_ci_previous(tideT_L_ci(L));
    const bool is_tail = api->tolstring(L, 1, NULL)[0] == '1';
    *(is_tail ? &p->tail_status : &p->plain_status) = tideT_ci_status(caller);
    return 0;
}

static int f_checkfin(lua_State *L)
{
    struct tide_probe *p = probe_of(L);
    if (!p->has_layout)
        return 0;
    /* the __gc function, and below it what it interrupted */
    const char *gc = tideT_ci_previous(tideT_L_ci(L));
    const char *interrupted = tideT_ci_previous(gc);
    const uint16_t tail = p->tail_status & (uint16_t)~p->plain_status;
    p->layout.cist_fin = (uint16_t)(tail << 2);
    p->saw_finalizer = interrupted != NULL &&
                       (tideT_ci_status(interrupted) & p->layout.cist_fin) != 0;
    return 0;
}

/* Allocations through the API, asked for by thread L. */
static void api_work(struct tide_probe *p, lua_State *L)
{
    static const char long_text[] =
        "a string that is too long to be shared with others of its kind";
    static const char chunk[] =
        "local t = {1, x = 2} return function(...) return t, {...} end";
    const struct tide_lua_api *api = p->api;
    api->createtable(L, 0, 0);
    api->createtable(L, 3, 4);
    for (int i = 1; i <= 9; i++) {
        api->pushinteger(L, i);
        api->rawseti(L, -2, i);
    }
    for (char name[3] = "ka"; name[1] < 'k'; name[1]++) {
        api->pushinteger(L, 1);
        api->setfield(L, -2, name);
    }
    api->pushlstring(L, long_text, sizeof long_text - 1);
    api->pushlstring(L, "short", 5);
    api->concat(L, 2);
    api->pushcclosure(L, f_mark, 1);
    api->newuserdatauv(L, 10, 1);
    api->newuserdatauv(L, 0, 0);
    api->newthread(L);
    api->loadbufferx(L, chunk, sizeof chunk - 1, "=calibration", NULL);
    api->checkstack(L, 300);
    api->settop(L, 0);
}

static void give_functions(struct tide_probe *p, lua_State *L)
{
    static const struct {
        const char *name;
        lua_CFunction f;
    } list[] = {
        {"mark", f_mark},
        {"blind", f_blind},
        {"checkframe", f_checkframe},
        {"checktail", f_checktail},
        {"checkfin", f_checkfin},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        p->api->pushcclosure(L, list[i].f, 0);
        p->api->setglobal(L, list[i].name);
    }
}

static void say_fault(struct tide_probe *p, const char *what)
{
    if (p->fault[0] == '\0')
        snprintf(p->fault, sizeof p->fault, "%s", what);
}

/* The workload in a coroutine of its own, or here when L is the main one. */
static void lua_work(struct tide_probe *p, lua_State *main, lua_State *L)
{
    const struct tide_lua_api *api = p->api;
    tideT_probe_running(p, L);
    int status = api->loadbufferx(L, tideT_workload, strlen(tideT_workload),
                                  "=workload", NULL);
    if (status == LUA_OK) {
        int n = 0;
        status = L == main ? api->pcallk(L, 0, 0, 0, 0, NULL)
                           : api->resume(L, main, 0, &n);
    }
    if (status != LUA_OK && p->has_layout) {
        const char *why = api->tolstring(L, -1, NULL);
        say_fault(p, why != NULL ? why : "the workload failed");
    }
    tideT_probe_running(p, main);
}

/* One name: "string.rep" for the C function on the stack's top. */
static void take_name(struct tide_cal *cal, lua_State *L, const char *lib)
{
    const struct tide_lua_api *api = &cal->api;
    const lua_CFunction f = api->tocfunction(L, -1);
    if (f == NULL || api->type(L, -2) != LUA_TSTRING ||
        cal->n_names == TIDE_NAMES_MAX)
        return;
    struct tide_cname *name = &cal->names[cal->n_names++];
    memcpy(&name->address, &f, sizeof f);
    const char *field = api->tolstring(L, -2, NULL);
    const bool is_global = strcmp(lib, "_G") == 0;
    snprintf(name->name, sizeof name->name, "%.14s%s%.16s",
             is_global ? "" : lib, is_global ? "" : ".", field);
    if (is_global && strcmp(field, "collectgarbage") == 0)
        cal->collectgarbage = name->address;
}

/* All C functions of all loaded libraries. */
static void take_names(struct tide_cal *cal, lua_State *L, int registry_index)
{
    const struct tide_lua_api *api = &cal->api;
    if (api->getfield(L, registry_index, "_LOADED") != LUA_TTABLE)
        return;
    for (api->pushnil(L); api->next(L, -2) != 0; api->settop(L, -2)) {
        if (api->type(L, -2) != LUA_TSTRING || api->type(L, -1) != LUA_TTABLE)
            continue;
        const char *lib = api->tolstring(L, -2, NULL);
        for (api->pushnil(L); api->next(L, -2) != 0; api->settop(L, -2))
            take_name(cal, L, lib);
    }
}

/* The function behind coroutine.wrap's results has no name in any table. */
static void take_wrap_name(struct tide_cal *cal, lua_State *L)
{
    static const char chunk[] = "return coroutine.wrap(function() end)";
    const struct tide_lua_api *api = &cal->api;
    if (api->loadbufferx(L, chunk, sizeof chunk - 1, "=wrap", NULL) != LUA_OK ||
        api->pcallk(L, 0, 1, 0, 0, NULL) != LUA_OK)
        return;
    const lua_CFunction f = api->tocfunction(L, -1);
    if (f == NULL || cal->n_names == TIDE_NAMES_MAX)
        return;
    struct tide_cname *name = &cal->names[cal->n_names++];
    memcpy(&name->address, &f, sizeof f);
    snprintf(name->name, sizeof name->name, "coroutine.wrap");
}

/* Below the protected call.  The light argument is the calibration. */
static int f_protected(lua_State *L)
{
    struct tide_probe *p;
    const struct tide_lua_api *api = api_of(L, &p);
    struct tide_cal *cal = p->cal;
    lua_State *threads[N_THREADS];
    note_entry(L, TIDE_RETURN_ADDRESS);
    threads[0] = L;
    tideT_probe_running(p, L);
    tideT_verify(p, L);
    for (int i = 1; i < N_THREADS; i++) {
        threads[i] = api->newthread(L);
        api->setfield(L, p->registry_index, i == 1 ? "t1" : "t2");
    }
    for (int fails = 1; fails >= 0; fails--) {
        p->fail_first = fails != 0;
        for (int i = 0; i < N_THREADS; i++) {
            tideT_probe_running(p, threads[i]);
            api_work(p, threads[i]);
        }
    }
    tideT_probe_running(p, NULL);
    if (api->openlibs != NULL)
        api->openlibs(L);
    else if (api->openselectedlibs != NULL)
        api->openselectedlibs(L, ~0, 0);
    give_functions(p, L);
    for (int i = N_THREADS - 1; i >= 0; i--)
        lua_work(p, L, threads[i]);
    tideT_probe_running(p, NULL);
    take_wrap_name(cal, L);
    take_names(cal, L, p->registry_index);
    return 0;
}

void tideT_probe_run(struct tide_probe *p, struct tide_cal *cal)
{
    const struct tide_lua_api *api = p->api;
    p->cal = cal;
    lua_State *L = api->newstate(tideT_probe_entry, p, 0);
    if (L == NULL) {
        say_fault(p, "no memory for a state to calibrate with");
        return;
    }
    memcpy(lua_getextraspace(L), &p, sizeof p);
    const int version = (int)api->version(L);
    snprintf(cal->lua, sizeof cal->lua, "Lua %d.%d", version / 100,
             version % 100);
    p->registry_index = version < 505 ? LUA_REGISTRYINDEX : REGISTRY_INDEX_505;
    if (version != LUA_VERSION_NUM) {
        snprintf(p->fault, sizeof p->fault, "%s is not known here", cal->lua);
        p->is_foreign_version = true;
    }
    api->gc(L, LUA_GCSTOP);
    api->pushcclosure(L, f_protected, 0);
    if (api->pcallk(L, 0, 0, 0, 0, NULL) != LUA_OK)
        say_fault(p, "the calibration ran out of memory");
    api->close(L);
    tideT_verify_end(p);
}
