/*
** pageruns.c: the one or two runs in the page's data: what ran, its totals, its
** cycles, its timeline, its findings.
*/
#include "json_impl.h"
#include "page_impl.h"

static int64_t cycle_n(struct tide_page *d, uint32_t row)
{
    return d->model->cycles[row].record->n;
}

/* Nanoseconds since the start; 0 for what claims to be before it. */
static int64_t since_start(const struct tide_page *d, uint64_t mono_ns)
{
    const uint64_t start = d->model->header->start_mono_ns;
    return mono_ns > start ? (int64_t)(mono_ns - start) : 0;
}

static int64_t cycle_at(struct tide_page *d, uint32_t row)
{
    return since_start(d, d->model->cycles[row].record->atomic_mono_ns);
}

static int64_t cycle_end(struct tide_page *d, uint32_t row)
{
    return since_start(d, d->model->cycles[row].record->end_mono_ns);
}

static int64_t cycle_before(struct tide_page *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->before_bytes;
}

static int64_t cycle_after(struct tide_page *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->after_bytes;
}

static int64_t cycle_freed(struct tide_page *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->freed_bytes;
}

static int64_t cycle_blocks(struct tide_page *d, uint32_t row)
{
    return (int64_t)d->model->cycles[row].record->freed_blocks;
}

static int64_t cycle_mode(struct tide_page *d, uint32_t row)
{
    return d->model->cycles[row].record->mode;
}

static int64_t cycle_cause(struct tide_page *d, uint32_t row)
{
    return d->model->cycles[row].record->cause;
}

/* What ran, as a row of lines: those of the new run keep their numbers. */
static int64_t cycle_line(struct tide_page *d, uint32_t row)
{
    return d->is_base ? 0 : d->model->cycles[row].line_row;
}

static void put_cycles(struct tide_page *d)
{
    const uint32_t n = d->model->n_cycles;
    tideR_json_open(d->json, "cycles", '{');
    tideR_page_column(d, "n", n, cycle_n);
    tideR_page_column(d, "at", n, cycle_at);
    tideR_page_column(d, "end", n, cycle_end);
    tideR_page_column(d, "before", n, cycle_before);
    tideR_page_column(d, "after", n, cycle_after);
    tideR_page_column(d, "freed", n, cycle_freed);
    tideR_page_column(d, "blocks", n, cycle_blocks);
    tideR_page_column(d, "mode", n, cycle_mode);
    tideR_page_column(d, "cause", n, cycle_cause);
    tideR_page_column(d, "line", n, cycle_line);
    tideR_json_close(d->json, '}');
}

/* The heap that a timeline is of; NULL: there are several, or none. */
static const struct tide_p_view *timed_heap(const struct tide_page *d)
{
    return tideP_reader_n_heaps(d->model->profile) == 1
               ? tideP_reader_heap(d->model->profile, 0)
               : NULL;
}

static int64_t moment_at(struct tide_page *d, uint32_t row)
{
    return since_start(d, timed_heap(d)->moments[row].mono_ns);
}

static int64_t moment_live(struct tide_page *d, uint32_t row)
{
    return (int64_t)timed_heap(d)->moments[row].live_bytes;
}

static void put_moments(struct tide_page *d)
{
    const struct tide_p_view *view = timed_heap(d);
    const uint32_t n = view != NULL ? view->n_moments : 0;
    tideR_json_open(d->json, "moments", '{');
    tideR_page_column(d, "at", n, moment_at);
    tideR_page_column(d, "live", n, moment_live);
    tideR_json_close(d->json, '}');
}

static void total_counts(const struct tide_page *d, uint32_t row,
                         struct tide_r_counts *out)
{
    (void)row;
    *out = d->model->totals;
}

static void kind_counts(const struct tide_page *d, uint32_t row,
                        struct tide_r_counts *out)
{
    *out = d->model->kinds[row];
}

static void put_gc(struct tide_page *d)
{
    const struct tide_r_gc *gc = &d->model->gc;
    tideR_json_open(d->json, "gc", '{');
    tideR_json_str(d->json, "mode", gc->mode);
    tideR_json_int(d->json, "cycles", (int64_t)gc->cycles);
    tideR_json_int(d->json, "explicit", (int64_t)gc->n_explicit);
    tideR_json_int(d->json, "emergency", (int64_t)gc->n_emergency);
    tideR_json_real(d->json, "kb_per_s", gc->alloc_kb_s);
    tideR_json_real(d->json, "cycles_per_min", gc->cycles_min);
    tideR_json_real(d->json, "last_kb", gc->last_kb);
    tideR_json_real(d->json, "average_kb", gc->average_kb);
    tideR_json_real(d->json, "reclaimed_kb", gc->reclaimed_kb);
    tideR_json_close(d->json, '}');
}

static void put_findings(struct tide_page *d)
{
    tideR_json_open(d->json, "findings", '[');
    for (uint32_t i = 0; i < d->model->n_findings; i++) {
        const struct tide_r_finding *finding = &d->model->findings[i];
        tideR_json_open(d->json, NULL, '{');
        tideR_json_str(d->json, "kind", finding->kind);
        tideR_json_str(d->json, "text", finding->text);
        tideR_json_int(d->json, "line", d->is_base ? 0 : finding->line_row);
        tideR_json_int(d->json, "bytes", (int64_t)finding->bytes);
        tideR_json_close(d->json, '}');
    }
    tideR_json_close(d->json, ']');
}

static void put_run(struct tide_page *d, const char *path)
{
    const struct tide_p_header *h = d->model->header;
    tideR_json_open(d->json, NULL, '{');
    tideR_json_str(d->json, "path", path);
    tideR_json_command(d->json, h);
    tideR_json_field(d->json, "program", h->program, sizeof h->program);
    tideR_json_int(d->json, "pid", h->pid);
    tideR_json_field(d->json, "lua", h->lua, sizeof h->lua);
    tideR_json_int(d->json, "started", (int64_t)(h->start_unix_ns / 1000000));
    tideR_json_real(d->json, "seconds", d->model->seconds);
    tideR_json_int(d->json, "tier", h->tier);
    tideR_json_field(d->json, "tier_reason", h->tier_reason,
                     sizeof h->tier_reason);
    tideR_json_int(d->json, "states", (int64_t)d->model->n_states);
    tideR_json_bool(d->json, "complete", d->model->is_complete);
    tideR_json_int(d->json, "rss_peak", (int64_t)h->rss_peak_bytes);
    tideR_json_int(d->json, "unattributed",
                   (int64_t)d->model->unattributed.alloc_bytes);
    tideR_json_int(d->json, "before_attach", (int64_t)d->model->before_bytes);
    tideR_json_open(d->json, "totals", '{');
    tideR_page_counts(d, 1, total_counts);
    tideR_json_close(d->json, '}');
    tideR_json_open(d->json, "kinds", '{');
    tideR_page_counts(d, TIDE_KIND_COUNT_, kind_counts);
    tideR_json_close(d->json, '}');
    put_gc(d);
    put_cycles(d);
    put_moments(d);
    put_findings(d);
    tideR_json_close(d->json, '}');
}

void tideR_page_runs(struct tide_page *d)
{
    tideR_json_open(d->json, "runs", '[');
    tideR_page_side(d, false);
    put_run(d, d->look->path);
    if (d->diff->base_or_null != NULL) {
        tideR_page_side(d, true);
        put_run(d, d->look->base_path);
    }
    tideR_json_close(d->json, ']');
}
