/*
** attrib.h: what the files of this folder share, file by file; the structures
** are in heap.h.
*/
#ifndef TIDE_ATTRIB_H
#define TIDE_ATTRIB_H

#include "heap.h"

/* The allocator (hot.c, slow.c).  Called from entry.S. */
TIDE_HIDDEN void *tideT_alloc(void *heap, void *ptr, size_t osize, size_t nsize,
                              const uintptr_t *words);
TIDE_HIDDEN void *tideT_free(void *heap, void *ptr, size_t osize, size_t nsize);
TIDE_COLD void *tideT_free_slow(struct tide_heap *h, void *ptr, size_t osize);
void *tideT_alloc_slow(struct tide_heap *h, size_t osize, size_t nsize,
                       const uintptr_t *words);
/* A block from any origin, once its cell is known. */
void *tideT_alloc_large(struct tide_heap *h, struct tide_p_cell *cell,
                        size_t osize, size_t nsize);
void *tideT_realloc_slow(struct tide_heap *h, void *ptr, size_t osize,
                         size_t nsize, const uintptr_t *words);

/* The collector (gcwatch.c). */
/* A state was met: what to watch. */
void tideT_gc_meet(struct tide_heap *h);
/* The watched word of global_State has changed. */
TIDE_COLD void tideT_note_gc(struct tide_heap *h);
/* What survives (survive.c).  At a flip: gc_cycle is the new cycle's number. */
void tideT_survivors(struct tide_heap *h, uint8_t mode, uint64_t now_ns);
/* No flip will come; is_swept: all of the last cycle's garbage is gone. */
void tideT_last_survivors(struct tide_heap *h, bool is_swept);
/* Counting begins anew. */
void tideT_survivors_reset(struct tide_heap *h);
/* A cell's bytes were freed, but what they held lives on elsewhere. */
void tideT_replaced(struct tide_heap *h, const struct tide_p_cell *cell,
                    size_t bytes);
/* A large string or userdata is freed: by the collector, nobody else does. */
TIDE_COLD void tideT_gc_swept(struct tide_heap *h);
/* An allocation has failed: Lua collects at once, then tries again. */
void tideT_gc_failed(struct tide_heap *h);
/* A point of the timeline, when one is due. */
void tideT_gc_moment(struct tide_heap *h, uint64_t now_ns);
void tideT_gc_last_moment(struct tide_heap *h, uint64_t now_ns);
/* Of the process; 0: not known.  Takes system calls, keeps errno. */
uint64_t tideT_rss_bytes(void);
/* The figures of the last collection cycle, so far. */
void tideT_settle_cycle(struct tide_heap *h);
void tideT_gc_flush(struct tide_heap *h);
/* The state is about to be closed; counting begins anew. */
void tideT_gc_closing(struct tide_heap *h);
void tideT_gc_reset(struct tide_heap *h);

/* What is kept of some cells only (lives.c). */
/* A record of its own for a cell that has none; never fails. */
TIDE_COLD struct tide_p_rest *tideT_new_rest(struct tide_heap *h,
                                             struct tide_p_cell *cell);
/* The same for its life; record 0 when there is no memory. */
TIDE_COLD struct tide_p_life *tideT_new_life(struct tide_heap *h,
                                             struct tide_p_cell *cell);
void tideT_count_ageless(struct tide_heap *h, struct tide_p_cell *cell,
                         uint64_t bytes, uint64_t blocks);
/* A large part of a table, of that many bytes, was too small. */
TIDE_COLD void tideT_count_regrown(struct tide_heap *h,
                                   struct tide_p_cell *cell, size_t bytes);
/* What died young, of a cell; never more than was freed. */
uint64_t tideT_young_bytes(const struct tide_heap *h,
                           const struct tide_p_cell *cell);
uint64_t tideT_young_blocks(const struct tide_heap *h,
                            const struct tide_p_cell *cell);
void tideT_lives_reset(struct tide_heap *h);

/* Blocks of TIDE_P_HUGE_LEAST bytes and more (huge.c). */
/* One was made, or has grown to that, and is now the cell's. */
TIDE_COLD void tideT_huge_made(struct tide_heap *h, uint32_t cell,
                               size_t bytes);
/* The last block, of any size, is not the one cell's but the other's. */
TIDE_COLD void tideT_huge_moved(struct tide_heap *h, uint32_t from, uint32_t to,
                                size_t bytes);
void tideT_huge_reset(struct tide_heap *h);

/* The limit, and failures (limit.c). */
/* May the heap hold so many bytes more?  Only while there is a limit. */
TIDE_COLD bool tideT_is_within(struct tide_heap *h, uint64_t growth);
/* limit.large_bytes was changed. */
void tideT_large_changed(struct tide_heap *h);
/* The arena may not cut slots for a block of so many bytes. */
TIDE_COLD void tideT_cuts_refused(struct tide_heap *h, size_t bytes);
/* A collection cycle was noted. */
void tideT_limit_cycle(struct tide_heap *h);
/* bytes 0: no limit. */
void tideT_limit_set(struct tide_heap *h, uint64_t bytes);
/* An allocation, as given to the allocator, was refused. */
TIDE_COLD void tideT_failed(struct tide_heap *h, const void *ptr, size_t osize,
                            size_t nsize);
/* While failure.is_open: the next one is asked for, and was met. */
TIDE_COLD void tideT_failure_next(struct tide_heap *h, const void *ptr,
                                  size_t osize, size_t nsize);
TIDE_COLD void tideT_failure_met(struct tide_heap *h);
void tideT_failure_reset(struct tide_heap *h);

/* Commands from outside (control.c). */
/* Looks for one, carries it out. */
TIDE_COLD void tideT_control_look(struct tide_heap *h);
/* An empty block; of a session that is new, or in a forked child. */
void tideT_control_open(struct tide_session *s);
void tideT_session_switch(struct tide_session *s, bool is_off);
/* False: the program has a handler of its own. */
bool tideT_signal_take(struct tide_session *s);
void tideT_signal_give_back(struct tide_session *s);

/* Is there a command, or was there the signal? */
TIDE_INLINE bool tideT_is_called(const struct tide_heap *h)
{
    return h->is_woken || *h->request != h->control_seen;
}

/* On slow calls. */
TIDE_INLINE void tideT_listen(struct tide_heap *h)
{
    if (TIDE_UNLIKELY(tideT_is_called(h)))
        tideT_control_look(h);
}

/* Marks (marks.c).  Under the session's lock, but for the FAILED one's. */
/* False: no room for it. */
bool tideT_mark_label(struct tide_heap *h, const char *label,
                      size_t label_bytes);
bool tideT_mark_failed(struct tide_heap *h, uint64_t want_bytes);
/* The FAILED one is no more. */
void tideT_mark_take_back(struct tide_heap *h);
void tideT_marks_reset(struct tide_heap *h);
/* In all heaps; takes the lock. */
enum tide_err tideT_session_mark(struct tide_session *s, const char *label,
                                 size_t label_bytes);

/* The line every so often (gclog.c): read the options; write it; look. */
void tideT_log_open(struct tide_heap *h);
TIDE_COLD void tideT_log_write(struct tide_heap *h, uint64_t now_ns);
TIDE_COLD void tideT_log_look(struct tide_heap *h);

TIDE_INLINE void tideT_log_when_due(struct tide_heap *h, uint64_t now_ns)
{
    if (TIDE_UNLIKELY(h->log.every_ns != 0) && now_ns >= h->log.next_ns)
        tideT_log_write(h, now_ns);
}

/* Peaks, closing (account.c). */
void tideT_peak_save(struct tide_heap *h, struct tide_p_cell *cell);
void tideT_peak_rise(struct tide_heap *h);
/* freed_or_null: the block that is being freed. */
void tideT_pending_settle(struct tide_heap *h, const void *freed_or_null);
/* osize bytes of a block pass from one cell to another. */
void tideT_move(struct tide_heap *h, uint32_t from, uint32_t to, size_t bytes);
/* True when the free was accounted for here: a stack had been resized. */
bool tideT_freed_watched(struct tide_heap *h, char *ptr, size_t bytes,
                         enum tide_kind kind);
void tideT_freed_foreign(struct tide_heap *h, const char *ptr, size_t bytes);
/* lua_close has begun, and has ended. */
void tideT_closing(struct tide_heap *h);
void tideT_state_gone(struct tide_heap *h);

/*
** Finds where the program is: sets h->site and the state of the fast path.
** ra NULL: the caller's address is not known.
** osize, nsize  as given to the allocator; osize is a kind when ptr is NULL.
** Returns the kind of the new block.  (locate.c)
*/
enum tide_kind tideT_locate(struct tide_heap *h, const struct tide_ra *ra,
                            const uintptr_t *words, const void *ptr,
                            size_t osize, size_t nsize);

/* Kind of a new block by Lua's own kind, which is the osize of a new one. */
extern const uint8_t tideT_kind_of[16];

TIDE_INLINE enum tide_kind tideT_kind_of_tag(size_t osize)
{
    return (enum tide_kind)tideT_kind_of[osize & 15];
}

/* The state is whole enough to be read: h->g and the main thread are set. */
void tideT_meet_state(struct tide_heap *h);

/* In a forked child, before it counts: a file of its own (fork.c). */
TIDE_COLD void tideT_after_fork(struct tide_session *s);

/*
** The same with Lua's public functions alone, by a full walk (public.c).
*/
enum tide_kind tideT_public_locate(struct tide_heap *h,
                                   const struct tide_ra *ra,
                                   const uintptr_t *words, size_t osize);

/* Threads (thread.c). */
struct tide_thread *tideT_running(struct tide_heap *h, const lua_State *L);
/* The thread that L's innermost frame may be resuming; NULL: none. */
const lua_State *tideT_resumed_by(const lua_State *L);
/*
** Stands before a thread's frames, so that they can be searched without
** counting: no activation has its ci, and searches end at a finalizer.
*/
extern const struct tide_frame tideT_no_frame;
/* Its memory; its frames must have been popped, or not matter any more. */
void tideT_thread_free(struct tide_heap *h, struct tide_thread *t);
void tideT_thread_forget(struct tide_heap *h, const lua_State *L);
void tideT_links_cut(struct tide_heap *h, const char *block, size_t bytes);
void tideT_threads_reset(struct tide_heap *h);
/* Calls that are still open get their figures so far. */
void tideT_calls_flush(struct tide_heap *h);
/* What calls that are known to be open have allocated so far is none of theirs:
   counting begins. */
void tideT_calls_reset(struct tide_heap *h);
struct tide_thread *tideT_thread_of(struct tide_heap *h, const lua_State *L);
extern const uint16_t tideT_link_valid;   /* for threads of unknown resumer */
extern const uint16_t tideT_link_invalid; /* for threads off the chain */
extern const char tideT_no_gc[8];         /* stands for a missing state */
/* h->cur_L when the last place has C frames: no thread is it. */
#define TIDE_NATIVE_L ((const lua_State *)(const void *)tideT_no_gc)

/* Shadow stacks (shadow.c). */
/*
** Brings a shadow stack up to date.  False: no memory.  The top frame may be
** new: tideT_shadow_place gives it its node; tideT_shadow_settle does both with
** the pc that Lua has saved.
*/
bool tideT_shadow_sync(struct tide_heap *h, struct tide_thread *t);
struct tide_site *tideT_shadow_place(struct tide_heap *h, struct tide_thread *t,
                                     const uint32_t *pc);
bool tideT_shadow_settle(struct tide_heap *h, struct tide_thread *t);
void tideT_shadow_rebase(struct tide_heap *h, struct tide_thread *t,
                         uint32_t base);
void tideT_shadow_clear(struct tide_heap *h, struct tide_thread *t);
/* Pops what has returned. */
void tideT_shadow_trim(struct tide_heap *h, struct tide_thread *t);
uint32_t tideT_shadow_node(const struct tide_thread *t);
/* The node that a thread hangs below when its innermost frame resumes one. */
uint32_t tideT_shadow_base(struct tide_heap *h, const struct tide_thread *t);
/*
** The slot of a frame's function.  While a stack is being reallocated, 5.4.5
** and later keep offsets from its old place there.
*/
const char *tideT_func_slot(const struct tide_heap *h, const lua_State *L,
                            const char *ci);
/* Room for so many frames; false: no memory. */
bool tideT_shadow_reserve(struct tide_heap *h, struct tide_thread *t,
                          size_t want);
/* Frames from number i on get their nodes anew: one below has changed. */
void tideT_shadow_replace(struct tide_heap *h, struct tide_thread *t,
                          uint32_t i);
/* An activation is over: how much did it allocate? */
void tideT_shadow_finish(struct tide_heap *h, const struct tide_thread *t,
                         const struct tide_frame *f);
/*
** The node of the innermost frame, and its function, without a mark or a call
** being noted: nothing was allocated.
*/
uint32_t tideT_shadow_peek(struct tide_heap *h, const struct tide_thread *t,
                           const void **fn);

/* Regions that were pushed (region.c): frames of their own kind. */
/* The `ci` of such a frame, which no activation has. */
extern const char tideT_region_ci[1];
/* Before a shadow stack is cleared, and after it was walked again. */
void tideT_regions_keep(struct tide_heap *h, struct tide_thread *t);
/* Drops those that belong to none of the n frames from `ci` on. */
void tideT_regions_sift(struct tide_thread *t, const char *ci);
void tideT_regions_restore(struct tide_heap *h, struct tide_thread *t);
void tideT_regions_forget(struct tide_heap *h, struct tide_thread *t);
/* The node that the activation `ci` of L hangs below, given its caller's. */
uint32_t tideT_regions_of(struct tide_heap *h, const lua_State *L,
                          const char *ci, uint32_t parent);

/* Groups of functions (targets.c). */
/* A chunk is run the first time: is it a module that is required? */
TIDE_COLD void tideT_note_module(struct tide_heap *h, uint32_t func,
                                 const char *proto);
/* Was the function named as a target? */
bool tideT_is_target(const struct tide_heap *h, uint32_t func);
/* The function is of this module, and is no target for that. */
void tideT_put_module(struct tide_heap *h, uint32_t func, uint32_t name);
/* The file of rules of the options; what is wrong with it is said. */
void tideT_rules_read(struct tide_heap *h);

TIDE_INLINE struct tide_site *tideT_site_place(const struct tide_heap *h,
                                               uint32_t parent, uintptr_t at)
{
    const uint64_t x = ((uint64_t)at >> 2) ^ ((uint64_t)parent << 20);
    return &h->sites[(x * UINT64_C(0x9e3779b97f4a7c15)) >> h->site_shift];
}

/* An empty cache of n places; false: no memory, the old one stays. */
bool tideT_sites_open(struct tide_heap *h, uint32_t n);
/* A larger one, if that is due; the place is found anew. */
TIDE_COLD void tideT_sites_grow(struct tide_heap *h);

/* The site cache (site.c): the place for a frame at pc. */
struct tide_site *tideT_site(struct tide_heap *h, uint32_t parent,
                             const void *fn, const uint32_t *pc,
                             const lua_State *L, char *ci);
/* A prototype is gone: no site may match it any more. */
void tideT_sites_forget(struct tide_heap *h, const struct tide_proto *proto);
struct tide_p_cell *tideT_site_cell(struct tide_heap *h, struct tide_site *site,
                                    enum tide_kind kind);

/* The tree (tree.c).  Never fail: a full tree gives "[other stacks]". */
bool tideT_tree_open(struct tide_heap *h);
uint32_t tideT_child(struct tide_heap *h, uint32_t parent, uint32_t func,
                     uint32_t line);
uint32_t tideT_cell(struct tide_heap *h, uint32_t node, enum tide_kind kind);

/* Functions and names (names.c).  Index 0 when there is no memory. */
/* The name of a C function of the standard library, "string.rep"; else "". */
const char *tideT_library_name(const struct tide_heap *h, const void *f);
/* Another name for tideT_func_c's key: what a frame of `token` is. */
bool tideT_func_alias(struct tide_heap *h, const void *token, uint32_t func);
uint32_t tideT_func_special(struct tide_heap *h, enum tide_p_what what,
                            const char *name);
uint32_t tideT_func_c(struct tide_heap *h, const void *f);
/* A return address, in a function that begins at `start` (0: not known). */
uint32_t tideT_func_native(struct tide_heap *h, uintptr_t ip, uintptr_t start);
/* The offset of a text in STRINGS; 0: "" or no memory. */
uint32_t tideT_text(struct tide_heap *h, const char *text);
uint32_t tideT_func_public(struct tide_heap *h, const char *source,
                           const char *name_or_null, int linedefined,
                           int lastline, bool is_c);
/* A string of the profile; cut at TIDE_P_STRING_MAX. */
uint32_t tideT_string(struct tide_heap *h, const char *text, size_t bytes);
uint32_t tideT_func_coroutine(struct tide_heap *h, uint32_t born_node);
struct tide_proto *tideT_proto_find(struct tide_heap *h, const char *proto);
void tideT_proto_forget(struct tide_heap *h, const char *proto);
/* Its memory. */
void tideT_proto_free(struct tide_heap *h, struct tide_proto *p);
/*
** The running thread where nothing is calibrated, as far as the words of the
** call show it (sniff.c); NULL: the one that frames tell of.
*/
const lua_State *tideT_sniff_running(struct tide_heap *h,
                                     const uintptr_t *words);
/*
** What the globals of a state, and tables in them, call a C function or a
** closure: "string.rep"; false: none does.  Where Lua's own functions cannot be
** called (sniff.c).
*/
#define TIDE_GLOBAL_BYTES 128u
bool tideT_name_of_global(const struct tide_heap *h, const void *what,
                          char name[TIDE_GLOBAL_BYTES]);
void tideT_name_from_call(struct tide_heap *h, uint32_t func,
                          const lua_State *L, char *ci);

TIDE_INLINE uint64_t tideT_gc_word(const struct tide_heap *h)
{
    uint64_t word;
    __builtin_memcpy(&word, h->gc_at, sizeof word);
    return word & h->gc_mask;
}

/*
** Is the frame at h->top_ci the activation that was seen last?  A frame that
** was tail called keeps its mark: then it must run the same closure.
*/
TIDE_INLINE bool tideT_is_same_call(const struct tide_heap *h, const char *ci)
{
    const uint16_t status = tideT_ci_status(ci) & h->mark_mask;
    return TIDE_LIKELY(status == TIDE_CIST_MARK) ||
           (status == h->mark_mask &&
            tideT_value_ptr(tideT_ci_func(ci)) == h->top_closure);
}

/*
** Is the innermost frame the C function that compiles?  Forgets about it once
** it has returned.
*/
TIDE_INLINE bool tideT_compiles_here(struct tide_heap *h,
                                     const struct tide_thread *t)
{
    if (TIDE_LIKELY(!h->is_compiling) || t != h->compile_thread)
        return false;
    const uint32_t n = h->compile_frame;
    if (t->n_frames < n ||
        (n > 0 ? t->frames[n - 1].start != h->compile_start : t->n_frames > 0))
        h->is_compiling = false;
    if (!h->is_compiling) {
        h->compile_thread = NULL;
        h->compile_frame = 0;
    }
    return h->is_compiling && t->n_frames == n;
}

/*
** A block is made at h->site: a table, by the instruction before pc, or (NULL)
** something else.
*/
TIDE_INLINE void tideT_note_made(struct tide_heap *h, const uint32_t *pc)
{
    h->made.pc = (uintptr_t)pc;
    h->made.parts = 0;
    h->parts_left = 0;
    if (pc == NULL || (pc[-1] & TIDE_OP_SIZES) == 0 ||
        TIDE_UNLIKELY(tideT_op(pc[-1]) != TIDE_OP_NEWTABLE))
        return;
    const uint32_t n = tideT_op_count(pc - 1);
    const uint32_t b = tideT_op_b(pc[-1]);
    h->made.array_bytes = n * TIDE_SLOT_BYTES;
    h->made.hash_bytes = b == 0 ? 0 : TIDE_NODE_BYTES << (b - 1);
    h->made.parts = (uint8_t)((n != 0 ? 1u : 0u) | (b != 0 ? 2u : 0u));
    h->parts_left = h->made.parts;
}

/* The part of the table made last that has this size; 0: none. */
TIDE_INLINE uint8_t tideT_part_bit(const struct tide_heap *h, size_t bytes)
{
    return bytes == h->made.array_bytes  ? 1u
           : bytes == h->made.hash_bytes ? 2u
                                         : 0u;
}

/* What was made before the attach and is still held. */
TIDE_INLINE uint64_t tideT_before_bytes(const struct tide_heap *h)
{
    const struct tide_p_heap *head = h->head;
    return head->before_bytes > head->before_freed_bytes
               ? head->before_bytes - head->before_freed_bytes
               : 0;
}

/* What a cell holds now.  Of one without a rest, record 0 has nothing. */
TIDE_INLINE uint64_t tideT_held_bytes(const struct tide_heap *h,
                                      const struct tide_p_cell *cell)
{
    const struct tide_p_rest *rest = &h->rests[cell->rest];
    return rest->inherited_bytes + cell->alloc_bytes +
           (uint64_t)rest->moved_bytes - cell->freed_bytes - rest->closed_bytes;
}

TIDE_INLINE uint64_t tideT_held_blocks(const struct tide_heap *h,
                                       const struct tide_p_cell *cell)
{
    const struct tide_p_rest *rest = &h->rests[cell->rest];
    return rest->inherited_blocks + cell->alloc_blocks +
           (uint64_t)rest->moved_blocks - cell->freed_blocks -
           rest->closed_blocks;
}

/* The record of a cell for what is to be counted in it. */
TIDE_INLINE struct tide_p_rest *tideT_rest(struct tide_heap *h,
                                           struct tide_p_cell *cell)
{
    return TIDE_LIKELY(cell->rest != 0) ? &h->rests[cell->rest]
                                        : tideT_new_rest(h, cell);
}

TIDE_INLINE struct tide_p_life *tideT_life(struct tide_heap *h,
                                           struct tide_p_cell *cell)
{
    return TIDE_LIKELY(cell->life != 0) ? &h->lives[cell->life]
                                        : tideT_new_life(h, cell);
}

/* A block was freed that had survived a collection: its age is 2 or more. */
TIDE_INLINE void tideT_count_aged(struct tide_heap *h, struct tide_p_cell *cell,
                                  size_t bytes, uint32_t age)
{
    struct tide_p_life *life = tideT_life(h, cell);
    tide_assert(age >= 2);
    if (age == 2) {
        life->once_bytes += bytes;
        life->once_blocks++;
    } else if (age == 3) {
        life->twice_bytes += bytes;
        life->twice_blocks++;
    } else {
        life->older_bytes += bytes;
        life->older_blocks++;
    }
}

/*
** The clock that worst calls are measured with: bytes allocated while the
** thread was on the chain, less those of finalizers.
*/
TIDE_INLINE uint64_t tideT_clock_of(const struct tide_heap *h,
                                    const struct tide_thread *t)
{
    return t->clock + h->alloc_bytes; /* on the chain */
}

TIDE_INLINE uint64_t tideT_clock(const struct tide_heap *h,
                                 const struct tide_thread *t)
{
    return t->on_chain ? tideT_clock_of(h, t) : t->clock;
}

/* Has frames and is neither suspended nor dead. */
TIDE_INLINE bool tideT_is_active(const lua_State *L)
{
    const char *ci = tideT_L_ci(L);
    return tideT_L_status(L) == 0 && ci != NULL &&
           tideT_ci_previous(ci) != NULL;
}

/* Is the chain's end still what it was when it was put there? */
TIDE_INLINE bool tideT_is_end_valid(const struct tide_heap *h)
{
    const struct tide_thread *t = h->cur;
    return t == h->main ||
           (tideT_is_active(t->L) && (*t->link & TIDE_CIST_MARK) != 0);
}

/* The chain's end leaves it: what has returned of it was ended before. */
TIDE_INLINE void tideT_chain_pop(struct tide_heap *h)
{
    struct tide_thread *t = h->cur;
    tide_assert(t != h->main && t->on_chain && t->above == NULL);
    t->clock = tideT_clock_of(h, t);
    t->on_chain = false;
    t->link = &tideT_link_invalid;
    h->cur = t->resumer;
    h->cur->above = NULL;
    t->resumer = NULL;
}

/* t is the chain's end from now on. */
TIDE_INLINE void tideT_chain_push(struct tide_heap *h, struct tide_thread *t)
{
    tide_assert(!t->on_chain && h->cur->above == NULL);
    t->resumer = h->cur;
    h->cur->above = t;
    t->on_chain = true;
    t->clock -= h->alloc_bytes;
    h->cur = t;
}

TIDE_INLINE struct tide_proto_hit *tideT_proto_hit(struct tide_heap *h,
                                                   const char *proto)
{
    const uint64_t x =
        (uint64_t)(uintptr_t)proto * UINT64_C(0x9e3779b97f4a7c15);
    return &h->proto_hits[x >> 56];
}

/* What is kept of a prototype; NULL: no memory. */
TIDE_INLINE struct tide_proto *tideT_proto(struct tide_heap *h,
                                           const char *proto)
{
    struct tide_proto_hit *hit = tideT_proto_hit(h, proto);
    if (hit->proto != proto) {
        hit->info = tideT_proto_find(h, proto);
        hit->proto = hit->info == NULL ? NULL : proto;
    }
    return hit->info;
}

/* Before the counters of a cell change while the heap is below its peak. */
TIDE_INLINE void tideT_peak_keep(struct tide_heap *h, struct tide_p_cell *cell)
{
    if (TIDE_UNLIKELY(cell->peak_epoch != h->epoch))
        tideT_peak_save(h, cell);
}

/*
** The heap grows by n bytes, of `cell`.  Above the peak no cell needs to keep
** anything; below it this one keeps what it held.
*/
TIDE_INLINE void tideT_heap_grows(struct tide_heap *h, struct tide_p_cell *cell,
                                  size_t n)
{
    h->alloc_bytes += n;
    h->live_bytes += n;
    if (h->live_bytes > h->peak_bytes) {
        h->peak_bytes = h->live_bytes;
        if (h->peak_is_past)
            tideT_peak_rise(h);
    } else {
        tideT_peak_keep(h, cell);
    }
}

/* A new block of n bytes, of `cell`. */
TIDE_INLINE void tideT_count_made(struct tide_heap *h, struct tide_p_cell *cell,
                                  size_t n)
{
    tideT_heap_grows(h, cell, n);
    cell->alloc_bytes += n;
    cell->alloc_blocks++;
}

#endif
