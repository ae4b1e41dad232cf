/*
** gctext_impl.h: what the files of `tidemark gc` for people share.
*/
#ifndef TIDE_GCTEXT_IMPL_H
#define TIDE_GCTEXT_IMPL_H

#include "text_impl.h"

/* The heap over time; nothing for one that has no points. */
void tideR_gc_chart(const struct tide_r_page *page, uint32_t heap,
                    const char *whose);
void tideR_gc_timeline(const struct tide_r_page *page, uint32_t heap);

#endif
