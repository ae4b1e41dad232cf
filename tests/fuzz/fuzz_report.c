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

#include "../../report/blocks.h"
#include "../../report/diffrows.h"
#include "../../report/export.h"
#include "../../report/gcview.h"
#include "../../report/live.h"
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
    MUST(tideR_diff_text(&diff, TIDE_R_BY_TARGET, &query, &look, file) ==
         TIDE_OK);
    if (tideR_html_is_built() && bytes % 8 == 0)
        MUST(tideR_html(&diff, &page, file) == TIDE_OK);
    fclose(file);
    MUST(memchr(text, '\x1b', bytes) == NULL);
    free(text);
    tideR_diff_close(&diff);
}

/* Every format of other tools; JSON where it is JSON. */
static void render_exports(const struct tide_model *model)
{
    for (const struct tide_r_format *f = tideR_formats(); f->name != NULL;
         f++) {
        char *text = NULL;
        size_t bytes;
        FILE *file = open_memstream(&text, &bytes);
        MUST(file != NULL);
        MUST(f->put(model, file) == TIDE_OK);
        fclose(file);
        MUST(memchr(text, '\x1b', bytes) == NULL);
        json_t *json = json_loadb(
            text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        MUST(json != NULL || (text[0] != '[' && text[0] != '{') ||
             strncmp(f->name, "folded", 6) == 0);
        json_decref(json);
        free(text);
    }
}

/* The live table, with the rates of two readings, and its first row. */
static void render_live(const struct tide_model *model)
{
    struct tide_r_rates rates = {.n = 0};
    MUST(tideR_rates_note(&rates, model, 1) == TIDE_OK);
    MUST(tideR_rates_note(&rates, model, 2) == TIDE_OK);
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++) {
        const struct tide_r_live_query query = {
            .by = (enum tide_r_by)by,
            .metric = (enum tide_r_metric)(by % TIDE_R_METRIC_COUNT_),
            .sort = (enum tide_r_column)(by * 3 % TIDE_R_COL_COUNT_),
            .has_sections = by % 2 == 0,
            .filter = "a",
        };
        struct tide_r_live_rows rows;
        char *text = NULL;
        size_t bytes;
        if (by == TIDE_R_BY_STACK || by == TIDE_R_BY_KIND)
            continue;
        FILE *file = open_memstream(&text, &bytes);
        MUST(file != NULL);
        MUST(tideR_live_rows(model, &query, &rates, &rows) == TIDE_OK);
        if (rows.n > 0)
            MUST(tideR_live_details(model, &query, &rows, &rows.rows[0], 5,
                                    file) == TIDE_OK);
        fclose(file);
        MUST(memchr(text, '\x1b', bytes) == NULL);
        free(text);
        tideR_live_close(&rows);
    }
    tideR_rates_close(&rates);
}

/* The collector's side of it, of all states and of each; the largest blocks. */
static void render_gc(const struct tide_model *model)
{
    static const struct tide_r_gcquery queries[] = {
        {.top = 0, .state = TIDE_R_STATES},
        {.top = 2, .state = TIDE_R_STATES, .by_state = true, .by_stack = true},
    };
    const struct tide_r_look look = {.columns = 120};
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    MUST(file != NULL);
    for (size_t i = 0; i < sizeof queries / sizeof *queries; i++)
        MUST(tideR_gc_text(model, &queries[i], &look, file) == TIDE_OK);
    MUST(tideR_blocks(model, 0, &look, false, file) == TIDE_OK);
    fclose(file);
    MUST(memchr(text, '\x1b', bytes) == NULL);
    free(text);
}

static enum tide_err put_blocks(const struct tide_model *model, FILE *out)
{
    const struct tide_r_look look = {.columns = 120};
    return tideR_blocks(model, 0, &look, true, out);
}

static void check_json(const struct tide_model *model,
                       enum tide_err (*put)(const struct tide_model *model,
                                            FILE *out))
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    MUST(file != NULL);
    MUST(put(model, file) == TIDE_OK);
    fclose(file);
    json_t *json =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    MUST(json != NULL);
    json_decref(json);
    free(text);
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
    render_exports(model);
    render_live(model);
    render_gc(model);
    check_json(model, tideR_gc_json);
    check_json(model, put_blocks);
    tideR_model_close(model);
    return 0;
}
