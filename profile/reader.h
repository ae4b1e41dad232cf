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

/*
** A cell as readers have it: its record in the file with the one of its rest,
** and what died young.
*/
struct tide_cell {
    uint32_t node;
    uint32_t next; /* next cell of the same node; 0: none */
    uint32_t peak_epoch;
    uint32_t kind; /* enum tide_kind */
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t freed_bytes;
    uint64_t freed_blocks;
    uint64_t young_bytes; /* of freed: of age 0 or 1; never more */
    uint64_t young_blocks;
    int64_t moved_bytes;
    int64_t moved_blocks;
    uint64_t peak_bytes; /* held at the heap's peak: see peak_epoch */
    uint64_t peak_blocks;
    uint64_t closed_bytes;
    uint64_t closed_blocks;
    uint64_t inherited_bytes;
    uint64_t inherited_blocks;
};

/* What a cell held. */
struct tide_p_held {
    uint64_t bytes;
    uint64_t blocks;
};

/* One heap of a profile.  Pointers are valid until tideP_reader_close. */
struct tide_p_view {
    const struct tide_p_heap *head;
    const char *strings;
    const struct tide_p_func *funcs;
    const struct tide_p_node *nodes;
    const struct tide_cell *cells;
    const struct tide_p_cycle *cycles;
    const struct tide_p_moment *moments;
    const struct tide_p_event *events;
    const struct tide_p_floor *floors; /* of cells 0 .. n_floors - 1 */
    const struct tide_p_life *lives;   /* of cells 0 .. n_lives - 1 */
    const struct tide_p_object *objects;
    const struct tide_p_mark *marks;
    const struct tide_p_snap *snaps;
    const struct tide_p_target *targets;
    const struct tide_p_huge *huge; /* their cells are there, each once */
    const struct tide_p_mark
        *failed;                    /* when memory ran out; NULL: it did not */
    const struct tide_p_held *held; /* of the cells then; NULL: not known */
    uint32_t string_bytes;
    uint32_t n_funcs; /* at least 1 */
    uint32_t n_nodes; /* at least 1 */
    uint32_t n_cells; /* at least 1: cell 0 is none */
    uint32_t n_cycles;
    uint32_t n_moments;
    uint32_t n_events;
    uint32_t n_floors;  /* n_cells, or 0: no cell has any */
    uint32_t n_columns; /* of floors; at most TIDE_P_FLOORS */
    uint32_t n_lives;   /* n_cells, or 0: no cell has any */
    uint32_t n_objects; /* object 0 is none; 0: there are none at all */
    uint32_t n_marks;
    uint32_t n_snaps;
    uint32_t n_targets;
    uint32_t n_huge;               /* 0 when cells are missing */
    uint64_t alloc_bytes;          /* of all cells, when they were checked */
    uint64_t freed_bytes;          /* ... with closed_bytes */
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

/*
** The same for whoever needs each cell once: cells, their lives and floors stay
** in the file, which is kept open.  In views these pointers are NULL, counts
** are there, and no cell is in a chain.  Profiles with the snapshots of marks
** are opened whole.
*/
enum tide_err tideP_reader_open_lean(const char *path,
                                     struct tide_profile **out,
                                     struct tide_p_problem *problem);

void tideP_reader_close(struct tide_profile *profile_or_null);

/*
** Makes of the profile what it was at a mark: every view, and the header's end.
** label    the last mark of that name, or "NAME#3" for the third.
** problem  filled when the result is not TIDE_OK; the profile is then as it
**          was.
** Errors: ARG (no such mark, or its figures by line were given up).
*/
enum tide_err tideP_reader_to_mark(struct tide_profile *profile,
                                   const char *label,
                                   struct tide_p_problem *problem);

const struct tide_p_header *
tideP_reader_header(const struct tide_profile *profile);

/* Heaps that have at least a head. */
uint32_t tideP_reader_n_heaps(const struct tide_profile *profile);

/* heap < tideP_reader_n_heaps(profile); never NULL. */
const struct tide_p_view *tideP_reader_heap(const struct tide_profile *profile,
                                            uint32_t heap);

/*
** Calls fn for each cell of a heap, from 1 on in the order of their numbers,
** until one returns an error.  Works on any profile; reads the file when cells
** are not in memory.  A live profile may have counted on since it was opened.
** life  never NULL; it and the cell are valid during the call.
** Errors: those of fn; NOMEM; IO (the file was cut since it was opened).
*/
typedef enum tide_err (*tide_p_cell_fn)(void *ctx, uint32_t index,
                                        const struct tide_cell *cell,
                                        const struct tide_p_life *life);
enum tide_err tideP_reader_each_cell(const struct tide_profile *profile,
                                     uint32_t heap, tide_p_cell_fn fn,
                                     void *ctx);

/* The same for the floors of those cells that have any. */
typedef void (*tide_p_floor_fn)(void *ctx, uint32_t index,
                                const struct tide_p_floor *floor);
enum tide_err tideP_reader_each_floor(const struct tide_profile *profile,
                                      uint32_t heap, tide_p_floor_fn fn,
                                      void *ctx);

/*
** Gives back the memory of a heap's nodes, for whoever has made something else
** of them: view->nodes is NULL from then on.  Only in a lean profile; else
** nothing is done.
*/
void tideP_reader_drop_nodes(struct tide_profile *profile, uint32_t heap);

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
static inline uint64_t tideP_cell_live_bytes(const struct tide_cell *cell)
{
    return cell->inherited_bytes + cell->alloc_bytes +
           (uint64_t)cell->moved_bytes - cell->freed_bytes;
}

static inline uint64_t tideP_cell_live_blocks(const struct tide_cell *cell)
{
    return cell->inherited_blocks + cell->alloc_blocks +
           (uint64_t)cell->moved_blocks - cell->freed_blocks;
}

/* What the cell held when its heap stood highest. */
uint64_t tideP_cell_peak_bytes(const struct tide_p_heap *head,
                               const struct tide_cell *cell);
uint64_t tideP_cell_peak_blocks(const struct tide_p_heap *head,
                                const struct tide_cell *cell);

/*
** Are the head's figures those of the cells?  True of a heap that is closed, or
** was settled and has not been used since.
*/
bool tideP_view_is_settled(const struct tide_p_view *view);

/*
** Checks the books as well (behind `tidemark check`): the invariants above
** struct tide_p_cell for every cell and heap, sums against the head.  Problems
** that the reader has found are faults too.
** exact           false for a live profile: counters may be caught between two
**                 stores, so they are then not compared.  Nor are they for
**                 heaps that were in use when the process ended.
** report_or_null  called for each fault.
** Returns the number of faults.
*/
typedef void (*tide_p_fault_fn)(void *ctx, const char *text);
uint64_t tideP_check(const struct tide_profile *profile, bool exact,
                     tide_p_fault_fn report_or_null, void *ctx);

#endif
