/*
** test_export.c: the formats of other tools, read back and compared with the
** model: JSON by another library.
*/
#include <inttypes.h>
#include <jansson.h>

#include "../../report/export.h"
#include "report_help.h"

static char *exported(const struct tide_model *model, const char *name)
{
    char *text = NULL;
    size_t bytes;
    const struct tide_r_format *format = tideR_format_or_null(name);
    FILE *file = open_memstream(&text, &bytes);
    CHECK(format != NULL && file != NULL);
    CHECK_EQ(format->put(model, file), TIDE_OK);
    fclose(file);
    return text;
}

static json_t *json_of(const struct tide_model *model, const char *name)
{
    char *text = exported(model, name);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (json == NULL)
        tap_fail(__FILE__, __LINE__, "%s at line %d", error.text, error.line);
    free(text);
    return json;
}

/* main calls string.rep and a function with a name that means harm. */
static struct tide_model *small(void)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t chunk = syn_func(heap, TIDE_P_MAIN, "@app.lua", "", 0, 9);
    const uint32_t evil =
        syn_func(heap, TIDE_P_LUA, "@a;b.lua", "x;\x1b[31m\xff\"y", 3, 4);
    const uint32_t rep = syn_func(heap, TIDE_P_C, "=[C]", "string.rep", 0, 0);
    const uint32_t a = syn_node(heap, 0, chunk, 1);
    const uint32_t b = syn_node(heap, a, evil, 4);
    const uint32_t c = syn_node(heap, b, rep, 0);
    add_cell(heap, a, TIDE_KIND_TABLE, 100, 100);
    add_cell(heap, b, TIDE_KIND_TABLE, 1000, 0);
    add_cell(heap, b, TIDE_KIND_STORAGE, 2000, 500);
    add_cell(heap, c, TIDE_KIND_STRING, 40000, 0);
    syn_node_at(heap, b)->calls = 3;
    syn_node_at(heap, b)->max_call_bytes = 20480;
    return made_model(&made);
}

TEST(export_folded_has_a_line_for_each_stack)
{
    struct tide_model *model = small();
    char *text = exported(model, "folded");
    CHECK_STR(text, "main chunk app.lua:1 100\n"
                    "main chunk app.lua:1;x__[31m_\"y a_b.lua:4 3000\n"
                    "main chunk app.lua:1;x__[31m_\"y a_b.lua:4;string.rep [C] "
                    "40000\n");
    free(text);
    text = exported(model, "folded-live");
    CHECK(strstr(text, "y a_b.lua:4 2500\n") != NULL);
    CHECK(strncmp(text, "main chunk app.lua:1 ", 21) != 0);
    free(text);
    tideR_model_close(model);
}

/* Sums of all lines of folded stacks. */
static uint64_t folded_sum(const char *text)
{
    uint64_t sum = 0;
    while (*text != '\0') {
        const char *end = strchr(text, '\n');
        CHECK(end != NULL);
        const char *number = end;
        while (number[-1] != ' ')
            number--;
        sum += strtoull(number, NULL, 10);
        text = end + 1;
    }
    return sum;
}

TEST(export_folded_sums_to_the_totals)
{
    const struct syn_shape shape = {
        .seed = 11, .n_heaps = 3, .n_funcs = 90, .n_nodes = 700};
    struct tide_model *model = model_of_shape(&shape);
    char *text = exported(model, "folded");
    CHECK_EQ(folded_sum(text), model->totals.alloc_bytes);
    free(text);
    text = exported(model, "folded-live");
    CHECK_EQ(folded_sum(text), model->totals.live_bytes);
    free(text);
    tideR_model_close(model);
}

static json_int_t sum_of(const json_t *list)
{
    json_int_t sum = 0;
    size_t i;
    json_t *value;
    json_array_foreach(list, i, value) sum += json_integer_value(value);
    return sum;
}

/* One profile of a speedscope file. */
static void check_profile(const json_t *profile, const char *name,
                          const char *unit, uint64_t sum, size_t n_frames)
{
    size_t i, k;
    json_t *sample, *frame;
    const json_t *samples = json_object_get(profile, "samples");
    const json_t *weights = json_object_get(profile, "weights");
    CHECK_STR(json_string_value(json_object_get(profile, "type")), "sampled");
    CHECK_STR(json_string_value(json_object_get(profile, "name")), name);
    CHECK_STR(json_string_value(json_object_get(profile, "unit")), unit);
    CHECK_EQ(json_array_size(samples), json_array_size(weights));
    CHECK_EQ((uint64_t)sum_of(weights), sum);
    CHECK_EQ((uint64_t)json_integer_value(json_object_get(profile, "endValue")),
             sum);
    json_array_foreach(samples, i, sample) json_array_foreach(sample, k, frame)
        CHECK((size_t)json_integer_value(frame) < n_frames);
}

TEST(export_speedscope_has_every_measure)
{
    struct tide_model *model = small();
    json_t *json = json_of(model, "speedscope");
    const json_t *frames =
        json_object_get(json_object_get(json, "shared"), "frames");
    const json_t *profiles = json_object_get(json, "profiles");
    const size_t n = json_array_size(frames);
    CHECK_STR(json_string_value(json_object_get(json, "$schema")),
              "https://www.speedscope.app/file-format-schema.json");
    CHECK_STR(json_string_value(json_object_get(json, "name")),
              "lua5.4 app.lua --fast");
    CHECK_EQ(json_array_size(profiles), 5);
    check_profile(json_array_get(profiles, 0), "allocated", "bytes", 43100, n);
    check_profile(json_array_get(profiles, 1), "live", "bytes", 42500, n);
    check_profile(json_array_get(profiles, 2), "at the peak", "bytes",
                  model->totals.peak_bytes, n);
    check_profile(json_array_get(profiles, 3), "blocks allocated", "none", 8,
                  n);
    check_profile(json_array_get(profiles, 4), "blocks live", "none",
                  model->totals.live_blocks, n);
    /* the deepest stack, callers first */
    const json_t *samples =
        json_object_get(json_array_get(profiles, 0), "samples");
    const json_t *deep = json_array_get(samples, 2);
    CHECK_EQ(json_array_size(deep), 3);
    const json_t *leaf = json_array_get(
        frames, (size_t)json_integer_value(json_array_get(deep, 2)));
    CHECK_STR(json_string_value(json_object_get(leaf, "name")), "string.rep");
    const json_t *caller = json_array_get(
        frames, (size_t)json_integer_value(json_array_get(deep, 1)));
    CHECK_EQ(json_integer_value(json_object_get(caller, "line")), 4);
    CHECK_STR(json_string_value(json_object_get(caller, "file")), "a;b.lua");
    json_decref(json);
    tideR_model_close(model);
}

static double real_of(const json_t *row, size_t i)
{
    CHECK(json_is_number(json_array_get(row, i)));
    return json_number_value(json_array_get(row, i));
}

static const char *str_of(const json_t *row, size_t i)
{
    CHECK(json_is_string(json_array_get(row, i)));
    return json_string_value(json_array_get(row, i));
}

TEST(export_gcprof_has_a_row_for_each_function)
{
    struct tide_model *model = small();
    json_t *json = json_of(model, "gcprof");
    CHECK_EQ(json_array_size(json), 3);
    const json_t *row = json_array_get(json, 0);
    CHECK_EQ(json_array_size(row), 6);
    CHECK_STR(str_of(row, 1), "string.rep");
    CHECK(real_of(row, 3) == 39.0625);
    row = json_array_get(json, 1);
    CHECK_STR(str_of(row, 0), "a;b.lua");
    CHECK_STR(str_of(row, 1), "x;\x1b[31m\xEF\xBF\xBD\"y");
    CHECK_STR(str_of(row, 2), "a;b.lua:3");
    CHECK(real_of(row, 3) > 2.92968 && real_of(row, 3) < 2.92969);
    CHECK(real_of(row, 4) == 3);
    CHECK(real_of(row, 5) == 20);
    CHECK_STR(str_of(json_array_get(json, 2), 2), "app.lua");
    json_decref(json);
    tideR_model_close(model);
}

/* KiB of all rows, in bytes. */
static double gcprof_sum(const json_t *json)
{
    double sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(json, i, row) sum += real_of(row, 3) * 1024;
    return sum;
}

TEST(export_gcprof_rows_of_targets_add_up)
{
    const struct syn_shape shape = {
        .seed = 3, .n_heaps = 2, .n_funcs = 60, .n_nodes = 500};
    struct tide_model *model = model_of_shape(&shape);
    CHECK(model->n_targets > 1);
    json_t *json = json_of(model, "gcprof");
    const double gap = gcprof_sum(json) - (double)model->totals.alloc_bytes;
    CHECK(gap > -1 && gap < 1);
    json_decref(json);
    tideR_model_close(model);
}

TEST(export_gcprof_target_has_what_it_called)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t hook = syn_func(heap, TIDE_P_LUA, "@h.lua", "f", 7, 9);
    const uint32_t help = syn_func(heap, TIDE_P_LUA, "@l.lua", "g", 2, 3);
    const uint32_t a = syn_node(heap, 0, hook, 8);
    add_cell(heap, a, TIDE_KIND_TABLE, 1024, 0);
    add_cell(heap, syn_node(heap, a, help, 2), TIDE_KIND_TABLE, 2048, 0);
    add_cell(heap, syn_node(heap, 0, help, 3), TIDE_KIND_TABLE, 512, 0);
    syn_target(heap, &(struct tide_p_target){.func = hook,
                                             .group = syn_string(heap, "hooks"),
                                             .name = syn_string(heap, "H")});
    struct tide_model *model = made_model(&made);
    json_t *json = json_of(model, "gcprof");
    CHECK_EQ(json_array_size(json), 2);
    const json_t *row = json_array_get(json, 0);
    CHECK_STR(str_of(row, 0), "hooks");
    CHECK_STR(str_of(row, 1), "H");
    CHECK_STR(str_of(row, 2), "h.lua:7");
    CHECK(real_of(row, 3) == 3);
    row = json_array_get(json, 1);
    CHECK_STR(str_of(row, 1), "g");
    CHECK(real_of(row, 3) == 0.5);
    json_decref(json);
    tideR_model_close(model);
}

/* The value of a sample; -1: it is not there. */
static double sample_of(const char *text, const char *sample)
{
    const size_t n = strlen(sample);
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, sample, n) == 0 && line[n] == ' ')
            return strtod(line + n, NULL);
    }
    return -1;
}

TEST(export_openmetrics_has_the_sums)
{
    struct tide_model *model = small();
    char *text = exported(model, "openmetrics");
    CHECK(sample_of(text, "lua_alloc_bytes_total{kind=\"string\"}") == 40000);
    CHECK(sample_of(text, "lua_alloc_bytes_total{kind=\"table\"}") == 1100);
    CHECK(sample_of(text, "lua_heap_used_bytes{kind=\"storage\"}") == 1500);
    CHECK(sample_of(text, "lua_freed_bytes_total{kind=\"table\"}") == 100);
    CHECK(sample_of(text, "lua_heap_peak_bytes") ==
          (double)model->totals.peak_bytes);
    CHECK(sample_of(text, "lua_gc_cycles_total") == 0);
    CHECK(sample_of(text, "lua_states") == 1);
    CHECK(sample_of(text, "lua_profile_seconds") == 5.6);
    CHECK_STR(text + strlen(text) - 6, "# EOF\n");
    free(text);
    tideR_model_close(model);
}

/* Every name has one TYPE before its samples, counters end in _total. */
TEST(export_openmetrics_keeps_its_grammar)
{
    struct tide_model *model = small();
    char *text = exported(model, "openmetrics");
    char name[64] = "";
    char type[16] = "";
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        if (strncmp(line, "# TYPE ", 7) == 0) {
            CHECK_EQ(sscanf(line, "# TYPE %63s %15s", name, type), 2);
            continue;
        }
        if (line[0] == '#' || line[0] == '\0')
            continue;
        const size_t n = strlen(name);
        const bool is_counter = strcmp(type, "counter") == 0;
        CHECK(strncmp(line, name, n) == 0);
        CHECK_EQ(strncmp(line + n, "_total", 6) == 0, is_counter);
    }
    free(text);
    tideR_model_close(model);
}

TEST(export_of_nothing_is_whole)
{
    struct made made;
    made_open(&made);
    struct tide_model *model = made_model(&made);
    char *text = exported(model, "folded");
    CHECK_STR(text, "");
    free(text);
    json_t *json = json_of(model, "gcprof");
    CHECK_EQ(json_array_size(json), 0);
    json_decref(json);
    json = json_of(model, "speedscope");
    CHECK_EQ(json_array_size(json_object_get(json, "profiles")), 5);
    json_decref(json);
    tideR_model_close(model);
}

TEST(export_names_are_looked_up)
{
    CHECK(tideR_format_or_null("Folded") == NULL);
    for (const struct tide_r_format *f = tideR_formats(); f->name != NULL; f++)
        CHECK(tideR_format_or_null(f->name) == f);
}

/* Own costs of a callgrind file: lines of figures that follow no call. */
static uint64_t callgrind_sum(char *text)
{
    uint64_t sum = 0;
    bool is_call = false;
    for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
        uint64_t n, bytes, blocks, live;
        char more;
        if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 "%c",
                   &n, &bytes, &blocks, &live, &more) == 4) {
            sum += is_call ? 0 : bytes;
            is_call = false;
        } else if (strncmp(line, "calls=", 6) == 0) {
            is_call = true;
        }
    }
    return sum;
}

TEST(export_callgrind_costs_sum_to_the_totals)
{
    const struct syn_shape shape = {
        .seed = 21, .n_heaps = 2, .n_funcs = 40, .n_nodes = 800};
    struct tide_model *model = model_of_shape(&shape);
    char *text = exported(model, "callgrind");
    char totals[64];
    snprintf(totals, sizeof totals, "\ntotals: %" PRIu64 " ",
             model->totals.alloc_bytes);
    CHECK(strstr(text, totals) != NULL);
    CHECK_EQ(callgrind_sum(text), model->totals.alloc_bytes);
    free(text);
    tideR_model_close(model);
}

TEST(export_callgrind_has_lines_and_calls)
{
    struct tide_model *model = small();
    char *text = exported(model, "callgrind");
    CHECK(strstr(text, "\ncmd: lua5.4 app.lua --fast\n") != NULL);
    CHECK(strstr(text, "fl=app.lua\nfn=main chunk\n1 100 2 0\n"
                       "cfi=a;b.lua\ncfn=x;\xEF\xBF\xBD[31m\xEF\xBF\xBD\"y:3\n"
                       "calls=3 3\n1 43000 6 42500\n") != NULL);
    CHECK(strstr(text, "\n4 3000 4 2500\ncfi=[C]\ncfn=string.rep\n"
                       "calls=0 0\n4 40000 2 40000\n") != NULL);
    CHECK(strchr(text, '\x1b') == NULL);
    free(text);
    tideR_model_close(model);
}
