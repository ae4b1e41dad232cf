/*
** srctext.c: see srctext.h.
**
** Names come from the profile, which is not trusted: only plain files of a
** moderate size are read, opening never blocks, and what is read is shown
** harmless by whoever prints it.  A source is looked for once; a file that is
** not there is remembered as well.
*/
#include "srctext.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_MAX  512u                   /* sources kept */
#define BYTES_MAX  ((size_t)16 * 1048576) /* of one source */
#define NS_PER_SEC 1000000000u

struct source_file {
    char *name; /* as in the profile */
    char *text; /* NULL: not there */
    size_t bytes;
    bool is_younger; /* than the run */
};

struct tide_srctext {
    struct source_file files[FILES_MAX];
    unsigned n_files;
    char *folder; /* with its slash; NULL: none */
    uint64_t started_unix_ns;
    bool has_younger;
};

struct tide_srctext *tideR_srctext_open(const char *beside_or_null,
                                        uint64_t started_unix_ns)
{
    struct tide_srctext *texts = calloc(1, sizeof *texts);
    if (texts == NULL)
        return NULL;
    texts->started_unix_ns = started_unix_ns;
    const char *slash =
        beside_or_null != NULL ? strrchr(beside_or_null, '/') : NULL;
    if (slash != NULL)
        texts->folder =
            strndup(beside_or_null, (size_t)(slash - beside_or_null) + 1);
    return texts;
}

void tideR_srctext_close(struct tide_srctext *texts)
{
    if (texts == NULL)
        return;
    for (unsigned i = 0; i < texts->n_files; i++) {
        free(texts->files[i].name);
        free(texts->files[i].text);
    }
    free(texts->folder);
    free(texts);
}

bool tideR_srctext_has_younger(const struct tide_srctext *texts)
{
    return texts->has_younger;
}

/* Reads until the end; what a file that shrinks lacks is left out. */
static size_t read_whole(int fd, char *text, size_t bytes)
{
    size_t n = 0;
    while (n < bytes) {
        const ssize_t got = read(fd, text + n, bytes - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    return n;
}

/* Whether it is a plain file that a person would call a source. */
static bool is_readable_source(const struct stat *status)
{
    return S_ISREG(status->st_mode) && status->st_size > 0 &&
           (uint64_t)status->st_size <= BYTES_MAX;
}

static void note_age(struct tide_srctext *texts, struct source_file *file,
                     const struct stat *status)
{
    const uint64_t seconds = texts->started_unix_ns / NS_PER_SEC;
    if (seconds > 0 && status->st_mtim.tv_sec > 0 &&
        (uint64_t)status->st_mtim.tv_sec > seconds)
        texts->has_younger = file->is_younger = true;
}

static void load_file(struct tide_srctext *texts, struct source_file *file,
                      const char *path)
{
    struct stat status;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return;
    if (fstat(fd, &status) == 0 && is_readable_source(&status)) {
        file->text = malloc((size_t)status.st_size);
        if (file->text != NULL) {
            file->bytes = read_whole(fd, file->text, (size_t)status.st_size);
            note_age(texts, file, &status);
        }
    }
    close(fd);
}

/* As it is named, then beside the profile. */
static void find_file(struct tide_srctext *texts, struct source_file *file)
{
    load_file(texts, file, file->name);
    if (file->text != NULL || texts->folder == NULL || file->name[0] == '/')
        return;
    char *path = NULL;
    if (asprintf(&path, "%s%s", texts->folder, file->name) < 0)
        return;
    load_file(texts, file, path);
    free(path);
}

static const struct source_file *file_of(struct tide_srctext *texts,
                                         const char *source)
{
    for (unsigned i = 0; i < texts->n_files; i++)
        if (strcmp(texts->files[i].name, source) == 0)
            return &texts->files[i];
    if (texts->n_files == FILES_MAX)
        return NULL;
    struct source_file *file = &texts->files[texts->n_files];
    file->name = strdup(source);
    if (file->name == NULL)
        return NULL;
    texts->n_files++;
    find_file(texts, file);
    return file;
}

const char *tideR_srctext_whole(struct tide_srctext *texts, const char *source,
                                size_t *bytes)
{
    const struct source_file *file = file_of(texts, source);
    if (file == NULL || file->text == NULL || file->is_younger)
        return NULL;
    *bytes = file->bytes;
    return file->text;
}

const char *tideR_srctext_any(struct tide_srctext *texts, const char *source,
                              size_t *bytes)
{
    const struct source_file *file = file_of(texts, source);
    if (file == NULL || file->text == NULL)
        return NULL;
    *bytes = file->bytes;
    return file->text;
}

/* Takes blanks and the carriage return off both ends. */
static const char *trim_line(const char *at, const char *end, size_t *bytes)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *bytes = (size_t)(end - at);
    return at;
}

const char *tideR_srctext_line(struct tide_srctext *texts, const char *source,
                               uint32_t line, size_t *bytes)
{
    const struct source_file *file = file_of(texts, source);
    if (file == NULL || file->text == NULL || line == 0)
        return NULL;
    const char *at = file->text;
    const char *end = file->text + file->bytes;
    for (uint32_t i = 1; i < line; i++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (newline == NULL)
            return NULL;
        at = newline + 1;
    }
    if (at == end)
        return NULL;
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    return trim_line(at, newline != NULL ? newline : end, bytes);
}
