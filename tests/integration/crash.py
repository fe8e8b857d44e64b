#!/usr/bin/python3
"""Kills the daemon at random moments under a mixed load, again and again on one store, and holds what is there after each start against a
ledger, kept outside, of what was sent and what was acknowledged.

    crash.py [--kills 50] [--seed S] [--durability fsync|async|none] [--engine rocksdb|postgresql] [--progress FILE]

With --engine postgresql the store is a server of the test's own. Each start then waits until the killed daemon's lease has ended.

More than 100 kills are done in parts of 100, each with a store of its own. With --progress the parts that passed are kept in FILE, and the
same command goes on after them, if it was interrupted and the daemon is the same program.

What must hold after every kill: a batch whose acceptance was acknowledged is there, whole; one that was sent and not acknowledged is there
whole or not at all; the same for each ADD, each transaction and each round of RETRY; a batch that was forgotten stays so; a weight, a CLOSE
and a CANCEL hold from their reply on; of a user whose finished batches are evicted nothing else goes, and nothing of other users;
rows that were read before a later write was acknowledged, or long before the kill, are the same at the same cursors; what was over
with them reads the same for ever. And once a batch is over: each index exactly once in its results, with the right output, and the counters of
STATUS are those of the results.

The seed decides what is sent and when the daemon is killed, not how threads and disk meet: a failure may need several runs to come again.
It prints the seed, the batch and what is wrong, and leaves the store's folder for study."""

import argparse
import collections
import functools
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from patient_connection import PatientConnection
from postgres_server import PostgresServer
from progress import Progress
from resp import Connection
from store_client import Client
from store_daemon import DEADLINE_S, StoreDaemon
from store_ledger import ACKNOWLEDGED, SENT, Wrong, check_presence, check_readings, check_whole, wrong_unless
from store_quota_client import ROOM, QuotaClient
from users import BUILTIN, PASSWORD, users

CLIENTS = 4
SETTLED_S = 0.05  # rows that were read so long before the kill are on the disk, unless the disk was slower than that
PART = 100  # kills of one store
ROWS_CHECKED = 8000  # after one kill; what is left is checked after a later one


class Ledger:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.clients = [Client(number, random.Random(f"{seed}/{number}"), self) for number in range(CLIENTS)]
        self.evicted = QuotaClient(CLIENTS, random.Random(f"{seed}/{CLIENTS}"), self)
        self.gone = set()  # names that must not come again
        self.was_draining = False  # the last daemon, when it was killed
        self.count = collections.Counter()

    def check(self, daemon, settled_before, budget=ROWS_CHECKED):
        with log_in(daemon, "small", PatientConnection) as connection:
            self.evicted.check(connection, self.was_draining)
        with log_in(daemon, "large", PatientConnection) as connection:
            listed = collections.defaultdict(list)
            for status in connection.listed():
                listed[status["name"]].append(status)
            for name, statuses in listed.items():
                wrong_unless(len(statuses) == 1 and name not in self.gone, f"batch {name}", f"there twice, or was forgotten: {statuses}")
            for client in self.clients:
                kept = []
                for batch in client.batches:
                    statuses = listed.pop(batch.name, None)
                    status = statuses[0] if statuses else None
                    if batch.accepted == SENT and not batch.forgotten:
                        self.count["unacknowledged and there" if status else "unacknowledged and not there"] += 1
                    if batch.pending:
                        self.count["unacknowledged ADDs"] += len(batch.pending)
                    if check_presence(batch, status, self.was_draining):
                        kept.append(batch)
                    else:
                        self.gone.add(batch.name)
                client.batches = kept
                for batch in kept:
                    status = connection.status(batch.id)
                    self.count["readings checked"] += len(batch.readings)
                    check_readings(batch, connection, status, settled_before)
            wrong_unless(not listed, "LIST", f"batches that no client has submitted: {dict(listed)}")
            for batch in self.all_batches():
                if batch.was_checked or budget <= 0:
                    continue
                status = connection.status(batch.id)
                if status["finished_at"]:
                    budget -= batch.jobs + 10
                    self.check_one(connection, batch, status)

    def check_one(self, connection, batch, status):
        check_whole(batch, status, connection.results(batch.id))
        batch.was_checked = True
        self.count["batches checked whole"] += 1
        self.count["jobs checked"] += batch.jobs

    def all_batches(self):
        return [batch for client in self.clients for batch in client.batches]

    def finish(self, daemon):
        """Everything comes to its end."""
        with log_in(daemon, "large", PatientConnection) as connection:
            for batch in self.all_batches():
                if not batch.closed:
                    connection("CLOSE", batch.id)
                    batch.closed = ACKNOWLEDGED
            for batch in self.all_batches():
                self.check_one(connection, batch, connection.wait(batch.id))


def log_in(daemon, name, kind=Connection):
    connection = kind(daemon.host, daemon.port)
    connection("AUTH", name, PASSWORD.format(name))
    return connection


def load(ledger, daemon, seconds):
    """Clients at work until the daemon is ended. What was done before the returned moment must be on the disk."""
    stop = threading.Event()
    users_of = {client: "large" for client in ledger.clients} | {ledger.evicted: "small"}
    threads = [
        threading.Thread(target=client.work, args=(functools.partial(log_in, daemon, user), stop), daemon=True) for client, user in users_of.items()
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds)
    ledger.was_draining = ledger.random.random() < 0.15
    if ledger.was_draining:
        daemon.send_signal(signal.SIGTERM)
        time.sleep(ledger.random.random() * 0.1)
    exchanges = [time.monotonic() - began for client in ledger.clients if (began := client.in_flight_since) is not None]
    killed_at = time.monotonic()
    end(daemon)
    stop.set()
    for thread in threads:
        thread.join(DEADLINE_S)
        if thread.is_alive():
            raise Wrong("a client has not heard that the daemon was killed")
    for client in users_of:
        if client.trouble:
            raise client.trouble
    slowest = max([SETTLED_S / 2, *exchanges, *(client.longest_exchange for client in ledger.clients)])
    return max(killed_at - 2 * slowest, *(client.written_at for client in ledger.clients))


def end(daemon):
    if daemon.process.poll() is None:
        daemon.send_signal(signal.SIGKILL)
    code = daemon.wait_end()
    if code not in (-signal.SIGKILL, 0, 75):
        raise Wrong(f"the daemon ended with {code}")
    daemon.process.returncode = 0  # close() need not wonder


def settings_of(durability, server):
    large, small = BUILTIN, {**BUILTIN, "max_stored_bytes": ROOM}
    store = server.settings(durability=durability) if server else {"store": {"durability": durability}}
    return {**store, "shutdown": {"drain_timeout": "50ms"}, **users(large=large, small=small)}


def run(seed, kills, durability, engine):
    """True if all held. A failure leaves the store."""
    print(f"seed {seed}, {kills} kills, durability {durability}, engine {engine}", flush=True)
    store = pathlib.Path(tempfile.mkdtemp(prefix="locksley-crash-"))
    server = PostgresServer() if engine == "postgresql" else None
    settings = settings_of(durability, server)
    ledger = Ledger(seed)
    daemon, kill, settled_before = None, 0, 0
    try:
        for kill in range(1, kills + 1):
            while ledger.random.random() < 0.1:
                StoreDaemon(store, settings, kill_after=ledger.random.random() * 0.1).close()
                ledger.count["kills before it was ready"] += 1
            daemon = StoreDaemon(store, settings)
            ledger.check(daemon, settled_before)
            settled_before = load(ledger, daemon, ledger.random.uniform(0.001, 0.5))
            daemon.close()
        daemon = StoreDaemon(store, settings)
        ledger.check(daemon, settled_before)
        ledger.finish(daemon)
        daemon.close()
    except BaseException as error:
        print(f"FAILED with seed {seed} after kill {kill} of {kills}; the store: {server.folder if server else store}")
        print(error if isinstance(error, Wrong) else traceback.format_exc())
        if daemon is not None and daemon.log_path.exists():
            print(f"the last daemon's log:\n{daemon.log()[-4000:]}")
            daemon.process.kill()
        return False
    if server:
        server.close()
    shutil.rmtree(store)
    print("; ".join(f"{what}: {count}" for what, count in sorted(ledger.count.items())), flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--durability", default="fsync")
    parser.add_argument("--engine", default="rocksdb", choices=["rocksdb", "postgresql"])
    parser.add_argument("--progress", type=pathlib.Path)
    options = parser.parse_args()
    progress = Progress(options.progress, "kills")
    while progress.passed() < options.kills:
        kills, seed = min(PART, options.kills - progress.passed()), options.seed + progress.parts()
        if not run(seed, kills, options.durability, options.engine):
            return 1
        progress.add(f"{kills} kills with seed {seed}, durability {options.durability}")
    progress.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
