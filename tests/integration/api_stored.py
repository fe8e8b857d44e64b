#!/usr/bin/python3
"""The JSON under /api/ with a store: changes outlive `kill -9`, and failures are read from the disk."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from api import get, pages, post
from locksley_daemon import wait_for
from resp import encode
from store_daemon import HOUR_MS, StoreTest


class Stored(StoreTest):
    def test_a_change_that_was_answered_outlives_kill_9(self):
        self.begin()
        ids = {action: self.command("SUBMIT", "sleep", "DELAY", HOUR_MS, "JOBS", "1") for action in ("pause", "weight", "cancel")}
        failed = self.command("SUBMIT", "fail", "JOBS", "a")
        self.command.wait(failed)
        for action, id_ in ids.items():
            self.assertEqual(post(self.daemon, id_, action, '{"weight": 5}' if action == "weight" else "{}")[0], 200)
        self.assertEqual(post(self.daemon, failed, "retry"), (200, {"ok": True, "jobs": 1}))
        self.kill_and_begin()
        self.assertTrue(get(self.daemon, f"/api/batches/{ids['pause']}")["paused"])
        self.assertEqual(get(self.daemon, f"/api/batches/{ids['weight']}")["weight"], 5)
        self.assertEqual(get(self.daemon, f"/api/batches/{ids['cancel']}")["state"], "cancelled")
        self.assertEqual(self.command.wait(failed)["retried"], 1)
        self.assertEqual(get(self.daemon, "/api/overview")["server"]["store_at"], str(self.store))

    def test_failures_are_read_from_the_disk(self):
        self.begin()
        self.command.wait(id_ := self.command("SUBMIT", "fail", "RANGE", 0, 250))
        self.kill_and_begin()
        self.command.wait(id_)  # its last steps need not have been on the disk
        found = pages(self.daemon, f"/api/batches/{id_}/failures", "failures", count=100)
        self.assertEqual([[row["index"], row["status"], row["output"]] for row in found], self.command.results(id_))
        self.assertEqual(len(found), 250)

    def test_a_retry_first_reads_which_of_very_many_jobs_failed(self):
        """More than the row of the end has."""
        failures = 3_000
        self.begin()
        for id_ in "ab":
            self.command("SUBMIT", "fib", "ID", id_, "JOBS", *(["1", "x"] * failures))
        for id_ in "ab":
            self.command.wait(id_)
        self.stop_and_begin()
        self.assertEqual(post(self.daemon, "a", "retry"), (200, {"ok": True, "jobs": failures}))
        self.assertEqual(self.command("RETRY", "b", "ROUND", 1), 0)
        self.assertEqual(self.command("RETRY", "b"), failures)
        self.kill_and_begin()
        for id_ in "ab":
            status = self.command.wait(id_)
            self.assertEqual((status["ok"], status["failed"], status["retried"]), (failures,) * 3)
        self.stop_and_begin()
        self.assertEqual(self.command("RETRY", "a"), failures)
        self.assertEqual(self.command.wait("a")["retried"], 2 * failures)

    def begin_with_many_failures(self):
        """A batch `a` whose failed jobs lie scattered: another thread queues them again after the command, and that takes a while."""
        failures = 100_000
        self.begin()
        self.command("SUBMIT", "fib", "ID", "a", "JOBS", *(["1", "x"] * failures))
        self.command.wait("a")
        return failures

    def test_a_retry_of_very_many_jobs_is_answered_once_it_is_stored(self):
        failures = self.begin_with_many_failures()
        self.assertEqual(post(self.daemon, "a", "retry"), (200, {"ok": True, "jobs": failures}))
        self.kill_and_begin()
        status = self.status("a")
        self.assertEqual((status["retry_rounds"], status["retried"]), (1, failures))

    def test_a_retry_is_answered_once_that_of_another_client_is_stored(self):
        """It reports that the round is over, so the round must not come again."""
        self.begin_with_many_failures()
        finished_at = self.status("a")["finished_at"]
        other = self.connect(self.daemon)
        other.send(encode("RETRY", "a"))
        wait_for("the jobs to be queued again, or to have failed again", lambda: self.status("a")["finished_at"] != finished_at)
        self.assertEqual(post(self.daemon, "a", "retry", '{"round": 0}'), (200, {"ok": True, "jobs": 0}))
        self.kill_and_begin()
        self.assertEqual(self.status("a")["retry_rounds"], 1)


if __name__ == "__main__":
    unittest.main()
