/*
** region.c: stretches of a program that it names itself, by a push and a pop.
**
** A region belongs to the activation that pushed it: all that this activation
** allocates and calls, up to the pop or to its end, hangs below a frame
** "[region] NAME" of its own.  That frame stands on the shadow stack between
** the caller and the activation, with an address that no CallInfo has and a
** token for its function, which names.c knows.  So returns, errors, yields and
** new places of a thread drop or move it as they do any other frame, and the
** fast path knows nothing of it.
**
** A shadow stack that is cleared while calls are open (reset, fork, recording
** off and on) is walked anew later: which activations had regions is kept until
** then.  What tells such an activation from a later one in the same CallInfo is
** its mark.
*/
#include <string.h>

#include "native.h"
#include "session.h"

#define PREFIX          "[region] "
#define REGION_NAME_MAX 255u /* longest name of a region */

const char tideT_region_ci[1] = {0};

/* What a region's frames have for a function. */
struct tide_region {
    uint32_t func; /* index in FUNCS */
    char name[REGION_NAME_MAX + 1];
};

/* A region of an activation whose shadow stack was cleared. */
struct tide_kept_region {
    const char *ci;
    const void *token;
};

static bool is_region(const struct tide_frame *f)
{
    return f->ci == tideT_region_ci;
}

/* ---- tokens ---- */

static struct tide_region *make_region(struct tide_heap *h, const char *text)
{
    struct tide_region *region = tideC_mem_alloc(&h->mem, sizeof *region);
    if (region == NULL)
        return NULL;
    strcpy(region->name, text + sizeof PREFIX - 1);
    region->func = tideT_func_special(h, TIDE_P_REGION, text);
    if (region->func != 0 && tideT_func_alias(h, region, region->func))
        return region;
    tideC_mem_free(&h->mem, region, sizeof *region);
    return NULL;
}

/* The token of a name; NULL: no memory. */
static const struct tide_region *find_region(struct tide_heap *h,
                                             const char *name)
{
    char text[sizeof PREFIX + REGION_NAME_MAX] = PREFIX;
    strncat(text, name, REGION_NAME_MAX);
    const uint32_t at = tideT_string(h, text, strlen(text));
    if (at == 0)
        return NULL;
    uint64_t *value = tideC_hashtab_put(&h->regions, &h->mem, at);
    if (value == NULL)
        return NULL;
    if (*value == 0)
        *value = (uint64_t)(uintptr_t)make_region(h, text);
    return (const struct tide_region *)(uintptr_t)*value;
}

/* ---- frames ---- */

/* The place of an activation on the shadow stack; n_frames: it has none. */
static uint32_t find_activation(const struct tide_thread *t, const char *ci)
{
    uint32_t i = t->n_frames;
    while (i > 0 && t->frames[i - 1].ci != ci)
        i--;
    return i > 0 ? i - 1 : t->n_frames;
}

/*
** Puts a region below activation number i.  One that the collector called
** stands below "[finalizer]": then the region does, and what it allocates is
** not the doing of the calls that were interrupted.
*/
static bool insert_region(struct tide_heap *h, struct tide_thread *t,
                          uint32_t i, const void *token)
{
    tide_assert(i < t->n_frames);
    if (!tideT_shadow_reserve(h, t, (size_t)t->n_frames + 1))
        return false;
    struct tide_frame *f = &t->frames[i];
    memmove(f + 1, f, (t->n_frames - i) * sizeof *f);
    t->n_frames++;
    *f = (struct tide_frame){
        .ci = (char *)(uintptr_t)tideT_region_ci,
        .fn = token,
        .start = f[1].is_finalizer ? f[1].start : tideT_clock(h, t),
        .is_finalizer = f[1].is_finalizer,
        .parent = f[1].parent,
        .node = f[1].parent,
    };
    f[1].is_finalizer = false;
    tideT_shadow_replace(h, t, i);
    h->nodes[t->frames[i].node].calls++;
    h->cur_L = NULL;
    return true;
}

static void remove_region(struct tide_heap *h, struct tide_thread *t,
                          uint32_t i)
{
    struct tide_frame *f = &t->frames[i];
    tide_assert(is_region(f) && i + 1 < t->n_frames);
    if (f->is_finalizer)
        f[1].is_finalizer = true;
    else
        tideT_shadow_finish(h, t, f);
    f[1].parent = f->parent;
    memmove(f, f + 1, (t->n_frames - i - 1) * sizeof *f);
    t->n_frames--;
    tideT_shadow_replace(h, t, i);
    h->cur_L = NULL;
}

/* ---- shadow stacks that are cleared and walked anew ---- */

static bool keep_one(struct tide_heap *h, struct tide_thread *t, const char *ci,
                     const void *token)
{
    if (t->n_kept == t->max_kept) {
        const size_t old = t->max_kept * sizeof *t->kept;
        const size_t new = old == 0 ? 4 * sizeof *t->kept : old * 2;
        struct tide_kept_region *kept =
            tideC_mem_grow(&h->mem, t->kept, old, new);
        if (kept == NULL)
            return false;
        t->kept = kept;
        t->max_kept = (uint32_t)(new / sizeof *kept);
    }
    t->kept[t->n_kept++] = (struct tide_kept_region){ci, token};
    return true;
}

void tideT_regions_keep(struct tide_heap *h, struct tide_thread *t)
{
    const char *ci = NULL;
    for (uint32_t i = t->n_frames; i > 0; i--) {
        const struct tide_frame *f = &t->frames[i - 1];
        if (!is_region(f))
            ci = f->ci;
        else if (ci == NULL || !keep_one(h, t, ci, f->fn))
            return;
    }
}

static bool is_open(const char *top, const char *ci)
{
    while (top != ci && tideT_ci_previous(top) != NULL)
        top = tideT_ci_previous(top);
    return top == ci && (tideT_ci_status(ci) & TIDE_CIST_MARK) != 0;
}

void tideT_regions_sift(struct tide_thread *t, const char *ci)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_kept; i++)
        if (is_open(ci, t->kept[i].ci))
            t->kept[n++] = t->kept[i];
    t->n_kept = n;
}

void tideT_regions_restore(struct tide_heap *h, struct tide_thread *t)
{
    /* the innermost region of an activation was kept first */
    for (uint32_t i = t->n_kept; i > 0; i--) {
        const uint32_t at = find_activation(t, t->kept[i - 1].ci);
        if (at < t->n_frames)
            insert_region(h, t, at, t->kept[i - 1].token);
    }
    t->n_kept = 0;
}

void tideT_regions_forget(struct tide_heap *h, struct tide_thread *t)
{
    tideC_mem_free(&h->mem, t->kept, t->max_kept * sizeof *t->kept);
    t->kept = NULL;
    t->n_kept = t->max_kept = 0;
}

uint32_t tideT_regions_of(struct tide_heap *h, const lua_State *L,
                          const char *ci, uint32_t parent)
{
    if (h->regions.n == 0)
        return parent;
    const struct tide_thread *t = tideT_thread_of(h, L);
    if (t == NULL)
        return parent;
    const uint32_t at = find_activation(t, ci);
    if (at == t->n_frames)
        return parent;
    uint32_t first = at;
    while (first > 0 && is_region(&t->frames[first - 1]))
        first--;
    for (uint32_t i = first; i < at; i++)
        parent = tideT_child(h, parent, tideT_func_c(h, t->frames[i].fn), 0);
    return parent;
}

/* ---- while the recording is off ---- */

/*
** Nothing is walked then: regions go straight to what is kept for the next
** walk.  The mark says to whom they belong, as there.
*/
static void drop_ended(struct tide_thread *t, const char *ci)
{
    uint32_t n = 0;
    if ((tideT_ci_status(ci) & TIDE_CIST_MARK) != 0)
        return;
    for (uint32_t i = 0; i < t->n_kept; i++)
        if (t->kept[i].ci != ci)
            t->kept[n++] = t->kept[i];
    t->n_kept = n;
}

static enum tide_err keep_region(struct tide_heap *h, struct tide_thread *t,
                                 char *ci, const void *token)
{
    drop_ended(t, ci);
    TIDE_FAIL_IF(!keep_one(h, t, ci, token), TIDE_ERR_NOMEM);
    /* it is the innermost one: the first */
    memmove(t->kept + 1, t->kept, (t->n_kept - 1) * sizeof *t->kept);
    t->kept[0] = (struct tide_kept_region){ci, token};
    tideT_ci_status(ci) |= TIDE_CIST_MARK;
    return TIDE_OK;
}

static enum tide_err unkeep_region(struct tide_thread *t, const char *ci,
                                   const struct tide_region **out)
{
    drop_ended(t, ci);
    uint32_t i = 0;
    while (i < t->n_kept && t->kept[i].ci != ci)
        i++;
    TIDE_FAIL_IF(i == t->n_kept, TIDE_ERR_STATE);
    *out = t->kept[i].token;
    memmove(t->kept + i, t->kept + i + 1,
            (t->n_kept - i - 1) * sizeof *t->kept);
    t->n_kept--;
    return TIDE_OK;
}

/* ---- the interface ---- */

/*
** Finds L and the CallInfo at a level of its stack.
** Errors: LUA, STATE (no such activation), NOMEM.
*/
static enum tide_err find_level(struct tide_heap *h, struct lua_State *L,
                                int level, struct tide_thread **t, char **out)
{
    if (h->session->is_forked)
        tideT_after_fork(h->session);
    TIDE_FAIL_IF(!h->cal->has_layout, TIDE_ERR_LUA);
    TIDE_FAIL_IF(h->g == NULL, TIDE_ERR_STATE);
    if (h->wants_clear) {
        tideT_threads_reset(h);
        h->wants_clear = false;
    }
    char *ci = tideT_L_ci(L);
    while (level-- > 0 && tideT_ci_previous(ci) != NULL)
        ci = tideT_ci_previous(ci);
    TIDE_FAIL_IF(tideT_ci_previous(ci) == NULL, TIDE_ERR_STATE);
    *t = tideT_thread_of(h, L);
    TIDE_FAIL_IF(*t == NULL, TIDE_ERR_NOMEM);
    *out = ci;
    return TIDE_OK;
}

/* Brings L's shadow stack up to date: the place of an activation on it. */
static enum tide_err place_level(struct tide_heap *h, struct lua_State *L,
                                 const char *ci, uint32_t *i)
{
    if (h->native != NULL)
        tideT_native_begin_at(h, tideT_native_here(), L);
    struct tide_thread *t = tideT_running(h, L);
    const bool is_settled = t->L == L && tideT_shadow_settle(h, t);
    tideT_native_end(h);
    TIDE_FAIL_IF(t->L != L, TIDE_ERR_STATE);
    TIDE_FAIL_IF(!is_settled, TIDE_ERR_NOMEM);
    h->cur_L = NULL; /* the fast path's copy of the place may be stale */
    *i = find_activation(t, ci);
    return *i < t->n_frames ? TIDE_OK : TIDE_ERR_STATE;
}

enum tide_err tide_region_push(struct tide_heap *heap, struct lua_State *L,
                               int level, const char *name)
{
    struct tide_thread *t;
    char *ci;
    uint32_t i;
    TIDE_TRY(find_level(heap, L, level, &t, &ci));
    const struct tide_region *region = find_region(heap, name);
    TIDE_FAIL_IF(region == NULL, TIDE_ERR_NOMEM);
    if (heap->is_off)
        return keep_region(heap, t, ci, region);
    TIDE_TRY(place_level(heap, L, ci, &i));
    return insert_region(heap, t, i, region) ? TIDE_OK : TIDE_ERR_NOMEM;
}

enum tide_err tide_region_pop(struct tide_heap *heap, struct lua_State *L,
                              int level, const char **name_or_null)
{
    const struct tide_region *region;
    struct tide_thread *t;
    char *ci;
    uint32_t i;
    TIDE_TRY(find_level(heap, L, level, &t, &ci));
    if (heap->is_off) {
        TIDE_TRY(unkeep_region(t, ci, &region));
    } else {
        TIDE_TRY(place_level(heap, L, ci, &i));
        TIDE_FAIL_IF(i == 0 || !is_region(&t->frames[i - 1]), TIDE_ERR_STATE);
        region = t->frames[i - 1].fn;
        remove_region(heap, t, i - 1);
    }
    if (name_or_null != NULL)
        *name_or_null = region->name;
    return TIDE_OK;
}
