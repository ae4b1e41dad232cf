/*
** synthetic.c: made-up profiles for tests; see synthetic.h.
**
** The random tree is wide rather than deep, as real ones are: node i hangs
** below a node near i / 4.  (parent, func, line) is unique: nodes of the same
** function and line are further apart than nodes of the same parent.
*/
#include "synthetic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINES_PER_FUNC   100u
#define FUNCS_PER_SOURCE 12u
#define START_UNIX_NS    1796040000000000000u

static void must(enum tide_err err, const char *what)
{
    if (err == TIDE_OK)
        return;
    fprintf(stderr, "# synthetic: %s: %s\n", what, tide_err_text(err));
    abort();
}

uint64_t syn_random(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Below n. */
static uint32_t pick(uint64_t *state, uint32_t n)
{
    return (uint32_t)(syn_random(state) % n);
}

static void *reserve(struct syn_heap *heap, enum tide_p_section id,
                     size_t offset, size_t bytes)
{
    struct tide_section *section = &heap->sections[id];
    must(tideP_section_reserve(heap->writer, section, offset + bytes),
         "section");
    return section->base + offset;
}

uint32_t syn_bytes(struct syn_heap *heap, const void *data, uint32_t bytes)
{
    const uint32_t offset = heap->head->string_bytes;
    const uint32_t whole = (4 + bytes + 1 + 3) & ~3u;
    unsigned char *at = reserve(heap, TIDE_P_STRINGS, offset, whole);
    memcpy(at, &bytes, 4);
    memcpy(at + 4, data, bytes);
    TIDE_PUBLISH(&heap->head->string_bytes, offset + whole);
    return offset;
}

uint32_t syn_string(struct syn_heap *heap, const char *text)
{
    return *text == '\0' ? TIDE_P_NONE
                         : syn_bytes(heap, text, (uint32_t)strlen(text));
}

struct tide_p_func *syn_func_at(struct syn_heap *heap, uint32_t index)
{
    return (struct tide_p_func *)heap->sections[TIDE_P_FUNCS].base + index;
}

struct tide_p_node *syn_node_at(struct syn_heap *heap, uint32_t index)
{
    return (struct tide_p_node *)heap->sections[TIDE_P_NODES].base + index;
}

struct tide_p_cell *syn_cell_at(struct syn_heap *heap, uint32_t index)
{
    return (struct tide_p_cell *)heap->sections[TIDE_P_CELLS].base + index;
}

uint32_t syn_func(struct syn_heap *heap, enum tide_p_what what,
                  const char *source, const char *name, uint32_t linedefined,
                  uint32_t lastline)
{
    const uint32_t index = heap->head->n_funcs;
    struct tide_p_func *func =
        reserve(heap, TIDE_P_FUNCS, index * sizeof *func, sizeof *func);
    func->source = syn_string(heap, source);
    func->name = syn_string(heap, name);
    func->linedefined = linedefined;
    func->lastline = lastline;
    func->what = (uint8_t)what;
    TIDE_PUBLISH(&heap->head->n_funcs, index + 1);
    return index;
}

uint32_t syn_node(struct syn_heap *heap, uint32_t parent, uint32_t func,
                  uint32_t line)
{
    const uint32_t index = heap->head->n_nodes;
    struct tide_p_node *node =
        reserve(heap, TIDE_P_NODES, index * sizeof *node, sizeof *node);
    node->parent = parent;
    node->func = func;
    node->line = line;
    TIDE_PUBLISH(&heap->head->n_nodes, index + 1);
    return index;
}

uint32_t syn_cell(struct syn_heap *heap, uint32_t node, enum tide_kind kind)
{
    const uint32_t index = heap->head->n_cells;
    struct tide_p_cell *cell =
        reserve(heap, TIDE_P_CELLS, index * sizeof *cell, sizeof *cell);
    cell->node = node;
    cell->kind = (uint8_t)kind;
    cell->next = syn_node_at(heap, node)->first_cell;
    TIDE_PUBLISH(&heap->head->n_cells, index + 1);
    TIDE_PUBLISH(&syn_node_at(heap, node)->first_cell, index);
    return index;
}

/* The record that *index leads to; a new one when it is 0. */
static void *side_of(struct syn_heap *heap, enum tide_p_section id,
                     size_t record_bytes, uint32_t *index, uint32_t *n)
{
    if (*index == 0) {
        const uint32_t i = *n == 0 ? 1 : *n;
        reserve(heap, id, i * record_bytes, record_bytes);
        TIDE_PUBLISH(n, i + 1);
        TIDE_PUBLISH(index, i);
    }
    return reserve(heap, id, *index * record_bytes, record_bytes);
}

struct tide_p_life *syn_life(struct syn_heap *heap, uint32_t index)
{
    return side_of(heap, TIDE_P_LIVES, sizeof(struct tide_p_life),
                   &syn_cell_at(heap, index)->life, &heap->head->n_lives);
}

struct tide_p_rest *syn_rest(struct syn_heap *heap, uint32_t index)
{
    return side_of(heap, TIDE_P_RESTS, sizeof(struct tide_p_rest),
                   &syn_cell_at(heap, index)->rest, &heap->head->n_rests);
}

struct tide_p_floor *syn_floor(struct syn_heap *heap, uint32_t index)
{
    return side_of(heap, TIDE_P_CELL_FLOORS, sizeof(struct tide_p_floor),
                   &syn_cell_at(heap, index)->floor, &heap->head->n_floors);
}

struct tide_cell syn_cell_now(struct syn_heap *heap, uint32_t index)
{
    const struct tide_p_cell *cell = syn_cell_at(heap, index);
    struct tide_p_rest rest = {0};
    struct tide_p_life life = {0};
    if (cell->rest != 0)
        rest = *syn_rest(heap, index);
    if (cell->life != 0)
        life = *syn_life(heap, index);
    return (struct tide_cell){
        .node = cell->node,
        .next = cell->next,
        .peak_epoch = cell->peak_epoch,
        .kind = cell->kind,
        .alloc_bytes = cell->alloc_bytes,
        .alloc_blocks = cell->alloc_blocks,
        .freed_bytes = cell->freed_bytes,
        .freed_blocks = cell->freed_blocks,
        .young_bytes = cell->freed_bytes - life.once_bytes - life.twice_bytes -
                       life.older_bytes - life.ageless_bytes,
        .young_blocks = cell->freed_blocks - life.once_blocks -
                        life.twice_blocks - life.older_blocks -
                        life.ageless_blocks,
        .moved_bytes = rest.moved_bytes,
        .moved_blocks = rest.moved_blocks,
        .peak_bytes = rest.peak_bytes,
        .peak_blocks = rest.peak_blocks,
        .closed_bytes = rest.closed_bytes,
        .closed_blocks = rest.closed_blocks,
        .inherited_bytes = rest.inherited_bytes,
        .inherited_blocks = rest.inherited_blocks,
    };
}

void syn_huge(struct syn_heap *heap, uint32_t cell, uint64_t bytes)
{
    const uint32_t index = heap->head->n_huge;
    if (index >= TIDE_P_HUGE_MAX || bytes < TIDE_P_HUGE_LEAST)
        abort();
    heap->head->huge[index] = (struct tide_p_huge){
        .bytes = bytes,
        .mono_ns = heap->head->open_mono_ns + 1000000u * (index + 1),
        .alloc_bytes = bytes * 2,
        .n_blocks = index + 1,
        .cell = cell,
        .cycle = index,
    };
    TIDE_PUBLISH(&heap->head->n_huge, index + 1);
}

uint32_t syn_cycle(struct syn_heap *heap, const struct tide_p_cycle *cycle)
{
    const uint32_t index = heap->head->n_cycles;
    *(struct tide_p_cycle *)reserve(heap, TIDE_P_CYCLES, index * sizeof *cycle,
                                    sizeof *cycle) = *cycle;
    TIDE_PUBLISH(&heap->head->n_cycles, index + 1);
    return index;
}

uint32_t syn_object(struct syn_heap *heap, const char *path)
{
    uint32_t index = heap->head->n_objects;
    if (index == 0) { /* the one that stands for none */
        reserve(heap, TIDE_P_OBJECTS, 0, sizeof(struct tide_p_object));
        index = 1;
    }
    struct tide_p_object *object =
        reserve(heap, TIDE_P_OBJECTS, index * sizeof *object, sizeof *object);
    object->bias = object->start = (uint64_t)index << 16;
    object->end = object->start + 0x10000;
    object->path = syn_string(heap, path);
    object->build_id_bytes = 20;
    for (unsigned i = 0; i < 20; i++)
        object->build_id[i] = (uint8_t)(index * 20 + i);
    TIDE_PUBLISH(&heap->head->n_objects, index + 1);
    return index;
}

uint32_t syn_target(struct syn_heap *heap, const struct tide_p_target *target)
{
    const uint32_t index = heap->head->n_targets;
    *(struct tide_p_target *)reserve(
        heap, TIDE_P_TARGETS, index * sizeof *target, sizeof *target) = *target;
    TIDE_PUBLISH(&heap->head->n_targets, index + 1);
    return index;
}

static void open_sections(struct syn_heap *heap, uint32_t number)
{
    static const size_t max_bytes[TIDE_P_SECTION_COUNT_] = {
        [TIDE_P_HEAD] = 4096,
        [TIDE_P_STRINGS] = (size_t)256 << 20,
        [TIDE_P_FUNCS] = (size_t)64 << 20,
        [TIDE_P_NODES] = (size_t)256 << 20,
        [TIDE_P_CELLS] = (size_t)1024 << 20,
        [TIDE_P_CYCLES] = (size_t)64 << 20,
        [TIDE_P_MOMENTS] = (size_t)1 << 20,
        [TIDE_P_EVENTS] = (size_t)1 << 20,
        [TIDE_P_CELL_FLOORS] = (size_t)640 << 20,
        [TIDE_P_LIVES] = (size_t)384 << 20,
        [TIDE_P_OBJECTS] = (size_t)1 << 20,
        [TIDE_P_MARKS] = (size_t)1 << 20,
        [TIDE_P_SNAPS] = (size_t)64 << 20,
        [TIDE_P_TARGETS] = (size_t)1 << 20,
        [TIDE_P_RESTS] = (size_t)1024 << 20,
    };
    for (unsigned id = 0; id < TIDE_P_SECTION_COUNT_; id++)
        must(tideP_section_open(heap->writer, number, (enum tide_p_section)id,
                                max_bytes[id], &heap->sections[id]),
             "open section");
}

void syn_heap_open(struct tide_writer *writer, struct syn_heap *heap)
{
    uint32_t number;
    *heap = (struct syn_heap){.writer = writer};
    must(tideP_writer_add_heap(writer, &number), "add heap");
    open_sections(heap, number);
    heap->head = (struct tide_p_heap *)heap->sections[TIDE_P_HEAD].base;
    heap->head->n_states = 1;
    heap->head->open_mono_ns = 1000000000u;
    syn_bytes(heap, "", 0);
    syn_func(heap, TIDE_P_ROOT, "", "", 0, 0);
    syn_node(heap, 0, 0, 0);
    heap->head->n_cells = 1;
}

/* What the cell held at the peak, by the rule in profile.h. */
static uint64_t peak_of(const struct syn_heap *heap,
                        const struct tide_cell *cell)
{
    if (heap->head->peak_is_past != 0 &&
        cell->peak_epoch == heap->head->peak_epoch)
        return cell->peak_bytes;
    return tideP_cell_live_bytes(cell);
}

void syn_heap_settle(struct syn_heap *heap)
{
    heap->head->peak_bytes = 0;
    for (uint32_t i = 1; i < heap->head->n_cells; i++) {
        const struct tide_cell cell = syn_cell_now(heap, i);
        heap->head->peak_bytes += peak_of(heap, &cell);
    }
    syn_heap_note(heap);
}

void syn_heap_note(struct syn_heap *heap)
{
    struct tide_p_heap *head = heap->head;
    head->settled_alloc_bytes = head->settled_freed_bytes = 0;
    head->settled_live_bytes = 0;
    for (uint32_t i = 1; i < head->n_cells; i++) {
        const struct tide_cell cell = syn_cell_now(heap, i);
        head->settled_alloc_bytes += cell.alloc_bytes;
        head->settled_freed_bytes += cell.freed_bytes + cell.closed_bytes;
        head->settled_live_bytes +=
            tideP_cell_live_bytes(&cell) - cell.closed_bytes;
    }
    head->settled = 1;
}

/* Before its figures change: what the cell held at the peak. */
static void keep_peak(struct syn_heap *heap, uint32_t index)
{
    struct tide_p_cell *cell = syn_cell_at(heap, index);
    const struct tide_cell now = syn_cell_now(heap, index);
    if (heap->head->peak_is_past != 0 &&
        cell->peak_epoch == heap->head->peak_epoch)
        return;
    syn_rest(heap, index)->peak_bytes = tideP_cell_live_bytes(&now);
    syn_rest(heap, index)->peak_blocks = tideP_cell_live_blocks(&now);
    cell->peak_epoch = heap->head->peak_epoch;
}

void syn_heap_close(struct syn_heap *heap)
{
    syn_heap_settle(heap);
    for (uint32_t i = 1; i < heap->head->n_cells; i++) {
        const struct tide_cell cell = syn_cell_now(heap, i);
        keep_peak(heap, i);
        syn_rest(heap, i)->closed_bytes = tideP_cell_live_bytes(&cell);
        syn_rest(heap, i)->closed_blocks = tideP_cell_live_blocks(&cell);
    }
    heap->head->peak_is_past = 1;
    heap->head->close_mono_ns = heap->head->open_mono_ns + 5000000000u;
    heap->head->state = TIDE_P_HEAP_CLOSED;
}

static bool has_lines(const struct tide_p_func *func)
{
    return func->what == TIDE_P_LUA || func->what == TIDE_P_MAIN;
}

static void add_random_func(struct syn_heap *heap, uint32_t i)
{
    const uint32_t in_source = i % FUNCS_PER_SOURCE;
    char source[32], name[32];
    snprintf(source, sizeof source, "@src/mod%u.lua", i / FUNCS_PER_SOURCE);
    snprintf(name, sizeof name, in_source == 7 ? "" : "f%u", i);
    if (in_source == 5) {
        snprintf(name, sizeof name, "c%u", i);
        syn_func(heap, TIDE_P_C, "=[C]", name, 0, 0);
        syn_func_at(heap, i)->address = 0x400000u + i * 16u;
    } else if (i == 30) {
        syn_func(heap, TIDE_P_FINALIZER, "", "", 0, 0);
    } else if (i == 31) {
        syn_func(heap, TIDE_P_COROUTINE, source, name, 12, 0);
    } else if (in_source == 1) {
        syn_func(heap, TIDE_P_MAIN, source, "", 0,
                 FUNCS_PER_SOURCE * LINES_PER_FUNC);
    } else {
        const uint32_t first = 1 + in_source * LINES_PER_FUNC;
        syn_func(heap, TIDE_P_LUA, source, name, first,
                 first + LINES_PER_FUNC - 1);
    }
}

static uint32_t add_random_node(struct syn_heap *heap, uint32_t i,
                                uint64_t *rng)
{
    const uint32_t n_real = heap->head->n_funcs - 1;
    const uint32_t f = n_real == 0 ? 0 : 1 + i % n_real;
    const struct tide_p_func *func = syn_func_at(heap, f);
    if (!has_lines(func))
        return syn_node(heap, i - 1, f, 0);
    const uint32_t round = i / n_real;
    const uint32_t near = i / 4, back = pick(rng, 16);
    return syn_node(heap, near > back ? near - back : 0, f,
                    func->linedefined + round % LINES_PER_FUNC);
}

/*
** Of what was freed: some died young, and of the others half after a
** collection, and so on.
*/
static void fill_ages(struct syn_heap *heap, uint32_t index, uint64_t *rng)
{
    const struct tide_p_cell *cell = syn_cell_at(heap, index);
    const uint64_t young_blocks = cell->freed_blocks / (1 + pick(rng, 4));
    const uint64_t young_bytes = cell->freed_bytes / (1 + pick(rng, 4));
    const uint64_t bytes = cell->freed_bytes - young_bytes;
    const uint64_t blocks = cell->freed_blocks - young_blocks;
    if (bytes == 0 && blocks == 0)
        return;
    *syn_life(heap, index) = (struct tide_p_life){
        .once_bytes = bytes / 2,
        .once_blocks = blocks / 2,
        .twice_bytes = bytes / 4,
        .twice_blocks = blocks / 4,
        .ageless_bytes = bytes / 8,
        .ageless_blocks = blocks / 8,
        .older_bytes = bytes - bytes / 2 - bytes / 4 - bytes / 8,
        .older_blocks = blocks - blocks / 2 - blocks / 4 - blocks / 8,
        .regrown_bytes = bytes * 3,
        .n_regrown = blocks,
    };
}

/* What survived: less and less. */
static void fill_floors(struct syn_heap *heap, uint32_t index)
{
    struct tide_p_floor *floor = syn_floor(heap, index);
    for (uint32_t k = 0; k < TIDE_P_FLOORS; k++)
        floor->at[k] = index * (TIDE_P_FLOORS - k);
}

/* Counters that keep to the invariants above struct tide_p_cell. */
static void fill_cell(struct syn_heap *heap, uint32_t index, uint64_t *rng)
{
    struct tide_p_cell *cell = syn_cell_at(heap, index);
    cell->alloc_blocks = 1 + pick(rng, 1000);
    cell->alloc_bytes = cell->alloc_blocks * (16 + pick(rng, 200));
    cell->freed_blocks = pick(rng, (uint32_t)cell->alloc_blocks + 1);
    cell->freed_bytes =
        cell->alloc_bytes / cell->alloc_blocks * cell->freed_blocks;
    if (cell->node % 5 != 0)
        fill_ages(heap, index, rng);
    if (cell->node % 3 == 0)
        fill_floors(heap, index);
    cell->peak_epoch = pick(rng, 2) ? heap->head->peak_epoch : 1;
    if (pick(rng, 8) == 0) {
        syn_rest(heap, index)->inherited_blocks = pick(rng, 20);
        syn_rest(heap, index)->inherited_bytes =
            syn_rest(heap, index)->inherited_blocks * 40;
    }
    if (pick(rng, 3) == 0)
        return; /* it held nothing at the peak, if that is of this one */
    const struct tide_cell now = syn_cell_now(heap, index);
    syn_rest(heap, index)->peak_bytes =
        tideP_cell_live_bytes(&now) + pick(rng, 500);
    syn_rest(heap, index)->peak_blocks = tideP_cell_live_blocks(&now);
}

static void add_random_cells(struct syn_heap *heap, uint32_t node,
                             uint64_t *rng)
{
    const uint32_t n = pick(rng, 4), first = pick(rng, TIDE_KIND_COUNT_);
    uint64_t sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = syn_cell(
            heap, node, (enum tide_kind)((first + k * 3) % TIDE_KIND_COUNT_));
        fill_cell(heap, i, rng);
        sum += syn_cell_at(heap, i)->alloc_bytes;
    }
    syn_node_at(heap, node)->calls = n == 0 ? 0 : 1 + pick(rng, 50);
    syn_node_at(heap, node)->max_call_bytes = sum / 2;
}

/* Some blocks change their owner: what one cell gives another one gets. */
static void move_some(struct syn_heap *heap, uint64_t *rng)
{
    const uint32_t n = heap->head->n_cells;
    for (uint32_t i = 0; n > 2 && i < n / 8; i++) {
        const uint32_t a = 1 + pick(rng, n - 1);
        const uint32_t b = 1 + pick(rng, n - 1);
        const struct tide_cell from = syn_cell_now(heap, a);
        const int64_t bytes = (int64_t)tideP_cell_live_bytes(&from) / 2;
        if (bytes <= 0 || a == b)
            continue;
        syn_rest(heap, a)->moved_bytes -= bytes;
        syn_rest(heap, b)->moved_bytes += bytes;
        syn_rest(heap, b)->peak_bytes += (uint64_t)bytes;
    }
}

static void add_random_cycles(struct syn_heap *heap, uint32_t n, uint64_t *rng)
{
    for (uint32_t i = 0; i < n; i++) {
        struct tide_p_cycle cycle = {
            .atomic_mono_ns =
                heap->head->open_mono_ns + (uint64_t)(i + 1) * 4000000u,
            .before_bytes = 500000u + pick(rng, 100000),
            .freed_blocks = 1 + pick(rng, 1000),
            .n = i + 1,
            .node = pick(rng, heap->head->n_nodes),
            .mode = (uint8_t)pick(rng, 2),
            .cause = (uint8_t)(1 + pick(rng, 3)),
        };
        cycle.freed_bytes = cycle.before_bytes / (2 + pick(rng, 3));
        cycle.after_bytes = cycle.before_bytes - cycle.freed_bytes;
        cycle.end_mono_ns = cycle.atomic_mono_ns + 1000000u;
        syn_cycle(heap, &cycle);
    }
    heap->head->gc_cycle = n;
}

/* Of every sort, some taken back. */
static void add_random_targets(struct syn_heap *heap, uint32_t n, uint64_t *rng)
{
    for (uint32_t i = 0; i < n; i++) {
        char group[16], pattern[16];
        snprintf(group, sizeof group, "group%u", pick(rng, 3));
        snprintf(pattern, sizeof pattern, "*mod%u*", pick(rng, 3));
        const struct tide_p_target target = {
            .func = i % 2 == 0 ? pick(rng, heap->head->n_funcs) : 0,
            .group = syn_string(heap, group),
            .name = syn_string(heap, i % 4 == 2 ? "f*" : "named"),
            .source = syn_string(heap, pattern),
            .what = (uint8_t)(i % TIDE_P_TARGET_COUNT_),
            .is_off = pick(rng, 5) == 0,
        };
        syn_target(heap, &target);
    }
}

static struct tide_p_snap snap_of(struct syn_heap *heap, uint32_t cell)
{
    const struct tide_cell c = syn_cell_now(heap, cell);
    return (struct tide_p_snap){
        .cell = cell,
        .alloc_bytes = c.alloc_bytes,
        .alloc_blocks = c.alloc_blocks,
        .freed_bytes = c.freed_bytes,
        .freed_blocks = c.freed_blocks,
        .young_bytes = c.young_bytes,
        .young_blocks = c.young_blocks,
        .moved_bytes = c.moved_bytes,
        .moved_blocks = c.moved_blocks,
        .peak_bytes = peak_of(heap, &c),
        .peak_blocks = c.peak_blocks,
    };
}

uint32_t syn_mark(struct syn_heap *heap, const struct tide_p_mark *mark,
                  bool has_snaps, uint32_t skip)
{
    const uint32_t index = heap->head->n_marks;
    struct tide_p_mark *out =
        reserve(heap, TIDE_P_MARKS, index * sizeof *out, sizeof *out);
    uint32_t n = heap->head->n_snaps;
    *out = *mark;
    out->first_snap = n;
    for (uint32_t i = 1; has_snaps && i < heap->head->n_cells; i++) {
        const struct tide_p_snap snap = snap_of(heap, i);
        if (i % 4 != skip)
            *(struct tide_p_snap *)reserve(
                heap, TIDE_P_SNAPS, n++ * sizeof snap, sizeof snap) = snap;
    }
    out->n_snaps = n - out->first_snap;
    if (has_snaps)
        out->flags |= TIDE_P_MARK_HAS_SNAPS;
    TIDE_PUBLISH(&heap->head->n_snaps, n);
    TIDE_PUBLISH(&heap->head->n_marks, index + 1);
    return index;
}

/* The first one has all cells, and so has the failure. */
static void add_random_marks(struct syn_heap *heap, uint32_t n, uint64_t *rng)
{
    for (uint32_t i = 0; i <= n && n > 0; i++) {
        const bool has_failed = i == n / 2;
        char label[24];
        snprintf(label, sizeof label, "mark %u", i % 3);
        const struct tide_p_mark mark = {
            .mono_ns = heap->head->open_mono_ns + (uint64_t)(i + 1) * 9000000u,
            .live_bytes = 400000u + pick(rng, 100000),
            .alloc_bytes = (i + 1) * (uint64_t)500000u,
            .peak_bytes = 500000u,
            .want_bytes = has_failed ? 4096 : 0,
            .label = syn_string(heap, has_failed ? "out of memory" : label),
            .node = has_failed ? pick(rng, heap->head->n_nodes) : 0,
            .peak_epoch = heap->head->peak_epoch,
            .what = has_failed ? TIDE_P_MARK_FAILED : TIDE_P_MARK_LABEL,
            .flags = has_failed || i == 0 ? TIDE_P_MARK_IS_WHOLE : 0,
        };
        syn_mark(heap, &mark, has_failed || pick(rng, 5) != 0 || i == 0,
                 has_failed || i == 0 ? 4 : pick(rng, 4));
    }
}

/* Objects, and places of them below the last node. */
static void add_objects(struct syn_heap *heap, uint32_t n)
{
    for (uint32_t i = 1; i <= n; i++) {
        char path[32];
        snprintf(path, sizeof path, "/nowhere/o%u.so", i);
        const uint32_t object = syn_object(heap, path);
        const uint32_t func =
            syn_func(heap, TIDE_P_NATIVE, path, "", 0, i % 2 * 16);
        syn_func_at(heap, func)->object = object;
        syn_func_at(heap, func)->address = ((uint64_t)object << 16) + i * 32;
        const uint32_t node = syn_node(heap, heap->head->n_nodes - 1, func, 0);
        struct tide_p_cell *cell =
            syn_cell_at(heap, syn_cell(heap, node, TIDE_KIND_STRING));
        cell->alloc_bytes = 32 * i;
        cell->alloc_blocks = 1;
    }
}

void syn_fill(struct tide_writer *writer, const struct syn_shape *shape,
              uint32_t n, struct syn_heap *heap)
{
    uint64_t rng = shape->seed + n * 1000003u;
    const uint32_t n_funcs = shape->n_funcs ? shape->n_funcs : 20;
    const uint32_t n_nodes = shape->n_nodes ? shape->n_nodes : 100;
    syn_heap_open(writer, heap);
    heap->head->peak_epoch = 3;
    heap->head->peak_is_past = 1;
    for (uint32_t i = 1; i < n_funcs; i++)
        add_random_func(heap, i);
    for (uint32_t i = 1; i < n_nodes && n_funcs > 1; i++)
        add_random_cells(heap, add_random_node(heap, i, &rng), &rng);
    move_some(heap, &rng);
    add_random_cycles(heap, shape->n_cycles, &rng);
    add_random_targets(heap, shape->n_targets, &rng);
    add_random_marks(heap, shape->n_marks, &rng);
    add_objects(heap, shape->n_objects);
    for (uint32_t i = 1; i <= 3 && i < heap->head->n_cells; i++)
        syn_huge(heap, i, TIDE_P_HUGE_LEAST + i * 1000);
    syn_heap_settle(heap);
    if (!shape->is_left_running)
        syn_heap_close(heap);
}

void syn_fill_header(struct tide_p_header *header)
{
    static const char command[] = "lua5.4\0app.lua\0--fast";
    header->pid = 4242;
    header->tier = TIDE_TIER_EXACT;
    header->start_unix_ns = START_UNIX_NS;
    header->start_mono_ns = 900000000u;
    header->end_mono_ns = 6500000000u;
    header->rss_peak_bytes = 12u << 20;
    header->command_bytes = sizeof command;
    memcpy(header->command, command, sizeof command);
    strcpy(header->lua, "Lua 5.4.4");
    strcpy(header->tool, "tidemark " TIDE_VERSION);
    strcpy(header->route, "api");
    strcpy(header->program, "/usr/bin/lua5.4");
    strcpy(header->tier_reason, "calibrated, layout verified");
}

void syn_write(const char *path, const struct syn_shape *shape)
{
    const uint32_t n_heaps = shape->n_heaps ? shape->n_heaps : 1;
    struct syn_heap *heaps = calloc(n_heaps, sizeof *heaps);
    struct tide_writer *writer;
    if (heaps == NULL)
        abort();
    must(tideP_writer_open(path, &writer), path);
    syn_fill_header(tideP_writer_header(writer));
    for (uint32_t i = 0; i < n_heaps; i++)
        syn_fill(writer, shape, i, &heaps[i]);
    must(tideP_writer_close(writer), "close");
    free(heaps);
    if (shape->is_left_running) {
        FILE *file = fopen(path, "r+b");
        const uint32_t state = TIDE_P_RUNNING;
        if (file == NULL ||
            fseek(file, offsetof(struct tide_p_header, state), SEEK_SET) != 0 ||
            fwrite(&state, sizeof state, 1, file) != 1 || fclose(file) != 0)
            abort();
    }
}
