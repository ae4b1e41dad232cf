/*
** render.h: the renderers of a report.  Each writes a whole report of a model
** and flushes it.
*/
#ifndef TIDE_RENDER_H
#define TIDE_RENDER_H

#include <stdio.h>

#include "model.h"
#include "select.h"

/*
** JSON, as json.c describes it at its top.  The query holds for lines,
** functions and stacks.  Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_json(const struct tide_model *model,
                         const struct tide_r_query *query, FILE *out);

/* How a text report looks. */
struct tide_r_look {
    unsigned columns;    /* width; 0: 80 */
    bool has_colour;     /* escape sequences for colours */
    bool is_brief;       /* no hints at the end */
    const char *path;    /* of the profile, for hints and sources */
    const char *command; /* the tool's name in hints: "tidemark" */
};

/* A table to read.  Errors: IO (errno says why), NOMEM. */
enum tide_err tideR_text(const struct tide_model *model, enum tide_r_by by,
                         const struct tide_r_query *query,
                         const struct tide_r_look *look, FILE *out);

#endif
