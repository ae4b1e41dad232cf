/*
** test_floors.c: what rows of floors are taken for.
**
** Each row is that of a heap with sixteen whole collections, as far apart as
** one megabyte of allocation and a tenth of a second.
*/
#include <string.h>

#include "../../report/model.h"
#include "../tap.h"

#define COLUMNS 16u

_Static_assert(COLUMNS <= TIDE_P_FLOORS, "a profile has fewer columns");

static struct tide_r_floors sixteen(void)
{
    struct tide_r_floors floors = {.n = COLUMNS, .n_work = COLUMNS};
    for (uint32_t i = 0; i < COLUMNS; i++) {
        floors.cycles[i] = i + 1;
        floors.seconds[i] = 0.1 * (i + 1);
        floors.alloc[i] = 1e6 * (i + 1);
        floors.heap[i] = 4000000;
    }
    floors.end_s = 0.1 * COLUMNS;
    floors.end_alloc = 1e6 * COLUMNS;
    return floors;
}

/* The heap is 4 MB of others, and the row; no collection left less of it. */
static struct tide_r_floors floors_of(const uint64_t *kib,
                                      uint64_t bytes[TIDE_P_FLOORS])
{
    struct tide_r_floors floors = sixteen();
    for (uint32_t i = 0; i < COLUMNS; i++) {
        bytes[i] = kib[i] * 1024;
        floors.heap[i] += bytes[i];
        floors.lows[i] = floors.heap[i];
    }
    return floors;
}

static struct tide_r_trend trend_with(const uint64_t *kib,
                                      const struct tide_r_counts *counts)
{
    uint64_t bytes[TIDE_P_FLOORS] = {0};
    const struct tide_r_floors floors = floors_of(kib, bytes);
    return tideR_trend(&floors, bytes, counts);
}

/* A line that makes a megabyte of garbage, all of it old when it dies. */
static struct tide_r_trend trend_of(const uint64_t *kib)
{
    const struct tide_r_counts counts = {.live_bytes = kib[COLUMNS - 1] * 1024,
                                         .freed_bytes = 1000000};
    return trend_with(kib, &counts);
}

TEST(floors_that_rise_to_the_end_are_a_leak)
{
    static const uint64_t row[COLUMNS] = {
        10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160};
    const struct tide_r_trend trend = trend_of(row);
    CHECK_EQ(trend.confidence, 3);
    CHECK_EQ(trend.first_bytes, 50 * 1024);
    CHECK_EQ(trend.last_bytes, 160 * 1024);
    CHECK_EQ(trend.n_steps, 11);
    CHECK_EQ(trend.n_rises, 11);
    CHECK(trend.growth_per_cycle == 10 * 1024);
}

/* A buffer that is emptied, by collections that keep step with it. */
TEST(floors_below_what_was_given_back_are_in_doubt)
{
    uint64_t row[COLUMNS] = {80, 90, 100, 5,  15, 22, 30, 37,
                             45, 52, 60,  67, 75, 82, 90, 97};
    CHECK_EQ(trend_of(row).n_rises, 11);
    CHECK_EQ(trend_of(row).confidence, 1);
    row[COLUMNS - 1] = 101; /* more than it ever had */
    CHECK_EQ(trend_of(row).confidence, 3);
}

TEST(floors_a_little_below_earlier_ones_are_no_doubt)
{
    uint64_t row[COLUMNS] = {10, 20,  30,  40,  50,  60,  70,  80,
                             90, 100, 110, 120, 130, 140, 150, 146};
    CHECK_EQ(trend_of(row).n_rises, 10);
    CHECK_EQ(trend_of(row).confidence, 3);
}

TEST(floors_that_go_up_and_down_are_no_leak)
{
    static const uint64_t row[COLUMNS] = {10, 60, 30, 80, 20, 70, 40, 90,
                                          30, 80, 20, 60, 40, 90, 30, 95};
    CHECK_EQ(trend_of(row).confidence, 0);
}

/* Much is live at the end only because nothing was collected since. */
TEST(floors_few_rises_of_what_makes_garbage_are_chance)
{
    static const uint64_t row[COLUMNS] = {
        [12] = 10, [13] = 36, [14] = 43, [15] = 44};
    struct tide_r_counts counts = {.live_bytes = 1500000,
                                   .freed_bytes = 30000000,
                                   .young_bytes = 29900000};
    CHECK_EQ(trend_with(row, &counts).confidence, 0);
    counts.young_bytes = 30000000; /* nothing that survived has died */
    CHECK_EQ(trend_with(row, &counts).confidence, 2);
    CHECK_EQ(trend_with(row, &counts).n_rises, 4);
}

/* The same with collections between the columns that found less. */
TEST(floors_of_a_heap_that_does_not_rise_with_them_are_in_doubt)
{
    static const uint64_t row[COLUMNS] = {
        10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160};
    const struct tide_r_counts counts = {.live_bytes = 160 * 1024,
                                         .freed_bytes = 1000000};
    uint64_t bytes[TIDE_P_FLOORS] = {0};
    struct tide_r_floors floors = floors_of(row, bytes);
    floors.lows[14] = 4000000 + 70 * 1024; /* of 110 KiB: 20 are left */
    CHECK_EQ(tideR_trend(&floors, bytes, &counts).confidence, 2);
    floors.lows[14] = 4000000 + 80 * 1024;
    CHECK_EQ(tideR_trend(&floors, bytes, &counts).confidence, 3);
}

/* Less than half a kilobyte a cycle, of what dies old all the time. */
TEST(floors_of_a_slow_beat_are_in_doubt)
{
    uint64_t bytes[TIDE_P_FLOORS] = {0};
    const uint64_t none[COLUMNS] = {0};
    struct tide_r_floors floors = floors_of(none, bytes);
    struct tide_r_counts counts = {.live_bytes = 46000, .freed_bytes = 1000000};
    for (uint32_t i = 0; i < COLUMNS; i++) {
        bytes[i] = 38000 + 500 * i;
        floors.lows[i] = floors.heap[i] + bytes[i];
    }
    CHECK_EQ(tideR_trend(&floors, bytes, &counts).confidence, 1);
    counts.young_bytes = counts.freed_bytes; /* nothing that survived died */
    CHECK_EQ(tideR_trend(&floors, bytes, &counts).confidence, 3);
}

/* A text that grows: a collection sees two of it now and then. */
TEST(floors_of_one_large_block_are_seen_from_below)
{
    uint64_t row[COLUMNS] = {100, 120, 300, 160, 180, 400, 220, 480,
                             260, 560, 300, 640, 340, 700, 380, 800};
    struct tide_r_counts counts = {
        .live_bytes = 800 * 1024, .live_blocks = 2, .freed_bytes = 90000000};
    CHECK_EQ(trend_with(row, &counts).confidence, 1);
    counts.live_blocks = 200; /* a queue, a log: it goes up and down */
    CHECK_EQ(trend_with(row, &counts).confidence, 0);
    counts.live_blocks = 2;
    row[14] = 200; /* it was less again than at first, times what is seen */
    CHECK_EQ(trend_with(row, &counts).confidence, 0);
}

/* Its last column is that of the end: it stands since long ago. */
TEST(floors_of_a_block_that_has_grown_are_no_leak)
{
    static const uint64_t row[COLUMNS] = {100, 200, 300, 400, 500, 600,
                                          700, 690, 700, 690, 700, 690,
                                          700, 690, 700, 690};
    const struct tide_r_counts counts = {
        .live_bytes = 700 * 1024, .live_blocks = 1, .freed_bytes = 90000000};
    CHECK_EQ(trend_with(row, &counts).confidence, 0);
}

/* Four rises behind the warming up, to 900 KiB; nothing survives for long. */
static struct tide_r_trend trend_of_four(uint64_t first_kib)
{
    const struct tide_r_counts counts = {.live_bytes = 3000000,
                                         .freed_bytes = 30000000};
    uint64_t row[COLUMNS] = {0};
    uint64_t bytes[TIDE_P_FLOORS] = {0};
    for (uint32_t i = 1; i < 6; i++)
        row[i] = first_kib + (900 - first_kib) * (i - 1) / 4;
    struct tide_r_floors floors = floors_of(row, bytes);
    floors.n = floors.n_work = 6;
    floors.end_s = floors.seconds[5];
    floors.end_alloc = floors.alloc[5];
    return tideR_trend(&floors, bytes, &counts);
}

TEST(floors_few_rises_are_no_chance_where_it_is_many_times_as_much)
{
    CHECK_EQ(trend_of_four(440).n_rises, 4);
    CHECK_EQ(trend_of_four(440).confidence, 2);
    CHECK_EQ(trend_of_four(460).n_rises, 4);
    CHECK_EQ(trend_of_four(460).confidence, 0);
}

/* An array: it stands for long, then doubles at once. */
static struct tide_r_trend trend_of_doublings(uint64_t regrown_kib)
{
    static const uint64_t row[COLUMNS] = {64,  64,  128, 128, 256, 256,
                                          256, 256, 512, 512, 512, 512,
                                          512, 512, 512, 512};
    const struct tide_r_counts counts = {.live_bytes = 512 * 1024,
                                         .live_blocks = 40,
                                         .regrown_bytes = regrown_kib * 1024};
    uint64_t bytes[TIDE_P_FLOORS] = {0};
    struct tide_r_floors floors = floors_of(row, bytes);
    floors.n_since = 55; /* collections that saw no growth at all */
    return tideR_trend(&floors, bytes, &counts);
}

TEST(floors_of_a_table_that_doubles_need_not_rise_all_the_time)
{
    CHECK_EQ(trend_of_doublings(511).confidence, 1);
    CHECK_EQ(trend_of_doublings(300).confidence, 0); /* what else is there */
}
