/*
** text_impl.h: what the files of the text report share.
*/
#ifndef TIDE_TEXT_IMPL_H
#define TIDE_TEXT_IMPL_H

#include "emit.h"
#include "render.h"
#include "srctext.h"
#include "units.h"

#define TIDE_R_COLUMNS_MIN 40u
#define TIDE_R_COLUMNS_MAX 400u

enum tide_r_paint {
    TIDE_R_PLAIN = 0,
    TIDE_R_BOLD,
    TIDE_R_DIM,
};

/* A text report being written. */
struct tide_r_page {
    const struct tide_model *model;
    const struct tide_r_query *query;
    const struct tide_r_look *look;
    struct tide_r_sink *sink;
    struct tide_srctext *texts;
    unsigned columns;
};

/* The width of a page. */
unsigned tideR_page_columns(const struct tide_r_look *look);

/* Starts and ends a colour; nothing where there are none. */
void tideR_paint(const struct tide_r_page *page, enum tide_r_paint paint);

/*
** Writes bytes fitted into a cell of so many columns, and blanks up to there
** when has_blanks.  Returns the columns used.
*/
unsigned tideR_put_cell(const struct tide_r_page *page, const char *bytes,
                        size_t n, unsigned columns, enum tide_r_cut cut,
                        bool has_blanks);

void tideR_put_blanks(const struct tide_r_page *page, unsigned n);

/* Writes words, harmless, in lines of at most the page's columns. */
void tideR_put_wrapped(const struct tide_r_page *page, const char *first_indent,
                       const char *indent, const char *text);

/* What stands above and below every table: findings above, notes below. */
void tideR_text_header(const struct tide_r_page *page);
void tideR_text_findings(const struct tide_r_page *page, uint32_t n_max,
                         uint32_t n_alike_max);
void tideR_text_notes(const struct tide_r_page *page);

/* What held the heap when memory ran out, and the marks; nothing if none. */
void tideR_text_failure(const struct tide_r_page *page);
void tideR_text_marks(const struct tide_r_page *page);

/* The next useful command.  arguments: "--by function"; the file follows. */
void tideR_text_hint(const struct tide_r_page *page, const char *what,
                     const char *arguments);

/* The tree of stacks.  Errors: NOMEM. */
enum tide_err tideR_text_tree(const struct tide_r_page *page);

/* What rows are sorted by, in words: "allocated bytes". */
const char *tideR_sort_words(enum tide_r_sort sort);

#endif
