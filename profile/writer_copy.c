/*
** writer_copy.c: whole copies of a profile: save, detach, move_to.
**
** save writes what is in use to another file, without the writer's lock:
** sections are only ever added in front of the list, and their pages stay
** where they are.  detach and move_to turn the memory below the sections
** into something else at the same addresses; nobody may count meanwhile.
*/
#include "writer_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/assert.h"

#define DIRECTORY_STEP (TIDE_P_PAGE / sizeof(struct tide_p_extent))

/* One copy being written. */
struct save {
    struct tide_section *sections; /* the writer's list when it began */
    int fd;
    uint32_t n_extents;   /* so far */
    uint64_t front_bytes; /* header and directory */
    uint64_t end;         /* of what has been given out */
    struct tide_p_header header;
};

static struct tide_section *find_section(const struct save *save, uint32_t heap,
                                         enum tide_p_section id)
{
    for (struct tide_section *s = save->sections; s != NULL; s = s->next)
        if (s->heap == heap && s->id == id)
            return s;
    return NULL;
}

/* Writes one section as one extent with its entry of the directory. */
static int save_section(struct save *save, uint32_t heap,
                        enum tide_p_section id, const void *data, size_t bytes)
{
    const size_t whole_bytes = tideP_round_up(bytes, TIDE_P_PAGE);
    const struct tide_p_extent extent = {
        .heap = (uint16_t)heap,
        .section = (uint8_t)id,
        .page = (uint32_t)(save->end / TIDE_P_PAGE),
        .n_pages = (uint32_t)(whole_bytes / TIDE_P_PAGE),
    };
    tide_assert_internal(save->end % TIDE_P_PAGE == 0);
    if (bytes == 0)
        return 0;
    int error = tideP_file_write(save->fd, data, bytes, save->end);
    if (error == 0)
        error = tideP_file_write(save->fd, &extent, sizeof extent,
                                 TIDE_P_HEADER_BYTES +
                                     save->n_extents * sizeof extent);
    save->n_extents++;
    save->end += whole_bytes;
    return error;
}

/* The records that a count covers, and no more than there is memory for. */
static int save_records(struct save *save, uint32_t heap,
                        enum tide_p_section id, uint32_t n, size_t record_bytes)
{
    const struct tide_section *section = find_section(save, heap, id);
    if (section == NULL)
        return 0;
    const size_t ready_bytes = TIDE_OBSERVE(&section->ready_bytes);
    const size_t bytes = n * record_bytes;
    return save_section(save, heap, id, section->base,
                        bytes < ready_bytes ? bytes : ready_bytes);
}

/*
** What refers is counted before what it refers to, so that every index which
** is written finds its record.
*/
static int save_heap(struct save *save, uint32_t heap)
{
    const struct tide_section *section = find_section(save, heap, TIDE_P_HEAD);
    if (section == NULL)
        return 0;
    const struct tide_p_heap *live = (const void *)section->base;
    struct tide_p_heap head = *live;
    const struct {
        enum tide_p_section id;
        const uint32_t *live;
        uint32_t *saved;
        size_t record_bytes;
    } parts[] = {
#define PART(id, count, record)                                                \
 {TIDE_P_##id, &live->count, &head.count, sizeof(record)}
        PART(MARKS, n_marks, struct tide_p_mark),
        PART(SNAPS, n_snaps, struct tide_p_snap),
        PART(TARGETS, n_targets, struct tide_p_target),
        PART(EVENTS, n_events, struct tide_p_event),
        PART(MOMENTS, n_moments, struct tide_p_moment),
        PART(CYCLES, n_cycles, struct tide_p_cycle),
        PART(CELLS, n_cells, struct tide_p_cell),
        PART(CELL_FLOORS, n_floors, struct tide_p_floor),
        PART(LIVES, n_lives, struct tide_p_life),
        PART(RESTS, n_rests, struct tide_p_rest),
        PART(NODES, n_nodes, struct tide_p_node),
        PART(FUNCS, n_funcs, struct tide_p_func),
        PART(OBJECTS, n_objects, struct tide_p_object),
        PART(STRINGS, string_bytes, char),
#undef PART
    };
    const size_t n_parts = sizeof parts / sizeof *parts;
    for (size_t i = 0; i < n_parts; i++)
        *parts[i].saved = TIDE_OBSERVE(parts[i].live);
    int error = save_section(save, heap, TIDE_P_HEAD, &head, sizeof head);
    for (int id = 0; id < TIDE_P_SECTION_COUNT_; id++)
        for (size_t i = 0; i < n_parts && error == 0; i++)
            if ((int)parts[i].id == id)
                error = save_records(save, heap, parts[i].id, *parts[i].saved,
                                     parts[i].record_bytes);
    return error;
}

static int save_front(struct save *save, const struct tide_writer *writer,
                      uint32_t n_heaps, uint32_t extents_max)
{
    struct tide_p_header *header = &save->header;
    tide_assert_internal(save->n_extents <= extents_max);
    tide_assert_internal(extents_max <= TIDE_P_EXTENTS_MAX);
    *header = *writer->header;
    memset(header->magic, 0, sizeof header->magic);
    tideP_header_init(header, extents_max);
    header->state = writer->header->state;
    header->n_extents = save->n_extents;
    header->n_heaps = n_heaps;
    header->flags &= ~TIDE_P_FLAG_PARTLY_IN_MEMORY;
    header->flags |= TIDE_P_FLAG_SAVED;
    header->file_bytes = save->end;
    if (ftruncate(save->fd, (off_t)save->end) != 0)
        return errno;
    return tideP_file_write(save->fd, header, sizeof *header, 0);
}

static int save_all(struct save *save, struct tide_writer *writer)
{
    const uint32_t n_heaps = TIDE_OBSERVE(&writer->n_heaps);
    const uint32_t want = n_heaps * TIDE_P_SECTION_COUNT_;
    const uint32_t extents_max =
        (uint32_t)tideP_round_up(want > 0 ? want : 1, DIRECTORY_STEP);
    save->sections = TIDE_OBSERVE(&writer->sections);
    save->end = TIDE_P_DATA_OFFSET(extents_max);
    for (uint32_t heap = 0; heap < n_heaps; heap++) {
        const int error = save_heap(save, heap);
        if (error != 0)
            return error;
    }
    return save_front(save, writer, n_heaps, extents_max);
}

static int save_to(struct tide_writer *writer, const char *path,
                   const char *temporary)
{
    struct save save = {.fd = -1};
    int error = tideP_file_may_replace(AT_FDCWD, path);
    if (error == 0)
        error = tideP_file_create(AT_FDCWD, temporary, &save.fd);
    if (error != 0)
        return error;
    error = save_all(&save, writer);
    if (close(save.fd) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(temporary, path) != 0)
        error = errno;
    if (error != 0)
        unlink(temporary);
    return error;
}

enum tide_err tideP_writer_save(struct tide_writer *writer, const char *path)
{
    char temporary[PATH_MAX];
    struct tide_quiet quiet;
    const int n = snprintf(temporary, sizeof temporary, "%s.%ld.part", path,
                           (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary) {
        errno = ENAMETOOLONG;
        return TIDE_ERR_IO;
    }
    tideP_quiet_enter(&quiet);
    const int error = save_to(writer, path, temporary);
    tideP_quiet_leave(&quiet);
    if (error == 0)
        return TIDE_OK;
    errno = error;
    return TIDE_ERR_IO;
}

/* Pages that are empty stay without memory. */
static void copy_pages(unsigned char *to, const unsigned char *from,
                       size_t bytes)
{
    tide_assert(bytes % TIDE_P_PAGE == 0);
    for (size_t i = 0; i < bytes; i += TIDE_P_PAGE)
        if (!tideP_is_zero(from + i, TIDE_P_PAGE))
            memcpy(to + i, from + i, TIDE_P_PAGE);
}

/* Private memory at the same address, with the first bytes copied. */
static enum tide_err make_private(void *at, size_t bytes, size_t copy_bytes)
{
    void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fresh == MAP_FAILED)
        return TIDE_ERR_NOMEM;
    copy_pages(fresh, at, copy_bytes);
    if (mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) !=
        MAP_FAILED)
        return TIDE_OK;
    munmap(fresh, bytes);
    return TIDE_ERR_NOMEM;
}

/*
** Whole sections, not pieces: another thread of the parent may have been
** growing one at the fork, and then the list of pieces is not to be trusted.
*/
static enum tide_err make_all_private(struct tide_writer *writer)
{
    for (struct tide_section *s = writer->sections; s != NULL; s = s->next)
        TIDE_TRY(make_private(s->base, s->ready_bytes, s->ready_bytes));
    return TIDE_OK;
}

/*
** The cheap way, when the list of pieces can be trusted: the same pages of the
** file, but what is written to them is the child's own.  Pieces that are not in
** the file are private already.
*/
static bool map_all_private(struct tide_writer *writer)
{
    if (!writer->is_settled || !tideP_file_is_same(writer, writer->fd))
        return false;
    for (uint32_t i = 0; i < writer->n_pieces; i++) {
        const struct tide_piece *piece = &writer->pieces[i];
        if (piece->is_in_file &&
            mmap(tideP_piece_at(piece), tideP_piece_bytes(piece),
                 PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, writer->fd,
                 (off_t)piece->file_offset) == MAP_FAILED)
            return false;
    }
    return true;
}

static void forget_file(struct tide_writer *writer)
{
    tideP_file_close(writer);
    writer->path[0] = '\0';
    writer->latched_errno = 0;
    writer->owner_pid = getpid();
    writer->is_late = true;
    writer->is_elsewhere = false;
    writer->n_extents = 0;
    writer->n_pieces = 0;
    writer->n_outside = 0;
    for (struct tide_section *s = writer->sections; s != NULL; s = s->next) {
        struct tide_piece *piece = &writer->pieces[writer->n_pieces++];
        *piece = (struct tide_piece){
            .section = s,
            .n_pages = (uint32_t)(s->ready_bytes / TIDE_P_PAGE),
        };
        s->n_extents = 1;
        writer->n_outside++;
    }
    writer->header->n_extents = 0;
    writer->header->n_heaps = writer->n_heaps;
    writer->header->file_bytes = 0;
    writer->header->state = TIDE_P_RUNNING;
    writer->header->flags = 0;
}

enum tide_err tideP_writer_detach(struct tide_writer *writer)
{
    const int old_errno = errno;
    struct tide_quiet quiet;
    tideP_quiet_enter(&quiet);
    /* Whoever held the lock at the fork does not exist here. */
    __atomic_store_n(&writer->lock, 0, __ATOMIC_RELAXED);
    writer->is_borrowed = map_all_private(writer);
    enum tide_err err =
        writer->is_borrowed ? TIDE_OK : make_all_private(writer);
    if (err == TIDE_OK)
        err = make_private(writer->header, writer->front_bytes,
                           TIDE_P_HEADER_BYTES);
    if (err == TIDE_OK)
        forget_file(writer);
    writer->is_settled = false;
    tide_assert_expensive(err != TIDE_OK || tideP_writer_is_valid(writer));
    tideP_quiet_leave(&quiet);
    errno = old_errno;
    return err;
}

void tideP_writer_own(struct tide_writer *writer)
{
    const int old_errno = errno;
    if (writer->is_borrowed && make_all_private(writer) != TIDE_OK)
        tideP_writer_latch(writer, ENOMEM);
    writer->is_borrowed = false;
    errno = old_errno;
}

static size_t outside_bytes(const struct tide_writer *writer)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < writer->n_pieces; i++)
        bytes += tideP_piece_bytes(&writer->pieces[i]);
    return bytes;
}

/* A piece that cannot be mapped stays in memory; close writes it. */
static void move_pieces(struct tide_writer *writer)
{
    for (uint32_t i = 0; i < writer->n_pieces; i++) {
        const int error = tideP_piece_to_file(writer, &writer->pieces[i], true);
        if (error != 0)
            tideP_writer_latch(writer, error);
    }
    tideP_writer_flag(writer);
}

enum tide_err tideP_writer_move_to(struct tide_writer *writer, const char *path)
{
    struct tide_quiet quiet;
    tide_assert(path[0] != '\0');
    if (writer->has_file)
        return TIDE_ERR_STATE;
    tideP_quiet_enter(&quiet);
    tideP_writer_lock(writer);
    const int error =
        tideP_writer_start_file(writer, path, outside_bytes(writer));
    if (error == 0)
        move_pieces(writer);
    tideP_writer_unlock(writer);
    tideP_quiet_leave(&quiet);
    if (error == 0)
        return TIDE_OK;
    tideP_writer_latch(writer, error);
    errno = error;
    return TIDE_ERR_IO;
}
