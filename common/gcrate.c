/*
** gcrate.c: windows, reclaims and rates: see gcrate.h for the rules.
**
** What happened between two calls belongs to the window that is open at the
** second one; a window closes at the first call that is window_s or more after
** its start, and its rates are over the time that it really took.
*/
#include "gcrate.h"

#define SETTLED_S 1.0 /* a partial window is believed after that */

void tideC_gcrate_start(struct tide_gcrate *rate, double window_s, double now_s,
                        double heap_kb)
{
    *rate = (struct tide_gcrate){
        .window_s = window_s > 0 ? window_s : TIDE_GCRATE_WINDOW_S,
        .start_s = now_s,
        .now = {.heap_kb = heap_kb, .peak_heap_kb = heap_kb},
    };
}

static void set_rates(const struct tide_gcrate *rate, double now_s,
                      struct tide_gc_figures *out)
{
    const double seconds = now_s - rate->start_s;
    out->alloc_kb_per_sec = rate->alloc_kb / seconds;
    out->cycles_per_min = rate->n_closing * 60 / seconds;
}

static void close_window(struct tide_gcrate *rate, double now_s)
{
    if (now_s - rate->start_s < rate->window_s)
        return;
    set_rates(rate, now_s, &rate->now);
    rate->has_closed = true;
    rate->start_s = now_s;
    rate->alloc_kb = 0;
    rate->n_closing = 0;
}

static void close_cycle(struct tide_gcrate *rate)
{
    struct tide_gc_figures *now = &rate->now;
    now->cycles++;
    now->last_reclaim_kb = rate->drop_kb;
    now->reclaimed_kb += rate->drop_kb;
    now->avg_reclaim_kb = now->reclaimed_kb / (double)now->cycles;
    rate->n_closing++;
    rate->drop_kb = 0;
}

void tideC_gcrate_sample(struct tide_gcrate *rate, double now_s, double heap_kb)
{
    const double change_kb = heap_kb - rate->now.heap_kb;
    rate->now.heap_kb = heap_kb;
    if (heap_kb > rate->now.peak_heap_kb)
        rate->now.peak_heap_kb = heap_kb;
    if (change_kb < 0) {
        rate->drop_kb -= change_kb;
    } else if (change_kb > 0) {
        rate->alloc_kb += change_kb;
        if (rate->drop_kb > 0)
            close_cycle(rate);
    }
    close_window(rate, now_s);
}

static void set_sums(struct tide_gcrate *rate,
                     const struct tide_gc_counters *counters)
{
    struct tide_gc_figures *now = &rate->now;
    rate->total_kb = counters->alloc_kb;
    now->cycles = counters->cycles;
    now->heap_kb = counters->heap_kb;
    now->peak_heap_kb = counters->peak_heap_kb;
    now->last_reclaim_kb = counters->last_reclaim_kb;
    now->reclaimed_kb = counters->reclaimed_kb;
    now->avg_reclaim_kb =
        now->cycles == 0 ? 0 : now->reclaimed_kb / (double)now->cycles;
}

void tideC_gcrate_join(struct tide_gcrate *rate,
                       const struct tide_gc_counters *counters)
{
    set_sums(rate, counters);
}

void tideC_gcrate_count(struct tide_gcrate *rate, double now_s,
                        const struct tide_gc_counters *counters)
{
    rate->alloc_kb += counters->alloc_kb - rate->total_kb;
    rate->n_closing += (double)(counters->cycles - rate->now.cycles);
    set_sums(rate, counters);
    close_window(rate, now_s);
}

struct tide_gc_figures tideC_gcrate_figures(const struct tide_gcrate *rate,
                                            double now_s)
{
    struct tide_gc_figures out = rate->now;
    if (!rate->has_closed && now_s - rate->start_s >= SETTLED_S)
        set_rates(rate, now_s, &out);
    return out;
}
