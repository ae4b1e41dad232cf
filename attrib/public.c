/*
** public.c: attribution with Lua's public functions alone, for a library whose
** private layout is not known (Lua 5.5, a build of its own kind).
**
** Every allocation walks the stack with lua_getstack.  Lines are those that
** Lua has saved: table constructors may show an earlier line of the same
** function.  While a stack moves its frames cannot be read; the place found
** last stands in.
*/
#include <stdio.h>
#include <string.h>

#include "attrib.h"

#define LEVELS_MAX 200 /* innermost frames that are walked */

/* lua_Debug of this or of a later Lua, which may be larger. */
union debug {
    lua_Debug ar;
    char room[2 * sizeof(lua_Debug)];
};

static uint32_t node_of_level(struct tide_heap *h, lua_State *L,
                              union debug *level, uint32_t parent)
{
    if (h->cal->api.getinfo(L, "Sln", &level->ar) == 0)
        return parent;
    const bool is_c = level->ar.what != NULL && level->ar.what[0] == 'C';
    const uint32_t func = tideT_func_public(h, level->ar.source, level->ar.name,
                                            level->ar.linedefined,
                                            level->ar.lastlinedefined, is_c);
    const int line = is_c ? 0 : level->ar.currentline;
    return tideT_child(h, parent, func, line < 0 ? 0 : (uint32_t)line);
}

static void place(struct tide_heap *h, lua_State *L)
{
    union debug levels[LEVELS_MAX];
    int n = 0;
    while (n < LEVELS_MAX && h->cal->api.getstack(L, n, &levels[n].ar) == 1)
        n++;
    uint32_t node = 0;
    for (int i = n - 1; i >= 0; i--)
        node = node_of_level(h, L, &levels[i], node);
    if (node != h->public_site.node)
        memset(h->public_site.cell, 0, sizeof h->public_site.cell);
    h->public_site.node = node;
    h->site = n > 0 ? &h->public_site : &h->root_site;
}

enum tide_kind tideT_public_locate(struct tide_heap *h,
                                   const struct tide_ra *ra,
                                   const uintptr_t *words, size_t osize)
{
    const enum tide_kind kind = tideT_kind_of_tag(osize);
    h->cur_L = NULL;
    if (h->is_off)
        h->site = &h->off_site;
    if (osize == TIDE_LUA_TSTRING && !h->is_whole) {
        h->is_whole = true; /* strings come after the stack */
        h->head->n_states++;
    }
    if (kind == TIDE_KIND_THREAD)
        h->is_newborn = true;
    if (h->is_newborn && osize == 0) {
        h->is_newborn = false;
        return TIDE_KIND_THREAD; /* its first stack */
    }
    if (h->is_off || !h->is_whole || h->cal->api.getstack == NULL)
        return kind;
    if (ra == NULL)
        h->head->unknown_calls++;
    if (ra != NULL && !h->is_newborn)
        place(h, (lua_State *)words[ra->l_word]);
    return ra != NULL && ra->is_buffer ? TIDE_KIND_BUFFER : kind;
}
