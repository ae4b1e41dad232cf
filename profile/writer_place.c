/*
** writer_place.c: where the files of forked children go.
**
** A child is mostly made after its host has changed its root, its user or its
** folder, and a profile must not be lost by that.  So the folder of the first
** file is held open from the start, and beside it a spare one that everybody
** may write to, for who may not write to the first.  Like the file's own, these
** descriptors are high up and are never believed to be still ours.
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

void tideP_places_open(struct tide_writer *writer, const char *asked_path)
{
    const size_t n = folder_length(asked_path);
    if (writer->folder.fd >= 0 || n >= sizeof writer->asked_folder)
        return;
    memcpy(writer->asked_folder, asked_path, n);
    writer->asked_folder[n] = '\0';
    snprintf(writer->folder_path, sizeof writer->folder_path, "%.*s",
             (int)folder_length(writer->path), writer->path);
    open_place(&writer->folder, n == 0 ? "." : writer->asked_folder);
    open_place(&writer->spare, SPARE_FOLDER);
}

void tideP_places_close(struct tide_writer *writer)
{
    close_place(&writer->folder);
    close_place(&writer->spare);
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
    const size_t n = folder_length(path);
    const bool is_same = n == strlen(writer->asked_folder) &&
                         memcmp(path, writer->asked_folder, n) == 0;
    if (!is_same || !is_place_ours(&writer->folder))
        return ENOENT;
    if (!set_path(writer, writer->folder_path, path + n))
        return ENAMETOOLONG;
    return tideP_file_create(writer->folder.fd, path + n, &writer->fd);
}

int tideP_place_create_spare(struct tide_writer *writer, const char *path)
{
    const char *name = path + folder_length(path);
    if (!set_path(writer, SPARE_FOLDER "/", name))
        return ENAMETOOLONG;
    return is_place_ours(&writer->spare)
               ? tideP_file_create(writer->spare.fd, name, &writer->fd)
               : tideP_file_create(AT_FDCWD, writer->path, &writer->fd);
}

int tideP_place_reopen(const struct tide_writer *writer)
{
    const int flags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    const char *name = writer->path + folder_length(writer->path);
    const struct tide_place *places[] = {&writer->folder, &writer->spare};
    int fd = open(writer->path, flags);
    for (unsigned i = 0; i < 2 && fd < 0; i++)
        if (is_place_ours(places[i]))
            fd = openat(places[i]->fd, name, flags);
    return fd;
}
