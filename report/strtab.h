/*
** strtab.h: strings of all heaps of a profile, each once and by a number, so
** that equal strings are equal numbers.
*/
#ifndef TIDE_STRTAB_H
#define TIDE_STRTAB_H

#include <stddef.h>
#include <stdint.h>

#include "../common/err.h"
#include "../common/hashtab.h"

struct tide_str {
    uint32_t offset; /* of its first byte in `bytes` */
    uint32_t length; /* without the NUL */
    uint32_t next;   /* one with the same hash; 0: none */
};

/* String 0 is "". */
struct tide_strtab {
    struct tide_str *strs;
    char *bytes; /* each string with a NUL */
    uint32_t n;
    uint32_t max;
    uint32_t n_bytes;
    uint32_t max_bytes;
    struct tide_mem mem;         /* holds `by_hash` */
    struct tide_hashtab by_hash; /* first string of that hash */
};

/* Errors: NOMEM; tideR_strtab_close is needed even then. */
enum tide_err tideR_strtab_open(struct tide_strtab *tab);

void tideR_strtab_close(struct tide_strtab *tab);

/* Errors: NOMEM (also beyond 4 GiB). */
enum tide_err tideR_strtab_put(struct tide_strtab *tab, const char *bytes,
                               size_t n, uint32_t *out);

/* NUL-terminated; valid until the next put. */
const char *tideR_strtab_text(const struct tide_strtab *tab, uint32_t string);

#endif
