#!/usr/bin/env python3
"""Runs the example hosts: they end well, the totals that they print are those
of the profile, tasks of the scheduler hang below the host, and valgrind (when
it is there) finds no fault in either.  Prints TAP.

usage: examples.py --tidemark FILE --scripts EMBED.lua SCHEDULER.lua
                   --exes EMBED SCHEDULER [--suppressions FILE]
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          timeout=200)


def report(options, done, folder):
    """The report of the profile that a host has named."""
    named = re.findall(r"^profile +(\S+)$", done.stdout, re.M)
    if len(named) != 1:
        return None
    got = run([options.tidemark, "report", "--json", "--top", "0",
               named[0]], folder)
    return json.loads(got.stdout) if got.returncode == 0 else None


def check_embed(options, tap, folder):
    done = run([options.exes[0], options.scripts[0], "moon", "mono"], folder)
    tap.add(done.returncode == 0 and re.search(r"^mnoo\t2$", done.stdout, re.M)
            is not None, "embed runs its script", done.stdout + done.stderr)
    got = report(options, done, folder)
    tap.add(got is not None, "embed leaves a profile", done.stdout)
    figures = {name: [int(n) for n in re.findall(
        r"\d+", re.findall(r"^%s .*$" % name, done.stdout, re.M)[0])]
        for name in ("allocated", "held", "peak")}
    totals = got["totals"] if got else {}
    # lua_close itself allocates a little, for the finalizers of open files.
    more = [totals.get("alloc_bytes", 0) - figures["allocated"][0],
            totals.get("alloc_blocks", 0) - figures["allocated"][1]]
    tap.add(0 <= more[0] <= 400 and 0 <= more[1] <= 8,
            "bytes and blocks are those of the profile",
            "%s %s" % (figures, totals))
    tap.add(figures["held"] == [totals.get("live_bytes"),
                                totals.get("live_blocks")],
            "what it held is what the profile calls live",
            "%s %s" % (figures, totals))
    tap.add(figures["peak"][0] == totals.get("peak_bytes"),
            "the peak is the profile's", "%s %s" % (figures, totals))
    bad = run([options.exes[0], "no-such-file.lua"], folder)
    tap.add(bad.returncode == 1 and "embed: cannot open" in bad.stderr,
            "a script that does not exist is an error", bad.stderr)


def check_scheduler(options, tap, folder):
    done = run([options.exes[1], options.scripts[1]], folder)
    wanted = ["reader\t30", "parser\t60", "late\t10"]
    tap.add(done.returncode == 0 and
            all(line in done.stdout.splitlines() for line in wanted),
            "scheduler runs its tasks to their ends",
            done.stdout + done.stderr)
    got = report(options, done, folder)
    tap.add(got is not None, "scheduler leaves a profile", done.stdout)
    rows = {row["line"]: row for row in got["lines"]
            if row["source"].endswith("scheduler.lua")} if got else {}
    strings = rows.get(6, {}).get("kinds", {}).get("string", {})
    tap.add(strings.get("alloc_blocks", 0) >= 90,
            "bytes of tasks are charged to their lines", "%s" % rows)


def check_valgrind(options, tap, folder):
    for exe, script in zip(options.exes, options.scripts):
        name = "%s is clean under valgrind" % os.path.basename(exe)
        if shutil.which("valgrind") is None:
            tap.skip(name, "no valgrind")
            continue
        if b"__asan_init" in open(exe, "rb").read():
            tap.skip(name, "a sanitizer is built in")
            continue
        done = run(["valgrind", "--quiet", "--error-exitcode=99",
                    "--suppressions=" + options.suppressions,
                    "--leak-check=full", "--errors-for-leak-kinds=definite",
                    exe, script], folder)
        tap.add(done.returncode == 0, name, done.stderr[-3000:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--scripts", nargs=2, required=True)
    parser.add_argument("--exes", nargs=2, required=True)
    parser.add_argument("--suppressions", default="/dev/null")
    options = parser.parse_args()
    options.suppressions = os.path.abspath(options.suppressions)
    options.exes = [os.path.abspath(path) for path in options.exes]
    options.scripts = [os.path.abspath(path) for path in options.scripts]
    options.tidemark = os.path.abspath(options.tidemark)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    tap = Tap()
    for check in (check_embed, check_scheduler, check_valgrind):
        with tempfile.TemporaryDirectory() as folder:
            check(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
