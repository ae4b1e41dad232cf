/*
** native.h: frames of C code, below the Lua frames.
**
**   objects.c   files of machine code: where they are loaded, their build ids
**   unwind.c    how to get from one frame to its caller: rules, by libunwind
**   native.c    walks by these rules from the allocator
**   native_calls.c  ... from what a C function has called
**   native_paths.c  tables of rules, and the nodes of what walks found
**
** native_none.c stands in for all but the first where there is no libunwind.
*/
#ifndef TIDE_NATIVE_H
#define TIDE_NATIVE_H

#include "attrib.h"

#if defined(__x86_64__)
# define TIDE_WORD_FP 1u /* rbp, as entry.S leaves it */
#elif defined(__aarch64__)
# define TIDE_WORD_FP 10u /* x29 */
#endif

/* A frame on the way from the allocator to the caller of all. */
struct tide_cframe {
    uintptr_t ip; /* return address: the call before it runs */
    uintptr_t sp; /* the stack pointer that it had there */
    uintptr_t fp; /* the frame pointer's register then */
};

/* How to find the caller of a place. */
enum tide_rule_how {
    TIDE_RULE_END = 0, /* it has none, or none that can be found */
    TIDE_RULE_SP,      /* the frame begins at sp and so many bytes */
    TIDE_RULE_FP,      /* ... at fp and so many bytes */
    TIDE_RULE_OTHER    /* ask libunwind each time: signals, odd frames */
};

struct tide_rule {
    uintptr_t ip;         /* the place; 0: none */
    uint64_t code;        /* machine code that stood there */
    uintptr_t start;      /* first byte of its function; 0: not known */
    int32_t frame_offset; /* from sp or fp to the frame's end (CFA), bytes */
    int32_t ip_offset;    /* from the CFA to where the return address is */
    int32_t fp_offset; /* from the CFA to where fp was saved; 0: it was not */
    uint32_t func;     /* index in FUNCS; 0: none yet */
    uint32_t next;     /* rule of its caller, as it was the last time */
    uint8_t how;       /* enum tide_rule_how */
    bool is_signal;    /* a signal interrupted its caller */
    bool is_vm;        /* it is Lua's own code */
    bool is_entry;     /* Lua calls C functions there */
    bool is_resume;    /* it is lua_resume's */
};

/* What libunwind is asked through; one for each session. */
struct tide_unwind;

/*
** Loads libunwind.  false: it is not there, or not built in; *why says so.
** [from: outside the allocator]
*/
bool tideT_unwind_load(const char **why);

/*
** cal   which code is Lua's; must stay.
** NULL: no memory, or tideT_unwind_load said no.
*/
struct tide_unwind *tideT_unwind_open(const struct tide_cal *cal);
void tideT_unwind_close(struct tide_unwind *unwind_or_null);

/*
** Fills all but `code` and `func` of the rule for a return address.  Never
** fails: END is what is not known.  [alloc: no] [lock: own, see unwind.c]
*/
void tideT_unwind_rule(struct tide_unwind *unwind, uintptr_t ip,
                       struct tide_rule *out);

/* The caller's place where the rule is OTHER; false: there is none. */
bool tideT_unwind_step(struct tide_unwind *unwind, const struct tide_rule *rule,
                       struct tide_cframe *at);

/* Is that address in Lua's own code? */
bool tideT_unwind_is_vm(const struct tide_unwind *unwind, uintptr_t address);

/* Where Lua's own code is: 0, 0 when not known. */
void tideT_unwind_vm(const struct tide_unwind *unwind, uintptr_t *start,
                     uintptr_t *end);

/* Around a fork: no other thread is inside libunwind in between. */
void tideT_unwind_fork_begin(struct tide_unwind *unwind_or_null);
void tideT_unwind_fork_end(struct tide_unwind *unwind_or_null);

/*
** The object that holds an address: an index in OBJECTS, written if it is new;
** 0: none is known.  [alloc: no] [lock: none]
*/
uint32_t tideT_object_of(struct tide_heap *h, uintptr_t address);

/* Writes down all objects of the process.  [lock: the loader's] */
void tideT_objects_all(struct tide_heap *h);

/* A heap's walks; false: no memory.  Without the session's unwind: nothing. */
bool tideT_native_open(struct tide_heap *h);

/* A state is gone, and so may be the libraries that it had loaded. */
void tideT_native_forget(struct tide_heap *h);

/* Are C frames wanted below C function fn, called from `parent`? */
bool tideT_native_wants(const struct tide_heap *h, uint32_t parent,
                        const void *fn);

/*
** h->site was found, and it wants C frames: walks from the allocator's caller
** to where Lua called the C function, and makes h->site the place there.
*/
void tideT_native_place(struct tide_heap *h, const uintptr_t *words);

/*
** tide_frame.pc of a C function whose C frames are wanted, so that the short
** paths do not find what it calls (step.c): no instruction is there.
*/
#define TIDE_NATIVE_PC ((const uint32_t *)(const void *)tideT_no_gc)

/*
** From here on and until tideT_native_end, C functions are looked for on the
** machine's stack from `from` on: shadow stacks are brought up to date.
** running_or_null  the thread that runs, if that is known
*/
void tideT_native_begin_at(struct tide_heap *h, struct tide_cframe from,
                           const lua_State *running_or_null);
void tideT_native_end(struct tide_heap *h);

/* The allocator has been called from there. */
TIDE_INLINE void tideT_native_begin(struct tide_heap *h, const uintptr_t *words,
                                    const lua_State *running_or_null)
{
    if (TIDE_LIKELY(h->native == NULL))
        return;
    const struct tide_cframe from = {
        .ip = words[TIDE_WORD_RA],
        .sp = (uintptr_t)&words[TIDE_WORD_RA + 1],
        .fp = words[TIDE_WORD_FP],
    };
    tideT_native_begin_at(h, from, running_or_null);
}

/* The place in the function that this is part of. */
TIDE_INLINE struct tide_cframe tideT_native_here(void)
{
    struct tide_cframe at;
#if defined(__x86_64__)
    __asm__ volatile("lea 0(%%rip), %0\n\tmov %%rsp, %1\n\tmov %%rbp, %2"
                     : "=&r"(at.ip), "=&r"(at.sp), "=&r"(at.fp));
#elif defined(__aarch64__)
    __asm__ volatile("adr %0, .\n\tmov %1, sp\n\tmov %2, x29"
                     : "=&r"(at.ip), "=&r"(at.sp), "=&r"(at.fp));
#endif
    return at;
}

/*
** The shadow stack that is brought up to date is that of the thread that has
** resumed L; NULL: that of the running thread.
*/
void tideT_native_above(struct tide_heap *h, const lua_State *L_or_null);

/*
** The node that what frame number i has called hangs below: that of the last of
** its C frames, or its own when they are not known.  Its pc is TIDE_NATIVE_PC.
*/
uint32_t tideT_native_called(struct tide_heap *h, const struct tide_thread *t,
                             uint32_t i);

/*
** The same for what the host calls in the main thread, which has no frame yet.
*/
uint32_t tideT_native_host(struct tide_heap *h, const struct tide_thread *t);

/*
** `node` was such a node below `from`: the same below `to`; `to` itself when it
** was none.
*/
uint32_t tideT_native_rehang(struct tide_heap *h, uint32_t node, uint32_t from,
                             uint32_t to);

#endif
