/*
** states.c: allocations by many lua_States in turn, for the benchmark's curves.
**
** usage: states N_STATES N_ALLOCATIONS
**
** Prints how many allocations were made and the CPU seconds that they took, as
** the scripts in curves/ do.
*/
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#define ROUND 1000 /* tables with one slot that a state makes in its turn */

static const char work[] = "return function(n) local t\n"
                           "for i = 1, n do t = {i} end\n"
                           "end";

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *why)
{
    fprintf(stderr, "tidemark: states: %s\n", why);
    exit(1);
}

static lua_State *new_state(void)
{
    lua_State *L = luaL_newstate();

    if (L == NULL)
        fail("no memory");
    if (luaL_loadstring(L, work) != LUA_OK || lua_pcall(L, 0, 1, 0) != LUA_OK)
        fail(lua_tostring(L, -1));
    return L;
}

/* Each state makes its tables, one after the other. */
static void run_round(lua_State **states, long n)
{
    for (long i = 0; i < n; i++) {
        lua_pushvalue(states[i], -1);
        lua_pushinteger(states[i], ROUND);
        if (lua_pcall(states[i], 1, 0, 0) != LUA_OK)
            fail(lua_tostring(states[i], -1));
    }
}

int main(int argc, char **argv)
{
    const long n = argc == 3 ? atol(argv[1]) : 0;
    const long count = argc == 3 ? atol(argv[2]) : 0;

    if (n < 1 || count < 1) {
        fputs("usage: states N_STATES N_ALLOCATIONS\n", stderr);
        return 2;
    }
    lua_State **states = calloc((size_t)n, sizeof(*states));
    if (states == NULL)
        fail("no memory");
    for (long i = 0; i < n; i++)
        states[i] = new_state();
    run_round(states, n);
    const long rounds = 1 + count / (n * ROUND * 2);
    const double start = cpu_seconds();
    for (long i = 0; i < rounds; i++)
        run_round(states, n);
    printf("%ld\t%f\n", rounds * n * ROUND * 2, cpu_seconds() - start);
    for (long i = 0; i < n; i++)
        lua_close(states[i]);
    free(states);
    return 0;
}
