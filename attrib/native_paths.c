/*
** native_paths.c: the tables that walks of C frames go by.
**
** Rules lead from a return address to the caller's; paths, looked up by their
** hash, lead from a node and a list of return addresses to the node of the
** innermost.  All grow up to a limit; then, or when a rule no longer holds,
** what is known is forgotten and learnt anew: functions and nodes stay.
*/
#include <string.h>

#include "../common/hash.h"
#include "../common/mem.h"
#include "native_impl.h"

#define RULES_MAX 16384u

static size_t path_bytes(uint32_t n)
{
    return sizeof(struct native_path) + n * sizeof(uintptr_t);
}

static void forget_paths(struct tide_heap *h, struct tide_native *nat)
{
    for (uint32_t i = 0; i <= nat->path_mask; i++) {
        struct native_path *path = nat->paths[i];
        if (path != NULL)
            tideC_mem_free(&h->mem, path, path_bytes(path->n));
        nat->paths[i] = NULL;
    }
    nat->n_paths = 0;
}

static void forget_places(struct tide_heap *h, struct tide_native *nat)
{
    for (uint32_t i = 1; i < nat->n_places; i++) {
        struct native_end *end = nat->places[i].ends;
        while (end != NULL) {
            struct native_end *next = end->next;
            tideC_mem_free(&h->mem, end, sizeof *end);
            end = next;
        }
    }
    memset(nat->roots, 0, sizeof nat->roots);
    nat->n_places = 1;
}

void tideT_native_forget_all(struct tide_heap *h, struct tide_native *nat)
{
    memset(nat->rules, 0, ((size_t)nat->rule_mask + 1) * sizeof *nat->rules);
    nat->n_rules = 0;
    if (h->cur_L == TIDE_NATIVE_L) { /* it may be one of those that go */
        h->site = &h->root_site;
        h->cur_L = NULL;
        h->parts_left = 0;
    }
    forget_paths(h, nat);
    forget_places(h, nat);
    nat->bytes = 0;
    nat->n_forgotten++;
}

void tideT_native_forget(struct tide_heap *h)
{
    if (h->native != NULL)
        tideT_native_forget_all(h, h->native);
}

/* ---- rules ---- */

static bool grow_rules(struct tide_heap *h, struct tide_native *nat)
{
    const uint32_t n_old = nat->rule_mask + 1;
    struct tide_rule *old = nat->rules;
    struct tide_rule *new = tideC_mem_alloc(&h->mem, 2 * n_old * sizeof *new);
    if (new == NULL)
        return false;
    nat->rules = new;
    nat->rule_mask = 2 * n_old - 1;
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].ip != 0)
            new[native_rule_place(nat, old[i].ip)] = old[i];
    tideC_mem_free(&h->mem, old, n_old * sizeof *old);
    return true;
}

TIDE_NOINLINE struct tide_rule *
tideT_native_rule(struct tide_heap *h, struct tide_native *nat, uintptr_t ip)
{
    if (nat->rules[native_rule_place(nat, ip)].ip != 0 ||
        nat->n_rules == RULES_MAX)
        tideT_native_forget_all(h, nat);
    if ((nat->n_rules + 1) * 2 > nat->rule_mask && !grow_rules(h, nat))
        tideT_native_forget_all(h, nat);
    struct tide_rule *rule = &nat->rules[native_rule_place(nat, ip)];
    tideT_unwind_rule(nat->unwind, ip, rule);
    if (rule->how == TIDE_RULE_END && rule->start == 0)
        rule->code = 0; /* no code of any object: not to be read */
    else
        rule->code = native_code(ip);
    nat->n_rules++;
    return rule;
}

/* ---- nodes ---- */

static uint32_t func_of(struct tide_heap *h, struct tide_native *nat,
                        uintptr_t ip)
{
    struct tide_rule *rule = native_rule_of(h, nat, ip);
    if (rule->func == 0)
        rule->func = tideT_func_native(h, ip, rule->start);
    return rule->func;
}

static uint32_t deeper_node(struct tide_heap *h, struct tide_native *nat,
                            uint32_t parent)
{
    if (nat->deeper == 0)
        nat->deeper = tideT_func_special(h, TIDE_P_NATIVE, "[deeper]");
    return tideT_child(h, parent, nat->deeper, 0);
}

uint32_t tideT_native_nodes(struct tide_heap *h, struct tide_native *nat,
                            uint32_t parent, const uintptr_t *ips, uint32_t n,
                            bool is_cut)
{
    uint32_t node = is_cut ? deeper_node(h, nat, parent) : parent;
    for (uint32_t i = n; i-- > 0;) {
        const uint32_t func = func_of(h, nat, ips[i]);
        if (func != 0)
            node = tideT_child(h, node, func, 0);
    }
    return node;
}

/* ---- paths ---- */

TIDE_INLINE bool is_path(const struct native_path *path, uint64_t hash,
                         uint32_t parent, const uintptr_t *ips, uint32_t n)
{
    if (path->hash != hash || path->parent != parent || path->n != n)
        return false;
    uint32_t i = 0;
    while (i < n && path->ips[i] == ips[i])
        i++;
    return i == n;
}

TIDE_INLINE struct native_path **path_slot(const struct tide_native *nat,
                                           uint64_t hash, uint32_t parent,
                                           const uintptr_t *ips, uint32_t n)
{
    uint32_t i = (uint32_t)hash & nat->path_mask;
    while (nat->paths[i] != NULL &&
           !is_path(nat->paths[i], hash, parent, ips, n))
        i = (i + 1) & nat->path_mask;
    return &nat->paths[i];
}

static bool grow_paths(struct tide_heap *h, struct tide_native *nat)
{
    const uint32_t n_old = nat->path_mask + 1;
    struct native_path **old = nat->paths;
    struct native_path **new =
        tideC_mem_alloc(&h->mem, 2 * n_old * sizeof *new);
    if (new == NULL)
        return false;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i] == NULL)
            continue;
        uint32_t at = (uint32_t)old[i]->hash & (2 * n_old - 1);
        while (new[at] != NULL)
            at = (at + 1) & (2 * n_old - 1);
        new[at] = old[i];
    }
    tideC_mem_free(&h->mem, old, n_old * sizeof *old);
    nat->paths = new;
    nat->path_mask = 2 * n_old - 1;
    return true;
}

/* Room for one more of so many bytes. */
static struct native_path *new_path(struct tide_heap *h,
                                    struct tide_native *nat, size_t bytes)
{
    if (nat->bytes + bytes > PATHS_BYTES)
        tideT_native_forget_all(h, nat);
    if ((nat->n_paths + 1) * 2 > nat->path_mask && !grow_paths(h, nat))
        tideT_native_forget_all(h, nat);
    return tideC_mem_alloc(&h->mem, bytes);
}

uint32_t tideT_native_path(struct tide_heap *h, struct tide_native *nat,
                           uint32_t parent, const uintptr_t *ips, uint32_t n,
                           bool is_cut)
{
    tide_assert(n <= DEPTH_MAX && parent < h->n_nodes);
    const uint64_t hash = tideC_hash_bytes(ips, n * sizeof *ips) ^
                          (uint64_t)parent * UINT64_C(0x9e3779b97f4a7c15);
    struct native_path **slot = path_slot(nat, hash, parent, ips, n);
    if (TIDE_LIKELY(*slot != NULL))
        return (*slot)->node;
    const uint32_t node = tideT_native_nodes(h, nat, parent, ips, n, is_cut);
    struct native_path *path = new_path(h, nat, path_bytes(n));
    if (path == NULL)
        return node;
    path->hash = hash;
    path->parent = parent;
    path->node = node;
    path->n = n;
    memcpy(path->ips, ips, n * sizeof *ips);
    *path_slot(nat, hash, parent, ips, n) = path;
    nat->n_paths++;
    nat->bytes += path_bytes(n);
    return node;
}
