/*
** trend.c: how a row of floors goes, and whether that is a leak.
**
** A row is what a line, or a stack, had alive after some whole collections
** (floors.c).  One that rises to the end of the work leaks; how much evidence
** that takes depends on whether what survives a collection ever dies.
*/
#include <string.h>

#include "model_impl.h"

#define MINORS_LEAST  20u  /* collections of a heap that does not grow */
#define MINOR_GROWTH  1024 /* bytes by each of them: that is growing */
#define WARM_PART     4u   /* the first quarter is warming up */
#define RISES_LEAST   3u
#define CHANCE_RISES  5u     /* of what goes up and down */
#define GREAT_RISES   4u     /* ... when all of them, to ... */
#define GREAT_GROWTH  2      /* ... so many times as much */
#define CHANCE_GROWTH 512.0  /* bytes a cycle: less may be a slow beat */
#define BLOCK_BYTES   65536u /* in the mean: a row of few large blocks */
#define BLOCK_BAND    2.5    /* times that is held while it is replaced */
#define LOWS_PART     0.25   /* of a row's growth: the heap's own, at least */
#define GIVEN_BACK    0.1    /* of what a row had: more is not by chance */
#define LATE_PART     0.6    /* of the work: the rest is late ... */
#define LATE_GROWTH   0.15   /* ... and has at least so much of the growth */
#define TABLES_PART   0.75   /* of a row: outgrown parts of tables of its own */
#define LAST_DOUBLING 0.45   /* of the work: the last one is no earlier */
#define LAST_RISE     0.25   /* of the time of a long run: no earlier */
#define LONG_RUN_S    5.0

/*
** The floor when so much had been allocated, between the columns; `last` is
** the last column.
*/
static double floor_at(const struct tide_r_floors *floors, const uint64_t *row,
                       uint32_t last, double alloc)
{
    uint32_t i = 0;
    while (i < last && floors->alloc[i + 1] < alloc)
        i++;
    if (i == last || floors->alloc[i + 1] <= floors->alloc[i])
        return (double)row[i];
    const double part =
        (alloc - floors->alloc[i]) / (floors->alloc[i + 1] - floors->alloc[i]);
    return (double)row[i] +
           ((double)row[i + 1] - (double)row[i]) * (part > 0 ? part : 0);
}

/* What a row is judged by. */
struct row {
    const struct tide_r_floors *floors;
    const uint64_t *bytes;
    uint32_t first; /* columns that are looked at */
    uint32_t last;
    bool is_lasting;   /* what survives a collection hardly ever dies */
    bool is_tables;    /* ... and nearly all of it is what tables grew to */
    bool is_one_block; /* few blocks, and large; what survives dies */
    double held_bytes; /* surely, at the very end; 0: not known */
};

/* The part of the growth that came late, by what had been allocated. */
static double late_growth(const struct row *row)
{
    const struct tide_r_floors *floors = row->floors;
    const double growth =
        (double)row->bytes[row->last] - (double)row->bytes[row->first];
    const double start = floors->alloc[row->first];
    const double middle = start + (floors->end_alloc - start) * LATE_PART;
    double most = floors->n_work == floors->n ? row->held_bytes : 0;
    for (uint32_t i = row->first; i <= row->last; i++)
        if (floors->alloc[i] >= middle && (double)row->bytes[i] > most)
            most = (double)row->bytes[i];
    const double then = floor_at(floors, row->bytes, row->last, middle);
    return most > then ? (most - then) / growth : 0;
}

/* How a row goes from column to column. */
struct steps {
    uint32_t n;
    uint32_t n_rises;
    uint32_t n_doublings; /* of the rises: by half and more */
    uint32_t last_rise;   /* column that it led to */
    double rises;         /* bytes */
    double falls;
};

static struct steps count_steps(const uint64_t *row, uint32_t first,
                                uint32_t last)
{
    struct steps steps = {.n = last - first};
    for (uint32_t i = first; i < last; i++) {
        const double step = (double)row[i + 1] - (double)row[i];
        if (step > 0) {
            steps.n_rises++;
            steps.n_doublings += step >= (double)row[i] / 2;
            steps.last_rise = i + 1;
            steps.rises += step;
        } else {
            steps.falls -= step;
        }
    }
    return steps;
}

/* Loaded, then worked on without allocating?  A short run cannot say. */
static bool is_long_ago(const struct tide_r_floors *floors,
                        const struct steps *steps)
{
    return floors->end_s >= LONG_RUN_S &&
           floors->seconds[steps->last_rise] < floors->end_s * LAST_RISE;
}

/* The first column from there on where something stood. */
static uint32_t skip_nothing(const uint64_t *row, uint32_t first, uint32_t last)
{
    while (first < last && row[first] == 0)
        first++;
    return first;
}

/*
** A table that grows for ever does so by doubling: rarely, each time later by
** as much as it took so far.  Other things double from column to column where
** collections wait for the heap to double: then more must be held by the end.
*/
static bool is_doubling(const struct row *row)
{
    const struct tide_r_floors *floors = row->floors;
    const struct steps steps = count_steps(
        row->bytes, skip_nothing(row->bytes, floors->start, row->last),
        row->last);
    const bool has_one_more =
        row->held_bytes >= (double)row->bytes[row->last] * 1.5;
    if (steps.falls > 0 || steps.n_rises + has_one_more < RISES_LEAST ||
        steps.n_doublings != steps.n_rises)
        return false;
    return has_one_more || (row->is_tables && !is_long_ago(floors, &steps) &&
                            floors->alloc[steps.last_rise] >=
                                floors->end_alloc * LAST_DOUBLING);
}

/*
** How many rises it takes.  What goes up and down may be seen to rise a few
** times by chance, hardly so to many times of what it was.
*/
static uint32_t rises_needed(const struct row *row, const struct steps *steps)
{
    if (row->is_lasting)
        return RISES_LEAST;
    return steps->n_rises == steps->n && row->bytes[row->last] / GREAT_GROWTH >=
                                             row->bytes[row->first]
               ? GREAT_RISES
               : CHANCE_RISES;
}

/*
** Rises most of the time, hardly ever falls, and goes on to rise: what fills up
** and stays so is no leak.
*/
static bool is_rising(const struct row *row, const struct steps *steps)
{
    return steps->rises > steps->falls && steps->falls <= steps->rises * 0.1 &&
           steps->n_rises >= rises_needed(row, steps) &&
           steps->n_rises * 10 >= steps->n * 6 &&
           !is_long_ago(row->floors, steps) && late_growth(row) >= LATE_GROWTH;
}

/*
** A leak does not give back.  What did so since the work began, and is still
** below what it had then, may be a buffer that fills up again: collections that
** keep step with it see one of its rises for long.
*/
static bool is_refilling(const struct row *row)
{
    uint64_t most = 0;
    uint64_t least = 0; /* since there was most */
    for (uint32_t i = row->floors->start; i <= row->last; i++) {
        const uint64_t bytes = row->bytes[i];
        least = bytes >= most || bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    return row->bytes[row->last] < most &&
           (double)(most - least) > (double)most * GIVEN_BACK;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* From there on the least of what comes; how many times that it ever was. */
static double fill_least(const struct row *row, uint64_t *least)
{
    double band = 1;
    least[row->last] = row->bytes[row->last];
    for (uint32_t i = row->last; i-- > row->first;) {
        least[i] = lesser(row->bytes[i], least[i + 1]);
        const double times =
            (double)row->bytes[i] / (least[i] > 0 ? (double)least[i] : 1);
        band = times > band ? times : band;
    }
    return band;
}

/*
** One large block, such as a text that grows, is seen twice by a collection
** that comes while it is being replaced.  So it is looked at from below, where
** it has grown by more than that makes.
*/
static bool is_growing_block(const struct row *row)
{
    uint64_t least[TIDE_P_FLOORS];
    struct row even = *row;
    if (!row->is_one_block)
        return false;
    const double band = fill_least(&even, least);
    even.bytes = least;
    const struct steps steps = count_steps(least, even.first, even.last);
    return band <= BLOCK_BAND &&
           (double)least[even.last] >= (double)least[even.first] * BLOCK_BAND &&
           steps.n_rises >= CHANCE_RISES && late_growth(&even) >= LATE_GROWTH &&
           !is_long_ago(row->floors, &steps);
}

/*
** What goes up and down in step with the columns seems to rise.  All whole
** collections that came between them tell, when the lowest of the heap has not
** risen as well.
*/
static bool is_beat(const struct row *row)
{
    const struct tide_r_floors *floors = row->floors;
    const uint32_t middle = row->first + (row->last - row->first) * 3 / 5;
    uint64_t early = UINT64_MAX;
    uint64_t late = UINT64_MAX;
    for (uint32_t i = row->first; i <= row->last; i++) {
        if (i <= middle)
            early = lesser(early, floors->lows[i]);
        else
            late = lesser(late, floors->lows[i]);
    }
    const double growth =
        (double)row->bytes[row->last] - (double)row->bytes[row->first];
    return (double)late - (double)early < growth * LOWS_PART;
}

/* By how the row rises: 0 no .. 3 high. */
static unsigned judge_rises(const struct row *row)
{
    const struct steps steps = count_steps(row->bytes, row->first, row->last);
    if (!is_rising(row, &steps))
        return is_doubling(row) || is_growing_block(row) ? 1 : 0;
    if (is_refilling(row))
        return 1;
    if (steps.n_rises * 10 >= steps.n * 9 && steps.n >= 8)
        return 3;
    return steps.n_rises == steps.n || steps.n >= 8 ? 2 : 1;
}

/* Confidence that it leaks: 0 no .. 3 high. */
static unsigned judge(const struct row *row, double per_cycle)
{
    const unsigned confidence = judge_rises(row);
    if (row->is_lasting || confidence == 0)
        return confidence;
    if (is_beat(row))
        return confidence - 1;
    return per_cycle < CHANCE_GROWTH ? 1 : confidence;
}

/*
** Where a row is looked at from: a quarter of the columns is warming up.  Work
** may begin late: where nothing stood there is nothing to say.
*/
static uint32_t first_of_row(const struct tide_r_floors *floors,
                             const uint64_t *row)
{
    const uint32_t last = floors->n_work - 1;
    const uint32_t n = floors->n_work - floors->start;
    const uint32_t first =
        skip_nothing(row, floors->start + n / WARM_PART, last);
    return first < last ? first : last - 1;
}

/*
** What it lost of what had survived a collection; parts of tables that larger
** ones replaced are no loss.
*/
static uint64_t died_old(const struct tide_r_counts *counts)
{
    uint64_t ages[TIDE_R_AGES];
    tideR_ages(counts, false, ages);
    const uint64_t died = ages[1] + ages[2] + ages[3];
    return died > counts->regrown_bytes ? died - counts->regrown_bytes : 0;
}

/*
** Collections that came after the last that was looked at say whether it goes
** on: not when all of the heap has grown less than this alone at its pace.  A
** table has no pace: it stands for long and then doubles at once.  A large
** block may have been seen twice by the last.
*/
static bool has_gone_on(const struct row *row, double per_cycle)
{
    const struct tide_r_floors *floors = row->floors;
    return floors->n_since < MINORS_LEAST ||
           floors->grown_since * 4 >= per_cycle * floors->n_since ||
           (row->is_tables && is_doubling(row)) || is_growing_block(row);
}

/*
** There is garbage in what is live at the end, more of it the more garbage the
** row makes.
*/
static double held_surely(const struct tide_r_counts *counts, uint64_t left)
{
    const double share =
        (double)counts->live_bytes /
        ((double)counts->live_bytes + (double)counts->freed_bytes + 1);
    return counts->live_bytes <= left
               ? 0
               : (double)left + (double)(counts->live_bytes - left) * share;
}

static struct row row_of(const struct tide_r_floors *floors,
                         const uint64_t *bytes,
                         const struct tide_r_counts *counts)
{
    struct row row = {
        .floors = floors,
        .bytes = bytes,
        .first = first_of_row(floors, bytes),
        .last = floors->n_work - 1,
    };
    const double held = held_surely(counts, bytes[row.last]);
    row.is_lasting = (double)died_old(counts) * 4 <=
                     (held > 0 ? held : (double)counts->live_bytes);
    row.is_one_block = !row.is_lasting && counts->live_blocks > 0 &&
                       counts->live_bytes / counts->live_blocks >= BLOCK_BYTES;
    if (row.is_one_block) {
        const uint32_t first = skip_nothing(bytes, floors->start, row.last);
        row.first = first < row.last ? first : row.last - 1;
    }
    if (!row.is_lasting)
        return row;
    row.held_bytes = held;
    row.is_tables =
        (double)counts->regrown_bytes >= (double)bytes[row.last] * TABLES_PART;
    if (row.first > floors->start && bytes[row.first - 1] == 0)
        row.first--; /* its appearance is a rise */
    return row;
}

struct tide_r_trend tideR_trend(const struct tide_r_floors *floors,
                                const uint64_t *bytes,
                                const struct tide_r_counts *counts)
{
    struct tide_r_trend trend = {.confidence = 0};
    if (floors->n_work < 2)
        return trend;
    const struct row row = row_of(floors, bytes, counts);
    const uint32_t first = row.first;
    const uint32_t last = row.last;
    trend.first_bytes = bytes[first];
    trend.last_bytes = bytes[last];
    trend.n_steps = last - first;
    for (uint32_t i = first; i < last; i++)
        trend.n_rises += bytes[i + 1] > bytes[i];
    const double growth = (double)bytes[last] - (double)bytes[first];
    const double cycles =
        (double)floors->cycles[last] - (double)floors->cycles[first];
    const double seconds = floors->seconds[last] - floors->seconds[first];
    trend.growth_per_cycle = cycles > 0 ? growth / cycles : 0;
    trend.growth_per_min = seconds > 0 ? growth * 60 / seconds : 0;
    if (has_gone_on(&row, trend.growth_per_cycle))
        trend.confidence = judge(&row, trend.growth_per_cycle);
    return trend;
}

uint32_t tideR_columns_of_work(const struct tide_r_floors *floors)
{
    uint32_t n = 0;
    for (uint32_t i = floors->start; i < floors->n_work; i++)
        n += floors->alloc[i] * WARM_PART >= floors->end_alloc;
    return n;
}

bool tideR_has_verdict(const struct tide_model *model)
{
    const struct tide_r_floors *floors = &model->floors;
    return tideR_columns_of_work(floors) >= TIDE_R_COLUMNS_LEAST ||
           (floors->n_work > 0 && floors->n_since >= MINORS_LEAST &&
            floors->grown_since <= floors->n_since * MINOR_GROWTH);
}
