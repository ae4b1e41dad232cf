/*
** cmd_progress.c: one line on a terminal that says what is being done, while
** it takes longer than a moment.
**
** A timer's signal prints it, so that short work prints nothing at all.
*/
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "cmd_page.h"

#define MOMENT_US 300000 /* what takes less is not told of */

static const char erase_line[] = "\r\x1b[K";

/* Read by the signal's handler; written while the timer is off. */
static char g_text[160];
static volatile sig_atomic_t g_is_shown;

static void show(int signal_number)
{
    const int before = errno;
    (void)signal_number;
    if (write(STDERR_FILENO, g_text, strlen(g_text)) > 0)
        g_is_shown = 1;
    errno = before;
}

static void set_timer(long us)
{
    const struct itimerval in = {.it_value = {.tv_usec = us}};
    setitimer(ITIMER_REAL, &in, NULL);
}

void cmd_progress(const char *fmt, ...)
{
    va_list args;
    cmd_progress_end();
    if (!isatty(STDERR_FILENO))
        return;
    va_start(args, fmt);
    vsnprintf(g_text, sizeof g_text - 8, fmt, args);
    va_end(args);
    for (char *c = g_text; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7F)
            *c = '?';
    strcat(g_text, " ...");
    sigaction(SIGALRM,
              &(struct sigaction){.sa_handler = show, .sa_flags = SA_RESTART},
              NULL);
    set_timer(MOMENT_US);
}

void cmd_progress_end(void)
{
    set_timer(0);
    if (g_is_shown)
        fputs(erase_line, stderr);
    g_is_shown = 0;
}
