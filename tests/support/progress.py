"""The parts of a long test that have passed, so that an interrupted test continues where it was."""

import hashlib
import pathlib
import threading

from locksley_daemon import program


class Progress:
    """The parts that passed, in a file if there is one: a line each, which begins with a number of `what`, after the digest of the daemon.
    Those that another daemon passed do not count. Any thread may add."""

    def __init__(self, path, what):
        self.path = path
        self.mutex = threading.Lock()
        self.lines = [hashlib.sha256(pathlib.Path(program("LOCKSLEYD")).read_bytes()).hexdigest()]
        kept = path.read_text().splitlines() if path and path.exists() else []
        if kept[:1] == self.lines and len(kept) > 1:
            self.lines = kept
            print(f"{self.passed()} {what} passed before: {path}")

    def parts(self):
        return len(self.lines) - 1

    def passed(self):
        return sum(int(line.split()[0]) for line in self.lines[1:])

    def add(self, line):
        with self.mutex:
            self.lines.append(line)
            if self.path:
                self.path.write_text("\n".join(self.lines) + "\n")

    def end(self):
        if self.path:
            self.path.unlink(missing_ok=True)
