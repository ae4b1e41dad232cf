"""Servers, on 127.0.0.1 only and for moments: as real ones run, with workers,
another root, another user, scrubbed environments and closed descriptors."""
import os
import pwd
import random
import signal
import socket
import subprocess
import urllib.request

import common
from common import HOT

LIGHTTPD = """server.modules = ( "mod_magnet" )
server.document-root = "{root}/www"
server.bind = "127.0.0.1"
server.port = {port}
server.errorlog = "{log}"
{more}
magnet.attract-physical-path-to = ( "{script}" )
"""

PROSODY = """pidfile = "{dir}/prosody.pid"
data_path = "{dir}/data"
plugin_paths = {{ "{dir}/plugins" }}
modules_enabled = {{ "posix"; "work" }}
modules_disabled = {{ "s2s"; "tls"; "offline"; "c2s"; "http" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}; s2s_ports = {{}}; http_ports = {{}}
https_ports = {{}}
authentication = "internal_hashed"
log = {{ info = "{dir}/prosody.log" }}
VirtualHost "localhost"
"""

DOVECOT = """base_dir = {dir}/run
state_dir = {dir}/state
log_path = {dir}/dovecot.log
protocols =
listen = 127.0.0.1
ssl = no
import_environment = $import_environment LD_PRELOAD TIDEMARK
passdb {{
  driver = lua
  args = file={dir}/work.lua blocking={blocking}
}}
userdb {{
  driver = static
  args = uid=8 gid=8 home={dir}
}}
"""


def free_port():
    """Not one of those that the kernel gives to clients: one that waits for a
    server there may come to be connected with itself, and keep the port."""
    for port in random.sample(range(10000, 30000), 100):
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")


def is_open(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def get(port, path="/x"):
    with urllib.request.urlopen("http://127.0.0.1:%d%s" % (port, path),
                                timeout=common.PATIENCE_S) as answer:
        return answer.status, answer.read()


# ---- haproxy (its Lua is 5.4 from Debian 13 on) -----------------------------

HAPROXY = """global
  lua-load {dir}/work.lua
  nbthread 2
{more}defaults
  mode http
  timeout connect 2s
  timeout client 5s
  timeout server 5s
frontend f
  bind 127.0.0.1:{port}
  http-request use-service lua.hello
"""


def haproxy(tap, place, host="haproxy", more="", flags=()):
    """A state that is resumed from two threads, an allocator of its own."""
    port = free_port()
    place.write("work.lua", HOT + """
core.register_service("hello", "http", function(applet)
  local text = "made " .. hot()
  applet:set_status(200)
  applet:add_header("content-length", #text)
  applet:start_response()
  applet:send(text)
end)
""")
    place.write("haproxy.cfg", HAPROXY.format(dir=place.folder, port=port,
                                              more=more))
    for is_profiled in (False, True):
        server = place.start(["haproxy", "-db", *flags, "-f",
                              place.path("haproxy.cfg")], is_profiled)
        up = common.wait_for(lambda: is_open(port))
        answers = [get(port) for _ in range(30)] if up else []
        for _ in range(5 if "-W" in flags else 0):
            try:  # a master that has just started drops signals
                server.send_signal(signal.SIGUSR1)
                server.wait(2)
                break
            except subprocess.TimeoutExpired:
                pass
        status = common.stop(server, signal.SIGUSR1)
        tap.add(answers == [(200, b"made 500")] * 30 and status is not None,
                "%s, %s: it answers and ends" % (
                    host, "profiled" if is_profiled else "plain"),
                "%s %s\n%s" % (status, answers[:3], place.log()))
    paths = common.check_profiles(tap, place, host, 30, n_closed=3)
    tap.add(bool(paths), "%s: it has a profile" % host)


def haproxy_limit(tap, place):
    """Its limit of memory is its allocator's, and holds."""
    haproxy(tap, place, "haproxy with a limit", "  tune.lua.maxmem 8\n")


def haproxy_master(tap, place):
    """The master executes itself again, and forks a worker."""
    haproxy(tap, place, "haproxy -W", flags=["-W"])


# ---- lighttpd ---------------------------------------------------------------

def lighttpd_conf(place, more="", root=""):
    """Writes what it needs; the port.  root: as it is called behind chroot."""
    port = free_port()
    os.makedirs(place.path("www"), exist_ok=True)
    place.write("www/x", "a file\n")
    place.write("work.lua", HOT + 'lighty.content = { "made " .. hot() }\n'
                                  "return 200\n")
    place.write("lighttpd.conf", LIGHTTPD.format(
        root="" if root else place.folder, port=port, more=more,
        log="/error.log" if root else place.path("error.log"),
        script="/work.lua" if root else place.path("work.lua")))
    return port


def lighttpd_run(tap, place, host, port, n_requests, is_profiled):
    server = place.start(["lighttpd", "-D", "-f", place.path("lighttpd.conf")],
                         is_profiled)
    up = common.wait_for(lambda: is_open(port))
    answers = [get(port) for _ in range(n_requests)] if up else []
    status = common.stop(server, signal.SIGTERM)
    name = "profiled" if is_profiled else "plain"
    tap.add(answers == [(200, b"made 500")] * n_requests and
            status is not None, "%s, %s: it answers and ends" % (host, name),
            "%s %s\n%s" % (status, set(answers), place.log()))


def lighttpd(tap, place):
    port = lighttpd_conf(place)
    for is_profiled in (False, True):
        lighttpd_run(tap, place, "lighttpd", port, 5, is_profiled)
    common.check_profiles(tap, place, "lighttpd", 5, n_files=1, n_closed=1)


def lighttpd_native(tap, place):
    """With its own frames, where no Lua function runs."""
    place.options = "native=host,"
    port = lighttpd_conf(place)
    lighttpd_run(tap, place, "lighttpd native", port, 5, True)
    paths = common.check_profiles(tap, place, "lighttpd native", 5, n_files=1,
                                  n_closed=1)
    stacks = common.native_stacks(place, paths)
    tap.add(any(s[0] == "_start" and s[-1].startswith("mod_magnet.so+0x")
                for s in stacks),
            "lighttpd native: frames from its start to the module that has Lua",
            stacks[:20])


def lighttpd_workers(tap, place):
    """Two workers in another root as another user; the master has no request.
    """
    user = "www-data"
    os.chmod(place.profiles, 0o700)
    os.chown(place.profiles, pwd.getpwnam(user).pw_uid, -1)
    port = lighttpd_conf(
        place, 'server.max-worker = 2\nserver.username = "%s"\n'
        'server.groupname = "%s"\nserver.chroot = "%s"' % (user, user,
                                                           place.folder),
        root=place.folder)
    os.chown(place.folder, pwd.getpwnam(user).pw_uid, -1)
    for is_profiled in (False, True):
        lighttpd_run(tap, place, "lighttpd workers", port, 20, is_profiled)
    paths = common.check_profiles(tap, place, "lighttpd workers", 20,
                                  n_closed=2)
    tap.add(2 <= len(paths) <= 3, "lighttpd workers: one profile for each",
            paths)


# ---- prosody ----------------------------------------------------------------

def prosody(tap, place):
    port = free_port()
    place.write("prosody.cfg.lua", PROSODY.format(dir=place.folder, port=port))
    place.write("plugins/mod_work.lua", HOT + 'hot()\n'
                '-- behind the timer that takes the signals\n'
                'module:add_timer(0.1, function()\n'
                '  module:log("info", "made %d", hot())\n'
                'end)\n')
    os.makedirs(place.path("data"), exist_ok=True)
    uid = pwd.getpwnam("prosody")
    for name in (".", "data", "profiles"):
        os.chown(place.path(name), uid.pw_uid, uid.pw_gid)
    log = place.path("prosody.log")
    command = ["setpriv", "--reuid=prosody", "--regid=prosody",
               "--clear-groups", "prosody", "-F", "--config",
               place.path("prosody.cfg.lua")]
    for is_profiled in (False, True):
        server = place.start(command, is_profiled)
        up = common.wait_for(lambda: os.path.exists(log) and
                             "made 500" in open(log).read())
        status = common.stop(server, signal.SIGTERM)
        tap.add(bool(up) and status == 0, "prosody, %s: its module runs, it "
                "ends" % ("profiled" if is_profiled else "plain"),
                "%s %s" % (status, place.log()))
        if os.path.exists(log):
            os.remove(log)
    common.check_profiles(tap, place, "prosody", 2, "mod_work", n_files=1)


# ---- dovecot ----------------------------------------------------------------

def dovecot(tap, place, blocking="no"):
    """Its children get another environment; auth is one of them."""
    for name in ("run", "state"):
        os.makedirs(place.path(name), exist_ok=True)
    os.chmod(place.folder, 0o777)
    place.write("dovecot.conf", DOVECOT.format(dir=place.folder,
                                               blocking=blocking))
    place.write("work.lua", HOT + """
function auth_passdb_lookup(req)
  hot()
  return dovecot.auth.PASSDB_RESULT_OK, "password=pass"
end
""")
    conf = place.path("dovecot.conf")
    host = "dovecot, blocking=" + blocking
    for is_profiled in (False, True):
        server = place.start(["dovecot", "-F", "-c", conf], is_profiled)
        common.wait_for(lambda: os.path.exists(place.path("run/auth-client")))
        got = [place.run(["doveadm", "-c", conf, "auth", "test", "test", word])
               for word in ("pass", "wrong")]
        common.stop(server, signal.SIGTERM)
        tap.add("succeeded" in got[0].stdout + got[0].stderr and
                "failed" in got[1].stdout + got[1].stderr,
                "%s, %s: it knows passwords" % (
                    host, "profiled" if is_profiled else "plain"), got)
    common.check_profiles(tap, place, host, 2)


def dovecot_worker(tap, place):
    dovecot(tap, place, "yes")


# ---- dnsmasq ----------------------------------------------------------------

def dnsmasq(tap, place):
    """Its helper closes all it does not know and ends with _exit."""
    place.write("work.lua", HOT + """
function init() hot() end
function shutdown() hot(); hot() end
function lease() end
""")
    command = ["unshare", "-n", "sh", "-c",
               "ip link set lo up; exec dnsmasq -k -C /dev/null --port=0 "
               "--interface=lo --bind-interfaces --user=root "
               "--dhcp-range=127.0.0.50,127.0.0.60,1h "
               "--dhcp-luascript=$0/work.lua --dhcp-leasefile=$0/leases "
               "--pid-file=$0/pid", place.folder]
    for is_profiled in (False, True):
        server = place.start(command, is_profiled)
        up = common.wait_for(lambda: os.path.exists(place.path("pid")))
        common.wait_for(lambda: False, 0.5)
        status = common.stop(server, signal.SIGTERM)
        tap.add(bool(up) and status == 0, "dnsmasq, %s: it runs and ends" % (
            "profiled" if is_profiled else "plain"),
            "%s %s" % (status, place.log()))
        if os.path.exists(place.path("pid")):
            os.remove(place.path("pid"))
    paths = common.check_profiles(tap, place, "dnsmasq", 3)
    tap.add(1 <= len(paths) <= 2, "dnsmasq: its helper has a profile", paths)


# ---- apache (its Lua is 5.4 from Debian 13 on) ------------------------------

APACHE = """ServerRoot "{dir}"
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule lua_module {modules}/mod_lua.so
ServerName localhost
Listen 127.0.0.1:{port}
PidFile {dir}/apache.pid
ErrorLog {dir}/apache.log
DocumentRoot {dir}/www
User {user}
StartServers 2
ServerLimit 2
ThreadsPerChild 4
MaxRequestWorkers 8
MinSpareThreads 1
MaxSpareThreads 8
LuaScope once
LuaMapHandler /x {dir}/work.lua
"""


def apache(tap, place):
    """A state for each request, on several threads of several children."""
    user, port = "www-data", free_port()
    os.makedirs(place.path("www"), exist_ok=True)
    place.write("work.lua", HOT + """
function handle(r)
  r.content_type = "text/plain"
  r:write("made " .. hot())
  return apache2.OK
end
""")
    place.write("apache.conf", APACHE.format(
        dir=place.folder, modules="/usr/lib/apache2/modules", port=port,
        user=user))
    for is_profiled in (False, True):
        server = place.start(["apache2", "-DFOREGROUND", "-f",
                              place.path("apache.conf")], is_profiled)
        up = common.wait_for(lambda: is_open(port))
        answers = [get(port) for _ in range(50)] if up else []
        status = common.stop(server, signal.SIGTERM)
        tap.add(answers == [(200, b"made 500")] * 50 and status == 0,
                "apache, %s: it answers and ends" % (
                    "profiled" if is_profiled else "plain"),
                "%s %s\n%s" % (status, set(answers), place.log()))
    common.check_profiles(tap, place, "apache", 50, n_closed=50)


# ---- ncat (its Lua is 5.4 from Debian 13 on) --------------------------------

def answer_of(port):
    with socket.create_connection(("127.0.0.1", port),
                                  timeout=common.PATIENCE_S) as s:
        got = b""
        while True:
            more = s.recv(4096)
            if not more:
                return got
            got += more


def ncat(tap, place):
    """A state that is forked for each connection, and never closed."""
    place.write("work.lua", HOT + 'print("made " .. hot())\n')
    for is_profiled in (False, True):
        port = free_port()
        server = place.start(["ncat", "-l", "-k", "127.0.0.1", str(port),
                              "--lua-exec", place.path("work.lua")],
                             is_profiled)
        # a connection to see whether it is open is one too
        up = common.wait_for(lambda: is_open(port))
        answers = [answer_of(port) for _ in range(5)] if up else []
        status = common.stop(server, signal.SIGTERM)
        tap.add(answers == [b"made 500\n"] * 5 and status is not None,
                "ncat, %s: each connection is answered" % (
                    "profiled" if is_profiled else "plain"),
                "%s %s\n%s" % (status, answers, place.log()))
    made = common.wait_for(lambda: sum(
        common.hot_tables(place.report(p), "work")[0]
        for p in place.found()) >= 6 * common.N_HOT)
    tap.add(bool(made), "ncat: the children of all connections have profiles",
            place.found())
    common.check_closed(tap, place, "ncat")


SERVERS = {
    "ncat": (ncat, ["ncat"]),
    "apache": (apache, ["apache2"]),
    "lighttpd": (lighttpd, ["lighttpd"]),
    "lighttpd-native": (lighttpd_native, ["lighttpd"]),
    "lighttpd-workers": (lighttpd_workers, ["lighttpd"]),
    "haproxy": (haproxy, ["haproxy"]),
    "haproxy-limit": (haproxy_limit, ["haproxy"]),
    "haproxy-master": (haproxy_master, ["haproxy"]),
    "prosody": (prosody, ["prosody", "setpriv"]),
    "dovecot": (dovecot, ["dovecot", "doveadm"]),
    "dovecot-worker": (dovecot_worker, ["dovecot", "doveadm"]),
    "dnsmasq": (dnsmasq, ["dnsmasq", "unshare", "ip"]),
}
NEED_ROOT = {"apache", "lighttpd-workers", "prosody", "dovecot",
             "dovecot-worker", "dnsmasq"}
