"""What the tests of real programs share: running them, reading profiles, TAP."""
import glob
import json
import os
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tap import Tap  # noqa: E402

TABLE = 56          # bytes of a table without its storage
PATIENCE_S = 60     # only a fault takes that long
N_HOT = 500         # tables that one call of hot() makes, on HOT_LINE
HOT_LINE = 4

# Every host runs this; what calls it is added behind.
HOT = """local function hot()
  local t = {}
  for i = 1, %d do
    t[i] = {}
  end
  return #t
end
""" % N_HOT


class Place:
    """A folder for one host's run, and the profiler's environment."""

    def __init__(self, tidemark, folder):
        self.tidemark = tidemark
        self.folder = folder
        self.library = os.path.join(os.path.dirname(tidemark),
                                    "libtidemark.so")
        self.options = ""  # of the profiler, each with a comma behind it
        self.profiles = os.path.join(folder, "profiles")
        os.makedirs(self.profiles, exist_ok=True)
        os.chmod(folder, 0o755)
        os.chmod(self.profiles, 0o777)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o644)
        return path

    def env(self, is_profiled, **more):
        env = dict(os.environ, LC_ALL="C.UTF-8", HOME=self.folder, **more)
        for key in ("TIDEMARK", "LD_PRELOAD", "LUA_INIT", "LUA_INIT_5_4"):
            env.pop(key, None)
        if is_profiled:
            env["TIDEMARK"] = "report=none,%sout=%s" % (
                self.options, os.path.join(self.profiles, "%n.%p.tide"))
            env["LD_PRELOAD"] = self.library
        return env

    def run(self, command, is_profiled=False, **more):
        try:
            return subprocess.run(command, cwd=self.folder, text=True,
                                  capture_output=True, errors="replace",
                                  stdin=subprocess.DEVNULL, timeout=120,
                                  env=self.env(is_profiled, **more))
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "",
                                               "took too long")

    def start(self, command, is_profiled=False, **more):
        """A server, in a session of its own: some end their whole group."""
        log = open(self.path("server.log"), "ab")
        return subprocess.Popen(command, cwd=self.folder, stdout=log,
                                stderr=log, stdin=subprocess.DEVNULL,
                                start_new_session=True,
                                env=self.env(is_profiled, **more))

    def log(self):
        with open(self.path("server.log"), errors="replace") as f:
            return f.read()[-3000:]

    def found(self):
        return sorted(glob.glob(os.path.join(self.profiles, "*.tide")))

    def clear(self):
        for path in self.found():
            os.remove(path)

    def report(self, *paths):
        got = self.run([self.tidemark, "report", "--json", "--top", "0",
                        *paths])
        return json.loads(got.stdout) if got.returncode == 0 else None

    def check(self, path):
        return self.run([self.tidemark, "check", path])


def session_of(pid):
    """The session of a process, None when it has ended."""
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii",
                  errors="replace") as f:
            fields = f.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[3])


def is_gone(server):
    """All its processes: workers and helpers may outlive their master."""
    return not any(name.isdigit() and session_of(name) == server.pid
                   for name in os.listdir("/proc"))


def stop(server, signal_number):
    """Ends a server, to its last process, which closes its profile; its exit
    status, None when it had to be killed."""
    server.send_signal(signal_number)
    try:
        status = server.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
        status = None
    wait_for(lambda: is_gone(server))
    return status


def wait_for(condition, seconds=PATIENCE_S):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.05)
    return None


def hot_tables(report, name="", line=HOT_LINE):
    """(made, alive) on the hot line of scripts with `name` in their names."""
    made = alive = 0
    for row in report["lines"] if report else []:
        if row["line"] == line and name in row["source"]:
            table = row["kinds"].get("table", {})
            made += table.get("alloc_bytes", 0)
            alive += table.get("live_bytes", 0)
    return made // TABLE, alive // TABLE


def check_closed(tap, place, host, n_closed=0):
    """All profiles are sound; so many states, or more, were closed, and nothing
    was left of these."""
    closed = left = 0
    for path in place.found():
        got = place.run([place.tidemark, "check", "--json", path])
        tap.add(got.returncode == 0, "%s: %s is sound" % (
            host, os.path.basename(path).split(".")[0]),
            got.stdout + got.stderr)
        if got.returncode == 0:
            closed += json.loads(got.stdout)["closed"]
            left += json.loads(got.stdout)["left_bytes"]
    tap.add(closed >= n_closed and left == 0,
            "%s: %sno bytes after lua_close" % (
                host, "%d states or more closed, " % n_closed
                if n_closed else ""),
            "%d states closed, %d bytes left" % (closed, left))


def check_profiles(tap, place, host, wanted_calls, name="work", n_files=None,
                   n_closed=0):
    """As check_closed, and together they have the hot line's bytes."""
    paths = place.found()
    check_closed(tap, place, host, n_closed)
    if n_files is not None:
        tap.add(len(paths) == n_files, "%s: %d profiles" % (host, n_files),
                "%s\n%s" % (paths, "\n".join(os.listdir(place.folder))))
    made = 0
    for path in paths:
        made += hot_tables(place.report(path), name)[0]
    tap.add(made == wanted_calls * N_HOT,
            "%s: line %d made %d tables" % (host, HOT_LINE,
                                            wanted_calls * N_HOT),
            "it made %d" % made)
    return paths


def native_stacks(place, paths):
    """Names of frames, outermost first, of the stacks that bytes have."""
    stacks = []
    for path in paths:
        got = place.run([place.tidemark, "export", "--to", "folded", path])
        for line in got.stdout.splitlines():
            frames = line.rsplit(" ", 1)[0].split(";")
            stacks.append([frame.split(" ")[0] for frame in frames])
    return stacks


def find(program):
    return shutil.which(program,
                        path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def has_other_lua(program):
    """It is linked to a Lua that is not 5.4."""
    got = subprocess.run(["ldd", find(program)], capture_output=True,
                         text=True)
    return "liblua5." in got.stdout and "liblua5.4" not in got.stdout


def is_there(*programs):
    return all(find(p) for p in programs)
