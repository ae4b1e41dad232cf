/*
** symbols.c: names of places in machine code, by elfutils' libdwfl.
**
** Each object of a profile is opened at the first question about it, alone and
** not where it was loaded: a question is the address less the bias that the
** profile has, which is the file's own address.  libdwfl knows where separate
** debug information is (.gnu_debuglink, .build-id, .gnu_debugdata).  A file
** counts only when its build id is the one that ran; without the file its debug
** information alone will do.
**
** Paths come from a profile, which may be anyone's: nothing but a regular file
** is opened.
*/
#include "symbols.h"

#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEBUG_FOLDER "/usr/lib/debug"
#define LOAD_AT      0x100000u /* any page; 0 would mean "choose one" */

enum object_state {
    OBJECT_FOUND = 0,
    OBJECT_MISSING, /* no such file here */
    OBJECT_OTHER,   /* another build than the one that ran */
    OBJECT_DAMAGED, /* no ELF file */
    OBJECT_BARE,    /* there, and has no name for a place that was asked for */
};

struct object {
    const struct tide_p_view *view; /* the first that has it */
    uint32_t index;                 /* there */
    Dwfl *dwfl;                     /* NULL: not FOUND */
    Dwfl_Module *module;
    uint64_t bias; /* of the module: added to the file's own addresses */
    enum object_state state;
};

struct tide_symbols {
    struct object *objects;
    size_t n_objects;
    char *demangled; /* the name given last */
    char *(*demangle)(const char *, char *, size_t *, int *); /* or NULL */
    char *debug_path;
    Dwfl_Callbacks callbacks;
};

/* ---- opening ---- */

/* C++ names are made readable by the C++ library, where there is one. */
static void find_demangler(struct tide_symbols *s)
{
    void *library = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, "__cxa_demangle");
    memcpy(&s->demangle, &symbol, sizeof symbol);
}

enum tide_err tideR_symbols_open(bool asks_servers, struct tide_symbols **out)
{
    struct tide_symbols *s = calloc(1, sizeof *s);
    if (s == NULL)
        return TIDE_ERR_NOMEM;
    s->callbacks = (Dwfl_Callbacks){
        .find_elf = dwfl_build_id_find_elf,
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .debuginfo_path = &s->debug_path,
    };
    if (!asks_servers)
        unsetenv("DEBUGINFOD_URLS"); /* libdwfl asks those that are named */
    find_demangler(s);
    *out = s;
    return TIDE_OK;
}

void tideR_symbols_close(struct tide_symbols *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_objects; i++)
        dwfl_end(s->objects[i].dwfl);
    free(s->objects);
    free(s->demangled);
    free(s);
}

/* ---- objects ---- */

static const struct tide_p_object *record_of(const struct object *o)
{
    return &o->view->objects[o->index];
}

static const char *path_of(const struct object *o)
{
    return tideP_view_string(o->view, record_of(o)->path, NULL);
}

static int open_regular(const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Gives the object the file; false: it is no ELF file. */
static bool load_file(struct tide_symbols *s, struct object *o,
                      const char *path, int fd)
{
    o->dwfl = dwfl_begin(&s->callbacks);
    if (o->dwfl == NULL) {
        close(fd);
        return false;
    }
    dwfl_report_begin(o->dwfl);
    o->module = dwfl_report_elf(o->dwfl, path, path, fd, LOAD_AT, true);
    if (o->module == NULL)
        close(fd); /* else it is the module's */
    dwfl_report_end(o->dwfl, NULL, NULL);
    GElf_Addr bias;
    if (o->module != NULL && dwfl_module_getelf(o->module, &bias) != NULL) {
        o->bias = bias;
        return true;
    }
    dwfl_end(o->dwfl);
    o->dwfl = NULL;
    return false;
}

/* Is the file that was loaded the one that ran? */
static bool is_same_build(const struct object *o)
{
    const struct tide_p_object *record = record_of(o);
    const unsigned char *id;
    GElf_Addr at;
    const int n = dwfl_module_build_id(o->module, &id, &at);
    if (record->build_id_bytes == 0 || n <= 0)
        return record->build_id_bytes == 0 && n <= 0;
    const size_t least =
        (size_t)n < record->build_id_bytes ? (size_t)n : record->build_id_bytes;
    return memcmp(id, record->build_id, least) == 0 &&
           (uint32_t)n >= record->build_id_bytes;
}

/* The path of separate debug information; false: the object has no build id. */
static bool debug_path_of(const struct object *o, char *out, size_t bytes)
{
    const struct tide_p_object *record = record_of(o);
    if (record->build_id_bytes < 2)
        return false;
    size_t n = (size_t)snprintf(out, bytes, DEBUG_FOLDER "/.build-id/%02x/",
                                record->build_id[0]);
    for (uint32_t i = 1; i < record->build_id_bytes && n + 8 < bytes; i++)
        n += (size_t)snprintf(out + n, bytes - n, "%02x", record->build_id[i]);
    snprintf(out + n, bytes - n, ".debug");
    return true;
}

/* One file, if it is the right one. */
static enum object_state try_file(struct tide_symbols *s, struct object *o,
                                  const char *path)
{
    const int fd = open_regular(path);
    if (fd < 0)
        return OBJECT_MISSING;
    if (!load_file(s, o, path, fd))
        return OBJECT_DAMAGED;
    if (is_same_build(o))
        return OBJECT_FOUND;
    dwfl_end(o->dwfl);
    o->dwfl = NULL;
    o->module = NULL;
    return OBJECT_OTHER;
}

static void load_object(struct tide_symbols *s, struct object *o)
{
    char path[256];
    o->state = try_file(s, o, path_of(o));
    if (o->state != OBJECT_FOUND && debug_path_of(o, path, sizeof path) &&
        try_file(s, o, path) == OBJECT_FOUND)
        o->state = OBJECT_FOUND;
}

static bool is_object(const struct object *o, const struct tide_p_view *view,
                      uint32_t index)
{
    const struct tide_p_object *a = record_of(o);
    const struct tide_p_object *b = &view->objects[index];
    return a->build_id_bytes == b->build_id_bytes &&
           memcmp(a->build_id, b->build_id, sizeof a->build_id) == 0 &&
           strcmp(path_of(o), tideP_view_string(view, b->path, NULL)) == 0;
}

/* The object of a record; NULL: no memory. */
static struct object *object_of(struct tide_symbols *s,
                                const struct tide_p_view *view, uint32_t index)
{
    for (size_t i = 0; i < s->n_objects; i++)
        if (is_object(&s->objects[i], view, index))
            return &s->objects[i];
    struct object *more =
        realloc(s->objects, (s->n_objects + 1) * sizeof *more);
    if (more == NULL)
        return NULL;
    s->objects = more;
    struct object *o = &more[s->n_objects++];
    *o = (struct object){.view = view, .index = index};
    load_object(s, o);
    return o;
}

/* ---- questions ---- */

/* A C++ name as people write it; else as it is. */
static const char *readable(struct tide_symbols *s, const char *name)
{
    if (s->demangle == NULL || strncmp(name, "_Z", 2) != 0)
        return name;
    int status = 0;
    free(s->demangled);
    s->demangled = s->demangle(name, NULL, NULL, &status);
    return s->demangled != NULL && status == 0 ? s->demangled : name;
}

/* The symbol that covers an address. */
static const char *symbol_at(const struct object *o, GElf_Addr at)
{
    GElf_Off offset;
    GElf_Sym symbol;
    const char *name =
        dwfl_module_addrinfo(o->module, at, &offset, &symbol, NULL, NULL, NULL);
    const bool is_inside = name != NULL && offset < symbol.st_size;
    return is_inside && name[0] != '\0' ? name : NULL;
}

static void find_line(const struct object *o, GElf_Addr at,
                      struct tide_r_symbol *out)
{
    int line = 0;
    Dwfl_Line *found = dwfl_module_getsrc(o->module, at);
    if (found == NULL)
        return;
    out->file = dwfl_lineinfo(found, NULL, &line, NULL, NULL, NULL);
    out->line = out->file != NULL && line > 0 ? (uint32_t)line : 0;
}

/* Lua's functions are called lua_, luaL_, luaV_ and the like. */
static bool is_name_of_lua(const char *name)
{
    if (strncmp(name, "lua", 3) != 0)
        return false;
    return name[3] == '_' ||
           (name[3] >= 'A' && name[3] <= 'Z' && name[4] == '_');
}

static bool is_source_of_lua(const char *file)
{
    static const char names[] =
        " lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump "
        "lfunc lgc linit liolib llex lmathlib lmem loadlib lobject lopcodes "
        "loslib lparser lstate lstring lstrlib ltable ltablib ltm lundump "
        "lutf8lib lvm lzio ";
    char name[16];
    const char *slash = strrchr(file, '/');
    const char *base = slash != NULL ? slash + 1 : file;
    const char *dot = strrchr(base, '.');
    if (dot == NULL || strcmp(dot, ".c") != 0 ||
        (size_t)(dot - base) + 3 > sizeof name)
        return false;
    snprintf(name, sizeof name, " %.*s ", (int)(dot - base), base);
    return strstr(names, name) != NULL;
}

void tideR_symbols_find(struct tide_symbols *s, const struct tide_p_view *view,
                        const struct tide_p_func *func,
                        struct tide_r_symbol *out)
{
    *out = (struct tide_r_symbol){0};
    if (func->object == 0 || func->object >= view->n_objects)
        return;
    const struct tide_p_object *record = &view->objects[func->object];
    /* a call returns behind itself, perhaps to the next line or function */
    const uint64_t at = func->address - (func->what == TIDE_P_NATIVE ? 1 : 0);
    out->is_vm = at - record->vm_start < record->vm_end - record->vm_start;
    struct object *o = object_of(s, view, func->object);
    if (o == NULL || o->dwfl == NULL)
        return;
    const GElf_Addr here = at - record->bias + o->bias;
    const char *name = symbol_at(o, here);
    if (name == NULL) {
        if (!out->is_vm)
            o->state = OBJECT_BARE;
        return;
    }
    find_line(o, here, out);
    if (record->vm_start != 0 && !out->is_vm)
        out->is_vm = is_name_of_lua(name) ||
                     (out->file != NULL && is_source_of_lua(out->file));
    out->name = readable(s, name);
}

bool tideR_symbols_missing(const struct tide_symbols *s, size_t *at, char *out,
                           size_t out_bytes)
{
    static const char *const why[] = {
        [OBJECT_FOUND] = "",
        [OBJECT_MISSING] = "not on this machine",
        [OBJECT_OTHER] = "not the build that ran",
        [OBJECT_DAMAGED] = "no file of code",
        [OBJECT_BARE] = "without symbols for all of it",
    };
    for (; *at < s->n_objects; ++*at) {
        const struct object *o = &s->objects[*at];
        if (o->state == OBJECT_FOUND)
            continue;
        const char *path = path_of(o);
        const char *slash = strrchr(path, '/');
        const char *name = slash != NULL ? slash + 1 : path;
        snprintf(out, out_bytes, "%.200s: %s", name[0] != '\0' ? name : "?",
                 why[o->state]);
        ++*at;
        return true;
    }
    return false;
}
