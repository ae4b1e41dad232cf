/*
** agent_lua.c: the Lua libraries of the process and their functions.
**
** A caller of an interposed function means the Lua that it would have reached
** without us: the next definition in the global scope, and when there is none
** (a plugin that was opened RTLD_LOCAL brought its own liblua) what the
** calling object's own dependencies define, at last any liblua5.4 that is
** loaded.  All functions of one library are taken from the same object, so
** that two copies of Lua in a process are never mixed.  Nothing here is linked
** against Lua.
*/
#include "agent.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define LUA_SYMBOL_VERSION "LUA_5.4"

/* What object_at hands to its callback. */
struct object_query {
    uintptr_t address;
    struct tideG_range range;
    const char *path;
    bool was_found;
};

static struct tideG_range range_of(const struct dl_phdr_info *info)
{
    struct tideG_range range = {UINTPTR_MAX, 0};
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
        if (phdr->p_type != PT_LOAD)
            continue;
        const uintptr_t lo = info->dlpi_addr + phdr->p_vaddr;
        const uintptr_t hi = lo + phdr->p_memsz;
        range.lo = lo < range.lo ? lo : range.lo;
        range.hi = hi > range.hi ? hi : range.hi;
    }
    return range;
}

static int match_address(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    struct object_query *query = ctx;
    (void)bytes;
    const struct tideG_range range = range_of(info);
    if (!tideG_range_has(&range, query->address))
        return 0;
    query->range = range;
    query->path = info->dlpi_name;
    query->was_found = true;
    return 1;
}

bool tideG_object_at(uintptr_t address, struct tideG_range *range,
                     const char **path_or_null)
{
    struct object_query query = {.address = address};
    dl_iterate_phdr(match_address, &query);
    if (!query.was_found)
        return false;
    *range = query.range;
    if (path_or_null != NULL)
        *path_or_null = query.path;
    return true;
}

/* An address in libc, and whether this library came first. */
struct order_query {
    uintptr_t libc;
    bool is_before_libc;
};

static int find_order(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    struct order_query *query = ctx;
    (void)bytes;
    const struct tideG_range range = range_of(info);
    query->is_before_libc = range.lo == g_agent.own.lo;
    return query->is_before_libc || tideG_range_has(&range, query->libc);
}

bool tideG_is_loaded_at_start(void)
{
    struct order_query query = {
        .libc = (uintptr_t)dlsym(RTLD_NEXT, "__libc_start_main")};
    dl_iterate_phdr(find_order, &query);
    return query.is_before_libc;
}

/* The name of the executable is "" in the list of objects. */
static void *open_loaded(const char *path)
{
    const bool is_program = path[0] == '\0';
    /* Pinned: cached addresses must stay good when a plugin is unloaded. */
    return dlopen(is_program ? NULL : path,
                  RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Our own definitions do not count. */
static void *not_ours(void *found)
{
    return tideG_range_has(&g_agent.own, (uintptr_t)found) ? NULL : found;
}

static void *find_versioned(void *handle, const char *name)
{
    return not_ours(dlvsym(handle, name, LUA_SYMBOL_VERSION));
}

static void *find_any(void *handle, const char *name)
{
    void *found = find_versioned(handle, name);
    return found != NULL ? found : not_ours(dlsym(handle, name));
}

/* A function of this very library. */
static void *find_in(const struct tideG_lua *lua, const char *name)
{
    void *found = find_any(lua->handle, name);
    return tideG_range_has(&lua->range, (uintptr_t)found) ? found : NULL;
}

static void *open_object_of(uintptr_t caller)
{
    struct tideG_range range;
    const char *path;
    return tideG_object_at(caller, &range, &path) ? open_loaded(path) : NULL;
}

static int match_liblua(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    const char **path = ctx;
    (void)bytes;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *base = slash != NULL ? slash + 1 : info->dlpi_name;
    if (strncmp(base, "liblua5.4", 9) != 0 &&
        strncmp(base, "liblua-5.4", 10) != 0 &&
        strncmp(base, "liblua.so.5.4", 13) != 0)
        return 0;
    *path = info->dlpi_name;
    return 1;
}

static void *find_in_liblua(const char *name)
{
    const char *path = NULL;
    dl_iterate_phdr(match_liblua, &path);
    void *handle = path != NULL ? open_loaded(path) : NULL;
    return handle != NULL ? find_any(handle, name) : NULL;
}

static struct tideG_lua *known_lua_at(uintptr_t address)
{
    const unsigned n = TIDE_OBSERVE(&g_agent.n_luas);
    for (unsigned i = 0; i < n; i++)
        if (tideG_range_has(&g_agent.luas[i].range, address))
            return &g_agent.luas[i];
    return NULL;
}

static void find_functions(struct tideG_lua *lua)
{
    lua->newstate = (tideG_newstate_fn)find_in(lua, "lua_newstate");
    lua->L_newstate = (tideG_L_newstate_fn)find_in(lua, "luaL_newstate");
    lua->close = (tideG_close_fn)find_in(lua, "lua_close");
    lua->resume = (tideG_resume_fn)find_in(lua, "lua_resume");
    lua->gc = (tideG_gc_fn)find_in(lua, "lua_gc");
    lua->getallocf = (tideG_getallocf_fn)find_in(lua, "lua_getallocf");
    lua->setallocf = (tideG_setallocf_fn)find_in(lua, "lua_setallocf");
    lua->version = (tideG_version_fn)find_in(lua, "lua_version");
}

/* Notes the library that holds a function; under the lock. */
static struct tideG_lua *add_lua(void *function)
{
    struct tideG_lua *known = known_lua_at((uintptr_t)function);
    if (known != NULL || g_agent.n_luas == TIDEG_LUAS_MAX)
        return known;
    struct tideG_lua *lua = &g_agent.luas[g_agent.n_luas];
    const char *path;
    memset(lua, 0, sizeof *lua);
    if (!tideG_object_at((uintptr_t)function, &lua->range, &path))
        return NULL;
    lua->is_program = path[0] == '\0';
    lua->handle = open_loaded(path);
    if (lua->handle == NULL)
        return NULL;
    find_functions(lua);
    TIDE_PUBLISH(&g_agent.n_luas, g_agent.n_luas + 1);
    return lua;
}

/* Under the lock. */
static void note_caller(uintptr_t caller, struct tideG_lua *lua)
{
    struct tideG_range range;
    if (g_agent.n_callers == TIDEG_CALLERS_MAX ||
        !tideG_object_at(caller, &range, NULL))
        return;
    g_agent.callers[g_agent.n_callers].range = range;
    g_agent.callers[g_agent.n_callers].lua = lua;
    TIDE_PUBLISH(&g_agent.n_callers, g_agent.n_callers + 1);
}

static struct tideG_lua *known_lua_of_caller(uintptr_t caller)
{
    const unsigned n = TIDE_OBSERVE(&g_agent.n_callers);
    for (unsigned i = 0; i < n; i++)
        if (tideG_range_has(&g_agent.callers[i].range, caller))
            return g_agent.callers[i].lua;
    return NULL;
}

/*
** Under the lock.  A definition of another version in the global scope (Lua
** 5.3 beside a plugin with 5.4) comes after what the caller brought itself, as
** it does for the linker.
*/
static struct tideG_lua *search_lua(uintptr_t caller)
{
    static const char name[] = "lua_newstate";
    void *function = find_versioned(RTLD_NEXT, name);
    if (function != NULL) {
        struct tideG_lua *lua = add_lua(function);
        TIDE_PUBLISH(&g_agent.global, lua);
        return lua;
    }
    void *handle = open_object_of(caller);
    if (handle != NULL)
        function = find_versioned(handle, name);
    if (function == NULL)
        function = not_ours(dlsym(RTLD_NEXT, name));
    if (function == NULL && handle != NULL)
        function = not_ours(dlsym(handle, name));
    if (function == NULL)
        function = find_in_liblua(name);
    struct tideG_lua *lua = function != NULL ? add_lua(function) : NULL;
    if (lua != NULL)
        note_caller(caller, lua);
    return lua;
}

struct tideG_lua *tideG_lua_for(uintptr_t caller)
{
    struct tideG_lua *lua = known_lua_at(caller);
    if (lua == NULL)
        lua = TIDE_OBSERVE(&g_agent.global);
    if (lua == NULL)
        lua = known_lua_of_caller(caller);
    if (lua != NULL)
        return lua;
    tideG_lock();
    lua = search_lua(caller);
    tideG_unlock();
    return lua;
}

/*
** True for a function that the executable itself defines.  Where it only takes
** the address of a library's function, its symbol is undefined and names a
** jump to the library.
*/
static bool is_defined_by_program(void *function)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    struct tideG_range range;
    const char *path;
    return function != NULL &&
           tideG_object_at((uintptr_t)function, &range, &path) &&
           path[0] == '\0' &&
           dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) != 0 &&
           symbol != NULL && symbol->st_shndx != SHN_UNDEF &&
           ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
           info.dli_saddr == function;
}

struct tideG_lua *tideG_lua_at(void *function)
{
    if (not_ours(function) == NULL)
        return NULL;
    tideG_lock();
    struct tideG_lua *lua = add_lua(function);
    tideG_unlock();
    return lua;
}

struct tideG_lua *tideG_lua_of_program(void)
{
    void *function = find_any(RTLD_DEFAULT, "lua_newstate");
    if (!is_defined_by_program(function))
        return NULL;
    struct tideG_lua *lua = tideG_lua_at(function);
    TIDE_PUBLISH(&g_agent.global, lua);
    return lua;
}

struct tideG_lua *tideG_lua_loaded(void)
{
    void *function = find_versioned(RTLD_NEXT, "lua_newstate");
    if (function == NULL)
        function = find_in_liblua("lua_newstate");
    if (function == NULL)
        function = not_ours(dlsym(RTLD_NEXT, "lua_newstate"));
    return function != NULL ? tideG_lua_at(function) : NULL;
}

static void *plain_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    (void)ud;
    (void)osize;
    if (nsize > 0)
        return realloc(ptr, nsize);
    free(ptr);
    return NULL;
}

/*
** LuaJIT and Lua 5.1 to 5.3 lack these, and their lua_version, where there is
** one, returns another type: so the names come first, then the call.
*/
static bool has_names_of_54(const struct tideG_lua *lua)
{
    return lua->newstate != NULL && lua->close != NULL && lua->resume != NULL &&
           lua->gc != NULL && lua->getallocf != NULL &&
           lua->setallocf != NULL && lua->version != NULL &&
           find_in(lua, "lua_newuserdatauv") != NULL &&
           find_in(lua, "lua_setwarnf") != NULL;
}

/* Under the lock, bypassed.  False: no memory, try again. */
static bool check_state(struct tideG_lua *lua)
{
    const bool has_aux = lua->L_newstate != NULL;
    struct lua_State *L =
        has_aux ? lua->L_newstate() : lua->newstate(plain_alloc, NULL, 0);
    if (L == NULL)
        return false;
    lua->is_54 = (int)lua->version(L) == 504;
    lua->std_alloc = has_aux ? lua->getallocf(L, NULL) : NULL;
    lua->close(L);
    return true;
}

bool tideG_lua_check(struct tideG_lua *lua)
{
    if (TIDE_OBSERVE(&lua->is_checked))
        return lua->is_54;
    tideG_lock();
    tideG_bypass_begin();
    if (!lua->is_checked) {
        const bool is_known = !has_names_of_54(lua) || check_state(lua);
        TIDE_PUBLISH(&lua->is_checked, is_known);
    }
    tideG_bypass_end();
    tideG_unlock();
    return lua->is_54;
}

/* The functions that run a chunk in a state. */
struct runner {
    void (*openlibs)(struct lua_State *L);
    int (*loadstring)(struct lua_State *L, const char *text);
    int (*pcallk)(struct lua_State *L, int n_args, int n_results, int handler,
                  intptr_t ctx, void *k);
};

static void resume_both_ways(struct tideG_lua *lua)
{
    const struct runner runner = {
        .openlibs = (void (*)(struct lua_State *))find_in(lua, "luaL_openlibs"),
        .loadstring = (int (*)(struct lua_State *, const char *))find_in(
            lua, "luaL_loadstring"),
        .pcallk = (int (*)(struct lua_State *, int, int, int, intptr_t,
                           void *))find_in(lua, "lua_pcallk"),
    };
    if (runner.openlibs == NULL || runner.loadstring == NULL ||
        runner.pcallk == NULL || lua->L_newstate == NULL)
        return;
    struct lua_State *L = lua->L_newstate();
    if (L == NULL)
        return;
    runner.openlibs(L);
    if (runner.loadstring(L, "local c = coroutine\n"
                             "c.wrap(function() end)()\n"
                             "c.resume(c.create(function() end))") == 0)
        runner.pcallk(L, 0, 0, 0, 0, NULL);
    lua->close(L);
}

void tideG_lua_learn(struct tideG_lua *lua)
{
    tideG_lock();
    tideG_bypass_begin();
    g_agent.is_learning = true;
    resume_both_ways(lua);
    g_agent.is_learning = false;
    tideG_bypass_end();
    tideG_unlock();
}

void *tideG_lua_lookup(void *ctx, const char *name)
{
    struct tideG_lua *lua = ctx;
    const struct {
        const char *name;
        void *function;
    } taken[] = {
        {"lua_newstate", (void *)lua->newstate},
        {"lua_close", (void *)lua->close},
        {"lua_resume", (void *)lua->resume},
        {"lua_gc", (void *)lua->gc},
        {"lua_getallocf", (void *)lua->getallocf},
        {"lua_setallocf", (void *)lua->setallocf},
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(name, taken[i].name) == 0)
            return taken[i].function;
    return find_in(lua, name);
}
