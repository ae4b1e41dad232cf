/*
** plugin.c: a plugin that brings Lua into a program which has none.
**
** It is built twice: as the plugin, linked to liblua5.4, and, with
** PLUGIN_HOST defined, as the program that opens it with RTLD_LOCAL: then no
** function of Lua can be found by name in the program, as in players and
** collectors of statistics.
*/
#include <stdio.h>

int plugin_run(void);

#ifdef PLUGIN_HOST
# include <dlfcn.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(argc == 2 ? argv[1] : "", RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        fprintf(stderr, "plugin: %s\n", dlerror());
        return 2;
    }
    int (*run)(void);
    *(void **)&run = dlsym(plugin, "plugin_run");
    return run != NULL ? run() : 2;
}
#else
# include <lauxlib.h>
# include <lua.h>
# include <lualib.h>

__attribute__((visibility("default"))) int plugin_run(void)
{
    lua_State *L = luaL_newstate();
    if (L == NULL)
        return 1;
    luaL_openlibs(L);
    if (luaL_dostring(L, "kept = {}\n"
                         "for i = 1, 1000 do\n"
                         "  kept[i] = {i}\n"
                         "end\n"
                         "print(#kept)\n") != LUA_OK)
        return 1;
    lua_close(L);
    return 0;
}
#endif
