/*
** main.c: the `tidemark` command: the table of subcommands, and help.
*/
#include <locale.h>
#include <malloc.h>
#include <string.h>

#include "../common/options.h"
#include "cmd.h"
#include "cmd_page.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
};

static int cmd_help(int argc, char **argv);

static const struct command commands[] = {
    {"run", cmd_run, "run a program under the profiler, then report"},
    {"report", cmd_report, "show a profile by line, function, stack, kind"},
    {"top", cmd_top, "watch what a process allocates, in the terminal"},
    {"annotate", cmd_annotate, "show a source with what its lines allocate"},
    {"diff", cmd_diff, "what changed between two profiles"},
    {"attach", cmd_attach, "profile a process that runs already, by gdb"},
    {"merge", cmd_merge, "make one profile of several"},
    {"export", cmd_export, "write a profile in another tool's format"},
    {"gc", cmd_gc, "what the collector did, and what survives it"},
    {"ctl", cmd_ctl, "tell a process that is profiled what to do"},
    {"check", cmd_check, "check that a profile is whole and its books balance"},
    {"doctor", cmd_doctor,
     "say how a program can be profiled, and how exactly"},
    {"help", cmd_help, "help on a command, or on 'options'"},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static void print_usage(FILE *out)
{
    fputs("usage: tidemark COMMAND [ARGUMENT...]\n\n"
          "tidemark says which lines of a Lua 5.4 program allocate memory,\n"
          "how much of it is still held, and what the collector does.\n\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "  --help, --version\n\n"
          "A first try:  tidemark run -- lua5.4 program.lua\n",
          out);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

/* The table of options, which TIDEMARK=... and --set take. */
static void print_options(void)
{
    puts("Options for the environment (TIDEMARK=key=value,key=value) and for\n"
         "`tidemark run --set key=value,...`; a value with a comma in it is\n"
         "written \"...\".\n");
    for (const struct tide_option_row *row = tideC_options_table();
         row->name != NULL; row++)
        printf("  %s=%s\n      %s (default: %s)\n", row->name, row->value,
               row->meaning,
               *row->default_text != '\0' ? row->default_text : "none");
}

static int unknown_command(const char *name)
{
    cmd_error(name, "unknown command");
    fprintf(stderr, "try '%s --help'\n", cmd_tool());
    return CMD_WRONG_USE;
}

static int cmd_help(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "help") == 0 || argv[1][0] == '-') {
        print_usage(stdout);
        return CMD_FINE;
    }
    if (strcmp(argv[1], "options") == 0) {
        print_options();
        return CMD_FINE;
    }
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    char help[] = "--help";
    char *args[] = {argv[1], help, NULL};
    return command->run(2, args);
}

/* Standard output that cannot be written is an error of every command. */
static int finish(int status)
{
    if (cmd_pager_end())
        return status;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    if (status == CMD_FINE) {
        cmd_error("standard output", "cannot be written");
        return CMD_FAILED;
    }
    return status;
}

/*
** Large arrays are mappings of their own: they grow without a copy, and what is
** freed is given back.
*/
#define LARGE_BYTES (256 * 1024)

int main(int argc, char **argv)
{
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    setlocale(LC_CTYPE, "");
    opterr = 0; /* cmd_bad_option says what is wrong */
    if (argc < 2) {
        print_usage(stderr);
        return CMD_WRONG_USE;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        puts("tidemark " TIDE_VERSION);
        return finish(CMD_FINE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return finish(cmd_help(1, argv + 1));
    const struct command *command = find_command(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    return finish(command->run(argc - 1, argv + 1));
}
