/*
** findgc.c: findings about the collector: stopped and left so, asked for too
** often, never at rest, in the mode that fits less, short of memory; and a
** note when there is too little to tell a leak from garbage.
*/
#include <inttypes.h>
#include <stdio.h>

#include "findings.h"

#define MIB          ((uint64_t)1 << 20)
#define STOP_BYTES   MIB /* allocated while stopped */
#define FULLS_LEAST  10u
#define CYCLES_LEAST 20u
#define NOTE_BYTES   MIB /* a run that allocated less needs no verdict */

/* ---- stopped ---- */

/* A stop, and what was allocated before the restart. */
struct stop {
    const struct tide_r_event *event; /* NULL: none */
    uint64_t bytes;
    double seconds;
    bool is_restarted;
};

static uint64_t allocated_in(const struct tide_model *model, uint32_t heap)
{
    const struct tide_p_view *view = tideP_reader_heap(model->profile, heap);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        bytes += view->cells[i].alloc_bytes;
    return bytes;
}

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

static struct stop stop_of(const struct tide_model *model, uint32_t i)
{
    const struct tide_r_event *event = &model->events[i];
    const struct tide_p_event *from = event->record;
    const struct tide_p_event *to = restart_after(model, i);
    const uint64_t bytes =
        to != NULL ? to->alloc_bytes : allocated_in(model, event->heap);
    const uint64_t ns = to != NULL ? to->mono_ns : model->header->end_mono_ns;
    return (struct stop){
        .event = event,
        .bytes = bytes > from->alloc_bytes ? bytes - from->alloc_bytes : 0,
        .seconds = ns > from->mono_ns ? (double)(ns - from->mono_ns) / 1e9 : 0,
        .is_restarted = to != NULL,
    };
}

/* The one that was followed by most allocation. */
static struct stop worst_stop(const struct tide_model *model)
{
    struct stop worst = {.bytes = 0};
    for (uint32_t i = 0; i < model->n_events; i++) {
        if (model->events[i].record->what != TIDE_P_EVENT_STOP)
            continue;
        const struct stop stop = stop_of(model, i);
        if (stop.bytes > worst.bytes)
            worst = stop;
    }
    return worst;
}

bool tideR_is_left_stopped(const struct tide_model *model)
{
    const struct stop stop = worst_stop(model);
    return stop.event != NULL && !stop.is_restarted && stop.bytes >= STOP_BYTES;
}

static void find_stop(struct tide_model *model)
{
    const struct stop stop = worst_stop(model);
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
};

/* Full collections by the line of cycle i. */
static struct asked count_asked(const struct tide_model *model, uint32_t line)
{
    struct asked asked = {.line = line};
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        const struct tide_p_cycle *c = model->cycles[i].record;
        if (model->cycles[i].line_row != line ||
            c->cause != TIDE_P_CAUSE_EXPLICIT || c->mode != TIDE_P_MODE_FULL)
            continue;
        asked.n += 1 + (uint64_t)c->n_joined;
        asked.freed_bytes += c->freed_bytes;
        asked.collect_ns += c->collect_ns;
    }
    return asked;
}

static struct asked most_asked(const struct tide_model *model)
{
    struct asked most = {.n = 0};
    uint32_t last = UINT32_MAX;
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        if (model->cycles[i].record->cause != TIDE_P_CAUSE_EXPLICIT ||
            model->cycles[i].line_row == last)
            continue;
        last = model->cycles[i].line_row;
        if (last == most.line && most.n > 0)
            continue;
        const struct asked asked = count_asked(model, last);
        if (asked.n > most.n)
            most = asked;
        if (i > 256)
            break; /* a hot path shows early */
    }
    return most;
}

static void find_asked(struct tide_model *model)
{
    const struct asked asked = most_asked(model);
    if (asked.n < FULLS_LEAST)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX], time[TIDE_R_UNIT_MAX + 32] = "";
    if (asked.collect_ns > 0)
        snprintf(time, sizeof time, ", which took %s",
                 tideR_duration_text(asked.collect_ns, c));
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", asked.line, asked.freed_bytes,
        (double)asked.n * 1e5 + (double)asked.collect_ns / 1e3,
        "%s asks for a full collection again and again: %s of them%s, %s freed "
        "by one in the mean; leave it to the collector, or ask for steps",
        tideR_place(model, asked.line, place),
        tideR_count_text((int64_t)asked.n, a), time,
        tideR_bytes_text((int64_t)(asked.freed_bytes / asked.n), b));
    tideR_fact(finding, "collections", (double)asked.n);
    tideR_fact(finding, "freed_bytes", (double)asked.freed_bytes);
    tideR_fact(finding, "seconds", (double)asked.collect_ns / 1e9);
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

static void find_restless(struct tide_model *model, const struct automatic *sum)
{
    if (is_generational(sum) || sum->n < CYCLES_LEAST ||
        sum->alloc_bytes > sum->after_bytes * 0.35)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], pause[64] = "";
    if (sum->pause != 0)
        snprintf(pause, sizeof pause, " (the pause is %u %%)", sum->pause);
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, (uint64_t)(sum->after_bytes / (double)sum->n),
        (double)sum->n * 1e4,
        "the collector never rests: a cycle for every %s allocated, over a "
        "heap of %s%s; a longer pause, collectgarbage(\"setpause\", 200), "
        "makes it run less often",
        tideR_bytes_text((int64_t)(sum->alloc_bytes / (double)sum->n), a),
        tideR_bytes_text((int64_t)(sum->after_bytes / (double)sum->n), b),
        pause);
    tideR_fact(finding, "cycles", (double)sum->n);
    tideR_fact(finding, "alloc_bytes_per_cycle",
               sum->alloc_bytes / (double)sum->n);
    tideR_fact(finding, "after_bytes", sum->after_bytes / (double)sum->n);
    tideR_fact(finding, "pause_percent", sum->pause);
}

static double young_share(const struct tide_model *model)
{
    return model->totals.freed_bytes == 0
               ? 0
               : (double)model->totals.young_bytes /
                     (double)model->totals.freed_bytes;
}

/* Incremental, and nearly all dies at once beside much that stays. */
static void find_generational(struct tide_model *model,
                              const struct automatic *sum)
{
    const double share = young_share(model);
    const double floor = sum->n == 0 ? 0 : sum->after_bytes / (double)sum->n;
    if (is_generational(sum) || sum->n < CYCLES_LEAST || share < 0.9 ||
        floor < (double)MIB)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, 0, (double)sum->n * 1e3,
        "generational mode is worth a try: %s of what was freed died before "
        "it was a collection old, beside %s that stay and are marked each "
        "time; collectgarbage(\"generational\")",
        tideR_share_text((int64_t)(share * 1000), 1000, a),
        tideR_bytes_text((int64_t)floor, b));
    tideR_fact(finding, "died_young_share", share);
    tideR_fact(finding, "after_bytes", floor);
    tideR_fact(finding, "cycles", (double)sum->n);
}

/* Generational, and it is major collections that do the work. */
static void find_not_generational(struct tide_model *model,
                                  const struct automatic *sum)
{
    const double share = young_share(model);
    if (sum->n_minor + sum->n_major < CYCLES_LEAST ||
        sum->n_major < sum->n_minor || share > 0.6)
        return;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "gc", TIDE_R_NONE, 0, (double)sum->n_major * 1e3,
        "generational mode hurts here: %s of %s collections were major ones, "
        "and only %s of what was freed had died young; try "
        "collectgarbage(\"incremental\")",
        tideR_count_text((int64_t)sum->n_major, a),
        tideR_count_text((int64_t)(sum->n_minor + sum->n_major), b),
        tideR_share_text((int64_t)(share * 1000), 1000, c));
    tideR_fact(finding, "major", (double)sum->n_major);
    tideR_fact(finding, "minor", (double)sum->n_minor);
    tideR_fact(finding, "died_young_share", share);
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

void tideR_note_too_few(struct tide_model *model)
{
    if (tideR_has_verdict(model) || model->totals.alloc_bytes < NOTE_BYTES)
        return;
    if (model->header->tier == TIDE_TIER_PUBLIC) {
        tideR_finding(model, "note", TIDE_R_NONE, 0, 0,
                      "collections cannot be seen in this Lua: leaks are not "
                      "looked for");
        return;
    }
    struct tide_r_finding *finding = tideR_finding(
        model, "note", TIDE_R_NONE, 0, 0,
        "too few whole collections to tell a leak from garbage: %" PRIu32
        " were seen, %u are needed; run it longer, or call collectgarbage() "
        "after each round of work",
        model->floors.n_work, TIDE_R_COLUMNS_LEAST);
    tideR_fact(finding, "collections", model->floors.n_work);
}

void tideR_find_gc(struct tide_model *model)
{
    const struct automatic sum = sum_automatic(model);
    find_stop(model);
    find_asked(model);
    find_restless(model, &sum);
    find_generational(model, &sum);
    find_not_generational(model, &sum);
    find_emergency(model);
}
