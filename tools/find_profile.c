/*
** find_profile.c: see find_profile.h.
**
** Candidates are the files that a process maps shared and for writing.  A
** file is taken for its content, not for its name: it begins as a profile
** does.  The path in maps is that of the process's own root, so what is found
** there must be the very file that is mapped, by device and inode.  One that
** was deleted may still be had through a descriptor.
*/
#include "find_profile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "../profile/profile.h"

#define DELETED " (deleted)"

/* A line of maps. */
struct mapping {
    dev_t device;
    uint64_t inode;
    bool is_shared;
    bool is_deleted;
    char path[PATH_MAX];
};

/* The best so far. */
struct search {
    pid_t pid;
    enum find_result result;
    bool is_own; /* its header names the process */
    uint64_t start_ns;
    char *out;
    size_t out_bytes;
};

/* Undoes what maps does to a newline and a backslash, and to a lost name. */
static void mend_path(struct mapping *m)
{
    char *to = m->path;
    for (const char *from = m->path; *from != '\0';)
        if (strncmp(from, "\\012", 4) == 0) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    *to = '\0';
    const size_t n = (size_t)(to - m->path);
    const size_t tail = sizeof DELETED - 1;
    m->is_deleted = n > tail && strcmp(to - tail, DELETED) == 0;
    if (m->is_deleted)
        to[-(ptrdiff_t)tail] = '\0';
}

static bool parse_mapping(char *line, struct mapping *out)
{
    unsigned major_number, minor_number;
    char flags[5];
    int path_at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%*x-%*x %4s %*x %x:%x %" SCNu64 " %n", flags,
               &major_number, &minor_number, &out->inode, &path_at) != 4 ||
        path_at == 0 || line[path_at] != '/')
        return false;
    out->device = makedev(major_number, minor_number);
    out->is_shared = flags[1] == 'w' && flags[3] == 's';
    snprintf(out->path, sizeof out->path, "%s", line + path_at);
    mend_path(out);
    return true;
}

static FILE *open_maps(pid_t pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/maps", (long)pid);
    return fopen(path, "re");
}

/*
** Opens what is mapped.  The device of a file may differ between maps and stat
** (overlays, btrfs): the header decides then.
*/
static int open_mapped(const struct mapping *m, const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_ino == m->inode)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool read_header(int fd, struct tide_p_header *out)
{
    return pread(fd, out, sizeof *out, 0) == (ssize_t)sizeof *out &&
           memcmp(out->magic, TIDE_P_MAGIC, sizeof out->magic) == 0;
}

/* Takes the profile unless there is a better one. */
static void take(struct search *search, const char *path,
                 const struct tide_p_header *header)
{
    const bool is_own = header->pid == (uint32_t)search->pid;
    if (strlen(path) >= search->out_bytes)
        return;
    if (search->result == FIND_FOUND &&
        (search->is_own > is_own ||
         (search->is_own == is_own &&
          search->start_ns >= header->start_mono_ns)))
        return;
    search->result = FIND_FOUND;
    search->is_own = is_own;
    search->start_ns = header->start_mono_ns;
    snprintf(search->out, search->out_bytes, "%s", path);
}

/*
** A file that is gone can be had through a descriptor that the process still
** has of it.  -1: it has none, or they may not be looked at.
*/
static int open_descriptor(pid_t pid, const struct mapping *m, char *path,
                           size_t path_bytes)
{
    char folder[64];
    const struct dirent *entry;
    struct stat st;
    int fd = -1;
    snprintf(folder, sizeof folder, "/proc/%ld/fd", (long)pid);
    DIR *dir = opendir(folder);
    while (dir != NULL && fd < 0 && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, path_bytes, "%s/%.20s", folder, entry->d_name);
        if (stat(path, &st) == 0 && (uint64_t)st.st_ino == m->inode)
            fd = open_mapped(m, path);
    }
    if (dir != NULL)
        closedir(dir);
    return fd;
}

static void consider(struct search *search, const struct mapping *m)
{
    char path[PATH_MAX + 32];
    struct tide_p_header header;
    if (!m->is_shared)
        return;
    snprintf(path, sizeof path, "%s", m->path);
    int fd = open_mapped(m, path);
    if (fd < 0) {
        snprintf(path, sizeof path, "/proc/%ld/root%s", (long)search->pid,
                 m->path);
        fd = open_mapped(m, path);
    }
    if (fd < 0 && m->is_deleted)
        fd = open_descriptor(search->pid, m, path, sizeof path);
    if (fd >= 0) {
        if (read_header(fd, &header))
            take(search, path, &header);
        close(fd);
        return;
    }
    const size_t n = strlen(m->path);
    const size_t tail = sizeof TIDE_P_SUFFIX - 1;
    if (m->is_deleted && search->result == FIND_NONE && n > tail &&
        strcmp(m->path + n - tail, TIDE_P_SUFFIX) == 0)
        search->result = FIND_DELETED;
}

enum find_result find_profile(pid_t pid, char *out, size_t out_bytes)
{
    struct search search = {
        .pid = pid, .result = FIND_NONE, .out = out, .out_bytes = out_bytes};
    char *line = NULL;
    size_t line_bytes = 0;
    struct mapping last = {0};
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return FIND_NO_PROCESS;
    FILE *maps = open_maps(pid);
    if (maps == NULL)
        return errno == EACCES || errno == EPERM ? FIND_DENIED
                                                 : FIND_NO_PROCESS;
    errno = 0;
    while (getline(&line, &line_bytes, maps) > 0) {
        struct mapping m;
        if (!parse_mapping(line, &m) ||
            (m.inode == last.inode && m.device == last.device &&
             m.is_shared == last.is_shared))
            continue;
        consider(&search, &m);
        last = m;
    }
    if (ferror(maps) && search.result == FIND_NONE)
        search.result =
            errno == EACCES || errno == EPERM ? FIND_DENIED : FIND_NO_PROCESS;
    free(line);
    fclose(maps);
    return search.result;
}

const char *find_result_text(enum find_result result)
{
    switch (result) {
    case FIND_NO_PROCESS:
        return "there is no such process";
    case FIND_DENIED:
        return "its maps may not be read: not a process of yours";
    case FIND_DELETED:
        return "its profile was deleted";
    default:
        return "it has no profile: it is not profiled, or in memory only";
    }
}

bool find_is_mapped(pid_t pid, int fd)
{
    struct stat st;
    char *line = NULL;
    size_t line_bytes = 0;
    bool is_mapped = false;
    FILE *maps = pid > 0 && fstat(fd, &st) == 0 ? open_maps(pid) : NULL;
    if (maps == NULL)
        return false;
    while (!is_mapped && getline(&line, &line_bytes, maps) > 0) {
        struct mapping m;
        is_mapped = parse_mapping(line, &m) && m.is_shared &&
                    m.inode == (uint64_t)st.st_ino;
    }
    free(line);
    fclose(maps);
    return is_mapped;
}

pid_t find_parse_pid(const char *text)
{
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || n <= 0 || n > INT_MAX ||
        text[strspn(text, "0123456789")] != '\0')
        return 0;
    if (access(text, F_OK) == 0 && kill((pid_t)n, 0) != 0 && errno == ESRCH)
        return 0;
    return (pid_t)n;
}
