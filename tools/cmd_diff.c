/*
** cmd_diff.c: `tidemark diff`: what changed between two profiles; `report
** --base` is the same.
*/
#include <stdlib.h>
#include <string.h>

#include "../report/diffrows.h"
#include "cmd.h"
#include "cmd_page.h"

#define NAME        "diff"
#define TOP_OF_TEXT 30u

static const char usage[] =
    "usage: tidemark diff [OPTION...] BASE NEW\n"
    "\n"
    "Shows what changed between two profiles: lines by how much more they\n"
    "allocate.  Changes of up to 1% are those of identical runs and are left\n"
    "out.\n"
    "\n"
    "  --by WHAT       line (default), function, target or kind\n"
    "  --sort KEY      by the change of: alloc (default), blocks, live,\n"
    "                  live_blocks, freed, young, peak, calls, per_call,\n"
    "                  worst, total\n"
    "  --reverse       what shrank most comes first\n"
    "  --top N         N rows at most, 0 for all; default 30, with --json all\n"
    "  --min SIZE      leave out changes below SIZE: 10K, or 0.5% of all\n"
    "                  bytes\n"
    "  --filter RE     rows whose \"source:line function\" matches an\n"
    "                  extended regular expression\n"
    "  --json          everything, for programs\n"
    "  --html OUT      a page to look at; - for stdout\n"
    "  --no-source     leave source lines out of the page\n"
    "  --color WHEN    auto (default), always or never\n"
    "  -h, --help      this text\n";

enum option_id {
    OPT_JSON = 256,
    OPT_HTML,
    OPT_NO_SOURCE,
    OPT_SORT,
    OPT_BY,
    OPT_FILTER,
    OPT_MIN,
    OPT_TOP,
    OPT_COLOR,
    OPT_REVERSE,
};

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"html", required_argument, NULL, OPT_HTML},
    {"no-source", no_argument, NULL, OPT_NO_SOURCE},
    {"sort", required_argument, NULL, OPT_SORT},
    {"by", required_argument, NULL, OPT_BY},
    {"filter", required_argument, NULL, OPT_FILTER},
    {"min", required_argument, NULL, OPT_MIN},
    {"top", required_argument, NULL, OPT_TOP},
    {"color", required_argument, NULL, OPT_COLOR},
    {"colour", required_argument, NULL, OPT_COLOR},
    {"reverse", no_argument, NULL, OPT_REVERSE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    struct cmd_comparison comparison;
    bool has_top;
    bool wants_help;
};

static int set_sort(struct request *request, const char *text)
{
    enum tide_r_sort sort;
    if (tideR_sort_parse(text, &sort) != TIDE_OK || sort == TIDE_R_SORT_NAME ||
        sort == TIDE_R_SORT_LINE || sort == TIDE_R_SORT_HELD)
        return cmd_wrong_use(NAME,
                             "--sort takes a figure such as alloc, live or "
                             "per_call, not '%s'",
                             text);
    request->comparison.query.sort = sort;
    return CMD_FINE;
}

static int set_by(struct request *request, const char *text)
{
    enum tide_r_by by;
    if (tideR_by_parse(text, &by) != TIDE_OK || by == TIDE_R_BY_STACK ||
        by == TIDE_R_BY_GROUP)
        return cmd_wrong_use(
            NAME, "--by takes line, function, target or kind, not '%s'", text);
    request->comparison.by = by;
    request->comparison.has_by = true;
    return CMD_FINE;
}

static int set_option(struct request *request, int id, const char *value)
{
    struct cmd_comparison *comparison = &request->comparison;
    switch (id) {
    case OPT_SORT:
        return set_sort(request, value);
    case OPT_BY:
        return set_by(request, value);
    case OPT_FILTER:
        return cmd_set_filter(NAME, value, &comparison->query);
    case OPT_MIN:
        return cmd_set_min(NAME, value, &comparison->query);
    case OPT_COLOR:
        return cmd_set_colour(NAME, value, &comparison->colour);
    case OPT_HTML:
        comparison->html_or_null = value;
        return CMD_FINE;
    default:
        request->has_top = true;
        return cmd_set_top(NAME, value, &comparison->query.top);
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
            request->comparison.is_json = true;
        else if (id == OPT_NO_SOURCE)
            request->comparison.has_sources = false;
        else if (id == OPT_REVERSE)
            request->comparison.query.is_reversed = true;
        else
            status = set_option(request, id, optarg);
    }
    if (status != CMD_FINE || request->wants_help)
        return status;
    if (argc - optind < 2)
        return cmd_wrong_use(NAME, "two profiles are needed: BASE and NEW");
    if (argc - optind > 2)
        return cmd_wrong_use(NAME, "two profiles only, '%s' is one too many",
                             argv[optind + 2]);
    request->comparison.base_path = argv[optind];
    request->comparison.path = argv[optind + 1];
    return CMD_FINE;
}

/* Saved runs of other tools have no lines worth the name. */
static enum tide_r_by rows_of(const struct cmd_comparison *c,
                              const struct tide_model *base,
                              const struct tide_model *now)
{
    const bool has_lines = !tideR_is_import(base) && !tideR_is_import(now);
    return c->has_by || has_lines ? c->by : TIDE_R_BY_TARGET;
}

static enum tide_err show(const struct cmd_comparison *c,
                          const struct tide_model *base,
                          const struct tide_model *now)
{
    struct tide_diff diff;
    struct tide_r_texts texts = {
        tideR_srctext_open(c->base_path, base->header->start_unix_ns),
        tideR_srctext_open(c->path, now->header->start_unix_ns)};
    const struct tide_r_look look = cmd_look(stdout, c->colour, c->path);
    cmd_progress("matching");
    enum tide_err err = tideR_diff_open(base, now, &texts, &diff);
    cmd_progress_end();
    if (err == TIDE_OK && c->is_json) {
        err = tideR_diff_json(&diff, &c->query, stdout);
    } else if (err == TIDE_OK) {
        cmd_pager_start();
        err = tideR_diff_text(&diff, rows_of(c, base, now), &c->query, &look,
                              stdout);
    }
    tideR_diff_close(&diff);
    tideR_srctext_close(texts.base_or_null);
    tideR_srctext_close(texts.now_or_null);
    return err;
}

int cmd_compare(const struct cmd_comparison *c)
{
    int status = CMD_UNREADABLE;
    struct tide_model *now = NULL;
    struct tide_model *base = cmd_open_model(c->base_path);
    if (base != NULL)
        now = cmd_open_model(c->path);
    if (now != NULL && c->html_or_null != NULL)
        status = cmd_put_page(&(struct cmd_page){base, now, c->base_path,
                                                 c->path, c->has_sources},
                              c->html_or_null);
    else if (now != NULL)
        status = cmd_rendered(show(c, base, now));
    tideR_model_close(base);
    tideR_model_close(now);
    return status;
}

int cmd_diff(int argc, char **argv)
{
    struct request request = {.comparison = {.has_sources = true}};
    int status = read_options(&request, argc, argv);
    if (status == CMD_FINE && request.wants_help) {
        fputs(usage, stdout);
    } else if (status == CMD_FINE) {
        if (!request.has_top && !request.comparison.is_json)
            request.comparison.query.top = TOP_OF_TEXT;
        status = cmd_compare(&request.comparison);
    }
    tideR_query_close(&request.comparison.query);
    return status;
}
