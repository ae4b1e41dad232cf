/*
** doctor_env.c: what stands between a shell's environment and a program.
**
** The profiler comes by two variables.  Some programs are started by others
** that clear them: sudo and its like, dovecot's master, systemd, whose units
** are searched for the one that starts the program.  For each, what to write
** where.
*/
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

/* Where units are, the ones that win first. */
static const char *const unit_folders[] = {
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
};

/* What a unit says, as far as it matters here. */
struct unit {
    bool starts_it;
    bool has_private_tmp;
    bool is_protected; /* most folders cannot be written to */
};

static TIDE_PRINTF(2, 3) void add_hint(struct doctor_hints *hints,
                                       const char *fmt, ...)
{
    if (hints->n >= DOCTOR_HINTS_MAX)
        return;
    va_list args;
    va_start(args, fmt);
    vsnprintf(hints->text[hints->n++], DOCTOR_HINT_BYTES, fmt, args);
    va_end(args);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names != NULL && strcmp(name, *names) != 0)
        names++;
    return *names != NULL;
}

/* ---- units of systemd ---- */

static bool is_same_file(const char *path, const char *real)
{
    char *own = real[0] == '\0' ? NULL : realpath(path, NULL);
    const bool is_same = own != NULL && strcmp(own, real) == 0;
    free(own);
    return is_same;
}

/* The program of an ExecStart= line: behind its marks, up to a blank. */
static bool starts(char *value, const char *program, const char *script)
{
    value += strspn(value, "@-:+! \t\"");
    value[strcspn(value, " \t\"")] = '\0';
    return is_same_file(value, program) || is_same_file(value, script);
}

static bool is_on(const char *value)
{
    static const char *const words[] = {"yes", "true", "on", "1", NULL};
    return is_one_of(value, words);
}

/* The value of "NAME=value"; NULL: another line. */
static char *value_of(char *line, const char *name)
{
    const size_t n = strlen(name);
    line += strspn(line, " \t");
    return strncmp(line, name, n) == 0 && line[n] == '=' ? line + n + 1 : NULL;
}

static struct unit read_unit(FILE *file, const char *program,
                             const char *script)
{
    struct unit unit = {false, false, false};
    char line[1024];
    while (fgets(line, sizeof line, file) != NULL) {
        char *value;
        line[strcspn(line, "\r\n")] = '\0';
        if ((value = value_of(line, "ExecStart")) != NULL)
            unit.starts_it = unit.starts_it || starts(value, program, script);
        else if ((value = value_of(line, "PrivateTmp")) != NULL)
            unit.has_private_tmp = is_on(value);
        else if ((value = value_of(line, "ProtectSystem")) != NULL)
            unit.is_protected = is_on(value) || strcmp(value, "full") == 0 ||
                                strcmp(value, "strict") == 0;
    }
    return unit;
}

static void hint_unit(const char *name, const struct unit *unit,
                      const char *library, struct doctor_hints *hints)
{
    add_hint(
        hints,
        "systemd starts it: with 'systemctl edit %s' add, below [Service], "
        "Environment=LD_PRELOAD=%s "
        "TIDEMARK=out=/FOLDER/%%%%n.%%%%p.tide",
        name, library);
    if (unit->has_private_tmp)
        add_hint(hints,
                 "%s has a /tmp of its own (PrivateTmp=): name another "
                 "FOLDER, or look in /tmp/systemd-private-*",
                 name);
    if (unit->is_protected)
        add_hint(hints,
                 "%s may write to few folders (ProtectSystem=): add "
                 "ReadWritePaths=/FOLDER",
                 name);
}

/* True when this unit starts the program. */
static bool try_unit(const char *folder, const char *name, const char *program,
                     const char *script, const char *library,
                     struct doctor_hints *hints)
{
    char path[PATH_MAX];
    const size_t n = strlen(name);
    if (n < 8 || strcmp(name + n - 8, ".service") != 0 ||
        snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return false;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    const struct unit unit = read_unit(file, program, script);
    fclose(file);
    if (unit.starts_it)
        hint_unit(name, &unit, library, hints);
    return unit.starts_it;
}

static bool search_folder(const char *folder, const char *program,
                          const char *script, const char *library,
                          struct doctor_hints *hints)
{
    bool is_found = false;
    DIR *entries = opendir(folder);
    for (struct dirent *entry;
         entries != NULL && !is_found && (entry = readdir(entries)) != NULL;)
        is_found =
            try_unit(folder, entry->d_name, program, script, library, hints);
    if (entries != NULL)
        closedir(entries);
    return is_found;
}

static void search_units(const struct doctor_program *program,
                         const char *library, struct doctor_hints *hints)
{
    char *real = realpath(program->path, NULL);
    char *script =
        program->script[0] == '\0' ? NULL : realpath(program->script, NULL);
    /* an interpreter that is started for a script is not the service */
    const char *path = real == NULL || script != NULL ? "" : real;
    for (size_t i = 0; i < sizeof unit_folders / sizeof unit_folders[0]; i++)
        if (search_folder(unit_folders[i], path, script == NULL ? "" : script,
                          library, hints))
            break;
    free(real);
    free(script);
}

/* ---- all of it ---- */

void doctor_environment(const char *command,
                        const struct doctor_program *program,
                        const char *library, struct doctor_hints *hints)
{
    static const char *const clearing[] = {"sudo", "doas", "pkexec", NULL};
    static const char *const logins[] = {"su", "runuser", "service", NULL};
    const char *name = base_name(command);
    hints->n = 0;
    if (is_one_of(name, clearing))
        add_hint(hints,
                 "%s clears the environment: %s env LD_PRELOAD=%s "
                 "TIDEMARK=out=/FOLDER/%%n.%%p.tide COMMAND",
                 name, name, library);
    if (is_one_of(name, logins))
        add_hint(hints,
                 "%s may clear the environment ('su -' does): put "
                 "'env LD_PRELOAD=%s TIDEMARK=...' in front of the "
                 "command that it runs",
                 name, library);
    if (strcmp(name, "dovecot") == 0)
        add_hint(hints, "dovecot gives its processes an environment of its "
                        "own: add to dovecot.conf: import_environment = "
                        "$import_environment LD_PRELOAD TIDEMARK");
    search_units(program, library, hints);
}
