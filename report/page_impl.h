/*
** page_impl.h: what the files that write the page share.
*/
#ifndef TIDE_PAGE_IMPL_H
#define TIDE_PAGE_IMPL_H

#include "emit.h"
#include "page.h"

/* The page without its data, in front of it and behind it: made by embed.py. */
extern const unsigned char tideR_page_head[];
extern const size_t tideR_page_head_bytes;
extern const unsigned char tideR_page_tail[];
extern const size_t tideR_page_tail_bytes;

/* Writes the data of a page as JSON.  Errors: IO (errno says why), NOMEM. */
enum tide_err tideR_page_data(const struct tide_diff *diff,
                              const struct tide_r_page_look *look, FILE *out);

/* The marks of a page, and what held the heap (pagemarks.c).  Errors: NOMEM. */
enum tide_err tideR_page_marks(struct tide_r_json *json,
                               const struct tide_model *model);

/* ---- the data (pagedata.c) ---- */

/* One kind of blocks of a merged node, in each run. */
struct tide_page_cell {
    uint32_t node;
    uint32_t kind;
    struct tide_r_pair stacks;
};

struct tide_page {
    const struct tide_diff *diff;
    const struct tide_r_page_look *look;
    const struct tide_model *model; /* the run being written */
    bool is_base;
    struct tide_r_json *json;
    struct tide_strtab strings;
    struct tide_page_cell *cells;
    uint32_t n_cells;
    uint32_t max_cells;
    enum tide_err err; /* of the strings */
};

typedef int64_t (*tide_page_column_fn)(struct tide_page *d, uint32_t row);

/* The counters of a row in the run being written; all 0 where it has none. */
typedef void (*tide_page_counts_fn)(const struct tide_page *d, uint32_t row,
                                    struct tide_r_counts *out);

/* ---- columns (pagecolumns.c) ---- */

/* A list with one number for each of n rows. */
void tideR_page_column(struct tide_page *d, const char *key, uint32_t n,
                       tide_page_column_fn fn);

/* The counters of n rows, a list each. */
void tideR_page_counts(struct tide_page *d, uint32_t n, tide_page_counts_fn fn);

/* How old it was when it was freed: what is older than young. */
void tideR_page_ages(struct tide_page *d, uint32_t n, tide_page_counts_fn fn);

/* Chooses the run that counters are taken from. */
void tideR_page_side(struct tide_page *d, bool is_base);

/*
** Counters of the new run and, where there is one, of the base.
** more  what else is to be written of each run; NULL: nothing
*/
void tideR_page_both(struct tide_page *d, uint32_t n, tide_page_counts_fn fn,
                     void (*more)(struct tide_page *d));

/* 1: a row of the new run; 2: of the base; 3: of both. */
int64_t tideR_page_runs_of(struct tide_r_pair pair);

/* The row of the run being written; NONE: not in it. */
uint32_t tideR_page_side_of(const struct tide_page *d, struct tide_r_pair pair);

/* The number of a text in "strings". */
int64_t tideR_page_string(struct tide_page *d, const struct tide_model *model,
                          uint32_t string);

/* ---- its parts ---- */

void tideR_page_runs(struct tide_page *d);  /* pageruns.c */
void tideR_page_funcs(struct tide_page *d); /* pagerows.c, also the next */
void tideR_page_lines(struct tide_page *d);
void tideR_page_targets(struct tide_page *d);
enum tide_err tideR_page_tree(struct tide_page *d); /* Errors: NOMEM */

/*
** A file whose bytes arrive in another one deflated and in base64.  fclose
** writes the rest; it fails when the other file could not be written.
** NULL: no memory.
*/
FILE *tideR_deflate_open(FILE *to);

#endif
