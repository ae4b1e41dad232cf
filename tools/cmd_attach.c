/*
** cmd_attach.c: `tidemark attach`: profiles a process that runs already.
**
** gdb stops the process where one of Lua's exported functions begins: there
** the state is whole and no lock of malloc is held by this thread, which is not
** so at any other instruction.  Then the process itself loads libtidemark and
** attaches the state, whose thread is the function's first argument.
**
** gdb is never killed: it would leave its breakpoints in the process.  When no
** function of Lua is called for a while it is interrupted, and lets go.
*/
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../report/units.h"
#include "cmd.h"
#include "run.h"

#define NAME       "attach"
#define OUTPUT_MAX 16384
#define GRACE_MS   30000 /* for gdb to let go */

static const char usage[] =
    "usage: tidemark attach [OPTION...] PID\n"
    "\n"
    "Profiles a process that runs already, by gdb. It is stopped for a\n"
    "moment when it next calls one of Lua's exported functions. What it holds\n"
    "then is shown as \"before attach\".\n"
    "\n"
    "  -o, --out FILE      the profile; default PROGRAM.PID.tide here\n"
    "  --set key=value,... options, see 'tidemark help options'\n"
    "  --timeout SECONDS   how long to wait for Lua; default 10\n"
    "  -h, --help          this text\n"
    "\n"
    "Exit status: 0 attached, 1 it was not: the reason is on stderr.\n";

enum {
    OPT_SET = 256,
    OPT_TIMEOUT,
};

static const struct option long_options[] = {
    {"out", required_argument, NULL, 'o'},
    {"set", required_argument, NULL, OPT_SET},
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct attach {
    long pid;
    const char *out_or_null;
    const char *set_or_null;
    uint64_t timeout_s;
    bool wants_help;
    char library[PATH_MAX];
    char options[2 * TIDE_OPT_PATH_MAX];
    char path[TIDE_OPT_PATH_MAX]; /* of the profile */
    char output[OUTPUT_MAX];      /* what gdb said */
    bool is_late;                 /* gdb had to be interrupted */
};

/*
** The entries that are waited at: all take the state first, and no program
** gets far in C without one of them.
*/
static const char *const entries[] = {"lua_settop",      "lua_gettop",
                                      "lua_type",        "lua_tolstring",
                                      "lua_pushinteger", "lua_resume"};
#define N_ENTRIES (sizeof entries / sizeof entries[0])

#if defined(__aarch64__)
# define FIRST_ARGUMENT "$x0"
#else
# define FIRST_ARGUMENT "$rdi"
#endif

/* What gdb does once the process has stopped; %s: library, options. */
static const char script_format[] =
    "delete\n"
    "set $found = 0\n"
    "%s" /* sets $found where pc is one of the entries */
    "if $found == 0\n"
    "  echo tidemark-none\\n\n"
    "else\n"
    "  set $L = (void *)" FIRST_ARGUMENT "\n"
    "  set $so = ((void *(*)(const char *, int))dlopen)(\"%s\", 2)\n"
    "  if $so == 0\n"
    "    printf \"tidemark-dlopen %%s\\n\", ((char *(*)(void))dlerror)()\n"
    "  else\n"
    "    set $r = ((int (*)(const char *, void *, void *, void *, void *))"
    "tide_process_attach)(\"%s\", 0, 0, $L, 0)\n"
    "    printf \"tidemark-result %%d\\n\", $r\n"
    "    if $r == 0\n"
    "      call ((void (*)(void *, const char *))tide_session_set_route)"
    "(((void *(*)(void))tide_process_session)(), \"attach\")\n"
    "    end\n"
    "  end\n"
    "end\n"
    "detach\n";

/* ---- gdb ---- */

static bool write_script(const struct attach *a, char *path, size_t bytes)
{
    const char *folder = getenv("TMPDIR");
    char found[N_ENTRIES * 64];
    size_t n = 0;
    for (size_t i = 0; i < N_ENTRIES; i++)
        n += (size_t)snprintf(found + n, sizeof found - n,
                              "if $pc == $e%zu\n set $found = 1\nend\n", i);
    snprintf(path, bytes, "%s/tidemark.XXXXXX",
             folder == NULL || folder[0] == '\0' ? P_tmpdir : folder);
    const int fd = mkstemp(path);
    if (fd < 0)
        return false;
    const int written =
        dprintf(fd, script_format, found, a->library, a->options);
    return close(fd) == 0 && written > 0;
}

/* The command line: breakpoints may fail one by one, the script not. */
static void exec_gdb(const struct attach *a, const char *script)
{
    static char texts[2 * N_ENTRIES][96];
    char *argv[8 * N_ENTRIES + 20];
    char pid[32];
    size_t n = 0;
    snprintf(pid, sizeof pid, "%ld", a->pid);
    const char *const start[] = {"gdb",
                                 "-nx",
                                 "-batch",
                                 "-iex",
                                 "set auto-load off",
                                 "-iex",
                                 "set debuginfod enabled off",
                                 "-p",
                                 pid};
    for (size_t i = 0; i < sizeof start / sizeof *start; i++)
        argv[n++] = (char *)start[i];
    for (size_t i = 0; i < N_ENTRIES; i++) {
        snprintf(texts[2 * i], sizeof texts[0], "set $e%zu = 0", i);
        argv[n++] = (char *)"-ex";
        argv[n++] = texts[2 * i];
        snprintf(texts[2 * i + 1], sizeof texts[0],
                 "set $e%zu = (unsigned long)&%s", i, entries[i]);
        argv[n++] = (char *)"-ex";
        argv[n++] = texts[2 * i + 1];
    }
    static char breaks[N_ENTRIES][64];
    for (size_t i = 0; i < N_ENTRIES; i++) {
        snprintf(breaks[i], sizeof breaks[0], "break *%s", entries[i]);
        argv[n++] = (char *)"-ex";
        argv[n++] = breaks[i];
    }
    argv[n++] = (char *)"-ex";
    argv[n++] = (char *)"continue";
    argv[n++] = (char *)"-x";
    argv[n++] = (char *)script;
    argv[n] = NULL;
    execvp("gdb", argv);
    printf("tidemark-nogdb %s\n", strerror(errno));
    fflush(stdout);
    _exit(127);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Reads what gdb says to its end, and interrupts it when its time is up. */
static void listen_to(struct attach *a, pid_t gdb, int fd)
{
    const int signals[] = {SIGINT, SIGTERM};
    unsigned n_sent = 0;
    size_t n = 0;
    int64_t end_ms = now_ms() + (int64_t)a->timeout_s * 1000;
    for (;;) {
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        const int64_t left_ms = end_ms - now_ms();
        const int ready = poll(&poller, 1, left_ms > 0 ? (int)left_ms : 0);
        if (ready > 0) {
            char chunk[1024];
            const ssize_t got = read(fd, chunk, sizeof chunk);
            if (got <= 0)
                return;
            const size_t room = sizeof a->output - 1 - n;
            const size_t take = (size_t)got < room ? (size_t)got : room;
            memcpy(a->output + n, chunk, take);
            n += take;
            a->output[n] = '\0';
        } else if (ready == 0 && n_sent < 2) {
            a->is_late = true;
            kill(gdb, signals[n_sent++]);
            end_ms = now_ms() + GRACE_MS;
        } else if (ready == 0) {
            return;
        }
    }
}

static bool run_gdb(struct attach *a, const char *script)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    const pid_t gdb = fork();
    if (gdb == 0) {
        const int none = open("/dev/null", O_RDONLY);
        setpgid(0, 0); /* the terminal's interrupt is ours to hand on */
        unsetenv("LD_PRELOAD");
        dup2(none, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        exec_gdb(a, script);
    }
    close(ends[1]);
    if (gdb > 0) {
        listen_to(a, gdb, ends[0]);
        waitpid(gdb, NULL, 0);
    }
    close(ends[0]);
    return gdb > 0;
}

/* ---- what came of it ---- */

/* The text behind a word that gdb was told to say, up to the line's end. */
static const char *answer(struct attach *a, const char *word)
{
    char *at = strstr(a->output, word);
    if (at == NULL)
        return NULL;
    at += strlen(word);
    at[strcspn(at, "\n")] = '\0';
    return at;
}

static int refuse(const struct attach *a, const char *why, const char *more)
{
    char what[32];
    snprintf(what, sizeof what, "process %ld", a->pid);
    cmd_error(what, "%s%s", why, more);
    return CMD_FAILED;
}

/* Why it did not get as far as Lua. */
static int explain_failure(struct attach *a)
{
    if (strstr(a->output, "ptrace: ") != NULL)
        return refuse(a, "",
                      "may not be traced: try as root, or see "
                      "/proc/sys/kernel/yama/ptrace_scope; another debugger "
                      "may have it");
    if (strstr(a->output, "Breakpoint 1 at") == NULL)
        return refuse(a, "",
                      "exports no function of Lua: its symbols are needed "
                      "(for Debian's liblua: liblua5.4-0-dbg)");
    if (a->is_late)
        return refuse(a, "",
                      "called no function of Lua in time: it waits for "
                      "something, or see --timeout");
    return refuse(a, "", "gdb did not get to it; is it still there?");
}

static int explain(struct attach *a)
{
    const char *text = answer(a, "tidemark-nogdb ");
    if (text != NULL)
        return refuse(a, "gdb is needed: ", text);
    text = answer(a, "tidemark-dlopen ");
    if (text != NULL)
        return refuse(a, "cannot load the library: ", text);
    text = answer(a, "tidemark-result ");
    if (text == NULL)
        return explain_failure(a);
    const int err = atoi(text);
    if (err != TIDE_OK)
        return refuse(
            a, "",
            err == TIDE_ERR_LUA
                ? "its Lua is not 5.4, or does not export its functions"
                : tide_err_text((enum tide_err)err));
    if (access(a->path, F_OK) != 0)
        return refuse(a, "is attached, but cannot write ", a->path);
    fprintf(stderr, "tidemark: profile: %s\ntidemark: next: %s report %s\n",
            a->path, cmd_tool(), a->path);
    return CMD_FINE;
}

/* ---- before it ---- */

/* The name of the program for the profile; false: there is no such process. */
static bool name_of(const struct attach *a, char *name, size_t bytes)
{
    char path[64];
    char exe[PATH_MAX];
    snprintf(path, sizeof path, "/proc/%ld/comm", a->pid);
    FILE *f = fopen(path, "re");
    if (f == NULL || fgets(exe, sizeof exe, f) == NULL)
        exe[0] = '\0';
    if (f != NULL)
        fclose(f);
    exe[strcspn(exe, "/\n")] = '\0';
    snprintf(name, bytes, "%s", exe);
    return exe[0] != '\0';
}

static bool has_library(const struct attach *a)
{
    char path[64];
    char line[PATH_MAX + 128];
    bool is_found = false;
    snprintf(path, sizeof path, "/proc/%ld/maps", a->pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && !is_found && fgets(line, sizeof line, maps) != NULL)
        is_found = strstr(line, "/libtidemark.so") != NULL;
    if (maps != NULL)
        fclose(maps);
    return is_found;
}

/* Where the profile goes, as this process sees it. */
static int set_path(struct attach *a, const char *program)
{
    char here[PATH_MAX];
    char name[TIDE_OPT_PATH_MAX];
    if (a->out_or_null == NULL)
        snprintf(name, sizeof name,
                 "%s.%ld"
                 ".tide",
                 program, a->pid);
    else if (tideC_options_expand(a->out_or_null, (int)a->pid, program, name,
                                  sizeof name) != TIDE_OK)
        return cmd_wrong_use(NAME, "'%s': only %%p, %%n and %%%% are known",
                             a->out_or_null);
    if (getcwd(here, sizeof here) == NULL)
        here[0] = '\0';
    const int n =
        snprintf(a->path, sizeof a->path, "%s%s%s", name[0] == '/' ? "" : here,
                 name[0] == '/' ? "" : "/", name);
    if (n < 0 || (size_t)n >= sizeof a->path)
        return cmd_wrong_use(NAME, "'%s' is too long", name);
    return CMD_FINE;
}

/* The options text, for a string of gdb and of C. */
static int set_options(struct attach *a)
{
    struct tide_options options;
    char why[256];
    if (strpbrk(a->path, "\"\\%") != NULL)
        return cmd_wrong_use(NAME,
                             "'%s': no quotes, backslashes or percent "
                             "signs here",
                             a->path);
    if (a->set_or_null != NULL && strpbrk(a->set_or_null, "\"\\") != NULL)
        return cmd_wrong_use(NAME, "--set takes no quotes here");
    tideC_options_default(&options);
    if (a->set_or_null != NULL &&
        tideC_options_parse(a->set_or_null, &options, why, sizeof why) !=
            TIDE_OK)
        return cmd_wrong_use(NAME, "--set: %s", why);
    snprintf(a->options, sizeof a->options, "report=none,%s%sout=\\\"%s\\\"",
             a->set_or_null == NULL ? "" : a->set_or_null,
             a->set_or_null == NULL ? "" : ",", a->path);
    return CMD_FINE;
}

static int attach_process(struct attach *a)
{
    char program[64];
    char script[PATH_MAX];
    if (!name_of(a, program, sizeof program))
        return refuse(a, "", "there is no such process");
    if (has_library(a))
        return refuse(a, "",
                      "has the library already: its program can "
                      "attach with require \"tidemark\"");
    int status = set_path(a, program);
    if (status == CMD_FINE)
        status = set_options(a);
    if (status != CMD_FINE)
        return status;
    if (!run_library(a->library))
        return CMD_FAILED;
    if (!write_script(a, script, sizeof script) || !run_gdb(a, script))
        return refuse(a, "gdb cannot be run: ", strerror(errno));
    unlink(script);
    return explain(a);
}

static int read_options(struct attach *a, int argc, char **argv)
{
    int id;
    char *end;
    while ((id = getopt_long(argc, argv, ":o:h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h')
            a->wants_help = true;
        else if (id == 'o')
            a->out_or_null = optarg;
        else if (id == OPT_SET)
            a->set_or_null = optarg;
        else if (tideR_count_parse(optarg, &a->timeout_s) != TIDE_OK ||
                 a->timeout_s == 0 || a->timeout_s > 100000)
            return cmd_wrong_use(NAME, "--timeout takes seconds, not '%s'",
                                 optarg);
    }
    if (a->wants_help)
        return CMD_FINE;
    if (argc - optind != 1)
        return cmd_wrong_use(NAME, "which process? one PID is needed");
    a->pid = strtol(argv[optind], &end, 10);
    if (*end != '\0' || a->pid <= 0 || a->pid > INT_MAX)
        return cmd_wrong_use(NAME, "'%s' is no process id", argv[optind]);
    return CMD_FINE;
}

int cmd_attach(int argc, char **argv)
{
    static struct attach a;
    a = (struct attach){.timeout_s = 10};
    int status = read_options(&a, argc, argv);
    if (status == CMD_FINE && a.wants_help)
        fputs(usage, stdout);
    else if (status == CMD_FINE)
        status = attach_process(&a);
    return status;
}
