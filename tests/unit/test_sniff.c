/*
** test_sniff.c: a state that is known by its first block, and each field that
** must be right for that.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdlib.h>
#include <string.h>

#include "../../attrib/session.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"

/* What the allocator below has seen and done; it has no ud. */
static struct {
    struct tide_session *session;
    struct tide_first_block first;
    struct tide_heap *heap; /* NULL: not taken over yet */
    enum tide_err results[8];
    unsigned n_results;
    void (*before)(void); /* called while the stack is in place */
} seen;

static void *find_nothing(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

static char *the_state(void)
{
    return (char *)seen.first.block + LUA_EXTRASPACE;
}

static char *the_global(void)
{
    return tideT_L_global(the_state());
}

static enum tide_err sniff(void)
{
    return tide_heap_sniff(seen.session, &seen.first, &seen.heap);
}

static void look(size_t next_bytes)
{
    seen.first.next_bytes = next_bytes;
    if (seen.n_results == 1 && seen.before != NULL)
        seen.before();
    const enum tide_err err = sniff();
    if (seen.n_results < 8)
        seen.results[seen.n_results++] = err;
    if (err == TIDE_ERR_STATE)
        seen.first.stack_bytes = next_bytes;
}

static void *watched_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    if (ptr == NULL && seen.first.block != NULL && seen.heap == NULL)
        look(nsize);
    void *block = realloc(ptr, nsize);
    if (ptr == NULL && seen.first.block == NULL) {
        seen.first.block = block;
        seen.first.bytes = nsize;
        seen.first.lua = "Lua 5.4.4";
    }
    return block;
}

static const char *open_session(void)
{
    static char options[1200];
    const char *path = scratch_path("a.tide");
    snprintf(options, sizeof options, "out=%s", path);
    CHECK_EQ(tide_session_open(options, find_nothing, NULL, &seen.session),
             TIDE_OK);
    return path;
}

TEST(sniff_takes_over_at_the_third_block)
{
    const char *path = open_session();
    const char *reason;
    struct tide_totals totals;
    CHECK_EQ(tide_session_tier(seen.session, NULL), TIDE_TIER_PUBLIC);
    lua_State *L = lua_newstate(watched_alloc, NULL);
    CHECK(L != NULL);
    CHECK_EQ(seen.n_results, 2);
    CHECK_EQ(seen.results[0], TIDE_ERR_STATE);
    CHECK_EQ(seen.results[1], TIDE_OK);
    CHECK_EQ(tide_session_tier(seen.session, &reason), TIDE_TIER_PARTIAL);
    CHECK(strstr(reason, "layout read from the state itself") != NULL);
    luaL_openlibs(L);
    CHECK_EQ(luaL_dostring(L, "t = {} for i = 1, 1000 do t[i] = {i} end"),
             LUA_OK);
    lua_pushstring(L, "the kind of the block before it is known by now");
    const uint64_t count = (uint64_t)lua_gc(L, LUA_GCCOUNT) * 1024 +
                           (uint64_t)lua_gc(L, LUA_GCCOUNTB);
    tide_heap_totals(seen.heap, &totals);
    CHECK_EQ(totals.live_bytes - totals.buffer_bytes + totals.before_bytes,
             count);
    lua_close(L);
    tide_session_close(seen.session);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    const struct tide_p_heap *head = tideP_reader_heap(profile, 0)->head;
    CHECK_EQ(head->state, TIDE_P_HEAP_CLOSED);
    CHECK_EQ(head->n_states, 1);
    CHECK_EQ(head->n_gone, 1);
    CHECK_EQ(head->left_bytes, 0);
    tideP_reader_close(profile);
}

/* One byte is another; nothing may be taken over. */
static void spoil(char *at)
{
    const char was = *at;
    for (unsigned bit = 0; bit < 8; bit++) {
        *at = (char)(was ^ (1 << bit));
        CHECK_EQ(sniff(), TIDE_ERR_LUA);
    }
    *at = was;
    CHECK(seen.heap == NULL);
}

static void spoil_all(void)
{
    char *L = the_state();
    char *g = the_global();
    for (unsigned i = 0; i < 8; i++) {
        spoil(g + 16 + i); /* totalbytes */
        spoil(g + 24 + i); /* GCdebt */
        spoil(L + 16 + i); /* top */
        spoil(L + 32 + i); /* ci */
        spoil(L + 24 + i); /* l_G */
    }
    spoil(L + 8);   /* tt */
    spoil(L + 10);  /* status */
    spoil(g + 100); /* currentwhite */
    spoil(g + 101); /* gcstate */
    spoil(g + 102); /* gckind */
}

TEST(sniff_needs_every_field)
{
    open_session();
    seen.before = spoil_all;
    lua_State *L = lua_newstate(watched_alloc, NULL);
    CHECK_EQ(seen.results[1], TIDE_OK);
    lua_close(L);
}

static void *data;

static void spoil_allocator(void)
{
    const struct tide_first_block was = seen.first;
    char *g = the_global();
    void *f;
    memcpy(&f, g, sizeof f);
    data = &data;
    memcpy(g, &data, sizeof data); /* no code */
    CHECK_EQ(sniff(), TIDE_ERR_LUA);
    memcpy(g, &f, sizeof f);
    tideT_g_ud(g) = &data; /* an account to be kept */
    CHECK_EQ(sniff(), TIDE_ERR_ARG);
    tideT_g_ud(g) = NULL;
    seen.first.bytes -= 8;
    CHECK_EQ(sniff(), TIDE_ERR_LUA);
    seen.first.bytes = 64;
    CHECK_EQ(sniff(), TIDE_ERR_LUA);
    seen.first = was;
    seen.first.stack_bytes += 16;
    CHECK_EQ(sniff(), TIDE_ERR_LUA);
    seen.first = was;
}

TEST(sniff_knows_whose_the_allocator_is)
{
    open_session();
    seen.before = spoil_allocator;
    lua_State *L = lua_newstate(watched_alloc, NULL);
    CHECK_EQ(seen.results[1], TIDE_OK);
    lua_close(L);
}

TEST(sniff_any_other_block_is_none)
{
    uint64_t rng = 1;
    open_session();
    for (size_t bytes = 8; bytes <= 4096; bytes += 8) {
        uint64_t *block = malloc(bytes);
        CHECK(block != NULL);
        for (unsigned fill = 0; fill < 3; fill++) {
            for (size_t i = 0; i < bytes / 8; i++) {
                rng = rng * UINT64_C(6364136223846793005) + 1;
                block[i] = fill == 0   ? 0
                           : fill == 1 ? rng
                                       : (uint64_t)(uintptr_t)block +
                                             (rng >> 33) % bytes;
            }
            seen.first = (struct tide_first_block){
                .block = block, .bytes = bytes, .lua = "Lua 5.4"};
            CHECK_EQ(sniff(), TIDE_ERR_LUA);
        }
        free(block);
    }
}
