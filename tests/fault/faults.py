#!/usr/bin/env python3
"""Ends that are not in order, disks that are full, memory that is short: the
program must run and end as it does without the profiler, and the profile must
be whole.  Prints TAP.

usage: faults.py --tidemark FILE --lua FILE --unnoticed FILE
"""
import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

WORK = """
local kept = {}
local function step(i)
  kept[i] = {i}  --@keep
end
for i = 1, 1000 do step(i) end
"""
KEEP_LINE = 4       # in WORK

PID = """
local pid = io.open("/proc/self/stat"):read("n")
io.stdout:write("done\\n") io.stdout:flush()
"""


class Faults(Tap):
    def __init__(self, options):
        super().__init__()
        self.options, self.folder = options, ""

    def script(self, text):
        with open(os.path.join(self.folder, "work.lua"), "w",
                  encoding="utf-8") as file:
            file.write(text)

    def run(self, *command, **how):
        return subprocess.run(command, cwd=self.folder, capture_output=True,
                              text=True, timeout=120, errors="replace", **how)

    def profiled(self, out="x.tide", **how):
        return self.run(self.options.tidemark, "run", "--report", "none",
                        "-o", out, "--", self.options.lua, "work.lua", **how)

    def report(self, out="x.tide"):
        got = self.run(self.options.tidemark, "report", "--json", "--top", "0",
                       out)
        return json.loads(got.stdout) if got.returncode == 0 else None

    def kept(self, report):
        for row in report["lines"] if report else []:
            if row["source"] == "work.lua" and row["line"] == KEEP_LINE:
                return row
        return {"live_bytes": 0, "kinds": {}}

    def whole(self, name, out="x.tide"):
        """Checks that the 1000 tables stand in the profile."""
        checked = self.run(self.options.tidemark, "check", out)
        self.add(checked.returncode == 0, name + ": the file is sound",
                 checked.stdout + checked.stderr)
        report = self.report(out)
        table = self.kept(report)["kinds"].get("table", {})
        storage = self.kept(report)["kinds"].get("storage", {})
        self.add(table.get("live_blocks") == 1000 and
                 table.get("live_bytes") == 56000 and
                 storage.get("live_bytes", 0) >= 16000,
                 name + ": every table is there", self.kept(report))
        return report


def ends(faults):
    """Ways to end: the status is the program's own, the profile is whole."""
    for name, last, status in [
            ("a normal end", "", 0),
            ("os.exit", "os.exit(7)", 7),
            ("os.exit that closes", "os.exit(8, true)", 8),
            ("an error", "error('sunk')", 1),
            ("kill -9", PID + "os.execute('kill -9 ' .. pid)",
             128 + signal.SIGKILL),
            ("SIGTERM", PID + "os.execute('kill -15 ' .. pid)",
             128 + signal.SIGTERM),
            ("SIGABRT", PID + "os.execute('kill -6 ' .. pid)",
             128 + signal.SIGABRT)]:
        faults.script(WORK + last)
        done = faults.profiled()
        faults.add(done.returncode == status, "%s: exit status %d" % (
            name, status), "%d\n%s" % (done.returncode, done.stderr))
        report = faults.whole(name)
        if status == 128 + signal.SIGKILL:
            faults.add(report is not None and not report["run"]["complete"],
                       "kill -9: the report says that the run was cut off",
                       report and report["run"])


def no_file(faults):
    """The profile cannot be written: said once, and nothing else changes."""
    faults.script(WORK + "print('fine')")
    done = faults.profiled("no/such/folder/x.tide")
    faults.add(done.returncode == 2 and done.stdout == "" and
               done.stderr.startswith("tidemark: run: "),
               "no folder for the profile: `run` says so before it starts",
               done)
    environment = dict(
        os.environ, TIDEMARK="out=no/such/folder/x.tide",
        LD_PRELOAD=os.path.join(os.path.dirname(faults.options.tidemark),
                                "libtidemark.so"))
    done = faults.run(faults.options.lua, "work.lua", env=environment)
    faults.add(done.returncode == 0 and done.stdout == "fine\n",
               "no folder for the profile: the program runs", done)
    said = done.stderr.splitlines()
    faults.add(len(said) == 1 and said[0].startswith("tidemark: ") and
               "no/such/folder" in said[0],
               "no folder for the profile: it is said once", done.stderr)


def run_on_disk(faults, size):
    """On a file system of that size, in a name space of its own; None: it
    cannot be made.  Leaves x.tide, if there is one."""
    mount = "mkdir -p small && mount -t tmpfs -o size=%s none small && " % size
    if faults.run("unshare", "-rm", "sh", "-c", mount + "true").returncode:
        return None
    command = "%s run --report none -o small/x.tide -- %s work.lua" % (
        faults.options.tidemark, faults.options.lua)
    return faults.run("unshare", "-rm", "sh", "-c", "rm -f x.tide; " + mount +
                      command + "; status=$?; cp small/x.tide . 2>&-; "
                      "exit $status")


def full_disk(faults):
    """No room for a profile at all, and for the beginning of one."""
    name = "a full disk: "
    faults.script("""
local kept = {}
for i = 1, 3000 do
  kept[i] = load("local t = {} return {t, function() return t end}", "=c" .. i)()
end
print(#kept)
""")
    none = run_on_disk(faults, "200k")
    if none is None:
        faults.skip(name + "the program runs", "no mount name space")
        return
    faults.add(none.returncode == 0 and none.stdout == "3000\n",
               name + "no room for a profile: the program runs", none)
    faults.add("No space left on device; recording in memory only" in
               none.stderr and "no room for its profile" in none.stderr and
               not os.path.exists(os.path.join(faults.folder, "x.tide")),
               name + "no room for a profile: that is said", none)
    part = run_on_disk(faults, "1200k")
    faults.add(part.returncode == 0 and part.stdout == "3000\n" and
               part.stderr.count("No space left on device") == 1 and
               "profile: small/x.tide" in part.stderr,
               name + "room for a part: the program runs", part)
    checked = faults.run(faults.options.tidemark, "check", "x.tide")
    faults.add(checked.returncode == 1 and
               "the disk was full, rows are missing" in checked.stderr,
               name + "room for a part: check says so", checked)
    report = faults.run(faults.options.tidemark, "report", "--json", "x.tide")
    faults.add(report.returncode == 0 and
               not json.loads(report.stdout)["run"]["complete"],
               name + "room for a part: it can be read", report)


def short_memory(faults):
    """A limit of address space: less to reserve, the same books."""
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))
    faults.script(WORK + "print('fine')")
    done = faults.profiled(preexec_fn=limit)
    faults.add(done.returncode == 0 and done.stdout == "fine\n",
               "400 MB of address space: the program runs", done)
    faults.whole("400 MB of address space")
    faults.script(WORK + """
local ok, e = pcall(function()
  local all = {}
  for i = 1, 1e9 do all[i] = ("x"):rep(1 << 20) .. i end
end)
print(ok, e)
""")
    done = faults.profiled(preexec_fn=limit)
    faults.add(done.returncode == 0 and "not enough memory" in done.stdout,
               "no more memory: an error as Lua has it", done)
    faults.whole("no more memory")


def children(faults):
    """Programs that are started by the program."""
    faults.script(WORK + """
os.execute("true") os.execute("ls / > ls.out")
os.execute("%s -e 'print(1)'")
""" % faults.options.lua)
    done = faults.profiled("%n.%p.tide")
    faults.add(done.returncode == 0 and done.stdout == "1\n",
               "children run as they do", done)
    files = [f for f in os.listdir(faults.folder) if f.endswith(".tide")]
    faults.add(len(files) == 2 and all("lua5.4." in f for f in files),
               "a profile for each process with Lua, none for others", files)


def unnoticed(faults):
    """What a program can find out about its state is the same."""
    with open(faults.options.unnoticed, encoding="utf-8") as file:
        faults.script(file.read())
    plain = faults.run(faults.options.lua, "work.lua")
    done = faults.profiled()
    faults.add(plain.returncode == 0 and plain.stdout.count("\n") > 20 and
               done.stdout == plain.stdout, "the program notices nothing",
               plain.stdout + "---\n" + done.stdout)
    faults.add(plain.stderr == done.stderr.replace("\r", "") or
               all(line.startswith("tidemark: ")
                   for line in done.stderr.splitlines()),
               "stderr has nothing but tidemark's own words", done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("--unnoticed", required=True)
    faults = Faults(parser.parse_args())
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    faults.options.tidemark = os.path.abspath(faults.options.tidemark)
    for check in (ends, no_file, full_disk, short_memory, children,
                  unnoticed):
        with tempfile.TemporaryDirectory() as faults.folder:
            check(faults)
    return faults.end()


if __name__ == "__main__":
    sys.exit(main())
