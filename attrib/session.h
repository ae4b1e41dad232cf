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

/* Brings a heap's head, open calls and last cycle up to date. */
void tideT_heap_flush(struct tide_heap *h);

/* Recording on or off, as the session and tide_heap_detach have it. */
void tideT_heap_switch(struct tide_heap *h);

/* Counters of things past to zero; what lives is inherited. */
void tideT_heap_reset(struct tide_heap *h);

/* Frees a heap that is idle. */
void tideT_heap_free(struct tide_heap *h);

/* The list of sessions, for forks (fork.c). */
void tideT_sessions_add(struct tide_session *s);
void tideT_sessions_remove(struct tide_session *s);
void tideT_fork_note_free(struct tide_heap *h);

/* In a forked child whose figures are right: a header and a file of its own. */
void tideT_session_move(struct tide_session *s);

/* Notes time and RSS in the header. */
void tideT_session_note_end(struct tide_session *s);

#endif
