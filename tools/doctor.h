/*
** doctor.h: the parts of `tidemark doctor`.
**
**   cmd_doctor.c    options, the verdict, what is printed
**   doctor_file.c   what can be read from an executable or a library
**   doctor_find.c   which file a command runs: PATH, scripts, privileges
**   doctor_probe.c  what the preload library finds when it is there
**   doctor_env.c    who clears the environment, and what to write where
*/
#ifndef TIDE_DOCTOR_H
#define TIDE_DOCTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/compiler.h"
#include "../common/err.h"

#define DOCTOR_LUA_MAX 32u /* "Lua 5.4.4", "LuaJIT 2.1.0-beta3" */

/* An ELF file.  What does not hold is false, 0 or "". */
struct doctor_file {
    bool is_elf;
    bool is_64;                 /* of 64 bits */
    bool is_native;             /* of this processor */
    bool is_dynamic;            /* started through the dynamic linker */
    bool exports_newstate;      /* defines lua_newstate for others */
    char interpreter[PATH_MAX]; /* the dynamic linker */
    char lua[DOCTOR_LUA_MAX];   /* the Lua inside */
};

/*
** Reads a file.  Errors: IO (errno says why).  A file that is no ELF file, or a
** damaged one, is no error.
*/
enum tide_err doctor_file_read(const char *path, struct doctor_file *out);

/* True for "Lua 5.4.x". */
bool doctor_lua_is_54(const char *lua);

/* What a command runs in the end. */
struct doctor_program {
    char script[PATH_MAX]; /* the script that was named; "": none */
    char path[PATH_MAX];   /* the executable */
    bool has_privileges;   /* set-user-id, or capabilities: no preload */
    char why[192];         /* it cannot be run: fault first; "": it can */
};

/*
** Finds it: PATH, `#!` lines, `env NAME`; a file that ends in ".lua" is run by
** lua5.4.  False: there is no such file, or it may not be run; out->why says
** it.
*/
bool doctor_find(const char *command, struct doctor_program *out);

/* The Lua among the libraries of a program. */
struct doctor_library {
    char path[PATH_MAX];      /* "": none */
    char lua[DOCTOR_LUA_MAX]; /* which it is */
};

/* Asks the dynamic linker which libraries the program is started with. */
void doctor_libraries(const struct doctor_program *program,
                      const struct doctor_file *file,
                      struct doctor_library *out);

enum doctor_probe_kind {
    DOCTOR_PROBE_START, /* ended before main: nothing of the program is run */
    DOCTOR_PROBE_RUN,   /* run until a state is seen, or the time is over */
    DOCTOR_PROBE_SNIFF, /* the same with sniff=on */
};

/* What the preload library wrote. */
struct doctor_probe {
    bool was_started; /* the program could be started at all */
    bool is_seen;     /* there is a profile */
    uint32_t tier;    /* enum tide_tier; of a profile */
    char reason[256]; /* why this tier */
    char route[64];   /* how it got in */
    char lua[DOCTOR_LUA_MAX];
    char program[256]; /* executable of the process that made it */
    char message[192]; /* what the library said; "": nothing */
};

#define DOCTOR_HINTS_MAX  6u
#define DOCTOR_HINT_BYTES (PATH_MAX + 512u)

/* What to change around a program, for the profiler to reach it. */
struct doctor_hints {
    unsigned n;
    char text[DOCTOR_HINTS_MAX][DOCTOR_HINT_BYTES];
};

/*
** Finds them: programs that clear the environment, and the systemd unit that
** starts this one.
** command  as it was given: "sudo".
** library  the preload library's path.
*/
void doctor_environment(const char *command,
                        const struct doctor_program *program,
                        const char *library, struct doctor_hints *hints);

#define DOCTOR_RUN_SECONDS 5

/*
** Starts a command under the preload library, with no input and its output
** dropped.
** argv  NULL at the end; argv[0] is a path.
** Errors: STATE: the library was not found, which has been complained of; IO:
** no temporary file could be made, errno says why.
*/
enum tide_err doctor_probe(char *const argv[], enum doctor_probe_kind kind,
                           struct doctor_probe *out);

#endif
