/*
** difftext.c: a diff as tables to read.
**
** First both runs and their sums, then the rows that changed by more than the
** noise.  A change has a sign, so that the colours (red is more, green is
** less) say nothing that the text does not.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "diffrows.h"
#include "text_impl.h"

#define LABEL_LEAST 24u /* columns of "source:line function" */
#define LABEL_MAX   (3 * TIDE_P_STRING_MAX + 64)

#define RED   "\x1b[31m"
#define GREEN "\x1b[32m"
#define PLAIN "\x1b[0m"

enum unit {
    UNIT_BYTES = 0,
    UNIT_COUNT
};

/* A column: the change of one figure, or one side of it. */
struct column {
    const char *title;
    unsigned width;
    unsigned from_columns; /* shown on pages that are at least so wide */
    enum tide_r_sort key;
    enum unit unit;
};

static const struct column more_columns[] = {
    {"blocks", 10, 100, TIDE_R_SORT_BLOCKS, UNIT_COUNT},
    {"live", 9, 100, TIDE_R_SORT_LIVE, UNIT_BYTES},
    {"B/call", 9, 124, TIDE_R_SORT_PER_CALL, UNIT_BYTES},
    {"calls", 10, 140, TIDE_R_SORT_CALLS, UNIT_COUNT},
    {"worst", 9, 150, TIDE_R_SORT_WORST, UNIT_BYTES},
    {"peak", 9, 160, TIDE_R_SORT_PEAK, UNIT_BYTES},
};
#define N_MORE (sizeof more_columns / sizeof more_columns[0])

static enum unit unit_of(enum tide_r_sort sort)
{
    return sort == TIDE_R_SORT_BLOCKS || sort == TIDE_R_SORT_LIVE_BLOCKS ||
                   sort == TIDE_R_SORT_CALLS
               ? UNIT_COUNT
               : UNIT_BYTES;
}

static const char *value_text(enum unit unit, int64_t value, char *out)
{
    return unit == UNIT_BYTES ? tideR_bytes_text(value, out)
                              : tideR_count_text(value, out);
}

/* "+12.3 KiB", "-1", "0". */
static const char *change_text(enum unit unit, uint64_t base, uint64_t now,
                               char out[2 * TIDE_R_UNIT_MAX])
{
    char text[TIDE_R_UNIT_MAX];
    const uint64_t by = now > base ? now - base : base - now;
    value_text(unit, (int64_t)by, text);
    snprintf(out, (size_t)2 * TIDE_R_UNIT_MAX, "%s%s",
             now > base   ? "+"
             : now < base ? "-"
                          : "",
             by == 0 ? "0" : text);
    return out;
}

static const char *percent_text(uint64_t base, uint64_t now,
                                char out[TIDE_R_UNIT_MAX])
{
    if (base == 0)
        snprintf(out, TIDE_R_UNIT_MAX, "%s", now == 0 ? "-" : "new");
    else if (now / base >= 100)
        snprintf(out, TIDE_R_UNIT_MAX, "x%" PRIu64, now / base);
    else
        snprintf(out, TIDE_R_UNIT_MAX, "%+.1f%%",
                 100 * ((double)now - (double)base) / (double)base);
    return out;
}

/* Writes a cell in the colour of its change. */
static void put_change(const struct tide_r_page *page, unsigned width,
                       enum unit unit, uint64_t base, uint64_t now)
{
    char text[2 * TIDE_R_UNIT_MAX];
    const bool has_colour =
        page->look->has_colour && !tideR_diff_is_noise(base, now);
    if (has_colour)
        tideR_puts(page->sink, now > base ? RED : GREEN);
    tideR_printf(page->sink, "%*s", (int)width,
                 change_text(unit, base, now, text));
    if (has_colour)
        tideR_puts(page->sink, PLAIN);
    tideR_puts(page->sink, "  ");
}

/* ---- both runs ---------------------------------------------------------- */

static void put_run(const struct tide_r_page *page, const char *title,
                    const struct tide_model *model)
{
    const struct tide_p_header *header = model->header;
    char text[sizeof header->command];
    char length[TIDE_R_UNIT_MAX];
    char bytes[TIDE_R_UNIT_MAX];
    char blocks[TIDE_R_UNIT_MAX];
    const size_t n = tideR_command_text(model, text);
    tideR_paint(page, TIDE_R_BOLD);
    tideR_puts(page->sink, title);
    tideR_put_cell(page, text, n, page->columns - 6, TIDE_R_CUT_TAIL, false);
    tideR_paint(page, TIDE_R_PLAIN);
    if (tideR_is_import(model)) {
        tideR_printf(
            page->sink, "\n      %.*s; %s, length not known\n",
            (int)strnlen(header->tier_reason, sizeof header->tier_reason),
            header->tier_reason,
            tideR_bytes_text((int64_t)model->totals.alloc_bytes, bytes));
        return;
    }
    tideR_printf(page->sink, "\n      pid %" PRIu32 ", %s; %s in %s blocks%s\n",
                 header->pid,
                 tideR_duration_text((uint64_t)(model->seconds * 1e9), length),
                 tideR_bytes_text((int64_t)model->totals.alloc_bytes, bytes),
                 tideR_count_text((int64_t)model->totals.alloc_blocks, blocks),
                 model->is_complete ? "" : "; not complete");
}

static void put_sum(const struct tide_r_page *page, const char *name,
                    enum unit unit, uint64_t base, uint64_t now)
{
    char text[TIDE_R_UNIT_MAX];
    tideR_printf(page->sink, "%11s  ", value_text(unit, (int64_t)base, text));
    tideR_printf(page->sink, "%11s  ", value_text(unit, (int64_t)now, text));
    put_change(page, 12, unit, base, now);
    tideR_printf(page->sink, "%9s  %s\n", percent_text(base, now, text), name);
}

static void put_sums(const struct tide_r_page *page,
                     const struct tide_diff *diff)
{
    const struct tide_r_counts *b = &diff->base_or_null->totals;
    const struct tide_r_counts *n = &diff->now->totals;
    tideR_paint(page, TIDE_R_BOLD);
    tideR_printf(page->sink, "\n%11s  %11s  %12s  %9s", "base", "new", "change",
                 "");
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_puts(page->sink, "\n");
    put_sum(page, "allocated", UNIT_BYTES, b->alloc_bytes, n->alloc_bytes);
    put_sum(page, "blocks", UNIT_COUNT, b->alloc_blocks, n->alloc_blocks);
    put_sum(page, "live at the end", UNIT_BYTES, b->live_bytes, n->live_bytes);
    put_sum(page, "peak", UNIT_BYTES, b->peak_bytes, n->peak_bytes);
    put_sum(page, "allocated per second", UNIT_BYTES,
            (uint64_t)(diff->base_or_null->gc.alloc_kb_s * 1024),
            (uint64_t)(diff->now->gc.alloc_kb_s * 1024));
    put_sum(page, "collector's cycles", UNIT_COUNT,
            diff->base_or_null->gc.cycles, diff->now->gc.cycles);
}

static void put_advice(const struct tide_r_page *page,
                       const struct tide_diff *diff)
{
    const bool is_known =
        !tideR_is_import(diff->base_or_null) && !tideR_is_import(diff->now);
    tideR_puts(page->sink, "\n");
    tideR_put_wrapped(
        page, "", "  ",
        !is_known ? "How long a run took is not known: compare B/call and "
                    "worst; totals grow with the time."
        : tideR_diff_is_fair(diff)
            ? "The runs took about as long: all columns may be compared."
            : "The runs differ in length: compare figures per second, B/call "
              "and worst; totals grow with the time.");
    tideR_put_wrapped(
        page, "", "  ",
        diff->has_texts
            ? "Rows are matched by the text of their lines."
            : "Rows are matched by their place in their function, since the "
              "sources are not at hand as they were.");
}

/* ---- rows --------------------------------------------------------------- */

static size_t target_label(const struct tide_diff *diff,
                           const struct tide_r_drow *row, char *out)
{
    const struct tide_r_target *t = tideR_diff_target(diff, row->pair);
    const struct tide_model *model =
        tideR_diff_model(diff, diff->targets[row->pair]);
    const char *group =
        tideR_strtab_text(&model->strings, model->groups[t->group].name);
    const char *name = tideR_strtab_text(&model->strings, t->name);
    const char *source = tideR_strtab_text(&model->strings, t->source);
    int n;
    if (t->linedefined > 0)
        n = snprintf(out, LABEL_MAX, "%s  %s  %s:%" PRIu32, group, name, source,
                     t->linedefined);
    else
        n = snprintf(out, LABEL_MAX, "%s  %s",
                     t->sort == TIDE_R_TARGET_REST ? "-" : group, name);
    return n < 0 ? 0 : (size_t)n < LABEL_MAX ? (size_t)n : LABEL_MAX - 1;
}

static size_t label_of(const struct tide_diff *diff, enum tide_r_by by,
                       const struct tide_r_drow *row, char *out)
{
    int n = 0;
    if (by == TIDE_R_BY_KIND) {
        n = snprintf(out, LABEL_MAX, "%s", tideC_kind_name(row->pair));
        return (size_t)n;
    }
    if (by == TIDE_R_BY_TARGET)
        return target_label(diff, row, out);
    const bool is_line = by == TIDE_R_BY_LINE;
    const struct tide_r_pair pair =
        is_line ? diff->lines[row->pair] : diff->funcs[row->pair];
    const struct tide_model *model = tideR_diff_model(diff, pair);
    const uint32_t index = model == diff->now ? pair.now : pair.base;
    const struct tide_r_func *func =
        is_line ? tideR_line_func(model, &model->lines[index])
                : &model->funcs[index];
    const char *name = tideR_strtab_text(&model->strings, func->name);
    const char *source = tideR_strtab_text(&model->strings, func->source);
    if (is_line)
        n = snprintf(out, LABEL_MAX, "%s:%" PRIu32 "  %s", source,
                     model->lines[index].line, name);
    else if (func->linedefined > 0)
        n = snprintf(out, LABEL_MAX, "%s  %s:%" PRIu32, name, source,
                     func->linedefined);
    else
        n = snprintf(out, LABEL_MAX, "%s", name);
    return n < 0 ? 0 : (size_t)n < LABEL_MAX ? (size_t)n : LABEL_MAX - 1;
}

static bool is_shown(const struct tide_r_page *page,
                     const struct column *column)
{
    return page->columns >= column->from_columns &&
           column->key != page->query->sort;
}

static void put_titles(const struct tide_r_page *page, enum tide_r_by by)
{
    static const char *const names[TIDE_R_BY_COUNT_] = {
        [TIDE_R_BY_LINE] = "line and function",
        [TIDE_R_BY_FUNCTION] = "function",
        [TIDE_R_BY_KIND] = "kind",
        [TIDE_R_BY_TARGET] = "group and target",
    };
    tideR_paint(page, TIDE_R_BOLD);
    tideR_printf(page->sink, "%10s  %9s  %9s  %8s  ", "change", "base", "new",
                 "");
    for (size_t i = 0; i < N_MORE; i++)
        if (is_shown(page, &more_columns[i]))
            tideR_printf(page->sink, "%*s  ", (int)more_columns[i].width,
                         more_columns[i].title);
    tideR_puts(page->sink, names[by]);
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_puts(page->sink, "\n");
}

static void put_row(const struct tide_r_page *page,
                    const struct tide_diff *diff, enum tide_r_by by,
                    const struct tide_r_drow *row, char *label)
{
    const enum tide_r_sort sort = page->query->sort;
    const uint64_t base = tideR_side_key(&row->base, sort);
    const uint64_t now = tideR_side_key(&row->now, sort);
    char text[TIDE_R_UNIT_MAX];
    unsigned used = 10 + 9 + 9 + 8 + 8;
    put_change(page, 10, unit_of(sort), base, now);
    tideR_printf(page->sink, "%9s  ",
                 row->has_base ? value_text(unit_of(sort), (int64_t)base, text)
                               : "-");
    tideR_printf(page->sink, "%9s  ",
                 row->has_now ? value_text(unit_of(sort), (int64_t)now, text)
                              : "-");
    tideR_printf(page->sink, "%8s  ",
                 !row->has_now ? "(gone)" : percent_text(base, now, text));
    for (size_t i = 0; i < N_MORE; i++) {
        const struct column *c = &more_columns[i];
        if (!is_shown(page, c))
            continue;
        put_change(page, c->width, c->unit, tideR_side_key(&row->base, c->key),
                   tideR_side_key(&row->now, c->key));
        used += c->width + 2;
    }
    const size_t n = label_of(diff, by, row, label);
    const unsigned left =
        page->columns > used + LABEL_LEAST ? page->columns - used : LABEL_LEAST;
    tideR_put_cell(page, label, n, left,
                   by == TIDE_R_BY_LINE ? TIDE_R_CUT_HEAD : TIDE_R_CUT_TAIL,
                   false);
    tideR_puts(page->sink, "\n");
}

static enum tide_err put_rows(const struct tide_r_page *page,
                              const struct tide_diff *diff, enum tide_r_by by)
{
    struct tide_r_dpick pick;
    char *label = malloc(LABEL_MAX);
    TIDE_FAIL_IF(label == NULL, TIDE_ERR_NOMEM);
    const enum tide_err err = tideR_dpick(diff, by, page->query, false, &pick);
    if (err == TIDE_OK) {
        tideR_printf(page->sink, "\n%s by change of %s%s\n",
                     by == TIDE_R_BY_LINE       ? "lines"
                     : by == TIDE_R_BY_FUNCTION ? "functions"
                     : by == TIDE_R_BY_TARGET   ? "targets"
                                                : "kinds",
                     tideR_sort_words(page->query->sort),
                     page->query->is_reversed ? ", reversed" : "");
        put_titles(page, by);
        for (uint32_t i = 0; i < pick.n; i++)
            put_row(page, diff, by, &pick.rows[i], label);
        tideR_printf(page->sink,
                     "\n%" PRIu32 " of %" PRIu32 " changed rows shown; %" PRIu32
                     " changed by no more than 1%%, as identical runs do\n",
                     pick.n, pick.n_changed, pick.n_noise);
    }
    tideR_dpick_close(&pick);
    free(label);
    return err;
}

static unsigned columns_of(const struct tide_r_look *look)
{
    return look->columns == 0                   ? 80
           : look->columns < TIDE_R_COLUMNS_MIN ? TIDE_R_COLUMNS_MIN
           : look->columns > TIDE_R_COLUMNS_MAX ? TIDE_R_COLUMNS_MAX
                                                : look->columns;
}

enum tide_err tideR_diff_text(const struct tide_diff *diff, enum tide_r_by by,
                              const struct tide_r_query *query,
                              const struct tide_r_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    const struct tide_r_page page = {
        .model = diff->now,
        .query = query,
        .look = look,
        .sink = &sink,
        .columns = columns_of(look),
    };
    put_run(&page, "base  ", diff->base_or_null);
    put_run(&page, "new   ", diff->now);
    put_sums(&page, diff);
    put_advice(&page, diff);
    TIDE_TRY(put_rows(&page, diff, by));
    return tideR_sink_finish(&sink);
}
