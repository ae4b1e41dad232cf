/*
** speedscope.c: the JSON of speedscope.app, its file format of 2021 on.
**
**   { "$schema", "exporter": "tidemark V", "name": the command,
**     "activeProfileIndex": 0,
**     "shared": {"frames": [{"name", "file"?, "line"?}]},
**     "profiles": [{"type": "sampled", "name", "unit": "bytes" | "none",
**                   "startValue": 0, "endValue": the sum,
**                   "samples": [[index in frames, callers first]],
**                   "weights": [above 0]}] }
**
** Profiles are allocated bytes, live bytes, bytes at the peak, allocated
** blocks, blocks held; each has the stacks that have some of it.
*/
#include <stdlib.h>
#include <string.h>

#include "export_impl.h"

struct measure {
    const char *name;
    const char *unit;
    uint64_t (*value)(const struct tide_r_counts *counts);
};

static uint64_t allocated(const struct tide_r_counts *c)
{
    return c->alloc_bytes;
}

static uint64_t live(const struct tide_r_counts *c)
{
    return c->live_bytes;
}

static uint64_t at_peak(const struct tide_r_counts *c)
{
    return c->peak_bytes;
}

static uint64_t blocks(const struct tide_r_counts *c)
{
    return c->alloc_blocks;
}

static uint64_t live_blocks(const struct tide_r_counts *c)
{
    return c->live_blocks;
}

static const struct measure measures[] = {
    {"allocated", "bytes", allocated},    {"live", "bytes", live},
    {"at the peak", "bytes", at_peak},    {"blocks allocated", "none", blocks},
    {"blocks live", "none", live_blocks},
};
#define N_MEASURES (sizeof measures / sizeof measures[0])

/* Frame 0 of the file is the model's frame 0: the root. */
static void put_frames(struct tide_r_json *json, const struct tide_model *model)
{
    tideR_json_open(json, "shared", '{');
    tideR_json_open(json, "frames", '[');
    for (uint32_t i = 0; i < model->n_frames; i++) {
        const struct tide_r_frame *frame = &model->frames[i];
        const struct tide_r_func *func = &model->funcs[frame->func];
        size_t n;
        const char *text = tideR_model_text(model, func->name, &n);
        tideR_json_break(json);
        tideR_json_open(json, NULL, '{');
        tideR_json_text(json, "name", text, n);
        text = tideR_model_text(model, func->source, &n);
        if (n > 0)
            tideR_json_text(json, "file", text, n);
        if (frame->line > 0)
            tideR_json_int(json, "line", frame->line);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
    tideR_json_close(json, '}');
}

static uint64_t value_of(const struct tide_model *model,
                         const struct measure *measure, uint32_t node)
{
    struct tide_r_counts counts;
    tideR_node_counts(model, node, &counts);
    return measure->value(&counts);
}

static void put_sample(struct tide_r_json *json, const struct tide_model *model,
                       uint32_t node, uint32_t *path)
{
    const uint32_t n = tideR_path_of(model, node, path);
    tideR_json_break(json);
    tideR_json_open(json, NULL, '[');
    for (uint32_t k = 0; k < n; k++)
        tideR_json_int(json, NULL, model->nodes[path[k]].frame);
    tideR_json_close(json, ']');
}

static void put_profile(struct tide_r_json *json,
                        const struct tide_model *model,
                        const struct measure *measure, uint32_t *path)
{
    uint64_t sum = 0;
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    tideR_json_str(json, "type", "sampled");
    tideR_json_str(json, "name", measure->name);
    tideR_json_str(json, "unit", measure->unit);
    tideR_json_open(json, "samples", '[');
    for (uint32_t i = 0; i < model->n_nodes; i++)
        if (value_of(model, measure, i) > 0)
            put_sample(json, model, i, path);
    tideR_json_close(json, ']');
    tideR_json_open(json, "weights", '[');
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        const uint64_t value = value_of(model, measure, i);
        if (value > 0)
            tideR_json_int(json, NULL, (int64_t)value);
        sum += value;
    }
    tideR_json_close(json, ']');
    tideR_json_int(json, "startValue", 0);
    tideR_json_int(json, "endValue", (int64_t)sum);
    tideR_json_close(json, '}');
}

static void put_name(struct tide_r_json *json, const struct tide_model *model)
{
    char text[sizeof model->header->command];
    const size_t n = tideR_command_text(model, text);
    tideR_json_text(json, "name", text, n);
}

enum tide_err tideR_put_speedscope(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    uint32_t *path = tideR_path_or_null(model);
    TIDE_FAIL_IF(path == NULL, TIDE_ERR_NOMEM);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "$schema",
                   "https://www.speedscope.app/file-format-schema.json");
    tideR_json_str(&json, "exporter", "tidemark " TIDE_VERSION);
    put_name(&json, model);
    tideR_json_int(&json, "activeProfileIndex", 0);
    put_frames(&json, model);
    tideR_json_open(&json, "profiles", '[');
    for (size_t i = 0; i < N_MEASURES; i++)
        put_profile(&json, model, &measures[i], path);
    tideR_json_close(&json, ']');
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    free(path);
    return tideR_sink_finish(&sink);
}
