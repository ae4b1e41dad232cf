/*
** linemap.h: where the lines of a text are in a later version of it.
*/
#ifndef TIDE_LINEMAP_H
#define TIDE_LINEMAP_H

#include <stddef.h>
#include <stdint.h>

#include "../common/err.h"

/*
** Maps lines of one text to those of another that read the same, blanks around
** them aside, or that were changed in their place.  Mapped lines keep their
** order.
** map      map[line], from 1: the line in the other text; 0: it is gone.
**          Freed by free().
** n_lines  lines of the first text; map has n_lines + 1 entries.
** Errors: NOMEM.
*/
enum tide_err tideR_linemap(const char *a, size_t a_bytes, const char *b,
                            size_t b_bytes, uint32_t **map, uint32_t *n_lines);

#endif
