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
    const char *path;               /* of the profile */
    struct tide_p_control *control; /* for a test that commands it */
};

/* more  options, each with a comma before it */
static inline void open_session(struct host *host, const char *more)
{
    char options[512];
    host->path = scratch_path("host.tide");
    snprintf(options, sizeof options, "out=%s%s", host->path, more);
    CHECK_EQ(tide_session_open(options, NULL, NULL, &host->session), TIDE_OK);
}

static inline void open_host(struct host *host, const char *more)
{
    open_session(host, more);
    host->L = tide_newstate(host->session, &host->heap);
    CHECK(host->L != NULL);
    luaL_openlibs(host->L);
}

static inline void run(struct host *host, const char *text)
{
    if (luaL_dostring(host->L, text) != LUA_OK)
        tap_fail(__FILE__, __LINE__, "%s", lua_tostring(host->L, -1));
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
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    return profile;
}

#endif
