/*
** packed.h: many rows of counters in little memory.  Most counters of most rows
** are 0 or small.
*/
#ifndef TIDE_PACKED_H
#define TIDE_PACKED_H

#include <stdint.h>

#include "../common/err.h"

struct tide_r_counts;

/* Zeroed at first. */
struct tide_packed {
    unsigned char **chunks;
    uint32_t n_chunks;
    uint32_t max_chunks;
    uint32_t used; /* bytes of the last chunk */
};

/*
** Keeps a row; live_bytes and live_blocks must be what the others make of
** them, see model.h.
** at  where it is: for tideR_unpack.
** Errors: NOMEM (also beyond 4 GiB).
*/
enum tide_err tideR_pack(struct tide_packed *packed,
                         const struct tide_r_counts *counts, uint32_t *at);

/* The row; `at` is from tideR_pack. */
void tideR_unpack(const struct tide_packed *packed, uint32_t at,
                  struct tide_r_counts *out);

void tideR_packed_close(struct tide_packed *packed);

#endif
