/*
** step.c: the path between hot and cold: the thread that ran last, a few calls
** or returns further, or at another instruction.
**
** Programs that allocate once per call come here for each of them, so it does
** what shadow.c and locate.c do for the plain case only and leaves the rest to
** them: every early `return false` is at a moment when the shadow stack is
** consistent.
**
** Budget, x86-64, gcc 12 -O2: 155 instructions for one new activation, beyond
** those of the block, 80 for each further one with its return;
** tests/abi/budget.py counts them.
*/
#include "attrib.h"

#define STEP_CALLS_MAX 8u /* new activations handled here */

/* An activation that is no finalizer's is over. */
TIDE_INLINE void end_frame(struct tide_heap *h, const struct tide_frame *f,
                           uint64_t clock)
{
    struct tide_p_node *node = &h->nodes[f->node];
    const uint64_t bytes = clock - f->start;
    if (bytes > node->max_call_bytes)
        node->max_call_bytes = bytes;
}

/* The frame of `ci`; NULL: something for the cold path. */
TIDE_INLINE struct tide_frame *find_frame(struct tide_thread *t, const char *ci)
{
    struct tide_frame *f = &t->frames[t->n_frames] - 1;
    while (f->ci != ci) {
        if (f->is_finalizer) /* its bytes are to be excluded; or none is left */
            return NULL;
        f--;
    }
    return f;
}

/* What stands above f has returned. */
TIDE_INLINE void end_frames_above(struct tide_heap *h, struct tide_thread *t,
                                  const struct tide_frame *f, uint64_t clock)
{
    uint32_t n = t->n_frames;
    for (const struct tide_frame *top = &t->frames[n] - 1; top > f; top--, n--)
        end_frame(h, top, clock);
    t->n_frames = n;
}

/*
** Ends activations down to the one of `ci`; false: something for the cold
** path.
*/
TIDE_INLINE bool end_frames_to(struct tide_heap *h, struct tide_thread *t,
                               const char *ci, uint64_t clock)
{
    const struct tide_frame *f = find_frame(t, ci);
    if (f != NULL)
        end_frames_above(h, t, f, clock);
    return f != NULL;
}

/* The site if the cache has it, else NULL. */
TIDE_INLINE struct tide_site *cached_site(const struct tide_heap *h,
                                          uint32_t parent, uintptr_t at)
{
    struct tide_site *site = tideT_site_place(h, parent, at);
    const bool is_it = site->at == at && site->parent == parent;
    return TIDE_LIKELY(is_it) ? site : NULL;
}

/* As tideT_shadow_place; NULL, nothing done: C frames of it are wanted. */
TIDE_INLINE struct tide_site *place_frame(struct tide_heap *h,
                                          struct tide_thread *t,
                                          struct tide_frame *f,
                                          const uint32_t *pc)
{
    struct tide_site *site =
        cached_site(h, f->parent, tideT_site_at(f->fn, pc));
    if (TIDE_UNLIKELY(site == NULL)) {
        site =
            tideT_site(h, f->parent, f->fn, pc, t->L, f->is_new ? f->ci : NULL);
        if (tideT_is_native(site))
            return NULL;
    }
    f->pc = pc;
    f->node = site->node;
    if (f->is_new) {
        h->nodes[f->node].calls++;
        f->is_new = false;
    }
    return site;
}

/* The caller stands at its call; false: the cold path must. */
TIDE_INLINE bool place_caller(struct tide_heap *h, struct tide_thread *t,
                              struct tide_frame *f)
{
    const uint32_t *pc = f->is_lua ? tideT_ci_savedpc(f->ci) : NULL;
    return (pc == f->pc && !f->is_new) || place_frame(h, t, f, pc) != NULL;
}

TIDE_INLINE void push_call(struct tide_thread *t, char *ci, uint64_t clock)
{
    const uint32_t n = t->n_frames;
    tide_assert(n < t->max_frames);
    struct tide_frame *f = &t->frames[n];
    bool is_lua;
    f->ci = ci;
    f->fn = tideT_fn_of_slot(tideT_ci_func(ci), &is_lua);
    f->is_lua = is_lua;
    f->is_finalizer = false;
    f->is_new = true;
    f->start = clock;
    f->parent = n == 0 ? t->base : t->frames[n - 1].node;
    f->node = f->parent;
    f->pc = NULL;
    tideT_ci_status(ci) |= TIDE_CIST_MARK;
    t->n_frames = n + 1;
}

/*
** Walks from `ci` to the first frame that was seen.  The number of new ones,
** innermost first in `calls`; 0: something for the cold path.
*/
TIDE_INLINE uint32_t collect_calls(const struct tide_heap *h, char *ci,
                                   char **calls, char **stop)
{
    uint32_t n = 0;
    for (;;) {
        char *caller = tideT_ci_previous(ci);
        if (n == STEP_CALLS_MAX || caller == NULL ||
            (tideT_ci_status(caller) & h->cal->layout.cist_fin) != 0)
            return 0;
        calls[n++] = ci;
        ci = caller;
        if (tideT_ci_previous(ci) == NULL) {
            *stop = NULL;
            return n;
        }
        if ((tideT_ci_status(ci) & TIDE_CIST_MARK) != 0) {
            *stop = ci;
            return n;
        }
    }
}

/* Was the frame on the shadow stack's end replaced by a tail call? */
TIDE_INLINE bool is_replaced(const struct tide_heap *h,
                             const struct tide_frame *f)
{
    bool is_lua;
    return (tideT_ci_status(f->ci) & h->cal->layout.cist_tail) != 0 &&
           tideT_fn_of_slot(tideT_ci_func(f->ci), &is_lua) != f->fn;
}

/* Brings the shadow stack to `ci`; false: the cold path must. */
static TIDE_NOINLINE bool step_shadow(struct tide_heap *h,
                                      struct tide_thread *t, char *ci)
{
    const uint64_t clock = tideT_clock_of(h, t);
    char *calls[STEP_CALLS_MAX];
    char *stop = ci;
    uint32_t n = 0;
    if ((tideT_ci_status(ci) & TIDE_CIST_MARK) == 0) {
        n = collect_calls(h, ci, calls, &stop);
        if (n == 0)
            return false;
    }
    if (stop == NULL) {
        if (t->n_frames != 0 || h->native != NULL)
            return false;
    } else {
        if (!end_frames_to(h, t, stop, clock))
            return false;
        const struct tide_frame *f = &t->frames[t->n_frames] - 1;
        if (TIDE_UNLIKELY(is_replaced(h, f))) {
            if (n == STEP_CALLS_MAX || f->is_finalizer)
                return false;
            end_frame(h, f, clock);
            t->n_frames--;
            calls[n++] = stop;
        }
    }
    if (t->n_frames + n > t->max_frames)
        return false;
    while (n > 0) {
        if (t->n_frames > 0 && !place_caller(h, t, &t->frames[t->n_frames] - 1))
            return false;
        push_call(t, calls[--n], clock);
    }
    return true;
}

/*
** OP_SETLIST with an open number of items resizes the table's array without
** saving pc; the call or `...` before it did save it, so the next instruction
** is the OP_SETLIST, and the size it asks for tells it from anything else.
** pc  as saved by the frame `ci`, the innermost one of L
*/
TIDE_INLINE bool is_setlist(const lua_State *L, const uint32_t *pc,
                            const char *ci, const void *ptr, size_t bytes)
{
    if (TIDE_LIKELY(tideT_op(*pc) != TIDE_OP_SETLIST) || tideT_op_b(*pc) != 0)
        return false;
    const char *ra =
        tideT_ci_func(ci) + (1 + (size_t)tideT_op_a(*pc)) * TIDE_SLOT_BYTES;
    const char *top = tideT_L_top(L);
    if (top <= ra || tideT_value_tag(ra) != TIDE_TAG_TABLE)
        return false;
    const char *table = tideT_value_ptr(ra);
    const size_t n = (size_t)(top - ra) / TIDE_SLOT_BYTES - 1;
    return tideT_table_array(table) == ptr &&
           bytes == (n + tideT_op_count(pc)) * TIDE_SLOT_BYTES;
}

/* What the allocator was asked for, and the frame that did. */
struct tide_asked {
    const struct tide_ra *ra;
    const uintptr_t *words;
    const lua_State *L;
    char *ci;
    const void *ptr;
    size_t nsize;
    unsigned kind;
};

/* The pc of the innermost Lua frame; false: the cold path must find it. */
TIDE_INLINE bool step_pc(const struct tide_asked *a, const uint32_t **pc)
{
    if (a->kind == TIDE_KIND_TABLE) {
        if (a->ra->pc_word == TIDE_NO_WORD)
            return false;
        *pc = (const uint32_t *)(a->words[a->ra->pc_word] +
                                 (uintptr_t)(intptr_t)a->ra->pc_bias);
        return true;
    }
    *pc = tideT_ci_savedpc(a->ci);
    if (a->kind == TIDE_KIND_STORAGE &&
        is_setlist(a->L, *pc, a->ci, a->ptr, a->nsize))
        *pc += 1;
    return true;
}

/*
** A place next to the last one, found but not entered: the same activation at
** another instruction, the caller after a return, or one new activation, of
** which the last one may have returned.
*/
struct tide_near {
    struct tide_frame *frame;       /* to be the innermost one */
    const struct tide_frame *ended; /* the one that has returned; NULL: none */
    struct tide_site *site;
    const void *fn;            /* of that frame, */
    const uint32_t *pc;        /* ... where it is */
    const uint32_t *caller_pc; /* where a new activation was called */
    uint32_t caller_node;
    bool is_new;
    bool is_lua;
};

/* Is `ci` on the stack of calls as f has it, not replaced by a tail call? */
TIDE_INLINE bool is_as_seen(const struct tide_heap *h,
                            const struct tide_frame *f, const char *ci)
{
    const uint16_t status = tideT_ci_status(ci);
    bool is_lua;
    return TIDE_LIKELY((status & h->mark_mask) == TIDE_CIST_MARK) ||
           ((status & TIDE_CIST_MARK) != 0 &&
            tideT_fn_of_slot(tideT_ci_func(ci), &is_lua) == f->fn);
}

/* Finds the site of near->frame, which hangs below `parent`. */
TIDE_INLINE bool find_site(const struct tide_heap *h,
                           const struct tide_asked *a, uint32_t parent,
                           struct tide_near *near)
{
    if (near->is_lua && !step_pc(a, &near->pc))
        return false;
    near->site = cached_site(h, parent, tideT_site_at(near->fn, near->pc));
    return near->site != NULL;
}

/* The place of a frame that was seen: the innermost one or its caller. */
TIDE_INLINE bool find_seen(const struct tide_heap *h, struct tide_thread *t,
                           const struct tide_asked *a, struct tide_near *near)
{
    const uint32_t n = t->n_frames;
    struct tide_frame *top = &t->frames[n] - 1;
    *near = (struct tide_near){.frame = top};
    if (top->ci != a->ci) {
        if (top->is_finalizer || top[-1].ci != a->ci ||
            n - 1 == h->compile_frame) /* perhaps the one that compiles */
            return false;
        near->ended = top--;
        near->frame = top;
    }
    near->is_lua = top->is_lua;
    near->fn = top->fn;
    return is_as_seen(h, top, a->ci) && !top->is_new && !h->is_newborn &&
           find_site(h, a, top->parent, near);
}

/* The place of a new activation, called by the innermost one or its caller. */
TIDE_INLINE bool find_call(const struct tide_heap *h, struct tide_thread *t,
                           const struct tide_asked *a, struct tide_near *near)
{
    struct tide_frame *top = &t->frames[t->n_frames] - 1;
    const char *caller = tideT_ci_previous(a->ci);
    *near = (struct tide_near){.is_new = true};
    if (top->ci != caller) {
        if (top->is_finalizer || top[-1].ci != caller)
            return false;
        near->ended = top--;
    } else if (t->n_frames == t->max_frames) {
        return false;
    }
    if ((tideT_ci_status(caller) & h->cal->layout.cist_fin) != 0 ||
        !is_as_seen(h, top, caller) || top->is_new || h->is_newborn)
        return false;
    near->frame = top + 1;
    near->caller_node = top->node;
    near->caller_pc = top->is_lua ? tideT_ci_savedpc(caller) : NULL;
    if (near->caller_pc != top->pc) {
        const struct tide_site *site = cached_site(
            h, top->parent, tideT_site_at(top->fn, near->caller_pc));
        if (TIDE_UNLIKELY(site == NULL))
            return false;
        near->caller_node = site->node;
    }
    near->fn = tideT_fn_of_slot(tideT_ci_func(a->ci), &near->is_lua);
    return find_site(h, a, near->caller_node, near);
}

/* `f` is of a new activation of `fn`; its node is known. */
TIDE_INLINE void open_frame(struct tide_heap *h, struct tide_thread *t,
                            struct tide_frame *f, char *ci, const void *fn,
                            bool is_lua, uint32_t parent, uint64_t clock)
{
    f->ci = ci;
    f->fn = fn;
    f->start = clock;
    f->parent = parent;
    f->is_lua = is_lua;
    f->is_finalizer = f->is_new = false;
    h->nodes[f->node].calls++;
    tideT_ci_status(ci) |= TIDE_CIST_MARK;
    t->n_frames++;
}

/* The shadow stack goes there. */
TIDE_INLINE void enter_frame(struct tide_heap *h, struct tide_thread *t,
                             const struct tide_asked *a,
                             const struct tide_near *near)
{
    struct tide_frame *f = near->frame;
    const uint64_t clock = tideT_clock_of(h, t);
    if (near->ended != NULL) {
        end_frame(h, near->ended, clock);
        t->n_frames--;
    }
    f->pc = near->pc;
    f->node = near->site->node;
    if (near->is_new) {
        f[-1].pc = near->caller_pc;
        f[-1].node = near->caller_node;
        open_frame(h, t, f, a->ci, near->fn, near->is_lua, near->caller_node,
                   clock);
    }
}

/*
** Has the innermost frame returned, and was the same function called again by
** the same instruction?  Then its node is the same.
*/
TIDE_INLINE bool is_called_again(const struct tide_heap *h,
                                 const struct tide_frame *f, const char *ci)
{
    const char *caller = tideT_ci_previous(ci);
    const uint16_t mask = h->mark_mask | h->cal->layout.cist_fin;
    bool is_lua;
    return f->ci == ci && !f->is_finalizer && !f->is_new &&
           (tideT_ci_status(ci) & TIDE_CIST_MARK) == 0 && f[-1].ci == caller &&
           (tideT_ci_status(caller) & mask) == TIDE_CIST_MARK &&
           (!f[-1].is_lua || f[-1].pc == tideT_ci_savedpc(caller)) &&
           tideT_fn_of_slot(tideT_ci_func(ci), &is_lua) == f->fn;
}

/* Its frame becomes that of the new activation. */
TIDE_INLINE void call_again(struct tide_heap *h, struct tide_frame *f,
                            uint64_t clock)
{
    end_frame(h, f, clock);
    f->start = clock;
    h->nodes[f->node].calls++;
    tideT_ci_status(f->ci) |= TIDE_CIST_MARK;
}

/*
** Walks from *ci to the innermost activation that was seen.  *ci gets what that
** one has called, the activation itself when nothing is new; *calls how many
** are new.  Its frame; NULL: something for the cold path.
*/
TIDE_INLINE struct tide_frame *find_kept(const struct tide_heap *h,
                                         struct tide_thread *t, char **ci,
                                         uint32_t *calls)
{
    const uint16_t stops = TIDE_CIST_MARK | h->cal->layout.cist_fin;
    char *seen = *ci;
    uint32_t n = 0;
    for (; (tideT_ci_status(seen) & stops) == 0; n++) {
        *ci = seen;
        seen = tideT_ci_previous(seen);
        if (seen == NULL)
            return NULL;
    }
    if ((tideT_ci_status(seen) & stops) != TIDE_CIST_MARK)
        return NULL;
    *calls = n;
    return find_frame(t, seen);
}

/*
** The frame of `ci`, whose site must be in the cache: the innermost one asks,
** any other stands at a call.
*/
TIDE_INLINE struct tide_site *
put_frame(struct tide_heap *h, const struct tide_asked *a, struct tide_frame *f,
          char *ci, const void *fn, uint32_t parent, bool is_lua)
{
    const uint32_t *pc = is_lua ? tideT_ci_savedpc(ci) : NULL;
    if (is_lua && ci == a->ci && !step_pc(a, &pc))
        return NULL;
    struct tide_site *site = cached_site(h, parent, tideT_site_at(fn, pc));
    if (TIDE_UNLIKELY(site == NULL))
        return NULL;
    f->pc = pc;
    f->node = site->node;
    return site;
}

/*
** Any number of returns, a tail call of what is innermost then, any number of
** calls: the shadow stack goes there as far as all is in the cache.  The site;
** NULL: the cold path must do the rest.
*/
TIDE_INLINE struct tide_site *enter_far(struct tide_heap *h,
                                        struct tide_thread *t,
                                        const struct tide_asked *a,
                                        bool *is_lua)
{
    char *ci = a->ci;
    uint32_t calls;
    struct tide_frame *f = find_kept(h, t, &ci, &calls);
    if (f == NULL || f->is_new || h->is_newborn ||
        f + calls >= &t->frames[t->max_frames] ||
        (calls == 0 && f + 1 == &t->frames[h->compile_frame]))
        return NULL;
    const uint64_t clock = tideT_clock_of(h, t);
    struct tide_site *site = NULL;
    uint32_t parent = f->parent;
    if (TIDE_LIKELY(!is_replaced(h, f))) {
        end_frames_above(h, t, f, clock);
        const uint32_t *pc = f->is_lua ? tideT_ci_savedpc(f->ci) : NULL;
        if (calls == 0 || f->pc != pc) {
            site = put_frame(h, a, f, f->ci, f->fn, parent, f->is_lua);
            if (site == NULL)
                return NULL;
        }
        parent = f->node;
    } else {
        if (f->is_finalizer)
            return NULL;
        ci = f->ci;
        calls++;
        end_frames_above(h, t, --f, clock);
        tideT_ci_status(ci) &= (uint16_t)~TIDE_CIST_MARK; /* it is new */
    }
    for (; calls > 0; calls--) {
        bool is_lua_function;
        const void *fn = tideT_fn_of_slot(tideT_ci_func(ci), &is_lua_function);
        site = put_frame(h, a, ++f, ci, fn, parent, is_lua_function);
        if (site == NULL)
            return NULL;
        open_frame(h, t, f, ci, fn, is_lua_function, parent, clock);
        parent = f->node;
        ci = tideT_ci_next(ci);
    }
    *is_lua = f->is_lua;
    return site;
}

/* The same out of line, for those who need registers of their own. */
static TIDE_NOINLINE struct tide_site *
step_far(struct tide_heap *h, struct tide_thread *t, const struct tide_asked *a)
{
    bool is_lua;
    return enter_far(h, t, a, &is_lua);
}

/* The shadow stack goes to a place near by; its site, NULL: it is not near. */
TIDE_INLINE struct tide_site *step_near(struct tide_heap *h,
                                        struct tide_thread *t,
                                        const struct tide_asked *a)
{
    struct tide_near near;
    const bool is_seen = (tideT_ci_status(a->ci) & TIDE_CIST_MARK) != 0;
    if (!(is_seen ? find_seen(h, t, a, &near) : find_call(h, t, a, &near)))
        return NULL;
    enter_frame(h, t, a, &near);
    return near.site;
}

/* The fast path goes there. */
TIDE_INLINE void enter_site(struct tide_heap *h, struct tide_site *site,
                            char *ci, unsigned kind, bool is_lua)
{
    h->site = site;
    h->top_ci = ci;
    h->top_closure = tideT_value_ptr(tideT_ci_func(ci));
    h->top_is_lua = is_lua;
    tideT_note_made(h, kind == TIDE_KIND_TABLE && is_lua
                           ? (const uint32_t *)site->at
                           : NULL);
}

/*
** Goes to `ci`, the innermost frame of the running thread; false: the cold path
** must.  Kinds of blocks without one must be clear (hot.c, is_doubtful).
*/
TIDE_INLINE bool step_to(struct tide_heap *h, char *ci,
                         const struct tide_ra *ra, const uintptr_t *words,
                         const void *ptr, unsigned kind, size_t nsize)
{
    struct tide_thread *t = h->cur;
    const struct tide_asked asked = {ra, words, t->L, ci, ptr, nsize, kind};
    const bool is_same_frame = ci == h->top_ci && tideT_is_same_call(h, ci);
    if (kind == TIDE_KIND_PROTO || tideT_ci_previous(ci) == NULL)
        return false;
    if (!is_same_frame && !step_shadow(h, t, ci))
        return false;
    if (tideT_compiles_here(h, t))
        return false;
    h->is_untagged_slow = h->is_newborn;
    struct tide_frame *f = &t->frames[t->n_frames] - 1;
    const uint32_t *pc = NULL;
    if (f->is_lua && !step_pc(&asked, &pc))
        return false;
    struct tide_site *site = place_frame(h, t, f, pc);
    if (site == NULL)
        return false;
    enter_site(h, site, ci, kind, f->is_lua);
    return true;
}
