/*
** cmd_check.c: `tidemark check`: whether a profile is whole and its books
** balance.
**
** Sums are compared exactly when the profile was finished in order.  A run
** that goes on, or was killed, may be caught between two stores: then only
** the structure is checked.
*/
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../report/emit.h"
#include "../report/units.h"
#include "cmd.h"
#include "cmd_gates.h"

#define NAME       "check"
#define FAULTS_MAX 20u /* printed; all are counted */
#define GROWTH_MAX 5.0 /* percent, against a baseline */

static const char usage[] =
    "usage: tidemark check [OPTION...] FILE\n"
    "\n"
    "Checks the structure of a profile and its books: for every row\n"
    "allocated + moved - freed = live, and all rows add up.  Then the run is\n"
    "held against the limits that are given.\n"
    "\n"
    "  --max-alloc SIZE      allocated in all\n"
    "  --max-live SIZE       held at the end\n"
    "  --max-peak SIZE       held at the highest\n"
    "  --no-leaks            no line may look like a leak\n"
    "  --baseline FILE       the profile of an earlier run: what was\n"
    "                        allocated, is held and was held at the highest\n"
    "                        may not grow ...\n"
    "  --max-growth PERCENT  ... by more than this; default 5\n"
    "  --json                the result for programs\n"
    "  -h, --help            this text\n"
    "\n"
    "Exit status: 0 fine, 1 something is wrong or over its limit, 3 it cannot\n"
    "be read.\n";

enum option_id {
    OPT_JSON = 256,
    OPT_MAX_ALLOC,
    OPT_MAX_LIVE,
    OPT_MAX_PEAK,
    OPT_NO_LEAKS,
    OPT_BASELINE,
    OPT_MAX_GROWTH,
};

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"max-alloc", required_argument, NULL, OPT_MAX_ALLOC},
    {"max-live", required_argument, NULL, OPT_MAX_LIVE},
    {"max-peak", required_argument, NULL, OPT_MAX_PEAK},
    {"no-leaks", no_argument, NULL, OPT_NO_LEAKS},
    {"baseline", required_argument, NULL, OPT_BASELINE},
    {"max-growth", required_argument, NULL, OPT_MAX_GROWTH},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* What was found. */
struct verdict {
    const char *path;
    const struct tide_profile *profile;
    const char *state; /* "closed", "running", "killed" */
    bool is_exact;     /* sums were compared */
    uint64_t n_states;
    uint64_t n_gone;     /* closed, to their last block */
    uint64_t left_bytes; /* not freed by then */
    uint64_t n_in_use;   /* when the process ended: their sums were not */
    uint64_t n_nodes;
    uint64_t n_cells;
    uint64_t n_cycles;
    uint64_t alloc_bytes;
    uint64_t live_bytes;
    uint64_t n_faults; /* of structure and books */
    char *faults[FAULTS_MAX];
    struct cmd_gates gates;
};

static void keep_fault(void *ctx, const char *text)
{
    struct verdict *verdict = ctx;
    if (verdict->n_faults < FAULTS_MAX)
        verdict->faults[verdict->n_faults] = strdup(text);
    verdict->n_faults++;
}

static const char *state_of(const struct tide_p_header *header)
{
    if (header->state == TIDE_P_CLOSED)
        return "closed";
    const bool is_gone = header->pid == 0 ||
                         (kill((pid_t)header->pid, 0) != 0 && errno == ESRCH);
    return is_gone ? "killed" : "running";
}

static void count_heap(struct verdict *verdict, const struct tide_p_view *view)
{
    verdict->n_states += view->head->n_states;
    verdict->n_gone += view->head->n_gone;
    verdict->left_bytes += view->head->left_bytes;
    verdict->n_in_use += verdict->is_exact && !tideP_view_is_settled(view);
    verdict->n_nodes += view->n_nodes - 1;
    verdict->n_cells += view->n_cells - 1;
    verdict->n_cycles += view->n_cycles;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        verdict->alloc_bytes += view->cells[i].alloc_bytes;
        verdict->live_bytes += tideP_cell_live_bytes(&view->cells[i]);
    }
}

static void examine(struct verdict *verdict)
{
    const struct tide_p_header *header = tideP_reader_header(verdict->profile);
    const uint32_t n = tideP_reader_n_heaps(verdict->profile);
    verdict->state = state_of(header);
    verdict->is_exact = header->state == TIDE_P_CLOSED;
    for (uint32_t i = 0; i < n; i++)
        count_heap(verdict, tideP_reader_heap(verdict->profile, i));
    tideP_check(verdict->profile, verdict->is_exact, keep_fault, verdict);
}

static bool is_partly_in_memory(const struct verdict *verdict)
{
    const struct tide_p_header *header = tideP_reader_header(verdict->profile);
    return (header->flags & TIDE_P_FLAG_PARTLY_IN_MEMORY) != 0;
}

static uint64_t count_faults(const struct verdict *verdict)
{
    return verdict->n_faults + is_partly_in_memory(verdict);
}

static bool is_whole(const struct verdict *verdict)
{
    return count_faults(verdict) == 0;
}

static void print_faults(const struct verdict *verdict)
{
    if (is_partly_in_memory(verdict))
        cmd_error(verdict->path, "the disk was full, rows are missing");
    for (uint64_t i = 0; i < verdict->n_faults && i < FAULTS_MAX; i++)
        cmd_error(verdict->path, "%s",
                  verdict->faults[i] != NULL ? verdict->faults[i] : "fault");
    if (verdict->n_faults > FAULTS_MAX)
        cmd_error(verdict->path, "%" PRIu64 " more faults",
                  verdict->n_faults - FAULTS_MAX);
}

static void print_line(const struct verdict *verdict)
{
    char allocated[TIDE_R_UNIT_MAX];
    char live[TIDE_R_UNIT_MAX];
    char result[TIDE_R_UNIT_MAX + 48] = "the books balance";
    if (!is_whole(verdict))
        snprintf(result, sizeof result, "faults: %s",
                 tideR_count_text((int64_t)count_faults(verdict), live));
    else if (!verdict->is_exact)
        snprintf(result, sizeof result, "sums not compared");
    else if (verdict->n_in_use > 0)
        snprintf(result, sizeof result,
                 "the books balance, but for %" PRIu64 " states in use",
                 verdict->n_in_use);
    printf("%s: %s, %s; %s; %" PRIu64 " %s, %" PRIu64 " nodes, %" PRIu64
           " cells, %" PRIu64 " cycles, %s allocated, %s live\n",
           verdict->path, is_whole(verdict) ? "whole" : "not whole",
           verdict->state, result, verdict->n_states,
           verdict->n_states == 1 ? "state" : "states", verdict->n_nodes,
           verdict->n_cells, verdict->n_cycles,
           tideR_bytes_text((int64_t)verdict->alloc_bytes, allocated),
           tideR_bytes_text((int64_t)verdict->live_bytes, live));
}

static void put_faults(struct tide_r_json *json, const struct verdict *verdict)
{
    tideR_json_open(json, "faults", '[');
    if (is_partly_in_memory(verdict))
        tideR_json_str(json, NULL, "the disk was full, rows are missing");
    for (uint64_t i = 0; i < verdict->n_faults && i < FAULTS_MAX; i++)
        tideR_json_str(json, NULL,
                       verdict->faults[i] != NULL ? verdict->faults[i]
                                                  : "fault");
    tideR_json_close(json, ']');
}

static void print_json(const struct verdict *verdict)
{
    struct tide_r_sink sink = tideR_sink(stdout);
    struct tide_r_json json = tideR_json_on(&sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-check");
    tideR_json_int(&json, "version", 1);
    tideR_json_str(&json, "file", verdict->path);
    tideR_json_bool(&json, "whole", is_whole(verdict));
    tideR_json_str(&json, "state", verdict->state);
    tideR_json_bool(&json, "sums_compared", verdict->is_exact);
    tideR_json_int(&json, "states", (int64_t)verdict->n_states);
    tideR_json_int(&json, "closed", (int64_t)verdict->n_gone);
    tideR_json_int(&json, "left_bytes", (int64_t)verdict->left_bytes);
    tideR_json_int(&json, "in_use", (int64_t)verdict->n_in_use);
    tideR_json_int(&json, "nodes", (int64_t)verdict->n_nodes);
    tideR_json_int(&json, "cells", (int64_t)verdict->n_cells);
    tideR_json_int(&json, "cycles", (int64_t)verdict->n_cycles);
    tideR_json_int(&json, "alloc_bytes", (int64_t)verdict->alloc_bytes);
    tideR_json_int(&json, "live_bytes", (int64_t)verdict->live_bytes);
    tideR_json_int(&json, "n_faults", (int64_t)count_faults(verdict));
    put_faults(&json, verdict);
    cmd_json_gates(&json, &verdict->gates);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
}

static int check_file(const char *path, bool is_json,
                      const struct cmd_limits *limits)
{
    struct tide_profile *profile;
    struct tide_p_problem problem = {.err = TIDE_OK};
    if (tideP_reader_open(path, &profile, &problem) != TIDE_OK) {
        cmd_error(path, "%s", problem.text);
        return CMD_UNREADABLE;
    }
    struct verdict verdict = {.path = path, .profile = profile};
    examine(&verdict);
    int status = is_whole(&verdict) ? CMD_FINE : CMD_FAILED;
    if (status == CMD_FINE && cmd_has_limits(limits))
        status = cmd_hold(path, limits, &verdict.gates);
    if (is_json) {
        print_json(&verdict);
    } else {
        print_faults(&verdict);
        print_line(&verdict);
        cmd_print_gates(path, &verdict.gates);
    }
    for (unsigned i = 0; i < FAULTS_MAX; i++)
        free(verdict.faults[i]);
    tideP_reader_close(profile);
    return status;
}

static int set_size(const char *option, const char *text, uint64_t *bytes)
{
    if (tideR_bytes_parse(text, bytes) == TIDE_OK && *bytes > 0)
        return CMD_FINE;
    return cmd_wrong_use(NAME,
                         "%s takes a size such as 10K or 1.5MiB, not "
                         "'%s'",
                         option, text);
}

static int set_limit(struct cmd_limits *limits, int id, const char *value)
{
    switch (id) {
    case OPT_MAX_ALLOC:
        return set_size("--max-alloc", value, &limits->alloc_bytes);
    case OPT_MAX_LIVE:
        return set_size("--max-live", value, &limits->live_bytes);
    case OPT_MAX_PEAK:
        return set_size("--max-peak", value, &limits->peak_bytes);
    case OPT_NO_LEAKS:
        limits->no_leaks = true;
        return CMD_FINE;
    case OPT_BASELINE:
        limits->baseline_or_null = value;
        return CMD_FINE;
    default:
        limits->has_growth = true;
        if (cmd_parse_percent(value, &limits->growth_percent))
            return CMD_FINE;
        return cmd_wrong_use(NAME, "--max-growth takes a percentage, not '%s'",
                             value);
    }
}

int cmd_check(int argc, char **argv)
{
    struct cmd_limits limits = {.growth_percent = GROWTH_MAX};
    bool is_json = false;
    int id, status = CMD_FINE;
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h') {
            fputs(usage, stdout);
            return CMD_FINE;
        }
        if (id == OPT_JSON)
            is_json = true;
        else
            status = set_limit(&limits, id, optarg);
    }
    if (status != CMD_FINE)
        return status;
    if (argc - optind != 1)
        return cmd_wrong_use(NAME, "one FILE is needed");
    if (limits.has_growth && limits.baseline_or_null == NULL)
        return cmd_wrong_use(NAME, "--max-growth needs --baseline");
    return check_file(argv[optind], is_json, &limits);
}
