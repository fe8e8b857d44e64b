#!/usr/bin/python3
"""Two daemons on one PostgreSQL server, one of which has a wall clock that is an hour off: the other takes over, or it does, when the active one is
killed, paused or stopped, and nothing acknowledged is lost. libfaketime sets that daemon's wall clock; the monotonic clocks stay as they are."""

import os
import pathlib
import signal
import sys
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ClusterDaemon
from cluster_ledger import LedgerCluster, OneJob
from postgres_server import PostgresServer

(LIBRARY,) = pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")


class ClockedCluster(LedgerCluster):
    """The daemons have these hours on their wall clocks by turns, in the order of their starts."""

    def __init__(self, settings, hours):
        self.hours, self.starts = hours, 0
        super().__init__(settings, (OneJob, OneJob))

    def start(self):
        hours = self.hours[self.starts % len(self.hours)]
        self.starts += 1
        fake = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": f"{hours:+d}h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with mock.patch.dict(os.environ, fake):
            daemon = ClusterDaemon(self.settings)
        daemon.hours = hours
        return daemon

    def hours_of_the_active_one(self):
        with self.connect(self.active) as connection:
            submitted_ms = connection.status(connection("SUBMIT", "echo", "JOBS", "x"))["submitted_at"]
        return (submitted_ms / 1000 - time.time()) / 3600


class WallClocks(unittest.TestCase):
    def take_turns(self, *hours):
        server = PostgresServer()
        self.addCleanup(server.close)
        cluster = ClockedCluster(server.settings(), hours)
        self.addCleanup(cluster.close)
        for _ in range(2):
            self.assertAlmostEqual(cluster.hours_of_the_active_one(), cluster.active.hours, delta=0.5)
            cluster.await_batches(5)
            cluster.kill_active()
            cluster.await_batches(5)
            cluster.active.send_signal(signal.SIGSTOP)
            cluster.resume_fenced(cluster.take_over())
            cluster.await_batches(5)
            cluster.active.send_signal(signal.SIGTERM)
            cluster.forget(cluster.take_over(), 0)
            cluster.check_new()
        cluster.check_all()

    def test_an_hour_before(self):
        self.take_turns(0, -1)

    def test_an_hour_after(self):
        self.take_turns(0, 1)


if __name__ == "__main__":
    unittest.main()
