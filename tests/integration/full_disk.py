#!/usr/bin/python3
"""A store on a disk that is full: batches can be deleted, which makes room; nothing is left behind; programs
are started only while their results have room in memory; and the end says what is lost."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import merged, program, wait_for
from programs import shell
from resp import Error, encode
from small_disk import SmallDisk
from store_daemon import HOUR_MS, StoreTest

IO_ERROR, TEMPORARY = 74, 75
MEBI = 1 << 20


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command}: {done.stderr.strip()} (a disk can be mounted by root alone)")


class DiskTest(StoreTest):
    settings = {"pool": {"workers": 2}}
    fill_s = 120  # at most, until the disk is full

    def begin(self, settings=None):
        """Without a limit of its own: the disk is the limit."""
        return super().begin(merged({"store": {"max_bytes": 0}}, settings or {}))

    def free(self):
        disk = os.statvfs(self.disk)
        return disk.f_bavail * disk.f_frsize

    def files(self):
        return sorted(path.name for path in self.store.iterdir() if path.name != "RESERVE")

    def locksley(self, *arguments):
        """The client program, on this daemon."""
        address = f"127.0.0.1:{self.daemon.port}"
        return subprocess.run([program("LOCKSLEY"), "--server", address, *arguments], capture_output=True, text=True, timeout=60)

    def submit(self, size):
        """A batch whose result is kept; whether there was room for it. `self.sizes` has those of all."""
        id_ = f"b{len(self.sizes)}"
        reply = self.command.ask("SUBMIT", "echo", "ID", id_, "JOBS", *[os.urandom(size // 8)] * 8)
        if isinstance(reply, Error):
            self.assert_error("STORE .*the disk is full", reply)
            return False
        self.sizes[id_] = size
        self.assertEqual(self.command.wait(reply)["state"], "done")
        return True

    def fill_with_batches(self, most):
        """Until not even a small one has had room for 5 s, so that the load balancer is told."""
        self.sizes, size = {}, most

        def is_full():
            nonlocal size
            has_room = self.submit(size)
            size = min(most, 2 * size) if has_room else max(4096, size // 2)
            return not has_room and self.daemon.get("/readyz")[0] == 503

        wait_for("the disk to be full", is_full, self.fill_s, every=0.01)

    def assert_accepts_again(self):
        wait_for("the daemon to accept again", lambda: not isinstance(self.command.ask("SUBMIT", "echo", "ID", "again", "JOBS", "a"), Error))
        self.command.wait("again")
        wait_for("the daemon to be ready", lambda: self.daemon.get("/readyz") == (200, "ready\n"))

    def remedy(self, most):
        """What deploy/README.md says under "A full disk", step by step."""
        self.begin()
        self.fill_with_batches(most)
        ids = list(self.sizes)
        self.assertGreater(len(ids), 5)
        self.assertGreater(self.free(), 0, "the store leaves some room")
        submit = self.locksley("submit", "echo", "--id", "no", "no")
        self.assertEqual(submit.returncode, TEMPORARY, submit.stderr)
        self.assertIn("the store has refused writes", self.daemon.get("/readyz")[1])
        # Attempts that fail leave nothing behind.
        files = self.files()
        for _ in range(20):
            self.assert_error("STORE", self.command.ask("SUBMIT", "echo", "JOBS", "a"))
            self.assert_error("STORE", self.command.ask("CUSTOMER", "SET", "new", "WEIGHT", 2))
        self.assertEqual(self.command("CUSTOMER", "LIST")[1], [])
        self.assertLessEqual(len(self.files()), len(files) + 2)
        free, forgotten = self.free(), 0
        while forgotten < sum(self.sizes.values()) / 2:
            id_ = ids.pop(0)
            forgotten += self.sizes[id_]
            forget = self.locksley("forget", id_)
            self.assertEqual((forget.returncode, forget.stderr), (0, ""), id_)
        self.assert_accepts_again()
        wait_for("the room to be given back", lambda: self.free() > free + forgotten / 4)
        left = [*ids, "again"]
        for _ in range(2):
            self.assert_known(*left)
            self.assertEqual([row[1] for row in self.command.results(left[0])], ["ok"] * 8)
            self.kill_and_begin()


class Small(DiskTest):
    """30 MB."""

    def setUp(self):
        super().setUp()
        self.disk = self.store
        self.small_disk = SmallDisk(self, self.disk, size="30m")
        self.store = self.disk / "store"

    def test_batches_can_be_deleted_which_makes_room(self):
        self.remedy(MEBI)

    def pipeline(self, *commands):
        """The replies, errors among them, of a connection of its own."""
        connection = self.connect(self.daemon)
        sender = threading.Thread(target=connection.send, args=[b"".join(encode(*command) for command in commands)])
        sender.start()
        try:
            return [connection.read() for _ in commands]
        finally:
            sender.join()

    def test_jobs_that_are_refused_are_not_acknowledged_with_a_later_write(self):
        """The store refuses a command that is too large for the disk, and takes those after it."""
        self.begin()
        for pause in (0, 3, 30, 100, 300):
            stream = self.command("OPEN", "echo")
            large = ("ADDAT", stream, 0, bytes(28 * MEBI))
            between = [("PING",)] * pause
            first, *_, again, closed = self.pipeline(large, *between, ("SUBMIT", "echo", "JOBS", "a"), ("ADDAT", stream, 0, "small"), ("CLOSE", stream))
            self.assert_error("STORE", first)
            jobs = self.status(stream)["jobs"]
            for reply in again, closed:
                if reply != jobs:
                    self.assert_error("STORE", reply)
            self.assertEqual(self.command("CLOSE", stream), jobs)

    def test_a_batch_after_one_that_is_refused_does_not_run(self):
        self.begin()
        for pause in (0, 3, 30, 100, 300):
            large, after = f"large-{pause}", f"after-{pause}"
            between = [("PING",)] * pause
            first, *_, accepted, waited = self.pipeline(
                ("SUBMIT", "echo", "ID", large, "JOBS", bytes(28 * MEBI)), *between, ("SUBMIT", "echo", "ID", after, "AFTER", large, "JOBS", "a"), ("WAIT", large)
            )
            self.assert_error("STORE", first)
            self.assert_error("NOBATCH", waited)
            if isinstance(accepted, Error):
                self.assert_error("(STORE|NOBATCH)", accepted)
                continue
            status = self.command.wait(after)
            self.assertEqual(status["state"], "cancelled")
            self.assertEqual(self.command.results(after), [[0, "cancelled", f"the batch '{large}' was refused"]])

    def fill_with_another_file(self):
        # Results are written after their batch is over. Those for which there is no room wait in memory, and to discard them frees nothing.
        self.settle()
        other = self.disk / "other"
        with open(other, "wb", buffering=0) as file:

            def fill():
                with contextlib.suppress(OSError):
                    while file.write(bytes(4096)):
                        pass
                return self.free() == 0

            # The store may give some room back meanwhile: it flushes a memtable, and deletes the log that had its rows.
            wait_for("a full disk", fill)
        return other

    def test_discarded_results_make_room(self):
        """Of batches that stay, and that are not in the way of the deletion."""
        self.begin()
        outputs = 64  # of 16 KiB; the payloads are a range, and take no room
        ids = [self.command("SUBMIT", "echo", "ID", f"b{n}", "RANGE", 0, outputs, os.urandom(8192).hex()) for n in range(6)]
        for id_ in ids:
            self.command.wait(id_)
        other = self.fill_with_another_file()
        self.assert_error("STORE", self.command.ask("SUBMIT", "echo", "JOBS", os.urandom(MEBI)))
        for id_ in ids[:4]:
            self.assertEqual(self.command("RESULTS", id_, "FROM", outputs + 1, "DISCARD"), ["0", []])
        wait_for("room", lambda: self.free() > 2 * MEBI)
        other.unlink()
        self.assert_accepts_again()
        for _ in range(2):
            self.assert_known(*ids, "again")
            self.assertEqual([len(self.command.results(id_)) for id_ in ids], [0] * 4 + [outputs] * 2)
            self.kill_and_begin()

    def test_others_have_filled_it(self):
        """Even the room that the store leaves free. Its reserve is none of theirs."""
        self.begin()
        ids = [self.command("SUBMIT", "echo", "ID", f"b{number}", "JOBS", os.urandom(MEBI)) for number in range(4)]
        for id_ in ids:
            self.command.wait(id_)
        other = self.fill_with_another_file()
        self.assert_error("STORE", self.command.ask("SUBMIT", "echo", "JOBS", os.urandom(MEBI)))
        for id_ in ids:
            wait_for("FORGET", lambda: not isinstance(self.command.ask("FORGET", id_), Error))
        self.assert_known()
        wait_for("room", lambda: self.free() > 2 * MEBI)
        other.unlink()
        self.assert_accepts_again()

    def test_attempts_to_reopen_it_leave_nothing_behind(self):
        """Whatever becomes free is taken by others."""
        self.begin()
        self.command.wait(self.command("SUBMIT", "echo", "ID", "over", "JOBS", os.urandom(MEBI)))
        self.small_disk.fill()
        self.assert_error("STORE", self.command.ask("SUBMIT", "echo", "JOBS", "a"))
        errors = lambda: self.daemon.metrics()["locksley_store_errors_total"]
        wait_for("an attempt", lambda: errors() >= 2)
        before, count = self.files(), errors()
        wait_for("more attempts", lambda: errors() >= count + 3)
        # One may be under way at this moment.
        wait_for("no other files to be there", lambda: set(self.files()) <= set(before))

    def test_the_end_tells_what_is_lost(self):
        self.begin({"shutdown": {"drain_timeout": "100ms"}, "handlers": {"sh": shell()}})
        self.command("SUBMIT", "sh", "ID", "slow", "JOBS", *["head -c 300000 /dev/urandom; sleep 0.02"] * 1000)
        self.small_disk.fill()
        full_at = self.status("slow")["ok"]
        wait_for("more results than the reserve has room for", lambda: self.status("slow")["ok"] > full_at + 50)
        self.daemon.send_signal(signal.SIGTERM)
        code = self.daemon.wait_end()
        self.daemon.process.returncode = 0
        self.assertEqual(code, IO_ERROR)
        self.assertRegex(self.daemon.log(), r"store: changes and results could not be written and are lost.* lost=[1-9]")


class Gate(StoreTest):
    """While the disk fails, results wait in memory: from 256 MiB of them on, the slots of programs start no more jobs."""

    settings = {
        "pool": {"workers": 2},
        "store": {"max_bytes": 0},
        "limits": {"max_result_bytes": "1GiB"},
        "lanes": {"processes": {"slots": 5}},
        "handlers": {
            "large": {"command": ["head", "-c", "16MiB", "/dev/zero"], "max_output": "16MiB", "concurrency": 2},
            "nap": {"command": ["sleep", "{}"], "input": "argument", "concurrency": 3},
        },
    }

    def setUp(self):
        super().setUp()
        self.disk = SmallDisk(self, self.store)
        self.store = self.store / "store"
        self.begin()

    def test_slots_start_nothing_and_all_the_rest_goes_on(self):
        self.command("SUBMIT", "nap", "ID", "timed", "TIMEOUT", 5000, "JOBS", HOUR_MS)
        self.command("SUBMIT", "nap", "ID", "cancelled", "JOBS", HOUR_MS)
        self.command("SUBMIT", "large", "ID", "large", "RANGE", 0, 30)
        wait_for("two to run", lambda: self.status("timed")["running"] + self.status("cancelled")["running"] == 2)
        # One result has room on the disk. When 16 others wait for it, which are 256 MiB, the other slot ends what it runs.
        wait_for("as many results as may wait", lambda: self.status("large")["ok"] >= 17 and self.status("large")["running"] == 0)
        ended = self.status("large")["ok"]
        self.command("SUBMIT", "nap", "ID", "new", "EPHEMERAL", "JOBS", 0)
        # What needs neither the disk nor a slot goes on; cancellation and time limits reach what runs.
        self.assertEqual(self.command("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.command.ask("CANCEL", "cancelled")
        self.assertEqual(self.command.wait("cancelled")["cancelled"], 1)
        self.assertEqual(self.command.wait("timed")["failed"], 1)
        self.assertEqual([row[1] for row in self.command.results("timed")], ["timeout"])
        status = self.status("large")
        self.assertEqual((status["ok"], status["running"], status["queued"]), (ended, 0, 30 - ended))
        self.assertLessEqual(ended, 19)
        self.assertEqual(self.status("new")["queued"], 1, "its slots are free, and do not take it")
        # Once nothing waits for the disk any more, they go on.
        self.command.ask("CANCEL", "large")
        self.command.ask("FORGET", "large")
        self.assertEqual(self.command.wait("new")["ok"], 1)


class Large(DiskTest):
    """3 GB, of which another file has all but 300 MB: an image with holes, so that it takes no more here."""

    fill_s = 600  # a batch of 16 MiB takes up to 20 s where compilers have the processors

    def setUp(self):
        super().setUp()
        self.disk = self.store
        image = self.store.with_name(self.store.name + ".image")
        self.addCleanup(image.unlink)
        with open(image, "wb") as file:
            file.truncate(3 << 30)
        run("mkfs.ext4", "-q", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1", image)
        run("mount", "-o", "loop", image, self.disk)
        self.addCleanup(subprocess.run, ["umount", self.disk], check=True)
        self.store = self.disk / "store"
        run("fallocate", "-l", self.free() - 300 * MEBI, self.disk / "other")

    def test_batches_can_be_deleted_which_makes_room(self):
        self.remedy(16 * MEBI)


if __name__ == "__main__":
    unittest.main()
