/*
** cmd_gates.h: the gates of `tidemark check`: what a run may take, for test
** pipelines.
*/
#ifndef TIDE_CMD_GATES_H
#define TIDE_CMD_GATES_H

#include <stdbool.h>
#include <stdint.h>

#include "../report/emit.h"
#include "../report/model.h"

#define CMD_GATES_MAX 16u

/* What is asked for. */
struct cmd_limits {
    uint64_t alloc_bytes; /* 0: no limit; the same for the next two */
    uint64_t live_bytes;
    uint64_t peak_bytes;
    bool no_leaks;
    bool has_growth;
    double growth_percent;        /* against the baseline */
    const char *baseline_or_null; /* a profile */
};

/* One gate, and whether the run passed it. */
struct cmd_gate {
    const char *name; /* "max-alloc" */
    bool has_passed;
    double limit; /* bytes, percent or 0 */
    double value;
    char text[400]; /* what was found, in words */
};

struct cmd_gates {
    struct cmd_gate gates[CMD_GATES_MAX];
    unsigned n;
};

bool cmd_has_limits(const struct cmd_limits *limits);

/* Reads the argument of --max-growth: "10" or "10%". */
bool cmd_parse_percent(const char *text, double *percent);

/*
** Holds a run against the limits.  Returns FINE, FAILED when a gate has not
** been passed, UNREADABLE (said why) when a profile could not be read.
*/
int cmd_hold(const char *path, const struct cmd_limits *limits,
             struct cmd_gates *out);

/* Failures on stderr, a line each. */
void cmd_print_gates(const char *path, const struct cmd_gates *gates);

/* The list "gates". */
void cmd_json_gates(struct tide_r_json *json, const struct cmd_gates *gates);

#endif
