/*
** make_corpus.c: writes the seeds of fuzz_reader, the golden profiles and the
** bad ones, so that none of the many need be kept.
**
**     make_corpus corpus DIR    seeds for the fuzzer: small, compact profiles
**     make_corpus golden DIR    small.tide, killed.tide and marks.tide
**     make_corpus bad DIR       profiles that must be refused or reported
**
** Files that are there are replaced.  What golden and bad write for format
** version 1 is kept in tests/golden; a new version gets a folder of its own,
** and the old files stay.
*/
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/synthetic.h"

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static const char *path_of(const char *dir, const char *name)
{
    static char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s.tide", dir, name) >=
        sizeof path)
        die(name);
    return path;
}

static void patch(const char *path, size_t offset, const void *data,
                  size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, data, bytes, (off_t)offset) != (ssize_t)bytes ||
        close(fd) != 0)
        die(path);
}

static void patch_word(const char *path, size_t offset, uint32_t word)
{
    patch(path, offset, &word, sizeof word);
}

#define PATCH_HEADER(path, field, value)                                       \
 patch_word((path), offsetof(struct tide_p_header, field), (value))

/* A compact profile that looks as if it had been closed, or killed. */
static void make(const char *path, const struct syn_shape *shape)
{
    const uint32_t n_heaps = shape->n_heaps ? shape->n_heaps : 1;
    struct syn_heap *heaps = calloc(n_heaps, sizeof *heaps);
    struct tide_writer *writer;
    if (heaps == NULL || tideP_writer_open(NULL, &writer) != TIDE_OK)
        die(path);
    syn_fill_header(tideP_writer_header(writer));
    for (uint32_t i = 0; i < n_heaps; i++)
        syn_fill(writer, shape, i, &heaps[i]);
    if (tideP_writer_save(writer, path) != TIDE_OK)
        die(path);
    tideP_writer_close(writer);
    free(heaps);
    PATCH_HEADER(path, flags, 0);
    PATCH_HEADER(path, state,
                 shape->is_left_running ? TIDE_P_RUNNING : TIDE_P_CLOSED);
}

/* Where an extent of a compact profile with one heap begins. */
static size_t extent_at(enum tide_p_section id)
{
    return TIDE_P_HEADER_BYTES + id * sizeof(struct tide_p_extent);
}

/* A section of a compact profile with one heap in which each has a page. */
static size_t section_at(enum tide_p_section id)
{
    return 2 * TIDE_P_PAGE + id * TIDE_P_PAGE;
}

static void make_seeds(const char *dir)
{
    for (unsigned i = 0; i < 12; i++) {
        const struct syn_shape shape = {.seed = i,
                                        .n_heaps = 1 + i % 2,
                                        .n_funcs = 1 + i * 4,
                                        .n_nodes = 1 + i * 7,
                                        .n_cycles = i % 5,
                                        .n_targets = i % 4 * 3,
                                        .n_marks = i % 3 * 2,
                                        .n_objects = i % 4,
                                        .is_left_running = i % 3 == 2};
        char name[32];
        snprintf(name, sizeof name, "seed%02u", i);
        make(path_of(dir, name), &shape);
    }
}

static void make_golden(const char *dir)
{
    struct syn_shape shape = {
        .seed = 42, .n_funcs = 34, .n_nodes = 60, .n_cycles = 6};
    make(path_of(dir, "small"), &shape);
    shape.n_heaps = 2;
    shape.n_nodes = 40;
    shape.is_left_running = true;
    make(path_of(dir, "killed"), &shape);
    shape = (struct syn_shape){.seed = 43,
                               .n_funcs = 34,
                               .n_nodes = 60,
                               .n_cycles = 6,
                               .n_targets = 4,
                               .n_marks = 6};
    make(path_of(dir, "marks"), &shape);
}

/* The base of the bad ones: one page for each section. */
static const char *make_base(const char *dir, const char *name)
{
    const struct syn_shape shape = {
        .seed = 7, .n_funcs = 20, .n_nodes = 20, .n_cycles = 3};
    const char *path = path_of(dir, name);
    make(path, &shape);
    return path;
}

static void make_refused(const char *dir)
{
    const char *path = make_base(dir, "refused-magic");
    patch(path, 0, "TIDEWAY!", 8);
    PATCH_HEADER(make_base(dir, "refused-version"), version, 99);
    PATCH_HEADER(make_base(dir, "refused-order"), byte_order, 0x04030201u);
    path = make_base(dir, "refused-overlap");
    patch_word(
        path, extent_at(TIDE_P_NODES) + offsetof(struct tide_p_extent, n_pages),
        3);
    path = make_base(dir, "refused-cut");
    if (truncate(path, 4130) != 0)
        die(path);
    path = make_base(dir, "refused-empty");
    if (truncate(path, 0) != 0)
        die(path);
}

/* Snapshots of cells that are not there. */
static void make_partial_marks(const char *dir)
{
    const struct syn_shape shape = {
        .seed = 7, .n_funcs = 20, .n_nodes = 20, .n_cycles = 3, .n_marks = 2};
    const char *path = path_of(dir, "partial-marks");
    struct tide_p_extent extent;
    make(path, &shape);
    FILE *file = fopen(path, "rb");
    uint64_t at = 0;
    if (file == NULL || fseek(file, TIDE_P_HEADER_BYTES, SEEK_SET) != 0)
        die(path);
    while (at == 0 && fread(&extent, sizeof extent, 1, file) == 1)
        if (extent.section == TIDE_P_SNAPS && extent.n_pages > 0)
            at = (uint64_t)extent.page * TIDE_P_PAGE;
    fclose(file);
    patch_word(path, (size_t)at + 3 * sizeof(struct tide_p_snap), 999999);
}

static void make_partial(const char *dir)
{
    const char *path = make_base(dir, "partial-cut");
    if (truncate(path, (off_t)section_at(TIDE_P_CELLS) + 1000) != 0)
        die(path);
    PATCH_HEADER(make_base(dir, "partial-full"), flags,
                 TIDE_P_FLAG_PARTLY_IN_MEMORY);
    path = make_base(dir, "partial-parent");
    patch_word(path,
               section_at(TIDE_P_NODES) + 5 * sizeof(struct tide_p_node) +
                   offsetof(struct tide_p_node, parent),
               5);
    path = make_base(dir, "partial-ring");
    patch_word(path,
               section_at(TIDE_P_CELLS) + sizeof(struct tide_p_cell) +
                   offsetof(struct tide_p_cell, next),
               1);
    /* a rest that is another cell's, a life that is not there */
    path = make_base(dir, "partial-rest");
    patch_word(path,
               section_at(TIDE_P_CELLS) + 2 * sizeof(struct tide_p_cell) +
                   offsetof(struct tide_p_cell, rest),
               1);
    path = make_base(dir, "partial-life");
    patch_word(path,
               section_at(TIDE_P_CELLS) + 3 * sizeof(struct tide_p_cell) +
                   offsetof(struct tide_p_cell, life),
               999999);
    path = make_base(dir, "partial-string");
    patch_word(path, section_at(TIDE_P_STRINGS) + 8, 1u << 20);
    make_partial_marks(dir);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: make_corpus corpus|golden|bad DIR\n");
        return 2;
    }
    mkdir(argv[2], 0777);
    if (strcmp(argv[1], "corpus") == 0)
        make_seeds(argv[2]);
    else if (strcmp(argv[1], "golden") == 0)
        make_golden(argv[2]);
    else if (strcmp(argv[1], "bad") == 0) {
        make_refused(argv[2]);
        make_partial(argv[2]);
    } else {
        fprintf(stderr, "make_corpus: nothing named '%s'\n", argv[1]);
        return 2;
    }
    return 0;
}
