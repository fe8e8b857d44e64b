#!/usr/bin/python3
"""What a large store costs a takeover: two daemons on a PostgreSQL primary with a synchronous standby, very many batches that have ended, jobs that
wait, or small batches that wait, and the active daemon is killed. From the kill until the other one serves. README.md says how it is measured. Prints a report in Markdown."""

import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import sys
import time

import customers
import report
import scale
import servers
import starts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from cluster import ClusterDaemon
from locksley_daemon import merged
from postgres_pair import PostgresPair
from resp import encode


@contextlib.contextmanager
def database():
    pair = PostgresPair()
    try:
        yield pair
    finally:
        pair.close()


def end(daemon):
    if daemon.process.poll() is None:
        starts.kill(daemon)
    daemon.process.returncode = 0  # it was killed, as it should be
    daemon.close()


FOLLOWS_S = 120  # so long a daemon that stands by may take to read the index


def wait_until_it_follows(daemon):
    end = time.monotonic() + FOLLOWS_S
    while "locksley_cluster_followed_batches" not in daemon.metrics():
        if time.monotonic() > end:
            raise SystemExit("the daemon that stands by does not follow the index")
        time.sleep(0.2)


def takeovers(count, fill, look):
    """Rows of a table. `look(connection)` refuses a daemon that lacks what was put in."""
    with database() as pair, contextlib.ExitStack() as stack:
        settings = merged(starts.LIMITS, pair.settings())

        def start():
            daemon = ClusterDaemon(settings)
            stack.callback(end, daemon)
            return daemon

        active = start().wait_active()
        with customers.connect(active) as connection:
            fill(active, connection)
        rows, took = [], []
        for number in range(count):
            other = start()
            if other.is_active:
                raise SystemExit("two daemons are active")
            wait_until_it_follows(other)
            copy = scale.megabytes(other.resident_bytes())
            processor = customers.processor_seconds(other)
            began = time.monotonic()
            active.send_signal(signal.SIGKILL)
            other.wait_active()
            took.append(time.monotonic() - began)
            processor = customers.processor_seconds(other) - processor
            with customers.connect(other) as connection:
                look(connection)
            rows.append([f"takeover {number + 1}", f"{took[-1]:.2f}", f"{processor:.2f}", copy, scale.megabytes(other.resident_bytes())])
            active = other
        rows.append(["median", f"{statistics.median(took):.2f}", "", "", ""])
        return rows


HEADS = ["serves after s", "of a processor s", "resident before MiB", "resident MiB"]


def retained(count, rounds):
    rows = takeovers(rounds, lambda daemon, connection: starts.fill_with_ended(daemon, connection, count), starts.look_for_ended)
    return report.table([f"{count:,} batches of one job that have ended", *HEADS], rows)


def queued(count, rounds):
    rows = takeovers(rounds, lambda _, connection: starts.fill_with_waiting(connection, count), lambda connection: starts.look_for_waiting(connection, count))
    return report.table([f"{count:,} jobs of {starts.PAYLOAD_BYTES} bytes in {starts.BATCHES} batches that wait", *HEADS], rows)


def fill_with_small(connection, count):
    customers.pipelined(connection, (encode("SUBMIT", "echo", "DELAY", 3_600_000, "JOBS", "x") for _ in range(count)))


def look_for_small(connection, count):
    if f"queued_jobs:{count}\r\n" not in connection("INFO", "locksley"):
        raise SystemExit("batches are missing")


def small(count, rounds):
    rows = takeovers(rounds, lambda _, connection: fill_with_small(connection, count), lambda connection: look_for_small(connection, count))
    return report.table([f"{count:,} batches of one job that wait", *HEADS], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--retained", type=int, default=1_000_000, help="batches that have ended; 0: not that part (default: %(default)s)")
    parser.add_argument("--queued", type=int, default=10_000_000, help="jobs that wait, a multiple of a million; 0: not that part (default: %(default)s)")
    parser.add_argument("--small", type=int, default=100_000, help="batches of one job that wait; 0: not that part (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="takeovers in each part (default: %(default)s)")
    arguments = parser.parse_args()
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd"])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    parts = []
    if arguments.retained:
        parts.append(("Batches that have ended", lambda _: retained(arguments.retained, arguments.rounds)))
    if arguments.queued:
        parts.append(("Jobs that wait", lambda _: queued(arguments.queued, arguments.rounds)))
    if arguments.small:
        parts.append(("Small batches that wait", lambda _: small(arguments.small, arguments.rounds)))
    report.print_parts("Takeovers of a large store", arguments.build, parts, paths)


if __name__ == "__main__":
    main()
