#!/usr/bin/env python3
"""A tidemark without libunwind: native=on is answered with a word, and all else
is as it would be.  Prints TAP.

usage: native_none.py --tidemark FILE -- LUA
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import hosts

WHY = "tidemark: no C frames: this tidemark was built without libunwind\n"
PROGRAM = """local t = {}
for i = 1, 100 do t[i] = ("x"):rep(1000 + i) end
table.sort(t, function(a, b) return #{a} + #a > #{b} + #b end)
print(#t)
"""


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True,
                          timeout=300, check=False)


def check(options, tap, folder):
    with open(os.path.join(folder, "program.lua"), "w", encoding="utf-8") as f:
        f.write(PROGRAM)
    reports = {}
    for native in ("off", "on", "host"):
        got = run([options.tidemark, "run", "--report", "json", "--set",
                   "quiet=1,native=" + native, "-o", native + ".tide", "--",
                   *options.interpreter, "program.lua"], folder)
        said, _, text = got.stderr.partition("{")
        tap.add(got.returncode == 0 and got.stdout == "100\n" and
                said == ("" if native == "off" else WHY),
                "native=%s: the program runs, and what is not there is said" %
                native, got)
        reports[native] = json.loads("{" + text)
        checked = run([options.tidemark, "check", native + ".tide"], folder)
        tap.add(checked.returncode == 0, "native=%s: the books balance" %
                native, checked)
    for native in ("on", "host"):
        names = [sorted((f["name"], f["what"])
                        for f in reports[which]["functions"])
                 for which in ("off", native)]
        made = [sum(r["alloc_bytes"] for r in reports[which]["lines"]
                    if r["source"] == "program.lua")
                for which in ("off", native)]
        tap.add(names[0] == names[1] != [] and made[0] == made[1] > 100000,
                "native=%s: the same functions and bytes as without" % native,
                (names, made))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    tap = hosts.Tap()
    folder = tempfile.mkdtemp(prefix="tidemark-native.")
    try:
        check(options, tap, folder)
        return tap.end()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
