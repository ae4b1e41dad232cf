/*
** check.c: the books of a profile that has been read: `tidemark check`.
**
** The reader has made sure that indices can be followed; here the numbers are
** held against each other: the invariants above struct tide_p_cell, and the
** sums that a heap's head repeats.
*/
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../common/compiler.h"
#include "reader.h"

/* What one check reports to, and on what. */
struct books {
    tide_p_fault_fn report_or_null;
    void *ctx;
    uint64_t n_faults;
    uint32_t heap; /* number of the view */
    const struct tide_p_view *view;
};

/* Sums over the cells of one heap. */
struct sums {
    __int128 moved_bytes, moved_blocks;
    __int128 peak_bytes;
    __int128 held_bytes;
};

static void fault(struct books *books, const char *fmt, ...) TIDE_PRINTF(2, 3);

static void fault(struct books *books, const char *fmt, ...)
{
    char text[256];
    va_list args;
    books->n_faults++;
    if (books->report_or_null == NULL)
        return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    books->report_or_null(books->ctx, text);
}

static void cell_fault(struct books *books, uint32_t i, const char *text)
{
    const struct tide_cell *cell = &books->view->cells[i];
    fault(books,
          "heap %" PRIu32 ", cell %" PRIu32 " (node %" PRIu32 ", %s): %s",
          books->heap, i, cell->node, tideC_kind_name(cell->kind), text);
}

/* Never wraps. */
static __int128 live_of(uint64_t inherited, uint64_t alloc, int64_t moved,
                        uint64_t freed)
{
    return (__int128)inherited + alloc + moved - freed;
}

/* Sums of what a file says may be anything: they must not wrap. */
static void check_ages(struct books *books, uint32_t i)
{
    const struct tide_cell *c = &books->view->cells[i];
    const struct tide_p_life none = {0};
    const struct tide_p_life *a =
        i < books->view->n_lives ? &books->view->lives[i] : &none;
    if ((__int128)a->once_bytes + a->twice_bytes + a->older_bytes +
            a->ageless_bytes >
        c->freed_bytes)
        cell_fault(books, i, "more bytes have an age than were freed");
    if ((__int128)a->once_blocks + a->twice_blocks + a->older_blocks +
            a->ageless_blocks >
        c->freed_blocks)
        cell_fault(books, i, "more blocks have an age than were freed");
}

static void check_cell(struct books *books, uint32_t i)
{
    const struct tide_cell *c = &books->view->cells[i];
    const __int128 live_bytes = live_of(c->inherited_bytes, c->alloc_bytes,
                                        c->moved_bytes, c->freed_bytes);
    const __int128 live_blocks = live_of(c->inherited_blocks, c->alloc_blocks,
                                         c->moved_blocks, c->freed_blocks);
    if (live_bytes < 0)
        cell_fault(books, i, "more bytes freed than made or taken over");
    else if (live_bytes < c->closed_bytes)
        cell_fault(books, i, "more bytes freed by lua_close than were live");
    if (live_blocks < 0)
        cell_fault(books, i, "more blocks freed than made or taken over");
    else if (live_blocks < c->closed_blocks)
        cell_fault(books, i, "more blocks freed by lua_close than were live");
    check_ages(books, i);
}

static void add_cell(const struct tide_p_view *view, uint32_t i,
                     struct sums *sums)
{
    const struct tide_cell *cell = &view->cells[i];
    sums->moved_bytes += cell->moved_bytes;
    sums->moved_blocks += cell->moved_blocks;
    sums->peak_bytes += tideP_cell_peak_bytes(view->head, cell);
    sums->held_bytes += tideP_cell_live_bytes(cell) - cell->closed_bytes;
}

static void check_sums(struct books *books, const struct sums *sums,
                       bool is_final)
{
    const struct tide_p_heap *head = books->view->head;
    if (sums->moved_bytes != 0)
        fault(books,
              "heap %" PRIu32 ": moved bytes do not cancel out: %" PRId64,
              books->heap, (int64_t)sums->moved_bytes);
    if (sums->moved_blocks != 0)
        fault(books,
              "heap %" PRIu32 ": moved blocks do not cancel out: %" PRId64,
              books->heap, (int64_t)sums->moved_blocks);
    if (is_final && sums->peak_bytes != head->peak_bytes)
        fault(books,
              "heap %" PRIu32 ": the cells held %" PRIu64
              " bytes at the peak, the heap %" PRIu64,
              books->heap, (uint64_t)sums->peak_bytes, head->peak_bytes);
    if (is_final && head->state == TIDE_P_HEAP_OPEN &&
        sums->held_bytes != head->settled_live_bytes)
        fault(books,
              "heap %" PRIu32 ": the cells hold %" PRIu64
              " bytes, the heap counted %" PRIu64,
              books->heap, (uint64_t)sums->held_bytes,
              head->settled_live_bytes);
    if (head->before_freed_bytes > head->before_bytes)
        fault(books,
              "heap %" PRIu32 ": %" PRIu64 " bytes from before the attach were "
              "freed, of %" PRIu64,
              books->heap, head->before_freed_bytes, head->before_bytes);
}

static void check_cycles(struct books *books)
{
    const struct tide_p_view *view = books->view;
    for (uint32_t i = 1; i < view->n_cycles; i++) {
        const struct tide_p_cycle *c = &view->cycles[i];
        if (c->n <= c[-1].n)
            fault(books,
                  "heap %" PRIu32 ", cycle %" PRIu32 ": number %" PRIu32
                  " comes after %" PRIu32,
                  books->heap, i, c->n, c[-1].n);
        if (c->atomic_mono_ns < c[-1].atomic_mono_ns)
            fault(books,
                  "heap %" PRIu32 ", cycle %" PRIu32 ": is older than the one "
                  "before it",
                  books->heap, i);
    }
    if (view->n_cycles > 0 &&
        view->cycles[view->n_cycles - 1].n > view->head->gc_cycle)
        fault(books, "heap %" PRIu32 ": cycle %" PRIu32 " of %" PRIu32 " seen",
              books->heap, view->cycles[view->n_cycles - 1].n,
              view->head->gc_cycle);
}

static void check_heap(struct books *books, bool is_final)
{
    const struct tide_p_view *view = books->view;
    const uint64_t n_before = books->n_faults;
    struct sums sums = {0, 0, 0, 0};
    for (uint32_t i = 1; i < view->n_cells; i++) {
        check_cell(books, i);
        add_cell(view, i, &sums);
    }
    /* Where cells are missing or wrong the sums cannot be right. */
    if (view->problem.err == TIDE_OK && books->n_faults == n_before) {
        check_sums(books, &sums, is_final);
        check_cycles(books);
    }
}

/* The profile's problem is often the first heap's: it is one fault. */
static void report_problem(struct books *books,
                           const struct tide_p_problem *problem,
                           const struct tide_p_problem *before_or_null)
{
    if (problem->err == TIDE_OK)
        return;
    if (before_or_null != NULL && problem->offset == before_or_null->offset &&
        strcmp(problem->text, before_or_null->text) == 0)
        return;
    fault(books, "byte %" PRIu64 ": %s", problem->offset, problem->text);
}

uint64_t tideP_check(const struct tide_profile *profile, bool exact,
                     tide_p_fault_fn report_or_null, void *ctx)
{
    struct books books = {.report_or_null = report_or_null, .ctx = ctx};
    const struct tide_p_header *header = tideP_reader_header(profile);
    const struct tide_p_problem *problem = tideP_reader_problem(profile);
    const bool is_whole = header->state == TIDE_P_CLOSED ||
                          (header->flags & TIDE_P_FLAG_SAVED) != 0;
    report_problem(&books, problem, NULL);
    for (uint32_t i = 0; i < tideP_reader_n_heaps(profile); i++) {
        books.heap = i;
        books.view = tideP_reader_heap(profile, i);
        report_problem(&books, &books.view->problem, problem);
        const bool is_closed = books.view->head->state == TIDE_P_HEAP_CLOSED;
        /* what was in use at the end may lack half of a call */
        if (exact && (!is_whole || tideP_view_is_settled(books.view)))
            check_heap(&books, is_whole || is_closed);
    }
    return books.n_faults;
}
