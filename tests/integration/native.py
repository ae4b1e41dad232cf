#!/usr/bin/env python3
"""C frames: each C function has the bytes that it asked for, whatever is
between it and Lua.  Prints TAP.

usage: native.py --tidemark FILE [--direct] --modules DIR --plugins A B
                 [--bare FILE] [--library FILE] -- LUA

--direct   LUA is a host that needs no preload: TIDEMARK alone.
--modules  has cmod.so (with debug information), cmod-bare.so (without).
"""
import argparse
import ctypes
import json
import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile

import hosts

HEAD = 25  # of a string that is long: its header and the NUL

# Calls of the module, and what each of its functions then has of its own.
PROGRAM = """package.cpath = "./?.so"
local cmod = require "cmod"
local n = 3
for i = 1, n do cmod.deep() end
for i = 1, n do cmod.tail() end
local function back() cmod.deep() end
for i = 1, n do cmod.call(back) end
for i = 1, n do assert(not pcall(cmod.throw)) cmod.deep() end
for i = 1, n do cmod.load() end
for i = 1, n do cmod.recurse(i * 10) end
for i = 1, n do cmod.recurse(80 + i * 20) end
for i = 1, n do cmod.signal() end
local co = coroutine.wrap(function() for i = 1, n do cmod.deep() end end)
co()
"""
WANTED = {
    "deep_a": (12, 1000), "deep_b": (12, 2000), "f_deep": (12, 500),
    "tail_target": (3, 3000), "call_back": (3, 700), "throw_deeper": (3, 4000),
    "read_piece": (3, 600), "even": (6, 900), "on_signal": (3, 800),
}
BACK = "function <program.lua:6>"  # called by C, it has no name
WALK_LEVELS = 12
# Walks of C functions: what they call back makes a string in Lua (m), is a C
# function (d), or walks on: by itself (n), in a pcall (q), in a coroutine that has yielded before (k), in a
# coroutine that C has resumed (R).  Each depth has functions of its own, and no
# recursion folds.
MADE = 3000  # bytes of what Lua functions make
WALKS = """package.cpath = "./?.so"
local cmod = require "cmod"
local back, half = {}, ("x"):rep(1500)
back[("m"):byte()] = function() made = half .. half end
back[("d"):byte()] = cmod.deep
cmod.deep() -- it has a name
local function name(what, depth) return what:byte() + 256 * depth end
for depth = 1, %d do
  local text = ([[local back, cmod, depth = ...
    return function() cmod.walk_on(back, depth) end, function()
      pcall(cmod.walk_on, back, depth) cmod.nested(depth - 1)
    end, function()
      local co = coroutine.wrap(function()
        coroutine.yield() cmod.walk_on(back, depth)
      end)
      co() co()
    end, function() cmod.walk_on(back, depth) end
  ]])
  local n, q, k, r = load(text, "=depth" .. depth)(back, cmod, depth)
  back[name("n", depth)], back[name("q", depth)] = n, q
  back[name("k", depth)], back[name("R", depth)] = k, r
end
local function walk(script) cmod.walk(back, script) end
for _, script in ipairs{%s} do
  pcall(walk, script)
  cmod.walk(back, "r")
end
"""
DEPTHS = 4
# What the functions above are called in reports.
WALK_CALLS = {
    "n": ["function <depth%d:2>"], "q": ["function <depth%d:2>", "pcall"],
    "k": ["function <depth%d:4>", "coroutine.wrap", "function <depth%d:5>"],
    "R": ["resume_walk", "function <depth%d:9>"],
}
LUA_NAMES = {"f_deep": "deep", "f_tail": "tail", "f_call": "call"}


def run(command, folder, **environment):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True,
                              text=True, errors="replace", timeout=300,
                              env=dict(os.environ, **environment))
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "took too long")


class Native:
    def __init__(self, options, folder):
        self.tap = hosts.Tap()
        self.options, self.folder = options, folder
        self.write("program.lua", PROGRAM)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def module(self, source, name="cmod.so"):
        shutil.copy(os.path.join(self.options.modules, source),
                    self.path(name))

    def ok(self, is_ok, name, why=""):
        self.tap.add(is_ok, name, why)

    def run(self, *arguments, host=None, native="on", profile="x.tide"):
        """Runs a program under the profiler."""
        interpreter = [host] if host else self.options.interpreter
        if self.options.direct and host is None:
            return run([*interpreter, *arguments], self.folder,
                       TIDEMARK="native=%s,out=%s" % (native, profile))
        return run([self.options.tidemark, "run", "--report", "none", "-o",
                    profile, "--set", "native=" + native, "--", *interpreter,
                    *arguments], self.folder)

    def report(self, *arguments, profile="x.tide"):
        got = run([self.options.tidemark, "report", "--json", "--top",
                         "0", *arguments, profile], self.folder)
        if got.returncode != 0:
            raise RuntimeError(got.stderr)
        return json.loads(got.stdout)

    def export(self, form):
        return run([self.options.tidemark, "export", "--to", form,
                    "x.tide"], self.folder).stdout


def own_bytes(report, name):
    return sum(f["self_bytes"] for f in report["functions"]
               if f["name"] == name and f["what"] == "C")


def frames(stack):
    return [f["function"] for f in stack["frames"]]


def paths_to(report, name):
    """The stacks that end in a function, as lists of names."""
    return [frames(s) for s in report["stacks"]
            if s["frames"] and frames(s)[-1] == name and s["alloc_bytes"] > 0]


def check_bytes(n, report, what):
    # push_text is where the strings are made: its callers are told apart
    got = {}
    for stack in report["stacks"]:
        names = frames(stack)
        if names and names[-1] == "push_text":
            caller = names[-2]
            got[caller] = got.get(caller, 0) + stack["alloc_bytes"]
    for name, (times, size) in WANTED.items():
        shown = LUA_NAMES.get(name, name)
        n.ok(got.get(shown) == times * (size + HEAD),
             "%s: %s has its %d strings of %d bytes" % (what, name, times, size),
             (got.get(shown), sorted(got)))
    n.ok(sum(got.values()) == sum(t * (s + HEAD) for t, s in WANTED.values()),
         "%s: and nobody has any other" % what, got)
    n.ok(own_bytes(report, "push_text") == sum(got.values()),
         "%s: the rows of functions say the same" % what)


def check_order(n, report):
    paths = paths_to(report, "push_text")
    nested = [p for p in paths if "call" in p and "deep_a" in p]
    n.ok(nested != [] and all(
        [x for x in p if x in ("call", BACK, "deep", "deep_b", "deep_a")] ==
        ["call", BACK, "deep", "deep_b", "deep_a"] for p in nested),
        "C that calls Lua that calls C is in that order", nested)
    n.ok(any(p[-3:] == ["call", "call_back", "push_text"] for p in paths),
         "what is made after the call back is below its caller", paths)
    n.ok(any(p[-3:] == ["tail", "tail_target", "push_text"] for p in paths),
         "a function that was left by a jump has what it jumped to", paths)
    n.ok(any(p[-4:] == ["load", "load_pieces", "read_piece", "push_text"]
             for p in paths),
         "a reader of lua_load is below who called that", paths)
    signal = [p for p in paths if "on_signal" in p]
    n.ok(signal != [] and all(p.index("signal") < p.index("on_signal")
                              for p in signal),
         "a signal's handler is below what it interrupted", signal)
    n.ok(all(not name.startswith(("lua_", "luaM_", "luaD_", "luaV_"))
             for p in paths for name in p), "no frame is one of Lua's", paths)
    deeper = [p for p in paths if "[deeper]" in p]
    n.ok(deeper != [] and all(p[p.index("[deeper]") - 1] == "recurse"
                              for p in deeper),
         "a path that is cut says so", deeper[:1])
    depth = max(len(p) for p in paths if "recurse" in p)
    n.ok(depth < 20, "recursion of C folds", depth)


def check_lines(n, report):
    source = [f for s in report["stacks"] for f in s["frames"]
              if f["function"] == "deep_a"]
    n.ok(source != [] and all(f["source"].endswith("cmod.c") and f["line"] > 0
                              for f in source),
         "with debug information there are lines of C", source[:1])
    lines = [r for r in report["lines"] if r["source"].endswith("cmod.c")]
    n.ok(lines == [], "lines of the report stay Lua's", lines)
    total = report["totals"]
    n.ok(sum(r["alloc_bytes"] for r in report["lines"]) +
         total["unattributed_bytes"] == total["alloc_bytes"],
         "lines and what has none add up")


def check_internals(n):
    report = n.report("--internals")
    names = {f["function"] for s in report["stacks"] for f in s["frames"]}
    n.ok("lua_pushlstring" in names or any(
        name.startswith("liblua") or name.startswith("lua5.4+")
        for name in names), "--internals shows Lua's own frames", sorted(names))
    n.ok(sum(s["alloc_bytes"] for s in report["stacks"]) ==
         sum(s["alloc_bytes"] for s in n.report()["stacks"]) ==
         report["totals"]["alloc_bytes"],
         "and no byte is lost or made by it: stacks add up to the totals")


def check_module(n):
    for source, what in (("cmod.so", "debug information"),
                         ("cmod-bare.so", "no debug information")):
        n.module(source)
        got = n.run("program.lua")
        n.ok(got.returncode == 0, "%s: the program runs" % what, got)
        report = n.report()
        check_bytes(n, report, what)
        if source == "cmod.so":
            check_order(n, report)
            check_lines(n, report)
            check_internals(n)
        checked = run([n.options.tidemark, "check", "x.tide"], n.folder)
        n.ok(checked.returncode == 0, "%s: the books balance" % what, checked)


class Walk:
    """A random script for cmod.walk, and what each of its paths makes."""

    def __init__(self, rng, steps, wanted):
        self.script, self.wanted = [], wanted
        self.path, self.starts = ["walk"], [1]  # of each walk that is open
        self.calls = []  # by which these were called
        for _ in range(rng.randrange(5, 80)):
            if self.path:
                self.step(rng.choice(steps))
        while self.path:
            self.step("r")

    def make(self, size, *more):
        key = (*self.path, *more)
        self.wanted[key] = self.wanted.get(key, 0) + size + HEAD

    def leave(self):
        """The innermost walk ends; which callback it was called by."""
        start = self.starts.pop()
        self.path = self.path[:start - 1]
        what = self.calls.pop() if self.calls else ""
        if what:
            self.path = self.path[:-len(WALK_CALLS[what])]
        return what

    def step(self, what):
        if what in "012":
            level = len(self.path) - self.starts[-1] + 1
            if level > WALK_LEVELS:
                return
            self.path.append("walk_%d_%s" % (level, what))
        elif what == "p":
            self.make(1000, "push_text")
        elif what == "d":
            self.make(1000, "deep", "deep_b", "deep_a", "push_text")
            self.make(2000, "deep", "deep_b", "push_text")
            self.make(500, "deep", "push_text")
        elif what == "m":
            self.make(MADE, "function <walks.lua:4>")
        elif what == "r":
            if len(self.path) > self.starts[-1]:
                self.path.pop()
            else:
                self.leave()
        elif what == "e":  # up to the innermost pcall
            while self.starts and self.leave() != "q":
                pass
            if not self.starts:
                self.path = []
        elif len(self.calls) == DEPTHS:
            return
        else:
            self.calls.append(what)
            depth = len(self.calls)
            self.path += [name % depth if "%" in name else name
                          for name in WALK_CALLS[what]]
            self.path.append("walk_on")
            self.starts.append(len(self.path))
        self.script.append(what)


def check_walks(n):
    """Random walks of C functions, through Lua and back: what each path has is
    known beforehand."""
    n.module("cmod.so")
    leaves = (["push_text"], ["function <walks.lua:4>"])
    steps = "00112200ppppppmmmmmddnqkrrrre"
    if not n.options.direct:  # whom C resumes is told by the preload library
        steps += "R"
    for seed in range(3):
        rng, wanted = random.Random(seed), {}
        scripts = ["".join(Walk(rng, steps, wanted).script)
                   for _ in range(200)]
        n.write("walks.lua", WALKS % (DEPTHS, ", ".join(
            '"%s"' % s for s in scripts)))
        ran = n.run("walks.lua")
        report, got = n.report(), {}
        for stack in report["stacks"]:
            names = frames(stack)
            if stack["kind"] != "string" or names[-1:] not in leaves:
                continue
            if "walk" not in names:
                continue
            n_own = names[::-1].index("walk") + 1
            key = tuple(names[-n_own:])
            got[key] = got.get(key, 0) + stack["alloc_bytes"]
        wrong = [(key, got.get(key), wanted.get(key))
                 for key in {*got, *wanted} if got.get(key) != wanted.get(key)]
        nested = sum("walk_on" in key for key in wanted)
        n.ok(ran.returncode == 0 and wrong == [] and nested > 300,
             "walk %d: %d paths of C have what they made, %d through Lua" %
             (seed, len(wanted), nested), (ran, wrong[:5], len(wrong)))


YIELDS = """package.cpath = "./?.so"
local cmod = require "cmod"
local half = ("x"):rep(1500)
local function make() made = half .. half end
local function deep(n) if n > 0 then deep(n - 1) n = n + 1 end end
local function seen()
  made = half .. half
  coroutine.yield()
  made = half .. half
end
local function unseen() coroutine.yield() made = half .. half end
local function run(f) deep(20) cmod.callk(f, make) end
local co = coroutine.wrap(run) co(seen) co()
co = coroutine.wrap(run) co(unseen) co()
"""


def check_yields(n):
    """A C function that is left by a yield has no C stack any more."""
    n.module("cmod.so")
    n.write("yields.lua", YIELDS)
    got = n.run("yields.lua")
    made = {}
    for stack in n.report()["stacks"]:
        names = frames(stack)
        if "callk" in names and stack["kind"] == "string":
            key = tuple(names[names.index("callk"):])
            made[key] = made.get(key, 0) + stack["alloc_bytes"]
    n.ok(got.returncode == 0 and made == {
        ("callk", "call_yielding", "function <yields.lua:6>"): 2 * (MADE + HEAD),
        ("callk", "function <yields.lua:11>"): MADE + HEAD,
        ("callk", "go_on", "push_text"): 2 * (650 + HEAD),
        ("callk", "go_on", "call_made", "function <yields.lua:4>"):
            2 * (MADE + HEAD)},
        "what a yield has left: its calls, and its continuation's",
        (got, made))


REGIONS = """package.cpath = "./?.so;" .. arg[1]
local cmod, tidemark = require "cmod", require "tidemark"
local half = ("x"):rep(1500)
local function inside()
  tidemark.push("inner")
  made = half .. half
  tidemark.pop()
  made = half .. half
end
tidemark.push("outer")
cmod.call(inside)
tidemark.pop()
cmod.call(inside)
"""


def check_regions(n):
    """A region is between the C frames and the function that has it."""
    if n.options.direct:
        return
    n.module("cmod.so")
    n.write("regions.lua", REGIONS)
    got = n.run("regions.lua", os.path.join(os.path.dirname(
        os.path.abspath(n.options.tidemark)), "?.so"))
    made = {}
    for stack in n.report()["stacks"]:
        names = frames(stack)
        if "call_back" in names and names[-1].startswith("function"):
            key = tuple(names[names.index("call"):])
            made[key] = made.get(key, 0) + stack["alloc_bytes"]
    inside = "function <regions.lua:4>"
    n.ok(got.returncode == 0 and made == {
        ("call", "call_back", "[region] inner", inside): 2 * (MADE + HEAD),
        ("call", "call_back", inside): 2 * (MADE + HEAD)},
        "a region is between a function and the C frames that called it",
        (got, made))


def strip(n, *arguments):
    return subprocess.run(arguments, cwd=n.folder, capture_output=True,
                          check=False).returncode == 0


def notes(report):
    return " ".join(f["text"] for f in report["findings"]
                    if f["kind"] == "note")


def check_stripped(n):
    """Static functions of a stripped module, with and without its debug file,
    and a report where the module is not there, or is another one."""
    if not shutil.which("objcopy"):
        n.ok(True, "a stripped module # SKIP no objcopy")
        return
    n.module("cmod.so")
    strip(n, "objcopy", "--only-keep-debug", "cmod.so", "kept.dbg")
    strip(n, "strip", "--strip-all", "cmod.so")
    n.run("program.lua")
    report = n.report()
    sizes = [f["self_bytes"] for f in report["functions"]
             if f["name"].startswith("cmod.so+0x")]
    wanted = sum(t * (s + HEAD) for t, s in WANTED.values())
    n.ok(wanted in sizes, "without symbols it is object and offset", sizes)
    n.ok("cmod.so: without symbols" in notes(report),
         "and the report says so", notes(report))
    strip(n, "objcopy", "--add-gnu-debuglink=kept.dbg", "cmod.so")
    check_bytes(n, n.report(), "a separate debug file")
    os.rename(n.path("cmod.so"), n.path("away.so"))
    report = n.report()
    n.ok("cmod.so: not on this machine" in notes(report) and
         wanted in [f["self_bytes"] for f in report["functions"]],
         "a module that is not here is said to be missing", notes(report))
    n.module("cmod-bare.so")
    report = n.report()
    n.ok("cmod.so: not the build that ran" in notes(report),
         "another build of it gives no names", notes(report))
    text = run([n.options.tidemark, "report", "x.tide"], n.folder)
    n.ok("not the build that ran" in text.stdout, "also in the text", text)


def check_servers(n):
    """A server of debug information is asked only when the user says so."""
    n.module("cmod.so")
    strip(n, "strip", "--strip-all", "cmod.so")
    n.run("program.lua")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)  # what was asked is there: the report has ended
        for asks in (False, True):
            got = run([n.options.tidemark, "report", "x.tide",
                       *(["--debuginfod"] if asks else [])], n.folder,
                      DEBUGINFOD_URLS="http://127.0.0.1:%d" %
                      server.getsockname()[1], DEBUGINFOD_TIMEOUT="1",
                      DEBUGINFOD_CACHE_PATH=n.path("asked"), HOME=n.folder)
            try:
                server.accept()[0].close()
                was_asked = True
            except TimeoutError:
                was_asked = False
            name = "with" if asks else "without"
            if asks and not was_asked and not has_debuginfod():
                n.ok(True, "servers # SKIP no libdebuginfod")
                continue
            n.ok(got.returncode == 0 and was_asked == asks,
                 "%s --debuginfod: asked: %s" % (name, was_asked), got)


def has_debuginfod():
    try:
        ctypes.CDLL("libdebuginfod.so.1")
        return True
    except OSError:
        return False


def check_fork(n):
    n.module("cmod.so")
    n.write("fork.lua", """package.cpath = "./?.so"
local cmod = require "cmod"
cmod.deep()
local is_parent, status = cmod.fork()
assert(status == 0)
cmod.deep()
""")
    for old in os.listdir(n.folder):
        if old.endswith(".tide"):
            os.remove(n.path(old))
    got = n.run("fork.lua", profile="f.%p.tide")
    n.ok(got.returncode == 0, "a process that forks inside C code ends well",
         got)
    seen = []
    for name in sorted(os.listdir(n.folder)):
        if not name.endswith(".tide"):
            continue
        report = n.report(profile=name)
        seen.append(own_bytes(report, "push_text"))
        checked = run([n.options.tidemark, "check", name], n.folder)
        n.ok(checked.returncode == 0, "its books balance", checked)
    deep = 1000 + 2000 + 500 + 3 * HEAD
    parent = 2 * deep + 1000 + HEAD
    child = deep + 1000 + 2000 + 2 * HEAD
    n.ok(sorted(seen) == sorted([parent, child]),
         "parent and child have what each asked for", (seen, parent, child))


def check_plugins(n):
    """One library after the other, perhaps at the same addresses."""
    n.module("cmod.so")
    n.write("plugins.lua", """package.cpath = "./?.so"
local cmod = require "cmod"
local at = {}
for i = 1, 20 do
  at[i] = cmod.plugin(arg[1 + i % 2])
end
print(at[1] == at[2] and "same" or "apart")
""")
    got = n.run("plugins.lua", *n.options.plugins)
    n.ok(got.returncode == 0, "libraries that come and go", got)
    report = n.report()
    n.ok(own_bytes(report, "work_a") == 10 * (111 + HEAD) and
         own_bytes(report, "work_b") == 10 * (2222 + HEAD),
         "each has its own bytes (addresses: %s)" % got.stdout.strip(),
         [(f["name"], f["self_bytes"]) for f in report["functions"]
          if "work" in f["name"]])


def check_off(n):
    n.module("cmod.so")
    n.run("program.lua", native="off")
    report = n.report()
    n.ok(own_bytes(report, "push_text") == 0 and
         own_bytes(report, "deep") == 12 * (3500 + 3 * HEAD),
         "without native=on all is the C function's")
    unknown = [f["name"] for f in report["functions"] if "<0x" in f["name"]]
    n.ok(unknown == [], "C functions without names are object and offset",
         unknown)
    n.run("program.lua", native="host")
    report = n.report()
    n.ok(own_bytes(report, "push_text") == 0 and
         own_bytes(report, "deep") == 12 * (3500 + 3 * HEAD),
         "with native=host as well")


def check_host_stacks(n, report, native):
    """What has no Lua line is in the stacks, in every form."""
    total = report["totals"]["alloc_bytes"]
    filled = 10 * (5000 + HEAD)
    stacks = [s for s in report["stacks"] if "fill" in frames(s)]
    n.ok(sum(s["alloc_bytes"] for s in stacks
             if s["kind"] == "string") == filled and
         all(frames(s)[0] == "main" or "main" in frames(s) for s in stacks) and
         sum(s["alloc_bytes"] for s in report["stacks"]) == total,
         "native=%s: JSON has the host's stacks, all add up" % native, stacks)
    folded = [line.rsplit(" ", 1) for line in n.export("folded").splitlines()]
    n.ok(sum(int(size) for _, size in folded) == total,
         "native=%s: folded stacks add up" % native)
    scope = json.loads(n.export("speedscope"))
    names = [f["name"] for f in scope["shared"]["frames"]]
    profile = scope["profiles"][0]
    of_fill = sum(weight for sample, weight in
                  zip(profile["samples"], profile["weights"])
                  if any(names[i].startswith("fill") for i in sample))
    n.ok(sum(profile["weights"]) == total and of_fill >= filled,
         "native=%s: speedscope's add up" % native, (of_fill, names))
    grind = n.export("callgrind")
    n.ok("fn=fill" in grind.splitlines() and
         sum(own_of_callgrind(grind)) == total,
         "native=%s: callgrind's own costs add up" % native)


def own_of_callgrind(text):
    """First column of own costs: not those of the line after calls=."""
    is_call = False
    for line in text.splitlines():
        if line.startswith("calls="):
            is_call = True
        elif line[:1].isdigit():
            if not is_call:
                yield int(line.split()[1])
            is_call = False


def check_bare(n):
    """A host that asks with no Lua function running."""
    if not n.options.bare:
        return
    n.module("cmod.so")
    for native in ("host", "on"):
        got = n.run("program.lua", host=n.options.bare, native=native)
        report = n.report()
        n.ok(got.returncode == 0 and
             own_bytes(report, "fill") == 10 * (5000 + HEAD),
             "native=%s: a host's function has what it filled" % native,
             [(f["name"], f["self_bytes"]) for f in report["functions"]][:20])
        folded = n.export("folded")
        path = [line for line in folded.splitlines() if "fill " in line]
        order = ["main ", "set_up ", "fill "]
        places = [path[0].find(name) for name in order] if path else []
        n.ok(len(places) == 3 and -1 not in places and
             places == sorted(places),
             "native=%s: below main and what called it" % native, path)
        check_host_stacks(n, report, native)
        paths = [frames(s) for s in report["stacks"] if "deep" in frames(s)]
        n.ok(paths != [] and all(
            ("main" in p[:p.index("deep")]) == (native == "on")
            for p in paths), "native=%s: Lua that the host has called is below "
            "its frames only with on" % native, paths[:3])
        made = own_bytes(report, "push_text")
        n.ok((made > 0) == (native == "on"),
             "native=%s: the module has frames only with on" % native, made)


def check_debian(n):
    """Modules of Debian, stripped: their bytes are somewhere in them."""
    programs = {
        "lpeg": """local lpeg = require "lpeg"
            local p = lpeg.Ct(lpeg.C(lpeg.R("az")^1 * lpeg.P(" ")^0)^0)
            for i = 1, 200 do p:match(("word "):rep(20)) end""",
        "cjson": """local cjson = require "cjson"
            local text = cjson.encode{a = {1, 2, {b = "c"}}, d = "e"}
            for i = 1, 200 do cjson.decode(text) end""",
        "lfs": """local lfs = require "lfs"
            for i = 1, 200 do lfs.attributes(".") end""",
    }
    for name, text in programs.items():
        n.write("m.lua", text)
        got = n.run("m.lua")
        if got.returncode != 0 and "module '%s' not found" % name in got.stderr:
            n.ok(True, "%s # SKIP not installed" % name)
            continue
        report = n.report()
        own = sum(f["self_bytes"] for f in report["functions"]
                  if f["source"].startswith(name + ".so"))
        below = [s for s in report["stacks"] if any(
            f["source"].startswith(name + ".so") for f in s["frames"])]
        n.ok(got.returncode == 0 and own > 200 * 100 and
             own >= 0.9 * sum(s["alloc_bytes"] for s in below),
             "%s: what it asked for is its own" % name, (got, own))
        native = [s for s in below if len(
            [f for f in s["frames"]
             if f["source"].startswith(name + ".so")]) > 1]
        n.ok(native != [], "%s: it has frames below the function that Lua "
             "called" % name, below[:2])


def check_valgrind(n):
    if n.options.library == "" or not shutil.which("valgrind"):
        return
    n.module("cmod.so")
    got = run(["valgrind", "--quiet", "--error-exitcode=99",
                     *n.options.interpreter, "program.lua"], n.folder,
                    LD_PRELOAD=n.options.library,
                    TIDEMARK="native=on,out=v.tide")
    n.ok(got.returncode == 0 and "==" not in got.stderr,
         "valgrind sees no error", got)
    check_bytes(n, n.report(profile="v.tide"), "valgrind")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--modules", required=True)
    parser.add_argument("--plugins", nargs=2, required=True)
    parser.add_argument("--bare", default="")
    parser.add_argument("--library", default="")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    options.plugins = [os.path.abspath(p) for p in options.plugins]
    if options.bare:
        options.bare = os.path.abspath(options.bare)
    if os.path.exists(options.interpreter[0]):
        options.interpreter[0] = os.path.abspath(options.interpreter[0])
    options.modules = os.path.abspath(options.modules)
    folder = tempfile.mkdtemp(prefix="tidemark-native.")
    try:
        n = Native(options, folder)
        check_module(n)
        check_walks(n)
        check_yields(n)
        check_regions(n)
        check_stripped(n)
        check_servers(n)
        check_fork(n)
        check_plugins(n)
        check_off(n)
        check_bare(n)
        check_debian(n)
        check_valgrind(n)
        return n.tap.end()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
