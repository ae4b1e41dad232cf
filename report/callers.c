/*
** callers.c: see callers.h.
**
** A node of the function whose path has no other above it is a call from
** outside; what it and the nodes below it allocated belongs to the frame of its
** parent.  A caller without a line (a C function, a coroutine) is shown with
** the name that it has.
*/
#include "callers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "grow.h"
#include "json_impl.h"
#include "units.h"

struct search {
    const struct tide_model *model;
    struct tide_r_callers *out;
    struct tide_mem mem;
    struct tide_hashtab rows; /* caller's frame and callee to row + 1 */
    uint32_t max_rows;
    uint32_t *inside; /* by node: row of the call that it is in, + 1 */
};

static bool is_called(const struct tide_model *model, uint32_t func,
                      const char *name)
{
    const struct tide_r_func *f = &model->funcs[func];
    return f->what != TIDE_P_ROOT &&
           (strcmp(tideR_strtab_text(&model->strings, f->name), name) == 0 ||
            (f->sort == TIDE_R_TARGET_NAMED &&
             strcmp(tideR_strtab_text(&model->strings, f->target_name), name) ==
                 0));
}

/* The row of a call, made if it is new. */
static enum tide_err row_of(struct search *search, uint32_t frame,
                            uint32_t callee, uint32_t *out)
{
    struct tide_r_callers *callers = search->out;
    uint64_t *row = tideC_hashtab_put(&search->rows, &search->mem,
                                      ((uint64_t)frame << 32 | callee) + 1);
    TIDE_FAIL_IF(row == NULL, TIDE_ERR_NOMEM);
    if (*row == 0) {
        TIDE_TRY(tideR_grow(&callers->rows, &search->max_rows,
                            (uint64_t)callers->n + 1, sizeof *callers->rows));
        callers->rows[callers->n] =
            (struct tide_r_caller){.frame = frame, .callee = callee};
        *row = ++callers->n;
    }
    *out = (uint32_t)*row;
    return TIDE_OK;
}

/* Calls of the function, outermost first: parents come before children. */
static enum tide_err mark_calls(struct search *search, const bool *is_wanted)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        const struct tide_r_node *node = &model->nodes[i];
        const uint32_t func = model->frames[node->frame].func;
        search->inside[i] = search->inside[node->parent];
        if (search->inside[i] != 0 || !is_wanted[func])
            continue;
        TIDE_TRY(row_of(search, model->nodes[node->parent].frame, func,
                        &search->inside[i]));
    }
    return TIDE_OK;
}

static void sum_bytes(struct search *search)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        const uint32_t row = search->inside[stack->node];
        struct tide_r_counts counts;
        if (stack->kind == TIDE_R_KIND_MORE || row == 0)
            continue;
        tideR_model_stack_counts(model, i, &counts);
        struct tide_r_caller *caller = &search->out->rows[row - 1];
        caller->bytes += counts.alloc_bytes;
        caller->blocks += counts.alloc_blocks;
        caller->live_bytes += counts.live_bytes;
    }
}

static void sum_calls(struct search *search)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        const struct tide_r_node *node = &model->nodes[i];
        const uint32_t row = search->inside[i];
        if (row == 0 || search->inside[node->parent] != 0)
            continue;
        struct tide_r_caller *caller = &search->out->rows[row - 1];
        caller->calls += node->calls;
        if (node->max_call_bytes > caller->max_call_bytes)
            caller->max_call_bytes = node->max_call_bytes;
    }
}

static int compare_callers(const void *pa, const void *pb)
{
    const struct tide_r_caller *a = pa;
    const struct tide_r_caller *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->frame < b->frame ? -1 : a->frame > b->frame;
}

static enum tide_err search_all(struct search *search, const char *name,
                                bool *is_wanted)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = 0; i < model->n_funcs; i++) {
        is_wanted[i] = is_called(model, i, name);
        search->out->n_funcs += is_wanted[i];
    }
    TIDE_TRY(mark_calls(search, is_wanted));
    sum_bytes(search);
    sum_calls(search);
    if (search->out->n > 0)
        qsort(search->out->rows, search->out->n, sizeof *search->out->rows,
              compare_callers);
    return TIDE_OK;
}

enum tide_err tideR_callers_find(const struct tide_model *model,
                                 const char *name, struct tide_r_callers *out)
{
    struct search search = {
        .model = model,
        .out = out,
        .inside = calloc(model->n_nodes, sizeof *search.inside),
    };
    bool *is_wanted = calloc(model->n_funcs, sizeof *is_wanted);
    *out = (struct tide_r_callers){0};
    enum tide_err err = TIDE_ERR_NOMEM;
    if (search.inside != NULL && is_wanted != NULL)
        err = search_all(&search, name, is_wanted);
    free(search.inside);
    free(is_wanted);
    tideC_hashtab_close(&search.rows, &search.mem);
    tideC_mem_close(&search.mem);
    if (err != TIDE_OK)
        tideR_callers_close(out);
    return err;
}

void tideR_callers_close(struct tide_r_callers *callers)
{
    free(callers->rows);
    *callers = (struct tide_r_callers){0};
}

/* ---- shown ---- */

static void put_caller(struct tide_r_sink *sink, const struct tide_model *model,
                       const struct tide_r_caller *row)
{
    char bytes[TIDE_R_UNIT_MAX];
    char share[TIDE_R_UNIT_MAX];
    char calls[TIDE_R_UNIT_MAX];
    char each[TIDE_R_UNIT_MAX];
    char worst[TIDE_R_UNIT_MAX];
    char live[TIDE_R_UNIT_MAX];
    char label[2 * TIDE_P_STRING_MAX + 32];
    const uint64_t per_call = row->calls > 0 ? row->bytes / row->calls : 0;
    tideR_printf(sink, "%6s  %8s  %9s  %8s  %8s  %8s  ",
                 tideR_share_text((int64_t)row->bytes,
                                  (int64_t)model->totals.alloc_bytes, share),
                 tideR_bytes_text((int64_t)row->bytes, bytes),
                 tideR_count_text((int64_t)row->calls, calls),
                 tideR_bytes_text((int64_t)per_call, each),
                 tideR_bytes_text((int64_t)row->max_call_bytes, worst),
                 tideR_bytes_text((int64_t)row->live_bytes, live));
    const struct tide_r_frame *frame = &model->frames[row->frame];
    const char *text = label;
    size_t n = tideR_frame_label(model, row->frame, label, sizeof label);
    if (frame->line == 0) /* not Lua: it has no line to show */
        text = tideR_model_text(model, model->funcs[frame->func].name, &n);
    tideR_put_harmless(sink, text, n);
    tideR_puts(sink, "\n");
}

static void put_text(struct tide_r_sink *sink, const struct tide_model *model,
                     const char *name, const struct tide_r_callers *callers,
                     uint32_t n)
{
    tideR_puts(sink, "callers of ");
    tideR_put_harmless(sink, name, strlen(name));
    tideR_puts(sink, " by what it allocated, with what it called\n");
    tideR_printf(sink, "%6s  %8s  %9s  %8s  %8s  %8s  %s\n", "share", "total",
                 "calls", "B/call", "peak", "live", "called from");
    for (uint32_t i = 0; i < n; i++)
        put_caller(sink, model, &callers->rows[i]);
    if (n < callers->n)
        tideR_printf(sink, "\n%" PRIu32 " of %" PRIu32 " callers shown\n", n,
                     callers->n);
}

static void put_row(struct tide_r_json *json, const struct tide_model *model,
                    const struct tide_r_caller *row)
{
    const struct tide_r_frame *frame = &model->frames[row->frame];
    const struct tide_r_func *func = &model->funcs[frame->func];
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "source", model, func->source);
    tideR_json_int(json, "line", frame->line);
    tideR_json_string(json, "function", model, func->name);
    tideR_json_int(json, "alloc_bytes", (int64_t)row->bytes);
    tideR_json_int(json, "alloc_blocks", (int64_t)row->blocks);
    tideR_json_int(json, "calls", (int64_t)row->calls);
    tideR_json_int(json, "max_call_bytes", (int64_t)row->max_call_bytes);
    tideR_json_int(json, "live_bytes", (int64_t)row->live_bytes);
    tideR_json_close(json, '}');
}

static void put_json(struct tide_r_sink *sink, const struct tide_model *model,
                     const char *name, const struct tide_r_callers *callers,
                     uint32_t n)
{
    struct tide_r_json json = tideR_json_on(sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-callers");
    tideR_json_int(&json, "version", 1);
    tideR_json_str(&json, "of", name);
    tideR_json_open(&json, "callers", '[');
    for (uint32_t i = 0; i < n; i++)
        put_row(&json, model, &callers->rows[i]);
    tideR_json_close(&json, ']');
    tideR_json_close(&json, '}');
    tideR_puts(sink, "\n");
}

enum tide_err tideR_callers_show(const struct tide_model *model,
                                 const char *name, uint32_t top, bool is_json,
                                 FILE *out)
{
    struct tide_r_callers callers;
    struct tide_r_sink sink = tideR_sink(out);
    TIDE_TRY(tideR_callers_find(model, name, &callers));
    enum tide_err err = TIDE_ERR_STATE;
    if (callers.n > 0) {
        const uint32_t n = top > 0 && top < callers.n ? top : callers.n;
        if (is_json)
            put_json(&sink, model, name, &callers, n);
        else
            put_text(&sink, model, name, &callers, n);
        err = tideR_sink_finish(&sink);
    }
    tideR_callers_close(&callers);
    return err;
}
