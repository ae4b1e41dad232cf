/*
** tree.h: the private part of the tree.
*/
#ifndef TIDE_TREE_H
#define TIDE_TREE_H

#include "attrib.h"

/*
** (parent, function, line) leads to a node.  The node says what the three are;
** but where an edge was folded its parent is another one: then `node` is the
** number of a fold, and TIDE_EDGE_FOLDED.
*/
struct tide_edge {
    uint32_t hash; /* of the three */
    uint32_t node; /* 0: an empty place */
};
#define TIDE_EDGE_FOLDED 0x80000000u

struct tide_fold {
    uint32_t parent;
    uint32_t node;
};

#endif
