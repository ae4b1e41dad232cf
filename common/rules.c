/*
** rules.c: see rules.h.  Used inside the host and by the command: no malloc,
** no stdio but snprintf.
*/
#include "rules.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "compiler.h"

enum rule_part {
    PART_GROUP = 0,
    PART_SOURCE,
    PART_MODULE,
    PART_FUNCTION,
    PART_COUNT_
};

static const char *const part_keys[PART_COUNT_] = {
    [PART_GROUP] = "",
    [PART_SOURCE] = "source",
    [PART_MODULE] = "module",
    [PART_FUNCTION] = "function",
};

/* The text being read. */
struct rules {
    const char *at;
    const char *end;
    unsigned line;
    char *why;
    size_t why_bytes;
    char parts[PART_COUNT_][TIDE_RULE_WORD_MAX + 1];
};

static TIDE_PRINTF(2, 3) enum tide_err
    complain(const struct rules *r, const char *fmt, ...)
{
    va_list args;
    const int n = snprintf(r->why, r->why_bytes, "line %u: ", r->line);
    va_start(args, fmt);
    if (n > 0 && (size_t)n < r->why_bytes)
        vsnprintf(r->why + n, r->why_bytes - (size_t)n, fmt, args);
    va_end(args);
    return TIDE_ERR_ARG;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* At the next word of the line; false: there is none. */
static bool find_word(struct rules *r)
{
    while (r->at < r->end && is_blank(*r->at))
        r->at++;
    return r->at < r->end && *r->at != '\n' && *r->at != '#';
}

/* Reads a word, quotes taken off.  *equals: place of the first = outside. */
static enum tide_err read_word(struct rules *r, char *out, size_t *equals)
{
    bool is_quoted = false;
    size_t n = 0;
    *equals = 0;
    for (; r->at < r->end && *r->at != '\n'; r->at++) {
        const char c = *r->at;
        if (c == '"') {
            const bool is_pair =
                is_quoted && r->at + 1 < r->end && r->at[1] == '"';
            is_quoted = is_pair || !is_quoted;
            if (!is_pair)
                continue;
            r->at++;
        } else if (is_blank(c) && !is_quoted) {
            break;
        }
        if (n == TIDE_RULE_WORD_MAX)
            return complain(r, "a word is longer than %u bytes",
                            TIDE_RULE_WORD_MAX);
        if (c == '=' && !is_quoted && *equals == 0)
            *equals = n;
        out[n++] = c;
    }
    out[n] = '\0';
    return is_quoted ? complain(r, "no closing quote") : TIDE_OK;
}

/* key=PATTERN */
static enum tide_err read_part(struct rules *r)
{
    char word[TIDE_RULE_WORD_MAX + 1];
    size_t equals;
    TIDE_TRY(read_word(r, word, &equals));
    if (equals == 0)
        return complain(r, "'%.60s' is not key=PATTERN", word);
    word[equals] = '\0';
    for (unsigned i = PART_SOURCE; i < PART_COUNT_; i++) {
        if (strcmp(word, part_keys[i]) != 0)
            continue;
        if (r->parts[i][0] != '\0')
            return complain(r, "two patterns for '%s'", word);
        if (word[equals + 1] == '\0')
            return complain(r, "no pattern for '%s'", word);
        strcpy(r->parts[i], word + equals + 1);
        return TIDE_OK;
    }
    return complain(r, "unknown key '%.60s'; source, module and function are",
                    word);
}

/* One line that holds a rule. */
static enum tide_err read_rule(struct rules *r, tide_rule_fn rule_fn, void *ctx)
{
    size_t equals;
    bool has_pattern = false;
    memset(r->parts, 0, sizeof r->parts);
    TIDE_TRY(read_word(r, r->parts[PART_GROUP], &equals));
    if (equals != 0 || r->parts[PART_GROUP][0] == '\0')
        return complain(r, "a rule begins with the group's name");
    while (find_word(r)) {
        TIDE_TRY(read_part(r));
        has_pattern = true;
    }
    if (!has_pattern)
        return complain(r, "group '%.60s' has no pattern",
                        r->parts[PART_GROUP]);
    const struct tide_rule rule = {
        .group = r->parts[PART_GROUP],
        .source = r->parts[PART_SOURCE],
        .module = r->parts[PART_MODULE],
        .name = r->parts[PART_FUNCTION],
    };
    return rule_fn(ctx, &rule);
}

enum tide_err tideC_rules_parse(const char *text, size_t n,
                                tide_rule_fn rule_fn, void *ctx, char *why,
                                size_t why_bytes)
{
    struct rules r = {
        .at = text, .end = text + n, .why = why, .why_bytes = why_bytes};
    if (memchr(text, '\0', n) != NULL) {
        snprintf(why, why_bytes, "not a text");
        return TIDE_ERR_ARG;
    }
    while (r.at < r.end) {
        r.line++;
        if (find_word(&r))
            TIDE_TRY(read_rule(&r, rule_fn, ctx));
        while (r.at < r.end && *r.at++ != '\n')
            ;
    }
    return TIDE_OK;
}
