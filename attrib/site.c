/*
** site.c: the cache of places.
**
** Direct-mapped by (parent node, function, pc).  A hit gives the node, its
** cells, and what a table constructor there will ask for, without decoding a
** line or asking the tree.  Entries may be overwritten at any time: only
** h->site points into the table, and it always points to the last one used.
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

static void forget_places(struct tide_heap *h)
{
    const struct tide_hashtab *t = &h->protos;
    for (uint32_t i = 0; t->pairs != NULL && i <= t->mask; i++)
        if (t->pairs[i].key != 0)
            ((struct tide_proto *)(uintptr_t)t->pairs[i].value)->n_places = 0;
}

/* A site of the table before goes to its new place, if that is free. */
static void move_site(struct tide_heap *h, const struct tide_site *from)
{
    const void *fn = from->is_native ? tideT_native_fn(from->fn) : from->fn;
    struct tide_site *site = tideT_site_place(h, from->parent, fn, from->pc);
    if (site->fn != NULL)
        return;
    if (from->pc != NULL) {
        const uint64_t *value =
            tideC_hashtab_find(&h->protos, (uint64_t)(uintptr_t)fn);
        if (value == NULL)
            return;
        note_place(h, (struct tide_proto *)(uintptr_t)*value,
                   (uint32_t)(site - h->sites));
    }
    *site = *from;
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
    forget_places(h);
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].fn != NULL)
            move_site(h, &old[i]);
    tideC_pages_free(old, n_old * sizeof *old);
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

void tideT_sites_forget(struct tide_heap *h, const void *fn,
                        const struct tide_proto *proto)
{
    const bool know_all = proto->n_places != TIDE_PLACES_LOST;
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
        note_place(h, proto, (uint32_t)(site - h->sites));
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
    if (site->is_native && site->fn == tideT_native_fn(fn) &&
        site->parent == parent)
        return site;
    h->n_evicted += site->fn != NULL;
    if (TIDE_UNLIKELY(is_crowded(h)))
        ask_to_grow(h);
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
        site->is_native = h->funcs[site->func].what == TIDE_P_C &&
                          tideT_native_wants(h, parent, fn);
        if (site->is_native)
            site->fn = tideT_native_fn(fn);
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
    if (kind != TIDE_KIND_THREAD && kind != TIDE_KIND_PROTO) /* always cold */
        site->cell[kind & 3] = i;
    return &h->cells[i];
}
