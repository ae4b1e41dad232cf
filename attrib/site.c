/*
** site.c: the cache of places.
**
** Direct-mapped by (parent node, function, pc).  A hit gives the node, its
** cells, and what a table constructor there will ask for, without decoding a
** line or asking the tree.  Entries may be overwritten at any time: only
** h->site points into the table, and it always points to the last one used.
*/
#include <string.h>

#include "attrib.h"

bool tideT_sites_open(struct tide_heap *h, uint32_t n)
{
    tide_assert((n & (n - 1)) == 0 && n <= TIDE_SITES_LAST);
    struct tide_site *sites = tideC_pages_alloc(n * sizeof *sites);
    if (sites == NULL)
        return false;
    tideC_pages_free(h->sites, h->n_sites * sizeof *sites);
    h->sites = sites;
    h->n_sites = n;
    h->site_shift = 64u - (uint32_t)__builtin_ctz(n);
    h->site = &h->root_site;
    h->parts_left = 0;
    h->cur_L = NULL; /* the place is to be found anew */
    return true;
}

/* A larger tree has more places; each program pays for what it needs. */
static void grow_sites(struct tide_heap *h)
{
    if (h->n_nodes > h->n_sites && h->n_sites < TIDE_SITES_LAST)
        tideT_sites_open(h, h->n_sites * 4);
}

/* What a table constructor just before pc allocates. */
static void note_constructor(struct tide_site *site)
{
    const uint32_t *i = site->pc - 1;
    site->array_bytes = site->hash_bytes = site->parts = 0;
    if (tideT_op(*i) != TIDE_OP_NEWTABLE)
        return;
    const uint32_t n = tideT_op_count(i);
    const uint32_t b = tideT_op_b(*i);
    site->array_bytes = n * TIDE_SLOT_BYTES;
    site->hash_bytes = b == 0 ? 0 : TIDE_NODE_BYTES << (b - 1);
    site->parts = (n != 0 ? 1u : 0u) | (b != 0 ? 2u : 0u);
}

/* Remembers where a prototype has sites. */
static void note_place(struct tide_proto *proto, uint32_t place)
{
    const uint32_t max = sizeof proto->places / sizeof proto->places[0];
    if (proto->n_places < max)
        proto->places[proto->n_places] = place;
    if (proto->n_places <= max)
        proto->n_places++;
}

void tideT_sites_forget(struct tide_heap *h, const void *fn,
                        const struct tide_proto *proto)
{
    const uint32_t max = sizeof proto->places / sizeof proto->places[0];
    const bool know_all = proto->n_places <= max;
    const uint32_t n = know_all ? proto->n_places : h->n_sites;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_site *site = &h->sites[know_all ? proto->places[i] : i];
        if (site->fn == fn)
            *site = (struct tide_site){0};
    }
    h->cur_L = NULL; /* h->site may have been one of them */
}

static void fill_lua(struct tide_heap *h, struct tide_site *site)
{
    uint32_t line = 0;
    struct tide_proto *proto = tideT_proto(h, site->fn);
    site->func = 0;
    if (proto != NULL) {
        note_place(proto, (uint32_t)(site - h->sites));
        const uint32_t *code = tideT_proto_code(site->fn);
        long i = site->pc - code - 1;
        if (i < 0)
            i = 0;
        if (i < proto->n)
            line = proto->lines[i];
        site->func = proto->func;
        if (site->pc > code)
            note_constructor(site);
    }
    site->node = tideT_child(h, site->parent, site->func, line);
}

struct tide_site *tideT_site(struct tide_heap *h, uint32_t parent,
                             const void *fn, const uint32_t *pc,
                             const lua_State *L, char *ci)
{
    struct tide_site *site = tideT_site_place(h, parent, fn, pc);
    if (TIDE_LIKELY(site->pc == pc && site->fn == fn && site->parent == parent))
        return site;
    if (TIDE_UNLIKELY(h->n_nodes > h->n_sites)) {
        grow_sites(h);
        site = tideT_site_place(h, parent, fn, pc);
    }
    memset(site, 0, sizeof *site);
    tide_assert(parent < h->n_nodes);
    site->parent = parent;
    site->fn = fn;
    site->pc = pc;
    if (pc != NULL) {
        fill_lua(h, site);
    } else {
        site->func = tideT_func_c(h, fn);
        site->node = tideT_child(h, parent, site->func, 0);
    }
    if (h->funcs[site->func].name == 0 && ci != NULL)
        tideT_name_from_call(h, site->func, L, ci);
    tide_assert(site->node < h->n_nodes && site->func < h->n_funcs);
    return site;
}

struct tide_p_cell *tideT_site_cell(struct tide_heap *h, struct tide_site *site,
                                    enum tide_kind kind)
{
    const uint32_t i = tideT_cell(h, site->node, kind);
    tide_assert(i > 0 && i < h->n_cells);
    site->cell[kind & 3] = i;
    return &h->cells[i];
}
