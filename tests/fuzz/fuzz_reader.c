/*
** fuzz_reader.c: any bytes whatever as a profile.
**
** Opening must refuse them or give views that may be followed blindly.  Build
** with -Dfuzz=true and clang for libFuzzer; linked with replay_main.c it
** replays files, as the normal suite does.
**
** A mutation that knows the format is of more use than one that does not:
** besides libFuzzer's own, one word of a record that means something is
** replaced by a value that is nearly right.
*/
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t max_bytes,
                               unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t max_bytes);

/* One file in memory for all inputs. */
static int input_fd(void)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("profile", MFD_CLOEXEC);
    return fd;
}

static void count_fault(void *ctx, const char *text)
{
    *(uint64_t *)ctx += 1;
    WALK_MUST(text[0] != '\0');
}

static void follow(struct tide_profile *profile)
{
    uint64_t n_faults = 0;
    walk_profile(profile);
    const uint64_t n = tideP_check(profile, true, count_fault, &n_faults);
    WALK_MUST(n == n_faults);
    WALK_MUST(tideP_check(profile, false, NULL, NULL) <= n);
    tideP_reader_close(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tide_profile *profile = NULL;
    struct tide_p_problem problem;
    char path[64];
    const int fd = input_fd();
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const enum tide_err err = tideP_reader_open(path, &profile, &problem);
    WALK_MUST(err < TIDE_ERR_COUNT_ && err == problem.err);
    WALK_MUST((err == TIDE_OK) == (profile != NULL));
    WALK_MUST((err == TIDE_OK) == (problem.text[0] == '\0'));
    if (err == TIDE_OK)
        follow(profile);
    return 0;
}

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
