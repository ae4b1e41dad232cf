/*
** cmd_page.h: what subcommands that show profiles share besides cmd.h: the
** HTML report, comparing, the pager, progress.
*/
#ifndef TIDE_CMD_PAGE_H
#define TIDE_CMD_PAGE_H

#include "../common/compiler.h"
#include "../report/diff.h"
#include "cmd.h"

struct cmd_page {
    const struct tide_model *base_or_null;
    const struct tide_model *now;
    const char *base_path;
    const char *path;
    bool has_sources; /* source lines are shown in the page */
};

/* Writes it; "-" is stdout.  Says what went wrong.  Returns the exit status. */
int cmd_put_page(const struct cmd_page *page, const char *out);

/* What a report on two runs is asked for. */
struct cmd_comparison {
    struct tide_r_query query;
    enum tide_r_by by;
    bool has_by; /* it was asked for */
    enum cmd_colour colour;
    bool is_json;
    bool has_sources;
    const char *html_or_null; /* file of the page */
    const char *base_path;
    const char *path;
};

/* Opens both, shows the difference.  Returns the exit status. */
int cmd_compare(const struct cmd_comparison *comparison);

/*
** From here on stdout is read page by page, when it is a terminal: by
** TIDEMARK_PAGER, PAGER or less; an empty one or cat is none.  What a page
** looks like (cmd_look) is to be asked for before.
*/
void cmd_pager_start(void);

bool cmd_pager_is_on(void);

/* Waits until it has been read.  False: there is no pager. */
bool cmd_pager_end(void);

/*
** Says on stderr what takes long, when that is a terminal; cmd_progress_end
** takes the line away.
*/
void cmd_progress(const char *fmt, ...) TIDE_PRINTF(1, 2);
void cmd_progress_end(void);

#endif
