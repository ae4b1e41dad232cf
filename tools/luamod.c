/*
** luamod.c: `require "tidemark"`.
**
** The module speaks for the process's one session in libtidemark.so: the one
** that the preload library opened, else one of its own, to which the state
** that requires it is attached in mid-life.  It is not linked to Lua: a host
** may have opened its liblua RTLD_LOCAL, where undefined lua_* symbols are not
** found.  Each function is looked up in the object file that called
** luaopen_tidemark, which is Lua itself.
**
** What can fail returns nil and a message; errors are raised for wrong
** arguments only.
*/
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lua.h>

#include "../common/compiler.h"
#include "../common/gcrate.h"
#include "../common/options.h"

/* The functions of Lua that are used here. */
#define LUA_FUNCTIONS(X)                                                       \
 X(lua_callk)                                                                  \
 X(lua_createtable)                                                            \
 X(lua_getfield)                                                               \
 X(lua_getiuservalue)                                                          \
 X(lua_newuserdatauv)                                                          \
 X(lua_next)                                                                   \
 X(lua_pushboolean)                                                            \
 X(lua_pushcclosure)                                                           \
 X(lua_pushinteger)                                                            \
 X(lua_pushnil)                                                                \
 X(lua_pushnumber)                                                             \
 X(lua_pushvalue)                                                              \
 X(lua_pushstring)                                                             \
 X(lua_rawsetp)                                                                \
 X(lua_rotate)                                                                 \
 X(lua_setfield)                                                               \
 X(lua_setiuservalue)                                                          \
 X(lua_setmetatable)                                                           \
 X(lua_settop)                                                                 \
 X(lua_setwarnf)                                                               \
 X(lua_toboolean)                                                              \
 X(lua_tolstring)                                                              \
 X(lua_tonumberx)                                                              \
 X(lua_type)                                                                   \
 X(luaL_argerror)                                                              \
 X(luaL_checkudata)                                                            \
 X(luaL_error)                                                                 \
 X(luaL_newmetatable)                                                          \
 X(luaL_optlstring)

struct lua_api {
    void *handle; /* of the object that is Lua */
#define FIELD(name) __typeof__(name) *name;
    LUA_FUNCTIONS(FIELD)
#undef FIELD
};

/*
** Filled once, by luaopen_tidemark.  It cannot live in the lua_State: reading
** anything from there takes these functions.
*/
static struct lua_api g_api;

TIDE_API int luaopen_tidemark(lua_State *L);

static bool fill_api(struct lua_api *api, void *handle)
{
    bool is_whole = true;
    api->handle = handle;
#define FILL(name)                                                             \
 api->name = (__typeof__(name) *)dlsym(handle, #name);                         \
 is_whole = is_whole && api->name != NULL;
    LUA_FUNCTIONS(FILL)
#undef FILL
    return is_whole;
}

/* The object at an address; NULL: none.  The executable's name is "". */
static void *open_object_at(uintptr_t address)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (dladdr1((void *)address, &info, (void **)&map, RTLD_DL_LINKMAP) == 0)
        return NULL;
    const bool is_program = map->l_name[0] == '\0';
    return dlopen(is_program ? NULL : map->l_name, RTLD_LAZY | RTLD_NOLOAD);
}

static void *look_up(void *ctx, const char *name)
{
    (void)ctx;
    return dlsym(g_api.handle, name);
}

static int push_failure(lua_State *L, const char *why)
{
    g_api.lua_pushnil(L);
    g_api.lua_pushstring(L, why);
    return 2;
}

static int push_outcome(lua_State *L, enum tide_err err)
{
    if (err != TIDE_OK)
        return push_failure(L, tide_err_text(err));
    g_api.lua_pushboolean(L, 1);
    return 1;
}

/* ------------------------------------------------------------- options */

/* A string of options that is being put together. */
struct option_text {
    char text[2048];
    size_t n_bytes;
};

static void add_option(lua_State *L, struct option_text *out, const char *key,
                       const char *value)
{
    if (strchr(value, '"') != NULL)
        g_api.luaL_error(L, "option '%s' must not hold a quote", key);
    const size_t left = sizeof out->text - out->n_bytes;
    const int n = snprintf(out->text + out->n_bytes, left, "%s%s=\"%s\"",
                           out->n_bytes > 0 ? "," : "", key, value);
    if (n < 0 || (size_t)n >= left)
        g_api.luaL_error(L, "options are too long");
    out->n_bytes += (size_t)n;
}

/* One pair at -2, -1.  Only the value may be converted: lua_next needs the key
** as it is. */
static void add_pair(lua_State *L, struct option_text *out)
{
    if (g_api.lua_type(L, -2) != LUA_TSTRING)
        g_api.luaL_argerror(L, 1, "names of options must be strings");
    const char *key = g_api.lua_tolstring(L, -2, NULL);
    const int type = g_api.lua_type(L, -1);
    if (type == LUA_TBOOLEAN)
        add_option(L, out, key, g_api.lua_toboolean(L, -1) ? "yes" : "no");
    else if (type == LUA_TSTRING || type == LUA_TNUMBER)
        add_option(L, out, key, g_api.lua_tolstring(L, -1, NULL));
    else
        g_api.luaL_error(L, "option '%s' has a value of a wrong type", key);
}

/* Options of argument 1: a string, a table or nothing. */
static void read_options(lua_State *L, struct option_text *out)
{
    struct tide_options options;
    char why[256];
    out->text[0] = '\0';
    out->n_bytes = 0;
    if (g_api.lua_type(L, 1) == LUA_TTABLE) {
        g_api.lua_pushnil(L);
        while (g_api.lua_next(L, 1) != 0) {
            add_pair(L, out);
            g_api.lua_settop(L, -2);
        }
    } else {
        const char *text = g_api.luaL_optlstring(L, 1, "", NULL);
        if (snprintf(out->text, sizeof out->text, "%s", text) >=
            (int)sizeof out->text)
            g_api.luaL_error(L, "options are too long");
    }
    tideC_options_default(&options);
    if (tideC_options_parse(out->text, &options, why, sizeof why) != TIDE_OK)
        g_api.luaL_argerror(L, 1, why);
}

/* -------------------------------------------------------------- attach */

/*
** Called when the state closes: the userdata that has it stays in the registry
** until then, and as the first one made it goes last.
*/
static int mod_closing(lua_State *L)
{
    struct tide_session *session = tide_process_session();
    struct tide_heap *heap = session != NULL ? tide_heap_of(session, L) : NULL;
    if (heap != NULL)
        tide_heap_closing(heap);
    return 0;
}

static void watch_close(lua_State *L)
{
    g_api.lua_newuserdatauv(L, 1, 0);
    g_api.lua_createtable(L, 0, 1);
    g_api.lua_pushcclosure(L, mod_closing, 0);
    g_api.lua_setfield(L, -2, "__gc");
    g_api.lua_setmetatable(L, -2);
    g_api.lua_rawsetp(L, LUA_REGISTRYINDEX, &g_api);
}

static bool is_attached(lua_State *L)
{
    struct tide_session *session = tide_process_session();
    return session != NULL && tide_heap_of(session, L) != NULL;
}

static enum tide_err attach(lua_State *L, const char *options)
{
    const bool was_attached = is_attached(L);
    TIDE_TRY(tide_process_attach(options, look_up, NULL, L, NULL));
    if (!was_attached)
        watch_close(L);
    return TIDE_OK;
}

/* attach([options]): true, or nil and why not. */
static int mod_attach(lua_State *L)
{
    struct option_text options;
    read_options(L, &options);
    return push_outcome(L, attach(L, options.text));
}

/* ----------------------------------------------------------- functions */

/* detach(): true, or nil and why not.  attach() takes it up again. */
static int mod_detach(lua_State *L)
{
    struct tide_session *session = tide_process_session();
    struct tide_heap *heap = session != NULL ? tide_heap_of(session, L) : NULL;
    if (heap == NULL)
        return push_failure(L, "this state is not profiled");
    tide_heap_detach(heap);
    return push_outcome(L, TIDE_OK);
}

/* The session, or NULL with the failure pushed. */
static struct tide_session *session_or_failure(lua_State *L)
{
    struct tide_session *session = tide_process_session();
    if (session == NULL)
        push_failure(L, "no session");
    return session;
}

static int mod_start(lua_State *L)
{
    struct tide_session *session = session_or_failure(L);
    if (session == NULL)
        return 2;
    tide_session_start(session);
    return push_outcome(L, TIDE_OK);
}

static int mod_stop(lua_State *L)
{
    struct tide_session *session = session_or_failure(L);
    if (session == NULL)
        return 2;
    tide_session_stop(session);
    return push_outcome(L, TIDE_OK);
}

static int mod_reset(lua_State *L)
{
    struct tide_session *session = session_or_failure(L);
    return session == NULL ? 2 : push_outcome(L, tide_session_reset(session));
}

/* "tidemark-20261130-120000.tide" */
static void default_name(char *out, size_t out_bytes)
{
    const time_t now = time(NULL);
    struct tm parts;
    if (localtime_r(&now, &parts) == NULL ||
        strftime(out, out_bytes, "tidemark-%Y%m%d-%H%M%S.tide", &parts) == 0)
        snprintf(out, out_bytes, "tidemark.tide");
}

/* save([path]): the path written, or nil and why not. */
static int mod_save(lua_State *L)
{
    char name[64];
    char path[TIDE_OPT_PATH_MAX];
    default_name(name, sizeof name);
    const char *pattern = g_api.luaL_optlstring(L, 1, name, NULL);
    struct tide_session *session = session_or_failure(L);
    if (session == NULL)
        return 2;
    if (tideC_options_expand(pattern, (int)getpid(),
                             program_invocation_short_name, path,
                             sizeof path) != TIDE_OK)
        return g_api.luaL_argerror(L, 1, "not a name for a file");
    const enum tide_err err = tide_session_save(session, pattern);
    if (err != TIDE_OK)
        return push_failure(L, err == TIDE_ERR_IO ? strerror(errno)
                                                  : tide_err_text(err));
    g_api.lua_pushstring(L, path);
    return 1;
}

/* One row for each field of struct tide_totals. */
#define TOTAL(name)                                                            \
 {                                                                             \
#  name, offsetof(struct tide_totals, name)                                    \
 }
static const struct {
    const char *name;
    size_t offset;
} total_rows[] = {
    TOTAL(alloc_bytes),  TOTAL(alloc_blocks), TOTAL(freed_bytes),
    TOTAL(freed_blocks), TOTAL(live_bytes),   TOTAL(live_blocks),
    TOTAL(peak_bytes),   TOTAL(buffer_bytes), TOTAL(unattributed_bytes),
    TOTAL(before_bytes), TOTAL(gc_cycles),    TOTAL(failed_blocks),
};

#define N_TOTALS (sizeof total_rows / sizeof *total_rows)

static void set_string(lua_State *L, const char *key, const char *value)
{
    g_api.lua_pushstring(L, value);
    g_api.lua_setfield(L, -2, key);
}

static void set_tier(lua_State *L, const struct tide_session *session)
{
    static const char *const names[TIDE_TIER_COUNT_] = {
        [TIDE_TIER_EXACT] = "exact",
        [TIDE_TIER_PARTIAL] = "partial",
        [TIDE_TIER_PUBLIC] = "public",
    };
    const char *reason;
    const enum tide_tier tier = tide_session_tier(session, &reason);
    set_string(L, "tier", names[tier]);
    set_string(L, "tier_reason", reason);
}

/*
** stats(): a table with the sums over this state, taken before the table is
** made, and the tier.
*/
static int mod_stats(lua_State *L)
{
    struct tide_totals totals;
    struct tide_session *session = session_or_failure(L);
    if (session == NULL)
        return 2;
    struct tide_heap *heap = tide_heap_of(session, L);
    if (heap == NULL)
        return push_failure(L, "this state is not profiled");
    tide_heap_totals(heap, &totals);
    g_api.lua_createtable(L, 0, (int)N_TOTALS + 2);
    for (size_t i = 0; i < N_TOTALS; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&totals + total_rows[i].offset,
               sizeof value);
        g_api.lua_pushinteger(L, (lua_Integer)value);
        g_api.lua_setfield(L, -2, total_rows[i].name);
    }
    set_tier(L, session);
    return 1;
}

/* ---------------------------------------------------------- GC watchers */

#define WATCHER "tidemark.gcwatch"

/*
** A watcher made by Lua.  Its user values are the functions `heap` and `clock`
** of the caller, or nil.
*/
struct watcher {
    struct tide_gcrate rate;
    bool is_sampled; /* has `heap`: else the allocator's own counters */
    bool has_clock;
    bool is_closed;
};

enum watcher_value {
    VALUE_HEAP = 1,
    VALUE_CLOCK
};

/* Calls a function of the watcher at index 1: a number. */
static double call_value(lua_State *L, enum watcher_value which)
{
    int is_number;
    g_api.lua_getiuservalue(L, 1, which);
    g_api.lua_callk(L, 0, 1, 0, NULL);
    const double value = g_api.lua_tonumberx(L, -1, &is_number);
    g_api.lua_settop(L, -2);
    if (!is_number)
        g_api.luaL_error(L, "'%s' must return a number",
                         which == VALUE_HEAP ? "heap" : "clock");
    return value;
}

static double watcher_now(lua_State *L, const struct watcher *watcher)
{
    struct timespec now;
    if (watcher->has_clock)
        return call_value(L, VALUE_CLOCK);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The allocator's counters of this state; false: it is not profiled. */
static bool count_heap(lua_State *L, struct tide_gc_counters *out)
{
    struct tide_totals totals;
    struct tide_gc_stats stats;
    struct tide_session *session = tide_process_session();
    struct tide_heap *heap = session != NULL ? tide_heap_of(session, L) : NULL;
    if (heap == NULL)
        return false;
    tide_heap_totals(heap, &totals);
    tide_gc_stats(heap, &stats);
    *out = (struct tide_gc_counters){
        .heap_kb = stats.HeapKb,
        .peak_heap_kb = stats.PeakHeapKb,
        .alloc_kb = (double)totals.alloc_bytes / 1024,
        .cycles = stats.Cycles,
        .last_reclaim_kb = stats.LastReclaimKb,
        .reclaimed_kb = stats.ReclaimedKb,
    };
    return true;
}

static void feed(lua_State *L, struct watcher *watcher, double now)
{
    struct tide_gc_counters counters;
    if (watcher->is_closed)
        return;
    if (watcher->is_sampled)
        tideC_gcrate_sample(&watcher->rate, now, call_value(L, VALUE_HEAP));
    else if (count_heap(L, &counters))
        tideC_gcrate_count(&watcher->rate, now, &counters);
}

static struct watcher *check_watcher(lua_State *L)
{
    return g_api.luaL_checkudata(L, 1, WATCHER);
}

/* watcher:sample([now]) */
static int watcher_sample(lua_State *L)
{
    struct watcher *watcher = check_watcher(L);
    int is_number;
    double now = g_api.lua_tonumberx(L, 2, &is_number);
    if (!is_number)
        now = watcher_now(L, watcher);
    feed(L, watcher, now);
    return 0;
}

static void set_number(lua_State *L, const char *key, double value)
{
    g_api.lua_pushnumber(L, value);
    g_api.lua_setfield(L, -2, key);
}

/*
** watcher:stats([now]): a table.  An exact watcher counts first; a sampled one
** shows what it was told.
*/
static int watcher_stats(lua_State *L)
{
    struct watcher *watcher = check_watcher(L);
    int is_number;
    double now = g_api.lua_tonumberx(L, 2, &is_number);
    if (!is_number)
        now = watcher_now(L, watcher);
    if (!watcher->is_sampled)
        feed(L, watcher, now);
    const struct tide_gc_figures f = tideC_gcrate_figures(&watcher->rate, now);
    g_api.lua_createtable(L, 0, 8);
    set_number(L, "HeapKb", f.heap_kb);
    set_number(L, "PeakHeapKb", f.peak_heap_kb);
    set_number(L, "AllocKbPerSec", f.alloc_kb_per_sec);
    set_number(L, "CyclesPerMin", f.cycles_per_min);
    g_api.lua_pushinteger(L, (lua_Integer)f.cycles);
    g_api.lua_setfield(L, -2, "Cycles");
    set_number(L, "LastReclaimKb", f.last_reclaim_kb);
    set_number(L, "AvgReclaimKb", f.avg_reclaim_kb);
    set_number(L, "ReclaimedKb", f.reclaimed_kb);
    return 1;
}

/* watcher:close(): it counts no more; safe twice. */
static int watcher_close(lua_State *L)
{
    check_watcher(L)->is_closed = true;
    return 0;
}

static void make_watcher_class(lua_State *L)
{
    static const struct {
        const char *name;
        lua_CFunction function;
    } methods[] = {
        {"sample", watcher_sample},
        {"stats", watcher_stats},
        {"close", watcher_close},
    };
    if (g_api.luaL_newmetatable(L, WATCHER) == 0)
        return;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        g_api.lua_pushcclosure(L, methods[i].function, 0);
        g_api.lua_setfield(L, -2, methods[i].name);
    }
    g_api.lua_pushvalue(L, -1);
    g_api.lua_setfield(L, -2, "__index");
}

/* Takes field `key` of argument 1 as a user value of the watcher at -1. */
static bool take_function(lua_State *L, const char *key,
                          enum watcher_value which)
{
    const int type = g_api.lua_getfield(L, 1, key);
    if (type != LUA_TNIL && type != LUA_TFUNCTION)
        g_api.luaL_error(L, "'%s' must be a function", key);
    g_api.lua_setiuservalue(L, -2, which);
    return type == LUA_TFUNCTION;
}

static double take_window(lua_State *L)
{
    int is_number;
    const int type = g_api.lua_getfield(L, 1, "window");
    const double window = g_api.lua_tonumberx(L, -1, &is_number);
    g_api.lua_settop(L, -2);
    if (type != LUA_TNIL && (!is_number || !(window > 0)))
        g_api.luaL_error(L, "'window' must be seconds above 0");
    return type == LUA_TNIL ? 0 : window;
}

/* Its first figures; the watcher is at index 1. */
static void start_watcher(lua_State *L, struct watcher *watcher, double window)
{
    struct tide_gc_counters counters = {.heap_kb = 0};
    const double now = watcher_now(L, watcher);
    if (watcher->is_sampled)
        counters.heap_kb = call_value(L, VALUE_HEAP);
    else if (!count_heap(L, &counters))
        g_api.luaL_error(L, "this state is not profiled: give a 'heap'");
    tideC_gcrate_start(&watcher->rate, window, now, counters.heap_kb);
    if (!watcher->is_sampled)
        tideC_gcrate_join(&watcher->rate, &counters);
}

/*
** gcwatch{window = seconds, heap = function, clock = function}: a watcher.
** Without `heap` it is exact: it reads the allocator's counters; with `heap`,
** a function that returns KiB, it is sampled.  `clock` returns seconds.
*/
static int mod_gcwatch(lua_State *L)
{
    g_api.lua_settop(L, 1);
    if (g_api.lua_type(L, 1) == LUA_TNIL) {
        g_api.lua_settop(L, 0);
        g_api.lua_createtable(L, 0, 0);
    }
    if (g_api.lua_type(L, 1) != LUA_TTABLE)
        return g_api.luaL_argerror(L, 1, "a table is needed");
    const double window = take_window(L);
    struct watcher *watcher =
        g_api.lua_newuserdatauv(L, sizeof *watcher, VALUE_CLOCK);
    memset(watcher, 0, sizeof *watcher);
    watcher->is_sampled = take_function(L, "heap", VALUE_HEAP);
    watcher->has_clock = take_function(L, "clock", VALUE_CLOCK);
    make_watcher_class(L);
    g_api.lua_setmetatable(L, -2);
    g_api.lua_rotate(L, 1, 1);
    g_api.lua_settop(L, 1);
    start_watcher(L, watcher, window);
    return 1;
}

/* path(): the profile's file; nil: it is recorded in memory. */
static int mod_path(lua_State *L)
{
    struct tide_session *session = session_or_failure(L);
    if (session == NULL)
        return 2;
    const char *path = tide_session_path(session);
    if (path[0] == '\0')
        return push_failure(L, "recorded in memory");
    g_api.lua_pushstring(L, path);
    return 1;
}

static const struct {
    const char *name;
    lua_CFunction function;
} functions[] = {
    {"attach", mod_attach}, {"detach", mod_detach}, {"start", mod_start},
    {"stop", mod_stop},     {"reset", mod_reset},   {"save", mod_save},
    {"stats", mod_stats},   {"path", mod_path},     {"gcwatch", mod_gcwatch},
};

#define N_FUNCTIONS (sizeof functions / sizeof *functions)

/* Raises in whatever Lua this is, where that can be done. */
static int refuse(lua_State *L, void *handle, const char *why)
{
    __typeof__(luaL_error) *error = NULL;
    if (handle != NULL)
        error = (__typeof__(luaL_error) *)dlsym(handle, "luaL_error");
    if (error != NULL)
        return error(L, "tidemark: module: %s", why);
    dprintf(STDERR_FILENO, "tidemark: module: %s\n", why);
    return 0;
}

int luaopen_tidemark(lua_State *L)
{
    void *handle = open_object_at(TIDE_RETURN_ADDRESS);
    struct lua_api api;
    if (handle == NULL || !fill_api(&api, handle))
        return refuse(L, handle, "no Lua 5.4 that exports its functions");
    if (g_api.handle != NULL && g_api.handle != handle)
        return refuse(L, handle, "another Lua of this process has it already");
    g_api = api;
    const enum tide_err err = attach(L, NULL);
    if (err != TIDE_OK)
        dprintf(STDERR_FILENO, "tidemark: not attached: %s\n",
                tide_err_text(err));
    g_api.lua_createtable(L, 0, (int)N_FUNCTIONS + 1);
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        g_api.lua_pushcclosure(L, functions[i].function, 0);
        g_api.lua_setfield(L, -2, functions[i].name);
    }
    set_string(L, "version", TIDE_VERSION);
    return 1;
}
