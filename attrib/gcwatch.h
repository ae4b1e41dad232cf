/*
** gcwatch.h: what a heap knows of its collector (gcwatch.c).
*/
#ifndef TIDE_GCWATCH_H
#define TIDE_GCWATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/gcrate.h"

/* A call of lua_gc that is under way: tide_gc_begin, tide_gc_end. */
struct tide_gc_call {
    bool is_active;
    unsigned depth;    /* calls within it: finalizers */
    int what;          /* LUA_GC* of lua.h */
    uint32_t node;     /* what called it */
    uint64_t start_ns; /* when */
    uint32_t cycle;    /* collections seen before it */
};

/* The line that is written now and then (gclog.c). */
struct tide_gclog {
    uint64_t every_ns; /* 0: none */
    uint64_t next_ns;
};

/* What the last huge block has changed (huge.c). */
struct tide_huge {
    uint32_t cell; /* it was noted for; 0: none was */
    uint32_t place;
    uint32_t n_before;         /* records before it */
    size_t bytes;              /* its size */
    struct tide_p_huge before; /* what stood in the place */
};

struct tide_gcwatch {
    uint64_t cycle_alloc; /* allocated in all, when the last one was noted */
    uint64_t alloc_base;  /* ... when counting began: at a fork, a reset */
    uint64_t flip_ns;     /* when the last cycle was noted */
    uint64_t mark_ns;     /* when marking was seen to begin; 0: not */
    uint64_t reclaimed_bytes; /* freed by cycles that are over */
    uint64_t floor_bytes;     /* what the last cycle that is over has left */

    bool is_generational; /* as the program has asked for */
    bool is_stopped;
    bool is_over; /* no cycle goes on: none yet, or its state is closed */
    bool knows_parameters; /* those that follow */
    uint16_t pause;        /* percent; 0: not known, or set to that */
    uint16_t step;
    struct tide_gc_call call;
    uint64_t failed_ns; /* when an allocation failed last; 0: never */
    uint64_t run_ns;    /* when a large object was freed last; 0: see below */
    uint64_t run_alloc; /* allocated in all by then */

    /* survivors */
    struct tide_note *notes; /* of cells, in survive.c; in the heap's `mem` */
    uint32_t n_notes;
    uint32_t max_notes;
    uint32_t noted_cycle; /* whose notes stand; 0: none */
    uint32_t next_cycle;  /* the next one to note */
    uint64_t noted_alloc; /* allocated in all when one was noted last */
    uint32_t stride;      /* cycles between two columns; 0: as 1 */
    uint64_t pass_ns;     /* spent in passes over the cells */

    /* the timeline */
    uint64_t next_moment_ns;
    uint64_t moment_every_ns;  /* 0: not begun */
    struct tide_p_moment high; /* where the heap stood highest since the last */
    uint64_t next_rss_ns;

    struct tide_gcrate rate; /* for tide_gc_stats */
    uint64_t rate_due_ns;    /* when its window is over; 0: not begun */
};

#endif
