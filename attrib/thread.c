/*
** thread.c: which coroutine runs, and who resumed it.
**
** Capture gives the lua_State that asked (calibrate.h).  That is the running
** thread with three exceptions, told apart here: a coroutine that is being
** prepared (no frame yet) or that is suspended (its stack is filled or resized
** from outside), and a thread that waits in a resume while the collector
** shrinks its stack.  Then the thread that does the work is the running one.
**
** Threads that run or wait form a chain from the main thread.  A thread's
** stacks hang below the frame that resumed it: coroutine.resume and the like
** have the thread as first argument, coroutine.wrap as first upvalue, and C
** code may tell (tide_resume_begin); else it is a root of its own.  The frame
** that resumed is marked as seen; a new resume writes its callstatus afresh, so
** a lost mark says that the thread was resumed anew.
*/
#include "native.h"

const uint16_t tideT_link_valid = TIDE_CIST_MARK;
const uint16_t tideT_link_invalid = 0;

struct tide_thread *tideT_thread_of(struct tide_heap *h, const lua_State *L)
{
    uint64_t *value =
        tideC_hashtab_put(&h->threads, &h->mem, (uint64_t)(uintptr_t)L);
    if (value == NULL)
        return NULL;
    if (*value == 0) {
        struct tide_thread *t = tideC_mem_alloc(&h->mem, sizeof *t);
        if (t == NULL) {
            tideC_hashtab_remove(&h->threads, (uint64_t)(uintptr_t)L, NULL);
            return NULL;
        }
        t->L = L;
        t->frames = (struct tide_frame *)(uintptr_t)&tideT_no_frame + 1;
        t->link = &tideT_link_invalid;
        *value = (uint64_t)(uintptr_t)t;
    }
    return (struct tide_thread *)(uintptr_t)*value;
}

static struct tide_thread *find_thread(const struct tide_heap *h,
                                       const lua_State *L)
{
    const uint64_t *value =
        tideC_hashtab_find(&h->threads, (uint64_t)(uintptr_t)L);
    return value == NULL ? NULL : (struct tide_thread *)(uintptr_t)*value;
}

/* Takes the end off the chain. */
static void pop_chain(struct tide_heap *h)
{
    /* finalizers have returned: see tideT_shadow_finish */
    tideT_shadow_trim(h, h->cur);
    tideT_chain_pop(h);
    h->cur_L = NULL;
    h->link = &tideT_link_invalid;
}

const lua_State *tideT_resumed_by(const lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    if (ci == NULL || tideT_ci_previous(ci) == NULL ||
        (tideT_ci_status(ci) & TIDE_CIST_C) == 0)
        return NULL;
    const char *func = tideT_ci_func(ci);
    const char *arg = func + TIDE_SLOT_BYTES;
    if (arg < tideT_L_top(L) && tideT_value_tag(arg) == TIDE_TAG_THREAD)
        return (const lua_State *)tideT_value_ptr(arg);
    if (tideT_value_tag(func) != TIDE_TAG_CCLOSURE)
        return NULL;
    const char *closure = tideT_value_ptr(func);
    const char *up = tideT_cclosure_up(closure);
    if (tideT_closure_nup(closure) == 0 ||
        tideT_value_tag(up) != TIDE_TAG_THREAD)
        return NULL;
    return (const lua_State *)tideT_value_ptr(up);
}

/* The node "[coroutine]" of a thread whose resumer is not known. */
static uint32_t own_root(struct tide_heap *h, const lua_State *L)
{
    uint64_t tag = 0;
    uint32_t born = 0;
    char *block = (char *)(uintptr_t)L - h->cal->layout.extra_bytes;
    if (tideA_store_tag(&h->store, block, h->cal->layout.thread_bytes, &tag) &&
        tideA_tag_cell(tag) < h->n_cells)
        born = h->cells[tideA_tag_cell(tag)].node;
    return tideT_child(h, 0, tideT_func_coroutine(h, born), 0);
}

/* Puts t on the chain's end.  is_known: the end has resumed it. */
static void stitch(struct tide_heap *h, struct tide_thread *t, bool is_known)
{
    struct tide_thread *below = h->cur;
    tide_assert(below != t);
    uint32_t base;
    t->link = &tideT_link_valid;
    tideT_native_above(h, t->L);
    if (is_known && tideT_shadow_settle(h, below)) {
        base = tideT_shadow_base(h, below);
        char *ci = tideT_L_ci(below->L);
        if (below->n_frames > 0)
            t->link = &tideT_ci_status(ci);
    } else {
        base = own_root(h, t->L);
    }
    tideT_native_above(h, NULL);
    tideT_chain_push(h, t);
    if (t->base != base)
        tideT_shadow_rebase(h, t, base);
}

/*
** Follows the chain upwards through frames that resume, until `want` or until
** nothing is known.  True when `want` is the end.
*/
static bool follow(struct tide_heap *h, const lua_State *want)
{
    for (;;) {
        const lua_State *next =
            h->cur->L == h->moving_L ? NULL : tideT_resumed_by(h->cur->L);
        if (next == NULL || (next != want && !tideT_is_active(next)))
            return false;
        struct tide_thread *t = tideT_thread_of(h, next);
        if (t == NULL || t->on_chain)
            return false;
        stitch(h, t, true);
        if (next == want)
            return true;
    }
}

static void drop_invalid(struct tide_heap *h)
{
    while (!tideT_is_end_valid(h))
        pop_chain(h);
}

/* The running thread when the capture does not tell. */
static struct tide_thread *infer_running(struct tide_heap *h)
{
    drop_invalid(h);
    follow(h, NULL);
    return h->cur;
}

/* Told by C code: the thread that resumes t; NULL: nothing was told. */
static struct tide_thread *hinted(struct tide_heap *h,
                                  const struct tide_thread *t)
{
    struct tide_thread *from = t->hint == NULL ? NULL : find_thread(h, t->hint);
    return from != NULL && from->on_chain ? from : NULL;
}

/* Makes t, which is active and not on the chain, the chain's end. */
static void enter(struct tide_heap *h, struct tide_thread *t)
{
    drop_invalid(h);
    if (follow(h, t->L))
        return;
    struct tide_thread *from = hinted(h, t);
    while (from != NULL && h->cur != from)
        pop_chain(h);
    stitch(h, t, from != NULL);
}

struct tide_thread *tideT_running(struct tide_heap *h, const lua_State *L)
{
    if (L == NULL)
        return infer_running(h);
    if (L == h->cur->L && tideT_is_end_valid(h))
        return h->cur;
    if (L != h->main_L && !tideT_is_active(L))
        return infer_running(h);
    struct tide_thread *t = tideT_thread_of(h, L);
    if (t == NULL)
        return infer_running(h);
    if (t->on_chain) {
        if (t->above != NULL && tideT_is_active(t->above->L))
            return infer_running(h); /* the collector resizes its stack */
        while (h->cur != t)
            pop_chain(h);
        if (tideT_is_end_valid(h))
            return t;
        pop_chain(h);
    }
    enter(h, t);
    return t;
}

void tideT_thread_free(struct tide_heap *h, struct tide_thread *t)
{
    if (t->max_frames != 0)
        tideC_mem_free(&h->mem, t->frames - 1,
                       tideT_frames_bytes(t->max_frames));
    tideT_regions_forget(h, t);
    tideC_mem_free(&h->mem, t, sizeof *t);
}

void tideT_thread_forget(struct tide_heap *h, const lua_State *L)
{
    struct tide_thread *t = find_thread(h, L);
    if (t == NULL || t == h->main)
        return;
    if (t->on_chain) {
        while (h->cur != t)
            pop_chain(h);
        pop_chain(h);
    }
    tideC_hashtab_remove(&h->threads, (uint64_t)(uintptr_t)L, NULL);
    tide_assert(!t->on_chain);
    tideT_shadow_clear(h, t);
    tideT_thread_free(h, t);
}

void tideT_links_cut(struct tide_heap *h, const char *block, size_t bytes)
{
    for (struct tide_thread *t = h->cur; t != NULL; t = t->resumer)
        if ((size_t)((const char *)t->link - block) < bytes)
            t->link = &tideT_link_invalid;
    if ((size_t)((const char *)h->link - block) < bytes) {
        h->link = &tideT_link_invalid;
        h->cur_L = NULL;
    }
}

void tideT_threads_reset(struct tide_heap *h)
{
    while (h->cur != NULL && h->cur != h->main)
        pop_chain(h);
    for (uint32_t i = 0; h->threads.pairs != NULL && i <= h->threads.mask;
         i++) {
        struct tide_thread *t =
            (struct tide_thread *)(uintptr_t)h->threads.pairs[i].value;
        if (h->threads.pairs[i].key == 0)
            continue;
        tideT_regions_keep(h, t);
        tideT_shadow_clear(h, t);
    }
    h->cur_L = NULL;
}

static void start_anew(const struct tide_heap *h, struct tide_thread *t)
{
    for (uint32_t i = 0; i < t->n_frames; i++)
        t->frames[i].start = tideT_clock(h, t);
}

void tideT_calls_reset(struct tide_heap *h)
{
    for (uint32_t i = 0; h->threads.pairs != NULL && i <= h->threads.mask; i++)
        if (h->threads.pairs[i].key != 0)
            start_anew(
                h, (struct tide_thread *)(uintptr_t)h->threads.pairs[i].value);
}

void tideT_calls_flush(struct tide_heap *h)
{
    for (struct tide_thread *t = h->cur; t != NULL; t = t->resumer) {
        for (uint32_t i = 0; i < t->n_frames; i++) {
            const uint64_t bytes = tideT_clock(h, t) - t->frames[i].start;
            struct tide_p_node *node = &h->nodes[t->frames[i].node];
            if (bytes > node->max_call_bytes)
                node->max_call_bytes = bytes;
        }
    }
}
