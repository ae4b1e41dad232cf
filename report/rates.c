/*
** rates.c: what a row allocates by second, from readings of one profile.
**
** A rate is between the reading now and the oldest of the few that are kept:
** one that is a moment old would flicker.  A row that was not there then has
** allocated nothing by then.
*/
#include <stdlib.h>

#include "../common/hash.h"
#include "live_impl.h"

enum tide_err tideR_keys_open(const struct tide_model *model,
                              struct tide_r_keys *out)
{
    const uint32_t n = model->strings.n;
    uint64_t *hashes = calloc((size_t)n + 1, sizeof *hashes);
    TIDE_FAIL_IF(hashes == NULL, TIDE_ERR_NOMEM);
    for (uint32_t i = 0; i < n; i++) {
        size_t bytes;
        const char *text = tideR_model_text(model, i, &bytes);
        hashes[i] = tideC_hash_bytes(text, bytes);
    }
    *out = (struct tide_r_keys){model, hashes};
    return TIDE_OK;
}

void tideR_keys_close(struct tide_r_keys *keys)
{
    free(keys->hashes);
    keys->hashes = NULL;
}

uint64_t tideR_key_of(const struct tide_r_keys *keys, enum tide_r_by by,
                      uint32_t index)
{
    const struct tide_model *model = keys->model;
    uint64_t words[5] = {(uint64_t)by};
    if (by == TIDE_R_BY_GROUP) {
        words[1] = keys->hashes[model->groups[index].name];
    } else if (by == TIDE_R_BY_LINE) {
        words[1] = keys->hashes[model->lines[index].source];
        words[2] = model->lines[index].line;
    } else if (by == TIDE_R_BY_TARGET) {
        const struct tide_r_target *target = &model->targets[index];
        words[1] = keys->hashes[target->source];
        words[2] = (uint64_t)target->sort << 32 | target->linedefined;
        words[3] = keys->hashes[target->name];
        words[4] = keys->hashes[model->groups[target->group].name];
    } else {
        const struct tide_r_func *func = &model->funcs[index];
        words[1] = keys->hashes[func->source];
        words[2] = func->linedefined;
        words[3] = keys->hashes[func->name];
        words[4] = (uint64_t)func->what << 60 ^ func->address;
    }
    const uint64_t key = tideC_hash_bytes(words, sizeof words);
    return key != 0 ? key : 1;
}

static void close_past(struct tide_r_past *past)
{
    tideC_hashtab_close(&past->allocated, &past->mem);
    tideC_mem_close(&past->mem);
    *past = (struct tide_r_past){0};
}

static enum tide_err note_list(struct tide_r_past *past,
                               const struct tide_r_keys *keys,
                               enum tide_r_by by)
{
    const uint32_t end = tideR_live_end(keys->model, by);
    for (uint32_t i = tideR_live_first(by); i < end; i++) {
        const uint64_t bytes = tideR_live_allocated(keys->model, by, i);
        if (bytes == 0)
            continue;
        uint64_t *place = tideC_hashtab_put(&past->allocated, &past->mem,
                                            tideR_key_of(keys, by, i));
        TIDE_FAIL_IF(place == NULL, TIDE_ERR_NOMEM);
        *place = bytes;
    }
    return TIDE_OK;
}

enum tide_err tideR_rates_note(struct tide_r_rates *rates,
                               const struct tide_model *model, double at_s)
{
    struct tide_r_past fresh = {.at_s = at_s};
    struct tide_r_keys keys;
    TIDE_TRY(tideR_keys_open(model, &keys));
    enum tide_err err = note_list(&fresh, &keys, TIDE_R_BY_LINE);
    if (err == TIDE_OK)
        err = note_list(&fresh, &keys, TIDE_R_BY_FUNCTION);
    if (err == TIDE_OK)
        err = note_list(&fresh, &keys, TIDE_R_BY_GROUP);
    if (err == TIDE_OK)
        err = note_list(&fresh, &keys, TIDE_R_BY_TARGET);
    tideR_keys_close(&keys);
    if (err != TIDE_OK) {
        close_past(&fresh);
        return err;
    }
    struct tide_r_past *place = &rates->pasts[rates->n++ % TIDE_R_PASTS];
    close_past(place);
    *place = fresh;
    return TIDE_OK;
}

void tideR_rates_close(struct tide_r_rates *rates)
{
    for (unsigned i = 0; i < TIDE_R_PASTS; i++)
        close_past(&rates->pasts[i]);
    rates->n = 0;
}

double tideR_rate_of(const struct tide_r_rates *rates, uint64_t key,
                     uint64_t allocated)
{
    if (rates->run_s > 0)
        return (double)allocated / rates->run_s;
    if (rates->n < 2)
        return 0;
    const uint32_t kept = rates->n < TIDE_R_PASTS ? rates->n : TIDE_R_PASTS;
    const struct tide_r_past *now =
        &rates->pasts[(rates->n - 1) % TIDE_R_PASTS];
    const struct tide_r_past *then =
        &rates->pasts[(rates->n - kept) % TIDE_R_PASTS];
    const uint64_t *before = tideC_hashtab_find(&then->allocated, key);
    const uint64_t was = before != NULL ? *before : 0;
    const double seconds = now->at_s - then->at_s;
    if (seconds <= 0 || allocated <= was) /* after a reset it is less */
        return 0;
    return (double)(allocated - was) / seconds;
}
