/*
** grow.h: arrays that double.
*/
#ifndef TIDE_GROW_H
#define TIDE_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../common/err.h"

#define TIDE_R_FIRST_ROWS 64u

/*
** Makes room for `want` elements; new ones are not cleared.
** array  points to the caller's pointer, NULL at first; freed by free().
** max    elements it has room for, 0 at first.
** Errors: NOMEM (also for more than a uint32_t can count); the array is then
** as it was.
*/
static inline enum tide_err tideR_grow(void *array, uint32_t *max,
                                       uint64_t want, size_t element_bytes)
{
    if (want <= *max)
        return TIDE_OK;
    uint64_t rows = *max == 0 ? TIDE_R_FIRST_ROWS : *max;
    while (rows < want)
        rows *= 2;
    TIDE_FAIL_IF(rows > UINT32_MAX, TIDE_ERR_NOMEM);
    void **place = array;
    void *p = realloc(*place, (size_t)rows * element_bytes);
    TIDE_FAIL_IF(p == NULL, TIDE_ERR_NOMEM);
    *place = p;
    *max = (uint32_t)rows;
    return TIDE_OK;
}

#endif
