/*
** texttree.c: the calling context tree as indented text, heaviest first.
**
** A row is a node: a function at a line, with what it and everything below it
** allocated (or whichever figure the rows are sorted by).  Nodes below a
** limit are cut with all that hangs below them; since a node never weighs
** more than its parent, what is kept is a tree.  Where it branches, every
** branch has a dash and what hangs below it is indented.
*/
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text_impl.h"

#define DEFAULT_MIN_SHARE 0.005
#define FIGURES_WIDTH     30u /* of put_figures */
#define PLACE_LEAST       16u /* of source:line behind a function */
#define LABEL_MAX         (TIDE_P_STRING_MAX + 32)

struct tree {
    const struct tide_r_page *page;
    uint64_t *own;   /* by node: the figure, of the node alone */
    uint64_t *below; /* by node: with all nodes below it */
    uint32_t *depth; /* by node: branches above it, as indentation */
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

/* Whether more than one of a node's children is shown. */
static bool has_several(const struct tree *tree, uint32_t node)
{
    const uint32_t first = tree->children.first[node];
    return first != 0 && tree->children.next[first] != 0;
}

/*
** A chain of calls without a branch stays in one column, since a deep one would
** leave the page; where calls branch, each branch is marked.
*/
static void measure_depths(struct tree *tree)
{
    const struct tide_model *model = tree->page->model;
    for (uint32_t i = 1; i < model->n_nodes; i++) {
        const uint32_t parent = model->nodes[i].parent;
        tree->depth[i] = tree->depth[parent] + has_several(tree, parent);
    }
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

/* Writes "function  source:line"; of a path that is too long, the end. */
static void put_label(const struct tree *tree, uint32_t node, unsigned room,
                      char *place)
{
    const struct tide_r_page *page = tree->page;
    const struct tide_model *model = page->model;
    const struct tide_r_func *func = tideR_model_func(model, node);
    const uint32_t line = model->frames[model->nodes[node].frame].line;
    size_t n;
    const char *name = tideR_model_text(model, func->name, &n);
    if (line == 0 || room < PLACE_LEAST + 4) {
        tideR_put_cell(page, name, n, room, TIDE_R_CUT_TAIL, false);
        return;
    }
    snprintf(place, LABEL_MAX, "%s:%" PRIu32,
             tideR_strtab_text(&model->strings, func->source), line);
    const unsigned used = tideR_put_cell(page, name, n, room - PLACE_LEAST - 2,
                                         TIDE_R_CUT_TAIL, false);
    tideR_puts(page->sink, "  ");
    tideR_put_cell(page, place, strlen(place), room - used - 2, TIDE_R_CUT_HEAD,
                   false);
}

/* Blanks for the branches above, up to half of the page; then the mark. */
static unsigned put_indent(const struct tree *tree, uint32_t node,
                           unsigned left)
{
    const struct tide_r_page *page = tree->page;
    const uint32_t depth = tree->depth[node];
    const bool is_branch =
        node != 0 && has_several(tree, page->model->nodes[node].parent);
    unsigned indent = 2 * (depth - is_branch);
    if (indent > left / 2) {
        char mark[TIDE_R_UNIT_MAX];
        const int n = snprintf(mark, sizeof mark, "[%" PRIu32 "] ", depth);
        indent = left / 2 + (unsigned)n;
        tideR_put_blanks(page, left / 2);
        tideR_puts(page->sink, mark);
    } else {
        tideR_put_blanks(page, indent);
    }
    tideR_puts(page->sink, is_branch ? "- " : "");
    return indent + (is_branch ? 2 : 0);
}

static void put_node(const struct tree *tree, uint32_t node, char *place)
{
    const unsigned left = tree->page->columns - FIGURES_WIDTH;
    put_figures(tree, node);
    const unsigned indent = put_indent(tree, node, left);
    put_label(tree, node, left > indent + 2 ? left - indent : 2, place);
    tideR_puts(tree->page->sink, "\n");
}

static void ignore_left(void *ctx, uint32_t node)
{
    (void)ctx;
    (void)node;
}

static void put_nodes(const struct tree *tree, char *place)
{
    const struct tide_model *model = tree->page->model;
    if (tree->own[0] >= tree->least)
        put_node(tree, 0, place);
    uint32_t node =
        tideR_children_step(model, &tree->children, 0, ignore_left, NULL);
    while (node != 0) {
        put_node(tree, node, place);
        node = tideR_children_step(model, &tree->children, node, ignore_left,
                                   NULL);
    }
}

static void put_tree(const struct tree *tree, char *place)
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
    put_nodes(tree, place);
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
    char *place = malloc(LABEL_MAX);
    enum tide_err err = open_tree(page, &tree);
    if (place == NULL)
        err = TIDE_ERR_NOMEM;
    if (err == TIDE_OK)
        err = weigh_nodes(&tree);
    if (err == TIDE_OK) {
        choose_nodes(&tree);
        measure_depths(&tree);
        put_tree(&tree, place);
        tideR_text_notes(page);
        if (tree.n_kept < tree.n_all)
            tideR_text_hint(page, "more of them", "--by stack --min 1 --top 0");
        tideR_text_hint(page, "what is still held",
                        "--by stack --sort live --min 1%");
    }
    close_tree(&tree);
    free(place);
    return err;
}
