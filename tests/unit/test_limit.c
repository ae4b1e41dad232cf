/*
** test_limit.c: a limit of a state's bytes, and what is kept when an allocation
** fails, in states of real Lua.
*/
#include <stdlib.h>
#include <string.h>

#include "../../attrib/attrib.h"
#include "host.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t global(struct host *host, const char *name)
{
    lua_getglobal(host->L, name);
    const uint64_t n = (uint64_t)lua_tointeger(host->L, -1);
    lua_pop(host->L, 1);
    return n;
}

static uint64_t count_of(lua_State *L)
{
    return (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024u +
           (uint64_t)lua_gc(L, LUA_GCCOUNTB);
}

/* What fills the heap by small blocks, by tables that grow, by large ones. */
static const char fill[] =
    "most, errors = 0, 0\n"
    "local function note()\n"
    "  local n = collectgarbage('count') * 1024\n"
    "  if n > most then most = n end\n"
    "end\n"
    "function small()\n"
    "  for i = 1, 1e7 do keep[#keep + 1] = {tostring(i)} note() end\n"
    "end\n"
    "function grow()\n"
    "  for i = 1, 1e8 do keep[i] = i if i % 64 == 0 then note() end end\n"
    "end\n"
    "function large()\n"
    "  for i = 1, 1e6 do keep[#keep + 1] = ('x'):rep(3000 + i) note() end\n"
    "end\n"
    "function deep(n) note() return 1 + deep(n + 1) end\n"
    "function fill(f)\n"
    "  keep = {}\n"
    "  local ok, why = pcall(f, 1)\n"
    "  assert(not ok and why:find('not enough memory'), why)\n"
    "  errors = errors + 1\n"
    "  keep = nil\n"
    "end\n";

/* The sum of what the cells held, and by line. */
static uint64_t held_on(const struct tide_p_view *view, uint32_t line)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i < view->n_cells; i++)
        if (line == 0 || view->nodes[view->cells[i].node].line == line)
            sum += view->held[i].bytes;
    return sum;
}

static void check_failure(const struct tide_profile *profile, uint64_t limit)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(view->failed != NULL);
    CHECK_STR(tideP_view_string(view, view->failed->label, NULL),
              "out of memory");
    CHECK_EQ(view->failed->limit_bytes, limit);
    CHECK_EQ(held_on(view, 0), view->failed->live_bytes);
    if (limit != 0) {
        CHECK(view->failed->live_bytes <= limit);
        CHECK(view->failed->live_bytes + view->failed->want_bytes > limit);
    }
}

static void fill_all(const char *options, uint64_t limit)
{
    struct host host;
    open_host(&host, options);
    run(&host, fill);
    run(&host, "fill(small) fill(grow) fill(large) fill(small)\n"
               "fill(function() return ('x'):rep(1 << 30) end)\n");
    CHECK_EQ(global(&host, "errors"), 5);
    CHECK(global(&host, "most") <= limit);
    CHECK(global(&host, "most") > limit - limit / 8);
    struct tide_totals totals;
    tide_heap_totals(host.heap, &totals);
    CHECK(totals.peak_bytes <= limit);
    CHECK(totals.failed_blocks >= 5);
    struct tide_profile *profile = close_host(&host);
    check_failure(profile, limit);
    /* the line of `small`: a table and its part for each string */
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(held_on(view, 7) > limit / 2);
    tideP_reader_close(profile);
}

TEST(limit_holds_to_the_byte)
{
    fill_all(",limit=1M", MIB);
    fill_all(",limit=777777", 777777);
    fill_all(",limit=5M", 5 * MIB);
}

TEST(limit_holds_with_blocks_from_malloc)
{
    fill_all(",limit=1M,backend=system", MIB);
}

TEST(limit_stops_a_recursion_without_end)
{
    struct host host;
    open_host(&host, ",limit=400K");
    run(&host, fill);
    run(&host, "keep = {} local ok, why = pcall(deep, 1)\n"
               "assert(not ok and why:find('not enough memory'), why)");
    CHECK(global(&host, "most") <= 400 * 1024);
    struct tide_profile *profile = close_host(&host);
    check_failure(profile, 400 * 1024);
    tideP_reader_close(profile);
}

TEST(limit_that_garbage_alone_reaches_is_no_failure)
{
    struct host host;
    open_host(&host, ",limit=300K");
    run(&host, "collectgarbage('stop')\n"
               "for i = 1, 200000 do local t = {i} end\n");
    struct tide_totals totals;
    tide_heap_totals(host.heap, &totals);
    CHECK(totals.failed_blocks > 10); /* each was tried again, and met */
    CHECK(totals.peak_bytes <= 300 * 1024);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(view->failed == NULL);
    CHECK_EQ(view->n_marks, 0);
    CHECK_EQ(view->n_snaps, 0);
    tideP_reader_close(profile);
}

TEST(limit_keeps_the_first_failure_only)
{
    struct host host;
    open_host(&host, ",limit=1M");
    run(&host, fill);
    run(&host, "fill(function() return ('x'):rep(1 << 24) end)\n"
               "fill(small)");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_marks, 1);
    check_failure(profile, MIB);
    CHECK(view->failed->want_bytes >= 1 << 24);
    CHECK(view->failed->live_bytes < 100 * 1024);
    tideP_reader_close(profile);
}

TEST(limit_can_be_changed_at_any_time)
{
    struct host host;
    open_host(&host, "");
    CHECK(host.heap->store.small_max != 0);
    run(&host, "keep = {} for i = 1, 20000 do keep[i] = {i} end");
    CHECK_EQ(luaL_loadstring(host.L,
                             "for i = 1, 20000 do keep[#keep + 1] = {i} end"),
             LUA_OK);
    const uint64_t before = count_of(host.L);
    tide_heap_limit(host.heap, 100 * 1024); /* below what is held */
    CHECK_EQ(lua_pcall(host.L, 0, 0, 0), LUA_ERRMEM);
    CHECK_STR(lua_tostring(host.L, -1), "not enough memory");
    CHECK(count_of(host.L) <= before);
    tide_heap_limit(host.heap, before + MIB);
    run(&host, "for i = 1, 10000 do keep[#keep + 1] = {i} end");
    tide_heap_limit(host.heap, 0);
    CHECK(host.heap->store.small_max != 0); /* the fast path is back */
    run(&host, "for i = 1, 100000 do keep[#keep + 1] = {i} end");
    CHECK(count_of(host.L) > before + MIB);
    tideP_reader_close(close_host(&host));
}

TEST(limit_that_is_far_leaves_the_fast_path_alone)
{
    struct host host;
    open_host(&host, ",limit=100M");
    CHECK(host.heap->store.small_max != 0);
    run(&host, "keep = {} for i = 1, 200000 do keep[i] = {i} end");
    CHECK(host.heap->store.small_max != 0);
    CHECK(!host.heap->limit.is_tight);
    tideP_reader_close(close_host(&host));
}

TEST(limit_lets_the_fast_path_come_back)
{
    struct host host;
    open_host(&host, ",limit=4M");
    run(&host, fill);
    run(&host, "fill(small)");
    CHECK(host.heap->limit.is_tight);
    CHECK_EQ(host.heap->store.small_max, 0);
    run(&host, "for i = 1, 4 do collectgarbage() end\n"
               "for i = 1, 100 do local t = {i} end");
    CHECK(!host.heap->limit.is_tight);
    CHECK(host.heap->store.small_max != 0);
    run(&host, "fill(grow) fill(small)");
    CHECK(global(&host, "most") <= 4 * MIB);
    tideP_reader_close(close_host(&host));
}

TEST(limit_is_each_state_s_own)
{
    struct host host;
    struct tide_heap *other;
    open_host(&host, "");
    lua_State *L = tide_newstate(host.session, &other);
    CHECK(L != NULL);
    luaL_openlibs(L);
    tide_heap_limit(other, 200 * 1024);
    CHECK(luaL_dostring(L, "t = {} for i = 1, 1e6 do t[i] = {} end") != LUA_OK);
    CHECK_STR(lua_tostring(L, -1), "not enough memory");
    lua_pop(L, 1);
    CHECK(count_of(L) <= 200 * 1024);
    run(&host, "keep = {} for i = 1, 100000 do keep[i] = {i} end");
    CHECK(count_of(host.L) > 5 * MIB);
    lua_close(L);
    tide_heap_close(other);
    struct tide_profile *profile = close_host(&host);
    CHECK(tideP_reader_heap(profile, 0)->failed == NULL);
    CHECK(tideP_reader_heap(profile, 1)->failed != NULL);
    tideP_reader_close(profile);
}

TEST(limit_too_small_for_a_state_makes_none)
{
    struct host host;
    open_session(&host, ",limit=1000");
    CHECK(tide_newstate(host.session, &host.heap) == NULL);
    tide_session_close(host.session);
}

/* ---- blocks of others ---- */

struct purse {
    uint64_t held;
    uint64_t most;
};

static void *spend(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct purse *purse = ud;
    const size_t old = ptr != NULL ? osize : 0;
    if (nsize > old && purse->held + nsize - old > purse->most)
        return NULL;
    purse->held += nsize - old;
    if (nsize != 0)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

TEST(limit_of_the_host_is_kept_as_well)
{
    struct host host;
    struct purse purse = {0, MIB};
    open_session(&host, "");
    CHECK_EQ(tide_heap_open(host.session, &host.heap), TIDE_OK);
    tide_heap_chain(host.heap, spend, &purse);
    host.L = lua_newstate(tide_alloc, host.heap);
    CHECK(host.L != NULL);
    luaL_openlibs(host.L);
    run(&host, fill);
    run(&host, "fill(small) fill(large)");
    struct tide_profile *profile = close_host(&host);
    CHECK_EQ(purse.held, 0);
    check_failure(profile, 0); /* not ours */
    tideP_reader_close(profile);
}

TEST(limit_holds_for_blocks_of_the_host_s_allocator)
{
    struct host host;
    struct purse purse = {0, 64 * MIB};
    open_session(&host, ",limit=1M");
    CHECK_EQ(tide_heap_open(host.session, &host.heap), TIDE_OK);
    tide_heap_chain(host.heap, spend, &purse);
    host.L = lua_newstate(tide_alloc, host.heap);
    CHECK(host.L != NULL);
    luaL_openlibs(host.L);
    run(&host, fill);
    run(&host, "fill(small) fill(grow) fill(large)");
    CHECK(global(&host, "most") <= MIB);
    struct tide_profile *profile = close_host(&host);
    check_failure(profile, MIB);
    tideP_reader_close(profile);
}

TEST(limit_counts_what_is_from_before_an_attach)
{
    struct host host;
    open_session(&host, ",limit=2M");
    host.L = luaL_newstate();
    luaL_openlibs(host.L);
    run(&host, "old = {} for i = 1, 10000 do old[i] = {i} end");
    const uint64_t before = count_of(host.L);
    CHECK(before > 700 * 1024);
    CHECK_EQ(tide_heap_attach(host.session, host.L, &host.heap), TIDE_OK);
    run(&host, fill);
    run(&host, "fill(small) fill(grow) fill(large)");
    CHECK(global(&host, "most") <= 2 * MIB);
    run(&host, "old = nil collectgarbage() fill(small)");
    CHECK(global(&host, "most") <= 2 * MIB);
    CHECK(global(&host, "most") > 2 * MIB - 300 * 1024);
    tide_heap_closing(host.heap);
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(view->failed->before_bytes > 700 * 1024);
    CHECK(view->failed->live_bytes + view->failed->before_bytes <= 2 * MIB);
    CHECK_EQ(held_on(view, 0), view->failed->live_bytes);
    tideP_reader_close(profile);
}
