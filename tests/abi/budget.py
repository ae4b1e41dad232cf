#!/usr/bin/env python3
"""Holds the budget of the allocator's paths, in instructions; prints TAP.

usage: budget.py --host MLUA

MLUA is a host that has the library (built without checks) inside, and Lua
beside it.  callgrind counts
instructions; a program is run with n and with 2n turns, and the difference of
the two runs is what n turns cost: all that the library does, its watching of
the collector as well.  Counts repeat, times do not.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
import callgrind  # noqa: E402

TURNS = 20000

# name, program, budget per turn
PATHS = (
    ("a small block where the last one was made, and its free",
     "for i = 1, tonumber(...) do local t = {} end", 190),
    ("a closure where the last one was made, and its free",
     "local n for i = 1, tonumber(...) do local f = function() n = 1 end end",
     170),
    ("a table with a part, and both their frees",
     "for i = 1, tonumber(...) do local t = {i} end", 355),
    ("two lines in turn, and their frees",
     "for i = 1, tonumber(...) do local t = {}\nlocal u = {} end", 610),
    ("one more activation",
     "local function f() return {} end "
     "for i = 1, tonumber(...) do f() end", 355),
    ("a return and a block of the caller's, and one more activation",
     "local function f() return {} end "
     "for i = 1, tonumber(...) do f() local t = {} end", 665),
    ("two more activations",
     "local function f() return {} end "
     "local function g() local t = f() return t end "
     "for i = 1, tonumber(...) do g() end", 540),
    ("four more activations",
     "local function f() return {} end "
     "local function g() local t = f() return t end "
     "local function h() local t = g() return t end "
     "local function k() local t = h() return t end "
     "for i = 1, tonumber(...) do k() end", 710),
    ("three returns and a block of the caller's, and three more activations",
     "local function f() return {} end "
     "local function g() local t = f() return t end "
     "local function h() local t = g() return t end "
     "for i = 1, tonumber(...) do h() local t = {} end", 1000),
    ("a tail call by one that has made a block, and one more activation",
     "local function f() return {} end "
     "local function g() local t = {} return f() end "
     "for i = 1, tonumber(...) do g() end", 820),
    ("a tail call",
     "local function f() return {} end "
     "local function g() return f() end "
     "for i = 1, tonumber(...) do g() end", 355),
    ("a resume, and a block of the coroutine's",
     "local co = coroutine.wrap(function() "
     "while true do local t = {} coroutine.yield() end end) "
     "for i = 1, tonumber(...) do co() end", 335),
)


def count(host, program, turns, folder):
    out = os.path.join(folder, "callgrind.out")
    with open(os.path.join(folder, "p.lua"), "w", encoding="utf-8") as file:
        file.write(program)
    subprocess.run(["valgrind", "--tool=callgrind", "--quiet",
                    "--callgrind-out-file=" + out, host, "p.lua", str(turns)],
                   cwd=folder, check=True, capture_output=True,
                   env=dict(os.environ, TIDEMARK="out="))
    return sum(c.cost for c in callgrind.costs(out)
               if not c.is_call and os.path.realpath(c.object) == host)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", required=True)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("1..1\nok 1 - the budget # SKIP no valgrind")
        return 0
    failed = 0
    options.host = os.path.realpath(options.host)
    with tempfile.TemporaryDirectory() as folder:
        for n, (name, program, budget) in enumerate(PATHS, 1):
            once, twice = (count(options.host, program, turns, folder)
                           for turns in (TURNS, 2 * TURNS))
            cost = (twice - once) / TURNS
            good = 0 < cost <= budget
            failed += not good
            print("%sok %d - %s: %.0f instructions, %d at most" %
                  ("" if good else "not ", n, name, cost, budget))
    print("1..%d" % len(PATHS))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
