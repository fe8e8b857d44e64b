#!/usr/bin/python3
"""Two daemons on three PostgreSQL servers under Patroni: the machine of the primary is lost or frozen again and again, Patroni promotes the synchronous
standby, and a ledger says that no acknowledged batch is lost. Takes root. Prints for how long clients waited; --rounds N."""

import argparse
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster_ledger import LedgerCluster
from locksley_daemon import wait_for
from patroni_cluster import PatroniCluster


class Takeovers:
    def __init__(self, servers):
        self.servers = servers
        settings = {"engine": "postgresql", "url": servers.url, "replication": "required"}
        self.cluster = LedgerCluster({"store": settings})
        self.took = {"lost": [], "frozen": []}

    def round(self, fault):
        self.cluster.await_batches(3)
        machine = self.servers.leader()
        began = time.monotonic()
        machine.kill() if fault == "lost" else machine.pause()
        self.cluster.await_batches(2)
        self.took[fault].append(time.monotonic() - began)
        self.cluster.check_new()
        if fault == "frozen":
            machine.kill()  # by its watchdog: without one, Patroni 3.0.2 was seen to take the lead back as it went on, and to discard the newer rows
        machine.start()
        wait_for("all servers to follow the new primary", self.servers.is_whole, 120, every=0.2)
        self.cluster.await_batches(2)
        self.cluster.kill_active()
        self.cluster.await_batches(2)
        self.cluster.check_new()

    def report(self):
        for fault, seconds in self.took.items():
            if seconds:
                print(f"{fault}: {len(seconds)} times; clients waited for {statistics.median(seconds):.1f} s (median), {max(seconds):.1f} s at most")
        print(f"{self.cluster.acknowledged()} batches acknowledged, none lost")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    servers = PatroniCluster()
    try:
        with servers.inside():
            takeovers = Takeovers(servers)
            try:
                for number in range(options.rounds):
                    takeovers.round(("lost", "frozen")[number % 2])
                takeovers.cluster.check_all()
            except Exception:
                takeovers.cluster.show_logs()
                print(servers.log())
                raise
            finally:
                takeovers.cluster.close()
            takeovers.report()
    finally:
        servers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
