/*
** gcprof.c: rows as gcprofiler saves them, a profiler of garbage for Lua.
**
**   [ [group, target, source, kb, calls, peak], ... ]
**
** A row is a target: a function that was named and what it called, less what
** targets below it took; else a function and what it allocated itself.  So
** rows add up.  kb is that in KiB, calls are those that allocated, peak is
** what the worst of them and all that it called allocated, in KiB.  source is
** "file:line", of a C function its library.  What allocated most comes first.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "export_impl.h"
#include "json_impl.h"

#define SOURCE_MAX (TIDE_P_STRING_MAX + 16)

/* What a row of the file is made of. */
struct saved_row {
    uint32_t group; /* strings */
    uint32_t name;
    uint32_t source;
    uint32_t line;
    uint64_t bytes;
    uint64_t calls;
    uint64_t worst;
};

static void put_source(struct tide_r_json *json, const struct tide_model *model,
                       const struct saved_row *row)
{
    char text[SOURCE_MAX];
    size_t n;
    const char *source = tideR_model_text(model, row->source, &n);
    if (row->line == 0) {
        tideR_json_text(json, NULL, source, n);
        return;
    }
    const int bytes =
        snprintf(text, sizeof text, "%s:%" PRIu32, source, row->line);
    tideR_json_text(json, NULL, text, (size_t)bytes);
}

static void put_row(struct tide_r_json *json, const struct tide_model *model,
                    const struct saved_row *row)
{
    tideR_json_break(json);
    tideR_json_open(json, NULL, '[');
    tideR_json_string(json, NULL, model, row->group);
    tideR_json_string(json, NULL, model, row->name);
    put_source(json, model, row);
    tideR_json_real(json, NULL, (double)row->bytes / 1024);
    tideR_json_int(json, NULL, (int64_t)row->calls);
    tideR_json_real(json, NULL, (double)row->worst / 1024);
    tideR_json_close(json, ']');
}

static uint32_t add_targets(const struct tide_model *model,
                            struct saved_row *rows)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < model->n_targets; i++) {
        const struct tide_r_target *t = &model->targets[i];
        rows[n++] = (struct saved_row){
            .group = model->groups[t->group].name,
            .name = t->name,
            .source = t->source,
            .line = t->linedefined,
            .bytes = t->counts.alloc_bytes,
            .calls = t->calls,
            .worst = t->max_call_bytes,
        };
    }
    return n;
}

/* Functions that are no targets: what is theirs alone. */
static uint32_t add_functions(const struct tide_model *model,
                              const uint64_t *rest, struct saved_row *rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_funcs; i++) {
        const struct tide_r_func *f = &model->funcs[i];
        if (f->target != 0 || (rest[i] == 0 && f->calls == 0))
            continue;
        rows[n++] = (struct saved_row){
            .group = model->groups[f->group].name,
            .name = f->name,
            .source = f->source,
            .line = f->linedefined,
            .bytes = rest[i],
            .calls = f->calls,
            .worst = f->max_call_bytes,
        };
    }
    return n;
}

static void sum_rest(const struct tide_model *model, uint64_t *rest)
{
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        struct tide_r_counts counts;
        if (model->nodes[i].target != 0)
            continue;
        tideR_node_counts(model, i, &counts);
        rest[model->frames[model->nodes[i].frame].func] += counts.alloc_bytes;
    }
}

/* By bytes; those with equal ones by name and place, as strings came. */
static int compare_rows(const void *pa, const void *pb)
{
    const struct saved_row *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    if (a->name != b->name)
        return a->name < b->name ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static void put_rows(struct tide_r_sink *sink, const struct tide_model *model,
                     const struct saved_row *rows, uint32_t n)
{
    struct tide_r_json json = tideR_json_on(sink);
    tideR_json_open(&json, NULL, '[');
    for (uint32_t i = 0; i < n; i++)
        put_row(&json, model, &rows[i]);
    tideR_json_close(&json, ']');
    tideR_puts(sink, "\n");
}

enum tide_err tideR_put_gcprof(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    uint64_t *rest = calloc(model->n_funcs, sizeof *rest);
    struct saved_row *rows =
        calloc((size_t)model->n_funcs + model->n_targets, sizeof *rows);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (rest != NULL && rows != NULL) {
        sum_rest(model, rest);
        uint32_t n = add_targets(model, rows);
        n += add_functions(model, rest, rows + n);
        qsort(rows, n, sizeof *rows, compare_rows);
        put_rows(&sink, model, rows, n);
        err = tideR_sink_finish(&sink);
    }
    free(rest);
    free(rows);
    return err;
}
