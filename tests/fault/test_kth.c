/*
** test_kth.c: every allocation fails once.
**
** A host with an allocator of its own runs the same script again and again; in
** the k-th run the k-th request for memory fails, and with it all that ask for
** more, until Lua gives up or finds room by a collection.  k goes on until a
** run needs fewer requests than that.  After each run the books must balance,
** the host must have got back every byte, and sizes must be those that Lua
** gave.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>

#include <tidemark.h>

#include "../tap.h"

/* The host's memory: it counts, and it can fail. */
struct host {
    size_t held_bytes;
    size_t n_requests; /* blocks made and grown */
    size_t n_failed;
    size_t fail_at;    /* number of the request that fails; 0: none does */
    size_t fail_count; /* so many in a row */
};

static void *host_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct host *host = ud;
    const size_t old_bytes = ptr != NULL ? osize : 0;
    if (nsize == 0) {
        CHECK(host->held_bytes >= old_bytes);
        host->held_bytes -= old_bytes;
        free(ptr);
        return NULL;
    }
    if (nsize > old_bytes) {
        host->n_requests++;
        if (host->fail_at != 0 && host->n_requests >= host->fail_at &&
            host->n_requests < host->fail_at + host->fail_count) {
            host->n_failed++;
            return NULL;
        }
    }
    void *block = realloc(ptr, nsize);
    CHECK(block != NULL);
    host->held_bytes += nsize - old_bytes;
    return block;
}

static const char script[] =
    "local kept = {}\n"
    "for i = 1, 6 do\n"
    "  local co = coroutine.wrap(function(a)\n"
    "    local t = {a, x = 'key' .. a,\n"
    "      {}}\n"
    "    coroutine.yield(function() return t end)\n"
    "  end)\n"
    "  kept[#kept + 1] = co(i)\n"
    "end\n"
    "local f = load('return {1, 2, 3}', '=chunk')\n"
    "kept.text = table.concat({('x'):rep(100), tostring(f)}, ',')\n"
    "local function deep(n) if n == 0 then return {} end\n"
    "  return {deep(n - 1)} end\n"
    "kept.deep = deep(60)\n"
    "pcall(error, {kept})\n"
    "return #kept\n";

static int run_script(lua_State *L)
{
    luaL_openlibs(L);
    if (luaL_loadbuffer(L, script, sizeof script - 1, "=script") != LUA_OK)
        return lua_error(L);
    lua_call(L, 0, 1);
    return 1;
}

/* failed_before: a heap goes on counting when another state had it before. */
static void check_books(struct tide_heap *heap, lua_State *L,
                        const struct host *host, uint64_t failed_before)
{
    struct tide_totals totals;
    tide_heap_totals(heap, &totals);
    const uint64_t counted = (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024 +
                             (uint64_t)lua_gc(L, LUA_GCCOUNTB);
    CHECK_EQ(totals.live_bytes - totals.buffer_bytes, counted);
    CHECK_EQ(totals.live_bytes, host->held_bytes);
    CHECK_EQ(totals.failed_blocks - failed_before, host->n_failed);
    CHECK(totals.peak_bytes >= totals.live_bytes);
}

/* One run; its status, or -1 when there was no memory for a state. */
static int run_once(struct tide_session *session, struct host *host)
{
    struct tide_heap *heap;
    struct tide_totals before;
    int status = -1;
    CHECK_EQ(tide_heap_open(session, &heap), TIDE_OK);
    tide_heap_totals(heap, &before);
    CHECK_EQ(before.live_bytes, 0);
    tide_heap_chain(heap, host_alloc, host);
    lua_State *L = lua_newstate(tide_alloc, heap);
    if (L != NULL) {
        lua_pushcfunction(L, run_script);
        status = lua_pcall(L, 0, 1, 0);
        if (status == LUA_OK)
            CHECK_EQ(lua_tointeger(L, -1), 6);
        check_books(heap, L, host, before.failed_blocks);
        tide_heap_closing(heap);
        lua_close(L);
    }
    CHECK_EQ(host->held_bytes, 0);
    tide_heap_close(heap);
    return status;
}

static struct tide_session *open_session(void)
{
    struct tide_session *session;
    CHECK_EQ(tide_session_open("out=,quiet=1", NULL, NULL, &session), TIDE_OK);
    return session;
}

TEST(fault_a_run_without_failures_balances)
{
    struct tide_session *session = open_session();
    struct host host = {0};
    CHECK_EQ(run_once(session, &host), LUA_OK);
    CHECK(host.n_requests > 500);
    CHECK_EQ(host.n_failed, 0);
    tide_session_close(session);
}

/* A single failure is harmless: Lua collects and asks again. */
TEST(fault_each_request_may_fail_once)
{
    struct tide_session *session = open_session();
    size_t k = 1;
    for (;; k++) {
        struct host host = {.fail_at = k, .fail_count = 1};
        const int status = run_once(session, &host);
        if (host.n_failed == 0)
            break;
        CHECK(status == LUA_OK || status == LUA_ERRMEM || status == -1);
    }
    CHECK(k > 500);
    tide_session_close(session);
}

/* When it fails for good, the script ends with a memory error. */
TEST(fault_each_request_may_fail_for_good)
{
    struct tide_session *session = open_session();
    size_t k = 1, n_errors = 0;
    for (;; k++) {
        struct host host = {.fail_at = k, .fail_count = 8};
        const int status = run_once(session, &host);
        if (host.n_failed == 0)
            break;
        CHECK(status == LUA_OK || status == LUA_ERRMEM || status == -1);
        n_errors += status != LUA_OK;
    }
    CHECK(k > 500);
    CHECK(n_errors > 300);
    tide_session_close(session);
}
