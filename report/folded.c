/*
** folded.c: folded stacks, which flamegraph.pl, inferno and speedscope read.
**
**   stack ::= frame (";" frame)* " " bytes "\n"      callers first
**   frame ::= name [" " source [":" line]]
**
** bytes is a whole number above 0.  A name has no ";", no control characters
** and nothing that is not UTF-8: those become "_".  Equal lines do not occur
** but where names differ in such characters alone; readers add them up.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export_impl.h"

static void put_text(struct tide_r_sink *sink, const char *text, size_t n)
{
    while (n > 0) {
        uint32_t cp;
        const size_t bytes = tideR_utf8_next(text, n, &cp);
        const bool is_bad = cp == ';' || cp < 0x20 || cp == 0x7F ||
                            (cp >= 0x80 && cp < 0xA0) || cp == 0xFFFD;
        tideR_put(sink, is_bad ? "_" : text, is_bad ? 1 : bytes);
        text += bytes;
        n -= bytes;
    }
}

static void put_frame(struct tide_r_sink *sink, const struct tide_model *model,
                      uint32_t node)
{
    const struct tide_r_frame *frame = &model->frames[model->nodes[node].frame];
    const struct tide_r_func *func = &model->funcs[frame->func];
    size_t n;
    const char *text = tideR_model_text(model, func->name, &n);
    put_text(sink, text, n);
    text = tideR_model_text(model, func->source, &n);
    if (n == 0)
        return;
    tideR_puts(sink, " ");
    put_text(sink, text, n);
    if (frame->line > 0)
        tideR_printf(sink, ":%" PRIu32, frame->line);
}

static enum tide_err put_stacks(const struct tide_model *model, bool is_live,
                                FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    uint32_t *path = tideR_path_or_null(model);
    TIDE_FAIL_IF(path == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < model->n_nodes; i++) {
        struct tide_r_counts counts;
        tideR_node_counts(model, i, &counts);
        const uint64_t bytes = is_live ? counts.live_bytes : counts.alloc_bytes;
        if (bytes == 0)
            continue;
        const uint32_t n = tideR_path_of(model, i, path);
        for (uint32_t k = 0; k < n; k++) {
            if (k > 0)
                tideR_puts(&sink, ";");
            put_frame(&sink, model, path[k]);
        }
        tideR_printf(&sink, " %" PRIu64 "\n", bytes);
    }
    free(path);
    return tideR_sink_finish(&sink);
}

enum tide_err tideR_put_folded(const struct tide_model *model, FILE *out)
{
    return put_stacks(model, false, out);
}

enum tide_err tideR_put_folded_live(const struct tide_model *model, FILE *out)
{
    return put_stacks(model, true, out);
}
