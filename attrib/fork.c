/*
** fork.c: processes that are forked with live states.
**
** The profile is memory that parent and child share at first, and the parent
** goes on counting at once: what the child finds in it is of some later moment.
** So before a fork the parent notes in private memory what every cell holds,
** and the child has that as it was at the fork.  The child then maps the pages
** for itself and is marked.  Its first call of the allocator copies them, since
** those that it has not written to still are the parent's, makes the tables its
** own, with that as inherited, and gives it a file.  A child that never calls
** it has cost a few mappings and leaves nothing.
**
** The list of sessions, for the two sides of a fork, is the only mutable global
** of the library.
*/
#include "native.h"
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "../common/mem.h"

static struct tide_session *all_sessions;
static int all_lock;

/* What a heap holds at the moment of a fork. */
struct tide_fork_note {
    size_t bytes; /* of this block, with room for the next forks */
    struct tide_p_heap head;
    uint32_t n_cells; /* noted */
    struct fork_held {
        uint64_t bytes;
        uint64_t blocks;
    } held[];
};

/* ---- the parent ---- */

static struct tide_fork_note *note_for(struct tide_heap *h, uint32_t n_cells)
{
    struct tide_fork_note *note = h->fork_note;
    const size_t need = sizeof *note + n_cells * sizeof note->held[0];
    if (note != NULL && note->bytes >= need)
        return note;
    tideT_fork_note_free(h);
    note = tideC_pages_alloc(need * 2);
    if (note != NULL)
        note->bytes = need * 2;
    h->fork_note = note;
    return note;
}

static void note_heap(struct tide_heap *h)
{
    const uint32_t n_cells = TIDE_OBSERVE(&h->n_cells);
    struct tide_fork_note *note = note_for(h, n_cells);
    if (note == NULL)
        return; /* the child takes what it finds */
    note->head = *h->head;
    note->n_cells = n_cells;
    for (uint32_t i = 1; i < n_cells; i++) {
        const struct tide_p_cell *c = &h->cells[i];
        note->held[i].bytes = tideT_held_bytes(h, c);
        note->held[i].blocks = tideT_held_blocks(h, c);
    }
}

static void before_fork(void)
{
    for (struct tide_session *s = TIDE_OBSERVE(&all_sessions); s != NULL;
         s = s->next) {
        for (struct tide_heap *h = TIDE_OBSERVE(&s->heaps);
             h != NULL && !s->is_forked; h = h->next)
            note_heap(h);
        tideP_writer_fork_begin(s->writer);
        tideT_unwind_fork_begin(s->unwind);
    }
}

static void after_fork_in_parent(void)
{
    for (struct tide_session *s = TIDE_OBSERVE(&all_sessions); s != NULL;
         s = s->next) {
        tideT_unwind_fork_end(s->unwind);
        tideP_writer_fork_end(s->writer);
    }
}

void tideT_fork_note_free(struct tide_heap *h)
{
    if (h->fork_note != NULL)
        tideC_pages_free(h->fork_note, h->fork_note->bytes);
    h->fork_note = NULL;
}

/* ---- the child ---- */

/* Every call takes the slow path from here on. */
static void stop_fast_path(struct tide_heap *h)
{
    h->cur_L = NULL;
    h->store.small_max = 0;
}

static void after_fork_in_child(void)
{
    all_lock = 0;
    for (struct tide_session *s = all_sessions; s != NULL; s = s->next) {
        s->lock = 0;
        tideT_unwind_fork_end(s->unwind);
        if (tideP_writer_detach(s->writer) != TIDE_OK || s->is_finished)
            continue;
        s->is_forked = true;
        for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
            stop_fast_path(h);
    }
}

/* Records of the parent behind those that the child knows of. */
static void clear_behind(const struct tide_section *s, size_t used_bytes)
{
    unsigned char *at = s->base + used_bytes;
    unsigned char *end = s->base + s->ready_bytes;
    static const unsigned char zeros[256];
    while (at < end) {
        const size_t left = (size_t)(end - at);
        const size_t n = left < sizeof zeros ? left : sizeof zeros;
        if (memcmp(at, zeros, n) != 0)
            memset(at, 0, n);
        at += n;
    }
}

static void clear_all_behind(struct tide_heap *h)
{
    const struct tide_section *s = h->sections;
    clear_behind(&s[TIDE_P_STRINGS], h->string_bytes);
    clear_behind(&s[TIDE_P_FUNCS], h->n_funcs * sizeof *h->funcs);
    clear_behind(&s[TIDE_P_OBJECTS], h->n_objects * sizeof *h->objects);
    clear_behind(&s[TIDE_P_NODES], h->n_nodes * sizeof *h->nodes);
    clear_behind(&s[TIDE_P_CELLS], h->n_cells * sizeof *h->cells);
    clear_behind(&s[TIDE_P_CYCLES], 0);
    clear_behind(&s[TIDE_P_MOMENTS], 0);
    clear_behind(&s[TIDE_P_EVENTS], 0);
    clear_behind(&s[TIDE_P_CELL_FLOORS], 0);
    clear_behind(&s[TIDE_P_LIVES], 0);
    clear_behind(&s[TIDE_P_MARKS], 0);
    clear_behind(&s[TIDE_P_SNAPS], 0);
    clear_behind(&s[TIDE_P_TARGETS],
                 h->n_targets * sizeof(struct tide_p_target));
}

/*
** What a cell leads to may be of a later moment, and not there at all: without
** a note what the child has is taken, with one none of it.
*/
static void cut_rests(struct tide_heap *h, bool has_note)
{
    const struct tide_section *s = &h->sections[TIDE_P_RESTS];
    const size_t have = s->ready_bytes / sizeof *h->rests;
    const uint32_t n = has_note                  ? 1
                       : h->head->n_rests < have ? h->head->n_rests
                                                 : (uint32_t)have;
    for (uint32_t i = 1; i < h->n_cells; i++)
        if (h->cells[i].rest >= n)
            h->cells[i].rest = 0;
    h->head->n_rests = n;
    clear_behind(s, n * sizeof *h->rests);
}

/* The lists of cells as they were: a new one stands at the head. */
static void link_cells(struct tide_heap *h)
{
    for (uint32_t i = 0; i < h->n_nodes; i++)
        h->nodes[i].first_cell = 0;
    for (uint32_t i = 1; i < h->n_cells; i++) {
        struct tide_p_node *node = &h->nodes[h->cells[i].node];
        h->cells[i].next = node->first_cell;
        node->first_cell = i;
    }
}

/*
** Other threads, which the child does not have, went on between the note and
** the fork: what stands beside the noted cells is brought in line with them.
** States that were closed before are the parent's.
*/
static void take_note(struct tide_heap *h, const struct tide_fork_note *note)
{
    struct tide_p_heap *head = h->head;
    *head = note->head;
    head->state = h->is_idle ? TIDE_P_HEAP_CLOSED : TIDE_P_HEAP_OPEN;
    head->n_states = !h->is_idle && head->n_states > head->n_gone;
}

/*
** What a cell held at the fork.  A heap without a note was only being made by
** another thread, or there was no memory: it has what the child finds, which
** may be half of something.
*/
static struct fork_held held_then(const struct tide_heap *h, uint32_t i)
{
    const struct tide_fork_note *note = h->fork_note;
    struct fork_held held = {0, 0};
    if (note != NULL && !h->is_idle && i < note->n_cells)
        return note->held[i];
    if (note != NULL)
        return held;
    const int64_t bytes = (int64_t)tideT_held_bytes(h, &h->cells[i]);
    const int64_t blocks = (int64_t)tideT_held_blocks(h, &h->cells[i]);
    if (bytes > 0 && blocks > 0)
        held = (struct fork_held){(uint64_t)bytes, (uint64_t)blocks};
    return held;
}

/* What the heap held at the fork, as inherited, and nothing else. */
static void recount(struct tide_heap *h)
{
    const struct tide_fork_note *note = h->fork_note;
    if (note != NULL)
        take_note(h, note);
    h->head->string_bytes = h->string_bytes;
    h->head->n_nodes = h->n_nodes;
    h->head->n_cells = h->n_cells;
    h->head->n_funcs = h->n_funcs;
    h->head->n_objects = h->n_objects;
    h->head->n_targets = h->n_targets;
    clear_all_behind(h);
    cut_rests(h, note != NULL);
    link_cells(h);
    h->live_bytes = 0;
    for (uint32_t i = 1; i < h->n_cells; i++)
        h->live_bytes += held_then(h, i).bytes;
    tideT_heap_reset(h);
    for (uint32_t i = 1; i < h->n_cells; i++) {
        const struct fork_held held = held_then(h, i);
        tideT_inherit(h, &h->cells[i], held.bytes, held.blocks);
    }
    tideA_store_settle(&h->store);
}

void tideT_after_fork(struct tide_session *s)
{
    tideT_lock(&s->lock);
    const bool is_first = s->is_forked;
    s->is_forked = false;
    if (is_first) {
        const int old_errno = errno;
        tideP_writer_own(s->writer);
        for (struct tide_heap *h = s->heaps; h != NULL; h = h->next)
            recount(h);
        tideT_session_move(s);
        errno = old_errno;
    }
    tideT_unlock(&s->lock);
}

/* ---- the list ---- */

void tideT_sessions_add(struct tide_session *s)
{
    static int did_register;
    tideT_lock(&all_lock);
    if (!did_register)
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    did_register = 1;
    s->next = all_sessions;
    TIDE_PUBLISH(&all_sessions, s);
    tideT_unlock(&all_lock);
}

struct tide_session *tideT_sessions(void)
{
    return TIDE_OBSERVE(&all_sessions);
}

void tideT_sessions_remove(struct tide_session *s)
{
    tideT_lock(&all_lock);
    struct tide_session **at = &all_sessions;
    while (*at != NULL && *at != s)
        at = &(*at)->next;
    if (*at == s)
        *at = s->next;
    tideT_unlock(&all_lock);
}
