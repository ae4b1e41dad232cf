/*
** test_json.c: the JSON report, read back by another library and compared
** with the model, key by key.
*/
#include <errno.h>
#include <jansson.h>

#include "../../report/render.h"
#include "report_help.h"

/* The report of a model as a tree of jansson's. */
static json_t *report_of(const struct tide_model *model,
                         const struct tide_r_query *query)
{
    char *text = NULL;
    size_t bytes;
    json_error_t error;
    FILE *file = open_memstream(&text, &bytes);
    CHECK(file != NULL);
    CHECK_EQ(tideR_json(model, query, file), TIDE_OK);
    fclose(file);
    json_t *report = json_loadb(
        text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (report == NULL)
        tap_fail(__FILE__, __LINE__, "%s at line %d", error.text, error.line);
    free(text);
    return report;
}

static json_int_t int_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        tap_fail(__FILE__, __LINE__, "'%s' is no integer", key);
    return json_integer_value(value);
}

static const char *str_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        tap_fail(__FILE__, __LINE__, "'%s' is no string", key);
    return json_string_value(value);
}

/* Exactly these keys, separated by blanks. */
static void check_keys(const json_t *object, const char *keys)
{
    char copy[512];
    size_t n = 0;
    CHECK(json_is_object(object));
    snprintf(copy, sizeof copy, "%s", keys);
    for (char *key = strtok(copy, " "); key; key = strtok(NULL, " "), n++)
        if (json_object_get(object, key) == NULL)
            tap_fail(__FILE__, __LINE__, "no key '%s'", key);
    CHECK_EQ(json_object_size(object), n);
}

#define KIND_KEYS "alloc_bytes alloc_blocks live_bytes live_blocks"
#define KINDS                                                                  \
 "string table function userdata thread upvalue proto storage stack "          \
 "callinfo code buffer other"

static void check_kinds(const json_t *kinds)
{
    const char *key;
    json_t *value;
    check_keys(kinds, KINDS);
    json_object_foreach((json_t *)kinds, key, value)
        check_keys(value, KIND_KEYS);
}

static void check_rows(const json_t *list, const char *keys)
{
    size_t i;
    json_t *row;
    CHECK(json_array_size(list) > 0);
    json_array_foreach(list, i, row) check_keys(row, keys);
}

TEST(json_has_every_key_and_no_other)
{
    struct tide_model *model =
        model_of_shape(&(struct syn_shape){.seed = 2,
                                           .n_heaps = 2,
                                           .n_funcs = 40,
                                           .n_nodes = 200,
                                           .n_cycles = 3,
                                           .n_marks = 4});
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    check_keys(r, "format version run totals gc kinds marks out_of_memory "
                  "lines functions stacks targets groups largest_blocks "
                  "findings");
    check_keys(json_object_get(r, "run"),
               "command pid lua started seconds tier tier_reason states "
               "complete");
    check_keys(json_object_get(r, "totals"),
               "alloc_bytes alloc_blocks freed_bytes freed_blocks live_bytes "
               "live_blocks peak_bytes unattributed_bytes before_attach_bytes "
               "rss_peak_bytes");
    const json_t *gc = json_object_get(r, "gc");
    check_keys(gc, "mode HeapKb PeakHeapKb AllocKbPerSec CyclesPerMin Cycles "
                   "LastReclaimKb AvgReclaimKb ReclaimedKb cycles");
    check_rows(json_object_get(gc, "cycles"),
               "n mode collection start_s seconds mark_seconds sweep_seconds "
               "collect_seconds cause source line before_bytes after_bytes "
               "freed_bytes freed_blocks alloc_bytes joined state");
    check_kinds(json_object_get(r, "kinds"));
    check_rows(json_object_get(r, "marks"),
               "label seconds source line live_bytes alloc_bytes cycle failed "
               "has_rows");
    const json_t *failure = json_object_get(r, "out_of_memory");
    check_keys(failure, "happened seconds source line want_bytes limit_bytes "
                        "held_bytes held_blocks before_attach_bytes groups");
    check_rows(json_object_get(failure, "groups"),
               "group held_bytes held_blocks");
    check_rows(json_object_get(r, "lines"),
               "source line function group alloc_bytes alloc_blocks "
               "freed_bytes moved_bytes live_bytes live_blocks "
               "peak_live_bytes held_bytes died_young_bytes age_bytes "
               "age_blocks kinds");
    check_rows(json_object_get(r, "functions"),
               "source linedefined name what group self_bytes total_bytes "
               "self_blocks total_blocks calls max_call_bytes live_bytes "
               "held_bytes");
    check_rows(json_object_get(r, "stacks"),
               "frames kind alloc_bytes alloc_blocks live_bytes live_blocks "
               "held_bytes age_bytes age_blocks");
    check_rows(json_object_get(r, "targets"),
               "group target source line what alloc_bytes alloc_blocks "
               "bytes_per_s calls bytes_per_call max_call_bytes freed_bytes "
               "live_bytes live_blocks died_young_bytes");
    check_rows(json_object_get(r, "groups"),
               "group named functions alloc_bytes alloc_blocks freed_bytes "
               "live_bytes live_blocks died_young_bytes");
    check_rows(json_object_get(r, "largest_blocks"),
               "bytes kind source line frames s cycle alloc_bytes state "
               "blocks");
    check_rows(json_object_get(r, "findings"),
               "kind text source line bytes evidence");
    json_decref(r);
    tideR_model_close(model);
}

/* Each heap has three; one of them stands first of all. */
TEST(json_has_the_largest_blocks_of_all_states)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t func =
            syn_func(heap, TIDE_P_LUA, i == 0 ? "@a.lua" : "@b.lua", "f", 1, 9);
        const uint32_t node = syn_node(heap, 0, func, 5);
        add_cell(heap, node, TIDE_KIND_STRING, 9000000, 0);
        add_cell(heap, node, TIDE_KIND_STORAGE, 8000000, 0);
        syn_huge(heap, 2, (5u << 20) + i);
        syn_huge(heap, 1, (4u << 20) + i);
        if (i == 0)
            heap = made_heap(&made);
    }
    struct tide_model *model = made_model(&made);
    json_t *r = report_of(model, &(struct tide_r_query){.top = 3});
    const json_t *list = json_object_get(r, "largest_blocks");
    CHECK_EQ(json_array_size(list), 3); /* of four */
    const json_t *first = json_array_get(list, 0);
    CHECK_EQ(int_of(first, "bytes"), (5 << 20) + 1);
    CHECK_EQ(int_of(first, "state"), 1);
    CHECK_EQ(int_of(first, "line"), 5);
    CHECK_EQ(int_of(first, "blocks"), 1);
    CHECK_STR(str_of(first, "source"), "b.lua");
    CHECK_STR(str_of(first, "kind"), "storage");
    const json_t *frames = json_object_get(first, "frames");
    CHECK_EQ(json_array_size(frames), 1);
    CHECK_STR(str_of(json_array_get(frames, 0), "function"), "f");
    CHECK_EQ(int_of(json_array_get(list, 1), "state"), 0);
    const json_t *third = json_array_get(list, 2);
    CHECK_STR(str_of(third, "kind"), "string");
    CHECK_EQ(int_of(third, "bytes"), (4 << 20) + 1);
    CHECK_EQ(int_of(third, "blocks"), 2);
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_describes_the_run)
{
    struct tide_model *model =
        model_of_shape(&(struct syn_shape){.seed = 2, .n_heaps = 2});
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    CHECK_STR(str_of(r, "format"), "tidemark-report");
    CHECK_EQ(int_of(r, "version"), 1);
    const json_t *run = json_object_get(r, "run");
    const json_t *command = json_object_get(run, "command");
    CHECK_EQ(json_array_size(command), 3);
    CHECK_STR(json_string_value(json_array_get(command, 0)), "lua5.4");
    CHECK_STR(json_string_value(json_array_get(command, 2)), "--fast");
    CHECK_EQ(int_of(run, "pid"), 4242);
    CHECK_STR(str_of(run, "lua"), "Lua 5.4.4");
    CHECK_STR(str_of(run, "started"), "2026-11-30T12:00:00Z");
    CHECK(json_real_value(json_object_get(run, "seconds")) == 5.6);
    CHECK_STR(str_of(run, "tier"), "exact");
    CHECK_EQ(int_of(run, "states"), 2);
    CHECK(json_is_true(json_object_get(run, "complete")));
    json_decref(r);
    tideR_model_close(model);
}

static json_int_t sum_of(const json_t *list, const char *key)
{
    json_int_t sum = 0;
    size_t i;
    json_t *row;
    json_array_foreach(list, i, row) sum += int_of(row, key);
    return sum;
}

TEST(json_lists_sum_to_the_totals)
{
    struct tide_model *model = model_of_shape(&(struct syn_shape){
        .seed = 4, .n_heaps = 3, .n_funcs = 40, .n_nodes = 300});
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    const json_t *totals = json_object_get(r, "totals");
    const json_t *lines = json_object_get(r, "lines");
    const json_t *stacks = json_object_get(r, "stacks");
    const json_int_t all = int_of(totals, "alloc_bytes");
    const json_int_t rest = int_of(totals, "unattributed_bytes");
    CHECK(all > 0 && rest > 0);
    CHECK_EQ(sum_of(lines, "alloc_bytes") + rest, all);
    CHECK_EQ(sum_of(stacks, "alloc_bytes") + rest, all);
    CHECK_EQ(sum_of(json_object_get(r, "functions"), "self_bytes"), all);
    json_int_t kinds = 0;
    const char *key;
    json_t *kind;
    json_object_foreach(json_object_get(r, "kinds"), key, kind) kinds +=
        int_of(kind, "alloc_bytes");
    CHECK_EQ(kinds, all);
    json_decref(r);
    tideR_model_close(model);
}

/* Every line: what it holds is what it got less what it lost. */
TEST(json_lines_balance)
{
    struct tide_model *model = model_of_shape(
        &(struct syn_shape){.seed = 6, .n_funcs = 40, .n_nodes = 300});
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    size_t i;
    json_t *row;
    json_int_t before = INT64_MAX;
    unsigned n_once = 0;
    json_array_foreach(json_object_get(r, "lines"), i, row)
    {
        const json_int_t bytes = int_of(row, "alloc_bytes");
        CHECK(bytes <= before);
        before = bytes;
        json_int_t kinds = 0;
        const char *key;
        json_t *kind;
        json_object_foreach(json_object_get(row, "kinds"), key, kind) kinds +=
            int_of(kind, "alloc_bytes");
        CHECK_EQ(kinds, bytes);
        check_kinds(json_object_get(row, "kinds"));
        const struct tide_r_line *line = line_of(model, str_of(row, "source"),
                                                 (uint32_t)int_of(row, "line"));
        CHECK_EQ((json_int_t)line->counts.inherited_bytes + bytes +
                     int_of(row, "moved_bytes") - int_of(row, "freed_bytes"),
                 int_of(row, "live_bytes"));
        CHECK_EQ(line->counts.alloc_bytes, bytes);
        CHECK_EQ(line->counts.peak_bytes, int_of(row, "peak_live_bytes"));
        CHECK_EQ(line->counts.young_bytes, int_of(row, "died_young_bytes"));
        const json_t *ages = json_object_get(row, "age_bytes");
        const struct tide_r_counts *c = &line->counts;
        CHECK_EQ(json_array_size(ages), 4);
        CHECK_EQ(json_integer_value(json_array_get(ages, 0)), c->young_bytes);
        CHECK_EQ(json_integer_value(json_array_get(ages, 1)), c->once_bytes);
        CHECK_EQ(json_integer_value(json_array_get(ages, 2)), c->twice_bytes);
        CHECK_EQ(json_integer_value(json_array_get(ages, 3)),
                 c->freed_bytes - c->young_bytes - c->once_bytes -
                     c->twice_bytes - c->ageless_bytes);
        n_once += c->once_bytes > 0;
    }
    CHECK(n_once > 10);
    json_decref(r);
    tideR_model_close(model);
}

/* main (3) -> work (11) -> string.rep, with names that need care */
static struct tide_model *careful_model(void)
{
    struct made made;
    struct syn_heap *heap = made_open(&made);
    const uint32_t chunk =
        syn_func(heap, TIDE_P_MAIN, "@dir/\xE6\x9C\x88.lua", "", 0, 30);
    const uint32_t work = syn_func(heap, TIDE_P_LUA, "@bad\xFF\x1b[31m.lua",
                                   "say \"hi\"\\", 10, 20);
    const uint32_t rep = syn_func(heap, TIDE_P_C, "=[C]", "string.rep", 0, 0);
    const uint32_t n1 = syn_node(heap, 0, chunk, 3);
    const uint32_t n2 = syn_node(heap, n1, work, 11);
    const uint32_t n3 = syn_node(heap, n2, rep, 0);
    add_cell(heap, n1, TIDE_KIND_TABLE, 1, 0);
    add_cell(heap, n3, TIDE_KIND_STRING, 1000, 10);
    struct tide_p_cycle cycle = {.atomic_mono_ns = 1900000000u,
                                 .end_mono_ns = 2400000000u,
                                 .before_bytes = 700,
                                 .after_bytes = 600,
                                 .freed_bytes = 100,
                                 .freed_blocks = 2,
                                 .n = 1,
                                 .node = n3,
                                 .cause = TIDE_P_CAUSE_EXPLICIT};
    syn_cycle(heap, &cycle);
    return made_model(&made);
}

TEST(json_frames_are_root_first)
{
    struct tide_model *model = careful_model();
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    const json_t *stack = json_array_get(json_object_get(r, "stacks"), 0);
    const json_t *frames = json_object_get(stack, "frames");
    CHECK_EQ(json_array_size(frames), 3);
    CHECK_STR(str_of(json_array_get(frames, 0), "source"),
              "dir/\xE6\x9C\x88.lua");
    CHECK_STR(str_of(json_array_get(frames, 0), "function"), "main chunk");
    CHECK_EQ(int_of(json_array_get(frames, 1), "line"), 11);
    CHECK_STR(str_of(json_array_get(frames, 1), "function"), "say \"hi\"\\");
    CHECK_STR(str_of(json_array_get(frames, 1), "source"),
              "bad\xEF\xBF\xBD\x1b[31m.lua");
    CHECK_STR(str_of(json_array_get(frames, 2), "function"), "string.rep");
    CHECK_STR(str_of(json_array_get(frames, 2), "source"), "[C]");
    CHECK_EQ(int_of(json_array_get(frames, 2), "line"), 0);
    CHECK_STR(str_of(stack, "kind"), "string");
    CHECK_EQ(int_of(stack, "alloc_bytes"), 1000);
    CHECK_EQ(int_of(stack, "live_bytes"), 990);
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_says_what_functions_are)
{
    struct tide_model *model = careful_model();
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    size_t i;
    json_t *row;
    unsigned n = 0;
    json_array_foreach(json_object_get(r, "functions"), i, row)
    {
        const char *name = str_of(row, "name");
        const char *what = str_of(row, "what");
        n += strcmp(name, "main chunk") == 0 && strcmp(what, "main") == 0;
        n += strcmp(name, "string.rep") == 0 && strcmp(what, "C") == 0 &&
             strcmp(str_of(row, "group"), "string") == 0;
        n += int_of(row, "linedefined") == 10 && strcmp(what, "Lua") == 0;
    }
    CHECK_EQ(n, 3);
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_cycles_have_time_and_place)
{
    struct tide_model *model = careful_model();
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    const json_t *cycle =
        json_array_get(json_object_get(json_object_get(r, "gc"), "cycles"), 0);
    CHECK(json_real_value(json_object_get(cycle, "start_s")) == 1.0);
    CHECK(json_real_value(json_object_get(cycle, "seconds")) == 0.5);
    CHECK_STR(str_of(cycle, "cause"), "explicit");
    CHECK_STR(str_of(cycle, "mode"), "incremental");
    CHECK_EQ(int_of(cycle, "line"), 11);
    CHECK_EQ(int_of(cycle, "freed_bytes"), 100);
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_obeys_the_query)
{
    struct tide_model *model = model_of_shape(
        &(struct syn_shape){.seed = 8, .n_funcs = 40, .n_nodes = 300});
    json_t *r = report_of(
        model, &(struct tide_r_query){.top = 5, .sort = TIDE_R_SORT_LIVE});
    const json_t *lines = json_object_get(r, "lines");
    CHECK_EQ(json_array_size(lines), 5);
    CHECK_EQ(json_array_size(json_object_get(r, "functions")), 5);
    CHECK_EQ(json_array_size(json_object_get(r, "stacks")), 5);
    for (size_t i = 1; i < 5; i++)
        CHECK(int_of(json_array_get(lines, i), "live_bytes") <=
              int_of(json_array_get(lines, i - 1), "live_bytes"));
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_of_an_empty_profile_is_whole)
{
    struct made made;
    made_open(&made);
    struct tide_model *model = made_model(&made);
    json_t *r = report_of(model, &(struct tide_r_query){.top = 0});
    CHECK_EQ(json_array_size(json_object_get(r, "lines")), 0);
    CHECK_EQ(json_array_size(json_object_get(r, "stacks")), 0);
    CHECK_EQ(json_array_size(json_object_get(r, "findings")), 0);
    check_kinds(json_object_get(r, "kinds"));
    json_decref(r);
    tideR_model_close(model);
}

TEST(json_reports_a_full_disk)
{
    struct tide_model *model = model_of_shape(&(struct syn_shape){.seed = 1});
    FILE *full = fopen("/dev/full", "w");
    if (full == NULL)
        SKIP("no /dev/full");
    CHECK_EQ(tideR_json(model, &(struct tide_r_query){.top = 0}, full),
             TIDE_ERR_IO);
    CHECK_EQ(errno, ENOSPC);
    fclose(full);
    tideR_model_close(model);
}
