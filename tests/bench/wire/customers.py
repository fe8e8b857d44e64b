#!/usr/bin/python3
"""What many customers of one user cost: the memory of a daemon that has seen a million of them and its start, ten jobs of one behind 1,000
batches of another, and the processor time of a job where 10,000 customers share the workers. README.md says how each is measured. Prints a
report in Markdown."""

import argparse
import collections
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, wait_for
from resp import Connection, encode

WINDOW = 2_000  # commands without their replies
DEADLINE_S = 600


def pipelined(connection, commands):
    """Sends the commands, WINDOW of them at a time; the replies, which must be no errors."""
    replies, sent = [], collections.deque()
    for command in commands:
        sent.append(command)
        if len(sent) == WINDOW:
            replies += flush(connection, sent)
    return replies + flush(connection, sent)


def flush(connection, sent):
    connection.send(b"".join(sent))
    replies = [connection.read() for _ in sent]
    wrong = [reply for reply in replies if isinstance(reply, Exception)]
    if wrong:
        raise SystemExit(f"refused: {wrong[0]}")
    sent.clear()
    return replies


def processor_seconds(daemon):
    fields = pathlib.Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def connect(daemon):
    return Connection(daemon.host, daemon.port, timeout=DEADLINE_S)


def settled(daemon, connection):
    wait_for("all batches to be over", lambda: "active_batches:0\r\n" in connection("INFO", "locksley"), DEADLINE_S, every=0.05)


def names(count):
    """Of 16 bytes each."""
    return (f"customer-{i:07}" for i in range(count))


def mebibytes(count):
    return f"{count / (1 << 20):.0f} MiB"


def started(settings):
    """A daemon, and how long it took until it was ready, with the processor time of that."""
    began = time.monotonic()
    daemon = Daemon(settings)
    return daemon, f"{time.monotonic() - began:.2f} s, {processor_seconds(daemon):.2f} s of a processor"


def once_seen(count, share, of):
    """What a daemon with a store takes that ran a batch of one job for each of `count` names; `share` of them have settings. Rows of a table."""
    with tempfile.TemporaryDirectory(prefix="locksley-bench-") as store:
        settings = {"store": {"path": store}, "limits": {"max_customers": max(1, int(count * share))}}
        daemon = Daemon(settings)
        found = {"a fresh daemon, resident": mebibytes(daemon.resident_bytes())}
        with connect(daemon) as connection:
            pipelined(connection, (encode("SUBMIT", "echo", *of(name), "RETAIN", 0, "JOBS", "x") for name in names(count)))
            settled(daemon, connection)
            pipelined(connection, (encode("CUSTOMER", "SET", name, "WEIGHT", 2, "MAXJOBS", 1000) for name in names(int(count * share))))
            found["after the batches"] = mebibytes(daemon.resident_bytes())
        daemon.close()
        for start in ("start, which replays the log of the store", "start again"):
            daemon, found[start] = started(settings)
            with connect(daemon) as connection:
                _, page = connection("CUSTOMER", "LIST", "COUNT", 1)
                if len(page) != min(1, int(count * share)):
                    raise SystemExit(f"settings are missing: {page}")
                found[f"after the {start.partition(',')[0]}, resident"] = mebibytes(daemon.resident_bytes())
            daemon.close()
        return found


def seen(count, share):
    without = once_seen(count, 0, lambda name: ())
    each = once_seen(count, share, lambda name: ("FOR", name))
    print(f"\n{count:,} batches of one job that have ended, with a store: without customers, and of one customer each, settings of {share:.0%}:\n")
    print("| | no customer | one each |\n| --- | ---: | ---: |")
    for what in each:
        print(f"| {what} | {without[what]} | {each[what]} |")


def behind(rounds, batches, jobs):
    """Ten jobs of 50 us of a customer, alone and behind `batches` of `jobs` jobs of another: from the command to its reply."""
    alone, others = [], []
    for _ in range(rounds):
        daemon = Daemon({"limits": {"max_batch_jobs": 10_000_000}})
        try:
            with connect(daemon) as connection:
                run = encode("RUN", "spin", "FOR", "small", "JOBS", *["50"] * 10)

                def timed():
                    began = time.monotonic()
                    connection.send(run)
                    reply = connection.read()
                    if [status for status, _ in reply] != ["ok"] * 10:
                        raise SystemExit(f"not run: {reply}")
                    return (time.monotonic() - began) * 1e6

                timed()
                alone += [timed() for _ in range(100)]
                pipelined(connection, (encode("SUBMIT", "spin", "FOR", "big", "RANGE", 0, jobs, "50") for _ in range(batches)))
                timed()
                others += [timed() for _ in range(100)]
                left = connection.map("CUSTOMER", "GET", "big")["batches"]
                if left < batches // 2:
                    raise SystemExit(f"the others had nearly ended: {left} batches are left")
        finally:
            daemon.close()
    print(f"\nTen jobs of 50 us of a customer, alone and behind {batches:,} batches of {jobs:,} of another ({rounds} rounds of 100):\n")
    print("| | median, us |\n| --- | ---: |")
    print(f"| alone | {statistics.median(alone):.0f} |\n| behind | {statistics.median(others):.0f} |")
    print(f"| ratio | {statistics.median(others) / statistics.median(alone):.2f} |")


def shared(rounds, customers, jobs):
    """Processor time of the daemon for each job: as many batches, of one customer or of one each."""
    times = {"one customer": [], f"{customers:,} customers": []}
    for _ in range(rounds):
        for kind, found in times.items():
            daemon = Daemon()
            try:
                with connect(daemon) as connection:
                    of = (lambda name: ()) if kind == "one customer" else (lambda name: ("FOR", name))
                    before = processor_seconds(daemon)
                    batches = pipelined(connection, (encode("SUBMIT", "echo", *of(name), "KEEP", "none", "RANGE", 0, jobs) for name in names(customers)))
                    settled(daemon, connection)
                    found.append((processor_seconds(daemon) - before) * 1e6 / (len(batches) * jobs))
            finally:
                daemon.close()
    print(f"\nProcessor time of the daemon, {customers:,} batches of {jobs} echo jobs ({rounds} rounds in turns):\n")
    print("| | us a job, median |\n| --- | ---: |")
    for kind, found in times.items():
        print(f"| {kind} | {statistics.median(found):.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="folder with bin/locksleyd")
    parser.add_argument("--seen", type=int, default=1_000_000)
    parser.add_argument("--with-settings", type=float, default=0.01, help="of those seen")
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.environ["LOCKSLEYD"] = str(pathlib.Path(arguments.build, "bin", "locksleyd").resolve())
    seen(arguments.seen, arguments.with_settings)
    behind(arguments.rounds, arguments.batches, arguments.jobs)
    shared(arguments.rounds, arguments.customers, 100)


if __name__ == "__main__":
    main()
