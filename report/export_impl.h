/*
** export_impl.h: the formats, each a file, and what they share.
*/
#ifndef TIDE_EXPORT_IMPL_H
#define TIDE_EXPORT_IMPL_H

#include "emit.h"
#include "export.h"

enum tide_err tideR_put_callgrind(const struct tide_model *model, FILE *out);
enum tide_err tideR_put_folded(const struct tide_model *model, FILE *out);
enum tide_err tideR_put_folded_live(const struct tide_model *model, FILE *out);
enum tide_err tideR_put_gcprof(const struct tide_model *model, FILE *out);
enum tide_err tideR_put_openmetrics(const struct tide_model *model, FILE *out);
enum tide_err tideR_put_speedscope(const struct tide_model *model, FILE *out);

/* What the kinds of a node have together. */
void tideR_node_counts(const struct tide_model *model, uint32_t node,
                       struct tide_r_counts *out);

/*
** Room for the nodes from the root to the deepest one with a stack; freed by
** free().  NULL: no memory.
*/
uint32_t *tideR_path_or_null(const struct tide_model *model);

/*
** Nodes from the root's child down to this one, the root left out unless it is
** the node; `path` is of tideR_path_or_null.  Returns how many.
*/
uint32_t tideR_path_of(const struct tide_model *model, uint32_t node,
                       uint32_t *path);

#endif
