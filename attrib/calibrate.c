/*
** calibrate.c: drives a throwaway state and learns from it.
**
** The state's allocator is tideT_probe_entry, which hands each call's words to
** tideT_probe_alloc below.  The workload (workload.c) tells which thread runs,
** through the C functions `mark` (this one) and `blind` (not known), and runs
** to its end in three threads.  Layouts are verified by verify.c on the way.
**
** Must not touch the profiled state, and leaves nothing behind.
*/
#include "probe.h"

#include <stdio.h>
#include <string.h>

#define PAD_BYTES 16384 /* stack above us that a capture may read */

/* The one table constructor in this function that sets register a. */
static const uint32_t *find_newtable(const char *proto, uint32_t a)
{
    const uint32_t *code = tideT_proto_code(proto);
    const int32_t n = tideT_proto_sizecode(proto);
    const uint32_t *found = NULL;
    for (int32_t i = 0; i < n; i++) {
        if (tideT_op(code[i]) != TIDE_OP_NEWTABLE || tideT_op_a(code[i]) != a)
            continue;
        if (found != NULL)
            return NULL;
        found = &code[i];
    }
    return found;
}

/* pc of the constructor that is being run, as if it had been saved. */
static const uint32_t *constructor_pc(const lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    if (tideT_ci_previous(ci) == NULL ||
        (tideT_ci_status(ci) & TIDE_CIST_C) != 0)
        return NULL;
    const char *func = tideT_ci_func(ci);
    const long a = (tideT_L_top(L) - func) / (long)TIDE_SLOT_BYTES - 2;
    if (a < 0 || a > 255 || tideT_value_tag(func) != TIDE_TAG_LCLOSURE)
        return NULL;
    const char *proto = tideT_lclosure_proto(tideT_value_ptr(func));
    const uint32_t *pc = find_newtable(proto, (uint32_t)a);
    return pc == NULL ? NULL : pc + 1;
}

/* Was the event before this one counted by Lua?  Tells buffers apart. */
static void settle_last(struct tide_probe *p)
{
    if (p->g == NULL || !p->has_layout)
        return;
    const int64_t total = tideT_g_total(p->g);
    if (p->last != NULL && p->last_delta != 0) {
        if (total == p->last_total + p->last_delta)
            p->last->n_counted++;
        else if (total == p->last_total)
            p->last->n_uncounted++;
    }
    p->last_total = total;
    p->last = NULL;
}

static void note_sizes(struct tide_probe *p, size_t osize, size_t nsize)
{
    if (p->last_was_thread && osize == 0 && p->layout.first_stack_bytes == 0)
        p->layout.first_stack_bytes = (uint32_t)nsize;
    p->last_was_thread = osize == TIDE_LUA_TTHREAD && p->g != NULL;
    if (p->last_was_thread)
        p->layout.thread_bytes = (uint32_t)nsize;
}

/* True: this first attempt is to fail, so that the retry is seen as well. */
static bool must_fail(struct tide_probe *p, struct tide_ev_ra *ra)
{
    const uint32_t bit = 1u << p->running_index;
    if (!p->fail_first || p->in_retry || (ra->failed & bit) != 0)
        return false;
    ra->failed |= bit;
    return true;
}

TIDE_HIDDEN void *tideT_probe_alloc(void *ud, void *ptr, size_t osize,
                                    size_t nsize, const uintptr_t *words);
TIDE_HIDDEN void *tideT_probe_free(void *ud, void *ptr, size_t osize,
                                   size_t nsize);

static struct tide_ev_ra *note_event(struct tide_probe *p, const void *ptr,
                                     size_t osize, const uintptr_t *words)
{
    struct tide_ev_ra *ra = tideT_ev_find(&p->evidence, words[TIDE_WORD_RA]);
    if (ra == NULL || p->running == NULL)
        return ra;
    tideT_ev_thread(&p->evidence, ra, words, p->running, p->running_index);
    if (ptr == NULL && osize == LUA_TTABLE && p->has_layout) {
        const uint32_t *pc = constructor_pc(p->running);
        if (pc != NULL)
            tideT_ev_pc(ra, words, pc);
    }
    return ra;
}

/* Not malloc: the host's heap would stay as large as the calibration was. */
static void *resize(struct tide_mem *mem, void *ptr, size_t old_bytes,
                    size_t new_bytes)
{
    if (ptr == NULL)
        return tideC_mem_alloc(mem, new_bytes);
    if (new_bytes > old_bytes)
        return tideC_mem_grow(mem, ptr, old_bytes, new_bytes);
    void *block = tideC_mem_alloc(mem, new_bytes);
    if (block == NULL)
        return NULL;
    memcpy(block, ptr, new_bytes);
    tideC_mem_free(mem, ptr, old_bytes);
    return block;
}

void *tideT_probe_alloc(void *ud, void *ptr, size_t osize, size_t nsize,
                        const uintptr_t *words)
{
    struct tide_probe *p = ud;
    settle_last(p);
    struct tide_ev_ra *ra = note_event(p, ptr, osize, words);
    if (p->running != NULL && ra != NULL && must_fail(p, ra)) {
        p->in_retry = true;
        return NULL;
    }
    p->in_retry = false;
    if (ptr == NULL)
        note_sizes(p, osize, nsize);
    char *block = resize(&p->mem, ptr, osize, nsize);
    if (block != NULL && ptr == NULL && osize == TIDE_LUA_TTHREAD)
        tideT_ev_state(&p->evidence, block + LUA_EXTRASPACE);
    if (p->first_block == NULL) {
        p->first_block = block;
        p->first_bytes = nsize;
    }
    p->last = ra;
    p->last_delta = (int64_t)nsize - (ptr == NULL ? 0 : (int64_t)osize);
    return block;
}

void *tideT_probe_free(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct tide_probe *p = ud;
    (void)nsize;
    settle_last(p);
    tideC_mem_free(&p->mem, ptr, osize);
    return NULL;
}

/* The tier and its reason. */
static void judge(struct tide_cal *cal, const char *layout_fault)
{
    cal->tier = TIDE_TIER_EXACT;
    if (layout_fault[0] != '\0') {
        cal->tier = TIDE_TIER_PUBLIC;
        snprintf(cal->reason, sizeof cal->reason, "private layout: %s",
                 layout_fault);
    } else if (!cal->has_threads) {
        cal->tier = TIDE_TIER_PARTIAL;
        snprintf(cal->reason, sizeof cal->reason,
                 "the running thread could not be captured");
    } else if (!cal->has_pc) {
        cal->tier = TIDE_TIER_PARTIAL;
        snprintf(cal->reason, sizeof cal->reason,
                 "lines of table constructors are inferred: pc was not found "
                 "on the stack");
    } else {
        snprintf(cal->reason, sizeof cal->reason,
                 "layout verified, %u return addresses calibrated",
                 (unsigned)cal->n_ras);
    }
}

static TIDE_NOINLINE void run_probe(struct tide_probe *p, struct tide_cal *cal)
{
    volatile char pad[PAD_BYTES];
    pad[0] = 0;
    pad[PAD_BYTES - 1] = 0;
    tideT_probe_run(p, cal);
    pad[1] = pad[0];
}

void tideT_calibrate(struct tide_cal *cal)
{
    struct tide_probe *p = tideC_pages_alloc(sizeof *p);
    if (p == NULL) {
        cal->tier = TIDE_TIER_PUBLIC;
        snprintf(cal->reason, sizeof cal->reason, "no memory to calibrate");
        return;
    }
    p->api = &cal->api;
    TIDE_WORDS_BEGIN();
    run_probe(p, cal);
    TIDE_WORDS_END();
    cal->layout = p->layout;
    cal->has_layout = p->fault[0] == '\0';
    tideT_ev_choose(&p->evidence, cal);
    judge(cal, p->fault);
    tideC_mem_close(&p->mem);
    tideC_pages_free(p, sizeof *p);
}
