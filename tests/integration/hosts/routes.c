/*
** routes.c: ways into a program, and what must survive them: routes MODE ARG...
**
**   atexit        closes its state in a handler of exit
**   wrap METER    two memory meters, of two object files, one on the other;
**                 each finds what it has set, both are taken off again
**   box METER     memory through lua_getallocf, under a host's own allocator
**   two A B       two Lua libraries, each opened RTLD_LOCAL, in turns
**   reload P      a plugin with Lua that is closed and opened again
**   foreign       lua_newstate with an allocator of its own, several states
**   refuse        the same with one that refuses all
**   running       leaves while threads run Lua code
**   coming        leaves while threads make and close states
**   asleep        leaves while threads sleep that have run Lua code
**   clear         clears its environment before it makes a state
**   child         forks a child that leaves without using its copy
**   mdwe PROG...  forbids pages that are written and run, then runs PROG
** Each ends with "fine", or with status 1 where a check does not hold.
*/
#include <dlfcn.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "meter.h"

#ifndef PR_SET_MDWE
# define PR_SET_MDWE              65
# define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "routes: not so: %s\n", what);
    exit(1);
}

static void *find(void *handle, const char *name)
{
    void *found = handle != NULL ? dlsym(handle, name) : NULL;
    if (found == NULL)
        fprintf(stderr, "routes: %s\n", dlerror());
    must(found != NULL, name);
    return found;
}

static void run(lua_State *L, const char *name, const char *text)
{
    if (luaL_loadbuffer(L, text, strlen(text), name) == LUA_OK &&
        lua_pcall(L, 0, 0, 0) == LUA_OK)
        return;
    fprintf(stderr, "routes: %s\n", lua_tostring(L, -1));
    exit(1);
}

static const char thousand[] = "kept = {}\n"
                               "for i = 1, 1000 do kept[i] = {i} end\n";

static size_t counted_bytes(lua_State *L)
{
    return (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 +
           (size_t)lua_gc(L, LUA_GCCOUNTB);
}

/* -------------------------------------------------------------- atexit */

static lua_State *last_state;

static void close_last(void)
{
    lua_close(last_state);
}

static void mode_atexit(char **args)
{
    (void)args;
    last_state = luaL_newstate();
    luaL_openlibs(last_state);
    must(atexit(close_last) == 0, "a handler of exit");
    run(last_state, "=atexit", thousand);
}

/* ---------------------------------------------------------------- wrap */

static void mode_wrap(char **args)
{
    void *library = dlopen(args[0], RTLD_NOW | RTLD_LOCAL);
    void (*on)(lua_State *, struct meter *);
    void (*off)(lua_State *, struct meter *);
    int (*is_on)(lua_State *, struct meter *);
    struct meter own = {NULL, NULL, 0, 0};
    struct meter other = {NULL, NULL, 0, 0};
    void *ud;
    *(void **)&on = find(library, "meter_on");
    *(void **)&off = find(library, "meter_off");
    *(void **)&is_on = find(library, "meter_is_on");
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);

    own.inner = lua_getallocf(L, &own.inner_ud);
    lua_setallocf(L, meter_alloc, &own);
    on(L, &other);
    must(is_on(L, &other), "the other finds what it has set");
    run(L, "=wrap", thousand);
    must(own.n_calls >= 2000 && other.n_calls >= 2000, "both see all calls");
    must(own.held_bytes == other.held_bytes, "both see the same bytes");

    off(L, &other);
    must(lua_getallocf(L, &ud) == meter_alloc && ud == &own,
         "the first finds itself again");
    const size_t n_other = other.n_calls;
    run(L, "=wrap", thousand);
    must(own.n_calls >= 4000 && other.n_calls == n_other, "one sees all calls");

    lua_setallocf(L, own.inner, own.inner_ud);
    const size_t n_own = own.n_calls;
    run(L, "=wrap", thousand);
    must(own.n_calls == n_own, "none sees a call");
    lua_close(L);
}

/* ----------------------------------------------------------------- box */

static void mode_box(char **args)
{
    void *library = dlopen(args[0], RTLD_NOW | RTLD_LOCAL);
    void *(*get)(lua_State *, void *, size_t, size_t);
    struct meter own = {plain_alloc, NULL, 0, 0};
    void *ud;
    *(void **)&get = find(library, "meter_box");
    lua_State *L = lua_newstate(meter_alloc, &own);
    must(L != NULL, "a state");
    luaL_openlibs(L);
    char *box = get(L, NULL, 0, 5000);
    must(box != NULL, "a box");
    memset(box, 'x', 5000);
    run(L, "=box", thousand);
    must(own.held_bytes == counted_bytes(L) + 5000,
         "the account is Lua's own count and the box");
    box = get(L, box, 5000, 20000);
    must(box != NULL && box[4999] == 'x', "a box that grew");
    must(get(L, box, 20000, 0) == NULL, "the box is gone");
    /* luaL_Buffer takes and gives back boxes by itself. */
    run(L, "=box", "s = string.rep('long', 5000):upper()\n");
    must(lua_getallocf(L, &ud) == meter_alloc && ud == &own,
         "the host finds its own");
    lua_close(L);
    must(own.held_bytes == 0, "everything came back");
}

/* ----------------------------------------------------------------- two */

/* A Lua that no name in the program reaches. */
struct lua {
    lua_State *L;
    lua_State *(*newstate)(void);
    void (*openlibs)(lua_State *);
    int (*loadstring)(lua_State *, const char *);
    int (*pcallk)(lua_State *, int, int, int, lua_KContext, lua_KFunction);
    void (*close)(lua_State *);
};

static void open_lua(struct lua *lua, const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    *(void **)&lua->newstate = find(library, "luaL_newstate");
    *(void **)&lua->openlibs = find(library, "luaL_openlibs");
    *(void **)&lua->loadstring = find(library, "luaL_loadstring");
    *(void **)&lua->pcallk = find(library, "lua_pcallk");
    *(void **)&lua->close = find(library, "lua_close");
    lua->L = lua->newstate();
    must(lua->L != NULL, "a state of a library");
    lua->openlibs(lua->L);
}

static void mode_two(char **args)
{
    struct lua luas[2];
    for (int i = 0; i < 2; i++)
        open_lua(&luas[i], args[i]);
    must((void *)luas[0].newstate != (void *)luas[1].newstate,
         "they are two libraries");
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 2; i++) {
            struct lua *lua = &luas[i];
            must(lua->loadstring(lua->L, thousand) == LUA_OK &&
                     lua->pcallk(lua->L, 0, 0, 0, 0, NULL) == LUA_OK,
                 "a chunk of a library");
        }
    }
    for (int i = 0; i < 2; i++)
        luas[i].close(luas[i].L);
}

/* -------------------------------------------------------------- reload */

static void mode_reload(char **args)
{
    for (int i = 0; i < 3; i++) {
        void *plugin = dlopen(args[0], RTLD_NOW | RTLD_LOCAL);
        int (*plugin_run)(void);
        *(void **)&plugin_run = find(plugin, "plugin_run");
        must(plugin_run() == 0, "the plugin runs");
        dlclose(plugin);
    }
}

/* ------------------------------------------------------------- foreign */

static void *refusing_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)osize;
    ++*(int *)ud;
    must(ptr == NULL && nsize > 0, "nothing was given, so nothing comes back");
    return NULL;
}

static void mode_refuse(char **args)
{
    int n_refused = 0;
    (void)args;
    for (int i = 0; i < 3; i++)
        must(lua_newstate(refusing_alloc, &n_refused) == NULL && n_refused > i,
             "no state without memory");
}

static void mode_foreign(char **args)
{
    struct meter own = {plain_alloc, NULL, 0, 0};
    lua_State *states[4];
    (void)args;
    for (int i = 0; i < 4; i++) {
        states[i] = lua_newstate(meter_alloc, &own);
        must(states[i] != NULL, "a state");
        luaL_openlibs(states[i]);
        run(states[i], "=foreign", thousand);
    }
    for (int i = 0; i < 4; i++)
        lua_close(states[i]);
    must(own.held_bytes == 0, "everything came back");
}

/* ------------------------------------------------------------- running */

static void *run_on(void *arg)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    for (;;) {
        run(L, "=running", thousand);
        __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void mode_running(char **args)
{
    static int did_run[3];
    pthread_t thread;
    (void)args;
    for (int i = 0; i < 3; i++)
        must(pthread_create(&thread, NULL, run_on, &did_run[i]) == 0,
             "a thread");
    for (int i = 0; i < 3; i++)
        while (!__atomic_load_n(&did_run[i], __ATOMIC_ACQUIRE))
            usleep(1000);
}

/* -------------------------------------------------------------- coming */

static void *make_states(void *arg)
{
    for (;;) {
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        run(L, "=coming", "t = {} for i = 1, 100 do t[i] = {i} end\n");
        lua_close(L);
        __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void mode_coming(char **args)
{
    static int did_run[4];
    pthread_t thread;
    (void)args;
    for (int i = 0; i < 4; i++)
        must(pthread_create(&thread, NULL, make_states, &did_run[i]) == 0,
             "a thread");
    for (int i = 0; i < 4; i++)
        while (!__atomic_load_n(&did_run[i], __ATOMIC_ACQUIRE))
            usleep(1000);
}

/* -------------------------------------------------------------- asleep */

static void *run_and_sleep(void *arg)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    run(L, "=asleep", thousand);
    __atomic_store_n((pid_t *)arg, gettid(), __ATOMIC_RELEASE);
    for (;;)
        pause();
    return NULL;
}

/* All threads of the process but the first are asleep. */
static int are_asleep(const pid_t *tids, int n)
{
    for (int i = 0; i < n; i++) {
        char path[64], state = 'R';
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)tids[i]);
        FILE *file = fopen(path, "r");
        if (file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
            state = 'R';
        if (file != NULL)
            fclose(file);
        if (state != 'S')
            return 0;
    }
    return 1;
}

static void mode_asleep(char **args)
{
    static pid_t tids[3];
    pthread_t thread;
    (void)args;
    for (int i = 0; i < 3; i++) {
        must(pthread_create(&thread, NULL, run_and_sleep, &tids[i]) == 0,
             "a thread");
        while (!__atomic_load_n(&tids[i], __ATOMIC_ACQUIRE))
            usleep(1000);
    }
    while (!are_asleep(tids, 3))
        usleep(1000);
}

/* --------------------------------------------------------------- clear */

static void mode_clear(char **args)
{
    (void)args;
    must(clearenv() == 0 && getenv("TIDEMARK") == NULL, "no environment");
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    run(L, "=clear", thousand);
    lua_close(L);
}

/* --------------------------------------------------------------- child */

static void mode_child(char **args)
{
    int status;
    (void)args;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    run(L, "=child", thousand);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        exit(0);
    must(waitpid(pid, &status, 0) == pid && status == 0, "the child ends well");
    run(L, "=child", thousand);
    lua_close(L);
}

/* ---------------------------------------------------------------- mdwe */

static void mode_mdwe(char **args)
{
    if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        exit(77);
    execvp(args[0], args);
    must(0, "the program runs");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int n_args;
        void (*fn)(char **args);
    } modes[] = {
        {"atexit", 0, mode_atexit}, {"wrap", 1, mode_wrap},
        {"box", 1, mode_box},       {"two", 2, mode_two},
        {"reload", 1, mode_reload}, {"foreign", 0, mode_foreign},
        {"refuse", 0, mode_refuse}, {"running", 0, mode_running},
        {"child", 0, mode_child},   {"mdwe", 1, mode_mdwe},
        {"asleep", 0, mode_asleep}, {"clear", 0, mode_clear},
        {"coming", 0, mode_coming},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (argc >= 2 && argc - 2 >= modes[i].n_args &&
            strcmp(argv[1], modes[i].name) == 0) {
            modes[i].fn(argv + 2);
            puts("fine");
            return 0;
        }
    }
    fprintf(stderr, "usage: routes MODE [ARG...]\n");
    return 2;
}
