/*
** findings.h: what the files that make findings share.
**
** A finding is one sentence that a person understands, with what to do about
** it, a line, bytes, and the figures that it stands on.
*/
#ifndef TIDE_FINDINGS_H
#define TIDE_FINDINGS_H

#include "../common/compiler.h"
#include "model_impl.h"
#include "units.h"

/* Room for "src/app.lua:12 (handler)". */
#define TIDE_R_PLACE_MAX 160

/*
** Adds a finding; NULL when there is no more room for it.
** weight  bytes that could be saved, about: its place among the others.
*/
struct tide_r_finding *tideR_finding(struct tide_model *model, const char *kind,
                                     uint32_t line_row, uint64_t bytes,
                                     double weight, const char *fmt, ...)
    TIDE_PRINTF(6, 7);

/* NULL is allowed. */
void tideR_fact(struct tide_r_finding *finding_or_null, const char *name,
                double value);

/* "app.lua:12 (handler)" */
const char *tideR_place(const struct tide_model *model, uint32_t line_row,
                        char out[TIDE_R_PLACE_MAX]);

/* Lines that leak, make garbage, make huge blocks (findlines.c). */
enum tide_err tideR_find_lines(struct tide_model *model);

/* A stop, and what was allocated before the restart. */
struct tide_r_stop {
    const struct tide_r_event *event; /* NULL: none */
    uint64_t bytes;
    double seconds;
    bool is_restarted;
};

/* i  index of an event, which is a stop. */
struct tide_r_stop tideR_stop_of(const struct tide_model *model, uint32_t i);

/* Whether the collector was stopped and all that followed is its garbage. */
bool tideR_is_left_stopped(const struct tide_model *model);

/* The collector, and what is done to it (findgc.c).  Errors: NOMEM. */
enum tide_err tideR_find_gc(struct tide_model *model);

#endif
