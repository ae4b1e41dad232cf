/*
** test_gcrate.c: the rules of GC watchers, by injected heap and clock.
*/
#include "../../common/gcrate.h"
#include "../tap.h"

static struct tide_gcrate started(double window_s, double heap_kb)
{
    struct tide_gcrate rate;
    tideC_gcrate_start(&rate, window_s, 100.0, heap_kb);
    return rate;
}

TEST(gcrate_starts_at_nothing)
{
    struct tide_gcrate rate = started(0, 70);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 100.0);
    CHECK(rate.window_s == TIDE_GCRATE_WINDOW_S);
    CHECK(f.heap_kb == 70 && f.peak_heap_kb == 70);
    CHECK(f.alloc_kb_per_sec == 0 && f.cycles_per_min == 0);
    CHECK(f.cycles == 0 && f.avg_reclaim_kb == 0);
}

TEST(gcrate_growth_is_allocation_and_a_shrink_is_reclaim)
{
    struct tide_gcrate rate = started(5, 100);
    tideC_gcrate_sample(&rate, 100.1, 150);
    tideC_gcrate_sample(&rate, 100.2, 120);
    /* the cycle closes when the heap grows again */
    CHECK_EQ(tideC_gcrate_figures(&rate, 100.2).cycles, 0);
    tideC_gcrate_sample(&rate, 100.3, 125);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 100.3);
    CHECK_EQ(f.cycles, 1);
    CHECK(f.last_reclaim_kb == 30);
    CHECK(f.reclaimed_kb == 30 && f.avg_reclaim_kb == 30);
    CHECK(f.heap_kb == 125 && f.peak_heap_kb == 150);
    CHECK(rate.alloc_kb == 55);
}

TEST(gcrate_drops_in_a_row_are_one_reclaim)
{
    struct tide_gcrate rate = started(5, 100);
    const double heaps[] = {90, 80, 80, 60, 61};
    for (unsigned i = 0; i < 5; i++)
        tideC_gcrate_sample(&rate, 100.1 + i * 0.1, heaps[i]);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 101);
    CHECK_EQ(f.cycles, 1);
    CHECK(f.last_reclaim_kb == 40);
}

TEST(gcrate_a_heap_that_stands_books_nothing)
{
    struct tide_gcrate rate = started(5, 100);
    for (unsigned i = 1; i <= 20; i++)
        tideC_gcrate_sample(&rate, 100 + i * 0.1, 100);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 102);
    CHECK_EQ(f.cycles, 0);
    CHECK(f.alloc_kb_per_sec == 0 && f.reclaimed_kb == 0);
}

TEST(gcrate_averages_over_cycles)
{
    struct tide_gcrate rate = started(5, 100);
    const double heaps[] = {90, 91, 61, 62};
    for (unsigned i = 0; i < 4; i++)
        tideC_gcrate_sample(&rate, 100.1 + i * 0.1, heaps[i]);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 101);
    CHECK_EQ(f.cycles, 2);
    CHECK(f.last_reclaim_kb == 30);
    CHECK(f.reclaimed_kb == 40 && f.avg_reclaim_kb == 20);
}

TEST(gcrate_rates_are_estimated_after_a_second)
{
    struct tide_gcrate rate = started(5, 100);
    tideC_gcrate_sample(&rate, 100.5, 150);
    CHECK(tideC_gcrate_figures(&rate, 100.99).alloc_kb_per_sec == 0);
    CHECK(tideC_gcrate_figures(&rate, 101).alloc_kb_per_sec == 50);
    CHECK(tideC_gcrate_figures(&rate, 102).alloc_kb_per_sec == 25);
}

TEST(gcrate_rates_are_those_of_the_last_closed_window)
{
    struct tide_gcrate rate = started(5, 100);
    for (unsigned i = 1; i <= 5; i++) {
        tideC_gcrate_sample(&rate, 99.5 + i, 200);
        tideC_gcrate_sample(&rate, 100.0 + i, 100);
    }
    /* five growths of 100; the shrink of the fifth is not closed yet */
    struct tide_gc_figures f = tideC_gcrate_figures(&rate, 105);
    CHECK(f.alloc_kb_per_sec == 100);
    CHECK(f.cycles_per_min == 48);
    tideC_gcrate_sample(&rate, 107, 900);
    f = tideC_gcrate_figures(&rate, 109);
    CHECK(f.alloc_kb_per_sec == 100); /* the window is open still */
    tideC_gcrate_sample(&rate, 110, 900);
    f = tideC_gcrate_figures(&rate, 110);
    CHECK(f.alloc_kb_per_sec == 160);
    CHECK(f.cycles_per_min == 12);
}

TEST(gcrate_a_late_sample_closes_a_longer_window)
{
    struct tide_gcrate rate = started(5, 0);
    tideC_gcrate_sample(&rate, 120, 100);
    CHECK(tideC_gcrate_figures(&rate, 120).alloc_kb_per_sec == 5);
}

TEST(gcrate_a_clock_that_goes_back_closes_nothing)
{
    struct tide_gcrate rate = started(5, 0);
    tideC_gcrate_sample(&rate, 90, 100);
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 90);
    CHECK(f.alloc_kb_per_sec == 0 && f.heap_kb == 100);
}

TEST(gcrate_exact_counters_see_what_samples_miss)
{
    struct tide_gcrate rate = started(5, 100);
    struct tide_gc_counters counters = {.heap_kb = 100,
                                        .peak_heap_kb = 180,
                                        .alloc_kb = 1000,
                                        .cycles = 7,
                                        .last_reclaim_kb = 80,
                                        .reclaimed_kb = 900};
    tideC_gcrate_join(&rate, &counters);
    CHECK(tideC_gcrate_figures(&rate, 102).alloc_kb_per_sec == 0);
    counters.alloc_kb = 1500;
    counters.cycles = 12;
    counters.reclaimed_kb = 1400;
    tideC_gcrate_count(&rate, 105, &counters); /* the heap has not changed */
    const struct tide_gc_figures f = tideC_gcrate_figures(&rate, 105);
    CHECK(f.alloc_kb_per_sec == 100);
    CHECK(f.cycles_per_min == 60);
    CHECK_EQ(f.cycles, 12);
    CHECK(f.last_reclaim_kb == 80);
    CHECK(f.avg_reclaim_kb == 1400.0 / 12);
    CHECK(f.peak_heap_kb == 180);
}
