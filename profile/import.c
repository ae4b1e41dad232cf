/*
** import.c: a profile made of another tool's rows.
**
** Each row becomes a function, a node below the root and a cell, and a target
** of its group.  Two Lua functions with the same source and line would be one
** to every reader; so a row whose place another has taken, or that has none,
** becomes a function without lines, which its name tells apart.
*/
#include "import.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/hash.h"
#include "../common/hashtab.h"
#include "writer.h"

#define SOURCE_MAX TIDE_P_STRING_MAX

struct import {
    struct tide_writer *writer;
    struct tide_p_heap *head;
    struct tide_section sections[TIDE_P_SECTION_COUNT_];
    struct tide_mem mem;        /* holds `places` */
    struct tide_hashtab places; /* hashes of source and line */
};

static const size_t record_bytes[TIDE_P_SECTION_COUNT_] = {
    [TIDE_P_HEAD] = sizeof(struct tide_p_heap),
    [TIDE_P_STRINGS] = 1,
    [TIDE_P_FUNCS] = sizeof(struct tide_p_func),
    [TIDE_P_NODES] = sizeof(struct tide_p_node),
    [TIDE_P_CELLS] = sizeof(struct tide_p_cell),
    [TIDE_P_TARGETS] = sizeof(struct tide_p_target),
    [TIDE_P_LIVES] = sizeof(struct tide_p_life),
};

/* Room for record `index` of a section; NULL: no memory. */
static void *record_at(struct import *in, enum tide_p_section id,
                       uint32_t index)
{
    struct tide_section *section = &in->sections[id];
    const size_t bytes = record_bytes[id];
    const size_t at = (size_t)index * bytes;
    if (tideP_section_reserve(in->writer, section, at + bytes) != TIDE_OK)
        return NULL;
    return section->base + at;
}

static enum tide_err put_string(struct import *in, const char *prefix,
                                const char *text, uint32_t *out)
{
    struct tide_section *section = &in->sections[TIDE_P_STRINGS];
    const size_t head = strlen(prefix);
    size_t n = strlen(text);
    const uint32_t offset = in->head->string_bytes;
    if (n > TIDE_P_STRING_MAX - head)
        n = TIDE_P_STRING_MAX - head;
    const uint32_t bytes = (uint32_t)(head + n);
    const uint32_t whole = (4 + bytes + 1 + 3) & ~3u;
    TIDE_FAIL_IF(offset > UINT32_MAX - whole, TIDE_ERR_NOMEM);
    TIDE_TRY(
        tideP_section_reserve(in->writer, section, (size_t)offset + whole));
    unsigned char *at = section->base + offset;
    memcpy(at, &bytes, 4);
    memcpy(at + 4, prefix, head);
    memcpy(at + 4 + head, text, n);
    in->head->string_bytes = offset + whole;
    *out = offset;
    return TIDE_OK;
}

/* Whether no row before has this place. */
static enum tide_err take_place(struct import *in, const struct tide_p_row *row,
                                bool *is_free)
{
    const uint64_t place[2] = {
        tideC_hash_bytes(row->source, strlen(row->source)), row->line};
    const uint64_t key = tideC_hash_bytes(place, sizeof place) | 1;
    uint64_t *taken = tideC_hashtab_put(&in->places, &in->mem, key);
    TIDE_FAIL_IF(taken == NULL, TIDE_ERR_NOMEM);
    *is_free = *taken == 0 && row->source[0] != '\0' && row->line > 0;
    *taken = 1;
    return TIDE_OK;
}

static enum tide_err put_func(struct import *in, const struct tide_p_row *row,
                              uint32_t *out)
{
    bool is_lua;
    *out = in->head->n_funcs;
    struct tide_p_func *func = record_at(in, TIDE_P_FUNCS, *out);
    TIDE_FAIL_IF(func == NULL, TIDE_ERR_NOMEM);
    TIDE_TRY(take_place(in, row, &is_lua));
    TIDE_TRY(put_string(in, is_lua ? "@" : "", row->source, &func->source));
    TIDE_TRY(put_string(in, "", row->name, &func->name));
    func->what = is_lua ? TIDE_P_LUA : TIDE_P_C;
    func->linedefined = is_lua ? row->line : 0;
    func->lastline = func->linedefined;
    in->head->n_funcs++;
    return TIDE_OK;
}

static enum tide_err put_counts(struct import *in, const struct tide_p_row *row,
                                uint32_t func)
{
    const uint32_t n = in->head->n_nodes;
    struct tide_p_node *node = record_at(in, TIDE_P_NODES, n);
    struct tide_p_cell *cell = record_at(in, TIDE_P_CELLS, in->head->n_cells);
    struct tide_p_life *life = record_at(in, TIDE_P_LIVES, in->head->n_cells);
    TIDE_FAIL_IF(node == NULL || cell == NULL || life == NULL, TIDE_ERR_NOMEM);
    const struct tide_p_func *f = record_at(in, TIDE_P_FUNCS, func);
    *node = (struct tide_p_node){
        .func = func,
        .line = f->linedefined,
        .first_cell = in->head->n_cells,
        .calls = row->calls,
        .max_call_bytes = row->max_call_bytes,
    };
    *cell = (struct tide_p_cell){
        .node = n,
        .kind = TIDE_KIND_OTHER,
        .alloc_bytes = row->alloc_bytes,
        .freed_bytes = row->alloc_bytes,
        .life = in->head->n_cells,
    };
    life->older_bytes = row->alloc_bytes; /* nobody has counted ages */
    in->head->n_nodes++;
    in->head->n_lives = ++in->head->n_cells;
    return TIDE_OK;
}

static enum tide_err put_target(struct import *in, const struct tide_p_row *row,
                                uint32_t func)
{
    struct tide_p_target *target =
        record_at(in, TIDE_P_TARGETS, in->head->n_targets);
    TIDE_FAIL_IF(target == NULL, TIDE_ERR_NOMEM);
    *target =
        (struct tide_p_target){.func = func, .what = TIDE_P_TARGET_FUNCTION};
    TIDE_TRY(put_string(in, "", row->group, &target->group));
    TIDE_TRY(put_string(in, "", row->name, &target->name));
    in->head->n_targets++;
    return TIDE_OK;
}

static enum tide_err put_row(struct import *in, const struct tide_p_row *row)
{
    uint32_t func;
    TIDE_FAIL_IF(in->head->n_cells == UINT32_MAX, TIDE_ERR_NOMEM);
    TIDE_TRY(put_func(in, row, &func));
    TIDE_TRY(put_counts(in, row, func));
    return row->group[0] == '\0' ? TIDE_OK : put_target(in, row, func);
}

/* Addresses that a section of n rows may want. */
static size_t section_max(enum tide_p_section id, size_t n)
{
    if (id == TIDE_P_STRINGS)
        return (n * 4 + 1) * (SOURCE_MAX + 16);
    return (n + 2) * (record_bytes[id] > 0 ? record_bytes[id] : 1);
}

static enum tide_err open_heap(struct import *in, size_t n)
{
    uint32_t heap, empty;
    TIDE_TRY(tideP_writer_add_heap(in->writer, &heap));
    for (unsigned i = 0; i < TIDE_P_SECTION_COUNT_; i++)
        TIDE_TRY(tideP_section_open(in->writer, heap, (enum tide_p_section)i,
                                    section_max((enum tide_p_section)i, n),
                                    &in->sections[i]));
    in->head = record_at(in, TIDE_P_HEAD, 0);
    TIDE_FAIL_IF(in->head == NULL, TIDE_ERR_NOMEM);
    in->head->n_states = 1;
    in->head->state = TIDE_P_HEAP_CLOSED;
    TIDE_TRY(put_string(in, "", "", &empty));
    struct tide_p_func *root = record_at(in, TIDE_P_FUNCS, 0);
    TIDE_FAIL_IF(root == NULL || record_at(in, TIDE_P_NODES, 0) == NULL ||
                     record_at(in, TIDE_P_CELLS, 0) == NULL ||
                     record_at(in, TIDE_P_LIVES, 0) == NULL,
                 TIDE_ERR_NOMEM);
    root->what = TIDE_P_ROOT;
    in->head->n_funcs = in->head->n_nodes = 1;
    in->head->n_cells = in->head->n_lives = 1;
    return TIDE_OK;
}

static void fill_header(struct tide_p_header *header, const char *told,
                        const char *tool)
{
    const size_t n = strlen(told);
    header->state = TIDE_P_CLOSED;
    header->tier = TIDE_TIER_PUBLIC;
    header->command_bytes =
        (uint32_t)(n < sizeof header->command ? n + 1 : sizeof header->command);
    strncpy(header->command, told, sizeof header->command - 1);
    snprintf(header->tool, sizeof header->tool, "%s", tool);
    snprintf(header->route, sizeof header->route, "import");
    snprintf(header->tier_reason, sizeof header->tier_reason,
             "a saved run of %s: rows without stacks", tool);
}

static enum tide_err fill(struct import *in, const struct tide_p_row *rows,
                          size_t n)
{
    TIDE_FAIL_IF(n >= UINT32_MAX / 4, TIDE_ERR_NOMEM);
    TIDE_TRY(open_heap(in, n));
    for (size_t i = 0; i < n; i++)
        TIDE_TRY(put_row(in, &rows[i]));
    return TIDE_OK;
}

enum tide_err tideP_import(const struct tide_p_row *rows, size_t n,
                           const char *told, const char *tool, const char *path)
{
    struct import *in = calloc(1, sizeof *in);
    TIDE_FAIL_IF(in == NULL, TIDE_ERR_NOMEM);
    enum tide_err err = tideP_writer_open(NULL, &in->writer);
    if (err == TIDE_OK) {
        fill_header(tideP_writer_header(in->writer), told, tool);
        err = fill(in, rows, n);
        if (err == TIDE_OK)
            err = tideP_writer_save(in->writer, path);
        const int saved_errno = errno;
        tideP_writer_close(in->writer);
        errno = saved_errno;
    }
    tideC_hashtab_close(&in->places, &in->mem);
    tideC_mem_close(&in->mem);
    free(in);
    return err;
}
