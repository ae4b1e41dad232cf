/*
** agent_sniff.c: an executable with Lua inside that exports none of it.
**
** With sniff=on the executable's own calls of malloc, realloc and free go
** through here, by the pointers that the dynamic linker has set for them; no
** other object's do.  A block of about the size of a lua_State with its
** global_State is looked at when the same thread asks for its next ones: by
** then it is filled in, and tide_heap_sniff knows it when it is one.
**
** Must not take memory in the hooks, nor look at a block that was freed.
*/
#include "agent.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_LEAST 1200u /* bytes of a first block, in every 5.4 */
#define FIRST_MOST  4096u
#define LOOKS       6u /* requests after which a block is given up */

#if defined(__x86_64__)
# define JUMP_SLOT R_X86_64_JUMP_SLOT
# define GLOB_DAT  R_X86_64_GLOB_DAT
# define ABSOLUTE  R_X86_64_64
#elif defined(__aarch64__)
# define JUMP_SLOT R_AARCH64_JUMP_SLOT
# define GLOB_DAT  R_AARCH64_GLOB_DAT
# define ABSOLUTE  R_AARCH64_ABS64
#else /* no relocation has this type */
# define JUMP_SLOT UINT32_MAX
# define GLOB_DAT  UINT32_MAX
# define ABSOLUTE  UINT32_MAX
#endif

/* A block that this thread got and that may be a lua_State's first one. */
TIDE_THREAD_LOCAL struct {
    void *block; /* NULL: none */
    size_t bytes;
    size_t stack_bytes; /* it was one so far; the stack has that size */
    unsigned n_looks;   /* that are left */
} g_first;

/* ---- the hooks ---- */

static void take(const struct tide_first_block *first)
{
    struct tide_heap *heap;
    enum tide_err err = TIDE_ERR_LUA;
    tideG_lock();
    if (g_agent.session != NULL)
        err = tide_heap_sniff(g_agent.session, first, &heap);
    if (err == TIDE_OK)
        g_agent.n_states++;
    tideG_unlock();
    if (err == TIDE_ERR_ARG)
        tideG_warn_once("not profiled", "the program has an allocator of its "
                                        "own, and no lua_getallocf by name");
    if (err == TIDE_ERR_STATE) {
        g_first.stack_bytes = first->next_bytes;
        return;
    }
    if (err == TIDE_OK || err == TIDE_ERR_ARG || --g_first.n_looks == 0)
        g_first.block = NULL;
}

/* This thread asks for n bytes more. */
static TIDE_NOINLINE void look(size_t n)
{
    take(&(struct tide_first_block){
        .block = g_first.block,
        .bytes = g_first.bytes,
        .stack_bytes = g_first.stack_bytes,
        .next_bytes = n,
        .lua = g_agent.sniffed,
    });
}

static void *note(void *block, size_t n)
{
    if (TIDE_LIKELY(n < FIRST_LEAST || n > FIRST_MOST || n % sizeof n != 0))
        return block;
    g_first.block = block;
    g_first.bytes = n;
    g_first.stack_bytes = 0;
    g_first.n_looks = LOOKS;
    return block;
}

static void *hook_malloc(size_t n)
{
    if (TIDE_UNLIKELY(g_first.block != NULL))
        look(n);
    return note(malloc(n), n);
}

static void *hook_realloc(void *ptr, size_t n)
{
    if (TIDE_UNLIKELY(g_first.block != NULL)) {
        if (ptr == NULL)
            look(n);
        else if (ptr == g_first.block)
            g_first.block = NULL;
    }
    void *block = realloc(ptr, n);
    return ptr == NULL ? note(block, n) : block;
}

static void hook_free(void *ptr)
{
    if (TIDE_UNLIKELY(g_first.block != NULL && ptr == g_first.block))
        g_first.block = NULL;
    free(ptr);
}

/* ---- the executable ---- */

/* What its dynamic section says. */
struct program {
    uintptr_t base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Rela) * tables[2]; /* of functions, and the others */
    size_t n_relocations[2];
};

/* glibc has made addresses of them, others have not. */
static uintptr_t address_of(const struct program *program, uintptr_t value)
{
    return value < program->base ? program->base + value : value;
}

static void read_dynamic(struct program *program, const ElfW(Dyn) * entry)
{
    for (; entry->d_tag != DT_NULL; entry++) {
        const uintptr_t at = address_of(program, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            program->symbols = (const void *)at;
        else if (entry->d_tag == DT_STRTAB)
            program->strings = (const void *)at;
        else if (entry->d_tag == DT_JMPREL)
            program->tables[0] = (const void *)at;
        else if (entry->d_tag == DT_RELA)
            program->tables[1] = (const void *)at;
        else if (entry->d_tag == DT_PLTRELSZ)
            program->n_relocations[0] = entry->d_un.d_val / sizeof(ElfW(Rela));
        else if (entry->d_tag == DT_RELASZ)
            program->n_relocations[1] = entry->d_un.d_val / sizeof(ElfW(Rela));
    }
}

/* The executable is the first object. */
static int read_program(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    struct program *program = ctx;
    (void)bytes;
    program->base = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            read_dynamic(program, (const void *)(info->dlpi_addr +
                                                 info->dlpi_phdr[i].p_vaddr));
    return 1;
}

/* The pointers may be in pages that are read only by now. */
static bool write_pointer(void **slot, void *value)
{
    const int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    bool is_written = false;
    if (fd >= 0) {
        is_written = pwrite(fd, &value, sizeof value, (off_t)(uintptr_t)slot) ==
                     (ssize_t)sizeof value;
        close(fd);
    }
    if (is_written)
        return true;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t lo = (uintptr_t)slot & ~(page - 1);
    if (mprotect((void *)lo, page, PROT_READ | PROT_WRITE) != 0)
        return false;
    *slot = value;
    return true;
}

static void *hook_of(const char *name)
{
    static const struct {
        const char *name;
        void *hook;
    } hooks[] = {
        {"malloc", (void *)hook_malloc},
        {"realloc", (void *)hook_realloc},
        {"free", (void *)hook_free},
    };
    for (size_t i = 0; i < sizeof hooks / sizeof hooks[0]; i++)
        if (strcmp(hooks[i].name, name) == 0)
            return hooks[i].hook;
    return NULL;
}

static unsigned hook_table(const struct program *program, unsigned table)
{
    unsigned n_hooked = 0;
    for (size_t i = 0; i < program->n_relocations[table]; i++) {
        const ElfW(Rela) *r = &program->tables[table][i];
        const unsigned type = (unsigned)ELF64_R_TYPE(r->r_info);
        if (type != JUMP_SLOT && type != GLOB_DAT && type != ABSOLUTE)
            continue;
        const ElfW(Sym) *symbol = &program->symbols[ELF64_R_SYM(r->r_info)];
        void *hook = symbol->st_shndx == SHN_UNDEF
                         ? hook_of(program->strings + symbol->st_name)
                         : NULL;
        if (hook != NULL &&
            write_pointer((void **)(program->base + r->r_offset), hook))
            n_hooked++;
    }
    return n_hooked;
}

const char *tideG_sniff_start(void)
{
    struct program program = {0};
    unsigned n_hooked = 0;
    dl_iterate_phdr(read_program, &program);
    if (program.symbols == NULL || program.strings == NULL)
        return "the executable has no symbols of its libraries";
    for (unsigned table = 0; table < 2; table++)
        if (program.tables[table] != NULL)
            n_hooked += hook_table(&program, table);
    return n_hooked > 0 ? NULL
                        : "the executable calls no malloc of its libraries";
}

/* ---- which Lua it has ---- */

static bool is_release_char(char c)
{
    return c == '.' || (c >= '0' && c <= '9');
}

/* "Lua 5.4.4" from lua_ident; "Lua 5.4" from what is _VERSION. */
static bool find_release(const char *bytes, size_t n, char *out,
                         size_t out_bytes)
{
    static const char ident[] = "$LuaVersion: Lua 5.4";
    static const char version[] = "\0Lua 5.4"; /* with both its NULs */
    const char *at = memmem(bytes, n, ident, sizeof ident - 1);
    if (at == NULL) {
        if (memmem(bytes, n, version, sizeof version) == NULL)
            return false;
        snprintf(out, out_bytes, "Lua 5.4");
        return true;
    }
    at += strlen("$LuaVersion: ");
    size_t length = strlen("Lua 5.4");
    while (at + length < bytes + n && is_release_char(at[length]))
        length++;
    snprintf(out, out_bytes, "%.*s", (int)length, at);
    return true;
}

static int search_program(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    char *out = ctx;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum && out[0] == '\0'; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_R) != 0)
            find_release((const char *)(info->dlpi_addr + p->p_vaddr),
                         p->p_filesz, out, sizeof g_agent.sniffed);
    }
    return 1;
}

bool tideG_sniff_program(void)
{
    dl_iterate_phdr(search_program, g_agent.sniffed);
    return g_agent.sniffed[0] != '\0';
}
