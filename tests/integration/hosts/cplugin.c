/*
** cplugin.c: a library that is loaded, used and unloaded; WORK names its static
** function, BYTES is how long a string that makes.
*/
#include <lua.h>
#include <string.h>

static volatile int g_sink;

static __attribute__((noinline, noclone)) void WORK(lua_State *L)
{
    char text[BYTES];
    memset(text, 'p', sizeof text);
    text[0] = (char)g_sink;
    lua_pushlstring(L, text, sizeof text);
    g_sink++;
}

__attribute__((visibility("default"))) void plugin_work(lua_State *L);

void plugin_work(lua_State *L)
{
    WORK(L);
    lua_pop(L, 1);
    g_sink++;
}
