/*
** check.c: see check.h.  Compiled into nothing unless -Dcheck=full.
**
** Independent of shadow.c, thread.c and the site cache: it starts at the main
** thread, walks every frame from the root up, follows each resume that can be
** seen to the next thread, and asks the tree for the node of that path.  Only
** the innermost pc is taken from the capture, which is checked to lie in the
** function, regions, which Lua knows nothing of, and C frames between a C
** function and what it has called, which are checked to be nothing else.
*/
#include "check.h"
#include "native.h"

#if TIDE_CHECK >= 2

# include <stdio.h>
# include <unistd.h>

# define SAY_MAX    20u
# define DEPTH_MAX  1000000u /* as many as a Lua stack has slots */
# define WALKED_MAX 256u

/* Of stacks deeper than this, only one place in so many is checked. */
# define DEEP       500u
# define DEEP_EVERY 256u

static unsigned n_differences; /* of the process; checked builds only */
static unsigned long n_checked;

static const char *name_of(const struct tide_heap *h, uint32_t func)
{
    const unsigned char *strings = h->sections[TIDE_P_STRINGS].base;
    return h->funcs[func].name == 0
               ? "?"
               : (const char *)strings + h->funcs[func].name + 4;
}

/* "main chunk:3 < f:7", innermost first, as much as fits. */
static size_t path_of(const struct tide_heap *h, uint32_t node, char *out,
                      size_t bytes)
{
    size_t n = 0;
    for (; node != 0 && n + 64 < bytes; node = h->nodes[node].parent)
        n += (size_t)snprintf(out + n, bytes - n, "%.40s:%u < ",
                              name_of(h, h->nodes[node].func),
                              h->nodes[node].line);
    return n;
}

static void differ(const struct tide_heap *h, const char *what, uint32_t is,
                   uint32_t should)
{
    if (n_differences++ >= SAY_MAX)
        return;
    char line[2048];
    size_t n =
        (size_t)snprintf(line, sizeof line, "tidemark: check: %s: is ", what);
    n += path_of(h, is, line + n, sizeof line / 2);
    n += (size_t)snprintf(line + n, 16, "should be ");
    n += path_of(h, should, line + n, sizeof line - n - 2);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0)
        _exit(99);
}

static bool runs(const lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    return ci != NULL && tideT_L_status(L) == 0 &&
           tideT_ci_previous(ci) != NULL;
}

static const void *function_of(const char *ci, bool *is_lua)
{
    const char *slot = tideT_ci_func(ci);
    *is_lua = tideT_value_tag(slot) == TIDE_TAG_LCLOSURE;
    if (*is_lua)
        return tideT_lclosure_proto(tideT_value_ptr(slot));
    if (tideT_value_tag(slot) == TIDE_TAG_CCLOSURE)
        return tideT_cclosure_f(tideT_value_ptr(slot));
    return tideT_value_tag(slot) == TIDE_TAG_LIGHT_C ? tideT_value_ptr(slot)
                                                     : NULL;
}

/* May C frames be below a frame: of a C function, or of the host's call? */
static bool has_c_frames(const struct tide_heap *h, const lua_State *L,
                         const char *ci, uint32_t node)
{
    bool is_lua;
    if (h->native == NULL || h->session->options.native != TIDE_NATIVE_ON)
        return false;
    if (tideT_ci_previous(ci) == NULL)
        return L == h->main_L;
    const void *fn = function_of(ci, &is_lua);
    return !is_lua && tideT_native_wants(h, h->nodes[node].parent, fn);
}

/* Is `node` `parent`, or that of C frames which L's frame `ci` has below it? */
static bool is_called_by(const struct tide_heap *h, const lua_State *L,
                         const char *ci, uint32_t parent, uint32_t node)
{
    if (!has_c_frames(h, L, ci, parent))
        return node == parent;
    while (node != parent && node != 0 &&
           h->funcs[h->nodes[node].func].what == TIDE_P_NATIVE)
        node = h->nodes[node].parent;
    return node == parent;
}

/* The node that the frame `ci` of L hangs below, given that of its caller. */
static uint32_t node_of_calls(struct tide_heap *h, const lua_State *L,
                              const char *ci, uint32_t parent)
{
    const struct tide_thread *t = tideT_thread_of(h, L);
    const char *caller = tideT_ci_previous(ci);
    if (t == NULL || (tideT_ci_status(caller) & TIDE_CIST_C) == 0 ||
        !has_c_frames(h, L, caller, parent))
        return parent;
    uint32_t i = t->n_frames;
    while (i > 0 && t->frames[i - 1].ci != ci)
        i--;
    while (i > 1 && t->frames[i - 2].ci == tideT_region_ci)
        i--;
    return i > 0 && is_called_by(h, L, caller, parent, t->frames[i - 1].parent)
               ? t->frames[i - 1].parent
               : parent;
}

/* The node that the thread L hangs below, given that of who resumed it. */
static uint32_t node_of_thread(struct tide_heap *h, const lua_State *by,
                               const lua_State *L, uint32_t parent)
{
    const struct tide_thread *t = tideT_thread_of(h, L);
    return t != NULL && is_called_by(h, by, tideT_L_ci(by), parent, t->base)
               ? t->base
               : parent;
}

static uint32_t node_of_frame(struct tide_heap *h, const lua_State *L,
                              const char *ci, uint32_t parent,
                              const uint32_t *pc_or_null)
{
    bool is_lua;
    const void *fn = function_of(ci, &is_lua);
    const char *caller = tideT_ci_previous(ci);
    if ((tideT_ci_status(caller) & h->cal->layout.cist_fin) != 0)
        parent = h->finalizer;
    else
        parent = node_of_calls(h, L, ci, parent);
    parent = tideT_regions_of(h, L, ci, parent);
    if (!is_lua)
        return tideT_child(h, parent, tideT_func_c(h, fn), 0);
    const struct tide_proto *proto = tideT_proto(h, fn);
    const uint32_t *pc = pc_or_null != NULL ? pc_or_null : tideT_ci_savedpc(ci);
    const uint32_t *code = tideT_proto_code(fn);
    if (pc < code || pc > code + tideT_proto_sizecode(fn))
        differ(h, "pc is not in its function", parent, parent);
    const uint32_t line = proto->func == h->other_chunks
                              ? 0
                              : tideT_line_of(fn, (int32_t)(pc - code) - 1);
    return tideT_child(h, parent, proto->func, line);
}

/* Where a walk notes its frames: of each system thread its own, never freed. */
static char **walk_frames(void)
{
    TIDE_THREAD_LOCAL char **frames;
    if (frames == NULL)
        frames = tideC_pages_alloc(DEPTH_MAX * sizeof *frames);
    return frames;
}

/* The node of a thread's innermost frame, walked from its root. */
static uint32_t walk_thread(struct tide_heap *h, const lua_State *L,
                            uint32_t base, const uint32_t *top_pc)
{
    char **frames = walk_frames();
    uint32_t n = 0;
    if (frames == NULL)
        return base;
    for (char *ci = tideT_L_ci(L); tideT_ci_previous(ci) != NULL;
         ci = tideT_ci_previous(ci)) {
        if (n == DEPTH_MAX)
            return base;
        frames[n++] = ci;
    }
    uint32_t node = base;
    for (uint32_t i = n; i > 0; i--)
        node = node_of_frame(h, L, frames[i - 1], node, i == 1 ? top_pc : NULL);
    return node;
}

/* A thread that is only asked about (coroutine.status) is not resumed. */
static bool is_among(const lua_State *const *list, uint32_t n,
                     const lua_State *L)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == L)
            return true;
    return false;
}

void tideT_check_place(struct tide_heap *h)
{
    if (h->g == NULL || h->is_off || h->moving_L != NULL ||
        h->site == &h->root_site || h->cur == NULL)
        return;
    n_checked++;
    if (h->cur->n_frames > DEEP && n_checked % DEEP_EVERY != 0)
        return;
    const lua_State *L = h->main_L;
    const lua_State *walked[WALKED_MAX];
    uint32_t n_walked = 0;
    uint32_t node = 0;
    for (;;) {
        if (n_walked == WALKED_MAX)
            return;
        walked[n_walked++] = L;
        const bool is_last = L == h->cur->L;
        const char *ci = tideT_L_ci(L);
        if (ci == NULL || tideT_ci_previous(ci) == NULL)
            return; /* C code of the host below: nothing to follow */
        node = walk_thread(
            h, L, node,
            is_last && h->top_is_lua ? (const uint32_t *)h->site->at : NULL);
        const lua_State *next = tideT_resumed_by(L);
        if (next == NULL || !runs(next) || is_among(walked, n_walked, next)) {
            if (!is_last)
                return; /* resumed by C code: cannot be seen from here */
            break;
        }
        if (is_last) {
            /* or the collector resizes the stack of a thread that waits, and
               what is charged now is taken back at the free (account.c) */
            if (!h->is_last_untagged || h->last_L != L)
                differ(h, "another thread runs", h->site->node, node);
            return;
        }
        node = node_of_thread(h, L, next, node);
        L = next;
    }
    if (node != h->site->node)
        differ(h, "another place", h->site->node, node);
}

void tideT_check_books(struct tide_heap *h)
{
    if (h->g == NULL || h->store.has_foreign || h->pending.block != NULL)
        return;
    uint64_t held = 0;
    uint64_t buffers = 0;
    uint64_t peak = 0;
    for (uint32_t i = 1; i < h->n_cells; i++) {
        const struct tide_p_cell *c = &h->cells[i];
        held += tideT_held_bytes(h, c);
        peak += h->peak_is_past && c->peak_epoch == h->epoch
                    ? h->rests[c->rest].peak_bytes
                    : tideT_held_bytes(h, c);
        if (c->kind == TIDE_KIND_BUFFER)
            buffers += tideT_held_bytes(h, c);
    }
    if (peak != h->peak_bytes)
        differ(h, "cells at the peak do not add up", 0, 0);
    if (held != h->live_bytes)
        differ(h, "cells do not add up to the heap", 0, 0);
    if (held - buffers != (uint64_t)tideT_g_total(h->g))
        differ(h, "the heap is not what Lua counts", 0, 0);
}

void tideT_check_end(void)
{
    char line[128];
    const int n = snprintf(line, sizeof line,
                           "tidemark: check: %lu places, %u differences\n",
                           n_checked, n_differences);
    if (n_differences == 0)
        return;
    if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
        _exit(99);
    _exit(99);
}

#endif

/* ISO C wants something in every file. */
typedef int tideT_check_is_built;
