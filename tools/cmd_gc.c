/*
** cmd_gc.c: `tidemark gc`: what the collector did, and what it left.
*/
#include <string.h>

#include "../report/gcview.h"
#include "../report/units.h"
#include "cmd.h"

#define NAME     "gc"
#define TOP_ROWS 20u

static const char usage[] =
    "usage: tidemark gc [OPTION...] FILE\n"
    "\n"
    "Shows a profile from the side of the collector: findings, the heap over\n"
    "time, collections, what was done to the collector, and what survives.\n"
    "\n"
    "  --by WHAT       what survives, and ages: by line or by stack;\n"
    "                  state: each state by itself, those first that\n"
    "                  allocated most; may be given twice\n"
    "  --state N       only the state of this number\n"
    "  --top N         N rows of each table at most, 0 for all; default 20\n"
    "  --json          everything, for programs\n"
    "  -h, --help      this text\n"
    "\n"
    "What was freed had survived no collection, one, two, or more.  The\n"
    "`span` of a collection is from the first mark to the end of the sweep,\n"
    "with what the program did meanwhile; it is known for cycles of 2 ms and\n"
    "more.\n";

static const struct option long_options[] = {
    {"by", required_argument, NULL, 'b'},
    {"json", no_argument, NULL, 'j'},
    {"state", required_argument, NULL, 's'},
    {"top", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* False: it has been complained of. */
static bool has_state(const struct tide_model *model, uint32_t state)
{
    const uint32_t n = tideP_reader_n_heaps(model->profile);
    if (state == TIDE_R_STATES || state < n)
        return true;
    cmd_wrong_use(NAME, "there is no state %u: there are %u, from 0 on",
                  (unsigned)state, (unsigned)n);
    return false;
}

static int show_gc(const char *path, bool is_json,
                   const struct tide_r_gcquery *query)
{
    struct tide_model *model = cmd_open_model(path);
    if (model == NULL)
        return CMD_UNREADABLE;
    if (!has_state(model, query->state)) {
        tideR_model_close(model);
        return CMD_WRONG_USE;
    }
    const struct tide_r_look look = cmd_look(stdout, CMD_COLOUR_AUTO, path);
    const enum tide_err err = is_json
                                  ? tideR_gc_json(model, stdout)
                                  : tideR_gc_text(model, query, &look, stdout);
    tideR_model_close(model);
    return cmd_rendered(err);
}

/* False: it is none of them. */
static bool set_by(const char *text, struct tide_r_gcquery *query)
{
    if (strcmp(text, "state") == 0)
        query->by_state = true;
    else if (strcmp(text, "stack") == 0)
        query->by_stack = true;
    else if (strcmp(text, "line") == 0)
        query->by_stack = false;
    else
        return false;
    return true;
}

static bool parse_state(const char *text, uint32_t *out)
{
    uint64_t n;
    if (tideR_count_parse(text, &n) != TIDE_OK || n >= TIDE_R_STATES)
        return false;
    *out = (uint32_t)n;
    return true;
}

/* Reads one option; an exit status. */
static int set_option(int id, struct tide_r_gcquery *query, bool *is_json)
{
    if (id == 'b' && !set_by(optarg, query))
        return cmd_wrong_use(NAME, "--by takes line, stack or state, not '%s'",
                             optarg);
    if (id == 's' && !parse_state(optarg, &query->state))
        return cmd_wrong_use(NAME, "--state takes a number, not '%s'", optarg);
    if (id == 't')
        return cmd_set_top(NAME, optarg, &query->top);
    *is_json = *is_json || id == 'j';
    return CMD_FINE;
}

int cmd_gc(int argc, char **argv)
{
    struct tide_r_gcquery query = {.top = TOP_ROWS, .state = TIDE_R_STATES};
    bool is_json = false;
    int id;
    while ((id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h') {
            fputs(usage, stdout);
            return CMD_FINE;
        }
        const int status = set_option(id, &query, &is_json);
        if (status != CMD_FINE)
            return status;
    }
    if (argc - optind != 1)
        return cmd_wrong_use(NAME, "one FILE is needed");
    return show_gc(argv[optind], is_json, &query);
}
