/*
** locate.c: where is the program?  The slow half of capture.
**
** Called when the fast path cannot tell: another thread, another activation,
** another instruction, a block without a kind.  Leaves h->site and the fast
** path's copy of where we are.
*/
#include "check.h"
#include "native.h"

#define PC_WORDS 200u /* that may hold pc where it is not known which does */

/* No frame, or nothing is to be recorded: this site, by the slow path. */
static void rest_at(struct tide_heap *h, struct tide_site *site)
{
    h->site = site;
    h->cur_L = NULL;
    h->top_is_lua = false;
    tideT_note_made(h, NULL);
}

void tideT_meet_state(struct tide_heap *h)
{
    struct tide_thread *t = tideT_thread_of(h, h->main_L);
    if (t == NULL)
        return;
    t->on_chain = true;
    t->link = &tideT_link_valid;
    h->main = h->cur = t;
    h->g = tideT_L_global(h->main_L);
    h->gc_at = h->g + TIDE_GC_WORD_AT;
    tideT_gc_meet(h);
}

/* Is there an instruction of the prototype before pc? */
static bool is_in_code(const void *fn, const uint32_t *pc)
{
    const uint32_t *code = tideT_proto_code(fn);
    return pc > code && pc <= code + tideT_proto_sizecode(fn) &&
           ((uintptr_t)pc & 3) == 0;
}

/* Does the instruction before pc make the table in the register at top? */
static bool is_constructor(const lua_State *L, const struct tide_frame *f,
                           const uint32_t *pc)
{
    if (!is_in_code(f->fn, pc) || tideT_op(pc[-1]) != TIDE_OP_NEWTABLE)
        return false;
    const long a =
        (tideT_L_top(L) - tideT_ci_func(f->ci)) / (long)TIDE_SLOT_BYTES - 2;
    return a == (long)tideT_op_a(pc[-1]);
}

/*
** Where nothing is calibrated (sniff.c): the VM's pc is in a register or on the
** stack all the same.  It points behind the instruction, or one off.
*/
static const uint32_t *constructor_in_words(const lua_State *L,
                                            const struct tide_frame *f,
                                            const uintptr_t *words)
{
    static const int8_t off[] = {-1, 0, 1};
    const uintptr_t code = (uintptr_t)tideT_proto_code(f->fn);
    const uintptr_t bytes =
        (uintptr_t)tideT_proto_sizecode(f->fn) * sizeof(uint32_t);
    for (unsigned w = 0; w < PC_WORDS; w++) {
        if (words[w] - code > bytes)
            continue;
        for (unsigned i = 0; i < sizeof off; i++) {
            const uint32_t *pc = (const uint32_t *)words[w] + off[i];
            if (is_constructor(L, f, pc))
                return pc;
        }
    }
    return NULL;
}

/*
** The constructor being run when pc is not captured: the VM has set L->top
** just above its register, so it is the nearest one from the saved pc on that
** sets that register, round a loop if need be.
*/
static const uint32_t *nearest_constructor(const lua_State *L,
                                           const struct tide_frame *f)
{
    const uint32_t *pc = tideT_ci_savedpc(f->ci);
    const uint32_t *end = tideT_proto_code(f->fn) + tideT_proto_sizecode(f->fn);
    for (const uint32_t *i = pc; i < end; i++)
        if (is_constructor(L, f, i + 1))
            return i + 1;
    for (const uint32_t *i = tideT_proto_code(f->fn); i < pc; i++)
        if (is_constructor(L, f, i + 1))
            return i + 1;
    return pc;
}

static const uint32_t *constructor_pc(struct tide_heap *h, const lua_State *L,
                                      const struct tide_frame *f,
                                      const struct tide_ra *ra,
                                      const uintptr_t *words, size_t bytes)
{
    if (ra != NULL && ra->pc_word != TIDE_NO_WORD) {
        const uintptr_t word =
            words[ra->pc_word] + (uintptr_t)(intptr_t)ra->pc_bias;
        const uint32_t *pc = (const uint32_t *)word;
        if (is_constructor(L, f, pc))
            return pc;
    }
    h->head->inferred_bytes += bytes;
    const uint32_t *pc =
        h->cal->is_sniffed ? constructor_in_words(L, f, words) : NULL;
    return pc != NULL ? pc : nearest_constructor(L, f);
}

/* A part of the table that the constructor has just made? */
static bool is_part(struct tide_heap *h, const struct tide_frame *f,
                    const void *ptr, size_t bytes)
{
    if (h->parts_left == 0 || ptr != NULL || h->top_ci != f->ci ||
        !is_in_code(f->fn, (const uint32_t *)h->site->at))
        return false;
    const uint8_t bit = tideT_part_bit(h, bytes);
    if ((h->parts_left & bit) == 0)
        return false;
    h->parts_left &= (uint8_t)~bit;
    return true;
}

/* The pc of the innermost frame, as if it had been saved. */
static const uint32_t *effective_pc(struct tide_heap *h,
                                    const struct tide_thread *t,
                                    const struct tide_ra *ra,
                                    const uintptr_t *words, const void *ptr,
                                    enum tide_kind kind, size_t bytes)
{
    const bool is_moving = t->L == h->moving_L;
    const struct tide_frame *f = &t->frames[t->n_frames - 1];
    if (!f->is_lua) {
        h->parts_left = 0;
        return NULL;
    }
    if (!is_moving && kind == TIDE_KIND_TABLE)
        return constructor_pc(h, t->L, f, ra, words, bytes);
    if (kind == TIDE_KIND_STORAGE && is_part(h, f, ptr, bytes))
        return (const uint32_t *)h->site->at;
    h->parts_left = 0;
    const uint32_t *pc = tideT_ci_savedpc(f->ci);
    if (!is_moving && kind == TIDE_KIND_STORAGE &&
        is_setlist(t->L, pc, f->ci, ptr, bytes))
        return pc + 1;
    return pc;
}

static void note_made(struct tide_heap *h, const struct tide_thread *t,
                      enum tide_kind kind)
{
    if (kind == TIDE_KIND_THREAD)
        h->is_newborn = true;
    if (kind == TIDE_KIND_PROTO && !h->top_is_lua) {
        h->is_compiling = true;
        h->compile_thread = (struct tide_thread *)(uintptr_t)t;
        h->compile_frame = t->n_frames;
        h->compile_start =
            t->n_frames == 0 ? 0 : t->frames[t->n_frames - 1].start;
    }
}

/* Whether Lua counts it is seen at the next call. */
static enum tide_kind maybe_buffer(struct tide_heap *h, size_t bytes)
{
    struct tide_pending *p = &h->pending;
    p->what = TIDE_PENDING_BUFFER;
    p->total = tideT_g_total(h->g);
    p->live = h->live_bytes;
    p->bytes = bytes;
    return TIDE_KIND_BUFFER;
}

/* The kind of a block that Lua gave none, as far as can be told now. */
static enum tide_kind untagged_kind(struct tide_heap *h,
                                    const struct tide_thread *t,
                                    const struct tide_ra *ra,
                                    const lua_State *L, size_t bytes)
{
    if (ra != NULL && ra->is_buffer)
        return TIDE_KIND_BUFFER;
    struct tide_pending *p = &h->pending;
    if (ra == NULL && !h->cal->is_sniffed)
        return maybe_buffer(h, bytes);
    if (h->is_newborn && bytes == h->cal->layout.first_stack_bytes) {
        h->is_newborn = false;
        return TIDE_KIND_THREAD;
    }
    char *ci = tideT_L_ci(L);
    if (ra == NULL && tideT_resumed_by(L) != NULL)
        ci = tideT_L_ci(tideT_resumed_by(L)); /* it is only about to run */
    if (bytes == TIDE_CALLINFO_BYTES && ci != NULL &&
        tideT_ci_next(ci) == NULL) {
        p->what = TIDE_PENDING_CALLINFO;
        p->is_compiling = tideT_compiles_here(h, t);
        p->ci = ci;
        p->bytes = bytes;
        return TIDE_KIND_CALLINFO;
    }
    if (tideT_compiles_here(h, t)) {
        p->what = TIDE_PENDING_CODE;
        p->bytes = bytes;
        return TIDE_KIND_CODE;
    }
    return ra == NULL ? maybe_buffer(h, bytes) : TIDE_KIND_STORAGE;
}

static void remember_place(struct tide_heap *h, struct tide_thread *t)
{
    h->cur_L = t->L;
    h->link = t->link;
    h->top_ci = tideT_L_ci(t->L);
    h->top_closure = h->top_ci == NULL || t->L == h->moving_L
                         ? NULL
                         : tideT_value_ptr(tideT_ci_func(h->top_ci));
    h->top_is_lua = t->n_frames > 0 && t->frames[t->n_frames - 1].is_lua;
}

/* Main thread, no frame: C code of the host. */
static void place_at_root(struct tide_heap *h, struct tide_thread *t)
{
    h->site = &h->root_site;
    tideT_note_made(h, NULL);
    char *ci = tideT_L_ci(t->L);
    if (ci != NULL)
        tideT_ci_status(ci) |= TIDE_CIST_MARK; /* base_ci never returns */
    remember_place(h, t);
    if (ci == NULL)
        h->cur_L = NULL;
}

/*
** Is it the C function that allocated last, or no function as then, and are C
** frames to be walked?  Then nothing but these is to be found out.  Kinds that
** need a second look are left to the whole way.
*/
static bool is_same_c_call(const struct tide_heap *h, const struct tide_ra *ra,
                           const uintptr_t *words, const void *ptr,
                           size_t osize, size_t nsize)
{
    const lua_State *L =
        ra == NULL ? NULL : (const lua_State *)words[ra->l_word];
    if (h->cur_L != TIDE_NATIVE_L || !tideT_is_native(&h->native_site) ||
        L == NULL || L != h->cur->L || tideT_gc_word(h) != h->gc_word ||
        h->wants_clear || h->is_off)
        return false;
    const char *ci = tideT_L_ci(L);
    if (ci == NULL || ci != h->top_ci || !tideT_is_same_call(h, ci) ||
        (*h->link & TIDE_CIST_MARK) == 0 || L == h->moving_L)
        return false;
    if (ptr != NULL)
        return true;
    if (osize == 0)
        return !h->is_untagged_slow && !ra->is_buffer &&
               nsize != TIDE_CALLINFO_BYTES;
    return osize != TIDE_LUA_TTHREAD && osize != TIDE_LUA_TPROTO;
}

/* The same place as the last one, but for its C frames. */
static void stay(struct tide_heap *h, const lua_State *L, const void *ptr,
                 size_t osize)
{
    h->site = &h->native_site;
    h->last_L = L;
    h->is_last_untagged = ptr == NULL && osize == 0;
    tideT_check_place(h);
}

/* The same from anywhere. */
static enum tide_kind find_place(struct tide_heap *h, const struct tide_ra *ra,
                                 const uintptr_t *words, const void *ptr,
                                 size_t osize, size_t nsize)
{
    enum tide_kind kind =
        ptr == NULL ? tideT_kind_of_tag(osize) : TIDE_KIND_STORAGE;
    if (h->g == NULL && h->main_L != NULL)
        tideT_meet_state(h);
    if (h->wants_clear && h->g != NULL) {
        tideT_threads_reset(h);
        h->wants_clear = false;
    }
    if (h->g == NULL || h->is_off) {
        rest_at(h, h->is_off ? &h->off_site : &h->root_site);
        if (tideT_is_native(h->site))
            tideT_native_place(h, words);
        if (ptr == NULL && osize == 0 && h->g == NULL)
            kind = TIDE_KIND_OTHER;
        return kind;
    }
    if (TIDE_UNLIKELY(tideT_gc_word(h) != h->gc_word)) {
        tideT_note_gc(h);
        tideT_sites_grow(h);
    }
    const lua_State *L = ra != NULL ? (const lua_State *)words[ra->l_word]
                         : h->cal->is_sniffed ? tideT_sniff_running(h, words)
                                              : NULL;
    if (ra == NULL && !h->cal->is_sniffed)
        h->head->unknown_calls++;
    tideT_native_begin(h, words, L);
    struct tide_thread *t = tideT_running(h, L);
    h->last_L = L == NULL ? t->L : L;
    h->is_last_untagged = ptr == NULL && osize == 0;
    if (!tideT_shadow_sync(h, t)) {
        rest_at(h, &h->root_site);
        return kind;
    }
    if (t->n_frames == 0) {
        place_at_root(h, t);
    } else {
        const struct tide_frame *f = &t->frames[t->n_frames - 1];
        const uint32_t *pc = effective_pc(h, t, ra, words, ptr, kind, nsize);
        h->site = tideT_shadow_place(h, t, pc);
        remember_place(h, t);
        if (kind == TIDE_KIND_TABLE || h->parts_left == 0)
            tideT_note_made(h, kind == TIDE_KIND_TABLE && h->top_is_lua &&
                                       is_in_code(f->fn, pc)
                                   ? pc
                                   : NULL);
    }
    if (ptr == NULL && osize == 0)
        kind = untagged_kind(h, t, ra, h->last_L, nsize);
    else if (ptr == NULL)
        note_made(h, t, kind);
    h->is_untagged_slow = h->is_newborn || tideT_compiles_here(h, t);
    tideT_check_place(h);
    if (tideT_is_native(h->site)) {
        h->native_site = *h->site;
        tideT_native_place(h, words);
    }
    return kind;
}

enum tide_kind tideT_locate(struct tide_heap *h, const struct tide_ra *ra,
                            const uintptr_t *words, const void *ptr,
                            size_t osize, size_t nsize)
{
    if (is_same_c_call(h, ra, words, ptr, osize, nsize)) {
        stay(h, (const lua_State *)words[ra->l_word], ptr, osize);
        tideT_native_place(h, words);
        return ptr == NULL ? tideT_kind_of_tag(osize) : TIDE_KIND_STORAGE;
    }
    h->native_site.at = 0;
    const enum tide_kind kind = find_place(h, ra, words, ptr, osize, nsize);
    tideT_native_end(h);
    return kind;
}
