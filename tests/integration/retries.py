#!/usr/bin/python3
"""Jobs that fail: RETRIES and RETRY, in memory and in the store, across kill -9. (That a job may succeed at a later try is in the unit
tests: no built-in handler does so.)"""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import encode, pairs
from store_daemon import HOUR_MS, StoreTest

MANY = 1000  # retries whose backoff outlasts any test
LIMIT_MS = 20  # which a job of no time keeps, though its worker may have to wait for a processor


def counts(status):
    return {name: status[name] for name in ("jobs", "ok", "failed", "cancelled", "queued", "running")}


class Retries(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def test_a_job_fails_after_its_last_try(self):
        batch = self.command("SUBMIT", "fail", "RETRIES", 2, "JOBS", "a", "b", "c")
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["failed"], status["retried"]), ("done", 3, 6))
        rows = self.command.results(batch)
        self.assertEqual(sorted(row[:2] for row in rows), [[0, "error"], [1, "error"], [2, "error"]])
        self.assertEqual(self.command.wait(self.command("SUBMIT", "fail", "RETRIES", 0, "JOBS", "a"))["retried"], 0)

    def test_a_timeout_is_a_failure_and_a_good_job_is_not_tried_again(self):
        batch = self.command("SUBMIT", "sleep", "TIMEOUT", LIMIT_MS, "RETRIES", 1, "JOBS", HOUR_MS, 0, "no number")
        status = self.command.wait(batch)
        self.assertEqual((status["ok"], status["failed"], status["retried"]), (1, 2, 2))
        self.assertEqual(sorted(row[:2] for row in self.command.results(batch)), [[0, "timeout"], [1, "ok"], [2, "error"]])

    def test_what_waits_holds_no_slot_and_can_be_cancelled(self):
        batch = self.command("SUBMIT", "fail", "RETRIES", MANY, "SLOTS", 1, "RANGE", 0, 50)
        wait_for("each job to have failed three times", lambda: self.command.status(batch)["retried"] >= 150)
        status = self.command.status(batch)
        self.assertEqual(status["queued"] + status["running"], 50)
        self.assertEqual(self.command("RUN", "echo", "JOBS", "a"), [["ok", "a"]])
        wait_for("nothing to be about", lambda: self.command.explain(batch)["reason"] == "delayed")
        self.assertGreater(self.command("CANCEL", batch), 0)
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["failed"] + status["cancelled"]), ("cancelled", 50))
        self.assertEqual(self.command("RETRY", batch), 0)

    def test_the_deadline_ends_the_tries(self):
        batch = self.command("SUBMIT", "fail", "RETRIES", MANY, "DEADLINE", 300, "JOBS", "a")
        self.assertEqual((self.command.wait(batch)["state"], self.command.results(batch)), ("cancelled", [[0, "cancelled", "deadline passed"]]))

    def test_run_tries_again_too(self):
        reply = self.command("RUN", "fail", "RETRIES", 2, "JOBS", "a", "b")
        self.assertEqual([status for status, _ in reply], ["error", "error"])
        with self.daemon.connect() as runner:
            runner.send(encode("RUN", "fail", "RETRIES", MANY, "JOBS", "r"))
            wait_for("the RUN to begin", lambda: "blocked_clients:1" in self.command("INFO", "clients"))
            # While other jobs have the workers, no try can be under way when its client goes.
            others = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS, HOUR_MS)
            wait_for("the others to run", lambda: self.command.status(others)["running"] == 2)
        wait_for("the RUN to be gone with its client", lambda: self.daemon.metrics()['locksley_jobs_total{handler="fail",status="cancelled"}'] == 1)

    def test_the_memory_of_failed_jobs_is_kept_for_retry(self):
        streamed = self.command("OPEN", "sleep", "TIMEOUT", LIMIT_MS)
        self.command("ADD", streamed, HOUR_MS, "0")
        self.command("ADD", streamed, "x" * 100_000)
        self.command("CLOSE", streamed)
        whole = self.command("SUBMIT", "sleep", "TIMEOUT", LIMIT_MS, "JOBS", HOUR_MS, "0", "x" * 100_000)
        for batch in (streamed, whole):
            self.command.wait(batch)
            first = self.command.results(batch)
            self.assertEqual(self.command("RETRY", batch), 2)
            self.command.wait(batch)
            self.assertEqual(sorted(self.command.results(batch)), sorted(first))
        held = self.daemon.metrics()["locksley_queued_bytes"]
        self.assertGreater(held, 200_000)
        for batch in (streamed, whole):
            self.assertEqual(self.command("FORGET", batch), 1)
        self.assertEqual(self.daemon.metrics()["locksley_queued_bytes"], 0)


class Retry(StoreTest):
    def failed_batches(self):
        """One of each kind; five of each have failed."""
        jobs = [HOUR_MS, "0", "x", "0", "y", HOUR_MS, "z"]
        streamed = self.command("OPEN", "sleep", "TIMEOUT", LIMIT_MS)
        self.command("ADD", streamed, *jobs)
        self.command("CLOSE", streamed)
        batches = [streamed]
        for options in ([], ["KEEP", "failures"], ["KEEP", "none"], ["RETRIES", 1], ["EPHEMERAL"], ["DEADLINE", HOUR_MS]):
            batches.append(self.command("SUBMIT", "sleep", "TIMEOUT", LIMIT_MS, *options, "JOBS", *jobs))
        batches.append(self.command("SUBMIT", "fail", "RANGE", 0, 5))
        for batch in batches:
            self.assertEqual(self.command.wait(batch)["failed"], 5, batch)
        return batches

    def test_all_failed_jobs_are_queued_again(self):
        self.begin()
        self.assert_error("NOBATCH", self.command.ask("RETRY", "nobody"))
        self.assertEqual(self.command("RETRY", self.command("OPEN", "echo")), 0)
        for batch in self.failed_batches():
            before, rows = self.command.status(batch), self.command.results(batch)
            blocker = self.take_worker()
            self.assertEqual(self.command("RETRY", batch), 5)
            status = self.command.status(batch)
            self.assertEqual((status["state"], status["queued"], status["failed"], status["finished_at"]), ("running", 5, 0, 0))
            self.assertEqual(status["retried"], before["retried"] + 5)
            self.assertEqual(self.command("RETRY", batch), 0)
            self.assertEqual(self.command("FORGET", batch), 0)
            self.assertEqual([row for row in self.command.results_so_far(batch) if row[1] != "ok"], [])
            self.command("CANCEL", blocker)
            after = self.command.wait(batch)
            self.assertEqual(counts(after), counts(before))
            self.assertGreaterEqual(after["finished_at"], before["finished_at"])
            self.assertEqual(sorted(self.command.results(batch)), sorted(rows))
            self.assertEqual(sorted(self.command.results(batch, count=1)), sorted(rows))

    def test_whoever_has_read_failures_sees_the_new_rows_behind_them(self):
        self.begin()
        batch = self.command("SUBMIT", "sleep", "JOBS", "x", "0", "y", "0")
        self.command.wait(batch)
        cursor, rows = self.command("RESULTS", batch, "COUNT", 3)
        self.assertEqual(len(rows), 3)
        self.take_worker()
        self.command("RETRY", batch)
        self.assertEqual(self.command("RESULTS", batch, "FROM", cursor), ["5", [[3, "ok", ""]]])
        with self.daemon.connect() as reader, self.daemon.connect() as waiter:
            reader.send(encode("RESULTS", batch, "FROM", 5, "BLOCK", 0))
            waiter.send(encode("WAIT", batch))
            self.command("CANCEL", next(id_ for id_, status in self.listed().items() if status["handler"] == "sleep" and status["running"]))
            self.assertIn(reader.read()[1][0], ([0, "error", "not a number of milliseconds: 'x'"], rows[0]))
            self.assertEqual(pairs(waiter.read())["state"], "done")

    def test_after_a_restart_the_same(self):
        self.begin()
        batches = [batch for batch in self.failed_batches() if self.listed()[batch]["retried"] == 0]
        self.settle()
        before = {batch: (counts(self.command.status(batch)), sorted(self.command.results(batch))) for batch in batches}
        self.kill_and_begin()
        for lost in set(before) - set(self.listed()):
            del before[lost]
        self.assertEqual(len(before), 6)
        # Queued again, and killed before they run; and while they run; and when all is over.
        self.take_worker()
        for batch in before:
            self.assertEqual(self.command("RETRY", batch), 5)
        self.kill_and_begin()
        for batch, (expected, rows) in before.items():
            status = self.command.wait(batch)
            self.assertEqual((counts(status), status["state"], status["retried"]), (expected, "done", 5))
            self.assertEqual(sorted(self.command.results(batch)), rows)
        for batch in before:
            self.assertEqual(self.command("RETRY", batch), 5)
        self.kill_and_begin()
        for batch, (expected, rows) in before.items():
            self.assertEqual(counts(self.command.wait(batch)), expected)
            self.assertEqual(sorted(self.command.results(batch)), rows)
        self.settle()
        self.kill_and_begin()
        for batch, (expected, rows) in before.items():
            self.assertEqual(counts(self.command.status(batch)), expected)
            self.assertEqual(sorted(self.command.results(batch)), rows)
            self.assertEqual(self.command("FORGET", batch), 1)

    def test_a_round_is_executed_once_also_across_restarts(self):
        self.begin()
        batch = self.command("SUBMIT", "fail", "JOBS", "a", "b")
        self.command.wait(batch)
        self.take_worker()
        self.assertEqual(self.command("RETRY", batch, "ROUND", 1), 0)
        self.assertEqual(self.command("RETRY", batch, "ROUND", 0), 2)
        self.kill_and_begin()
        self.assertEqual(self.command("RETRY", batch, "ROUND", 0), 0)
        self.assertEqual(self.command.wait(batch)["retry_rounds"], 1)
        self.settle()
        self.kill_and_begin()
        self.assertEqual(self.command("RETRY", batch, "ROUND", 0), 0, "all of it is over again")
        self.assertEqual(self.command("RETRY", batch, "ROUND", 1), 2)
        self.assertEqual(self.command.wait(batch)["retry_rounds"], 2)
        self.assertEqual((self.command("RETRY", batch), self.command.wait(batch)["retry_rounds"]), (2, 3))

    def test_a_deadline_that_passed_before_does_not_end_it(self):
        self.begin()
        for deadline_ms in (200, 2000, 10_000):  # the jobs have to run before it
            batch = self.command("SUBMIT", "fail", "DEADLINE", deadline_ms, "JOBS", "a", "b")
            status = self.command.wait(batch)
            if status["state"] == "done":
                break
        self.assertEqual(status["failed"], 2)
        wait_for("the deadline to pass", lambda: time.time() * 1000 > status["submitted_at"] + deadline_ms + 10)
        self.take_worker()
        self.assertEqual(self.command("RETRY", batch), 2)
        self.kill_and_begin()
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["failed"]), ("done", 2))

    def test_what_has_left_the_memory_goes_on_too(self):
        """Of all that is over only some stay in memory whole."""
        self.begin()
        batch = self.command("SUBMIT", "fail", "ID", "old", "JOBS", "a", "b")
        self.command.wait(batch)
        for _ in range(12):
            self.command.send(b"".join(encode("SUBMIT", "echo", "JOBS", "x") for _ in range(500)))
            for _ in range(500):
                self.command.read()
        for _ in range(3):
            self.settle()
            self.assertEqual(self.command("RETRY", batch), 2)
            self.assertEqual(self.command.status(batch)["retried"] % 2, 0)
            self.assertEqual(self.command.wait(batch)["failed"], 2)
            self.assertEqual(sorted(self.command.results(batch)), [[0, "error", "a"], [1, "error", "b"]])
        self.settle()
        self.kill_and_begin()
        self.assertEqual((self.command("RETRY", batch), self.command.wait(batch)["retried"]), (2, 8))
        self.assertEqual(self.command("FORGET", batch), 1)

    def test_tries_are_counted_across_restarts(self):
        self.begin()
        batch = self.command("SUBMIT", "fail", "RETRIES", 3, "RANGE", 0, 20)
        wait_for("two tries of each", lambda: self.command.status(batch)["retried"] >= 40)
        retried = self.command.status(batch)["retried"]
        self.settle()
        self.kill_and_begin()
        self.assertGreaterEqual(self.command.status(batch)["retried"], retried)
        status = self.command.wait(batch)
        self.assertEqual((status["failed"], status["retried"]), (20, 60))

    def test_killed_at_any_moment_nothing_is_lost(self):
        self.begin()
        for round_ in range(8):
            batch = self.command("SUBMIT", "sleep", "TIMEOUT", LIMIT_MS, "RETRIES", 1, "JOBS", *[HOUR_MS, *["0", "x"] * 10] * 2)
            time.sleep(0.02 * round_)
            self.command("RETRY", batch)
            self.kill_and_begin()
            status = self.command.wait(batch)
            self.assertEqual((status["ok"], status["failed"]), (20, 22))
            rows = self.command.results(batch)
            self.assertEqual(sorted(row[0] for row in rows), list(range(42)))
            self.command("RETRY", batch)
            time.sleep(0.01 * round_)
            self.kill_and_begin()
            self.assertEqual(self.command.wait(batch)["failed"], 22)
            self.assertEqual(sorted(row[:2] for row in self.command.results(batch)), sorted(row[:2] for row in rows))

    def test_the_end_does_not_wait_for_later_tries(self):
        self.begin()
        batch = self.command("SUBMIT", "fail", "RETRIES", MANY, "JOBS", "a")
        wait_for("a long wait", lambda: self.command.status(batch)["retried"] >= 5)
        self.stop(code=0)
        self.begin()
        self.assertEqual(self.command.status(batch)["state"], "running")
        dropped = self.command("CANCEL", batch)  # none, if the try that was due is under way
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["failed"] + status["cancelled"]), ("cancelled", 1))
        self.assertLessEqual(dropped, status["cancelled"])

    def test_the_end_waits_for_the_tries_of_a_batch_that_is_not_stored(self):
        self.begin({"shutdown": {"drain_timeout": "300ms"}})
        self.command("SUBMIT", "fail", "ID", "lost", "EPHEMERAL", "RETRIES", MANY, "JOBS", "a")
        wait_for("its job to wait for its retry", lambda: self.command.explain("lost")["reason"] == "delayed")
        self.stop(code=75)
        self.assertIn("batch left unfinished batch=lost", self.daemon.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
