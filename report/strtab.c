/*
** strtab.c: see strtab.h.
**
** Strings with the same 64-bit hash are chained, so that two of them that
** differ stay two.
*/
#include "strtab.h"

#include <string.h>

#include "../common/hash.h"
#include "grow.h"

enum tide_err tideR_strtab_open(struct tide_strtab *tab)
{
    *tab = (struct tide_strtab){0};
    uint32_t empty;
    return tideR_strtab_put(tab, "", 0, &empty);
}

void tideR_strtab_close(struct tide_strtab *tab)
{
    free(tab->strs);
    free(tab->bytes);
    tideC_hashtab_close(&tab->by_hash, &tab->mem);
    tideC_mem_close(&tab->mem);
    *tab = (struct tide_strtab){0};
}

/* The string among those of one hash; tab->n when it is not there. */
static uint32_t find_string(const struct tide_strtab *tab, uint32_t first,
                            const char *bytes, size_t n)
{
    for (uint32_t i = first; i != 0; i = tab->strs[i].next)
        if (tab->strs[i].length == n &&
            memcmp(tab->bytes + tab->strs[i].offset, bytes, n) == 0)
            return i;
    return tab->n;
}

/* Room for one more string of n bytes. */
static enum tide_err make_room(struct tide_strtab *tab, size_t n)
{
    TIDE_TRY(tideR_grow(&tab->strs, &tab->max, (uint64_t)tab->n + 1,
                        sizeof *tab->strs));
    return tideR_grow(&tab->bytes, &tab->max_bytes,
                      (uint64_t)tab->n_bytes + n + 1, 1);
}

enum tide_err tideR_strtab_put(struct tide_strtab *tab, const char *bytes,
                               size_t n, uint32_t *out)
{
    if (n == 0 && tab->n > 0) {
        *out = 0;
        return TIDE_OK;
    }
    uint64_t *first = tideC_hashtab_put(&tab->by_hash, &tab->mem,
                                        tideC_hash_bytes(bytes, n) | 1);
    TIDE_FAIL_IF(first == NULL, TIDE_ERR_NOMEM);
    const uint32_t found = find_string(tab, (uint32_t)*first, bytes, n);
    if (tab->n > 0 && found < tab->n) {
        *out = found;
        return TIDE_OK;
    }
    TIDE_TRY(make_room(tab, n));
    memcpy(tab->bytes + tab->n_bytes, bytes, n);
    tab->bytes[tab->n_bytes + n] = '\0';
    tab->strs[tab->n] = (struct tide_str){
        .offset = tab->n_bytes,
        .length = (uint32_t)n,
        .next = (uint32_t)*first,
    };
    tab->n_bytes += (uint32_t)n + 1;
    *first = tab->n;
    *out = tab->n++;
    return TIDE_OK;
}

const char *tideR_strtab_text(const struct tide_strtab *tab, uint32_t string)
{
    return tab->bytes + tab->strs[string].offset;
}
