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
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

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
    stops = [e for e in got["events"] if e["what"] == "stop"]
    restarts = [e for e in got["events"] if e["what"] == "restart"]
    tap.add(len(stops) == 1 and len(restarts) == 1 and 0 < stops[0]["seconds"]
            and abs(restarts[0]["s"] - stops[0]["s"] - stops[0]["seconds"])
            < 1e-5, "for how long it was stopped", got["events"])
    text = runner.tidemark("gc", runner.profile).stdout
    tap.add("stop, for " in text and "pause 200 -> 400" in text,
            "... in the text", text)
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
STEPPED = """
collectgarbage("incremental")
local db = {} for i = 1, 50000 do db[i] = {i} end
for r = 1, 400 do
  for i = 1, 2000 do local s = db[(r * i) % #db + 1][1] .. "x" end
  collectgarbage("step")
end
"""
MANY = """
collectgarbage("incremental")
for i = 1, 40000 do
  local keep = string.rep("x", 1000)
  collectgarbage("step") --@step
end
"""
MIXED = """
for i = 1, 600 do
  for k = 1, 300 do local t = {k, {}} end
  if i % 3 == 0 then collectgarbage("collect") end --@full
  if i % 2 == 0 then collectgarbage("step", 10) end --@step
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
    tap.add(len(report["gc"]["cycles"]) <= 1024 and
            n == report["gc"]["Cycles"] > 8192,
            "very many cycles are joined, none is lost",
            (len(report["gc"]["cycles"]), n, report["gc"]["Cycles"]))
    tap.add(abs(sum(c["freed_bytes"] for c in report["gc"]["cycles"]) / 1024 -
                report["gc"]["ReclaimedKb"]) < 1, "... nor what they freed")
    _, report = runner.run(MIXED)
    cycles = report["gc"]["cycles"]
    asked = collections.Counter()
    for c in cycles:
        asked[c["cause"], c["line"]] += 1 + c["joined"]
    full = asked["explicit", line_of(MIXED, "full")]
    step = asked["explicit", line_of(MIXED, "step")]
    tap.add(sum(asked.values()) == report["gc"]["Cycles"] > 3 * len(cycles) and
            (full, step) == (200, 300),
            "those that were asked for stay apart, whatever is joined",
            (len(cycles), report["gc"]["Cycles"], asked))
    _, report = runner.run(STEPPED)
    tap.add(not any("setpause" in f["text"] for f in found(report, "gc")),
            "no longer pause is advised where it is long", report["findings"])


# Each finding that is not of a leak: mode and sizes such that it must be made,
# the words it is known by, its line's marker, figures and their least value.
FINDINGS = (
    ("pieces joined with ..", """
local s = ""
for i = 1, 3000 do s = s .. "piece " .. i end --@x
""", "churn", "table.concat", "x", {"mean_string_bytes": 5000}),
    ("a peak that is gone", """
local t = {}
for i = 1, 60000 do t[i] = {i, i} end --@x
t = nil collectgarbage() collectgarbage()
for i = 1, 1000 do local x = {i} end
""", "memory", "once stood at", "x",
     {"line_peak_bytes": 60000 * 88, "peak_bytes": 60000 * 88}),
    ("full collections in a hot path", """
local function hot() collectgarbage() end --@x
for i = 1, 40 do hot() end
""", "gc", "asks for a full collection again and again", "x",
     {"collections": 40, "seconds": 1e-6}),
    ("full collections behind others that were asked for", """
local function a() collectgarbage("step", 1000) end
local function b() collectgarbage() end
local function hot() collectgarbage() end --@x
for i = 1, 300 do a() if i % 30 == 0 then b() end end
for i = 1, 40 do hot() end
""", "gc", "asks for a full collection again and again: 40 of them", "x",
     {"collections": 40}),
    ("generational mode is worth a try", """
collectgarbage("incremental")
local keep = {} for i = 1, 30000 do keep[i] = {i} end
for i = 1, 1000000 do local t = {i} end
""", "gc", "generational mode is worth a try", None,
     {"died_young_share": 0.9, "after_bytes": 1 << 20, "cycles": 20}),
    ("generational mode hurts", """
collectgarbage("generational")
local q, h, t = {}, 1, 0
for i = 1, 400000 do
  t = t + 1 q[t] = {i, i}
  if t - h > 20000 then q[h] = nil h = h + 1 end
end
""", "gc", "generational mode hurts here", None,
     {"died_old_share": 0.3, "major": 4}),
    ("a short pause, and where it was set", """
collectgarbage("incremental")
local function tune() collectgarbage("setpause", 104) end --@x
tune()
local keep = {} for i = 1, 20000 do keep[i] = {i} end
for i = 1, 1000000 do local t = {i} end
""", "gc", "the pause is 104 %, set at", "x", {"cycles": 20}),
    ("steps that never let it rest", """
collectgarbage("incremental")
local db = {} for i = 1, 50000 do db[i] = {i} end
for r = 1, 200 do
  for i = 1, 2000 do local s = db[(r * i) % #db + 1][1] .. "x" end
  collectgarbage("step", 4000) --@x
end
""", "gc", "steps the collector so often that it never rests", "x",
     {"calls": 200, "cycles": 50, "after_bytes": 50000 * 72}),
    ("huge blocks", """
for i = 1, 4 do
  local s = ("x"):rep(3000000) --@x
end
""", "memory", "makes huge blocks", "x", {"mean_bytes": 2400000, "blocks": 4}),
    ("a huge block", """
local s = ("x"):rep(3000000) --@x
""", "memory", "made one block of", "x", {"largest_bytes": 3000000}),
    ("one huge string among many small ones of its line", """
local sum = 0
local function part(a, b) return a .. b end --@x
for i = 1, 100000 do
  if i == 60000 then
    local half = ("h"):rep(4 << 20)
    sum = sum + #part(half, half)
  end
  sum = sum + #part(i, "/small")
end
""", "memory", "among 200,000 others of", "x",
     {"largest_bytes": 8 << 20, "heap_peak_bytes": 8 << 20}),
    ("one huge buffer among many small strings", """
local function read(n) return ("x"):rep(n) end --@x
local n = 0
for i = 1, 100000 do
  n = n + #read(i == 60000 and 8 << 20 or 40 + i % 10)
end
""", "memory", "> lua5.4 string.rep [string]", "x",
     {"largest_bytes": 8 << 20, "heap_peak_bytes": 16 << 20}),
    ("arrays that grow again and again", """
local n = 0
for r = 1, 300 do
  local t = {}
  for i = 1, 1000 do t[i] = i end --@x
  n = n + #t
end
""", "memory", "lets tables grow again and again", "x",
     {"regrown": 300 * 4, "regrown_bytes": 300 * 15 * 1024}),
    ("hash parts that grow again and again", """
local n = 0
for r = 1, 200 do
  local t = {}
  for i = 1, 500 do t[i * 1000] = i end --@x
end
""", "memory", "lets tables grow again and again", "x",
     {"regrown": 200 * 3, "regrown_bytes": 200 * 7 * 1536}),
    ("coroutines parked", """
local parked = {}
for i = 1, 400 do
  local co = coroutine.create(function() coroutine.yield() end) --@x
  coroutine.resume(co) parked[i] = co
end
""", "memory", "coroutines made at", "x", {"coroutines": 400}),
    ("too few collections", """
collectgarbage("incremental", 1000)
local keep = {}
for i = 1, 4000 do keep[i] = ("x"):rep(400) .. i end
""", "note", "call collectgarbage() after each round of work", None,
     {"collections": 0}),
)


def check_findings(tap, runner):
    for name, text, kind, words, marker, least in FINDINGS:
        _, report = runner.run(text)
        made = [f for f in found(report, kind) if words in f["text"]]
        line = line_of(text, marker) if marker else 0
        good = [f for f in made if f["line"] == line and
                all(f["evidence"].get(k, -1) >= v for k, v in least.items())]
        tap.add(len(good) == 1, "finding: " + name, report["findings"])


# A program with none of them.  What is not known of it is noted all the same.
CALM = """
local t = {} for i = 1, 100 do t[i] = {i} end
for r = 1, 200 do local s = 0 for i = 1, 100 do s = s + t[i][1] end end
"""


def check_calm(tap, runner):
    _, report = runner.run(CALM)
    tap.add(all(f["kind"] == "note" for f in report["findings"]),
            "nothing is found in a calm program", report["findings"])


LIVES = """
collectgarbage("stop")
local a, b, c
for i = 1, 100 do local t = {} end --@none
a = {} for i = 1, 100 do a[i] = {} end --@one
b = {} for i = 1, 100 do b[i] = {} end --@two
c = {} for i = 1, 100 do c[i] = {} end --@more
collectgarbage() a = nil
collectgarbage() b = nil
collectgarbage() collectgarbage() c = nil
collectgarbage()
"""


def check_lives(tap, runner):
    _, report = runner.run(LIVES)
    got = json.loads(runner.tidemark("gc", "--json", runner.profile).stdout)
    for k, marker in enumerate(("none", "one", "two", "more")):
        line = line_of(LIVES, marker)
        row = [r for r in report["lines"] if r["line"] == line][0]
        ages = row["age_bytes"]
        tap.add(ages[k] >= 100 * 56 and
                sum(ages) - ages[k] <= (0 if k == 0 else 3000),
                "age at death: survived " + marker, ages)
        stacks = [r for r in got["stacks"] if r["kind"] == "table" and
                  "prog.lua:%d " % line in "".join(r["frames"][:1])]
        tap.add(sum(r["age_blocks"][k] for r in stacks) >= 100,
                "... the same by stack", stacks)
    tap.add(all(sum(r["age_bytes"]) <= r["freed_bytes"]
                for r in report["lines"]), "ages are of what was freed")
    for by in ("line", "stack"):
        text = runner.tidemark("gc", "--by", by, runner.profile).stdout
        tap.add("what survived whole collections, by " + by in text and
                "had been survived by what was freed, by " + by in text,
                "tidemark gc --by " + by, text)
    text = runner.tidemark("gc", "--top", "0", runner.profile).stdout
    row = r"100\.0%%   0\.0%%   0\.0%%   0\.0%%  \S*prog\.lua:%d " % line_of(
        LIVES, "none")
    tap.add(re.search(row, text) is not None,
            "... in the text", text)
    base = os.path.join(runner.folder, "base.tide")
    os.rename(runner.profile, base)
    runner.run(LIVES.replace("100 do a[i]", "350 do a[i]"))
    got = json.loads(runner.tidemark("diff", "--json", "--top", "0", base,
                                     runner.profile).stdout)
    row = [r for r in got["lines"] if r["line"] == line_of(LIVES, "one")][0]
    delta = row["age_blocks_delta"]
    tap.add(delta[1] == 250 and row["age_bytes_delta"][1] >= 250 * 56 and
            sum(map(abs, delta)) - delta[1] <= 4, "... in a diff", row)


LOGGED = """
local start = os.clock()
local keep = {}
for i = 1, 2000 do keep[i] = {i} end
while os.clock() - start < 2.4 do
  for i = 1, 1000 do keep[i] = {i} end
end
"""
LOG_LINE = re.compile(
    r"^tidemark: gc (\d+): (\d+\.\d) s, heap (\d+) KiB, peak (\d+) KiB, "
    r"floor (\d+) KiB, allocates (\d+) KiB/s, cycles (\d+), (\d+\.\d) a "
    r"minute, last freed (\d+) KiB, RSS (\d+) KiB(; high: .*)?$")


def check_log(tap, runner):
    path = os.path.join(runner.folder, "prog.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(LOGGED)

    def run(options):
        return runner.tidemark("run", "--report", "none", "-o", runner.profile,
                               "--set", options, "--",
                               *runner.options.interpreter, path)
    log = os.path.join(runner.folder, "log.%p.txt")
    run("log=1,warn_heap=1,log_file=" + log)
    names = [n for n in os.listdir(runner.folder) if n.startswith("log.")]
    tap.add(len(names) == 1, "log: one file", names)
    with open(os.path.join(runner.folder, names[0]), encoding="utf-8") as file:
        lines = file.read().splitlines()
    rows = [LOG_LINE.match(line) for line in lines]
    tap.add(all(rows) and len(rows) >= 3, "log: a line every second", lines)
    tap.add(all("log.%s.txt" % r.group(1) == names[0] for r in rows),
            "log: the process is named", lines)
    times = [float(r.group(2)) for r in rows]
    tap.add(all(b - a >= 1.0 - 0.11 for a, b in zip(times[:-1], times[1:-1])),
            "log: no more often than asked for", times)
    tap.add(all(int(r.group(3)) <= int(r.group(4)) and int(r.group(5)) > 50 and
                int(r.group(10)) > 1000 for r in rows), "log: heap and RSS",
            lines)
    tap.add(int(rows[-1].group(6)) > 4096 and float(rows[-1].group(8)) > 60,
            "log: rates", lines)
    report = json.loads(runner.tidemark("report", "--json",
                                        runner.profile).stdout)
    tap.add(int(rows[-1].group(7)) == report["gc"]["Cycles"],
            "log: the last line has all cycles",
            (lines, report["gc"]["Cycles"]))
    tap.add(rows[-1].group(11) == "; high: allocates more than warn_rate, "
            "holds more than warn_heap", "log: thresholds", lines)
    with open(path, "w", encoding="utf-8") as file:
        file.write("local t = {}\n")
    ran = run("log=60,warn_rate=0")
    made = [l for l in ran.stderr.splitlines() if LOG_LINE.match(l)]
    tap.add(len(made) == 1 and "high" not in made[0] and ran.stdout == "",
            "log: on standard error", ran.stderr)
    ran = run("warn_rate=1")
    tap.add("tidemark: gc" not in ran.stderr, "log: none if not asked for",
            ran.stderr)
    # standard error has no reader: no signal, no error
    pipe = os.pipe()
    os.close(pipe[0])
    ran = subprocess.run(
        [runner.options.tidemark, "run", "--report", "none", "-o",
         runner.profile, "--set", "log=1", "--", *runner.options.interpreter,
         "-e", "local t = {} collectgarbage() print('fine')"], check=False,
        stdout=subprocess.PIPE, stderr=pipe[1], encoding="utf-8", timeout=60)
    os.close(pipe[1])
    tap.add(ran.stdout == "fine\n", "log: a reader that is gone does no harm",
            ran)


SWEPT = """
collectgarbage("%s")
local keep = {}
for r = 1, 3 do
  for i = 1, 4000 do keep[i %% 50 + 1] = ("x"):rep(3000) .. i end
  os.execute("sleep 0.4")
end
"""
EMERGENCY = """
collectgarbage("generational") collectgarbage("stop")
local keep = {}
for i = 1, 20000 do keep[i % 500] = {i, ("x"):rep(200) .. i} end
"""


def check_times(tap, runner):
    for mode in ("incremental", "generational"):
        _, report = runner.run(SWEPT % mode)
        got = json.loads(runner.tidemark("gc", "--json", runner.profile).stdout)
        # a slow machine may need longer for the work, but has slept as long
        worked = report["run"]["seconds"] - 3 * 0.4
        tap.add(0 < got["sweep_seconds"] < max(0.4, worked),
                "time in sweeps, without the program's: " + mode,
                got["sweep_seconds"])
        tap.add(got["collect_seconds"] >= got["sweep_seconds"] +
                got["asked_seconds"] + got["emergency_seconds"] - 1e-5,
                "... is in the sum")
    text = runner.tidemark("gc", runner.profile).stdout
    rows = re.findall(r"^ +\d[\d.]* [mun]?s +[\d.]+ [KM]?i?B +[\d.]+ [KM]?i?B "
                      r"+[\d.]+ [KMG]?i?B +[\d,]+ +([\d.]+ [KM]iB)?$", text,
                      re.M)
    tap.add(4 <= len(rows) <= 12 and any(rows),
            "the timeline as a table, with RSS", text)
    path = os.path.join(runner.folder, "prog.lua")
    with open(path, "w", encoding="utf-8") as file:
        file.write(EMERGENCY)
    runner.tidemark("run", "--report", "none", "-o", runner.profile, "--set",
                    "limit=1M", "--", *runner.options.interpreter, path)
    got = json.loads(runner.tidemark("gc", "--json", runner.profile).stdout)
    cycles = [c for c in got["gc"]["cycles"] if c["cause"] == "emergency"]
    tap.add(len(cycles) >= 3 and
            all(c["collect_seconds"] > 0 for c in cycles),
            "emergency collections are timed", cycles[:3])
    tap.add(abs(sum(c["collect_seconds"] for c in cycles) -
                got["emergency_seconds"]) < 1e-5, "... all of them",
            got["emergency_seconds"])
    text = runner.tidemark("gc", runner.profile).stdout
    tap.add("collecting took" in text and "in emergencies" in
            " ".join(text.split()), "... and in the text", text)


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


# Full collections and steps turn Lua's own mark of the mode for a moment, and
# a heap that only grows for long.
MODES = """
collectgarbage("generational")
local keep = {}
for i = 1, 30000 do
  keep[i] = {i}
  if i % 1000 == 0 then collectgarbage() end
end
for i = 1, 30000 do
  local t = {i}
  if i % 500 == 0 then collectgarbage("step") end
end
for i = 30001, 60000 do keep[i] = {i} end
collectgarbage("incremental", 104, 500) --@incremental
for i = 1, 60000 do local t = {i} end
collectgarbage("generational") --@generational
for i = 1, 60000 do local t = {i} end
"""


def check_modes(tap, runner):
    runner.run(MODES)
    got = json.loads(runner.tidemark("gc", "--json", runner.profile).stdout)
    modes = [(e["line"], e["is"]) for e in got["events"]
             if e["what"] == "mode"]
    tap.add(modes[-2:] == [(line_of(MODES, "incremental"), 0),
                           (line_of(MODES, "generational"), 1)] and
            all(line == 0 or line == 2 for line, _ in modes[:-2]),
            "modes change where the program says so", modes)
    change = next((e["s"] for e in got["events"] if e["what"] == "mode" and
                   e["line"] == line_of(MODES, "incremental")), 0)
    back = next((e["s"] for e in got["events"] if e["what"] == "mode" and
                 e["line"] == line_of(MODES, "generational")), 0)
    # The mark of the next one may be seen to begin before the call is over
    # that changes the mode: a cycle is of the mode that its mark ends in.
    kinds = {c["collection"] for c in got["gc"]["cycles"]
             if change < c["start_s"] + c["mark_seconds"] < back}
    tap.add(kinds == {"incremental"},
            "... and cycles are of that mode from there on", kinds)


def check_states(tap, runner, path, leak):
    """A state that makes garbage, and one that leaks: each by itself."""
    got = json.loads(runner.tidemark("gc", "--json", path).stdout)
    totals = json.loads(runner.tidemark("report", "--json", path).stdout)
    states = got["states"]
    tap.add(len(states) == 2 and {s["state"] for s in states} == {0, 1} and
            states[0]["alloc_bytes"] >= states[1]["alloc_bytes"] and
            sum(s["alloc_bytes"] for s in states) ==
            totals["totals"]["alloc_bytes"] and
            sum(s["cycles"] for s in states) == got["gc"]["Cycles"],
            "two states: their sums are those of all", states and
            [(s["state"], s["alloc_bytes"], s["cycles"]) for s in states])
    of_leak = [{row["line"]: row for row in s["lines"]}.get(leak, {})
               for s in states]
    sure = [row.get("leak_confidence", 0) for row in of_leak]
    tap.add(sorted(sure)[0] == 0 and sorted(sure)[1] >= 2,
            "the line leaks in one of them", sure)
    leaky = states[sure.index(max(sure))] if states else {"state": 9}
    tap.add(all(len(s["collections"]) >= 4 and len(s["timeline"]) >= 2 and
                max(m["heap_bytes"] for m in s["timeline"]) <=
                s["peak_bytes"] for s in states) and
            max(of_leak[sure.index(max(sure))]["floors"]) <=
            leaky["peak_bytes"] and
            {c["state"] for c in got["gc"]["cycles"]} == {0, 1},
            "each has its timeline, collections and floors", leaky["state"])
    text = runner.tidemark("gc", "--by", "state", path).stdout
    tap.add(text.count("heap over time:") == 2 and
            text.count("what survived whole collections, by line (") == 2 and
            all("state %d of process" % n in text for n in (0, 1)),
            "gc --by state shows both", text)
    text = runner.tidemark("gc", "--state", str(leaky["state"]), "--top", "1",
                           path).stdout
    table = text.partition("what survived whole collections, by line (")[2]
    tap.add(text.count("heap over time:") == 1 and
            "prog.lua:%d" % leak in table.split("\n")[2],
            "gc --state shows one", text)
    text = runner.tidemark("gc", path).stdout
    tap.add("heap over time, of state" in text and
            "state      n      time what" in text and
            re.search(r"by\s+line, of\s+state %d, which says most" %
                      got["survivors_state"], text) is not None,
            "gc says which state it shows", text)
    for wrong in ("7", "x"):
        bad = runner.tidemark("gc", "--state", wrong, path)
        tap.add(bad.returncode == 2 and bad.stdout == "" and
                "state" in bad.stderr, "no state " + wrong, bad.stderr)


def check_gates(tap, runner):
    setup, body = LEAKS["log"]
    text = program("incremental", 600, setup, body, CHURNS["tables"])
    runner.run(text)
    leaky = os.path.join(runner.folder, "leaky.tide")
    os.rename(runner.profile, leaky)
    # more collections than the one that leaks
    runner.run(program("incremental", 3000, "", "", CHURNS["tables"]))

    def expect(name, status, why, *args):
        got = runner.tidemark("check", *args)
        tap.add(got.returncode == status and why in got.stderr, name,
                (got.returncode, got.stderr))
    expect("a leak fails --no-leaks", 1, "prog.lua:%d" % line_of(text, "leak"),
           "--no-leaks", leaky)
    expect("no leak passes it", 0, "", "--no-leaks", runner.profile)
    both = os.path.join(runner.folder, "both.tide")
    for names in ((leaky, runner.profile), (runner.profile, leaky)):
        runner.tidemark("merge", "-o", both, *names)
        expect("a state that leaks beside one that does not", 1,
               "prog.lua:%d" % line_of(text, "leak"), "--no-leaks", both)
    check_states(tap, runner, both, line_of(text, "leak"))
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
    # most is allocated where nothing is held
    runner.run(program("incremental", 200, setup, body, CHURNS["tables"]))
    got = runner.tidemark("check", "--baseline", runner.profile, leaky)
    for gate, marker in (("alloc", "churn"), ("live", "leak"),
                         ("peak", "leak")):
        tap.add(re.search(r"growth-%s: .*; most at \S*prog\.lua:%d, by" %
                          (gate, line_of(text, marker)), got.stderr),
                "the line of growth-" + gate, got.stderr)
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
        check_modes(tap, runner)
        check_findings(tap, runner)
        check_calm(tap, runner)
        check_lives(tap, runner)
        check_log(tap, runner)
        check_times(tap, runner)
        check_cases(tap, runner)
        check_watchers(tap, runner)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
