#!/usr/bin/python3
"""The JSON under /api/ with a store: changes outlive `kill -9`, and failures are read from the disk."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from api import get, pages, post
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


if __name__ == "__main__":
    unittest.main()
