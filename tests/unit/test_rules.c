/*
** test_rules.c: files of rules, right ones and wrong ones.
*/
#include <string.h>

#include "../../common/rules.h"
#include "../tap.h"

#define MAX 8u

struct seen {
    unsigned n;
    char rules[MAX][256]; /* "group|source|module|name" */
};

static enum tide_err note(void *ctx, const struct tide_rule *rule)
{
    struct seen *seen = ctx;
    CHECK(seen->n < MAX);
    snprintf(seen->rules[seen->n++], sizeof seen->rules[0], "%s|%s|%s|%s",
             rule->group, rule->source, rule->module, rule->name);
    return strcmp(rule->group, "stop") == 0 ? TIDE_ERR_NOMEM : TIDE_OK;
}

static const char *parse(const char *text, struct seen *seen)
{
    static char why[128];
    memset(seen, 0, sizeof *seen);
    strcpy(why, "");
    const enum tide_err err =
        tideC_rules_parse(text, strlen(text), note, seen, why, sizeof why);
    CHECK_EQ(err == TIDE_ERR_ARG, why[0] != '\0');
    return why;
}

TEST(rules_have_keys_in_any_order)
{
    struct seen seen;
    CHECK_STR(parse("ai source=*/ai/*.lua\n"
                    "net function=on_* module=socket*\n"
                    "\n"
                    "  # a remark = with everything \"\n"
                    "\tall\tsource=a\tmodule=b\tfunction=c # more\r\n"
                    "last function=x",
                    &seen),
              "");
    CHECK_EQ(seen.n, 4);
    CHECK_STR(seen.rules[0], "ai|*/ai/*.lua||");
    CHECK_STR(seen.rules[1], "net||socket*|on_*");
    CHECK_STR(seen.rules[2], "all|a|b|c");
    CHECK_STR(seen.rules[3], "last|||x");
}

TEST(rules_quotes_hold_blanks_and_quotes)
{
    struct seen seen;
    CHECK_STR(parse("\"my hooks\" source=\"my game/*\"\n"
                    "\"say \"\"hi\"\"\" \"function=a=b\"\n",
                    &seen),
              "line 2: 'function=a=b' is not key=PATTERN");
    CHECK_EQ(seen.n, 1);
    CHECK_STR(seen.rules[0], "my hooks|my game/*||");
    CHECK_STR(parse("\"say \"\"hi\"\"\" function=a=b", &seen), "");
    CHECK_STR(seen.rules[0], "say \"hi\"|||a=b");
}

TEST(rules_that_are_wrong_say_where)
{
    struct seen seen;
    CHECK_STR(parse("a source=x\n\nb\n", &seen),
              "line 3: group 'b' has no pattern");
    CHECK_EQ(seen.n, 1);
    CHECK_STR(parse("source=x\n", &seen),
              "line 1: a rule begins with the group's name");
    CHECK_STR(parse("a file=x\n", &seen),
              "line 1: unknown key 'file'; source, module and function are");
    CHECK_STR(parse("a x\n", &seen), "line 1: 'x' is not key=PATTERN");
    CHECK_STR(parse("a source=\n", &seen), "line 1: no pattern for 'source'");
    CHECK_STR(parse("a source=x source=y\n", &seen),
              "line 1: two patterns for 'source'");
    CHECK_STR(parse("\"a source=x\n", &seen), "line 1: no closing quote");
}

TEST(rules_long_words_and_zeros_are_refused)
{
    struct seen seen;
    char text[TIDE_RULE_WORD_MAX + 32];
    char why[64];
    memset(text, 'g', sizeof text);
    text[TIDE_RULE_WORD_MAX + 1] = ' ';
    strcpy(text + TIDE_RULE_WORD_MAX + 2, "source=x");
    CHECK_STR(parse(text, &seen), "line 1: a word is longer than 255 bytes");
    memmove(text, text + 1, strlen(text));
    CHECK_STR(parse(text, &seen), "");
    CHECK_EQ(seen.n, 1);
    CHECK_EQ(
        tideC_rules_parse("a source=x\0y", 12, note, &seen, why, sizeof why),
        TIDE_ERR_ARG);
    CHECK_STR(why, "not a text");
}

TEST(rules_stop_at_the_first_that_is_refused)
{
    struct seen seen;
    char why[64] = "";
    static const char text[] = "stop source=x\nb source=y\n";
    memset(&seen, 0, sizeof seen);
    CHECK_EQ(
        tideC_rules_parse(text, sizeof text - 1, note, &seen, why, sizeof why),
        TIDE_ERR_NOMEM);
    CHECK_EQ(seen.n, 1);
    CHECK_STR(why, "");
}
