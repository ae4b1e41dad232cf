/*
** reader.c: opens a profile: the header, the heaps and their views.
**
** A live profile is observed in this order: directory, heads and their
** counts, then the directory and the file's length again, then the records.
** So every record that a count covers is found, however fast the profile
** grows.  What the checks of records keep and drop is in reader_check.c.
*/
#include "reader_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/assert.h"

void tideP_problem(struct tide_p_problem *problem, enum tide_err err,
                   uint64_t offset, const char *fmt, ...)
{
    va_list args;
    tide_assert(err != TIDE_OK);
    if (problem->err != TIDE_OK)
        return;
    problem->err = err;
    problem->offset = offset;
    va_start(args, fmt);
    vsnprintf(problem->text, sizeof problem->text, fmt, args);
    va_end(args);
}

static enum tide_err open_file(const char *path, int *fd,
                               struct tide_p_problem *problem)
{
    struct stat st;
    /* Not to hang on a pipe. */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &st) != 0) {
        tideP_problem(problem, TIDE_ERR_IO, 0, "%s", strerror(errno));
        return TIDE_ERR_IO;
    }
    if (S_ISDIR(st.st_mode)) {
        tideP_problem(problem, TIDE_ERR_IO, 0, "%s", strerror(EISDIR));
        return TIDE_ERR_IO;
    }
    if (!S_ISREG(st.st_mode)) {
        tideP_problem(problem, TIDE_ERR_FORMAT, 0, "not a regular file");
        return TIDE_ERR_FORMAT;
    }
    return TIDE_OK;
}

/* A fault that makes the rest of the file unreadable. */
#define REFUSE_IF(cond, err_, field, ...)                                      \
 do {                                                                          \
  if (cond) {                                                                  \
   tideP_problem(problem, (err_), offsetof(struct tide_p_header, field),       \
                 __VA_ARGS__);                                                 \
   return (err_);                                                              \
  }                                                                            \
 } while (0)

static enum tide_err check_header(const struct tide_p_header *h,
                                  struct tide_p_problem *problem)
{
    REFUSE_IF(memcmp(h->magic, TIDE_P_MAGIC, sizeof h->magic) != 0,
              TIDE_ERR_FORMAT, magic, "not a tidemark profile");
    REFUSE_IF(h->byte_order == __builtin_bswap32(TIDE_P_BYTE_ORDER),
              TIDE_ERR_FORMAT, byte_order,
              "written by a machine of the other byte order");
    REFUSE_IF(h->byte_order != TIDE_P_BYTE_ORDER, TIDE_ERR_FORMAT, byte_order,
              "byte order mark is damaged");
    REFUSE_IF(h->version != TIDE_P_VERSION, TIDE_ERR_VERSION, version,
              "format version %" PRIu32 "; this tidemark reads version %u",
              h->version, TIDE_P_VERSION);
    REFUSE_IF(h->header_bytes != TIDE_P_HEADER_BYTES, TIDE_ERR_FORMAT,
              header_bytes, "header of %" PRIu32 " bytes", h->header_bytes);
    REFUSE_IF(h->extents_max == 0 || h->extents_max > TIDE_P_EXTENTS_MAX ||
                  TIDE_P_DATA_OFFSET(h->extents_max) % TIDE_P_PAGE != 0,
              TIDE_ERR_FORMAT, extents_max, "directory of %" PRIu32 " entries",
              h->extents_max);
    REFUSE_IF(h->n_extents > h->extents_max, TIDE_ERR_FORMAT, n_extents,
              "%" PRIu32 " extents in a directory of %" PRIu32, h->n_extents,
              h->extents_max);
    REFUSE_IF(h->n_heaps > TIDE_P_HEAPS_MAX, TIDE_ERR_FORMAT, n_heaps,
              "%" PRIu32 " heaps; at most %u are possible", h->n_heaps,
              TIDE_P_HEAPS_MAX);
    REFUSE_IF(h->state >= TIDE_P_STATE_COUNT_, TIDE_ERR_FORMAT, state,
              "unknown state %" PRIu32, h->state);
    return TIDE_OK;
}

static enum tide_err read_header(struct tide_profile *profile,
                                 struct tide_p_problem *problem)
{
    struct tide_p_header *h = &profile->header;
    const size_t got = tideP_read_at(profile->fd, h, sizeof *h, 0);
    if (got < sizeof h->magic ||
        memcmp(h->magic, TIDE_P_MAGIC, sizeof h->magic) != 0) {
        tideP_problem(problem, TIDE_ERR_FORMAT, 0, "not a tidemark profile");
        return TIDE_ERR_FORMAT;
    }
    if (got < sizeof *h) {
        tideP_problem(problem, TIDE_ERR_FORMAT, got,
                      "the file ends inside its header");
        return TIDE_ERR_FORMAT;
    }
    return check_header(h, problem);
}

static void end_text(struct tide_profile *profile, char *text, size_t bytes)
{
    if (memchr(text, '\0', bytes) != NULL)
        return;
    text[bytes - 1] = '\0';
    tideP_problem(&profile->problem, TIDE_ERR_FORMAT,
                  (uint64_t)(text - (char *)&profile->header) + bytes - 1,
                  "a text in the header has no end");
}

/* What need not keep anyone from reading on. */
static void mend_header(struct tide_profile *profile)
{
    struct tide_p_header *h = &profile->header;
    const uint32_t known = TIDE_P_FLAG_PARTLY_IN_MEMORY | TIDE_P_FLAG_SAVED;
    if ((h->flags & ~known) != 0)
        tideP_problem(&profile->problem, TIDE_ERR_FORMAT,
                      offsetof(struct tide_p_header, flags),
                      "unknown flags 0x%" PRIx32, h->flags & ~known);
    if (h->tier >= TIDE_TIER_COUNT_) {
        tideP_problem(&profile->problem, TIDE_ERR_FORMAT,
                      offsetof(struct tide_p_header, tier),
                      "unknown tier %" PRIu32, h->tier);
        h->tier = TIDE_TIER_PUBLIC;
    }
    if (h->command_bytes > sizeof h->command) {
        tideP_problem(&profile->problem, TIDE_ERR_FORMAT,
                      offsetof(struct tide_p_header, command_bytes),
                      "command of %" PRIu32 " bytes", h->command_bytes);
        h->command_bytes = sizeof h->command;
    }
    if (h->command_bytes > 0)
        h->command[h->command_bytes - 1] = '\0';
    end_text(profile, h->lua, sizeof h->lua);
    end_text(profile, h->tool, sizeof h->tool);
    end_text(profile, h->route, sizeof h->route);
    end_text(profile, h->tier_reason, sizeof h->tier_reason);
    end_text(profile, h->program, sizeof h->program);
}

/* What the writer or the length of the file says about missing parts. */
static void note_missing_parts(struct tide_profile *profile)
{
    const struct tide_p_header *h = &profile->header;
    if (profile->file_bytes < h->file_bytes)
        tideP_problem(&profile->problem, TIDE_ERR_FORMAT, profile->file_bytes,
                      "the file has %" PRIu64 " of %" PRIu64 " bytes",
                      profile->file_bytes, h->file_bytes);
    if ((h->flags & TIDE_P_FLAG_PARTLY_IN_MEMORY) != 0)
        tideP_problem(&profile->problem, TIDE_ERR_IO,
                      offsetof(struct tide_p_header, flags),
                      "the disk was full when it was written");
}

/* Counts of what refers come before those of what it refers to. */
static bool read_head(const struct tide_profile *profile, uint32_t number,
                      struct tide_p_heap *head)
{
    static const size_t counts[] = {
        offsetof(struct tide_p_heap, n_huge),
        offsetof(struct tide_p_heap, n_marks),
        offsetof(struct tide_p_heap, n_snaps),
        offsetof(struct tide_p_heap, n_targets),
        offsetof(struct tide_p_heap, n_cells),
        offsetof(struct tide_p_heap, n_floors),
        offsetof(struct tide_p_heap, n_lives),
        offsetof(struct tide_p_heap, n_rests),
        offsetof(struct tide_p_heap, n_cycles),
        offsetof(struct tide_p_heap, n_moments),
        offsetof(struct tide_p_heap, n_events),
        offsetof(struct tide_p_heap, n_nodes),
        offsetof(struct tide_p_heap, n_funcs),
        offsetof(struct tide_p_heap, n_objects),
        offsetof(struct tide_p_heap, string_bytes),
    };
    const struct tide_map map = tideP_map_find(profile, number, TIDE_P_HEAD);
    if (map.bytes < sizeof *head ||
        tideP_map_read(&map, head, sizeof *head) < sizeof *head)
        return false;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const uint64_t at = tideP_map_offset(&map, counts[i]);
        if (tideP_read_at(profile->fd, (char *)head + counts[i], 4, at) != 4)
            return false;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    return true;
}

static enum tide_err read_heads(struct tide_profile *profile)
{
    const uint32_t n = profile->header.n_heaps;
    profile->heaps = calloc(n > 0 ? n : 1, sizeof *profile->heaps);
    if (profile->heaps == NULL)
        return TIDE_ERR_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        struct tide_loaded *heap = &profile->heaps[profile->n_heaps];
        if (read_head(profile, i, &heap->head)) {
            heap->number = i;
            profile->n_heaps++;
        } else if (profile->is_closed) {
            tideP_problem(&profile->problem, TIDE_ERR_FORMAT,
                          offsetof(struct tide_p_header, n_heaps),
                          "heap %" PRIu32 " is missing", i);
        }
    }
    return TIDE_OK;
}

/* A profile that is being written may have grown since its directory was
   read. */
static enum tide_err observe_again(struct tide_profile *profile,
                                   struct tide_p_problem *problem)
{
    struct tide_p_header now;
    if (tideP_read_at(profile->fd, &now, sizeof now, 0) != sizeof now) {
        tideP_problem(problem, TIDE_ERR_FORMAT, 0,
                      "the file was cut while it was read");
        return TIDE_ERR_FORMAT;
    }
    TIDE_TRY(check_header(&now, problem));
    profile->header.n_extents = now.n_extents;
    profile->header.n_heaps = now.n_heaps;
    profile->header.extents_max = now.extents_max;
    profile->header.file_bytes = now.file_bytes;
    return tideP_map_load(profile, problem);
}

static enum tide_err load(struct tide_profile *profile,
                          struct tide_p_problem *problem)
{
    TIDE_TRY(read_header(profile, problem));
    mend_header(profile);
    profile->is_closed = profile->header.state == TIDE_P_CLOSED;
    TIDE_TRY(tideP_map_load(profile, problem));
    TIDE_TRY(read_heads(profile));
    if (!profile->is_closed)
        TIDE_TRY(observe_again(profile, problem));
    note_missing_parts(profile);
    for (uint32_t i = 0; i < profile->n_heaps; i++)
        if (profile->heaps[i].head.n_snaps > 0)
            profile->is_lean = false;
    for (uint32_t i = 0; i < profile->n_heaps; i++) {
        struct tide_loaded *heap = &profile->heaps[i];
        TIDE_TRY(tideP_load_records(profile, heap));
        if (profile->problem.err == TIDE_OK)
            profile->problem = heap->view.problem;
    }
    return TIDE_OK;
}

static void close_file(struct tide_profile *profile)
{
    if (profile->fd >= 0)
        close(profile->fd);
    profile->fd = -1;
}

static enum tide_err open_profile(const char *path, bool is_lean,
                                  struct tide_profile **out,
                                  struct tide_p_problem *problem)
{
    struct tide_profile *profile = calloc(1, sizeof *profile);
    *problem = (struct tide_p_problem){.err = TIDE_OK};
    enum tide_err err = TIDE_ERR_NOMEM;
    if (profile != NULL) {
        profile->is_lean = is_lean;
        err = open_file(path, &profile->fd, problem);
        if (err == TIDE_OK)
            err = load(profile, problem);
        if (err != TIDE_OK || !profile->is_lean)
            close_file(profile);
    }
    if (err == TIDE_OK) {
        *out = profile;
        return TIDE_OK;
    }
    tideP_problem(problem, err, 0, "%s", tide_err_text(err));
    tideP_reader_close(profile);
    return err;
}

enum tide_err tideP_reader_open(const char *path, struct tide_profile **out,
                                struct tide_p_problem *problem)
{
    return open_profile(path, false, out, problem);
}

enum tide_err tideP_reader_open_lean(const char *path,
                                     struct tide_profile **out,
                                     struct tide_p_problem *problem)
{
    return open_profile(path, true, out, problem);
}

void tideP_reader_close(struct tide_profile *profile_or_null)
{
    if (profile_or_null == NULL)
        return;
    close_file(profile_or_null);
    for (uint32_t i = 0; i < profile_or_null->n_heaps; i++) {
        struct tide_loaded *heap = &profile_or_null->heaps[i];
        free(heap->strings);
        free(heap->funcs);
        free(heap->nodes);
        free(heap->cells);
        free(heap->cycles);
        free(heap->moments);
        free(heap->events);
        free(heap->floors);
        free(heap->lives);
        free(heap->objects);
        free(heap->marks);
        free(heap->snaps);
        free(heap->targets);
        free(heap->held);
    }
    free(profile_or_null->heaps);
    free(profile_or_null->extents);
    free(profile_or_null);
}

const struct tide_p_header *
tideP_reader_header(const struct tide_profile *profile)
{
    return &profile->header;
}

uint32_t tideP_reader_n_heaps(const struct tide_profile *profile)
{
    return profile->n_heaps;
}

const struct tide_p_view *tideP_reader_heap(const struct tide_profile *profile,
                                            uint32_t heap)
{
    tide_assert(heap < profile->n_heaps);
    return &profile->heaps[heap].view;
}

const struct tide_p_problem *
tideP_reader_problem(const struct tide_profile *profile)
{
    return &profile->problem;
}

const char *tideP_view_string(const struct tide_p_view *view, uint32_t offset,
                              size_t *bytes_or_null)
{
    uint32_t bytes = 0;
    const char *text = "";
    if (offset % 4 == 0 && view->string_bytes >= 8 &&
        offset <= view->string_bytes - 8) {
        memcpy(&bytes, view->strings + offset, sizeof bytes);
        if (bytes < view->string_bytes - offset - 4)
            text = view->strings + offset + 4;
        else
            bytes = 0;
    }
    if (bytes_or_null != NULL)
        *bytes_or_null = bytes;
    return text;
}

bool tideP_view_is_settled(const struct tide_p_view *view)
{
    const struct tide_p_heap *head = view->head;
    uint64_t alloc = view->cells != NULL ? 0 : view->alloc_bytes;
    uint64_t freed = view->cells != NULL ? 0 : view->freed_bytes;
    if (head->state == TIDE_P_HEAP_CLOSED)
        return true;
    for (uint32_t i = 1; view->cells != NULL && i < view->n_cells; i++) {
        alloc += view->cells[i].alloc_bytes;
        freed += view->cells[i].freed_bytes + view->cells[i].closed_bytes;
    }
    return head->settled != 0 && alloc == head->settled_alloc_bytes &&
           freed == head->settled_freed_bytes;
}

uint64_t tideP_cell_peak_bytes(const struct tide_p_heap *head,
                               const struct tide_cell *cell)
{
    if (head->peak_is_past != 0 && cell->peak_epoch == head->peak_epoch)
        return cell->peak_bytes;
    /* finalizers may raise the peak when lua_close has freed some already */
    return tideP_cell_live_bytes(cell) - cell->closed_bytes;
}

uint64_t tideP_cell_peak_blocks(const struct tide_p_heap *head,
                                const struct tide_cell *cell)
{
    if (head->peak_is_past != 0 && cell->peak_epoch == head->peak_epoch)
        return cell->peak_blocks;
    return tideP_cell_live_blocks(cell) - cell->closed_blocks;
}
