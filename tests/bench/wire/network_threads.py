#!/usr/bin/python3
"""What listen.threads costs and saves: redis-benchmark (Debian's redis-tools) against a daemon with one thread and against one with a network
thread, plain and by TLS, in turns. For each kind of command: commands a second; the processor time that the I/O thread, the network thread
and redis-benchmark take for each, and the ratio of these sums, which does not depend on what else the machine does; how often one thread
waited for a mutex, and how often the I/O thread woke the network thread. Medians of all rounds, as a table in Markdown."""

import argparse
import contextlib
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from certificates import Authority
from locksley_daemon import Daemon
from report import Machine, table

CLIENTS = 50
# Name, commands in flight of each client, commands of a round, the command.
CASES = [
    ("PING", 1, 100_000, ["PING"]),
    ("PING, 16 in flight", 16, 800_000, ["PING"]),
    ("SUBMIT of 4 KiB, 16 in flight", 16, 100_000, ["SUBMIT", "echo", "JOBS", "x" * 4096]),
    ("RUN of 16 bytes", 1, 60_000, ["RUN", "echo", "JOBS", "0123456789abcdef"]),
    ("RUN of 16 KiB, 4 in flight", 4, 40_000, ["RUN", "echo", "JOBS", "x" * 16384]),
]
THREADS = (1, 2)


def times(daemon):
    """Nanoseconds on a processor: of the I/O thread, and of all network threads."""
    threads = daemon.threads()
    return threads[daemon.pid][1], sum(ns for name, ns, _ in threads.values() if name == "network")


def client_ns():
    """Of all that have ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((spent.ru_utime + spent.ru_stime) * 1e9)


def events(daemon):
    """Waits for a mutex, and wake-ups."""
    metrics = daemon.metrics()
    names = ("locksley_network_lock_waits_total", "locksley_network_wakeups_total")
    return [sum(value for key, value in metrics.items() if key.startswith(name)) for name in names]


def measure(threads, tls, case, part):
    _name, in_flight, count, words = case
    count = int(count * part)
    settings = {"listen": {"threads": threads, **({"tls": tls.settings()} if tls else {})}}
    with contextlib.closing(Daemon(settings)) as daemon:
        load = ["redis-benchmark", "-h", daemon.host, "-p", str(daemon.port), "-c", str(CLIENTS), "-P", str(in_flight), "--csv"]
        load += ["--tls", "--insecure"] if tls else []

        def run(number):
            return subprocess.run([*load, "-n", str(number), *words], check=True, capture_output=True, text=True).stdout

        run(count // 20)
        before = [*times(daemon), client_ns(), *events(daemon)]
        line = run(count).strip().splitlines()[-1]
        after = [*times(daemon), client_ns(), *events(daemon)]
        return float(line.split('","')[1]), *((later - earlier) / count for later, earlier in zip(after, before))


def report(rounds, only, part):
    machine = Machine()
    with tempfile.TemporaryDirectory() as folder:
        certificate = Authority(folder, "ca").issue("localhost")
        kinds = [(case, tls) for case in CASES for tls in (None, certificate) if only in case[0]]
        figures = {}
        for _ in range(rounds):
            for case, tls in kinds:
                for threads in THREADS:
                    figures.setdefault((case[0], tls, threads), []).append(measure(threads, tls, case, part))
    rows = []
    for case, tls in kinds:
        one, two = ([statistics.median(column) for column in zip(*figures[case[0], tls, threads])] for threads in THREADS)
        rows.append(
            [f"{case[0]}{', TLS' if tls else ''}", *(f"{rate:,.0f}" for rate in (one[0], two[0])), f"{two[0] / one[0]:.2f}"]
            + [f"{one[1] / 1e3:.2f}", f"{two[1] / 1e3:.2f}", f"{two[2] / 1e3:.2f}", f"{one[3] / 1e3:.2f}", f"{two[3] / 1e3:.2f}"]
            + [f"{sum(two[1:4]) / sum(one[1:4]):.2f}", f"{two[4] * 1e3:.2f}", f"{two[5] * 1e3:.1f}"]
        )
    heads = ["command", "a second: 1", "2", "ratio", "us of the I/O thread: 1", "2", "of the network thread", "of the client: 1", "2", "all: ratio"]
    heads += ["waits in 1,000", "wake-ups in 1,000"]
    print(table(heads, rows))
    print(f"\nOther programs used {machine.others():.0%} of the processors meanwhile.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="commands whose name has this text")
    parser.add_argument("--part", type=float, default=1, help="of the commands of each round, for a busy machine")
    arguments = parser.parse_args()
    report(arguments.rounds, arguments.only, arguments.part)
