/*
** pagedata.c: the data of the page as JSON.
**
**   { "format": "tidemark-page", "version": 1, "kinds": [name..],
**     "runs": [ run, base? ],
**     "funcs": { "in", "name", "source", "group", "line", "what",
**                "now": {counts, "total", "calls", "worst"}, "base": {..} },
**     "lines": { "in", "source", "line", "func", "now": {..}, "base": {..} },
**     "nodes": { "in", "parent", "func", "line" },
**     "cells": { "node", "kind", "now": {..}, "base": {..} },
**     "sources": [ { "source", "text" } ], "strings": [ text.. ] }
**
** Lists stand column by column.  Texts are numbers in "strings", "in" says in
** which run a row is: 1 the new one, 2 the base, 3 both.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emit.h"
#include "grow.h"
#include "page_impl.h"

#define PAGE_VERSION 1
#define SOURCES_MAX  ((size_t)24 * 1048576) /* bytes of sources in a page */

/* One kind of blocks of a merged node, in each run. */
struct cell {
    uint32_t node;
    uint32_t kind;
    struct tide_r_pair stacks;
};

struct data {
    const struct tide_diff *diff;
    const struct tide_r_page_look *look;
    const struct tide_model *model; /* the run being written */
    bool is_base;
    struct tide_r_json *json;
    struct tide_strtab strings;
    struct cell *cells;
    uint32_t n_cells;
    uint32_t max_cells;
    enum tide_err err; /* of the strings */
};

typedef int64_t (*column_fn)(struct data *d, uint32_t row);

/* The counters of a row in the run being written; all 0 where it has none. */
typedef void (*counts_fn)(const struct data *d, uint32_t row,
                          struct tide_r_counts *out);

static const struct {
    const char *key;
    size_t offset;
} counters[] = {
    {"alloc", offsetof(struct tide_r_counts, alloc_bytes)},
    {"blocks", offsetof(struct tide_r_counts, alloc_blocks)},
    {"freed", offsetof(struct tide_r_counts, freed_bytes)},
    {"live", offsetof(struct tide_r_counts, live_bytes)},
    {"live_blocks", offsetof(struct tide_r_counts, live_blocks)},
    {"peak", offsetof(struct tide_r_counts, peak_bytes)},
    {"young", offsetof(struct tide_r_counts, young_bytes)},
};
#define N_COUNTERS (sizeof counters / sizeof counters[0])

/* ---- columns ------------------------------------------------------------ */

static void put_column(struct data *d, const char *key, uint32_t n,
                       column_fn fn)
{
    tideR_json_break(d->json);
    tideR_json_open(d->json, key, '[');
    for (uint32_t i = 0; i < n; i++)
        tideR_json_int(d->json, NULL, fn(d, i));
    tideR_json_close(d->json, ']');
}

static void put_counts(struct data *d, uint32_t n, counts_fn fn)
{
    for (size_t c = 0; c < N_COUNTERS; c++) {
        tideR_json_break(d->json);
        tideR_json_open(d->json, counters[c].key, '[');
        for (uint32_t i = 0; i < n; i++) {
            struct tide_r_counts counts = {0};
            uint64_t v;
            fn(d, i, &counts);
            memcpy(&v, (const char *)&counts + counters[c].offset, sizeof v);
            tideR_json_int(d->json, NULL, (int64_t)v);
        }
        tideR_json_close(d->json, ']');
    }
}

/* Chooses the run that counters are taken from. */
static void set_run(struct data *d, bool is_base)
{
    d->is_base = is_base;
    d->model = is_base ? d->diff->base_or_null : d->diff->now;
}

/* Counters of the new run and, where there is one, of the base. */
static void put_both(struct data *d, uint32_t n, counts_fn fn,
                     void (*more)(struct data *d))
{
    const unsigned n_runs = d->diff->base_or_null != NULL ? 2 : 1;
    for (unsigned i = 0; i < n_runs; i++) {
        set_run(d, i == 1);
        tideR_json_open(d->json, i == 1 ? "base" : "now", '{');
        put_counts(d, n, fn);
        if (more != NULL)
            more(d);
        tideR_json_close(d->json, '}');
    }
}

static int64_t runs_of(struct tide_r_pair pair)
{
    return (pair.now != TIDE_R_NONE ? 1 : 0) |
           (pair.base != TIDE_R_NONE ? 2 : 0);
}

/* The row of the run being written; NONE: not in it. */
static uint32_t side_of(const struct data *d, struct tide_r_pair pair)
{
    return d->is_base ? pair.base : pair.now;
}

/* The number of a text in "strings". */
static int64_t string_of(struct data *d, const struct tide_model *model,
                         uint32_t string)
{
    size_t n;
    uint32_t out = 0;
    const char *text = tideR_model_text(model, string, &n);
    const enum tide_err err = tideR_strtab_put(&d->strings, text, n, &out);
    if (err != TIDE_OK)
        d->err = err;
    return out;
}

/* ---- functions ---------------------------------------------------------- */

static const struct tide_model *func_model(const struct data *d, uint32_t row)
{
    return tideR_diff_model(d->diff, d->diff->funcs[row]);
}

static int64_t func_in(struct data *d, uint32_t row)
{
    return row == 0 ? 3 : runs_of(d->diff->funcs[row]);
}

static int64_t func_name(struct data *d, uint32_t row)
{
    return string_of(d, func_model(d, row),
                     tideR_diff_func(d->diff, row)->name);
}

static int64_t func_source(struct data *d, uint32_t row)
{
    return string_of(d, func_model(d, row),
                     tideR_diff_func(d->diff, row)->source);
}

static int64_t func_group(struct data *d, uint32_t row)
{
    const struct tide_model *model = func_model(d, row);
    const uint32_t group = tideR_diff_func(d->diff, row)->group;
    return string_of(d, model, model->groups[group].name);
}

static int64_t func_line(struct data *d, uint32_t row)
{
    return tideR_diff_func(d->diff, row)->linedefined;
}

static int64_t func_what(struct data *d, uint32_t row)
{
    return tideR_diff_func(d->diff, row)->what;
}

/* The function in the run being written; NULL: not in it. */
static const struct tide_r_func *side_func(const struct data *d, uint32_t row)
{
    const uint32_t index = side_of(d, d->diff->funcs[row]);
    if (index == TIDE_R_NONE && row != 0)
        return NULL;
    return &d->model->funcs[index];
}

static void func_counts(const struct data *d, uint32_t row,
                        struct tide_r_counts *out)
{
    const struct tide_r_func *func = side_func(d, row);
    if (func != NULL)
        *out = func->own;
}

static int64_t func_total(struct data *d, uint32_t row)
{
    const struct tide_r_func *func = side_func(d, row);
    return func != NULL ? (int64_t)func->total_bytes : 0;
}

static int64_t func_calls(struct data *d, uint32_t row)
{
    const struct tide_r_func *func = side_func(d, row);
    return func != NULL ? (int64_t)func->calls : 0;
}

static int64_t func_worst(struct data *d, uint32_t row)
{
    const struct tide_r_func *func = side_func(d, row);
    return func != NULL ? (int64_t)func->max_call_bytes : 0;
}

static void put_func_figures(struct data *d)
{
    const uint32_t n = d->diff->n_funcs;
    put_column(d, "total", n, func_total);
    put_column(d, "calls", n, func_calls);
    put_column(d, "worst", n, func_worst);
}

static void put_funcs(struct data *d)
{
    const uint32_t n = d->diff->n_funcs;
    tideR_json_open(d->json, "funcs", '{');
    put_column(d, "in", n, func_in);
    put_column(d, "name", n, func_name);
    put_column(d, "source", n, func_source);
    put_column(d, "group", n, func_group);
    put_column(d, "line", n, func_line);
    put_column(d, "what", n, func_what);
    put_both(d, n, func_counts, put_func_figures);
    tideR_json_close(d->json, '}');
}

/* ---- lines -------------------------------------------------------------- */

static const struct tide_r_line *line_row(const struct data *d, uint32_t row)
{
    const struct tide_r_pair pair = d->diff->lines[row];
    const struct tide_model *model = tideR_diff_model(d->diff, pair);
    return &model->lines[model == d->diff->now ? pair.now : pair.base];
}

static int64_t line_in(struct data *d, uint32_t row)
{
    return runs_of(d->diff->lines[row]);
}

static int64_t line_source(struct data *d, uint32_t row)
{
    return string_of(d, tideR_diff_model(d->diff, d->diff->lines[row]),
                     line_row(d, row)->source);
}

static int64_t line_line(struct data *d, uint32_t row)
{
    return line_row(d, row)->line;
}

/* The name of its function, as text: a row of lines names one only. */
static int64_t line_func(struct data *d, uint32_t row)
{
    const struct tide_model *model =
        tideR_diff_model(d->diff, d->diff->lines[row]);
    return string_of(d, model, tideR_line_func(model, line_row(d, row))->name);
}

static int64_t line_group(struct data *d, uint32_t row)
{
    const struct tide_model *model =
        tideR_diff_model(d->diff, d->diff->lines[row]);
    const uint32_t group = tideR_line_func(model, line_row(d, row))->group;
    return string_of(d, model, model->groups[group].name);
}

/* The function of a line in the run being written; NULL: not in it. */
static const struct tide_r_func *side_line_func(const struct data *d,
                                                uint32_t row)
{
    const uint32_t index = side_of(d, d->diff->lines[row]);
    if (index == TIDE_R_NONE)
        return NULL;
    return tideR_line_func(d->model, &d->model->lines[index]);
}

static int64_t line_calls(struct data *d, uint32_t row)
{
    const struct tide_r_func *func = side_line_func(d, row);
    return func != NULL ? (int64_t)func->calls : 0;
}

static int64_t line_worst(struct data *d, uint32_t row)
{
    const struct tide_r_func *func = side_line_func(d, row);
    return func != NULL ? (int64_t)func->max_call_bytes : 0;
}

static void line_counts(const struct data *d, uint32_t row,
                        struct tide_r_counts *out)
{
    const uint32_t index = side_of(d, d->diff->lines[row]);
    if (index != TIDE_R_NONE)
        *out = d->model->lines[index].counts;
}

static void put_line_figures(struct data *d)
{
    put_column(d, "calls", d->diff->n_lines, line_calls);
    put_column(d, "worst", d->diff->n_lines, line_worst);
}

static void put_lines(struct data *d)
{
    const uint32_t n = d->diff->n_lines;
    tideR_json_open(d->json, "lines", '{');
    put_column(d, "in", n, line_in);
    put_column(d, "source", n, line_source);
    put_column(d, "line", n, line_line);
    put_column(d, "func", n, line_func);
    put_column(d, "group", n, line_group);
    put_both(d, n, line_counts, put_line_figures);
    tideR_json_close(d->json, '}');
}

/* ---- the tree ----------------------------------------------------------- */

static int64_t node_in(struct data *d, uint32_t row)
{
    return row == 0 ? 3 : runs_of(d->diff->nodes[row].nodes);
}

static int64_t node_parent(struct data *d, uint32_t row)
{
    return d->diff->nodes[row].parent;
}

static int64_t node_func(struct data *d, uint32_t row)
{
    return d->diff->nodes[row].func;
}

static int64_t node_line(struct data *d, uint32_t row)
{
    return d->diff->nodes[row].line;
}

/* Stacks of one node by kind. */
static void find_stacks(const struct tide_model *model, uint32_t node,
                        uint32_t by_kind[TIDE_KIND_COUNT_])
{
    uint32_t i = model->nodes[node].first_stack;
    for (; i != TIDE_R_NONE; i = model->stacks[i].next)
        by_kind[model->stacks[i].kind] = i;
}

static enum tide_err add_cells(struct data *d, uint32_t node)
{
    const struct tide_r_pair pair = d->diff->nodes[node].nodes;
    uint32_t now[TIDE_KIND_COUNT_] = {0};
    uint32_t base[TIDE_KIND_COUNT_] = {0};
    if (pair.now != TIDE_R_NONE || node == 0)
        find_stacks(d->diff->now, pair.now, now);
    if (d->diff->base_or_null != NULL &&
        (pair.base != TIDE_R_NONE || node == 0))
        find_stacks(d->diff->base_or_null, pair.base, base);
    for (uint32_t kind = 0; kind < TIDE_KIND_COUNT_; kind++) {
        if (now[kind] == TIDE_R_NONE && base[kind] == TIDE_R_NONE)
            continue;
        TIDE_TRY(tideR_grow(&d->cells, &d->max_cells, (uint64_t)d->n_cells + 1,
                            sizeof *d->cells));
        d->cells[d->n_cells++] =
            (struct cell){node, kind, {base[kind], now[kind]}};
    }
    return TIDE_OK;
}

static int64_t cell_node(struct data *d, uint32_t row)
{
    return d->cells[row].node;
}

static int64_t cell_kind(struct data *d, uint32_t row)
{
    return d->cells[row].kind;
}

static void cell_counts(const struct data *d, uint32_t row,
                        struct tide_r_counts *out)
{
    const uint32_t stack = side_of(d, d->cells[row].stacks);
    if (stack != TIDE_R_NONE)
        tideR_model_stack_counts(d->model, stack, out);
}

static enum tide_err put_tree(struct data *d)
{
    const uint32_t n = d->diff->n_nodes;
    tideR_json_open(d->json, "nodes", '{');
    put_column(d, "in", n, node_in);
    put_column(d, "parent", n, node_parent);
    put_column(d, "func", n, node_func);
    put_column(d, "line", n, node_line);
    tideR_json_close(d->json, '}');
    for (uint32_t i = 0; i < n; i++)
        TIDE_TRY(add_cells(d, i));
    tideR_json_open(d->json, "cells", '{');
    put_column(d, "node", d->n_cells, cell_node);
    put_column(d, "kind", d->n_cells, cell_kind);
    put_both(d, d->n_cells, cell_counts, NULL);
    tideR_json_close(d->json, '}');
    return TIDE_OK;
}

/* ---- runs --------------------------------------------------------------- */

static void put_field(struct data *d, const char *key, const char *field,
                      size_t bytes)
{
    tideR_json_text(d->json, key, field, strnlen(field, bytes));
}

static void put_command(struct data *d)
{
    const struct tide_p_header *header = d->model->header;
    const char *at = header->command;
    size_t left = header->command_bytes;
    if (left > sizeof header->command)
        left = sizeof header->command;
    tideR_json_open(d->json, "command", '[');
    while (left > 0) {
        const size_t n = strnlen(at, left);
        tideR_json_text(d->json, NULL, at, n);
        at += n < left ? n + 1 : n;
        left -= n < left ? n + 1 : n;
    }
    tideR_json_close(d->json, ']');
}

static int64_t cycle_n(struct data *d, uint32_t row)
{
    return d->model->cycles[row].record->n;
}

/* Nanoseconds since the start; 0 for what claims to be before it. */
static int64_t since_start(const struct data *d, uint64_t mono_ns)
{
    const uint64_t start = d->model->header->start_mono_ns;
    return mono_ns > start ? (int64_t)(mono_ns - start) : 0;
}

static int64_t cycle_at(struct data *d, uint32_t row)
{
    return since_start(d, d->model->cycles[row].record->atomic_mono_ns);
}

static int64_t cycle_end(struct data *d, uint32_t row)
{
    return since_start(d, d->model->cycles[row].record->end_mono_ns);
}

static int64_t cycle_before(struct data *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->before_bytes;
}

static int64_t cycle_after(struct data *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->after_bytes;
}

static int64_t cycle_freed(struct data *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->freed_bytes;
}

static int64_t cycle_blocks(struct data *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->freed_blocks;
}

static int64_t cycle_mode(struct data *d, uint32_t row)
{
    return d->model->cycles[row].record->mode;
}

static int64_t cycle_cause(struct data *d, uint32_t row)
{
    return d->model->cycles[row].record->cause;
}

/* What ran, as a row of lines: those of the new run keep their numbers. */
static int64_t cycle_line(struct data *d, uint32_t row)
{
    return d->is_base ? 0 : d->model->cycles[row].line_row;
}

static void put_cycles(struct data *d)
{
    const uint32_t n = d->model->n_cycles;
    tideR_json_open(d->json, "cycles", '{');
    put_column(d, "n", n, cycle_n);
    put_column(d, "at", n, cycle_at);
    put_column(d, "end", n, cycle_end);
    put_column(d, "before", n, cycle_before);
    put_column(d, "after", n, cycle_after);
    put_column(d, "freed", n, cycle_freed);
    put_column(d, "blocks", n, cycle_blocks);
    put_column(d, "mode", n, cycle_mode);
    put_column(d, "cause", n, cycle_cause);
    put_column(d, "line", n, cycle_line);
    tideR_json_close(d->json, '}');
}

/* The heap that a timeline is of; NULL: there are several, or none. */
static const struct tide_p_view *timed_heap(const struct data *d)
{
    return tideP_reader_n_heaps(d->model->profile) == 1
               ? tideP_reader_heap(d->model->profile, 0)
               : NULL;
}

static int64_t moment_at(struct data *d, uint32_t row)
{
    return since_start(d, timed_heap(d)->moments[row].mono_ns);
}

static int64_t moment_live(struct data *d, uint32_t row)
{
    return (int64_t)timed_heap(d)->moments[row].live_bytes;
}

static void put_moments(struct data *d)
{
    const struct tide_p_view *view = timed_heap(d);
    const uint32_t n = view != NULL ? view->n_moments : 0;
    tideR_json_open(d->json, "moments", '{');
    put_column(d, "at", n, moment_at);
    put_column(d, "live", n, moment_live);
    tideR_json_close(d->json, '}');
}

static void total_counts(const struct data *d, uint32_t row,
                         struct tide_r_counts *out)
{
    (void)row;
    *out = d->model->totals;
}

static void kind_counts(const struct data *d, uint32_t row,
                        struct tide_r_counts *out)
{
    *out = d->model->kinds[row];
}

static void put_gc(struct data *d)
{
    const struct tide_r_gc *gc = &d->model->gc;
    tideR_json_open(d->json, "gc", '{');
    tideR_json_str(d->json, "mode", gc->mode);
    tideR_json_int(d->json, "cycles", (int64_t)gc->cycles);
    tideR_json_int(d->json, "explicit", (int64_t)gc->n_explicit);
    tideR_json_int(d->json, "emergency", (int64_t)gc->n_emergency);
    tideR_json_real(d->json, "kb_per_s", gc->alloc_kb_s);
    tideR_json_real(d->json, "cycles_per_min", gc->cycles_min);
    tideR_json_real(d->json, "last_kb", gc->last_kb);
    tideR_json_real(d->json, "average_kb", gc->average_kb);
    tideR_json_real(d->json, "reclaimed_kb", gc->reclaimed_kb);
    tideR_json_close(d->json, '}');
}

static void put_findings(struct data *d)
{
    tideR_json_open(d->json, "findings", '[');
    for (uint32_t i = 0; i < d->model->n_findings; i++) {
        const struct tide_r_finding *finding = &d->model->findings[i];
        tideR_json_open(d->json, NULL, '{');
        tideR_json_str(d->json, "kind", finding->kind);
        tideR_json_str(d->json, "text", finding->text);
        tideR_json_int(d->json, "line", d->is_base ? 0 : finding->line_row);
        tideR_json_int(d->json, "bytes", (int64_t)finding->bytes);
        tideR_json_close(d->json, '}');
    }
    tideR_json_close(d->json, ']');
}

static void put_run(struct data *d, const char *path)
{
    const struct tide_p_header *h = d->model->header;
    tideR_json_open(d->json, NULL, '{');
    tideR_json_str(d->json, "path", path);
    put_command(d);
    put_field(d, "program", h->program, sizeof h->program);
    tideR_json_int(d->json, "pid", h->pid);
    put_field(d, "lua", h->lua, sizeof h->lua);
    tideR_json_int(d->json, "started", (int64_t)(h->start_unix_ns / 1000000));
    tideR_json_real(d->json, "seconds", d->model->seconds);
    tideR_json_int(d->json, "tier", h->tier);
    put_field(d, "tier_reason", h->tier_reason, sizeof h->tier_reason);
    tideR_json_int(d->json, "states", (int64_t)d->model->n_states);
    tideR_json_bool(d->json, "complete", d->model->is_complete);
    tideR_json_int(d->json, "rss_peak", (int64_t)h->rss_peak_bytes);
    tideR_json_int(d->json, "unattributed",
                   (int64_t)d->model->unattributed.alloc_bytes);
    tideR_json_int(d->json, "before_attach", (int64_t)d->model->before_bytes);
    tideR_json_open(d->json, "totals", '{');
    put_counts(d, 1, total_counts);
    tideR_json_close(d->json, '}');
    tideR_json_open(d->json, "kinds", '{');
    put_counts(d, TIDE_KIND_COUNT_, kind_counts);
    tideR_json_close(d->json, '}');
    put_gc(d);
    put_cycles(d);
    put_moments(d);
    put_findings(d);
    tideR_json_close(d->json, '}');
}

static void put_runs(struct data *d)
{
    tideR_json_open(d->json, "runs", '[');
    set_run(d, false);
    put_run(d, d->look->path);
    if (d->diff->base_or_null != NULL) {
        set_run(d, true);
        put_run(d, d->look->base_path);
    }
    tideR_json_close(d->json, ']');
}

/* ---- sources ------------------------------------------------------------ */

/* Texts of the sources that lines of the new run are in, each once. */
static enum tide_err put_sources(struct data *d)
{
    const struct tide_model *now = d->diff->now;
    struct tide_srctext *texts = d->look->texts.now_or_null;
    size_t left = SOURCES_MAX;
    bool *is_done = calloc(now->strings.n, sizeof *is_done);
    TIDE_FAIL_IF(is_done == NULL, TIDE_ERR_NOMEM);
    tideR_json_open(d->json, "sources", '[');
    for (uint32_t i = 1; i < now->n_lines; i++) {
        const uint32_t source = now->lines[i].source;
        size_t n = 0;
        if (is_done[source] || !d->look->has_sources || texts == NULL)
            continue;
        is_done[source] = true;
        const char *text = tideR_srctext_whole(
            texts, tideR_strtab_text(&now->strings, source), &n);
        if (text == NULL || n > left)
            continue;
        left -= n;
        tideR_json_open(d->json, NULL, '{');
        tideR_json_int(d->json, "source", string_of(d, now, source));
        tideR_json_text(d->json, "text", text, n);
        tideR_json_close(d->json, '}');
    }
    tideR_json_close(d->json, ']');
    free(is_done);
    return TIDE_OK;
}

static void put_strings(struct data *d)
{
    tideR_json_open(d->json, "strings", '[');
    for (uint32_t i = 0; i < d->strings.n; i++)
        tideR_json_text(d->json, NULL, tideR_strtab_text(&d->strings, i),
                        d->strings.strs[i].length);
    tideR_json_close(d->json, ']');
}

static enum tide_err put_all(struct data *d)
{
    tideR_json_open(d->json, NULL, '{');
    tideR_json_str(d->json, "format", "tidemark-page");
    tideR_json_int(d->json, "version", PAGE_VERSION);
    tideR_json_bool(d->json, "has_texts", d->diff->has_texts);
    tideR_json_open(d->json, "kinds", '[');
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++)
        tideR_json_str(d->json, NULL, tideC_kind_name(i));
    tideR_json_close(d->json, ']');
    put_runs(d);
    put_funcs(d);
    put_lines(d);
    TIDE_TRY(put_tree(d));
    TIDE_TRY(put_sources(d));
    put_strings(d);
    tideR_json_close(d->json, '}');
    return d->err;
}

enum tide_err tideR_page_data(const struct tide_diff *diff,
                              const struct tide_r_page_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    struct data d = {.diff = diff, .look = look, .json = &json};
    enum tide_err err = tideR_strtab_open(&d.strings);
    set_run(&d, false);
    if (err == TIDE_OK)
        err = put_all(&d);
    tideR_strtab_close(&d.strings);
    free(d.cells);
    TIDE_TRY(err);
    return tideR_sink_finish(&sink);
}
