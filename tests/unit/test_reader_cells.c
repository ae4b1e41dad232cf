/*
** test_reader_cells.c: a profile that is opened lean says what one says that is
** opened whole, cell by cell, whatever is wrong with it.
*/
#include <stddef.h>
#include <stdlib.h>

#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"
#include "walk.h"

static const char *make_random(uint64_t seed, uint32_t n_nodes,
                               uint32_t n_heaps)
{
    const char *path = scratch_path("random.tide");
    syn_write(path, &(struct syn_shape){.seed = seed,
                                        .n_heaps = n_heaps,
                                        .n_funcs = 40,
                                        .n_nodes = n_nodes,
                                        .n_cycles = 6});
    return path;
}

/* Cells of all heaps; -1 when the file cannot be opened at all. */
static int64_t compare(const char *path)
{
    struct tide_profile *whole;
    struct tide_p_problem problem;
    int64_t n = 0;
    if (tideP_reader_open(path, &whole, &problem) != TIDE_OK)
        return -1;
    walk_lean(path, whole);
    for (uint32_t i = 0; i < tideP_reader_n_heaps(whole); i++)
        n += tideP_reader_heap(whole, i)->n_cells;
    tideP_reader_close(whole);
    return n;
}

TEST(reader_cells_lean_is_whole)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        CHECK(compare(make_random(seed, 300, (uint32_t)seed)) > 300);
    CHECK(compare(make_random(9, 30000, 1)) > 30000); /* many chunks */
}

TEST(reader_cells_lean_is_whole_when_bytes_are_wrong)
{
    const char *path = make_random(7, 200, 2);
    size_t bytes = 0;
    uint64_t rng = 11;
    unsigned char *data = scratch_read(path, &bytes);
    const struct tide_p_header *header = (void *)data;
    const size_t front = TIDE_P_DATA_OFFSET(header->extents_max);
    unsigned n_read = 0;
    for (unsigned i = 0; i < 600; i++) {
        const size_t at = front + syn_random(&rng) % (bytes - front);
        const unsigned char byte = (unsigned char)syn_random(&rng);
        scratch_patch(path, at, &byte, 1);
        n_read += compare(path) >= 0;
        if (i % 20 == 19)
            scratch_write(path, data, bytes);
    }
    CHECK_EQ(n_read, 600);
    free(data);
}

TEST(reader_cells_lean_is_whole_when_the_file_is_cut)
{
    const char *path = make_random(3, 2000, 1);
    size_t bytes = 0;
    unsigned n_read = 0;
    free(scratch_read(path, &bytes));
    for (size_t n = bytes; n > 10007; n -= 10007) {
        CHECK(truncate(path, (off_t)n) == 0);
        n_read += compare(path) >= 0;
    }
    CHECK(n_read > 10);
}

static enum tide_err stop_at_third(void *ctx, uint32_t index,
                                   const struct tide_cell *cell,
                                   const struct tide_p_life *life)
{
    (void)cell, (void)life;
    *(uint32_t *)ctx = index;
    return index == 3 ? TIDE_ERR_STATE : TIDE_OK;
}

static enum tide_err go_on(void *ctx, uint32_t index,
                           const struct tide_cell *cell,
                           const struct tide_p_life *life)
{
    (void)cell, (void)life;
    *(uint32_t *)ctx = index;
    return TIDE_OK;
}

TEST(reader_cells_ends_when_told)
{
    const char *path = make_random(5, 100, 1);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    uint32_t last = 0;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_reader_each_cell(profile, 0, stop_at_third, &last),
             TIDE_ERR_STATE);
    CHECK_EQ(last, 3);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_reader_open_lean(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_reader_each_cell(profile, 0, stop_at_third, &last),
             TIDE_ERR_STATE);
    CHECK_EQ(last, 3);
    tideP_reader_close(profile);
}

TEST(reader_cells_a_file_cut_since_it_was_opened)
{
    const char *path = make_random(6, 5000, 1);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    uint32_t last = 0;
    CHECK_EQ(tideP_reader_open_lean(path, &profile, &problem), TIDE_OK);
    const uint32_t n = tideP_reader_heap(profile, 0)->n_cells;
    CHECK_EQ(tideP_reader_each_cell(profile, 0, go_on, &last), TIDE_OK);
    CHECK_EQ(last, n - 1);
    CHECK(truncate(path, 4096) == 0);
    CHECK_EQ(tideP_reader_each_cell(profile, 0, go_on, &last), TIDE_ERR_IO);
    tideP_reader_close(profile);
}

TEST(reader_cells_lean_lets_go_of_nodes)
{
    const char *path = make_random(8, 100, 1);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open_lean(path, &profile, &problem), TIDE_OK);
    CHECK(tideP_reader_heap(profile, 0)->cells == NULL);
    tideP_reader_drop_nodes(profile, 0);
    CHECK(tideP_reader_heap(profile, 0)->nodes == NULL);
    uint32_t last = 0;
    CHECK_EQ(tideP_reader_each_cell(profile, 0, go_on, &last), TIDE_OK);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    tideP_reader_drop_nodes(profile, 0); /* whole: they stay */
    CHECK_EQ(tideP_reader_heap(profile, 0)->nodes[0].parent, 0);
    tideP_reader_close(profile);
}
