/*
** spend.c: runs a command and says what it spent.
**
** usage: spend FD COUNT [NAME=VALUE...] COMMAND...
**
** The command is run COUNT times, one after the other, with stdin, stdout and
** stderr as they are here and with these variables added to its environment.
** One line is then written to FD:
**
**     CPU_US WALL_US PEAK_KIB STATUS
**
** CPU_US: user and system time of all runs, and of the children that they
** waited for; PEAK_KIB: the greatest resident set of any; STATUS: that of the
** first run that failed, else 0, 128 and more for signals.
**
** A program of its own, and small, since a process begins with the peak of
** the one that it was forked from: under an interpreter nothing would appear
** to be smaller than that.
*/

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct spent {
    long long cpu_us;
    long peak_kib;
    int status;
};

static long long us_of(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static long long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static int fail(const char *what)
{
    fprintf(stderr, "tidemark: spend: '%s': %s\n", what, strerror(errno));
    return 2;
}

static int status_of(int wait_status)
{
    if (WIFSIGNALED(wait_status))
        return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

/* Runs the command once and adds to what was spent; -1 when it cannot. */
static int run_once(char **command, struct spent *spent)
{
    struct rusage used;
    int wait_status;
    pid_t child = vfork();

    if (child == 0) {
        execvp(command[0], command);
        _exit(127);
    }
    if (child < 0 || wait4(child, &wait_status, 0, &used) < 0)
        return -1;
    spent->cpu_us += us_of(used.ru_utime) + us_of(used.ru_stime);
    if (used.ru_maxrss > spent->peak_kib)
        spent->peak_kib = used.ru_maxrss;
    if (spent->status == 0)
        spent->status = status_of(wait_status);
    return 0;
}

int main(int argc, char **argv)
{
    struct spent spent = {0, 0, 0};
    long long start_us = now_us();
    int count = argc > 3 ? atoi(argv[2]) : 0;
    char **command = argv + 3;

    while (count > 0 && *command != NULL && strchr(*command, '=') != NULL)
        putenv(*command++);
    if (count < 1 || *command == NULL) {
        fputs("usage: spend FD COUNT [NAME=VALUE...] COMMAND...\n", stderr);
        return 2;
    }
    while (count-- > 0) {
        if (run_once(command, &spent) != 0)
            return fail(*command);
    }
    if (dprintf(atoi(argv[1]), "%lld %lld %ld %d\n", spent.cpu_us,
                now_us() - start_us, spent.peak_kib, spent.status) < 0)
        return fail(argv[1]);
    return 0;
}
