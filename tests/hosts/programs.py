"""Real programs that run to their end: each plainly and profiled."""
import os
import re
import struct
import zlib

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
    common.check_profiles(tap, place, "lua5.4", 1, n_files=1, n_closed=1)


def clingo(tap, place, name="clingo"):
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
            got[0].stderr, name + ": it does what it does without", got)
    # "#script (lua)" is the chunk's line 0 or 1: look for the line by name
    paths = place.found()
    tap.add(len(paths) == 1, name + ": one profile", paths)
    report = place.report(paths[0]) if paths else None
    best = max(common.hot_tables(report, "", line)[0] for line in (4, 5, 6))
    tap.add(best == common.N_HOT, name + ": the hot line's tables",
            "%d" % best)
    # by the destructor of a static object, when exit has begun
    common.check_closed(tap, place, name, 1)
    return paths


def clingo_native(tap, place):
    """A host of C++, which throws and catches what it likes."""
    place.options = "native=on,"
    paths = clingo(tap, place, "clingo native")
    stacks = common.native_stacks(place, paths)
    tap.add(any("clingo_main_" in s and s[0] == "_start" and
                any(f.startswith("libclingo.so") for f in s) for s in stacks),
            "clingo native: frames of its own from its start on", stacks[:20])
    lua = [s for s in stacks if "ground" in s]
    tap.add(lua != [] and all(
        any(f.startswith("libclingo.so") for f in s[:s.index("ground")])
        for s in lua), "clingo native: Lua is below what has called it", lua[:3])


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
    common.check_profiles(tap, place, "nmap", 1, n_files=1, n_closed=1)


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


def tup(tap, place):
    """Lua 5.4.3 inside, without names, and closed at the end."""
    place.write("tree/Tupfile.ini", "")
    place.write("tree/Tupfile.lua", HOT + """
tup.rule("echo made " .. hot() .. " > %o", {"out.txt"})
""")
    results = []
    for options in (None, "", ",sniff=on"):
        place.clear()
        if os.path.exists(place.path("tree/g.sh")):
            os.remove(place.path("tree/g.sh"))
        env = {} if options is None else {
            "TIDEMARK": "out=%s/%%n.%%p.tide%s" % (place.profiles, options),
            "LD_PRELOAD": place.library}
        # `place.run` would preload with options of its own
        done = place.run(["env"] + ["%s=%s" % pair for pair in env.items()] + [
            "sh", "-c", "cd tree && tup generate g.sh && tail -1 g.sh"])
        results.append((done.returncode, done.stdout, done.stderr))
        tap.add(bool(place.found()) == (options == ",sniff=on"),
                "tup: a profile with sniff=on alone", place.found())
    tap.add(results[0] == results[1] == results[2] and results[0][0] == 0 and
            "echo made 500" in results[0][1],
            "tup: it does what it does without", results)
    paths = common.check_profiles(tap, place, "tup", 1, "Tupfile.lua",
                                  n_files=1, n_closed=1)
    run = place.report(paths[0])["run"] if paths else {}
    tap.add((run.get("lua"), run.get("tier"), run.get("states")) ==
            ("Lua 5.4.3", "partial", 1), "tup: its Lua is known", run)


def pcap(*packets):
    """A capture of Ethernet frames."""
    head = struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack("<IIII", 1, 0, len(p), len(p)) + p
                           for p in packets)


def tshark(tap, place):
    """An allocator of its own without a `ud`; threads of glib."""
    udp = bytes(12) + bytes.fromhex(
        "080045000020000100004011000001020304010203040035003500" "0c0000") + \
        b"test"
    with open(place.path("in.pcap"), "wb") as f:
        f.write(pcap(udp, udp, udp))
    place.write("work.lua", HOT + """
local n = 0
local tap = Listener.new("frame")
function tap.packet() n = n + hot() end
function tap.draw() print("made " .. n) end
""")
    os.chmod(place.folder, 0o777)
    command = ["setpriv", "--reuid=65534", "--regid=65534",
               "--clear-groups", "tshark", "-q",
               "-r", place.path("in.pcap"), "-X",
               "lua_script:" + place.path("work.lua")]
    got = both(tap, place, "tshark", command)
    tap.add("made 1500" in got[1], "tshark: its script sees packets", got)
    common.check_profiles(tap, place, "tshark", 3, n_files=1, n_closed=1)


def png_pixels(data):
    """What is to be seen of a PNG, without the date and names beside it."""
    pixels, at = b"", 8
    while at + 8 <= len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            pixels += data[at + 8:at + 8 + size]
        at += size + 12
    return zlib.decompress(pixels)


def darktable(tap, place):
    """Many threads; a picture that is made from one of two pixels."""
    with open(place.path("in.ppm"), "wb") as f:
        f.write(b"P6\n2 2\n255\n" + bytes(range(12)))
    place.write("work.lua", HOT + "print('made ' .. hot())\n")
    results = []
    for is_profiled in (False, True):
        done = place.run(
            ["darktable-cli", "in.ppm", "out.png", "--core", "--library",
             ":memory:", "--configdir", place.path("cfg"), "--cachedir",
             place.path("cache"), "--disable-opencl", "--luacmd",
             "dofile('%s')" % place.path("work.lua")], is_profiled)
        try:
            with open(place.path("out.png"), "rb") as f:
                pixels = png_pixels(f.read())
            os.remove(place.path("out.png"))
        except OSError as e:
            pixels = b""
            print("# %s" % e)
        results.append((done.returncode, "made 500" in done.stdout, pixels))
    tap.add(results[0] == results[1] and results[0][:2] == (0, True) and
            results[0][2] != b"", "darktable: it does what it does without",
            results)
    common.check_profiles(tap, place, "darktable", 1, n_files=1, n_closed=1)


PROGRAMS = {
    "lua5.4": (lua, ["lua5.4"]),
    "tup": (tup, ["tup"]),
    "clingo": (clingo, ["clingo"]),
    "clingo-native": (clingo_native, ["clingo"]),
    "gnuplot": (gnuplot, ["gnuplot"]),
    "neomutt": (neomutt, ["neomutt"]),
    "mle": (mle, ["mle", "script"]),
    "nmap": (nmap, ["nmap"]),
    "highlight": (highlight, ["highlight"]),
    "tshark": (tshark, ["tshark", "setpriv"]),
    "darktable": (darktable, ["darktable-cli"]),
    "luarocks": (luarocks, ["luarocks-5.4"]),
}
