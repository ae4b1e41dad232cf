/*
** arena.c: the cold half of the size-class arena.
**
** A range of addresses is reserved without access rights and opened a
** megabyte at a time.  Under RLIMIT_AS even a reservation counts, so it is
** halved until it fits and takes a quarter of the limit at most.  A page is cut
** a little at a time (about 4 KiB of slots), so that
** memory which is not used yet is not touched.
*/
#include "arena.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../common/assert.h"
#include "../common/mem.h"

#define RANGE_BYTES     ((size_t)1 << 36)
#define RANGE_BYTES_MIN ((size_t)1 << 22)
#define HUGE_BYTES      ((size_t)2 << 20)
#define HUGE_FROM       ((size_t)32 << 20) /* small heaps stay small */
#define CUT_BYTES       4096u
#define RUN_BYTES       256u /* first run in the mixed pages, then doubled */
#define RUNS_MAX        4u   /* ... so many times */
#define TRIM_PAGES_MIN  64u  /* 2 MiB: no trim before so much was taken */
#define KEEP_PAGES      32u  /* empty pages that keep their memory */

/* How much address space to ask for first. */
static size_t wanted_range(void)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_AS, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY)
        return RANGE_BYTES;
    size_t want = RANGE_BYTES;
    while (want > RANGE_BYTES_MIN && want > lim.rlim_cur / 4)
        want /= 2;
    return want;
}

static bool map_tables(struct tide_arena *arena, size_t n_pages)
{
    const size_t n_steps = TIDE_MIXED_BYTES / TIDE_MIXED_STEP;
    const size_t bytes = n_pages * (4 + 4 + 1) + n_steps;
    unsigned char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return false;
    arena->page_free = (uint32_t *)(void *)p;
    arena->empty = arena->page_free + n_pages;
    arena->mixed_class = p + n_pages * 8;
    arena->page_class = arena->mixed_class + n_steps;
    arena->map_bytes = bytes;
    return true;
}

/* A range without access rights at a multiple of HUGE_BYTES; NULL: none. */
static unsigned char *reserve_range(size_t bytes)
{
    unsigned char *p = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    const size_t before = (HUGE_BYTES - (size_t)p % HUGE_BYTES) % HUGE_BYTES;
    if (before > 0)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_BYTES - before);
    return p + before;
}

bool tideA_arena_open(struct tide_arena *arena)
{
    memset(arena, 0, sizeof *arena);
    arena->cut_max = SIZE_MAX;
    for (size_t want = wanted_range(); want >= RANGE_BYTES_MIN; want /= 2) {
        unsigned char *p = reserve_range(want);
        if (p == NULL)
            continue;
        if (!map_tables(arena, want >> TIDE_PAGE_SHIFT)) {
            munmap(p, want);
            continue;
        }
        arena->base = p;
        arena->range_bytes = want;
        arena->limit_bytes = want;
        return true;
    }
    return false;
}

void tideA_arena_close(struct tide_arena *arena)
{
    if (arena->base != NULL) {
        munmap(arena->base, arena->range_bytes);
        munmap(arena->page_free, arena->map_bytes);
    }
    memset(arena, 0, sizeof *arena);
}

static bool open_chunk(struct tide_arena *arena)
{
    /* base is a multiple of HUGE_BYTES, and so is HUGE_FROM */
    const bool is_huge = arena->open_bytes >= HUGE_FROM;
    const size_t bytes = is_huge ? HUGE_BYTES : TIDE_CHUNK_BYTES;
    if (arena->open_bytes + bytes > arena->limit_bytes)
        return false;
    if (mprotect(arena->base + arena->open_bytes, bytes,
                 PROT_READ | PROT_WRITE) != 0)
        return false;
    if (is_huge)
        madvise(arena->base + arena->open_bytes, bytes, MADV_HUGEPAGE);
    arena->open_bytes += bytes;
    return true;
}

/* Enough was taken since the last trim to look for empty pages again. */
static bool is_trim_due(const struct tide_arena *arena)
{
    const size_t total = arena->used_bytes >> TIDE_PAGE_SHIFT;
    return arena->pages_since_trim >= TRIM_PAGES_MIN &&
           arena->pages_since_trim >= total / 4;
}

static unsigned char *take_page(struct tide_arena *arena, size_t class)
{
    if (arena->n_empty == 0 && is_trim_due(arena))
        tideA_arena_trim(arena);
    size_t page;
    if (arena->n_empty > 0) {
        page = arena->empty[--arena->n_empty];
    } else {
        if (arena->used_bytes == arena->open_bytes && !open_chunk(arena))
            return NULL;
        page = arena->used_bytes >> TIDE_PAGE_SHIFT;
        arena->used_bytes += TIDE_PAGE_BYTES;
    }
    tide_assert(page < arena->used_bytes >> TIDE_PAGE_SHIFT);
    tide_assert(arena->used_bytes <= arena->open_bytes);
    tide_assert(arena->page_class[page] == 0);
    arena->pages_since_trim++;
    arena->page_class[page] = (uint8_t) class;
    return arena->base + (page << TIDE_PAGE_SHIFT);
}

static size_t round_to_step(size_t bytes)
{
    return (bytes + TIDE_MIXED_STEP - 1) / TIDE_MIXED_STEP * TIDE_MIXED_STEP;
}

/* The first pages of the range; false: the arena is in use already. */
static bool open_mixed(struct tide_arena *arena)
{
    if (arena->used_bytes > 0 || !open_chunk(arena))
        return false;
    arena->used_bytes = TIDE_MIXED_BYTES;
    memset(arena->page_class, TIDE_CLASS_MIXED,
           TIDE_MIXED_BYTES >> TIDE_PAGE_SHIFT);
    arena->mixed = arena->base;
    return true;
}

/*
** A run of so many bytes for a class that has no page yet; NULL: it is to get
** one.
*/
static unsigned char *cut_mixed(struct tide_arena *arena, size_t class,
                                size_t *room)
{
    if (arena->n_runs[class] == RUNS_MAX ||
        (arena->mixed == NULL && !open_mixed(arena)))
        return NULL;
    const size_t slot = tideA_slot_bytes(class);
    size_t bytes = RUN_BYTES << arena->n_runs[class];
    bytes = round_to_step(bytes > slot ? bytes / slot * slot : slot);
    const size_t at = (size_t)(arena->mixed - arena->base);
    /* under a limit, what cannot be given back must be little of it */
    if (bytes > TIDE_MIXED_BYTES - at || at > arena->cut_max / 16)
        return NULL;
    memset(arena->mixed_class + at / TIDE_MIXED_STEP, (int)class,
           bytes / TIDE_MIXED_STEP);
    arena->n_runs[class]++;
    arena->mixed += bytes;
    *room = bytes;
    return arena->base + at;
}

/* The rest of the class's page, or a new one; NULL: no memory. */
static unsigned char *cut_page(struct tide_arena *arena, size_t class,
                               size_t *room)
{
    const size_t slot = tideA_slot_bytes(class);
    if ((size_t)(arena->bump_end[class] - arena->bump[class]) < slot) {
        unsigned char *page = take_page(arena, class);
        if (page == NULL)
            return NULL;
        arena->bump[class] = page;
        arena->bump_end[class] = page + TIDE_PAGE_BYTES;
    }
    *room = (size_t)(arena->bump_end[class] - arena->bump[class]);
    if (*room > CUT_BYTES)
        *room = CUT_BYTES;
    return arena->bump[class];
}

/* Leads from each of n slots to the next; the last one ends the list. */
static void chain_slots(unsigned char *first, size_t n, size_t slot)
{
    unsigned char *p = first;
#if TIDE_CHECK >= 1
    memset(first, TIDE_POISON, n * slot);
#endif
    for (size_t i = 1; i < n; i++, p += slot)
        *(void **)(void *)p = p + slot;
    *(void **)(void *)p = NULL;
}

void *tideA_arena_refill(struct tide_arena *arena, size_t class)
{
    tide_assert(class > 0 && class < TIDE_CLASSES);
    tide_assert(arena->free[class] == NULL);
    const size_t slot = tideA_slot_bytes(class);
    if (arena->cut_bytes + class * 8 > arena->cut_max)
        return NULL;
    size_t room;
    unsigned char *first = NULL;
    if (arena->bump[class] == NULL)
        first = cut_mixed(arena, class, &room);
    const bool is_mixed = first != NULL;
    if (first == NULL)
        first = cut_page(arena, class, &room);
    if (first == NULL)
        return NULL;
    size_t n = room / slot;
    const size_t n_allowed = (arena->cut_max - arena->cut_bytes) / (class * 8);
    if (n > n_allowed)
        n = n_allowed;
    if (n == 0)
        n = 1;
    arena->cut_bytes += n * class * 8;
    chain_slots(first, n, slot);
    if (!is_mixed)
        arena->bump[class] = first + n * slot;
    arena->free[class] = *(void **)(void *)first;
    return first;
}

#if TIDE_CHECK >= 1
static unsigned char *payload(void *slot)
{
    return (unsigned char *)slot + sizeof(void *); /* behind the link */
}

void tideA_arena_poison(void *slot, size_t class)
{
    const size_t n = tideA_slot_bytes(class) - sizeof(void *);
    const unsigned char *p = payload(slot);
    size_t same = 0;
    while (same < n && p[same] == TIDE_POISON)
        same++;
    tide_assert(same < n); /* freed twice: its tag is never the pattern */
    memset(payload(slot), TIDE_POISON, n);
}

void tideA_arena_unpoison(void *slot, size_t class)
{
    const size_t n = tideA_slot_bytes(class) - sizeof(void *);
    const unsigned char *p = payload(slot);
    for (size_t i = 0; i < n; i++)
        tide_assert(p[i] == TIDE_POISON); /* written to after its free */
}
#endif

static size_t page_of(const struct tide_arena *arena, const void *slot)
{
    return (size_t)((const unsigned char *)slot - arena->base) >>
           TIDE_PAGE_SHIFT;
}

/* Slots of a page that were cut so far. */
static uint32_t cut_slots(const struct tide_arena *arena, size_t page)
{
    const size_t class = arena->page_class[page];
    tide_assert(class > 0 && class < TIDE_CLASSES);
    const unsigned char *start = arena->base + (page << TIDE_PAGE_SHIFT);
    const unsigned char *end = start + TIDE_PAGE_BYTES;
    if (arena->bump[class] > start && arena->bump[class] <= end)
        end = arena->bump[class];
    return (uint32_t)((size_t)(end - start) / tideA_slot_bytes(class));
}

static void count_free(struct tide_arena *arena)
{
    memset(arena->page_free, 0, (arena->used_bytes >> TIDE_PAGE_SHIFT) * 4);
    for (size_t class = 1; class < TIDE_CLASSES; class ++)
        for (void **p = arena->free[class]; p != NULL; p = *p)
            arena->page_free[page_of(arena, p)]++;
}

static bool is_empty(const struct tide_arena *arena, size_t page)
{
    const uint8_t class = arena->page_class[page];
    return class != 0 && class != TIDE_CLASS_MIXED &&
           arena->page_free[page] > 0 &&
           arena->page_free[page] == cut_slots(arena, page);
}

/* Takes the slots of empty pages out of one class's list. */
static void unlink_empty(struct tide_arena *arena, size_t class)
{
    void **keep = (void **)&arena->free[class];
    for (void **p = arena->free[class]; p != NULL; p = *p) {
        if (is_empty(arena, page_of(arena, p)))
            continue;
        *keep = p;
        keep = p;
    }
    *keep = NULL;
}

static void give_back(struct tide_arena *arena, size_t page)
{
    tide_assert(arena->page_free[page] == cut_slots(arena, page));
    tide_assert(arena->n_empty < arena->range_bytes >> TIDE_PAGE_SHIFT);
    const size_t class = arena->page_class[page];
    unsigned char *start = arena->base + (page << TIDE_PAGE_SHIFT);
    arena->cut_bytes -= cut_slots(arena, page) * class * 8;
    if (arena->bump[class] > start &&
        arena->bump[class] <= start + TIDE_PAGE_BYTES)
        arena->bump[class] = arena->bump_end[class] = NULL;
    arena->page_class[page] = 0;
    if (arena->n_empty >= KEEP_PAGES)
        madvise(start, TIDE_PAGE_BYTES, MADV_DONTNEED);
    arena->empty[arena->n_empty++] = (uint32_t)page;
}

size_t tideA_arena_trim(struct tide_arena *arena)
{
    tide_assert(arena->used_bytes <= arena->open_bytes);
    tide_assert(arena->open_bytes <= arena->range_bytes);
    const size_t n_pages = arena->used_bytes >> TIDE_PAGE_SHIFT;
    const size_t before = arena->n_empty;
    arena->pages_since_trim = 0;
    count_free(arena);
    for (size_t class = 1; class < TIDE_CLASSES; class ++)
        unlink_empty(arena, class);
    for (size_t page = 0; page < n_pages; page++)
        if (is_empty(arena, page))
            give_back(arena, page);
    return (arena->n_empty - before) << TIDE_PAGE_SHIFT;
}
