/*
** states.c: `tidemark report --by state`: a row for each heap of a profile.
**
** In JSON a row is
**   { "pid": n, "heap": n, "states": n, "open": bool, "alloc_bytes",
**     "alloc_blocks", "freed_bytes", "live_bytes", "live_blocks",
**     "peak_bytes", "gc_cycles" }
** Live figures are those before lua_close, as in all reports.
*/
#include "states.h"

#include <stdlib.h>

#include "emit.h"
#include "units.h"

struct state_row {
    uint32_t pid;
    uint32_t heap;     /* its number in the profile */
    uint32_t n_states; /* that used it in turn */
    uint32_t n_cycles;
    bool is_open;
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t freed_bytes;
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t peak_bytes;
};

static struct state_row read_state(const struct tide_model *model,
                                   uint32_t heap)
{
    const struct tide_p_heap *head =
        tideP_reader_heap(model->profile, heap)->head;
    const struct tide_r_counts *counts = &model->heaps[heap];
    return (struct state_row){
        .pid = head->pid != 0 ? head->pid : model->header->pid,
        .heap = heap,
        .n_states = head->n_states,
        .n_cycles = head->gc_cycle,
        .is_open = head->state == TIDE_P_HEAP_OPEN,
        .alloc_bytes = counts->alloc_bytes,
        .alloc_blocks = counts->alloc_blocks,
        .freed_bytes = counts->freed_bytes,
        .live_bytes = counts->live_bytes,
        .live_blocks = counts->live_blocks,
        .peak_bytes = counts->peak_bytes,
    };
}

static int compare_states(const void *a, const void *b)
{
    const struct state_row *x = a, *y = b;
    if (x->alloc_bytes != y->alloc_bytes)
        return x->alloc_bytes < y->alloc_bytes ? 1 : -1;
    return x->heap < y->heap ? -1 : x->heap > y->heap;
}

static void put_state(struct tide_r_sink *sink, const struct state_row *row)
{
    char text[4][TIDE_R_UNIT_MAX];
    tideR_printf(sink, "%8u %5u %7u %10s %10s %10s %10s %7u  %s\n", row->pid,
                 row->heap, row->n_states,
                 tideR_bytes_text((int64_t)row->alloc_bytes, text[0]),
                 tideR_bytes_text((int64_t)row->freed_bytes, text[1]),
                 tideR_bytes_text((int64_t)row->live_bytes, text[2]),
                 tideR_bytes_text((int64_t)row->peak_bytes, text[3]),
                 row->n_cycles, row->is_open ? "open" : "closed");
}

static void put_table(struct tide_r_sink *sink, const struct state_row *rows,
                      uint32_t n, uint32_t n_all)
{
    tideR_printf(sink, "%8s %5s %7s %10s %10s %10s %10s %7s\n", "process",
                 "heap", "states", "allocated", "freed", "live", "peak",
                 "cycles");
    for (uint32_t i = 0; i < n; i++)
        put_state(sink, &rows[i]);
    if (n < n_all)
        tideR_printf(sink, "%u more\n", n_all - n);
}

static void put_state_json(struct tide_r_json *json,
                           const struct state_row *row)
{
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    tideR_json_int(json, "pid", row->pid);
    tideR_json_int(json, "heap", row->heap);
    tideR_json_int(json, "states", row->n_states);
    tideR_json_bool(json, "open", row->is_open);
    tideR_json_int(json, "alloc_bytes", (int64_t)row->alloc_bytes);
    tideR_json_int(json, "alloc_blocks", (int64_t)row->alloc_blocks);
    tideR_json_int(json, "freed_bytes", (int64_t)row->freed_bytes);
    tideR_json_int(json, "live_bytes", (int64_t)row->live_bytes);
    tideR_json_int(json, "live_blocks", (int64_t)row->live_blocks);
    tideR_json_int(json, "peak_bytes", (int64_t)row->peak_bytes);
    tideR_json_int(json, "gc_cycles", row->n_cycles);
    tideR_json_close(json, '}');
}

static void put_states_json(struct tide_r_sink *sink,
                            const struct state_row *rows, uint32_t n)
{
    struct tide_r_json json = tideR_json_on(sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-states");
    tideR_json_int(&json, "version", 1);
    tideR_json_open(&json, "states", '[');
    for (uint32_t i = 0; i < n; i++)
        put_state_json(&json, &rows[i]);
    tideR_json_close(&json, ']');
    tideR_json_close(&json, '}');
    tideR_puts(sink, "\n");
}

enum tide_err tideR_states(const struct tide_model *model, uint32_t top,
                           bool as_json, FILE *out)
{
    const uint32_t n_all = tideP_reader_n_heaps(model->profile);
    const uint32_t n = top == 0 || top > n_all ? n_all : top;
    struct tide_r_sink sink = tideR_sink(out);
    struct state_row *rows = calloc((size_t)n_all + 1, sizeof *rows);
    TIDE_FAIL_IF(rows == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < n_all; i++)
        rows[i] = read_state(model, i);
    qsort(rows, n_all, sizeof *rows, compare_states);
    if (as_json)
        put_states_json(&sink, rows, n);
    else
        put_table(&sink, rows, n, n_all);
    free(rows);
    return tideR_sink_finish(&sink);
}
