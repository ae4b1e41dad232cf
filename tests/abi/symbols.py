#!/usr/bin/env python3
"""What the shared libraries show to the world; prints TAP.

usage: symbols.py --header tidemark.h --library libtidemark.so
                  [--module tidemark.so] [--archive libtide_core.a]...

  - the library exports the functions of tidemark.h, all of them, and those of
    Lua that it interposes, with the version LUA_5.4, so that hosts of other
    Luas pass by; nothing else;
  - it never needs a symbol of Lua to be loaded: hosts may have none, or have it
    where the linker does not look;
  - it stays in memory: lua_close unloads modules before it frees the last
    blocks;
  - no variable of the library's own can change, but for the list of sessions
    that a fork must reach and the folder for late files: what two states or
    sessions would share.
"""
import argparse
import re
import subprocess
import sys

INTERPOSED = {
    "luaL_newstate", "lua_newstate", "lua_close", "lua_resume", "lua_gc",
    "lua_getallocf", "lua_setallocf", "lua_newthread", "lua_closethread",
    "lua_resetthread",
}
NEEDED = {"luaL_newstate", "lua_newstate", "lua_close", "lua_resume",
          "lua_getallocf", "lua_setallocf"}
MAY_CHANGE = re.compile(
    r"\b(fork\.c\.o: (all_sessions|all_lock|did_register(\.\d+)?)|"
    r"session\.c\.o: held)$|"
    # The oracle of -Dcheck=full counts for the whole process.
    r"\b(check|unit)\.c\.o: (n_differences|n_checked|frames(\.\d+)?)$")


def output(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("tidemark: symbols: " + done.stderr)
    return done.stdout


def dynamic(path, which):
    """{name: version or ""} of dynamic symbols."""
    found = {}
    for line in output("nm", "-D", which, path).splitlines():
        kind, symbol = line.split()[-2:]
        if kind in "wv" and which == "--undefined-only":
            continue
        name, _, version = symbol.partition("@")
        if kind != "A":
            found[name] = version.lstrip("@")
    return found


def public(header):
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    return set(re.findall(r"TIDE_API[^;]*?\b(tide_\w+)\s*\(", text))


def variables(archive):
    """Yields "object: symbol" for every variable that can change."""
    member = ""
    for line in output("objdump", "-t", archive).splitlines():
        found = re.match(r"^(\S+):\s+file format", line)
        if found:
            member = found.group(1)
            continue
        found = re.match(r"^[0-9a-f]+ .{7} (\.(?:t?data|t?bss)\S*)\s+"
                         r"([0-9a-f]+)\s+(?:\.hidden )?(\S+)", line)
        if not found or found.group(1).startswith(".data.rel.ro"):
            continue
        symbol = "%s: %s" % (member, found.group(3))
        if int(found.group(2), 16) and not MAY_CHANGE.search(symbol):
            yield symbol


def checks(options):
    exported = dynamic(options.library, "--defined-only")
    functions = public(options.header)
    strange = sorted(n for n in exported
                     if n not in functions and n not in INTERPOSED)
    yield "only tide_* and the interposed lua_* are exported", strange
    yield "every function of tidemark.h is exported", sorted(
        functions - set(exported))
    yield "the functions that make and end states are interposed", sorted(
        NEEDED - set(exported))
    yield "interposed functions have the version LUA_5.4", sorted(
        n for n, version in exported.items()
        if n in INTERPOSED and version != "LUA_5.4")
    yield "no function of Lua is needed", sorted(
        n for n in dynamic(options.library, "--undefined-only")
        if n.startswith(("lua_", "luaL_", "luaopen_")))
    flags = output("readelf", "-d", options.library)
    yield "the library cannot be unloaded", [] if re.search(
        r"FLAGS_1.*NODELETE", flags) else ["no NODELETE"]
    if options.module:
        module = dynamic(options.module, "--defined-only")
        yield "the module exports luaopen_tidemark only", sorted(
            n for n in module if n != "luaopen_tidemark" and
            n not in functions)
        yield "the module can be opened", [] if "luaopen_tidemark" in module \
            else ["no luaopen_tidemark"]
        flags = output("readelf", "-d", options.module)
        yield "the module cannot be unloaded", [] if re.search(
            r"FLAGS_1.*NODELETE", flags) else ["no NODELETE"]
    for archive in options.archive:
        yield ("no variable can change in " + archive.split("/")[-1],
               list(variables(archive)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--header", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--module", default="")
    parser.add_argument("--archive", action="append", default=[])
    n = n_failed = 0
    for name, faults in checks(parser.parse_args()):
        n += 1
        n_failed += bool(faults)
        print("%sok %d - %s" % ("not " if faults else "", n, name))
        for fault in faults:
            print("# " + fault)
    print("1..%d" % n)
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
