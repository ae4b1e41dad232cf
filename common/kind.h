/*
** kind.h: kinds of blocks and their names: one table for the writer of
** profiles, for reports and for JSON.
*/
#ifndef TIDE_KIND_H
#define TIDE_KIND_H

/*
** What Lua wanted a block for.  The numbers stand in profile files: add new
** ones at the end only.
*/
enum tide_kind {
    TIDE_KIND_STRING = 0, /* strings */
    TIDE_KIND_TABLE,      /* table objects, without their storage */
    TIDE_KIND_FUNCTION,   /* closures, Lua and C */
    TIDE_KIND_USERDATA,   /* full userdata */
    TIDE_KIND_THREAD,     /* coroutines with their first stack */
    TIDE_KIND_UPVALUE,    /* boxes of captured variables */
    TIDE_KIND_PROTO,      /* function prototypes, without their vectors */
    TIDE_KIND_STORAGE,    /* array and hash parts of tables */
    TIDE_KIND_STACK,      /* Lua stacks that have been resized */
    TIDE_KIND_CALLINFO,   /* call records */
    TIDE_KIND_CODE,       /* vectors of prototypes: code, constants, lines */
    TIDE_KIND_BUFFER,     /* obtained through lua_getallocf: not in count() */
    TIDE_KIND_OTHER,      /* string table, compiler's work space, not known */
    TIDE_KIND_COUNT_
};

/* Name of a kind as in reports and in JSON; "other" when out of range. */
const char *tideC_kind_name(unsigned kind);

#endif
