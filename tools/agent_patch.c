/*
** agent_patch.c: leads an executable's own Lua functions to the library's.
**
** Calls inside an executable that has Lua in it (Debian's lua5.4) pass no
** table that could be changed, so the functions themselves begin with a jump
** to ours.  The original is called through a copy of its first instructions,
** an island in this library's own text; lua_newstate and lua_close, if theirs
** cannot be copied, get their bytes back for the time of the call.
**
** Code is written through /proc/self/mem, which works where mprotect may not
** make pages writable (systemd's MemoryDenyWriteExecute), and read back.  All
** of it happens in the constructor, before the program has threads.  Only the
** calls with bytes put back write again later: they hold a lock, but a thread
** that enters the function in just those moments is not seen, or at worst
** executes half a jump; hence they are the second choice.
*/
#include "agent.h"

#include <assert.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READABLE_MAX 256u

/* The functions, in the order of their islands. */
enum row_id {
    ROW_NEWSTATE,
    ROW_CLOSE,
    ROW_L_NEWSTATE,
    ROW_RESUME,
    ROW_GC,
    ROW_GETALLOCF,
    ROW_SETALLOCF,
    ROW_COUNT_
};

#if defined(__x86_64__)
# define JUMP_BYTES TIDEG_JUMP_BYTES_X86_64
# define code_move  tideG_code_move_x86_64
# define code_jump  tideG_code_jump_x86_64
# define is_patched tideG_code_is_patched_x86_64
#elif defined(__aarch64__)
# define JUMP_BYTES TIDEG_JUMP_BYTES_AARCH64
# define code_move  tideG_code_move_aarch64
# define code_jump  tideG_code_jump_aarch64
# define is_patched tideG_code_is_patched_aarch64
#else
/* cppcheck-suppress preprocessorErrorDirective */
# error "no patch for this processor"
#endif

static_assert(ROW_COUNT_ * TIDEG_ISLAND_BYTES == 7 * 128, "islands");

/* Islands: executable from the start, so that no page changes its rights. */
extern TIDE_HIDDEN uint8_t tideG_islands[];
__asm__(".pushsection .text\n"
        ".balign 64\n"
        ".globl tideG_islands\n"
        ".hidden tideG_islands\n"
        "tideG_islands:\n"
        ".fill 7 * 128, 1, 0\n"
        ".popsection\n");

/* One function to be patched. */
struct row {
    void *hook;                /* what it leads to */
    void **real;               /* the pointer through which we call it */
    struct tideG_patch *patch; /* for bytes put back; NULL: islands only */
    void *call_patch;          /* calls it so */
    uint8_t *entry;
    uint8_t island[TIDEG_ISLAND_BYTES];
    size_t island_bytes; /* 0: no island */
    uint8_t saved[TIDEG_JUMP_BYTES_MAX];
    const char *why; /* it cannot be patched; NULL: it can */
};

static bool write_by_file(uint8_t *to, const uint8_t *bytes, size_t n)
{
    const int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t done = pwrite(fd, bytes, n, (off_t)(uintptr_t)to);
    close(fd);
    return done == (ssize_t)n;
}

/* Never without the right to execute: other code stands in the same page. */
static bool write_by_rights(uint8_t *to, const uint8_t *bytes, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t lo = (uintptr_t)to & ~(page - 1);
    const size_t length = (uintptr_t)to + n - lo;
    if (mprotect((void *)lo, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return false;
    memcpy(to, bytes, n);
    mprotect((void *)lo, length, PROT_READ | PROT_EXEC);
    return true;
}

static bool write_code(uint8_t *to, const uint8_t *bytes, size_t n)
{
    const bool is_written =
        (write_by_file(to, bytes, n) && memcmp(to, bytes, n) == 0) ||
        (write_by_rights(to, bytes, n) && memcmp(to, bytes, n) == 0);
    __builtin___clear_cache((char *)to, (char *)to + n);
    TIDE_CODE_CHANGED(to, n);
    return is_written;
}

static void unpatch(struct tideG_patch *patch)
{
    pthread_mutex_lock(&patch->lock);
    if (patch->depth++ == 0)
        write_code(patch->entry, patch->saved, JUMP_BYTES);
}

static void repatch(struct tideG_patch *patch)
{
    if (--patch->depth == 0)
        write_code(patch->entry, patch->jump, JUMP_BYTES);
    pthread_mutex_unlock(&patch->lock);
}

static struct lua_State *call_newstate(tide_alloc_fn f, void *ud, unsigned seed)
{
    struct tideG_patch *patch = &g_agent.patch_newstate;
    unpatch(patch);
    struct lua_State *L = ((tideG_newstate_fn)patch->entry)(f, ud, seed);
    repatch(patch);
    return L;
}

static void call_close(struct lua_State *L)
{
    struct tideG_patch *patch = &g_agent.patch_close;
    unpatch(patch);
    ((tideG_close_fn)patch->entry)(L);
    repatch(patch);
}

/* Length of the function at an address, by its symbol; 0: not known. */
static size_t function_bytes(void *function)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    if (dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) == 0 ||
        symbol == NULL || info.dli_saddr != function)
        return 0;
    return symbol->st_size;
}

/* Decides how a function can be patched; changes nothing. */
static void plan_row(struct row *row, const struct tideG_lua *lua)
{
    row->entry = *row->real;
    if (row->entry == NULL) {
        row->why = "the program lacks it";
        return;
    }
    const size_t left = lua->range.hi - (uintptr_t)row->entry;
    const struct tideG_code code = {
        .bytes = row->entry,
        .n_bytes = left < READABLE_MAX ? left : READABLE_MAX,
        .function_bytes = function_bytes(row->entry),
        .at = (uintptr_t)row->entry,
    };
    if (left < READABLE_MAX || code.function_bytes == 0) {
        row->why = "its symbol has no size";
        return;
    }
    if (is_patched(row->entry)) {
        row->why = "something else has patched it already";
        return;
    }
    memcpy(row->saved, row->entry, JUMP_BYTES);
    row->why = code_move(&code, row->island, &row->island_bytes);
    if (row->why != NULL && row->patch != NULL &&
        code.function_bytes >= JUMP_BYTES)
        row->why = NULL;
}

static bool write_row(struct row *row, uint8_t *island)
{
    uint8_t jump[TIDEG_JUMP_BYTES_MAX];
    code_jump((uintptr_t)row->hook, jump);
    if (row->island_bytes > 0) {
        if (!write_code(island, row->island, row->island_bytes))
            return false;
        *row->real = island;
    } else {
        memcpy(row->patch->saved, row->saved, JUMP_BYTES);
        memcpy(row->patch->jump, jump, JUMP_BYTES);
        row->patch->entry = row->entry;
        row->patch->lock =
            (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
        *row->real = row->call_patch;
    }
    if (write_code(row->entry, jump, JUMP_BYTES))
        return true;
    *row->real = row->entry;
    return false;
}

static void restore_row(struct row *row)
{
    write_code(row->entry, row->saved, JUMP_BYTES);
    *row->real = row->entry;
}

/* All or nothing. */
static bool write_rows(struct row rows[ROW_COUNT_])
{
    for (size_t i = 0; i < ROW_COUNT_; i++) {
        if (rows[i].why != NULL)
            continue;
        if (write_row(&rows[i], tideG_islands + i * TIDEG_ISLAND_BYTES))
            continue;
        restore_row(&rows[i]);
        while (i-- > 0)
            if (rows[i].why == NULL)
                restore_row(&rows[i]);
        return false;
    }
    return true;
}

/* Hosts read back what they set: both of the pair, or none. */
static void join_pair(struct row *get, struct row *set)
{
    const char *why = get->why != NULL ? get->why : set->why;
    get->why = why;
    set->why = why;
}

const char *tideG_patch_program(struct tideG_lua *lua)
{
    struct row rows[ROW_COUNT_] = {
        [ROW_NEWSTATE] = {.hook = (void *)tideG_newstate,
                          .real = (void **)&lua->newstate,
                          .patch = &g_agent.patch_newstate,
                          .call_patch = (void *)call_newstate},
        [ROW_CLOSE] = {.hook = (void *)tideG_close,
                       .real = (void **)&lua->close,
                       .patch = &g_agent.patch_close,
                       .call_patch = (void *)call_close},
        [ROW_L_NEWSTATE] = {.hook = (void *)tideG_L_newstate,
                            .real = (void **)&lua->L_newstate},
        [ROW_RESUME] = {.hook = (void *)tideG_resume,
                        .real = (void **)&lua->resume},
        [ROW_GC] = {.hook = (void *)tideG_gc, .real = (void **)&lua->gc},
        [ROW_GETALLOCF] = {.hook = (void *)tideG_getallocf,
                           .real = (void **)&lua->getallocf},
        [ROW_SETALLOCF] = {.hook = (void *)tideG_setallocf,
                           .real = (void **)&lua->setallocf},
    };
    for (size_t i = 0; i < ROW_COUNT_; i++)
        plan_row(&rows[i], lua);
    join_pair(&rows[ROW_GETALLOCF], &rows[ROW_SETALLOCF]);
    if (rows[ROW_NEWSTATE].why != NULL)
        return rows[ROW_NEWSTATE].why;
    if (rows[ROW_CLOSE].why != NULL)
        return rows[ROW_CLOSE].why;
    if (!write_rows(rows))
        return "its code cannot be written";
    lua->has_allocf = rows[ROW_GETALLOCF].why == NULL;
    return NULL;
}
