/*
** top_pages.c: what covers the table of `tidemark top`: help, and what is
** known of the chosen row with its stacks.  Both are text, and scroll.
*/
#include <curses.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

#define STACKS_MOST 100u

static const char help[] =
    "tidemark top: which lines allocate, while the program runs\n"
    "\n"
    "  up, down, PgUp, PgDn, Home, End   choose a row (also k and j)\n"
    "  Enter        all figures and the stacks of the row\n"
    "  b, Tab       rows are lines, functions, groups or targets\n"
    "  v            the next view; a allocated, l live, t rate\n"
    "  < >          sort by the column before or behind\n"
    "  r            the other way round\n"
    "  /            filter: a row has every word in its name, group or\n"
    "               source; name:x, group:x, source:x look in one of them\n"
    "  Esc          no filter\n"
    "  h            hide rows below 1 KiB\n"
    "  g            sections by group, with their sums\n"
    "  Space, z     fold one section, all sections\n"
    "  left, right  other columns\n"
    "  [ ]          less or more room for the first label\n"
    "  =            everything as it was at first\n"
    "  p            pause\n"
    "  q            quit\n"
    "\n"
    "rate is what was allocated by second in the last readings, or in the\n"
    "whole run when that is over.  GC: bytes allocated by second, green below\n"
    "1 MiB, red from 4 MiB on; collections by minute, green below 60, red\n"
    "from 600 on.  A heap is red when a line looks like a leak.\n"
    "\n";

static char *copy_text(const char *text)
{
    char *copy = malloc(strlen(text) + 1);
    return copy == NULL ? NULL : strcpy(copy, text);
}

static void put_column_help(FILE *out)
{
    for (unsigned i = 0; i < TIDE_R_COL_COUNT_; i++) {
        const struct tide_r_column_info *info =
            tideR_column_info((enum tide_r_column)i);
        fprintf(out, "  %-11s  %s\n", info->title, info->help);
    }
}

static void put_details(struct top *top, FILE *out)
{
    if (top->model == NULL || top->chosen >= top->rows.n ||
        top->rows.rows[top->chosen].key != top->chosen_key)
        fputs("This row is not there any more.\n", out);
    else
        tideR_live_details(top->model, &top->query, &top->rows,
                           &top->rows.rows[top->chosen], STACKS_MOST, out);
}

void top_page_make(struct top *top)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    free(top->page_text);
    top->page_text = NULL;
    if (out == NULL)
        return;
    if (top->page == TOP_HELP) {
        fputs(help, out);
        put_column_help(out);
    } else {
        put_details(top, out);
    }
    if (fclose(out) == 0)
        top->page_text = text;
    else
        free(text);
}

void top_page_open(struct top *top, enum top_page page)
{
    top->page = page;
    top->page_first = 0;
    if (page == TOP_TABLE)
        return;
    if (top->rows.n > 0 && page == TOP_DETAILS) {
        top->chosen_key = top->rows.rows[top->chosen].key;
        top->is_section = top->rows.rows[top->chosen].n_rows > 0;
    }
    top_page_make(top);
    if (top->page_text == NULL)
        top->page_text = copy_text("There is no memory for this.\n");
}

static unsigned count_lines(const char *text)
{
    unsigned n = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        n++;
    return n;
}

void top_page_draw(struct top *top)
{
    const char *text = top->page_text != NULL ? top->page_text : "";
    const unsigned room = LINES > 1 ? (unsigned)LINES - 1 : 0;
    const unsigned n = count_lines(text);
    if (top->page_first + room > n)
        top->page_first = n > room ? n - room : 0;
    for (unsigned i = 0; i < top->page_first; i++)
        text = strchr(text, '\n') + 1;
    for (unsigned y = 0; y < room && *text != '\0'; y++) {
        const size_t bytes = strcspn(text, "\n");
        top_put(top, (int)y, 0, (unsigned)COLS, text, bytes, TIDE_R_CUT_TAIL);
        text += bytes + (text[bytes] == '\n');
    }
}
