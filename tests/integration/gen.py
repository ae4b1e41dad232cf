#!/usr/bin/env python3
"""Random Lua programs under the profiler; prints TAP, one line for each seed.

usage: gen.py --tidemark FILE [--seeds N] [--first N] [--module FILE]
              [--program FILE] [--keep DIR] -- INTERPRETER [ARG..]

Every program (of gen.lua, or FILE with its seed) must print what it prints without the profiler, and

  - a build with -Dcheck=full walks the whole stack at each allocation and
    compares it with what the profiler believes: not one difference;
  - the books balance: what the report says is alive when the state closes, less
    `buffer`, is what collectgarbage("count") said last, to the byte;
  - the report adds up: lines, stacks and kinds sum to the totals;
  - `tidemark check` finds nothing wrong with the file.

--module  tidemark.so: the program then compares the books at random moments
          through require "tidemark" as well.
--keep    where to leave the program and its profile when a seed fails.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 240

# Runs the program with a function that compares the books from inside.
BOOKS = """
local tidemark = require "tidemark"
local function books(round)
  collectgarbage("stop")
  local before = collectgarbage("count") * 1024
  local stats = tidemark.stats()
  local after = collectgarbage("count") * 1024
  collectgarbage("restart")
  local seen = stats.live_bytes - (stats.buffer_bytes or 0)
    + (stats.before_bytes or 0)
  if seen < before or seen > after then
    io.stderr:write(string.format("books: round %d: %d is not in %d..%d\\n",
      round, seen, before, after))
    os.exit(98)
  end
end
tide_push, tide_pop = tidemark.push, tidemark.pop
assert(loadfile((...)))(books)
"""


def run(command, folder, **environment):
    try:
        return subprocess.run(command, cwd=folder, capture_output=True,
                              text=True, errors="replace", timeout=SECONDS,
                              env=dict(os.environ, **environment))
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", "took too long")


def total(rows, name):
    return sum(row[name] for row in rows)


def adds_up(report):
    """Yields what does not add up in a report."""
    totals, kinds = report["totals"], report["kinds"].values()
    unattributed = totals["unattributed_bytes"]
    sums = [
        ("kinds", "alloc_bytes", total(kinds, "alloc_bytes"), 0),
        ("kinds", "alloc_blocks", total(kinds, "alloc_blocks"), 0),
        ("kinds", "live_bytes", total(kinds, "live_bytes"), 0),
        ("kinds", "live_blocks", total(kinds, "live_blocks"), 0),
        ("lines", "alloc_bytes", total(report["lines"], "alloc_bytes"),
         unattributed),
        ("stacks", "alloc_bytes", total(report["stacks"], "alloc_bytes"),
         unattributed),
    ]
    for what, name, found, extra in sums:
        if found + extra != totals[name]:
            yield "%s: %s is %d in sum, not %d" % (
                what, name, found + extra, totals[name])
    if total(report["lines"], "moved_bytes") > totals["alloc_bytes"]:
        yield "lines: more bytes moved than were allocated"


def balance(report, stderr):
    """Compares live bytes at lua_close with Lua's own count."""
    counted = re.findall(r"^count (\d+)$", stderr, re.M)
    if len(counted) != 1:
        return "the program did not come to its end"
    buffers = report["kinds"]["buffer"]["live_bytes"]
    live = report["totals"]["live_bytes"] - buffers
    # An attach in mid-life: some of what was there may have been freed since.
    before = report["totals"]["before_attach_bytes"]
    if not live <= int(counted[0]) <= live + before:
        return "live bytes are %d and %d before, Lua counts %s" % (
            live, before, counted[0])
    return None


def program_of(options, folder, seed):
    """The text of a program."""
    if options.program:
        with open(options.program, encoding="utf-8") as file:
            return "local seed = %d\n%s" % (seed, file.read())
    made = run([options.lua, os.path.join(HERE, "gen.lua"), str(seed)], folder)
    if made.returncode != 0:
        raise ValueError("no program: " + made.stderr)
    return made.stdout


def faults(options, folder, seed):
    """Yields what is wrong with one seed."""
    program, profile = "p%d.lua" % seed, "p%d.tide" % seed
    try:
        text = program_of(options, folder, seed)
    except ValueError as error:
        yield str(error)
        return
    with open(os.path.join(folder, program), "w", encoding="utf-8") as file:
        file.write(text)
    plain = run(options.interpreter + [program], folder)
    traced = run([options.tidemark, "run", "--report", "none", "-o", profile,
                  "--"] + options.interpreter + [program], folder)
    if (plain.returncode, plain.stdout) != (traced.returncode, traced.stdout):
        yield "status %d, output %r; with the profiler %d, %r" % (
            plain.returncode, plain.stdout, traced.returncode, traced.stdout)
    if plain.returncode != 0 or "tidemark: check" in traced.stderr:
        yield traced.stderr[-1500:]
    checked = run([options.tidemark, "check", profile], folder)
    if checked.returncode != 0:
        yield "check: " + (checked.stdout + checked.stderr)[-500:]
    got = run([options.tidemark, "report", "--json", "--top", "0", profile],
              folder)
    try:
        report = json.loads(got.stdout)
    except ValueError:
        yield "no report: " + got.stderr[-500:]
        return
    try:
        yield from adds_up(report)
        wrong = balance(report, traced.stderr)
        if wrong:
            yield wrong
    except KeyError as missing:
        yield "the report has no %s" % missing
    if options.module:
        yield from inside(options, folder, program, plain)


def with_regions(text):
    """A region around each line that is a call of note(); errors and yields
    leave some of them open.  And how many."""
    n = 0
    lines = text.split("\n")
    for i, line in enumerate(lines):
        if re.fullmatch(r"\s*note\(.*\)", line) and \
                line.count("(") == line.count(")"):
            lines[i] = 'tide_push("r%d") %s tide_pop()' % (n % 7,
                                                           line.strip())
            n += 1
    return "\n".join(lines), n


def inside(options, folder, program, plain):
    """The same program, which asks the Lua module for its own books, plainly
    and with regions around many of its statements."""
    with open(os.path.join(folder, "books.lua"), "w",
              encoding="utf-8") as file:
        file.write(BOOKS)
    where = os.path.join(os.path.dirname(options.module), "?.so")
    with open(os.path.join(folder, program), encoding="utf-8") as file:
        text, n = with_regions(file.read())
    with open(os.path.join(folder, "r" + program), "w",
              encoding="utf-8") as file:
        file.write(text)
    for name in (program, "r" + program):
        traced = run([options.tidemark, "run", "--report", "none", "-o",
                      "books.tide", "--"] + options.interpreter +
                     ["books.lua", name], folder, LUA_CPATH=where + ";;")
        if (traced.returncode != 0 or traced.stdout != plain.stdout or
                "tidemark: check" in traced.stderr):
            yield "with books: %s: status %d\n%s" % (
                name, traced.returncode, traced.stderr[-1500:])
    got = run([options.tidemark, "report", "--json", "--top", "0",
               "books.tide"], folder)
    report = json.loads(got.stdout)
    if total(report["targets"], "alloc_bytes") != \
            report["totals"]["alloc_bytes"]:
        yield "targets do not add up"
    if n > 10 and not any(t["what"] == "region" for t in report["targets"]):
        yield "%d regions, and none in the report" % n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--also", default="",
                        help="seeds that once found a fault: 19,2285")
    parser.add_argument("--module", default="")
    parser.add_argument("--program", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--lua", default="lua5.4")
    parser.add_argument("interpreter", nargs="+")
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_PATH"):
        os.environ.pop(key, None)
    options.tidemark = os.path.abspath(options.tidemark)
    if not os.path.exists(options.tidemark):
        sys.exit("tidemark: gen: no such program: '%s'" % options.tidemark)
    if options.module:
        options.module = os.path.abspath(options.module)
    n_failed = 0
    seeds = list(range(options.first, options.first + options.seeds))
    seeds += [int(seed) for seed in options.also.split(",") if seed]
    print("1..%d" % len(seeds))
    for n, seed in enumerate(seeds, 1):
        with tempfile.TemporaryDirectory() as folder:
            found = list(faults(options, folder, seed))
            if found and options.keep:
                shutil.copytree(folder, options.keep, dirs_exist_ok=True)
        print("%sok %d - seed %d" % ("not " if found else "", n, seed))
        for fault in found:
            print("\n".join("# " + line for line in fault.splitlines()))
        sys.stdout.flush()
        n_failed += bool(found)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
