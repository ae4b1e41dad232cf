/*
** grouping.c: which group each function is of, and what groups and targets
** allocated.
**
** A function is in a group because the program has named it, or by a rule, or
** as a region; else its group is its module, its C library or its file.  Bytes
** belong to the nearest function above them that was named (a target); what is
** below no target belongs to the function itself.  So a group's sum and a
** target's have everything once, and sums of each list are the totals.
*/
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "model_impl.h"

#define REGION_PREFIX "[region] "
#define REGION_GROUP  "regions"

struct grouping {
    struct tide_model *model;
    struct tide_mem mem;           /* holds the tables */
    struct tide_hashtab by_name;   /* string to group + 1 */
    struct tide_hashtab by_source; /* string to the module's */
    struct tide_hashtab by_region; /* string to row of targets */
    uint32_t *homes;               /* by function: the group without asking */
    uint32_t max_groups;
    uint32_t max_targets;
};

static enum tide_err put_text(struct tide_model *model, const char *text,
                              uint32_t *out)
{
    return tideR_strtab_put(&model->strings, text, strlen(text), out);
}

static bool is_file(const struct tide_r_func *func)
{
    return func->what == TIDE_P_LUA || func->what == TIDE_P_MAIN;
}

/* ---- modules ---- */

/* A Lua function that is of a module makes all of its file be of it. */
static enum tide_err note_modules(struct grouping *g)
{
    for (uint32_t i = 0; i < g->model->n_funcs; i++) {
        const struct tide_r_func *func = &g->model->funcs[i];
        if (func->module == 0 || !is_file(func) || func->source == 0)
            continue;
        uint64_t *module =
            tideC_hashtab_put(&g->by_source, &g->mem, func->source);
        TIDE_FAIL_IF(module == NULL, TIDE_ERR_NOMEM);
        *module = func->module;
    }
    return TIDE_OK;
}

static void find_module(struct grouping *g, struct tide_r_func *func)
{
    const uint64_t *module = NULL;
    if (is_file(func) && func->source != 0)
        module = tideC_hashtab_find(&g->by_source, func->source);
    if (module != NULL)
        func->module = (uint32_t)*module;
}

/* ---- regions ---- */

/* The name of a region's function; NULL: it is none. */
static const char *region_name(const struct tide_model *model,
                               const struct tide_r_func *func)
{
    const uint32_t string =
        func->what == TIDE_P_REGION ? func->name : func->source;
    const char *text = tideR_strtab_text(&model->strings, string);
    const bool may_be = func->what == TIDE_P_REGION || is_file(func);
    return may_be && strncmp(text, REGION_PREFIX, sizeof REGION_PREFIX - 1) == 0
               ? text + sizeof REGION_PREFIX - 1
               : NULL;
}

/* Regions of one name are one target, whichever way they were made. */
static enum tide_err name_region(struct tide_model *model,
                                 struct tide_r_func *func)
{
    char name[TIDE_P_STRING_MAX + 1];
    const char *text = region_name(model, func);
    if (text == NULL)
        return TIDE_OK;
    strcpy(name, text);
    func->sort = TIDE_R_TARGET_REGION;
    TIDE_TRY(put_text(model, name, &func->target_name));
    if (is_file(func)) /* its frame is named as others are, by its source */
        func->name = func->source;
    return put_text(model, REGION_GROUP, &func->target_group);
}

/* ---- rules ---- */

static bool matches(const struct tide_model *model, uint32_t pattern,
                    uint32_t string)
{
    return pattern == 0 ||
           fnmatch(tideR_strtab_text(&model->strings, pattern),
                   tideR_strtab_text(&model->strings, string), 0) == 0;
}

static bool rule_matches(const struct grouping *g,
                         const struct tide_r_rule *rule, uint32_t func)
{
    const struct tide_model *model = g->model;
    const struct tide_r_func *f = &model->funcs[func];
    if (!rule->has_pattern || (rule->source != 0 && !is_file(f)))
        return false;
    const uint32_t module =
        is_file(f) || f->module != 0 ? f->module : g->homes[func];
    return matches(model, rule->source, f->source) &&
           matches(model, rule->module, module) &&
           matches(model, rule->name, f->name);
}

/* Puts a function that nobody has named into the group of a rule. */
static void apply_rules(struct grouping *g, uint32_t func)
{
    struct tide_r_func *f = &g->model->funcs[func];
    if (f->sort != TIDE_R_TARGET_NONE || (!is_file(f) && f->what != TIDE_P_C))
        return;
    for (uint32_t i = g->model->n_rules; i > 0; i--) {
        const struct tide_r_rule *rule = &g->model->rules[i - 1];
        if (!rule_matches(g, rule, func))
            continue;
        f->sort = TIDE_R_TARGET_NAMED;
        f->target_group = rule->group;
        f->target_name = f->name;
        return;
    }
}

/* ---- groups ---- */

/* The row of a group's name; groups are made as they are met. */
static enum tide_err group_of(struct grouping *g, uint32_t name, bool is_named,
                              uint32_t *out)
{
    struct tide_model *model = g->model;
    uint64_t *row = tideC_hashtab_put(&g->by_name, &g->mem, (uint64_t)name + 1);
    TIDE_FAIL_IF(row == NULL, TIDE_ERR_NOMEM);
    if (*row == 0) {
        TIDE_TRY(tideR_grow(&model->groups, &g->max_groups,
                            (uint64_t)model->n_groups + 1,
                            sizeof *model->groups));
        model->groups[model->n_groups] = (struct tide_r_group){.name = name};
        *row = ++model->n_groups;
    }
    *out = (uint32_t)*row - 1;
    model->groups[*out].is_named = model->groups[*out].is_named || is_named;
    return TIDE_OK;
}

static enum tide_err fill_groups(struct grouping *g)
{
    struct tide_model *model = g->model;
    uint32_t group;
    for (uint32_t i = 0; i < model->n_funcs; i++) {
        struct tide_r_func *func = &model->funcs[i];
        const bool is_named = func->sort != TIDE_R_TARGET_NONE;
        const uint32_t name = is_named            ? func->target_group
                              : func->module != 0 ? func->module
                                                  : g->homes[i];
        TIDE_TRY(group_of(g, name, is_named, &func->group));
        model->groups[func->group].n_funcs++;
    }
    for (uint32_t i = 0; i < model->n_rules; i++)
        TIDE_TRY(group_of(g, model->rules[i].group, true, &group));
    return TIDE_OK;
}

/* ---- targets ---- */

static enum tide_err add_target(struct grouping *g, uint32_t func,
                                enum tide_r_target_sort sort, uint32_t *out)
{
    struct tide_model *model = g->model;
    const struct tide_r_func *f = &model->funcs[func];
    const bool is_region = sort == TIDE_R_TARGET_REGION;
    TIDE_TRY(tideR_grow(&model->targets, &g->max_targets,
                        (uint64_t)model->n_targets + 1,
                        sizeof *model->targets));
    *out = model->n_targets++;
    model->targets[*out] = (struct tide_r_target){
        .group = f->group,
        .name = sort == TIDE_R_TARGET_NONE || f->target_name == 0
                    ? f->name
                    : f->target_name,
        .source = is_region ? 0 : f->source,
        .linedefined = is_region ? 0 : f->linedefined,
        .sort = sort,
    };
    return TIDE_OK;
}

static enum tide_err target_of(struct grouping *g, uint32_t func, uint32_t *out)
{
    const struct tide_r_func *f = &g->model->funcs[func];
    if (f->sort != TIDE_R_TARGET_REGION)
        return add_target(g, func, f->sort, out);
    uint64_t *row =
        tideC_hashtab_put(&g->by_region, &g->mem, (uint64_t)f->target_name + 1);
    TIDE_FAIL_IF(row == NULL, TIDE_ERR_NOMEM);
    if (*row == 0) {
        TIDE_TRY(add_target(g, func, f->sort, out));
        *row = *out;
    }
    *out = (uint32_t)*row;
    return TIDE_OK;
}

/* Row 0 is what is below no target and of no module or library. */
static enum tide_err fill_rest(struct grouping *g)
{
    uint32_t rest;
    TIDE_TRY(add_target(g, 0, TIDE_R_TARGET_REST, &rest));
    struct tide_r_target *target = &g->model->targets[rest];
    TIDE_TRY(put_text(g->model, "no target", &target->name));
    target->source = 0;
    return TIDE_OK;
}

/* Functions of modules and libraries are rows by themselves. */
static bool has_row(const struct tide_r_func *func)
{
    return func->sort != TIDE_R_TARGET_NONE || func->what == TIDE_P_C ||
           (is_file(func) && func->module != 0);
}

/* A region's chunk makes its function, once: that is no call of the region. */
static void add_calls(struct tide_r_target *target,
                      const struct tide_r_func *func)
{
    if (func->sort == TIDE_R_TARGET_REGION && func->what == TIDE_P_MAIN)
        return;
    target->calls += func->calls;
    if (func->max_call_bytes > target->max_call_bytes)
        target->max_call_bytes = func->max_call_bytes;
}

static enum tide_err fill_targets(struct grouping *g)
{
    struct tide_model *model = g->model;
    TIDE_TRY(fill_rest(g));
    for (uint32_t i = 1; i < model->n_funcs; i++) {
        struct tide_r_func *func = &model->funcs[i];
        if (!has_row(func))
            continue;
        TIDE_TRY(target_of(g, i, &func->target));
        add_calls(&model->targets[func->target], func);
    }
    return TIDE_OK;
}

/* ---- sums ---- */

static bool is_named_target(const struct tide_model *model, uint32_t target)
{
    return model->targets[target].sort == TIDE_R_TARGET_NAMED ||
           model->targets[target].sort == TIDE_R_TARGET_REGION;
}

/* By node: the target that its bytes belong to. */
static void find_nearest(struct tide_model *model)
{
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        const struct tide_r_func *func = tideR_model_func(model, i);
        const uint32_t above = model->nodes[model->nodes[i].parent].target;
        const bool goes_with_caller =
            is_named_target(model, above) || func->what == TIDE_P_NATIVE;
        model->nodes[i].target =
            !is_named_target(model, func->target) && goes_with_caller
                ? above
                : func->target;
    }
}

static void sum_counts(struct tide_model *model)
{
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        struct tide_r_counts counts;
        if (stack->kind == TIDE_R_KIND_MORE)
            continue;
        tideR_model_stack_counts(model, i, &counts);
        struct tide_r_target *target =
            &model->targets[model->nodes[stack->node].target];
        tideR_counts_add(&target->counts, &counts);
        const uint32_t group = target->sort == TIDE_R_TARGET_REST
                                   ? tideR_model_func(model, stack->node)->group
                                   : target->group;
        tideR_counts_add(&model->groups[group].counts, &counts);
    }
}

static enum tide_err fill_all(struct grouping *g)
{
    struct tide_model *model = g->model;
    for (uint32_t i = 0; i < model->n_funcs; i++) {
        TIDE_TRY(tideR_name_func(model, i, &g->homes[i]));
        if (model->funcs[i].sort == TIDE_R_TARGET_NONE)
            TIDE_TRY(name_region(model, &model->funcs[i]));
    }
    TIDE_TRY(note_modules(g));
    for (uint32_t i = 0; i < model->n_funcs; i++) {
        find_module(g, &model->funcs[i]);
        apply_rules(g, i);
    }
    TIDE_TRY(fill_groups(g));
    TIDE_TRY(fill_targets(g));
    find_nearest(model);
    sum_counts(model);
    return TIDE_OK;
}

enum tide_err tideR_fill_groups(struct tide_model *model)
{
    struct grouping g = {.model = model,
                         .homes = calloc(model->n_funcs, sizeof *g.homes)};
    const enum tide_err err = g.homes == NULL ? TIDE_ERR_NOMEM : fill_all(&g);
    free(g.homes);
    tideC_hashtab_close(&g.by_name, &g.mem);
    tideC_hashtab_close(&g.by_source, &g.mem);
    tideC_hashtab_close(&g.by_region, &g.mem);
    tideC_mem_close(&g.mem);
    return err;
}
