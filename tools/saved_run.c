/*
** saved_run.c: see saved_run.h.
**
** The rows go into a profile in the folder for temporary files, so that every
** report shows them as it shows any other.
*/
#include "saved_run.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../profile/import.h"
#include "../profile/profile.h"
#include "cmd.h"

#define TOOL         "gcprof"
#define ROW_VALUES   6
#define NUMBER_LARGE 9007199254740992.0 /* 2^53: exact up to there */

bool saved_run_is_json(const char *path)
{
    char start[64];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const size_t n = fread(start, 1, sizeof start, file);
    fclose(file);
    for (size_t i = 0; i < n; i++)
        if (strchr(" \t\r\n", start[i]) == NULL || start[i] == '\0')
            return start[i] == '[' || start[i] == '{';
    return false;
}

/* What is wrong with a row; NULL: nothing. */
static const char *text_fault(const json_t *value)
{
    if (!json_is_string(value))
        return "is no string";
    return strlen(json_string_value(value)) != json_string_length(value)
               ? "has a zero byte in it"
               : NULL;
}

static const char *number_fault(const json_t *value)
{
    const double n = json_number_value(value);
    if (!json_is_number(value))
        return "is no number";
    return n < 0 ? "is negative" : n > NUMBER_LARGE ? "is too large" : NULL;
}

static const char *const value_names[ROW_VALUES] = {"group", "target", "source",
                                                    "kb",    "calls",  "peak"};

static bool check_row(const char *path, const json_t *row, size_t number)
{
    if (!json_is_array(row) || json_array_size(row) < ROW_VALUES) {
        cmd_error(path,
                  "row %zu is no [group, target, source, kb, calls, peak]",
                  number);
        return false;
    }
    for (size_t i = 0; i < ROW_VALUES; i++) {
        const json_t *value = json_array_get(row, i);
        const char *fault = i < 3 ? text_fault(value) : number_fault(value);
        if (fault != NULL) {
            cmd_error(path, "row %zu: '%s' %s", number, value_names[i], fault);
            return false;
        }
    }
    return true;
}

/* "file:12" or "file:12-30": the file, and its line. */
static uint32_t cut_line(char *source)
{
    char *colon = strrchr(source, ':');
    char *end;
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return 0;
    const unsigned long line = strtoul(colon + 1, &end, 10);
    if ((*end != '\0' && *end != '-') || line > INT32_MAX)
        return 0;
    *colon = '\0';
    return (uint32_t)line;
}

static uint64_t bytes_of(const json_t *kb)
{
    const double bytes = json_number_value(kb) * 1024;
    return bytes < NUMBER_LARGE ? (uint64_t)llround(bytes)
                                : (uint64_t)NUMBER_LARGE;
}

/* source  a copy of the row's, which stays as long as the row. */
static struct tide_p_row row_of(const json_t *row, char *source)
{
    return (struct tide_p_row){
        .group = json_string_value(json_array_get(row, 0)),
        .name = json_string_value(json_array_get(row, 1)),
        .line = cut_line(source),
        .source = source,
        .alloc_bytes = bytes_of(json_array_get(row, 3)),
        .calls = (uint64_t)json_number_value(json_array_get(row, 4)),
        .max_call_bytes = bytes_of(json_array_get(row, 5)),
    };
}

/* A file of a name of its own. */
static int make_file(char *out, size_t out_bytes)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0')
        folder = P_tmpdir;
    snprintf(out, out_bytes, "%s/tidemark.XXXXXX", folder);
    const int fd = mkstemp(out);
    if (fd < 0) {
        cmd_error(out, "%s", strerror(errno));
        return CMD_FAILED;
    }
    close(fd);
    return CMD_FINE;
}

static int write_profile(const struct tide_p_row *rows, size_t n,
                         const char *path, char *out, size_t out_bytes)
{
    if (make_file(out, out_bytes) != CMD_FINE)
        return CMD_FAILED;
    const enum tide_err err = tideP_import(rows, n, path, TOOL, out);
    if (err == TIDE_OK)
        return CMD_FINE;
    cmd_error(out, "%s",
              err == TIDE_ERR_IO ? strerror(errno) : tide_err_text(err));
    unlink(out);
    return CMD_FAILED;
}

static int convert(const char *path, const json_t *list, char *out,
                   size_t out_bytes)
{
    const size_t n = json_array_size(list);
    struct tide_p_row *rows = calloc(n + 1, sizeof *rows);
    char **sources = calloc(n + 1, sizeof *sources);
    int status = rows != NULL && sources != NULL ? CMD_FINE : CMD_FAILED;
    for (size_t i = 0; status == CMD_FINE && i < n; i++) {
        const json_t *row = json_array_get(list, i);
        if (!check_row(path, row, i + 1)) {
            status = CMD_UNREADABLE;
            break;
        }
        sources[i] = strdup(json_string_value(json_array_get(row, 2)));
        if (sources[i] == NULL)
            status = CMD_FAILED;
        else
            rows[i] = row_of(row, sources[i]);
    }
    if (status == CMD_FINE)
        status = write_profile(rows, n, path, out, out_bytes);
    else if (status == CMD_FAILED)
        cmd_error(path, "%s", tide_err_text(TIDE_ERR_NOMEM));
    for (size_t i = 0; sources != NULL && i < n; i++)
        free(sources[i]);
    free(sources);
    free(rows);
    return status;
}

int saved_run_open(const char *path, char *out, size_t out_bytes)
{
    json_error_t error;
    json_t *list = json_load_file(path, 0, &error);
    int status = CMD_UNREADABLE;
    if (list == NULL)
        cmd_error(path, "damaged JSON: %s, in line %d", error.text, error.line);
    else if (!json_is_array(list))
        cmd_error(path, "JSON, but no saved run of gcprof: no list of rows");
    else
        status = convert(path, list, out, out_bytes);
    json_decref(list);
    return status;
}
