/*
** test_hashtab.c: the table against a plain array, and the profiler's own
** memory below it.
*/
#include <stdlib.h>
#include <string.h>

#include "../../common/hashtab.h"
#include "../tap.h"

#define KEYS 1000u

TEST(hashtab_agrees_with_an_array)
{
    struct tide_mem mem = {0};
    struct tide_hashtab tab = {0};
    uint64_t model[KEYS] = {0};
    uint32_t n = 0;
    unsigned seed = 11;
    for (unsigned round = 0; round < 200000; round++) {
        seed = seed * 1103515245u + 12345u;
        const unsigned i = (seed >> 8) % KEYS;
        const uint64_t key = 16 * (uint64_t)(i + 1); /* as addresses are */
        uint64_t *found = tideC_hashtab_find(&tab, key);
        CHECK_EQ(found == NULL, model[i] == 0);
        CHECK(found == NULL || *found == model[i]);
        if (seed >> 30 == 0) {
            uint64_t value = 0;
            CHECK_EQ(tideC_hashtab_remove(&tab, key, &value), model[i] != 0);
            CHECK_EQ(value, model[i]);
            n -= model[i] != 0;
            model[i] = 0;
        } else {
            n += model[i] == 0;
            model[i] = round + 1;
            *tideC_hashtab_put(&tab, &mem, key) = round + 1;
        }
        CHECK_EQ(tab.n, n);
    }
    tideC_hashtab_close(&tab, &mem);
    tideC_mem_close(&mem);
}

TEST(hashtab_an_empty_one_has_nothing)
{
    const struct tide_hashtab none = {0};
    struct tide_hashtab tab = {0};
    CHECK(tideC_hashtab_find(&none, 5) == NULL);
    CHECK(!tideC_hashtab_remove(&tab, 5, NULL));
}

TEST(mem_blocks_are_zero_and_apart)
{
    struct tide_mem mem = {0};
    static unsigned char *block[3000];
    static size_t bytes[3000];
    for (unsigned i = 0; i < 3000; i++) {
        bytes[i] = i % 97 == 0 ? 700000 + i : 1 + i * 3;
        block[i] = tideC_mem_alloc(&mem, bytes[i]);
        CHECK(block[i] != NULL && (uintptr_t)block[i] % 16 == 0);
        for (size_t k = 0; k < bytes[i]; k += 97)
            CHECK_EQ(block[i][k], 0);
        memset(block[i], (int)(i & 0xff), bytes[i]);
        if (i % 3 == 2) { /* and used again: zero again */
            tideC_mem_free(&mem, block[i - 1], bytes[i - 1]);
            block[i - 1] = NULL;
        }
    }
    for (unsigned i = 0; i < 3000; i++)
        for (size_t k = 0; block[i] != NULL && k < bytes[i]; k += 53)
            CHECK_EQ(block[i][k], i & 0xff);
    tideC_mem_close(&mem);
}

TEST(mem_growing_keeps_the_contents)
{
    struct tide_mem mem = {0};
    size_t bytes = 10;
    unsigned char *p = tideC_mem_alloc(&mem, bytes);
    memset(p, 42, bytes);
    while (bytes < 3000000) {
        p = tideC_mem_grow(&mem, p, bytes, bytes * 3);
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQ(p[k], 42);
        CHECK_EQ(p[bytes], 0);
        bytes *= 3;
        memset(p, 42, bytes);
    }
    tideC_mem_close(&mem);
}
