#!/usr/bin/python3
"""Workers of the Node.js package where something goes wrong: they are told to stop while jobs run, and tasks say more than can be sent."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import node_package
from local_worker import told_to_stop
from locksley_daemon import DEADLINE_S
from scripted_daemons import JOINED, NIL, lease_of, reclaimed
from scripted_upstream import array, bulk, number
from standby_server import LOADING, StandbyServer


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


class Remote(unittest.TestCase):
    """A remote worker of one slot, with a server that says what the test wants."""

    def work_for(self, payload, **replies):
        """Until the server has a result. The server, and the worker, which is told to stop then. `replies`: functions of a command's words."""
        leases = [lease_of(payload)]

        def settle(_):
            self.worker.terminate()
            return array(number(1), number(0))

        does = {"JOIN": lambda _: JOINED, "CLAIM": lambda _: leases.pop() if leases else NIL, "BEAT": lambda _: array(), "SETTLE": settle, **replies}
        server = StandbyServer(lambda words: does.get(words[0], lambda _: b"+OK\r\n")(words))
        self.addCleanup(server.close)
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", f"redis://{server.address}"]
        self.worker = subprocess.Popen(command, cwd=node_package.INSTALLED, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.worker.stderr.close)
        self.addCleanup(self.worker.wait)
        self.addCleanup(self.worker.kill)
        return server

    def heard(self, server, name):
        return [words[1:] for words in server.heard if words[0] == name]

    def test_a_worker_that_is_stopped_while_the_daemon_is_away_delivers_what_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            joins = [pathlib.Path(folder, "go").touch, lambda: None, lambda: self.worker.terminate(), lambda: None]

            def join(_):
                joins.pop()()
                return JOINED if len(joins) in (0, 3) else LOADING

            def breaks(_):
                if joins:  # after the last one the job may go on for some BEATs
                    raise OSError("the server closes the connection")
                return array()

            payload = json.dumps({"task": "holds", "args": [folder]})
            server = self.work_for(payload, JOIN=join, BEAT=breaks, RECLAIM=lambda _: reclaimed("again", 1), SETTLE=lambda _: array(number(1), number(0)))
            self.assertEqual(self.worker.wait(DEADLINE_S), 0)
        self.assertEqual(self.heard(server, "SETTLE"), [["again", "ok", "0", "0"]])
        self.assertEqual(server.heard[-1], ["LEAVE"])

    def test_a_rejection_that_nothing_handles_ends_no_job(self):
        server = self.work_for('{"task": "leavesARejection"}')
        self.assertEqual(self.worker.wait(DEADLINE_S), 0)
        self.assertEqual(self.heard(server, "SETTLE"), [["lease", "ok", "0", '"well"']])
        self.assertIn("left alone", self.worker.stderr.read())

    def test_a_slot_that_ends_unexpectedly_ends_its_worker(self):
        """Else the worker would go on with its BEATs, and the job would run for ever. Here the package fails at a range that has no number."""
        numbers = array(bulk("no number"), NIL)
        lease = array(bulk("lease"), number(7), bulk("far"), *map(number, (0, 1, 1, 0)), NIL, NIL, bulk("b7"), bulk("alice"), NIL, numbers, NIL)
        self.work_for("", CLAIM=lambda _: lease)
        self.assertEqual(self.worker.wait(DEADLINE_S), 70)
        self.assertIn("slot 0 ended by an unexpected error, and this worker with it", self.worker.stderr.read())

    def test_of_what_a_job_says_the_last_is_sent(self):
        server = self.work_for('{"task": "saysMuch", "args": [10000]}')
        self.assertEqual(self.worker.wait(DEADLINE_S), 0)
        self.assertEqual(sorted(self.heard(server, "NOTE")), [["lease", "0", "PROGRESS", "100"], ["lease", "0", "TEXT", "9999"]])


if __name__ == "__main__":
    unittest.main()
