/*
** writer_file.c: the writer's file: making it, reserving space, mapping it.
**
** The process is not ours.  So the descriptor is kept out of the low numbers
** and is never believed to be still ours; space is reserved before it is
** mapped; signals and cancellation wait while the file is grown, or a file
** size limit would end the host and a timer would keep interrupting the
** reservation.  No malloc, no stdio, no lock: the caller holds the writer's.
*/
#include "writer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/assert.h"

/* Where descriptors are moved to: the first that the host's limit allows. */
static const int high_fds[] = {700, 200, 60};

static bool is_xfsz_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void tideP_quiet_enter(struct tide_quiet *quiet)
{
    sigset_t all;
    sigfillset(&all);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet->old_cancel);
    pthread_sigmask(SIG_SETMASK, &all, &quiet->old_mask);
    quiet->had_xfsz = is_xfsz_pending();
}

void tideP_quiet_leave(const struct tide_quiet *quiet)
{
    const int error = errno;
    if (!quiet->had_xfsz && is_xfsz_pending()) {
        const struct timespec now = {0, 0};
        sigset_t xfsz;
        sigemptyset(&xfsz);
        sigaddset(&xfsz, SIGXFSZ);
        sigtimedwait(&xfsz, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &quiet->old_mask, NULL);
    pthread_setcancelstate(quiet->old_cancel, &(int){0});
    errno = error;
}

int tideP_file_may_replace(int folder_fd, const char *path)
{
    struct stat st;
    if (fstatat(folder_fd, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    return S_ISREG(st.st_mode) ? 0 : EEXIST;
}

int tideP_fd_up(int fd)
{
    for (size_t i = 0; i < sizeof high_fds / sizeof high_fds[0]; i++) {
        const int high = fcntl(fd, F_DUPFD_CLOEXEC, high_fds[i]);
        if (high >= 0) {
            close(fd);
            return high;
        }
    }
    return fd;
}

int tideP_file_create(int folder_fd, const char *path, int *fd)
{
    const int error = tideP_file_may_replace(folder_fd, path);
    if (error != 0)
        return error;
    if (unlinkat(folder_fd, path, 0) != 0 && errno != ENOENT)
        return errno;
    const int low =
        openat(folder_fd, path,
               O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (low < 0)
        return errno;
    *fd = tideP_fd_up(low);
    return 0;
}

/* Later the host may be in another folder. */
static int remember_path(struct tide_writer *writer, const char *path)
{
    const size_t n = strlen(path);
    size_t at = 0;
    if (n >= sizeof writer->path)
        return ENAMETOOLONG;
    if (path[0] != '/' &&
        getcwd(writer->path, sizeof writer->path - n - 1) != NULL &&
        writer->path[0] == '/') {
        at = strlen(writer->path);
        writer->path[at++] = '/';
    }
    memcpy(writer->path + at, path, n + 1);
    return 0;
}

/* In the folder that was meant; when it is late, in any that will have it. */
static int create_somewhere(struct tide_writer *writer, const char *path)
{
    int error = writer->is_late ? tideP_place_create(writer, path) : ENOENT;
    if (error == 0)
        return 0;
    error = remember_path(writer, path);
    if (error == 0)
        error = tideP_file_create(AT_FDCWD, path, &writer->fd);
    if (error == 0) {
        tideP_places_open(&writer->places, path);
        return 0;
    }
    writer->is_elsewhere =
        writer->is_late && tideP_place_create_spare(writer, path) == 0;
    return writer->is_elsewhere ? 0 : error;
}

int tideP_file_open(struct tide_writer *writer, const char *path)
{
    struct stat st;
    tide_assert(!writer->has_file);
    int error = create_somewhere(writer, path);
    if (error == 0 && fstat(writer->fd, &st) != 0)
        error = errno;
    if (error != 0)
        return error;
    writer->dev = st.st_dev;
    writer->ino = st.st_ino;
    writer->file_bytes = 0;
    writer->used_bytes = 0;
    writer->owner_pid = getpid();
    writer->has_file = true;
    return 0;
}

bool tideP_file_is_same(const struct tide_writer *writer, int fd)
{
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == writer->dev &&
           st.st_ino == writer->ino;
}

bool tideP_file_is_ours(struct tide_writer *writer)
{
    if (!writer->has_file || writer->owner_pid != getpid())
        return false;
    if (tideP_file_is_same(writer, writer->fd))
        return true;
    writer->fd = -1;
    const int fd = tideP_place_reopen(writer);
    if (fd < 0)
        return false;
    if (!tideP_file_is_same(writer, fd)) {
        close(fd);
        return false;
    }
    writer->fd = tideP_fd_up(fd);
    return true;
}

void tideP_file_close(struct tide_writer *writer)
{
    if (tideP_file_is_same(writer, writer->fd))
        close(writer->fd);
    writer->fd = -1;
    writer->has_file = false;
}

int tideP_file_write(int fd, const void *data, size_t bytes, uint64_t offset)
{
    const unsigned char *from = data;
    tide_assert(fd >= 0);
    while (bytes > 0) {
        const ssize_t n = pwrite(fd, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        from += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* For file systems that cannot reserve: what is written is there. */
static int write_zeros(int fd, uint64_t offset, uint64_t bytes)
{
    const unsigned char zeros[TIDE_P_PAGE] = {0};
    while (bytes > 0) {
        const size_t n = bytes < sizeof zeros ? (size_t)bytes : sizeof zeros;
        const int error = tideP_file_write(fd, zeros, n, offset);
        if (error != 0)
            return error;
        offset += n;
        bytes -= n;
    }
    return 0;
}

static int reserve_space(int fd, uint64_t offset, uint64_t bytes)
{
    int result;
    do
        result = fallocate(fd, 0, (off_t)offset, (off_t)bytes);
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return 0;
    if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return write_zeros(fd, offset, bytes);
    return errno;
}

static int grow_file(struct tide_writer *writer, uint64_t end)
{
    tide_assert(end > writer->file_bytes);
    if (!tideP_file_is_ours(writer))
        return EBADF;
    if (end / TIDE_P_PAGE > UINT32_MAX)
        return EFBIG;
    const int error =
        reserve_space(writer->fd, writer->file_bytes, end - writer->file_bytes);
    if (error != 0) {
        /* A part that could be had is of no use to us and of use to others. */
        if (ftruncate(writer->fd, (off_t)writer->file_bytes) != 0)
            tideP_writer_latch(writer, errno);
        return error;
    }
    writer->file_bytes = end;
    TIDE_PUBLISH(&writer->header->file_bytes, end);
    return 0;
}

int tideP_file_room(struct tide_writer *writer, size_t want_bytes,
                    uint64_t *offset)
{
    const uint64_t end = writer->used_bytes + want_bytes;
    tide_assert(want_bytes % writer->unit_bytes == 0);
    if (end > writer->file_bytes) {
        const int error = grow_file(writer, end);
        if (error != 0)
            return error;
    }
    *offset = writer->used_bytes;
    return 0;
}

int tideP_file_map_over(struct tide_writer *writer, void *at, size_t bytes,
                        size_t used_bytes, uint64_t offset)
{
    tide_assert(used_bytes <= bytes);
    tide_assert((uintptr_t)at % writer->unit_bytes == 0);
    tide_assert(bytes > 0 && bytes % writer->unit_bytes == 0);
    tide_assert(offset + bytes <= writer->file_bytes);
    if (!tideP_file_is_ours(writer))
        return EBADF;
    void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                       writer->fd, (off_t)offset);
    if (fresh == MAP_FAILED)
        return errno;
    memcpy(fresh, at, used_bytes);
    if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
        MAP_FAILED)
        return 0;
    const int error = errno;
    munmap(fresh, bytes);
    return error;
}
