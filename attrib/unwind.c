/*
** unwind.c: how to get from a frame to its caller, by libunwind.
**
** libunwind interprets the unwind tables of a return address once, in a made-up
** frame whose sp and fp are no addresses at all: its answer shows how far the
** frame's end is from which of them, and where in it the return address and the
** fp were saved.  Walks follow these rules (native.c).  What fits none (frames
** below a signal, stacks aligned anew) is asked each time, with real registers.
**
** Tables are found by _dl_find_object and read as those of another process:
** libunwind then asks neither the loader nor malloc and keeps no cache.  The
** one lock is ours, never held while anything of the host runs; who is
** interrupted by a signal while holding it gets no answer in the handler.
**
** It is loaded by dlopen with RTLD_LOCAL: linked with the preload library, its
** _Unwind_* functions would take the place of libgcc's in the host.
*/
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <libunwind.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../common/mem.h"
#include "native.h"

#if defined(__x86_64__)
# define LIBRARY "libunwind-x86_64.so.8"
# define REG_IP  UNW_X86_64_RIP
# define REG_SP  UNW_X86_64_RSP
# define REG_FP  UNW_X86_64_RBP
# define REG_RA  UNW_X86_64_RIP
#elif defined(__aarch64__)
# define LIBRARY "libunwind-aarch64.so.8"
# define REG_IP  UNW_AARCH64_PC
# define REG_SP  UNW_AARCH64_SP
# define REG_FP  UNW_AARCH64_X29
# define REG_RA  UNW_AARCH64_X30
#endif

/* Registers of the made-up frame, and what stands on its stack. */
#define FAKE_SP   UINT64_C(0x4000000000000000)
#define FAKE_FP   UINT64_C(0x5000000000000000)
#define FAKE_WORD UINT64_C(0x6000000000000000)
#define FAKE_RA   UINT64_C(0x7000000000000000)

#define FRAME_MAX INT64_C(16777216) /* bytes of a frame at most */

/* The head of .eh_frame_hdr, and the one form of it that linkers write. */
struct table_head {
    uint8_t version;
    uint8_t frame_encoding;
    uint8_t count_encoding;
    uint8_t table_encoding;
    int32_t frame;
    uint32_t n; /* pairs of 32-bit offsets behind it */
};
#define COUNT_UDATA4        0x03u
#define FRAME_PCREL_SDATA4  0x1bu
#define TABLE_DATAREL_SDATA 0x3bu

extern int UNW_OBJ(dwarf_search_unwind_table)(unw_addr_space_t, unw_word_t,
                                              unw_dyn_info_t *,
                                              unw_proc_info_t *, int, void *);

#define NAME_OF_(f) #f
#define NAME_OF(f)  NAME_OF_(f)
#define UNWIND_API(X)                                                          \
 X(create, unw_create_addr_space)                                              \
 X(destroy, unw_destroy_addr_space)                                            \
 X(set_caching, unw_set_caching_policy)                                        \
 X(init, unw_init_remote)                                                      \
 X(step, unw_step)                                                             \
 X(is_signal, unw_is_signal_frame)                                             \
 X(get_reg, unw_get_reg)                                                       \
 X(get_save_loc, unw_get_save_loc)                                             \
 X(search, UNW_OBJ(dwarf_search_unwind_table))

struct unwind_api {
#define X(field, name) __typeof__(&name) field;
    UNWIND_API(X)
#undef X
};

struct tide_unwind {
    struct unwind_api api;
    unw_addr_space_t space;
    const struct tide_cal *cal;
    uintptr_t vm_start; /* Lua's own code */
    uintptr_t vm_end;
    uintptr_t resume; /* lua_resume */
    int lock;
    pthread_t owner; /* of the lock, while it is held */
    bool is_forking; /* the lock is held around a fork */
};

/* What libunwind is told of, while it is asked one question. */
struct question {
    struct tide_unwind *unwind;
    uintptr_t map_start; /* the object whose tables it may read */
    uintptr_t map_end;
    uintptr_t start;   /* of the function; 0: not known */
    bool is_real;      /* `at` are real registers: the stack may be read */
    bool has_no_table; /* it asked for tables that are not there */
    struct tide_cframe at;
};

/* ---- what libunwind asks us ---- */

static bool find_object(uintptr_t ip, struct dl_find_object *out)
{
    return _dl_find_object((void *)ip, out) == 0 && out->dlfo_eh_frame != NULL;
}

/* A word of a stack, which may not be there. */
static bool read_stack(uintptr_t at, unw_word_t *out)
{
    struct iovec to = {out, sizeof *out};
    struct iovec from = {(void *)at, sizeof *out};
    return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof *out;
}

static int on_access_mem(unw_addr_space_t space, unw_word_t at,
                         unw_word_t *value, int is_write, void *arg)
{
    const struct question *q = arg;
    (void)space;
    if (is_write)
        return -UNW_EINVAL;
    if (at >= q->map_start && at <= q->map_end - sizeof *value) {
        memcpy(value, (const void *)(uintptr_t)at, sizeof *value);
        return 0;
    }
    if (q->is_real)
        return read_stack(at, value) ? 0 : -UNW_EINVAL;
    *value = FAKE_WORD;
    return 0;
}

static int on_access_reg(unw_addr_space_t space, unw_regnum_t reg,
                         unw_word_t *value, int is_write, void *arg)
{
    const struct question *q = arg;
    (void)space;
    if (is_write)
        return -UNW_EREADONLYREG;
    if (reg == REG_IP)
        *value = q->at.ip;
    else if (reg == REG_SP)
        *value = q->at.sp;
    else if (reg == REG_FP)
        *value = q->at.fp;
    else if (q->is_real)
        return -UNW_EBADREG; /* a walk does not know it */
    else
        *value = FAKE_RA;
    return 0;
}

static int on_access_fpreg(unw_addr_space_t space, unw_regnum_t reg,
                           unw_fpreg_t *value, int is_write, void *arg)
{
    (void)space;
    (void)reg;
    (void)value;
    (void)is_write;
    (void)arg;
    return -UNW_EBADREG;
}

static int on_find_proc_info(unw_addr_space_t space, unw_word_t ip,
                             unw_proc_info_t *out, int need_unwind_info,
                             void *arg)
{
    struct question *q = arg;
    struct dl_find_object found;
    struct table_head head;
    q->has_no_table = true;
    if (!find_object(ip, &found))
        return -UNW_ENOINFO;
    memcpy(&head, found.dlfo_eh_frame, sizeof head);
    if (head.version != 1 || head.frame_encoding != FRAME_PCREL_SDATA4 ||
        head.count_encoding != COUNT_UDATA4 ||
        head.table_encoding != TABLE_DATAREL_SDATA)
        return -UNW_ENOINFO;
    const uintptr_t at = (uintptr_t)found.dlfo_eh_frame;
    unw_dyn_info_t table = {
        .start_ip = (uintptr_t)found.dlfo_map_start,
        .end_ip = (uintptr_t)found.dlfo_map_end,
        .format = UNW_INFO_FORMAT_REMOTE_TABLE,
        .u.rti.segbase = at,
        .u.rti.table_data = at + sizeof head,
        .u.rti.table_len = (unw_word_t)head.n * 8 / sizeof(unw_word_t),
    };
    const int err =
        q->unwind->api.search(space, ip, &table, out, need_unwind_info, arg);
    if (err < 0)
        return err;
    q->has_no_table = false;
    q->start = out->start_ip;
    return 0;
}

static void on_put_unwind_info(unw_addr_space_t space, unw_proc_info_t *info,
                               void *arg)
{
    (void)space;
    (void)info;
    (void)arg;
}

static int on_dyn_info_list(unw_addr_space_t space, unw_word_t *at, void *arg)
{
    (void)space;
    (void)at;
    (void)arg;
    return -UNW_ENOINFO;
}

static int on_resume(unw_addr_space_t space, unw_cursor_t *cursor, void *arg)
{
    (void)space;
    (void)cursor;
    (void)arg;
    return -UNW_EINVAL;
}

static int on_proc_name(unw_addr_space_t space, unw_word_t ip, char *name,
                        size_t bytes, unw_word_t *offset, void *arg)
{
    (void)space;
    (void)ip;
    (void)name;
    (void)bytes;
    (void)offset;
    (void)arg;
    return -UNW_ENOINFO;
}

/* ---- the lock ---- */

/* False: a signal has interrupted this very thread while it held the lock. */
static bool enter(struct tide_unwind *u)
{
    while (__atomic_exchange_n(&u->lock, 1, __ATOMIC_ACQUIRE) != 0) {
        if (pthread_equal(__atomic_load_n(&u->owner, __ATOMIC_RELAXED),
                          pthread_self()))
            return false;
        sched_yield();
    }
    __atomic_store_n(&u->owner, pthread_self(), __ATOMIC_RELAXED);
    return true;
}

static void leave(struct tide_unwind *u)
{
    __atomic_store_n(&u->owner, (pthread_t)0, __ATOMIC_RELAXED);
    __atomic_store_n(&u->lock, 0, __ATOMIC_RELEASE);
}

void tideT_unwind_fork_begin(struct tide_unwind *u)
{
    if (u != NULL && enter(u))
        u->is_forking = true;
}

void tideT_unwind_fork_end(struct tide_unwind *u)
{
    if (u == NULL || !u->is_forking)
        return;
    u->is_forking = false;
    leave(u);
}

/* ---- questions ---- */

/* Sets q->map_*: false when the address is in no object with tables. */
static bool aim(struct question *q, struct tide_unwind *u, uintptr_t ip)
{
    struct dl_find_object found;
    *q = (struct question){.unwind = u};
    if (!find_object(ip, &found))
        return false;
    q->map_start = (uintptr_t)found.dlfo_map_start;
    q->map_end = (uintptr_t)found.dlfo_map_end;
    return true;
}

/* One step; the cursor is then at the caller. */
static bool ask(struct question *q, unw_cursor_t *cursor)
{
    const struct unwind_api *api = &q->unwind->api;
    return api->init(cursor, q->unwind->space, q) == 0 &&
           api->step(cursor) > 0 && !q->has_no_table;
}

static bool is_signal_frame(struct question *q, uintptr_t ip)
{
    unw_cursor_t cursor;
    const struct unwind_api *api = &q->unwind->api;
    q->at = (struct tide_cframe){ip, FAKE_SP, FAKE_FP};
    return api->init(&cursor, q->unwind->space, q) == 0 &&
           api->is_signal(&cursor) > 0;
}

/* A small difference of two made-up or real addresses. */
static bool offset_of(unw_word_t at, uint64_t from, int32_t *out)
{
    const int64_t offset = (int64_t)(at - from);
    *out = (int32_t)offset;
    return offset > -FRAME_MAX && offset < FRAME_MAX;
}

/* Where a register of the caller was saved, from the CFA; 0: it was not. */
static bool saved_at(const struct unwind_api *api, unw_cursor_t *cursor,
                     int reg, unw_word_t cfa, int32_t *out)
{
    unw_save_loc_t loc;
    *out = 0;
    if (api->get_save_loc(cursor, reg, &loc) != 0)
        return false;
    return loc.type != UNW_SLT_MEMORY || offset_of(loc.u.addr, cfa, out);
}

/* Reads the rule off what libunwind has made of the made-up frame. */
static void read_rule(const struct unwind_api *api, unw_cursor_t *cursor,
                      struct tide_rule *rule)
{
    unw_word_t cfa;
    rule->how = TIDE_RULE_OTHER;
    if (api->get_reg(cursor, UNW_REG_SP, &cfa) != 0)
        return;
    enum tide_rule_how how = TIDE_RULE_SP;
    if (!offset_of(cfa, FAKE_SP, &rule->frame_offset)) {
        if (!offset_of(cfa, FAKE_FP, &rule->frame_offset))
            return;
        how = TIDE_RULE_FP;
    }
    if (saved_at(api, cursor, REG_RA, cfa, &rule->ip_offset) &&
        saved_at(api, cursor, REG_FP, cfa, &rule->fp_offset) &&
        rule->ip_offset != 0)
        rule->how = (uint8_t)how;
}

static void find_rule(struct question *q, uintptr_t ip, struct tide_rule *rule)
{
    unw_cursor_t cursor;
    rule->is_signal = is_signal_frame(q, ip);
    q->at = (struct tide_cframe){ip - 1, FAKE_SP, FAKE_FP};
    const bool has_caller = ask(q, &cursor);
    if (rule->is_signal)
        rule->how = TIDE_RULE_OTHER;
    else if (has_caller)
        read_rule(&q->unwind->api, &cursor, rule);
    rule->start = q->start;
}

void tideT_unwind_rule(struct tide_unwind *u, uintptr_t ip,
                       struct tide_rule *out)
{
    const int old_errno = errno;
    struct question q;
    *out = (struct tide_rule){.ip = ip};
    out->is_vm = tideT_unwind_is_vm(u, ip - 1);
    for (uint32_t i = 0; i < u->cal->n_entries; i++)
        out->is_entry = out->is_entry || u->cal->entries[i] == ip;
    if (aim(&q, u, ip - 1) && enter(u)) {
        find_rule(&q, ip, out);
        leave(u);
    }
    out->is_resume = out->start == u->resume && u->resume != 0;
    errno = old_errno;
}

bool tideT_unwind_step(struct tide_unwind *u, const struct tide_rule *rule,
                       struct tide_cframe *at)
{
    const int old_errno = errno;
    struct question q;
    unw_cursor_t cursor;
    unw_word_t ip = 0, sp = 0, fp = 0;
    if (!aim(&q, u, at->ip - 1) || !enter(u))
        return false;
    q.is_real = true;
    q.at = *at;
    q.at.ip -= rule->is_signal ? 0 : 1;
    const bool is_found = ask(&q, &cursor) &&
                          u->api.get_reg(&cursor, UNW_REG_IP, &ip) == 0 &&
                          u->api.get_reg(&cursor, UNW_REG_SP, &sp) == 0 &&
                          u->api.get_reg(&cursor, REG_FP, &fp) == 0;
    leave(u);
    errno = old_errno;
    /* what was interrupted stands at an instruction, not behind a call */
    *at = (struct tide_cframe){ip + (rule->is_signal ? 1 : 0), sp, fp};
    return is_found && ip != 0;
}

/* ---- Lua's own code ---- */

bool tideT_unwind_is_vm(const struct tide_unwind *u, uintptr_t address)
{
    return address - u->vm_start < u->vm_end - u->vm_start;
}

void tideT_unwind_vm(const struct tide_unwind *u, uintptr_t *start,
                     uintptr_t *end)
{
    *start = u == NULL ? 0 : u->vm_start;
    *end = u == NULL ? 0 : u->vm_end;
}

/* Widens the range by an address of Lua's that is in the same object. */
static void widen(struct tide_unwind *u, const struct dl_find_object *object,
                  uintptr_t address)
{
    if (address < (uintptr_t)object->dlfo_map_start ||
        address >= (uintptr_t)object->dlfo_map_end)
        return;
    if (address < u->vm_start)
        u->vm_start = address;
    if (address >= u->vm_end)
        u->vm_end = address + 1;
}

static void widen_by_all_known(struct tide_unwind *u,
                               const struct dl_find_object *object)
{
    const struct tide_cal *cal = u->cal;
    uintptr_t functions[sizeof cal->api / sizeof(uintptr_t)];
    memcpy(functions, &cal->api, sizeof functions);
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        widen(u, object, functions[i]);
    for (uint32_t i = 0; i < cal->n_names; i++)
        widen(u, object, cal->names[i].address);
    for (uint32_t i = 0; i < TIDE_RA_PLACES; i++)
        widen(u, object, cal->ras[i].address);
    for (uint32_t i = 0; i < cal->n_entries; i++)
        widen(u, object, cal->entries[i]);
}

/* The range goes from the start of a function to the end of one. */
static void widen_to_functions(struct tide_unwind *u)
{
    struct question q;
    unw_proc_info_t info;
    if (aim(&q, u, u->vm_start) &&
        on_find_proc_info(u->space, u->vm_start, &info, 0, &q) == 0)
        u->vm_start = info.start_ip;
    if (aim(&q, u, u->vm_end - 1) &&
        on_find_proc_info(u->space, u->vm_end - 1, &info, 0, &q) == 0)
        u->vm_end = info.end_ip;
}

/* Bytes of the segment of a library that an address of its code is in. */
static uintptr_t segment_bytes(const struct dl_find_object *object,
                               uintptr_t address)
{
    const char *start = object->dlfo_map_start;
    ElfW(Ehdr) elf;
    memcpy(&elf, start, sizeof elf);
    if (memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
        return UINTPTR_MAX;
    for (unsigned i = 0; i < elf.e_phnum; i++) {
        ElfW(Phdr) header;
        memcpy(&header, start + elf.e_phoff + i * sizeof header, sizeof header);
        const uintptr_t at = object->dlfo_link_map->l_addr + header.p_vaddr;
        if (header.p_type == PT_LOAD && address - at < header.p_memsz)
            return header.p_memsz;
    }
    return UINTPTR_MAX;
}

/*
** The preload library may have lua_resume called through code of its own: it is
** where the object that Lua is in has it, if that says.
*/
static void find_resume(struct tide_unwind *u,
                        const struct dl_find_object *object)
{
    const char *name = object->dlfo_link_map->l_name;
    void *handle =
        dlopen(name[0] == '\0' ? NULL : name, RTLD_LAZY | RTLD_NOLOAD);
    void *resume = handle == NULL ? NULL : dlsym(handle, "lua_resume");
    if (resume >= object->dlfo_map_start && resume < object->dlfo_map_end)
        u->resume = (uintptr_t)resume;
    if (handle != NULL)
        dlclose(handle);
}

/*
** Lua's own code is what lies between its functions that are known; a library
** that is little else is Lua's as a whole.
*/
static void find_vm(struct tide_unwind *u)
{
    struct dl_find_object object;
    uintptr_t known;
    memcpy(&u->resume, &u->cal->api.resume, sizeof u->resume);
    /* the preload library does not stand in for this one */
    memcpy(&known, &u->cal->api.rawseti, sizeof known);
    if (!find_object(known, &object))
        return;
    find_resume(u, &object);
    u->vm_start = known;
    u->vm_end = known + 1;
    widen_by_all_known(u, &object);
    widen_to_functions(u);
    const bool is_library = object.dlfo_link_map->l_name[0] != '\0';
    if (!is_library ||
        u->vm_end - u->vm_start < segment_bytes(&object, known) / 2)
        return;
    u->vm_start = (uintptr_t)object.dlfo_map_start;
    u->vm_end = (uintptr_t)object.dlfo_map_end;
}

/* ---- opening ---- */

/* The library's functions; it stays loaded. */
static bool find_api(struct unwind_api *api, const char **why)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    *why = LIBRARY " cannot be loaded";
    if (library == NULL)
        return false;
    *why = LIBRARY " lacks a function";
#define X(field, name)                                                         \
 {                                                                             \
  void *symbol = dlsym(library, NAME_OF(name));                                \
  if (symbol == NULL)                                                          \
   return false;                                                               \
  memcpy(&api->field, &symbol, sizeof symbol);                                 \
 }
    UNWIND_API(X)
#undef X
    return true;
}

bool tideT_unwind_load(const char **why)
{
    struct unwind_api api;
    return find_api(&api, why);
}

struct tide_unwind *tideT_unwind_open(const struct tide_cal *cal)
{
    unw_accessors_t accessors = {
        /* copied by create */
        .find_proc_info = on_find_proc_info,
        .put_unwind_info = on_put_unwind_info,
        .get_dyn_info_list_addr = on_dyn_info_list,
        .access_mem = on_access_mem,
        .access_reg = on_access_reg,
        .access_fpreg = on_access_fpreg,
        .resume = on_resume,
        .get_proc_name = on_proc_name,
    };
    const char *why;
    struct tide_unwind *u = tideC_pages_alloc(sizeof *u);
    if (u == NULL)
        return NULL;
    u->cal = cal;
    if (find_api(&u->api, &why))
        u->space = u->api.create(&accessors, 0);
    if (u->space == NULL) {
        tideC_pages_free(u, sizeof *u);
        return NULL;
    }
    u->api.set_caching(u->space, UNW_CACHE_NONE);
    find_vm(u);
    return u;
}

void tideT_unwind_close(struct tide_unwind *u)
{
    if (u == NULL)
        return;
    u->api.destroy(u->space);
    tideC_pages_free(u, sizeof *u);
}
