#!/usr/bin/env python3
"""limit=SIZE under the preload library: allocation fails as it does in Lua, no
byte beyond the limit is held, the program goes on, and the report says what
held the heap.  Prints TAP.

usage: limit.py --tidemark FILE -- LUA
"""
import argparse
import json
import os
import re
import sys
import tempfile

import hosts

LIMIT = 2 * 1024 * 1024

# line: what it keeps of the bytes; 4 makes garbage only
UNCAUGHT = """local kept = {}
local function keep(i)
  kept[i] = {i}
  return {i}
end
for i = 1, 1e7 do keep(i) end
"""

CAUGHT = """local most, kept = 0, {}
local function fill(make)
  for i = 1, 1e7 do
    kept[i] = make(i)
    local n = collectgarbage("count") * 1024
    if n > most then most = n end
  end
end
for _, make in ipairs{function(i) return {i} end,
                      function(i) return ("x"):rep(i * 10) end,
                      function(i) return string.format("%d", i) end,
                      function(i) return coroutine.create(print) end,
                      function(i) return ("x"):rep(1 << 40) end} do
  kept = {}
  local ok, why = pcall(fill, make)
  print(ok, why)
end
kept = {}
collectgarbage()
print(most <= LIMIT, most > LIMIT * 7 // 8)
local t = {}
for i = 1, 1000 do t[i] = {i} end
print(#t, LIMIT)
"""

KILLED = """local kept = {}
print(pcall(function()
  for i = 1, 1e7 do kept[i] = {i} end
end))
io.stdout:flush()
os.execute("kill -9 $PPID")
"""


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text.replace("LIMIT", str(LIMIT)))


def profiled(options, folder, name, out, limit=LIMIT):
    return hosts.run([options.tidemark, "run", "--report", "none", "-o", out,
                      "--set", "limit=%d" % limit, "--", options.lua, name],
                     folder)


def rows(found, key):
    return {row["line"]: row["held_bytes"] for row in found[key]
            if row["source"].endswith("work.lua")}


def check_uncaught(options, tap, folder):
    write(folder, "work.lua", UNCAUGHT)
    done = profiled(options, folder, "work.lua", "x.tide")
    tap.add(done.returncode == 1 and
            done.stderr.splitlines()[0].endswith("not enough memory"),
            "the program ends with Lua's own message", done)
    got = hosts.run([options.tidemark, "check", "x.tide"], folder)
    tap.add(got.returncode == 0, "the profile is sound", got)
    found = hosts.report(options, folder, "x.tide")
    oom = found["out_of_memory"]
    tap.add(oom["happened"] and oom["limit_bytes"] == LIMIT and
            oom["source"].endswith("work.lua") and oom["line"] in (3, 4) and
            oom["held_bytes"] <= LIMIT < oom["held_bytes"] +
            oom["want_bytes"], "when, where and how much", oom)
    lines = rows(found, "lines")
    tap.add(lines[3] > LIMIT * 9 // 10 and lines.get(4, 0) < 200,
            "the line that keeps held the heap, not the one of the garbage",
            lines)
    sums = [sum(row["held_bytes"] for row in found[key])
            for key in ("lines", "stacks", "functions")]
    tap.add(sums[0] == sums[1] and sums[2] == oom["held_bytes"],
            "lines and stacks add up, and functions to what was held",
            (sums, oom))
    by_group = sum(row["held_bytes"] for row in oom["groups"])
    tap.add(by_group == oom["held_bytes"], "and so do groups", oom)
    tap.add(any(f["kind"] == "memory" and "memory ran out at" in f["text"] and
                f["line"] == 3 for f in found["findings"]),
            "it is a finding", found["findings"])
    return lines[3]


def check_text(options, tap, folder, held):
    got = hosts.run([options.tidemark, "report", "x.tide"], folder)
    text = " ".join(got.stdout.split())
    tap.add("what held the heap when memory ran out" in text and
            "the limit was 2.00 MiB" in text and
            re.search(r"groups: \S*work.lua 9\d", text),
            "the report says what held the heap, by line and group", got)
    for by in ("line", "function", "stack", "group", "kind"):
        got = hosts.run([options.tidemark, "report", "--by", by, "--sort",
                         "held", "x.tide"], folder)
        tap.add(got.returncode == 0 and
                re.search(r"1\.\d+ MiB|2\.00 MiB", got.stdout),
                "by %s, sorted by what was held" % by, got)
    got = hosts.run([options.tidemark, "report", "--json",
                     "x.tide@out of memory"], folder)
    there = json.loads(got.stdout)
    live = {row["line"]: row["live_bytes"] for row in there["lines"]
            if row["source"].endswith("work.lua")}
    tap.add(live[3] == held, "FILE@MARK is the profile as it was then", live)


def check_caught(options, tap, folder):
    write(folder, "work.lua", CAUGHT)
    done = profiled(options, folder, "work.lua", "y.tide")
    want = ["false\tnot enough memory"] * 4
    lines = done.stdout.splitlines()
    tap.add(done.returncode == 0 and lines[:4] == want and
            # Lua itself says that such a string is too large, or asks for it
            (lines[4] == want[0] or
             lines[4].endswith("resulting string too large")) and
            lines[5:] == ["true\ttrue", "1000\t%d" % LIMIT],
            "pcall catches it, no byte beyond the limit, and on it goes", done)
    got = hosts.run([options.tidemark, "check", "y.tide"], folder)
    tap.add(got.returncode == 0, "the profile is sound", got)
    found = hosts.report(options, folder, "y.tide")
    tap.add(len(found["marks"]) == 1 and found["marks"][0]["failed"],
            "the first failure is the one that is kept", found["marks"])


def check_killed(options, tap, folder):
    write(folder, "work.lua", KILLED)
    done = profiled(options, folder, "work.lua", "z.tide")
    found = hosts.report(options, folder, "z.tide")
    tap.add(done.stdout == "false\tnot enough memory\n" and found and
            found["out_of_memory"]["happened"] and
            rows(found, "lines")[3] > LIMIT * 9 // 10,
            "what held the heap is there after kill -9", done)


def check_none(options, tap, folder):
    write(folder, "work.lua", "local t = {} for i = 1, 1e5 do t[i] = {} end")
    done = profiled(options, folder, "work.lua", "n.tide", 1 << 30)
    found = hosts.report(options, folder, "n.tide")
    tap.add(done.returncode == 0 and not found["marks"] and
            not found["out_of_memory"]["happened"] and
            found["out_of_memory"]["held_bytes"] == 0,
            "a limit that is not reached leaves nothing", found["marks"])
    got = hosts.run([options.tidemark, "report", "n.tide"], folder)
    tap.add("ran out" not in got.stdout, "and the report says nothing", got)


def check_too_small(options, tap, folder):
    done = profiled(options, folder, "work.lua", "s.tide", 4096)
    tap.add(done.returncode == 1 and
            "cannot create state: not enough memory" in done.stderr,
            "a limit below what a state takes: there is no state", done)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    tap = hosts.Tap()
    with tempfile.TemporaryDirectory() as folder:
        held = check_uncaught(options, tap, folder)
        check_text(options, tap, folder, held)
        check_caught(options, tap, folder)
        check_killed(options, tap, folder)
        check_none(options, tap, folder)
        check_too_small(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
