/*
** pagerows.c: functions, lines, targets and the tree in the page's data.
*/
#include <stdlib.h>

#include "grow.h"
#include "page_impl.h"

/* ---- functions ---------------------------------------------------------- */

static const struct tide_model *func_model(const struct tide_page *d,
                                           uint32_t row)
{
    return tideR_diff_model(d->diff, d->diff->funcs[row]);
}

static int64_t func_in(struct tide_page *d, uint32_t row)
{
    return row == 0 ? 3 : tideR_page_runs_of(d->diff->funcs[row]);
}

static int64_t func_name(struct tide_page *d, uint32_t row)
{
    return tideR_page_string(d, func_model(d, row),
                             tideR_diff_func(d->diff, row)->name);
}

static int64_t func_source(struct tide_page *d, uint32_t row)
{
    return tideR_page_string(d, func_model(d, row),
                             tideR_diff_func(d->diff, row)->source);
}

static int64_t func_group(struct tide_page *d, uint32_t row)
{
    const struct tide_model *model = func_model(d, row);
    const uint32_t group = tideR_diff_func(d->diff, row)->group;
    return tideR_page_string(d, model, model->groups[group].name);
}

static int64_t func_line(struct tide_page *d, uint32_t row)
{
    return tideR_diff_func(d->diff, row)->linedefined;
}

static int64_t func_what(struct tide_page *d, uint32_t row)
{
    return tideR_diff_func(d->diff, row)->what;
}

/* The function in the run being written; all 0: not in it. */
static const struct tide_r_func *side_func(const struct tide_page *d,
                                           uint32_t row)
{
    static const struct tide_r_func none;
    const uint32_t index = tideR_page_side_of(d, d->diff->funcs[row]);
    return index == TIDE_R_NONE && row != 0 ? &none : &d->model->funcs[index];
}

static void func_counts(const struct tide_page *d, uint32_t row,
                        struct tide_r_counts *out)
{
    *out = side_func(d, row)->own;
}

static int64_t func_total(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_func(d, row)->total_bytes;
}

static int64_t func_calls(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_func(d, row)->calls;
}

static int64_t func_worst(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_func(d, row)->max_call_bytes;
}

static void put_func_figures(struct tide_page *d)
{
    const uint32_t n = d->diff->n_funcs;
    tideR_page_column(d, "total", n, func_total);
    tideR_page_column(d, "calls", n, func_calls);
    tideR_page_column(d, "worst", n, func_worst);
    tideR_page_ages(d, n, func_counts);
}

void tideR_page_funcs(struct tide_page *d)
{
    const uint32_t n = d->diff->n_funcs;
    tideR_json_open(d->json, "funcs", '{');
    tideR_page_column(d, "in", n, func_in);
    tideR_page_column(d, "name", n, func_name);
    tideR_page_column(d, "source", n, func_source);
    tideR_page_column(d, "group", n, func_group);
    tideR_page_column(d, "line", n, func_line);
    tideR_page_column(d, "what", n, func_what);
    tideR_page_both(d, n, func_counts, put_func_figures);
    tideR_json_close(d->json, '}');
}

/* ---- lines -------------------------------------------------------------- */

static const struct tide_r_line *line_row(const struct tide_page *d,
                                          uint32_t row)
{
    const struct tide_r_pair pair = d->diff->lines[row];
    const struct tide_model *model = tideR_diff_model(d->diff, pair);
    return &model->lines[model == d->diff->now ? pair.now : pair.base];
}

static int64_t line_in(struct tide_page *d, uint32_t row)
{
    return tideR_page_runs_of(d->diff->lines[row]);
}

static int64_t line_source(struct tide_page *d, uint32_t row)
{
    return tideR_page_string(d, tideR_diff_model(d->diff, d->diff->lines[row]),
                             line_row(d, row)->source);
}

static int64_t line_line(struct tide_page *d, uint32_t row)
{
    return line_row(d, row)->line;
}

/* The name of its function, as text: a row of lines names one only. */
static int64_t line_func(struct tide_page *d, uint32_t row)
{
    const struct tide_model *model =
        tideR_diff_model(d->diff, d->diff->lines[row]);
    return tideR_page_string(d, model,
                             tideR_line_func(model, line_row(d, row))->name);
}

static int64_t line_group(struct tide_page *d, uint32_t row)
{
    const struct tide_model *model =
        tideR_diff_model(d->diff, d->diff->lines[row]);
    const uint32_t group = tideR_line_func(model, line_row(d, row))->group;
    return tideR_page_string(d, model, model->groups[group].name);
}

/* The function of a line in the run being written; all 0: not in it. */
static const struct tide_r_func *side_line_func(const struct tide_page *d,
                                                uint32_t row)
{
    static const struct tide_r_func none;
    const uint32_t index = tideR_page_side_of(d, d->diff->lines[row]);
    return index == TIDE_R_NONE
               ? &none
               : tideR_line_func(d->model, &d->model->lines[index]);
}

static int64_t line_calls(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_line_func(d, row)->calls;
}

static int64_t line_worst(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_line_func(d, row)->max_call_bytes;
}

static void line_counts(const struct tide_page *d, uint32_t row,
                        struct tide_r_counts *out)
{
    const uint32_t index = tideR_page_side_of(d, d->diff->lines[row]);
    if (index != TIDE_R_NONE)
        *out = d->model->lines[index].counts;
}

static void put_line_figures(struct tide_page *d)
{
    tideR_page_column(d, "calls", d->diff->n_lines, line_calls);
    tideR_page_column(d, "worst", d->diff->n_lines, line_worst);
    tideR_page_ages(d, d->diff->n_lines, line_counts);
}

void tideR_page_lines(struct tide_page *d)
{
    const uint32_t n = d->diff->n_lines;
    tideR_json_open(d->json, "lines", '{');
    tideR_page_column(d, "in", n, line_in);
    tideR_page_column(d, "source", n, line_source);
    tideR_page_column(d, "line", n, line_line);
    tideR_page_column(d, "func", n, line_func);
    tideR_page_column(d, "group", n, line_group);
    tideR_page_both(d, n, line_counts, put_line_figures);
    tideR_json_close(d->json, '}');
}

/* ---- targets ------------------------------------------------------------ */

static const struct tide_model *target_model(const struct tide_page *d,
                                             uint32_t row)
{
    return tideR_diff_model(d->diff, d->diff->targets[row]);
}

static int64_t target_in(struct tide_page *d, uint32_t row)
{
    return row == 0 ? 3 : tideR_page_runs_of(d->diff->targets[row]);
}

static int64_t target_group(struct tide_page *d, uint32_t row)
{
    const struct tide_model *model = target_model(d, row);
    const struct tide_r_target *target = tideR_diff_target(d->diff, row);
    return target->sort == TIDE_R_TARGET_REST
               ? 0
               : tideR_page_string(d, model, model->groups[target->group].name);
}

static int64_t target_name(struct tide_page *d, uint32_t row)
{
    return tideR_page_string(d, target_model(d, row),
                             tideR_diff_target(d->diff, row)->name);
}

static int64_t target_source(struct tide_page *d, uint32_t row)
{
    return tideR_page_string(d, target_model(d, row),
                             tideR_diff_target(d->diff, row)->source);
}

static int64_t target_line(struct tide_page *d, uint32_t row)
{
    return tideR_diff_target(d->diff, row)->linedefined;
}

static int64_t target_what(struct tide_page *d, uint32_t row)
{
    return tideR_diff_target(d->diff, row)->sort;
}

/* The target in the run being written; all 0: not in it. */
static const struct tide_r_target *side_target(const struct tide_page *d,
                                               uint32_t row)
{
    static const struct tide_r_target none;
    const uint32_t index = tideR_page_side_of(d, d->diff->targets[row]);
    return index == TIDE_R_NONE && row != 0 ? &none : &d->model->targets[index];
}

static void target_counts(const struct tide_page *d, uint32_t row,
                          struct tide_r_counts *out)
{
    *out = side_target(d, row)->counts;
}

static int64_t target_calls(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_target(d, row)->calls;
}

static int64_t target_worst(struct tide_page *d, uint32_t row)
{
    return (int64_t)side_target(d, row)->max_call_bytes;
}

static void put_target_figures(struct tide_page *d)
{
    tideR_page_column(d, "calls", d->diff->n_targets, target_calls);
    tideR_page_column(d, "worst", d->diff->n_targets, target_worst);
    tideR_page_ages(d, d->diff->n_targets, target_counts);
}

void tideR_page_targets(struct tide_page *d)
{
    const uint32_t n = d->diff->n_targets;
    tideR_json_open(d->json, "targets", '{');
    tideR_page_column(d, "in", n, target_in);
    tideR_page_column(d, "group", n, target_group);
    tideR_page_column(d, "name", n, target_name);
    tideR_page_column(d, "source", n, target_source);
    tideR_page_column(d, "line", n, target_line);
    tideR_page_column(d, "what", n, target_what);
    tideR_page_both(d, n, target_counts, put_target_figures);
    tideR_json_close(d->json, '}');
}

/* ---- the tree ----------------------------------------------------------- */

static int64_t node_in(struct tide_page *d, uint32_t row)
{
    return row == 0 ? 3 : tideR_page_runs_of(d->diff->nodes[row].nodes);
}

static int64_t node_parent(struct tide_page *d, uint32_t row)
{
    return d->diff->nodes[row].parent;
}

static int64_t node_func(struct tide_page *d, uint32_t row)
{
    return d->diff->nodes[row].func;
}

static int64_t node_line(struct tide_page *d, uint32_t row)
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

static enum tide_err add_cells(struct tide_page *d, uint32_t node)
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
            (struct tide_page_cell){node, kind, {base[kind], now[kind]}};
    }
    return TIDE_OK;
}

static int64_t cell_node(struct tide_page *d, uint32_t row)
{
    return d->cells[row].node;
}

static int64_t cell_kind(struct tide_page *d, uint32_t row)
{
    return d->cells[row].kind;
}

static void cell_counts(const struct tide_page *d, uint32_t row,
                        struct tide_r_counts *out)
{
    const uint32_t stack = tideR_page_side_of(d, d->cells[row].stacks);
    if (stack != TIDE_R_NONE)
        tideR_model_stack_counts(d->model, stack, out);
}

enum tide_err tideR_page_tree(struct tide_page *d)
{
    const uint32_t n = d->diff->n_nodes;
    tideR_json_open(d->json, "nodes", '{');
    tideR_page_column(d, "in", n, node_in);
    tideR_page_column(d, "parent", n, node_parent);
    tideR_page_column(d, "func", n, node_func);
    tideR_page_column(d, "line", n, node_line);
    tideR_json_close(d->json, '}');
    for (uint32_t i = 0; i < n; i++)
        TIDE_TRY(add_cells(d, i));
    tideR_json_open(d->json, "cells", '{');
    tideR_page_column(d, "node", d->n_cells, cell_node);
    tideR_page_column(d, "kind", d->n_cells, cell_kind);
    tideR_page_both(d, d->n_cells, cell_counts, NULL);
    tideR_json_close(d->json, '}');
    return TIDE_OK;
}
