/*
** mem.c: blocks of powers of two from mapped chunks.
**
** Small blocks are cut from 64 KiB chunks and kept on a free list per class;
** a block above 512 KiB is a mapping of its own.  Chunks go back to the
** system all together, when their owner closes.
*/
#include "mem.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "compiler.h"

#define CHUNK_BYTES ((size_t)64 * 1024)
#define HUGE_BYTES  ((size_t)8 << 20)
#define MIN_SHIFT   4

struct chunk {
    struct chunk *next;
    size_t bytes;
};

void *tideC_pages_alloc(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    if (bytes >= HUGE_BYTES)
        madvise(p, bytes, MADV_HUGEPAGE); /* fewer faults, where it is had */
    return p;
}

void tideC_pages_free(void *pages, size_t bytes)
{
    if (pages != NULL)
        munmap(pages, bytes);
}

static unsigned mem_class(size_t bytes)
{
    if (bytes <= ((size_t)1 << MIN_SHIFT))
        return 0;
    return 64u - (unsigned)__builtin_clzll(bytes - 1) - MIN_SHIFT;
}

static size_t class_bytes(unsigned class)
{
    return (size_t)1 << (class + MIN_SHIFT);
}

/* A mapping that is remembered, so that closing finds it. */
static void *map_chunk(struct tide_mem *mem, size_t bytes)
{
    struct chunk *c = tideC_pages_alloc(bytes);
    if (c == NULL)
        return NULL;
    c->next = mem->chunks;
    c->bytes = bytes;
    mem->chunks = c;
    mem->held_bytes += bytes;
    return c;
}

static void *cut_block(struct tide_mem *mem, size_t bytes)
{
    if (mem->bump_bytes < bytes) {
        const size_t head = 16;
        const size_t want =
            bytes + head > CHUNK_BYTES ? bytes + 4096 : CHUNK_BYTES;
        unsigned char *c = map_chunk(mem, want);
        if (c == NULL)
            return NULL;
        if (want - head - bytes < mem->bump_bytes)
            return c + head; /* keep the larger rest */
        mem->bump = c + head;
        mem->bump_bytes = want - head;
    }
    void *p = mem->bump;
    mem->bump += bytes;
    mem->bump_bytes -= bytes;
    return p;
}

void *tideC_mem_alloc(struct tide_mem *mem, size_t want_bytes)
{
    const unsigned class = mem_class(want_bytes);
    if (TIDE_UNLIKELY(class >= TIDE_MEM_CLASSES)) {
        mem->held_bytes += want_bytes;
        return tideC_pages_alloc(want_bytes);
    }
    void **p = mem->free[class];
    if (p == NULL)
        return cut_block(mem, class_bytes(class));
    mem->free[class] = *p;
    memset(p, 0, class_bytes(class));
    return p;
}

void tideC_mem_free(struct tide_mem *mem, void *block, size_t bytes)
{
    if (block == NULL)
        return;
    const unsigned class = mem_class(bytes);
    if (TIDE_UNLIKELY(class >= TIDE_MEM_CLASSES)) {
        mem->held_bytes -= bytes;
        tideC_pages_free(block, bytes);
        return;
    }
    *(void **)block = mem->free[class];
    mem->free[class] = block;
}

void *tideC_mem_grow(struct tide_mem *mem, void *block, size_t old_bytes,
                     size_t new_bytes)
{
    void *p = tideC_mem_alloc(mem, new_bytes);
    if (p != NULL && block != NULL) {
        memcpy(p, block, old_bytes);
        tideC_mem_free(mem, block, old_bytes);
    }
    return p;
}

void tideC_mem_close(struct tide_mem *mem)
{
    struct chunk *c = mem->chunks;
    while (c != NULL) {
        struct chunk *next = c->next;
        tideC_pages_free(c, c->bytes);
        c = next;
    }
    memset(mem, 0, sizeof *mem);
}
