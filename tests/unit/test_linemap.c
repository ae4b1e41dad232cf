/*
** test_linemap.c: lines found again in a later version of a text.
*/
#include <stdlib.h>
#include <string.h>

#include "../../report/linemap.h"
#include "../tap.h"

/* Checks the map of a to b, written as "1 2 0 3". */
static void check_map(const char *a, const char *b, const char *wanted)
{
    char text[512] = "";
    uint32_t *map;
    uint32_t n;
    CHECK_EQ(tideR_linemap(a, strlen(a), b, strlen(b), &map, &n), TIDE_OK);
    for (uint32_t i = 1; i <= n; i++) {
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%u", i > 1 ? " " : "",
                 (unsigned)map[i]);
    }
    CHECK_STR(text, wanted);
    free(map);
}

TEST(linemap_of_the_same_text_is_itself)
{
    check_map("a\nb\nc\n", "a\nb\nc\n", "1 2 3");
    check_map("a\na\na\n", "a\na\na\n", "1 2 3");
    check_map("", "", "");
    check_map("a", "a\n", "1");
}

TEST(linemap_follows_lines_that_were_pushed_down)
{
    check_map("a\nb\nc\n", "x\ny\na\nb\nc\n", "3 4 5");
    check_map("a\nb\nc\n", "a\nx\nb\nc\n", "1 3 4");
    check_map("a\nend\nb\nend\n", "x\na\nend\nb\nend\n", "2 3 4 5");
}

TEST(linemap_knows_lines_that_are_gone)
{
    check_map("a\nb\nc\n", "a\nc\n", "1 0 2");
    check_map("a\nb\n", "", "0 0");
    check_map("a\nb\nc\nd\n", "d\n", "0 0 0 1");
}

TEST(linemap_takes_a_changed_line_for_what_stands_there)
{
    check_map("a\nb = 1\nc\n", "a\nb = 2\nc\n", "1 2 3");
    check_map("a\nb\nc\n", "z\na\nB\nc\n", "2 3 4");
    check_map("a\nb\nc\n", "a\nx\ny\nc\n", "1 0 4");
}

TEST(linemap_does_not_mind_blanks_around_a_line)
{
    check_map("  a\nb\r\n", "x\n\ta\n  b  \n", "2 3");
}

TEST(linemap_keeps_the_order_of_what_it_maps)
{
    uint64_t state = 99;
    for (int round = 0; round < 300; round++) {
        char texts[2][256];
        for (int k = 0; k < 2; k++) {
            size_t n = 0;
            const int lines = (int)(state >> 33) % 40;
            for (int i = 0; i < lines; i++) {
                state = state * 6364136223846793005u + 1442695040888963407u;
                texts[k][n++] = (char)('a' + (state >> 40) % 12);
                texts[k][n++] = '\n';
            }
            texts[k][n] = '\0';
        }
        uint32_t *map;
        uint32_t n;
        uint32_t last = 0;
        const size_t b_lines = strlen(texts[1]) / 2;
        CHECK_EQ(tideR_linemap(texts[0], strlen(texts[0]), texts[1],
                               strlen(texts[1]), &map, &n),
                 TIDE_OK);
        CHECK_EQ(n, strlen(texts[0]) / 2);
        for (uint32_t i = 1; i <= n; i++) {
            if (map[i] == 0)
                continue;
            CHECK(map[i] > last && map[i] <= b_lines);
            last = map[i];
        }
        free(map);
    }
}
