/*
** doctor_probe.c: starts a command under the preload library and reads what it
** wrote.
**
** Profiles go to a folder of their own, so that whatever appears there is of
** this run.  A start ends before main.  A run ends when a state has been seen,
** by itself, or when its time is over; then everything of it that can be found
** is told to end: its process group and what wrote a profile.
*/
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../profile/reader.h"
#include "doctor.h"
#include "run.h"

#define TICK_MS      20
#define GRACE_MS     1000 /* between SIGTERM and SIGKILL */
#define N_OWN_VALUES 3

extern char **environ;

/* One start of the command. */
struct run {
    char folder[PATH_MAX / 2];
    enum doctor_probe_kind kind;
    pid_t pid;                  /* 0: it has been waited for */
    char *values[N_OWN_VALUES]; /* ours, in its environment */
    char **env;
};

static bool set_value(struct run *run, size_t i, const char *name,
                      const char *value)
{
    if (asprintf(&run->values[i], "%s=%s", name, value) >= 0)
        return true;
    run->values[i] = NULL;
    return false;
}

/* What is replaced by our own. */
static bool is_replaced(const char *entry)
{
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 ||
           strncmp(entry, "TIDEMARK", 8) == 0;
}

static bool make_env(struct run *run, const char *preload)
{
    char options[PATH_MAX];
    size_t n = 0;
    size_t n_kept = 0;
    snprintf(options, sizeof options, "out=\"%s/%%p.tide\"%s", run->folder,
             run->kind == DOCTOR_PROBE_SNIFF ? ",sniff=on" : "");
    while (environ[n] != NULL)
        n++;
    run->env = calloc(n + N_OWN_VALUES + 1, sizeof *run->env);
    if (run->env == NULL || !set_value(run, 0, "LD_PRELOAD", preload) ||
        !set_value(run, 1, "TIDEMARK", options) ||
        !set_value(run, 2, "TIDEMARK_PROBE",
                   run->kind == DOCTOR_PROBE_START ? "1" : ""))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_replaced(environ[i]))
            run->env[n_kept++] = environ[i];
    for (size_t i = 0; i < N_OWN_VALUES; i++)
        run->env[n_kept++] = run->values[i];
    return true;
}

/* A folder that also a program that changes its user may write to. */
static bool make_folder(struct run *run)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0')
        parent = "/tmp";
    const int n = snprintf(run->folder, sizeof run->folder,
                           "%s/tidemark-doctor.XXXXXX", parent);
    if (n < 0 || (size_t)n >= sizeof run->folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    return mkdtemp(run->folder) != NULL && chmod(run->folder, 01777) == 0;
}

static int start_program(struct run *run, char *const argv[])
{
    char errors[PATH_MAX];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    snprintf(errors, sizeof errors, "%s/stderr", run->folder);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors,
                                     O_WRONLY | O_CREAT | O_EXCL, 0600);
    const int err =
        posix_spawn(&run->pid, argv[0], &actions, &attr, argv, run->env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (err != 0)
        run->pid = 0;
    return err;
}

static void copy_field(char *out, size_t out_bytes, const char *field,
                       size_t field_bytes)
{
    const size_t n = strnlen(field, field_bytes);
    snprintf(out, out_bytes, "%.*s", (int)n, field);
}

/* Takes a profile's header when it tells something. */
static void read_profile(const struct run *run, const char *path,
                         struct doctor_probe *out)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    if (tideP_reader_open(path, &profile, &problem) != TIDE_OK)
        return;
    const struct tide_p_header *header = tideP_reader_header(profile);
    if (run->kind == DOCTOR_PROBE_START || header->n_heaps > 0) {
        out->is_seen = true;
        out->tier = header->tier;
        copy_field(out->reason, sizeof out->reason, header->tier_reason,
                   sizeof header->tier_reason);
        copy_field(out->route, sizeof out->route, header->route,
                   sizeof header->route);
        copy_field(out->lua, sizeof out->lua, header->lua, sizeof header->lua);
        copy_field(out->program, sizeof out->program, header->program,
                   sizeof header->program);
    }
    tideP_reader_close(profile);
}

/* The first line of the library's own among what the program said. */
static void read_message(const char *path, struct doctor_probe *out)
{
    char line[256];
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (out->message[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "tidemark: ", 10) == 0)
            copy_field(out->message, sizeof out->message, line + 10,
                       sizeof line - 10);
    }
    fclose(file);
}

typedef void (*entry_fn)(struct run *run, const char *path,
                         struct doctor_probe *out);

static void for_entries(struct run *run, entry_fn fn, struct doctor_probe *out)
{
    char path[PATH_MAX];
    DIR *folder = opendir(run->folder);
    if (folder == NULL)
        return;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] == '.' ||
            snprintf(path, sizeof path, "%s/%s", run->folder, entry->d_name) >=
                (int)sizeof path)
            continue;
        fn(run, path, out);
    }
    closedir(folder);
}

static void read_entry(struct run *run, const char *path,
                       struct doctor_probe *out)
{
    if (strstr(path, TIDE_P_SUFFIX) != NULL && !out->is_seen)
        read_profile(run, path, out);
    else if (run->pid == 0 && strstr(path, TIDE_P_SUFFIX) == NULL)
        read_message(path, out);
}

/* A daemon left the group, but its profile is named after it. */
static void stop_entry(struct run *run, const char *path,
                       struct doctor_probe *out)
{
    (void)run;
    (void)out;
    const char *slash = strrchr(path, '/');
    const long pid = strtol(slash + 1, NULL, 10);
    if (pid > 1)
        kill((pid_t)pid, SIGTERM);
}

static void remove_entry(struct run *run, const char *path,
                         struct doctor_probe *out)
{
    (void)run;
    (void)out;
    unlink(path);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Waits for the program, so long or until a profile says what it should. */
static void wait_until(struct run *run, uint64_t deadline_ms,
                       struct doctor_probe *out)
{
    while (run->pid > 0 && !out->is_seen && now_ms() < deadline_ms) {
        nanosleep(&(struct timespec){0, TICK_MS * 1000000L}, NULL);
        const pid_t got = waitpid(run->pid, NULL, WNOHANG);
        if (got == run->pid || (got < 0 && errno != EINTR))
            run->pid = 0;
        if (run->kind != DOCTOR_PROBE_START || run->pid == 0)
            for_entries(run, read_entry, out);
    }
}

static void stop_program(struct run *run)
{
    const pid_t group = run->pid;
    struct doctor_probe ignored = {.is_seen = false};
    for_entries(run, stop_entry, &ignored);
    if (group == 0)
        return;
    kill(-group, SIGTERM);
    const uint64_t deadline_ms = now_ms() + GRACE_MS;
    while (run->pid > 0 && now_ms() < deadline_ms) {
        if (waitpid(run->pid, NULL, WNOHANG) == run->pid)
            run->pid = 0;
        else
            nanosleep(&(struct timespec){0, TICK_MS * 1000000L}, NULL);
    }
    kill(-group, SIGKILL);
    if (run->pid > 0)
        waitpid(run->pid, NULL, 0);
    run->pid = 0;
}

static void close_run(struct run *run)
{
    struct doctor_probe ignored = {.is_seen = false};
    for_entries(run, remove_entry, &ignored);
    rmdir(run->folder);
    for (size_t i = 0; i < N_OWN_VALUES; i++)
        free(run->values[i]);
    free(run->env);
}

enum tide_err doctor_probe(char *const argv[], enum doctor_probe_kind kind,
                           struct doctor_probe *out)
{
    struct run run = {.kind = kind};
    char preload[2 * PATH_MAX];
    memset(out, 0, sizeof *out);
    TIDE_FAIL_IF(!run_preload(preload, sizeof preload), TIDE_ERR_STATE);
    TIDE_FAIL_IF(!make_folder(&run), TIDE_ERR_IO);
    if (make_env(&run, preload) && start_program(&run, argv) == 0) {
        out->was_started = true;
        wait_until(&run, now_ms() + DOCTOR_RUN_SECONDS * 1000, out);
        stop_program(&run);
        for_entries(&run, read_entry, out);
    }
    close_run(&run);
    return TIDE_OK;
}
