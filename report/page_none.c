/*
** page_none.c: page.c of a build without npm: there is no page.
*/
#include "page.h"

bool tideR_html_is_built(void)
{
    return false;
}

enum tide_err tideR_html(const struct tide_diff *diff,
                         const struct tide_r_page_look *look, FILE *out)
{
    (void)diff;
    (void)look;
    (void)out;
    return TIDE_ERR_ARG;
}
