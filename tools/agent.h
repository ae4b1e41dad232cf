/*
** agent.h: what the parts of the preload library share.
**
**   agent.c            environment, the process's session, exit
**   agent_lua.c        Lua libraries in the process and their functions
**   agent_state.c      lua_States that were seen and their allocators
**   agent_interpose.c  the interposed functions
**   agent_patch.c      the same for an executable that exports Lua
**   agent_code.c       moves the first instructions of a function
**   agent_sniff.c      an executable with Lua inside that exports none of it
**   agent_report.c     the report at exit
**
** No lua.h here: the functions of the host's Lua are looked up at run time,
** whatever version it is, and only 5.4 is touched.
*/
#ifndef TIDE_AGENT_H
#define TIDE_AGENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../common/compiler.h"
#include "../common/err.h"
#include "../common/options.h"
#include "agent_code.h"

struct lua_State;

/* The third argument is there from Lua 5.5 on, and handed through. */
typedef struct lua_State *(*tideG_newstate_fn)(tide_alloc_fn f, void *ud,
                                               unsigned seed);
typedef struct lua_State *(*tideG_L_newstate_fn)(void);
typedef void (*tideG_close_fn)(struct lua_State *L);
typedef int (*tideG_gc_fn)(struct lua_State *L, int what, ...);
typedef int (*tideG_resume_fn)(struct lua_State *L, struct lua_State *from,
                               int n_args, int *n_results);
typedef tide_alloc_fn (*tideG_getallocf_fn)(struct lua_State *L, void **ud);
typedef void (*tideG_setallocf_fn)(struct lua_State *L, tide_alloc_fn f,
                                   void *ud);
typedef double (*tideG_version_fn)(struct lua_State *L);

/* The addresses of an object file, first to one past the last. */
struct tideG_range {
    uintptr_t lo;
    uintptr_t hi;
};

static inline bool tideG_range_has(const struct tideG_range *range,
                                   uintptr_t address)
{
    return address >= range->lo && address < range->hi;
}

/* One Lua library: a shared object, or the executable that exports it. */
struct tideG_lua {
    struct tideG_range range;
    void *handle;    /* of dlopen: where its other functions are found */
    bool is_program; /* it is the executable itself */
    bool is_checked; /* is_54 and std_alloc are known */
    bool is_54;      /* the API of Lua 5.4 */
    bool has_allocf; /* is_program: its lua_getallocf leads to ours */
    /*
    ** What luaL_newstate gives to lua_newstate; NULL when not known: every
    ** allocator then counts as the host's own.
    */
    tide_alloc_fn std_alloc;
    tideG_newstate_fn newstate;
    tideG_L_newstate_fn L_newstate;
    tideG_close_fn close;
    tideG_resume_fn resume;
    tideG_gc_fn gc;
    tideG_getallocf_fn getallocf;
    tideG_setallocf_fn setallocf;
    tideG_version_fn version;
};

/*
** A place in Lua itself that calls lua_resume: coroutine.resume and wrap.  The
** profiler sees these in the frames, so such calls go straight on.
*/
struct tideG_own_resume {
    uintptr_t caller;
    tideG_resume_fn resume;
};

#define TIDEG_LUAS_MAX    8u
#define TIDEG_RESUMES_MAX 8u
#define TIDEG_CALLERS_MAX 64u
#define TIDEG_BUCKETS     64u /* a power of two */

/* An object file that called, and the Lua library which it reaches. */
struct tideG_caller {
    struct tideG_range range;
    struct tideG_lua *lua;
};

/* A function of the executable whose own bytes must be put back to call it. */
struct tideG_patch {
    pthread_mutex_t lock; /* recursive; held during the call */
    unsigned depth;       /* calls under way; guarded by lock */
    uint8_t *entry;       /* the function; NULL: not this kind of patch */
    uint8_t saved[TIDEG_JUMP_BYTES_MAX];
    uint8_t jump[TIDEG_JUMP_BYTES_MAX];
};

struct tideG_state;

/* All mutable data of the library but the per-thread guard. */
struct tideG_agent {
    pthread_mutex_t lock; /* recursive; what says "guarded" below */
    bool is_active;       /* TIDEMARK is set: interposed calls are taken */
    bool is_hooked;       /* handlers for exit and fork are registered */
    bool locks_for_forks; /* a fork takes the lock */
    bool has_spoken;      /* a warning was given; guarded */
    bool is_over;         /* the session has been finished */
    pid_t pid;            /* process that opened the session */
    unsigned n_states;    /* states seen; published, written under the lock */
    struct tide_session *session;    /* published; written under the lock */
    char *text;                      /* options from the environment, or NULL */
    char short_text[256];            /* that text, if it fits */
    struct tide_options options;     /* of the session */
    char path[TIDE_OPT_PATH_MAX];    /* of the profile when it was opened */
    struct stat file;                /* and which file that was */
    char library[TIDE_OPT_PATH_MAX]; /* this library's file, absolute */
    struct tideG_range own;          /* this library */
    struct tideG_lua luas[TIDEG_LUAS_MAX];
    unsigned n_luas;          /* published; written under the lock */
    struct tideG_lua *global; /* found by every caller; published */
    struct tideG_caller callers[TIDEG_CALLERS_MAX];
    unsigned n_callers; /* published, as n_luas */
    struct tideG_own_resume own_resumes[TIDEG_RESUMES_MAX];
    unsigned n_own_resumes; /* published, as n_luas */
    bool is_learning;       /* calls of lua_resume are noted there; guarded */
    struct tideG_state *states[TIDEG_BUCKETS]; /* guarded */
    char sniffed[32]; /* release of a Lua without names; "": none */
    struct tideG_patch patch_newstate;
    struct tideG_patch patch_close;
};

extern TIDE_HIDDEN struct tideG_agent g_agent;

void tideG_lock(void);
void tideG_unlock(void);

/*
** Calls that this thread makes into Lua between the two are the library's
** own, and pass the interposed functions untouched.  They nest.
*/
void tideG_bypass_begin(void);
void tideG_bypass_end(void);
bool tideG_is_bypassed(void);

/* "tidemark: WHAT: WHY" on stderr, the first time only. */
void tideG_warn_once(const char *what, const char *why);

/* The process's session, opened when there is none; NULL: inactive. */
struct tide_session *tideG_session_or_null(struct tideG_lua *lua);

/* agent_lua.c */

/* The object file at an address. */
bool tideG_object_at(uintptr_t address, struct tideG_range *range,
                     const char **path_or_null);

/*
** This library was preloaded, or linked to the executable: it stands before
** libc in the list of objects.  One that was opened later must not patch a
** program that runs.
*/
bool tideG_is_loaded_at_start(void);

/* The Lua library that holds this function; NULL: too many libraries. */
struct tideG_lua *tideG_lua_at(void *function);

/* The Lua library that a call from `caller` means; NULL: there is none. */
struct tideG_lua *tideG_lua_for(uintptr_t caller);

/* The executable when it exports a Lua API, else NULL. */
struct tideG_lua *tideG_lua_of_program(void);

/* A Lua library that is in the process already at start, else NULL. */
struct tideG_lua *tideG_lua_loaded(void);

/*
** Makes a throwaway state to see whether this is Lua 5.4 and which allocator
** luaL_newstate uses.  True when it is 5.4.
*/
bool tideG_lua_check(struct tideG_lua *lua);

/*
** Finds out from where this Lua's own coroutine library calls lua_resume; after
** the executable has been patched.
*/
void tideG_lua_learn(struct tideG_lua *lua);

/* A tide_lookup_fn over a struct tideG_lua. */
void *tideG_lua_lookup(void *lua, const char *name);

/* agent_state.c */

/*
** lua_newstate under the profiler.
** caller  who asks: it gets its own allocator back from lua_getallocf.
** NULL: as lua_newstate.
*/
struct lua_State *tideG_state_new(struct tideG_lua *lua, tide_alloc_fn f,
                                  void *ud, unsigned seed, uintptr_t caller);

/*
** Attaches to a state that exists; no error when it is profiled already.
** Errors: as tide_heap_attach, NOMEM.
*/
enum tide_err tideG_state_attach(struct tide_session *session,
                                 struct tideG_lua *lua, struct lua_State *L,
                                 struct tide_heap **out_or_null);

void tideG_state_close(struct tideG_lua *lua, struct lua_State *L);
tide_alloc_fn tideG_state_getallocf(struct tideG_lua *lua, struct lua_State *L,
                                    void **ud_or_null, uintptr_t caller);
void tideG_state_setallocf(struct tideG_lua *lua, struct lua_State *L,
                           tide_alloc_fn f, void *ud, uintptr_t caller);

/* agent_interpose.c: the interposed functions by their own addresses. */
struct lua_State *tideG_newstate(tide_alloc_fn f, void *ud, unsigned seed);
struct lua_State *tideG_L_newstate(void);
void tideG_close(struct lua_State *L);
int tideG_resume(struct lua_State *L, struct lua_State *from, int n_args,
                 int *n_results);
int tideG_gc(struct lua_State *L, int what, ...);
tide_alloc_fn tideG_getallocf(struct lua_State *L, void **ud_or_null);
void tideG_setallocf(struct lua_State *L, tide_alloc_fn f, void *ud);

/* agent_patch.c */

/*
** Leads calls of the executable's lua_newstate, lua_close and, where that is
** possible, lua_resume, lua_gc, lua_getallocf and lua_setallocf to the
** functions above.  NULL when it was done, else why it was not: then nothing
** has been changed.
*/
const char *tideG_patch_program(struct tideG_lua *lua);

/* agent_sniff.c */

/*
** Has the executable Lua 5.4 inside?  Its release, "Lua 5.4.4" or at least
** "Lua 5.4", is then in g_agent.sniffed.
*/
bool tideG_sniff_program(void);

/*
** Watches the executable's calls of malloc, realloc and free from here on.
** NULL when it does, else why not: then nothing has been changed.
*/
const char *tideG_sniff_start(void);

/* agent_report.c */

/* Runs `tidemark report` on a finished profile; its output is on stderr. */
void tideG_report(const char *path, const struct tide_options *options);

#endif
