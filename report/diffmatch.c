/*
** diffmatch.c: which source, function and line of a base is which of the new
** run; diff.h says by what.
**
** Sources and functions of both models become numbers in one table of keys:
** equal numbers match.  Functions with the same key (of one source, with one
** name) are paired in the order in which they stand in the file; where one
** side has more of them, those whose first lines agree come first.
*/
#include <stdlib.h>
#include <string.h>

#include "diff_impl.h"
#include "linemap.h"

#define BASENAMES_MAX 1000u /* sources left over that are compared by name */

/* A function with its key. */
struct keyed {
    uint32_t key;
    uint32_t line; /* first line, as the new run counts */
    uint32_t func;
};

/* What functions are matched on.  No padding. */
struct func_key {
    uint32_t what;
    uint32_t is_base_only; /* its source is not in the new run */
    uint32_t source;
    uint32_t name;
};

/* ---- sources ------------------------------------------------------------ */

struct source_list {
    uint32_t *strings; /* each once */
    uint32_t n;
};

static enum tide_err list_sources(const struct tide_model *model,
                                  struct source_list *out)
{
    bool *has = calloc(model->strings.n, sizeof *has);
    out->strings = calloc(model->n_funcs, sizeof *out->strings);
    if (has != NULL && out->strings != NULL)
        for (uint32_t i = 0; i < model->n_funcs; i++)
            if (!has[model->funcs[i].source]) {
                has[model->funcs[i].source] = true;
                out->strings[out->n++] = model->funcs[i].source;
            }
    const bool is_whole = has != NULL && out->strings != NULL;
    free(has);
    return is_whole ? TIDE_OK : TIDE_ERR_NOMEM;
}

/* Matches equal names; what is left stays at the front of both lists. */
static enum tide_err match_names(struct tide_r_match *match,
                                 struct source_list *base,
                                 struct source_list *now)
{
    struct tide_strtab names;
    enum tide_err err = tideR_strtab_open(&names);
    uint32_t *at = calloc((size_t)now->n + 2, sizeof *at); /* 0: taken */
    uint32_t left = 0;
    uint32_t name = 0;
    size_t n;
    if (at == NULL)
        err = TIDE_ERR_NOMEM;
    for (uint32_t i = 0; i < now->n && err == TIDE_OK; i++) {
        const char *text = tideR_model_text(match->now, now->strings[i], &n);
        err = tideR_strtab_put(&names, text, n, &name);
        if (err == TIDE_OK)
            at[name] = i + 1;
    }
    for (uint32_t i = 0; i < base->n && err == TIDE_OK; i++) {
        const uint32_t string = base->strings[i];
        const char *text = tideR_model_text(match->base, string, &n);
        err = tideR_strtab_put(&names, text, n, &name);
        if (err == TIDE_OK && name <= now->n && at[name] != 0) {
            match->sources[string] = now->strings[at[name] - 1];
            match->has_source[string] = true;
            at[name] = 0;
        } else {
            base->strings[left++] = string;
        }
    }
    base->n = left;
    left = 0;
    for (uint32_t i = 0; i < now->n && err == TIDE_OK; i++) {
        const char *text = tideR_model_text(match->now, now->strings[i], &n);
        err = tideR_strtab_put(&names, text, n, &name);
        if (err == TIDE_OK && at[name] != 0)
            now->strings[left++] = now->strings[i];
    }
    now->n = left;
    free(at);
    tideR_strtab_close(&names);
    return err;
}

static const char *file_name(const struct tide_model *model, uint32_t string)
{
    const char *text = tideR_strtab_text(&model->strings, string);
    const char *slash = strrchr(text, '/');
    return slash != NULL ? slash + 1 : text;
}

/* Those with that file name; *found gets one of them. */
static uint32_t count_files(const struct tide_model *model,
                            const struct source_list *list, const char *name,
                            uint32_t *found)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (strcmp(file_name(model, list->strings[i]), name) == 0) {
            *found = list->strings[i];
            n++;
        }
    return n;
}

/* old/app.lua is new/app.lua where no other app.lua is left. */
static void match_files(struct tide_r_match *match,
                        const struct source_list *base,
                        const struct source_list *now)
{
    uint32_t source = 0;
    uint32_t target = 0;
    if (base->n > BASENAMES_MAX || now->n > BASENAMES_MAX)
        return;
    for (uint32_t i = 0; i < base->n; i++) {
        const char *name = file_name(match->base, base->strings[i]);
        if (count_files(match->base, base, name, &source) == 1 &&
            count_files(match->now, now, name, &target) == 1) {
            match->sources[source] = target;
            match->has_source[source] = true;
        }
    }
}

/* The lines of one source, where both versions are at hand. */
static enum tide_err map_source(struct tide_r_match *match, uint32_t source)
{
    struct tide_r_moved *moved = &match->moved[source];
    const uint32_t target = match->sources[source];
    size_t na;
    size_t nb;
    const char *a = tideR_srctext_whole(
        match->texts->base_or_null,
        tideR_strtab_text(&match->base->strings, source), &na);
    const char *b = tideR_srctext_whole(
        match->texts->now_or_null,
        tideR_strtab_text(&match->now->strings, target), &nb);
    if (a == NULL || b == NULL)
        return TIDE_OK;
    match->has_texts = true;
    return tideR_linemap(a, na, b, nb, &moved->lines, &moved->n_lines);
}

static enum tide_err map_sources(struct tide_r_match *match)
{
    if (match->texts == NULL || match->texts->base_or_null == NULL ||
        match->texts->now_or_null == NULL)
        return TIDE_OK;
    for (uint32_t i = 0; i < match->base->n_funcs; i++) {
        const struct tide_r_func *func = &match->base->funcs[i];
        if (tideR_what_is_lua(func->what) && match->has_source[func->source] &&
            match->moved[func->source].lines == NULL)
            TIDE_TRY(map_source(match, func->source));
    }
    return TIDE_OK;
}

static enum tide_err match_sources(struct tide_r_match *match)
{
    struct source_list base = {0};
    struct source_list now = {0};
    enum tide_err err = list_sources(match->base, &base);
    if (err == TIDE_OK)
        err = list_sources(match->now, &now);
    if (err == TIDE_OK)
        err = match_names(match, &base, &now);
    if (err == TIDE_OK) {
        match_files(match, &base, &now);
        err = map_sources(match);
    }
    free(base.strings);
    free(now.strings);
    return err;
}

/* ---- functions ---------------------------------------------------------- */

/* Names made up from a line or an address say nothing about the function. */
static bool has_name(const struct tide_model *model,
                     const struct tide_r_func *func)
{
    static const char made_up[] = "function <";
    const char *name = tideR_strtab_text(&model->strings, func->name);
    return func->address == 0 &&
           strncmp(name, made_up, sizeof made_up - 1) != 0;
}

static enum tide_err put_key(const struct tide_r_match *match,
                             struct tide_strtab *keys,
                             const struct tide_model *model, uint32_t index,
                             uint32_t *out)
{
    const struct tide_r_func *func = &model->funcs[index];
    struct func_key key = {.what = func->what, .source = func->source};
    size_t n;
    if (model == match->base) {
        key.is_base_only = !match->has_source[func->source];
        if (!key.is_base_only)
            key.source = match->sources[func->source];
    }
    if (has_name(model, func)) {
        const char *text = tideR_model_text(model, func->name, &n);
        TIDE_TRY(tideR_strtab_put(keys, text, n, &key.name));
    }
    return tideR_strtab_put(keys, (const char *)&key, sizeof key, out);
}

static int compare_keyed(const void *pa, const void *pb)
{
    const struct keyed *a = pa;
    const struct keyed *b = pb;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    return a->func < b->func ? -1 : a->func > b->func;
}

/* A base function's first line as the new run counts. */
static uint32_t first_line(const struct tide_r_match *match,
                           const struct tide_model *model, uint32_t index)
{
    const struct tide_r_func *func = &model->funcs[index];
    if (model != match->base)
        return func->linedefined;
    const struct tide_r_moved *moved = &match->moved[func->source];
    const uint32_t line = func->linedefined;
    if (moved->lines == NULL || line == 0 || line > moved->n_lines ||
        moved->lines[line] == 0)
        return line;
    return moved->lines[line];
}

static enum tide_err list_keyed(const struct tide_r_match *match,
                                struct tide_strtab *keys,
                                const struct tide_model *model,
                                struct keyed **out)
{
    struct keyed *list = calloc(model->n_funcs, sizeof *list);
    TIDE_FAIL_IF(list == NULL, TIDE_ERR_NOMEM);
    *out = list;
    for (uint32_t i = 1; i < model->n_funcs; i++) {
        list[i - 1].func = i;
        list[i - 1].line = first_line(match, model, i);
        TIDE_TRY(put_key(match, keys, model, i, &list[i - 1].key));
    }
    qsort(list, model->n_funcs - 1, sizeof *list, compare_keyed);
    return TIDE_OK;
}

static uint32_t run_length(const struct keyed *list, uint32_t n)
{
    uint32_t i = 1;
    while (i < n && list[i].key == list[0].key)
        i++;
    return i;
}

/* Pairs of one key: those on one line first when the numbers differ. */
static void pair_run(struct tide_r_match *match, struct keyed *base,
                     uint32_t nb, struct keyed *now, uint32_t nn)
{
    for (uint32_t i = 0, j = 0; nb != nn && i < nb && j < nn;) {
        if (base[i].line == now[j].line) {
            match->funcs[base[i++].func] = now[j].func;
            now[j++].func = TIDE_R_NONE;
        } else if (base[i].line < now[j].line) {
            i++;
        } else {
            j++;
        }
    }
    for (uint32_t i = 0, j = 0; i < nb; i++) {
        if (match->funcs[base[i].func] != TIDE_R_NONE)
            continue;
        while (j < nn && now[j].func == TIDE_R_NONE)
            j++;
        if (j < nn)
            match->funcs[base[i].func] = now[j++].func;
    }
}

static void pair_lists(struct tide_r_match *match, struct keyed *base,
                       struct keyed *now)
{
    const uint32_t nb = match->base->n_funcs - 1;
    const uint32_t nn = match->now->n_funcs - 1;
    for (uint32_t i = 0, j = 0; i < nb && j < nn;) {
        const uint32_t bi = run_length(base + i, nb - i);
        const uint32_t nj = run_length(now + j, nn - j);
        if (base[i].key == now[j].key) {
            pair_run(match, base + i, bi, now + j, nj);
            i += bi;
            j += nj;
        } else if (base[i].key < now[j].key) {
            i += bi;
        } else {
            j += nj;
        }
    }
}

static enum tide_err match_funcs(struct tide_r_match *match)
{
    struct tide_strtab keys;
    struct keyed *base = NULL;
    struct keyed *now = NULL;
    enum tide_err err = tideR_strtab_open(&keys);
    if (err == TIDE_OK)
        err = list_keyed(match, &keys, match->base, &base);
    if (err == TIDE_OK)
        err = list_keyed(match, &keys, match->now, &now);
    if (err == TIDE_OK)
        pair_lists(match, base, now);
    free(base);
    free(now);
    tideR_strtab_close(&keys);
    return err;
}

/* ---- all of it ---------------------------------------------------------- */

enum tide_err tideR_match_open(struct tide_r_match *match)
{
    const struct tide_model *base = match->base;
    match->sources = calloc(base->strings.n, sizeof *match->sources);
    match->has_source = calloc(base->strings.n, sizeof *match->has_source);
    match->moved = calloc(base->strings.n, sizeof *match->moved);
    match->funcs = calloc(base->n_funcs, sizeof *match->funcs);
    TIDE_FAIL_IF(match->sources == NULL || match->has_source == NULL ||
                     match->moved == NULL || match->funcs == NULL,
                 TIDE_ERR_NOMEM);
    TIDE_TRY(match_sources(match));
    return match_funcs(match);
}

void tideR_match_close(struct tide_r_match *match)
{
    if (match->moved != NULL)
        for (uint32_t i = 0; i < match->base->strings.n; i++)
            free(match->moved[i].lines);
    free(match->sources);
    free(match->has_source);
    free(match->moved);
    free(match->funcs);
}

uint32_t tideR_match_line(const struct tide_r_match *match, uint32_t func,
                          uint32_t line)
{
    const struct tide_r_func *from = &match->base->funcs[func];
    const struct tide_r_moved *moved = &match->moved[from->source];
    if (moved->lines != NULL)
        return line <= moved->n_lines ? moved->lines[line] : 0;
    const uint32_t target = match->funcs[func];
    if (target == TIDE_R_NONE || from->what != TIDE_P_LUA ||
        line < from->linedefined)
        return line;
    return line - from->linedefined + match->now->funcs[target].linedefined;
}
