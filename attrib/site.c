/*
** site.c: the cache of places.
**
** Direct-mapped by (parent node, pc or C function).  A hit gives the node and
** its cells, without decoding a line or asking the tree.  Entries may be
** overwritten at any time: only h->site points into the table, and it always
** points to the last one used.
*/
#include <string.h>

#include "native.h"

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

/*
** A larger tree has more places; each program pays for what it needs.  A small
** table is a few pages and is given up as soon as places drive each other out.
*/
static bool is_crowded(const struct tide_heap *h)
{
    if (h->n_sites >= TIDE_SITES_AMPLE)
        return h->n_nodes > h->n_sites && h->n_sites < TIDE_SITES_LAST;
    return h->n_evicted * 32 > h->n_sites || h->n_nodes * 4 > h->n_sites;
}

/*
** Whoever asks for a site may have others at hand and counts on h->cur_L, so
** the table grows at the beginning of a later call, which is made to be slow.
*/
static void ask_to_grow(struct tide_heap *h)
{
    h->gc_word |= TIDE_GC_ASKED;
}

/*
** Remembers where a prototype has sites.  A place may stand there twice, so the
** list has an end: then all sites are looked at when the prototype goes.
*/
static void note_place(struct tide_heap *h, struct tide_proto *proto,
                       uint32_t place)
{
    const uint32_t n = proto->n_places;
    if (n == TIDE_PLACES_LOST)
        return;
    if (n == proto->max_places) {
        const uint32_t max = n == 0 ? 4 : n * 2;
        uint32_t *places =
            max > h->n_sites / 8
                ? NULL
                : tideC_mem_grow(&h->mem, proto->places, n * sizeof *places,
                                 max * sizeof *places);
        if (places == NULL) {
            proto->n_places = TIDE_PLACES_LOST;
            return;
        }
        proto->places = places;
        proto->max_places = max;
    }
    proto->places[n] = place;
    proto->n_places = n + 1;
}

static bool is_of(const struct tide_proto *proto, const struct tide_site *site)
{
    return site->at - (uintptr_t)proto->code <=
           (uintptr_t)proto->n_code * sizeof *proto->code;
}

/* A site of the table before goes to its new place, if that is free. */
static void move_site(struct tide_heap *h, struct tide_site *from,
                      struct tide_proto *proto)
{
    const uintptr_t at =
        tideT_is_native(from) ? tideT_native_at(from->at) : from->at;
    struct tide_site *site = tideT_site_place(h, from->parent, at);
    if (site->at == 0) {
        *site = *from;
        if (proto != NULL)
            note_place(h, proto, (uint32_t)(site - h->sites));
    }
    from->at = 0;
}

/* The sites of a prototype; false: it does not know all of them. */
static bool move_sites(struct tide_heap *h, struct tide_site *old,
                       struct tide_proto *proto)
{
    const uint32_t n = proto->n_places;
    proto->n_places = 0;
    if (n == TIDE_PLACES_LOST)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_site *site = &old[proto->places[i]];
        if (is_of(proto, site))
            move_site(h, site, proto);
    }
    return true;
}

/*
** The places that a prototype reads are those of the old table, those that it
** writes of the new one: there are never more of the second.
*/
static void move_all(struct tide_heap *h, struct tide_site *old, uint32_t n_old)
{
    const struct tide_hashtab *t = &h->protos;
    bool know_all = true;
    for (uint32_t i = 0; t->pairs != NULL && i <= t->mask; i++)
        if (t->pairs[i].key != 0 &&
            !move_sites(h, old,
                        (struct tide_proto *)(uintptr_t)t->pairs[i].value))
            know_all = false;
    /* What is left are C functions, or nobody's. */
    for (uint32_t i = 0; know_all && i < n_old; i++)
        if (old[i].at != 0)
            move_site(h, &old[i], NULL);
}

void tideT_sites_grow(struct tide_heap *h)
{
    struct tide_site *old = h->sites;
    const uint32_t n_old = h->n_sites;
    if (!is_crowded(h) || h->parts_left != 0)
        return;
    h->sites = NULL;
    if (!tideT_sites_open(h, n_old * (n_old < TIDE_SITES_AMPLE ? 4 : 2))) {
        h->sites = old;
        return;
    }
    h->n_evicted = 0;
    move_all(h, old, n_old);
    tideC_pages_free(old, n_old * sizeof *old);
}

void tideT_sites_forget(struct tide_heap *h, const struct tide_proto *proto)
{
    const bool know_all = proto->n_places != TIDE_PLACES_LOST;
    const uint32_t n = know_all ? proto->n_places : h->n_sites;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_site *site = &h->sites[know_all ? proto->places[i] : i];
        if (is_of(proto, site))
            *site = (struct tide_site){0};
    }
    h->cur_L = NULL; /* h->site may have been one of them */
}

/* The function of a Lua site and its line; the site's node. */
static uint32_t fill_lua(struct tide_heap *h, struct tide_site *site,
                         const void *fn, const uint32_t *pc)
{
    struct tide_proto *proto = tideT_proto(h, fn);
    if (proto == NULL) { /* nobody would forget it in time */
        site->at = 0;
        site->node = tideT_child(h, site->parent, 0, 0);
        return 0;
    }
    note_place(h, proto, (uint32_t)(site - h->sites));
    const long i = pc > proto->code ? pc - proto->code - 1 : 0;
    const uint32_t line = i < proto->n ? proto->lines[i] : 0;
    site->node = tideT_child(h, site->parent, proto->func, line);
    return proto->func;
}

static uint32_t fill_c(struct tide_heap *h, struct tide_site *site,
                       const void *fn)
{
    const uint32_t func = tideT_func_c(h, fn);
    site->node = tideT_child(h, site->parent, func, 0);
    if (h->funcs[func].what == TIDE_P_C &&
        tideT_native_wants(h, site->parent, fn))
        site->at = tideT_native_at(site->at);
    return func;
}

struct tide_site *tideT_site(struct tide_heap *h, uint32_t parent,
                             const void *fn, const uint32_t *pc,
                             const lua_State *L, char *ci)
{
    const uintptr_t at = tideT_site_at(fn, pc);
    struct tide_site *site = tideT_site_place(h, parent, at);
    if (site->parent == parent &&
        (TIDE_LIKELY(site->at == at) || site->at == tideT_native_at(at)))
        return site;
    h->n_evicted += site->at != 0;
    if (TIDE_UNLIKELY(is_crowded(h)))
        ask_to_grow(h);
    tide_assert(parent < h->n_nodes);
    *site = (struct tide_site){.at = at, .parent = parent};
    const uint32_t func =
        pc != NULL ? fill_lua(h, site, fn, pc) : fill_c(h, site, fn);
    if (h->funcs[func].name == 0 && ci != NULL)
        tideT_name_from_call(h, func, L, ci);
    tide_assert(site->node < h->n_nodes && func < h->n_funcs);
    return site;
}

struct tide_p_cell *tideT_site_cell(struct tide_heap *h, struct tide_site *site,
                                    enum tide_kind kind)
{
    const uint32_t i = tideT_cell(h, site->node, kind);
    tide_assert(i > 0 && i < h->n_cells);
    if (kind != TIDE_KIND_THREAD && kind != TIDE_KIND_PROTO) /* always cold */
        site->cell[kind & 3] = i;
    return &h->cells[i];
}
