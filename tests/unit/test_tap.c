/*
** test_tap.c: tests of the harness itself: whatever must fail, fails.
**
** The bodies below are no tests of their own; they are run by tap_fork and
** must end in the way that each test says.
*/
#include "../tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void body_empty(void)
{
}

static void body_check_fails(void)
{
    CHECK(1 + 1 == 3);
}

static void body_eq_fails(void)
{
    CHECK_EQ(UINT64_MAX, 0);
}

static void body_str_fails(void)
{
    CHECK_STR("tide", "mark");
}

static void body_null_is_not_empty(void)
{
    CHECK_STR(NULL, "");
}

static void body_goes_on_after_failure(void)
{
    CHECK_EQ(1, 2);
    raise(SIGKILL);
}

static void body_crashes(void)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

static void body_aborts(void)
{
    abort();
}

static void body_hangs(void)
{
    for (;;)
        pause();
}

static void body_exits_early(void)
{
    exit(3);
}

static void body_skips(void)
{
    SKIP("no %s here", "moon");
}

static void body_leaves_a_child(void)
{
    if (fork() == 0)
        for (;;)
            pause();
}

static void body_prints(void)
{
    puts("not ok 1 - a body's own output is no TAP");
    fflush(stdout);
}

static enum tap_kind kind_of(tap_fn fn)
{
    return tap_fork(fn, 20).kind;
}

TEST(tap_an_empty_body_passes)
{
    CHECK_EQ(kind_of(body_empty), TAP_PASSED);
}

TEST(tap_checks_that_hold_pass)
{
    CHECK(1);
    CHECK_EQ(-1, -1);
    CHECK_STR("a", "a");
    CHECK_STR(NULL, NULL);
}

TEST(tap_a_failing_check_fails)
{
    CHECK_EQ(kind_of(body_check_fails), TAP_FAILED);
    CHECK_EQ(kind_of(body_eq_fails), TAP_FAILED);
    CHECK_EQ(kind_of(body_str_fails), TAP_FAILED);
    CHECK_EQ(kind_of(body_null_is_not_empty), TAP_FAILED);
}

TEST(tap_a_failing_check_ends_the_test)
{
    CHECK_EQ(kind_of(body_goes_on_after_failure), TAP_FAILED);
}

TEST(tap_a_crash_fails)
{
    CHECK_EQ(kind_of(body_crashes) == TAP_PASSED, 0);
    const struct tap_outcome outcome = tap_fork(body_aborts, 20);
    CHECK_EQ(outcome.kind, TAP_CRASHED);
    CHECK_EQ(outcome.code, SIGABRT);
}

TEST(tap_a_hanging_test_fails)
{
    const struct tap_outcome outcome = tap_fork(body_hangs, 1);
    CHECK_EQ(outcome.kind, TAP_TIMEOUT);
}

TEST(tap_an_early_exit_with_a_status_fails)
{
    const struct tap_outcome outcome = tap_fork(body_exits_early, 20);
    CHECK_EQ(outcome.kind, TAP_FAILED);
    CHECK_EQ(outcome.code, 3);
}

TEST(tap_a_skip_carries_its_reason)
{
    const struct tap_outcome outcome = tap_fork(body_skips, 20);
    CHECK_EQ(outcome.kind, TAP_SKIPPED);
    CHECK_STR(outcome.why, "no moon here");
}

TEST(tap_processes_left_behind_do_not_block)
{
    CHECK_EQ(kind_of(body_leaves_a_child), TAP_PASSED);
}

TEST(tap_output_of_a_body_stays_out_of_stdout)
{
    int ends[2];
    char text[64];
    CHECK_EQ(pipe(ends), 0);
    dup2(ends[1], STDOUT_FILENO);
    CHECK_EQ(kind_of(body_prints), TAP_PASSED);
    close(ends[1]);
    close(STDOUT_FILENO);
    CHECK_EQ(read(ends[0], text, sizeof text), 0);
}

/* The text that tap_print writes; static, so that each test has its own. */
static const char *printed(enum tap_kind kind, int code, const char *why,
                           int is_ok)
{
    static char text[400];
    struct tap_outcome outcome = {kind, code, ""};
    strncpy(outcome.why, why, sizeof outcome.why - 1);
    FILE *out = fmemopen(text, sizeof text, "w");
    CHECK(out != NULL);
    CHECK_EQ(tap_print(out, 7, "name", &outcome), is_ok);
    fclose(out);
    return text;
}

TEST(tap_lines_are_tap)
{
    CHECK_STR(printed(TAP_PASSED, 0, "", 1), "ok 7 - name\n");
    CHECK_STR(printed(TAP_SKIPPED, 77, "no moon", 1),
              "ok 7 - name # SKIP no moon\n");
    CHECK_STR(printed(TAP_FAILED, 1, "", 0),
              "not ok 7 - name\n# name: exit status 1\n");
    CHECK_STR(printed(TAP_CRASHED, 11, "", 0),
              "not ok 7 - name\n# name: died of signal 11\n");
    CHECK_STR(printed(TAP_TIMEOUT, 14, "", 0),
              "not ok 7 - name\n# name: ran too long, ended by signal 14\n");
}
