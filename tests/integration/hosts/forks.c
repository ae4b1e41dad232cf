/*
** forks.c: a host for tests that becomes several processes in every way there
** is.  usage: forks MODE
**
** Every process makes 56-byte tables under a chunk name that says what it is;
** the children begin only when the parent has gone on ("parent") for a while,
** so that its profile has moved on since the fork.
*/
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lauxlib.h>
#include <lualib.h>

#define N_THREADS      3
#define N_THREAD_FORKS 40
#define N_RACES        60

static int gate[2]; /* children wait until its writing end is closed */

static void must(int is_ok, const char *what)
{
    if (is_ok)
        return;
    fprintf(stderr, "forks: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Makes n tables that stay, on line 2. */
static void make(lua_State *L, const char *chunk, int n)
{
    char code[256];
    snprintf(code, sizeof code,
             "local t = {}; kept = kept or {}; kept[#kept + 1] = t\n"
             "for i = 1, %d do t[i] = {} end\n",
             n);
    must(luaL_loadbuffer(L, code, strlen(code), chunk) == LUA_OK &&
             lua_pcall(L, 0, 0, 0) == LUA_OK,
         "running");
}

static void drop_all(lua_State *L)
{
    must(luaL_dostring(L, "kept = nil; collectgarbage()") == LUA_OK, "freeing");
}

static lua_State *start(void)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    make(L, "=before", 1000);
    must(pipe(gate) == 0, "pipe");
    fflush(NULL);
    return L;
}

/* In the child: until the parent has gone on. */
static void wait_at_gate(void)
{
    char c;
    close(gate[1]);
    must(read(gate[0], &c, 1) == 0, "waiting");
}

/* New lines, so that the parent's tables of the profile grow. */
static void go_on(lua_State *L)
{
    char chunk[32];
    for (int i = 0; i < 50; i++) {
        snprintf(chunk, sizeof chunk, "=parent%d", i);
        make(L, chunk, 100);
    }
    drop_all(L);
    close(gate[1]);
}

static void end(lua_State *L, pid_t child, int wanted)
{
    int status = 0;
    if (child > 0)
        must(waitpid(child, &status, 0) == child && status == wanted,
             "the child's end");
    lua_close(L);
}

static void child_works(lua_State *L)
{
    wait_at_gate();
    make(L, "=child", 300);
}

static void mode_frees(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        wait_at_gate();
        drop_all(L);
        make(L, "=child", 300);
        lua_close(L);
        exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

static void mode_workers(lua_State *L)
{
    pid_t pids[3];
    for (int i = 0; i < 3; i++) {
        pids[i] = fork();
        if (pids[i] != 0)
            continue;
        child_works(L);
        const pid_t pid = fork();
        if (pid == 0) {
            make(L, "=grandchild", 70);
            exit(0);
        }
        make(L, "=after", 20);
        end(L, pid, 0);
        exit(0);
    }
    go_on(L);
    for (int i = 0; i < 3; i++)
        waitpid(pids[i], NULL, 0);
    end(L, 0, 0);
}

static void mode_killed(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        child_works(L);
        raise(SIGKILL);
    }
    go_on(L);
    end(L, pid, SIGKILL);
}

static void mode_quits(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        child_works(L);
        _exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

static void mode_closes(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        wait_at_gate();
        for (int fd = 0; fd < 1024; fd++)
            close(fd);
        make(L, "=child", 300);
        _exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

/* The state is used by the daemon only; its name for the profile is relative */
static void mode_daemon(lua_State *L)
{
    int life[2]; /* the daemon's: its end is seen here, it is nobody's child */
    char c;
    must(pipe(life) == 0, "pipe");
    const pid_t pid = fork();
    if (pid == 0) {
        if (fork() != 0)
            _exit(0);
        setsid();
        must(chdir("/") == 0, "chdir");
        child_works(L);
        kill(getpid(), SIGTERM);
    }
    waitpid(pid, NULL, 0);
    close(gate[0]);
    close(life[1]);
    go_on(L);
    must(read(life[0], &c, 1) == 0, "the daemon's end");
    end(L, 0, 0);
}

static void mode_chroot(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        must(mkdir("jail", 0755) == 0 && chroot("jail") == 0 && chdir("/") == 0,
             "chroot");
        child_works(L);
        _exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

static void mode_user(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        must(setgroups(0, NULL) == 0 && setgid(65534) == 0 &&
                 setuid(65534) == 0,
             "setuid");
        child_works(L);
        _exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

static void mode_idle(lua_State *L)
{
    for (int i = 0; i < 20; i++) {
        const pid_t pid = fork();
        if (pid == 0)
            exit(0);
        waitpid(pid, NULL, 0);
    }
    go_on(L);
    end(L, 0, 0);
}

/* A child that leaves its parent's state alone and has one of its own. */
static void mode_own(lua_State *L)
{
    const pid_t pid = fork();
    if (pid == 0) {
        wait_at_gate();
        lua_State *own = luaL_newstate();
        make(own, "=child", 300);
        lua_close(own);
        exit(0);
    }
    go_on(L);
    end(L, pid, 0);
}

/* The same process as another program. */
static void mode_again(lua_State *L)
{
    make(L, "=first", 100);
    execl("/proc/self/exe", "forks", "second", (char *)NULL);
    must(0, "exec");
}

static void mode_second(lua_State *L)
{
    make(L, "=second", 200);
    lua_close(L);
}

/* New lines in the parent and in its children at the same time. */
static void mode_race(lua_State *L)
{
    pid_t pids[N_RACES];
    char chunk[32];
    for (int i = 0; i < N_RACES; i++) {
        pids[i] = fork();
        must(pids[i] >= 0, "fork");
        if (pids[i] == 0) {
            for (volatile int n = 0; n < i * 4000; n++)
                ;
            make(L, "=child", 300);
            exit(0);
        }
        for (int k = 0; k < 20; k++) {
            snprintf(chunk, sizeof chunk, "=parent%d.%d", i, k);
            make(L, chunk, 1);
        }
    }
    for (int i = 0; i < N_RACES; i++) {
        int status;
        must(waitpid(pids[i], &status, 0) == pids[i] && status == 0, "child");
    }
    lua_close(L);
}

static atomic_bool is_over;

/* States come and go. */
static void *make_states(void *unused)
{
    (void)unused;
    while (!is_over) {
        lua_State *L = luaL_newstate();
        luaL_openlibs(L);
        make(L, "=first", 300);
        lua_close(L);
    }
    return NULL;
}

/* Children of a process whose other threads are in the midst of anything. */
static void mode_threads(lua_State *L)
{
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        must(pthread_create(&threads[i], NULL, make_states, NULL) == 0,
             "thread");
    for (int i = 0; i < N_THREAD_FORKS; i++) {
        const pid_t pid = fork();
        must(pid >= 0, "fork");
        if (pid == 0) {
            make(L, "=child", 300);
            exit(0);
        }
        int status;
        must(waitpid(pid, &status, 0) == pid && status == 0, "child");
    }
    is_over = true;
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    lua_close(L);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*fn)(lua_State *L);
    } modes[] = {
        {"frees", mode_frees},   {"workers", mode_workers},
        {"killed", mode_killed}, {"quits", mode_quits},
        {"closes", mode_closes}, {"daemon", mode_daemon},
        {"chroot", mode_chroot}, {"user", mode_user},
        {"idle", mode_idle},     {"own", mode_own},
        {"again", mode_again},   {"second", mode_second},
        {"race", mode_race},     {"threads", mode_threads},
    };
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (argc == 2 && strcmp(argv[1], modes[i].name) == 0) {
            modes[i].fn(start());
            puts("fine");
            return 0;
        }
    }
    fprintf(stderr, "usage: forks MODE\n");
    return 2;
}
