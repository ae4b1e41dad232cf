/*
** rules.h: the file of rules that put functions into groups.
**
** One rule stands on a line: a group's name and one or more of
**
**     source=PATTERN     of source files, as "game/ai.lua" or with a full path
**     module=PATTERN     of modules and C libraries
**     function=PATTERN   of names of functions
**
** all of which must match.  Patterns are those of fnmatch(3), where * also
** matches a slash.  Words with blanks stand in "..."; "" in it is one quote.
** What follows a # at the start of a word is not read.
*/
#ifndef TIDE_RULES_H
#define TIDE_RULES_H

#include <stddef.h>

#include "err.h"

#define TIDE_RULE_WORD_MAX 255u /* longest group or pattern, in bytes */

/* One rule; "" for what is not asked. */
struct tide_rule {
    const char *group;
    const char *source;
    const char *module;
    const char *name; /* function= */
};

typedef enum tide_err (*tide_rule_fn)(void *ctx, const struct tide_rule *rule);

/*
** Reads rules from a text of n bytes and hands each to rule_fn, whose first
** error ends it.
** why  gets the message of an error: "line 3: unknown key 'x'".
** Errors: ARG, or what rule_fn returned.
*/
enum tide_err tideC_rules_parse(const char *text, size_t n,
                                tide_rule_fn rule_fn, void *ctx, char *why,
                                size_t why_bytes);

#endif
