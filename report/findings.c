/*
** findings.c: the list of findings: how they are added and put in order, and
** those about the heap as a whole.
*/
#include "findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

struct tide_r_finding *tideR_finding(struct tide_model *model, const char *kind,
                                     uint32_t line_row, uint64_t bytes,
                                     double weight, const char *fmt, ...)
{
    const uint32_t room = strcmp(kind, "note") == 0
                              ? TIDE_R_FINDINGS_MAX
                              : TIDE_R_FINDINGS_MAX - TIDE_R_NOTES_MAX;
    if (model->n_findings >= room)
        return NULL;
    struct tide_r_finding *finding = &model->findings[model->n_findings++];
    *finding = (struct tide_r_finding){
        .kind = kind, .line_row = line_row, .bytes = bytes, .weight = weight};
    va_list args;
    va_start(args, fmt);
    vsnprintf(finding->text, sizeof finding->text, fmt, args);
    va_end(args);
    return finding;
}

void tideR_fact(struct tide_r_finding *finding, const char *name, double value)
{
    if (finding == NULL || finding->n_facts >= TIDE_R_FACTS_MAX)
        return;
    finding->facts[finding->n_facts++] = (struct tide_r_fact){name, value};
}

const char *tideR_place(const struct tide_model *model, uint32_t line_row,
                        char out[TIDE_R_PLACE_MAX])
{
    const struct tide_r_line *line = &model->lines[line_row];
    const struct tide_r_func *func = tideR_line_func(model, line);
    if (line_row == TIDE_R_NONE)
        snprintf(out, TIDE_R_PLACE_MAX, "code without a line");
    else
        snprintf(out, TIDE_R_PLACE_MAX, "%.80s:%u (%.50s)",
                 tideR_strtab_text(&model->strings, line->source),
                 (unsigned)line->line,
                 tideR_strtab_text(&model->strings, func->name));
    return out;
}

/* What stood in the heap when it was much higher than ever after. */
static void find_peak(struct tide_model *model)
{
    const uint64_t peak = model->totals.peak_bytes;
    const uint64_t live = model->totals.live_bytes;
    uint32_t best = TIDE_R_NONE;
    if (peak < 4 * MIB || peak / 3 < live || tideR_is_left_stopped(model))
        return;
    for (uint32_t i = 1; i < model->n_lines; i++)
        if (best == TIDE_R_NONE || model->lines[i].counts.peak_bytes >
                                       model->lines[best].counts.peak_bytes)
            best = i;
    if (best == TIDE_R_NONE)
        return;
    const uint64_t bytes = model->lines[best].counts.peak_bytes;
    if (bytes < peak / 4)
        return; /* many lines: no single cause */
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", best, bytes, (double)bytes / 2,
        "the heap once stood at %s and holds %s at the end: at the highest "
        "point %s of it had been made at %s; make less of it at a time, or "
        "let go of it earlier",
        tideR_bytes_text((int64_t)peak, a), tideR_bytes_text((int64_t)live, b),
        tideR_share_text((int64_t)bytes, (int64_t)peak, c),
        tideR_place(model, best, place));
    tideR_fact(finding, "peak_bytes", (double)peak);
    tideR_fact(finding, "live_bytes", (double)live);
    tideR_fact(finding, "line_peak_bytes", (double)bytes);
}

/* The process holds much more than the Lua heap ever did. */
static void find_foreign_memory(struct tide_model *model)
{
    const uint64_t rss = model->header->rss_peak_bytes;
    const uint64_t peak = model->totals.peak_bytes + model->before_bytes;
    if (rss < 64 * MIB || rss - 64 * MIB < 2 * peak)
        return;
    const uint64_t count = model->totals.live_bytes -
                           model->kinds[TIDE_KIND_BUFFER].live_bytes +
                           model->before_bytes;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", TIDE_R_NONE, rss - peak, (double)(rss - peak) / 2,
        "most memory of the process is not Lua's: resident at most %s, by "
        "Lua's allocator at most %s, by collectgarbage(\"count\") %s at the "
        "end; look at C modules and at the host",
        tideR_bytes_text((int64_t)rss, a), tideR_bytes_text((int64_t)peak, b),
        tideR_bytes_text((int64_t)count, c));
    tideR_fact(finding, "rss_peak_bytes", (double)rss);
    tideR_fact(finding, "heap_peak_bytes", (double)peak);
    tideR_fact(finding, "count_bytes", (double)count);
}

static int compare_findings(const void *pa, const void *pb)
{
    const struct tide_r_finding *a = pa;
    const struct tide_r_finding *b = pb;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return strcmp(a->text, b->text);
}

enum tide_err tideR_find(struct tide_model *model)
{
    TIDE_TRY(tideR_find_lines(model));
    TIDE_TRY(tideR_find_gc(model));
    find_peak(model);
    find_foreign_memory(model);
    tideR_find_failure(model);
    qsort(model->findings, model->n_findings, sizeof *model->findings,
          compare_findings);
    return TIDE_OK;
}
