#!/usr/bin/python3
"""A well-behaved client beside others that are not. In a process of its own it sends PINGs and small RUNs, one at a time. For each it takes
the processor time that the daemon's I/O thread used between the command and its reply, which other programs on the machine do not prolong,
and the time by the clock, which is only printed.

As a program: `neighbour.py HOST PORT THREAD [AUTHORITY USER PASSWORD]`; with the last three by TLS. THREAD is the I/O thread's process id. On
standard input, `b` begins a stretch, and `e` ends it: the figures are a line of JSON, printed once LEAST_RUNS have been measured, however long
that takes beside other programs."""

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

PAUSE_S = 0.001  # between two commands
LEAST_RUNS = 100  # of a stretch, and four times as many PINGs: the 99th percentile of so many is the maximum, of PINGs it is not
WAIT_S = 120  # for a line of figures


def summary(samples):
    """In milliseconds: processor time, and the longest time by the clock."""
    times = sorted(spent for spent, _ in samples) or [0.0]
    at = lambda share: round(1000 * times[min(len(times) - 1, int(share * len(times)))], 3)
    return {
        "n": len(samples),
        "p50": at(0.5),
        "p99": at(0.99),
        "p99.9": at(0.999),
        "max": round(1000 * times[-1], 3),
        "waited": round(1000 * max((waited for _, waited in samples), default=0.0), 3),
    }


class Timer:
    """Seconds of processor time that a thread has used, to the kernel's tick while it runs."""

    def __init__(self, thread):
        self.schedstat = os.open(f"/proc/{thread}/task/{thread}/schedstat", os.O_RDONLY)

    def spent(self):
        return int(os.pread(self.schedstat, 100, 0).split()[0]) / 1e9

    def measure(self, act):
        spent, begin = self.spent(), time.perf_counter()
        act()
        return self.spent() - spent, time.perf_counter() - begin


def main():
    host, port, thread, *login = sys.argv[1:]
    timer = Timer(thread)
    if login:
        authority, user, password = login
        connection = TlsConnection(host, int(port), client_context(authority), timeout=WAIT_S)
        connection("AUTH", user, password)
    else:
        connection = Connection(host, int(port), timeout=WAIT_S)
    pings, runs = [], []
    turn = 0
    ends = False
    while True:
        if select.select([sys.stdin], [], [], PAUSE_S)[0]:
            word = sys.stdin.buffer.raw.read(1)
            if not word:
                return
            ends = word == b"e"
            if not ends:
                pings, runs = [], []
        if ends and len(runs) >= LEAST_RUNS:
            print(json.dumps({"ping": summary(pings), "run": summary(runs)}), flush=True)
            pings, runs, ends = [], [], False
        turn += 1
        if turn % 5:
            pings.append(timer.measure(lambda: connection("PING")))
        else:
            runs.append(timer.measure(lambda: connection("RUN", "echo", "JOBS", "a", "b")))


class Neighbour:
    """The process, for a test. `rest` has the figures that it measured at rest."""

    def __init__(self, daemon, seconds=1.5, login=None):
        """`login`: authority, user and password, for a daemon with TLS and users."""
        self.process = subprocess.Popen(
            [sys.executable, "-B", os.path.abspath(__file__), daemon.host, str(daemon.port), str(daemon.pid), *(login or ())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.begin()
        time.sleep(seconds)
        self.rest = self.figures()

    def begin(self):
        self.process.stdin.write(b"b")
        self.process.stdin.flush()

    def figures(self):
        """The figures of the time since begin() or the last call; this call may prolong that time."""
        self.process.stdin.write(b"e")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], WAIT_S)[0]:
            raise AssertionError(f"waited {WAIT_S} s for the neighbour: it is not served")
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the neighbour ended with {self.process.wait()}")
        return json.loads(line)

    @contextlib.contextmanager
    def beside(self, seconds=0):
        """Yields a dictionary, which has the figures of the time inside the `with` at its end; that lasts `seconds` at least, and until there are
        enough figures."""
        self.begin()
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
    return "; ".join(
        f"{kind} p50 {f['p50']} p99 {f['p99']} max {f['max']} ms of the I/O thread, {f['waited']} ms by the clock at most (n={f['n']})"
        for kind, f in figures.items()
    )


if __name__ == "__main__":
    main()
