/*
** gcjson.c: the collector's side of a profile for programs: `tidemark gc
** --json`.
**
** "gc" is as in a report.  "events" are stops, restarts and changes of mode and
** parameters; "timeline" has the points that the profile kept; "lines" what
** survived whole collections, by line, and how that goes; "stacks" the same by
** stack and kind, frames innermost first.  These lists are of one state:
** "timeline" of timeline_state, the others of survivors_state.  "states" has
** each of them; where there are several, with lists of its own.
*/
#include <stdlib.h>

#include "findings.h"
#include "gcview.h"
#include "json_impl.h"
#include "select.h"

#define FRAMES_MAX 256u

static const char *const event_names[TIDE_P_EVENT_COUNT_] = {
    [TIDE_P_EVENT_STOP] = "stop",    [TIDE_P_EVENT_RESTART] = "restart",
    [TIDE_P_EVENT_MODE] = "mode",    [TIDE_P_EVENT_PAUSE] = "pause",
    [TIDE_P_EVENT_STEP] = "stepmul",
};

const char *tideR_event_name(unsigned what)
{
    return what < TIDE_P_EVENT_COUNT_ ? event_names[what] : "unknown";
}

double tideR_gc_time(const struct tide_model *model)
{
    const struct tide_r_gc *gc = &model->gc;
    return gc->collect_s + gc->emergency_s + gc->sweep_s;
}

static void put_event(struct tide_r_json *json, const struct tide_model *model,
                      uint32_t i)
{
    const struct tide_r_event *event = &model->events[i];
    const struct tide_p_event *r = event->record;
    tideR_json_open(json, NULL, '{');
    tideR_json_str(json, "what", tideR_event_name(r->what));
    tideR_json_real(json, "s", tideR_seconds(model, r->mono_ns));
    tideR_json_int(json, "state", event->heap);
    tideR_json_place(json, model, event->line_row);
    tideR_json_int(json, "was", r->was);
    tideR_json_int(json, "is", r->is);
    if (r->what == TIDE_P_EVENT_STOP)
        tideR_json_real(json, "seconds", tideR_stop_of(model, i).seconds);
    tideR_json_int(json, "live_bytes", (int64_t)r->live_bytes);
    tideR_json_int(json, "alloc_bytes", (int64_t)r->alloc_bytes);
    tideR_json_close(json, '}');
}

static void put_moment(struct tide_r_json *json, const struct tide_model *model,
                       const struct tide_p_moment *m)
{
    tideR_json_open(json, NULL, '{');
    tideR_json_real(json, "s", tideR_seconds(model, m->mono_ns));
    tideR_json_int(json, "heap_bytes", (int64_t)m->live_bytes);
    tideR_json_int(json, "alloc_bytes", (int64_t)m->alloc_bytes);
    tideR_json_int(json, "floor_bytes", (int64_t)m->floor_bytes);
    tideR_json_int(json, "rss_bytes", (int64_t)m->rss_bytes);
    tideR_json_int(json, "cycles", m->cycle);
    tideR_json_close(json, '}');
}

static void put_stack_of(struct tide_r_json *json,
                         const struct tide_model *model, uint32_t stack)
{
    char label[TIDE_R_PLACE_MAX];
    uint32_t n = 0;
    uint32_t node = model->stacks[stack].node;
    tideR_json_str(json, "kind", tideC_kind_name(model->stacks[stack].kind));
    tideR_json_open(json, "frames", '[');
    for (; node != 0 && n < FRAMES_MAX; node = model->nodes[node].parent, n++) {
        const size_t bytes = tideR_frame_label(model, model->nodes[node].frame,
                                               label, sizeof label);
        tideR_json_text(json, NULL, label,
                        bytes < sizeof label ? bytes : sizeof label - 1);
    }
    tideR_json_close(json, ']');
}

static void put_row(struct tide_r_json *json, const struct tide_r_gclist *list,
                    uint32_t index)
{
    struct tide_r_gcrow row;
    tideR_gclist_row(list, index, &row);
    if (list->is_one_state && tideR_counts_are_zero(&row.counts))
        return; /* of other states */
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    if (list->by_stack)
        put_stack_of(json, list->model, index);
    else
        tideR_json_place(json, list->model, index);
    tideR_json_open(json, "floors", '[');
    for (uint32_t i = 0; i < list->floors->n; i++)
        tideR_json_int(json, NULL, (int64_t)row.floors[i]);
    tideR_json_close(json, ']');
    tideR_json_real(json, "growth_bytes_per_cycle", row.trend.growth_per_cycle);
    tideR_json_real(json, "growth_bytes_per_min", row.trend.growth_per_min);
    tideR_json_int(json, "leak_confidence", row.trend.confidence);
    tideR_json_int(json, "died_young_bytes", (int64_t)row.counts.young_bytes);
    tideR_json_ages(json, &row.counts);
    tideR_json_int(json, "live_bytes", (int64_t)row.counts.live_bytes);
    tideR_json_close(json, '}');
}

static void put_rows(struct tide_r_json *json, const char *key,
                     const struct tide_r_gclist *list)
{
    const struct tide_model *model = list->model;
    const uint32_t n = list->by_stack ? model->n_stacks : model->n_lines;
    tideR_json_open(json, key, '[');
    for (uint32_t i = 1; i < n; i++)
        if (!list->by_stack || model->stacks[i].kind != TIDE_R_KIND_MORE)
            put_row(json, list, i);
    tideR_json_close(json, ']');
}

static enum tide_err put_list(struct tide_r_json *json, const char *key,
                              const struct tide_model *model, bool by_stack)
{
    struct tide_r_gclist list;
    const enum tide_err err =
        tideR_gclist_open(model, model->floors.number, false, by_stack, &list);
    if (err == TIDE_OK)
        put_rows(json, key, &list);
    tideR_json_break(json);
    tideR_gclist_close(&list);
    return err;
}

static void put_floors(struct tide_r_json *json, const struct tide_r_floors *f)
{
    tideR_json_open(json, "collections", '[');
    for (uint32_t i = 0; i < f->n; i++) {
        tideR_json_break(json);
        tideR_json_open(json, NULL, '{');
        tideR_json_int(json, "cycle", f->cycles[i]);
        tideR_json_real(json, "s", f->seconds[i]);
        tideR_json_int(json, "floor_bytes", (int64_t)f->heap[i]);
        tideR_json_int(json, "alloc_bytes", (int64_t)f->alloc[i]);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
}

/* n_heaps may be 0: then there are no points. */
static void put_timeline(struct tide_r_json *json,
                         const struct tide_model *model, uint32_t heap)
{
    const struct tide_p_view *view =
        heap < tideP_reader_n_heaps(model->profile)
            ? tideP_reader_heap(model->profile, heap)
            : NULL;
    tideR_json_open(json, "timeline", '[');
    for (uint32_t i = 0; view != NULL && i < view->n_moments; i++) {
        tideR_json_break(json);
        put_moment(json, model, &view->moments[i]);
    }
    tideR_json_close(json, ']');
}

static enum tide_err put_state_lists(struct tide_r_json *json,
                                     const struct tide_model *model,
                                     uint32_t heap)
{
    struct tide_r_gclist list;
    const enum tide_err err =
        tideR_gclist_open(model, heap, true, false, &list);
    tideR_json_break(json);
    put_timeline(json, model, heap);
    tideR_json_break(json);
    if (err == TIDE_OK) {
        put_floors(json, list.floors);
        tideR_json_break(json);
        put_rows(json, "lines", &list);
    }
    tideR_gclist_close(&list);
    return err;
}

static enum tide_err put_state(struct tide_r_json *json,
                               const struct tide_model *model,
                               const struct tide_r_gcstate *state,
                               bool has_lists)
{
    enum tide_err err = TIDE_OK;
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    tideR_json_int(json, "state", state->heap);
    tideR_json_int(json, "pid", state->pid);
    tideR_json_int(json, "states", state->n_states);
    tideR_json_bool(json, "open", state->is_open);
    tideR_json_str(json, "mode", state->mode);
    tideR_json_int(json, "cycles", (int64_t)state->cycles);
    tideR_json_int(json, "alloc_bytes", (int64_t)state->alloc_bytes);
    tideR_json_int(json, "live_bytes", (int64_t)state->live_bytes);
    tideR_json_int(json, "peak_bytes", (int64_t)state->peak_bytes);
    tideR_json_int(json, "floor_bytes", (int64_t)state->floor_bytes);
    tideR_json_int(json, "freed_bytes", (int64_t)state->freed_bytes);
    if (has_lists)
        err = put_state_lists(json, model, state->heap);
    tideR_json_close(json, '}');
    return err;
}

static enum tide_err put_states(struct tide_r_json *json,
                                const struct tide_model *model)
{
    uint32_t n;
    struct tide_r_gcstate *states = tideR_gcstates_or_null(model, &n);
    TIDE_FAIL_IF(states == NULL, TIDE_ERR_NOMEM);
    enum tide_err err = TIDE_OK;
    tideR_json_open(json, "states", '[');
    for (uint32_t i = 0; i < n && err == TIDE_OK; i++)
        err = put_state(json, model, &states[i], n > 1);
    tideR_json_close(json, ']');
    tideR_json_break(json);
    free(states);
    return err;
}

enum tide_err tideR_gc_json(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_json json = tideR_json_on(&sink);
    const uint32_t highest = tideR_gc_highest(model);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-gc");
    tideR_json_int(&json, "version", 1);
    tideR_json_break(&json);
    tideR_json_gc(&json, "gc", model);
    tideR_json_break(&json);
    tideR_json_real(&json, "collect_seconds", tideR_gc_time(model));
    tideR_json_real(&json, "asked_seconds", model->gc.collect_s);
    tideR_json_real(&json, "emergency_seconds", model->gc.emergency_s);
    tideR_json_real(&json, "sweep_seconds", model->gc.sweep_s);
    tideR_json_int(&json, "timed_calls", (int64_t)model->gc.n_timed);
    tideR_json_open(&json, "events", '[');
    for (uint32_t i = 0; i < model->n_events; i++) {
        tideR_json_break(&json);
        put_event(&json, model, i);
    }
    tideR_json_close(&json, ']');
    tideR_json_break(&json);
    tideR_json_int(&json, "timeline_state", highest);
    tideR_json_int(&json, "survivors_state", model->floors.number);
    put_timeline(&json, model, highest);
    tideR_json_break(&json);
    put_floors(&json, &model->floors);
    tideR_json_break(&json);
    TIDE_TRY(put_states(&json, model));
    TIDE_TRY(put_list(&json, "lines", model, false));
    TIDE_TRY(put_list(&json, "stacks", model, true));
    tideR_json_findings(&json, model);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    return tideR_sink_finish(&sink);
}
