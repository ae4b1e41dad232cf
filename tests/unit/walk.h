/*
** walk.h: follows everything in an opened profile that may be followed
** without a check, and aborts where that was not safe.  For tests and for
** fuzzing, with a sanitizer.
*/
#ifndef TIDE_TESTS_WALK_H
#define TIDE_TESTS_WALK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../profile/reader.h"

#define WALK_MUST(cond)                                                        \
 do {                                                                          \
  if (!(cond)) {                                                               \
   fprintf(stderr, "# walk: %s:%d: %s\n", __FILE__, __LINE__, #cond);          \
   abort();                                                                    \
  }                                                                            \
 } while (0)

/* Sums of what was walked over: equal profiles have equal sums. */
struct walk {
    uint64_t n_cells;
    uint64_t live_bytes;
    uint64_t string_bytes;
    uint64_t depth;        /* of the deepest node */
    uint64_t moment_bytes; /* read, so that a sanitizer sees it */
};

static inline void walk_string(const struct tide_p_view *view, uint32_t offset,
                               struct walk *walk)
{
    size_t bytes;
    const char *text = tideP_view_string(view, offset, &bytes);
    WALK_MUST(bytes <= TIDE_P_STRING_MAX);
    WALK_MUST(text[bytes] == '\0');
    WALK_MUST(strlen(text) <= bytes);
    walk->string_bytes += bytes;
}

static inline void walk_nodes(const struct tide_p_view *view, uint64_t n_nodes,
                              struct walk *walk)
{
    uint64_t n_chained = 0;
    uint32_t *depths = calloc(n_nodes, sizeof *depths);
    WALK_MUST(depths != NULL);
    for (uint32_t i = 0; i < n_nodes; i++) {
        const struct tide_p_node *node = &view->nodes[i];
        WALK_MUST(node->func < view->n_funcs);
        WALK_MUST(i == 0 ? node->parent == 0 : node->parent < i);
        if (i > 0)
            depths[i] = depths[node->parent] + 1;
        if (depths[i] > walk->depth)
            walk->depth = depths[i];
        for (uint32_t c = node->first_cell; c != 0; c = view->cells[c].next) {
            WALK_MUST(c < view->n_cells);
            WALK_MUST(view->cells[c].node == i);
            WALK_MUST(view->cells[c].kind < TIDE_KIND_COUNT_);
            WALK_MUST(++n_chained < view->n_cells);
            walk->live_bytes += tideP_cell_live_bytes(&view->cells[c]);
        }
    }
    WALK_MUST(n_chained == view->n_cells - 1);
    walk->n_cells += n_chained;
    free(depths);
}

static inline void walk_mark(const struct tide_p_view *view,
                             const struct tide_p_mark *mark, struct walk *walk)
{
    WALK_MUST(mark->node < view->n_nodes);
    WALK_MUST(mark->what < TIDE_P_MARK_COUNT_);
    walk_string(view, mark->label, walk);
    if ((mark->flags & TIDE_P_MARK_HAS_SNAPS) == 0)
        return;
    for (uint32_t i = 0; i < mark->n_snaps; i++)
        WALK_MUST(view->snaps[mark->first_snap + i].cell < view->n_cells);
}

static inline void walk_view(const struct tide_p_view *view, struct walk *walk)
{
    WALK_MUST(view->n_funcs >= 1 && view->n_nodes >= 1 && view->n_cells >= 1);
    WALK_MUST(view->funcs[0].what == TIDE_P_ROOT);
    for (uint32_t i = 0; i < view->n_funcs; i++) {
        WALK_MUST(view->funcs[i].what < TIDE_P_WHAT_COUNT_);
        walk_string(view, view->funcs[i].source, walk);
        walk_string(view, view->funcs[i].name, walk);
        WALK_MUST(view->funcs[i].object == 0 ||
                  view->funcs[i].object < view->n_objects);
    }
    for (uint32_t i = 0; i < view->n_objects; i++) {
        walk_string(view, view->objects[i].path, walk);
        WALK_MUST(view->objects[i].build_id_bytes <= TIDE_P_BUILD_ID_MAX);
    }
    walk_nodes(view, view->n_nodes, walk);
    for (uint32_t i = 0; i < view->n_cycles; i++) {
        WALK_MUST(view->cycles[i].node < view->n_nodes);
        WALK_MUST(view->cycles[i].cause < TIDE_P_CAUSE_COUNT_);
    }
    for (uint32_t i = 0; i < view->n_events; i++) {
        WALK_MUST(view->events[i].node < view->n_nodes);
        WALK_MUST(view->events[i].what < TIDE_P_EVENT_COUNT_);
    }
    for (uint32_t i = 0; i < view->n_moments; i++)
        walk->moment_bytes += view->moments[i].live_bytes;
    for (uint32_t i = 0; i < view->n_marks; i++)
        walk_mark(view, &view->marks[i], walk);
    for (uint32_t i = 0; i < view->n_targets; i++) {
        WALK_MUST(view->targets[i].func < view->n_funcs);
        WALK_MUST(view->targets[i].what < TIDE_P_TARGET_COUNT_);
        walk_string(view, view->targets[i].group, walk);
        walk_string(view, view->targets[i].name, walk);
        walk_string(view, view->targets[i].source, walk);
        walk_string(view, view->targets[i].module, walk);
    }
    WALK_MUST(view->n_floors <= view->n_cells);
    WALK_MUST(view->n_columns <= TIDE_P_FLOORS);
    for (uint32_t i = 0; i < view->n_floors; i++)
        for (uint32_t k = 0; k < view->n_columns; k++)
            walk->moment_bytes += view->floors[i].at[k];
    WALK_MUST(view->n_lives <= view->n_cells);
    for (uint32_t i = 0; i < view->n_lives; i++)
        walk->moment_bytes += view->lives[i].once_bytes;
    WALK_MUST(view->n_huge <= TIDE_P_HUGE_MAX);
    for (uint32_t i = 0; i < view->n_huge; i++) {
        WALK_MUST(view->huge[i].bytes >= TIDE_P_HUGE_LEAST);
        WALK_MUST(view->huge[i].cell > 0);
        WALK_MUST(view->huge[i].cell < view->n_cells);
    }
}

static inline struct walk walk_profile(const struct tide_profile *profile)
{
    struct walk walk = {0};
    const struct tide_p_header *header = tideP_reader_header(profile);
    WALK_MUST(header->command_bytes <= sizeof header->command);
    WALK_MUST(header->tier < TIDE_TIER_COUNT_);
    WALK_MUST(strlen(header->tier_reason) < sizeof header->tier_reason);
    WALK_MUST(strlen(header->program) < sizeof header->program);
    for (uint32_t i = 0; i < tideP_reader_n_heaps(profile); i++)
        walk_view(tideP_reader_heap(profile, i), &walk);
    return walk;
}

/* ---- the same file opened lean ---- */

struct walk_same {
    const struct tide_p_view *whole;
    uint32_t n; /* cells or floors given so far */
};

static inline enum tide_err walk_same_cell(void *ctx, uint32_t index,
                                           const struct tide_cell *cell,
                                           const struct tide_p_life *life)
{
    static const struct tide_p_life none;
    struct walk_same *same = ctx;
    struct tide_cell expected = same->whole->cells[++same->n];
    WALK_MUST(index == same->n && index < same->whole->n_cells);
    expected.next = cell->next; /* chains are not kept */
    WALK_MUST(memcmp(cell, &expected, sizeof expected) == 0);
    WALK_MUST(memcmp(life,
                     index < same->whole->n_lives ? &same->whole->lives[index]
                                                  : &none,
                     sizeof *life) == 0);
    return TIDE_OK;
}

static inline bool walk_is_no_floor(const struct tide_p_floor *floor)
{
    static const struct tide_p_floor none;
    return memcmp(floor, &none, sizeof none) == 0;
}

static inline void walk_same_floor(void *ctx, uint32_t index,
                                   const struct tide_p_floor *floor)
{
    struct walk_same *same = ctx;
    WALK_MUST(index > same->n && index < same->whole->n_floors);
    while (++same->n < index) /* those left out have none */
        WALK_MUST(walk_is_no_floor(&same->whole->floors[same->n]));
    WALK_MUST(memcmp(floor, &same->whole->floors[index], sizeof *floor) == 0);
}

static inline void walk_same_heap(const struct tide_profile *profile,
                                  const struct tide_p_view *whole, uint32_t i)
{
    const struct tide_p_view *view = tideP_reader_heap(profile, i);
    struct walk_same same = {whole, 0};
    WALK_MUST(view->n_cells == whole->n_cells);
    WALK_MUST(view->n_nodes == whole->n_nodes);
    WALK_MUST(view->n_floors == whole->n_floors);
    WALK_MUST(view->n_lives == whole->n_lives);
    WALK_MUST(view->n_huge == whole->n_huge);
    WALK_MUST(memcmp(view->huge, whole->huge,
                     view->n_huge * sizeof *view->huge) == 0);
    WALK_MUST(tideP_view_is_settled(view) == tideP_view_is_settled(whole));
    WALK_MUST(tideP_reader_each_cell(profile, i, walk_same_cell, &same) ==
              TIDE_OK);
    WALK_MUST(same.n + 1 == whole->n_cells);
    same.n = 0;
    WALK_MUST(tideP_reader_each_floor(profile, i, walk_same_floor, &same) ==
              TIDE_OK);
    while (++same.n < whole->n_floors)
        WALK_MUST(walk_is_no_floor(&whole->floors[same.n]));
}

/* Opens the file lean: it must say what `whole` says, problems included. */
static inline void walk_lean(const char *path, const struct tide_profile *whole)
{
    struct tide_profile *lean;
    struct tide_p_problem problem;
    WALK_MUST(tideP_reader_open_lean(path, &lean, &problem) == TIDE_OK);
    WALK_MUST(tideP_reader_n_heaps(lean) == tideP_reader_n_heaps(whole));
    for (uint32_t i = 0; i < tideP_reader_n_heaps(lean); i++)
        walk_same_heap(lean, tideP_reader_heap(whole, i), i);
    const struct tide_p_problem *a = tideP_reader_problem(lean);
    const struct tide_p_problem *b = tideP_reader_problem(whole);
    WALK_MUST(a->err == b->err && a->offset == b->offset);
    WALK_MUST(strcmp(a->text, b->text) == 0);
    tideP_reader_close(lean);
}

#endif
