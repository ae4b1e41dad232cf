/*
** test_writer_fork.c: the writer among processes and threads: killed, forked,
** grown by many at once.
*/
#include <pthread.h>
#include <signal.h>

#include "writer_help.h"

/* ---- killed ------------------------------------------------------------- */

struct doomed {
    const char *path;
    int fd; /* gets the number of nodes after each one */
};

static void write_until_killed(void *arg)
{
    const struct doomed *doomed = arg;
    static struct syn_heap heap;
    struct tide_writer *writer = open_writer(doomed->path);
    syn_heap_open(writer, &heap);
    for (uint32_t i = 1;; i++) {
        const uint32_t node = syn_node(&heap, i / 3, 0, i);
        syn_cell_at(&heap, syn_cell(&heap, node, TIDE_KIND_STRING))
            ->alloc_bytes = 100 + i;
        if (i == 20000 && write(doomed->fd, "x", 1) != 1)
            _exit(1);
    }
}

TEST(writer_a_killed_process_leaves_a_whole_profile)
{
    for (int round = 0; round < 5; round++) {
        const char *path = scratch_path("a.tide");
        int ends[2], status;
        char c;
        CHECK(pipe(ends) == 0);
        struct doomed doomed = {path, ends[1]};
        const pid_t pid = fork();
        if (pid == 0)
            write_until_killed(&doomed);
        CHECK_EQ(read(ends[0], &c, 1), 1);
        usleep(1000u * (unsigned)round);
        kill(pid, SIGKILL);
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

        struct tide_profile *profile;
        struct tide_p_problem problem;
        CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
        CHECK_STR(tideP_reader_problem(profile)->text, "");
        CHECK_EQ(tideP_reader_header(profile)->state, TIDE_P_RUNNING);
        const struct tide_p_view *view = tideP_reader_heap(profile, 0);
        CHECK(view->n_nodes > 20000);
        CHECK(view->n_nodes - view->n_cells <= 1);
        walk_profile(profile);
        tideP_reader_close(profile);
        close(ends[0]);
        close(ends[1]);
    }
}

/* ---- fork --------------------------------------------------------------- */

struct family {
    struct tide_writer *writer;
    struct tide_section *section;
    const char *path; /* for the child's file */
    bool is_settled;  /* the lock is held until the detach */
};

static void child_detaches(void *arg)
{
    struct family *f = arg;
    struct tide_section *s = f->section;
    const size_t before = s->ready_bytes;
    if (!f->is_settled)
        CHECK_EQ(tideP_section_grow(f->writer, s, before + 1), TIDE_ERR_STATE);
    CHECK_EQ(tideP_writer_detach(f->writer), TIDE_OK);
    CHECK_STR(tideP_writer_path(f->writer), "");
    CHECK_EQ(tideP_writer_header(f->writer)->pid, 4242);
    CHECK_EQ(tideP_writer_header(f->writer)->n_extents, 0);
    CHECK_EQ(s->ready_bytes, before);
    CHECK(is_filled(s->base, 0, before));
    memset(s->base, 0xcc, before);
    tideP_writer_header(f->writer)->pid = 4243;
    fill(s, 0, before);
    grow_to(f->writer, s, before + 3 * MIB);
    if (f->path != NULL) {
        CHECK_EQ(tideP_writer_move_to(f->writer, f->path), TIDE_OK);
        CHECK_STR(tideP_writer_path(f->writer), f->path);
        CHECK_EQ(tideP_writer_move_to(f->writer, f->path), TIDE_ERR_STATE);
        CHECK(is_filled(s->base, 0, s->ready_bytes));
        CHECK_EQ(flags_of(f->writer), 0);
        grow_to(f->writer, s, before + 20 * MIB);
    }
    const size_t bytes = s->ready_bytes;
    CHECK_EQ(tideP_writer_close(f->writer), TIDE_OK);
    if (f->path != NULL)
        check_section_in_file(f->path, TIDE_P_CELLS, bytes);
}

/* is_settled: the writer was told of the fork, so the child need not copy. */
static void check_family(const char *child_path, bool is_settled)
{
    const char *path = scratch_path("parent.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 256 * MIB);
    struct family family = {writer, s, child_path, is_settled};
    size_t before_bytes = 0, after_bytes = 0;
    fill(s, 0, s->ready_bytes);
    grow_to(writer, s, 2 * MIB);
    unsigned char *before = scratch_read(path, &before_bytes);
    if (is_settled)
        tideP_writer_fork_begin(writer);
    CHECK_EQ(run_child(child_detaches, &family), 0);
    tideP_writer_fork_end(writer);
    unsigned char *after = scratch_read(path, &after_bytes);
    CHECK_EQ(before_bytes, after_bytes);
    CHECK(memcmp(before, after, before_bytes) == 0);
    grow_to(writer, s, 8 * MIB);
    const size_t bytes = s->ready_bytes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_section_in_file(path, TIDE_P_CELLS, bytes);
    free(before);
    free(after);
}

TEST(writer_a_forked_child_detaches)
{
    check_family(NULL, false);
    check_family(NULL, true);
}

TEST(writer_a_forked_child_gets_a_file_of_its_own)
{
    check_family(scratch_path("child.tide"), false);
    check_family(scratch_path("child.tide"), true);
}

struct late {
    const struct tide_places *held;
    const char *path;
    const char *wanted; /* where it must be */
};

static void child_opens_late(void *arg)
{
    const struct late *late = arg;
    struct tide_writer *writer;
    CHECK(chdir("/") == 0);
    CHECK_EQ(tideP_writer_open_in(late->held, late->path, &writer), TIDE_OK);
    CHECK_STR(tideP_writer_path(writer), late->wanted);
    CHECK(!tideP_writer_is_elsewhere(writer));
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    CHECK(access(late->wanted, F_OK) == 0);
}

TEST(writer_a_folder_that_is_held_is_found_from_elsewhere)
{
    static struct tide_places held;
    char wanted[PATH_MAX];
    snprintf(wanted, sizeof wanted, "%s", scratch_path("late.tide"));
    char *slash = strrchr(wanted, '/');
    *slash = '\0';
    CHECK(chdir(wanted) == 0);
    *slash = '/';
    tideP_places_open(&held, "late.tide");
    CHECK(held.is_open);
    struct late late = {&held, "late.tide", wanted};
    CHECK_EQ(run_child(child_opens_late, &late), 0);
}

static void child_only_closes(void *arg)
{
    struct family *f = arg;
    CHECK_EQ(tideP_writer_close(f->writer), TIDE_OK);
}

TEST(writer_a_child_that_only_closes_leaves_the_parents_file)
{
    const char *path = scratch_path("parent.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 256 * MIB);
    struct family family = {writer, s, NULL, false};
    CHECK_EQ(run_child(child_only_closes, &family), 0);
    CHECK_EQ(tideP_writer_header(writer)->state, TIDE_P_RUNNING);
    fill(s, 0, s->ready_bytes);
    grow_to(writer, s, 2 * MIB);
    CHECK_EQ(flags_of(writer), 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}

TEST(writer_a_move_that_fails_leaves_all_in_memory)
{
    struct tide_writer *writer = open_writer(NULL);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 256 * MIB);
    const char *path = scratch_path("a.tide");
    fill(s, 0, s->ready_bytes);
    grow_to(writer, s, 2 * MIB);
    errno = 0;
    CHECK_EQ(tideP_writer_move_to(writer, scratch_path("none/a.tide")),
             TIDE_ERR_IO);
    CHECK_EQ(errno, ENOENT);
    g_fallocate_errno = ENOSPC;
    CHECK_EQ(tideP_writer_move_to(writer, path), TIDE_ERR_IO);
    CHECK(access(path, F_OK) != 0);
    CHECK_STR(tideP_writer_path(writer), "");
    CHECK_EQ(flags_of(writer), 0);
    grow_to(writer, s, 4 * MIB);
    g_fallocate_errno = 0;
    CHECK_EQ(tideP_writer_move_to(writer, path), TIDE_OK);
    CHECK(is_filled(s->base, 0, s->ready_bytes));
    const size_t bytes = s->ready_bytes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_section_in_file(path, TIDE_P_CELLS, bytes);
}

/* Grows and fills in a thread while the main thread forks. */
static void *grow_in_thread(void *arg)
{
    struct family *f = arg;
    while (f->section->ready_bytes < 96 * MIB) {
        const size_t from = f->section->ready_bytes;
        if (tideP_section_grow(f->writer, f->section, from + 65536) != TIDE_OK)
            abort();
        fill(f->section, from, f->section->ready_bytes);
        usleep(500);
    }
    return NULL;
}

static void child_of_a_busy_parent(void *arg)
{
    struct family *f = arg;
    alarm(100);
    CHECK_EQ(tideP_writer_detach(f->writer), TIDE_OK);
    memset(f->section->base, 0xcc, f->section->ready_bytes);
    CHECK_EQ(
        tideP_section_grow(f->writer, f->section, f->section->ready_bytes + 1),
        TIDE_OK);
    memset(f->section->base, 0xdd, f->section->ready_bytes);
    CHECK_EQ(tideP_writer_close(f->writer), TIDE_OK);
}

TEST(writer_forks_in_the_midst_of_growing_are_safe)
{
    const char *path = scratch_path("parent.tide");
    struct tide_writer *writer = open_writer(path);
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 256 * MIB);
    struct family family = {writer, s, NULL, false};
    pthread_t thread;
    fill(s, 0, s->ready_bytes);
    CHECK(pthread_create(&thread, NULL, grow_in_thread, &family) == 0);
    for (int i = 0; i < 30; i++)
        CHECK_EQ(run_child(child_of_a_busy_parent, &family), 0);
    CHECK(pthread_join(thread, NULL) == 0);
    const size_t bytes = s->ready_bytes;
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    check_section_in_file(path, TIDE_P_CELLS, bytes);
}

/* ---- threads ------------------------------------------------------------ */

struct worker {
    struct tide_writer *writer;
    struct syn_heap heap;
    uint64_t seed;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct syn_shape shape = {.seed = w->seed, .n_nodes = 5000, .n_funcs = 99};
    syn_fill(w->writer, &shape, 0, &w->heap);
    return NULL;
}

TEST(writer_heaps_grow_in_many_threads_at_once)
{
    enum {
        n_threads = 8
    };
    const char *path = scratch_path("a.tide");
    static struct worker workers[n_threads];
    pthread_t threads[n_threads];
    struct tide_writer *writer = open_writer(path);
    for (int i = 0; i < n_threads; i++) {
        workers[i] = (struct worker){.writer = writer, .seed = (uint64_t)i};
        CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
    }
    for (int i = 0; i < n_threads; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_reader_n_heaps(profile), n_threads);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    for (int i = 0; i < n_threads; i++)
        CHECK_EQ(tideP_reader_heap(profile, (uint32_t)i)->n_nodes, 5000);
    walk_profile(profile);
    tideP_reader_close(profile);
}

static void *grow_and_be_cancelled(void *arg)
{
    struct family *f = arg;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cancel(pthread_self());
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    if (tideP_section_grow(f->writer, f->section, 4 * MIB) != TIDE_OK)
        abort();
    f->path = "grown";
    pthread_testcancel();
    f->path = "not cancelled";
    return NULL;
}

TEST(writer_cancellation_waits_until_the_lock_is_free)
{
    struct tide_writer *writer = open_writer(scratch_path("a.tide"));
    struct tide_section *s = open_section(writer, TIDE_P_CELLS, 64 * MIB);
    struct family family = {writer, s, "not grown", false};
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, grow_and_be_cancelled, &family) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
    CHECK_STR(family.path, "grown");
    grow_to(writer, s, 8 * MIB);
    CHECK_EQ(tideP_writer_close(writer), TIDE_OK);
}
