/*
** hashtab.h: open-addressing table from one word to another, on struct
** tide_mem.  Key 0 is not allowed.  Linear probing, deletion by shifting back,
** so there are no tombstones and a table that only lives stays fast.  When it
** cannot grow it stays usable until it is full.
*/
#ifndef TIDE_HASHTAB_H
#define TIDE_HASHTAB_H

#include <stdbool.h>
#include <stdint.h>

#include "mem.h"

struct tide_pair {
    uint64_t key;
    uint64_t value;
};

struct tide_hashtab {
    struct tide_pair *pairs; /* NULL: empty */
    uint32_t mask;           /* number of places - 1 */
    uint32_t n;              /* keys in it */
};

void tideC_hashtab_close(struct tide_hashtab *tab, struct tide_mem *mem);

/* The value's place, NULL when the key is absent.  Valid until a change. */
uint64_t *tideC_hashtab_find(const struct tide_hashtab *tab, uint64_t key);

/*
** The value's place, new ones hold 0.  NULL: no memory.  Valid until a change.
*/
uint64_t *tideC_hashtab_put(struct tide_hashtab *tab, struct tide_mem *mem,
                            uint64_t key);

/* False when the key was absent; value_or_null gets the value. */
bool tideC_hashtab_remove(struct tide_hashtab *tab, uint64_t key,
                          uint64_t *value_or_null);

#endif
