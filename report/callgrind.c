/*
** callgrind.c: the format of callgrind, for callgrind_annotate and KCachegrind:
** what each line of a function allocates, and what its calls do.
**
**   # callgrind format
**   version: 1 / creator: / pid: / cmd: / positions: line / event: NAME : text
**   events: Bytes Blocks Live
**   fl=FILE / fn=NAME            a function; then
**     LINE bytes blocks live     of a line, by itself
**     cfi=FILE / cfn=NAME        a function that is called on LINE
**     calls=N LINE-OF-CALLEE
**     LINE bytes blocks live     by it and below
**   totals: bytes blocks live
**
** Calls of a function by itself are no arcs: their costs are its own already.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export_impl.h"
#include "model_impl.h"

struct cost {
    uint64_t bytes;
    uint64_t blocks;
    uint64_t live;
};

/* Calls from a line to a function; callee == caller's: the line's own cost. */
struct arc {
    uint32_t caller; /* function */
    uint32_t line;
    uint32_t callee; /* function */
    uint64_t calls;
    struct cost cost;
};

static void add_cost(struct cost *a, const struct cost *b)
{
    a->bytes += b->bytes;
    a->blocks += b->blocks;
    a->live += b->live;
}

static const struct tide_r_frame *frame_of(const struct tide_model *model,
                                           uint32_t node)
{
    return &model->frames[model->nodes[node].frame];
}

/* By node: what it and all below it have. */
static struct cost *costs_below_or_null(const struct tide_model *model)
{
    struct cost *below = calloc(model->n_nodes, sizeof *below);
    if (below == NULL)
        return NULL;
    for (uint32_t i = model->n_nodes; i-- > 0;) {
        struct tide_r_counts c;
        tideR_node_counts(model, i, &c);
        add_cost(&below[i],
                 &(struct cost){c.alloc_bytes, c.alloc_blocks, c.live_bytes});
        if (i > 0)
            add_cost(&below[model->nodes[i].parent], &below[i]);
    }
    return below;
}

/* Two for each node at most: its own cost, and the call that it is. */
static size_t fill_arcs(const struct tide_model *model,
                        const struct cost *below, struct arc *arcs)
{
    size_t n = 0;
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const struct tide_r_frame *frame = frame_of(model, i);
        struct tide_r_counts c;
        tideR_node_counts(model, i, &c);
        arcs[n++] = (struct arc){
            .caller = frame->func,
            .line = frame->line,
            .callee = frame->func,
            .cost = {c.alloc_bytes, c.alloc_blocks, c.live_bytes},
        };
        const struct tide_r_frame *from =
            frame_of(model, model->nodes[i].parent);
        if (i > 0 && from->func != frame->func)
            arcs[n++] = (struct arc){
                .caller = from->func,
                .line = from->line,
                .callee = frame->func,
                .calls = model->nodes[i].calls,
                .cost = below[i],
            };
    }
    return n;
}

static int compare_arcs(const void *pa, const void *pb)
{
    const struct arc *a = pa, *b = pb;
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static bool is_empty(const struct arc *arc)
{
    return (arc->calls | arc->cost.bytes | arc->cost.blocks | arc->cost.live) ==
           0;
}

/* Sorts, and makes one of those that are equal.  Returns how many. */
static size_t join_arcs(struct arc *arcs, size_t n)
{
    size_t to = 0;
    qsort(arcs, n, sizeof *arcs, compare_arcs);
    for (size_t i = 0; i < n; i++) {
        if (is_empty(&arcs[i]))
            continue;
        if (to > 0 && compare_arcs(&arcs[to - 1], &arcs[i]) == 0) {
            arcs[to - 1].calls += arcs[i].calls;
            add_cost(&arcs[to - 1].cost, &arcs[i].cost);
        } else {
            arcs[to++] = arcs[i];
        }
    }
    return to;
}

/* "fl=FILE\nfn=NAME:LINE\n": a name alone may stand for several functions. */
static void put_func(struct tide_r_sink *sink, const struct tide_model *model,
                     uint32_t index, const char *file_key, const char *name_key)
{
    const struct tide_r_func *func = &model->funcs[index];
    size_t n;
    const char *text = tideR_model_text(model, func->source, &n);
    tideR_printf(sink, "%s=", file_key);
    tideR_put_harmless(sink, n > 0 ? text : "???", n > 0 ? n : 3);
    tideR_printf(sink, "\n%s=", name_key);
    text = tideR_model_text(model, func->name, &n);
    tideR_put_harmless(sink, text, n);
    if (func->linedefined > 0)
        tideR_printf(sink, ":%" PRIu32, func->linedefined);
    tideR_puts(sink, "\n");
}

static void put_cost(struct tide_r_sink *sink, uint32_t line,
                     const struct cost *cost)
{
    tideR_printf(sink, "%" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                 line, cost->bytes, cost->blocks, cost->live);
}

static void put_arcs(struct tide_r_sink *sink, const struct tide_model *model,
                     const struct arc *arcs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct arc *arc = &arcs[i];
        if (i == 0 || arc->caller != arcs[i - 1].caller) {
            tideR_puts(sink, "\n");
            put_func(sink, model, arc->caller, "fl", "fn");
        }
        if (arc->callee != arc->caller) {
            put_func(sink, model, arc->callee, "cfi", "cfn");
            tideR_printf(sink, "calls=%" PRIu64 " %" PRIu32 "\n", arc->calls,
                         model->funcs[arc->callee].linedefined);
        }
        put_cost(sink, arc->line, &arc->cost);
    }
}

static void put_head(struct tide_r_sink *sink, const struct tide_model *model)
{
    char text[sizeof model->header->command];
    const size_t n = tideR_command_text(model, text);
    tideR_puts(sink, "# callgrind format\nversion: 1\n"
                     "creator: tidemark " TIDE_VERSION "\n");
    tideR_printf(sink, "pid: %" PRIu32 "\ncmd: ", model->header->pid);
    tideR_put_harmless(sink, text, n);
    tideR_puts(sink, "\npart: 1\npositions: line\n"
                     "event: Bytes : bytes allocated\n"
                     "event: Blocks : blocks allocated\n"
                     "event: Live : bytes held at the end\n"
                     "events: Bytes Blocks Live\n");
}

enum tide_err tideR_put_callgrind(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct cost *below = costs_below_or_null(model);
    struct arc *arcs = calloc((size_t)model->n_nodes * 2, sizeof *arcs);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (below != NULL && arcs != NULL) {
        const size_t n = join_arcs(arcs, fill_arcs(model, below, arcs));
        put_head(&sink, model);
        put_arcs(&sink, model, arcs, n);
        tideR_printf(&sink, "\ntotals: %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
                     below[0].bytes, below[0].blocks, below[0].live);
        err = tideR_sink_finish(&sink);
    }
    free(below);
    free(arcs);
    return err;
}
