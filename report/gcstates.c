/*
** gcstates.c: the states of a profile from the side of the collector, one by
** one: `tidemark gc` shows them when there are several.
*/
#include <stdlib.h>

#include "gcview.h"

uint32_t tideR_gc_highest(const struct tide_model *model)
{
    const struct tide_p_view *best = NULL;
    uint32_t heap = 0;
    for (uint32_t i = 0; i < tideP_reader_n_heaps(model->profile); i++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, i);
        if (view->n_moments == 0 ||
            (best != NULL && view->head->peak_bytes <= best->head->peak_bytes))
            continue;
        best = view;
        heap = i;
    }
    return heap;
}

static struct tide_r_gcstate read_gcstate(const struct tide_model *model,
                                          uint32_t heap)
{
    const struct tide_p_view *view = tideP_reader_heap(model->profile, heap);
    const struct tide_p_heap *head = view->head;
    const struct tide_r_counts *counts = &model->heaps[heap];
    struct tide_r_gcstate state = {
        .heap = heap,
        .pid = head->pid != 0 ? head->pid : model->header->pid,
        .n_states = head->n_states,
        .is_open = head->state == TIDE_P_HEAP_OPEN,
        .mode = "unknown",
        .cycles = head->gc_cycle,
        .alloc_bytes = counts->alloc_bytes,
        .live_bytes = counts->live_bytes,
        .peak_bytes = counts->peak_bytes,
    };
    for (uint32_t i = 0; i < view->n_cycles; i++)
        state.freed_bytes += view->cycles[i].freed_bytes;
    if (view->n_cycles > 0) {
        const struct tide_p_cycle *last = &view->cycles[view->n_cycles - 1];
        state.mode = tideR_mode_name(last);
        state.floor_bytes = last->after_bytes;
    }
    return state;
}

static int compare_gcstates(const void *pa, const void *pb)
{
    const struct tide_r_gcstate *a = pa;
    const struct tide_r_gcstate *b = pb;
    if (a->alloc_bytes != b->alloc_bytes)
        return a->alloc_bytes > b->alloc_bytes ? -1 : 1;
    return a->heap < b->heap ? -1 : a->heap > b->heap;
}

struct tide_r_gcstate *tideR_gcstates_or_null(const struct tide_model *model,
                                              uint32_t *n)
{
    *n = tideP_reader_n_heaps(model->profile);
    struct tide_r_gcstate *states = calloc((size_t)*n + 1, sizeof *states);
    if (states == NULL)
        return NULL;
    for (uint32_t i = 0; i < *n; i++)
        states[i] = read_gcstate(model, i);
    qsort(states, *n, sizeof *states, compare_gcstates);
    return states;
}
