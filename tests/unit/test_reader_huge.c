/*
** test_reader_huge.c: records of huge blocks in a profile, whole and damaged.
*/
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../profile/merge.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "damage.h"
#include "scratch.h"
#include "synthetic.h"
#include "walk.h"

static struct tide_p_problem g_problem; /* of the last opening */

static struct tide_profile *open_profile(const char *path)
{
    struct tide_profile *profile;
    CHECK_EQ(tideP_reader_open(path, &profile, &g_problem), TIDE_OK);
    walk_profile(profile);
    walk_lean(path, profile);
    return profile;
}

/* A saved and closed profile of one heap with three records. */
static const char *make(void)
{
    static struct syn_heap heap;
    const struct syn_shape shape = {.seed = 1, .n_nodes = 60, .n_funcs = 34};
    const char *path = scratch_path("huge.tide");
    const uint32_t state = TIDE_P_CLOSED, flags = 0;
    struct tide_writer *writer;
    unlink(path);
    CHECK_EQ(tideP_writer_open(NULL, &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    syn_fill(writer, &shape, 0, &heap);
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    scratch_patch(path, offsetof(struct tide_p_header, state), &state, 4);
    scratch_patch(path, offsetof(struct tide_p_header, flags), &flags, 4);
    return path;
}

/* Overwrites a word of the head. */
static void patch_head(const char *path, size_t offset, const void *value,
                       size_t value_bytes)
{
    scratch_patch(path, section_at(path, 0, TIDE_P_HEAD) + offset, value,
                  value_bytes);
}

static void patch_cell(const char *path, uint32_t i, uint32_t cell)
{
    patch_head(path, offsetof(struct tide_p_heap, huge[i].cell), &cell,
               sizeof cell);
}

static void patch_bytes(const char *path, uint32_t i, uint64_t huge_bytes)
{
    patch_head(path, offsetof(struct tide_p_heap, huge[i].bytes), &huge_bytes,
               sizeof huge_bytes);
}

/* The profile has this problem, "" for none, and so many records. */
static void check_huge(const char *path, const char *problem, uint32_t n)
{
    struct tide_profile *profile = open_profile(path);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_STR(tideP_reader_problem(profile)->text, problem);
    CHECK_EQ(view->n_huge, n);
    for (uint32_t i = 0; i < n; i++)
        CHECK(view->huge[i].bytes > TIDE_P_HUGE_LEAST);
    tideP_reader_close(profile);
}

TEST(reader_huge_blocks_are_what_was_written)
{
    struct tide_profile *profile = open_profile(make());
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_huge, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct tide_p_huge *huge = &view->huge[i];
        CHECK_EQ(huge->cell, i + 1);
        CHECK_EQ(huge->bytes, TIDE_P_HUGE_LEAST + (i + 1) * 1000);
        CHECK_EQ(huge->mono_ns, view->head->open_mono_ns + 1000000 * (i + 1));
        CHECK_EQ(huge->n_blocks, i + 1);
        CHECK_EQ(huge->cycle, i);
    }
    tideP_reader_close(profile);
}

TEST(reader_huge_blocks_of_no_cell_are_left_out)
{
    const uint32_t bad[] = {0, 100000, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = make();
        patch_cell(path, 1, bad[i]);
        check_huge(path, "heap 0, huge block 1: no such cell", 2);
    }
    const char *path = make();
    patch_cell(path, 2, 1);
    check_huge(path, "heap 0, huge block 2: is there twice", 2);
    path = make();
    patch_bytes(path, 0, TIDE_P_HUGE_LEAST - 1);
    check_huge(path, "heap 0, huge block 0: is not huge", 2);
}

TEST(reader_huge_blocks_are_no_more_than_there_is_room)
{
    const uint32_t bad[] = {TIDE_P_HUGE_MAX + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[80];
        const char *path = make();
        patch_head(path, offsetof(struct tide_p_heap, n_huge), &bad[i], 4);
        snprintf(text, sizeof text,
                 "heap 0, huge block %u: there are never so many", bad[i]);
        check_huge(path, text, 0);
    }
}

TEST(reader_a_huge_block_that_is_being_replaced_is_no_fault)
{
    const char *path = make();
    patch_bytes(path, 0, 0);
    check_huge(path, "", 2);
}

TEST(reader_huge_blocks_of_merged_profiles_keep_their_time)
{
    const char *first = make();
    const char *both = scratch_path("both.tide");
    struct tide_profile *profiles[2] = {open_profile(first),
                                        open_profile(first)};
    CHECK_EQ(tideP_merge((const struct tide_profile *const *)profiles, 2, both),
             TIDE_OK);
    struct tide_profile *merged = open_profile(both);
    CHECK_EQ(tideP_reader_n_heaps(merged), 2);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(memcmp(tideP_reader_heap(merged, i)->huge,
                     tideP_reader_heap(profiles[0], 0)->huge,
                     3 * sizeof(struct tide_p_huge)) == 0);
    tideP_reader_close(merged);
    tideP_reader_close(profiles[0]);
    tideP_reader_close(profiles[1]);
}

TEST(reader_huge_blocks_of_another_day_are_brought_to_one_clock)
{
    const uint64_t day_ns = UINT64_C(86400000000000);
    const char *first = make();
    const char *second = scratch_path("later.tide");
    struct tide_profile *profile = open_profile(first);
    const uint64_t unix_ns =
        tideP_reader_header(profile)->start_unix_ns + day_ns;
    size_t bytes = 0;
    unsigned char *file = scratch_read(first, &bytes);
    scratch_write(second, file, bytes);
    free(file);
    scratch_patch(second, offsetof(struct tide_p_header, start_unix_ns),
                  &unix_ns, sizeof unix_ns);
    struct tide_profile *profiles[2] = {profile, open_profile(second)};
    const char *both = scratch_path("both.tide");
    CHECK_EQ(tideP_merge((const struct tide_profile *const *)profiles, 2, both),
             TIDE_OK);
    struct tide_profile *merged = open_profile(both);
    for (uint32_t i = 0; i < 3; i++)
        CHECK_EQ(tideP_reader_heap(merged, 1)->huge[i].mono_ns,
                 tideP_reader_heap(profile, 0)->huge[i].mono_ns + day_ns);
    tideP_reader_close(merged);
    tideP_reader_close(profiles[0]);
    tideP_reader_close(profiles[1]);
}
