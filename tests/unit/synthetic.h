/*
** synthetic.h: made-up profiles for tests, written by the real writer.
**
** Either a whole one from a seed (syn_write), whose books balance, or one put
** together record by record (syn_heap_open, syn_func, syn_node, syn_cell).
** All functions end the test with abort when the writer fails.
*/
#ifndef TIDE_TESTS_SYNTHETIC_H
#define TIDE_TESTS_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

#include "../../profile/reader.h"
#include "../../profile/writer.h"

/* What syn_write makes.  Zero fields get the value in brackets. */
struct syn_shape {
    uint64_t seed;
    uint32_t n_heaps;     /* [1] */
    uint32_t n_funcs;     /* with the root [20] */
    uint32_t n_nodes;     /* with the root [100] */
    uint32_t n_cycles;    /* none if 0 */
    uint32_t n_targets;   /* none if 0 */
    uint32_t n_marks;     /* and one of a failure between them; none if 0 */
    uint32_t n_objects;   /* files of machine code, with a place each */
    bool is_left_running; /* not closed, as after kill -9 */
};

/* One heap of a profile that is being made. */
struct syn_heap {
    struct tide_writer *writer;
    struct tide_p_heap *head;
    struct tide_section sections[TIDE_P_SECTION_COUNT_];
};

/* Writes a whole profile; the same shape gives the same file. */
void syn_write(const char *path, const struct syn_shape *shape);

/* Fills a header with plausible constants (pid 4242, Lua 5.4.4 ...). */
void syn_fill_header(struct tide_p_header *header);

/* Makes a heap of the shape's random contents; the caller closes the writer. */
void syn_fill(struct tide_writer *writer, const struct syn_shape *shape,
              uint32_t n, struct syn_heap *heap);

/*
** Opens a heap with record 0 of every section.  The heap must stay where it is
** until the writer is closed.
*/
void syn_heap_open(struct tide_writer *writer, struct syn_heap *heap);

/* Each appends a record, publishes it and returns its index (or offset). */
uint32_t syn_string(struct syn_heap *heap, const char *text);
uint32_t syn_bytes(struct syn_heap *heap, const void *data, uint32_t bytes);
uint32_t syn_func(struct syn_heap *heap, enum tide_p_what what,
                  const char *source, const char *name, uint32_t linedefined,
                  uint32_t lastline);
uint32_t syn_node(struct syn_heap *heap, uint32_t parent, uint32_t func,
                  uint32_t line);
uint32_t syn_cell(struct syn_heap *heap, uint32_t node, enum tide_kind kind);
uint32_t syn_cycle(struct syn_heap *heap, const struct tide_p_cycle *cycle);
uint32_t syn_target(struct syn_heap *heap, const struct tide_p_target *target);

/*
** A mark with what the cells are now, or without a snapshot.  The snapshot has
** those cells whose number is not left out: cell % 4 == skip; 4: all.
*/
uint32_t syn_mark(struct syn_heap *heap, const struct tide_p_mark *mark,
                  bool has_snaps, uint32_t skip);

/* An object at 0x10000 times its index, with a build id of 20 bytes. */
uint32_t syn_object(struct syn_heap *heap, const char *path);

/* Records by index; they stay where they are. */
struct tide_p_func *syn_func_at(struct syn_heap *heap, uint32_t index);
struct tide_p_node *syn_node_at(struct syn_heap *heap, uint32_t index);
struct tide_p_cell *syn_cell_at(struct syn_heap *heap, uint32_t index);

/* A huge block of a cell that has no such record yet, and there is room. */
void syn_huge(struct syn_heap *heap, uint32_t cell, uint64_t bytes);

/* What stands beside a cell; made when it is asked for. */
struct tide_p_life *syn_life(struct syn_heap *heap, uint32_t index);
struct tide_p_rest *syn_rest(struct syn_heap *heap, uint32_t index);
struct tide_p_floor *syn_floor(struct syn_heap *heap, uint32_t index);

/* The cell as a reader would have it. */
struct tide_cell syn_cell_now(struct syn_heap *heap, uint32_t index);

/* Makes the head's peak what the cells say. */
void syn_heap_settle(struct syn_heap *heap);

/* The head is of the cells as they are now; syn_heap_settle does it too. */
void syn_heap_note(struct syn_heap *heap);

/*
** Marks the heap closed: closed_* of every cell becomes what is live, and the
** peak is settled.
*/
void syn_heap_close(struct syn_heap *heap);

/* A random number, the same on every machine. */
uint64_t syn_random(uint64_t *state);

#endif
