/*
** find_profile.h: the profile that a running process writes to.
**
** A profile is mapped by the process that fills it, so /proc/PID/maps names
** the file, wherever it lies and however often it was renamed.
*/
#ifndef TIDE_FIND_PROFILE_H
#define TIDE_FIND_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum find_result {
    FIND_FOUND = 0,
    FIND_NONE,       /* it maps no profile: not yet, or not any more */
    FIND_NO_PROCESS, /* there is no such process */
    FIND_DENIED,     /* its maps may not be read */
    FIND_DELETED,    /* it has one, whose file is gone */
};

/*
** Finds the profile of a process; the one that was begun last when it maps
** several, as after an exec.
** pid        a process, of this user or any that may be traced
** out        gets a path that can be opened here; untouched unless FOUND
** out_bytes  of `out`; a path that does not fit is as one that is not there
*/
enum find_result find_profile(pid_t pid, char *out, size_t out_bytes);

/* Text for a result but FOUND: "there is no such process". */
const char *find_result_text(enum find_result result);

/*
** Does the process map the open file?  False also when it cannot be told.
** fd  of a regular file
*/
bool find_is_mapped(pid_t pid, int fd);

/*
** Reads an argument: a number that is a process, or the name of a file.
** Returns the process; 0: it is not a number, or a file of that name is there
** and no such process.
*/
pid_t find_parse_pid(const char *text);

#endif
