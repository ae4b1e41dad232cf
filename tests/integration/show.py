#!/usr/bin/env python3
"""The commands that show two profiles or a source: diff, annotate; and the
pager.  Prints TAP.

usage: show.py --tidemark FILE
"""
import argparse
import json
import os
import pty
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli import Cli, Tap  # noqa: E402


def check_use(cli):
    for name in ("diff", "annotate"):
        cli.expect("help " + name, cli("help", name), 0, "^$",
                   "usage: tidemark " + name)
    wrong = [
        (["report", "--html"], "option '--html' needs a value"),
        (["report", "--base", "x", "--by", "stack", "y"], "--base: rows are"),
        (["diff", "x"], "two profiles are needed"),
        (["diff", "x", "y", "z"], "'z' is one too many"),
        (["diff", "--by", "stack", "x", "y"], "--by takes"),
        (["diff", "--sort", "name", "x", "y"], "--sort takes a figure"),
        (["diff", "--min", "10Q", "x", "y"], "--min takes a size"),
        (["diff", "--tides", "x", "y"], "unknown option '--tides'"),
        (["annotate"], "which profile"),
        (["annotate", "x", "y", "z"], "'z' is one too many"),
        (["annotate", "--color", "red", "x"], "--color takes"),
    ]
    for args, why in wrong:
        cli.expect(" ".join(args), cli(*args), 2, "^tidemark: .*" + why)
    cli.expect("a page of no profile", cli("report", "--html", "x.html",
                                           "none"), 3, "^tidemark: none: ")
    cli.tap.add(not os.path.exists(cli.path("x.html")), "makes no page")


def check_diff(cli):
    """Rows stay matched below an edit; the books of both runs are whole."""
    work = "local kept = {}\nlocal function work()\n  for i = 1, %d do\n" \
           "    kept[#kept + 1] = {i}\n  end\nend\nwork()\n"
    for name, text in (("a", work % 1000), ("b", "-- x\n\n" + work % 3000)):
        os.makedirs(cli.path(name), exist_ok=True)
        script = cli.write(name + "/work.lua", text)
        os.utime(cli.path(script), (1e9, 1e9))
        cli("run", "-o", name + ".tide", "--report", "none", script)
    got = json.loads(cli("diff", "--json", "a.tide", "b.tide").stdout)
    rows = {row["line"]: row for row in got["lines"]
            if row["source"].endswith("work.lua")}
    row = rows.get(6, {})
    cli.tap.add(row.get("state") == "both" and row["line_base"] == 4 and
                row["alloc_bytes_delta"] > 2 * row["alloc_bytes_base"] * 0.8,
                "diff matches what stands below an edit", rows)
    for side in ("", "_base", "_delta"):
        key = "alloc_bytes" + side
        cli.tap.add(sum(r[key] for r in got["lines"]) +
                    got["totals"]["unattributed_bytes" + side] ==
                    got["totals"][key] ==
                    sum(r["self_bytes" + side] for r in got["functions"]),
                    "diff: lines and functions add up: " + key)
    cli.tap.add(all(
        r[key + "_delta"] == [n - b for n, b in zip(r[key], r[key + "_base"])]
        and len(r[key]) == 4 and r["age_bytes"][0] == r["died_young_bytes"]
        and sum(r["age_bytes"]) <= r["freed_bytes"]
        for r in got["lines"] for key in ("age_bytes", "age_blocks")),
        "diff: ages at death of both runs", got["lines"])
    cli.expect("diff", cli("diff", "a.tide", "b.tide"), 0, "^$",
               r"(?m)^ *\+\S+ \w+ .*work\.lua:6  work")
    cli.expect("diff the other way", cli("diff", "b.tide", "a.tide"), 0, "^$",
               r"(?m)^ *-\S+ \w+ .*work\.lua:4  work")
    cli.expect("report --base", cli("report", "--base", "a.tide", "b.tide"),
               0, "^$", r"lines by change of allocated bytes")
    got = cli("diff", "--color", "always", "a.tide", "b.tide").stdout
    cli.tap.add(b"\x1b[31m" in got, "diff --color: more is red")
    cli.expect("diff of nothing", cli("diff", "none", "b.tide"), 3,
               "^tidemark: none: ")


def check_annotate(cli):
    cli.expect("annotate", cli("annotate", "b.tide", "work.lua"), 0, "^$",
               r"(?m)KiB +[\d,]+ +\d.* 6  +kept\[#kept \+ 1\] = \{i\}$")
    cli.expect("annotate takes the heaviest", cli("annotate", "b.tide"), 0,
               "^$", "^b/work.lua: ")
    cli.expect("annotate of no source", cli("annotate", "b.tide", "no.lua"),
               1, "^tidemark: no.lua: no line of it")
    got = cli("annotate", "--color", "always", "b.tide").stdout
    cli.tap.add(b"\x1b[31m" in got, "annotate --color: the hot line is red")
    os.rename(cli.path("b/work.lua"), cli.path("b/gone.lua"))
    cli.expect("annotate without the source", cli("annotate", "b.tide"), 1,
               "^tidemark: b/work.lua: the source is not at hand")


def at_terminal(cli, env, *args):
    """Runs it with stdout a terminal: its status, stdout, stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([cli.tidemark, *args], cwd=cli.folder, env=env,
                               stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    text = b""
    try:
        while True:
            text += os.read(ours, 65536)
    except OSError:
        os.close(ours)
    _, err = process.communicate()
    return process.returncode, text, err


def check_pager(cli):
    """On a terminal a pager reads; elsewhere there is none."""
    env = dict(cli.env, TIDEMARK_PAGER="sed 's/^/paged: /'", TERM="xterm")
    done = subprocess.run([cli.tidemark, "diff", "a.tide", "b.tide"],
                          cwd=cli.folder, env=env, capture_output=True)
    cli.tap.add(b"paged" not in done.stdout, "no pager for a pipe")
    status, text, _ = at_terminal(cli, env, "diff", "a.tide", "b.tide")
    cli.tap.add(status == 0 and text.count(b"paged: ") > 10 and
                b"\x1b[31m" in text, "a pager reads from a terminal's program",
                text[-500:])
    cli.write("long.lua", "local t = {}\n" + "t[#t + 1] = {}\n" * 40000)
    os.utime(cli.path("long.lua"), (1e9, 1e9))
    cli("run", "-o", "long.tide", "--report", "none", "long.lua")
    env["TIDEMARK_PAGER"] = "head -2"
    status, text, err = at_terminal(cli, env, "annotate", "long.tide")
    cli.tap.add(status == 0 and err == b"" and text.count(b"\n") == 2,
                "a pager that is left early is no error", (status, text, err))


def check_page(cli):
    got = cli("report", "--html", "-", "b.tide")
    if b"not built in" in got.stderr:
        return
    cli.tap.add(got.returncode == 0 and got.stdout.startswith(b"<!DOCTYPE") and
                got.stdout.endswith(b"</html>\n"), "a page on stdout", got)
    cli.expect("a page where none can be made",
               cli("report", "--html", "no/such/x.html", "b.tide"), 1,
               "^tidemark: no/such/x.html: No such file")
    cli.expect("a page on a full disk",
               cli("report", "--html", "/dev/full", "b.tide"), 1,
               "^tidemark: /dev/full: No space left")
    cli.write("t.lua", "local x = {}")
    cli.expect("run --report html", cli("run", "-o", "t.tide", "--report",
                                        "html", "t.lua"), 0, "page: t.html")
    cli.tap.add(os.path.getsize(cli.path("t.html")) > 50000,
                "run --report html writes a page")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    options.golden = options.man = options.lua = None
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(options, folder, tap)
        for check in (check_use, check_diff, check_page, check_pager,
                      check_annotate):
            check(cli)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
