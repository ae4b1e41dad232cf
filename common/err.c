/*
** err.c: texts of enum tide_err.
*/
#include "err.h"

const char *tide_err_text(enum tide_err err)
{
    switch (err) {
    case TIDE_OK:
        return "no error";
    case TIDE_ERR_ARG:
        return "wrong argument";
    case TIDE_ERR_NOMEM:
        return "not enough memory";
    case TIDE_ERR_IO:
        return "input or output failed";
    case TIDE_ERR_FORMAT:
        return "not a profile, or a damaged one";
    case TIDE_ERR_VERSION:
        return "unknown format version";
    case TIDE_ERR_LUA:
        return "not a Lua 5.4 that tidemark can use";
    case TIDE_ERR_STATE:
        return "not possible now";
    case TIDE_ERR_COUNT_:
        break;
    }
    return "unknown error";
}
