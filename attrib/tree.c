/*
** tree.c: the calling context tree.
**
** Nodes are (parent, function, line), as in Ammons, Ball and Larus, "Exploiting
** hardware performance counters with flow and context sensitive profiling"
** (PLDI 1997), where recursion folds into the nearest ancestor of the same
** procedure.  That rule loses frames where dispatchers repeat (everything
** below the second pcall would hang below the first), so here a Lua function
** folds into an ancestor of its own only when every function between the two
** is on the path from the root to that ancestor already.  C functions never
** fold.
**
** A table of edges maps (parent, function, line) to the node, folded or not.
** When the tree has reached its limit, new places hang below "[other stacks]"
** with their function and line alone.
*/
#include <string.h>

#include "../common/hash.h"
#include "tree.h"

#define FIRST_EDGES  256u
#define OVERFLOW_MAX 65536u /* places kept below "[other stacks]" */

static uint32_t edge_place(const struct tide_heap *h, uint32_t parent,
                           uint32_t func, uint32_t line)
{
    uint32_t i = (uint32_t)tideC_hash_three(parent, func, line) & h->edge_mask;
    for (;; i = (i + 1) & h->edge_mask) {
        const struct tide_edge *e = &h->edges[i];
        if (e->node == 0 ||
            (e->parent == parent && e->func == func && e->line == line))
            return i;
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
    for (uint32_t i = 0; i < n_old; i++)
        if (old[i].node != 0)
            e[edge_place(h, old[i].parent, old[i].func, old[i].line)] = old[i];
    tideC_mem_free(&h->mem, old, n_old * sizeof *old);
    return true;
}

bool tideT_tree_open(struct tide_heap *h)
{
    h->n_nodes = 1; /* the root: zero-filled, its own parent, function 0 */
    h->n_cells = 1; /* none */
    h->cells[0].kind = UINT8_MAX;
    TIDE_PUBLISH(&h->head->n_nodes, 1);
    TIDE_PUBLISH(&h->head->n_cells, 1);
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

static bool is_lua(const struct tide_heap *h, uint32_t func)
{
    return h->funcs[func].what == TIDE_P_LUA ||
           h->funcs[func].what == TIDE_P_MAIN;
}

static bool is_on_path(const struct tide_heap *h, uint32_t node, uint32_t func)
{
    for (; node != 0; node = h->nodes[node].parent)
        if (h->nodes[node].func == func)
            return true;
    return false;
}

/* The parent that a folded activation hangs below; `parent` if it does not. */
static uint32_t fold(const struct tide_heap *h, uint32_t parent, uint32_t func)
{
    if (!is_lua(h, func))
        return parent;
    uint32_t a = parent;
    while (a != 0 && h->nodes[a].func != func)
        a = h->nodes[a].parent;
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
    uint32_t i = edge_place(h, parent, func, line);
    if (h->edges[i].node != 0)
        return h->edges[i].node;
    const uint32_t node = make_child(h, parent, func, line);
    if (node == 0)
        return other_stacks(h);
    if (h->n_edges * 4 >= h->edge_mask * 3 && !grow_edges(h) &&
        h->n_edges + 1 >= h->edge_mask)
        return node; /* not remembered, but right */
    i = edge_place(h, parent, func, line);
    h->edges[i] = (struct tide_edge){parent, func, line, node};
    h->n_edges++;
    return node;
}

static bool is_watched(enum tide_kind kind)
{
    return kind == TIDE_KIND_THREAD || kind == TIDE_KIND_PROTO ||
           kind == TIDE_KIND_CALLINFO || kind == TIDE_KIND_STACK ||
           kind == TIDE_KIND_CODE || kind == TIDE_KIND_BUFFER;
}

/* A new record at the end of the node's list; 0: no memory. */
static uint32_t new_cell(struct tide_heap *h, uint32_t node,
                         enum tide_kind kind)
{
    struct tide_section *s = &h->sections[TIDE_P_CELLS];
    const uint32_t i = h->n_cells;
    tide_assert(node < h->n_nodes && kind < TIDE_KIND_COUNT_);
    if (tideP_section_reserve(h->writer, s,
                              ((size_t)i + 1) * sizeof *h->cells) != TIDE_OK)
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
