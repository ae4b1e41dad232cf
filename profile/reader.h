/*
** reader.h: opens a profile, of a finished run or of a live one.
**
** The reader trusts nothing.  tideP_reader_open reads the file into memory of
** its own and checks the header, the directory (bounds, overlaps, ordinals)
** and every record of every heap, so that afterwards each index in a view may
** be followed without a check: strings, functions, parents, cells and their
** chains.  What does not hold is left out: a view then has fewer records than
** the file claims (and a name that is not there is ""), `problem` says what
** and where, and reports print that they are partial.  A profile that goes on
** changing, or is cut, changes nothing here: read it again to see more.
*/
#ifndef TIDE_READER_H
#define TIDE_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "../common/err.h"
#include "profile.h"

struct tide_profile;

/* What is wrong and where. */
struct tide_p_problem {
    enum tide_err err; /* TIDE_OK: nothing */
    uint64_t offset;   /* byte offset in the file */
    char text[192];    /* fault first, lower case, no full stop */
};

/* One heap of a profile.  Pointers are valid until tideP_reader_close. */
struct tide_p_view {
    const struct tide_p_heap *head;
    const char *strings;
    const struct tide_p_func *funcs;
    const struct tide_p_node *nodes;
    const struct tide_p_cell *cells;
    const struct tide_p_cycle *cycles;
    const struct tide_p_moment *moments;
    const struct tide_p_event *events;
    const struct tide_p_floor *floors; /* of cells 0 .. n_floors - 1 */
    uint32_t string_bytes;
    uint32_t n_funcs; /* at least 1 */
    uint32_t n_nodes; /* at least 1 */
    uint32_t n_cells; /* at least 1: cell 0 is none */
    uint32_t n_cycles;
    uint32_t n_moments;
    uint32_t n_events;
    uint32_t n_floors;  /* at most n_cells; 0 when cells are missing */
    uint32_t n_columns; /* of floors; at most TIDE_P_FLOORS */
    struct tide_p_problem problem; /* why records are missing */
};

/*
** Opens and checks a profile.
** out      the profile; freed by tideP_reader_close.
** problem  filled when the result is not TIDE_OK.
** Errors: IO (cannot be opened or read; problem->text has strerror), FORMAT
** (not a profile, or its header or directory is damaged), VERSION, NOMEM.
*/
enum tide_err tideP_reader_open(const char *path, struct tide_profile **out,
                                struct tide_p_problem *problem);

void tideP_reader_close(struct tide_profile *profile_or_null);

const struct tide_p_header *
tideP_reader_header(const struct tide_profile *profile);

/* Heaps that have at least a head. */
uint32_t tideP_reader_n_heaps(const struct tide_profile *profile);

/* heap < tideP_reader_n_heaps(profile); never NULL. */
const struct tide_p_view *tideP_reader_heap(const struct tide_profile *profile,
                                            uint32_t heap);

/*
** The first problem in the whole file; err is TIDE_OK when there is none.
** A file whose process was killed has none: it is whole.
*/
const struct tide_p_problem *
tideP_reader_problem(const struct tide_profile *profile);

/*
** A string of a checked view; never NULL, NUL-terminated, may hold any byte.
** bytes_or_null  gets the length without the NUL.
*/
const char *tideP_view_string(const struct tide_p_view *view, uint32_t offset,
                              size_t *bytes_or_null);

/* Live figures of a cell, before lua_close. */
static inline uint64_t tideP_cell_live_bytes(const struct tide_p_cell *cell)
{
    return cell->inherited_bytes + cell->alloc_bytes +
           (uint64_t)cell->moved_bytes - cell->freed_bytes;
}

static inline uint64_t tideP_cell_live_blocks(const struct tide_p_cell *cell)
{
    return cell->inherited_blocks + cell->alloc_blocks +
           (uint64_t)cell->moved_blocks - cell->freed_blocks;
}

/* What the cell held when its heap stood highest. */
uint64_t tideP_cell_peak_bytes(const struct tide_p_heap *head,
                               const struct tide_p_cell *cell);
uint64_t tideP_cell_peak_blocks(const struct tide_p_heap *head,
                                const struct tide_p_cell *cell);

/*
** Checks the books as well (behind `tidemark check`): the invariants above
** struct tide_p_cell for every cell and heap, sums against the head.  Problems
** that the reader has found are faults too.
** exact           false for a live profile: counters may be caught between two
**                 stores, so they are then not compared.
** report_or_null  called for each fault.
** Returns the number of faults.
*/
typedef void (*tide_p_fault_fn)(void *ctx, const char *text);
uint64_t tideP_check(const struct tide_profile *profile, bool exact,
                     tide_p_fault_fn report_or_null, void *ctx);

#endif
