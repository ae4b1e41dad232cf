/*
** gcview.h: what `tidemark gc` shows: a chart of the heap, the cycles, what was
** done to the collector, and what survives, by line.
*/
#ifndef TIDE_GCVIEW_H
#define TIDE_GCVIEW_H

#include <stdio.h>

#include "model.h"
#include "render.h"

/*
** For people.
** top  rows of each table; 0: all.
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_gc_text(const struct tide_model *model, uint32_t top,
                            const struct tide_r_look *look, FILE *out);

/* For programs: everything.  Errors: IO, errno says why. */
enum tide_err tideR_gc_json(const struct tide_model *model, FILE *out);

/* The heap whose timeline is shown: the one that stood highest; NULL: none. */
const struct tide_p_view *tideR_gc_view(const struct tide_model *model);

/* "stop", "restart", "mode", "pause", "stepmul". */
const char *tideR_event_name(unsigned what);

/* Seconds since the start of the run. */
double tideR_gc_seconds(const struct tide_model *model, uint64_t mono_ns);

#endif
