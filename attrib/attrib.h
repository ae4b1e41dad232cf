/*
** attrib.h: the structures of attribution, shared by the files of this folder.
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
#ifndef TIDE_ATTRIB_H
#define TIDE_ATTRIB_H

#include <stdbool.h>
#include <stdint.h>

#include "../alloc/store.h"
#include "../common/assert.h"
#include "../common/options.h"
#include "../profile/writer.h"
#include "calibrate.h"
#include "gcwatch.h"

/* Places of the site cache: powers of 2; it grows with the tree. */
#define TIDE_SITES_FIRST 4096u
#define TIDE_SITES_LAST  131072u

/* tide_p_cell.flags: freeing a block of it means more than a number. */
#define TIDE_CELL_WATCHED 1u

/*
** A place in the program: the innermost frame (function `fn`, called from node
** `parent`) at `pc`.  Direct-mapped cache; what it says never changes.
*/
struct tide_site {
    uint32_t parent;
    uint32_t node;
    const void *fn;       /* Proto of a Lua function, or C function */
    const uint32_t *pc;   /* as saved: behind the instruction; NULL: C */
    uint32_t cell[4];     /* cells of the node by kind & 3; 0: not known */
    uint32_t array_bytes; /* table constructor at pc: its parts */
    uint32_t hash_bytes;
    uint32_t func;     /* index in FUNCS */
    uint32_t parts;    /* bit 0: has an array part, bit 1: a hash part */
    uint64_t reserved; /* a site is one cache line */
};

_Static_assert(sizeof(struct tide_site) == 64, "one cache line");

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
    uint32_t func;
    uint8_t is_lua;
    uint8_t is_finalizer; /* called by the collector */
    uint8_t is_new;       /* node and pc are not set yet */
    uint8_t reserved;
};

/*
** One coroutine.  The threads that run or wait in a resume form a chain from
** the main thread to the running one; all others are off it.
*/
struct tide_thread {
    const lua_State *L;
    struct tide_frame *frames;
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
};

/* What is kept of a prototype: lines of all its instructions. */
struct tide_proto {
    uint32_t func;
    int32_t n;          /* instructions */
    uint32_t bytes;     /* of this block */
    uint32_t n_places;  /* sites filled for it, in all */
    uint32_t places[8]; /* where the first of them are */
    uint32_t lines[];
};

/* A block whose kind is only known at the next call of the allocator. */
struct tide_pending {
    char *block; /* NULL: none */
    size_t bytes;
    uint32_t cell; /* charged to for now */
    uint32_t node;
    char *ci; /* CallInfo that was current */
    enum {
        TIDE_PENDING_CALLINFO, /* perhaps ci's next */
        TIDE_PENDING_CODE,     /* perhaps a vector of a prototype */
        TIDE_PENDING_BUFFER,   /* perhaps not counted by Lua */
    } what;
    int64_t total; /* Lua's own count before it */
    uint64_t live; /* ours */
};

#define TIDE_PROTOS_OPEN 64u /* prototypes remembered while compiling */

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
    uint8_t parts_left;    /* parts of the constructor still to come */

    struct tide_store store;

    /* the rest is cold */
    struct tide_session *session;
    struct tide_heap *next; /* the session's list */
    const struct tide_cal *cal;
    struct tide_p_node *nodes;
    struct tide_p_func *funcs;
    struct tide_p_heap *head;
    struct tide_p_cycle *cycles;
    struct tide_writer *writer;
    uint32_t number; /* of the heap in the profile */
    uint32_t n_nodes;
    uint32_t n_cells;
    uint32_t n_funcs;
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
    struct tide_site *sites;
    struct tide_proto_hit proto_hits[TIDE_PROTO_HITS];
    uint32_t n_sites;
    uint32_t site_shift;     /* 64 - log2(n_sites) */
    struct tide_edge *edges; /* tree.c */
    uint32_t edge_mask;
    uint32_t n_edges;
    uint32_t n_chunks;            /* generated chunks kept apart so far */
    uint32_t other_chunks;        /* their function; 0: none yet */
    uint32_t other_stacks;        /* node; 0: none yet */
    uint32_t finalizer;           /* node; 0: none yet */
    uint32_t n_hints;             /* threads whose resumer was told */
    struct tide_site root_site;   /* no frame at all */
    struct tide_site off_site;    /* the recording is off */
    struct tide_site public_site; /* public.c: where we are */

    uint64_t cycle_freed; /* freed in all, when the cycle began */
    uint64_t cycle_freed_blocks;
    uint64_t freed_blocks;
    struct tide_gcwatch gc;
    struct tide_pending pending;
    bool is_newborn;   /* a coroutine was made, its stack is next */
    bool is_compiling; /* a prototype was made, no Lua ran since */
    bool is_closing;   /* lua_close has begun */
    bool is_off;       /* not recording */
    bool is_detached;  /* off by tide_heap_detach, whatever the session is */
    bool is_dead;      /* the state is gone */
    bool is_idle;      /* no state: waits for the next one */
    bool is_whole;     /* public.c: the state can be asked */
    bool wants_clear;  /* recording was switched: shadows are stale */
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
    struct tide_fork_note *fork_note; /* what it held at the last fork */
};

struct tide_session {
    struct tide_options options;
    struct tide_cal cal;
    struct tide_writer *writer;
    struct tide_heap *heaps;   /* all, also idle ones; guarded by lock */
    struct tide_session *next; /* list for fork, guarded by its lock */
    int lock;
    bool is_off;
    bool is_forked;   /* in a child that has not allocated yet */
    bool is_finished; /* closed, but blocks are still in use */
    bool said_full;   /* the full disk was reported */
};

/* The allocator (hot.c, slow.c).  Called from entry.S. */
TIDE_HIDDEN void *tideT_alloc(void *heap, void *ptr, size_t osize, size_t nsize,
                              const uintptr_t *words);
TIDE_HIDDEN void *tideT_free(void *heap, void *ptr, size_t osize, size_t nsize);
TIDE_COLD void *tideT_free_slow(struct tide_heap *h, void *ptr, size_t osize);
void *tideT_alloc_slow(struct tide_heap *h, size_t osize, size_t nsize,
                       const uintptr_t *words);
/* A block from any origin, once its cell is known. */
void *tideT_alloc_large(struct tide_heap *h, struct tide_p_cell *cell,
                        size_t osize, size_t nsize);
void *tideT_realloc_slow(struct tide_heap *h, void *ptr, size_t osize,
                         size_t nsize, const uintptr_t *words);

/* The collector (gcwatch.c). */
/* A state was met: what to watch. */
void tideT_gc_meet(struct tide_heap *h);
/* The watched word of global_State has changed. */
TIDE_COLD void tideT_note_gc(struct tide_heap *h);
/* A point of the timeline, when one is due. */
void tideT_gc_moment(struct tide_heap *h, uint64_t now_ns);
/* The figures of the last collection cycle, so far. */
void tideT_settle_cycle(struct tide_heap *h);
void tideT_gc_flush(struct tide_heap *h);
/* The state is about to be closed; counting begins anew. */
void tideT_gc_closing(struct tide_heap *h);
void tideT_gc_reset(struct tide_heap *h);

/* Peaks, closing (account.c). */
void tideT_peak_save(struct tide_heap *h, struct tide_p_cell *cell);
void tideT_peak_rise(struct tide_heap *h);
void tideT_pending_settle(struct tide_heap *h);
/* osize bytes of a block pass from one cell to another. */
void tideT_move(struct tide_heap *h, uint32_t from, uint32_t to, size_t bytes);
/* True when the free was accounted for here: a stack had been resized. */
bool tideT_freed_watched(struct tide_heap *h, char *ptr, size_t bytes,
                         enum tide_kind kind);
void tideT_freed_foreign(struct tide_heap *h, const char *ptr, size_t bytes);
/* lua_close has begun, and has ended. */
void tideT_closing(struct tide_heap *h);
void tideT_state_gone(struct tide_heap *h);

/*
** Finds where the program is: sets h->site and the state of the fast path.
** ra NULL: the caller's address is not known.
** osize, nsize  as given to the allocator; osize is a kind when ptr is NULL.
** Returns the kind of the new block.  (locate.c)
*/
enum tide_kind tideT_locate(struct tide_heap *h, const struct tide_ra *ra,
                            const uintptr_t *words, const void *ptr,
                            size_t osize, size_t nsize);

/* Kind of a new block by Lua's own kind, which is the osize of a new one. */
extern const uint8_t tideT_kind_of[16];

TIDE_INLINE enum tide_kind tideT_kind_of_tag(size_t osize)
{
    return (enum tide_kind)tideT_kind_of[osize & 15];
}

/* The state is whole enough to be read: h->g and the main thread are set. */
void tideT_meet_state(struct tide_heap *h);

/* In a forked child, before it counts: a file of its own (fork.c). */
TIDE_COLD void tideT_after_fork(struct tide_session *s);

/* Is OP_SETLIST resizing ptr to that many bytes? */
bool tideT_is_setlist(const lua_State *L, const struct tide_frame *f,
                      const void *ptr, size_t bytes);

/*
** The same with Lua's public functions alone, by a full walk (public.c).
*/
enum tide_kind tideT_public_locate(struct tide_heap *h,
                                   const struct tide_ra *ra,
                                   const uintptr_t *words, size_t osize);

/* Threads (thread.c). */
struct tide_thread *tideT_running(struct tide_heap *h, const lua_State *L);
/* The thread that L's innermost frame may be resuming; NULL: none. */
const lua_State *tideT_resumed_by(const lua_State *L);
void tideT_thread_forget(struct tide_heap *h, const lua_State *L);
void tideT_links_cut(struct tide_heap *h, const char *block, size_t bytes);
void tideT_threads_reset(struct tide_heap *h);
/* Calls that are still open get their figures so far. */
void tideT_calls_flush(struct tide_heap *h);
struct tide_thread *tideT_thread_of(struct tide_heap *h, const lua_State *L);
extern const uint16_t tideT_link_valid;   /* for threads of unknown resumer */
extern const uint16_t tideT_link_invalid; /* for threads off the chain */
extern const char tideT_no_gc[8];         /* stands for a missing state */

/* Shadow stacks (shadow.c). */
/*
** Brings a shadow stack up to date.  False: no memory.  The top frame may be
** new: tideT_shadow_place gives it its node; tideT_shadow_settle does both with
** the pc that Lua has saved.
*/
bool tideT_shadow_sync(struct tide_heap *h, struct tide_thread *t);
struct tide_site *tideT_shadow_place(struct tide_heap *h, struct tide_thread *t,
                                     const uint32_t *pc);
bool tideT_shadow_settle(struct tide_heap *h, struct tide_thread *t);
void tideT_shadow_rebase(struct tide_heap *h, struct tide_thread *t,
                         uint32_t base);
void tideT_shadow_clear(struct tide_heap *h, struct tide_thread *t);
/* Pops what has returned. */
void tideT_shadow_trim(struct tide_heap *h, struct tide_thread *t);
uint32_t tideT_shadow_node(const struct tide_thread *t);
/*
** The node of the innermost frame, and its function, without a mark or a call
** being noted: nothing was allocated.
*/
uint32_t tideT_shadow_peek(struct tide_heap *h, const struct tide_thread *t,
                           const void **fn);

TIDE_INLINE struct tide_site *tideT_site_place(const struct tide_heap *h,
                                               uint32_t parent, const void *fn,
                                               const uint32_t *pc)
{
    const uint64_t at =
        pc != NULL ? (uint64_t)(uintptr_t)pc : (uint64_t)(uintptr_t)fn;
    const uint64_t x = (at >> 2) ^ ((uint64_t)parent << 20);
    return &h->sites[(x * UINT64_C(0x9e3779b97f4a7c15)) >> h->site_shift];
}

/* An empty cache of n places; false: no memory, the old one stays. */
bool tideT_sites_open(struct tide_heap *h, uint32_t n);

/* The site cache (site.c): the place for a frame at pc. */
struct tide_site *tideT_site(struct tide_heap *h, uint32_t parent,
                             const void *fn, const uint32_t *pc,
                             const lua_State *L, char *ci);
/* A prototype is gone: no site may match it any more. */
void tideT_sites_forget(struct tide_heap *h, const void *fn,
                        const struct tide_proto *proto);
struct tide_p_cell *tideT_site_cell(struct tide_heap *h, struct tide_site *site,
                                    enum tide_kind kind);

/* The tree (tree.c).  Never fail: a full tree gives "[other stacks]". */
bool tideT_tree_open(struct tide_heap *h);
uint32_t tideT_child(struct tide_heap *h, uint32_t parent, uint32_t func,
                     uint32_t line);
uint32_t tideT_cell(struct tide_heap *h, uint32_t node, enum tide_kind kind);

/* Functions and names (names.c).  Index 0 when there is no memory. */
uint32_t tideT_func_special(struct tide_heap *h, enum tide_p_what what,
                            const char *name);
uint32_t tideT_func_c(struct tide_heap *h, const void *f);
uint32_t tideT_func_public(struct tide_heap *h, const char *source,
                           const char *name_or_null, int linedefined,
                           int lastline, bool is_c);
uint32_t tideT_func_coroutine(struct tide_heap *h, uint32_t born_node);
struct tide_proto *tideT_proto_find(struct tide_heap *h, const char *proto);
void tideT_proto_forget(struct tide_heap *h, const char *proto);
void tideT_name_from_call(struct tide_heap *h, uint32_t func,
                          const lua_State *L, char *ci);

TIDE_INLINE uint64_t tideT_gc_word(const struct tide_heap *h)
{
    uint64_t word;
    __builtin_memcpy(&word, h->gc_at, sizeof word);
    return word & h->gc_mask;
}

/*
** Is the frame at h->top_ci the activation that was seen last?  A frame that
** was tail called keeps its mark: then it must run the same closure.
*/
TIDE_INLINE bool tideT_is_same_call(const struct tide_heap *h, const char *ci)
{
    const uint16_t status = tideT_ci_status(ci) & h->mark_mask;
    return TIDE_LIKELY(status == TIDE_CIST_MARK) ||
           (status == h->mark_mask &&
            tideT_value_ptr(tideT_ci_func(ci)) == h->top_closure);
}

/*
** Is the innermost frame the C function that compiles?  Forgets about it once
** it has returned.
*/
TIDE_INLINE bool tideT_compiles_here(struct tide_heap *h,
                                     const struct tide_thread *t)
{
    if (TIDE_LIKELY(!h->is_compiling) || t != h->compile_thread)
        return false;
    const uint32_t n = h->compile_frame;
    if (t->n_frames < n ||
        (n > 0 ? t->frames[n - 1].start != h->compile_start : t->n_frames > 0))
        h->is_compiling = false;
    return h->is_compiling && t->n_frames == n;
}

/* The part of the constructor at a site that has this size; 0: none. */
TIDE_INLINE uint32_t tideT_part_bit(const struct tide_site *site, size_t bytes)
{
    return bytes == site->array_bytes  ? 1u
           : bytes == site->hash_bytes ? 2u
                                       : 0u;
}

/* What a cell holds now. */
TIDE_INLINE uint64_t tideT_held_bytes(const struct tide_p_cell *cell)
{
    return cell->inherited_bytes + cell->alloc_bytes +
           (uint64_t)cell->moved_bytes - cell->freed_bytes - cell->closed_bytes;
}

TIDE_INLINE uint64_t tideT_held_blocks(const struct tide_p_cell *cell)
{
    return cell->inherited_blocks + cell->alloc_blocks +
           (uint64_t)cell->moved_blocks - cell->freed_blocks -
           cell->closed_blocks;
}

/*
** The clock that worst calls are measured with: bytes allocated while the
** thread was on the chain, less those of finalizers.
*/
TIDE_INLINE uint64_t tideT_clock_of(const struct tide_heap *h,
                                    const struct tide_thread *t)
{
    return t->clock + h->alloc_bytes; /* on the chain */
}

TIDE_INLINE uint64_t tideT_clock(const struct tide_heap *h,
                                 const struct tide_thread *t)
{
    return t->on_chain ? tideT_clock_of(h, t) : t->clock;
}

TIDE_INLINE struct tide_proto_hit *tideT_proto_hit(struct tide_heap *h,
                                                   const char *proto)
{
    const uint64_t x =
        (uint64_t)(uintptr_t)proto * UINT64_C(0x9e3779b97f4a7c15);
    return &h->proto_hits[x >> 56];
}

/* What is kept of a prototype; NULL: no memory. */
TIDE_INLINE struct tide_proto *tideT_proto(struct tide_heap *h,
                                           const char *proto)
{
    struct tide_proto_hit *hit = tideT_proto_hit(h, proto);
    if (hit->proto != proto) {
        hit->info = tideT_proto_find(h, proto);
        hit->proto = hit->info == NULL ? NULL : proto;
    }
    return hit->info;
}

/* Before the counters of a cell change while the heap is below its peak. */
TIDE_INLINE void tideT_peak_keep(struct tide_heap *h, struct tide_p_cell *cell)
{
    if (TIDE_UNLIKELY(cell->peak_epoch != h->epoch))
        tideT_peak_save(h, cell);
}

/*
** The heap grows by n bytes, of `cell`.  Above the peak no cell needs to keep
** anything; below it this one keeps what it held.
*/
TIDE_INLINE void tideT_heap_grows(struct tide_heap *h, struct tide_p_cell *cell,
                                  size_t n)
{
    h->alloc_bytes += n;
    h->live_bytes += n;
    if (h->live_bytes > h->peak_bytes) {
        h->peak_bytes = h->live_bytes;
        if (h->peak_is_past)
            tideT_peak_rise(h);
    } else {
        tideT_peak_keep(h, cell);
    }
}

/* A new block of n bytes, of `cell`. */
TIDE_INLINE void tideT_count_made(struct tide_heap *h, struct tide_p_cell *cell,
                                  size_t n)
{
    tideT_heap_grows(h, cell, n);
    cell->alloc_bytes += n;
    cell->alloc_blocks++;
}

#endif
