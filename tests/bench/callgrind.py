"""The file that callgrind writes, read line by line."""
import collections
import os
import re

# cost      instructions: a line's own, or of a call from it, all in it included
# object    the path of the executable or library
# home      name of the file that the function is from; None: not known
# here      ... that the line is from: another one where it is inline
# callee    ... that the called function is from; None: no call
Cost = collections.namedtuple("Cost",
                              "cost is_call object home here line callee")


class Names:
    """Names are written once, with a number in front, then the number."""

    def __init__(self):
        self.known = {}

    def read(self, text):
        found = re.match(r"(\(\d+\))(?: (.*))?$", text)
        if not found:
            return text
        if found.group(2) is not None:
            self.known[found.group(1)] = found.group(2)
        return self.known[found.group(1)]


def costs(path):
    """Yields every Cost; those that are no calls add up to the whole run."""
    files, functions, objects = Names(), Names(), Names()
    home = here = callee = obj = None
    line, is_call = 0, False
    with open(path, encoding="utf-8", errors="replace") as lines:
        for text in lines:
            key, is_key, value = text.rstrip("\n").partition("=")
            if is_key and key in ("fl", "fi", "fe", "cfi", "cfl"):
                name = os.path.basename(files.read(value))
                if key in ("cfi", "cfl"):
                    callee = name
                else:
                    here = name
                    home = name if key == "fl" else home
            elif is_key and key in ("fn", "cfn"):
                functions.read(value)
                if key == "fn":
                    here = home
                elif callee is None:
                    callee = home
            elif is_key and key in ("ob", "cob"):
                name = objects.read(value)
                obj = name if key == "ob" else obj
            elif is_key and key == "calls":
                is_call = True
            elif re.match(r"[+\-*\d]", text):
                at, cost = text.split()[:2]
                line = (line if at == "*" else line + int(at)
                        if at[0] in "+-" else int(at))
                yield Cost(int(cost), is_call, obj, home, here, line,
                           callee if is_call else None)
                is_call, callee = False, None
