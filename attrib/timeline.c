/*
** timeline.c: points of a heap's timeline, kept in its profile.
**
** A point is added at a moment that is slow anyhow, when one is due; where the
** heap stood higher since the last one, that moment is a point as well.  There
** are so many at most; then the lower of each two goes, and they become rarer.
** The first point, the last and the highest stay.
*/
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "session.h"

#define MOMENTS_MAX     1024u
#define FIRST_MOMENT_NS 1000000u   /* between two points, at first */
#define RSS_EVERY_NS    100000000u /* reading it takes system calls */

/* "total resident ...", in pages; 0: it cannot be read. */
static ssize_t read_statm(char *text, size_t bytes)
{
    const int old_errno = errno;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, bytes);
    if (fd >= 0)
        close(fd);
    errno = old_errno;
    return n;
}

uint64_t tideT_rss_bytes(void)
{
    char text[64];
    const ssize_t n = read_statm(text, sizeof text);
    uint64_t pages = 0;
    ssize_t i = 0;
    while (i < n && text[i] != ' ')
        i++;
    for (i++; i < n && text[i] >= '0' && text[i] <= '9'; i++)
        pages = pages * 10 + (uint64_t)(text[i] - '0');
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t rss_when_due(struct tide_gcwatch *w, uint64_t now)
{
    if (now < w->next_rss_ns)
        return 0;
    w->next_rss_ns = now + RSS_EVERY_NS;
    return tideT_rss_bytes();
}

/* Of two neighbours the one where the heap stood higher. */
static struct tide_p_moment higher_of(const struct tide_p_moment *a,
                                      const struct tide_p_moment *b)
{
    struct tide_p_moment kept = a->live_bytes >= b->live_bytes ? *a : *b;
    if (a->rss_bytes > kept.rss_bytes)
        kept.rss_bytes = a->rss_bytes;
    if (b->rss_bytes > kept.rss_bytes)
        kept.rss_bytes = b->rss_bytes;
    return kept;
}

/* One of each two; the first and the last stay. */
static void thin_moments(struct tide_heap *h)
{
    struct tide_p_moment *m = (void *)h->sections[TIDE_P_MOMENTS].base;
    const uint32_t n_all = h->head->n_moments;
    uint32_t n = 1;
    uint32_t i = 1;
    for (; i + 2 < n_all; i += 2)
        m[n++] = higher_of(&m[i], &m[i + 1]);
    for (; i < n_all; i++)
        m[n++] = m[i];
    TIDE_PUBLISH(&h->head->n_moments, n);
    h->gc.moment_every_ns *= 2;
}

static struct tide_p_moment moment_now(const struct tide_heap *h, uint64_t now)
{
    return (struct tide_p_moment){
        .mono_ns = now,
        .live_bytes = h->live_bytes,
        .alloc_bytes = h->alloc_bytes - h->gc.alloc_base,
        .floor_bytes = h->gc.floor_bytes,
        .cycle = h->head->gc_cycle,
    };
}

static void put_moment(struct tide_heap *h, const struct tide_p_moment *moment)
{
    struct tide_section *s = &h->sections[TIDE_P_MOMENTS];
    if (h->head->n_moments >= MOMENTS_MAX)
        thin_moments(h);
    const uint32_t n = h->head->n_moments;
    if (tideP_section_reserve(h->writer, s, (n + 1) * sizeof *moment) !=
        TIDE_OK)
        return;
    struct tide_p_moment *m = (void *)s->base;
    if (n > 0 && m[n - 1].mono_ns >= moment->mono_ns)
        return; /* the clock has not moved */
    m[n] = *moment;
    TIDE_PUBLISH(&h->head->n_moments, n + 1);
}

/* The heap stood higher than at both points beside it. */
static bool is_high(const struct tide_heap *h, const struct tide_p_moment *now)
{
    const struct tide_p_moment *m = (void *)h->sections[TIDE_P_MOMENTS].base;
    const uint32_t n = h->head->n_moments;
    const uint64_t high = h->gc.high.live_bytes;
    return h->gc.high.mono_ns < now->mono_ns && high > now->live_bytes &&
           (n == 0 || high > m[n - 1].live_bytes);
}

static void add_moment(struct tide_heap *h, uint64_t now)
{
    struct tide_p_moment moment = moment_now(h, now);
    moment.rss_bytes = rss_when_due(&h->gc, now);
    if (is_high(h, &moment))
        put_moment(h, &h->gc.high);
    put_moment(h, &moment);
    h->gc.high = (struct tide_p_moment){.live_bytes = 0};
    h->gc.next_moment_ns = now + h->gc.moment_every_ns;
}

void tideT_gc_moment(struct tide_heap *h, uint64_t now)
{
    if (h->gc.moment_every_ns == 0)
        h->gc.moment_every_ns = FIRST_MOMENT_NS;
    if (now >= h->gc.next_moment_ns)
        add_moment(h, now);
    else if (h->live_bytes > h->gc.high.live_bytes)
        h->gc.high = moment_now(h, now);
}

void tideT_gc_last_moment(struct tide_heap *h, uint64_t now)
{
    if (h->gc.moment_every_ns == 0)
        h->gc.moment_every_ns = FIRST_MOMENT_NS;
    add_moment(h, now);
}
