/*
** lives.c: what is kept of some cells only, in records that a cell leads to.
**
** The rest of a cell: blocks that changed their owner, what it held at a peak,
** what lua_close freed of it, what it held when counting began.  There is room
** for as many as there are cells (tree.c), so that none is ever missing.
**
** Its life: how old blocks were when they were freed, and how often large parts
** of tables had to grow.  The age of a block is the number of collections whose
** atomic phase came between its making and its freeing; the one that found it
** dead is among them.  Ages 0 and 1, nearly all, are not counted: they are what
** was freed besides.  What has no age is counted as such: bytes by which a
** block shrank, and what lua_close freed in a heap that was used again.
**
** Without memory for a life what it would have said is lost in record 0, which
** nobody reads: it counts as young.
*/
#include "attrib.h"

struct tide_p_rest *tideT_new_rest(struct tide_heap *h,
                                   struct tide_p_cell *cell)
{
    const uint32_t i = h->head->n_rests;
    tide_assert(cell > h->cells && cell < h->cells + h->n_cells);
    tide_assert(cell->rest == 0 && i > 0 && i < h->n_cells);
    h->rests[i] = (struct tide_p_rest){0};
    TIDE_PUBLISH(&h->head->n_rests, i + 1);
    TIDE_PUBLISH(&cell->rest, i);
    return &h->rests[i];
}

struct tide_p_life *tideT_new_life(struct tide_heap *h,
                                   struct tide_p_cell *cell)
{
    const uint32_t i = h->head->n_lives;
    tide_assert(cell > h->cells && cell < h->cells + h->n_cells);
    tide_assert(cell->life == 0 && i > 0);
    if (tideP_section_reserve(h->writer, &h->sections[TIDE_P_LIVES],
                              ((size_t)i + 1) * sizeof *h->lives) != TIDE_OK)
        return &h->lives[0];
    h->lives[i] = (struct tide_p_life){0};
    TIDE_PUBLISH(&h->head->n_lives, i + 1);
    TIDE_PUBLISH(&cell->life, i);
    return &h->lives[i];
}

void tideT_count_ageless(struct tide_heap *h, struct tide_p_cell *cell,
                         uint64_t bytes, uint64_t blocks)
{
    struct tide_p_life *life = tideT_life(h, cell);
    life->ageless_bytes += bytes;
    life->ageless_blocks += blocks;
}

void tideT_count_regrown(struct tide_heap *h, struct tide_p_cell *cell,
                         size_t bytes)
{
    struct tide_p_life *life = tideT_life(h, cell);
    life->regrown_bytes += bytes;
    life->n_regrown++;
}

/* Another thread may be counting on: never below 0. */
static uint64_t left_of(uint64_t freed, uint64_t aged)
{
    return freed > aged ? freed - aged : 0;
}

uint64_t tideT_young_bytes(const struct tide_heap *h,
                           const struct tide_p_cell *cell)
{
    const struct tide_p_life *life = &h->lives[cell->life];
    return cell->life == 0
               ? cell->freed_bytes
               : left_of(cell->freed_bytes,
                         life->once_bytes + life->twice_bytes +
                             life->older_bytes + life->ageless_bytes);
}

uint64_t tideT_young_blocks(const struct tide_heap *h,
                            const struct tide_p_cell *cell)
{
    const struct tide_p_life *life = &h->lives[cell->life];
    return cell->life == 0
               ? cell->freed_blocks
               : left_of(cell->freed_blocks,
                         life->once_blocks + life->twice_blocks +
                             life->older_blocks + life->ageless_blocks);
}

void tideT_lives_reset(struct tide_heap *h)
{
    for (uint32_t i = 1; i < h->n_cells; i++)
        h->cells[i].life = 0;
    TIDE_PUBLISH(&h->head->n_lives, 1);
}
