/*
** page.c: writes the HTML report: a page that embed.py has put together from
** report/html/, with the data in its middle.
**
** The data is JSON, deflated, in base64, in an element that is not run.  No
** text of the profile stands in the page in any other way, so that there is
** nothing to escape; the page's own script sets every text as text.
*/
#include "page.h"

#include <errno.h>

#include "emit.h"
#include "page_impl.h"

bool tideR_html_is_built(void)
{
    return true;
}

static enum tide_err put_data(const struct tide_diff *diff,
                              const struct tide_r_page_look *look, FILE *out)
{
    FILE *packed = tideR_deflate_open(out);
    TIDE_FAIL_IF(packed == NULL, TIDE_ERR_NOMEM);
    const enum tide_err err = tideR_page_data(diff, look, packed);
    const int first_errno = errno;
    if (fclose(packed) != 0 && err == TIDE_OK)
        return TIDE_ERR_IO;
    errno = first_errno;
    return err;
}

enum tide_err tideR_html(const struct tide_diff *diff,
                         const struct tide_r_page_look *look, FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    tideR_put(&sink, (const char *)tideR_page_head, tideR_page_head_bytes);
    TIDE_TRY(put_data(diff, look, out));
    tideR_put(&sink, (const char *)tideR_page_tail, tideR_page_tail_bytes);
    return tideR_sink_finish(&sink);
}
