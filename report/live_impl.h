/*
** live_impl.h: what the files of the live table share.
*/
#ifndef TIDE_LIVE_IMPL_H
#define TIDE_LIVE_IMPL_H

#include "live.h"

/* Hashes of all texts of a model, for keys. */
struct tide_r_keys {
    const struct tide_model *model;
    uint64_t *hashes; /* by string */
};

/* Errors: NOMEM. */
enum tide_err tideR_keys_open(const struct tide_model *model,
                              struct tide_r_keys *out);
void tideR_keys_close(struct tide_r_keys *keys);

/* Never 0. */
uint64_t tideR_key_of(const struct tide_r_keys *keys, enum tide_r_by by,
                      uint32_t index);

/* Rows of a list: first .. end - 1. */
uint32_t tideR_live_first(enum tide_r_by by);
uint32_t tideR_live_end(const struct tide_model *model, enum tide_r_by by);

/* Fills all but the rate. */
void tideR_live_fill(const struct tide_r_keys *keys, enum tide_r_by by,
                     uint32_t index, struct tide_r_live_row *out);

/* Allocated bytes of a row. */
uint64_t tideR_live_allocated(const struct tide_model *model, enum tide_r_by by,
                              uint32_t index);

/* Bytes per second of a row; 0: not known yet. */
double tideR_rate_of(const struct tide_r_rates *rates, uint64_t key,
                     uint64_t allocated);

/* What is sorted by, of a figure. */
double tideR_live_value(enum tide_r_metric metric,
                        const struct tide_r_live_row *row,
                        enum tide_r_column column);

/* The function that a row names; NULL: a group. */
const struct tide_r_func *tideR_live_func(const struct tide_model *model,
                                          enum tide_r_by by, uint32_t index);

#endif
