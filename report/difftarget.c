/*
** difftarget.c: which target of a base is which of the new run.
**
** Targets match on group, name and file; where several are the same in these
** (two functions of one name in a file), in the order in which they stand. An
** edit above a function so unmatches nothing.  What made it a target (a name,
** a region, a module) is no part of it: saved runs of gcprof do not tell.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "diff_impl.h"

#define KEY_MAX (3 * TIDE_P_STRING_MAX + 64)

/* Rows of the new run by their keys. */
struct keys {
    struct tide_strtab texts;
    uint32_t *rows; /* by string: row + 1; 0: none, or taken */
    uint32_t n_rows;
    char text[KEY_MAX];
};

/* What a target is: the same text in both runs, but for its ordinal. */
static size_t write_key(const struct tide_model *model, uint32_t row,
                        uint32_t ordinal, char out[KEY_MAX])
{
    const struct tide_r_target *t = &model->targets[row];
    const int n = snprintf(
        out, KEY_MAX, "%s\n%s\n%s\n%" PRIu32,
        tideR_strtab_text(&model->strings, model->groups[t->group].name),
        tideR_strtab_text(&model->strings, t->name),
        tideR_strtab_text(&model->strings, t->source), ordinal);
    return n < 0 ? 0 : (size_t)n < KEY_MAX ? (size_t)n : KEY_MAX - 1;
}

/* The number of a key; numbers are counted up as they are met. */
static enum tide_err find_key(struct keys *keys, const struct tide_model *model,
                              uint32_t row, uint32_t ordinal, uint32_t *out)
{
    const size_t n = write_key(model, row, ordinal, keys->text);
    return tideR_strtab_put(&keys->texts, keys->text, n, out);
}

static enum tide_err note_rows(struct keys *keys,
                               const struct tide_model *model)
{
    uint32_t key;
    for (uint32_t i = 1; i < model->n_targets; i++) {
        uint32_t ordinal = 0;
        do
            TIDE_TRY(find_key(keys, model, i, ordinal++, &key));
        while (key < keys->n_rows && keys->rows[key] != 0);
        if (key < keys->n_rows)
            keys->rows[key] = i + 1;
    }
    return TIDE_OK;
}

/* The row of the new run, which is taken; 0: there is none left. */
static enum tide_err take_row(struct keys *keys, const struct tide_model *base,
                              uint32_t row, uint32_t *out)
{
    *out = 0;
    for (uint32_t ordinal = 0;; ordinal++) {
        const uint32_t n_before = keys->texts.n;
        uint32_t key;
        TIDE_TRY(find_key(keys, base, row, ordinal, &key));
        if (keys->texts.n != n_before || key >= keys->n_rows)
            return TIDE_OK; /* nobody has that key */
        if (keys->rows[key] == 0)
            continue;
        *out = keys->rows[key] - 1;
        keys->rows[key] = 0;
        return TIDE_OK;
    }
}

static enum tide_err pair_rows(struct tide_diff *diff, struct keys *keys)
{
    const struct tide_model *base = diff->base_or_null;
    TIDE_TRY(note_rows(keys, diff->now));
    for (uint32_t i = 1; base != NULL && i < base->n_targets; i++) {
        uint32_t row;
        TIDE_TRY(take_row(keys, base, i, &row));
        if (row == 0)
            row = diff->n_targets++;
        diff->targets[row].base = i;
    }
    return TIDE_OK;
}

enum tide_err tideR_match_targets(struct tide_diff *diff)
{
    const uint32_t n_now = diff->now->n_targets;
    const uint32_t n_base =
        diff->base_or_null != NULL ? diff->base_or_null->n_targets : 0;
    struct keys *keys = calloc(1, sizeof *keys);
    diff->targets = calloc((size_t)n_now + n_base, sizeof *diff->targets);
    diff->n_targets = n_now;
    if (keys == NULL || diff->targets == NULL) {
        free(keys);
        return TIDE_ERR_NOMEM;
    }
    for (uint32_t i = 1; i < n_now; i++)
        diff->targets[i].now = i;
    keys->n_rows = n_now + 1; /* strings of n_now keys, and "" */
    keys->rows = calloc(keys->n_rows, sizeof *keys->rows);
    enum tide_err err = tideR_strtab_open(&keys->texts);
    if (keys->rows == NULL)
        err = TIDE_ERR_NOMEM;
    if (err == TIDE_OK)
        err = pair_rows(diff, keys);
    tideR_strtab_close(&keys->texts);
    free(keys->rows);
    free(keys);
    return err;
}
