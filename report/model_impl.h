/*
** model_impl.h: what the files that build a model share.  Not for renderers.
*/
#ifndef TIDE_MODEL_IMPL_H
#define TIDE_MODEL_IMPL_H

#include "model.h"

/*
** Merges every heap: strings, functions, frames, nodes, stacks, lines,
** cycles, and adds every cell to the rows that it belongs to.  Errors: NOMEM.
*/
enum tide_err tideR_gather(struct tide_model *model);

/*
** What needs the whole tree: totals of functions, the function that each
** line names, groups.  Errors: NOMEM.
*/
enum tide_err tideR_summarize(struct tide_model *model);

/* Figures of the collector. */
void tideR_sum_gc(struct tide_model *model);

/* Survivors by line.  Errors: NOMEM. */
enum tide_err tideR_fill_floors(struct tide_model *model);

/* What is worth doing, the most important first: before the notes. */
enum tide_err tideR_find(struct tide_model *model);

/* A note when there is too little to tell a leak from garbage. */
void tideR_note_too_few(struct tide_model *model);

/* Findings that are notes: what limits the figures of this profile. */
void tideR_note_limits(struct tide_model *model);

/* Adds b to a. */
void tideR_counts_add(struct tide_r_counts *a, const struct tide_r_counts *b);

/* A function's name and its group's, made up where there is none. */
enum tide_err tideR_name_func(struct tide_model *model, uint32_t func,
                              uint32_t *group_name);

/* A chunk name as reports show it: without @ or =.  Errors: NOMEM. */
enum tide_err tideR_put_source(struct tide_model *model, const char *bytes,
                               size_t n, uint32_t *out);

#endif
