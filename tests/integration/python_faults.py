#!/usr/bin/python3
"""Workers of the Python package where something goes wrong: a daemon that ends while jobs run."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from local_worker import told_to_stop
from locksley_daemon import wait_for
from python_tasks import ENVIRONMENT, HANDLER, HANDLER_2, tasks, url_of
from store_daemon import StoreTest


class Stops(unittest.TestCase):
    """SIGTERM, as the daemon sends it, to a local worker whose job runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def answer_of(self, task, version):
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:app"]
        return told_to_stop(self, command, task, self.path / f"{task}-{version}", version, env=ENVIRONMENT)

    def test_a_job_that_it_ended_is_not_answered(self):
        """Only the daemon knows why it sent the signal. If the daemon itself ends, the job is to run again."""
        for task in ("sleeps", "sleeps_as_a_coroutine"):
            for version in (1, 2):
                self.assertEqual(self.answer_of(task, version), b"", f"{task}, {version}")
                self.assertTrue((self.path / f"{task}-{version}").exists(), "it did not clean up")

    def test_a_job_that_returns_nevertheless_is_answered(self):
        self.assertEqual(self.answer_of("sleeps_unless_stopped", 1), b'$9\r\n"stopped"\r\n')


class Restarts(StoreTest):
    def test_jobs_that_ran_when_the_daemon_ended_run_again(self):
        handlers = {"python": {**HANDLER_2, "concurrency": 2}, "first": {**HANDLER, "concurrency": 2}}
        settings = {"handlers": handlers, "lanes": {"processes": {"slots": 4}}, "shutdown": {"drain_timeout": "100ms"}}
        self.begin(settings)
        tasks.app.connect(url_of(self.daemon))
        self.addCleanup(tasks.app.close)
        batches = [tasks.app.named(name, handler=handler).starmap([(str(self.store / f"{name}-{handler}"), 3600)])
                   for name in ("sleeps", "sleeps_as_a_coroutine") for handler in handlers]
        wait_for("the jobs to begin", lambda: len(list(self.store.glob("*-began"))) == len(batches))
        self.stop(75)  # the jobs are left
        self.begin(settings)
        tasks.app.connect(url_of(self.daemon))
        for batch in batches:
            wait_for("the job to run again", lambda: batch.job(0)["attempt"] == 2 or batch.status().is_over)
            self.assertEqual((batch.status().failed, batch.job(0)["attempt"]), (0, 2))


if __name__ == "__main__":
    unittest.main()
