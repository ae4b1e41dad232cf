/*
** diff.c: pairs the rows of two models; see diff.h.
**
** Both trees are walked parents first and merged on (parent, function, line),
** the lines of the base being those that they are in the new run.  A line
** that is gone keeps its old number and a mark that no line has.
*/
#include "diff.h"

#include <stdlib.h>
#include <string.h>

#include "diff_impl.h"
#include "grow.h"

#define GONE_LINE 0x80000000u

struct merge {
    struct tide_diff *diff;
    struct tide_r_match *match_or_null;
    struct tide_mem mem; /* holds the tables */
    struct tide_hashtab by_frame;
    struct tide_hashtab by_node;
    struct tide_hashtab by_line;
    uint64_t n_frames;
    uint32_t max_nodes;
    uint32_t *base_funcs; /* by function of the base: its pair */
    uint32_t *now_funcs;
};

const struct tide_model *tideR_diff_model(const struct tide_diff *diff,
                                          struct tide_r_pair pair)
{
    return pair.now == TIDE_R_NONE && pair.base != TIDE_R_NONE
               ? diff->base_or_null
               : diff->now;
}

const struct tide_r_func *tideR_diff_func(const struct tide_diff *diff,
                                          uint32_t pair)
{
    const struct tide_r_pair row = diff->funcs[pair];
    const struct tide_model *model = tideR_diff_model(diff, row);
    return &model->funcs[model == diff->now ? row.now : row.base];
}

const struct tide_r_target *tideR_diff_target(const struct tide_diff *diff,
                                              uint32_t pair)
{
    const struct tide_r_pair row = diff->targets[pair];
    const struct tide_model *model = tideR_diff_model(diff, row);
    return &model->targets[model == diff->now ? row.now : row.base];
}

bool tideR_diff_is_noise(uint64_t base, uint64_t now)
{
    const uint64_t most = base > now ? base : now;
    const uint64_t change = base > now ? base - now : now - base;
    return (double)change <= TIDE_R_NOISE_SHARE * (double)most;
}

/* ---- functions ---------------------------------------------------------- */

static enum tide_err merge_funcs(struct merge *m)
{
    struct tide_diff *diff = m->diff;
    const struct tide_model *base = diff->base_or_null;
    const uint32_t n_base = base != NULL ? base->n_funcs : 1;
    diff->funcs =
        calloc((size_t)diff->now->n_funcs + n_base, sizeof *diff->funcs);
    m->now_funcs = calloc(diff->now->n_funcs, sizeof *m->now_funcs);
    m->base_funcs = calloc(n_base, sizeof *m->base_funcs);
    TIDE_FAIL_IF(diff->funcs == NULL || m->now_funcs == NULL ||
                     m->base_funcs == NULL,
                 TIDE_ERR_NOMEM);
    diff->n_funcs = diff->now->n_funcs;
    for (uint32_t i = 1; i < diff->now->n_funcs; i++) {
        diff->funcs[i].now = i;
        m->now_funcs[i] = i;
    }
    for (uint32_t i = 1; i < n_base; i++) {
        const uint32_t target = m->match_or_null->funcs[i];
        const uint32_t pair = target != TIDE_R_NONE ? target : diff->n_funcs++;
        diff->funcs[pair].base = i;
        m->base_funcs[i] = pair;
    }
    return TIDE_OK;
}

/* ---- lines -------------------------------------------------------------- */

static uint64_t line_key(uint32_t source, uint32_t line)
{
    return ((uint64_t)source << 32 | line) + 1;
}

/* The new run's row of a base row that is not taken yet; NONE: gone. */
static uint32_t find_line(struct merge *m, uint32_t row)
{
    const struct tide_r_match *match = m->match_or_null;
    const struct tide_r_line *line = &match->base->lines[row];
    const uint32_t func = match->base->frames[line->best_frame].func;
    if (!match->has_source[line->source])
        return TIDE_R_NONE;
    const uint32_t moved = tideR_match_line(match, func, line->line);
    uint64_t *found = tideC_hashtab_find(
        &m->by_line, line_key(match->sources[line->source], moved));
    /* line 0 is one whose number is not known */
    if (found == NULL || (moved == 0 && line->line != 0))
        return TIDE_R_NONE;
    const uint32_t target = (uint32_t)*found;
    *found = TIDE_R_NONE;
    return target;
}

static enum tide_err merge_lines(struct merge *m)
{
    struct tide_diff *diff = m->diff;
    const struct tide_model *now = diff->now;
    const uint32_t n_base =
        diff->base_or_null != NULL ? diff->base_or_null->n_lines : 1;
    diff->lines = calloc((size_t)now->n_lines + n_base, sizeof *diff->lines);
    TIDE_FAIL_IF(diff->lines == NULL, TIDE_ERR_NOMEM);
    diff->n_lines = now->n_lines;
    for (uint32_t i = 1; i < now->n_lines; i++) {
        diff->lines[i].now = i;
        uint64_t *place = tideC_hashtab_put(
            &m->by_line, &m->mem,
            line_key(now->lines[i].source, now->lines[i].line));
        TIDE_FAIL_IF(place == NULL, TIDE_ERR_NOMEM);
        *place = i;
    }
    for (uint32_t i = 1; i < n_base; i++) {
        const uint32_t target = find_line(m, i);
        const uint32_t pair = target != TIDE_R_NONE ? target : diff->n_lines++;
        diff->lines[pair].base = i;
    }
    return TIDE_OK;
}

/* ---- trees -------------------------------------------------------------- */

static enum tide_err frame_of(struct merge *m, uint32_t func, uint32_t line,
                              uint32_t *out)
{
    uint64_t *row =
        tideC_hashtab_put(&m->by_frame, &m->mem, line_key(func, line));
    TIDE_FAIL_IF(row == NULL, TIDE_ERR_NOMEM);
    if (*row == 0)
        *row = ++m->n_frames;
    *out = (uint32_t)*row;
    return TIDE_OK;
}

/* The merged node of a function at a line below a merged parent. */
static enum tide_err add_node(struct merge *m, uint32_t parent, uint32_t func,
                              uint32_t line, uint32_t *out)
{
    struct tide_diff *diff = m->diff;
    uint32_t frame;
    TIDE_TRY(frame_of(m, func, line, &frame));
    uint64_t *row =
        tideC_hashtab_put(&m->by_node, &m->mem, line_key(parent, frame));
    TIDE_FAIL_IF(row == NULL, TIDE_ERR_NOMEM);
    if (*row == 0) {
        TIDE_TRY(tideR_grow(&diff->nodes, &m->max_nodes,
                            (uint64_t)diff->n_nodes + 1, sizeof *diff->nodes));
        *row = diff->n_nodes;
        diff->nodes[diff->n_nodes++] = (struct tide_r_both_node){
            .parent = parent, .func = func, .line = line & ~GONE_LINE};
    }
    *out = (uint32_t)*row;
    return TIDE_OK;
}

/* A base node's line as the new run counts; one that is gone is marked. */
static uint32_t moved_line(const struct merge *m, uint32_t func, uint32_t line)
{
    if (line == 0 ||
        !tideR_what_is_lua(m->match_or_null->base->funcs[func].what))
        return line;
    const uint32_t moved = tideR_match_line(m->match_or_null, func, line);
    return moved != 0 ? moved : line | GONE_LINE;
}

static enum tide_err merge_tree(struct merge *m, const struct tide_model *model,
                                bool is_base)
{
    uint32_t *map = calloc(model->n_nodes, sizeof *map);
    TIDE_FAIL_IF(map == NULL, TIDE_ERR_NOMEM);
    enum tide_err err = TIDE_OK;
    for (uint32_t i = 1; i < model->n_nodes && err == TIDE_OK; i++) {
        const struct tide_r_node *node = &model->nodes[i];
        const struct tide_r_frame *frame = &model->frames[node->frame];
        const uint32_t func =
            is_base ? m->base_funcs[frame->func] : m->now_funcs[frame->func];
        const uint32_t line =
            is_base ? moved_line(m, frame->func, frame->line) : frame->line;
        err = add_node(m, map[node->parent], func, line, &map[i]);
        if (err != TIDE_OK)
            break;
        struct tide_r_pair *pair = &m->diff->nodes[map[i]].nodes;
        if (!is_base)
            pair->now = i;
        else if (pair->base == TIDE_R_NONE)
            pair->base = i;
        else /* two lines became one: the second keeps a node of its own */
            err =
                add_node(m, map[node->parent], func, line | GONE_LINE, &map[i]);
        if (is_base && err == TIDE_OK)
            m->diff->nodes[map[i]].nodes.base = i;
    }
    free(map);
    return err;
}

static enum tide_err merge_trees(struct merge *m)
{
    struct tide_diff *diff = m->diff;
    TIDE_TRY(tideR_grow(&diff->nodes, &m->max_nodes, 1, sizeof *diff->nodes));
    diff->nodes[0] = (struct tide_r_both_node){0};
    diff->n_nodes = 1;
    TIDE_TRY(merge_tree(m, diff->now, false));
    return diff->base_or_null != NULL ? merge_tree(m, diff->base_or_null, true)
                                      : TIDE_OK;
}

static enum tide_err merge_all(struct merge *m)
{
    if (m->match_or_null != NULL)
        TIDE_TRY(tideR_match_open(m->match_or_null));
    TIDE_TRY(merge_funcs(m));
    TIDE_TRY(merge_lines(m));
    TIDE_TRY(tideR_match_targets(m->diff));
    return merge_trees(m);
}

enum tide_err tideR_diff_open(const struct tide_model *base_or_null,
                              const struct tide_model *now,
                              const struct tide_r_texts *texts,
                              struct tide_diff *out)
{
    struct tide_r_match match = {
        .base = base_or_null, .now = now, .texts = texts};
    struct merge m = {.diff = out,
                      .match_or_null = base_or_null != NULL ? &match : NULL};
    *out = (struct tide_diff){.base_or_null = base_or_null, .now = now};
    const enum tide_err err = merge_all(&m);
    out->has_texts = match.has_texts;
    if (base_or_null != NULL)
        tideR_match_close(&match);
    free(m.base_funcs);
    free(m.now_funcs);
    tideC_hashtab_close(&m.by_frame, &m.mem);
    tideC_hashtab_close(&m.by_node, &m.mem);
    tideC_hashtab_close(&m.by_line, &m.mem);
    tideC_mem_close(&m.mem);
    return err;
}

void tideR_diff_close(struct tide_diff *diff)
{
    free(diff->funcs);
    free(diff->lines);
    free(diff->targets);
    free(diff->nodes);
    *diff = (struct tide_diff){0};
}
