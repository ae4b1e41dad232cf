/*
** mutate.c: how fuzz targets change a profile.
**
** A mutation that knows the format is of more use than one that does not:
** besides libFuzzer's own, one word of a record that means something is
** replaced by a value that is nearly right.
*/
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "../../profile/profile.h"

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes,
                               unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

/* A number close to the limits that checks look at. */
static uint32_t near_value(uint32_t old, uint32_t random)
{
    static const uint32_t values[] = {
        0, 1, 7, 8, 4095, 4096, TIDE_P_STRING_MAX + 1, 1u << 31, UINT32_MAX,
    };
    const uint32_t n = sizeof values / sizeof values[0];
    switch (random % 4) {
    case 0:
        return values[random / 4 % n];
    case 1:
        return old + 1;
    case 2:
        return old - 1;
    default:
        return random / 4 % 200;
    }
}

/* Replaces one aligned word that is not in the midst of empty space. */
static void change_word(uint8_t *data, size_t bytes, unsigned seed)
{
    const size_t n_words = bytes / 4;
    size_t at = seed / 7 % n_words;
    uint32_t word = 0;
    for (size_t i = 0; i < 2048; i++, at = (at + 1) % n_words) {
        memcpy(&word, data + at * 4, 4);
        if (word != 0)
            break;
    }
    word = near_value(word, seed * 2654435761u >> 7);
    memcpy(data + at * 4, &word, 4);
}

#if defined(TIDE_LIBFUZZER)
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes,
                               unsigned seed)
{
    if (bytes < TIDE_P_HEADER_BYTES || seed % 3 == 0)
        return LLVMFuzzerMutate(data, bytes, max_bytes);
    for (unsigned n = 1 + seed % 5; n > 0; n--)
        change_word(data, bytes, seed = seed * 1664525u + 1013904223u);
    /* The magic is not what is to be found out. */
    memcpy(data, TIDE_P_MAGIC, 8);
    return bytes;
}
#else
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes,
                               unsigned seed)
{
    (void)max_bytes;
    if (bytes >= TIDE_P_HEADER_BYTES)
        change_word(data, bytes, seed);
    return bytes;
}
#endif
