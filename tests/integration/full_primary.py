#!/usr/bin/python3
"""The disk of a PostgreSQL primary that has a synchronous standby is full for a while, and two daemons with clients are on it: batches are refused,
nothing that was acknowledged is lost, and all goes on once there is room. Takes root: the disk is a file system in memory."""

import contextlib
import os
import pathlib
import pwd
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import Submitter
from cluster_ledger import ClusterTest, LedgerCluster, OneJob
from locksley_daemon import wait_for
from postgres_pair import PostgresPair, ReplicatedServer
from small_disk import SmallDisk


class Bulky(Submitter):
    def payloads(self, batch):
        return [f"{batch}/{index}/{'x' * 3000}" for index in range(self.JOBS)]


class DiskPair(PostgresPair):
    """The primary is on a small disk; its log too, if `has_log`."""

    def __init__(self, test, has_log):
        self.test, self.has_log, self.disk = test, has_log, None
        # The log that the standby has not got is kept over the end of the server: without a slot or this, it could follow no more.
        super().__init__("max_wal_size = 64MB\nmin_wal_size = 32MB\nwal_keep_size = 64MB\n")

    def server(self, folder, copy_of=None):
        if self.disk is not None:
            return super().server(folder, copy_of)
        folder.mkdir()
        self.test.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)  # once the disk is gone
        self.disk = SmallDisk(self.test, folder, "240m")
        server_class = ReplicatedServer if self.has_log else LogElsewhere
        return server_class(folder, copy_of, self.more)


class LogElsewhere(ReplicatedServer):
    def make_data(self):
        log = self.folder.parent / "log"
        log.mkdir()
        if self.as_other:
            os.chown(log, pwd.getpwnam("postgres").pw_uid, -1)
        self.initdb_options = ("-X", log)
        super().make_data()


class FullPrimary(ClusterTest):
    def fill_and_make_room(self, has_log):
        pair = DiskPair(self, has_log)
        self.addCleanup(pair.close)
        self.cluster = cluster = LedgerCluster(pair.settings(), (OneJob, Bulky, Bulky))
        self.addCleanup(cluster.close)
        refused = lambda: sum(each.client.refused["STORE"] for each in cluster.submitters)
        for _ in range(3):
            cluster.await_batches(3)
            before = refused()
            pair.disk.fill()
            wait_for("batches to be refused", lambda: refused() > before + 10, 90)
            if has_log:
                self.fill_log(pair.primary)
            pair.disk.make_room()
            began = time.monotonic()
            if has_log:
                pair.primary.start()  # as its service manager does
            cluster.await_batches(2)
            print(f"{self._testMethodName}: {time.monotonic() - began:.1f} s after there was room batches were accepted again", flush=True)
            cluster.check_new()
        cluster.check_all()
        print(f"{self._testMethodName}: {cluster.acknowledged()} batches acknowledged, none lost; {refused()} refused")

    @staticmethod
    def fill_log(server):
        """Until the server ends itself, because it can write no more. Each message waits for the standby, which would else miss what is overwritten."""

        def has_ended():
            with contextlib.suppress(subprocess.SubprocessError):
                server.query("select pg_logical_emit_message(true, '', repeat('x', 1 << 20))")
            return server.process.poll() is not None

        wait_for("the server to end", has_ended, 60)

    def test_rows_have_no_room(self):
        self.fill_and_make_room(has_log=False)

    def test_neither_rows_nor_the_log_have_room(self):
        """The server ends itself when its log cannot be written."""
        self.fill_and_make_room(has_log=True)


if __name__ == "__main__":
    unittest.main()
