/*
** evidence.c: keeps what held every time, and chooses.
**
** Elimination: the first event of a return address proposes every word that
** matches, each later one strikes out what does not.  A word must have held a
** lua_State every time, and the running one nearly every time: now and then
** the library works for another thread, such as one that is being closed.
** What is left after events from at least two threads is a location.  Of
** several, the nearest to the entry is taken: the caller's own frame comes
** before its callers'.
*/
#include "evidence.h"

#include <string.h>

struct tide_ev_ra *tideT_ev_find(struct tide_evidence *ev, uintptr_t address)
{
    for (uint32_t i = 0; i < ev->n; i++)
        if (ev->ras[i].address == address)
            return &ev->ras[i];
    if (ev->n == TIDE_EV_RAS)
        return NULL;
    struct tide_ev_ra *ra = &ev->ras[ev->n++];
    memset(ra, 0, sizeof *ra);
    ra->address = address;
    return ra;
}

void tideT_ev_state(struct tide_evidence *ev, const void *L)
{
    ev->states[ev->n_states++ % TIDE_EV_STATES] = (uintptr_t)L;
}

static bool is_state(const struct tide_evidence *ev, uintptr_t word)
{
    for (uint32_t i = 0; i < TIDE_EV_STATES; i++)
        if (ev->states[i] == word)
            return word != 0;
    return false;
}

TIDE_NO_SANITIZE static void propose_l(struct tide_ev_ra *ra,
                                       const uintptr_t *words, uintptr_t want)
{
    for (uint32_t w = 0; w < TIDE_EV_L_WORDS; w++) {
        if (words[w] != want || w == TIDE_WORD_RA || ra->n_l == TIDE_EV_WORDS)
            continue;
        ra->l[ra->n_l].word = (uint16_t)w;
        ra->l[ra->n_l++].agrees = 0;
    }
}

TIDE_NO_SANITIZE void tideT_ev_thread(const struct tide_evidence *ev,
                                      struct tide_ev_ra *ra,
                                      const uintptr_t *words, const void *L,
                                      unsigned index)
{
    const uintptr_t want = (uintptr_t)L;
    if (ra->n_events++ == 0)
        propose_l(ra, words, want);
    ra->threads |= 1u << index;
    uint32_t n = 0;
    for (uint32_t i = 0; i < ra->n_l; i++) {
        const uintptr_t word = words[ra->l[i].word];
        if (word == want)
            ra->l[i].agrees++;
        else if (!is_state(ev, word))
            continue;
        ra->l[n++] = ra->l[i];
    }
    ra->n_l = n;
}

TIDE_NO_SANITIZE static void
propose_pc(struct tide_ev_ra *ra, const uintptr_t *words, const uint32_t *pc)
{
    for (uint32_t w = 0; w < TIDE_EV_PC_WORDS; w++) {
        const intptr_t ahead = (intptr_t)(words[w] - (uintptr_t)pc) / 4;
        if (words[w] != (uintptr_t)(pc + ahead) || ahead > TIDE_EV_PC_BIAS ||
            ahead < -TIDE_EV_PC_BIAS || ra->n_at == TIDE_EV_WORDS)
            continue;
        ra->at[ra->n_at].word = (uint16_t)w;
        ra->at[ra->n_at++].ahead = (int16_t)ahead;
    }
}

TIDE_NO_SANITIZE void tideT_ev_pc(struct tide_ev_ra *ra, const uintptr_t *words,
                                  const uint32_t *pc)
{
    if (ra->n_pc++ == 0)
        propose_pc(ra, words, pc);
    uint32_t n = 0;
    for (uint32_t i = 0; i < ra->n_at; i++)
        if (words[ra->at[i].word] == (uintptr_t)(pc + ra->at[i].ahead))
            ra->at[n++] = ra->at[i];
    ra->n_at = n;
}

static bool choose_l(const struct tide_ev_ra *ra, struct tide_ra *out)
{
    if ((ra->threads & (ra->threads - 1)) == 0) /* fewer than two threads */
        return false;
    uint32_t best = 0; /* agreements, of which nearly all are needed */
    for (uint32_t i = 0; i < ra->n_l; i++) {
        const uint32_t agrees = ra->l[i].agrees;
        if (agrees <= best || agrees * 16u < ra->n_events * 15u)
            continue;
        best = agrees;
        out->l_word = ra->l[i].word;
    }
    return best > 0;
}

static void choose_pc(const struct tide_ev_ra *ra, struct tide_ra *out)
{
    out->pc_word = TIDE_NO_WORD;
    if (ra->n_pc < 4 || ra->n_at == 0)
        return;
    out->pc_word = ra->at[0].word;
    out->pc_bias = (int16_t)(-ra->at[0].ahead * 4);
}

/* A multiplier under which no two addresses share a place; 0: none found. */
static uint64_t find_multiplier(const struct tide_ra *list, uint32_t n)
{
    uint64_t m = UINT64_C(0x9e3779b97f4a7c15);
    for (int tries = 0; tries < 4096; tries++) {
        uint64_t used[TIDE_RA_PLACES / 64] = {0};
        uint32_t i;
        for (i = 0; i < n; i++) {
            const uint32_t p = tideT_ra_place(m, list[i].address);
            if (used[p / 64] >> (p % 64) & 1)
                break;
            used[p / 64] |= UINT64_C(1) << (p % 64);
        }
        if (i == n)
            return m;
        m = m * UINT64_C(6364136223846793005) + 1442695040888963407u;
        m |= 1;
    }
    return 0;
}

void tideT_ev_choose(const struct tide_evidence *ev, struct tide_cal *cal)
{
    struct tide_ra list[TIDE_EV_RAS];
    uint32_t n = 0;
    bool any_pc = false;
    bool all_pc = true;
    for (uint32_t i = 0; i < ev->n; i++) {
        const struct tide_ev_ra *ra = &ev->ras[i];
        struct tide_ra *out = &list[n];
        memset(out, 0, sizeof *out);
        out->address = ra->address;
        if (!choose_l(ra, out))
            continue;
        out->is_buffer = ra->n_uncounted > ra->n_counted;
        choose_pc(ra, out);
        if (ra->n_pc > 0) {
            any_pc = true;
            all_pc = all_pc && out->pc_word != TIDE_NO_WORD;
        }
        n++;
    }
    while (n > 0 && (cal->multiplier = find_multiplier(list, n)) == 0)
        n--; /* too many for the table: the last one stays unknown */
    for (uint32_t i = 0; i < n; i++)
        cal->ras[tideT_ra_place(cal->multiplier, list[i].address)] = list[i];
    cal->n_ras = n;
    cal->has_threads = n > 0;
    cal->has_pc = any_pc && all_pc;
}
