#!/usr/bin/env python3
"""What the profiler costs: CPU time and memory with it and without it.

usage: bench.py --build DIR [OPTION...]

  --pairs N     rounds; each runs every variant once (7)
  --only NAME   workloads with NAME in their name; may be repeated
  --list        names the workloads, and what keeps one from running
  --peers       also heaptrack, mimalloc, jemalloc, and tidemark's allocator
                with nothing recorded (start=manual)
  --backends    also tidemark over malloc: glibc's, mimalloc, jemalloc
  --native      also with C frames (native=on): work of C modules, and programs
                that seldom allocate from C; the last line says whether both
                stay within what they are to cost
  --curves [OPTION...]   what an allocation costs as things grow, and what
                a report costs: options of its own, see --curves --help
  --watcher [OPTION...]  what the watcher of the collector costs, in
                instructions: options of its own, see --watcher --help
  --options KEY=VALUE,..   of tidemark
  --lua FILE    the interpreter (lua5.4)
  --json        prints the figures for programs, and no table
  --out FILE    writes these figures to a file as well
  --max RATIO   exit status 1 when the geometric mean of the least times is
                above it
  --strict      exit status 1 when something that was to be reached is not

Columns: the least CPU time (user and system) of each; their ratio (min); the
median of the ratios of all rounds and their spread; peak resident memory in
MiB and its ratio; the profile's size; millions of allocations counted per
second of CPU time.
"""
import argparse
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalog  # noqa: E402
import measure  # noqa: E402
import tables  # noqa: E402

PEERS = ["arena", "mimalloc", "jemalloc", "heaptrack"]
BACKENDS = ["system", "system-mimalloc", "system-jemalloc"]


def parsed():
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__.strip())
        sys.exit(0)
    parser = argparse.ArgumentParser(
        usage="bench.py --build DIR [OPTION...]", add_help=False)
    parser.add_argument("--build", required=True)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("--options", default="")
    parser.add_argument("--out", default="")
    parser.add_argument("--max", type=float, default=0)
    for flag in ("list", "peers", "backends", "native", "json", "strict"):
        parser.add_argument("--" + flag, action="store_true")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error("--pairs wants a number above 0")
    options.build = os.path.abspath(options.build)
    options.lua = shutil.which(options.lua) or options.lua
    return options


def say(text):
    print(text, file=sys.stderr, flush=True)


def chosen_workloads(options):
    """Those that were asked for and can be run; says which cannot."""
    for workload in catalog.workloads(options.lua):
        if options.only and not any(o in workload.name for o in options.only):
            continue
        if options.native and workload.name not in tables.NATIVE_RATIOS:
            continue
        need = catalog.missing(workload)
        if need:
            say("%s: skipped, there is no '%s'" % (workload.name, need))
        else:
            yield workload


def measured(options, names):
    spender = os.path.join(options.build, "tests", "bench", "spend")
    chosen, absent = measure.variants(
        options.build, [o for o in options.options.split(",") if o],
        ["plain", "tidemark"] + names)
    for name in absent:
        say("%s: skipped, it is not installed" % name)
    for workload in chosen_workloads(options):
        say("%s ..." % workload.name)
        few = [v for v in chosen if workload.group in ("classic", "program") or
               v.name in ("plain", "tidemark")]
        yield measure.measure(spender, options.build, workload, few,
                              options.pairs)


def bench(options):
    names = (PEERS if options.peers else []) + (
        BACKENDS if options.backends else []) + (
        ["native"] if options.native else [])
    rows = list(measured(options, names))
    if not rows:
        sys.exit("tidemark: bench: no workload to run")
    judged = list(filter(tables.is_judged, rows))
    mean = measure.means(judged) if judged else {}
    figures = {"pairs": options.pairs, "workloads": rows,
               "geometric_mean": mean,
               "verdicts": list(tables.native_verdicts(rows) if options.native
                                else tables.verdicts(rows, mean))}
    show(options, figures, tables.native_report(rows) if options.native
         else tables.report(rows, mean, ["tidemark"] + [
             n for n in names if n in mean] if names else []))
    return 1 if (options.max and mean and
                 mean["tidemark"]["min"] > options.max) or (
        options.strict and not all(
            v["is_reached"] for v in figures["verdicts"])) else 0


def show(options, figures, lines):
    text = json.dumps(figures, indent=2)
    if options.out:
        with open(options.out, "w") as out:
            out.write(text + "\n")
    print(text if options.json else "\n".join(lines))


def main():
    options = parsed()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_PATH",
                "LUA_CPATH", "LD_PRELOAD"):
        os.environ.pop(key, None)
    if options.list:
        for workload in catalog.workloads(options.lua):
            need = catalog.missing(workload)
            print("%-14s %s" % (workload.name, "no '%s'" % need if need else
                                workload.group))
        return 0
    try:
        return bench(options)
    except measure.Failed as why:
        sys.exit("tidemark: bench: %s" % why)


if __name__ == "__main__":
    sys.exit(main())
