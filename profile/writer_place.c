/*
** writer_place.c: where files go that are made late.
**
** A worker is mostly forked, and a plugin with Lua loaded, after the host has
** changed its root, its user or its folder; a profile must not be lost by that.
** So the folder is held open from the start, and beside it a spare one that
** everybody may write to, for who may not write to the first.  Like the file's
** own, these descriptors are high up and are never believed to be still ours.
*/
#include "writer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPARE_FOLDER P_tmpdir

/* "a/b.tide": the bytes of "a/"; 0 for "b.tide". */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

static void open_place(struct tide_place *place, const char *folder)
{
    struct stat st;
    const int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    place->fd = -1;
    if (fd < 0 || fstat(fd, &st) != 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    place->fd = tideP_fd_up(fd);
    place->dev = st.st_dev;
    place->ino = st.st_ino;
}

static bool is_place_ours(const struct tide_place *place)
{
    struct stat st;
    return place->fd >= 0 && fstat(place->fd, &st) == 0 &&
           S_ISDIR(st.st_mode) && st.st_dev == place->dev &&
           st.st_ino == place->ino;
}

static void close_place(struct tide_place *place)
{
    if (is_place_ours(place))
        close(place->fd);
    place->fd = -1;
}

/* The folder that was asked for, absolute. */
static char *absolute_of(struct tide_places *places)
{
    return places->asked + strlen(places->asked) + 1;
}

/* "/here/" for "": what the folder's path is from the root. */
static bool find_path(struct tide_places *places)
{
    const size_t n = strlen(places->asked);
    char *at = absolute_of(places);
    if (places->asked[0] != '/') {
        if (getcwd(at, PATH_MAX - n - 1) == NULL || at[0] != '/')
            return false;
        at += strlen(at);
        if (at[-1] != '/')
            *at++ = '/';
    }
    memcpy(at, places->asked, n + 1);
    return true;
}

void tideP_places_open(struct tide_places *places, const char *path)
{
    const int old_errno = errno;
    const size_t n = folder_length(path);
    if (places->is_open || n >= PATH_MAX - 1)
        return;
    memcpy(places->asked, path, n);
    places->asked[n] = '\0';
    if (find_path(places)) {
        places->is_open = true;
        open_place(&places->folder, n == 0 ? "." : places->asked);
        open_place(&places->spare, SPARE_FOLDER);
    }
    errno = old_errno;
}

static void copy_place(struct tide_place *place, const struct tide_place *from)
{
    *place = *from;
    place->fd = -1;
    if (is_place_ours(from))
        place->fd = fcntl(from->fd, F_DUPFD_CLOEXEC, from->fd);
}

void tideP_places_copy(struct tide_places *places,
                       const struct tide_places *from)
{
    const char *absolute = from->asked + strlen(from->asked) + 1;
    const size_t bytes =
        (size_t)(absolute - from->asked) + strlen(absolute) + 1;
    places->is_open = from->is_open;
    memcpy(places->asked, from->asked, bytes);
    copy_place(&places->folder, &from->folder);
    copy_place(&places->spare, &from->spare);
}

void tideP_places_close(struct tide_places *places)
{
    if (!places->is_open)
        return;
    close_place(&places->folder);
    close_place(&places->spare);
    places->is_open = false;
}

/* Puts a path together; false: too long. */
static bool set_path(struct tide_writer *writer, const char *folder,
                     const char *name)
{
    const int n =
        snprintf(writer->path, sizeof writer->path, "%s%s", folder, name);
    return n > 0 && (size_t)n < sizeof writer->path;
}

int tideP_place_create(struct tide_writer *writer, const char *path)
{
    struct tide_places *places = &writer->places;
    const size_t n = folder_length(path);
    const bool is_same = places->is_open && n == strlen(places->asked) &&
                         memcmp(path, places->asked, n) == 0;
    if (!is_same || !is_place_ours(&places->folder))
        return ENOENT;
    if (!set_path(writer, absolute_of(places), path + n))
        return ENAMETOOLONG;
    return tideP_file_create(places->folder.fd, path + n, &writer->fd);
}

int tideP_place_create_spare(struct tide_writer *writer, const char *path)
{
    const char *name = path + folder_length(path);
    if (!set_path(writer, SPARE_FOLDER "/", name))
        return ENAMETOOLONG;
    return writer->places.is_open && is_place_ours(&writer->places.spare)
               ? tideP_file_create(writer->places.spare.fd, name, &writer->fd)
               : tideP_file_create(AT_FDCWD, writer->path, &writer->fd);
}

int tideP_place_reopen(const struct tide_writer *writer)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    const char *name = writer->path + folder_length(writer->path);
    const struct tide_places *places = &writer->places;
    int fd = open(writer->path, flags);
    if (fd < 0 && places->is_open && is_place_ours(&places->folder))
        fd = openat(places->folder.fd, name, flags);
    if (fd < 0 && places->is_open && is_place_ours(&places->spare))
        fd = openat(places->spare.fd, name, flags);
    return fd;
}
