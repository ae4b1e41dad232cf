/*
** test_arena.c: the size classes against a dumb model: every block keeps its
** bytes, no two overlap, empty pages come back.
*/
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../../alloc/arena.h"
#include "../tap.h"

#define BLOCKS 4096u

struct model {
    struct tide_arena arena;
    unsigned char *block[BLOCKS];
    size_t bytes[BLOCKS];
    unsigned seed;
};

static unsigned next_random(struct model *m)
{
    m->seed = m->seed * 1103515245u + 12345u;
    return m->seed >> 8;
}

/* Each block is filled with its own number. */
static bool make(struct model *m, unsigned i)
{
    m->bytes[i] = next_random(m) % TIDE_SMALL_MAX + 1;
    m->block[i] = tideA_arena_alloc(&m->arena, tideA_class(m->bytes[i]));
    if (m->block[i] == NULL)
        return false;
    memset(m->block[i], (int)(i & 0xff), m->bytes[i]);
    *tideA_tag_place(m->block[i], m->bytes[i]) = i;
    return true;
}

static bool is_whole(const struct model *m, unsigned i)
{
    for (size_t k = 0; k < m->bytes[i]; k++)
        if (m->block[i][k] != (unsigned char)(i & 0xff))
            return false;
    return *tideA_tag_place(m->block[i], m->bytes[i]) == i;
}

static void drop(struct model *m, unsigned i)
{
    tideA_arena_free(&m->arena, m->block[i], tideA_class(m->bytes[i]));
    m->block[i] = NULL;
}

TEST(arena_blocks_keep_their_bytes)
{
    struct model *m = calloc(1, sizeof *m);
    m->seed = 7;
    CHECK(tideA_arena_open(&m->arena));
    for (unsigned round = 0; round < 40000; round++) {
        const unsigned i = next_random(m) % BLOCKS;
        if (m->block[i] == NULL) {
            CHECK(make(m, i));
            CHECK(tideA_arena_has(&m->arena, m->block[i]));
        } else {
            CHECK(is_whole(m, i));
            drop(m, i);
        }
        if (round % 9973 == 0)
            tideA_arena_trim(&m->arena);
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        CHECK(m->block[i] == NULL || is_whole(m, i));
    tideA_arena_close(&m->arena);
    free(m);
}

TEST(arena_blocks_are_aligned_and_sized)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    CHECK(tideA_arena_open(arena));
    for (size_t bytes = 1; bytes <= TIDE_SMALL_MAX; bytes++) {
        void *p = tideA_arena_alloc(arena, tideA_class(bytes));
        CHECK(p != NULL);
        CHECK_EQ((uintptr_t)p % 8, 0);
        CHECK(tideA_arena_bytes(arena, p) >= bytes);
        CHECK(tideA_arena_bytes(arena, p) < bytes + 8);
    }
    tideA_arena_close(arena);
    free(arena);
}

/* All blocks of one class are freed: another class gets their pages. */
TEST(arena_empty_pages_serve_other_classes)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    static void *blocks[60000];
    CHECK(tideA_arena_open(arena));
    for (size_t i = 0; i < 60000; i++) {
        blocks[i] = tideA_arena_alloc(arena, tideA_class(96));
        *tideA_tag_place(blocks[i], 96) = i;
    }
    for (size_t i = 0; i < 60000; i++)
        tideA_arena_free(arena, blocks[i], tideA_class(96));
    const size_t used = arena->used_bytes;
    CHECK(tideA_arena_trim(arena) > used / 2);
    for (size_t i = 0; i < 20000; i++)
        blocks[i] = tideA_arena_alloc(arena, tideA_class(200));
    CHECK_EQ(arena->used_bytes, used);
    tideA_arena_close(arena);
    free(arena);
}

/* A page with one block left is not given back. */
TEST(arena_trim_keeps_pages_in_use)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    static unsigned char *blocks[20000];
    CHECK(tideA_arena_open(arena));
    for (size_t i = 0; i < 20000; i++) {
        blocks[i] = tideA_arena_alloc(arena, tideA_class(64));
        memset(blocks[i], 0x5a, 64);
        *tideA_tag_place(blocks[i], 64) = i;
    }
    for (size_t i = 0; i < 20000; i++)
        if (i % 100 != 0)
            tideA_arena_free(arena, blocks[i], tideA_class(64));
    tideA_arena_trim(arena);
    for (size_t i = 0; i < 20000; i += 100)
        for (size_t k = 0; k < 64; k++)
            CHECK_EQ(blocks[i][k], 0x5a);
    tideA_arena_close(arena);
    free(arena);
}

/* Pages of base[0 .. bytes) that have memory. */
static size_t held_pages(unsigned char *base, size_t bytes)
{
    static unsigned char pages[1024];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t held = 0;
    CHECK(bytes / page <= sizeof pages);
    CHECK_EQ(mincore(base, bytes, pages), 0);
    for (size_t i = 0; i < bytes / page; i++)
        held += pages[i] & 1;
    return held;
}

/* Sixty classes with a block or two: no page for each. */
TEST(arena_small_heaps_are_small)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    static unsigned char *blocks[120];
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(tideA_arena_open(arena));
    for (size_t i = 0; i < 120; i++) {
        const size_t bytes = 8 * (1 + i % 60);
        blocks[i] = tideA_arena_alloc(arena, tideA_class(bytes));
        memset(blocks[i], (int)i, bytes);
        *tideA_tag_place(blocks[i], bytes) = i;
    }
    CHECK_EQ(arena->used_bytes, TIDE_MIXED_BYTES);
    CHECK(held_pages(arena->base, arena->used_bytes) <= 36864 / page + 1);
    tideA_arena_trim(arena); /* mixed pages are no other class's */
    for (size_t i = 0; i < 120; i++) {
        const size_t bytes = 8 * (1 + i % 60);
        CHECK_EQ(tideA_arena_bytes(arena, blocks[i]), bytes);
        for (size_t k = 0; k < bytes; k++)
            CHECK_EQ(blocks[i][k], i);
        CHECK_EQ(*tideA_tag_place(blocks[i], bytes), i);
        tideA_arena_free(arena, blocks[i], tideA_class(bytes));
    }
    CHECK_EQ(tideA_arena_trim(arena), 0);
    tideA_arena_close(arena);
    free(arena);
}

/* Who needs many blocks gets pages of its own, which come back. */
TEST(arena_classes_outgrow_the_mixed_pages)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    static void *blocks[4000];
    size_t n_mixed = 0;
    CHECK(tideA_arena_open(arena));
    for (size_t i = 0; i < 4000; i++) {
        blocks[i] = tideA_arena_alloc(arena, tideA_class(72));
        CHECK_EQ(tideA_arena_bytes(arena, blocks[i]), 72);
        n_mixed += (unsigned char *)blocks[i] < arena->base + TIDE_MIXED_BYTES;
        *tideA_tag_place(blocks[i], 72) = i;
    }
    CHECK(n_mixed > 256 / 80 && n_mixed * 80 <= 256 * 15);
    CHECK(arena->used_bytes >= TIDE_MIXED_BYTES + (4000 - n_mixed) * 80);
    for (size_t i = 0; i < 4000; i++)
        tideA_arena_free(arena, blocks[i], tideA_class(72));
    CHECK_EQ(tideA_arena_trim(arena), arena->used_bytes - TIDE_MIXED_BYTES);
    tideA_arena_close(arena);
    free(arena);
}

/* Freed blocks of other classes do not stand in the way of a limit. */
TEST(arena_mixed_pages_are_a_small_part_of_a_limit)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    size_t n_mixed = 0, n = 0;
    CHECK(tideA_arena_open(arena));
    arena->cut_max = 256 * 1024;
    for (;; n++) {
        unsigned char *p = tideA_arena_alloc(arena, 1 + n % 128);
        if (p == NULL)
            break;
        n_mixed += p < arena->base + TIDE_MIXED_BYTES;
    }
    CHECK(n_mixed > 0 && n > n_mixed);
    CHECK((size_t)(arena->mixed - arena->base) <= arena->cut_max / 16 + 2048);
    CHECK(arena->cut_bytes <= arena->cut_max);
    tideA_arena_close(arena);
    free(arena);
}

TEST(arena_fits_into_limited_address_space)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
#if defined(__SANITIZE_ADDRESS__)
    free(arena);
    SKIP("the sanitizer needs all of the address space");
#endif
    const struct rlimit limit = {256u << 20, 256u << 20};
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    CHECK(tideA_arena_open(arena));
    CHECK(arena->range_bytes <= (256u << 20) / 4);
    size_t n = 0;
    while (tideA_arena_alloc(arena, tideA_class(1000)) != NULL)
        n++;
    CHECK(n * 1000 > arena->range_bytes / 2); /* then NULL, no crash */
    tideA_arena_close(arena);
    free(arena);
}

/* Every byte that is handed out can be written, however far the range grows. */
TEST(arena_opens_what_it_hands_out)
{
    struct tide_arena *arena = calloc(1, sizeof *arena);
    CHECK(tideA_arena_open(arena));
    for (size_t i = 0; i < 40000; i++) {
        const size_t bytes = 1 + i * 7 % TIDE_SMALL_MAX;
        unsigned char *p = tideA_arena_alloc(arena, tideA_class(bytes));
        CHECK(p != NULL);
        memset(p, 1, bytes);
        *tideA_tag_place(p, bytes) = 1;
        CHECK(arena->used_bytes <= arena->open_bytes);
        CHECK_EQ(arena->open_bytes % TIDE_PAGE_BYTES, 0);
    }
    CHECK(arena->open_bytes > 8u << 20);
    tideA_arena_close(arena);
    free(arena);
}
