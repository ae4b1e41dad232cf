/*
** tree.c: the calling context tree.
**
** Nodes are (parent, function, line), as in Ammons, Ball and Larus, "Exploiting
** hardware performance counters with flow and context sensitive profiling"
** (PLDI 1997), where recursion folds into the nearest ancestor of the same
** procedure.  That rule loses frames where dispatchers repeat (everything
** below the second pcall would hang below the first), so here a Lua function
** folds into an ancestor of its own only when every function between the two
** is on the path from the root to that ancestor already, and when the same
** group or region owns both.  C functions never fold.
**
** A table of edges maps (parent, function, line) to the node, folded or not, by
** eight bytes for each: what the three are stands in the node.
** When the tree has reached its limit, new places hang below "[other stacks]"
** with their function and line alone.
*/
#include <string.h>

#include "../common/hash.h"
#include "tree.h"

#define FIRST_EDGES  256u
#define FIRST_FOLDS  64u
#define OVERFLOW_MAX 65536u /* places kept below "[other stacks]" */

/* What an edge leads from and to. */
struct key {
    uint32_t parent;
    uint32_t func;
    uint32_t line;
    uint32_t hash;
};

static struct key key_of(uint32_t parent, uint32_t func, uint32_t line)
{
    return (struct key){parent, func, line,
                        (uint32_t)tideC_hash_three(parent, func, line)};
}

/* Where an edge that is in use comes from. */
static uint32_t parent_of(const struct tide_heap *h, const struct tide_edge *e)
{
    return (e->node & TIDE_EDGE_FOLDED) != 0
               ? h->folds[e->node & ~TIDE_EDGE_FOLDED].parent
               : h->nodes[e->node].parent;
}

/* Where it leads to; 0: it is not in use. */
static uint32_t node_of(const struct tide_heap *h, const struct tide_edge *e)
{
    return (e->node & TIDE_EDGE_FOLDED) != 0
               ? h->folds[e->node & ~TIDE_EDGE_FOLDED].node
               : e->node;
}

static bool is_edge(const struct tide_heap *h, const struct tide_edge *e,
                    const struct key *key)
{
    const struct tide_p_node *node = &h->nodes[node_of(h, e)];
    return node->func == key->func && node->line == key->line &&
           parent_of(h, e) == key->parent;
}

static struct tide_edge *edge_place(const struct tide_heap *h,
                                    const struct key *key)
{
    uint32_t i = key->hash & h->edge_mask;
    for (;; i = (i + 1) & h->edge_mask) {
        struct tide_edge *e = &h->edges[i];
        if (e->node == 0 || (e->hash == key->hash && is_edge(h, e, key)))
            return e;
    }
}

static bool grow_edges(struct tide_heap *h)
{
    struct tide_edge *old = h->edges;
    const uint32_t n_old = old == NULL ? 0 : h->edge_mask + 1;
    const uint32_t n_new = n_old == 0 ? FIRST_EDGES : n_old * 2;
    struct tide_edge *e = tideC_mem_alloc(&h->mem, n_new * sizeof *e);
    if (e == NULL)
        return false;
    tide_assert(h->n_edges <= n_old);
    h->edges = e;
    h->edge_mask = n_new - 1;
    for (uint32_t i = 0; i < n_old; i++) {
        if (old[i].node == 0)
            continue;
        uint32_t k = old[i].hash & h->edge_mask;
        while (e[k].node != 0)
            k = (k + 1) & h->edge_mask;
        e[k] = old[i];
    }
    tideC_mem_free(&h->mem, old, n_old * sizeof *old);
    return true;
}

/* A fold's number with TIDE_EDGE_FOLDED; 0: no memory. */
static uint32_t new_fold(struct tide_heap *h, uint32_t parent, uint32_t node)
{
    if (h->n_folds >= h->max_folds) {
        const uint32_t max = h->max_folds == 0 ? FIRST_FOLDS : h->max_folds * 2;
        void *folds =
            tideC_mem_grow(&h->mem, h->folds, h->max_folds * sizeof *h->folds,
                           max * sizeof *h->folds);
        if (folds == NULL)
            return 0;
        h->folds = folds;
        h->max_folds = max;
    }
    h->folds[h->n_folds] = (struct tide_fold){parent, node};
    return h->n_folds++ | TIDE_EDGE_FOLDED;
}

/* Remembers where an edge leads to, if there is memory for that. */
static void put_edge(struct tide_heap *h, const struct key *key, uint32_t node)
{
    if (h->n_edges * 4 >= h->edge_mask * 3 && !grow_edges(h) &&
        h->n_edges + 1 >= h->edge_mask)
        return;
    const struct tide_p_node *to = &h->nodes[node];
    if (to->func != key->func || to->line != key->line)
        return; /* it stands for others as well: the tree is full */
    const uint32_t leads_to =
        to->parent == key->parent ? node : new_fold(h, key->parent, node);
    if (leads_to == 0)
        return;
    struct tide_edge *e = edge_place(h, key);
    if (e->node == 0)
        h->n_edges++;
    *e = (struct tide_edge){key->hash, leads_to};
}

bool tideT_tree_open(struct tide_heap *h)
{
    /* the root: its own parent, function 0; written, or the first look at it
       would bring all of the section into memory */
    h->nodes[0] = (struct tide_p_node){0};
    h->n_nodes = 1;
    h->n_cells = 1; /* none */
    h->cells[0].kind = UINT8_MAX;
    TIDE_PUBLISH(&h->head->n_nodes, 1);
    TIDE_PUBLISH(&h->head->n_cells, 1);
    TIDE_PUBLISH(&h->head->n_rests, 1);
    TIDE_PUBLISH(&h->head->n_lives, 1);
    TIDE_PUBLISH(&h->head->n_floors, 1);
    return (h->edges != NULL || grow_edges(h)) &&
           tideT_cell(h, 0, TIDE_KIND_OTHER) != 0;
}

/* A new record; 0: no memory. */
static uint32_t new_node(struct tide_heap *h, uint32_t parent, uint32_t func,
                         uint32_t line)
{
    struct tide_section *s = &h->sections[TIDE_P_NODES];
    const uint32_t i = h->n_nodes;
    tide_assert(parent < i && func < h->n_funcs);
    if (tideP_section_reserve(h->writer, s,
                              ((size_t)i + 1) * sizeof *h->nodes) != TIDE_OK)
        return 0;
    struct tide_p_node *node = &h->nodes[i];
    node->parent = parent;
    node->func = func;
    node->line = line;
    h->n_nodes = i + 1;
    TIDE_PUBLISH(&h->head->n_nodes, h->n_nodes);
    return i;
}

/* Recursion of it is to fold: Lua functions, and places in machine code. */
static bool folds(const struct tide_heap *h, uint32_t func)
{
    return h->funcs[func].what == TIDE_P_LUA ||
           h->funcs[func].what == TIDE_P_MAIN ||
           h->funcs[func].what == TIDE_P_NATIVE;
}

static bool is_on_path(const struct tide_heap *h, uint32_t node, uint32_t func)
{
    for (; node != 0; node = h->nodes[node].parent)
        if (h->nodes[node].func == func)
            return true;
    return false;
}

/* Does a group or a region own what is made below the function? */
static bool is_owner(const struct tide_heap *h, uint32_t func)
{
    return h->funcs[func].what == TIDE_P_REGION || tideT_is_target(h, func);
}

/* The function that owns what is made at a node; 0: none. */
static uint32_t owner_of(const struct tide_heap *h, uint32_t node)
{
    if (h->targets.pairs == NULL && h->regions.pairs == NULL)
        return 0;
    while (node != 0 && !is_owner(h, h->nodes[node].func))
        node = h->nodes[node].parent;
    return h->nodes[node].func;
}

/*
** The ancestor that an activation may fold into; 0: none.  It must have the
** same owner, or the bytes of one would be another's.
*/
static uint32_t find_earlier(const struct tide_heap *h, uint32_t parent,
                             uint32_t func)
{
    const bool owns = is_owner(h, func);
    const uint32_t owner = owns ? 0 : owner_of(h, parent);
    for (uint32_t a = parent; a != 0; a = h->nodes[a].parent)
        if (h->nodes[a].func == func && (owns || owner_of(h, a) == owner))
            return a;
    return 0;
}

/* The parent that a folded activation hangs below; `parent` if it does not. */
static uint32_t fold(const struct tide_heap *h, uint32_t parent, uint32_t func)
{
    if (!folds(h, func))
        return parent;
    const uint32_t a = find_earlier(h, parent, func);
    if (a == 0)
        return parent;
    for (uint32_t x = parent; x != a; x = h->nodes[x].parent)
        if (!is_on_path(h, a, h->nodes[x].func))
            return parent;
    return h->nodes[a].parent;
}

static uint32_t other_stacks(struct tide_heap *h)
{
    if (h->other_stacks == 0)
        h->other_stacks = new_node(
            h, 0, tideT_func_special(h, TIDE_P_OTHER_STACKS, "[other stacks]"),
            0);
    return h->other_stacks;
}

/* The node for an edge that is new. */
static uint32_t make_child(struct tide_heap *h, uint32_t parent, uint32_t func,
                           uint32_t line)
{
    const uint32_t limit = h->session->options.nodes;
    if (h->n_nodes >= limit) {
        const uint32_t other = other_stacks(h);
        if (parent != other)
            return tideT_child(h, other, func, line);
        return h->n_nodes < limit + OVERFLOW_MAX
                   ? new_node(h, other, func, line)
                   : other;
    }
    const uint32_t folded = fold(h, parent, func);
    tide_assert(folded <= parent);
    if (folded != parent)
        return tideT_child(h, folded, func, line);
    return new_node(h, parent, func, line);
}

uint32_t tideT_child(struct tide_heap *h, uint32_t parent, uint32_t func,
                     uint32_t line)
{
    tide_assert(parent < h->n_nodes && func < h->n_funcs);
    const struct key key = key_of(parent, func, line);
    const struct tide_edge *e = edge_place(h, &key);
    if (e->node != 0)
        return node_of(h, e);
    const uint32_t node = make_child(h, parent, func, line);
    if (node == 0)
        return other_stacks(h);
    put_edge(h, &key, node);
    return node;
}

static bool is_watched(enum tide_kind kind)
{
    return kind == TIDE_KIND_THREAD || kind == TIDE_KIND_PROTO ||
           kind == TIDE_KIND_CALLINFO || kind == TIDE_KIND_STACK ||
           kind == TIDE_KIND_CODE || kind == TIDE_KIND_BUFFER;
}

/* Room for so many cells, and for a rest of each. */
static bool reserve_cells(struct tide_heap *h, size_t n)
{
    struct tide_section *cells = &h->sections[TIDE_P_CELLS];
    struct tide_section *rests = &h->sections[TIDE_P_RESTS];
    return tideP_section_reserve(h->writer, cells, n * sizeof *h->cells) ==
               TIDE_OK &&
           tideP_section_reserve(h->writer, rests, n * sizeof *h->rests) ==
               TIDE_OK;
}

/* A new record at the end of the node's list; 0: no memory. */
static uint32_t new_cell(struct tide_heap *h, uint32_t node,
                         enum tide_kind kind)
{
    const uint32_t i = h->n_cells;
    tide_assert(node < h->n_nodes && kind < TIDE_KIND_COUNT_);
    if (!reserve_cells(h, (size_t)i + 1))
        return 0;
    struct tide_p_cell *cell = &h->cells[i];
    cell->node = node;
    cell->kind = (uint8_t)kind;
    cell->flags = is_watched(kind) ? TIDE_CELL_WATCHED : 0;
    cell->next = h->nodes[node].first_cell;
    h->n_cells = i + 1;
    TIDE_PUBLISH(&h->head->n_cells, h->n_cells);
    TIDE_PUBLISH(&h->nodes[node].first_cell, i);
    return i;
}

uint32_t tideT_cell(struct tide_heap *h, uint32_t node, enum tide_kind kind)
{
    tide_assert(node < h->n_nodes);
    uint32_t i = h->nodes[node].first_cell;
    while (i != 0 && h->cells[i].kind != kind)
        i = h->cells[i].next;
    if (i == 0)
        i = new_cell(h, node, kind);
    /* without memory the root's first cell takes it: the books balance */
    return i != 0 ? i : 1;
}
