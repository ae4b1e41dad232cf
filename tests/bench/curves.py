#!/usr/bin/env python3
"""What an allocation costs as things grow, and what a report costs.

usage: curves.py --build DIR [OPTION...]

  --only NAME   curves with NAME in their name; may be repeated: depth, sites,
                coroutines, states, heap, report
  --repeat N    runs of each point, plain and profiled in turn (3)
  --quick       few and small points, to see that it works
  --lua FILE    the interpreter (lua5.4)
  --json        prints the figures for programs, and no tables
  --out FILE    writes these figures to a file as well
  --strict      exit status 1 when a curve is not flat

The scripts in curves/ time the part that is measured by themselves, so that
loading and filling do not count.  "with" and "plain" are CPU nanoseconds for
an allocation, the least of all runs; "peak" is the resident memory of the
process in MiB.  A curve is flat when the ratio of "with" to "plain" is
nowhere more than 1.3 times that of its first point: what large heaps cost
without a profiler is not the profiler's.

report: profiles of 1,000 to 1,000,000 nodes, made by a program under the
profiler, and one with as many nodes on 500,000 lines; CPU time and peak memory of `tidemark
report`.  It reads the file with read(2) and maps nothing of it, so that the
peak is all that it takes.  To be reached, with a million nodes: 2 s and 300
MiB, by line, by function and by stack.
"""
import argparse
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import measure  # noqa: E402

FLAT = 1.3
REPORT_S = 2.0
REPORT_MIB = 300
REPORTS = {"line": [], "function": ["--by", "function"],
           "stack": ["--by", "stack"], "json": ["--json"],
           "page": ["--html", "/dev/null"]}
JUDGED = ("line", "function", "stack")


def memory_mib():
    """What is free for a heap: a third of what the machine can give."""
    with open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024 // 3
    return 1024


def points(quick):
    """{curve: (points, allocations measured, name of the points)}."""
    if quick:
        return {"depth": ([1, 100], 100000, "frames"),
                "sites": ([10, 1000], 100000, "lines"),
                "coroutines": ([1, 100], 100000, "coroutines"),
                "states": ([1, 10], 100000, "states"),
                "heap": ([1, 16], 100000, "MiB")}
    heaps = [n for n in (1, 4, 16, 64, 256, 1024, 4096)
             if n * 1.6 + 400 <= memory_mib()]
    return {
        "depth": ([1, 10, 100, 1000, 10000], 8000000, "frames"),
        "sites": ([10, 100, 1000, 10000, 100000, 1000000], 8000000, "lines"),
        "coroutines": ([1, 10, 100, 1000, 10000, 100000], 6000000,
                       "coroutines"),
        "states": ([1, 10, 100], 8000000, "states"),
        "heap": (heaps, 4000000, "MiB"),
    }


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.spender = os.path.join(options.build, "tests", "bench", "spend")
        self.library = os.path.join(options.build, "libtidemark.so")
        self.profile = os.path.join(folder, "run.tide")

    def command(self, curve, point, count):
        if curve == "states":
            host = os.path.join(self.options.build, "tests", "bench", "states")
            return [host, str(point), str(count)]
        script = os.path.join(HERE, "curves", curve + ".lua")
        return [self.options.lua, script, str(point), str(count)]

    def run(self, command, is_profiled):
        environment = {"TMPDIR": self.folder}
        if is_profiled:
            environment["LD_PRELOAD"] = self.library
            environment["TIDEMARK"] = "out=%s,%s" % (self.profile,
                                                     measure.QUIET)
        spent = measure.spend(self.spender, command, environment, 1,
                              self.folder)
        if spent.status != 0:
            raise measure.Failed("'%s' ends with %d" % (" ".join(command),
                                                        spent.status))
        return spent

    def measured(self, command, is_profiled):
        """(ns an allocation, peak MiB) of one run."""
        spent = self.run(command, is_profiled)
        n, seconds = spent.output.split()
        return float(seconds) * 1e9 / int(n), spent.peak_kib / 1024


# ---- curves -----------------------------------------------------------------

def point_row(bench, curve, point, count):
    command = bench.command(curve, point, count)
    runs = {False: [], True: []}
    for turn in range(bench.options.repeat):
        for is_profiled in (False, True) if turn % 2 == 0 else (True, False):
            runs[is_profiled].append(bench.measured(command, is_profiled))
    plain, ours = (min(r[0] for r in runs[k]) for k in (False, True))
    return {"point": point, "plain_ns": plain, "with_ns": ours,
            "ratio": ours / plain,
            "plain_mib": max(r[1] for r in runs[False]),
            "with_mib": max(r[1] for r in runs[True])}


def flatness(rows):
    """The greatest ratio over that of the first point."""
    return max(row["ratio"] for row in rows) / rows[0]["ratio"]


def curve_table(name, unit, rows):
    yield "%s" % name
    yield "%12s %10s %10s %8s %8s %11s %11s" % (
        unit, "plain ns", "with ns", "more ns", "ratio", "plain peak",
        "with peak")
    for row in rows:
        yield "%12d %10.1f %10.1f %8.1f %8.2f %11.1f %11.1f" % (
            row["point"], row["plain_ns"], row["with_ns"],
            row["with_ns"] - row["plain_ns"], row["ratio"], row["plain_mib"],
            row["with_mib"])


def curve(bench, name):
    wanted, count, unit = points(bench.options.quick)[name]
    rows = []
    for point in wanted:
        say("%s %d ..." % (name, point))
        rows.append(point_row(bench, name, point, count))
    worst = flatness(rows)
    verdict = "%s: the ratio grows by %.2f: %s" % (
        name, worst, "flat" if worst <= FLAT else "NOT flat")
    return {"name": name, "unit": unit, "points": rows, "growth": worst,
            "is_reached": worst <= FLAT, "verdict": verdict}


# ---- the report -------------------------------------------------------------

def contents(bench, profile):
    """(nodes, lines) of a profile."""
    said = measure.spend(
        bench.spender,
        [os.path.join(bench.options.build, "tidemark"), "check", profile], {},
        1, bench.folder).output.decode()
    nodes = [part.split()[0] for part in said.split(",") if "nodes" in part]
    return int(nodes[0])


def report_row(bench, what, command):
    say("report %s ..." % what)
    bench.run(command, True)
    row = {"what": what, "nodes": contents(bench, bench.profile),
           "profile_mib": os.path.getsize(bench.profile) / (1 << 20)}
    tool = os.path.join(bench.options.build, "tidemark")
    for name, options in REPORTS.items():
        runs = [bench.run([tool, "report"] + options + [bench.profile], False)
                for _ in range(bench.options.repeat)]
        row[name] = {"cpu_s": min(r.cpu_s for r in runs),
                     "peak_mib": max(r.peak_kib for r in runs) / 1024}
    return row


def report_table(rows):
    yield "report: CPU seconds / peak MiB"
    yield "%-14s %9s %9s" % ("profile", "nodes", "MiB") + "".join(
        "%14s" % name for name in REPORTS)
    for row in rows:
        yield "%-14s %9d %9.1f" % (
            row["what"], row["nodes"], row["profile_mib"]) + "".join(
            "%14s" % ("%.2f / %.0f" % (row[name]["cpu_s"],
                                       row[name]["peak_mib"]))
            for name in REPORTS)


def report_verdict(rows):
    most = [row[name] for row in rows for name in JUDGED]
    seconds = max(m["cpu_s"] for m in most)
    mib = max(m["peak_mib"] for m in most)
    is_reached = seconds <= REPORT_S and mib <= REPORT_MIB
    return is_reached, (
        "report: at most %.2f s and %.0f MiB, to be at most %.0f s and %d "
        "MiB: %s" % (seconds, mib, REPORT_S, REPORT_MIB,
                     "reached" if is_reached else "NOT reached"))


def report_curve(bench):
    sizes = [1000] if bench.options.quick else [1000, 10000, 100000, 1000000]
    rows = [report_row(bench, "%d paths" % n, bench.command("nodes", n, 0))
            for n in sizes]
    n = sizes[-1] // 2
    rows.append(report_row(bench, "%d lines" % n,
                           bench.command("sites", n, n)))
    is_reached, verdict = report_verdict(rows)
    return {"name": "report", "rows": rows, "is_reached": is_reached,
            "verdict": verdict}


# ---- all of them ------------------------------------------------------------

def say(text):
    print(text, file=sys.stderr, flush=True)


def parsed():
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__.strip())
        sys.exit(0)
    parser = argparse.ArgumentParser(
        usage="curves.py --build DIR [OPTION...]", add_help=False)
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("--out", default="")
    for flag in ("quick", "json", "strict"):
        parser.add_argument("--" + flag, action="store_true")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.lua = shutil.which(options.lua) or options.lua
    return options


def curves(options):
    names = [n for n in list(points(True)) + ["report"]
             if not options.only or any(o in n for o in options.only)]
    if not names:
        sys.exit("tidemark: bench: no curve to run")
    result, lines = [], []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for name in names:
            one = (report_curve(bench) if name == "report" else
                   curve(bench, name))
            result.append(one)
            lines += list(report_table(one["rows"]) if name == "report" else
                          curve_table(name, one["unit"], one["points"])) + [""]
    return result, lines + [one["verdict"] for one in result]


def main():
    options = parsed()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_PATH",
                "LUA_CPATH", "LD_PRELOAD"):
        os.environ.pop(key, None)
    try:
        result, lines = curves(options)
    except measure.Failed as why:
        sys.exit("tidemark: bench: %s" % why)
    text = json.dumps({"curves": result}, indent=2)
    if options.out:
        with open(options.out, "w") as out:
            out.write(text + "\n")
    print(text if options.json else "\n".join(lines))
    return 1 if options.strict and not all(
        one["is_reached"] for one in result) else 0


if __name__ == "__main__":
    sys.exit(main())
