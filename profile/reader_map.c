/*
** reader_map.c: the directory of a profile: which bytes make a section.
**
** Entries that contradict each other make the file unreadable: there is no
** telling which one is right.  Extents behind the end of the file, or behind
** a gap in the ordinals, are left out; sections are then shorter.
*/
#include "reader_impl.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/assert.h"

size_t tideP_read_at(int fd, void *out, size_t bytes, uint64_t offset)
{
    size_t done = 0;
    while (done < bytes) {
        const ssize_t n =
            pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

static uint64_t extent_start(const struct tide_p_extent *e)
{
    return (uint64_t)e->page * TIDE_P_PAGE;
}

static uint64_t extent_end(const struct tide_p_extent *e)
{
    return ((uint64_t)e->page + e->n_pages) * TIDE_P_PAGE;
}

static int compare_place(const void *a, const void *b)
{
    const struct tide_p_extent *x = a, *y = b;
    if (x->heap != y->heap)
        return x->heap < y->heap ? -1 : 1;
    if (x->section != y->section)
        return x->section < y->section ? -1 : 1;
    return x->ordinal < y->ordinal ? -1 : x->ordinal > y->ordinal;
}

static int compare_page(const void *a, const void *b)
{
    const struct tide_p_extent *x = a, *y = b;
    return x->page < y->page ? -1 : x->page > y->page;
}

static const char *extent_fault_or_null(const struct tide_profile *profile,
                                        const struct tide_p_extent *e)
{
    if (e->heap >= profile->header.n_heaps)
        return "no such heap";
    if (e->section >= TIDE_P_SECTION_COUNT_)
        return "no such section";
    if (e->reserved != 0)
        return "reserved byte is not 0";
    if (e->n_pages == 0)
        return "no pages";
    if (extent_start(e) < TIDE_P_DATA_OFFSET(profile->header.extents_max))
        return "lies inside the directory";
    return NULL;
}

static enum tide_err check_entries(const struct tide_profile *profile,
                                   struct tide_p_problem *problem)
{
    for (uint32_t i = 0; i < profile->n_extents; i++) {
        const char *fault = extent_fault_or_null(profile, &profile->extents[i]);
        if (fault == NULL)
            continue;
        tideP_problem(problem, TIDE_ERR_FORMAT,
                      TIDE_P_HEADER_BYTES + i * sizeof(struct tide_p_extent),
                      "extent %" PRIu32 ": %s", i, fault);
        return TIDE_ERR_FORMAT;
    }
    return TIDE_OK;
}

/* Sorts by page, and leaves it so. */
static enum tide_err check_overlaps(struct tide_profile *profile,
                                    struct tide_p_problem *problem)
{
    struct tide_p_extent *e = profile->extents;
    qsort(e, profile->n_extents, sizeof *e, compare_page);
    for (uint32_t i = 1; i < profile->n_extents; i++) {
        if (extent_end(&e[i - 1]) <= extent_start(&e[i]))
            continue;
        tideP_problem(problem, TIDE_ERR_FORMAT, extent_start(&e[i]),
                      "two extents overlap at page %" PRIu32, e[i].page);
        return TIDE_ERR_FORMAT;
    }
    return TIDE_OK;
}

/* Sorts by place, and leaves it so. */
static enum tide_err check_ordinals(struct tide_profile *profile,
                                    struct tide_p_problem *problem)
{
    struct tide_p_extent *e = profile->extents;
    qsort(e, profile->n_extents, sizeof *e, compare_place);
    for (uint32_t i = 1; i < profile->n_extents; i++) {
        if (compare_place(&e[i - 1], &e[i]) != 0)
            continue;
        tideP_problem(problem, TIDE_ERR_FORMAT, extent_start(&e[i]),
                      "heap %u, section %u: two extents have number %" PRIu32,
                      e[i].heap, e[i].section, e[i].ordinal);
        return TIDE_ERR_FORMAT;
    }
    return TIDE_OK;
}

static enum tide_err read_entries(struct tide_profile *profile,
                                  struct tide_p_problem *problem)
{
    const uint32_t n = profile->header.n_extents;
    const size_t bytes = n * sizeof(struct tide_p_extent);
    free(profile->extents);
    profile->n_extents = 0;
    profile->extents = malloc(bytes > 0 ? bytes : 1);
    if (profile->extents == NULL)
        return TIDE_ERR_NOMEM;
    const size_t got = tideP_read_at(profile->fd, profile->extents, bytes,
                                     TIDE_P_HEADER_BYTES);
    if (got < bytes) {
        tideP_problem(problem, TIDE_ERR_FORMAT, TIDE_P_HEADER_BYTES + got,
                      "the file ends inside its directory");
        return TIDE_ERR_FORMAT;
    }
    profile->n_extents = n;
    return TIDE_OK;
}

enum tide_err tideP_map_load(struct tide_profile *profile,
                             struct tide_p_problem *problem)
{
    struct stat st;
    TIDE_TRY(read_entries(profile, problem));
    TIDE_TRY(check_entries(profile, problem));
    TIDE_TRY(check_overlaps(profile, problem));
    TIDE_TRY(check_ordinals(profile, problem));
    if (fstat(profile->fd, &st) != 0) {
        tideP_problem(problem, TIDE_ERR_IO, 0, "%s", strerror(errno));
        return TIDE_ERR_IO;
    }
    profile->file_bytes = (uint64_t)st.st_size;
    return TIDE_OK;
}

/* The first extent that does not come before (heap, id, 0). */
static uint32_t lower_bound(const struct tide_profile *profile, uint32_t heap,
                            enum tide_p_section id)
{
    const struct tide_p_extent key = {
        .heap = (uint16_t)heap,
        .section = (uint8_t)id,
    };
    uint32_t low = 0, high = profile->n_extents;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare_place(&profile->extents[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct tide_map tideP_map_find(const struct tide_profile *profile,
                               uint32_t heap, enum tide_p_section id)
{
    tide_assert(id < TIDE_P_SECTION_COUNT_);
    const uint32_t first = lower_bound(profile, heap, id);
    struct tide_map map = {profile, profile->extents + first, 0, 0};
    for (uint32_t i = first; i < profile->n_extents; i++) {
        const struct tide_p_extent *e = &profile->extents[i];
        if (e->heap != heap || e->section != id || e->ordinal != map.n_extents)
            break;
        if (extent_start(e) >= profile->file_bytes)
            break;
        map.n_extents++;
        if (extent_end(e) > profile->file_bytes) {
            map.bytes += profile->file_bytes - extent_start(e);
            break;
        }
        map.bytes += extent_end(e) - extent_start(e);
    }
    return map;
}

uint64_t tideP_map_offset(const struct tide_map *map, uint64_t offset)
{
    for (uint32_t i = 0; i < map->n_extents; i++) {
        const uint64_t bytes =
            extent_end(&map->extents[i]) - extent_start(&map->extents[i]);
        if (offset < bytes || i + 1 == map->n_extents)
            return extent_start(&map->extents[i]) + offset;
        offset -= bytes;
    }
    return map->profile->file_bytes;
}

uint64_t tideP_map_read_at(const struct tide_map *map, uint64_t offset,
                           void *out, uint64_t bytes)
{
    uint64_t done = 0;
    for (uint32_t i = 0; i < map->n_extents && done < bytes; i++) {
        const struct tide_p_extent *e = &map->extents[i];
        const uint64_t whole = extent_end(e) - extent_start(e);
        if (offset >= whole) {
            offset -= whole;
            continue;
        }
        uint64_t want = whole - offset;
        if (want > bytes - done)
            want = bytes - done;
        const size_t got =
            tideP_read_at(map->profile->fd, (char *)out + done, (size_t)want,
                          extent_start(e) + offset);
        done += got;
        offset = 0;
        if (got < want)
            break;
    }
    return done;
}

uint64_t tideP_map_read(const struct tide_map *map, void *out, uint64_t bytes)
{
    tide_assert(bytes <= map->bytes);
    return tideP_map_read_at(map, 0, out, bytes);
}
