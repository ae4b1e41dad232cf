/*
** blocks.h: the largest blocks of a profile.
*/
#ifndef TIDE_BLOCKS_H
#define TIDE_BLOCKS_H

#include <stdbool.h>
#include <stdio.h>

#include "emit.h"
#include "model.h"
#include "render.h"

/*
** Writes a row for each of the largest blocks: one for each stack and kind that
** ever had a huge one (TIDE_P_HUGE_LEAST), the largest first.
** top      rows at most; 0: all
** look     how wide it may be
** as_json  {"format": "tidemark-blocks", "version": 1, "blocks": [...]}, each
**          as in the list "largest_blocks" of a report
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_blocks(const struct tide_model *model, uint32_t top,
                           const struct tide_r_look *look, bool as_json,
                           FILE *out);

/*
** A list of them: bytes, kind, source, line, frames (root first), s, cycle and
** alloc_bytes (by then), state, blocks (huge ones of that stack and kind).
*/
void tideR_json_blocks(struct tide_r_json *json, const char *key,
                       const struct tide_model *model, uint32_t top);

#endif
