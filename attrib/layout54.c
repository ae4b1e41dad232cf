/*
** layout54.c: Lua's line table.
**
** lineinfo has one signed byte per instruction, the difference to the line of
** the one before; -128 says that the line stands in abslineinfo, a sorted
** array of (pc, line).
*/
#include "layout54.h"

#define ABSLINEINFO (-128)

/* Index of the last entry of abslineinfo at or before pc; -1: none. */
static int32_t find_abs(const int32_t *abs, int32_t n, int32_t pc)
{
    int32_t low = 0;
    int32_t high = n;
    while (low < high) {
        const int32_t mid = low + (high - low) / 2;
        if (abs[2 * mid] <= pc)
            low = mid + 1;
        else
            high = mid;
    }
    return low - 1;
}

uint32_t tideT_line_of(const void *proto, int32_t pc)
{
    const int8_t *deltas = tideT_proto_lineinfo(proto);
    if (deltas == NULL || pc >= tideT_proto_sizelines(proto))
        return 0;
    if (pc < 0)
        pc = 0;
    const int32_t *abs = tideT_proto_absline(proto);
    const int32_t n = tideT_proto_sizeabs(proto);
    const int32_t i = abs == NULL ? -1 : find_abs(abs, n, pc);
    int32_t at = i < 0 ? -1 : abs[2 * i];
    int32_t line = i < 0 ? tideT_proto_linedefined(proto) : abs[2 * i + 1];
    while (at < pc) {
        at++;
        if (deltas[at] != ABSLINEINFO)
            line += deltas[at];
    }
    return line < 0 ? 0 : (uint32_t)line;
}

void tideT_lines_of(const void *proto, int32_t n, uint32_t *lines)
{
    const int8_t *deltas = tideT_proto_lineinfo(proto);
    const int32_t n_deltas = deltas == NULL ? 0 : tideT_proto_sizelines(proto);
    int32_t line = tideT_proto_linedefined(proto);
    for (int32_t pc = 0; pc < n; pc++) {
        if (pc >= n_deltas)
            line = 0;
        else if (deltas[pc] == ABSLINEINFO)
            line = (int32_t)tideT_line_of(proto, pc);
        else
            line += deltas[pc];
        lines[pc] = line < 0 ? 0 : (uint32_t)line;
    }
}
