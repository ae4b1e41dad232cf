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

/* What it was at its marks; each changes the profile. */
static void go_to_marks(const char *path)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    char label[TIDE_P_STRING_MAX + 1] = "";
    for (uint32_t k = 0; k < 3; k++) {
        if (tideP_reader_open(path, &profile, &problem) != TIDE_OK)
            return;
        const uint32_t n = tideP_reader_n_heaps(profile);
        for (uint32_t i = 0; i < n; i++) {
            const struct tide_p_view *view = tideP_reader_heap(profile, i);
            if (k < view->n_marks)
                snprintf(label, sizeof label, "%s",
                         tideP_view_string(view, view->marks[k].label, NULL));
        }
        problem.err = TIDE_OK;
        const enum tide_err err =
            tideP_reader_to_mark(profile, label, &problem);
        WALK_MUST(err == problem.err);
        WALK_MUST(err == TIDE_OK || err == TIDE_ERR_ARG);
        walk_profile(profile);
        tideP_check(profile, true, NULL, NULL);
        tideP_reader_close(profile);
    }
}

static void follow(const char *path, struct tide_profile *profile)
{
    go_to_marks(path);
    uint64_t n_faults = 0;
    walk_profile(profile);
    walk_lean(path, profile);
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
        follow(path, profile);
    return 0;
}
