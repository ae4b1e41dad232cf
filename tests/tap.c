/*
** tap.c: main of every unit test; see tap.h.
**
** A child is put into a process group of its own and gets an alarm, so that a
** body which hangs dies by itself; the parent then kills what the body had
** started.  Its stdout goes to stderr: stdout is for TAP alone.  A test that
** passes leaves through exit, so that sanitizers and valgrind look for leaks
** test by test; one that fails leaves at once, its state being unknown.
*/
#include "tap.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAP_SKIP_STATUS 77
#define TAP_SECONDS     300u

static struct tap_test *g_first; /* all tests, in order */
static struct tap_test **g_end = &g_first;
static int g_skip_fd = -1; /* a child's reason goes there; -1: none */

void tap_register(struct tap_test *test)
{
    *g_end = test;
    g_end = &test->next;
}

/* In a debugger the test stops where it failed; in its own process it ends. */
static _Noreturn void leave(int status)
{
    fflush(NULL);
    if (g_skip_fd < 0 && status != TAP_SKIP_STATUS)
        abort();
    _exit(status);
}

void tap_fail(const char *file, int line, const char *fmt, ...)
{
    va_list args;
    fprintf(stderr, "# %s:%d: failed: ", file, line);
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    leave(1);
}

void tap_skip(const char *fmt, ...)
{
    char why[sizeof((struct tap_outcome *)NULL)->why];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    if (g_skip_fd < 0)
        fprintf(stderr, "# skipped: %s\n", why);
    else if (write(g_skip_fd, why, strlen(why)) < 0)
        leave(1);
    leave(TAP_SKIP_STATUS);
}

void tap_check_eq(const char *file, int line, const char *what, int64_t a,
                  int64_t b)
{
    if (a != b)
        tap_fail(file, line, "%s: %" PRId64 " is not %" PRId64, what, a, b);
}

void tap_check_str(const char *file, int line, const char *what, const char *a,
                   const char *b)
{
    if (a == b || (a != NULL && b != NULL && strcmp(a, b) == 0))
        return;
    tap_fail(file, line, "%s: \"%s\" is not \"%s\"", what, a ? a : "(null)",
             b ? b : "(null)");
}

static _Noreturn void run_child(tap_fn fn, unsigned seconds, int skip_fd)
{
    g_skip_fd = skip_fd;
    setpgid(0, 0);
    signal(SIGALRM, SIG_DFL);
    alarm(seconds);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    fn();
    exit(0);
}

static pid_t wait_for(pid_t pid, int *status)
{
    pid_t got;
    do
        got = waitpid(pid, status, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

static void judge(int status, struct tap_outcome *outcome)
{
    if (WIFSIGNALED(status)) {
        outcome->code = WTERMSIG(status);
        outcome->kind = outcome->code == SIGALRM ? TAP_TIMEOUT : TAP_CRASHED;
        return;
    }
    outcome->code = WEXITSTATUS(status);
    if (outcome->code == TAP_SKIP_STATUS)
        outcome->kind = TAP_SKIPPED;
    else if (outcome->code == 0)
        outcome->kind = TAP_PASSED;
}

struct tap_outcome tap_fork(tap_fn fn, unsigned seconds)
{
    struct tap_outcome outcome = {TAP_FAILED, -1, ""};
    int ends[2], status;
    fflush(NULL);
    if (pipe(ends) != 0)
        return outcome;
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_child(fn, seconds, ends[1]);
    }
    close(ends[1]);
    if (pid > 0 && wait_for(pid, &status) == pid) {
        judge(status, &outcome);
        kill(-pid, SIGKILL);
        const ssize_t n =
            outcome.kind != TAP_SKIPPED
                ? 0
                : read(ends[0], outcome.why, sizeof outcome.why - 1);
        outcome.why[n > 0 ? n : 0] = '\0';
    }
    close(ends[0]);
    return outcome;
}

int tap_print(FILE *out, unsigned n, const char *name,
              const struct tap_outcome *outcome)
{
    static const char *const why[TAP_KIND_COUNT_] = {
        [TAP_FAILED] = "exit status",
        [TAP_CRASHED] = "died of signal",
        [TAP_TIMEOUT] = "ran too long, ended by signal",
    };
    const int is_ok =
        outcome->kind == TAP_PASSED || outcome->kind == TAP_SKIPPED;
    fprintf(out, "%sok %u - %s", is_ok ? "" : "not ", n, name);
    if (outcome->kind == TAP_SKIPPED)
        fprintf(out, " # SKIP %s", outcome->why);
    fputc('\n', out);
    if (!is_ok)
        fprintf(out, "# %s: %s %d\n", name, why[outcome->kind], outcome->code);
    fflush(out);
    return is_ok;
}

static int run_all(unsigned seconds)
{
    unsigned n = 0, n_failed = 0;
    for (const struct tap_test *t = g_first; t != NULL; t = t->next)
        n++;
    printf("1..%u\n", n);
    n = 0;
    for (const struct tap_test *t = g_first; t != NULL; t = t->next) {
        const struct tap_outcome outcome = tap_fork(t->fn, seconds);
        n_failed += !tap_print(stdout, ++n, t->name, &outcome);
    }
    return n_failed != 0;
}

static int run_here(const char *name)
{
    for (const struct tap_test *t = g_first; t != NULL; t = t->next) {
        if (strcmp(t->name, name) != 0)
            continue;
        t->fn();
        printf("# %s: passed\n", name);
        return 0;
    }
    fprintf(stderr, "no test '%s'\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    const char *limit = getenv("TIDE_TEST_SECONDS");
    const unsigned seconds = limit ? (unsigned)atoi(limit) : TAP_SECONDS;
    int status = 0;
    if (argc == 1)
        return run_all(seconds);
    if (strcmp(argv[1], "--list") == 0) {
        for (const struct tap_test *t = g_first; t != NULL; t = t->next)
            puts(t->name);
        return 0;
    }
    for (int i = 1; i < argc && status == 0; i++)
        status = run_here(argv[i]);
    return status;
}
