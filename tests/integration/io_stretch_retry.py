#!/usr/bin/python3
"""The longest stretch of the I/O thread while a batch with very many failures that lie scattered is retried and cancelled. As io_stretch.py, which has
the other costly commands."""

import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from locksley_daemon import wait_for
from resp import encode
from scratch import scratch

FAILED = 1_000_000  # every other job


class Failures(io_stretch.Stretches):
    def send_jobs(self, *command):
        """The command with the payloads of 2 * FAILED jobs, of which every other one fails."""
        head = encode(*command)
        words = head.split(b"\r\n", 1)
        self.command.send(b"*%d\r\n" % (len(command) + 2 * FAILED) + words[1])
        for _ in range(FAILED // 50_000):
            self.command.send(b"$1\r\n1\r\n$1\r\nx\r\n" * 50_000)
        return self.command.read()

    @io_stretch.once_of_three
    def test_retry_of_a_batch_that_is_over(self):
        self.assertEqual(self.send_jobs("SUBMIT", "fib", "ID", "b", "KEEP", "none", "JOBS"), "b")
        self.assertEqual(self.command.wait("b", seconds=120)["failed"], FAILED)
        self.note_longest("a million jobs failed")
        self.assertEqual(self.command("RETRY", "b"), FAILED)
        self.note_longest("RETRY")
        status = self.command.wait("b", seconds=120)
        self.assertEqual((status["failed"], status["retried"]), (FAILED, FAILED))
        self.note_longest("all of them have failed again")

    @io_stretch.once_of_three
    def test_retry_of_some_of_very_many_failures(self):
        most = 100_000  # Failures::kMostScattered
        self.command("SUBMIT", "fib", "ID", "b", "KEEP", "none", "JOBS", *(["1", "x"] * most))
        self.assertEqual(self.command.wait("b", seconds=120)["failed"], most)
        self.note_longest("100,000 jobs failed")
        for first in range(1, 10_000, 2_000):
            some = [first] + [2 * most - first - 100 * i for i in range(999)]
            self.assertEqual(self.command("RETRY", "b", *some), 1_000)
            self.note_longest("RETRY of a thousand of them")
            self.command.wait("b")

    @io_stretch.once_of_three
    def test_cancel_of_what_was_retried(self):
        self.command("OPEN", "fib", "ID", "b")
        self.assertEqual(self.send_jobs("ADD", "b"), 2 * FAILED)
        wait_for("all to end", lambda: self.command.status("b")["failed"] == FAILED, seconds=120, every=0.2)
        self.command("PAUSE", "b")
        self.assertEqual(self.command("RETRY", "b"), FAILED)
        self.assertEqual(self.command.status("b")["queued"], FAILED)
        self.note_longest("RETRY of a stream")
        self.assertEqual(self.command("CANCEL", "b"), FAILED)
        status = self.command.wait("b", seconds=120)
        self.assertEqual((status["state"], status["cancelled"], status["ok"]), ("cancelled", FAILED, FAILED))
        self.note_longest("CANCEL")


class StoredFailures(Failures):
    def setUp(self):
        self.settings = {"store": {"path": str(scratch(self) / "store"), "durability": "none"}}
        super().setUp()

    @io_stretch.once_of_three
    def test_first_look_at_a_batch_that_only_the_store_has(self):
        self.assertEqual(self.send_jobs("SUBMIT", "fib", "ID", "b", "KEEP", "none", "JOBS"), "b")
        self.assertEqual(self.command.wait("b", seconds=120)["failed"], FAILED)
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        self.daemon = self.start(self.settings)
        self.command = self.connect(self.daemon)
        self.assertEqual(self.command.status("b")["failed"], FAILED)
        self.note_longest("STATUS of a batch of an earlier process, of which a million jobs failed")
        self.assertEqual(self.command("RETRY", "b"), FAILED)
        self.note_longest("RETRY")
        status = self.command.status("b")
        self.assertEqual((status["retried"], status["queued"] + status["running"] + status["failed"]), (FAILED, FAILED))


if __name__ == "__main__":
    unittest.main()
