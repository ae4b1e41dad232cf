/*
** test_packed.c: rows of counters come back as they were put, whatever they
** hold; and the table that finds rows by pairs.
*/
#include <stdlib.h>
#include <string.h>

#include "../../report/model.h"
#include "../../report/packed.h"
#include "../../report/rowtab.h"
#include "../tap.h"
#include "synthetic.h"

static void make_live(struct tide_r_counts *c)
{
    c->live_bytes = c->inherited_bytes + c->alloc_bytes +
                    (uint64_t)c->moved_bytes - c->freed_bytes;
    c->live_blocks = c->inherited_blocks + c->alloc_blocks +
                     (uint64_t)c->moved_blocks - c->freed_blocks;
}

/* Some counters are 0, the others have any number of bits. */
static struct tide_r_counts random_counts(uint64_t *rng)
{
    uint64_t words[sizeof(struct tide_r_counts) / sizeof(uint64_t)];
    struct tide_r_counts counts;
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = syn_random(rng) % 3 == 0
                       ? 0
                       : syn_random(rng) >> (syn_random(rng) % 64);
    memcpy(&counts, words, sizeof counts);
    if (syn_random(rng) % 2 == 0)
        counts.moved_bytes = -(counts.moved_bytes / 2);
    make_live(&counts);
    return counts;
}

TEST(packed_gives_back_what_was_put)
{
    struct tide_packed packed = {0};
    uint64_t rng = 5;
    const uint32_t n = 60000; /* several chunks */
    uint32_t *at = malloc(n * sizeof *at);
    CHECK(at != NULL);
    for (uint32_t i = 0; i < n; i++) {
        const struct tide_r_counts counts = random_counts(&rng);
        CHECK_EQ(tideR_pack(&packed, &counts, &at[i]), TIDE_OK);
    }
    CHECK(packed.n_chunks > 3);
    rng = 5;
    for (uint32_t i = 0; i < n; i++) {
        const struct tide_r_counts expected = random_counts(&rng);
        struct tide_r_counts counts;
        tideR_unpack(&packed, at[i], &counts);
        CHECK(memcmp(&counts, &expected, sizeof counts) == 0);
    }
    free(at);
    tideR_packed_close(&packed);
}

TEST(packed_holds_extremes)
{
    struct tide_packed packed = {0};
    struct tide_r_counts most, zero = {0}, got;
    uint32_t at, at_zero;
    memset(&most, 0xFF, sizeof most);
    most.moved_bytes = INT64_MIN;
    most.moved_blocks = INT64_MAX;
    make_live(&most);
    CHECK_EQ(tideR_pack(&packed, &zero, &at_zero), TIDE_OK);
    for (unsigned i = 0; i < 20000; i++)
        CHECK_EQ(tideR_pack(&packed, &most, &at), TIDE_OK);
    tideR_unpack(&packed, at, &got);
    CHECK(memcmp(&got, &most, sizeof got) == 0);
    tideR_unpack(&packed, at_zero, &got);
    CHECK(tideR_counts_are_zero(&got));
    tideR_packed_close(&packed);
}

TEST(packed_rows_take_little)
{
    struct tide_packed packed = {0};
    const struct tide_r_counts counts = {.alloc_bytes = 5600,
                                         .alloc_blocks = 100,
                                         .live_bytes = 5600,
                                         .live_blocks = 100,
                                         .peak_bytes = 5600,
                                         .peak_blocks = 100};
    uint32_t first, second;
    CHECK_EQ(tideR_pack(&packed, &counts, &first), TIDE_OK);
    CHECK_EQ(tideR_pack(&packed, &counts, &second), TIDE_OK);
    CHECK_EQ(second - first, 3 + 2 + 1 + 2 + 1);
    tideR_packed_close(&packed);
}

/* ---- rowtab ---- */

static uint64_t key_of(const void *ctx, uint32_t row)
{
    return ((const uint64_t *)ctx)[row];
}

TEST(rowtab_finds_each_row_once)
{
    const uint32_t n = 100000;
    uint64_t *keys = calloc(n + 1, sizeof *keys);
    struct tide_rowtab tab = {.key_fn = key_of, .ctx = keys};
    uint32_t *row;
    CHECK(keys != NULL);
    for (uint32_t i = 1; i <= n; i++) {
        /* 0 is a key too; many differ in the high half only */
        const uint64_t key = (uint64_t)(i - 1) << 32 | i % 2;
        CHECK_EQ(tideR_rowtab_put(&tab, key, &row), TIDE_OK);
        CHECK_EQ(*row, 0);
        keys[i] = key;
        *row = i;
    }
    for (uint32_t i = 1; i <= n; i++) {
        CHECK_EQ(tideR_rowtab_put(&tab, keys[i], &row), TIDE_OK);
        CHECK_EQ(*row, i);
    }
    CHECK_EQ(tab.n, n);
    tideR_rowtab_close(&tab);
    free(keys);
}
