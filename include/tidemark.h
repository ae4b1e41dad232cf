/*
** tidemark.h: the C interface of the tidemark allocation profiler.
**
** A host that embeds Lua 5.4 opens one session (one profile file, one process)
** and one heap for each lua_State; the heap is the `ud` and tide_alloc the
** allocator given to lua_newstate:
**
**     struct tide_session *session;
**     struct tide_heap *heap;
**     if (tide_session_open("out=app.%p.tide", NULL, NULL, &session) == TIDE_OK
**         && tide_heap_open(session, &heap) == TIDE_OK) {
**         lua_State *L = lua_newstate(tide_alloc, heap);
**         ...
**         lua_close(L);
**         tide_heap_close(heap);
**         tide_session_close(session);
**     }
**
** Conventions, true of every function here unless it says otherwise:
**
**  - Sizes are bytes as Lua asks for them.  Times are nanoseconds.
**  - A function that can fail returns enum tide_err, TIDE_OK being 0, and
**    leaves its outputs as they were when it fails.
**  - Pointers may not be NULL unless a parameter is marked `_or_null`.
**  - No function raises a Lua error and none calls lua_error or longjmp, so
**    all are safe to call from C code that holds resources.  [raise: no]
**  - A heap belongs to its lua_State: it needs the same lock as the state
**    does, and is otherwise free of any thread.  A session may be used from
**    any thread.
**  - [from: any] means the function may be called at any time;
**    [from: host] means: not from inside the allocator.
*/
#ifndef TIDEMARK_H
#define TIDEMARK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TIDE_VERSION "0.1.0"

#if defined(__GNUC__)
# define TIDE_API __attribute__((visibility("default")))
#else
# define TIDE_API
#endif

/* What can go wrong.  The texts are in tide_err_text. */
enum tide_err {
    TIDE_OK = 0,
    TIDE_ERR_ARG,     /* an argument or option is wrong */
    TIDE_ERR_NOMEM,   /* no memory for the profiler itself */
    TIDE_ERR_IO,      /* a file could not be made, written or read */
    TIDE_ERR_FORMAT,  /* not a profile, or a damaged one */
    TIDE_ERR_VERSION, /* a profile of an unknown format version */
    TIDE_ERR_LUA,     /* not Lua 5.4, or its functions were not found */
    TIDE_ERR_STATE,   /* not possible in the present state of the object */
    TIDE_ERR_COUNT_
};

/*
** Text for an error: lower case, no full stop, never NULL; a static string.
** [alloc: no] [from: any]
*/
TIDE_API const char *tide_err_text(enum tide_err err);

struct tide_session; /* one profile: the file, options, calibration */
struct tide_heap;    /* one lua_State: its allocator and its counters */
struct lua_State;

/*
** Finds a function of the Lua API by its name ("lua_newstate"); NULL when
** there is none.  `ctx` is what was given with the function.
*/
typedef void *(*tide_lookup_fn)(void *ctx, const char *name);

/* Same type as lua_Alloc, spelt here so that lua.h is not needed. */
typedef void *(*tide_alloc_fn)(void *ud, void *ptr, size_t osize, size_t nsize);

/*
** Opens a session: parses `options`, creates the profile file, learns how
** this Lua library calls its allocator.
**
** options_or_null  "key=value,key=value"; NULL or "" for the defaults.
**                  `tidemark help options` lists the keys.
** lookup_or_null   where to find Lua's functions; NULL: the host's own
**                  (linked symbols, then dlsym).
** ctx              handed to `lookup`.
** out              the session; owned by the caller until
**                  tide_session_close.
** Errors: ARG (options), NOMEM.  A file that cannot be created is no error:
** the session then records in memory, says so once on stderr, and
** tide_session_save can still write it.  A Lua that is not understood is no
** error: the tier is lower (tide_session_tier).  [from: host]
*/
TIDE_API enum tide_err tide_session_open(const char *options_or_null,
                                         tide_lookup_fn lookup_or_null,
                                         void *ctx, struct tide_session **out);

/*
** Holds the folder open that profiles with these options go to, for sessions
** that are opened late: when the process has changed its root, its user or its
** folder by then, they still go there, or to the folder for temporary files
** where it has no right to that.  The preload library calls it by itself.
** options_or_null  as for tide_session_open; wrong ones are ignored.
** [from: host]
*/
TIDE_API void tide_folder_hold(const char *options_or_null);

/*
** Finishes the profile (times, process figures, end marker) and frees the
** session.  Heaps that are still open stay usable as allocators and record
** no more.  NULL is allowed.  [from: host]
*/
TIDE_API void tide_session_close(struct tide_session *session_or_null);

/*
** Recording on (the default, unless start=manual) and off.  While it is off,
** new blocks are counted in the row "not recorded", so the books still
** balance.  [from: any]
*/
TIDE_API void tide_session_start(struct tide_session *session);
TIDE_API void tide_session_stop(struct tide_session *session);

/*
** Sets all counters of things past to zero (allocated, freed, calls, peak);
** what is alive stays alive, charged to the line that made it, as
** "inherited".  [from: host]
*/
TIDE_API enum tide_err tide_session_reset(struct tide_session *session);

/*
** Writes a copy of the profile as it is now.
** path   the file to write; replaced if it exists.  `%p` is the process id.
** Errors: IO (errno says why).  [from: host]
*/
TIDE_API enum tide_err tide_session_save(struct tide_session *session,
                                         const char *path);

/*
** Marks this moment of all heaps with a label: a point of the timeline whose
** figures by line are kept, so that `tidemark diff FILE@LABEL FILE@OTHER` says
** what happened between two of them.  A label may come again; the last one of
** that name is meant then.  The last 64 marks keep their figures by line.  What
** other threads count meanwhile is taken as it is found.
** label  not empty; cut after 4095 bytes.
** Errors: ARG, NOMEM (no room for it), STATE (finished).  [from: host]
*/
TIDE_API enum tide_err tide_session_mark(struct tide_session *session,
                                         const char *label);

/*
** The path of the profile file, "" when the session records in memory.
** Valid until the session closes.  [alloc: no] [from: any]
*/
TIDE_API const char *tide_session_path(const struct tide_session *session);

/* How exactly bytes can be charged in this process. */
enum tide_tier {
    TIDE_TIER_EXACT = 0, /* every byte, full stack, line-true */
    TIDE_TIER_PARTIAL,   /* full stacks; some lines or threads are inferred */
    TIDE_TIER_PUBLIC,    /* the public API only: lines may be the statement's */
    TIDE_TIER_COUNT_
};

/*
** The tier of the session, and the reason in words (static or owned by the
** session; never NULL).  [alloc: no] [from: any]
*/
TIDE_API enum tide_tier tide_session_tier(const struct tide_session *session,
                                          const char **reason_or_null);

/*
** Opens a heap for one lua_State that is about to be made.
** out  the heap: pass it as `ud` with tide_alloc to lua_newstate.  Close it
**      after lua_close.
** Errors: NOMEM.  [from: host]
*/
TIDE_API enum tide_err tide_heap_open(struct tide_session *session,
                                      struct tide_heap **out);

/*
** The allocator: a lua_Alloc whose `ud` is a struct tide_heap.
** A failed allocation returns NULL and changes nothing.
** [raise: no] [from: Lua only]
*/
TIDE_API void *tide_alloc(void *heap, void *ptr, size_t osize, size_t nsize);

/*
** Sets the most bytes that the state may hold, buffers and what is from before
** an attach with it; the option `limit` sets it for each state from its start.
** What would make it hold more fails as Lua expects: it collects all garbage,
** tries again, and raises "not enough memory".  The first allocation that fails
** for good makes a mark, "out of memory", with what every line held.  A limit
** below what is held refuses growth and nothing else.
** bytes  0: no limit.  [alloc: no] [from: any]
*/
TIDE_API void tide_heap_limit(struct tide_heap *heap, uint64_t bytes);

/*
** Makes this heap obtain its blocks from the host's own allocator, with the
** sizes that Lua gives, so that the host's limits and accounting hold.
** Call it before lua_newstate, or when the host changes its allocator.
** f NULL: back to tidemark's own.  Blocks go back to the allocator that made
** them only if the host's new allocator can free the old one's blocks, as
** Lua itself demands of lua_setallocf.  [alloc: no] [from: host]
*/
TIDE_API void tide_heap_chain(struct tide_heap *heap, tide_alloc_fn f_or_null,
                              void *ud);

/*
** Attaches to a state in mid-life: replaces its allocator by tide_alloc.
** Blocks made before keep to the old allocator and are shown as "before
** attach".  L may be any thread of the state.  A state that was detached goes
** on with the heap that it had.
** Errors: NOMEM, LUA, STATE (already attached).  [from: host]
*/
TIDE_API enum tide_err tide_heap_attach(struct tide_session *session,
                                        struct lua_State *L,
                                        struct tide_heap **out);

/*
** A block that may be the first one of a lua_State that is being made, and what
** the program asks its allocator for now.
*/
struct tide_first_block {
    void *block;
    size_t bytes;       /* of it */
    size_t stack_bytes; /* next_bytes of the call that gave STATE; else 0 */
    size_t next_bytes;  /* what is asked for now; has no block yet */
    const char *lua;    /* "Lua 5.4.4"; "Lua 5.4" when that is all one knows */
};

/*
** Attaches to a state whose Lua has no functions that can be called: it is
** inside an executable without names.  Called from the allocator that the
** state is made with, for its second and third block.  The preload library
** does it with sniff=on.
** out  the heap; it closes by itself when the state does.
** Errors: LUA (it is not the first block of a state of 5.4, or of another 5.4
** than the session's), STATE (it is, but the stack is not there yet: call again
** at the next request), ARG (the host's allocator has a `ud` of its own, which
** the host could not find again), NOMEM.  [from: host]
*/
TIDE_API enum tide_err tide_heap_sniff(struct tide_session *session,
                                       const struct tide_first_block *first,
                                       struct tide_heap **out);

/*
** Detaches: from here on the state is recorded no more.  The allocator has to
** stay, since it alone can free the blocks that it made; what is allocated
** meanwhile stands in the row "not recorded" and what is freed is taken from
** the line that made it, so that the books balance.  tide_heap_attach takes it
** up again, any number of times; a session that is stopped and started does
** not.  A heap that is detached stays so.  [alloc: no] [from: any]
*/
TIDE_API void tide_heap_detach(struct tide_heap *heap);

/*
** Says that lua_close is about to be called for this heap's state: what is
** alive now is what the report shows as live.  Where Lua itself shows it
** (5.4.4 and later) the call is not needed.  [alloc: no] [from: host]
*/
TIDE_API void tide_heap_closing(struct tide_heap *heap);

/*
** Frees the heap with every block in it.  Only after lua_close.
** NULL is allowed.  [from: host]
*/
TIDE_API void tide_heap_close(struct tide_heap *heap_or_null);

/*
** lua_newstate with a heap of its own, then as luaL_newstate does (panic and
** warning functions are left as Lua has them).  NULL: no memory, or no
** lua_newstate was found.
** heap_or_null  where to put the heap, for tide_heap_close; NULL: the heap
**               closes with the session.  [from: host]
*/
TIDE_API struct lua_State *tide_newstate(struct tide_session *session,
                                         struct tide_heap **heap_or_null);

/*
** The heap of a state, NULL if this session has none for it.
** [alloc: no] [from: any]
*/
TIDE_API struct tide_heap *tide_heap_of(struct tide_session *session,
                                        struct lua_State *L);

/*
** Says that C code is about to resume `co` from `from` (as for lua_resume),
** and that this call of lua_resume has returned.  The stacks of `co` then hang
** below the frame of `from`; without it they are a root of their own.  The
** preload library calls both by itself.
** from_or_null  the thread that resumes; NULL: a root of its own.
** A state that is not profiled is ignored.  [alloc: no] [from: any]
*/
TIDE_API void tide_resume_begin(struct tide_session *session,
                                struct lua_State *co,
                                struct lua_State *from_or_null);
TIDE_API void tide_resume_end(struct tide_session *session,
                              struct lua_State *co);

/*
** Notes in the profile how tidemark got into the process: "preload", "patch",
** "module"; without it the profile says "api".
** route  a few words; cut after 63 bytes.  [alloc: no] [from: any]
*/
TIDE_API void tide_session_set_route(struct tide_session *session,
                                     const char *route);

/*
** The process's own session: the one that the preload library or the Lua
** module opened, NULL when there is none.  It is finished at exit; do not
** close it.  Only in the shared library.  [alloc: no] [from: any]
*/
TIDE_API struct tide_session *tide_process_session(void);

/*
** Attaches to a state in mid-life in the process's own session, which is
** opened when there is none yet: what `require "tidemark"` does.  A state that
** is profiled already stays as it is, and that is no error.  Only in the
** shared library.
** options_or_null  as for tide_session_open; without effect on a session that
**                  is open already.
** out_or_null      the heap.
** Errors: as tide_session_open and tide_heap_attach.  [from: host]
*/
TIDE_API enum tide_err tide_process_attach(const char *options_or_null,
                                           tide_lookup_fn lookup_or_null,
                                           void *ctx, struct lua_State *L,
                                           struct tide_heap **out_or_null);

/* Sums over all rows of one heap.  live = alloc + moved - freed, always. */
struct tide_totals {
    uint64_t alloc_bytes;        /* allocated, growth as (new - old) */
    uint64_t alloc_blocks;       /* blocks made */
    uint64_t freed_bytes;        /* freed, shrinking as (old - new) */
    uint64_t freed_blocks;       /* blocks freed */
    uint64_t live_bytes;         /* held now, with buffer blocks */
    uint64_t live_blocks;        /* blocks held now */
    uint64_t peak_bytes;         /* most bytes ever held at once */
    uint64_t buffer_bytes;       /* of live_bytes: not seen by Lua's count */
    uint64_t unattributed_bytes; /* of alloc_bytes: no Lua line known */
    uint64_t before_bytes;       /* made before the attach, still held */
    uint64_t gc_cycles;          /* collection cycles seen */
    uint64_t failed_blocks;      /* allocations that returned NULL */
};

/*
** Fills `out` by a walk over all rows.  Under the state's lock live_bytes -
** buffer_bytes + before_bytes is collectgarbage("count") * 1024.
** [alloc: no] [from: any]
*/
TIDE_API void tide_heap_totals(const struct tide_heap *heap,
                               struct tide_totals *out);

/*
** The collector's figures, under the names that users of GcWatch know; sizes in
** KiB.  Rates are those of the last closed window of 5 s; before the first one
** closes they are estimated from what there is of it, after one second.
*/
struct tide_gc_stats {
    double HeapKb;        /* held now */
    double PeakHeapKb;    /* most ever held at once */
    double AllocKbPerSec; /* allocated per second */
    double CyclesPerMin;  /* collection cycles per minute */
    uint64_t Cycles;      /* collection cycles seen */
    double LastReclaimKb; /* freed by the last one, so far */
    double AvgReclaimKb;  /* freed by one in the mean */
    double ReclaimedKb;   /* freed by all of them */
};

/*
** Fills `out` as of now.  Under the state's lock.  In tier TIDE_TIER_PUBLIC
** cycles are not seen.  [alloc: no] [from: any]
*/
TIDE_API void tide_gc_stats(struct tide_heap *heap, struct tide_gc_stats *out);

/*
** Says that lua_gc is about to be called for L, and that it has returned: then
** the collection is charged to the line that asked for it and is timed, and
** stops and new parameters are noted with their line.  Without it they are
** noted at the next call of the allocator, and full collections in a row with
** no allocation between them may count as fewer.
** what  LUA_GCCOLLECT and so on, as for lua_gc.  [alloc: no] [from: any]
*/
TIDE_API void tide_gc_begin(struct tide_session *session, struct lua_State *L,
                            int what);
TIDE_API void tide_gc_end(struct tide_session *session, struct lua_State *L);

/*
** Groups of functions, for reports: bytes that a function of a group and what
** it calls allocate are its group's, less those of other groups' functions
** further in.  Nothing is wrapped and it makes no call slower: a function is
** known by its file and line, so all closures of one line are one, and it does
** not matter whether it has run before.  Needs the state's lock.
**
** Puts a function into a group; it leaves the one that it was in.
** L      any thread of the heap's state; nothing is left on its stack
** index  where the function is on L's stack
** name   what the group calls it
** Errors: ARG (not a function), NOMEM, LUA (in tier TIDE_TIER_PUBLIC: a C
** function).  [from: host]
*/
TIDE_API enum tide_err tide_target(struct tide_heap *heap, struct lua_State *L,
                                   int index, const char *group,
                                   const char *name);

/*
** The same for all functions that match, of the whole profile.  Patterns are
** those of fnmatch(3), where * also matches a slash; NULL matches everything,
** but not all three may be NULL.  Single functions that are named go before
** rules, later rules before earlier ones.
** source  of source files: "*" "/game/ai.lua"
** module  of modules and C libraries: "socket*"
** name    of functions, as reports name them
** Errors: ARG, NOMEM.  [from: host]
*/
TIDE_API enum tide_err tide_target_rule(struct tide_heap *heap,
                                        const char *group,
                                        const char *source_or_null,
                                        const char *module_or_null,
                                        const char *name_or_null);

/* A group that reports list even when nothing was recorded in it. */
TIDE_API enum tide_err tide_target_group(struct tide_heap *heap,
                                         const char *group);

/*
** Takes a function out of its group, and a group with all its functions and
** rules; the figures are then as if it had never been.
** Errors: ARG (not a function), STATE (it is in no group; no such group).
*/
TIDE_API enum tide_err tide_untarget(struct tide_heap *heap,
                                     struct lua_State *L, int index);
TIDE_API enum tide_err tide_untarget_group(struct tide_heap *heap,
                                           const char *group);

/*
** Says which module a function is of, where neither `require` nor its object
** file does; for a Lua function: all of its file.  Reports group by module
** what is in no group.  Errors: as tide_target.
*/
TIDE_API enum tide_err tide_module(struct tide_heap *heap, struct lua_State *L,
                                   int index, const char *module);

/*
** Names a stretch of the program: all that the activation at a level of L's
** stack allocates and calls from now on hangs below a frame "[region] NAME",
** up to tide_region_pop for the same activation, or to its end by a return or
** an error.  Regions of one activation stand one in another.  A tail call
** continues the activation.
** L      the running thread
** level  0: the function that runs, 1: who called it
** name   cut after 255 bytes; each name is kept for ever
** Errors: STATE (no such activation), LUA (in tier TIDE_TIER_PUBLIC), NOMEM;
** pop: STATE too when the activation has no region.
** name_or_null  of pop: the region's name; it stays valid.  [from: host]
*/
TIDE_API enum tide_err tide_region_push(struct tide_heap *heap,
                                        struct lua_State *L, int level,
                                        const char *name);
TIDE_API enum tide_err tide_region_pop(struct tide_heap *heap,
                                       struct lua_State *L, int level,
                                       const char **name_or_null);

#ifdef __cplusplus
}
#endif

#endif
