/*
** lua_control.c: the module's functions that start and stop things.
*/
#include "lua_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/rules.h"

#define RULES_BYTES_MAX ((size_t)1 << 20)

static void *look_up(void *ctx, const char *name)
{
    (void)ctx;
    return dlsym(g_api.handle, name);
}

/* ---- attach ---- */

/*
** Called when the state closes: the userdata that has it stays in the registry
** until then, and as the first one made it goes last.
*/
static int on_close(lua_State *L)
{
    struct tide_heap *heap = tideL_heap(L);
    if (heap != NULL)
        tide_heap_closing(heap);
    return 0;
}

static void watch_close(lua_State *L)
{
    g_api.lua_newuserdatauv(L, 1, 0);
    g_api.lua_createtable(L, 0, 1);
    g_api.lua_pushcclosure(L, on_close, 0);
    g_api.lua_setfield(L, -2, "__gc");
    g_api.lua_setmetatable(L, -2);
    g_api.lua_rawsetp(L, LUA_REGISTRYINDEX, &g_api);
}

enum tide_err tideL_attach(lua_State *L, const char *options)
{
    const bool was_attached = tideL_heap(L) != NULL;
    TIDE_TRY(tide_process_attach(options, look_up, NULL, L, NULL));
    if (!was_attached)
        watch_close(L);
    return TIDE_OK;
}

/* attach([options]): true, or nil and why not. */
int tideL_mod_attach(lua_State *L)
{
    struct tideL_options options;
    struct tide_options parsed;
    tideL_read_options(L, &options, &parsed);
    return tideL_outcome(L, tideL_attach(L, options.text));
}

/* detach(): true, or nil and why not.  attach() takes it up again. */
int tideL_mod_detach(lua_State *L)
{
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    tide_heap_detach(heap);
    return tideL_outcome(L, TIDE_OK);
}

/* ---- recording ---- */

static enum tide_err add_rule(void *ctx, const struct tide_rule *rule)
{
    return tide_target_rule(ctx, rule->group, rule->source, rule->module,
                            rule->name);
}

/* Reads a file of rules.  0, or what is wrong in `why`. */
static bool read_rules(struct tide_heap *heap, const char *path, char *why,
                       size_t why_bytes)
{
    FILE *file = fopen(path, "re");
    char *text = malloc(RULES_BYTES_MAX);
    size_t n = 0;
    errno = text == NULL ? ENOMEM : errno;
    if (file != NULL && text != NULL)
        n = fread(text, 1, RULES_BYTES_MAX, file);
    bool is_read = file != NULL && text != NULL && !ferror(file);
    if (!is_read)
        snprintf(why, why_bytes, "%s", strerror(errno));
    else
        is_read = tideC_rules_parse(text, n, add_rule, heap, why, why_bytes) ==
                  TIDE_OK;
    free(text);
    if (file != NULL)
        fclose(file);
    return is_read;
}

/* Those options that a session which is open already can follow. */
static bool apply_options(struct tide_heap *heap,
                          const struct tide_options *options, char *why,
                          size_t why_bytes)
{
    char reason[256];
    if (options->limit != 0)
        tide_heap_limit(heap, options->limit);
    if (options->targets[0] == '\0' ||
        read_rules(heap, options->targets, reason, sizeof reason))
        return true;
    snprintf(why, why_bytes, "%.200s: %s", options->targets, reason);
    return false;
}

/*
** start([options]): recording is on; a state that is not attached yet is.  Of
** the options a session that is open already follows `limit` and `targets`.
*/
int tideL_mod_start(lua_State *L)
{
    char why[512];
    struct tideL_options options;
    struct tide_options parsed;
    tideL_read_options(L, &options, &parsed);
    if (tideL_heap(L) == NULL) {
        const enum tide_err err = tideL_attach(L, options.text);
        if (err != TIDE_OK)
            return tideL_outcome(L, err);
    }
    struct tide_heap *heap = tideL_heap(L);
    if (heap != NULL && !apply_options(heap, &parsed, why, sizeof why))
        return tideL_failure(L, why);
    tide_session_start(tideL_session());
    return tideL_outcome(L, TIDE_OK);
}

/* reset(): counters of things past are 0. */
int tideL_mod_reset(lua_State *L)
{
    struct tide_session *session = tideL_session_or_failure(L);
    return session == NULL ? 2 : tideL_outcome(L, tide_session_reset(session));
}

/* mark(label): a point of the timeline. */
int tideL_mod_mark(lua_State *L)
{
    const char *label = tideL_check_name(L, 1);
    struct tide_session *session = tideL_session_or_failure(L);
    return session == NULL
               ? 2
               : tideL_outcome(L, tide_session_mark(session, label));
}

/* A size as the option `limit` has it: bytes, or a text such as "64M". */
static uint64_t check_size(lua_State *L, int arg)
{
    char text[64];
    char why[256];
    struct tide_options options;
    if (g_api.lua_type(L, arg) != LUA_TSTRING) {
        const lua_Integer n = g_api.luaL_checkinteger(L, arg);
        if (n < 0)
            g_api.luaL_argerror(L, arg, "must not be negative");
        return (uint64_t)n;
    }
    const char *size = g_api.lua_tolstring(L, arg, NULL);
    snprintf(text, sizeof text, "limit=%.50s", size);
    tideC_options_default(&options);
    if (strpbrk(size, ",\"=") != NULL ||
        tideC_options_parse(text, &options, why, sizeof why) != TIDE_OK)
        g_api.luaL_argerror(L, arg, "not a size");
    return options.limit;
}

/* limit(bytes): most bytes that this state may hold; 0: no limit. */
int tideL_mod_limit(lua_State *L)
{
    const uint64_t bytes = check_size(L, 1);
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    tide_heap_limit(heap, bytes);
    return tideL_outcome(L, TIDE_OK);
}

/* ---- the profile ---- */

/* "tidemark-20261130-120000.tide" */
static void default_name(char *out, size_t out_bytes)
{
    const time_t now = time(NULL);
    struct tm parts;
    if (localtime_r(&now, &parts) == NULL ||
        strftime(out, out_bytes, "tidemark-%Y%m%d-%H%M%S.tide", &parts) == 0)
        snprintf(out, out_bytes, "tidemark.tide");
}

/* save([path]): the path written, or nil and why not. */
int tideL_mod_save(lua_State *L)
{
    char name[64];
    char path[TIDE_OPT_PATH_MAX];
    const char *pattern = name;
    default_name(name, sizeof name);
    if (g_api.lua_type(L, 1) != LUA_TNIL && g_api.lua_type(L, 1) != LUA_TNONE)
        pattern = tideL_check_name(L, 1);
    struct tide_session *session = tideL_session_or_failure(L);
    if (session == NULL)
        return 2;
    if (tideC_options_expand(pattern, (int)getpid(),
                             program_invocation_short_name, path,
                             sizeof path) != TIDE_OK)
        return g_api.luaL_argerror(L, 1, "not a name for a file");
    const enum tide_err err = tide_session_save(session, pattern);
    if (err != TIDE_OK)
        return tideL_failure(L, tideL_why(err));
    g_api.lua_pushstring(L, path);
    return 1;
}

/* path(): the profile's file; nil: it is recorded in memory. */
int tideL_mod_path(lua_State *L)
{
    struct tide_session *session = tideL_session_or_failure(L);
    if (session == NULL)
        return 2;
    const char *path = tide_session_path(session);
    if (path[0] == '\0')
        return tideL_failure(L, "recorded in memory");
    g_api.lua_pushstring(L, path);
    return 1;
}

/* One row for each field of struct tide_totals. */
#define TOTAL(name)                                                            \
 {                                                                             \
#  name, offsetof(struct tide_totals, name)                                    \
 }
static const struct {
    const char *name;
    size_t offset;
} total_rows[] = {
    TOTAL(alloc_bytes),  TOTAL(alloc_blocks), TOTAL(freed_bytes),
    TOTAL(freed_blocks), TOTAL(live_bytes),   TOTAL(live_blocks),
    TOTAL(peak_bytes),   TOTAL(buffer_bytes), TOTAL(unattributed_bytes),
    TOTAL(before_bytes), TOTAL(gc_cycles),    TOTAL(failed_blocks),
};

#define N_TOTALS (sizeof total_rows / sizeof *total_rows)

static void set_tier(lua_State *L, const struct tide_session *session)
{
    static const char *const names[TIDE_TIER_COUNT_] = {
        [TIDE_TIER_EXACT] = "exact",
        [TIDE_TIER_PARTIAL] = "partial",
        [TIDE_TIER_PUBLIC] = "public",
    };
    const char *reason;
    const enum tide_tier tier = tide_session_tier(session, &reason);
    tideL_set_string(L, "tier", names[tier]);
    tideL_set_string(L, "tier_reason", reason);
}

/*
** stats(): a table with the sums over this state, taken before the table is
** made, and the tier.
*/
int tideL_mod_stats(lua_State *L)
{
    struct tide_totals totals;
    struct tide_heap *heap = tideL_heap_or_failure(L);
    if (heap == NULL)
        return 2;
    tide_heap_totals(heap, &totals);
    g_api.lua_createtable(L, 0, (int)N_TOTALS + 2);
    for (size_t i = 0; i < N_TOTALS; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&totals + total_rows[i].offset,
               sizeof value);
        tideL_set_integer(L, total_rows[i].name, value);
    }
    set_tier(L, tideL_session());
    return 1;
}
