/*
** merge.h: several profiles as one.
**
** The heaps of all stand in the new profile one behind the other, each with
** its own tree and counters, and every view of a profile adds heaps up: so
** nothing is lost, and a heap still says of which process it is.
*/
#ifndef TIDE_MERGE_H
#define TIDE_MERGE_H

#include "reader.h"

/*
** Writes a profile with the heaps of all of these.
** What could not be read of a damaged one is missing, and the whole is then not
** marked as finished.
** n     at least 1; 4096 heaps in all at most
** path  replaced if it exists, even by one that is read from
** Errors: IO (errno says why), NOMEM; ARG: too many heaps.
*/
enum tide_err tideP_merge(const struct tide_profile *const *profiles, size_t n,
                          const char *path);

#endif
