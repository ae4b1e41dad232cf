/*
** lua_module.c: `require "tidemark"`.
**
** The module speaks for the process's one session in libtidemark.so: the one
** that the preload library opened, else one of its own, to which the state
** that requires it is attached in mid-life.  It is not linked to Lua: a host
** may have opened its liblua RTLD_LOCAL, where undefined lua_* symbols are not
** found.  Each function is looked up in the object file that called
** luaopen_tidemark, which is Lua itself.
*/
#include "lua_api.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <unistd.h>

TIDE_API int luaopen_tidemark(lua_State *L);

static bool fill_api(struct tideL_api *api, void *handle)
{
    bool is_whole = true;
    api->handle = handle;
#define FILL(name)                                                             \
 api->name = (__typeof__(name) *)dlsym(handle, #name);                         \
 is_whole = is_whole && api->name != NULL;
    TIDE_MODULE_LUA(FILL)
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

static const struct {
    const char *name;
    lua_CFunction function;
} functions[] = {
#define ROW(name) {#name, tideL_mod_##name},
    TIDE_MODULE_FUNCTIONS(ROW)
#undef ROW
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
    struct tideL_api api;
    if (handle == NULL || !fill_api(&api, handle))
        return refuse(L, handle, "no Lua 5.4 that exports its functions");
    if (g_api.handle != NULL && g_api.handle != handle)
        return refuse(L, handle, "another Lua of this process has it already");
    g_api = api;
    tideL_note_folder();
    const enum tide_err err = tideL_attach(L, NULL);
    if (err != TIDE_OK)
        dprintf(STDERR_FILENO, "tidemark: not attached: %s\n",
                tide_err_text(err));
    tideL_note_modules(L);
    g_api.lua_createtable(L, 0, (int)N_FUNCTIONS + 2);
    for (size_t i = 0; i < N_FUNCTIONS; i++) {
        g_api.lua_pushcclosure(L, functions[i].function, 0);
        g_api.lua_setfield(L, -2, functions[i].name);
    }
    tideL_set_region(L);
    tideL_set_string(L, "version", TIDE_VERSION);
    return 1;
}
