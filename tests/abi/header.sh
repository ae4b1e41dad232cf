#!/bin/sh
# header.sh: include/tidemark.h compiles alone, in every language that hosts
# are written in, without a warning, and needs no header of Lua.  Prints TAP.
# usage: header.sh HEADER
header=$1
cc=${CC:-cc}
cxx=${CXX:-c++}
n=0
failed=0

check() {
  n=$((n + 1))
  name=$1
  shift
  if out=$("$@" 2>&1); then
    echo "ok $n - $name"
  else
    echo "not ok $n - $name"
    echo "$out" | sed 's/^/# /'
    failed=1
  fi
}

warnings="-Wall -Wextra -Wpedantic -Werror -Wstrict-prototypes"
for std in c99 c11 c17; do
  # shellcheck disable=SC2086
  check "tidemark.h as $std" \
    "$cc" -std=$std $warnings -fsyntax-only -x c "$header"
done
if command -v "$cxx" >/dev/null; then
  for std in c++11 c++17; do
    check "tidemark.h as $std" \
      "$cxx" -std=$std -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
      -x c++ "$header"
  done
else
  n=$((n + 1))
  echo "ok $n - tidemark.h as C++ # SKIP no C++ compiler"
fi
check "tidemark.h twice" sh -c \
  "printf '#include \"%s\"\n#include \"%s\"\n' '$header' '$header' |
   $cc -std=c11 -Werror -fsyntax-only -x c -"
check "tidemark.h needs nothing of Lua" sh -c \
  "! grep -E '^ *# *include.*lua' '$header'"
echo "1..$n"
exit $failed
