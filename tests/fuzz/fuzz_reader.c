/*
** fuzz_reader.c: any bytes whatever as a profile.
**
** Opening must refuse them or give views that may be followed blindly.  Build
** with -Dfuzz=true and clang for libFuzzer; linked with replay_main.c it
** replays files, as the normal suite does.
**
** mutate.c says how files are changed.
*/
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../unit/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

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
