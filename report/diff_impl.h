/*
** diff_impl.h: what the files that match two models share.  Not for renderers.
*/
#ifndef TIDE_DIFF_IMPL_H
#define TIDE_DIFF_IMPL_H

#include "diff.h"

/* Where the lines of a source of the base are in the new one. */
struct tide_r_moved {
    uint32_t *lines; /* by line, from 1; NULL: not known */
    uint32_t n_lines;
};

/* What is known of the two models while they are matched. */
struct tide_r_match {
    const struct tide_model *base;
    const struct tide_model *now;
    const struct tide_r_texts *texts;
    uint32_t *sources;          /* by string of the base: that of the new run */
    bool *has_source;           /* by string of the base: it has one */
    struct tide_r_moved *moved; /* by string of the base */
    uint32_t *funcs;            /* by function of the base; NONE: it is gone */
    bool has_texts;
};

/* Fills sources, moved and funcs.  Errors: NOMEM. */
enum tide_err tideR_match_open(struct tide_r_match *match);
void tideR_match_close(struct tide_r_match *match);

/* The line of the new run; 0: it is gone. */
uint32_t tideR_match_line(const struct tide_r_match *match, uint32_t func,
                          uint32_t line);

/* Fills diff->targets.  Errors: NOMEM. */
enum tide_err tideR_match_targets(struct tide_diff *diff);

#endif
