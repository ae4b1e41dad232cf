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

struct tide_gcwatch {
    uint64_t cycle_alloc; /* allocated in all, when the last one was noted */
    uint64_t alloc_base;  /* ... when counting began: at a fork, a reset */
    uint64_t flip_ns;     /* when the last cycle was noted */
    uint64_t mark_ns;     /* when marking was seen to begin; 0: not */
    uint64_t reclaimed_bytes; /* freed by cycles that are over */
    uint64_t floor_bytes;     /* what the last cycle that is over has left */

    bool is_generational; /* as the program has asked for */
    bool is_stopped;
    bool is_over;   /* no cycle goes on: none yet, or its state is closed */
    uint16_t pause; /* percent; 0: not known */
    uint16_t step;
    struct tide_gc_call call;

    /* survivors */
    uint32_t noted_cycle; /* whose held_bytes and freed_bytes stand; 0: none */
    uint32_t next_cycle;  /* the next one to note */
    uint32_t stride;      /* cycles between two columns; 0: as 1 */
    uint64_t pass_ns;     /* spent in passes over the cells */

    /* the timeline */
    uint64_t next_moment_ns;
    uint64_t moment_every_ns; /* 0: not begun */
    uint64_t next_rss_ns;

    struct tide_gcrate rate; /* for tide_gc_stats */
};

#endif
