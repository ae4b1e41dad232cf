/*
** pagemarks.c: marks, and what held the heap when memory ran out, as data of
** the page.  See marks.js.
*/
#include <string.h>

#include "findings.h"
#include "json_impl.h"
#include "page_impl.h"
#include "select.h"

#define ROWS_MAX 30u

static void put_mark(struct tide_r_json *json, const struct tide_model *model,
                     uint32_t i)
{
    const struct tide_r_mark *mark = &model->marks[i];
    tideR_json_open(json, NULL, '{');
    tideR_json_string(json, "label", model, mark->label);
    tideR_json_real(json, "at", tideR_mark_seconds(model, mark->record));
    tideR_json_int(json, "live", (int64_t)mark->live_bytes);
    tideR_json_int(json, "since", (int64_t)tideR_mark_since(model, i));
    tideR_json_bool(json, "failed", mark->record->what == TIDE_P_MARK_FAILED);
    tideR_json_close(json, '}');
}

/* The rows of a list that held most. */
static enum tide_err put_rows(struct tide_r_json *json, const char *key,
                              const struct tide_model *model, enum tide_r_by by)
{
    const struct tide_r_query query = {.sort = TIDE_R_SORT_HELD,
                                       .top = ROWS_MAX};
    struct tide_r_pick pick;
    TIDE_TRY(tideR_pick(model, by, &query, &pick));
    tideR_json_open(json, key, '[');
    for (uint32_t i = 0; i < pick.n; i++) {
        const uint32_t row = pick.rows[i];
        const struct tide_r_counts *c = by == TIDE_R_BY_LINE
                                            ? &model->lines[row].counts
                                            : &model->groups[row].counts;
        char place[TIDE_R_PLACE_MAX];
        if (c->held_bytes == 0)
            continue;
        tideR_json_open(json, NULL, '{');
        if (by == TIDE_R_BY_LINE)
            tideR_json_str(json, "where", tideR_place(model, row, place));
        else
            tideR_json_string(json, "where", model, model->groups[row].name);
        tideR_json_int(json, "bytes", (int64_t)c->held_bytes);
        tideR_json_int(json, "blocks", (int64_t)c->held_blocks);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
    tideR_pick_close(&pick);
    return TIDE_OK;
}

static enum tide_err put_failure(struct tide_r_json *json,
                                 const struct tide_model *model)
{
    const struct tide_p_mark *r = model->failed->record;
    char place[TIDE_R_PLACE_MAX];
    tideR_json_open(json, "failure", '{');
    tideR_json_real(json, "at", tideR_mark_seconds(model, r));
    tideR_json_str(json, "where",
                   tideR_place(model, model->failed->line_row, place));
    tideR_json_int(json, "held", (int64_t)model->totals.held_bytes);
    tideR_json_int(json, "want", (int64_t)r->want_bytes);
    tideR_json_int(json, "limit", (int64_t)r->limit_bytes);
    TIDE_TRY(put_rows(json, "lines", model, TIDE_R_BY_LINE));
    TIDE_TRY(put_rows(json, "groups", model, TIDE_R_BY_GROUP));
    tideR_json_close(json, '}');
    return TIDE_OK;
}

enum tide_err tideR_page_marks(struct tide_r_json *json,
                               const struct tide_model *model)
{
    tideR_json_open(json, "marks", '[');
    for (uint32_t i = 0; i < model->n_marks; i++)
        put_mark(json, model, i);
    tideR_json_close(json, ']');
    return model->failed != NULL ? put_failure(json, model) : TIDE_OK;
}
