/*
** reader_cells.c: the cells of a heap, and what is kept beside them.
**
** Cells are most of a profile.  Whoever opens it whole has them in memory;
** whoever opens it lean has them checked and read from the file, in chunks,
** as often as they are wanted.  The checks are the same: cells whose node and
** kind are not there are left out, and chains have to be exactly the cells of
** their node.
*/
#include "reader_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/assert.h"

#define CHUNK_CELLS 2048u

/* What the check of chains takes of a cell. */
struct link {
    uint32_t node;
    uint32_t next;
    uint32_t kind;
};

struct links {
    struct link *at; /* of cells that are kept */
    uint8_t *seen;   /* bits */
    uint32_t n;
};

/* ---- chains ---- */

/* What is to be said of a chain that is not just the cells of its node. */
enum chain_state {
    CHAIN_GOOD = 0,
    CHAIN_OUTSIDE, /* goes on among cells that are not there, or not yet */
    CHAIN_RING,    /* comes back to a cell seen before */
    CHAIN_FOREIGN, /* has a cell of another node */
    CHAIN_TWICE,   /* has two cells of one kind */
};

/* Walks one chain and adds the cells seen to *n_seen. */
static enum chain_state walk_chain(const struct tide_check *check,
                                   const struct links *links, uint32_t node,
                                   uint32_t *n_seen)
{
    uint32_t kinds = 0;
    uint32_t c = check->heap->nodes[node].first_cell;
    for (; c != TIDE_P_NONE; c = links->at[c].next) {
        if (c >= links->n)
            return CHAIN_OUTSIDE;
        if (links->at[c].node != node)
            return CHAIN_FOREIGN;
        if (tideP_get_mark(links->seen, c))
            return CHAIN_RING;
        if ((kinds >> links->at[c].kind & 1) != 0)
            return CHAIN_TWICE;
        kinds |= 1u << links->at[c].kind;
        tideP_set_mark(links->seen, c);
        ++*n_seen;
    }
    return CHAIN_GOOD;
}

/* While a profile is being written only some of it is a fault. */
static void report_chain(struct tide_check *check, uint32_t node,
                         enum chain_state state)
{
    static const char *const texts[] = {
        [CHAIN_OUTSIDE] = "its chain leads outside",
        [CHAIN_RING] = "its chain is a ring",
        [CHAIN_FOREIGN] = "its chain has a cell of another node",
        [CHAIN_TWICE] = "has two cells of one kind",
    };
    if (check->profile->is_closed || state >= CHAIN_FOREIGN)
        tideP_fault(check, node * sizeof(struct tide_p_node), "node", node,
                    texts[state]);
}

static void report_loose_cell(struct tide_check *check,
                              const struct links *links)
{
    for (uint32_t c = 1; c < links->n; c++)
        if (!tideP_get_mark(links->seen, c))
            tideP_fault(check, c * sizeof(struct tide_p_cell), "cell", c,
                        "is in no chain");
}

/* True when the chains are exactly the cells of their nodes. */
static bool are_chains_good(struct tide_check *check, const struct links *links)
{
    uint32_t n_seen = 1;
    bool is_good = true;
    const struct tide_map cells_map = check->map;
    check->map =
        tideP_map_find(check->profile, check->heap->number, TIDE_P_NODES);
    for (uint32_t i = 0; i < check->heap->view.n_nodes; i++) {
        const enum chain_state state = walk_chain(check, links, i, &n_seen);
        if (state == CHAIN_GOOD)
            continue;
        report_chain(check, i, state);
        is_good = false;
    }
    check->map = cells_map;
    if (is_good && n_seen != links->n && check->profile->is_closed)
        report_loose_cell(check, links);
    return is_good && n_seen == links->n;
}

/* Cells that are not in memory are in no chain. */
static void chain_anew(struct tide_loaded *heap)
{
    for (uint32_t i = 0; i < heap->view.n_nodes; i++)
        heap->nodes[i].first_cell = TIDE_P_NONE;
    if (heap->cells == NULL)
        return;
    for (uint32_t c = heap->view.n_cells; c-- > 1;) {
        struct tide_p_node *node = &heap->nodes[heap->cells[c].node];
        heap->cells[c].next = node->first_cell;
        node->first_cell = c;
    }
}

/* ---- one after the other ---- */

/* Where a walk over the cells in the file is. */
struct walk {
    struct tide_check *check;
    struct tide_map cells_map;
    struct tide_map rests_map;
    struct tide_sides sides;
    uint32_t index; /* of the next cell that is kept */
    bool is_first;  /* faults are told, n_kept is not known yet */
};

/* One cell that is kept, and what stands beside it; valid during the call. */
struct walked {
    uint32_t index;
    struct tide_cell cell;
    const struct tide_p_life *life;
    const struct tide_p_floor *floor;
    bool has_floor;
};

typedef enum tide_err (*walked_fn)(void *ctx, const struct walked *walked);

static const char *cell_fault_or_null(const struct tide_p_view *view,
                                      const struct tide_p_cell *cell)
{
    if (cell->node >= view->n_nodes)
        return "no such node";
    if (cell->kind >= TIDE_KIND_COUNT_)
        return "unknown kind";
    return NULL;
}

static bool is_below_zero(const struct tide_cell *cell)
{
    return (int64_t)tideP_cell_live_bytes(cell) < 0 ||
           (int64_t)tideP_cell_live_blocks(cell) < 0;
}

/*
** A profile that is being written has counted on between the reading of rests
** and of cells: looks at both of them again, at once.
*/
static void look_again(const struct walk *walk, uint32_t index,
                       const struct tide_p_life *life, struct tide_cell *out)
{
    struct tide_p_cell cell;
    struct tide_p_rest rest = {0};
    if (tideP_map_read_at(&walk->cells_map, index * sizeof cell, &cell,
                          sizeof cell) != sizeof cell ||
        cell.node != out->node || cell.kind != out->kind)
        return;
    if (cell.rest != 0 &&
        tideP_map_read_at(&walk->rests_map, cell.rest * sizeof rest, &rest,
                          sizeof rest) != sizeof rest)
        return;
    tideP_side_join(&cell, &rest, life, out);
}

/* Cell `index` of the file; false: it belongs nowhere. */
static bool walk_cell(struct walk *walk, const struct tide_p_cell *cell,
                      uint32_t index, struct walked *out)
{
    struct tide_check *check = walk->check;
    const char *text = cell_fault_or_null(&check->heap->view, cell);
    const bool is_kept = text == NULL;
    if (is_kept) {
        struct tide_sides *s = &walk->sides;
        const uint32_t rest =
            tideP_side_take(s, TIDE_SIDE_REST, cell->rest, &text);
        out->life = tideP_side_life(
            s, tideP_side_take(s, TIDE_SIDE_LIFE, cell->life, &text));
        const uint32_t floor =
            tideP_side_take(s, TIDE_SIDE_FLOOR, cell->floor, &text);
        out->floor = tideP_side_floor(s, floor);
        out->has_floor = floor != 0;
        out->index = walk->index++;
        tideP_side_join(cell, tideP_side_rest(s, rest), out->life, &out->cell);
        if (!check->profile->is_closed && is_below_zero(&out->cell))
            look_again(walk, index, out->life, &out->cell);
        if (!check->profile->is_closed)
            text = NULL; /* it may lead to what is newer than what was read */
    }
    if (text != NULL && walk->is_first)
        tideP_fault(check, index * sizeof *cell, "cell", index, text);
    return is_kept;
}

/* How many of n records can be read from `first` on; at most a chunk. */
static uint32_t read_chunk(const struct tide_map *map, struct tide_p_cell *out,
                           uint32_t first, uint32_t n)
{
    if (n > CHUNK_CELLS)
        n = CHUNK_CELLS;
    return (uint32_t)(tideP_map_read_at(map, (uint64_t)first * sizeof *out, out,
                                        n * sizeof *out) /
                      sizeof *out);
}

/* Calls fn for cells up to n; *n gets how many could be read. */
static enum tide_err walk_cells(struct walk *walk, struct tide_p_cell *chunk,
                                uint32_t *n, walked_fn fn, void *ctx)
{
    const struct tide_p_view *view = &walk->check->heap->view;
    struct walked walked;
    uint32_t first = 0, got;
    do {
        got = read_chunk(&walk->cells_map, chunk, first, *n - first);
        for (uint32_t i = first == 0 ? 1 : 0; i < got; i++) {
            if (!walk->is_first && walk->index >= view->n_cells)
                return TIDE_OK;
            if (walk_cell(walk, &chunk[i], first + i, &walked))
                TIDE_TRY(fn(ctx, &walked));
        }
        first += got;
    } while (got > 0 && first < *n);
    *n = first;
    return TIDE_OK;
}

static enum tide_err walk_file(struct tide_check *check, unsigned with_records,
                               bool is_first, uint32_t *n, walked_fn fn,
                               void *ctx)
{
    const struct tide_profile *profile = check->profile;
    const uint32_t number = check->heap->number;
    struct walk walk = {
        .check = check,
        .cells_map = tideP_map_find(profile, number, TIDE_P_CELLS),
        .rests_map = tideP_map_find(profile, number, TIDE_P_RESTS),
        .index = 1,
        .is_first = is_first,
    };
    struct tide_p_cell *chunk =
        malloc((*n < CHUNK_CELLS ? *n + 1 : CHUNK_CELLS) * sizeof *chunk);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (chunk != NULL)
        err = tideP_sides_open(check, with_records, &walk.sides);
    check->map = walk.cells_map;
    if (err == TIDE_OK)
        err = walk_cells(&walk, chunk, n, fn, ctx);
    tideP_sides_close(&walk.sides);
    free(chunk);
    return err;
}

/* ---- loading ---- */

struct load {
    struct tide_loaded *heap;
    struct links links;
};

static enum tide_err take_cell(void *ctx, const struct walked *walked)
{
    struct load *load = ctx;
    struct tide_loaded *heap = load->heap;
    const struct tide_cell *cell = &walked->cell;
    const uint32_t i = walked->index;
    tide_assert_internal(i == load->links.n);
    heap->view.alloc_bytes += cell->alloc_bytes;
    heap->view.freed_bytes += cell->freed_bytes + cell->closed_bytes;
    load->links.at[i] = (struct link){cell->node, cell->next, cell->kind};
    load->links.n++;
    if (heap->cells != NULL)
        heap->cells[i] = *cell;
    if (heap->lives != NULL)
        heap->lives[i] = *walked->life;
    if (heap->floors != NULL)
        heap->floors[i] = *walked->floor;
    return TIDE_OK;
}

/* Room for n cells with their lives and floors, if there are any. */
static enum tide_err make_room(struct tide_check *check, uint32_t n)
{
    struct tide_loaded *heap = check->heap;
    const size_t room = (size_t)n + 1;
    if (check->profile->is_lean)
        return TIDE_OK;
    heap->cells = calloc(room, sizeof *heap->cells);
    TIDE_FAIL_IF(heap->cells == NULL, TIDE_ERR_NOMEM);
    if (heap->head.n_lives > 1) {
        heap->lives = calloc(room, sizeof *heap->lives);
        TIDE_FAIL_IF(heap->lives == NULL, TIDE_ERR_NOMEM);
    }
    if (heap->head.n_floors > 1) {
        heap->floors = calloc(room, sizeof *heap->floors);
        TIDE_FAIL_IF(heap->floors == NULL, TIDE_ERR_NOMEM);
    }
    return TIDE_OK;
}

static enum tide_err load_into(struct tide_check *check, struct load *load)
{
    struct tide_loaded *heap = check->heap;
    struct links *links = &load->links;
    const unsigned all = (1u << TIDE_SIDE_COUNT_) - 1;
    uint32_t n = heap->head.n_cells;
    tideP_count_records(check, TIDE_P_CELLS, "cells", &n,
                        sizeof(struct tide_p_cell));
    const uint32_t want = n;
    TIDE_TRY(make_room(check, n));
    links->at = malloc(((size_t)n + 1) * sizeof *links->at);
    links->seen = calloc(n / 8 + 1, 1);
    TIDE_FAIL_IF(links->at == NULL || links->seen == NULL, TIDE_ERR_NOMEM);
    links->n = 1;
    TIDE_TRY(walk_file(check,
                       check->profile->is_lean ? 1u << TIDE_SIDE_REST : all,
                       true, &n, take_cell, load));
    tideP_note_missing(check, "cells", n, want, sizeof(struct tide_p_cell));
    heap->n_in_file = n;
    heap->view.n_cells = links->n;
    const bool is_good = links->n >= n && are_chains_good(check, links);
    if (!is_good || check->profile->is_lean)
        chain_anew(heap);
    return TIDE_OK;
}

enum tide_err tideP_load_cells(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    struct load load = {.heap = heap};
    const enum tide_err err = load_into(check, &load);
    free(load.links.at);
    free(load.links.seen);
    struct tide_p_view *view = &heap->view;
    view->cells = heap->cells;
    view->lives = heap->lives;
    view->floors = heap->floors;
    view->n_lives = heap->head.n_lives > 1 ? view->n_cells : 0;
    view->n_floors = heap->head.n_floors > 1 ? view->n_cells : 0;
    view->n_columns = heap->head.n_columns < TIDE_P_FLOORS
                          ? heap->head.n_columns
                          : TIDE_P_FLOORS;
    return err;
}

/* ---- reading again ---- */

/* What a later walk calls: of cells, or of floors. */
struct giver {
    tide_p_cell_fn cell_fn;
    tide_p_floor_fn floor_fn;
    void *ctx;
};

static enum tide_err give_cell(void *ctx, const struct walked *walked)
{
    const struct giver *giver = ctx;
    return giver->cell_fn(giver->ctx, walked->index, &walked->cell,
                          walked->life);
}

static enum tide_err give_floor(void *ctx, const struct walked *walked)
{
    const struct giver *giver = ctx;
    if (walked->has_floor)
        giver->floor_fn(giver->ctx, walked->index, walked->floor);
    return TIDE_OK;
}

/* Every cell that was there has to be there still: IO. */
static enum tide_err walk_again(const struct tide_profile *profile,
                                uint32_t heap, unsigned with_records,
                                walked_fn fn, struct giver *giver)
{
    struct tide_loaded again = profile->heaps[heap]; /* problems: nobody's */
    struct tide_check check = {.profile = profile, .heap = &again};
    uint32_t n = again.n_in_file;
    TIDE_TRY(walk_file(&check, with_records, false, &n, fn, giver));
    return n < again.n_in_file ? TIDE_ERR_IO : TIDE_OK;
}

enum tide_err tideP_reader_each_cell(const struct tide_profile *profile,
                                     uint32_t heap, tide_p_cell_fn fn,
                                     void *ctx)
{
    static const struct tide_p_life none;
    tide_assert(heap < profile->n_heaps);
    const struct tide_p_view *view = &profile->heaps[heap].view;
    struct giver giver = {.cell_fn = fn, .ctx = ctx};
    if (view->cells == NULL)
        return walk_again(profile, heap,
                          1u << TIDE_SIDE_REST | 1u << TIDE_SIDE_LIFE,
                          give_cell, &giver);
    for (uint32_t i = 1; i < view->n_cells; i++)
        TIDE_TRY(fn(ctx, i, &view->cells[i],
                    i < view->n_lives ? &view->lives[i] : &none));
    return TIDE_OK;
}

static bool has_floor(const struct tide_p_floor *floor)
{
    for (uint32_t k = 0; k < TIDE_P_FLOORS; k++)
        if (floor->at[k] != 0)
            return true;
    return false;
}

enum tide_err tideP_reader_each_floor(const struct tide_profile *profile,
                                      uint32_t heap, tide_p_floor_fn fn,
                                      void *ctx)
{
    tide_assert(heap < profile->n_heaps);
    const struct tide_p_view *view = &profile->heaps[heap].view;
    struct giver giver = {.floor_fn = fn, .ctx = ctx};
    if (view->floors == NULL && view->n_floors > 0)
        return walk_again(profile, heap, 1u << TIDE_SIDE_FLOOR, give_floor,
                          &giver);
    for (uint32_t i = 1; i < view->n_floors; i++)
        if (has_floor(&view->floors[i]))
            fn(ctx, i, &view->floors[i]);
    return TIDE_OK;
}

void tideP_reader_drop_nodes(struct tide_profile *profile, uint32_t heap)
{
    tide_assert(heap < profile->n_heaps);
    if (!profile->is_lean)
        return;
    free(profile->heaps[heap].nodes);
    profile->heaps[heap].nodes = NULL;
    profile->heaps[heap].view.nodes = NULL;
}
