/*
** test_import.c: rows of another tool become a profile that is whole and has
** their figures.
*/
#include "../../profile/import.h"
#include "report_help.h"

static const struct tide_p_row rows[] = {
    {"hooks", "Think", "lua/ai.lua", 12, 4096, 10, 1024},
    {"hooks", "Idle", "lua/ai.lua", 12, 512, 2, 300}, /* the same place */
    {"timers", "save", "lua/save.lua", 3, 0, 0, 0},
    {"", "no group", "", 0, 100, 1, 100},
};
#define N_ROWS (sizeof rows / sizeof rows[0])

static struct tide_model *imported(const struct tide_p_row *list, size_t n)
{
    const char *path = scratch_path("imported.tide");
    struct tide_model *model;
    struct tide_p_problem problem = {.err = TIDE_OK};
    CHECK_EQ(tideP_import(list, n, "run.json", "gcprof", path), TIDE_OK);
    CHECK_EQ(tideR_model_open(path, &model, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(model->profile)->text, "");
    return model;
}

static const struct tide_r_target *target_of(const struct tide_model *model,
                                             const char *name)
{
    for (uint32_t i = 0; i < model->n_targets; i++)
        if (strcmp(text_of(model, model->targets[i].name), name) == 0)
            return &model->targets[i];
    return NULL;
}

TEST(import_has_the_figures_of_its_rows)
{
    struct tide_model *model = imported(rows, N_ROWS);
    CHECK_EQ(model->totals.alloc_bytes, 4708);
    CHECK_EQ(model->totals.live_bytes, 0);
    const struct tide_r_func *think = func_of(model, "Think");
    CHECK_STR(text_of(model, think->source), "lua/ai.lua");
    CHECK_EQ(think->linedefined, 12);
    CHECK_EQ(think->own.alloc_bytes, 4096);
    CHECK_EQ(think->total_bytes, 4096);
    CHECK_EQ(think->calls, 10);
    CHECK_EQ(think->max_call_bytes, 1024);
    CHECK_EQ(line_of(model, "lua/ai.lua", 12)->counts.alloc_bytes, 4096);
    CHECK_EQ(func_of(model, "Idle")->own.alloc_bytes, 512);
    CHECK_EQ(func_of(model, "no group")->own.alloc_bytes, 100);
    CHECK(tideR_is_import(model));
    tideR_model_close(model);
}

TEST(import_keeps_groups_and_targets)
{
    struct tide_model *model = imported(rows, N_ROWS);
    const struct tide_r_target *think = target_of(model, "Think");
    CHECK_STR(text_of(model, model->groups[think->group].name), "hooks");
    CHECK_EQ(think->counts.alloc_bytes, 4096);
    CHECK_EQ(think->calls, 10);
    const struct tide_r_target *idle = target_of(model, "Idle");
    CHECK_EQ(idle->group, think->group);
    CHECK_EQ(idle->counts.alloc_bytes, 512);
    const struct tide_r_target *save = target_of(model, "save");
    CHECK_STR(text_of(model, model->groups[save->group].name), "timers");
    CHECK_EQ(save->counts.alloc_bytes, 0);
    tideR_model_close(model);
}

static void complain(void *ctx, const char *text)
{
    (void)ctx;
    tap_fail(__FILE__, __LINE__, "%s", text);
}

static void check_books(const struct tide_p_row *list, size_t n)
{
    const char *path = scratch_path("books.tide");
    struct tide_profile *profile;
    struct tide_p_problem problem = {.err = TIDE_OK};
    CHECK_EQ(tideP_import(list, n, "run.json", "gcprof", path), TIDE_OK);
    CHECK_EQ(tideP_reader_open(path, &profile, &problem), TIDE_OK);
    CHECK_EQ(tideP_check(profile, true, complain, NULL), 0);
    CHECK_EQ(tideP_reader_header(profile)->state, TIDE_P_CLOSED);
    tideP_reader_close(profile);
}

TEST(import_balances_its_books)
{
    check_books(rows, N_ROWS);
    check_books(NULL, 0);
}

TEST(import_of_nothing_is_whole)
{
    struct tide_model *model = imported(NULL, 0);
    CHECK_EQ(model->totals.alloc_bytes, 0);
    tideR_model_close(model);
}

TEST(import_cuts_texts_that_are_too_long)
{
    char *name = malloc(9001);
    CHECK(name != NULL);
    memset(name, 'n', 9000);
    name[9000] = '\0';
    const struct tide_p_row row = {name, name, name, 1, 64, 1, 64};
    struct tide_model *model = imported(&row, 1);
    CHECK_EQ(model->totals.alloc_bytes, 64);
    CHECK_EQ(strlen(text_of(model, model->funcs[1].name)), TIDE_P_STRING_MAX);
    tideR_model_close(model);
    free(name);
}

TEST(import_takes_many_rows)
{
    enum {
        N = 20000
    };
    struct tide_p_row *many = calloc(N, sizeof *many);
    char(*names)[16] = calloc(N, sizeof *names);
    CHECK(many != NULL && names != NULL);
    for (unsigned i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        many[i] = (struct tide_p_row){"g", names[i], "x.lua", i + 1, i, 1, i};
    }
    struct tide_model *model = imported(many, N);
    CHECK_EQ(model->totals.alloc_bytes, (uint64_t)N * (N - 1) / 2);
    CHECK_EQ(func_of(model, "f19999")->own.alloc_bytes, 19999);
    tideR_model_close(model);
    free(many);
    free(names);
}

TEST(import_that_cannot_be_written_says_so)
{
    CHECK_EQ(tideP_import(rows, N_ROWS, "x", "gcprof", "/no/such/place"),
             TIDE_ERR_IO);
}
