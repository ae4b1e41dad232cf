#!/usr/bin/env python3
"""The command line: exit codes, errors, what `run` hands through, and that no
bad input makes it crash.  Prints TAP.

usage: cli.py --tidemark FILE --golden DIR --man FILE -- INTERPRETER
"""
import argparse
import glob
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

PATIENCE_S = 60  # only a fault takes that long
LOOP = "local t = {} while true do t[#t % 100 + 1] = {} end"
HELPED = ["run", "report", "check", "doctor"]


class Cli:
    """The command, in a folder of its own."""

    def __init__(self, options, folder, tap):
        self.tidemark, self.golden = options.tidemark, options.golden
        self.lua, self.folder, self.tap = options.lua, folder, tap
        self.man = options.man
        self.env = {k: v for k, v in os.environ.items()
                    if k not in ("TIDEMARK", "LUA_INIT", "LUA_INIT_5_4",
                                 "COLUMNS", "NO_COLOR")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        mode = "wb" if isinstance(data, bytes) else "w"
        with open(self.path(name), mode) as file:
            file.write(data)
        return name

    def __call__(self, *args, **more):
        env = dict(self.env, **more.pop("env", {}))
        return subprocess.run([self.tidemark, *args], cwd=self.folder,
                              env=env, capture_output=True, timeout=120,
                              **more)

    def start(self, *args, **more):
        return subprocess.Popen([self.tidemark, *args], cwd=self.folder,
                                env=self.env, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def expect(self, name, got, status, err=None, out=None):
        """Status and patterns; an error is one line from tidemark."""
        stderr = got.stderr.decode(errors="replace")
        stdout = got.stdout.decode(errors="replace")
        is_ok = got.returncode == status
        is_ok = is_ok and (err is None or bool(re.search(err, stderr)))
        is_ok = is_ok and (out is None or bool(re.search(out, stdout)))
        self.tap.add(is_ok, name, "status %d\n%s\n%s" % (
            got.returncode, stdout[-1000:], stderr[-1000:]))

    def remove_profiles(self):
        for path in glob.glob(self.path("*.tide")):
            os.remove(path)


def check_use(cli):
    cli.expect("no argument is wrong use", cli(), 2, "^usage: tidemark")
    cli.expect("--version", cli("--version"), 0, "^$", r"^tidemark \d+\.\d+")
    cli.expect("--help", cli("--help"), 0, "^$", "usage: tidemark")
    cli.expect("help", cli("help"), 0, "^$", "usage: tidemark")
    for name in HELPED:
        cli.expect("help " + name, cli("help", name), 0, "^$",
                   "usage: tidemark " + name)
    cli.expect("help options", cli("help", "options"), 0, "^$", "start=")
    cli.expect("help on nothing known", cli("help", "tides"), 2,
               "^tidemark: tides: unknown command")
    cli.expect("an unknown command", cli("tides"), 2,
               "^tidemark: tides: unknown command")
    for command in ("run", "report", "check"):
        cli.expect(command + ": an unknown option", cli(command, "--tides"),
                   2, "^tidemark: %s: unknown option '--tides'" % command)
        cli.expect(command + ": an unknown letter", cli(command, "-z"), 2,
                   "^tidemark: %s: unknown option '-z'" % command)
        cli.expect(command + ": no argument", cli(command), 2,
                   "^tidemark: %s: .*needed" % command)
    wrong = [
        (["report", "--top"], "option '--top' needs a value"),
        (["report", "--json=1", "x"], "option '--json=1' takes no value"),
        (["report", "--top", "-1", "x"], "--top takes a number"),
        (["report", "--sort", "size", "x"], "--sort takes one of"),
        (["report", "--by", "moon", "x"], "--by takes"),
        (["report", "--min", "10Q", "x"], "--min takes a size"),
        (["report", "--filter", "(", "x"], "--filter '\\('"),
        (["report", "--color", "red", "x"], "--color takes"),
        (["report", "--base", "b", "x", "y"], "'y' is one too many"),
        (["run", "--top", "x", "true"], "--top takes a number"),
        (["run", "-o"], "option '-o' needs a value"),
        (["run", "--set", "tide=1", "true"], "unknown option 'tide'"),
        (["run", "--set", "top=many", "true"], "takes a number"),
        (["run", "--report", "moon", "true"], "--report takes"),
        (["run", "-o", "%q.tide", "true"], "only %p, %n"),
        (["run", "-o", "", "true"], "'out' is empty"),
        (["run", "-o", "no/such/x.tide", "true"], "no profile can be made"),
    ]
    for args, why in wrong:
        cli.expect(" ".join(args), cli(*args), 2, "^tidemark: .*" + why)


def check_man(cli):
    """What the command takes and prints stands in the man page."""
    with open(cli.man, encoding="utf-8") as file:
        man = file.read().replace("\\--", "--")
    for command in ("run", "report", "gc", "check"):
        text = cli("help", command).stdout.decode()
        missing = [word for word in re.findall(r"--[a-z][a-z-]*", text)
                   if "**%s**" % word not in man]
        cli.tap.add(text and not missing, "the man page has the options of " +
                    command, missing)
    keys = re.findall(r"^  (\w+)=", cli("help", "options").stdout.decode(), re.M)
    missing = [key for key in keys if "**%s=" % key not in man]
    cli.tap.add(keys and not missing, "the man page has every key", missing)
    small = os.path.join(cli.golden, "v1", "small.tide")
    report = json.loads(cli("report", "--json", small).stdout)
    names = set()

    def collect(value):
        if isinstance(value, dict):
            names.update(value)
            for name, inner in value.items():
                if name != "evidence":  # differs from finding to finding
                    collect(inner)
        elif isinstance(value, list):
            for inner in value[:1]:
                collect(inner)
    collect(report)
    missing = [n for n in names
               if '"%s"' % n not in man and "**%s**" % n not in man]
    cli.tap.add(len(names) > 60 and not missing,
                "the man page has every key of the JSON", missing)


def check_bad_profiles(cli):
    """Whatever the file is: an error or a report that says what is missing."""
    files = {"empty": b"", "text": b"no profile\n" * 1000,
             "zeros": bytes(100000), "magic": b"TIDEMARK",
             "cut": None}
    with open(os.path.join(cli.golden, "v1", "small.tide"), "rb") as file:
        whole = file.read()
    files["cut"] = whole[:3000]
    for name, data in files.items():
        cli.write(name, data)
        for command in ("report", "check"):
            cli.expect("%s of a file that is %s" % (command, name),
                       cli(command, name), 3, r"^tidemark: %s: \w" % name,
                       "^$")
    for command in ("report", "check"):
        cli.expect(command + " of no file", cli(command, "none"), 3,
                   "^tidemark: none: ")
        cli.expect(command + " of a folder", cli(command, "."), 3,
                   r"^tidemark: \.: ")
    for path in sorted(glob.glob(os.path.join(cli.golden, "bad", "*.tide"))):
        name = os.path.basename(path)
        status = 3 if name.startswith("refused") else 0
        cli.expect("report of " + name, cli("report", path), status,
                   "^tidemark: .*%s: " % re.escape(name))
        cli.expect("check of " + name, cli("check", path), status or 1,
                   "^tidemark: .*%s: " % re.escape(name))
        if status == 0:
            got = json.loads(cli("report", "--json", path).stdout)
            cli.tap.add(not got["run"]["complete"] and got["findings"],
                        "the report of %s says that it is partial" % name)


def check_report(cli):
    small = os.path.join(cli.golden, "v1", "small.tide")
    cli.expect("report", cli("report", small), 0, "^$", "lines by allocated")
    for by in ("line", "function", "stack", "kind", "group", "target"):
        cli.expect("report --by " + by, cli("report", "--by", by, small), 0,
                   "^$", "%ss by allocated bytes" % by)
    got = cli("report", "--top", "3", small).stdout.decode()
    cli.tap.add(len(re.findall(r"\S+:\d+ ", got)) >= 3 and
                re.search(r"^3 of \d+ lines shown", got, re.M),
                "report --top", got)
    plain = json.loads(cli("report", "--json", small).stdout)
    rows = json.loads(cli("report", "--json", "--top", "2", "--sort", "live",
                          small).stdout)["lines"]
    best = sorted((r["live_bytes"] for r in plain["lines"]), reverse=True)
    cli.tap.add([r["live_bytes"] for r in rows] == best[:2],
                "report --json --top --sort", rows)
    name = plain["lines"][0]["source"]
    rows = json.loads(cli("report", "--json", "--filter",
                          "^" + re.escape(name) + ":", small).stdout)["lines"]
    cli.tap.add(rows and {r["source"] for r in rows} == {name},
                "report --filter", rows)
    rows = json.loads(cli("report", "--json", "--min", "1M",
                          small).stdout)["lines"]
    wanted = [r for r in plain["lines"] if r["alloc_bytes"] >= 1 << 20]
    cli.tap.add(rows == wanted, "report --min", rows)
    got = cli("report", "--color", "always", small)
    cli.tap.add(b"\x1b[" in got.stdout, "report --color=always")
    cli.tap.add(b"\x1b" not in cli("report", small).stdout,
                "no colours into a pipe")
    got = cli("report", small, env={"COLUMNS": "200"}).stdout
    cli.tap.add(b"B/call" in got, "report is wider on a wide page")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([cli.tidemark, "report", small], stdout=full,
                              stderr=subprocess.PIPE, env=cli.env)
        cli.tap.add(done.returncode == 1 and done.stderr.startswith(
            b"tidemark: "), "report on a full disk fails", done)
        done = subprocess.run([cli.tidemark, "--help"], stdout=full,
                              stderr=subprocess.PIPE, env=cli.env)
        cli.tap.add(done.returncode == 1, "help on a full disk fails", done)


def check_check(cli):
    small = os.path.join(cli.golden, "v1", "small.tide")
    cli.expect("check of a whole profile", cli("check", small), 0, "^$",
               "whole, closed; the books balance")
    got = json.loads(cli("check", "--json", small).stdout)
    cli.tap.add(got["whole"] and got["sums_compared"] and
                got["faults"] == [], "check --json", got)
    with open(small, "rb") as file:
        cooked = bytearray(file.read())
    # profile.h: the directory's entries, then moved_bytes of the first rest
    entries = [struct.unpack_from("<HBBIII", cooked, 4096 + 16 * i)
               for i in range(struct.unpack_from("<I", cooked, 24)[0])]
    page = [e[4] for e in entries if e[1] == 14 and e[3] == 0][0]
    at = page * 4096 + 64
    struct.pack_into("<q", cooked, at,
                     struct.unpack_from("<q", cooked, at)[0] + 8)
    cli.write("cooked.tide", bytes(cooked))
    cli.expect("check of books that do not balance",
               cli("check", "cooked.tide"), 1, "^tidemark: cooked.tide: ",
               "not whole, closed; faults: [1-9]")
    got = json.loads(cli("check", "--json", "cooked.tide").stdout)
    cli.tap.add(not got["whole"] and got["n_faults"] == len(got["faults"]) > 0,
                "check --json of books that do not balance", got)
    killed = os.path.join(cli.golden, "v1", "killed.tide")
    cli.expect("check of a killed run", cli("check", killed), 0, "^$",
               "whole, killed; sums not compared")


def check_run_status(cli):
    cli.remove_profiles()
    script = cli.write("exit.lua", "os.exit(tonumber(arg[1]))")
    for status in (0, 1, 3, 127, 255):
        cli.expect("the program's status %d" % status,
                   cli("run", script, str(status)), status, "profile: exit")
    kill = 'os.execute("kill -%s $PPID") '
    for name, number in (("KILL", 9), ("TERM", 15), ("SEGV", 11)):
        cli.expect("a program that ends by SIG" + name,
                   cli("run", "--", cli.lua, "-e", kill % name + LOOP),
                   128 + number, "ended by signal %d" % number)
    cli.expect("no such program", cli("run", "no-such-program"), 127,
               "^tidemark: no-such-program: cannot be run: No such file")
    cli.expect("no such Lua file", cli("run", "no-such.lua"), 127,
               r"^tidemark: no-such\.lua: cannot be run: No such file")
    cli.write("plain", "text")
    cli.expect("a file that is no program", cli("run", "./plain"), 126,
               "^tidemark: ./plain: cannot be run: Permission denied")
    cli.expect("a program without Lua", cli("run", "true"), 0,
               r"^tidemark: no Lua state was profiled in 'true': .*; try "
               r"'\S*tidemark doctor -- true'\n$")
    cli.expect("its status counts", cli("run", "false"), 1, "no Lua state")


def check_run_hands_through(cli):
    script = cli.write("echo.lua", """
        for i = 1, #arg do io.write(arg[i], "|") end
        io.stderr:write("own stderr\\n")
        io.write(io.read("a"), "|", os.getenv("LD_PRELOAD") or "")
    """)
    got = cli("run", "--report", "none", "--", script, "a b", "--top", "$x",
              "", input=b"stdin \xff bytes",
              env={"LD_PRELOAD": "/no/such/first.so"})
    cli.tap.add(got.stdout.startswith(b"a b|--top|$x||stdin \xff bytes|"),
                "arguments, stdin and stdout are the program's", got)
    cli.tap.add(got.stdout.endswith(b"libtidemark.so.0:/no/such/first.so") or
                got.stdout.endswith(b"libtidemark.so:/no/such/first.so"),
                "what was to be preloaded still is", got)
    cli.tap.add(b"own stderr\n" in got.stderr, "stderr is the program's", got)
    got = cli("run", "--report", "json", script, input=b"")
    text = got.stderr.decode()
    report, _ = json.JSONDecoder().raw_decode(text[text.index("{"):])
    cli.tap.add(report["format"] == "tidemark-report" and got.stdout[:1] ==
                b"|", "run --report json prints it on stderr", got)
    got = cli("run", "--set", "quiet=yes", "--report", "none", script,
              input=b"")
    cli.tap.add(got.stderr == b"own stderr\n", "quiet=yes is quiet", got)
    got = cli("run", "--report", "none", script, input=b"",
              env={"TIDEMARK": "quiet=yes"})
    cli.tap.add(got.stderr == b"own stderr\n",
                "TIDEMARK in the environment counts", got)
    got = cli("run", "--top", "1", script, input=b"")
    cli.tap.add(re.search(rb"^1 of \d+ lines shown", got.stderr, re.M),
                "run --top", got)


def check_names(cli):
    names = [(None, r"lua5\.4\.\d+\.tide|lua\.\d+\.tide"),
             ("x.tide", r"x\.tide"), ("x", "x"),
             ("%p-%n.tide", r"\d+-\S+\.tide"),
             ("a b,\"c'd$%%.tide", r"a b,\"c'd\$%\.tide")]
    for out, wanted in names:
        for path in os.listdir(cli.folder):
            if os.path.isfile(cli.path(path)):
                os.remove(cli.path(path))
        option = [] if out is None else ["-o", out]
        got = cli("run", *option, "--report", "none", "--", cli.lua, "-e",
                  "local x = {}")
        files = os.listdir(cli.folder)
        cli.tap.add(len(files) == 1 and (out is None or
                                         re.fullmatch(wanted, files[0])),
                    "the profile of -o %s" % out, "%s\n%s" % (files, got))
        named = re.search(rb"tidemark: next: (.*)\n", got.stderr)
        done = subprocess.run(["sh", "-c", named.group(1)], cwd=cli.folder,
                              env=cli.env, capture_output=True) \
            if named else None
        cli.tap.add(done is not None and done.returncode == 0,
                    "the next command for -o %s can be pasted" % out, got)


def check_children(cli):
    cli.remove_profiles()
    command = "%s -e 'local t = {} for i = 1, 1000 do t[i] = {} end'" % cli.lua
    parent = cli.write("parent.lua", "os.execute(arg[1]) local x = {}")
    got = cli("run", "-o", "p.tide", "--report", "none", parent, command)
    cli.expect("a child's profile is named", got, 0,
               r"profile: p\.tide\n.*also: p\.\d+\.tide \(pid \d+, ")
    files = glob.glob(cli.path("*.tide"))
    cli.tap.add(len(files) == 2 and all(
        cli("check", os.path.basename(f)).returncode == 0 for f in files),
        "parent and child have a profile each", files)
    cli.remove_profiles()
    got = cli("run", "--report", "none", "--", "sh", "-c",
              command + "; exit 4")
    cli.expect("the child of a shell", got, 4, r"profile: sh\.\d+\.tide")
    time.sleep(0.05)
    got = cli("run", "--report", "none", "--", "sh", "-c", "true; true")
    cli.expect("older profiles are not taken for new ones", got, 0,
               "no Lua state was profiled")


def wait_for(cli, pattern):
    """Until a file is there; a program is then under way."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = glob.glob(cli.path(pattern))
        if found:
            return found
        time.sleep(0.02)
    return []


def stop(process):
    try:
        process.kill()
    except OSError:
        pass
    process.communicate()


def take_signals():
    """What started the tests may have signals ignored, as nohup does, and so
    would all that they start."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                   signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def check_signals(cli):
    ready = "io.open('ready', 'w'):close() "
    handled = {signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 138,
               signal.SIGUSR2: 140, signal.SIGQUIT: 131}
    for number, status in handled.items():
        for path in glob.glob(cli.path("ready")):
            os.remove(path)
        process = cli.start("run", "-o", "s.tide", "--", cli.lua, "-e",
                            ready + LOOP)
        wait_for(cli, "ready")
        process.send_signal(number)
        try:
            _, err = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            stop(process)
            err = b"it went on"
        cli.tap.add(process.returncode == status and b"s.tide" in err,
                    "%s reaches the program" % number.name,
                    "%s %s" % (process.returncode, err))
        cli.expect("%s: the profile is whole" % number.name,
                   cli("check", "s.tide"), 0, "^$", "whole")
    os.remove(cli.path("ready"))
    process = cli.start("run", "-o", "s.tide", "--", "nohup", cli.lua, "-e",
                        ready + "for i = 1, 3e7 do end os.exit(5)",
                        stdin=subprocess.DEVNULL)
    wait_for(cli, "ready")
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=PATIENCE_S)
    cli.tap.add(process.returncode == 5, "an ignored signal stays ignored",
                process.returncode)


def report_beyond(cli, profile, before):
    """The report, once more than so many bytes were allocated; the program may
    have to wait for its turn."""
    end = time.monotonic() + PATIENCE_S
    while True:
        got = json.loads(cli("report", "--json", profile).stdout)
        if got["totals"]["alloc_bytes"] > before or time.monotonic() > end:
            return got
        time.sleep(0.01)


def check_live(cli):
    """A profile is read while it is written."""
    process = cli.start("run", "-o", "%p.tide", "--", cli.lua, "-e",
                        "io.open('ready', 'w'):close() " + LOOP)
    wait_for(cli, "ready")
    found = [os.path.basename(p) for p in glob.glob(cli.path("*.tide"))]
    cli.tap.add(len(found) == 1, "a running program has a profile", found)
    before = 0
    for _ in range(3):
        got = report_beyond(cli, found[0], before)
        now = got["totals"]["alloc_bytes"]
        cli.tap.add(not got["run"]["complete"] and now > before and
                    sum(r["alloc_bytes"] for r in got["lines"]) > 0,
                    "it is reported, and goes on", (before, now))
        before = now
    cli.expect("text of a running program", cli("report", found[0]), 0, "^$",
               "note: the profile was not finished")
    cli.expect("check of a running program", cli("check", found[0]), 0, "^$",
               "whole, running; sums not compared")
    os.kill(int(found[0].split(".")[0]), signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    cli.tap.add(process.returncode == 128 + 9, "it can be killed",
                process.returncode)
    cli.expect("check of a killed program", cli("check", found[0]), 0, "^$",
               "whole, killed")


def check_job_control(cli):
    """A program that stops itself as ^Z would stops the whole job."""
    process = cli.start("run", "--report", "none", "-o", "j.tide", "--", "sh",
                        "-c", "kill -TSTP $$; exit 6",
                        preexec_fn=os.setpgrp)
    pid, status = os.waitpid(process.pid, os.WUNTRACED)
    is_stopped = os.WIFSTOPPED(status)
    os.kill(process.pid, signal.SIGCONT)
    process.communicate(timeout=PATIENCE_S)
    cli.tap.add(pid == process.pid and is_stopped and
                process.returncode == 6, "stop and continue",
                "%s %s" % (status, process.returncode))


def read_terminal(fd, wanted):
    text = b""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end and wanted not in text:
        if not select.select([fd], [], [], 0.1)[0]:
            continue
        try:
            text += os.read(fd, 4096)
        except OSError:
            break
    return text


def check_terminal(cli):
    """^C at a terminal reaches the program once; it ends as it wants to."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cli.folder)
        os.execve(cli.tidemark, [
            cli.tidemark, "run", "-o", "t.tide", "--", cli.lua, "-e",
            "print('under way') " + LOOP], dict(cli.env, TERM="xterm"))
    text = read_terminal(fd, b"under way")
    os.write(fd, b"\x03")
    text += read_terminal(fd, b"profile: t.tide")
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    cli.tap.add(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 1 and
                b"interrupted!" in text, "^C interrupts the Lua program",
                "%s %s" % (status, text))
    cli.tap.add(b"\x1b[1m" in text and b"profile: t.tide" in text,
                "the report at a terminal is in colour", text)
    cli.expect("the profile after ^C is whole", cli("check", "t.tide"), 0,
               "^$", "whole, closed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--golden", required=True)
    parser.add_argument("--man", required=True)
    parser.add_argument("lua", nargs=1)
    options = parser.parse_args()
    take_signals()
    options.tidemark = os.path.abspath(options.tidemark)
    options.golden = os.path.abspath(options.golden)
    options.man = os.path.abspath(options.man)
    options.lua = options.lua[0]
    tap = Tap()
    checks = [check_use, check_man, check_bad_profiles, check_report,
              check_check,
              check_run_status, check_run_hands_through, check_names,
              check_children, check_signals, check_live, check_job_control,
              check_terminal]
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            check(Cli(options, folder, tap))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
