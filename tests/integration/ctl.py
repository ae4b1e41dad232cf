#!/usr/bin/env python3
"""tidemark ctl on programs that run: recording on and off, marks, copies,
totals, several commanders, profiles that were renamed and deleted, programs
that do not answer; and the signal.  Prints TAP.

usage: ctl.py --tidemark FILE -- LUA
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import hosts

PATIENCE_S = 60

# Works until it reads a line, in rounds of `work`; says what it has done.
PROGRAM = """local kept, n, names = {}, 0, {}
local function work()
  for i = 1, 1000 do kept[i] = {i} end
  n = n + 1
end
local function ask(name)
  local file = io.open(name)
  if file then file:close() os.remove(name) return true end
end
io.write("ready\\n") io.flush()
while not ask("end") do
  work()
  if ask("pause") then io.write("paused\\n") io.flush() io.read() end
end
print("rounds", n)
"""

# Makes and drops tables of one size for ever: its heap is steady, and nothing
# that it asks for is unusual.
STEADY = """local kept = {}
for i = 1, 1000 do kept[i] = {i} end
io.write("ready\\n") io.flush()
local i = 0
while true do
  i = i % 1000 + 1
  kept[i] = {i}
end
"""


class Program:
    """The program under the preload library, in a folder."""

    def __init__(self, options, folder, settings, text=PROGRAM):
        self.folder = folder
        library = os.path.join(os.path.dirname(options.tidemark),
                               "libtidemark.so")
        with open(os.path.join(folder, "work.lua"), "w",
                  encoding="utf-8") as file:
            file.write(text)
        env = dict(os.environ, LD_PRELOAD=library,
                   TIDEMARK="out=x.tide,report=none," + settings)
        self.child = subprocess.Popen(
            [options.lua, "work.lua"], cwd=folder, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        assert self.child.stdout.readline() == "ready\n"
        self.tidemark = options.tidemark

    def ctl(self, *words):
        return hosts.run([self.tidemark, "ctl", "--timeout", str(PATIENCE_S),
                          str(self.child.pid), *words], self.folder)

    def stats(self):
        got = self.ctl("stats", "--json")
        return json.loads(got.stdout) if got.returncode == 0 else {}

    def until(self, is_so):
        """Waits until something is so of its stats; the last ones."""
        end = time.monotonic() + PATIENCE_S
        while True:
            stats = self.stats()
            if is_so(stats) or time.monotonic() > end:
                return stats
            time.sleep(0.01)

    def tell(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8"):
            pass

    def finish(self):
        self.tell("end")
        out, err = self.child.communicate("\n", timeout=PATIENCE_S)
        return out, err

    def kill(self):
        self.child.kill()
        self.child.communicate()


def report_now(options, folder):
    """What is in the profile of the program that runs."""
    return hosts.report(options, folder, "x.tide")


def made(found, line=3):
    return hosts.tables(found, "work.lua", line)[0]


def check_recording(options, tap, folder):
    p = Program(options, folder, "start=manual")
    first = p.stats()
    tap.add(first.get("recording") is False and
            first.get("profile", "").endswith("x.tide") and
            first.get("states") == 1, "stats of one that does not record",
            first)
    got = p.ctl("start")
    tap.add(got.returncode == 0 and got.stdout == "recording\n", "start", got)
    before = p.stats()
    after = p.until(lambda s: s["alloc_bytes"] >
                    before["alloc_bytes"] + 1000000)
    tap.add(after["recording"] and after["alloc_bytes"] >
            before["alloc_bytes"] + 1000000, "its totals rise", after)
    got = p.ctl("stop")
    tap.add(got.stdout == "not recording\n" and not p.stats()["recording"],
            "stop", got)
    stopped = made(report_now(options, folder))
    rounds = p.stats()["alloc_blocks"]
    p.until(lambda s: s["alloc_blocks"] > rounds + 5000)
    later = made(report_now(options, folder))
    tap.add(stopped > 0 and later == stopped,
            "nothing is charged to lines while it is off", (stopped, later))
    out, err = p.finish()
    tap.add(p.child.returncode == 0 and out.startswith("rounds") and
            err == "", "the program has noticed nothing", (out, err))
    got = hosts.run([options.tidemark, "check", "x.tide"], folder)
    tap.add(got.returncode == 0, "the profile is sound", got)


def check_steady(options, tap, folder):
    """One that makes no slow call at all hears what it is told, on and off."""
    p = Program(options, folder, "signal=USR1", STEADY)
    for words, says in ((("stop",), "not recording\n"),
                        (("start",), "recording\n"),
                        (("stop",), "not recording\n"),
                        (("mark", "off"), "marked\n"),
                        (("start",), "recording\n")):
        got = p.ctl(*words)
        tap.add(got.returncode == 0 and got.stdout == says,
                "a steady program: %s" % words[0], got)
    for is_on in (False, True):
        p.child.send_signal(signal.SIGUSR1)
        tap.add(p.until(lambda s, on=is_on: s["recording"] is on)["recording"]
                is is_on, "a steady program: the signal, %s" % is_on)
    p.kill()


def check_marks(options, tap, folder):
    p = Program(options, folder, "")
    got = [p.ctl("mark", "one")]
    blocks = p.stats()["alloc_blocks"]
    p.until(lambda s: s["alloc_blocks"] > blocks + 50000)
    got += [p.ctl("mark", "two"), p.ctl("save", "copy")]
    path = os.path.join(os.path.realpath(folder), "copy.tide")
    tap.add([g.returncode for g in got] == [0, 0, 0] and
            os.path.realpath(got[2].stdout.strip()) == path,
            "two marks and a copy", got)
    got = hosts.run([options.tidemark, "diff", "--json", "copy.tide@one",
                     "copy.tide@two"], folder)
    diff = json.loads(got.stdout) if got.returncode == 0 else {}
    totals = diff.get("totals", {})
    tap.add(totals.get("alloc_blocks_delta", 0) >= 50000,
            "two marks can be compared", got.stdout[:2000] + got.stderr)
    got = hosts.run([options.tidemark, "report", "copy.tide@none"], folder)
    tap.add(got.returncode == 3 and
            got.stderr == "tidemark: copy.tide@none: no mark is called "
            "'none'\n", "a mark that is not there", got)
    # stopped, or its line goes on counting until one has looked
    p.ctl("stop")
    before = p.stats(), made(report_now(options, folder))
    got = p.ctl("reset")
    after = p.stats(), made(report_now(options, folder))
    p.ctl("start")
    tap.add(got.stdout == "counting anew\n" and before[0]["marks"] == 2 and
            before[1] > 0 and after[0]["marks"] == 0 and after[1] == 0,
            "counting anew", (got, before, after))
    many = [subprocess.Popen([options.tidemark, "ctl", "--timeout",
                              str(PATIENCE_S), str(p.child.pid), "mark",
                              "m%d" % i], cwd=folder, text=True,
                             stdout=subprocess.PIPE) for i in range(6)]
    answers = [m.communicate(timeout=PATIENCE_S)[0] for m in many]
    tap.add(answers == ["marked\n"] * 6 and p.stats()["marks"] == 6,
            "several at once take turns", (answers, p.stats()))
    p.finish()
    found = hosts.report(options, folder, "x.tide")
    tap.add(sorted(m["label"] for m in found["marks"]) ==
            ["m%d" % i for i in range(6)], "all marks are in the profile",
            found["marks"])


def check_files(options, tap, folder):
    p = Program(options, folder, "")
    os.rename(os.path.join(folder, "x.tide"), os.path.join(folder, "y.tide"))
    got = p.ctl("mark", "renamed")
    tap.add(got.stdout == "marked\n", "a profile that was renamed", got)
    os.unlink(os.path.join(folder, "y.tide"))
    got = p.ctl("mark", "deleted")
    tap.add(got.stdout == "marked\n", "one that was deleted", got)
    stats = p.stats()
    tap.add(stats.get("marks") == 2, "and its totals", stats)
    p.kill()


def check_silence(options, tap, folder):
    p = Program(options, folder, "")
    p.tell("pause")
    assert p.child.stdout.readline() == "paused\n"
    got = p.ctl("mark", "late", "--timeout", "0.3")
    tap.add(got.returncode == 1 and got.stderr ==
            "tidemark: %d: no answer in 0.3 s: it allocates nothing in Lua; "
            "the command was withdrawn\n" % p.child.pid,
            "a program that does not allocate does not answer", got)
    got = p.ctl("stats")
    tap.add(got.returncode == 0 and got.stdout.startswith("recording; "),
            "its totals can be had", got)
    p.child.stdin.write("\n")
    p.child.stdin.flush()
    got = p.ctl("mark", "there")
    p.finish()
    found = hosts.report(options, folder, "x.tide")
    tap.add([m["label"] for m in found["marks"]] == ["there"],
            "what was withdrawn is not done later", found["marks"])


def check_wrong_use(options, tap, folder):
    for words, status, text in (
            ([], 2, "a PID is needed"),
            (["x"], 2, "'x' is no process id"),
            (["1"], 2, "what to do?"),
            (["1", "jump"], 2, "not 'jump'"),
            (["1", "mark"], 2, "mark needs a LABEL"),
            (["1", "save"], 2, "save needs a NAME"),
            (["1", "stop", "now"], 2, "'now' is one too many"),
            (["1", "mark", "x" * 480], 2, "longer than 479 bytes"),
            (["--timeout", "x", "1", "stop"], 2, "takes seconds"),
            (["4194304", "stop"], 3, "there is no such process"),
            ([str(os.getpid()), "stop"], 3, "it has no profile")):
        got = hosts.run([options.tidemark, "ctl"] + words, folder)
        tap.add(got.returncode == status and text in got.stderr and
                got.stderr.startswith("tidemark: ") and got.stdout == "",
                "wrong use: ctl %s" % " ".join(words)[:40], got)
    got = hosts.run([options.tidemark, "help", "ctl"], folder)
    tap.add(got.returncode == 0 and "usage: tidemark ctl" in got.stdout,
            "help ctl", got)


def check_signal(options, tap, folder):
    p = Program(options, folder, "start=manual,signal=USR1")
    p.child.send_signal(signal.SIGUSR1)
    tap.add(p.until(lambda s: s["recording"])["recording"],
            "the signal switches the recording on")
    got = p.ctl("mark", "woken")
    tap.add(got.stdout == "marked\n" and p.stats()["recording"],
            "and wakes for a command without switching", got)
    p.child.send_signal(signal.SIGUSR1)
    tap.add(not p.until(lambda s: not s["recording"])["recording"],
            "and off")
    out, err = p.finish()
    tap.add(p.child.returncode == 0 and err == "",
            "the program has noticed nothing", (out, err))
    p = Program(options, folder, "signal=USR2,on_signal=save")
    p.child.send_signal(signal.SIGUSR2)
    path = os.path.join(folder, "x.save1.tide")
    end = time.monotonic() + PATIENCE_S
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
    p.finish()
    got = hosts.run([options.tidemark, "check", path], folder)
    tap.add(got.returncode == 0, "a signal that saves", got)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    tap = hosts.Tap()
    for check in (check_recording, check_steady, check_marks, check_files,
                  check_silence, check_wrong_use, check_signal):
        with tempfile.TemporaryDirectory() as folder:
            check(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
