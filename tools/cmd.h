/*
** cmd.h: the subcommands of `tidemark` and what they share.
**
** A subcommand gets its arguments like a main: argv[0] is its own name.  It
** returns the exit status of the tool.  Results go to stdout, talk to stderr;
** an error is one line, `tidemark: what: why`.
*/
#ifndef TIDE_CMD_H
#define TIDE_CMD_H

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "../common/compiler.h"
#include "../report/render.h"

enum cmd_status {
    CMD_FINE = 0,
    CMD_FAILED = 1,     /* a check failed, or the output could not be written */
    CMD_WRONG_USE = 2,  /* options or arguments */
    CMD_UNREADABLE = 3, /* the profile cannot be read */
};

int cmd_annotate(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_ctl(int argc, char **argv);
int cmd_diff(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_gc(int argc, char **argv);
int cmd_merge(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_top(int argc, char **argv);

/* Prints `tidemark: what: why`. */
void cmd_error(const char *what, const char *fmt, ...) TIDE_PRINTF(2, 3);

/* The same for a subcommand, and where to read more.  Returns WRONG_USE. */
int cmd_wrong_use(const char *name, const char *fmt, ...) TIDE_PRINTF(2, 3);

/*
** getopt_long returned '?' or ':': says which option is unknown or lacks its
** value.  Needs ":" in front of the short options.  Returns WRONG_USE.
*/
int cmd_bad_option(const char *name, int result, char **argv);

/* Whether and how a text report on this file is coloured, how wide it is. */
enum cmd_colour {
    CMD_COLOUR_AUTO = 0, /* on a terminal, unless NO_COLOR is set */
    CMD_COLOUR_ALWAYS,
    CMD_COLOUR_NEVER,
};

/* Options of several subcommands.  Each returns an exit status; says why. */
int cmd_set_colour(const char *name, const char *text, enum cmd_colour *out);
int cmd_set_top(const char *name, const char *text, uint32_t *out);
int cmd_set_min(const char *name, const char *text, struct tide_r_query *query);
int cmd_set_filter(const char *name, const char *text,
                   struct tide_r_query *query);

struct tide_r_look cmd_look(FILE *out, enum cmd_colour colour,
                            const char *path);

/*
** Opens the model of a profile; says what is wrong, also when only a part can
** be read.  NULL: it cannot be.
*/
struct tide_model *cmd_open_model(const char *path);

/* The same, made as the options say. */
struct tide_model *cmd_open_model_with(const char *path,
                                       const struct tide_r_options *options);

/*
** Merges several profiles into a file of its own, which the caller removes;
** `out` gets its name.  Returns an exit status, and has said why.
*/
int cmd_join(char **paths, int n_paths, char *out, size_t out_bytes);

/* Turns the result of a renderer into an exit status, and says why. */
int cmd_rendered(enum tide_err err);

/* The tool's name as it was typed, for hints that can be pasted. */
const char *cmd_tool(void);

#endif
