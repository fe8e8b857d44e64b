#!/usr/bin/python3
"""What is kept about failed jobs takes memory, and stops no batch: it has a limit of its own, where less is kept and no more jobs are accepted."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, merged, wait_for
from programs import shell
from scratch import scratch
from store_daemon import StoreTest

PYTHON_WORKER = pathlib.Path(__file__).resolve().parents[1] / "support" / "python_worker.py"
KIB = 1 << 10
LIMIT = 128 * KIB
JOBS = 20_000
LONG_S = 4 * DEADLINE_S  # for so many jobs of a Python program
EVERY_SECOND_FAILS = "(answer if {} % 2 else error)('x')"
STANDS = "results in memory are at their limit, and nothing can be freed"


def account(command, name):
    line = next(line for line in command("INFO", "account").splitlines() if line.startswith(f"account_{name}:"))
    return tuple(int(part.split("=")[1]) for part in line.split(":")[1].split(","))


class Failures(StoreTest):
    settings = {
        "pool": {"workers": 1},
        "limits": {"max_result_bytes": LIMIT},
        "handlers": {
            "w": {"worker": ["python3", str(PYTHON_WORKER)], "concurrency": 2},
            "shell": shell(),
            "noisy": {"command": ["sh", "-c", "cat >&2; exit 1"], "concurrency": 4},
        },
    }

    def every_second_fails(self, *options):
        self.command("SUBMIT", "w", "ID", "b", *options, "RANGE", 0, JOBS, EVERY_SECOND_FAILS)
        return self.command.wait("b", LONG_S)

    def fill_with_failures(self):
        """The stream b, which is left open, takes more than the limit."""
        self.command("OPEN", "w", "ID", "b", "RETRIES", 0)
        part = [EVERY_SECOND_FAILS.format(number) for number in range(1_000)]
        for _ in range(JOBS // len(part)):
            self.command("ADD", "b", *part)
        wait_for("the jobs to have ended", lambda: self.status("b")["failed"] == JOBS // 2, LONG_S)
        used, limit = account(self.command, "failure_bytes")
        self.assertEqual(limit, LIMIT // 2)
        self.assertGreaterEqual(used, limit)

    def await_results_on_the_disk(self):
        wait_for("the results to be in the store alone", lambda: account(self.command, "result_bytes")[0] < LIMIT)

    def test_very_many_scattered_failures_do_not_stop_their_batch(self):
        self.begin()
        status = self.every_second_fails("RETRIES", 0, "KEEP", "none")
        self.assertEqual((status["ok"], status["failed"]), (JOBS // 2, JOBS // 2))

    def test_while_they_are_kept_no_more_is_accepted(self):
        """The batch is open, so they stay in memory; when it is over, it goes to the store, and they with it."""
        self.begin()
        self.fill_with_failures()
        self.await_results_on_the_disk()
        self.assert_error("QUEUEFULL", self.command.ask("SUBMIT", "echo", "JOBS", "x"))
        self.assertIn("queue full: no room for more data about failed jobs", self.daemon.log())
        self.assertEqual(self.command("ADD", "b", "answer(1)"), JOBS + 1, "the batch itself goes on")
        self.command("CLOSE", "b")
        self.assertEqual(self.command.wait("b")["ok"], JOBS // 2 + 1)
        wait_for("the room to be free", lambda: self.command.ask("RUN", "echo", "JOBS", "x") == [["ok", "x"]])
        self.assertEqual(self.command("RETRY", "b"), JOBS // 2, "nothing is lost")

    def test_at_the_limit_jobs_fail_for_good(self):
        self.begin()
        status = self.every_second_fails("RETRIES", 1)
        self.assertEqual((status["ok"], status["failed"]), (JOBS // 2, JOBS // 2))
        self.assertGreater(status["retried"], 0)
        self.assertLess(status["retried"], JOBS // 2)
        self.assertIn("the data about failed jobs is at its limit: batches with many failed jobs do not retry them", self.daemon.log())

    def test_at_the_limit_another_batch_with_few_failures_retries_them(self):
        self.begin()
        failed = pathlib.Path(scratch(self), "failed")
        self.command("OPEN", "shell", "ID", "few", "RETRIES", 1)
        self.command("PAUSE", "few")
        self.command("ADD", "few", f"test -e {failed} || {{ touch {failed}; exit 1; }}")
        self.command("CLOSE", "few")
        self.fill_with_failures()
        self.command("RESUME", "few")
        status = self.command.wait("few")
        self.assertEqual((status["ok"], status["retried"]), (1, 1))

    def test_notes_of_failed_jobs_do_not_stop_other_batches(self):
        self.begin()
        for number in range(2):
            self.command("SUBMIT", "noisy", "ID", f"n{number}", "RETRIES", 0, "RANGE", 0, 60, "e" * 4_000)
        for number in range(2):
            self.assertEqual(self.command.wait(f"n{number}")["failed"], 60)
        self.assertLess(account(self.command, "failure_bytes")[0], LIMIT // 2)
        self.await_results_on_the_disk()
        self.assertEqual(self.command("RUN", "echo", "JOBS", "x"), [["ok", "x"]])

    def test_memory_of_a_batch_that_is_over_is_free_soon(self):
        """Without another command, although the batch ends before the store has written its end."""
        self.begin()
        self.every_second_fails("RETRIES", 0, "KEEP", "none")
        wait_for("the memory to be free", lambda: account(self.command, "failure_bytes")[0] == 0)

    def test_a_retry_that_is_refused_leaves_nothing(self):
        """It reads the list of 10,000 failed jobs that lie alone: more than the limit."""
        self.begin()
        self.every_second_fails("RETRIES", 0, "KEEP", "none")
        wait_for("the memory to be free", lambda: account(self.command, "failure_bytes")[0] == 0)
        self.assert_error("ERR", self.command.ask("RETRY", "b", 1))
        self.assertEqual(account(self.command, "failure_bytes")[0], 0)
        self.assertEqual(self.command("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.assertEqual(self.command("RETRY", "b", 0, 2), 2)
        self.assertEqual(self.command.wait("b")["failed"], JOBS // 2)
        wait_for("the memory to be free", lambda: account(self.command, "failure_bytes")[0] == 0)
        self.assertEqual(self.command("RETRY", "b"), JOBS // 2, "the list is still there")

    def test_looks_at_old_batches_take_nothing_of_the_limit(self):
        """Each batch has as many notes as are kept."""
        batches = [f"b{number}" for number in range(4)]
        for batch in batches:
            self.begin()
            self.command("SUBMIT", "noisy", "ID", batch, "RETRIES", 0, "RANGE", 0, 20, "e" * 4_000)
            self.assertEqual(self.command.wait(batch)["failed"], 20)
            self.assertGreater(account(self.command, "failure_bytes")[0], LIMIT // 6)
            self.stop()
        self.begin()
        for batch in batches:
            self.assertEqual(self.status(batch)["failed"], 20)
        self.assertEqual(account(self.command, "failure_bytes")[0], 0)
        self.assertEqual(self.command("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.assertIn("eee", self.command.map("JOB", batches[0], 0)["note"])
        self.assertEqual(self.command("RETRY", batches[0]), 20)
        self.assertGreater(account(self.command, "failure_bytes")[0], LIMIT // 6, "it runs")


class InMemoryAlone(DaemonTest):
    def test_what_is_kept_about_failed_jobs_goes_some_time_after_the_last_page_of_their_batch(self):
        daemon = self.start(merged(Failures.settings, {"store": {"path": ""}}))
        command = self.connect(daemon)
        command("SUBMIT", "w", "ID", "b", "RETRIES", 0, "RANGE", 0, JOBS, EVERY_SECOND_FAILS)
        cursor, rows = 0, 0
        while cursor != "0":
            cursor, page = command("RESULTS", "b", "FROM", cursor, "COUNT", 100, "BLOCK", 0, "DISCARD")
            rows += len(page)
        self.assertEqual(rows, JOBS)
        self.assertEqual(command.map("STATUS", "b")["failed"], JOBS // 2, "a reader that has lost the page may ask again")
        wait_for("the room to be free", lambda: command.ask("RUN", "echo", "JOBS", "x") == [["ok", "x"]], LONG_S)

    def test_a_batch_makes_room_some_time_after_its_last_page(self):
        daemon = self.start({"store": {"path": ""}, "limits": {"max_result_bytes": 420_000}})
        command = self.connect(daemon)
        command("SUBMIT", "echo", "ID", "read", "RANGE", 0, 240, "x" * 1_000)
        command.wait("read")
        cursor = command("RESULTS", "read", "FROM", 11, "COUNT", 10, "DISCARD")[0]
        command("SUBMIT", "echo", "ID", "waits", "RANGE", 0, JOBS, "x" * 1_000)
        wait_for("the limit", lambda: command.map("EXPLAIN", "waits")["reason"] == "results-at-limit")
        self.assertEqual(command("RESULTS", "read", "FROM", cursor, "COUNT", 240, "DISCARD")[0], "0")
        self.assertEqual(command.map("STATUS", "read")["ok"], 240)
        wait_for("it to leave", lambda: "NOBATCH" in str(command.ask("STATUS", "read")))

    def test_a_batch_whose_reader_discards_stays(self):
        daemon = self.start(merged(Failures.settings, {"store": {"path": ""}}))
        command = self.connect(daemon)
        command("SUBMIT", "w", "ID", "read", "RETRIES", 0, "RANGE", 0, 200, EVERY_SECOND_FAILS)
        self.assertEqual(command.wait("read")["failed"], 100)
        cursor = command("RESULTS", "read", "COUNT", 10)[0]
        cursor = command("RESULTS", "read", "FROM", cursor, "DISCARD", "COUNT", 10)[0]
        command("SUBMIT", "w", "ID", "b", "RETRIES", 0, "KEEP", "none", "RANGE", 0, JOBS, EVERY_SECOND_FAILS)
        wait_for("the other batch to be evicted", lambda: "NOBATCH" in str(command.ask("STATUS", "b")), LONG_S)
        self.assertEqual(len(command("RESULTS", "read", "FROM", cursor, "DISCARD", "COUNT", 10)[1]), 10)


class Standing(DaemonTest):
    def test_a_user_that_stands_at_the_limit_of_results_is_logged(self):
        """Without a store; only the client can make room."""
        daemon = self.start({"store": {"path": ""}, "limits": {"max_result_bytes": LIMIT}})
        command = self.connect(daemon)
        command("SUBMIT", "echo", "ID", "flood", "RANGE", 0, 1_000, "x" * 10_000)
        wait_for("the line", lambda: STANDS in daemon.log())
        self.assertIn("tenant=default", daemon.log())
        command("CANCEL", "flood")
        self.assertEqual(daemon.log().count(STANDS), 1)


if __name__ == "__main__":
    unittest.main()
