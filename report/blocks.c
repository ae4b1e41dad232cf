/*
** blocks.c: the largest blocks of a profile: `tidemark report --by block`.
**
** Rows count bytes and blocks; one huge block among many small ones does not
** show in them.  The profile has the largest block of the cells that had huge
** ones; each is shown with its stack, its kind and its time.
*/
#include "blocks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "findings.h"
#include "gcview.h"
#include "grow.h"
#include "json_impl.h"
#include "select.h"
#include "text_impl.h"

#define FRAMES_MAX   256u /* the innermost */
#define FRAMES_SHOWN 6u   /* of a stack, the innermost ones */

/* The stack of a cell; NONE: it has none. */
static uint32_t stack_of(const struct tide_model *model, uint32_t heap,
                         uint32_t cell)
{
    uint32_t low = tideR_first_stack(model, heap);
    uint32_t high = model->n_stacks;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct tide_r_stack *stack = &model->stacks[middle];
        if (stack->heap == heap && stack->cell < cell)
            low = middle + 1;
        else
            high = middle;
    }
    return low < model->n_stacks && model->stacks[low].heap == heap &&
                   model->stacks[low].cell == cell
               ? low
               : TIDE_R_NONE;
}

static int compare_blocks(const void *pa, const void *pb)
{
    const struct tide_r_block *a = pa;
    const struct tide_r_block *b = pb;
    if (a->record->bytes != b->record->bytes)
        return a->record->bytes > b->record->bytes ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

enum tide_err tideR_fill_blocks(struct tide_model *model)
{
    uint32_t n_max = 0;
    for (uint32_t h = 0; h < tideP_reader_n_heaps(model->profile); h++) {
        const struct tide_p_view *view = tideP_reader_heap(model->profile, h);
        for (uint32_t i = 0; i < view->n_huge; i++) {
            const uint32_t stack = stack_of(model, h, view->huge[i].cell);
            if (stack == TIDE_R_NONE)
                continue;
            TIDE_TRY(tideR_grow(&model->blocks, &n_max,
                                (uint64_t)model->n_blocks + 1,
                                sizeof *model->blocks));
            model->blocks[model->n_blocks++] =
                (struct tide_r_block){&view->huge[i], stack};
        }
    }
    if (model->n_blocks > 0)
        qsort(model->blocks, model->n_blocks, sizeof *model->blocks,
              compare_blocks);
    return TIDE_OK;
}

/* ---- for programs ---- */

/* From the root down, as stacks are in a report. */
static void put_frames(struct tide_r_json *json, const struct tide_model *model,
                       uint32_t node)
{
    uint32_t path[FRAMES_MAX] = {0};
    uint32_t n = 0;
    for (; node != 0 && n < FRAMES_MAX; node = model->nodes[node].parent)
        path[n++] = model->nodes[node].frame;
    tideR_json_open(json, "frames", '[');
    while (n-- > 0) {
        const struct tide_r_frame *frame = &model->frames[path[n]];
        tideR_json_open(json, NULL, '{');
        tideR_json_string(json, "source", model,
                          model->funcs[frame->func].source);
        tideR_json_int(json, "line", frame->line);
        tideR_json_string(json, "function", model,
                          model->funcs[frame->func].name);
        tideR_json_close(json, '}');
    }
    tideR_json_close(json, ']');
}

static void put_block_json(struct tide_r_json *json,
                           const struct tide_model *model,
                           const struct tide_r_block *block)
{
    const struct tide_p_huge *r = block->record;
    const struct tide_r_stack *stack = &model->stacks[block->stack];
    const uint32_t frame = model->nodes[stack->node].lua_frame;
    tideR_json_break(json);
    tideR_json_open(json, NULL, '{');
    tideR_json_int(json, "bytes", (int64_t)r->bytes);
    tideR_json_str(json, "kind", tideC_kind_name(stack->cell_kind));
    tideR_json_place(json, model, model->frames[frame].line_row);
    put_frames(json, model, stack->node);
    tideR_json_real(json, "s", tideR_seconds(model, r->mono_ns));
    tideR_json_int(json, "cycle", r->cycle);
    tideR_json_int(json, "alloc_bytes", (int64_t)r->alloc_bytes);
    tideR_json_int(json, "state", stack->heap);
    tideR_json_int(json, "blocks", (int64_t)r->n_blocks);
    tideR_json_close(json, '}');
}

void tideR_json_blocks(struct tide_r_json *json, const char *key,
                       const struct tide_model *model, uint32_t top)
{
    tideR_json_break(json);
    tideR_json_open(json, key, '[');
    for (uint32_t i = 0; i < model->n_blocks && (top == 0 || i < top); i++)
        put_block_json(json, model, &model->blocks[i]);
    tideR_json_close(json, ']');
}

static void put_json(struct tide_r_sink *sink, const struct tide_model *model,
                     uint32_t top)
{
    struct tide_r_json json = tideR_json_on(sink);
    tideR_json_open(&json, NULL, '{');
    tideR_json_str(&json, "format", "tidemark-blocks");
    tideR_json_int(&json, "version", 1);
    tideR_json_blocks(&json, "blocks", model, top);
    tideR_json_close(&json, '}');
    tideR_puts(sink, "\n");
}

/* ---- for people ---- */

static void put_block(const struct tide_r_page *page,
                      const struct tide_r_block *block)
{
    const struct tide_p_huge *r = block->record;
    char bytes[TIDE_R_UNIT_MAX], time[TIDE_R_UNIT_MAX], n[TIDE_R_UNIT_MAX];
    char place[1024];
    const double s = tideR_seconds(page->model, r->mono_ns);
    tideR_stack_place(page->model, block->stack, FRAMES_SHOWN, place,
                      sizeof place);
    tideR_printf(page->sink, "%10s %10s %8s  ",
                 tideR_bytes_text((int64_t)r->bytes, bytes),
                 tideR_duration_text((uint64_t)(s * 1e9), time),
                 tideR_count_text((int64_t)r->n_blocks, n));
    tideR_put_cell(page, place, strlen(place),
                   page->columns > 52 ? page->columns - 32 : 20,
                   TIDE_R_CUT_HEAD, false);
    tideR_puts(page->sink, "\n");
}

static void put_table(const struct tide_r_page *page, uint32_t top)
{
    const uint32_t n_all = page->model->n_blocks;
    const uint32_t n = top == 0 || top > n_all ? n_all : top;
    char least[TIDE_R_UNIT_MAX];
    tideR_bytes_text(TIDE_P_HUGE_LEAST, least);
    if (n_all == 0) {
        tideR_printf(page->sink, "no block had %s or more\n", least);
        return;
    }
    tideR_printf(page->sink, "%10s %10s %8s  %s\n", "largest", "time", "blocks",
                 "where");
    for (uint32_t i = 0; i < n; i++)
        put_block(page, &page->model->blocks[i]);
    if (n < n_all)
        tideR_printf(page->sink, "%" PRIu32 " more\n", n_all - n);
    tideR_printf(page->sink,
                 "\nthe largest block of each stack and kind, and how many had "
                 "%s or more\n",
                 least);
}

enum tide_err tideR_blocks(const struct tide_model *model, uint32_t top,
                           const struct tide_r_look *look, bool as_json,
                           FILE *out)
{
    struct tide_r_sink sink = tideR_sink(out);
    const struct tide_r_page page = {
        .model = model,
        .look = look,
        .sink = &sink,
        .columns = tideR_page_columns(look),
    };
    if (as_json)
        put_json(&sink, model, top);
    else
        put_table(&page, top);
    return tideR_sink_finish(&sink);
}
