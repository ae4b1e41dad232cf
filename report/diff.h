/*
** diff.h: two models side by side: which row of the one is which of the other.
**
** Rows are matched on what they are, not on where they stand: sources by name
** (else by file name, where only one is left on each side), functions by
** source, name and ordinal in the file, lines by their text where both
** versions of the source are at hand, else by their distance from the first
** line of their function, targets by group, name and file.  An edit above a
** function so unmatches nothing.
** Every row of either model stands in exactly one pair.
**
** Without a base there is one model, and every row is of it: what renders a
** diff renders a plain report as well.
*/
#ifndef TIDE_DIFF_H
#define TIDE_DIFF_H

#include <stdbool.h>
#include <stdint.h>

#include "model.h"
#include "srctext.h"

/* Identical runs differ by up to so much: the hash seed of strings. */
#define TIDE_R_NOISE_SHARE 0.01

/* Indices of a row in the lists of the models; NONE: that run has none. */
struct tide_r_pair {
    uint32_t base;
    uint32_t now;
};

/* A node of either tree, in one tree. */
struct tide_r_both_node {
    uint32_t parent;
    uint32_t func; /* index in funcs */
    uint32_t line; /* of the new run; of the base where it is gone there */
    struct tide_r_pair nodes;
};

struct tide_diff {
    const struct tide_model *base_or_null;
    const struct tide_model *now;
    struct tide_r_pair *funcs;      /* 0 is the root of both */
    struct tide_r_pair *lines;      /* 0 is unused */
    struct tide_r_pair *targets;    /* 0 is the rest of both */
    struct tide_r_both_node *nodes; /* 0 is the root; parents come first */
    uint32_t n_funcs;
    uint32_t n_lines;
    uint32_t n_targets;
    uint32_t n_nodes;
    bool has_texts; /* lines were matched by their text */
};

/*
** Matches two models.
** base_or_null  NULL: a report on one run.
** texts         sources of the one and of the other; NULL: not at hand.
** out           closed by tideR_diff_close, also after an error; the models
**               stay the caller's and must live as long.
** Errors: NOMEM.
*/
struct tide_r_texts {
    struct tide_srctext *base_or_null;
    struct tide_srctext *now_or_null;
};
enum tide_err tideR_diff_open(const struct tide_model *base_or_null,
                              const struct tide_model *now,
                              const struct tide_r_texts *texts,
                              struct tide_diff *out);

void tideR_diff_close(struct tide_diff *diff);

/* The function of a pair: of the new run where it is there, else the base. */
const struct tide_r_func *tideR_diff_func(const struct tide_diff *diff,
                                          uint32_t pair);

/* The target of a pair, in the same way. */
const struct tide_r_target *tideR_diff_target(const struct tide_diff *diff,
                                              uint32_t pair);

/* The model that these took it from. */
const struct tide_model *tideR_diff_model(const struct tide_diff *diff,
                                          struct tide_r_pair pair);

/* Whether a change is no more than two runs of one program differ by. */
bool tideR_diff_is_noise(uint64_t base, uint64_t now);

#endif
