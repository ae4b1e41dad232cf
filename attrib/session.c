/*
** session.c: implements tidemark.h: sessions, their file, and the life of
** heaps.
**
** A session is one profile of one process.  Heaps that are closed are kept and
** used again for later states, so that a server which makes a state for each
** request has one tree and not thousands.
*/
#include "session.h"
#include "check.h"
#include "native.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../common/mem.h"

#define EXECS_MAX 1000 /* profiles of one process, one for each exec */

void tideT_lock(int *lock)
{
    while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
}

void tideT_unlock(int *lock)
{
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

uint64_t tideT_clock_ns(int which)
{
    struct timespec t;
    clock_gettime(which, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tideT_say(const char *what, const char *why)
{
    char line[1400];
    const int n = snprintf(line, sizeof line, "tidemark: %s: %s\n", what, why);
    if (n > 0 &&
        write(STDERR_FILENO, line,
              (size_t)n < sizeof line ? (size_t)n : sizeof line - 1) < 0)
        return; /* nobody to tell */
}

/* ---- the header ---- */

/* What can be had while a process is young: see tide_folder_hold. */
static struct {
    size_t command_bytes;
    char program[256];
    char command[2048];
    struct tide_places places;
} held;

static void read_program(char *out, size_t out_bytes)
{
    const ssize_t n = readlink("/proc/self/exe", out, out_bytes - 1);
    out[n > 0 ? n : 0] = '\0';
    if (n <= 0 && out != held.program && out_bytes >= sizeof held.program)
        memcpy(out, held.program, sizeof held.program);
}

static size_t read_command(char *out, size_t out_bytes)
{
    const size_t n = tideT_read_proc("/proc/self/cmdline", out, out_bytes);
    if (n > 0 || held.command_bytes > out_bytes)
        return n;
    memcpy(out, held.command, held.command_bytes);
    return held.command_bytes;
}

static void fill_header(struct tide_session *s)
{
    struct tide_p_header *header = tideP_writer_header(s->writer);
    header->pid = (uint32_t)getpid();
    header->start_unix_ns = tideT_clock_ns(CLOCK_REALTIME);
    header->start_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    header->end_mono_ns = header->start_mono_ns;
    header->tier = (uint32_t)s->cal.tier;
    snprintf(header->lua, sizeof header->lua, "%s", s->cal.lua);
    snprintf(header->tool, sizeof header->tool, "tidemark %s", TIDE_VERSION);
    snprintf(header->tier_reason, sizeof header->tier_reason, "%s",
             s->cal.reason);
    if (header->route[0] == '\0')
        snprintf(header->route, sizeof header->route, "api");
    read_program(header->program, sizeof header->program);
    header->command_bytes =
        (uint32_t)read_command(header->command, sizeof header->command);
}

static bool expand(const char *pattern, const char *program, char *path,
                   size_t bytes)
{
    const char *slash = strrchr(program, '/');
    return tideC_options_expand(pattern, (int)getpid(),
                                slash == NULL ? program : slash + 1, path,
                                bytes) == TIDE_OK;
}

bool tideT_session_expand(const char *pattern, char *path, size_t bytes)
{
    char program[256];
    read_program(program, sizeof program);
    return expand(pattern, program, path, bytes);
}

/* The path that the options ask for; false: none. */
static bool expand_out(const struct tide_options *options, char *path,
                       size_t bytes)
{
    return options->out[0] != '\0' &&
           tideT_session_expand(options->out, path, bytes);
}

static void say_if_elsewhere(const struct tide_session *s, const char *path)
{
    char why[PATH_MAX + 64];
    if (!tideP_writer_is_elsewhere(s->writer))
        return;
    snprintf(why, sizeof why, "cannot be made; it is '%s'",
             tideP_writer_path(s->writer));
    tideT_say(path, why);
}

/* When this process was made, on the monotonic clock; ns, 0: not known. */
static uint64_t process_start_ns(void)
{
    char text[1024];
    const size_t n = tideT_read_proc("/proc/self/stat", text, sizeof text - 1);
    const long per_second = sysconf(_SC_CLK_TCK);
    unsigned long long ticks = 0;
    text[n] = '\0';
    const char *at = strrchr(text, ')'); /* behind the name, field 2 */
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || sscanf(at, "%llu", &ticks) != 1 || per_second <= 0)
        return 0;
    return ticks * (UINT64_C(1000000000) / (uint64_t)per_second);
}

/* Does this process have the file mapped? */
static bool is_mapped(ino_t ino)
{
    char line[PATH_MAX + 128];
    unsigned long long inode;
    bool is_found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps != NULL && !is_found && fgets(line, sizeof line, maps) != NULL)
        is_found = sscanf(line, "%*s %*s %*s %*s %llu", &inode) == 1 &&
                   inode == (unsigned long long)ino;
    if (maps != NULL)
        fclose(maps);
    return is_found;
}

/*
** The profile at `path` is this very process's, from before it became another
** program: another session of the present one has it mapped.
*/
static bool is_from_before_exec(const char *path)
{
    struct tide_p_header header;
    struct stat st;
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool is_ours =
        read(fd, &header, sizeof header) == sizeof header &&
        memcmp(header.magic, TIDE_P_MAGIC, sizeof header.magic) == 0 &&
        header.state == TIDE_P_RUNNING && header.pid == (uint32_t)getpid() &&
        fstat(fd, &st) == 0 && !is_mapped(st.st_ino);
    close(fd);
    const uint64_t start_ns = is_ours ? process_start_ns() : 0;
    return start_ns != 0 && header.start_mono_ns >= start_ns;
}

/* "x.tide" is taken by what this process was before: "x.2.tide". */
static void avoid_own_past(char *path, size_t bytes)
{
    const size_t n = strlen(path);
    const size_t suffix = sizeof TIDE_P_SUFFIX - 1;
    const bool has_suffix =
        n > suffix && strcmp(path + n - suffix, TIDE_P_SUFFIX) == 0;
    const size_t stem = has_suffix ? n - suffix : n;
    for (int i = 2; i < EXECS_MAX && is_from_before_exec(path); i++)
        snprintf(path + stem, bytes - stem, ".%d%s", i,
                 has_suffix ? TIDE_P_SUFFIX : "");
}

static enum tide_err open_writer(struct tide_session *s)
{
    char path[TIDE_OPT_PATH_MAX + 64];
    const bool has_path = expand_out(&s->options, path, sizeof path);
    if (has_path)
        avoid_own_past(path, sizeof path);
    else if (s->options.out[0] != '\0')
        tideT_say(s->options.out, "too long; recording in memory only");
    const enum tide_err err =
        has_path ? tideP_writer_open_in(&held.places, path, &s->writer)
                 : tideP_writer_open(NULL, &s->writer);
    if (has_path && err == TIDE_OK)
        say_if_elsewhere(s, path);
    if (err == TIDE_ERR_IO && s->writer != NULL) {
        char why[256];
        snprintf(why, sizeof why, "%s; recording in memory only",
                 strerror(errno));
        tideT_say(path, why);
        return TIDE_OK;
    }
    return err;
}

/* ---- forks ---- */

void tideT_session_move(struct tide_session *s)
{
    char path[TIDE_OPT_PATH_MAX + 64];
    char why[256];
    const uint32_t parent = tideP_writer_header(s->writer)->pid;
    fill_header(s);
    tideP_writer_header(s->writer)->parent_pid = parent;
    tideT_control_open(s);
    if (!expand_out(&s->options, path, sizeof path))
        return;
    if (tideP_writer_move_to(s->writer, path) != TIDE_OK) {
        snprintf(why, sizeof why, "%s; recording in memory only",
                 strerror(errno));
        tideT_say(path, why);
    } else {
        say_if_elsewhere(s, path);
    }
}

/* ---- sessions ---- */

void tide_folder_hold(const char *options_or_null)
{
    char path[TIDE_OPT_PATH_MAX + 64];
    struct tide_options options;
    tideC_options_default(&options);
    if (held.places.is_open ||
        (options_or_null != NULL &&
         tideC_options_parse(options_or_null, &options, path, sizeof path) !=
             TIDE_OK))
        return;
    read_program(held.program, sizeof held.program);
    held.command_bytes = read_command(held.command, sizeof held.command);
    if (options.out[0] != '\0' &&
        expand(options.out, held.program, path, sizeof path))
        tideP_places_open(&held.places, path);
    const char *why; /* said when the session opens */
    if (options.native != TIDE_NATIVE_OFF)
        tideT_unwind_load(&why);
}

static enum tide_err parse_options(struct tide_session *s, const char *options)
{
    char why[256];
    tideC_options_default(&s->options);
    if (options == NULL)
        return TIDE_OK;
    const enum tide_err err =
        tideC_options_parse(options, &s->options, why, sizeof why);
    if (err != TIDE_OK)
        tideT_say("options", why);
    return err;
}

/*
** The release, "Lua 5.4.4", from the library's own identification,
** "$LuaVersion: Lua 5.4.4  Copyright ..."; the version alone without it.
*/
static void find_release(struct tide_session *s, tide_lookup_fn lookup,
                         void *ctx)
{
    static const char before[] = "$LuaVersion: ";
    const char *ident = lookup != NULL ? lookup(ctx, "lua_ident")
                                       : dlsym(RTLD_DEFAULT, "lua_ident");
    if (ident == NULL || strncmp(ident, before, sizeof before - 1) != 0)
        return;
    ident += sizeof before - 1;
    const char *end = strstr(ident, "  ");
    if (end != NULL && (size_t)(end - ident) < sizeof s->cal.lua)
        snprintf(s->cal.lua, sizeof s->cal.lua, "%.*s", (int)(end - ident),
                 ident);
}

static void calibrate(struct tide_session *s, tide_lookup_fn lookup, void *ctx)
{
    const char *missing = "";
    if (tideT_luaapi_find(lookup, ctx, &s->cal.api, &missing) == TIDE_OK) {
        tideT_calibrate(&s->cal);
        find_release(s, lookup, ctx);
        return;
    }
    memset(&s->cal.api, 0, sizeof s->cal.api);
    s->cal.tier = TIDE_TIER_PUBLIC;
    snprintf(s->cal.reason, sizeof s->cal.reason,
             "%s was not found in the process", missing);
}

/* Says so only when C frames were asked for. */
static void open_unwind(struct tide_session *s)
{
    const char *why = "no memory";
    if (s->options.native == TIDE_NATIVE_OFF || !s->cal.has_layout ||
        s->cal.api.rawseti == NULL)
        return;
    if (tideT_unwind_load(&why))
        s->unwind = tideT_unwind_open(&s->cal);
    if (s->unwind == NULL)
        tideT_say("no C frames", why);
}

enum tide_err tide_session_open(const char *options_or_null,
                                tide_lookup_fn lookup_or_null, void *ctx,
                                struct tide_session **out)
{
    struct tide_session *s = tideC_pages_alloc(sizeof *s);
    TIDE_FAIL_IF(s == NULL, TIDE_ERR_NOMEM);
    enum tide_err err = parse_options(s, options_or_null);
    if (err == TIDE_OK) {
        calibrate(s, lookup_or_null, ctx);
        open_unwind(s);
        err = open_writer(s);
    }
    if (err != TIDE_OK) {
        tideT_unwind_close(s->unwind);
        tideC_pages_free(s, sizeof *s);
        return err;
    }
    s->is_off = s->options.start == TIDE_START_MANUAL;
    fill_header(s);
    if (!tideT_signal_take(s))
        tideT_say("signal", "the program has a handler of its own; it stays");
    tideT_control_open(s);
    tideT_sessions_add(s);
    *out = s;
    return TIDE_OK;
}

static void say_if_not_whole(struct tide_session *s, enum tide_err err)
{
    if (err == TIDE_OK || s->said_full)
        return;
    s->said_full = true;
    char why[256];
    snprintf(why, sizeof why, "%s; the profile is not whole", strerror(errno));
    tideT_say(tideP_writer_path(s->writer), why);
}

/* Is one still in use?  Whoever is about to close one has then done so. */
static bool finish_counting(struct tide_session *s)
{
    bool any_open = false;
    tideT_lock(&s->lock);
    for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
        any_open = any_open || !h->is_idle;
    s->is_finished = true;
    tideT_unlock(&s->lock);
    return any_open;
}

void tide_session_close(struct tide_session *session_or_null)
{
    struct tide_session *s = session_or_null;
    if (s == NULL || s->is_finished)
        return;
    tideT_signal_give_back(s);
    tideT_session_settle(s);
    tideT_check_end();
    if (finish_counting(s)) {
        /* blocks are still to be freed through us: keep all mapped */
        tide_session_stop(s);
        say_if_not_whole(s, tideP_writer_finish(s->writer));
        return;
    }
    say_if_not_whole(s, tideP_writer_finish(s->writer));
    tideP_writer_close(s->writer);
    tideT_sessions_remove(s);
    while (s->heaps != NULL) {
        struct tide_heap *h = s->heaps;
        s->heaps = h->next;
        tideT_heap_free(h);
    }
    tideT_unwind_close(s->unwind);
    tideC_pages_free(s, sizeof *s);
}

void tide_session_start(struct tide_session *session)
{
    tideT_session_switch(session, false);
}

void tide_session_stop(struct tide_session *session)
{
    tideT_session_switch(session, true);
}

enum tide_err tide_session_reset(struct tide_session *session)
{
    if (session->is_forked)
        tideT_after_fork(session);
    for (struct tide_heap *h = session->heaps; h != NULL; h = h->next)
        tideT_heap_reset(h);
    return TIDE_OK;
}

enum tide_err tide_session_save(struct tide_session *session, const char *path)
{
    char full[TIDE_OPT_PATH_MAX + 64];
    char program[256];
    read_program(program, sizeof program);
    const char *slash = strrchr(program, '/');
    if (session->is_forked)
        tideT_after_fork(session);
    tideT_session_settle(session);
    TIDE_TRY(tideC_options_expand(path, (int)getpid(),
                                  slash == NULL ? program : slash + 1, full,
                                  sizeof full));
    return tideP_writer_save(session->writer, full);
}

const char *tide_session_path(const struct tide_session *session)
{
    return tideP_writer_path(session->writer);
}

void tide_session_set_route(struct tide_session *session, const char *route)
{
    struct tide_p_header *header = tideP_writer_header(session->writer);
    snprintf(header->route, sizeof header->route, "%s", route);
}

enum tide_tier tide_session_tier(const struct tide_session *session,
                                 const char **reason_or_null)
{
    if (reason_or_null != NULL)
        *reason_or_null = session->cal.reason;
    return session->cal.tier;
}
