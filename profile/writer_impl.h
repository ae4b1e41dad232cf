/*
** writer_impl.h: what the files of the writer share.
**
**   writer.c       opening, closing, sections and how they grow
**   writer_file.c  the file: making it, reserving space, its descriptor
**   writer_copy.c  save, detach, move_to
**   writer_place.c folders that stay open for the files of forked children
**
** A piece is a run of pages of one section.  It is mapped from the file, or
** anonymous memory until it can be put into the file.  The writer's own list
** of pieces is private memory: after a fork it tells the child what it has,
** while the directory in the file is the parent's and goes on changing.
*/
#ifndef TIDE_WRITER_IMPL_H
#define TIDE_WRITER_IMPL_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "writer.h"

struct tide_piece {
    struct tide_section *section;
    size_t offset_bytes;  /* in the section */
    uint64_t file_offset; /* bytes; 0: it has no place in the file yet */
    uint32_t n_pages;     /* of TIDE_P_PAGE */
    uint32_t ordinal;     /* in the section */
    bool is_in_file;      /* the memory is the file's */
};

struct tide_writer {
    uint32_t lock;     /* 0 free, 1 held */
    int fd;            /* of the file; -1: none, or lost */
    int latched_errno; /* first failure of the file; 0: none */
    bool has_file;     /* there is a file that is ours */
    bool is_finished;  /* nothing is added to it any more */
    bool is_settled;   /* for a fork: the lock is held by who forks */
    bool is_borrowed;  /* pages may still be those of a parent's file */
    bool is_late;      /* root, user or folder may be others by now */
    bool is_elsewhere; /* the file is in the spare folder */
    pid_t owner_pid;   /* process that may write to it */
    dev_t dev;         /* the file's identity */
    ino_t ino;
    size_t unit_bytes;   /* of mapping: the system's page, >= TIDE_P_PAGE */
    size_t front_bytes;  /* header and directory, whole units */
    uint64_t file_bytes; /* reserved on disk */
    uint64_t used_bytes; /* of these given to the front and to pieces */
    struct tide_p_header *header;
    struct tide_section *sections; /* all, last opened first */
    uint32_t n_heaps;
    uint32_t n_extents; /* entries of the directory */
    uint32_t n_pieces;
    uint32_t n_outside;  /* pieces that are not in the file */
    char path[PATH_MAX]; /* absolute if it could be made so; "": none */
    struct tide_places places;
    struct tide_piece pieces[TIDE_P_EXTENTS_MAX];
};

/*
** Between enter and leave no signal handler runs in this thread, a file size
** limit makes no SIGXFSZ, and pthread_cancel waits.  leave keeps errno.
*/
struct tide_quiet {
    sigset_t old_mask;
    int old_cancel;
    bool had_xfsz; /* one was pending already */
};

TIDE_HIDDEN void tideP_quiet_enter(struct tide_quiet *quiet);
TIDE_HIDDEN void tideP_quiet_leave(const struct tide_quiet *quiet);

static inline struct tide_p_extent *
tideP_directory(struct tide_p_header *header)
{
    return (struct tide_p_extent *)((unsigned char *)header +
                                    TIDE_P_HEADER_BYTES);
}

static inline size_t tideP_round_up(size_t bytes, size_t unit_bytes)
{
    return (bytes + unit_bytes - 1) / unit_bytes * unit_bytes;
}

static inline bool tideP_is_zero(const unsigned char *at, size_t bytes)
{
    return at[0] == 0 && memcmp(at, at + 1, bytes - 1) == 0;
}

static inline size_t tideP_piece_bytes(const struct tide_piece *piece)
{
    return (size_t)piece->n_pages * TIDE_P_PAGE;
}

static inline unsigned char *tideP_piece_at(const struct tide_piece *piece)
{
    return piece->section->base + piece->offset_bytes;
}

/* writer.c */

TIDE_HIDDEN void tideP_writer_lock(struct tide_writer *writer);
TIDE_HIDDEN void tideP_writer_unlock(struct tide_writer *writer);

/* What must hold between two calls: a walk over sections and pieces. */
TIDE_HIDDEN bool tideP_writer_is_valid(const struct tide_writer *writer);

/* Notes the first failure; later ones are mostly its consequences. */
TIDE_HIDDEN void tideP_writer_latch(struct tide_writer *writer, int error);

/* Writes the fixed part of a header; magic comes last. */
TIDE_HIDDEN void tideP_header_init(struct tide_p_header *header,
                                   uint32_t extents_max);

/*
** Puts a piece that is in memory into the file and, if with_map, maps the
** file in its place.  0, or errno; what was in memory then still is.
*/
TIDE_HIDDEN int tideP_piece_to_file(struct tide_writer *writer,
                                    struct tide_piece *piece, bool with_map);

/* Sets or clears TIDE_P_FLAG_PARTLY_IN_MEMORY by what is outside. */
TIDE_HIDDEN void tideP_writer_flag(struct tide_writer *writer);

/*
** Makes the writer's file, reserves room for its front and for pieces_bytes
** more, and maps the header.  0, or errno: the writer is then in memory.
*/
TIDE_HIDDEN int tideP_writer_start_file(struct tide_writer *writer,
                                        const char *path, size_t pieces_bytes);

/* writer_file.c: functions return 0 or errno, and are called quiet */

/*
** Makes a new file and its descriptor, high up.  A regular file of that name
** is unlinked first, so that who has it mapped keeps it; anything else there
** is left alone: EEXIST, or EISDIR.  folder_fd as for openat.
*/
TIDE_HIDDEN int tideP_file_create(int folder_fd, const char *path, int *fd);

/* EEXIST or EISDIR when `path` is something that must not be replaced. */
TIDE_HIDDEN int tideP_file_may_replace(int folder_fd, const char *path);

/* Makes the writer's file: path, descriptor, identity, no space yet. */
TIDE_HIDDEN int tideP_file_open(struct tide_writer *writer, const char *path);

/*
** Finds room for so many bytes (whole units) and reserves disk space for it.
** The room is the caller's when writer->used_bytes is moved past it.
*/
TIDE_HIDDEN int tideP_file_room(struct tide_writer *writer, size_t want_bytes,
                                uint64_t *offset);

/* Writes all of it, whatever write(2) does in one go. */
TIDE_HIDDEN int tideP_file_write(int fd, const void *data, size_t bytes,
                                 uint64_t offset);

/*
** Maps the file where memory is now, with its contents.  Nothing is changed
** when it fails.
** used_bytes  the first of `bytes`; the others are 0 in both, and are not
**             touched: pages that nobody needs take no memory.
*/
TIDE_HIDDEN int tideP_file_map_over(struct tide_writer *writer, void *at,
                                    size_t bytes, size_t used_bytes,
                                    uint64_t offset);

/* True when fd is the file; finds it again by its path if it was closed. */
TIDE_HIDDEN bool tideP_file_is_ours(struct tide_writer *writer);

/* True when fd is the writer's file. */
TIDE_HIDDEN bool tideP_file_is_same(const struct tide_writer *writer, int fd);

/* Closes the descriptor unless the host has put it to other use. */
TIDE_HIDDEN void tideP_file_close(struct tide_writer *writer);

/* The same descriptor, out of the low numbers if that can be. */
TIDE_HIDDEN int tideP_fd_up(int fd);

/* writer_place.c: called quiet */

/* With descriptors of its own. */
TIDE_HIDDEN void tideP_places_copy(struct tide_places *places,
                                   const struct tide_places *from);
TIDE_HIDDEN void tideP_places_close(struct tide_places *places);

/*
** Makes the file in the folder of the first one, if that is the same folder by
** name, and sets the writer's path and descriptor.  0, or errno.
*/
TIDE_HIDDEN int tideP_place_create(struct tide_writer *writer,
                                   const char *path);

/* The same in the spare folder. */
TIDE_HIDDEN int tideP_place_create_spare(struct tide_writer *writer,
                                         const char *path);

/* Opens what stands at the writer's path, or under its name in a place. */
TIDE_HIDDEN int tideP_place_reopen(const struct tide_writer *writer);

#endif
