#!/usr/bin/env python3
"""A server under load for a while: its profile stays small, and the memory of
its workers grows no more than without the profiler.  Prints TAP.

usage: soak.py --tidemark FILE [--requests N] [--workers N]

Memory is read after a fifth, three fifths and all of the requests.  The host's
own (anonymous) must not grow more than without from the first reading on, all
of it, with the profile's mapped pages, from the second.  Up to there the
profile's lists of cycles and moments fill up, to their bounds.
"""
import argparse
import http.client
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

import common
import servers

NOISE_KIB = 96          # for each worker
PROFILE_MIB = 4         # for each worker
STEPS = (1, 2, 2)       # fifths of the requests


def load(port, n, failures):
    """n requests over connections that are kept for a hundred each."""
    connection = None
    for i in range(n):
        if i % 100 == 0:
            connection = http.client.HTTPConnection("127.0.0.1", port,
                                                    timeout=20)
        try:
            connection.request("GET", "/x")
            answer = connection.getresponse()
            if answer.read() != b"made 500" or answer.status != 200:
                failures.append(answer.status)
        except OSError as e:
            failures.append(str(e))
            return


def load_all(port, n, n_clients):
    failures = []
    clients = [threading.Thread(target=load, args=(port, n // n_clients,
                                                   failures))
               for _ in range(n_clients)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    return failures


def memory_kib(pids):
    """(resident, of this anonymous) of some processes."""
    rss = anonymous = 0
    for pid in pids:
        with open("/proc/%d/status" % pid, encoding="ascii") as f:
            status = f.read()
        rss += int(re.search(r"VmRSS:\s+(\d+)", status).group(1))
        anonymous += int(re.search(r"RssAnon:\s+(\d+)", status).group(1))
    return rss, anonymous


def workers_of(pid):
    got = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)],
                         capture_output=True, text=True)
    return [int(p) for p in got.stdout.split()] or [pid]


def growth(tap, place, port, options, is_profiled):
    """KiB by which the workers grew: (resident, late; anonymous, in all)."""
    name = "profiled" if is_profiled else "plain"
    server = place.start(["lighttpd", "-D", "-f", place.path("lighttpd.conf")],
                         is_profiled)
    common.wait_for(lambda: servers.is_open(port))
    failures, seen = [], []
    for step in STEPS:
        failures += load_all(port, options.requests * step // 5,
                             options.clients)
        pids = workers_of(server.pid)
        seen.append(memory_kib(pids))
    common.stop(server, signal.SIGTERM)
    tap.add(not failures, "%s: %d requests are answered" % (
        name, options.requests), failures[:5])
    print("# %s: %d workers, KiB resident (anonymous): %s" % (
        name, len(pids), ", ".join("%d (%d)" % pair for pair in seen)))
    return seen[2][0] - seen[1][0], seen[2][1] - seen[0][1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("--requests", type=int, default=100000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    tap = common.Tap()
    if not common.is_there("lighttpd"):
        print("1..0 # SKIP lighttpd is not installed")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        place = common.Place(os.path.abspath(options.tidemark), folder)
        port = servers.lighttpd_conf(
            place, "server.max-worker = %d\n"
            "server.max-keep-alive-requests = 1000" % options.workers)
        plain = growth(tap, place, port, options, False)
        profiled = growth(tap, place, port, options, True)
        noise = NOISE_KIB * options.workers
        for i, what in ((0, "memory"), (1, "the host's own memory")):
            tap.add(profiled[i] <= max(plain[i], 0) + noise,
                    what + " grows no more than without", "%d KiB, not %d" % (
                        profiled[i], plain[i]))
        n = sum(options.requests * step // 5 // options.clients
                for step in STEPS) * options.clients
        paths = common.check_profiles(tap, place, "soak", n)
        sizes = [os.stat(p).st_blocks * 512 for p in paths]
        tap.add(bool(sizes) and max(sizes) <= PROFILE_MIB << 20,
                "no profile is above %d MiB" % PROFILE_MIB, sizes)
        print("# profiles of %s bytes" % sizes)
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
