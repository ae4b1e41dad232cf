/*
** json_impl.h: what all that is written as JSON shares.
*/
#ifndef TIDE_JSON_IMPL_H
#define TIDE_JSON_IMPL_H

#include "emit.h"
#include "model.h"

/* A text of the model. */
void tideR_json_string(struct tide_r_json *json, const char *key,
                       const struct tide_model *model, uint32_t string);

/* "source" and "line" of a row of lines: NONE is "" and 0. */
void tideR_json_place(struct tide_r_json *json, const struct tide_model *model,
                      uint32_t line_row);

/* A field of the header: NUL-terminated unless it is full. */
void tideR_json_field(struct tide_r_json *json, const char *key,
                      const char *field, size_t field_bytes);

/* "command": a list of the arguments. */
void tideR_json_command(struct tide_r_json *json,
                        const struct tide_p_header *header);

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
