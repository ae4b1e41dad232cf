/*
** merge.c: several profiles as one.
**
** A writer that records in memory gets every heap of every profile, and saves
** itself.  Monotonic clocks of different machines, or of one that was started
** again, have nothing to do with each other: times are brought to the clock of
** the profile that began first, by what the calendar says.
*/
#include "merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "writer.h"

#define SAME_CLOCK_NS INT64_C(1000000000) /* adjusted calendars differ less */

struct merge {
    struct tide_writer *writer;
    struct tide_section *sections; /* all, TIDE_P_SECTION_COUNT_ for a heap */
    uint32_t n_heaps;
    const struct tide_p_header *first; /* the one that began first */
    int64_t shift_ns;                  /* of the profile being copied */
    uint32_t pid;                      /* of it */
};

static void shift(const struct merge *m, uint64_t *time_ns)
{
    if (*time_ns != 0)
        *time_ns += (uint64_t)m->shift_ns;
}

static int64_t shift_of(const struct tide_p_header *first,
                        const struct tide_p_header *header)
{
    const int64_t by_calendar =
        (int64_t)(header->start_unix_ns - first->start_unix_ns);
    const int64_t by_clock =
        (int64_t)(header->start_mono_ns - first->start_mono_ns);
    const int64_t difference =
        (int64_t)((uint64_t)by_calendar - (uint64_t)by_clock);
    return difference > -SAME_CLOCK_NS && difference < SAME_CLOCK_NS
               ? 0
               : difference;
}

static struct tide_section *section_of(const struct merge *m, uint32_t heap,
                                       enum tide_p_section id)
{
    return &m->sections[heap * TIDE_P_SECTION_COUNT_ + id];
}

/* A section of so many bytes, all 0. */
static enum tide_err open_records(struct merge *m, uint32_t heap,
                                  enum tide_p_section id, size_t bytes)
{
    struct tide_section *section = section_of(m, heap, id);
    TIDE_TRY(tideP_section_open(m->writer, heap, id, bytes, section));
    return tideP_section_reserve(m->writer, section, bytes);
}

/* One section with its records; its place in memory, NULL: no memory. */
static void *copy_section(struct merge *m, uint32_t heap,
                          enum tide_p_section id, const void *data,
                          size_t bytes)
{
    struct tide_section *section = section_of(m, heap, id);
    if (open_records(m, heap, id, bytes) != TIDE_OK)
        return NULL;
    memcpy(section->base, data, bytes);
    return section->base;
}

static enum tide_err copy_head(struct merge *m, uint32_t heap,
                               const struct tide_p_view *view)
{
    struct tide_p_heap *head =
        copy_section(m, heap, TIDE_P_HEAD, view->head, sizeof *head);
    TIDE_FAIL_IF(head == NULL, TIDE_ERR_NOMEM);
    /* of a damaged profile there may be less than its head says */
    head->string_bytes = view->string_bytes;
    head->n_funcs = view->n_funcs;
    head->n_nodes = view->n_nodes;
    head->n_cells = view->n_cells;
    head->n_cycles = view->n_cycles;
    head->n_moments = view->n_moments;
    head->n_events = view->n_events;
    head->n_objects = view->n_objects;
    head->n_columns = view->n_columns;
    head->n_marks = view->n_marks;
    head->n_snaps = view->n_snaps;
    head->n_targets = view->n_targets;
    head->n_huge = view->n_huge;
    if (head->pid == 0)
        head->pid = m->pid;
    shift(m, &head->open_mono_ns);
    shift(m, &head->close_mono_ns);
    for (uint32_t i = 0; i < view->n_columns; i++)
        shift(m, &head->column_mono_ns[i]);
    for (uint32_t i = 0; i < view->n_huge; i++)
        shift(m, &head->huge[i].mono_ns);
    return TIDE_OK;
}

static enum tide_err copy_times(struct merge *m, uint32_t heap,
                                const struct tide_p_view *view)
{
    struct tide_p_cycle *cycles = copy_section(
        m, heap, TIDE_P_CYCLES, view->cycles, view->n_cycles * sizeof *cycles);
    struct tide_p_moment *moments =
        copy_section(m, heap, TIDE_P_MOMENTS, view->moments,
                     view->n_moments * sizeof *moments);
    struct tide_p_event *events = copy_section(
        m, heap, TIDE_P_EVENTS, view->events, view->n_events * sizeof *events);
    struct tide_p_mark *marks = copy_section(m, heap, TIDE_P_MARKS, view->marks,
                                             view->n_marks * sizeof *marks);
    TIDE_FAIL_IF(cycles == NULL || moments == NULL || events == NULL ||
                     marks == NULL,
                 TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < view->n_cycles; i++) {
        shift(m, &cycles[i].atomic_mono_ns);
        shift(m, &cycles[i].end_mono_ns);
        shift(m, &cycles[i].start_mono_ns);
    }
    for (uint32_t i = 0; i < view->n_moments; i++)
        shift(m, &moments[i].mono_ns);
    for (uint32_t i = 0; i < view->n_events; i++)
        shift(m, &events[i].mono_ns);
    for (uint32_t i = 0; i < view->n_marks; i++)
        shift(m, &marks[i].mono_ns);
    return TIDE_OK;
}

/* ---- cells ---- */

/*
** Puts a record behind the *n of a section that was opened with room for it,
** unless there is nothing in it; its index, or 0.
*/
static uint32_t put_side(struct merge *m, uint32_t heap, enum tide_p_section id,
                         const void *record, size_t bytes, uint32_t *n)
{
    static const unsigned char zeros[sizeof(struct tide_p_life)];
    struct tide_section *section = section_of(m, heap, id);
    if (memcmp(record, zeros, bytes) == 0)
        return 0;
    memcpy(section->base + *n * bytes, record, bytes);
    return (*n)++;
}

static struct tide_p_rest rest_of(const struct tide_cell *cell)
{
    return (struct tide_p_rest){
        .moved_bytes = cell->moved_bytes,
        .moved_blocks = cell->moved_blocks,
        .peak_bytes = cell->peak_bytes,
        .peak_blocks = cell->peak_blocks,
        .closed_bytes = cell->closed_bytes,
        .closed_blocks = cell->closed_blocks,
        .inherited_bytes = cell->inherited_bytes,
        .inherited_blocks = cell->inherited_blocks,
    };
}

static struct tide_p_cell record_of(const struct tide_cell *cell)
{
    return (struct tide_p_cell){
        .node = cell->node,
        .next = cell->next,
        .peak_epoch = cell->peak_epoch,
        .kind = (uint8_t)cell->kind,
        .alloc_bytes = cell->alloc_bytes,
        .alloc_blocks = cell->alloc_blocks,
        .freed_bytes = cell->freed_bytes,
        .freed_blocks = cell->freed_blocks,
    };
}

/* A cell with what stands beside it. */
static void put_cell(struct merge *m, uint32_t heap,
                     const struct tide_p_view *view, uint32_t i,
                     struct tide_p_heap *head)
{
    struct tide_p_cell cell = record_of(&view->cells[i]);
    const struct tide_p_rest rest = rest_of(&view->cells[i]);
    cell.rest =
        put_side(m, heap, TIDE_P_RESTS, &rest, sizeof rest, &head->n_rests);
    if (i < view->n_lives)
        cell.life = put_side(m, heap, TIDE_P_LIVES, &view->lives[i],
                             sizeof view->lives[i], &head->n_lives);
    if (i < view->n_floors)
        cell.floor = put_side(m, heap, TIDE_P_CELL_FLOORS, &view->floors[i],
                              sizeof view->floors[i], &head->n_floors);
    memcpy(section_of(m, heap, TIDE_P_CELLS)->base + i * sizeof cell, &cell,
           sizeof cell);
}

static enum tide_err copy_cells(struct merge *m, uint32_t heap,
                                const struct tide_p_view *view)
{
    const size_t n = view->n_cells;
    struct tide_p_heap *head = (void *)section_of(m, heap, TIDE_P_HEAD)->base;
    TIDE_TRY(
        open_records(m, heap, TIDE_P_CELLS, n * sizeof(struct tide_p_cell)));
    TIDE_TRY(
        open_records(m, heap, TIDE_P_RESTS, n * sizeof(struct tide_p_rest)));
    TIDE_TRY(
        open_records(m, heap, TIDE_P_LIVES, n * sizeof(struct tide_p_life)));
    TIDE_TRY(open_records(m, heap, TIDE_P_CELL_FLOORS,
                          n * sizeof(struct tide_p_floor)));
    head->n_rests = head->n_lives = head->n_floors = 1;
    for (uint32_t i = 1; i < n; i++)
        put_cell(m, heap, view, i, head);
    return TIDE_OK;
}

static enum tide_err copy_heap(struct merge *m, const struct tide_p_view *view)
{
    const struct {
        enum tide_p_section id;
        const void *data;
        size_t bytes;
    } parts[] = {
        {TIDE_P_STRINGS, view->strings, view->string_bytes},
        {TIDE_P_FUNCS, view->funcs, view->n_funcs * sizeof *view->funcs},
        {TIDE_P_NODES, view->nodes, view->n_nodes * sizeof *view->nodes},
        {TIDE_P_OBJECTS, view->objects,
         view->n_objects * sizeof *view->objects},
        {TIDE_P_SNAPS, view->snaps, view->n_snaps * sizeof *view->snaps},
        {TIDE_P_TARGETS, view->targets,
         view->n_targets * sizeof *view->targets},
    };
    uint32_t heap;
    TIDE_TRY(tideP_writer_add_heap(m->writer, &heap));
    TIDE_TRY(copy_head(m, heap, view));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        TIDE_FAIL_IF(copy_section(m, heap, parts[i].id, parts[i].data,
                                  parts[i].bytes) == NULL,
                     TIDE_ERR_NOMEM);
    TIDE_TRY(copy_cells(m, heap, view));
    return copy_times(m, heap, view);
}

/* What the processes were together. */
static void join_headers(struct merge *m, const struct tide_p_header *from)
{
    struct tide_p_header *to = tideP_writer_header(m->writer);
    const uint64_t end_ns = from->end_mono_ns + (uint64_t)m->shift_ns;
    if (from->state != TIDE_P_CLOSED)
        to->state = TIDE_P_RUNNING;
    to->flags |= from->flags;
    if (end_ns > to->end_mono_ns)
        to->end_mono_ns = end_ns;
    if (from->rss_peak_bytes > to->rss_peak_bytes)
        to->rss_peak_bytes = from->rss_peak_bytes;
    if (from->tier <= to->tier)
        return;
    to->tier = from->tier;
    memcpy(to->tier_reason, from->tier_reason, sizeof to->tier_reason);
}

static void start_header(struct merge *m)
{
    struct tide_p_header *to = tideP_writer_header(m->writer);
    const struct tide_p_header *from = m->first;
    to->state = TIDE_P_CLOSED;
    to->flags = from->flags;
    to->pid = from->pid;
    to->tier = from->tier;
    to->command_bytes = from->command_bytes;
    to->start_unix_ns = from->start_unix_ns;
    to->start_mono_ns = from->start_mono_ns;
    memcpy(to->lua, from->lua, sizeof to->lua);
    memcpy(to->tool, from->tool, sizeof to->tool);
    memcpy(to->route, from->route, sizeof to->route);
    memcpy(to->tier_reason, from->tier_reason, sizeof to->tier_reason);
    memcpy(to->program, from->program, sizeof to->program);
    memcpy(to->command, from->command, sizeof to->command);
}

static enum tide_err copy_profiles(struct merge *m,
                                   const struct tide_profile *const *profiles,
                                   size_t n)
{
    start_header(m);
    for (size_t i = 0; i < n; i++) {
        const struct tide_p_header *header = tideP_reader_header(profiles[i]);
        m->shift_ns = shift_of(m->first, header);
        m->pid = header->pid;
        join_headers(m, header);
        if (tideP_reader_problem(profiles[i])->err != TIDE_OK)
            tideP_writer_header(m->writer)->state = TIDE_P_RUNNING;
        const uint32_t n_heaps = tideP_reader_n_heaps(profiles[i]);
        for (uint32_t h = 0; h < n_heaps; h++)
            TIDE_TRY(copy_heap(m, tideP_reader_heap(profiles[i], h)));
    }
    return TIDE_OK;
}

/* The first in time, and how many heaps there are. */
static void look_over(struct merge *m,
                      const struct tide_profile *const *profiles, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct tide_p_header *header = tideP_reader_header(profiles[i]);
        if (m->first == NULL || header->start_unix_ns < m->first->start_unix_ns)
            m->first = header;
        m->n_heaps += tideP_reader_n_heaps(profiles[i]);
    }
}

enum tide_err tideP_merge(const struct tide_profile *const *profiles, size_t n,
                          const char *path)
{
    struct merge m = {.first = NULL};
    look_over(&m, profiles, n);
    TIDE_FAIL_IF(m.n_heaps > TIDE_P_HEAPS_MAX, TIDE_ERR_ARG);
    enum tide_err err = tideP_writer_open(NULL, &m.writer);
    TIDE_TRY(err);
    m.sections = calloc((size_t)m.n_heaps * TIDE_P_SECTION_COUNT_ + 1,
                        sizeof *m.sections);
    err = m.sections != NULL ? copy_profiles(&m, profiles, n) : TIDE_ERR_NOMEM;
    if (err == TIDE_OK)
        err = tideP_writer_save(m.writer, path);
    const int saved_errno = errno;
    tideP_writer_close(m.writer);
    free(m.sections);
    errno = saved_errno;
    return err;
}
