/*
** probe.h: the throwaway state of the calibration, shared by calibrate.c
** (events), probe.c (workload) and verify.c (layout).
*/
#ifndef TIDE_PROBE_H
#define TIDE_PROBE_H

#include "../common/mem.h"
#include "evidence.h"

struct tide_probe {
    const struct tide_lua_api *api;
    struct tide_cal *cal; /* what is being filled */
    struct tide_mem mem;  /* the state's blocks: nothing is left of them */
    struct tide_evidence evidence;
    struct tide_layout layout;
    char fault[128]; /* first thing that the layout got wrong */
    const char *g;   /* global_State, once known */
    bool has_layout; /* verified: private fields may be read */
    bool fail_first; /* fail each first attempt */
    bool in_retry;
    bool last_was_thread;     /* the last new block was a coroutine */
    const lua_State *running; /* NULL: not known */
    unsigned running_index;   /* number of that thread */
    unsigned n_threads;
    const lua_State *threads[32]; /* by number */
    struct tide_ev_ra *last;      /* last allocation, until it is settled */
    int64_t last_delta;           /* bytes it added */
    int64_t last_total;           /* Lua's own count before it */
    uint16_t plain_status;        /* callstatus bits seen by the checks */
    uint16_t tail_status;
    int registry_index; /* LUA_REGISTRYINDEX of this version */
    bool saw_finalizer;
    bool saw_frame;
    const char *first_block; /* main thread and global_State */
    size_t first_bytes;
    bool is_foreign_version; /* not Lua 5.4: no layout */
};

/* The allocator of the throwaway state (entry.S). */
TIDE_HIDDEN void *tideT_probe_entry(void *ud, void *ptr, size_t osize,
                                    size_t nsize);

/* Makes the state, verifies, runs the workload, closes it. */
void tideT_probe_run(struct tide_probe *p, struct tide_cal *cal);

/* This thread runs from now on; NULL: not known. */
void tideT_probe_running(struct tide_probe *p, const lua_State *L);

/*
** Verifies layout54 against the public API in state L.  Sets p->layout,
** p->has_layout, p->g, or p->fault.
*/
void tideT_verify(struct tide_probe *p, lua_State *L);

/* The same for the frames of a C function called from Lua. */
void tideT_verify_frame(struct tide_probe *p, lua_State *L);

/* What is only known after the workload: bits of callstatus, sizes. */
void tideT_verify_end(struct tide_probe *p);

/*
** The Lua part of the workload, and checks in it that need its functions:
** `mark`, `blind`, `checkframe`, `checktail`, `checkfin` are given as globals.
*/
extern const char tideT_workload[];

#endif
