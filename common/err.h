/*
** err.h: helpers around enum tide_err (declared in tidemark.h).
*/
#ifndef TIDE_ERR_H
#define TIDE_ERR_H

#include "../include/tidemark.h"

/* Forward a failure to the caller: the function returns enum tide_err. */
#define TIDE_TRY(expr)                                                         \
 do {                                                                          \
  const enum tide_err tide_try_ = (expr);                                      \
  if (tide_try_ != TIDE_OK)                                                    \
   return tide_try_;                                                           \
 } while (0)

#define TIDE_FAIL_IF(cond, err)                                                \
 do {                                                                          \
  if (cond)                                                                    \
   return (err);                                                               \
 } while (0)

#endif
