#!/usr/bin/env python3
"""Tests of the benchmark itself: what it measures, and how it compares.

usage: test_bench.py --build DIR --lua FILE
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import catalog  # noqa: E402
import curves  # noqa: E402
import measure  # noqa: E402
import tables  # noqa: E402

N_TESTS = 0
N_FAILED = 0
MIB = 1024  # KiB


def check(is_ok, name, why=""):
    global N_TESTS, N_FAILED
    N_TESTS += 1
    N_FAILED += not is_ok
    print("%sok %d - %s" % ("" if is_ok else "not ", N_TESTS, name))
    if not is_ok:
        print("# %s" % (why,))


def spent(cpu_s, peak_kib=1000, status=0, output=b""):
    return measure.Spent(cpu_s, cpu_s, peak_kib, status, output)


# ---- spend ------------------------------------------------------------------

def test_spend(spender):
    def run(*command, count=1, **environment):
        return measure.spend(spender, list(command), environment, count, ".")

    status = [run("sh", "-c", "exit 7").status,
              run("sh", "-c", "kill -9 $$").status, run("./no-such").status]
    check(status == [7, 137, 127], "spend: status, signal, no such program",
          status)
    small, large = run("true"), run(
        sys.executable, "-c", "x = bytearray(b'x' * (64 << 20))")
    check(small.peak_kib < 8 * MIB, "spend: a peak is not its starter's",
          small)
    check(64 * MIB < large.peak_kib < 200 * MIB, "spend: a peak", large)
    one = run(sys.executable, "-c", "sum(range(4000000))")
    many = run(sys.executable, "-c", "sum(range(4000000))", count=4)
    check(one.cpu_s > 0.01 and 0.3 < many.cpu_s / one.cpu_s < 3,
          "spend: the time of several runs is that of one", (one, many))
    idle = run("sleep", "0.5")
    check(idle.cpu_s < 0.2 <= 0.5 <= idle.wall_s,
          "spend: waiting is no CPU time", idle)
    said = run("sh", "-c", "echo $WORD", count=2, WORD="so")
    check(said.output == b"so\nso\n", "spend: output and environment", said)


# ---- figures ----------------------------------------------------------------

def test_compared():
    got = measure.compared([spent(3, 300), spent(2, 500), spent(4, 400)],
                           [spent(2, 100), spent(1, 200), spent(1, 300)])
    check(got["ratio"] == {"min": 2, "median": 2, "low": 1.5, "high": 4},
          "ratios: least times, median and spread of the rounds", got)
    check(got["peak_kib"] == 400 and got["peak_ratio"] == 2,
          "ratios: of the median peaks", got)
    check(got["more_ms"] == 1000, "ratios: the median of what is more", got)
    check(math.isclose(measure.geometric([1, 4, 2]), 2), "geometric mean")
    rows = [{"variants": {"a": {"ratio": {"min": r, "median": r},
                                "peak_ratio": r}}} for r in (1, 4)]
    rows[0]["variants"]["b"] = rows[0]["variants"]["a"]
    mean = measure.means(rows)
    check(mean["a"]["min"] == 2 and mean["b"]["min"] == 1,
          "means: over the rows that have the variant", mean)


def row(name, group, ratio, peak_ratio=1.0, more_ms=0.0):
    figures = {"cpu_s": {"min": 1.0, "median": 1.0}, "peak_kib": 1024,
               "ratio": {"min": ratio, "median": ratio, "low": ratio,
                         "high": ratio},
               "peak_ratio": peak_ratio, "more_ms": more_ms}
    return {"name": name, "group": group, "noise_ms": 1.0,
            "profile_bytes": 2048, "blocks_per_s": 3e6,
            "variants": {"plain": figures, "tidemark": figures}}


def test_verdicts():
    rows = [row("one", "classic", 1.2), row("two", "program", 0.6, 1.1),
            row("empty-script", "start", 9.0, 9.0, 4.5),
            row("no-lua-x", "no-lua", 1.0, 1.0, 1.5)]
    mean = measure.means(rows[:2])
    got = {v["what"]: (round(v["value"], 2), v["is_reached"])
           for v in tables.verdicts(rows, mean)}
    check(got == {"geometric mean": (0.85, True),
                  "worst workload (one)": (1.2, False),
                  "most memory (two)": (1.1, True),
                  "start-up more, ms": (4.5, True),
                  "no-lua-x more, ms": (1.5, False)},
          "verdicts: start-up is not judged by its ratio", got)
    text = "\n".join(tables.report(rows, mean, []))
    check("one" in text and "2.0K" in text and "0.85" in text and
          "NOT reached" in text, "the table", text)


def test_native():
    rows = [row("cjson", "program", 1.4), row("penlight", "program", 1.2)]
    for one in rows:
        one["variants"]["native"] = one["variants"]["tidemark"]
    got = [(v["value"], v["is_reached"]) for v in tables.native_verdicts(rows)]
    check(got == [(1.4, True), (1.2, False)],
          "C frames: work of C modules may cost more", got)
    last = list(tables.native_report(rows))[-1]
    check(last.endswith("NOT reached by penlight"),
          "C frames: the last line says which is above", last)
    last = list(tables.native_report(rows[:1]))[-1]
    check(last.endswith(": reached"), "C frames: or that all are within", last)


def test_same():
    workload = catalog.Workload("w", "classic", [])
    variant = measure.Variant("tidemark", "lib")
    failed = []
    for other in (spent(1, status=1), spent(1, output=b"x"), spent(2)):
        try:
            measure.check_same(workload, variant, other, spent(1))
            failed.append(False)
        except measure.Failed:
            failed.append(True)
    check(failed == [True, True, False],
          "another status or output is an error, another time is not", failed)


# ---- the whole --------------------------------------------------------------

def test_catalog(lua):
    names = [w.name for w in catalog.workloads(lua)]
    check(len(names) == len(set(names)) > 20, "workloads have names", names)
    absent = catalog.Workload("w", "program", [], {}, ("/", "/no/such/*"))
    check(catalog.missing(absent) == "/no/such/*",
          "what a workload needs and is not there is named")
    with tempfile.TemporaryDirectory() as folder:
        for workload in catalog.classic(lua):
            got = subprocess.run(workload.command + ["3"], cwd=folder,
                                 stdout=subprocess.PIPE)
            check(got.returncode == 0 and got.stdout,
                  "%s runs" % workload.name, got)


def test_bench(build, lua):
    here = os.path.dirname(os.path.abspath(__file__))
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "figures.json")
        done = subprocess.run(
            [sys.executable, os.path.join(here, "bench.py"), "--build", build,
             "--lua", lua, "--pairs", "1", "--only", "empty-script", "--only",
             "no-lua-true", "--out", out], stdout=subprocess.PIPE, text=True)
        check(done.returncode == 0 and "empty-script" in done.stdout,
              "bench runs", done)
        with open(out) as file:
            rows = {r["name"]: r for r in json.load(file)["workloads"]}
    empty, true = rows["empty-script"], rows["no-lua-true"]
    check(20 * 100 < empty["alloc_blocks"] < 20 * 10000,
          "bench: the profiles of all runs are counted", empty)
    check(true["alloc_blocks"] == true["profile_bytes"] == 0,
          "bench: no Lua, no profile", true)
    check(subprocess.run(
        [sys.executable, os.path.join(here, "bench.py"), "--build", build,
         "--only", "no-such-workload"], stderr=subprocess.DEVNULL)
        .returncode == 1, "bench: nothing to run is an error")


# ---- curves -----------------------------------------------------------------

def test_flatness():
    check(math.isclose(curves.flatness([{"ratio": r} for r in
                                        (1.2, 0.6, 1.8)]), 1.5),
          "curves: the greatest ratio over the first")
    rows = [{name: {"cpu_s": 0.5, "peak_mib": 100} for name in curves.REPORTS}
            for _ in range(2)]
    fine = curves.report_verdict(rows)
    rows[1]["json"] = {"cpu_s": 9, "peak_mib": 900}
    only_json = curves.report_verdict(rows)
    rows[1]["stack"] = {"cpu_s": 0.5, "peak_mib": 301}
    check(fine[0] and only_json[0] and not curves.report_verdict(rows)[0],
          "curves: the report is judged by its texts", rows)


def test_curves(build, lua):
    here = os.path.dirname(os.path.abspath(__file__))
    done = subprocess.run(
        [sys.executable, os.path.join(here, "curves.py"), "--build", build,
         "--lua", lua, "--quick", "--repeat", "1", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    check(done.returncode == 0, "curves run", done)
    of = {c["name"]: c for c in json.loads(done.stdout)["curves"]}
    check(sorted(of) == ["coroutines", "depth", "heap", "report", "sites",
                         "states"], "curves: all are there", list(of))
    costs = [p[k] for c in of.values() for p in c.get("points", [])
             for k in ("plain_ns", "with_ns")]
    check(len(costs) == 20 and all(1 < c < 20000 for c in costs),
          "curves: an allocation takes nanoseconds", costs)
    check(of["heap"]["points"][1]["plain_mib"] > 16,
          "curves: the heap is as large as it was to be", of["heap"])
    paths, lines = of["report"]["rows"]
    check(900 < paths["nodes"] < 3000 and 500 < lines["nodes"] < 2000,
          "curves: profiles have about the nodes that were asked for",
          (paths, lines))
    check(paths["line"]["peak_mib"] > 1, "curves: the report's memory", paths)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--lua", default="lua5.4")
    options = parser.parse_args()
    test_spend(os.path.join(options.build, "tests", "bench", "spend"))
    test_compared()
    test_verdicts()
    test_native()
    test_same()
    test_catalog(options.lua)
    test_bench(options.build, options.lua)
    test_flatness()
    test_curves(options.build, options.lua)
    print("1..%d" % N_TESTS)
    return 1 if N_FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
