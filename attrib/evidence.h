/*
** evidence.h: what the calibration has seen, by return address.
*/
#ifndef TIDE_EVIDENCE_H
#define TIDE_EVIDENCE_H

#include "calibrate.h"

#define TIDE_EV_L_WORDS  256u  /* words searched for the lua_State */
#define TIDE_EV_PC_WORDS 1536u /* words searched for pc */
#define TIDE_EV_RAS      128u  /* return addresses at most */
#define TIDE_EV_WORDS    64u   /* of these, candidates kept */
#define TIDE_EV_PC_BIAS  3     /* instructions that pc may be ahead or behind */

/* Evidence for one return address. */
struct tide_ev_ra {
    uintptr_t address;
    uint32_t n_events;  /* allocations with a known thread */
    uint32_t threads;   /* bit per thread that was seen */
    uint32_t n_pc;      /* table constructors with a known pc */
    uint32_t n_counted; /* the next event showed that Lua counted it */
    uint32_t n_uncounted;
    uint32_t failed; /* bit per thread whose first attempt was failed */
    uint32_t n_l;    /* words that held some thread every time */
    struct {
        uint16_t word;
        uint16_t agrees; /* times that it was the running one */
    } l[TIDE_EV_WORDS];
    uint32_t n_at; /* words that held pc every time */
    struct {
        uint16_t word;
        int16_t ahead; /* instructions that it was ahead of pc */
    } at[TIDE_EV_WORDS];
};

#define TIDE_EV_STATES 96u /* lua_States remembered */

struct tide_evidence {
    uint32_t n_states;
    uintptr_t states[TIDE_EV_STATES]; /* all that were made, a ring */
    uint32_t n;
    struct tide_ev_ra ras[TIDE_EV_RAS];
};

/* The entry for an address; NULL when there are too many. */
struct tide_ev_ra *tideT_ev_find(struct tide_evidence *ev, uintptr_t address);

/* A lua_State was made. */
void tideT_ev_state(struct tide_evidence *ev, const void *L);

/* An allocation while thread number `index` ran, whose state is L. */
void tideT_ev_thread(const struct tide_evidence *ev, struct tide_ev_ra *ra,
                     const uintptr_t *words, const void *L, unsigned index);

/* A table constructor whose pc (as saved: behind it) is known. */
void tideT_ev_pc(struct tide_ev_ra *ra, const uintptr_t *words,
                 const uint32_t *pc);

/*
** Fills cal->ras from the evidence.  Sets has_threads, has_pc and n_ras.
*/
void tideT_ev_choose(const struct tide_evidence *ev, struct tide_cal *cal);

#endif
