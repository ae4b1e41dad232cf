#!/usr/bin/env python3
"""Counts the subtests in Meson's logs as a person would.

usage: tally.py testlog.json...

Meson counts a file of tests as one.  Here every line of TAP counts, and a
program that failed without a failing line (it crashed, or took too long)
counts as one failure.  The last line printed is "N passed, N failed"; the exit
status is 1 when something failed or nothing ran.
"""
import json
import os
import re
import sys

LINE = re.compile(r"^(not )?ok\b\s*\d*\s*-?\s*(.*)$")


class Tally:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def tap(self, where, text):
        """Counts the lines of TAP; returns how many failed."""
        before = len(self.failed)
        for line in text.splitlines():
            found = LINE.match(line)
            if not found:
                continue
            name, _, directive = found.group(2).partition(" # ")
            if directive.upper().startswith("SKIP"):
                self.skipped.append((where, name, directive[5:]))
            elif found.group(1):
                self.failed.append((where, name))
            else:
                self.passed += 1
        return len(self.failed) - before

    def program(self, build, entry):
        where = "%s: %s" % (build, entry["name"])
        text, result = entry.get("stdout", ""), entry["result"]
        is_tap = re.search(r"^1\.\.\d+", text, re.M) is not None
        n_failed = self.tap(where, text) if is_tap else 0
        if result in ("OK", "EXPECTEDFAIL"):
            self.passed += not is_tap
        elif result == "SKIP":
            if not is_tap:
                self.skipped.append((where, "all of it", ""))
        elif n_failed == 0:
            self.failed.append((where, "ended with " + result))


def main(paths):
    tally = Tally()
    for path in paths:
        build = os.path.basename(os.path.dirname(os.path.dirname(path)))
        try:
            with open(path, encoding="utf-8") as log:
                for line in log:
                    tally.program(build, json.loads(line))
        except OSError as err:
            tally.failed.append((build, "no tests ran: " + err.strerror))
    for where, name, why in tally.skipped:
        print("skipped: %s: %s: %s" % (where, name, why))
    for where, name in tally.failed:
        print("failed: %s: %s" % (where, name))
    print("%d passed, %d failed" % (tally.passed, len(tally.failed)))
    return 1 if tally.failed or tally.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
