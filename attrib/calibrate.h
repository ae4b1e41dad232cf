/*
** calibrate.h: how this Lua library calls its allocator.
**
** The allocator is not told which coroutine asks.  But the compiler keeps the
** lua_State alive across the call, in a callee-saved register or a stack slot
** that is fixed for a given return address; likewise the VM's `pc`, which some
** instructions do not save.  At start-up a throwaway state of the same library
** is driven through every kind of allocation, with the running thread known,
** and for each return address the words that held it every time are kept.
**
** Method: own.  A location counts only when at least two different threads
** agree on it; an address that was not seen is unknown, never guessed.
*/
#ifndef TIDE_CALIBRATE_H
#define TIDE_CALIBRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "layout54.h"
#include "luaapi.h"

#if defined(__x86_64__)
# define TIDE_WORD_RA 6u
#elif defined(__aarch64__)
# define TIDE_WORD_RA 11u
#endif

#define TIDE_RA_PLACES   256u /* places of the table of return addresses */
#define TIDE_NO_WORD     0xffffu
#define TIDE_NAMES_MAX   256u /* C functions whose names are known */
#define TIDE_NAME_BYTES  32u
#define TIDE_ENTRIES_MAX 16u /* places where Lua calls C functions */

/* What is known of one return address. */
struct tide_ra {
    uintptr_t address; /* 0: empty place */
    uint16_t l_word;   /* word that holds the lua_State */
    uint16_t pc_word;  /* word that holds pc in OP_NEWTABLE, or NO_WORD */
    int16_t pc_bias;   /* bytes to add: it is then as a saved pc */
    bool is_buffer;    /* called through lua_getallocf: Lua does not count it */
};

/* A C function of the standard library. */
struct tide_cname {
    uintptr_t address;
    char name[TIDE_NAME_BYTES]; /* "string.rep" */
};

struct tide_cal {
    struct tide_ra ras[TIDE_RA_PLACES]; /* by tideT_ra_place */
    uint64_t multiplier;                /* without collisions for these */
    struct tide_lua_api api;
    struct tide_layout layout;
    bool has_layout;  /* layout54 holds; else only public.c may be used */
    bool has_threads; /* the running thread is captured */
    bool has_pc;      /* lines of OP_NEWTABLE are captured */
    bool is_sniffed;  /* no function can be called: see sniff.c */
    enum tide_tier tier;
    char reason[256];         /* why not a better tier; or what was verified */
    char lua[32];             /* "Lua 5.4" */
    uintptr_t collectgarbage; /* that function's address; 0: not known */
    uint32_t n_ras;           /* return addresses known */
    uint32_t n_names;
    uint32_t n_entries;
    uintptr_t entries[TIDE_ENTRIES_MAX]; /* return addresses of these calls */
    struct tide_cname names[TIDE_NAMES_MAX];
};

TIDE_INLINE uint32_t tideT_ra_place(uint64_t multiplier, uintptr_t address)
{
    return (uint32_t)((address * multiplier) >> 56);
}

/*
** Calibrates.  cal->api must be filled.  Never fails: what could not be
** learned lowers cal->tier, and cal->reason says why.
*/
void tideT_calibrate(struct tide_cal *cal);

#endif
