/*
** top.h: what the files of `tidemark top` share.
**
**   cmd_top.c      arguments, what is read and when, the loop
**   top_keys.c     keys
**   top_terminal.c what the terminal can do, what is typed
**   top_screen.c   the screen: header, table, footer
**   top_pages.c    what covers the table: stacks of a row, help
**   top_keep.c     choices that are kept from run to run
**
** Nothing is done in the profiled process: its profile is read again and
** again, by the reader that reads all profiles.
*/
#ifndef TIDE_TOP_H
#define TIDE_TOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "../common/gcrate.h"
#include "../report/emit.h"
#include "../report/live.h"

#define TOP_PERIOD_S 0.5
#define TOP_LOAD     10 /* the part of the time that reading may take: 1/10 */

/* What is known of the process. */
enum top_life {
    TOP_RUNS = 0,
    TOP_FINISHED, /* closed in order */
    TOP_ENDED,    /* gone, without closing it */
    TOP_SAVED,    /* not its own profile: a copy of it at one moment */
};

/* Pairs of colours. */
enum top_colour {
    TOP_PLAIN = 0,
    TOP_GOOD,
    TOP_FAIR,
    TOP_BAD,
};

/* What covers the table. */
enum top_page {
    TOP_TABLE = 0,
    TOP_DETAILS,
    TOP_HELP,
};

struct top {
    /* what is looked at */
    const char *name; /* as it was given */
    char path[64];    /* of the open file, whatever its name is by now */
    int fd;           /* -1: no profile yet */
    pid_t pid;        /* whose profile is waited for; 0: a file was given */
    enum top_life life;
    bool is_off;       /* it is not recording */
    char trouble[192]; /* why it could not be read last; "": it could */

    /* what was read */
    struct tide_model *model; /* NULL: nothing yet */
    struct tide_r_rates rates;
    struct tide_gcrate gc;
    bool has_gc;
    double read_s;  /* when */
    double next_s;  /* when it is read again */
    double start_s; /* of the first reading */

    /* what is asked for */
    struct tide_r_live_query query;
    enum tide_r_column sorts[TIDE_R_METRIC_COUNT_];
    bool is_reversed[TIDE_R_METRIC_COUNT_];
    uint64_t *folded; /* keys of sections */
    uint32_t n_folded;
    uint32_t max_folded;
    bool is_paused;
    bool is_typing; /* the filter */
    bool wants_quit;

    /* what is shown */
    struct tide_r_live_rows rows;
    uint32_t chosen;     /* row */
    uint64_t chosen_key; /* the same, after the next reading; 0: the first */
    bool is_section;     /* the chosen one */
    uint32_t first;      /* row at the top of the table */
    unsigned first_column;
    int label_shift; /* columns that the first label has more than usual */
    bool has_colour;
    bool has_utf8;
    enum top_page page;
    char *page_text; /* lines of the page; NULL: not made yet */
    unsigned page_first;
};

/* cmd_top.c */
/* Makes the rows again, from what was read last; keeps the chosen one. */
void top_refresh(struct top *top);

/* The reader's clock, seconds. */
double top_now(void);

/* top_keys.c */
void top_key(struct top *top, int key, bool is_character);

/* top_terminal.c */
/* False: the terminal cannot do it; it has been said. */
bool top_screen_open(struct top *top);
void top_screen_close(void);

/* Waits for a key until a time; false: there was none. */
bool top_wait_key(double until_s, int *key, bool *is_character);

/* top_screen.c */
void top_draw(struct top *top);

/* Rows of the table that fit. */
unsigned top_table_rows(const struct top *top);

/* Writes harmless text into `columns` columns; returns those used. */
unsigned top_put(const struct top *top, int y, int x, unsigned columns,
                 const char *text, size_t n, enum tide_r_cut cut);

/* top_pages.c */
void top_page_open(struct top *top, enum top_page page);
void top_page_make(struct top *top);
void top_page_draw(struct top *top);

/* top_keep.c */
/* Reads what was kept; whatever is odd is left as it is. */
void top_keep_read(struct top *top);

/* Writes it; what cannot be written is not kept. */
void top_keep_write(const struct top *top);

#endif
