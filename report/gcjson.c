/*
** gcjson.c: the collector's side of a profile for programs: `tidemark gc
** --json`.
**
** "gc" is as in a report.  "events" are stops, restarts and changes of mode and
** parameters; "timeline" has the points that the profile kept; "lines" what
** survived whole collections, by line, and how that goes.
*/
#include "gcview.h"
#include "json_impl.h"

static const char *const event_names[TIDE_P_EVENT_COUNT_] = {
    [TIDE_P_EVENT_STOP] = "stop",    [TIDE_P_EVENT_RESTART] = "restart",
    [TIDE_P_EVENT_MODE] = "mode",    [TIDE_P_EVENT_PAUSE] = "pause",
    [TIDE_P_EVENT_STEP] = "stepmul",
};

const char *tideR_event_name(unsigned what)
{
    return what < TIDE_P_EVENT_COUNT_ ? event_names[what] : "unknown";
}

double tideR_gc_seconds(const struct tide_model *model, uint64_t mono_ns)
{
    const uint64_t start = model->header->start_mono_ns;
    return mono_ns > start ? (double)(mono_ns - start) / 1e9 : 0;
}

static void put_line_of(struct tide_r_json *json,
                        const struct tide_model *model, uint32_t line_row)
{
    size_t n;
    const struct tide_r_line *line = &model->lines[line_row];
    const char *text = tideR_model_text(model, line->source, &n);
    tideR_json_text(json, "source", text, n);
    tideR_json_int(json, "line", line->line);
}

static void put_event(struct tide_r_json *json, const struct tide_model *model,
                      const struct tide_r_event *event)
{
    const struct tide_p_event *r = event->record;
    tideR_json_open(json, NULL, '{');
    tideR_json_str(json, "what", tideR_event_name(r->what));
    tideR_json_real(json, "s", tideR_gc_seconds(model, r->mono_ns));
    put_line_of(json, model, event->line_row);
    tideR_json_int(json, "was", r->was);
    tideR_json_int(json, "is", r->is);
    tideR_json_int(json, "live_bytes", (int64_t)r->live_bytes);
    tideR_json_int(json, "alloc_bytes", (int64_t)r->alloc_bytes);
    tideR_json_close(json, '}');
}

static void put_moment(struct tide_r_json *json, const struct tide_model *model,
                       const struct tide_p_moment *m)
{
    tideR_json_open(json, NULL, '{');
    tideR_json_real(json, "s", tideR_gc_seconds(model, m->mono_ns));
    tideR_json_int(json, "heap_bytes", (int64_t)m->live_bytes);
    tideR_json_int(json, "alloc_bytes", (int64_t)m->alloc_bytes);
    tideR_json_int(json, "floor_bytes", (int64_t)m->floor_bytes);
    tideR_json_int(json, "rss_bytes", (int64_t)m->rss_bytes);
    tideR_json_int(json, "cycles", m->cycle);
    tideR_json_close(json, '}');
}

static void put_line_floors(struct tide_r_json *json,
                            const struct tide_model *model, uint32_t row)
{
    const struct tide_r_counts *c = &model->lines[row].counts;
    const uint64_t *floors = model->floors.bytes + (size_t)row * TIDE_P_FLOORS;
    const struct tide_r_trend trend =
        tideR_trend(&model->floors, floors, c->live_bytes);
    tideR_json_open(json, NULL, '{');
    put_line_of(json, model, row);
    tideR_json_open(json, "floors", '[');
    for (uint32_t i = 0; i < model->floors.n; i++)
        tideR_json_int(json, NULL, (int64_t)floors[i]);
    tideR_json_close(json, ']');
    tideR_json_real(json, "growth_bytes_per_cycle", trend.growth_per_cycle);
    tideR_json_real(json, "growth_bytes_per_min", trend.growth_per_min);
    tideR_json_int(json, "leak_confidence", trend.confidence);
    tideR_json_int(json, "died_young_bytes", (int64_t)c->young_bytes);
    tideR_json_int(json, "died_later_bytes",
                   (int64_t)(c->freed_bytes - c->young_bytes));
    tideR_json_int(json, "live_bytes", (int64_t)c->live_bytes);
    tideR_json_close(json, '}');
}

static void put_floors(struct tide_r_json *json, const struct tide_model *model)
{
    const struct tide_r_floors *f = &model->floors;
    tideR_json_open(json, "collections", '[');
    for (uint32_t i = 0; i < f->n; i++) {
        tideR_json_break(json);
        tideR_json_open(json, NULL, '{');
        tideR_json_int(json, "cycle", f->cycles[i]);
        tideR_json_real(json, "s", f->seconds[i]);
        tideR_json_int(json, "floor_bytes", (int64_t)f->heap[i]);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
    tideR_json_break(json);
    tideR_json_open(json, "lines", '[');
    for (uint32_t i = 1; i < model->n_lines; i++) {
        tideR_json_break(json);
        put_line_floors(json, model, i);
    }
    tideR_json_close(json, ']');
}

enum tide_err tideR_gc_json(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    const struct tide_p_view *view = tideR_gc_view(model);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-gc");
    tideR_json_int(&json, "version", 1);
    tideR_json_break(&json);
    tideR_json_gc(&json, "gc", model);
    tideR_json_break(&json);
    tideR_json_real(&json, "collect_seconds", model->gc.collect_s);
    tideR_json_int(&json, "timed_calls", (int64_t)model->gc.n_timed);
    tideR_json_open(&json, "events", '[');
    for (uint32_t i = 0; i < model->n_events; i++) {
        tideR_json_break(&json);
        put_event(&json, model, &model->events[i]);
    }
    tideR_json_close(&json, ']');
    tideR_json_break(&json);
    tideR_json_open(&json, "timeline", '[');
    for (uint32_t i = 0; view != NULL && i < view->n_moments; i++) {
        tideR_json_break(&json);
        put_moment(&json, model, &view->moments[i]);
    }
    tideR_json_close(&json, ']');
    tideR_json_break(&json);
    put_floors(&json, model);
    tideR_json_findings(&json, model);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    return tideR_sink_finish(&sink);
}
