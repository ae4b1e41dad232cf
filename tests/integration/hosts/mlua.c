/*
** mlua.c: the smallest host of Lua there is: mlua [-k] FILE [ARG...].
**
** It makes a state, runs a file as lua5.4 would, and closes the state.  The
** tests build it several times: against the shared library, with Lua inside
** the executable, against the C++ build of Lua, and, with MLUA_TIDEMARK
** defined, as a host that uses tidemark's C interface and no preload.  All of
** them must give the same books.
**
** -k  the host leaves without lua_close, as many do.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MLUA_TIDEMARK
# include <tidemark.h>

static struct tide_session *g_session;
static struct tide_heap *g_heap;

static lua_State *open_state(void)
{
    if (tide_session_open(getenv("TIDEMARK"), NULL, NULL, &g_session) !=
            TIDE_OK ||
        tide_heap_open(g_session, &g_heap) != TIDE_OK)
        return NULL;
    return lua_newstate(tide_alloc, g_heap);
}

static void close_state(lua_State *L)
{
    tide_heap_closing(g_heap);
    lua_close(L);
    tide_heap_close(g_heap);
}

static void close_session(void)
{
    tide_session_close(g_session);
}
#else
static lua_State *open_state(void)
{
    return luaL_newstate();
}

static void close_state(lua_State *L)
{
    lua_close(L);
}

static void close_session(void)
{
}
#endif

static int handle_message(lua_State *L)
{
    luaL_traceback(L, L, lua_tostring(L, 1), 1);
    return 1;
}

static void push_arguments(lua_State *L, int n_args, char **args)
{
    lua_createtable(L, n_args, 1);
    for (int i = 0; i < n_args; i++) {
        lua_pushstring(L, args[i]);
        lua_rawseti(L, -2, i);
    }
    lua_setglobal(L, "arg");
}

/* Called by Lua, as the main function of lua5.4 is. */
static int run_file(lua_State *L)
{
    const int n_args = (int)lua_tointeger(L, 1);
    char **args = lua_touserdata(L, 2);
    luaL_openlibs(L);
    lua_gc(L, LUA_GCGEN, 0, 0);
    push_arguments(L, n_args, args);
    lua_pushcfunction(L, handle_message);
    const int handler = lua_gettop(L);
    if (luaL_loadfile(L, args[0]) != LUA_OK)
        return lua_error(L);
    for (int i = 1; i < n_args; i++)
        lua_pushstring(L, args[i]);
    if (lua_pcall(L, n_args - 1, 0, handler) != LUA_OK)
        return lua_error(L);
    return 0;
}

static int run(lua_State *L, int n_args, char **args)
{
    lua_pushcfunction(L, run_file);
    lua_pushinteger(L, n_args);
    lua_pushlightuserdata(L, args);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK)
        return 0;
    fprintf(stderr, "mlua: %s\n", lua_tostring(L, -1));
    return 1;
}

int main(int argc, char **argv)
{
    const int keeps_open = argc > 1 && strcmp(argv[1], "-k") == 0;
    const int first = 1 + keeps_open;
    if (first >= argc) {
        fprintf(stderr, "usage: mlua [-k] FILE [ARG...]\n");
        return 2;
    }
    lua_State *L = open_state();
    if (L == NULL) {
        fprintf(stderr, "mlua: no state\n");
        return 1;
    }
    const int status = run(L, argc - first, argv + first);
    if (!keeps_open)
        close_state(L);
    close_session();
    return status;
}
