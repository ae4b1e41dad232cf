#!/usr/bin/env python3
"""Tests of tally.py, which counts what passed: a count that is too kind would
hide every other fault.  Prints TAP."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
from tally import Tally  # noqa: E402


def counts(*entries):
    tally = Tally()
    for result, text in entries:
        tally.program("build", {"name": "t", "result": result,
                                "stdout": text})
    return tally.passed, len(tally.failed), len(tally.skipped)


TESTS = [
    ("lines of TAP are counted one by one",
     counts(("OK", "1..2\nok 1 - a\nok 2 - b\n")) == (2, 0, 0)),
    ("a failing line is a failure, and the program no second one",
     counts(("FAIL", "1..2\nok 1 - a\nnot ok 2 - b\n")) == (1, 1, 0)),
    ("a program that crashed after its lines is a failure",
     counts(("ERROR", "1..1\nok 1 - a\n")) == (1, 1, 0)),
    ("a program that says nothing and fails is a failure",
     counts(("FAIL", ""), ("TIMEOUT", "")) == (0, 2, 0)),
    ("a skip is neither",
     counts(("OK", "1..2\nok 1 - a # SKIP none\nok 2 - b\n")) == (1, 0, 1)),
    ("a plain program counts once",
     counts(("OK", "all good\n"), ("OK", "ok then\n")) == (2, 0, 0)),
    ("numbers may be missing",
     counts(("OK", "1..1\nok - a\n")) == (1, 0, 0)),
    ("a line that only begins like one is none",
     counts(("OK", "1..1\nok 1 - a\nokay\nnot okay\n")) == (1, 0, 0)),
]

print("1..%d" % len(TESTS))
for n, (name, is_ok) in enumerate(TESTS, 1):
    print("%sok %d - %s" % ("" if is_ok else "not ", n, name))
sys.exit(0 if all(is_ok for _, is_ok in TESTS) else 1)
