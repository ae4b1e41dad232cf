/*
** symbols.h: names of places in machine code, found when a report is made.
**
** A profile has addresses, and which file was loaded there; names are in the
** symbol tables and the debug information of that file, or of a separate one
** that its build id names.  The files are looked for on this machine: what is
** not here, or is another build than the one that ran, gives no names, and the
** report says so.
*/
#ifndef TIDE_SYMBOLS_H
#define TIDE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/err.h"
#include "../profile/reader.h"

struct tide_symbols;

struct tide_r_symbol {
    const char *name; /* of the function; NULL: not known */
    const char *file; /* its source, as the compiler had it; NULL: not known */
    uint32_t line;    /* in that file; 0: not known */
    bool is_vm;       /* Lua's own code, which reports leave out */
};

/*
** Opens nothing yet.  asks_servers: names may be fetched from the servers that
** DEBUGINFOD_URLS lists; else nothing leaves this machine.
** Errors: NOMEM.
*/
enum tide_err tideR_symbols_open(bool asks_servers, struct tide_symbols **out);

/* NULL is allowed. */
void tideR_symbols_close(struct tide_symbols *symbols_or_null);

/*
** What stands at the address of a function of a view, which is a C function or
** a place in machine code.  All fields are set; texts are valid until the next
** call.
*/
void tideR_symbols_find(struct tide_symbols *symbols,
                        const struct tide_p_view *view,
                        const struct tide_p_func *func,
                        struct tide_r_symbol *out);

/*
** Objects without names, one after the other: "x.so: not on this machine" in
** `out`.  *at is 0 at first.  False: there are no more.
*/
bool tideR_symbols_missing(const struct tide_symbols *symbols, size_t *at,
                           char *out, size_t out_bytes);

#endif
