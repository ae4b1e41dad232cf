/*
** json_impl.h: what the JSON of a report and that of a diff share.
*/
#ifndef TIDE_JSON_IMPL_H
#define TIDE_JSON_IMPL_H

#include "emit.h"
#include "model.h"

/* Objects on one run. */
void tideR_json_run(struct tide_r_json *json, const char *key,
                    const struct tide_model *model);
void tideR_json_gc(struct tide_r_json *json, const char *key,
                   const struct tide_model *model);

/* "age_bytes" and "age_blocks" of what was freed: see tideR_ages. */
void tideR_json_ages(struct tide_r_json *json,
                     const struct tide_r_counts *counts);

/* The list "findings". */
void tideR_json_findings(struct tide_r_json *json,
                         const struct tide_model *model);

/* "marks" and "out_of_memory" (marksjson.c). */
void tideR_json_marks(struct tide_r_json *json, const struct tide_model *model);

#endif
