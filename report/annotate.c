/*
** annotate.c: a source file with bytes, blocks and live bytes of each line in
** its margin; the lines that allocate most of it are coloured.
*/
#include "annotate.h"

#include <stdlib.h>
#include <string.h>

#include "emit.h"
#include "units.h"

#define HOT_SHARE  0.25 /* of the heaviest line of the file */
#define WARM_SHARE 0.05

#define RED    "\x1b[31m"
#define YELLOW "\x1b[33m"
#define DIM    "\x1b[2m"
#define PLAIN  "\x1b[0m"

/* Bytes that the lines of each source allocated; by string. */
static uint64_t *weigh_sources(const struct tide_model *model)
{
    uint64_t *bytes = calloc(model->strings.n, sizeof *bytes);
    if (bytes == NULL)
        return NULL;
    for (uint32_t i = 1; i < model->n_lines; i++)
        bytes[model->lines[i].source] += model->lines[i].counts.alloc_bytes + 1;
    return bytes;
}

/* 2: it is the name; 1: a path that ends in it; 0: another. */
static int match_name(const char *source, const char *name)
{
    const size_t n = strlen(source);
    const size_t m = strlen(name);
    if (strcmp(source, name) == 0)
        return 2;
    return m > 0 && n > m && strcmp(source + n - m, name) == 0 &&
           (source[n - m - 1] == '/' || name[0] == '/');
}

enum tide_err tideR_annotate_find(const struct tide_model *model,
                                  const char *name, uint32_t *out)
{
    uint64_t *bytes = weigh_sources(model);
    uint64_t most = 0;
    uint32_t n = 0;
    TIDE_FAIL_IF(bytes == NULL, TIDE_ERR_NOMEM);
    if (name != NULL && strncmp(name, "./", 2) == 0)
        name += 2;
    for (uint32_t i = 0; i < model->strings.n; i++) {
        if (bytes[i] == 0)
            continue;
        const char *source = tideR_strtab_text(&model->strings, i);
        if (strncmp(source, "./", 2) == 0)
            source += 2;
        const int match =
            name == NULL ? bytes[i] > most : match_name(source, name);
        if (match > 0 && (n == 0 || name == NULL || match == 2))
            *out = i;
        if (match > 0)
            most = bytes[i];
        n += match > 0;
        if (match == 2) {
            n = 1;
            break;
        }
    }
    free(bytes);
    if (n == 1 || (n > 1 && name == NULL))
        return TIDE_OK;
    *out = n;
    return TIDE_ERR_ARG;
}

/* Rows of one source by line; NULL: none on that line. */
struct margin {
    const struct tide_r_line **rows;
    uint32_t n; /* lines that have room */
    uint64_t most;
    struct tide_r_counts sum;
};

static void add_to_margin(struct margin *margin, const struct tide_r_line *line)
{
    const struct tide_r_counts *c = &line->counts;
    margin->sum.alloc_bytes += c->alloc_bytes;
    margin->sum.alloc_blocks += c->alloc_blocks;
    margin->sum.live_bytes += c->live_bytes;
    if (c->alloc_bytes > margin->most)
        margin->most = c->alloc_bytes;
    if (line->line < margin->n)
        margin->rows[line->line] = line;
}

static enum tide_err fill_margin(const struct tide_model *model,
                                 uint32_t source, uint32_t n_lines,
                                 struct margin *margin)
{
    *margin = (struct margin){.n = n_lines + 1};
    margin->rows = calloc((size_t)n_lines + 1, sizeof *margin->rows);
    TIDE_FAIL_IF(margin->rows == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 1; i < model->n_lines; i++)
        if (model->lines[i].source == source)
            add_to_margin(margin, &model->lines[i]);
    return TIDE_OK;
}

static void put_margin(struct tide_r_sink *sink, const struct margin *margin,
                       const struct tide_r_line *line, bool has_colour)
{
    char bytes[TIDE_R_UNIT_MAX];
    char blocks[TIDE_R_UNIT_MAX];
    char live[TIDE_R_UNIT_MAX];
    if (line == NULL) {
        tideR_printf(sink, "%9s  %9s  %9s", "", "", "");
        return;
    }
    const double share = margin->most > 0 ? (double)line->counts.alloc_bytes /
                                                (double)margin->most
                                          : 0;
    const char *colour = share >= HOT_SHARE    ? RED
                         : share >= WARM_SHARE ? YELLOW
                                               : PLAIN;
    tideR_printf(sink, "%s%9s  %9s  %9s%s", has_colour ? colour : "",
                 tideR_bytes_text((int64_t)line->counts.alloc_bytes, bytes),
                 tideR_count_text((int64_t)line->counts.alloc_blocks, blocks),
                 tideR_bytes_text((int64_t)line->counts.live_bytes, live),
                 has_colour ? PLAIN : "");
}

static uint32_t count_lines(const char *text, size_t bytes)
{
    uint32_t n = 0;
    const char *end = text + bytes;
    while (text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        n++;
        text = newline != NULL ? newline + 1 : end;
    }
    return n;
}

/* Tabs as they would stand at the left edge; the rest harmless. */
static void put_source(struct tide_r_sink *sink, const char *at, size_t n)
{
    while (n > 0 && (at[n - 1] == '\r' || at[n - 1] == '\n'))
        n--;
    while (n > 0 && *at == '\t') {
        tideR_puts(sink, "        ");
        at++;
        n--;
    }
    tideR_put_harmless(sink, at, n);
}

static void put_lines(struct tide_r_sink *sink, const struct margin *margin,
                      const char *text, size_t bytes, bool has_colour)
{
    const char *end = text + bytes;
    for (uint32_t line = 1; text < end; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *next = newline != NULL ? newline + 1 : end;
        put_margin(sink, margin, margin->rows[line], has_colour);
        tideR_printf(sink, "  %s%5u%s  ", has_colour ? DIM : "", line,
                     has_colour ? PLAIN : "");
        put_source(sink, text, (size_t)(next - text));
        tideR_puts(sink, "\n");
        text = next;
    }
}

static void put_head(struct tide_r_sink *sink, const struct tide_model *model,
                     uint32_t source, const struct margin *margin)
{
    char bytes[TIDE_R_UNIT_MAX];
    char blocks[TIDE_R_UNIT_MAX];
    char share[TIDE_R_UNIT_MAX];
    size_t n;
    const char *name = tideR_model_text(model, source, &n);
    tideR_put_harmless(sink, name, n);
    tideR_printf(sink, ": %s in %s blocks, %s of all\n",
                 tideR_bytes_text((int64_t)margin->sum.alloc_bytes, bytes),
                 tideR_count_text((int64_t)margin->sum.alloc_blocks, blocks),
                 tideR_share_text((int64_t)margin->sum.alloc_bytes,
                                  (int64_t)model->totals.alloc_bytes, share));
    tideR_printf(sink, "%9s  %9s  %9s  %5s  source\n", "allocated", "blocks",
                 "live", "line");
}

enum tide_err tideR_annotate(const struct tide_model *model, uint32_t source,
                             const struct tide_r_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    struct margin margin = {0};
    size_t bytes = 0;
    struct tide_srctext *texts =
        tideR_srctext_open(look->path, model->header->start_unix_ns);
    TIDE_FAIL_IF(texts == NULL, TIDE_ERR_NOMEM);
    const char *text = tideR_srctext_any(
        texts, tideR_strtab_text(&model->strings, source), &bytes);
    enum tide_err err = TIDE_ERR_ARG;
    if (text != NULL)
        err = fill_margin(model, source, count_lines(text, bytes), &margin);
    if (err == TIDE_OK) {
        put_head(&sink, model, source, &margin);
        put_lines(&sink, &margin, text, bytes, look->has_colour);
        if (tideR_srctext_has_younger(texts))
            tideR_puts(&sink, "note: the source has changed since the run: "
                              "figures may stand beside other lines\n");
        free(margin.rows);
        err = tideR_sink_finish(&sink);
    }
    tideR_srctext_close(texts);
    return err;
}
