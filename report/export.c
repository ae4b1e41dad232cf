/*
** export.c: the table of formats, and walks that they share.
*/
#include <stdlib.h>
#include <string.h>

#include "export_impl.h"
#include "model_impl.h"

static const struct tide_r_format formats[] = {
    {"folded", "stacks in one line each, with allocated bytes: flamegraph.pl",
     tideR_put_folded},
    {"folded-live", "the same with the bytes that are live",
     tideR_put_folded_live},
    {"speedscope", "JSON for speedscope.app: allocated, live, peak, blocks",
     tideR_put_speedscope},
    {"callgrind", "what lines and calls allocate: KCachegrind",
     tideR_put_callgrind},
    {"gcprof", "JSON rows [group, target, source, kb, calls, peak]",
     tideR_put_gcprof},
    {"openmetrics", "the sums, as text that Prometheus reads",
     tideR_put_openmetrics},
    {NULL, NULL, NULL},
};

const struct tide_r_format *tideR_formats(void)
{
    return formats;
}

const struct tide_r_format *tideR_format_or_null(const char *name)
{
    for (const struct tide_r_format *f = formats; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

void tideR_node_counts(const struct tide_model *model, uint32_t node,
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

static uint32_t depth_of(const struct tide_model *model, uint32_t node)
{
    uint32_t n = 0;
    for (; node != 0; node = model->nodes[node].parent)
        n++;
    return n;
}

uint32_t *tideR_path_or_null(const struct tide_model *model)
{
    uint32_t most = 1;
    uint32_t *depths = calloc(model->n_nodes, sizeof *depths);
    if (depths == NULL)
        return NULL;
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        depths[i] = depths[model->nodes[i].parent] + 1;
        if (model->nodes[i].first_stack != TIDE_R_NONE && depths[i] > most)
            most = depths[i];
    }
    free(depths);
    return calloc(most, sizeof *depths);
}

uint32_t tideR_path_of(const struct tide_model *model, uint32_t node,
                       uint32_t *path)
{
    if (node == 0) {
        path[0] = 0;
        return 1;
    }
    const uint32_t n = depth_of(model, node);
    for (uint32_t i = n; i > 0; node = model->nodes[node].parent)
        path[--i] = node;
    return n;
}
