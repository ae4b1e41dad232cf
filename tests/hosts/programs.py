"""Real programs that run to their end: each plainly and profiled."""
import os
import re

import common
from common import HOT


def both(tap, place, host, command, outputs=(), **more):
    """Runs twice; the program must not differ.  outputs: files it writes."""
    results = []
    for is_profiled in (False, True):
        done = place.run(command, is_profiled, **more)
        files = []
        for name in outputs:
            try:
                with open(place.path(name), "rb") as f:
                    files.append([line for line in f if not
                              line.startswith(b"%%")])  # dates
                os.remove(place.path(name))
            except OSError as e:
                files.append(str(e))
        results.append((done.returncode, done.stdout, done.stderr, files))
    tap.add(results[0] == results[1], "%s: it does what it does without" %
            host, "%s\n%s" % (results[0][:3], results[1][:3]))
    tap.add(results[0][0] == 0, "%s: that is, all is well" % host, results[0])
    return results[1]


def lua(tap, place):
    place.write("work.lua", HOT + "print(hot())\nos.exit(3, true)\n")
    got = [place.run(["lua5.4", "work.lua"], p) for p in (False, True)]
    tap.add([g.returncode for g in got] == [3, 3] and
            got[0].stdout == got[1].stdout and got[1].stderr == "",
            "lua5.4: it does what it does without", got)
    common.check_profiles(tap, place, "lua5.4", 1, n_files=1)


def clingo(tap, place):
    place.write("work.lp", "#script (lua)\n" + HOT + """
function main(prg)
  hot()
  prg:ground({{"base", {}}})
  prg:solve()
end
#end.
a :- not b.  b :- not a.
""")
    got = [place.run(["clingo", "work.lp", "0"], p) for p in (False, True)]
    # its times differ
    text = [re.sub(r"[\d.]+s", "", g.stdout) for g in got]
    tap.add(text[0] == text[1] and "SATISFIABLE" in text[0] and
            got[0].returncode == got[1].returncode and got[1].stderr ==
            got[0].stderr, "clingo: it does what it does without", got)
    # "#script (lua)" is the chunk's line 0 or 1: look for the line by name
    paths = place.found()
    tap.add(len(paths) == 1, "clingo: one profile", paths)
    report = place.report(paths[0]) if paths else None
    best = max(common.hot_tables(report, "", line)[0] for line in (4, 5, 6))
    tap.add(best == common.N_HOT, "clingo: the hot line's tables",
            "%d" % best)


def gnuplot(tap, place):
    place.write("work.gp", 'set terminal lua tikz\nset output "o.tex"\n'
                           "plot sin(x)\n")
    both(tap, place, "gnuplot", ["gnuplot", "work.gp"], ["o.tex"])
    paths = place.found()
    tap.add(len(paths) == 1, "gnuplot: one profile", paths)
    report = place.report(paths[0]) if paths else None
    rows = [r for r in (report or {"lines": []})["lines"]
            if r["source"].endswith("gnuplot.lua") or
            "gnuplot-tikz" in r["source"]]
    tap.add(bool(rows), "gnuplot: its own driver's lines are named",
            [r["source"] for r in (report or {"lines": []})["lines"]][:20])


def neomutt(tap, place):
    place.write("work.lua", HOT + 'hot()\nmutt.set("realname", "n" .. hot())\n')
    place.write("rc", "lua-source work.lua\n")
    got = both(tap, place, "neomutt", ["neomutt", "-n", "-F", "rc", "-Q",
                                       "realname"])
    tap.add("n500" in got[1], "neomutt: its script has run", got)
    common.check_profiles(tap, place, "neomutt", 2, n_files=1)


def mle(tap, place):
    place.write("work.lua", HOT + "hot()\n")
    place.write("in.txt", "text\n")
    line = "mle -N -x work.lua -M 'macro_quit C-x' -p macro_quit in.txt"
    got = [place.run(["script", "-qec", line, "/dev/null"], p, TERM="xterm")
           for p in (False, True)]
    tap.add([g.returncode for g in got] == [0, 0], "mle: it ends well", got)
    common.check_profiles(tap, place, "mle", 1, n_files=1)


def luarocks(tap, place):
    """It starts children: uname, sh, and what they start."""
    command = ["luarocks-5.4", "list", "--tree", place.path("tree"),
               "--porcelain"]
    both(tap, place, "luarocks", command)
    paths = place.found()
    tap.add(1 <= len(paths) <= 2 and all("/lua5.4." in p for p in paths),
            "luarocks: a profile of each lua5.4, none of other children",
            paths)
    got = [place.check(p) for p in paths]
    tap.add(all(g.returncode == 0 for g in got), "luarocks: it is sound", got)
    rows = [r for p in paths for r in place.report(p)["lines"]
            if "/luarocks/" in r["source"]]
    tap.add(len(rows) > 10, "luarocks: lines of its modules", len(rows))


def nmap(tap, place):
    """LPeg in it asks for the allocator; coroutines by the dozen."""
    place.write("work.nse", HOT + """
description = "hot"
categories = {"safe"}
hostrule = function() return true end
action = function() return "made " .. hot() end
""")
    got = [place.run(["nmap", "-n", "-Pn", "-sT", "-p", "1", "--script",
                      place.path("work.nse"), "127.0.0.1"], p)
           for p in (False, True)]
    tap.add(all("made 500" in g.stdout and g.returncode == 0 for g in got),
            "nmap: its script runs", got)
    common.check_profiles(tap, place, "nmap", 1, n_files=1)


def highlight(tap, place):
    """Several states one after the other, at the same address."""
    place.write("in.c", "int main(void) { return 0; }\n")
    both(tap, place, "highlight", ["highlight", "-O", "ansi", "-i", "in.c"])
    paths = place.found()
    tap.add(len(paths) == 1 and place.check(paths[0]).returncode == 0,
            "highlight: one sound profile", paths)
    report = place.report(paths[0]) if paths else None
    tap.add(report is not None and report["run"]["states"] >= 2,
            "highlight: of several states", report and report["run"])


PROGRAMS = {
    "lua5.4": (lua, ["lua5.4"]),
    "clingo": (clingo, ["clingo"]),
    "gnuplot": (gnuplot, ["gnuplot"]),
    "neomutt": (neomutt, ["neomutt"]),
    "mle": (mle, ["mle", "script"]),
    "nmap": (nmap, ["nmap"]),
    "highlight": (highlight, ["highlight"]),
    "luarocks": (luarocks, ["luarocks-5.4"]),
}
