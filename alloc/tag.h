/*
** tag.h: the owner tag of a block, 64 bits:
**
**   63            32 31             0
**   +---------------+---------------+
**   |  birth cycle  |     cell      |
**   +---------------+---------------+
**
** cell   the row that the block is charged to; 0: none
** birth  number of the collection cycle it was made in
**
** The tag stands in the last 8 bytes of the block's slot: behind the size
** that Lua asked for, rounded up to 8.  Lua passes that size on every free, so
** the tag needs no header to be found.
*/
#ifndef TIDE_TAG_H
#define TIDE_TAG_H

#include <stddef.h>
#include <stdint.h>

#include "../common/compiler.h"

#define TIDE_TAG_BYTES 8u

TIDE_INLINE uint64_t tideA_tag(uint32_t cell, uint32_t birth)
{
    return ((uint64_t)birth << 32) | cell;
}

TIDE_INLINE uint32_t tideA_tag_cell(uint64_t tag)
{
    return (uint32_t)tag;
}

TIDE_INLINE uint32_t tideA_tag_birth(uint64_t tag)
{
    return (uint32_t)(tag >> 32);
}

/* Bytes of a block without its tag: LUAI_MAXALIGN asks for multiples of 8. */
TIDE_INLINE size_t tideA_round(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

TIDE_INLINE uint64_t *tideA_tag_place(void *block, size_t bytes)
{
    return (uint64_t *)(void *)((char *)block + tideA_round(bytes));
}

#endif
