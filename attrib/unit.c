/*
** unit.c: the path through the allocator as one unit.
**
** alloc knows nothing of attrib and attrib is split by reason to change, but
** every allocation crosses all of it; compiled together, the compiler sees the
** whole path.  Measured on binary trees: see doc/performance.md.
*/
#include "step.c"

#include "switch.c"

#include "account.c"
#include "hot.c"
#include "locate.c"
#include "shadow.c"
#include "site.c"
#include "slow.c"
#include "thread.c"
#include "tree.c"

#include "../alloc/arena.c"
#include "../alloc/store.c"
