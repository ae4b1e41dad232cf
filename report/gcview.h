/*
** gcview.h: what `tidemark gc` shows: a chart of the heap, the cycles, what was
** done to the collector, and what survives, by line.
*/
#ifndef TIDE_GCVIEW_H
#define TIDE_GCVIEW_H

#include <stdio.h>

#include "model.h"
#include "render.h"

/* What is shown of a profile, and how. */
struct tide_r_gcquery {
    uint32_t top;   /* rows of each table; 0: all */
    bool by_stack;  /* what survives, and ages: not by line */
    bool by_state;  /* each state by itself, and not all together */
    uint32_t state; /* only this one; TIDE_R_STATES: all */
};
#define TIDE_R_STATES UINT32_MAX

/*
** For people.  The chart, the timeline and what survives are those of one
** state, by_state of each.
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_gc_text(const struct tide_model *model,
                            const struct tide_r_gcquery *query,
                            const struct tide_r_look *look, FILE *out);

/* For programs: everything.  Errors: IO (errno says why), NOMEM. */
enum tide_err tideR_gc_json(const struct tide_model *model, FILE *out);

/* The heap whose timeline is shown: the one that stood highest; 0: none. */
uint32_t tideR_gc_highest(const struct tide_model *model);

/* One state from the side of the collector. */
struct tide_r_gcstate {
    uint32_t heap; /* its number in the profile */
    uint32_t pid;
    uint32_t n_states; /* that used it in turn */
    bool is_open;
    const char *mode; /* of its last collection; "unknown": there was none */
    uint64_t cycles;
    uint64_t alloc_bytes;
    uint64_t live_bytes;
    uint64_t peak_bytes;
    uint64_t floor_bytes; /* what the last collection left */
    uint64_t freed_bytes; /* by all of them */
};

/*
** All states, those that allocated most first.
** n  how many there are; may be 0.
** Returns an array, freed by free(); NULL: no memory.
*/
struct tide_r_gcstate *tideR_gcstates_or_null(const struct tide_model *model,
                                              uint32_t *n);

/* Lines, or stacks with their kinds, seen from the collector. */
struct tide_r_gclist {
    const struct tide_model *model;
    bool by_stack;
    bool is_one_state; /* counts are that state's, not all states' */
    const struct tide_r_floors *floors;
    struct tide_r_floors own_floors; /* owned; unused: the model's are shown */
    uint64_t *stack_floors;          /* owned; NULL: by line */
    struct tide_r_counts *judged;    /* owned; of lines; NULL: by stack */
};

/*
** heap          whose floors are shown.
** is_one_state  counts of that heap alone, without the table of strings.
** out           closed by tideR_gclist_close, also after an error.
** Errors: NOMEM, IO.
*/
enum tide_err tideR_gclist_open(const struct tide_model *model, uint32_t heap,
                                bool is_one_state, bool by_stack,
                                struct tide_r_gclist *out);
void tideR_gclist_close(struct tide_r_gclist *list);

struct tide_r_gcrow {
    struct tide_r_counts counts;
    struct tide_r_trend trend;
    const uint64_t *floors; /* TIDE_P_FLOORS of them; the list's */
};

/* row  index in lines, or in stacks. */
void tideR_gclist_row(const struct tide_r_gclist *list, uint32_t row,
                      struct tide_r_gcrow *out);

/*
** Rows that have any, the highest first.
** by_freed  by what was freed; else by what the last collection left.
** rows      freed by free(); NULL where there is none.
** Errors: NOMEM.
*/
enum tide_err tideR_gclist_sort(const struct tide_r_gclist *list, bool by_freed,
                                uint32_t **rows, uint32_t *n);

/*
** A stack in words, callers first, with its kind: of that many frames at most,
** the innermost.
*/
void tideR_stack_place(const struct tide_model *model, uint32_t stack,
                       uint32_t n_frames, char *out, size_t out_bytes);

/* Its place in words: callers first, for a stack. */
void tideR_gclist_place(const struct tide_r_gclist *list, uint32_t row,
                        char *out, size_t out_bytes);

/* "stop", "restart", "mode", "pause", "stepmul". */
const char *tideR_event_name(unsigned what);

/* What collecting took at least, seconds: all that was timed. */
double tideR_gc_time(const struct tide_model *model);

#endif
