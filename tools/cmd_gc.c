/*
** cmd_gc.c: `tidemark gc`: what the collector did, and what it left.
*/
#include <string.h>

#include "../report/gcview.h"
#include "cmd.h"

#define NAME     "gc"
#define TOP_ROWS 20u

static const char usage[] =
    "usage: tidemark gc [OPTION...] FILE\n"
    "\n"
    "Shows a profile from the side of the collector: findings, the heap over\n"
    "time, collections, what was done to the collector, and what survives.\n"
    "\n"
    "  --top N         N rows of each table at most, 0 for all; default 20\n"
    "  --json          everything, for programs\n"
    "  -h, --help      this text\n"
    "\n"
    "A `young` byte died before it was one collection old.  The `span` of a\n"
    "collection is from the first mark to the end of the sweep, with what the\n"
    "program did meanwhile; it is known for cycles of 2 ms and more.\n";

static const struct option long_options[] = {
    {"json", no_argument, NULL, 'j'},
    {"top", required_argument, NULL, 't'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int show_gc(const char *path, bool is_json, uint32_t top)
{
    struct tide_model *model = cmd_open_model(path);
    if (model == NULL)
        return CMD_UNREADABLE;
    const struct tide_r_look look = cmd_look(stdout, CMD_COLOUR_AUTO, path);
    const enum tide_err err = is_json
                                  ? tideR_gc_json(model, stdout)
                                  : tideR_gc_text(model, top, &look, stdout);
    tideR_model_close(model);
    return cmd_rendered(err);
}

int cmd_gc(int argc, char **argv)
{
    bool is_json = false;
    uint32_t top = TOP_ROWS;
    int id;
    opterr = 0;
    optind = 0;
    while ((id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h') {
            fputs(usage, stdout);
            return CMD_FINE;
        }
        if (id == 'j')
            is_json = true;
        else if (!cmd_parse_top(NAME, optarg, &top))
            return CMD_WRONG_USE;
    }
    if (argc - optind != 1)
        return cmd_wrong_use(NAME, "one FILE is needed");
    return show_gc(argv[optind], is_json, top);
}
