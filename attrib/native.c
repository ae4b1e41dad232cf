/*
** native.c: C frames below a C function, or below nothing at all.
**
** An allocation by C code has a path of return addresses from the allocator up
** to where Lua called the C function; without any Lua frame, up to where the
** thread began.  Walks go along a tree of places that earlier ones have made,
** each a frame with all frames below it; a place has a copy of its rule
** (unwind.c) and knows the caller that it had the last time, so that a frame
** costs a few loads.  Where a walk ends are the node and cells of its path.
** Each address is a function of the sort NATIVE, and a node below that of the C
** function, which itself is not repeated.  Lua's own code next to the allocator
** is kept; reports leave it out.
**
** Where C code stands now, other code may be later (dlclose).  A rule is
** followed only while the machine code at its address is what it was; when that
** has changed, what was known is forgotten.
**
** Must not: allocate from malloc, take a lock of the host, call Lua.
*/
#include "../common/mem.h"
#include "native_impl.h"

#define FIRST_PLACES 256u
#define PLACES_MAX   (uint32_t)(PATHS_BYTES / sizeof(struct native_place))

_Static_assert(sizeof(struct native_place) == 64, "a cache line");

bool tideT_native_open(struct tide_heap *h)
{
    if (h->session->unwind == NULL)
        return true;
    struct tide_native *nat = tideC_mem_alloc(&h->mem, sizeof *nat);
    if (nat == NULL)
        return false;
    nat->unwind = h->session->unwind;
    nat->rules = tideC_mem_alloc(&h->mem, FIRST_SLOTS * sizeof *nat->rules);
    nat->paths =
        tideC_mem_alloc(&h->mem, FIRST_SLOTS * sizeof(struct native_path *));
    nat->places = tideC_mem_alloc(&h->mem, FIRST_PLACES * sizeof *nat->places);
    if (nat->rules == NULL || nat->paths == NULL || nat->places == NULL)
        return false; /* the heap's memory is given back as a whole */
    nat->rule_mask = nat->path_mask = FIRST_SLOTS - 1;
    nat->max_places = FIRST_PLACES;
    nat->n_places = 1;
    h->native = nat;
    tideT_objects_all(h);
    return true;
}

/* ---- places ---- */

static bool grow_places(struct tide_heap *h, struct tide_native *nat)
{
    const size_t old = nat->max_places * sizeof *nat->places;
    struct native_place *places =
        nat->max_places >= PLACES_MAX
            ? NULL
            : tideC_mem_grow(&h->mem, nat->places, old, 2 * old);
    if (places == NULL)
        return false;
    nat->places = places;
    nat->max_places *= 2;
    return true;
}

static void fill_place(struct native_place *place,
                       const struct native_place *below,
                       const struct tide_rule *rule)
{
    *place = (struct native_place){
        .ip = rule->ip,
        .code = rule->code,
        .start = rule->start,
        .frame_offset = rule->frame_offset,
        .ip_offset = rule->ip_offset,
        .fp_offset = rule->fp_offset,
        .depth = (uint16_t)(below->depth + 1),
        .other = below->other,
        .how = rule->how,
        .flags = (uint8_t)((rule->is_vm ? PLACE_IS_VM : 0) |
                           (rule->is_entry ? PLACE_IS_ENTRY : 0) |
                           (rule->is_resume ? PLACE_IS_RESUME : 0) |
                           (rule->is_signal ? PLACE_IS_SIGNAL : 0)),
    };
    const int32_t offset = rule->frame_offset;
    if (rule->how == TIDE_RULE_SP &&
        (offset <= 0 || (size_t)offset % sizeof(uintptr_t) != 0))
        place->how = TIDE_RULE_END; /* no frame: the tables are wrong */
    if (below->depth == 0 || (below->flags & PLACE_IS_VM) != 0 ||
        (place->flags & (PLACE_IS_VM | PLACE_IS_ENTRY)) == 0)
        return;
    place->flags |= PLACE_IS_LEFT;
    if (place->other == 0 && (place->flags & PLACE_IS_ENTRY) == 0)
        place->other = place->depth;
}

/* A new place, its own ring; 0: all was forgotten. */
static uint32_t new_place(struct tide_heap *h, struct tide_native *nat,
                          uint32_t below, uintptr_t ip)
{
    const uint32_t n_forgotten = nat->n_forgotten;
    if (nat->n_places == nat->max_places && !grow_places(h, nat))
        tideT_native_forget_all(h, nat);
    const struct tide_rule *rule = native_rule_of(h, nat, ip);
    if (nat->n_forgotten != n_forgotten)
        return 0;
    const uint32_t i = nat->n_places++;
    fill_place(&nat->places[i], &nat->places[below], rule);
    nat->places[i].below = below;
    nat->places[i].next = i;
    return i;
}

TIDE_INLINE bool is_place(const struct native_place *place, uintptr_t ip)
{
    return TIDE_LIKELY(place->ip == ip &&
                       (place->code == 0 || place->code == native_code(ip)));
}

static uint32_t *ring_of(struct tide_native *nat, uint32_t below, uintptr_t ip)
{
    return below != 0 ? &nat->places[below].caller
                      : &nat->roots[(ip ^ ip >> 6) % PLACE_ROOTS];
}

/* The place of ip in a ring, which it then begins with; 0: see new_place. */
static TIDE_NOINLINE uint32_t find_place(struct tide_heap *h,
                                         struct tide_native *nat,
                                         uint32_t below, uintptr_t ip)
{
    const uint32_t first = *ring_of(nat, below, ip);
    uint32_t i = first;
    if (first != 0) {
        do {
            if (is_place(&nat->places[i], ip))
                return *ring_of(nat, below, ip) = i;
            if (nat->places[i].ip == ip) { /* other code stands there now */
                tideT_native_forget_all(h, nat);
                return 0;
            }
            i = nat->places[i].next;
        } while (i != first);
    }
    i = new_place(h, nat, below, ip);
    if (i != 0 && first != 0) {
        nat->places[i].next = nat->places[first].next;
        nat->places[first].next = i;
    }
    if (i != 0)
        *ring_of(nat, below, ip) = i;
    return i;
}

/* ---- the walk ---- */

/*
** Is the path complete before a place where C was left?  Lua calls C functions
** at places that calibration has seen, and the function itself is known.  Other
** calls from Lua to C (a reader of lua_load, what goes on after a yield) are on
** the way: beyond the first of them only fn itself is looked for, as far as the
** coroutine goes.
*/
TIDE_INLINE bool is_boundary(const struct tide_native *nat,
                             const struct native_place *place, uintptr_t fn)
{
    if ((place->flags & PLACE_IS_RESUME) != 0 && place->other != 0)
        return true;
    if ((place->flags & PLACE_IS_LEFT) == 0)
        return false;
    return nat->places[place->below].start == fn ||
           ((place->flags & PLACE_IS_ENTRY) != 0 && place->other == 0);
}

/* The place whose rule is OTHER; *at goes to its caller.  False: none. */
static TIDE_NOINLINE bool step_odd(struct tide_native *nat,
                                   const struct native_place *place,
                                   struct tide_cframe *at)
{
    const struct tide_rule rule = {.is_signal =
                                       (place->flags & PLACE_IS_SIGNAL) != 0};
    return place->how == TIDE_RULE_OTHER &&
           tideT_unwind_step(nat->unwind, &rule, at);
}

/*
** Goes to the caller of a place; its ip, 0: there is none.  What is walked with
** stays in registers.
*/
TIDE_INLINE uintptr_t go_up(struct tide_native *nat,
                            const struct native_place *place, uintptr_t *sp,
                            uintptr_t *fp)
{
    uintptr_t end;
    if (TIDE_LIKELY(place->how == TIDE_RULE_SP)) {
        end = *sp + (uint32_t)place->frame_offset;
    } else if (place->how == TIDE_RULE_FP) {
        end = *fp + (uintptr_t)(intptr_t)place->frame_offset;
        if (end - *sp - 1 >= FRAME_BYTES_MAX || end % sizeof end != 0)
            return 0; /* no frame: the tables are wrong */
    } else {
        struct tide_cframe at = {place->ip, *sp, *fp};
        if (!step_odd(nat, place, &at))
            return 0;
        *sp = at.sp;
        *fp = at.fp;
        return at.ip;
    }
    *sp = end;
    if (place->fp_offset != 0)
        *fp = native_word(end, place->fp_offset);
    return native_word(end, place->ip_offset);
}

/*
** Walks from a frame up to where Lua called fn; fn 0: to the outermost one.
** The place where it ends; 0: all was forgotten, it is to begin anew.
*/
static uint32_t walk(struct tide_heap *h, struct tide_native *nat,
                     struct tide_cframe from, uintptr_t fn, bool *is_cut)
{
    uintptr_t ip = from.ip, sp = from.sp, fp = from.fp;
    uint32_t i = *ring_of(nat, 0, ip);
    const uint8_t looked_at = fn != 0 ? PLACE_IS_LEFT | PLACE_IS_RESUME : 0;
    *is_cut = false;
    if (!is_place(&nat->places[i], ip))
        i = find_place(h, nat, 0, ip);
    while (i != 0) {
        const struct native_place *place = &nat->places[i];
        if ((place->flags & looked_at) != 0 && is_boundary(nat, place, fn))
            return i;
        if (place->depth == DEPTH_MAX) {
            *is_cut = true;
            return i;
        }
        ip = go_up(nat, place, &sp, &fp);
        if (ip == 0)
            return i;
        const uint32_t caller = place->caller;
        i = is_place(&nat->places[caller], ip) ? caller
                                               : find_place(h, nat, i, ip);
    }
    return 0;
}

/* ---- where walks end ---- */

/* Frames of the path that ends at a place, from the innermost one on. */
static uint32_t frames_until(const struct tide_native *nat,
                             const struct native_place *place, uintptr_t fn)
{
    if (fn == 0)
        return place->depth;
    if ((place->flags & PLACE_IS_LEFT) != 0 &&
        nat->places[place->below].start == fn)
        return place->depth - 2u; /* fn's own frame is its node's */
    if (place->other != 0)
        return place->other - 1u; /* fn was left by a tail call */
    return place->depth - ((place->flags & PLACE_IS_LEFT) != 0 ? 1u : 0u);
}

/* The node of a path below a node. */
static uint32_t node_of(struct tide_heap *h, struct tide_native *nat,
                        uint32_t at, uint32_t parent, uint32_t n, bool is_cut)
{
    uintptr_t ips[DEPTH_MAX];
    tide_assert(n <= nat->places[at].depth);
    while (nat->places[at].depth > n)
        at = nat->places[at].below;
    for (uint32_t i = n; i-- > 0; at = nat->places[at].below)
        ips[i] = nat->places[at].ip;
    return tideT_native_nodes(h, nat, parent, ips, n, is_cut);
}

/* A new end of walks at a place; NULL: no memory. */
static struct native_end *new_end(struct tide_heap *h, struct tide_native *nat,
                                  uint32_t at, uint32_t parent, uintptr_t fn,
                                  bool is_cut)
{
    struct native_end *end = tideC_mem_alloc(&h->mem, sizeof *end);
    if (end == NULL)
        return NULL;
    const uint32_t n = frames_until(nat, &nat->places[at], fn);
    const uint32_t n_forgotten = nat->n_forgotten;
    end->site.parent = parent;
    end->site.node =
        node_of(h, nat, at, parent, n, is_cut && n == nat->places[at].depth);
    if (nat->n_forgotten != n_forgotten) { /* the place is gone */
        tideC_mem_free(&h->mem, end, sizeof *end);
        return NULL;
    }
    end->next = nat->places[at].ends;
    nat->places[at].ends = end;
    nat->bytes += sizeof *end;
    return end;
}

static struct native_end *find_end(struct tide_heap *h, struct tide_native *nat,
                                   uint32_t at, uint32_t parent, uintptr_t fn,
                                   bool is_cut)
{
    struct native_end *end = nat->places[at].ends;
    while (end != NULL && end->site.parent != parent)
        end = end->next;
    return TIDE_LIKELY(end != NULL) ? end
                                    : new_end(h, nat, at, parent, fn, is_cut);
}

bool tideT_native_wants(const struct tide_heap *h, uint32_t parent,
                        const void *fn)
{
    if (h->native == NULL ||
        tideT_unwind_is_vm(h->native->unwind, (uintptr_t)fn))
        return false;
    if (h->session->options.native == TIDE_NATIVE_ON)
        return true;
    for (; parent != 0; parent = h->nodes[parent].parent) {
        const uint8_t what = h->funcs[h->nodes[parent].func].what;
        if (what == TIDE_P_LUA || what == TIDE_P_MAIN ||
            what == TIDE_P_OTHER_CHUNKS)
            return false;
    }
    return true;
}

void tideT_native_place(struct tide_heap *h, const uintptr_t *words)
{
    struct tide_native *nat = h->native;
    struct tide_site *at = h->site;
    const struct tide_cframe from = {
        .ip = words[TIDE_WORD_RA],
        .sp = (uintptr_t)&words[TIDE_WORD_RA + 1],
        .fp = words[TIDE_WORD_FP],
    };
    tide_assert(at->node < h->n_nodes && tideT_is_native(at));
    const uintptr_t fn = tideT_native_at(at->at);
    bool is_cut = false;
    uint32_t i = 0;
    if (TIDE_UNLIKELY(nat->bytes > PATHS_BYTES))
        tideT_native_forget_all(h, nat);
    for (uint32_t n_tries = 0; i == 0 && n_tries < 3; n_tries++)
        i = walk(h, nat, from, fn, &is_cut);
    struct native_end *end =
        i == 0 ? NULL : find_end(h, nat, i, at->node, fn, is_cut);
    h->site = end != NULL ? &end->site : at;
    h->cur_L = TIDE_NATIVE_L; /* the next one may have another path */
}
