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

/*
** Names functions, puts them into groups and sums up groups and targets; part
** of tideR_summarize.  Errors: NOMEM.
*/
enum tide_err tideR_fill_groups(struct tide_model *model);

/* Puts marks in order and joins those that were made at once. */
void tideR_order_marks(struct tide_model *model);

/* What held the heap when memory ran out. */
void tideR_find_failure(struct tide_model *model);

/* Figures of the collector. */
void tideR_sum_gc(struct tide_model *model);

/* Survivors by line.  Errors: NOMEM. */
enum tide_err tideR_fill_floors(struct tide_model *model);

/* The largest blocks, with their stacks.  Errors: NOMEM. */
enum tide_err tideR_fill_blocks(struct tide_model *model);

/* What is worth doing, the most important first: before the notes. */
enum tide_err tideR_find(struct tide_model *model);

/* A note when there is too little to tell a leak from garbage. */
void tideR_note_too_few(struct tide_model *model);

/* Findings that are notes: what limits the figures of this profile. */
void tideR_note_limits(struct tide_model *model);

/* Adds b to a. */
void tideR_counts_add(struct tide_r_counts *a, const struct tide_r_counts *b);

/*
** A place in machine code, or a C function without a name: its symbol.
** func       has the source and name of the profile; gets those of the symbol.
** line       gets the line of the place in the source; 0: not known.
** is_hidden  gets true for Lua's own code, which is not shown.
** Errors: NOMEM.
*/
enum tide_err tideR_place_func(struct tide_model *model,
                               const struct tide_p_view *view,
                               const struct tide_p_func *from,
                               struct tide_r_func *func, uint32_t *line,
                               bool *is_hidden);

/* A function's name and its group's, made up where there is none. */
enum tide_err tideR_name_func(struct tide_model *model, uint32_t func,
                              uint32_t *group_name);

/* A chunk name as reports show it: without @ or =.  Errors: NOMEM. */
enum tide_err tideR_put_source(struct tide_model *model, const char *bytes,
                               size_t n, uint32_t *out);

#endif
