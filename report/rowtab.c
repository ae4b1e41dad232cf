/*
** rowtab.c: see rowtab.h.  Open addressing, at most three quarters full.
*/
#include "rowtab.h"

#include <stdlib.h>

#include "../common/hash.h"

#define FIRST_PLACES 64u

static uint32_t *place_of(const struct tide_rowtab *tab, uint64_t key)
{
    uint32_t i = (uint32_t)tideC_hash_word(key) & tab->mask;
    while (tab->rows[i] != 0 && tab->key_fn(tab->ctx, tab->rows[i]) != key)
        i = (i + 1) & tab->mask;
    return &tab->rows[i];
}

static enum tide_err grow_rowtab(struct tide_rowtab *tab)
{
    const struct tide_rowtab old = *tab;
    const uint32_t places =
        old.rows == NULL ? FIRST_PLACES : (old.mask + 1) * 2;
    TIDE_FAIL_IF(places == 0, TIDE_ERR_NOMEM);
    uint32_t *rows = calloc(places, sizeof *rows);
    TIDE_FAIL_IF(rows == NULL, TIDE_ERR_NOMEM);
    tab->rows = rows;
    tab->mask = places - 1;
    for (uint32_t i = 0; old.rows != NULL && i <= old.mask; i++)
        if (old.rows[i] != 0)
            *place_of(tab, tab->key_fn(tab->ctx, old.rows[i])) = old.rows[i];
    free(old.rows);
    return TIDE_OK;
}

enum tide_err tideR_rowtab_put(struct tide_rowtab *tab, uint64_t key,
                               uint32_t **row)
{
    if (tab->rows == NULL || (uint64_t)tab->n * 4 >= (uint64_t)tab->mask * 3)
        TIDE_TRY(grow_rowtab(tab));
    *row = place_of(tab, key);
    tab->n += **row == 0;
    return TIDE_OK;
}

void tideR_rowtab_close(struct tide_rowtab *tab)
{
    free(tab->rows);
    tab->rows = NULL;
    tab->mask = tab->n = 0;
}
