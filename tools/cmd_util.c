/*
** cmd_util.c: what subcommands share: errors, options, the look of a page.
*/
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../report/units.h"
#include "cmd.h"
#include "cmd_page.h"
#include "saved_run.h"

static TIDE_PRINTF(2, 0) void print_error(const char *what, const char *fmt,
                                          va_list args)
{
    fprintf(stderr, "tidemark: %s: ", what);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

void cmd_error(const char *what, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_error(what, fmt, args);
    va_end(args);
}

int cmd_wrong_use(const char *name, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_error(name, fmt, args);
    va_end(args);
    fprintf(stderr, "try '%s help %s'\n", cmd_tool(), name);
    return CMD_WRONG_USE;
}

/*
** The option in question.  getopt leaves the letter of a short one in optopt;
** for a long one that is 0 (unknown) or its number, and it stands in the
** argument that was read last.
*/
int cmd_bad_option(const char *name, int result, char **argv)
{
    const char letter[] = {'-', (char)optopt, '\0'};
    const char *last = argv[optind - 1];
    const bool has_value = strchr(last, '=') != NULL;
    const bool is_long = strncmp(last, "--", 2) == 0 &&
                         (optopt == 0 || optopt > UCHAR_MAX || has_value);
    const char *option = is_long ? last : letter;
    if (result == ':')
        return cmd_wrong_use(name, "option '%s' needs a value", option);
    if (is_long && optopt != 0)
        return cmd_wrong_use(name, "option '%s' takes no value", option);
    return cmd_wrong_use(name, "unknown option '%s'", option);
}

int cmd_set_top(const char *name, const char *text, uint32_t *out)
{
    uint64_t n;
    if (tideR_count_parse(text, &n) != TIDE_OK || n > UINT32_MAX)
        return cmd_wrong_use(name, "--top takes a number, not '%s'", text);
    *out = (uint32_t)n;
    return CMD_FINE;
}

int cmd_set_min(const char *name, const char *text, struct tide_r_query *query)
{
    if (tideR_share_parse(text, &query->min_share) == TIDE_OK ||
        tideR_bytes_parse(text, &query->min_bytes) == TIDE_OK)
        return CMD_FINE;
    return cmd_wrong_use(
        name, "--min takes a size such as 10K or 1%%, not '%s'", text);
}

int cmd_set_filter(const char *name, const char *text,
                   struct tide_r_query *query)
{
    char why[128];
    if (tideR_query_filter(query, text, why, sizeof why) == TIDE_OK)
        return CMD_FINE;
    return cmd_wrong_use(name, "--filter '%s': %s", text, why);
}

int cmd_set_colour(const char *name, const char *text, enum cmd_colour *out)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (unsigned i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum cmd_colour)i;
            return CMD_FINE;
        }
    return cmd_wrong_use(name, "--color takes auto, always or never, not '%s'",
                         text);
}

/* COLUMNS if it is set, else what the terminal says, else 80. */
static unsigned columns_of(FILE *out)
{
    struct winsize size;
    const char *text = getenv("COLUMNS");
    if (text != NULL && atoi(text) > 0)
        return (unsigned)atoi(text);
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

static bool is_coloured(FILE *out, enum cmd_colour colour)
{
    const char *no_colour = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    if (colour != CMD_COLOUR_AUTO)
        return colour == CMD_COLOUR_ALWAYS;
    return isatty(fileno(out)) && (no_colour == NULL || *no_colour == '\0') &&
           terminal != NULL && strcmp(terminal, "dumb") != 0;
}

struct tide_r_look cmd_look(FILE *out, enum cmd_colour colour, const char *path)
{
    return (struct tide_r_look){
        .columns = columns_of(out),
        .has_colour = is_coloured(out, colour),
        .path = path,
        .command = cmd_tool(),
    };
}

static struct tide_model *open_saved_run(const char *path)
{
    char made[4096];
    struct tide_model *model = NULL;
    struct tide_p_problem problem = {.err = TIDE_OK};
    if (saved_run_open(path, made, sizeof made) != CMD_FINE)
        return NULL;
    if (tideR_model_open(made, &model, &problem) != TIDE_OK)
        cmd_error(path, "%s", problem.text);
    unlink(made);
    return model;
}

struct tide_model *cmd_open_model(const char *path)
{
    const struct tide_r_options options = {0};
    return cmd_open_model_with(path, &options);
}

struct tide_model *cmd_open_model_with(const char *path,
                                       const struct tide_r_options *options)
{
    struct tide_model *model;
    if (saved_run_is_json(path))
        return open_saved_run(path);
    struct tide_p_problem problem = {.err = TIDE_OK};
    cmd_progress("reading %s", path);
    const enum tide_err err =
        tideR_model_open_with(path, options, &model, &problem);
    cmd_progress_end();
    if (err != TIDE_OK) {
        cmd_error(path, "%s", problem.text);
        return NULL;
    }
    const struct tide_p_problem *damage = tideP_reader_problem(model->profile);
    if (damage->err != TIDE_OK)
        cmd_error(path, "%s; what could be read follows", damage->text);
    return model;
}

int cmd_rendered(enum tide_err err)
{
    /* whoever leaves the pager wants no more */
    if (err == TIDE_OK || (err == TIDE_ERR_IO && cmd_pager_is_on()))
        return CMD_FINE;
    cmd_error("report", "%s",
              err == TIDE_ERR_IO ? strerror(errno) : tide_err_text(err));
    return CMD_FAILED;
}

const char *cmd_tool(void)
{
    return program_invocation_name;
}
