/*
** lua_api.h: what the files of the Lua module share.
**
**   lua_module.c   luaopen_tidemark: finds Lua's functions, the table of ours
**   lua_api.c      results and arguments
**   lua_options.c  options as a table or a string
**   lua_control.c  attach, detach, start, reset, save, stats, mark, limit, path
**   lua_load.c     report, stop: loads tidemark_report.so, which is
**     lua_report.c   report: made in the process
**     lua_stop.c     stop: the rows that allocated most
**   lua_target.c   target, untarget, rule: groups of functions
**   lua_region.c   region, push, pop
**   lua_gcwatch.c  gcwatch
**
** What can fail returns nil and a message; errors are raised for wrong
** arguments only, and for a pop without its push.
*/
#ifndef TIDE_LUA_API_H
#define TIDE_LUA_API_H

#include <stdbool.h>
#include <stdint.h>

#include <lauxlib.h>
#include <lua.h>

#include "../common/compiler.h"
#include "../common/options.h"

/* The functions of Lua that are used here. */
#define TIDE_MODULE_LUA(X)                                                     \
 X(lua_callk)                                                                  \
 X(lua_createtable)                                                            \
 X(lua_error)                                                                  \
 X(lua_getfield)                                                               \
 X(lua_getiuservalue)                                                          \
 X(lua_getmetatable)                                                           \
 X(lua_gettop)                                                                 \
 X(lua_isinteger)                                                              \
 X(lua_newuserdatauv)                                                          \
 X(lua_next)                                                                   \
 X(lua_pushboolean)                                                            \
 X(lua_pushcclosure)                                                           \
 X(lua_pushfstring)                                                            \
 X(lua_pushinteger)                                                            \
 X(lua_pushlstring)                                                            \
 X(lua_pushnil)                                                                \
 X(lua_pushnumber)                                                             \
 X(lua_pushvalue)                                                              \
 X(lua_pushstring)                                                             \
 X(lua_rawget)                                                                 \
 X(lua_rawgeti)                                                                \
 X(lua_rawset)                                                                 \
 X(lua_rawseti)                                                                \
 X(lua_rawsetp)                                                                \
 X(lua_rotate)                                                                 \
 X(lua_setfield)                                                               \
 X(lua_setiuservalue)                                                          \
 X(lua_setmetatable)                                                           \
 X(lua_settop)                                                                 \
 X(lua_setwarnf)                                                               \
 X(lua_toboolean)                                                              \
 X(lua_tocfunction)                                                            \
 X(lua_tointegerx)                                                             \
 X(lua_tolstring)                                                              \
 X(lua_tonumberx)                                                              \
 X(lua_topointer)                                                              \
 X(lua_type)                                                                   \
 X(lua_getinfo)                                                                \
 X(luaL_argerror)                                                              \
 X(luaL_checkinteger)                                                          \
 X(luaL_checklstring)                                                          \
 X(luaL_checkstack)                                                            \
 X(luaL_checkudata)                                                            \
 X(luaL_error)                                                                 \
 X(luaL_loadbufferx)                                                           \
 X(luaL_newmetatable)                                                          \
 X(luaL_optinteger)                                                            \
 X(luaL_optlstring)                                                            \
 X(luaL_typeerror)                                                             \
 X(luaL_where)

struct tideL_api {
    void *handle; /* of the object that is Lua */
#define FIELD(name) __typeof__(name) *name;
    TIDE_MODULE_LUA(FIELD)
#undef FIELD
};

/*
** Filled once, by luaopen_tidemark.  It cannot live in the lua_State: reading
** anything from there takes these functions.
*/
extern TIDE_HIDDEN struct tideL_api g_api;

/* A string of options that is being put together. */
struct tideL_options {
    char text[2048];
    size_t n_bytes;
};

/* ---- results ---- */

/* nil and a message. */
TIDE_HIDDEN int tideL_failure(lua_State *L, const char *why);

/* true; or nil and what went wrong. */
TIDE_HIDDEN int tideL_outcome(lua_State *L, enum tide_err err);

/* The text for an error: for IO what errno says. */
TIDE_HIDDEN const char *tideL_why(enum tide_err err);

/* Sets a field of the table on the stack's top. */
TIDE_HIDDEN void tideL_set_string(lua_State *L, const char *key,
                                  const char *value);
TIDE_HIDDEN void tideL_set_integer(lua_State *L, const char *key,
                                   uint64_t value);
TIDE_HIDDEN void tideL_set_number(lua_State *L, const char *key, double value);

/* ---- what there is ---- */

/* The process's session; NULL: there is none. */
TIDE_HIDDEN struct tide_session *tideL_session(void);

/* The heap of the state; NULL: it is not profiled. */
TIDE_HIDDEN struct tide_heap *tideL_heap(lua_State *L);

/* The same, with the failure pushed when it is NULL. */
TIDE_HIDDEN struct tide_session *tideL_session_or_failure(lua_State *L);
TIDE_HIDDEN struct tide_heap *tideL_heap_or_failure(lua_State *L);

/* Attaches the state in the process's session.  (lua_control.c) */
TIDE_HIDDEN enum tide_err tideL_attach(lua_State *L, const char *options);

/* ---- arguments ---- */

/* A string that is not empty. */
TIDE_HIDDEN const char *tideL_check_name(lua_State *L, int arg);

/* The options of argument 1: a string, a table or nothing. */
TIDE_HIDDEN void tideL_read_options(lua_State *L, struct tideL_options *out,
                                    struct tide_options *parsed);

/* Pushes a field of the table at `arg`, checks its type; false: it is nil. */
TIDE_HIDDEN bool tideL_take_field(lua_State *L, int arg, const char *key,
                                  int type);

/* ---- the functions of the module: as lua_CFunction ---- */

#define TIDE_MODULE_FUNCTIONS(X)                                               \
 X(attach)                                                                     \
 X(detach)                                                                     \
 X(start)                                                                      \
 X(stop)                                                                       \
 X(reset)                                                                      \
 X(save)                                                                       \
 X(stats)                                                                      \
 X(path)                                                                       \
 X(mark)                                                                       \
 X(limit)                                                                      \
 X(report)                                                                     \
 X(target)                                                                     \
 X(untarget)                                                                   \
 X(rule)                                                                       \
 X(push)                                                                       \
 X(pop)                                                                        \
 X(gcwatch)

#define DECLARE(name) TIDE_HIDDEN int tideL_mod_##name(lua_State *L);
TIDE_MODULE_FUNCTIONS(DECLARE)
#undef DECLARE

/* Sets `region` in the module's table on the stack's top.  (lua_region.c) */
TIDE_HIDDEN void tideL_set_region(lua_State *L);

/* Notes where the module's own file is.  (lua_load.c) */
TIDE_HIDDEN void tideL_note_folder(void);

/* Says of which modules functions are that were loaded before. */
TIDE_HIDDEN void tideL_note_modules(lua_State *L);

/* ---- tidemark_report.so: an object of its own ---- */

/* As the functions of the module of the same names. */
struct tideL_reports {
    lua_CFunction report;
    lua_CFunction stop;
};

/* What it exports: takes Lua's functions, never NULL. */
typedef const struct tideL_reports *(*tideL_reports_fn)(
    const struct tideL_api *api);
#define TIDE_REPORTS_SYMBOL "tidemark_reports"

/*
** The model of the profile as it is now; to be closed.  NULL: why is pushed,
** as tideL_failure does.  (lua_report.c)
*/
struct tide_model;
TIDE_HIDDEN struct tide_model *tideL_open_now(lua_State *L,
                                              struct tide_session *session);

TIDE_HIDDEN int tideL_report(lua_State *L);
TIDE_HIDDEN int tideL_stop(lua_State *L);

#endif
