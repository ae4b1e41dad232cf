#!/usr/bin/env python3
"""Findings and gates, on programs whose leak and churn lines are known; TAP.

usage: leaks.py --tidemark FILE [--module FILE] -- INTERPRETER [ARG..]

Generates programs from templates: half of them leak at one line, a kilobyte and
more for each collection, beside churn of many sorts; half of them only look as
if they did: data that is loaded, caches that fill up, rings, queues, pools,
phases.  Every program runs in incremental and in generational mode.  No leak
may be missed, none reported where there is none, and the line that makes most
garbage must be named.

Then: the count of cycles against a __gc sentinel in both modes, what is known
of collections that are asked for, and the gates of `tidemark check`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HEAD = """collectgarbage("%s")
local rounds = %d
"""

# What makes garbage: each has one line marked @churn.
CHURNS = {
    "tables": "  for i = 1, 150 do local t = {i, i + 1, i + 2} end --@churn\n",
    "strings": "  for i = 1, 60 do local s = string.rep('x', 100 + i) end"
               " --@churn\n",
    "closures": "  for i = 1, 200 do local f = function() return i end end"
                " --@churn\n",
    "concat": "  local s = '' for i = 1, 60 do s = s .. 'item ' .. i end"
              " --@churn\n",
    "records": "  for i = 1, 120 do local r = {id = i, name = 'n'} end"
               " --@churn\n",
}

# What leaks, a kilobyte and more for every round: one line marked @leak.
LEAKS = {
    "log": ("local log = {}\n",
            "  log[#log + 1] = string.rep('l', 1500) .. round --@leak\n"),
    "registry": ("local registry = {}\n",
                 "  registry['key' .. round] = {round, string.rep('r',"
                 " 1200 + round % 7)} --@leak\n"),
    "chain": ("local last\n",
              "  last = {next = last, data = string.rep('c', 2000 + round %"
              " 9)} --@leak\n"),
    "handlers": ("local handlers = {}\n",
                 "  for i = 1, 20 do handlers[#handlers + 1] = function()"
                 " return round, i end end --@leak\n"),
    "nodes": ("local nodes = {}\n",
              "  for i = 1, 20 do nodes[#nodes + 1] = {id = i, round = round}"
              " end --@leak\n"),
    "weak": ("local cache = setmetatable({}, {__mode = 'k'})\n",
             "  cache['file' .. round] = {string.rep('w', 1800 + round % 5)}"
             " --@leak\n"),
    "coroutines": ("local parked = {}\n",
                   "  local co = coroutine.wrap(function() coroutine.yield()"
                   " end) --@leak\n  co() parked[#parked + 1] = co\n"),
    "numbers": ("local numbers = {}\n",
                "  for i = 1, 100 do numbers[#numbers + 1] = i * 0.5 end"
                " --@leak\n"),
    "slow": ("local kept = {}\n",
             "  if round % 2 == 0 then kept[#kept + 1] = string.rep('s', 3000"
             " + round % 11) end --@leak\n"),
}

# What only looks like a leak.
SOUND = {
    "nothing": ("", ""),
    "loaded": ("local data = {}\nfor i = 1, 5000 do data[i] = {i, 'row ' .. i}"
               " end\n", "  local row = data[round % 5000 + 1]\n"),
    "cache": ("local cache = {}\n",
              "  local key = round % 100\n  cache[key] = cache[key] or"
              " string.rep('c', 1000 + key)\n"),
    "ring": ("local ring = {}\n",
             "  ring[round % 64 + 1] = string.rep('r', 2000 + round % 64)\n"),
    "queue": ("local queue, head = {}, 1\n",
              "  queue[#queue + 1] = {round, string.rep('q', 800)}\n"
              "  if #queue > 50 then table.remove(queue, 1) end\n"),
    "pool": ("local pool = {}\n",
             "  local t = table.remove(pool) or {data = {}}\n"
             "  for i = 1, 20 do t.data[i] = round + i end\n"
             "  pool[#pool + 1] = t\n"),
    "phases": ("local phase = {}\n",
               "  if round % 40 == 0 then phase = {} end\n"
               "  phase[#phase + 1] = string.rep('p', 1500 + round % 40)\n"),
    "weak cache": ("local cache = setmetatable({}, {__mode = 'v'})\n",
                   "  cache[round] = {string.rep('w', 500)}\n"),
    "coroutines": ("",
                   "  for i = 1, 5 do local co = coroutine.wrap(function()"
                   " coroutine.yield(i) end) co() co() end\n"),
    "slots": ("local slots = {}\nfor i = 1, 200 do slots[i] = {n = 0} end\n",
              "  for i = 1, 20 do local s = slots[(round * 7 + i) % 200 + 1]"
              " s.last = {round} s.n = s.n + 1 end\n"),
    "objects": ("", "  for i = 1, 30 do setmetatable({i}, {__gc = function()"
                    " end}) end\n"),
}


class Tap:
    def __init__(self):
        self.n = self.bad = 0

    def add(self, is_good, name, why=""):
        self.n += 1
        self.bad += not is_good
        print("%sok %d - %s" % ("" if is_good else "not ", self.n, name))
        if not is_good:
            print("# %s" % str(why)[:600])
        sys.stdout.flush()


class Runner:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.profile = os.path.join(folder, "x.tide")

    def tidemark(self, *args):
        return subprocess.run([self.options.tidemark, *args], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              encoding="utf-8", timeout=120)

    def run(self, text):
        """Runs a program; its output and its report."""
        path = os.path.join(self.folder, "prog.lua")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        ran = self.tidemark("run", "--report", "none", "-o", self.profile,
                            "--", *self.options.interpreter, path)
        got = self.tidemark("report", "--json", "--top", "0", self.profile)
        return ran.stdout, json.loads(got.stdout)


def line_of(text, marker):
    for n, line in enumerate(text.split("\n"), 1):
        if "--@" + marker in line:
            return n
    return 0


def program(mode, rounds, setup, body, churn):
    return (HEAD % (mode, rounds) + setup + "for round = 1, rounds do\n" +
            body + churn + "end\n")


def found(report, kind):
    return [f for f in report["findings"] if f["kind"] == kind]


def check_leaks(tap, runner):
    churns = list(CHURNS)
    for k, (name, (setup, body)) in enumerate(LEAKS.items()):
        for mode in ("incremental", "generational"):
            churn = churns[(k + (mode == "generational")) % len(churns)]
            text = program(mode, 1200, setup, body, CHURNS[churn])
            _, report = runner.run(text)
            lines = [f["line"] for f in found(report, "leak")]
            tap.add(line_of(text, "leak") in lines,
                    "leak: %s beside %s, %s" % (name, churn, mode),
                    (lines, report["findings"]))
            tap.add(line_of(text, "churn") not in lines,
                    "... and its churn is none", lines)


def check_sound(tap, runner):
    churns = list(CHURNS)
    for k, (name, (setup, body)) in enumerate(SOUND.items()):
        for mode in ("incremental", "generational"):
            churn = churns[(k + (mode == "generational")) % len(churns)]
            text = program(mode, 1200, setup, body, CHURNS[churn])
            _, report = runner.run(text)
            tap.add(not found(report, "leak"),
                    "no leak: %s beside %s, %s" % (name, churn, mode),
                    found(report, "leak"))
            if name == "nothing":
                lines = [f["line"] for f in found(report, "churn")]
                tap.add(lines[:1] == [line_of(text, "churn")],
                        "... and the line that makes the garbage is named",
                        report["findings"])


SENTINEL = """
collectgarbage("%s")
local n, live = 0, true
local function arm()
  setmetatable({}, {__gc = function() if live then n = n + 1 arm() end end})
end
arm()
local keep = {}
for i = 1, %d do keep[i %% 5000 + 1] = {i} end
live = false
print(n)
"""


def check_sentinel(tap, runner):
    for mode in ("incremental", "generational"):
        for turns in (100000, 400000):
            out, report = runner.run(SENTINEL % (mode, turns))
            n = int(out)
            seen = sum(1 + c["joined"] for c in report["gc"]["cycles"])
            # those before the sentinel was armed, and an object that is young
            # is finalized by the second collection after its making
            tap.add(n <= seen and (n >= 10 and seen <= 2 * n + 12),
                    "cycles against a sentinel, %s, %d turns: %d and %d" %
                    (mode, turns, n, seen))
            tap.add(report["gc"]["Cycles"] == seen, "... all have a record")


ASKED = """
collectgarbage("incremental")
for i = 1, 25 do collectgarbage() end --@asked
collectgarbage("stop") --@stop
local x for i = 1, 1000 do x = {i} end
collectgarbage("restart") --@restart
collectgarbage("setpause", 400) --@pause
collectgarbage("generational") --@mode
for i = 1, 1000 do x = {i} end
"""


def check_asked(tap, runner):
    _, report = runner.run(ASKED)
    line = line_of(ASKED, "asked")
    asked = [c for c in report["gc"]["cycles"]
             if c["cause"] == "explicit" and c["line"] == line]
    tap.add(len(asked) == 25, "collections back to back are all seen",
            len(asked))
    tap.add(all(c["collection"] == "full" and c["mode"] == "incremental"
                for c in asked), "... and are full ones", asked[:2])
    tap.add(all(c["collect_seconds"] > 0 for c in asked), "... and timed")
    tap.add([f["line"] for f in found(report, "gc")][:1] == [line],
            "... and found to be asked for too often", report["findings"])
    got = json.loads(runner.tidemark("gc", "--json", runner.profile).stdout)
    events = [(e["what"], e["line"]) for e in got["events"]]
    for what in ("stop", "restart", "pause", "mode"):
        tap.add((what, line_of(ASKED, what)) in events,
                "%s is noted with its line" % what, events)
    tap.add(got["collect_seconds"] > 0 and got["timed_calls"] >= 25,
            "time inside lua_gc")
    tap.add(len(got["timeline"]) > 0 and
            all(a["s"] <= b["s"] for a, b in
                zip(got["timeline"], got["timeline"][1:])),
            "the timeline is in order")


STOPPED = """
local function batch() collectgarbage("stop") error("no") end --@stop
pcall(batch)
local keep
for i = 1, 60000 do keep = {{i}, i} end
"""
TIGHT = """
collectgarbage("incremental") collectgarbage("setpause", 105)
local keep = {}
for i = 1, 20000 do keep[i] = {i} end
for i = 1, 1000000 do local t = {i} end
"""
MANY = """
collectgarbage("incremental")
for i = 1, 40000 do
  local keep = string.rep("x", 1000)
  collectgarbage("step") --@step
end
"""


def check_collector(tap, runner):
    _, report = runner.run(STOPPED)
    first = report["findings"][0]
    tap.add(first["kind"] == "gc" and "never started again" in first["text"]
            and first["line"] == line_of(STOPPED, "stop"),
            "a collector left stopped stands first", first)
    _, report = runner.run(TIGHT)
    tap.add(any("never rests" in f["text"] for f in found(report, "gc")),
            "a pause that is too short", report["findings"])
    _, report = runner.run(MANY)
    n = sum(1 + c["joined"] for c in report["gc"]["cycles"])
    tap.add(len(report["gc"]["cycles"]) <= 8192 and
            n == report["gc"]["Cycles"] > 8192,
            "very many cycles are joined, none is lost",
            (len(report["gc"]["cycles"]), n, report["gc"]["Cycles"]))
    tap.add(abs(sum(c["freed_bytes"] for c in report["gc"]["cycles"]) / 1024 -
                report["gc"]["ReclaimedKb"]) < 1, "... nor what they freed")


# Of the cases: the kind of finding and the marker of the line; a kind alone
# must not be there at all.
CASES = {
    "01": [("leak", "wrap"), ("leak", "body"), ("memory", "wrap")],
    "02": [("churn", "hot"), ("leak", "")],
    "03": [("churn", "hot"), ("leak", "")],
    "05": [("churn", "hot"), ("leak", "")],
    "06": [("memory", "grow"), ("leak", "")],
    "07": [("leak", "nodes"), ("leak", "tree")],
    "08": [("gc", "collect"), ("churn", "build"), ("leak", "")],
    "10": [("leak", "buffer"), ("leak", "fnend")],
    "11": [("leak", "load"), ("leak", "text")],
    "12": [("churn", "rep"), ("churn", "sub"), ("leak", "")],
    "14": [("leak", "tb"), ("leak", "rec")],
    "16": [("churn", "wrap"), ("leak", "")],
    "17": [("leak", "option"), ("leak", "append")],
    "18": [("memory", "rep"), ("leak", "")],
    "20": [("churn", "bind"), ("leak", "")],
    "23": [("gc", "stop"), ("churn", "churn"), ("leak", "")],
    "25": [("churn", "touch"), ("leak", "")],
    "28": [("memory", "append")],
    "30": [("churn", "node"), ("churn", "guard"), ("leak", "")],
    "32": [("leak", "")],
}
CASES_DIR = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "cases")


def check_cases(tap, runner):
    for name in sorted(os.listdir(CASES_DIR)):
        if not name.endswith(".lua") or name[:2] not in CASES:
            continue
        with open(os.path.join(CASES_DIR, name), encoding="utf-8") as file:
            text = file.read()
        _, report = runner.run(text)
        for kind, marker in CASES[name[:2]]:
            lines = [f["line"] for f in found(report, kind)]
            if marker:
                tap.add(line_of(text, marker) in lines,
                        "case %s: %s at %s" % (name[:2], kind, marker),
                        report["findings"])
            else:
                tap.add(not lines, "case %s: no %s" % (name[:2], kind), lines)


WATCHERS = """
package.cpath = "%s;" .. package.cpath
local tidemark = require "tidemark"
local now, heap = 0, 100
local w = tidemark.gcwatch{window = 5, heap = function() return heap end,
  clock = function() return now end}
local function at(t, kb) now, heap = t, kb w:sample() end
at(1, 200) at(2, 150) at(3, 140) at(4, 160)
local s = w:stats()
assert(s.HeapKb == 160 and s.PeakHeapKb == 200, "heap")
assert(s.Cycles == 1 and s.LastReclaimKb == 60, "drops in a row")
assert(s.AllocKbPerSec == 30 and s.CyclesPerMin == 15, "partial window")
w:sample(5)
assert(w:stats(9).AllocKbPerSec == 24, "closed window")
w:close() w:close()
heap = 1000 w:sample(20)
assert(w:stats(20).HeapKb == 160, "closed")
for _, bad in ipairs{{heap = 1}, {clock = "x"}, {window = 0}, {window = "w"}} do
  assert(not pcall(tidemark.gcwatch, bad), "wrong arguments")
end
assert(not pcall(tidemark.gcwatch, 3))
assert(not pcall(tidemark.gcwatch, {heap = function() return nil end}))

local clock = 0
local e = tidemark.gcwatch{clock = function() return clock end}
local before = e:stats()
for i = 1, 10 do
  local x for k = 1, 1000 do x = {k} end
  collectgarbage()
end
clock = 10
local after = e:stats()
local n = after.Cycles - before.Cycles
assert(n >= 10, "cycles " .. n)
assert(math.abs(after.CyclesPerMin - n * 6) < 1e-6, "cycles per minute")
local kb = collectgarbage("count")
assert(math.abs(e:stats().HeapKb - kb) < 2, "heap")
assert(after.AllocKbPerSec * 10 >= 10 * 1000 * 72 / 1024, "allocated")
assert(after.ReclaimedKb - before.ReclaimedKb > 10 * 1000 * 72 / 1024 * 0.9)
assert(math.abs(after.AvgReclaimKb * after.Cycles - after.ReclaimedKb) < 1e-3)
print("fine")
"""


def check_watchers(tap, runner):
    if runner.options.module is None:
        return
    text = WATCHERS % runner.options.module
    out, _ = runner.run(text)
    tap.add(out == "fine\n", "watchers in Lua, profiled", out)
    path = os.path.join(runner.folder, "prog.lua")
    ran = subprocess.run(runner.options.interpreter + [path], check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         cwd=runner.folder, encoding="utf-8", timeout=60)
    tap.add(ran.stdout == "fine\n", "watchers in Lua, attached in mid-life",
            ran.stderr)


def check_gates(tap, runner):
    setup, body = LEAKS["log"]
    text = program("incremental", 600, setup, body, CHURNS["tables"])
    runner.run(text)
    leaky = os.path.join(runner.folder, "leaky.tide")
    os.rename(runner.profile, leaky)
    runner.run(program("incremental", 600, "", "", CHURNS["tables"]))

    def expect(name, status, why, *args):
        got = runner.tidemark("check", *args)
        tap.add(got.returncode == status and why in got.stderr, name,
                (got.returncode, got.stderr))
    expect("a leak fails --no-leaks", 1, "prog.lua:%d" % line_of(text, "leak"),
           "--no-leaks", leaky)
    expect("no leak passes it", 0, "", "--no-leaks", runner.profile)
    expect("--max-alloc", 1, "max-alloc: allocated", "--max-alloc", "1K",
           leaky)
    expect("--max-live", 1, "max-live: held at the end", "--max-live", "1K",
           leaky)
    expect("--max-peak", 1, "max-peak: at the highest", "--max-peak", "1K",
           leaky)
    expect("limits that are kept", 0, "", "--max-alloc", "1G", "--max-live",
           "1G", "--max-peak", "1G", leaky)
    expect("growth against a baseline", 1, "growth-live: held at the end",
           "--baseline", runner.profile, leaky)
    expect("growth that is allowed", 0, "", "--baseline", runner.profile,
           "--max-growth", "1000000%", leaky)
    expect("no growth", 0, "", "--baseline", leaky, "--max-growth", "0", leaky)
    expect("--max-growth alone", 2, "needs --baseline", "--max-growth", "5",
           leaky)
    expect("a size that is none", 2, "--max-alloc takes a size",
           "--max-alloc", "many", leaky)
    got = runner.tidemark("check", "--json", "--no-leaks", leaky)
    gates = json.loads(got.stdout)["gates"]
    tap.add(got.returncode == 1 and gates[0]["gate"] == "no-leaks" and
            not gates[0]["passed"], "gates in JSON", gates)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--module", help="the Lua module, tidemark.so")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(options, folder)
        check_leaks(tap, runner)
        check_sound(tap, runner)
        check_sentinel(tap, runner)
        check_asked(tap, runner)
        check_collector(tap, runner)
        check_gates(tap, runner)
        check_cases(tap, runner)
        check_watchers(tap, runner)
    print("1..%d" % tap.n)
    return tap.bad > 0


if __name__ == "__main__":
    sys.exit(main())
