/*
** many.c: hosts that do more with Lua than run a file: many MODE.
**
**   limit    an allocator of its own, with a limit, found again through
**            lua_getallocf, as servers do that account for memory
**   swap     replaces the allocator of a state in mid-life by one that calls
**            the one before it, as players do that meter memory
**   states   many states one after the other, some at the same address, some
**            never closed
**   threads  states on several OS threads, and one that two threads share
**            under a lock
**   resume   coroutines resumed from C, by different threads of the state
**   fork     a state that parent and child both go on with
**
** Each prints what must be the same under the profiler, and ends with "fine".
** A check that does not hold ends the program with a message and status 1.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_STATES 50

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "many: not so: %s\n", what);
    exit(1);
}

static void run(lua_State *L, const char *name, const char *text)
{
    if (luaL_loadbuffer(L, text, strlen(text), name) == LUA_OK &&
        lua_pcall(L, 0, 0, 0) == LUA_OK)
        return;
    fprintf(stderr, "many: %s\n", lua_tostring(L, -1));
    exit(1);
}

/* 1000 tables with one slot each: 72,000 bytes at line 2 of the chunk. */
static const char thousand[] = "kept = {}\n"
                               "for i = 1, 1000 do kept[i] = {i} end\n";

struct account {
    size_t held_bytes;
    size_t limit_bytes;
    size_t n_calls;
};

static void *limited_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct account *account = ud;
    const size_t old_bytes = ptr != NULL ? osize : 0;
    account->n_calls++;
    if (nsize > old_bytes &&
        account->held_bytes + nsize - old_bytes > account->limit_bytes)
        return NULL;
    account->held_bytes += nsize - old_bytes;
    if (nsize == 0) {
        free(ptr);
        return NULL;
    }
    return realloc(ptr, nsize);
}

static void host_limit(void)
{
    struct account account = {0, 1 << 20, 0};
    void *ud = NULL;
    lua_State *L = lua_newstate(limited_alloc, &account);
    must(L != NULL, "a state under a limit");
    must(lua_getallocf(L, &ud) == limited_alloc && ud == &account,
         "the host finds its own allocator");
    luaL_openlibs(L);
    run(L, "=limit", thousand);
    must(account.held_bytes > 72000, "the host's account has the tables");
    const size_t counted =
        (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
    must(account.held_bytes == counted, "the account is Lua's own count");
    must(luaL_dostring(L, "local t = {} for i = 1, 1e9 do t[i] = {i} end") !=
             LUA_OK,
         "the limit limits");
    printf("%s\n", lua_tostring(L, -1));
    lua_close(L);
    must(account.held_bytes == 0, "everything came back");
}

/* What a meter remembers of the allocator before it. */
struct meter {
    lua_Alloc inner;
    void *inner_ud;
    size_t n_calls;
};

static void *metered_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct meter *meter = ud;
    meter->n_calls++;
    return meter->inner(meter->inner_ud, ptr, osize, nsize);
}

static void host_swap(void)
{
    struct meter meter = {NULL, NULL, 0};
    void *ud;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    meter.inner = lua_getallocf(L, &meter.inner_ud);
    lua_setallocf(L, metered_alloc, &meter);
    must(lua_getallocf(L, &ud) == metered_alloc && ud == &meter,
         "the host reads back what it set");
    run(L, "=swap", thousand);
    must(meter.n_calls >= 2000, "the meter sees every call");
    lua_setallocf(L, meter.inner, meter.inner_ud);
    const size_t n_calls = meter.n_calls;
    run(L, "=swap", thousand);
    must(meter.n_calls == n_calls, "the meter is off");
    lua_close(L);
}

static void host_states(void)
{
    for (int i = 0; i < N_STATES; i++) {
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        run(L, "=states", thousand);
        if (i % 10 != 0)
            lua_close(L);
    }
}

struct shared {
    pthread_mutex_t lock;
    lua_State *L;
};

static void *run_alone(void *arg)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    for (int i = 0; i < 20; i++)
        run(L, "=threads", thousand);
    lua_close(L);
    return arg;
}

static void *run_shared(void *arg)
{
    struct shared *shared = arg;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&shared->lock);
        run(shared->L, "=shared", "n = (n or 0) + #{n}\nkept = {n, {n}}\n");
        pthread_mutex_unlock(&shared->lock);
    }
    return arg;
}

static void host_threads(void)
{
    struct shared shared = {PTHREAD_MUTEX_INITIALIZER, luaL_newstate()};
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        must(pthread_create(&threads[i], NULL, i < 4 ? run_alone : run_shared,
                            &shared) == 0,
             "a thread");
    for (int i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    lua_getglobal(shared.L, "n");
    printf("%d\n", (int)lua_tointeger(shared.L, -1));
    lua_close(shared.L);
}

static const char tasks[] = "function task(n)\n"
                            "  local kept = {}\n"
                            "  for i = 1, n do\n"
                            "    kept[i] = {i}\n"
                            "    coroutine.yield(#kept)\n"
                            "  end\n"
                            "  return n\n"
                            "end\n";

static int start(lua_State *L, lua_State *co)
{
    int n_results;
    lua_getglobal(L, "task");
    lua_xmove(L, co, 1);
    lua_pushinteger(co, 100);
    return lua_resume(co, L, 1, &n_results);
}

static void host_resume(void)
{
    lua_State *L = luaL_newstate(), *co[3];
    int n_results, n_alive = 3, n_turns = 0;
    luaL_openlibs(L);
    run(L, "=resume", tasks);
    for (int i = 0; i < 3; i++) {
        co[i] = lua_newthread(L);
        must(start(L, co[i]) == LUA_YIELD, "a task yields");
    }
    while (n_alive > 0) {
        for (int i = 0; i < 3; i++) {
            if (lua_status(co[i]) != LUA_YIELD)
                continue;
            lua_settop(co[i], 0);
            n_alive -=
                lua_resume(co[i], i % 2 ? L : NULL, 0, &n_results) == LUA_OK;
            n_turns++;
        }
    }
    printf("%d\n", n_turns);
    lua_close(L);
}

static void host_fork(void)
{
    int status;
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    run(L, "=before", thousand);
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        run(L, "=child", "more = {}\nfor i = 1, 500 do more[i] = {i} end\n");
        run(L, "=child", "kept = nil collectgarbage()\n");
        lua_close(L);
        exit(3);
    }
    must(waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
             WEXITSTATUS(status) == 3,
         "the child ends well");
    run(L, "=parent", "more = {}\nfor i = 1, 200 do more[i] = {i} end\n");
    lua_close(L);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(void);
    } modes[] = {
        {"limit", host_limit},   {"swap", host_swap},
        {"states", host_states}, {"threads", host_threads},
        {"resume", host_resume}, {"fork", host_fork},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (argc == 2 && strcmp(argv[1], modes[i].name) == 0) {
            modes[i].fn();
            puts("fine");
            return 0;
        }
    }
    fprintf(stderr, "usage: many MODE\n");
    return 2;
}
