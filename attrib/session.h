/*
** session.h: what session.c and heap.c share.
*/
#ifndef TIDE_SESSION_H
#define TIDE_SESSION_H

#include "attrib.h"

/* A lock that may be taken inside the allocator; held for moments only. */
void tideT_lock(int *lock);
void tideT_unlock(int *lock);

/* CLOCK_MONOTONIC or CLOCK_REALTIME, ns. */
uint64_t tideT_clock_ns(int which);

/*
** Brings the heads of all heaps, calls that are open and the last cycles up to
** date, where no other thread can be at work in them (settle.c).
*/
void tideT_session_settle(struct tide_session *s);

/* Reads a small file of /proc; the number of bytes, 0 on failure. */
size_t tideT_read_proc(const char *path, char *out, size_t out_bytes);

/* Recording on or off, as the session and tide_heap_detach have it. */
void tideT_heap_switch(struct tide_heap *h);

/* Counters of things past to zero; what lives is inherited. */
void tideT_heap_reset(struct tide_heap *h);

/* A cell has nothing but what it inherited. */
void tideT_inherit(struct tide_heap *h, struct tide_p_cell *cell,
                   uint64_t bytes, uint64_t blocks);

/* Frees a heap that is idle. */
void tideT_heap_free(struct tide_heap *h);

/* The list of sessions, for forks (fork.c). */
void tideT_sessions_add(struct tide_session *s);
void tideT_sessions_remove(struct tide_session *s);
struct tide_session *tideT_sessions(void); /* the first; any thread */
void tideT_fork_note_free(struct tide_heap *h);

/* In a forked child whose figures are right: a header and a file of its own. */
void tideT_session_move(struct tide_session *s);

/* One line on stderr: "tidemark: what: why". */
void tideT_say(const char *what, const char *why);

/* A pattern with %p and %n, for this process; false: it does not fit. */
bool tideT_session_expand(const char *pattern, char *path, size_t bytes);

/* Notes time and RSS in the header. */
void tideT_session_note_end(struct tide_session *s);

#endif
