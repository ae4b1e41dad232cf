/*
** cmd_ctl.c: `tidemark ctl`: commands to a process that is being profiled,
** through the profile that it has mapped.
**
** The command is put into the control block behind the file's header (struct
** tide_p_control), and the process answers there at one of its next
** allocations.  `stats` needs no answer: it reads the profile.
*/
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../report/emit.h"
#include "../report/units.h"
#include "cmd.h"
#include "find_profile.h"

#define NAME            "ctl"
#define TIMEOUT_SECONDS 10.0
#define LOOK_EVERY_NS   2000000

static const char usage[] =
    "usage: tidemark ctl [OPTION...] PID COMMAND\n"
    "\n"
    "Tells a process that is being profiled what to do. It answers at one of\n"
    "its next allocations in Lua.\n"
    "\n"
    "  start           record\n"
    "  stop            do not record; what is allocated stands in one row\n"
    "  reset           count anew; what is alive is inherited\n"
    "  save NAME       a copy of the profile as it is now, beside it\n"
    "  mark LABEL      name this moment: see report FILE@LABEL\n"
    "  stats           the totals so far; needs no answer\n"
    "\n"
    "  --timeout S     how long to wait for the answer; default 10 s\n"
    "  --json          stats for programs\n"
    "  -h, --help      this text\n";

enum option_id {
    OPT_TIMEOUT = 256,
    OPT_JSON
};

static const struct option long_options[] = {
    {"timeout", required_argument, NULL, OPT_TIMEOUT},
    {"json", no_argument, NULL, OPT_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static const struct {
    const char *name;
    enum tide_p_command command;
    const char *argument; /* what it takes; NULL: nothing */
} words[] = {
    {"start", TIDE_P_COMMAND_START, NULL},
    {"stop", TIDE_P_COMMAND_STOP, NULL},
    {"reset", TIDE_P_COMMAND_RESET, NULL},
    {"save", TIDE_P_COMMAND_SAVE, "NAME"},
    {"mark", TIDE_P_COMMAND_MARK, "LABEL"},
    {"stats", TIDE_P_COMMAND_NONE, NULL},
};
#define N_WORDS (sizeof words / sizeof words[0])

struct request {
    pid_t pid;
    size_t word;
    const char *argument; /* "" when it takes none */
    double timeout_s;
    bool is_json;
    bool wants_help;
    char path[PATH_MAX]; /* of the profile */
};

/* ---- arguments ---- */

static int set_timeout(struct request *request, const char *text)
{
    char *end;
    request->timeout_s = strtod(text, &end);
    if (end != text && *end == '\0' && request->timeout_s >= 0 &&
        request->timeout_s <= 1e6)
        return CMD_FINE;
    return cmd_wrong_use(NAME, "--timeout takes seconds, not '%s'", text);
}

static int find_word(struct request *request, const char *name)
{
    for (size_t i = 0; i < N_WORDS; i++)
        if (strcmp(words[i].name, name) == 0) {
            request->word = i;
            return CMD_FINE;
        }
    return cmd_wrong_use(
        NAME, "what to do is start, stop, reset, save, mark or stats, not '%s'",
        name);
}

static int read_arguments(struct request *request, int n, char **arguments)
{
    if (n < 1)
        return cmd_wrong_use(NAME, "which process? a PID is needed");
    request->pid = find_parse_pid(arguments[0]);
    if (request->pid == 0)
        return cmd_wrong_use(NAME, "'%s' is no process id", arguments[0]);
    if (n < 2)
        return cmd_wrong_use(NAME, "what to do? start, stop, reset, save, "
                                   "mark or stats");
    const int status = find_word(request, arguments[1]);
    if (status != CMD_FINE)
        return status;
    const char *takes = words[request->word].argument;
    const int n_want = takes != NULL ? 3 : 2;
    if (n < n_want)
        return cmd_wrong_use(NAME, "%s needs a %s", arguments[1], takes);
    if (n > n_want)
        return cmd_wrong_use(NAME, "'%s' is one too many", arguments[n_want]);
    request->argument = takes != NULL ? arguments[2] : "";
    if (strlen(request->argument) >= TIDE_P_CONTROL_TEXT)
        return cmd_wrong_use(NAME, "%s: longer than %u bytes", takes,
                             TIDE_P_CONTROL_TEXT - 1);
    return CMD_FINE;
}

static int read_options(struct request *request, int argc, char **argv)
{
    int id;
    int status = CMD_FINE;
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            status = cmd_bad_option(NAME, id, argv);
        else if (id == 'h')
            request->wants_help = true;
        else if (id == OPT_JSON)
            request->is_json = true;
        else
            status = set_timeout(request, optarg);
    }
    if (status != CMD_FINE || request->wants_help)
        return status;
    return read_arguments(request, argc - optind, argv + optind);
}

/* ---- a command ---- */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_NS}, NULL);
}

/* Does the process catch the signal?  Else it might end of it. */
static bool is_caught(pid_t pid, uint32_t number)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "SigCgt: %llx", &caught) == 1)
            break;
    fclose(file);
    return (caught >> (number - 1) & 1) != 0;
}

/* So that it looks at once, where it has said which signal does that. */
static void wake(const struct request *request, uint32_t number)
{
    const uint32_t known[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGPROF};
    const union sigval word = {.sival_int = (int)TIDE_P_CONTROL_WAKE};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (number == known[i] && is_caught(request->pid, number))
            sigqueue(request->pid, (int)number, word);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* One commander at a time; one that is gone has left its place to others. */
static bool take_turn(struct tide_p_control *control, double until_s)
{
    const uint32_t self = (uint32_t)getpid();
    for (;;) {
        uint32_t owner = 0;
        if (__atomic_compare_exchange_n(&control->owner_pid, &owner, self,
                                        false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE))
            return true;
        if (owner > INT_MAX || is_gone((pid_t)owner)) {
            __atomic_compare_exchange_n(&control->owner_pid, &owner, 0, false,
                                        __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
            continue;
        }
        if (now_s() >= until_s)
            return false;
        wait_a_little();
    }
}

static void give_turn(struct tide_p_control *control)
{
    __atomic_store_n(&control->owner_pid, 0, __ATOMIC_RELEASE);
}

static uint32_t put_command(const struct request *request,
                            struct tide_p_control *control)
{
    char argument[TIDE_P_CONTROL_TEXT] = "";
    const uint32_t number = control->request + 1;
    snprintf(argument, sizeof argument, "%s", request->argument);
    memcpy(control->argument, argument, sizeof argument);
    control->command = words[request->word].command;
    TIDE_PUBLISH(&control->request, number);
    return number;
}

enum reply {
    REPLY_CAME,
    REPLY_LATE,
    REPLY_GONE,   /* the process has ended */
    REPLY_CLOSED, /* the profile is finished */
};

static enum reply await(const struct request *request,
                        const struct tide_p_header *header,
                        const struct tide_p_control *control, uint32_t number,
                        double until_s)
{
    for (;;) {
        if (TIDE_OBSERVE(&control->answered) == number)
            return REPLY_CAME;
        if (TIDE_OBSERVE(&header->state) == TIDE_P_CLOSED)
            return REPLY_CLOSED;
        if (is_gone(request->pid))
            return REPLY_GONE;
        if (now_s() >= until_s)
            return REPLY_LATE;
        wait_a_little();
    }
}

static int put_reply(const struct request *request,
                     const struct tide_p_control *control)
{
    char answer[TIDE_P_CONTROL_TEXT], text[TIDE_R_CELL_MAX];
    memcpy(answer, control->answer, sizeof answer);
    const size_t n = strnlen(answer, sizeof answer);
    tideR_fit(answer, n, TIDE_P_CONTROL_TEXT, TIDE_R_CUT_TAIL, text);
    if (control->result == TIDE_OK) {
        puts(text);
        return CMD_FINE;
    }
    cmd_error(words[request->word].name, "%s", text);
    return CMD_FAILED;
}

static int put_no_reply(const struct request *request, enum reply reply)
{
    char what[32];
    snprintf(what, sizeof what, "%ld", (long)request->pid);
    if (reply == REPLY_GONE)
        cmd_error(what, "the process has ended");
    else if (reply == REPLY_CLOSED)
        cmd_error(what, "its profile is finished");
    else
        cmd_error(what,
                  "no answer in %g s: it allocates nothing in Lua; the "
                  "command was withdrawn",
                  request->timeout_s);
    return CMD_FAILED;
}

static int command_mapped(const struct request *request, void *page)
{
    struct tide_p_header *header = page;
    struct tide_p_control *control = tideP_control(header);
    const double until_s = now_s() + request->timeout_s;
    if (!take_turn(control, until_s)) {
        cmd_error(request->path, "somebody else commands: process %u",
                  control->owner_pid);
        return CMD_FAILED;
    }
    const uint32_t number = put_command(request, control);
    wake(request, control->signal);
    const enum reply reply = await(request, header, control, number, until_s);
    int status = CMD_FAILED;
    if (reply == REPLY_CAME) {
        status = put_reply(request, control);
    } else {
        control->command = TIDE_P_COMMAND_NONE;
        status = put_no_reply(request, reply);
    }
    give_turn(control);
    return status;
}

/* The header's page, for writing; NULL: it has said why. */
static void *map_page(const char *path)
{
    struct tide_p_header header;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        cmd_error(path, "%s", strerror(errno));
        return NULL;
    }
    void *page = NULL;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.magic, TIDE_P_MAGIC, sizeof header.magic) != 0)
        cmd_error(path, "not a tidemark profile");
    else if (header.version != TIDE_P_VERSION)
        cmd_error(path, "format version %u; this tidemark commands version %u",
                  header.version, TIDE_P_VERSION);
    else if (header.state == TIDE_P_CLOSED)
        cmd_error(path, "the profile is finished");
    else if ((page = mmap(NULL, TIDE_P_HEADER_BYTES, PROT_READ | PROT_WRITE,
                          MAP_SHARED, fd, 0)) == MAP_FAILED)
        cmd_error(path, "%s", strerror(errno));
    close(fd);
    return page == MAP_FAILED ? NULL : page;
}

static int command(const struct request *request)
{
    void *page = map_page(request->path);
    if (page == NULL)
        return CMD_UNREADABLE;
    const int status = command_mapped(request, page);
    munmap(page, TIDE_P_HEADER_BYTES);
    return status;
}

/* ---- stats ---- */

struct stats {
    bool is_recording;
    double seconds;
    uint64_t n_states;
    uint64_t alloc_bytes, alloc_blocks;
    uint64_t freed_bytes, freed_blocks;
    uint64_t live_bytes, live_blocks;
    uint64_t peak_bytes;
    uint64_t before_bytes;
    uint64_t cycles;
    uint64_t failed_blocks;
    uint64_t marks;
};

static void add_heap(struct stats *s, const struct tide_p_view *view)
{
    const struct tide_p_heap *head = view->head;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *c = &view->cells[i];
        s->alloc_bytes += c->alloc_bytes;
        s->alloc_blocks += c->alloc_blocks;
        s->freed_bytes += c->freed_bytes;
        s->freed_blocks += c->freed_blocks;
        s->live_bytes += tideP_cell_live_bytes(c);
        s->live_blocks += tideP_cell_live_blocks(c);
        s->peak_bytes += tideP_cell_peak_bytes(head, c);
    }
    s->n_states += head->n_states;
    s->before_bytes += head->before_bytes - head->before_freed_bytes;
    s->cycles += head->gc_cycle;
    s->failed_blocks += head->failed_blocks;
    if (view->n_marks > s->marks)
        s->marks = view->n_marks;
}

/* Whether it records is in the block, which the reader does not load. */
static bool is_recording(const char *path)
{
    struct tide_p_control control;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool is_read =
        pread(fd, &control, sizeof control, TIDE_P_CONTROL_OFFSET) ==
        (ssize_t)sizeof control;
    close(fd);
    return is_read && control.is_off == 0;
}

static double seconds_so_far(const struct tide_p_header *header)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    const uint64_t end =
        header->state == TIDE_P_RUNNING ? now : header->end_mono_ns;
    return end > header->start_mono_ns
               ? (double)(end - header->start_mono_ns) / 1e9
               : 0;
}

static int put_stats_json(const struct request *request, const struct stats *s)
{
    struct tide_r_sink sink = tideR_sink(stdout);
    struct tide_r_json json = tideR_json_on(&sink);
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"states", s->n_states},
        {"alloc_bytes", s->alloc_bytes},
        {"alloc_blocks", s->alloc_blocks},
        {"freed_bytes", s->freed_bytes},
        {"freed_blocks", s->freed_blocks},
        {"live_bytes", s->live_bytes},
        {"live_blocks", s->live_blocks},
        {"peak_bytes", s->peak_bytes},
        {"before_attach_bytes", s->before_bytes},
        {"cycles", s->cycles},
        {"failed_blocks", s->failed_blocks},
        {"marks", s->marks},
    };
    tideR_json_open(&json, NULL, '{');
    tideR_json_int(&json, "pid", request->pid);
    tideR_json_str(&json, "profile", request->path);
    tideR_json_bool(&json, "recording", s->is_recording);
    tideR_json_real(&json, "seconds", s->seconds);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tideR_json_int(&json, numbers[i].key, (int64_t)numbers[i].value);
    tideR_json_close(&json, '}');
    tideR_puts(&sink, "\n");
    return cmd_rendered(tideR_sink_finish(&sink));
}

static int put_stats_text(const struct request *request, const struct stats *s)
{
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX];
    printf("%s; %s, pid %ld, %" PRIu64 " %s\n",
           s->is_recording ? "recording" : "not recording",
           tideR_duration_text((uint64_t)(s->seconds * 1e9), a),
           (long)request->pid, s->n_states,
           s->n_states == 1 ? "state" : "states");
    printf("allocated  %10s in %s blocks\n",
           tideR_bytes_text((int64_t)s->alloc_bytes, a),
           tideR_count_text((int64_t)s->alloc_blocks, b));
    printf("freed      %10s in %s\n",
           tideR_bytes_text((int64_t)s->freed_bytes, a),
           tideR_count_text((int64_t)s->freed_blocks, b));
    printf("live       %10s in %s\n",
           tideR_bytes_text((int64_t)s->live_bytes, a),
           tideR_count_text((int64_t)s->live_blocks, b));
    if (s->before_bytes > 0)
        printf("           %10s from before the attach\n",
               tideR_bytes_text((int64_t)s->before_bytes, a));
    printf("peak       %10s\n", tideR_bytes_text((int64_t)s->peak_bytes, a));
    printf("collector  %10s cycles\n", tideR_count_text((int64_t)s->cycles, a));
    if (s->failed_blocks > 0)
        printf("failed     %10s allocations\n",
               tideR_count_text((int64_t)s->failed_blocks, a));
    if (s->marks > 0)
        printf("marks      %10s\n", tideR_count_text((int64_t)s->marks, a));
    return CMD_FINE;
}

static int show_stats(const struct request *request)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    struct stats stats = {.is_recording = is_recording(request->path)};
    if (tideP_reader_open(request->path, &profile, &problem) != TIDE_OK) {
        cmd_error(request->path, "%s", problem.text);
        return CMD_UNREADABLE;
    }
    stats.seconds = seconds_so_far(tideP_reader_header(profile));
    for (uint32_t i = 0; i < tideP_reader_n_heaps(profile); i++)
        add_heap(&stats, tideP_reader_heap(profile, i));
    tideP_reader_close(profile);
    return request->is_json ? put_stats_json(request, &stats)
                            : put_stats_text(request, &stats);
}

int cmd_ctl(int argc, char **argv)
{
    struct request request = {.timeout_s = TIMEOUT_SECONDS};
    const int status = read_options(&request, argc, argv);
    if (status != CMD_FINE)
        return status;
    if (request.wants_help) {
        fputs(usage, stdout);
        return CMD_FINE;
    }
    const enum find_result found =
        find_profile(request.pid, request.path, sizeof request.path);
    if (found != FIND_FOUND) {
        char what[32];
        snprintf(what, sizeof what, "%ld", (long)request.pid);
        cmd_error(what, "%s", find_result_text(found));
        return CMD_UNREADABLE;
    }
    return words[request.word].command == TIDE_P_COMMAND_NONE
               ? show_stats(&request)
               : command(&request);
}
