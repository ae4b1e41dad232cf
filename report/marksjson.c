/*
** marksjson.c: marks in the JSON report, and what held the heap when memory
** ran out.  By line, function and stack that is "held_bytes" of their rows.
*/
#include "emit.h"
#include "json_impl.h"
#include "model.h"

static void put_u64(struct tide_r_json *json, const char *key, uint64_t v)
{
    tideR_json_int(json, key, (int64_t)v);
}

static void put_mark(struct tide_r_json *json, const struct tide_model *model,
                     const struct tide_r_mark *mark)
{
    const struct tide_p_mark *r = mark->record;
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "label", model, mark->label);
    tideR_json_real(json, "seconds", tideR_mark_seconds(model, r));
    tideR_json_place(json, model, mark->line_row);
    put_u64(json, "live_bytes", mark->live_bytes);
    put_u64(json, "alloc_bytes", mark->alloc_bytes);
    put_u64(json, "cycle", r->cycle);
    tideR_json_bool(json, "failed", r->what == TIDE_P_MARK_FAILED);
    tideR_json_bool(json, "has_rows", tideR_mark_has_rows(r));
    tideR_json_close(json, '}');
}

/* Groups that held anything, in the order of their numbers. */
static void put_held_groups(struct tide_r_json *json,
                            const struct tide_model *model)
{
    tideR_json_open(json, "groups", '[');
    for (uint32_t i = 0; i < model->n_groups; i++) {
        const struct tide_r_group *group = &model->groups[i];
        if (group->counts.held_bytes == 0)
            continue;
        tideR_json_open(json, NULL, '{');
        tideR_json_string(json, "group", model, group->name);
        put_u64(json, "held_bytes", group->counts.held_bytes);
        put_u64(json, "held_blocks", group->counts.held_blocks);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
}

void tideR_json_marks(struct tide_r_json *json, const struct tide_model *model)
{
    static const struct tide_p_mark none;
    const struct tide_r_mark *failed = model->failed;
    const struct tide_p_mark *r = failed != NULL ? failed->record : &none;
    tideR_json_break(json);
    tideR_json_open(json, "marks", '[');
    for (uint32_t i = 0; i < model->n_marks; i++) {
        tideR_json_break(json);
        put_mark(json, model, &model->marks[i]);
    }
    tideR_json_close(json, ']');
    tideR_json_break(json);
    tideR_json_open(json, "out_of_memory", '{');
    tideR_json_bool(json, "happened", failed != NULL);
    tideR_json_real(json, "seconds",
                    failed != NULL ? tideR_mark_seconds(model, r) : 0);
    tideR_json_place(json, model,
                     failed != NULL ? failed->line_row : TIDE_R_NONE);
    put_u64(json, "want_bytes", r->want_bytes);
    put_u64(json, "limit_bytes", r->limit_bytes);
    put_u64(json, "held_bytes", model->totals.held_bytes);
    put_u64(json, "held_blocks", model->totals.held_blocks);
    put_u64(json, "before_attach_bytes", r->before_bytes);
    put_held_groups(json, model);
    tideR_json_close(json, '}');
}
