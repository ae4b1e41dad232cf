/*
** openmetrics.c: the sums of a profile as OpenMetrics text, version 1.0, for
** Prometheus and what reads its format.
**
**   # TYPE name gauge|counter
**   # UNIT name bytes|seconds
**   # HELP name text
**   name[_total][{kind="K"}] value
**   # EOF
**
** Counters end in _total, units are a part of the name.
*/
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export_impl.h"

struct metric {
    const char *name;
    const char *unit; /* "" for none */
    bool is_counter;
    const char *help;
};

static void put_head(struct tide_r_sink *sink, const struct metric *metric)
{
    tideR_printf(sink, "# TYPE %s %s\n", metric->name,
                 metric->is_counter ? "counter" : "gauge");
    if (metric->unit[0] != '\0')
        tideR_printf(sink, "# UNIT %s %s\n", metric->name, metric->unit);
    tideR_printf(sink, "# HELP %s %s\n", metric->name, metric->help);
}

static void put_whole(struct tide_r_sink *sink, const struct metric *metric,
                      uint64_t value)
{
    put_head(sink, metric);
    tideR_printf(sink, "%s%s %" PRIu64 "\n", metric->name,
                 metric->is_counter ? "_total" : "", value);
}

static void put_real(struct tide_r_sink *sink, const struct metric *metric,
                     double value)
{
    put_head(sink, metric);
    tideR_printf(sink, "%s%s %.9g\n", metric->name,
                 metric->is_counter ? "_total" : "", value);
}

/* One sample for each kind of blocks. */
static void put_kinds(struct tide_r_sink *sink, const struct metric *metric,
                      const struct tide_model *model,
                      uint64_t (*value)(const struct tide_r_counts *counts))
{
    put_head(sink, metric);
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++)
        tideR_printf(sink, "%s%s{kind=\"%s\"} %" PRIu64 "\n", metric->name,
                     metric->is_counter ? "_total" : "", tideC_kind_name(i),
                     value(&model->kinds[i]));
}

static uint64_t allocated_bytes(const struct tide_r_counts *counts)
{
    return counts->alloc_bytes;
}

static uint64_t allocated_blocks(const struct tide_r_counts *counts)
{
    return counts->alloc_blocks;
}

static uint64_t freed_bytes(const struct tide_r_counts *counts)
{
    return counts->freed_bytes;
}

static uint64_t live_bytes(const struct tide_r_counts *counts)
{
    return counts->live_bytes;
}

static uint64_t live_blocks(const struct tide_r_counts *counts)
{
    return counts->live_blocks;
}

static void put_heap(struct tide_r_sink *sink, const struct tide_model *model)
{
    put_kinds(sink,
              &(struct metric){"lua_alloc_bytes", "bytes", true,
                               "Bytes allocated by Lua."},
              model, allocated_bytes);
    put_kinds(sink,
              &(struct metric){"lua_alloc_blocks", "", true,
                               "Blocks allocated by Lua."},
              model, allocated_blocks);
    put_kinds(sink,
              &(struct metric){"lua_freed_bytes", "bytes", true,
                               "Of the allocated bytes those freed."},
              model, freed_bytes);
    put_kinds(sink,
              &(struct metric){"lua_heap_used_bytes", "bytes", false,
                               "Bytes held by Lua."},
              model, live_bytes);
    put_kinds(
        sink,
        &(struct metric){"lua_heap_objects", "", false, "Blocks held by Lua."},
        model, live_blocks);
    put_whole(sink,
              &(struct metric){"lua_heap_peak_bytes", "bytes", false,
                               "Most bytes held at once."},
              model->totals.peak_bytes);
    put_whole(sink,
              &(struct metric){"lua_alloc_failures", "", true,
                               "Allocations that failed."},
              model->failed_blocks);
}

static void put_collector(struct tide_r_sink *sink,
                          const struct tide_model *model)
{
    const struct tide_r_gc *gc = &model->gc;
    put_whole(
        sink,
        &(struct metric){"lua_gc_cycles", "", true, "Collection cycles seen."},
        gc->cycles);
    put_whole(sink,
              &(struct metric){"lua_gc_reclaimed_bytes", "bytes", true,
                               "Bytes that collections freed."},
              (uint64_t)(gc->reclaimed_kb * 1024 + 0.5));
    put_real(sink,
             &(struct metric){"lua_gc_explicit_seconds", "seconds", true,
                              "Time inside collections that were asked for."},
             gc->collect_s);
}

enum tide_err tideR_put_openmetrics(const struct tide_model *model, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    put_heap(&sink, model);
    put_collector(&sink, model);
    put_whole(
        &sink,
        &(struct metric){"lua_states", "", false, "Lua states that were made."},
        model->n_states);
    put_real(&sink,
             &(struct metric){"lua_profile_seconds", "seconds", false,
                              "Length of the run so far."},
             model->seconds);
    tideR_puts(&sink, "# EOF\n");
    return tideR_sink_finish(&sink);
}
