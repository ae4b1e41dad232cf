/*
** agent_code.h: moves the first instructions of a function elsewhere.
*/
#ifndef TIDE_AGENT_CODE_H
#define TIDE_AGENT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the jump that replaces the beginning of a function. */
#define TIDEG_JUMP_BYTES_X86_64  14u
#define TIDEG_JUMP_BYTES_AARCH64 16u
#define TIDEG_JUMP_BYTES_MAX     16u

/* Room for the moved instructions and the jump behind them. */
#define TIDEG_ISLAND_BYTES 128u

/* A function's code; `bytes` are at address `at` in the process. */
struct tideG_code {
    const uint8_t *bytes;
    size_t n_bytes;        /* readable bytes: the function and what follows */
    size_t function_bytes; /* length of the function */
    uint64_t at;
};

/*
** Fills `island` with whole instructions from the beginning of the function,
** at least as many as the jump covers, and a jump to what follows them.  NULL,
** or why that cannot be: then the function must be left alone or called with
** its own bytes put back.
*/
const char *tideG_code_move_x86_64(const struct tideG_code *code,
                                   uint8_t island[TIDEG_ISLAND_BYTES],
                                   size_t *n_written);
const char *tideG_code_move_aarch64(const struct tideG_code *code,
                                    uint8_t island[TIDEG_ISLAND_BYTES],
                                    size_t *n_written);

/* The function begins with somebody else's jump or break point. */
bool tideG_code_is_patched_x86_64(const uint8_t *bytes);
bool tideG_code_is_patched_aarch64(const uint8_t *bytes);

/* The jump itself, to any address; returns its length. */
size_t tideG_code_jump_x86_64(uint64_t to, uint8_t *out);
size_t tideG_code_jump_aarch64(uint64_t to, uint8_t *out);

#endif
