/*
** cmd_report.c: `tidemark report`: shows a profile on stdout.
*/
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../report/blocks.h"
#include "../report/callers.h"
#include "../report/states.h"
#include "cmd.h"
#include "cmd_page.h"

#define NAME        "report"
#define TOP_OF_TEXT 20u
#define TOP_OF_TREE 60u

static const char usage[] =
    "usage: tidemark report [OPTION...] FILE...\n"
    "\n"
    "Shows a profile, of a finished run or of one that still goes on; several\n"
    "are added up.\n"
    "\n"
    "  --by WHAT       line (default), function, stack, kind, group or\n"
    "                  target; state: a row for each lua_State, or for those\n"
    "                  that shared a heap; block: the largest blocks\n"
    "  --callers NAME  the lines that call the function NAME, or a target\n"
    "  --sort KEY      alloc (default), blocks, live, live_blocks, freed,\n"
    "                  young, peak, calls, per_call, worst, total, name,\n"
    "                  line; held: when memory ran out\n"
    "  --reverse       the other way round\n"
    "  --top N         N rows at most, 0 for all; default 20, for stacks 60,\n"
    "                  with --json all\n"
    "  --min SIZE      leave out rows below SIZE: 10K, 1.5MiB, or 0.5% of all\n"
    "                  bytes allocated; stacks are cut below 0.5% by default\n"
    "  --filter RE     rows whose \"source:line function\" matches an\n"
    "                  extended regular expression; for stacks that of any\n"
    "                  frame\n"
    "  --json          everything, for programs\n"
    "  --html OUT      a page to look at; - for stdout\n"
    "  --no-source     leave source lines out of the page\n"
    "  --internals     C frames of Lua itself as well\n"
    "  --debuginfod    names of C functions from servers: DEBUGINFOD_URLS\n"
    "  --base OLD      what changed since OLD: see tidemark help diff\n"
    "  --color WHEN    auto (default), always or never\n"
    "  -h, --help      this text\n";

enum option_id {
    OPT_JSON = 256,
    OPT_SORT,
    OPT_BY,
    OPT_FILTER,
    OPT_MIN,
    OPT_TOP,
    OPT_COLOR,
    OPT_REVERSE,
    OPT_HTML,
    OPT_NO_SOURCE,
    OPT_BASE,
    OPT_CALLERS,
    OPT_INTERNALS,
    OPT_DEBUGINFOD,
};

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"html", required_argument, NULL, OPT_HTML},
    {"no-source", no_argument, NULL, OPT_NO_SOURCE},
    {"base", required_argument, NULL, OPT_BASE},
    {"callers", required_argument, NULL, OPT_CALLERS},
    {"sort", required_argument, NULL, OPT_SORT},
    {"by", required_argument, NULL, OPT_BY},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"min", required_argument, NULL, OPT_MIN},
    {"top", required_argument, NULL, OPT_TOP},
    {"color", required_argument, NULL, OPT_COLOR},
    {"colour", required_argument, NULL, OPT_COLOR},
    {"reverse", no_argument, NULL, OPT_REVERSE},
    {"internals", no_argument, NULL, OPT_INTERNALS},
    {"debuginfod", no_argument, NULL, OPT_DEBUGINFOD},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    struct tide_r_query query;
    struct tide_r_options options;
    enum tide_r_by by;
    enum cmd_colour colour;
    bool is_json;
    bool has_by;
    bool by_state;
    bool by_block;
    bool has_top;
    bool is_joined; /* of several files: no hint names one of them */
    bool wants_help;
    bool has_no_source;
    const char *html_or_null;
    const char *base_or_null;
    const char *callers_or_null;
};

static int set_option(struct request *request, int id, const char *value)
{
    switch (id) {
    case OPT_SORT:
        if (tideR_sort_parse(value, &request->query.sort) == TIDE_OK)
            return CMD_FINE;
        return cmd_wrong_use(NAME, "--sort takes one of %s, not '%s'",
                             tideR_sort_names(), value);
    case OPT_BY:
        request->has_by = true;
        request->by_state = strcmp(value, "state") == 0;
        request->by_block = strcmp(value, "block") == 0;
        if (request->by_state || request->by_block ||
            tideR_by_parse(value, &request->by) == TIDE_OK)
            return CMD_FINE;
        return cmd_wrong_use(NAME,
                             "--by takes line, function, stack, kind, group, "
                             "target, state or block, not '%s'",
                             value);
    case OPT_FILTER:
        return cmd_set_filter(NAME, value, &request->query);
    case OPT_MIN:
        return cmd_set_min(NAME, value, &request->query);
    case OPT_COLOR:
        return cmd_set_colour(NAME, value, &request->colour);
    case OPT_HTML:
        request->html_or_null = value;
        return CMD_FINE;
    case OPT_BASE:
        request->base_or_null = value;
        return CMD_FINE;
    case OPT_CALLERS:
        request->callers_or_null = value;
        return CMD_FINE;
    default:
        request->has_top = true;
        return cmd_set_top(NAME, value, &request->query.top);
    }
}

static int read_options(struct request *request, int argc, char **argv)
{
    int id;
    int status = CMD_FINE;
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            status = cmd_bad_option(NAME, id, argv);
        else if (id == 'h')
            request->wants_help = true;
        else if (id == OPT_JSON)
            request->is_json = true;
        else if (id == OPT_NO_SOURCE)
            request->has_no_source = true;
        else if (id == OPT_INTERNALS)
            request->options.shows_internals = true;
        else if (id == OPT_DEBUGINFOD)
            request->options.asks_servers = true;
        else if (id == OPT_REVERSE)
            request->query.is_reversed = true;
        else
            status = set_option(request, id, optarg);
    }
    if (status != CMD_FINE || request->wants_help)
        return status;
    if (argc - optind < 1)
        return cmd_wrong_use(NAME, "which profile? a FILE is needed");
    if (argc - optind > 1 && request->base_or_null != NULL)
        return cmd_wrong_use(NAME,
                             "--base: one FILE only, '%s' is one too many",
                             argv[optind + 1]);
    return CMD_FINE;
}

static int show_callers(const struct request *request,
                        const struct tide_model *model)
{
    const enum tide_err err =
        tideR_callers_show(model, request->callers_or_null, request->query.top,
                           request->is_json, stdout);
    if (err != TIDE_ERR_STATE)
        return cmd_rendered(err);
    cmd_error(request->callers_or_null,
              "no function or target of that name allocated anything");
    return CMD_FAILED;
}

/* What is no table of rows that are added up. */
static enum tide_err show_list(const struct request *request,
                               const struct tide_model *model, const char *path)
{
    const struct tide_r_look look = cmd_look(stdout, request->colour, path);
    return request->by_state ? tideR_states(model, request->query.top,
                                            request->is_json, stdout)
                             : tideR_blocks(model, request->query.top, &look,
                                            request->is_json, stdout);
}

static int show(struct request *request, const char *path)
{
    struct tide_model *model = cmd_open_model_with(path, &request->options);
    enum tide_err err;
    if (model == NULL)
        return CMD_UNREADABLE;
    if (request->callers_or_null != NULL) {
        const int status = show_callers(request, model);
        tideR_model_close(model);
        return status;
    }
    if (request->by_state || request->by_block) {
        err = show_list(request, model, path);
        tideR_model_close(model);
        return cmd_rendered(err);
    }
    if (request->html_or_null != NULL) {
        const struct cmd_page page = {
            .now = model, .path = path, .has_sources = !request->has_no_source};
        const int status = cmd_put_page(&page, request->html_or_null);
        tideR_model_close(model);
        return status;
    }
    if (request->is_json) {
        err = tideR_json(model, &request->query, stdout);
    } else {
        if (!request->has_by && tideR_is_import(model))
            request->by = TIDE_R_BY_TARGET;
        struct tide_r_look look = cmd_look(stdout, request->colour, path);
        look.is_brief = request->is_joined;
        if (!request->has_top)
            request->query.top =
                request->by == TIDE_R_BY_STACK ? TOP_OF_TREE : TOP_OF_TEXT;
        err = tideR_text(model, request->by, &request->query, &look, stdout);
    }
    const int status = cmd_rendered(err);
    tideR_model_close(model);
    return status;
}

static int compare(const struct request *request, const char *path)
{
    struct cmd_comparison comparison = {
        .query = request->query,
        .by = request->by,
        .has_by = request->has_by,
        .colour = request->colour,
        .is_json = request->is_json,
        .has_sources = !request->has_no_source,
        .html_or_null = request->html_or_null,
        .base_path = request->base_or_null,
        .path = path,
    };
    if (request->by == TIDE_R_BY_STACK || request->by == TIDE_R_BY_GROUP ||
        request->query.sort == TIDE_R_SORT_NAME ||
        request->query.sort == TIDE_R_SORT_LINE ||
        request->query.sort == TIDE_R_SORT_HELD)
        return cmd_wrong_use(NAME, "--base: rows are lines, functions, "
                                   "targets or kinds, sorted by a figure");
    if (!request->has_top && !request->is_json)
        comparison.query.top = TOP_OF_TEXT;
    return cmd_compare(&comparison);
}

/* Several files are shown as the one that they make together. */
static int show_all(struct request *request, char **paths, int n_paths)
{
    char joined[4096];
    if (n_paths == 1)
        return show(request, paths[0]);
    int status = cmd_join(paths, n_paths, joined, sizeof joined);
    if (status != CMD_FINE)
        return status;
    request->is_joined = true;
    status = show(request, joined);
    unlink(joined);
    return status;
}

int cmd_report(int argc, char **argv)
{
    struct request request = {.by = TIDE_R_BY_LINE};
    int status = read_options(&request, argc, argv);
    if (status == CMD_FINE && request.wants_help)
        fputs(usage, stdout);
    else if (status == CMD_FINE && request.base_or_null != NULL)
        status = compare(&request, argv[optind]);
    else if (status == CMD_FINE)
        status = show_all(&request, argv + optind, argc - optind);
    tideR_query_close(&request.query);
    return status;
}
