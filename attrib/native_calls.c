/*
** native_calls.c: C frames between a C function and what it has called.
**
** A C function that calls Lua back, or resumes a coroutine, does so from
** somewhere in C: outer() -> inner() -> lua_call() -> Lua.  What it has called
** hangs below the node of that path, which is found when the new activation is
** first seen: the machine's stack is walked from the allocator through all C
** functions that Lua has called since, up to where it called this one.
**
** The k-th C function of a thread, from the innermost on, is left by the k-th
** place where Lua calls C functions: calibration has seen these, and a thread's
** end at lua_resume.  The walked frames are believed when the function that was
** called there is the one that the thread's call records name.  A C function
** that was left by a yield has none: its C stack is gone, but for what its
** continuation has called since.  What is beyond the last of the main thread is
** the host, which has called Lua at first.
**
** Must not: allocate from malloc, take a lock of the host, call Lua.
*/
#include "../common/mem.h"
#include "native_impl.h"

#define FIRST_IPS   64u
#define IPS_MAX     65536u /* frames of one walk */
#define THREADS_MAX 200u   /* nested as deeply as C calls may be */

/* native_call.start of what Lua has not called: no addresses of functions. */
#define START_RESUMED 1u /* goes on after a yield */
#define START_HOST    2u /* the thread's outermost function */

/* The bit CIST_HOOKED is two below CIST_TAIL in all versions. */
static bool is_hooked(const struct tide_heap *h, const char *ci)
{
    return (tideT_ci_status(ci) & (h->cal->layout.cist_tail >> 2)) != 0;
}

static bool is_c(const char *ci)
{
    return (tideT_ci_status(ci) & TIDE_CIST_C) != 0;
}

static bool is_c_frame(const struct tide_frame *f)
{
    return !f->is_lua && f->ci != tideT_region_ci;
}

void tideT_native_begin_at(struct tide_heap *h, struct tide_cframe from,
                           const lua_State *running)
{
    struct native_calls *calls = &h->native->calls;
    calls->from = from;
    calls->has_from = true;
    calls->running = running;
    calls->n_above = 0;
    calls->of = NULL;
}

void tideT_native_end(struct tide_heap *h)
{
    if (h->native != NULL)
        h->native->calls.has_from = false;
}

void tideT_native_above(struct tide_heap *h, const lua_State *L_or_null)
{
    if (h->native == NULL)
        return;
    struct native_calls *calls = &h->native->calls;
    const lua_State *L = L_or_null;
    calls->n_above = 0;
    while (L != NULL && calls->n_above < THREADS_MAX) {
        calls->n_above++;
        if (L == calls->running || L == h->moving_L)
            return;
        L = tideT_resumed_by(L);
        if (L != NULL && tideT_L_status(L) != 0)
            return; /* it is only asked about */
    }
}

/* ---- the walk ---- */

static bool keep_ip(struct tide_heap *h, struct native_calls *calls,
                    uintptr_t ip)
{
    if (calls->n_ips == calls->max_ips) {
        const size_t old = calls->max_ips * sizeof ip;
        const size_t new = old == 0 ? FIRST_IPS * sizeof ip : 2 * old;
        uintptr_t *ips = new > IPS_MAX * sizeof ip
                             ? NULL
                             : tideC_mem_grow(&h->mem, calls->ips, old, new);
        if (ips == NULL)
            return false;
        calls->ips = ips;
        calls->max_ips = (uint32_t)(new / sizeof ip);
    }
    calls->ips[calls->n_ips++] = ip;
    return true;
}

/* The function that was being walked over has been left; `start` is its own. */
static void close_call(struct native_calls *calls, uintptr_t start)
{
    struct native_call *call = &calls->calls[calls->n++];
    call->start = start;
    call->end = calls->n_ips;
    if (calls->n < CALLS_MAX)
        call[1].first = calls->n_ips;
}

/*
** Walks through n C functions of the thread that n_above resumes are above.
** Lua's own frames next to what was called are passed over, others are kept.
*/
static void walk_calls(struct tide_heap *h, struct tide_native *nat, uint32_t n)
{
    struct native_calls *calls = &nat->calls;
    struct tide_cframe at = calls->from;
    struct tide_rule *rule = native_rule_of(h, nat, at.ip);
    uint32_t n_above = calls->n_above;
    uintptr_t start = 0; /* of the frame before */
    calls->n = calls->n_ips = calls->calls[0].first = 0;
    for (;;) {
        if (rule->is_resume && n_above == 0) {
            if (calls->n_ips > calls->calls[calls->n].first)
                close_call(calls, START_RESUMED);
            return;
        }
        n_above -= rule->is_resume;
        if (rule->is_entry && n_above == 0 && !rule->is_resume) {
            close_call(calls, start);
            if (calls->n == n)
                return;
        } else if (n_above == 0 && !rule->is_resume &&
                   (!rule->is_vm ||
                    calls->n_ips > calls->calls[calls->n].first) &&
                   !keep_ip(h, calls, at.ip)) {
            return;
        }
        start = rule->start;
        if (!native_step(nat, rule, &at)) {
            if (calls->n_ips > calls->calls[calls->n].first)
                close_call(calls, START_HOST);
            return;
        }
        rule = native_caller_rule(h, nat, rule, at.ip);
    }
}

/* ---- which function is which ---- */

/*
** The C functions of a thread from its innermost one to the one at `last`,
** which may be the host, at the thread's first CallInfo.
*/
static uint32_t count_calls(const struct tide_heap *h,
                            struct native_calls *calls,
                            const struct tide_thread *t, const char *last)
{
    uint32_t n = 0;
    calls->was_hooked = false;
    for (const char *ci = tideT_L_ci(t->L); ci != NULL;
         ci = tideT_ci_previous(ci)) {
        n += is_c(ci);
        calls->was_hooked = calls->was_hooked || is_hooked(h, ci);
        if (ci == last)
            return n;
    }
    return 0;
}

/*
** Which of the walk's C functions the one at `ci` is, from 1 on; 0: none.  It
** is below frame number `above`, so what was walked for outer frames serves.
*/
static uint32_t number_of(struct tide_heap *h, struct tide_native *nat,
                          const struct tide_thread *t, uint32_t above,
                          const char *ci)
{
    struct native_calls *calls = &nat->calls;
    if (calls->of == t && calls->above <= above) {
        while (calls->above < above)
            calls->number -= is_c_frame(&t->frames[calls->above++]);
        return calls->number;
    }
    calls->of = NULL;
    const uint32_t n = count_calls(h, calls, t, ci);
    if (n == 0 || n > CALLS_MAX || calls->was_hooked)
        return 0;
    walk_calls(h, nat, n);
    calls->of = t;
    calls->above = above;
    return calls->number = n;
}

/* Is a function that was called elsewhere what `fn` was left by, by a jump? */
static bool is_jumped_to(const struct native_calls *calls,
                         const struct tide_thread *t, uint32_t i,
                         uintptr_t start)
{
    if (calls->n_above != 0 || start == 0)
        return false;
    while (i > 0) {
        const struct tide_frame *f = &t->frames[--i];
        if (!f->is_lua && (uintptr_t)f->fn == start)
            return false; /* it is that of a function further out */
    }
    return true;
}

/* Its frames, from the innermost one up to `end`, below a node. */
static uint32_t node_of_call(struct tide_heap *h,
                             const struct native_call *call, uint32_t end,
                             uint32_t node)
{
    const uint32_t n = end - call->first;
    const bool is_cut = n > DEPTH_MAX;
    return n == 0 ? node
                  : tideT_native_path(h, h->native, node,
                                      h->native->calls.ips + call->first,
                                      is_cut ? DEPTH_MAX : n, is_cut);
}

/* What the walk has of the function at `ci`; NULL: nothing. */
static const struct native_call *find_call_of(struct tide_heap *h,
                                              const struct tide_thread *t,
                                              uint32_t above, const char *ci)
{
    struct tide_native *nat = h->native;
    if (nat == NULL || !nat->calls.has_from)
        return NULL;
    const uint32_t number = number_of(h, nat, t, above, ci);
    return number == 0 || number > nat->calls.n ? NULL
                                                : &nat->calls.calls[number - 1];
}

uint32_t tideT_native_host(struct tide_heap *h, const struct tide_thread *t)
{
    const char *ci = tideT_L_ci(t->L);
    tide_assert(t->n_frames == 0);
    if (t != h->main || h->session->options.native != TIDE_NATIVE_ON)
        return t->base;
    while (tideT_ci_previous(ci) != NULL)
        ci = tideT_ci_previous(ci);
    const struct native_call *call = find_call_of(h, t, 0, ci);
    return call == NULL || call->start != START_HOST
               ? t->base
               : node_of_call(h, call, call->end, t->base);
}

uint32_t tideT_native_called(struct tide_heap *h, const struct tide_thread *t,
                             uint32_t i)
{
    const struct tide_frame *f = &t->frames[i];
    tide_assert(i < t->n_frames && !f->is_lua && f->pc == TIDE_NATIVE_PC);
    const struct native_call *call = find_call_of(h, t, i + 1, f->ci);
    if (call == NULL || call->start == START_HOST)
        return f->node;
    uint32_t end = call->end;
    if (call->start == (uintptr_t)f->fn)
        end -= end > call->first; /* its own frame */
    else if (call->start != START_RESUMED &&
             !is_jumped_to(&h->native->calls, t, i, call->start))
        return f->node;
    return node_of_call(h, call, end, f->node);
}

uint32_t tideT_native_rehang(struct tide_heap *h, uint32_t node, uint32_t from,
                             uint32_t to)
{
    uint32_t funcs[DEPTH_MAX + 2];
    uint32_t n = 0;
    while (node != from) {
        if (node == 0 || n == DEPTH_MAX + 2 ||
            h->funcs[h->nodes[node].func].what != TIDE_P_NATIVE)
            return to;
        funcs[n++] = h->nodes[node].func;
        node = h->nodes[node].parent;
    }
    while (n > 0)
        to = tideT_child(h, to, funcs[--n], 0);
    return to;
}
