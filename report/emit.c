/*
** emit.c: see emit.h.
**
** A sink never stops a renderer: it latches the first error and drops what
** comes after it; the caller asks once, at the end.
*/
#include "emit.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <wchar.h>

#define REPLACEMENT      0xFFFDu
#define REPLACEMENT_UTF8 "\xEF\xBF\xBD"
#define DOTS             ".."
#define DOTS_COLUMNS     2u

struct tide_r_sink tideR_sink(FILE *file)
{
    return (struct tide_r_sink){.file = file};
}

static void latch_error(struct tide_r_sink *sink)
{
    if (sink->first_errno == 0)
        sink->first_errno = errno != 0 ? errno : EIO;
}

void tideR_put(struct tide_r_sink *sink, const char *bytes, size_t n)
{
    if (n > 0 && sink->first_errno == 0 && fwrite(bytes, 1, n, sink->file) != n)
        latch_error(sink);
}

void tideR_puts(struct tide_r_sink *sink, const char *text)
{
    tideR_put(sink, text, strlen(text));
}

void tideR_printf(struct tide_r_sink *sink, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (sink->first_errno == 0 && vfprintf(sink->file, fmt, args) < 0)
        latch_error(sink);
    va_end(args);
}

enum tide_err tideR_sink_finish(struct tide_r_sink *sink)
{
    if (fflush(sink->file) != 0 || ferror(sink->file))
        latch_error(sink);
    errno = sink->first_errno;
    return sink->first_errno == 0 ? TIDE_OK : TIDE_ERR_IO;
}

/* Bytes of a character by its first byte, 0: none starts so. */
static size_t utf8_length(unsigned char first)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xC2 && first <= 0xDF)
        return 2;
    if (first >= 0xE0 && first <= 0xEF)
        return 3;
    return first >= 0xF0 && first <= 0xF4 ? 4 : 0;
}

size_t tideR_utf8_next(const char *bytes, size_t n, uint32_t *cp)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const unsigned char mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const size_t length = utf8_length((unsigned char)bytes[0]);
    *cp = REPLACEMENT;
    if (length == 0 || length > n)
        return 1;
    uint32_t v = (unsigned char)bytes[0] & mask[length];
    for (size_t i = 1; i < length; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if ((c & 0xC0) != 0x80)
            return 1;
        v = v << 6 | (c & 0x3F);
    }
    if (v < least[length] || v > 0x10FFFF || (v >= 0xD800 && v <= 0xDFFF))
        return 1;
    *cp = v;
    return length;
}

/* Characters that change what a terminal does or in which order it shows. */
static bool is_harmful(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7F && cp < 0xA0) || cp == 0x061C ||
           (cp >= 0x200B && cp <= 0x200F) || (cp >= 0x2028 && cp <= 0x202E) ||
           (cp >= 0x2060 && cp <= 0x206F) || cp == 0xFEFF ||
           (cp >= 0xFFF9 && cp <= 0xFFFB) || (cp >= 0xE0000 && cp <= 0xE007F);
}

/*
** Columns of a character.  wcwidth knows when the locale is a UTF-8 one;
** else it says -1 for all but ASCII, and one column is as good a guess as any.
*/
static unsigned columns_of(uint32_t cp)
{
    if (cp < 0x7F)
        return 1;
    const int columns = wcwidth((wchar_t)cp);
    return columns < 0 ? 1 : (unsigned)columns;
}

/* One character as it may be shown: the bytes at *shown, and its columns. */
struct glyph {
    const char *shown;
    size_t shown_bytes;
    unsigned columns;
};

/* Takes the next character; returns the bytes taken. */
static size_t next_glyph(const char *bytes, size_t n, struct glyph *glyph)
{
    uint32_t cp;
    const size_t taken = tideR_utf8_next(bytes, n, &cp);
    if (cp == '\t') {
        *glyph = (struct glyph){" ", 1, 1};
    } else if (is_harmful(cp) || cp == REPLACEMENT) {
        *glyph = (struct glyph){REPLACEMENT_UTF8, 3, 1};
    } else {
        *glyph = (struct glyph){bytes, taken, columns_of(cp)};
    }
    return taken;
}

static uint64_t columns_in(const char *bytes, size_t n)
{
    uint64_t columns = 0;
    struct glyph glyph;
    for (size_t at = 0; at < n;) {
        at += next_glyph(bytes + at, n - at, &glyph);
        columns += glyph.columns;
    }
    return columns;
}

/* Where the tail starts that has at most so many columns. */
static size_t tail_start(const char *bytes, size_t n, uint64_t have,
                         unsigned columns)
{
    struct glyph glyph;
    size_t at = 0;
    while (at < n && have > columns) {
        at += next_glyph(bytes + at, n - at, &glyph);
        have -= glyph.columns;
    }
    return at;
}

/* Copies glyphs while they fit; returns the columns used. */
static unsigned copy_glyphs(const char *bytes, size_t n, unsigned columns,
                            char *out, size_t out_bytes)
{
    unsigned used = 0;
    size_t to = 0;
    struct glyph glyph;
    for (size_t at = 0; at < n;) {
        at += next_glyph(bytes + at, n - at, &glyph);
        if (used + glyph.columns > columns ||
            to + glyph.shown_bytes >= out_bytes)
            break;
        memcpy(out + to, glyph.shown, glyph.shown_bytes);
        to += glyph.shown_bytes;
        used += glyph.columns;
    }
    out[to] = '\0';
    return used;
}

unsigned tideR_fit(const char *bytes, size_t n, unsigned columns,
                   enum tide_r_cut cut, char out[TIDE_R_CELL_MAX])
{
    const uint64_t have = columns_in(bytes, n);
    /* leaves room for the dots when a cell's bytes run out */
    const size_t room = TIDE_R_CELL_MAX - sizeof DOTS;
    if (have <= columns)
        return copy_glyphs(bytes, n, columns, out, room);
    const unsigned rest = columns - DOTS_COLUMNS;
    if (cut == TIDE_R_CUT_HEAD) {
        const size_t at = tail_start(bytes, n, have, rest);
        strcpy(out, DOTS);
        return DOTS_COLUMNS +
               copy_glyphs(bytes + at, n - at, rest, out + strlen(DOTS), room);
    }
    const unsigned used = copy_glyphs(bytes, n, rest, out, room);
    strcat(out, DOTS);
    return used + DOTS_COLUMNS;
}

void tideR_put_harmless(struct tide_r_sink *sink, const char *bytes, size_t n)
{
    struct glyph glyph;
    for (size_t at = 0; at < n;) {
        at += next_glyph(bytes + at, n - at, &glyph);
        tideR_put(sink, glyph.shown, glyph.shown_bytes);
    }
}

void tideR_put_word(struct tide_r_sink *sink, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_-./+:,@%";
    if (*text != '\0' && text[strspn(text, plain)] == '\0') {
        tideR_puts(sink, text);
        return;
    }
    tideR_puts(sink, "'");
    while (*text != '\0') {
        const size_t n = strcspn(text, "'");
        tideR_put_harmless(sink, text, n);
        text += n;
        if (*text == '\'') {
            tideR_puts(sink, "'\\''");
            text++;
        }
    }
    tideR_puts(sink, "'");
}

/* Whether a byte stands for itself in JSON, alone. */
static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

/* Writes a character that is not plain; returns the bytes taken. */
static size_t put_character(struct tide_r_sink *sink, const char *bytes,
                            size_t n)
{
    uint32_t cp;
    const size_t taken = tideR_utf8_next(bytes, n, &cp);
    if (cp == REPLACEMENT)
        tideR_puts(sink, REPLACEMENT_UTF8);
    else if (cp == '"' || cp == '\\')
        tideR_printf(sink, "\\%c", (char)cp);
    else if (cp < 0x20 || cp == 0x7F)
        tideR_printf(sink, "\\u%04x", cp);
    else
        tideR_put(sink, bytes, taken);
    return taken;
}

/* The text between the quotes. */
static void put_escaped(struct tide_r_sink *sink, const char *bytes, size_t n)
{
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && is_plain((unsigned char)bytes[end]))
            end++;
        tideR_put(sink, bytes + at, end - at);
        at = end;
        if (at < n)
            at += put_character(sink, bytes + at, n - at);
    }
}

static void put_quoted(struct tide_r_sink *sink, const char *bytes, size_t n)
{
    tideR_put(sink, "\"", 1);
    put_escaped(sink, bytes, n);
    tideR_put(sink, "\"", 1);
}

struct tide_r_json tideR_json_on(struct tide_r_sink *sink)
{
    return (struct tide_r_json){.sink = sink};
}

/* The comma before a value, and its key, which needs no escapes. */
static void begin_value(struct tide_r_json *json, const char *key)
{
    if (json->needs_comma)
        tideR_put(json->sink, ", ", 2);
    json->needs_comma = true;
    if (key == NULL)
        return;
    tideR_put(json->sink, "\"", 1);
    tideR_puts(json->sink, key);
    tideR_put(json->sink, "\": ", 3);
}

void tideR_json_open(struct tide_r_json *json, const char *key, char bracket)
{
    begin_value(json, key);
    tideR_put(json->sink, &bracket, 1);
    json->needs_comma = false;
}

void tideR_json_close(struct tide_r_json *json, char bracket)
{
    tideR_put(json->sink, &bracket, 1);
    json->needs_comma = true;
}

void tideR_json_break(struct tide_r_json *json)
{
    tideR_puts(json->sink, json->needs_comma ? ",\n" : "\n");
    json->needs_comma = false;
}

void tideR_json_int(struct tide_r_json *json, const char *key, int64_t v)
{
    char digits[24];
    char *at = digits + sizeof digits;
    uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    begin_value(json, key);
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (v < 0)
        *--at = '-';
    tideR_put(json->sink, at, (size_t)(digits + sizeof digits - at));
}

void tideR_json_real(struct tide_r_json *json, const char *key, double v)
{
    begin_value(json, key);
    tideR_printf(json->sink, "%.6f", isfinite(v) ? v : 0.0);
}

void tideR_json_bool(struct tide_r_json *json, const char *key, bool v)
{
    begin_value(json, key);
    tideR_puts(json->sink, v ? "true" : "false");
}

void tideR_json_text(struct tide_r_json *json, const char *key,
                     const char *bytes, size_t n)
{
    begin_value(json, key);
    put_quoted(json->sink, bytes, n);
}

void tideR_json_raw(struct tide_r_json *json, const char *bytes, size_t n)
{
    begin_value(json, NULL);
    tideR_put(json->sink, bytes, n);
}

void tideR_json_str(struct tide_r_json *json, const char *key, const char *text)
{
    tideR_json_text(json, key, text, strlen(text));
}
