/*
** test_writer_full.c: the writer without space and without memory: full disks,
** limits of size and of address space, file systems that cannot reserve.
*/
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "writer_help.h"

/* ---- no space ----------------------------------------------------------- */

/* Records of a heap, one after the other, until the flag is as wanted. */
static void add_until(struct syn_heap *heap, uint32_t want_flag)
{
    while ((flags_of(heap->writer) & TIDE_P_FLAG_PARTLY_IN_MEMORY) !=
           want_flag) {
        const uint32_t node = syn_node(heap, 0, 0, heap->head->n_nodes);
        const uint32_t cell = syn_cell(heap, node, TIDE_KIND_TABLE);
        syn_cell_at(heap, cell)->alloc_bytes = 100 + node;
        syn_cell_at(heap, cell)->alloc_blocks = 1;
        CHECK(heap->head->n_nodes < 1000000);
    }
}

/* Every record of add_until is there. */
static void check_added(const char *path, uint32_t n_nodes)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(view->n_nodes, n_nodes);
    CHECK_EQ(view->n_cells, n_nodes);
    for (uint32_t i = 1; i < n_nodes; i++) {
        CHECK_EQ(view->nodes[i].line, i);
        CHECK_EQ(view->cells[view->nodes[i].first_cell].alloc_bytes, 100 + i);
    }
    walk_profile(profile);
    tideP_reader_close(profile);
}

/* Takes space away. */
static void write_ballast(const char *path, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK(fallocate(fd, 0, 0, (off_t)bytes) == 0);
    close(fd);
}

/* A small file system of our own; it goes with the process. */
static const char *mount_small(size_t bytes)
{
    char options[64];
    const char *dir = scratch_path("small");
    CHECK(mkdir(dir, 0700) == 0);
    if (unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        SKIP("no right to mount");
    snprintf(options, sizeof options, "size=%zu", bytes);
    if (mount("tmpfs", dir, "tmpfs", 0, options) != 0)
        SKIP("no right to mount");
    return dir;
}

TEST(writer_a_full_disk_is_no_harm_and_heals)
{
    const char *dir = mount_small(256 * MIB);
    char path[PATH_MAX], ballast[PATH_MAX];
    static struct syn_heap heap;
    snprintf(path, sizeof path, "%s/a.tide", dir);
    snprintf(ballast, sizeof ballast, "%s/ballast", dir);
    write_ballast(ballast, 252 * MIB);
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    CHECK_EQ(tideP_writer_errno(writer), ENOSPC);
    CHECK_STR(problem_of(path), "the disk was full when it was written");
    CHECK(unlink(ballast) == 0);
    add_until(&heap, 0);
    const uint32_t n_nodes = heap.head->n_nodes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_added(path, n_nodes);
    CHECK(umount(dir) == 0);
}

TEST(writer_close_tries_once_more)
{
    const char *dir = mount_small(8 * MIB);
    char path[PATH_MAX], ballast[PATH_MAX];
    static struct syn_heap heap;
    snprintf(path, sizeof path, "%s/a.tide", dir);
    snprintf(ballast, sizeof ballast, "%s/ballast", dir);
    write_ballast(ballast, 4 * MIB);
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    const uint32_t n_nodes = heap.head->n_nodes;
    CHECK(unlink(ballast) == 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_added(path, n_nodes);
    CHECK(umount(dir) == 0);
}

TEST(writer_finish_maps_what_was_outside)
{
    const char *path = scratch_path("a.tide");
    static struct syn_heap heap;
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    g_fallocate_errno = ENOSPC;
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    const uint32_t n_nodes = heap.head->n_nodes;
    errno = 0;
    CHECK_EQ(tideP_writer_finish(writer), TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    CHECK_EQ(tideP_writer_close(writer), TIDE_ERR_IO);
    CHECK_STR(problem_of(path), "the disk was full when it was written");

    g_fallocate_errno = 0;
    writer = open_writer(path);
    syn_heap_open(writer, &heap);
    g_fallocate_errno = ENOSPC;
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    g_fallocate_errno = 0;
    CHECK_EQ(heap.head->n_nodes, n_nodes);
    CHECK_EQ(tideP_writer_finish(writer), TIDE_OK);
    CHECK_EQ(flags_of(writer), 0);
    for (uint32_t i = 1; i < n_nodes; i++)
        syn_cell_at(&heap, i)->freed_blocks = 1;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_added(path, n_nodes);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_reader_heap(profile, 0)->cells[n_nodes - 1].freed_blocks, 1);
    tideP_reader_close(profile);
}

TEST(writer_uses_the_disk_to_its_end)
{
    const char *dir = mount_small(8 * MIB);
    char path[PATH_MAX];
    static struct syn_heap heap;
    snprintf(path, sizeof path, "%s/a.tide", dir);
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    /* Doubling alone would have given up at half of it. */
    CHECK(tideP_writer_header(writer)->file_bytes > 7 * MIB);
    const uint32_t n_cells = heap.head->n_cells;
    errno = 0;
    CHECK_EQ(tideP_writer_close(writer), TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    CHECK_STR(problem_of(path), "the disk was full when it was written");
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(view->n_cells > n_cells / 2 && view->n_cells < n_cells);
    CHECK(view->problem.err == TIDE_ERR_FORMAT);
    tideP_reader_close(profile);
    CHECK(umount(dir) == 0);
}

TEST(writer_a_disk_that_is_full_from_the_start)
{
    const char *dir = mount_small(64 * 1024);
    char path[PATH_MAX];
    struct stat st;
    struct tide_writer *writer = NULL;
    snprintf(path, sizeof path, "%s/a.tide", dir);
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    CHECK(stat(path, &st) != 0 && errno == ENOENT);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    grow_to(writer, s, 3 * MIB);
    /* A copy holds what is in use, and there is room for so little. */
    CHECK_EQ(tideP_writer_save(writer, path), TIDE_OK);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK(umount(dir) == 0);
}

static unsigned g_n_xfsz;

static void count_xfsz(int sig)
{
    (void)sig;
    g_n_xfsz++;
}

/* A limit of the size of files, with SIGXFSZ as the host has set it. */
static void check_size_limit(void (*handler)(int))
{
    const char *path = scratch_path("a.tide"), *copy = scratch_path("b.tide");
    struct rlimit limit = {3 * MIB, RLIM_INFINITY};
    static struct syn_heap heap;
    sigset_t before, after, pending;
    signal(SIGXFSZ, handler);
    sigprocmask(SIG_SETMASK, NULL, &before);
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    CHECK_EQ(tideP_writer_errno(writer), EFBIG);
    limit.rlim_cur = MIB;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    errno = 0;
    CHECK_EQ(tideP_writer_save(writer, copy), TIDE_ERR_IO);
    CHECK_EQ(errno, EFBIG);
    sigprocmask(SIG_SETMASK, NULL, &after);
    sigpending(&pending);
    for (int sig = 1; sig < 32; sig++)
        CHECK_EQ(sigismember(&before, sig), sigismember(&after, sig));
    CHECK_EQ(sigismember(&pending, SIGXFSZ), 0);
    CHECK_EQ(g_n_xfsz, 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_ERR_IO);
    CHECK_STR(problem_of(path), "the disk was full when it was written");
}

TEST(writer_a_file_size_limit_does_not_kill_the_host)
{
    check_size_limit(SIG_DFL);
}

TEST(writer_a_file_size_limit_raises_no_signal)
{
    check_size_limit(count_xfsz);
}

TEST(writer_a_file_size_limit_where_the_signal_is_ignored)
{
    check_size_limit(SIG_IGN);
}

TEST(writer_a_signal_of_the_host_stays_pending)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    struct rlimit limit = {3 * MIB, 3 * MIB};
    sigset_t xfsz, pending;
    sigemptyset(&xfsz);
    sigaddset(&xfsz, SIGXFSZ);
    sigprocmask(SIG_BLOCK, &xfsz, NULL);
    raise(SIGXFSZ);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    grow_to(writer, s, 8 * MIB);
    sigpending(&pending);
    CHECK_EQ(sigismember(&pending, SIGXFSZ), 1);
    tideP_writer_close(writer);
}

TEST(writer_zeros_where_space_cannot_be_reserved)
{
    static const int errors[] = {EOPNOTSUPP, ENOSYS, EINVAL};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const char *path = scratch_path("a.tide");
        struct stat st;
        g_fallocate_errno = errors[i];
        g_pwrite_limit = 1000;
        struct tide_writer *writer = open_writer(path);
        struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
        CHECK_EQ(tideP_section_reserve(writer, s, MIB), TIDE_OK);
        CHECK(stat(path, &st) == 0);
        CHECK((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
        fill(s, 0, s->ready_bytes);
        const size_t bytes = s->ready_bytes;
        CHECK_EQ(flags_of(writer), 0);
        CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
        check_section_in_file(path, TIDE_P_CELLS, bytes);
    }
}

TEST(writer_full_disk_where_space_cannot_be_reserved)
{
    const char *dir = mount_small(4 * MIB);
    char path[PATH_MAX];
    struct stat st;
    static struct syn_heap heap;
    snprintf(path, sizeof path, "%s/a.tide", dir);
    g_fallocate_errno = EOPNOTSUPP;
    struct tide_writer *writer = open_writer(path);
    syn_heap_open(writer, &heap);
    add_until(&heap, TIDE_P_FLAG_PARTLY_IN_MEMORY);
    CHECK_EQ(tideP_writer_errno(writer), ENOSPC);
    /* What was written of the extent that did not fit is given back. */
    CHECK(stat(path, &st) == 0);
    CHECK_EQ(st.st_size, tideP_writer_header(writer)->file_bytes);
    CHECK_EQ(tideP_writer_close(writer), TIDE_ERR_IO);
    CHECK(umount(dir) == 0);
}

TEST(writer_other_errors_of_the_disk)
{
    static const int errors[] = {EDQUOT, EIO, ENOSPC, EFBIG, EPERM};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const char *path = scratch_path("a.tide");
        g_fallocate_errno = 0;
        struct tide_writer *writer = open_writer(path);
        struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
        fill(s, 0, s->ready_bytes);
        g_fallocate_errno = errors[i];
        grow_to(writer, s, MIB);
        CHECK_EQ(flags_of(writer), TIDE_P_FLAG_PARTLY_IN_MEMORY);
        CHECK_EQ(tideP_writer_errno(writer), errors[i]);
        g_fallocate_errno = 0;
        const size_t bytes = s->ready_bytes;
        CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
        check_section_in_file(path, TIDE_P_CELLS, bytes);
    }
}

TEST(writer_interrupted_reservations_are_repeated)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    g_fallocate_eintrs = 5;
    grow_to(writer, s, MIB);
    CHECK_EQ(g_fallocate_eintrs, 0);
    CHECK_EQ(flags_of(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

static void on_timer(int sig)
{
    (void)sig;
}

TEST(writer_grows_under_a_storm_of_signals)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 512 * MIB);
    const struct itimerval often = {{0, 50}, {0, 50}};
    struct sigaction action = {.sa_handler = on_timer};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    CHECK_EQ(tideP_section_reserve(writer, s, 200 * MIB), TIDE_OK);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    CHECK_EQ(flags_of(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

/* ---- no memory ---------------------------------------------------------- */

static void need_address_limits(void)
{
#if defined(__SANITIZE_ADDRESS__)
    SKIP("the sanitizer needs all of the address space");
#endif
}

static void limit_address_space(size_t more_bytes)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%zu", &pages) == 1);
    fclose(file);
    const size_t all = pages * (size_t)sysconf(_SC_PAGESIZE) + more_bytes;
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){all, all}) == 0);
}

TEST(writer_takes_less_address_space_where_it_is_limited)
{
    need_address_limits();
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    uint32_t heap;
    struct tide_section s;
    CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_OK);
    limit_address_space(40 * MIB);
    CHECK_EQ(tideP_section_open(writer, heap, TIDE_P_CELLS, 4096 * MIB, &s),
             TIDE_OK);
    CHECK_EQ(s.max_bytes, 32 * MIB);
    fill(&s, 0, s.ready_bytes);
    grow_to(writer, &s, 20 * MIB);
    CHECK(is_filled(s.base, 0, s.ready_bytes));
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_says_when_there_is_no_address_space)
{
    need_address_limits();
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    uint32_t heap;
    struct tide_section s;
    CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_OK);
    limit_address_space(0);
    CHECK_EQ(tideP_section_open(writer, heap, TIDE_P_CELLS, 4096 * MIB, &s),
             TIDE_ERR_NOMEM);
    CHECK(s.base == NULL);
    struct tide_writer *second = NULL;
    CHECK_EQ(tideP_writer_open(NULL, &second), TIDE_ERR_NOMEM);
    CHECK(second == NULL);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_a_data_limit_makes_memory_sections_fail_softly)
{
    need_address_limits();
    struct tide_writer *writer = open_writer(NULL);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 512 * MIB);
    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){64 * MIB, 64 * MIB}) == 0);
    size_t ready_bytes = s->ready_bytes;
    enum tide_err err = TIDE_OK;
    while (err == TIDE_OK && ready_bytes < 400 * MIB) {
        ready_bytes = s->ready_bytes;
        fill(s, 0, ready_bytes);
        err = tideP_section_grow(writer, s, ready_bytes + 4096);
    }
    CHECK_EQ(err, TIDE_ERR_NOMEM);
    CHECK_EQ(s->ready_bytes, ready_bytes);
    CHECK(is_filled(s->base, 0, ready_bytes));
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}
