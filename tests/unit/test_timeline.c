/*
** test_timeline.c: the points of a heap's timeline, with a heap and a clock
** that are made up.
*/
#include <string.h>

#include "../../attrib/attrib.h"
#include "../../include/tidemark.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"

#define POINTS_MAX 1024u
#define MS         UINT64_C(1000000)
#define START_NS   UINT64_C(5000000000)

/* A state without a program: only the test says what its heap is. */
struct host {
    struct tide_session *session;
    struct tide_heap *heap;
    lua_State *L;
    char options[512];
    uint64_t live_bytes; /* really */
    uint64_t alloc_bytes;
};

static void open_host(struct host *host)
{
    snprintf(host->options, sizeof host->options, "out=%s",
             scratch_path("timeline.tide"));
    CHECK_EQ(tide_session_open(host->options, NULL, NULL, &host->session),
             TIDE_OK);
    host->L = tide_newstate(host->session, &host->heap);
    CHECK(host->L != NULL);
    tideT_gc_reset(host->heap);
    host->live_bytes = host->heap->live_bytes;
    host->alloc_bytes = host->heap->alloc_bytes;
}

static void close_host(struct host *host)
{
    host->heap->live_bytes = host->live_bytes;
    host->heap->alloc_bytes = host->alloc_bytes;
    tideT_gc_reset(host->heap);
    lua_close(host->L);
    tide_heap_close(host->heap);
    tide_session_close(host->session);
}

static const struct tide_p_moment *points(const struct host *host)
{
    return (const void *)host->heap->sections[TIDE_P_MOMENTS].base;
}

static uint32_t n_points(const struct host *host)
{
    return host->heap->head->n_moments;
}

/* A collection is seen at that time over a heap of that size. */
static void see(struct host *host, uint64_t now_ns, uint64_t live_bytes)
{
    host->heap->live_bytes = live_bytes;
    host->heap->alloc_bytes += live_bytes;
    tideT_gc_moment(host->heap, now_ns);
    CHECK(n_points(host) <= POINTS_MAX);
}

static void check_order(const struct host *host)
{
    const struct tide_p_moment *m = points(host);
    for (uint32_t i = 1; i < n_points(host); i++) {
        CHECK(m[i].mono_ns > m[i - 1].mono_ns);
        CHECK(m[i].alloc_bytes > m[i - 1].alloc_bytes);
    }
}

static uint64_t highest(const struct host *host)
{
    uint64_t high = 0;
    for (uint32_t i = 0; i < n_points(host); i++)
        if (points(host)[i].live_bytes > high)
            high = points(host)[i].live_bytes;
    return high;
}

TEST(timeline_is_bounded_and_has_both_ends)
{
    struct host host;
    uint64_t now = START_NS;
    open_host(&host);
    for (uint32_t i = 0; i < 40000; i++, now += MS)
        see(&host, now, 1000000 + i % 977);
    host.heap->live_bytes = 777;
    host.heap->alloc_bytes++;
    tideT_gc_last_moment(host.heap, now - MS / 2);
    CHECK(n_points(&host) <= POINTS_MAX);
    CHECK(n_points(&host) > POINTS_MAX / 4);
    CHECK_EQ(points(&host)[0].mono_ns, START_NS);
    CHECK_EQ(points(&host)[0].live_bytes, 1000000);
    CHECK_EQ(points(&host)[n_points(&host) - 1].mono_ns, now - MS / 2);
    CHECK_EQ(points(&host)[n_points(&host) - 1].live_bytes, 777);
    check_order(&host);
    close_host(&host);
}

/* Points stand no further apart than twice what their number asks for. */
TEST(timeline_is_spread_over_the_run)
{
    struct host host;
    const uint64_t run_ns = 40000 * MS;
    open_host(&host);
    for (uint32_t i = 0; i < 40000; i++)
        see(&host, START_NS + i * MS, 1000000);
    uint64_t widest = 0;
    for (uint32_t i = 1; i < n_points(&host); i++) {
        const uint64_t gap =
            points(&host)[i].mono_ns - points(&host)[i - 1].mono_ns;
        widest = gap > widest ? gap : widest;
    }
    CHECK(widest <= 4 * run_ns / POINTS_MAX);
    close_host(&host);
}

/* A single peak, wherever it is: between two points, or where they are full. */
TEST(timeline_does_not_lose_the_peak)
{
    uint64_t rng = 7;
    for (uint32_t k = 0; k < 60; k++) {
        struct host host;
        const uint32_t at = (uint32_t)(syn_random(&rng) % 9000);
        open_host(&host);
        for (uint32_t i = 0; i < 9000; i++)
            see(&host, START_NS + i * (MS / 3),
                i == at ? 90000000 : 1000000 + syn_random(&rng) % 1000);
        tideT_gc_last_moment(host.heap, START_NS + 9001 * (MS / 3));
        CHECK_EQ(highest(&host), 90000000);
        check_order(&host);
        close_host(&host);
    }
}

TEST(timeline_keeps_what_was_resident)
{
    struct host host;
    uint32_t n_rss = 0;
    open_host(&host);
    for (uint32_t i = 0; i < 20000; i++)
        see(&host, START_NS + i * MS, 1000000 + i % 89);
    for (uint32_t i = 0; i < n_points(&host); i++)
        n_rss += points(&host)[i].rss_bytes > 0;
    CHECK(n_rss >= 180); /* it is read every 100 ms: 200 times */
    CHECK(n_rss <= 200);
    close_host(&host);
}

TEST(timeline_takes_no_point_twice)
{
    struct host host;
    open_host(&host);
    see(&host, START_NS, 1000);
    tideT_gc_last_moment(host.heap, START_NS);
    CHECK_EQ(n_points(&host), 1);
    tideT_gc_last_moment(host.heap, START_NS + 1);
    CHECK_EQ(n_points(&host), 2);
    close_host(&host);
}
