#!/usr/bin/python3
"""What a large store costs a start: very many batches that have ended, and very many jobs that wait. From the start of the program until its ready
line, after a kill and after an end in order. README.md says how each is measured. Prints a report in Markdown."""

import argparse
import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import time

import customers
import report
import scale
import servers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, merged
from resp import encode

PAYLOAD_BYTES = 31
CHUNK = 100_000  # jobs of an ADD
BATCHES = 10  # with the jobs that wait
ORDERLY_STARTS = 3
LIMITS = {"limits": {"max_queued_jobs": 1_000_000_000, "max_batch_jobs": 1_000_000_000}}


class PatientDaemon(Daemon):
    """Its store may be read for minutes."""

    def _read_ready_line(self):
        ready = self.process.stdout.readline()  # no deadline: the reader of this report waits
        self.ready_line = ready.decode()
        words = dict(word.split("=", 1) for word in self.ready_line.split()[1:])
        self.host, self.port = words["listen"].rsplit(":", 1)
        self.port = int(self.port)


def end_in_order(daemon):
    daemon.send_signal(signal.SIGTERM)
    daemon.wait_end(600)


def kill(daemon):
    daemon.send_signal(signal.SIGKILL)
    daemon.wait_end()


def timed_start(settings):
    began = time.monotonic()
    daemon = PatientDaemon(settings)
    return daemon, time.monotonic() - began


def starts(settings, fill, look):
    """Rows of a table: a daemon is filled and killed, starts, ends in order, and starts again. `look(connection)` refuses a store that lacks
    what was put in."""
    daemon, _ = timed_start(settings)
    with customers.connect(daemon) as connection:
        fill(daemon, connection)
    kill(daemon)
    rows = []
    for number in range(1 + ORDERLY_STARTS):
        daemon, seconds = timed_start(settings)
        processor, resident = customers.processor_seconds(daemon), daemon.resident_bytes()
        with customers.connect(daemon) as connection:
            look(connection)
        end_in_order(daemon)
        after = "an end in order" if number else "a kill"
        rows.append([f"start {number + 1}, after {after}", f"{seconds:.2f}", f"{processor:.2f}", scale.megabytes(resident)])
    return rows


@contextlib.contextmanager
def store_in(folder, **settings):
    with tempfile.TemporaryDirectory(prefix="locksley-bench-", dir=folder) as store:
        yield merged(LIMITS | settings, {"store": {"path": store}})


HEADS = ["", "ready after s", "of a processor s", "resident MiB"]


def fill_with_ended(daemon, connection, count):
    customers.pipelined(connection, (encode("SUBMIT", "echo", "JOBS", "x") for _ in range(count)))
    customers.settled(daemon, connection)


def look_for_ended(connection):
    found, cursor = 0, None
    while found < 10 and cursor != "0":  # a page ends early on a busy machine
        cursor, page = connection("LIST", "CURSOR", cursor or "0", "COUNT", 10)
        found += len(page)
    if found < 10:
        raise SystemExit("batches are missing")


def fill_with_waiting(connection, count):
    chunk = b"".join(b"$%d\r\n%0*d\r\n" % (PAYLOAD_BYTES, PAYLOAD_BYTES, i) for i in range(CHUNK))
    for batch in range(BATCHES):
        connection("OPEN", "echo", "ID", f"many-{batch}")
        connection("PAUSE", f"many-{batch}")
        add = scale.command_head(["ADD", f"many-{batch}"], CHUNK) + chunk
        for _ in range(count // BATCHES // CHUNK):
            connection.send(add)
            if not isinstance(reply := connection.read(), int):
                raise SystemExit(f"ADD was refused: {reply}")


def look_for_waiting(connection, count):
    found = sum(connection.map("STATUS", f"many-{batch}")["queued"] for batch in range(BATCHES))
    if found != count:
        raise SystemExit(f"{found} of {count} jobs are there")


def retained(count, folder):
    with store_in(folder) as settings:
        rows = starts(settings, lambda daemon, connection: fill_with_ended(daemon, connection, count), look_for_ended)
        return report.table([f"{count:,} batches of one job that have ended", *HEADS[1:]], rows)


def queued(count, folder):
    with store_in(folder) as settings:
        rows = starts(settings, lambda _, connection: fill_with_waiting(connection, count), lambda connection: look_for_waiting(connection, count))
        return report.table([f"{count:,} jobs of {PAYLOAD_BYTES} bytes in {BATCHES} batches that wait", *HEADS[1:]], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="build directory, with the programs in its bin/")
    parser.add_argument("--retained", type=int, default=1_000_000, help="batches that have ended; 0: not that part (default: %(default)s)")
    parser.add_argument("--queued", type=int, default=100_000_000, help="jobs that wait, a multiple of a million; 0: not that part (default: %(default)s)")
    parser.add_argument("--folder", default=None, help="where the stores are made (default: the system's temporary folder)")
    arguments = parser.parse_args()
    servers.unwind_on_signals()
    paths = report.programs(arguments.build, ["locksleyd"])
    os.environ["LOCKSLEYD"] = str(paths["locksleyd"])
    parts = []
    if arguments.retained:
        parts.append(("Batches that have ended", lambda _: retained(arguments.retained, arguments.folder)))
    if arguments.queued:
        parts.append(("Jobs that wait", lambda _: queued(arguments.queued, arguments.folder)))
    report.print_parts("Starts with a large store", arguments.build, parts, paths)


if __name__ == "__main__":
    main()
