/*
** writer.h: the profiled process's side of the profile file.
**
** A writer owns one file.  Its sections are arrays that grow in place: each
** has a fixed base address in a reserved range, and extents of the file are
** mapped there one behind the other, so an index is an address for ever.
** Disk space is reserved before it is mapped (a mapped hole on a full disk
** would be SIGBUS).  When the file cannot grow the section goes on in
** anonymous memory, the header says so (TIDE_P_FLAG_PARTLY_IN_MEMORY), and
** tideP_writer_close tries once more to write it out.
**
** Functions here are cold.  They take the writer's lock, use no malloc, no
** stdio, never raise, and may be called from inside the allocator.
*/
#ifndef TIDE_WRITER_H
#define TIDE_WRITER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "../common/compiler.h"
#include "../common/err.h"
#include "profile.h"

struct tide_writer;

/* An array that grows.  Owned by the caller, known to the writer. */
struct tide_section {
    unsigned char *base;       /* first byte; fixed; page-aligned */
    size_t ready_bytes;        /* base[0 .. ready_bytes) is usable, once 0 */
    size_t max_bytes;          /* address space reserved at base */
    uint32_t n_extents;        /* extents so far */
    uint32_t heap;             /* heap it belongs to */
    enum tide_p_section id;    /* which section */
    struct tide_section *next; /* the writer's list; guarded by its lock */
};

/* A folder that is held open; fd -1: it is not. */
struct tide_place {
    int fd;
    dev_t dev;
    ino_t ino;
};

/* Where files go, held open for when its path leads there no more. */
struct tide_places {
    bool is_open;
    struct tide_place folder; /* that was asked for */
    struct tide_place spare;  /* for who may not write there */
    /* as it was given, with its slash or ""; behind it the same, absolute:
       together, since both are short mostly and pages are not */
    char asked[2 * PATH_MAX];
};

/* Holds the folder of this file, and the spare one.  errno is kept. */
void tideP_places_open(struct tide_places *places, const char *path);

/*
** Opens a writer.
** path_or_null  the file, created or replaced, mode 0600 less umask; NULL: in
**               memory.  The pattern letters are expanded already.
** out           the writer; freed by tideP_writer_close.
** Errors: NOMEM.  IO with *out set: the file could not be made, errno says
** why, and the writer records in memory.
*/
enum tide_err tideP_writer_open(const char *path_or_null,
                                struct tide_writer **out);

/*
** The same for a process that may have changed its root, user or folder since
** it held these places: the file goes there, or to the spare one when it has
** no right to that.
*/
enum tide_err tideP_writer_open_in(const struct tide_places *held,
                                   const char *path, struct tide_writer **out);

/*
** The mapped header, for the caller to fill: pid, times, tier, lua, tool,
** route, program, command.  The writer fills the rest.
*/
struct tide_p_header *tideP_writer_header(struct tide_writer *writer);

/* The file's path; "" when in memory. */
const char *tideP_writer_path(const struct tide_writer *writer);

/*
** The first failure of the file, an errno; 0: none so far.  It stays when the
** writer has recovered; TIDE_P_FLAG_PARTLY_IN_MEMORY says how things are now.
*/
int tideP_writer_errno(const struct tide_writer *writer);

/*
** Adds a heap: the next number.  Errors: NOMEM (TIDE_P_HEAPS_MAX reached).
*/
enum tide_err tideP_writer_add_heap(struct tide_writer *writer, uint32_t *heap);

/*
** Opens one section of a heap and makes its first extent.
** max_bytes  address space wanted; halved until it can be had (RLIMIT_AS).
** section    the caller's storage; must stay until tideP_writer_close.
** Errors: NOMEM.
*/
enum tide_err tideP_section_open(struct tide_writer *writer, uint32_t heap,
                                 enum tide_p_section id, size_t max_bytes,
                                 struct tide_section *section);

/*
** Makes base[0 .. want_bytes) usable; new pages are zero.  errno is kept.
** Errors: NOMEM; nothing changes then.  STATE in a forked child that has not
** called tideP_writer_detach, and after tideP_writer_finish.
*/
TIDE_COLD enum tide_err tideP_section_grow(struct tide_writer *writer,
                                           struct tide_section *section,
                                           size_t want_bytes);

TIDE_INLINE enum tide_err tideP_section_reserve(struct tide_writer *writer,
                                                struct tide_section *section,
                                                size_t want_bytes)
{
    if (TIDE_LIKELY(want_bytes <= section->ready_bytes))
        return TIDE_OK;
    return tideP_section_grow(writer, section, want_bytes);
}

/*
** Writes a whole copy to `path` (through a temporary name and rename, so that
** a failure leaves what was there).  Errors: IO, errno says why.
*/
enum tide_err tideP_writer_save(struct tide_writer *writer, const char *path);

/*
** Around a fork, in the parent: between the two the writer adds no pages, so
** that the child's detach costs a mapping and no copy.  When that cannot be had
** soon, the child copies.
*/
void tideP_writer_fork_begin(struct tide_writer *writer);
void tideP_writer_fork_end(struct tide_writer *writer);

/*
** In a forked child: every mapping of the parent's file becomes a private one
** at the same address, the descriptor is closed, the parent's file is not
** touched.  Cheap, since most children never count anything: a page that was
** not written to here still shows what the parent goes on to write.
** Errors: NOMEM; sections are then the parent's still and must not be written
** to.  Calling it again is allowed.
*/
enum tide_err tideP_writer_detach(struct tide_writer *writer);

/*
** After it, before anything is counted: all pages become memory of this process
** alone.  They are as they are now, not as at the fork: counts may be later
** ones, and behind the records that the child knows of there may be newer ones;
** the caller puts both right.  Without memory they stay as they are, and the
** writer has failed, as with a full disk.  errno is kept.
*/
void tideP_writer_own(struct tide_writer *writer);

/*
** Moves a writer that records in memory to a file: creates it, copies every
** section, and maps the file in place of the memory.  After a detach the file
** is made in the folder of the parent's where its path names the same one,
** whatever the root is by now; who may not write there makes it in the folder
** for temporary files.  Errors: IO, errno says why; the writer then stays in
** memory.
*/
enum tide_err tideP_writer_move_to(struct tide_writer *writer,
                                   const char *path);

/* The file is in the folder for temporary files, for want of a right. */
bool tideP_writer_is_elsewhere(const struct tide_writer *writer);

/*
** Finishes the file (state TIDE_P_CLOSED) but leaves everything mapped, for a
** process that may still free blocks on its way out.  Sections grow no more:
** tideP_section_grow says STATE.  In memory it does nothing.  Errors: as close.
*/
enum tide_err tideP_writer_finish(struct tide_writer *writer);

/*
** Finishes the file (state TIDE_P_CLOSED), unmaps everything, frees the
** writer.  Sections are unusable afterwards.  NULL is allowed.
** Errors: IO when the file is not whole; errno says why.
*/
enum tide_err tideP_writer_close(struct tide_writer *writer_or_null);

#endif
