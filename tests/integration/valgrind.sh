#!/bin/sh
# valgrind.sh: a program under valgrind and the preload library; TAP.
# usage: valgrind.sh TIDEMARK LIBRARY INTERPRETER CASES
#
# The library patches code that valgrind may have translated, and its
# calibration reads stack words that nobody has written: neither may show.
tidemark=$1
library=$2
interpreter=$3
cases=$4
if ! command -v valgrind >/dev/null; then
  echo "1..1"
  echo "ok 1 - a program under valgrind # SKIP no valgrind"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
unset LUA_INIT LUA_INIT_5_4
n=0
failed=0

# result STATUS NAME: one line of TAP, with the output when it failed.
result() {
  n=$((n + 1))
  if [ "$1" = 0 ]; then
    echo "ok $n - $2"
  else
    echo "not ok $n - $2"
    sed 's/^/# /' out err 2>/dev/null | head -n 30
    failed=1
  fi
}

for name in 01-parked-coroutines 14-traceback-log 30-close-and-concat; do
  case=$cases/$name.lua
  "$interpreter" "$case" >plain
  # 30: Debian's 5.4.4 reads a freed stack there, with and without us
  status=99
  [ "$name" = 30-close-and-concat ] && status=0
  LD_PRELOAD=$library TIDEMARK=out=$work/x.tide valgrind --quiet \
    --error-exitcode=$status "$interpreter" "$case" >out 2>err
  result $? "$name: no error is seen"
  # the last numbers depend on the collector's pace
  cut -f1 plain >a
  cut -f1 out >b
  cmp -s a b
  result $? "$name: it prints what it prints"
  "$tidemark" check x.tide >out 2>err
  result $? "$name: the books balance"
done
echo "1..$n"
exit $failed
