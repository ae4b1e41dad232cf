/*
** fuzz_report.c: reports of any bytes whatever.
**
** Whatever the reader lets through must give every report without a crash,
** and JSON that another library reads.  Build with -Dfuzz=true and clang for
** libFuzzer; linked with replay_main.c it replays files, as the normal suite
** does.
*/
#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../report/diffrows.h"
#include "../../report/page.h"
#include "../../report/render.h"

#define MUST(cond)                                                             \
 do {                                                                          \
  if (!(cond)) {                                                               \
   fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);          \
   abort();                                                                    \
  }                                                                            \
 } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* One file in memory for all inputs. */
static int input_fd(void)
{
    static int fd = -1;
    if (fd < 0)
        fd = memfd_create("profile", MFD_CLOEXEC);
    return fd;
}

static void render_text(const struct tide_model *model)
{
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++)
        for (unsigned sort = 0; sort < TIDE_R_SORT_COUNT_; sort += 3) {
            char *text = NULL;
            size_t bytes;
            const struct tide_r_query query = {.top = sort * 7,
                                               .sort = (enum tide_r_sort)sort};
            const struct tide_r_look look = {.columns = 60 + 40 * by,
                                             .path = "x.tide",
                                             .command = "tidemark"};
            FILE *file = open_memstream(&text, &bytes);
            MUST(file != NULL);
            MUST(tideR_text(model, (enum tide_r_by)by, &query, &look, file) ==
                 TIDE_OK);
            fclose(file);
            MUST(strchr(text, '\x1b') == NULL);
            free(text);
        }
}

static void render_json(const struct tide_model *model)
{
    char *text = NULL;
    size_t bytes;
    const struct tide_r_query query = {.top = 0};
    FILE *file = open_memstream(&text, &bytes);
    MUST(file != NULL);
    MUST(tideR_json(model, &query, file) == TIDE_OK);
    fclose(file);
    json_t *report =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    MUST(report != NULL);
    json_decref(report);
    free(text);
}

/* What changed from the model to itself: nothing; and the page of that. */
static void render_diff(const struct tide_model *model)
{
    struct tide_diff diff;
    char *text = NULL;
    size_t bytes;
    const struct tide_r_query query = {.top = 0};
    const struct tide_r_look look = {.columns = 170};
    const struct tide_r_page_look page = {.path = "x", .base_path = "y"};
    FILE *file = open_memstream(&text, &bytes);
    MUST(file != NULL);
    MUST(tideR_diff_open(model, model, NULL, &diff) == TIDE_OK);
    MUST(tideR_diff_json(&diff, &query, file) == TIDE_OK);
    fflush(file);
    json_t *report =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    MUST(report != NULL);
    json_decref(report);
    MUST(tideR_diff_text(&diff, TIDE_R_BY_FUNCTION, &query, &look, file) ==
         TIDE_OK);
    if (tideR_html_is_built() && bytes % 8 == 0)
        MUST(tideR_html(&diff, &page, file) == TIDE_OK);
    fclose(file);
    MUST(memchr(text, '\x1b', bytes) == NULL);
    free(text);
    tideR_diff_close(&diff);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct tide_model *model = NULL;
    struct tide_p_problem problem;
    char path[64];
    const int fd = input_fd();
    MUST(ftruncate(fd, 0) == 0 && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const enum tide_err err = tideR_model_open(path, &model, &problem);
    MUST((err == TIDE_OK) == (model != NULL));
    MUST(err == TIDE_OK || problem.text[0] != '\0');
    if (model == NULL)
        return 0;
    render_text(model);
    render_json(model);
    render_diff(model);
    tideR_model_close(model);
    return 0;
}
