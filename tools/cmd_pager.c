/*
** cmd_pager.c: reads a long output page by page, as git does.
**
** The pager gets stdout's bytes through a pipe; LESS is FRX unless it is set:
** leave at once when one screen is enough, let colours through.  Whoever
** leaves the pager early wanted no more: that is no error.
*/
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd_page.h"

extern char **environ;

static pid_t g_pager; /* 0: none */

/* The command, "" or NULL: none. */
static const char *pager_command(void)
{
    const char *command = getenv("TIDEMARK_PAGER");
    if (command == NULL)
        command = getenv("PAGER");
    if (command == NULL)
        command = "command -v less >/dev/null && exec less || exec cat";
    return strcmp(command, "cat") == 0 ? "" : command;
}

static bool spawn_pager(const char *command, int from)
{
    char shell[] = "sh";
    char option[] = "-c";
    char *line = strdup(command);
    char *args[] = {shell, option, line, NULL};
    posix_spawn_file_actions_t actions;
    if (line == NULL)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, from, STDIN_FILENO);
    const int err =
        posix_spawnp(&g_pager, shell, &actions, NULL, args, environ);
    posix_spawn_file_actions_destroy(&actions);
    free(line);
    if (err != 0)
        g_pager = 0;
    return err == 0;
}

void cmd_pager_start(void)
{
    int ends[2];
    const char *command = pager_command();
    if (g_pager != 0 || !isatty(STDOUT_FILENO) || *command == '\0')
        return;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    setenv("LESS", "FRX", 0);
    setenv("LV", "-c", 0);
    fflush(stdout);
    if (spawn_pager(command, ends[0])) {
        dup2(ends[1], STDOUT_FILENO);
        /* they are meant for the pager, which says when it has ended */
        signal(SIGINT, SIG_IGN);
        signal(SIGPIPE, SIG_IGN);
    }
    close(ends[0]);
    close(ends[1]);
}

bool cmd_pager_is_on(void)
{
    return g_pager != 0;
}

bool cmd_pager_end(void)
{
    int status;
    if (g_pager == 0)
        return false;
    fflush(stdout);
    close(STDOUT_FILENO);
    while (waitpid(g_pager, &status, 0) < 0 && errno == EINTR)
        ;
    g_pager = 0;
    return true;
}
