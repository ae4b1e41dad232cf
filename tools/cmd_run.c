/*
** cmd_run.c: `tidemark run`: a program under the profiler, then the report.
**
** The program gets libtidemark.so through LD_PRELOAD and its options through
** TIDEMARK; nothing else of it is touched.  When it has ended, the profiles
** that it and its children wrote are found by their names, and the report of
** its own one is printed on stderr, so that the program's output stays its
** own.  The exit status is the program's.
*/
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../report/emit.h"
#include "../report/units.h"
#include "cmd.h"
#include "cmd_page.h"
#include "run.h"

#ifndef TIDE_LIBDIR
# define TIDE_LIBDIR "lib"
#endif

#define NAME          "run"
#define LIBRARY       "libtidemark.so"
#define INTERPRETER   "lua5.4"
#define OPTIONS_MAX   4096u
#define OTHERS_SHOWN  5u
#define EXIT_NO_START 126
#define NOT_GIVEN     "\001" /* no file has this name */

static const char usage[] =
    "usage: tidemark run [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
    "\n"
    "Runs PROGRAM under the profiler and prints a report on stderr when it\n"
    "has ended.  A PROGRAM that ends in .lua is run by lua5.4.\n"
    "\n"
    "  -o, --out FILE         the profile; %p is the process id; default\n"
    "                         PROGRAM.%p.tide in the current directory\n"
    "  --report WHAT          text (default), json, html or none; html writes\n"
    "                         a page beside the profile\n"
    "  --top N                rows of the report, 0 for all; default 20\n"
    "  --set KEY=VALUE,...    options of the profiler: tidemark help options\n"
    "  -h, --help             this text\n"
    "\n"
    "Exit status: the program's; 128 + N when signal N ended it; 127 when it\n"
    "was not found, 126 when it cannot be run, 2 for wrong options.\n";

enum option_id {
    OPT_REPORT = 256,
    OPT_TOP,
    OPT_SET,
};

static const struct option long_options[] = {
    {"out", required_argument, NULL, 'o'},
    {"report", required_argument, NULL, OPT_REPORT},
    {"top", required_argument, NULL, OPT_TOP},
    {"set", required_argument, NULL, OPT_SET},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* What was asked for. */
struct order {
    const char *out_or_null;
    const char *report_or_null;
    bool has_top;
    bool wants_help;
    uint32_t top;
    char set[OPTIONS_MAX]; /* TIDEMARK as it was, then every --set */
    struct tide_options options;
    struct run_place place;
};

/* Appends to a list of options.  False: it does not fit. */
static bool add_options(char *list, const char *text)
{
    const size_t n = strlen(list);
    const int added = snprintf(list + n, OPTIONS_MAX - n, "%s%s",
                               n > 0 && *text != '\0' ? "," : "", text);
    return added >= 0 && (size_t)added < OPTIONS_MAX - n;
}

/* out=..., in quotes, of which those inside are doubled. */
static bool add_out(char *list, const char *path)
{
    char text[2 * TIDE_OPT_PATH_MAX + 8];
    size_t n = (size_t)snprintf(text, sizeof text, "out=\"");
    for (; *path != '\0' && n + 3 < sizeof text; path++) {
        if (*path == '"')
            text[n++] = '"';
        text[n++] = *path;
    }
    text[n++] = '"';
    text[n] = '\0';
    return *path == '\0' && add_options(list, text);
}

/* The environment comes first, so that the command line wins. */
static bool start_options(struct order *order)
{
    const char *text = getenv("TIDEMARK");
    if (text == NULL || strcmp(text, "0") == 0 || strcmp(text, "1") == 0)
        return true;
    return add_options(order->set, text);
}

static int set_option(struct order *order, int id, const char *value)
{
    switch (id) {
    case 'o':
        order->out_or_null = value;
        return CMD_FINE;
    case OPT_REPORT:
        order->report_or_null = value;
        return CMD_FINE;
    case OPT_TOP:
        order->has_top = true;
        return cmd_set_top(NAME, value, &order->top);
    default:
        if (add_options(order->set, value))
            return CMD_FINE;
        return cmd_wrong_use(NAME, "--set: too many options");
    }
}

static int read_arguments(struct order *order, int argc, char **argv)
{
    int id;
    int status = CMD_FINE;
    if (!start_options(order))
        return cmd_wrong_use(NAME, "TIDEMARK is too long");
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, "+:o:h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            status = cmd_bad_option(NAME, id, argv);
        else if (id == 'h')
            order->wants_help = true;
        else
            status = set_option(order, id, optarg);
    }
    if (status == CMD_FINE && !order->wants_help && optind >= argc)
        return cmd_wrong_use(NAME, "which program? a PROGRAM is needed");
    return status;
}

/* --report wins over the options; they know text, json, html and none. */
static int read_report(struct order *order)
{
    static const struct {
        const char *name;
        enum tide_opt_report report;
    } names[] = {{"text", TIDE_REPORT_TEXT},
                 {"json", TIDE_REPORT_JSON},
                 {"html", TIDE_REPORT_HTML},
                 {"none", TIDE_REPORT_NONE}};
    const char *name = order->report_or_null;
    if (name == NULL && order->options.report == TIDE_REPORT_HTML)
        name = "html";
    if (name == NULL)
        return CMD_FINE;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i].name) == 0) {
            order->options.report = names[i].report;
            return CMD_FINE;
        }
    return cmd_wrong_use(
        NAME, "--report takes text, json, html or none, not '%s'", name);
}

/*
** Whether files can be made where the profiles go.  Said before the program
** starts: afterwards there would be nothing to report.  A folder that has
** letters in its name is not known yet.
*/
static int check_folder(const char *pattern)
{
    char folder[TIDE_OPT_PATH_MAX];
    char expanded[TIDE_OPT_PATH_MAX];
    const size_t n = (size_t)(strrchr(pattern, '/') - pattern);
    snprintf(folder, sizeof folder, "%.*s", n > 0 ? (int)n : 1, pattern);
    if (strstr(folder, "%p") != NULL || strstr(folder, "%n") != NULL)
        return CMD_FINE;
    if (tideC_options_expand(folder, 0, "", expanded, sizeof expanded) !=
            TIDE_OK ||
        access(expanded, W_OK | X_OK) == 0)
        return CMD_FINE;
    return cmd_wrong_use(NAME, "no profile can be made in '%s': %s", expanded,
                         strerror(errno));
}

static int read_place(struct order *order, const char *program)
{
    const char *out = order->out_or_null;
    if (out == NULL && strcmp(order->options.out, NOT_GIVEN) != 0)
        out = order->options.out;
    if (out != NULL && *out == '\0')
        return cmd_wrong_use(NAME, "'out' is empty: a file is needed");
    switch (run_place(out, program, &order->place)) {
    case TIDE_OK:
        break;
    case TIDE_ERR_IO:
        cmd_error("current directory", "%s", strerror(errno));
        return EXIT_NO_START;
    case TIDE_ERR_ARG:
        return cmd_wrong_use(NAME, "'%s': only %%p, %%n and %%%% are known",
                             out);
    default:
        return cmd_wrong_use(NAME, "the profile's path is too long");
    }
    if (!add_out(order->set, order->place.pattern) ||
        !add_options(order->set, "report=none"))
        return cmd_wrong_use(NAME, "--set: too many options");
    return check_folder(order->place.pattern);
}

/* What the profiler will read, read here first: its errors are ours. */
static int read_options(struct order *order, const char *program)
{
    char why[256];
    tideC_options_default(&order->options);
    order->options.report = TIDE_REPORT_TEXT;
    snprintf(order->options.out, sizeof order->options.out, NOT_GIVEN);
    if (tideC_options_parse(order->set, &order->options, why, sizeof why) !=
        TIDE_OK)
        return cmd_wrong_use(NAME, "%s", why);
    if (order->has_top)
        order->options.top = order->top;
    const int status = read_report(order);
    return status == CMD_FINE ? read_place(order, program) : status;
}

/* LIBRARY beside this executable, or where the two were installed. */
static bool find_library(char out[PATH_MAX])
{
    static const char *const places[] = {
        LIBRARY, "../" TIDE_LIBDIR "/" LIBRARY, "../lib/" LIBRARY,
        "../lib/lua/5.4/" LIBRARY ".0", /* a tree of luarocks */
    };
    char self[PATH_MAX];
    char guess[2 * PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return false;
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(guess, sizeof guess, "%s/%s", self, places[i]);
        if (realpath(guess, out) != NULL)
            return true;
    }
    return false;
}

/* The loader takes blanks and colons as ends of a path and expands $. */
bool run_library(char library[PATH_MAX])
{
    if (find_library(library))
        return true;
    cmd_error(LIBRARY, "not found beside 'tidemark' or in its ../lib");
    return false;
}

bool run_preload(char *out, size_t out_bytes)
{
    char library[PATH_MAX];
    if (!run_library(library))
        return false;
    if (strpbrk(library, " :$\t\n") != NULL) {
        cmd_error(library, "LD_PRELOAD cannot take a path with blanks, colons "
                           "or dollar signs");
        return false;
    }
    const char *before = getenv("LD_PRELOAD");
    const bool has_before = before != NULL && *before != '\0';
    const int n = snprintf(out, out_bytes, "%s%s%s", library,
                           has_before ? ":" : "", has_before ? before : "");
    if ((size_t)n >= out_bytes)
        cmd_error("LD_PRELOAD", "too long");
    return (size_t)n < out_bytes;
}

static uint64_t now_unix_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A path as it is typed from here. */
static const char *shown_path(const char *path)
{
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == NULL)
        return path;
    const size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1
                                                           : path;
}

/* app.tide gets app.html. */
static void write_page(const struct tide_model *model, const char *path)
{
    const struct cmd_page page = {
        .now = model, .path = path, .has_sources = true};
    char out[PATH_MAX + 8];
    const size_t n = strlen(path);
    const size_t suffix = sizeof TIDE_P_SUFFIX - 1;
    const bool has_suffix =
        n > suffix && strcmp(path + n - suffix, TIDE_P_SUFFIX) == 0;
    snprintf(out, sizeof out, "%.*s.html", (int)(has_suffix ? n - suffix : n),
             path);
    if (cmd_put_page(&page, out) == CMD_FINE)
        fprintf(stderr, "tidemark: page: %s\n", out);
}

static void print_report(const struct order *order, const char *path)
{
    struct tide_r_query query = {.top = order->options.top};
    struct tide_r_look look = cmd_look(stderr, CMD_COLOUR_AUTO, path);
    struct tide_model *model = cmd_open_model(path);
    if (model == NULL)
        return;
    look.is_brief = order->options.quiet;
    if (order->options.report == TIDE_REPORT_HTML) {
        write_page(model, path);
        tideR_model_close(model);
        return;
    }
    cmd_rendered(
        order->options.report == TIDE_REPORT_JSON
            ? tideR_json(model, &query, stderr)
            : tideR_text(model, TIDE_R_BY_LINE, &query, &look, stderr));
    tideR_model_close(model);
}

static void print_names(struct tide_r_sink *sink,
                        const struct run_profiles *found)
{
    char text[TIDE_R_UNIT_MAX];
    tideR_puts(sink, "tidemark: profile: ");
    tideR_put_word(sink, shown_path(found->list[0].path));
    for (size_t i = 1; i < found->n && i <= OTHERS_SHOWN; i++) {
        tideR_puts(sink, "\ntidemark: also: ");
        tideR_put_word(sink, shown_path(found->list[i].path));
        tideR_printf(
            sink, " (pid %ld, %s allocated%s)", (long)found->list[i].pid,
            tideR_bytes_text((int64_t)found->list[i].alloc_bytes, text),
            found->list[i].is_open ? ", still running" : "");
    }
    if (found->n > OTHERS_SHOWN + 1)
        tideR_printf(sink, "\ntidemark: and %zu more profiles beside it",
                     found->n - OTHERS_SHOWN - 1);
    tideR_puts(sink, "\n");
}

/* Which profiles there are, and what to type next. */
static void print_hints(const struct order *order,
                        const struct run_profiles *found)
{
    struct tide_r_sink sink = tideR_sink(stderr);
    print_names(&sink, found);
    if (order->options.report == TIDE_REPORT_TEXT)
        return; /* the report has said it */
    tideR_printf(&sink, "tidemark: next: %s report ", cmd_tool());
    tideR_put_word(&sink, shown_path(found->list[0].path));
    tideR_puts(&sink, "\n");
}

static void print_end(const struct order *order, const struct run_end *end,
                      char **argv, uint64_t start_unix_ns)
{
    struct run_profiles found;
    run_find(&order->place, end->pid, start_unix_ns, &found);
    if (found.n == 0) {
        fprintf(stderr,
                "tidemark: no Lua state was profiled in '%s': it made none, "
                "its Lua is not 5.4 or cannot be reached, or there was no room "
                "for its profile; try '%s doctor -- %s'\n",
                argv[0], cmd_tool(), argv[0]);
        return;
    }
    if (order->options.report != TIDE_REPORT_NONE)
        print_report(order, shown_path(found.list[0].path));
    if (!order->options.quiet)
        print_hints(order, &found);
    run_profiles_close(&found);
}

static int run_program(const struct order *order, char **argv)
{
    char preload[2 * PATH_MAX];
    struct run_end end;
    const struct run_env env = {preload, order->set};
    if (!run_preload(preload, sizeof preload))
        return EXIT_NO_START;
    const uint64_t start_unix_ns = now_unix_ns();
    if (!run_child(argv, &env, &end)) {
        cmd_error(argv[0], "cannot be started: %s", strerror(errno));
        return EXIT_NO_START;
    }
    if (end.exec_errno != 0) {
        cmd_error(argv[0], "cannot be run: %s", strerror(end.exec_errno));
        return end.exit_status;
    }
    if (end.signal != 0)
        cmd_error(argv[0], "ended by signal %d (%s)", end.signal,
                  strsignal(end.signal));
    print_end(order, &end, argv, start_unix_ns);
    return end.exit_status;
}

/* Puts the interpreter in front of a Lua file. */
static int run_lua_file(const struct order *order, int argc, char **argv)
{
    static char interpreter[] = INTERPRETER;
    if (access(argv[0], R_OK) != 0) {
        cmd_error(argv[0], "cannot be run: %s", strerror(errno));
        return errno == ENOENT ? 127 : EXIT_NO_START;
    }
    char **args = calloc((size_t)argc + 2, sizeof *args);
    if (args == NULL) {
        cmd_error(argv[0], "%s", strerror(errno));
        return EXIT_NO_START;
    }
    args[0] = interpreter;
    memcpy(args + 1, argv, (size_t)argc * sizeof *args);
    const int status = run_program(order, args);
    free(args);
    return status;
}

static bool is_lua_file(const char *program)
{
    const size_t n = strlen(program);
    return n > 4 && strcmp(program + n - 4, ".lua") == 0;
}

static int run_order(struct order *order, int argc, char **argv)
{
    const int status = read_options(order, argv[0]);
    if (status != CMD_FINE)
        return status;
    return is_lua_file(argv[0]) ? run_lua_file(order, argc, argv)
                                : run_program(order, argv);
}

int cmd_run(int argc, char **argv)
{
    struct order *order = calloc(1, sizeof *order);
    if (order == NULL) {
        cmd_error(NAME, "%s", strerror(errno));
        return EXIT_NO_START;
    }
    int status = read_arguments(order, argc, argv);
    if (status == CMD_FINE && order->wants_help)
        fputs(usage, stdout);
    else if (status == CMD_FINE)
        status = run_order(order, argc - optind, argv + optind);
    free(order);
    return status;
}
