/*
** export.h: a profile in the formats of other tools.
**
** One row of the table for each; the format is described at the top of its
** file.  Adding one is a function and a row.
*/
#ifndef TIDE_EXPORT_H
#define TIDE_EXPORT_H

#include <stdio.h>

#include "model.h"

struct tide_r_format {
    const char *name; /* of --to; NULL ends the table */
    const char *what; /* in one line */
    /* Errors: IO (errno says why), NOMEM. */
    enum tide_err (*put)(const struct tide_model *model, FILE *out);
};

const struct tide_r_format *tideR_formats(void);

/* NULL: there is none of that name. */
const struct tide_r_format *tideR_format_or_null(const char *name);

#endif
