#!/usr/bin/python3
"""Batches are submitted, run and forgotten without a pause on a PostgreSQL primary with a synchronous standby: the tables hold what lives and what was
deleted in the last seconds, and not all that was ever written, also beside a session that is idle in a transaction, which keeps vacuum from giving back
anything. Prints how large they are. --seconds S of each."""

import argparse
import contextlib
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ClusterDaemon
from locksley_daemon import end_with_parent
from postgres_pair import PostgresPair
from postgres_server import programs

JOBS, PAYLOAD = 1000, "x" * 1000
BATCH_BYTES = 2 * JOBS * len(PAYLOAD)  # payloads, then results
KEPT = 20  # batches that have ended and are not forgotten
TABLES = ("locksley_index", "locksley_payload", "locksley_result")
SIZE = "(select sum(pg_total_relation_size(relid)) from pg_partition_tree('{}'))"


def sizes(server):
    """Of the tables with their indexes, and of the values in them, in bytes."""
    tables = server.query(f"select {' + '.join(map(SIZE.format, ('locksley_payload', 'locksley_result')))} + pg_total_relation_size('locksley_index')")
    live = server.query(f"select {' + '.join(f'(select coalesce(sum(length(value)), 0) from {table})' for table in TABLES)}")
    return int(tables), int(live)


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


def churn(connection, seconds):
    """How many bytes were written."""
    kept, number = [], 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        kept.append(connection("SUBMIT", "echo", "JOBS", *[PAYLOAD] * JOBS))
        connection.wait(kept[-1])
        if len(kept) > KEPT:
            connection("FORGET", kept.pop(0))
        number += 1
    return number * BATCH_BYTES


def measure(what, seconds, beside):
    """The share of what was written that takes room at the end."""
    pair = PostgresPair("autovacuum_naptime = 5s\nmax_wal_size = 256MB\n")
    daemon = None
    try:
        daemon = ClusterDaemon(pair.settings()).wait_active()
        with daemon.connect() as connection, beside(pair.primary):
            written = churn(connection, seconds)
            tables, live = sizes(pair.primary)
        print(f"{what}: {written / seconds / 1e6:.0f} MB/s for {seconds} s; tables {tables / 1e6:.0f} MB, {live / 1e6:.0f} MB of them live", flush=True)
        return tables / written
    finally:
        if daemon is not None:
            daemon.close()
        pair.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=30)
    options = parser.parse_args()
    for what, beside in (("churn", contextlib.nullcontext), ("beside an idle transaction", idle_transaction)):
        share = measure(what, options.seconds, beside)
        if share > 0.5:
            raise SystemExit(f"{what}: {share:.0%} of all bytes that were ever written take room, though nearly all were deleted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
