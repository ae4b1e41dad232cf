/*
** cmd_top_none.c: cmd_top.c of a build without ncurses: there is no table.
*/
#include "cmd.h"

int cmd_top(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    cmd_error("top", "not built in: ncurses was missing; tidemark report "
                     "shows a profile once");
    return CMD_FAILED;
}
