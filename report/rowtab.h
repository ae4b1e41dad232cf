/*
** rowtab.h: finds rows by pairs of numbers that stand in the rows themselves:
** a table of row numbers only, a quarter of one with keys.
*/
#ifndef TIDE_ROWTAB_H
#define TIDE_ROWTAB_H

#include <stdint.h>

#include "../common/err.h"

/* Zeroed at first but for the functions.  Row 0 is never in it. */
struct tide_rowtab {
    uint32_t *rows; /* 0: free */
    uint32_t mask;  /* places - 1 */
    uint32_t n;
    /* The pair of a row, as one number. */
    uint64_t (*key_fn)(const void *ctx, uint32_t row);
    const void *ctx;
};

/*
** The place of a key: the row, or 0 where the caller is to put the row that it
** makes before the next call.
** Errors: NOMEM.
*/
enum tide_err tideR_rowtab_put(struct tide_rowtab *tab, uint64_t key,
                               uint32_t **row);

void tideR_rowtab_close(struct tide_rowtab *tab);

#endif
