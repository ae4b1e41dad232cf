#!/usr/bin/env python3
"""`tidemark merge`, and reports on several profiles: what they say of all is
the sum of what they say of each.  Prints TAP.

usage: merge.py --tidemark FILE -- LUA
"""
import argparse
import json
import os
import shutil
import struct
import sys
import tempfile

import hosts

SUMS = ("alloc_bytes", "alloc_blocks", "freed_bytes", "live_bytes",
        "live_blocks", "peak_bytes", "unattributed_bytes")
# offsets in struct tide_p_header
STATE, START_MONO, END_MONO = 32, 72, 80

PROGRAM = """local kept = {}
local function make(n)
  for i = 1, n do kept[#kept + 1] = {} end
end
make(tonumber(arg[1]))
local co = coroutine.wrap(function() make(10) end)
co()
collectgarbage()
"""


class Merge:
    def __init__(self, options, folder):
        self.tap = hosts.Tap()
        self.tidemark, self.lua, self.folder = (
            options.tidemark, options.lua, folder)
        with open(self.path("work.lua"), "w", encoding="utf-8") as f:
            f.write(PROGRAM)
        self.files = [self.record(n) for n in (100, 250, 1000)]

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *arguments):
        return hosts.run([self.tidemark, *arguments], self.folder)

    def record(self, n):
        name = self.path("n%d.tide" % n)
        self.run("run", "--report", "none", "-o", name, "--", self.lua,
                 "work.lua", str(n))
        return name

    def report(self, *arguments):
        got = self.run("report", "--json", "--top", "0", *arguments)
        return json.loads(got.stdout) if got.returncode == 0 else None

    def ok(self, is_ok, name, why=""):
        self.tap.add(is_ok, name, why)


def check_sums(m):
    got = m.run("merge", "-o", "all.tide", *m.files)
    m.ok((got.returncode, got.stdout, got.stderr) == (0, "", ""),
         "merge says nothing when all is well", got)
    got = m.run("check", "all.tide")
    m.ok(got.returncode == 0 and "3 states" in got.stdout,
         "the books of the merged profile balance", got)
    each = [m.report(f) for f in m.files]
    for name, whole in (("merged", m.report("all.tide")),
                        ("shown together", m.report(*m.files))):
        for key in SUMS:
            wanted = sum(r["totals"][key] for r in each)
            m.ok(whole["totals"][key] == wanted, "%s: %s add up" % (name, key),
                 "%d, not %d" % (whole["totals"][key], wanted))
        m.ok(whole["gc"]["Cycles"] == sum(r["gc"]["Cycles"] for r in each),
             "%s: so do collections" % name)
        tables = hosts.tables(whole, "work.lua", 3)[0] // hosts.TABLE
        m.ok(tables == 1350 + 30, "%s: line 3 made 1380 tables" % name, tables)
        one = [r for r in whole["lines"] if r["line"] == 3]
        m.ok(len(one) == 1, "%s: which is one row" % name, one)
        m.ok(whole["run"]["complete"], "%s: it is complete" % name)


def check_states(m):
    got = m.run("report", "--by", "state", "--json", "all.tide")
    rows = json.loads(got.stdout)["states"]
    pids = [m.report(f)["run"]["pid"] for f in m.files]
    m.ok([r["pid"] for r in rows] == pids[::-1],
         "every state has its process, the largest first", rows)
    m.ok([r["alloc_bytes"] for r in rows] == [
        m.report(f)["totals"]["alloc_bytes"] for f in m.files[::-1]],
        "and its own figures", rows)
    again = m.run("report", "--by", "state", "--top", "1", "all.tide")
    m.ok(again.stdout.splitlines()[1].split()[0] == str(pids[2]) and
         again.stdout.endswith("2 more\n"), "--top cuts the table", again)


def check_again(m):
    """A merged profile is a profile."""
    m.run("merge", "-o", "twice.tide", "all.tide", m.files[0])
    got = m.run("report", "--by", "state", "--json", "twice.tide")
    pids = [r["pid"] for r in json.loads(got.stdout)["states"]]
    m.ok(len(pids) == 4 and len(set(pids)) == 3,
         "a merged one can be merged again", pids)
    m.run("merge", "-o", "all.tide", "all.tide")
    m.ok(m.run("check", "all.tide").returncode == 0,
         "the output may be the input")


def check_clocks(m):
    """As of a machine that was started again: another monotonic clock."""
    other = m.path("other.tide")
    shutil.copy(m.files[1], other)
    with open(other, "r+b") as f:
        for at in (START_MONO, END_MONO):
            f.seek(at)
            (time,) = struct.unpack("<Q", f.read(8))
            f.seek(at)
            f.write(struct.pack("<Q", time + 10 ** 15))
    m.run("merge", "-o", "clocks.tide", m.files[0], other)
    seconds = m.report("clocks.tide")["run"]["seconds"]
    m.ok(0 <= seconds < 600, "times are brought to one clock", seconds)


def check_running(m):
    killed = m.path("killed.tide")
    shutil.copy(m.files[1], killed)
    with open(killed, "r+b") as f:
        f.seek(STATE)
        f.write(struct.pack("<I", 0))
    m.run("merge", "-o", "some.tide", m.files[0], killed)
    m.ok(not m.report("some.tide")["run"]["complete"],
         "with one that was killed it is not complete")


def check_errors(m):
    for arguments, status, text in (
            (["merge", m.files[0]], 2, "-o OUT is needed"),
            (["merge", "-o", "x.tide"], 2, "a FILE is needed"),
            (["merge", "--what"], 2, "unknown option '--what'"),
            (["merge", "-o"], 2, "needs a value"),
            (["merge", "-o", "x.tide", m.files[0], "none.tide"], 3,
             "none.tide: "),
            (["report", m.files[0], "none.tide"], 3, "none.tide: "),
            (["merge", "-o", "no/x.tide", m.files[0]], 1, "no/x.tide: "),
            (["report", "--base", m.files[0], m.files[1], m.files[2]], 2,
             "one FILE only")):
        got = m.run(*arguments)
        m.ok(got.returncode == status and text in got.stderr,
             "an error: " + text, got)
    m.ok(not os.path.exists(m.path("x.tide")), "a failure leaves no file")
    left = [f for f in os.listdir(m.folder) if ".part" in f or "XX" in f]
    m.ok(not left, "and nothing half done", left)


def check_damaged(m):
    """One with its end cut off gives what can be read of it, and says so."""
    cut = m.path("cut.tide")
    with open(m.files[2], "rb") as f:
        whole = f.read()
    with open(cut, "wb") as f:
        f.write(whole[:-(len(whole) // 12)])
    got = m.run("merge", "-o", "cutall.tide", m.files[0], cut)
    m.ok(got.returncode in (0, 3) and ("cut.tide" in got.stderr),
         "a damaged one is complained of", got)
    with open(cut, "wb") as f:
        f.write(whole[:-(len(whole) * 2 // 3)])
    got = m.run("merge", "-o", "less.tide", m.files[0], cut)
    m.ok(got.returncode == 0 and "what could be read is taken" in got.stderr,
         "what is left of one is taken", got)
    m.ok(m.run("check", "less.tide").returncode == 0 and
         not m.report("less.tide")["run"]["complete"],
         "and what comes of it is not complete", m.run("check", "less.tide"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TMPDIR"] = folder
        m = Merge(options, folder)
        for check in (check_sums, check_states, check_again, check_clocks,
                      check_running, check_errors, check_damaged):
            check(m)
    return m.tap.end()


if __name__ == "__main__":
    sys.exit(main())
