/*
** test_emit.c: text made harmless, cells, JSON, and sinks that fail.
*/
#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../report/emit.h"
#include "../tap.h"

#define FFFD "\xEF\xBF\xBD"

static const char *fit(const char *text, unsigned columns, enum tide_r_cut cut)
{
    static char out[TIDE_R_CELL_MAX];
    const unsigned used = tideR_fit(text, strlen(text), columns, cut, out);
    CHECK(used <= columns);
    return out;
}

static const char *harmless(const char *text)
{
    return fit(text, 1000, TIDE_R_CUT_TAIL);
}

/* Decodes one character, as text of its number and bytes: "U+41 1". */
static const char *decoded(const char *bytes)
{
    static char text[32];
    uint32_t cp;
    const size_t n = tideR_utf8_next(bytes, strlen(bytes), &cp);
    snprintf(text, sizeof text, "U+%X %zu", cp, n);
    return text;
}

TEST(emit_utf8_is_decoded)
{
    CHECK_STR(decoded("A"), "U+41 1");
    CHECK_STR(decoded("\xC3\xA4"), "U+E4 2");
    CHECK_STR(decoded("\xE2\x82\xAC"), "U+20AC 3");
    CHECK_STR(decoded("\xF0\x9F\x8C\x99"), "U+1F319 4");
    CHECK_STR(decoded("\xF4\x8F\xBF\xBF"), "U+10FFFF 4");
}

TEST(emit_what_is_no_utf8_is_replaced)
{
    static const char *const wrong[] = {
        "\x80",             /* starts with a continuation */
        "\xC0\x80",         /* overlong */
        "\xC1\xBF",         /* overlong */
        "\xE0\x80\x80",     /* overlong */
        "\xF0\x80\x80\x80", /* overlong */
        "\xED\xA0\x80",     /* surrogate */
        "\xF4\x90\x80\x80", /* beyond the last */
        "\xF5\x80\x80\x80",
        "\xFF",
        "\xC3",
        "\xE2\x82",
        "\xC3(",
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_STR(decoded(wrong[i]), "U+FFFD 1");
}

TEST(emit_nothing_that_a_terminal_obeys_passes)
{
    CHECK_STR(harmless("a\x1b[31mb"), "a" FFFD "[31mb");
    CHECK_STR(harmless("a\nb\rc"), "a" FFFD "b" FFFD "c");
    CHECK_STR(harmless("a\tb"), "a b");
    CHECK_STR(harmless("\x7f"), FFFD);
    CHECK_STR(harmless("\xC2\x9B"
                       "31m"),
              FFFD "31m"); /* C1: CSI */
    CHECK_STR(harmless("\xE2\x80\xAE"
                       "x"),
              FFFD "x"); /* right to left */
    CHECK_STR(harmless("\xFFz"), FFFD "z");
    CHECK_STR(harmless("\xC3\xA4"), "\xC3\xA4");
}

TEST(emit_every_control_character_is_replaced)
{
    for (int c = 1; c < 0x20; c++)
        CHECK_STR(harmless((char[]){(char)c, '\0'}), c == '\t' ? " " : FFFD);
    for (int c = 0x80; c < 0xA0; c++)
        CHECK_STR(harmless((char[]){'\xC2', (char)c, '\0'}), FFFD);
}

TEST(emit_cells_are_cut_at_either_end)
{
    CHECK_STR(fit("abcdef", 6, TIDE_R_CUT_TAIL), "abcdef");
    CHECK_STR(fit("abcdefg", 6, TIDE_R_CUT_TAIL), "abcd..");
    CHECK_STR(fit("abcdefg", 6, TIDE_R_CUT_HEAD), "..defg");
    CHECK_STR(fit("abc", 2, TIDE_R_CUT_TAIL), "..");
    CHECK_STR(fit("abc", 2, TIDE_R_CUT_HEAD), "..");
    CHECK_STR(fit("", 2, TIDE_R_CUT_TAIL), "");
}

TEST(emit_wide_characters_take_two_columns)
{
    char out[TIDE_R_CELL_MAX];
    if (setlocale(LC_CTYPE, "C.UTF-8") == NULL)
        SKIP("no locale C.UTF-8");
    static const char moon[] = "\xE6\x9C\x88\xE6\x9C\x88\xE6\x9C\x88";
    CHECK_EQ(tideR_fit(moon, 9, 6, TIDE_R_CUT_TAIL, out), 6);
    CHECK_EQ(tideR_fit(moon, 9, 5, TIDE_R_CUT_TAIL, out), 4);
    CHECK_STR(out, "\xE6\x9C\x88..");
    CHECK_EQ(tideR_fit(moon, 9, 5, TIDE_R_CUT_HEAD, out), 4);
    CHECK_STR(out, "..\xE6\x9C\x88");
    CHECK_EQ(tideR_fit("a\xCC\x88", 3, 9, TIDE_R_CUT_TAIL, out), 1);
}

TEST(emit_cells_never_overflow)
{
    enum {
        LENGTH = 3 * TIDE_R_CELL_MAX
    };
    char *out = malloc(TIDE_R_CELL_MAX); /* a sanitizer watches its end */
    char *text = malloc(LENGTH);
    CHECK(out != NULL && text != NULL);
    memset(text, '\xFF', LENGTH);
    for (unsigned columns = 2; columns < 2 * TIDE_R_CELL_MAX; columns += 97) {
        tideR_fit(text, LENGTH, columns, TIDE_R_CUT_TAIL, out);
        CHECK(strlen(out) < TIDE_R_CELL_MAX);
        tideR_fit(text, LENGTH, columns, TIDE_R_CUT_HEAD, out);
        CHECK(strlen(out) < TIDE_R_CELL_MAX);
    }
    free(text);
    free(out);
}

/* As a shell's word. */
static const char *word(const char *text)
{
    static char out[256];
    FILE *file = fmemopen(out, sizeof out, "w");
    CHECK(file != NULL);
    struct tide_r_sink sink = tideR_sink(file);
    tideR_put_word(&sink, text);
    fclose(file);
    return out;
}

TEST(emit_words_are_a_shell_s)
{
    CHECK_STR(word("a/b-1.tide"), "a/b-1.tide");
    CHECK_STR(word(""), "''");
    CHECK_STR(word("a b"), "'a b'");
    CHECK_STR(word("$(x)`y`;\"*"), "'$(x)`y`;\"*'");
    CHECK_STR(word("it's"), "'it'\\''s'");
    CHECK_STR(word("\xC3\xA4"), "'\xC3\xA4'");
    CHECK_STR(word("a\x1b[1m"), "'a" FFFD "[1m'");
}

/* ---- JSON --------------------------------------------------------------- */

/* A string written as JSON and read back by another library. */
static json_t *round_trip(const char *bytes, size_t n)
{
    char *text = NULL;
    size_t text_bytes;
    FILE *file = open_memstream(&text, &text_bytes);
    CHECK(file != NULL);
    struct tide_r_sink sink = tideR_sink(file);
    struct tide_r_json json = tideR_json_on(&sink);
    tideR_json_open(&json, NULL, '[');
    tideR_json_text(&json, NULL, bytes, n);
    tideR_json_close(&json, ']');
    CHECK_EQ(tideR_sink_finish(&sink), TIDE_OK);
    fclose(file);
    json_error_t error;
    json_t *array = json_loadb(text, text_bytes, JSON_ALLOW_NUL, &error);
    free(text);
    CHECK(array != NULL);
    return array;
}

static void check_json(const char *bytes, size_t n, const char *wanted,
                       size_t n_wanted)
{
    json_t *array = round_trip(bytes, n);
    const json_t *string = json_array_get(array, 0);
    CHECK_EQ(json_string_length(string), n_wanted);
    CHECK(memcmp(json_string_value(string), wanted, n_wanted) == 0);
    json_decref(array);
}

TEST(emit_json_keeps_valid_text)
{
    static const char text[] =
        "plain \"quoted\" back\\slash /\b\f\n\r\t\x01\x1f\x7f \xC3\xA4 "
        "\xE2\x80\xA8 \xF0\x9F\x8C\x99 \xEF\xBF\xBD nul:\0:";
    check_json(text, sizeof text - 1, text, sizeof text - 1);
}

TEST(emit_json_replaces_what_is_no_utf8)
{
    check_json("a\xFF"
               "b",
               3, "a" FFFD "b", 5);
    check_json("\xED\xA0\x80", 3, FFFD FFFD FFFD, 9);
    check_json("\xC3", 1, FFFD, 3);
}

TEST(emit_json_of_random_bytes_is_valid)
{
    unsigned seed = 1;
    for (int i = 0; i < 2000; i++) {
        char bytes[40];
        for (size_t k = 0; k < sizeof bytes; k++) {
            seed = seed * 1103515245u + 12345u;
            bytes[k] = (char)(seed >> 16);
        }
        json_decref(round_trip(bytes, sizeof bytes));
    }
}

TEST(emit_json_numbers_are_whole)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file != NULL);
    struct tide_r_sink sink = tideR_sink(file);
    struct tide_r_json json = tideR_json_on(&sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_int(&json, "least", INT64_MIN);
    tideR_json_int(&json, "none", 0);
    tideR_json_int(&json, "most", INT64_MAX);
    tideR_json_real(&json, "real", 0.25);
    tideR_json_real(&json, "not", 0.0 / 0.0);
    tideR_json_bool(&json, "yes", true);
    tideR_json_break(&json);
    tideR_json_open(&json, "list", '[');
    tideR_json_close(&json, ']');
    tideR_json_close(&json, '}');
    CHECK_EQ(tideR_sink_finish(&sink), TIDE_OK);
    fclose(file);
    CHECK_STR(text, "{\"least\": -9223372036854775808, \"none\": 0, "
                    "\"most\": 9223372036854775807, \"real\": 0.250000, "
                    "\"not\": 0.000000, \"yes\": true,\n\"list\": []}");
    free(text);
}

/* ---- sinks -------------------------------------------------------------- */

TEST(emit_sinks_remember_the_first_error)
{
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        SKIP("no /dev/full");
    struct tide_r_sink sink = tideR_sink(full);
    for (int i = 0; i < 100000; i++)
        tideR_puts(&sink, "0123456789");
    errno = 0;
    CHECK_EQ(tideR_sink_finish(&sink), TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    fclose(full);
}

TEST(emit_an_error_at_the_flush_counts)
{
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        SKIP("no /dev/full");
    struct tide_r_sink sink = tideR_sink(full);
    tideR_puts(&sink, "short");
    CHECK_EQ(tideR_sink_finish(&sink), TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    fclose(full);
}
