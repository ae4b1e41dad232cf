/*
** places.c: places in machine code as functions and lines of a model.
**
** Each return address is a function of its own in the profile.  With its symbol
** it becomes one of the function's places: the function's name, and the line
** where debug information has it.  Without, the object and the offset in it
** stand for a name: of the function's beginning where the unwind tables know
** it, else of the place.  So they do for C functions that nothing names.
*/
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "model_impl.h"

static enum tide_err put_text(struct tide_model *model, const char *text,
                              uint32_t *out)
{
    return tideR_strtab_put(&model->strings, text, strlen(text), out);
}

/* "__libc_start_main@@GLIBC_2.34" without its version. */
static enum tide_err put_symbol(struct tide_model *model, const char *name,
                                uint32_t *out)
{
    const size_t n = strcspn(name, "@");
    return tideR_strtab_put(&model->strings, name, n > 0 ? n : strlen(name),
                            out);
}

/* "lpeg.so+0x3a30" */
static enum tide_err put_offset(struct tide_model *model,
                                const struct tide_p_view *view,
                                const struct tide_p_func *from, uint32_t *out)
{
    char text[TIDE_P_STRING_MAX + 32];
    const char *object = tideP_view_string(view, from->source, NULL);
    uint64_t at = from->address;
    if (from->object != 0)
        at -= view->objects[from->object].bias;
    if (from->what == TIDE_P_NATIVE)
        at -= from->lastline != 0 ? from->lastline : 1;
    snprintf(text, sizeof text, "%s+0x%" PRIx64,
             object[0] != '\0' ? object : "?", at);
    return put_text(model, text, out);
}

static bool is_unnamed(const struct tide_p_func *from)
{
    return from->name == 0 && from->address != 0 &&
           (from->what == TIDE_P_NATIVE || from->what == TIDE_P_C);
}

enum tide_err tideR_place_func(struct tide_model *model,
                               const struct tide_p_view *view,
                               const struct tide_p_func *from,
                               struct tide_r_func *func, uint32_t *line,
                               bool *is_hidden)
{
    struct tide_r_symbol symbol;
    *line = 0;
    *is_hidden = false;
    if (!is_unnamed(from))
        return TIDE_OK;
    if (model->symbols == NULL)
        TIDE_TRY(
            tideR_symbols_open(model->options.asks_servers, &model->symbols));
    tideR_symbols_find(model->symbols, view, from, &symbol);
    if (from->what == TIDE_P_C && symbol.name == NULL)
        return from->object != 0 ? put_offset(model, view, from, &func->name)
                                 : TIDE_OK; /* only its address, see notes.c */
    if (from->what == TIDE_P_C)
        return put_symbol(model, symbol.name, &func->name);
    *is_hidden = symbol.is_vm && !model->options.shows_internals;
    if (symbol.name == NULL)
        return put_offset(model, view, from, &func->name);
    TIDE_TRY(put_symbol(model, symbol.name, &func->name));
    if (symbol.file == NULL)
        return TIDE_OK;
    *line = symbol.line;
    return put_text(model, symbol.file, &func->source);
}
