/*
** cmd_merge.c: `tidemark merge`: several profiles as one; and what `tidemark
** report` does with several.
*/
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../profile/merge.h"
#include "cmd.h"

#define NAME "merge"

static const char usage[] =
    "usage: tidemark merge -o OUT FILE...\n"
    "\n"
    "Writes one profile with the states of several: of the workers of a\n"
    "server, or of many runs. Its reports add them up.\n"
    "\n"
    "  -o, --out OUT   the new profile\n"
    "  -h, --help      this text\n";

static const struct option long_options[] = {
    {"out", required_argument, NULL, 'o'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct inputs {
    struct tide_profile **list;
    size_t n;
};

static void close_inputs(struct inputs *inputs)
{
    for (size_t i = 0; i < inputs->n; i++)
        tideP_reader_close(inputs->list[i]);
    free(inputs->list);
}

/* All of them, or none. */
static int open_inputs(char **paths, int n_paths, struct inputs *inputs)
{
    *inputs = (struct inputs){
        .list = calloc((size_t)n_paths + 1, sizeof *inputs->list)};
    for (int i = 0; inputs->list != NULL && i < n_paths; i++) {
        struct tide_p_problem problem = {.err = TIDE_OK};
        if (tideP_reader_open(paths[i], &inputs->list[inputs->n], &problem) !=
            TIDE_OK) {
            cmd_error(paths[i], "%s", problem.text);
            return CMD_UNREADABLE;
        }
        const struct tide_p_problem *damage =
            tideP_reader_problem(inputs->list[inputs->n++]);
        if (damage->err != TIDE_OK)
            cmd_error(paths[i], "%s; what could be read is taken",
                      damage->text);
    }
    return inputs->list != NULL ? CMD_FINE : CMD_FAILED;
}

static int merge(char **paths, int n_paths, const char *out)
{
    struct inputs inputs;
    int status = open_inputs(paths, n_paths, &inputs);
    if (status == CMD_FINE) {
        const enum tide_err err = tideP_merge(
            (const struct tide_profile *const *)inputs.list, inputs.n, out);
        if (err != TIDE_OK) {
            cmd_error(out, "%s",
                      err == TIDE_ERR_IO    ? strerror(errno)
                      : err == TIDE_ERR_ARG ? "too many states for one profile"
                                            : tide_err_text(err));
            status = CMD_FAILED;
        }
    }
    close_inputs(&inputs);
    return status;
}

int cmd_merge(int argc, char **argv)
{
    const char *out = NULL;
    int id;
    while ((id = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h') {
            fputs(usage, stdout);
            return CMD_FINE;
        }
        out = optarg;
    }
    if (out == NULL)
        return cmd_wrong_use(NAME, "where to? -o OUT is needed");
    if (optind == argc)
        return cmd_wrong_use(NAME, "which profiles? a FILE is needed");
    return merge(argv + optind, argc - optind, out);
}

int cmd_join(char **paths, int n_paths, char *out, size_t out_bytes)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0')
        folder = P_tmpdir;
    snprintf(out, out_bytes, "%s/tidemark.XXXXXX", folder);
    const int fd = mkstemp(out);
    if (fd < 0) {
        cmd_error(out, "%s", strerror(errno));
        return CMD_FAILED;
    }
    close(fd);
    const int status = merge(paths, n_paths, out);
    if (status != CMD_FINE)
        unlink(out);
    return status;
}
