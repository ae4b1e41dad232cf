/*
** lua_target.c: groups of functions from Lua.
**
** A table is walked with all tables in it, their metatables and what __index
** leads to, each once, without recursion.  What is not walked into: _G,
** package.loaded and the modules there, which are groups of their own; a C
** function of one of these is named only where it stands in the table that was
** given.
*/
#include "lua_api.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES 256u

/* Places on the stack during a walk. */
enum walk_place {
    AT_GROUP = 1,
    AT_WHAT,
    AT_PREFIX,
    AT_SEEN,  /* tables and functions to leave alone */
    AT_QUEUE, /* tables and names by turns */
    AT_TABLE, /* being visited, and its name */
    AT_NAME,
    AT_KEY,
    AT_VALUE
};

struct walk {
    lua_State *L;
    struct tide_heap *heap;
    const char *group;
    lua_Integer n_queued; /* places of the queue */
    lua_Integer n_done;   /* functions */
    bool is_first;        /* the table that was given */
    bool is_removing;
    enum tide_err err; /* the first that is no matter of one function */
};

/* Is the value at an index in the set of what was seen?  It is afterwards. */
static bool was_seen(struct walk *walk, int index)
{
    lua_State *L = walk->L;
    g_api.lua_pushvalue(L, index);
    const bool is_seen = g_api.lua_rawget(L, AT_SEEN) != LUA_TNIL;
    g_api.lua_settop(L, -2);
    if (is_seen)
        return true;
    g_api.lua_pushvalue(L, index);
    g_api.lua_pushboolean(L, 1);
    g_api.lua_rawset(L, AT_SEEN);
    return false;
}

/* Takes the table at the stack's top into the queue, under a name. */
static void enqueue(struct walk *walk, const char *name)
{
    lua_State *L = walk->L;
    if (was_seen(walk, -1)) {
        g_api.lua_settop(L, -2);
        return;
    }
    g_api.lua_rawseti(L, AT_QUEUE, ++walk->n_queued);
    g_api.lua_pushstring(L, name);
    g_api.lua_rawseti(L, AT_QUEUE, ++walk->n_queued);
}

/* C functions of one module are not to be named where others hold them. */
static void mark_functions(struct walk *walk)
{
    lua_State *L = walk->L;
    for (g_api.lua_pushnil(L); g_api.lua_next(L, -2) != 0;
         g_api.lua_settop(L, -2))
        if (g_api.lua_tocfunction(L, -1) != NULL)
            was_seen(walk, -1);
}

/* Every module but the table that was given. */
static void mark_modules(struct walk *walk)
{
    lua_State *L = walk->L;
    const void *given = g_api.lua_topointer(L, AT_WHAT);
    if (g_api.lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) ==
        LUA_TTABLE) {
        if (g_api.lua_topointer(L, -1) != given)
            was_seen(walk, -1);
        for (g_api.lua_pushnil(L); g_api.lua_next(L, -2) != 0;
             g_api.lua_settop(L, -2)) {
            if (g_api.lua_type(L, -1) != LUA_TTABLE ||
                g_api.lua_topointer(L, -1) == given || was_seen(walk, -1))
                continue;
            mark_functions(walk);
        }
    }
    g_api.lua_settop(L, AT_QUEUE);
}

/* The name of the value under AT_KEY: "AI.think", "AI[3]". */
static void make_name(lua_State *L, char out[NAME_BYTES])
{
    const char *in = g_api.lua_tolstring(L, AT_NAME, NULL);
    const int type = g_api.lua_type(L, AT_KEY);
    if (type == LUA_TSTRING)
        snprintf(out, NAME_BYTES, "%s%s%s", in, *in != '\0' ? "." : "",
                 g_api.lua_tolstring(L, AT_KEY, NULL));
    else if (type == LUA_TNUMBER && g_api.lua_isinteger(L, AT_KEY))
        snprintf(out, NAME_BYTES, "%s[%lld]", in,
                 (long long)g_api.lua_tointegerx(L, AT_KEY, NULL));
    else if (type == LUA_TNUMBER)
        snprintf(out, NAME_BYTES, "%s[%.14g]", in,
                 g_api.lua_tonumberx(L, AT_KEY, NULL));
    else if (type == LUA_TBOOLEAN)
        snprintf(out, NAME_BYTES, "%s[%s]", in,
                 g_api.lua_toboolean(L, AT_KEY) ? "true" : "false");
    else
        snprintf(out, NAME_BYTES, "%s[?]", in);
}

/* The function at an index. */
static void visit_function(struct walk *walk, int index, const char *name)
{
    lua_State *L = walk->L;
    const enum tide_err err =
        walk->is_removing
            ? tide_untarget(walk->heap, L, index)
            : tide_target(walk->heap, L, index, walk->group, name);
    if (err == TIDE_OK)
        walk->n_done++;
    else if (err == TIDE_ERR_NOMEM && walk->err == TIDE_OK)
        walk->err = err;
}

/* A metatable, or what __index leads to, has the name of who has it. */
static void visit_value(struct walk *walk)
{
    lua_State *L = walk->L;
    char name[NAME_BYTES];
    const int type = g_api.lua_type(L, AT_VALUE);
    make_name(L, name);
    if (type == LUA_TFUNCTION) {
        if (walk->is_first || !was_seen(walk, AT_VALUE))
            visit_function(walk, AT_VALUE, name);
    } else if (type == LUA_TTABLE) {
        const bool is_index =
            g_api.lua_type(L, AT_KEY) == LUA_TSTRING &&
            strcmp(g_api.lua_tolstring(L, AT_KEY, NULL), "__index") == 0;
        g_api.lua_pushvalue(L, AT_VALUE);
        enqueue(walk, is_index ? g_api.lua_tolstring(L, AT_NAME, NULL) : name);
    } else if (type == LUA_TUSERDATA &&
               g_api.lua_getmetatable(L, AT_VALUE) != 0) {
        enqueue(walk, name);
    }
}

static void visit_table(struct walk *walk)
{
    lua_State *L = walk->L;
    for (g_api.lua_pushnil(L); g_api.lua_next(L, AT_TABLE) != 0;
         g_api.lua_settop(L, AT_KEY))
        visit_value(walk);
    if (g_api.lua_getmetatable(L, AT_TABLE) != 0)
        enqueue(walk, g_api.lua_tolstring(L, AT_NAME, NULL));
    g_api.lua_settop(L, AT_QUEUE);
}

/* group at 1, the table at 2, its name at 3. */
static void walk_table(struct walk *walk)
{
    lua_State *L = walk->L;
    g_api.luaL_checkstack(L, 16, NULL);
    g_api.lua_settop(L, AT_PREFIX);
    g_api.lua_createtable(L, 0, 0);
    g_api.lua_createtable(L, 0, 0);
    mark_modules(walk);
    g_api.lua_pushvalue(L, AT_WHAT);
    enqueue(walk, g_api.lua_tolstring(L, AT_PREFIX, NULL));
    walk->is_first = true;
    for (lua_Integer i = 1; i < walk->n_queued; i += 2) {
        g_api.lua_rawgeti(L, AT_QUEUE, i);
        g_api.lua_rawgeti(L, AT_QUEUE, i + 1);
        visit_table(walk);
        walk->is_first = false;
    }
}

/* The table or function at AT_WHAT. */
static int walk_what(lua_State *L, struct walk *walk)
{
    if (g_api.lua_type(L, AT_WHAT) == LUA_TFUNCTION)
        visit_function(walk, AT_WHAT, g_api.lua_tolstring(L, AT_PREFIX, NULL));
    else
        walk_table(walk);
    if (walk->err != TIDE_OK)
        return tideL_outcome(L, walk->err);
    g_api.lua_pushinteger(L, walk->n_done);
    return 1;
}

static void check_what(lua_State *L, int arg)
{
    const int type = g_api.lua_type(L, arg);
    if (type != LUA_TTABLE && type != LUA_TFUNCTION)
        g_api.luaL_typeerror(L, arg, "table or function");
}

/*
** target(group, table|function [, name]): how many functions were named.  The
** name is that of the function, or stands before those of the table's.
*/
int tideL_mod_target(lua_State *L)
{
    struct walk walk = {.L = L, .group = tideL_check_name(L, AT_GROUP)};
    check_what(L, AT_WHAT);
    g_api.luaL_optlstring(L, AT_PREFIX, "", NULL);
    g_api.lua_settop(L, AT_PREFIX);
    if (g_api.lua_type(L, AT_PREFIX) == LUA_TNIL) {
        g_api.lua_settop(L, AT_WHAT);
        g_api.lua_pushstring(L, "");
    }
    walk.heap = tideL_heap_or_failure(L);
    if (walk.heap == NULL)
        return 2;
    const enum tide_err err = tide_target_group(walk.heap, walk.group);
    if (err != TIDE_OK)
        return tideL_outcome(L, err);
    return walk_what(L, &walk);
}

/*
** untarget(group|table|function): a group is given up with its functions and
** rules; or functions leave the groups that they are in.  How many functions;
** true for a group; nil and why not.
*/
int tideL_mod_untarget(lua_State *L)
{
    struct walk walk = {.L = L, .is_removing = true};
    const int type = g_api.lua_type(L, 1);
    if (type != LUA_TTABLE && type != LUA_TFUNCTION && type != LUA_TSTRING)
        return g_api.luaL_typeerror(L, 1, "group, table or function");
    walk.heap = tideL_heap_or_failure(L);
    if (walk.heap == NULL)
        return 2;
    if (type == LUA_TSTRING) {
        const enum tide_err err =
            tide_untarget_group(walk.heap, g_api.lua_tolstring(L, 1, NULL));
        return err == TIDE_ERR_STATE ? tideL_failure(L, "no such group")
                                     : tideL_outcome(L, err);
    }
    g_api.lua_settop(L, 1);
    g_api.lua_pushstring(L, "");
    g_api.lua_rotate(L, 1, 1);
    g_api.lua_pushstring(L, "");
    return walk_what(L, &walk);
}

/*
** rule(group, {source =, module =, ["function"] =}): functions that match all
** of these patterns are of the group.
*/
int tideL_mod_rule(lua_State *L)
{
    static const char *const keys[3] = {"source", "module", "function"};
    const char *patterns[3] = {NULL, NULL, NULL};
    const char *group = tideL_check_name(L, 1);
    if (g_api.lua_type(L, 2) != LUA_TTABLE)
        return g_api.luaL_typeerror(L, 2, "table");
    for (int i = 0; i < 3; i++)
        if (tideL_take_field(L, 2, keys[i], LUA_TSTRING))
            patterns[i] = g_api.lua_tolstring(L, -1, NULL);
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    const enum tide_err err =
        tide_target_rule(heap, group, patterns[0], patterns[1], patterns[2]);
    if (err == TIDE_ERR_ARG)
        return g_api.luaL_argerror(L, 2,
                                   "no pattern for 'source', 'module' or "
                                   "'function'");
    return tideL_outcome(L, err);
}

/* ---- modules that were loaded before ---- */

/* "game/ai.lua" and "/x/game/ai/init.lua" are files of "game.ai". */
static bool is_file_of(const char *source, const char *module)
{
    char path[NAME_BYTES];
    const size_t n = strlen(module);
    if (source[0] != '@' || n >= sizeof path - 16)
        return false;
    for (size_t i = 0; i <= n; i++)
        path[i] = module[i] == '.' ? '/' : module[i];
    const char *end = strrchr(source, '.');
    size_t left = end == NULL ? strlen(source) : (size_t)(end - source);
    static const char init[] = "/init";
    if (left > sizeof init &&
        memcmp(source + left - (sizeof init - 1), init, sizeof init - 1) == 0)
        left -= sizeof init - 1;
    return left > n && memcmp(source + left - n, path, n) == 0 &&
           (left == n + 1 || source[left - n - 1] == '/');
}

/* The function on the stack's top, a field of the module. */
static void note_function(lua_State *L, struct tide_heap *heap,
                          const char *module)
{
    lua_Debug ar;
    if (g_api.lua_tocfunction(L, -1) == NULL) {
        g_api.lua_pushvalue(L, -1);
        if (g_api.lua_getinfo(L, ">S", &ar) == 0 ||
            !is_file_of(ar.source, module))
            return;
    }
    tide_module(heap, L, -1, module);
}

static void note_fields(lua_State *L, struct tide_heap *heap,
                        const char *module)
{
    for (g_api.lua_pushnil(L); g_api.lua_next(L, -2) != 0;
         g_api.lua_settop(L, -2))
        if (g_api.lua_type(L, -1) == LUA_TFUNCTION)
            note_function(L, heap, module);
}

/* The standard library's functions are known without. */
static bool is_standard(const char *module)
{
    static const char *const names[] = {"_G",   "package", "coroutine", "table",
                                        "io",   "os",      "string",    "math",
                                        "utf8", "debug",   "tidemark"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(module, names[i]) == 0)
            return true;
    return false;
}

void tideL_note_modules(lua_State *L)
{
    struct tide_heap *heap = tideL_heap(L);
    const int top = g_api.lua_gettop(L);
    if (heap == NULL)
        return;
    g_api.luaL_checkstack(L, 16, NULL);
    if (g_api.lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) ==
        LUA_TTABLE) {
        for (g_api.lua_pushnil(L); g_api.lua_next(L, -2) != 0;
             g_api.lua_settop(L, -2)) {
            if (g_api.lua_type(L, -2) != LUA_TSTRING)
                continue;
            const char *module = g_api.lua_tolstring(L, -2, NULL);
            if (g_api.lua_type(L, -1) == LUA_TTABLE && !is_standard(module))
                note_fields(L, heap, module);
            else if (g_api.lua_type(L, -1) == LUA_TFUNCTION)
                note_function(L, heap, module);
        }
    }
    g_api.lua_settop(L, top);
}
