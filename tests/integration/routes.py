#!/usr/bin/env python3
"""Every way into a program, and every program that must be left alone.

usage: routes.py --tidemark FILE --library FILE --module FILE --lua FILE
                 --host NAME=FILE... --meter FILE --plugin HOST FILE
                 --liblua FILE [--liblua-other FILE] [--linked FILE]

The library is preloaded by hand here, as a user may do it; `tidemark run` is
tested by hosts.py.  Prints TAP.
"""
import argparse
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

TABLE = 56      # bytes of a table without its storage
SCRIPT = "kept = {}\nfor i = 1, 1000 do kept[i] = {i} end\nprint(#kept)\n"


class Place:
    """A folder of its own, and programs run in it."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.write("a.lua", SCRIPT)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def run(self, command, environment=None, **more):
        merged = dict(os.environ)
        merged.update(environment or {})
        try:
            return subprocess.run(command, cwd=self.folder, env=merged,
                                  capture_output=True, text=True,
                                  errors="replace", timeout=120, **more)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "too long")

    def preload(self, command, text="1", **more):
        environment = {"LD_PRELOAD": self.options.library}
        environment.update(more)
        if text is not None:
            environment["TIDEMARK"] = text
        return self.run(command, environment)

    def files(self):
        return sorted(glob.glob(os.path.join(self.folder, "*.tide")))

    def report(self, path="x.tide"):
        got = self.run([self.options.tidemark, "report", "--json", "--top",
                        "0", path])
        return json.loads(got.stdout) if got.returncode == 0 else None

    def is_sound(self, path="x.tide"):
        return self.run([self.options.tidemark, "check", path])

    def tables(self, chunk, line, path="x.tide"):
        """Bytes of the tables that one line made."""
        found = self.report(path)
        for row in found["lines"] if found else []:
            if row["source"].lstrip("=@") == chunk and row["line"] == line:
                return row["kinds"].get("table", {}).get("alloc_bytes", 0)
        return 0

    def states(self, path="x.tide"):
        found = self.report(path)
        return found["run"]["states"] if found else 0


def check_host(tap, place, name, command, chunk, line, n, states=1, **more):
    """A host that prints what it prints without the library, and the tables
    of one line of it."""
    plain = place.run(command, {k: v for k, v in more.items()})
    done = place.preload(command, "out=x.tide", **more)
    tap.add(plain.returncode == 0 and
            (plain.returncode, plain.stdout, plain.stderr) ==
            (done.returncode, done.stdout, done.stderr),
            name + ": it runs as it does without", "%s\n%s" % (plain, done))
    sound = place.is_sound()
    tap.add(sound.returncode == 0, name + ": the profile is sound",
            sound.stdout + sound.stderr)
    got = place.tables(chunk, line)
    tap.add(got == n * TABLE, name + ": %d tables on line %d" % (n, line),
            "%d bytes, not %d" % (got, n * TABLE))
    got = place.states()
    tap.add(got == states, name + ": %d states" % states, "%d" % got)
    for path in place.files():
        os.unlink(path)


# ------------------------------------------------------------ left alone

def check_inactive(tap, place):
    for text in (None, "", "0"):
        done = place.preload([place.options.lua, "a.lua"], text)
        tap.add(done.returncode == 0 and done.stdout == "1000\n" and
                not done.stderr and not place.files(),
                "TIDEMARK %s: the library does nothing" % (
                    "unset" if text is None else repr(text)),
                "%s %s" % (done, place.files()))


def check_silent(tap, place):
    done = place.preload(["ls", "a.lua"])
    tap.add(done.returncode == 0 and done.stdout == "a.lua\n" and
            not done.stderr and not place.files(),
            "a program without Lua: no output, no file",
            "%s %s" % (done, place.files()))
    done = place.preload(["ls", "a.lua"], "nonsense=1")
    tap.add(not done.stderr, "a program without Lua: options are not looked at",
            done.stderr)
    host = place.options.hosts["shared"]
    done = place.preload([host], "out=x.tide")
    tap.add(done.returncode == 2 and not place.files(),
            "a program that is linked to Lua and makes no state: no file",
            "%s %s" % (done, place.files()))


def check_wrong_options(tap, place):
    done = place.preload([place.options.lua, "a.lua"], "nonsense=1")
    tap.add(done.returncode == 0 and done.stdout == "1000\n" and
            not place.files(), "wrong options: the program runs, not profiled",
            "%s %s" % (done, place.files()))
    tap.add(re.fullmatch(r"tidemark: options: [^\n]*'nonsense'[^\n]*\n",
                         done.stderr) is not None,
            "wrong options: one line says which", done.stderr)


def check_other_luas(tap, place):
    for name in ("lua5.1", "lua5.2", "lua5.3", "luajit"):
        title = name + ": untouched"
        if not shutil.which(name):
            tap.skip(title, name + " is not installed")
            continue
        done = place.preload([name, "a.lua"], "out=x.tide")
        tap.add(done.returncode == 0 and done.stdout == "1000\n" and
                not done.stderr and not place.files(), title,
                "%s %s" % (done, place.files()))
        module = place.run([name, "-e", "print(pcall(require, 'tidemark'))"],
                           {"LUA_CPATH": place.options.cpath})
        tap.add(module.returncode == 0 and
                re.match(r"false\t.*no Lua 5\.4", module.stdout),
                name + ": the module refuses it", module)


# --------------------------------------------------------- interpreters

def check_interpreter(tap, place):
    lua = place.options.lua
    check_host(tap, place, "lua", [lua, "a.lua"], "a.lua", 2, 1000)
    check_host(tap, place, "lua -E", [lua, "-E", "a.lua"], "a.lua", 2, 1000)
    place.write("exit.lua", SCRIPT + "os.exit(true, false)\n")
    check_host(tap, place, "os.exit without close", [lua, "exit.lua"],
               "exit.lua", 2, 1000)
    place.write("close.lua", SCRIPT + "os.exit(true, true)\n")
    check_host(tap, place, "os.exit with close", [lua, "close.lua"],
               "close.lua", 2, 1000)
    place.write("run", "#!%s -E\n%s" % (lua, SCRIPT), 0o755)
    check_host(tap, place, "a script", ["./run"], "./run", 3, 1000)


def check_rights(tap, place):
    """Pages that are written must not be run, as services ask for."""
    host = place.options.hosts["shared"]
    done = place.run([host, "mdwe", "env", "LD_PRELOAD=" +
                      place.options.library, "TIDEMARK=out=x.tide",
                      place.options.lua, "a.lua"])
    if done.returncode == 77:
        tap.skip("no rights to write code", "this kernel does not refuse them")
        return
    tap.add(done.returncode == 0 and done.stdout == "1000\n" and
            not done.stderr, "no rights to write code: it runs", done)
    tap.add(place.tables("a.lua", 2) == 1000 * TABLE,
            "no rights to write code: it is profiled all the same")
    for path in place.files():
        os.unlink(path)


def check_privileges(tap, place):
    """The dynamic linker preloads nothing then; LUA_INIT is Lua's own."""
    name = "a program with privileges of another user"
    if os.geteuid() != 0:
        tap.skip(name, "only root can make one")
        return
    host = os.path.join(place.folder, "lua")
    shutil.copy(place.options.lua, host)
    os.chown(host, 65534, 65534)
    os.chmod(host, 0o4755)
    shutil.copy(place.options.module, os.path.join(place.folder,
                                                   "tidemark.so"))
    shutil.copy(place.options.library, os.path.join(place.folder,
                                                    "libtidemark.so.0"))
    os.chmod(place.folder, 0o777)
    as_other = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    done = place.preload(as_other + [host, "a.lua"], "out=x.tide")
    tap.add(done.returncode == 0 and done.stdout.endswith("1000\n") and
            not place.files(), name + ": not preloaded", done)
    done = place.run(as_other + [host, "a.lua"], {
        "LUA_CPATH": place.folder + "/?.so", "TIDEMARK": "out=x.tide",
        "LD_LIBRARY_PATH": place.folder, "LUA_INIT": "require 'tidemark'"})
    if "libtidemark.so.0: cannot open" in done.stderr:
        tap.skip(name + ": LUA_INIT", "the module is not installed")
    else:
        tap.add(done.returncode == 0 and done.stdout == "1000\n" and
                place.tables("a.lua", 2) == 1000 * TABLE and
                os.stat(os.path.join(place.folder, "x.tide")).st_uid == 65534,
                name + ": LUA_INIT, and the profile is that user's", done)
    for path in place.files():
        os.unlink(path)


def check_parent_and_child(tap, place):
    """Of two programs in one environment each has its own profile."""
    place.write("outer.lua", SCRIPT + "assert(os.execute('%s inner.lua'))\n"
                % place.options.lua)
    place.write("inner.lua", SCRIPT)
    done = place.preload([place.options.lua, "outer.lua"], "out=%p.tide")
    tap.add(done.returncode == 0 and done.stdout == "1000\n1000\n" and
            len(place.files()) == 2,
            "a child that is another program: two profiles",
            "%s %s" % (done, place.files()))
    got = sorted((place.tables("outer.lua", 2, p),
                  place.tables("inner.lua", 2, p)) for p in place.files())
    tap.add(got == [(0, 1000 * TABLE), (1000 * TABLE, 0)],
            "a child that is another program: each has its own bytes", got)
    for path in place.files():
        os.unlink(path)


# ---------------------------------------------------------------- hosts

def check_hosts(tap, place):
    options = place.options
    for name, host in options.hosts.items():
        for mode, arguments, chunk, n, states in (
                ("atexit", [], "atexit", 1000, 1),
                ("wrap", [options.meter], "wrap", 3000, 1),
                ("box", [options.meter], "box", 1000, 1),
                ("foreign", [], "foreign", 4000, 4),
                ("clear", [], "clear", 1000, 1),
                ("child", [], "child", 2000, 1)):
            check_host(tap, place, "%s %s" % (name, mode),
                       [host, mode] + arguments, chunk, 2, n, states)
        done = place.preload([host, "refuse"], "out=x.tide")
        tap.add((done.returncode, done.stdout, done.stderr) ==
                (0, "fine\n", ""), "%s refuse: no state without memory" % name,
                done)


def check_running(tap, place):
    """Other threads are in the middle of Lua code when the process ends."""
    host = place.options.hosts["shared"]
    wrong, marks = [], []
    for _ in range(20):
        done = place.preload([host, "running"], "out=x.tide")
        sound = place.run([place.options.tidemark, "check", "--json",
                           "x.tide"])
        if (done.returncode, done.stdout, done.stderr) != (0, "fine\n", "") \
                or sound.returncode != 0:
            wrong.append("%s\n%s" % (done, sound.stdout + sound.stderr))
            continue
        in_use = json.loads(sound.stdout)["in_use"]
        notes = [row["text"] for row in place.report()["findings"]
                 if "in use when the program ended" in row["text"]]
        marks.append((in_use, notes))
    tap.add(not wrong, "threads that run Lua code at exit", "\n".join(wrong))
    tap.add(any(n > 0 for n, _ in marks) and
            all(bool(notes) == (n > 0) and
                all(text.startswith("%d state" % n) for text in notes)
                for n, notes in marks),
            "threads that run Lua code at exit: the profile says so", marks)


def check_coming(tap, place):
    """Other threads open and close states when the process ends."""
    wrong = []
    for _ in range(20):
        done = place.preload([place.options.hosts["shared"], "coming"],
                             "out=x.tide")
        sound = place.is_sound()
        if (done.returncode, done.stdout, done.stderr) != (0, "fine\n", "") \
                or sound.returncode != 0 or place.states() < 4:
            wrong.append("%s\n%s" % (done, sound.stdout + sound.stderr))
    tap.add(not wrong, "threads that make states at exit", "\n".join(wrong))


def check_asleep(tap, place):
    """Other threads sleep when the process ends: all figures are final."""
    done = place.preload([place.options.hosts["shared"], "asleep"],
                         "out=x.tide")
    sound = place.run([place.options.tidemark, "check", "--json", "x.tide"])
    tap.add((done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
            and sound.returncode == 0 and
            json.loads(sound.stdout)["in_use"] == 0 and
            place.tables("asleep", 2) == 3000 * TABLE,
            "threads that sleep at exit, their states open",
            "%s\n%s" % (done, sound))
    worst = [row["max_call_bytes"] for row in place.report()["functions"]
             if row["source"] == "asleep" and row["what"] == "main"]
    tap.add(worst and worst[0] >= 1000 * (TABLE + 16),
            "threads that sleep at exit: calls are whole", worst)


def check_linked(tap, place):
    """A host that uses the C interface of the shared library: its session, and
    no other in its place."""
    if not place.options.linked:
        return
    done = place.run([os.path.abspath(place.options.linked), "a.lua"],
                     {"TIDEMARK": "out=x.tide"})
    tap.add((done.returncode, done.stdout, done.stderr) == (0, "1000\n", ""),
            "a host linked to the library: it runs", done)
    tap.add([os.path.basename(p) for p in place.files()] == ["x.tide"] and
            place.is_sound().returncode == 0 and place.states() == 1 and
            place.tables("a.lua", 2) == 1000 * TABLE,
            "a host linked to the library: the profile is the host's",
            place.files())


def check_plugins(tap, place):
    options = place.options
    chunk = '[string "kept = {}..."]'
    check_host(tap, place, "a plugin, RTLD_LOCAL", options.plugin, chunk, 3,
               1000)
    host = options.hosts["shared"]
    check_host(tap, place, "a plugin that goes and comes again",
               [host, "reload", options.plugin[1]], chunk, 3, 3000, 3)
    if options.liblua_other:
        check_host(tap, place, "two libraries of Lua",
                   [host, "two", options.liblua, options.liblua_other], chunk,
                   2, 10000, 2)


def make_symbolic(source, target):
    """A copy of a library that binds its own calls itself: the dynamic
    section's count of relative relocations, which nobody needs, becomes
    DT_SYMBOLIC."""
    with open(source, "rb") as file:
        data = bytearray(file.read())
    headers, = struct.unpack_from("<Q", data, 32)
    n, = struct.unpack_from("<H", data, 56)
    for at in range(headers, headers + 56 * n, 56):
        kind, _, offset = struct.unpack_from("<IIQ", data, at)
        length, = struct.unpack_from("<Q", data, at + 32)
        for entry in range(offset, offset + length, 16) if kind == 2 else []:
            if struct.unpack_from("<Q", data, entry) == (0x6ffffff9,):
                struct.pack_into("<QQ", data, entry, 16, 0)
                with open(target, "wb") as file:
                    file.write(data)
                return True
    return False


def check_symbolic(tap, place):
    """Only the host's own calls are seen; the young state is attached to."""
    name = "a Lua that binds its own calls"
    folder = os.path.join(place.folder, "symbolic")
    os.mkdir(folder)
    if not make_symbolic(place.options.liblua, os.path.join(
            folder, re.sub(r"(\.so\.\d+).*", r"\1", os.path.basename(
                place.options.liblua)))):
        tap.skip(name, "the library has no entry to spare")
        return
    check_host(tap, place, name, [place.options.hosts["shared"], "atexit"],
               "atexit", 2, 1000, LD_LIBRARY_PATH=folder)


# -------------------------------------------------------------- at exit

def check_reports(tap, place):
    lua = place.options.lua
    done = place.preload([lua, "a.lua"], "out=x.tide,report=text,top=3")
    tap.add(done.stdout == "1000\n" and "a.lua:2" in done.stderr,
            "report=text: on stderr when the program ends", done)
    done = place.preload([lua, "a.lua"], "out=x.tide,report=json")
    try:
        lines = json.loads(done.stderr)["lines"]
    except (ValueError, KeyError):
        lines = []
    tap.add(any(row["source"] == "a.lua" for row in lines),
            "report=json: on stderr when the program ends", done.stderr[:300])
    os.unlink(os.path.join(place.folder, "x.tide"))
    before = set(os.listdir(place.folder))
    done = place.preload([lua, "a.lua"], "out=,report=text",
                         TMPDIR=place.folder)
    tap.add("a.lua:2" in done.stderr and
            set(os.listdir(place.folder)) == before,
            "a report without a profile leaves no file",
            "%s %s" % (done, os.listdir(place.folder)))
    place.write("sh.lua", "os.execute('echo from a child') print('end')\n")
    done = place.preload([lua, "sh.lua"], "out=x.tide,report=text,top=1")
    tap.add(len(re.findall(r"^  pid \d+", done.stderr, re.M)) == 1 and
            "from a child\nend\n" == done.stdout,
            "children without Lua print no report", done)
    host = place.options.hosts["shared"]
    done = place.preload([host, "child"], "out=%p.tide,report=text,top=1")
    tap.add(len(re.findall(r"^  pid \d+", done.stderr, re.M)) == 1 and
            done.stdout == "fine\n",
            "a forked child that does nothing prints no report", done)
    place.write("cd.lua", SCRIPT + "print(1)\n")
    done = place.preload([lua, "cd.lua"], "out=x.tide,report=text", PATH="")
    tap.add("cd.lua:2" in done.stderr, "the report needs no PATH", done)


# --------------------------------------------------------------- module

MODULE = """
local tide = require "tidemark"
local a = tide.stats()
local kept = {}
for i = 1, 1000 do kept[i] = {i} end
local b = tide.stats()
assert(b.alloc_bytes - a.alloc_bytes >= 56000, "the tables are counted")
local n = collectgarbage("count") * 1024
local c = tide.stats()
assert(n == c.live_bytes - c.buffer_bytes + c.before_bytes, "the books balance")
assert((c.before_bytes > 10000) == (arg[1] == "alone"), "what was there before")
assert(b.tier == "exact" or b.tier == "partial" or b.tier == "public")
assert(type(b.tier_reason) == "string")
print(tide.version, tide.path())
"""

MODULE_ERRORS = """
local tide = require "tidemark"
local function fails(pattern, f, ...)
  local ok, why = pcall(f, ...)
  assert(not ok and why:find(pattern), tostring(why))
end
fails("unknown option 'foo'", tide.attach, "foo=1")
fails("unknown option 'foo'", tide.attach, {foo = 1})
fails("must be strings", tide.attach, {1})
fails("wrong type", tide.attach, {out = {}})
fails("quote", tide.attach, {out = 'a"b'})
fails("string expected", tide.save, {})
fails("name for a file", tide.save, "%z")
local got, why = tide.save("/nonexistent/x.tide")
assert(got == nil and why == "No such file or directory", why)
assert(tide.attach() == true and tide.attach{top = 3} == true)
assert(tide.save("copy.tide") == "copy.tide")
assert(tide.stop() and tide.start() and tide.reset())
print "fine"
"""


def check_module(tap, place):
    lua, cpath = place.options.lua, {"LUA_CPATH": place.options.cpath}
    place.write("m.lua", MODULE)
    done = place.run([lua, "m.lua", "alone"], cpath)
    files = place.files()
    tap.add(done.returncode == 0 and len(files) == 1 and
            os.path.realpath(done.stdout.split("\t")[-1].strip()) ==
            os.path.realpath(files[0]),
            "require: attaches, and names the profile",
            "%s %s" % (done, files))
    tap.add(files and place.tables("m.lua", 5, files[0]) == 1000 * TABLE,
            "require: tables are on their line from then on")
    tap.add(files and place.is_sound(files[0]).returncode == 0,
            "require: the profile is finished and sound")
    for path in files:
        os.unlink(path)
    done = place.preload([lua, "m.lua"], "out=x.tide", **cpath)
    tap.add(done.returncode == 0 and place.tables("m.lua", 5) == 1000 * TABLE
            and len(place.files()) == 1,
            "require under the preload library: the same session", done)
    place.write("e.lua", MODULE_ERRORS)
    for name, run in (("alone", lambda: place.run([lua, "e.lua"], cpath)),
                      ("preloaded", lambda: place.preload(
                          [lua, "e.lua"], "out=y.tide", **cpath))):
        done = run()
        tap.add(done.returncode == 0 and done.stdout == "fine\n",
                "the module, %s: wrong arguments and failures" % name, done)
        tap.add(place.is_sound("copy.tide").returncode == 0,
                "the module, %s: a saved profile is sound" % name)
    for path in place.files():
        os.unlink(path)


MANUAL = """local tide = require "tidemark"
kept = {}
for i = 1, 1000 do kept[i] = {i} end
tide.start()
for i = 1, 300 do kept[i] = {i} end
tide.stop()
for i = 1, 500 do kept[i] = {i} end
print(#kept)
"""


def check_manual(tap, place):
    """start=manual: nothing is recorded until the program says so."""
    cpath = {"LUA_CPATH": place.options.cpath}
    done = place.preload([place.options.lua, "a.lua"],
                         "out=x.tide,start=manual")
    tap.add(done.returncode == 0 and done.stdout == "1000\n" and
            place.tables("a.lua", 2) == 0 and
            place.is_sound().returncode == 0,
            "start=manual: idle when nobody wants it", done)
    place.write("manual.lua", MANUAL)
    for name, run in (("preloaded", lambda: place.preload(
            [place.options.lua, "manual.lua"], "out=x.tide,start=manual",
            **cpath)), ("alone", lambda: place.run(
                [place.options.lua, "manual.lua"],
                dict(cpath, TIDEMARK="out=x.tide,start=manual")))):
        done = run()
        got = [place.tables("manual.lua", n) // TABLE for n in (3, 5, 7)]
        tap.add(done.returncode == 0 and done.stdout == "1000\n" and
                got == [0, 300, 0] and place.is_sound().returncode == 0,
                "start=manual, %s: what is between start and stop" % name,
                "%s %s" % (got, done))
        os.unlink(os.path.join(place.folder, "x.tide"))


def check_lua_init(tap, place):
    lua = place.options.lua
    environment = {"LUA_CPATH": place.options.cpath,
                   "LUA_INIT": "require 'tidemark'",
                   "TIDEMARK": "out=x.tide"}
    done = place.run([lua, "a.lua"], environment)
    tap.add(done.returncode == 0 and done.stdout == "1000\n" and
            not done.stderr, "LUA_INIT: it runs as it does without", done)
    tap.add(place.tables("a.lua", 2) == 1000 * TABLE,
            "LUA_INIT: options come from TIDEMARK, tables are on their line")
    tap.add(place.is_sound().returncode == 0, "LUA_INIT: the profile is sound")
    for path in place.files():
        os.unlink(path)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tidemark", "library", "module", "lua", "meter", "liblua"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--liblua-other", default="")
    parser.add_argument("--linked", default="")
    parser.add_argument("--plugin", nargs=2, required=True)
    parser.add_argument("--host", action="append", required=True)
    options = parser.parse_args()
    for key in list(os.environ):
        if key.startswith(("TIDEMARK", "LUA_", "LD_PRELOAD")):
            del os.environ[key]
    options.hosts = {}
    for pair in options.host:
        name, _, path = pair.partition("=")
        options.hosts[name] = os.path.abspath(path)
    for name in ("tidemark", "library", "module", "meter"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    options.plugin = [os.path.abspath(path) for path in options.plugin]
    options.cpath = os.path.join(os.path.dirname(options.module), "?.so")
    tap = Tap()
    for check in (check_inactive, check_silent, check_wrong_options,
                  check_other_luas, check_interpreter, check_rights,
                  check_privileges, check_parent_and_child, check_hosts,
                  check_running, check_coming, check_asleep, check_linked,
                  check_plugins, check_symbolic, check_reports, check_module,
                  check_manual, check_lua_init):
        with tempfile.TemporaryDirectory() as folder:
            check(tap, Place(options, folder))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
