#!/usr/bin/python3
"""A well-behaved client beside others that are not: in a process of its own, it sends PINGs and small RUNs, one at a time, and tells how
long each took.

As a program: `neighbour.py HOST PORT [AUTHORITY USER PASSWORD]`, the latter by TLS; a line on standard input ends a stretch, whose figures it prints as a line of JSON."""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from resp import Connection
from tls_client import TlsConnection, client_context

PAUSE_S = 0.002  # between two commands
WAIT_S = 120  # for a line of figures


def summary(times):
    """In milliseconds."""
    times = sorted(times) or [0.0]
    at = lambda share: round(1000 * times[min(len(times) - 1, int(share * len(times)))], 3)
    return {"n": len(times), "p50": at(0.5), "p99": at(0.99), "max": round(1000 * times[-1], 3)}


def main():
    host, port, *login = sys.argv[1:]
    if login:
        authority, user, password = login
        connection = TlsConnection(host, int(port), client_context(authority), timeout=WAIT_S)
        connection("AUTH", user, password)
    else:
        connection = Connection(host, int(port), timeout=WAIT_S)
    pings, runs = [], []
    turn = 0
    while True:
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            if not sys.stdin.buffer.raw.read(1):
                return
            print(json.dumps({"ping": summary(pings), "run": summary(runs)}), flush=True)
            pings, runs = [], []
        turn += 1
        begin = time.perf_counter()
        if turn % 5:
            connection("PING")
            pings.append(time.perf_counter() - begin)
        else:
            connection("RUN", "echo", "JOBS", "a", "b")
            runs.append(time.perf_counter() - begin)


class Neighbour:
    """The process, for a test. What it measured at rest is `rest`."""

    def __init__(self, daemon, seconds=1.5, login=None):
        """`login`: authority, user and password, for a daemon with TLS and users."""
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), daemon.host, str(daemon.port), *(login or ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.figures()
        time.sleep(seconds)
        self.rest = self.figures()

    def figures(self):
        """Of the time since the last call."""
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], WAIT_S)[0]:
            raise AssertionError(f"waited {WAIT_S} s for the neighbour: it is not served")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the neighbour ended with {self.process.wait()}")
        return json.loads(line)

    @contextlib.contextmanager
    def beside(self, seconds=0):
        """Yields a dictionary, which has the figures of the time inside the `with` at its end; that lasts `seconds` at least."""
        self.figures()
        result = {}
        end = time.monotonic() + seconds
        yield result
        time.sleep(max(0, end - time.monotonic()))
        result.update(self.figures())

    def close(self):
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


def text(figures):
    return "; ".join(f"{kind} p50 {f['p50']} p99 {f['p99']} max {f['max']} ms (n={f['n']})" for kind, f in figures.items())


if __name__ == "__main__":
    main()
