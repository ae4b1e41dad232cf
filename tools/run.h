/*
** run.h: the parts of `tidemark run`.
**
**   cmd_run.c   options, the environment of the program, the end
**   run_child.c starts the program, hands signals on, waits for its end
**   run_find.c  which profiles the run has made
*/
#ifndef TIDE_RUN_H
#define TIDE_RUN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/options.h"

/* What the program gets in its environment. */
struct run_env {
    const char *preload; /* LD_PRELOAD */
    const char *options; /* TIDEMARK */
};

/* The library beside this executable.  False: it has been complained of. */
bool run_library(char library[PATH_MAX]);

/*
** LD_PRELOAD for a program that is to be profiled: the library beside this
** executable, then what is there already.  False: it has been complained of.
*/
bool run_preload(char *out, size_t out_bytes);

/* How the program ended. */
struct run_end {
    pid_t pid;       /* 0: it was never started */
    int exec_errno;  /* why it could not be run; 0: it ran */
    int exit_status; /* of `tidemark run`: as a shell says it */
    int signal;      /* that killed it; 0: none */
};

/*
** Runs a program to its end.  stdin, stdout, stderr are handed on untouched;
** signals that are sent to this process go to the program, those of the
** terminal reach it by themselves; when it is stopped, this process stops.
** argv  NULL at the end; argv[0] is looked for in PATH.
** Returns false when no process could be made, errno says why.
*/
bool run_child(char **argv, const struct run_env *env, struct run_end *end);

/* Where the profiles of a run go. */
struct run_place {
    char pattern[TIDE_OPT_PATH_MAX]; /* for `out`: absolute, has %p */
    char wanted[TIDE_OPT_PATH_MAX];  /* name the program's own profile gets at
                                        the end; "": as the pattern says */
};

/*
** out      as asked for: a pattern; NULL: NAME.%p.tide with the program's name.
** Errors: ARG (%-letters), NOMEM (too long), IO (no current directory).
*/
enum tide_err run_place(const char *out_or_null, const char *program,
                        struct run_place *place);

/* A profile that a run has made. */
struct run_profile {
    char *path;
    pid_t pid;
    pid_t parent_pid;     /* process it was forked from; 0: none */
    uint64_t n_states;    /* lua_States that were seen */
    uint64_t alloc_bytes; /* over all of them */
    bool is_open;         /* its process goes on */
};

struct run_profiles {
    struct run_profile *list; /* the program's own first, then by bytes */
    size_t n;
};

/*
** Finds the profiles that were begun after `start_unix_ns`.  Those of processes
** that ended without a lua_State are removed; the one of the program itself
** gets its wanted name.  What cannot be read is left alone.  Of those of the
** same name in the folder for temporary files, where processes write that have
** no right to the wanted one, only what is of the program itself or was forked
** from a process of the run counts.
*/
void run_find(const struct run_place *place, pid_t pid, uint64_t start_unix_ns,
              struct run_profiles *out);

void run_profiles_close(struct run_profiles *profiles);

#endif
