/*
** entry.S: the allocator's entry points.
**
** Lua's compiler kept the lua_State of the caller in a callee-saved register
** or in a stack slot at a fixed place.  The entry makes both readable as one
** array of words: the callee-saved registers, the return address, the
** caller's stack:
**
**   x86-64    word 0 rbx  1 rbp  2 r12  3 r13  4 r14  5 r15  6 return address
**             7 ... the caller's stack
**   aarch64   word 0 x19 ... 9 x28  10 x29  11 return address (x30)
**             12 ... the caller's stack
**
** Arguments as for lua_Alloc; a free (nsize 0) needs no capture and leaves at
** once.  Two entries: tide_alloc for a profiled state, tideT_probe_entry for
** the throwaway state of the calibration.
*/

#if defined(__x86_64__)

    .macro  ENTRY name, captured, freed
    .text
    .p2align 5
    .globl  \name
    .type   \name, @function
\name:
    .cfi_startproc
    testq   %rcx, %rcx
    je      \freed
    pushq   %r15
    .cfi_adjust_cfa_offset 8
    pushq   %r14
    .cfi_adjust_cfa_offset 8
    pushq   %r13
    .cfi_adjust_cfa_offset 8
    pushq   %r12
    .cfi_adjust_cfa_offset 8
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    pushq   %rbx
    .cfi_adjust_cfa_offset 8
    movq    %rsp, %r8
    subq    $8, %rsp
    .cfi_adjust_cfa_offset 8
    call    \captured
    addq    $56, %rsp
    .cfi_adjust_cfa_offset -56
    ret
    .cfi_endproc
    .size   \name, . - \name
    .endm

#elif defined(__aarch64__)

    .macro  ENTRY name, captured, freed
    .text
    .p2align 5
    .globl  \name
    .type   \name, %function
\name:
    .cfi_startproc
    cbz     x3, 1f
    stp     x19, x20, [sp, #-96]!
    .cfi_adjust_cfa_offset 96
    stp     x21, x22, [sp, #16]
    stp     x23, x24, [sp, #32]
    stp     x25, x26, [sp, #48]
    stp     x27, x28, [sp, #64]
    stp     x29, x30, [sp, #80]
    .cfi_rel_offset x29, 80
    .cfi_rel_offset x30, 88
    add     x29, sp, #80
    mov     x4, sp
    bl      \captured
    ldp     x29, x30, [sp, #80]
    add     sp, sp, #96
    .cfi_adjust_cfa_offset -96
    ret
1:  b       \freed
    .cfi_endproc
    .size   \name, . - \name
    .endm

#else
# error "no entry for this architecture: build public.c's plain entry"
#endif

    ENTRY   tide_alloc, tideT_alloc, tideT_free
    .hidden tideT_probe_entry
    .hidden tideT_alloc
    .hidden tideT_free
    .hidden tideT_probe_alloc
    .hidden tideT_probe_free
    ENTRY   tideT_probe_entry, tideT_probe_alloc, tideT_probe_free

#if defined(__linux__)
    .section .note.GNU-stack, "", %progbits
#endif
