"""What the tests in Python print: a line of TAP for each check."""
import sys


class Tap:
    def __init__(self):
        self.n = self.n_failed = 0

    def add(self, is_ok, name, why=""):
        self.n += 1
        self.n_failed += not is_ok
        print("%sok %d - %s" % ("" if is_ok else "not ", self.n, name))
        for line in [] if is_ok else str(why).splitlines():
            print("# " + line)
        sys.stdout.flush()
        return is_ok

    def skip(self, name, why):
        self.n += 1
        print("ok %d - %s # SKIP %s" % (self.n, name, why))

    def end(self):
        """Prints the plan; the exit status."""
        print("1..%d" % self.n)
        return 1 if self.n_failed else 0
