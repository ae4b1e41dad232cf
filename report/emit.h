/*
** emit.h: what every renderer writes through: a sink that remembers its
** first error, text that is made harmless, and JSON.
**
** Names in a profile come from the profiled program and may hold any bytes.
** In text: control characters (also those of C1 and of bidirectional text)
** and bytes that are no UTF-8 become U+FFFD, so that no escape sequence
** reaches a terminal.  In JSON: bytes that are no UTF-8 become U+FFFD,
** control characters are escaped and so survive.
*/
#ifndef TIDE_EMIT_H
#define TIDE_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../common/compiler.h"
#include "../common/err.h"

struct tide_r_sink {
    FILE *file;      /* not closed by the sink */
    int first_errno; /* of the first failure; 0: none so far */
};

/* An empty sink on a file. */
struct tide_r_sink tideR_sink(FILE *file);

void tideR_put(struct tide_r_sink *sink, const char *bytes, size_t n);
void tideR_puts(struct tide_r_sink *sink, const char *text);
void tideR_printf(struct tide_r_sink *sink, const char *fmt, ...)
    TIDE_PRINTF(2, 3);

/* Flushes.  Errors: IO, errno says why: the first failure of all. */
enum tide_err tideR_sink_finish(struct tide_r_sink *sink);

/*
** Decodes one character.  n > 0.  Returns its bytes; *cp is U+FFFD, and 1 is
** returned, where there is no valid UTF-8 (surrogates, overlong forms).
*/
size_t tideR_utf8_next(const char *bytes, size_t n, uint32_t *cp);

enum tide_r_cut {
    TIDE_R_CUT_TAIL = 0, /* "a long na.." */
    TIDE_R_CUT_HEAD,     /* "..r/app.lua": what stands last matters most */
};

#define TIDE_R_CELL_MAX 2048 /* room for a cell of a table, with its NUL */

/*
** Makes text harmless and fits it into so many columns; wide characters
** count as two, combining ones as none.
** columns  at most; at least 2.
** out      gets valid UTF-8, always NUL-terminated.
** Returns the columns used.
*/
unsigned tideR_fit(const char *bytes, size_t n, unsigned columns,
                   enum tide_r_cut cut, char out[TIDE_R_CELL_MAX]);

/* Writes it harmless, whatever its length. */
void tideR_put_harmless(struct tide_r_sink *sink, const char *bytes, size_t n);

/* Writes it harmless and as one word of a shell, in quotes where it must be. */
void tideR_put_word(struct tide_r_sink *sink, const char *text);

/*
** A JSON writer: opens, closes and separates; `key` is NULL in an array.
** Rows stand on lines of their own, nothing is kept in memory.  Keys are
** plain ASCII: they are written without a look at them.
*/
struct tide_r_json {
    struct tide_r_sink *sink;
    bool needs_comma; /* something stands before in this list or object */
};

struct tide_r_json tideR_json_on(struct tide_r_sink *sink);
void tideR_json_open(struct tide_r_json *json, const char *key, char bracket);
void tideR_json_close(struct tide_r_json *json, char bracket);
void tideR_json_break(struct tide_r_json *json); /* the next on a new line */
void tideR_json_int(struct tide_r_json *json, const char *key, int64_t v);
void tideR_json_real(struct tide_r_json *json, const char *key, double v);
void tideR_json_bool(struct tide_r_json *json, const char *key, bool v);
void tideR_json_text(struct tide_r_json *json, const char *key,
                     const char *bytes, size_t n);
void tideR_json_raw(struct tide_r_json *json, const char *bytes,
                    size_t n); /* JSON already */
void tideR_json_str(struct tide_r_json *json, const char *key,
                    const char *text);

#endif
