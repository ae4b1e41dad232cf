/*
** states.h: the states of a profile one by one, where every other report adds
** them up.
*/
#ifndef TIDE_STATES_H
#define TIDE_STATES_H

#include <stdbool.h>
#include <stdio.h>

#include "model.h"

/*
** Writes a row for each heap: one lua_State, or several that came one after
** the other.  Those that allocated most come first.
** top      rows at most; 0: all
** as_json  {"format": "tidemark-states", "version": 1, "states": [...]}
** Errors: IO (errno says why), NOMEM.
*/
enum tide_err tideR_states(const struct tide_model *model, uint32_t top,
                           bool as_json, FILE *out);

#endif
