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
import subprocess
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

N_THREADS, N_THREAD_FORKS, N_RACES = 3, 40, 60  # as in hosts/forks.c

# Some profiles end up in /tmp, where another run of this test has its own.
NAME = "forks%d" % os.getpid()

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
    plain = hosts.run([options.forks, mode], folder)
    if os.path.isdir(os.path.join(folder, "jail")):
        os.rmdir(os.path.join(folder, "jail"))
    done = hosts.run(["env", "TIDEMARK=out=%s.%%p.tide,report=none" % NAME,
                      "LD_PRELOAD=" + options.library, options.forks, mode],
                     folder)
    tap.add((plain.returncode, plain.stdout) == (0, "fine\n") and
            (done.returncode, done.stdout) == (0, "fine\n"),
            "%s: it runs as without the profiler" % mode,
            "%s\n%s" % (plain, done))
    paths = glob.glob(os.path.join(folder, "*.tide"))
    if mode == "user":
        others = glob.glob("/tmp/%s.*.tide" % NAME)
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


def check_race(options, tap, folder):
    """The parent goes on at once, and its profile grows in the same pages that
    the child is making its own."""
    env = dict(os.environ, TIDEMARK="out=forks.%p.tide",
               LD_PRELOAD=options.library)
    done = subprocess.run([options.forks, "race"], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=200)
    paths = glob.glob(os.path.join(folder, "*.tide"))
    tap.add((done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
            and len(paths) == 1 + N_RACES, "race: a profile for each process",
            "%s, %s" % (done, paths))
    checked = [hosts.run([options.tidemark, "check", p], folder)
               for p in paths]
    bad = [c.stdout + c.stderr for c in checked if c.returncode != 0]
    tap.add(not bad, "race: the books of all balance", "".join(bad[:5]))
    found = [hosts.report(options, folder, p) for p in paths]
    children = [f for f in found if f and tables(f, "child")[0] == 300]
    tap.add(len(children) == N_RACES and
            all(tables(f, "before") == (0, 1000) for f in children),
            "race: a child has what was there at its fork and what it made",
            "\n".join(shown(f) for f in found[:5]))


def check_threads(options, tap, folder):
    """Forked while other threads made and closed states, whose figures go on
    between what is noted of them and the fork."""
    env = dict(os.environ, TIDEMARK="out=forks.%p.tide",
               LD_PRELOAD=options.library)
    done = subprocess.run([options.forks, "threads"], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=200)
    paths = glob.glob(os.path.join(folder, "*.tide"))
    tap.add((done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
            and len(paths) == 1 + N_THREAD_FORKS,
            "threads: a profile for each process", "%s, %s" % (done, paths))
    checked = [hosts.run([options.tidemark, "check", p], folder)
               for p in paths]
    bad = [c.stderr for c in checked if c.returncode != 0]
    tap.add(not bad, "threads: the books of all balance", "".join(bad[:5]))
    found = [hosts.report(options, folder, p) for p in paths]
    children = [f for f in found if f and tables(f, "child")[0] == 300]
    tap.add(len(children) == N_THREAD_FORKS and
            all(tables(f, "before") == (0, 1000) and
                tables(f, "first")[0] == 0 and
                1 <= f["run"]["states"] <= 1 + N_THREADS for f in children),
            "threads: a child has the states that were open, no others",
            "%d, %s" % (len(children),
                        [f["run"]["states"] for f in children]))


def check_run(options, tap, folder):
    """`tidemark run` tells of profiles that had to go elsewhere."""
    out = NAME + ".%p.tide"
    done = hosts.run([options.tidemark, "run", "--report", "none", "-o", out,
                      "--", options.forks, "user"], folder)
    also = re.findall(r"^tidemark: also: (/tmp/%s\.(\d+)\.tide) "
                      r"\(pid (\d+), " % NAME, done.stderr, re.M)
    tap.add(done.returncode == 0 and len(also) == 1 and
            also[0][1] == also[0][2] and os.path.exists(also[0][0]) and
            re.search(r"^tidemark: profile: %s\.\d+\.tide$" % NAME,
                      done.stderr, re.M), "run: it lists a profile that went elsewhere",
            done.stderr)
    # of the same name, as if begun later, and of nobody in the next run
    for path, *_ in also:
        with open(path, "r+b") as file:
            file.seek(40)
            file.write(struct.pack("<II", 1, 1))  # pid, parent_pid
            file.seek(64)
            file.write(struct.pack("<Q", 4000000000 * 10**9))
    again = hosts.run([options.tidemark, "run", "--report", "none", "-o", out,
                       "--", options.forks, "frees"], folder)
    tap.add(again.returncode == 0 and
            "also: /tmp/" + NAME not in again.stderr and also,
            "run: not one of another run", again.stderr)
    for path, *_ in also:
        os.remove(path)


def check_run_again(options, tap, folder):
    """Profiles of one process that is two programs: one gets the name."""
    done = hosts.run([options.tidemark, "run", "--report", "none", "-o",
                      "one.tide", "--", options.forks, "again"], folder)
    named = re.findall(r"^tidemark: (profile|also): (\S+)", done.stderr, re.M)
    paths = [os.path.join(folder, path) for _, path in named]
    tap.add(done.returncode == 0 and len(set(paths)) == 2 and
            named[0] == ("profile", "one.tide") and
            sorted(paths) == sorted(glob.glob(os.path.join(folder, "*.tide"))),
            "run: a process that became another program has two profiles",
            done.stderr)
    found = [hosts.report(options, folder, path) for path in paths]
    for one in MODES["again"][0]:
        tap.add(any(f and is_like(f, one) for f in found),
                "run: a program of this process made %s" % one,
                "\n".join(shown(f) for f in found if f))
    for path in paths:
        if os.path.exists(path):
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
            tap.skip(mode, "only root can")
            continue
        with tempfile.TemporaryDirectory() as folder:
            check_mode(options, tap, folder, mode, wanted)
    if os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as folder:
            check_run(options, tap, folder)
    with tempfile.TemporaryDirectory() as folder:
        check_run_again(options, tap, folder)
    with tempfile.TemporaryDirectory() as folder:
        check_race(options, tap, folder)
    with tempfile.TemporaryDirectory() as folder:
        check_threads(options, tap, folder)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
