/*
** packed.c: see packed.h.
**
** A row is a bit for each counter that is not 0, in 3 bytes, and these
** counters, 7 bits a byte, the lowest first; a set 8th bit says that more
** follow.  Signed ones have their sign in the lowest bit.  Live figures follow
** from others and are not kept.  Rows lie in chunks, none across two.
*/
#include "packed.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "model.h"

#define CHUNK_SHIFT 16u
#define CHUNK_BYTES (1u << CHUNK_SHIFT)
#define MASK_BYTES  3u
#define VALUE_BYTES 10u /* at most */

/* Which words of struct tide_r_counts are kept, the signed ones at the end. */
#define WORD(field) (offsetof(struct tide_r_counts, field) / sizeof(uint64_t))
static const unsigned char words[] = {
    WORD(alloc_bytes),      WORD(alloc_blocks), WORD(freed_bytes),
    WORD(freed_blocks),     WORD(young_bytes),  WORD(young_blocks),
    WORD(peak_bytes),       WORD(peak_blocks),  WORD(inherited_bytes),
    WORD(inherited_blocks), WORD(once_bytes),   WORD(once_blocks),
    WORD(twice_bytes),      WORD(twice_blocks), WORD(ageless_bytes),
    WORD(ageless_blocks),   WORD(held_bytes),   WORD(held_blocks),
    WORD(regrown_bytes),    WORD(n_regrown),    WORD(moved_bytes),
    WORD(moved_blocks),
};
#define N_WORDS   (sizeof words)
#define N_COUNTS  (sizeof(struct tide_r_counts) / sizeof(uint64_t))
#define N_SIGNED  2u
#define ROW_BYTES (MASK_BYTES + N_WORDS * VALUE_BYTES)

static_assert(N_COUNTS == N_WORDS + 2, "all but the two live figures");
static_assert(N_WORDS <= MASK_BYTES * 8, "a bit for each");

static uint64_t zigzag(uint64_t value)
{
    return value << 1 ^ (0 - (value >> 63));
}

static uint64_t zagzig(uint64_t value)
{
    return value >> 1 ^ (0 - (value & 1));
}

static unsigned char *put_value(unsigned char *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (unsigned char)(value | 0x80);
    *at++ = (unsigned char)value;
    return at;
}

static const unsigned char *get_value(const unsigned char *at, uint64_t *value)
{
    unsigned shift = 0;
    *value = 0;
    for (; (*at & 0x80) != 0; shift += 7)
        *value |= (uint64_t)(*at++ & 0x7F) << shift;
    *value |= (uint64_t)*at++ << shift;
    return at;
}

/* Room for one more row in the last chunk. */
static enum tide_err make_room(struct tide_packed *packed)
{
    if (packed->n_chunks > 0 && packed->used + ROW_BYTES <= CHUNK_BYTES)
        return TIDE_OK;
    TIDE_FAIL_IF(packed->n_chunks >= UINT32_MAX >> CHUNK_SHIFT, TIDE_ERR_NOMEM);
    TIDE_TRY(tideR_grow(&packed->chunks, &packed->max_chunks,
                        (uint64_t)packed->n_chunks + 1,
                        sizeof *packed->chunks));
    unsigned char *chunk = malloc(CHUNK_BYTES);
    TIDE_FAIL_IF(chunk == NULL, TIDE_ERR_NOMEM);
    packed->chunks[packed->n_chunks++] = chunk;
    packed->used = 0;
    return TIDE_OK;
}

enum tide_err tideR_pack(struct tide_packed *packed,
                         const struct tide_r_counts *counts, uint32_t *at)
{
    uint64_t values[N_COUNTS];
    uint32_t mask = 0;
    TIDE_TRY(make_room(packed));
    memcpy(values, counts, sizeof values);
    const uint32_t chunk = packed->n_chunks - 1;
    unsigned char *const row = packed->chunks[chunk] + packed->used;
    unsigned char *end = row + MASK_BYTES;
    for (unsigned i = 0; i < N_WORDS; i++) {
        uint64_t value = values[words[i]];
        if (value == 0)
            continue;
        mask |= 1u << i;
        end = put_value(end, i < N_WORDS - N_SIGNED ? value : zigzag(value));
    }
    for (unsigned i = 0; i < MASK_BYTES; i++)
        row[i] = (unsigned char)(mask >> (8 * i));
    *at = chunk << CHUNK_SHIFT | packed->used;
    packed->used += (uint32_t)(end - row);
    return TIDE_OK;
}

static void make_live(struct tide_r_counts *counts)
{
    counts->live_bytes = counts->inherited_bytes + counts->alloc_bytes +
                         (uint64_t)counts->moved_bytes - counts->freed_bytes;
    counts->live_blocks = counts->inherited_blocks + counts->alloc_blocks +
                          (uint64_t)counts->moved_blocks - counts->freed_blocks;
}

void tideR_unpack(const struct tide_packed *packed, uint32_t at,
                  struct tide_r_counts *out)
{
    uint64_t values[N_COUNTS] = {0};
    const unsigned char *row =
        packed->chunks[at >> CHUNK_SHIFT] + (at & (CHUNK_BYTES - 1));
    uint32_t mask = row[0] | (uint32_t)row[1] << 8 | (uint32_t)row[2] << 16;
    row += MASK_BYTES;
    for (; mask != 0; mask &= mask - 1) {
        const unsigned i = (unsigned)__builtin_ctz(mask);
        uint64_t value;
        row = get_value(row, &value);
        values[words[i]] = i < N_WORDS - N_SIGNED ? value : zagzig(value);
    }
    memcpy(out, values, sizeof values);
    make_live(out);
}

void tideR_packed_close(struct tide_packed *packed)
{
    for (uint32_t i = 0; i < packed->n_chunks; i++)
        free(packed->chunks[i]);
    free(packed->chunks);
    *packed = (struct tide_packed){0};
}
