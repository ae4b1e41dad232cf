/*
** assert.h: three levels of assertions.
**
**   tide_assert            arguments and states; builds with check=basic
**   tide_assert_internal   invariants; builds with check=basic
**   tide_assert_expensive  walks; builds with check=full
**
** A failing one prints without allocating and aborts.  Release builds have
** none: a host is never aborted.
*/
#ifndef TIDE_ASSERT_H
#define TIDE_ASSERT_H

#ifndef TIDE_CHECK
# define TIDE_CHECK 0
#endif

_Noreturn void tideC_assert_failed(const char *text, const char *file,
                                   int line);

#if TIDE_CHECK >= 1
# define tide_assert(x)                                                        \
  ((x) ? (void)0 : tideC_assert_failed(#x, __FILE__, __LINE__))
#else
# define tide_assert(x) ((void)sizeof(!(x)))
#endif
#define tide_assert_internal(x) tide_assert(x)

#if TIDE_CHECK >= 2
# define tide_assert_expensive(x) tide_assert(x)
#else
# define tide_assert_expensive(x) ((void)sizeof(!(x)))
#endif

#endif
