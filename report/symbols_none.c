/*
** symbols_none.c: in place of symbols.c where there is no libdwfl: no place in
** machine code has a name.
*/
#include "symbols.h"

#include <stdio.h>
#include <stdlib.h>

struct tide_symbols {
    bool was_asked;
};

enum tide_err tideR_symbols_open(bool asks_servers, struct tide_symbols **out)
{
    (void)asks_servers;
    *out = calloc(1, sizeof **out);
    return *out == NULL ? TIDE_ERR_NOMEM : TIDE_OK;
}

void tideR_symbols_close(struct tide_symbols *symbols)
{
    free(symbols);
}

void tideR_symbols_find(struct tide_symbols *symbols,
                        const struct tide_p_view *view,
                        const struct tide_p_func *func,
                        struct tide_r_symbol *out)
{
    *out = (struct tide_r_symbol){0};
    if (func->object == 0 || func->object >= view->n_objects)
        return;
    const struct tide_p_object *record = &view->objects[func->object];
    const uint64_t at = func->address - (func->what == TIDE_P_NATIVE ? 1 : 0);
    out->is_vm = at - record->vm_start < record->vm_end - record->vm_start;
    symbols->was_asked = true;
}

bool tideR_symbols_missing(const struct tide_symbols *symbols, size_t *at,
                           char *out, size_t out_bytes)
{
    if (!symbols->was_asked || *at != 0)
        return false;
    *at = 1;
    snprintf(out, out_bytes, "this tidemark was built without libdwfl");
    return true;
}
