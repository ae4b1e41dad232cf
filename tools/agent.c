/*
** agent.c: the preload library's life: environment, session, exit.
**
** The library does nothing of its own accord unless TIDEMARK is set in the
** environment (to other than "" and "0"): linking it for its C interface does
** not profile.  With it, the constructor looks for Lua in the executable and
** in what it is linked to; there the session opens at once, before the host
** drops privileges or changes its root.  Otherwise the first lua_State opens
** it.  A process that never makes a state leaves nothing behind.
**
** TIDEMARK_PROBE=1 ends the process before main: `tidemark doctor` reads in
** the profile what would have been done.
*/
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Part of every libc's C++ ABI; declared in no header. */
extern int __cxa_atexit(void (*fn)(void *), void *arg, void *dso_or_null);

struct tideG_agent g_agent = {.lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP};

TIDE_THREAD_LOCAL unsigned g_bypass_depth;

void tideG_lock(void)
{
    pthread_mutex_lock(&g_agent.lock);
}

void tideG_unlock(void)
{
    pthread_mutex_unlock(&g_agent.lock);
}

void tideG_bypass_begin(void)
{
    g_bypass_depth++;
}

void tideG_bypass_end(void)
{
    g_bypass_depth--;
}

bool tideG_is_bypassed(void)
{
    return g_bypass_depth > 0;
}

void tideG_warn_once(const char *what, const char *why)
{
    tideG_lock();
    if (!g_agent.has_spoken)
        dprintf(STDERR_FILENO, "tidemark: %s: %s\n", what, why);
    g_agent.has_spoken = true;
    tideG_unlock();
}

/* A recursive mutex knows its owner by a number that fork changes. */
static void renew_lock(void)
{
    g_agent.lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

static bool wants_report(void)
{
    return g_agent.options.report != TIDE_REPORT_NONE;
}

/* A session that records in memory is written out for its report. */
static bool save_for_report(struct tide_session *session, char *path)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == '\0')
        folder = "/tmp";
    snprintf(path, TIDE_OPT_PATH_MAX, "%s/tidemark.XXXXXX", folder);
    const int fd = mkstemp(path);
    if (fd < 0)
        return false;
    close(fd);
    if (tide_session_save(session, path) == TIDE_OK)
        return true;
    unlink(path);
    return false;
}

/*
** A forked child has no file of its own until its copy of a state is used;
** before that it has nothing to say.
*/
static bool is_idle_child(const char *path)
{
    return getpid() != g_agent.pid &&
           (path[0] == '\0' || strcmp(path, g_agent.path) == 0);
}

/* Unless it has been replaced: a host may have a session of its own there. */
static void remove_profile(const char *path)
{
    struct stat now;
    if (stat(path, &now) == 0 && now.st_dev == g_agent.file.st_dev &&
        now.st_ino == g_agent.file.st_ino)
        unlink(path);
}

static void finish_session(struct tide_session *session)
{
    char path[TIDE_OPT_PATH_MAX];
    const bool has_states = g_agent.n_states > 0;
    snprintf(path, sizeof path, "%s", tide_session_path(session));
    const bool is_in_memory = path[0] == '\0';
    const bool is_idle = is_idle_child(path);
    bool is_reported = wants_report() && has_states && !is_idle;
    if (is_in_memory && is_reported)
        is_reported = save_for_report(session, path);
    tide_session_close(session);
    if (is_reported)
        tideG_report(path, &g_agent.options);
    if (is_in_memory && is_reported)
        unlink(path);
    else if (!has_states && !is_idle)
        remove_profile(path);
}

/* At exit; after it every call passes through. */
static void finish(void *unused)
{
    (void)unused;
    tideG_lock();
    struct tide_session *session = g_agent.session;
    TIDE_PUBLISH(&g_agent.session, NULL);
    g_agent.is_over = true;
    tideG_unlock();
    if (session != NULL)
        finish_session(session);
}

/*
** Without a library named, the handler is not run when this library's own
** destructors are, but in its turn, the order being that of registration: from
** the constructor that is the very last, after all that may close a state.
*/
static void register_handlers(void)
{
    if (g_agent.is_hooked)
        return;
    g_agent.is_hooked = true;
    __cxa_atexit(finish, NULL, NULL);
    pthread_atfork(NULL, NULL, renew_lock);
}

/*
** What is registered last is called first: after the session has registered its
** own handlers, so that a fork takes this lock before those of the session, as
** every thread does that opens a state.
*/
static void lock_for_forks(void)
{
    if (g_agent.locks_for_forks)
        return;
    g_agent.locks_for_forks = true;
    pthread_atfork(tideG_lock, tideG_unlock, NULL);
}

/* Only where there is Lua: other programs of the same environment hear none. */
static bool parse_options(const char *text)
{
    char why[256];
    tideC_options_default(&g_agent.options);
    if (tideC_options_parse(text, &g_agent.options, why, sizeof why) == TIDE_OK)
        return true;
    tideG_warn_once("options", why);
    return false;
}

/* A tide_lookup_fn over a Lua without names. */
static void *find_nothing(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

/* Under the lock.  lua NULL: one without names. */
static enum tide_err open_session(struct tideG_lua *lua, const char *text,
                                  const char *route)
{
    struct tide_session *session;
    TIDE_FAIL_IF(!parse_options(text), TIDE_ERR_ARG);
    if (lua != NULL)
        tideG_lua_learn(lua);
    tideG_bypass_begin();
    const enum tide_err err = tide_session_open(
        text, lua != NULL ? tideG_lua_lookup : find_nothing, lua, &session);
    tideG_bypass_end();
    TIDE_TRY(err);
    tide_session_set_route(session, route);
    snprintf(g_agent.path, sizeof g_agent.path, "%s",
             tide_session_path(session));
    stat(g_agent.path, &g_agent.file);
    g_agent.pid = getpid();
    register_handlers();
    lock_for_forks();
    TIDE_PUBLISH(&g_agent.session, session);
    return TIDE_OK;
}

static struct tide_session *open_for_env(struct tideG_lua *lua,
                                         const char *route)
{
    tideG_lock();
    if (g_agent.session == NULL && g_agent.is_active && !g_agent.is_over) {
        const enum tide_err err = open_session(lua, g_agent.text, route);
        if (err != TIDE_OK) {
            tideG_warn_once("not profiled", tide_err_text(err));
            g_agent.is_active = false;
        }
    }
    tideG_unlock();
    return g_agent.session;
}

struct tide_session *tideG_session_or_null(struct tideG_lua *lua)
{
    struct tide_session *session = TIDE_OBSERVE(&g_agent.session);
    return session != NULL ? session : open_for_env(lua, "preload");
}

struct tide_session *tide_process_session(void)
{
    return TIDE_OBSERVE(&g_agent.session);
}

static struct tideG_lua *lua_of_lookup(tide_lookup_fn lookup_or_null, void *ctx)
{
    if (lookup_or_null != NULL) {
        void *function = lookup_or_null(ctx, "lua_getallocf");
        return function != NULL ? tideG_lua_at(function) : NULL;
    }
    struct tideG_lua *lua = tideG_lua_of_program();
    return lua != NULL ? lua : tideG_lua_loaded();
}

enum tide_err tide_process_attach(const char *options_or_null,
                                  tide_lookup_fn lookup_or_null, void *ctx,
                                  struct lua_State *L,
                                  struct tide_heap **out_or_null)
{
    struct tideG_lua *lua = lua_of_lookup(lookup_or_null, ctx);
    TIDE_FAIL_IF(lua == NULL || !tideG_lua_check(lua), TIDE_ERR_LUA);
    TIDE_FAIL_IF(g_agent.is_over, TIDE_ERR_STATE);
    const char *text = g_agent.is_active         ? g_agent.text
                       : options_or_null != NULL ? options_or_null
                                                 : "";
    enum tide_err err = TIDE_OK;
    tideG_lock();
    if (g_agent.session == NULL)
        err = open_session(lua, text, "module");
    tideG_unlock();
    TIDE_TRY(err);
    return tideG_state_attach(g_agent.session, lua, L, out_or_null);
}

/* No malloc where it can be done without: most programs have no Lua. */
static bool note_place(void)
{
    const char *path;
    if (!tideG_object_at((uintptr_t)tideG_lock, &g_agent.own, &path))
        return false;
    char *real = path[0] == '/' ? NULL : realpath(path, NULL);
    snprintf(g_agent.library, sizeof g_agent.library, "%s",
             real != NULL ? real : path);
    free(real);
    return true;
}

static bool read_environment(void)
{
    const char *text = getenv("TIDEMARK");
    if (text == NULL || text[0] == '\0' || strcmp(text, "0") == 0)
        return false;
    const size_t bytes = strlen(text) + 1;
    g_agent.text = bytes <= sizeof g_agent.short_text
                       ? memcpy(g_agent.short_text, text, bytes)
                       : strdup(text);
    return g_agent.text != NULL;
}

static bool wants_sniff(void)
{
    struct tide_options options;
    char why[256];
    tideC_options_default(&options);
    return tideC_options_parse(g_agent.text, &options, why, sizeof why) ==
               TIDE_OK &&
           options.sniff;
}

/* The executable has a Lua that it does not export. */
static void open_for_sniff(void)
{
    if (!tideG_sniff_program() || open_for_env(NULL, "sniff") == NULL)
        return;
    const char *why = tideG_sniff_start();
    if (why != NULL)
        tideG_warn_once("not profiled: sniff", why);
}

/* The executable's own Lua, or the one it is linked to. */
static void open_at_start(void)
{
    struct tideG_lua *lua = tideG_lua_of_program();
    if (lua == NULL) {
        lua = tideG_lua_loaded();
        if (lua != NULL && tideG_lua_check(lua))
            open_for_env(lua, "preload");
        else if (lua == NULL && wants_sniff())
            open_for_sniff();
        return;
    }
    if (!tideG_lua_check(lua))
        return;
    const char *why = tideG_patch_program(lua);
    if (why == NULL)
        open_for_env(lua, "patch");
    else
        tideG_warn_once("not profiled: lua_newstate cannot be patched", why);
}

TIDE_CONSTRUCTOR static void start(void)
{
    const char *probe = getenv("TIDEMARK_PROBE");
    if (!note_place() || !read_environment())
        return;
    g_agent.is_active = true;
    register_handlers();
    tide_folder_hold(g_agent.text);
    if (tideG_is_loaded_at_start())
        open_at_start();
    if (probe == NULL || probe[0] == '\0')
        return;
    if (g_agent.session != NULL)
        tide_session_close(g_agent.session);
    _exit(0);
}
