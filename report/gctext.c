/*
** gctext.c: the collector's side of a profile for people: `tidemark gc`.
**
** The chart has a column for each stretch of time: '#' up to what the last
** collection had left, ':' up to the highest that the heap stood.  Tables show
** the latest cycles, and the lines that most survives of.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "gcview.h"
#include "text_impl.h"

#define CHART_ROWS    10u
#define CHART_LABEL   11u /* columns left of the chart */
#define CHART_COLUMNS 120u

const struct tide_p_view *tideR_gc_view(const struct tide_model *model)
{
    const struct tide_p_view *best = NULL;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, i);
        if (view->n_moments > 0 &&
            (best == NULL || view->head->peak_bytes > best->head->peak_bytes))
            best = view;
    }
    return best;
}

/* ---- the chart ---- */

struct chart {
    uint64_t high[CHART_COLUMNS]; /* most live bytes in the column */
    uint64_t floor[CHART_COLUMNS];
    uint64_t top_bytes;
    unsigned n;
};

static void fill_chart(const struct tide_model *model,
                       const struct tide_p_view *view, struct chart *chart)
{
    const double end = model->seconds > 0 ? model->seconds : 1;
    bool is_set[CHART_COLUMNS] = {false};
    for (uint32_t i = 0; i < view->n_moments; i++) {
        const struct tide_p_moment *m = &view->moments[i];
        double at = tideR_gc_seconds(model, m->mono_ns) / end * chart->n;
        if (at > chart->n - 1)
            at = chart->n - 1;
        const unsigned x = (unsigned)at;
        if (m->live_bytes > chart->high[x])
            chart->high[x] = m->live_bytes;
        chart->floor[x] = m->floor_bytes;
        is_set[x] = true;
        if (m->live_bytes > chart->top_bytes)
            chart->top_bytes = m->live_bytes;
    }
    for (unsigned x = 1; x < chart->n; x++)
        if (!is_set[x]) {
            chart->high[x] = chart->high[x - 1];
            chart->floor[x] = chart->floor[x - 1];
        }
}

static void put_chart_row(const struct tide_r_page *page,
                          const struct chart *chart, unsigned row)
{
    char label[TIDE_R_UNIT_MAX] = "";
    char text[CHART_COLUMNS + 1];
    const double step = (double)chart->top_bytes / CHART_ROWS;
    const double level = step * (row - 0.5);
    if (row == CHART_ROWS || row == CHART_ROWS / 2)
        tideR_bytes_text((int64_t)(step * row), label);
    for (unsigned x = 0; x < chart->n; x++)
        text[x] =
            (double)chart->floor[x] >= level && (double)chart->high[x] >= level
                ? '#'
            : (double)chart->high[x] >= level ? ':'
                                              : ' ';
    unsigned n = chart->n;
    while (n > 0 && text[n - 1] == ' ')
        n--;
    text[n] = '\0';
    tideR_printf(page->sink, "%*s |%s\n", (int)CHART_LABEL - 2, label, text);
}

static void put_chart(const struct tide_r_page *page)
{
    const struct tide_p_view *view = tideR_gc_view(page->model);
    struct chart chart = {.n = page->columns - CHART_LABEL};
    char text[TIDE_R_UNIT_MAX];
    if (view == NULL)
        return;
    if (chart.n > CHART_COLUMNS)
        chart.n = CHART_COLUMNS;
    fill_chart(page->model, view, &chart);
    if (chart.top_bytes == 0)
        return;
    tideR_puts(page->sink, "\nheap over time: # left by the last collection, "
                           ": highest\n");
    for (unsigned row = CHART_ROWS; row > 0; row--)
        put_chart_row(page, &chart, row);
    tideR_printf(page->sink, "%*s +", (int)CHART_LABEL - 2, "0");
    for (unsigned x = 0; x < chart.n; x++)
        tideR_puts(page->sink, "-");
    tideR_printf(
        page->sink, "\n%*s\n", (int)(chart.n + CHART_LABEL),
        tideR_duration_text((uint64_t)(page->model->seconds * 1e9), text));
}

/* ---- time ---- */

static void put_times(const struct tide_r_page *page)
{
    const struct tide_r_gc *gc = &page->model->gc;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char text[400], calls[TIDE_R_UNIT_MAX + 8];
    if (gc->n_timed == 0)
        return;
    snprintf(calls, sizeof calls, "%s %s",
             tideR_count_text((int64_t)gc->n_timed, b),
             gc->n_timed == 1 ? "call" : "calls");
    snprintf(text, sizeof text,
             "time in collections that were asked for: %s in %s (%s of "
             "the run); those that the collector begins by itself run inside "
             "allocations and are not timed, so this is the least that "
             "collecting took",
             tideR_duration_text((uint64_t)(gc->collect_s * 1e9), a), calls,
             tideR_share_text((int64_t)(gc->collect_s * 1e9),
                              (int64_t)(page->model->seconds * 1e9), c));
    tideR_puts(page->sink, "\n");
    tideR_put_wrapped(page, "", "  ", text);
}

/* ---- tables ---- */

static const char *cause_name(unsigned cause)
{
    static const char *const names[TIDE_P_CAUSE_COUNT_] = {
        [TIDE_P_CAUSE_UNKNOWN] = "",
        [TIDE_P_CAUSE_AUTOMATIC] = "by itself",
        [TIDE_P_CAUSE_EXPLICIT] = "asked for",
        [TIDE_P_CAUSE_EMERGENCY] = "emergency",
    };
    return cause < TIDE_P_CAUSE_COUNT_ ? names[cause] : "";
}

static void put_where(const struct tide_r_page *page, uint32_t line_row,
                      unsigned columns)
{
    char place[TIDE_R_PLACE_MAX] = "";
    if (line_row != TIDE_R_NONE)
        tideR_place(page->model, line_row, place);
    tideR_put_cell(page, place, strlen(place), columns, TIDE_R_CUT_HEAD, false);
    tideR_puts(page->sink, "\n");
}

static void put_cycle_row(const struct tide_r_page *page,
                          const struct tide_r_cycle *cycle)
{
    const struct tide_p_cycle *r = cycle->record;
    char time[TIDE_R_UNIT_MAX], before[TIDE_R_UNIT_MAX];
    char freed[TIDE_R_UNIT_MAX], sweep[TIDE_R_UNIT_MAX] = "";
    const uint64_t start =
        r->start_mono_ns != 0 ? r->start_mono_ns : r->atomic_mono_ns;
    if (r->end_mono_ns > start)
        tideR_duration_text(r->end_mono_ns - start, sweep);
    tideR_duration_text(
        (uint64_t)(tideR_gc_seconds(page->model, r->atomic_mono_ns) * 1e9),
        time);
    tideR_printf(page->sink, "%6" PRIu32 " %9s %-11s %-9s %9s %9s %8s  ", r->n,
                 time, tideR_collection_name(r->mode), cause_name(r->cause),
                 tideR_bytes_text((int64_t)r->before_bytes, before),
                 tideR_bytes_text((int64_t)r->freed_bytes, freed), sweep);
    put_where(page, cycle->line_row,
              page->columns > 90 ? page->columns - 70 : 20);
}

static void put_cycles(const struct tide_r_page *page, uint32_t top)
{
    const struct tide_model *model = page->model;
    const uint32_t n =
        top == 0 || top > model->n_cycles ? model->n_cycles : top;
    if (n == 0)
        return;
    tideR_printf(page->sink,
                 "\ncollections, the last %" PRIu32 " of %" PRIu64 "\n", n,
                 model->gc.cycles);
    tideR_printf(page->sink, "%6s %9s %-11s %-9s %9s %9s %8s  %s\n", "n",
                 "time", "what", "cause", "heap", "freed", "span", "where");
    for (uint32_t i = model->n_cycles - n; i < model->n_cycles; i++)
        put_cycle_row(page, &model->cycles[i]);
}

static void put_events(const struct tide_r_page *page, uint32_t top)
{
    const struct tide_model *model = page->model;
    const uint32_t n =
        top == 0 || top > model->n_events ? model->n_events : top;
    if (n == 0)
        return;
    tideR_printf(page->sink,
                 "\nwhat was done to the collector, %" PRIu32 " of %" PRIu32
                 "\n",
                 n, model->n_events);
    for (uint32_t i = 0; i < n; i++) {
        const struct tide_p_event *r = model->events[i].record;
        char time[TIDE_R_UNIT_MAX], what[64];
        tideR_duration_text(
            (uint64_t)(tideR_gc_seconds(model, r->mono_ns) * 1e9), time);
        if (r->what == TIDE_P_EVENT_MODE)
            snprintf(what, sizeof what, "%s",
                     r->is != 0 ? "generational" : "incremental");
        else if (r->what == TIDE_P_EVENT_PAUSE || r->what == TIDE_P_EVENT_STEP)
            snprintf(what, sizeof what, "%s %u -> %u",
                     tideR_event_name(r->what), r->was, r->is);
        else
            snprintf(what, sizeof what, "%s", tideR_event_name(r->what));
        tideR_printf(page->sink, "%16s %-21s ", time, what);
        put_where(page, model->events[i].line_row, page->columns - 40);
    }
}

/* ---- survivors ---- */

struct survivor {
    uint32_t line;
    uint64_t bytes;
};

static int compare_survivors(const void *pa, const void *pb)
{
    const struct survivor *a = pa;
    const struct survivor *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

static void put_survivor(const struct tide_r_page *page, uint32_t line)
{
    const struct tide_model *model = page->model;
    const struct tide_r_floors *floors = &model->floors;
    const struct tide_r_counts *c = &model->lines[line].counts;
    const uint64_t *row = floors->bytes + (size_t)line * TIDE_P_FLOORS;
    const struct tide_r_trend trend = tideR_trend(floors, row, c->live_bytes);
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], d[TIDE_R_UNIT_MAX];
    char e[TIDE_R_UNIT_MAX];
    tideR_printf(
        page->sink, "%9s %9s %9s %7s  ",
        tideR_bytes_text((int64_t)row[floors->n - 1], a),
        tideR_bytes_text((int64_t)trend.growth_per_cycle, b),
        tideR_bytes_text((int64_t)trend.growth_per_min, d),
        tideR_share_text((int64_t)c->young_bytes, (int64_t)c->alloc_bytes, e));
    put_where(page, line, page->columns > 60 ? page->columns - 39 : 20);
}

static enum tide_err put_survivors(const struct tide_r_page *page, uint32_t top)
{
    const struct tide_model *model = page->model;
    const struct tide_r_floors *floors = &model->floors;
    uint32_t n = 0;
    if (floors->n == 0)
        return TIDE_OK;
    struct survivor *rows = calloc(model->n_lines, sizeof *rows);
    TIDE_FAIL_IF(rows == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 1; i < model->n_lines; i++) {
        const uint64_t bytes =
            floors->bytes[(size_t)i * TIDE_P_FLOORS + floors->n - 1];
        if (bytes > 0)
            rows[n++] = (struct survivor){i, bytes};
    }
    qsort(rows, n, sizeof *rows, compare_survivors);
    if (n > 0)
        tideR_printf(page->sink,
                     "\nwhat survived whole collections, by line (%" PRIu32
                     " were looked at)\n%9s %9s %9s %7s  %s\n",
                     floors->n, "left", "a cycle", "a minute", "young",
                     "where");
    for (uint32_t i = 0; i < n && (top == 0 || i < top); i++)
        put_survivor(page, rows[i].line);
    free(rows);
    return TIDE_OK;
}

enum tide_err tideR_gc_text(const struct tide_model *model, uint32_t top,
                            const struct tide_r_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    const struct tide_r_page page = {
        .model = model,
        .look = look,
        .sink = &sink,
        .columns = tideR_page_columns(look),
    };
    tideR_text_header(&page);
    tideR_text_findings(&page, TIDE_R_FINDINGS_MAX);
    put_chart(&page);
    put_times(&page);
    put_events(&page, top);
    put_cycles(&page, top);
    TIDE_TRY(put_survivors(&page, top));
    tideR_puts(&sink, "\n");
    tideR_text_notes(&page);
    return tideR_sink_finish(&sink);
}
