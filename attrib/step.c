/*
** step.c: the path between hot and cold: the thread that ran last, a few calls
** or returns further, or at another instruction.
**
** Programs that allocate once per call come here for each of them, so it does
** what shadow.c and locate.c do for the plain case only and leaves the rest to
** them: every early `return false` is at a moment when the shadow stack is
** consistent.
**
** Budget, x86-64, gcc 12 -O2: 235 instructions for one new activation, beyond
** those of the block; tests/abi/budget.py counts them.
*/
#include "attrib.h"

#define STEP_CALLS_MAX 8u /* new activations handled here */

/* Ends activations above frame number n; none of them is a finalizer. */
TIDE_INLINE void end_frames(struct tide_heap *h, struct tide_thread *t,
                            uint32_t n, uint64_t clock)
{
    for (uint32_t i = t->n_frames; i > n; i--) {
        const struct tide_frame *f = &t->frames[i - 1];
        struct tide_p_node *node = &h->nodes[f->node];
        const uint64_t bytes = clock - f->start;
        if (bytes > node->max_call_bytes)
            node->max_call_bytes = bytes;
    }
    tide_assert(n <= t->n_frames);
    t->n_frames = n;
}

/* The number of frames up to the one of `ci`; 0: it is not there. */
TIDE_INLINE uint32_t find_frame(const struct tide_thread *t, const char *ci)
{
    uint32_t n = t->n_frames;
    while (n > 0 && t->frames[n - 1].ci != ci) {
        if (t->frames[n - 1].is_finalizer)
            return 0; /* cold: its bytes are to be excluded */
        n--;
    }
    return n;
}

/* As tideT_shadow_place. */
TIDE_INLINE struct tide_site *place_frame(struct tide_heap *h,
                                          struct tide_thread *t,
                                          struct tide_frame *f,
                                          const uint32_t *pc)
{
    struct tide_site *site = tideT_site_place(h, f->parent, f->fn, pc);
    if (TIDE_UNLIKELY(site->pc != pc || site->fn != f->fn ||
                      site->parent != f->parent))
        site =
            tideT_site(h, f->parent, f->fn, pc, t->L, f->is_new ? f->ci : NULL);
    f->pc = pc;
    f->node = site->node;
    if (f->is_new) {
        h->nodes[f->node].calls++;
        f->is_new = false;
    }
    return site;
}

/* The caller stands at its call. */
TIDE_INLINE void place_caller(struct tide_heap *h, struct tide_thread *t,
                              struct tide_frame *f)
{
    const uint32_t *pc = f->is_lua ? tideT_ci_savedpc(f->ci) : NULL;
    if (pc != f->pc || f->is_new)
        place_frame(h, t, f, pc);
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
    uint32_t n_calls = 0;
    if ((tideT_ci_status(ci) & TIDE_CIST_MARK) == 0) {
        n_calls = collect_calls(h, ci, calls, &stop);
        if (n_calls == 0)
            return false;
    }
    uint32_t n = 0;
    if (stop != NULL) {
        n = find_frame(t, stop);
        if (n == 0 || is_replaced(h, &t->frames[n - 1]))
            return false;
    } else if (find_frame(t, NULL) != 0 || t->n_frames != 0) {
        return false;
    }
    if (n + n_calls > t->max_frames)
        return false;
    end_frames(h, t, n, clock);
    for (uint32_t i = n_calls; i > 0; i--) {
        if (t->n_frames > 0)
            place_caller(h, t, &t->frames[t->n_frames - 1]);
        push_call(t, calls[i - 1], clock);
    }
    return true;
}

/* The pc of the innermost Lua frame; false: the cold path must find it. */
TIDE_INLINE bool step_pc(const struct tide_ra *ra, const uintptr_t *words,
                         const lua_State *L, const struct tide_frame *f,
                         const void *ptr, unsigned kind, size_t nsize,
                         const uint32_t **pc)
{
    *pc = tideT_ci_savedpc(f->ci);
    if (kind == TIDE_KIND_TABLE) {
        if (ra->pc_word == TIDE_NO_WORD)
            return false;
        *pc = (const uint32_t *)(words[ra->pc_word] +
                                 (uintptr_t)(intptr_t)ra->pc_bias);
    } else if (kind == TIDE_KIND_STORAGE && tideT_op(**pc) == TIDE_OP_SETLIST &&
               tideT_is_setlist(L, f, ptr, nsize)) {
        *pc += 1;
    }
    return true;
}

/*
** The frame f has returned, and `ci` is an activation of the same function by
** the same instruction of its caller: nothing of f changes but its start.
*/
TIDE_INLINE bool is_repeated(const struct tide_frame *f, const char *ci)
{
    const struct tide_frame *caller = f - 1;
    bool is_lua;
    return f->ci == ci &&
           tideT_fn_of_slot(tideT_ci_func(ci), &is_lua) == f->fn &&
           !caller->is_new &&
           (!caller->is_lua || tideT_ci_savedpc(caller->ci) == caller->pc);
}

/*
** The commonest step: one new activation, called by the frame below the top
** one (which has returned) or by the top one.  False: nothing was changed.
*/
TIDE_INLINE bool step_call(struct tide_heap *h, struct tide_thread *t, char *ci)
{
    const uint32_t n_before = t->n_frames;
    uint32_t n = n_before;
    const char *caller = tideT_ci_previous(ci);
    const uint64_t clock = tideT_clock_of(h, t);
    if (n < 2 || (tideT_ci_status(ci) & TIDE_CIST_MARK) != 0)
        return false;
    struct tide_frame *f = &t->frames[n];
    if (f[-2].ci == caller) {
        if (f[-1].is_finalizer)
            return false;
        n--;
        f--;
    } else if (f[-1].ci != caller || n == t->max_frames) {
        return false;
    }
    const uint16_t status = tideT_ci_status(caller);
    if ((status & (TIDE_CIST_MARK | h->cal->layout.cist_fin)) !=
            TIDE_CIST_MARK ||
        ((status & h->mark_mask) != TIDE_CIST_MARK && is_replaced(h, f - 1)))
        return false;
    if (n != n_before) {
        struct tide_p_node *node = &h->nodes[f->node];
        if (clock - f->start > node->max_call_bytes)
            node->max_call_bytes = clock - f->start;
        t->n_frames = n;
    }
    if (n != n_before && is_repeated(f, ci)) {
        f->start = clock;
        f->is_new = true;
        tideT_ci_status(ci) |= TIDE_CIST_MARK;
        t->n_frames = n_before;
        return true;
    }
    place_caller(h, t, f - 1);
    push_call(t, ci, clock);
    return true;
}

/* The top frame has returned to its caller, which allocates. */
TIDE_INLINE bool step_return(struct tide_heap *h, struct tide_thread *t,
                             const char *ci)
{
    const uint32_t n = t->n_frames;
    if (n < 2 || (tideT_ci_status(ci) & h->mark_mask) != TIDE_CIST_MARK)
        return false;
    const struct tide_frame *f = &t->frames[n - 1];
    if (f[-1].ci != ci || f->is_finalizer)
        return false;
    end_frames(h, t, n - 1, tideT_clock_of(h, t));
    return true;
}

/*
** The running thread was resumed anew, by the same frame of the same thread
** or by another place of it.  False: the cold path must find out by whom.
*/
static TIDE_NOINLINE bool step_resumed(struct tide_heap *h,
                                       struct tide_thread *t)
{
    struct tide_thread *by = t->resumer;
    if (by == NULL || t->n_finalizers != 0 || tideT_L_status(t->L) != 0 ||
        (*by->link & TIDE_CIST_MARK) == 0 || tideT_L_status(by->L) != 0 ||
        tideT_resumed_by(by->L) != t->L)
        return false;
    char *ci = tideT_L_ci(by->L);
    if (!step_call(h, by, ci) && !step_shadow(h, by, ci))
        return false;
    struct tide_frame *f = &by->frames[by->n_frames - 1];
    if (place_frame(h, by, f, NULL)->node != t->base) {
        /* the frame that resumes now is marked, but it is another one */
        t->link = h->link = &tideT_link_invalid;
        return false;
    }
    t->link = h->link = &tideT_ci_status(ci);
    return true;
}

/*
** Finds the place when it is near the last one; false: ask tideT_locate.
** Kinds of blocks without one must be clear (hot.c, is_doubtful).
*/
static TIDE_NOINLINE bool tideT_step(struct tide_heap *h,
                                     const struct tide_ra *ra,
                                     const uintptr_t *words, const void *ptr,
                                     unsigned kind, size_t nsize)
{
    const lua_State *L = (const lua_State *)words[ra->l_word];
    if (L != h->cur_L || ra->address != words[TIDE_WORD_RA] ||
        tideT_gc_word(h) != h->gc_word)
        return false;
    struct tide_thread *t = h->cur;
    if ((*h->link & TIDE_CIST_MARK) == 0 && !step_resumed(h, t))
        return false;
    char *ci = tideT_L_ci(L);
    const bool is_same_frame = ci == h->top_ci && tideT_is_same_call(h, ci);
    if (kind == TIDE_KIND_THREAD || kind == TIDE_KIND_PROTO ||
        tideT_ci_previous(ci) == NULL)
        return false;
    if (!is_same_frame && !step_return(h, t, ci) && !step_call(h, t, ci) &&
        !step_shadow(h, t, ci))
        return false;
    if (tideT_compiles_here(h, t))
        return false;
    h->is_untagged_slow = h->is_newborn;
    struct tide_frame *f = &t->frames[t->n_frames - 1];
    const uint32_t *pc = NULL;
    if (f->is_lua && !step_pc(ra, words, L, f, ptr, kind, nsize, &pc))
        return false;
    struct tide_site *site = place_frame(h, t, f, pc);
    h->site = site;
    h->top_ci = ci;
    h->top_closure = tideT_value_ptr(tideT_ci_func(ci));
    h->top_is_lua = f->is_lua;
    h->parts_left =
        kind == TIDE_KIND_TABLE && f->is_lua ? (uint8_t)site->parts : 0;
    return true;
}
