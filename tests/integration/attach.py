#!/usr/bin/env python3
"""`tidemark attach`: a process that runs already, by gdb; and why it cannot be
in all other cases, which must leave the process as it was.  Prints TAP.

usage: attach.py --tidemark FILE [--hidden FILE] -- LUA
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import hosts

N_RUNS = 3
PATIENCE_S = 60  # only a fault takes that long

# Calls functions of Lua all the time, until there is a file "stop".
BUSY = """local kept, n = {}, 0
local function hot()
  local t = {}
  for i = 1, 100 do t[i] = {} end
  return t
end
repeat
  n = n + 1
  kept[n % 50] = hot()
  if n == 200 then io.open("ready", "w"):close() end
  local stop = n % 200 == 0 and io.open("stop")
until stop
print("ended", n == 0, #kept)
"""

IDLE = """io.stdout:setvbuf("no")
print("idle")
io.read("l")
print("read on")
"""


def wait_for(condition):
    """What it comes to be, when it is true in time."""
    until = time.monotonic() + PATIENCE_S
    while True:
        got = condition()
        if got or time.monotonic() > until:
            return got
        time.sleep(0.02)


class Target:
    """A process to attach to."""

    def __init__(self, command, folder, stdin=subprocess.DEVNULL):
        self.folder = folder
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=stdin, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)

    def wait_until_busy(self):
        """Until busy.lua is in its loop, however slow the machine is."""
        ready = os.path.join(self.folder, "ready")
        wait_for(lambda: os.path.exists(ready))
        if os.path.exists(ready):
            os.remove(ready)

    def wait_until_idle(self):
        """Until idle.lua has said so and sleeps in its call of read."""
        self.process.stdout.readline()
        wait_for(lambda: self.state() == "S")

    def state(self):
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii",
                  errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]

    def end(self, text=None):
        """(status, output) once it has been told to end."""
        if text is None:
            with open(os.path.join(self.folder, "stop"), "w"):
                pass
        try:
            out, _ = self.process.communicate(text, timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, _ = self.process.communicate()
        if os.path.exists(os.path.join(self.folder, "stop")):
            os.remove(os.path.join(self.folder, "stop"))
        return self.process.returncode, out


def attach(options, folder, pid, *more, seconds=PATIENCE_S):
    return hosts.run([options.tidemark, "attach", "--timeout", str(seconds),
                      *more, str(pid)], folder)


def made_in(options, folder, path):
    """Tables that the hot line of busy.lua has made."""
    return hosts.tables(hosts.report(options, folder, path), "busy.lua",
                        4)[0] // hosts.TABLE


def can_trace(options, folder):
    """gdb may be forbidden, as in many containers."""
    target = Target(["sleep", "100"], folder)
    got = attach(options, folder, target.process.pid, seconds=10)
    target.process.kill()
    target.process.communicate()
    return "may not be traced" not in got.stderr


def check_busy(options, tap, folder):
    """Also how long one may have to wait for Lua: gdb itself takes its time."""
    slowest = 0
    for n in range(N_RUNS):
        target = Target([options.lua, "busy.lua"], folder)
        target.wait_until_busy()
        pid = target.process.pid
        start = time.monotonic()
        got = attach(options, folder, pid, "-o", "%n.%p.tide")
        slowest = max(slowest, time.monotonic() - start)
        path = os.path.join(folder, "%s.%d.tide" % (
            os.path.basename(options.lua), pid))
        tap.add(got.returncode == 0 and path in got.stderr,
                "run %d: attached" % n, got)
        if n == 0:
            again = attach(options, folder, pid)
            tap.add(again.returncode == 1 and "has the library already" in
                    again.stderr, "not twice", again)
        wait_for(lambda at=path: made_in(options, folder, at) > 1000)
        ended = target.end()
        tap.add(ended == (0, "ended\tfalse\t49\n"),
                "run %d: the program ends as it would" % n, ended)
        got = hosts.run([options.tidemark, "check", path], folder)
        tap.add(got.returncode == 0, "run %d: the profile is sound" % n, got)
        made = made_in(options, folder, path)
        tap.add(made > 1000, "run %d: the hot line" % n, made)
        found = hosts.report(options, folder, path) if n == 0 else None
        if found:
            tap.add(found["run"]["tier"] == "exact" and
                    found["totals"]["before_attach_bytes"] > 0,
                    "what was there before is counted apart",
                    found["totals"])
    return 2 + int(3 * slowest)


def check_idle(options, tap, folder, late_s):
    target = Target([options.lua, "idle.lua"], folder, subprocess.PIPE)
    target.wait_until_idle()
    got = attach(options, folder, target.process.pid, seconds=late_s)
    tap.add(got.returncode == 1 and "called no function of Lua in time" in
            got.stderr, "idle: it is said", got)
    ended = target.end("x\n")
    tap.add(ended == (0, "read on\n"), "idle: the program goes on", ended)


def check_refused(options, tap, folder, late_s):
    others = [("a program without Lua", ["sleep", "100"],
               "exports no function of Lua", late_s)]
    if options.hidden:
        others.append(("a host with hidden symbols",
                       [options.hidden, "busy.lua"],
                       "does not export its functions", PATIENCE_S))
    for name, why, seconds in (
            ("lua5.1", "is not 5.4", PATIENCE_S),
            ("lua5.3", "is not 5.4", PATIENCE_S),
            ("luajit", "called no function of Lua in time", late_s)):
        if shutil.which(name):
            others.append((name, [name, "busy.lua"], why, seconds))
    for name, command, why, seconds in others:
        target = Target(command, folder)
        if command[0] != "sleep":
            target.wait_until_busy()
        got = attach(options, folder, target.process.pid, seconds=seconds)
        tap.add(got.returncode == 1 and why in got.stderr,
                "%s: it is said" % name, got)
        if command[0] == "sleep":
            target.process.kill()
            target.process.communicate()
            continue
        status, out = target.end()
        tap.add(status == 0 and out.startswith("ended"),
                "%s: it goes on" % name, (status, out))


def check_wrong_use(options, tap, folder):
    for arguments, status, text in (
            ([], 2, "one PID is needed"), (["x"], 2, "no process id"),
            (["1", "2"], 2, "one PID is needed"),
            (["--timeout", "x", "1"], 2, "takes seconds"),
            (["--set", "foo=1", str(os.getpid())], 2, "unknown option 'foo'"),
            (["--what"], 2, "unknown option"),
            (["999999999"], 1, "no such process")):
        got = hosts.run([options.tidemark, "attach", *arguments], folder)
        tap.add(got.returncode == status and text in got.stderr,
                "wrong use: " + text, got)
    target = Target(["sleep", "100"], folder)
    got = hosts.run(["env", "PATH=/nonexistent", options.tidemark, "attach",
                     str(target.process.pid)], folder)
    target.process.kill()
    target.process.communicate()
    tap.add(got.returncode == 1 and "gdb is needed" in got.stderr,
            "without gdb: it is said", got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--hidden")
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    if options.hidden:
        options.hidden = os.path.abspath(options.hidden)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LD_PRELOAD"):
        os.environ.pop(key, None)
    tap = hosts.Tap()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("busy.lua", BUSY), ("idle.lua", IDLE)):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        check_wrong_use(options, tap, folder)
        if not shutil.which("gdb") or not can_trace(options, folder):
            tap.skip("attaching", "no gdb, or it may not trace")
        else:
            late_s = check_busy(options, tap, folder)
            check_idle(options, tap, folder, late_s)
            check_refused(options, tap, folder, late_s)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
