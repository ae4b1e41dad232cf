/*
** damage.h: finds and overwrites what stands in a profile.
*/
#ifndef TIDE_TESTS_DAMAGE_H
#define TIDE_TESTS_DAMAGE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../profile/profile.h"
#include "../tap.h"
#include "scratch.h"

/* Where the first piece of a section is in the file: all of it, when the
** profile is compact. */
static inline uint64_t section_at(const char *path, uint32_t heap,
                                  enum tide_p_section id)
{
    size_t bytes = 0;
    uint64_t at = 0;
    unsigned char *file = scratch_read(path, &bytes);
    const struct tide_p_header *header = (void *)file;
    const struct tide_p_extent *e = (void *)(file + TIDE_P_HEADER_BYTES);
    for (uint32_t i = 0; i < header->n_extents && at == 0; i++)
        if (e[i].heap == heap && e[i].section == id)
            at = (uint64_t)e[i].page * TIDE_P_PAGE;
    free(file);
    CHECK(at != 0);
    return at;
}

/* Overwrites one field of a record of heap 0 in a compact profile. */
#define PATCH(path, id, record, index, field, value)                           \
 do {                                                                          \
  struct record patch_;                                                        \
  memset(&patch_, 0, sizeof patch_);                                           \
  patch_.field = (value);                                                      \
  scratch_patch(path,                                                          \
                section_at(path, 0, id) + (index) * sizeof patch_ +            \
                    offsetof(struct record, field),                            \
                &patch_.field, sizeof patch_.field);                           \
 } while (0)

#endif
