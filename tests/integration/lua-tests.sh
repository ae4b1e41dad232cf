#!/bin/sh
# lua-tests.sh: the official test suite of Lua under the profiler; TAP.
# usage: lua-tests.sh TIDEMARK INTERPRETER
#
# TIDEMARK_LUA_TESTS names a directory that holds testes/all.lua, of the
# interpreter's own version (www.lua.org/tests).  The suite is not part of this
# repository; without it the one test here is skipped.  What passes without the
# profiler must pass with it, and leave a profile whose books balance.
tidemark=$1
interpreter=$2
suite=$TIDEMARK_LUA_TESTS
if [ -f "$suite/testes/all.lua" ]; then
  suite=$suite/testes
elif [ ! -f "$suite/all.lua" ]; then
  echo "1..1"
  echo "ok 1 - Lua's own tests # SKIP TIDEMARK_LUA_TESTS names no directory"
  exit 0
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$suite" "$work/testes"
cd "$work/testes" || exit 1
unset TIDEMARK LUA_INIT LUA_INIT_5_4
n=0
failed=0

# one NAME ARG...: the interpreter with these arguments.
one() {
  n=$((n + 1))
  name=$1
  shift
  if ! timeout 300 "$interpreter" "$@" >"$work/plain" 2>&1; then
    echo "ok $n - $name # SKIP it does not pass without the profiler"
    return
  fi
  if timeout 300 "$tidemark" run --report none -o "$work/x.tide" -- \
      "$interpreter" "$@" >"$work/out" 2>&1 &&
      "$tidemark" check "$work/x.tide" >>"$work/out" 2>&1; then
    echo "ok $n - $name"
  else
    echo "not ok $n - $name"
    tail -n 15 "$work/out" | sed 's/^/# /'
    failed=1
  fi
}

one "Lua's own tests: all.lua" -e"_U=true" all.lua
for file in *.lua; do
  case $file in
    all.lua | heavy.lua) ;; # the latter wants all the memory there is
    *) one "Lua's own tests: $file" "$file" ;;
  esac
done
echo "1..$n"
exit $failed
