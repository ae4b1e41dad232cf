/*
** test_control.c: commands through the control block, as somebody writes them
** who may write the file; and the signal.
*/
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "host.h"

#define TABLE_BYTES 56u

/* Its control block is mapped once more, as others do. */
static void open_commanded(struct host *host, const char *more)
{
    open_host(host, more);
    const int fd = open(host->path, O_RDWR);
    struct tide_p_header *header = mmap(
        NULL, TIDE_P_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && header != MAP_FAILED);
    close(fd);
    host->control = tideP_control(header);
}

static uint32_t ask(struct host *host, uint32_t command, const char *argument)
{
    struct tide_p_control *control = host->control;
    const uint32_t number = control->request + 1;
    snprintf(control->argument, sizeof control->argument, "%s", argument);
    control->command = command;
    TIDE_PUBLISH(&control->request, number);
    return number;
}

/* It is answered while the program does some work. */
static void command(struct host *host, uint32_t command, const char *argument,
                    enum tide_err want, const char *answer)
{
    const uint32_t number = ask(host, command, argument);
    run(host, "for i = 1, 20000 do local t = {i} end");
    CHECK_EQ(TIDE_OBSERVE(&host->control->answered), number);
    CHECK_EQ(host->control->result, want);
    if (answer != NULL)
        CHECK_STR(host->control->answer, answer);
}

/* Bytes of tables made by `make` on the line. */
static uint64_t tables_on(const struct tide_profile *profile, uint32_t line)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint64_t sum = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *c = &view->cells[i];
        if (c->kind == TIDE_KIND_TABLE && view->nodes[c->node].line == line)
            sum += c->alloc_bytes;
    }
    return sum;
}

TEST(control_starts_and_stops)
{
    struct host host;
    open_commanded(&host, ",start=manual");
    CHECK_EQ(host.control->is_off, 1);
    run(&host, "function make(n) for i = 1, n do\n\n\nkept[#kept + 1] = {}\n"
               "end end kept = {} make(7)");
    command(&host, TIDE_P_COMMAND_START, "", TIDE_OK, "recording");
    CHECK_EQ(host.control->is_off, 0);
    run(&host, "make(100)");
    command(&host, TIDE_P_COMMAND_STOP, "", TIDE_OK, "not recording");
    run(&host, "make(1000)");
    command(&host, TIDE_P_COMMAND_START, "", TIDE_OK, "recording");
    run(&host, "make(10000)");
    struct tide_profile *profile = close_host(&host);
    CHECK_EQ(tables_on(profile, 4), 10100 * TABLE_BYTES);
    tideP_reader_close(profile);
}

TEST(control_marks_and_counts_anew)
{
    struct host host;
    open_commanded(&host, "");
    run(&host, "function make(n) for i = 1, n do\n\n\nkept[#kept + 1] = {}\n"
               "end end kept = {} make(100)");
    command(&host, TIDE_P_COMMAND_MARK, "early", TIDE_OK, "marked");
    command(&host, TIDE_P_COMMAND_RESET, "", TIDE_OK, "counting anew");
    run(&host, "make(30)");
    command(&host, TIDE_P_COMMAND_MARK, "late", TIDE_OK, "marked");
    command(&host, TIDE_P_COMMAND_MARK, "", TIDE_ERR_ARG, "a label is needed");
    run(&host, "make(20)");
    struct tide_profile *profile = close_host(&host);
    struct tide_p_problem problem;
    CHECK_EQ(tables_on(profile, 4), 50 * TABLE_BYTES);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_marks, 1);
    CHECK_EQ(tideP_reader_to_mark(profile, "late", &problem), TIDE_OK);
    CHECK_EQ(tables_on(profile, 4), 30 * TABLE_BYTES);
    tideP_reader_close(profile);
}

TEST(control_resets_every_state_on_its_own_time)
{
    struct host host;
    struct tide_heap *second;
    open_commanded(&host, "");
    lua_State *M = tide_newstate(host.session, &second);
    luaL_openlibs(M);
    CHECK(luaL_dostring(M, "t = {} for i = 1, 20 do t[i] = {} end") == LUA_OK);
    command(&host, TIDE_P_COMMAND_RESET, "", TIDE_OK,
            "counting anew; 1 more states when they allocate");
    struct tide_totals totals;
    tide_heap_totals(second, &totals);
    CHECK(totals.alloc_bytes > 20 * TABLE_BYTES);
    CHECK(luaL_dostring(M, "for i = 1, 100 do local t = {} end") == LUA_OK);
    tide_heap_totals(second, &totals);
    CHECK(totals.alloc_bytes >= 100 * TABLE_BYTES);
    CHECK(totals.alloc_bytes < 100 * TABLE_BYTES + 8192);
    lua_close(M);
    tide_heap_close(second);
    tideP_reader_close(close_host(&host));
}

TEST(control_saves_into_the_folder_of_the_profile)
{
    static const char *const bad[] = {"",   "../x", "/tmp/x", "a/b", ".x",
                                      "..", "a\nb", ".tide",  "x/"};
    struct host host;
    char want[600], name[300];
    open_commanded(&host, "");
    run(&host, "kept = {} for i = 1, 10 do\n\n\nkept[i] = {}\nend");
    snprintf(want, sizeof want, "%s/copy.tide", scratch_dir());
    command(&host, TIDE_P_COMMAND_SAVE, "copy", TIDE_OK, want);
    command(&host, TIDE_P_COMMAND_SAVE, "copy.tide", TIDE_OK, want);
    struct tide_profile *copy;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(want, &copy, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(copy)->text, "");
    CHECK_EQ(tables_on(copy, 4), 10 * TABLE_BYTES);
    tideP_reader_close(copy);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        command(&host, TIDE_P_COMMAND_SAVE, bad[i], TIDE_ERR_ARG, NULL);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    command(&host, TIDE_P_COMMAND_SAVE, name, TIDE_ERR_ARG, NULL);
    command(&host, TIDE_P_COMMAND_SAVE, "host", TIDE_ERR_ARG,
            "that is the profile itself");
    snprintf(want, sizeof want, "%s/folder.tide", scratch_dir());
    CHECK(mkdir(want, 0700) == 0);
    command(&host, TIDE_P_COMMAND_SAVE, "folder", TIDE_ERR_IO,
            "Is a directory");
    tideP_reader_close(close_host(&host));
}

TEST(control_survives_what_anybody_writes)
{
    struct host host;
    open_commanded(&host, "");
    const uint32_t commands[] = {TIDE_P_COMMAND_COUNT_, 77, UINT32_MAX,
                                 0x80000000u};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        command(&host, commands[i], "x", TIDE_ERR_ARG, "no such command");
    /* texts without an end, in every command */
    for (uint32_t what = 0; what < TIDE_P_COMMAND_COUNT_; what++) {
        memset(host.control, 'A', sizeof *host.control);
        host.control->command = what;
        TIDE_PUBLISH(&host.control->request, 1000 + what);
        run(&host, "for i = 1, 20000 do local t = {i} end");
        CHECK_EQ(TIDE_OBSERVE(&host.control->answered), 1000 + what);
        CHECK(memchr(host.control->answer, '\0', TIDE_P_CONTROL_TEXT) != NULL);
    }
    /* bytes at random, at once with the work */
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        unsigned char *bytes = (unsigned char *)host.control;
        for (size_t i = 0; i < sizeof *host.control; i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[i] = (unsigned char)(seed >> 24);
        }
        host.control->command = seed >> 16 & 7;
        run(&host, "for i = 1, 50 do local t = {i} end");
    }
    ask(&host, TIDE_P_COMMAND_START, "");
    run(&host, "for i = 1, 20000 do local t = {i} end");
    tideP_reader_close(close_host(&host));
}

TEST(control_is_not_in_copies_nor_in_children)
{
    struct host host;
    struct tide_p_control copied;
    open_commanded(&host, ",start=manual");
    command(&host, TIDE_P_COMMAND_MARK, "x", TIDE_OK, "marked");
    const char *copy = scratch_path("copy.tide");
    CHECK_EQ(tide_session_save(host.session, copy), TIDE_OK);
    const int fd = open(copy, O_RDONLY);
    CHECK_EQ(pread(fd, &copied, sizeof copied, TIDE_P_CONTROL_OFFSET),
             (ssize_t)sizeof copied);
    close(fd);
    static const struct tide_p_control none;
    CHECK(memcmp(&copied, &none, sizeof none) == 0);
    const uint32_t number = ask(&host, TIDE_P_COMMAND_START, "");
    const pid_t child = fork();
    if (child == 0) {
        run(&host, "for i = 1, 20000 do local t = {i} end");
        _exit(host.control->answered == number);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0); /* the child has not answered for its parent */
    run(&host, "for i = 1, 20000 do local t = {i} end");
    CHECK_EQ(host.control->answered, number);
    tideP_reader_close(close_host(&host));
}

static struct host *asking;

/* Asks from inside the program, which then does nothing but allocate. */
static int ask_now(lua_State *L)
{
    lua_pushinteger(L, ask(asking, TIDE_P_COMMAND_MARK, "heard"));
    return 1;
}

static int is_answered(lua_State *L)
{
    lua_pushboolean(L, TIDE_OBSERVE(&asking->control->answered) ==
                           (uint32_t)luaL_checkinteger(L, 1));
    return 1;
}

TEST(control_is_heard_where_the_collector_is_stopped)
{
    struct host host;
    open_commanded(&host, "");
    asking = &host;
    lua_register(host.L, "ask_now", ask_now);
    lua_register(host.L, "is_answered", is_answered);
    run(&host, "collectgarbage('stop')\n"
               "local keep = table.move({}, 1, 200000, 1)\n"
               "for i = 1, 100000 do keep[i] = {i} end\n"
               "local number = ask_now()\n"
               "for i = 100001, 120000 do keep[i] = {i} end\n"
               "assert(is_answered(number))");
    struct tide_profile *profile = close_host(&host);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_marks, 1);
    tideP_reader_close(profile);
}

/* ---- the signal ---- */

TEST(control_a_signal_switches_at_the_next_allocation)
{
    struct host host;
    open_commanded(&host, ",start=manual,signal=USR1");
    run(&host, "function make(n) for i = 1, n do\n\n\nkept[#kept + 1] = {}\n"
               "end end kept = {} make(5)");
    CHECK_EQ(host.control->signal, SIGUSR1);
    raise(SIGUSR1);
    run(&host, "make(1) make(100)");
    CHECK_EQ(host.control->is_off, 0);
    raise(SIGUSR1);
    run(&host, "make(1000)");
    CHECK_EQ(host.control->is_off, 1);
    raise(SIGUSR1);
    raise(SIGUSR1); /* there and back */
    run(&host, "make(1000)");
    CHECK_EQ(host.control->is_off, 1);
    struct tide_profile *profile = close_host(&host);
    const uint64_t bytes = tables_on(profile, 4);
    CHECK(bytes >= 100 * TABLE_BYTES && bytes <= 102 * TABLE_BYTES);
    tideP_reader_close(profile);
}

TEST(control_a_signal_does_what_was_asked_for)
{
    struct host host;
    char want[600];
    open_commanded(&host, ",signal=USR2,on_signal=save");
    for (int i = 1; i <= 2; i++) {
        snprintf(want, sizeof want, "%s/host.save%d.tide", scratch_dir(), i);
        CHECK(access(want, F_OK) != 0);
        raise(SIGUSR2);
        run(&host, "local t = {}");
        CHECK(access(want, F_OK) == 0);
    }
    tideP_reader_close(close_host(&host));
    signal(SIGHUP, SIG_DFL); /* nohup has it ignored */
    open_commanded(&host, ",signal=HUP,on_signal=mark");
    raise(SIGHUP);
    run(&host, "local t = {}");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_marks, 1);
    CHECK_STR(tideP_view_string(view, view->marks[0].label, NULL), "signal");
    tideP_reader_close(profile);
}

static volatile sig_atomic_t n_host;

static void host_handler(int number)
{
    (void)number;
    n_host++;
}

TEST(control_a_handler_of_the_host_stays)
{
    struct host host;
    struct sigaction now;
    signal(SIGUSR1, host_handler);
    open_commanded(&host, ",signal=USR1"); /* says so */
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
    CHECK(now.sa_handler == host_handler);
    CHECK_EQ(host.control->signal, 0);
    raise(SIGUSR1);
    run(&host, "local t = {}");
    CHECK_EQ(n_host, 1);
    CHECK_EQ(host.control->is_off, 0);
    tideP_reader_close(close_host(&host));
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
    CHECK(now.sa_handler == host_handler);
}

TEST(control_a_handler_that_the_host_sets_later_is_its_own)
{
    struct host host;
    struct sigaction now;
    open_commanded(&host, ",signal=USR1");
    signal(SIGUSR1, host_handler);
    raise(SIGUSR1);
    run(&host, "local t = {}");
    CHECK_EQ(n_host, 1);
    CHECK_EQ(host.control->is_off, 0);
    tideP_reader_close(close_host(&host));
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
    CHECK(now.sa_handler == host_handler);
}

TEST(control_a_signal_wakes_for_a_command)
{
    struct host host;
    const union sigval word = {.sival_int = (int)TIDE_P_CONTROL_WAKE};
    open_commanded(&host, ",signal=USR1");
    const uint32_t number = ask(&host, TIDE_P_COMMAND_MARK, "now");
    sigqueue(getpid(), SIGUSR1, word);
    run(&host, "local t = {}");
    CHECK_EQ(host.control->answered, number);
    CHECK_EQ(host.control->is_off, 0); /* nothing but that */
    tideP_reader_close(close_host(&host));
}
