/*
** liverows.c: rows of the live table: filled, filtered, sorted, in sections.
**
** The order is total, so that rows do not dance: those with equal figures
** stand by source, line and name.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live_impl.h"
#include "model_impl.h"

#define SMALL_BYTES 1024u /* what hides_small hides is below */
#define WORDS_MAX   16u

/* A word of the filter and where it must be. */
struct word {
    char text[TIDE_R_FILTER_MAX];
    bool in_name;
    bool in_group;
    bool in_source;
};

struct words {
    struct word list[WORDS_MAX];
    unsigned n;
};

/* What the comparison needs. */
struct order {
    const struct tide_model *model;
    const struct tide_r_live_query *query;
};

/* ---- lists -------------------------------------------------------------- */

uint32_t tideR_live_first(enum tide_r_by by)
{
    return by == TIDE_R_BY_LINE ? 1 : 0;
}

uint32_t tideR_live_end(const struct tide_model *model, enum tide_r_by by)
{
    switch (by) {
    case TIDE_R_BY_LINE:
        return model->n_lines;
    case TIDE_R_BY_FUNCTION:
        return model->n_funcs;
    case TIDE_R_BY_TARGET:
        return model->n_targets;
    default:
        return model->n_groups;
    }
}

static const struct tide_r_counts *counts_of(const struct tide_model *model,
                                             enum tide_r_by by, uint32_t index)
{
    switch (by) {
    case TIDE_R_BY_LINE:
        return &model->lines[index].counts;
    case TIDE_R_BY_FUNCTION:
        return &model->funcs[index].own;
    case TIDE_R_BY_TARGET:
        return &model->targets[index].counts;
    default:
        return &model->groups[index].counts;
    }
}

uint64_t tideR_live_allocated(const struct tide_model *model, enum tide_r_by by,
                              uint32_t index)
{
    return counts_of(model, by, index)->alloc_bytes;
}

const struct tide_r_func *tideR_live_func(const struct tide_model *model,
                                          enum tide_r_by by, uint32_t index)
{
    if (by == TIDE_R_BY_LINE)
        return tideR_line_func(model, &model->lines[index]);
    return by == TIDE_R_BY_FUNCTION ? &model->funcs[index] : NULL;
}

static void set_calls(struct tide_r_live_row *row, uint32_t group,
                      uint64_t calls, uint64_t worst)
{
    row->group = group;
    row->calls = calls;
    row->per_call = calls > 0 ? row->total_bytes / calls : 0;
    row->worst = worst;
}

void tideR_live_fill(const struct tide_r_keys *keys, enum tide_r_by by,
                     uint32_t index, struct tide_r_live_row *out)
{
    const struct tide_model *model = keys->model;
    const struct tide_r_func *func = tideR_live_func(model, by, index);
    *out = (struct tide_r_live_row){
        .key = tideR_key_of(keys, by, index),
        .index = index,
        .group = index,
        .counts = *counts_of(model, by, index),
    };
    out->total_bytes = by == TIDE_R_BY_FUNCTION
                           ? model->funcs[index].total_bytes
                           : out->counts.alloc_bytes;
    if (by == TIDE_R_BY_TARGET)
        set_calls(out, model->targets[index].group, model->targets[index].calls,
                  model->targets[index].max_call_bytes);
    else if (func != NULL)
        set_calls(out, func->group, func->calls, func->max_call_bytes);
}

/* ---- labels ------------------------------------------------------------- */

/* Where a row stands, and what it is called; texts of the model. */
struct ident {
    uint32_t name;
    uint32_t source;
    uint32_t line;
};

static struct ident ident_of(const struct tide_model *model, enum tide_r_by by,
                             uint32_t index)
{
    if (by == TIDE_R_BY_GROUP)
        return (struct ident){.name = model->groups[index].name};
    if (by == TIDE_R_BY_TARGET) {
        const struct tide_r_target *target = &model->targets[index];
        return (struct ident){target->name, target->source,
                              target->linedefined};
    }
    const struct tide_r_func *func = tideR_live_func(model, by, index);
    if (by == TIDE_R_BY_LINE)
        return (struct ident){func->name, model->lines[index].source,
                              model->lines[index].line};
    return (struct ident){func->name, func->source, func->linedefined};
}

/* "source:line"; the source alone where there is no line. */
static void put_place(const struct tide_model *model, const struct ident *ident,
                      char out[TIDE_R_LABEL_MAX])
{
    const size_t room = TIDE_R_LABEL_MAX - 12;
    const int n = snprintf(out, room, "%s",
                           tideR_strtab_text(&model->strings, ident->source));
    const size_t at = n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
    if (ident->line > 0)
        snprintf(out + at, 12, ":%" PRIu32, ident->line);
}

void tideR_live_labels(const struct tide_model *model, enum tide_r_by by,
                       const struct tide_r_live_row *row,
                       struct tide_r_live_labels *out)
{
    const bool is_section = row->n_rows > 0;
    const struct ident ident =
        ident_of(model, is_section ? TIDE_R_BY_GROUP : by,
                 is_section ? row->group : row->index);
    const bool is_line = by == TIDE_R_BY_LINE && !is_section;
    put_place(model, &ident, is_line ? out->first : out->second);
    snprintf(is_line ? out->second : out->first, sizeof out->first, "%s",
             tideR_strtab_text(&model->strings, ident.name));
    if (!is_section && tideR_counts_are_zero(&row->counts) &&
        row->total_bytes == 0)
        snprintf(out->second, sizeof out->second, "nothing recorded");
}

/* ---- the filter --------------------------------------------------------- */

static bool take_prefix(const char **text, const char *prefix)
{
    const size_t n = strlen(prefix);
    if (strncasecmp(*text, prefix, n) != 0)
        return false;
    *text += n;
    return true;
}

static void add_word(struct words *words, const char *text, size_t n)
{
    struct word *word = &words->list[words->n];
    char buffer[TIDE_R_FILTER_MAX];
    const char *rest = buffer;
    memcpy(buffer, text, n);
    buffer[n] = '\0';
    *word = (struct word){0};
    word->in_name = take_prefix(&rest, "name:");
    word->in_group = !word->in_name && take_prefix(&rest, "group:");
    word->in_source =
        !word->in_name && !word->in_group && take_prefix(&rest, "source:");
    if (!word->in_name && !word->in_group && !word->in_source)
        word->in_name = word->in_group = word->in_source = true;
    snprintf(word->text, sizeof word->text, "%s", rest);
    if (*rest != '\0')
        words->n++;
}

static void parse_filter(const char *filter, struct words *out)
{
    out->n = 0;
    while (out->n < WORDS_MAX) {
        filter += strspn(filter, " ");
        const size_t n = strcspn(filter, " ");
        if (n == 0)
            return;
        add_word(out, filter, n);
        filter += n;
    }
}

static bool word_matches(const struct word *word, const char *name,
                         const char *group, const char *place)
{
    return (word->in_name && strcasestr(name, word->text) != NULL) ||
           (word->in_group && strcasestr(group, word->text) != NULL) ||
           (word->in_source && strcasestr(place, word->text) != NULL);
}

static bool row_matches(const struct tide_model *model, enum tide_r_by by,
                        const struct tide_r_live_row *row,
                        const struct words *words)
{
    struct tide_r_live_labels labels;
    if (words->n == 0)
        return true;
    const char *group =
        tideR_strtab_text(&model->strings, model->groups[row->group].name);
    tideR_live_labels(model, by, row, &labels);
    const bool is_line = by == TIDE_R_BY_LINE;
    for (unsigned i = 0; i < words->n; i++)
        if (!word_matches(&words->list[i],
                          is_line ? labels.second : labels.first, group,
                          is_line ? labels.first : labels.second))
            return false;
    return true;
}

/* ---- order -------------------------------------------------------------- */

static const char *text_of(const struct tide_model *model, uint32_t string)
{
    return tideR_strtab_text(&model->strings, string);
}

static int compare_texts(const struct tide_model *model, uint32_t a, uint32_t b)
{
    return a == b ? 0 : strcmp(text_of(model, a), text_of(model, b));
}

static int compare_groups(const struct tide_model *model, uint32_t a,
                          uint32_t b)
{
    return compare_texts(model, model->groups[a].name, model->groups[b].name);
}

/* By name or by place first, then by the other. */
static int compare_idents(const struct order *order,
                          const struct tide_r_live_row *row_a,
                          const struct tide_r_live_row *row_b)
{
    const struct tide_model *model = order->model;
    const enum tide_r_by by = order->query->by;
    const struct ident a = ident_of(model, by, row_a->index);
    const struct ident b = ident_of(model, by, row_b->index);
    const int names = compare_texts(model, a.name, b.name);
    if (order->query->sort == TIDE_R_COL_NAME && names != 0)
        return names;
    const int sources = compare_texts(model, a.source, b.source);
    if (sources != 0)
        return sources;
    if (a.line != b.line)
        return a.line < b.line ? -1 : 1;
    return names != 0 ? names
                      : compare_groups(model, row_a->group, row_b->group);
}

static int compare_figures(const struct order *order,
                           const struct tide_r_live_row *a,
                           const struct tide_r_live_row *b)
{
    const enum tide_r_column sort = order->query->sort;
    if (sort == TIDE_R_COL_GROUP)
        return compare_groups(order->model, a->group, b->group);
    if (sort == TIDE_R_COL_NAME || sort == TIDE_R_COL_SOURCE)
        return 0;
    const double x = tideR_live_value(order->query->metric, a, sort);
    const double y = tideR_live_value(order->query->metric, b, sort);
    return x > y ? -1 : x < y;
}

static int compare_rows(const void *pa, const void *pb, void *ctx)
{
    const struct order *order = ctx;
    int result = compare_figures(order, pa, pb);
    if (result == 0)
        result = compare_idents(order, pa, pb);
    return order->query->is_reversed ? -result : result;
}

/* Sections by their sums; by name where rows are sorted by a text. */
static int compare_sections(const void *pa, const void *pb, void *ctx)
{
    const struct tide_r_live_row *a = pa, *b = pb;
    const struct order *order = ctx;
    struct tide_r_live_query query = *order->query;
    const struct order by_sum = {order->model, &query};
    if (query.sort == TIDE_R_COL_CALLS || query.sort == TIDE_R_COL_PER_CALL ||
        query.sort == TIDE_R_COL_WORST || query.sort == TIDE_R_COL_TOTAL)
        query.sort = TIDE_R_COL_SHARE;
    int result = compare_figures(&by_sum, a, b);
    if (result == 0)
        result = compare_groups(order->model, a->group, b->group);
    return query.is_reversed ? -result : result;
}

/* ---- rows --------------------------------------------------------------- */

/* Whether every figure that is looked at is below 1 KiB. */
static bool is_small(const struct tide_r_live_query *query,
                     const struct tide_r_live_row *row)
{
    switch (query->metric) {
    case TIDE_R_METRIC_LIVE:
        return row->counts.live_bytes < SMALL_BYTES;
    case TIDE_R_METRIC_RATE:
        return row->rate < SMALL_BYTES;
    default:
        return row->total_bytes < SMALL_BYTES &&
               row->counts.alloc_bytes < SMALL_BYTES;
    }
}

/* Rows of zeros, unless somebody has named what they stand for. */
static bool is_left_out(const struct tide_model *model, enum tide_r_by by,
                        const struct tide_r_live_row *row)
{
    if (!tideR_counts_are_zero(&row->counts) || row->total_bytes != 0)
        return false;
    if (by == TIDE_R_BY_GROUP)
        return !model->groups[row->index].is_named;
    if (by == TIDE_R_BY_TARGET)
        return model->targets[row->index].sort != TIDE_R_TARGET_NAMED &&
               model->targets[row->index].sort != TIDE_R_TARGET_REGION;
    return true;
}

static void collect(const struct tide_r_keys *keys,
                    const struct tide_r_live_query *query,
                    const struct tide_r_rates *rates,
                    struct tide_r_live_rows *out)
{
    const struct tide_model *model = keys->model;
    struct words words;
    parse_filter(query->filter, &words);
    const uint32_t end = tideR_live_end(model, query->by);
    for (uint32_t i = tideR_live_first(query->by); i < end; i++) {
        struct tide_r_live_row *row = &out->rows[out->n];
        tideR_live_fill(keys, query->by, i, row);
        if (is_left_out(model, query->by, row))
            continue;
        out->n_all++;
        row->rate = tideR_rate_of(rates, row->key, row->counts.alloc_bytes);
        if ((query->hides_small && is_small(query, row)) ||
            !row_matches(model, query->by, row, &words))
            continue;
        out->n++;
    }
    out->n_found = out->n;
}

static bool is_folded(const struct tide_r_live_query *query, uint64_t key)
{
    for (uint32_t i = 0; i < query->n_folded; i++)
        if (query->folded[i] == key)
            return true;
    return false;
}

/* One section for each group with rows; returns how many. */
static uint32_t sum_sections(const struct tide_r_keys *keys,
                             const struct tide_r_live_query *query,
                             const struct tide_r_live_rows *rows,
                             struct tide_r_live_row *sections)
{
    const uint32_t n_groups = keys->model->n_groups;
    uint32_t n = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        const struct tide_r_live_row *row = &rows->rows[i];
        struct tide_r_live_row *section = &sections[row->group];
        section->group = section->index = row->group;
        section->n_rows++;
        section->rate += row->rate;
        tideR_counts_add(&section->counts, &row->counts);
    }
    for (uint32_t i = 0; i < n_groups; i++)
        if (sections[i].n_rows > 0) {
            sections[n] = sections[i];
            sections[n].key =
                tideR_key_of(keys, TIDE_R_BY_GROUP, sections[n].group);
            sections[n].is_folded = is_folded(query, sections[n].key);
            n++;
        }
    return n;
}

/*
** Puts each section before its rows.  first[g] is where the next row of group
** g goes.
*/
static uint32_t place_sections(const struct tide_r_live_row *sections,
                               uint32_t n_sections, uint32_t *first,
                               struct tide_r_live_row *out)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n_sections; i++) {
        out[at++] = sections[i];
        first[sections[i].group] = sections[i].is_folded ? UINT32_MAX : at;
        at += sections[i].is_folded ? 0 : sections[i].n_rows;
    }
    return at;
}

static enum tide_err make_sections(const struct tide_r_keys *keys,
                                   const struct tide_r_live_query *query,
                                   struct tide_r_live_rows *out)
{
    const struct order order = {keys->model, query};
    const size_t n_groups = (size_t)keys->model->n_groups + 1;
    struct tide_r_live_row *sections = calloc(n_groups, sizeof *sections);
    uint32_t *first = calloc(n_groups, sizeof *first);
    struct tide_r_live_row *all = calloc(out->n + n_groups, sizeof *all);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (sections != NULL && first != NULL && all != NULL) {
        const uint32_t n = sum_sections(keys, query, out, sections);
        qsort_r(sections, n, sizeof *sections, compare_sections,
                (void *)&order);
        const uint32_t n_shown = place_sections(sections, n, first, all);
        for (uint32_t i = 0; i < out->n; i++)
            if (first[out->rows[i].group] != UINT32_MAX)
                all[first[out->rows[i].group]++] = out->rows[i];
        free(out->rows);
        out->rows = all;
        out->n = n_shown;
        out->n_sections = n;
        all = NULL;
        err = TIDE_OK;
    }
    free(sections);
    free(first);
    free(all);
    return err;
}

/* What shares are of. */
static uint64_t whole_of(const struct tide_model *model,
                         const struct tide_r_live_query *query,
                         const struct tide_r_live_rows *rows)
{
    double rate = 0;
    if (query->metric == TIDE_R_METRIC_LIVE)
        return model->totals.live_bytes;
    if (query->metric == TIDE_R_METRIC_ALLOC)
        return model->totals.alloc_bytes;
    for (uint32_t i = 0; i < rows->n; i++)
        rate += rows->rows[i].rate;
    return (uint64_t)rate;
}

enum tide_err tideR_live_rows(const struct tide_model *model,
                              const struct tide_r_live_query *query,
                              const struct tide_r_rates *rates,
                              struct tide_r_live_rows *out)
{
    struct order order = {model, query};
    struct tide_r_keys keys;
    *out = (struct tide_r_live_rows){0};
    TIDE_TRY(tideR_keys_open(model, &keys));
    out->rows =
        calloc((size_t)tideR_live_end(model, query->by) + 1, sizeof *out->rows);
    enum tide_err err = out->rows != NULL ? TIDE_OK : TIDE_ERR_NOMEM;
    if (err == TIDE_OK) {
        collect(&keys, query, rates, out);
        out->whole_bytes = whole_of(model, query, out);
        qsort_r(out->rows, out->n, sizeof *out->rows, compare_rows, &order);
        if (query->has_sections && query->by != TIDE_R_BY_GROUP)
            err = make_sections(&keys, query, out);
    }
    tideR_keys_close(&keys);
    return err;
}

void tideR_live_close(struct tide_r_live_rows *rows)
{
    free(rows->rows);
    *rows = (struct tide_r_live_rows){0};
}
