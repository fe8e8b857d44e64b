#!/usr/bin/python3
"""What many customers of one user cost: the memory of a daemon that has seen a million of them and its start, ten jobs of one behind 1,000
batches of another, and the processor time of a job where 10,000 customers share the workers; and what they get: shares by weight, and the slots
that a cap leaves. README.md says how each is measured. Prints a report in Markdown."""

import argparse
import collections
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from locksley_daemon import Daemon, wait_for
from report import Machine, spread, table
from resp import Connection, encode, pairs

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


def add_others(connection, count):
    """So many customers with settings, and with a batch that is paused."""
    others = [f"other-{i}" for i in range(count)]
    pipelined(connection, (encode("CUSTOMER", "SET", name, "WEIGHT", 2, "SLOTS", 4) for name in others))
    pipelined(connection, (encode("OPEN", "echo", "ID", name, "FOR", name) for name in others))
    pipelined(connection, (encode("PAUSE", name) for name in others))
    pipelined(connection, (encode("ADD", name, "x") for name in others))


def behind(rounds, customers, batches, jobs):
    """Ten jobs of 50 us of a customer, alone and behind `batches` of `jobs` jobs of another, of so many customers in all."""
    alone, others = [], []
    for _ in range(rounds):
        daemon = Daemon({"limits": {"max_batch_jobs": 10_000_000, "max_customers": customers}})
        try:
            with connect(daemon) as connection:
                add_others(connection, max(0, customers - 2))
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
    print(f"\nTen jobs of 50 us of a customer, alone and behind {batches:,} batches of {jobs:,} of another, {customers:,} customers in all ({rounds} rounds of 100):\n")
    print("| | median, us |\n| --- | ---: |")
    print(f"| alone | {statistics.median(alone):.0f} |\n| behind | {statistics.median(others):.0f} |")
    print(f"| ratio | {statistics.median(others) / statistics.median(alone):.2f} |")


def ended(connection, batches):
    """Jobs of them that have ended, in all."""
    connection.send(b"".join(encode("STATUS", batch) for batch in batches))
    return sum(pairs(connection.read())["ok"] for _ in batches)


def weighed(rounds, seconds):
    """Two customers of weights 1 and 3, of which the first has twenty batches and the other one: what the second gets for each unit of the first,
    in worker time by the account of the daemon, and in jobs that end."""
    times, jobs, others = [], [], []
    for _ in range(rounds):
        daemon = Daemon({"limits": {"max_batch_jobs": 10_000_000, "max_queued_jobs": 100_000_000}})
        machine = Machine()
        try:
            with connect(daemon) as connection:
                connection("CUSTOMER", "SET", "three", "WEIGHT", 3)
                submit = lambda name: connection("SUBMIT", "spin", "FOR", name, "KEEP", "none", "RANGE", 0, 1_000_000, "200")
                batches = {"one": [submit("one") for _ in range(20)], "three": [submit("three")]}
                count = lambda: {name: ended(connection, ids) for name, ids in batches.items()}
                wait_for("jobs of both to end", lambda: min(count().values()) > 100)
                before = count()
                time.sleep(seconds)
                after = count()
                received = {name: float(connection.map("CUSTOMER", "GET", name)["received"]) for name in batches}
                times.append(received["three"] / received["one"])
                jobs.append((after["three"] - before["three"]) / (after["one"] - before["one"]))
                others.append(machine.others(processor_seconds(daemon)))
        finally:
            daemon.close()
    print(f"\nCustomers of weights 1 (twenty batches) and 3 (one batch) over {seconds:.0f} s, jobs of 200 us ({rounds} rounds):\n")
    print(table(["what 3 gets for each of 1", "median, and all"], [
        ["worker time", spread(times, "{:.3f}".format)],
        ["jobs", spread(jobs, "{:.3f}".format)],
        ["part of the processors that other programs used", spread(others, "{:.0%}".format)],
    ]))  # fmt: skip


def throughput(customers, is_capped, seconds):
    """Jobs a second of a pool with twenty workers more than there are customers of one slot, and one customer without a cap; and the fewest workers
    that were seen busy."""
    workers = customers + 20
    daemon = Daemon({"pool": {"workers": workers}, "limits": {"max_batch_jobs": 10_000_000, "max_queued_jobs": 1_000_000_000}})
    try:
        with connect(daemon) as connection:
            capped = [f"capped-{i}" for i in range(customers)]
            if is_capped:
                pipelined(connection, (encode("CUSTOMER", "SET", name, "SLOTS", 1) for name in capped))
            batches = pipelined(connection, (encode("SUBMIT", "sleep", "FOR", name, "KEEP", "none", "RANGE", 0, 1_000_000, "20") for name in [*capped, "free"]))
            busy = lambda: int(re.search(r"lane_cpu:slots=\d+,running=(\d+)", connection("INFO", "lanes"))[1])
            wait_for("all workers to be busy", lambda: busy() == workers)
            before, began, fewest = ended(connection, batches), time.monotonic(), workers
            while time.monotonic() < began + seconds:
                fewest = min(fewest, busy())
                time.sleep(0.01)
            return (ended(connection, batches) - before) / (time.monotonic() - began), fewest, workers
    finally:
        daemon.close()


def at_their_caps(rounds, seconds, customers=100):
    rates, fewest = {False: [], True: []}, []
    for _ in range(rounds):
        for is_capped, found in rates.items():
            rate, least, workers = throughput(customers, is_capped, seconds)
            found.append(rate)
            if is_capped:
                fewest.append(least)
    print(f"\n{customers} customers at a cap of one slot and one without, jobs of 20 ms, {workers} workers ({rounds} rounds in turns of {seconds:.0f} s):\n")
    print("| | jobs/s, median |\n| --- | ---: |")
    for is_capped, found in rates.items():
        print(f"| {'with caps' if is_capped else 'without'} | {statistics.median(found):.0f} |")
    print(f"| ratio | {statistics.median(rates[True]) / statistics.median(rates[False]):.3f} |")
    print(f"| fewest busy workers at one moment, with caps | {min(fewest)} |")


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


PARTS = {
    "seen": lambda arguments: seen(arguments.seen, arguments.with_settings),
    "behind": lambda arguments: behind(arguments.rounds, arguments.customers, arguments.batches, arguments.jobs),
    "weights": lambda arguments: weighed(arguments.rounds, arguments.seconds),
    "caps": lambda arguments: at_their_caps(arguments.rounds, arguments.seconds / 3),
    "shared": lambda arguments: shared(arguments.rounds, arguments.customers, 100),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", required=True, help="folder with bin/locksleyd")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between (default: %(default)s)")
    parser.add_argument("--seen", type=int, default=1_000_000)
    parser.add_argument("--with-settings", type=float, default=0.01, help="of those seen")
    parser.add_argument("--customers", type=int, default=10_000)
    parser.add_argument("--batches", type=int, default=1_000)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=15, help="of a round of weights; a third of them of one of caps")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"--only: no part is named {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    os.environ["LOCKSLEYD"] = str(pathlib.Path(arguments.build, "bin", "locksleyd").resolve())
    machine = Machine()
    for part in chosen:
        PARTS[part](arguments)
    print(f"\nOther programs used {machine.others():.0%} of the processors meanwhile.")


if __name__ == "__main__":
    main()
