/*
** check.h: the oracle of builds with -Dcheck=full: a walk over all frames of
** all running threads, at every allocation, held against the shadow stacks.
** In other builds it is nothing.
*/
#ifndef TIDE_CHECK_H
#define TIDE_CHECK_H

#include "attrib.h"

#if TIDE_CHECK >= 2
/* Compares h->site with a full walk; says what differs, and counts. */
void tideT_check_place(struct tide_heap *h);
/* Compares the sums over all cells with Lua's own count. */
void tideT_check_books(struct tide_heap *h);
/* Ends the process with status 99 when anything differed. */
void tideT_check_end(void);
#else
# define tideT_check_place(h) ((void)(h))
# define tideT_check_books(h) ((void)(h))
# define tideT_check_end()    ((void)0)
#endif

#endif
