/*
** cmd_gates.c: holds a profile against limits and against another one.
**
** Growth is compared for what was allocated, what is held at the end and the
** peak; the reason names the line that grew most.  A run too short to tell a
** leak from garbage passes --no-leaks, and says so.
*/
#include "cmd_gates.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../report/diff.h"
#include "../report/units.h"
#include "cmd.h"

bool cmd_has_limits(const struct cmd_limits *limits)
{
    return limits->alloc_bytes > 0 || limits->live_bytes > 0 ||
           limits->peak_bytes > 0 || limits->no_leaks ||
           limits->baseline_or_null != NULL;
}

bool cmd_parse_percent(const char *text, double *percent)
{
    char *end;
    errno = 0;
    *percent = strtod(text, &end);
    if (end == text || errno != 0 || !isfinite(*percent) || *percent < 0)
        return false;
    return *end == '\0' || strcmp(end, "%") == 0;
}

static struct cmd_gate *add_gate(struct cmd_gates *gates, const char *name,
                                 bool has_passed, double limit, double value)
{
    if (gates->n >= CMD_GATES_MAX)
        return NULL;
    struct cmd_gate *gate = &gates->gates[gates->n++];
    *gate = (struct cmd_gate){
        .name = name, .has_passed = has_passed, .limit = limit, .value = value};
    return gate;
}

static TIDE_PRINTF(2, 3) void say_of_gate(struct cmd_gate *gate,
                                          const char *fmt, ...)
{
    va_list args;
    if (gate == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(gate->text, sizeof gate->text, fmt, args);
    va_end(args);
}

/* ---- limits ---- */

static void hold_bytes(struct cmd_gates *gates, const char *name,
                       const char *what, uint64_t limit, uint64_t value)
{
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX];
    if (limit == 0)
        return;
    struct cmd_gate *gate =
        add_gate(gates, name, value <= limit, (double)limit, (double)value);
    say_of_gate(gate, "%s %s, %s allowed", what,
                tideR_bytes_text((int64_t)value, a),
                tideR_bytes_text((int64_t)limit, b));
}

static void hold_leaks(struct cmd_gates *gates, const struct tide_model *model)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < model->n_findings; i++) {
        const struct tide_r_finding *finding = &model->findings[i];
        if (strcmp(finding->kind, "leak") != 0)
            continue;
        n++;
        say_of_gate(
            add_gate(gates, "no-leaks", false, 0, (double)finding->bytes), "%s",
            finding->text);
    }
    if (n > 0)
        return;
    const bool is_known = tideR_has_verdict(model);
    say_of_gate(add_gate(gates, "no-leaks", true, 0, 0), "%s",
                is_known ? "no leak was found"
                         : "too few whole collections to look for leaks");
}

/* ---- growth ---- */

/* What may not grow. */
enum figure {
    FIGURE_ALLOC,
    FIGURE_LIVE,
    FIGURE_PEAK
};

static const struct {
    const char *gate;
    const char *what;
} figures[] = {
    [FIGURE_ALLOC] = {"growth-alloc", "allocated"},
    [FIGURE_LIVE] = {"growth-live", "held at the end"},
    [FIGURE_PEAK] = {"growth-peak", "at the highest"},
};

static uint64_t figure_of(const struct tide_r_counts *counts,
                          enum figure figure)
{
    return figure == FIGURE_ALLOC  ? counts->alloc_bytes
           : figure == FIGURE_LIVE ? counts->live_bytes
                                   : counts->peak_bytes;
}

static uint64_t line_bytes(const struct tide_model *model, uint32_t row,
                           enum figure figure)
{
    return row == TIDE_R_NONE ? 0
                              : figure_of(&model->lines[row].counts, figure);
}

/* The line that grew most, in words; "" when none did. */
static void name_growth(const struct tide_diff *diff, enum figure figure,
                        char *out, size_t out_bytes)
{
    int64_t most = 0;
    uint32_t best = 0;
    for (uint32_t i = 1; i < diff->n_lines; i++) {
        const struct tide_r_pair pair = diff->lines[i];
        const int64_t delta =
            (int64_t)line_bytes(diff->now, pair.now, figure) -
            (int64_t)line_bytes(diff->base_or_null, pair.base, figure);
        if (delta > most && pair.now != TIDE_R_NONE) {
            most = delta;
            best = pair.now;
        }
    }
    out[0] = '\0';
    if (best == 0)
        return;
    char a[TIDE_R_UNIT_MAX];
    size_t n;
    const struct tide_r_line *line = &diff->now->lines[best];
    const char *source = tideR_model_text(diff->now, line->source, &n);
    snprintf(out, out_bytes, "; most at %.*s:%" PRIu32 ", by %s",
             (int)(n < 100 ? n : 100), source, line->line,
             tideR_bytes_text(most, a));
}

static void hold_growth(struct cmd_gates *gates, const struct tide_diff *diff,
                        enum figure figure, double percent)
{
    const uint64_t base = figure_of(&diff->base_or_null->totals, figure);
    const uint64_t now = figure_of(&diff->now->totals, figure);
    const double growth =
        base == 0 ? (now == 0 ? 0 : INFINITY)
                  : ((double)now - (double)base) * 100 / (double)base;
    const bool has_passed = growth <= percent;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], most[200] = "";
    if (!has_passed)
        name_growth(diff, figure, most, sizeof most);
    struct cmd_gate *gate = add_gate(gates, figures[figure].gate, has_passed,
                                     percent, isfinite(growth) ? growth : 1e9);
    say_of_gate(gate, "%s %s, %s in the baseline: %+.1f%%, %g%% allowed%s",
                figures[figure].what, tideR_bytes_text((int64_t)now, a),
                tideR_bytes_text((int64_t)base, b), growth, percent, most);
}

static enum tide_err hold_baseline(struct cmd_gates *gates,
                                   const struct tide_model *base,
                                   const struct tide_model *now, double percent)
{
    struct tide_diff diff;
    const struct tide_r_texts texts = {.base_or_null = NULL};
    const enum tide_err err = tideR_diff_open(base, now, &texts, &diff);
    if (err == TIDE_OK) {
        hold_growth(gates, &diff, FIGURE_ALLOC, percent);
        hold_growth(gates, &diff, FIGURE_LIVE, percent);
        hold_growth(gates, &diff, FIGURE_PEAK, percent);
    }
    tideR_diff_close(&diff);
    return err;
}

/* ---- all of them ---- */

static int hold_against_file(struct cmd_gates *gates,
                             const struct tide_model *model,
                             const struct cmd_limits *limits)
{
    struct tide_model *base = cmd_open_model(limits->baseline_or_null);
    if (base == NULL)
        return CMD_UNREADABLE;
    const enum tide_err err =
        hold_baseline(gates, base, model, limits->growth_percent);
    tideR_model_close(base);
    return cmd_rendered(err);
}

int cmd_hold(const char *path, const struct cmd_limits *limits,
             struct cmd_gates *out)
{
    struct tide_model *model = cmd_open_model(path);
    int status = CMD_FINE;
    out->n = 0;
    if (model == NULL)
        return CMD_UNREADABLE;
    hold_bytes(out, "max-alloc", "allocated", limits->alloc_bytes,
               model->totals.alloc_bytes);
    hold_bytes(out, "max-live", "held at the end", limits->live_bytes,
               model->totals.live_bytes);
    hold_bytes(out, "max-peak", "at the highest", limits->peak_bytes,
               model->totals.peak_bytes);
    if (limits->baseline_or_null != NULL)
        status = hold_against_file(out, model, limits);
    if (limits->no_leaks)
        hold_leaks(out, model);
    tideR_model_close(model);
    for (unsigned i = 0; i < out->n && status == CMD_FINE; i++)
        if (!out->gates[i].has_passed)
            status = CMD_FAILED;
    return status;
}

void cmd_print_gates(const char *path, const struct cmd_gates *gates)
{
    for (unsigned i = 0; i < gates->n; i++) {
        const struct cmd_gate *gate = &gates->gates[i];
        if (!gate->has_passed)
            cmd_error(path, "%s: %s", gate->name, gate->text);
        else
            printf("%s: %s: passed: %s\n", path, gate->name, gate->text);
    }
}

void cmd_json_gates(struct tide_r_json *json, const struct cmd_gates *gates)
{
    tideR_json_open(json, "gates", '[');
    for (unsigned i = 0; i < gates->n; i++) {
        const struct cmd_gate *gate = &gates->gates[i];
        tideR_json_open(json, NULL, '{');
        tideR_json_str(json, "gate", gate->name);
        tideR_json_bool(json, "passed", gate->has_passed);
        tideR_json_real(json, "limit", gate->limit);
        tideR_json_real(json, "value", gate->value);
        tideR_json_str(json, "text", gate->text);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
}
