#!/usr/bin/env python3
"""Runs tests/cases under the profiler and compares the books; prints TAP.

usage: cases.py --tidemark FILE [--direct] [--sniff] [--only CASE] -- INTERPRETER [ARG..]

A case is a Lua file whose head says what it must allocate, where a line is
named by a marker, `--@name`.  expected.tsv holds, for each marker, the bytes
that the line allocates without `buffer` and `stack` blocks, and a tolerance.
facts.tsv holds what else must be true:

  where                 line:MARKER, fn:NAME (a Lua function of the case),
                        def:MARKER (the Lua function whose body has the
                        marker), cfn:NAME (a C function), source:NAME (all its lines),
                        group:PREFIX (all lines of sources beginning so), run
                        (the whole report), cycles:KEY=VALUE,... and
                        sources:PREFIX (lists, for `count`); line=MARKER in a
                        list of keys stands for the marker's line
  field                 a path in that JSON object; `rank` of a line (1 is the
                        line that allocated most), `share` of all bytes in
                        percent, `count` of a list
  op                    ==, >=, <=, or ~N: within N percent
  value                 a number, stdout:N (the Nth word that the case prints)
                        or run:PATH

versions.tsv has rows that hold instead for one release of Lua, of expected.tsv
under the field `counted`.

A row that the report does not have counts as all zeros.  What a case prints
must be what it prints without the profiler; its numbers may differ a little,
since garbage depends on the hash seed.

--sniff   Lua has no names in the interpreter: with sniff=on.  What Lua
          functions are called is then not known, and facts about fn: left out.
--direct  the interpreter uses tidemark's C interface: it is started plainly,
          with the options in TIDEMARK.
"""
import argparse
import csv
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

CASES = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "cases")
SECONDS = 240


def rows(name):
    with open(os.path.join(CASES, name), encoding="utf-8", newline="") as file:
        for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            if row and not row[0].startswith("#"):
                yield row


class Case:
    """One file: its markers, and the report of one run of it."""

    def __init__(self, path):
        self.file = os.path.basename(path)
        self.number = self.file[:2]
        self.markers = {}
        with open(path, encoding="utf-8") as source:
            for n, line in enumerate(source, 1):
                for name in re.findall(r"--@(\w+)", line):
                    self.markers[name] = n
        self.plain = self.profiled = self.report = None
        self.why = ""

    def run(self, options, profile):
        environment = dict(os.environ)
        if self.plain is None:
            if options.direct:  # it makes a profile whatever it is told
                environment["TIDEMARK"] = "out=%s.plain" % profile
            self.plain = run(options.interpreter + [self.file], environment)
            environment = dict(os.environ)
        command = options.interpreter + [self.file]
        if options.direct:
            environment["TIDEMARK"] = "out=%s%s" % (
                profile, ",sniff=on" if options.sniff else "")
        else:
            command = [options.tidemark, "run", "--report", "none", "-o",
                       profile, "--"] + command
        self.profiled = run(command, environment)
        got = run([options.tidemark, "report", "--json", "--top", "0",
                   profile])
        try:
            self.report = json.loads(got.stdout)
        except ValueError:
            self.why = (got.stderr or self.profiled.stderr)[-300:]

    def line(self, marker):
        n = self.markers[marker]
        for rank, row in enumerate(self.report["lines"], 1):
            if row["source"] == self.file and row["line"] == n:
                total = self.report["totals"]["alloc_bytes"]
                return dict(row, rank=rank,
                            share=100.0 * row["alloc_bytes"] / total)
        return {}

    def counted(self, marker):
        """Bytes that collectgarbage("count") has seen, less the stacks'."""
        row = self.line(marker)
        return field(row, "alloc_bytes") - sum(
            field(row, "kinds.%s.alloc_bytes" % kind)
            for kind in ("buffer", "stack"))

    def functions(self, what, name):
        for row in self.report["functions"]:
            short = re.split(r"[.:]", row["name"] or "")[-1]
            if short != name:
                continue
            if what == "C" and row["what"] == "C" or \
                    what == "Lua" and row["source"] == self.file:
                yield row

    def around(self, marker):
        """The function that begins nearest above a marker."""
        inside = [row for row in self.report["functions"]
                  if row["source"] == self.file and
                  0 < row["linedefined"] <= self.markers[marker]]
        return max(inside, key=lambda row: row["linedefined"], default={})

    def cycles(self, keys):
        for cycle in self.report["gc"]["cycles"]:
            wanted = dict(key.split("=") for key in keys.split(","))
            if "line" in wanted:
                wanted["line"] = str(self.markers[wanted["line"]])
            if all(str(cycle.get(k)) == v for k, v in wanted.items()):
                yield cycle

    def find(self, where):
        """The object that a fact is about."""
        what, _, name = where.partition(":")
        lines = self.report["lines"]
        if what == "run":
            return self.report
        if what == "line":
            return self.line(name)
        if what == "fn":
            return added(self.functions("Lua", name))
        if what == "def":
            return self.around(name)
        if what == "cfn":
            return added(self.functions("C", name))
        if what == "source":
            return added(r for r in lines if r["source"] == name)
        if what == "group":
            return added(r for r in lines if r["source"].startswith(name))
        if what == "cycles":
            return {"count": len(list(self.cycles(name)))}
        if what == "sources":
            return {"count": len({r["source"] for r in lines
                                  if r["source"].startswith(name)})}
        raise ValueError("facts.tsv: what is '%s'?" % where)

    def value(self, text):
        what, _, name = text.partition(":")
        if what == "stdout":
            return float(self.profiled.stdout.split()[int(name) - 1])
        if what == "run":
            return field(self.report, name)
        return float(text)


def run(command, environment=None):
    try:
        return subprocess.run(command, cwd=CASES, env=environment,
                              capture_output=True, text=True,
                              errors="replace", timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "took too long")


def field(row, path):
    for key in path.split("."):
        row = row.get(key, {}) if isinstance(row, dict) else {}
    return row if isinstance(row, (int, float)) else 0


def added(found):
    """Adds up the numbers of rows, also those of objects in them."""
    total = {}
    for row in found:
        for key, value in row.items():
            if isinstance(value, dict):
                total[key] = added([total.get(key, {}), value])
            elif isinstance(value, (int, float)):
                total[key] = total.get(key, 0) + value
    return total


def holds(got, op, want):
    if op == "==":
        return got == want
    if op == ">=":
        return got >= want
    if op == "<=":
        return got <= want
    return abs(got - want) <= abs(want) * float(op[1:]) / 100.0


def same_text(a, b):
    """Equal but for numbers, which may differ by 2 or by 2 percent."""
    words_a, words_b = a.split(), b.split()
    if len(words_a) != len(words_b):
        return False
    for x, y in zip(words_a, words_b):
        if x == y:
            continue
        try:
            x, y = float(x), float(y)
        except ValueError:
            return False
        if abs(x - y) > max(2, 0.02 * abs(x)):
            return False
    return True


class Tap:
    def __init__(self):
        self.n = self.n_failed = 0

    def add(self, is_ok, name, why=""):
        self.n += 1
        self.n_failed += not is_ok
        print("%sok %d - %s" % ("" if is_ok else "not ", self.n,
                                name.replace("#", "")))
        for line in [] if is_ok else why.splitlines():
            print("# " + line)
        sys.stdout.flush()


def replaced(case, where, path, op, value, what):
    """A fact as it is for the release of Lua that ran."""
    release = case.report["run"]["lua"] if case.report else ""
    for row in rows("versions.tsv"):
        if release == "Lua " + row[0] and row[1:4] == [case.number, where,
                                                       path]:
            return row[4:7]
    return op, value, what


def judge(case, tap, expected, facts):
    tap.add(case.profiled.returncode == case.plain.returncode and
            same_text(case.plain.stdout, case.profiled.stdout),
            "%s: the program runs as without the profiler" % case.file,
            "%s\n%s\n%s" % (case.plain.stdout, case.profiled.stdout,
                            case.profiled.stderr[-500:]))
    tap.add(case.report is not None, "%s: there is a report" % case.file,
            case.why)
    for _, marker, want, percent, *_ in expected:
        op, want, _ = replaced(case, "line:" + marker, "counted",
                               "~" + percent, want, "")
        got = case.counted(marker) if case.report else None
        tap.add(got is not None and holds(got, op, float(want)),
                "%s: line %d (%s) allocates %s bytes" % (
                    case.file, case.markers[marker], marker, want),
                "it allocates %s" % got)
    for _, where, path, *rest in facts:
        op, value, what = replaced(case, where, path, *rest)
        got = want = None
        if case.report:
            got, want = field(case.find(where), path), case.value(value)
        tap.add(got is not None and holds(got, op, want),
                "%s: %s %s %s %s: %s" % (case.file, where, path, op, value,
                                         what),
                "it is %s, not %s %s" % (got, op, want))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--sniff", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4"):
        os.environ.pop(key, None)
    if options.sniff:
        os.environ["TIDEMARK"] = "sniff=on"
    options.tidemark = os.path.abspath(options.tidemark)
    if os.path.exists(options.interpreter[0]):
        options.interpreter[0] = os.path.abspath(options.interpreter[0])
    expected, facts, tap = list(rows("expected.tsv")), list(
        rows("facts.tsv")), Tap()
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(glob.glob(os.path.join(CASES, "[0-9]*.lua"))):
            case = Case(path)
            if options.only not in case.file:
                continue
            case.run(options, os.path.join(folder, case.number + ".tide"))
            judge(case, tap, [r for r in expected if r[0] == case.number],
                  [r for r in facts if r[0] == case.number and
                   not (options.sniff and r[1].startswith("fn:"))])
    print("1..%d" % tap.n)
    return 1 if tap.n_failed or tap.n == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
