"""The workloads of the benchmark: what is run, and what it needs.

Classic ones are in workloads/, one Lua file each.  Programs are those of
Debian, run by themselves or by a file of programs/; what they read is made in
a folder that is theirs for the time of the run.  Each takes about a second.
"""
import collections
import glob
import os
import shutil

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
SHARE = "/usr/share/lua"
LIBRARIES = "/usr/lib/*/lua/5.4/"

# group: "classic" and "program" are judged by their ratio, "start" and "no-lua"
# by milliseconds.  needs: files or patterns without which it is skipped.
# prepare(folder) makes what it reads, in the folder where it runs.  count: so
# many runs are one measurement.
Workload = collections.namedtuple(
    "Workload", "name group command environment needs prepare count",
    defaults=({}, (), None, 1))


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as out:
        out.write(text)


def lua_path(*folders):
    return {"LUA_PATH": ";".join("%s/?.lua;%s/?/init.lua" % (f, f)
                                 for f in folders) + ";;"}


def missing(workload):
    """The first of the things that it needs and that are not there."""
    for need in workload.needs:
        if not glob.glob(need):
            return need
    return None


# ---- programs of Debian -----------------------------------------------------

def luacheck(lua):
    """Over the larger files of four packages, so that the input is known."""
    files = sorted(
        (f for package in ("luacheck", "pl", "ldoc", "luarocks")
         for f in glob.glob("%s/5.1/%s/**/*.lua" % (SHARE, package),
                            recursive=True)),
        key=lambda f: (-os.path.getsize(f), f))[:45]
    return Workload(
        "luacheck", "program",
        [lua, "/usr/bin/luacheck", "--no-cache", "--no-color", "-q"] + files,
        lua_path(SHARE + "/5.4", SHARE + "/5.1"),
        ("/usr/bin/luacheck", SHARE + "/5.1/argparse.lua",
         LIBRARIES + "lfs.so"))


def prepare_ldoc(folder):
    """Penlight's sources, several times under other names."""
    for copy in "1234":
        for source in glob.glob(SHARE + "/5.4/pl/*.lua"):
            name = os.path.basename(source)
            if name == "import_into.lua":
                continue
            with open(source) as file:
                text = file.read().replace("module pl.", "module pl%s." % copy)
            write(os.path.join(folder, "source", "copy" + copy, name), text)


def ldoc(lua):
    return Workload("ldoc", "program",
                    [lua, "/usr/bin/ldoc", "-q", "-d", "out", "source"], {},
                    ("/usr/bin/ldoc", SHARE + "/5.4/ldoc/doc.lua",
                     SHARE + "/5.4/pl/xml.lua"), prepare_ldoc)


def busted(lua):
    return Workload("busted", "program",
                    [lua, "/usr/bin/busted", "-o", "TAP",
                     os.path.join(PROGRAMS, "bench_spec.lua")], {},
                    ("/usr/bin/busted", SHARE + "/5.4/busted.lua"))


ROCKSPEC = """package = "thing{n}"
version = "1.0-1"
source = {{ url = "https://example.org/thing{n}-1.0.tar.gz" }}
description = {{ summary = "thing number {n}", license = "MIT" }}
dependencies = {{ "lua >= 5.1", "lpeg >= 1.0" }}
build = {{ type = "builtin", modules = {{ ["thing{n}"] = "thing.lua" }} }}
"""


def prepare_luarocks(folder):
    for n in range(4000):
        write(os.path.join(folder, "rocks", "thing%d-1.0-1.rockspec" % n),
              ROCKSPEC.format(n=n))


def luarocks(lua):
    return Workload("luarocks", "program",
                    [lua, "/usr/bin/luarocks-admin", "make-manifest",
                     "--lua-version=5.4", "rocks"], {"HOME": "."},
                    ("/usr/bin/luarocks-admin",
                     SHARE + "/5.4/luarocks/core/cfg.lua"), prepare_luarocks)


PROSODY = """run_as_root = true
pidfile = "{folder}/prosody.pid"
data_path = "{folder}/data"
certificates = "{folder}/certs"
plugin_paths = {{ "{plugins}" }}
modules_enabled = {{ "bench" }}
modules_disabled = {{ "s2s"; "tls"; "offline"; "c2s"; "http" }}
c2s_ports = {{}}; s2s_ports = {{}}; http_ports = {{}}; https_ports = {{}}
authentication = "internal_hashed"
log = {{ warn = "{folder}/prosody.log" }}
bench_messages = {messages}
VirtualHost "localhost"
"""


def prosody(lua, name, group, messages):
    """prosody itself, with a module that feeds it messages and ends it."""
    def prepare(folder):
        for part in ("data", "certs"):
            os.makedirs(os.path.join(folder, part))
        write(os.path.join(folder, "prosody.cfg.lua"),
              PROSODY.format(folder=folder, plugins=PROGRAMS,
                             messages=messages))
    return Workload(name, group,
                    [lua, "/usr/bin/prosody", "-F", "--config",
                     "./prosody.cfg.lua"], {},
                    ("/usr/bin/prosody", "/usr/lib/prosody/util/startup.lua",
                     LIBRARIES + "lxp.so"), prepare)


def library(lua, name, script, *needs):
    return Workload(name, "program", [lua, os.path.join(PROGRAMS, script)],
                    lua_path(PROGRAMS), needs)


def programs(lua):
    return [
        luacheck(lua),
        ldoc(lua),
        library(lua, "penlight", "penlight.lua", SHARE + "/5.4/pl/List.lua"),
        library(lua, "dkjson", "dkjson-document.lua",
                SHARE + "/5.4/dkjson.lua"),
        library(lua, "cjson", "cjson-document.lua", LIBRARIES + "cjson.so"),
        library(lua, "lpeg-re", "lpeg-re.lua", SHARE + "/5.4/re.lua",
                LIBRARIES + "lpeg.so"),
        busted(lua),
        prosody(lua, "prosody", "program", 16000),
        luarocks(lua),
    ]


# ---- all of them ------------------------------------------------------------

def classic(lua):
    return [Workload(os.path.basename(path)[:-4], "classic", [lua, path])
            for path in sorted(glob.glob(os.path.join(HERE, "workloads",
                                                      "*.lua")))]


def prepare_text(folder):
    line = "a line of words for grep to look at, number %d of a great many\n"
    write(os.path.join(folder, "text"),
          "".join(line % n for n in range(1000000)))


def start_up(lua):
    """What is judged by milliseconds, not by ratio."""
    return [
        Workload("empty-script", "start", [lua, "-e", ""], count=20),
        prosody(lua, "prosody-start", "start", 0),
        Workload("no-lua-true", "no-lua", [shutil.which("true")], count=50),
        Workload("no-lua-grep", "no-lua",
                 ["grep", "-c", r"n[a-z]*r \(.*7\)\1", "text"],
                 {"LC_ALL": "C"}, (), prepare_text),
    ]


def workloads(lua):
    return classic(lua) + programs(lua) + start_up(lua)
