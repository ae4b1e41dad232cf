/*
** model.c: opens, closes and answers questions about a model; model.h says
** what it is.  gather.c merges the heaps, sums.c adds up what needs the whole
** tree, notes.c says what limits the figures.
*/
#include "model.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model_impl.h"

/* From the start to the end or to the last thing that was noted. */
static double seconds_of(const struct tide_p_header *header)
{
    if (header->end_mono_ns <= header->start_mono_ns)
        return 0;
    return (double)(header->end_mono_ns - header->start_mono_ns) / 1e9;
}

static bool is_complete(const struct tide_model *model)
{
    return model->header->state == TIDE_P_CLOSED &&
           (model->header->flags & TIDE_P_FLAG_PARTLY_IN_MEMORY) == 0 &&
           tideP_reader_problem(model->profile)->err == TIDE_OK;
}

static enum tide_err build_model(struct tide_model *model)
{
    model->header = tideP_reader_header(model->profile);
    model->seconds = seconds_of(model->header);
    model->is_complete = is_complete(model);
    TIDE_TRY(tideR_strtab_open(&model->strings));
    TIDE_TRY(tideR_gather(model));
    tideR_order_marks(model);
    TIDE_TRY(tideR_summarize(model));
    tideR_sum_gc(model);
    TIDE_TRY(tideR_fill_floors(model));
    TIDE_TRY(tideR_fill_blocks(model));
    TIDE_TRY(tideR_find(model));
    tideR_note_limits(model);
    tideR_note_too_few(model);
    return TIDE_OK;
}

/* FILE@MARK where there is no file of that whole name; NULL: no mark. */
static const char *mark_of_path(const char *path, char *file, size_t file_bytes)
{
    const char *at = strrchr(path, '@');
    if (at == NULL || at == path || at[1] == '\0' || access(path, F_OK) == 0 ||
        (size_t)(at - path) >= file_bytes)
        return NULL;
    for (; at > path; at--) { /* a mark's name may have an @ as well */
        if (*at != '@')
            continue;
        memcpy(file, path, (size_t)(at - path));
        file[at - path] = '\0';
        if (access(file, F_OK) == 0)
            return at + 1;
    }
    return NULL;
}

static enum tide_err open_profile(struct tide_model *model, const char *path,
                                  struct tide_p_problem *problem)
{
    char file[PATH_MAX];
    const char *mark = mark_of_path(path, file, sizeof file);
    if (mark == NULL)
        return tideP_reader_open_lean(path, &model->profile, problem);
    TIDE_TRY(tideP_reader_open(file, &model->profile, problem));
    model->at_mark = strdup(mark);
    TIDE_FAIL_IF(model->at_mark == NULL, TIDE_ERR_NOMEM);
    return tideP_reader_to_mark(model->profile, mark, problem);
}

enum tide_err tideR_model_open(const char *path, struct tide_model **out,
                               struct tide_p_problem *problem)
{
    const struct tide_r_options options = {0};
    return tideR_model_open_with(path, &options, out, problem);
}

enum tide_err tideR_model_open_with(const char *path,
                                    const struct tide_r_options *options,
                                    struct tide_model **out,
                                    struct tide_p_problem *problem)
{
    struct tide_model *model = calloc(1, sizeof *model);
    enum tide_err err = TIDE_ERR_NOMEM;
    *problem = (struct tide_p_problem){.err = TIDE_OK};
    if (model != NULL) {
        model->options = *options;
        err = open_profile(model, path, problem);
    }
    if (err == TIDE_OK)
        err = build_model(model);
    if (err == TIDE_OK) {
        *out = model;
        return TIDE_OK;
    }
    if (problem->err == TIDE_OK) {
        problem->err = err;
        snprintf(problem->text, sizeof problem->text, "%s", tide_err_text(err));
    }
    tideR_model_close(model);
    return err;
}

void tideR_model_close(struct tide_model *model)
{
    if (model == NULL)
        return;
    free(model->funcs);
    free(model->frames);
    free(model->nodes);
    free(model->stacks);
    free(model->heaps);
    tideR_packed_close(&model->packed);
    free(model->lines);
    free(model->line_stacks);
    free(model->groups);
    free(model->targets);
    free(model->rules);
    free(model->cycles);
    free(model->events);
    free(model->marks);
    free(model->blocks);
    free(model->at_mark);
    tideR_floors_close(&model->floors);
    tideR_strtab_close(&model->strings);
    tideR_symbols_close(model->symbols);
    tideP_reader_close(model->profile);
    free(model);
}

void tideR_model_stack_counts(const struct tide_model *model, uint32_t stack,
                              struct tide_r_counts *out)
{
    tideR_unpack(&model->packed, model->stacks[stack].counts, out);
    for (uint32_t i = model->stacks[stack].more; i != TIDE_R_NONE;
         i = model->stacks[i].more) {
        struct tide_r_counts counts;
        tideR_unpack(&model->packed, model->stacks[i].counts, &counts);
        tideR_counts_add(out, &counts);
    }
}

/* Where the stacks of a line end in line_stacks. */
static uint32_t end_of_stacks(const struct tide_model *model, uint32_t line)
{
    return line + 1 < model->n_lines ? model->lines[line + 1].first_stack
                                     : model->n_stacks - 1;
}

void tideR_line_kinds(const struct tide_model *model, uint32_t line,
                      struct tide_r_line_kind out[TIDE_KIND_COUNT_])
{
    const uint32_t end = end_of_stacks(model, line);
    memset(out, 0, TIDE_KIND_COUNT_ * sizeof *out);
    for (uint32_t i = model->lines[line].first_stack; i < end; i++) {
        const uint32_t stack = model->line_stacks[i];
        struct tide_r_counts counts;
        if (model->stacks[stack].kind == TIDE_R_KIND_MORE)
            continue; /* counted where it hangs */
        tideR_model_stack_counts(model, stack, &counts);
        struct tide_r_line_kind *row = &out[model->stacks[stack].kind];
        row->alloc_bytes += counts.alloc_bytes;
        row->alloc_blocks += counts.alloc_blocks;
        row->live_bytes += counts.live_bytes;
        row->live_blocks += counts.live_blocks;
    }
}

void tideR_ages(const struct tide_r_counts *c, bool is_blocks,
                uint64_t ages[TIDE_R_AGES])
{
    const uint64_t freed = is_blocks ? c->freed_blocks : c->freed_bytes;
    ages[0] = is_blocks ? c->young_blocks : c->young_bytes;
    ages[1] = is_blocks ? c->once_blocks : c->once_bytes;
    ages[2] = is_blocks ? c->twice_blocks : c->twice_bytes;
    const uint64_t known = ages[0] + ages[1] + ages[2] +
                           (is_blocks ? c->ageless_blocks : c->ageless_bytes);
    ages[3] = freed > known ? freed - known : 0;
}

bool tideR_counts_are_zero(const struct tide_r_counts *c)
{
    return (c->alloc_bytes | c->alloc_blocks | c->freed_bytes |
            c->freed_blocks | c->live_bytes | c->live_blocks | c->peak_bytes |
            (uint64_t)c->moved_bytes | (uint64_t)c->moved_blocks) == 0;
}

const struct tide_r_func *tideR_model_func(const struct tide_model *model,
                                           uint32_t node)
{
    return &model->funcs[model->frames[model->nodes[node].frame].func];
}

const struct tide_r_func *tideR_line_func(const struct tide_model *model,
                                          const struct tide_r_line *line)
{
    return &model->funcs[model->frames[line->best_frame].func];
}

const char *tideR_what_name(enum tide_p_what what)
{
    if (what == TIDE_P_MAIN)
        return "main";
    return tideR_what_is_lua(what) ? "Lua" : "C";
}

bool tideR_what_is_lua(enum tide_p_what what)
{
    return what == TIDE_P_LUA || what == TIDE_P_MAIN ||
           what == TIDE_P_OTHER_CHUNKS;
}

const char *tideR_model_text(const struct tide_model *model, uint32_t string,
                             size_t *n)
{
    *n = model->strings.strs[string].length;
    return tideR_strtab_text(&model->strings, string);
}

double tideR_seconds(const struct tide_model *model, uint64_t mono_ns)
{
    const uint64_t start = model->header->start_mono_ns;
    return mono_ns > start ? (double)(mono_ns - start) / 1e9 : 0;
}

size_t tideR_command_text(const struct tide_model *model, char *out)
{
    size_t n = model->header->command_bytes;
    memcpy(out, model->header->command, n);
    while (n > 0 && out[n - 1] == '\0')
        n--;
    for (size_t i = 0; i < n; i++)
        if (out[i] == '\0')
            out[i] = ' ';
    return n;
}

size_t tideR_title_text(const struct tide_model *model, char *out)
{
    const struct tide_p_header *header = model->header;
    size_t n = tideR_command_text(model, out);
    if (n == 0) {
        n = strnlen(header->program, sizeof header->program);
        memcpy(out, header->program, n);
    }
    return n;
}

enum tide_err tideR_children_open(const struct tide_model *model,
                                  struct tide_r_children *out)
{
    uint32_t *first = calloc(model->n_nodes, sizeof *first);
    uint32_t *next = calloc(model->n_nodes, sizeof *next);
    if (first == NULL || next == NULL) {
        free(first);
        free(next);
        return TIDE_ERR_NOMEM;
    }
    for (uint32_t i = model->n_nodes - 1; i > 0; i--) {
        const uint32_t parent = model->nodes[i].parent;
        next[i] = first[parent];
        first[parent] = i;
    }
    *out = (struct tide_r_children){first, next};
    return TIDE_OK;
}

void tideR_children_close(struct tide_r_children *children)
{
    free(children->first);
    free(children->next);
    *children = (struct tide_r_children){0};
}

uint32_t tideR_children_step(const struct tide_model *model,
                             const struct tide_r_children *children,
                             uint32_t node, tide_r_left_fn left_fn, void *ctx)
{
    if (children->first[node] != 0)
        return children->first[node];
    for (; node != 0; node = model->nodes[node].parent) {
        left_fn(ctx, node);
        if (children->next[node] != 0)
            return children->next[node];
    }
    return 0;
}
