/*
** test_writer.c: the writer in good times: sections, the file, copies.
*/
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "writer_help.h"

/* ---- sections and the file ---------------------------------------------- */

TEST(writer_header_is_complete)
{
    const char *path = scratch_path("a.tide");
    struct tide_writer *writer = open_writer(path);
    const struct tide_p_header *h = tideP_writer_header(writer);
    CHECK(memcmp(h->magic, TIDE_P_MAGIC, 8) == 0);
    CHECK_EQ(h->version, TIDE_P_VERSION);
    CHECK_EQ(h->byte_order, TIDE_P_BYTE_ORDER);
    CHECK_EQ(h->header_bytes, TIDE_P_HEADER_BYTES);
    CHECK_EQ(h->extents_max, TIDE_P_EXTENTS_MAX);
    CHECK_EQ(h->state, TIDE_P_RUNNING);
    CHECK_EQ(h->n_extents, 0);
    CHECK_EQ(h->file_bytes, TIDE_P_DATA_OFFSET(TIDE_P_EXTENTS_MAX));
    CHECK_STR(tideP_writer_path(writer), path);
    CHECK_EQ(tideP_writer_errno(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK_STR(problem_of(path), "");
}

TEST(writer_close_of_nothing_is_fine)
{
    CHECK_EQ(tideP_writer_close(NULL), TIDE_OK);
}

TEST(writer_first_extents_are_small)
{
    static const size_t want[TIDE_P_SECTION_COUNT_] = {
        [TIDE_P_HEAD] = 4096,         [TIDE_P_STRINGS] = 16384,
        [TIDE_P_FUNCS] = 16384,       [TIDE_P_NODES] = 32768,
        [TIDE_P_CELLS] = 32768,       [TIDE_P_CYCLES] = 16384,
        [TIDE_P_MOMENTS] = 4096,      [TIDE_P_EVENTS] = 4096,
        [TIDE_P_CELL_FLOORS] = 16384, [TIDE_P_LIVES] = 16384,
        [TIDE_P_OBJECTS] = 4096,      [TIDE_P_MARKS] = 4096,
        [TIDE_P_SNAPS] = 4096,        [TIDE_P_TARGETS] = 4096,
        [TIDE_P_RESTS] = 32768,
    };
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    for (unsigned id = 0; id < TIDE_P_SECTION_COUNT_; id++) {
        struct tide_section *s =
            open_section(writer, (enum tide_p_section)id, 64 * MIB);
        const size_t unit = (size_t)sysconf(_SC_PAGESIZE);
        CHECK_EQ(s->ready_bytes, (want[id] + unit - 1) / unit * unit);
        CHECK_EQ(s->n_extents, 1);
        CHECK_EQ((uintptr_t)s->base % unit, 0);
        for (size_t i = 0; i < s->ready_bytes; i++)
            CHECK_EQ(s->base[i], 0);
    }
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_grows_in_place)
{
    const char *path = scratch_path("a.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *cells = open_section(writer, TIDE_P_CELLS, 512 * MIB);
    struct tide_section *nodes = open_section(writer, TIDE_P_NODES, 512 * MIB);
    unsigned char *base = cells->base;
    fill(cells, 0, cells->ready_bytes);
    fill(nodes, 0, nodes->ready_bytes);
    for (size_t to = 100000; to < 40 * MIB; to = to * 3 / 2) {
        grow_to(writer, cells, to);
        grow_to(writer, nodes, to / 2);
    }
    CHECK(cells->base == base);
    CHECK(is_filled(cells->base, 0, cells->ready_bytes));
    CHECK(is_filled(nodes->base, 0, nodes->ready_bytes));
    const size_t n_cells = cells->ready_bytes, n_nodes = nodes->ready_bytes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_section_in_file(path, TIDE_P_CELLS, n_cells);
    check_section_in_file(path, TIDE_P_NODES, n_nodes);
}

TEST(writer_extents_double_up_to_a_limit)
{
    struct tide_writer *writer = open_writer(NULL);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 512 * MIB);
    size_t before = 0, extent = s->ready_bytes;
    while (s->ready_bytes < 300 * MIB) {
        before = s->ready_bytes;
        CHECK_EQ(tideP_section_grow(writer, s, before + 1), TIDE_OK);
        const size_t next = s->ready_bytes - before;
        CHECK_EQ(next, extent * 2 < 64 * MIB ? extent * 2 : 64 * MIB);
        extent = next;
    }
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_one_large_wish_is_one_extent)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_STRINGS, 64 * MIB);
    CHECK_EQ(tideP_section_reserve(writer, s, 5 * MIB + 1), TIDE_OK);
    CHECK_EQ(s->n_extents, 2);
    CHECK(s->ready_bytes > 5 * MIB && s->ready_bytes <= 5 * MIB + 65536);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_a_section_ends_at_its_range)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_STRINGS, 100000);
    CHECK_EQ(s->max_bytes, 102400);
    grow_to(writer, s, 102400);
    CHECK_EQ(s->ready_bytes, 102400);
    CHECK_EQ(tideP_section_reserve(writer, s, 102401), TIDE_ERR_NOMEM);
    CHECK_EQ(s->ready_bytes, 102400);
    CHECK_EQ(tideP_writer_errno(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_reserves_disk_before_it_maps)
{
    const char *path = scratch_path("a.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    struct stat st;
    CHECK_EQ(tideP_section_reserve(writer, s, 20 * MIB), TIDE_OK);
    CHECK(stat(path, &st) == 0);
    CHECK_EQ(st.st_size, tideP_writer_header(writer)->file_bytes);
    CHECK((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_counts_heaps_up_to_the_limit)
{
    struct tide_writer *writer = open_writer(NULL);
    uint32_t heap;
    for (uint32_t i = 0; i < TIDE_P_HEAPS_MAX; i++) {
        CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_OK);
        CHECK_EQ(heap, i);
    }
    CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_ERR_NOMEM);
    CHECK_EQ(heap, TIDE_P_HEAPS_MAX - 1);
    CHECK_EQ(tideP_writer_header(writer)->n_heaps, TIDE_P_HEAPS_MAX);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_hundreds_of_heaps_fit_into_the_directory)
{
    const char *path = scratch_path("a.tide");
    struct tide_writer *writer = open_writer(path);
    struct syn_heap *heaps = calloc(700, sizeof *heaps);
    CHECK(heaps != NULL);
    for (unsigned i = 0; i < 700; i++)
        syn_heap_open(writer, &heaps[i]);
    CHECK_EQ(tideP_writer_header(writer)->n_extents,
             700 * TIDE_P_SECTION_COUNT_);
    CHECK_EQ(flags_of(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK_STR(problem_of(path), "");
    free(heaps);
}

TEST(writer_keeps_errno)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    errno = 4711;
    CHECK_EQ(tideP_section_grow(writer, s, MIB), TIDE_OK);
    CHECK_EQ(errno, 4711);
    g_fallocate_errno = ENOSPC;
    CHECK_EQ(tideP_section_grow(writer, s, 4 * MIB), TIDE_OK);
    CHECK_EQ(errno, 4711);
    CHECK_EQ(tideP_section_grow(writer, s, 400 * MIB), TIDE_ERR_NOMEM);
    CHECK_EQ(errno, 4711);
    tideP_writer_close(writer);
}

/* ---- the file's name and descriptor ------------------------------------- */

TEST(writer_file_is_private_and_its_descriptor_high)
{
    const char *path = scratch_path("a.tide");
    struct rlimit limit = {1024, 1024};
    struct stat st;
    umask(0);
    setrlimit(RLIMIT_NOFILE, &limit);
    struct tide_writer *writer = open_writer(path);
    const int fd = find_fd(path);
    CHECK(fd >= 700);
    CHECK_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    CHECK(stat(path, &st) == 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK_EQ(find_fd(path), -1);
}

TEST(writer_takes_what_descriptors_there_are)
{
    const char *path = scratch_path("a.tide");
    struct rlimit limit = {20, 20};
    setrlimit(RLIMIT_NOFILE, &limit);
    struct tide_writer *writer = open_writer(path);
    CHECK(find_fd(path) >= 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_leaves_an_older_file_to_who_has_it_mapped)
{
    const char *path = scratch_path("a.tide");
    char old[8192];
    memset(old, 'o', sizeof old);
    scratch_write(path, old, sizeof old);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *map = mmap(NULL, sizeof old, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    struct tide_writer *writer = open_writer(path);
    CHECK(memcmp(map, old, sizeof old) == 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK(memcmp(map, old, sizeof old) == 0);
    CHECK_STR(problem_of(path), "");
}

static void check_refused(const char *path, int want_errno)
{
    struct tide_writer *writer = NULL;
    errno = 0;
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_ERR_IO);
    CHECK_EQ(errno, want_errno);
    CHECK(writer != NULL);
    CHECK_EQ(tideP_writer_errno(writer), want_errno);
    CHECK_STR(tideP_writer_path(writer), "");
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    grow_to(writer, s, 3 * MIB);
    CHECK_EQ(flags_of(writer), 0);
    errno = 0;
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_ERR_IO);
    CHECK_EQ(errno, want_errno);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_replaces_nothing_but_files)
{
    const char *dir = scratch_path("dir"), *fifo = scratch_path("fifo");
    const char *link_path = scratch_path("link"), *file = scratch_path("file");
    struct stat st;
    CHECK(mkdir(dir, 0700) == 0);
    CHECK(mkfifo(fifo, 0600) == 0);
    scratch_write(file, "precious", 8);
    CHECK(symlink(file, link_path) == 0);
    check_refused(dir, EISDIR);
    check_refused(fifo, EEXIST);
    check_refused(link_path, EEXIST);
    check_refused("/dev/null", EEXIST);
    CHECK(lstat(dir, &st) == 0 && S_ISDIR(st.st_mode));
    CHECK(lstat(fifo, &st) == 0 && S_ISFIFO(st.st_mode));
    CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode));
    CHECK(lstat("/dev/null", &st) == 0 && S_ISCHR(st.st_mode));
    CHECK(stat(file, &st) == 0 && st.st_size == 8);
}

TEST(writer_records_in_memory_where_no_file_can_be)
{
    check_refused(scratch_path("none/a.tide"), ENOENT);
    check_refused("/proc/none/a.tide", ENOENT);
}

TEST(writer_records_in_memory_where_it_may_not_write)
{
    const char *dir = scratch_path("dir");
    CHECK(mkdir(dir, 0755) == 0);
    if (getuid() == 0)
        CHECK(setresuid(65534, 65534, 0) == 0);
    else
        CHECK(chmod(dir, 0555) == 0);
    check_refused(scratch_path("dir/a.tide"), EACCES);
    if (geteuid() == 65534)
        CHECK(setresuid(0, 0, 0) == 0);
    else
        CHECK(chmod(dir, 0755) == 0);
}

TEST(writer_a_path_can_be_too_long)
{
    char path[PATH_MAX + 10];
    memset(path, 'a', sizeof path);
    path[sizeof path - 1] = '\0';
    check_refused(path, ENAMETOOLONG);
    path[0] = '/';
    check_refused(path, ENAMETOOLONG);
}

TEST(writer_finds_its_file_again)
{
    const char *path = scratch_path("a.tide");
    CHECK(chdir(scratch_dir()) == 0);
    struct tide_writer *writer = open_writer("a.tide");
    CHECK_STR(tideP_writer_path(writer), path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    fill(s, 0, s->ready_bytes);
    CHECK(chdir("/") == 0);
    CHECK(close(find_fd(path)) == 0);
    grow_to(writer, s, 2 * MIB);
    CHECK(find_fd(path) >= 0);
    CHECK_EQ(flags_of(writer), 0);
    const size_t bytes = s->ready_bytes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_section_in_file(path, TIDE_P_CELLS, bytes);
}

TEST(writer_never_touches_a_file_that_took_its_descriptor)
{
    const char *path = scratch_path("a.tide"), *other = scratch_path("other");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    struct stat st;
    const int fd = find_fd(path);
    scratch_write(other, "precious", 8);
    const int low = open(other, O_RDWR | O_CLOEXEC);
    CHECK_EQ(dup2(low, fd), fd);
    CHECK(unlink(path) == 0);
    fill(s, 0, s->ready_bytes);
    grow_to(writer, s, 2 * MIB);
    CHECK(is_filled(s->base, 0, s->ready_bytes));
    CHECK_EQ(flags_of(writer), TIDE_P_FLAG_PARTLY_IN_MEMORY);
    CHECK_EQ(tideP_writer_errno(writer), EBADF);
    CHECK_EQ(tideP_writer_close(writer), TIDE_ERR_IO);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 8);
}

TEST(writer_goes_on_in_a_file_that_was_unlinked)
{
    const char *path = scratch_path("a.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    CHECK(unlink(path) == 0);
    grow_to(writer, s, 2 * MIB);
    CHECK_EQ(flags_of(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_finish_closes_the_file_and_leaves_it_mapped)
{
    const char *path = scratch_path("a.tide");
    const struct syn_shape shape = {.seed = 3, .n_nodes = 900};
    static struct syn_heap heap;
    struct tide_profile *profile;
    struct tide_p_problem problem;
    struct tide_writer *writer = open_writer(path);
    syn_fill(writer, &shape, 0, &heap);
    CHECK_EQ(tideP_writer_finish(writer), TIDE_OK);
    CHECK_EQ(tideP_writer_header(writer)->state, TIDE_P_CLOSED);
    struct tide_section *cells = &heap.sections[TIDE_P_CELLS];
    const size_t ready_bytes = cells->ready_bytes;
    CHECK_EQ(tideP_section_grow(writer, cells, ready_bytes + 1),
             TIDE_ERR_STATE);
    CHECK_EQ(cells->ready_bytes, ready_bytes);
    /* The last frees are still seen. */
    syn_rest(&heap, 1)->closed_bytes = 0;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(tideP_reader_heap(profile, 0)->cells[1].closed_bytes, 0);
    tideP_reader_close(profile);
    CHECK_EQ(tideP_writer_finish(writer), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_finish_in_memory_does_nothing)
{
    struct tide_writer *writer = open_writer(NULL);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    CHECK_EQ(tideP_writer_finish(writer), TIDE_OK);
    grow_to(writer, s, MIB);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

/* ---- save --------------------------------------------------------------- */

TEST(writer_save_writes_a_compact_copy)
{
    const char *path = scratch_path("a.tide"), *copy = scratch_path("b.tide");
    const struct syn_shape shape = {.seed = 7, .n_nodes = 3000, .n_cycles = 5};
    static struct syn_heap heaps[2];
    struct walk walks[2];
    struct stat st[2];
    struct tide_writer *writer = open_writer(path);
    syn_fill(writer, &shape, 0, &heaps[0]);
    syn_fill(writer, &shape, 1, &heaps[1]);
    CHECK_EQ(tideP_writer_save(writer, copy), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    const char *paths[2] = {path, copy};
    for (int i = 0; i < 2; i++) {
        struct tide_profile *profile;
        struct tide_p_problem problem;
        CHECK_EQ(tideP_reader_open(paths[i], &profile, &problem), TIDE_OK);
        CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
        CHECK_EQ(tideP_reader_header(profile)->flags,
                 i == 0 ? 0 : TIDE_P_FLAG_SAVED);
        CHECK_EQ(tideP_reader_n_heaps(profile), 2);
        walks[i] = walk_profile(profile);
        tideP_reader_close(profile);
        CHECK(stat(paths[i], &st[i]) == 0);
    }
    CHECK(memcmp(&walks[0], &walks[1], sizeof walks[0]) == 0);
    CHECK(walks[0].n_cells > 5000);
    CHECK(st[1].st_size < st[0].st_size);
}

TEST(writer_save_replaces_what_was_there)
{
    struct tide_writer *writer = open_writer(NULL);
    const char *path = scratch_path("a.tide");
    static struct syn_heap heap;
    scratch_write(path, "old", 3);
    syn_heap_open(writer, &heap);
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_STR(problem_of(path), "");
    syn_node(&heap, 0, 0, 1);
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_STR(problem_of(path), "");
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_save_that_fails_leaves_what_was_there)
{
    const char *path = scratch_path("a.tide");
    struct rlimit limit = {20000, 20000};
    static struct syn_heap heap;
    size_t bytes = 0;
    struct tide_writer *writer = open_writer(NULL);
    const struct syn_shape shape = {.seed = 7, .n_nodes = 3000};
    syn_fill(writer, &shape, 0, &heap);
    scratch_write(path, "old", 3);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    errno = 0;
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_ERR_IO);
    CHECK_EQ(errno, EFBIG);
    unsigned char *old = scratch_read(path, &bytes);
    CHECK(bytes == 3 && memcmp(old, "old", 3) == 0);
    free(old);
    CHECK_EQ(tideP_writer_save(writer, scratch_path("none/a.tide")),
             TIDE_ERR_IO);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    /* No temporary file is left behind. */
    CHECK(unlink(path) == 0);
    CHECK(rmdir(scratch_dir()) == 0);
}

struct busy {
    struct tide_writer *writer;
    struct syn_heap heap;
};

static void *fill_in_thread(void *arg)
{
    struct busy *busy = arg;
    const struct syn_shape shape = {.n_nodes = 5000, .n_funcs = 99};
    syn_fill(busy->writer, &shape, 0, &busy->heap);
    return NULL;
}

TEST(writer_save_while_others_write)
{
    static struct busy busy;
    const char *copy = scratch_path("b.tide");
    pthread_t thread;
    busy.writer = open_writer(scratch_path("a.tide"));
    CHECK(pthread_create(&thread, NULL, fill_in_thread, &busy) == 0);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(tideP_writer_save(busy.writer, copy), TIDE_OK);
        CHECK_STR(problem_of(copy), "");
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(tideP_writer_close(busy.writer), TIDE_OK);
}
