/*
** test_huge.c: the records of huge blocks, of a state of its own.
*/
#include <string.h>

#include "host.h"

#define LEAST ((uint64_t)TIDE_P_HUGE_LEAST)

/* The record of a kind on a line; NULL: none. */
static const struct tide_p_huge *find(const struct tide_p_view *view,
                                      uint32_t line, enum tide_kind kind)
{
    for (uint32_t i = 0; i < view->n_huge; i++) {
        const struct tide_cell *cell = &view->cells[view->huge[i].cell];
        uint32_t node = cell->node;
        while (node != 0 && view->nodes[node].line == 0)
            node = view->nodes[node].parent; /* C functions that it called */
        if (cell->kind == kind && view->nodes[node].line == line)
            return &view->huge[i];
    }
    return NULL;
}

TEST(huge_blocks_are_told_from_many_small_ones)
{
    struct host host;
    open_host(&host, "");
    run(&host, "local s\n"
               "for i = 1, 5000 do\n"
               "s = string.rep('x', i == 3000 and 1 << 20 or 50) .. i\n"
               "end\n");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_huge *huge = find(view, 3, TIDE_KIND_STRING);
    CHECK(huge != NULL);
    CHECK(huge->bytes > 1u << 20 && huge->bytes < (1u << 20) + 64);
    CHECK(huge->mono_ns >= view->head->open_mono_ns);
    CHECK(huge->mono_ns <= view->head->close_mono_ns);
    CHECK(huge->alloc_bytes > 1u << 20);
    CHECK(huge->n_blocks >= 1);
    /* what string.rep builds it in is known for a buffer by the next call */
    CHECK(find(view, 3, TIDE_KIND_BUFFER) != NULL);
    CHECK_EQ(find(view, 3, TIDE_KIND_BUFFER)->bytes, 1u << 20);
    CHECK(find(view, 3, TIDE_KIND_STORAGE) == NULL);
    tideP_reader_close(profile);
}

TEST(huge_blocks_below_the_least_have_no_record)
{
    struct host host;
    open_host(&host, "");
    run(&host, "local a = string.rep('x', (256 << 10) - 64)");
    struct tide_profile *profile = close_host(&host);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_huge, 0);
    tideP_reader_close(profile);
}

/* An array: its part is a block that grows to the largest it ever was. */
TEST(huge_blocks_that_grow_count_each_time)
{
    struct host host;
    open_host(&host, "");
    run(&host, "local t = {}\n"
               "for i = 1, 70000 do\n"
               "t[i] = i\n"
               "end\n"
               "t = nil collectgarbage()\n");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_huge *huge = find(view, 3, TIDE_KIND_STORAGE);
    CHECK(huge != NULL);
    CHECK_EQ(huge->bytes, 131072 * 16);
    CHECK_EQ(huge->n_blocks, 4); /* to 256 KiB, 512 KiB, 1 MiB, 2 MiB */
    tideP_reader_close(profile);
}

/* The table of strings is known by the next call only. */
TEST(huge_blocks_belong_to_the_kind_they_turn_out_to_be)
{
    struct host host;
    open_host(&host, "");
    run(&host, "local t = {}\n"
               "for i = 1, 140000 do\n"
               "t[i] = 'k' .. i\n"
               "end\n");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_huge *strings = find(view, 3, TIDE_KIND_OTHER);
    const struct tide_p_huge *array = find(view, 3, TIDE_KIND_STORAGE);
    CHECK(strings != NULL && array != NULL);
    CHECK_EQ(strings->bytes, 262144 * 8);
    CHECK_EQ(array->bytes, 262144 * 16);
    tideP_reader_close(profile);
}

/* Forty lines, each with a block of its own size; the smallest have to go. */
TEST(huge_blocks_are_bounded_and_the_largest_stay)
{
    struct host host;
    open_host(&host, "");
    run(&host, "for i = 1, 40 do\n"
               "  local size = (300 + 7 * (i * 17 % 40)) << 10\n"
               "  load(('\\n'):rep(i + 9) .. 'local a, b = ... '\n"
               "       .. 'return a .. b')(('x'):rep(size - 8), 'yyyyyyyy')\n"
               "end\n");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint32_t n = 0;
    CHECK_EQ(view->n_huge, TIDE_P_HUGE_MAX);
    for (uint32_t i = 1; i <= 40; i++) {
        const uint64_t bytes = (300 + 7 * (i * 17 % 40)) << 10;
        const struct tide_p_huge *huge = find(view, i + 10, TIDE_KIND_STRING);
        n += huge != NULL;
        CHECK(huge == NULL ||
              (huge->bytes > bytes && huge->bytes < bytes + 64));
        CHECK((huge != NULL) == (i * 17 % 40 >= 40 - 30));
    }
    CHECK_EQ(n, 30); /* and what the first lines made: a string, a buffer */
    tideP_reader_close(profile);
}

TEST(huge_blocks_are_forgotten_with_all_else)
{
    struct host host;
    open_host(&host, "");
    run(&host, "kept = string.rep('x', 1 << 20)");
    CHECK_EQ(tide_session_reset(host.session), TIDE_OK);
    run(&host, "local b = string.rep('x', 300 << 10)");
    struct tide_profile *profile = close_host(&host);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_huge *huge = find(view, 1, TIDE_KIND_STRING);
    CHECK(huge != NULL && huge->bytes < 301 << 10);
    CHECK_EQ(huge->n_blocks, 1);
    tideP_reader_close(profile);
}

TEST(huge_blocks_after_a_mark_are_not_of_it)
{
    struct host host;
    struct tide_profile *profile;
    struct tide_p_problem problem;
    open_host(&host, "");
    run(&host, "local a = string.rep('x', 300 << 10)");
    CHECK_EQ(tide_session_mark(host.session, "then"), TIDE_OK);
    run(&host, "\nlocal b = string.rep('x', 400 << 10)");
    profile = close_host(&host);
    CHECK(find(tideP_reader_heap(profile, 0), 2, TIDE_KIND_STRING) != NULL);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_reader_open(host.path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_reader_to_mark(profile, "then", &problem), TIDE_OK);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(find(view, 1, TIDE_KIND_STRING) != NULL);
    CHECK(find(view, 2, TIDE_KIND_STRING) == NULL);
    tideP_reader_close(profile);
}
