/*
** findgc.c: findings about the collector: stopped and left so, asked for too
** often, never at rest, in the mode that fits less, short of memory; and a
** note when there is too little to tell a leak from garbage.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"

#define MIB           ((uint64_t)1 << 20)
#define STOP_BYTES    MIB /* allocated while stopped */
#define FULLS_LEAST   10u
#define CYCLES_LEAST  20u
#define HURT_BYTES    (MIB / 4) /* a small heap is marked in no time */
#define RESTLESS_PART 0.35 /* of what stays is allocated in a cycle, at most */
#define PAUSE_ADVISED 200u
#define NOTE_BYTES    MIB /* a run that allocated less needs no verdict */

/* ---- stopped ---- */

/* The event that ends a stop; NULL: none. */
static const struct tide_p_event *restart_after(const struct tide_model *model,
                                                uint32_t i)
{
    const uint32_t heap = model->events[i].heap;
    for (i++; i < model->n_events && model->events[i].heap == heap; i++)
        if (model->events[i].record->what == TIDE_P_EVENT_RESTART)
            return model->events[i].record;
    return NULL;
}

struct tide_r_stop tideR_stop_of(const struct tide_model *model, uint32_t i)
{
    const struct tide_r_event *event = &model->events[i];
    const struct tide_p_event *from = event->record;
    const struct tide_p_event *to = restart_after(model, i);
    const uint64_t bytes =
        to != NULL ? to->alloc_bytes : model->heaps[event->heap].alloc_bytes;
    const uint64_t ns = to != NULL ? to->mono_ns : model->header->end_mono_ns;
    return (struct tide_r_stop){
        .event = event,
        .bytes = bytes > from->alloc_bytes ? bytes - from->alloc_bytes : 0,
        .seconds = ns > from->mono_ns ? (double)(ns - from->mono_ns) / 1e9 : 0,
        .is_restarted = to != NULL,
    };
}

/* The one that was followed by most allocation. */
static struct tide_r_stop worst_stop(const struct tide_model *model)
{
    struct tide_r_stop worst = {.bytes = 0};
    for (uint32_t i = 0; i < model->n_events; i++) {
        if (model->events[i].record->what != TIDE_P_EVENT_STOP)
            continue;
        const struct tide_r_stop stop = tideR_stop_of(model, i);
        if (stop.bytes > worst.bytes)
            worst = stop;
    }
    return worst;
}

bool tideR_is_left_stopped(const struct tide_model *model)
{
    const struct tide_r_stop stop = worst_stop(model);
    return stop.event != NULL && !stop.is_restarted && stop.bytes >= STOP_BYTES;
}

static void find_stop(struct tide_model *model)
{
    const struct tide_r_stop stop = worst_stop(model);
    if (stop.event == NULL || stop.bytes < STOP_BYTES ||
        (stop.is_restarted && stop.bytes < model->totals.alloc_bytes / 4))
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", stop.event->line_row, stop.bytes,
        (double)stop.bytes * (stop.is_restarted ? 1 : 6),
        "the collector was stopped at %s and %s: %s were allocated meanwhile, "
        "in %s; start it again on every path, also when an error is raised",
        tideR_place(model, stop.event->line_row, place),
        stop.is_restarted ? "stood still for long" : "never started again",
        tideR_bytes_text((int64_t)stop.bytes, a),
        tideR_duration_text((uint64_t)(stop.seconds * 1e9), b));
    tideR_fact(finding, "alloc_bytes", (double)stop.bytes);
    tideR_fact(finding, "seconds", stop.seconds);
    tideR_fact(finding, "restarted", stop.is_restarted);
}

/* ---- collections that are asked for ---- */

struct asked {
    uint32_t line;
    uint64_t n;
    uint64_t freed_bytes;
    uint64_t collect_ns;
    double alloc_bytes; /* between two, and left by them: sums */
    double after_bytes;
};

/* Adds a collection to those that its line has asked for. */
static void count_asked(struct asked *asked, const struct tide_r_cycle *cycle)
{
    const struct tide_p_cycle *c = cycle->record;
    asked->line = cycle->line_row;
    asked->n += 1 + (uint64_t)c->n_joined;
    asked->freed_bytes += c->freed_bytes;
    asked->collect_ns += c->collect_ns;
    asked->alloc_bytes += (double)c->alloc_bytes;
    asked->after_bytes += (double)c->after_bytes * (1 + (double)c->n_joined);
}

static bool is_asked_full(const struct tide_p_cycle *c)
{
    return c->cause == TIDE_P_CAUSE_EXPLICIT && c->mode == TIDE_P_MODE_FULL;
}

static bool is_asked_step(const struct tide_p_cycle *c)
{
    return c->cause == TIDE_P_CAUSE_EXPLICIT && c->is_stepped != 0 &&
           c->mode == TIDE_P_MODE_INCREMENTAL;
}

/* By the line that asked most often for such collections. */
static enum tide_err most_asked(const struct tide_model *model,
                                bool (*is_such)(const struct tide_p_cycle *c),
                                struct asked *most)
{
    struct asked *lines = calloc(model->n_lines, sizeof *lines);
    *most = (struct asked){.n = 0};
    TIDE_FAIL_IF(lines == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        const struct tide_r_cycle *cycle = &model->cycles[i];
        if (is_such(cycle->record))
            count_asked(&lines[cycle->line_row], cycle);
    }
    for (uint32_t i = 0; i < model->n_lines; i++)
        if (lines[i].n > most->n)
            *most = lines[i];
    free(lines);
    return TIDE_OK;
}

static void put_asked(struct tide_model *model, const struct asked *asked)
{
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX], time[TIDE_R_UNIT_MAX + 32] = "";
    if (asked->collect_ns > 0)
        snprintf(time, sizeof time, ", which took %s",
                 tideR_duration_text(asked->collect_ns, c));
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", asked->line, asked->freed_bytes,
        (double)asked->n * 1e5 + (double)asked->collect_ns / 1e3,
        "%s asks for a full collection again and again: %s of them%s, %s freed "
        "by one in the mean; leave it to the collector, or ask for steps",
        tideR_place(model, asked->line, place),
        tideR_count_text((int64_t)asked->n, a), time,
        tideR_bytes_text((int64_t)(asked->freed_bytes / asked->n), b));
    tideR_fact(finding, "collections", (double)asked->n);
    tideR_fact(finding, "freed_bytes", (double)asked->freed_bytes);
    tideR_fact(finding, "seconds", (double)asked->collect_ns / 1e9);
}

static enum tide_err find_asked(struct tide_model *model)
{
    struct asked most;
    TIDE_TRY(most_asked(model, is_asked_full, &most));
    if (most.n >= FULLS_LEAST)
        put_asked(model, &most);
    return TIDE_OK;
}

/* ---- mode and settings ---- */

/* Sums over cycles that the collector began by itself. */
struct automatic {
    uint64_t n;
    uint64_t n_minor;
    uint64_t n_major;
    double alloc_bytes;
    double after_bytes;
    double freed_bytes;
    unsigned pause;
};

static struct automatic sum_automatic(const struct tide_model *model)
{
    struct automatic sum = {.n = 0};
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        const struct tide_p_cycle *c = model->cycles[i].record;
        const uint64_t n = 1 + (uint64_t)c->n_joined;
        if (c->cause != TIDE_P_CAUSE_AUTOMATIC)
            continue;
        sum.n += n;
        sum.n_minor += c->mode == TIDE_P_MODE_MINOR ? n : 0;
        sum.n_major += c->mode == TIDE_P_MODE_MAJOR ? n : 0;
        sum.alloc_bytes += (double)c->alloc_bytes;
        sum.after_bytes += (double)c->after_bytes * (double)n;
        sum.freed_bytes += (double)c->freed_bytes;
        sum.pause = c->pause != 0 ? c->pause : sum.pause;
    }
    return sum;
}

/* Not but for a moment: the usual interpreter starts in that mode. */
static bool is_generational(const struct automatic *sum)
{
    return (sum->n_minor + sum->n_major) * 10 > sum->n;
}

/* Many cycles, each over much more than had been allocated since the last. */
static bool is_dense(uint64_t n, double alloc_bytes, double after_bytes)
{
    return n >= CYCLES_LEAST && alloc_bytes <= after_bytes * RESTLESS_PART;
}

static void put_steps(struct tide_model *model, uint32_t line, uint64_t n,
                      double alloc_bytes, double after_bytes)
{
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX];
    const double alloc = alloc_bytes / (double)n;
    const double after = after_bytes / (double)n;
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", line, (uint64_t)after, (double)n * 1e4,
        "%s steps the collector so often that it never rests: %s calls, a "
        "cycle for every %s allocated, over a heap of %s; ask for steps less "
        "often, or leave it to the collector",
        tideR_place(model, line, place),
        tideR_count_text((int64_t)model->gc.n_timed, a),
        tideR_bytes_text((int64_t)alloc, b),
        tideR_bytes_text((int64_t)after, c));
    tideR_fact(finding, "calls", (double)model->gc.n_timed);
    tideR_fact(finding, "cycles", (double)n);
    tideR_fact(finding, "alloc_bytes_per_cycle", alloc);
    tideR_fact(finding, "after_bytes", after);
}

/* Where the pause was last set to that; NONE: not seen. */
static uint32_t line_of_pause(const struct tide_model *model, unsigned pause)
{
    uint32_t line = TIDE_R_NONE;
    for (uint32_t i = 0; i < model->n_events; i++)
        if (model->events[i].record->what == TIDE_P_EVENT_PAUSE &&
            model->events[i].record->is == pause)
            line = model->events[i].line_row;
    return line;
}

static void put_restless(struct tide_model *model, const struct automatic *sum)
{
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    char pause[TIDE_R_PLACE_MAX + 40] = "";
    const uint32_t line = line_of_pause(model, sum->pause);
    if (sum->pause != 0)
        snprintf(pause, sizeof pause, " (the pause is %u %%%s%s)", sum->pause,
                 line != TIDE_R_NONE ? ", set at " : "",
                 line != TIDE_R_NONE ? tideR_place(model, line, place) : "");
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", line, (uint64_t)(sum->after_bytes / (double)sum->n),
        (double)sum->n * 1e4,
        "the collector never rests: a cycle for every %s allocated, over a "
        "heap of %s%s; a longer pause, collectgarbage(\"setpause\", %u), "
        "makes it run less often",
        tideR_bytes_text((int64_t)(sum->alloc_bytes / (double)sum->n), a),
        tideR_bytes_text((int64_t)(sum->after_bytes / (double)sum->n), b),
        pause, PAUSE_ADVISED);
    tideR_fact(finding, "cycles", (double)sum->n);
    tideR_fact(finding, "alloc_bytes_per_cycle",
               sum->alloc_bytes / (double)sum->n);
    tideR_fact(finding, "after_bytes", sum->after_bytes / (double)sum->n);
    tideR_fact(finding, "pause_percent", sum->pause);
}

/*
** With a pause that is long enough it is not the pause: then the program steps
** the collector, and cycles that go on by themselves as well end early.
*/
static enum tide_err find_restless(struct tide_model *model,
                                   const struct automatic *sum)
{
    struct asked steps;
    TIDE_TRY(most_asked(model, is_asked_step, &steps));
    const bool is_restless =
        !is_generational(sum) &&
        is_dense(sum->n, sum->alloc_bytes, sum->after_bytes);
    if (is_restless && sum->pause < PAUSE_ADVISED)
        put_restless(model, sum);
    else if (steps.n == 0 || model->gc.n_timed < CYCLES_LEAST)
        return TIDE_OK;
    else if (is_restless)
        put_steps(model, steps.line, sum->n, sum->alloc_bytes,
                  sum->after_bytes);
    else if (is_dense(steps.n, steps.alloc_bytes, steps.after_bytes) &&
             steps.after_bytes >= (double)steps.n * HURT_BYTES)
        put_steps(model, steps.line, steps.n, steps.alloc_bytes,
                  steps.after_bytes);
    return TIDE_OK;
}

/* Shares of what was freed, by what it had survived. */
struct deaths {
    double young; /* no collection */
    double old;   /* two and more: generational mode takes it for old */
};

static struct deaths sum_deaths(const struct tide_model *model)
{
    uint64_t ages[TIDE_R_AGES];
    tideR_ages(&model->totals, false, ages);
    const double sum =
        (double)ages[0] + (double)ages[1] + (double)ages[2] + (double)ages[3];
    if (sum == 0)
        return (struct deaths){.young = 0};
    return (struct deaths){
        .young = (double)ages[0] / sum,
        .old = ((double)ages[2] + (double)ages[3]) / sum,
    };
}

static void put_deaths(struct tide_r_finding *finding,
                       const struct deaths *deaths)
{
    tideR_fact(finding, "died_young_share", deaths->young);
    tideR_fact(finding, "died_old_share", deaths->old);
}

/* Incremental, and nearly all dies at once beside much that stays. */
static void find_generational(struct tide_model *model,
                              const struct automatic *sum)
{
    const struct deaths deaths = sum_deaths(model);
    const double floor = sum->n == 0 ? 0 : sum->after_bytes / (double)sum->n;
    if (is_generational(sum) || sum->n < CYCLES_LEAST || deaths.young < 0.9 ||
        deaths.old > 0.05 || floor < (double)MIB)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, 0, (double)sum->n * 1e3,
        "generational mode is worth a try: %s of what was freed had survived "
        "no collection and %s two or more, beside %s that stay and are marked "
        "each time; collectgarbage(\"generational\")",
        tideR_share_text((int64_t)(deaths.young * 1000), 1000, a),
        tideR_share_text((int64_t)(deaths.old * 1000), 1000, b),
        tideR_bytes_text((int64_t)floor, c));
    put_deaths(finding, &deaths);
    tideR_fact(finding, "after_bytes", floor);
    tideR_fact(finding, "cycles", (double)sum->n);
}

/*
** Generational, and much dies only when it is old: that takes major
** collections, and there are many of them.
*/
static void find_not_generational(struct tide_model *model,
                                  const struct automatic *sum)
{
    const struct deaths deaths = sum_deaths(model);
    if (sum->n_minor + sum->n_major < CYCLES_LEAST ||
        sum->after_bytes < (double)sum->n * HURT_BYTES ||
        sum->n_major * 6 < sum->n_minor + sum->n_major || deaths.old < 0.3)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, 0, (double)sum->n_major * 1e3,
        "generational mode hurts here: %s of what was freed had survived two "
        "collections and more, which only major ones find, and %s of %s "
        "collections were major; try collectgarbage(\"incremental\")",
        tideR_share_text((int64_t)(deaths.old * 1000), 1000, c),
        tideR_count_text((int64_t)sum->n_major, a),
        tideR_count_text((int64_t)(sum->n_minor + sum->n_major), b));
    put_deaths(finding, &deaths);
    tideR_fact(finding, "major", (double)sum->n_major);
    tideR_fact(finding, "minor", (double)sum->n_minor);
}

static void find_emergency(struct tide_model *model)
{
    char a[TIDE_R_UNIT_MAX];
    if (model->gc.n_emergency == 0)
        return;
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, 0, 1e9,
        "memory ran out: %s collections were made in an emergency, because "
        "an allocation had failed",
        tideR_count_text((int64_t)model->gc.n_emergency, a));
    tideR_fact(finding, "collections", (double)model->gc.n_emergency);
}

static bool has_leak(const struct tide_model *model)
{
    for (uint32_t i = 0; i < model->n_findings; i++)
        if (strcmp(model->findings[i].kind, "leak") == 0)
            return true;
    return false;
}

void tideR_note_too_few(struct tide_model *model)
{
    if (has_leak(model) || tideR_has_verdict(model) || tideR_is_import(model) ||
        model->totals.alloc_bytes < NOTE_BYTES)
        return;
    if (model->header->tier == TIDE_TIER_PUBLIC) {
        tideR_finding(model, "note", TIDE_R_NONE, 0, 0,
                      "collections cannot be seen in this Lua: leaks are not "
                      "looked for");
        return;
    }
    const uint32_t n = tideR_columns_of_work(&model->floors);
    struct tide_r_finding *finding = tideR_finding(
        model, "note", TIDE_R_NONE, 0, 0,
        "too few whole collections to tell a leak from garbage: %" PRIu32
        " were seen while it worked, %u are needed; run it longer, or call "
        "collectgarbage() after each round of work",
        n, TIDE_R_COLUMNS_LEAST);
    tideR_fact(finding, "collections", n);
}

enum tide_err tideR_find_gc(struct tide_model *model)
{
    const struct automatic sum = sum_automatic(model);
    find_stop(model);
    TIDE_TRY(find_asked(model));
    TIDE_TRY(find_restless(model, &sum));
    find_generational(model, &sum);
    find_not_generational(model, &sum);
    find_emergency(model);
    return TIDE_OK;
}
