"""The benchmark's figures as text: a table, peers, and what was to be reached.
"""

# What the profiler is to cost.
MEAN_RATIO = 0.95
EACH_RATIO = 1.05
PEAK_RATIO = 1.15
START_MS = 5.0

# The same with C frames: where most is made in C modules, and where little is.
NATIVE_RATIOS = {"cjson": 1.5, "lpeg-re": 1.5, "ldoc": 1.1, "luarocks": 1.1,
                 "penlight": 1.1}

MIB = 1024 * 1024


def is_judged(row):
    """Whether a row counts by its ratio."""
    return row["group"] in ("classic", "program")


def size(n_bytes):
    for unit, divisor in (("M", MIB), ("K", 1024)):
        if n_bytes >= divisor:
            return "%.1f%s" % (n_bytes / divisor, unit)
    return "%dB" % n_bytes


def main_table(rows, mean):
    yield ("%-14s %8s %8s %5s %6s %10s %7s %7s %5s %8s %6s" % (
        "workload", "plain s", "with s", "min", "median", "spread", "plain M",
        "with M", "peak", "profile", "Mal/s"))
    for row in filter(is_judged, rows):
        plain, ours = row["variants"]["plain"], row["variants"]["tidemark"]
        yield ("%-14s %8.3f %8.3f %5.2f %6.2f %10s %7.1f %7.1f %5.2f %8s "
               "%6.2f" % (
                   row["name"], plain["cpu_s"]["min"], ours["cpu_s"]["min"],
                   ours["ratio"]["min"], ours["ratio"]["median"],
                   "%.2f..%.2f" % (ours["ratio"]["low"],
                                   ours["ratio"]["high"]),
                   plain["peak_kib"] / 1024, ours["peak_kib"] / 1024,
                   ours["peak_ratio"], size(row["profile_bytes"]),
                   row["blocks_per_s"] / 1e6))
    if mean:
        yield "%-14s %8s %8s %5.2f %6.2f %10s %7s %7s %5.2f" % (
            "geometric mean", "", "", mean["tidemark"]["min"],
            mean["tidemark"]["median"], "", "", "", mean["tidemark"]["peak"])


def peer_table(rows, mean, names):
    """CPU time and peak memory of each, plain being 1."""
    width = "%-14s" + " %15s" * len(names)
    yield "cpu time / peak memory, the plain run being 1"
    yield width % (("workload",) + tuple(names))
    for row in filter(is_judged, rows):
        of = row["variants"]
        yield width % ((row["name"],) + tuple(
            "%.2f / %.2f" % (of[name]["ratio"]["min"], of[name]["peak_ratio"])
            if name in of else "-" for name in names))
    yield width % (("geometric mean",) + tuple(
        "%.2f / %.2f" % (mean[name]["min"], mean[name]["peak"])
        for name in names))


def start_table(rows):
    others = [row for row in rows if not is_judged(row)]
    if not others:
        return
    yield "%-14s %10s %10s %10s %10s" % (
        "start-up", "plain ms", "with ms", "more ms", "noise ms")
    for row in others:
        plain, ours = row["variants"]["plain"], row["variants"]["tidemark"]
        yield "%-14s %10.2f %10.2f %10.2f %10.2f" % (
            row["name"], plain["cpu_s"]["min"] * 1000,
            ours["cpu_s"]["min"] * 1000, ours["more_ms"], row["noise_ms"])


# ---- what was to be reached -------------------------------------------------

def verdict(what, value, limit, form="%.2f"):
    return {"what": what, "value": value, "limit": limit,
            "is_reached": value <= limit,
            "text": "%s: %s, to be at most %s: %s" % (
                what, form % value, form % limit,
                "reached" if value <= limit else "NOT reached")}


def worst(rows, figure):
    row = max(rows, key=figure)
    return row["name"], figure(row)


def verdicts(rows, mean):
    """The judgements that these rows allow."""
    judged = list(filter(is_judged, rows))
    if judged:
        yield verdict("geometric mean", mean["tidemark"]["min"], MEAN_RATIO)
        name, value = worst(
            judged, lambda r: r["variants"]["tidemark"]["ratio"]["min"])
        yield verdict("worst workload (%s)" % name, value, EACH_RATIO)
        name, value = worst(
            judged, lambda r: r["variants"]["tidemark"]["peak_ratio"])
        yield verdict("most memory (%s)" % name, value, PEAK_RATIO)
    for row in rows:
        ours = row["variants"]["tidemark"]
        if row["name"] == "empty-script":
            yield verdict("start-up more, ms", ours["more_ms"], START_MS)
        elif row["group"] == "no-lua":
            yield verdict("%s more, ms" % row["name"], ours["more_ms"],
                          row["noise_ms"])


def report(rows, mean, names):
    """Lines of everything; names: of the variants beside tidemark."""
    if any(map(is_judged, rows)):
        yield from main_table(rows, mean)
        yield ""
        if names:
            yield from peer_table(rows, mean, names)
            yield ""
    if any(not is_judged(row) for row in rows):
        yield from start_table(rows)
        yield ""
    for one in verdicts(rows, mean):
        yield one["text"]


# ---- C frames ---------------------------------------------------------------

def native_verdicts(rows):
    for row in rows:
        yield verdict("%s with native=on" % row["name"],
                      row["variants"]["native"]["ratio"]["min"],
                      NATIVE_RATIOS[row["name"]])


def native_report(rows):
    yield ("%-14s %8s %8s %8s %6s %6s %6s %10s %7s" % (
        "workload", "plain s", "with s", "native s", "with", "native", "median",
        "spread", "at most"))
    for row in rows:
        plain, ours, native = (row["variants"][name]
                               for name in ("plain", "tidemark", "native"))
        yield "%-14s %8.3f %8.3f %8.3f %6.2f %6.2f %6.2f %10s %7.2f" % (
            row["name"], plain["cpu_s"]["min"], ours["cpu_s"]["min"],
            native["cpu_s"]["min"], ours["ratio"]["min"],
            native["ratio"]["min"], native["ratio"]["median"],
            "%.2f..%.2f" % (native["ratio"]["low"], native["ratio"]["high"]),
            NATIVE_RATIOS[row["name"]])
    above = [v["what"].split()[0] for v in native_verdicts(rows)
             if not v["is_reached"]]
    yield ""
    yield "C frames cost what they may: %s" % (
        "reached" if not above else "NOT reached by " + ", ".join(above))
