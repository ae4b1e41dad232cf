/*
** top_keys.c: what the keys of `tidemark top` do.
**
** Choices change the query, and rows are made again; moving changes what is
** shown of them.
*/
#include <curses.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "../report/grow.h"
#include "top.h"

#define ESCAPE     27
#define CONTROL(c) ((c)&0x1F)

/* ---- moving ------------------------------------------------------------- */

static void choose(struct top *top, long row)
{
    const long last = top->rows.n > 0 ? (long)top->rows.n - 1 : 0;
    row = row < 0 ? 0 : row > last ? last : row;
    top->chosen = (uint32_t)row;
    if (top->rows.n == 0)
        return;
    top->chosen_key = top->rows.rows[row].key;
    top->is_section = top->rows.rows[row].n_rows > 0;
}

static void scroll_page(struct top *top, int by)
{
    const long at = (long)top->page_first + by;
    top->page_first = at < 0 ? 0 : (unsigned)at; /* drawing limits it */
}

static bool move_by_key(struct top *top, int key)
{
    const int page = (int)top_table_rows(top);
    const int by = key == KEY_DOWN || key == 'j' ? 1
                   : key == KEY_UP || key == 'k' ? -1
                   : key == KEY_NPAGE || key == ' ' * (top->page != TOP_TABLE)
                       ? page
                   : key == KEY_PPAGE ? -page
                                      : 0;
    if (by == 0 && key != KEY_HOME && key != KEY_END)
        return false;
    if (top->page != TOP_TABLE)
        scroll_page(top, key == KEY_HOME  ? -1000000
                         : key == KEY_END ? 1000000
                                          : by);
    else
        choose(top, key == KEY_HOME  ? 0
                    : key == KEY_END ? (long)top->rows.n
                                     : (long)top->chosen + by);
    return true;
}

/* ---- sorting ------------------------------------------------------------ */

static void set_sort(struct top *top, enum tide_r_column column)
{
    const enum tide_r_metric metric = top->query.metric;
    top->is_reversed[metric] = false;
    top->sorts[metric] = column;
}

/* The column before or behind, round and round; texts come last. */
static void step_sort(struct top *top, int by)
{
    enum tide_r_column columns[TIDE_R_COL_COUNT_ + 3];
    unsigned n = tideR_columns_of(top->query.by, top->query.metric, columns);
    columns[n++] = TIDE_R_COL_NAME;
    if (top->query.by != TIDE_R_BY_GROUP) {
        columns[n++] = TIDE_R_COL_SOURCE;
        columns[n++] = TIDE_R_COL_GROUP;
    }
    unsigned at = 0;
    while (at < n && columns[at] != top->sorts[top->query.metric])
        at++;
    if (at == n) /* one that these rows lack */
        at = by > 0 ? n - 1 : 1;
    set_sort(top, columns[(at + n + (unsigned)by) % n]);
}

static void set_metric(struct top *top, enum tide_r_metric metric)
{
    top->query.metric = metric;
    top->first_column = 0;
}

static void set_by(struct top *top, enum tide_r_by by)
{
    top->query.by = by;
    top->chosen_key = 0;
    top->first_column = 0;
}

/* ---- sections ----------------------------------------------------------- */

static void fold(struct top *top, uint64_t key)
{
    for (uint32_t i = 0; i < top->n_folded; i++)
        if (top->folded[i] == key) {
            top->folded[i] = top->folded[--top->n_folded];
            return;
        }
    if (tideR_grow(&top->folded, &top->max_folded, (uint64_t)top->n_folded + 1,
                   sizeof *top->folded) == TIDE_OK)
        top->folded[top->n_folded++] = key;
}

/* The section that a row is in, or is. */
static void fold_chosen(struct top *top)
{
    uint32_t at = top->chosen;
    if (top->rows.n == 0 || top->rows.n_sections == 0)
        return;
    while (at > 0 && top->rows.rows[at].n_rows == 0)
        at--;
    fold(top, top->rows.rows[at].key);
    choose(top, (long)at);
}

/* Unfolds all when any is folded, else folds all. */
static void fold_all(struct top *top)
{
    const bool is_any = top->n_folded > 0;
    top->n_folded = 0;
    for (uint32_t i = 0; !is_any && i < top->rows.n; i++)
        if (top->rows.rows[i].n_rows > 0)
            fold(top, top->rows.rows[i].key);
    choose(top, 0);
}

/* ---- the filter --------------------------------------------------------- */

static void type_character(char *filter, wchar_t c)
{
    char bytes[MB_LEN_MAX + 1];
    const size_t n = strlen(filter);
    mbstate_t state = {0};
    const size_t more = wcrtomb(bytes, c, &state);
    if (more == (size_t)-1 || n + more >= TIDE_R_FILTER_MAX)
        return;
    memcpy(filter + n, bytes, more);
    filter[n + more] = '\0';
}

/* A whole character goes, whatever its bytes. */
static void erase_character(char *filter)
{
    size_t n = strlen(filter);
    while (n > 0 && ((unsigned char)filter[n - 1] & 0xC0) == 0x80)
        n--;
    if (n > 0)
        n--;
    filter[n] = '\0';
}

static void cancel_filter(struct top *top)
{
    top->is_typing = false;
    top->query.filter[0] = '\0';
}

static void type_key(struct top *top, int key, bool is_character)
{
    char *filter = top->query.filter;
    if (!is_character && key != KEY_BACKSPACE && key != KEY_ENTER) {
        move_by_key(top, key);
        return;
    }
    if (key == '\r' || key == '\n' || key == KEY_ENTER)
        top->is_typing = false;
    else if (key == ESCAPE)
        cancel_filter(top);
    else if (key == KEY_BACKSPACE || key == 127 || key == CONTROL('H'))
        erase_character(filter);
    else if (key == CONTROL('U'))
        filter[0] = '\0';
    else if (is_character && key >= 32)
        type_character(filter, (wchar_t)key);
    top_refresh(top);
}

/* ---- the table ---------------------------------------------------------- */

static void reset_look(struct top *top)
{
    top->label_shift = 0;
    top->first_column = 0;
    top->query.filter[0] = '\0';
    top->query.hides_small = false;
    top->query.has_sections = false;
    top->n_folded = 0;
    for (unsigned i = 0; i < TIDE_R_METRIC_COUNT_; i++) {
        top->sorts[i] = TIDE_R_COL_SHARE;
        top->is_reversed[i] = false;
    }
}

/* What changes the rows. */
static bool change_rows(struct top *top, int key)
{
    static const enum tide_r_by next_by[TIDE_R_BY_COUNT_] = {
        [TIDE_R_BY_LINE] = TIDE_R_BY_FUNCTION,
        [TIDE_R_BY_FUNCTION] = TIDE_R_BY_GROUP,
        [TIDE_R_BY_GROUP] = TIDE_R_BY_TARGET,
        [TIDE_R_BY_TARGET] = TIDE_R_BY_LINE,
    };
    bool *is_reversed = &top->is_reversed[top->query.metric];
    switch (key) {
    case '>':
    case '.':
        step_sort(top, 1);
        return true;
    case '<':
    case ',':
        step_sort(top, -1);
        return true;
    case 'r':
        *is_reversed = !*is_reversed;
        return true;
    case 'a':
        set_metric(top, TIDE_R_METRIC_ALLOC);
        return true;
    case 'l':
        set_metric(top, TIDE_R_METRIC_LIVE);
        return true;
    case 't':
        set_metric(top, TIDE_R_METRIC_RATE);
        return true;
    case 'v':
        set_metric(top, (top->query.metric + 1) % TIDE_R_METRIC_COUNT_);
        return true;
    case '\t':
    case 'b':
        set_by(top, next_by[top->query.by]);
        return true;
    case 'g':
        top->query.has_sections = !top->query.has_sections;
        return true;
    case ' ':
        fold_chosen(top);
        return true;
    case 'z':
        fold_all(top);
        return true;
    case 'h':
        top->query.hides_small = !top->query.hides_small;
        return true;
    case ESCAPE:
        cancel_filter(top);
        return true;
    case '=':
        reset_look(top);
        return true;
    default:
        return false;
    }
}

static bool is_enter(int key)
{
    return key == '\r' || key == '\n' || key == KEY_ENTER;
}

/* What changes how they are shown. */
static void change_look(struct top *top, int key)
{
    enum tide_r_column columns[TIDE_R_COL_COUNT_];
    const unsigned n =
        tideR_columns_of(top->query.by, top->query.metric, columns);
    if (key == KEY_RIGHT && top->first_column + 1 < n)
        top->first_column++;
    else if (key == KEY_LEFT && top->first_column > 0)
        top->first_column--;
    else if (key == ']')
        top->label_shift += 4;
    else if (key == '[')
        top->label_shift -= 4;
    else if (key == '/')
        top->is_typing = true;
    else if (key == 'p')
        top->is_paused = !top->is_paused;
    else if (key == '?' || key == KEY_F(1))
        top_page_open(top, TOP_HELP);
    else if (is_enter(key) && top->rows.n > 0)
        top_page_open(top, TOP_DETAILS);
}

static void page_key(struct top *top, int key)
{
    if (key == 'q' || key == ESCAPE || is_enter(key) || key == KEY_LEFT)
        top_page_open(top, TOP_TABLE);
    else if (key == '?' || key == KEY_F(1))
        top_page_open(top, TOP_HELP);
    else if (key == 'p')
        top->is_paused = !top->is_paused;
    else
        move_by_key(top, key);
}

void top_key(struct top *top, int key, bool is_character)
{
    if (!is_character && key == KEY_RESIZE)
        return;
    if (top->is_typing)
        type_key(top, key, is_character);
    else if (is_character && key > 127)
        return; /* not one of curses' own numbers */
    else if (top->page != TOP_TABLE)
        page_key(top, key);
    else if (key == 'q' || key == 'Q')
        top->wants_quit = true;
    else if (change_rows(top, key))
        top_refresh(top);
    else if (!move_by_key(top, key))
        change_look(top, key);
}
