/*
** test_text.c: the text report: what it says, how wide it is, and that
** nothing in a profile can harm a terminal.
*/
#include <errno.h>
#include <locale.h>

#include "../../report/emit.h"
#include "../../report/render.h"
#include "../../report/srctext.h"
#include "report_help.h"

/* A report as text; freed by the caller. */
static char *text_report(const struct tide_model *model, enum tide_r_by by,
                         const struct tide_r_query *query,
                         const struct tide_r_look *look)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file != NULL);
    CHECK_EQ(tideR_text(model, by, query, look, file), TIDE_OK);
    fclose(file);
    CHECK_EQ(strlen(text), bytes);
    return text;
}

static char *plain_report(const struct tide_model *model, enum tide_r_by by,
                          unsigned columns, uint32_t top)
{
    const struct tide_r_look look = {
        .columns = columns, .path = "my app.tide", .command = "tidemark"};
    return text_report(model, by, &(struct tide_r_query){.top = top}, &look);
}

static bool has_line(const char *text, const char *line)
{
    const char *at = text;
    const size_t n = strlen(line);
    while ((at = strstr(at, line)) != NULL) {
        if ((at == text || at[-1] == '\n') && at[n] == '\n')
            return true;
        at++;
    }
    return false;
}

/* main (app.lua:3) -> work (app.lua:11) -> string.rep; a helper at line 40 */
static struct tide_model *small_model(void)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t chunk = syn_func(heap, TIDE_P_MAIN, "@app.lua", "", 0, 30);
    const uint32_t work =
        syn_func(heap, TIDE_P_LUA, "@app.lua", "work", 10, 20);
    const uint32_t rep =
        syn_func(heap, TIDE_P_C, "/usr/bin/lua5.4", "string.rep", 0, 0);
    const uint32_t help =
        syn_func(heap, TIDE_P_LUA, "@app.lua", "help", 39, 41);
    const uint32_t n1 = syn_node(heap, 0, chunk, 3);
    const uint32_t n2 = syn_node(heap, n1, work, 11);
    const uint32_t n3 = syn_node(heap, n2, rep, 0);
    const uint32_t n4 = syn_node(heap, n1, help, 40);
    syn_node_at(heap, n2)->calls = 4;
    syn_node_at(heap, n2)->max_call_bytes = 40960;
    add_cell(heap, n2, TIDE_KIND_TABLE, 56 * 1024, 0);
    add_cell(heap, n3, TIDE_KIND_STRING, 24 * 1024, 4 * 1024);
    add_cell(heap, n4, TIDE_KIND_TABLE, 20 * 1024, 20 * 1024);
    return made_model(&made);
}

TEST(text_lines_are_as_they_read)
{
    struct tide_model *model = small_model();
    char *text = plain_report(model, TIDE_R_BY_LINE, 80, 20);
    CHECK(has_line(text, "lua5.4 app.lua --fast"));
    CHECK(has_line(text, "lines by allocated bytes"));
    CHECK(has_line(text, " share  allocated     blocks      live  line        "
                         "function"));
    CHECK(has_line(text, " 80.0%   80.0 KiB          4  76.0 KiB  app.lua:11  "
                         "work"));
    CHECK(has_line(text, " 20.0%   20.0 KiB          2       0 B  app.lua:40  "
                         "help"));
    CHECK(strstr(text, "kinds: table 76.0%, string 24.0%\n") != NULL);
    CHECK(has_line(text, "the same by function: tidemark report --by function "
                         "'my app.tide'"));
    free(text);
    tideR_model_close(model);
}

TEST(text_functions_have_calls)
{
    struct tide_model *model = small_model();
    char *text = plain_report(model, TIDE_R_BY_FUNCTION, 80, 20);
    CHECK(has_line(text,
                   " 56.0%  56.0 KiB  80.0 KiB          4  20.0 KiB  40.0 KiB"
                   "  work"));
    CHECK(has_line(text, "        app.lua:10"));
    free(text);
    text = plain_report(model, TIDE_R_BY_FUNCTION, 160, 20);
    CHECK(strstr(text, "  work        app.lua:10\n") != NULL);
    free(text);
    tideR_model_close(model);
}

TEST(text_stacks_are_a_tree)
{
    struct tide_model *model = small_model();
    char *text = plain_report(model, TIDE_R_BY_STACK, 80, 20);
    CHECK(strstr(text,
                 "100.0%    100 KiB             main chunk  app.lua:3\n"
                 " 80.0%   80.0 KiB   56.0 KiB  - work  app.lua:11\n"
                 " 24.0%   24.0 KiB   24.0 KiB    string.rep\n"
                 " 20.0%   20.0 KiB   20.0 KiB  - help  app.lua:40\n") != NULL);
    free(text);
    text = plain_report(model, TIDE_R_BY_STACK, 80, 2);
    CHECK(strstr(text, " work  app.lua:11\n\n2 of 4 nodes shown; cut below "
                       "80.0 KiB\n") != NULL);
    free(text);
    tideR_model_close(model);
}

TEST(text_stacks_by_another_figure)
{
    struct tide_model *model = small_model();
    const struct tide_r_look look = {.path = "x", .command = "tidemark"};
    char *text =
        text_report(model, TIDE_R_BY_STACK,
                    &(struct tide_r_query){.sort = TIDE_R_SORT_LIVE}, &look);
    CHECK(strstr(text, "stacks by live bytes") != NULL);
    CHECK(strstr(text, "100.0%   76.0 KiB             main chunk") != NULL);
    CHECK(strstr(text, "help") == NULL);
    free(text);
    text =
        text_report(model, TIDE_R_BY_STACK,
                    &(struct tide_r_query){.sort = TIDE_R_SORT_BLOCKS}, &look);
    CHECK(strstr(text, "100.0%          6             main chunk") != NULL);
    free(text);
    tideR_model_close(model);
}

TEST(text_stacks_match_a_filter_in_any_frame)
{
    struct tide_model *model = small_model();
    char why[64];
    const struct tide_r_look look = {.path = "x", .command = "tidemark"};
    struct tide_r_query query = {.top = 0};
    CHECK_EQ(tideR_query_filter(&query, "string.rep", why, sizeof why),
             TIDE_OK);
    char *text = text_report(model, TIDE_R_BY_STACK, &query, &look);
    CHECK(strstr(text, "100.0%   24.0 KiB             main chunk") != NULL);
    CHECK(strstr(text, "help") == NULL);
    tideR_query_close(&query);
    free(text);
    tideR_model_close(model);
}

TEST(text_kinds_and_groups)
{
    struct tide_model *model = small_model();
    char *text = plain_report(model, TIDE_R_BY_KIND, 80, 20);
    CHECK(strstr(text, " 76.0%   76.0 KiB          4  56.0 KiB  table ") !=
          NULL);
    free(text);
    text = plain_report(model, TIDE_R_BY_GROUP, 80, 20);
    CHECK(has_line(text, " 76.0%   76.0 KiB          4  56.0 KiB  app.lua"));
    CHECK(has_line(text, " 24.0%   24.0 KiB          2  20.0 KiB  string"));
    free(text);
    tideR_model_close(model);
}

TEST(text_says_what_is_left_out)
{
    struct tide_model *model = small_model();
    char *text = plain_report(model, TIDE_R_BY_LINE, 80, 1);
    CHECK(has_line(text, "1 of 2 lines shown; the others allocated 20.0 KiB "
                         "(20.0%)"));
    CHECK(strstr(text, "--top 0 'my app.tide'") != NULL);
    free(text);
    tideR_model_close(model);
}

/* ---- width -------------------------------------------------------------- */

/* Columns of the widest line. */
static unsigned widest(const char *text)
{
    static char cell[TIDE_R_CELL_MAX];
    unsigned most = 0;
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        const unsigned columns =
            tideR_fit(text, n, 2000, TIDE_R_CUT_TAIL, cell);
        most = columns > most ? columns : most;
        text += n + (text[n] == '\n');
    }
    return most;
}

static struct tide_model *long_names_model(void)
{
    struct made made;
    char source[1000];
    char name[1000];
    struct syn_heap *heap = made_open(&made);
    memset(source, 's', sizeof source);
    memcpy(source, "@/", 2);
    strcpy(source + sizeof source - 9, "/end.lua");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    uint32_t node = 0;
    for (uint32_t i = 0; i < 60; i++) {
        name[0] = (char)('A' + i % 26);
        const uint32_t f =
            syn_func(heap, TIDE_P_LUA, source, name, i + 1, i + 1);
        node = syn_node(heap, node, f, i + 1);
        add_cell(heap, node, TIDE_KIND_TABLE, 1000000000 + i, 0);
    }
    return made_model(&made);
}

TEST(text_fits_the_page)
{
    setlocale(LC_CTYPE, "C.UTF-8");
    struct tide_model *model = long_names_model();
    static const unsigned widths[] = {80, 90, 100, 110, 130, 150, 200, 400};
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++)
        for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++) {
            const struct tide_r_look look = {.columns = widths[i],
                                             .is_brief = true,
                                             .path = "x",
                                             .command = "tidemark"};
            char *text = text_report(model, (enum tide_r_by)by,
                                     &(struct tide_r_query){.top = 0}, &look);
            CHECK(widest(text) <= widths[i]);
            free(text);
        }
    tideR_model_close(model);
}

TEST(text_keeps_the_end_of_a_path)
{
    struct tide_model *model = long_names_model();
    char *text = plain_report(model, TIDE_R_BY_LINE, 80, 0);
    CHECK(strstr(text, "/end.lua:17 ") != NULL);
    free(text);
    tideR_model_close(model);
}

TEST(text_takes_any_width)
{
    struct tide_model *model = small_model();
    static const unsigned widths[] = {0, 1, 5, 40, 79, 5000, 1000000};
    for (unsigned i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++)
            free(plain_report(model, (enum tide_r_by)by, widths[i], 0));
    tideR_model_close(model);
}

/* ---- harm --------------------------------------------------------------- */

static bool is_harmless(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if ((*p < 0x20 && *p != '\n') || *p == 0x7F ||
            (*p == 0xC2 && p[1] < 0xA0))
            return false;
    return true;
}

TEST(text_passes_no_escape_sequences)
{
    struct made made;
    static const char evil[] = "\x1b]0;title\x07\x1b[2J\r\n\xC2\x9B"
                               "1m\x7f";
    struct syn_heap *heap = made_open(&made);
    struct tide_p_header *header = tideP_writer_header(made.writer);
    memcpy(header->command, evil, sizeof evil);
    header->command_bytes = sizeof evil;
    strcpy(header->lua, evil);
    strcpy(header->tier_reason, evil);
    header->tier = TIDE_TIER_PUBLIC;
    const uint32_t lua = syn_func(heap, TIDE_P_LUA, evil, evil, 1, 2);
    const uint32_t c = syn_func(heap, TIDE_P_C, evil, evil, 0, 0);
    const uint32_t node = syn_node(heap, 0, lua, 1);
    add_cell(heap, node, TIDE_KIND_TABLE, 10, 0);
    add_cell(heap, syn_node(heap, node, c, 0), TIDE_KIND_TABLE, 10, 0);
    struct tide_model *model = made_model(&made);
    for (unsigned by = 0; by < TIDE_R_BY_COUNT_; by++) {
        const struct tide_r_look look = {.path = evil, .command = "tidemark"};
        char *text = text_report(model, (enum tide_r_by)by,
                                 &(struct tide_r_query){.top = 0}, &look);
        CHECK(is_harmless(text));
        free(text);
    }
    tideR_model_close(model);
}

TEST(text_has_colour_only_when_asked)
{
    struct tide_model *model = small_model();
    struct tide_r_look look = {.path = "x", .command = "tidemark"};
    const struct tide_r_query query = {.top = 0};
    char *text = text_report(model, TIDE_R_BY_LINE, &query, &look);
    CHECK(strchr(text, '\x1b') == NULL);
    free(text);
    look.has_colour = true;
    text = text_report(model, TIDE_R_BY_LINE, &query, &look);
    CHECK(strstr(text, "\x1b[1m") != NULL);
    /* all that was switched on is switched off */
    const char *last = strrchr(text, '\x1b');
    CHECK(strncmp(last, "\x1b[0m", 4) == 0);
    free(text);
    tideR_model_close(model);
}

TEST(text_reports_a_full_disk)
{
    struct tide_model *model = small_model();
    const struct tide_r_look look = {.path = "x", .command = "tidemark"};
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        SKIP("no /dev/full");
    CHECK_EQ(tideR_text(model, TIDE_R_BY_LINE, &(struct tide_r_query){.top = 0},
                        &look, full),
             TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    fclose(full);
    tideR_model_close(model);
}

/* ---- sources ------------------------------------------------------------ */

/* A line of a source, "-" when it is not there. */
static const char *source_line(struct tide_srctext *texts, const char *source,
                               uint32_t line)
{
    static char text[256];
    size_t n;
    const char *got = tideR_srctext_line(texts, source, line, &n);
    snprintf(text, sizeof text, "%.*s", got != NULL ? (int)n : 1,
             got != NULL ? got : "-");
    return text;
}

TEST(text_source_lines_are_found)
{
    static const char lua[] = "first\r\n  local x = {}  \n\nlast";
    const char *path = scratch_path("s.lua");
    scratch_write(path, lua, sizeof lua - 1);
    struct tide_srctext *texts = tideR_srctext_open(NULL, 0);
    CHECK_STR(source_line(texts, path, 1), "first");
    CHECK_STR(source_line(texts, path, 2), "local x = {}");
    CHECK_STR(source_line(texts, path, 3), "");
    CHECK_STR(source_line(texts, path, 4), "last");
    CHECK_STR(source_line(texts, path, 5), "-");
    CHECK_STR(source_line(texts, path, 0), "-");
    CHECK_STR(source_line(texts, path, UINT32_MAX), "-");
    CHECK(!tideR_srctext_has_younger(texts));
    tideR_srctext_close(texts);
}

TEST(text_sources_are_found_beside_the_profile)
{
    scratch_write(scratch_path("s.lua"), "here\n", 5);
    struct tide_srctext *texts = tideR_srctext_open(scratch_path("x.tide"), 0);
    CHECK_STR(source_line(texts, "s.lua", 1), "here");
    CHECK_STR(source_line(texts, "t.lua", 1), "-");
    tideR_srctext_close(texts);
}

TEST(text_only_plain_files_are_sources)
{
    const char *fifo = scratch_path("fifo");
    struct tide_srctext *texts = tideR_srctext_open(NULL, 0);
    CHECK_EQ(mkfifo(fifo, 0600), 0);
    CHECK_STR(source_line(texts, fifo, 1), "-"); /* and does not block */
    CHECK_STR(source_line(texts, scratch_dir(), 1), "-");
    CHECK_STR(source_line(texts, "/dev/zero", 1), "-");
    CHECK_STR(source_line(texts, "", 1), "-");
    tideR_srctext_close(texts);
}

TEST(text_many_sources_are_no_harm)
{
    struct tide_srctext *texts = tideR_srctext_open(NULL, 0);
    for (int i = 0; i < 300; i++) {
        char name[32];
        snprintf(name, sizeof name, "none-%d.lua", i);
        CHECK_STR(source_line(texts, name, 1), "-");
    }
    tideR_srctext_close(texts);
}

TEST(text_shows_the_source_and_notes_its_age)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    char source[PATH_MAX + 1];
    const char *path = scratch_path("s.lua");
    scratch_write(path, "one\n  local t = {\x1b}\n", 21);
    snprintf(source, sizeof source, "@%s", path);
    tideP_writer_header(made.writer)->start_unix_ns = 1000000000;
    const uint32_t f = syn_func(heap, TIDE_P_LUA, source, "f", 1, 2);
    add_cell(heap, syn_node(heap, 0, f, 2), TIDE_KIND_TABLE, 10, 0);
    struct tide_model *model = made_model(&made);
    char *text = plain_report(model, TIDE_R_BY_LINE, 80, 20);
    CHECK(has_line(text, "        local t = {\xEF\xBF\xBD}"));
    CHECK(strstr(text, "note: a source file has changed") != NULL);
    free(text);
    tideR_model_close(model);
}
