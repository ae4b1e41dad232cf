#!/usr/bin/env python3
"""Who may include whom: doc/design.md, "Layers".

Prints one TAP line for every rule; the exit status is 1 when one is broken.
Rules are about files that git knows or would add.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# folder: what its files may include, as prefixes of paths in the repository.
MAY = {
    "include": ["include/"],
    "common": ["common/", "include/tidemark.h"],
    "alloc": ["alloc/", "common/", "include/tidemark.h"],
    "profile": ["profile/", "common/", "include/tidemark.h"],
    "attrib": ["attrib/", "alloc/", "common/", "include/tidemark.h",
               "profile/profile.h", "profile/writer.h"],
    "report": ["report/", "common/", "include/tidemark.h",
               "profile/profile.h", "profile/reader.h"],
    "tools": ["tools/", "report/", "common/", "include/tidemark.h",
              "profile/profile.h", "profile/reader.h", "profile/merge.h",
              "profile/import.h"],
    "examples": ["include/tidemark.h"],
}
WITHOUT_LUA = ["include", "common", "alloc", "profile", "report"]
LUA = re.compile(r"(^|/)(lua|lauxlib|lualib|luaconf)\.h(pp)?$")
# system header: the only files or folders which may include it
ONLY_IN = {
    "libunwind.h": ["attrib/"],
    "elfutils/libdwfl.h": ["report/"],
    "xxhash.h": ["common/hash.h", "attrib/"],
    "jansson.h": ["report/", "tools/", "tests/"],
}
COMPILERS = re.compile(r"\b(__GNUC__|__clang__|__attribute__|_MSC_VER)\b")
MAY_NAME_COMPILERS = ["common/compiler.h", "include/tidemark.h"]


def sources():
    out = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h", "*.S"],
        cwd=ROOT, capture_output=True, text=True)
    if out.returncode == 0:
        return sorted(f for f in set(out.stdout.split())
                      if os.path.exists(os.path.join(ROOT, f)))
    # Not a git checkout: an unpacked archive.
    found = []
    for folder in list(MAY) + ["tests"]:
        for at, _, names in os.walk(os.path.join(ROOT, folder)):
            found += [os.path.relpath(os.path.join(at, n), ROOT)
                      for n in names if n.endswith((".c", ".h", ".S"))]
    return sorted(found)


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def includes(path):
    """Yields (line number, is system, name, path in the repository or "")."""
    for n, line in enumerate(read(path).splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        name, target = found.group(2), ""
        if found.group(1) == '"':
            near = os.path.normpath(os.path.join(os.path.dirname(path), name))
            for guess in (near, name, os.path.join("include", name)):
                if os.path.exists(os.path.join(ROOT, guess)):
                    target = guess
                    break
        yield n, found.group(1) == "<", name, target


def folder_faults(folder, files):
    for path in files:
        for n, is_system, name, target in includes(path):
            if target and not target.startswith(tuple(MAY[folder])):
                yield "%s:%d includes %s" % (path, n, target)
            if folder == "examples" and not is_system and not target:
                yield "%s:%d includes %s" % (path, n, name)


def lua_faults(files):
    for path in files:
        for n, _, name, _ in includes(path):
            if LUA.search(name):
                yield "%s:%d includes %s" % (path, n, name)


def writer_reader_faults(files):
    """The writer lives in the profiled process, the reader never does."""
    for path in files:
        base = os.path.basename(path)
        for n, _, _, target in includes(path):
            if (base.startswith("writer") and target == "profile/reader.h" or
                    base.startswith(("reader", "check")) and
                    target == "profile/writer.h"):
                yield "%s:%d includes %s" % (path, n, target)


def only_in_faults(header, places, files):
    for path in files:
        for n, is_system, name, _ in includes(path):
            if is_system and name == header and \
                    not path.startswith(tuple(places)):
                yield "%s:%d includes %s" % (path, n, name)


def compiler_faults(files):
    for path in files:
        if path in MAY_NAME_COMPILERS or path.startswith("tests/"):
            continue
        for n, line in enumerate(read(path).splitlines(), 1):
            if COMPILERS.search(line):
                yield "%s:%d names a compiler" % (path, n)


def main():
    every = sources()
    inside = {folder: [f for f in every if f.startswith(folder + "/")]
              for folder in MAY}
    checks = [("%s includes only %s" % (folder, " ".join(MAY[folder])),
               list(folder_faults(folder, inside[folder]))) for folder in MAY]
    checks += [("%s includes no header of Lua" % folder,
                list(lua_faults(inside[folder]))) for folder in WITHOUT_LUA]
    checks.append(("writer and reader do not know each other",
                   list(writer_reader_faults(inside["profile"]))))
    checks += [("%s is included in %s only" % (header, " ".join(places)),
                list(only_in_faults(header, places, every)))
               for header, places in ONLY_IN.items()]
    checks.append(("compilers are named in %s only"
                   % " ".join(MAY_NAME_COMPILERS),
                   list(compiler_faults(every))))
    print("1..%d" % len(checks))
    for n, (name, faults) in enumerate(checks, 1):
        print("%sok %d - %s" % ("not " if faults else "", n, name))
        for fault in faults:
            print("# " + fault)
    return 1 if any(faults for _, faults in checks) else 0


if __name__ == "__main__":
    sys.exit(main())
