#!/usr/bin/python3
"""What an acknowledgement costs that two machines have: a daemon on a PostgreSQL primary with a synchronous standby, all on this machine, beside a daemon
with a store of its own. Batches of one job from 1, 10 and 100 clients, each waiting for its reply, and large batches. README.md says how it is
measured. Prints a report in Markdown."""

import argparse
import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import durable
import report
import servers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from cluster import ClusterDaemon
from locksley_daemon import Daemon
from postgres_pair import PostgresPair

CLIENTS = durable.CLIENTS
GUESS = 3_000  # batches a second of one client
LARGE_JOBS, LARGE_BATCH = 2_000_000, 10_000
REPLICATED, OWN = "PostgreSQL and a synchronous standby", "a store of its own"


@contextlib.contextmanager
def serving(kind):
    """A daemon that serves, with a new store."""
    with contextlib.ExitStack() as stack:
        if kind == OWN:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wire-"))
            daemon = Daemon({"store": {"path": f"{folder}/store", "durability": "fsync"}})
        else:
            pair = stack.enter_context(contextlib.closing(PostgresPair()))
            daemon = ClusterDaemon(pair.settings()).wait_active()
        with contextlib.closing(daemon):
            yield daemon


def small(kind):
    """The figures by number of clients."""
    found = {}
    with serving(kind) as daemon:
        words = ["SUBMIT", "echo", "RETAIN", "0", "JOBS", "x" * durable.PAYLOAD_BYTES]
        for clients in CLIENTS:
            found[clients] = durable.redis_benchmark(daemon.port, clients, words, GUESS * min(clients, 8))
    return found


def large(kind, program):
    """Jobs a second, from the first byte sent to the last result read."""
    with serving(kind) as daemon:
        words = [program, "--server", f"127.0.0.1:{daemon.port}", "bench", "--payload", durable.PAYLOAD_BYTES, "--jobs", LARGE_JOBS, "--batch", LARGE_BATCH]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=durable.PATIENCE_S, check=True)
    took = re.search(r": ([\d.]+) s,", done.stdout)
    if not took:
        raise SystemExit(f"a strange answer of locksley bench: {done.stdout!r}")
    return LARGE_JOBS / float(took[1])


def measure(rounds, program):
    smalls, larges = ({kind: [] for kind in (REPLICATED, OWN)} for _ in range(2))
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for kind in (REPLICATED, OWN):
            smalls[kind].append(small(kind))
            larges[kind].append(large(kind, program))
    rows = [
        [
            kind,
            *(report.spread([found[clients]["rate"] for found in smalls[kind]]) for clients in CLIENTS),
            report.spread([found[1]["p50_us"] for found in smalls[kind]]),
            report.spread(larges[kind]),
        ]
        for kind in (REPLICATED, OWN)
    ]
    heads = ["store", *(f"batches of one job, clients: {clients}, a second" for clients in CLIENTS), "one client, p50 us"]
    return report.table([*heads, f"batches of {LARGE_BATCH:,} jobs, results read back: jobs/s"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured (default: %(default)s)")
    arguments = parser.parse_args()
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd", "locksley"])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    part = f"Synced; {arguments.rounds} rounds, medians with the smallest and largest"
    report.print_parts("Two machines", arguments.build, [(part, lambda _: measure(arguments.rounds, paths["locksley"]))], paths)


if __name__ == "__main__":
    main()
