/*
** pagedata.c: the data of the page as JSON.
**
**   { "format": "tidemark-page", "version": 1, "kinds": [name..],
**     "runs": [ run, base? ],
**     "funcs": { "in", "name", "source", "group", "line", "what",
**                "now": {counts, "total", "calls", "worst", ages}, "base" },
**     "lines": { "in", "source", "line", "func",
**                "now": {counts, "calls", "worst", ages}, "base": {..} },
**     "targets": { "in", "group", "name", "source", "line", "what",
**                  "now": {counts, "calls", "worst", ages}, "base": {..} },
**     "nodes": { "in", "parent", "func", "line" },
**     "cells": { "node", "kind", "now": {..}, "base": {..} },
**     "sources": [ { "source", "text" } ], "strings": [ text.. ] }
**
** Lists stand column by column, texts are numbers in "strings"; "in": 1 the new
** run, 2 the base, 3 both; ages: "once", "twice", "older", of what was freed.
*/
#include <stdlib.h>

#include "page_impl.h"

#define PAGE_VERSION 1
#define SOURCES_MAX  ((size_t)24 * 1048576) /* bytes of sources in a page */

/* Texts of the sources that lines of the new run are in, each once. */
static enum tide_err put_sources(struct tide_page *d)
{
    const struct tide_model *now = d->diff->now;
    struct tide_srctext *texts = d->look->texts.now_or_null;
    size_t left = SOURCES_MAX;
    bool *is_done = calloc(now->strings.n, sizeof *is_done);
    TIDE_FAIL_IF(is_done == NULL, TIDE_ERR_NOMEM);
    tideR_json_open(d->json, "sources", '[');
    for (uint32_t i = 1; i < now->n_lines; i++) {
        const uint32_t source = now->lines[i].source;
        size_t n = 0;
        if (is_done[source] || !d->look->has_sources || texts == NULL)
            continue;
        is_done[source] = true;
        const char *text = tideR_srctext_whole(
            texts, tideR_strtab_text(&now->strings, source), &n);
        if (text == NULL || n > left)
            continue;
        left -= n;
        tideR_json_open(d->json, NULL, '{');
        tideR_json_int(d->json, "source", tideR_page_string(d, now, source));
        tideR_json_text(d->json, "text", text, n);
        tideR_json_close(d->json, '}');
    }
    tideR_json_close(d->json, ']');
    free(is_done);
    return TIDE_OK;
}

static void put_strings(struct tide_page *d)
{
    tideR_json_open(d->json, "strings", '[');
    for (uint32_t i = 0; i < d->strings.n; i++)
        tideR_json_text(d->json, NULL, tideR_strtab_text(&d->strings, i),
                        d->strings.strs[i].length);
    tideR_json_close(d->json, ']');
}

static enum tide_err put_all(struct tide_page *d)
{
    tideR_json_open(d->json, NULL, '{');
    tideR_json_str(d->json, "format", "tidemark-page");
    tideR_json_int(d->json, "version", PAGE_VERSION);
    tideR_json_bool(d->json, "has_texts", d->diff->has_texts);
    tideR_json_open(d->json, "kinds", '[');
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++)
        tideR_json_str(d->json, NULL, tideC_kind_name(i));
    tideR_json_close(d->json, ']');
    tideR_page_runs(d);
    TIDE_TRY(tideR_page_marks(d->json, d->diff->now));
    tideR_page_funcs(d);
    tideR_page_lines(d);
    tideR_page_targets(d);
    TIDE_TRY(tideR_page_tree(d));
    TIDE_TRY(put_sources(d));
    put_strings(d);
    tideR_json_close(d->json, '}');
    return d->err;
}

enum tide_err tideR_page_data(const struct tide_diff *diff,
                              const struct tide_r_page_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    struct tide_page d = {.diff = diff, .look = look, .json = &json};
    enum tide_err err = tideR_strtab_open(&d.strings);
    tideR_page_side(&d, false);
    if (err == TIDE_OK)
        err = put_all(&d);
    tideR_strtab_close(&d.strings);
    free(d.cells);
    TIDE_TRY(err);
    return tideR_sink_finish(&sink);
}
