/*
** layout54.h: the private structures of Lua 5.4 that tidemark reads.
**
** 64-bit layouts of 5.4.0 to 5.4.8.  What is the same in all of them is a
** constant here; what differs is in struct tide_layout.  All of it is verified
** in a throwaway state against the public API before it is used
** (calibrate.c); a library that fails is handled by public.c alone.
**
** Reading is all that is done, but for one bit: bit 15 of
** CallInfo.callstatus, which no 5.4 uses (they use 14 bits at most), marks a
** frame as seen.  Every call writes callstatus afresh, so a new activation is
** never marked.
*/
#ifndef TIDE_LAYOUT54_H
#define TIDE_LAYOUT54_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/compiler.h"

/* What differs between releases, learned by calibration. */
struct tide_layout {
    uint16_t stack;             /* offset of lua_State.stack: 48 or 56 */
    uint16_t cist_tail;         /* callstatus: the call was a tail call */
    uint16_t cist_fin;          /* callstatus: it called a finalizer */
    bool has_gcstp;             /* global_State.gcstp tells of lua_close */
    uint32_t extra_bytes;       /* LUA_EXTRASPACE before a lua_State */
    uint32_t thread_bytes;      /* size of a coroutine's block */
    uint32_t first_stack_bytes; /* size of a new coroutine's stack */
    uint32_t callinfo_bytes;    /* sizeof(CallInfo) */
};

#define TIDE_CIST_C    ((uint16_t)(1u << 1))
#define TIDE_CIST_MARK ((uint16_t)(1u << 15)) /* ours */

#define TIDE_SLOT_BYTES     16u /* a stack slot, an array element */
#define TIDE_NODE_BYTES     24u /* a node of a table's hash part */
#define TIDE_CALLINFO_BYTES 64u

#define TIDE_TAG_SHORT_STRING 0x44u
#define TIDE_TAG_TABLE        0x45u /* type tag of a value, with its GC bit */
#define TIDE_TAG_LCLOSURE     0x46u
#define TIDE_TAG_CCLOSURE     0x66u
#define TIDE_TAG_LIGHT_C      0x16u
#define TIDE_TAG_THREAD       0x48u

#define TIDE_STATUS_YIELD 1u

/* Opcodes of 5.4, verified by calibration. */
#define TIDE_OP_NEWTABLE 19u
#define TIDE_OP_SETLIST  78u
#define TIDE_OP_EXTRAARG 82u

/* Kinds of objects as the allocator sees them in osize. */
#define TIDE_LUA_TSTRING 4u
#define TIDE_LUA_TTHREAD 8u
#define TIDE_LUA_TPROTO  10u

/*
** One field of a private structure.  The memory is Lua's, alive while the
** allocator runs.
*/
#define TIDE_AT(type, base, offset)                                            \
 (*(type *)(void *)((char *)(uintptr_t)(const void *)(base) + (offset)))

/* lua_State */
#define tideT_L_status(L) TIDE_AT(uint8_t, L, 10)
#define tideT_L_top(L)    TIDE_AT(char *, L, 16)
#define tideT_L_global(L) TIDE_AT(char *, L, 24)
#define tideT_L_ci(L)     TIDE_AT(char *, L, 32)

/* CallInfo */
#define tideT_ci_func(ci)     TIDE_AT(char *, ci, 0)
#define tideT_ci_previous(ci) TIDE_AT(char *, ci, 16)
#define tideT_ci_next(ci)     TIDE_AT(char *, ci, 24)
#define tideT_ci_savedpc(ci)  TIDE_AT(const uint32_t *, ci, 32)
#define tideT_ci_status(ci)   TIDE_AT(uint16_t, ci, 62)

/* A value: stack slot or upvalue */
#define tideT_value_ptr(slot) TIDE_AT(char *, slot, 0)
#define tideT_value_tag(slot) TIDE_AT(uint8_t, slot, 8)

/* Closures */
#define tideT_lclosure_proto(cl) TIDE_AT(char *, cl, 24)
#define tideT_cclosure_f(cl)     TIDE_AT(char *, cl, 24)
#define tideT_cclosure_up(cl)    ((char *)(cl) + 32) /* first upvalue */
#define tideT_closure_nup(cl)    TIDE_AT(uint8_t, cl, 10)

/* Proto */
#define tideT_proto_sizecode(p)    TIDE_AT(int32_t, p, 24)
#define tideT_proto_sizelines(p)   TIDE_AT(int32_t, p, 28)
#define tideT_proto_sizeabs(p)     TIDE_AT(int32_t, p, 40)
#define tideT_proto_linedefined(p) TIDE_AT(int32_t, p, 44)
#define tideT_proto_lastline(p)    TIDE_AT(int32_t, p, 48)
#define tideT_proto_k(p)           TIDE_AT(char *, p, 56)
#define tideT_proto_code(p)        TIDE_AT(const uint32_t *, p, 64)
#define tideT_proto_p(p)           TIDE_AT(char *, p, 72)
#define tideT_proto_upvalues(p)    TIDE_AT(char *, p, 80)
#define tideT_proto_lineinfo(p)    TIDE_AT(const int8_t *, p, 88)
#define tideT_proto_absline(p)     TIDE_AT(const int32_t *, p, 96)
#define tideT_proto_locvars(p)     TIDE_AT(char *, p, 104)
#define tideT_proto_source(p)      TIDE_AT(char *, p, 112)

/* TString */
#define tideT_string_text(s) ((const char *)(s) + 24)

/* Table */
#define tideT_table_array(t)     TIDE_AT(char *, t, 16)
#define tideT_table_node(t)      TIDE_AT(char *, t, 24)
#define tideT_table_log_nodes(t) TIDE_AT(uint8_t, t, 11) /* log2 of them */
#define tideT_table_limit(t)     TIDE_AT(uint32_t, t, 12)

/* A node of its hash part: the value is at its beginning */
#define tideT_node_key_tag(n) TIDE_AT(uint8_t, n, 9)
#define tideT_node_key(n)     TIDE_AT(char *, n, 16)

/*
** What identifies the function in a stack slot: the Proto of a Lua closure, the
** C function of the others; NULL: neither.  p and f stand at the same place.
*/
TIDE_INLINE const void *tideT_fn_of_slot(const char *slot, bool *is_lua)
{
    const char *value = tideT_value_ptr(slot);
    const uint8_t tag = tideT_value_tag(slot);
    *is_lua = tag == TIDE_TAG_LCLOSURE;
    if (tag == TIDE_TAG_LIGHT_C)
        return value;
    if (tag == TIDE_TAG_LCLOSURE || tag == TIDE_TAG_CCLOSURE)
        return tideT_cclosure_f(value);
    return NULL;
}

/* global_State */
#define tideT_g_ud(g)          TIDE_AT(void *, g, 8)
#define tideT_g_base(g)        TIDE_AT(int64_t, g, 16) /* and the debt: */
#define tideT_g_debt(g)        TIDE_AT(int64_t, g, 24)
#define tideT_g_total(g)       (tideT_g_base(g) + tideT_g_debt(g))
#define tideT_g_strings(g)     TIDE_AT(char *, g, 48)
#define TIDE_G_REGISTRY_AT     64 /* a value */
#define tideT_g_white(g)       TIDE_AT(uint8_t, g, 100)
#define tideT_g_gcstate(g)     TIDE_AT(uint8_t, g, 101)
#define tideT_g_gckind(g)      TIDE_AT(uint8_t, g, 102)
#define tideT_g_gcstp(g)       TIDE_AT(uint8_t, g, 106)
#define tideT_g_gcemergency(g) TIDE_AT(uint8_t, g, 107)
#define tideT_g_gcpause(g)     TIDE_AT(uint8_t, g, 108) /* percent / 4 */
#define tideT_g_gcstepmul(g)   TIDE_AT(uint8_t, g, 109) /* percent / 4 */

/*
** Bytes 100 to 107 of global_State in one word: currentwhite in the low byte,
** gcstate, gckind, gcstp in byte 6.  The fast path compares what gcwatch.c asks
** for.
*/
#define TIDE_GC_WORD_AT    100
#define TIDE_GC_WHITE_MASK UINT64_C(0x00000000000000ff)
#define TIDE_GC_STATE_MASK UINT64_C(0x000000000000ff00)
#define TIDE_GC_KIND_MASK  UINT64_C(0x0000000000ff0000)
#define TIDE_GC_USER_MASK  UINT64_C(0x0001000000000000) /* GCSTPUSR */
#define TIDE_GC_CLOSE_MASK UINT64_C(0x0004000000000000) /* GCSTPCLS */
/* In no mask: with it no word is equal, the next call takes the slow path. */
#define TIDE_GC_ASKED UINT64_C(0x8000000000000000)

/* Instructions */
TIDE_INLINE uint32_t tideT_op(uint32_t i)
{
    return i & 0x7f;
}
TIDE_INLINE uint32_t tideT_op_a(uint32_t i)
{
    return (i >> 7) & 0xff;
}
TIDE_INLINE uint32_t tideT_op_k(uint32_t i)
{
    return (i >> 15) & 1;
}
TIDE_INLINE uint32_t tideT_op_b(uint32_t i)
{
    return (i >> 16) & 0xff;
}
TIDE_INLINE uint32_t tideT_op_c(uint32_t i)
{
    return i >> 24;
}
TIDE_INLINE uint32_t tideT_op_ax(uint32_t i)
{
    return i >> 7;
}

/* Bits of a NEWTABLE that say how large the table's parts are: k, B and C. */
#define TIDE_OP_SIZES 0xffff8000u

/* Element count of the array part that a NEWTABLE or SETLIST at pc names. */
TIDE_INLINE uint32_t tideT_op_count(const uint32_t *pc)
{
    uint32_t n = tideT_op_c(pc[0]);
    if (tideT_op_k(pc[0]))
        n += tideT_op_ax(pc[1]) * 256u;
    return n;
}

/*
** The line of an instruction, 0 when the chunk has no line information.
** As luaG_getfuncline: the nearest absolute line before it, then deltas.
*/
uint32_t tideT_line_of(const void *proto, int32_t pc);

/* The lines of the first n instructions. */
void tideT_lines_of(const void *proto, int32_t n, uint32_t *lines);

#endif
