/*
** tree.h: the private part of the tree.
*/
#ifndef TIDE_TREE_H
#define TIDE_TREE_H

#include "attrib.h"

/* (parent, function, line) leads to node; node 0: an empty place. */
struct tide_edge {
    uint32_t parent;
    uint32_t func;
    uint32_t line;
    uint32_t node;
};

#endif
