/*
** lua_api.c: results and arguments of the Lua module's functions.
*/
#include "lua_api.h"

#include <errno.h>
#include <string.h>

struct tideL_api g_api;

int tideL_failure(lua_State *L, const char *why)
{
    g_api.lua_pushnil(L);
    g_api.lua_pushstring(L, why);
    return 2;
}

const char *tideL_why(enum tide_err err)
{
    return err == TIDE_ERR_IO ? strerror(errno) : tide_err_text(err);
}

int tideL_outcome(lua_State *L, enum tide_err err)
{
    if (err != TIDE_OK)
        return tideL_failure(L, tideL_why(err));
    g_api.lua_pushboolean(L, 1);
    return 1;
}

void tideL_set_string(lua_State *L, const char *key, const char *value)
{
    g_api.lua_pushstring(L, value);
    g_api.lua_setfield(L, -2, key);
}

void tideL_set_integer(lua_State *L, const char *key, uint64_t value)
{
    g_api.lua_pushinteger(L, (lua_Integer)value);
    g_api.lua_setfield(L, -2, key);
}

void tideL_set_number(lua_State *L, const char *key, double value)
{
    g_api.lua_pushnumber(L, value);
    g_api.lua_setfield(L, -2, key);
}

struct tide_session *tideL_session(void)
{
    return tide_process_session();
}

struct tide_heap *tideL_heap(lua_State *L)
{
    struct tide_session *session = tideL_session();
    return session == NULL ? NULL : tide_heap_of(session, L);
}

struct tide_session *tideL_session_or_failure(lua_State *L)
{
    struct tide_session *session = tideL_session();
    if (session == NULL)
        tideL_failure(L, "no session");
    return session;
}

struct tide_heap *tideL_heap_or_failure(lua_State *L)
{
    struct tide_heap *heap = tideL_heap(L);
    if (heap == NULL)
        tideL_failure(L, "this state is not profiled");
    return heap;
}

const char *tideL_check_name(lua_State *L, int arg)
{
    if (g_api.lua_type(L, arg) != LUA_TSTRING)
        g_api.luaL_typeerror(L, arg, "string");
    const char *name = g_api.lua_tolstring(L, arg, NULL);
    if (name[0] == '\0')
        g_api.luaL_argerror(L, arg, "a name is needed");
    return name;
}

bool tideL_take_field(lua_State *L, int arg, const char *key, int type)
{
    static const char *const names[] = {
        [LUA_TBOOLEAN] = "boolean",
        [LUA_TNUMBER] = "number",
        [LUA_TSTRING] = "string",
    };
    const int is = g_api.lua_getfield(L, arg, key);
    if (is != LUA_TNIL && is != type)
        g_api.luaL_error(L, "bad argument #%d: '%s' must be a %s", arg, key,
                         names[type]);
    return is != LUA_TNIL;
}
