#!/usr/bin/python3
"""The longest stretch of the I/O thread while clients look at thousands of remote workers, or at very many results that one has sent. As
io_stretch.py, which has the other costly commands."""

import json
import pathlib
import resource
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from remote_worker import RemoteWorker, wait_for_machines
from resp import encode


class Workers(io_stretch.Stretches):
    settings = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}, "limits": {"max_clients": 10_000}}
    MANY = 2_000

    def setUp(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        super().setUp()

    @io_stretch.once_of_three
    def test_the_list_of_thousands(self):
        for number in range(self.MANY):
            self.addCleanup(RemoteWorker(self.daemon, "shout", name=f"machine-{number}").close)
        wait_for_machines(self.command, self.MANY)
        self.note_longest(f"WORKERS with {self.MANY}")
        for _ in range(10):
            with urllib.request.urlopen(self.daemon.http + "/api/overview", timeout=60) as reply:
                machines = json.load(reply)["machines"]
            self.assertEqual([machine["worker"] for machine in machines], [f"machine-{number}" for number in range(self.MANY)])
        self.note_longest("the overview of the HTTP API")

    @io_stretch.once_of_three
    def test_the_list_of_very_many_that_run(self):
        workers, slots = 64, 1_024
        self.command("SUBMIT", "shout", "ID", "b", "RANGE", 0, workers * slots)
        for number in range(workers):
            worker = RemoteWorker(self.daemon, "shout", slots=slots, name=f"machine-{number}")
            self.addCleanup(worker.close)
            self.assertEqual(worker.claim("WIDTH", slots, "JOBS", slots).count, slots)
        self.note_longest(f"{workers * slots} jobs run")
        for _ in range(10):
            self.assertGreater(len(self.command("RUNNING", "COUNT", 10_000)), 1_000)
        self.note_longest("RUNNING")


class SettledOneByOne(io_stretch.Stretches):
    """Each row has a chunk of memory of its own, since its job was settled by itself."""

    settings = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}, "limits": {"max_result_bytes": "1GiB"}}
    MANY = 100_000
    OUTPUT = b"x" * 4_200

    @io_stretch.once_of_three
    def test_pages_of_a_batch_of_very_many_large_rows(self):
        self.command("SUBMIT", "shout", "ID", "large", "RANGE", 0, self.MANY)
        worker = RemoteWorker(self.daemon, "shout")
        self.addCleanup(worker.close)
        lease = worker.claim("JOBS", self.MANY)
        while lease is not None:
            for first in range(lease.first, lease.end, 1_000):
                end = min(lease.end, first + 1_000)
                worker.send(b"".join(encode("SETTLE", lease.name, "ok", job, self.OUTPUT) for job in range(first, end)))
                self.assertEqual(sum(worker.read()[0] for _ in range(first, end)), end - first)
            lease = worker.claim("JOBS", self.MANY, block=0)
        self.command.wait("large")
        self.note_longest(f"{self.MANY} jobs have ended")
        cursor = 0
        for _ in range(20):
            cursor, rows = self.command("RESULTS", "large", "FROM", cursor, "COUNT", 1_000_000)
            self.assertGreater(len(rows), 50)
        self.note_longest("pages of their results")


if __name__ == "__main__":
    unittest.main()
