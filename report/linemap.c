/*
** linemap.c: see linemap.h.
**
** Equal lines at both ends are matched first.  Between them, lines that stand
** once in each text are anchors (patience diff): the longest run of anchors
** that keeps its order is matched, and each match grows over equal lines on
** both of its sides.  Lines are compared by their hashes.
*/
#include "linemap.h"

#include <stdlib.h>
#include <string.h>

#include "../common/hash.h"
#include "grow.h"

struct text {
    uint64_t *hashes; /* of lines, from 0 */
    uint32_t n;
    uint32_t max;
};

/* A hash and where it stands; sorted to find those that stand once. */
struct place {
    uint64_t hash;
    uint32_t line;
};

/* A line that stands once in both texts. */
struct anchor {
    uint32_t a;
    uint32_t b;
    uint32_t before; /* index + 1 of the anchor before it in a run; 0: none */
};

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static enum tide_err read_lines(const char *at, size_t bytes, struct text *out)
{
    const char *end = at + bytes;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop != NULL ? stop + 1 : end;
        const char *tail = stop != NULL ? stop : end;
        while (at < tail && is_blank(*at))
            at++;
        while (tail > at && is_blank(tail[-1]))
            tail--;
        TIDE_TRY(tideR_grow(&out->hashes, &out->max, (uint64_t)out->n + 1,
                            sizeof *out->hashes));
        out->hashes[out->n++] = tideC_hash_bytes(at, (size_t)(tail - at));
        at = next;
    }
    return TIDE_OK;
}

static int compare_places(const void *pa, const void *pb)
{
    const struct place *a = pa;
    const struct place *b = pb;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->line < b->line ? -1 : a->line > b->line;
}

/* Lines from .. to - 1 whose text stands there once, sorted by hash. */
static uint32_t single_lines(const struct text *text, uint32_t from,
                             uint32_t to, struct place *out)
{
    uint32_t n = 0;
    uint32_t kept = 0;
    for (uint32_t i = from; i < to; i++)
        out[n++] = (struct place){text->hashes[i], i};
    qsort(out, n, sizeof *out, compare_places);
    for (uint32_t i = 0; i < n; i++) {
        const int has_before = i > 0 && out[i - 1].hash == out[i].hash;
        const int has_after = i + 1 < n && out[i + 1].hash == out[i].hash;
        if (!has_before && !has_after)
            out[kept++] = out[i];
    }
    return kept;
}

static int compare_anchors(const void *pa, const void *pb)
{
    const struct anchor *a = pa;
    const struct anchor *b = pb;
    return a->a < b->a ? -1 : a->a > b->a;
}

/* The longest run of anchors in order; returns its last + 1, linked back. */
static uint32_t longest_run(struct anchor *anchors, uint32_t n, uint32_t *tails)
{
    uint32_t length = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t low = 0;
        uint32_t high = length;
        while (low < high) {
            const uint32_t mid = (low + high) / 2;
            if (anchors[tails[mid]].b < anchors[i].b)
                low = mid + 1;
            else
                high = mid;
        }
        anchors[i].before = low > 0 ? tails[low - 1] + 1 : 0;
        tails[low] = i;
        if (low == length)
            length++;
    }
    return length > 0 ? tails[length - 1] + 1 : 0;
}

/* Grows every match over equal lines below it, then above it. */
static void grow_matches(const struct text *a, const struct text *b,
                         uint32_t *map, unsigned char *taken)
{
    for (uint32_t i = 0; i + 1 < a->n; i++) {
        const uint32_t to = map[i + 1]; /* from 1: the next line of b */
        if (to != 0 && map[i + 2] == 0 && to < b->n && !taken[to] &&
            a->hashes[i + 1] == b->hashes[to]) {
            map[i + 2] = to + 1;
            taken[to] = 1;
        }
    }
    for (uint32_t i = a->n; i-- > 1;) {
        const uint32_t to = map[i + 1];
        if (to > 1 && map[i] == 0 && !taken[to - 2] &&
            a->hashes[i - 1] == b->hashes[to - 2]) {
            map[i] = to - 1;
            taken[to - 2] = 1;
        }
    }
}

static void set_match(uint32_t *map, unsigned char *taken, uint32_t a,
                      uint32_t b)
{
    map[a + 1] = b + 1;
    taken[b] = 1;
}

/* Anchors of the lines first .. a_end - 1 and first .. b_end - 1. */
static enum tide_err match_anchors(const struct text *a, const struct text *b,
                                   uint32_t first, uint32_t a_end,
                                   uint32_t b_end, uint32_t *map,
                                   unsigned char *taken)
{
    const size_t room = (size_t)a->n + b->n + 1;
    struct place *places = malloc(room * sizeof *places);
    struct anchor *anchors = malloc(room * sizeof *anchors);
    uint32_t *tails = malloc(room * sizeof *tails);
    enum tide_err err = TIDE_ERR_NOMEM;
    if (places != NULL && anchors != NULL && tails != NULL) {
        const uint32_t na = single_lines(a, first, a_end, places);
        struct place *others = places + a->n;
        const uint32_t nb = single_lines(b, first, b_end, others);
        uint32_t n = 0;
        for (uint32_t i = 0, j = 0; i < na && j < nb;) {
            if (places[i].hash == others[j].hash)
                anchors[n++] =
                    (struct anchor){places[i++].line, others[j++].line, 0};
            else if (places[i].hash < others[j].hash)
                i++;
            else
                j++;
        }
        qsort(anchors, n, sizeof *anchors, compare_anchors);
        for (uint32_t at = longest_run(anchors, n, tails); at != 0;
             at = anchors[at - 1].before)
            set_match(map, taken, anchors[at - 1].a, anchors[at - 1].b);
        err = TIDE_OK;
    }
    free(places);
    free(anchors);
    free(tails);
    return err;
}

/* Lines that were changed in their place. */
static void match_changed(const struct text *a, const struct text *b,
                          uint32_t *map)
{
    uint32_t last_a = 0; /* of the match before: from 1, 0 is the start */
    uint32_t last_b = 0;
    for (uint32_t i = 1; i <= a->n + 1; i++) {
        const uint32_t to = i <= a->n ? map[i] : b->n + 1;
        if (to == 0)
            continue;
        if (i - last_a == to - last_b)
            for (uint32_t k = 1; k < i - last_a; k++)
                map[last_a + k] = last_b + k;
        last_a = i;
        last_b = to;
    }
}

static enum tide_err match_texts(const struct text *a, const struct text *b,
                                 uint32_t *map, unsigned char *taken)
{
    uint32_t first = 0;
    uint32_t a_end = a->n;
    uint32_t b_end = b->n;
    while (first < a_end && first < b_end &&
           a->hashes[first] == b->hashes[first]) {
        set_match(map, taken, first, first);
        first++;
    }
    while (a_end > first && b_end > first &&
           a->hashes[a_end - 1] == b->hashes[b_end - 1])
        set_match(map, taken, --a_end, --b_end);
    TIDE_TRY(match_anchors(a, b, first, a_end, b_end, map, taken));
    grow_matches(a, b, map, taken);
    match_changed(a, b, map);
    return TIDE_OK;
}

enum tide_err tideR_linemap(const char *a, size_t a_bytes, const char *b,
                            size_t b_bytes, uint32_t **map, uint32_t *n_lines)
{
    struct text from = {0};
    struct text to = {0};
    uint32_t *lines = NULL;
    unsigned char *taken = NULL;
    enum tide_err err = read_lines(a, a_bytes, &from);
    if (err == TIDE_OK)
        err = read_lines(b, b_bytes, &to);
    if (err == TIDE_OK) {
        lines = calloc((size_t)from.n + 2, sizeof *lines);
        taken = calloc((size_t)to.n + 1, 1);
        err = lines != NULL && taken != NULL
                  ? match_texts(&from, &to, lines, taken)
                  : TIDE_ERR_NOMEM;
    }
    free(from.hashes);
    free(to.hashes);
    free(taken);
    if (err == TIDE_OK) {
        *map = lines;
        *n_lines = from.n;
    } else {
        free(lines);
    }
    return err;
}
