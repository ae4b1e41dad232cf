/*
** texttree.c: the calling context tree as indented text, heaviest first.
**
** A row is a node: a function at a line, with what it and everything below it
** allocated (or whichever figure the rows are sorted by).  Nodes below a
** limit are cut with all that hangs below them; since a node never weighs
** more than its parent, what is kept is a tree.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_impl.h"

#define DEFAULT_MIN_SHARE 0.005
#define FIGURES_WIDTH     30u /* of put_figures */
#define LABEL_MAX         (2 * TIDE_P_STRING_MAX + 32)

struct tree {
    const struct tide_r_page *page;
    uint64_t *own;   /* by node: the figure, of the node alone */
    uint64_t *below; /* by node: with all nodes below it */
    uint32_t *depth; /* by node */
    uint32_t *kept;  /* nodes that are shown */
    uint32_t n_kept;
    uint32_t n_all;                  /* nodes with a figure */
    uint64_t least;                  /* nodes below are cut */
    struct tide_r_children children; /* of kept nodes, heaviest first */
};

static enum tide_err open_tree(const struct tide_r_page *page,
                               struct tree *tree)
{
    const size_t n = page->model->n_nodes;
    *tree = (struct tree){
        .page = page,
        .own = calloc(n, sizeof *tree->own),
        .below = calloc(n, sizeof *tree->below),
        .depth = calloc(n, sizeof *tree->depth),
        .kept = calloc(n, sizeof *tree->kept),
        .children = {calloc(n, sizeof(uint32_t)), calloc(n, sizeof(uint32_t))},
    };
    const bool is_whole = tree->own != NULL && tree->below != NULL &&
                          tree->depth != NULL && tree->kept != NULL &&
                          tree->children.first != NULL &&
                          tree->children.next != NULL;
    return is_whole ? TIDE_OK : TIDE_ERR_NOMEM;
}

static void close_tree(struct tree *tree)
{
    free(tree->own);
    free(tree->below);
    free(tree->depth);
    free(tree->kept);
    tideR_children_close(&tree->children);
}

/* Sums the figure up the tree; a filter keeps the stacks that match. */
static enum tide_err weigh_nodes(struct tree *tree)
{
    const struct tide_model *model = tree->page->model;
    const struct tide_r_query *query = tree->page->query;
    unsigned char *matches;
    TIDE_TRY(tideR_match_nodes(model, query, &matches));
    for (uint32_t i = 1; i < model->n_stacks; i++) {
        const struct tide_r_stack *stack = &model->stacks[i];
        struct tide_r_counts counts;
        if (stack->kind == TIDE_R_KIND_MORE ||
            (matches != NULL && !matches[stack->node]))
            continue;
        tideR_model_stack_counts(model, i, &counts);
        tree->own[stack->node] += tideR_counts_key(&counts, query->sort);
    }
    free(matches);
    for (uint32_t i = model->n_nodes - 1; i > 0; i--) {
        const uint32_t parent = model->nodes[i].parent;
        tree->below[i] += tree->own[i];
        tree->below[parent] += tree->below[i];
        tree->n_all += tree->below[i] > 0;
    }
    tree->below[0] += tree->own[0];
    return TIDE_OK;
}

/* Heaviest last; of equals the one that came first last. */
static int compare_nodes(const void *pa, const void *pb, void *ctx)
{
    const struct tree *tree = ctx;
    const uint32_t a = *(const uint32_t *)pa;
    const uint32_t b = *(const uint32_t *)pb;
    if (tree->below[a] != tree->below[b])
        return tree->below[a] < tree->below[b] ? -1 : 1;
    return a > b ? -1 : a < b;
}

/* The limit asked for, or the default share of all. */
static uint64_t least_weight(const struct tree *tree)
{
    const struct tide_r_query *query = tree->page->query;
    const bool is_asked = query->min_bytes > 0 || query->min_share > 0;
    const double share = is_asked ? query->min_share : DEFAULT_MIN_SHARE;
    const uint64_t least = (uint64_t)(share * (double)tree->below[0]);
    const uint64_t most = least > query->min_bytes ? least : query->min_bytes;
    return most > 0 ? most : 1;
}

/* Keeps what weighs enough, the heaviest --top of it. */
static void choose_nodes(struct tree *tree)
{
    const struct tide_model *model = tree->page->model;
    const uint32_t top = tree->page->query->top;
    tree->least = least_weight(tree);
    for (uint32_t i = 1; i < model->n_nodes; i++)
        if (tree->below[i] >= tree->least)
            tree->kept[tree->n_kept++] = i;
    qsort_r(tree->kept, tree->n_kept, sizeof *tree->kept, compare_nodes, tree);
    if (top > 0 && tree->n_kept > top) {
        memmove(tree->kept, tree->kept + (tree->n_kept - top),
                top * sizeof *tree->kept);
        tree->n_kept = top;
        tree->least = tree->below[tree->kept[0]];
    }
    /* each goes in front of the lighter ones of the same parent */
    for (uint32_t i = 0; i < tree->n_kept; i++) {
        const uint32_t node = tree->kept[i];
        const uint32_t parent = model->nodes[node].parent;
        tree->children.next[node] = tree->children.first[parent];
        tree->children.first[parent] = node;
    }
}

/* A parent weighs as much as its child at least and has a smaller number. */
static void measure_depths(struct tree *tree)
{
    const struct tide_model *model = tree->page->model;
    for (uint32_t i = 1; i < model->n_nodes; i++)
        tree->depth[i] = tree->depth[model->nodes[i].parent] + 1;
}

static bool is_bytes(enum tide_r_sort sort)
{
    return sort != TIDE_R_SORT_BLOCKS && sort != TIDE_R_SORT_LIVE_BLOCKS;
}

static const char *weight_text(const struct tree *tree, uint64_t weight,
                               char out[TIDE_R_UNIT_MAX])
{
    return is_bytes(tree->page->query->sort)
               ? tideR_bytes_text((int64_t)weight, out)
               : tideR_count_text((int64_t)weight, out);
}

static void put_figures(const struct tree *tree, uint32_t node)
{
    char share[TIDE_R_UNIT_MAX];
    char total[TIDE_R_UNIT_MAX];
    char own[TIDE_R_UNIT_MAX];
    tideR_printf(tree->page->sink, "%6s  %9s  %9s  ",
                 tideR_share_text((int64_t)tree->below[node],
                                  (int64_t)tree->below[0], share),
                 weight_text(tree, tree->below[node], total),
                 tree->own[node] > 0 ? weight_text(tree, tree->own[node], own)
                                     : "");
}

/* "function  source:line" */
static void label_node(const struct tide_model *model, uint32_t node,
                       char out[LABEL_MAX])
{
    const struct tide_r_func *func = tideR_model_func(model, node);
    const uint32_t line = model->frames[model->nodes[node].frame].line;
    const char *name = tideR_strtab_text(&model->strings, func->name);
    const char *source = tideR_strtab_text(&model->strings, func->source);
    if (line != 0)
        snprintf(out, LABEL_MAX, "%s  %s:%" PRIu32, name, source, line);
    else
        snprintf(out, LABEL_MAX, "%s", name);
}

/* Indents by depth, up to half of what is left of the figures. */
static void put_node(const struct tree *tree, uint32_t node, char *label)
{
    const struct tide_r_page *page = tree->page;
    const unsigned left = page->columns - FIGURES_WIDTH;
    const uint32_t depth = node == 0 ? 1 : tree->depth[node];
    const uint32_t most = left / 4;
    unsigned indent = 2 * (depth - 1);
    put_figures(tree, node);
    if (depth - 1 > most) {
        char mark[TIDE_R_UNIT_MAX];
        const int n = snprintf(mark, sizeof mark, "[%" PRIu32 "] ", depth);
        indent = 2 * most;
        tideR_put_blanks(page, indent);
        tideR_puts(page->sink, mark);
        indent += (unsigned)n;
    } else {
        tideR_put_blanks(page, indent);
    }
    label_node(page->model, node, label);
    const unsigned room = left > indent + 2 ? left - indent : 2;
    tideR_put_cell(page, label, strlen(label), room, TIDE_R_CUT_TAIL, false);
    tideR_puts(page->sink, "\n");
}

static void ignore_left(void *ctx, uint32_t node)
{
    (void)ctx;
    (void)node;
}

static void put_nodes(const struct tree *tree, char *label)
{
    const struct tide_model *model = tree->page->model;
    if (tree->own[0] >= tree->least)
        put_node(tree, 0, label);
    uint32_t node =
        tideR_children_step(model, &tree->children, 0, ignore_left, NULL);
    while (node != 0) {
        put_node(tree, node, label);
        node = tideR_children_step(model, &tree->children, node, ignore_left,
                                   NULL);
    }
}

static void put_tree(const struct tree *tree, char *label)
{
    const struct tide_r_page *page = tree->page;
    char text[TIDE_R_UNIT_MAX];
    tideR_printf(page->sink, "\nstacks by %s, callers above\n",
                 tideR_sort_words(page->query->sort));
    tideR_paint(page, TIDE_R_BOLD);
    tideR_printf(page->sink, "%6s  %9s  %9s  %s", "share", "total", "own",
                 "function and line");
    tideR_paint(page, TIDE_R_PLAIN);
    tideR_puts(page->sink, "\n");
    put_nodes(tree, label);
    tideR_puts(page->sink, "\n");
    if (tree->n_kept < tree->n_all)
        tideR_printf(page->sink,
                     "%" PRIu32 " of %" PRIu32 " nodes shown; cut below %s\n",
                     tree->n_kept, tree->n_all,
                     weight_text(tree, tree->least, text));
}

enum tide_err tideR_text_tree(const struct tide_r_page *page)
{
    struct tree tree;
    char *label = malloc(LABEL_MAX);
    enum tide_err err = open_tree(page, &tree);
    if (label == NULL)
        err = TIDE_ERR_NOMEM;
    if (err == TIDE_OK)
        err = weigh_nodes(&tree);
    if (err == TIDE_OK) {
        choose_nodes(&tree);
        measure_depths(&tree);
        put_tree(&tree, label);
        tideR_text_notes(page);
        if (tree.n_kept < tree.n_all)
            tideR_text_hint(page, "more of them", "--by stack --min 1 --top 0");
        tideR_text_hint(page, "what is still held",
                        "--by stack --sort live --min 1%");
    }
    close_tree(&tree);
    free(label);
    return err;
}
