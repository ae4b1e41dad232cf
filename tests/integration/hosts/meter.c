/*
** meter.c: an object file beside the host that deals with allocators: a memory
** meter, and a user of lua_getallocf.  Its functions of Lua are those that the
** program has.
*/
#include "meter.h"

#include <lua.h>

#define SHOWN __attribute__((visibility("default")))

SHOWN void meter_on(lua_State *L, struct meter *meter);
SHOWN void meter_off(lua_State *L, struct meter *meter);
SHOWN int meter_is_on(lua_State *L, struct meter *meter);
SHOWN void *meter_box(lua_State *L, void *box, size_t old, size_t new);

void meter_on(lua_State *L, struct meter *meter)
{
    meter->inner = lua_getallocf(L, &meter->inner_ud);
    lua_setallocf(L, meter_alloc, meter);
}

void meter_off(lua_State *L, struct meter *meter)
{
    lua_setallocf(L, meter->inner, meter->inner_ud);
}

int meter_is_on(lua_State *L, struct meter *meter)
{
    void *ud;
    return lua_getallocf(L, &ud) == meter_alloc && ud == meter;
}

void *meter_box(lua_State *L, void *box, size_t old, size_t new)
{
    void *ud;
    const lua_Alloc f = lua_getallocf(L, &ud);
    return f(ud, box, old, new);
}
