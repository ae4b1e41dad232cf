/*
** texthead.c: what stands around the tables of a text report: whose profile
** it is, its sums, what limits them, and the next command to type.
*/
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_impl.h"

#define LINE_MAX_BYTES 4096

/* A line that is put together piece by piece; what does not fit is cut. */
struct line {
    char text[LINE_MAX_BYTES];
    size_t n;
};

static TIDE_PRINTF(2, 3) void add(struct line *line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n =
        vsnprintf(line->text + line->n, sizeof line->text - line->n, fmt, args);
    va_end(args);
    if (n > 0)
        line->n += (size_t)n;
    if (line->n >= sizeof line->text)
        line->n = sizeof line->text - 1;
}

void tideR_paint(const struct tide_r_page *page, enum tide_r_paint paint)
{
    static const char *const codes[] = {
        [TIDE_R_PLAIN] = "\x1b[0m",
        [TIDE_R_BOLD] = "\x1b[1m",
        [TIDE_R_DIM] = "\x1b[2m",
    };
    if (page->look->has_colour)
        tideR_puts(page->sink, codes[paint]);
}

void tideR_put_blanks(const struct tide_r_page *page, unsigned n)
{
    tideR_printf(page->sink, "%*s", (int)n, "");
}

unsigned tideR_put_cell(const struct tide_r_page *page, const char *bytes,
                        size_t n, unsigned columns, enum tide_r_cut cut,
                        bool has_blanks)
{
    char cell[TIDE_R_CELL_MAX];
    const unsigned used = tideR_fit(bytes, n, columns, cut, cell);
    tideR_puts(page->sink, cell);
    if (has_blanks)
        tideR_put_blanks(page, columns - used);
    return used;
}

/* Bytes of the word that starts here. */
static size_t word_bytes(const char *text)
{
    return strcspn(text, " ");
}

void tideR_put_wrapped(const struct tide_r_page *page, const char *first_indent,
                       const char *indent, const char *text)
{
    char cell[TIDE_R_CELL_MAX];
    unsigned used = (unsigned)strlen(first_indent);
    bool is_first = true;
    tideR_puts(page->sink, first_indent);
    for (; *text != '\0'; text += strspn(text, " ")) {
        const size_t n = word_bytes(text);
        const unsigned room = page->columns - (unsigned)strlen(indent);
        const unsigned width = tideR_fit(text, n, room, TIDE_R_CUT_TAIL, cell);
        text += n;
        if (!is_first && used + 1 + width > page->columns) {
            tideR_printf(page->sink, "\n%s", indent);
            used = (unsigned)strlen(indent);
            is_first = true;
        }
        tideR_printf(page->sink, "%s%s", is_first ? "" : " ", cell);
        used += width + (is_first ? 0 : 1);
        is_first = false;
    }
    tideR_puts(page->sink, "\n");
}

static void put_command(const struct tide_r_page *page)
{
    char text[sizeof page->model->header->command];
    const size_t n = tideR_title_text(page->model, text);
    tideR_paint(page, TIDE_R_BOLD);
    tideR_put_cell(page, text, n, page->columns, TIDE_R_CUT_TAIL, false);
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_puts(page->sink, "\n");
}

static void add_tier(struct line *line, const struct tide_p_header *header)
{
    static const char *const words[TIDE_TIER_COUNT_] = {
        [TIDE_TIER_EXACT] = "exact",
        [TIDE_TIER_PARTIAL] = "partly exact",
        [TIDE_TIER_PUBLIC] = "public API only",
    };
    const size_t n = strnlen(header->tier_reason, sizeof header->tier_reason);
    add(line, "; %s",
        header->tier < TIDE_TIER_COUNT_ ? words[header->tier]
                                        : "tier not known");
    if (n > 0)
        add(line, " (%.*s)", (int)n, header->tier_reason);
}

static void put_run(const struct tide_r_page *page)
{
    const struct tide_model *model = page->model;
    const struct tide_p_header *header = model->header;
    char text[TIDE_R_UNIT_MAX];
    struct line line = {.n = 0};
    if (tideR_is_import(model)) {
        add(&line, "%.*s",
            (int)strnlen(header->tier_reason, sizeof header->tier_reason),
            header->tier_reason);
        tideR_put_wrapped(page, "  ", "  ", line.text);
        return;
    }
    add(&line, "pid %" PRIu32 ", ", header->pid);
    if (header->lua[0] != '\0')
        add(&line, "%.*s, ", (int)strnlen(header->lua, sizeof header->lua),
            header->lua);
    add(&line, "%" PRIu64 " %s, ", model->n_states,
        model->n_states == 1 ? "state" : "states");
    add(&line, "%s",
        tideR_duration_text((uint64_t)(model->seconds * 1e9), text));
    if (model->at_mark != NULL)
        add(&line, " at mark '%.200s'", model->at_mark);
    add_tier(&line, header);
    tideR_put_wrapped(page, "  ", "  ", line.text);
}

static void put_totals(const struct tide_r_page *page)
{
    const struct tide_r_counts *c = &page->model->totals;
    char bytes[TIDE_R_UNIT_MAX];
    char blocks[TIDE_R_UNIT_MAX];
    struct line line = {.n = 0};
    add(&line, "allocated %s in %s blocks; ",
        tideR_bytes_text((int64_t)c->alloc_bytes, bytes),
        tideR_count_text((int64_t)c->alloc_blocks, blocks));
    add(&line, "freed %s; ", tideR_bytes_text((int64_t)c->freed_bytes, bytes));
    add(&line, "live at the end %s in %s; ",
        tideR_bytes_text((int64_t)c->live_bytes, bytes),
        tideR_count_text((int64_t)c->live_blocks, blocks));
    add(&line, "peak %s", tideR_bytes_text((int64_t)c->peak_bytes, bytes));
    const uint64_t rss = page->model->header->rss_peak_bytes;
    if (rss > 0)
        add(&line, "; the process's peak RSS %s",
            tideR_bytes_text((int64_t)rss, bytes));
    tideR_put_wrapped(page, "  ", "  ", line.text);
}

static void put_collector(const struct tide_r_page *page)
{
    const struct tide_r_gc *gc = &page->model->gc;
    char text[TIDE_R_UNIT_MAX];
    struct line line = {.n = 0};
    if (gc->cycles == 0) {
        tideR_put_wrapped(page, "  ", "  ", "collector: no cycle was seen");
        return;
    }
    add(&line, "collector: %s %s", tideR_count_text((int64_t)gc->cycles, text),
        gc->cycles == 1 ? "cycle" : "cycles");
    if (page->model->n_cycles > 0)
        add(&line, ", %s", gc->mode);
    if (gc->n_explicit > 0)
        add(&line, ", %s asked for",
            tideR_count_text((int64_t)gc->n_explicit, text));
    if (gc->n_emergency > 0)
        add(&line, ", %s in an emergency",
            tideR_count_text((int64_t)gc->n_emergency, text));
    add(&line, "; %s freed by a cycle in the mean",
        tideR_bytes_text((int64_t)(gc->average_kb * 1024), text));
    if (page->model->seconds > 0)
        add(&line, "; %s/s allocated",
            tideR_bytes_text((int64_t)(gc->alloc_kb_s * 1024), text));
    tideR_put_wrapped(page, "  ", "  ", line.text);
}

static void put_kinds(const struct tide_r_page *page)
{
    const struct tide_r_query by_bytes = {.sort = TIDE_R_SORT_ALLOC};
    const int64_t all = (int64_t)page->model->totals.alloc_bytes;
    struct tide_r_pick pick;
    char text[TIDE_R_UNIT_MAX];
    struct line line = {.n = 0};
    if (tideR_pick(page->model, TIDE_R_BY_KIND, &by_bytes, &pick) != TIDE_OK)
        return;
    add(&line, "kinds:");
    for (uint32_t i = 0; i < pick.n; i++) {
        const uint64_t bytes = page->model->kinds[pick.rows[i]].alloc_bytes;
        if (bytes > 0)
            add(&line, "%s %s %s", i > 0 ? "," : "",
                tideC_kind_name(pick.rows[i]),
                tideR_share_text((int64_t)bytes, all, text));
    }
    tideR_pick_close(&pick);
    if (all > 0)
        tideR_put_wrapped(page, "  ", "  ", line.text);
}

/* What the program has named; nothing when it has named nothing. */
static void put_groups(const struct tide_r_page *page)
{
    const struct tide_model *model = page->model;
    uint32_t n_groups = 0, n_targets = 0, n_idle = 0;
    struct line line = {.n = 0};
    for (uint32_t i = 0; i < model->n_groups; i++)
        n_groups += model->groups[i].is_named;
    for (uint32_t i = 0; i < model->n_targets; i++) {
        const struct tide_r_target *t = &model->targets[i];
        const bool is_named =
            t->sort == TIDE_R_TARGET_NAMED || t->sort == TIDE_R_TARGET_REGION;
        n_targets += is_named;
        n_idle += is_named && tideR_counts_are_zero(&t->counts);
    }
    if (n_groups == 0)
        return;
    add(&line, "named: %" PRIu32 " %s with %" PRIu32 " %s", n_groups,
        n_groups == 1 ? "group" : "groups", n_targets,
        n_targets == 1 ? "target" : "targets");
    if (n_idle > 0)
        add(&line, "; nothing was recorded in %" PRIu32, n_idle);
    tideR_put_wrapped(page, "  ", "  ", line.text);
}

void tideR_text_header(const struct tide_r_page *page)
{
    put_command(page);
    put_run(page);
    put_totals(page);
    put_collector(page);
    put_kinds(page);
    put_groups(page);
}

static bool is_note(const struct tide_r_finding *finding)
{
    return strcmp(finding->kind, "note") == 0;
}

/* How many findings of its kind come before number i. */
static uint32_t n_alike(const struct tide_model *model, uint32_t i)
{
    uint32_t n = 0;
    for (uint32_t j = 0; j < i; j++)
        n += strcmp(model->findings[j].kind, model->findings[i].kind) == 0;
    return n;
}

void tideR_text_findings(const struct tide_r_page *page, uint32_t n_max,
                         uint32_t n_alike_max)
{
    uint32_t n = 0, n_more = 0;
    for (uint32_t i = 0; i < page->model->n_findings; i++) {
        const struct tide_r_finding *finding = &page->model->findings[i];
        struct line line = {.n = 0};
        if (is_note(finding))
            continue;
        if (n == n_max || n_alike(page->model, i) >= n_alike_max) {
            n_more++;
            continue;
        }
        if (n++ == 0)
            tideR_puts(page->sink, "\n");
        add(&line, "%s: %s", finding->kind, finding->text);
        tideR_put_wrapped(page, "", "  ", line.text);
    }
    if (n_more > 0) {
        struct line line = {.n = 0};
        add(&line, "%" PRIu32 " more %s: tidemark gc, or --json", n_more,
            n_more == 1 ? "finding" : "findings");
        tideR_put_wrapped(page, "", "  ", line.text);
    }
}

void tideR_text_notes(const struct tide_r_page *page)
{
    for (uint32_t i = 0; i < page->model->n_findings; i++) {
        const struct tide_r_finding *finding = &page->model->findings[i];
        if (!is_note(finding))
            continue;
        struct line line = {.n = 0};
        add(&line, "%s: %s", finding->kind, finding->text);
        tideR_put_wrapped(page, "", "  ", line.text);
    }
    if (page->texts != NULL && tideR_srctext_has_younger(page->texts))
        tideR_put_wrapped(page, "", "  ",
                          "note: a source file has changed since the run: the "
                          "lines shown from it may be others");
}

void tideR_text_hint(const struct tide_r_page *page, const char *what,
                     const char *arguments)
{
    if (page->look->is_brief)
        return;
    tideR_printf(page->sink, "%s: %s report %s ", what, page->look->command,
                 arguments);
    tideR_put_word(page->sink, page->look->path);
    tideR_puts(page->sink, "\n");
}
