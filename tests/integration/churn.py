#!/usr/bin/python3
"""Batches are submitted, run and forgotten without a pause on a PostgreSQL primary with a synchronous standby, beside a daemon that stands
by: the tables hold what lives and what was deleted in the last seconds, and not all that was ever written, also beside a session that is idle in a
transaction, which keeps vacuum from giving back anything. Every hundredth batch lives ten times as long as the others. Prints how large the tables are.

  --seconds S   of each of the two runs
  --kept N      batches of 1 MB that are not forgotten yet, at the least; with 300 or more the tables may take 1.5 times the bytes that live
  --rate R      MB/s of payloads and results, at the most
  --idle        only the run beside an idle transaction
  --looks N     at the sizes, in each run"""

import argparse
import collections
import contextlib
import pathlib
import secrets
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ClusterDaemon
from locksley_daemon import end_with_parent
from postgres_pair import PostgresPair
from postgres_server import programs

JOBS, PAYLOAD = 1000, secrets.token_hex(500)
BATCH_BYTES = 2 * JOBS * len(PAYLOAD)  # payloads, then results
LONG_LIVED, LONGER = 100, 10  # each hundredth batch lives ten times as long
SETTLED = 5  # lives of a batch, until generations of all sizes that they had while the store grew are gone
MANY = 300  # batches; with fewer, the tables of generations that are not full yet are larger than what lives
WITH_VALUES = ("locksley_index", "locksley_payload", "locksley_result")
TABLES = (*WITH_VALUES, "locksley_change")
SIZE = "coalesce((select sum(pg_total_relation_size(relid)) from pg_partition_tree('{0}')), pg_total_relation_size('{0}'))"  # the former: if partitioned


def sizes(server):
    """Of each of the TABLES with its indexes, and of the values in all of them, in bytes."""
    tables = server.query('select ' + " || ' ' || ".join(map(SIZE.format, TABLES)))
    live = server.query(f"select {' + '.join(f'(select coalesce(sum(length(value)), 0) from {table})' for table in WITH_VALUES)}")
    return [int(size) for size in tables.split()], int(live)


@contextlib.contextmanager
def idle_transaction(server):
    command = [programs() / "psql", "-qAtX", "-h", server.folder, "-U", "locksley", "-d", "postgres"]
    session = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
    with session.stdin, session.stdout:
        session.stdin.write("begin isolation level repeatable read; select 'begun' from locksley_cluster;\n")
        session.stdin.flush()
        session.stdout.readline()
        yield
        session.kill()
        session.wait()


class Churn:
    """Batches that come, end and are forgotten."""

    def __init__(self, connection, kept, rate):
        self.connection, self.kept, self.rate = connection, kept, rate
        self.short, self.long = collections.deque(), collections.deque()
        self.number, self.begun = 0, time.monotonic()
        self.next = self.begun  # when the next batch may come: what was missed on a busy machine is not caught up with

    def written(self):
        return self.number * BATCH_BYTES

    def run_until(self, end):
        while time.monotonic() < end:
            batch = self.connection("SUBMIT", "echo", "JOBS", *[PAYLOAD] * JOBS)
            self.connection.wait(batch)
            self.number += 1
            (self.long if self.number % LONG_LIVED == 0 else self.short).append((self.number, batch))
            for those, age in ((self.short, self.kept), (self.long, self.kept * LONGER)):
                while those and those[0][0] <= self.number - age:
                    self.connection("FORGET", those.popleft()[1])
            if self.rate:
                self.next = max(self.next + BATCH_BYTES / self.rate, time.monotonic())
                time.sleep(max(0.0, self.next - time.monotonic()))


def measure(what, options, beside):
    """Fails if the tables hold too much of what was deleted."""
    pair = PostgresPair("autovacuum_naptime = 5s\nmax_wal_size = 256MB\n")
    daemons = []
    try:
        daemons.append(daemon := ClusterDaemon(pair.settings()).wait_active())
        daemons.append(ClusterDaemon(pair.settings()))  # for which lists of changed batches are written
        with daemon.connect() as connection, beside(pair.primary):
            churn = Churn(connection, options.kept, options.rate * 1e6)
            for look in range(1, options.looks + 1):
                churn.run_until(churn.begun + options.seconds * look / options.looks)
                each, live = sizes(pair.primary)
                tables = sum(each)
                seconds = time.monotonic() - churn.begun
                print(f"{what}: {churn.written() / seconds / 1e6:.0f} MB/s for {seconds:.0f} s; tables {tables / 1e6:.0f} MB,", end=" ")
                print(f"{tables / live:.2f} times the {live / 1e6:.0f} MB that live", end=" ")
                print(f"({', '.join(f'{name} {size / 1e6:.0f}' for name, size in zip(TABLES, each, strict=True))})", flush=True)
                if options.kept >= MANY and churn.number > SETTLED * options.kept and tables > 1.5 * live:
                    raise SystemExit(f"{what}: the tables take more than 1.5 times the bytes that live")
            if churn.number > 10 * options.kept and tables > 0.5 * churn.written():
                raise SystemExit(f"{what}: {tables / churn.written():.0%} of all bytes that were ever written take room, though nearly all were deleted")
    finally:
        for each in reversed(daemons):
            each.close()
        pair.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--kept", type=int, default=20)
    parser.add_argument("--rate", type=float, default=0)
    parser.add_argument("--idle", action="store_true")
    parser.add_argument("--looks", type=int, default=6)
    options = parser.parse_args()
    for what, beside in (("churn", contextlib.nullcontext), ("beside an idle transaction", idle_transaction)):
        if beside is idle_transaction or not options.idle:
            measure(what, options, beside)
    return 0


if __name__ == "__main__":
    sys.exit(main())
