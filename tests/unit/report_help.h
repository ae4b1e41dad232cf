/*
** report_help.h: what the tests of models and reports share: profiles put
** together by hand, and rows found by what they are called.
*/
#ifndef TIDE_TESTS_REPORT_HELP_H
#define TIDE_TESTS_REPORT_HELP_H

#include <stdlib.h>
#include <string.h>

#include "../../report/model.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"

/* A profile that is being put together. */
struct made {
    const char *path;
    struct tide_writer *writer;
    struct syn_heap heaps[3];
    unsigned n_heaps;
};

static inline struct syn_heap *made_heap(struct made *made)
{
    CHECK(made->n_heaps < 3);
    struct syn_heap *heap = &made->heaps[made->n_heaps++];
    syn_heap_open(made->writer, heap);
    return heap;
}

/* Starts one; returns its first heap. */
static inline struct syn_heap *made_open(struct made *made)
{
    *made = (struct made){.path = scratch_path("made.tide")};
    CHECK_EQ(tideP_writer_open(made->path, &made->writer), TIDE_OK);
    syn_fill_header(tideP_writer_header(made->writer));
    return made_heap(made);
}

/* Closes it and reads it back. */
static inline struct tide_model *made_model(struct made *made)
{
    struct tide_model *model;
    struct tide_p_problem problem = {.err = TIDE_OK};
    for (unsigned i = 0; i < made->n_heaps; i++)
        syn_heap_close(&made->heaps[i]);
    CHECK_EQ(tideP_writer_close(made->writer), TIDE_OK);
    CHECK_EQ(tideR_model_open(made->path, &model, &problem), TIDE_OK);
    CHECK_STR(problem.text, "");
    return model;
}

/* A cell of so many bytes and blocks, of which some were freed. */
/* What stands beside a cell that add_cell has made. */
static inline struct tide_p_rest *rest_of(struct syn_heap *heap,
                                          const struct tide_p_cell *cell)
{
    return syn_rest(heap, (uint32_t)(cell - syn_cell_at(heap, 0)));
}

static inline struct tide_p_cell *add_cell(struct syn_heap *heap, uint32_t node,
                                           enum tide_kind kind, uint64_t bytes,
                                           uint64_t freed)
{
    struct tide_p_cell *cell = syn_cell_at(heap, syn_cell(heap, node, kind));
    cell->alloc_bytes = bytes;
    cell->alloc_blocks = 2;
    cell->freed_bytes = freed;
    cell->freed_blocks = freed > 0;
    return cell;
}

static inline const char *text_of(const struct tide_model *model, uint32_t s)
{
    return tideR_strtab_text(&model->strings, s);
}

/* NULL when there is none. */
static inline const struct tide_r_line *
line_of(const struct tide_model *model, const char *source, uint32_t line)
{
    for (uint32_t i = 1; i < model->n_lines; i++)
        if (model->lines[i].line == line &&
            strcmp(text_of(model, model->lines[i].source), source) == 0)
            return &model->lines[i];
    return NULL;
}

static inline const struct tide_r_func *func_of(const struct tide_model *model,
                                                const char *name)
{
    for (uint32_t i = 0; i < model->n_funcs; i++)
        if (strcmp(text_of(model, model->funcs[i].name), name) == 0)
            return &model->funcs[i];
    return NULL;
}

static inline const char *group_of(const struct tide_model *model,
                                   const struct tide_r_func *func)
{
    return text_of(model, model->groups[func->group].name);
}

/* Model of a random profile. */
static inline struct tide_model *model_of_shape(const struct syn_shape *shape)
{
    struct tide_model *model;
    struct tide_p_problem problem;
    const char *path = scratch_path("random.tide");
    syn_write(path, shape);
    CHECK_EQ(tideR_model_open(path, &model, &problem), TIDE_OK);
    return model;
}

#endif
