/*
** import.h: a profile made of another tool's rows: functions with what they
** allocated, without stacks.
*/
#ifndef TIDE_IMPORT_H
#define TIDE_IMPORT_H

#include <stddef.h>
#include <stdint.h>

#include "../common/err.h"

/* A function of the other tool.  Texts may be "", none is NULL. */
struct tide_p_row {
    const char *group;  /* of which it is a target */
    const char *name;   /* the target */
    const char *source; /* file; no @ or = in front */
    uint32_t line;      /* where it is defined; 0: not known */
    uint64_t alloc_bytes;
    uint64_t calls;
    uint64_t max_call_bytes; /* of the worst call */
};

/*
** Writes a profile with these rows.  Nothing is known of what they hold: all
** is taken for freed.  Texts that are too long are cut.
** told  what the profile says of itself, as a command: the file it came from
** tool  whose rows they are
** path  replaced if it exists
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideP_import(const struct tide_p_row *rows, size_t n,
                           const char *told, const char *tool,
                           const char *path);

#endif
