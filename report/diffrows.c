/*
** diffrows.c: picks and sorts the rows of a diff; see diffrows.h.
**
** A row is sorted by the change of one figure: most growth first, so that what
** shrank stands at the end, and --reverse shows it first.
*/
#include "diffrows.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FAIR_LEAST 0.9 /* of the base's length */
#define FAIR_MOST  1.1
#define LABEL_MAX  (3 * TIDE_P_STRING_MAX + 32)

struct order {
    enum tide_r_sort sort;
    bool is_reversed;
};

bool tideR_diff_is_fair(const struct tide_diff *diff)
{
    const double base = diff->base_or_null->seconds;
    const double now = diff->now->seconds;
    return now > FAIR_LEAST * base && now < FAIR_MOST * base;
}

uint64_t tideR_side_key(const struct tide_r_side *side, enum tide_r_sort sort)
{
    switch (sort) {
    case TIDE_R_SORT_CALLS:
        return side->calls;
    case TIDE_R_SORT_PER_CALL:
        return side->per_call;
    case TIDE_R_SORT_WORST:
        return side->worst;
    case TIDE_R_SORT_TOTAL:
        return side->total_bytes;
    default:
        return tideR_counts_key(&side->counts, sort);
    }
}

static void set_calls(struct tide_r_side *side, const struct tide_r_func *func,
                      uint64_t bytes)
{
    side->calls = func->calls;
    side->per_call = func->calls > 0 ? bytes / func->calls : 0;
    side->worst = func->max_call_bytes;
}

static void fill_line(const struct tide_model *model, uint32_t index,
                      struct tide_r_side *side)
{
    const struct tide_r_line *line = &model->lines[index];
    side->counts = line->counts;
    side->total_bytes = line->counts.alloc_bytes;
    set_calls(side, tideR_line_func(model, line), line->counts.alloc_bytes);
}

static void fill_func(const struct tide_model *model, uint32_t index,
                      struct tide_r_side *side)
{
    const struct tide_r_func *func = &model->funcs[index];
    side->counts = func->own;
    side->total_bytes = func->total_bytes;
    set_calls(side, func, func->total_bytes);
}

static void fill_target(const struct tide_model *model, uint32_t index,
                        struct tide_r_side *side)
{
    const struct tide_r_target *target = &model->targets[index];
    const uint64_t bytes = target->counts.alloc_bytes;
    side->counts = target->counts;
    side->total_bytes = bytes;
    side->calls = target->calls;
    side->per_call = target->calls > 0 ? bytes / target->calls : 0;
    side->worst = target->max_call_bytes;
}

static void fill_pair(const struct tide_diff *diff, struct tide_r_pair pair,
                      void (*fill)(const struct tide_model *, uint32_t,
                                   struct tide_r_side *),
                      struct tide_r_drow *row)
{
    const bool is_root =
        (fill == fill_func || fill == fill_target) && row->pair == 0;
    row->has_base = pair.base != TIDE_R_NONE || is_root;
    row->has_now = pair.now != TIDE_R_NONE || is_root;
    if (row->has_base)
        fill(diff->base_or_null, pair.base, &row->base);
    if (row->has_now)
        fill(diff->now, pair.now, &row->now);
}

static void fill_row(const struct tide_diff *diff, enum tide_r_by by,
                     uint32_t index, struct tide_r_drow *row)
{
    *row = (struct tide_r_drow){.pair = index};
    if (by == TIDE_R_BY_LINE) {
        fill_pair(diff, diff->lines[index], fill_line, row);
    } else if (by == TIDE_R_BY_FUNCTION) {
        fill_pair(diff, diff->funcs[index], fill_func, row);
    } else if (by == TIDE_R_BY_TARGET) {
        fill_pair(diff, diff->targets[index], fill_target, row);
    } else {
        row->has_base = row->has_now = true;
        row->base.counts = diff->base_or_null->kinds[index];
        row->now.counts = diff->now->kinds[index];
    }
}

static bool is_empty(const struct tide_r_drow *row)
{
    return tideR_counts_are_zero(&row->base.counts) &&
           tideR_counts_are_zero(&row->now.counts) &&
           row->base.total_bytes == 0 && row->now.total_bytes == 0;
}

/* "source:line function", as filters of plain reports see it. */
static bool is_wanted(const struct tide_diff *diff, enum tide_r_by by,
                      const struct tide_r_drow *row,
                      const struct tide_r_query *query)
{
    char text[LABEL_MAX];
    if (!query->has_filter)
        return true;
    if (by == TIDE_R_BY_KIND)
        return regexec(&query->filter, tideC_kind_name(row->pair), 0, NULL,
                       0) == 0;
    if (by == TIDE_R_BY_TARGET) {
        const struct tide_r_target *t = tideR_diff_target(diff, row->pair);
        const struct tide_model *of =
            tideR_diff_model(diff, diff->targets[row->pair]);
        snprintf(text, sizeof text, "%s %s:%" PRIu32 " %s",
                 tideR_strtab_text(&of->strings, of->groups[t->group].name),
                 tideR_strtab_text(&of->strings, t->source), t->linedefined,
                 tideR_strtab_text(&of->strings, t->name));
        return regexec(&query->filter, text, 0, NULL, 0) == 0;
    }
    const bool is_line = by == TIDE_R_BY_LINE;
    const struct tide_r_pair pair =
        is_line ? diff->lines[row->pair] : diff->funcs[row->pair];
    const struct tide_model *model = tideR_diff_model(diff, pair);
    const uint32_t index = model == diff->now ? pair.now : pair.base;
    const struct tide_r_func *func =
        is_line ? tideR_line_func(model, &model->lines[index])
                : &model->funcs[index];
    snprintf(text, sizeof text, "%s:%" PRIu32 " %s",
             tideR_strtab_text(&model->strings, func->source),
             is_line ? model->lines[index].line : func->linedefined,
             tideR_strtab_text(&model->strings, func->name));
    return regexec(&query->filter, text, 0, NULL, 0) == 0;
}

static int compare_rows(const void *pa, const void *pb, void *ctx)
{
    const struct order *order = ctx;
    const struct tide_r_drow *a = pa;
    const struct tide_r_drow *b = pb;
    const int64_t x = (int64_t)(tideR_side_key(&a->now, order->sort) -
                                tideR_side_key(&a->base, order->sort));
    const int64_t y = (int64_t)(tideR_side_key(&b->now, order->sort) -
                                tideR_side_key(&b->base, order->sort));
    const int way = order->is_reversed ? -1 : 1;
    if (x != y)
        return x > y ? -way : way;
    return a->pair < b->pair ? -1 : a->pair > b->pair;
}

/* What a change has to be at least. */
static uint64_t least_change(const struct tide_diff *diff,
                             const struct tide_r_query *query)
{
    const uint64_t base = diff->base_or_null->totals.alloc_bytes;
    const uint64_t now = diff->now->totals.alloc_bytes;
    const double share = query->min_share * (double)(base > now ? base : now);
    const uint64_t least = (uint64_t)share;
    return least > query->min_bytes ? least : query->min_bytes;
}

static uint32_t n_rows(const struct tide_diff *diff, enum tide_r_by by)
{
    return by == TIDE_R_BY_LINE       ? diff->n_lines
           : by == TIDE_R_BY_FUNCTION ? diff->n_funcs
           : by == TIDE_R_BY_TARGET   ? diff->n_targets
                                      : TIDE_KIND_COUNT_;
}

enum tide_err tideR_dpick(const struct tide_diff *diff, enum tide_r_by by,
                          const struct tide_r_query *query, bool has_noise,
                          struct tide_r_dpick *out)
{
    struct order order = {query->sort, query->is_reversed};
    const uint64_t least = least_change(diff, query);
    const uint32_t n = n_rows(diff, by);
    *out =
        (struct tide_r_dpick){.rows = calloc((size_t)n + 1, sizeof *out->rows)};
    TIDE_FAIL_IF(out->rows == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = by == TIDE_R_BY_LINE; i < n; i++) {
        struct tide_r_drow *row = &out->rows[out->n];
        fill_row(diff, by, i, row);
        const uint64_t base = tideR_side_key(&row->base, query->sort);
        const uint64_t now = tideR_side_key(&row->now, query->sort);
        if (is_empty(row) || !is_wanted(diff, by, row, query))
            continue;
        if ((now > base ? now - base : base - now) < least)
            continue;
        const bool is_noise = tideR_diff_is_noise(base, now);
        out->n_noise += is_noise && base != now;
        out->n_changed += !is_noise;
        out->n += !is_noise || has_noise;
    }
    qsort_r(out->rows, out->n, sizeof *out->rows, compare_rows, &order);
    if (query->top > 0 && out->n > query->top)
        out->n = query->top;
    return TIDE_OK;
}

void tideR_dpick_close(struct tide_r_dpick *pick)
{
    free(pick->rows);
    *pick = (struct tide_r_dpick){0};
}
