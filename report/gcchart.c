/*
** gcchart.c: the heap of a state over time, for people: a chart and a table.
**
** The chart has a column for each stretch of time: '#' up to what the last
** collection had left, ':' up to the highest that the heap stood.
*/
#include <inttypes.h>

#include "gctext_impl.h"
#include "gcview.h"

#define CHART_ROWS    10u
#define CHART_LABEL   11u /* columns left of the chart */
#define CHART_COLUMNS 120u
#define TIMELINE_ROWS 12u

/* NULL: it has no points. */
static const struct tide_p_view *view_of(const struct tide_model *model,
                                         uint32_t heap)
{
    if (heap >= tideP_reader_n_heaps(model->profile))
        return NULL;
    const struct tide_p_view *view = tideP_reader_heap(model->profile, heap);
    return view->n_moments > 0 ? view : NULL;
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
        double at = tideR_seconds(model, m->mono_ns) / end * chart->n;
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

void tideR_gc_chart(const struct tide_r_page *page, uint32_t heap,
                    const char *whose)
{
    const struct tide_p_view *view = view_of(page->model, heap);
    struct chart chart = {.n = page->columns - CHART_LABEL};
    char text[TIDE_R_UNIT_MAX], caption[200];
    if (view == NULL)
        return;
    if (chart.n > CHART_COLUMNS)
        chart.n = CHART_COLUMNS;
    fill_chart(page->model, view, &chart);
    if (chart.top_bytes == 0)
        return;
    snprintf(caption, sizeof caption,
             "heap over time%s: # left by the last collection, : highest",
             whose);
    tideR_puts(page->sink, "\n");
    tideR_put_wrapped(page, "", "  ", caption);
    for (unsigned row = CHART_ROWS; row > 0; row--)
        put_chart_row(page, &chart, row);
    tideR_printf(page->sink, "%*s +", (int)CHART_LABEL - 2, "0");
    for (unsigned x = 0; x < chart.n; x++)
        tideR_puts(page->sink, "-");
    tideR_printf(
        page->sink, "\n%*s\n", (int)(chart.n + CHART_LABEL),
        tideR_duration_text((uint64_t)(page->model->seconds * 1e9), text));
}

/* ---- the timeline as a table ---- */

/* From one point to another. */
static void put_moment(const struct tide_r_page *page,
                       const struct tide_p_moment *from,
                       const struct tide_p_moment *to, uint64_t rss)
{
    char time[TIDE_R_UNIT_MAX], heap[TIDE_R_UNIT_MAX], floor[TIDE_R_UNIT_MAX];
    char rate[TIDE_R_UNIT_MAX], cycles[TIDE_R_UNIT_MAX];
    char resident[TIDE_R_UNIT_MAX] = "";
    const double s = tideR_seconds(page->model, to->mono_ns);
    const double gone = s - tideR_seconds(page->model, from->mono_ns);
    const double made = (double)to->alloc_bytes - (double)from->alloc_bytes;
    if (rss != 0)
        tideR_bytes_text((int64_t)rss, resident);
    tideR_printf(
        page->sink, "%9s %9s %9s %9s %9s %9s\n",
        tideR_duration_text((uint64_t)(s * 1e9), time),
        tideR_bytes_text((int64_t)to->live_bytes, heap),
        tideR_bytes_text((int64_t)to->floor_bytes, floor),
        tideR_bytes_text(gone > 0 ? (int64_t)(made / gone) : 0, rate),
        tideR_count_text((int64_t)to->cycle - (int64_t)from->cycle, cycles),
        resident);
}

/* Rows spread over the points; figures of a row are since the one before. */
void tideR_gc_timeline(const struct tide_r_page *page, uint32_t heap)
{
    const struct tide_p_view *view = view_of(page->model, heap);
    if (view == NULL || view->n_moments < 2)
        return;
    const uint32_t last = view->n_moments - 1;
    const uint32_t n = last < TIMELINE_ROWS ? last : TIMELINE_ROWS;
    uint32_t from = 0;
    tideR_printf(page->sink, "\n%9s %9s %9s %9s %9s %9s\n", "time", "heap",
                 "floor", "alloc/s", "cycles", "RSS");
    for (uint32_t row = 1; row <= n; row++) {
        const uint32_t to = (uint32_t)((uint64_t)last * row / n);
        uint64_t rss = 0;
        for (uint32_t i = from; i <= to; i++)
            if (view->moments[i].rss_bytes != 0)
                rss = view->moments[i].rss_bytes;
        put_moment(page, &view->moments[from], &view->moments[to], rss);
        from = to;
    }
}
