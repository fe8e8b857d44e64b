#!/usr/bin/python3
"""One job of a batch in the hand: RESULTS ... FAILED, and RETRY of jobs by their indexes, in memory and in the store, across kill -9."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, program, wait_for
from resp import encode
from store_daemon import StoreTest

WORKER = pathlib.Path(__file__).resolve().parents[1] / "support" / "python_worker.py"


def failed(connection, batch, *options):
    """All rows that are not ok, read page by page."""
    rows, cursor = [], "0"
    while True:
        cursor, page = connection("RESULTS", batch, "FROM", cursor, "FAILED", *options)
        rows += page
        if cursor == "0":
            return rows


class InMemory(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def mixed(self, **options):
        """Of 30 jobs 3, 13 and 23 fail."""
        payloads = ["x" if i % 10 == 3 else 0 for i in range(30)]
        batch = self.command("SUBMIT", "sleep", *[word for pair in options.items() for word in pair], "JOBS", *payloads)
        self.command.wait(batch)
        return batch

    def test_failed_are_the_rows_that_are_not_ok(self):
        batch = self.mixed()
        rows = [row for row in self.command.results(batch) if row[1] != "ok"]
        self.assertEqual(failed(self.command, batch), rows)
        self.assertEqual(failed(self.command, batch, "COUNT", 1), rows, "page by page")
        self.assertEqual(sorted(row[0] for row in rows), [3, 13, 23])
        # A cursor is the same with and without FAILED.
        cursor, page = self.command("RESULTS", batch, "COUNT", 1, "FAILED")
        before = self.command("RESULTS", batch, "COUNT", 30)[1][: int(cursor) - 1]
        self.assertEqual([row for row in before if row[1] != "ok"], page)
        self.assertEqual(failed(self.command, self.command("SUBMIT", "echo", "RANGE", 0, 0)), [])
        for keep, expected in ("failures", rows), ("none", []):
            self.assertEqual(sorted(failed(self.command, self.mixed(KEEP=keep))), sorted(expected))

    def test_cancelled_jobs_are_not_ok(self):
        batch = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", 0, 3_600_000, 0)
        wait_for("the first job to end", lambda: self.command.status(batch)["ok"] == 1)
        self.command("CANCEL", batch)
        self.command.wait(batch)
        self.assertEqual(sorted(row[:2] for row in failed(self.command, batch)), [[1, "cancelled"], [2, "cancelled"]])

    def test_block_waits_for_a_row_that_is_not_ok(self):
        batch = self.command("OPEN", "sleep")
        with self.daemon.connect() as reader:
            reader.send(encode("RESULTS", batch, "BLOCK", 0, "FAILED"))
            for i in range(5):
                self.command("ADD", batch, 0)
                wait_for("a good result", lambda done=i + 1: self.command.status(batch)["ok"] == done)
            self.command("ADD", batch, "x")
            self.assertEqual([row[:2] for row in reader.read()[1]], [[5, "error"]])
            self.assertEqual(self.command("RESULTS", batch, "FROM", 7, "BLOCK", 5, "FAILED"), ["7", []], "after the time-out")
            reader.send(encode("RESULTS", batch, "FROM", 7, "BLOCK", 0, "FAILED"))
            self.command("ADD", batch, 0)
            self.command("CLOSE", batch)
            self.assertEqual(reader.read(), ["0", []], "at the end of the batch")

    def test_some_jobs_are_queued_again(self):
        batch = self.mixed()
        for wrong, index in ((4,), 4), ((3, 5, 4), 4):
            reply = self.command.ask("RETRY", batch, *wrong)
            self.assertEqual(str(reply), f"ERR job {index} of the batch '{batch}' has not failed: nothing was queued again")
        for wrong in (30,), (3, 13, 99):
            reply = self.command.ask("RETRY", batch, *wrong)
            self.assertEqual(str(reply), f"ERR the batch '{batch}' has 30 jobs: 0 to 29: nothing was queued again")
        self.assertEqual(self.command.status(batch)["retry_rounds"], 0)
        self.assertEqual(self.command("RETRY", batch, 13, 3, 13), 2)
        status = self.command.wait(batch)
        self.assertEqual((status["ok"], status["failed"], status["retried"], status["retry_rounds"]), (27, 3, 2, 1))
        rows = failed(self.command, batch)
        self.assertEqual([row[0] for row in rows][0], 23, "the row that stayed is where it was")
        self.assertEqual(sorted(row[0] for row in rows), [3, 13, 23], "and of each job the last one")
        self.assertEqual(sorted(row[0] for row in self.command.results(batch)), list(range(30)))
        self.assertEqual(self.command("RETRY", batch, "ROUND", 0, 3), 0)
        self.assertEqual(self.command("RETRY", batch, "ROUND", 1, 3), 1)
        self.command.wait(batch)
        self.assertEqual(self.command("RETRY", batch), 3, "all of them")
        self.assertEqual(self.command.wait(batch)["retried"], 6)

    def test_what_is_wrong_with_the_indexes(self):
        batch = self.mixed()
        self.assert_error("ERR", self.command.ask("RETRY", batch, "x"))
        self.assert_error("ERR", self.command.ask("RETRY", batch, -1))
        self.assert_error("ERR", self.command.ask("RETRY", batch, 3, "ROUND", 0))
        self.assertIn("at most 1000 indexes, found 1001", str(self.command.ask("RETRY", batch, *range(1001))))

    def test_by_the_command_line_and_the_api(self):
        batch = self.mixed()

        def run(*arguments):
            command = [program("LOCKSLEY"), "--url", f"redis://127.0.0.1:{self.daemon.port}", *map(str, arguments)]
            return subprocess.run(command, capture_output=True, text=True, timeout=60)

        self.assertEqual(len(run("results", batch, "--failed").stdout.splitlines()), 3)
        self.assertEqual(run("retry", batch, 3, 23).stdout, "2 jobs queued again\n")
        self.command.wait(batch)
        self.assertEqual(json.loads(run("--json", "retry", batch, 3).stdout), {"id": batch, "retried": 1})
        self.command.wait(batch)
        refused = run("retry", batch, 4)
        self.assertIn(f"job 4 of the batch '{batch}' has not failed", refused.stderr)
        self.assertNotEqual(refused.returncode, 0)


class Stored(StoreTest):
    def test_outputs_of_good_jobs_are_not_read(self):
        """512 outputs of 64 KiB, of which one in the middle is bad, and what the daemon reads from its files to find it."""
        handler = {"handlers": {"python": {"worker": [sys.executable, str(WORKER)], "concurrency": 1}}}
        self.begin(handler)
        payloads = ["error('bad')" if i == 300 else "answer(bytes(65536))" for i in range(512)]
        batch = self.command("SUBMIT", "python", "ID", "large", "JOBS", *payloads)
        self.assertEqual(self.command.wait(batch)["failed"], 1)
        self.settle()
        self.kill_and_begin(handler)

        def bytes_read():
            """By all threads but those in which the store tidies up."""
            tasks = pathlib.Path(f"/proc/{self.daemon.pid}/task").iterdir()
            files = [task / "io" for task in tasks if not (task / "comm").read_text().startswith("rocksdb:")]
            return sum(int(dict(line.split(": ") for line in file.read_text().splitlines())["rchar"]) for file in files)

        before = bytes_read()
        self.assertEqual(failed(self.command, batch), [[300, "error", "bad"]])
        for_failed = bytes_read() - before
        self.assertEqual(len(self.command.results(batch)), 512)
        for_all = bytes_read() - before - for_failed
        self.assertGreater(for_all, 400 * 65536)
        self.assertLess(for_failed, for_all / 8, (for_failed, for_all))

    def test_some_jobs_are_queued_again_across_restarts(self):
        self.begin()
        payloads = ["x" if i % 2 else 0 for i in range(20)]
        batch = self.command("SUBMIT", "sleep", "ID", "b", "JOBS", *payloads)
        self.assertEqual(self.command.wait(batch)["failed"], 10)
        self.settle()
        self.kill_and_begin()
        self.assert_error("ERR", self.command.ask("RETRY", batch, 1, 2))
        self.take_worker()
        self.assertEqual(self.command("RETRY", batch, 1, 5), 2)
        for _ in range(2):
            status = self.command.status(batch)
            self.assertEqual((status["failed"], status["queued"], status["state"]), (8, 2, "running"))
            self.assertEqual(sorted(row[0] for row in failed_so_far(self.command, batch)), [3, 7, 9, 11, 13, 15, 17, 19])
            self.kill_and_begin_held()
        self.kill_and_begin()
        for _ in range(2):
            self.assertEqual(self.command.wait(batch)["failed"], 10)
            self.assertEqual(sorted(row[0] for row in failed(self.command, batch)), list(range(1, 20, 2)))
            self.assertEqual(sorted(row[0] for row in self.command.results(batch)), list(range(20)))
            self.settle()
            self.kill_and_begin()
        # The payloads are there as long as a job can be queued again.
        self.assertEqual(self.command("RETRY", batch, 19), 1)
        self.assertEqual(self.command.wait(batch)["failed"], 10)
        self.assertIn([19, "error", "the payload must be a number from 0 to 3600000, not 'x'"], failed(self.command, batch))
        self.assertEqual(self.command("RETRY", batch), 10)
        self.command.wait(batch)
        self.settle()
        self.kill_and_begin()
        self.assertEqual(len(failed(self.command, batch)), 10)

    def test_while_the_batch_runs(self):
        self.begin()
        batch = self.command("OPEN", "sleep", "ID", "open")
        self.command("ADD", batch, "x", "y", 0)
        wait_for("three ends", lambda: self.command.status(batch)["queued"] + self.command.status(batch)["running"] == 0)
        self.settle()
        self.take_worker()
        self.assertEqual(self.command("RETRY", batch, 0), 1)
        self.kill_and_begin()
        self.assertEqual(self.command("CLOSE", batch), 3)
        status = self.command.wait(batch)
        self.assertEqual((status["ok"], status["failed"], status["retry_rounds"]), (1, 2, 1))
        self.assertEqual(sorted(row[0] for row in failed(self.command, batch)), [0, 1])

    def kill_and_begin_held(self):
        """The jobs of the batch that is tested wait: a paused batch stays so."""
        self.command("PAUSE", "b")
        self.kill_and_begin()
        self.take_worker()
        self.command("RESUME", "b")


def failed_so_far(connection, batch):
    return connection("RESULTS", batch, "COUNT", 1000, "FAILED")[1]


if __name__ == "__main__":
    unittest.main()
