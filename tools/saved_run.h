/*
** saved_run.h: runs that other tools have saved, read as if they were profiles.
*/
#ifndef TIDE_SAVED_RUN_H
#define TIDE_SAVED_RUN_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a file holds JSON, by how it begins: then it is no profile. */
bool saved_run_is_json(const char *path);

/*
** Makes a profile of a saved run of gcprof, a file of JSON:
**
**   [ [group, target, source, kb, calls, peak], ... ]
**
** source is "file:line" or anything else; kb is what the target allocated and
** peak what its worst call did, both in KiB; further values of a row are not
** looked at.
** out  gets the name of a file of its own, which the caller removes
** Returns an exit status, and has said why it is not 0.
*/
int saved_run_open(const char *path, char *out, size_t out_bytes);

#endif
