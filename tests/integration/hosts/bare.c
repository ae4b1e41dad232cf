/*
** bare.c: a host that fills tables through the API, with no Lua function
** running, and runs a file afterwards: bare FILE.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

static volatile int g_sink;

static APART void fill(lua_State *L)
{
    char text[5000];
    memset(text, 'h', sizeof text);
    for (int i = 1; i <= 10; i++) {
        text[0] = (char)g_sink;
        lua_pushlstring(L, text, sizeof text);
        lua_pop(L, 1);
        g_sink++;
    }
}

static APART void set_up(lua_State *L)
{
    fill(L);
    g_sink++;
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    if (L == NULL)
        return 1;
    luaL_openlibs(L);
    set_up(L);
    if (argc > 1 && luaL_dofile(L, argv[1]) != LUA_OK) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return 1;
    }
    lua_close(L);
    return 0;
}
