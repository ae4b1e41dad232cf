/*
** awkward.c: a lua_newstate whose first instruction cannot be moved.
**
** It loads a word beside the code, as functions do that check a stack guard of
** the program's own.  Lua's own function has another name in the archive that
** this is linked with, so that it is reached through here only.
*/
__asm__(".text\n"
        ".balign 16\n"
        ".globl lua_newstate\n"
        ".type lua_newstate,@function\n"
        "lua_newstate:\n"
        "  mov awkward_word(%rip),%eax\n"
        "  xor %ecx,%ecx\n"
        "  jmp awkward_newstate\n"
        "  nop\n"
        "  nop\n"
        ".size lua_newstate,.-lua_newstate\n"
        ".balign 16\n"
        ".section .rodata\n"
        "awkward_word: .long 1\n"
        ".text\n");
