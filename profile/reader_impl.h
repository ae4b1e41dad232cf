/*
** reader_impl.h: what the files of the reader share.
**
**   reader.c        opening, the header, the views
**   reader_map.c    the directory: which bytes of the file make a section
**   reader_check.c  the records of one heap: what holds is kept
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
    uint32_t number; /* of the heap in the file */
    struct tide_p_heap head;
    char *strings; /* each owned, NULL when there is none */
    struct tide_p_func *funcs;
    struct tide_p_node *nodes;
    struct tide_p_cell *cells;
    struct tide_p_cycle *cycles;
    struct tide_p_moment *moments;
    struct tide_p_event *events;
    struct tide_p_floor *floors;
};

struct tide_profile {
    int fd;              /* -1 once all is read */
    uint64_t file_bytes; /* as observed after the counts */
    bool is_closed;      /* finished in order: nothing may be amiss */
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

#endif
