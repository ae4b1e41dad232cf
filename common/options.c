/*
** options.c: the one table of options, and the parser it drives.
**
** A row says what `help options` prints and what the default is; the entry
** beside it says where the value goes and which values there are.  Defaults
** are set by parsing the text that is printed, so that the two cannot differ.
** This runs inside the host: no malloc, no stdio but snprintf.
*/
#include "options.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum option_type {
    OPTION_PATH,
    OPTION_PATTERN, /* a path with %p, %n, %% */
    OPTION_NUMBER,
    OPTION_SIZE,
    OPTION_CHOICE,
    OPTION_SIGNAL,
    OPTION_SWITCH
};

/* Where a value goes and what it may be. */
struct option_entry {
    enum option_type type;
    size_t offset_bytes;        /* of the field in struct tide_options */
    uint32_t min, max;          /* of a number */
    const char *const *choices; /* in the order of the enum; NULL at the end */
};

#define FIELD(name) offsetof(struct tide_options, name)

static const char *const start_choices[] = {"auto", "manual", NULL};
static const char *const report_choices[] = {"none", "text", "json", "html",
                                             NULL};
static const char *const states_choices[] = {"merged", "apart", NULL};
static const char *const backend_choices[] = {"arena", "system", NULL};
static const char *const native_choices[] = {"off", "host", "on", NULL};
static const char *const on_signal_choices[] = {
    "toggle", "start", "stop", "save", "mark", "reset", NULL};
static const char *const signal_names[] = {"none", "HUP",  "USR1",
                                           "USR2", "PROF", NULL};
static const uint32_t signal_numbers[] = {0, SIGHUP, SIGUSR1, SIGUSR2, SIGPROF};
static const char *const off_words[] = {"0", "no", "off", "false", NULL};
static const char *const on_words[] = {"1", "yes", "on", "true", NULL};

static const struct tide_option_row option_rows[] = {
    {"out", "FILE", "%n.%p.tide",
     "the profile; %p is the process id, %n the program's name"},
    {"report", "none|text|json|html", "none", "what is printed at exit"},
    {"top", "N", "20", "rows of each list in that report; 0: all"},
    {"start", "auto|manual", "auto",
     "manual: nothing is recorded until the program says so"},
    {"backend", "arena|system", "arena",
     "where small blocks come from: tidemark's size classes, or malloc"},
    {"chunks", "N", "100",
     "generated chunks of one form that are kept apart; 0: none"},
    {"nodes", "N", "4194304",
     "most nodes of the tree of stacks; later stacks are one row"},
    {"limit", "SIZE", "0",
     "most bytes that each Lua state may hold, such as 64M; 0: no limit"},
    {"native", "off|host|on", "off",
     "C frames: host where there is no Lua frame, on below C functions too"},
    {"signal", "none|HUP|USR1|USR2|PROF", "none",
     "the signal that does what on_signal says; one that the program uses "
     "itself is left to it"},
    {"on_signal", "toggle|start|stop|save|mark|reset", "toggle",
     "what the signal does: recording on or off, a copy of the profile, a "
     "mark, or counting anew"},
    {"quiet", "yes|no", "no", "no message on stderr but errors"},
    {"targets", "FILE", "", "rules that put functions into groups"},
    {"states", "merged|apart", "merged",
     "states that come one after the other: one tree, or one each, up to 255"},
    {"sniff", "on|off", "off",
     "look for a Lua without names in the executable, by its first block"},
    {"log", "SECONDS", "0",
     "a line on the heap and the collector every so many seconds; 0: none"},
    {"log_file", "FILE", "",
     "where these lines go, instead of to standard error; %p and %n as in out"},
    {"warn_rate", "SIZE", "4M",
     "such a line says so when more is allocated in a second; 0: never"},
    {"warn_heap", "SIZE", "0",
     "such a line says so when the heap is larger; 0: never"},
    {NULL, NULL, NULL, NULL},
};

static const struct option_entry option_entries[] = {
    {OPTION_PATTERN, FIELD(out), 0, 0, NULL},
    {OPTION_CHOICE, FIELD(report), 0, 0, report_choices},
    {OPTION_NUMBER, FIELD(top), 0, UINT32_MAX, NULL},
    {OPTION_CHOICE, FIELD(start), 0, 0, start_choices},
    {OPTION_CHOICE, FIELD(backend), 0, 0, backend_choices},
    {OPTION_NUMBER, FIELD(chunks), 0, UINT32_MAX, NULL},
    {OPTION_NUMBER, FIELD(nodes), 64, 1u << 27, NULL},
    {OPTION_SIZE, FIELD(limit), 0, 0, NULL},
    {OPTION_CHOICE, FIELD(native), 0, 0, native_choices},
    {OPTION_SIGNAL, FIELD(signal), 0, 0, signal_names},
    {OPTION_CHOICE, FIELD(on_signal), 0, 0, on_signal_choices},
    {OPTION_SWITCH, FIELD(quiet), 0, 0, NULL},
    {OPTION_PATH, FIELD(targets), 0, 0, NULL},
    {OPTION_CHOICE, FIELD(states), 0, 0, states_choices},
    {OPTION_SWITCH, FIELD(sniff), 0, 0, NULL},
    {OPTION_NUMBER, FIELD(log), 0, 86400, NULL},
    {OPTION_PATTERN, FIELD(log_file), 0, 0, NULL},
    {OPTION_SIZE, FIELD(warn_rate), 0, 0, NULL},
    {OPTION_SIZE, FIELD(warn_heap), 0, 0, NULL},
};

#define N_OPTIONS (sizeof option_entries / sizeof option_entries[0])

static_assert(sizeof option_rows / sizeof option_rows[0] == N_OPTIONS + 1,
              "one entry for each row");
static_assert(sizeof(enum tide_opt_start) == 4 &&
                  sizeof(enum tide_opt_report) == 4 &&
                  sizeof(enum tide_opt_backend) == 4 &&
                  sizeof(enum tide_opt_states) == 4 &&
                  sizeof(enum tide_opt_native) == 4 &&
                  sizeof(enum tide_opt_on_signal) == 4,
              "choices are stored as 32 bits");

/* Where a message goes. */
struct complaint {
    char *why;
    size_t why_bytes;
};

/* A piece of the string; not terminated. */
struct span {
    const char *at;
    size_t bytes;
};

/* As much of a value as fits into a message. */
static int span_width(struct span span)
{
    return span.bytes < 60 ? (int)span.bytes : 60;
}

static bool span_is(struct span span, const char *text)
{
    return strlen(text) == span.bytes && memcmp(span.at, text, span.bytes) == 0;
}

static struct span trim(struct span span)
{
    while (span.bytes > 0 && *span.at == ' ') {
        span.at++;
        span.bytes--;
    }
    while (span.bytes > 0 && span.at[span.bytes - 1] == ' ')
        span.bytes--;
    return span;
}

static bool find_word(const char *const *words, struct span value,
                      uint32_t *index)
{
    for (uint32_t i = 0; words[i] != NULL; i++)
        if (span_is(value, words[i])) {
            *index = i;
            return true;
        }
    return false;
}

/* Edits (insert, delete, replace) between a span and a short word. */
static size_t edit_distance(struct span a, const char *b)
{
    size_t row[16];
    const size_t nb = strlen(b);
    if (nb >= sizeof row / sizeof row[0])
        return SIZE_MAX;
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= a.bytes; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            const size_t above = row[j];
            size_t best = diagonal + (a.at[i - 1] != b[j - 1]);
            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[nb];
}

static const char *similar_name_or_null(struct span key)
{
    const char *name = NULL;
    size_t best = 3;
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const size_t d = edit_distance(key, option_rows[i].name);
        if (d < best && d < strlen(option_rows[i].name)) {
            best = d;
            name = option_rows[i].name;
        }
    }
    return name;
}

static enum tide_err complain_unknown(struct span key,
                                      const struct complaint *c)
{
    const char *similar = similar_name_or_null(key);
    if (similar != NULL)
        snprintf(c->why, c->why_bytes,
                 "unknown option '%.*s'; did you mean '%s'?", span_width(key),
                 key.at, similar);
    else
        snprintf(c->why, c->why_bytes,
                 "unknown option '%.*s'; 'tidemark help options' lists them",
                 span_width(key), key.at);
    return TIDE_ERR_ARG;
}

static enum tide_err complain_value(size_t i, const char *takes,
                                    struct span value,
                                    const struct complaint *c)
{
    snprintf(c->why, c->why_bytes, "option '%s' takes %s, not '%.*s'",
             option_rows[i].name, takes, span_width(value), value.at);
    return TIDE_ERR_ARG;
}

static enum tide_err complain_missing(size_t i, const struct complaint *c)
{
    snprintf(c->why, c->why_bytes, "option '%s' needs a value: %s",
             option_rows[i].name, option_rows[i].value);
    return TIDE_ERR_ARG;
}

static enum tide_err set_number(size_t i, struct span value, uint32_t *out,
                                const struct complaint *c)
{
    const struct option_entry *entry = &option_entries[i];
    uint64_t n = 0;
    for (size_t k = 0; k < value.bytes; k++) {
        if (value.at[k] < '0' || value.at[k] > '9')
            return complain_value(i, "a number", value, c);
        if (n <= UINT32_MAX)
            n = n * 10 + (uint64_t)(value.at[k] - '0');
    }
    if (n < entry->min || n > entry->max) {
        char takes[64];
        snprintf(takes, sizeof takes, "a number from %lu to %lu",
                 (unsigned long)entry->min, (unsigned long)entry->max);
        return complain_value(i, takes, value, c);
    }
    *out = (uint32_t)n;
    return TIDE_OK;
}

/* The power of 1024 that a suffix stands for: "", K, MB, GiB; -1: none. */
static int power_of_suffix(struct span suffix)
{
    static const char letters[] = "KMGT";
    if (suffix.bytes == 0 || span_is(suffix, "B"))
        return 0;
    const char letter = suffix.at[0] >= 'a' && suffix.at[0] <= 'z'
                            ? (char)(suffix.at[0] - 'a' + 'A')
                            : suffix.at[0];
    const char *at = strchr(letters, letter);
    const struct span rest = {suffix.at + 1, suffix.bytes - 1};
    if (letter == '\0' || at == NULL ||
        (rest.bytes != 0 && !span_is(rest, "B") && !span_is(rest, "iB")))
        return -1;
    return (int)(at - letters) + 1;
}

static enum tide_err set_size(size_t i, struct span value, uint64_t *out,
                              const struct complaint *c)
{
    uint64_t n = 0;
    size_t k = 0;
    bool fits = true;
    for (; k < value.bytes && value.at[k] >= '0' && value.at[k] <= '9'; k++) {
        const uint64_t digit = (uint64_t)(value.at[k] - '0');
        fits = fits && n <= (UINT64_MAX - digit) / 10;
        n = n * 10 + digit;
    }
    const struct span suffix = {value.at + k, value.bytes - k};
    const int power = power_of_suffix(suffix);
    if (k == 0 || power < 0)
        return complain_value(i, "a size such as 64M", value, c);
    if (!fits || (n << 10 * power) >> 10 * power != n)
        return complain_value(i, "a size that fits 64 bits", value, c);
    *out = n << 10 * power;
    return TIDE_OK;
}

static bool is_path(const struct option_entry *entry)
{
    return entry->type == OPTION_PATH || entry->type == OPTION_PATTERN;
}

/* Whether tideC_options_expand knows all that stands behind percent signs. */
static bool has_known_letters(const char *pattern)
{
    for (const char *p = pattern; (p = strchr(p, '%')) != NULL; p += 2)
        if (p[1] != 'p' && p[1] != 'n' && p[1] != '%')
            return false;
    return true;
}

/* Doubled quotes stand for one; the parser has seen that they are paired. */
static enum tide_err set_path(size_t i, struct span value, bool is_quoted,
                              char *out, const struct complaint *c)
{
    size_t n = 0;
    for (size_t k = 0; k < value.bytes; k++) {
        if (n + 1 >= TIDE_OPT_PATH_MAX) {
            snprintf(c->why, c->why_bytes,
                     "option '%s' is longer than %u bytes", option_rows[i].name,
                     TIDE_OPT_PATH_MAX - 1);
            return TIDE_ERR_ARG;
        }
        out[n++] = value.at[k];
        if (is_quoted && value.at[k] == '"')
            k++;
    }
    out[n] = '\0';
    if (option_entries[i].type == OPTION_PATTERN && !has_known_letters(out))
        return complain_value(i, "a file with %p, %n and %% alone", value, c);
    return TIDE_OK;
}

/* With "SIG" in front or without. */
static enum tide_err set_signal(size_t i, struct span value, uint32_t *out,
                                const struct complaint *c)
{
    const size_t n = sizeof "SIG" - 1;
    struct span name = value;
    uint32_t index;
    if (name.bytes > n && memcmp(name.at, "SIG", n) == 0) {
        name.at += n;
        name.bytes -= n;
    }
    if (!find_word(signal_names, name, &index))
        return complain_value(i, option_rows[i].value, value, c);
    *out = signal_numbers[index];
    return TIDE_OK;
}

static enum tide_err set_switch(size_t i, struct span value, bool *out,
                                const struct complaint *c)
{
    uint32_t index;
    if (find_word(on_words, value, &index))
        *out = true;
    else if (find_word(off_words, value, &index))
        *out = false;
    else
        return complain_value(i, "yes or no", value, c);
    return TIDE_OK;
}

static enum tide_err set_option(size_t i, struct span value, bool is_quoted,
                                struct tide_options *options,
                                const struct complaint *c)
{
    const struct option_entry *entry = &option_entries[i];
    char *field = (char *)options + entry->offset_bytes;
    if (is_path(entry))
        return set_path(i, value, is_quoted, field, c);
    if (value.bytes == 0)
        return complain_missing(i, c);
    if (entry->type == OPTION_NUMBER)
        return set_number(i, value, (uint32_t *)(void *)field, c);
    if (entry->type == OPTION_SIZE)
        return set_size(i, value, (uint64_t *)(void *)field, c);
    if (entry->type == OPTION_SWITCH)
        return set_switch(i, value, (bool *)field, c);
    if (entry->type == OPTION_SIGNAL)
        return set_signal(i, value, (uint32_t *)(void *)field, c);
    if (find_word(entry->choices, value, (uint32_t *)(void *)field))
        return TIDE_OK;
    return complain_value(i, option_rows[i].value, value, c);
}

void tideC_options_default(struct tide_options *options)
{
    char why[128];
    const struct complaint c = {why, sizeof why};
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const char *text = option_rows[i].default_text;
        const struct span value = {text, strlen(text)};
        set_option(i, value, false, options, &c);
    }
}

/*
** Takes what stands before the next comma outside of quotes, and the comma.
** False: a quote is not closed.
*/
static bool next_item(const char **text, struct span *item)
{
    bool is_in_quotes = false;
    const char *p = *text;
    item->at = p;
    for (; *p != '\0' && (is_in_quotes || *p != ','); p++)
        if (*p == '"')
            is_in_quotes = !is_in_quotes;
    item->bytes = (size_t)(p - item->at);
    *item = trim(*item);
    *text = *p == ',' ? p + 1 : p;
    return !is_in_quotes;
}

/* True when all of the value is in quotes, which are then taken off. */
static bool unquote(struct span *value)
{
    if (value->bytes < 2 || value->at[0] != '"' ||
        value->at[value->bytes - 1] != '"')
        return false;
    value->at++;
    value->bytes -= 2;
    for (size_t k = 0; k < value->bytes; k++)
        if (value->at[k] == '"' &&
            (++k >= value->bytes || value->at[k] != '"')) {
            value->at--;
            value->bytes += 2;
            return false;
        }
    return true;
}

static enum tide_err parse_item(struct span item, struct tide_options *options,
                                const struct complaint *c)
{
    const char *equals = memchr(item.at, '=', item.bytes);
    struct span key = item, value = {"", 0};
    if (equals != NULL) {
        key.bytes = (size_t)(equals - item.at);
        value.at = equals + 1;
        value.bytes = item.bytes - key.bytes - 1;
    }
    key = trim(key);
    value = trim(value);
    const bool is_quoted = unquote(&value);
    for (size_t i = 0; i < N_OPTIONS; i++) {
        if (!span_is(key, option_rows[i].name))
            continue;
        if (equals == NULL && option_entries[i].type == OPTION_SWITCH)
            value = (struct span){"yes", 3};
        else if (equals == NULL && is_path(&option_entries[i]))
            return complain_missing(i, c);
        return set_option(i, value, is_quoted, options, c);
    }
    return complain_unknown(key, c);
}

enum tide_err tideC_options_parse(const char *text,
                                  struct tide_options *options, char *why,
                                  size_t why_bytes)
{
    const struct complaint c = {why, why_bytes};
    if (strcmp(text, "1") == 0)
        return TIDE_OK;
    while (*text != '\0') {
        struct span item;
        if (!next_item(&text, &item)) {
            snprintf(why, why_bytes, "no closing quote after '%.*s'",
                     span_width(item), item.at);
            return TIDE_ERR_ARG;
        }
        if (item.bytes > 0)
            TIDE_TRY(parse_item(item, options, &c));
    }
    return TIDE_OK;
}

const struct tide_option_row *tideC_options_table(void)
{
    return option_rows;
}

/* A program may be given by its path; its name stands in a file's name. */
static const char *base_name(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    return *name != '\0' ? name : "unknown";
}

enum tide_err tideC_options_expand(const char *pattern, int pid,
                                   const char *program, char *out,
                                   size_t out_bytes)
{
    char number[16], letter[2] = {'\0', '\0'};
    size_t n = 0;
    snprintf(number, sizeof number, "%d", pid);
    for (const char *p = pattern; *p != '\0'; p++) {
        const char *text = letter;
        letter[0] = *p;
        if (*p == '%') {
            p++;
            if (*p == 'p')
                text = number;
            else if (*p == 'n')
                text = base_name(program);
            else if (*p != '%')
                return TIDE_ERR_ARG;
        }
        const size_t bytes = strlen(text);
        if (n + bytes >= out_bytes)
            return TIDE_ERR_NOMEM;
        memcpy(out + n, text, bytes);
        n += bytes;
    }
    if (out_bytes == 0)
        return TIDE_ERR_NOMEM;
    out[n] = '\0';
    return TIDE_OK;
}
