#!/usr/bin/env python3
"""The rockspec: `luarocks make` into a tree of its own, from a copy of the
sources, and what is installed there works by itself.  Prints TAP.

usage: rock.py --build DIR --lua LUA

The copy uses the build that is there: what is tested is the installation.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import hosts

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
ROCKSPEC = "tidemark-dev-1.rockspec"


def installed(tree):
    return sorted(os.path.relpath(os.path.join(at, name), tree)
                  for at, _, names in os.walk(tree) for name in names
                  if "rocks-5.4" not in at)


def check_tree(options, tap, tree, folder):
    """The tree's own files, with nothing of the build's in the way."""
    cpath = os.path.join(tree, "lib", "lua", "5.4", "?.so")
    done = hosts.run(["env", "LUA_CPATH=" + cpath, "TIDEMARK=out=x.tide",
                      options.lua, "-e",
                      'local t = require "tidemark" '
                      'local function f() return {{}} end '
                      't.target("g", f, "f") f() '
                      'print(t.stop()[1] ~= nil, t.version)'], folder)
    tap.add(done.stdout.startswith("true\t"), "the module loads and reports",
            done)
    maps = hosts.run(["env", "LUA_CPATH=" + cpath, "TIDEMARK=out=",
                      options.lua, "-e",
                      'require "tidemark".report() '
                      'io.write(io.open("/proc/self/maps"):read("a"))'],
                     folder).stdout
    ours = {os.path.realpath(line.split()[-1]) for line in maps.splitlines()
            if "tidemark" in line.split()[-1]}
    tap.add(len(ours) == 3 and
            all(path.startswith(os.path.realpath(tree)) for path in ours),
            "with what it needs beside it", ours)
    tool = os.path.join(tree, "bin", "tidemark")
    done = hosts.run([tool, "report", "--json", "x.tide"], folder)
    groups = [row["group"] for row in json.loads(done.stdout)["targets"]] \
        if done.returncode == 0 else []
    tap.add("g" in groups, "the command reads its profile", done)
    done = hosts.run([tool, "run", "-o", "y.tide", "--", options.lua, "-e",
                      "print(1)"], folder)
    tap.add(done.returncode == 0 and done.stdout == "1\n" and
            os.path.exists(os.path.join(folder, "y.tide")),
            "and runs programs", done)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--lua", required=True)
    options = parser.parse_args()
    for key in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4", "LUA_CPATH_5_4"):
        os.environ.pop(key, None)
    tap = hosts.Tap()
    if shutil.which("luarocks") is None:
        print("1..0 # SKIP luarocks is not installed")
        return 0
    with tempfile.TemporaryDirectory() as top:
        source, tree, folder = (os.path.join(top, n) for n in "stx")
        os.mkdir(source)
        os.mkdir(folder)
        shutil.copy(os.path.join(ROOT, ROCKSPEC), source)
        env = dict(os.environ, HOME=top,
                   TIDEMARK_ROCK_BUILD=os.path.abspath(options.build))
        done = subprocess.run(
            ["luarocks", "--lua-version", "5.4", "--tree", tree, "make",
             "--deps-mode=none", ROCKSPEC], cwd=source, env=env,
            capture_output=True, text=True, timeout=250)
        tap.add(done.returncode == 0, "luarocks make",
                done.stdout + done.stderr)
        tap.add(installed(tree) == ["bin/tidemark",
                                    "lib/lua/5.4/libtidemark.so.0",
                                    "lib/lua/5.4/tidemark.so",
                                    "lib/lua/5.4/tidemark_report.so"],
                "what is installed", installed(tree))
        if done.returncode == 0:
            check_tree(options, tap, tree, folder)
        done = subprocess.run(["luarocks", "lint", ROCKSPEC], cwd=source,
                              env=env, capture_output=True, text=True,
                              timeout=60)
        tap.add(done.returncode == 0, "luarocks lint",
                done.stdout + done.stderr)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
