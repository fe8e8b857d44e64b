#!/usr/bin/python3
"""What STATUS and EXPLAIN say of batches whose jobs remote workers hold."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, merged, wait_for
from remote_worker import RemoteWorker
from resp import Connection
from users import PASSWORD, users


class RemoteStatus(DaemonTest):
    SETTINGS = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}}

    def serve(self, settings=None):
        self.daemon = self.start(merged(self.SETTINGS, settings or {}))
        return self.connect(self.daemon)

    def worker(self, **options):
        worker = RemoteWorker(self.daemon, "shout", **options)
        self.addCleanup(worker.close)
        return worker

    def test_a_job_that_a_worker_holds_is_cancelled_once_it_is_handed_back(self):
        """Not before: the worker may have ended it already, and then it has the result that the worker says."""
        # A lease has several jobs, though each takes as long as a slow machine needs for a reply.
        connection = self.serve({"scheduling": {"quantum": "1s"}})
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "RANGE", 1, 1000)
        lease = worker.claim()
        while lease.count < 3:  # until it is known how short the jobs are
            worker.settle(lease, ["X"] * lease.count)
            lease = worker.claim()
        counts = lambda: {key: value for key, value in connection.status(batch).items() if key in ("jobs", "queued", "running", "ok", "cancelled")}
        before = counts()
        left = before["jobs"] - lease.first
        self.assertEqual(before, {"jobs": before["jobs"], "queued": left - 1, "running": 1, "ok": lease.first, "cancelled": 0})
        self.assertEqual(connection("CANCEL", batch), left - 1)
        self.assertEqual(counts(), before | {"queued": lease.count - 1, "cancelled": left - lease.count})
        self.assertEqual(worker("BEAT"), [["STOP", lease.name]])
        self.assertEqual(worker.settle(lease, ["A"]), [1, lease.count - 1])
        self.assertEqual(worker("YIELD", lease.name), lease.count - 1)
        self.assertEqual(connection.wait(batch)["state"], "cancelled")
        self.assertEqual(counts(), before | {"queued": 0, "running": 0, "ok": lease.first + 1, "cancelled": left - 1})

    def test_explain_says_that_the_workers_hold_all_that_they_may(self):
        work = {"commands": ["work"]}
        self.serve(merged(users(mallory=work, grace=work, alice={}), {"workers": {"max_leased_bytes": "64KiB"}}))
        client = Connection(self.daemon.host, self.daemon.port)
        self.addCleanup(client.close)
        client("AUTH", "alice", PASSWORD.format("alice"))
        first = client("SUBMIT", "shout", "JOBS", *["x" * 4096] * 8)
        reason = lambda: client.explain(second)["reason"]
        mallory = self.worker(user="mallory", password=PASSWORD.format("mallory"), slots=16)
        held = [mallory.claim("JOBS", 1) for _ in range(8)]  # half of the limit
        second = client("SUBMIT", "shout", "JOBS", "x")
        wait_for("EXPLAIN to say so", lambda: reason() == "workers-at-limit")
        self.assertIsNone(mallory.claim(block=0))
        self.assertEqual(client.explain(first)["reason"], "running")
        with RemoteWorker(self.daemon, "shout", user="grace", password=PASSWORD.format("grace")):
            wait_for("a worker with room", lambda: reason() == "waiting-its-turn")
        wait_for("that worker to have left", lambda: reason() == "workers-at-limit")
        mallory.settle(held[0], ["X"])
        wait_for("room", lambda: reason() == "waiting-its-turn")
        mallory.settle(mallory.claim(), ["X"])
        self.assertEqual(client.wait(second)["ok"], 1)


if __name__ == "__main__":
    unittest.main()
