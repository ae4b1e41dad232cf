#!/usr/bin/env python3
"""What the profiler costs: CPU time with it over CPU time without it.

usage: bench.py --build DIR [--pairs N] [--only NAME] [--json] [--lua FILE]
                [--options KEY=VALUE,..] [--max RATIO]

Every workload is run in pairs, one run plain and one under the preload
library, in turn, so that a machine that gets slower or faster hits both.  CPU
time (user + system) of the process is what counts.  The table shows the least
time of each, the ratio of the two (min), and the median of the ratios of all
pairs with its spread.  Their geometric means are the result.

--max   exit status 1 when the geometric mean of the min ratios is above it.
"""
import argparse
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def workloads(lua):
    """Yields (name, command, environment)."""
    for path in sorted(glob.glob(os.path.join(HERE, "workloads", "*.lua"))):
        yield os.path.basename(path)[:-4], [lua, path], {}
    luacheck = "/usr/bin/luacheck"
    if os.path.exists(luacheck):
        share = "/usr/share/lua/5.%d/?.lua;/usr/share/lua/5.%d/?/init.lua"
        files = sorted(glob.glob("/usr/share/lua/5.1/**/*.lua",
                                 recursive=True), key=os.path.getsize)[-12:]
        yield ("luacheck", [lua, luacheck, "--no-cache", "-q"] + files,
               {"LUA_PATH": ";".join([share % (4, 4), share % (1, 1)])})


def cpu_seconds(command, environment):
    """Runs a command; returns (CPU seconds, stdout)."""
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out,
                                   stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, **environment))
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return (usage.ru_utime + usage.ru_stime, process.returncode,
                out.read())


def measure(name, command, environment, options, folder):
    preload = dict(environment)
    preload["LD_PRELOAD"] = os.path.join(options.build, "libtidemark.so")
    profile = os.path.join(folder, name + ".tide")
    preload["TIDEMARK"] = ",".join(
        ["out=" + profile, "report=none", "quiet=1"] +
        ([options.options] if options.options else []))
    pairs = []
    for _ in range(options.pairs):
        plain, status, text = cpu_seconds(command, environment)
        with_it, status_with, text_with = cpu_seconds(command, preload)
        if (status, text) != (status_with, text_with):
            sys.exit("tidemark: bench: '%s' does not run as it does without "
                     "the profiler" % name)
        if not os.path.exists(profile):
            sys.exit("tidemark: bench: '%s' was not profiled" % name)
        pairs.append((plain, with_it))
    ratios = [b / a for a, b in pairs]
    least = [min(times) for times in zip(*pairs)]
    return {"name": name, "plain_s": least[0], "profiled_s": least[1],
            "min": least[1] / least[0], "median": statistics.median(ratios),
            "low": min(ratios), "high": max(ratios)}


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows, result):
    yield "%-14s %9s %9s %6s %7s   %s" % (
        "workload", "plain s", "with s", "min", "median", "spread")
    for row in rows:
        yield "%-14s %9.3f %9.3f %6.2f %7.2f   %.2f..%.2f" % (
            row["name"], row["plain_s"], row["profiled_s"], row["min"],
            row["median"], row["low"], row["high"])
    yield "%-14s %9s %9s %6.2f %7.2f" % (
        "geometric mean", "", "", result["min"], result["median"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("--options", default="")
    parser.add_argument("--max", type=float, default=0)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.lua = shutil.which(options.lua) or options.lua
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LD_PRELOAD"):
        os.environ.pop(key, None)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, command, environment in workloads(options.lua):
            if options.only not in name:
                continue
            print("%s ..." % name, file=sys.stderr)
            rows.append(measure(name, command, environment, options, folder))
    if not rows:
        sys.exit("tidemark: bench: no workload '%s'" % options.only)
    result = {"min": geometric([r["min"] for r in rows]),
              "median": geometric([r["median"] for r in rows])}
    if options.json:
        print(json.dumps({"pairs": options.pairs, "workloads": rows,
                          "geometric_mean": result}, indent=2))
    else:
        print("\n".join(table(rows, result)))
    return 1 if options.max and result["min"] > options.max else 0


if __name__ == "__main__":
    sys.exit(main())
