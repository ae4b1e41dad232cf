/*
** reader_check.c: the records of one heap, read and checked: what may be
** anything becomes what may be followed blindly.  Cells are in reader_cells.c.
**   strings  up to the first that is malformed
**   objects  all; a path or build id that is not there becomes ""
**   funcs    up to the first of an unknown sort; what is not there becomes none
**   nodes    up to the first whose parent or function is not there
**   cells    those whose node and kind are there; chains are made anew when
**            they are not exactly the cells of their node
**   cycles   those whose node and cause are there
**   events   those whose node and sort are there
**   rests, lives, floors   those that one cell leads to
**   huge     none when there is a cell that is not there; one for each cell
**   marks    those whose node and sort are there; without their snapshots
**            when these are not whole, or cells have moved up
**   targets  those whose function, strings and sort are there
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

void tideP_fault(struct tide_check *check, uint64_t offset, const char *what,
                 uint32_t index, const char *text)
{
    tideP_problem(&check->heap->view.problem, TIDE_ERR_FORMAT,
                  tideP_map_offset(&check->map, offset),
                  "heap %" PRIu32 ", %s %" PRIu32 ": %s", check->heap->number,
                  what, index, text);
}

void tideP_note_missing(struct tide_check *check, const char *what, uint64_t n,
                        uint32_t want, size_t record_bytes)
{
    if (n < want)
        tideP_problem(&check->heap->view.problem, TIDE_ERR_FORMAT,
                      tideP_map_offset(&check->map, n * record_bytes),
                      "heap %" PRIu32 ": %" PRIu64 " of %" PRIu32
                      " %s are there",
                      check->heap->number, n, want, what);
}

void tideP_count_records(struct tide_check *check, enum tide_p_section id,
                         const char *what, uint32_t *n, size_t record_bytes)
{
    check->map = tideP_map_find(check->profile, check->heap->number, id);
    const uint64_t have = check->map.bytes / record_bytes;
    tideP_note_missing(check, what, have, *n, record_bytes);
    if (*n > have)
        *n = (uint32_t)have;
}

enum tide_err tideP_read_records(struct tide_check *check,
                                 enum tide_p_section id, const char *what,
                                 uint32_t *n, size_t record_bytes, void **out)
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
    tideP_note_missing(check, what, n_read, want, record_bytes);
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

static enum tide_err load_strings(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.string_bytes, offset = 0;
    void *strings;
    TIDE_TRY(tideP_read_records(check, TIDE_P_STRINGS, "bytes of strings", &n,
                                1, &strings));
    heap->strings = strings;
    check->strings = calloc(n / 32 + 1, 1);
    if (check->strings == NULL)
        return TIDE_ERR_NOMEM;
    while (offset < n) {
        const uint64_t bytes =
            string_extent(heap->strings + offset, n - offset);
        const bool is_wrong_first =
            offset == 0 && (bytes != 8 || heap->strings[0] != 0);
        if (bytes == 0 || is_wrong_first) {
            tideP_fault(check, offset, "string", offset, "malformed");
            break;
        }
        tideP_set_mark(check->strings, offset / 4);
        offset += (uint32_t)bytes;
    }
    tide_assert_internal(offset % 4 == 0);
    heap->view.strings = offset > 0 ? heap->strings : no_strings;
    heap->view.string_bytes = offset > 0 ? offset : sizeof no_strings;
    return TIDE_OK;
}

static bool is_string(const struct tide_check *check, uint32_t offset)
{
    return offset == TIDE_P_NONE ||
           (offset % 4 == 0 && offset < check->heap->view.string_bytes &&
            tideP_get_mark(check->strings, offset / 4));
}

static enum tide_err load_objects(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_objects;
    void *objects;
    TIDE_TRY(tideP_read_records(check, TIDE_P_OBJECTS, "objects", &n,
                                sizeof *heap->objects, &objects));
    heap->objects = objects;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_p_object *object = &heap->objects[i];
        if (!is_string(check, object->path)) {
            tideP_fault(check, i * sizeof *object, "object", i, "no such path");
            object->path = TIDE_P_NONE;
        }
        if (object->build_id_bytes > TIDE_P_BUILD_ID_MAX) {
            tideP_fault(check, i * sizeof *object, "object", i,
                        "build id is too long");
            object->build_id_bytes = 0;
        }
    }
    heap->view.objects = heap->objects;
    heap->view.n_objects = n;
    return TIDE_OK;
}

static void check_func(struct tide_check *check, uint32_t i)
{
    struct tide_p_func *func = &check->heap->funcs[i];
    if (!is_string(check, func->source)) {
        tideP_fault(check, i * sizeof *func, "function", i, "no such source");
        func->source = TIDE_P_NONE;
    }
    if (!is_string(check, func->name)) {
        tideP_fault(check, i * sizeof *func, "function", i, "no such name");
        func->name = TIDE_P_NONE;
    }
    if (func->object != 0 && func->object >= check->heap->view.n_objects) {
        tideP_fault(check, i * sizeof *func, "function", i, "no such object");
        func->object = TIDE_P_NONE;
    }
    if (i == 0 && func->what != TIDE_P_ROOT) {
        tideP_fault(check, 0, "function", 0, "is not the root");
        func->what = TIDE_P_ROOT;
    }
}

static enum tide_err load_funcs(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_funcs;
    void *funcs;
    TIDE_TRY(tideP_read_records(check, TIDE_P_FUNCS, "functions", &n,
                                sizeof *heap->funcs, &funcs));
    heap->funcs = funcs;
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0 && heap->funcs[i].what >= TIDE_P_WHAT_COUNT_) {
            tideP_fault(check, i * sizeof *heap->funcs, "function", i,
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

static const char *node_fault_or_null(const struct tide_check *check,
                                      uint32_t i)
{
    const struct tide_p_node *node = &check->heap->nodes[i];
    if (node->parent >= i)
        return "parent does not come before it";
    if (node->func >= check->heap->view.n_funcs)
        return "no such function";
    return NULL;
}

static enum tide_err load_nodes(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_nodes;
    void *nodes;
    TIDE_TRY(tideP_read_records(check, TIDE_P_NODES, "nodes", &n,
                                sizeof *heap->nodes, &nodes));
    /* The root is always there: cells may be chained to it. */
    heap->nodes = n > 0 ? nodes : calloc(1, sizeof *heap->nodes);
    if (heap->nodes == NULL)
        return TIDE_ERR_NOMEM;
    if (n > 0 && (heap->nodes[0].parent != 0 || heap->nodes[0].func != 0)) {
        tideP_fault(check, 0, "node", 0, "is not the root");
        heap->nodes[0].parent = 0;
        heap->nodes[0].func = 0;
    }
    for (uint32_t i = 1; i < n; i++) {
        const char *text = node_fault_or_null(check, i);
        if (text == NULL)
            continue;
        tideP_fault(check, i * sizeof *heap->nodes, "node", i, text);
        n = i;
    }
    heap->view.nodes = heap->nodes;
    heap->view.n_nodes = n > 0 ? n : 1;
    return TIDE_OK;
}

static enum tide_err load_cycles(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_cycles, n_kept = 0;
    void *cycles;
    TIDE_TRY(tideP_read_records(check, TIDE_P_CYCLES, "cycles", &n,
                                sizeof *heap->cycles, &cycles));
    heap->cycles = cycles;
    for (uint32_t i = 0; i < n; i++) {
        if (heap->cycles[i].node >= heap->view.n_nodes)
            tideP_fault(check, i * sizeof *heap->cycles, "cycle", i,
                        "no such node");
        else if (heap->cycles[i].cause >= TIDE_P_CAUSE_COUNT_)
            tideP_fault(check, i * sizeof *heap->cycles, "cycle", i,
                        "unknown cause");
        else
            heap->cycles[n_kept++] = heap->cycles[i];
    }
    heap->view.cycles = heap->cycles;
    heap->view.n_cycles = n_kept;
    return TIDE_OK;
}

static enum tide_err load_moments(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_moments;
    void *moments;
    TIDE_TRY(tideP_read_records(check, TIDE_P_MOMENTS, "moments", &n,
                                sizeof *heap->moments, &moments));
    heap->moments = moments;
    heap->view.moments = moments;
    heap->view.n_moments = n;
    return TIDE_OK;
}

static enum tide_err load_events(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_events, n_kept = 0;
    void *events;
    TIDE_TRY(tideP_read_records(check, TIDE_P_EVENTS, "events", &n,
                                sizeof *heap->events, &events));
    heap->events = events;
    for (uint32_t i = 0; i < n; i++) {
        if (heap->events[i].node >= heap->view.n_nodes)
            tideP_fault(check, i * sizeof *heap->events, "event", i,
                        "no such node");
        else if (heap->events[i].what >= TIDE_P_EVENT_COUNT_)
            tideP_fault(check, i * sizeof *heap->events, "event", i,
                        "unknown sort");
        else
            heap->events[n_kept++] = heap->events[i];
    }
    heap->view.events = heap->events;
    heap->view.n_events = n_kept;
    return TIDE_OK;
}

/* Cells that are not there take all snapshots with them. */
static enum tide_err load_snaps(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_snaps;
    void *snaps;
    TIDE_TRY(tideP_read_records(check, TIDE_P_SNAPS, "snapshots of cells", &n,
                                sizeof *heap->snaps, &snaps));
    heap->snaps = snaps;
    for (uint32_t i = 0; i < n; i++) {
        if (heap->snaps[i].cell != 0 &&
            heap->snaps[i].cell < heap->view.n_cells)
            continue;
        tideP_fault(check, i * sizeof *heap->snaps, "snapshot", i,
                    "no such cell");
        n = 0;
    }
    heap->view.snaps = snaps;
    heap->view.n_snaps = heap->head.n_cells == heap->view.n_cells ? n : 0;
    return TIDE_OK;
}

static const char *mark_fault_or_null(const struct tide_check *check,
                                      const struct tide_p_mark *mark)
{
    if (mark->node >= check->heap->view.n_nodes)
        return "no such node";
    if (mark->what >= TIDE_P_MARK_COUNT_)
        return "unknown sort";
    if (!is_string(check, mark->label))
        return "no such label";
    return NULL;
}

/* The snapshot of a mark is there, and stands on one that is. */
static bool has_snapshot(const struct tide_check *check,
                         struct tide_p_mark *mark, bool has_base)
{
    const uint32_t n = check->heap->view.n_snaps;
    if ((mark->flags & TIDE_P_MARK_HAS_SNAPS) == 0)
        return false;
    if (mark->first_snap > n || mark->n_snaps > n - mark->first_snap)
        return false;
    return has_base || (mark->flags & TIDE_P_MARK_IS_WHOLE) != 0;
}

/* Snapshots may be rewritten in a profile that runs: then none is taken. */
static bool are_snaps_settled(const struct tide_check *check)
{
    const struct tide_map map =
        tideP_map_find(check->profile, check->heap->number, TIDE_P_HEAD);
    uint32_t now;
    const uint64_t at =
        tideP_map_offset(&map, offsetof(struct tide_p_heap, n_rewrites));
    return check->profile->is_closed ||
           (tideP_read_at(check->profile->fd, &now, sizeof now, at) ==
                sizeof now &&
            now == check->heap->head.n_rewrites && now % 2 == 0);
}

/* Keeps the marks that belong somewhere, and their snapshots. */
static enum tide_err load_marks(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_marks, n_kept = 0;
    bool has_base = false;
    void *marks;
    TIDE_TRY(load_snaps(check));
    TIDE_TRY(tideP_read_records(check, TIDE_P_MARKS, "marks", &n,
                                sizeof *heap->marks, &marks));
    heap->marks = marks;
    bool is_good = are_snaps_settled(check);
    for (uint32_t i = 0; i < n; i++) {
        struct tide_p_mark *mark = &heap->marks[i];
        const char *text = mark_fault_or_null(check, mark);
        const bool had_snaps = (mark->flags & TIDE_P_MARK_HAS_SNAPS) != 0;
        if (text != NULL) {
            tideP_fault(check, i * sizeof *mark, "mark", i, text);
            is_good = is_good && !had_snaps;
            continue;
        }
        is_good =
            is_good && (!had_snaps || has_snapshot(check, mark, has_base));
        if (had_snaps && !is_good && check->profile->is_closed)
            tideP_fault(check, i * sizeof *mark, "mark", i, "no such snapshot");
        if (!is_good)
            mark->flags = 0;
        has_base = has_base || (mark->flags & TIDE_P_MARK_HAS_SNAPS) != 0;
        heap->marks[n_kept++] = *mark;
    }
    heap->view.marks = heap->marks;
    heap->view.n_marks = n_kept;
    return TIDE_OK;
}

static const char *target_fault_or_null(const struct tide_check *check,
                                        const struct tide_p_target *target)
{
    if (target->what >= TIDE_P_TARGET_COUNT_)
        return "unknown sort";
    if (target->func >= check->heap->view.n_funcs)
        return "no such function";
    if (!is_string(check, target->group) || !is_string(check, target->name) ||
        !is_string(check, target->source) || !is_string(check, target->module))
        return "no such string";
    return NULL;
}

static enum tide_err load_targets(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    uint32_t n = heap->head.n_targets, n_kept = 0;
    void *targets;
    TIDE_TRY(tideP_read_records(check, TIDE_P_TARGETS, "targets", &n,
                                sizeof *heap->targets, &targets));
    heap->targets = targets;
    for (uint32_t i = 0; i < n; i++) {
        const char *text = target_fault_or_null(check, &heap->targets[i]);
        if (text != NULL)
            tideP_fault(check, i * sizeof *heap->targets, "target", i, text);
        else
            heap->targets[n_kept++] = heap->targets[i];
    }
    heap->view.targets = heap->targets;
    heap->view.n_targets = n_kept;
    return TIDE_OK;
}

static const char *huge_fault_or_null(const struct tide_check *check,
                                      const struct tide_p_huge *huge,
                                      uint32_t n_before)
{
    const struct tide_p_huge *all = check->heap->head.huge;
    if (huge->cell == 0 || huge->cell >= check->heap->view.n_cells)
        return "no such cell";
    for (uint32_t i = 0; i < n_before; i++)
        if (all[i].cell == huge->cell)
            return "is there twice";
    return huge->bytes < TIDE_P_HUGE_LEAST ? "is not huge" : NULL;
}

/* They stand in the head.  One that is being replaced has no bytes. */
static void check_huge(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    struct tide_p_huge *all = heap->head.huge;
    const bool is_closed = check->profile->is_closed;
    uint32_t n = heap->head.n_huge, n_kept = 0;
    check->map = tideP_map_find(check->profile, heap->number, TIDE_P_HEAD);
    if (n > TIDE_P_HUGE_MAX) {
        tideP_fault(check, offsetof(struct tide_p_heap, n_huge), "huge block",
                    n, "there are never so many");
        n = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        const char *text = huge_fault_or_null(check, &all[i], n_kept);
        if (all[i].bytes == 0)
            continue;
        if (text == NULL)
            all[n_kept++] = all[i];
        else if (is_closed && heap->head.n_cells == heap->view.n_cells)
            tideP_fault(check, offsetof(struct tide_p_heap, huge[i]),
                        "huge block", i, text);
    }
    heap->view.huge = all;
    heap->view.n_huge = heap->head.n_cells == heap->view.n_cells ? n_kept : 0;
}

/* In a finished profile every heap has the records that stand for nothing. */
static void check_head(struct tide_check *check)
{
    struct tide_loaded *heap = check->heap;
    struct tide_p_heap *head = &heap->head;
    check->map = tideP_map_find(check->profile, heap->number, TIDE_P_HEAD);
    heap->view.head = head;
    if (head->state >= TIDE_P_HEAP_STATE_COUNT_) {
        tideP_fault(check, 0, "state", head->state, "unknown");
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

static enum tide_err load_all(struct tide_check *check)
{
    check_head(check);
    TIDE_TRY(load_strings(check));
    TIDE_TRY(load_objects(check));
    TIDE_TRY(load_funcs(check));
    TIDE_TRY(load_nodes(check));
    TIDE_TRY(tideP_load_cells(check));
    TIDE_TRY(load_cycles(check));
    TIDE_TRY(load_moments(check));
    TIDE_TRY(load_events(check));
    check_huge(check);
    TIDE_TRY(load_marks(check));
    TIDE_TRY(load_targets(check));
    return tideP_load_held(check->heap);
}

enum tide_err tideP_load_records(const struct tide_profile *profile,
                                 struct tide_loaded *heap)
{
    struct tide_check check = {.profile = profile, .heap = heap};
    const enum tide_err err = load_all(&check);
    free(check.strings);
    return err;
}
