/*
** luaapi.h: Lua's public functions, looked up at run time.
**
** tidemark never links against lua_*: the library that is profiled is found
** in the process (a plugin may have brought it, or the executable itself).
*/
#ifndef TIDE_LUAAPI_H
#define TIDE_LUAAPI_H

#include <lauxlib.h>
#include <lua.h>

#include "../common/err.h"

/* Every function that tidemark calls: X(field, name, type of pointer). */
#define TIDE_LUA_API(X)                                                        \
 X(newstate, "lua_newstate", lua_State *(*)(lua_Alloc, void *, unsigned))      \
 X(close, "lua_close", void (*)(lua_State *))                                  \
 X(newthread, "lua_newthread", lua_State *(*)(lua_State *))                    \
 X(version, "lua_version", lua_Number (*)(lua_State *))                        \
 X(gc, "lua_gc", int (*)(lua_State *, int, ...))                               \
 X(resume, "lua_resume", int (*)(lua_State *, lua_State *, int, int *))        \
 X(pcallk, "lua_pcallk",                                                       \
   int (*)(lua_State *, int, int, int, lua_KContext, lua_KFunction))           \
 X(settop, "lua_settop", void (*)(lua_State *, int))                           \
 X(checkstack, "lua_checkstack", int (*)(lua_State *, int))                    \
 X(pushvalue, "lua_pushvalue", void (*)(lua_State *, int))                     \
 X(pushnil, "lua_pushnil", void (*)(lua_State *))                              \
 X(pushinteger, "lua_pushinteger", void (*)(lua_State *, lua_Integer))         \
 X(pushlstring, "lua_pushlstring",                                             \
   const char *(*)(lua_State *, const char *, size_t))                         \
 X(pushcclosure, "lua_pushcclosure",                                           \
   void (*)(lua_State *, lua_CFunction, int))                                  \
 X(type, "lua_type", int (*)(lua_State *, int))                                \
 X(tolstring, "lua_tolstring", const char *(*)(lua_State *, int, size_t *))    \
 X(topointer, "lua_topointer", const void *(*)(lua_State *, int))              \
 X(tocfunction, "lua_tocfunction", lua_CFunction (*)(lua_State *, int))        \
 X(tothread, "lua_tothread", lua_State *(*)(lua_State *, int))                 \
 X(createtable, "lua_createtable", void (*)(lua_State *, int, int))            \
 X(newuserdatauv, "lua_newuserdatauv", void *(*)(lua_State *, size_t, int))    \
 X(getfield, "lua_getfield", int (*)(lua_State *, int, const char *))          \
 X(setfield, "lua_setfield", void (*)(lua_State *, int, const char *))         \
 X(setglobal, "lua_setglobal", void (*)(lua_State *, const char *))            \
 X(rawseti, "lua_rawseti", void (*)(lua_State *, int, lua_Integer))            \
 X(rawgeti, "lua_rawgeti", int (*)(lua_State *, int, lua_Integer))             \
 X(next, "lua_next", int (*)(lua_State *, int))                                \
 X(concat, "lua_concat", void (*)(lua_State *, int))                           \
 X(getallocf, "lua_getallocf", lua_Alloc (*)(lua_State *, void **))            \
 X(setallocf, "lua_setallocf", void (*)(lua_State *, lua_Alloc, void *))       \
 X(getstack, "lua_getstack", int (*)(lua_State *, int, lua_Debug *))           \
 X(getinfo, "lua_getinfo", int (*)(lua_State *, const char *, lua_Debug *))    \
 X(loadbufferx, "luaL_loadbufferx",                                            \
   int (*)(lua_State *, const char *, size_t, const char *, const char *))

/* Not in every host: NULL when absent. */
#define TIDE_LUA_API_OPTIONAL(X)                                               \
 X(openlibs, "luaL_openlibs", void (*)(lua_State *))                           \
 X(openselectedlibs, "luaL_openselectedlibs", void (*)(lua_State *, int, int))

struct tide_lua_api {
#define X(field, name, type) __typeof__((type)0) field;
    TIDE_LUA_API(X)
    TIDE_LUA_API_OPTIONAL(X)
#undef X
};

/*
** Fills the table.  lookup_or_null NULL: linked symbols, then dlsym.
** Errors: LUA (a function is missing; *missing_or_null names it).
*/
enum tide_err tideT_luaapi_find(tide_lookup_fn lookup_or_null, void *ctx,
                                struct tide_lua_api *api,
                                const char **missing_or_null);

#endif
