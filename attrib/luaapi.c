/*
** luaapi.c: finds Lua's functions in the process.
**
** With no lookup from the caller, dlsym searches the executable and every
** library in the global scope.  A static host that exports nothing gives a
** lookup of its own (or links lookup_linked, see tidemark.pc).
*/
#include "luaapi.h"

#include <dlfcn.h>
#include <string.h>

static void *lookup_global(void *ctx, const char *name)
{
    (void)ctx;
    return dlsym(RTLD_DEFAULT, name);
}

enum tide_err tideT_luaapi_find(tide_lookup_fn lookup_or_null, void *ctx,
                                struct tide_lua_api *api,
                                const char **missing_or_null)
{
    tide_lookup_fn lookup = lookup_or_null;
    if (lookup == NULL)
        lookup = lookup_global;
    memset(api, 0, sizeof *api);
    void *f;
#define STORE(field) memcpy(&api->field, &f, sizeof f)
#define X(field, name, type)                                                   \
 f = lookup(ctx, name);                                                        \
 if (f == NULL) {                                                              \
  if (missing_or_null != NULL)                                                 \
   *missing_or_null = name;                                                    \
  return TIDE_ERR_LUA;                                                         \
 }                                                                             \
 STORE(field);
    TIDE_LUA_API(X)
#undef X
#define X(field, name, type)                                                   \
 f = lookup(ctx, name);                                                        \
 STORE(field);
    TIDE_LUA_API_OPTIONAL(X)
#undef X
#undef STORE
    return TIDE_OK;
}
