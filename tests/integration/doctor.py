#!/usr/bin/env python3
"""What `tidemark doctor` says of all sorts of programs; prints TAP.

usage: doctor.py --tidemark FILE --lua FILE --shared FILE --hidden FILE
                 --plugin HOST FILE
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

ALWAYS = {"format": "tidemark-doctor", "version": 1}


class Doctor:
    def __init__(self, options, tap, folder):
        self.options, self.tap, self.folder = options, tap, folder

    def run(self, *arguments, **more):
        environment = dict(os.environ, TMPDIR=self.folder)
        environment.update(more)
        return subprocess.run(
            [self.options.tidemark, "doctor"] + list(arguments),
            cwd=self.folder, env=environment, capture_output=True, text=True,
            errors="replace", timeout=120)

    def says(self, name, arguments, status, wanted, **more):
        """The JSON has these values, a reason and an advice."""
        done = self.run("--json", *arguments, **more)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = {}
        wrong = [key for key, value in dict(ALWAYS, **wanted).items()
                 if found.get(key) != value]
        self.tap.add(done.returncode == status and not wrong and
                     found.get("reason") and found.get("advice"), name,
                     "wrong: %s\n%s" % (wrong, done))
        left = glob.glob(os.path.join(self.folder, "tidemark-doctor.*"))
        self.tap.add(not left, name + ": nothing is left behind", left)

    def file(self, name, content, mode=0o755):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content)
        os.chmod(path, mode)
        return path


EXACT_PATCH = {"route": "patch", "tier": "exact", "where": "executable",
               "ran": "start"}
NONE = {"route": "none", "tier": "none", "ran": "no"}


def check_interpreters(doctor):
    lua = doctor.options.lua
    found = os.path.join(os.path.dirname(lua), "lua5.4")
    if shutil.which("lua5.4") == found:
        doctor.says("without a command: lua5.4", [], 0,
                    dict(EXACT_PATCH, program=found))
    doctor.says("an interpreter that exports its Lua", ["--", lua], 0,
                dict(EXACT_PATCH, program=lua, lua_file=lua, script=""))
    doctor.file("a.lua", b"print(1)\n", 0o644)
    doctor.says("a Lua file", ["--", "a.lua"], 0,
                dict(EXACT_PATCH, script="a.lua"))
    script = doctor.file("a.sh", ("#!/usr/bin/env -S %s -E\nprint(1)\n" %
                                  lua).encode())
    doctor.says("a script by way of env", ["--", script], 0,
                dict(EXACT_PATCH, script=script, program=lua))
    outer = doctor.file("b.sh", ("#!%s\n" % script).encode())
    doctor.says("a script run by a script", ["--", outer], 0,
                dict(EXACT_PATCH, script=outer, program=lua))


def check_hosts(doctor):
    options = doctor.options
    doctor.says("a program linked to liblua5.4", ["--", options.shared], 0,
                {"route": "preload", "tier": "exact", "where": "library",
                 "ran": "start", "program": options.shared})
    doctor.says("a plugin brings Lua", ["--"] + options.plugin, 0,
                {"route": "preload", "tier": "exact", "where": "plugin",
                 "ran": "run"})
    doctor.says("a plugin, but it must not be run",
                ["--no-run", "--"] + options.plugin, 1,
                dict(NONE, where="none"))
    script = doctor.file("s.sh", ("#!/bin/sh\n%s -e 'x = {}'\nexec sleep 60\n"
                                  % options.lua).encode())
    doctor.says("a shell script that runs Lua, then waits", ["--", script], 0,
                {"route": "patch", "tier": "exact", "where": "child",
                 "ran": "run", "lua_file": options.lua})
    script = doctor.file("a.lua", b"for i = 1, 1e9 do x = {} end\n")
    doctor.says("Lua inside without names", ["--", options.hidden, script], 1,
                {"route": "sniff", "tier": "partial", "where": "hidden",
                 "ran": "run", "program": options.hidden})
    found = json.loads(doctor.run("--json", "--", options.hidden,
                                  script).stdout)
    doctor.tap.add("sniff=on" in found["advice"] and
                   "layout read from the state" in found["reason"],
                   "Lua inside without names: sniff=on is recommended", found)
    doctor.says("Lua inside without names, and no state is made",
                ["--", options.hidden], 1,
                dict(NONE, where="hidden", ran="run"))
    doctor.says("Lua inside without names that must not be run",
                ["--no-run", "--", options.hidden, script], 1,
                dict(NONE, where="hidden"))


def check_without_lua(doctor):
    true = shutil.which("true")
    doctor.says("a program without Lua", ["--", true], 1,
                {"route": "none", "tier": "none", "where": "none", "lua": "",
                 "ran": "run"})
    doctor.says("nothing of a program is run up to main",
                ["--", doctor.options.lua, "-e",
                 "io.open('ran', 'w'):close()"], 0, EXACT_PATCH)
    doctor.tap.add(not os.path.exists(os.path.join(doctor.folder, "ran")),
                   "the Lua code was not run")


def check_other_luas(doctor):
    for name, text in (("lua5.1", "Lua 5.1"), ("lua5.3", "Lua 5.3"),
                       ("luajit", "LuaJIT 2")):
        path = shutil.which(name)
        if not path:
            doctor.tap.skip(name, "not installed")
            continue
        done = doctor.run("--json", "--", name)
        found = json.loads(done.stdout)
        doctor.tap.add(done.returncode == 1 and found["route"] == "none" and
                       found["lua"].startswith(text) and
                       "5.4 only" in found["reason"], name + ": not for it",
                       done)


def elf(byte_class, machine):
    """The head of an ELF file and nothing behind it."""
    head = b"\x7fELF" + bytes([byte_class, 1, 1]) + bytes(9)
    return head + (2).to_bytes(2, "little") + machine.to_bytes(2, "little") + \
        bytes(44)


def check_files(doctor):
    doctor.says("a 32-bit program", ["--", doctor.file("e32", elf(1, 3))], 1,
                NONE)
    doctor.says("a program for another processor",
                ["--", doctor.file("riscv", elf(2, 243))], 1, NONE)
    doctor.says("a program without the dynamic linker",
                ["--", doctor.file("static", elf(2, machine_here()))], 1, NONE)
    doctor.says("something executable that is none",
                ["--", doctor.file("text", b"hello\n")], 1, NONE)
    doctor.says("an empty file", ["--", doctor.file("empty", b"")], 1, NONE)


def machine_here():
    return {"x86_64": 62, "aarch64": 183}.get(os.uname().machine, 0)


def check_privileges(doctor):
    name = "a program with privileges"
    if os.geteuid() != 0:
        doctor.tap.skip(name, "takes root to make one")
        return
    path = os.path.join(doctor.folder, "setuid")
    shutil.copy(doctor.options.lua, path)
    os.chown(path, 1, 1)
    os.chmod(path, 0o4755)
    doctor.says(name, ["--", path], 1, dict(NONE, where="executable"))


def hints(doctor, *command):
    done = doctor.run("--json", "--no-run", "--", *command)
    try:
        return json.loads(done.stdout)["environment"]
    except ValueError:
        return [str(done)]


def check_environment(doctor):
    """Who clears the environment, and what to write where."""
    add = doctor.tap.add
    fake = doctor.file("sudo", b"#!/bin/sh\nexit 1\n")
    got = hints(doctor, fake, "-u", "nobody", "lua5.4")
    add(len(got) == 1 and re.search(
        r"sudo env LD_PRELOAD=/\S+/libtidemark\.so\S* "
        r"TIDEMARK=out=/FOLDER/%n\.%p\.tide COMMAND", got[0]),
        "sudo: behind it", got)
    got = hints(doctor, doctor.file("dovecot", b"#!/bin/sh\nexit 1\n"))
    add(any("import_environment = $import_environment LD_PRELOAD TIDEMARK" in
            text for text in got), "dovecot: its own environment", got)
    got = hints(doctor, doctor.options.lua)
    add(got == [], "lua5.4: nothing is in the way", got)
    for name, wanted in (("lighttpd", ["systemctl edit lighttpd.service",
                                       "LD_PRELOAD=/", "%%n.%%p.tide"]),
                         ("prosody", ["systemctl edit prosody.service"]),
                         ("dovecot", ["systemctl edit dovecot.service",
                                      "PrivateTmp", "ReadWritePaths"])):
        path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")
        unit = "/lib/systemd/system/%s.service" % name
        if not path or not os.path.exists(unit):
            doctor.tap.skip("the unit of " + name, "not installed")
            continue
        got = "\n".join(hints(doctor, path))
        add(all(text in got for text in wanted), "the unit of " + name, got)
    done = doctor.run("--no-run", "--", fake)
    add("\naround   sudo clears" in done.stdout, "the same as text", done)


def check_damaged(doctor):
    """Every offset in a file may be wrong: cut short, and bytes changed."""
    with open(doctor.options.shared, "rb") as file:
        whole = file.read()
    crashes = []
    for n in list(range(0, 200, 13)) + [1000, 4096, len(whole) // 2]:
        path = doctor.file("cut", whole[:n])
        crashes += [n] if doctor.run("--no-run", "--", path,
                                     PATH="").returncode \
            not in (0, 1, 2) else []
    doctor.tap.add(not crashes, "files that are cut short", crashes)
    crashes = []
    tables = int.from_bytes(whole[40:48], "little")
    for at in list(range(16, 64)) + list(range(tables, tables + 640, 7)):
        damaged = bytearray(whole)
        damaged[at] ^= 0xff
        path = doctor.file("damaged", damaged)
        status = doctor.run("--no-run", "--", path, PATH="").returncode
        crashes += [at] if status not in (0, 1, 2) else []
    doctor.tap.add(not crashes, "files with a byte that is wrong", crashes)


def check_wrong_use(doctor):
    for name, arguments, text in (
            ("no such program", ["--", "/nonexistent"], "/nonexistent"),
            ("not in PATH", ["--", "no-such-program"], "not found in PATH"),
            ("a file that may not be run",
             ["--", doctor.file("plain", b"x", 0o644)], "not an executable"),
            ("a folder", ["--", doctor.folder], "not a file"),
            ("an interpreter that is missing",
             ["--", doctor.file("bad.sh", b"#!/nonexistent/lua\n")],
             "No such file"),
            ("a script without an interpreter",
             ["--", doctor.file("none.sh", b"#!\n")], "no interpreter"),
            ("an unknown option", ["--nonsense"], "unknown option")):
        done = doctor.run(*arguments)
        doctor.tap.add(done.returncode == 2 and not done.stdout and
                       done.stderr.startswith("tidemark: ") and
                       text in done.stderr, name, done)
    done = doctor.run("--help")
    doctor.tap.add(done.returncode == 0 and "usage:" in done.stdout, "--help",
                   done)


def check_text(doctor):
    done = doctor.run("--", doctor.options.lua)
    doctor.tap.add(done.returncode == 0 and
                   [line[:8].rstrip() for line in done.stdout.splitlines()] ==
                   ["program", "lua", "route", "tier", "to do"],
                   "the same as text", done)


def main():
    parser = argparse.ArgumentParser()
    for name in ("tidemark", "lua", "shared", "hidden"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--plugin", nargs=2, required=True)
    options = parser.parse_args()
    for key in list(os.environ):
        if key.startswith(("TIDEMARK", "LUA_", "LD_PRELOAD")):
            del os.environ[key]
    for name in ("tidemark", "lua", "shared", "hidden"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    options.plugin = [os.path.abspath(path) for path in options.plugin]
    tap = Tap()
    for check in (check_interpreters, check_hosts, check_without_lua,
                  check_other_luas, check_files, check_privileges,
                  check_environment, check_damaged, check_wrong_use, check_text):
        with tempfile.TemporaryDirectory() as folder:
            check(Doctor(options, tap, folder))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
