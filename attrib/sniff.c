/*
** sniff.c: states of a Lua whose functions cannot be called: it is inside the
** executable, without names.
**
** Such a state is known by its first block, which holds the main thread and
** global_State.  lua_newstate has filled it in when it asks for the second one,
** the stack, and at the third the stack is in place: then everything that is
** read of the two structures has a value that is known beforehand.  All of it
** is compared before the allocator in global_State is replaced by ours.
**
** Nothing can be calibrated without a function to call.  The running thread is
** followed through the frames that resume, lines are read from prototypes, and
** the names of functions from the table of globals.
*/
#include "session.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#define EXTRA_MAX    256u /* LUA_EXTRASPACE at most */
#define THREAD_MAX   256u /* sizeof(lua_State) at most */
#define GLOBAL_LEAST 700u /* of global_State, in every 5.4 */
#define PAUSED       8u   /* GCSpause */
#define FIRST_WHITE  8u   /* currentwhite of a new state */
#define STOPPED_SELF 2u   /* GCSTPGC, from 5.4.4 on */
#define WORDS_SEEN   48u  /* registers, and of the stack */
#define NODES_SHIFT  20u  /* log2 of the largest table that is looked through */

/* ---- the two structures ---- */

/* Where things are in a first block. */
struct young {
    char *block;
    size_t bytes;
    char *L;
    char *g;
};

static bool is_lua_state(const char *L)
{
    return TIDE_AT(uint8_t, L, 8) == TIDE_LUA_TTHREAD && tideT_L_status(L) == 0;
}

/* global_State names the main thread, behind what layout54 knows of it. */
static bool names_thread(const struct young *y)
{
    const char *end = y->block + y->bytes;
    for (const char *at = y->g + 112; at + sizeof at <= end; at += sizeof at)
        if (TIDE_AT(char *, at, 0) == y->L)
            return true;
    return false;
}

static bool is_global(const struct young *y)
{
    const char *g = y->g;
    return tideT_g_base(g) == (int64_t)y->bytes &&
           tideT_g_white(g) == FIRST_WHITE && tideT_g_gcstate(g) == PAUSED &&
           tideT_g_gckind(g) == 0 && tideT_g_gcemergency(g) == 0 &&
           names_thread(y);
}

static bool find_young(char *block, size_t bytes, struct young *y)
{
    for (size_t extra = 0; extra <= EXTRA_MAX; extra += sizeof block) {
        if (bytes < extra + GLOBAL_LEAST)
            return false;
        *y = (struct young){block, bytes, block + extra,
                            tideT_L_global(block + extra)};
        const size_t at = (size_t)(y->g - block);
        if (at % sizeof block == 0 && at > extra + 112 &&
            at <= extra + THREAD_MAX && at + GLOBAL_LEAST <= bytes &&
            is_lua_state(y->L) && is_global(y))
            return true;
    }
    return false;
}

/* Before the stack is there. */
static bool is_empty(const struct young *y)
{
    return tideT_L_ci(y->L) == NULL && tideT_g_debt(y->g) == 0 &&
           tideT_g_strings(y->g) == NULL;
}

/* The only frame, inside the thread itself, at the bottom of the stack. */
static bool has_stack(const struct young *y, size_t stack_bytes)
{
    const char *ci = tideT_L_ci(y->L);
    if (ci < y->L || ci + TIDE_CALLINFO_BYTES > y->g ||
        tideT_ci_previous(ci) != NULL || tideT_ci_next(ci) != NULL ||
        tideT_ci_status(ci) != TIDE_CIST_C)
        return false;
    const char *bottom = tideT_ci_func(ci);
    return tideT_g_debt(y->g) == (int64_t)stack_bytes &&
           (TIDE_AT(char *, y->L, 48) == bottom ||
            TIDE_AT(char *, y->L, 56) == bottom) &&
           tideT_L_top(y->L) == bottom + TIDE_SLOT_BYTES;
}

static int match_code(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
    const uintptr_t address = *(const uintptr_t *)ctx;
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && (p->p_flags & PF_X) != 0 &&
            address - info->dlpi_addr - p->p_vaddr < p->p_memsz)
            return 1;
    }
    return 0;
}

static bool is_code(const void *address)
{
    uintptr_t at = (uintptr_t)address;
    return dl_iterate_phdr(match_code, &at) != 0;
}

/* ---- what it says of this Lua ---- */

/* Bits of callstatus moved with 5.4.2; nothing in a young state shows it. */
static bool has_old_bits(const char *release, bool is_540)
{
    return is_540 || strncmp(release, "Lua 5.4.0", 9) == 0 ||
           strncmp(release, "Lua 5.4.1", 9) == 0;
}

static struct tide_layout layout_of(const struct young *y, size_t stack_bytes,
                                    const char *release)
{
    const char *bottom = tideT_ci_func(tideT_L_ci(y->L));
    const bool is_540 = TIDE_AT(char *, y->L, 48) != bottom;
    const bool is_old = has_old_bits(release, is_540);
    return (struct tide_layout){
        .stack = is_540 ? 56 : 48,
        .cist_tail = is_old ? 1u << 4 : 1u << 5,
        .cist_fin = is_old ? 1u << 6 : 1u << 7,
        .has_gcstp = tideT_g_gcstp(y->g) == STOPPED_SELF,
        .extra_bytes = (uint32_t)(y->L - y->block),
        .thread_bytes = (uint32_t)(y->g - y->block),
        .first_stack_bytes = (uint32_t)stack_bytes,
        .callinfo_bytes = TIDE_CALLINFO_BYTES,
    };
}

static void describe(struct tide_session *s, const char *release)
{
    struct tide_p_header *header = tideP_writer_header(s->writer);
    const bool is_known = strlen(release) > strlen("Lua 5.4");
    snprintf(s->cal.lua, sizeof s->cal.lua, "%s", release);
    snprintf(
        s->cal.reason, sizeof s->cal.reason,
        "a Lua without names: layout read from the state itself%s; the "
        "running thread and the lines of table constructors are inferred%s",
        is_known ? "" : ", its release is not known",
        s->cal.layout.has_gcstp ? ""
                                : "; lua_close cannot be told from sweeps");
    s->cal.tier = TIDE_TIER_PARTIAL;
    snprintf(header->lua, sizeof header->lua, "%s", s->cal.lua);
    snprintf(header->tier_reason, sizeof header->tier_reason, "%s",
             s->cal.reason);
    header->tier = (uint32_t)s->cal.tier;
}

/* The first state teaches; later ones must be of the same Lua. */
static bool learn(struct tide_session *s, const struct tide_layout *layout,
                  const char *release)
{
    if (s->cal.has_layout)
        return s->cal.is_sniffed &&
               memcmp(&s->cal.layout, layout, sizeof *layout) == 0;
    s->cal.layout = *layout;
    s->cal.has_layout = true;
    s->cal.is_sniffed = true;
    describe(s, release);
    return true;
}

/* Our allocator in place of the one that the state was made with. */
static void take_over(struct tide_heap *h, const struct young *y,
                      size_t next_bytes)
{
    tide_alloc_fn before;
    const tide_alloc_fn ours = tide_alloc;
    void *ud = tideT_g_ud(y->g);
    memcpy(&before, y->g, sizeof before);
    tideA_store_adopt(&h->store, before, ud);
    tideA_store_chain(&h->store, before, ud); /* it may be the host's own */
    h->main_L = (const lua_State *)(const void *)y->L;
    h->main_block = y->block;
    h->is_whole = true;
    h->head->n_states++;
    h->head->before_bytes += (uint64_t)tideT_g_total(y->g) + next_bytes;
    tideT_meet_state(h);
    tideT_g_ud(y->g) = h;
    memcpy(y->g, &ours, sizeof ours);
}

enum tide_err tide_heap_sniff(struct tide_session *session,
                              const struct tide_first_block *first,
                              struct tide_heap **out)
{
    struct young young;
    struct tide_heap *h;
    TIDE_FAIL_IF(!find_young(first->block, first->bytes, &young), TIDE_ERR_LUA);
    TIDE_FAIL_IF(!is_code(TIDE_AT(void *, young.g, 0)), TIDE_ERR_LUA);
    if (is_empty(&young))
        return TIDE_ERR_STATE;
    TIDE_FAIL_IF(!has_stack(&young, first->stack_bytes), TIDE_ERR_LUA);
    TIDE_FAIL_IF(tideT_g_ud(young.g) != NULL, TIDE_ERR_ARG);
    const struct tide_layout layout =
        layout_of(&young, first->stack_bytes, first->lua);
    TIDE_FAIL_IF(!learn(session, &layout, first->lua), TIDE_ERR_LUA);
    TIDE_TRY(tide_heap_open(session, &h));
    take_over(h, &young, first->next_bytes);
    *out = h;
    return TIDE_OK;
}

/* ---- which thread runs ---- */

static const lua_State *known_thread(const struct tide_heap *h, uintptr_t word)
{
    const uint64_t *value =
        word == 0 ? NULL : tideC_hashtab_find(&h->threads, (uint64_t)word);
    const struct tide_thread *t =
        value == NULL ? NULL : (struct tide_thread *)(uintptr_t)*value;
    return t == NULL || t->on_chain ? NULL : t->L;
}

static bool has_frames(const lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    return tideT_L_status(L) == 0 && ci != NULL &&
           tideT_ci_previous(ci) != NULL;
}

/*
** Threads with frames that have not yielded are those from the main thread to
** the running one.  The chain has what frames tell of them, up to some end; one
** beyond it was resumed by C code, and Lua has it in a register or nearby.
*/
const lua_State *tideT_sniff_running(struct tide_heap *h,
                                     const uintptr_t *words)
{
    if (h->threads.n <= 1)
        return NULL;
    tideT_running(h, NULL);
    for (unsigned i = 0; i < WORDS_SEEN; i++) {
        const lua_State *L = known_thread(h, words[i]);
        if (L != NULL && has_frames(L))
            return L;
    }
    return h->cur->L;
}

/* ---- names, from the table of globals ---- */

/* A name being looked for. */
struct search {
    const void *what; /* C function, or closure */
    char *name;       /* TIDE_GLOBAL_BYTES */
};

static bool is_value(const char *value, const void *what)
{
    switch (tideT_value_tag(value)) {
    case TIDE_TAG_LIGHT_C:
    case TIDE_TAG_LCLOSURE:
        return tideT_value_ptr(value) == what;
    case TIDE_TAG_CCLOSURE:
        return tideT_cclosure_f(tideT_value_ptr(value)) == what;
    default:
        return false;
    }
}

static const char *key_of(const char *node)
{
    return tideT_node_key_tag(node) == TIDE_TAG_SHORT_STRING
               ? tideT_string_text(tideT_node_key(node))
               : NULL;
}

static bool search_table(const struct search *search, const char *table,
                         const char *prefix)
{
    const char *nodes = tideT_table_node(table);
    const unsigned shift = tideT_table_log_nodes(table);
    for (size_t i = 0; shift <= NODES_SHIFT && i < (size_t)1 << shift; i++) {
        const char *node = nodes + i * TIDE_NODE_BYTES;
        const char *key = key_of(node);
        if (key == NULL)
            continue;
        if (is_value(node, search->what)) {
            snprintf(search->name, TIDE_GLOBAL_BYTES, "%s%s%s", prefix,
                     prefix[0] != '\0' ? "." : "", key);
            return true;
        }
        if (prefix[0] == '\0' && tideT_value_tag(node) == TIDE_TAG_TABLE &&
            strcmp(key, "_G") != 0 &&
            search_table(search, tideT_value_ptr(node), key))
            return true;
    }
    return false;
}

bool tideT_name_of_global(const struct tide_heap *h, const void *what,
                          char name[TIDE_GLOBAL_BYTES])
{
    const struct search search = {what, name};
    if (h->g == NULL)
        return false;
    const char *registry = h->g + TIDE_G_REGISTRY_AT;
    if (tideT_value_tag(registry) != TIDE_TAG_TABLE)
        return false;
    const char *table = tideT_value_ptr(registry);
    const char *globals =
        tideT_table_array(table) + (LUA_RIDX_GLOBALS - 1) * TIDE_SLOT_BYTES;
    return tideT_table_array(table) != NULL &&
           tideT_table_limit(table) >= LUA_RIDX_GLOBALS &&
           tideT_value_tag(globals) == TIDE_TAG_TABLE &&
           search_table(&search, tideT_value_ptr(globals), "");
}
