/*
** live.h: a table that is looked at while the profile grows: rows of a model
** with rates, filtered, sorted and in sections.  `tidemark top` draws it.
**
** Rows are made anew for every reading.  What a row is (a line, a function, a
** group, by its texts) is its key, the same in every reading, so that rates,
** the chosen row and folded sections outlive a model.
*/
#ifndef TIDE_LIVE_H
#define TIDE_LIVE_H

#include <stdio.h>

#include "model.h"
#include "select.h"
#include "units.h"

/* What figures are looked at: each has columns in an order of its own. */
enum tide_r_metric {
    TIDE_R_METRIC_ALLOC = 0, /* allocated since the start */
    TIDE_R_METRIC_LIVE,      /* held now */
    TIDE_R_METRIC_RATE,      /* allocated lately, by second */
    TIDE_R_METRIC_COUNT_
};

enum tide_r_column {
    TIDE_R_COL_SHARE = 0, /* of the metric */
    TIDE_R_COL_ALLOC,
    TIDE_R_COL_TOTAL, /* own and below; functions only */
    TIDE_R_COL_RATE,
    TIDE_R_COL_CALLS,
    TIDE_R_COL_PER_CALL,
    TIDE_R_COL_WORST,
    TIDE_R_COL_LIVE,
    TIDE_R_COL_LIVE_BLOCKS,
    TIDE_R_COL_BLOCKS,
    TIDE_R_COL_PEAK,
    TIDE_R_COL_YOUNG,
    TIDE_R_COL_NAME, /* texts: no figures */
    TIDE_R_COL_SOURCE,
    TIDE_R_COL_GROUP,
    TIDE_R_COL_COUNT_
};

struct tide_r_column_info {
    const char *id;    /* as it is kept in files: "per_call" */
    const char *title; /* "B/call" */
    unsigned width;    /* of its figures; 0: a text */
    const char *help;
};

/* Never NULL; column < TIDE_R_COL_COUNT_. */
const struct tide_r_column_info *tideR_column_info(enum tide_r_column column);

/*
** The columns of a table, the most important first; texts are not in it.
** Returns how many.
*/
unsigned tideR_columns_of(enum tide_r_by by, enum tide_r_metric metric,
                          enum tide_r_column out[TIDE_R_COL_COUNT_]);

/* ---- rates -------------------------------------------------------------- */

#define TIDE_R_PASTS 5u /* readings that rates go back */

struct tide_r_past {
    double at_s;                   /* of the reading */
    struct tide_mem mem;           /* holds `allocated` */
    struct tide_hashtab allocated; /* bytes by key, plus 1 */
};

/* All zero at first.  Closed by tideR_rates_close. */
struct tide_r_rates {
    struct tide_r_past pasts[TIDE_R_PASTS]; /* a ring */
    uint32_t n;                             /* readings so far */
    double run_s; /* > 0: not of readings but of the whole run, this long */
};

/*
** Notes a reading.  at_s  by the reader's clock; never goes back.
** Errors: NOMEM; the reading is then not noted.
*/
enum tide_err tideR_rates_note(struct tide_r_rates *rates,
                               const struct tide_model *model, double at_s);

void tideR_rates_close(struct tide_r_rates *rates);

/* ---- rows --------------------------------------------------------------- */

struct tide_r_live_row {
    uint64_t key;    /* of what it is; never 0 */
    uint32_t index;  /* in the model's list; of a section: in groups */
    uint32_t group;  /* index in groups */
    uint32_t n_rows; /* of a section; 0: it is none */
    bool is_folded;  /* a section whose rows are left out */
    struct tide_r_counts counts;
    uint64_t total_bytes; /* functions: own and below; else as allocated */
    uint64_t calls;
    uint64_t per_call;
    uint64_t worst;
    double rate; /* bytes per second; 0: not known yet */
};

#define TIDE_R_FILTER_MAX 256

/* What is asked for.  All zero: lines by share of allocated bytes. */
struct tide_r_live_query {
    enum tide_r_by by; /* LINE, FUNCTION, GROUP or TARGET */
    enum tide_r_metric metric;
    enum tide_r_column sort;
    bool is_reversed;
    bool hides_small;  /* rows below 1 KiB in the metric and allocated */
    bool has_sections; /* by group; not of groups */
    /*
    ** Words with blanks between, each of which a row must have, whatever the
    ** case: in its name, group or source; "name:x", "group:x" and "source:x"
    ** look in one of these alone.
    */
    char filter[TIDE_R_FILTER_MAX];
    const uint64_t *folded; /* keys of sections */
    uint32_t n_folded;
};

struct tide_r_live_rows {
    struct tide_r_live_row *rows;
    uint32_t n;
    uint32_t n_all;   /* rows that are not all zero, before the filter */
    uint32_t n_found; /* of these found, in sections that are folded too */
    uint32_t n_sections;
    uint64_t whole_bytes; /* what shares are of */
};

/* out  freed by tideR_live_close, also after an error.  Errors: NOMEM. */
enum tide_err tideR_live_rows(const struct tide_model *model,
                              const struct tide_r_live_query *query,
                              const struct tide_r_rates *rates,
                              struct tide_r_live_rows *out);

void tideR_live_close(struct tide_r_live_rows *rows);

/* A figure as text; "" where the row has none. */
const char *tideR_live_text(const struct tide_r_live_query *query,
                            const struct tide_r_live_rows *rows,
                            const struct tide_r_live_row *row,
                            enum tide_r_column column,
                            char out[TIDE_R_UNIT_MAX]);

/* The two labels of a row; either may be "". */
#define TIDE_R_LABEL_MAX (TIDE_P_STRING_MAX + 16)
struct tide_r_live_labels {
    char first[TIDE_R_LABEL_MAX];  /* of lines the place, else the name */
    char second[TIDE_R_LABEL_MAX]; /* of lines the name, else the place */
};
void tideR_live_labels(const struct tide_model *model, enum tide_r_by by,
                       const struct tide_r_live_row *row,
                       struct tide_r_live_labels *out);

/*
** Writes all that is known of a row: its texts in full, its figures, and the
** stacks that its bytes came from, the heaviest in the metric first.
** top  stacks at most
** Errors: NOMEM, IO (errno says why).
*/
enum tide_err tideR_live_details(const struct tide_model *model,
                                 const struct tide_r_live_query *query,
                                 const struct tide_r_live_rows *rows,
                                 const struct tide_r_live_row *row,
                                 uint32_t top, FILE *out);

#endif
