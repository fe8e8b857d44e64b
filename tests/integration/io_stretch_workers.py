#!/usr/bin/python3
"""The longest stretch of the I/O thread while clients look at thousands of remote workers. As io_stretch.py, which has the other costly commands."""

import json
import pathlib
import resource
import sys
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from remote_worker import RemoteWorker, wait_for_machines


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


if __name__ == "__main__":
    unittest.main()
