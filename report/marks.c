/*
** marks.c: moments with a name, and what held the heap when memory ran out.
**
** The sentence about the latter, by line and by group, is a finding; the rows
** stand in the text report, and every table can be sorted by them.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "text_impl.h"

#define SAME_MOMENT_NS 1000000000u /* heaps are marked one after the other */
#define ROWS_SHOWN     10u
#define GROUPS_SHOWN   6u
#define MARKS_SHOWN    12u /* of more, as many of the last ones */

double tideR_mark_seconds(const struct tide_model *model,
                          const struct tide_p_mark *mark)
{
    return tideR_seconds(model, mark->mono_ns);
}

bool tideR_mark_has_rows(const struct tide_p_mark *mark)
{
    return (mark->flags & TIDE_P_MARK_HAS_SNAPS) != 0;
}

uint64_t tideR_mark_since(const struct tide_model *model, uint32_t mark)
{
    const struct tide_r_mark *now = &model->marks[mark];
    for (uint32_t i = mark; i > 0; i--) {
        const struct tide_r_mark *before = &model->marks[i - 1];
        if (before->heap == now->heap)
            return now->alloc_bytes > before->alloc_bytes
                       ? now->alloc_bytes - before->alloc_bytes
                       : 0;
    }
    return now->alloc_bytes;
}

/* ---- the list ---- */

static int compare_marks(const void *pa, const void *pb)
{
    const struct tide_r_mark *a = pa, *b = pb;
    if (a->record->mono_ns != b->record->mono_ns)
        return a->record->mono_ns < b->record->mono_ns ? -1 : 1;
    return a->heap < b->heap ? -1 : a->heap > b->heap;
}

/* Is b what the session marked in another heap when it marked a? */
static bool is_of_same(const struct tide_r_mark *a, const struct tide_r_mark *b)
{
    return a->label == b->label && a->heap != b->heap &&
           a->record->what == TIDE_P_MARK_LABEL &&
           b->record->what == TIDE_P_MARK_LABEL &&
           b->record->mono_ns - a->record->mono_ns < SAME_MOMENT_NS;
}

void tideR_order_marks(struct tide_model *model)
{
    uint32_t n = 0;
    if (model->n_marks > 1)
        qsort(model->marks, model->n_marks, sizeof *model->marks,
              compare_marks);
    for (uint32_t i = 0; i < model->n_marks; i++) {
        const struct tide_r_mark mark = model->marks[i];
        if (n > 0 && is_of_same(&model->marks[n - 1], &mark)) {
            model->marks[n - 1].live_bytes += mark.live_bytes;
            model->marks[n - 1].alloc_bytes += mark.alloc_bytes;
            continue;
        }
        model->marks[n++] = mark;
    }
    model->n_marks = n;
    for (uint32_t i = n; i > 0; i--)
        if (model->marks[i - 1].record->what == TIDE_P_MARK_FAILED &&
            model->totals.held_bytes > 0)
            model->failed = &model->marks[i - 1];
}

/* ---- what held the heap ---- */

static const struct tide_r_query by_held = {.sort = TIDE_R_SORT_HELD};

/* "app.lua 61.2%, string 20.0%": the groups that held most. */
static void groups_text(const struct tide_model *model, char *out,
                        size_t out_bytes)
{
    struct tide_r_pick pick;
    size_t n = 0;
    out[0] = '\0';
    if (tideR_pick(model, TIDE_R_BY_GROUP, &by_held, &pick) != TIDE_OK)
        return;
    for (uint32_t i = 0; i < pick.n && i < GROUPS_SHOWN && n < out_bytes; i++) {
        const struct tide_r_group *group = &model->groups[pick.rows[i]];
        char share[TIDE_R_UNIT_MAX];
        if (group->counts.held_bytes == 0)
            break;
        n += (size_t)snprintf(
            out + n, out_bytes - n, "%s%.60s %s", i > 0 ? ", " : "",
            tideR_strtab_text(&model->strings, group->name),
            tideR_share_text((int64_t)group->counts.held_bytes,
                             (int64_t)model->totals.held_bytes, share));
    }
    tideR_pick_close(&pick);
}

/* The line that held most; NONE: none did. */
static uint32_t heaviest_line(const struct tide_model *model)
{
    uint32_t best = TIDE_R_NONE;
    for (uint32_t i = 1; i < model->n_lines; i++)
        if (model->lines[i].counts.held_bytes >
            model->lines[best].counts.held_bytes)
            best = i;
    return best;
}

void tideR_find_failure(struct tide_model *model)
{
    const struct tide_r_mark *failed = model->failed;
    if (failed == NULL)
        return;
    const struct tide_p_mark *r = failed->record;
    const uint32_t best = heaviest_line(model);
    const uint64_t bytes = model->lines[best].counts.held_bytes;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char here[TIDE_R_PLACE_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", best, bytes, (double)model->totals.held_bytes * 4,
        "memory ran out at %s, where %s more were asked for: %s were held, %s "
        "of it made at %s; see what held the heap",
        tideR_place(model, failed->line_row, here),
        tideR_bytes_text((int64_t)r->want_bytes, a),
        tideR_bytes_text((int64_t)model->totals.held_bytes, b),
        tideR_share_text((int64_t)bytes, (int64_t)model->totals.held_bytes, c),
        tideR_place(model, best, place));
    tideR_fact(finding, "held_bytes", (double)model->totals.held_bytes);
    tideR_fact(finding, "want_bytes", (double)r->want_bytes);
    tideR_fact(finding, "limit_bytes", (double)r->limit_bytes);
    tideR_fact(finding, "line_held_bytes", (double)bytes);
    tideR_fact(finding, "seconds", tideR_mark_seconds(model, r));
}

/* ---- as text ---- */

static unsigned count_failures(const struct tide_model *model)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < model->n_marks; i++)
        n += model->marks[i].record->what == TIDE_P_MARK_FAILED;
    return n;
}

static void put_failure_head(const struct tide_r_page *page)
{
    const struct tide_model *model = page->model;
    const struct tide_p_mark *r = model->failed->record;
    char text[512], held[TIDE_R_UNIT_MAX], limit[TIDE_R_UNIT_MAX];
    int n = snprintf(text, sizeof text,
                     "what held the heap when memory ran out, after %.3f s: %s",
                     tideR_mark_seconds(model, r),
                     tideR_bytes_text((int64_t)model->totals.held_bytes, held));
    if (count_failures(model) > 1)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      " in %u states, each at its first failure",
                      count_failures(model));
    if (r->before_bytes > 0)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      ", and %s from before the attach",
                      tideR_bytes_text((int64_t)r->before_bytes, held));
    if (n < (int)sizeof text && r->limit_bytes > 0)
        snprintf(text + n, sizeof text - (size_t)n, "; the limit was %s",
                 tideR_bytes_text((int64_t)r->limit_bytes, limit));
    else if (n < (int)sizeof text)
        snprintf(text + n, sizeof text - (size_t)n,
                 "; the limit was the host's or the system's");
    tideR_puts(page->sink, "\n");
    tideR_paint(page, TIDE_R_BOLD);
    tideR_put_wrapped(page, "", "  ", text);
    tideR_paint(page, TIDE_R_PLAIN);
}

static void put_held_line(const struct tide_r_page *page, uint32_t row)
{
    const struct tide_model *model = page->model;
    const struct tide_r_counts *c = &model->lines[row].counts;
    char share[TIDE_R_UNIT_MAX], held[TIDE_R_UNIT_MAX], n[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX];
    tideR_printf(page->sink, "%6s  %9s  %9s  ",
                 tideR_share_text((int64_t)c->held_bytes,
                                  (int64_t)model->totals.held_bytes, share),
                 tideR_bytes_text((int64_t)c->held_bytes, held),
                 tideR_count_text((int64_t)c->held_blocks, n));
    tideR_place(model, row, place);
    tideR_put_cell(page, place, strlen(place), page->columns - 30,
                   TIDE_R_CUT_HEAD, false);
    tideR_puts(page->sink, "\n");
}

static void put_held_lines(const struct tide_r_page *page)
{
    struct tide_r_query query = by_held;
    struct tide_r_pick pick;
    query.top = ROWS_SHOWN;
    if (tideR_pick(page->model, TIDE_R_BY_LINE, &query, &pick) != TIDE_OK)
        return;
    tideR_printf(page->sink, "%6s  %9s  %9s  %s\n", "share", "held", "blocks",
                 "line (function)");
    for (uint32_t i = 0; i < pick.n; i++)
        if (page->model->lines[pick.rows[i]].counts.held_bytes > 0)
            put_held_line(page, pick.rows[i]);
    tideR_pick_close(&pick);
}

void tideR_text_failure(const struct tide_r_page *page)
{
    char groups[600];
    char text[640];
    if (page->model->failed == NULL || page->query->sort == TIDE_R_SORT_HELD)
        return;
    put_failure_head(page);
    put_held_lines(page);
    groups_text(page->model, groups, sizeof groups);
    snprintf(text, sizeof text, "groups: %s", groups);
    if (groups[0] != '\0')
        tideR_put_wrapped(page, "  ", "  ", text);
    tideR_text_hint(page, "by function or stack", "--sort held --by stack");
}

static void put_mark(const struct tide_r_page *page, uint32_t i)
{
    const struct tide_model *model = page->model;
    const struct tide_r_mark *mark = &model->marks[i];
    const uint64_t since = tideR_mark_since(model, i);
    char live[TIDE_R_UNIT_MAX], alloc[TIDE_R_UNIT_MAX];
    size_t n;
    const char *label = tideR_model_text(model, mark->label, &n);
    tideR_printf(page->sink, "%9.3f s  %9s  %9s  ",
                 tideR_mark_seconds(model, mark->record),
                 tideR_bytes_text((int64_t)mark->live_bytes, live),
                 tideR_bytes_text((int64_t)since, alloc));
    tideR_put_cell(page, label, n, page->columns - 50, TIDE_R_CUT_TAIL, false);
    tideR_puts(page->sink,
               tideR_mark_has_rows(mark->record) || model->at_mark != NULL
                   ? "\n"
                   : "  (rows not kept)\n");
}

void tideR_text_marks(const struct tide_r_page *page)
{
    const struct tide_model *model = page->model;
    const uint32_t first =
        model->n_marks > MARKS_SHOWN ? model->n_marks - MARKS_SHOWN : 0;
    if (model->n_marks == 0)
        return;
    tideR_printf(page->sink, "\n%11s  %9s  %9s  %s\n", "marks at", "live",
                 "allocated", "since the mark before");
    for (uint32_t i = first; i < model->n_marks; i++)
        put_mark(page, i);
    if (first > 0)
        tideR_printf(page->sink, "the last %u of %" PRIu32 " marks\n",
                     MARKS_SHOWN, model->n_marks);
    if (model->n_lost_marks > 0)
        tideR_printf(page->sink, "for %" PRIu64 " more there was no room\n",
                     model->n_lost_marks);
}
