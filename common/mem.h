/*
** mem.h: the profiler's own memory.
**
** Neither Lua's heap nor malloc: the profiler runs inside an allocator, in a
** process it does not own, so it takes pages from the system and hands out
** blocks of powers of two.  A block's size is given back with it.  Not for
** several threads at once: one struct tide_mem per heap.
*/
#ifndef TIDE_MEM_H
#define TIDE_MEM_H

#include <stddef.h>

#define TIDE_MEM_CLASSES 16 /* 16 bytes ... 512 KiB; larger blocks are mapped */

struct tide_mem {
    void *free[TIDE_MEM_CLASSES]; /* lists of free blocks, by class */
    unsigned char *bump;          /* rest of the current chunk */
    size_t bump_bytes;
    void *chunks;      /* list of chunks, for tideC_mem_close */
    size_t held_bytes; /* taken from the system */
};

/* An empty one is all zero; this gives everything back to the system. */
void tideC_mem_close(struct tide_mem *mem);

/* A zeroed block, aligned to 16; NULL when there is no memory. */
void *tideC_mem_alloc(struct tide_mem *mem, size_t want_bytes);

/* bytes: as given to tideC_mem_alloc.  NULL is allowed. */
void tideC_mem_free(struct tide_mem *mem, void *block, size_t bytes);

/*
** A larger block with the old contents, the rest zero.  NULL when there is no
** memory; the old block is then untouched.
*/
void *tideC_mem_grow(struct tide_mem *mem, void *block, size_t old_bytes,
                     size_t new_bytes);

/* Whole zeroed pages; NULL when there are none.  Freed by tideC_pages_free. */
void *tideC_pages_alloc(size_t bytes);
void tideC_pages_free(void *pages, size_t bytes);

#endif
