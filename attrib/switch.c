/*
** switch.c: from one thread to another, while that is plain: a coroutine that
** is resumed anew, one that has yielded or ended, the next one of a scheduler.
**
** Does what thread.c does for these and leaves the rest to it: every early
** `return false` is at a moment when the chain is consistent.
*/
#include "attrib.h"

/* The node of the frame `ci` of `by`, which resumes; TIDE_NO_NODE: not near. */
#define TIDE_NO_NODE UINT32_MAX

static TIDE_NOINLINE uint32_t step_resumer(struct tide_heap *h,
                                           struct tide_thread *by, char *ci)
{
    const struct tide_asked asked = {
        .L = by->L, .ci = ci, .kind = TIDE_KIND_OTHER};
    const struct tide_site *site = step_near(h, by, &asked);
    if (site != NULL)
        return site->node;
    if (!step_shadow(h, by, ci))
        return TIDE_NO_NODE;
    site = place_frame(h, by, &by->frames[by->n_frames - 1], NULL);
    return site != NULL ? site->node : TIDE_NO_NODE;
}

/* The running thread was resumed by `ci`, which stands elsewhere now. */
static TIDE_NOINLINE bool link_resumed(struct tide_heap *h,
                                       struct tide_thread *t, char *ci)
{
    const uint32_t node = step_resumer(h, t->resumer, ci);
    if (node == TIDE_NO_NODE)
        return false;
    if (node != t->base) {
        /* the frame that resumes now is marked, but it is another one */
        t->link = h->link = &tideT_link_invalid;
        return false;
    }
    t->link = h->link = &tideT_ci_status(ci);
    return true;
}

/*
** The running thread was resumed anew, by the same frame of the same thread
** or by another place of it.  False: the cold path must find out by whom.
*/
TIDE_INLINE bool step_resumed(struct tide_heap *h, struct tide_thread *t)
{
    struct tide_thread *by = t->resumer;
    if (by == NULL || t->n_finalizers != 0 || tideT_L_status(t->L) != 0 ||
        (*by->link & TIDE_CIST_MARK) == 0 || tideT_L_status(by->L) != 0 ||
        tideT_resumed_by(by->L) != t->L)
        return false;
    char *ci = tideT_L_ci(by->L);
    struct tide_frame *f = &by->frames[by->n_frames] - 1;
    if (!is_called_again(h, f, ci) || f->node != t->base)
        return link_resumed(h, t, ci);
    call_again(h, f, tideT_clock_of(h, by));
    t->link = h->link = &tideT_ci_status(ci);
    return true;
}

/* Ends what has returned of a thread that runs no more; false: cold path. */
TIDE_INLINE bool end_left(struct tide_heap *h, struct tide_thread *t)
{
    const uint64_t clock = tideT_clock_of(h, t);
    const char *ci = tideT_L_ci(t->L);
    if (ci == NULL || t->n_finalizers != 0)
        return false;
    while (tideT_ci_previous(ci) != NULL &&
           (tideT_ci_status(ci) & TIDE_CIST_MARK) == 0)
        ci = tideT_ci_previous(ci);
    if (tideT_ci_previous(ci) == NULL) {
        while (t->n_frames > 0)
            end_frame(h, &t->frames[--t->n_frames], clock);
        return true;
    }
    if (!end_frames_to(h, t, ci, clock))
        return false;
    const struct tide_frame *f = &t->frames[t->n_frames] - 1;
    if (is_replaced(h, f)) {
        end_frame(h, f, clock);
        t->n_frames--;
    }
    return true;
}

/* The chain's end has resumed L, which runs. */
static bool enter_resumed(struct tide_heap *h, const lua_State *L)
{
    struct tide_thread *by = h->cur;
    struct tide_thread *t = tideT_thread_of(h, L);
    if (t == NULL || t->on_chain || t->n_kept != 0 ||
        (t->max_frames == 0 && !tideT_shadow_reserve(h, t, 1)))
        return false;
    char *ci = tideT_L_ci(by->L);
    const uint32_t node = step_resumer(h, by, ci);
    if (node == TIDE_NO_NODE || (t->base != node && t->n_frames != 0))
        return false;
    t->base = node;
    t->link = &tideT_ci_status(ci);
    tideT_chain_push(h, t);
    return true;
}

/*
** Makes L the running thread; while it is only being prepared, the one that
** prepares it.  False: the cold path must find out which one runs.
*/
static TIDE_NOINLINE bool step_switch(struct tide_heap *h, const lua_State *L)
{
    if (h->cur == NULL || h->cur_L != h->cur->L)
        return false;
    h->cur_L = NULL;                 /* until all is known */
    while (!tideT_is_end_valid(h)) { /* it has yielded, ended, or failed */
        if (!end_left(h, h->cur))
            return false;
        tideT_chain_pop(h);
    }
    if (h->cur->L != L) {
        const lua_State *next = tideT_resumed_by(h->cur->L);
        const bool is_active = next != NULL && tideT_is_active(next);
        if (is_active && (next != L || !enter_resumed(h, L)))
            return false;
        if (!is_active && tideT_is_active(L))
            return false;
        h->last_L = L; /* its stack may be what is being replaced */
        h->is_last_untagged = false;
    }
    h->cur_L = h->cur->L;
    h->link = h->cur->link;
    h->top_ci = NULL;
    return true;
}

/* As step_to, from anywhere; ptr as for tideT_locate. */
static TIDE_NOINLINE bool tideT_step(struct tide_heap *h,
                                     const struct tide_ra *ra,
                                     const uintptr_t *words, const void *ptr,
                                     unsigned kind, size_t nsize)
{
    const lua_State *L = (const lua_State *)words[ra->l_word];
    if (ra->address != words[TIDE_WORD_RA] || tideT_gc_word(h) != h->gc_word)
        return false;
    if (L != h->cur_L) {
        if (!step_switch(h, L))
            return false;
    } else if ((*h->link & TIDE_CIST_MARK) == 0 && !step_resumed(h, h->cur)) {
        return false;
    }
    return step_to(h, tideT_L_ci(h->cur_L), ra, words, ptr, kind, nsize);
}
