/*
** lua_load.c: report and stop, which need what makes reports.
**
** That stands in an object of its own beside this one, tidemark_report.so, and
** is loaded when it is asked for: a program that only counts does not get the
** libraries that reports need.
*/
#include "lua_api.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OBJECT "tidemark_report.so"

/* Where this object is, whatever the working folder becomes. */
static char g_folder[PATH_MAX];

void tideL_note_folder(void)
{
    Dl_info info;
    if (dladdr(g_folder, &info) == 0 ||
        realpath(info.dli_fname, g_folder) == NULL)
        g_folder[0] = '\0';
    char *slash = strrchr(g_folder, '/');
    if (slash != NULL)
        *slash = '\0';
}

/* NULL: why is pushed. */
static const struct tideL_reports *load_reports(lua_State *L)
{
    char path[sizeof g_folder + sizeof OBJECT + 1];
    snprintf(path, sizeof path, "%s/%s", g_folder, OBJECT);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    tideL_reports_fn open_reports = NULL;
    if (handle != NULL)
        open_reports = (tideL_reports_fn)dlsym(handle, TIDE_REPORTS_SYMBOL);
    if (open_reports != NULL)
        return open_reports(&g_api);
    tideL_failure(L, dlerror());
    return NULL;
}

int tideL_mod_report(lua_State *L)
{
    const struct tideL_reports *reports = load_reports(L);
    if (reports == NULL)
        return 2;
    tideL_note_modules(L);
    return reports->report(L);
}

int tideL_mod_stop(lua_State *L)
{
    /* also where there is nothing that could make rows */
    struct tide_session *session = tideL_session();
    if (session != NULL)
        tide_session_stop(session);
    const struct tideL_reports *reports = load_reports(L);
    if (reports == NULL)
        return 2;
    tideL_note_modules(L);
    return reports->stop(L);
}
