/*
** reader_impl.h: what the files of the reader share.
**
**   reader.c        opening, the header, the views
**   reader_map.c    the directory: which bytes of the file make a section
**   reader_check.c  the records of one heap: what holds is kept
**   reader_mark.c   what it was at a mark
**   reader_cells.c  its cells, in memory or read again and again
**   reader_side.c   what stands beside them in the file
**
** Everything is read into private memory with pread(2), counts first, and is
** checked there.  A mapping would not do: a live profile changes behind a
** check, and a file that is cut while it is mapped kills who reads it.
*/
#ifndef TIDE_READER_IMPL_H
#define TIDE_READER_IMPL_H

#include <stdbool.h>

#include "../common/compiler.h"
#include "reader.h"

/* One heap: what a view points to. */
struct tide_loaded {
    struct tide_p_view view;
    uint32_t number;    /* of the heap in the file */
    uint32_t n_in_file; /* cells that could be read, good or bad */
    struct tide_p_heap head;
    char *strings; /* each owned, NULL when there is none */
    struct tide_p_func *funcs;
    struct tide_p_node *nodes;
    struct tide_cell *cells;
    struct tide_p_cycle *cycles;
    struct tide_p_moment *moments;
    struct tide_p_event *events;
    struct tide_p_floor *floors;
    struct tide_p_life *lives;
    struct tide_p_object *objects;
    struct tide_p_mark *marks;
    struct tide_p_snap *snaps;
    struct tide_p_target *targets;
    struct tide_p_held *held;
};

struct tide_profile {
    int fd;              /* -1 once all is read; a lean one keeps it */
    uint64_t file_bytes; /* as observed after the counts */
    bool is_closed;      /* finished in order: nothing may be amiss */
    bool is_lean;        /* cells, their ages and floors stay in the file */
    struct tide_p_header header;
    struct tide_p_extent *extents; /* by heap, section and ordinal */
    uint32_t n_extents;
    struct tide_loaded *heaps;
    uint32_t n_heaps;              /* of these */
    struct tide_p_problem problem; /* of the header and the directory, or the
                                      first of a heap */
};

/* The run of extents of one section, as far as the file has it. */
struct tide_map {
    const struct tide_profile *profile;
    const struct tide_p_extent *extents; /* from ordinal 0 on, no gap */
    uint32_t n_extents;
    uint64_t bytes; /* in the file, all together */
};

/* What the checks of one heap need. */
struct tide_check {
    const struct tide_profile *profile;
    struct tide_loaded *heap;
    struct tide_map map; /* of the section being checked */
    uint8_t *strings;    /* bits: starts of strings / 4 */
};

static inline bool tideP_get_mark(const uint8_t *marks, uint32_t i)
{
    return (marks[i / 8] >> (i % 8) & 1) != 0;
}

static inline void tideP_set_mark(uint8_t *marks, uint32_t i)
{
    marks[i / 8] |= (uint8_t)(1u << (i % 8));
}

/* Notes a problem; the first stays. */
TIDE_HIDDEN void tideP_problem(struct tide_p_problem *problem,
                               enum tide_err err, uint64_t offset,
                               const char *fmt, ...) TIDE_PRINTF(4, 5);

/* reader_map.c */

/*
** Reads the directory and checks it: bounds, overlaps, ordinals.
** Errors: IO, FORMAT, NOMEM; `problem` says what.
*/
TIDE_HIDDEN enum tide_err tideP_map_load(struct tide_profile *profile,
                                         struct tide_p_problem *problem);

/* The extents of a section; none if the heap has no such section. */
TIDE_HIDDEN struct tide_map tideP_map_find(const struct tide_profile *profile,
                                           uint32_t heap,
                                           enum tide_p_section id);

/* Where a byte of the section is in the file. */
TIDE_HIDDEN uint64_t tideP_map_offset(const struct tide_map *map,
                                      uint64_t offset);

/* Reads from the section's start; how many bytes could be had. */
TIDE_HIDDEN uint64_t tideP_map_read(const struct tide_map *map, void *out,
                                    uint64_t bytes);

/* The same from an offset in the section on. */
TIDE_HIDDEN uint64_t tideP_map_read_at(const struct tide_map *map,
                                       uint64_t offset, void *out,
                                       uint64_t bytes);

/* pread until all is there, the file ends or an error: how much there is. */
TIDE_HIDDEN size_t tideP_read_at(int fd, void *out, size_t bytes,
                                 uint64_t offset);

/* reader_check.c */

/*
** Loads the records of a heap whose head is read already, and checks them.
** What is wrong goes to view.problem.  Errors: NOMEM.
*/
TIDE_HIDDEN enum tide_err tideP_load_records(const struct tide_profile *profile,
                                             struct tide_loaded *heap);

/* reader_mark.c */

/* What the cells held when memory ran out, if it did.  Errors: NOMEM. */
TIDE_HIDDEN enum tide_err tideP_load_held(struct tide_loaded *heap);

/* A problem of one record, `offset` bytes into the section being checked. */
TIDE_HIDDEN void tideP_fault(struct tide_check *check, uint64_t offset,
                             const char *what, uint32_t index,
                             const char *text);

/* A problem when n of the wanted records are there. */
TIDE_HIDDEN void tideP_note_missing(struct tide_check *check, const char *what,
                                    uint64_t n, uint32_t want,
                                    size_t record_bytes);

/* Turns to a section; *n becomes how many of so many records the file has. */
TIDE_HIDDEN void tideP_count_records(struct tide_check *check,
                                     enum tide_p_section id, const char *what,
                                     uint32_t *n, size_t record_bytes);

/*
** The same, and reads them.  *out is NULL when there are none, else freed by
** free().  Errors: NOMEM.
*/
TIDE_HIDDEN enum tide_err tideP_read_records(struct tide_check *check,
                                             enum tide_p_section id,
                                             const char *what, uint32_t *n,
                                             size_t record_bytes, void **out);

/* reader_cells.c */

/* Nodes are loaded; cells, their lives and floors.  Errors: NOMEM. */
TIDE_HIDDEN enum tide_err tideP_load_cells(struct tide_check *check);

/* reader_side.c */

/* What a cell may lead to. */
enum tide_side {
    TIDE_SIDE_REST = 0,
    TIDE_SIDE_LIFE,
    TIDE_SIDE_FLOOR,
    TIDE_SIDE_COUNT_
};

struct tide_sides {
    void *records[TIDE_SIDE_COUNT_]; /* NULL: none, or not wanted */
    uint8_t *used[TIDE_SIDE_COUNT_]; /* bits: a cell leads to it */
    uint32_t n[TIDE_SIDE_COUNT_];    /* with the unused one at 0 */
};

/*
** with_records  bits 1 << enum tide_side: these are read, others counted.
** To be closed even when it fails.  Errors: NOMEM.
*/
TIDE_HIDDEN enum tide_err tideP_sides_open(struct tide_check *check,
                                           unsigned with_records,
                                           struct tide_sides *sides);
TIDE_HIDDEN void tideP_sides_close(struct tide_sides *sides);

/*
** Makes a record a cell's own.  0 when the cell has none; *fault is set if that
** is not what the file says.
*/
TIDE_HIDDEN uint32_t tideP_side_take(struct tide_sides *sides,
                                     enum tide_side which, uint32_t index,
                                     const char **fault);

/* The record of an index that was taken; all 0 for index 0. */
TIDE_HIDDEN const struct tide_p_rest *
tideP_side_rest(const struct tide_sides *sides, uint32_t index);
TIDE_HIDDEN const struct tide_p_life *
tideP_side_life(const struct tide_sides *sides, uint32_t index);
TIDE_HIDDEN const struct tide_p_floor *
tideP_side_floor(const struct tide_sides *sides, uint32_t index);

/* A cell with what stands beside it. */
TIDE_HIDDEN void tideP_side_join(const struct tide_p_cell *cell,
                                 const struct tide_p_rest *rest,
                                 const struct tide_p_life *life,
                                 struct tide_cell *out);

#endif
