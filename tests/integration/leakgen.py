#!/usr/bin/env python3
"""Leaks and what looks like one, in programs put together at random; TAP.

usage: leakgen.py --tidemark FILE [--seeds N] [--first N] [--keep DIR]
                  -- INTERPRETER [ARG..]

A second set beside leaks.py, by another design, on which no threshold was
tuned.  A program has one shape (a bounded cache, a queue, a pool, listeners, a
history...), sound or with the fault that such code usually has, with sizes
drawn at random; garbage of some sorts beside it; a heap that was there before;
a driver (a loop, protected calls, coroutines, objects), and a way in which the
collector runs (by itself in either mode, with other parameters, asked for in
full or in steps).  Half of the seeds leak.

For every program: each line that is marked @leak leaks a kilobyte and more for
each collection cycle, which is checked against what the program itself says
that it kept; then one of the lines so marked must be found, and no other line.
The report may say that there were too few collections: then the list of the
cycles must say so too, and what the report advises, a longer run, must find it.
A sound program must have no finding of a leak at all.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

# ---- shapes: setup, body of step(n) -------------------------------------
# %(a)d .. are sizes drawn for each program.  A sound one may say how many
# rounds it needs before it stands still: `rounds`, as a factor.

SOUND = {
    "cache that is full after a while": (
        "local cache, order = {}, {}\n",
        "  local key = 'k' .. rnd(%(n)d)\n"
        "  if not cache[key] then\n"
        "    cache[key] = {key, ('v'):rep(%(b)d)}\n"
        "  end\n"),
    "cache by least recent use": (
        "local map, list = {}, {}\n",
        "  local key = rnd(%(n)d * 20)\n"
        "  if not map[key] then\n"
        "    map[key] = ('r'):rep(%(b)d + n %% 13)\n"
        "    list[#list + 1] = key\n"
        "    if #list > %(n)d then map[table.remove(list, 1)] = nil end\n"
        "  end\n"),
    "window over the last records": (
        "local first, last, window = 1, 0, {}\n",
        "  last = last + 1\n"
        "  window[last] = {at = n, text = ('w'):rep(%(b)d)}\n"
        "  while last - first >= %(n)d do window[first] = nil first = first + 1"
        " end\n"),
    "weak values": (
        "local objects = setmetatable({}, {__mode = 'v'})\n",
        "  objects[n] = {name = 'o' .. n, data = ('d'):rep(%(b)d)}\n"),
    "weak keys that hold themselves": (
        "local notes = setmetatable({}, {__mode = 'k'})\n",
        "  local key = {}\n"
        "  notes[key] = {back = key, text = ('e'):rep(%(b)d)}\n"),
    "queue with a backlog that comes and goes": (
        "local queue, head, tail = {}, 1, 0\n",
        "  local wave = math.floor(10 * math.sin(n / 37)) + 10\n"
        "  for i = 1, wave do tail = tail + 1 queue[tail] = {n, i,"
        " ('q'):rep(%(s)d)} end\n"
        "  for i = 1, 10 + (tail - head > 150 and 14 or 0) do\n"
        "    if head <= tail then queue[head] = nil head = head + 1 end\n"
        "  end\n"),
    "pool of objects": (
        "local pool, busy = {}, {}\n",
        "  local o = table.remove(pool) or {data = {}}\n"
        "  for i = 1, 30 do o.data[i] = n + i end\n"
        "  busy[#busy + 1] = o\n"
        "  if #busy > %(n)d then for i = #busy, 1, -1 do\n"
        "    pool[#pool + 1] = busy[i] busy[i] = nil end end\n"),
    "memo of a finite function": (
        "local memo = {}\n",
        "  local arg = n * 7919 %% %(n)d\n"
        "  local r = memo[arg]\n"
        "  if not r then r = {arg, ('m'):rep(%(b)d)} memo[arg] = r end\n"),
    "interned words": (
        "local words = {}\n",
        "  for i = 1, 20 do\n"
        "    local w = 'word' .. (n * 31 + i * 17) %% %(n)d\n"
        "    words[w] = words[w] or w .. ('_'):rep(%(s)d)\n"
        "  end\n"),
    "workers parked": (
        "local workers = {}\n"
        "for i = 1, %(c)d do workers[i] = coroutine.wrap(function()\n"
        "  local job\n"
        "  while true do job = {coroutine.yield(job)} end end) workers[i]()"
        " end\n",
        "  workers[n %% %(c)d + 1](n, ('j'):rep(%(b)d))\n"),
    "listeners that come and go": (
        "local listeners, ids = {}, {}\n",
        "  local text = ('l'):rep(%(b)d)\n"
        "  listeners[n] = function() return text, n end\n"
        "  ids[#ids + 1] = n\n"
        "  if #ids > %(c)d then\n"
        "    local k = rnd(#ids)\n"
        "    listeners[ids[k]] = nil\n"
        "    ids[k] = ids[#ids] ids[#ids] = nil\n"
        "  end\n"),
    "long warm-up": (
        "local data = {}\n",
        "  if n <= rounds * %(w)d // 100 then\n"
        "    data[n] = {n, ('d'):rep(%(b)d)}\n"
        "  else local x = data[n %% #data + 1][1] end\n"),
    "index made anew": (
        "local index = {}\n",
        "  if n %% %(c)d == 1 then\n"
        "    local new = {}\n"
        "    for i = 1, %(n)d do new[i] = {i, 'entry ' .. i} end\n"
        "    index = new\n"
        "  end\n"),
    "log that is cut": (
        "local log = {}\n",
        "  log[#log + 1] = n .. ('l'):rep(%(b)d)\n"
        "  if #log >= %(n)d then\n"
        "    log = table.move(log, %(n)d // 2 + 1, #log, 1, {})\n"
        "  end\n"),
    "sessions": (
        "local sessions, count = {}, 0\n",
        "  local id = rnd(%(n)d)\n"
        "  if sessions[id] then sessions[id] = nil\n"
        "  else sessions[id] = {id = id, cart = {('s'):rep(%(b)d)}} end\n"),
    "requests in flight": (
        "local flight = {}\n",
        "  flight[n %% %(c)d] = {n = n, body = ('f'):rep(%(b)d),\n"
        "    reply = function() return n end}\n"),
    "objects with finalizers": (
        "local alive = 0\n"
        "local class = {__gc = function() alive = alive - 1 end}\n",
        "  for i = 1, 10 do alive = alive + 1\n"
        "    setmetatable({n, i, ('g'):rep(%(s)d)}, class) end\n"),
    "lines of text, flushed": (
        "local lines, flushed = {}, 0\n",
        "  lines[#lines + 1] = 'line ' .. n .. ('t'):rep(%(b)d)\n"
        "  if #lines > %(c)d then\n"
        "    flushed = flushed + #table.concat(lines)\n"
        "    for i = #lines, 1, -1 do lines[i] = nil end\n"
        "  end\n"),
    "counters": (
        "local counts = {}\n",
        "  for i = 1, 30 do\n"
        "    local key = (n * i) %% %(n)d\n"
        "    local c = counts[key] or {n = 0}\n"
        "    counts[key] = c\n"
        "    c.n = c.n + 1\n"
        "    c.last = {n, i}\n"
        "  end\n"),
    "retries": (
        "local waiting = {}\n",
        "  waiting[#waiting + 1] = {due = n + rnd(%(c)d),"
        " body = ('w'):rep(%(b)d)}\n"
        "  for i = #waiting, 1, -1 do\n"
        "    if waiting[i].due <= n then\n"
        "      waiting[i] = waiting[#waiting] waiting[#waiting] = nil end\n"
        "  end\n"),
    "errors that are caught": (
        "local lasterror\n",
        "  local ok, e = pcall(error, {n, debug.traceback('e' .. n),\n"
        "    ('e'):rep(%(b)d)})\n"
        "  lasterror = e\n"),
    "a tree that is filled and emptied": (
        "local root, size = {}, 0\n",
        "  local node, key = root, rnd(%(n)d)\n"
        "  for i = 1, 6 do\n"
        "    local k = key %% 3\n"
        "    key = key // 3\n"
        "    if not node[k] then node[k] = {} size = size + 1 end\n"
        "    node = node[k]\n"
        "  end\n"
        "  node.text = ('t'):rep(%(s)d)\n"
        "  if size > %(n)d then root, size = {}, 0 end\n"),
    "states, the last few kept": (
        "local state = {}\n",
        "  state = {before = state, n = n, text = ('u'):rep(%(b)d)}\n"
        "  local s = state\n"
        "  for i = 1, %(c)d do s = s and s.before end\n"
        "  if s then s.before = nil end\n"),
    "nothing but garbage": ("", ""),
}

# Each keeps bytes that it counts in `kept`; lines marked @leak made them, those
# marked @with the table that holds them: it grows as well, and may be told.
LEAKS = {
    "listeners never removed": (
        "local listeners = {}\n",
        "  local text = ('l'):rep(%(b)d) .. n --@leak\n"
        "  listeners[#listeners + 1] = function() return text end --@leak\n"
        "  kept = kept + #text\n"),
    "cache without a bound": (
        "local cache = {}\n",
        "  cache['key ' .. n] = {n, ('c'):rep(%(b)d) .. n} --@leak\n"
        "  kept = kept + %(b)d\n"),
    "the map of a cache by least recent use": (
        "local map, list = {}, {}\n",
        "  map[n] = ('r'):rep(%(b)d) .. n --@leak\n"
        "  list[#list + 1] = n\n"
        "  if #list > 50 then table.remove(list, 1) end\n"
        "  kept = kept + %(b)d\n"),
    "a window that forgets some": (
        "local first, last, window = 1, 0, {}\n",
        "  last = last + 1\n"
        "  window[last] = {at = n, text = ('w'):rep(%(b)d) .. n} --@leak\n"
        "  while last - first >= 40 do\n"
        "    if first %% 3 ~= 0 then window[first] = nil"
        " else kept = kept + %(b)d end\n"
        "    first = first + 1\n"
        "  end\n"),
    "an upvalue nobody sees": (
        "local check\n"
        "do\n"
        "  local seen = {}\n"
        "  function check(n)\n"
        "    seen[#seen + 1] = {n, ('u'):rep(%(b)d) .. n} --@leak\n"
        "    kept = kept + %(b)d\n"
        "    return #seen\n"
        "  end\n"
        "end\n",
        "  check(n)\n"),
    "a class for every object": (
        "local classes = {}\n",
        "  local class = {name = ('m'):rep(%(b)d) .. n} --@leak\n"
        "  class.__index = class --@leak\n"
        "  classes[n] = class --@leak\n"
        "  local object = setmetatable({n}, class)\n"
        "  kept = kept + %(b)d\n"),
    "references in the registry": (
        "local registry = debug.getregistry()\n",
        "  registry[#registry + 1] = {n, ('g'):rep(%(b)d) .. n} --@leak\n"
        "  kept = kept + %(b)d\n"),
    "numbers as weak keys": (
        "local sizes = setmetatable({}, {__mode = 'k'})\n",
        "  sizes[n] = ('k'):rep(%(b)d) .. n --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a pool nobody takes from": (
        "local pool = {}\n",
        "  local o = {n = n, data = ('p'):rep(%(b)d) .. n} --@leak\n"
        "  pool[#pool + 1] = o --@leak\n"
        "  kept = kept + %(b)d\n"),
    "coroutines parked for ever": (
        "local parked = {}\n",
        "  local co = coroutine.create(function(...) --@leak\n"
        "    local a, b, c = ...\n"
        "    coroutine.yield({a, b, c}) --@leak\n"
        "  end) --@leak\n"
        "  coroutine.resume(co, n, ('o'):rep(%(b)d) .. n, n) --@leak\n"
        "  parked[n] = co --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a queue that is too slow": (
        "local queue, head, tail = {}, 1, 0\n",
        "  for i = 1, 4 do tail = tail + 1\n"
        "    queue[tail] = {n, ('q'):rep(%(b)d) .. tail} end --@leak\n"
        "  for i = 1, 3 do queue[head] = nil head = head + 1 end\n"
        "  kept = kept + %(b)d\n"),
    "history": (
        "local present\n",
        "  present = {past = present, text = ('h'):rep(%(b)d) .. n} --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a text that grows": (
        "local text = ''\n",
        "  if n %% 4 == 0 then\n"
        "    text = text .. ('x'):rep(4 * %(b)d) --@leak\n"
        "    kept = kept + 4 * %(b)d\n"
        "  end\n"),
    "errors kept": (
        "local failures = {}\n",
        "  local ok, e = pcall(error, {n, --@leak\n"
        "    ('f'):rep(%(b)d) .. n}) --@leak\n"
        "  failures[#failures + 1] = e --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a memo of all arguments": (
        "local memo = {}\n"
        "local function slow(x)\n"
        "  local r = memo[x]\n"
        "  if r == nil then\n"
        "    r = {value = x * 2, steps = ('s'):rep(%(b)d) .. x} --@leak\n"
        "    memo[x] = r --@with\n"
        "    kept = kept + %(b)d\n"
        "  end\n"
        "  return r\n"
        "end\n",
        "  slow(n) slow(n) slow(n - n %% 2)\n"),
    "timers that are only marked": (
        "local timers = {}\n",
        "  timers[#timers + 1] = {due = n, run = ('t'):rep(%(b)d) .. n}"
        " --@leak\n"
        "  timers[#timers].cancelled = true --@leak\n"
        "  kept = kept + %(b)d\n"),
    "names": (
        "",
        "  _G['result_' .. n] = ('n'):rep(%(b)d) .. n --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a helper with two callers": (
        "local all = {}\n"
        "local function make(n, b)\n"
        "  return {n = n, text = ('a'):rep(b) .. n} --@leak\n"
        "end\n",
        "  local dropped = make(n, 100)\n"
        "  all[#all + 1] = make(n, %(b)d) --@leak\n"
        "  kept = kept + %(b)d\n"),
    "a local of a coroutine": (
        "local feed = coroutine.wrap(function(n)\n"
        "  local mine = {}\n"
        "  while true do\n"
        "    mine[#mine + 1] = {n, ('m'):rep(%(b)d) .. n} --@leak\n"
        "    kept = kept + %(b)d\n"
        "    n = coroutine.yield(#mine)\n"
        "  end\n"
        "end)\n",
        "  feed(n)\n"),
    "chunks": (
        "local chunks = {}\n",
        "  chunks[n] = load('local t = \"' .. ('z'):rep(%(b)d) .. n .. --@leak\n"
        "    '\" return function() return t end') --@leak\n"
        "  kept = kept + %(b)d\n"),
    "numbers in an array": (
        "local samples = {}\n",
        "  for i = 1, %(b)d // 16 + 8 do\n"
        "    samples[#samples + 1] = n * 0.25 --@leak\n"
        "  end\n"
        "  kept = kept + (%(b)d // 16 + 8) * 16\n"),
    "a set of numbers": (
        "local set = {}\n",
        "  for i = 1, %(b)d // 40 + 4 do\n"
        "    set[n + i / 1024] = true --@leak\n"
        "  end\n"
        "  kept = kept + (%(b)d // 40 + 4) * 40\n"),
    "one that begins late": (
        "local late = {}\n",
        "  if n > rounds * 2 // 5 then\n"
        "    late[#late + 1] = {n, ('y'):rep(2 * %(b)d) .. n} --@leak\n"
        "    kept = kept + 2 * %(b)d\n"
        "  end\n"),
    "now and then": (
        "local some = {}\n",
        "  if n %% 7 == 0 then\n"
        "    some[#some + 1] = {n, ('v'):rep(7 * %(b)d) .. n} --@leak\n"
        "    kept = kept + 7 * %(b)d\n"
        "  end\n"),
}

GARBAGE = (
    "  for i = 1, %d do local p = {x = i, y = n} p.x = p.y end\n",
    "  local parts = {} for i = 1, %d do parts[i] = i .. ':' .. n end\n"
    "  local joined = table.concat(parts, ',')\n",
    "  for i = 1, %d do local f = function() return n + i end f() end\n",
    "  local sum = 0 for a, b in ('k=1,'):rep(%d):gmatch('(%%w)=(%%w)') do"
    " sum = sum + #a + b end\n",
    "  local list = {} for i = 1, %d do list[i] = {key = (i * n) %% 17} end\n"
    "  table.sort(list, function(a, b) return a.key < b.key end)\n",
    "  for i = 1, %d do local s = string.format('%%d/%%s', i, n) end\n",
)

BEFORE = (
    "",
    "local base = {} for i = 1, 3000 do base[i] = {i, 'base ' .. i} end\n",
    "local base = {} for i = 1, 20000 do base[i] = {id = i} end\n",
    "local base = ('b'):rep(2000000)\n",
)

DRIVERS = (
    "for n = 1, rounds do step(n) %(collect)s end\n",
    "for n = 1, rounds do assert(pcall(step, n)) %(collect)s end\n",
    "local runner = coroutine.wrap(function()\n"
    "  for n = 1, rounds do step(n) coroutine.yield() end end)\n"
    "for n = 1, rounds do runner() %(collect)s end\n",
    "local app = setmetatable({n = 0}, {__index = {tick = function(self)\n"
    "  self.n = self.n + 1 return step(self.n) end}})\n"
    "while app.n < rounds do app:tick() local n = app.n %(collect)s end\n",
)

# What is done to the collector at first, and after each round.
COLLECTORS = (
    ("collectgarbage('incremental')", ""),
    ("collectgarbage('generational')", ""),
    ("collectgarbage('incremental') collectgarbage('setpause', 130)", ""),
    ("collectgarbage('incremental', 250, 200)", ""),
    ("collectgarbage('generational', 40, 60)", ""),
    ("", "if n %% %d == 0 then collectgarbage() end"),
    ("collectgarbage('stop')", "if n %% %d == 0 then collectgarbage() end"),
    ("collectgarbage('generational')",
     "if n %% %d == 0 then collectgarbage() end"),
    ("collectgarbage('incremental')", "collectgarbage('step')"),
    ("collectgarbage('incremental')",
     "if n %% %d == 0 then collectgarbage('step', 200) end"),
)


# Outside those that run by default; each has found a fault once.
FOUND = (946, 952, 1001, 3193, 3293, 3337, 3385, 5109, 5132, 5306, 5402, 9069,
         12000, 12073, 12121, 12160, 12169)

# Whole collections behind the first quarter of the work that it takes to judge:
# four, and one more that ends the last of them.
WHOLE_LEAST = 5
LONGER = 4  # times the rounds, where there were too few


class Program:
    def __init__(self, seed, longer=1):
        rng = random.Random("tidemark %d" % seed)
        self.leaks = seed % 2 == 1
        shapes = LEAKS if self.leaks else SOUND
        names = list(shapes)
        self.name = names[seed // 2 % len(names)]
        sizes = {"b": rng.randrange(300, 1500), "s": rng.randrange(10, 80),
                 "n": rng.randrange(60, 300), "c": rng.randrange(8, 60),
                 "w": rng.randrange(25, 55)}
        self.seed = seed
        self.is_unknown = False
        if self.name == "a window that forgets some":
            sizes["b"] = 3 * (sizes["b"] + 700)  # it forgets one of three
        garbage = "  do\n" + "".join(
            rng.choice(GARBAGE) % rng.randrange(10, 60)
            for _ in range(rng.randrange(1, 4))) + "  end\n"
        first, after = rng.choice(COLLECTORS)
        if "'step')" in after:
            sizes["b"] += 1200  # some have a cycle for every round
        if "%d" in after:
            every = rng.randrange(5, 60)
            after = after % every
            sizes["b"] += 1200 if every < 12 else 0
        self.collector = (first + " " + after).strip()
        self.rounds = rng.randrange(2000, 4000) * longer
        setup, body = (part % sizes for part in shapes[self.name])
        halves = [body, garbage]
        rng.shuffle(halves)
        self.text = (
            first + "\nlocal rounds, kept = %d, 0\n" % self.rounds +
            "local seed = %d\n" % rng.randrange(1, 2 ** 31) +
            "local function rnd(n)\n"
            "  seed = seed * 1103515245 + 12345 & 0x7fffffff\n"
            "  return seed // 64 %% n + 1\nend\n".replace("%%", "%") +
            rng.choice(BEFORE) + setup +
            "local function step(n)\n" + "".join(halves) + "end\n" +
            rng.choice(DRIVERS) % {"collect": after} + "print(kept)\n")

    def marked(self, mark="--@leak"):
        return [n for n, line in enumerate(self.text.split("\n"), 1)
                if mark in line]


def run(options, folder, program):
    """What the program kept, and its report."""
    path = os.path.join(folder, "prog.lua")
    profile = os.path.join(folder, "x.tide")
    with open(path, "w", encoding="utf-8") as file:
        file.write(program.text)
    ran = subprocess.run([options.tidemark, "run", "--report", "none", "-o",
                          profile, "--"] + options.interpreter + [path],
                         check=False, capture_output=True, encoding="utf-8",
                         timeout=300)
    if ran.returncode != 0:
        raise RuntimeError(ran.stderr)
    got = subprocess.run([options.tidemark, "report", "--json", "--top", "0",
                          profile], check=True, capture_output=True,
                         encoding="utf-8", timeout=300)
    return int(ran.stdout), json.loads(got.stdout)


def whole_cycles(report):
    """How many collections that are not minor came behind a quarter of all
    that was allocated."""
    at = count = 0
    for cycle in report["gc"]["cycles"]:
        at += cycle["alloc_bytes"]
        if at * 4 >= report["totals"]["alloc_bytes"]:
            count += (1 + cycle["joined"]) * (cycle["collection"] != "minor")
    return count


def leaks_of(report):
    return {f["line"]: f for f in report["findings"] if f["kind"] == "leak"}


def unknown_faults(options, folder, program, report):
    """Yields what is wrong with the verdict that there were too few."""
    whole = whole_cycles(report)
    if whole >= WHOLE_LEAST:
        yield "%d whole collections are not too few" % whole
    longer = Program(program.seed, LONGER)
    _, report = run(options, folder, longer)
    if not set(longer.marked()) & set(leaks_of(report)):
        yield "missed in a longer run with %d whole collections: %s" % (
            whole_cycles(report), json.dumps(report["findings"]))


def faults(options, folder, program):
    """Yields what is wrong with the findings of a program."""
    kept, report = run(options, folder, program)
    leaks = leaks_of(report)
    cycles = report["gc"]["Cycles"]
    marked = program.marked()
    for line in leaks:
        if line not in marked + program.marked("--@with"):
            yield "a false alarm: " + json.dumps(leaks[line])
    if not program.leaks:
        return
    if kept / cycles < 1024:
        yield "no test: %d bytes kept in %d cycles" % (kept, cycles)
    elif any("too few whole collections" in f["text"]
             for f in report["findings"]) and not leaks:
        program.is_unknown = True
        yield from unknown_faults(options, folder, program, report)
    elif not set(marked) & set(leaks):
        yield "missed, %d bytes a cycle, %d cycles, lines %s: %s" % (
            kept / cycles, cycles, marked, json.dumps(report["findings"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--seeds", type=int, default=72)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--keep", default="", help="for programs that fail")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    seeds = list(range(options.first, options.first + options.seeds))
    seeds += [seed for seed in FOUND if seed not in seeds]
    bad = unknown = 0
    print("1..%d" % len(seeds))
    for k, seed in enumerate(seeds, 1):
        program = Program(seed)
        with tempfile.TemporaryDirectory() as folder:
            found = list(faults(options, folder, program))
        bad += bool(found)
        unknown += program.is_unknown
        print("%sok %d - seed %d, %s: %s (%s)%s" %
              ("not " if found else "", k, seed,
               "leak" if program.leaks else "sound", program.name,
               program.collector,
               "; it says: too few" if program.is_unknown else ""))
        for fault in found:
            print("# " + fault[:1500])
        sys.stdout.flush()
        if found and options.keep:
            name = os.path.join(options.keep, "%d.lua" % seed)
            with open(name, "w", encoding="utf-8") as file:
                file.write(program.text)
    print("# %d had too few collections at first" % unknown)
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
