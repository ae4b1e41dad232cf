/*
** select.c: see select.h.
**
** Every list of the model answers the same few questions (struct list); one
** function then filters, sorts and cuts them all.  Order is total, so that
** reports repeat: rows with equal keys stand by source, line and name, stacks
** as in the profile.
*/
#include "select.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/compiler.h"

#define LABEL_MAX (3 * TIDE_P_STRING_MAX + 64)

/* By what rows with equal keys are told apart: texts of the model. */
struct ident {
    uint32_t source;
    uint32_t line;
    uint32_t name;
};

/* A list of the model.  Rows are first .. end - 1. */
struct list {
    uint32_t first;
    uint32_t (*end)(const struct tide_model *model);
    /* Own counts of a row; false: it is not to be shown. */
    bool (*counts)(const struct tide_model *model, uint32_t row,
                   struct tide_r_counts *out);
    /* What it is sorted by, when that is not one of the counts. */
    uint64_t (*key)(const struct tide_model *model, uint32_t row,
                    const struct tide_r_counts *counts, enum tide_r_sort sort);
    struct ident (*ident)(const struct tide_model *model, uint32_t row);
    bool has_idents; /* different for each row: they decide between equals */
};

struct keyed_row {
    uint64_t key;
    uint32_t row;
};

/* What the comparison needs. */
struct order {
    const struct tide_model *model;
    const struct list *list;
    enum tide_r_sort sort;
    bool is_reversed;
};

static const char *const sort_names[TIDE_R_SORT_COUNT_] = {
    [TIDE_R_SORT_ALLOC] = "alloc_bytes",
    [TIDE_R_SORT_BLOCKS] = "alloc_blocks",
    [TIDE_R_SORT_LIVE] = "live_bytes",
    [TIDE_R_SORT_LIVE_BLOCKS] = "live_blocks",
    [TIDE_R_SORT_FREED] = "freed_bytes",
    [TIDE_R_SORT_YOUNG] = "died_young_bytes",
    [TIDE_R_SORT_PEAK] = "peak_live_bytes",
    [TIDE_R_SORT_CALLS] = "calls",
    [TIDE_R_SORT_PER_CALL] = "bytes_per_call",
    [TIDE_R_SORT_WORST] = "max_call_bytes",
    [TIDE_R_SORT_TOTAL] = "total_bytes",
    [TIDE_R_SORT_NAME] = "name",
    [TIDE_R_SORT_LINE] = "line",
    [TIDE_R_SORT_HELD] = "held_bytes",
};

/* Shorter names for the same. */
static const struct {
    const char *name;
    enum tide_r_sort sort;
} sort_aliases[] = {
    {"alloc", TIDE_R_SORT_ALLOC},       {"bytes", TIDE_R_SORT_ALLOC},
    {"self", TIDE_R_SORT_ALLOC},        {"self_bytes", TIDE_R_SORT_ALLOC},
    {"blocks", TIDE_R_SORT_BLOCKS},     {"self_blocks", TIDE_R_SORT_BLOCKS},
    {"live", TIDE_R_SORT_LIVE},         {"freed", TIDE_R_SORT_FREED},
    {"young", TIDE_R_SORT_YOUNG},       {"peak", TIDE_R_SORT_PEAK},
    {"per_call", TIDE_R_SORT_PER_CALL}, {"worst", TIDE_R_SORT_WORST},
    {"max_call", TIDE_R_SORT_WORST},    {"total", TIDE_R_SORT_TOTAL},
    {"function", TIDE_R_SORT_NAME},     {"source", TIDE_R_SORT_LINE},
    {"held", TIDE_R_SORT_HELD},
};

static const char *const by_names[TIDE_R_BY_COUNT_] = {
    [TIDE_R_BY_LINE] = "line",   [TIDE_R_BY_FUNCTION] = "function",
    [TIDE_R_BY_STACK] = "stack", [TIDE_R_BY_KIND] = "kind",
    [TIDE_R_BY_GROUP] = "group", [TIDE_R_BY_TARGET] = "target",
};

enum tide_err tideR_sort_parse(const char *name, enum tide_r_sort *out)
{
    for (unsigned i = 0; i < TIDE_R_SORT_COUNT_; i++)
        if (strcmp(name, sort_names[i]) == 0) {
            *out = (enum tide_r_sort)i;
            return TIDE_OK;
        }
    for (size_t i = 0; i < sizeof sort_aliases / sizeof sort_aliases[0]; i++)
        if (strcmp(name, sort_aliases[i].name) == 0) {
            *out = sort_aliases[i].sort;
            return TIDE_OK;
        }
    return TIDE_ERR_ARG;
}

const char *tideR_sort_names(void)
{
    return "alloc, blocks, live, live_blocks, freed, young, peak, calls, "
           "per_call, worst, total, name, line, held";
}

enum tide_err tideR_by_parse(const char *name, enum tide_r_by *out)
{
    for (unsigned i = 0; i < TIDE_R_BY_COUNT_; i++)
        if (strcmp(name, by_names[i]) == 0) {
            *out = (enum tide_r_by)i;
            return TIDE_OK;
        }
    return TIDE_ERR_ARG;
}

enum tide_r_sort tideR_sort_of(enum tide_r_by by, enum tide_r_sort sort)
{
    switch (sort) {
    case TIDE_R_SORT_TOTAL:
        return by == TIDE_R_BY_FUNCTION ? sort : TIDE_R_SORT_ALLOC;
    case TIDE_R_SORT_CALLS:
    case TIDE_R_SORT_PER_CALL:
    case TIDE_R_SORT_WORST:
        return by == TIDE_R_BY_FUNCTION || by == TIDE_R_BY_LINE ||
                       by == TIDE_R_BY_TARGET
                   ? sort
                   : TIDE_R_SORT_ALLOC;
    default:
        return sort;
    }
}

enum tide_err tideR_query_filter(struct tide_r_query *query, const char *regex,
                                 char *why, size_t why_bytes)
{
    tideR_query_close(query);
    const int failed = regcomp(&query->filter, regex, REG_EXTENDED | REG_NOSUB);
    if (failed != 0) {
        regerror(failed, &query->filter, why, why_bytes);
        return TIDE_ERR_ARG;
    }
    query->has_filter = true;
    return TIDE_OK;
}

void tideR_query_close(struct tide_r_query *query)
{
    if (query->has_filter)
        regfree(&query->filter);
    query->has_filter = false;
}

uint64_t tideR_counts_key(const struct tide_r_counts *counts,
                          enum tide_r_sort sort)
{
    switch (sort) {
    case TIDE_R_SORT_BLOCKS:
        return counts->alloc_blocks;
    case TIDE_R_SORT_LIVE:
        return counts->live_bytes;
    case TIDE_R_SORT_LIVE_BLOCKS:
        return counts->live_blocks;
    case TIDE_R_SORT_FREED:
        return counts->freed_bytes;
    case TIDE_R_SORT_YOUNG:
        return counts->young_bytes;
    case TIDE_R_SORT_PEAK:
        return counts->peak_bytes;
    case TIDE_R_SORT_HELD:
        return counts->held_bytes;
    default:
        return counts->alloc_bytes;
    }
}

static uint64_t per_call(uint64_t bytes, uint64_t calls)
{
    return calls == 0 ? 0 : bytes / calls;
}

static uint64_t counts_key(const struct tide_model *model, uint32_t row,
                           const struct tide_r_counts *counts,
                           enum tide_r_sort sort)
{
    (void)model;
    (void)row;
    return tideR_counts_key(counts, sort);
}

/* Lines. */

static uint32_t lines_end(const struct tide_model *model)
{
    return model->n_lines;
}

static bool line_counts(const struct tide_model *model, uint32_t row,
                        struct tide_r_counts *out)
{
    *out = model->lines[row].counts;
    return !tideR_counts_are_zero(out);
}

static uint64_t line_key(const struct tide_model *model, uint32_t row,
                         const struct tide_r_counts *counts,
                         enum tide_r_sort sort)
{
    const struct tide_r_func *func = tideR_line_func(model, &model->lines[row]);
    if (sort == TIDE_R_SORT_CALLS)
        return func->calls;
    if (sort == TIDE_R_SORT_PER_CALL)
        return per_call(counts->alloc_bytes, func->calls);
    if (sort == TIDE_R_SORT_WORST)
        return func->max_call_bytes;
    return tideR_counts_key(counts, sort);
}

static struct ident line_ident(const struct tide_model *model, uint32_t row)
{
    const struct tide_r_line *line = &model->lines[row];
    return (struct ident){line->source, line->line,
                          tideR_line_func(model, line)->name};
}

/* Functions. */

static uint32_t funcs_end(const struct tide_model *model)
{
    return model->n_funcs;
}

static bool func_counts(const struct tide_model *model, uint32_t row,
                        struct tide_r_counts *out)
{
    const struct tide_r_func *func = &model->funcs[row];
    *out = func->own;
    return !tideR_counts_are_zero(out) || func->total_bytes != 0 ||
           func->total_blocks != 0 || func->calls != 0;
}

static uint64_t func_key(const struct tide_model *model, uint32_t row,
                         const struct tide_r_counts *counts,
                         enum tide_r_sort sort)
{
    const struct tide_r_func *func = &model->funcs[row];
    switch (sort) {
    case TIDE_R_SORT_CALLS:
        return func->calls;
    case TIDE_R_SORT_PER_CALL:
        return per_call(func->total_bytes, func->calls);
    case TIDE_R_SORT_WORST:
        return func->max_call_bytes;
    case TIDE_R_SORT_TOTAL:
        return func->total_bytes;
    default:
        return tideR_counts_key(counts, sort);
    }
}

static struct ident func_ident(const struct tide_model *model, uint32_t row)
{
    const struct tide_r_func *func = &model->funcs[row];
    return (struct ident){func->source, func->linedefined, func->name};
}

/* Stacks. */

static uint32_t stacks_end(const struct tide_model *model)
{
    return model->n_stacks;
}

static bool stack_counts(const struct tide_model *model, uint32_t row,
                         struct tide_r_counts *out)
{
    const struct tide_r_stack *stack = &model->stacks[row];
    if (stack->kind == TIDE_R_KIND_MORE ||
        (model->nodes[stack->node].lua_frame == TIDE_R_NONE &&
         !model->has_native))
        return false;
    tideR_model_stack_counts(model, row, out);
    return true;
}

static struct ident stack_ident(const struct tide_model *model, uint32_t row)
{
    const uint32_t node = model->stacks[row].node;
    const struct tide_r_frame *frame =
        &model->frames[model->nodes[node].lua_frame];
    const struct tide_r_func *func = &model->funcs[frame->func];
    return (struct ident){func->source, frame->line, func->name};
}

/* Kinds. */

static uint32_t kinds_end(const struct tide_model *model)
{
    (void)model;
    return TIDE_KIND_COUNT_;
}

static bool kind_counts(const struct tide_model *model, uint32_t row,
                        struct tide_r_counts *out)
{
    *out = model->kinds[row];
    return !tideR_counts_are_zero(out);
}

static struct ident kind_ident(const struct tide_model *model, uint32_t row)
{
    (void)model;
    return (struct ident){.line = row};
}

/* Groups. */

static uint32_t groups_end(const struct tide_model *model)
{
    return model->n_groups;
}

static bool group_counts(const struct tide_model *model, uint32_t row,
                         struct tide_r_counts *out)
{
    *out = model->groups[row].counts;
    return model->groups[row].is_named || !tideR_counts_are_zero(out);
}

static struct ident group_ident(const struct tide_model *model, uint32_t row)
{
    return (struct ident){.name = model->groups[row].name};
}

/* Targets. */

static uint32_t targets_end(const struct tide_model *model)
{
    return model->n_targets;
}

static bool target_counts(const struct tide_model *model, uint32_t row,
                          struct tide_r_counts *out)
{
    const enum tide_r_target_sort sort = model->targets[row].sort;
    *out = model->targets[row].counts;
    return sort == TIDE_R_TARGET_NAMED || sort == TIDE_R_TARGET_REGION ||
           !tideR_counts_are_zero(out);
}

static uint64_t target_key(const struct tide_model *model, uint32_t row,
                           const struct tide_r_counts *counts,
                           enum tide_r_sort sort)
{
    const struct tide_r_target *target = &model->targets[row];
    if (sort == TIDE_R_SORT_CALLS)
        return target->calls;
    if (sort == TIDE_R_SORT_PER_CALL)
        return per_call(counts->alloc_bytes, target->calls);
    if (sort == TIDE_R_SORT_WORST)
        return target->max_call_bytes;
    return tideR_counts_key(counts, sort);
}

static struct ident target_ident(const struct tide_model *model, uint32_t row)
{
    const struct tide_r_target *target = &model->targets[row];
    return (struct ident){target->source, target->linedefined, target->name};
}

static const struct list lists[TIDE_R_BY_COUNT_] = {
    [TIDE_R_BY_LINE] = {1, lines_end, line_counts, line_key, line_ident, true},
    [TIDE_R_BY_FUNCTION] = {0, funcs_end, func_counts, func_key, func_ident,
                            true},
    [TIDE_R_BY_STACK] = {1, stacks_end, stack_counts, counts_key, stack_ident,
                         false},
    [TIDE_R_BY_KIND] = {0, kinds_end, kind_counts, counts_key, kind_ident,
                        true},
    [TIDE_R_BY_GROUP] = {0, groups_end, group_counts, counts_key, group_ident,
                         true},
    [TIDE_R_BY_TARGET] = {0, targets_end, target_counts, target_key,
                          target_ident, true},
};

static int compare_texts(const struct tide_model *model, uint32_t a, uint32_t b)
{
    return a == b ? 0
                  : strcmp(tideR_strtab_text(&model->strings, a),
                           tideR_strtab_text(&model->strings, b));
}

/* By source, line and name, or by name first. */
static int compare_idents(const struct order *order, uint32_t row_a,
                          uint32_t row_b)
{
    const struct ident a = order->list->ident(order->model, row_a);
    const struct ident b = order->list->ident(order->model, row_b);
    const int names = compare_texts(order->model, a.name, b.name);
    if (order->sort == TIDE_R_SORT_NAME && names != 0)
        return names;
    const int sources = compare_texts(order->model, a.source, b.source);
    if (sources != 0)
        return sources;
    if (a.line != b.line)
        return a.line < b.line ? -1 : 1;
    return names;
}

static int compare_rows(const void *pa, const void *pb, void *ctx)
{
    const struct keyed_row *a = pa;
    const struct keyed_row *b = pb;
    const struct order *order = ctx;
    int result = a->key > b->key ? -1 : a->key < b->key;
    const bool is_by_ident =
        order->sort == TIDE_R_SORT_NAME || order->sort == TIDE_R_SORT_LINE;
    if (is_by_ident || (result == 0 && order->list->has_idents))
        result = compare_idents(order, a->row, b->row);
    if (result == 0)
        result = a->row < b->row ? -1 : a->row > b->row;
    return order->is_reversed ? -result : result;
}

size_t tideR_frame_label(const struct tide_model *model, uint32_t frame,
                         char *out, size_t out_bytes)
{
    const struct tide_r_frame *f = &model->frames[frame];
    const struct tide_r_func *func = &model->funcs[f->func];
    const char *source = tideR_strtab_text(&model->strings, func->source);
    const char *name = tideR_strtab_text(&model->strings, func->name);
    const int n = f->line == 0 ? snprintf(out, out_bytes, "%s%s%s", source,
                                          source[0] != '\0' ? " " : "", name)
                               : snprintf(out, out_bytes, "%s:%" PRIu32 " %s",
                                          source, f->line, name);
    return (size_t)n < out_bytes ? (size_t)n : out_bytes - 1;
}

static bool label_matches(const struct tide_r_query *query, const char *label)
{
    return regexec(&query->filter, label, 0, NULL, 0) == 0;
}

enum tide_err tideR_match_nodes(const struct tide_model *model,
                                const struct tide_r_query *query,
                                unsigned char **out)
{
    char label[LABEL_MAX];
    *out = NULL;
    if (!query->has_filter)
        return TIDE_OK;
    unsigned char *frames = calloc(model->n_frames, 1);
    unsigned char *nodes = calloc(model->n_nodes, 1);
    if (frames == NULL || nodes == NULL) {
        free(frames);
        free(nodes);
        return TIDE_ERR_NOMEM;
    }
    for (uint32_t i = 1; i < model->n_frames; i++) {
        tideR_frame_label(model, i, label, sizeof label);
        frames[i] = label_matches(query, label);
    }
    for (uint32_t i = 1; i < model->n_nodes; i++)
        nodes[i] =
            frames[model->nodes[i].frame] | nodes[model->nodes[i].parent];
    free(frames);
    *out = nodes;
    return TIDE_OK;
}

/* Whether a row of any list but the stacks matches the filter. */
static bool row_matches(const struct tide_model *model, enum tide_r_by by,
                        uint32_t row, const struct tide_r_query *query)
{
    char label[LABEL_MAX];
    const struct ident ident = lists[by].ident(model, row);
    const char *name = tideR_strtab_text(&model->strings, ident.name);
    if (by == TIDE_R_BY_KIND)
        return label_matches(query, tideC_kind_name(row));
    if (by == TIDE_R_BY_GROUP)
        return label_matches(query, name);
    if (by == TIDE_R_BY_TARGET) {
        const uint32_t group = model->targets[row].group;
        snprintf(label, sizeof label, "%s %s:%" PRIu32 " %s",
                 tideR_strtab_text(&model->strings, model->groups[group].name),
                 tideR_strtab_text(&model->strings, ident.source), ident.line,
                 name);
        return label_matches(query, label);
    }
    snprintf(label, sizeof label, "%s:%" PRIu32 " %s",
             tideR_strtab_text(&model->strings, ident.source), ident.line,
             name);
    return label_matches(query, label);
}

/* The least bytes of a row that is shown. */
static uint64_t least_bytes(const struct tide_model *model,
                            const struct tide_r_query *query)
{
    const double share = query->min_share * (double)model->totals.alloc_bytes;
    return share > (double)query->min_bytes ? (uint64_t)share
                                            : query->min_bytes;
}

/* The bytes that --min is about: those sorted by, or the allocated ones. */
static uint64_t bytes_of(const struct list *list,
                         const struct tide_model *model, uint32_t row,
                         const struct tide_r_counts *counts,
                         enum tide_r_sort sort)
{
    switch (sort) {
    case TIDE_R_SORT_BLOCKS:
    case TIDE_R_SORT_LIVE_BLOCKS:
    case TIDE_R_SORT_CALLS:
    case TIDE_R_SORT_NAME:
    case TIDE_R_SORT_LINE:
        return counts->alloc_bytes;
    default:
        return list->key(model, row, counts, sort);
    }
}

/* Puts the rows that pass into `rows`; counts all of them in `out`. */
static uint32_t collect_rows(const struct tide_model *model, enum tide_r_by by,
                             const struct tide_r_query *query,
                             const unsigned char *matches,
                             struct keyed_row *rows, struct tide_r_pick *out)
{
    const struct list *list = &lists[by];
    const enum tide_r_sort sort = tideR_sort_of(by, query->sort);
    const uint64_t least = least_bytes(model, query);
    uint32_t n = 0;
    for (uint32_t i = list->first; i < list->end(model); i++) {
        struct tide_r_counts counts;
        if (!list->counts(model, i, &counts))
            continue;
        out->n_all++;
        out->all_bytes += counts.alloc_bytes;
        if (bytes_of(list, model, i, &counts, sort) < least)
            continue;
        if (matches != NULL
                ? !matches[model->stacks[i].node]
                : query->has_filter && !row_matches(model, by, i, query))
            continue;
        rows[n++] = (struct keyed_row){list->key(model, i, &counts, sort), i};
    }
    return n;
}

static enum tide_err take_rows(const struct tide_model *model,
                               enum tide_r_by by, const struct keyed_row *rows,
                               uint32_t n, struct tide_r_pick *out)
{
    out->rows = malloc((n > 0 ? n : 1) * sizeof *out->rows);
    TIDE_FAIL_IF(out->rows == NULL, TIDE_ERR_NOMEM);
    out->n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_r_counts counts;
        out->rows[i] = rows[i].row;
        lists[by].counts(model, rows[i].row, &counts);
        out->shown_bytes += counts.alloc_bytes;
    }
    return TIDE_OK;
}

enum tide_err tideR_pick(const struct tide_model *model, enum tide_r_by by,
                         const struct tide_r_query *query,
                         struct tide_r_pick *out)
{
    struct order order = {model, &lists[by], tideR_sort_of(by, query->sort),
                          query->is_reversed};
    const size_t room = (size_t)lists[by].end(model) + 1;
    unsigned char *matches = NULL;
    *out = (struct tide_r_pick){0};
    if (by == TIDE_R_BY_STACK)
        TIDE_TRY(tideR_match_nodes(model, query, &matches));
    struct keyed_row *rows = malloc(room * sizeof *rows);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (rows != NULL) {
        uint32_t n = collect_rows(model, by, query, matches, rows, out);
        qsort_r(rows, n, sizeof *rows, compare_rows, &order);
        if (query->top > 0 && n > query->top)
            n = query->top;
        err = take_rows(model, by, rows, n, out);
    }
    free(rows);
    free(matches);
    return err;
}

void tideR_pick_close(struct tide_r_pick *pick)
{
    free(pick->rows);
    *pick = (struct tide_r_pick){0};
}
