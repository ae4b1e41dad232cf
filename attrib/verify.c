/*
** verify.c: holds layout54 against the public API.
**
** Each private field is compared with what a public function says.  Pointers
** are checked before they are followed: a library with another layout must
** cost a lower tier, not a crash.
*/
#include "probe.h"

#include <stdio.h>
#include <string.h>

/* Notes the first fault; false so that callers can return it. */
static bool fault(struct tide_probe *p, const char *what)
{
    if (p->fault[0] == '\0')
        snprintf(p->fault, sizeof p->fault, "%s is not where 5.4 has it", what);
    p->has_layout = false;
    return false;
}

static bool is_in_first_block(const struct tide_probe *p, const char *at)
{
    return at >= p->first_block && at < p->first_block + p->first_bytes;
}

static bool verify_global(struct tide_probe *p, lua_State *L)
{
    const struct tide_lua_api *api = p->api;
    const char *g = tideT_L_global(L);
    if (!is_in_first_block(p, g) || !is_in_first_block(p, g + 112))
        return fault(p, "lua_State.l_G");
    void *ud = NULL;
    const lua_Alloc f = api->getallocf(L, &ud);
    if (memcmp(&f, g, sizeof f) != 0 || tideT_g_ud(g) != ud)
        return fault(p, "global_State.frealloc");
    const int64_t count =
        (int64_t)api->gc(L, LUA_GCCOUNT) * 1024 + api->gc(L, LUA_GCCOUNTB);
    if (tideT_g_total(g) != count)
        return fault(p, "global_State.totalbytes");
    const uint8_t white = tideT_g_white(g);
    api->gc(L, LUA_GCCOLLECT);
    if (tideT_g_white(g) == white || (tideT_g_white(g) ^ white) != 0x18)
        return fault(p, "global_State.currentwhite");
    const uint8_t stopped = tideT_g_gcstp(g);
    api->gc(L, LUA_GCRESTART);
    const uint8_t running = tideT_g_gcstp(g);
    api->gc(L, LUA_GCSTOP);
    /* before 5.4.4 there is gcrunning, the other way round */
    p->layout.has_gcstp = stopped == 1 && running == 0;
    p->g = g;
    return true;
}

static bool verify_frame_of_c(struct tide_probe *p, lua_State *L)
{
    lua_Debug ar[2]; /* room for a larger one */
    memset(ar, 0, sizeof ar);
    const char *ci = tideT_L_ci(L);
    if (p->api->getstack(L, 0, ar) != 1 || (const char *)ar[0].i_ci != ci)
        return fault(p, "lua_State.ci");
    const char *top = tideT_L_top(L);
    if (!p->api->checkstack(L, 4))
        return fault(p, "room on the stack");
    top = tideT_L_top(L);
    p->api->pushnil(L);
    if (tideT_L_top(L) != top + TIDE_SLOT_BYTES)
        return fault(p, "lua_State.top");
    p->api->settop(L, -2);
    const char *func = tideT_ci_func(ci);
    if (func >= top || top - func > (1 << 20))
        return fault(p, "CallInfo.func");
    if (tideT_value_tag(func) != TIDE_TAG_LIGHT_C)
        return fault(p, "the tag of a C function");
    if ((tideT_ci_status(ci) & TIDE_CIST_C) == 0 ||
        (tideT_ci_status(ci) & TIDE_CIST_MARK) != 0)
        return fault(p, "CallInfo.callstatus");
    return true;
}

static bool verify_stack(struct tide_probe *p, lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    for (int depth = 0; tideT_ci_previous(ci) != NULL; depth++) {
        ci = tideT_ci_previous(ci);
        if (depth > 200)
            return fault(p, "CallInfo.previous");
    }
    const char *bottom = tideT_ci_func(ci);
    if (TIDE_AT(char *, L, 48) == bottom)
        p->layout.stack = 48;
    else if (TIDE_AT(char *, L, 56) == bottom)
        p->layout.stack = 56;
    else
        return fault(p, "lua_State.stack");
    return true;
}

static bool verify_opcodes(struct tide_probe *p, lua_State *L)
{
    static const char chunk[] = "local a = {} local b = {...}";
    if (p->api->loadbufferx(L, chunk, sizeof chunk - 1, "=ops", NULL) != LUA_OK)
        return fault(p, "the compiler");
    const char *closure = p->api->topointer(L, -1);
    const char *proto = tideT_lclosure_proto(closure);
    const uint32_t *code = tideT_proto_code(proto);
    const bool is_right =
        tideT_proto_sizecode(proto) >= 7 &&
        tideT_op(code[1]) == TIDE_OP_NEWTABLE && tideT_op_a(code[1]) == 0 &&
        tideT_op(code[2]) == TIDE_OP_EXTRAARG &&
        tideT_op(code[3]) == TIDE_OP_NEWTABLE && tideT_op_a(code[3]) == 1 &&
        tideT_op(code[6]) == TIDE_OP_SETLIST && tideT_op_a(code[6]) == 1 &&
        tideT_op_b(code[6]) == 0;
    p->api->settop(L, -2);
    return is_right || fault(p, "an opcode");
}

void tideT_verify(struct tide_probe *p, lua_State *L)
{
    if (p->is_foreign_version)
        return;
    p->layout.extra_bytes = LUA_EXTRASPACE;
    p->has_layout = verify_global(p, L) && verify_frame_of_c(p, L) &&
                    verify_stack(p, L) && verify_opcodes(p, L);
}

static bool verify_proto(struct tide_probe *p, const char *proto,
                         const uint32_t *pc, const lua_Debug *ar)
{
    if (tideT_proto_linedefined(proto) != ar->linedefined ||
        tideT_proto_lastline(proto) != ar->lastlinedefined)
        return fault(p, "Proto.linedefined");
    const uint32_t *code = tideT_proto_code(proto);
    const int32_t n = tideT_proto_sizecode(proto);
    if (pc <= code || pc > code + n || n <= 0)
        return fault(p, "Proto.code");
    const int32_t i = (int32_t)(pc - code) - 1;
    if (tideT_line_of(proto, i) != (uint32_t)ar->currentline)
        return fault(p, "Proto.lineinfo");
    if (tideT_string_text(tideT_proto_source(proto)) != ar->source)
        return fault(p, "Proto.source");
    return true;
}

void tideT_verify_frame(struct tide_probe *p, lua_State *L)
{
    lua_Debug ar[2];
    memset(ar, 0, sizeof ar);
    if (p->api->getstack(L, 1, ar) != 1 || p->api->getinfo(L, "Slf", ar) == 0)
        return;
    const char *closure = p->api->topointer(L, -1);
    const char *ci = tideT_ci_previous(tideT_L_ci(L));
    const char *func = tideT_ci_func(ci);
    if ((const char *)ar[0].i_ci != ci)
        fault(p, "CallInfo.previous");
    else if (tideT_value_tag(func) != TIDE_TAG_LCLOSURE ||
             tideT_value_ptr(func) != closure)
        fault(p, "the tag of a Lua function");
    else if ((tideT_ci_status(ci) & TIDE_CIST_C) != 0)
        fault(p, "CallInfo.callstatus");
    else
        verify_proto(p, tideT_lclosure_proto(closure), tideT_ci_savedpc(ci),
                     ar);
    p->saw_frame = true;
    p->api->settop(L, -2);
    /* CIST_TAIL is bit 4 or 5, CIST_FIN two above: see tideT_verify_end */
}

void tideT_verify_end(struct tide_probe *p)
{
    if (p->fault[0] != '\0' || !p->has_layout)
        return;
    const uint16_t bits = p->tail_status & (uint16_t)~p->plain_status;
    if (bits != 1u << 4 && bits != 1u << 5)
        fault(p, "CIST_TAIL");
    else if (!p->saw_finalizer)
        fault(p, "CIST_FIN");
    else if (!p->saw_frame)
        fault(p, "the frame of a Lua function");
    else if (p->layout.thread_bytes == 0 || p->layout.first_stack_bytes == 0)
        fault(p, "the block of a coroutine");
    p->layout.cist_tail = bits;
}
