/*
** host.h: a test that is a host: a session, one state in it, its profile.
*/
#ifndef TIDE_TESTS_HOST_H
#define TIDE_TESTS_HOST_H

#include <stdio.h>

#include <lauxlib.h>
#include <lualib.h>

#include "../../include/tidemark.h"
#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"

struct host {
    struct tide_session *session;
    struct tide_heap *heap;
    lua_State *L;
    char options[512];
    const char *path;
};

/* name  of the profile, in the folder of the test */
static inline void open_host(struct host *host, const char *name)
{
    host->path = scratch_path(name);
    snprintf(host->options, sizeof host->options, "out=%s", host->path);
    CHECK_EQ(tide_session_open(host->options, NULL, NULL, &host->session),
             TIDE_OK);
    host->L = tide_newstate(host->session, &host->heap);
    CHECK(host->L != NULL);
    luaL_openlibs(host->L);
}

static inline void run(struct host *host, const char *text)
{
    CHECK_EQ(luaL_dostring(host->L, text), LUA_OK);
}

/* The profile, which is sound. */
static inline struct tide_profile *close_host(struct host *host)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    lua_close(host->L);
    tide_heap_close(host->heap);
    tide_session_close(host->session);
    CHECK_EQ(tideP_reader_open(host->path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    return profile;
}

#endif
