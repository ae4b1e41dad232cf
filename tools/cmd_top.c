/*
** cmd_top.c: `tidemark top`: a live table of a profile, in the terminal.
**
** The profile is read twice a second, or less often where that would take more
** than a tenth of the time; nothing is done in the profiled process.  The file
** is opened once, and read by its descriptor from then on: it may be renamed
** meanwhile, as at the end of `tidemark run`.
*/
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd.h"
#include "find_profile.h"
#include "top.h"

#define NAME "top"

static const char usage[] =
    "usage: tidemark top [OPTION...] PID|FILE\n"
    "\n"
    "Shows what a process allocates while it runs: a table that is made anew\n"
    "twice a second. It only reads the profile, also one of a finished run.\n"
    "A process without one is waited for.\n"
    "\n"
    "  --by WHAT       line, function, group or target\n"
    "  --filter WORDS  rows that have all the words in their name, group or\n"
    "                  source, whatever the case\n"
    "  -h, --help      this text\n"
    "\n"
    "The key ? lists the keys, q quits. What rows are, the view and the order\n"
    "are kept from run to run.\n";

static const struct option long_options[] = {
    {"by", required_argument, NULL, 'b'},
    {"filter", required_argument, NULL, 'f'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static volatile sig_atomic_t g_is_told_to_quit;

static void tell_to_quit(int signal_number)
{
    (void)signal_number;
    g_is_told_to_quit = 1;
}

double top_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- rows --------------------------------------------------------------- */

/* The chosen row is where its key is now; else it stays at its place. */
static void find_chosen(struct top *top)
{
    for (uint32_t i = 0; top->chosen_key != 0 && i < top->rows.n; i++)
        if (top->rows.rows[i].key == top->chosen_key &&
            (top->rows.rows[i].n_rows > 0) == top->is_section) {
            top->chosen = i;
            return;
        }
    if (top->chosen_key == 0)
        top->chosen = 0;
    if (top->chosen >= top->rows.n)
        top->chosen = top->rows.n > 0 ? top->rows.n - 1 : 0;
}

void top_refresh(struct top *top)
{
    struct tide_r_live_rows rows;
    if (top->model == NULL)
        return;
    top->query.sort = top->sorts[top->query.metric];
    top->query.is_reversed = top->is_reversed[top->query.metric];
    top->query.folded = top->folded;
    top->query.n_folded = top->n_folded;
    if (tideR_live_rows(top->model, &top->query, &top->rates, &rows) !=
        TIDE_OK) {
        tideR_live_close(&rows);
        return;
    }
    tideR_live_close(&top->rows);
    top->rows = rows;
    find_chosen(top);
}

/* ---- reading ------------------------------------------------------------ */

static void count_gc(struct top *top)
{
    const struct tide_r_gc *gc = &top->model->gc;
    const struct tide_gc_counters counters = {
        .heap_kb = gc->heap_kb,
        .peak_heap_kb = gc->peak_kb,
        .alloc_kb = (double)top->model->totals.alloc_bytes / 1024,
        .cycles = gc->cycles,
        .last_reclaim_kb = gc->last_kb,
        .reclaimed_kb = gc->reclaimed_kb,
    };
    if (!top->has_gc) {
        tideC_gcrate_start(&top->gc, 0, top->read_s, gc->heap_kb);
        tideC_gcrate_join(&top->gc, &counters);
    } else {
        tideC_gcrate_count(&top->gc, top->read_s, &counters);
    }
    top->has_gc = true;
}

static enum top_life life_of(const struct top *top,
                             const struct tide_p_header *header)
{
    /* a process may know itself by another number than we do */
    const pid_t pid = top->pid != 0 ? top->pid : (pid_t)header->pid;
    if (header->state == TIDE_P_CLOSED)
        return TOP_FINISHED;
    if ((header->flags & TIDE_P_FLAG_SAVED) != 0)
        return TOP_SAVED;
    return find_is_mapped(pid, top->fd) ? TOP_RUNS : TOP_ENDED;
}

static void take_model(struct top *top, struct tide_model *model, double at_s)
{
    tideR_model_close(top->model);
    top->model = model;
    top->read_s = at_s;
    top->trouble[0] = '\0';
    if (top->life == TOP_RUNS) {
        tideR_rates_note(&top->rates, model, at_s);
        count_gc(top);
    } else {
        top->rates.run_s = model->seconds;
    }
    top_refresh(top);
    if (top->page == TOP_DETAILS)
        top_page_make(top);
}

/* Whether the recording is off now; a profile of old says nothing. */
static bool is_off_now(int fd)
{
    uint32_t is_off = 0;
    const off_t at =
        TIDE_P_CONTROL_OFFSET + offsetof(struct tide_p_control, is_off);
    return pread(fd, &is_off, sizeof is_off, at) == (ssize_t)sizeof is_off &&
           is_off != 0;
}

/* Whether the process lives is asked before: what it does last is read. */
static void read_profile(struct top *top)
{
    const double start_s = top_now();
    struct tide_model *model;
    struct tide_p_problem problem = {.err = TIDE_OK};
    struct tide_p_header header;
    const bool has_header =
        pread(top->fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    const enum top_life life = has_header ? life_of(top, &header) : TOP_ENDED;
    if (tideR_model_open(top->path, &model, &problem) == TIDE_OK) {
        top->life = life;
        top->is_off = is_off_now(top->fd);
        take_model(top, model, start_s);
    } else {
        snprintf(top->trouble, sizeof top->trouble, "%s", problem.text);
    }
    const double took_s = top_now() - start_s;
    const double period_s =
        took_s * TOP_LOAD > TOP_PERIOD_S ? took_s * TOP_LOAD : TOP_PERIOD_S;
    top->next_s = start_s + period_s;
}

static bool take_file(struct top *top, const char *path)
{
    top->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    snprintf(top->path, sizeof top->path, "/proc/self/fd/%d", top->fd);
    return top->fd >= 0;
}

/* Looks for the profile of the process. */
static void look_for_profile(struct top *top)
{
    char path[4096];
    const enum find_result result = find_profile(top->pid, path, sizeof path);
    top->next_s = top_now() + TOP_PERIOD_S;
    if (result == FIND_FOUND && take_file(top, path)) {
        read_profile(top);
        return;
    }
    if (result == FIND_NO_PROCESS)
        snprintf(top->trouble, sizeof top->trouble,
                 "the process has ended without a profile");
    else
        snprintf(top->trouble, sizeof top->trouble,
                 "waiting for a profile of process %ld: %s", (long)top->pid,
                 find_result_text(result));
}

static void read_when_due(struct top *top)
{
    if (top_now() < top->next_s)
        return;
    if (top->fd < 0) {
        look_for_profile(top);
        return;
    }
    if (top->is_paused || top->life != TOP_RUNS) {
        top->next_s = top_now() + TOP_PERIOD_S;
        return;
    }
    read_profile(top);
}

/* ---- the command -------------------------------------------------------- */

/* Says what is wrong while there is no screen yet. */
static int open_target(struct top *top)
{
    top->pid = find_parse_pid(top->name);
    if (top->pid != 0) {
        char path[4096];
        const enum find_result result =
            find_profile(top->pid, path, sizeof path);
        if (result == FIND_NONE ||
            (result == FIND_FOUND && take_file(top, path)))
            return CMD_FINE;
        cmd_error(top->name, "%s", find_result_text(result));
        return CMD_UNREADABLE;
    }
    if (take_file(top, top->name))
        return CMD_FINE;
    cmd_error(top->name, "%s", strerror(errno));
    return CMD_UNREADABLE;
}

/* The first reading of a file must do. */
static int read_first(struct top *top)
{
    if (top->fd < 0) {
        look_for_profile(top);
        return CMD_FINE;
    }
    read_profile(top);
    if (top->model != NULL)
        return CMD_FINE;
    cmd_error(top->name, "%s", top->trouble);
    return CMD_UNREADABLE;
}

static void watch(struct top *top)
{
    const struct sigaction quit = {.sa_handler = tell_to_quit};
    sigaction(SIGINT, &quit, NULL);
    sigaction(SIGTERM, &quit, NULL);
    while (!top->wants_quit && !g_is_told_to_quit) {
        int key;
        bool is_character;
        read_when_due(top);
        top_draw(top);
        if (top_wait_key(top->next_s, &key, &is_character))
            top_key(top, key, is_character);
    }
}

static int show(struct top *top)
{
    int status = open_target(top);
    if (status == CMD_FINE)
        status = read_first(top);
    if (status != CMD_FINE)
        return status;
    if (!top_screen_open(top))
        return CMD_WRONG_USE;
    watch(top);
    top_screen_close();
    top_keep_write(top);
    return CMD_FINE;
}

static int set_by(struct top *top, const char *text)
{
    enum tide_r_by by;
    if (tideR_by_parse(text, &by) != TIDE_OK || by == TIDE_R_BY_STACK ||
        by == TIDE_R_BY_KIND)
        return cmd_wrong_use(
            NAME, "--by takes line, function, group or target, not '%s'", text);
    top->query.by = by;
    return CMD_FINE;
}

static int set_filter(struct top *top, const char *text)
{
    if (strlen(text) >= sizeof top->query.filter)
        return cmd_wrong_use(NAME, "--filter is too long");
    snprintf(top->query.filter, sizeof top->query.filter, "%s", text);
    return CMD_FINE;
}

static int read_options(struct top *top, int argc, char **argv, bool *is_done)
{
    int id;
    int status = CMD_FINE;
    while (status == CMD_FINE &&
           (id = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
        if (id == '?' || id == ':')
            return cmd_bad_option(NAME, id, argv);
        if (id == 'h') {
            fputs(usage, stdout);
            *is_done = true;
            return CMD_FINE;
        }
        status = id == 'b' ? set_by(top, optarg) : set_filter(top, optarg);
    }
    if (status == CMD_FINE && argc - optind != 1)
        return cmd_wrong_use(NAME, "one PID or FILE is needed");
    top->name = argv[optind];
    return status;
}

int cmd_top(int argc, char **argv)
{
    struct top top = {.fd = -1};
    bool is_done = false;
    top_keep_read(&top);
    int status = read_options(&top, argc, argv, &is_done);
    if (status == CMD_FINE && !is_done)
        status = show(&top);
    if (top.fd >= 0)
        close(top.fd);
    tideR_live_close(&top.rows);
    tideR_rates_close(&top.rates);
    tideR_model_close(top.model);
    free(top.folded);
    free(top.page_text);
    return status;
}
