/*
** annotate.h: source lines with what they allocated beside them.
*/
#ifndef TIDE_ANNOTATE_H
#define TIDE_ANNOTATE_H

#include "render.h"
#include "srctext.h"

/*
** Finds the source of a profile that is meant: by its whole name, else by the
** end of its path where only one ends so.  NULL: the one that allocated most.
** Errors: ARG (none or several; `out` is then their number).
*/
enum tide_err tideR_annotate_find(const struct tide_model *model,
                                  const char *name_or_null, uint32_t *out);

/*
** Writes it with a margin.  source  a string of the model.
** Errors: ARG (its text is not at hand), IO (errno says why), NOMEM.
*/
enum tide_err tideR_annotate(const struct tide_model *model, uint32_t source,
                             const struct tide_r_look *look, FILE *out);

#endif
