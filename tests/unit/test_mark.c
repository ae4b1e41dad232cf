/*
** test_mark.c: what a profile was at a mark, on profiles whose every figure is
** known.
*/
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../profile/reader.h"
#include "../../report/model.h"
#include "../tap.h"
#include "damage.h"
#include "scratch.h"
#include "synthetic.h"
#include "walk.h"

#define SECOND UINT64_C(1000000000)

/*
** Two lines.  At mark "a" line 1 has 1000 bytes in 10 blocks and line 2 none;
** at "b" line 2 has 600 in 3, of which 200 in 1 were freed; at the end line 1
** has 5000 in 50.
*/
static struct syn_heap made;
static uint32_t cells[2];

static void mark(const char *label, uint64_t at_ns, uint8_t flags,
                 uint32_t epoch, bool has_snaps, uint32_t skip)
{
    const struct tide_cell now[2] = {syn_cell_now(&made, cells[0]),
                                     syn_cell_now(&made, cells[1])};
    const struct tide_p_mark record = {
        .mono_ns = at_ns,
        .live_bytes =
            tideP_cell_live_bytes(&now[0]) + tideP_cell_live_bytes(&now[1]),
        .peak_bytes = 1000,
        .label = syn_string(&made, label),
        .peak_epoch = epoch,
        .flags = flags,
    };
    syn_mark(&made, &record, has_snaps, skip);
}

static void set(uint32_t i, uint64_t bytes, uint64_t blocks, uint64_t freed,
                uint64_t freed_blocks)
{
    struct tide_p_cell *cell = syn_cell_at(&made, cells[i]);
    cell->alloc_bytes = bytes;
    cell->alloc_blocks = blocks;
    cell->freed_bytes = freed;
    cell->freed_blocks = freed_blocks;
}

static const char *make(bool has_lost)
{
    struct tide_writer *writer;
    const char *path = scratch_path("marks.tide");
    unlink(path);
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    syn_heap_open(writer, &made);
    made.head->open_mono_ns = SECOND;
    made.head->peak_epoch = 2;
    const uint32_t f = syn_func(&made, TIDE_P_LUA, "@m.lua", "f", 1, 9);
    for (uint32_t i = 0; i < 2; i++)
        cells[i] =
            syn_cell(&made, syn_node(&made, 0, f, 1 + i), TIDE_KIND_TABLE);
    syn_rest(&made, cells[1])->inherited_bytes = 64;
    syn_rest(&made, cells[1])->inherited_blocks = 1;
    set(0, 1000, 10, 0, 0);
    mark("a", 2 * SECOND, TIDE_P_MARK_IS_WHOLE, 2, !has_lost, cells[1]);
    set(1, 600, 3, 200, 1);
    mark("b", 3 * SECOND, 0, 2, true, cells[0]);
    set(0, 2000, 20, 0, 0);
    mark("a", 4 * SECOND, 0, 3, true, cells[1]);
    mark("gone", 5 * SECOND, 0, 3, false, 4);
    set(0, 5000, 50, 0, 0);
    for (uint64_t s = 2; s <= 5; s++)
        syn_cycle(&made, &(struct tide_p_cycle){.atomic_mono_ns = s * SECOND,
                                                .n = (uint32_t)s - 1});
    made.head->gc_cycle = 4;
    syn_heap_close(&made);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    return path;
}

static struct tide_profile *at(const char *path, const char *label,
                               enum tide_err want)
{
    struct tide_profile *profile;
    struct tide_p_problem problem = {.err = TIDE_OK};
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(tideP_reader_to_mark(profile, label, &problem), want);
    CHECK_EQ(problem.err, want);
    walk_profile(profile);
    return profile;
}

static void check_cell(const struct tide_profile *profile, uint32_t i,
                       uint64_t alloc, uint64_t freed, uint64_t live,
                       uint64_t peak)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_cell *cell = &view->cells[cells[i]];
    CHECK_EQ(cell->alloc_bytes, alloc);
    CHECK_EQ(cell->freed_bytes, freed);
    CHECK_EQ(tideP_cell_live_bytes(cell), live);
    CHECK_EQ(cell->closed_bytes, 0);
    CHECK_EQ(tideP_cell_peak_bytes(view->head, cell), peak);
}

TEST(mark_shows_what_cells_were)
{
    const char *path = make(false);
    struct tide_profile *profile = at(path, "b", TIDE_OK);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    check_cell(profile, 0, 1000, 0, 1000, 1000); /* from the mark before */
    check_cell(profile, 1, 600, 200, 464, 464);
    CHECK_EQ(view->n_cycles, 2);
    CHECK_EQ(view->n_marks, 2);
    CHECK_EQ(view->head->state, TIDE_P_HEAP_OPEN);
    CHECK_EQ(tideP_reader_header(profile)->end_mono_ns, 3 * SECOND);
    tideP_reader_close(profile);
}

TEST(mark_of_a_name_that_comes_twice_is_the_last)
{
    const char *path = make(false);
    struct tide_profile *profile = at(path, "a", TIDE_OK);
    check_cell(profile, 0, 2000, 0, 2000, 2000);
    /* noted at another peak: what it held then */
    check_cell(profile, 1, 600, 200, 464, 464);
    tideP_reader_close(profile);
    profile = at(path, "a#1", TIDE_OK);
    check_cell(profile, 0, 1000, 0, 1000, 1000);
    check_cell(profile, 1, 0, 0, 64, 64); /* what was inherited */
    tideP_reader_close(profile);
    profile = at(path, "a#2", TIDE_OK);
    check_cell(profile, 0, 2000, 0, 2000, 2000);
    tideP_reader_close(profile);
}

TEST(mark_that_is_not_there_changes_nothing)
{
    const char *path = make(false);
    static const char *const labels[] = {"c",  "a#3",  "a#0",   "a#",
                                         "#1", "gone", "gone#1"};
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        struct tide_profile *profile = at(path, labels[i], TIDE_ERR_ARG);
        CHECK_EQ(tideP_reader_heap(profile, 0)->cells[cells[0]].alloc_bytes,
                 5000);
        CHECK_EQ(tideP_reader_heap(profile, 0)->n_marks, 4);
        tideP_reader_close(profile);
    }
}

TEST(mark_without_what_it_stands_on_is_a_fault)
{
    const char *path = make(true); /* "b" says that "a" has a snapshot */
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text,
              "heap 0, mark 1: no such snapshot");
    CHECK_EQ(tideP_reader_to_mark(profile, "b", &problem), TIDE_ERR_ARG);
    walk_profile(profile);
    tideP_reader_close(profile);
}

TEST(mark_in_the_name_of_a_file)
{
    const char *path = make(false);
    char name[4200];
    struct tide_model *model;
    struct tide_p_problem problem;
    snprintf(name, sizeof name, "%s@b", path);
    CHECK_EQ(tideR_model_open(name, &model, &problem), TIDE_OK);
    CHECK_STR(model->at_mark, "b");
    CHECK_EQ(model->totals.alloc_bytes, 1600);
    CHECK_EQ(model->totals.live_bytes, 1464);
    CHECK_EQ(model->n_marks, 2);
    tideR_model_close(model);
    snprintf(name, sizeof name, "%s@nothing", path);
    CHECK_EQ(tideR_model_open(name, &model, &problem), TIDE_ERR_ARG);
    CHECK_STR(problem.text, "no mark is called 'nothing'");
    /* a file of that whole name comes first */
    snprintf(name, sizeof name, "%s@b", path);
    CHECK(link(path, name) == 0);
    CHECK_EQ(tideR_model_open(name, &model, &problem), TIDE_OK);
    CHECK(model->at_mark == NULL);
    CHECK_EQ(model->totals.alloc_bytes, 5600);
    CHECK_EQ(model->n_marks, 4);
    tideR_model_close(model);
    CHECK(unlink(name) == 0);
}

TEST(mark_of_a_failure_has_every_cell)
{
    const struct syn_shape shape = {
        .seed = 4, .n_heaps = 2, .n_cycles = 3, .n_marks = 9};
    const char *path = scratch_path("a.tide");
    syn_write(path, &shape);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_marks, 10);
    CHECK(view->failed == &view->marks[4]);
    uint64_t held = 0, live = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        held += view->held[i].bytes;
        live += tideP_cell_live_bytes(&view->cells[i]);
    }
    CHECK(live > 0);
    CHECK_EQ(held, live); /* its cells do not change */
    CHECK_EQ(tideP_reader_to_mark(profile, "mark 2", &problem), TIDE_OK);
    walk_profile(profile);
    tideP_reader_close(profile);
}

/* ---- damage ---- */

/* Writes a word into a record of a section of heap 0. */
static void damage(const char *path, enum tide_p_section id, size_t offset,
                   uint32_t word)
{
    scratch_patch(path, section_at(path, 0, id) + offset, &word, sizeof word);
}

static void check_damaged(enum tide_p_section id, size_t offset, uint32_t word,
                          const char *text, uint32_t n_marks, bool has_rows,
                          bool has_held)
{
    const struct syn_shape shape = {
        .seed = 4, .n_cycles = 3, .n_nodes = 60, .n_marks = 3};
    const char *path = scratch_path("damaged.tide");
    struct tide_profile *profile;
    struct tide_p_problem problem;
    syn_write(path, &shape);
    damage(path, id, offset, word);
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, text);
    CHECK(tideP_check(profile, true, NULL, NULL) > 0);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_marks, n_marks);
    CHECK_EQ(view->marks[n_marks - 1].flags != 0, has_rows);
    CHECK_EQ(view->held != NULL, has_held);
    walk_profile(profile);
    tideP_reader_close(profile);
}

TEST(mark_that_belongs_nowhere_is_left_out)
{
    const size_t mark = sizeof(struct tide_p_mark);
    check_damaged(TIDE_P_SNAPS, 5 * sizeof(struct tide_p_snap), 0,
                  "heap 0, snapshot 5: no such cell", 4, false, false);
    check_damaged(TIDE_P_MARKS, offsetof(struct tide_p_mark, node), 60,
                  "heap 0, mark 0: no such node", 3, false, false);
    check_damaged(TIDE_P_MARKS, 2 * mark + offsetof(struct tide_p_mark, label),
                  0xffffu, "heap 0, mark 2: no such label", 3, false, true);
    check_damaged(TIDE_P_MARKS, 3 * mark + offsetof(struct tide_p_mark, what),
                  TIDE_P_MARK_COUNT_, "heap 0, mark 3: unknown sort", 3, true,
                  true);
    check_damaged(TIDE_P_MARKS, offsetof(struct tide_p_mark, n_snaps),
                  UINT32_MAX, "heap 0, mark 0: no such snapshot", 4, false,
                  false);
}
