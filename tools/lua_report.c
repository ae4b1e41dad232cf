/*
** lua_report.c: reports made in the profiled process.
**
** They are made as everywhere else: from a copy of the profile in the folder
** for temporary files, which is gone before anything else happens.  Memory for
** it is malloc's, not Lua's.
*/
#include "lua_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../report/page.h"
#include "../report/render.h"

/* A file of our own for a copy of the profile; false: errno says why. */
static bool make_temporary(char *path, size_t path_bytes)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] != '/')
        folder = "/tmp";
    const int n = snprintf(path, path_bytes, "%s/tidemark.XXXXXX", folder);
    if (n < 0 || (size_t)n >= path_bytes) {
        errno = ENAMETOOLONG;
        return false;
    }
    const int fd = mkstemp(path);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The name of a file as a pattern that stands for it. */
static void quote_pattern(const char *path, char *out, size_t out_bytes)
{
    size_t n = 0;
    for (; *path != '\0' && n + 3 < out_bytes; path++) {
        if (*path == '%')
            out[n++] = '%';
        out[n++] = *path;
    }
    out[n] = '\0';
}

struct tide_model *tideL_open_now(lua_State *L, struct tide_session *session)
{
    char path[TIDE_OPT_PATH_MAX];
    char pattern[TIDE_OPT_PATH_MAX];
    struct tide_p_problem problem;
    struct tide_model *model = NULL;
    if (!make_temporary(path, sizeof path)) {
        tideL_failure(L, strerror(errno));
        return NULL;
    }
    quote_pattern(path, pattern, sizeof pattern);
    const enum tide_err err = tide_session_save(session, pattern);
    if (err != TIDE_OK)
        tideL_failure(L, tideL_why(err));
    else if (tideR_model_open(path, &model, &problem) != TIDE_OK)
        tideL_failure(L, problem.text);
    unlink(path);
    return model;
}

/* ---- report ---- */

/* What is asked for. */
struct request {
    const char *format;
    enum tide_r_by by;
    struct tide_r_query query;
    unsigned columns;
    bool has_top;
};

/* Fields of the table at `arg`, where there is one. */
static void read_request(lua_State *L, int arg, struct request *request)
{
    const int type = g_api.lua_type(L, arg);
    char why[128];
    if (type == LUA_TNIL || type == LUA_TNONE)
        return;
    if (type != LUA_TTABLE)
        g_api.luaL_typeerror(L, arg, "table");
    if (tideL_take_field(L, arg, "by", LUA_TSTRING) &&
        tideR_by_parse(g_api.lua_tolstring(L, -1, NULL), &request->by) !=
            TIDE_OK)
        g_api.luaL_argerror(L, arg, "'by' is no kind of rows");
    if (tideL_take_field(L, arg, "sort", LUA_TSTRING) &&
        tideR_sort_parse(g_api.lua_tolstring(L, -1, NULL),
                         &request->query.sort) != TIDE_OK)
        g_api.luaL_argerror(L, arg, "'sort' is no key");
    if (tideL_take_field(L, arg, "columns", LUA_TNUMBER))
        request->columns = (unsigned)g_api.lua_tointegerx(L, -1, NULL);
    if (tideL_take_field(L, arg, "top", LUA_TNUMBER)) {
        const lua_Integer top = g_api.lua_tointegerx(L, -1, NULL);
        if (top < 0 || top > INT32_MAX)
            g_api.luaL_argerror(L, arg, "'top' is out of range");
        request->query.top = (uint32_t)top;
        request->has_top = true;
    }
    if (tideL_take_field(L, arg, "filter", LUA_TSTRING) &&
        tideR_query_filter(&request->query, g_api.lua_tolstring(L, -1, NULL),
                           why, sizeof why) != TIDE_OK)
        g_api.luaL_argerror(L, arg, why);
}

static enum tide_err write_page(const struct tide_model *model, FILE *out)
{
    struct tide_diff diff;
    const struct tide_r_page_look look = {
        .texts = {NULL, tideR_srctext_open("", model->header->start_unix_ns)},
        .has_sources = true,
        .path = "",
    };
    enum tide_err err = tideR_diff_open(NULL, model, &look.texts, &diff);
    if (err == TIDE_OK)
        err = tideR_html(&diff, &look, out);
    tideR_diff_close(&diff);
    tideR_srctext_close(look.texts.now_or_null);
    return err;
}

static enum tide_err write_report(const struct tide_model *model,
                                  struct request *request, FILE *out)
{
    const struct tide_r_look look = {
        .columns = request->columns,
        .is_brief = true,
        .path = "",
        .command = "tidemark",
    };
    if (strcmp(request->format, "json") == 0)
        return tideR_json(model, &request->query, out);
    if (strcmp(request->format, "html") == 0)
        return write_page(model, out);
    if (!request->has_top)
        request->query.top = request->by == TIDE_R_BY_STACK ? 60 : 20;
    return tideR_text(model, request->by, &request->query, &look, out);
}

/* Pushes the report; the model is closed. */
static int push_report(lua_State *L, struct tide_model *model,
                       struct request *request)
{
    char *text = NULL;
    size_t n = 0;
    FILE *file = open_memstream(&text, &n);
    enum tide_err err =
        file == NULL ? TIDE_ERR_NOMEM : write_report(model, request, file);
    if (file != NULL && fclose(file) != 0 && err == TIDE_OK)
        err = TIDE_ERR_NOMEM;
    tideR_model_close(model);
    if (err == TIDE_OK)
        g_api.lua_pushlstring(L, text, n);
    free(text);
    return err == TIDE_OK ? 1 : tideL_outcome(L, err);
}

/*
** report([format [, options]]): a string; the format is "text", "json" or
** "html".
*/
int tideL_report(lua_State *L)
{
    struct request request = {.format =
                                  g_api.luaL_optlstring(L, 1, "text", NULL)};
    const bool is_html = strcmp(request.format, "html") == 0;
    if (!is_html && strcmp(request.format, "text") != 0 &&
        strcmp(request.format, "json") != 0)
        return g_api.luaL_argerror(L, 1, "text, json or html expected");
    g_api.lua_settop(L, 2);
    struct tide_session *session = tideL_session_or_failure(L);
    if (session == NULL)
        return 2;
    if (is_html && !tideR_html_is_built())
        return tideL_failure(L, "not built in: building the page needs npm");
    read_request(L, 2, &request);
    struct tide_model *model = tideL_open_now(L, session);
    const int n = model == NULL ? 2 : push_report(L, model, &request);
    tideR_query_close(&request.query);
    return n;
}

TIDE_API const struct tideL_reports *
tidemark_reports(const struct tideL_api *api);

const struct tideL_reports *tidemark_reports(const struct tideL_api *api)
{
    static const struct tideL_reports reports = {tideL_report, tideL_stop};
    g_api = *api;
    return &reports;
}
