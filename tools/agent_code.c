/*
** agent_code.c: moves the first instructions of a function elsewhere.
**
** A patched function begins with a jump to our own.  To call the original, the
** instructions under the jump are executed from a copy, an island, which ends
** with a jump to the rest.  Only instructions that mean the same anywhere are
** moved: the decoder knows the lengths of the common integer and SSE ones, and
** refuses what it does not know, what is relative to its address (but for lea,
** a last call and jumps out of the moved part, which it rewrites), and
** functions that are too short.  Both decoders are plain functions of bytes
** and built everywhere.
*/
#include "agent_code.h"

#include <string.h>

/* ------------------------------------------------------------- x86-64 */

/* What follows an opcode. */
enum form {
    FORM_PLAIN = 0,
    FORM_MODRM = 1,
    FORM_IMM8 = 2,
    FORM_IMM32 = 4,
    FORM_IMM_BY_REX = 8, /* 64 bits with REX.W, else 32 */
    FORM_JUMP = 16,      /* relative, with the size from IMM8 or IMM32 */
    FORM_END = 32,       /* the function ends here */
    FORM_CALL = 64,      /* with FORM_JUMP: a call */
    FORM_ADDRESS = 128,  /* the address of something beside it (lea) */
    FORM_UNKNOWN = 256,
};

/* One decoded instruction. */
struct insn {
    size_t n_bytes;
    unsigned form;
    uint8_t condition; /* of a conditional jump: low 4 bits; else 0xff */
    uint8_t target;    /* FORM_ADDRESS: number of the register */
    bool is_nop;       /* padding between functions */
    int32_t offset;    /* FORM_JUMP, FORM_ADDRESS: from the instruction's end */
};

/* Where the copy stands. */
struct move {
    const struct tideG_code *code;
    uint8_t *out;
    size_t n_read;
    size_t n_written;
    uint64_t targets[4]; /* of rewritten jumps, checked at the end */
    unsigned n_targets;
    bool is_ended;
};

size_t tideG_code_jump_x86_64(uint64_t to, uint8_t *out)
{
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *(%rip) */
    memcpy(out, jump, sizeof jump);
    memcpy(out + sizeof jump, &to, sizeof to);
    return sizeof jump + sizeof to;
}

static unsigned form_of_one_byte(uint8_t op)
{
    if (op < 0x40) { /* add, or, adc, sbb, and, sub, xor, cmp */
        static const unsigned forms[8] = {FORM_MODRM,   FORM_MODRM,  FORM_MODRM,
                                          FORM_MODRM,   FORM_IMM8,   FORM_IMM32,
                                          FORM_UNKNOWN, FORM_UNKNOWN};
        return forms[op & 7];
    }
    if ((op >= 0x50 && op <= 0x5f) || op == 0x90 || op == 0x98 || op == 0x99 ||
        op == 0xcc)
        return FORM_PLAIN;
    if ((op >= 0x84 && op <= 0x8b) || op == 0x8d || op == 0x63 ||
        (op >= 0xd0 && op <= 0xd3) || op == 0xfe)
        return FORM_MODRM;
    if (op >= 0xb0 && op <= 0xb7)
        return FORM_IMM8;
    if (op >= 0xb8 && op <= 0xbf)
        return FORM_IMM_BY_REX;
    if (op >= 0x70 && op <= 0x7f)
        return FORM_IMM8 | FORM_JUMP;
    switch (op) {
    case 0x68:
    case 0xa9:
        return FORM_IMM32;
    case 0x6a:
    case 0xa8:
        return FORM_IMM8;
    case 0x69:
    case 0x81:
    case 0xc7:
        return FORM_MODRM | FORM_IMM32;
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        return FORM_MODRM | FORM_IMM8;
    case 0xc3:
        return FORM_END;
    case 0xe8:
        return FORM_IMM32 | FORM_JUMP | FORM_CALL;
    case 0xe9:
        return FORM_IMM32 | FORM_JUMP | FORM_END;
    case 0xeb:
        return FORM_IMM8 | FORM_JUMP | FORM_END;
    default:
        return FORM_UNKNOWN;
    }
}

/* Opcodes behind 0x0f. */
static unsigned form_of_two_bytes(uint8_t op)
{
    if (op >= 0x80 && op <= 0x8f)
        return FORM_IMM32 | FORM_JUMP;
    if ((op >= 0x10 && op <= 0x1f) || op == 0x28 || op == 0x29 || op == 0x2e ||
        op == 0x2f || (op >= 0x40 && op <= 0x6f) || op == 0x7e || op == 0x7f ||
        (op >= 0x90 && op <= 0x9f) || op == 0xaf || op == 0xb6 || op == 0xb7 ||
        op == 0xbe || op == 0xbf || op == 0xd6 || op == 0xef)
        return FORM_MODRM;
    return op == 0xc6 ? FORM_MODRM | FORM_IMM8 : FORM_UNKNOWN;
}

/* Bytes of ModRM, SIB and displacement; 0: relative to the address. */
static size_t modrm_bytes(const uint8_t *at)
{
    const uint8_t mod = at[0] >> 6;
    const uint8_t rm = at[0] & 7;
    if (mod == 3)
        return 1;
    if (mod == 0 && rm == 5)
        return 0;
    const bool has_sib = rm == 4;
    size_t n = has_sib ? 2 : 1;
    if (mod == 1)
        n += 1;
    else if (mod == 2 || (has_sib && (at[1] & 7) == 5))
        n += 4;
    return n;
}

static bool is_prefix(uint8_t byte)
{
    return byte == 0x66 || byte == 0xf2 || byte == 0xf3 || byte == 0x64 ||
           byte == 0x65 || byte == 0x2e;
}

static size_t immediate_bytes(unsigned form, bool is_wide)
{
    if (form & FORM_IMM_BY_REX)
        return is_wide ? 8 : 4;
    return form & FORM_IMM8 ? 1 : form & FORM_IMM32 ? 4 : 0;
}

static void note_jump(struct insn *insn, const uint8_t *at, uint8_t op)
{
    const bool is_always = insn->form & (FORM_END | FORM_CALL);
    insn->condition = is_always ? 0xff : op & 15;
    if (insn->form & FORM_IMM8)
        insn->offset = (int8_t)at[0];
    else
        memcpy(&insn->offset, at, sizeof insn->offset);
}

/* The bytes in front of the operands. */
struct opcode {
    bool has_66;
    bool has_prefix;
    uint8_t rex; /* 0: none */
    bool is_long;
    uint8_t op;
};

static const uint8_t *decode_opcode(const uint8_t *at, struct opcode *out)
{
    memset(out, 0, sizeof *out);
    for (unsigned n = 0; is_prefix(*at) && n < 8; n++) {
        out->has_prefix = true;
        out->has_66 |= *at++ == 0x66;
    }
    if ((*at & 0xf0) == 0x40)
        out->rex = *at++;
    out->op = *at++;
    out->is_long = out->op == 0x0f;
    if (out->is_long)
        out->op = *at++;
    return at;
}

/* F6 and F7 have an immediate in two of their eight meanings. */
static unsigned form_of_opcode(const struct opcode *code, uint8_t modrm)
{
    if (code->is_long)
        return form_of_two_bytes(code->op);
    if (code->op != 0xf6 && code->op != 0xf7)
        return form_of_one_byte(code->op);
    if ((modrm >> 3 & 7) >= 2)
        return FORM_MODRM;
    return FORM_MODRM | (code->op == 0xf6 ? FORM_IMM8 : FORM_IMM32);
}

/* lea of an address beside the code is the one such operand that is taken. */
static bool note_address(struct insn *insn, const struct opcode *code,
                         const uint8_t *at)
{
    if (code->is_long || code->op != 0x8d || code->has_prefix ||
        (code->rex & 8) == 0)
        return false;
    insn->form = FORM_ADDRESS;
    insn->target = (at[0] >> 3 & 7) | (code->rex & 4) << 1;
    memcpy(&insn->offset, at + 1, sizeof insn->offset);
    return true;
}

/* False: not one that may be moved.  At most 20 bytes are looked at. */
static bool decode(const uint8_t *bytes, struct insn *insn)
{
    struct opcode code;
    memset(insn, 0, sizeof *insn);
    const uint8_t *at = decode_opcode(bytes, &code);
    insn->form = form_of_opcode(&code, at[0]);
    /* A 16-bit immediate is rare enough to be left alone. */
    if (insn->form & FORM_UNKNOWN ||
        (code.has_66 && insn->form & (FORM_IMM32 | FORM_IMM_BY_REX)))
        return false;
    insn->is_nop =
        code.is_long ? code.op == 0x1f : code.op == 0x90 || code.op == 0xcc;
    if (insn->form & FORM_MODRM) {
        const size_t n = modrm_bytes(at);
        if (n == 0 && !note_address(insn, &code, at))
            return false;
        at += n > 0 ? n : 5;
    }
    if (insn->form & FORM_JUMP)
        note_jump(insn, at, code.op);
    at += immediate_bytes(insn->form, code.rex & 8);
    insn->n_bytes = (size_t)(at - bytes);
    return true;
}

/* What an operand relative to the instruction's end means. */
static uint64_t absolute(const struct move *move, const struct insn *insn)
{
    return move->code->at + move->n_read + insn->n_bytes +
           (uint64_t)(int64_t)insn->offset;
}

/* mov $address, register */
static void move_address(struct move *move, const struct insn *insn)
{
    uint8_t *out = move->out + move->n_written;
    const uint64_t address = absolute(move, insn);
    out[0] = 0x48 | insn->target >> 3;
    out[1] = 0xb8 | (insn->target & 7);
    memcpy(out + 2, &address, sizeof address);
    move->n_written += 2 + sizeof address;
}

/*
** A call returns to where it stood, so it must be the last instruction moved:
** push the address behind it, then jump.
*/
static bool move_call(struct move *move, const struct insn *insn)
{
    static const uint8_t push[] = {0xff, 0x35, TIDEG_JUMP_BYTES_X86_64,
                                   0,    0,    0}; /* push 14(%rip) */
    const uint64_t back = move->code->at + move->n_read + insn->n_bytes;
    uint8_t *out = move->out + move->n_written;
    if (move->n_read + insn->n_bytes < TIDEG_JUMP_BYTES_X86_64)
        return false;
    memcpy(out, push, sizeof push);
    const size_t n = sizeof push + tideG_code_jump_x86_64(absolute(move, insn),
                                                          out + sizeof push);
    memcpy(out + n, &back, sizeof back);
    move->n_written += n + sizeof back;
    return true;
}

/* A jump out of the moved part, to an absolute address now. */
static bool move_jump(struct move *move, const struct insn *insn)
{
    const uint64_t to = absolute(move, insn);
    uint8_t *out = move->out + move->n_written;
    if (move->n_targets == sizeof move->targets / sizeof *move->targets)
        return false;
    move->targets[move->n_targets++] = to;
    size_t n = 0;
    if (insn->condition != 0xff) { /* over it when the condition is false */
        out[n++] = 0x70 | (insn->condition ^ 1);
        out[n++] = TIDEG_JUMP_BYTES_X86_64;
    }
    n += tideG_code_jump_x86_64(to, out + n);
    move->n_written += n;
    return true;
}

static bool copy_insn(struct move *move, const struct insn *insn)
{
    if (insn->form & FORM_CALL)
        return move_call(move, insn);
    if (insn->form & FORM_JUMP)
        return move_jump(move, insn);
    if (insn->form & FORM_ADDRESS) {
        move_address(move, insn);
        return true;
    }
    memcpy(move->out + move->n_written, move->code->bytes + move->n_read,
           insn->n_bytes);
    move->n_written += insn->n_bytes;
    return true;
}

static const char *move_insn(struct move *move)
{
    struct insn insn;
    if (!decode(move->code->bytes + move->n_read, &insn))
        return "its first instructions cannot be moved";
    if (move->is_ended) { /* padding behind a short function */
        move->n_read += insn.n_bytes;
        return insn.is_nop ? NULL : "it is too short";
    }
    if (!copy_insn(move, &insn))
        return "its first instructions cannot be moved";
    move->n_read += insn.n_bytes;
    move->is_ended = insn.form & (FORM_END | FORM_CALL);
    if (move->n_read > move->code->function_bytes)
        return "its end is not where its symbol says";
    return NULL;
}

static bool has_inner_target(const struct move *move)
{
    const uint64_t lo = move->code->at;
    for (unsigned i = 0; i < move->n_targets; i++)
        if (move->targets[i] >= lo && move->targets[i] < lo + move->n_read)
            return true;
    return false;
}

/* A compiler begins no function of Lua's with a jump, call or break point. */
bool tideG_code_is_patched_x86_64(const uint8_t *bytes)
{
    return bytes[0] == 0xe8 || bytes[0] == 0xe9 || bytes[0] == 0xeb ||
           bytes[0] == 0xcc || bytes[0] == 0xff;
}

/* An instruction is at most 20 bytes here, a rewritten one 16. */
const char *tideG_code_move_x86_64(const struct tideG_code *code,
                                   uint8_t island[TIDEG_ISLAND_BYTES],
                                   size_t *n_written)
{
    struct move move = {.code = code, .out = island};
    if (code->n_bytes < TIDEG_JUMP_BYTES_X86_64 + 20)
        return "too little of its code is readable";
    while (move.n_read < TIDEG_JUMP_BYTES_X86_64) {
        const char *why = move_insn(&move);
        if (why != NULL)
            return why;
    }
    if (has_inner_target(&move))
        return "it jumps into its first instructions";
    if (!move.is_ended)
        move.n_written += tideG_code_jump_x86_64(code->at + move.n_read,
                                                 island + move.n_written);
    *n_written = move.n_written;
    return NULL;
}

/* ------------------------------------------------------------ aarch64 */

/*
** ldr x16, #8; ret x16; the address.  x16 is free at a function's entry, and
** `ret` needs no landing mark in a guarded page, as `br` would.
*/
static size_t jump_aarch64(uint64_t to, uint32_t branch, uint8_t *out)
{
    const uint32_t code[] = {0x58000050, branch};
    memcpy(out, code, sizeof code);
    memcpy(out + sizeof code, &to, sizeof to);
    return sizeof code + sizeof to;
}

/* To a function: `br x16` may land on its `bti c`. */
size_t tideG_code_jump_aarch64(uint64_t to, uint8_t *out)
{
    return jump_aarch64(to, 0xd61f0200, out);
}

/* adr, adrp, load from a literal, and all branches but those to registers. */
static bool is_relative(uint32_t insn)
{
    return (insn & 0x1f000000) == 0x10000000 ||
           (insn & 0x3b000000) == 0x18000000 ||
           (insn & 0x7c000000) == 0x14000000 ||
           (insn & 0xfe000000) == 0x54000000 ||
           (insn & 0x7e000000) == 0x34000000 ||
           (insn & 0x7e000000) == 0x36000000;
}

static bool is_branch(uint32_t insn) /* b */
{
    return (insn & 0xfc000000) == 0x14000000;
}

static uint64_t branch_target(uint32_t insn, uint64_t at)
{
    const int64_t words = (int32_t)(insn << 6) >> 6;
    return at + (uint64_t)(words * 4);
}

bool tideG_code_is_patched_aarch64(const uint8_t *bytes)
{
    uint32_t insn;
    memcpy(&insn, bytes, sizeof insn);
    return is_branch(insn) || (insn & 0xff00001f) == 0x58000010 ||
           (insn & 0xffe00000) == 0xd4200000; /* ldr x16, literal; brk */
}

const char *tideG_code_move_aarch64(const struct tideG_code *code,
                                    uint8_t island[TIDEG_ISLAND_BYTES],
                                    size_t *n_written)
{
    const uint32_t ret = 0xd65f03c0;
    const uint32_t nop = 0xd503201f;
    const uint32_t ret_x16 = 0xd65f0200;
    bool is_ended = false;
    size_t n = 0;
    if (code->n_bytes < TIDEG_JUMP_BYTES_AARCH64)
        return "too little of its code is readable";
    for (size_t i = 0; i < TIDEG_JUMP_BYTES_AARCH64; i += 4) {
        uint32_t insn;
        memcpy(&insn, code->bytes + i, sizeof insn);
        if (is_ended) {
            if (insn != nop && insn != 0)
                return "it is too short";
            continue;
        }
        const bool is_jump = is_branch(insn);
        const uint64_t to = branch_target(insn, code->at + i);
        if (is_jump && to - code->at < TIDEG_JUMP_BYTES_AARCH64)
            return "it jumps into its first instructions";
        if (!is_jump && (is_relative(insn) || (insn & 31) == 16))
            return "its first instructions cannot be moved";
        if (is_jump) {
            n += jump_aarch64(to, ret_x16, island + n);
        } else {
            memcpy(island + n, &insn, sizeof insn);
            n += sizeof insn;
        }
        is_ended = is_jump || insn == ret;
    }
    if (!is_ended)
        n += jump_aarch64(code->at + TIDEG_JUMP_BYTES_AARCH64, ret_x16,
                          island + n);
    *n_written = n;
    return NULL;
}
