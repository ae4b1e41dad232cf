/*
** select.h: which rows of a model are shown, and in which order.
*/
#ifndef TIDE_SELECT_H
#define TIDE_SELECT_H

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>

#include "model.h"

enum tide_r_by {
    TIDE_R_BY_LINE = 0,
    TIDE_R_BY_FUNCTION,
    TIDE_R_BY_STACK,
    TIDE_R_BY_KIND,
    TIDE_R_BY_GROUP,
    TIDE_R_BY_TARGET,
    TIDE_R_BY_COUNT_
};

/* What rows are sorted by.  Where a list lacks it, allocated bytes serve. */
enum tide_r_sort {
    TIDE_R_SORT_ALLOC = 0,   /* allocated bytes; functions: their own */
    TIDE_R_SORT_BLOCKS,      /* allocated blocks */
    TIDE_R_SORT_LIVE,        /* live bytes */
    TIDE_R_SORT_LIVE_BLOCKS, /* live blocks */
    TIDE_R_SORT_FREED,       /* freed bytes */
    TIDE_R_SORT_YOUNG,       /* freed before they survived a cycle, bytes */
    TIDE_R_SORT_PEAK,        /* held at the peak, bytes */
    TIDE_R_SORT_CALLS,       /* calls that allocated; lines: their function's */
    TIDE_R_SORT_PER_CALL,    /* bytes per call */
    TIDE_R_SORT_WORST,       /* bytes of the worst call */
    TIDE_R_SORT_TOTAL,       /* functions: own and below, bytes */
    TIDE_R_SORT_NAME,        /* by name, upwards */
    TIDE_R_SORT_LINE,        /* by source and line, upwards */
    TIDE_R_SORT_HELD,        /* held when memory ran out, bytes */
    TIDE_R_SORT_COUNT_
};

/* What is asked for.  All zero: every row by allocated bytes. */
struct tide_r_query {
    enum tide_r_sort sort;
    bool is_reversed;
    bool has_filter;
    regex_t filter;     /* on "source:line function"; see tideR_query_filter */
    uint64_t min_bytes; /* rows below are left out: of the bytes sorted by */
    double min_share;   /* the same as a share of all that was allocated */
    uint32_t top;       /* rows at most; 0: all */
};

/* The rows that are shown, in order. */
struct tide_r_pick {
    uint32_t *rows; /* indices in the model's list */
    uint32_t n;
    uint32_t n_all;       /* rows that are not all zero */
    uint64_t shown_bytes; /* allocated by those shown */
    uint64_t all_bytes;   /* allocated by all of n_all */
};

/* Names for --sort and --by.  Errors: ARG. */
enum tide_err tideR_sort_parse(const char *name, enum tide_r_sort *out);
enum tide_err tideR_by_parse(const char *name, enum tide_r_by *out);

/* All names of --sort, with commas between, for help and errors. */
const char *tideR_sort_names(void);

/*
** Sets the filter: a POSIX extended regular expression.
** why  gets the message of an error.  Errors: ARG.
*/
enum tide_err tideR_query_filter(struct tide_r_query *query, const char *regex,
                                 char *why, size_t why_bytes);

void tideR_query_close(struct tide_r_query *query);

/*
** Picks rows of a list.  BY_STACK gives indices in stacks: of one node and
** kind, those with a Lua line only.
** out  freed by tideR_pick_close.  Errors: NOMEM.
*/
enum tide_err tideR_pick(const struct tide_model *model, enum tide_r_by by,
                         const struct tide_r_query *query,
                         struct tide_r_pick *out);

void tideR_pick_close(struct tide_r_pick *pick);

/* What a list is sorted by when that is asked for: ALLOC where it lacks it. */
enum tide_r_sort tideR_sort_of(enum tide_r_by by, enum tide_r_sort sort);

/* The counter that a sort names; ALLOC for those that are no counter. */
uint64_t tideR_counts_key(const struct tide_r_counts *counts,
                          enum tide_r_sort sort);

/*
** "source:line function" of a frame, in `out`; returns its length.  Where no
** line is known, as of C functions: "source function".
*/
size_t tideR_frame_label(const struct tide_model *model, uint32_t frame,
                         char *out, size_t out_bytes);

/*
** By node, whether its frame or one above it matches the filter; NULL when
** there is no filter.  Freed by free().  Errors: NOMEM.
*/
enum tide_err tideR_match_nodes(const struct tide_model *model,
                                const struct tide_r_query *query,
                                unsigned char **out);

#endif
