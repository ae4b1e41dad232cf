/*
** livecolumns.c: the columns of the live table, what they show and sort by.
*/
#include <stdio.h>
#include <string.h>

#include "live_impl.h"

#define SECTION_END TIDE_R_COL_COUNT_ /* ends a list of columns */

static const struct tide_r_column_info infos[TIDE_R_COL_COUNT_] = {
    [TIDE_R_COL_SHARE] = {"share", "share", 6, "share of all bytes shown so"},
    [TIDE_R_COL_ALLOC] = {"alloc", "allocated", 9, "bytes allocated"},
    [TIDE_R_COL_TOTAL] = {"total", "total", 8,
                          "by the function and what it called"},
    [TIDE_R_COL_RATE] = {"rate", "rate", 10, "bytes allocated by second"},
    [TIDE_R_COL_CALLS] = {"calls", "calls", 9, "calls that allocated"},
    [TIDE_R_COL_PER_CALL] = {"per_call", "B/call", 8, "bytes by call"},
    [TIDE_R_COL_WORST] = {"worst", "worst", 8, "bytes of the worst call"},
    [TIDE_R_COL_LIVE] = {"live", "live", 8, "bytes held now"},
    [TIDE_R_COL_LIVE_BLOCKS] = {"live_blocks", "live blks", 9,
                                "blocks held now"},
    [TIDE_R_COL_BLOCKS] = {"blocks", "blocks", 9, "blocks allocated"},
    [TIDE_R_COL_PEAK] = {"peak", "peak", 8, "bytes held at the heap's peak"},
    [TIDE_R_COL_YOUNG] = {"young", "young", 6,
                          "share that died before a cycle"},
    [TIDE_R_COL_NAME] = {"name", "function", 0, "name of the function"},
    [TIDE_R_COL_SOURCE] = {"source", "line", 0, "source and line"},
    [TIDE_R_COL_GROUP] = {"group", "group", 0,
                          "source file, module or library"},
};

static const enum tide_r_column
    orders[TIDE_R_METRIC_COUNT_][TIDE_R_COL_COUNT_] = {
        [TIDE_R_METRIC_ALLOC] = {TIDE_R_COL_SHARE, TIDE_R_COL_ALLOC,
                                 TIDE_R_COL_TOTAL, TIDE_R_COL_LIVE,
                                 TIDE_R_COL_RATE, TIDE_R_COL_BLOCKS,
                                 TIDE_R_COL_CALLS, TIDE_R_COL_PER_CALL,
                                 TIDE_R_COL_WORST, TIDE_R_COL_PEAK,
                                 TIDE_R_COL_LIVE_BLOCKS, TIDE_R_COL_YOUNG,
                                 SECTION_END},
        [TIDE_R_METRIC_LIVE] = {TIDE_R_COL_SHARE, TIDE_R_COL_LIVE,
                                TIDE_R_COL_LIVE_BLOCKS, TIDE_R_COL_ALLOC,
                                TIDE_R_COL_RATE, TIDE_R_COL_PEAK,
                                TIDE_R_COL_TOTAL, TIDE_R_COL_BLOCKS,
                                TIDE_R_COL_CALLS, TIDE_R_COL_PER_CALL,
                                TIDE_R_COL_WORST, TIDE_R_COL_YOUNG,
                                SECTION_END},
        [TIDE_R_METRIC_RATE] = {TIDE_R_COL_SHARE, TIDE_R_COL_RATE,
                                TIDE_R_COL_ALLOC, TIDE_R_COL_TOTAL,
                                TIDE_R_COL_LIVE, TIDE_R_COL_CALLS,
                                TIDE_R_COL_PER_CALL, TIDE_R_COL_WORST,
                                TIDE_R_COL_BLOCKS, TIDE_R_COL_PEAK,
                                TIDE_R_COL_LIVE_BLOCKS, TIDE_R_COL_YOUNG,
                                SECTION_END},
};

const struct tide_r_column_info *tideR_column_info(enum tide_r_column column)
{
    return &infos[column];
}

/* Whether rows of a list have such a figure. */
static bool has_column(enum tide_r_by by, enum tide_r_column column)
{
    switch (column) {
    case TIDE_R_COL_TOTAL:
        return by == TIDE_R_BY_FUNCTION;
    case TIDE_R_COL_CALLS:
    case TIDE_R_COL_PER_CALL:
    case TIDE_R_COL_WORST:
        return by != TIDE_R_BY_GROUP;
    default:
        return true;
    }
}

unsigned tideR_columns_of(enum tide_r_by by, enum tide_r_metric metric,
                          enum tide_r_column out[TIDE_R_COL_COUNT_])
{
    unsigned n = 0;
    for (unsigned i = 0; orders[metric][i] != SECTION_END; i++)
        if (has_column(by, orders[metric][i]))
            out[n++] = orders[metric][i];
    return n;
}

/* The figure that a metric is about. */
static double metric_value(enum tide_r_metric metric,
                           const struct tide_r_live_row *row)
{
    switch (metric) {
    case TIDE_R_METRIC_LIVE:
        return (double)row->counts.live_bytes;
    case TIDE_R_METRIC_RATE:
        return row->rate;
    default:
        return (double)row->counts.alloc_bytes;
    }
}

double tideR_live_value(enum tide_r_metric metric,
                        const struct tide_r_live_row *row,
                        enum tide_r_column column)
{
    const struct tide_r_counts *c = &row->counts;
    switch (column) {
    case TIDE_R_COL_ALLOC:
        return (double)c->alloc_bytes;
    case TIDE_R_COL_TOTAL:
        return (double)row->total_bytes;
    case TIDE_R_COL_RATE:
        return row->rate;
    case TIDE_R_COL_CALLS:
        return (double)row->calls;
    case TIDE_R_COL_PER_CALL:
        return (double)row->per_call;
    case TIDE_R_COL_WORST:
        return (double)row->worst;
    case TIDE_R_COL_LIVE:
        return (double)c->live_bytes;
    case TIDE_R_COL_LIVE_BLOCKS:
        return (double)c->live_blocks;
    case TIDE_R_COL_BLOCKS:
        return (double)c->alloc_blocks;
    case TIDE_R_COL_PEAK:
        return (double)c->peak_bytes;
    case TIDE_R_COL_YOUNG:
        return c->alloc_bytes == 0
                   ? 0
                   : (double)c->young_bytes / (double)c->alloc_bytes;
    default:
        return metric_value(metric, row);
    }
}

static void put_rate(double rate, char out[TIDE_R_UNIT_MAX])
{
    char text[TIDE_R_UNIT_MAX - 2];
    char whole[TIDE_R_UNIT_MAX];
    snprintf(text, sizeof text, "%s",
             tideR_bytes_text((int64_t)(rate + 0.5), whole));
    snprintf(out, TIDE_R_UNIT_MAX, "%s/s", text);
}

const char *tideR_live_text(const struct tide_r_live_query *query,
                            const struct tide_r_live_rows *rows,
                            const struct tide_r_live_row *row,
                            enum tide_r_column column,
                            char out[TIDE_R_UNIT_MAX])
{
    const double value = tideR_live_value(query->metric, row, column);
    out[0] = '\0';
    if (infos[column].width == 0 ||
        (row->n_rows > 0 &&
         (column == TIDE_R_COL_CALLS || column == TIDE_R_COL_PER_CALL ||
          column == TIDE_R_COL_WORST || column == TIDE_R_COL_TOTAL)))
        return out;
    switch (column) {
    case TIDE_R_COL_SHARE:
        return tideR_share_text((int64_t)value, (int64_t)rows->whole_bytes,
                                out);
    case TIDE_R_COL_YOUNG:
        return tideR_share_text((int64_t)row->counts.young_bytes,
                                (int64_t)row->counts.alloc_bytes, out);
    case TIDE_R_COL_RATE:
        put_rate(value, out);
        return out;
    case TIDE_R_COL_CALLS:
    case TIDE_R_COL_BLOCKS:
    case TIDE_R_COL_LIVE_BLOCKS:
        return tideR_count_text((int64_t)value, out);
    case TIDE_R_COL_PER_CALL:
        if (row->calls == 0)
            return strcpy(out, "-");
        return tideR_bytes_text((int64_t)value, out);
    default:
        return tideR_bytes_text((int64_t)value, out);
    }
}
