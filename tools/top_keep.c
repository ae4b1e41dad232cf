/*
** top_keep.c: the choices of `tidemark top` that outlive it: what rows are,
** the view, what each view is sorted by, sections, small rows.
**
** One line each, "name=value", in $XDG_STATE_HOME/tidemark/top, which is
** replaced as a whole.  The file may hold anything, or not be there.
*/
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "top.h"

#define PATH_BYTES 4096
#define FILE_MOST  4096 /* bytes that are looked at */

static const char *const by_names[] = {
    [TIDE_R_BY_LINE] = "line",
    [TIDE_R_BY_FUNCTION] = "function",
    [TIDE_R_BY_GROUP] = "group",
    [TIDE_R_BY_TARGET] = "target",
};
#define N_BY (sizeof by_names / sizeof by_names[0])

static const char *const metric_names[TIDE_R_METRIC_COUNT_] = {"allocated",
                                                               "live", "rate"};

/* The folder; false: nobody says where it is. */
static bool folder_of(char out[PATH_BYTES])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (state != NULL && state[0] == '/')
        n = snprintf(out, PATH_BYTES, "%s/tidemark", state);
    else if (home != NULL && home[0] == '/')
        n = snprintf(out, PATH_BYTES, "%s/.local/state/tidemark", home);
    return n > 0 && n < PATH_BYTES - 16;
}

static int index_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

static enum tide_r_column column_of(const char *id)
{
    unsigned i = 0;
    while (i < TIDE_R_COL_COUNT_ &&
           strcmp(tideR_column_info((enum tide_r_column)i)->id, id) != 0)
        i++;
    return (enum tide_r_column)i;
}

static void read_sort(struct top *top, unsigned metric, const char *value)
{
    const bool is_reversed = value[0] == '-';
    const enum tide_r_column column = column_of(value + is_reversed);
    if (column == TIDE_R_COL_COUNT_)
        return;
    top->sorts[metric] = column;
    top->is_reversed[metric] = is_reversed;
}

static void read_line(struct top *top, const char *name, const char *value)
{
    int i;
    if (strcmp(name, "by") == 0) {
        if ((i = index_of(value, by_names, N_BY)) >= 0)
            top->query.by = (enum tide_r_by)i;
    } else if (strcmp(name, "view") == 0) {
        if ((i = index_of(value, metric_names, TIDE_R_METRIC_COUNT_)) >= 0)
            top->query.metric = (enum tide_r_metric)i;
    } else if (strcmp(name, "sections") == 0) {
        top->query.has_sections = strcmp(value, "yes") == 0;
    } else if (strcmp(name, "hide") == 0) {
        top->query.hides_small = strcmp(value, "yes") == 0;
    } else if (strncmp(name, "sort.", 5) == 0) {
        if ((i = index_of(name + 5, metric_names, TIDE_R_METRIC_COUNT_)) >= 0)
            read_sort(top, (unsigned)i, value);
    }
}

void top_keep_read(struct top *top)
{
    char path[PATH_BYTES];
    char text[FILE_MOST + 1];
    char *rest = text;
    if (!folder_of(path))
        return;
    strcat(path, "/top");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    text[fread(text, 1, FILE_MOST, file)] = '\0';
    fclose(file);
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        char *value = strchr(line, '=');
        if (value == NULL)
            continue;
        *value++ = '\0';
        read_line(top, line, value);
    }
}

/* Makes a folder and those above it. */
static void make_folder(char *path)
{
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    mkdir(path, 0700);
}

static void put_choices(const struct top *top, FILE *file)
{
    const struct tide_r_live_query *query = &top->query;
    fprintf(file, "by=%s\nview=%s\nsections=%s\nhide=%s\n", by_names[query->by],
            metric_names[query->metric], query->has_sections ? "yes" : "no",
            query->hides_small ? "yes" : "no");
    for (unsigned i = 0; i < TIDE_R_METRIC_COUNT_; i++)
        fprintf(file, "sort.%s=%s%s\n", metric_names[i],
                top->is_reversed[i] ? "-" : "",
                tideR_column_info(top->sorts[i])->id);
}

void top_keep_write(const struct top *top)
{
    char path[PATH_BYTES];
    char fresh[PATH_BYTES + 16];
    if (!folder_of(path))
        return;
    make_folder(path);
    strcat(path, "/top");
    snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    const int fd = mkstemp(fresh);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (file == NULL) {
        if (fd >= 0) {
            close(fd);
            unlink(fresh);
        }
        return;
    }
    put_choices(top, file);
    const bool is_bad = ferror(file) != 0;
    if (fclose(file) != 0 || is_bad || rename(fresh, path) != 0)
        unlink(fresh);
}
