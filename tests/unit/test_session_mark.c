/*
** test_session_mark.c: marks of a session, in states of real Lua: what the
** reader finds at each is what the counters were then.
*/
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "../../include/tidemark.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"

#define TABLE_BYTES 56u

static struct tide_session *session;
static struct tide_heap *heap;
static lua_State *L;
static const char *path;

static void open_host(const char *more)
{
    char options[512];
    path = scratch_path("mark.tide");
    snprintf(options, sizeof options, "out=%s%s", path, more);
    CHECK_EQ(tide_session_open(options, NULL, NULL, &session), TIDE_OK);
    L = tide_newstate(session, &heap);
    CHECK(L != NULL);
    luaL_openlibs(L);
}

static void close_host(void)
{
    lua_close(L);
    tide_heap_close(heap);
    tide_session_close(session);
}

static struct tide_profile *at(const char *label_or_null)
{
    struct tide_profile *profile;
    struct tide_p_problem problem = {.err = TIDE_OK};
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    if (label_or_null == NULL)
        return profile;
    if (tideP_reader_to_mark(profile, label_or_null, &problem) == TIDE_OK)
        return profile;
    tideP_reader_close(profile);
    return NULL;
}

static void run(const char *text)
{
    if (luaL_dostring(L, text) != LUA_OK)
        tap_fail(__FILE__, __LINE__, "%s", lua_tostring(L, -1));
}

/* Bytes of tables of a line: made, and held. */
static uint64_t tables_on(const struct tide_profile *profile, uint32_t line,
                          bool is_live)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint64_t sum = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *c = &view->cells[i];
        if (c->kind == TIDE_KIND_TABLE && view->nodes[c->node].line == line)
            sum += is_live ? tideP_cell_live_bytes(c) : c->alloc_bytes;
    }
    return sum;
}

TEST(session_mark_shows_what_lines_had_done)
{
    open_host("");
    run("function work(n) for i = 1, n do\n"
        "kept[#kept + 1] = {}\n"
        "local lost = {}\n"
        "end end kept = {}");
    run("work(100)");
    CHECK_EQ(tide_session_mark(session, "a"), TIDE_OK);
    run("work(300) collectgarbage()");
    CHECK_EQ(tide_session_mark(session, "b"), TIDE_OK);
    run("kept = nil collectgarbage()");
    close_host();
    struct tide_profile *a = at("a"), *b = at("b"), *end = at(NULL);
    CHECK(a != NULL && b != NULL);
    CHECK_EQ(tables_on(a, 2, false), 100 * TABLE_BYTES);
    CHECK_EQ(tables_on(a, 2, true), 100 * TABLE_BYTES);
    CHECK_EQ(tables_on(b, 2, false), 400 * TABLE_BYTES);
    CHECK_EQ(tables_on(b, 2, true), 400 * TABLE_BYTES);
    CHECK_EQ(tables_on(b, 3, false), 400 * TABLE_BYTES);
    CHECK_EQ(tables_on(b, 3, true), 0);
    CHECK_EQ(tables_on(end, 2, true), 0);
    CHECK_EQ(tideP_reader_heap(end, 0)->n_marks, 2);
    tideP_reader_close(a);
    tideP_reader_close(b);
    tideP_reader_close(end);
}

/* The sums of all cells at a mark are what the heap said then. */
static void check_sums(const struct tide_profile *profile,
                       const struct tide_totals *want)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    struct tide_totals sum = {0};
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *c = &view->cells[i];
        sum.alloc_bytes += c->alloc_bytes;
        sum.alloc_blocks += c->alloc_blocks;
        sum.freed_bytes += c->freed_bytes;
        sum.freed_blocks += c->freed_blocks;
        sum.live_bytes += tideP_cell_live_bytes(c);
        sum.live_blocks += tideP_cell_live_blocks(c);
        sum.peak_bytes += tideP_cell_peak_bytes(view->head, c);
    }
    CHECK_EQ(sum.alloc_bytes, want->alloc_bytes);
    CHECK_EQ(sum.alloc_blocks, want->alloc_blocks);
    CHECK_EQ(sum.freed_bytes, want->freed_bytes);
    CHECK_EQ(sum.freed_blocks, want->freed_blocks);
    CHECK_EQ(sum.live_bytes, want->live_bytes);
    CHECK_EQ(sum.live_blocks, want->live_blocks);
    CHECK_EQ(sum.peak_bytes, want->peak_bytes);
    CHECK_EQ(view->head->peak_bytes, want->peak_bytes);
    CHECK_EQ(view->head->gc_cycle, want->gc_cycles);
}

/*
** More marks than keep their snapshots, each after other lines have worked, the
** heap going up and down; memory runs out in the midst of it.
*/
TEST(session_mark_every_one_that_is_kept_is_exact)
{
    enum {
        N = 150,
        FAILS_AT = 40
    };
    static struct tide_totals want[N];
    char label[32];
    open_host("");
    run("slots = {} function work(i)\n"
        "  local f = load(('local t = {} for i = 1, %d do t[i] = {i} end '\n"
        "    .. 'return t'):format(i * 7 % 90 + 1), '=chunk' .. i % 13)\n"
        "  slots[i % 9] = i % 17 ~= 0 and f() or nil\n"
        "  if i % 5 == 0 then collectgarbage() end\n"
        "end");
    for (int i = 0; i < N; i++) {
        lua_getglobal(L, "work");
        lua_pushinteger(L, i);
        CHECK_EQ(lua_pcall(L, 1, 0, 0), LUA_OK);
        if (i == FAILS_AT) {
            tide_heap_limit(heap, 1);
            CHECK(luaL_dostring(L, "return {}") != LUA_OK);
            lua_pop(L, 1);
            tide_heap_limit(heap, 0);
        }
        snprintf(label, sizeof label, "%d", i);
        tide_heap_totals(heap, &want[i]);
        CHECK_EQ(tide_session_mark(session, label), TIDE_OK);
    }
    close_host();
    for (int i = 0; i < N; i++) {
        snprintf(label, sizeof label, "%d", i);
        struct tide_profile *profile = at(label);
        /* the failure's counts, one of 64, and stays */
        CHECK_EQ(profile != NULL, i >= N - 63);
        if (profile != NULL)
            check_sums(profile, &want[i]);
        tideP_reader_close(profile);
    }
    struct tide_profile *end = at(NULL);
    const struct tide_p_view *view = tideP_reader_heap(end, 0);
    CHECK_EQ(view->n_marks, N + 1);
    CHECK(view->failed == &view->marks[FAILS_AT]);
    CHECK(view->held != NULL);
    tideP_reader_close(end);
    struct tide_profile *failed = at("out of memory");
    CHECK(failed != NULL);
    tideP_reader_close(failed);
}

TEST(session_mark_is_of_all_states)
{
    struct tide_heap *second;
    open_host("");
    run("kept = {} for i = 1, 50 do\nkept[i] = {}\nend");
    CHECK_EQ(tide_session_mark(session, "one"), TIDE_OK);
    lua_State *M = tide_newstate(session, &second);
    CHECK(luaL_dostring(M, "t = {} for i = 1, 20 do\nt[i] = {}\nend") ==
          LUA_OK);
    CHECK_EQ(tide_session_mark(session, "two"), TIDE_OK);
    CHECK(luaL_dostring(M, "for i = 1, 20 do\nt[i] = {}\nend") == LUA_OK);
    lua_close(M);
    tide_heap_close(second);
    CHECK_EQ(tide_session_mark(session, "three"), TIDE_OK);
    close_host();
    struct tide_profile *p = at("one");
    CHECK_EQ(tables_on(p, 2, true), 50 * TABLE_BYTES);
    const struct tide_p_view *view = tideP_reader_heap(p, 1);
    for (uint32_t i = 1; i < view->n_cells; i++)
        CHECK_EQ(view->cells[i].alloc_bytes, 0); /* it was not there */
    CHECK_EQ(view->head->n_states, 0);
    tideP_reader_close(p);
    const uint64_t want[2] = {20, 40};
    const char *const labels[2] = {"two", "three"};
    for (int k = 0; k < 2; k++) {
        uint64_t sum = 0;
        p = at(labels[k]);
        view = tideP_reader_heap(p, 1);
        for (uint32_t i = 1; i < view->n_cells; i++)
            if (view->cells[i].kind == TIDE_KIND_TABLE &&
                view->nodes[view->cells[i].node].line == 2)
                sum += view->cells[i].alloc_bytes;
        CHECK_EQ(sum, want[k] * TABLE_BYTES);
        tideP_reader_close(p);
    }
}

TEST(session_mark_is_gone_after_a_reset)
{
    open_host("");
    CHECK_EQ(tide_session_mark(session, "early"), TIDE_OK);
    CHECK_EQ(tide_session_reset(session), TIDE_OK);
    run("kept = {} for i = 1, 30 do\nkept[i] = {}\nend");
    CHECK_EQ(tide_session_mark(session, "late"), TIDE_OK);
    run("for i = 31, 50 do\nkept[i] = {}\nend");
    close_host();
    CHECK(at("early") == NULL);
    struct tide_profile *p = at("late");
    CHECK(p != NULL);
    CHECK_EQ(tables_on(p, 2, false), 30 * TABLE_BYTES);
    CHECK_EQ(tideP_reader_heap(p, 0)->n_marks, 1);
    tideP_reader_close(p);
}

TEST(session_mark_wants_a_name)
{
    open_host("");
    CHECK_EQ(tide_session_mark(session, ""), TIDE_ERR_ARG);
    char name[6000];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK_EQ(tide_session_mark(session, name), TIDE_OK);
    close_host();
    struct tide_profile *p = at(NULL);
    const struct tide_p_view *view = tideP_reader_heap(p, 0);
    size_t n;
    CHECK_EQ(view->n_marks, 1);
    tideP_view_string(view, view->marks[0].label, &n);
    CHECK_EQ(n, TIDE_P_STRING_MAX);
    tideP_reader_close(p);
}

TEST(session_mark_is_in_copies)
{
    open_host("");
    run("kept = {} for i = 1, 50 do\nkept[i] = {}\nend");
    CHECK_EQ(tide_session_mark(session, "half"), TIDE_OK);
    run("for i = 1, 50 do\nkept[i] = {}\nend");
    const char *copy = scratch_path("copy.tide");
    CHECK_EQ(tide_session_save(session, copy), TIDE_OK);
    close_host();
    path = copy;
    struct tide_profile *p = at("half");
    CHECK(p != NULL);
    CHECK_EQ(tables_on(p, 2, false), 50 * TABLE_BYTES);
    tideP_reader_close(p);
}

TEST(session_mark_of_a_child_is_the_child_s)
{
    char options[512], child_path[512];
    snprintf(options, sizeof options, "out=%s/%%p.tide", scratch_dir());
    CHECK_EQ(tide_session_open(options, NULL, NULL, &session), TIDE_OK);
    L = tide_newstate(session, &heap);
    luaL_openlibs(L);
    run("kept = {} for i = 1, 50 do\nkept[i] = {}\nend");
    CHECK_EQ(tide_session_mark(session, "both"), TIDE_OK);
    tide_heap_limit(heap, 300 * 1024);
    const pid_t child = fork();
    if (child == 0) {
        run("for i = 51, 80 do\nkept[i] = {}\nend");
        CHECK_EQ(tide_session_mark(session, "child"), TIDE_OK);
        CHECK(luaL_dostring(L, "for i = 1, 1e6 do kept[i] = {} end") != LUA_OK);
        close_host();
        exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    snprintf(child_path, sizeof child_path, "%s/%d.tide", scratch_dir(),
             (int)child);
    static char own_path[512];
    snprintf(own_path, sizeof own_path, "%s", tide_session_path(session));
    close_host();
    path = child_path;
    CHECK(at("both") == NULL); /* of the recording before */
    struct tide_profile *p = at("child");
    CHECK(p != NULL);
    CHECK_EQ(tables_on(p, 2, false), 30 * TABLE_BYTES);
    tideP_reader_close(p);
    p = at(NULL); /* the limit goes on, and its failure is the child's */
    CHECK_EQ(tideP_reader_heap(p, 0)->n_marks, 2);
    CHECK(tideP_reader_heap(p, 0)->failed != NULL);
    tideP_reader_close(p);
    path = own_path;
    p = at("both");
    CHECK_EQ(tables_on(p, 2, false), 50 * TABLE_BYTES);
    CHECK(tideP_reader_heap(p, 0)->failed == NULL);
    tideP_reader_close(p);
}
