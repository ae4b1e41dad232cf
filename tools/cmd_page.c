/*
** cmd_page.c: writes the HTML report into a file, for `report` and `diff`.
**
** A page that could not be written whole is removed: half of one would not
** open.
*/
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../report/page.h"
#include "cmd.h"
#include "cmd_page.h"

static enum tide_err write_page(const struct cmd_page *page, FILE *out)
{
    struct tide_srctext *base_texts = NULL;
    struct tide_diff diff;
    if (page->base_or_null != NULL)
        base_texts = tideR_srctext_open(
            page->base_path, page->base_or_null->header->start_unix_ns);
    struct tide_srctext *texts =
        tideR_srctext_open(page->path, page->now->header->start_unix_ns);
    const struct tide_r_page_look look = {
        .texts = {base_texts, texts},
        .has_sources = page->has_sources,
        .path = page->path,
        .base_path = page->base_path,
    };
    enum tide_err err =
        tideR_diff_open(page->base_or_null, page->now, &look.texts, &diff);
    if (err == TIDE_OK)
        err = tideR_html(&diff, &look, out);
    tideR_diff_close(&diff);
    tideR_srctext_close(base_texts);
    tideR_srctext_close(texts);
    return err;
}

static int put_error(const char *out, enum tide_err err)
{
    cmd_error(out, "%s",
              err == TIDE_ERR_IO ? strerror(errno) : tide_err_text(err));
    return CMD_FAILED;
}

static void remove_part(FILE *file, const char *out)
{
    struct stat status;
    if (fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode))
        unlink(out);
}

int cmd_put_page(const struct cmd_page *page, const char *out)
{
    if (!tideR_html_is_built()) {
        cmd_error("--html", "not built in: building the page needs npm");
        return CMD_FAILED;
    }
    if (strcmp(out, "-") == 0)
        return cmd_rendered(write_page(page, stdout));
    FILE *file = fopen(out, "we");
    if (file == NULL)
        return put_error(out, TIDE_ERR_IO);
    cmd_progress("writing %s", out);
    const enum tide_err err = write_page(page, file);
    cmd_progress_end();
    if (err != TIDE_OK) {
        const int status = put_error(out, err);
        remove_part(file, out);
        fclose(file);
        return status;
    }
    return fclose(file) == 0 ? CMD_FINE : put_error(out, TIDE_ERR_IO);
}
