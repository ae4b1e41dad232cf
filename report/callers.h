/*
** callers.h: who calls a function, by file and line.
*/
#ifndef TIDE_CALLERS_H
#define TIDE_CALLERS_H

#include <stdio.h>

#include "render.h"

/* A line from which the function was called. */
struct tide_r_caller {
    uint32_t frame;  /* of the caller: index in frames; 0: the host */
    uint32_t callee; /* the function: index in funcs */
    uint64_t bytes;  /* allocated by it and below, called from here */
    uint64_t blocks; /* the same */
    uint64_t live_bytes;
    uint64_t calls;          /* that allocated, from here */
    uint64_t max_call_bytes; /* of the worst one */
};

struct tide_r_callers {
    struct tide_r_caller *rows; /* the most bytes first */
    uint32_t n;
    uint32_t n_funcs; /* functions of that name */
};

/*
** Finds the callers of all functions of a name; where it calls itself, the
** outermost call counts.
** out  freed by tideR_callers_close.  Errors: NOMEM.
*/
enum tide_err tideR_callers_find(const struct tide_model *model,
                                 const char *name, struct tide_r_callers *out);

void tideR_callers_close(struct tide_r_callers *callers);

/*
** Writes them as a table or as JSON; top 0: all.
** Errors: STATE (nothing of that name was called), NOMEM, IO.
*/
enum tide_err tideR_callers_show(const struct tide_model *model,
                                 const char *name, uint32_t top, bool is_json,
                                 FILE *out);

#endif
