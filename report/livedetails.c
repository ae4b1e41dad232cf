/*
** livedetails.c: what is known of one row of the live table: its texts in
** full, every figure, and the stacks that its bytes came from.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "live_impl.h"
#include "model_impl.h"

/* A node with bytes of the row. */
struct place {
    uint32_t node;
    struct tide_r_counts counts;
};

/* The group that the bytes of a node belong to. */
static uint32_t charged_group(const struct tide_model *model, uint32_t node)
{
    const struct tide_r_target *target =
        &model->targets[model->nodes[node].target];
    return target->sort == TIDE_R_TARGET_REST
               ? tideR_model_func(model, node)->group
               : target->group;
}

static bool is_of_row(const struct tide_model *model, enum tide_r_by by,
                      const struct tide_r_live_row *row, uint32_t node)
{
    const struct tide_r_node *n = &model->nodes[node];
    if (by == TIDE_R_BY_TARGET && row->n_rows == 0)
        return n->target == row->index;
    if (by == TIDE_R_BY_GROUP || by == TIDE_R_BY_TARGET)
        return charged_group(model, node) == row->group;
    if (row->n_rows > 0)
        return tideR_model_func(model, node)->group == row->group;
    if (by == TIDE_R_BY_FUNCTION)
        return model->frames[n->frame].func == row->index;
    return n->lua_frame != TIDE_R_NONE &&
           model->frames[n->lua_frame].line_row == row->index;
}

static uint64_t weight_of(enum tide_r_metric metric,
                          const struct tide_r_counts *counts)
{
    return metric == TIDE_R_METRIC_LIVE ? counts->live_bytes
                                        : counts->alloc_bytes;
}

static int compare_places(const void *pa, const void *pb, void *ctx)
{
    const struct place *a = pa, *b = pb;
    const enum tide_r_metric metric = *(enum tide_r_metric *)ctx;
    const uint64_t x = weight_of(metric, &a->counts);
    const uint64_t y = weight_of(metric, &b->counts);
    if (x != y)
        return x > y ? -1 : 1;
    return a->node < b->node ? -1 : a->node > b->node;
}

static void sum_node(const struct tide_model *model, uint32_t node,
                     struct tide_r_counts *out)
{
    *out = (struct tide_r_counts){0};
    uint32_t i = model->nodes[node].first_stack;
    for (; i != TIDE_R_NONE; i = model->stacks[i].next) {
        struct tide_r_counts counts;
        tideR_model_stack_counts(model, i, &counts);
        tideR_counts_add(out, &counts);
    }
}

/* Returns how many; places has room for every node. */
static uint32_t find_places(const struct tide_model *model,
                            const struct tide_r_live_query *query,
                            const struct tide_r_live_row *row,
                            struct place *places)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        if (!is_of_row(model, query->by, row, i))
            continue;
        places[n].node = i;
        sum_node(model, i, &places[n].counts);
        n += !tideR_counts_are_zero(&places[n].counts);
    }
    return n;
}

/* ", table 62%, storage 38%" of what is weighed. */
static void put_kinds(struct tide_r_sink *sink, const struct tide_model *model,
                      enum tide_r_metric metric, const struct place *place)
{
    char share[TIDE_R_UNIT_MAX];
    uint32_t i = model->nodes[place->node].first_stack;
    for (; i != TIDE_R_NONE; i = model->stacks[i].next) {
        struct tide_r_counts counts;
        tideR_model_stack_counts(model, i, &counts);
        if (weight_of(metric, &counts) == 0)
            continue;
        tideR_printf(sink, ", %s %s", tideC_kind_name(model->stacks[i].kind),
                     tideR_share_text(
                         (int64_t)weight_of(metric, &counts),
                         (int64_t)weight_of(metric, &place->counts), share));
    }
}

static void put_frame(struct tide_r_sink *sink, const struct tide_model *model,
                      uint32_t node)
{
    const struct tide_r_frame *frame = &model->frames[model->nodes[node].frame];
    const struct tide_r_func *func = &model->funcs[frame->func];
    size_t n;
    tideR_puts(sink, "      ");
    const char *name = tideR_model_text(model, func->name, &n);
    tideR_put_harmless(sink, name, n);
    const char *source = tideR_model_text(model, func->source, &n);
    if (n > 0) {
        tideR_puts(sink, "  ");
        tideR_put_harmless(sink, source, n);
        if (frame->line > 0)
            tideR_printf(sink, ":%" PRIu32, frame->line);
    }
    tideR_puts(sink, "\n");
}

static void put_place(struct tide_r_sink *sink, const struct tide_model *model,
                      const struct tide_r_live_query *query,
                      const struct tide_r_live_row *row,
                      const struct place *place)
{
    char text[3][TIDE_R_UNIT_MAX];
    const bool is_live = query->metric == TIDE_R_METRIC_LIVE;
    const struct tide_r_counts *c = &place->counts;
    tideR_printf(
        sink, "\n%6s  %s in %s blocks%s",
        tideR_share_text((int64_t)weight_of(query->metric, c),
                         (int64_t)weight_of(query->metric, &row->counts),
                         text[0]),
        tideR_bytes_text((int64_t)weight_of(query->metric, c), text[1]),
        tideR_count_text((int64_t)(is_live ? c->live_blocks : c->alloc_blocks),
                         text[2]),
        is_live ? " live" : "");
    put_kinds(sink, model, query->metric, place);
    tideR_puts(sink, "\n");
    for (uint32_t i = place->node; i != 0; i = model->nodes[i].parent)
        put_frame(sink, model, i);
    if (place->node == 0)
        put_frame(sink, model, 0);
}

static void put_figures(struct tide_r_sink *sink,
                        const struct tide_r_live_query *query,
                        const struct tide_r_live_rows *rows,
                        const struct tide_r_live_row *row)
{
    enum tide_r_column columns[TIDE_R_COL_COUNT_];
    char text[TIDE_R_UNIT_MAX];
    const unsigned n = tideR_columns_of(query->by, query->metric, columns);
    for (unsigned i = 0; i < n; i++) {
        tideR_live_text(query, rows, row, columns[i], text);
        if (text[0] != '\0')
            tideR_printf(sink, "%12s  %s\n", text,
                         tideR_column_info(columns[i])->help);
    }
}

static void put_labels(struct tide_r_sink *sink, const struct tide_model *model,
                       const struct tide_r_live_query *query,
                       const struct tide_r_live_row *row)
{
    struct tide_r_live_labels labels;
    size_t n;
    tideR_live_labels(model, query->by, row, &labels);
    tideR_put_harmless(sink, labels.first, strlen(labels.first));
    if (labels.second[0] != '\0') {
        tideR_puts(sink, "  ");
        tideR_put_harmless(sink, labels.second, strlen(labels.second));
    }
    const char *group =
        tideR_model_text(model, model->groups[row->group].name, &n);
    tideR_puts(sink, "\ngroup ");
    tideR_put_harmless(sink, group, n);
    tideR_puts(sink, "\n\n");
}

enum tide_err tideR_live_details(const struct tide_model *model,
                                 const struct tide_r_live_query *query,
                                 const struct tide_r_live_rows *rows,
                                 const struct tide_r_live_row *row,
                                 uint32_t top, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    enum tide_r_metric metric = query->metric;
    struct place *places = calloc(model->n_nodes, sizeof *places);
    TIDE_FAIL_IF(places == NULL, TIDE_ERR_NOMEM);
    const uint32_t n = find_places(model, query, row, places);
    qsort_r(places, n, sizeof *places, compare_places, &metric);
    put_labels(&sink, model, query, row);
    put_figures(&sink, query, rows, row);
    if (n == 0)
        tideR_puts(&sink, "\nIt allocates nothing itself.\n");
    for (uint32_t i = 0; i < n && i < top; i++)
        put_place(&sink, model, query, row, &places[i]);
    if (n > top)
        tideR_printf(&sink, "\n%" PRIu32 " more stacks\n", n - top);
    free(places);
    return tideR_sink_finish(&sink);
}
