/*
** compiler.h: the only file that names compilers.
**
** Hints and attributes used across the tree.  They change speed or
** diagnostics, never meaning: with all of them empty the program is the same.
*/
#ifndef TIDE_COMPILER_H
#define TIDE_COMPILER_H

#if !defined(__GNUC__)
# error "tidemark needs gcc or clang"
#endif

#define TIDE_LIKELY(x)    __builtin_expect(!!(x), 1)
#define TIDE_UNLIKELY(x)  __builtin_expect(!!(x), 0)
#define TIDE_INLINE       static inline __attribute__((always_inline))
#define TIDE_NOINLINE     __attribute__((noinline))
#define TIDE_COLD         __attribute__((cold, noinline))
#define TIDE_HIDDEN       __attribute__((visibility("hidden")))
#define TIDE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TIDE_CONSTRUCTOR  __attribute__((constructor))
#define TIDE_ALIAS(name)  __attribute__((alias(#name)))
#define TIDE_THREAD_LOCAL static __thread

/* Where the function that this stands in returns to. */
#define TIDE_RETURN_ADDRESS ((uintptr_t)__builtin_return_address(0))

/* For code that reads memory of a private layout on purpose. */
#define TIDE_NO_SANITIZE __attribute__((no_sanitize("address", "undefined")))

/*
** For programs that run under valgrind; a few instructions elsewhere.
** TIDE_CODE_CHANGED  code at an address was changed and must be translated anew
** TIDE_WORDS_BEGIN   stack words are read that nobody has written: no errors
** TIDE_WORDS_END     from here on errors count again
*/
#if defined(TIDE_HAS_VALGRIND_H)
# include <valgrind/valgrind.h>
# define TIDE_CODE_CHANGED(at, n) VALGRIND_DISCARD_TRANSLATIONS(at, n)
# define TIDE_WORDS_BEGIN()       VALGRIND_DISABLE_ERROR_REPORTING
# define TIDE_WORDS_END()         VALGRIND_ENABLE_ERROR_REPORTING
#else
# define TIDE_CODE_CHANGED(at, n) ((void)(at), (void)(n))
# define TIDE_WORDS_BEGIN()       ((void)0)
# define TIDE_WORDS_END()         ((void)0)
#endif

/* Store and load across threads or processes: contents, then length. */
#define TIDE_PUBLISH(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define TIDE_OBSERVE(p)    __atomic_load_n((p), __ATOMIC_ACQUIRE)

#endif
