/*
** scheduler.c: a host that runs coroutines from C, as servers do.
**
**     scheduler SCRIPT
**
** The script defines tasks by calling spawn(fn), and a task gives way by
** coroutine.yield().  The host resumes them in turn until all have ended.
**
** Lua's allocator is never told which coroutine runs, nor who resumed it.
** tidemark finds out the first by itself; the second it learns from
** tide_resume_begin and tide_resume_end around lua_resume.  The stacks of a
** task then hang below whoever resumed it, here the host; without the two
** calls each task is a root of its own, and every byte is still counted.
*/
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <tidemark.h>

#define MAX_TASKS 256

struct scheduler {
    struct tide_session *session;
    lua_State *tasks[MAX_TASKS]; /* in the order of their turns */
    int anchors[MAX_TASKS];      /* references that keep the tasks alive */
    int n_tasks;
};

/* spawn(fn): adds a task.  The scheduler is the function's upvalue. */
static int spawn(lua_State *L)
{
    struct scheduler *s = lua_touserdata(L, lua_upvalueindex(1));
    luaL_checktype(L, 1, LUA_TFUNCTION);
    if (s->n_tasks == MAX_TASKS)
        return luaL_error(L, "more than %d tasks", MAX_TASKS);
    lua_State *task = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, task, 1);
    s->tasks[s->n_tasks] = task;
    s->anchors[s->n_tasks] = luaL_ref(L, LUA_REGISTRYINDEX);
    s->n_tasks++;
    return 0;
}

/* One turn of a task: LUA_OK when it has ended, LUA_YIELD when it has not. */
static int take_turn(struct scheduler *s, lua_State *L, lua_State *task)
{
    int n_results;
    tide_resume_begin(s->session, task, L);
    const int status = lua_resume(task, L, 0, &n_results);
    tide_resume_end(s->session, task);
    if (status == LUA_OK || status == LUA_YIELD)
        lua_pop(task, n_results);
    else
        fprintf(stderr, "scheduler: %s\n", lua_tostring(task, -1));
    return status;
}

static void forget_task(struct scheduler *s, lua_State *L, int i)
{
    luaL_unref(L, LUA_REGISTRYINDEX, s->anchors[i]);
    s->n_tasks--;
    s->tasks[i] = s->tasks[s->n_tasks];
    s->anchors[i] = s->anchors[s->n_tasks];
}

/* Runs all tasks to their ends; returns how many ended with an error. */
static int run_tasks(struct scheduler *s, lua_State *L)
{
    int n_failed = 0;
    while (s->n_tasks > 0) {
        for (int i = 0; i < s->n_tasks;) {
            const int status = take_turn(s, L, s->tasks[i]);
            if (status == LUA_YIELD) {
                i++;
                continue;
            }
            n_failed += status != LUA_OK;
            forget_task(s, L, i);
        }
    }
    return n_failed;
}

static int run_script(struct scheduler *s, lua_State *L, const char *path)
{
    luaL_openlibs(L);
    lua_pushlightuserdata(L, s);
    lua_pushcclosure(L, spawn, 1);
    lua_setglobal(L, "spawn");
    if (luaL_dofile(L, path) != LUA_OK) {
        fprintf(stderr, "scheduler: %s\n", lua_tostring(L, -1));
        return 1;
    }
    return run_tasks(s, L) != 0;
}

int main(int argc, char **argv)
{
    struct scheduler s = {0};
    struct tide_heap *heap;
    if (argc != 2) {
        fprintf(stderr, "usage: scheduler SCRIPT\n");
        return 2;
    }
    if (tide_session_open("out=scheduler.%p.tide", NULL, NULL, &s.session) !=
        TIDE_OK)
        return 1;
    /* The short way: a heap and a state in one call. */
    lua_State *L = tide_newstate(s.session, &heap);
    int status = 1;
    if (L != NULL) {
        status = run_script(&s, L, argv[1]);
        tide_heap_closing(heap);
        lua_close(L);
        tide_heap_close(heap);
        printf("profile %s\n", tide_session_path(s.session));
    }
    tide_session_close(s.session);
    return status;
}
