/*
** shadow.c: each thread's shadow stack.
**
** A walk per allocation would cost as much as the stack is deep.  Instead, a
** bit of CallInfo.callstatus marks a frame as seen: from the first marked frame
** down to the root nothing can have changed, for a caller stands at its call.
** Every call writes callstatus afresh, so each frame is walked over once per
** activation: amortised O(1).
**
** A tail call keeps the CallInfo and its mark: where the walk stops, another
** function with CIST_TAIL set is a new activation.  A tail call to the same
** function continues the activation; it cannot be told apart.
**
** Marks mean nothing without the shadow: a thread whose shadow is empty is
** walked to its root.
*/
#include <string.h>

#include "native.h"

#define FIRST_FRAMES 4u

const char *tideT_func_slot(const struct tide_heap *h, const lua_State *L,
                            const char *ci)
{
    const char *func = tideT_ci_func(ci);
    if (TIDE_LIKELY(L != h->moving_L))
        return func;
    const char *stack = TIDE_AT(char *, L, h->cal->layout.stack);
    const bool is_pointer = (size_t)(func - stack) < h->moving_bytes;
    return is_pointer ? func : stack + (uintptr_t)func;
}

static const void *frame_fn(const struct tide_heap *h, const lua_State *L,
                            const char *ci, bool *is_lua)
{
    const void *fn = tideT_fn_of_slot(tideT_func_slot(h, L, ci), is_lua);
    if ((tideT_ci_status(ci) & TIDE_CIST_C) != 0 && *is_lua)
        return NULL; /* not what it seems: an unknown frame */
    return fn;
}

void tideT_shadow_finish(struct tide_heap *h, const struct tide_thread *t,
                         const struct tide_frame *f)
{
    const uint64_t bytes = tideT_clock(h, t) - f->start;
    tide_assert(f->node < h->n_nodes);
    tide_assert((int64_t)bytes >= 0); /* clocks do not run back */
    struct tide_p_node *node = &h->nodes[f->node];
    if (bytes > node->max_call_bytes)
        node->max_call_bytes = bytes;
    if (!f->is_finalizer)
        return;
    /* it was not the doing of the calls that it interrupted */
    tide_assert(t->on_chain);
    for (struct tide_thread *on = h->cur; on != NULL; on = on->resumer)
        on->clock -= bytes;
}

static void pop_frame(struct tide_heap *h, struct tide_thread *t)
{
    tide_assert(t->n_frames > 0);
    const struct tide_frame *f = &t->frames[--t->n_frames];
    t->n_finalizers -= f->is_finalizer;
    tideT_shadow_finish(h, t, f);
}

void tideT_shadow_clear(struct tide_heap *h, struct tide_thread *t)
{
    while (t->n_frames > 0)
        pop_frame(h, t);
}

const struct tide_frame tideT_no_frame = {
    .ci = (char *)(uintptr_t)&tideT_no_frame,
    .is_finalizer = true,
};

bool tideT_shadow_reserve(struct tide_heap *h, struct tide_thread *t,
                          size_t want)
{
    if (want <= t->max_frames)
        return true;
    size_t max = t->max_frames == 0 ? FIRST_FRAMES : t->max_frames;
    while (max < want)
        max *= 2;
    struct tide_frame *old = t->max_frames == 0 ? NULL : t->frames - 1;
    struct tide_frame *f =
        tideC_mem_grow(&h->mem, old, tideT_frames_bytes(t->max_frames),
                       tideT_frames_bytes((uint32_t)max));
    if (f == NULL)
        return false;
    f[0] = tideT_no_frame;
    t->frames = f + 1;
    t->max_frames = (uint32_t)max;
    return true;
}

/*
** Frames from L->ci that are not on the shadow stack.  *stop gets the first
** frame that is, NULL when the walk ended at the root.
*/
static size_t count_new(struct tide_thread *t, char *ci, char **stop)
{
    const bool trust_marks = t->n_frames > 0;
    size_t n = 0;
    while (tideT_ci_previous(ci) != NULL) {
        if (trust_marks && (tideT_ci_status(ci) & TIDE_CIST_MARK) != 0) {
            *stop = ci;
            return n;
        }
        n++;
        ci = tideT_ci_previous(ci);
    }
    *stop = NULL;
    return n;
}

/* Pops down to a frame; false when it is not there. */
static bool pop_to(struct tide_heap *h, struct tide_thread *t, const char *ci)
{
    while (t->n_frames > 0 && t->frames[t->n_frames - 1].ci != ci)
        pop_frame(h, t);
    return t->n_frames > 0;
}

static uint32_t finalizer_node(struct tide_heap *h)
{
    if (h->finalizer == 0)
        h->finalizer = tideT_child(
            h, 0, tideT_func_special(h, TIDE_P_FINALIZER, "[finalizer]"), 0);
    return h->finalizer;
}

/*
** The node that what frame number i has called hangs below: with C frames, one
** below its own.
*/
static uint32_t node_of_calls(struct tide_heap *h, const struct tide_thread *t,
                              uint32_t i)
{
    const struct tide_frame *f = &t->frames[i];
    return TIDE_UNLIKELY(f->pc == TIDE_NATIVE_PC) ? tideT_native_called(h, t, i)
                                                  : f->node;
}

/* The node that a thread's outermost frame hangs below. */
static uint32_t node_of_host(struct tide_heap *h, const struct tide_thread *t)
{
    return TIDE_UNLIKELY(h->native != NULL) ? tideT_native_host(h, t) : t->base;
}

/*
** Fills frame number i, whose ci is set and whose callers are on the stack.
** Its node is left open: tideT_shadow_place knows the pc.
*/
static void push_frame(struct tide_heap *h, struct tide_thread *t, size_t i)
{
    tide_assert(i == t->n_frames && i < t->max_frames);
    struct tide_frame *f = &t->frames[i];
    const uint16_t before = tideT_ci_status(tideT_ci_previous(f->ci));
    bool is_lua;
    f->fn = frame_fn(h, t->L, f->ci, &is_lua);
    f->is_lua = is_lua;
    f->is_finalizer = (before & h->cal->layout.cist_fin) != 0;
    f->start = tideT_clock(h, t);
    t->n_finalizers += f->is_finalizer;
    if (f->is_finalizer)
        f->parent = finalizer_node(h);
    else
        f->parent =
            i == 0 ? node_of_host(h, t) : node_of_calls(h, t, (uint32_t)i - 1);
    f->node = f->parent;
    f->pc = NULL;
    f->is_new = true;
    tideT_ci_status(f->ci) |= TIDE_CIST_MARK;
    t->n_frames = (uint32_t)i + 1;
}

struct tide_site *tideT_shadow_place(struct tide_heap *h, struct tide_thread *t,
                                     const uint32_t *pc)
{
    tide_assert(t->n_frames > 0);
    struct tide_frame *f = &t->frames[t->n_frames - 1];
    tide_assert(f->is_lua == (pc != NULL));
    char *ci = f->is_new && t->L != h->moving_L ? f->ci : NULL;
    struct tide_site *site = tideT_site(h, f->parent, f->fn, pc, t->L, ci);
    f->pc = pc;
    if (TIDE_UNLIKELY(tideT_is_native(site)) &&
        h->session->options.native == TIDE_NATIVE_ON)
        f->pc = TIDE_NATIVE_PC;
    f->node = site->node;
    if (f->is_new)
        h->nodes[f->node].calls++;
    f->is_new = false;
    return site;
}

/* The top frame at the pc that Lua has saved. */
static void place_saved(struct tide_heap *h, struct tide_thread *t)
{
    struct tide_frame *f = &t->frames[t->n_frames - 1];
    const uint32_t *pc = f->is_lua ? tideT_ci_savedpc(f->ci) : NULL;
    if (f->is_new || f->pc != pc)
        tideT_shadow_place(h, t, pc);
}

/* Is the frame where the walk stopped still the same activation? */
static bool is_tail_called(const struct tide_heap *h,
                           const struct tide_thread *t)
{
    const struct tide_frame *f = &t->frames[t->n_frames - 1];
    bool is_lua;
    return (tideT_ci_status(f->ci) & h->cal->layout.cist_tail) != 0 &&
           frame_fn(h, t->L, f->ci, &is_lua) != f->fn;
}

/*
** Pops what has returned.  Returns the number of frames above the shadow
** stack that are to be pushed.
*/
static size_t trim(struct tide_heap *h, struct tide_thread *t, char *top)
{
    char *stop;
    size_t n = count_new(t, top, &stop);
    if (stop == NULL)
        tideT_shadow_clear(h, t);
    else if (!pop_to(h, t, stop)) /* a mark without its shadow */
        n = count_new(t, top, &stop);
    else if (is_tail_called(h, t)) {
        pop_frame(h, t);
        n++;
    }
    return n;
}

bool tideT_shadow_sync(struct tide_heap *h, struct tide_thread *t)
{
    char *top = tideT_L_ci(t->L);
    if (top == NULL || tideT_ci_previous(top) == NULL) {
        tideT_shadow_clear(h, t);
        return true;
    }
    const size_t n = trim(h, t, top);
    const size_t base = t->n_frames;
    if (!tideT_shadow_reserve(h, t, base + n))
        return false;
    if (TIDE_UNLIKELY(t->n_kept != 0))
        tideT_regions_sift(t, top);
    char *ci = top;
    for (size_t i = n; i > 0; i--, ci = tideT_ci_previous(ci))
        t->frames[base + i - 1].ci = ci;
    for (size_t i = 0; i < n; i++) {
        if (t->n_frames > 0) /* the caller stands at its call */
            place_saved(h, t);
        push_frame(h, t, base + i);
    }
    if (TIDE_UNLIKELY(t->n_kept != 0))
        tideT_regions_restore(h, t);
    return true;
}

bool tideT_shadow_settle(struct tide_heap *h, struct tide_thread *t)
{
    if (!tideT_shadow_sync(h, t))
        return false;
    if (t->n_frames > 0)
        place_saved(h, t);
    return true;
}

void tideT_shadow_trim(struct tide_heap *h, struct tide_thread *t)
{
    char *top = tideT_L_ci(t->L);
    if (top != NULL && tideT_ci_previous(top) != NULL)
        trim(h, t, top);
    else
        tideT_shadow_clear(h, t);
}

#define PEEK_MAX 64u /* new frames that a peek looks at */

uint32_t tideT_shadow_peek(struct tide_heap *h, const struct tide_thread *t,
                           const void **fn)
{
    char *frames[PEEK_MAX];
    char *ci = tideT_L_ci(t->L);
    uint32_t n = 0;
    *fn = NULL;
    if (ci == NULL || t->L == h->moving_L)
        return tideT_shadow_node(t);
    while (n < PEEK_MAX && tideT_ci_previous(ci) != NULL &&
           (tideT_ci_status(ci) & TIDE_CIST_MARK) == 0) {
        frames[n++] = ci;
        ci = tideT_ci_previous(ci);
    }
    uint32_t i = t->n_frames;
    uint32_t node = t->base;
    while (i > 0 && t->frames[i - 1].ci != ci)
        i--;
    if (i > 0) { /* the innermost frame that is on the shadow stack */
        frames[n < PEEK_MAX ? n++ : n - 1] = ci;
        node = t->frames[i - 1].parent;
    }
    while (n > 0) {
        bool is_lua;
        ci = frames[--n];
        *fn = frame_fn(h, t->L, ci, &is_lua);
        const uint32_t *pc = is_lua ? tideT_ci_savedpc(ci) : NULL;
        node = tideT_site(h, node, *fn, pc, t->L, ci)->node;
    }
    h->cur_L = NULL; /* h->site may have been overwritten */
    return node;
}

void tideT_shadow_replace(struct tide_heap *h, struct tide_thread *t,
                          uint32_t i)
{
    /* the node of the frame below as it was */
    uint32_t before = i == 0 ? t->base : t->frames[i - 1].node;
    for (; i < t->n_frames; i++) {
        struct tide_frame *f = &t->frames[i];
        uint32_t below = i > 0          ? f[-1].node
                         : t == h->main ? f->parent /* it is never rebased */
                                        : t->base;
        if (TIDE_UNLIKELY(f->parent != before) && i > 0 && !f->is_finalizer)
            below = tideT_native_rehang(h, f->parent, before, below);
        before = f->node;
        f->parent = f->is_finalizer ? finalizer_node(h) : below;
        if (f->is_new)
            break; /* the top frame, not placed yet */
        const uint32_t *pc = f->pc == TIDE_NATIVE_PC ? NULL : f->pc;
        f->node = tideT_site(h, f->parent, f->fn, pc, t->L, NULL)->node;
    }
}

void tideT_shadow_rebase(struct tide_heap *h, struct tide_thread *t,
                         uint32_t base)
{
    tideT_shadow_trim(h, t);
    tide_assert(base < h->n_nodes);
    t->base = base;
    tideT_shadow_replace(h, t, 0);
}

uint32_t tideT_shadow_base(struct tide_heap *h, const struct tide_thread *t)
{
    return t->n_frames == 0 ? t->base : node_of_calls(h, t, t->n_frames - 1);
}

uint32_t tideT_shadow_node(const struct tide_thread *t)
{
    return t->n_frames == 0 ? t->base : t->frames[t->n_frames - 1].node;
}
