#!/usr/bin/env python3
"""Hosts that do more with Lua than run a file (hosts/many.c, hosts/plugin.c)
run under the preload library: they must behave as they do without it, and
their bytes must stand where they belong.  Prints TAP.

usage: hosts.py --tidemark FILE --many FILE [--plugin HOST PLUGIN] [--sniff]

--sniff  the host has Lua inside without names: with sniff=on.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

TABLE = 56      # bytes of a table without its storage

# mode: {(chunk, line): tables made there in all states}, states
MODES = {
    "limit": ({("limit", 2): 1000}, 1),
    "swap": ({("swap", 2): 2000}, 1),
    "states": ({("states", 2): 50000}, 50),
    "threads": ({("threads", 2): 80000, ("shared", 2): 400,
                 ("shared", 1): 200}, 5),
    "resume": ({("resume", 4): 300, ("resume", 2): 3}, 1),
}
ACCOUNTS = {"limit"}


def run(command, folder):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True,
                              text=True, errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "took too long")


def report(options, folder, profile):
    got = run([options.tidemark, "report", "--json", "--top", "0", profile],
              folder)
    return json.loads(got.stdout) if got.returncode == 0 else None


def tables(found, chunk, line):
    """(bytes allocated, bytes live) of the tables of one line."""
    for row in found["lines"] if found else []:
        if row["source"].lstrip("=@") == chunk and row["line"] == line:
            kind = row["kinds"].get("table", {})
            return kind.get("alloc_bytes", 0), kind.get("live_bytes", 0)
    return 0, 0


def profiled(options, tap, folder, name, command, out):
    """Runs a host plainly and profiled, and compares what it prints."""
    plain = run(command, folder)
    done = run([options.tidemark, "run", "--report", "none", "-o", out,
                "--"] + command, folder)
    tap.add(plain.returncode == 0 and
            (plain.returncode, plain.stdout) ==
            (done.returncode, done.stdout),
            "%s: it runs as without the profiler" % name,
            "%s\n%s" % (plain, done))
    for profile in glob.glob(os.path.join(folder, "*.tide")):
        checked = run([options.tidemark, "check", profile], folder)
        tap.add(checked.returncode == 0, "%s: the profile is sound" % name,
                checked.stdout + checked.stderr)


def check_mode(options, tap, folder, mode, wanted, n_states):
    profiled(options, tap, folder, mode, [options.many, mode], "x.tide")
    found = report(options, folder, "x.tide")
    for (chunk, line), n in wanted.items():
        got = tables(found, chunk, line)
        tap.add(got[0] == n * TABLE, "%s: %d tables on line %d of '%s'" % (
            mode, n, line, chunk), "it has %d bytes, not %d" % (
                got[0], n * TABLE))
    states = found["run"]["states"] if found else 0
    tap.add(states == n_states, "%s: %d states" % (mode, n_states),
            "it has %d" % states)


def check_apart(options, tap, folder):
    """50 states, one after the other: each has a row of its own."""
    done = run([options.tidemark, "run", "--report", "none", "--set",
                "states=apart", "-o", "x.tide", "--", options.many, "states"],
               folder)
    sound = run([options.tidemark, "check", "x.tide"], folder)
    tap.add(done.returncode == 0 and done.stdout == "fine\n" and
            sound.returncode == 0, "states=apart: it runs, the profile is sound",
            "%s\n%s" % (done, sound))
    got = run([options.tidemark, "report", "--by", "state", "--json", "--top",
               "0", "x.tide"], folder)
    states = json.loads(got.stdout)["states"] if got.returncode == 0 else []
    tap.add(len(states) == 50 and
            all(s["states"] == 1 and s["alloc_bytes"] > 72000 for s in states)
            and sum(s["open"] for s in states) == 5,
            "states=apart: 50 rows of one state, 5 never closed", got.stdout)
    got = tables(report(options, folder, "x.tide"), "states", 2)
    tap.add(got[0] == 50000 * TABLE, "states=apart: the sum is the same", got)


def check_fork(options, tap, folder):
    profiled(options, tap, folder, "fork", [options.many, "fork"],
             "%p.tide")
    found = [report(options, folder, path)
             for path in glob.glob(os.path.join(folder, "*.tide"))]
    parent = [r for r in found if r and tables(r, "parent", 1)[0]]
    child = [r for r in found if r and tables(r, "child", 1)[0]]
    tap.add(len(found) == 2 and len(parent) == 1 and len(child) == 1,
            "fork: a profile for the parent and one for the child",
            "%d files" % len(found))
    parent, child = (parent or [None])[0], (child or [None])[0]
    # 200 tables and the one that holds them, and so on.
    for who, chunk, n, live in ((parent, "before", 1000, 1000),
                                (parent, "parent", 201, 201),
                                (parent, "child", 0, 0),
                                (child, "child", 501, 501),
                                (child, "parent", 0, 0)):
        line = 2 if chunk == "before" else 1
        got = tables(who, chunk, line)
        if chunk in ("parent", "child"):
            more = tables(who, chunk, 2)
            got = got[0] + more[0], got[1] + more[1]
        tap.add(got == (n * TABLE, live * TABLE),
                "fork: in the %s '%s' made %d tables" % (
                    "parent" if who is parent else "child", chunk, n),
                "%s, not %s" % (got, (n * TABLE, live * TABLE)))
    got = tables(child, "before", 2)
    tap.add(got[1] == 0, "fork: the child has let go what it inherited", got)


def check_plugin(options, tap, folder):
    profiled(options, tap, folder, "plugin", options.plugin, "x.tide")
    found = report(options, folder, "x.tide")
    n = sum(row["kinds"].get("table", {}).get("alloc_bytes", 0)
            for row in (found["lines"] if found else [])
            if row["line"] == 3 and "kept" in row["source"])
    tap.add(n == 1000 * TABLE, "plugin: 1000 tables on line 3",
            "it has %d bytes" % n)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--many", required=True)
    parser.add_argument("--plugin", nargs=2)
    parser.add_argument("--sniff", action="store_true")
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    if options.sniff:
        os.environ["TIDEMARK"] = "sniff=on"
    options.tidemark = os.path.abspath(options.tidemark)
    options.many = os.path.abspath(options.many)
    tap = Tap()
    for mode, (wanted, n_states) in MODES.items():
        if options.sniff and mode in ACCOUNTS:
            continue  # its own allocator: routes.py looks at that
        with tempfile.TemporaryDirectory() as folder:
            check_mode(options, tap, folder, mode, wanted, n_states)
    with tempfile.TemporaryDirectory() as folder:
        check_apart(options, tap, folder)
    with tempfile.TemporaryDirectory() as folder:
        check_fork(options, tap, folder)
    if options.plugin:
        options.plugin = [os.path.abspath(path) for path in options.plugin]
        with tempfile.TemporaryDirectory() as folder:
            check_plugin(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
