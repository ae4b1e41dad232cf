/*
** gcrows.c: lines and stacks as the collector sees them: what whole collections
** left of them, how that goes, how old what they freed was.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "gcview.h"
#include "select.h"

#define FRAMES_SHOWN 6u /* of a stack, the innermost ones */

static enum tide_err open_floors(struct tide_r_gclist *list, uint32_t heap)
{
    const struct tide_model *model = list->model;
    if (heap == model->floors.number) {
        list->floors = &model->floors;
        return TIDE_OK;
    }
    list->floors = &list->own_floors;
    return tideR_floors_open(model, heap, &list->own_floors);
}

enum tide_err tideR_gclist_open(const struct tide_model *model, uint32_t heap,
                                bool is_one_state, bool by_stack,
                                struct tide_r_gclist *out)
{
    *out = (struct tide_r_gclist){
        .model = model, .by_stack = by_stack, .is_one_state = is_one_state};
    TIDE_TRY(open_floors(out, heap));
    if (by_stack)
        return tideR_stack_floors(model, out->floors, &out->stack_floors);
    out->judged = calloc(model->n_lines, sizeof *out->judged);
    TIDE_FAIL_IF(out->judged == NULL, TIDE_ERR_NOMEM);
    tideR_heap_counts(model, heap, out->judged);
    return TIDE_OK;
}

void tideR_gclist_close(struct tide_r_gclist *list)
{
    free(list->stack_floors);
    free(list->judged);
    tideR_floors_close(&list->own_floors);
}

static const uint64_t *floors_of(const struct tide_r_gclist *list, uint32_t row)
{
    return (list->by_stack ? list->stack_floors : list->floors->bytes) +
           (size_t)row * TIDE_P_FLOORS;
}

/* What a stack counts in the list's heap alone. */
static void counts_of_stack(const struct tide_r_gclist *list, uint32_t row,
                            struct tide_r_counts *out)
{
    const struct tide_model *model = list->model;
    *out = (struct tide_r_counts){0};
    for (; row != TIDE_R_NONE; row = model->stacks[row].more)
        if (model->stacks[row].heap == list->floors->number)
            tideR_unpack(&model->packed, model->stacks[row].counts, out);
}

static void counts_of_row(const struct tide_r_gclist *list, uint32_t row,
                          struct tide_r_counts *out)
{
    if (list->by_stack && list->is_one_state)
        counts_of_stack(list, row, out);
    else if (list->by_stack)
        tideR_model_stack_counts(list->model, row, out);
    else
        *out = list->is_one_state ? list->judged[row]
                                  : list->model->lines[row].counts;
}

void tideR_gclist_row(const struct tide_r_gclist *list, uint32_t row,
                      struct tide_r_gcrow *out)
{
    struct tide_r_counts judged;
    counts_of_row(list, row, &out->counts);
    if (list->by_stack)
        counts_of_stack(list, row, &judged);
    else
        judged = list->judged[row];
    out->floors = floors_of(list, row);
    out->trend = tideR_trend(list->floors, out->floors, &judged);
}

struct ranked {
    uint32_t row;
    uint64_t key;
};

static int compare_ranked(const void *pa, const void *pb)
{
    const struct ranked *a = pa;
    const struct ranked *b = pb;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static uint64_t key_of(const struct tide_r_gclist *list, bool by_freed,
                       uint32_t row)
{
    const uint32_t n = list->floors->n;
    struct tide_r_counts counts;
    if (list->by_stack && list->model->stacks[row].kind == TIDE_R_KIND_MORE)
        return 0;
    if (!by_freed)
        return n == 0 ? 0 : floors_of(list, row)[n - 1];
    counts_of_row(list, row, &counts);
    return counts.freed_bytes;
}

static uint32_t rank(const struct tide_r_gclist *list, bool by_freed,
                     struct ranked *ranked, uint32_t n_all)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < n_all; i++) {
        const uint64_t key = key_of(list, by_freed, i);
        if (key > 0)
            ranked[n++] = (struct ranked){i, key};
    }
    qsort(ranked, n, sizeof *ranked, compare_ranked);
    return n;
}

enum tide_err tideR_gclist_sort(const struct tide_r_gclist *list, bool by_freed,
                                uint32_t **rows, uint32_t *n)
{
    const struct tide_model *model = list->model;
    const uint32_t n_all = list->by_stack ? model->n_stacks : model->n_lines;
    struct ranked *ranked = calloc(n_all, sizeof *ranked);
    *rows = calloc(n_all, sizeof **rows);
    if (ranked == NULL || *rows == NULL) {
        free(ranked);
        free(*rows);
        *rows = NULL;
        return TIDE_ERR_NOMEM;
    }
    *n = rank(list, by_freed, ranked, n_all);
    for (uint32_t i = 0; i < *n; i++)
        (*rows)[i] = ranked[i].row;
    free(ranked);
    return TIDE_OK;
}

/* Appends as much as there is room for. */
static void append(char *out, size_t out_bytes, const char *text)
{
    const size_t n = strlen(out);
    snprintf(out + n, out_bytes - n, "%s", text);
}

void tideR_stack_place(const struct tide_model *model, uint32_t stack,
                       uint32_t n_frames, char *out, size_t out_bytes)
{
    char place[TIDE_R_PLACE_MAX];
    uint32_t path[FRAMES_SHOWN];
    uint32_t n = 0;
    uint32_t node = model->stacks[stack].node;
    for (; node != 0 && n < n_frames && n < FRAMES_SHOWN;
         node = model->nodes[node].parent)
        path[n++] = model->nodes[node].frame;
    snprintf(out, out_bytes, "%s", node != 0 ? "... > " : "");
    while (n-- > 0) {
        tideR_frame_label(model, path[n], place, sizeof place);
        append(out, out_bytes, place);
        append(out, out_bytes, n > 0 ? " > " : " ");
    }
    append(out, out_bytes, "[");
    append(out, out_bytes, tideC_kind_name(model->stacks[stack].cell_kind));
    append(out, out_bytes, "]");
}

void tideR_gclist_place(const struct tide_r_gclist *list, uint32_t row,
                        char *out, size_t out_bytes)
{
    char place[TIDE_R_PLACE_MAX];
    if (list->by_stack)
        tideR_stack_place(list->model, row, FRAMES_SHOWN, out, out_bytes);
    else
        snprintf(out, out_bytes, "%s", tideR_place(list->model, row, place));
}
