/*
** agent_report.c: runs `tidemark report` when the profiled process ends.
**
** The report is made by another process, so that nothing of it lives in the
** host.  It gets the host's environment without what would profile it too, the
** host's stderr as its output, and no input.  The host's handler for SIGCHLD
** does not see it end.
*/
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef TIDE_BINDIR
# define TIDE_BINDIR "/usr/bin"
#endif

extern char **environ;

#define ARGS_MAX 8

static bool is_hidden(const char *entry)
{
    static const char *const names[] = {
        "LD_PRELOAD=", "TIDEMARK=", "TIDEMARK_PROBE=", "LUA_INIT"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(entry, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

/* The environment without what would profile the child; NULL: no memory. */
static char **clean_environment(void)
{
    size_t n = 0;
    size_t n_kept = 0;
    while (environ != NULL && environ[n] != NULL)
        n++;
    char **kept = malloc((n + 1) * sizeof *kept);
    if (kept == NULL)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (!is_hidden(environ[i]))
            kept[n_kept++] = environ[i];
    kept[n_kept] = NULL;
    return kept;
}

static bool is_command_in(const char *folder, char *out, size_t out_bytes)
{
    const int n = snprintf(out, out_bytes, "%s/tidemark", folder);
    return n > 0 && (size_t)n < out_bytes && access(out, X_OK) == 0;
}

/* The command in the folder of a file, whose path is cut to that. */
static bool is_command_beside(char *path, char *out, size_t out_bytes)
{
    return is_command_in(dirname(path), out, out_bytes);
}

/*
** The command beside the library as it was named, beside its file, or where
** both were installed.
*/
static bool find_command(char *out, size_t out_bytes)
{
    char named[sizeof g_agent.library];
    memcpy(named, g_agent.library, sizeof named);
    if (is_command_beside(named, out, out_bytes))
        return true;
    char *real = realpath(g_agent.library, NULL);
    const bool is_there =
        real != NULL && is_command_beside(real, out, out_bytes);
    free(real);
    return is_there || is_command_in(TIDE_BINDIR, out, out_bytes);
}

/* Where the host ignores SIGCHLD there is in the end nothing to wait for. */
static void wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return;
}

static bool spawn(const char *command, char *const args[], char *const env[])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t defaults;
    sigset_t none;
    pid_t pid;
    sigfillset(&defaults);
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    const int err = posix_spawn(&pid, command, &actions, &attr, args, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (err == 0)
        wait_for(pid);
    return err == 0;
}

/* The arguments of one kind of report, in an array of ARGS_MAX. */
static void fill_args(const char **args, const char *path, const char *top,
                      const char *page, const struct tide_options *options)
{
    size_t n = 0;
    args[n++] = "tidemark";
    args[n++] = "report";
    if (options->report == TIDE_REPORT_JSON)
        args[n++] = "--json";
    if (options->report == TIDE_REPORT_HTML) {
        args[n++] = "--html";
        args[n++] = page;
    } else {
        args[n++] = "--top";
        args[n++] = top;
    }
    args[n++] = path;
    args[n] = NULL;
}

static void run_report(const char *command, const char *path,
                       const struct tide_options *options)
{
    const char *args[ARGS_MAX];
    char page[TIDE_OPT_PATH_MAX + 8];
    char top[16];
    sigset_t child_ended;
    sigset_t before;
    char **env = clean_environment();
    if (env == NULL)
        return;
    snprintf(top, sizeof top, "%u", (unsigned)options->top);
    snprintf(page, sizeof page, "%s.html", path);
    fill_args(args, path, top, page, options);
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &child_ended, &before);
    if (!spawn(command, (char *const *)args, env))
        tideG_warn_once("report", "'tidemark' could not be started");
    sigtimedwait(&child_ended, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(env);
}

void tideG_report(const char *path, const struct tide_options *options)
{
    char command[TIDE_OPT_PATH_MAX + 16];
    if (fcntl(STDERR_FILENO, F_GETFD) < 0)
        return; /* a daemon: nobody reads it */
    if (find_command(command, sizeof command))
        run_report(command, path, options);
    else
        tideG_warn_once("report", "no 'tidemark' beside libtidemark.so");
}
