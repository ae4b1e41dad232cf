/*
** page.h: the report as one file of HTML.
*/
#ifndef TIDE_PAGE_H
#define TIDE_PAGE_H

#include <stdbool.h>
#include <stdio.h>

#include "diff.h"

struct tide_r_page_look {
    struct tide_r_texts texts; /* sources */
    bool has_sources;          /* they are shown in the page */
    const char *path;          /* of the profile */
    const char *base_path;     /* of the base; NULL: there is none */
};

/* Whether the page was built in: it needs npm at build time. */
bool tideR_html_is_built(void);

/*
** Writes the page; diff without a base: a plain report.
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_html(const struct tide_diff *diff,
                         const struct tide_r_page_look *look, FILE *out);

#endif
