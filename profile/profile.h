/*
** profile.h: the profile file, its grammar and its limits.
**
** This is the single source of truth for what stands in a NAME.PID.tide file.
** The profiled process maps the file and counts in it (writer.h); a reader
** reads the same file, during the run or after it, and trusts nothing
** (reader.h).  All integers are little-endian, all records have a fixed size.
**
**   file      = header directory extent*
**   header    = struct tide_p_header, TIDE_P_HEADER_BYTES at offset 0
**   directory = struct tide_p_extent[header.extents_max], right behind; whole
**               pages; extents_max <= TIDE_P_EXTENTS_MAX
**   extent    = a run of whole pages (TIDE_P_PAGE) anywhere behind the
**               directory; extents never overlap
**   section   = the extents with the same (heap, section), joined in the
**               order of `ordinal` 0, 1, 2 ...: one array of records
**
** A heap is one lua_State (or several that came one after the other), and has
** one section of each kind in enum tide_p_section.  Section HEAD holds one
** struct tide_p_heap, which says how many records of the others are valid.
**
** Publication: a record is written first, then the count that covers it, with
** release order; a reader loads the count, then the records, with acquire
** order.  The same for extents and `n_extents`.  Counters inside records are
** plain 64-bit words that only the profiled process writes; a reader may see
** two counters of one record at two moments, a few instructions apart, while
** the process runs.
**
** After `kill -9` the file is whole up to the last allocation: `state` is
** then still TIDE_P_RUNNING, and `end_mono_ns` is the time last noted.
**
** Version history:
**   1   first format
*/
#ifndef TIDE_PROFILE_H
#define TIDE_PROFILE_H

#include <stdint.h>

#include "../common/kind.h"

#define TIDE_P_MAGIC        "TIDEMARK" /* 8 bytes, no NUL */
#define TIDE_P_VERSION      1u
#define TIDE_P_BYTE_ORDER   0x01020304u
#define TIDE_P_PAGE         4096u
#define TIDE_P_HEADER_BYTES 4096u
#define TIDE_P_EXTENTS_MAX  61440u /* fifteen for each heap at most */
#define TIDE_P_DATA_OFFSET(extents_max)                                        \
 (TIDE_P_HEADER_BYTES + (uint64_t)(extents_max)*16u)
#define TIDE_P_HEAPS_MAX  4096u
#define TIDE_P_STRING_MAX 4095u /* longest string, bytes without NUL */
#define TIDE_P_SUFFIX     ".tide"

#define TIDE_P_FLOORS     16u /* columns of FLOORS */
#define TIDE_P_FLOOR_UNIT 16u /* bytes that one in a column stands for */

#define TIDE_P_HUGE_MAX   32u          /* records of huge blocks */
#define TIDE_P_HUGE_LEAST (256u << 10) /* bytes of the least of them */

/* Index 0 of strings is "", of functions and nodes the root, of cells none. */
#define TIDE_P_NONE 0u

/* enum tide_p_header.state */
enum tide_p_state {
    TIDE_P_RUNNING = 0, /* being written, or the process was killed */
    TIDE_P_CLOSED,      /* finished in order */
    TIDE_P_STATE_COUNT_
};

/* tide_p_header.flags: the disk was full and rows are missing; made by save */
#define TIDE_P_FLAG_PARTLY_IN_MEMORY 1u
#define TIDE_P_FLAG_SAVED            2u

struct tide_p_header {
    char magic[8];           /* TIDE_P_MAGIC */
    uint32_t version;        /* TIDE_P_VERSION */
    uint32_t byte_order;     /* TIDE_P_BYTE_ORDER */
    uint32_t header_bytes;   /* TIDE_P_HEADER_BYTES */
    uint32_t extents_max;    /* size of the directory, in entries */
    uint32_t n_extents;      /* valid directory entries; published */
    uint32_t n_heaps;        /* heaps numbered 0 .. n_heaps - 1; published */
    uint32_t state;          /* enum tide_p_state */
    uint32_t flags;          /* TIDE_P_FLAG_* */
    uint32_t pid;            /* process id */
    uint32_t parent_pid;     /* of the process it was forked from; 0: none */
    uint32_t tier;           /* enum tide_tier of tidemark.h */
    uint32_t command_bytes;  /* bytes used in `command` */
    uint64_t file_bytes;     /* length of the file; published */
    uint64_t start_unix_ns;  /* start, since 1970 UTC, ns */
    uint64_t start_mono_ns;  /* start on the monotonic clock, ns */
    uint64_t end_mono_ns;    /* end, or the time last noted, ns */
    uint64_t rss_peak_bytes; /* the process's largest RSS; 0: not known */
    char lua[32];            /* "Lua 5.4.4", NUL-terminated */
    char tool[32];           /* "tidemark 0.1.0", NUL-terminated */
    char route[64];          /* how it got in: "preload", "patch", "api" ... */
    char tier_reason[256];   /* in words, NUL-terminated */
    char program[256];       /* path of the executable, NUL-terminated */
    char command[2048];      /* arguments, each with its NUL; may be cut */
};

/*
** A command from outside, in the header's page behind the header.  It is for
** one commander at a time: owner_pid is taken by an exchange from 0.  The
** command is written, then `request`, with the next number; the process carries
** it out, writes the answer, then `answered`, with the same number.  Nothing
** here is part of the profile: copies have none of it.
*/
#define TIDE_P_CONTROL_OFFSET 3072u
#define TIDE_P_CONTROL_TEXT   480u
/* The word that goes with the signal when it is to make the process look. */
#define TIDE_P_CONTROL_WAKE 0x71de6a4bu

enum tide_p_command {
    TIDE_P_COMMAND_NONE = 0, /* was withdrawn */
    TIDE_P_COMMAND_START,
    TIDE_P_COMMAND_STOP,
    TIDE_P_COMMAND_RESET,
    TIDE_P_COMMAND_SAVE, /* argument: name in the folder of the profile */
    TIDE_P_COMMAND_MARK, /* argument: label */
    TIDE_P_COMMAND_COUNT_
};

struct tide_p_control {
    uint32_t request;   /* number of the last command; published */
    uint32_t answered;  /* number of the last one carried out; published */
    uint32_t command;   /* enum tide_p_command */
    uint32_t result;    /* enum tide_err of tidemark.h */
    uint32_t owner_pid; /* who commands now; 0: nobody */
    uint32_t signal;    /* that makes the process look; 0: none */
    uint32_t is_off;    /* 1: not recording */
    uint32_t reserved;  /* 0 */
    char argument[TIDE_P_CONTROL_TEXT]; /* NUL-terminated */
    char answer[TIDE_P_CONTROL_TEXT];   /* in words, or the file saved */
};

/* One run of pages. */
struct tide_p_extent {
    uint16_t heap;    /* 0 .. n_heaps - 1 */
    uint8_t section;  /* enum tide_p_section */
    uint8_t reserved; /* 0 */
    uint32_t ordinal; /* place in its section, from 0 */
    uint32_t page;    /* offset in the file, in pages */
    uint32_t n_pages; /* length, in pages; not 0 */
};

enum tide_p_section {
    TIDE_P_HEAD = 0,    /* one struct tide_p_heap */
    TIDE_P_STRINGS,     /* bytes: see tide_p_heap.string_bytes */
    TIDE_P_FUNCS,       /* struct tide_p_func[n_funcs] */
    TIDE_P_NODES,       /* struct tide_p_node[n_nodes] */
    TIDE_P_CELLS,       /* struct tide_p_cell[n_cells] */
    TIDE_P_CYCLES,      /* struct tide_p_cycle[n_cycles] */
    TIDE_P_MOMENTS,     /* struct tide_p_moment[n_moments] */
    TIDE_P_EVENTS,      /* struct tide_p_event[n_events] */
    TIDE_P_CELL_FLOORS, /* struct tide_p_floor[n_floors] */
    TIDE_P_LIVES,       /* struct tide_p_life[n_lives] */
    TIDE_P_OBJECTS,     /* struct tide_p_object[n_objects] */
    TIDE_P_MARKS,       /* struct tide_p_mark[n_marks] */
    TIDE_P_SNAPS,       /* struct tide_p_snap[n_snaps] */
    TIDE_P_TARGETS,     /* struct tide_p_target[n_targets] */
    TIDE_P_RESTS,       /* struct tide_p_rest[n_rests] */
    TIDE_P_SECTION_COUNT_
};

/* tide_p_heap.state */
enum tide_p_heap_state {
    TIDE_P_HEAP_OPEN = 0, /* the lua_State is in use */
    TIDE_P_HEAP_CLOSED,   /* the lua_State was closed */
    TIDE_P_HEAP_STATE_COUNT_
};

/*
** The largest block that a cell ever had, of those of TIDE_P_HUGE_LEAST bytes
** and more.  While it is being replaced it has no bytes.
*/
struct tide_p_huge {
    uint64_t bytes;
    uint64_t mono_ns;     /* when it was made, or grew to that */
    uint64_t alloc_bytes; /* allocated so far then */
    uint64_t n_blocks;    /* made or grown to TIDE_P_HUGE_LEAST and more, since
                             the cell has the record */
    uint32_t cell;
    uint32_t cycle; /* collections seen so far then */
};

/*
** Figures of one heap.  They repeat what the cells say, at the time of the
** last slow event (cycle, new node, peak left), and are exact once the heap
** is closed or settled.  Sums over cells are always exact, but for the call of
** the allocator that was going on when the process ended.
*/
struct tide_p_heap {
    uint32_t state;        /* enum tide_p_heap_state */
    uint32_t n_states;     /* lua_States that used this heap, in turn */
    uint32_t n_funcs;      /* published */
    uint32_t n_nodes;      /* published */
    uint32_t n_cells;      /* published */
    uint32_t n_cycles;     /* published */
    uint32_t string_bytes; /* bytes of STRINGS in use; published */
    uint32_t gc_cycle;     /* collection cycles seen so far */
    /*
    ** The peak.  peak_is_past 0: the heap stands at its highest, and what a
    ** cell held at the peak is its live figure.  1: the heap has been lower
    ** since; a cell whose peak_epoch equals ours keeps its figure in its rest,
    ** or held nothing if it has none; the others have not changed since and
    ** their live figure is it.
    */
    uint32_t peak_epoch;
    uint32_t peak_is_past;
    uint64_t peak_bytes;         /* most live bytes at once */
    uint64_t before_bytes;       /* held at the attach */
    uint64_t before_freed_bytes; /* of these, freed since */
    uint64_t failed_blocks;      /* allocations that returned NULL */
    uint64_t unknown_calls;      /* allocator calls from unknown addresses */
    uint64_t inferred_bytes;     /* bytes whose line or thread was inferred */
    uint64_t open_mono_ns;       /* first lua_State made */
    uint64_t close_mono_ns;      /* last lua_State closed; 0: open */
    uint32_t n_moments;          /* published */
    uint32_t n_events;           /* published */
    uint32_t n_floors;           /* published; with the unused one at 0 */
    uint32_t n_lost_events;      /* for which there was no room */
    /*
    ** Columns of FLOORS in use; columns are added while it is less than
    ** TIDE_P_FLOORS, then every second one goes.
    */
    uint32_t n_columns;
    uint32_t n_passes;   /* collections whose survivors were counted */
    uint32_t n_skipped;  /* ... were not: it would have cost too much */
    uint32_t n_merged;   /* cycles that others' records stand for */
    uint64_t collect_ns; /* spent in collections that were asked for */
    uint64_t n_timed;    /* calls of these that were timed */
    uint32_t pid;        /* of the process; 0: the header's (not merged) */
    /*
    ** 1: brought up to date at the end of the session or for a copy, with no
    ** other thread at work, when the cells' sums were as noted here.  With
    ** other sums in a finished profile, or 0, the state was in use at the end.
    */
    uint32_t settled;             /* published */
    uint64_t settled_alloc_bytes; /* sum of alloc_bytes */
    uint64_t settled_freed_bytes; /* sum of freed_bytes and closed_bytes */
    uint64_t settled_live_bytes;  /* what the heap had counted as held */
    uint32_t n_lives;             /* published; with the unused one at 0 */
    uint32_t n_objects;           /* published; with the unused one at 0 */
    uint32_t n_marks;             /* published */
    uint32_t n_snaps;             /* published */
    uint32_t n_lost_marks;        /* for which there was no room */
    uint32_t n_rewrites;   /* rises before and after SNAPS are rewritten */
    uint32_t n_targets;    /* published */
    uint32_t n_gone;       /* lua_States whose last block was freed */
    uint64_t left_bytes;   /* which they still held then, in all */
    uint64_t emergency_ns; /* in emergency collections, up to their sweep */
    uint64_t sweep_ns;     /* between frees of one step of the collector */
    uint32_t n_rests;      /* published; with the unused one at 0 */
    uint32_t reserved;     /* 0 */
    /* of column i: which collection, when it was noted, what of it survived */
    uint32_t column_cycle[TIDE_P_FLOORS];
    uint64_t column_mono_ns[TIDE_P_FLOORS];
    uint64_t column_bytes[TIDE_P_FLOORS];
    uint64_t column_alloc[TIDE_P_FLOORS]; /* allocated in all by then */
    /* of the cells with the largest blocks, in no order */
    uint32_t n_huge;        /* published; at most TIDE_P_HUGE_MAX */
    uint32_t reserved_huge; /* 0 */
    struct tide_p_huge huge[TIDE_P_HUGE_MAX];
};

enum tide_p_what {
    TIDE_P_LUA = 0,      /* a Lua function */
    TIDE_P_MAIN,         /* the main part of a chunk */
    TIDE_P_C,            /* a C function */
    TIDE_P_ROOT,         /* index 0: no frame at all */
    TIDE_P_FINALIZER,    /* the collector called what hangs below */
    TIDE_P_COROUTINE,    /* a coroutine whose resumer is not known */
    TIDE_P_OTHER_CHUNKS, /* chunks beyond the limit of generated ones */
    TIDE_P_OTHER_STACKS, /* stacks beyond the limit of nodes */
    TIDE_P_NOT_RECORDED, /* made while the recording was off */
    TIDE_P_NATIVE,       /* a place in machine code: see `address` */
    TIDE_P_REGION,       /* a stretch of the program that it has named */
    TIDE_P_WHAT_COUNT_
};

/*
** A function.  Two prototypes with the same source and first line are one.
** Strings are byte offsets into STRINGS: a uint32_t length, the bytes, a NUL,
** padded to a multiple of 4; offset 0 is the empty string.
*/
struct tide_p_func {
    uint32_t source;      /* chunk name as Lua has it ("@x.lua", "=stdin"), a
                             text chunk as [string "..."]; C: its object */
    uint32_t name;        /* "" when not known */
    uint32_t linedefined; /* first line; COROUTINE: line that made it; else 0 */
    uint32_t lastline;    /* last line; NATIVE: bytes from its function's first
                             to `address`, 0: not known; else 0 */
    uint8_t what;         /* enum tide_p_what */
    uint8_t reserved[3];  /* 0 */
    uint32_t object;      /* index in OBJECTS that has `address`; 0: none */
    uint64_t address;     /* in the process: of a C function; NATIVE: where a
                             call returns to; else 0 */
};

/*
** A node of the calling context tree: this function, at this line, called
** from the parent's line.  Node 0 is the root and its own parent.
** parent < own index, but for node 0.
*/
struct tide_p_node {
    uint32_t parent;
    uint32_t func;           /* index in FUNCS */
    uint32_t line;           /* line being run; 0: not Lua, or not known */
    uint32_t first_cell;     /* index in CELLS; 0: none */
    uint64_t calls;          /* activations that allocated, first seen here */
    uint64_t max_call_bytes; /* most bytes (own and below) of one of them */
};

/*
** Counters of one (node, kind), one cache line; what only some cells need is in
** records of its own.  Invariants, at any moment, with 0 for what is not there:
**   live_bytes  = inherited_bytes  + alloc_bytes  + moved_bytes
**                 - freed_bytes                              >= 0
**   live_blocks = inherited_blocks + alloc_blocks + moved_blocks
**                 - freed_blocks                             >= 0
**   sum over all cells of moved_bytes = moved_blocks = 0
**   closed <= live, once + twice + older + ageless <= freed
** What lua_close frees is in closed_*, not in freed_*: live figures are those
** before lua_close.
** An index is written after the record it leads to was counted; two cells never
** share one.
*/
struct tide_p_cell {
    uint32_t node;        /* owner */
    uint32_t next;        /* next cell of the same node; 0: none */
    uint32_t peak_epoch;  /* see tide_p_heap.peak_epoch */
    uint8_t kind;         /* enum tide_kind */
    uint8_t flags;        /* for the writer only */
    uint16_t reserved;    /* 0 */
    uint64_t alloc_bytes; /* made; growth as new - old */
    uint64_t alloc_blocks;
    uint64_t freed_bytes; /* freed; shrinking as old - new */
    uint64_t freed_blocks;
    uint32_t rest;  /* index in RESTS; 0: none */
    uint32_t life;  /* index in LIVES; 0: none */
    uint32_t floor; /* index in CELL_FLOORS; 0: none */
    uint32_t note;  /* for the writer only */
};

/*
** More counters of a cell: of one whose blocks changed their owner, that held
** something at a peak and has changed since, or at the end of its state.
*/
struct tide_p_rest {
    int64_t moved_bytes; /* taken over from other cells less given to them */
    int64_t moved_blocks;
    uint64_t peak_bytes; /* held at the heap's peak: see peak_epoch */
    uint64_t peak_blocks;
    uint64_t closed_bytes; /* of live: freed by lua_close */
    uint64_t closed_blocks;
    uint64_t inherited_bytes;  /* alive when counting began: at a fork or */
    uint64_t inherited_blocks; /* ... after a reset */
};

enum tide_p_cause {
    TIDE_P_CAUSE_UNKNOWN = 0,
    TIDE_P_CAUSE_AUTOMATIC,
    TIDE_P_CAUSE_EXPLICIT,  /* collectgarbage or lua_gc */
    TIDE_P_CAUSE_EMERGENCY, /* an allocation had failed */
    TIDE_P_CAUSE_COUNT_
};

enum tide_p_mode {
    TIDE_P_MODE_INCREMENTAL = 0,
    TIDE_P_MODE_MINOR, /* generational: young objects only */
    TIDE_P_MODE_MAJOR, /* generational: all objects */
    TIDE_P_MODE_FULL,  /* all at once: asked for, or in an emergency */
    TIDE_P_MODE_COUNT_,
    TIDE_P_MODE_UNKNOWN = 255
};

/*
** One collection cycle, noted when its atomic phase was seen to be over.
** Where there is no more room, neighbours are joined: the later one stays,
** with freed_*, n_joined and alloc_bytes of both.
*/
struct tide_p_cycle {
    uint64_t atomic_mono_ns; /* time of that */
    uint64_t before_bytes;   /* live bytes then */
    uint64_t after_bytes;    /* of these, what was not freed by the next one */
    uint64_t freed_bytes;    /* freed until the next one */
    uint64_t freed_blocks;
    uint32_t n;              /* number, from 1; rises by what was seen */
    uint32_t node;           /* what ran when it was seen; 0: not known */
    uint8_t mode;            /* enum tide_p_mode */
    uint8_t cause;           /* enum tide_p_cause */
    uint8_t is_stepped;      /* 1: collectgarbage("step") asked for it */
    uint8_t is_generational; /* 1: the mode that the program has chosen */
    uint16_t pause;          /* in percent; 0: not known */
    uint16_t step;           /* step multiplier in percent; 0: not known */
    uint64_t end_mono_ns;    /* when the sweep was seen to be over; 0: not */
    uint64_t start_mono_ns;  /* when marking was seen to begin; 0: not */
    uint64_t alloc_bytes;    /* allocated since the one before */
    uint64_t collect_ns;   /* time inside the collector, where timed; else 0 */
    uint32_t n_joined;     /* cycles that this record stands for besides */
    uint32_t reserved2[3]; /* 0 */
};

/*
** A point of the timeline.  When there is no more room the lower of each two
** goes, but for the first and the last, and they become rarer from there on.
*/
struct tide_p_moment {
    uint64_t mono_ns;
    uint64_t live_bytes;
    uint64_t alloc_bytes; /* allocated so far */
    uint64_t floor_bytes; /* what the last collection left; 0: none yet */
    uint64_t rss_bytes;   /* of the process; 0: not measured then */
    uint32_t cycle;       /* collections seen so far */
    uint32_t reserved;    /* 0 */
};

/* tide_p_event.what */
enum tide_p_event_what {
    TIDE_P_EVENT_STOP = 0, /* the collector was stopped */
    TIDE_P_EVENT_RESTART,
    TIDE_P_EVENT_MODE,  /* is: 0 incremental, 1 generational */
    TIDE_P_EVENT_PAUSE, /* was and is in percent */
    TIDE_P_EVENT_STEP,  /* the step multiplier, in percent */
    TIDE_P_EVENT_COUNT_
};

/* Something that the program did to the collector. */
struct tide_p_event {
    uint64_t mono_ns;     /* when it was seen */
    uint64_t live_bytes;  /* then */
    uint64_t alloc_bytes; /* then, in all */
    uint32_t node;        /* what ran when it was seen; 0: not known */
    uint32_t cycle;       /* collections seen so far */
    uint8_t what;         /* enum tide_p_event_what */
    uint8_t reserved[3];  /* 0 */
    uint16_t was;
    uint16_t is;
};

/* tide_p_mark.what */
enum tide_p_mark_what {
    TIDE_P_MARK_LABEL = 0, /* the program, or somebody else, has marked it */
    TIDE_P_MARK_FAILED,    /* the first allocation that failed for good */
    TIDE_P_MARK_COUNT_
};

/* tide_p_mark.flags */
#define TIDE_P_MARK_HAS_SNAPS 1u /* what the cells were is known */
#define TIDE_P_MARK_IS_WHOLE  2u /* ... without the marks before it */

/* Marks that keep their snapshots; of more the oldest labels lose theirs. */
#define TIDE_P_SNAPSHOTS_MAX 64u

/*
** A moment that has a name, in time order.  Its snapshot is first_snap ..
** first_snap + n_snaps - 1 of SNAPS: the cells that have changed since the mark
** before it that has one, or since all were 0 when IS_WHOLE.
*/
struct tide_p_mark {
    uint64_t mono_ns;
    uint64_t live_bytes;
    uint64_t alloc_bytes;   /* allocated so far */
    uint64_t peak_bytes;    /* most live bytes at once so far */
    uint64_t before_bytes;  /* made before the attach, still held */
    uint64_t want_bytes;    /* FAILED: that could not be had; else 0 */
    uint64_t limit_bytes;   /* FAILED: the limit in force; 0: none of ours */
    uint64_t failed_blocks; /* allocations that returned NULL so far */
    uint32_t label;         /* string */
    uint32_t node;          /* what ran; 0: not known */
    uint32_t cycle;         /* collections seen so far */
    uint32_t peak_epoch;    /* see tide_p_heap.peak_epoch */
    uint32_t first_snap;
    uint32_t n_snaps;
    uint8_t what;        /* enum tide_p_mark_what */
    uint8_t flags;       /* TIDE_P_MARK_* */
    uint8_t reserved[6]; /* 0 */
};

/*
** The counters of a cell at a mark.  A cell without a record at a mark has
** those of its last one before it; its peak figures are then the same only
** while peak_epoch of the marks is, else they are what it holds.
*/
struct tide_p_snap {
    uint32_t cell;
    uint32_t reserved; /* 0 */
    uint64_t alloc_bytes;
    uint64_t alloc_blocks;
    uint64_t freed_bytes;
    uint64_t freed_blocks;
    uint64_t young_bytes;
    uint64_t young_blocks;
    int64_t moved_bytes;
    int64_t moved_blocks;
    uint64_t peak_bytes; /* held at the heap's peak so far */
    uint64_t peak_blocks;
};

/*
** What a cell's blocks survived: bytes that it held when a collection began to
** sweep, less what was freed up to the next one, or was freed since because a
** larger part of its table came.  Column i belongs to the collection
** column_cycle[i] of the head.  A cell without a record had nothing that
** survived one of them.
*/
struct tide_p_floor {
    uint32_t at[TIDE_P_FLOORS]; /* in TIDE_P_FLOOR_UNIT bytes, rounded up */
};

/*
** How the blocks of a cell lived.
**
** How old those were that were freed.  The age of a block is the number of
** collections whose atomic phase came between its making and its freeing; the
** one that found it dead is among them.  So what the collector freed at age 1
** had survived none, at age 2 one, at age 3 two; what the program itself freed
** (buffers, parts of tables that grew) may have survived one more.
** What was freed and is in none of these died young: at age 0 or 1.
** A table that grows past what it has gets a part of twice the size; from
** TIDE_P_REGROWN_LEAST bytes on this is counted, with the size that was too
** small.
*/
#define TIDE_P_REGROWN_LEAST 1024u
struct tide_p_life {
    uint64_t once_bytes; /* age 2 */
    uint64_t once_blocks;
    uint64_t twice_bytes; /* age 3 */
    uint64_t twice_blocks;
    uint64_t older_bytes; /* age 4 and more */
    uint64_t older_blocks;
    uint64_t ageless_bytes;  /* by which blocks shrank; freed when an earlier */
    uint64_t ageless_blocks; /* ... state of the heap was closed */
    uint64_t regrown_bytes;  /* storage: parts that larger ones replaced */
    uint64_t n_regrown;
};

#define TIDE_P_BUILD_ID_MAX 32u /* bytes of a build id that are kept */

/*
** A file of machine code as it was loaded.  The same range of addresses may
** have had several, one after the other: each is a record of its own.
*/
struct tide_p_object {
    uint64_t bias;           /* an address less this is the file's own */
    uint64_t start;          /* first byte that was mapped */
    uint64_t end;            /* behind the last one */
    uint64_t vm_start;       /* from here on it is Lua itself; 0: none of it */
    uint64_t vm_end;         /* up to here */
    uint32_t path;           /* string: the file, "" when not known */
    uint32_t build_id_bytes; /* valid of build_id; 0: it has none */
    uint8_t build_id[TIDE_P_BUILD_ID_MAX];
};

/* tide_p_target.what */
enum tide_p_target_what {
    TIDE_P_TARGET_FUNCTION = 0, /* this function is of the group */
    TIDE_P_TARGET_RULE,         /* ... those that match the patterns */
    TIDE_P_TARGET_GROUP,        /* there is such a group, even if empty */
    TIDE_P_TARGET_MODULE,       /* the function's file, or for a C function it
                                   alone, is of this module; no target */
    TIDE_P_TARGET_COUNT_
};

/*
** How functions are put into groups.  Strings are offsets into STRINGS.
** Patterns are those of fnmatch(3), "" matches everything.  Of a function
** there is one record FUNCTION at most; it goes before rules, the last rule
** that matches before earlier ones.
*/
struct tide_p_target {
    uint32_t func;   /* FUNCTION, MODULE: index in FUNCS; else 0 */
    uint32_t group;  /* MODULE: the module's name */
    uint32_t name;   /* FUNCTION: its name; RULE: of names of functions */
    uint32_t source; /* RULE: of source files */
    uint32_t module; /* RULE: of modules and C libraries */
    uint8_t what;    /* enum tide_p_target_what */
    uint8_t is_off;  /* 1: taken back */
    uint16_t reserved;
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
# include <assert.h>
# include <stddef.h>
/* A compiler must not move what stands in files. */
# define TIDE_P_AT(record, field, offset)                                      \
  static_assert(offsetof(struct tide_p_##record, field) == (offset),           \
                #record "." #field)
static_assert(sizeof(struct tide_p_header) <= TIDE_P_HEADER_BYTES, "header");
TIDE_P_AT(header, n_extents, 24);
TIDE_P_AT(header, n_heaps, 28);
TIDE_P_AT(header, state, 32);
TIDE_P_AT(header, flags, 36);
TIDE_P_AT(header, command_bytes, 52);
TIDE_P_AT(header, file_bytes, 56);
TIDE_P_AT(header, rss_peak_bytes, 88);
TIDE_P_AT(header, lua, 96);
TIDE_P_AT(header, program, 480);
TIDE_P_AT(header, command, 736);
static_assert(sizeof(struct tide_p_header) <= TIDE_P_CONTROL_OFFSET &&
                  TIDE_P_CONTROL_OFFSET + sizeof(struct tide_p_control) <=
                      TIDE_P_HEADER_BYTES,
              "the control block is behind the header, in its page");
TIDE_P_AT(control, answer, 512);
static_assert(sizeof(struct tide_p_extent) == 16, "extent");
TIDE_P_AT(extent, ordinal, 4);
TIDE_P_AT(extent, n_pages, 12);
static_assert(sizeof(struct tide_p_huge) == 40, "huge");
static_assert(sizeof(struct tide_p_heap) == 1984, "heap");
TIDE_P_AT(heap, n_huge, 696);
TIDE_P_AT(heap, string_bytes, 24);
TIDE_P_AT(heap, peak_epoch, 32);
TIDE_P_AT(heap, peak_bytes, 40);
TIDE_P_AT(heap, close_mono_ns, 96);
static_assert(sizeof(struct tide_p_func) == 32, "func");
TIDE_P_AT(func, what, 16);
TIDE_P_AT(func, object, 20);
TIDE_P_AT(func, address, 24);
static_assert(sizeof(struct tide_p_node) == 32, "node");
TIDE_P_AT(node, first_cell, 12);
TIDE_P_AT(node, max_call_bytes, 24);
static_assert(sizeof(struct tide_p_cell) == 64, "cell");
TIDE_P_AT(cell, kind, 12);
TIDE_P_AT(cell, alloc_bytes, 16);
TIDE_P_AT(cell, rest, 48);
static_assert(sizeof(struct tide_p_rest) == 64, "rest");
TIDE_P_AT(rest, closed_bytes, 32);
TIDE_P_AT(heap, n_moments, 104);
TIDE_P_AT(heap, column_cycle, 248);
static_assert(sizeof(struct tide_p_cycle) == 104, "cycle");
TIDE_P_AT(cycle, n, 40);
TIDE_P_AT(cycle, mode, 48);
TIDE_P_AT(cycle, end_mono_ns, 56);
TIDE_P_AT(cycle, n_joined, 88);
static_assert(sizeof(struct tide_p_moment) == 48, "moment");
static_assert(sizeof(struct tide_p_event) == 40, "event");
TIDE_P_AT(event, is, 38);
static_assert(sizeof(struct tide_p_floor) == 64, "floor");
static_assert(sizeof(struct tide_p_life) == 80, "life");
TIDE_P_AT(life, regrown_bytes, 64);
TIDE_P_AT(heap, n_lives, 184);
static_assert(sizeof(struct tide_p_object) == 80, "object");
TIDE_P_AT(object, path, 40);
TIDE_P_AT(heap, n_objects, 188);
static_assert(sizeof(struct tide_p_mark) == 96, "mark");
TIDE_P_AT(mark, label, 64);
TIDE_P_AT(mark, what, 88);
static_assert(sizeof(struct tide_p_snap) == 88, "snap");
TIDE_P_AT(snap, peak_blocks, 80);
static_assert(sizeof(struct tide_p_target) == 24, "target");
TIDE_P_AT(target, what, 20);
static_assert((int)TIDE_KIND_COUNT_ <= 32, "kinds are bits of a word");
static_assert(TIDE_P_DATA_OFFSET(TIDE_P_EXTENTS_MAX) % TIDE_P_PAGE == 0,
              "a directory is whole pages");
static_assert(TIDE_P_EXTENTS_MAX >= TIDE_P_HEAPS_MAX * TIDE_P_SECTION_COUNT_,
              "every section has an extent");
#endif

/* The control block of a mapped header page. */
static inline struct tide_p_control *tideP_control(struct tide_p_header *header)
{
    return (struct tide_p_control *)(void *)((unsigned char *)header +
                                             TIDE_P_CONTROL_OFFSET);
}

#endif
