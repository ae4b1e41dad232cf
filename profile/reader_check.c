/*
** reader_check.c: the records of one heap, read and checked.
**
** Each check turns what may be anything into what its users may follow blindly:
**
**   strings  up to the first that is malformed
**   funcs    up to the first of an unknown sort; a string that is not there
**            becomes ""
**   nodes    up to the first whose parent or function is not there
**   cells    those whose node and kind are there; chains are made anew when
**            they are not exactly the cells of their node
**   cycles   those whose node and cause are there
**   events   those whose node and sort are there
**   floors   all, or none when there is a cell that is not there
**
** While a profile runs, or after it was killed, a cell may be counted and not
** yet chained: that is no fault.
*/
#include "reader_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../common/assert.h"

/* What stands for a section that is not there. */
static const char no_strings[8];
static const struct tide_p_func no_funcs[1] = {{.what = TIDE_P_ROOT}};
static const struct tide_p_cell no_cells[1];

/* What one check needs. */
struct check {
    const struct tide_profile *profile;
    struct tide_loaded *heap;
    struct tide_map map; /* of the section being checked */
    uint8_t *marks;      /* bits: starts of strings / 4, or cells seen */
};

static void fault(struct check *check, uint64_t offset, const char *what,
                  uint32_t index, const char *text)
{
    tideP_problem(&check->heap->view.problem, TIDE_ERR_FORMAT,
                  tideP_map_offset(&check->map, offset),
                  "heap %" PRIu32 ", %s %" PRIu32 ": %s", check->heap->number,
                  what, index, text);
}

static bool get_mark(const uint8_t *marks, uint32_t i)
{
    return (marks[i / 8] >> (i % 8) & 1) != 0;
}

static void set_mark(uint8_t *marks, uint32_t i)
{
    marks[i / 8] |= (uint8_t)(1u << (i % 8));
}

/*
** Reads as many of n records as the file has.  NULL in *out when there are
** none.
*/
static enum tide_err read_records(struct check *check, enum tide_p_section id,
                                  const char *what, uint32_t *n,
                                  size_t record_bytes, void **out)
{
    const uint32_t want = *n;
    check->map = tideP_map_find(check->profile, check->heap->number, id);
    const uint64_t have = check->map.bytes / record_bytes;
    uint64_t n_read = want < have ? want : have;
    *out = NULL;
    *n = 0;
    if (n_read > 0) {
        *out = malloc((size_t)n_read * record_bytes);
        if (*out == NULL)
            return TIDE_ERR_NOMEM;
        n_read = tideP_map_read(&check->map, *out, n_read * record_bytes) /
                 record_bytes;
    }
    if (n_read == 0) {
        free(*out);
        *out = NULL;
    }
    *n = (uint32_t)n_read;
    if (n_read < want)
        tideP_problem(&check->heap->view.problem, TIDE_ERR_FORMAT,
                      tideP_map_offset(&check->map, n_read * record_bytes),
                      "heap %" PRIu32 ": %" PRIu64 " of %" PRIu32
                      " %s are there",
                      check->heap->number, n_read, want, what);
    return TIDE_OK;
}

/* Length of the string with everything around it; 0 when it is malformed. */
static uint64_t string_extent(const char *strings, uint64_t left_bytes)
{
    uint32_t bytes;
    if (left_bytes < 8)
        return 0;
    memcpy(&bytes, strings, sizeof bytes);
    if (bytes > TIDE_P_STRING_MAX)
        return 0;
    const uint64_t whole = (4u + (uint64_t)bytes + 1u + 3u) & ~(uint64_t)3;
    if (whole > left_bytes || strings[4 + bytes] != '\0')
        return 0;
    return whole;
}

static enum tide_err load_strings(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.string_bytes, offset = 0;
    void *strings;
    TIDE_TRY(read_records(check, TIDE_P_STRINGS, "bytes of strings", &n, 1,
                          &strings));
    heap->strings = strings;
    check->marks = calloc(n / 32 + 1, 1);
    if (check->marks == NULL)
        return TIDE_ERR_NOMEM;
    while (offset < n) {
        const uint64_t bytes =
            string_extent(heap->strings + offset, n - offset);
        const bool is_wrong_first =
            offset == 0 && (bytes != 8 || heap->strings[0] != 0);
        if (bytes == 0 || is_wrong_first) {
            fault(check, offset, "string", offset, "malformed");
            break;
        }
        set_mark(check->marks, offset / 4);
        offset += (uint32_t)bytes;
    }
    tide_assert_internal(offset % 4 == 0);
    heap->view.strings = offset > 0 ? heap->strings : no_strings;
    heap->view.string_bytes = offset > 0 ? offset : sizeof no_strings;
    return TIDE_OK;
}

static bool is_string(const struct check *check, uint32_t offset)
{
    return offset == TIDE_P_NONE ||
           (offset % 4 == 0 && offset < check->heap->view.string_bytes &&
            get_mark(check->marks, offset / 4));
}

static void check_func(struct check *check, uint32_t i)
{
    struct tide_p_func *func = &check->heap->funcs[i];
    if (!is_string(check, func->source)) {
        fault(check, i * sizeof *func, "function", i, "no such source");
        func->source = TIDE_P_NONE;
    }
    if (!is_string(check, func->name)) {
        fault(check, i * sizeof *func, "function", i, "no such name");
        func->name = TIDE_P_NONE;
    }
    if (i == 0 && func->what != TIDE_P_ROOT) {
        fault(check, 0, "function", 0, "is not the root");
        func->what = TIDE_P_ROOT;
    }
}

static enum tide_err load_funcs(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_funcs;
    void *funcs;
    TIDE_TRY(read_records(check, TIDE_P_FUNCS, "functions", &n,
                          sizeof *heap->funcs, &funcs));
    heap->funcs = funcs;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && heap->funcs[i].what >= TIDE_P_WHAT_COUNT_) {
            fault(check, i * sizeof *heap->funcs, "function", i,
                  "unknown sort");
            n = i;
            break;
        }
        check_func(check, i);
    }
    heap->view.funcs = n > 0 ? heap->funcs : no_funcs;
    heap->view.n_funcs = n > 0 ? n : 1;
    return TIDE_OK;
}

static const char *node_fault_or_null(const struct check *check, uint32_t i)
{
    const struct tide_p_node *node = &check->heap->nodes[i];
    if (node->parent >= i)
        return "parent does not come before it";
    if (node->func >= check->heap->view.n_funcs)
        return "no such function";
    return NULL;
}

static enum tide_err load_nodes(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_nodes;
    void *nodes;
    TIDE_TRY(read_records(check, TIDE_P_NODES, "nodes", &n, sizeof *heap->nodes,
                          &nodes));
    /* The root is always there: cells may be chained to it. */
    heap->nodes = n > 0 ? nodes : calloc(1, sizeof *heap->nodes);
    if (heap->nodes == NULL)
        return TIDE_ERR_NOMEM;
    if (n > 0 && (heap->nodes[0].parent != 0 || heap->nodes[0].func != 0)) {
        fault(check, 0, "node", 0, "is not the root");
        heap->nodes[0].parent = 0;
        heap->nodes[0].func = 0;
    }
    for (uint32_t i = 1; i < n; i++) {
        const char *text = node_fault_or_null(check, i);
        if (text == NULL)
            continue;
        fault(check, i * sizeof *heap->nodes, "node", i, text);
        n = i;
    }
    heap->view.nodes = heap->nodes;
    heap->view.n_nodes = n > 0 ? n : 1;
    return TIDE_OK;
}

/* Leaves out cells that belong nowhere; how many are left. */
static uint32_t keep_good_cells(struct check *check, uint32_t n)
{
    struct tide_p_cell *cells = check->heap->cells;
    uint32_t n_kept = 1;
    for (uint32_t i = 1; i < n; i++) {
        if (cells[i].node >= check->heap->view.n_nodes)
            fault(check, i * sizeof *cells, "cell", i, "no such node");
        else if (cells[i].kind >= TIDE_KIND_COUNT_)
            fault(check, i * sizeof *cells, "cell", i, "unknown kind");
        else
            cells[n_kept++] = cells[i];
    }
    return n_kept;
}

/* What is to be said of a chain that is not just the cells of its node. */
enum chain_state {
    CHAIN_GOOD = 0,
    CHAIN_OUTSIDE, /* goes on among cells that are not there, or not yet */
    CHAIN_RING,    /* comes back to a cell seen before */
    CHAIN_FOREIGN, /* has a cell of another node */
    CHAIN_TWICE,   /* has two cells of one kind */
};

/* Walks one chain and adds the cells seen to *n_seen. */
static enum chain_state walk_chain(struct check *check, uint32_t node,
                                   uint32_t n_cells, uint32_t *n_seen)
{
    const struct tide_p_cell *cells = check->heap->cells;
    uint32_t kinds = 0;
    uint32_t c = check->heap->nodes[node].first_cell;
    for (; c != TIDE_P_NONE; c = cells[c].next) {
        if (c >= n_cells)
            return CHAIN_OUTSIDE;
        if (cells[c].node != node)
            return CHAIN_FOREIGN;
        if (get_mark(check->marks, c))
            return CHAIN_RING;
        if ((kinds >> cells[c].kind & 1) != 0)
            return CHAIN_TWICE;
        kinds |= 1u << cells[c].kind;
        set_mark(check->marks, c);
        ++*n_seen;
    }
    return CHAIN_GOOD;
}

/* While a profile is being written only some of it is a fault. */
static void report_chain(struct check *check, uint32_t node,
                         enum chain_state state)
{
    static const char *const texts[] = {
        [CHAIN_OUTSIDE] = "its chain leads outside",
        [CHAIN_RING] = "its chain is a ring",
        [CHAIN_FOREIGN] = "its chain has a cell of another node",
        [CHAIN_TWICE] = "has two cells of one kind",
    };
    if (check->profile->is_closed || state >= CHAIN_FOREIGN)
        fault(check, node * sizeof(struct tide_p_node), "node", node,
              texts[state]);
}

static void report_loose_cell(struct check *check, uint32_t n_cells)
{
    for (uint32_t c = 1; c < n_cells; c++)
        if (!get_mark(check->marks, c))
            fault(check, c * sizeof(struct tide_p_cell), "cell", c,
                  "is in no chain");
}

/* True when the chains are exactly the cells of their nodes. */
static bool are_chains_good(struct check *check, uint32_t n_cells)
{
    uint32_t n_seen = 1;
    bool is_good = true;
    const struct tide_map cells_map = check->map;
    check->map =
        tideP_map_find(check->profile, check->heap->number, TIDE_P_NODES);
    for (uint32_t i = 0; i < check->heap->view.n_nodes; i++) {
        const enum chain_state state = walk_chain(check, i, n_cells, &n_seen);
        if (state == CHAIN_GOOD)
            continue;
        report_chain(check, i, state);
        is_good = false;
    }
    check->map = cells_map;
    if (is_good && n_seen != n_cells && check->profile->is_closed)
        report_loose_cell(check, n_cells);
    return is_good && n_seen == n_cells;
}

static void chain_anew(struct tide_loaded *heap, uint32_t n_cells)
{
    tide_assert_internal(n_cells == 1 || heap->cells != NULL);
    for (uint32_t i = 0; i < heap->view.n_nodes; i++)
        heap->nodes[i].first_cell = TIDE_P_NONE;
    for (uint32_t c = n_cells; c-- > 1;) {
        struct tide_p_node *node = &heap->nodes[heap->cells[c].node];
        heap->cells[c].next = node->first_cell;
        node->first_cell = c;
    }
}

static enum tide_err load_cells(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_cells;
    void *cells;
    TIDE_TRY(read_records(check, TIDE_P_CELLS, "cells", &n, sizeof *heap->cells,
                          &cells));
    heap->cells = cells;
    if (n > 0)
        memset(&heap->cells[0], 0, sizeof heap->cells[0]);
    free(check->marks);
    check->marks = calloc(n / 8 + 1, 1);
    if (check->marks == NULL)
        return TIDE_ERR_NOMEM;
    const uint32_t n_kept = n > 0 ? keep_good_cells(check, n) : 1;
    if (n_kept < n || !are_chains_good(check, n_kept))
        chain_anew(heap, n_kept);
    heap->view.cells = n > 0 ? heap->cells : no_cells;
    heap->view.n_cells = n_kept;
    return TIDE_OK;
}

static enum tide_err load_cycles(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_cycles, n_kept = 0;
    void *cycles;
    TIDE_TRY(read_records(check, TIDE_P_CYCLES, "cycles", &n,
                          sizeof *heap->cycles, &cycles));
    heap->cycles = cycles;
    for (uint32_t i = 0; i < n; i++) {
        if (heap->cycles[i].node >= heap->view.n_nodes)
            fault(check, i * sizeof *heap->cycles, "cycle", i, "no such node");
        else if (heap->cycles[i].cause >= TIDE_P_CAUSE_COUNT_)
            fault(check, i * sizeof *heap->cycles, "cycle", i, "unknown cause");
        else
            heap->cycles[n_kept++] = heap->cycles[i];
    }
    heap->view.cycles = heap->cycles;
    heap->view.n_cycles = n_kept;
    return TIDE_OK;
}

static enum tide_err load_moments(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_moments;
    void *moments;
    TIDE_TRY(read_records(check, TIDE_P_MOMENTS, "moments", &n,
                          sizeof *heap->moments, &moments));
    heap->moments = moments;
    heap->view.moments = moments;
    heap->view.n_moments = n;
    return TIDE_OK;
}

static enum tide_err load_events(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_events, n_kept = 0;
    void *events;
    TIDE_TRY(read_records(check, TIDE_P_EVENTS, "events", &n,
                          sizeof *heap->events, &events));
    heap->events = events;
    for (uint32_t i = 0; i < n; i++) {
        if (heap->events[i].node >= heap->view.n_nodes)
            fault(check, i * sizeof *heap->events, "event", i, "no such node");
        else if (heap->events[i].what >= TIDE_P_EVENT_COUNT_)
            fault(check, i * sizeof *heap->events, "event", i, "unknown sort");
        else
            heap->events[n_kept++] = heap->events[i];
    }
    heap->view.events = heap->events;
    heap->view.n_events = n_kept;
    return TIDE_OK;
}

/* Floors are found by the number of their cell: none may have moved up. */
static enum tide_err load_floors(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_floors;
    void *floors;
    TIDE_TRY(read_records(check, TIDE_P_CELL_FLOORS, "floors", &n,
                          sizeof *heap->floors, &floors));
    heap->floors = floors;
    heap->view.floors = floors;
    if (n > heap->view.n_cells)
        n = heap->view.n_cells;
    heap->view.n_floors = heap->head.n_cells == heap->view.n_cells ? n : 0;
    heap->view.n_columns = heap->head.n_columns < TIDE_P_FLOORS
                               ? heap->head.n_columns
                               : TIDE_P_FLOORS;
    return TIDE_OK;
}

/* In a finished profile every heap has the records that stand for nothing. */
static void check_head(struct check *check)
{
    struct tide_loaded *heap = check->heap;
    struct tide_p_heap *head = &heap->head;
    check->map = tideP_map_find(check->profile, heap->number, TIDE_P_HEAD);
    heap->view.head = head;
    if (head->state >= TIDE_P_HEAP_STATE_COUNT_) {
        fault(check, 0, "state", head->state, "unknown");
        head->state = TIDE_P_HEAP_OPEN;
    }
    if (check->profile->is_closed &&
        (head->n_funcs == 0 || head->n_nodes == 0 || head->n_cells == 0 ||
         head->string_bytes == 0))
        tideP_problem(&heap->view.problem, TIDE_ERR_FORMAT,
                      tideP_map_offset(&check->map, 0),
                      "heap %" PRIu32 ": a count is 0 that is at least 1",
                      heap->number);
}

static enum tide_err load_all(struct check *check)
{
    check_head(check);
    TIDE_TRY(load_strings(check));
    TIDE_TRY(load_funcs(check));
    TIDE_TRY(load_nodes(check));
    TIDE_TRY(load_cells(check));
    TIDE_TRY(load_cycles(check));
    TIDE_TRY(load_moments(check));
    TIDE_TRY(load_events(check));
    return load_floors(check);
}

enum tide_err tideP_load_records(const struct tide_profile *profile,
                                 struct tide_loaded *heap)
{
    struct check check = {.profile = profile, .heap = heap};
    const enum tide_err err = load_all(&check);
    free(check.marks);
    return err;
}
