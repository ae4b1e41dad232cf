/*
** srctext.h: the text of source lines, where the files are at hand.
*/
#ifndef TIDE_SRCTEXT_H
#define TIDE_SRCTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tide_srctext;

/*
** beside_or_null  a file: sources named by relative paths are looked for in
**                 its directory too, after the current one.
** started_unix_ns when the profiled run started: a file that is younger is
**                 noted, since its lines may have moved.
** NULL: no memory.  Freed by tideR_srctext_close.
*/
struct tide_srctext *tideR_srctext_open(const char *beside_or_null,
                                        uint64_t started_unix_ns);

void tideR_srctext_close(struct tide_srctext *texts_or_null);

/*
** A line of a source, without blanks around it and without its end; NULL when
** the file or the line is not there.  Any bytes; not NUL-terminated; valid
** until the close.
** line  from 1.
*/
const char *tideR_srctext_line(struct tide_srctext *texts, const char *source,
                               uint32_t line, size_t *bytes);

/*
** The whole text of a source; NULL when it is not there, or younger than the
** run, so that it may not be what ran.  Not NUL-terminated; valid until the
** close.
*/
const char *tideR_srctext_whole(struct tide_srctext *texts, const char *source,
                                size_t *bytes);

/* The same for a file that may be younger. */
const char *tideR_srctext_any(struct tide_srctext *texts, const char *source,
                              size_t *bytes);

/* Whether a file that was read is younger than the run. */
bool tideR_srctext_has_younger(const struct tide_srctext *texts);

#endif
