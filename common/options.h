/*
** options.h: the one table of options, for the environment (TIDEMARK=...),
** the command (--set), the C interface and Lua.
**
** A string of options is "key=value,key=value"; "1" alone and "" mean the
** defaults.  A value may be quoted with "..." to hold commas; "" in it is one
** quote.  A switch may stand alone: "quiet" is "quiet=yes".
*/
#ifndef TIDE_OPTIONS_H
#define TIDE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

enum tide_opt_start {
    TIDE_START_AUTO = 0, /* record from the first allocation */
    TIDE_START_MANUAL,   /* wait for start */
};

enum tide_opt_report {
    TIDE_REPORT_NONE = 0,
    TIDE_REPORT_TEXT,
    TIDE_REPORT_JSON,
    TIDE_REPORT_HTML,
};

enum tide_opt_states {
    TIDE_STATES_MERGED = 0, /* one after the other share a tree */
    TIDE_STATES_APART,      /* each has its own, up to a limit */
};

enum tide_opt_backend {
    TIDE_BACKEND_ARENA = 0, /* tidemark's own size classes */
    TIDE_BACKEND_SYSTEM,    /* malloc of the process */
};

enum tide_opt_native {
    TIDE_NATIVE_OFF = 0, /* no C frames */
    TIDE_NATIVE_HOST,    /* where there is no Lua frame */
    TIDE_NATIVE_ON,      /* below every C function that is not Lua's own */
};

/* What the signal does. */
enum tide_opt_on_signal {
    TIDE_ON_SIGNAL_TOGGLE = 0, /* recording on, or off */
    TIDE_ON_SIGNAL_START,
    TIDE_ON_SIGNAL_STOP,
    TIDE_ON_SIGNAL_SAVE,
    TIDE_ON_SIGNAL_MARK,
    TIDE_ON_SIGNAL_RESET,
};

#define TIDE_OPT_PATH_MAX 1024u

struct tide_options {
    char out[TIDE_OPT_PATH_MAX]; /* pattern with %p %n; "": memory only */
    enum tide_opt_report report; /* printed at exit */
    uint32_t top;                /* rows in that report; 0: all */
    enum tide_opt_start start;
    enum tide_opt_backend backend;
    uint32_t chunks;             /* generated chunks kept apart */
    uint32_t nodes;              /* nodes of the tree at most */
    uint64_t limit;              /* bytes that a state may hold; 0: no limit */
    enum tide_opt_native native; /* which C frames are recorded */
    uint32_t signal; /* number of the signal that commands; 0: none */
    enum tide_opt_on_signal on_signal;
    bool quiet;                      /* no message on stderr but errors */
    char targets[TIDE_OPT_PATH_MAX]; /* file of rules; "": none */
    enum tide_opt_states states;
    bool sniff;   /* look for a Lua without names as well */
    uint32_t log; /* seconds between two lines on the heap; 0: none */
    char log_file[TIDE_OPT_PATH_MAX]; /* pattern; "": standard error */
    uint64_t warn_rate;               /* bytes a second; 0: never */
    uint64_t warn_heap;               /* bytes; 0: never */
};

/* Fills in the defaults. */
void tideC_options_default(struct tide_options *options);

/*
** Reads a string over what `options` holds.
** why  gets the message of an error: "unknown option 'x'"; why_bytes its size.
** Errors: ARG; options are then undefined.
*/
enum tide_err tideC_options_parse(const char *text,
                                  struct tide_options *options, char *why,
                                  size_t why_bytes);

/*
** One row of the table, for `tidemark help options`: NULL name past the last.
*/
struct tide_option_row {
    const char *name;         /* "out" */
    const char *value;        /* what it takes: "FILE" */
    const char *default_text; /* "%n.%p.tide" */
    const char *meaning;      /* one sentence */
};
const struct tide_option_row *tideC_options_table(void);

/*
** Expands %p (process id), %n (program name) and %% of a pattern.
** Errors: ARG (unknown letter), NOMEM (does not fit).
*/
enum tide_err tideC_options_expand(const char *pattern, int pid,
                                   const char *program, char *out,
                                   size_t out_bytes);

#endif
