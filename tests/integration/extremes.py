#!/usr/bin/env python3
"""Programs that go to the ends of what Lua can do; prints TAP.

usage: extremes.py --tidemark FILE [--module FILE] -- INTERPRETER [ARG..]

Each program is short and its bytes are known by arithmetic on the sizes of
Lua's objects: a table is 56 bytes, an array slot 16.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

SECONDS = 240

DEEP = """
local function deep(n)
  local t = {n}
  if n == 0 then return 0 end
  local r = deep(n - 1)
  return r + #t
end
print(deep(180000))
print(pcall(function() local function endless(n) return 1 + endless(n) end
  endless(1) end))
"""

COROUTINES = """
local parked = {}
for i = 1, 100000 do
  local co = coroutine.wrap(function(a)
    while true do
      local t = {a}
      a = coroutine.yield(t)
    end
  end)
  co(i)
  parked[i] = co
end
for i = 1, #parked do parked[i](i) end
print(#parked)
"""

# From any depth to any other, by calls, returns and tail calls in a row: a..h
# call each other, A..H replace each other, b0 is called by b1 and so on.
STRIDE = "abcdefgh"
STRIDES = "local %s, %s\n" % (", ".join(STRIDE), ", ".join(STRIDE.upper()))
for callee, caller in zip(STRIDE[1:] + STRIDE[0], STRIDE):
    STRIDES += (
        "function %s(n) if n == 1 then local t = {n} return end %s(n - 1) end\n"
        "function %s(n) local t = {n, n} if n > 1 then return %s(n - 1) end end"
        "\n" % (caller, callee, caller.upper(), callee.upper()))
STRIDES += """
local function b0(n, m)
  for _ = 1, 3 do
    a(n) a(m) A(n)
    local t = {n, m, 1}
    A(m)
  end
end
local function b1(n, m) b0(n, m) end
local function b2(n, m) b1(n, m) end
local function b3(n, m) b2(n, m) end
for n = 1, 8 do
  for m = 1, 8 do b0(n, m) b3(n, m) b1(n, m) b2(n, m) end
end
"""

# Resumed by one line again and again, by another in between.
RESUMES = """
local co = coroutine.wrap(function()
  while true do local t = {1} coroutine.yield() end
end)
local function first() for _ = 1, 3 do co() end end
local function second()
  co()
  co() end
for i = 1, 500 do first() second() first() end
"""

CHUNKS = """
local sum = 0
for i = 1, 200000 do
  local f = load("local t = {" .. i .. "} return t[1]")
  sum = sum + f()
end
print(sum)
"""

# Chunks that die and whose addresses are used again, under two names.
REUSED = """
local text = {a = "return {1, 2, 3}", b = "\\n\\nreturn {1, 2, 3, 4, 5}"}
for i = 1, 20000 do
  local name = i % 3 == 0 and "b" or "a"
  assert(load(text[name], "@" .. name .. ".lua"))()
  if i % 100 == 0 then
    coroutine.wrap(function() collectgarbage() end)()
  end
end
print("done")
"""

HOOKED = """
local function lines(...)
  local a = {}
  local b = {
    1, 2, 3,
    x = 1,
  }
  local c =
    {...}
  local d = {
    tostring(1),
    select(2, ...)
  }
  return a, b, c, d
end
for i = 1, 1000 do lines(1, 2, 3, 4) end
print("done")
"""
HOOKS = {
    "count": 'debug.sethook(function() end, "", 1000000000) ',
    "every instruction": 'debug.sethook(function() end, "", 1) ',
    "lines, calls and returns": 'debug.sethook(function() end, "lcr") ',
}

TAILS = """
local function odd(n) local t = {n} return even(n - 1) end
function even(n)
  if n <= 0 then return "done" end
  local t = {n, n}
  return odd(n - 1)
end
odd = odd
_G.odd = odd
print(even(200000))
"""


# Resumed by one line, closed by another: no allocation between the two.
CLOSED = """
local function body()
  local guard <close> = setmetatable({}, {__close = function()
    local t = {1, 2, 3}
  end})
  coroutine.yield(guard)
end
for i = 1, 1000 do
  local co = coroutine.create(body)
  coroutine.resume(co)
  coroutine.close(co)
end
local wrapped = coroutine.wrap(function()
  while true do local t = {1, 2} coroutine.yield(t) end
end)
local function first() return wrapped() end
local function second() local t = wrapped() return t end
for i = 1, 1000 do first() second() second() end
print("done")
"""


# The first call of the allocator after an attach resizes a block from before.
ATTACHED = """
local what = ...
local big = {}
for i = 1, 5000 do big[i] = i end
local function deep(n) if n == 0 then return 0 end return 1 + deep(n - 1) end
local tidemark = require "tidemark"
if what == "stack" then
  coroutine.wrap(deep)(150)
  print(pcall(deep, 150))
elseif what == "array" then
  for i = 5001, 20000 do big[i] = i end
elseif what == "strings" then
  local t = {}
  for i = 1, 100000 do t[i] = "key" .. i end
end
collectgarbage()
collectgarbage("stop")
local before = collectgarbage("count") * 1024
local s = tidemark.stats()
local after = collectgarbage("count") * 1024
local held = s.live_bytes - s.buffer_bytes + s.before_bytes
print(what, held >= before and held <= after or (held .. " " .. before))
"""


def run(command, folder):
    return subprocess.run(command, cwd=folder, text=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, capture_output=True)


def profile(options, tap, folder, name, program):
    """Runs a program plain and profiled; its report, None when it failed."""
    with open(os.path.join(folder, name + ".lua"), "w",
              encoding="utf-8") as file:
        file.write(program)
    plain = run(options.interpreter + [name + ".lua"], folder)
    traced = run([options.tidemark, "run", "--report", "none", "-o",
                  name + ".tide", "--"] + options.interpreter +
                 [name + ".lua"], folder)
    tap.add((plain.returncode, plain.stdout) ==
            (traced.returncode, traced.stdout),
            name + ": it does what it does",
            traced.stderr[-1000:])
    check = run([options.tidemark, "check", name + ".tide"], folder)
    tap.add(check.returncode == 0, name + ": the books balance",
            check.stdout + check.stderr)
    report = run([options.tidemark, "report", "--json", "--top", "0",
                  name + ".tide"], folder)
    return json.loads(report.stdout) if report.returncode == 0 else None


def line_of(report, source, line):
    for row in report["lines"]:
        if row["source"] == source and row["line"] == line:
            return row
    return {"alloc_bytes": 0, "alloc_blocks": 0, "kinds": {}}


def bytes_of(row, *kinds):
    return sum(row["kinds"].get(kind, {}).get("alloc_bytes", 0)
               for kind in kinds)


def deep(options, tap, folder):
    report = profile(options, tap, folder, "deep", DEEP)
    row = line_of(report, "deep.lua", 3)
    tap.add(bytes_of(row, "table", "storage") == 180001 * 72,
            "deep: 180,001 frames, a table each", row)
    tap.add(len(report["stacks"]) < 200,
            "deep: recursion does not blow the tree up",
            len(report["stacks"]))


def coroutines(options, tap, folder):
    report = profile(options, tap, folder, "coroutines", COROUTINES)
    row = line_of(report, "coroutines.lua", 6)
    tap.add(bytes_of(row, "table", "storage") == 200000 * 72,
            "coroutines: 100,000, each resumed twice", row)
    tap.add(len(report["stacks"]) < 200,
            "coroutines: they share their stacks", len(report["stacks"]))
    tap.add(report["kinds"]["thread"]["live_blocks"] >= 200000,
            "coroutines: threads and their stacks are alive",
            report["kinds"]["thread"])


def chunks(options, tap, folder):
    report = profile(options, tap, folder, "chunks", CHUNKS)
    other = [row for row in report["lines"]
             if row["source"] == "[other chunks]"]
    tap.add(len(other) == 1 and other[0]["alloc_bytes"] >= 199000 * 72,
            "chunks: those beyond the limit share a row", other)
    tap.add(len(report["lines"]) < 300 and len(report["functions"]) < 300,
            "chunks: tables are bounded",
            (len(report["lines"]), len(report["functions"])))


def reused(options, tap, folder):
    report = profile(options, tap, folder, "reused", REUSED)
    a = line_of(report, "a.lua", 1)
    b = line_of(report, "b.lua", 3)
    n = sum(1 for i in range(1, 20001) if i % 3 == 0)
    tap.add(bytes_of(a, "table", "storage") == (20000 - n) * (56 + 48),
            "reused: chunk a's line has all of its bytes", a)
    tap.add(bytes_of(b, "table", "storage") == n * (56 + 80),
            "reused: chunk b's line has all of its bytes", b)


def hooks(options, tap, folder):
    plain = profile(options, tap, folder, "hooked", HOOKED)
    want = {line: bytes_of(line_of(plain, "hooked.lua", line), "table",
                           "storage") for line in range(2, 18)}
    tap.add(sum(want.values()) >= 4 * 56000, "hooked: constructors are seen",
            want)
    for name, hook in HOOKS.items():
        report = profile(options, tap, folder, "hooked", hook + HOOKED)
        got = {line: bytes_of(line_of(report, "hooked.lua", line), "table",
                              "storage") for line in range(2, 18)}
        tap.add(got == want, "hooked: %s: the same lines" % name,
                (got, want))


def tails(options, tap, folder):
    report = profile(options, tap, folder, "tails", TAILS)
    even = line_of(report, "tails.lua", 5)
    odd = line_of(report, "tails.lua", 2)
    tap.add((bytes_of(odd, "table", "storage"),
             bytes_of(even, "table", "storage")) ==
            (100000 * 72, 100000 * 88), "tails: each has its own tables",
            (odd, even))
    calls = {row["name"]: row["calls"] for row in report["functions"]}
    tap.add(calls.get("even") == 100000 or calls.get("odd") == 100000,
            "tails: a tail call is an activation", calls)


def strides(options, tap, folder):
    report = profile(options, tap, folder, "strides", STRIDES)
    got, want, calls = {}, {}, {}
    # Lua knows no name for what is tail-called.
    named = {"function <strides.lua:%d>" % (3 + 2 * n): name
             for n, name in enumerate(STRIDE.upper())}
    for row in report["stacks"]:
        names = [named.get(frame["function"], frame["function"])
                 for frame in row["frames"]]
        if "main chunk" in names and row["kind"] in ("table", "storage"):
            names = tuple(names[names.index("main chunk") + 1:])
            got[names] = got.get(names, 0) + row["alloc_bytes"]

    def make(names, size):
        want[names] = want.get(names, 0) + size

    for top, n, m in itertools.product(range(4), range(1, 9), range(1, 9)):
        below = tuple("b%d" % i for i in range(top, -1, -1))
        make(below, 3 * (56 + 48))
        for depth in (n, m):
            make(below + tuple(STRIDE[:depth]), 3 * (56 + 16))
            for name in STRIDE[:depth].upper():
                make(below + (name,), 3 * (56 + 32))
        for name in below:
            calls[name] = calls.get(name, 0) + 1
        for name in 3 * (STRIDE[:n] + STRIDE[:m]):
            for each in (name, name.upper()):
                calls[each] = calls.get(each, 0) + 1
    wrong = [(names, got.get(names), want.get(names))
             for names in {*got, *want} if got.get(names) != want.get(names)]
    tap.add(not wrong, "strides: each stack has its bytes", wrong[:5])
    counted = {}
    for row in report["functions"]:
        name = named.get(row["name"], row["name"])
        if name in calls:
            counted[name] = counted.get(name, 0) + row["calls"]
    tap.add(counted == calls, "strides: every activation counts once",
            (counted, calls))


def resumes(options, tap, folder):
    report = profile(options, tap, folder, "resumes", RESUMES)
    got = {}
    for row in report["stacks"]:
        if row["kind"] in ("table", "storage") and len(row["frames"]) > 2 and \
                row["frames"][-1]["line"] == 3:
            line = row["frames"][-3]["line"]
            got[line] = got.get(line, 0) + row["alloc_bytes"]
    tap.add(got == {5: 3000 * 72, 7: 500 * 72, 8: 500 * 72},
            "resumes: each line that resumes has its own", got)
    calls = {row["name"]: row["calls"] for row in report["functions"]}
    tap.add(calls.get("coroutine.wrap") == 4001,
            "resumes: each is a call", calls)


def frames_at(report, line):
    """Bytes of tables at a line, by the names of the stack's functions."""
    sums = {}
    for row in report["stacks"]:
        if row["frames"] and row["frames"][-1]["line"] == line and \
                row["kind"] in ("table", "storage"):
            names = tuple(frame["function"] for frame in row["frames"])
            sums[names] = sums.get(names, 0) + row["alloc_bytes"]
    return sums


def closed(options, tap, folder):
    report = profile(options, tap, folder, "closed", CLOSED)
    got = frames_at(report, 4)
    tap.add(sum(got.values()) == 1000 * (56 + 48) and
            all("coroutine.close" in names and
                "coroutine.resume" not in names for names in got),
            "closed: what __close makes hangs below coroutine.close", got)
    got = frames_at(report, 14)
    by = {name: sum(n for names, n in got.items() if name in names)
          for name in ("first", "second")}
    tap.add(by == {"first": 1000 * 88, "second": 2000 * 88},
            "closed: each resume has its own stack", got)


def attached(options, tap, folder):
    if not options.module:
        return
    with open(os.path.join(folder, "attached.lua"), "w",
              encoding="utf-8") as file:
        file.write(ATTACHED)
    path = os.path.join(os.path.dirname(options.module), "?.so;;")
    for what in ("stack", "array", "strings"):
        done = subprocess.run(
            options.interpreter + ["attached.lua", what], cwd=folder,
            text=True, timeout=SECONDS, stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(os.environ, LUA_CPATH=path, TIDEMARK="out="))
        tap.add(done.returncode == 0 and
                done.stdout.endswith("%s\ttrue\n" % what),
                "attached: first of all a %s grows" % what,
                done.stdout + done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--module", default="")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        for test in (deep, coroutines, chunks, reused, hooks, tails, strides,
                     resumes, closed, attached):
            test(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
