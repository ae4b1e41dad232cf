/*
** findlines.c: findings about lines: leaks, churn, strings built piece by
** piece, huge blocks, coroutines that nobody resumes.
**
** Each kind names few lines, the worst first; a line that leaks is not also
** called churn.
*/
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "gcview.h"
#include "model_impl.h"

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)

#define LEAKS_MAX      8u
#define CHURNS_MAX     3u
#define HUGE_MAX       3u
#define SINGLE_MAX     2u
#define COROUTINES_MAX 2u
#define REHASH_MAX     2u

#define LEAK_BYTES      (4 * KIB) /* growth, at least */
#define LEAK_PER_CYCLE  256.0
#define LEAK_SURELY     1024.0 /* bytes a cycle: told in any case */
#define CHURN_BYTES     MIB
#define CHURN_BLOCKS    100u
#define CONCAT_BYTES    256u /* a string of that size is made of pieces */
#define HUGE_BYTES      MIB
#define SINGLE_PART     8u /* of the heap's peak: one block, at least ... */
#define SINGLE_STORAGE  4u /* ... and a part of a table */
#define REGROWN_COUNT   8u
#define REGROWN_BYTES   (192 * KIB)
#define COROUTINE_COUNT 100u
#define FRAMES_TOLD     3u /* of a stack */

/* What is counted of every line beside the model's rows. */
struct line_facts {
    struct tide_r_trend trend; /* in the heap where it leaks most */
    double leak_bytes;         /* by which it grew there; 0: it is no leak */
    uint32_t first_cycle;      /* that the trend was looked at */
    uint32_t last_cycle;
    uint64_t concat_bytes; /* strings made by the line itself, not by C */
    uint64_t concat_blocks;
    uint64_t coroutine_blocks; /* alive: a thread and its first stack each */
    uint64_t coroutine_made;
    const struct tide_r_block *largest; /* NULL: it had no huge one */
};

struct search {
    struct tide_model *model;
    struct line_facts *facts;
    bool *is_taken; /* the line has its finding */
};

static void gather_largest(const struct search *search)
{
    const struct tide_model *model = search->model;
    for (uint32_t i = model->n_blocks; i-- > 0;) { /* the largest comes first */
        const struct tide_r_block *block = &model->blocks[i];
        const uint32_t node = model->stacks[block->stack].node;
        const uint32_t frame = model->nodes[node].lua_frame;
        search->facts[model->frames[frame].line_row].largest = block;
    }
}

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

/*
** Results that pile up in a batch rise as well: doubt takes more bytes, and
** what is little by cycle a fiftieth of the heap.
*/
static double leak_of_trend(const struct tide_r_floors *floors,
                            const struct tide_r_trend *t)
{
    const double growth = (double)t->last_bytes - (double)t->first_bytes;
    const double heap = (double)floors->heap[floors->n_work - 1];
    if ((t->confidence == 1 && growth * 10 < heap) ||
        (t->confidence == 2 && t->growth_per_cycle < LEAK_SURELY &&
         growth * 50 < heap))
        return 0;
    return t->confidence > 0 && growth >= (double)LEAK_BYTES &&
                   t->growth_per_cycle >= LEAK_PER_CYCLE
               ? growth
               : 0;
}

static void judge_line(const struct tide_r_floors *floors, uint32_t line,
                       const struct tide_r_counts *counts,
                       struct line_facts *facts)
{
    const uint64_t *row = floors->bytes + (size_t)line * TIDE_P_FLOORS;
    const struct tide_r_trend trend = tideR_trend(floors, row, counts);
    const double leak_bytes = leak_of_trend(floors, &trend);
    if (leak_bytes <= facts->leak_bytes)
        return;
    facts->trend = trend;
    facts->leak_bytes = leak_bytes;
    facts->first_cycle = floors->cycles[floors->n_work - 1 - trend.n_steps];
    facts->last_cycle = floors->cycles[floors->n_work - 1];
}

static enum tide_err judge_heap(const struct search *search, uint32_t heap,
                                struct tide_r_counts *lines)
{
    const struct tide_model *model = search->model;
    struct tide_r_floors floors;
    const enum tide_err err = tideR_floors_open(model, heap, &floors);
    if (err == TIDE_OK && floors.n_work >= 2) {
        tideR_heap_counts(model, heap, lines);
        for (uint32_t i = 1; i < model->n_lines; i++)
            judge_line(&floors, i, &lines[i], &search->facts[i]);
    }
    tideR_floors_close(&floors);
    return err;
}

/* Each heap by itself: one that leaks may stand beside others that do not. */
static enum tide_err judge_heaps(const struct search *search)
{
    const struct tide_model *model = search->model;
    const uint32_t n = tideP_reader_n_heaps(model->profile);
    struct tide_r_counts *lines = calloc(model->n_lines, sizeof *lines);
    enum tide_err err = lines != NULL ? TIDE_OK : TIDE_ERR_NOMEM;
    for (uint32_t heap = 0; heap < n && err == TIDE_OK; heap++)
        if (tideP_reader_heap(model->profile, heap)->n_columns >= 2)
            err = judge_heap(search, heap, lines);
    free(lines);
    return err;
}

static double leak_of(const struct search *search, uint32_t line)
{
    return search->facts[line].leak_bytes;
}

static void put_leak(const struct search *search, uint32_t line)
{
    static const char *const words[] = {"", "low", "medium", "high"};
    struct tide_model *model = search->model;
    const struct line_facts *facts = &search->facts[line];
    const struct tide_r_trend *t = &facts->trend;
    const uint64_t growth = t->last_bytes - t->first_bytes;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "leak", line, growth, (double)growth * 4 + 1e6 * t->confidence,
        "%s looks like a leak (confidence %s): what it made and what is still "
        "held grew from %s to %s, by %s with each collection, and goes on; "
        "unless that is the run's result, find what keeps it: a table never "
        "cleared, a callback never removed",
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
    tideR_fact(finding, "first_cycle", facts->first_cycle);
    tideR_fact(finding, "last_cycle", facts->last_cycle);
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

/* The kind with huge blocks that has most bytes; TIDE_KIND_COUNT_: none. */
static unsigned huge_kind(const struct tide_model *model, uint32_t line,
                          struct tide_r_line_kind rows[TIDE_KIND_COUNT_])
{
    unsigned best = TIDE_KIND_COUNT_;
    tideR_line_kinds(model, line, rows);
    for (unsigned i = 0; i < TIDE_KIND_COUNT_; i++)
        if (rows[i].alloc_blocks > 0 &&
            rows[i].alloc_bytes / rows[i].alloc_blocks >= HUGE_BYTES &&
            (best == TIDE_KIND_COUNT_ ||
             rows[i].alloc_bytes > rows[best].alloc_bytes))
            best = i;
    return best;
}

/* ---- one huge block ---- */

/* No small part of what the heap ever held.  Tables have large parts anyway. */
static double single_of(const struct search *search, uint32_t line)
{
    const struct tide_model *model = search->model;
    const struct tide_r_block *block = search->facts[line].largest;
    struct tide_r_line_kind rows[TIDE_KIND_COUNT_];
    if (block == NULL || block->record->bytes < HUGE_BYTES)
        return 0;
    const unsigned kind = huge_kind(model, line, rows);
    if (kind < TIDE_KIND_COUNT_ && rows[kind].alloc_blocks > 1 &&
        block->record->n_blocks > 1)
        return 0; /* they are many */
    const uint64_t part =
        model->stacks[block->stack].cell_kind == TIDE_KIND_STORAGE
            ? SINGLE_STORAGE
            : SINGLE_PART;
    return block->record->bytes >= model->totals.peak_bytes / part
               ? (double)block->record->bytes
               : 0;
}

/* ", among 99,999 others of 52 B in the mean"; "": it is the only one. */
static void put_others(const struct tide_model *model, uint32_t line,
                       const struct tide_r_block *block, char *out,
                       size_t out_bytes)
{
    struct tide_r_line_kind rows[TIDE_KIND_COUNT_];
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX];
    tideR_line_kinds(model, line, rows);
    const struct tide_r_line_kind *n =
        &rows[model->stacks[block->stack].cell_kind];
    out[0] = '\0';
    if (n->alloc_blocks > 1 && n->alloc_bytes >= block->record->bytes)
        snprintf(
            out, out_bytes, ", among %s others of %s in the mean",
            tideR_count_text((int64_t)n->alloc_blocks - 1, a),
            tideR_bytes_text((int64_t)((n->alloc_bytes - block->record->bytes) /
                                       (n->alloc_blocks - 1)),
                             b));
}

static void put_single(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct tide_r_block *block = search->facts[line].largest;
    const struct tide_p_huge *r = block->record;
    const double s = tideR_seconds(model, r->mono_ns);
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], c[TIDE_R_UNIT_MAX];
    char others[80], place[TIDE_R_PLACE_MAX], stack[TIDE_R_PLACE_MAX];
    put_others(model, line, block, others, sizeof others);
    tideR_stack_place(model, block->stack, FRAMES_TOLD, stack, sizeof stack);
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, r->bytes, (double)r->bytes / 2,
        "%s made one block of %s%s: %s of the heap's peak, %s after the start, "
        "by %s; work on pieces, or limit what is asked for",
        tideR_place(model, line, place), tideR_bytes_text((int64_t)r->bytes, a),
        others,
        tideR_share_text((int64_t)r->bytes, (int64_t)model->totals.peak_bytes,
                         b),
        tideR_duration_text((uint64_t)(s * 1e9), c), stack);
    tideR_fact(finding, "largest_bytes", (double)r->bytes);
    tideR_fact(finding, "seconds", s);
    tideR_fact(finding, "cycle", r->cycle);
    tideR_fact(finding, "huge_blocks", (double)r->n_blocks);
    tideR_fact(finding, "heap_peak_bytes", (double)model->totals.peak_bytes);
}

/* ---- many of them ---- */

static double huge_of(const struct search *search, uint32_t line)
{
    const struct tide_model *model = search->model;
    const uint64_t least = model->totals.alloc_bytes / 20;
    struct tide_r_line_kind rows[TIDE_KIND_COUNT_];
    if (model->lines[line].counts.alloc_bytes < least ||
        single_of(search, line) > 0)
        return 0;
    const unsigned kind = huge_kind(model, line, rows);
    return kind < TIDE_KIND_COUNT_ && rows[kind].alloc_bytes >= least
               ? (double)rows[kind].alloc_bytes
               : 0;
}

static void put_huge(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    struct tide_r_line_kind rows[TIDE_KIND_COUNT_];
    const unsigned kind = huge_kind(model, line, rows);
    const struct tide_r_line_kind *n = &rows[kind];
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    const uint64_t mean = n->alloc_bytes / n->alloc_blocks;
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, n->alloc_bytes, (double)mean / 2,
        "%s makes huge blocks: %s of kind %s, with %s in the mean; work on "
        "pieces, or limit what is asked for",
        tideR_place(model, line, place),
        tideR_count_text((int64_t)n->alloc_blocks, a), tideC_kind_name(kind),
        tideR_bytes_text((int64_t)mean, b));
    tideR_fact(finding, "blocks", (double)n->alloc_blocks);
    tideR_fact(finding, "mean_bytes", (double)mean);
    tideR_fact(finding, "alloc_bytes", (double)n->alloc_bytes);
}

/* ---- rehash ---- */

/*
** A table that doubles has what it holds moved each time; many, or one that
** gets large, and no small share of what the line asks for, nor of all.
*/
static double rehash_of(const struct search *search, uint32_t line)
{
    const struct tide_r_counts *c = &search->model->lines[line].counts;
    return c->n_regrown >= REGROWN_COUNT && c->regrown_bytes >= REGROWN_BYTES &&
                   c->regrown_bytes >= c->alloc_bytes / 4 &&
                   c->regrown_bytes >= search->model->totals.alloc_bytes / 100
               ? (double)c->regrown_bytes
               : 0;
}

static void put_rehash(const struct search *search, uint32_t line)
{
    struct tide_model *model = search->model;
    const struct tide_r_counts *n = &model->lines[line].counts;
    char a[TIDE_R_UNIT_MAX], b[TIDE_R_UNIT_MAX], place[TIDE_R_PLACE_MAX];
    struct tide_r_finding *finding = tideR_finding(
        model, "memory", line, n->alloc_bytes, (double)n->regrown_bytes / 2,
        "%s lets tables grow again and again: parts of a KiB and more were too "
        "small %s times, and %s had to be moved to larger ones; where a size "
        "is known, make the table as large at once",
        tideR_place(model, line, place),
        tideR_count_text((int64_t)n->n_regrown, a),
        tideR_bytes_text((int64_t)n->regrown_bytes, b));
    tideR_fact(finding, "regrown", (double)n->n_regrown);
    tideR_fact(finding, "regrown_bytes", (double)n->regrown_bytes);
    tideR_fact(finding, "alloc_bytes", (double)n->alloc_bytes);
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
        {single_of, put_single, SINGLE_MAX, false},
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
        gather_largest(&search);
        err = judge_heaps(&search);
    }
    if (err == TIDE_OK)
        search_lines(&search);
    free(search.facts);
    free(search.is_taken);
    return err;
}
