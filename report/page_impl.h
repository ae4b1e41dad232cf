/*
** page_impl.h: what the files that write the page share.
*/
#ifndef TIDE_PAGE_IMPL_H
#define TIDE_PAGE_IMPL_H

#include "page.h"

/* The page without its data, in front of it and behind it: made by embed.py. */
extern const unsigned char tideR_page_head[];
extern const size_t tideR_page_head_bytes;
extern const unsigned char tideR_page_tail[];
extern const size_t tideR_page_tail_bytes;

/* Writes the data of a page as JSON.  Errors: IO (errno says why), NOMEM. */
enum tide_err tideR_page_data(const struct tide_diff *diff,
                              const struct tide_r_page_look *look, FILE *out);

/*
** A file whose bytes arrive in another one deflated and in base64.  fclose
** writes the rest; it fails when the other file could not be written.
** NULL: no memory.
*/
FILE *tideR_deflate_open(FILE *to);

#endif
