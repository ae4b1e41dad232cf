#!/usr/bin/env python3
"""A host that becomes several processes (hosts/forks.c) under the preload
library: one profile for each process that used Lua, named by its pid, with
what it inherited and what it made itself, whatever the parent did meanwhile.
Prints TAP.

usage: forks.py --tidemark FILE --forks FILE
"""
import argparse
import glob
import os
import re
import struct
import sys
import tempfile

import hosts

TABLE = hosts.TABLE

# What a process made: {chunk: (tables made, tables alive at the end)}.  A
# process that drops everything has none alive.
PARENT = {"before": (1000, 0), "parent7": (100, 0), "child": (0, 0)}
CHILD = {"before": (0, 1000), "parent7": (0, 0), "child": (300, 300)}
WORKER = dict(CHILD, after=(20, 20))
GRANDCHILD = {"before": (0, 1000), "parent7": (0, 0), "child": (0, 300),
              "grandchild": (70, 70), "after": (0, 0)}

# mode: (processes, needs root)
MODES = {
    "frees": ([PARENT, dict(CHILD, before=(0, 0))], False),
    "workers": ([PARENT] + [WORKER] * 3 + [GRANDCHILD] * 3, False),
    "killed": ([PARENT, CHILD], False),
    "quits": ([PARENT, CHILD], False),
    "closes": ([PARENT, CHILD], False),
    "daemon": ([PARENT, CHILD], False),
    "chroot": ([PARENT, CHILD], True),
    "user": ([PARENT, CHILD], True),
    "idle": ([PARENT], False),
    "own": ([PARENT, {"before": (0, 1000), "parent7": (0, 0),
                      "child": (300, 300)}], False),
    "again": ([{"before": (1000, 1000), "first": (100, 100)},
               {"before": (1000, 1000), "second": (200, 200)}], False),
}


def tables(found, chunk):
    """(made, alive) of the tables of line 2 of a chunk."""
    got = hosts.tables(found, chunk, 2)
    return got[0] // TABLE, got[1] // TABLE


def is_like(found, wanted):
    return all(tables(found, chunk) == n for chunk, n in wanted.items())


def shown(found):
    chunks = ("before", "first", "second", "parent7", "child", "after",
              "grandchild")
    return ", ".join("%s %s" % (c, tables(found, c)) for c in chunks)


def header_pid(path):
    with open(path, "rb") as f:
        return struct.unpack_from("<I", f.read(64), 40)[0]


def check_files(options, tap, folder, mode, paths):
    for path in paths:
        got = hosts.run([options.tidemark, "check", path], folder)
        tap.add(got.returncode == 0, "%s: a profile is sound" % mode,
                got.stdout + got.stderr)
        name = int(re.search(r"\.(\d+)(\.\d+)?\.tide$", path).group(1))
        tap.add(name == header_pid(path), "%s: it is named by its pid" % mode,
                "%s is of %d" % (path, header_pid(path)))


def check_mode(options, tap, folder, mode, wanted):
    env = dict(os.environ, TIDEMARK="out=forks.%p.tide,report=none",
               LD_PRELOAD=options.library)
    plain = hosts.run([options.forks, mode], folder)
    if os.path.isdir(os.path.join(folder, "jail")):
        os.rmdir(os.path.join(folder, "jail"))
    spare = os.path.join("/tmp", "forks.*.tide")
    for path in glob.glob(spare):
        os.remove(path)
    done = hosts.run(["env", "TIDEMARK=" + env["TIDEMARK"],
                      "LD_PRELOAD=" + env["LD_PRELOAD"], options.forks, mode],
                     folder)
    tap.add((plain.returncode, plain.stdout) == (0, "fine\n") and
            (done.returncode, done.stdout) == (0, "fine\n"),
            "%s: it runs as without the profiler" % mode,
            "%s\n%s" % (plain, done))
    paths = glob.glob(os.path.join(folder, "*.tide"))
    if mode == "user":
        others = glob.glob(spare)
        tap.add(len(others) == 1 and others[0] in done.stderr,
                "user: it is said where the child's profile is",
                "%s, %s" % (others, done.stderr))
        paths += others
    check_files(options, tap, folder, mode, paths)
    found = [hosts.report(options, folder, path) for path in paths]
    tap.add(len(found) == len(wanted), "%s: %d profiles" % (
        mode, len(wanted)), "there are %d: %s" % (len(found), done.stderr))
    for one in wanted:
        like = [f for f in found if f and is_like(f, one)]
        tap.add(bool(like), "%s: a process made %s" % (mode, one),
                "\n".join(shown(f) for f in found))
        if like:
            found.remove(like[0])
    for path in paths:
        os.remove(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--forks", required=True)
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    options.tidemark = os.path.abspath(options.tidemark)
    options.forks = os.path.abspath(options.forks)
    options.library = os.path.join(os.path.dirname(options.tidemark),
                                   "libtidemark.so")
    tap = hosts.Tap()
    for mode, (wanted, needs_root) in MODES.items():
        if needs_root and os.geteuid() != 0:
            tap.n += 1
            print("ok %d - %s # SKIP only root can" % (tap.n, mode))
            continue
        with tempfile.TemporaryDirectory() as folder:
            check_mode(options, tap, folder, mode, wanted)
    print("1..%d" % tap.n)
    return 1 if tap.n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
