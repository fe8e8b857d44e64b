#!/usr/bin/python3
"""One user's writes beside another user's: how much of the one's is written while the other waits for a write. Counted, not timed, so that the
disk and other programs do not matter."""

import contextlib
import pathlib
import select
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, merged, wait_for
from resp import encode
from scratch import scratch
from users import BUILTIN, PASSWORD, users

MEBI = 1 << 20
PENDING = 8 * MEBI  # WriteCharges::kMostPending
NEVER_MS = 100_000_000


class NeighbourWrites(DaemonTest):
    def setUp(self):
        settings = {"store": {"path": str(scratch(self) / "store")}}
        self.daemon = self.start(merged(settings, users(alice=BUILTIN, mallory=BUILTIN)))
        self.alice = self.connect_as("alice")
        self.mallory = self.connect_as("mallory")

    def connect_as(self, user):
        connection = self.connect(self.daemon, timeout=60)
        connection("AUTH", user, PASSWORD.format(user))
        return connection

    def test_a_pipeline_of_batches(self):
        size = 60_000
        command = encode("SUBMIT", "echo", "DELAY", NEVER_MS, "JOBS", "x" * size)
        replies = 0
        over = threading.Event()

        def send():
            with contextlib.suppress(OSError):  # the test ends while it waits
                while not over.is_set():
                    self.mallory.send(command * 10)

        def count():
            nonlocal replies
            while not over.is_set():
                if select.select([self.mallory.socket], [], [], 0.1)[0]:
                    replies += self.mallory.socket.recv(MEBI).count(b"$")

        threads = [threading.Thread(target=each, daemon=True) for each in (send, count)]
        for each in threads:
            each.start()
        wait_for("the pipeline to be under way", lambda: replies > 500)
        meanwhile = []
        for number in range(20):
            before = replies
            self.assertEqual(self.alice("SUBMIT", "echo", "ID", f"a{number}", "JOBS", "a"), f"a{number}")
            meanwhile.append(replies - before)
        over.set()
        print(f"acknowledged while alice waited for a SUBMIT: {meanwhile}", flush=True)
        # What was pending when hers came, and what was put while the last group of it was written.
        self.assertLess(max(meanwhile), 3 * PENDING / size)

    def test_large_batches(self):
        jobs = 100_000
        command = encode("SUBMIT", "echo", "DELAY", NEVER_MS, "JOBS", *["x" * 1_000] * jobs)
        watcher = self.connect_as("mallory")

        def pending():
            lines = watcher("INFO", "account").splitlines()
            return next(int(line.split("used=")[1].split(",")[0]) for line in lines if line.startswith("account_write_bytes"))

        overtaken = 0
        for number in range(5):
            sender = threading.Thread(target=self.mallory.send, args=(command,), daemon=True)
            sender.start()
            deadline = time.monotonic() + 60
            while pending() < PENDING:
                self.assertLess(time.monotonic(), deadline, "the large SUBMIT does not come")
            self.alice("SUBMIT", "echo", "ID", f"b{number}", "JOBS", "a")
            is_first = not select.select([self.mallory.socket], [], [], 0)[0]
            overtaken += is_first
            batch = self.mallory.read()
            self.assertEqual(watcher.status(batch)["jobs"], jobs)
            watcher("CANCEL", batch)
            watcher.wait(batch)
            watcher("FORGET", batch)
            sender.join()
        print(f"alice's SUBMIT was acknowledged first in {overtaken} of 5", flush=True)
        self.assertGreater(overtaken, 0)


if __name__ == "__main__":
    unittest.main()
