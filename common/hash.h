/*
** hash.h: the one place that includes xxHash.  XXH3, 64 bits, seed 0: hashes
** live in one process only and are never written to a file.
*/
#ifndef TIDE_HASH_H
#define TIDE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static inline uint64_t tideC_hash_bytes(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

/*
** Three words, for the tree's edges: XXH3 of 12 bytes takes four times as long
** as this, which shows in programs with large trees.
*/
static inline uint64_t tideC_hash_three(uint32_t a, uint32_t b, uint32_t c)
{
    uint64_t x = ((uint64_t)a << 32 | b) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 32) ^ c) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ (x >> 32);
}

static inline uint64_t tideC_hash_word(uint64_t word)
{
    return XXH3_64bits(&word, sizeof word);
}

#endif
