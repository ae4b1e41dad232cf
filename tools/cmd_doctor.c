/*
** cmd_doctor.c: `tidemark doctor`: how a program can be profiled, how exactly,
** and what would make it better.
**
** What a file says comes first: which Lua, inside or in a library, exported or
** not, other versions, privileges, no dynamic linker.  Where that leaves a
** route open, the program is started with the preload library, which ends it
** before main; so the tier is measured, not guessed.  Only where no Lua can be
** seen from outside, since a plugin may bring it, or where it has no names, the
** command is really run, for a few seconds at most.
*/
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../report/emit.h"
#include "cmd.h"
#include "doctor.h"
#include "run.h"

#define NAME            "doctor"
#define DEFAULT_PROGRAM "lua5.4"
#define JSON_VERSION    1

static const char usage[] =
    "usage: tidemark doctor [OPTION...] [-- COMMAND [ARGUMENT...]]\n"
    "\n"
    "Says which Lua a program has, how tidemark gets into it, how exactly it\n"
    "can count there, and what to change.  Without COMMAND it looks at the\n"
    "lua5.4 in PATH.\n"
    "\n"
    "  --json        the same for programs\n"
    "  --no-run      never run the command: it is run, for 5 seconds at most\n"
    "                and with its output dropped, only where no Lua can be\n"
    "                seen from outside, or cannot be reached by name\n"
    "  -h, --help    this text\n"
    "\n"
    "Exit status: 0 exact, 1 less than that or not at all, 2 not found.\n";

enum option_id {
    OPT_JSON = 256,
    OPT_NO_RUN,
};

static const struct option long_options[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"no-run", no_argument, NULL, OPT_NO_RUN},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Where the Lua of a program is. */
enum where {
    WHERE_NOWHERE = 0,
    WHERE_EXPORTED, /* in the executable, which exports it */
    WHERE_HIDDEN,   /* in the executable, which exports nothing of it */
    WHERE_LIBRARY,  /* in a library it is linked to */
    WHERE_PLUGIN,   /* it comes while the program runs */
    WHERE_CHILD,    /* in another program, which it starts */
    WHERE_COUNT_
};

static const char *const where_names[WHERE_COUNT_] = {
    [WHERE_NOWHERE] = "none",  [WHERE_EXPORTED] = "executable",
    [WHERE_HIDDEN] = "hidden", [WHERE_LIBRARY] = "library",
    [WHERE_PLUGIN] = "plugin", [WHERE_CHILD] = "child",
};

static const char *const where_texts[WHERE_COUNT_] = {
    [WHERE_NOWHERE] = "none was seen",
    [WHERE_EXPORTED] = "inside the executable, which exports its functions",
    [WHERE_HIDDEN] = "inside the executable, which exports none of it",
    [WHERE_LIBRARY] = "in a library that it is linked to",
    [WHERE_PLUGIN] = "in something that is loaded while it runs",
    [WHERE_CHILD] = "in a program that it starts",
};

static const char *const tier_names[TIDE_TIER_COUNT_] = {
    [TIDE_TIER_EXACT] = "exact",
    [TIDE_TIER_PARTIAL] = "partial",
    [TIDE_TIER_PUBLIC] = "public",
};

/* What is said in the end. */
struct verdict {
    struct doctor_program program;
    struct doctor_file file;
    struct doctor_library library;
    struct doctor_probe probe;
    struct doctor_hints hints;
    const char *lua; /* "" when none was seen */
    enum where where;
    const char *route;  /* "none" when there is no way */
    const char *tier;   /* "none" with it */
    const char *reason; /* why this tier, or why none */
    const char *advice; /* what to change */
    const char *ran;    /* "no", "start" or "run" */
};

static void conclude_none(struct verdict *verdict, const char *reason,
                          const char *advice)
{
    verdict->route = "none";
    verdict->tier = "none";
    verdict->reason = reason;
    verdict->advice = advice;
}

/* Which Lua the program has, as far as files tell. */
static void locate_lua(struct verdict *verdict)
{
    const struct doctor_file *file = &verdict->file;
    if (file->is_dynamic && file->is_native)
        doctor_libraries(&verdict->program, file, &verdict->library);
    const bool has_inside = file->lua[0] != '\0';
    const bool has_library = verdict->library.path[0] != '\0';
    verdict->lua = "";
    if (has_library &&
        (!has_inside ||
         (!file->exports_newstate && doctor_lua_is_54(verdict->library.lua)))) {
        verdict->where = WHERE_LIBRARY;
        verdict->lua = verdict->library.lua;
    } else if (has_inside) {
        verdict->where = file->exports_newstate ? WHERE_EXPORTED : WHERE_HIDDEN;
        verdict->lua = file->lua;
    }
}

/* What rules every route out; false: nothing does. */
static bool is_hopeless(struct verdict *verdict)
{
    const struct doctor_file *file = &verdict->file;
    if (!file->is_elf)
        conclude_none(verdict, "it is no executable of this system",
                      "name the program that runs it");
    else if (!file->is_native)
        conclude_none(verdict,
                      file->is_64 ? "it is for another processor"
                                  : "it is a 32-bit program",
                      "use a 64-bit build for this processor");
    else if (verdict->lua[0] != '\0' && !doctor_lua_is_54(verdict->lua))
        conclude_none(verdict, "tidemark profiles Lua 5.4 only",
                      "run it with Lua 5.4, if it can be");
    else if (!file->is_dynamic)
        conclude_none(verdict,
                      "it is statically linked: nothing can be preloaded",
                      "link it dynamically, or use tidemark.h in it");
    else if (verdict->program.has_privileges)
        conclude_none(verdict,
                      "it runs with privileges of its own (set-user-id or "
                      "capabilities): the dynamic linker then preloads nothing",
                      "start it as the user whose rights it takes");
    else
        return false;
    return true;
}

static const char *advice_for_tier(uint32_t tier, enum where where)
{
    if (tier == TIDE_TIER_EXACT)
        return "nothing";
    if (where == WHERE_HIDDEN)
        return "start it with --set sniff=on, or with TIDEMARK=sniff=on in its "
               "environment; linked with -Wl,-E, or with the shared liblua5.4, "
               "it would be exact";
    return "build this Lua with -O1 or more, from unchanged sources of 5.4";
}

static void conclude_probe(struct verdict *verdict)
{
    const struct doctor_probe *probe = &verdict->probe;
    if (probe->is_seen && probe->tier < TIDE_TIER_COUNT_) {
        verdict->route = probe->route;
        verdict->tier = tier_names[probe->tier];
        verdict->reason = probe->reason;
        verdict->advice = advice_for_tier(probe->tier, verdict->where);
        if (verdict->lua[0] == '\0')
            verdict->lua = probe->lua;
        return;
    }
    if (!probe->was_started)
        conclude_none(verdict, "it cannot be started", "try to start it");
    else if (probe->message[0] != '\0')
        conclude_none(verdict, probe->message,
                      "use the Lua module or tidemark.h in it");
    else if (verdict->where == WHERE_NOWHERE)
        conclude_none(verdict, "it made no state of Lua 5.4",
                      "name a command line that makes it run Lua code");
    else if (verdict->where == WHERE_HIDDEN)
        conclude_none(verdict,
                      "its Lua cannot be reached by name, and with sniff=on no "
                      "state was seen",
                      "name a command line that makes it run Lua code; else "
                      "link it with -Wl,-E or with the shared liblua5.4, or "
                      "use tidemark.h in it");
    else
        conclude_none(verdict, "the preload library found no way in",
                      "use the Lua module or tidemark.h in it");
}

/* Either may be a link. */
static bool is_same_program(const char *a, const char *b)
{
    char a_real[PATH_MAX];
    char b_real[PATH_MAX];
    return realpath(a, a_real) != NULL && realpath(b, b_real) != NULL &&
           strcmp(a_real, b_real) == 0;
}

/* Runs the interpreter of a script for a start: arguments do not matter. */
static enum tide_err probe(struct verdict *verdict, char **argv,
                           enum doctor_probe_kind kind)
{
    char *start[] = {verdict->program.path, NULL};
    verdict->ran = kind == DOCTOR_PROBE_START ? "start" : "run";
    TIDE_TRY(doctor_probe(kind == DOCTOR_PROBE_START ? start : argv, kind,
                          &verdict->probe));
    if (verdict->probe.is_seen && verdict->where == WHERE_NOWHERE)
        verdict->where =
            is_same_program(verdict->program.path, verdict->probe.program)
                ? WHERE_PLUGIN
                : WHERE_CHILD;
    conclude_probe(verdict);
    return TIDE_OK;
}

static enum tide_err examine(struct verdict *verdict, char **argv, bool may_run)
{
    verdict->ran = "no";
    TIDE_TRY(doctor_file_read(verdict->program.path, &verdict->file));
    locate_lua(verdict);
    if (is_hopeless(verdict))
        return TIDE_OK;
    if (verdict->where == WHERE_HIDDEN && may_run)
        return probe(verdict, argv, DOCTOR_PROBE_SNIFF);
    if (verdict->where == WHERE_HIDDEN) {
        conclude_none(verdict, "its Lua cannot be reached by name",
                      "leave out --no-run, to see what sniff=on finds");
        return TIDE_OK;
    }
    if (verdict->where != WHERE_NOWHERE)
        return probe(verdict, argv, DOCTOR_PROBE_START);
    if (may_run)
        return probe(verdict, argv, DOCTOR_PROBE_RUN);
    conclude_none(verdict, "no Lua can be seen from outside",
                  "leave out --no-run, so that it is run for a moment");
    return TIDE_OK;
}

/* ------------------------------------------------------------ printing */

/* The file that has the Lua, as far as it is known. */
static const char *lua_path(const struct verdict *verdict)
{
    switch (verdict->where) {
    case WHERE_EXPORTED:
    case WHERE_HIDDEN:
        return verdict->program.path;
    case WHERE_LIBRARY:
        return verdict->library.path;
    case WHERE_CHILD:
        return verdict->probe.program;
    default:
        return "";
    }
}

static void put_row(struct tide_r_sink *sink, const char *name,
                    const char *text)
{
    tideR_printf(sink, "%-8s ", name);
    tideR_put_harmless(sink, text, strlen(text));
}

static void put_more(struct tide_r_sink *sink, const char *before,
                     const char *text, const char *after)
{
    tideR_puts(sink, before);
    tideR_put_harmless(sink, text, strlen(text));
    tideR_puts(sink, after);
}

static void print_text(struct tide_r_sink *sink, const struct verdict *verdict)
{
    const struct doctor_program *program = &verdict->program;
    if (program->script[0] != '\0') {
        put_row(sink, "script", program->script);
        tideR_puts(sink, "\n");
    }
    put_row(sink, "program", program->path);
    tideR_puts(sink, "\n");
    put_row(sink, "lua", verdict->lua);
    put_more(sink, verdict->lua[0] != '\0' ? ", " : "",
             where_texts[verdict->where], "\n");
    if (lua_path(verdict)[0] != '\0' && verdict->where != WHERE_EXPORTED &&
        verdict->where != WHERE_HIDDEN) {
        put_row(sink, "", lua_path(verdict));
        tideR_puts(sink, "\n");
    }
    put_row(sink, "route", verdict->route);
    tideR_puts(sink, "\n");
    put_row(sink, "tier", verdict->tier);
    put_more(sink, ": ", verdict->reason, "\n");
    put_row(sink, "to do", verdict->advice);
    tideR_puts(sink, "\n");
    for (unsigned i = 0; i < verdict->hints.n; i++) {
        put_row(sink, i == 0 ? "around" : "", verdict->hints.text[i]);
        tideR_puts(sink, "\n");
    }
}

static void print_json(struct tide_r_sink *sink, const struct verdict *verdict)
{
    struct tide_r_json json = tideR_json_on(sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-doctor");
    tideR_json_int(&json, "version", JSON_VERSION);
    tideR_json_str(&json, "script", verdict->program.script);
    tideR_json_str(&json, "program", verdict->program.path);
    tideR_json_str(&json, "lua", verdict->lua);
    tideR_json_str(&json, "where", where_names[verdict->where]);
    tideR_json_str(&json, "lua_file", lua_path(verdict));
    tideR_json_str(&json, "ran", verdict->ran);
    tideR_json_str(&json, "route", verdict->route);
    tideR_json_str(&json, "tier", verdict->tier);
    tideR_json_str(&json, "reason", verdict->reason);
    tideR_json_str(&json, "advice", verdict->advice);
    tideR_json_open(&json, "environment", '[');
    for (unsigned i = 0; i < verdict->hints.n; i++)
        tideR_json_str(&json, NULL, verdict->hints.text[i]);
    tideR_json_close(&json, ']');
    tideR_json_close(&json, '}');
    tideR_puts(sink, "\n");
}

/* ------------------------------------------------------------- command */

/* What was asked for. */
struct order {
    bool wants_json;
    bool wants_help;
    bool may_run;
};

static int read_arguments(struct order *order, int argc, char **argv)
{
    int id;
    *order = (struct order){.may_run = true};
    while ((id = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
        if (id == OPT_JSON)
            order->wants_json = true;
        else if (id == OPT_NO_RUN)
            order->may_run = false;
        else if (id == 'h')
            order->wants_help = true;
        else
            return cmd_bad_option(NAME, id, argv);
    }
    return CMD_FINE;
}

static int examine_command(const struct order *order, char **argv)
{
    struct verdict verdict = {.lua = ""};
    struct tide_r_sink sink = tideR_sink(stdout);
    char library[PATH_MAX];
    if (!doctor_find(argv[0], &verdict.program)) {
        cmd_error(argv[0], "%s", verdict.program.why);
        return CMD_WRONG_USE;
    }
    if (!run_library(library))
        return CMD_WRONG_USE;
    doctor_environment(argv[0], &verdict.program, library, &verdict.hints);
    argv[0] = verdict.program.script[0] != '\0' ? verdict.program.script
                                                : verdict.program.path;
    const enum tide_err err = examine(&verdict, argv, order->may_run);
    if (err != TIDE_OK) {
        if (err != TIDE_ERR_STATE)
            cmd_error(argv[0], "%s", strerror(errno));
        return CMD_WRONG_USE;
    }
    if (order->wants_json)
        print_json(&sink, &verdict);
    else
        print_text(&sink, &verdict);
    if (cmd_rendered(tideR_sink_finish(&sink)) != CMD_FINE)
        return CMD_FAILED;
    return strcmp(verdict.tier, tier_names[TIDE_TIER_EXACT]) == 0 ? CMD_FINE
                                                                  : CMD_FAILED;
}

int cmd_doctor(int argc, char **argv)
{
    struct order order;
    char program[] = DEFAULT_PROGRAM;
    char *standard[] = {program, NULL};
    const int status = read_arguments(&order, argc, argv);
    if (status != CMD_FINE)
        return status;
    if (order.wants_help) {
        fputs(usage, stdout);
        return CMD_FINE;
    }
    return examine_command(&order, optind < argc ? argv + optind : standard);
}
