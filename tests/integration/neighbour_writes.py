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
from locksley_daemon import DaemonTest, merged
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
        over = threading.Event()

        def send():
            with contextlib.suppress(OSError):  # the test ends while it waits
                while not over.is_set():
                    self.mallory.send(command * 10)

        readable = lambda seconds=0: select.select([self.alice.socket, self.mallory.socket], [], [], seconds)[0]
        acknowledged = lambda: self.mallory.socket.recv(MEBI).count(b"$")

        def pass_over():
            while self.mallory.socket in readable():
                acknowledged()

        threading.Thread(target=send, daemon=True).start()
        replies = 0
        while replies <= 500:
            replies += acknowledged()
        meanwhile = []
        for number in range(20):
            pass_over()
            self.alice.send(encode("SUBMIT", "echo", "ID", f"a{number}", "JOBS", "a"))
            pass_over()  # what came before that, should this thread have had to wait for a processor
            # However late this thread looks, it counts no reply that came after alice's: only those after which hers is not there yet.
            count = 0
            while self.alice.socket not in readable(60):
                more = acknowledged()
                count += 0 if self.alice.socket in readable() else more
            self.assertEqual(self.alice.read(), f"a{number}")
            meanwhile.append(count)
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

        is_answered = lambda: bool(select.select([self.mallory.socket], [], [], 0)[0])
        overtaken = came = 0
        end = time.monotonic() + 120
        while came < 5:
            self.assertLess(time.monotonic(), end, "waited 120 s for five large SUBMITs, and to see each before its reply")
            sender = threading.Thread(target=self.mallory.send, args=(command,), daemon=True)
            sender.start()
            while pending() < PENDING and not is_answered():
                self.assertLess(time.monotonic(), end, "the large SUBMIT does not come")
            if not is_answered():  # else this thread had to wait for a processor meanwhile
                came += 1
                self.alice("SUBMIT", "echo", "ID", f"b{came}", "JOBS", "a")
                overtaken += not is_answered()
            batch = self.mallory.read()
            self.assertEqual(watcher.status(batch)["jobs"], jobs)
            watcher("CANCEL", batch)
            watcher.wait(batch)
            watcher("FORGET", batch)
            sender.join()
        print(f"alice's SUBMIT was acknowledged first in {overtaken} of {came}", flush=True)
        self.assertGreater(overtaken, 0)


if __name__ == "__main__":
    unittest.main()
