/*
** gcwatch.c: the watcher of the collector.
**
** Hangs on slow events: the allocator's fast path compares one masked word of
** global_State (TIDE_GC_WORD_AT), and what differs comes here.  A flip of the
** white bits is the end of an atomic phase: one cycle.  The bits of gcstp and
** gckind tell of stops and modes.  gcstate dates marking and sweeping; it is
** in the mask only while cycles are long, so that the watcher costs nothing
** where they are short.
*/
#include <string.h>
#include <time.h>

#include "check.h"
#include "session.h"

#define CYCLES_MAX    1024u /* records; then neighbours are joined */
#define EVENTS_MAX    4096u
#define LONG_CYCLE_NS 2000000u /* its phases are dated */

#define STATE_MARK  0u /* GCSpropagate */
#define STATE_SWEEP 3u /* GCSswpallgc */
#define STATE_SWEPT 7u /* GCScallfin; behind it GCSpause */

#define state_of_word(word) ((unsigned)((word) >> 8 & 0xff))

/* ---- the word that the fast path compares ---- */

static void watch_word(struct tide_heap *h, bool with_state)
{
    h->gc_mask =
        TIDE_GC_WHITE_MASK | TIDE_GC_KIND_MASK |
        (with_state ? TIDE_GC_STATE_MASK : 0) |
        (h->cal->layout.has_gcstp ? TIDE_GC_CLOSE_MASK | TIDE_GC_USER_MASK : 0);
    h->gc_word = tideT_gc_word(h);
}

/* A state was met. */
void tideT_gc_meet(struct tide_heap *h)
{
    struct tide_gcwatch *w = &h->gc;
    w->is_generational = tideT_g_gckind(h->g) != 0;
    w->is_stopped = false;
    w->knows_parameters = false;
    w->call.is_active = false;
    w->mark_ns = 0;
    w->noted_cycle = 0;
    w->is_over = true; /* lua_close of the state before is no sweep */
    w->cycle_alloc = h->alloc_bytes;
    watch_word(h, true);
}

/* ---- who asked ---- */

/* What the program passed to collectgarbage, the innermost function. */
static const char *option_of_call(const lua_State *L)
{
    char *slot = tideT_ci_func(tideT_L_ci(L)) + TIDE_SLOT_BYTES;
    if (slot >= tideT_L_top(L) ||
        tideT_value_tag(slot) != TIDE_TAG_SHORT_STRING)
        return "collect";
    return tideT_string_text(tideT_value_ptr(slot));
}

struct asker {
    uint32_t node; /* what runs; 0: not known */
    enum tide_p_cause cause;
    bool is_step;
    bool is_full;
};

static struct asker asker_of_call(const struct tide_gc_call *call)
{
    return (struct asker){
        .node = call->node,
        .cause = TIDE_P_CAUSE_EXPLICIT,
        .is_step = call->what == LUA_GCSTEP,
        .is_full = call->what == LUA_GCCOLLECT,
    };
}

/* What started the collection: an allocation that failed, a call, or debt. */
static struct asker find_asker(struct tide_heap *h)
{
    const struct tide_layout *layout = &h->cal->layout;
    if (h->gc.call.is_active)
        return asker_of_call(&h->gc.call);
    struct asker asker = {.cause = TIDE_P_CAUSE_AUTOMATIC};
    const struct tide_thread *t = tideT_running(h, NULL);
    const void *fn;
    asker.node = tideT_shadow_peek(h, t, &fn);
    if (layout->has_gcstp && tideT_g_gcemergency(h->g) != 0) {
        asker.cause = TIDE_P_CAUSE_EMERGENCY;
        asker.is_full = true;
    } else if (fn != NULL && (uintptr_t)fn == h->cal->collectgarbage) {
        const char *option = option_of_call(t->L);
        asker.cause = TIDE_P_CAUSE_EXPLICIT;
        asker.is_step = strcmp(option, "step") == 0;
        asker.is_full = strcmp(option, "collect") == 0;
    }
    return asker;
}

/* ---- cycles ---- */

static bool are_alike(const struct tide_p_cycle *a,
                      const struct tide_p_cycle *b)
{
    return a->mode == b->mode && a->cause == b->cause && a->node == b->node;
}

/* The later one stands for both. */
static void join_into(struct tide_heap *h, const struct tide_p_cycle *from,
                      struct tide_p_cycle *to)
{
    to->freed_bytes += from->freed_bytes;
    to->freed_blocks += from->freed_blocks;
    to->alloc_bytes += from->alloc_bytes;
    to->collect_ns += from->collect_ns;
    to->n_joined += from->n_joined + 1;
    h->head->n_merged++;
}

/* Makes room by joining neighbours that are alike, two by two. */
static void join_alike(struct tide_heap *h)
{
    struct tide_p_cycle *c = h->cycles;
    const uint32_t n = h->head->n_cycles;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (i + 1 < n && are_alike(&c[i], &c[i + 1])) {
            join_into(h, &c[i], &c[i + 1]);
            i++;
        }
        c[kept++] = c[i];
    }
    TIDE_PUBLISH(&h->head->n_cycles, kept);
}

/*
** The same for those of one mode and cause, whatever stands between them and
** whoever asked: how many there were of each stays exact.
*/
static void join_kinds(struct tide_heap *h)
{
    struct tide_p_cycle *c = h->cycles;
    const uint32_t n = h->head->n_cycles;
    uint32_t open[TIDE_P_MODE_COUNT_][TIDE_P_CAUSE_COUNT_] = {{0}};
    bool is_joined[CYCLES_MAX] = {false};
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *first = &open[c[i].mode][c[i].cause]; /* its index + 1 */
        if (*first == 0) {
            *first = i + 1;
            continue;
        }
        join_into(h, &c[*first - 1], &c[i]);
        is_joined[*first - 1] = true;
        *first = 0;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!is_joined[i])
            c[kept++] = c[i];
    TIDE_PUBLISH(&h->head->n_cycles, kept);
}

/* The record of the cycle that goes on; NULL: none. */
static struct tide_p_cycle *last_cycle(const struct tide_heap *h)
{
    const uint32_t n = h->head->n_cycles;
    return n > 0 && !h->gc.is_over && h->cycles[n - 1].n == h->head->gc_cycle
               ? &h->cycles[n - 1]
               : NULL;
}

/* Freed since the last cycle was noted; 0 before the first one. */
static uint64_t freed_since(const struct tide_heap *h)
{
    return h->head->gc_cycle == 0 || h->gc.is_over
               ? 0
               : h->alloc_bytes - h->live_bytes - h->cycle_freed;
}

void tideT_settle_cycle(struct tide_heap *h)
{
    struct tide_p_cycle *c = last_cycle(h);
    if (c == NULL)
        return;
    tide_assert_internal(h->freed_blocks >= h->cycle_freed_blocks);
    c->freed_bytes = freed_since(h);
    c->freed_blocks = h->freed_blocks - h->cycle_freed_blocks;
    c->after_bytes =
        c->before_bytes > c->freed_bytes ? c->before_bytes - c->freed_bytes : 0;
    h->gc.floor_bytes = c->after_bytes;
}

static uint8_t mode_of(const struct tide_heap *h, const struct asker *asker)
{
    if (asker->is_full)
        return TIDE_P_MODE_FULL;
    if (tideT_g_gckind(h->g) != 0)
        return TIDE_P_MODE_MINOR;
    return h->gc.is_generational ? TIDE_P_MODE_MAJOR : TIDE_P_MODE_INCREMENTAL;
}

static void add_cycle(struct tide_heap *h, const struct asker *asker,
                      uint64_t now)
{
    struct tide_gcwatch *w = &h->gc;
    if (h->head->n_cycles >= CYCLES_MAX) {
        join_alike(h);
        if (h->head->n_cycles >= CYCLES_MAX - CYCLES_MAX / 8)
            join_kinds(h);
    }
    const uint32_t n = h->head->n_cycles;
    tide_assert_internal(n < CYCLES_MAX);
    tide_assert_internal(n == 0 || h->cycles[n - 1].n < h->head->gc_cycle);
    if (tideP_section_reserve(h->writer, &h->sections[TIDE_P_CYCLES],
                              ((size_t)n + 1) * sizeof *h->cycles) != TIDE_OK)
        return;
    h->cycles[n] = (struct tide_p_cycle){
        .atomic_mono_ns = now,
        .before_bytes = h->live_bytes,
        .after_bytes = h->live_bytes,
        .n = h->head->gc_cycle,
        .node = asker->node,
        .mode = mode_of(h, asker),
        .cause = (uint8_t)asker->cause,
        .is_generational = w->is_generational,
        .is_stepped = asker->is_step,
        .pause = w->pause,
        .step = w->step,
        .start_mono_ns =
            w->call.is_active && asker->is_full ? w->call.start_ns : w->mark_ns,
        .alloc_bytes = h->alloc_bytes - w->cycle_alloc,
    };
    TIDE_PUBLISH(&h->head->n_cycles, n + 1);
}

static void note_rates(struct tide_heap *h, uint64_t now)
{
    const struct tide_p_cycle *c = last_cycle(h);
    const uint64_t before = h->head->before_bytes - h->head->before_freed_bytes;
    const struct tide_gc_counters counters = {
        .heap_kb = (double)(h->live_bytes + before) / 1024,
        .peak_heap_kb = (double)(h->peak_bytes + before) / 1024,
        .alloc_kb = (double)h->alloc_bytes / 1024,
        .cycles = h->head->gc_cycle,
        .last_reclaim_kb = c == NULL ? 0 : (double)c->freed_bytes / 1024,
        .reclaimed_kb = (double)(h->gc.reclaimed_bytes + freed_since(h)) / 1024,
    };
    if (h->gc.rate.window_s == 0)
        tideC_gcrate_start(&h->gc.rate, 0, (double)h->head->open_mono_ns / 1e9,
                           0);
    tideC_gcrate_count(&h->gc.rate, (double)now / 1e9, &counters);
    h->gc.rate_due_ns =
        (uint64_t)((h->gc.rate.start_s + h->gc.rate.window_s) * 1e9);
}

static void note_cycle(struct tide_heap *h, const struct asker *asker,
                       uint64_t now)
{
    struct tide_gcwatch *w = &h->gc;
    const bool is_long = now - w->flip_ns >= LONG_CYCLE_NS;
    tideT_check_books(h);
    tideT_settle_cycle(h);
    if (now >= w->rate_due_ns) /* sums: before, there is nothing to close */
        note_rates(h, now);
    w->reclaimed_bytes += freed_since(h);
    h->cycle++;
    h->head->gc_cycle++;
    w->is_over = false;
    tideP_writer_header(h->writer)->end_mono_ns = now;
    tideT_survivors(h, mode_of(h, asker), now);
    add_cycle(h, asker, now);
    w->mark_ns = 0;
    w->flip_ns = now;
    w->cycle_alloc = h->alloc_bytes;
    h->cycle_freed = h->alloc_bytes - h->live_bytes;
    h->cycle_freed_blocks = h->freed_blocks;
    tideT_gc_moment(h, now);
    tideT_limit_cycle(h);
    tideT_log_when_due(h, now);
    watch_word(h, is_long);
}

/* ---- time, where it can be told from the program's ---- */

void tideT_gc_failed(struct tide_heap *h)
{
    h->gc.failed_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    h->gc.run_ns = 0;
}

/*
** From the failure to what is seen of the sweep there is nothing but the
** collector.
*/
static void time_emergency(struct tide_heap *h, uint64_t now)
{
    struct tide_p_cycle *c = last_cycle(h);
    if (c == NULL || h->gc.failed_ns == 0)
        return;
    c->start_mono_ns = h->gc.failed_ns;
    c->collect_ns += now - h->gc.failed_ns;
    h->head->emergency_ns += now - h->gc.failed_ns;
    h->gc.failed_ns = 0;
}

/*
** The collector takes its steps at allocations.  Between two objects that it
** frees with none made in between there is one step and no program, but for
** finalizers.  Large ones take time to free as it is: a look at the clock does
** not show.
*/
void tideT_gc_swept(struct tide_heap *h)
{
    struct tide_gcwatch *w = &h->gc;
    if (w->call.is_active || h->is_closing)
        return; /* it is timed as a whole, or is no collection */
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    if (w->run_ns != 0 && w->run_alloc == h->alloc_bytes)
        h->head->sweep_ns += now - w->run_ns;
    w->run_ns = now;
    w->run_alloc = h->alloc_bytes;
}

/* ---- what the program does to the collector ---- */

static void add_event(struct tide_heap *h, enum tide_p_event_what what,
                      uint32_t node, unsigned was, unsigned is, uint64_t now)
{
    struct tide_section *s = &h->sections[TIDE_P_EVENTS];
    const uint32_t n = h->head->n_events;
    if (n >= EVENTS_MAX ||
        tideP_section_reserve(
            h->writer, s, (n + 1) * sizeof(struct tide_p_event)) != TIDE_OK) {
        h->head->n_lost_events++;
        return;
    }
    ((struct tide_p_event *)(void *)s->base)[n] = (struct tide_p_event){
        .mono_ns = now,
        .live_bytes = h->live_bytes,
        .alloc_bytes = h->alloc_bytes - h->gc.alloc_base,
        .node = node,
        .cycle = h->head->gc_cycle,
        .what = (uint8_t)what,
        .was = (uint16_t)was,
        .is = (uint16_t)is,
    };
    TIDE_PUBLISH(&h->head->n_events, n + 1);
}

static void note_mode(struct tide_heap *h, uint32_t node, bool is_generational,
                      uint64_t now)
{
    struct tide_gcwatch *w = &h->gc;
    if (is_generational == w->is_generational)
        return;
    add_event(h, TIDE_P_EVENT_MODE, node, w->is_generational, is_generational,
              now);
    w->is_generational = is_generational;
}

/*
** A switch of gckind.  To generational the first time it is the program's
** will; to incremental together with a flip it is a major collection, which
** may last for many cycles.  Within a call of lua_gc the call says what is
** wanted: see tide_gc_end.
*/
static void note_kind(struct tide_heap *h, const struct asker *asker,
                      bool has_flipped, uint64_t now)
{
    const bool is_generational = tideT_g_gckind(h->g) != 0;
    if (h->gc.call.is_active || asker->is_full || asker->is_step ||
        (!is_generational && has_flipped))
        return;
    note_mode(h, asker->node, is_generational, now);
}

/* In a step Lua starts a stopped collector for a moment: that is none. */
static void note_stop(struct tide_heap *h, const struct asker *asker,
                      bool is_stopped, uint64_t now)
{
    struct tide_gcwatch *w = &h->gc;
    if (is_stopped == w->is_stopped || (!is_stopped && asker->is_step))
        return;
    w->is_stopped = is_stopped;
    add_event(h, is_stopped ? TIDE_P_EVENT_STOP : TIDE_P_EVENT_RESTART,
              asker->node, !is_stopped, is_stopped, now);
}

static void note_parameter(struct tide_heap *h, enum tide_p_event_what what,
                           uint16_t *known, unsigned is, uint64_t now)
{
    /* seen late: the line is known only when the call was */
    if (h->gc.knows_parameters && *known != is)
        add_event(h, what, h->gc.call.is_active ? h->gc.call.node : 0, *known,
                  is, now);
    *known = (uint16_t)is;
}

static void note_parameters(struct tide_heap *h, uint64_t now)
{
    if (!h->cal->layout.has_gcstp)
        return;
    note_parameter(h, TIDE_P_EVENT_PAUSE, &h->gc.pause,
                   tideT_g_gcpause(h->g) * 4u, now);
    note_parameter(h, TIDE_P_EVENT_STEP, &h->gc.step,
                   tideT_g_gcstepmul(h->g) * 4u, now);
    h->gc.knows_parameters = true;
}

/* ---- phases ---- */

static void note_phase(struct tide_heap *h, uint64_t now)
{
    const unsigned state = state_of_word(h->gc_word);
    struct tide_p_cycle *c = last_cycle(h);
    if (state < STATE_SWEEP && h->gc.mark_ns == 0 && !h->gc.is_generational)
        h->gc.mark_ns = now;
    if (c != NULL && c->end_mono_ns == 0 &&
        (state >= STATE_SWEPT || state == STATE_MARK))
        c->end_mono_ns = now;
}

static void note_changes(struct tide_heap *h, uint64_t changed)
{
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    const bool has_flipped = (changed & TIDE_GC_WHITE_MASK) != 0;
    const uint64_t word = h->gc_word;
    if ((changed & ~TIDE_GC_STATE_MASK) != 0) {
        const struct asker asker = find_asker(h);
        note_kind(h, &asker, has_flipped, now);
        if (h->cal->layout.has_gcstp)
            note_stop(h, &asker, (word & TIDE_GC_USER_MASK) != 0, now);
        note_parameters(h, now);
        if (has_flipped)
            note_cycle(h, &asker, now);
        if (has_flipped && asker.cause == TIDE_P_CAUSE_EMERGENCY)
            time_emergency(h, now);
    }
    if ((h->gc_mask & TIDE_GC_STATE_MASK) != 0 && h->gc_word == word)
        note_phase(h, now);
}

void tideT_note_gc(struct tide_heap *h)
{
    if (h->is_closing)
        return;
    const uint64_t old = h->gc_word & ~TIDE_GC_ASKED;
    h->gc_word = tideT_gc_word(h);
    note_changes(h, old ^ h->gc_word);
    if ((h->gc_word & TIDE_GC_CLOSE_MASK) != 0)
        tideT_closing(h);
}

/* ---- the end, and a new beginning ---- */

/* Is all of the last cycle's garbage gone? */
static bool is_swept(const struct tide_heap *h)
{
    const unsigned state = tideT_g_gcstate(h->g);
    return state >= STATE_SWEPT || state == STATE_MARK;
}

void tideT_gc_closing(struct tide_heap *h)
{
    if (h->g == NULL)
        return;
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    tideT_settle_cycle(h);
    tideT_last_survivors(h, is_swept(h));
    h->gc.reclaimed_bytes += freed_since(h);
    h->gc.is_over = true;
    tideT_gc_last_moment(h, now);
    if (h->log.every_ns != 0)
        tideT_log_write(h, now);
}

void tideT_gc_reset(struct tide_heap *h)
{
    struct tide_p_heap *head = h->head;
    TIDE_PUBLISH(&head->n_cycles, 0);
    TIDE_PUBLISH(&head->n_moments, 0);
    TIDE_PUBLISH(&head->n_events, 0);
    head->n_merged = 0;
    head->n_lost_events = 0;
    head->collect_ns = head->n_timed = 0;
    head->emergency_ns = head->sweep_ns = 0;
    h->gc.run_ns = h->gc.failed_ns = 0;
    tideT_survivors_reset(h);
    h->gc.reclaimed_bytes = 0;
    h->gc.moment_every_ns = 0;
    h->gc.next_moment_ns = 0;
    h->gc.high = (struct tide_p_moment){.live_bytes = 0};
    h->cycle_freed = h->alloc_bytes - h->live_bytes;
    h->cycle_freed_blocks = h->freed_blocks;
    h->gc.cycle_alloc = h->alloc_bytes;
    h->gc.alloc_base = h->alloc_bytes;
}

/* The timeline goes up to here. */
void tideT_gc_flush(struct tide_heap *h)
{
    tideT_settle_cycle(h);
    tideT_gc_last_moment(h, tideT_clock_ns(CLOCK_MONOTONIC));
}

/* ---- the C interface ---- */

static bool can_note_call(const struct tide_heap *h)
{
    return h != NULL && h->g != NULL && !h->is_off && !h->is_closing &&
           !h->session->is_forked && !h->session->is_finished;
}

void tide_gc_begin(struct tide_session *session, struct lua_State *L, int what)
{
    struct tide_heap *h = tide_heap_of(session, L);
    if (!session->cal.has_layout || !can_note_call(h))
        return;
    if (h->gc.call.is_active) {
        h->gc.call.depth++;
        return;
    }
    struct tide_thread *t = tideT_thread_of(h, L);
    if (t == NULL)
        return;
    if (tideT_gc_word(h) != h->gc_word)
        tideT_note_gc(h);
    const void *fn;
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    note_parameters(h, now); /* what it changes is told from what was */
    h->gc.run_ns = 0;
    h->gc.call = (struct tide_gc_call){
        .is_active = true,
        .what = what,
        .node = tideT_shadow_peek(h, t, &fn),
        .start_ns = now,
        .cycle = h->head->gc_cycle,
    };
}

void tide_gc_end(struct tide_session *session, struct lua_State *L)
{
    struct tide_heap *h = tide_heap_of(session, L);
    if (!session->cal.has_layout || !can_note_call(h) || !h->gc.call.is_active)
        return;
    if (h->gc.call.depth > 0) {
        h->gc.call.depth--;
        return;
    }
    const int what = h->gc.call.what;
    if (tideT_gc_word(h) != h->gc_word)
        tideT_note_gc(h);
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    note_parameters(h, now);
    if (what == LUA_GCGEN || what == LUA_GCINC)
        note_mode(h, h->gc.call.node, what == LUA_GCGEN, now);
    if (what == LUA_GCSTOP || what == LUA_GCRESTART) {
        /* releases before 5.4.4 show it nowhere else */
        const struct asker asker = asker_of_call(&h->gc.call);
        note_stop(h, &asker, what == LUA_GCSTOP, now);
    }
    struct tide_p_cycle *c = last_cycle(h);
    if (what == LUA_GCCOLLECT || what == LUA_GCSTEP) {
        h->head->collect_ns += now - h->gc.call.start_ns;
        h->head->n_timed++;
        if (c != NULL && h->head->gc_cycle != h->gc.call.cycle)
            c->collect_ns += now - h->gc.call.start_ns;
        if (c != NULL && what == LUA_GCCOLLECT)
            c->end_mono_ns = now;
    }
    h->gc.call.is_active = false;
    tideT_log_when_due(h, now);
}

void tide_gc_stats(struct tide_heap *heap, struct tide_gc_stats *out)
{
    const uint64_t now = tideT_clock_ns(CLOCK_MONOTONIC);
    tideT_settle_cycle(heap);
    note_rates(heap, now);
    const struct tide_gc_figures f =
        tideC_gcrate_figures(&heap->gc.rate, (double)now / 1e9);
    *out = (struct tide_gc_stats){
        .HeapKb = f.heap_kb,
        .PeakHeapKb = f.peak_heap_kb,
        .AllocKbPerSec = f.alloc_kb_per_sec,
        .CyclesPerMin = f.cycles_per_min,
        .Cycles = f.cycles,
        .LastReclaimKb = f.last_reclaim_kb,
        .AvgReclaimKb = f.avg_reclaim_kb,
        .ReclaimedKb = f.reclaimed_kb,
    };
}
