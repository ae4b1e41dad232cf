/*
** names.c: functions and their names, each written once.
**
** Functions are interned by source and first line, not by Proto address: a
** freed prototype's address is used again, and so its entry is forgotten when
** its block is freed.  Chunks that load() made from text are kept apart up to
** a limit; the rest share "[other chunks]".
**
** Names are what the calling instruction says (lua_getinfo "n"), at the first
** call that tells; the standard library's are known from the calibration.
*/
#include <stdio.h>
#include <string.h>

#include "../common/hash.h"
#include "native.h"

#define SHORT_TEXT 60u /* of a text chunk, as luaO_chunkid shows it */

/* Writes a string record; 0: no memory. */
static uint32_t write_string(struct tide_heap *h, const char *text, size_t n)
{
    struct tide_section *s = &h->sections[TIDE_P_STRINGS];
    const uint32_t at = h->string_bytes;
    const size_t need = (4 + n + 1 + 3) & ~(size_t)3;
    if (at + need > UINT32_MAX ||
        tideP_section_reserve(h->writer, s, at + need) != TIDE_OK)
        return 0;
    tide_assert(at >= 4 && at % 4 == 0);
    const uint32_t length = (uint32_t)n;
    memcpy(s->base + at, &length, 4);
    memcpy(s->base + at + 4, text, n);
    s->base[at + 4 + n] = '\0';
    h->string_bytes = at + (uint32_t)need;
    TIDE_PUBLISH(&h->head->string_bytes, h->string_bytes);
    return at;
}

static bool is_string(const struct tide_heap *h, uint32_t at, const char *text,
                      size_t n)
{
    const unsigned char *s = h->sections[TIDE_P_STRINGS].base + at;
    uint32_t length;
    memcpy(&length, s, 4);
    return length == n && memcmp(s + 4, text, n) == 0;
}

/* The offset of a string, written if it is new; 0: "" or no memory. */
static uint32_t intern(struct tide_heap *h, const char *text, size_t n)
{
    if (n > TIDE_P_STRING_MAX)
        n = TIDE_P_STRING_MAX;
    if (n == 0)
        return 0;
    uint64_t key = tideC_hash_bytes(text, n) | 1;
    for (;; key += 2) { /* equal hashes of different texts: the next key */
        uint64_t *at = tideC_hashtab_put(&h->strings, &h->mem, key);
        if (at == NULL)
            return 0;
        if (*at == 0)
            *at = write_string(h, text, n);
        if (*at == 0)
            return 0;
        if (is_string(h, (uint32_t)*at, text, n))
            return (uint32_t)*at;
    }
}

static uint32_t intern_text(struct tide_heap *h, const char *text)
{
    return intern(h, text, strlen(text));
}

uint32_t tideT_string(struct tide_heap *h, const char *text, size_t bytes)
{
    return intern(h, text, bytes);
}

uint32_t tideT_text(struct tide_heap *h, const char *text)
{
    return intern_text(h, text);
}

/* A new function record; 0: no memory. */
static uint32_t new_func(struct tide_heap *h, const struct tide_p_func *func)
{
    struct tide_section *s = &h->sections[TIDE_P_FUNCS];
    const uint32_t i = h->n_funcs;
    tide_assert(func->what < TIDE_P_WHAT_COUNT_);
    tide_assert(func->name < h->string_bytes);
    if (tideP_section_reserve(h->writer, s, ((size_t)i + 1) * sizeof *func) !=
        TIDE_OK)
        return 0;
    h->funcs[i] = *func;
    h->n_funcs = i + 1;
    TIDE_PUBLISH(&h->head->n_funcs, h->n_funcs);
    return i;
}

/* The function under `key` of a table, made from `func` if it is new. */
static uint32_t func_of(struct tide_heap *h, struct tide_hashtab *tab,
                        uint64_t key, const struct tide_p_func *func)
{
    uint64_t *value = tideC_hashtab_put(tab, &h->mem, key);
    if (value == NULL)
        return 0;
    if (*value == 0)
        *value = new_func(h, func);
    return (uint32_t)*value;
}

uint32_t tideT_func_special(struct tide_heap *h, enum tide_p_what what,
                            const char *name)
{
    const struct tide_p_func func = {.what = (uint8_t)what,
                                     .name = intern_text(h, name)};
    return new_func(h, &func);
}

/* Without calibration: what the program itself calls it. */
static const char *sniffed_name(struct tide_heap *h, const void *f,
                                char text[TIDE_GLOBAL_BYTES])
{
    if (!tideT_name_of_global(h, f, text))
        return "";
    if (strcmp(text, "collectgarbage") == 0)
        h->session->cal.collectgarbage = (uintptr_t)f;
    return text;
}

const char *tideT_library_name(const struct tide_heap *h, const void *f)
{
    for (uint32_t i = 0; i < h->cal->n_names; i++)
        if (h->cal->names[i].address == (uintptr_t)f)
            return h->cal->names[i].name;
    return "";
}

/* The name of an object's file, without its folder. */
static uint32_t object_name(struct tide_heap *h, uint32_t object)
{
    if (object == 0)
        return 0;
    const unsigned char *strings = h->sections[TIDE_P_STRINGS].base;
    const char *path = (const char *)strings + h->objects[object].path +
                       (h->objects[object].path == 0 ? 0 : 4);
    const char *slash = strrchr(path, '/');
    return intern_text(h, slash == NULL ? path : slash + 1);
}

/*
** An address may belong to one object now and to another one later.  Odd, other
** than the tokens of tideT_func_alias.
*/
static uint64_t key_of_place(uint64_t address, uint32_t object, bool is_native)
{
    const uint64_t where = (uint64_t)object << 1 | (is_native ? 1u : 0u);
    return tideC_hash_word(address ^ where << 48) | 1;
}

uint32_t tideT_func_c(struct tide_heap *h, const void *f)
{
    const uint64_t address = (uint64_t)(uintptr_t)f;
    const uint64_t *old = tideC_hashtab_find(&h->cfuncs, address);
    if (f != NULL && old != NULL && *old != 0)
        return (uint32_t)*old;
    const uint32_t object = f == NULL ? 0 : tideT_object_of(h, address);
    const uint64_t key = key_of_place(address, object, false);
    old = tideC_hashtab_find(&h->cfuncs, key);
    if (old != NULL && *old != 0)
        return (uint32_t)*old;
    char text[TIDE_GLOBAL_BYTES];
    const char *name = h->cal->is_sniffed ? sniffed_name(h, f, text)
                                          : tideT_library_name(h, f);
    const struct tide_p_func func = {
        .what = TIDE_P_C,
        .source = object_name(h, object),
        .name = intern_text(h, name),
        .object = object,
        .address = address,
    };
    const uint32_t index = func_of(h, &h->cfuncs, key, &func);
    if (*name != '\0' && strchr(name, '.') == NULL && !h->cal->is_sniffed)
        tideT_put_module(h, index, intern_text(h, "base"));
    return index;
}

uint32_t tideT_func_native(struct tide_heap *h, uintptr_t ip, uintptr_t start)
{
    const uint32_t object = tideT_object_of(h, ip - 1);
    const uint64_t key = key_of_place(ip, object, true);
    const uint64_t *old = tideC_hashtab_find(&h->cfuncs, key);
    if (old != NULL && *old != 0)
        return (uint32_t)*old;
    const struct tide_p_func func = {
        .what = TIDE_P_NATIVE,
        .source = object_name(h, object),
        .lastline =
            start == 0 || ip - start > UINT32_MAX ? 0 : (uint32_t)(ip - start),
        .object = object,
        .address = ip,
    };
    return func_of(h, &h->cfuncs, key, &func);
}

bool tideT_func_alias(struct tide_heap *h, const void *token, uint32_t func)
{
    uint64_t *value =
        tideC_hashtab_put(&h->cfuncs, &h->mem, (uint64_t)(uintptr_t)token);
    if (value == NULL)
        return false;
    *value = func;
    return true;
}

uint32_t tideT_func_coroutine(struct tide_heap *h, uint32_t born_node)
{
    /* the innermost Lua line that made it */
    uint32_t node = born_node;
    while (node != 0 && h->nodes[node].line == 0)
        node = h->nodes[node].parent;
    const uint32_t source = h->funcs[h->nodes[node].func].source;
    const uint32_t line = h->nodes[node].line;
    const uint64_t key = ((uint64_t)source << 32 | line) + 1;
    const uint64_t *old = tideC_hashtab_find(&h->coroutines, key);
    if (old != NULL && *old != 0)
        return (uint32_t)*old;
    const struct tide_p_func func = {
        .what = TIDE_P_COROUTINE,
        .source = source,
        .name = intern_text(h, "[coroutine]"),
        .linedefined = line,
    };
    return func_of(h, &h->coroutines, key, &func);
}

static uint32_t other_chunks(struct tide_heap *h)
{
    if (h->other_chunks == 0) {
        const struct tide_p_func func = {
            .what = TIDE_P_OTHER_CHUNKS,
            .source = intern_text(h, "[other chunks]"),
            .name = intern_text(h, "[other chunks]"),
        };
        h->other_chunks = new_func(h, &func);
    }
    return h->other_chunks;
}

uint32_t tideT_func_public(struct tide_heap *h, const char *source,
                           const char *name_or_null, int linedefined,
                           int lastline, bool is_c)
{
    char text[256];
    const char *name = name_or_null == NULL ? "" : name_or_null;
    snprintf(text, sizeof text, "%.180s:%s", source, is_c ? name : "");
    const uint32_t line = linedefined < 0 ? 0 : (uint32_t)linedefined;
    const uint64_t key =
        (tideC_hash_bytes(text, strlen(text)) ^ ((uint64_t)line << 40)) | 1;
    const uint64_t *old = tideC_hashtab_find(&h->luafuncs, key);
    if (old != NULL && *old != 0)
        return (uint32_t)*old;
    snprintf(text, sizeof text, "%.180s", source);
    const struct tide_p_func func = {
        .what = is_c        ? TIDE_P_C
                : line == 0 ? TIDE_P_MAIN
                            : TIDE_P_LUA,
        .source = intern_text(h, text),
        .name = intern_text(h, is_c || line != 0 ? name : "main chunk"),
        .linedefined = line,
        .lastline = lastline < 0 ? 0 : (uint32_t)lastline,
    };
    return func_of(h, &h->luafuncs, key, &func);
}

/* A text chunk's name as Lua shows it: its first line, cut. */
static size_t short_text(const char *source, char *out, size_t out_bytes)
{
    const char *end = strchr(source, '\n');
    size_t n = end != NULL ? (size_t)(end - source) : strlen(source);
    const bool is_cut = end != NULL || n > SHORT_TEXT - 20;
    if (n > SHORT_TEXT - 20)
        n = SHORT_TEXT - 20;
    const int used = snprintf(out, out_bytes, "[string \"%.*s%s\"]", (int)n,
                              source, is_cut ? "..." : "");
    return used < 0 ? 0 : (size_t)used;
}

/*
** The source of a prototype as the profile names it.  *is_text: the chunk was
** loaded from text and has no name of its own.
*/
static uint32_t source_of(struct tide_heap *h, const char *proto, bool *is_text)
{
    const char *string = tideT_proto_source(proto);
    const char *source = string == NULL ? "=?" : tideT_string_text(string);
    *is_text = source[0] != '@' && source[0] != '=';
    if (!*is_text)
        return intern_text(h, source);
    char text[SHORT_TEXT + 16];
    const size_t n = short_text(source, text, sizeof text);
    if (h->n_chunks >= h->session->options.chunks) {
        const uint64_t key = tideC_hash_bytes(text, n) | 1;
        if (tideC_hashtab_find(&h->strings, key) == NULL)
            return 0;
    }
    const uint32_t n_before = h->string_bytes;
    const uint32_t at = intern(h, text, n);
    if (h->string_bytes != n_before)
        h->n_chunks++;
    return at;
}

static uint32_t func_of_proto(struct tide_heap *h, const char *proto)
{
    bool is_text;
    const uint32_t source = source_of(h, proto, &is_text);
    if (source == 0)
        return is_text ? other_chunks(h) : 0;
    const uint32_t line = (uint32_t)tideT_proto_linedefined(proto);
    const uint64_t key = ((uint64_t)source << 32 | line) + 1;
    const uint64_t *old = tideC_hashtab_find(&h->luafuncs, key);
    if (old != NULL && *old != 0)
        return (uint32_t)*old;
    const struct tide_p_func func = {
        .what = line == 0 ? TIDE_P_MAIN : TIDE_P_LUA,
        .source = source,
        .name = line == 0 ? intern_text(h, "main chunk") : 0,
        .linedefined = line,
        .lastline = (uint32_t)tideT_proto_lastline(proto),
    };
    const uint32_t index = func_of(h, &h->luafuncs, key, &func);
    if (line == 0 && index != 0)
        tideT_note_module(h, index, proto);
    return index;
}

struct tide_proto *tideT_proto_find(struct tide_heap *h, const char *proto)
{
    uint64_t *value =
        tideC_hashtab_put(&h->protos, &h->mem, (uint64_t)(uintptr_t)proto);
    if (value == NULL)
        return NULL;
    if (*value != 0)
        return (struct tide_proto *)(uintptr_t)*value;
    const uint32_t func = func_of_proto(h, proto);
    /* lines of a chunk without a row of its own are not shown */
    const int32_t n_code = tideT_proto_sizecode(proto);
    const int32_t n = func != 0 && func == h->other_chunks ? 0 : n_code;
    const size_t bytes = sizeof(struct tide_proto) + (size_t)n * 4;
    struct tide_proto *p = tideC_mem_alloc(&h->mem, bytes);
    if (p == NULL) {
        tideC_hashtab_remove(&h->protos, (uint64_t)(uintptr_t)proto, NULL);
        return NULL;
    }
    p->code = tideT_proto_code(proto);
    p->func = func;
    p->n_code = n_code;
    p->n = n;
    p->bytes = (uint32_t)bytes;
    tideT_lines_of(proto, p->n, p->lines);
    *value = (uint64_t)(uintptr_t)p;
    return p;
}

void tideT_proto_free(struct tide_heap *h, struct tide_proto *p)
{
    tideC_mem_free(&h->mem, p->places, p->max_places * sizeof *p->places);
    tideC_mem_free(&h->mem, p, p->bytes);
}

void tideT_proto_forget(struct tide_heap *h, const char *proto)
{
    uint64_t value;
    if (!tideC_hashtab_remove(&h->protos, (uint64_t)(uintptr_t)proto, &value))
        return;
    struct tide_proto *p = (struct tide_proto *)(uintptr_t)value;
    tideT_sites_forget(h, p);
    tideT_proto_hit(h, proto)->proto = NULL;
    tideT_proto_free(h, p);
}

static void name_from_globals(struct tide_heap *h, uint32_t func,
                              const char *ci)
{
    char text[TIDE_GLOBAL_BYTES];
    const char *slot = tideT_ci_func(ci);
    if (tideT_value_tag(slot) == TIDE_TAG_LCLOSURE &&
        tideT_name_of_global(h, tideT_value_ptr(slot), text))
        h->funcs[func].name = intern_text(h, text);
}

void tideT_name_from_call(struct tide_heap *h, uint32_t func,
                          const lua_State *L, char *ci)
{
    const enum tide_p_what what = (enum tide_p_what)h->funcs[func].what;
    if (func == 0 || (what != TIDE_P_LUA && what != TIDE_P_C) ||
        (tideT_ci_status(ci) & h->cal->layout.cist_tail) != 0)
        return;
    if (h->cal->is_sniffed) {
        name_from_globals(h, func, ci);
        return;
    }
    lua_Debug ar[2]; /* room for a larger one */
    memset(ar, 0, sizeof ar);
    memcpy(&ar[0].i_ci, &ci, sizeof ci);
    if (h->cal->api.getinfo((lua_State *)(uintptr_t)L, "n", ar) == 0 ||
        ar[0].name == NULL)
        return;
    char name[128];
    const bool is_meta =
        ar[0].namewhat != NULL && strcmp(ar[0].namewhat, "metamethod") == 0;
    snprintf(name, sizeof name, "%s%s",
             is_meta && strncmp(ar[0].name, "__", 2) != 0 ? "__" : "",
             ar[0].name);
    h->funcs[func].name = intern_text(h, name);
}
