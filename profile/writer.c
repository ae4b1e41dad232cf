/*
** writer.c: the profiled process's profile: its sections and how they grow.
**
** Every section has a fixed range of addresses; pieces are mapped into it one
** behind the other.  A piece comes from the file, or from anonymous memory
** when the file cannot grow; then the section stays in memory until all of it
** can be put into the file, which each growth tries again.  See writer_impl.h
** for the division of work.  No malloc and no stdio anywhere in the writer.
*/
#include "writer_impl.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../common/assert.h"

#define PIECE_MAX_BYTES ((size_t)64 << 20)
#define FORK_TRIES      1000

static const size_t first_bytes[TIDE_P_SECTION_COUNT_] = {
    [TIDE_P_HEAD] = 4096,         [TIDE_P_STRINGS] = 16384,
    [TIDE_P_FUNCS] = 16384,       [TIDE_P_NODES] = 32768,
    [TIDE_P_CELLS] = 32768,       [TIDE_P_CYCLES] = 16384,
    [TIDE_P_MOMENTS] = 4096,      [TIDE_P_EVENTS] = 4096,
    [TIDE_P_CELL_FLOORS] = 16384, [TIDE_P_LIVES] = 16384,
    [TIDE_P_OBJECTS] = 4096,      [TIDE_P_MARKS] = 4096,
    [TIDE_P_SNAPS] = 4096,        [TIDE_P_TARGETS] = 4096,
    [TIDE_P_RESTS] = 32768,
};

void tideP_writer_lock(struct tide_writer *writer)
{
    while (__atomic_exchange_n(&writer->lock, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

void tideP_writer_unlock(struct tide_writer *writer)
{
    tide_assert_expensive(tideP_writer_is_valid(writer));
    tide_assert_internal(writer->lock == 1);
    __atomic_store_n(&writer->lock, 0, __ATOMIC_RELEASE);
}

void tideP_writer_latch(struct tide_writer *writer, int error)
{
    tide_assert(error != 0);
    if (writer->latched_errno == 0)
        writer->latched_errno = error;
}

void tideP_writer_flag(struct tide_writer *writer)
{
    uint32_t flags = writer->header->flags & ~TIDE_P_FLAG_PARTLY_IN_MEMORY;
    if (writer->has_file && writer->n_outside > 0)
        flags |= TIDE_P_FLAG_PARTLY_IN_MEMORY;
    TIDE_PUBLISH(&writer->header->flags, flags);
}

void tideP_header_init(struct tide_p_header *header, uint32_t extents_max)
{
    header->version = TIDE_P_VERSION;
    header->byte_order = TIDE_P_BYTE_ORDER;
    header->header_bytes = TIDE_P_HEADER_BYTES;
    header->extents_max = extents_max;
    header->state = TIDE_P_RUNNING;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(header->magic, TIDE_P_MAGIC, sizeof header->magic);
}

void tideP_writer_fork_begin(struct tide_writer *writer)
{
    for (int i = 0; i < FORK_TRIES; i++) {
        if (__atomic_exchange_n(&writer->lock, 1, __ATOMIC_ACQUIRE) == 0) {
            writer->is_settled = true;
            return;
        }
        sched_yield();
    }
}

void tideP_writer_fork_end(struct tide_writer *writer)
{
    if (!writer->is_settled)
        return;
    writer->is_settled = false;
    tideP_writer_unlock(writer);
}

bool tideP_writer_is_elsewhere(const struct tide_writer *writer)
{
    return writer->is_elsewhere;
}

static bool is_piece_valid(const struct tide_writer *writer,
                           const struct tide_piece *piece)
{
    const struct tide_section *section = piece->section;
    return piece->offset_bytes + tideP_piece_bytes(piece) <=
               section->ready_bytes &&
           piece->ordinal < section->n_extents &&
           piece->file_offset +
                   (piece->file_offset != 0 ? tideP_piece_bytes(piece) : 0) <=
               writer->used_bytes;
}

bool tideP_writer_is_valid(const struct tide_writer *writer)
{
    if (writer->is_finished)
        return true;
    uint32_t n_outside = 0;
    size_t pieces_bytes = 0, ready_bytes = 0;
    for (uint32_t i = 0; i < writer->n_pieces; i++) {
        const struct tide_piece *piece = &writer->pieces[i];
        if (!is_piece_valid(writer, piece))
            return false;
        n_outside += !piece->is_in_file;
        pieces_bytes += tideP_piece_bytes(piece);
    }
    for (const struct tide_section *s = writer->sections; s != NULL;
         s = s->next)
        ready_bytes += s->ready_bytes;
    /* A section that is being opened has a piece and is not listed yet. */
    return ready_bytes <= pieces_bytes && n_outside == writer->n_outside &&
           writer->n_pieces - n_outside == writer->n_extents &&
           writer->used_bytes <= writer->file_bytes &&
           writer->n_extents == writer->header->n_extents;
}

static void *map_memory(void *at_or_null, size_t bytes, int prot)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
                      (at_or_null != NULL ? MAP_FIXED : 0);
    void *p = mmap(at_or_null, bytes, prot, flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static size_t find_unit_bytes(void)
{
    const long page = sysconf(_SC_PAGESIZE);
    return page > (long)TIDE_P_PAGE ? (size_t)page : TIDE_P_PAGE;
}

static struct tide_writer *make_writer(void)
{
    struct tide_writer *writer =
        map_memory(NULL, sizeof *writer, PROT_READ | PROT_WRITE);
    if (writer == NULL)
        return NULL;
    writer->fd = -1;
    writer->owner_pid = getpid();
    writer->unit_bytes = find_unit_bytes();
    writer->front_bytes = tideP_round_up(TIDE_P_DATA_OFFSET(TIDE_P_EXTENTS_MAX),
                                         writer->unit_bytes);
    writer->header =
        map_memory(NULL, writer->front_bytes, PROT_READ | PROT_WRITE);
    if (writer->header == NULL) {
        munmap(writer, sizeof *writer);
        return NULL;
    }
    tideP_header_init(writer->header, TIDE_P_EXTENTS_MAX);
    return writer;
}

int tideP_writer_start_file(struct tide_writer *writer, const char *path,
                            size_t pieces_bytes)
{
    uint64_t offset;
    tide_assert(!writer->has_file && writer->n_extents == 0);
    int error = tideP_file_open(writer, path);
    if (error == 0)
        error = tideP_file_room(writer, writer->front_bytes + pieces_bytes,
                                &offset);
    if (error == 0)
        error = tideP_file_map_over(writer, writer->header, writer->front_bytes,
                                    TIDE_P_HEADER_BYTES, 0);
    if (error == 0) {
        writer->used_bytes = writer->front_bytes;
        return 0;
    }
    if (writer->has_file)
        unlink(writer->path);
    tideP_file_close(writer);
    writer->path[0] = '\0';
    writer->header->file_bytes = 0;
    return error;
}

static enum tide_err make_and_start(const struct tide_places *held_or_null,
                                    const char *path_or_null,
                                    struct tide_writer **out)
{
    struct tide_writer *writer = make_writer();
    struct tide_quiet quiet;
    if (writer == NULL)
        return TIDE_ERR_NOMEM;
    *out = writer;
    writer->is_late = held_or_null != NULL;
    if (held_or_null != NULL)
        tideP_places_copy(&writer->places, held_or_null);
    if (path_or_null == NULL)
        return TIDE_OK;
    tideP_quiet_enter(&quiet);
    const int error = tideP_writer_start_file(writer, path_or_null, 0);
    tideP_quiet_leave(&quiet);
    if (error == 0)
        return TIDE_OK;
    tideP_writer_latch(writer, error);
    errno = error;
    return TIDE_ERR_IO;
}

enum tide_err tideP_writer_open(const char *path_or_null,
                                struct tide_writer **out)
{
    return make_and_start(NULL, path_or_null, out);
}

enum tide_err tideP_writer_open_in(const struct tide_places *held,
                                   const char *path, struct tide_writer **out)
{
    return make_and_start(held->is_open ? held : NULL, path, out);
}

struct tide_p_header *tideP_writer_header(struct tide_writer *writer)
{
    tide_assert(writer != NULL);
    return writer->header;
}

const char *tideP_writer_path(const struct tide_writer *writer)
{
    return writer->path;
}

int tideP_writer_errno(const struct tide_writer *writer)
{
    return writer->latched_errno;
}

enum tide_err tideP_writer_add_heap(struct tide_writer *writer, uint32_t *heap)
{
    enum tide_err err = TIDE_ERR_NOMEM;
    tideP_writer_lock(writer);
    if (writer->n_heaps < TIDE_P_HEAPS_MAX) {
        *heap = writer->n_heaps++;
        TIDE_PUBLISH(&writer->header->n_heaps, writer->n_heaps);
        err = TIDE_OK;
    }
    tideP_writer_unlock(writer);
    return err;
}

/* Appends the piece to the directory of the file. */
static void publish_piece(struct tide_writer *writer, struct tide_piece *piece)
{
    tide_assert_internal(writer->n_extents < TIDE_P_EXTENTS_MAX);
    tide_assert_internal(piece->file_offset >= writer->front_bytes);
    tide_assert_internal(piece->file_offset + tideP_piece_bytes(piece) <=
                         writer->used_bytes);
    tideP_directory(writer->header)[writer->n_extents] = (struct tide_p_extent){
        .heap = (uint16_t)piece->section->heap,
        .section = (uint8_t)piece->section->id,
        .ordinal = piece->ordinal,
        .page = (uint32_t)(piece->file_offset / TIDE_P_PAGE),
        .n_pages = piece->n_pages,
    };
    TIDE_PUBLISH(&writer->header->n_extents, ++writer->n_extents);
}

int tideP_piece_to_file(struct tide_writer *writer, struct tide_piece *piece,
                        bool with_map)
{
    const size_t bytes = tideP_piece_bytes(piece);
    int error;
    tide_assert(!piece->is_in_file);
    if (writer->n_extents >= TIDE_P_EXTENTS_MAX)
        return EFBIG;
    if (piece->file_offset == 0) {
        uint64_t offset;
        error = tideP_file_room(writer, bytes, &offset);
        if (error != 0)
            return error;
        writer->used_bytes += bytes;
        piece->file_offset = offset;
    }
    if (with_map)
        error = tideP_file_map_over(writer, tideP_piece_at(piece), bytes, bytes,
                                    piece->file_offset);
    else if (!tideP_file_is_ours(writer))
        error = EBADF;
    else
        error = tideP_file_write(writer->fd, tideP_piece_at(piece), bytes,
                                 piece->file_offset);
    if (error != 0)
        return error;
    piece->is_in_file = true;
    writer->n_outside--;
    publish_piece(writer, piece);
    return 0;
}

/* Counts a piece that is mapped already: its pages become usable. */
static void add_piece(struct tide_writer *writer, struct tide_section *section,
                      size_t bytes, uint64_t file_offset)
{
    struct tide_piece *piece = &writer->pieces[writer->n_pieces++];
    tide_assert_internal(bytes > 0 && bytes % writer->unit_bytes == 0);
    tide_assert_internal(section->ready_bytes + bytes <= section->max_bytes);
    *piece = (struct tide_piece){
        .section = section,
        .offset_bytes = section->ready_bytes,
        .file_offset = file_offset,
        .n_pages = (uint32_t)(bytes / TIDE_P_PAGE),
        .ordinal = section->n_extents++,
        .is_in_file = file_offset != 0,
    };
    if (piece->is_in_file)
        publish_piece(writer, piece);
    else
        writer->n_outside++;
    section->ready_bytes += bytes;
}

static int grow_in_file(struct tide_writer *writer,
                        struct tide_section *section, size_t bytes)
{
    uint64_t offset;
    if (writer->n_extents >= TIDE_P_EXTENTS_MAX ||
        writer->n_pieces >= TIDE_P_EXTENTS_MAX)
        return EFBIG;
    const int error = tideP_file_room(writer, bytes, &offset);
    if (error != 0)
        return error;
    if (!tideP_file_is_ours(writer))
        return EBADF;
    if (mmap(section->base + section->ready_bytes, bytes,
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, writer->fd,
             (off_t)offset) == MAP_FAILED)
        return errno;
    writer->used_bytes += bytes;
    add_piece(writer, section, bytes, offset);
    return 0;
}

/* When the list is full, the section's last piece is made longer. */
static struct tide_piece *last_piece_or_null(struct tide_writer *writer,
                                             struct tide_section *section)
{
    for (uint32_t i = writer->n_pieces; i-- > 0;) {
        struct tide_piece *piece = &writer->pieces[i];
        if (piece->section == section)
            return piece->file_offset == 0 ? piece : NULL;
    }
    return NULL;
}

static enum tide_err grow_in_memory(struct tide_writer *writer,
                                    struct tide_section *section, size_t bytes)
{
    struct tide_piece *last = NULL;
    if (writer->n_pieces >= TIDE_P_EXTENTS_MAX) {
        last = last_piece_or_null(writer, section);
        if (last == NULL)
            return TIDE_ERR_NOMEM;
    }
    if (map_memory(section->base + section->ready_bytes, bytes,
                   PROT_READ | PROT_WRITE) == NULL)
        return TIDE_ERR_NOMEM;
    if (last != NULL) {
        last->n_pages += (uint32_t)(bytes / TIDE_P_PAGE);
        section->ready_bytes += bytes;
    } else {
        add_piece(writer, section, bytes, 0);
    }
    return TIDE_OK;
}

/* Puts what is outside into the file, as far as that goes; 0 if all is in. */
static int heal_section(struct tide_writer *writer,
                        struct tide_section *section)
{
    for (uint32_t i = 0; writer->n_outside > 0 && i < writer->n_pieces; i++) {
        struct tide_piece *piece = &writer->pieces[i];
        if (piece->section != section || piece->is_in_file)
            continue;
        const int error = tideP_piece_to_file(writer, piece, true);
        if (error != 0)
            return error;
    }
    return 0;
}

static size_t next_piece_bytes(const struct tide_writer *writer,
                               const struct tide_section *section,
                               size_t need_bytes)
{
    size_t bytes = first_bytes[section->id];
    for (uint32_t i = 0; i < section->n_extents && bytes < PIECE_MAX_BYTES; i++)
        bytes *= 2;
    bytes = tideP_round_up(bytes > need_bytes ? bytes : need_bytes,
                           writer->unit_bytes);
    const size_t left_bytes = section->max_bytes - section->ready_bytes;
    tide_assert(need_bytes <= left_bytes);
    return bytes < left_bytes ? bytes : left_bytes;
}

/* Takes less when the disk cannot give it all, down to what is needed. */
static int grow_as_disk_allows(struct tide_writer *writer,
                               struct tide_section *section, size_t bytes,
                               size_t need_bytes)
{
    const size_t least = tideP_round_up(need_bytes, writer->unit_bytes);
    int error = heal_section(writer, section);
    if (error != 0)
        return error;
    for (;;) {
        error = grow_in_file(writer, section, bytes);
        if (error == 0 || bytes <= least)
            return error;
        if (error != ENOSPC && error != EFBIG && error != EDQUOT)
            return error;
        bytes = tideP_round_up(bytes / 2, writer->unit_bytes);
        if (bytes < least)
            bytes = least;
    }
}

static enum tide_err grow_section(struct tide_writer *writer,
                                  struct tide_section *section,
                                  size_t need_bytes)
{
    const size_t bytes = next_piece_bytes(writer, section, need_bytes);
    if (writer->is_finished || writer->owner_pid != getpid())
        return TIDE_ERR_STATE;
    if (writer->has_file) {
        const int error =
            grow_as_disk_allows(writer, section, bytes, need_bytes);
        if (error == 0)
            return TIDE_OK;
        tideP_writer_latch(writer, error);
    }
    const enum tide_err err = grow_in_memory(writer, section, bytes);
    if (err == TIDE_OK)
        return TIDE_OK;
    return grow_in_memory(writer, section,
                          tideP_round_up(need_bytes, writer->unit_bytes));
}

enum tide_err tideP_section_grow(struct tide_writer *writer,
                                 struct tide_section *section,
                                 size_t want_bytes)
{
    const int old_errno = errno;
    enum tide_err err = TIDE_OK;
    struct tide_quiet quiet;
    tide_assert(section->base != NULL);
    if (want_bytes > section->max_bytes)
        return TIDE_ERR_NOMEM;
    tideP_quiet_enter(&quiet);
    tideP_writer_lock(writer);
    if (want_bytes > section->ready_bytes) {
        err = grow_section(writer, section, want_bytes - section->ready_bytes);
        tideP_writer_flag(writer);
    }
    tideP_writer_unlock(writer);
    tideP_quiet_leave(&quiet);
    errno = old_errno;
    return err;
}

/* Address space only; less of it where the host is limited. */
static bool reserve_range(const struct tide_writer *writer, size_t max_bytes,
                          struct tide_section *section)
{
    const size_t least =
        tideP_round_up(first_bytes[section->id], writer->unit_bytes);
    size_t bytes = tideP_round_up(max_bytes, writer->unit_bytes);
    if (bytes < least)
        bytes = least;
    for (;;) {
        section->base = map_memory(NULL, bytes, PROT_NONE);
        section->max_bytes = bytes;
        if (section->base != NULL || bytes <= least)
            return section->base != NULL;
        bytes = tideP_round_up(bytes / 2, writer->unit_bytes);
        if (bytes < least)
            bytes = least;
    }
}

enum tide_err tideP_section_open(struct tide_writer *writer, uint32_t heap,
                                 enum tide_p_section id, size_t max_bytes,
                                 struct tide_section *section)
{
    const int old_errno = errno;
    tide_assert(heap < writer->n_heaps);
    tide_assert(id < TIDE_P_SECTION_COUNT_);
    *section = (struct tide_section){.heap = heap, .id = id};
    const bool is_reserved = reserve_range(writer, max_bytes, section);
    errno = old_errno;
    if (!is_reserved)
        return TIDE_ERR_NOMEM;
    const enum tide_err err = tideP_section_grow(writer, section, 1);
    if (err != TIDE_OK) {
        munmap(section->base, section->max_bytes);
        *section = (struct tide_section){.heap = heap, .id = id};
        return err;
    }
    tideP_writer_lock(writer);
    section->next = writer->sections;
    TIDE_PUBLISH(&writer->sections, section);
    tideP_writer_unlock(writer);
    return TIDE_OK;
}

/* Leaves out the empty end of a section that will not grow any more. */
static void trim_piece(const struct tide_writer *writer,
                       struct tide_piece *piece)
{
    const unsigned char *at = tideP_piece_at(piece);
    const uint32_t step = (uint32_t)(writer->unit_bytes / TIDE_P_PAGE);
    if (piece->ordinal + 1 != piece->section->n_extents ||
        piece->file_offset != 0)
        return;
    for (uint32_t i = piece->n_pages; i-- > step;) {
        if (!tideP_is_zero(at + (size_t)i * TIDE_P_PAGE, TIDE_P_PAGE))
            break;
        if (i % step == 0)
            piece->n_pages = i;
    }
}

/*
** The last try for what the disk had no room for.  Once a piece has failed, the
** later ones of its section are left out: a reader would not get to them.
*/
static void finish_file(struct tide_writer *writer)
{
    writer->is_finished = true;
    for (uint32_t i = 0; writer->n_outside > 0 && i < writer->n_pieces; i++) {
        struct tide_piece *piece = &writer->pieces[i];
        if (piece->is_in_file || piece->ordinal >= piece->section->n_extents)
            continue;
        trim_piece(writer, piece);
        int error = tideP_piece_to_file(writer, piece, true);
        if (error != 0)
            error = tideP_piece_to_file(writer, piece, false);
        if (error == 0)
            continue;
        tideP_writer_latch(writer, error);
        piece->section->n_extents = piece->ordinal;
    }
    tideP_writer_flag(writer);
    TIDE_PUBLISH(&writer->header->state, TIDE_P_CLOSED);
}

/* 0, or the errno that kept the file from being whole. */
static int finish_if_ours(struct tide_writer *writer)
{
    int error = 0;
    if (!writer->has_file || writer->owner_pid != getpid())
        return 0;
    tideP_writer_lock(writer);
    finish_file(writer);
    if (writer->n_outside > 0)
        error = writer->latched_errno;
    tideP_writer_unlock(writer);
    return error;
}

enum tide_err tideP_writer_finish(struct tide_writer *writer)
{
    struct tide_quiet quiet;
    tideP_quiet_enter(&quiet);
    const int error = finish_if_ours(writer);
    tideP_quiet_leave(&quiet);
    if (error == 0)
        return TIDE_OK;
    errno = error;
    return TIDE_ERR_IO;
}

enum tide_err tideP_writer_close(struct tide_writer *writer_or_null)
{
    struct tide_writer *writer = writer_or_null;
    struct tide_quiet quiet;
    if (writer == NULL)
        return TIDE_OK;
    tideP_quiet_enter(&quiet);
    const int error = finish_if_ours(writer);
    tideP_file_close(writer);
    tideP_places_close(&writer->places);
    for (struct tide_section *s = writer->sections; s != NULL; s = s->next) {
        munmap(s->base, s->max_bytes);
        s->base = NULL;
        s->ready_bytes = 0;
    }
    munmap(writer->header, writer->front_bytes);
    munmap(writer, sizeof *writer);
    tideP_quiet_leave(&quiet);
    if (error == 0)
        return TIDE_OK;
    errno = error;
    return TIDE_ERR_IO;
}
