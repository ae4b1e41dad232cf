/*
** json.c: the report as JSON, for programs.
**
**   { "format": "tidemark-report", "version": 1,
**     "run": {..}, "totals": {..}, "gc": {.., "cycles": [..]}, "kinds": {..},
**     "marks": [..], "out_of_memory": {..}, "lines": [..], "functions": [..],
**     "stacks": [..], "targets": [..], "groups": [..], "findings": [..] }
**
** Every key is always there.  Bytes and blocks are integers, times are
** seconds, names ending in Kb are KiB.  A row stands on a line of its own and
** is written at once, so memory does not grow with the report.  `version`
** rises when a key changes its meaning or goes; new keys may come.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "blocks.h"
#include "emit.h"
#include "json_impl.h"
#include "render.h"

#define REPORT_VERSION 1

/* What stacks are put together from. */
struct frame_texts {
    char *bytes;    /* JSON of every frame, one behind the other */
    size_t *ends;   /* by frame: where it ends */
    uint32_t *path; /* room for the frames of the deepest stack */
};

static const char *const tier_names[TIDE_TIER_COUNT_] = {
    [TIDE_TIER_EXACT] = "exact",
    [TIDE_TIER_PARTIAL] = "partial",
    [TIDE_TIER_PUBLIC] = "public",
};

static const char *const cause_names[TIDE_P_CAUSE_COUNT_] = {
    [TIDE_P_CAUSE_UNKNOWN] = "unknown",
    [TIDE_P_CAUSE_AUTOMATIC] = "automatic",
    [TIDE_P_CAUSE_EXPLICIT] = "explicit",
    [TIDE_P_CAUSE_EMERGENCY] = "emergency",
};

static void put_u64(struct tide_r_json *json, const char *key, uint64_t v)
{
    tideR_json_int(json, key, (int64_t)v);
}

void tideR_json_string(struct tide_r_json *json, const char *key,
                       const struct tide_model *model, uint32_t string)
{
    size_t n;
    const char *text = tideR_model_text(model, string, &n);
    tideR_json_text(json, key, text, n);
}

void tideR_json_place(struct tide_r_json *json, const struct tide_model *model,
                      uint32_t line_row)
{
    const struct tide_r_line *line = &model->lines[line_row];
    tideR_json_string(json, "source", model, line->source);
    put_u64(json, "line", line->line);
}

void tideR_json_field(struct tide_r_json *json, const char *key,
                      const char *field, size_t field_bytes)
{
    tideR_json_text(json, key, field, strnlen(field, field_bytes));
}

void tideR_json_command(struct tide_r_json *json,
                        const struct tide_p_header *header)
{
    size_t left = header->command_bytes;
    const char *at = header->command;
    if (left > sizeof header->command)
        left = sizeof header->command;
    tideR_json_open(json, "command", '[');
    while (left > 0) {
        const size_t n = strnlen(at, left);
        tideR_json_text(json, NULL, at, n);
        at += n < left ? n + 1 : n;
        left -= n < left ? n + 1 : n;
    }
    tideR_json_close(json, ']');
}

static void put_started(struct tide_r_json *json, uint64_t unix_ns)
{
    char text[64] = "";
    struct tm tm;
    const time_t seconds = (time_t)(unix_ns / 1000000000u);
    if (gmtime_r(&seconds, &tm) != NULL)
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    tideR_json_str(json, "started", text);
}

void tideR_json_run(struct tide_r_json *json, const char *key,
                    const struct tide_model *model)
{
    const struct tide_p_header *h = model->header;
    tideR_json_open(json, key, '{');
    tideR_json_command(json, h);
    put_u64(json, "pid", h->pid);
    tideR_json_field(json, "lua", h->lua, sizeof h->lua);
    put_started(json, h->start_unix_ns);
    tideR_json_real(json, "seconds", model->seconds);
    tideR_json_str(json, "tier",
                   h->tier < TIDE_TIER_COUNT_ ? tier_names[h->tier]
                                              : "unknown");
    tideR_json_field(json, "tier_reason", h->tier_reason,
                     sizeof h->tier_reason);
    put_u64(json, "states", model->n_states);
    tideR_json_bool(json, "complete", model->is_complete);
    tideR_json_close(json, '}');
}

static void put_totals(struct tide_r_json *json, const struct tide_model *model)
{
    const struct tide_r_counts *c = &model->totals;
    tideR_json_open(json, "totals", '{');
    put_u64(json, "alloc_bytes", c->alloc_bytes);
    put_u64(json, "alloc_blocks", c->alloc_blocks);
    put_u64(json, "freed_bytes", c->freed_bytes);
    put_u64(json, "freed_blocks", c->freed_blocks);
    put_u64(json, "live_bytes", c->live_bytes);
    put_u64(json, "live_blocks", c->live_blocks);
    put_u64(json, "peak_bytes", c->peak_bytes);
    put_u64(json, "unattributed_bytes", model->unattributed.alloc_bytes);
    put_u64(json, "before_attach_bytes", model->before_bytes);
    put_u64(json, "rss_peak_bytes", model->header->rss_peak_bytes);
    tideR_json_close(json, '}');
}

static void put_cycle(struct tide_r_json *json, const struct tide_model *model,
                      const struct tide_r_cycle *cycle)
{
    const struct tide_p_cycle *r = cycle->record;
    const double atomic = tideR_seconds(model, r->atomic_mono_ns);
    const double start =
        r->start_mono_ns != 0 ? tideR_seconds(model, r->start_mono_ns) : atomic;
    const double end = tideR_seconds(model, r->end_mono_ns);
    tideR_json_open(json, NULL, '{');
    put_u64(json, "n", r->n);
    tideR_json_str(json, "mode", tideR_mode_name(r));
    tideR_json_str(json, "collection", tideR_collection_name(r->mode));
    tideR_json_real(json, "start_s", start);
    tideR_json_real(json, "seconds", end > start ? end - start : 0);
    tideR_json_real(json, "mark_seconds", atomic > start ? atomic - start : 0);
    tideR_json_real(json, "sweep_seconds", end > atomic ? end - atomic : 0);
    tideR_json_real(json, "collect_seconds", (double)r->collect_ns / 1e9);
    tideR_json_str(json, "cause",
                   r->cause < TIDE_P_CAUSE_COUNT_ ? cause_names[r->cause]
                                                  : "unknown");
    tideR_json_place(json, model, cycle->line_row);
    put_u64(json, "before_bytes", r->before_bytes);
    put_u64(json, "after_bytes", r->after_bytes);
    put_u64(json, "freed_bytes", r->freed_bytes);
    put_u64(json, "freed_blocks", r->freed_blocks);
    put_u64(json, "alloc_bytes", r->alloc_bytes);
    put_u64(json, "joined", r->n_joined);
    put_u64(json, "state", cycle->heap);
    tideR_json_close(json, '}');
}

void tideR_json_gc(struct tide_r_json *json, const char *key,
                   const struct tide_model *model)
{
    const struct tide_r_gc *gc = &model->gc;
    tideR_json_open(json, key, '{');
    tideR_json_str(json, "mode", gc->mode);
    tideR_json_real(json, "HeapKb", gc->heap_kb);
    tideR_json_real(json, "PeakHeapKb", gc->peak_kb);
    tideR_json_real(json, "AllocKbPerSec", gc->alloc_kb_s);
    tideR_json_real(json, "CyclesPerMin", gc->cycles_min);
    put_u64(json, "Cycles", gc->cycles);
    tideR_json_real(json, "LastReclaimKb", gc->last_kb);
    tideR_json_real(json, "AvgReclaimKb", gc->average_kb);
    tideR_json_real(json, "ReclaimedKb", gc->reclaimed_kb);
    tideR_json_open(json, "cycles", '[');
    for (uint32_t i = 0; i < model->n_cycles; i++) {
        tideR_json_break(json);
        put_cycle(json, model, &model->cycles[i]);
    }
    tideR_json_close(json, ']');
    tideR_json_close(json, '}');
}

static void put_kind(struct tide_r_json *json, unsigned kind,
                     const struct tide_r_line_kind *row)
{
    tideR_json_open(json, tideC_kind_name(kind), '{');
    put_u64(json, "alloc_bytes", row->alloc_bytes);
    put_u64(json, "alloc_blocks", row->alloc_blocks);
    put_u64(json, "live_bytes", row->live_bytes);
    put_u64(json, "live_blocks", row->live_blocks);
    tideR_json_close(json, '}');
}

static void put_kinds(struct tide_r_json *json, const struct tide_model *model)
{
    tideR_json_open(json, "kinds", '{');
    for (unsigned kind = 0; kind < TIDE_KIND_COUNT_; kind++) {
        const struct tide_r_counts *c = &model->kinds[kind];
        const struct tide_r_line_kind row = {
            .alloc_bytes = c->alloc_bytes,
            .alloc_blocks = c->alloc_blocks,
            .live_bytes = c->live_bytes,
            .live_blocks = c->live_blocks,
        };
        put_kind(json, kind, &row);
    }
    tideR_json_close(json, '}');
}

static void put_line_kinds(struct tide_r_json *json,
                           const struct tide_model *model, uint32_t line)
{
    struct tide_r_line_kind rows[TIDE_KIND_COUNT_];
    tideR_line_kinds(model, line, rows);
    tideR_json_open(json, "kinds", '{');
    for (unsigned kind = 0; kind < TIDE_KIND_COUNT_; kind++)
        put_kind(json, kind, &rows[kind]);
    tideR_json_close(json, '}');
}

static void put_numbers(struct tide_r_json *json, const char *key,
                        const uint64_t *numbers, unsigned n)
{
    tideR_json_open(json, key, '[');
    for (unsigned i = 0; i < n; i++)
        put_u64(json, NULL, numbers[i]);
    tideR_json_close(json, ']');
}

void tideR_json_ages(struct tide_r_json *json,
                     const struct tide_r_counts *counts)
{
    uint64_t ages[TIDE_R_AGES];
    tideR_ages(counts, false, ages);
    put_numbers(json, "age_bytes", ages, TIDE_R_AGES);
    tideR_ages(counts, true, ages);
    put_numbers(json, "age_blocks", ages, TIDE_R_AGES);
}

static void put_line(struct tide_r_json *json, const struct tide_model *model,
                     uint32_t row)
{
    const struct tide_r_line *line = &model->lines[row];
    const struct tide_r_func *func = tideR_line_func(model, line);
    const struct tide_r_counts *c = &line->counts;
    tideR_json_open(json, NULL, '{');
    tideR_json_place(json, model, row);
    tideR_json_string(json, "function", model, func->name);
    tideR_json_string(json, "group", model, model->groups[func->group].name);
    put_u64(json, "alloc_bytes", c->alloc_bytes);
    put_u64(json, "alloc_blocks", c->alloc_blocks);
    put_u64(json, "freed_bytes", c->freed_bytes);
    tideR_json_int(json, "moved_bytes", c->moved_bytes);
    put_u64(json, "live_bytes", c->live_bytes);
    put_u64(json, "live_blocks", c->live_blocks);
    put_u64(json, "peak_live_bytes", c->peak_bytes);
    put_u64(json, "held_bytes", c->held_bytes);
    put_u64(json, "died_young_bytes", c->young_bytes);
    tideR_json_ages(json, c);
    put_line_kinds(json, model, row);
    tideR_json_close(json, '}');
}

static void put_func(struct tide_r_json *json, const struct tide_model *model,
                     uint32_t row)
{
    const struct tide_r_func *func = &model->funcs[row];
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "source", model, func->source);
    put_u64(json, "linedefined", func->linedefined);
    tideR_json_string(json, "name", model, func->name);
    tideR_json_str(json, "what", tideR_what_name(func->what));
    tideR_json_string(json, "group", model, model->groups[func->group].name);
    put_u64(json, "self_bytes", func->own.alloc_bytes);
    put_u64(json, "total_bytes", func->total_bytes);
    put_u64(json, "self_blocks", func->own.alloc_blocks);
    put_u64(json, "total_blocks", func->total_blocks);
    put_u64(json, "calls", func->calls);
    put_u64(json, "max_call_bytes", func->max_call_bytes);
    put_u64(json, "live_bytes", func->own.live_bytes);
    put_u64(json, "held_bytes", func->own.held_bytes);
    tideR_json_close(json, '}');
}

static uint64_t per_call(uint64_t bytes, uint64_t calls)
{
    return calls == 0 ? 0 : bytes / calls;
}

static void put_target(struct tide_r_json *json, const struct tide_model *model,
                       uint32_t row)
{
    static const char *const sorts[] = {
        [TIDE_R_TARGET_NONE] = "library",
        [TIDE_R_TARGET_NAMED] = "function",
        [TIDE_R_TARGET_REGION] = "region",
        [TIDE_R_TARGET_REST] = "rest",
    };
    const struct tide_r_target *t = &model->targets[row];
    const struct tide_r_counts *c = &t->counts;
    tideR_json_open(json, NULL, '{');
    if (t->sort == TIDE_R_TARGET_REST)
        tideR_json_str(json, "group", "");
    else
        tideR_json_string(json, "group", model, model->groups[t->group].name);
    tideR_json_string(json, "target", model, t->name);
    tideR_json_string(json, "source", model, t->source);
    put_u64(json, "line", t->linedefined);
    tideR_json_str(json, "what", sorts[t->sort]);
    put_u64(json, "alloc_bytes", c->alloc_bytes);
    put_u64(json, "alloc_blocks", c->alloc_blocks);
    tideR_json_real(json, "bytes_per_s",
                    model->seconds > 0 ? (double)c->alloc_bytes / model->seconds
                                       : 0);
    put_u64(json, "calls", t->calls);
    put_u64(json, "bytes_per_call", per_call(c->alloc_bytes, t->calls));
    put_u64(json, "max_call_bytes", t->max_call_bytes);
    put_u64(json, "freed_bytes", c->freed_bytes);
    put_u64(json, "live_bytes", c->live_bytes);
    put_u64(json, "live_blocks", c->live_blocks);
    put_u64(json, "died_young_bytes", c->young_bytes);
    tideR_json_close(json, '}');
}

static void put_group(struct tide_r_json *json, const struct tide_model *model,
                      uint32_t row)
{
    const struct tide_r_group *group = &model->groups[row];
    const struct tide_r_counts *c = &group->counts;
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "group", model, group->name);
    tideR_json_bool(json, "named", group->is_named);
    put_u64(json, "functions", group->n_funcs);
    put_u64(json, "alloc_bytes", c->alloc_bytes);
    put_u64(json, "alloc_blocks", c->alloc_blocks);
    put_u64(json, "freed_bytes", c->freed_bytes);
    put_u64(json, "live_bytes", c->live_bytes);
    put_u64(json, "live_blocks", c->live_blocks);
    put_u64(json, "died_young_bytes", c->young_bytes);
    tideR_json_close(json, '}');
}

static void put_frame(struct tide_r_json *json, const struct tide_model *model,
                      const struct tide_r_frame *frame)
{
    const struct tide_r_func *func = &model->funcs[frame->func];
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "source", model, func->source);
    put_u64(json, "line", frame->line);
    tideR_json_string(json, "function", model, func->name);
    tideR_json_close(json, '}');
}

/* Writes every frame once, into memory. */
static enum tide_err write_frames(const struct tide_model *model,
                                  struct frame_texts *out)
{
    size_t bytes;
    FILE *file = open_memstream(&out->bytes, &bytes);
    TIDE_FAIL_IF(file == NULL, TIDE_ERR_NOMEM);
    struct tide_r_sink sink = tideR_sink(file);
    for (uint32_t i = 0; i < model->n_frames; i++) {
        struct tide_r_json json = tideR_json_on(&sink);
        put_frame(&json, model, &model->frames[i]);
        out->ends[i] = (size_t)ftello(file);
    }
    const enum tide_err err = tideR_sink_finish(&sink);
    fclose(file);
    return err == TIDE_OK ? TIDE_OK : TIDE_ERR_NOMEM;
}

/* Frames from the root down. */
static void put_frames(struct tide_r_json *json, const struct tide_model *model,
                       uint32_t node, const struct frame_texts *texts)
{
    uint32_t depth = 0;
    for (; node != 0; node = model->nodes[node].parent)
        texts->path[depth++] = model->nodes[node].frame;
    tideR_json_open(json, "frames", '[');
    while (depth > 0) {
        const uint32_t frame = texts->path[--depth];
        const size_t start = texts->ends[frame - 1]; /* 0 is the root's */
        tideR_json_raw(json, texts->bytes + start, texts->ends[frame] - start);
    }
    tideR_json_close(json, ']');
}

static void put_stack(struct tide_r_json *json, const struct tide_model *model,
                      uint32_t row, const struct frame_texts *texts)
{
    struct tide_r_counts c;
    tideR_model_stack_counts(model, row, &c);
    tideR_json_open(json, NULL, '{');
    put_frames(json, model, model->stacks[row].node, texts);
    tideR_json_str(json, "kind", tideC_kind_name(model->stacks[row].kind));
    put_u64(json, "alloc_bytes", c.alloc_bytes);
    put_u64(json, "alloc_blocks", c.alloc_blocks);
    put_u64(json, "live_bytes", c.live_bytes);
    put_u64(json, "live_blocks", c.live_blocks);
    put_u64(json, "held_bytes", c.held_bytes);
    tideR_json_ages(json, &c);
    tideR_json_close(json, '}');
}

static void put_finding(struct tide_r_json *json,
                        const struct tide_model *model,
                        const struct tide_r_finding *finding)
{
    tideR_json_open(json, NULL, '{');
    tideR_json_str(json, "kind", finding->kind);
    tideR_json_str(json, "text", finding->text);
    tideR_json_place(json, model, finding->line_row);
    put_u64(json, "bytes", finding->bytes);
    tideR_json_open(json, "evidence", '{');
    for (uint32_t i = 0; i < finding->n_facts; i++)
        tideR_json_real(json, finding->facts[i].name, finding->facts[i].value);
    tideR_json_close(json, '}');
    tideR_json_close(json, '}');
}

/* Nodes of the deepest stack. */
static uint32_t deepest_stack(const struct tide_model *model, uint32_t *depths)
{
    uint32_t deepest = 0;
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        depths[i] = depths[model->nodes[i].parent] + 1;
        if (depths[i] > deepest)
            deepest = depths[i];
    }
    return deepest;
}

static void close_texts(struct frame_texts *texts)
{
    free(texts->bytes);
    free(texts->ends);
    free(texts->path);
}

static enum tide_err open_texts(const struct tide_model *model,
                                struct frame_texts *out)
{
    *out = (struct frame_texts){.bytes = NULL};
    uint32_t *depths = calloc(model->n_nodes, sizeof *depths);
    TIDE_FAIL_IF(depths == NULL, TIDE_ERR_NOMEM);
    const size_t deepest = deepest_stack(model, depths);
    free(depths);
    out->path = malloc((deepest + 1) * sizeof *out->path);
    out->ends = malloc(model->n_frames * sizeof *out->ends);
    if (out->path != NULL && out->ends != NULL)
        return write_frames(model, out);
    return TIDE_ERR_NOMEM;
}

/* One of the lists. */
static enum tide_err put_list(struct tide_r_json *json, const char *key,
                              const struct tide_model *model, enum tide_r_by by,
                              const struct tide_r_query *query,
                              const struct frame_texts *texts)
{
    struct tide_r_pick pick;
    TIDE_TRY(tideR_pick(model, by, query, &pick));
    tideR_json_break(json);
    tideR_json_open(json, key, '[');
    for (uint32_t i = 0; i < pick.n; i++) {
        tideR_json_break(json);
        if (by == TIDE_R_BY_LINE)
            put_line(json, model, pick.rows[i]);
        else if (by == TIDE_R_BY_FUNCTION)
            put_func(json, model, pick.rows[i]);
        else if (by == TIDE_R_BY_TARGET)
            put_target(json, model, pick.rows[i]);
        else if (by == TIDE_R_BY_GROUP)
            put_group(json, model, pick.rows[i]);
        else
            put_stack(json, model, pick.rows[i], texts);
    }
    tideR_json_close(json, ']');
    tideR_pick_close(&pick);
    return TIDE_OK;
}

static void put_summary(struct tide_r_json *json,
                        const struct tide_model *model)
{
    tideR_json_str(json, "format", "tidemark-report");
    tideR_json_int(json, "version", REPORT_VERSION);
    tideR_json_break(json);
    tideR_json_run(json, "run", model);
    tideR_json_break(json);
    put_totals(json, model);
    tideR_json_break(json);
    tideR_json_gc(json, "gc", model);
    tideR_json_break(json);
    put_kinds(json, model);
    tideR_json_marks(json, model);
}

void tideR_json_findings(struct tide_r_json *json,
                         const struct tide_model *model)
{
    tideR_json_break(json);
    tideR_json_open(json, "findings", '[');
    for (uint32_t i = 0; i < model->n_findings; i++) {
        tideR_json_break(json);
        put_finding(json, model, &model->findings[i]);
    }
    tideR_json_close(json, ']');
}

static enum tide_err put_lists(struct tide_r_json *json,
                               const struct tide_model *model,
                               const struct tide_r_query *query)
{
    struct frame_texts texts;
    TIDE_TRY(put_list(json, "lines", model, TIDE_R_BY_LINE, query, NULL));
    TIDE_TRY(
        put_list(json, "functions", model, TIDE_R_BY_FUNCTION, query, NULL));
    enum tide_err err = open_texts(model, &texts);
    if (err == TIDE_OK)
        err = put_list(json, "stacks", model, TIDE_R_BY_STACK, query, &texts);
    close_texts(&texts);
    TIDE_TRY(err);
    TIDE_TRY(put_list(json, "targets", model, TIDE_R_BY_TARGET, query, NULL));
    return put_list(json, "groups", model, TIDE_R_BY_GROUP, query, NULL);
}

enum tide_err tideR_json(const struct tide_model *model,
                         const struct tide_r_query *query, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    tideR_json_open(&json, NULL, '{');
    put_summary(&json, model);
    TIDE_TRY(put_lists(&json, model, query));
    tideR_json_blocks(&json, "largest_blocks", model, query->top);
    tideR_json_findings(&json, model);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    return tideR_sink_finish(&sink);
}
