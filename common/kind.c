/*
** kind.c: names of block kinds, in the order of enum tide_kind.
*/
#include "kind.h"

static const char *const kind_names[TIDE_KIND_COUNT_] = {
    [TIDE_KIND_STRING] = "string",     [TIDE_KIND_TABLE] = "table",
    [TIDE_KIND_FUNCTION] = "function", [TIDE_KIND_USERDATA] = "userdata",
    [TIDE_KIND_THREAD] = "thread",     [TIDE_KIND_UPVALUE] = "upvalue",
    [TIDE_KIND_PROTO] = "proto",       [TIDE_KIND_STORAGE] = "storage",
    [TIDE_KIND_STACK] = "stack",       [TIDE_KIND_CALLINFO] = "callinfo",
    [TIDE_KIND_CODE] = "code",         [TIDE_KIND_BUFFER] = "buffer",
    [TIDE_KIND_OTHER] = "other",
};

const char *tideC_kind_name(unsigned kind)
{
    return kind < TIDE_KIND_COUNT_ ? kind_names[kind] : "other";
}
