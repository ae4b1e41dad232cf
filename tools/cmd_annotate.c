/*
** cmd_annotate.c: `tidemark annotate`: a source file with what its lines
** allocated in the margin.
*/
#include <errno.h>
#include <string.h>

#include "../report/annotate.h"
#include "cmd.h"
#include "cmd_page.h"

#define NAME      "annotate"
#define OPT_COLOR 256

static const char usage[] =
    "usage: tidemark annotate [OPTION...] FILE [SOURCE.lua]\n"
    "\n"
    "Shows a source file with the bytes, blocks and live bytes of each line,\n"
    "from the profile FILE; without SOURCE.lua the one that allocated most.\n"
    "SOURCE.lua is the name in the profile, or the end of its path.\n"
    "\n"
    "  --color WHEN    auto (default), always or never\n"
    "  -h, --help      this text\n";

static const struct option long_options[] = {
    {"color", required_argument, NULL, OPT_COLOR},
    {"colour", required_argument, NULL, OPT_COLOR},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    enum cmd_colour colour;
    bool wants_help;
    const char *path;
    const char *source_or_null;
};

static int read_options(struct request *request, int argc, char **argv)
{
    int id;
    while ((id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h')
            request->wants_help = true;
        else if (cmd_set_colour(NAME, optarg, &request->colour) != CMD_FINE)
            return CMD_WRONG_USE;
    }
    if (request->wants_help)
        return CMD_FINE;
    if (argc - optind < 1)
        return cmd_wrong_use(NAME, "which profile? a FILE is needed");
    if (argc - optind > 2)
        return cmd_wrong_use(NAME, "one source only, '%s' is one too many",
                             argv[optind + 2]);
    request->path = argv[optind];
    request->source_or_null = argv[optind + 1];
    return CMD_FINE;
}

static int say_not_found(const struct request *request, uint32_t n)
{
    const char *name = request->source_or_null;
    if (n > 1)
        return cmd_wrong_use(NAME,
                             "'%s' is the end of %u sources: more of its "
                             "path is needed",
                             name, (unsigned)n);
    if (name == NULL)
        cmd_error(request->path, "no Lua line allocated anything");
    else
        cmd_error(name, "no line of it is in the profile");
    return CMD_FAILED;
}

static int show(const struct request *request, const struct tide_model *model)
{
    uint32_t source = 0;
    const struct tide_r_look look =
        cmd_look(stdout, request->colour, request->path);
    enum tide_err err =
        tideR_annotate_find(model, request->source_or_null, &source);
    if (err == TIDE_ERR_ARG)
        return say_not_found(request, source);
    if (err == TIDE_OK) {
        cmd_pager_start();
        err = tideR_annotate(model, source, &look, stdout);
    }
    if (err != TIDE_ERR_ARG)
        return cmd_rendered(err);
    cmd_error(tideR_strtab_text(&model->strings, source),
              "the source is not at hand: it is looked for from the current "
              "directory and beside the profile");
    return CMD_FAILED;
}

int cmd_annotate(int argc, char **argv)
{
    struct request request = {.colour = CMD_COLOUR_AUTO};
    int status = read_options(&request, argc, argv);
    if (status != CMD_FINE)
        return status;
    if (request.wants_help) {
        fputs(usage, stdout);
        return CMD_FINE;
    }
    struct tide_model *model = cmd_open_model(request.path);
    if (model == NULL)
        return CMD_UNREADABLE;
    status = show(&request, model);
    tideR_model_close(model);
    return status;
}
