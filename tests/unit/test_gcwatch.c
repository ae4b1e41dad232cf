/*
** test_gcwatch.c: the watcher through the C interface, in a state of its own.
*/
#include <string.h>

#include <lauxlib.h>
#include <lualib.h>

#include "../../include/tidemark.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"

struct host {
    struct tide_session *session;
    struct tide_heap *heap;
    lua_State *L;
    char options[512];
    const char *path;
};

static void open_host(struct host *host)
{
    host->path = scratch_path("gc.tide");
    snprintf(host->options, sizeof host->options, "out=%s", host->path);
    CHECK_EQ(tide_session_open(host->options, NULL, NULL, &host->session),
             TIDE_OK);
    host->L = tide_newstate(host->session, &host->heap);
    CHECK(host->L != NULL);
    luaL_openlibs(host->L);
}

static struct tide_profile *close_host(struct host *host)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    lua_close(host->L);
    tide_heap_close(host->heap);
    tide_session_close(host->session);
    CHECK_EQ(tideP_reader_open(host->path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    return profile;
}

static void run(struct host *host, const char *text)
{
    CHECK_EQ(luaL_dostring(host->L, text), LUA_OK);
}

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
    open_host(&host);
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
    open_host(&host);
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
    open_host(&host);
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
    open_host(&host);
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

TEST(gcwatch_a_step_is_no_restart)
{
    struct host host;
    open_host(&host);
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
    open_host(&host);
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
    open_host(&host);
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
    open_host(&host);
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
