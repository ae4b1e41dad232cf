/*
** test_reader_objects.c: objects of machine code in a profile, and what cells
** lead to, whole and damaged.
*/
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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
    return profile;
}

/* Opens what has one fault, which is this one. */
static struct tide_profile *damaged(const char *path, const char *text)
{
    struct tide_profile *profile = open_profile(path);
    CHECK_STR(tideP_reader_problem(profile)->text, text);
    return profile;
}

/* A saved profile with two objects, and functions at places in them. */
static const char *make_with_objects(void)
{
    static struct syn_heap heap;
    const char *path = scratch_path("objects.tide");
    const uint32_t state = TIDE_P_CLOSED, flags = 0;
    struct tide_writer *writer;
    CHECK_EQ(tideP_writer_open(NULL, &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    syn_heap_open(writer, &heap);
    for (uint32_t i = 1; i <= 2; i++) {
        const uint32_t object = syn_object(&heap, i == 1 ? "a.so" : "b.so");
        const uint32_t func = syn_func(&heap, TIDE_P_NATIVE, "", "", 0, 16);
        CHECK_EQ(object, i);
        syn_func_at(&heap, func)->object = object;
        syn_func_at(&heap, func)->address = (i << 16) + 0x123;
    }
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    scratch_patch(path, offsetof(struct tide_p_header, state), &state, 4);
    scratch_patch(path, offsetof(struct tide_p_header, flags), &flags, 4);
    return path;
}

TEST(reader_objects_are_read_with_their_paths_and_build_ids)
{
    struct tide_profile *profile = open_profile(make_with_objects());
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(view->n_objects, 3);
    CHECK_STR(tideP_view_string(view, view->objects[0].path, NULL), "");
    CHECK_STR(tideP_view_string(view, view->objects[2].path, NULL), "b.so");
    CHECK_EQ(view->objects[2].build_id_bytes, 20);
    CHECK_EQ(view->objects[2].build_id[19], 59);
    CHECK_EQ(view->objects[1].end, 0x20000);
    CHECK_EQ(view->funcs[2].object, 2);
    CHECK_EQ(view->funcs[2].lastline, 16);
    walk_profile(profile);
    tideP_reader_close(profile);
}

TEST(reader_what_an_object_names_exists)
{
    const char *path = make_with_objects();
    PATCH(path, TIDE_P_OBJECTS, tide_p_object, 1, path, 9);
    struct tide_profile *profile =
        damaged(path, "heap 0, object 1: no such path");
    CHECK_EQ(tideP_reader_heap(profile, 0)->objects[1].path, TIDE_P_NONE);
    tideP_reader_close(profile);
    path = make_with_objects();
    PATCH(path, TIDE_P_OBJECTS, tide_p_object, 2, build_id_bytes, 33);
    profile = damaged(path, "heap 0, object 2: build id is too long");
    CHECK_EQ(tideP_reader_heap(profile, 0)->objects[2].build_id_bytes, 0);
    tideP_reader_close(profile);
}

TEST(reader_functions_name_objects_that_exist)
{
    const uint32_t bad[] = {3, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = make_with_objects();
        PATCH(path, TIDE_P_FUNCS, tide_p_func, 2, object, bad[i]);
        struct tide_profile *profile =
            damaged(path, "heap 0, function 2: no such object");
        CHECK_EQ(tideP_reader_heap(profile, 0)->funcs[2].object, 0);
        CHECK_EQ(tideP_reader_heap(profile, 0)->n_funcs, 3);
        tideP_reader_close(profile);
    }
    const char *path = make_with_objects();
    PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, n_objects, 2);
    tideP_reader_close(damaged(path, "heap 0, function 2: no such object"));
}

/* ---- what stands beside cells ---- */

/* The heap must stay where it is until the writer is closed. */
static const char *save_cells(struct syn_heap *heap,
                              struct tide_writer **writer)
{
    const char *path = scratch_path("cells.tide");
    const struct syn_shape shape = {.seed = 3, .n_nodes = 60};
    CHECK_EQ(tideP_writer_open(NULL, writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(*writer));
    syn_fill(*writer, &shape, 0, heap);
    tideP_writer_header(*writer)->state = TIDE_P_CLOSED;
    CHECK_EQ(tideP_writer_save(*writer, path), TIDE_OK);
    return path;
}

static const char *make_cells(void)
{
    static struct syn_heap heap;
    struct tide_writer *writer;
    const char *path = save_cells(&heap, &writer);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    return path;
}

static bool is_empty(const void *record, size_t bytes)
{
    static const unsigned char zeros[sizeof(struct tide_p_life)];
    return memcmp(record, zeros, bytes) == 0;
}

TEST(reader_objects_cells_have_what_they_lead_to)
{
    static struct syn_heap heap;
    struct tide_writer *writer;
    struct tide_profile *profile = open_profile(save_cells(&heap, &writer));
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint32_t n_lives = 1, n_floors = 1;
    CHECK_EQ(view->n_cells, heap.head->n_cells);
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_p_life *life = &view->lives[i];
        const struct tide_p_floor *floor = &view->floors[i];
        if (!is_empty(life, sizeof *life) && ++n_lives != 0)
            CHECK(memcmp(life, syn_life(&heap, i), sizeof *life) == 0);
        if (!is_empty(floor, sizeof *floor) && ++n_floors != 0)
            CHECK(memcmp(floor, syn_floor(&heap, i), sizeof *floor) == 0);
    }
    CHECK(n_lives > 30 && n_floors > 10);
    CHECK_EQ(n_lives, heap.head->n_lives);
    CHECK_EQ(n_floors, heap.head->n_floors);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

/* The same cell without its index of a sort; the others as they are. */
static void check_without(const struct tide_profile *good, const char *path,
                          uint32_t cell, const char *fault)
{
    const struct tide_p_view *before = tideP_reader_heap(good, 0);
    char text[80];
    snprintf(text, sizeof text, "heap 0, cell %u: %s", cell, fault);
    struct tide_profile *profile = damaged(path, text);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_cells, before->n_cells);
    for (uint32_t i = 1; i < view->n_cells; i++)
        CHECK_EQ(memcmp(&view->cells[i], &before->cells[i],
                        sizeof view->cells[i]) != 0,
                 i == cell);
    CHECK_EQ(view->cells[cell].alloc_bytes, before->cells[cell].alloc_bytes);
    tideP_reader_close(profile);
}

/* What a cell in the file leads to. */
static uint32_t rest_in(const char *path, uint32_t cell)
{
    size_t bytes = 0;
    unsigned char *data = scratch_read(path, &bytes);
    struct tide_p_cell record;
    memcpy(&record,
           data + section_at(path, 0, TIDE_P_CELLS) + cell * sizeof record,
           sizeof record);
    free(data);
    CHECK(record.rest != 0);
    return record.rest;
}

TEST(reader_objects_what_a_cell_leads_to_is_its_own_and_there)
{
    struct tide_profile *good = open_profile(make_cells());
    const struct tide_p_view *view = tideP_reader_heap(good, 0);
    uint32_t cell = 2; /* one with a rest and a life */
    while (view->cells[cell].closed_bytes == 0 ||
           view->lives[cell].once_bytes == 0)
        cell++;
    const char *path = make_cells();
    PATCH(path, TIDE_P_CELLS, tide_p_cell, cell, rest, rest_in(path, 1));
    check_without(good, path, cell, "no such rest");
    path = make_cells();
    PATCH(path, TIDE_P_CELLS, tide_p_cell, cell, rest, UINT32_MAX);
    check_without(good, path, cell, "no such rest");
    path = make_cells();
    PATCH(path, TIDE_P_CELLS, tide_p_cell, cell, life, 1000);
    check_without(good, path, cell, "no such life");
    tideP_reader_close(good);
}

TEST(reader_objects_a_running_profile_may_lead_to_what_is_not_counted_yet)
{
    const char *path = make_cells();
    const uint32_t running = TIDE_P_RUNNING;
    scratch_patch(path, offsetof(struct tide_p_header, state), &running,
                  sizeof running);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 2, rest, 4000000);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 3, life, 4000000);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 4, floor, 4000000);
    struct tide_profile *profile = open_profile(path);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    walk_profile(profile);
    tideP_reader_close(profile);
}

TEST(reader_peak_figures_follow_the_epoch)
{
    struct tide_p_heap head = {.peak_epoch = 5, .peak_is_past = 1};
    struct tide_cell cell = {.peak_epoch = 5,
                             .alloc_bytes = 100,
                             .alloc_blocks = 10,
                             .freed_bytes = 60,
                             .freed_blocks = 6,
                             .moved_bytes = -10,
                             .moved_blocks = -1,
                             .peak_bytes = 90,
                             .peak_blocks = 9};
    CHECK_EQ(tideP_cell_live_bytes(&cell), 30);
    CHECK_EQ(tideP_cell_live_blocks(&cell), 3);
    CHECK_EQ(tideP_cell_peak_bytes(&head, &cell), 90);
    CHECK_EQ(tideP_cell_peak_blocks(&head, &cell), 9);
    cell.peak_epoch = 4;
    CHECK_EQ(tideP_cell_peak_bytes(&head, &cell), 30);
    CHECK_EQ(tideP_cell_peak_blocks(&head, &cell), 3);
    cell.peak_epoch = 5;
    head.peak_is_past = 0;
    CHECK_EQ(tideP_cell_peak_bytes(&head, &cell), 30);
}
