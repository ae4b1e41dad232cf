/*
** make_large.c: writes a made-up profile with many nodes, for the test of how
** quickly a page with it opens.  usage: make_large FILE N_NODES
*/
#include <stdlib.h>

#include "../unit/synthetic.h"

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const uint32_t n_nodes = (uint32_t)strtoul(argv[2], NULL, 10);
    const struct syn_shape shape = {.seed = 7,
                                    .n_funcs = n_nodes / 20 + 20,
                                    .n_nodes = n_nodes,
                                    .n_cycles = 500};
    syn_write(argv[1], &shape);
    return 0;
}
