/*
** lua_region.c: stretches of a program with a name of their own.
**
** region(name, fn, ...) needs nothing of the profiler: each name has a Lua
** function of its own, made once, whose chunk is named "[region] NAME" and
** which calls fn.  It is a frame like any other, in coroutines and errors and
** across yields.  push and pop put a frame below the activation that calls them
** (tide_region_push).
*/
#include "lua_api.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 255u

/*
** check   raises errors for wrong arguments
** make    a function for a name
** A tail call: no frame of this function stands above the region's.
*/
static const char region_chunk[] = "local check, make = ...\n"
                                   "local made = {}\n"
                                   "return function(name, fn, ...)\n"
                                   "  check(name, fn)\n"
                                   "  local call = made[name]\n"
                                   "  if not call then\n"
                                   "    call = make(name)\n"
                                   "    made[name] = call\n"
                                   "  end\n"
                                   "  return call(fn, ...)\n"
                                   "end\n";

/*
** keep returns its arguments: so the call of fn is no tail call, and its frame
** stands below this one.
*/
static const char call_chunk[] =
    "local keep = ... return function(fn, ...) return keep(fn(...)) end";

/* keep(...): all of them. */
static int keep_all(lua_State *L)
{
    return g_api.lua_gettop(L);
}

static const char *check_region(lua_State *L)
{
    const char *name = tideL_check_name(L, 1);
    if (strlen(name) > NAME_BYTES_MAX)
        g_api.luaL_argerror(L, 1, "name of a region is longer than 255 bytes");
    return name;
}

/* An error that names region and stands where it was called. */
static int complain(lua_State *L, int arg, const char *why)
{
    g_api.luaL_where(L, 2);
    const char *where = g_api.lua_tolstring(L, -1, NULL);
    g_api.lua_pushfstring(L, "%sbad argument #%d to 'region' (%s)", where, arg,
                          why);
    return g_api.lua_error(L);
}

/* check(name, fn): called by region with its own arguments. */
static int check_call(lua_State *L)
{
    const int type = g_api.lua_type(L, 2);
    const char *name = g_api.lua_type(L, 1) == LUA_TSTRING
                           ? g_api.lua_tolstring(L, 1, NULL)
                           : "";
    if (name[0] == '\0')
        return complain(L, 1, "name expected");
    if (strlen(name) > NAME_BYTES_MAX)
        return complain(L, 1, "name is longer than 255 bytes");
    if (type != LUA_TFUNCTION && type != LUA_TTABLE && type != LUA_TUSERDATA)
        return complain(L, 2, "function expected");
    return 0;
}

/* make(name): the function that calls others in that region. */
static int make_call(lua_State *L)
{
    char chunk_name[NAME_BYTES_MAX + 16];
    const char *name = check_region(L);
    snprintf(chunk_name, sizeof chunk_name, "=[region] %s", name);
    if (g_api.luaL_loadbufferx(L, call_chunk, sizeof call_chunk - 1, chunk_name,
                               "t") != LUA_OK)
        return g_api.luaL_error(L, "region: %s",
                                g_api.lua_tolstring(L, -1, NULL));
    g_api.lua_pushcclosure(L, keep_all, 0);
    g_api.lua_callk(L, 1, 1, 0, NULL);
    return 1;
}

void tideL_set_region(lua_State *L)
{
    if (g_api.luaL_loadbufferx(L, region_chunk, sizeof region_chunk - 1,
                               "=[tidemark]", "t") != LUA_OK)
        g_api.luaL_error(L, "region: %s", g_api.lua_tolstring(L, -1, NULL));
    g_api.lua_pushcclosure(L, check_call, 0);
    g_api.lua_pushcclosure(L, make_call, 0);
    g_api.lua_callk(L, 2, 1, 0, NULL);
    g_api.lua_setfield(L, -2, "region");
}

/* push(name): true, or nil and why not. */
int tideL_mod_push(lua_State *L)
{
    const char *name = check_region(L);
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    return tideL_outcome(L, tide_region_push(heap, L, 1, name));
}

/* pop(): the name of the region that ends.  An error: there is none. */
int tideL_mod_pop(lua_State *L)
{
    const char *name;
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    const enum tide_err err = tide_region_pop(heap, L, 1, &name);
    if (err == TIDE_ERR_STATE)
        return g_api.luaL_error(L, "pop without push in this call");
    if (err != TIDE_OK)
        return tideL_outcome(L, err);
    g_api.lua_pushstring(L, name);
    return 1;
}
