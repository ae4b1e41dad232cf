/*
** native_impl.h: what a heap knows of C frames: rules and paths.
**
** Shared by native.c, native_calls.c and native_paths.c alone.
*/
#ifndef TIDE_NATIVE_IMPL_H
#define TIDE_NATIVE_IMPL_H

#include "native.h"

#define DEPTH_MAX       256u /* innermost frames of a path that are kept */
#define FIRST_SLOTS     256u
#define CALLS_MAX       256u /* C functions on the way of one walk */
#define PLACE_ROOTS     64u  /* a power of 2 */
#define PATHS_BYTES     ((size_t)16 << 20) /* of paths and of places */
#define FRAME_BYTES_MAX ((uintptr_t)1 << 24)

/* A path that a C function has called Lua from, and the node that it is. */
struct native_path {
    uint64_t hash;
    uint32_t parent; /* the node that the path hangs below */
    uint32_t node;
    uint32_t n;
    uintptr_t ips[]; /* innermost first */
};

/* The place that a walk leads to, below one node. */
struct native_end {
    struct tide_site site; /* parent: that node */
    struct native_end *next;
};

/* native_place.flags */
#define PLACE_IS_VM     1u  /* Lua's own code */
#define PLACE_IS_ENTRY  2u  /* Lua calls C functions there */
#define PLACE_IS_RESUME 4u  /* lua_resume's */
#define PLACE_IS_SIGNAL 16u /* a signal interrupted its caller */
#define PLACE_IS_LEFT   8u  /* the first two, and what it called is neither */

/*
** A frame and all those below it down to the allocator, in one cache line.
** Indices are of tide_native.places; what is there for a return address is a
** copy of its rule.
*/
struct native_place {
    uintptr_t ip;
    uint64_t code;           /* machine code that stood there; 0: not read */
    uintptr_t start;         /* of its function; 0: not known */
    struct native_end *ends; /* walks that end here */
    uint32_t below;          /* what it called; 0: the allocator */
    uint32_t caller;         /* of its callers, the last one; 0: none */
    uint32_t next;           /* another caller of `below`, in a ring */
    int32_t frame_offset;
    int32_t ip_offset;
    int32_t fp_offset;
    uint16_t depth; /* 1: called the allocator */
    uint16_t other; /* least depth of those down from here where Lua called C
                       in another way than as a C function; 0: none */
    uint8_t how;
    uint8_t flags;
};

/* The C frames of one C function that has called Lua: ips[first .. end - 1]. */
struct native_call {
    uintptr_t start; /* of the function that Lua called; or START_RESUMED,
                        START_HOST: another one */
    uint32_t first;
    uint32_t end;
};

/* A walk through all C functions of a thread, see native_calls.c. */
struct native_calls {
    struct tide_cframe from;      /* where walks begin: we were called there */
    bool has_from;                /* ... as long as that call lasts */
    bool was_hooked;              /* a hook runs: nothing is known */
    const lua_State *running;     /* NULL: not known */
    uint32_t n_above;             /* threads between it and the walked one */
    const struct tide_thread *of; /* whose functions these are; NULL: none */
    uint32_t above;  /* place on its shadow stack of what one of them calls */
    uint32_t number; /* ... and which of `calls` that one is, from 1 on */
    uint32_t n;
    struct native_call calls[CALLS_MAX]; /* innermost first */
    uint32_t n_ips;
    uint32_t max_ips;
    uintptr_t *ips;
};

/* Tables are open addressed; no entry is ever removed alone. */
struct tide_native {
    struct tide_unwind *unwind; /* the session's */
    uint32_t n_forgotten;       /* times that all of this was */
    uint32_t deeper;            /* function "[deeper]"; 0: none yet */
    struct tide_rule *rules;
    uint32_t rule_mask;
    uint32_t n_rules;
    struct native_path **paths;
    uint32_t path_mask;
    uint32_t n_paths;
    size_t bytes; /* of these, and of ends */
    struct native_place *places;
    uint32_t n_places; /* with place 0, which is none */
    uint32_t max_places;
    uint32_t roots[PLACE_ROOTS]; /* rings of places of depth 1, by ip */
    struct native_calls calls;
};

/* A rule that is not there, or no longer holds. */
struct tide_rule *tideT_native_rule(struct tide_heap *h,
                                    struct tide_native *nat, uintptr_t ip);

/* Nothing is known any more but the functions and nodes of the profile. */
void tideT_native_forget_all(struct tide_heap *h, struct tide_native *nat);

/* The node of n frames, innermost first, below a node; is_cut: of more. */
uint32_t tideT_native_nodes(struct tide_heap *h, struct tide_native *nat,
                            uint32_t parent, const uintptr_t *ips, uint32_t n,
                            bool is_cut);

/* The same, looked up by the frames' hash. */
uint32_t tideT_native_path(struct tide_heap *h, struct tide_native *nat,
                           uint32_t parent, const uintptr_t *ips, uint32_t n,
                           bool is_cut);

/* The machine code before a return address: the call and its target. */
TIDE_NO_SANITIZE TIDE_INLINE uint64_t native_code(uintptr_t ip)
{
    uint64_t code;
    __builtin_memcpy(&code, (const void *)(ip - sizeof code), sizeof code);
    return code;
}

TIDE_INLINE uint32_t native_rule_place(const struct tide_native *nat,
                                       uintptr_t ip)
{
    const uint64_t x = (uint64_t)ip * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t i = (uint32_t)(x >> 32) & nat->rule_mask;
    while (nat->rules[i].ip != 0 && nat->rules[i].ip != ip)
        i = (i + 1) & nat->rule_mask;
    return i;
}

TIDE_INLINE bool native_rule_holds(const struct tide_rule *rule, uintptr_t ip)
{
    return TIDE_LIKELY(rule->ip == ip &&
                       (rule->code == 0 || rule->code == native_code(ip)));
}

TIDE_INLINE struct tide_rule *
native_rule_of(struct tide_heap *h, struct tide_native *nat, uintptr_t ip)
{
    struct tide_rule *rule = &nat->rules[native_rule_place(nat, ip)];
    return native_rule_holds(rule, ip) ? rule : tideT_native_rule(h, nat, ip);
}

/* The rule of a caller: most often that of the last time. */
TIDE_INLINE struct tide_rule *native_caller_rule(struct tide_heap *h,
                                                 struct tide_native *nat,
                                                 struct tide_rule *rule,
                                                 uintptr_t ip)
{
    struct tide_rule *guess = &nat->rules[rule->next];
    if (native_rule_holds(guess, ip))
        return guess;
    const struct tide_rule *rules = nat->rules;
    struct tide_rule *found = native_rule_of(h, nat, ip);
    if (nat->rules == rules)
        rule->next = (uint32_t)(found - rules);
    return found;
}

/* A word of the thread's own stack. */
TIDE_NO_SANITIZE TIDE_INLINE uintptr_t native_word(uintptr_t at, int32_t offset)
{
    return *(const volatile uintptr_t *)(at + (uintptr_t)(intptr_t)offset);
}

/* Goes to the caller; false: there is none. */
TIDE_INLINE bool native_step(struct tide_native *nat,
                             const struct tide_rule *rule,
                             struct tide_cframe *at)
{
    if (rule->how == TIDE_RULE_END)
        return false;
    if (TIDE_UNLIKELY(rule->how == TIDE_RULE_OTHER))
        return tideT_unwind_step(nat->unwind, rule, at);
    const uintptr_t from = rule->how == TIDE_RULE_SP ? at->sp : at->fp;
    const uintptr_t end = from + (uintptr_t)(intptr_t)rule->frame_offset;
    if (end - at->sp - 1 >= FRAME_BYTES_MAX || end % sizeof end != 0)
        return false; /* no frame: the tables are wrong */
    at->sp = end;
    at->ip = native_word(end, rule->ip_offset);
    if (rule->fp_offset != 0)
        at->fp = native_word(end, rule->fp_offset);
    return at->ip != 0;
}

#endif
