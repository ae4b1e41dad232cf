/*
** diffjson.c: a diff as JSON, for programs.
**
**   { "format": "tidemark-diff", "version": 1, "noise_share": 0.01,
**     "is_fair": bool, "run": {..}, "run_base": {..}, "totals": {..},
**     "gc": {..}, "gc_base": {..}, "kinds": {..},
**     "lines": [..], "functions": [..], "stacks": [..], "findings": [..] }
**
** Rows are those of a report, and for every counter NAME there are NAME_base
** and NAME_delta.  "state" is "both", "new" or "gone"; figures of the run that
** lacks the row are 0.
*/
#include <stdlib.h>
#include <string.h>

#include "diffrows.h"
#include "emit.h"
#include "json_impl.h"

#define DIFF_VERSION 1

static void put_counter(struct tide_r_json *json, const char *name,
                        uint64_t base, uint64_t now)
{
    char key[64];
    tideR_json_int(json, name, (int64_t)now);
    snprintf(key, sizeof key, "%s_base", name);
    tideR_json_int(json, key, (int64_t)base);
    snprintf(key, sizeof key, "%s_delta", name);
    tideR_json_int(json, key, (int64_t)(now - base));
}

static void put_state(struct tide_r_json *json, bool has_base, bool has_now)
{
    tideR_json_str(json, "state",
                   !has_base  ? "new"
                   : !has_now ? "gone"
                              : "both");
}

static void put_four(struct tide_r_json *json, const struct tide_r_counts *b,
                     const struct tide_r_counts *n)
{
    put_counter(json, "alloc_bytes", b->alloc_bytes, n->alloc_bytes);
    put_counter(json, "alloc_blocks", b->alloc_blocks, n->alloc_blocks);
    put_counter(json, "live_bytes", b->live_bytes, n->live_bytes);
    put_counter(json, "live_blocks", b->live_blocks, n->live_blocks);
}

static void put_totals(struct tide_r_json *json, const struct tide_diff *diff)
{
    const struct tide_model *base = diff->base_or_null;
    const struct tide_r_counts *b = &base->totals;
    const struct tide_r_counts *n = &diff->now->totals;
    tideR_json_break(json);
    tideR_json_open(json, "totals", '{');
    put_four(json, b, n);
    put_counter(json, "freed_bytes", b->freed_bytes, n->freed_bytes);
    put_counter(json, "freed_blocks", b->freed_blocks, n->freed_blocks);
    put_counter(json, "peak_bytes", b->peak_bytes, n->peak_bytes);
    put_counter(json, "unattributed_bytes", base->unattributed.alloc_bytes,
                diff->now->unattributed.alloc_bytes);
    put_counter(json, "before_attach_bytes", base->before_bytes,
                diff->now->before_bytes);
    put_counter(json, "rss_peak_bytes", base->header->rss_peak_bytes,
                diff->now->header->rss_peak_bytes);
    tideR_json_close(json, '}');
}

static void put_kinds(struct tide_r_json *json, const struct tide_diff *diff)
{
    tideR_json_break(json);
    tideR_json_open(json, "kinds", '{');
    for (unsigned kind = 0; kind < TIDE_KIND_COUNT_; kind++) {
        tideR_json_open(json, tideC_kind_name(kind), '{');
        put_four(json, &diff->base_or_null->kinds[kind],
                 &diff->now->kinds[kind]);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, '}');
}

static void put_age_list(struct tide_r_json *json, const char *name,
                         const char *suffix, const int64_t ages[TIDE_R_AGES])
{
    char key[64];
    snprintf(key, sizeof key, "%s%s", name, suffix);
    tideR_json_open(json, key, '[');
    for (unsigned i = 0; i < TIDE_R_AGES; i++)
        tideR_json_int(json, NULL, ages[i]);
    tideR_json_close(json, ']');
}

/* Lists, as other counters: the new one, the base, the difference. */
static void put_ages(struct tide_r_json *json, const char *name,
                     const struct tide_r_counts *base,
                     const struct tide_r_counts *now, bool is_blocks)
{
    uint64_t b[TIDE_R_AGES], n[TIDE_R_AGES];
    int64_t lists[3][TIDE_R_AGES];
    tideR_ages(base, is_blocks, b);
    tideR_ages(now, is_blocks, n);
    for (unsigned i = 0; i < TIDE_R_AGES; i++) {
        lists[0][i] = (int64_t)n[i];
        lists[1][i] = (int64_t)b[i];
        lists[2][i] = (int64_t)(n[i] - b[i]);
    }
    put_age_list(json, name, "", lists[0]);
    put_age_list(json, name, "_base", lists[1]);
    put_age_list(json, name, "_delta", lists[2]);
}

static void put_line(struct tide_r_json *json, const struct tide_diff *diff,
                     const struct tide_r_drow *row)
{
    const struct tide_r_pair pair = diff->lines[row->pair];
    const struct tide_model *model = tideR_diff_model(diff, pair);
    const struct tide_r_line *line =
        &model->lines[model == diff->now ? pair.now : pair.base];
    const struct tide_r_func *func = tideR_line_func(model, line);
    const struct tide_r_counts *b = &row->base.counts;
    const struct tide_r_counts *n = &row->now.counts;
    tideR_json_string(json, "source", model, line->source);
    tideR_json_int(json, "line", line->line);
    if (row->has_base)
        tideR_json_int(json, "line_base",
                       diff->base_or_null->lines[pair.base].line);
    tideR_json_string(json, "function", model, func->name);
    tideR_json_string(json, "group", model, model->groups[func->group].name);
    put_four(json, b, n);
    put_counter(json, "freed_bytes", b->freed_bytes, n->freed_bytes);
    put_counter(json, "moved_bytes", (uint64_t)b->moved_bytes,
                (uint64_t)n->moved_bytes);
    put_counter(json, "peak_live_bytes", b->peak_bytes, n->peak_bytes);
    put_counter(json, "died_young_bytes", b->young_bytes, n->young_bytes);
    put_ages(json, "age_bytes", b, n, false);
    put_ages(json, "age_blocks", b, n, true);
}

static void put_func(struct tide_r_json *json, const struct tide_diff *diff,
                     const struct tide_r_drow *row)
{
    const struct tide_r_func *func = tideR_diff_func(diff, row->pair);
    const struct tide_model *model =
        tideR_diff_model(diff, diff->funcs[row->pair]);
    const struct tide_r_side *b = &row->base;
    const struct tide_r_side *n = &row->now;
    tideR_json_string(json, "source", model, func->source);
    tideR_json_int(json, "linedefined", func->linedefined);
    tideR_json_string(json, "name", model, func->name);
    tideR_json_str(json, "what", tideR_what_name(func->what));
    tideR_json_string(json, "group", model, model->groups[func->group].name);
    put_counter(json, "self_bytes", b->counts.alloc_bytes,
                n->counts.alloc_bytes);
    put_counter(json, "total_bytes", b->total_bytes, n->total_bytes);
    put_counter(json, "self_blocks", b->counts.alloc_blocks,
                n->counts.alloc_blocks);
    put_counter(json, "calls", b->calls, n->calls);
    put_counter(json, "max_call_bytes", b->worst, n->worst);
    put_counter(json, "live_bytes", b->counts.live_bytes, n->counts.live_bytes);
}

static void put_target(struct tide_r_json *json, const struct tide_diff *diff,
                       const struct tide_r_drow *row)
{
    const struct tide_r_target *t = tideR_diff_target(diff, row->pair);
    const struct tide_model *model =
        tideR_diff_model(diff, diff->targets[row->pair]);
    const struct tide_r_side *b = &row->base;
    const struct tide_r_side *n = &row->now;
    if (t->sort == TIDE_R_TARGET_REST)
        tideR_json_str(json, "group", "");
    else
        tideR_json_string(json, "group", model, model->groups[t->group].name);
    tideR_json_string(json, "target", model, t->name);
    tideR_json_string(json, "source", model, t->source);
    tideR_json_int(json, "line", t->linedefined);
    put_four(json, &b->counts, &n->counts);
    put_counter(json, "calls", b->calls, n->calls);
    put_counter(json, "bytes_per_call", b->per_call, n->per_call);
    put_counter(json, "max_call_bytes", b->worst, n->worst);
}

static enum tide_err put_rows(struct tide_r_json *json, const char *key,
                              const struct tide_diff *diff, enum tide_r_by by,
                              const struct tide_r_query *query)
{
    struct tide_r_dpick pick;
    const enum tide_err err = tideR_dpick(diff, by, query, true, &pick);
    tideR_json_break(json);
    tideR_json_open(json, key, '[');
    for (uint32_t i = 0; i < pick.n && err == TIDE_OK; i++) {
        tideR_json_break(json);
        tideR_json_open(json, NULL, '{');
        put_state(json, pick.rows[i].has_base, pick.rows[i].has_now);
        if (by == TIDE_R_BY_LINE)
            put_line(json, diff, &pick.rows[i]);
        else if (by == TIDE_R_BY_TARGET)
            put_target(json, diff, &pick.rows[i]);
        else
            put_func(json, diff, &pick.rows[i]);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
    tideR_dpick_close(&pick);
    return err;
}

/* ---- stacks ------------------------------------------------------------- */

static void put_frame(struct tide_r_json *json, const struct tide_diff *diff,
                      const struct tide_r_both_node *node)
{
    const struct tide_model *model =
        tideR_diff_model(diff, diff->funcs[node->func]);
    const struct tide_r_func *func = tideR_diff_func(diff, node->func);
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "source", model, func->source);
    tideR_json_int(json, "line", node->line);
    tideR_json_string(json, "function", model, func->name);
    tideR_json_close(json, '}');
}

/* Frames of a merged node, root first; path has room for the deepest. */
static void put_frames(struct tide_r_json *json, const struct tide_diff *diff,
                       uint32_t node, uint32_t *path)
{
    uint32_t depth = 0;
    for (; node != 0; node = diff->nodes[node].parent)
        path[depth++] = node;
    tideR_json_open(json, "frames", '[');
    while (depth > 0)
        put_frame(json, diff, &diff->nodes[path[--depth]]);
    tideR_json_close(json, ']');
}

static uint32_t stack_of(const struct tide_model *model, uint32_t node,
                         uint32_t kind)
{
    uint32_t i = model->nodes[node].first_stack;
    while (i != TIDE_R_NONE && model->stacks[i].kind != kind)
        i = model->stacks[i].next;
    return i;
}

/* Stacks without any Lua line are in no list but with C frames, as in a report.
 */
static bool is_listed(const struct tide_diff *diff,
                      const struct tide_r_both_node *node)
{
    if (diff->now->has_native || diff->base_or_null->has_native)
        return true;
    return node->nodes.now != TIDE_R_NONE
               ? diff->now->nodes[node->nodes.now].lua_frame != TIDE_R_NONE
               : diff->base_or_null->nodes[node->nodes.base].lua_frame !=
                     TIDE_R_NONE;
}

static void put_stack(struct tide_r_json *json, const struct tide_diff *diff,
                      uint32_t index, uint32_t kind, uint32_t *path)
{
    const struct tide_r_pair pair = diff->nodes[index].nodes;
    struct tide_r_counts base = {0};
    struct tide_r_counts now = {0};
    const uint32_t b = pair.base != TIDE_R_NONE
                           ? stack_of(diff->base_or_null, pair.base, kind)
                           : TIDE_R_NONE;
    const uint32_t n = pair.now != TIDE_R_NONE
                           ? stack_of(diff->now, pair.now, kind)
                           : TIDE_R_NONE;
    if (b == TIDE_R_NONE && n == TIDE_R_NONE)
        return;
    tideR_model_stack_counts(diff->base_or_null, b, &base);
    tideR_model_stack_counts(diff->now, n, &now);
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    put_state(json, b != TIDE_R_NONE, n != TIDE_R_NONE);
    put_frames(json, diff, index, path);
    tideR_json_str(json, "kind", tideC_kind_name(kind));
    put_four(json, &base, &now);
    tideR_json_close(json, '}');
}

static enum tide_err put_stacks(struct tide_r_json *json,
                                const struct tide_diff *diff)
{
    uint32_t *path = malloc((size_t)diff->n_nodes * sizeof *path);
    TIDE_FAIL_IF(path == NULL, TIDE_ERR_NOMEM);
    tideR_json_break(json);
    tideR_json_open(json, "stacks", '[');
    for (uint32_t i = 0; i < diff->n_nodes; i++)
        if (is_listed(diff, &diff->nodes[i]))
            for (uint32_t kind = 0; kind < TIDE_KIND_COUNT_; kind++)
                put_stack(json, diff, i, kind, path);
    tideR_json_close(json, ']');
    free(path);
    return TIDE_OK;
}

static void put_summary(struct tide_r_json *json, const struct tide_diff *diff)
{
    tideR_json_str(json, "format", "tidemark-diff");
    tideR_json_int(json, "version", DIFF_VERSION);
    tideR_json_real(json, "noise_share", TIDE_R_NOISE_SHARE);
    tideR_json_bool(json, "is_fair", tideR_diff_is_fair(diff));
    tideR_json_break(json);
    tideR_json_run(json, "run", diff->now);
    tideR_json_break(json);
    tideR_json_run(json, "run_base", diff->base_or_null);
    put_totals(json, diff);
    tideR_json_break(json);
    tideR_json_gc(json, "gc", diff->now);
    tideR_json_break(json);
    tideR_json_gc(json, "gc_base", diff->base_or_null);
    put_kinds(json, diff);
}

enum tide_err tideR_diff_json(const struct tide_diff *diff,
                              const struct tide_r_query *query, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    tideR_json_open(&json, NULL, '{');
    put_summary(&json, diff);
    TIDE_TRY(put_rows(&json, "lines", diff, TIDE_R_BY_LINE, query));
    TIDE_TRY(put_rows(&json, "functions", diff, TIDE_R_BY_FUNCTION, query));
    TIDE_TRY(put_rows(&json, "targets", diff, TIDE_R_BY_TARGET, query));
    TIDE_TRY(put_stacks(&json, diff));
    tideR_json_findings(&json, diff->now);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    return tideR_sink_finish(&sink);
}
