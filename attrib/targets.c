/*
** targets.c: which functions are of which group (TIDE_P_TARGETS).
**
** The profile only says so: reports charge bytes to groups by the stacks that
** are recorded anyway.  So a call costs nothing more, and a function may be
** named before or after it ran.
*/
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../common/rules.h"
#include "session.h"

#define MODULE_DEPTH    8u /* frames that are looked at for `require` */
#define RULES_BYTES_MAX ((size_t)1 << 20)
#define TAG_LONG_STRING 0x54u

static struct tide_p_target *target_at(const struct tide_heap *h, uint32_t i)
{
    return (struct tide_p_target *)(void *)h->sections[TIDE_P_TARGETS].base + i;
}

/* Appends a record. */
static enum tide_err put_target(struct tide_heap *h,
                                const struct tide_p_target *target)
{
    struct tide_section *s = &h->sections[TIDE_P_TARGETS];
    const uint32_t i = h->n_targets;
    tide_assert(target->func < h->n_funcs);
    tide_assert(target->what < TIDE_P_TARGET_COUNT_);
    TIDE_TRY(
        tideP_section_reserve(h->writer, s, ((size_t)i + 1) * sizeof *target));
    *target_at(h, i) = *target;
    h->n_targets = i + 1;
    TIDE_PUBLISH(&h->head->n_targets, h->n_targets);
    return TIDE_OK;
}

/* A text's offset; "" is 0, and so is what there is no memory for. */
static enum tide_err put_text(struct tide_heap *h, const char *text,
                              uint32_t *out)
{
    *out = tideT_string(h, text, strlen(text));
    return *out != 0 || *text == '\0' ? TIDE_OK : TIDE_ERR_NOMEM;
}

static void settle_fork(struct tide_heap *h)
{
    if (h->session->is_forked)
        tideT_after_fork(h->session);
}

/* ---- single functions ---- */

/* With Lua's public functions: a Lua function by its source and line. */
static enum tide_err public_func(struct tide_heap *h, lua_State *L, int index,
                                 uint32_t *out)
{
    const struct tide_lua_api *api = &h->cal->api;
    lua_Debug ar[2]; /* room for a larger one */
    TIDE_FAIL_IF(api->tocfunction(L, index) != NULL, TIDE_ERR_LUA);
    TIDE_FAIL_IF(!api->checkstack(L, 1), TIDE_ERR_NOMEM);
    memset(ar, 0, sizeof ar);
    api->pushvalue(L, index);
    TIDE_FAIL_IF(api->getinfo(L, ">S", ar) == 0, TIDE_ERR_LUA);
    *out = tideT_func_public(h, ar[0].source, NULL, ar[0].linedefined,
                             ar[0].lastlinedefined, false);
    return TIDE_OK;
}

/* The function at an index of L's stack, in FUNCS. */
static enum tide_err find_func(struct tide_heap *h, lua_State *L, int index,
                               uint32_t *out)
{
    const struct tide_lua_api *api = &h->cal->api;
    uint32_t func = 0;
    settle_fork(h);
    TIDE_FAIL_IF(api->type(L, index) != LUA_TFUNCTION, TIDE_ERR_ARG);
    if (!h->cal->has_layout) {
        TIDE_TRY(public_func(h, L, index, &func));
    } else {
        const lua_CFunction f = api->tocfunction(L, index);
        const void *closure = api->topointer(L, index);
        const struct tide_proto *proto = NULL;
        if (f != NULL)
            func = tideT_func_c(h, (const void *)f);
        else
            proto = tideT_proto(h, tideT_lclosure_proto(closure));
        if (proto != NULL)
            func = proto->func;
    }
    TIDE_FAIL_IF(func == 0, TIDE_ERR_NOMEM);
    *out = func;
    return TIDE_OK;
}

/* The record of a function; NULL: it has none. */
static struct tide_p_target *find_target(const struct tide_heap *h,
                                         uint32_t func)
{
    const uint64_t *value = tideC_hashtab_find(&h->targets, func);
    return value == NULL || *value == 0 ? NULL
                                        : target_at(h, (uint32_t)*value - 1);
}

bool tideT_is_target(const struct tide_heap *h, uint32_t func)
{
    const struct tide_p_target *target = find_target(h, func);
    return target != NULL && !target->is_off;
}

static enum tide_err add_target(struct tide_heap *h,
                                const struct tide_p_target *target)
{
    uint64_t *value = tideC_hashtab_put(&h->targets, &h->mem, target->func);
    TIDE_FAIL_IF(value == NULL, TIDE_ERR_NOMEM);
    TIDE_TRY(put_target(h, target));
    *value = h->n_targets;
    return TIDE_OK;
}

enum tide_err tide_target(struct tide_heap *heap, struct lua_State *L,
                          int index, const char *group, const char *name)
{
    struct tide_p_target target = {.what = TIDE_P_TARGET_FUNCTION};
    TIDE_TRY(find_func(heap, L, index, &target.func));
    TIDE_TRY(put_text(heap, group, &target.group));
    TIDE_TRY(put_text(heap, name, &target.name));
    struct tide_p_target *old = find_target(heap, target.func);
    if (old == NULL)
        return add_target(heap, &target);
    *old = target;
    return TIDE_OK;
}

enum tide_err tide_untarget(struct tide_heap *heap, struct lua_State *L,
                            int index)
{
    uint32_t func;
    TIDE_TRY(find_func(heap, L, index, &func));
    struct tide_p_target *old = find_target(heap, func);
    TIDE_FAIL_IF(old == NULL || old->is_off, TIDE_ERR_STATE);
    old->is_off = 1;
    return TIDE_OK;
}

/* ---- groups and rules ---- */

enum tide_err tide_untarget_group(struct tide_heap *heap, const char *group)
{
    bool is_found = false;
    uint32_t text;
    settle_fork(heap);
    TIDE_TRY(put_text(heap, group, &text));
    for (uint32_t i = 0; i < heap->n_targets; i++) {
        struct tide_p_target *target = target_at(heap, i);
        if (target->group != text || target->is_off ||
            target->what == TIDE_P_TARGET_MODULE)
            continue;
        target->is_off = 1;
        is_found = true;
    }
    return is_found ? TIDE_OK : TIDE_ERR_STATE;
}

enum tide_err tide_target_group(struct tide_heap *heap, const char *group)
{
    struct tide_p_target target = {.what = TIDE_P_TARGET_GROUP};
    settle_fork(heap);
    TIDE_TRY(put_text(heap, group, &target.group));
    for (uint32_t i = 0; i < heap->n_targets; i++) {
        struct tide_p_target *old = target_at(heap, i);
        if (old->what != TIDE_P_TARGET_GROUP || old->group != target.group)
            continue;
        old->is_off = 0;
        return TIDE_OK;
    }
    return put_target(heap, &target);
}

static enum tide_err put_rule(void *ctx, const struct tide_rule *rule)
{
    struct tide_heap *h = ctx;
    struct tide_p_target target = {.what = TIDE_P_TARGET_RULE};
    TIDE_TRY(put_text(h, rule->group, &target.group));
    TIDE_TRY(put_text(h, rule->source, &target.source));
    TIDE_TRY(put_text(h, rule->module, &target.module));
    TIDE_TRY(put_text(h, rule->name, &target.name));
    return put_target(h, &target);
}

enum tide_err tide_target_rule(struct tide_heap *heap, const char *group,
                               const char *source_or_null,
                               const char *module_or_null,
                               const char *name_or_null)
{
    const struct tide_rule rule = {
        .group = group,
        .source = source_or_null == NULL ? "" : source_or_null,
        .module = module_or_null == NULL ? "" : module_or_null,
        .name = name_or_null == NULL ? "" : name_or_null,
    };
    settle_fork(heap);
    TIDE_FAIL_IF(*rule.group == '\0' ||
                     (*rule.source == '\0' && *rule.module == '\0' &&
                      *rule.name == '\0'),
                 TIDE_ERR_ARG);
    return put_rule(heap, &rule);
}

/* A whole file in memory of its own; 0: it cannot be read, errno says why. */
static size_t read_rules(const char *path, char *text)
{
    size_t n = 0;
    ssize_t got = -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    errno = 0;
    while (n < RULES_BYTES_MAX &&
           (got = read(fd, text + n, RULES_BYTES_MAX - n)) > 0)
        n += (size_t)got;
    const int error = n == RULES_BYTES_MAX ? EFBIG : errno;
    close(fd);
    errno = error;
    return error == 0 ? n : 0;
}

void tideT_rules_read(struct tide_heap *h)
{
    char why[256];
    const char *path = h->session->options.targets;
    const int old_errno = errno;
    char *text = *path == '\0' ? NULL : tideC_pages_alloc(RULES_BYTES_MAX);
    if (text == NULL)
        return;
    const size_t n = read_rules(path, text);
    if (n == 0 && errno != 0)
        tideT_say(path, strerror(errno));
    else if (tideC_rules_parse(text, n, put_rule, h, why, sizeof why) ==
             TIDE_ERR_ARG)
        tideT_say(path, why);
    tideC_pages_free(text, RULES_BYTES_MAX);
    errno = old_errno;
}

/* ---- modules ---- */

void tideT_put_module(struct tide_heap *h, uint32_t func, uint32_t name)
{
    const struct tide_p_target target = {
        .what = TIDE_P_TARGET_MODULE, .func = func, .group = name};
    if (func != 0 && name != 0)
        put_target(h, &target);
}

/* The first argument of `require`, which runs in the frame ci; NULL: none. */
static const char *required_name(const struct tide_heap *h, const lua_State *L,
                                 const char *ci)
{
    bool is_lua;
    const char *slot = tideT_func_slot(h, L, ci);
    const void *fn = tideT_fn_of_slot(slot, &is_lua);
    const char *arg = slot + TIDE_SLOT_BYTES;
    if (fn == NULL || is_lua || strcmp(tideT_library_name(h, fn), "require"))
        return NULL;
    const uint8_t tag = tideT_value_tag(arg);
    return tag == TIDE_TAG_SHORT_STRING || tag == TAG_LONG_STRING
               ? tideT_string_text(tideT_value_ptr(arg))
               : NULL;
}

void tideT_note_module(struct tide_heap *h, uint32_t func, const char *proto)
{
    const lua_State *L = h->cur == NULL ? NULL : h->cur->L;
    if (L == NULL)
        return;
    const char *ci = tideT_L_ci(L);
    for (uint32_t i = 0; ci != NULL && i < MODULE_DEPTH; i++) {
        const char *caller = tideT_ci_previous(ci);
        bool is_lua;
        if (caller == NULL || tideT_ci_previous(caller) == NULL)
            return;
        if (tideT_fn_of_slot(tideT_func_slot(h, L, ci), &is_lua) == proto) {
            const char *name = required_name(h, L, caller);
            if (name != NULL)
                tideT_put_module(h, func, tideT_string(h, name, strlen(name)));
            return;
        }
        ci = caller;
    }
}

enum tide_err tide_module(struct tide_heap *heap, struct lua_State *L,
                          int index, const char *module)
{
    uint32_t func;
    uint32_t name;
    TIDE_TRY(find_func(heap, L, index, &func));
    TIDE_TRY(put_text(heap, module, &name));
    for (uint32_t i = 0; i < heap->n_targets; i++) {
        const struct tide_p_target *old = target_at(heap, i);
        if (old->what == TIDE_P_TARGET_MODULE && old->func == func &&
            old->group == name)
            return TIDE_OK;
    }
    const struct tide_p_target target = {
        .what = TIDE_P_TARGET_MODULE, .func = func, .group = name};
    return put_target(heap, &target);
}
