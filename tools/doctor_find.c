/*
** doctor_find.c: which file a command runs in the end.
**
** As the shell and the kernel do it: PATH for a name without a slash, then the
** `#!` line of a script, with `env` and its options, then the interpreter's
** own.  The dynamic linker is asked which libraries an executable would be
** started with; nothing of the program itself is run for that.
*/
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "doctor.h"

#define SCRIPTS_MAX 4 /* as the kernel: then it gives up */

extern char **environ;

static bool is_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* One entry of PATH; an empty one is the current folder. */
static bool try_folder(const char *folder, size_t n, const char *name,
                       char out[PATH_MAX])
{
    const int length = snprintf(out, PATH_MAX, "%.*s%s%s", (int)n, folder,
                                n > 0 ? "/" : "./", name);
    return length > 0 && length < PATH_MAX && is_file(out) &&
           access(out, X_OK) == 0;
}

static bool search_path(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    if (path == NULL)
        path = "/usr/bin:/bin";
    for (;;) {
        const size_t n = strcspn(path, ":");
        if (try_folder(path, n, name, out))
            return true;
        if (path[n] == '\0')
            return false;
        path += n + 1;
    }
}

static bool fail(struct doctor_program *out, const char *why)
{
    snprintf(out->why, sizeof out->why, "%s", why);
    return false;
}

/* A name from the command line or a `#!` line, to a file. */
static bool find_file(const char *name, struct doctor_program *out,
                      char path[PATH_MAX])
{
    if (strchr(name, '/') == NULL)
        return search_path(name, path) || fail(out, "not found in PATH");
    if (snprintf(path, PATH_MAX, "%s", name) >= PATH_MAX)
        return fail(out, strerror(ENAMETOOLONG));
    if (access(path, F_OK) != 0)
        return fail(out, strerror(errno));
    return is_file(path) || fail(out, "not a file");
}

/* The first line of a script without "#!"; false: it is no script. */
static bool read_hash_bang(const char *path, char *line, size_t line_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    char bytes[256];
    const ssize_t n = read(fd, bytes, sizeof bytes - 1);
    close(fd);
    if (n < 2 || bytes[0] != '#' || bytes[1] != '!')
        return false;
    bytes[n] = '\0';
    bytes[2 + strcspn(bytes + 2, "\n")] = '\0';
    snprintf(line, line_bytes, "%s", bytes + 2);
    return true;
}

static bool is_env(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(slash != NULL ? slash + 1 : path, "env") == 0;
}

/* The program that a `#!` line names: behind env, its first plain word. */
static const char *interpreter_of(char *line)
{
    char *rest = line;
    char *word = strtok_r(rest, " \t\r", &rest);
    if (word == NULL || !is_env(word))
        return word;
    do
        word = strtok_r(NULL, " \t\r", &rest);
    while (word != NULL && (word[0] == '-' || strchr(word, '=') != NULL));
    return word;
}

static bool follow_scripts(struct doctor_program *out)
{
    char line[256];
    char path[PATH_MAX];
    for (int i = 0; read_hash_bang(out->path, line, sizeof line); i++) {
        const char *name = interpreter_of(line);
        if (name == NULL || i == SCRIPTS_MAX)
            return fail(out, "its first line names no interpreter");
        if (!find_file(name, out, path))
            return false;
        if (out->script[0] == '\0')
            snprintf(out->script, sizeof out->script, "%s", out->path);
        snprintf(out->path, sizeof out->path, "%s", path);
    }
    return true;
}

/* The kernel then drops LD_PRELOAD, unless the user is the owner anyhow. */
static bool has_privileges(const char *path)
{
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    if ((status.st_mode & S_ISUID) != 0 && status.st_uid != geteuid())
        return true;
    if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
        status.st_gid != getegid())
        return true;
    return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

static bool is_lua_file(const char *name)
{
    const size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".lua") == 0;
}

bool doctor_find(const char *command, struct doctor_program *out)
{
    memset(out, 0, sizeof *out);
    if (is_lua_file(command) && is_file(command)) {
        snprintf(out->script, sizeof out->script, "%s", command);
        command = "lua5.4";
    }
    if (!find_file(command, out, out->path))
        return false;
    if (access(out->path, X_OK) != 0)
        return fail(out, "not an executable file");
    if (!follow_scripts(out))
        return false;
    out->has_privileges = has_privileges(out->path);
    return true;
}

/* Starts `linker --list program`; its output can be read from the result. */
static FILE *open_list(const char *linker, const char *program, pid_t *pid)
{
    int ends[2];
    char list[] = "--list";
    char *const argv[] = {(char *)linker, list, (char *)program, NULL};
    posix_spawn_file_actions_t actions;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
    const int err = posix_spawn(pid, linker, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *file = err == 0 ? fdopen(ends[0], "r") : NULL;
    if (file == NULL)
        close(ends[0]);
    return file;
}

/* "\tliblua5.4.so.0 => /lib/liblua5.4.so.0 (0x..)" */
static void read_list_line(char *line, struct doctor_library *out)
{
    struct doctor_file file;
    char *path = strstr(line, "=> ");
    char *end = strstr(line, " (0x");
    if (path == NULL || end == NULL || path + 3 >= end)
        return;
    *end = '\0';
    path += 3;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    if (strncmp(name, "liblua", 6) != 0 && strncmp(name, "libtexlua", 9) != 0)
        return;
    if (out->path[0] != '\0' && doctor_lua_is_54(out->lua))
        return;
    if (doctor_file_read(path, &file) != TIDE_OK || file.lua[0] == '\0')
        return;
    snprintf(out->path, sizeof out->path, "%s", path);
    snprintf(out->lua, sizeof out->lua, "%s", file.lua);
}

void doctor_libraries(const struct doctor_program *program,
                      const struct doctor_file *file,
                      struct doctor_library *out)
{
    char line[PATH_MAX + 64];
    pid_t pid;
    memset(out, 0, sizeof *out);
    FILE *list = open_list(file->interpreter, program->path, &pid);
    if (list == NULL)
        return;
    while (fgets(line, sizeof line, list) != NULL)
        read_list_line(line, out);
    fclose(list);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
