/*
** test_gcwatch.c: the watcher through the C interface, in a state of its own.
*/
#include <string.h>

#include "host.h"

static void collect(struct host *host)
{
    tide_gc_begin(host->session, host->L, LUA_GCCOLLECT);
    lua_gc(host->L, LUA_GCCOLLECT);
    tide_gc_end(host->session, host->L);
}

TEST(gcwatch_stats_are_the_allocator_s)
{
    struct host host;
    struct tide_gc_stats before, after;
    open_host(&host, "");
    run(&host, "collectgarbage()");
    tide_gc_stats(host.heap, &before);
    run(&host, "for i = 1, 20000 do local t = {i} end");
    collect(&host);
    tide_gc_stats(host.heap, &after);
    const double kb =
        lua_gc(host.L, LUA_GCCOUNT) + lua_gc(host.L, LUA_GCCOUNTB) / 1024.0;
    CHECK(after.HeapKb == kb);
    CHECK(after.PeakHeapKb >= after.HeapKb);
    CHECK(after.Cycles > before.Cycles);
    CHECK(after.ReclaimedKb - before.ReclaimedKb > 20000 * 72 / 1024.0 * 0.9);
    CHECK(after.AvgReclaimKb > 0);
    CHECK(after.AllocKbPerSec == 0); /* the first second is not over */
    tideP_reader_close(close_host(&host));
}

TEST(gcwatch_collections_back_to_back_are_all_seen)
{
    struct host host;
    open_host(&host, "");
    struct tide_gc_stats before, after;
    collect(&host);
    tide_gc_stats(host.heap, &before);
    for (int i = 0; i < 7; i++)
        collect(&host);
    tide_gc_stats(host.heap, &after);
    CHECK_EQ(after.Cycles - before.Cycles, 7);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    unsigned n = 0;
    for (uint32_t i = 0; i < view->n_cycles; i++) {
        const struct tide_p_cycle *c = &view->cycles[i];
        if (c->cause != TIDE_P_CAUSE_EXPLICIT)
            continue;
        n++;
        CHECK_EQ(c->mode, TIDE_P_MODE_FULL);
        CHECK(c->collect_ns > 0);
        CHECK(c->start_mono_ns <= c->atomic_mono_ns);
        CHECK(c->end_mono_ns >= c->atomic_mono_ns);
    }
    CHECK_EQ(n, 8);
    CHECK_EQ(view->head->n_timed, 8);
    tideP_reader_close(profile);
}

TEST(gcwatch_calls_in_finalizers_belong_to_the_outer_one)
{
    struct host host;
    open_host(&host, "");
    tide_gc_begin(host.session, host.L, LUA_GCCOLLECT);
    tide_gc_begin(host.session, host.L, LUA_GCSTEP);
    tide_gc_end(host.session, host.L);
    lua_gc(host.L, LUA_GCCOLLECT);
    tide_gc_end(host.session, host.L);
    tide_gc_end(host.session, host.L); /* one too many changes nothing */
    struct tide_profile *profile = close_host(&host);
    CHECK_EQ(tideP_reader_heap(profile, 0)->head->n_timed, 1);
    tideP_reader_close(profile);
}

TEST(gcwatch_stops_and_modes_are_noted)
{
    struct host host;
    open_host(&host, "");
    run(&host, "collectgarbage('stop') local t = {}"
               "collectgarbage('restart') t = {}"
               "collectgarbage('generational') t = {}"
               "collectgarbage('incremental') t = {}");
    static const uint8_t wanted[] = {TIDE_P_EVENT_STOP, TIDE_P_EVENT_RESTART,
                                     TIDE_P_EVENT_MODE, TIDE_P_EVENT_MODE};
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_events, 4);
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(view->events[i].what, wanted[i]);
    CHECK_EQ(view->events[2].is, 1);
    CHECK_EQ(view->events[3].is, 0);
    tideP_reader_close(profile);
}

/* Whether an event says that. */
static bool has_change(const struct tide_p_view *view, unsigned what,
                       unsigned was, unsigned is)
{
    for (uint32_t i = 0; i < view->n_events; i++)
        if (view->events[i].what == what && view->events[i].was == was &&
            view->events[i].is == is)
            return true;
    return false;
}

static void set_parameter(struct host *host, int what, int percent)
{
    tide_gc_begin(host->session, host->L, what);
    lua_gc(host->L, what, percent);
    tide_gc_end(host->session, host->L);
}

TEST(gcwatch_parameters_that_were_zero_change_as_others)
{
    struct host host;
    open_host(&host, "");
    set_parameter(&host, LUA_GCSETPAUSE, 0);
    set_parameter(&host, LUA_GCSETPAUSE, 300);
    set_parameter(&host, LUA_GCSETSTEPMUL, 0);
    set_parameter(&host, LUA_GCSETSTEPMUL, 400);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_events, 4);
    CHECK(has_change(view, TIDE_P_EVENT_PAUSE, 200, 0));
    CHECK(has_change(view, TIDE_P_EVENT_PAUSE, 0, 300));
    CHECK(has_change(view, TIDE_P_EVENT_STEP, 100, 0));
    CHECK(has_change(view, TIDE_P_EVENT_STEP, 0, 400));
    tideP_reader_close(profile);
}

TEST(gcwatch_a_step_is_no_restart)
{
    struct host host;
    open_host(&host, "");
    run(&host, "collectgarbage('stop')"
               "for i = 1, 50 do local t = {{}, {}} collectgarbage('step') end "
               "collectgarbage('restart') local t = {}");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_events, 2);
    tideP_reader_close(profile);
}

TEST(gcwatch_survivors_are_what_lives)
{
    struct host host;
    open_host(&host, "");
    run(&host, "keep = {} for r = 1, 60 do keep[r] = string.rep('k', 1000 + r)"
               " for i = 1, 100 do local t = {i} end collectgarbage() end");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const uint32_t n = view->n_columns;
    CHECK(n >= TIDE_P_FLOORS / 2 && n <= TIDE_P_FLOORS);
    for (uint32_t k = 0; k + 1 < n; k++) {
        CHECK(view->head->column_cycle[k] < view->head->column_cycle[k + 1]);
        CHECK(view->head->column_bytes[k] < view->head->column_bytes[k + 1]);
    }
    for (uint32_t k = 0; k < n; k++) {
        uint64_t units = 0;
        for (uint32_t i = 1; i < view->n_floors; i++)
            units += view->floors[i].at[k];
        CHECK(units * TIDE_P_FLOOR_UNIT >= view->head->column_bytes[k]);
        CHECK(units * TIDE_P_FLOOR_UNIT <
              view->head->column_bytes[k] +
                  (uint64_t)view->n_floors * TIDE_P_FLOOR_UNIT);
    }
    tideP_reader_close(profile);
}

TEST(gcwatch_a_reset_begins_anew)
{
    struct host host;
    open_host(&host, "");
    run(&host, "for i = 1, 30 do collectgarbage() local t = {} end");
    CHECK_EQ(tide_session_reset(host.session), TIDE_OK);
    run(&host, "for i = 1, 3 do collectgarbage() local t = {} end");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(view->n_cycles >= 3 && view->n_cycles <= 5);
    CHECK(view->n_columns <= 4);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        bytes += view->cells[i].alloc_bytes;
    for (uint32_t i = 0; i < view->n_columns; i++)
        CHECK(view->head->column_alloc[i] <= bytes);
    for (uint32_t i = 0; i < view->n_moments; i++)
        CHECK(view->moments[i].alloc_bytes <= bytes);
    tideP_reader_close(profile);
}

TEST(gcwatch_states_one_after_the_other_add_up)
{
    struct host host;
    struct tide_gc_stats before, after;
    open_host(&host, "");
    tide_gc_stats(host.heap, &before); /* opening libraries takes some */
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 4; k++)
            collect(&host);
        lua_close(host.L);
        tide_heap_close(host.heap);
        host.L = tide_newstate(host.session, &host.heap);
        CHECK(host.L != NULL);
    }
    tide_gc_stats(host.heap, &after);
    CHECK_EQ(after.Cycles - before.Cycles, 20);
    CHECK(after.ReclaimedKb < 20); /* closing a state is no collection */
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_cycles, after.Cycles);
    CHECK_EQ(view->cycles[view->n_cycles - 1].n, after.Cycles);
    tideP_reader_close(profile);
}

/* The cell of the tables that were made on a line. */
static uint32_t tables_of_line(const struct tide_p_view *view, uint32_t line)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        if (view->cells[i].kind == TIDE_KIND_TABLE &&
            view->nodes[view->cells[i].node].line == line) {
            CHECK_EQ(found, 0);
            found = i;
        }
    CHECK(found != 0);
    return found;
}

/* Line k + 3: a hundred tables that survive k collections each. */
static const char ageing[] = "collectgarbage('stop')\n"
                             "local a, b, c, d = {}, {}, {}, {}\n"
                             "for i = 1, 100 do local t = {} end\n"
                             "for i = 1, 100 do a[i] = {} end\n"
                             "for i = 1, 100 do b[i] = {} end\n"
                             "for i = 1, 100 do c[i] = {} end\n"
                             "for i = 1, 100 do d[i] = {} end\n"
                             "collectgarbage()\n"
                             "a = nil collectgarbage()\n"
                             "b = nil collectgarbage()\n"
                             "c = nil collectgarbage()\n"
                             "d = nil collectgarbage()\n"
                             "collectgarbage('restart')\n";

static void check_ages_of(const struct tide_p_view *view, unsigned survived)
{
    const uint32_t i = tables_of_line(view, survived + 3);
    const struct tide_cell *c = &view->cells[i];
    CHECK(i < view->n_lives);
    const struct tide_p_life *a = &view->lives[i];
    CHECK_EQ(c->freed_blocks, 100);
    CHECK_EQ(c->young_blocks, survived == 0 ? 100 : 0);
    CHECK_EQ(a->once_blocks, survived == 1 ? 100 : 0);
    CHECK_EQ(a->twice_blocks, survived == 2 ? 100 : 0);
    CHECK_EQ(a->older_blocks, survived >= 3 ? 100 : 0);
    CHECK_EQ(a->ageless_blocks, 0);
    CHECK_EQ(c->young_bytes, survived == 0 ? c->freed_bytes : 0);
    CHECK_EQ(a->once_bytes, survived == 1 ? c->freed_bytes : 0);
    CHECK_EQ(a->twice_bytes, survived == 2 ? c->freed_bytes : 0);
    CHECK_EQ(a->older_bytes, survived >= 3 ? c->freed_bytes : 0);
    CHECK_EQ(a->ageless_bytes, 0);
}

static void check_ages(const char *more_options)
{
    struct host host;
    open_host(&host, more_options);
    run(&host, ageing);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    for (unsigned survived = 0; survived <= 4; survived++)
        check_ages_of(view, survived);
    tideP_reader_close(profile);
}

TEST(gcwatch_ages_at_death_are_exact)
{
    check_ages("");
}

/* The same where every block is of the system's allocator: the slow path. */
TEST(gcwatch_ages_do_not_depend_on_the_path)
{
    check_ages(",backend=system");
}

TEST(gcwatch_a_reset_forgets_ages)
{
    struct host host;
    open_host(&host, "");
    run(&host, ageing);
    CHECK_EQ(tide_session_reset(host.session), TIDE_OK);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    for (uint32_t i = 1; i < view->n_lives; i++)
        CHECK_EQ(view->lives[i].once_blocks + view->lives[i].twice_blocks, 0);
    tideP_reader_close(profile);
}

/* How many records there are of each sort, while the state is in use. */
static struct tide_p_heap counts_now(const struct host *host)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(host->path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    const struct tide_p_heap head = *tideP_reader_heap(profile, 0)->head;
    tideP_reader_close(profile);
    return head;
}

static bool is_about(uint32_t n, uint32_t least)
{
    return n >= least && n < least + 100;
}

TEST(gcwatch_only_cells_that_need_them_have_more_records)
{
    struct host host;
    open_host(&host, "");
    run(&host, "collectgarbage() collectgarbage('stop')\n"
               "keep = {}\n"
               "fill = load(string.rep('keep[#keep + 1] = {}\\n', 1000))\n");
    const struct tide_p_heap empty = counts_now(&host);
    run(&host, "fill()");
    const struct tide_p_heap full = counts_now(&host);
    CHECK(is_about(full.n_cells - empty.n_cells, 1000));
    CHECK(is_about(full.n_rests - empty.n_rests, 0)); /* at the peak still */
    CHECK(is_about(full.n_lives - empty.n_lives, 0));
    run(&host, "keep = {} collectgarbage()");
    const struct tide_p_heap young = counts_now(&host);
    CHECK(is_about(young.n_rests - full.n_rests, 1000)); /* held it at it */
    CHECK(is_about(young.n_lives - full.n_lives, 0));
    CHECK(is_about(young.n_floors - empty.n_floors, 0));
    run(&host, "fill()");
    run(&host, "collectgarbage() collectgarbage()");
    const struct tide_p_heap old = counts_now(&host);
    CHECK(is_about(old.n_lives - young.n_lives, 0));
    run(&host, "keep = {} collectgarbage()");
    const struct tide_p_heap gone = counts_now(&host);
    CHECK(is_about(gone.n_lives - old.n_lives, 1000));
    CHECK(is_about(gone.n_cells - full.n_cells, 0));
    tideP_reader_close(close_host(&host));
}

/* A heap that is used again: what the first state held has no age. */
TEST(gcwatch_closed_states_have_no_ages)
{
    struct host host;
    open_host(&host, "");
    run(&host, "keep = {}\nfor i = 1, 50 do keep[i] = {} end\n"
               "collectgarbage() collectgarbage() collectgarbage()");
    lua_close(host.L);
    tide_heap_close(host.heap);
    host.L = tide_newstate(host.session, &host.heap);
    CHECK(host.L != NULL);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const uint32_t i = tables_of_line(view, 2);
    CHECK_EQ(view->cells[i].freed_blocks, 50);
    CHECK_EQ(view->lives[i].ageless_blocks, 50);
    CHECK_EQ(view->lives[i].ageless_bytes, view->cells[i].freed_bytes);
    tideP_reader_close(profile);
}

/* A hash part that is replaced by a larger one was not lost. */
TEST(gcwatch_a_table_that_grows_survives)
{
    struct host host;
    open_host(&host, "");
    run(&host, "set = {}\nfor r = 1, 12 do for i = 1, 100 do\n"
               "set[r + i / 128] = true\nend collectgarbage() end");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint32_t cell = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        if (view->cells[i].kind == TIDE_KIND_STORAGE &&
            view->nodes[view->cells[i].node].line == 3)
            cell = i;
    CHECK(cell != 0);
    const uint32_t *at = view->floors[cell].at;
    const uint32_t last = view->n_columns - 1;
    for (uint32_t k = last - 8; k < last; k++) {
        CHECK(at[k] > 0);
        CHECK(at[k] <= at[k + 1]);
    }
    /* at the end, or before it grew last */
    const uint64_t live = tideP_cell_live_bytes(&view->cells[cell]);
    const uint64_t left = (uint64_t)at[last] * TIDE_P_FLOOR_UNIT;
    CHECK(left == live || left == live / 2);
    tideP_reader_close(profile);
}
