#!/usr/bin/env python3
"""Real programs with Lua inside, as Debian has them, under the preload
library: they do what they do without it, and their profiles have the bytes of
a script's hot line.  A program that is not installed is skipped.  Prints TAP.

usage: real.py --tidemark FILE [NAME...]
"""
import argparse
import os
import sys
import tempfile

import common
import programs
import servers

HOSTS = dict(programs.PROGRAMS, **servers.SERVERS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tidemark", required=True)
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    tap = common.Tap()
    for name in options.names or HOSTS:
        run, needed = HOSTS[name]
        if not common.is_there(*needed):
            tap.skip(name, "%s is not installed" % needed[0])
            continue
        if common.has_other_lua(needed[0]):
            tap.skip(name, "its Lua is not 5.4 here")
            continue
        if name in servers.NEED_ROOT and os.geteuid() != 0:
            tap.skip(name, "only root can start it")
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(tap, common.Place(os.path.abspath(options.tidemark), folder))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
