/*
** model.h: a profile as reports need it: all heaps merged, sums by line,
** function, stack, kind and group.  Every renderer works from this.
**
**   frame   a function at a line
**   node    a frame and the node that called it: the calling context tree.
**           Node 0 is the root; parent < own index
**   stack   one kind of blocks of one node: a merged cell
**   line    a source and a line.  The bytes of a node belong to the line of
**           its innermost Lua frame: C functions are charged to their caller.
**           A finalizer's C functions are not charged to the line that was
**           interrupted
**   group   the source file of a Lua function, the module or library of a C
**           function
**
** Invariants, proved by the tests:
**   live = inherited + alloc + moved - freed, in every row
**   sum of lines + unattributed = totals, in every counter
**   sum of own counts of functions = sum of groups = sum of kinds = totals
**
** Counters are added without a check for overflow: a damaged profile gives
** wrong figures, nothing worse.
*/
#ifndef TIDE_MODEL_H
#define TIDE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/err.h"
#include "../common/kind.h"
#include "../profile/reader.h"
#include "strtab.h"

#define TIDE_R_NONE 0u /* no frame, stack, line, kind row: index 0 is unused */

/* Counters of a row.  Bytes and blocks as in struct tide_p_cell. */
struct tide_r_counts {
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t freed_bytes;
    uint64_t freed_blocks;
    uint64_t live_bytes;
    uint64_t live_blocks;
    uint64_t young_bytes;
    uint64_t young_blocks;
    uint64_t peak_bytes; /* held when the heap stood highest */
    uint64_t peak_blocks;
    uint64_t inherited_bytes; /* alive when counting began: fork, reset */
    uint64_t inherited_blocks;
    int64_t moved_bytes;
    int64_t moved_blocks;
};

struct tide_r_func {
    uint32_t source;         /* string; without Lua's leading @ or = */
    uint32_t name;           /* string; "" in the profile: made up, not "" */
    uint32_t group;          /* index in groups */
    uint32_t linedefined;    /* first line; 0: not Lua */
    uint64_t address;        /* of a nameless C function; else 0 */
    uint64_t calls;          /* activations that allocated */
    uint64_t max_call_bytes; /* own and below, of the worst activation */
    uint64_t total_bytes;    /* own and below, each byte once */
    uint64_t total_blocks;
    struct tide_r_counts own;
    enum tide_p_what what;
};

struct tide_r_frame {
    uint32_t func;
    uint32_t line;       /* line being run; 0: not Lua, or not known */
    uint32_t line_row;   /* index in lines; NONE: not a Lua frame */
    uint64_t line_bytes; /* allocated by this function on its line */
};

struct tide_r_node {
    uint32_t parent;
    uint32_t frame;
    uint32_t lua_frame;   /* innermost Lua frame; NONE: none */
    uint32_t first_stack; /* NONE: none */
};

/* Counters stay in the profile: see tideR_model_stack_counts. */
struct tide_r_stack {
    uint32_t node;
    uint32_t next; /* of the same node; NONE: none */
    uint32_t heap;
    uint32_t cell;
    uint32_t more; /* the same in another heap: index in stacks; NONE */
    uint32_t kind; /* enum tide_kind; TIDE_R_KIND_MORE: reached by `more` */
};
#define TIDE_R_KIND_MORE 0xFFu

struct tide_r_line {
    uint32_t source; /* string */
    uint32_t line;
    uint32_t best_frame; /* whose function allocated most here */
    uint32_t first_kind; /* NONE: none */
    struct tide_r_counts counts;
};

/* What a line has of one kind. */
struct tide_r_line_kind {
    uint32_t kind;
    uint32_t next; /* of the same line; NONE: none */
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t live_bytes;
    uint64_t live_blocks;
};

struct tide_r_group {
    uint32_t name; /* string */
    uint32_t n_funcs;
    struct tide_r_counts counts;
};

struct tide_r_cycle {
    const struct tide_p_cycle *record;
    uint32_t line_row; /* what ran; NONE: not known */
};

struct tide_r_event {
    const struct tide_p_event *record;
    uint32_t line_row; /* what ran; NONE: not known */
    uint32_t heap;
};

/* The collector, in the units and by the names of GcWatch. */
struct tide_r_gc {
    const char *mode;     /* "incremental", "generational", "unknown" */
    double heap_kb;       /* held at the end */
    double peak_kb;       /* most ever held */
    double alloc_kb_s;    /* over the whole run */
    double cycles_min;    /* over the whole run */
    uint64_t cycles;      /* seen; not all may have a record */
    double last_kb;       /* freed by the last cycle */
    double average_kb;    /* freed by a cycle */
    double reclaimed_kb;  /* freed by all cycles */
    uint64_t n_explicit;  /* records with that cause */
    uint64_t n_emergency; /* records with that cause */
    double collect_s;     /* inside collections that were timed */
    uint64_t n_timed;     /* calls of lua_gc that were */
};

/*
** What lines had alive after whole collections, the heap with the most of them
** (few programs have more than one state).  Column i is of the collection
** cycles[i]; there are at most TIDE_P_FLOORS, spread over the run.
*/
struct tide_r_floors {
    uint64_t *bytes; /* n_lines rows of TIDE_P_FLOORS; line 0: no line */
    uint32_t n;      /* columns; 0: nothing is known */
    uint32_t n_work; /* without those that see all let go of at the end */
    double end_s;    /* the end of the work: see n_work */
    double end_alloc;
    uint32_t cycles[TIDE_P_FLOORS];
    double seconds[TIDE_P_FLOORS]; /* since the start of the run */
    double alloc[TIDE_P_FLOORS];   /* bytes allocated by then */
    uint64_t heap[TIDE_P_FLOORS];  /* of all lines */
};

/* How a row of floors goes. */
struct tide_r_trend {
    uint64_t first_bytes; /* where it was looked at: warming up is left out */
    uint64_t last_bytes;
    uint32_t n_steps;        /* from column to column */
    uint32_t n_rises;        /* of these */
    double growth_per_cycle; /* bytes */
    double growth_per_min;   /* bytes; 0: no time went by */
    unsigned confidence;     /* that it goes on rising: 0 no .. 3 high */
};

/* One figure that a finding stands on. */
struct tide_r_fact {
    const char *name; /* "growth_bytes_per_cycle" */
    double value;
};
#define TIDE_R_FACTS_MAX 10u

/* Something the reader of a report has to know. */
struct tide_r_finding {
    const char *kind; /* "leak", "churn", "gc", "memory", "note" */
    char text[400];
    uint32_t line_row; /* NONE: about no line */
    uint64_t bytes;    /* 0: none */
    double weight;     /* the more the earlier it stands */
    struct tide_r_fact facts[TIDE_R_FACTS_MAX];
    uint32_t n_facts;
};
#define TIDE_R_FINDINGS_MAX 48u
#define TIDE_R_NOTES_MAX    16u /* of these: kept free for notes */

struct tide_model {
    struct tide_profile *profile; /* owned */
    const struct tide_p_header *header;
    struct tide_strtab strings;
    struct tide_r_func *funcs; /* func 0 is the root */
    struct tide_r_frame *frames;
    struct tide_r_node *nodes;
    struct tide_r_stack *stacks;
    struct tide_r_line *lines;
    struct tide_r_line_kind *line_kinds;
    struct tide_r_group *groups;
    struct tide_r_cycle *cycles; /* in time order */
    struct tide_r_event *events; /* by heap, each in time order */
    uint32_t n_funcs;
    uint32_t n_frames; /* with the unused ones at 0 */
    uint32_t n_nodes;
    uint32_t n_stacks;
    uint32_t n_lines;
    uint32_t n_line_kinds;
    uint32_t n_groups;
    uint32_t n_cycles;
    uint32_t n_events;
    struct tide_r_counts totals;
    struct tide_r_counts unattributed; /* of the totals: no Lua line */
    struct tide_r_counts kinds[TIDE_KIND_COUNT_];
    uint64_t before_bytes;       /* made before the attach, still held */
    uint64_t before_freed_bytes; /* made before the attach, freed */
    uint64_t failed_blocks;      /* allocations that returned NULL */
    uint64_t unknown_calls;      /* allocator calls from unknown addresses */
    uint64_t inferred_bytes;     /* line or thread was inferred */
    uint64_t n_states;           /* lua_States */
    double seconds;              /* from start to end, or to the last event */
    bool is_complete;            /* finished in order, nothing is missing */
    struct tide_r_gc gc;
    struct tide_r_floors floors;
    struct tide_r_finding findings[TIDE_R_FINDINGS_MAX];
    uint32_t n_findings;
};

/*
** Opens a profile and builds its model.
** problem  filled when the result is not TIDE_OK.
** Errors: those of tideP_reader_open; NOMEM.
*/
enum tide_err tideR_model_open(const char *path, struct tide_model **out,
                               struct tide_p_problem *problem);

/* NULL is allowed. */
void tideR_model_close(struct tide_model *model_or_null);

/* Counts of one stack, over all heaps. */
void tideR_model_stack_counts(const struct tide_model *model, uint32_t stack,
                              struct tide_r_counts *out);

/* Whether every counter is 0: a frame that only stands below others. */
bool tideR_counts_are_zero(const struct tide_r_counts *counts);

/* The function of a node's own frame. */
const struct tide_r_func *tideR_model_func(const struct tide_model *model,
                                           uint32_t node);

/* The function that a line's row names. */
const struct tide_r_func *tideR_line_func(const struct tide_model *model,
                                          const struct tide_r_line *line);

/* "Lua", "C" or "main". */
const char *tideR_what_name(enum tide_p_what what);

/* The mode that the program had chosen: "incremental", "generational". */
const char *tideR_mode_name(const struct tide_p_cycle *cycle);

/* What a cycle was: "incremental", "minor", "major", "full", "unknown". */
const char *tideR_collection_name(unsigned mode);

/* Whether it is Lua code, with lines of its own. */
bool tideR_what_is_lua(enum tide_p_what what);

/*
** The trend of one row of TIDE_P_FLOORS.
** live_bytes  what the line held at the very end.
*/
struct tide_r_trend tideR_trend(const struct tide_r_floors *floors,
                                const uint64_t *row, uint64_t live_bytes);

/*
** Is there enough to tell whether anything leaks?  Either enough whole
** collections were seen, or many minor ones over a heap that has not grown.
*/
bool tideR_has_verdict(const struct tide_model *model);

/* Columns that a verdict takes, at least. */
#define TIDE_R_COLUMNS_LEAST 5u

/* A text of the model; *n gets its bytes. */
const char *tideR_model_text(const struct tide_model *model, uint32_t string,
                             size_t *n);

/*
** Children of every node, for walks from the root down: first[n] and next[n]
** are nodes, 0 past the last; in order of their numbers.
*/
struct tide_r_children {
    uint32_t *first;
    uint32_t *next;
};
enum tide_err tideR_children_open(const struct tide_model *model,
                                  struct tide_r_children *out);
void tideR_children_close(struct tide_r_children *children);

/*
** The node after this one in a walk that takes parents first; 0 at the end.
** left_fn  called for every node that the walk leaves, the deepest first.
*/
typedef void (*tide_r_left_fn)(void *ctx, uint32_t node);
uint32_t tideR_children_step(const struct tide_model *model,
                             const struct tide_r_children *children,
                             uint32_t node, tide_r_left_fn left_fn, void *ctx);

#endif
