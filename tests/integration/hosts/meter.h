/*
** meter.h: an allocator that counts and calls another one.
*/
#ifndef METER_H
#define METER_H

#include <stddef.h>
#include <stdlib.h>

struct meter {
    void *(*inner)(void *ud, void *ptr, size_t osize, size_t nsize);
    void *inner_ud;
    size_t n_calls;
    size_t held_bytes; /* modulo 2^64: blocks from before are not in it */
};

static inline void *plain_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize > 0)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

static inline void *meter_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct meter *meter = ud;
    void *out = meter->inner(meter->inner_ud, ptr, osize, nsize);
    meter->n_calls++;
    if (out != NULL || nsize == 0)
        meter->held_bytes += nsize - (ptr != NULL ? osize : 0);
    return out;
}

#endif
