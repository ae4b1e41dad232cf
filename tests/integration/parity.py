#!/usr/bin/env python3
"""What users of gcprofiler and GcWatch have, from inside of Lua: programs in
parity/ that check the module against arithmetic and against Lua's own count,
and what the command says of the profiles that they leave.  Prints TAP.

usage: parity.py --tidemark FILE --module FILE [--types FILE] -- LUA
"""
import argparse
import json
import os
import re
import shutil
import sys
import tempfile

import hosts

HERE = os.path.dirname(os.path.abspath(__file__))
RULES = "brains module=game.* function=think\n"


def run_program(options, tap, folder, name, env):
    """Runs one program; its own checks become ours.  Its output."""
    done = hosts.run(["env"] + env + [options.lua, name + ".lua"], folder)
    n = 0
    for line in done.stdout.splitlines():
        found = re.match(r"(ok|not ok)\t([^\t]*)\t(.*)", line)
        if found:
            n += 1
            tap.add(found.group(1) == "ok",
                    "%s: %s" % (name, found.group(2)), found.group(3))
    tap.add(done.returncode == 0 and n > 5,
            "%s: runs to its end" % name, done.stderr)
    tap.add(done.stderr == "", "%s: is silent on stderr" % name, done.stderr)
    return done.stdout


def report(options, folder, *args):
    return hosts.run([options.tidemark, "report"] + list(args), folder)


def check_sound(options, tap, folder, name):
    got = hosts.run([options.tidemark, "check", name + ".tide"], folder)
    tap.add(got.returncode == 0, "%s: the profile is sound" % name, got)


def check_stop(options, tap, output):
    """stop(2) prints two rows with the columns that gcprofiler has."""
    lines = output.split("\n")
    end = lines.index("end of rows")
    head = re.split(r"\s{2,}", lines[end - 4])
    tap.add(head == ["Group", "Target", "Source", "Total KB", "KB/s", "Calls",
                     "B/call", "Peak"], "stop prints its columns",
            lines[end - 6:end])
    tap.add(re.match(r"game +work +control\.lua:11 +[\d.]+ +[\d.]+ +\d+ +\d+ "
                     r"+\d+$", lines[end - 3]) is not None and
            re.match(r"2 of \d+ rows", lines[end - 1]) is not None,
            "and as many rows as it is asked for", lines[end - 6:end])


def check_callers(options, tap, folder):
    """Who calls string.format, by file and line."""
    got = report(options, folder, "--json", "--callers", "string.format",
                 "libraries.tide")
    rows = json.loads(got.stdout)["callers"] if got.returncode == 0 else []
    best = rows[0] if rows else {}
    tap.add(best.get("source") == "libraries.lua" and best.get("line") == 10
            and best.get("calls") == 300,
            "callers of a C function, by line", got)
    got = report(options, folder, "--json", "--callers", "think",
                 "libraries.tide")
    rows = json.loads(got.stdout)["callers"] if got.returncode == 0 else []
    tap.add(len(rows) == 1 and rows[0]["line"] == 16 and
            rows[0]["calls"] == 50 and rows[0]["max_call_bytes"] > 50 * 56,
            "callers of a Lua function", got)
    got = report(options, folder, "--callers", "nobody", "libraries.tide")
    tap.add(got.returncode == 1 and got.stdout == "" and
            got.stderr.startswith("tidemark: nobody: no function"),
            "callers of nothing", got)


def check_sorting(options, tap, folder):
    """Rows of targets by any column, both ways, filtered, without small."""
    for key, field in {"alloc": "alloc_bytes", "calls": "calls",
                       "per_call": "bytes_per_call", "live": "live_bytes",
                       "worst": "max_call_bytes",
                       "blocks": "alloc_blocks"}.items():
        rows = [json.loads(report(options, folder, "--json", "--sort", key,
                                  *more, "targets.tide").stdout)["targets"]
                for more in ([], ["--reverse"])]
        values = [[row[field] for row in each] for each in rows]
        tap.add(values[0] == sorted(values[0], reverse=True) and
                values[1] == sorted(values[1]) and len(values[0]) > 10,
                "targets sorted by %s, both ways" % key, values)
    got = report(options, folder, "--by", "target", "--filter", "^hooks ",
                 "--top", "0", "targets.tide")
    names = re.findall(r"  (hooks|money|net|errors)  ", got.stdout)
    tap.add(names and set(names) == {"hooks"}, "filtered by group", got.stdout)
    rows = json.loads(report(options, folder, "--json", "--min", "1K",
                             "targets.tide").stdout)["targets"]
    names = {row["target"] for row in rows}
    tap.add("Hooks.think" in names and "Hooks.idle" not in names and
            min(row["alloc_bytes"] for row in rows) >= 1024,
            "rows below 1 KiB are hidden", rows)


def check_diff(options, tap, folder, env):
    """A run against a saved one; rows that are gone are shown."""
    program = """local tide = require "tidemark"
local function more() local t = {} for i = 1, tonumber(arg[1]) do t[i] = {} end
end
local function gone() return {{}, {}, {}} end
tide.target("mine", more, "more")
tide.target("mine", gone, "gone")
if not arg[2] then tide.untarget(gone) end
more() if arg[2] then gone() end
"""
    with open(os.path.join(folder, "diff.lua"), "w", encoding="utf-8") as f:
        f.write(program)
    for out, args in (("base", ["1000", "gone"]), ("new", ["3000"])):
        hosts.run(["env", "TIDEMARK=out=%s.tide" % out] + env +
                  [options.lua, "diff.lua"] + args, folder)
    got = report(options, folder, "--json", "--by", "function", "--base",
                 "base.tide", "new.tide")
    rows = {row["name"]: row for row in json.loads(got.stdout)["functions"]}
    more = rows.get("more", {})
    tap.add(more.get("self_bytes_delta", 0) >= 2000 * 56, "more of it", more)
    tap.add(rows.get("gone", {}).get("state") == "gone", "a row is gone",
            sorted(rows))
    targets = {row["target"]: row
               for row in json.loads(got.stdout)["targets"]}
    tap.add(targets.get("gone", {}).get("state") == "gone" and
            targets["more"]["alloc_bytes_delta"] ==
            rows["more"]["total_bytes_delta"] and
            targets["more"]["line"] == 2,
            "targets of both runs are matched", targets)
    got = report(options, folder, "--by", "target", "--base", "base.tide",
                 "new.tide")
    tap.add(re.search(r"^ *\+\S+ KiB .* mine  more  diff\.lua:2$", got.stdout,
                      re.M) is not None and
            re.search(r"\(gone\) +mine  gone", got.stdout) is not None,
            "as a table too", got.stdout)


def check_kept(options, tap, folder):
    """Groups outlive a merge, and a copy of the profile."""
    hosts.run([options.tidemark, "merge", "-o", "two.tide", "targets.tide",
               "regions.tide"], folder)
    both = json.loads(report(options, folder, "--json", "--top", "0",
                             "two.tide").stdout)
    groups = {row["group"] for row in both["groups"] if row["named"]}
    tap.add({"hooks", "money", "regions"} <= groups, "groups outlive a merge",
            groups)
    tap.add(sum(row["alloc_bytes"] for row in both["targets"]) ==
            both["totals"]["alloc_bytes"], "and still add up")


def check_types(options, tap, folder, env):
    """The annotations name what the module has, and nothing else."""
    with open(options.types, encoding="utf-8") as f:
        text = f.read()
    named = set(re.findall(r"^function tidemark\.(\w+)\(", text, re.M))
    done = hosts.run(["env", "TIDEMARK=out="] + env + [
        options.lua, "-e",
        'for k, v in pairs(require "tidemark") do '
        'if type(v) == "function" then print(k) end end'], folder)
    tap.add(named == set(done.stdout.split()), "types: every function",
            named ^ set(done.stdout.split()))
    done = hosts.run([options.lua, options.types], folder)
    tap.add(done.returncode == 0, "types: the file is Lua", done)
    for name in sorted(named):
        before = text[:text.index("function tidemark.%s(" % name)]
        comment = before.rsplit("\n\n", 1)[-1]
        args = re.search(r"function tidemark\.%s\((.*?)\)" % name,
                         text).group(1)
        wanted = [a.strip() for a in args.split(",") if a.strip()]
        found = re.findall(r"---@param (\S+?)\??\s", comment)
        tap.add(comment.startswith("---") and found == wanted,
                "types: %s has its parameters" % name, (found, wanted))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--types")
    parser.add_argument("lua")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    if options.types:
        options.types = os.path.abspath(options.types)
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_CPATH_5_4",
                "LUA_PATH", "LUA_PATH_5_4"):
        os.environ.pop(key, None)
    cpath = os.path.join(os.path.dirname(os.path.abspath(options.module)),
                         "?.so")
    library = os.path.join(os.path.dirname(options.tidemark),
                           "libtidemark.so")
    tap = hosts.Tap()
    env = ["LUA_CPATH=" + cpath]
    with tempfile.TemporaryDirectory() as top:
        folder = os.path.join(top, "x")
        shutil.copytree(os.path.join(HERE, "parity"), folder)
        for name, text in (("file.rules", RULES),
                           ("more.rules", "upper function=upper\n"),
                           ("wrong.rules", "a function=b\nc\n")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(text)
        outputs = {}
        for name in ("targets", "regions", "control", "libraries"):
            text = "TIDEMARK=out=%s.tide,targets=file.rules" % name
            outputs[name] = run_program(options, tap, folder, name,
                                        env + [text])
            check_sound(options, tap, folder, name)
        check_stop(options, tap, outputs["control"])
        check_callers(options, tap, folder)
        check_sorting(options, tap, folder)
        check_kept(options, tap, folder)
        check_diff(options, tap, folder, env)
        if options.types:
            check_types(options, tap, folder, env)
        # the same under the preload library, where the module finds a session
        for name in ("targets", "regions"):
            run_program(options, tap, folder, name,
                        env + ["TIDEMARK=out=p.tide", "LD_PRELOAD=" + library])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
