#!/usr/bin/python3
"""The active daemon of two is killed, paused or stopped at a random moment under load: the other one serves, no acknowledged batch is lost, each
job's result is recorded once, and a daemon that was paused ends without another word.

    failover.py [--rounds 3] [--clusters 1] [--seed S] [--progress FILE]

Most of a round is the wait for the lease to end, so several clusters can have their rounds at the same time. More than 50 rounds are done in parts of 50,
each with a database of its own. With --progress the parts that passed are kept in FILE, and the same command goes on after them, if it was interrupted and
the daemon is the same program. Prints its seeds."""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ClusterDaemon, Submitter, await_batches
from cluster_ledger import Wrong, check_batch, wrong_unless
from locksley_daemon import end_with_parent, wait_for
from patient_connection import PatientConnection
from postgres_server import PostgresServer
from progress import Progress
from resp import pairs

CLIENTS = 3
PART = 50  # rounds of one database
FAULTS = ("kill", "pause", "stop")


def own_address():
    """The loopback address of this process. All clusters have batches with the same IDs: a client that found a daemon of another cluster at the port
    of one that has ended would be told that its batch is accepted."""
    number = os.getpid() % (254 * 256)
    return f"127.1.{number // 254}.{1 + number % 254}"


class Failover:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.server = PostgresServer()
        address = {"address": own_address()}
        self.settings = {**self.server.settings(), "listen": address, "http": address, "shutdown": {"drain_timeout": "20s"}}
        self.active = self.start().wait_active()
        self.standby = self.start()
        wrong_unless(not self.standby.is_active, "a second daemon is active")
        self.seeds = [self.active, self.standby]
        self.submitters = [Submitter(f"c{number}", self.seeds) for number in range(CLIENTS)]
        self.took = {fault: [] for fault in FAULTS}
        self.followed = 0  # takeovers that did not read the whole index

    def start(self):
        return ClusterDaemon(self.settings)

    def connect(self):
        return PatientConnection(self.active.host, self.active.port)

    def round(self, fault):
        """The active daemon fails; the standby takes over, and another daemon stands by."""
        await_batches(self.submitters, 5)
        time.sleep(self.random.random() * 0.3)
        former = self.active
        began = time.monotonic()
        former.send_signal({"kill": signal.SIGKILL, "pause": signal.SIGSTOP, "stop": signal.SIGTERM}[fault])
        self.standby.wait_active()
        if fault == "stop":
            # What the former one has accepted it ends first, under the eyes of the other.
            wrong_unless(former.wait_end() == 0, f"a daemon that was stopped ended with {former.process.returncode}: {former.log()}")
        self.took[fault].append(time.monotonic() - began)
        self.followed += "the index was followed: only what had changed last was read" in self.standby.log()
        if fault == "kill":
            former.wait_end()
        if fault == "pause":
            former.send_signal(signal.SIGCONT)
            code = former.wait_end()
            wrong_unless(code == 69, f"a daemon that was paused ended with {code}, not 69: {former.log()}")
            wrong_unless("another daemon has taken over" in former.log(), former.log())
        former.process.returncode = 0  # as it should have ended
        self.active, self.standby = self.standby, self.start()
        self.seeds[:] = [self.active, self.standby]
        former.close()
        await_batches(self.submitters, 5)
        self.check_new()

    def check_new(self):
        """Every batch that was acknowledged since the last look has each result once."""
        with self.connect() as connection:
            for submitter in self.submitters:
                until = len(submitter.acknowledged)
                for batch in submitter.acknowledged[submitter.checked : until]:
                    check_batch(connection, submitter, batch)
                submitter.checked = until

    def finish(self):
        """Every batch that was ever acknowledged is there."""
        for submitter in self.submitters:
            submitter.end()
        self.check_new()
        with self.connect() as connection:
            listed = {status["id"] for status in connection.listed()}
            states = lambda: [pairs(row)["state"] for row in connection("NODES")]
            wait_for("NODES to name the active one", lambda: states().count("active") == 1)
        lost = [batch for submitter in self.submitters for batch in submitter.acknowledged if batch not in listed]
        wrong_unless(not lost, f"lost: {lost}")
        dead = self.server.query("select count(*) from locksley_node where not alive and committed >= 0")
        wrong_unless(int(dead) <= 16, f"{dead} rows of daemons that have gone")

    def close(self):
        for submitter in self.submitters:
            submitter.stop.set()
        for daemon in (self.active, self.standby):
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.wait_end()
            daemon.process.returncode = 0
            daemon.close()
        self.server.close()


def run(seed, rounds):
    print(f"seed {seed}, {rounds} rounds", flush=True)
    failover = Failover(seed)
    try:
        for number in range(rounds):
            # Each of them before any twice.
            failover.round(FAULTS[number] if number < len(FAULTS) else failover.random.choice(FAULTS))
        failover.finish()
    except BaseException:
        for daemon in (failover.active, failover.standby):
            print(f"--- log of {daemon.address}\n{daemon.log()[-4000:]}---")
        raise
    finally:
        failover.close()
    for fault, seconds in failover.took.items():
        if seconds:
            print(f"{fault}: the other served after {min(seconds):.2f} to {max(seconds):.2f} s, {len(seconds)} times")
    print(f"{sum(len(each.acknowledged) for each in failover.submitters)} batches of {Submitter.JOBS} jobs, none lost; redirected: "
          f"{sum(each.client.redirected for each in failover.submitters)}; takeovers that did not read the whole index: {failover.followed}")


def run_parts(options):
    """Whether all of them passed: each in a process of its own, as many at once as there are clusters. After the first failure none is begun."""
    progress = Progress(options.progress, "rounds")
    failed = threading.Event()

    def run_part(seed, rounds):
        if failed.is_set():
            return
        command = [sys.executable, "-B", __file__, "--rounds", str(rounds), "--seed", str(seed)]
        part = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=end_with_parent)
        print(part.stdout, flush=True)
        if part.returncode == 0:
            progress.add(f"{rounds} rounds with seed {seed}")
        else:
            failed.set()

    left = options.rounds - progress.passed()
    sizes = [min(PART, left - begin) for begin in range(0, left, PART)]
    with concurrent.futures.ThreadPoolExecutor(options.clusters) as parts:
        list(parts.map(run_part, itertools.count(options.seed + progress.parts()), sizes))
    if not failed.is_set():
        progress.end()
    return not failed.is_set()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clusters", type=int, default=1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--progress", type=pathlib.Path)
    options = parser.parse_args()
    if options.rounds > PART:
        return 0 if run_parts(options) else 1
    run(options.seed, options.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
