#!/usr/bin/env python3
"""`tidemark export`, and the saved runs of gcprof: what is written is what the
report says, and is read again.  Prints TAP.

usage: export.py --tidemark FILE --man FILE -- INTERPRETER
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli import Cli, Tap  # noqa: E402

WORK = """\
local kept = {}
local function make(n)
  for i = 1, n do kept[#kept + 1] = {i} end
end
local function drop(n)
  for i = 1, n do local s = ("x"):rep(500 + i) end
end
for i = 1, 5 do make(%d) drop(%d) end
"""

OLD = [["hook", "Think.Foo", "lua/foo.lua:12", 1024.5, 200, 12.25],
       ["hook", "Think.Bar", "lua/foo.lua:30-44", 64, 100, 1],
       ["timer", "save", "lua/save.lua:3", 10, 5, 4],
       ["net", "silent", "", 0, 0, 0]]
NEW = [["hook", "Think.Foo", "lua/foo.lua:12", 524.5, 100, 12.25],
       ["hook", "Think.Bar", "lua/foo.lua:30-44", 128, 100, 2],
       ["timer", "load", "lua/load.lua:9", 17, 5, 4]]


def report_of(cli, file):
    return json.loads(cli("report", "--json", file).stdout)


def check_use(cli):
    formats = re.findall(r"(?m)^  ([a-z][a-z-]+)  +\S",
                         cli("help", "export").stdout.decode())
    cli.tap.add({"folded", "speedscope", "gcprof", "openmetrics"} <=
                set(formats), "help names the formats", formats)
    with open(cli.man, encoding="utf-8") as file:
        man = file.read()
    cli.tap.add(all("**%s**" % name in man for name in formats),
                "so does the man page", formats)
    wrong = [
        ([], 2, "to which format"),
        (["--to", "folded"], 2, "one FILE is needed"),
        (["--to", "folded", "x", "y"], 2, "one FILE is needed"),
        (["--to", "xml", "x"], 2, "--to takes one of folded, .*not 'xml'"),
        (["--tides"], 2, "unknown option '--tides'"),
        (["--to", "folded", "none"], 3, "none: No such file"),
    ]
    for args, status, why in wrong:
        cli.expect("export " + " ".join(args), cli("export", *args), status,
                   "^tidemark: .*" + why, "^$")
    for format_name in formats:
        cli.expect("export --to %s" % format_name,
                   cli("export", "--to", format_name, "a.tide"), 0, "^$", r"\S")
        cli.expect("%s on a full disk" % format_name,
                   cli("export", "--to", format_name, "-o", "/dev/full",
                       "a.tide"), 1, "^tidemark: /dev/full: No space left")
    cli.expect("-o", cli("export", "--to", "folded", "-o", "out.txt",
                         "a.tide"), 0, "^$", "^$")
    with open(cli.path("out.txt"), "rb") as file:
        cli.tap.add(file.read() == cli("export", "--to", "folded",
                                       "a.tide").stdout,
                    "writes the same to a file")


def check_callgrind(cli, report):
    """Own costs add up; valgrind's own tool reads the same."""
    cli("export", "--to", "callgrind", "-o", "callgrind.out.a", "a.tide")
    with open(cli.path("callgrind.out.a"), encoding="utf-8") as file:
        text = file.read()
    own, is_call = 0, False
    calls = {}
    for line in text.splitlines():
        if line.startswith("fn="):
            function = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"\d+ \d+ \d+ \d+$", line):
            n = int(line.split()[1])
            if is_call:
                calls[function, callee] = calls.get((function, callee), 0) + n
            own += 0 if is_call else n
            is_call = False
    cli.tap.add(own == report["totals"]["alloc_bytes"],
                "callgrind: costs of lines sum to all bytes", own)
    rep = next(f for f in report["functions"] if f["name"] == "string.rep")
    cli.tap.add(calls.get(("drop:5", "string.rep")) == rep["total_bytes"],
                "a call has what is below it", calls)
    if shutil.which("callgrind_annotate"):
        got = subprocess.run(
            ["callgrind_annotate", "--inclusive=yes", "callgrind.out.a"],
            cwd=cli.folder, capture_output=True).stdout.decode()
        drop = next(f for f in report["functions"] if f["name"] == "drop")
        cli.tap.add(re.search(r"(?m)^ *%s .*work\.lua:drop:5" %
                              format(drop["total_bytes"], ","), got),
                    "callgrind_annotate shows a function with its callees",
                    got)


def check_figures(cli):
    """Sums are those of the report, stacks too."""
    report = report_of(cli, "a.tide")
    text = cli("export", "--to", "folded", "a.tide").stdout.decode()
    stacks = {}
    for line in text.splitlines():
        stack, _, n = line.rpartition(" ")
        stacks[stack] = stacks.get(stack, 0) + int(n)
    cli.tap.add(sum(stacks.values()) == report["totals"]["alloc_bytes"],
                "folded stacks sum to all bytes")
    rep = sum(n for stack, n in stacks.items()
              if re.search(r"drop work\.lua:6;string\.rep [^;]+$", stack))
    wanted = next(f["self_bytes"] for f in report["functions"]
                  if f["name"] == "string.rep")
    cli.tap.add(rep == wanted > 10000, "callers stand before callees", text)
    check_callgrind(cli, report)
    rows = json.loads(cli("export", "--to", "gcprof", "a.tide").stdout)
    cli.tap.add(round(sum(row[3] for row in rows) * 1024) ==
                report["totals"]["alloc_bytes"],
                "rows of gcprof sum to all bytes")
    make = next(f for f in report["functions"] if f["name"] == "make")
    cli.tap.add([make["source"], "make", "work.lua:2",
                 make["self_bytes"], make["calls"], make["max_call_bytes"]] in
                [[r[0], r[1], r[2], round(r[3] * 1024), r[4],
                  round(r[5] * 1024)] for r in rows],
                "a row has the function's figures", rows)
    metrics = cli("export", "--to", "openmetrics", "a.tide").stdout.decode()
    found = dict(re.findall(r"(?m)^(\S+) (\S+)$", metrics))
    cli.tap.add(all(int(found['lua_alloc_bytes_total{kind="%s"}' % kind]) ==
                    counts["alloc_bytes"]
                    for kind, counts in report["kinds"].items()),
                "metrics by kind are the report's", metrics)


def check_round_trip(cli):
    """Out, in and out again: nothing is lost."""
    cli("export", "--to", "gcprof", "-o", "saved.json", "a.tide")
    with open(cli.path("saved.json")) as file:
        rows = json.load(file)
    again = json.loads(cli("export", "--to", "gcprof", "saved.json").stdout)
    plain = [[row[1]] + row[3:] for row in rows if row[4] or row[3]]
    cli.tap.add(sorted(plain) == sorted([row[1]] + row[3:] for row in again
                                        if row[4] or row[3]),
                "a saved run has the figures that were saved", again)
    report = report_of(cli, "saved.json")
    cli.tap.add(report["totals"]["alloc_bytes"] ==
                report_of(cli, "a.tide")["totals"]["alloc_bytes"],
                "its report has all bytes")
    got = cli("diff", "--json", "a.tide", "saved.json")
    rows = {row["name"]: row for row in json.loads(got.stdout)["functions"]}
    cli.tap.add(all(rows[name]["state"] == "both" and
                    rows[name]["self_bytes_delta"] == 0 and
                    rows[name]["calls_delta"] == 0
                    for name in ("make", "drop")),
                "a profile and its saved run differ in nothing", rows)
    rows = json.loads(got.stdout)["targets"]
    saved = [row for row in rows if row["state"] != "gone" and
             row["alloc_bytes"] > 0 and row["group"] in ("string", "table")]
    cli.tap.add(len(saved) > 0 and
                all(row["state"] == "both" and row["alloc_bytes_delta"] == 0
                    for row in saved),
                "nor do targets that are functions of libraries", rows)


def check_saved_runs(cli):
    """report and diff of files that gcprof has written."""
    for name, rows in (("old.json", OLD), ("new.json", NEW)):
        cli.write(name, json.dumps(rows))
    cli.expect("report of a saved run", cli("report", "old.json"), 0, "^$",
               r"a saved run of gcprof[\s\S]*targets by allocated bytes[\s\S]*"
               r"1\.00 MiB .* 200 +5\.12 KiB +12\.2 KiB +hook +Think\.Foo")
    cli.expect("a target that recorded nothing", cli("report", "old.json"), 0,
               "^$", r"net +silent[\s\S]*nothing recorded")
    cli.expect("groups have sums", cli("report", "--by", "group", "old.json"),
               0, "^$", r"1\.06 MiB .* hook")
    got = cli("diff", "old.json", "new.json")
    cli.expect("diff of saved runs", got, 0, "^$",
               r"targets by change of allocated bytes[\s\S]*"
               r"\+64\.0 KiB +64\.0 KiB +128 KiB +\+100\.0% +hook +Think\.Bar")
    cli.expect("rows that vanished", got, 0, None,
               r"-10\.0 KiB +10\.0 KiB +- +\(gone\) +timer +save")
    cli.expect("rows that are new", got, 0, None,
               r"\+17\.0 KiB +- +17\.0 KiB +new +timer +load")
    cli.expect("which columns may be compared", got, 0, None,
               "is not known: compare B/call and worst")
    text = cli("diff", "--color", "always", "old.json", "new.json").stdout
    cli.tap.add(re.search(rb"\x1b\[31m *\+64\.0 KiB", text) and
                re.search(rb"\x1b\[32m *-500 KiB", text),
                "worse is red, better is green", text)
    wide = cli("diff", "old.json", "new.json", env={"COLUMNS": "200"})
    cli.expect("every column is a change", wide, 0, "^$",
               r"change +base +new +blocks +live +B/call +calls +worst +peak "
               r"[\s\S]*-500 KiB.* -100 .*Think\.Foo")
    cli.expect("by the worst call", cli("diff", "--sort", "worst", "old.json",
                                        "new.json"), 0, "^$",
               r"\+1\.00 KiB +1\.00 KiB +2\.00 KiB +\+100\.0% +hook +Think\.Bar")
    rows = json.loads(cli("diff", "--json", "old.json", "new.json").stdout)
    states = {row["target"]: (row["state"], row["alloc_bytes_delta"])
              for row in rows["targets"]}
    cli.tap.add(states.get("Think.Foo") == ("both", -500 * 1024) and
                states.get("save") == ("gone", -10 * 1024) and
                states.get("load") == ("new", 17 * 1024),
                "the JSON of the diff has the same targets", states)
    moved = [["hook", "Think.Foo", "lua/foo.lua:99", 1024.5, 200, 12.25],
             ["net", "Think.Foo", "lua/foo.lua:12", 64, 200, 12.25]]
    cli.write("moved.json", json.dumps(moved))
    rows = json.loads(cli("diff", "--json", "old.json", "moved.json").stdout)
    states = {(row["group"], row["target"]): row["state"]
              for row in rows["targets"]}
    cli.tap.add(states.get(("hook", "Think.Foo")) == "both" and
                states.get(("net", "Think.Foo")) == "new",
                "targets are matched on group, name and source", states)


def check_damaged(cli):
    rows = {
        "no list": ('{"rows": []}', "no list of rows"),
        "cut": ('[["a", "b", "c", 1, 2', "damaged JSON: .* line 1"),
        "a row of words": ('["abc"]', "row 1 is no "),
        "a short row": ('[["a","b","c",1,2,3],["a","b"]]', "row 2 is no "),
        "a number for a name": ('[["a",7,"c",1,2,3]]',
                                "row 1: 'target' is no string"),
        "a name for a number": ('[["a","b","c","1",2,3]]',
                                "row 1: 'kb' is no number"),
        "a debt": ('[["a","b","c",1,-2,3]]', "row 1: 'calls' is negative"),
        "too much": ('[["a","b","c",1e300,2,3]]', "row 1: 'kb' is too large"),
        "no UTF-8": (b'[["\xff","b","c",1,2,3]]', "damaged JSON"),
        "deep": ("[" * 100000, "damaged JSON"),
    }
    for name, (text, why) in rows.items():
        cli.write("bad.json", text)
        cli.expect("a saved run that is damaged: " + name,
                   cli("report", "bad.json"), 3,
                   "^tidemark: bad.json: .*%s[^\n]*\n$" % why, "^$")
    cli.write("bad.json", "[]")
    cli.expect("an empty one is none", cli("report", "bad.json"), 0, "^$",
               "allocated 0 B")
    cli.write("odd.json", json.dumps([
        ["g", "x\x1b[31my", "a.lua:99999999999", 1, 1, 1],
        ["g", "x" * 9000, ":12", 2, 2, 2, "more", {}]]))
    got = cli("report", "odd.json")
    cli.expect("odd names and places", got, 0, "^$", r"3\.00 KiB|2\.00 KiB")
    cli.tap.add(b"\x1b" not in got.stdout, "do no harm", got.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--man", required=True)
    parser.add_argument("interpreter")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    options.man = os.path.abspath(options.man)
    options.lua, options.golden = options.interpreter, None
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(options, folder, tap)
        os.mkdir(cli.path("temporary"))
        cli.env["TMPDIR"] = cli.path("temporary")
        cli.write("work.lua", WORK % (100, 50))
        cli("run", "-o", "a.tide", "--report", "none", "--", cli.lua,
            "work.lua")
        for check in (check_use, check_figures, check_round_trip,
                      check_saved_runs, check_damaged):
            check(cli)
        tap.add(os.listdir(cli.path("temporary")) == [],
                "nothing is left in the folder for temporary files",
                os.listdir(cli.path("temporary")))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
