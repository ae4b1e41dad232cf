/*
** test_reader.c: profiles that are whole, live, cut and damaged.
**
** Whatever the file, opening it must end in a clear refusal or in views that
** may be followed blindly: walk_profile does that, best under a sanitizer.
*/
#include "../../profile/reader.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tap.h"
#include "damage.h"
#include "scratch.h"
#include "synthetic.h"
#include "walk.h"

/* ---- helpers ------------------------------------------------------------ */

static struct tide_p_problem g_problem; /* of the last look */

/* Opens, walks and closes; the first problem's text, "" when there is none. */
static const char *look(const char *path, enum tide_err *err)
{
    struct tide_profile *profile = NULL;
    *err = tideP_reader_open(path, &profile, &g_problem);
    CHECK((*err == TIDE_OK) == (profile != NULL));
    if (*err == TIDE_OK) {
        walk_profile(profile);
        tideP_check(profile, true, NULL, NULL);
        g_problem = *tideP_reader_problem(profile);
        tideP_reader_close(profile);
    }
    CHECK((g_problem.err == TIDE_OK) == (g_problem.text[0] == '\0'));
    return g_problem.text;
}

static struct tide_profile *open_profile(const char *path)
{
    struct tide_profile *profile;
    CHECK_EQ(tideP_reader_open(path, &profile, &g_problem), TIDE_OK);
    return profile;
}

/* A small, compact, closed profile: what most tests damage. */
static const char *make_compact(uint64_t seed)
{
    static struct syn_heap heaps[2];
    const struct syn_shape shape = {.seed = seed,
                                    .n_nodes = 60,
                                    .n_funcs = 34,
                                    .n_cycles = 4,
                                    .n_targets = 8,
                                    .n_marks = 3};
    const char *path = scratch_path("compact.tide");
    const uint32_t state = TIDE_P_CLOSED, flags = 0;
    struct tide_writer *writer;
    unlink(path);
    CHECK_EQ(tideP_writer_open(NULL, &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    syn_fill(writer, &shape, 0, &heaps[0]);
    syn_fill(writer, &shape, 1, &heaps[1]);
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    scratch_patch(path, offsetof(struct tide_p_header, state), &state, 4);
    scratch_patch(path, offsetof(struct tide_p_header, flags), &flags, 4);
    return path;
}

#define PATCH_HEADER(path, field, value)                                       \
 do {                                                                          \
  struct tide_p_header patch_;                                                 \
  patch_.field = (value);                                                      \
  scratch_patch(path, offsetof(struct tide_p_header, field), &patch_.field,    \
                sizeof patch_.field);                                          \
 } while (0)

#define PATCH_EXTENT(path, index, field, value)                                \
 do {                                                                          \
  struct tide_p_extent patch_;                                                 \
  patch_.field = (value);                                                      \
  scratch_patch(path,                                                          \
                TIDE_P_HEADER_BYTES + (index) * sizeof patch_ +                \
                    offsetof(struct tide_p_extent, field),                     \
                &patch_.field, sizeof patch_.field);                           \
 } while (0)

/* ---- whole profiles ----------------------------------------------------- */

static void check_same(const void *a, const void *b, size_t bytes)
{
    CHECK(bytes == 0 || memcmp(a, b, bytes) == 0);
}

static void check_same_heap(const struct tide_p_view *view,
                            struct syn_heap *heap)
{
    const struct tide_section *s = heap->sections;
    CHECK_EQ(view->problem.err, TIDE_OK);
    CHECK_EQ(view->string_bytes, heap->head->string_bytes);
    CHECK_EQ(view->n_funcs, heap->head->n_funcs);
    CHECK_EQ(view->n_nodes, heap->head->n_nodes);
    CHECK_EQ(view->n_cells, heap->head->n_cells);
    CHECK_EQ(view->n_cycles, heap->head->n_cycles);
    check_same(view->head, heap->head, sizeof *view->head);
    check_same(view->strings, s[TIDE_P_STRINGS].base, view->string_bytes);
    check_same(view->funcs, s[TIDE_P_FUNCS].base,
               view->n_funcs * sizeof *view->funcs);
    check_same(view->nodes, s[TIDE_P_NODES].base,
               view->n_nodes * sizeof *view->nodes);
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell cell = syn_cell_now(heap, i);
        check_same(&view->cells[i], &cell, sizeof cell);
    }
    check_same(view->cycles, s[TIDE_P_CYCLES].base,
               view->n_cycles * sizeof *view->cycles);
}

TEST(reader_gives_back_what_was_written)
{
    const char *paths[2] = {scratch_path("a.tide"), scratch_path("b.tide")};
    static struct syn_heap heaps[3];
    struct tide_writer *writer;
    CHECK_EQ(tideP_writer_open(paths[0], &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    for (uint32_t i = 0; i < 3; i++) {
        const struct syn_shape shape = {.seed = i,
                                        .n_nodes = 1 + i * 20000,
                                        .n_funcs = 1 + i * 300,
                                        .n_cycles = i * 700};
        syn_fill(writer, &shape, i, &heaps[i]);
    }
    CHECK_EQ(tideP_writer_save(writer, paths[1]), TIDE_OK);
    for (int copy = 0; copy < 2; copy++) {
        struct tide_profile *profile = open_profile(paths[copy]);
        const struct tide_p_header *h = tideP_reader_header(profile);
        CHECK_STR(tideP_reader_problem(profile)->text, "");
        CHECK_EQ(tideP_reader_n_heaps(profile), 3);
        CHECK_EQ(h->pid, 4242);
        CHECK_STR(h->lua, "Lua 5.4.4");
        CHECK_STR(h->program, "/usr/bin/lua5.4");
        CHECK_EQ(h->command_bytes, 22);
        CHECK_STR(h->command + 7, "app.lua");
        for (uint32_t i = 0; i < 3; i++)
            check_same_heap(tideP_reader_heap(profile, i), &heaps[i]);
        CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
        tideP_reader_close(profile);
    }
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(reader_strings_hold_any_byte)
{
    const char *path = scratch_path("a.tide");
    static struct syn_heap heap;
    static char longest[TIDE_P_STRING_MAX];
    struct tide_writer *writer;
    size_t bytes;
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_OK);
    syn_heap_open(writer, &heap);
    memset(longest, 'l', sizeof longest);
    const uint32_t f = syn_func(&heap, TIDE_P_LUA, "@x.lua", "", 1, 2);
    const uint32_t g = syn_func(&heap, TIDE_P_LUA, "@y.lua", "g", 1, 2);
    syn_func_at(&heap, f)->name = syn_bytes(&heap, "a\0b\n\xff", 5);
    syn_func_at(&heap, g)->name = syn_bytes(&heap, longest, sizeof longest);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    struct tide_profile *profile = open_profile(path);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const char *name = tideP_view_string(view, view->funcs[f].name, &bytes);
    CHECK_EQ(bytes, 5);
    CHECK(memcmp(name, "a\0b\n\xff", 6) == 0);
    name = tideP_view_string(view, view->funcs[g].name, &bytes);
    CHECK_EQ(bytes, TIDE_P_STRING_MAX);
    CHECK(memcmp(name, longest, sizeof longest) == 0);
    CHECK_STR(tideP_view_string(view, view->funcs[f].source, NULL), "@x.lua");
    CHECK_STR(tideP_view_string(view, TIDE_P_NONE, &bytes), "");
    CHECK_EQ(bytes, 0);
    CHECK_STR(tideP_view_string(view, UINT32_MAX, &bytes), "");
    CHECK_STR(tideP_view_string(view, UINT32_MAX - 3, &bytes), "");
    CHECK_STR(tideP_view_string(view, view->string_bytes, &bytes), "");
    tideP_reader_close(profile);
}

TEST(reader_a_heap_with_nothing_in_it)
{
    const char *path = scratch_path("a.tide");
    static struct tide_section head;
    struct tide_writer *writer;
    enum tide_err err;
    uint32_t heap;
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_OK);
    CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_OK);
    /* Between these two a live profile has a heap without a head. */
    CHECK_STR(look(path, &err), "");
    struct tide_profile *profile = open_profile(path);
    CHECK_EQ(tideP_reader_n_heaps(profile), 0);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_section_open(writer, heap, TIDE_P_HEAD, 4096, &head),
             TIDE_OK);
    CHECK_STR(look(path, &err), "");
    profile = open_profile(path);
    CHECK_EQ(tideP_reader_n_heaps(profile), 1);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_funcs, 1);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_nodes, 1);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_cells, 1);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK_STR(look(path, &err), "heap 0: a count is 0 that is at least 1");
}

/* ---- what is no profile ------------------------------------------------- */

static void check_refused(const char *path, enum tide_err want,
                          const char *text)
{
    enum tide_err err;
    CHECK_STR(look(path, &err), text);
    CHECK_EQ(err, want);
}

TEST(reader_says_why_a_file_cannot_be_read)
{
    const char *path = scratch_path("a.tide"), *fifo = scratch_path("fifo");
    check_refused(path, TIDE_ERR_IO, "No such file or directory");
    check_refused(scratch_dir(), TIDE_ERR_IO, "Is a directory");
    CHECK(mkfifo(fifo, 0600) == 0);
    check_refused(fifo, TIDE_ERR_FORMAT, "not a regular file");
    check_refused("/dev/null", TIDE_ERR_FORMAT, "not a regular file");
    scratch_write(path, "", 0);
    check_refused(path, TIDE_ERR_FORMAT, "not a tidemark profile");
    scratch_write(path, "TIDE", 4);
    check_refused(path, TIDE_ERR_FORMAT, "not a tidemark profile");
    scratch_write(path, "TIDEMARK", 8);
    check_refused(path, TIDE_ERR_FORMAT, "the file ends inside its header");
    CHECK_EQ(g_problem.offset, 8);
    check_refused(__FILE__[0] == '/' ? __FILE__ : "/bin/sh", TIDE_ERR_FORMAT,
                  "not a tidemark profile");
}

TEST(reader_says_when_there_is_no_memory)
{
#if defined(__SANITIZE_ADDRESS__)
    SKIP("the sanitizer needs all of the address space");
#endif
    const struct syn_shape shape = {.n_nodes = 200000, .n_funcs = 100};
    const char *path = scratch_path("a.tide");
    syn_write(path, &shape);
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){20 << 20, 20 << 20}) == 0);
    check_refused(path, TIDE_ERR_NOMEM, "not enough memory");
}

TEST(reader_a_file_of_holes_does_not_eat_memory)
{
    /* A section of 8 TiB that the file seems to have. */
    const char *path = make_compact(1);
    enum tide_err err;
    PATCH_EXTENT(path, 4, page, 1000000);
    PATCH_EXTENT(path, 4, n_pages, UINT32_MAX / 2);
    PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, n_cells, 100);
    CHECK(truncate(path, (off_t)8 << 40) == 0 || errno == EFBIG);
    look(path, &err);
}

/* ---- the header --------------------------------------------------------- */

enum fate {
    REFUSED,
    REPORTED,
    FREE
};

struct field {
    const char *name;
    size_t offset, bytes;
    enum fate fate; /* of a value that is out of range */
};

#define FIELD(name, fate)                                                      \
 {                                                                             \
#  name, offsetof(struct tide_p_header, name),                                 \
      sizeof((struct tide_p_header *)NULL)->name, fate                         \
 }

static const struct field fields[] = {
    FIELD(magic, REFUSED),          FIELD(version, REFUSED),
    FIELD(byte_order, REFUSED),     FIELD(header_bytes, REFUSED),
    FIELD(extents_max, REFUSED),    FIELD(n_extents, REFUSED),
    FIELD(n_heaps, REFUSED),        FIELD(state, REFUSED),
    FIELD(flags, REPORTED),         FIELD(pid, FREE),
    FIELD(parent_pid, FREE),        FIELD(tier, REPORTED),
    FIELD(command_bytes, REPORTED), FIELD(file_bytes, REPORTED),
    FIELD(start_unix_ns, FREE),     FIELD(start_mono_ns, FREE),
    FIELD(end_mono_ns, FREE),       FIELD(rss_peak_bytes, FREE),
    FIELD(lua, REPORTED),           FIELD(tool, REPORTED),
    FIELD(route, REPORTED),         FIELD(tier_reason, REPORTED),
    FIELD(program, REPORTED),       FIELD(command, FREE),
};

#define N_FIELDS (sizeof fields / sizeof fields[0])

/* The header is covered without a gap. */
TEST(reader_header_fields_are_all_known_here)
{
    size_t at = 0;
    for (size_t i = 0; i < N_FIELDS; i++) {
        CHECK_EQ(fields[i].offset, at);
        at += fields[i].bytes;
    }
    CHECK_EQ(at, sizeof(struct tide_p_header));
}

TEST(reader_every_header_field_out_of_range)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        const char *path = make_compact(2);
        unsigned char ones[sizeof(struct tide_p_header)];
        enum tide_err err;
        memset(ones, 0xff, sizeof ones);
        scratch_patch(path, fields[i].offset, ones, fields[i].bytes);
        fprintf(stderr, "# %s: %s\n", fields[i].name, look(path, &err));
        CHECK_EQ(err != TIDE_OK, fields[i].fate == REFUSED);
        CHECK_EQ(g_problem.err != TIDE_OK, fields[i].fate != FREE);
        if (fields[i].fate != FREE) {
            CHECK(g_problem.offset >= fields[i].offset ||
                  fields[i].offset ==
                      offsetof(struct tide_p_header, file_bytes));
        }
    }
}

TEST(reader_every_header_field_at_random)
{
    uint64_t rng = 99;
    for (size_t i = 0; i < N_FIELDS; i++)
        for (int n = 0; n < 20; n++) {
            const char *path = make_compact(2);
            const uint64_t value =
                n == 0 ? 0 : syn_random(&rng) >> (syn_random(&rng) % 64);
            enum tide_err err;
            scratch_patch(path, fields[i].offset, &value,
                          fields[i].bytes < 8 ? fields[i].bytes : 8);
            look(path, &err);
        }
}

TEST(reader_tells_the_version_and_the_byte_order)
{
    const char *path = make_compact(1);
    PATCH_HEADER(path, version, 2);
    check_refused(path, TIDE_ERR_VERSION,
                  "format version 2; this tidemark reads version 1");
    path = make_compact(1);
    PATCH_HEADER(path, byte_order, 0x04030201);
    check_refused(path, TIDE_ERR_FORMAT,
                  "written by a machine of the other byte order");
}

TEST(reader_says_that_the_disk_was_full)
{
    const char *path = make_compact(1);
    enum tide_err err;
    PATCH_HEADER(path, flags, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    CHECK_STR(look(path, &err), "the disk was full when it was written");
    CHECK_EQ(err, TIDE_OK);
}

TEST(reader_mends_texts_without_an_end)
{
    const char *path = make_compact(1);
    char text[32];
    memset(text, 'x', sizeof text);
    scratch_patch(path, offsetof(struct tide_p_header, lua), text, 32);
    struct tide_profile *profile = open_profile(path);
    CHECK_EQ(strlen(tideP_reader_header(profile)->lua), 31);
    CHECK_EQ(tideP_reader_problem(profile)->offset,
             offsetof(struct tide_p_header, lua) + 31);
    tideP_reader_close(profile);
}

/* ---- the directory ------------------------------------------------------ */

TEST(reader_refuses_a_directory_that_contradicts_itself)
{
    const char *path = make_compact(1);
    PATCH_EXTENT(path, 1, heap, 2);
    check_refused(path, TIDE_ERR_FORMAT, "extent 1: no such heap");
    CHECK_EQ(g_problem.offset, TIDE_P_HEADER_BYTES + 16);
    path = make_compact(1);
    PATCH_EXTENT(path, 2, section, TIDE_P_SECTION_COUNT_);
    check_refused(path, TIDE_ERR_FORMAT, "extent 2: no such section");
    path = make_compact(1);
    PATCH_EXTENT(path, 0, reserved, 1);
    check_refused(path, TIDE_ERR_FORMAT, "extent 0: reserved byte is not 0");
    path = make_compact(1);
    PATCH_EXTENT(path, 3, n_pages, 0);
    check_refused(path, TIDE_ERR_FORMAT, "extent 3: no pages");
    path = make_compact(1);
    PATCH_EXTENT(path, 3, page, 1);
    check_refused(path, TIDE_ERR_FORMAT, "extent 3: lies inside the directory");
    path = make_compact(1);
    PATCH_EXTENT(path, 2, n_pages, 2);
    check_refused(path, TIDE_ERR_FORMAT, "two extents overlap at page 5");
    path = make_compact(1);
    PATCH_EXTENT(path, 2, section, TIDE_P_STRINGS);
    check_refused(path, TIDE_ERR_FORMAT,
                  "heap 0, section 1: two extents have number 0");
}

TEST(reader_a_gap_in_the_ordinals_ends_a_section)
{
    const char *path = make_compact(1);
    enum tide_err err;
    PATCH_EXTENT(path, 5, ordinal, 1);
    CHECK_STR(look(path, &err), "heap 0: 0 of 4 cycles are there");
    CHECK_EQ(err, TIDE_OK);
    path = make_compact(1);
    PATCH_EXTENT(path, 0, ordinal, 1);
    CHECK_STR(look(path, &err), "heap 0 is missing");
    struct tide_profile *profile = open_profile(path);
    CHECK_EQ(tideP_reader_n_heaps(profile), 1);
    tideP_reader_close(profile);
}

TEST(reader_an_extent_far_outside_is_left_out)
{
    const char *path = make_compact(1);
    enum tide_err err;
    PATCH_EXTENT(path, 5, page, UINT32_MAX);
    PATCH_EXTENT(path, 5, n_pages, UINT32_MAX);
    CHECK_STR(look(path, &err), "heap 0: 0 of 4 cycles are there");
    CHECK_EQ(err, TIDE_OK);
}

/* ---- cut files ---------------------------------------------------------- */

static void check_cut_everywhere(const char *path, size_t step)
{
    size_t bytes = 0;
    unsigned char *whole = scratch_read(path, &bytes);
    const struct tide_p_header *header = (void *)whole;
    const uint64_t front = TIDE_P_DATA_OFFSET(header->extents_max);
    uint64_t n_before = UINT64_MAX;
    for (size_t n = bytes; n > step; n -= step) {
        struct tide_profile *profile;
        CHECK(truncate(path, (off_t)(n - step)) == 0);
        const enum tide_err err = tideP_reader_open(path, &profile, &g_problem);
        if (err != TIDE_OK) {
            CHECK_EQ(err, TIDE_ERR_FORMAT);
            CHECK(n - step < front);
            CHECK(g_problem.text[0] != '\0');
            continue;
        }
        const struct walk walk = walk_profile(profile);
        CHECK(tideP_reader_problem(profile)->err == TIDE_ERR_FORMAT);
        CHECK(tideP_check(profile, true, NULL, NULL) > 0);
        CHECK(walk.n_cells <= n_before);
        n_before = walk.n_cells;
        tideP_reader_close(profile);
    }
    free(whole);
}

TEST(reader_a_compact_profile_cut_at_every_64th_byte)
{
    check_cut_everywhere(make_compact(3), 64);
}

TEST(reader_a_profile_cut_at_every_512th_byte)
{
    const struct syn_shape shape = {.seed = 3, .n_nodes = 300, .n_cycles = 9};
    const char *path = scratch_path("a.tide");
    syn_write(path, &shape);
    check_cut_everywhere(path, 512);
}

TEST(reader_a_killed_profile_cut_at_every_512th_byte)
{
    const struct syn_shape shape = {
        .seed = 3, .n_nodes = 300, .n_cycles = 9, .is_left_running = true};
    const char *path = scratch_path("a.tide");
    syn_write(path, &shape);
    check_cut_everywhere(path, 512);
}

/* ---- damaged records ---------------------------------------------------- */

/* Checks the problem that a damage makes, and what is left. */
static struct tide_profile *damaged(const char *path, const char *text)
{
    struct tide_profile *profile = open_profile(path);
    CHECK_STR(tideP_reader_heap(profile, 0)->problem.text, text);
    CHECK_STR(tideP_reader_problem(profile)->text, text);
    CHECK(tideP_check(profile, true, NULL, NULL) >= 1);
    walk_profile(profile);
    return profile;
}

TEST(reader_strings_end_at_the_first_malformed)
{
    const uint32_t bad[] = {TIDE_P_STRING_MAX + 1, UINT32_MAX, 9999, 3};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = make_compact(1);
        /* The first string behind "" is "@src/mod0.lua". */
        scratch_patch(path, section_at(path, 0, TIDE_P_STRINGS) + 8, &bad[i],
                      4);
        struct tide_profile *profile =
            damaged(path, "heap 0, string 8: malformed");
        CHECK_EQ(tideP_reader_problem(profile)->offset,
                 section_at(path, 0, TIDE_P_STRINGS) + 8);
        const struct tide_p_view *view = tideP_reader_heap(profile, 0);
        CHECK_EQ(view->string_bytes, 8);
        CHECK_EQ(view->n_funcs, 34);
        CHECK_EQ(view->funcs[1].source, TIDE_P_NONE);
        CHECK_EQ(view->n_nodes, 60);
        tideP_reader_close(profile);
    }
}

TEST(reader_the_first_string_is_empty)
{
    const char *path = make_compact(1);
    const char other[8] = {1, 0, 0, 0, 'x', 0, 0, 0};
    scratch_patch(path, section_at(path, 0, TIDE_P_STRINGS), other, 8);
    struct tide_profile *profile = damaged(path, "heap 0, string 0: malformed");
    CHECK_STR(tideP_view_string(tideP_reader_heap(profile, 0), 0, NULL), "");
    tideP_reader_close(profile);
}

TEST(reader_a_section_of_strings_can_be_too_short_for_one)
{
    for (uint32_t n = 0; n < 8; n++) {
        const char *path = make_compact(1);
        PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, string_bytes, n);
        tideP_reader_close(
            damaged(path, n == 0 ? "heap 0: a count is 0 that is at least 1"
                                 : "heap 0, string 0: malformed"));
    }
}

TEST(reader_functions_name_strings_that_exist)
{
    const uint32_t bad[] = {4, 9, 12, 1u << 20, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = make_compact(1);
        PATCH(path, TIDE_P_FUNCS, tide_p_func, 2, source, bad[i]);
        struct tide_profile *profile =
            damaged(path, "heap 0, function 2: no such source");
        const struct tide_p_view *view = tideP_reader_heap(profile, 0);
        CHECK_EQ(tideP_reader_problem(profile)->offset,
                 section_at(path, 0, TIDE_P_FUNCS) + 64);
        CHECK_EQ(view->funcs[2].source, TIDE_P_NONE);
        CHECK_EQ(view->n_funcs, 34);
        tideP_reader_close(profile);
        path = make_compact(1);
        PATCH(path, TIDE_P_FUNCS, tide_p_func, 3, name, bad[i]);
        tideP_reader_close(damaged(path, "heap 0, function 3: no such name"));
    }
}

TEST(reader_functions_end_at_an_unknown_sort)
{
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_FUNCS, tide_p_func, 20, what, TIDE_P_WHAT_COUNT_);
    struct tide_profile *profile =
        damaged(path, "heap 0, function 20: unknown sort");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_funcs, 20);
    CHECK_EQ(view->n_nodes, 19); /* node 19 is the first of function 20 */
    tideP_reader_close(profile);
}

TEST(reader_targets_that_name_nothing_are_left_out)
{
    static const uint32_t bad[6][2] = {{0, 34}, {4, 9},     {8, UINT32_MAX},
                                       {12, 1}, {16, 1000}, {20, 4}};
    for (size_t i = 0; i < 6; i++) {
        const char *path = make_compact(1);
        scratch_patch(path,
                      section_at(path, 0, TIDE_P_TARGETS) +
                          3 * sizeof(struct tide_p_target) + bad[i][0],
                      &bad[i][1], 4);
        struct tide_profile *profile =
            damaged(path, i == 0   ? "heap 0, target 3: no such function"
                          : i == 5 ? "heap 0, target 3: unknown sort"
                                   : "heap 0, target 3: no such string");
        CHECK_EQ(tideP_reader_heap(profile, 0)->n_targets, 7);
        CHECK_EQ(tideP_reader_heap(profile, 1)->n_targets, 8);
        tideP_reader_close(profile);
    }
}

TEST(reader_record_0_is_the_root)
{
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_FUNCS, tide_p_func, 0, what, TIDE_P_LUA);
    tideP_reader_close(damaged(path, "heap 0, function 0: is not the root"));
    path = make_compact(1);
    PATCH(path, TIDE_P_NODES, tide_p_node, 0, parent, 1);
    tideP_reader_close(damaged(path, "heap 0, node 0: is not the root"));
    path = make_compact(1);
    PATCH(path, TIDE_P_NODES, tide_p_node, 0, func, 1);
    tideP_reader_close(damaged(path, "heap 0, node 0: is not the root"));
}

TEST(reader_nodes_end_at_one_that_hangs_nowhere)
{
    const uint32_t bad[] = {30, 31, 60, UINT32_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *path = make_compact(1);
        PATCH(path, TIDE_P_NODES, tide_p_node, 30, parent, bad[i]);
        struct tide_profile *profile =
            damaged(path, "heap 0, node 30: parent does not come before it");
        CHECK_EQ(tideP_reader_heap(profile, 0)->n_nodes, 30);
        CHECK(tideP_reader_heap(profile, 0)->n_cells > 20);
        tideP_reader_close(profile);
    }
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_NODES, tide_p_node, 30, func, 34);
    tideP_reader_close(damaged(path, "heap 0, node 30: no such function"));
}

TEST(reader_cells_of_the_root_stay_where_all_nodes_are_lost)
{
    const char *path = make_compact(1);
    PATCH_EXTENT(path, 3, ordinal, 1);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 7, node, 0);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 9, node, 0);
    struct tide_profile *profile =
        damaged(path, "heap 0: 0 of 60 nodes are there");
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_nodes, 1);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_cells, 3);
    tideP_reader_close(profile);
}

TEST(reader_cells_that_belong_nowhere_are_left_out)
{
    const char *path = make_compact(1);
    struct tide_profile *profile = open_profile(path);
    const uint32_t n_cells = tideP_reader_heap(profile, 0)->n_cells;
    tideP_reader_close(profile);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 7, node, 60);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, 9, kind, TIDE_KIND_COUNT_);
    profile = damaged(path, "heap 0, cell 7: no such node");
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_cells, n_cells - 2);
    CHECK_EQ(tideP_reader_problem(profile)->offset,
             section_at(path, 0, TIDE_P_CELLS) + 7 * 64);
    tideP_reader_close(profile);
}

/* The first node with two cells, and these. */
static uint32_t find_pair(const char *path, uint32_t *first, uint32_t *second)
{
    struct tide_profile *profile = open_profile(path);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint32_t node = 0;
    *second = 0;
    while (*second == 0) {
        *first = view->nodes[++node].first_cell;
        *second = *first != 0 ? view->cells[*first].next : 0;
    }
    tideP_reader_close(profile);
    return node;
}

/* A damage of chains: all cells are there, once each, in any case. */
static void check_chains(const char *path, uint32_t node, const char *fault,
                         uint32_t n_cells)
{
    char text[120];
    snprintf(text, sizeof text, "heap 0, node %u: %s", node, fault);
    struct tide_profile *profile = damaged(path, text);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_cells, n_cells);
    tideP_reader_close(profile);
}

TEST(reader_chains_are_exactly_the_cells_of_their_node)
{
    uint32_t first, second;
    const char *path = make_compact(5);
    const uint32_t node = find_pair(path, &first, &second);
    struct tide_profile *profile = open_profile(path);
    const uint32_t n_cells = tideP_reader_heap(profile, 0)->n_cells;
    tideP_reader_close(profile);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, second, next, first);
    check_chains(path, node, "its chain is a ring", n_cells);

    path = make_compact(5);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, second, next, 4000000);
    check_chains(path, node, "its chain leads outside", n_cells);

    path = make_compact(5);
    PATCH(path, TIDE_P_NODES, tide_p_node, node, first_cell, UINT32_MAX);
    check_chains(path, node, "its chain leads outside", n_cells);

    path = make_compact(5);
    PATCH(path, TIDE_P_NODES, tide_p_node, 0, first_cell, first);
    check_chains(path, 0, "its chain has a cell of another node", n_cells);
}

TEST(reader_a_node_has_one_cell_of_a_kind)
{
    uint32_t first, second;
    const char *path = make_compact(5);
    const uint32_t node = find_pair(path, &first, &second);
    char text[80];
    struct tide_profile *profile = open_profile(path);
    const uint32_t kind = tideP_reader_heap(profile, 0)->cells[first].kind;
    tideP_reader_close(profile);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, second, kind, (uint8_t)kind);
    snprintf(text, sizeof text, "heap 0, node %u: has two cells of one kind",
             node);
    tideP_reader_close(damaged(path, text));
}

TEST(reader_a_cell_in_no_chain_is_found_and_chained)
{
    uint32_t first, second;
    char text[80];
    const char *path = make_compact(5);
    const uint32_t node = find_pair(path, &first, &second);
    PATCH(path, TIDE_P_NODES, tide_p_node, node, first_cell, second);
    snprintf(text, sizeof text, "heap 0, cell %u: is in no chain", first);
    tideP_reader_close(damaged(path, text));
}

TEST(reader_a_running_profile_may_have_a_cell_that_is_not_chained_yet)
{
    uint32_t first, second;
    const char *path = make_compact(5);
    const uint32_t node = find_pair(path, &first, &second);
    PATCH_HEADER(path, state, TIDE_P_RUNNING);
    PATCH(path, TIDE_P_CELLS, tide_p_cell, first, next, 0);
    struct tide_profile *profile = open_profile(path);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    walk_profile(profile);
    tideP_reader_close(profile);
    /* And one that is chained and not counted yet. */
    PATCH(path, TIDE_P_CELLS, tide_p_cell, first, next, 4000000);
    profile = open_profile(path);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    walk_profile(profile);
    tideP_reader_close(profile);
    PATCH(path, TIDE_P_NODES, tide_p_node, 0, first_cell, first);
    char text[80];
    snprintf(text, sizeof text,
             "heap 0, node 0: its chain has a cell of another node");
    tideP_reader_close(damaged(path, text));
    CHECK(node != 0);
}

TEST(reader_cycles_that_name_nothing_are_left_out)
{
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_CYCLES, tide_p_cycle, 1, node, 60);
    PATCH(path, TIDE_P_CYCLES, tide_p_cycle, 2, cause, TIDE_P_CAUSE_COUNT_);
    struct tide_profile *profile =
        damaged(path, "heap 0, cycle 1: no such node");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_cycles, 2);
    CHECK_EQ(view->cycles[0].n, 1);
    CHECK_EQ(view->cycles[1].n, 4);
    tideP_reader_close(profile);
}

TEST(reader_a_head_in_an_unknown_state)
{
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, state, 7);
    struct tide_profile *profile = damaged(path, "heap 0, state 7: unknown");
    CHECK_EQ(tideP_reader_heap(profile, 0)->head->state, TIDE_P_HEAP_OPEN);
    tideP_reader_close(profile);
}

TEST(reader_counts_beyond_the_section)
{
    const char *path = make_compact(1);
    enum tide_err err;
    PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, n_nodes, UINT32_MAX);
    look(path, &err);
    CHECK_STR(g_problem.text, "heap 0: 128 of 4294967295 nodes are there");
    path = make_compact(1);
    PATCH(path, TIDE_P_HEAD, tide_p_heap, 0, string_bytes, UINT32_MAX);
    look(path, &err);
    CHECK_STR(g_problem.text,
              "heap 0: 4096 of 4294967295 bytes of strings are there");
}

TEST(reader_damage_in_one_heap_leaves_the_other)
{
    const char *path = make_compact(1);
    PATCH(path, TIDE_P_NODES, tide_p_node, 1, parent, 5);
    struct tide_profile *profile = open_profile(path);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_nodes, 1);
    CHECK_EQ(tideP_reader_heap(profile, 1)->n_nodes, 60);
    CHECK_EQ(tideP_reader_heap(profile, 1)->problem.err, TIDE_OK);
    tideP_reader_close(profile);
}

/* ---- random damage ------------------------------------------------------ */

/* Flips bits where there is something, in a copy of a good file. */
static void flip_bits(const char *source, unsigned n_rounds, uint64_t seed)
{
    size_t bytes = 0;
    unsigned char *good = scratch_read(source, &bytes);
    unsigned char *bad = malloc(bytes);
    const char *path = scratch_path("flipped.tide");
    unsigned n_refused = 0, n_reported = 0;
    CHECK(bad != NULL);
    for (unsigned round = 0; round < n_rounds; round++) {
        enum tide_err err;
        memcpy(bad, good, bytes);
        for (uint64_t n = 1 + syn_random(&seed) % 8; n > 0; n--) {
            size_t at = syn_random(&seed) % bytes;
            for (size_t k = 0; good[at] == 0 && k < 4096; k++)
                at = (at + 1) % bytes;
            bad[at] ^= (unsigned char)(1u << (syn_random(&seed) % 8));
        }
        scratch_write(path, bad, bytes);
        look(path, &err);
        n_refused += err != TIDE_OK;
        n_reported += err == TIDE_OK && g_problem.err != TIDE_OK;
    }
    fprintf(stderr, "# of %u damaged files %u were refused, %u reported\n",
            n_rounds, n_refused, n_reported);
    CHECK(n_refused > 0 && n_reported > 0);
    free(good);
    free(bad);
}

TEST(reader_survives_random_damage)
{
    flip_bits(make_compact(8), 4000, 1);
}

TEST(reader_survives_random_damage_of_a_running_profile)
{
    const char *path = make_compact(9);
    PATCH_HEADER(path, state, TIDE_P_RUNNING);
    flip_bits(path, 2000, 2);
}

/* ---- live profiles ------------------------------------------------------ */

/* looked  a pipe: at times it is waited for the reader to have looked again */
static void write_for_ever(const char *path, int looked)
{
    static struct syn_heap heap;
    struct tide_writer *writer;
    uint64_t rng = 5;
    if (tideP_writer_open(path, &writer) != TIDE_OK)
        _exit(1);
    syn_heap_open(writer, &heap);
    for (uint32_t i = 1; i < 400000; i++) {
        char name[32];
        if (i % 50 == 0) {
            snprintf(name, sizeof name, "f%u", i);
            syn_func(&heap, TIDE_P_LUA, "@live.lua", name, i, i + 9);
        }
        const uint32_t node =
            syn_node(&heap, (uint32_t)(syn_random(&rng) % i),
                     (uint32_t)(syn_random(&rng) % heap.head->n_funcs), i);
        for (unsigned kind = 0; kind < 3; kind++) {
            struct tide_p_cell *cell =
                syn_cell_at(&heap, syn_cell(&heap, node, (enum tide_kind)kind));
            cell->alloc_blocks = 1;
            cell->alloc_bytes = 64;
        }
        if (i % 1000 == 0) {
            const struct tide_p_cycle cycle = {.n = i / 1000, .node = node};
            syn_cycle(&heap, &cycle);
        }
        char byte;
        if (i % 80000 == 0 && read(looked, &byte, 1) != 1)
            _exit(1);
    }
    _exit(tideP_writer_close(writer) == TIDE_OK ? 0 : 1);
}

TEST(reader_reads_while_another_process_writes)
{
    const char *path = scratch_path("live.tide");
    uint32_t n_before = 0, n_looks = 0;
    int status;
    int looked[2];
    CHECK(pipe(looked) == 0);
    const pid_t pid = fork();
    if (pid == 0)
        write_for_ever(path, looked[0]);
    for (;;) {
        struct tide_profile *profile;
        const bool is_over = waitpid(pid, &status, WNOHANG) == pid;
        const enum tide_err err = tideP_reader_open(path, &profile, &g_problem);
        if (err != TIDE_OK) {
            /* Not made yet. */
            CHECK(n_looks == 0);
            CHECK(err == TIDE_ERR_IO || err == TIDE_ERR_FORMAT);
            continue;
        }
        CHECK_STR(tideP_reader_problem(profile)->text, "");
        walk_profile(profile);
        if (tideP_reader_n_heaps(profile) > 0) {
            const struct tide_p_view *view = tideP_reader_heap(profile, 0);
            CHECK(view->n_nodes >= n_before);
            n_before = view->n_nodes;
            n_looks++;
            CHECK(write(looked[1], "", 1) == 1);
        }
        tideP_reader_close(profile);
        if (is_over)
            break;
    }
    close(looked[0]);
    close(looked[1]);
    fprintf(stderr, "# %u looks, %u nodes at last\n", n_looks, n_before);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(n_looks > 3);
    CHECK_EQ(n_before, 400000);
}

static void cut_and_mend(const char *path, const unsigned char *data,
                         size_t bytes)
{
    uint64_t rng = 3;
    for (;;) {
        if (truncate(path, (off_t)(syn_random(&rng) % bytes)) != 0)
            _exit(1);
        scratch_write(path, data, bytes);
    }
}

TEST(reader_a_file_that_is_cut_while_it_is_read)
{
    const char *path = make_compact(4);
    size_t bytes = 0;
    int status;
    unsigned char *data = scratch_read(path, &bytes);
    const pid_t pid = fork();
    if (pid == 0)
        cut_and_mend(path, data, bytes);
    for (int i = 0; i < 2000; i++) {
        enum tide_err err;
        look(path, &err);
        CHECK(err == TIDE_OK || err == TIDE_ERR_FORMAT);
    }
    kill(pid, SIGKILL);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    free(data);
}
