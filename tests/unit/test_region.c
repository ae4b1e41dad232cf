/*
** test_region.c: regions and groups of functions, through the C interface.
*/
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#include "../../include/tidemark.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"

#define STRING_BYTES 10025u /* of a string of 10,000 bytes, in the heap */

struct host {
    struct tide_session *session;
    struct tide_heap *heap;
    lua_State *L;
};

static struct host g_host; /* for functions called by Lua */

static int call_push(lua_State *L)
{
    const char *name = luaL_checkstring(L, 1);
    lua_pushinteger(L, tide_region_push(g_host.heap, L, 1, name));
    return 1;
}

static int call_pop(lua_State *L)
{
    const char *name = "none";
    if (tide_region_pop(g_host.heap, L, 1, &name) != TIDE_OK)
        name = "error";
    lua_pushstring(L, name);
    return 1;
}

static int call_reset(lua_State *L)
{
    (void)L;
    tide_session_reset(g_host.session);
    return 0;
}

static int call_stop(lua_State *L)
{
    (void)L;
    tide_session_stop(g_host.session);
    return 0;
}

static int call_start(lua_State *L)
{
    (void)L;
    tide_session_start(g_host.session);
    return 0;
}

/* fork(): the child's process id, 0 in the child. */
static int call_fork(lua_State *L)
{
    lua_pushinteger(L, fork());
    return 1;
}

/* make(): a string of 10,000 bytes, each time another one. */
static int call_make(lua_State *L)
{
    static unsigned n;
    char text[10000];
    memset(text, 'x', sizeof text);
    snprintf(text, sizeof text, "%u", ++n);
    lua_pushlstring(L, text, sizeof text);
    return 1;
}

static void open_host(const char *more_options)
{
    char options[1024];
    snprintf(options, sizeof options, "out=%s%s",
             scratch_path("region.%p.tide"), more_options);
    CHECK_EQ(tide_session_open(options, NULL, NULL, &g_host.session), TIDE_OK);
    g_host.L = tide_newstate(g_host.session, &g_host.heap);
    CHECK(g_host.L != NULL);
    luaL_openlibs(g_host.L);
    lua_register(g_host.L, "push", call_push);
    lua_register(g_host.L, "pop", call_pop);
    lua_register(g_host.L, "reset", call_reset);
    lua_register(g_host.L, "stop", call_stop);
    lua_register(g_host.L, "start", call_start);
    lua_register(g_host.L, "make", call_make);
    lua_register(g_host.L, "fork", call_fork);
}

static void run(const char *text)
{
    if (luaL_loadbuffer(g_host.L, text, strlen(text), "=test") != LUA_OK ||
        lua_pcall(g_host.L, 0, 0, 0) != LUA_OK) {
        printf("# %s\n", lua_tostring(g_host.L, -1));
        CHECK(false);
    }
}

static struct tide_profile *close_host(void)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    char path[1024];
    lua_close(g_host.L);
    snprintf(path, sizeof path, "%s", tide_session_path(g_host.session));
    tide_heap_close(g_host.heap);
    tide_session_close(g_host.session);
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    return profile;
}

static const char *func_name(const struct tide_p_view *view, uint32_t node)
{
    return tideP_view_string(view, view->funcs[view->nodes[node].func].name,
                             NULL);
}

/*
** How often make() was called below a path of names "a/b", innermost last:
** frames between them do not matter, but no region may stand below the last.
*/
static bool is_below(const struct tide_p_view *view, uint32_t node,
                     const char *path)
{
    char names[256];
    snprintf(names, sizeof names, "%s", path);
    bool is_last = true;
    while (names[0] != '\0') {
        char *slash = strrchr(names, '/');
        const char *name = slash == NULL ? names : slash + 1;
        for (; node != 0 && strcmp(func_name(view, node), name) != 0;
             node = view->nodes[node].parent)
            if (is_last &&
                view->funcs[view->nodes[node].func].what == TIDE_P_REGION)
                return false;
        if (node == 0)
            return false;
        is_last = false;
        *(slash == NULL ? names : slash) = '\0';
    }
    return true;
}

static unsigned made_below(const struct tide_profile *profile, const char *path)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *cell = &view->cells[i];
        if (cell->kind == TIDE_KIND_STRING &&
            strcmp(func_name(view, cell->node), "make") == 0 &&
            is_below(view, cell->node, path))
            bytes += cell->alloc_bytes;
    }
    CHECK_EQ(bytes % STRING_BYTES, 0);
    return (unsigned)(bytes / STRING_BYTES);
}

static unsigned made_outside(const struct tide_profile *profile)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    uint64_t bytes = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        const struct tide_cell *cell = &view->cells[i];
        uint32_t node = cell->node;
        if (cell->kind != TIDE_KIND_STRING ||
            strcmp(func_name(view, node), "make") != 0)
            continue;
        while (node != 0 &&
               view->funcs[view->nodes[node].func].what != TIDE_P_REGION)
            node = view->nodes[node].parent;
        if (node == 0)
            bytes += cell->alloc_bytes;
    }
    return (unsigned)(bytes / STRING_BYTES);
}

static const struct tide_p_target *find_target(const struct tide_p_view *view,
                                               enum tide_p_target_what what,
                                               const char *group,
                                               const char *name)
{
    for (uint32_t i = 0; i < view->n_targets; i++) {
        const struct tide_p_target *t = &view->targets[i];
        if (t->what == what &&
            strcmp(tideP_view_string(view, t->group, NULL), group) == 0 &&
            strcmp(tideP_view_string(view, t->name, NULL), name) == 0)
            return t;
    }
    return NULL;
}

TEST(region_holds_what_is_made_between_push_and_pop)
{
    open_host("");
    run("local function f()\n"
        "  make()\n"
        "  assert(push('a') == 0)\n"
        "  make() make()\n"
        "  local function g() make() end\n"
        "  g()\n"
        "  assert(push('b') == 0)\n"
        "  make()\n"
        "  assert(pop() == 'b')\n"
        "  make()\n"
        "  assert(pop() == 'a')\n"
        "  make()\n"
        "end\n"
        "for i = 1, 100 do f() end\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[region] a"), 400);
    CHECK_EQ(made_below(profile, "[region] a/[region] b"), 100);
    CHECK_EQ(made_below(profile, "[region] a/f"), 500);
    CHECK_EQ(made_below(profile, "[region] a/g"), 100);
    CHECK_EQ(made_outside(profile), 200);
    tideP_reader_close(profile);
}

TEST(region_ends_with_its_activation)
{
    open_host("");
    run("local function f(fails)\n"
        "  push('a')\n"
        "  make()\n"
        "  if fails then error('x') end\n"
        "end\n"
        "for i = 1, 10 do f(false) make() end\n"
        "for i = 1, 10 do pcall(f, true) make() end\n"
        "for w in ('a b c d'):gmatch('%a') do\n"
        "  (w):gsub('.', function() make() push('c') make() end)\n"
        "end\n"
        "local t = {}\n"
        "('12345'):gsub('.', function(c) make() if c == '2' then push('d') end"
        " make() end)\n"
        "assert(pop() == 'error')\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[region] a"), 20);
    CHECK_EQ(made_below(profile, "[region] c"), 4);
    CHECK_EQ(made_below(profile, "[region] d"), 1);
    CHECK_EQ(made_outside(profile), 20 + 4 + 9);
    tideP_reader_close(profile);
}

TEST(region_of_a_coroutine_is_its_own)
{
    open_host("");
    run("local function body(name)\n"
        "  push(name)\n"
        "  for i = 1, 5 do make() coroutine.yield() end\n"
        "  assert(pop() == name)\n"
        "  make()\n"
        "end\n"
        "local a, b = coroutine.wrap(body), coroutine.wrap(body)\n"
        "push('main')\n"
        "a('a') b('b')\n"
        "make()\n"
        "assert(pop() == 'main')\n"
        "for i = 1, 5 do a() make() b() end\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[region] main"), 1);
    CHECK_EQ(made_below(profile, "[region] main/[region] a"), 1);
    CHECK_EQ(made_below(profile, "[region] a"), 5);
    CHECK_EQ(made_below(profile, "[region] b"), 5);
    CHECK_EQ(made_outside(profile), 5 + 2);
    tideP_reader_close(profile);
}

static const char outlasting[] = "function f()\n"
                                 "  push('a') push('b')\n"
                                 "  reset()\n"
                                 "  make()\n"
                                 "  stop()\n"
                                 "  make()\n"
                                 "  push('c')\n"
                                 "  start()\n"
                                 "  make()\n"
                                 "  assert(pop() == 'c')\n"
                                 "  make()\n"
                                 "  assert(pop() == 'b') assert(pop() == 'a')\n"
                                 "  assert(pop() == 'error')\n"
                                 "  make()\n"
                                 "end\n";

TEST(region_outlasts_reset_and_a_stop)
{
    open_host("");
    run(outlasting);
    run("f() f()\n"
        /* a kept region must not come back for a later call */
        "local function g(pushes) if pushes then push('g') end reset() end\n"
        "g(true)\n"
        "local function h() reset() make() end\n"
        "h()\n");
    struct tide_profile *profile = close_host();
    /* the last reset leaves one string, made in h */
    CHECK_EQ(made_below(profile, "[region] g"), 0);
    CHECK_EQ(made_outside(profile), 1);
    tideP_reader_close(profile);
    open_host("");
    run(outlasting);
    run("f()\n");
    profile = close_host();
    CHECK_EQ(made_below(profile, "[region] a/[region] b"), 2);
    CHECK_EQ(made_below(profile, "[region] b/[region] c"), 1);
    CHECK_EQ(made_outside(profile), 1);
    tideP_reader_close(profile);
}

TEST(region_may_begin_and_end_while_nothing_is_recorded)
{
    open_host("");
    run("local function ends() push('ended') end\n"
        "local function f()\n"
        "  push('a')\n"
        "  stop()\n"
        "  ends() ends()\n"
        "  push('b') push('c')\n"
        "  assert(pop() == 'c')\n"
        "  assert(pop() == 'b')\n"
        "  assert(pop() == 'a')\n"
        "  assert(pop() == 'error')\n"
        "  push('d') push('e')\n"
        "  local co = coroutine.wrap(function()\n"
        "    push('co')\n"
        "    coroutine.yield()\n"
        "    make()\n"
        "    assert(pop() == 'co')\n"
        "    make()\n"
        "  end)\n"
        "  co()\n"
        "  start()\n"
        "  make()\n"
        "  co()\n"
        "  assert(pop() == 'e')\n"
        "  make()\n"
        "  assert(pop() == 'd')\n"
        "  local function g() make() end\n"
        "  g()\n"
        "end\n"
        "f()\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[region] d/[region] e"), 2);
    CHECK_EQ(made_below(profile, "[region] e/[region] co"), 1);
    CHECK_EQ(made_below(profile, "[region] d"), 1);
    CHECK_EQ(made_below(profile, "[region] ended"), 0);
    CHECK_EQ(made_outside(profile), 1);
    tideP_reader_close(profile);
}

/* The profile of this process, parent or child, and what it made since. */
static void check_forked(bool is_child)
{
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(find_target(view, TIDE_P_TARGET_FUNCTION, "late", "f") != NULL);
    CHECK_EQ(made_below(profile, "[region] a/[region] b"), is_child ? 2 : 1);
    CHECK_EQ(made_below(profile, "[region] a"), is_child ? 1 : 0);
    CHECK_EQ(made_outside(profile), 0);
    tideP_reader_close(profile);
}

TEST(region_goes_on_in_a_forked_child)
{
    int status = -1;
    open_host("");
    run("function f() end\n"
        "child = nil\n"
        "local function g()\n"
        "  push('a') push('b')\n"
        "  make()\n"
        "  child = fork()\n"
        "  if child == 0 then make() make() end\n"
        "  assert(pop() == 'b')\n"
        "  if child == 0 then make() end\n"
        "  assert(pop() == 'a')\n"
        "end\n"
        "g()\n");
    lua_getglobal(g_host.L, "f");
    CHECK_EQ(tide_target(g_host.heap, g_host.L, -1, "late", "f"), TIDE_OK);
    lua_getglobal(g_host.L, "child");
    const pid_t child = (pid_t)lua_tointeger(g_host.L, -1);
    lua_settop(g_host.L, 0);
    check_forked(child == 0);
    if (child == 0)
        _exit(0);
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
}

TEST(region_in_a_finalizer_is_the_finalizer_s)
{
    open_host("");
    run("local function f()\n"
        "  setmetatable({}, {__gc = function() push('gc') make() pop() make()"
        " end})\n"
        "  collectgarbage()\n"
        "  make()\n"
        "end\n"
        "push('outer') f() pop()\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[finalizer]/[region] gc"), 1);
    CHECK_EQ(made_below(profile, "[finalizer]"), 1);
    CHECK_EQ(made_below(profile, "[region] outer"), 1);
    tideP_reader_close(profile);
}

TEST(region_in_recursion_does_not_grow_the_tree)
{
    open_host("");
    run("local function f(n) push('a') make() if n > 0 then f(n - 1) end"
        " pop() end\n"
        "f(180)\n");
    struct tide_profile *profile = close_host();
    CHECK_EQ(made_below(profile, "[region] a"), 181);
    CHECK(tideP_reader_heap(profile, 0)->n_nodes < 200);
    tideP_reader_close(profile);
}

/* Bytes below the function of this name that no other one of `names` owns. */
static uint64_t owned_by(const struct tide_p_view *view,
                         const char *const *names, const char *name)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i < view->n_cells; i++) {
        uint32_t node = view->cells[i].node;
        const char *owner = NULL;
        for (; node != 0 && owner == NULL; node = view->nodes[node].parent) {
            const struct tide_p_func *f = &view->funcs[view->nodes[node].func];
            const char *text = tideP_view_string(view, f->name, NULL);
            for (size_t k = 0; names[k] != NULL; k++)
                if (strcmp(text, names[k]) == 0)
                    owner = names[k];
        }
        if (owner != NULL && strcmp(owner, name) == 0 &&
            view->cells[i].alloc_bytes >= STRING_BYTES)
            sum += view->cells[i].alloc_bytes / STRING_BYTES;
    }
    return sum;
}

/* A, f, B, f, A, f: the innermost f is called by A, and so are its bytes. */
TEST(target_owns_what_is_made_in_turns_with_another)
{
    const char *const names[] = {"A", "B", NULL};
    open_host("");
    run("local n = 0\n"
        "function f(deep) if deep == 1 then make() return end"
        " if deep % 2 == 0 then A(deep - 1) else B(deep - 1) end end\n"
        "function A(deep) f(deep) return 1 end\n"
        "function B(deep) f(deep) return 1 end\n");
    lua_State *L = g_host.L;
    lua_getglobal(L, "A");
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "A"), TIDE_OK);
    lua_getglobal(L, "B");
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "B"), TIDE_OK);
    lua_settop(L, 0);
    run("A(1) A(2) A(3) A(5) A(100) A(99) B(1) B(1)\n");
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK_EQ(owned_by(view, names, "A"), 6);
    CHECK_EQ(owned_by(view, names, "B"), 2);
    CHECK(view->n_nodes < 120);
    tideP_reader_close(profile);
}

TEST(region_needs_an_activation)
{
    open_host("");
    const char *name = NULL;
    CHECK_EQ(tide_region_push(g_host.heap, g_host.L, 0, "x"), TIDE_ERR_STATE);
    CHECK_EQ(tide_region_pop(g_host.heap, g_host.L, 0, &name), TIDE_ERR_STATE);
    lua_State *co = lua_newthread(g_host.L);
    CHECK_EQ(tide_region_push(g_host.heap, co, 0, "x"), TIDE_ERR_STATE);
    tideP_reader_close(close_host());
}

/* ---- groups ---- */

TEST(target_names_functions_of_lua_and_c)
{
    open_host("");
    lua_State *L = g_host.L;
    run("function f() return {} end\nf()");
    lua_getglobal(L, "f");
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "f"), TIDE_OK);
    lua_getglobal(L, "print");
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "print"), TIDE_OK);
    CHECK_EQ(tide_target(g_host.heap, L, -1, "h", "print it"), TIDE_OK);
    lua_pushinteger(L, 1);
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "x"), TIDE_ERR_ARG);
    CHECK_EQ(lua_gettop(L), 3);
    CHECK_EQ(tide_target_group(g_host.heap, "empty"), TIDE_OK);
    CHECK_EQ(tide_target_group(g_host.heap, "empty"), TIDE_OK);
    CHECK_EQ(tide_untarget(g_host.heap, L, 1), TIDE_OK);
    CHECK_EQ(tide_untarget(g_host.heap, L, 1), TIDE_ERR_STATE);
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_target *t =
        find_target(view, TIDE_P_TARGET_FUNCTION, "g", "f");
    CHECK(t != NULL && t->is_off);
    CHECK_EQ(view->funcs[t->func].linedefined, 1);
    t = find_target(view, TIDE_P_TARGET_FUNCTION, "h", "print it");
    CHECK(t != NULL && !t->is_off);
    CHECK_STR(tideP_view_string(view, view->funcs[t->func].name, NULL),
              "print");
    CHECK(find_target(view, TIDE_P_TARGET_FUNCTION, "g", "print") == NULL);
    CHECK(find_target(view, TIDE_P_TARGET_GROUP, "empty", "") != NULL);
    tideP_reader_close(profile);
}

TEST(target_groups_are_taken_back_and_given_again)
{
    open_host("");
    lua_State *L = g_host.L;
    lua_getglobal(L, "print");
    CHECK_EQ(tide_untarget_group(g_host.heap, "g"), TIDE_ERR_STATE);
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "p"), TIDE_OK);
    CHECK_EQ(tide_target_rule(g_host.heap, "g", "*.lua", NULL, "on_*"),
             TIDE_OK);
    CHECK_EQ(tide_target_rule(g_host.heap, "g", NULL, NULL, NULL),
             TIDE_ERR_ARG);
    CHECK_EQ(tide_untarget_group(g_host.heap, "g"), TIDE_OK);
    CHECK_EQ(tide_untarget_group(g_host.heap, "g"), TIDE_ERR_STATE);
    CHECK_EQ(tide_target(g_host.heap, L, -1, "g", "p"), TIDE_OK);
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    CHECK(!find_target(view, TIDE_P_TARGET_FUNCTION, "g", "p")->is_off);
    CHECK(find_target(view, TIDE_P_TARGET_RULE, "g", "on_*")->is_off);
    tideP_reader_close(profile);
}

TEST(target_rules_come_from_a_file)
{
    char options[512];
    const char *path = scratch_path("targets.txt");
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("ai source=*/ai/*.lua\nnet module=socket* function=on_*\n", file);
    CHECK_EQ(fclose(file), 0);
    snprintf(options, sizeof options, ",targets=%s", path);
    open_host(options);
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_target *t =
        find_target(view, TIDE_P_TARGET_RULE, "ai", "");
    CHECK(t != NULL);
    CHECK_STR(tideP_view_string(view, t->source, NULL), "*/ai/*.lua");
    t = find_target(view, TIDE_P_TARGET_RULE, "net", "on_*");
    CHECK(t != NULL);
    CHECK_STR(tideP_view_string(view, t->module, NULL), "socket*");
    tideP_reader_close(profile);
}

TEST(target_modules_are_known_by_require)
{
    open_host("");
    run("package.preload['my.module'] = load('return {{}}', '@my/module.lua')\n"
        "require 'my.module'\n"
        /* its stack grows before it has made anything */
        "local names = {}\n"
        "for i = 1, 190 do names[i] = 'n' .. i end\n"
        "package.preload['wide'] = load('local ' .. table.concat(names, ',')\n"
        "  .. ' = 1 return {{}}', '@wide.lua')\n"
        "coroutine.wrap(function() require 'wide' end)()\n"
        "load('return {{}}', '@other.lua')()\n");
    struct tide_profile *profile = close_host();
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct tide_p_target *t =
        find_target(view, TIDE_P_TARGET_MODULE, "my.module", "");
    CHECK(t != NULL);
    CHECK_STR(tideP_view_string(view, view->funcs[t->func].source, NULL),
              "@my/module.lua");
    CHECK(find_target(view, TIDE_P_TARGET_MODULE, "wide", "") != NULL);
    unsigned n = 0;
    for (uint32_t i = 0; i < view->n_targets; i++)
        n += view->funcs[view->targets[i].func].what == TIDE_P_MAIN;
    CHECK_EQ(n, 2);
    tideP_reader_close(profile);
}
