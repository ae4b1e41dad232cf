/*
** lua_options.c: options from Lua, as a table {key = value} or as the string
** that the environment has.
*/
#include "lua_api.h"

#include <stdio.h>
#include <string.h>

static void add_option(lua_State *L, struct tideL_options *out, const char *key,
                       const char *value)
{
    if (strchr(value, '"') != NULL)
        g_api.luaL_error(L, "option '%s' must not hold a quote", key);
    const size_t left = sizeof out->text - out->n_bytes;
    const int n = snprintf(out->text + out->n_bytes, left, "%s%s=\"%s\"",
                           out->n_bytes > 0 ? "," : "", key, value);
    if (n < 0 || (size_t)n >= left)
        g_api.luaL_error(L, "options are too long");
    out->n_bytes += (size_t)n;
}

/* One pair at -2, -1.  Only the value may be converted: lua_next needs the key
** as it is. */
static void add_pair(lua_State *L, struct tideL_options *out)
{
    if (g_api.lua_type(L, -2) != LUA_TSTRING)
        g_api.luaL_argerror(L, 1, "names of options must be strings");
    const char *key = g_api.lua_tolstring(L, -2, NULL);
    const int type = g_api.lua_type(L, -1);
    if (type == LUA_TBOOLEAN)
        add_option(L, out, key, g_api.lua_toboolean(L, -1) ? "yes" : "no");
    else if (type == LUA_TSTRING || type == LUA_TNUMBER)
        add_option(L, out, key, g_api.lua_tolstring(L, -1, NULL));
    else
        g_api.luaL_error(L, "option '%s' has a value of a wrong type", key);
}

static void read_table(lua_State *L, struct tideL_options *out)
{
    g_api.lua_pushnil(L);
    while (g_api.lua_next(L, 1) != 0) {
        add_pair(L, out);
        g_api.lua_settop(L, -2);
    }
}

void tideL_read_options(lua_State *L, struct tideL_options *out,
                        struct tide_options *parsed)
{
    char why[256];
    const int type = g_api.lua_type(L, 1);
    out->text[0] = '\0';
    out->n_bytes = 0;
    if (type == LUA_TTABLE) {
        read_table(L, out);
    } else if (type == LUA_TSTRING) {
        const char *text = g_api.lua_tolstring(L, 1, NULL);
        if (snprintf(out->text, sizeof out->text, "%s", text) >=
            (int)sizeof out->text)
            g_api.luaL_error(L, "options are too long");
    } else if (type != LUA_TNIL && type != LUA_TNONE) {
        g_api.luaL_typeerror(L, 1, "table or string");
    }
    tideC_options_default(parsed);
    if (tideC_options_parse(out->text, parsed, why, sizeof why) != TIDE_OK)
        g_api.luaL_argerror(L, 1, why);
}
