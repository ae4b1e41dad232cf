/*
** reader_side.c: what stands beside the cells: their rests, lives and floors.
**
** Only some cells have them, and lead to them by an index.  An index that leads
** nowhere, or to what another cell has already, counts as none.
*/
#include "reader_impl.h"

#include <stdlib.h>

#include "../common/assert.h"

/* Of the record that an index leads to when a cell has none. */
static const struct tide_p_rest no_rest;
static const struct tide_p_life no_life;
static const struct tide_p_floor no_floor;

static const struct {
    enum tide_p_section id;
    const char *name; /* of its records */
    size_t record_bytes;
    const char *fault;
} parts[TIDE_SIDE_COUNT_] = {
    [TIDE_SIDE_REST] = {TIDE_P_RESTS, "rests", sizeof(struct tide_p_rest),
                        "no such rest"},
    [TIDE_SIDE_LIFE] = {TIDE_P_LIVES, "lives", sizeof(struct tide_p_life),
                        "no such life"},
    [TIDE_SIDE_FLOOR] = {TIDE_P_CELL_FLOORS, "floors",
                         sizeof(struct tide_p_floor), "no such floor"},
};

static uint32_t count_in_head(const struct tide_p_heap *head,
                              enum tide_side which)
{
    return which == TIDE_SIDE_REST   ? head->n_rests
           : which == TIDE_SIDE_LIFE ? head->n_lives
                                     : head->n_floors;
}

static enum tide_err open_side(struct tide_check *check, enum tide_side which,
                               bool with_records, struct tide_sides *sides)
{
    uint32_t n = count_in_head(&check->heap->head, which);
    if (with_records)
        TIDE_TRY(tideP_read_records(check, parts[which].id, parts[which].name,
                                    &n, parts[which].record_bytes,
                                    &sides->records[which]));
    else
        tideP_count_records(check, parts[which].id, parts[which].name, &n,
                            parts[which].record_bytes);
    sides->n[which] = n;
    sides->used[which] = calloc(n / 8 + 1, 1);
    TIDE_FAIL_IF(sides->used[which] == NULL, TIDE_ERR_NOMEM);
    return TIDE_OK;
}

enum tide_err tideP_sides_open(struct tide_check *check, unsigned with_records,
                               struct tide_sides *sides)
{
    const struct tide_map map = check->map;
    enum tide_err err = TIDE_OK;
    *sides = (struct tide_sides){.n = {0}};
    for (unsigned i = 0; i < TIDE_SIDE_COUNT_ && err == TIDE_OK; i++)
        err = open_side(check, (enum tide_side)i, (with_records >> i & 1) != 0,
                        sides);
    check->map = map;
    return err;
}

void tideP_sides_close(struct tide_sides *sides)
{
    for (unsigned i = 0; i < TIDE_SIDE_COUNT_; i++) {
        free(sides->records[i]);
        free(sides->used[i]);
    }
}

uint32_t tideP_side_take(struct tide_sides *sides, enum tide_side which,
                         uint32_t index, const char **fault)
{
    if (index == 0)
        return 0;
    if (index >= sides->n[which] || tideP_get_mark(sides->used[which], index)) {
        *fault = parts[which].fault;
        return 0;
    }
    tideP_set_mark(sides->used[which], index);
    return index;
}

const struct tide_p_rest *tideP_side_rest(const struct tide_sides *sides,
                                          uint32_t index)
{
    const struct tide_p_rest *rests = sides->records[TIDE_SIDE_REST];
    return index == 0 || rests == NULL ? &no_rest : &rests[index];
}

const struct tide_p_life *tideP_side_life(const struct tide_sides *sides,
                                          uint32_t index)
{
    const struct tide_p_life *lives = sides->records[TIDE_SIDE_LIFE];
    return index == 0 || lives == NULL ? &no_life : &lives[index];
}

const struct tide_p_floor *tideP_side_floor(const struct tide_sides *sides,
                                            uint32_t index)
{
    const struct tide_p_floor *floors = sides->records[TIDE_SIDE_FLOOR];
    return index == 0 || floors == NULL ? &no_floor : &floors[index];
}

/* A file may say anything: never below 0, no sum that wraps. */
static uint64_t left_of(uint64_t freed, uint64_t once, uint64_t twice,
                        uint64_t older, uint64_t ageless)
{
    const uint64_t aged[] = {once, twice, older, ageless};
    for (unsigned i = 0; i < 4; i++)
        freed = freed > aged[i] ? freed - aged[i] : 0;
    return freed;
}

void tideP_side_join(const struct tide_p_cell *cell,
                     const struct tide_p_rest *rest,
                     const struct tide_p_life *life, struct tide_cell *out)
{
    *out = (struct tide_cell){
        .node = cell->node,
        .next = cell->next,
        .peak_epoch = cell->peak_epoch,
        .kind = cell->kind,
        .alloc_bytes = cell->alloc_bytes,
        .alloc_blocks = cell->alloc_blocks,
        .freed_bytes = cell->freed_bytes,
        .freed_blocks = cell->freed_blocks,
        .young_bytes =
            left_of(cell->freed_bytes, life->once_bytes, life->twice_bytes,
                    life->older_bytes, life->ageless_bytes),
        .young_blocks =
            left_of(cell->freed_blocks, life->once_blocks, life->twice_blocks,
                    life->older_blocks, life->ageless_blocks),
        .moved_bytes = rest->moved_bytes,
        .moved_blocks = rest->moved_blocks,
        .peak_bytes = rest->peak_bytes,
        .peak_blocks = rest->peak_blocks,
        .closed_bytes = rest->closed_bytes,
        .closed_blocks = rest->closed_blocks,
        .inherited_bytes = rest->inherited_bytes,
        .inherited_blocks = rest->inherited_blocks,
    };
}
