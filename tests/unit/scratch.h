/*
** scratch.h: a folder of its own for a test, removed when its process exits.
*/
#ifndef TIDE_TESTS_SCRATCH_H
#define TIDE_TESTS_SCRATCH_H

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"

struct scratch {
    char dir[PATH_MAX / 2];
    pid_t owner;
};

/* One per test process. */
static inline struct scratch *scratch_state(void)
{
    static struct scratch state;
    return &state;
}

static inline int scratch_remove(const char *path, const struct stat *st,
                                 int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static inline void scratch_clean(void)
{
    const struct scratch *state = scratch_state();
    if (state->owner == getpid())
        nftw(state->dir, scratch_remove, 16, FTW_DEPTH | FTW_PHYS);
}

static inline const char *scratch_dir(void)
{
    struct scratch *state = scratch_state();
    if (state->dir[0] == '\0') {
        const char *base = getenv("TMPDIR");
        snprintf(state->dir, sizeof state->dir, "%s/tidemark-test-XXXXXX",
                 base != NULL && base[0] == '/' ? base : "/tmp");
        CHECK(mkdtemp(state->dir) != NULL);
        state->owner = getpid();
        atexit(scratch_clean);
    }
    return state->dir;
}

/* A path in the folder; each of the last eight stays valid. */
static inline const char *scratch_path(const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", scratch_dir(), name);
    return path;
}

/* The whole of a file; NULL if there is none.  Freed by the caller. */
static inline unsigned char *scratch_read(const char *path, size_t *bytes)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    CHECK(fstat(fd, &st) == 0);
    unsigned char *data = malloc((size_t)st.st_size + 1);
    CHECK(data != NULL);
    CHECK_EQ(pread(fd, data, (size_t)st.st_size, 0), st.st_size);
    close(fd);
    *bytes = (size_t)st.st_size;
    return data;
}

static inline void scratch_write(const char *path, const void *data,
                                 size_t bytes)
{
    /* O_TRUNC would make some file systems write to the disk at once. */
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, data, bytes, 0), bytes);
    CHECK(ftruncate(fd, (off_t)bytes) == 0);
    close(fd);
}

/* Overwrites a part of a file. */
static inline void scratch_patch(const char *path, uint64_t offset,
                                 const void *data, size_t bytes)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, data, bytes, (off_t)offset), bytes);
    close(fd);
}

#endif
