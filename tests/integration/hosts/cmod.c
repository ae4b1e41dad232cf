/*
** cmod.c: a C module whose functions each ask Lua for a known number of bytes:
** a string of n bytes that is long takes n + 25.
**
** The functions between Lua and the allocator are static, so that they have
** names only in the symbol table or in debug information.
*/
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

/* The work after a call keeps it from becoming a jump. */
static volatile int g_sink;
static volatile char g_letter = 'a';

/* A string of n bytes, unlike the one before. */
static APART void push_text(lua_State *L, size_t n)
{
    char text[8192];
    memset(text, g_letter++, n);
    text[0] = (char)g_sink;
    lua_pushlstring(L, text, n);
    g_sink++;
}

static APART void deep_a(lua_State *L)
{
    push_text(L, 1000);
    g_sink++;
}

static APART void deep_b(lua_State *L)
{
    deep_a(L);
    push_text(L, 2000);
    g_sink++;
}

static int f_deep(lua_State *L)
{
    deep_b(L);
    push_text(L, 500);
    return 0;
}

/* ---- a function that is left by a jump ---- */

static APART int tail_target(lua_State *L)
{
    push_text(L, 3000);
    return 0;
}

static int f_tail(lua_State *L)
{
    return tail_target(L);
}

/* ---- C that calls Lua, which calls C ---- */

static APART void call_back(lua_State *L)
{
    lua_pushvalue(L, 1);
    lua_call(L, 0, 0);
    push_text(L, 700);
    g_sink++;
}

static int f_call(lua_State *L)
{
    call_back(L);
    return 0;
}

/* ---- errors that leave C frames ---- */

static APART void throw_deeper(lua_State *L)
{
    push_text(L, 4000);
    lua_error(L);
    g_sink++;
}

static APART void throw_deep(lua_State *L)
{
    throw_deeper(L);
    g_sink++;
}

static int f_throw(lua_State *L)
{
    throw_deep(L);
    return 0;
}

/* ---- C that Lua calls without a frame for it ---- */

static APART const char *read_piece(lua_State *L, void *ud, size_t *n)
{
    int *n_left = ud;
    if ((*n_left)-- == 0)
        return NULL;
    push_text(L, 600);
    lua_pop(L, 1);
    *n = 9;
    return "return 1 ";
}

static APART void load_pieces(lua_State *L)
{
    int n_left = 1;
    lua_load(L, read_piece, &n_left, "=pieces", "t");
    g_sink++;
}

static int f_load(lua_State *L)
{
    load_pieces(L);
    return 0;
}

/* ---- recursion ---- */

static APART void even(lua_State *L, int n);

static APART void odd(lua_State *L, int n)
{
    if (n > 0)
        even(L, n - 1);
    g_sink++;
}

static APART void even(lua_State *L, int n)
{
    if (n == 0)
        push_text(L, 900);
    else
        odd(L, n - 1);
    g_sink++;
}

static int f_recurse(lua_State *L)
{
    even(L, 2 * (int)luaL_checkinteger(L, 1));
    return 0;
}

/* ---- signals ---- */

static lua_State *g_signal_state;

static APART void on_signal(int number)
{
    (void)number;
    push_text(g_signal_state, 800);
    g_sink++;
}

static int f_signal(lua_State *L)
{
    struct sigaction action = {.sa_handler = on_signal};
    luaL_checkstack(L, 10, NULL);
    g_signal_state = L;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    g_sink++;
    return 0;
}

/* ---- forks ---- */

static int f_fork(lua_State *L)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid > 0) {
        waitpid(pid, &status, 0);
        deep_a(L);
    } else {
        deep_b(L);
    }
    lua_pushboolean(L, pid > 0);
    lua_pushinteger(L, status);
    return 2;
}

/* ---- a library that comes and goes ---- */

static int f_plugin(lua_State *L)
{
    void (*work)(lua_State *);
    void *library = dlopen(luaL_checkstring(L, 1), RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return luaL_error(L, "%s", dlerror());
    void *symbol = dlsym(library, "plugin_work");
    memcpy(&work, &symbol, sizeof symbol);
    work(L);
    lua_pushlightuserdata(L, symbol);
    dlclose(library);
    return 1;
}

/* ---- a C function that is left by a yield, and its continuation ---- */

static APART void call_made(lua_State *L)
{
    lua_pushvalue(L, 2);
    lua_call(L, 0, 0);
    g_sink++;
}

static APART int go_on(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    push_text(L, 650);
    call_made(L);
    return 0;
}

static APART int call_yielding(lua_State *L)
{
    lua_pushvalue(L, 1);
    lua_callk(L, 0, 0, 0, go_on);
    g_sink++; /* not reached: it yields */
    return 0;
}

/* callk(a function that yields, one that allocates) */
static int f_callk(lua_State *L)
{
    g_sink += call_yielding(L);
    return 0;
}

/* ---- any path that a script asks for ---- */

#define WALK_LEVELS 12

static const char *g_script;
static lua_Integer g_nested; /* walks that are below the present one */

typedef void (*walk_fn)(lua_State *);
static walk_fn const g_walk[WALK_LEVELS + 2][3];

/* Pushes callbacks[what], or callbacks[what .. how deeply nested we are]. */
static void push_callback(lua_State *L, int what)
{
    if (lua_rawgeti(L, 1, what) == LUA_TFUNCTION)
        return;
    lua_pop(L, 1);
    lua_rawgeti(L, 1, what + 256 * (g_nested + 1));
}

/* A thread of C's own calls back. */
static APART void resume_walk(lua_State *L)
{
    int n;
    lua_State *co = lua_newthread(L);
    push_callback(L, 'R');
    lua_xmove(L, co, 1);
    if (lua_resume(co, L, 0, &n) != LUA_OK)
        lua_error(L);
    lua_pop(L, 1);
    g_sink++;
}

/*
** Each character is done by the function of a level: 0, 1 and 2 call one of
** the next level, p makes a string, R resumes a coroutine, e throws, r returns,
** and others call back: what is called may walk on itself.
*/
static inline __attribute__((always_inline)) void walk(lua_State *L, int level)
{
    for (char what = *g_script++; what != 'r'; what = *g_script++) {
        if (what == 'p') {
            push_text(L, 1000);
            lua_pop(L, 1);
        } else if (what == 'R') {
            resume_walk(L);
        } else if (what == 'e') {
            lua_pushnil(L);
            lua_error(L);
        } else if (what >= '0' && what <= '2') {
            g_walk[level + 1][what - '0'](L);
        } else {
            push_callback(L, what);
            lua_call(L, 0, 0);
        }
        g_sink++;
    }
}

/*
** Those of side 1 have a frame whose size is not known before; those of side 2
** have that of side 0, so that a path may stand where another one stood.
*/
#define WALK(level)                                                            \
 static APART void walk_##level##_0(lua_State *L)                              \
 {                                                                             \
  walk(L, level);                                                              \
 }                                                                             \
 static APART void walk_##level##_2(lua_State *L)                              \
 {                                                                             \
  walk(L, level);                                                              \
  g_sink += 2;                                                                 \
 }                                                                             \
 static APART void walk_##level##_1(lua_State *L)                              \
 {                                                                             \
  volatile char *room = __builtin_alloca(64u + (size_t)(g_sink & 0xff0));      \
  room[0] = 1;                                                                 \
  walk(L, level);                                                              \
  g_sink += room[0];                                                           \
 }
WALK(1)
WALK(2)
WALK(3)
WALK(4)
WALK(5)
WALK(6)
WALK(7)
WALK(8)
WALK(9)
WALK(10)
WALK(11)
WALK(12)

static walk_fn const g_walk[WALK_LEVELS + 2][3] = {
    {NULL, NULL},
    {walk_1_0, walk_1_1, walk_1_2},
    {walk_2_0, walk_2_1, walk_2_2},
    {walk_3_0, walk_3_1, walk_3_2},
    {walk_4_0, walk_4_1, walk_4_2},
    {walk_5_0, walk_5_1, walk_5_2},
    {walk_6_0, walk_6_1, walk_6_2},
    {walk_7_0, walk_7_1, walk_7_2},
    {walk_8_0, walk_8_1, walk_8_2},
    {walk_9_0, walk_9_1, walk_9_2},
    {walk_10_0, walk_10_1, walk_10_2},
    {walk_11_0, walk_11_1, walk_11_2},
    {walk_12_0, walk_12_1, walk_12_2},
};

/*
** walk_on(callbacks, depth): what a walk has called walks itself, up to its own
** r, `depth` walks deep.
*/
static int f_walk_on(lua_State *L)
{
    const lua_Integer nested = luaL_checkinteger(L, 2);
    luaL_checkstack(L, 50, NULL);
    g_nested = nested;
    walk(L, 0);
    g_nested = nested - 1;
    return 0;
}

/* nested(depth): a walk has ended by an error that was caught. */
static int f_nested(lua_State *L)
{
    g_nested = luaL_checkinteger(L, 1);
    return 0;
}

/* walk(callbacks, script) */
static int f_walk(lua_State *L)
{
    g_script = luaL_checkstring(L, 2);
    g_nested = 0;
    luaL_checkstack(L, 50, NULL);
    walk(L, 0);
    return 0;
}

__attribute__((visibility("default"))) int luaopen_cmod(lua_State *L);

int luaopen_cmod(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"deep", f_deep},     {"tail", f_tail},       {"call", f_call},
        {"throw", f_throw},   {"load", f_load},       {"recurse", f_recurse},
        {"signal", f_signal}, {"fork", f_fork},       {"plugin", f_plugin},
        {"walk", f_walk},     {"walk_on", f_walk_on}, {"nested", f_nested},
        {"callk", f_callk},   {NULL, NULL},
    };
    luaL_newlib(L, functions);
    return 1;
}
