/*
** test_golden.c: profiles from every released format are read for ever, and
** the bad ones are refused with a clear text.
*/
#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "../../profile/reader.h"
#include "../tap.h"
#include "../unit/walk.h"

static const char *golden_path(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s.tide", TIDE_GOLDEN_DIR, name);
    return path;
}

static struct tide_profile *open_golden(const char *name)
{
    struct tide_profile *profile;
    struct tide_p_problem problem;
    CHECK_EQ(tideP_reader_open(golden_path(name), &profile, &problem), TIDE_OK);
    CHECK_STR(tideP_reader_problem(profile)->text, "");
    CHECK_EQ(tideP_check(profile, true, NULL, NULL), 0);
    return profile;
}

TEST(golden_v1_small)
{
    struct tide_profile *profile = open_golden("v1/small");
    const struct tide_p_header *h = tideP_reader_header(profile);
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    const struct walk walk = walk_profile(profile);
    CHECK_EQ(h->version, 1);
    CHECK_EQ(h->state, TIDE_P_CLOSED);
    CHECK_EQ(h->start_unix_ns, 1796040000000000000);
    CHECK_STR(h->lua, "Lua 5.4.4");
    CHECK_STR(h->program, "/usr/bin/lua5.4");
    CHECK_EQ(tideP_reader_n_heaps(profile), 1);
    CHECK_EQ(view->n_funcs, 34);
    CHECK_EQ(view->n_nodes, 60);
    CHECK_EQ(view->n_cycles, 6);
    CHECK_STR(tideP_view_string(view, view->funcs[5].name, NULL), "c5");
    CHECK_STR(tideP_view_string(view, view->funcs[13].source, NULL),
              "@src/mod1.lua");
    CHECK_EQ(view->head->state, TIDE_P_HEAP_CLOSED);
    CHECK_EQ(view->head->peak_bytes, 2023231);
    CHECK_EQ(walk.n_cells, 83);
    CHECK_EQ(walk.live_bytes, 2404307);
    CHECK_EQ(walk.string_bytes, 460);
    tideP_reader_close(profile);
}

TEST(golden_v1_killed)
{
    struct tide_profile *profile = open_golden("v1/killed");
    const struct walk walk = walk_profile(profile);
    CHECK_EQ(tideP_reader_header(profile)->state, TIDE_P_RUNNING);
    CHECK_EQ(tideP_reader_n_heaps(profile), 2);
    CHECK_EQ(tideP_reader_heap(profile, 1)->n_nodes, 40);
    CHECK_EQ(tideP_reader_heap(profile, 1)->head->state, TIDE_P_HEAP_OPEN);
    CHECK_EQ(walk.n_cells, 134);
    CHECK_EQ(walk.live_bytes, 4311031);
    tideP_reader_close(profile);
}

TEST(golden_v1_marks)
{
    struct tide_profile *profile = open_golden("v1/marks");
    const struct tide_p_view *view = tideP_reader_heap(profile, 0);
    struct tide_p_problem problem;
    uint64_t held = 0;
    walk_profile(profile);
    CHECK_EQ(view->n_marks, 7);
    CHECK_EQ(view->n_targets, 4);
    CHECK_STR(tideP_view_string(view, view->marks[4].label, NULL), "mark 1");
    CHECK_EQ(view->marks[3].what, TIDE_P_MARK_FAILED);
    CHECK(view->failed == &view->marks[3]);
    for (uint32_t i = 1; i < view->n_cells; i++)
        held += view->held[i].bytes;
    CHECK_EQ(held, 2309607);
    CHECK_EQ(tideP_reader_to_mark(profile, "mark 1#1", &problem), TIDE_OK);
    CHECK_EQ(walk_profile(profile).live_bytes, 2309607);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_marks, 2);
    CHECK_EQ(tideP_reader_heap(profile, 0)->n_cycles, 4);
    tideP_reader_close(profile);
}

/* A bad profile: what opening it says. */
struct bad {
    const char *name;
    enum tide_err err; /* OK: a part of it can be read */
    const char *text;
};

static const struct bad all_bad[] = {
    {"partial-cut", TIDE_OK, "the file has 25576 of 45056 bytes"},
    {"partial-full", TIDE_OK, "the disk was full when it was written"},
    {"partial-marks", TIDE_OK, "heap 0, snapshot 3: no such cell"},
    {"partial-life", TIDE_OK, "heap 0, cell 3: no such life"},
    {"partial-parent", TIDE_OK,
     "heap 0, node 5: parent does not come before it"},
    {"partial-rest", TIDE_OK, "heap 0, cell 2: no such rest"},
    {"partial-ring", TIDE_OK, "heap 0, node 2: its chain is a ring"},
    {"partial-string", TIDE_OK, "heap 0, string 8: malformed"},
    {"refused-cut", TIDE_ERR_FORMAT, "the file ends inside its directory"},
    {"refused-empty", TIDE_ERR_FORMAT, "not a tidemark profile"},
    {"refused-magic", TIDE_ERR_FORMAT, "not a tidemark profile"},
    {"refused-order", TIDE_ERR_FORMAT,
     "written by a machine of the other byte order"},
    {"refused-overlap", TIDE_ERR_FORMAT, "two extents overlap at page 6"},
    {"refused-version", TIDE_ERR_VERSION,
     "format version 99; this tidemark reads version 1"},
};

#define N_BAD (sizeof all_bad / sizeof all_bad[0])

TEST(golden_bad_profiles_are_refused_or_reported)
{
    for (size_t i = 0; i < N_BAD; i++) {
        struct tide_profile *profile = NULL;
        struct tide_p_problem problem;
        char name[64];
        snprintf(name, sizeof name, "bad/%s", all_bad[i].name);
        fprintf(stderr, "# %s\n", name);
        CHECK_EQ(tideP_reader_open(golden_path(name), &profile, &problem),
                 all_bad[i].err);
        if (all_bad[i].err == TIDE_OK) {
            problem = *tideP_reader_problem(profile);
            walk_profile(profile);
            CHECK(tideP_check(profile, true, NULL, NULL) > 0);
        }
        CHECK_STR(problem.text, all_bad[i].text);
        tideP_reader_close(profile);
    }
}

TEST(golden_every_bad_profile_is_expected)
{
    DIR *dir = opendir(TIDE_GOLDEN_DIR "/bad");
    const struct dirent *entry;
    size_t n = 0;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL)
        n += strstr(entry->d_name, ".tide") != NULL;
    closedir(dir);
    CHECK_EQ(n, N_BAD);
}
