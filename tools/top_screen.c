/*
** top_screen.c: the screen of `tidemark top`.
**
** From above: whose profile it is, the heap, the collector, the most important
** finding; the titles; the rows; one line of keys.  Names come from the
** profile and may hold anything: all texts go through top_put, which leaves
** nothing in them that a terminal would obey.
*/
#include <curses.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "top.h"

#define LABEL_LEAST  24u /* columns of the labels, where there are so many */
#define FINDING_ROWS 16  /* of a screen that has room for a finding */

/* ---- text --------------------------------------------------------------- */

/* What a terminal without UTF-8 gets for the rest. */
static void make_ascii(char *text)
{
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        const unsigned char c = (unsigned char)*from;
        if (c < 0x80)
            *to++ = (char)c;
        else if ((c & 0xC0) != 0x80)
            *to++ = '?';
    }
    *to = '\0';
}

unsigned top_put(const struct top *top, int y, int x, unsigned columns,
                 const char *text, size_t n, enum tide_r_cut cut)
{
    char cell[TIDE_R_CELL_MAX];
    const int left = COLS - x;
    if (y < 0 || y >= LINES || left < 2 || columns < 2)
        return 0;
    if (columns > (unsigned)left)
        columns = (unsigned)left;
    const unsigned used = tideR_fit(text, n, columns, cut, cell);
    if (!top->has_utf8)
        make_ascii(cell);
    mvaddstr(y, x, cell);
    return used;
}

/* A line that is put together piece by piece. */
struct pen {
    const struct top *top;
    int y;
    int x;
};

static TIDE_PRINTF(2, 3) void put(struct pen *pen, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    pen->x += (int)top_put(pen->top, pen->y, pen->x, (unsigned)COLS, text,
                           strlen(text), TIDE_R_CUT_TAIL);
}

static void set_colour(const struct top *top, enum top_colour colour)
{
    if (top->has_colour)
        attron(COLOR_PAIR(colour));
    else if (colour == TOP_BAD)
        attron(A_BOLD);
}

static void graded(struct pen *pen, enum top_colour colour, const char *text)
{
    set_colour(pen->top, colour);
    put(pen, "%s", text);
    attrset(A_NORMAL);
}

/* ---- the header --------------------------------------------------------- */

static void put_command(struct pen *pen, const struct tide_model *model)
{
    char text[sizeof model->header->command];
    const size_t n = tideR_title_text(model, text);
    const unsigned room = COLS > 40 ? (unsigned)COLS - 34 : 10;
    pen->x +=
        (int)top_put(pen->top, pen->y, pen->x, room, text, n, TIDE_R_CUT_TAIL);
}

static void put_life(struct pen *pen)
{
    const struct top *top = pen->top;
    put(pen, "  ");
    if (top->life == TOP_FINISHED)
        graded(pen, TOP_FAIR, "finished");
    else if (top->life == TOP_SAVED)
        graded(pen, TOP_FAIR, "a saved copy");
    else if (top->life == TOP_ENDED)
        graded(pen, TOP_BAD, "the process has ended");
    else if (top->is_off)
        graded(pen, TOP_FAIR, "not recording");
    else
        graded(pen, TOP_GOOD, "recording");
    if (top->is_paused)
        graded(pen, TOP_FAIR, "  paused");
}

/* Seconds of the run, so far. */
static double length_of(const struct top *top)
{
    const struct tide_p_header *header = top->model->header;
    const double start_s = (double)header->start_mono_ns / 1e9;
    if (top->life != TOP_RUNS || top->read_s < start_s)
        return top->model->seconds;
    return top->read_s - start_s;
}

static void draw_process(const struct top *top, int y)
{
    char text[TIDE_R_UNIT_MAX];
    struct pen pen = {top, y, 0};
    attron(A_BOLD);
    put_command(&pen, top->model);
    attrset(A_NORMAL);
    put(&pen, "  pid %" PRIu32, top->model->header->pid);
    put_life(&pen);
    put(&pen, "  %s",
        tideR_duration_text((uint64_t)(length_of(top) * 1e9), text));
}

static uint64_t rss_of(const struct tide_model *model)
{
    uint64_t rss = 0, at_ns = 0;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, i);
        for (uint32_t k = view->n_moments; k-- > 0;) {
            const struct tide_p_moment *moment = &view->moments[k];
            if (moment->rss_bytes == 0)
                continue;
            if (moment->mono_ns > at_ns) {
                at_ns = moment->mono_ns;
                rss = moment->rss_bytes;
            }
            break;
        }
    }
    return rss > 0 ? rss : model->header->rss_peak_bytes;
}

static bool has_leak(const struct tide_model *model)
{
    for (uint32_t i = 0; i < model->n_findings; i++)
        if (strcmp(model->findings[i].kind, "leak") == 0)
            return true;
    return false;
}

/* Targets that the program, or a rule, has named. */
static uint32_t n_named(const struct tide_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < model->n_targets; i++)
        n += model->targets[i].sort == TIDE_R_TARGET_NAMED ||
             model->targets[i].sort == TIDE_R_TARGET_REGION;
    return n;
}

static void draw_heap(const struct top *top, int y)
{
    const struct tide_model *model = top->model;
    const struct tide_r_counts *totals = &model->totals;
    char text[TIDE_R_UNIT_MAX];
    struct pen pen = {top, y, 0};
    put(&pen, "heap ");
    graded(&pen, has_leak(model) ? TOP_BAD : TOP_GOOD,
           tideR_bytes_text((int64_t)totals->live_bytes, text));
    put(&pen, "  peak %s", tideR_bytes_text((int64_t)totals->peak_bytes, text));
    put(&pen, "  allocated %s",
        tideR_bytes_text((int64_t)totals->alloc_bytes, text));
    put(&pen, " in %s blocks",
        tideR_count_text((int64_t)totals->alloc_blocks, text));
    put(&pen, "  groups %" PRIu32, model->n_groups);
    if (n_named(model) > 0)
        put(&pen, "  targets %" PRIu32, n_named(model));
    if (rss_of(model) > 0)
        put(&pen, "  RSS %s", tideR_bytes_text((int64_t)rss_of(model), text));
}

static enum top_colour grade(double value, double fair, double bad)
{
    return value >= bad ? TOP_BAD : value >= fair ? TOP_FAIR : TOP_GOOD;
}

static const char *kb_text(double kb, char out[TIDE_R_UNIT_MAX])
{
    return tideR_bytes_text((int64_t)(kb * 1024), out);
}

/* Of a run that is over: over all of it. */
static struct tide_gc_figures gc_figures(const struct top *top)
{
    const struct tide_r_gc *gc = &top->model->gc;
    if (top->life == TOP_RUNS)
        return tideC_gcrate_figures(&top->gc, top->read_s);
    return (struct tide_gc_figures){.alloc_kb_per_sec = gc->alloc_kb_s,
                                    .cycles_per_min = gc->cycles_min};
}

/* "12.3", "24,046". */
static const char *cycles_text(double cycles, char out[TIDE_R_UNIT_MAX])
{
    if (cycles >= 1000)
        return tideR_count_text((int64_t)cycles, out);
    snprintf(out, TIDE_R_UNIT_MAX, "%.1f", cycles);
    return out;
}

/* While it runs the last cycle is not over: the one before it is. */
static double last_freed_kb(const struct top *top)
{
    const struct tide_model *model = top->model;
    if (top->life != TOP_RUNS || model->n_cycles < 2)
        return model->gc.last_kb;
    const struct tide_p_cycle *cycle =
        model->cycles[model->n_cycles - 2].record;
    return (double)cycle->freed_bytes / 1024 / (1 + (double)cycle->n_joined);
}

static void draw_gc(const struct top *top, int y)
{
    const struct tide_r_gc *gc = &top->model->gc;
    const struct tide_gc_figures now = gc_figures(top);
    char text[TIDE_R_UNIT_MAX];
    char rate[TIDE_R_UNIT_MAX + 16];
    struct pen pen = {top, y, 0};
    put(&pen, "GC  ");
    snprintf(rate, sizeof rate, "%s/s", kb_text(now.alloc_kb_per_sec, text));
    graded(&pen, grade(now.alloc_kb_per_sec, 1024, 4096), rate);
    put(&pen, "  ");
    snprintf(rate, sizeof rate, "%s cycles/min",
             cycles_text(now.cycles_per_min, text));
    graded(&pen, grade(now.cycles_per_min, 60, 600), rate);
    put(&pen, "  %s cycles", tideR_count_text((int64_t)gc->cycles, text));
    put(&pen, ", %s", gc->mode);
    put(&pen, "  last freed %s", kb_text(last_freed_kb(top), text));
    put(&pen, "  mean %s", kb_text(gc->average_kb, text));
}

static const struct tide_r_finding *finding_of(const struct top *top)
{
    for (uint32_t i = 0; i < top->model->n_findings; i++)
        if (strcmp(top->model->findings[i].kind, "note") != 0)
            return &top->model->findings[i];
    return NULL;
}

static void draw_finding(const struct top *top, int y)
{
    struct pen pen = {top, y, 0};
    const struct tide_r_finding *finding = finding_of(top);
    if (top->trouble[0] != '\0') {
        graded(&pen, TOP_BAD, "not read: ");
        put(&pen, "%s", top->trouble);
    } else if (finding != NULL) {
        graded(&pen, strcmp(finding->kind, "leak") == 0 ? TOP_BAD : TOP_FAIR,
               finding->kind);
        put(&pen, ": %s", finding->text);
    }
}

static const char *const by_words[] = {
    [TIDE_R_BY_LINE] = "lines",
    [TIDE_R_BY_FUNCTION] = "functions",
    [TIDE_R_BY_GROUP] = "groups",
    [TIDE_R_BY_TARGET] = "targets",
};

static void draw_filter(const struct top *top, struct pen *pen)
{
    if (top->query.filter[0] == '\0' && !top->is_typing)
        return;
    put(pen, "  filter: ");
    attron(A_BOLD);
    put(pen, "%s", top->query.filter);
    attrset(A_NORMAL);
    if (top->is_typing)
        put(pen, "_");
}

static void draw_choices(const struct top *top, int y)
{
    static const char *const metrics[] = {"allocated", "live", "rate"};
    const struct tide_r_live_query *query = &top->query;
    const struct tide_r_live_rows *rows = &top->rows;
    struct pen pen = {top, y, 0};
    put(&pen, "%" PRIu32 " ", rows->n_found);
    if (rows->n_found < rows->n_all)
        put(&pen, "of %" PRIu32 " ", rows->n_all);
    attron(A_BOLD);
    put(&pen, "%s", by_words[query->by]);
    attrset(A_NORMAL);
    put(&pen, " by ");
    attron(A_BOLD);
    put(&pen, "%s", tideR_column_info(query->sort)->title);
    attrset(A_NORMAL);
    put(&pen, "%s, view: ", query->is_reversed ? " reversed" : "");
    attron(A_BOLD);
    put(&pen, "%s", metrics[query->metric]);
    attrset(A_NORMAL);
    if (rows->n_sections > 0)
        put(&pen, ", %" PRIu32 " groups", rows->n_sections);
    if (query->hides_small)
        put(&pen, ", below 1 KiB hidden");
    draw_filter(top, &pen);
}

/* Lines above the titles. */
static int header_rows(void)
{
    return LINES >= FINDING_ROWS ? 5 : LINES >= 10 ? 4 : LINES >= 6 ? 1 : 0;
}

static void draw_header(const struct top *top)
{
    const int n = header_rows();
    if (n > 0)
        draw_process(top, 0);
    if (n >= 4) {
        draw_heap(top, 1);
        draw_gc(top, 2);
        if (n == 5 || top->trouble[0] != '\0')
            draw_finding(top, 3);
        if (n == 5 || top->trouble[0] == '\0')
            draw_choices(top, n - 1);
    }
}

/* ---- the table ---------------------------------------------------------- */

/* Where everything goes on a screen of this width. */
struct layout {
    enum tide_r_column columns[TIDE_R_COL_COUNT_];
    unsigned n_columns;
    unsigned label_x;
    unsigned widths[2]; /* of the labels; 0: there is none */
};

static void fit_columns(const struct top *top, struct layout *out)
{
    enum tide_r_column all[TIDE_R_COL_COUNT_];
    const unsigned columns = (unsigned)COLS;
    const unsigned least = columns >= 60 ? columns * 2 / 5 : columns / 2;
    unsigned n = tideR_columns_of(top->query.by, top->query.metric, all);
    unsigned first = top->first_column < n ? top->first_column : 0;
    if (columns < 40 && first == 0) /* no room for a share */
        first = 1;
    out->n_columns = 0;
    out->label_x = 0;
    for (unsigned i = first; i < n; i++) {
        const unsigned width = tideR_column_info(all[i])->width + 1;
        if (out->label_x + width + least > columns)
            break;
        out->label_x += width;
        out->columns[out->n_columns++] = all[i];
    }
    out->label_x += out->n_columns > 0;
}

static void lay_out(const struct top *top, struct layout *out)
{
    fit_columns(top, out);
    const int left = COLS - (int)out->label_x;
    out->widths[0] = left > 0 ? (unsigned)left : 0;
    out->widths[1] = 0;
    if (left < 24)
        return;
    int first = left * 3 / 5 + top->label_shift;
    first = first < 8 ? 8 : first > left - 10 ? left - 10 : first;
    out->widths[0] = (unsigned)first;
    out->widths[1] = (unsigned)(left - first - 2);
}

static void put_title(const struct top *top, int y, int x, unsigned width,
                      enum tide_r_column column, bool is_right)
{
    char text[64];
    const char *title =
        column == TIDE_R_COL_NAME && top->query.by == TIDE_R_BY_TARGET
            ? "target"
            : tideR_column_info(column)->title;
    const char *mark = column != top->query.sort ? ""
                       : !top->has_utf8 ? (top->query.is_reversed ? "^" : "v")
                       : top->query.is_reversed ? "\xE2\x96\xB2"
                                                : "\xE2\x96\xBC";
    /* a mark of one column, of up to three bytes */
    const unsigned columns =
        (unsigned)strlen(title) + (mark[0] != '\0' ? 1 : 0);
    snprintf(text, sizeof text, "%s%s", title, mark);
    if (is_right && columns < width)
        x += (int)(width - columns);
    top_put(top, y, x, width + (is_right ? 1 : 0), text, strlen(text),
            TIDE_R_CUT_TAIL);
}

static void draw_titles(const struct top *top, const struct layout *layout,
                        int y)
{
    const bool is_line = top->query.by == TIDE_R_BY_LINE;
    int x = 0;
    attron(A_REVERSE);
    mvhline(y, 0, ' ', COLS);
    for (unsigned i = 0; i < layout->n_columns; i++) {
        const unsigned width = tideR_column_info(layout->columns[i])->width;
        put_title(top, y, x, width, layout->columns[i], true);
        x += (int)width + 1;
    }
    x = (int)layout->label_x;
    if (top->query.by == TIDE_R_BY_GROUP)
        put_title(top, y, x, layout->widths[0], TIDE_R_COL_GROUP, false);
    else
        put_title(top, y, x, layout->widths[0],
                  is_line ? TIDE_R_COL_SOURCE : TIDE_R_COL_NAME, false);
    if (layout->widths[1] > 0 && top->query.by != TIDE_R_BY_GROUP)
        put_title(top, y, x + (int)layout->widths[0] + 2, layout->widths[1],
                  is_line ? TIDE_R_COL_NAME : TIDE_R_COL_SOURCE, false);
    attrset(A_NORMAL);
}

static void draw_labels(const struct top *top, const struct layout *layout,
                        const struct tide_r_live_row *row, int y)
{
    struct tide_r_live_labels labels;
    char section[TIDE_R_LABEL_MAX + 32];
    const int x = (int)layout->label_x;
    const bool is_line = top->query.by == TIDE_R_BY_LINE;
    tideR_live_labels(top->model, top->query.by, row, &labels);
    if (row->n_rows > 0) {
        snprintf(section, sizeof section, "%s (%" PRIu32 ") %s",
                 row->is_folded ? "+" : "-", row->n_rows, labels.first);
        top_put(top, y, x, (unsigned)(COLS - x), section, strlen(section),
                TIDE_R_CUT_TAIL);
        return;
    }
    const unsigned indent = top->rows.n_sections > 0 ? 2 : 0;
    if (layout->widths[0] <= indent)
        return;
    top_put(top, y, x + (int)indent, layout->widths[0] - indent, labels.first,
            strlen(labels.first), is_line ? TIDE_R_CUT_HEAD : TIDE_R_CUT_TAIL);
    if (layout->widths[1] > 0)
        top_put(top, y, x + (int)layout->widths[0] + 2, layout->widths[1],
                labels.second, strlen(labels.second),
                is_line ? TIDE_R_CUT_TAIL : TIDE_R_CUT_HEAD);
}

static void draw_row(const struct top *top, const struct layout *layout,
                     uint32_t index, int y)
{
    const struct tide_r_live_row *row = &top->rows.rows[index];
    char text[TIDE_R_UNIT_MAX];
    int x = 0;
    if (row->n_rows > 0)
        attron(A_BOLD);
    if (index == top->chosen) {
        attron(A_REVERSE);
        mvhline(y, 0, ' ', COLS);
    }
    for (unsigned i = 0; i < layout->n_columns; i++) {
        const int width = (int)tideR_column_info(layout->columns[i])->width;
        tideR_live_text(&top->query, &top->rows, row, layout->columns[i], text);
        const int n = (int)strlen(text);
        mvaddnstr(y, x + (n < width ? width - n : 0), text, width);
        x += width + 1;
    }
    draw_labels(top, layout, row, y);
    attrset(A_NORMAL);
}

unsigned top_table_rows(const struct top *top)
{
    (void)top;
    const int left = LINES - header_rows() - 2; /* titles and keys */
    return left > 0 ? (unsigned)left : 0;
}

static void draw_table(struct top *top)
{
    struct layout layout;
    const int y = header_rows();
    const uint32_t room = top_table_rows(top);
    lay_out(top, &layout);
    draw_titles(top, &layout, y);
    if (top->chosen < top->first)
        top->first = top->chosen;
    if (room > 0 && top->chosen >= top->first + room)
        top->first = top->chosen - room + 1;
    if (top->first + room > top->rows.n)
        top->first = top->rows.n > room ? top->rows.n - room : 0;
    for (uint32_t i = 0; i < room && top->first + i < top->rows.n; i++)
        draw_row(top, &layout, top->first + i, y + 1 + (int)i);
    if (top->rows.n == 0)
        mvaddnstr(y + 1, 0,
                  top->rows.n_all > 0 ? "no row matches" : "nothing allocated",
                  COLS);
}

static void draw_keys(const struct top *top)
{
    const char *text =
        top->is_typing ? "type to filter  Enter keep  Esc clear"
        : top->page != TOP_TABLE
            ? "up/down scroll  q back  p pause"
            : "q quit  ? help  / filter  <> sort  r reverse  v view  b rows  "
              "g groups  Enter stacks  p pause";
    attron(A_DIM);
    top_put(top, LINES - 1, 0, (unsigned)COLS, text, strlen(text),
            TIDE_R_CUT_TAIL);
    attrset(A_NORMAL);
}

static void draw_waiting(const struct top *top)
{
    struct pen pen = {top, 0, 0};
    attron(A_BOLD);
    put(&pen, "%s", top->name);
    attrset(A_NORMAL);
    pen = (struct pen){top, 1, 0};
    put(&pen, "%s", top->trouble);
}

void top_draw(struct top *top)
{
    erase();
    if (top->model == NULL && top->page == TOP_TABLE)
        draw_waiting(top);
    else if (top->page != TOP_TABLE)
        top_page_draw(top);
    else {
        draw_header(top);
        draw_table(top);
    }
    draw_keys(top);
    refresh();
}
