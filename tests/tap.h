/*
** tap.h: the unit tests' harness.
**
**     #include "../tap.h"
**
**     TEST(units_kib_are_1024_bytes)
**     {
**         CHECK_EQ(tideR_parse_bytes("1K"), 1024);
**     }
**
** A file of tests is linked with tap.c, which holds main.  Every test runs in
** a process of its own with a time limit, so that a crash or an endless loop
** fails one test and the next ones still run.  A test fails when a CHECK does
** not hold (it ends there), when it dies of a signal, when it takes too long,
** and when a leak checker turns its exit status into a failure.
**
**     ./test_units            all tests, TAP on stdout
**     ./test_units NAME...    these tests, in this process: for a debugger
**     ./test_units --list     their names
**
** TIDE_TEST_SECONDS in the environment sets the limit (default 300).
*/
#ifndef TIDE_TAP_H
#define TIDE_TAP_H

#include <stdint.h>
#include <stdio.h>

#include "../common/compiler.h"

typedef void (*tap_fn)(void);

struct tap_test {
    const char *name;      /* the argument of TEST */
    tap_fn fn;             /* its body */
    struct tap_test *next; /* in order of definition */
};

enum tap_kind {
    TAP_PASSED = 0,
    TAP_FAILED,  /* a check did not hold, or an exit status was not 0 */
    TAP_CRASHED, /* died of a signal */
    TAP_TIMEOUT, /* ran longer than it may */
    TAP_SKIPPED, /* cannot be run here */
    TAP_KIND_COUNT_
};

struct tap_outcome {
    enum tap_kind kind;
    int code;      /* exit status or signal */
    char why[200]; /* of a skip: the reason; else "" */
};

#define TEST(name_)                                                            \
 static void name_(void);                                                      \
 static TIDE_CONSTRUCTOR void tap_add_##name_(void)                            \
 {                                                                             \
  static struct tap_test test = {#name_, name_, NULL};                         \
  tap_register(&test);                                                         \
 }                                                                             \
 static void name_(void)

#define CHECK(cond)                                                            \
 do {                                                                          \
  if (!(cond))                                                                 \
   tap_fail(__FILE__, __LINE__, "%s", #cond);                                  \
 } while (0)

/* Integers of any width, compared as 64 bits; both are printed. */
#define CHECK_EQ(a, b)                                                         \
 tap_check_eq(__FILE__, __LINE__, #a " == " #b, (int64_t)(a), (int64_t)(b))

/* Strings; NULL equals NULL only. */
#define CHECK_STR(a, b) tap_check_str(__FILE__, __LINE__, #a, (a), (b))

/* Ends the test as one that cannot be run here. */
#define SKIP(...) tap_skip(__VA_ARGS__)

void tap_register(struct tap_test *test);
_Noreturn void tap_fail(const char *file, int line, const char *fmt, ...)
    TIDE_PRINTF(3, 4);
_Noreturn void tap_skip(const char *fmt, ...) TIDE_PRINTF(1, 2);
void tap_check_eq(const char *file, int line, const char *what, int64_t a,
                  int64_t b);
void tap_check_str(const char *file, int line, const char *what, const char *a,
                   const char *b);

/* The parts of main, for the tests of the harness itself. */

/* Runs a body in a process of its own for at most so many seconds. */
struct tap_outcome tap_fork(tap_fn fn, unsigned seconds);

/* Writes the line of TAP for test number n; true unless it failed. */
int tap_print(FILE *out, unsigned n, const char *name,
              const struct tap_outcome *outcome);

#endif
