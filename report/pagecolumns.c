/*
** pagecolumns.c: lists of the page's data, column by column.
*/
#include <string.h>

#include "page_impl.h"

static const struct {
    const char *key;
    size_t offset;
} counters[] = {
    {"alloc", offsetof(struct tide_r_counts, alloc_bytes)},
    {"blocks", offsetof(struct tide_r_counts, alloc_blocks)},
    {"freed", offsetof(struct tide_r_counts, freed_bytes)},
    {"live", offsetof(struct tide_r_counts, live_bytes)},
    {"live_blocks", offsetof(struct tide_r_counts, live_blocks)},
    {"peak", offsetof(struct tide_r_counts, peak_bytes)},
    {"young", offsetof(struct tide_r_counts, young_bytes)},
};
#define N_COUNTERS (sizeof counters / sizeof counters[0])

void tideR_page_column(struct tide_page *d, const char *key, uint32_t n,
                       tide_page_column_fn fn)
{
    tideR_json_break(d->json);
    tideR_json_open(d->json, key, '[');
    for (uint32_t i = 0; i < n; i++)
        tideR_json_int(d->json, NULL, fn(d, i));
    tideR_json_close(d->json, ']');
}

void tideR_page_counts(struct tide_page *d, uint32_t n, tide_page_counts_fn fn)
{
    for (size_t c = 0; c < N_COUNTERS; c++) {
        tideR_json_break(d->json);
        tideR_json_open(d->json, counters[c].key, '[');
        for (uint32_t i = 0; i < n; i++) {
            struct tide_r_counts counts = {0};
            uint64_t v;
            fn(d, i, &counts);
            memcpy(&v, (const char *)&counts + counters[c].offset, sizeof v);
            tideR_json_int(d->json, NULL, (int64_t)v);
        }
        tideR_json_close(d->json, ']');
    }
}

/* How old it was when it was freed: what is older than young. */
void tideR_page_ages(struct tide_page *d, uint32_t n, tide_page_counts_fn fn)
{
    static const char *const keys[TIDE_R_AGES] = {NULL, "once", "twice",
                                                  "older"};
    for (unsigned age = 1; age < TIDE_R_AGES; age++) {
        tideR_json_break(d->json);
        tideR_json_open(d->json, keys[age], '[');
        for (uint32_t i = 0; i < n; i++) {
            struct tide_r_counts counts = {0};
            uint64_t ages[TIDE_R_AGES];
            fn(d, i, &counts);
            tideR_ages(&counts, false, ages);
            tideR_json_int(d->json, NULL, (int64_t)ages[age]);
        }
        tideR_json_close(d->json, ']');
    }
}

/* Chooses the run that counters are taken from. */
void tideR_page_side(struct tide_page *d, bool is_base)
{
    d->is_base = is_base;
    d->model = is_base ? d->diff->base_or_null : d->diff->now;
}

/* Counters of the new run and, where there is one, of the base. */
void tideR_page_both(struct tide_page *d, uint32_t n, tide_page_counts_fn fn,
                     void (*more)(struct tide_page *d))
{
    const unsigned n_runs = d->diff->base_or_null != NULL ? 2 : 1;
    for (unsigned i = 0; i < n_runs; i++) {
        tideR_page_side(d, i == 1);
        tideR_json_open(d->json, i == 1 ? "base" : "now", '{');
        tideR_page_counts(d, n, fn);
        if (more != NULL)
            more(d);
        tideR_json_close(d->json, '}');
    }
}

int64_t tideR_page_runs_of(struct tide_r_pair pair)
{
    return (pair.now != TIDE_R_NONE ? 1 : 0) |
           (pair.base != TIDE_R_NONE ? 2 : 0);
}

/* The row of the run being written; NONE: not in it. */
uint32_t tideR_page_side_of(const struct tide_page *d, struct tide_r_pair pair)
{
    return d->is_base ? pair.base : pair.now;
}

/* The number of a text in "strings". */
int64_t tideR_page_string(struct tide_page *d, const struct tide_model *model,
                          uint32_t string)
{
    size_t n;
    uint32_t out = 0;
    const char *text = tideR_model_text(model, string, &n);
    const enum tide_err err = tideR_strtab_put(&d->strings, text, n, &out);
    if (err != TIDE_OK)
        d->err = err;
    return out;
}
