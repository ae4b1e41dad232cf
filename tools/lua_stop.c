/*
** lua_stop.c: stop(): the rows of a recording that has ended.
*/
#include "lua_api.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../report/emit.h"
#include "../report/select.h"

#define TOP_ROWS 30 /* as gcprofiler */

/* A row as users of gcprofiler know it. */
struct stop_row {
    const char *group; /* "": the rest */
    const char *target;
    char source[TIDE_P_STRING_MAX + 16]; /* "app.lua:12" */
    struct tide_r_counts counts;         /* functions: own and below */
    uint64_t calls;
    uint64_t max_call_bytes;
};

static void set_source(const struct tide_model *model, struct stop_row *row,
                       uint32_t source, uint32_t line)
{
    const char *text = tideR_strtab_text(&model->strings, source);
    if (line == 0)
        snprintf(row->source, sizeof row->source, "%s", text);
    else
        snprintf(row->source, sizeof row->source, "%s:%" PRIu32, text, line);
}

static void fill_stop_target(const struct tide_model *model, uint32_t index,
                             struct stop_row *row)
{
    const struct tide_r_target *t = &model->targets[index];
    row->group = "";
    if (t->sort != TIDE_R_TARGET_REST)
        row->group =
            tideR_strtab_text(&model->strings, model->groups[t->group].name);
    row->target = tideR_strtab_text(&model->strings, t->name);
    row->counts = t->counts;
    row->calls = t->calls;
    row->max_call_bytes = t->max_call_bytes;
    set_source(model, row, t->source, t->linedefined);
}

static void fill_stop_func(const struct tide_model *model, uint32_t index,
                           struct stop_row *row)
{
    const struct tide_r_func *f = &model->funcs[index];
    row->group =
        tideR_strtab_text(&model->strings, model->groups[f->group].name);
    row->target = tideR_strtab_text(&model->strings, f->name);
    row->counts = f->own;
    row->calls = f->calls;
    row->max_call_bytes = f->max_call_bytes;
    set_source(model, row, f->source, f->linedefined);
}

/* Targets when the program has named any, else functions. */
static enum tide_r_by rows_by(const struct tide_model *model)
{
    for (uint32_t i = 0; i < model->n_targets; i++)
        if (model->targets[i].sort == TIDE_R_TARGET_NAMED ||
            model->targets[i].sort == TIDE_R_TARGET_REGION)
            return TIDE_R_BY_TARGET;
    return TIDE_R_BY_FUNCTION;
}

static void fill_row(const struct tide_model *model, enum tide_r_by by,
                     uint32_t index, struct stop_row *row)
{
    if (by == TIDE_R_BY_TARGET)
        fill_stop_target(model, index, row);
    else
        fill_stop_func(model, index, row);
}

static double rate_of(const struct tide_model *model,
                      const struct stop_row *row)
{
    return model->seconds > 0
               ? (double)row->counts.alloc_bytes / 1024 / model->seconds
               : 0;
}

static uint64_t per_call(const struct stop_row *row)
{
    return row->calls > 0 ? row->counts.alloc_bytes / row->calls : 0;
}

static void push_row(lua_State *L, const struct tide_model *model,
                     const struct stop_row *row)
{
    g_api.lua_createtable(L, 0, 12);
    tideL_set_string(L, "group", row->group);
    tideL_set_string(L, "target", row->target);
    tideL_set_string(L, "source", row->source);
    tideL_set_number(L, "kb", (double)row->counts.alloc_bytes / 1024);
    tideL_set_number(L, "rate", rate_of(model, row));
    tideL_set_integer(L, "calls", row->calls);
    tideL_set_integer(L, "bytes", row->counts.alloc_bytes);
    tideL_set_integer(L, "bytes_per_call", per_call(row));
    tideL_set_integer(L, "peak", row->max_call_bytes);
    tideL_set_integer(L, "live_bytes", row->counts.live_bytes);
    tideL_set_integer(L, "blocks", row->counts.alloc_blocks);
    tideL_set_integer(L, "died_young_bytes", row->counts.young_bytes);
}

static void print_cell(struct tide_r_sink *sink, const char *text,
                       unsigned columns, enum tide_r_cut cut)
{
    char cell[TIDE_R_CELL_MAX];
    const unsigned used = tideR_fit(text, strlen(text), columns, cut, cell);
    tideR_printf(sink, "%s%*s  ", cell, (int)(columns - used), "");
}

static void print_row(struct tide_r_sink *sink, const struct tide_model *model,
                      const struct stop_row *row)
{
    print_cell(sink, row->group, 14, TIDE_R_CUT_HEAD);
    print_cell(sink, row->target, 20, TIDE_R_CUT_TAIL);
    print_cell(sink, row->source, 24, TIDE_R_CUT_HEAD);
    tideR_printf(sink,
                 "%10.1f  %9.1f  %9" PRIu64 "  %9" PRIu64 "  %9" PRIu64 "\n",
                 (double)row->counts.alloc_bytes / 1024, rate_of(model, row),
                 row->calls, per_call(row), row->max_call_bytes);
}

/* On the program's own output: it has asked for it. */
static void print_rows(const struct tide_model *model, enum tide_r_by by,
                       const struct tide_r_pick *pick)
{
    struct tide_r_sink sink = tideR_sink(stdout);
    struct stop_row row;
    tideR_printf(&sink, "%-14s  %-20s  %-24s  %10s  %9s  %9s  %9s  %9s\n",
                 "Group", "Target", "Source", "Total KB", "KB/s", "Calls",
                 "B/call", "Peak");
    for (uint32_t i = 0; i < pick->n; i++) {
        fill_row(model, by, pick->rows[i], &row);
        print_row(&sink, model, &row);
    }
    tideR_printf(&sink, "%" PRIu32 " of %" PRIu32 " rows, %.2f s\n", pick->n,
                 pick->n_all, model->seconds);
    fflush(stdout);
}

static void push_rows(lua_State *L, const struct tide_model *model,
                      enum tide_r_by by, const struct tide_r_pick *pick)
{
    struct stop_row row;
    g_api.lua_createtable(L, (int)pick->n, 0);
    for (uint32_t i = 0; i < pick->n; i++) {
        fill_row(model, by, pick->rows[i], &row);
        push_row(L, model, &row);
        g_api.lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
}

/*
** The model and the rows, for when Lua runs out of memory while they become a
** table: what holds them is freed as any value is.
*/
struct held_rows {
    struct tide_model *model;
    struct tide_r_pick pick;
};

static int close_rows(lua_State *L)
{
    struct held_rows *held = g_api.luaL_checkudata(L, 1, "tidemark.rows");
    tideR_pick_close(&held->pick);
    tideR_model_close(held->model);
    held->model = NULL;
    return 0;
}

static struct held_rows *push_holder(lua_State *L)
{
    struct held_rows *held = g_api.lua_newuserdatauv(L, sizeof *held, 0);
    *held = (struct held_rows){.model = NULL};
    if (g_api.luaL_newmetatable(L, "tidemark.rows") != 0) {
        g_api.lua_pushcclosure(L, close_rows, 0);
        g_api.lua_setfield(L, -2, "__gc");
    }
    g_api.lua_setmetatable(L, -2);
    return held;
}

/* How many rows are asked for; 0: all. */
static uint32_t check_top(lua_State *L)
{
    const lua_Integer n = g_api.luaL_optinteger(L, 1, TOP_ROWS);
    if (n < 0 || n > INT32_MAX)
        g_api.luaL_argerror(L, 1, "out of range");
    return (uint32_t)n;
}

/*
** stop([n]): recording is off already; the n rows that allocated most, 30 if n
** is not given, all if it is 0.  With n they are printed as well.
*/
int tideL_stop(lua_State *L)
{
    const struct tide_r_query query = {.top = check_top(L)};
    const bool is_printed = g_api.lua_type(L, 1) == LUA_TNUMBER;
    struct tide_session *session = tideL_session_or_failure(L);
    if (session == NULL)
        return 2;
    struct held_rows *held = push_holder(L);
    held->model = tideL_open_now(L, session);
    if (held->model == NULL)
        return 2;
    const enum tide_r_by by = rows_by(held->model);
    const enum tide_err err = tideR_pick(held->model, by, &query, &held->pick);
    if (err != TIDE_OK)
        return tideL_outcome(L, err);
    if (is_printed)
        print_rows(held->model, by, &held->pick);
    push_rows(L, held->model, by, &held->pick);
    tideR_pick_close(&held->pick);
    tideR_model_close(held->model);
    held->model = NULL;
    return 1;
}
