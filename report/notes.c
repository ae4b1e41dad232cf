/*
** notes.c: what limits the figures of a profile, in words, and the names of
** functions and groups where the profile has none.
**
** Notes are findings of kind "note": nothing that makes a figure less than
** exact goes unsaid.
*/
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/compiler.h"
#include "model_impl.h"
#include "units.h"

/* Names of rows that are no functions, and where they are from in words. */
static const char *const pseudo_names[TIDE_P_WHAT_COUNT_] = {
    [TIDE_P_ROOT] = "[host]",
    [TIDE_P_FINALIZER] = "[finalizer]",
    [TIDE_P_COROUTINE] = "[coroutine]",
    [TIDE_P_OTHER_CHUNKS] = "[other chunks]",
    [TIDE_P_OTHER_STACKS] = "[other stacks]",
    [TIDE_P_NOT_RECORDED] = "[not recorded]",
    [TIDE_P_REGION] = "[region]",
};

static enum tide_err put_text(struct tide_model *model, const char *text,
                              uint32_t *out)
{
    return tideR_strtab_put(&model->strings, text, strlen(text), out);
}

enum tide_err tideR_put_source(struct tide_model *model, const char *bytes,
                               size_t n, uint32_t *out)
{
    const size_t skip = n > 0 && (bytes[0] == '@' || bytes[0] == '=') ? 1 : 0;
    return tideR_strtab_put(&model->strings, bytes + skip, n - skip, out);
}

/* A name for a function that has none. */
static enum tide_err make_name(struct tide_model *model,
                               struct tide_r_func *func)
{
    char text[TIDE_P_STRING_MAX + 64];
    const char *source = tideR_strtab_text(&model->strings, func->source);
    if (func->what == TIDE_P_MAIN)
        return put_text(model, "main chunk", &func->name);
    if (func->what == TIDE_P_LUA)
        snprintf(text, sizeof text, "function <%s:%" PRIu32 ">", source,
                 func->linedefined);
    else
        snprintf(text, sizeof text, "C function <0x%" PRIx64 ">",
                 func->address);
    return put_text(model, text, &func->name);
}

/* "[coroutine]", or "[coroutine body]" when the profile names its body. */
static enum tide_err name_pseudo(struct tide_model *model,
                                 struct tide_r_func *func)
{
    char text[TIDE_P_STRING_MAX + 64];
    const char *name = tideR_strtab_text(&model->strings, func->name);
    if (func->what == TIDE_P_REGION && func->name != 0)
        return TIDE_OK;
    if (func->what != TIDE_P_COROUTINE || func->name == 0)
        return put_text(model, pseudo_names[func->what], &func->name);
    if (name[0] == '[')
        return TIDE_OK;
    snprintf(text, sizeof text, "[coroutine %s]", name);
    return put_text(model, text, &func->name);
}

/* "/usr/lib/x/lpeg.so.2" is the module lpeg. */
static enum tide_err module_of_object(struct tide_model *model,
                                      const char *object, uint32_t *out)
{
    char text[TIDE_P_STRING_MAX + 1];
    const char *slash = strrchr(object, '/');
    const char *base = slash != NULL ? slash + 1 : object;
    const char *suffix = strstr(base, ".so");
    const size_t n = suffix != NULL && suffix != base ? (size_t)(suffix - base)
                                                      : strlen(base);
    snprintf(text, sizeof text, "%.*s", (int)n, base);
    return put_text(model, n > 0 ? text : "C", out);
}

/* "string.rep" and "string:rep" are of the module string; "lua5.4+0x1f0", an
   address, and "function <x.lua:1>" are no names. */
static enum tide_err module_of_name(struct tide_model *model, const char *name,
                                    size_t n, const char *object, uint32_t *out)
{
    char text[TIDE_P_STRING_MAX + 1];
    size_t cut = 0;
    for (size_t i = 1; i + 1 < n; i++)
        if (name[i] == '.' || name[i] == ':')
            cut = i;
    if (cut == 0 || cut >= sizeof text || memchr(name, ' ', n) != NULL ||
        memchr(name, '<', n) != NULL || memchr(name, '+', n) != NULL)
        return module_of_object(model, object, out);
    memcpy(text, name, cut);
    return tideR_strtab_put(&model->strings, text, cut, out);
}

/*
** Texts of the table move when strings are put: what is passed on is copied
** first.
*/
static enum tide_err group_of_c(struct tide_model *model,
                                const struct tide_r_func *func, uint32_t *out)
{
    char name[TIDE_P_STRING_MAX + 1];
    char object[TIDE_P_STRING_MAX + 1];
    size_t n;
    snprintf(object, sizeof object, "%s",
             tideR_strtab_text(&model->strings, func->object != 0
                                                    ? func->object
                                                    : func->source));
    if (func->what == TIDE_P_NATIVE)
        return module_of_object(model, object, out);
    const char *text = tideR_model_text(model, func->name, &n);
    if (n > TIDE_P_STRING_MAX)
        n = TIDE_P_STRING_MAX;
    memcpy(name, text, n);
    return module_of_name(model, name, n, object, out);
}

static bool is_text_chunk(const char *source)
{
    static const char start[] = "[string \"";
    return strncmp(source, start, sizeof start - 1) == 0;
}

enum tide_err tideR_name_func(struct tide_model *model, uint32_t index,
                              uint32_t *group_name)
{
    struct tide_r_func *func = &model->funcs[index];
    const bool is_lua = func->what == TIDE_P_LUA || func->what == TIDE_P_MAIN;
    const bool is_c = func->what == TIDE_P_C || func->what == TIDE_P_NATIVE;
    if (!is_lua && !is_c) {
        TIDE_TRY(name_pseudo(model, func));
        *group_name = func->name;
        if (func->what == TIDE_P_COROUTINE)
            return put_text(model, pseudo_names[func->what], group_name);
        return TIDE_OK;
    }
    if (func->name == 0)
        TIDE_TRY(make_name(model, func));
    if (!is_lua)
        return group_of_c(model, func, group_name);
    *group_name = func->source;
    if (is_text_chunk(tideR_strtab_text(&model->strings, func->source)))
        return put_text(model, "[string]", group_name);
    return TIDE_OK;
}

/* Adds a note; there are fewer kinds of them than room. */
static TIDE_PRINTF(3, 4) void add_note(struct tide_model *model, uint64_t bytes,
                                       const char *fmt, ...)
{
    if (model->n_findings >= TIDE_R_FINDINGS_MAX)
        return;
    struct tide_r_finding *note = &model->findings[model->n_findings++];
    *note = (struct tide_r_finding){.kind = "note", .bytes = bytes};
    va_list args;
    va_start(args, fmt);
    vsnprintf(note->text, sizeof note->text, fmt, args);
    va_end(args);
}

static void note_file(struct tide_model *model)
{
    const struct tide_p_problem *problem = tideP_reader_problem(model->profile);
    if (problem->err != TIDE_OK)
        add_note(model, 0,
                 "the profile is damaged and its rows are not all here: %s "
                 "(at byte %" PRIu64 ")",
                 problem->text, problem->offset);
    if ((model->header->flags & TIDE_P_FLAG_PARTLY_IN_MEMORY) != 0)
        add_note(model, 0,
                 "the disk was full: the profile lacks what was recorded "
                 "after that");
    if (model->header->state == TIDE_P_RUNNING)
        add_note(model, 0,
                 "the profile was not finished: the program still ran or was "
                 "killed; figures are those of its last allocation");
}

/* States that other threads ran when the program ended. */
static void note_in_use(struct tide_model *model)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++)
        n += !tideP_view_is_settled(tideP_reader_heap(model->profile, i));
    if (model->header->state != TIDE_P_CLOSED || n == 0)
        return;
    add_note(model, 0,
             "%" PRIu32 " %s in use when the program ended: figures are those "
             "of the last allocation, without calls that had not returned",
             n, n == 1 ? "state was" : "states were");
}

static void note_tier(struct tide_model *model)
{
    char text[TIDE_R_UNIT_MAX];
    const struct tide_p_header *header = model->header;
    if (header->tier != TIDE_TIER_EXACT)
        add_note(model, 0, "lines or threads are not all exact: %.*s",
                 (int)strnlen(header->tier_reason, sizeof header->tier_reason),
                 header->tier_reason);
    if (model->inferred_bytes > 0)
        add_note(model, model->inferred_bytes,
                 "the line or the thread of %s was inferred",
                 tideR_bytes_text((int64_t)model->inferred_bytes, text));
    if (model->unknown_calls > 0)
        add_note(model, 0,
                 "%s calls of the allocator came from places that "
                 "were not known before",
                 tideR_count_text((int64_t)model->unknown_calls, text));
}

static void note_bytes(struct tide_model *model)
{
    char text[TIDE_R_UNIT_MAX];
    char share[TIDE_R_UNIT_MAX];
    const int64_t all = (int64_t)model->totals.alloc_bytes;
    const int64_t bytes = (int64_t)model->unattributed.alloc_bytes;
    if (bytes > 0)
        add_note(model, (uint64_t)bytes,
                 "%s (%s of what was allocated) have no Lua line: made by C "
                 "with no Lua function running, or before the state was whole",
                 tideR_bytes_text(bytes, text),
                 tideR_share_text(bytes, all, share));
    if (model->before_bytes > 0)
        add_note(model, model->before_bytes,
                 "%s were made before tidemark was attached and are still "
                 "held; they are in no row",
                 tideR_bytes_text((int64_t)model->before_bytes, text));
    if (model->totals.inherited_bytes > 0)
        add_note(
            model, model->totals.inherited_bytes,
            "%s were alive when counting began, at a fork or a reset: they "
            "are in the live figures, not in the allocated ones",
            tideR_bytes_text((int64_t)model->totals.inherited_bytes, text));
    if (model->failed_blocks > 0)
        add_note(model, 0, "%s allocations failed: not enough memory",
                 tideR_count_text((int64_t)model->failed_blocks, text));
}

/* Bytes in rows that stand for more than one function or stack. */
static void note_pseudo_rows(struct tide_model *model)
{
    static const struct {
        enum tide_p_what what;
        const char *why;
    } rows[] = {
        {TIDE_P_OTHER_CHUNKS, "generated chunks beyond the limit `chunks`"},
        {TIDE_P_OTHER_STACKS, "stacks beyond the limit `nodes`"},
        {TIDE_P_NOT_RECORDED, "made while the recording was off"},
    };
    char text[TIDE_R_UNIT_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 0;
        for (uint32_t f = 0; f < model->n_funcs; f++)
            if (model->funcs[f].what == rows[i].what)
                bytes += model->funcs[f].own.alloc_bytes;
        if (bytes > 0)
            add_note(model, bytes, "%s stand in the row %s: %s",
                     tideR_bytes_text((int64_t)bytes, text),
                     pseudo_names[rows[i].what], rows[i].why);
    }
}

bool tideR_is_import(const struct tide_model *model)
{
    return strncmp(model->header->route, "import", sizeof "import") == 0;
}

#define OBJECTS_SAID 3 /* objects that a note names */

/* C code whose functions have no names here. */
static void note_symbols(struct tide_model *model)
{
    char text[300] = "";
    char one[256];
    size_t at = 0, n = 0;
    if (model->symbols == NULL)
        return;
    while (tideR_symbols_missing(model->symbols, &at, one, sizeof one)) {
        const size_t used = strlen(text);
        if (n++ < OBJECTS_SAID)
            snprintf(text + used, sizeof text - used, "%s%s",
                     used != 0 ? "; " : "", one);
    }
    if (n > OBJECTS_SAID)
        add_note(model, 0, "C code has no names here: %s; and %zu more", text,
                 n - OBJECTS_SAID);
    else if (n > 0)
        add_note(model, 0, "C code has no names here: %s", text);
}

void tideR_note_limits(struct tide_model *model)
{
    note_file(model);
    if (tideR_is_import(model)) {
        add_note(model, 0,
                 "rows of another tool: their stacks and blocks, what is live, "
                 "collections and the length of the run are not known");
        return;
    }
    note_in_use(model);
    note_tier(model);
    note_bytes(model);
    note_symbols(model);
    note_pseudo_rows(model);
}
