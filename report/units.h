/*
** units.h: bytes, counts, shares and durations, to text and back.
**
** Texts are short enough for a table: "12.3 MiB" has at most 8 characters,
** counts at most 9.  KiB, MiB, GiB, TiB are powers of 1024.
*/
#ifndef TIDE_UNITS_H
#define TIDE_UNITS_H

#include <stdint.h>

#include "../common/err.h"

#define TIDE_R_UNIT_MAX 32 /* room for any text made here */

/* Each fills `out` and returns it. */

/* "512 B", "1.23 KiB", "12.3 MiB", "123 GiB"; three digits. */
const char *tideR_bytes_text(int64_t bytes, char out[TIDE_R_UNIT_MAX]);

/* "1,234,567"; from ten million on "12.3 M", "1.23 G". */
const char *tideR_count_text(int64_t n, char out[TIDE_R_UNIT_MAX]);

/* "1,234,567 B": every digit. */
const char *tideR_digits_text(int64_t n, char out[TIDE_R_UNIT_MAX]);

/* "12.3%"; "-" when whole is 0; "<0.1%" for what would round to nothing. */
const char *tideR_share_text(int64_t part, int64_t whole,
                             char out[TIDE_R_UNIT_MAX]);

/* "812 us", "2.31 s", "3 min 02 s", "1 h 02 min". */
const char *tideR_duration_text(uint64_t ns, char out[TIDE_R_UNIT_MAX]);

/*
** Reads "100", "10K", "1.5MiB", "2 GB": K, Ki, KiB and so on are powers of
** 1024, kB, MB, GB, TB powers of 1000; case does not matter.
** Errors: ARG; *bytes is then untouched.
*/
enum tide_err tideR_bytes_parse(const char *text, uint64_t *bytes);

/* Reads "1000", "1,000", "10k", "1.5M" (powers of 1000).  Errors: ARG. */
enum tide_err tideR_count_parse(const char *text, uint64_t *n);

/* Reads "5s", "100 ms", "2min", "1h"; no unit: seconds.  Errors: ARG. */
enum tide_err tideR_duration_parse(const char *text, uint64_t *ns);

/* Reads "0.5%" into 0.005.  Errors: ARG (no percent sign, not 0 .. 100). */
enum tide_err tideR_share_parse(const char *text, double *share);

#endif
