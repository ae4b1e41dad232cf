/*
** writer_help.h: what the tests of the writer share.  For one .c of a program.
**
** fallocate and pwrite are defined here, before libc's, so that a test can
** make them fail or stop short; otherwise they are the system's.
*/
#ifndef TIDE_TESTS_WRITER_HELP_H
#define TIDE_TESTS_WRITER_HELP_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../profile/reader.h"
#include "../../profile/writer.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"
#include "walk.h"

#define MIB ((size_t)1 << 20)

/* ---- what the system can be made to do ---------------------------------- */

static int g_fallocate_errno;       /* 0: ask the system */
static unsigned g_fallocate_eintrs; /* so many times EINTR first */
static size_t g_pwrite_limit;       /* bytes per call; 0: no limit */

int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    if (g_fallocate_eintrs > 0) {
        g_fallocate_eintrs--;
        errno = EINTR;
        return -1;
    }
    if (g_fallocate_errno != 0) {
        errno = g_fallocate_errno;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    if (g_pwrite_limit != 0 && bytes > g_pwrite_limit)
        bytes = g_pwrite_limit;
    return syscall(SYS_pwrite64, fd, data, bytes, offset);
}

/* ---- helpers ------------------------------------------------------------ */

static inline struct tide_writer *open_writer(const char *path)
{
    struct tide_writer *writer;
    CHECK_EQ(tideP_writer_open(path, &writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(writer));
    return writer;
}

static inline struct tide_section *open_section(struct tide_writer *writer,
                                                enum tide_p_section id,
                                                size_t max_bytes)
{
    static struct tide_section sections[16];
    static unsigned next;
    struct tide_section *section = &sections[next++ % 16];
    uint32_t heap = 0;
    if (tideP_writer_header(writer)->n_heaps == 0)
        CHECK_EQ(tideP_writer_add_heap(writer, &heap), TIDE_OK);
    CHECK_EQ(tideP_section_open(writer, heap, id, max_bytes, section), TIDE_OK);
    return section;
}

static inline uint32_t flags_of(struct tide_writer *writer)
{
    return tideP_writer_header(writer)->flags;
}

/* Every 512 bytes a word that says where it is. */
static inline void fill(struct tide_section *section, size_t from, size_t to)
{
    for (size_t i = from; i < to; i += 512) {
        const uint64_t word = i ^ 0x5a5a5a5a5a5a5a5au;
        memcpy(section->base + i, &word, sizeof word);
    }
}

static inline bool is_filled(const unsigned char *at, size_t from, size_t to)
{
    for (size_t i = from; i < to; i += 512) {
        uint64_t word;
        memcpy(&word, at + i - from, sizeof word);
        if (word != (i ^ 0x5a5a5a5a5a5a5a5au))
            return false;
    }
    return true;
}

/* Grows in steps of some size and fills what is new. */
static inline void grow_to(struct tide_writer *writer,
                           struct tide_section *section, size_t to)
{
    size_t from = section->ready_bytes;
    CHECK_EQ(tideP_section_reserve(writer, section, to), TIDE_OK);
    CHECK(section->ready_bytes >= to);
    fill(section, from, section->ready_bytes);
}

/* The section as the file has it, put together from the directory. */
static inline unsigned char *read_section(const char *path,
                                          enum tide_p_section id, size_t *bytes)
{
    size_t file_bytes;
    unsigned char *file = scratch_read(path, &file_bytes);
    CHECK(file != NULL);
    const struct tide_p_header *header = (void *)file;
    const struct tide_p_extent *extents = (void *)(file + TIDE_P_HEADER_BYTES);
    unsigned char *out = malloc(file_bytes);
    uint32_t ordinal = 0;
    CHECK(out != NULL);
    *bytes = 0;
    for (uint32_t i = 0; i < header->n_extents; i++) {
        if (extents[i].section != id || extents[i].ordinal != ordinal)
            continue;
        const size_t n = (size_t)extents[i].n_pages * TIDE_P_PAGE;
        const size_t at = (size_t)extents[i].page * TIDE_P_PAGE;
        CHECK(at + n <= file_bytes);
        memcpy(out + *bytes, file + at, n);
        *bytes += n;
        ordinal++;
        i = UINT32_MAX; /* from the start again: any order is allowed */
    }
    free(file);
    return out;
}

static inline void check_section_in_file(const char *path,
                                         enum tide_p_section id,
                                         size_t want_bytes)
{
    size_t bytes;
    unsigned char *data = read_section(path, id, &bytes);
    CHECK_EQ(bytes, want_bytes);
    CHECK(is_filled(data, 0, bytes));
    free(data);
}

/* The reader's first problem with a file; "" when there is none. */
static inline const char *problem_of(const char *path)
{
    static struct tide_p_problem problem;
    struct tide_profile *profile;
    if (tideP_reader_open(path, &profile, &problem) == TIDE_OK) {
        problem = *tideP_reader_problem(profile);
        walk_profile(profile);
        tideP_reader_close(profile);
    }
    return problem.text;
}

/* The descriptor that is open on a file; -1: none. */
static inline int find_fd(const char *path)
{
    struct stat want, st;
    CHECK(stat(path, &want) == 0);
    for (int fd = 0; fd < 1024; fd++)
        if (fstat(fd, &st) == 0 && st.st_ino == want.st_ino &&
            st.st_dev == want.st_dev)
            return fd;
    return -1;
}

static inline int run_child(void (*fn)(void *), void *arg)
{
    int status;
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        fn(arg);
        _exit(0);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

#endif
