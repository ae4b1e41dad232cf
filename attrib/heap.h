/*
** heap.h: the structures of attribution.
**
**   session    the process's profile: options, file, calibration, heaps
**   heap       one lua_State: its blocks, its tree, its counters
**   thread     one coroutine: its shadow stack
**   frame      one activation on a shadow stack
**   site       a place in the program, as a cache: (parent, function, pc)
**
** A heap is guarded by the lock that guards its lua_State; sessions have a
** lock of their own for the list of heaps.
*/
#ifndef TIDE_HEAP_H
#define TIDE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "../alloc/store.h"
#include "../common/assert.h"
#include "../common/options.h"
#include "../profile/writer.h"
#include "calibrate.h"
#include "gcwatch.h"

/* Places of the site cache: powers of 2; it grows with the tree. */
#define TIDE_SITES_FIRST 256u
#define TIDE_SITES_AMPLE 4096u /* for the tree alone to say when to grow */
#define TIDE_SITES_LAST  131072u

/* tide_p_cell.flags: freeing a block of it means more than a number. */
#define TIDE_CELL_WATCHED 1u

/*
** A place in the program: the innermost frame, called from node `parent`, at an
** instruction or in a C function.  Direct-mapped cache; what it says never
** changes.
*/
struct tide_site {
    uintptr_t at; /* see tideT_site_at; 0: none */
    uint32_t parent;
    uint32_t node;
    uint32_t cell[4]; /* cells of the node by kind & 3; 0: not known */
};

_Static_assert(sizeof(struct tide_site) == 32, "half a cache line");

/*
** What tells the places below a node apart: pc, as Lua saves it (behind the
** instruction), which tells the function as well, or the C function (pc: NULL).
*/
TIDE_INLINE uintptr_t tideT_site_at(const void *fn, const uint32_t *pc)
{
    return pc != NULL ? (uintptr_t)pc : (uintptr_t)fn;
}

/*
** `at` of a C function whose C frames are wanted: the fast path, which compares
** it with the function, does not find such a site.  Applied twice it is the
** function again.
*/
TIDE_INLINE uintptr_t tideT_native_at(uintptr_t at)
{
    return at ^ (uintptr_t)1 << 63;
}

TIDE_INLINE bool tideT_is_native(const struct tide_site *site)
{
    return site->at >> 63 != 0;
}

/* A prototype that was asked for lately. */
struct tide_proto_hit {
    const char *proto;
    struct tide_proto *info;
};
#define TIDE_PROTO_HITS 256u /* places; a power of two */

/* One activation that was seen. */
struct tide_frame {
    char *ci;           /* its CallInfo */
    const void *fn;     /* as in tide_site */
    const uint32_t *pc; /* for which `node` is right */
    uint64_t start;     /* the thread's clock when it was first seen */
    uint32_t parent;    /* node of the caller, or of "[finalizer]" */
    uint32_t node;
    bool is_lua;
    bool is_finalizer; /* called by the collector */
    bool is_new;       /* node and pc are not set yet */
};

/*
** One coroutine.  The threads that run or wait in a resume form a chain from
** the main thread to the running one; all others are off it.
*/
struct tide_thread {
    const lua_State *L;
    struct tide_frame *frames; /* before them: tideT_no_frame */
    uint32_t n_frames;
    uint32_t max_frames;
    uint32_t n_finalizers; /* of these frames: called by the collector */
    uint32_t base;         /* node that the frames hang below */
    bool on_chain;
    struct tide_thread *resumer; /* chain neighbour below */
    struct tide_thread *above;   /* chain neighbour above */
    const uint16_t *link;        /* callstatus of the frame that resumed us:
                                    unmarked when it has been left since */
    const lua_State *hint;       /* told by tide_resume_begin */
    uint64_t clock; /* off the chain: see tideT_clock; on it: to be added to
                       the heap's alloc_bytes, modulo 2^64 */
    struct tide_kept_region *kept; /* region.c: for the next walk; NULL: none */
    uint32_t n_kept;
    uint32_t max_kept;
};

/* Of the block of n frames and the one before them; 0 for n = 0. */
TIDE_INLINE size_t tideT_frames_bytes(uint32_t n)
{
    return n == 0 ? 0 : ((size_t)n + 1) * sizeof(struct tide_frame);
}

#define TIDE_PLACES_LOST UINT32_MAX

/* What is kept of a prototype: lines of all its instructions. */
struct tide_proto {
    const uint32_t *code;
    uint32_t func;
    int32_t n_code;    /* instructions */
    int32_t n;         /* ... whose lines are known: all or none */
    uint32_t bytes;    /* of this block */
    uint32_t n_places; /* sites filled for it; TIDE_PLACES_LOST: anywhere */
    uint32_t max_places;
    uint32_t *places; /* where they are, or were; NULL: none */
    uint32_t lines[];
};

/* A block whose kind is only known at the next call of the allocator. */
struct tide_pending {
    char *block; /* NULL: none */
    size_t bytes;
    uint32_t cell; /* charged to for now */
    uint32_t node;
    char *ci;          /* CallInfo that was current */
    bool is_compiling; /* by the function that compiles */
    enum {
        TIDE_PENDING_CALLINFO, /* perhaps ci's next */
        TIDE_PENDING_CODE,     /* perhaps a vector of a prototype */
        TIDE_PENDING_BUFFER,   /* perhaps not counted by Lua */
    } what;
    int64_t total; /* Lua's own count before it */
    uint64_t live; /* ours */
};

/* What the blocks of a heap may hold together (limit.c). */
struct tide_limit {
    uint64_t bytes;       /* 0: no limit */
    uint64_t large_bytes; /* held in blocks of more than TIDE_SMALL_MAX */
    uint32_t n_lost;      /* cycles since the arena was trimmed for it */
    uint32_t n_wait;      /* ... to wait for */
    bool is_tight;        /* blocks are looked at one by one */
};

/* The last allocation that failed: will it be tried again? (limit.c) */
struct tide_failure {
    const void *ptr; /* as given to the allocator */
    size_t osize;
    size_t nsize;
    uint64_t alloc_bytes; /* allocated in all then */
    bool is_open;         /* it is not known yet */
    bool is_kept;         /* one has failed for good: its mark stays */
};

#define TIDE_PROTOS_OPEN 64u /* prototypes remembered while compiling */

/* The table constructor at the site, for which a block was made last. */
struct tide_made {
    uintptr_t pc; /* behind it; 0: the block was no table */
    uint32_t array_bytes;
    uint32_t hash_bytes;
    uint8_t parts; /* bit 0: has an array part, bit 1: a hash part */
};

struct tide_heap {
    /* what the fast path reads, in its order */
    const struct tide_ra *ras;
    uint64_t ra_multiplier;
    const lua_State *cur_L; /* running thread; NULL: take the slow path */
    const char *gc_at;      /* TIDE_GC_WORD_AT in global_State */
    uint64_t gc_word;       /* masked word seen last */
    uint64_t gc_mask;
    const char *top_ci;      /* innermost frame of cur_L */
    const uint16_t *link;    /* see tide_thread.link */
    const char *top_closure; /* function of top_ci */
    struct tide_site *site;  /* where we are */
    struct tide_p_cell *cells;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t alloc_bytes; /* allocated in all: the clock of calls */
    uint32_t epoch;       /* number of the present peak */
    uint32_t cycle;       /* number of the collection cycle */
    uint16_t mark_mask;   /* CIST_MARK and CIST_TAIL */
    bool top_is_lua;
    bool peak_is_past;
    bool is_untagged_slow; /* blocks without a kind need a second look */
    bool is_newborn;       /* a coroutine was made, its stack is next */
    bool is_compiling;     /* a prototype was made, no Lua ran since */
    uint8_t parts_left;    /* of `made`, still to come */
    struct tide_made made;

    struct tide_store store;

    /* the rest is cold */
    struct tide_session *session;
    struct tide_heap *next; /* the session's list */
    const struct tide_cal *cal;
    struct tide_p_rest
        *rests; /* 0: none; as many as there are cells, at most */
    struct tide_p_life *lives; /* 0: for what there is no memory for */
    struct tide_p_node *nodes;
    struct tide_p_func *funcs;
    struct tide_p_heap *head;
    struct tide_p_cycle *cycles;
    struct tide_p_object *objects;
    struct tide_writer *writer;
    uint32_t number;       /* of the heap in the profile */
    uint32_t string_bytes; /* as the head has them: a forked child finds there
                              what they were at the fork */
    uint32_t n_nodes;
    uint32_t n_cells;
    uint32_t n_funcs;
    uint32_t n_objects;
    uint32_t n_targets; /* records, and by function: number of it + 1 */
    struct tide_hashtab targets;
    struct tide_section sections[TIDE_P_SECTION_COUNT_];
    struct tide_mem mem;

    const char *g; /* global_State; NULL: not made yet */
    const lua_State *main_L;
    struct tide_thread *main;
    struct tide_thread *cur;        /* end of the chain */
    struct tide_hashtab threads;    /* lua_State to struct tide_thread */
    struct tide_hashtab protos;     /* Proto to struct tide_proto */
    struct tide_hashtab cfuncs;     /* C function to index in FUNCS */
    struct tide_hashtab luafuncs;   /* source, line to index in FUNCS */
    struct tide_hashtab coroutines; /* source, line to index in FUNCS */
    struct tide_hashtab strings;    /* hash of text to offset in STRINGS */
    struct tide_hashtab regions;    /* offset of a name to struct tide_region */
    struct tide_site *sites;
    struct tide_proto_hit proto_hits[TIDE_PROTO_HITS];
    uint32_t n_sites;
    uint32_t n_evicted;      /* sites overwritten since the table has grown */
    uint32_t site_shift;     /* 64 - log2(n_sites) */
    struct tide_edge *edges; /* tree.c */
    uint32_t edge_mask;
    uint32_t n_edges;
    struct tide_fold *folds;
    uint32_t n_folds;
    uint32_t max_folds;
    uint32_t n_chunks;            /* generated chunks kept apart so far */
    uint32_t other_chunks;        /* their function; 0: none yet */
    uint32_t other_stacks;        /* node; 0: none yet */
    uint32_t finalizer;           /* node; 0: none yet */
    uint32_t n_hints;             /* threads whose resumer was told */
    struct tide_site root_site;   /* no frame at all */
    struct tide_site off_site;    /* the recording is off */
    struct tide_site public_site; /* public.c: where we are */
    struct tide_site native_site; /* where C frames were last wanted */

    uint64_t cycle_freed; /* freed in all, when the cycle began */
    uint64_t cycle_freed_blocks;
    uint64_t freed_blocks;
    struct tide_gcwatch gc;
    struct tide_gclog log;
    struct tide_huge huge;
    struct tide_pending pending;
    bool is_closing;  /* lua_close has begun */
    bool is_off;      /* not recording */
    bool is_detached; /* off by tide_heap_detach, whatever the session is */
    bool is_dead;     /* the state is gone */
    bool is_idle;     /* no state: waits for the next one */
    bool is_whole;    /* public.c: the state can be asked */
    bool wants_clear; /* recording was switched: shadows are stale */
    char *open_protos[TIDE_PROTOS_OPEN]; /* made while compiling, a ring */
    uint32_t n_protos;
    char *last_table;         /* made while compiling */
    const uint32_t *parts_pc; /* constructor whose parts are to come */
    struct tide_thread *compile_thread; /* frame that compiles, by thread, */
    uint32_t compile_frame;             /* ... place on its shadow stack + 1 */
    uint64_t compile_start;             /* and its start, to know it again */
    const lua_State *last_L;            /* captured last on the slow path */
    bool is_last_untagged;              /* ... for a new block without a kind */
    const lua_State *moving_L;          /* its stack is being reallocated */
    size_t moving_bytes;                /* the old stack's size */
    char *main_block;                   /* first block of the state */
    char *last_vector;                  /* last block without a kind */
    size_t last_vector_bytes;
    uint64_t last_vector_alloc;       /* alloc_bytes right after it */
    struct tide_native *native;       /* walks of C frames; NULL: none */
    struct tide_fork_note *fork_note; /* what it held at the last fork */
    struct tide_limit limit;
    struct tide_failure failure;
    const uint32_t *request; /* number of the last command from outside */
    uint32_t control_seen;   /* ... of the last that was looked at */
    uint32_t n_resets;       /* of the session's resets, followed so far */
    bool is_woken;           /* set by the signal's handler: look */
};

struct tide_session {
    struct tide_options options;
    struct tide_cal cal;
    struct tide_writer *writer;
    struct tide_unwind *unwind; /* NULL: no C frames are wanted, or had */
    struct tide_heap *heaps;    /* all, also idle ones; guarded by lock */
    struct tide_session *next;  /* list for fork, guarded by its lock */
    int lock;
    bool is_off;
    bool is_forked;        /* in a child that has not allocated yet */
    bool is_finished;      /* closed, but blocks are still in use */
    bool said_full;        /* the full disk was reported */
    bool has_signal;       /* the handler of options.signal is ours */
    uint32_t signals;      /* delivered; written by the handler */
    uint32_t signals_seen; /* of these acted on; guarded by lock */
    uint32_t control_seen; /* number of the last command; guarded by lock */
    uint32_t n_resets;     /* asked for from outside */
    uint32_t n_saves;      /* by the signal */
};

#endif
