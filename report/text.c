/*
** text.c: the report as a table to read, in 80 columns or more.
**
** A table has figures on the left, each a fixed width, of which a wider page
** shows more; then a label, for lines a second one, and a remark: the text of
** the source line, or where a function stands.  The remark goes beside the
** labels where it fits, else below them.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_impl.h"

#define FINDINGS_SHOWN 6u  /* by the table */
#define ALIKE_SHOWN    3u  /* of these, of one kind */
#define GAP            2u  /* blanks between columns */
#define REMARK_LEAST   30u /* columns that a remark needs beside a row */
#define REMARK_INDENT  8u
#define LABEL_MAX      (TIDE_P_STRING_MAX + 16u)

/* A row of a table: its figures. */
struct row {
    uint32_t index;
    struct tide_r_counts counts;
    uint64_t total_bytes; /* own and below; functions only */
    uint64_t calls;
    uint64_t per_call;
    uint64_t worst;
};

struct figure {
    const char *title;
    unsigned width;
    unsigned from_columns; /* shown on pages that are at least so wide */
    void (*text)(const struct tide_model *model, const struct row *row,
                 char out[TIDE_R_UNIT_MAX]);
};

struct label {
    char text[LABEL_MAX];
    size_t n;
};

struct table {
    const char *title;
    const struct figure *figures;
    const char *names[3]; /* of the labels and the remark; NULL: not there */
    enum tide_r_cut cuts[2];
    const char *hint_what;
    const char *hint;
    void (*fill)(const struct tide_model *model, struct row *row);
    void (*labels)(const struct tide_r_page *page, uint32_t index,
                   struct label out[3]);
};

/* Widths of the labels and whether remarks stand beside them. */
struct layout {
    unsigned widths[2];
    bool has_remarks_beside;
};

const char *tideR_sort_words(enum tide_r_sort sort)
{
    static const char *const words[TIDE_R_SORT_COUNT_] = {
        [TIDE_R_SORT_ALLOC] = "allocated bytes",
        [TIDE_R_SORT_BLOCKS] = "allocated blocks",
        [TIDE_R_SORT_LIVE] = "live bytes",
        [TIDE_R_SORT_LIVE_BLOCKS] = "live blocks",
        [TIDE_R_SORT_FREED] = "freed bytes",
        [TIDE_R_SORT_YOUNG] = "bytes that died young",
        [TIDE_R_SORT_PEAK] = "bytes held at the peak",
        [TIDE_R_SORT_CALLS] = "calls",
        [TIDE_R_SORT_PER_CALL] = "bytes per call",
        [TIDE_R_SORT_WORST] = "bytes of the worst call",
        [TIDE_R_SORT_TOTAL] = "total bytes",
        [TIDE_R_SORT_NAME] = "name",
        [TIDE_R_SORT_LINE] = "source line",
        [TIDE_R_SORT_HELD] = "bytes held when memory ran out",
    };
    return words[sort];
}

/* Figures. */

static void share_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    tideR_share_text((int64_t)row->counts.alloc_bytes,
                     (int64_t)model->totals.alloc_bytes, out);
}

static void alloc_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->counts.alloc_bytes, out);
}

static void blocks_text(const struct tide_model *model, const struct row *row,
                        char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_count_text((int64_t)row->counts.alloc_blocks, out);
}

static void live_text(const struct tide_model *model, const struct row *row,
                      char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->counts.live_bytes, out);
}

static void live_blocks_text(const struct tide_model *model,
                             const struct row *row, char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_count_text((int64_t)row->counts.live_blocks, out);
}

static void freed_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->counts.freed_bytes, out);
}

static void peak_text(const struct tide_model *model, const struct row *row,
                      char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->counts.peak_bytes, out);
}

static void held_text(const struct tide_model *model, const struct row *row,
                      char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->counts.held_bytes, out);
}

/* A share of what was allocated: what never survived a cycle. */
static void young_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_share_text((int64_t)row->counts.young_bytes,
                     (int64_t)row->counts.alloc_bytes, out);
}

static void total_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->total_bytes, out);
}

static void calls_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_count_text((int64_t)row->calls, out);
}

static void per_call_text(const struct tide_model *model, const struct row *row,
                          char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    if (row->calls == 0)
        snprintf(out, TIDE_R_UNIT_MAX, "-");
    else
        tideR_bytes_text((int64_t)row->per_call, out);
}

/* Over the whole run. */
static void rate_text(const struct tide_model *model, const struct row *row,
                      char out[TIDE_R_UNIT_MAX])
{
    if (model->seconds > 0)
        tideR_bytes_text(
            (int64_t)((double)row->counts.alloc_bytes / model->seconds), out);
    else
        snprintf(out, TIDE_R_UNIT_MAX, "-");
}

static void worst_text(const struct tide_model *model, const struct row *row,
                       char out[TIDE_R_UNIT_MAX])
{
    (void)model;
    tideR_bytes_text((int64_t)row->worst, out);
}

static const struct figure line_figures[] = {
    {"share", 6, 0, share_text},
    {"allocated", 9, 0, alloc_text},
    {"blocks", 9, 0, blocks_text},
    {"live", 8, 0, live_text},
    {"calls", 9, 110, calls_text},
    {"B/call", 8, 110, per_call_text},
    {"worst", 8, 130, worst_text},
    {"peak", 8, 130, peak_text},
    {"young", 6, 140, young_text},
    {"held", 8, 0, held_text},
    {NULL, 0, 0, NULL},
};

static const struct figure func_figures[] = {
    {"share", 6, 0, share_text},     {"own", 8, 0, alloc_text},
    {"total", 8, 0, total_text},     {"calls", 9, 0, calls_text},
    {"B/call", 8, 0, per_call_text}, {"worst", 8, 0, worst_text},
    {"live", 8, 110, live_text},     {"blocks", 9, 110, blocks_text},
    {"peak", 8, 130, peak_text},     {"young", 6, 140, young_text},
    {"held", 8, 0, held_text},       {NULL, 0, 0, NULL},
};

static const struct figure target_figures[] = {
    {"share", 6, 0, share_text},     {"total", 8, 0, alloc_text},
    {"per s", 8, 0, rate_text},      {"calls", 9, 0, calls_text},
    {"B/call", 8, 0, per_call_text}, {"peak", 8, 0, worst_text},
    {"live", 8, 110, live_text},     {"blocks", 9, 110, blocks_text},
    {"young", 6, 130, young_text},   {NULL, 0, 0, NULL},
};

static const struct figure sum_figures[] = {
    {"share", 6, 0, share_text},
    {"allocated", 9, 0, alloc_text},
    {"blocks", 9, 0, blocks_text},
    {"live", 8, 0, live_text},
    {"freed", 8, 90, freed_text},
    {"peak", 8, 90, peak_text},
    {"live blocks", 11, 110, live_blocks_text},
    {"young", 6, 110, young_text},
    {"held", 8, 0, held_text},
    {NULL, 0, 0, NULL},
};

/* Rows and labels of each table. */

static void set_calls(struct row *row, const struct tide_r_func *func,
                      uint64_t bytes)
{
    row->calls = func->calls;
    row->per_call = func->calls > 0 ? bytes / func->calls : 0;
    row->worst = func->max_call_bytes;
}

static void fill_line(const struct tide_model *model, struct row *row)
{
    const struct tide_r_line *line = &model->lines[row->index];
    row->counts = line->counts;
    set_calls(row, tideR_line_func(model, line), line->counts.alloc_bytes);
}

static void fill_func(const struct tide_model *model, struct row *row)
{
    const struct tide_r_func *func = &model->funcs[row->index];
    row->counts = func->own;
    row->total_bytes = func->total_bytes;
    set_calls(row, func, func->total_bytes);
}

static void fill_kind(const struct tide_model *model, struct row *row)
{
    row->counts = model->kinds[row->index];
}

static void fill_group(const struct tide_model *model, struct row *row)
{
    row->counts = model->groups[row->index].counts;
}

static void fill_target(const struct tide_model *model, struct row *row)
{
    const struct tide_r_target *target = &model->targets[row->index];
    row->counts = target->counts;
    row->calls = target->calls;
    if (target->calls > 0)
        row->per_call = target->counts.alloc_bytes / target->calls;
    row->worst = target->max_call_bytes;
}

static void label_text(const struct tide_model *model, uint32_t string,
                       struct label *out)
{
    size_t n;
    const char *text = tideR_model_text(model, string, &n);
    out->n = n < sizeof out->text ? n : sizeof out->text - 1;
    memcpy(out->text, text, out->n);
}

/* "source:line"; the source alone where there is no line. */
static void label_place(const struct tide_model *model, uint32_t source,
                        uint32_t line, struct label *out)
{
    label_text(model, source, out);
    if (line == 0)
        return;
    const size_t most = sizeof out->text - 12;
    if (out->n > most)
        out->n = most;
    out->n += (size_t)snprintf(out->text + out->n, 12, ":%" PRIu32, line);
}

static void label_words(const char *words, struct label *out)
{
    out->n = (size_t)snprintf(out->text, sizeof out->text, "%s", words);
}

static void line_labels(const struct tide_r_page *page, uint32_t index,
                        struct label out[3])
{
    const struct tide_model *model = page->model;
    const struct tide_r_line *line = &model->lines[index];
    label_place(model, line->source, line->line, &out[0]);
    label_text(model, tideR_line_func(model, line)->name, &out[1]);
    const char *source = tideR_strtab_text(&model->strings, line->source);
    const char *text = NULL;
    size_t n = 0;
    if (page->texts != NULL)
        text = tideR_srctext_line(page->texts, source, line->line, &n);
    out[2].n = 0;
    if (text == NULL)
        return;
    out[2].n = n < sizeof out[2].text ? n : sizeof out[2].text;
    memcpy(out[2].text, text, out[2].n);
}

static void func_labels(const struct tide_r_page *page, uint32_t index,
                        struct label out[3])
{
    const struct tide_r_func *func = &page->model->funcs[index];
    label_text(page->model, func->name, &out[0]);
    out[1].n = 0;
    label_place(page->model, func->source, func->linedefined, &out[2]);
}

static void kind_labels(const struct tide_r_page *page, uint32_t index,
                        struct label out[3])
{
    static const char *const words[TIDE_KIND_COUNT_] = {
        [TIDE_KIND_STRING] = "strings",
        [TIDE_KIND_TABLE] = "tables without their storage",
        [TIDE_KIND_FUNCTION] = "closures, of Lua and of C",
        [TIDE_KIND_USERDATA] = "full userdata",
        [TIDE_KIND_THREAD] = "coroutines, with first stack",
        [TIDE_KIND_UPVALUE] = "captured variables",
        [TIDE_KIND_PROTO] = "prototypes without their code",
        [TIDE_KIND_STORAGE] = "array and hash parts of tables",
        [TIDE_KIND_STACK] = "Lua stacks that were resized",
        [TIDE_KIND_CALLINFO] = "call records",
        [TIDE_KIND_CODE] = "code, constants, line tables",
        [TIDE_KIND_BUFFER] = "not in collectgarbage(\"count\")",
        [TIDE_KIND_OTHER] = "string table, work space",
    };
    (void)page;
    out[0].n = (size_t)snprintf(out[0].text, sizeof out[0].text, "%s",
                                tideC_kind_name(index));
    out[1].n = 0;
    out[2].n =
        (size_t)snprintf(out[2].text, sizeof out[2].text, "%s", words[index]);
}

static void group_labels(const struct tide_r_page *page, uint32_t index,
                         struct label out[3])
{
    const struct tide_r_group *group = &page->model->groups[index];
    label_text(page->model, group->name, &out[0]);
    out[1].n = out[2].n = 0;
    if (tideR_counts_are_zero(&group->counts))
        label_words("nothing recorded", &out[2]);
}

static void target_labels(const struct tide_r_page *page, uint32_t index,
                          struct label out[3])
{
    const struct tide_model *model = page->model;
    const struct tide_r_target *target = &model->targets[index];
    label_text(model, target->name, &out[1]);
    label_place(model, target->source, target->linedefined, &out[2]);
    if (target->sort == TIDE_R_TARGET_REST)
        label_words("-", &out[0]);
    else
        label_text(model, model->groups[target->group].name, &out[0]);
    if (tideR_counts_are_zero(&target->counts))
        label_words("nothing recorded", &out[2]);
}

static const struct table tables[TIDE_R_BY_COUNT_] = {
    [TIDE_R_BY_LINE] = {"lines",
                        line_figures,
                        {"line", "function", "source"},
                        {TIDE_R_CUT_HEAD, TIDE_R_CUT_TAIL},
                        "the same by function",
                        "--by function",
                        fill_line,
                        line_labels},
    [TIDE_R_BY_FUNCTION] = {"functions",
                            func_figures,
                            {"function", NULL, "defined"},
                            {TIDE_R_CUT_TAIL, TIDE_R_CUT_TAIL},
                            "who calls them",
                            "--by stack",
                            fill_func,
                            func_labels},
    [TIDE_R_BY_KIND] = {"kinds",
                        sum_figures,
                        {"kind", NULL, "what"},
                        {TIDE_R_CUT_TAIL, TIDE_R_CUT_TAIL},
                        "the lines that made them",
                        "--by line",
                        fill_kind,
                        kind_labels},
    [TIDE_R_BY_GROUP] = {"groups",
                         sum_figures,
                         {"group", NULL, NULL},
                         {TIDE_R_CUT_HEAD, TIDE_R_CUT_TAIL},
                         "the functions in them",
                         "--by target",
                         fill_group,
                         group_labels},
    [TIDE_R_BY_TARGET] = {"targets",
                          target_figures,
                          {"group", "target", "source"},
                          {TIDE_R_CUT_HEAD, TIDE_R_CUT_TAIL},
                          "sums of groups",
                          "--by group",
                          fill_target,
                          target_labels},
};

/* What was held when memory ran out is shown where it is asked for. */
static bool is_shown(const struct tide_r_page *page, const struct figure *f)
{
    if (f->text == held_text)
        return page->query->sort == TIDE_R_SORT_HELD;
    return page->columns >= f->from_columns;
}

/* Columns that the figures take, with the gap behind each. */
static unsigned figures_width(const struct tide_r_page *page,
                              const struct figure *figures)
{
    unsigned width = 0;
    for (; figures->title != NULL; figures++)
        if (is_shown(page, figures))
            width += figures->width + GAP;
    return width;
}

static void put_titles(const struct tide_r_page *page,
                       const struct table *table, const struct layout *layout)
{
    tideR_paint(page, TIDE_R_BOLD);
    for (const struct figure *f = table->figures; f->title != NULL; f++)
        if (is_shown(page, f))
            tideR_printf(page->sink, "%*s  ", (int)f->width, f->title);
    const bool has_more = table->names[1] != NULL || layout->has_remarks_beside;
    tideR_printf(page->sink, "%-*s", has_more ? (int)layout->widths[0] : 0,
                 table->names[0]);
    if (table->names[1] != NULL)
        tideR_printf(page->sink, "  %-*s",
                     layout->has_remarks_beside ? (int)layout->widths[1] : 0,
                     table->names[1]);
    if (layout->has_remarks_beside)
        tideR_printf(page->sink, "  %s", table->names[2]);
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_puts(page->sink, "\n");
}

/* Columns of a label when nothing is cut, up to a limit. */
static unsigned width_of(const struct label *label, unsigned most)
{
    char cell[TIDE_R_CELL_MAX];
    return tideR_fit(label->text, label->n, most, TIDE_R_CUT_TAIL, cell);
}

/* The widest labels, and the widths that they get. */
static void lay_out(const struct tide_r_page *page, const struct table *table,
                    const struct tide_r_pick *pick, struct label labels[3],
                    struct layout *layout)
{
    const unsigned taken = figures_width(page, table->figures);
    const unsigned left =
        page->columns > taken + 16 ? page->columns - taken : 16;
    unsigned widest[2] = {(unsigned)strlen(table->names[0]), 0};
    if (table->names[1] != NULL)
        widest[1] = (unsigned)strlen(table->names[1]);
    for (uint32_t i = 0; i < pick->n; i++) {
        table->labels(page, pick->rows[i], labels);
        for (unsigned k = 0; k < 2; k++) {
            const unsigned width = width_of(&labels[k], left);
            widest[k] = width > widest[k] ? width : widest[k];
        }
    }
    const unsigned gap = widest[1] > 0 ? GAP : 0;
    const unsigned both = widest[0] + gap + widest[1];
    layout->has_remarks_beside =
        table->names[2] != NULL && both + GAP + REMARK_LEAST <= left;
    layout->widths[0] = widest[0];
    layout->widths[1] = widest[1];
    if (both <= left)
        return;
    /* a third for the second label, unless the first leaves it more */
    const unsigned second = (left - gap) / 3;
    if (widest[1] > second)
        layout->widths[1] =
            widest[0] + gap + second < left ? left - gap - widest[0] : second;
    layout->widths[0] = left - gap - layout->widths[1];
}

static void put_remark(const struct tide_r_page *page,
                       const struct table *table, const struct layout *layout,
                       const struct label *remark)
{
    unsigned at = REMARK_INDENT;
    if (remark->n == 0)
        return;
    if (layout->has_remarks_beside) {
        at = figures_width(page, table->figures) + layout->widths[0] + GAP;
        if (table->names[1] != NULL)
            at += layout->widths[1] + GAP;
        tideR_put_blanks(page, GAP);
    } else {
        tideR_puts(page->sink, "\n");
        tideR_put_blanks(page, REMARK_INDENT);
    }
    tideR_paint(page, TIDE_R_DIM);
    tideR_put_cell(page, remark->text, remark->n, page->columns - at,
                   table->labels == func_labels ? TIDE_R_CUT_HEAD
                                                : TIDE_R_CUT_TAIL,
                   false);
    tideR_paint(page, TIDE_R_PLAIN);
}

static void put_row(const struct tide_r_page *page, const struct table *table,
                    const struct layout *layout, uint32_t index,
                    struct label labels[3])
{
    struct row row = {.index = index};
    char text[TIDE_R_UNIT_MAX];
    table->fill(page->model, &row);
    table->labels(page, index, labels);
    for (const struct figure *f = table->figures; f->title != NULL; f++) {
        if (!is_shown(page, f))
            continue;
        f->text(page->model, &row, text);
        tideR_printf(page->sink, "%*s  ", (int)f->width, text);
    }
    const bool has_beside = layout->has_remarks_beside && labels[2].n > 0;
    tideR_put_cell(page, labels[0].text, labels[0].n, layout->widths[0],
                   table->cuts[0], table->names[1] != NULL || has_beside);
    if (table->names[1] != NULL) {
        tideR_put_blanks(page, GAP);
        tideR_put_cell(page, labels[1].text, labels[1].n, layout->widths[1],
                       table->cuts[1], has_beside);
    }
    put_remark(page, table, layout, &labels[2]);
    tideR_puts(page->sink, "\n");
}

/* How many rows and bytes are not shown. */
static void put_rest(const struct tide_r_page *page, const struct table *table,
                     const struct tide_r_pick *pick)
{
    char bytes[TIDE_R_UNIT_MAX];
    char share[TIDE_R_UNIT_MAX];
    if (pick->n == pick->n_all)
        return;
    const int64_t rest = (int64_t)(pick->all_bytes - pick->shown_bytes);
    tideR_printf(page->sink,
                 "%" PRIu32 " of %" PRIu32 " %s shown; the others allocated "
                 "%s (%s)\n",
                 pick->n, pick->n_all, table->title,
                 tideR_bytes_text(rest, bytes),
                 tideR_share_text(
                     rest, (int64_t)page->model->totals.alloc_bytes, share));
}

static void put_table(const struct tide_r_page *page, const struct table *table,
                      const struct tide_r_pick *pick, struct label labels[3])
{
    struct layout layout;
    lay_out(page, table, pick, labels, &layout);
    tideR_printf(page->sink, "\n%s by %s%s\n", table->title,
                 tideR_sort_words(page->query->sort),
                 page->query->is_reversed ? ", reversed" : "");
    put_titles(page, table, &layout);
    for (uint32_t i = 0; i < pick->n; i++)
        put_row(page, table, &layout, pick->rows[i], labels);
    tideR_puts(page->sink, "\n");
    put_rest(page, table, pick);
}

static enum tide_err put_rows(const struct tide_r_page *page, enum tide_r_by by)
{
    struct tide_r_pick pick;
    struct label *labels = calloc(3, sizeof *labels);
    TIDE_FAIL_IF(labels == NULL, TIDE_ERR_NOMEM);
    const enum tide_err err = tideR_pick(page->model, by, page->query, &pick);
    if (err == TIDE_OK) {
        const struct table *table = &tables[by];
        put_table(page, table, &pick, labels);
        tideR_text_notes(page);
        if (pick.n < pick.n_all && page->query->top > 0)
            tideR_text_hint(page, "all of them", "--top 0");
        tideR_text_hint(page, table->hint_what, table->hint);
        tideR_pick_close(&pick);
    }
    free(labels);
    return err;
}

unsigned tideR_page_columns(const struct tide_r_look *look)
{
    if (look->columns == 0)
        return 80;
    if (look->columns < TIDE_R_COLUMNS_MIN)
        return TIDE_R_COLUMNS_MIN;
    return look->columns < TIDE_R_COLUMNS_MAX ? look->columns
                                              : TIDE_R_COLUMNS_MAX;
}

enum tide_err tideR_text(const struct tide_model *model, enum tide_r_by by,
                         const struct tide_r_query *query,
                         const struct tide_r_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct tide_r_query shown = *query; /* its filter stays the caller's */
    shown.sort = tideR_sort_of(by, query->sort);
    struct tide_r_page page = {
        .model = model,
        .query = &shown,
        .look = look,
        .sink = &sink,
        .texts = tideR_srctext_open(look->path, model->header->start_unix_ns),
        .columns = tideR_page_columns(look),
    };
    tideR_text_header(&page);
    tideR_text_findings(&page, FINDINGS_SHOWN, ALIKE_SHOWN);
    tideR_text_failure(&page);
    tideR_text_marks(&page);
    const enum tide_err err =
        by == TIDE_R_BY_STACK ? tideR_text_tree(&page) : put_rows(&page, by);
    tideR_srctext_close(page.texts);
    TIDE_TRY(err);
    return tideR_sink_finish(&sink);
}
