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

static inline void walk_view(const struct tide_p_view *view, struct walk *walk)
{
    WALK_MUST(view->n_funcs >= 1 && view->n_nodes >= 1 && view->n_cells >= 1);
    WALK_MUST(view->funcs[0].what == TIDE_P_ROOT);
    for (uint32_t i = 0; i < view->n_funcs; i++) {
        WALK_MUST(view->funcs[i].what < TIDE_P_WHAT_COUNT_);
        walk_string(view, view->funcs[i].source, walk);
        walk_string(view, view->funcs[i].name, walk);
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
    WALK_MUST(view->n_floors <= view->n_cells);
    WALK_MUST(view->n_columns <= TIDE_P_FLOORS);
    for (uint32_t i = 0; i < view->n_floors; i++)
        for (uint32_t k = 0; k < view->n_columns; k++)
            walk->moment_bytes += view->floors[i].at[k];
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

#endif
