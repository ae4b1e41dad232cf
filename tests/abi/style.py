#!/usr/bin/env python3
"""Measures the C sources against the limits in CONTRIBUTING.md.

Prints the lengths of functions by folder, and one TAP line for every limit;
the exit status is 1 when one is broken.
"""
import os
import re
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from layers import read, sources  # noqa: E402

COLUMNS = 80
LONG_FUNCTION = 60      # lines between the braces
LONG_SHARE = 2.0        # percent of functions that may be longer
MEDIAN = 12             # lines
FILE_LINES = 1000
HEAD = range(3, 20)     # lines of the comment that opens a file
INSIDE_HOST = ("alloc", "attrib", "profile")


def functions(text):
    """Yields (name, lines between its braces) of every function."""
    head, start = "", None
    for n, line in enumerate(text.splitlines()):
        if line == "{" and head:
            start = n
        elif line.startswith("}"):
            if start is not None:
                yield head, n - start - 1
            head, start = "", None
        elif start is None:
            found = re.match(r"^[A-Za-z_].*?\b(\w+)\(", line)
            if found and not line.rstrip().endswith(";"):
                head = found.group(1)


def head_lines(text):
    """Lines of the comment at the top; 0 without one."""
    if not text.startswith("/*"):
        return 0
    return text[:text.find("*/")].count("\n") + 1


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def table(lengths):
    rows = ["# %-10s %9s %7s %4s %8s" % ("folder", "functions", "median",
                                         "p90", "over %d" % LONG_FUNCTION)]
    for folder, values in lengths.items():
        if values:
            rows.append("# %-10s %9d %7d %4d %8d" % (
                folder, len(values), statistics.median(values),
                percentile(values, 0.9),
                sum(v > LONG_FUNCTION for v in values)))
    return "\n".join(rows)


def faults_of(path, text):
    for n, line in enumerate(text.splitlines(), 1):
        if len(line) > COLUMNS:
            yield "columns", "%s:%d has %d columns" % (path, n, len(line))
        if "\t" in line:
            yield "blanks", "%s:%d has a tab" % (path, n)
        if line != line.rstrip():
            yield "blanks", "%s:%d has blanks at its end" % (path, n)
        if re.search(r"\b(FIXME|XXX|TODO)\b(?!\(#\d+\))", line):
            yield "todo", "%s:%d has a loose end" % (path, n)
    if text.count("\n") > FILE_LINES:
        yield "files", "%s has %d lines" % (path, text.count("\n"))
    if path.endswith(".c") and head_lines(text) not in HEAD:
        yield "heads", "%s opens with %d lines of comment" % (
            path, head_lines(text))


def asserts_per_kloc(texts):
    lines = sum(text.count("\n") for text in texts)
    n = sum(len(re.findall(r"\b(?:tide_assert|static_assert|_Static_assert)\w*"
                           r"\s*\(", text)) for text in texts)
    return 1000.0 * n / lines if lines else 0.0


def main():
    faults = {"columns": [], "blanks": [], "todo": [], "files": [],
              "heads": [], "functions": []}
    lengths, inside = {}, []
    for path in sources():
        text, folder = read(path), path.split("/")[0]
        for what, fault in faults_of(path, text):
            faults[what].append(fault)
        lengths.setdefault(folder, []).extend(
            n for _, n in functions(text))
        if folder in INSIDE_HOST:
            inside.append(text)
    shipped = [n for folder, values in lengths.items() if folder != "tests"
               for n in values]
    share = 100.0 * sum(v > LONG_FUNCTION for v in shipped) / len(shipped)
    if statistics.median(shipped) > MEDIAN or share > LONG_SHARE:
        faults["functions"].append("median %d, %.1f %% above %d lines" % (
            statistics.median(shipped), share, LONG_FUNCTION))
    names = {
        "columns": "no line is longer than %d columns" % COLUMNS,
        "blanks": "no tabs, no blanks at the end of a line",
        "todo": "no loose ends without an issue",
        "files": "no file is longer than %d lines" % FILE_LINES,
        "heads": "every .c opens with a comment of %d to %d lines" % (
            HEAD[0], HEAD[-1]),
        "functions": "functions are short: median %d, %.0f %% above %d" % (
            MEDIAN, LONG_SHARE, LONG_FUNCTION),
    }
    print("1..%d" % len(names))
    print(table(lengths))
    print("# %.1f assertions per 1000 lines in %s" % (
        asserts_per_kloc(inside), " ".join(INSIDE_HOST)))
    for n, (what, name) in enumerate(names.items(), 1):
        print("%sok %d - %s" % ("not " if faults[what] else "", n, name))
        for fault in faults[what]:
            print("# " + fault)
    return 1 if any(faults.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
