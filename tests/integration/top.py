#!/usr/bin/env python3
"""`tidemark top` in a real terminal: tmux runs it, and its screen is compared
with what `tidemark report --json` says of the same profile.  Prints TAP.

usage: top.py --tidemark FILE --library FILE -- INTERPRETER

The profiled program does nothing but what it is told, and is at rest while
figures are compared.  Nothing is waited for by time: a screen is looked at
until it shows what it must.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cli import Cli, Tap  # noqa: E402

PATIENCE = 60  # seconds that a screen has to show something

WORK = """\
local kept = {}
local function churn(n)
  for i = 1, n do
    local s = ("x"):rep(1000 + i % 3)
  end
end
local function keep(n)
  for i = 1, n do
    kept[#kept + 1] = {i}
  end
end
local odd = load("return function() return {1, 2, 3} end",
                 "@gr\\xC3\\xB6\\xC3\\x9Fe\\27[31mred.lua")()
local function work(command, n)
  if command == "churn" then churn(n)
  elseif command == "keep" then keep(n)
  elseif command == "odd" then for i = 1, n do odd() end
  elseif command == "stop" then os.exit(true, true) end
end
io.stdout:setvbuf("no")
collectgarbage("stop")
print("ready")
for line in io.lines() do
  local command, n = line:match("(%a+) ?(%d*)")
  work(command, tonumber(n) or 1)
  print("done")
end
"""


def bytes_text(n):
    """As the tables have it: three digits."""
    if n < 1024:
        return "%d B" % n
    v, i = n / 1024, 0
    while v >= 1023.5:
        v, i = v / 1024, i + 1
    decimals = 2 if v < 9.995 else 1 if v < 99.95 else 0
    return "%.*f %s" % (decimals, v, ("KiB", "MiB", "GiB")[i])


class Host:
    """A program under the profiler that does what it is told."""

    def __init__(self, cli, out="host.%p.tide", before=None):
        env = dict(cli.env, TIDEMARK="out=" + out, LD_PRELOAD=cli.library)
        cli.write("work.lua", WORK)
        args = before or [cli.lua, "work.lua"]
        self.process = subprocess.Popen(
            args, cwd=cli.folder, env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, bufsize=1)
        self.pid = self.process.pid
        self.file = cli.path(out.split(",")[0].replace("%p", str(self.pid)))
        if not before:
            self.wait_for("ready")

    def wait_for(self, word):
        line = self.process.stdout.readline().strip()
        if line != word:
            raise RuntimeError("the host says %r, not %r" % (line, word))

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        if command != "stop":
            self.wait_for("done")

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def tmux(cli, *args):
    """What a command of tmux prints; it may not fail."""
    env = {k: v for k, v in cli.env.items() if not k.startswith("TMUX")}
    env.update(LANG="C.UTF-8", LC_ALL="C.UTF-8", TERM="xterm-256color")
    done = subprocess.run(["tmux", "-f", "/dev/null", "-S", cli.path("tmux"),
                           *args], env=env, capture_output=True, timeout=120)
    if done.returncode:
        raise RuntimeError("tmux %s: %s" % (
            " ".join(args), done.stderr.decode(errors="replace").strip()))
    return done.stdout.decode(errors="replace")


class Screen:
    """A terminal with `tidemark top` in it."""

    def __init__(self, cli, *args, size=(100, 24), env=None):
        self.cli = cli
        self.name = "s%d" % cli.n_screens
        cli.n_screens += 1
        words = ["env", "XDG_STATE_HOME=" + cli.path("state"), "LANG=C.UTF-8",
                 "LC_ALL=C.UTF-8", "TERM=screen-256color"]
        words += ["%s=%s" % pair for pair in (env or {}).items()]
        words += [cli.tidemark, "top", *map(str, args)]
        line = " ".join("'%s'" % word.replace("'", "'\\''") for word in words)
        line += "; echo \"status $?\"; exec sleep 1000"
        tmux(cli, "new-session", "-d", "-s", self.name, "-x", str(size[0]),
             "-y", str(size[1]), "-c", cli.folder, line)

    def text(self, with_colours=False):
        more = ["-e"] if with_colours else []
        return tmux(self.cli, "capture-pane", "-p", *more, "-t", self.name)

    def keys(self, *keys):
        tmux(self.cli, "send-keys", "-t", self.name, *keys)

    def resize(self, columns, rows):
        tmux(self.cli, "resize-window", "-t", self.name, "-x", str(columns),
             "-y", str(rows))

    def wait(self, shows):
        """Until a pattern or a function of the text holds: the text."""
        end = time.monotonic() + self.cli.patience
        while True:
            text = self.text()
            if shows(text) if callable(shows) else \
                    re.search(shows, text, re.M):
                return text
            if time.monotonic() > end:
                self.cli.patience = 5  # what follows may fail for the same
                return None
            time.sleep(0.1)

    def close(self):
        tmux(self.cli, "kill-session", "-t", self.name)


def expect(cli, name, screen, shows):
    """One line of TAP: the screen comes to show something."""
    text = screen.wait(shows)
    cli.tap.add(text is not None, name, "%s\n%s" % (
        "" if callable(shows) else shows, screen.text()))
    return text or ""


def rows_of(text):
    """The lines of the table."""
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if re.match(r"^ *share\S? ", line) or re.match(r"^ *\w+\S? +.*line$",
                                                       line):
            return [row for row in lines[i + 1:-1] if row.strip()]
    return []


def line_of(report, text):
    """The row of the JSON whose source has this on its line."""
    number = WORK[:WORK.index(text)].count("\n") + 1
    return next(row for row in report["lines"]
                if row["source"] == "work.lua" and row["line"] == number)


def report_of(cli, host):
    return json.loads(cli("report", "--json", host.file).stdout)


def has_row(*texts):
    """A row with all these in it, in order."""
    return ".*".join(re.escape(text) for text in texts)


# ---- use -------------------------------------------------------------------

def check_use(cli):
    cli.expect("help top", cli("help", "top"), 0, "^$", "usage: tidemark top")
    wrong = [
        ([], 2, "one PID or FILE is needed"),
        (["x", "y"], 2, "one PID or FILE is needed"),
        (["--tides", "x"], 2, "unknown option '--tides'"),
        (["--by", "stack", "x"], 2, "--by takes line, function, group or target"),
        (["--filter", "x" * 300, "y"], 2, "--filter is too long"),
        (["none.tide"], 3, "none.tide: No such file"),
        (["2147483646"], 3, "2147483646: there is no such process"),
        (["bad.tide"], 3, "bad.tide: not a tidemark profile"),
    ]
    cli.write("bad.tide", "x" * 5000)
    for args, status, why in wrong:
        cli.expect("top " + " ".join(args)[:40], cli("top", *args), status,
                   "^tidemark: .*" + why)


# ---- the live table --------------------------------------------------------

def check_figures(cli, host, screen):
    """What is on the screen is what the report says."""
    host.tell("churn 2000")
    host.tell("keep 100")
    report = report_of(cli, host)
    churn, keep = (line_of(report, text) for text in (":rep(", "{i}"))
    expect(cli, "lines have the figures of the report", screen,
           has_row(bytes_text(churn["alloc_bytes"]),
                   bytes_text(churn["live_bytes"]),
                   "work.lua:%d" % churn["line"], "churn"))
    expect(cli, "each of them", screen,
           has_row(bytes_text(keep["alloc_bytes"]), "work.lua:%d" %
                   keep["line"], "keep"))
    totals = report["totals"]
    expect(cli, "the header has the heap, its peak and all bytes", screen,
           r"^heap %s  peak %s  allocated %s in" % tuple(
               re.escape(bytes_text(totals[key])) for key in
               ("live_bytes", "peak_bytes", "alloc_bytes")))
    expect(cli, "and the process, which is recording", screen,
           r"work\.lua  pid %d  recording  \d" % host.pid)
    expect(cli, "and the collector", screen,
           r"^GC  .*B/s  .* cycles/min  \d+ cycles, ")


def rate_of(text, name):
    row = next((r for r in rows_of(text) if r.rstrip().endswith(name)), "")
    found = re.search(r"(\S+ \wi?B?)/s", row)
    return found.group(1) if found else None


def check_rates(cli, host):
    """At rest nothing is allocated, whatever was before."""
    screen = Screen(cli, host.pid, size=(140, 24))
    text = expect(cli, "rates are 0 at first", screen, r"churn$")
    cli.tap.add(rate_of(text, "churn") == "0 B" and "GC  0 B/s" in text,
                "also the collector's", text)
    # told until it is seen: soon it is of the last readings no more
    expect(cli, "then what was allocated by second", screen,
           lambda text: re.search(r"[MK]iB$", rate_of(text, "churn") or "") or
           host.tell("churn 2000"))
    expect(cli, "of the last readings only", screen,
           lambda text: rate_of(text, "churn") == "0 B")
    screen.close()


def check_sorting(cli, screen):
    first = rows_of(screen.text())[0]
    cli.tap.add(first.rstrip().endswith("churn"), "what allocated most is "
                "first", first)
    screen.keys("r")
    expect(cli, "r reverses", screen, r"by share reversed")
    expect(cli, "and churn is last", screen,
           lambda text: rows_of(text) and
           rows_of(text)[-1].rstrip().endswith("churn"))
    screen.keys("r", ">", ">", ">", ">")
    text = expect(cli, "> goes to another column", screen, r"by blocks, view")
    cli.tap.add("blocks▼" in text, "which is marked in the titles", text)
    screen.keys("<")
    expect(cli, "< goes back", screen, r"by rate, view")
    screen.keys("<", "<", "<", "<", "<", "<")
    expect(cli, "texts are columns too", screen, r"by function, view")
    expect(cli, "rows are in their order", screen, lambda text: (
        lambda names: names and names == sorted(names))(
            [row.split()[-1] for row in rows_of(text)
             if not row.rstrip().endswith("chunk")]))
    screen.keys("=")
    expect(cli, "= sorts as at first", screen, r"by share, view")


def check_filter(cli, screen):
    screen.keys("/", "c", "h", "U")
    text = expect(cli, "the filter holds while it is typed", screen,
                  r"filter: chU_")
    cli.tap.add(rows_of(text) and all("ch" in row for row in rows_of(text)),
                "every row has it", text)
    screen.keys("r", "n", "Enter")
    expect(cli, "the rest of the word", screen, r"^1 of \d+ lines .*: chUrn$")
    screen.keys("Escape")
    expect(cli, "Escape shows all", screen,
           lambda text: "filter" not in text.split("share")[0] and
           "keep" in text)
    screen.keys("/")
    screen.keys("-l", "name:work.lua")
    expect(cli, "no function has work.lua in its name", screen,
           r"^0 of \d+ lines .*name:work\.lua_$")
    screen.keys("C-u")
    screen.keys("-l", "source:WORK group:work keep")
    expect(cli, "but sources and groups have", screen,
           lambda text: len(rows_of(text)) > 0 and
           all(row.rstrip().endswith("keep") for row in rows_of(text)))
    screen.keys("BSpace", "BSpace", "BSpace", "BSpace")
    expect(cli, "letters are taken back", screen, r"group:work _$")
    screen.keys("Escape")


def check_views(cli, host, screen):
    keep = line_of(report_of(cli, host), "{i}")
    screen.keys("l")
    expect(cli, "the view of live bytes", screen, r"view: live")
    expect(cli, "has live bytes and blocks", screen,
           r"%s +%d .*keep$" % (re.escape(bytes_text(keep["live_bytes"])),
                                keep["live_blocks"]))
    screen.keys("v")
    expect(cli, "the view of rates", screen, r"view: rate")
    expect(cli, "begins with the rate", screen, r"^ *share\S? +rate ")
    screen.keys("v", "b")
    expect(cli, "rows by function", screen, r"functions by share, view: alloc")
    function = next(f for f in report_of(cli, host)["functions"]
                    if f["name"] == "churn")
    expect(cli, "with their total", screen, has_row(
        bytes_text(function["self_bytes"]), bytes_text(
            function["total_bytes"]), "churn"))
    screen.keys("b")
    expect(cli, "rows by group", screen, r"groups by share, view: alloc")
    group = sum(f["self_bytes"] for f in report_of(cli, host)["functions"]
                if f["source"] == "work.lua")
    expect(cli, "with their sums", screen,
           has_row(bytes_text(group), "work.lua"))
    screen.keys("b")
    expect(cli, "rows by target", screen, r"targets by share, view: alloc")
    rep = next(f for f in report_of(cli, host)["functions"]
               if f["name"] == "string.rep")
    expect(cli, "functions of C libraries without asking", screen,
           has_row(bytes_text(rep["self_bytes"]), "string.rep"))
    screen.keys("b")
    expect(cli, "and by line again", screen, r"lines by share")


def check_sections(cli, host, screen):
    total = sum(row["alloc_bytes"] for row in report_of(cli, host)["lines"]
                if row["source"] == "work.lua")
    n = sum(row["source"] == "work.lua"
            for row in report_of(cli, host)["lines"])
    screen.keys("g")
    expect(cli, "a section has the sum of its rows", screen,
           has_row(bytes_text(total), "- (%d) work.lua" % n))
    screen.keys("Home", "Space")
    text = expect(cli, "Space folds it", screen, has_row("+ (%d)" % n))
    cli.tap.add("churn" not in "\n".join(rows_of(text)), "its rows are gone",
                text)
    screen.keys("z")
    expect(cli, "z unfolds all", screen, has_row("- (%d)" % n))
    screen.keys("z")
    expect(cli, "and folds all", screen,
           lambda text: rows_of(text) and
           all(re.search(r"\+ \(\d+\)", row) for row in rows_of(text)))
    screen.keys("=")
    expect(cli, "= takes sections away", screen,
           lambda text: re.search(r"churn$", text, re.M) and
           "(%d)" % n not in text)


def check_small(cli, host, screen):
    rows = [row for row in report_of(cli, host)["lines"]
            if row["alloc_bytes"] > 0]
    large = sum(row["alloc_bytes"] >= 1024 for row in rows)
    screen.keys("h")
    expect(cli, "rows below 1 KiB are hidden", screen,
           r"^%d of \d+ lines .*below 1 KiB hidden" % large)
    cli.tap.add(0 < large < len(rows), "some are", rows)
    screen.keys("h")
    expect(cli, "and come back", screen,
           lambda text: "hidden" not in text and "churn" in text)


def check_stacks(cli, host, screen):
    screen.keys("Home", "Enter")
    churn = line_of(report_of(cli, host), ":rep(")
    expect(cli, "the stacks of a row", screen,
           r"^ *\d+\.\d%% +%s in [\d,]+ blocks, string" %
           re.escape(bytes_text(churn["alloc_bytes"])))
    expect(cli, "with all frames, callers below", screen,
           r"string\.rep.*\n.*churn  work\.lua:4\n.*work  work\.lua:\d+\n"
           r".*main chunk  work\.lua:\d+")
    expect(cli, "and its figures in words", screen, r"bytes held now")
    screen.keys("q")
    expect(cli, "q goes back to the table", screen, r"lines by share")
    screen.keys("?")
    expect(cli, "help", screen, r"Enter +all figures and the stacks")
    screen.keys("End")
    expect(cli, "scrolls to its end", screen, r"source file, module")
    screen.keys("q")


def command(cli, host, *words):
    """It looks for commands while it allocates."""
    ctl = cli.start("ctl", "--timeout", str(PATIENCE), str(host.pid),
                    *words)
    while ctl.poll() is None:
        host.tell("churn 200")
    _, err = ctl.communicate()
    cli.tap.add(ctl.returncode == 0, "ctl " + words[0], err)


def check_recording(cli, host, screen):
    """Whether it is recording, as it is told from outside."""
    command(cli, host, "stop")
    expect(cli, "a recording that was stopped is shown as such", screen,
           r"pid %d  not recording" % host.pid)
    command(cli, host, "start")
    expect(cli, "and one that goes on", screen,
           r"pid %d  recording" % host.pid)
    command(cli, host, "save", "copy.tide")
    copy = Screen(cli, "copy.tide")
    expect(cli, "a copy of a profile is no process that has ended", copy,
           r"pid %d  a saved copy" % host.pid)
    copy.close()


def check_pause(cli, host, screen):
    screen.keys("p")
    expect(cli, "pause", screen, r"recording  paused")
    before = bytes_text(report_of(cli, host)["totals"]["alloc_bytes"])
    host.tell("churn 3000")
    after = bytes_text(report_of(cli, host)["totals"]["alloc_bytes"])
    texts, start = [], time.monotonic()
    while time.monotonic() - start < 3 * 0.5:  # three readings' time
        screen.keys("Down", "Up")
        texts.append(screen.text())
    cli.tap.add(before != after and
                all("allocated %s in" % before in text for text in texts),
                "nothing moves while it is paused", texts[-1])
    screen.keys("p")
    expect(cli, "then it goes on", screen,
           r"allocated %s in" % re.escape(after))


def check_sizes(cli, screen):
    screen.resize(300, 30)
    expect(cli, "300 columns show every figure", screen,
           r"share\S? allocated +live +rate +blocks +calls +B/call +worst "
           r"+peak live blks +young  line")
    screen.resize(20, 10)
    text = expect(cli, "20 columns show one", screen, r"^allocated  line$")
    cli.tap.add(all(len(line) <= 20 for line in text.splitlines()) and
                re.search(r"[KM]iB  \S*\.lua:4$|[KM]iB  \S*:4$", text, re.M),
                "and where it is", text)
    screen.keys("Right", "Right")
    expect(cli, "sideways there are others", screen, r"^ +live  line$")
    screen.keys("Left", "Left")
    screen.resize(9, 2)
    screen.resize(100, 40)
    expect(cli, "and back", screen, r"share\S? allocated +live")
    screen.keys("]", "]", "]")
    expect(cli, "the first label gets more room", screen,
           lambda text: "churn" in text and
           re.search(r"line {20,}function", text))
    screen.keys("=")


def check_names(cli, host):
    host.tell("odd 5")
    screen = Screen(cli, host.file)
    expect(cli, "names are shown as they are, without their harm", screen,
           "größe\ufffd\\[31mred\\.lua:1")
    screen.keys("/")
    screen.keys("-l", "größe")
    expect(cli, "and found by them", screen, r"^1 of \d+ lines .*größe_")
    screen.keys("BSpace", "BSpace", "BSpace")
    expect(cli, "a letter is one letter, whatever its bytes", screen,
           r"filter: gr_")
    screen.close()
    screen = Screen(cli, host.file, env={"LC_ALL": "C", "LANG": "C"})
    expect(cli, "in a terminal of ASCII as well", screen,
           r"gr\?\?e\?\[31mred\.lua:1")
    expect(cli, "with a mark of ASCII", screen, r"^ *sharev")
    screen.close()


def check_colours(cli, host):
    screen = Screen(cli, host.pid)
    screen.wait("churn")
    text = screen.text(with_colours=True)
    cli.tap.add("\x1b[32m" in text or ";32m" in text,
                "a terminal of colours has a green figure", repr(text))
    screen.close()
    for name, env in (("NO_COLOR", {"NO_COLOR": "1"}),
                      ("a vt100", {"TERM": "vt100"})):
        screen = Screen(cli, host.pid, env=env)
        expect(cli, name + ": the table", screen, "churn")
        text = screen.text(with_colours=True)
        cli.tap.add(not re.search(r"\x1b\[[\d;]*(3[1-7]|4[1-7])m", text),
                    name + ": has no colours", repr(text))
        screen.close()
    for name in ("dumb", "no-such-terminal"):
        screen = Screen(cli, host.pid, env={"TERM": name})
        expect(cli, "TERM=%s cannot show it" % name, screen,
               r"^tidemark: top: the terminal .*[\s\S]*^status 2")
        screen.close()


def check_live(cli):
    host = Host(cli)
    screen = Screen(cli, host.pid, size=(100, 40))
    check_figures(cli, host, screen)
    for check in (check_sorting, check_filter):
        check(cli, screen)
    for check in (check_views, check_sections, check_small, check_stacks,
                  check_pause, check_recording):
        check(cli, host, screen)
    check_sizes(cli, screen)
    check_rates(cli, host)
    check_names(cli, host)
    check_colours(cli, host)
    host.end()
    expect(cli, "a process that was killed has ended", screen,
           r"the process has ended")
    expect(cli, "its table stays", screen, r"churn$")
    screen.keys("q")
    expect(cli, "q quits", screen, r"^status 0")
    screen.close()


def check_targets(cli):
    """Functions that rules have named; a group that saw nothing."""
    cli.write("rules", "makers function=churn\nmakers function=keep\n"
                       "idle source=nowhere.lua\n")
    host = Host(cli, out="host.%p.tide,targets=rules")
    host.tell("churn 300")
    host.tell("keep 10")
    report = report_of(cli, host)
    churn = next(t for t in report["targets"] if t["target"] == "churn")
    screen = Screen(cli, host.pid, "--by", "target")
    expect(cli, "a target has what it called", screen,
           has_row(bytes_text(churn["alloc_bytes"]), "churn", "work.lua:2"))
    cli.tap.add(churn["alloc_bytes"] > 300 * 1000, "strings are of churn",
                churn)
    expect(cli, "targets are counted in the header", screen, r" targets 2\b")
    screen.keys("/")
    screen.keys("-l", "group:makers")
    expect(cli, "they are found by their group", screen, r"^2 of \d+ targets")
    screen.keys("Escape", "Home", "Enter")
    expect(cli, "their stacks end in what they called", screen,
           r"string\.rep.*\n.*churn  work\.lua:4")
    screen.close()
    screen = Screen(cli, host.pid, "--by", "group")
    group = next(g for g in report["groups"] if g["group"] == "makers")
    expect(cli, "a group has the sum of its targets", screen,
           has_row(bytes_text(group["alloc_bytes"]), "makers"))
    expect(cli, "a group that saw nothing is shown as such", screen,
           r"idle +nothing recorded")
    screen.close()
    host.end()


# ---- processes and files ---------------------------------------------------

def check_finished(cli):
    """A run that closes its profile, which is renamed at its end."""
    cli.write("work.lua", WORK)
    run = subprocess.Popen([cli.tidemark, "run", "-o", "named.tide",
                            "--report", "none", "--", cli.lua, "work.lua"],
                           cwd=cli.folder, env=cli.env, text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, bufsize=1)
    run.stdout.readline()
    names = [n for n in os.listdir(cli.folder)
             if re.fullmatch(r"named\.\d+\.tide", n)]
    screen = Screen(cli, names[0])
    run.stdin.write("churn 500\n")
    run.stdout.readline()
    expect(cli, "a file that is being written", screen, r"recording")
    run.stdin.write("stop\n")
    run.wait()
    run.stdin.close()
    run.stdout.close()
    cli.tap.add(os.path.exists(cli.path("named.tide")) and
                not os.path.exists(cli.path(names[0])),
                "is renamed at the end", os.listdir(cli.folder))
    expect(cli, "and goes on being read", screen, r"finished  \d")
    screen.close()
    report = json.loads(cli("report", "--json", "named.tide").stdout)
    churn = line_of(report, ":rep(")
    # seconds are rounded in the JSON, which may show in the last digit
    rates = {bytes_text(int(churn["alloc_bytes"] / seconds + 0.5)) for seconds
             in (report["run"]["seconds"] + off for off in (-1e-6, 0, 1e-6))}
    screen = Screen(cli, "named.tide", size=(140, 24))
    expect(cli, "rates of a finished run are its means", screen,
           lambda text: any(re.search(has_row(
               bytes_text(churn["alloc_bytes"]), rate + "/s", "churn"), text)
               for rate in rates))
    screen.close()


def check_waiting(cli):
    """The shell has no Lua; what it becomes has."""
    host = Host(cli, before=["sh", "-c", 'read go; exec "$0" work.lua',
                             cli.lua])
    screen = Screen(cli, host.pid)
    expect(cli, "a process without a profile is waited for", screen,
           r"waiting for a profile of process %d" % host.pid)
    host.process.stdin.write("go\n")
    host.wait_for("ready")
    host.tell("churn 100")
    expect(cli, "until it has one", screen, r"recording[\s\S]*churn$")
    screen.close()
    host.end()
    host = Host(cli, before=["sh", "-c", "read go; exit 0"])
    screen = Screen(cli, host.pid)
    screen.wait("waiting")
    host.process.stdin.write("go\n")
    host.end()
    expect(cli, "or has ended", screen, r"has ended without a profile")
    screen.keys("q")
    expect(cli, "then q quits as well", screen, r"^status 0")
    screen.close()


def check_kept(cli):
    """Choices outlive the command; a place that is no place does no harm."""
    host = Host(cli)
    host.tell("churn 100")
    shutil.rmtree(cli.path("state"), ignore_errors=True)
    screen = Screen(cli, host.pid)
    screen.wait("churn")
    screen.keys("b", "l", ">", ">", "r", "g", "h")
    expect(cli, "choices are made", screen,
           r"functions by \S.* reversed, view: live, \d+ groups, below")
    wanted = re.search(r"functions by .*", screen.text()).group(0)
    screen.keys("q")
    screen.wait("^status 0")
    screen.close()
    screen = Screen(cli, host.pid)
    expect(cli, "and kept for the next time", screen, re.escape(wanted))
    screen.close()
    cli.write("state/tidemark/top",
              "by=rows\nview\n=\nsort.live=-nothing\nhide=" + "x" * 5000)
    screen = Screen(cli, host.pid)
    expect(cli, "what is odd is not taken", screen,
           r"lines by share, view: allocated")
    screen.close()
    cli.write("nowhere", "a file")
    screen = Screen(cli, host.pid, "--by", "group", "--filter", "WORK",
                    env={"XDG_STATE_HOME": cli.path("nowhere")})
    expect(cli, "a place that cannot be written is no harm", screen,
           r"1 of \d+ groups by .*filter: WORK")
    screen.keys("q")
    expect(cli, "at the end either", screen, r"^status 0")
    screen.close()
    host.end()


# ---- what it costs ---------------------------------------------------------

def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def find_top(cli, argument):
    """The process of `tidemark top ARGUMENT`."""
    for name in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:3] == [os.fsencode(cli.tidemark), b"top",
                         os.fsencode(str(argument))]:
            return int(name)
    return None


def check_cost(cli):
    """Twice a second over more than 10,000 cells: a tenth of a core at most
    for reading (TOP_LOAD), and something for the screen, by the process's own
    account, however slow or busy the machine is."""
    lines = ["local k = {}"] + ["k[%d] = {%d}" % (i, i)
                                for i in range(1, 7001)]
    cli.write("large.lua", "\n".join(lines) + "\nprint('ready') io.read()\n")
    host = Host(cli, out="large.%p.tide", before=[cli.lua, "large.lua"])
    host.wait_for("ready")
    n = int(re.search(r"(\d+) cells", cli("check", host.file)
                      .stdout.decode()).group(1))
    cli.tap.add(n > 10000, "a large profile has %d cells" % n)
    screen = Screen(cli, host.pid)
    screen.wait(r"recording")
    pid = find_top(cli, host.pid)
    start, cpu = time.monotonic(), cpu_seconds(pid)
    shown = set()
    while time.monotonic() - start < 4 or len(shown) < 4:
        found = re.search(r"recording  (\S+ \w+)", screen.text())
        shown.add(found and found.group(1))
        time.sleep(0.2)
        if time.monotonic() - start > PATIENCE:
            break
    took, used = time.monotonic() - start, cpu_seconds(pid) - cpu
    cli.tap.add(len(shown) >= 4, "it is read again and again", shown)
    cli.tap.add(used / took < 0.125, "that takes less than an eighth of a core",
                "%.2f s of %.2f s" % (used, took))
    screen.close()
    host.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("interpreter")
    options = parser.parse_args()
    options.tidemark = os.path.abspath(options.tidemark)
    options.lua = options.interpreter
    options.golden = options.man = None
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(options, folder, tap)
        cli.library = os.path.abspath(options.library)
        cli.n_screens = 0
        cli.patience = PATIENCE
        # A server of tmux ends with its last session, and a session that is
        # asked for at that moment is lost with it: one stays until the end.
        tmux(cli, "new-session", "-d", "-s", "stays", "exec sleep 10000")
        try:
            for check in (check_use, check_live, check_targets, check_finished,
                          check_waiting, check_kept, check_cost):
                check(cli)
        finally:
            tmux(cli, "kill-server")
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
