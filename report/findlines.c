/*
** findlines.c: findings about lines: leaks, churn, strings built piece by
** piece, huge blocks, coroutines that nobody resumes.
**
** Each kind names few lines, the worst first; a line that leaks is not also
** called churn.
*/
#include <stdlib.h>

#include "findings.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define LEAKS_MAX      8u
#define CHURNS_MAX     3u
#define HUGE_MAX       3u
#define COROUTINES_MAX 2u
#define REHASH_MAX     2u

#define LEAK_BYTES      (4 * KIB) /* growth, at least */
#define LEAK_PER_CYCLE  256.0
#define CHURN_BYTES     MIB
#define CHURN_BLOCKS    100u
#define CONCAT_BYTES    256u /* a string of that size is made of pieces */
#define HUGE_BYTES      MIB
#define REHASH_BYTES    (256 * KIB)
#define COROUTINE_COUNT 100u

/* What is counted of every line beside the model's rows. */
struct line_facts {
    struct tide_r_trend trend;
    uint64_t concat_bytes; /* strings made by the line itself, not by C */
    uint64_t concat_blocks;
    uint64_t coroutine_blocks; /* alive: a thread and its first stack each */
    uint64_t coroutine_made;
};

struct search {
    struct tide_model *model;
    struct line_facts *facts;
    bool *is_taken; /* the line has its finding */
};

static void gather_facts(const struct search *search)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        const struct tide_r_node *node = &model->nodes[stack->node];
        if (stack->kind == TIDE_R_KIND_MORE)
            continue;
        struct line_facts *facts =
            &search->facts[model->frames[node->lua_frame].line_row];
        struct tide_r_counts c;
        tideR_model_stack_counts(model, i, &c);
        if (stack->kind == TIDE_KIND_STRING && node->frame == node->lua_frame) {
            facts->concat_bytes += c.alloc_bytes;
            facts->concat_blocks += c.alloc_blocks;
        } else if (stack->kind == TIDE_KIND_THREAD) {
            facts->coroutine_blocks += c.live_blocks;
            facts->coroutine_made += c.alloc_blocks;
        }
    }
    for (uint32_t i = 1; i < model->n_lines; i++)
        search->facts[i].trend = tideR_trend(
            &model->floors, model->floors.bytes + (size_t)i * TIDE_P_FLOORS,
            model->lines[i].counts.live_bytes);
}

/* The line for which `measure` says most, of those not taken; NONE: none. */
typedef double (*measure_fn)(const struct search *search, uint32_t line);

static uint32_t best_line(const struct search *search, measure_fn measure)
{
    uint32_t best = TIDE_R_NONE;
    double most = 0;
    for (uint32_t i = 1; i < search->model->n_lines; i++) {
        const double n = search->is_taken[i] ? 0 : measure(search, i);
        if (n > most) {
            most = n;
            best = i;
        }
    }
    return best;
}

/* ---- leaks ---- */

/* Results that pile up in a batch rise as well: doubt takes more bytes. */
static double leak_of(const struct search *search, uint32_t line)
{
    const struct tide_r_floors *floors = &search->model->floors;
    const struct tide_r_trend *t = &search->facts[line].trend;
    const double growth = (double)t->last_bytes - (double)t->first_bytes;
    if (t->confidence == 1 &&
        growth * 10 < (double)floors->heap[floors->n_work - 1])
        return 0;
    return t->confidence > 0 && growth >= (double)LEAK_BYTES &&
                   t->growth_per_cycle >= LEAK_PER_CYCLE
               ? growth
               : 0;
}

static void put_leak(const struct search *search, uint32_t line)
{
    static const char *const words[] = {"", "low", "medium", "high"};
    struct tide_model *model = search->model;
    const struct tide_r_floors *floors = &model->floors;
    const struct tide_r_trend *t = &search->facts[line].trend;
    const uint64_t growth = t->last_bytes - t->first_bytes;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "leak", line, growth, (double)growth * 4 + 1e6 * t->confidence,
        "%s looks like a leak (confidence %s): what it made and what is still "
        "held grew from %s to %s, by %s with each collection, and goes on; "
        "find what keeps it: a table never cleared, a callback never removed",
        tideR_place(model, line, place), words[t->confidence],
        tideR_bytes_text((int64_t)t->first_bytes, a),
        tideR_bytes_text((int64_t)t->last_bytes, b),
        tideR_bytes_text((int64_t)t->growth_per_cycle, c));
    tideR_fact(finding, "confidence", t->confidence);
    tideR_fact(finding, "first_bytes", (double)t->first_bytes);
    tideR_fact(finding, "last_bytes", (double)t->last_bytes);
    tideR_fact(finding, "growth_bytes_per_cycle", t->growth_per_cycle);
    tideR_fact(finding, "growth_bytes_per_min", t->growth_per_min);
    tideR_fact(finding, "floors", t->n_steps + 1);
    tideR_fact(finding, "rises", t->n_rises);
    tideR_fact(finding, "first_cycle",
               floors->cycles[floors->n_work - 1 - t->n_steps]);
    tideR_fact(finding, "last_cycle", floors->cycles[floors->n_work - 1]);
}

/* ---- churn ---- */

/* The most that a line had alive after a collection. */
static uint64_t highest_floor(const struct tide_model *model, uint32_t line)
{
    const uint64_t *row = model->floors.bytes + (size_t)line * TIDE_P_FLOORS;
    uint64_t most = 0;
    for (uint32_t i = 0; i < model->floors.n; i++)
        most = row[i] > most ? row[i] : most;
    return most;
}

/* Much is freed, many times over what ever stayed. */
static double churn_of(const struct search *search, uint32_t line)
{
    const struct tide_r_counts *c = &search->model->lines[line].counts;
    return c->freed_bytes >= CHURN_BYTES && c->freed_blocks >= CHURN_BLOCKS &&
                   c->freed_bytes >= search->model->totals.freed_bytes / 10 &&
                   c->freed_bytes / 3 >= highest_floor(search->model, line)
               ? (double)c->freed_bytes
               : 0;
}

static bool is_pieces(const struct search *search, uint32_t line)
{
    const struct line_facts *facts = &search->facts[line];
    return facts->concat_blocks >= 100 &&
           facts->concat_bytes >=
               search->model->lines[line].counts.alloc_bytes / 2 &&
           facts->concat_bytes / facts->concat_blocks >= CONCAT_BYTES;
}

static void put_churn(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct tide_r_counts *n = &model->lines[line].counts;
    const struct line_facts *facts = &search->facts[line];
    const bool has_pieces = is_pieces(search, line);
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char d[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "churn", line, n->freed_bytes, (double)n->freed_bytes / 4,
        "%s makes garbage: %s of all that was freed, %s in %s blocks, %s of it "
        "gone before it was a collection old; %s",
        tideR_place(model, line, place),
        tideR_share_text((int64_t)n->freed_bytes,
                         (int64_t)model->totals.freed_bytes, a),
        tideR_bytes_text((int64_t)n->freed_bytes, b),
        tideR_count_text((int64_t)n->freed_blocks, c),
        tideR_share_text((int64_t)n->young_bytes, (int64_t)n->freed_bytes, d),
        has_pieces ? "it joins long strings with `..`: collect the pieces in "
                     "a table and join them once with table.concat"
                   : "reuse what it makes, or make it less often");
    tideR_fact(finding, "freed_bytes", (double)n->freed_bytes);
    tideR_fact(finding, "freed_blocks", (double)n->freed_blocks);
    tideR_fact(finding, "alloc_bytes", (double)n->alloc_bytes);
    tideR_fact(finding, "died_young_bytes", (double)n->young_bytes);
    tideR_fact(finding, "live_bytes", (double)n->live_bytes);
    if (has_pieces)
        tideR_fact(finding, "mean_string_bytes",
                   (double)(facts->concat_bytes / facts->concat_blocks));
}

/* ---- huge blocks ---- */

/* The kind with huge blocks that has most bytes; NULL: none. */
static const struct tide_r_line_kind *huge_kind(const struct tide_model *model,
                                                uint32_t line)
{
    const struct tide_r_line_kind *best = NULL;
    for (uint32_t i = model->lines[line].first_kind; i != TIDE_R_NONE;
         i = model->line_kinds[i].next) {
        const struct tide_r_line_kind *row = &model->line_kinds[i];
        if (row->alloc_blocks > 0 &&
            row->alloc_bytes / row->alloc_blocks >= HUGE_BYTES &&
            (best == NULL || row->alloc_bytes > best->alloc_bytes))
            best = row;
    }
    return best;
}

static double huge_of(const struct search *search, uint32_t line)
{
    const struct tide_r_line_kind *row = huge_kind(search->model, line);
    return row != NULL &&
                   row->alloc_bytes >= search->model->totals.alloc_bytes / 20
               ? (double)row->alloc_bytes
               : 0;
}

static void put_huge(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct tide_r_line_kind *n = huge_kind(model, line);
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    const uint64_t mean = n->alloc_bytes / n->alloc_blocks;
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, n->alloc_bytes, (double)mean / 2,
        "%s makes huge blocks: %s of kind %s, with %s in the mean; work on "
        "pieces, or limit what is asked for",
        tideR_place(model, line, place),
        tideR_count_text((int64_t)n->alloc_blocks, a), tideC_kind_name(n->kind),
        tideR_bytes_text((int64_t)mean, b));
    tideR_fact(finding, "blocks", (double)n->alloc_blocks);
    tideR_fact(finding, "mean_bytes", (double)mean);
    tideR_fact(finding, "alloc_bytes", (double)n->alloc_bytes);
}

/* ---- rehash ---- */

/*
** A table that doubles leaves its old parts behind: few, large parts of tables,
** in all about twice the last one, and half of it freed.
*/
static double rehash_of(const struct search *search, uint32_t line)
{
    const struct tide_model *model = search->model;
    const struct tide_r_counts *c = &model->lines[line].counts;
    uint64_t storage = 0;
    for (uint32_t i = model->lines[line].first_kind; i != TIDE_R_NONE;
         i = model->line_kinds[i].next)
        if (model->line_kinds[i].kind == TIDE_KIND_STORAGE)
            storage = model->line_kinds[i].alloc_bytes;
    return storage >= REHASH_BYTES && storage >= c->alloc_bytes / 10 * 9 &&
                   c->alloc_blocks >= 8 && c->alloc_blocks <= 64 &&
                   c->freed_bytes >= c->alloc_bytes / 10 * 4 &&
                   c->peak_bytes >= c->alloc_bytes / 10 * 4
               ? (double)storage
               : 0;
}

static void put_rehash(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct tide_r_counts *n = &model->lines[line].counts;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, n->alloc_bytes, (double)n->alloc_bytes / 4,
        "%s lets a table grow again and again: %s parts, %s in all, twice what "
        "the table needs; if its size is known, make it as large at once",
        tideR_place(model, line, place),
        tideR_count_text((int64_t)n->alloc_blocks, a),
        tideR_bytes_text((int64_t)n->alloc_bytes, b));
    tideR_fact(finding, "parts", (double)n->alloc_blocks);
    tideR_fact(finding, "alloc_bytes", (double)n->alloc_bytes);
    tideR_fact(finding, "peak_bytes", (double)n->peak_bytes);
}

/* ---- coroutines ---- */

static double coroutines_of(const struct search *search, uint32_t line)
{
    const struct line_facts *facts = &search->facts[line];
    return facts->coroutine_blocks / 2 >= COROUTINE_COUNT &&
                   facts->coroutine_blocks >= facts->coroutine_made / 2
               ? (double)facts->coroutine_blocks
               : 0;
}

static void put_coroutines(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct line_facts *facts = &search->facts[line];
    const uint64_t bytes = model->lines[line].counts.live_bytes;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, bytes, (double)bytes * 2,
        "%s coroutines made at %s are still there, with %s: nobody resumes or "
        "closes them; end them, or let go of what holds them",
        tideR_count_text((int64_t)facts->coroutine_blocks / 2, a),
        tideR_place(model, line, place), tideR_bytes_text((int64_t)bytes, b));
    tideR_fact(finding, "coroutines", (double)(facts->coroutine_blocks / 2));
    tideR_fact(finding, "made", (double)(facts->coroutine_made / 2));
    tideR_fact(finding, "live_bytes", (double)bytes);
}

/* ---- all of them ---- */

static void search_lines(const struct search *search)
{
    static const struct {
        measure_fn measure;
        void (*put)(const struct search *search, uint32_t line);
        uint32_t n_max;
        bool takes; /* the line is no longer looked at by those below */
    } kinds[] = {
        {coroutines_of, put_coroutines, COROUTINES_MAX, false},
        {leak_of, put_leak, LEAKS_MAX, true},
        {huge_of, put_huge, HUGE_MAX, true},
        {rehash_of, put_rehash, REHASH_MAX, true},
        {churn_of, put_churn, CHURNS_MAX, true},
    };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        uint32_t lines[LEAKS_MAX];
        uint32_t n = 0;
        while (n < kinds[k].n_max) {
            const uint32_t line = best_line(search, kinds[k].measure);
            if (line == TIDE_R_NONE)
                break;
            kinds[k].put(search, line);
            search->is_taken[line] = true;
            lines[n++] = line;
        }
        while (n > 0 && !kinds[k].takes)
            search->is_taken[lines[--n]] = false;
    }
}

enum tide_err tideR_find_lines(struct tide_model *model)
{
    struct search search = {
        .model = model,
        .facts = calloc(model->n_lines, sizeof *search.facts),
        .is_taken = calloc(model->n_lines, sizeof *search.is_taken),
    };
    enum tide_err err = TIDE_ERR_NOMEM;
    if (search.facts != NULL && search.is_taken != NULL) {
        gather_facts(&search);
        search_lines(&search);
        err = TIDE_OK;
    }
    free(search.facts);
    free(search.is_taken);
    return err;
}
