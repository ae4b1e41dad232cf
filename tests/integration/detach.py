#!/usr/bin/env python3
"""attach() and detach() from Lua, any number of times: what is made in between
is on its line or "not recorded", what is freed is taken from where it was, and
the books balance.  Prints TAP.

usage: detach.py --tidemark FILE --module FILE -- LUA
"""
import argparse
import os
import sys
import tempfile

import hosts

N_TIMES = 50

PROGRAM = """local tide = require "tidemark"
local kept, lost = {}, {}
local function balance(what)
  collectgarbage()
  collectgarbage("stop")
  local s = tide.stats()
  local count = collectgarbage("count") * 1024
  -- the table of stats itself was made after they were taken
  local sum = s.live_bytes - s.buffer_bytes + s.before_bytes
  assert(math.abs(count - sum) < 4096, what .. ": " .. count .. " " .. sum)
  assert(s.live_bytes == s.alloc_bytes - s.freed_bytes, what)
  collectgarbage("restart")
end
for time = 1, %d do
  assert(tide.detach())
  for i = 1, 30 do lost[#lost + 1] = {} end
  assert(tide.detach())
  balance("detached")
  assert(tide.attach())
  for i = 1, 20 do kept[#kept + 1] = {} end
  local co = coroutine.wrap(function()
    for i = 1, 10 do kept[#kept + 1] = {} end
    tide.detach()
    for i = 1, 10 do lost[#lost + 1] = {} end
    coroutine.yield()
    for i = 1, 10 do lost[#lost + 1] = {} end
    tide.attach()
    for i = 1, 5 do kept[#kept + 1] = {} end
  end)
  co() co()
  balance("attached")
end
tide.stop() tide.detach() tide.start()
for i = 1, 40 do lost[#lost + 1] = {} end
tide.attach()
-- freed while it is detached
tide.detach()
local half = #kept // 2
for i = 1, half do kept[i] = false end
balance("freed")
tide.attach()
print(#kept, #lost, half)
""" % N_TIMES

# What was there before has to be counted wherever the first attach is made: in
# a finalizer, for one, lua_gc refuses to say how much it is.
PLACES = {
    "a finalizer": """setmetatable({}, {__gc = function() attach() end})
collectgarbage()""",
    "a finalizer in a coroutine": """local function make()
  setmetatable({}, {__gc = function() attach() end})
end
coroutine.wrap(function() make() collectgarbage() end)()""",
    "a variable that is closed": """do
  local x <close> = setmetatable({}, {__close = function() attach() end})
end""",
    "a comparison in a sort": """table.sort({3, 1, 2}, function(a, b)
  attach()
  return a < b
end)""",
    "the middle of a cycle": """collectgarbage("step", 1)
for i = 1, 2000 do old[i] = {i} end
attach()""",
    "a young collection's finalizer": """collectgarbage("generational")
setmetatable({}, {__gc = function() attach() end})
collectgarbage("step", 0)
collectgarbage("incremental")""",
}
PLACED = """local old = {}
for i = 1, 20000 do old[i] = {} end
local tide
local function attach()
  if not tide then tide = require "tidemark" end
end
%s
assert(tide, "never there")
-- much more of what was there before is freed than was made since
for i = 1, #old do old[i] = nil end
collectgarbage()
collectgarbage("stop")
local s = tide.stats()
local count = collectgarbage("count") * 1024
local sum = s.live_bytes - s.buffer_bytes + s.before_bytes
assert(math.abs(count - sum) < 4096, count .. " " .. sum)
assert(s.before_bytes < count, s.before_bytes)
print(s.tier)
"""

# line: (tables made, of which are left); half of the first ones are freed
LINES = {20: 20, 22: 10, 28: 5}


def check(options, tap, folder, name, command, env):
    done = hosts.run(["env"] + env + command + ["work.lua"], folder)
    n = N_TIMES * 35
    tap.add(done.returncode == 0 and done.stdout.split() == [
        str(n), str(N_TIMES * 50 + 40), str(n // 2)],
        "%s: the program finds that its books balance" % name, done)
    got = hosts.run([options.tidemark, "check", "x.tide"], folder)
    tap.add(got.returncode == 0, "%s: the profile is sound" % name, got)
    found = hosts.report(options, folder, "x.tide")
    made = {line: hosts.tables(found, "work.lua", line) for line in range(40)}
    for line, each in LINES.items():
        tap.add(made[line][0] == each * N_TIMES * hosts.TABLE,
                "%s: line %d made %d tables" % (name, line, each * N_TIMES),
                made[line])
    alive = sum(made[line][1] for line in LINES) // hosts.TABLE
    tap.add(alive == n - n // 2, "%s: half of them are left" % name, alive)
    others = [line for line in (16, 24, 26, 34) if made[line][0] != 0]
    tap.add(not others, "%s: nothing of what was made detached" % name,
            others)


def check_places(options, tap, folder, env):
    for place, text in PLACES.items():
        with open(os.path.join(folder, "placed.lua"), "w",
                  encoding="utf-8") as f:
            f.write(PLACED % text)
        done = hosts.run(["env"] + env + [options.lua, "placed.lua"], folder)
        tap.add(done.returncode == 0 and done.stdout == "exact\n",
                "attached in %s: the books balance" % place, done)
        got = hosts.run([options.tidemark, "check", "x.tide"], folder)
        tap.add(got.returncode == 0,
                "attached in %s: the profile is sound" % place, got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_CPATH_5_4"):
        os.environ.pop(key, None)
    cpath = os.path.join(os.path.dirname(os.path.abspath(options.module)),
                         "?.so")
    tap = hosts.Tap()
    path = "LUA_CPATH=" + cpath
    library = os.path.join(os.path.dirname(options.tidemark),
                           "libtidemark.so")
    ways = {
        "module": [path, "TIDEMARK=out=x.tide,report=none"],
        "preload": [path, "TIDEMARK=out=x.tide,report=none",
                    "LD_PRELOAD=" + library],
        "system": [path, "TIDEMARK=out=x.tide,report=none,backend=system",
                   "LD_PRELOAD=" + library],
    }
    for name, env in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "work.lua"), "w",
                      encoding="utf-8") as f:
                f.write(PROGRAM)
            check(options, tap, folder, name, [options.lua], env)
    with tempfile.TemporaryDirectory() as folder:
        check_places(options, tap, folder, ways["module"])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
