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
**   group   what the program has named, or its rules; else the module of a
**           function, the C library, the source file
**   target  a function that was put into a group, or a region; each function
**           of a module or library; all others together.  The bytes of a node
**           belong to the nearest function or region above it that was named,
**           else to its own function
**
** Invariants, proved by the tests:
**   live = inherited + alloc + moved - freed, in every row
**   sum of lines + unattributed = totals, in every counter
**   sum of own counts of functions = sum of groups = sum of targets
**     = sum of kinds = totals
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
#include "packed.h"
#include "strtab.h"
#include "symbols.h"

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
    uint64_t held_bytes; /* held when memory ran out; 0: it did not */
    uint64_t held_blocks;
    /* of freed, see struct tide_p_life: survived one collection, two */
    uint64_t once_bytes;
    uint64_t once_blocks;
    uint64_t twice_bytes;
    uint64_t twice_blocks;
    uint64_t ageless_bytes; /* of freed: died at no age */
    uint64_t ageless_blocks;
    uint64_t regrown_bytes; /* of tables, that were too small */
    uint64_t n_regrown;
};

/* How a target came to be one. */
enum tide_r_target_sort {
    TIDE_R_TARGET_NONE = 0, /* a function of a module or C library */
    TIDE_R_TARGET_NAMED,    /* by the program or a rule */
    TIDE_R_TARGET_REGION,
    TIDE_R_TARGET_REST /* what is below no target */
};

struct tide_r_func {
    uint32_t source;         /* string; without Lua's leading @ or = */
    uint32_t name;           /* string; "" in the profile: made up, not "" */
    uint32_t group;          /* index in groups */
    uint32_t linedefined;    /* first line; 0: not Lua */
    uint32_t object;         /* string: file of a place in machine code */
    uint64_t address;        /* of a nameless C function; else 0 */
    uint64_t calls;          /* activations that allocated */
    uint64_t max_call_bytes; /* own and below, of the worst activation */
    uint64_t total_bytes;    /* own and below, each byte once */
    uint64_t total_blocks;
    struct tide_r_counts own;
    enum tide_p_what what;
    enum tide_r_target_sort sort; /* NONE: nobody has named it */
    uint32_t module;              /* string; "": not known */
    uint32_t target_group;        /* string; only if sort is not NONE */
    uint32_t target_name;         /* string */
    uint32_t target;              /* row in targets; 0: the rest */
};

struct tide_r_frame {
    uint32_t func;
    uint32_t line;       /* line being run; 0: not known */
    uint32_t line_row;   /* index in lines; NONE: not a Lua frame */
    uint64_t line_bytes; /* allocated by this function on its line */
};

struct tide_r_node {
    uint32_t parent;
    uint32_t frame;
    uint32_t lua_frame;      /* innermost Lua frame; NONE: none */
    uint32_t first_stack;    /* NONE: none */
    uint32_t target;         /* row in targets that its bytes are of */
    uint64_t calls;          /* activations that allocated, first seen here */
    uint64_t max_call_bytes; /* own and below, of the worst of these */
};

/* In the order of heaps and cells.  Counters: see tideR_model_stack_counts. */
struct tide_r_stack {
    uint32_t node;
    uint32_t next; /* of the same node; NONE: none */
    uint32_t cell;
    uint32_t more;   /* the same in another heap: index in stacks; NONE */
    uint32_t counts; /* see tideR_unpack; not those of `more` */
    uint16_t heap;
    uint8_t kind;      /* enum tide_kind; TIDE_R_KIND_MORE: reached by `more` */
    uint8_t cell_kind; /* the same, even then */
};
#define TIDE_R_KIND_MORE 0xFFu

struct tide_r_line {
    uint32_t source; /* string */
    uint32_t line;
    uint32_t best_frame;  /* whose function allocated most here */
    uint32_t first_stack; /* in line_stacks, up to that of the next line */
    struct tide_r_counts counts;
};

/* What a line has of one kind. */
struct tide_r_line_kind {
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t live_bytes;
    uint64_t live_blocks;
};

struct tide_r_group {
    uint32_t name; /* string */
    uint32_t n_funcs;
    bool is_named; /* by the program, a rule or as regions: shown if empty */
    struct tide_r_counts counts; /* of its targets */
};

/* Row 0 is the rest. */
struct tide_r_target {
    uint32_t group;       /* index in groups */
    uint32_t name;        /* string: what the program calls it */
    uint32_t source;      /* string; "": a region, or the rest */
    uint32_t linedefined; /* first line; 0: none */
    enum tide_r_target_sort sort;
    uint64_t calls;          /* activations that allocated */
    uint64_t max_call_bytes; /* of the worst one, nested targets with it */
    struct tide_r_counts counts;
};

/* Functions that match are of this group; all strings. */
struct tide_r_rule {
    uint32_t group;
    uint32_t source;
    uint32_t module;
    uint32_t name;
    bool has_pattern; /* false: there is such a group, and that is all */
};

struct tide_r_cycle {
    const struct tide_p_cycle *record;
    uint32_t line_row; /* what ran; NONE: not known */
    uint32_t heap;
};

struct tide_r_event {
    const struct tide_p_event *record;
    uint32_t line_row; /* what ran; NONE: not known */
    uint32_t heap;
};

/* A moment with a name, of all heaps that were marked at once. */
struct tide_r_mark {
    const struct tide_p_mark *record; /* of the first of them */
    uint32_t label;                   /* string */
    uint32_t line_row;                /* what ran; NONE: not known */
    uint32_t heap;                    /* of the record */
    uint64_t live_bytes;              /* of all of them */
    uint64_t alloc_bytes;
};

/* The largest block of one kind that a stack ever had, where it was huge. */
struct tide_r_block {
    const struct tide_p_huge *record;
    uint32_t stack; /* in its heap: it may be one that is reached by `more` */
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
    double collect_s;     /* inside collections that were asked for */
    double emergency_s;   /* in emergency collections, up to their sweep */
    double sweep_s;       /* in parts of other sweeps */
    uint64_t n_timed;     /* calls of lua_gc that were */
};

/*
** What lines had alive after whole collections of one heap; that of a model is
** the heap with the most of them.  Column i is of the collection cycles[i];
** there are at most TIDE_P_FLOORS, spread over the run.
*/
struct tide_r_floors {
    uint64_t *bytes;    /* n_lines rows of TIDE_P_FLOORS; line 0: no line */
    uint32_t number;    /* of the heap */
    uint32_t n;         /* columns; 0: nothing is known */
    uint32_t start;     /* the first that is none of starting up */
    uint32_t n_work;    /* without those that see all let go of at the end */
    double n_since;     /* collections since the last column, and by how ... */
    double grown_since; /* ... much the heap stood higher after the last */
    double end_s;       /* the end of the work: see n_work */
    double end_alloc;
    uint32_t cycles[TIDE_P_FLOORS];
    double seconds[TIDE_P_FLOORS]; /* since the start of the run */
    double alloc[TIDE_P_FLOORS];   /* bytes allocated by then */
    uint64_t heap[TIDE_P_FLOORS];  /* of all lines */
    uint64_t lows[TIDE_P_FLOORS];  /* least of it up to the next column */
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

/* How a model is made.  All zero: as reports show it. */
struct tide_r_options {
    bool shows_internals; /* frames of Lua's own C code as well */
    bool asks_servers;    /* names of C code from servers: see symbols.h */
};

struct tide_model {
    struct tide_r_options options;
    struct tide_symbols *symbols; /* owned; NULL: none were needed */
    struct tide_profile *profile; /* owned */
    const struct tide_p_header *header;
    struct tide_strtab strings;
    struct tide_r_func *funcs; /* func 0 is the root */
    struct tide_r_frame *frames;
    struct tide_r_node *nodes;
    struct tide_r_stack *stacks;
    struct tide_packed packed;   /* counters of stacks */
    struct tide_r_counts *heaps; /* sums of each heap's cells */
    struct tide_r_line *lines;
    uint32_t *line_stacks; /* all stacks but 0, by their lines */
    struct tide_r_group *groups;
    struct tide_r_target *targets;
    struct tide_r_rule *rules;   /* in the order in which they were given */
    struct tide_r_cycle *cycles; /* in time order */
    struct tide_r_event *events; /* by heap, each in time order */
    struct tide_r_mark *marks;   /* in time order */
    struct tide_r_block *blocks; /* the largest first */
    uint32_t n_funcs;
    uint32_t n_frames; /* with the unused ones at 0 */
    uint32_t n_nodes;
    uint32_t n_stacks;
    uint32_t n_lines;
    uint32_t n_groups;
    uint32_t n_targets; /* at least 1 */
    uint32_t n_rules;
    uint32_t n_cycles;
    uint32_t n_events;
    uint32_t n_marks;
    uint32_t n_blocks;
    uint64_t n_lost_marks;            /* for which there was no room */
    const struct tide_r_mark *failed; /* when memory ran out; NULL: it did not,
                                         or what was held is not known */
    char *at_mark; /* the profile is shown as it was then; NULL: at its end */
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
    bool has_native; /* there are C frames: stacks without a Lua line say what
                        they are of, and are listed with the others */
    struct tide_r_gc gc;
    struct tide_r_floors floors;
    struct tide_r_finding findings[TIDE_R_FINDINGS_MAX];
    uint32_t n_findings;
};

/*
** Opens a profile and builds its model.
** path     the file, or FILE@MARK: what it was at a mark.  A file whose name
**          has an @ in it is found first.
** Cells are read once and kept packed: in the profile's views there may be
** none, see tideP_reader_open_lean.
** problem  filled when the result is not TIDE_OK.
** Errors: those of tideP_reader_open; NOMEM.
*/
enum tide_err tideR_model_open(const char *path, struct tide_model **out,
                               struct tide_p_problem *problem);

/* The same, made as the options say. */
enum tide_err tideR_model_open_with(const char *path,
                                    const struct tide_r_options *options,
                                    struct tide_model **out,
                                    struct tide_p_problem *problem);

/* NULL is allowed. */
void tideR_model_close(struct tide_model *model_or_null);

/* Whether it is the saved run of another tool: rows without stacks or times. */
bool tideR_is_import(const struct tide_model *model);

/* Counts of one stack, over all heaps. */
void tideR_model_stack_counts(const struct tide_model *model, uint32_t stack,
                              struct tide_r_counts *out);

/* Seconds since the start; 0 for what claims to be before it. */
double tideR_seconds(const struct tide_model *model, uint64_t mono_ns);

/* When a mark was made, in seconds since the start. */
double tideR_mark_seconds(const struct tide_model *model,
                          const struct tide_p_mark *mark);

/* Allocated since the mark before it in its heap, or since the start. */
uint64_t tideR_mark_since(const struct tide_model *model, uint32_t mark);

/* Whether its figures by line are still there: it can be shown and compared. */
bool tideR_mark_has_rows(const struct tide_p_mark *mark);

/* What a line has of each kind; it is added up from its stacks. */
void tideR_line_kinds(const struct tide_model *model, uint32_t line,
                      struct tide_r_line_kind out[TIDE_KIND_COUNT_]);

/* Whether every counter is 0: a frame that only stands below others. */
bool tideR_counts_are_zero(const struct tide_r_counts *counts);

/*
** How much of what was freed had survived no collection, one, two, and more;
** blocks when is_blocks.
*/
#define TIDE_R_AGES 4u
void tideR_ages(const struct tide_r_counts *counts, bool is_blocks,
                uint64_t ages[TIDE_R_AGES]);

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
** The trend of one row of TIDE_P_FLOORS, whose counts these are: in its heap,
** without the table of strings (tideR_heap_counts).
*/
struct tide_r_trend tideR_trend(const struct tide_r_floors *floors,
                                const uint64_t *bytes,
                                const struct tide_r_counts *counts);

/*
** Rows of TIDE_P_FLOORS by stack, of one heap: zeros for what others have.
** floors  of that heap.
** rows    freed by free().  Errors: NOMEM; IO (the file was cut meanwhile).
*/
enum tide_err tideR_stack_floors(const struct tide_model *model,
                                 const struct tide_r_floors *floors,
                                 uint64_t **rows);

/*
** The floors of one heap; n is 0 where it has none, or there is no such heap.
** out  closed by tideR_floors_close, also after an error.
** Errors: NOMEM; IO (the file was cut meanwhile).
*/
enum tide_err tideR_floors_open(const struct tide_model *model, uint32_t heap,
                                struct tide_r_floors *out);

void tideR_floors_close(struct tide_r_floors *floors);

/*
** What lines count in one heap, without the table of strings: that is no
** line's, and floors of lines are without it.
** lines  n_lines of them; filled.
*/
void tideR_heap_counts(const struct tide_model *model, uint32_t heap,
                       struct tide_r_counts *lines);

/* The first stack of a heap, or of one behind it: they are in that order. */
uint32_t tideR_first_stack(const struct tide_model *model, uint32_t heap);

/*
** Is there enough to tell whether anything leaks?  Either enough whole
** collections were seen while it worked, or many minor ones over a heap that
** has not grown.
*/
bool tideR_has_verdict(const struct tide_model *model);

/* Columns that say something of the work, behind its first quarter. */
uint32_t tideR_columns_of_work(const struct tide_r_floors *floors);

/* Of these a verdict takes, at least. */
#define TIDE_R_COLUMNS_LEAST 4u

/* A text of the model; *n gets its bytes. */
const char *tideR_model_text(const struct tide_model *model, uint32_t string,
                             size_t *n);

/*
** The command with blanks between its words, no NUL; returns its bytes.
** out  has room for the header's command.
*/
size_t tideR_command_text(const struct tide_model *model, char *out);

/* The same, or the program where the command is not known. */
size_t tideR_title_text(const struct tide_model *model, char *out);

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
