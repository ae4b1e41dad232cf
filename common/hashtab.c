/*
** hashtab.c: see hashtab.h.
*/
#include "hashtab.h"

#include <stddef.h>

#include "compiler.h"
#include "hash.h"

#define FIRST_PLACES 64u

static uint32_t home_of(const struct tide_hashtab *tab, uint64_t key)
{
    return (uint32_t)tideC_hash_word(key) & tab->mask;
}

static struct tide_pair *place_of(const struct tide_hashtab *tab, uint64_t key)
{
    uint32_t i = home_of(tab, key);
    while (tab->pairs[i].key != 0 && tab->pairs[i].key != key)
        i = (i + 1) & tab->mask;
    return &tab->pairs[i];
}

uint64_t *tideC_hashtab_find(const struct tide_hashtab *tab, uint64_t key)
{
    if (tab->n == 0)
        return NULL;
    struct tide_pair *p = place_of(tab, key);
    return p->key == 0 ? NULL : &p->value;
}

static bool grow_table(struct tide_hashtab *tab, struct tide_mem *mem)
{
    const struct tide_hashtab old = *tab;
    const uint32_t places =
        old.pairs == NULL ? FIRST_PLACES : (old.mask + 1) * 2;
    struct tide_pair *p = tideC_mem_alloc(mem, places * sizeof *p);
    if (p == NULL)
        return false;
    tab->pairs = p;
    tab->mask = places - 1;
    if (old.pairs == NULL)
        return true;
    for (uint32_t i = 0; i <= old.mask; i++)
        if (old.pairs[i].key != 0)
            *place_of(tab, old.pairs[i].key) = old.pairs[i];
    tideC_mem_free(mem, old.pairs, ((size_t)old.mask + 1) * sizeof *p);
    return true;
}

uint64_t *tideC_hashtab_put(struct tide_hashtab *tab, struct tide_mem *mem,
                            uint64_t key)
{
    if (TIDE_UNLIKELY(tab->pairs == NULL || tab->n * 4 >= tab->mask * 3)) {
        /* a table that cannot grow still takes keys until one place is left */
        if (!grow_table(tab, mem) &&
            (tab->pairs == NULL || tab->n + 1 >= tab->mask))
            return NULL;
    }
    struct tide_pair *p = place_of(tab, key);
    if (p->key == 0) {
        p->key = key;
        p->value = 0;
        tab->n++;
    }
    return &p->value;
}

bool tideC_hashtab_remove(struct tide_hashtab *tab, uint64_t key,
                          uint64_t *value_or_null)
{
    if (tab->n == 0)
        return false;
    struct tide_pair *p = place_of(tab, key);
    if (p->key == 0)
        return false;
    if (value_or_null != NULL)
        *value_or_null = p->value;
    uint32_t hole = (uint32_t)(p - tab->pairs);
    for (uint32_t i = (hole + 1) & tab->mask; tab->pairs[i].key != 0;
         i = (i + 1) & tab->mask) {
        const uint32_t home = home_of(tab, tab->pairs[i].key);
        if (((i - home) & tab->mask) >= ((i - hole) & tab->mask)) {
            tab->pairs[hole] = tab->pairs[i];
            hole = i;
        }
    }
    tab->pairs[hole].key = 0;
    tab->n--;
    return true;
}

void tideC_hashtab_close(struct tide_hashtab *tab, struct tide_mem *mem)
{
    if (tab->pairs != NULL)
        tideC_mem_free(mem, tab->pairs,
                       ((size_t)tab->mask + 1) * sizeof *tab->pairs);
    *tab = (struct tide_hashtab){0};
}
