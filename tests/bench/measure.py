"""Runs a workload plain and under others, in turn, and compares.

A machine that gets slower or faster hits all alike: every round runs each
variant once, every other round in the opposite order.
"""
import collections
import contextlib
import glob
import json
import math
import os
import shutil
import statistics
import subprocess
import tempfile

Spent = collections.namedtuple("Spent", "cpu_s wall_s peak_kib status output")

# What a program is run under.  library: what is preloaded; options: those of
# tidemark, None when it is not there; is_whole: the command is another one, so
# that its output and the processes it starts count too.
Variant = collections.namedtuple(
    "Variant", "name library options is_whole", defaults=(None, False))

QUIET = "report=none,quiet=1"


class Failed(Exception):
    """A run that did not do what it does without the profiler."""


def find_library(name):
    """The path of a library for LD_PRELOAD, or None."""
    found = sorted(glob.glob("/usr/lib/*/" + name))
    return found[0] if found else None


def variants(build, options, names):
    """Those of the names that can be run here, and a list of those not."""
    tidemark = os.path.join(build, "libtidemark.so")
    mimalloc = find_library("libmimalloc.so.2")
    jemalloc = find_library("libjemalloc.so.2")
    under = "%s:%s"
    known = {
        "plain": Variant("plain", ""),
        "tidemark": Variant("tidemark", tidemark, options),
        "native": Variant("native", tidemark, options + ["native=on"]),
        "arena": Variant("arena", tidemark, options + ["start=manual"]),
        "system": Variant("system", tidemark, options + ["backend=system"]),
        "mimalloc": mimalloc and Variant("mimalloc", mimalloc),
        "jemalloc": jemalloc and Variant("jemalloc", jemalloc),
        "system-mimalloc": mimalloc and Variant(
            "system-mimalloc", under % (tidemark, mimalloc),
            options + ["backend=system"]),
        "system-jemalloc": jemalloc and Variant(
            "system-jemalloc", under % (tidemark, jemalloc),
            options + ["backend=system"]),
        "heaptrack": shutil.which("heaptrack") and Variant(
            "heaptrack", "", is_whole=True),
    }
    return ([known[name] for name in names if known[name]],
            [name for name in names if not known[name]])


# ---- one run ----------------------------------------------------------------

def spend(spender, command, environment, count, folder):
    """Runs a command count times; all figures but the peak are of one run."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [spender, str(writing), str(count)] +
            ["%s=%s" % pair for pair in sorted(environment.items())] + command,
            stdin=subprocess.DEVNULL, stdout=output, cwd=folder,
            stderr=subprocess.DEVNULL, pass_fds=[writing])
        os.close(writing)
        with os.fdopen(reading) as line:
            figures = line.read().split()
        process.wait()
        output.seek(0)
        text = output.read()
    if len(figures) != 4:
        raise Failed("'%s' cannot be run" % command[0])
    cpu_us, wall_us, peak_kib, status = map(int, figures)
    return Spent(cpu_us / 1e6 / count, wall_us / 1e6 / count, peak_kib, status,
                 text)


def environment_of(workload, variant, profiles):
    added = dict(workload.environment)
    if variant.library:
        added["LD_PRELOAD"] = variant.library
    if variant.options is not None:
        added["TIDEMARK"] = ",".join(["out=" + profiles, QUIET] +
                                     variant.options)
    return added


def run_variant(spender, workload, variant, folder):
    """One run in FOLDER/work/; its profiles go to FOLDER/VARIANT/."""
    profiles = os.path.join(folder, variant.name)
    shutil.rmtree(profiles, ignore_errors=True)
    os.mkdir(profiles)
    command, count = workload.command, workload.count
    if variant.is_whole:
        command = ["heaptrack", "-o", os.path.join(profiles, "of")] + command
        count = 1
    return spend(spender, command, environment_of(
        workload, variant, os.path.join(profiles, "%p.tide")), count,
        os.path.join(folder, "work"))


def check_same(workload, variant, spent, plain):
    if variant.is_whole:
        return
    if (spent.status, spent.output) != (plain.status, plain.output):
        raise Failed("'%s' under %s does not run as it does without: status "
                     "%d for %d, %d bytes of output for %d" % (
                         workload.name, variant.name, spent.status,
                         plain.status, len(spent.output), len(plain.output)))


# ---- rounds -----------------------------------------------------------------

def rounds(spender, workload, chosen, n, folder):
    """Returns {variant name: [Spent, ...]}; the slow ones run once.

    What the first run of all finds is found by the others too: it makes files
    and fills caches, and is not counted.
    """
    runs = collections.defaultdict(list)
    work = os.path.join(folder, "work")
    os.mkdir(work)
    if workload.prepare:
        workload.prepare(work)
    run_variant(spender, workload, chosen[0], folder)
    for turn in range(n):
        order = chosen if turn % 2 == 0 else chosen[::-1]
        for variant in order:
            if variant.is_whole and turn > 0:
                continue
            runs[variant.name].append(
                run_variant(spender, workload, variant, folder))
    for variant in chosen:
        for spent in runs[variant.name]:
            check_same(workload, variant, spent, runs["plain"][0])
    return runs


def compared(runs, plain):
    """What a variant's runs cost, against the plain ones of their rounds."""
    ratios = [a.cpu_s / b.cpu_s for a, b in zip(runs, plain)]
    least = min(r.cpu_s for r in runs)
    peak = statistics.median(r.peak_kib for r in runs)
    return {
        "cpu_s": {"min": least,
                  "median": statistics.median(r.cpu_s for r in runs)},
        "ratio": {"min": least / min(r.cpu_s for r in plain),
                  "median": statistics.median(ratios),
                  "low": min(ratios), "high": max(ratios)},
        "more_ms": statistics.median(a.cpu_s - b.cpu_s
                                     for a, b in zip(runs, plain)) * 1000,
        "peak_kib": peak,
        "peak_ratio": peak / statistics.median(r.peak_kib for r in plain),
    }


def totals_of(build, profile):
    report = subprocess.run(
        [os.path.join(build, "tidemark"), "report", "--json", profile],
        stdout=subprocess.PIPE, check=True)
    return json.loads(report.stdout)["totals"]


def profile_figures(build, profiles, cpu_s):
    """Size and contents of a run's profiles; cpu_s is what the run took."""
    totals = [totals_of(build, profile) for profile in profiles]
    blocks = sum(t["alloc_blocks"] for t in totals)
    return {"profile_bytes": sum(map(os.path.getsize, profiles)),
            "alloc_blocks": blocks,
            "alloc_bytes": sum(t["alloc_bytes"] for t in totals),
            "blocks_per_s": blocks / cpu_s}


def measure(spender, build, workload, chosen, n):
    """The row of a workload."""
    with tempfile.TemporaryDirectory() as folder:
        runs = rounds(spender, workload, chosen, n, folder)
        profiles = glob.glob(os.path.join(folder, "tidemark", "*.tide"))
        row = {"name": workload.name, "group": workload.group,
               "variants": {v.name: compared(runs[v.name], runs["plain"])
                            for v in chosen},
               "noise_ms": noise_ms(runs["plain"])}
        if bool(profiles) == (workload.group == "no-lua"):
            raise Failed("'%s' leaves %d profiles" % (workload.name,
                                                      len(profiles)))
        row.update(profile_figures(
            build, profiles, row["variants"]["tidemark"]["cpu_s"]["min"]))
    return row


# ---- figures of all ---------------------------------------------------------

def noise_ms(plain):
    """How far apart plain runs are: the greatest less the least."""
    times = [r.cpu_s for r in plain]
    return (max(times) - min(times)) * 1000


def geometric(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def means(rows):
    """Geometric means over the rows in which each variant was run."""
    result = {}
    for name in {v for row in rows for v in row["variants"]}:
        of = [row["variants"][name] for row in rows if name in row["variants"]]
        result[name] = {
            "min": geometric(v["ratio"]["min"] for v in of),
            "median": geometric(v["ratio"]["median"] for v in of),
            "peak": geometric(v["peak_ratio"] for v in of)}
    return result
