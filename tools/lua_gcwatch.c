/*
** lua_gcwatch.c: gcwatch{}: watchers of the collector, as users of GcWatch have
** them.
**
** An exact watcher reads the allocator's counters; a sampled one is told the
** heap and the time by functions of the caller, and follows GcWatch's rules
** (common/gcrate.h).
*/
#include "lua_api.h"

#include <string.h>
#include <time.h>

#include "../common/gcrate.h"

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
    struct tide_heap *heap = tideL_heap(L);
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
    tideL_set_number(L, "HeapKb", f.heap_kb);
    tideL_set_number(L, "PeakHeapKb", f.peak_heap_kb);
    tideL_set_number(L, "AllocKbPerSec", f.alloc_kb_per_sec);
    tideL_set_number(L, "CyclesPerMin", f.cycles_per_min);
    tideL_set_integer(L, "Cycles", f.cycles);
    tideL_set_number(L, "LastReclaimKb", f.last_reclaim_kb);
    tideL_set_number(L, "AvgReclaimKb", f.avg_reclaim_kb);
    tideL_set_number(L, "ReclaimedKb", f.reclaimed_kb);
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
int tideL_mod_gcwatch(lua_State *L)
{
    g_api.lua_settop(L, 1);
    if (g_api.lua_type(L, 1) == LUA_TNIL) {
        g_api.lua_settop(L, 0);
        g_api.lua_createtable(L, 0, 0);
    }
    if (g_api.lua_type(L, 1) != LUA_TTABLE)
        return g_api.luaL_typeerror(L, 1, "table");
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
