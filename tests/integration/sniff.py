#!/usr/bin/env python3
"""sniff=on: Lua inside an executable that has no names, found by the first
block of its state; and what must be left alone all the same.  Its cases and
hosts are those of cases.py and hosts.py, with --sniff.  Prints TAP.

usage: sniff.py --tidemark FILE --library FILE --lua FILE --stripped FILE
                --many FILE --shared FILE
"""
import argparse
import os
import re
import shutil
import sys
import tempfile

import routes

TABLE = routes.TABLE

NAMED = routes.SCRIPT + """
function grow(t) for i = 1, 500 do t[i] = string.format("%d items", i) end end
grow({})
"""


def is_partial(place):
    run = place.report()["run"]
    return (run["tier"], run["states"]) == ("partial", 1) and \
        "layout read from the state itself" in run["tier_reason"] and \
        run["lua"].startswith("Lua 5.4")


def check_sniff(tap, place):
    """Lua inside the executable, and no name of it."""
    command = [place.options.stripped, "a.lua"]
    done = place.preload(command, "out=x.tide")
    tap.add((done.returncode, done.stdout, done.stderr) == (0, "1000\n", "")
            and not place.files(), "no names: left alone without sniff=on",
            "%s %s" % (done, place.files()))
    for text in ("sniff=on", "sniff", "sniff=on,backend=system"):
        done = place.preload(command, "out=x.tide," + text)
        tap.add((done.returncode, done.stdout, done.stderr) ==
                (0, "1000\n", "") and place.is_sound().returncode == 0 and
                is_partial(place) and place.tables("a.lua", 2) == 1000 * TABLE,
                "no names: profiled with " + text, done)
    found = place.report()
    totals = found["totals"]
    tap.add(totals["before_attach_bytes"] < 4096 and
            totals["live_bytes"] > 72000 and
            found["kinds"]["table"]["live_bytes"] > 1000 * TABLE,
            "no names: live figures are those before lua_close", totals)
    place.write("named.lua", NAMED)
    place.preload([command[0], "named.lua"], "out=x.tide,sniff=on")
    names = {(row["name"], row["what"]) for row in place.report()["functions"]}
    tap.add({("string.format", "C"), ("grow", "Lua")} <= names,
            "no names: those of globals are found", names)
    done = place.run([place.options.shared, "mdwe", "env",
                      "LD_PRELOAD=" + place.options.library,
                      "TIDEMARK=out=x.tide,sniff=on"] + command)
    tap.add(done.returncode == 77 or (done.stdout == "1000\n" and
            place.tables("a.lua", 2) == 1000 * TABLE),
            "no names, and no rights to write code", done)
    os.unlink(os.path.join(place.folder, "x.tide"))


def check_sniff_elsewhere(tap, place):
    """What sniff=on must not touch, and what it may not take over."""
    many = place.options.many
    plain = place.run([many, "limit"])
    done = place.preload([many, "limit"], "out=x.tide,sniff=on")
    tap.add((plain.returncode, plain.stdout) == (done.returncode, done.stdout)
            and plain.returncode == 0 and not place.files() and
            re.fullmatch(r"tidemark: not profiled: [^\n]*allocator[^\n]*\n",
                         done.stderr), "no names, and the host's own account",
            "%s %s" % (done, place.files()))
    true = shutil.which("true")
    for command in ([true], [many], ["lua5.3", "a.lua"], ["luajit", "a.lua"],
                    [sys.executable, "-c", "print([0] * 10)"]):
        if not shutil.which(command[0]):
            continue
        plain = place.run(command)
        done = place.preload(command, "out=x.tide,sniff=on")
        tap.add((plain.returncode, plain.stdout, plain.stderr) ==
                (done.returncode, done.stdout, done.stderr) and
                not place.files(),
                "sniff=on: nothing of %s" % os.path.basename(command[0]),
                "%s %s" % (done, place.files()))
    routes.check_host(tap, place, "sniff=on, with names",
               ["env", "TIDEMARK=out=x.tide,sniff=on", place.options.lua,
                "a.lua"], "a.lua", 2, 1000)


def main():
    parser = argparse.ArgumentParser()
    names = ("tidemark", "library", "stripped", "many", "shared")
    for name in names + ("lua",):
        parser.add_argument("--" + name, required=True)
    options = parser.parse_args()
    for key in list(os.environ):
        if key.startswith(("TIDEMARK", "LUA_", "LD_PRELOAD")):
            del os.environ[key]
    for name in names:
        setattr(options, name, os.path.abspath(getattr(options, name)))
    tap = routes.Tap()
    for check in (check_sniff, check_sniff_elsewhere):
        with tempfile.TemporaryDirectory() as folder:
            check(tap, routes.Place(options, folder))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
