/*
** test_check.c: books that balance, and each way in which they may not.
*/
#include <string.h>

#include "../../profile/reader.h"
#include "../tap.h"
#include "scratch.h"
#include "synthetic.h"

/* A profile under construction with a few cells to spoil. */
struct books {
    const char *path;
    struct tide_writer *writer;
    struct syn_heap heap;
    uint32_t cell; /* a cell with all counters in use */
};

/* What a check has said. */
struct said {
    unsigned n;
    char text[4][256];
};

static void listen(void *ctx, const char *text)
{
    struct said *said = ctx;
    if (said->n < 4)
        snprintf(said->text[said->n], sizeof said->text[0], "%s", text);
    said->n++;
}

static struct books *open_books(void)
{
    static struct books books;
    books.path = scratch_path("a.tide");
    CHECK_EQ(tideP_writer_open(books.path, &books.writer), TIDE_OK);
    syn_heap_open(books.writer, &books.heap);
    const uint32_t func =
        syn_func(&books.heap, TIDE_P_LUA, "@a.lua", "f", 1, 9);
    const uint32_t node = syn_node(&books.heap, 0, func, 3);
    books.cell = syn_cell(&books.heap, node, TIDE_KIND_TABLE);
    struct tide_p_cell *cell = syn_cell_at(&books.heap, books.cell);
    cell->alloc_bytes = 1000;
    cell->alloc_blocks = 10;
    cell->freed_bytes = 400;
    cell->freed_blocks = 4;
    *syn_life(&books.heap, books.cell) =
        (struct tide_p_life){.older_bytes = 100, .older_blocks = 1};
    return &books;
}

static struct tide_p_cell *the_cell(struct books *books)
{
    return syn_cell_at(&books->heap, books->cell);
}

static struct tide_p_rest *the_rest(struct books *books)
{
    return syn_rest(&books->heap, books->cell);
}

static struct tide_p_life *the_life(struct books *books)
{
    return syn_life(&books->heap, books->cell);
}

/* Closes the writer and checks what it has left. */
static struct said check(struct books *books, bool exact)
{
    struct said said = {0, {""}};
    struct tide_profile *profile;
    struct tide_p_problem problem;
    if (books->heap.head->peak_bytes == 0)
        syn_heap_settle(&books->heap);
    CHECK_EQ(tideP_writer_close(books->writer), TIDE_OK);
    CHECK_EQ(tideP_reader_open(books->path, &profile, &problem), TIDE_OK);
    const uint64_t n_faults = tideP_check(profile, exact, listen, &said);
    CHECK_EQ(n_faults, said.n);
    CHECK_EQ(tideP_check(profile, exact, NULL, NULL), n_faults);
    tideP_reader_close(profile);
    return said;
}

/* One fault, which is not looked for in a live profile. */
#define CHECK_FAULT(books, want)                                               \
 do {                                                                          \
  const struct said said_ = check((books), true);                              \
  CHECK_EQ(said_.n, 1);                                                        \
  CHECK_STR(said_.text[0], (want));                                            \
 } while (0)

TEST(check_books_that_balance)
{
    for (uint32_t seed = 0; seed < 20; seed++) {
        const struct syn_shape shape = {.seed = seed,
                                        .n_heaps = 1 + seed % 3,
                                        .n_nodes = 1 + seed * 37,
                                        .n_funcs = 1 + seed * 5,
                                        .n_cycles = seed,
                                        .is_left_running = seed % 4 == 3};
        const char *path = scratch_path("a.tide");
        struct tide_profile *profile;
        struct tide_p_problem problem;
        struct said said = {0, {""}};
        syn_write(path, &shape);
        CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
        tideP_check(profile, true, listen, &said);
        CHECK_STR(said.text[0], "");
        CHECK_EQ(said.n, 0);
        tideP_reader_close(profile);
    }
}

TEST(check_a_small_book_balances)
{
    struct books *books = open_books();
    syn_heap_close(&books->heap);
    CHECK_EQ(check(books, true).n, 0);
}

TEST(check_live_bytes_are_not_negative)
{
    struct books *books = open_books();
    the_cell(books)->alloc_bytes = 399;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes freed than "
                       "made or taken over");
}

TEST(check_live_blocks_are_not_negative)
{
    struct books *books = open_books();
    the_cell(books)->alloc_blocks = 3;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more blocks freed than "
                       "made or taken over");
}

TEST(check_what_was_inherited_counts)
{
    struct books *books = open_books();
    the_cell(books)->alloc_bytes = 0;
    the_rest(books)->inherited_bytes = 400;
    CHECK_EQ(check(books, true).n, 0);
    books = open_books();
    the_cell(books)->alloc_bytes = 0;
    the_rest(books)->inherited_bytes = 399;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes freed than "
                       "made or taken over");
}

TEST(check_huge_counters_do_not_wrap)
{
    struct books *books = open_books();
    the_cell(books)->freed_bytes = UINT64_MAX;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes freed than "
                       "made or taken over");
}

TEST(check_close_frees_no_more_than_is_live)
{
    struct books *books = open_books();
    the_rest(books)->closed_bytes = 601;
    the_rest(books)->closed_blocks = 6;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes freed by "
                       "lua_close than were live");
    books = open_books();
    the_rest(books)->closed_bytes = 600;
    the_rest(books)->closed_blocks = 7;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more blocks freed by "
                       "lua_close than were live");
}

TEST(check_ages_are_of_what_was_freed)
{
    struct books *books = open_books();
    *the_life(books) = (struct tide_p_life){.once_bytes = 150,
                                            .twice_bytes = 130,
                                            .older_bytes = 100,
                                            .ageless_bytes = 20};
    CHECK_EQ(check(books, true).n, 0);
    books = open_books();
    the_life(books)->once_bytes = 301;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes have an age "
                       "than were freed");
    books = open_books();
    the_life(books)->ageless_bytes = UINT64_MAX;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more bytes have an age "
                       "than were freed");
    books = open_books();
    the_life(books)->older_blocks = 5;
    CHECK_FAULT(books, "heap 0, cell 1 (node 1, table): more blocks have an "
                       "age than were freed");
}

TEST(check_what_moves_goes_somewhere)
{
    struct books *books = open_books();
    the_rest(books)->moved_bytes = -50;
    CHECK_FAULT(books, "heap 0: moved bytes do not cancel out: -50");
    books = open_books();
    the_rest(books)->moved_blocks = 2;
    CHECK_FAULT(books, "heap 0: moved blocks do not cancel out: 2");
    books = open_books();
    const uint32_t other = syn_cell(&books->heap, 0, TIDE_KIND_STRING);
    the_rest(books)->moved_bytes = -50;
    syn_rest(&books->heap, other)->moved_bytes = 50;
    CHECK_EQ(check(books, true).n, 0);
}

TEST(check_the_peak_is_the_sum_of_its_cells)
{
    struct books *books = open_books();
    syn_heap_close(&books->heap);
    books->heap.head->peak_bytes = 601;
    CHECK_FAULT(books, "heap 0: the cells held 600 bytes at the peak, the heap "
                       "601");
    books = open_books();
    books->heap.head->peak_is_past = 1;
    books->heap.head->peak_epoch = 2;
    the_cell(books)->peak_epoch = 2;
    the_rest(books)->peak_bytes = 800;
    books->heap.head->peak_bytes = 800;
    books->heap.head->state = TIDE_P_HEAP_CLOSED;
    CHECK_EQ(check(books, true).n, 0);
}

TEST(check_a_heap_that_is_open_counted_what_its_cells_hold)
{
    struct books *books = open_books();
    syn_heap_settle(&books->heap);
    books->heap.head->settled_live_bytes--;
    CHECK_FAULT(books,
                "heap 0: the cells hold 600 bytes, the heap counted 599");
    books = open_books();
    syn_heap_settle(&books->heap);
    books->heap.head->peak_bytes = 601;
    CHECK_FAULT(books, "heap 0: the cells held 600 bytes at the peak, the heap "
                       "601");
}

TEST(check_the_peak_of_a_heap_in_use_is_not_final)
{
    struct books *books = open_books();
    syn_heap_settle(&books->heap);
    books->heap.head->settled = 0;
    books->heap.head->peak_bytes = 601;
    CHECK_EQ(check(books, true).n, 0);
    books = open_books();
    syn_heap_settle(&books->heap);
    the_cell(books)->alloc_bytes++; /* it went on after that */
    CHECK_EQ(check(books, true).n, 0);
    books = open_books();
    syn_heap_settle(&books->heap);
    the_cell(books)->freed_bytes--;
    CHECK_EQ(check(books, true).n, 0);
}

TEST(check_the_peak_of_a_killed_process_is_not_final)
{
    struct books *books = open_books();
    const uint32_t state = TIDE_P_RUNNING;
    struct tide_profile *profile;
    struct tide_p_problem problem;
    books->heap.head->peak_bytes = 4711;
    CHECK_EQ(tideP_writer_close(books->writer), TIDE_OK);
    scratch_patch(books->path, offsetof(struct tide_p_header, state), &state,
                  4);
    CHECK_EQ(tideP_reader_open(books->path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    tideP_reader_close(profile);
}

TEST(check_bytes_from_before_the_attach)
{
    struct books *books = open_books();
    books->heap.head->before_bytes = 10;
    books->heap.head->before_freed_bytes = 11;
    syn_heap_close(&books->heap);
    CHECK_FAULT(books, "heap 0: 11 bytes from before the attach were freed, of "
                       "10");
}

TEST(check_cycles_are_in_order)
{
    struct tide_p_cycle cycle = {.n = 2, .atomic_mono_ns = 100};
    struct books *books = open_books();
    syn_heap_close(&books->heap);
    books->heap.head->gc_cycle = 9;
    syn_cycle(&books->heap, &cycle);
    cycle.atomic_mono_ns = 200;
    syn_cycle(&books->heap, &cycle);
    CHECK_FAULT(books, "heap 0, cycle 1: number 2 comes after 2");
    books = open_books();
    syn_heap_close(&books->heap);
    books->heap.head->gc_cycle = 9;
    syn_cycle(&books->heap, &cycle);
    cycle.n = 3;
    cycle.atomic_mono_ns = 199;
    syn_cycle(&books->heap, &cycle);
    CHECK_FAULT(books, "heap 0, cycle 1: is older than the one before it");
    books = open_books();
    syn_heap_close(&books->heap);
    books->heap.head->gc_cycle = 2;
    syn_cycle(&books->heap, &cycle);
    CHECK_FAULT(books, "heap 0: cycle 3 of 2 seen");
}

TEST(check_counters_of_a_live_profile_are_not_compared)
{
    struct books *books = open_books();
    the_cell(books)->alloc_bytes = 0;
    the_rest(books)->moved_bytes = 7;
    CHECK_EQ(check(books, false).n, 0);
}

TEST(check_problems_of_the_reader_are_faults)
{
    struct books *books = open_books();
    syn_func_at(&books->heap, 1)->name = 4;
    const struct said said = check(books, true);
    CHECK_EQ(said.n, 1);
    CHECK(strstr(said.text[0], "byte ") == said.text[0]);
    CHECK(strstr(said.text[0], ": heap 0, function 1: no such name") != NULL);
}

TEST(check_every_heap_is_looked_at)
{
    struct books *books = open_books();
    static struct syn_heap second;
    the_life(books)->older_bytes = 401;
    syn_heap_open(books->writer, &second);
    const uint32_t cell = syn_cell(&second, 0, TIDE_KIND_OTHER);
    syn_cell_at(&second, cell)->freed_blocks = 1;
    syn_heap_note(&second);
    syn_func_at(&second, 0)->name = 4;
    syn_func_at(&books->heap, 0)->name = 4;
    const struct said said = check(books, true);
    CHECK_EQ(said.n, 4);
    CHECK(strstr(said.text[0], "heap 0, function 0: no such name") != NULL);
    CHECK(strstr(said.text[1], "more bytes have an age") != NULL);
    CHECK(strstr(said.text[2], "heap 1, function 0: no such name") != NULL);
    CHECK_STR(said.text[3], "heap 1, cell 1 (node 0, other): more blocks freed "
                            "than made or taken over");
}
