#!/usr/bin/env python3
"""What the watcher of the collector costs, in instructions.

usage: watcher.py --build DIR [--test] [--lua FILE] [--only NAME] [--json]

The watcher hangs on what the allocator does anyway; times cannot tell it from
noise.  So callgrind counts the instructions of whole runs, which repeat, and of
these the share of

  events    the watcher's own functions with all that they call: cycles, phases,
            stops, survivors, ages, the timeline
  compare   the look at global_State in each call of the allocator, on the fast
            path, that finds whether there is anything to watch

  --test    three short workloads; prints TAP, and holds them to their limits
  --only    workloads with NAME in their name; may be repeated
  --lua     the interpreter (lua5.4)
  --json    prints the figures for programs

The build must be one without checks; elsewhere they would be counted too.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import callgrind  # noqa: E402
import catalog  # noqa: E402
FILES = ("gcwatch.c", "timeline.c", "lives.c", "gclog.c")
# Inline functions of attrib.h: of the comparison, and of ages at death.
WORD_FUNCTION = "TIDE_INLINE uint64_t tideT_gc_word("
AGE_FUNCTIONS = ("TIDE_INLINE struct tide_p_life *tideT_life(",
                 "TIDE_INLINE void tideT_count_aged(")
BEHIND = 2  # instructions behind the masked word: compare, jump

# name, argument of the workload, in the test
WORKLOADS = (("binary-trees", 12, True), ("closures", 100000, False),
             ("coroutines", 20000, False), ("fixpoint", 30000, False),
             ("json", 6, False), ("queens", 6, False),
             ("strings", 20000, True), ("vectors", 100000, True))
MAX_EVENTS = 0.0075  # of one workload, where collections come most often
MAX_MEAN = 0.005     # of all of them
MAX_COMPARE = 0.02

Cost = collections.namedtuple("Cost", "total events compare cycles")


class Failed(Exception):
    """A run that did not do what it does."""


# ---- what the figures are of -----------------------------------------------

def lines_of(names):
    """The lines of inline functions of attrib.h."""
    with open(os.path.join(SOURCE, "attrib", "attrib.h"),
              encoding="utf-8") as file:
        text = file.read().split("\n")
    lines = set()
    for name in names:
        first = next(i for i, line in enumerate(text, 1)
                     if line.startswith(name))
        lines.update(range(first, text.index("}", first) + 2))
    return lines


def cost_of(path):
    """(instructions in all, of events, of the comparison)."""
    of_word, of_ages = lines_of([WORD_FUNCTION]), lines_of(AGE_FUNCTIONS)
    total = events = 0
    words = collections.defaultdict(collections.Counter)
    for c in callgrind.costs(path):
        total += c.cost if not c.is_call else 0
        if c.home in FILES:
            events += c.cost if c.callee not in FILES else 0
        elif not c.is_call and c.here == "attrib.h":
            events += c.cost if c.line in of_ages else 0
            words[c.home][c.line] += c.cost if c.line in of_word else 0
    # the least of its lines is one instruction: so often it was run
    compare = 0
    for of in words.values():
        counts = [cost for cost in of.values() if cost > 0]
        compare += sum(counts) + BEHIND * min(counts, default=0)
    return total, events, compare


# ---- runs ------------------------------------------------------------------

def luacheck(lua):
    """luacheck over three files, where it is installed."""
    workload = catalog.luacheck(lua)
    if catalog.missing(workload):
        return []
    return [("luacheck", workload.command[:-42], workload.environment)]


def workloads(options):
    """(name, command, environment)"""
    chosen = [(name, [options.lua, os.path.join(HERE, "workloads",
                                                name + ".lua"), str(size)], {})
              for name, size, is_short in WORKLOADS
              if is_short or not options.test]
    if not options.test:
        chosen += luacheck(options.lua)
    return [row for row in chosen
            if not options.only or any(o in row[0] for o in options.only)]


def run(options, command, environment, folder):
    """The cost of one run."""
    out = os.path.join(folder, "callgrind.out")
    profile = os.path.join(folder, "x.tide")
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--quiet",
         "--callgrind-out-file=" + out] + command,
        capture_output=True, check=False,
        env=dict(os.environ, **environment,
                 TIDEMARK="report=none,quiet=1,out=" + profile,
                 LD_PRELOAD=os.path.join(options.build, "libtidemark.so")))
    if not os.path.exists(out) or not os.path.exists(profile):
        raise Failed("'%s' was not counted: %s" % (command[0],
                                                  done.stderr.decode()[-500:]))
    report = subprocess.run(
        [os.path.join(options.build, "tidemark"), "report", "--json", profile],
        check=True, capture_output=True)
    return Cost(*cost_of(out), json.loads(report.stdout)["gc"]["Cycles"])


def measured(options):
    for name, command, environment in workloads(options):
        with tempfile.TemporaryDirectory() as folder:
            yield name, run(options, command, environment, folder)


def mean_events(costs):
    return sum(c.events / c.total for c in costs) / max(len(costs), 1)


# ---- what is shown ---------------------------------------------------------

def show(options):
    rows, costs = [], []
    if not options.json:
        print("%-14s %10s %8s %9s %9s" % ("workload", "M instr", "cycles",
                                          "events", "compare"))
    for name, cost in measured(options):
        costs.append(cost)
        rows.append(dict(cost._asdict(), name=name))
        if not options.json:
            print("%-14s %10.1f %8d %8.3f%% %8.3f%%" % (
                name, cost.total / 1e6, cost.cycles,
                100 * cost.events / cost.total,
                100 * cost.compare / cost.total), flush=True)
    if options.json:
        print(json.dumps({"workloads": rows}, indent=2))
    elif costs:
        print("%-14s %10s %8s %8.3f%% %8.3f%%" % (
            "mean", "", "", 100 * mean_events(costs),
            100 * sum(c.compare / c.total for c in costs) / len(costs)))
    return 0 if rows else 1


def test(options):
    if shutil.which("valgrind") is None:
        print("1..1\nok 1 - the watcher's cost # SKIP no valgrind")
        return 0
    n = failed = 0
    costs = []
    for name, cost in measured(options):
        costs.append(cost)
        # a few thousand instructions a cycle at the very least: it was there
        for what, share, most, is_seen in (
                ("events", cost.events / cost.total, MAX_EVENTS,
                 cost.events > 500 * cost.cycles),
                ("compare", cost.compare / cost.total, MAX_COMPARE,
                 cost.compare > 0)):
            n += 1
            good = is_seen and cost.cycles > 0 and share <= most
            failed += not good
            print("%sok %d - %s: %s take %.3f%%, %g%% at most (%d cycles)" % (
                "" if good else "not ", n, name, what, 100 * share, 100 * most,
                cost.cycles))
    mean = mean_events(costs)
    good = len(costs) >= 3 and mean <= MAX_MEAN
    print("%sok %d - events take %.3f%% in the mean, %g%% at most" % (
        "" if good else "not ", n + 1, 100 * mean, 100 * MAX_MEAN))
    print("1..%d" % (n + 1))
    return 0 if good and not failed else 1


def main():
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__.strip())
        return 0
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--build", required=True)
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LD_PRELOAD"):
        os.environ.pop(key, None)
    try:
        return test(options) if options.test else show(options)
    except (Failed, OSError) as problem:
        sys.exit("tidemark: bench: %s" % problem)


if __name__ == "__main__":
    sys.exit(main())
