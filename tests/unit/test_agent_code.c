/*
** test_agent_code.c: moving the first instructions of a function.
**
** On x86-64 the moved code is also run: the small functions below are moved
** into a page of their own and must still do what they did.
*/
#include <string.h>
#include <sys/mman.h>

#include "../../tools/agent_code.c"
#include "../tap.h"

#define AT 0x555500001000u /* a likely place of an executable's function */

/* Code with room behind it, as a function of so many bytes. */
struct sample {
    uint8_t bytes[64];
    size_t function_bytes;
};

static const char *move_x86(const struct sample *sample,
                            uint8_t island[TIDEG_ISLAND_BYTES], size_t *n)
{
    const struct tideG_code code = {.bytes = sample->bytes,
                                    .n_bytes = sizeof sample->bytes,
                                    .function_bytes = sample->function_bytes,
                                    .at = AT};
    return tideG_code_move_x86_64(&code, island, n);
}

static uint64_t word_at(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

/* The absolute jump that stands at the end of an island. */
static uint64_t last_jump(const uint8_t *island, size_t n)
{
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
    CHECK(n >= TIDEG_JUMP_BYTES_X86_64);
    CHECK(memcmp(island + n - 14, jump, sizeof jump) == 0);
    return word_at(island + n - 8);
}

TEST(agent_code_plain_instructions_are_copied)
{
    /* lua_newstate of Debian 12: push r13; mov; mov; push r12; mov ... */
    const struct sample sample = {{0x41, 0x55, 0xb9, 0x58, 0x06, 0, 0, 0xba, 8,
                                   0, 0, 0, 0x41, 0x54, 0x49, 0x89, 0xfc},
                                  642};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_x86(&sample, island, &n), NULL);
    CHECK_EQ(n, 14 + 14);
    CHECK(memcmp(island, sample.bytes, 14) == 0);
    CHECK_EQ(last_jump(island, n), AT + 14);
}

TEST(agent_code_a_last_jump_becomes_absolute)
{
    /* lua_close of Debian 12: mov; mov; jmp close_state. */
    const struct sample sample = {{0x48, 0x8b, 0x47, 0x18, 0x48, 0x8b, 0xb8,
                                   0x08, 0x01, 0, 0, 0xe9, 0x40, 0xf8, 0xff,
                                   0xff},
                                  16};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_x86(&sample, island, &n), NULL);
    CHECK_EQ(n, 11 + 14);
    CHECK_EQ(last_jump(island, n), AT + 16 - 0x7c0);
}

TEST(agent_code_a_branch_over_the_moved_part_is_rewritten)
{
    /* lua_getallocf: test; je +16; mov; mov; mov; (16) ... */
    const struct sample sample = {{0x48, 0x85, 0xf6, 0x74, 0x0b, 0x48, 0x8b,
                                   0x47, 0x18, 0x48, 0x8b, 0x40, 0x08, 0x48,
                                   0x89, 0x06, 0x48, 0x8b},
                                  24};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_x86(&sample, island, &n), NULL);
    CHECK_EQ(n, 3 + 16 + 11 + 14);
    CHECK_EQ(island[3], 0x75); /* jne, over the jump */
    CHECK_EQ(island[4], 14);
    CHECK_EQ(word_at(island + 11), AT + 16);
    CHECK_EQ(last_jump(island, n), AT + 16);
}

TEST(agent_code_padding_behind_a_short_function_is_used)
{
    /* lua_setallocf, 12 bytes: mov; mov; mov; ret, then a nop of four. */
    struct sample sample = {{0x48, 0x8b, 0x47, 0x18, 0x48, 0x89, 0x50, 0x08,
                             0x48, 0x89, 0x30, 0xc3, 0x0f, 0x1f, 0x40, 0x00},
                            12};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_x86(&sample, island, &n), NULL);
    CHECK_EQ(n, 12);
    sample.bytes[12] = 0x55; /* the next function, right behind it */
    CHECK_STR(move_x86(&sample, island, &n), "it is too short");
}

TEST(agent_code_an_address_beside_the_code_becomes_absolute)
{
    /* luaL_newstate of clang: push rbx; lea l_alloc(%rip),%rdi; xor; call */
    const struct sample sample = {{0x53, 0x48, 0x8d, 0x3d, 0x38, 0, 0, 0, 0x31,
                                   0xf6, 0xe8, 0x01, 0x4d, 0xff, 0xff},
                                  64};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_x86(&sample, island, &n), NULL);
    CHECK_EQ(island[1], 0x48); /* movabs $address,%rdi */
    CHECK_EQ(island[2], 0xbf);
    CHECK_EQ(word_at(island + 3), AT + 8 + 0x38);
    /* The call: its return address, then a jump to what it calls. */
    CHECK_EQ(n, 1 + 10 + 2 + 6 + 14 + 8);
    CHECK_EQ(word_at(island + n - 16), AT + 15 - 0xb2ff);
    CHECK_EQ(word_at(island + n - 8), AT + 15);
}

static void check_refused(const struct sample *sample)
{
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK(move_x86(sample, island, &n) != NULL);
}

TEST(agent_code_what_depends_on_its_place_is_refused)
{
    /* mov guard(%rip),%rax */
    check_refused(
        &(struct sample){{0x48, 0x8b, 0x05, 1, 2, 3, 4, 0x90, 0x90}, 64});
    /* a call with room behind it would return into the jump */
    check_refused(&(struct sample){{0x90, 0xe8, 1, 2, 3, 4, 0x90}, 64});
    /* loop: a jump back to its own beginning, and into its middle */
    check_refused(&(struct sample){{0x53, 0x75, 0xfd, 0x90, 0x90}, 64});
    check_refused(&(struct sample){{0x53, 0x75, 0x05, 0x90, 0x90}, 64});
}

TEST(agent_code_what_it_does_not_know_is_refused)
{
    check_refused(&(struct sample){{0xc5, 0xf8, 0x77}, 64});       /* AVX */
    check_refused(&(struct sample){{0x0f, 0x05}, 64});             /* syscall */
    check_refused(&(struct sample){{0x66, 0x81, 0xc0, 1, 2}, 64}); /* imm16 */
    /* longer than its symbol says */
    struct sample sample = {{0}, 8};
    memset(sample.bytes, 0x53, sizeof sample.bytes);
    check_refused(&sample);
}

TEST(agent_code_too_little_readable_code_is_refused)
{
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    const uint8_t bytes[33] = {0x53};
    const struct tideG_code code = {bytes, sizeof bytes, sizeof bytes, AT};
    CHECK(tideG_code_move_x86_64(&code, island, &n) != NULL);
}

TEST(agent_code_another_patch_is_recognised)
{
    uint8_t jump[TIDEG_JUMP_BYTES_MAX];
    CHECK_EQ(tideG_code_jump_x86_64(AT, jump), TIDEG_JUMP_BYTES_X86_64);
    CHECK(tideG_code_is_patched_x86_64(jump));
    CHECK(tideG_code_is_patched_x86_64((const uint8_t[]){0xcc}));
    CHECK(!tideG_code_is_patched_x86_64((const uint8_t[]){0x55}));
    CHECK_EQ(tideG_code_jump_aarch64(AT, jump), TIDEG_JUMP_BYTES_AARCH64);
    CHECK(tideG_code_is_patched_aarch64(jump));
    CHECK(!tideG_code_is_patched_aarch64(
        (const uint8_t[]){0xfd, 0x7b, 0xbd, 0xa9})); /* stp x29, x30 */
}

/* ------------------------------------------------------------- aarch64 */

#define NOP_A64    0xd503201fu
#define STP_A64    0xa9bd7bfdu /* stp x29, x30, [sp, #-48]! */
#define RET_A64    0xd65f03c0u
#define LDR_A64    0xf9400c00u /* ldr x0, [x0, #24] */
#define JUMP_WORDS 4

static const char *move_a64(const uint32_t words[JUMP_WORDS], uint8_t *island,
                            size_t *n)
{
    const struct tideG_code code = {(const uint8_t *)words,
                                    JUMP_WORDS * sizeof *words,
                                    JUMP_WORDS * sizeof *words, AT};
    return tideG_code_move_aarch64(&code, island, n);
}

TEST(agent_code_aarch64_copies_and_jumps_back)
{
    const uint32_t words[] = {STP_A64, 0x910003fd, LDR_A64, LDR_A64};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_a64(words, island, &n), NULL);
    CHECK_EQ(n, 16 + 16);
    CHECK(memcmp(island, words, 16) == 0);
    CHECK_EQ(word_at(island + 24), AT + 16);
}

TEST(agent_code_aarch64_rewrites_a_last_branch)
{
    /* lua_close: ldr; ldr; b -0x7c0; nop */
    const uint32_t words[] = {LDR_A64, LDR_A64,
                              0x14000000u | (-0x1f0 & 0x3ffffff), NOP_A64};
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    CHECK_STR(move_a64(words, island, &n), NULL);
    CHECK_EQ(n, 8 + 16);
    CHECK_EQ(word_at(island + 16), AT + 8 - 0x7c0);
}

TEST(agent_code_aarch64_refuses_what_depends_on_its_place)
{
    static const uint32_t relative[] = {
        0x10000000u, /* adr */ 0x90000000u, /* adrp */
        0x58000040u,                        /* ldr literal */
        0x94000001u, /* bl */ 0x54000040u,  /* b.eq */
        0xb4000040u, /* cbz */ 0x36000040u, /* tbz */
        0x14000002u,                        /* b into the moved part */
        0xd2800010u,                        /* mov x16, #0 */
    };
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t n = 0;
    for (size_t i = 0; i < sizeof relative / sizeof *relative; i++) {
        const uint32_t words[] = {relative[i], STP_A64, STP_A64, STP_A64};
        CHECK(move_a64(words, island, &n) != NULL);
    }
    const uint32_t too_short[] = {LDR_A64, RET_A64, STP_A64, STP_A64};
    CHECK(move_a64(too_short, island, &n) != NULL);
}

/* ----------------------------------------------------- moved code, run */

#if defined(__x86_64__)

/* Functions whose beginnings are all that can be moved; all take an int. */
__asm__(".text\n"
        ".balign 16\n"
        "sample_plain:\n"
        "  push %rbx\n"
        "  sub $0x10,%rsp\n"
        "  mov %edi,0x8(%rsp)\n"
        "  mov %fs:0x28,%rax\n"
        "  mov 0x8(%rsp),%eax\n"
        "  add $1,%eax\n"
        "  add $0x10,%rsp\n"
        "  pop %rbx\n"
        "  ret\n"
        "sample_plain_end:\n"
        ".balign 16\n"
        "sample_branch:\n"
        "  test %edi,%edi\n"
        "  je 1f\n"
        "  lea 7(%rdi),%eax\n"
        "  imul $3,%eax,%eax\n"
        "  nopl 0(%rax)\n"
        "  ret\n"
        "1: mov $100,%eax\n"
        "  ret\n"
        "sample_branch_end:\n"
        ".balign 16\n"
        "sample_call:\n"
        "  push %rbx\n"
        "  lea sample_data(%rip),%rbx\n"
        "  xor %eax,%eax\n"
        "  call sample_leaf\n"
        "  add (%rbx),%eax\n"
        "  pop %rbx\n"
        "  ret\n"
        "sample_call_end:\n"
        ".balign 16\n"
        "sample_leaf:\n"
        "  lea 1(%rdi),%eax\n"
        "  ret\n"
        ".balign 16\n"
        "sample_tail:\n"
        "  movslq %edi,%rdi\n"
        "  movzbl %dil,%edi\n"
        "  add $0x10,%rdi\n"
        "  jmp sample_leaf\n"
        "sample_tail_end:\n"
        ".balign 16\n"
        ".fill 32,1,0x90\n"
        ".section .rodata\n"
        "sample_data: .long 1000\n"
        ".text\n");

extern const uint8_t sample_plain[], sample_plain_end[];
extern const uint8_t sample_branch[], sample_branch_end[];
extern const uint8_t sample_call[], sample_call_end[];
extern const uint8_t sample_tail[], sample_tail_end[];

typedef int (*sample_fn)(int);

/* Runs the moved beginning and whatever it jumps to, for several arguments. */
static void check_same(const uint8_t *begin, const uint8_t *end)
{
    const struct tideG_code code = {begin, (size_t)(end - begin) + 32,
                                    (size_t)(end - begin), (uintptr_t)begin};
    uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t n = 0;
    if (page == MAP_FAILED)
        SKIP("no memory that can be written and run");
    CHECK_STR(tideG_code_move_x86_64(&code, page, &n), NULL);
    const sample_fn original = (sample_fn)(uintptr_t)begin;
    const sample_fn moved = (sample_fn)(void *)page;
    for (int i = -2; i < 300; i += 7) {
        CHECK_EQ(moved(i), original(i));
        CHECK_EQ(moved(0), original(0));
    }
}

TEST(agent_code_moved_code_does_what_it_did)
{
    check_same(sample_plain, sample_plain_end);
    check_same(sample_branch, sample_branch_end);
    check_same(sample_call, sample_call_end);
    check_same(sample_tail, sample_tail_end);
}

#endif
