/*
** units.c: see units.h.
**
** Texts are made with integers or with doubles that are rounded once, so
** that no text says 1024 KiB or 60 s.  What is read back goes through
** strtod, which needs LC_NUMERIC to be "C": the tools set LC_CTYPE alone.
*/
#include "units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define NS_PER_SECOND 1000000000u

/* A name and what one of it is worth. */
struct unit {
    const char *name;
    double worth;
};

/* Three digits: "1.23", "12.3", "123".  v < 1000 rounds to less than 1000. */
static int put_digits(double v, char *out, size_t out_bytes)
{
    const int decimals = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
    return snprintf(out, out_bytes, "%.*f", decimals, v);
}

/* The magnitude of a number, also of the least one. */
static uint64_t magnitude_of(int64_t n)
{
    return n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
}

const char *tideR_bytes_text(int64_t bytes, char out[TIDE_R_UNIT_MAX])
{
    static const char *const names[] = {"KiB", "MiB", "GiB",
                                        "TiB", "PiB", "EiB"};
    const uint64_t size = magnitude_of(bytes);
    const char *sign = bytes < 0 ? "-" : "";
    if (size < 1024) {
        snprintf(out, TIDE_R_UNIT_MAX, "%s%u B", sign, (unsigned)size);
        return out;
    }
    double v = (double)size / 1024;
    unsigned i = 0;
    while (v >= 1023.5 && i + 1 < sizeof names / sizeof names[0]) {
        v /= 1024;
        i++;
    }
    char digits[TIDE_R_UNIT_MAX / 2];
    put_digits(v, digits, sizeof digits);
    snprintf(out, TIDE_R_UNIT_MAX, "%s%s %s", sign, digits, names[i]);
    return out;
}

const char *tideR_digits_text(int64_t n, char out[TIDE_R_UNIT_MAX])
{
    char plain[TIDE_R_UNIT_MAX];
    const int digits = snprintf(plain, sizeof plain, "%llu",
                                (unsigned long long)magnitude_of(n));
    char *to = out;
    if (n < 0)
        *to++ = '-';
    for (int i = 0; i < digits; i++) {
        if (i > 0 && (digits - i) % 3 == 0)
            *to++ = ',';
        *to++ = plain[i];
    }
    *to = '\0';
    return out;
}

const char *tideR_count_text(int64_t n, char out[TIDE_R_UNIT_MAX])
{
    static const char letters[] = "MGTPE";
    const uint64_t size = magnitude_of(n);
    if (size < 10000000)
        return tideR_digits_text(n, out);
    double v = (double)size / 1e6;
    unsigned i = 0;
    while (v >= 999.5 && letters[i + 1] != '\0') {
        v /= 1000;
        i++;
    }
    char digits[TIDE_R_UNIT_MAX / 2];
    put_digits(v, digits, sizeof digits);
    snprintf(out, TIDE_R_UNIT_MAX, "%s%s %c", n < 0 ? "-" : "", digits,
             letters[i]);
    return out;
}

const char *tideR_share_text(int64_t part, int64_t whole,
                             char out[TIDE_R_UNIT_MAX])
{
    if (whole == 0) {
        snprintf(out, TIDE_R_UNIT_MAX, "-");
        return out;
    }
    const double percent = 100.0 * (double)part / (double)whole;
    if (part != 0 && fabs(percent) < 0.05)
        snprintf(out, TIDE_R_UNIT_MAX, "<0.1%%");
    else if (fabs(percent) < 99999)
        snprintf(out, TIDE_R_UNIT_MAX, "%.1f%%", percent);
    else
        snprintf(out, TIDE_R_UNIT_MAX, "%.2g%%", percent);
    return out;
}

/* From a minute on: "3 min 02 s", "1 h 02 min". */
static void put_long_duration(uint64_t seconds, char out[TIDE_R_UNIT_MAX])
{
    const unsigned long long s = seconds;
    if (s < 3600)
        snprintf(out, TIDE_R_UNIT_MAX, "%llu min %02llu s", s / 60, s % 60);
    else
        snprintf(out, TIDE_R_UNIT_MAX, "%llu h %02llu min", s / 3600,
                 s / 60 % 60);
}

const char *tideR_duration_text(uint64_t ns, char out[TIDE_R_UNIT_MAX])
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    if (ns >= 59950000000u) {
        put_long_duration((ns + NS_PER_SECOND / 2) / NS_PER_SECOND, out);
        return out;
    }
    double v = (double)ns;
    unsigned i = 0;
    while (v >= 999.5 && i < 3) {
        v /= 1000;
        i++;
    }
    char digits[TIDE_R_UNIT_MAX / 2];
    if (i == 0)
        snprintf(digits, sizeof digits, "%u", (unsigned)ns);
    else
        put_digits(v, digits, sizeof digits);
    snprintf(out, TIDE_R_UNIT_MAX, "%s %s", digits, names[i]);
    return out;
}

/*
** Reads digits with at most one point, nothing that strtod takes beyond that
** (no sign, no exponent, no "inf").  Returns what follows, NULL when there is
** no number.
*/
static const char *read_number(const char *text, double *v)
{
    const char *end = text;
    unsigned n_digits = 0;
    unsigned n_points = 0;
    for (; isdigit((unsigned char)*end) || *end == '.'; end++) {
        n_digits += *end != '.';
        n_points += *end == '.';
    }
    if (n_digits == 0 || n_points > 1 || end - text >= 64)
        return NULL;
    char digits[64];
    memcpy(digits, text, (size_t)(end - text));
    digits[end - text] = '\0';
    *v = strtod(digits, NULL);
    return end;
}

/* Reads a number and one of the units; a table ends with a NULL name. */
static enum tide_err parse_with_units(const char *text,
                                      const struct unit *units, uint64_t *out)
{
    double v = 0;
    const char *end = read_number(text, &v);
    TIDE_FAIL_IF(end == NULL, TIDE_ERR_ARG);
    while (*end == ' ')
        end++;
    for (; units->name != NULL; units++) {
        if (strcasecmp(end, units->name) != 0)
            continue;
        v *= units->worth;
        TIDE_FAIL_IF(v >= 9.2e18, TIDE_ERR_ARG);
        *out = (uint64_t)(v + 0.5);
        return TIDE_OK;
    }
    return TIDE_ERR_ARG;
}

enum tide_err tideR_bytes_parse(const char *text, uint64_t *bytes)
{
    static const double ki = 1024;
    const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", ki},
        {"Ki", ki},
        {"KiB", ki},
        {"M", ki * ki},
        {"Mi", ki * ki},
        {"MiB", ki * ki},
        {"G", ki * ki * ki},
        {"Gi", ki * ki * ki},
        {"GiB", ki * ki * ki},
        {"T", ki * ki * ki * ki},
        {"Ti", ki * ki * ki * ki},
        {"TiB", ki * ki * ki * ki},
        {"kB", 1e3},
        {"MB", 1e6},
        {"GB", 1e9},
        {"TB", 1e12},
        {NULL, 0},
    };
    return parse_with_units(text, units, bytes);
}

/* "1,234,567" without its commas; NULL when they stand in wrong places. */
static const char *drop_commas(const char *text, char *out, size_t out_bytes)
{
    size_t n = 0;
    const char *comma = strchr(text, ',');
    if (comma != NULL && (comma == text || comma - text > 3))
        return NULL;
    for (; *text != '\0'; text++) {
        if (*text == ',') {
            for (int i = 1; i <= 3; i++)
                if (!isdigit((unsigned char)text[i]))
                    return NULL;
            if (isdigit((unsigned char)text[4]))
                return NULL;
            continue;
        }
        if (n + 1 >= out_bytes)
            return NULL;
        out[n++] = *text;
    }
    out[n] = '\0';
    return out;
}

enum tide_err tideR_count_parse(const char *text, uint64_t *n)
{
    static const struct unit units[] = {
        {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {NULL, 0},
    };
    char plain[80];
    if (drop_commas(text, plain, sizeof plain) == NULL)
        return TIDE_ERR_ARG;
    return parse_with_units(plain, units, n);
}

enum tide_err tideR_duration_parse(const char *text, uint64_t *ns)
{
    static const struct unit units[] = {
        {"", 1e9},    {"ns", 1},   {"us", 1e3},   {"ms", 1e6},   {"s", 1e9},
        {"sec", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0},
    };
    return parse_with_units(text, units, ns);
}

enum tide_err tideR_share_parse(const char *text, double *share)
{
    double v = 0;
    const char *end = read_number(text, &v);
    if (end == NULL || strcmp(end, "%") != 0 || v > 100)
        return TIDE_ERR_ARG;
    *share = v / 100;
    return TIDE_OK;
}
