/*
** test_store.c: blocks of every origin keep bytes and tags, and go back to the
** allocator that made them.
*/
#include <stdlib.h>
#include <string.h>

#include "../../alloc/store.h"
#include "../tap.h"

/* An allocator that counts what it gave, by Lua's sizes. */
struct counter {
    size_t bytes;
    unsigned calls;
    size_t limit;
};

static void *count_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct counter *c = ud;
    c->calls++;
    if (ptr == NULL)
        osize = 0; /* it was a kind */
    if (nsize == 0) {
        c->bytes -= osize;
        free(ptr);
        return NULL;
    }
    if (c->limit != 0 && c->bytes - osize + nsize > c->limit)
        return NULL;
    void *p = realloc(ptr, nsize);
    if (p != NULL)
        c->bytes += nsize - osize;
    return p;
}

static unsigned char *make(struct tide_store *s, size_t bytes, uint64_t tag)
{
    unsigned char *p = tideA_store_alloc(s, 5, bytes);
    if (p == NULL)
        return NULL;
    memset(p, (int)(bytes & 0xff), bytes);
    tideA_store_set_tag(s, p, bytes, tag);
    return p;
}

static bool is_whole(struct tide_store *s, unsigned char *p, size_t bytes,
                     size_t fill, uint64_t tag)
{
    uint64_t got = 0;
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != (fill & 0xff))
            return false;
    return tideA_store_tag(s, p, bytes, &got) && got == tag;
}

static const size_t sizes[] = {1, 8, 24, 56, 1000, 1024, 1025, 5000, 200000};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

/* Every size grows and shrinks to every other one. */
static void check_resizing(struct tide_store *s)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        for (size_t k = 0; k < N_SIZES; k++) {
            unsigned char *p = make(s, sizes[i], 77);
            CHECK(p != NULL);
            p = tideA_store_realloc(s, p, sizes[i], sizes[k]);
            CHECK(p != NULL);
            tideA_store_set_tag(s, p, sizes[k], 78);
            const size_t kept = sizes[i] < sizes[k] ? sizes[i] : sizes[k];
            for (size_t b = 0; b < kept; b++)
                CHECK_EQ(p[b], sizes[i] & 0xff);
            uint64_t tag = 0;
            CHECK(tideA_store_tag(s, p, sizes[k], &tag));
            CHECK_EQ(tag, 78);
            tideA_store_free(s, p, sizes[k]);
        }
    }
}

TEST(store_own_blocks_are_resized)
{
    struct tide_mem mem = {0};
    struct tide_store *s = calloc(1, sizeof *s);
    tideA_store_open(s, &mem, false);
    CHECK_EQ(s->small_max, TIDE_SMALL_MAX);
    check_resizing(s);
    tideA_store_close(s);
    tideC_mem_close(&mem);
    free(s);
}

TEST(store_system_blocks_are_resized)
{
    struct tide_mem mem = {0};
    struct tide_store *s = calloc(1, sizeof *s);
    tideA_store_open(s, &mem, true);
    CHECK_EQ(s->small_max, 0);
    check_resizing(s);
    tideA_store_close(s);
    tideC_mem_close(&mem);
    free(s);
}

TEST(store_chained_blocks_are_the_hosts)
{
    struct tide_mem mem = {0};
    struct counter host = {0};
    struct tide_store *s = calloc(1, sizeof *s);
    tideA_store_open(s, &mem, false);
    unsigned char *own = make(s, 100, 5);
    tideA_store_chain(s, count_alloc, &host);
    check_resizing(s);
    CHECK_EQ(host.bytes, 0);
    CHECK(host.calls > 100);
    unsigned char *p = make(s, 64, 6);
    CHECK_EQ(host.bytes, 64);
    CHECK(is_whole(s, own, 100, 100, 5));
    tideA_store_free(s, own, 100); /* ours, not the host's */
    CHECK_EQ(host.bytes, 64);
    tideA_store_free(s, p, 64);
    CHECK_EQ(host.bytes, 0);
    tideA_store_close(s);
    tideC_mem_close(&mem);
    free(s);
}

TEST(store_a_hosts_limit_still_limits)
{
    struct tide_mem mem = {0};
    struct counter host = {.limit = 1000};
    struct tide_store *s = calloc(1, sizeof *s);
    tideA_store_open(s, &mem, false);
    tideA_store_chain(s, count_alloc, &host);
    unsigned char *p = make(s, 600, 9);
    CHECK(p != NULL);
    CHECK(make(s, 600, 9) == NULL);
    CHECK(tideA_store_realloc(s, p, 600, 1200) == NULL);
    CHECK(is_whole(s, p, 600, 600, 9)); /* nothing has changed */
    CHECK_EQ(host.bytes, 600);
    tideA_store_free(s, p, 600);
    tideA_store_close(s);
    tideC_mem_close(&mem);
    free(s);
}

TEST(store_foreign_blocks_go_back)
{
    struct tide_mem mem = {0};
    struct counter before = {0};
    struct tide_store *s = calloc(1, sizeof *s);
    unsigned char *old = count_alloc(&before, NULL, 4, 300);
    unsigned char *other = count_alloc(&before, NULL, 4, 40);
    memset(old, 7, 300);
    tideA_store_open(s, &mem, false);
    tideA_store_adopt(s, count_alloc, &before);
    uint64_t tag = 0;
    CHECK(!tideA_store_tag(s, old, 300, &tag));
    CHECK_EQ(s->small_max, 0);
    old = tideA_store_realloc(s, old, 300, 200); /* stays foreign */
    CHECK(!tideA_store_tag(s, old, 200, &tag));
    CHECK_EQ(before.bytes, 240);
    old = tideA_store_realloc(s, old, 200, 5000); /* ours from now on */
    CHECK_EQ(before.bytes, 40);
    tideA_store_set_tag(s, old, 5000, 3);
    for (int i = 0; i < 200; i++)
        CHECK_EQ(old[i], 7);
    CHECK(tideA_store_tag(s, old, 5000, &tag));
    tideA_store_free(s, old, 5000);
    tideA_store_free(s, other, 40);
    CHECK_EQ(before.bytes, 0);
    tideA_store_close(s);
    tideC_mem_close(&mem);
    free(s);
}
