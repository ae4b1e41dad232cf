/*
** gctext.c: the collector's side of a profile for people: `tidemark gc`.
**
** Tables show the latest cycles, what was done to the collector, and the lines
** that most survives of.  With several states they have a column for it; what
** only one can have, a chart and survivors, is of one of them, and says so.
*/
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "gctext_impl.h"
#include "gcview.h"

#define WIDE_COLUMNS  110u /* there is room for all of a cycle */
#define STATE_COLUMNS 6u

/* What is being shown. */
struct shown {
    const struct tide_r_page *page;
    const struct tide_r_gcquery *query;
    uint32_t heap;   /* only of this one; TIDE_R_STATES: of all */
    bool has_column; /* several states: rows say which */
};

/* ---- time ---- */

/* "; in emergencies 1.2 ms" */
static void add_time(char *text, size_t bytes, const char *what, double s)
{
    char time[TIDE_R_UNIT_MAX];
    const size_t n = strlen(text);
    if (s > 0)
        snprintf(text + n, bytes - n, "; %s %s", what,
                 tideR_duration_text((uint64_t)(s * 1e9), time));
}

static void put_times(const struct tide_r_page *page)
{
    const struct tide_r_gc *gc = &page->model->gc;
    const double sum = tideR_gc_time(page->model);
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX];
    char text[600], asked[TIDE_R_UNIT_MAX + 32];
    if (sum <= 0)
        return;
    snprintf(text, sizeof text, "collecting took %s at least, %s of the run",
             tideR_duration_text((uint64_t)(sum * 1e9), a),
             tideR_share_text((int64_t)(sum * 1e9),
                              (int64_t)(page->model->seconds * 1e9), b));
    snprintf(asked, sizeof asked, "asked for, in %s %s,",
             tideR_count_text((int64_t)gc->n_timed, a),
             gc->n_timed == 1 ? "call" : "calls");
    add_time(text, sizeof text, asked, gc->collect_s);
    add_time(text, sizeof text, "in emergencies, up to the sweep,",
             gc->emergency_s);
    add_time(text, sizeof text, "between large objects freed in one step",
             gc->sweep_s);
    const size_t n = strlen(text);
    snprintf(text + n, sizeof text - n,
             "; what else the collector does by itself runs inside allocations "
             "and is not timed");
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

/* "    3 ", where there are several states. */
static void put_state_cell(const struct shown *shown, uint32_t heap)
{
    if (shown->has_column)
        tideR_printf(shown->page->sink, "%5" PRIu32 " ", heap);
}

static bool is_shown(const struct shown *shown, uint32_t heap)
{
    return shown->heap == TIDE_R_STATES || shown->heap == heap;
}

static void put_cycle_row(const struct shown *shown,
                          const struct tide_r_cycle *cycle)
{
    const struct tide_r_page *page = shown->page;
    const unsigned used = shown->has_column ? STATE_COLUMNS : 0;
    const struct tide_p_cycle *r = cycle->record;
    const bool is_wide = page->columns >= WIDE_COLUMNS;
    char time[TIDE_R_UNIT_MAX], before[TIDE_R_UNIT_MAX];
    char freed[TIDE_R_UNIT_MAX], sweep[TIDE_R_UNIT_MAX] = "";
    char left[TIDE_R_UNIT_MAX], blocks[TIDE_R_UNIT_MAX];
    const uint64_t start =
        r->start_mono_ns != 0 ? r->start_mono_ns : r->atomic_mono_ns;
    if (r->end_mono_ns > start)
        tideR_duration_text(r->end_mono_ns - start, sweep);
    tideR_duration_text(
        (uint64_t)(tideR_seconds(page->model, r->atomic_mono_ns) * 1e9), time);
    put_state_cell(shown, cycle->heap);
    tideR_printf(page->sink, "%6" PRIu32 " %9s %-11s %-9s %9s %9s ", r->n, time,
                 tideR_collection_name(r->mode), cause_name(r->cause),
                 tideR_bytes_text((int64_t)r->before_bytes, before),
                 tideR_bytes_text((int64_t)r->freed_bytes, freed));
    if (is_wide)
        tideR_printf(page->sink, "%9s %9s ",
                     tideR_count_text((int64_t)r->freed_blocks, blocks),
                     tideR_bytes_text((int64_t)r->after_bytes, left));
    tideR_printf(page->sink, "%8s  ", sweep);
    put_where(page, cycle->line_row,
              is_wide                     ? page->columns - 90 - used
              : page->columns > 90 + used ? page->columns - 70 - used
                                          : 20);
}

/* How many collections are shown; *first gets the first of them. */
static uint32_t choose_cycles(const struct shown *shown, uint32_t *first)
{
    const struct tide_model *model = shown->page->model;
    const uint32_t top = shown->query->top;
    uint32_t n = 0;
    for (uint32_t i = model->n_cycles; i > 0 && (top == 0 || n < top); i--)
        if (is_shown(shown, model->cycles[i - 1].heap)) {
            *first = i - 1;
            n++;
        }
    return n;
}

static void put_cycles(const struct shown *shown)
{
    const struct tide_r_page *page = shown->page;
    const struct tide_model *model = page->model;
    uint32_t first = 0;
    const uint32_t n = choose_cycles(shown, &first);
    const uint64_t n_all =
        shown->heap == TIDE_R_STATES
            ? model->gc.cycles
            : tideP_reader_heap(model->profile, shown->heap)->head->gc_cycle;
    if (n == 0)
        return;
    tideR_printf(page->sink,
                 "\ncollections, the last %" PRIu32 " of %" PRIu64 "\n", n,
                 n_all);
    tideR_printf(page->sink, "%s%6s %9s %-11s %-9s %9s %9s %s%8s  %s\n",
                 shown->has_column ? "state " : "", "n", "time", "what",
                 "cause", "heap", "freed",
                 page->columns >= WIDE_COLUMNS ? "   blocks      left " : "",
                 "span", "where");
    for (uint32_t i = first; i < model->n_cycles; i++)
        if (is_shown(shown, model->cycles[i].heap))
            put_cycle_row(shown, &model->cycles[i]);
}

/* "stop, for 1.2 s", "pause 200 -> 105", "generational" */
static void put_event_name(const struct tide_model *model, uint32_t i,
                           char *out, size_t bytes)
{
    const struct tide_p_event *r = model->events[i].record;
    char time[TIDE_R_UNIT_MAX];
    if (r->what == TIDE_P_EVENT_STOP) {
        const struct tide_r_stop stop = tideR_stop_of(model, i);
        snprintf(out, bytes, "stop, %s %s",
                 stop.is_restarted ? "for" : "to the end,",
                 tideR_duration_text((uint64_t)(stop.seconds * 1e9), time));
    } else if (r->what == TIDE_P_EVENT_MODE) {
        snprintf(out, bytes, "%s", r->is != 0 ? "generational" : "incremental");
    } else if (r->what == TIDE_P_EVENT_PAUSE || r->what == TIDE_P_EVENT_STEP) {
        snprintf(out, bytes, "%s %u -> %u", tideR_event_name(r->what), r->was,
                 r->is);
    } else {
        snprintf(out, bytes, "%s", tideR_event_name(r->what));
    }
}

static void put_event(const struct shown *shown, uint32_t i)
{
    const struct tide_r_page *page = shown->page;
    const struct tide_r_event *event = &page->model->events[i];
    char time[TIDE_R_UNIT_MAX], what[64];
    const double s = tideR_seconds(page->model, event->record->mono_ns);
    put_event_name(page->model, i, what, sizeof what);
    put_state_cell(shown, event->heap);
    tideR_printf(page->sink, "%16s %-24s ",
                 tideR_duration_text((uint64_t)(s * 1e9), time), what);
    put_where(page, event->line_row,
              page->columns - 43 > STATE_COLUMNS * 2 && shown->has_column
                  ? page->columns - 43 - STATE_COLUMNS
                  : page->columns - 43);
}

static void put_events(const struct shown *shown)
{
    const struct tide_model *model = shown->page->model;
    const uint32_t top = shown->query->top;
    uint32_t n_all = 0;
    for (uint32_t i = 0; i < model->n_events; i++)
        n_all += is_shown(shown, model->events[i].heap);
    uint32_t left = top == 0 || top > n_all ? n_all : top;
    if (left == 0)
        return;
    tideR_printf(shown->page->sink,
                 "\nwhat was done to the collector, %" PRIu32 " of %" PRIu32
                 "\n",
                 left, n_all);
    if (shown->has_column)
        tideR_puts(shown->page->sink, "state\n");
    for (uint32_t i = 0; i < model->n_events && left > 0; i++)
        if (is_shown(shown, model->events[i].heap)) {
            put_event(shown, i);
            left--;
        }
}

/* ---- survivors and ages, by line or by stack ---- */

/* How a table of rows looks. */
struct rows_look {
    const char *title;
    const char *note;
    const char *heads;
    bool by_freed; /* sorted by it */
    void (*put)(const struct tide_r_page *page, const struct tide_r_gcrow *row,
                uint32_t n_floors);
};

static void put_survivor(const struct tide_r_page *page,
                         const struct tide_r_gcrow *row, uint32_t n_floors)
{
    const struct tide_r_trend *trend = &row->trend;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char d[TIDE_R_UNIT_MAX];
    tideR_printf(page->sink, "%9s %9s %9s %9s  ",
                 tideR_bytes_text((int64_t)row->floors[n_floors - 1], a),
                 tideR_bytes_text((int64_t)trend->growth_per_cycle, b),
                 tideR_bytes_text((int64_t)trend->growth_per_min, c),
                 tideR_bytes_text((int64_t)row->counts.live_bytes, d));
}

static void put_ages(const struct tide_r_page *page,
                     const struct tide_r_gcrow *row, uint32_t n_floors)
{
    (void)n_floors;
    uint64_t ages[TIDE_R_AGES];
    char text[TIDE_R_UNIT_MAX];
    tideR_ages(&row->counts, false, ages);
    uint64_t sum = 0;
    for (unsigned i = 0; i < TIDE_R_AGES; i++)
        sum += ages[i];
    tideR_printf(page->sink, "%9s ", tideR_bytes_text((int64_t)sum, text));
    for (unsigned i = 0; i < TIDE_R_AGES; i++)
        tideR_printf(page->sink, "%6s ",
                     tideR_share_text((int64_t)ages[i], (int64_t)sum, text));
    tideR_puts(page->sink, " ");
}

/* A table of rows; nothing when there are none. */
static enum tide_err put_rows(const struct tide_r_page *page,
                              const struct tide_r_gclist *list,
                              const struct rows_look *look, uint32_t top)
{
    uint32_t *rows;
    uint32_t n;
    TIDE_TRY(tideR_gclist_sort(list, look->by_freed, &rows, &n));
    if (n > 0) {
        char title[300];
        snprintf(title, sizeof title, "%s, by %s%s", look->title,
                 list->by_stack ? "stack" : "line", look->note);
        tideR_puts(page->sink, "\n");
        tideR_put_wrapped(page, "", "  ", title);
        tideR_printf(page->sink, "%s  where\n", look->heads);
    }
    const unsigned columns = page->columns > 60 ? page->columns - 41 : 20;
    for (uint32_t i = 0; i < n && (top == 0 || i < top); i++) {
        struct tide_r_gcrow row;
        char place[1024];
        tideR_gclist_row(list, rows[i], &row);
        look->put(page, &row, list->floors->n);
        tideR_gclist_place(list, rows[i], place, sizeof place);
        tideR_put_cell(page, place, strlen(place), columns, TIDE_R_CUT_HEAD,
                       false);
        tideR_puts(page->sink, "\n");
    }
    free(rows);
    return TIDE_OK;
}

/* " of state 3"; "" where there is one, or it is of all of them. */
static void name_state(const struct shown *shown, uint32_t heap,
                       const char *words, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (shown->has_column)
        snprintf(out, out_bytes, ", of state %" PRIu32 "%s", heap, words);
}

static enum tide_err put_lives(const struct shown *shown)
{
    const struct tide_r_page *page = shown->page;
    const bool is_one = shown->heap != TIDE_R_STATES;
    const uint32_t heap = is_one ? shown->heap : page->model->floors.number;
    const uint32_t top = shown->query->top;
    char whose[80], note[160];
    struct tide_r_gclist list;
    enum tide_err err = tideR_gclist_open(page->model, heap, is_one,
                                          shown->query->by_stack, &list);
    name_state(shown, heap, ", which says most", whose, sizeof whose);
    snprintf(note, sizeof note, "%s (%" PRIu32 " were looked at)", whose,
             err == TIDE_OK ? list.floors->n : 0);
    const struct rows_look survivors = {
        .title = "what survived whole collections",
        .note = note,
        .heads = "     left   a cycle  a minute      live",
        .put = put_survivor,
    };
    const struct rows_look ages = {
        .title = "how many collections had been survived by what was freed",
        .note = shown->has_column ? ", of all states" : "",
        .heads = "    freed   none    one    two   more ",
        .by_freed = true,
        .put = put_ages,
    };
    if (err == TIDE_OK)
        err = put_rows(page, &list, &survivors, top);
    if (err == TIDE_OK)
        err = put_rows(page, &list, &ages, top);
    tideR_gclist_close(&list);
    return err;
}

/* ---- states ---- */

static void put_state(const struct tide_r_page *page,
                      const struct tide_r_gcstate *state)
{
    char text[6][TIDE_R_UNIT_MAX];
    tideR_printf(
        page->sink, "%5" PRIu32 " %8" PRIu32 " %10s %10s %10s %10s %7s %10s\n",
        state->heap, state->pid,
        tideR_bytes_text((int64_t)state->alloc_bytes, text[0]),
        tideR_bytes_text((int64_t)state->live_bytes, text[1]),
        tideR_bytes_text((int64_t)state->peak_bytes, text[2]),
        tideR_bytes_text((int64_t)state->floor_bytes, text[3]),
        tideR_count_text((int64_t)state->cycles, text[4]),
        tideR_bytes_text(state->cycles == 0
                             ? 0
                             : (int64_t)(state->freed_bytes / state->cycles),
                         text[5]));
}

static void put_states(const struct shown *shown,
                       const struct tide_r_gcstate *states, uint32_t n_all)
{
    const struct tide_r_page *page = shown->page;
    const uint32_t top = shown->query->top;
    const uint32_t n = top == 0 || top > n_all ? n_all : top;
    tideR_printf(page->sink,
                 "\nstates (each by itself: tidemark gc --by state)\n"
                 "%5s %8s %10s %10s %10s %10s %7s %10s\n",
                 "state", "process", "allocated", "live", "peak", "floor",
                 "cycles", "mean freed");
    for (uint32_t i = 0; i < n; i++)
        put_state(page, &states[i]);
    if (n < n_all)
        tideR_printf(page->sink, "%" PRIu32 " more\n", n_all - n);
}

/* ---- all of it ---- */

/* All states together; what only one can have is of the highest. */
static enum tide_err put_together(const struct shown *shown)
{
    const struct tide_r_page *page = shown->page;
    const uint32_t highest = tideR_gc_highest(page->model);
    char whose[80];
    name_state(shown, highest, ", which stood highest", whose, sizeof whose);
    tideR_gc_chart(page, highest, whose);
    tideR_gc_timeline(page, highest);
    put_times(page);
    put_events(shown);
    tideR_text_marks(page);
    put_cycles(shown);
    return put_lives(shown);
}

static enum tide_err put_alone(const struct shown *shown,
                               const struct tide_r_gcstate *state)
{
    const struct tide_r_page *page = shown->page;
    const struct shown alone = {
        .page = page, .query = shown->query, .heap = state->heap};
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char text[300];
    snprintf(text, sizeof text,
             "state %" PRIu32 " of process %" PRIu32
             ", %s: allocated %s; live at the end %s; peak %s; %" PRIu64
             " cycles, %s",
             state->heap, state->pid, state->is_open ? "open" : "closed",
             tideR_bytes_text((int64_t)state->alloc_bytes, a),
             tideR_bytes_text((int64_t)state->live_bytes, b),
             tideR_bytes_text((int64_t)state->peak_bytes, c), state->cycles,
             state->mode);
    tideR_puts(page->sink, "\n");
    tideR_paint(page, TIDE_R_BOLD);
    tideR_put_wrapped(page, "", "  ", text);
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_gc_chart(page, state->heap, "");
    tideR_gc_timeline(page, state->heap);
    put_events(&alone);
    put_cycles(&alone);
    return put_lives(&alone);
}

static enum tide_err put_each(const struct shown *shown,
                              const struct tide_r_gcstate *states,
                              uint32_t n_all)
{
    const struct tide_r_gcquery *query = shown->query;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_all && (query->top == 0 || n < query->top);
         i++) {
        if (query->state != TIDE_R_STATES && query->state != states[i].heap)
            continue;
        TIDE_TRY(put_alone(shown, &states[i]));
        n++;
    }
    if (query->state == TIDE_R_STATES && n < n_all)
        tideR_printf(shown->page->sink, "\n%" PRIu32 " more states\n",
                     n_all - n);
    return TIDE_OK;
}

static enum tide_err put_body(const struct shown *shown)
{
    uint32_t n;
    struct tide_r_gcstate *states =
        tideR_gcstates_or_null(shown->page->model, &n);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (states != NULL && n > 1)
        put_states(shown, states, n);
    if (states != NULL)
        err = shown->query->by_state || shown->query->state != TIDE_R_STATES
                  ? put_each(shown, states, n)
                  : put_together(shown);
    free(states);
    return err;
}

enum tide_err tideR_gc_text(const struct tide_model *model,
                            const struct tide_r_gcquery *query,
                            const struct tide_r_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    const struct tide_r_page page = {
        .model = model,
        .look = look,
        .sink = &sink,
        .columns = tideR_page_columns(look),
    };
    const struct shown shown = {
        .page = &page,
        .query = query,
        .heap = TIDE_R_STATES,
        .has_column = tideP_reader_n_heaps(model->profile) > 1,
    };
    tideR_text_header(&page);
    tideR_text_findings(&page, TIDE_R_FINDINGS_MAX, TIDE_R_FINDINGS_MAX);
    TIDE_TRY(put_body(&shown));
    tideR_puts(&sink, "\n");
    tideR_text_notes(&page);
    return tideR_sink_finish(&sink);
}
