/*
** run_child.c: starts the profiled program and waits for its end.
**
** The program stays in this process's group, so the terminal's signals and job
** control reach it without help.  Here they are blocked and taken one by one
** with sigwaitinfo: what the kernel sent (the terminal) has reached the
** program too and is dropped, what a process sent is handed on.  Nothing runs
** in a signal handler, and the program starts with the mask and the actions
** that this process was given.
*/
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

#define STATUS_CANNOT_RUN 126
#define STATUS_NOT_FOUND  127
#define STATUS_SIGNAL     128 /* and the signal's number */

static const int handled_signals[] = {
    SIGCHLD, SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
    SIGUSR2, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH,
};

/* What the program must find as it was. */
struct inherited {
    sigset_t mask;
    struct sigaction on_child;
};

static void fill_handled(sigset_t *set)
{
    sigemptyset(set);
    for (size_t i = 0; i < sizeof handled_signals / sizeof(int); i++)
        sigaddset(set, handled_signals[i]);
}

/* SIGCHLD must not be ignored, else the end of the program is not told. */
static void take_signals(struct inherited *inherited)
{
    sigset_t set;
    struct sigaction standard = {.sa_handler = SIG_DFL};
    fill_handled(&set);
    sigprocmask(SIG_BLOCK, &set, &inherited->mask);
    sigaction(SIGCHLD, &standard, &inherited->on_child);
}

static void give_signals_back(const struct inherited *inherited)
{
    sigaction(SIGCHLD, &inherited->on_child, NULL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
}

/* In the child; does not return.  The pipe closes itself when exec succeeds. */
static _Noreturn void become_program(char **argv, const struct run_env *env,
                                     const struct inherited *inherited,
                                     int pipe_fd)
{
    int failed = ENOMEM;
    if (setenv("LD_PRELOAD", env->preload, 1) == 0 &&
        setenv("TIDEMARK", env->options, 1) == 0) {
        give_signals_back(inherited);
        execvp(argv[0], argv);
        failed = errno;
    }
    while (write(pipe_fd, &failed, sizeof failed) < 0 && errno == EINTR)
        ;
    _exit(STATUS_NOT_FOUND);
}

/* 0 when exec succeeded. */
static int read_exec_errno(int fd)
{
    int failed = 0;
    ssize_t n;
    do
        n = read(fd, &failed, sizeof failed);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof failed ? failed : 0;
}

static bool start_child(char **argv, const struct run_env *env,
                        const struct inherited *inherited, struct run_end *end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    end->pid = fork();
    if (end->pid == 0)
        become_program(argv, env, inherited, ends[1]);
    close(ends[1]);
    if (end->pid > 0)
        end->exec_errno = read_exec_errno(ends[0]);
    const int fork_errno = errno;
    close(ends[0]);
    errno = fork_errno;
    return end->pid > 0;
}

/* A stop that the terminal asked for stops the whole job. */
static void follow_stop(pid_t pid, int stop_signal)
{
    if (stop_signal != SIGTSTP && stop_signal != SIGTTIN &&
        stop_signal != SIGTTOU)
        return;
    raise(SIGSTOP);
    kill(pid, SIGCONT);
}

/* Takes what is known of the child; true when it has ended. */
static bool reap_child(struct run_end *end)
{
    int status;
    pid_t got;
    while ((got = waitpid(end->pid, &status, WNOHANG | WUNTRACED)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            end->exit_status = STATUS_CANNOT_RUN;
            return true;
        }
        if (WIFSTOPPED(status)) {
            follow_stop(end->pid, WSTOPSIG(status));
            continue;
        }
        end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        end->exit_status = WIFEXITED(status) ? WEXITSTATUS(status)
                                             : STATUS_SIGNAL + end->signal;
        return true;
    }
    return false;
}

/* Whether a process sent it, and not the program itself. */
static bool is_to_hand_on(const siginfo_t *info, pid_t child)
{
    return info->si_code <= 0 && info->si_pid != child;
}

static void wait_for_child(struct run_end *end)
{
    sigset_t set;
    siginfo_t info;
    fill_handled(&set);
    while (!reap_child(end)) {
        const int signal_number = sigwaitinfo(&set, &info);
        if (signal_number > 0 && signal_number != SIGCHLD &&
            is_to_hand_on(&info, end->pid))
            kill(end->pid, signal_number);
    }
}

bool run_child(char **argv, const struct run_env *env, struct run_end *end)
{
    struct inherited inherited;
    *end = (struct run_end){.pid = 0};
    take_signals(&inherited);
    const bool is_started = start_child(argv, env, &inherited, end);
    const int start_errno = errno;
    if (is_started)
        wait_for_child(end);
    if (end->exec_errno != 0)
        end->exit_status =
            end->exec_errno == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
    give_signals_back(&inherited);
    errno = start_errno;
    return is_started;
}
