/*
** run_find.c: which profiles a run has made.
**
** Every process of a run that makes a lua_State writes a profile of its own,
** named by one pattern with %p in it.  They are found again by that pattern
** and by the time in their headers, so that older ones of the same name stay
** out.  Where the wanted name has no %p, the pattern gets one, and the
** program's own profile is renamed at the end: processes never write over one
** another's profiles.  A process that has no right to the folder writes to the
** one for temporary files, where others may have files of the same name.
*/
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../profile/reader.h"
#include "run.h"

/* A path being put together; `is_cut` when it did not fit. */
struct path {
    char *at;
    size_t n;
    size_t max;
    bool is_cut;
};

static void add_bytes(struct path *path, const char *bytes, size_t n)
{
    if (path->n + n >= path->max) {
        path->is_cut = true;
        return;
    }
    memcpy(path->at + path->n, bytes, n);
    path->n += n;
    path->at[path->n] = '\0';
}

static void add_text(struct path *path, const char *text)
{
    add_bytes(path, text, strlen(text));
}

/* Percent signs doubled: they stand for themselves in a pattern. */
static void add_literally(struct path *path, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_text(path, text[i] == '%' ? "%%" : (char[]){text[i], '\0'});
}

/* Whether a pattern has this letter behind a percent sign. */
static bool has_letter(const char *pattern, char letter)
{
    for (const char *p = pattern; *p != '\0'; p++)
        if (*p == '%' && p[1] != '\0' && *++p == letter)
            return true;
    return false;
}

/* The base name; of a Lua file without ".lua". */
static void add_program_name(struct path *path, const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *base = slash != NULL ? slash + 1 : program;
    size_t n = strlen(base);
    if (n > 4 && strcmp(base + n - 4, ".lua") == 0)
        n -= 4;
    add_literally(path, base, n);
}

static enum tide_err add_folder(struct path *path, const char *out)
{
    char folder[PATH_MAX];
    if (out != NULL && out[0] == '/')
        return TIDE_OK;
    TIDE_FAIL_IF(getcwd(folder, sizeof folder) == NULL, TIDE_ERR_IO);
    add_literally(path, folder, strlen(folder));
    if (strcmp(folder, "/") != 0)
        add_text(path, "/");
    return TIDE_OK;
}

/* Puts ".%p" in front of ".tide", or at the end. */
static void add_with_pid(struct path *path, const char *out)
{
    const size_t n = strlen(out);
    const size_t suffix = strlen(TIDE_P_SUFFIX);
    const bool has_suffix =
        n > suffix && strcmp(out + n - suffix, TIDE_P_SUFFIX) == 0;
    add_bytes(path, out, has_suffix ? n - suffix : n);
    add_text(path, ".%p");
    add_text(path, has_suffix ? TIDE_P_SUFFIX : "");
}

enum tide_err run_place(const char *out, const char *program,
                        struct run_place *place)
{
    struct path pattern = {.at = place->pattern, .max = sizeof place->pattern};
    char expanded[TIDE_OPT_PATH_MAX]; /* to see that it can be */
    *place = (struct run_place){.wanted = ""};
    if (out != NULL)
        TIDE_TRY(
            tideC_options_expand(out, 1, program, expanded, sizeof expanded));
    TIDE_TRY(add_folder(&pattern, out));
    if (out == NULL) {
        add_program_name(&pattern, program);
        add_text(&pattern, ".%p" TIDE_P_SUFFIX);
    } else if (has_letter(out, 'p')) {
        add_text(&pattern, out);
    } else {
        add_with_pid(&pattern, out);
        snprintf(place->wanted, sizeof place->wanted, "%s", out);
    }
    return pattern.is_cut ? TIDE_ERR_NOMEM : TIDE_OK;
}

/* The pattern for glob: letters become "*", what glob knows is quoted. */
static bool make_glob(const char *pattern, char *out, size_t out_bytes)
{
    struct path path = {.at = out, .max = out_bytes};
    for (const char *p = pattern; *p != '\0'; p++) {
        if (*p == '%' && p[1] != '%' && p[1] != '\0') {
            add_text(&path, "*");
            p++;
            continue;
        }
        if (*p == '%' && p[1] == '%')
            p++;
        if (strchr("*?[]\\", *p) != NULL)
            add_text(&path, "\\");
        add_bytes(&path, p, 1);
    }
    return !path.is_cut;
}

static bool is_alive(pid_t pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

/* A cheap look before the whole file is checked. */
static bool is_of_this_run(const char *path, uint64_t start_unix_ns)
{
    struct tide_p_header header;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    const ssize_t n = read(fd, &header, sizeof header);
    close(fd);
    return n == (ssize_t)sizeof header &&
           memcmp(header.magic, TIDE_P_MAGIC, sizeof header.magic) == 0 &&
           header.version == TIDE_P_VERSION &&
           header.start_unix_ns >= start_unix_ns;
}

static void sum_heaps(const struct tide_profile *profile,
                      struct run_profile *out)
{
    const uint32_t n = tideP_reader_n_heaps(profile);
    for (uint32_t i = 0; i < n; i++) {
        const struct tide_p_view *view = tideP_reader_heap(profile, i);
        out->n_states += view->head->n_states;
        for (uint32_t c = 1; c < view->n_cells; c++)
            out->alloc_bytes += view->cells[c].alloc_bytes;
    }
}

static bool read_profile(const char *path, struct run_profile *out)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    if (tideP_reader_open(path, &profile, &problem) != TIDE_OK)
        return false;
    const struct tide_p_header *header = tideP_reader_header(profile);
    *out = (struct run_profile){.pid = (pid_t)header->pid,
                                .parent_pid = (pid_t)header->parent_pid};
    out->is_open = header->state == TIDE_P_RUNNING && is_alive(out->pid);
    sum_heaps(profile, out);
    tideP_reader_close(profile);
    return true;
}

/* Takes over profile->path; NULL is no profile. */
static bool list_profile(const struct run_profile *profile,
                         struct run_profiles *out)
{
    void *grown = profile->path == NULL
                      ? NULL
                      : realloc(out->list, (out->n + 1) * sizeof *out->list);
    if (grown == NULL) {
        free(profile->path);
        return false;
    }
    out->list = grown;
    out->list[out->n++] = *profile;
    return true;
}

static void add_profile(const char *path, struct run_profiles *out)
{
    struct run_profile profile;
    if (!read_profile(path, &profile))
        return;
    if (profile.n_states == 0) {
        if (!profile.is_open)
            unlink(path);
        return;
    }
    profile.path = strdup(path);
    list_profile(&profile, out);
}

static bool is_listed(const struct run_profiles *profiles, pid_t pid)
{
    for (size_t i = 0; i < profiles->n; i++)
        if (profiles->list[i].pid == pid)
            return true;
    return false;
}

/* One in the folder for temporary files, when it is of this run. */
static bool add_spare(const char *path, pid_t pid, struct run_profiles *out)
{
    struct run_profile profile;
    if (!read_profile(path, &profile) || profile.n_states == 0 ||
        is_listed(out, profile.pid) ||
        (profile.pid != pid && profile.parent_pid != pid &&
         !is_listed(out, profile.parent_pid)))
        return false;
    profile.path = strdup(path);
    return list_profile(&profile, out);
}

/* The folder is the one for temporary files itself. */
static bool is_spare_folder(const char *pattern)
{
    struct stat folder;
    struct stat spare;
    char path[TIDE_OPT_PATH_MAX];
    const char *slash = strrchr(pattern, '/');
    snprintf(path, sizeof path, "%.*s/", (int)(slash - pattern), pattern);
    return stat(path, &folder) == 0 && stat(P_tmpdir, &spare) == 0 &&
           folder.st_dev == spare.st_dev && folder.st_ino == spare.st_ino;
}

/* A parent may come behind its child: until no more is found. */
static void find_spare(const struct run_place *place, pid_t pid,
                       uint64_t start_unix_ns, struct run_profiles *out)
{
    char pattern[2 * TIDE_OPT_PATH_MAX] = P_tmpdir "/";
    const size_t n = strlen(pattern);
    glob_t found;
    bool is_more = true;
    if (is_spare_folder(place->pattern) ||
        !make_glob(strrchr(place->pattern, '/') + 1, pattern + n,
                   sizeof pattern - n) ||
        glob(pattern, GLOB_NOSORT, NULL, &found) != 0)
        return;
    while (is_more) {
        is_more = false;
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_of_this_run(found.gl_pathv[i], start_unix_ns) &&
                add_spare(found.gl_pathv[i], pid, out))
                is_more = true;
    }
    globfree(&found);
}

static int compare_profiles(const void *pa, const void *pb, void *ctx)
{
    const struct run_profile *a = pa;
    const struct run_profile *b = pb;
    const pid_t own = *(const pid_t *)ctx;
    if ((a->pid == own) != (b->pid == own))
        return a->pid == own ? -1 : 1;
    if (a->alloc_bytes != b->alloc_bytes)
        return a->alloc_bytes > b->alloc_bytes ? -1 : 1;
    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return strcmp(a->path, b->path);
}

static void sort_profiles(struct run_profiles *found, pid_t own)
{
    if (found->n > 1)
        qsort_r(found->list, found->n, sizeof *found->list, compare_profiles,
                &own);
}

/*
** Gives the program's own profile its wanted name; when that fails it keeps
** its own.  Of a process that became several programs by exec, which have one
** each, it is the first in the list: the others must stay.
*/
static void name_own(const struct run_place *place, pid_t pid,
                     struct run_profiles *found)
{
    char wanted[TIDE_OPT_PATH_MAX];
    if (found->n == 0 || found->list[0].pid != pid ||
        place->wanted[0] == '\0' || has_letter(place->wanted, 'n') ||
        tideC_options_expand(place->wanted, 0, "", wanted, sizeof wanted) !=
            TIDE_OK)
        return;
    char *path = strdup(wanted);
    if (path == NULL || rename(found->list[0].path, path) != 0) {
        free(path);
        return;
    }
    free(found->list[0].path);
    found->list[0].path = path;
}

void run_find(const struct run_place *place, pid_t pid, uint64_t start_unix_ns,
              struct run_profiles *out)
{
    char pattern[2 * TIDE_OPT_PATH_MAX];
    glob_t found;
    *out = (struct run_profiles){.n = 0};
    if (!make_glob(place->pattern, pattern, sizeof pattern))
        return;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (is_of_this_run(found.gl_pathv[i], start_unix_ns))
                add_profile(found.gl_pathv[i], out);
        globfree(&found);
    }
    sort_profiles(out, pid);
    name_own(place, pid, out);
    find_spare(place, pid, start_unix_ns, out);
    sort_profiles(out, pid);
}

void run_profiles_close(struct run_profiles *profiles)
{
    for (size_t i = 0; i < profiles->n; i++)
        free(profiles->list[i].path);
    free(profiles->list);
    *profiles = (struct run_profiles){.n = 0};
}
