/*
** gcrate.h: the figures of a GC watcher, as a pure function of what it is told.
**
** Two ways to feed it; one watcher uses one of them:
**
**   sampled  the heap's size now and then.  Growth is allocation.  A shrink is
**            reclaim: consecutive drops add up to one reclaim, and the first
**            growth after them closes one cycle.  An unchanged heap books
**            nothing.
**   exact    counters of an allocator: true cycles and bytes.
**
** Rates are those of the last closed window.  Before the first one closes they
** are estimated from the partial window once it is a second old, and are 0
** before that.  It takes no time itself, allocates nothing and never fails.
*/
#ifndef TIDE_GCRATE_H
#define TIDE_GCRATE_H

#include <stdbool.h>
#include <stdint.h>

#define TIDE_GCRATE_WINDOW_S 5.0 /* the usual window, seconds */

/* The names are GcWatch's, a tool that people know. */
struct tide_gc_figures {
    double heap_kb;          /* HeapKb: now */
    double peak_heap_kb;     /* PeakHeapKb: most seen */
    double alloc_kb_per_sec; /* AllocKbPerSec */
    double cycles_per_min;   /* CyclesPerMin */
    uint64_t cycles;         /* Cycles: closed since the start */
    double last_reclaim_kb;  /* LastReclaimKb: by the last cycle */
    double avg_reclaim_kb;   /* AvgReclaimKb: ReclaimedKb / Cycles */
    double reclaimed_kb;     /* ReclaimedKb: by all cycles */
};

struct tide_gcrate {
    double window_s;  /* 0: not started */
    double start_s;   /* of the open window */
    bool has_closed;  /* a window has closed: rates are its */
    double alloc_kb;  /* in the open window */
    double n_closing; /* cycles in the open window */
    double drop_kb;   /* of the shrink that goes on; 0: none */
    double total_kb;  /* exact: allocated in all, as told last */
    struct tide_gc_figures now;
};

/* Counters for the exact way, all since the start. */
struct tide_gc_counters {
    double heap_kb;
    double peak_heap_kb;
    double alloc_kb;
    uint64_t cycles;
    double last_reclaim_kb;
    double reclaimed_kb;
};

/* Starts a watcher.  window_s <= 0: the usual window. */
void tideC_gcrate_start(struct tide_gcrate *rate, double window_s, double now_s,
                        double heap_kb);

/* The heap's size at now_s, in KiB.  A clock that goes back is as if it
** stood. */
void tideC_gcrate_sample(struct tide_gcrate *rate, double now_s,
                         double heap_kb);

/* The counters at now_s. */
void tideC_gcrate_count(struct tide_gcrate *rate, double now_s,
                        const struct tide_gc_counters *counters);

/*
** Begins in the middle: what these say had happened is in the sums and in no
** window.
*/
void tideC_gcrate_join(struct tide_gcrate *rate,
                       const struct tide_gc_counters *counters);

/* The figures as of now_s. */
struct tide_gc_figures tideC_gcrate_figures(const struct tide_gcrate *rate,
                                            double now_s);

#endif
