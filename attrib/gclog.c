/*
** gclog.c: a line on the heap and its collector every so often: the option
** `log`.
**
** It is written at moments that are slow anyhow: at a collection, at a call of
** lua_gc, where a large block is made, at the state's end.  No thread, no
** timer: a program that does none of these writes nothing.  A line is one
** write; where it would have to wait, or raise a signal, there is none.
*/
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "../include/tidemark.h"
#include "session.h"

#define LINE_BYTES 512u
#define SECOND_NS  UINT64_C(1000000000)

void tideT_log_open(struct tide_heap *h)
{
    const struct tide_options *options = &h->session->options;
    h->log = (struct tide_gclog){.every_ns = options->log * SECOND_NS};
    if (h->log.every_ns != 0)
        h->log.next_ns = tideT_clock_ns(CLOCK_MONOTONIC) + h->log.every_ns;
}

/* ---- the line ---- */

static uint64_t whole_kib(double kb)
{
    return kb > 0 ? (uint64_t)(kb + 0.5) : 0;
}

/* Which thresholds are passed, as text; "": none. */
static void put_warning(const struct tide_options *options,
                        const struct tide_gc_stats *stats, char *out,
                        size_t bytes)
{
    const bool is_fast =
        options->warn_rate != 0 &&
        stats->AllocKbPerSec * 1024 > (double)options->warn_rate;
    const bool is_large = options->warn_heap != 0 &&
                          stats->HeapKb * 1024 > (double)options->warn_heap;
    snprintf(out, bytes, "%s%s%s%s", is_fast || is_large ? "; high: " : "",
             is_fast ? "allocates more than warn_rate" : "",
             is_fast && is_large ? ", " : "",
             is_large ? "holds more than warn_heap" : "");
}

static int put_line(struct tide_heap *h, uint64_t now, char *out, size_t bytes)
{
    struct tide_gc_stats stats;
    char warning[80];
    tide_gc_stats(h, &stats);
    put_warning(&h->session->options, &stats, warning, sizeof warning);
    const uint64_t tenths = (now - h->head->open_mono_ns) / (SECOND_NS / 10);
    const uint64_t per_min = (uint64_t)(stats.CyclesPerMin * 10 + 0.5);
    return snprintf(
        out, bytes,
        "tidemark: gc %ld: %" PRIu64 ".%" PRIu64 " s, heap %" PRIu64
        " KiB, peak %" PRIu64 " KiB, floor %" PRIu64 " KiB, allocates %" PRIu64
        " KiB/s, cycles %" PRIu64 ", %" PRIu64 ".%" PRIu64
        " a minute, last freed %" PRIu64 " KiB, RSS %" PRIu64 " KiB%s\n",
        (long)getpid(), tenths / 10, tenths % 10, whole_kib(stats.HeapKb),
        whole_kib(stats.PeakHeapKb), h->gc.floor_bytes / 1024,
        whole_kib(stats.AllocKbPerSec), stats.Cycles, per_min / 10,
        per_min % 10, whole_kib(stats.LastReclaimKb), tideT_rss_bytes() / 1024,
        warning);
}

/* ---- where it goes ---- */

/* The file that was asked for, or standard error; -1: neither. */
static int open_log(const struct tide_session *s)
{
    char path[TIDE_OPT_PATH_MAX + 64];
    if (s->options.log_file[0] == '\0')
        return STDERR_FILENO;
    if (!tideT_session_expand(s->options.log_file, path, sizeof path))
        return -1;
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY,
                0666);
}

static bool is_pipe_pending(void)
{
    sigset_t set;
    return sigpending(&set) == 0 && sigismember(&set, SIGPIPE) == 1;
}

/* All or nothing; a broken pipe raises no signal. */
static void write_quietly(int fd, const char *text, size_t bytes)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    const struct timespec no_time = {0, 0};
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    const bool was_pending = is_pipe_pending();
    if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0 &&
        write(fd, text, bytes) < 0 && errno == EPIPE && !was_pending)
        sigtimedwait(&set, NULL, &no_time);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tideT_log_write(struct tide_heap *h, uint64_t now)
{
    char line[LINE_BYTES];
    const int old_errno = errno;
    int old_cancel;
    h->log.next_ns = now + h->log.every_ns;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old_cancel);
    const int n = put_line(h, now, line, sizeof line);
    const int fd = open_log(h->session);
    if (fd >= 0 && n > 0 && (size_t)n < sizeof line)
        write_quietly(fd, line, (size_t)n);
    if (fd > STDERR_FILENO)
        close(fd);
    pthread_setcancelstate(old_cancel, NULL);
    errno = old_errno;
}

void tideT_log_look(struct tide_heap *h)
{
    if (!h->is_closing && h->g != NULL)
        tideT_log_when_due(h, tideT_clock_ns(CLOCK_MONOTONIC));
}
