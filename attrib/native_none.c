/*
** native_none.c: in place of unwind.c and native.c where there is no libunwind:
** C frames are never wanted.
*/
#include "native.h"

bool tideT_unwind_load(const char **why)
{
    *why = "this tidemark was built without libunwind";
    return false;
}

struct tide_unwind *tideT_unwind_open(const struct tide_cal *cal)
{
    (void)cal;
    return NULL;
}

void tideT_unwind_close(struct tide_unwind *unwind)
{
    (void)unwind;
}

void tideT_unwind_vm(const struct tide_unwind *unwind, uintptr_t *start,
                     uintptr_t *end)
{
    (void)unwind;
    *start = *end = 0;
}

void tideT_unwind_fork_begin(struct tide_unwind *unwind)
{
    (void)unwind;
}

void tideT_unwind_fork_end(struct tide_unwind *unwind)
{
    (void)unwind;
}

bool tideT_native_open(struct tide_heap *h)
{
    (void)h;
    return true;
}

void tideT_native_forget(struct tide_heap *h)
{
    (void)h;
}

bool tideT_native_wants(const struct tide_heap *h, uint32_t parent,
                        const void *fn)
{
    (void)h;
    (void)parent;
    (void)fn;
    return false;
}

void tideT_native_place(struct tide_heap *h, const uintptr_t *words)
{
    (void)h;
    (void)words;
}

void tideT_native_begin_at(struct tide_heap *h, struct tide_cframe from,
                           const lua_State *running)
{
    (void)h;
    (void)from;
    (void)running;
}

void tideT_native_end(struct tide_heap *h)
{
    (void)h;
}

void tideT_native_above(struct tide_heap *h, const lua_State *L)
{
    (void)h;
    (void)L;
}

uint32_t tideT_native_called(struct tide_heap *h, const struct tide_thread *t,
                             uint32_t i)
{
    (void)h;
    return t->frames[i].node;
}

uint32_t tideT_native_host(struct tide_heap *h, const struct tide_thread *t)
{
    (void)h;
    return t->base;
}

uint32_t tideT_native_rehang(struct tide_heap *h, uint32_t node, uint32_t from,
                             uint32_t to)
{
    (void)h;
    (void)node;
    (void)from;
    return to;
}
