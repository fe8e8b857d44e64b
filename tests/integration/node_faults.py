#!/usr/bin/python3
"""Workers of the Node.js package where something goes wrong: they are told to stop while jobs run."""

import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import node_package
from local_worker import told_to_stop


def setUpModule():
    node_package.setUpModule()


class Stops(unittest.TestCase):
    """SIGTERM, as the daemon sends it, to a local worker whose job runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def answer_of(self, task, version):
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs"]
        return told_to_stop(self, command, task, self.path / f"{task}-{version}", version, cwd=node_package.INSTALLED)

    def test_a_job_that_it_ended_is_not_answered(self):
        """Only the daemon knows why it sent the signal. If the daemon itself ends, the job is to run again."""
        for version in (1, 2):
            self.assertEqual(self.answer_of("sleeps", version), b"", version)
            self.assertTrue((self.path / f"sleeps-{version}").exists(), "it did not clean up")

    def test_a_job_that_returns_nevertheless_is_answered(self):
        self.assertEqual(self.answer_of("sleepsUnlessStopped", 1), b'$9\r\n"stopped"\r\n')
        self.assertEqual(self.answer_of("sleepsUnlessStopped", 2), b'*3\r\n$1\r\n0\r\n$2\r\nok\r\n$9\r\n"stopped"\r\n')


if __name__ == "__main__":
    unittest.main()
