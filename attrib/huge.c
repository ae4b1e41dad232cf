/*
** huge.c: the largest block of each line and kind, where it is huge.
**
** Cells count bytes and blocks: one block of megabytes among a hundred thousand
** small ones does not show in them.  So every block of TIDE_P_HUGE_LEAST bytes
** and more, which is made or grows on a cold path and takes longer than this,
** is held against the record of its cell.  There are TIDE_P_HUGE_MAX records in
** the heap's head; with all taken, the one of the smallest goes.
**
** A block's kind may be settled at the next call only: what the last block has
** changed is kept until then, so that it can be taken back.
*/
#include <string.h>
#include <time.h>

#include "session.h"

/* The cell's record, else where there is room for one. */
static uint32_t find_place(const struct tide_p_heap *head, uint32_t cell)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < head->n_huge; i++) {
        if (head->huge[i].cell == cell)
            return i;
        if (head->huge[i].bytes < head->huge[least].bytes)
            least = i;
    }
    return head->n_huge < TIDE_P_HUGE_MAX ? head->n_huge : least;
}

/* A reader sees no bytes for as long as they may be another cell's. */
static void put_record(struct tide_p_huge *to, const struct tide_p_huge *from)
{
    TIDE_PUBLISH(&to->bytes, 0);
    to->mono_ns = from->mono_ns;
    to->alloc_bytes = from->alloc_bytes;
    to->n_blocks = from->n_blocks;
    to->cycle = from->cycle;
    TIDE_PUBLISH(&to->cell, from->cell);
    TIDE_PUBLISH(&to->bytes, from->bytes);
}

void tideT_huge_made(struct tide_heap *h, uint32_t cell, size_t bytes)
{
    struct tide_p_heap *head = h->head;
    const uint32_t i = find_place(head, cell);
    struct tide_p_huge *record = &head->huge[i];
    tide_assert(i < TIDE_P_HUGE_MAX && cell > 0 && cell < h->n_cells);
    h->huge = (struct tide_huge){.cell = cell,
                                 .place = i,
                                 .n_before = head->n_huge,
                                 .bytes = bytes,
                                 .before = *record};
    const bool is_own = i < head->n_huge && record->cell == cell;
    if (is_own)
        record->n_blocks++;
    if (i < head->n_huge && bytes <= record->bytes)
        return;
    const struct tide_p_huge huge = {
        .bytes = bytes,
        .mono_ns = tideT_clock_ns(CLOCK_MONOTONIC),
        .alloc_bytes = h->alloc_bytes - h->gc.alloc_base,
        .n_blocks = is_own ? record->n_blocks : 1,
        .cell = cell,
        .cycle = head->gc_cycle,
    };
    put_record(record, &huge);
    if (i == head->n_huge)
        TIDE_PUBLISH(&head->n_huge, i + 1);
}

void tideT_huge_moved(struct tide_heap *h, uint32_t from, uint32_t to,
                      size_t bytes)
{
    if (h->huge.cell != from || h->huge.bytes != bytes || bytes == 0)
        return;
    put_record(&h->head->huge[h->huge.place], &h->huge.before);
    TIDE_PUBLISH(&h->head->n_huge, h->huge.n_before);
    tideT_huge_made(h, to, bytes);
}

void tideT_huge_reset(struct tide_heap *h)
{
    TIDE_PUBLISH(&h->head->n_huge, 0);
    memset(h->head->huge, 0, sizeof h->head->huge);
    h->huge = (struct tide_huge){.cell = 0};
}
