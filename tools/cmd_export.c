/*
** cmd_export.c: `tidemark export`: a profile for other tools.
*/
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../report/export.h"
#include "cmd.h"

#define NAME "export"

static const char usage[] =
    "usage: tidemark export --to FORMAT [-o OUT] FILE\n"
    "\n"
    "Writes a profile in the format of another tool.\n"
    "\n"
    "  --to FORMAT     one of the formats below\n"
    "  -o, --out OUT   where to; default: standard output\n"
    "  --internals     C frames of Lua itself as well\n"
    "  --debuginfod    names of C functions from servers: DEBUGINFOD_URLS\n"
    "  -h, --help      this text\n"
    "\n";

static const struct option long_options[] = {
    {"to", required_argument, NULL, 't'},
    {"out", required_argument, NULL, 'o'},
    {"internals", no_argument, NULL, 'i'},
    {"debuginfod", no_argument, NULL, 'd'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    const struct tide_r_format *format;
    struct tide_r_options options;
    const char *out_or_null;
    const char *path;
    bool wants_help;
};

static void print_help(void)
{
    fputs(usage, stdout);
    for (const struct tide_r_format *f = tideR_formats(); f->name != NULL; f++)
        printf("  %-14s  %s\n", f->name, f->what);
}

static int set_format(struct request *request, const char *name)
{
    char names[256] = "";
    request->format = tideR_format_or_null(name);
    if (request->format != NULL)
        return CMD_FINE;
    for (const struct tide_r_format *f = tideR_formats(); f->name != NULL; f++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                 names[0] != '\0' ? ", " : "", f->name);
    return cmd_wrong_use(NAME, "--to takes one of %s, not '%s'", names, name);
}

static int read_options(struct request *request, int argc, char **argv)
{
    int id;
    int status = CMD_FINE;
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            status = cmd_bad_option(NAME, id, argv);
        else if (id == 'h')
            request->wants_help = true;
        else if (id == 'i')
            request->options.shows_internals = true;
        else if (id == 'd')
            request->options.asks_servers = true;
        else if (id == 'o')
            request->out_or_null = optarg;
        else
            status = set_format(request, optarg);
    }
    if (status != CMD_FINE || request->wants_help)
        return status;
    if (request->format == NULL)
        return cmd_wrong_use(NAME, "to which format? --to is needed");
    if (argc - optind != 1)
        return cmd_wrong_use(NAME, "one FILE is needed");
    request->path = argv[optind];
    return CMD_FINE;
}

static int write_out(const struct request *request,
                     const struct tide_model *model)
{
    const char *path = request->out_or_null;
    if (path == NULL || strcmp(path, "-") == 0)
        return cmd_rendered(request->format->put(model, stdout));
    FILE *out = fopen(path, "we");
    enum tide_err err =
        out == NULL ? TIDE_ERR_IO : request->format->put(model, out);
    int why = errno;
    if (out != NULL && fclose(out) != 0 && err == TIDE_OK) {
        err = TIDE_ERR_IO;
        why = errno;
    }
    if (err == TIDE_OK)
        return CMD_FINE;
    cmd_error(path, "%s",
              err == TIDE_ERR_IO ? strerror(why) : tide_err_text(err));
    return CMD_FAILED;
}

int cmd_export(int argc, char **argv)
{
    struct request request = {0};
    int status = read_options(&request, argc, argv);
    if (status != CMD_FINE)
        return status;
    if (request.wants_help) {
        print_help();
        return CMD_FINE;
    }
    struct tide_model *model =
        cmd_open_model_with(request.path, &request.options);
    if (model == NULL)
        return CMD_UNREADABLE;
    status = write_out(&request, model);
    tideR_model_close(model);
    return status;
}
