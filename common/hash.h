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

static inline uint64_t tideC_hash_word(uint64_t word)
{
    return XXH3_64bits(&word, sizeof word);
}

#endif
