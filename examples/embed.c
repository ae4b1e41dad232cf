/*
** embed.c: a program with Lua inside that profiles its scripts.
**
**     embed SCRIPT [ARG...]
**
** All that tidemark needs is the allocator: the state is made by
** lua_newstate with tide_alloc and a heap, where it was made with a function
** of the host's own before.  Nothing else in the program changes.  At the end
** it prints what the state has allocated, and the profile lies beside the
** script's output for `tidemark report`.
*/
#include <inttypes.h>
#include <stdio.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include <tidemark.h>

/* The figures, while the state is still whole. */
static void print_totals(const struct tide_heap *heap)
{
    struct tide_totals totals;
    tide_heap_totals(heap, &totals);
    printf("allocated %" PRIu64 " bytes in %" PRIu64 " blocks\n",
           totals.alloc_bytes, totals.alloc_blocks);
    printf("held      %" PRIu64 " bytes in %" PRIu64 " blocks\n",
           totals.live_bytes, totals.live_blocks);
    printf("peak      %" PRIu64 " bytes, %" PRIu64 " collection cycles\n",
           totals.peak_bytes, totals.gc_cycles);
}

/* Runs a script with the arguments behind it; 0 when it ended well. */
static int run_script(lua_State *L, int n_args, char **args)
{
    luaL_openlibs(L);
    int status = luaL_loadfile(L, args[0]);
    if (status == LUA_OK) {
        for (int i = 1; i < n_args; i++)
            lua_pushstring(L, args[i]);
        status = lua_pcall(L, n_args - 1, 0, 0);
    }
    if (status != LUA_OK)
        fprintf(stderr, "embed: %s\n", lua_tostring(L, -1));
    return status != LUA_OK;
}

/* One state from its beginning to its end, in a heap of its own. */
static int run_profiled(struct tide_session *session, int n_args, char **args)
{
    struct tide_heap *heap;
    const enum tide_err err = tide_heap_open(session, &heap);
    if (err != TIDE_OK) {
        fprintf(stderr, "embed: no heap: %s\n", tide_err_text(err));
        return 1;
    }
    lua_State *L = lua_newstate(tide_alloc, heap);
    int status = 1;
    if (L != NULL) {
        status = run_script(L, n_args, args);
        print_totals(heap);
        /* What is alive now is what the report calls live. */
        tide_heap_closing(heap);
        lua_close(L);
    }
    tide_heap_close(heap);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: embed SCRIPT [ARG...]\n");
        return 2;
    }
    struct tide_session *session;
    const enum tide_err err =
        tide_session_open("out=embed.%p.tide", NULL, NULL, &session);
    if (err != TIDE_OK) {
        fprintf(stderr, "embed: no session: %s\n", tide_err_text(err));
        return 1;
    }
    const int status = run_profiled(session, argc - 1, argv + 1);
    printf("profile   %s\n", tide_session_path(session));
    tide_session_close(session);
    return status;
}
