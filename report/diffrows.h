/*
** diffrows.h: rows of a diff, picked and sorted for text and JSON.
*/
#ifndef TIDE_DIFFROWS_H
#define TIDE_DIFFROWS_H

#include "diff.h"
#include "render.h"

/* One side of a row. */
struct tide_r_side {
    struct tide_r_counts counts;
    uint64_t total_bytes; /* own and below; functions only */
    uint64_t calls;
    uint64_t per_call;
    uint64_t worst;
};

/* A row of either run or of both. */
struct tide_r_drow {
    uint32_t pair; /* index in the diff's list; of kinds: the kind */
    bool has_base;
    bool has_now;
    struct tide_r_side base;
    struct tide_r_side now;
};

/* Rows by how much they changed, most growth first. */
struct tide_r_dpick {
    struct tide_r_drow *rows;
    uint32_t n;
    uint32_t n_changed; /* beyond the noise, before --top */
    uint32_t n_noise;   /* changed within the noise */
};

/*
** Picks rows.  by  line, function, target, kind.
** has_noise  rows that changed within the noise are picked as well.
** out        closed by tideR_dpick_close.
** Errors: NOMEM.
*/
enum tide_err tideR_dpick(const struct tide_diff *diff, enum tide_r_by by,
                          const struct tide_r_query *query, bool has_noise,
                          struct tide_r_dpick *out);

void tideR_dpick_close(struct tide_r_dpick *pick);

/* The figure that rows are sorted by. */
uint64_t tideR_side_key(const struct tide_r_side *side, enum tide_r_sort sort);

/* Whether all columns may be compared: the runs took about as long. */
bool tideR_diff_is_fair(const struct tide_diff *diff);

/* A text; JSON.  Errors: IO (errno says why), NOMEM. */
enum tide_err tideR_diff_text(const struct tide_diff *diff, enum tide_r_by by,
                              const struct tide_r_query *query,
                              const struct tide_r_look *look, FILE *out);
enum tide_err tideR_diff_json(const struct tide_diff *diff,
                              const struct tide_r_query *query, FILE *out);

#endif
