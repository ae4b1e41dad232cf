/*
** settle.c: brings the figures that repeat what the cells say up to date, at
** the end of a session and before a copy of it.
**
** They are made from what only the thread that runs the state may touch: its
** shadow stacks, its cycle, its counts.  Whoever ends the process need not be
** that thread, and the allocator is never made to wait.  So a heap is settled
** only when nothing can be going on in it: this thread is the only one, or all
** others sleep, and have not run before it was done.  None sleeps in the midst
** of counting.  A heap that is not settled is left alone and its head says so
** (see tide_p_heap.settled); its cells are right up to the call that was being
** made.
**
** Runs in handlers of exit: takes no memory and opens no stream.
*/
#include "session.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The other threads of the process at one moment. */
struct crowd {
    bool is_asleep; /* all of them; false when it cannot be told */
    uint64_t turns; /* changes when one has run, come or gone */
};

/* What SYS_getdents64 fills in; declared in no header. */
struct entry {
    uint64_t ino;
    int64_t next;
    uint16_t bytes; /* of this entry */
    uint8_t type;
    char name[];
};

size_t tideT_read_proc(const char *path, char *out, size_t out_bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    size_t n = 0;
    while (n < out_bytes) {
        const ssize_t got = read(fd, out + n, out_bytes - n);
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    close(fd);
    return n;
}

/* The number behind "NAME:" in a file of lines; 0: none. */
static uint64_t number_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

static void look_at_thread(struct crowd *crowd, const char *tid)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", tid);
    const size_t n = tideT_read_proc(path, text, sizeof text - 1);
    text[n] = '\0';
    const char *state = strstr(text, "\nState:\t");
    if (state == NULL || strchr("STtZXI", state[8]) == NULL)
        crowd->is_asleep = false;
    crowd->turns += strtoull(tid, NULL, 10) +
                    number_of(text, "\nvoluntary_ctxt_switches:") +
                    number_of(text, "\nnonvoluntary_ctxt_switches:");
}

static void look_at_entries(struct crowd *crowd, const char *entries,
                            size_t bytes)
{
    char own[24];
    snprintf(own, sizeof own, "%ld", (long)syscall(SYS_gettid));
    for (size_t at = 0; at < bytes;) {
        const struct entry *entry = (const void *)(entries + at);
        if (entry->name[0] != '.' && strcmp(entry->name, own) != 0)
            look_at_thread(crowd, entry->name);
        at += entry->bytes;
    }
}

static struct crowd look_around(void)
{
    _Alignas(struct entry) char entries[4096];
    struct crowd crowd = {true, 0};
    const int fd = open("/proc/self/task", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    long n = -1;
    while (fd >= 0 &&
           (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) > 0)
        look_at_entries(&crowd, entries, (size_t)n);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        crowd.is_asleep = false;
    return crowd;
}

void tideT_session_note_end(struct tide_session *s)
{
    struct rusage usage;
    struct tide_p_header *header = tideP_writer_header(s->writer);
    header->end_mono_ns = tideT_clock_ns(CLOCK_MONOTONIC);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        header->rss_peak_bytes = (uint64_t)usage.ru_maxrss * 1024u;
}

/* What the cells say now, to see later whether they have changed. */
static void note_sums(struct tide_heap *h)
{
    uint64_t alloc = 0;
    uint64_t freed = 0;
    for (uint32_t i = 1; i < h->n_cells; i++) {
        alloc += h->cells[i].alloc_bytes;
        freed +=
            h->cells[i].freed_bytes + h->rests[h->cells[i].rest].closed_bytes;
    }
    h->head->settled_alloc_bytes = alloc;
    h->head->settled_freed_bytes = freed;
    h->head->settled_live_bytes = h->live_bytes;
}

static void settle_heap(struct tide_heap *h)
{
    if (!h->peak_is_past)
        h->head->peak_bytes = h->peak_bytes;
    if (!h->is_closing && h->g != NULL) {
        tideT_gc_flush(h);
        tideT_calls_flush(h);
    }
    note_sums(h);
}

static void settle_heaps(struct tide_session *s)
{
    for (struct tide_heap *h = TIDE_OBSERVE(&s->heaps); h != NULL; h = h->next)
        settle_heap(h);
}

static void mark_heaps(struct tide_session *s, uint32_t settled)
{
    for (struct tide_heap *h = TIDE_OBSERVE(&s->heaps); h != NULL; h = h->next)
        TIDE_PUBLISH(&h->head->settled, settled);
}

void tideT_session_settle(struct tide_session *s)
{
    tideT_session_note_end(s);
    mark_heaps(s, 0);
    if (__libc_single_threaded) {
        settle_heaps(s);
        mark_heaps(s, 1);
        return;
    }
    const struct crowd before = look_around();
    if (!before.is_asleep)
        return;
    settle_heaps(s);
    const struct crowd after = look_around();
    if (after.is_asleep && after.turns == before.turns)
        mark_heaps(s, 1);
}
