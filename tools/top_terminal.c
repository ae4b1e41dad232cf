/*
** top_terminal.c: the terminal of `tidemark top`: whether it can show a table,
** in which colours, and what is typed.
*/
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "top.h"

/* Last: term.h has macros with the names of everybody's variables. */
#include <curses.h>
#include <term.h>

#define ESCAPE_MS 25

static bool wants_colour(void)
{
    const char *no_colour = getenv("NO_COLOR");
    return (no_colour == NULL || *no_colour == '\0') && has_colors();
}

static bool refuse(const char *why)
{
    cmd_error("top", "%s; tidemark report shows a profile once", why);
    return false;
}

bool top_screen_open(struct top *top)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return refuse("a live table needs a terminal");
    SCREEN *screen = newterm(NULL, stdout, stdin);
    if (screen == NULL)
        return refuse("the terminal is not known by its name in TERM");
    if (cursor_address == NULL || clear_screen == NULL) {
        endwin();
        return refuse("the terminal cannot move its cursor");
    }
    top->has_utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    top->has_colour = wants_colour();
    if (top->has_colour) {
        start_color();
        use_default_colors();
        init_pair(TOP_GOOD, COLOR_GREEN, -1);
        init_pair(TOP_FAIR, COLOR_YELLOW, -1);
        init_pair(TOP_BAD, COLOR_RED, -1);
    }
    set_escdelay(ESCAPE_MS);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    curs_set(0);
    return true;
}

void top_screen_close(void)
{
    endwin();
}

bool top_wait_key(double until_s, int *key, bool *is_character)
{
    wint_t c = 0;
    const double left = until_s - top_now();
    timeout(left <= 0 ? 0 : left > 60 ? 60000 : (int)(left * 1000) + 1);
    const int got = get_wch(&c);
    *key = (int)c;
    *is_character = got == OK;
    return got != ERR;
}
