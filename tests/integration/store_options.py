#!/usr/bin/python3
"""What the store promises of a batch's options: each holds after kill -9; what a client sends again under the same id runs once."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from resp import encode, pairs
from store_daemon import HOUR_MS, StoreTest


class Options(StoreTest):
    def test_name_and_weight(self):
        self.begin_held()
        batches = [self.command("SUBMIT", "echo", "NAME", "of that name", "WEIGHT", 7, "JOBS", "a") for _ in range(3)]
        stream = self.command("OPEN", "echo", "NAME", "a stream", "WEIGHT", 3)
        self.command("WEIGHT", batches[1], 20)
        self.command("WEIGHT", batches[2], 30)
        self.command("WEIGHT", batches[2], 40)
        self.kill_and_begin()
        known = self.listed()
        self.assertEqual([(known[b]["name"], known[b]["weight"]) for b in batches], [("of that name", 7), ("of that name", 20), ("of that name", 40)])
        self.assertEqual((known[stream]["name"], known[stream]["weight"]), ("a stream", 3))

    def test_a_weight_that_was_changed_is_the_one_that_is_served(self):
        self.begin_held()
        batches = [self.command("SUBMIT", "spin", "KEEP", "none", "RANGE", 0, 1_000_000, 200) for _ in range(2)]
        self.command("WEIGHT", batches[1], 1000)
        self.kill_and_begin()
        wait_for("500 jobs of the heavier one", lambda: self.status(batches[1])["ok"] > 500)
        self.assertGreater(self.status(batches[1])["ok"], 10 * self.status(batches[0])["ok"])

    def test_pause_and_resume(self):
        self.begin_held()
        paused, resumed = (self.command("SUBMIT", "echo", "JOBS", "a") for _ in range(2))
        for batch in (paused, resumed):
            self.command("PAUSE", batch)
        self.command("RESUME", resumed)
        self.kill_and_begin()
        self.assert_whole(resumed, [["ok", "a"]])  # it was behind the other
        self.assertEqual((self.status(paused)["state"], self.command.map("EXPLAIN", paused)["reason"]), ("queued", "paused"))
        self.command("RESUME", paused)
        self.assert_whole(paused, [["ok", "a"]])

    def test_keep(self):
        self.begin_held()
        jobs = ("1", "x", "2", "y")
        batches = {keep: self.command("SUBMIT", "sleep", "KEEP", keep, "JOBS", *jobs) for keep in ("all", "failures", "none")}
        self.kill_and_begin()
        for _ in range(2):
            for keep, left in (("all", [0, 1, 2, 3]), ("failures", [1, 3]), ("none", [])):
                status = self.command.wait(batches[keep])
                self.assertEqual((status["ok"], status["failed"]), (2, 2))
                self.assertEqual(sorted(row[0] for row in self.command.results(batches[keep])), left, keep)
            self.settle()
            self.kill_and_begin()

    def test_failures_are_counted_on_across_a_restart(self):
        self.begin()
        stream = self.command("OPEN", "fail", "MAXFAILS", 4)
        self.command("ADD", stream, "a", "b", "c")
        wait_for("three failures", lambda: self.status(stream)["failed"] == 3)
        self.settle()
        self.kill_and_begin()
        self.assertEqual(self.status(stream)["state"], "open")
        self.command("ADD", stream, *range(10_000))
        status = self.command.wait(stream)
        self.assertEqual(status["state"], "cancelled")
        self.assertGreater(status["cancelled"], 0)
        self.assert_agree(status, self.command.results(stream))

    def test_max_fails_of_what_has_not_begun(self):
        self.begin_held()
        batch = self.command("SUBMIT", "fail", "MAXFAILS", 2, "RANGE", 0, 1_000_000)
        self.kill_and_begin()
        status = self.command.wait(batch)
        self.assertEqual(status["state"], "cancelled")
        self.assertLess(status["failed"], 100_000)
        self.assertEqual(status["failed"] + status["cancelled"], 1_000_000)

    def test_slots_and_timeout(self):
        self.begin_held()
        slots = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", *[20] * 10)
        timeout = self.command("SUBMIT", "sleep", "TIMEOUT", 30, "JOBS", HOUR_MS)
        self.kill_and_begin({"pool": {"workers": 2}})
        while (status := self.status(slots))["state"] != "done":
            self.assertLessEqual(status["running"], 1)
        self.assertEqual(status["ok"], 10)
        self.assertEqual(self.command.wait(timeout)["failed"], 1)
        self.assertEqual(self.command.results(timeout)[0][:2], [0, "timeout"])

    def test_retain_goes_on_from_when_it_was_over(self):
        self.begin()
        finished = {}
        for batch, options in (("short", ("RETAIN", 1)), ("soon", ("RETAIN", 3)), ("long", ("RETAIN", 100)), ("configured", ())):
            # Sent together: one that is waited for later may be forgotten already.
            self.command.send(encode("SUBMIT", "echo", "ID", batch, *options, "JOBS", "a") + encode("WAIT", batch))
            self.assertEqual(self.command.read(), batch)
            finished[batch] = pairs(self.command.read())["finished_at"]
        short, soon, long, configured = finished
        self.command("SUBMIT", "echo", "RETAIN", 0, "JOBS", "a")
        self.settle()
        self.kill()
        time.sleep(max(0, finished[short] / 1000 + 1.1 - time.time()))  # its time runs out while there is no daemon
        self.begin({"store": {"retention": "2s"}})
        wait_for("what was due to be gone", lambda: short not in self.listed())
        self.assertIn(configured, self.listed(), "retention is as it was when the batch was accepted")
        wait_for("the next to be gone", lambda: soon not in self.listed())
        self.assertGreaterEqual(time.time() * 1000 - finished[soon], 2990)
        self.kill_and_begin()
        # Killed before it was written that they are forgotten, they are forgotten once more.
        wait_for("the two that stay to be all", lambda: set(self.listed()) == {long, configured})

    def test_deadline_goes_on_from_the_submission(self):
        self.begin_held()
        submitted = time.time()
        passed = [self.command("SUBMIT", "echo", "DEADLINE", 100, "JOBS", "a", "b") for _ in range(30)]
        later = self.command("SUBMIT", "sleep", "DEADLINE", 1500, "SLOTS", 1, "JOBS", 2000, 1)
        far = self.command("SUBMIT", "echo", "DEADLINE", HOUR_MS, "JOBS", "a")
        self.kill()
        time.sleep(max(0, submitted + 0.2 - time.time()))
        self.begin({"pool": {"workers": 8}})  # that would like to run them at once
        for batch in passed:
            self.assert_ended_cancelled(batch, 2)
        status = self.command.wait(later)
        # The first job runs on if it had started by then.
        self.assertEqual((status["state"], status["ok"] + status["cancelled"]), ("cancelled", 2))
        self.assertGreaterEqual(status["finished_at"] - status["submitted_at"], 1490)
        self.assertNotEqual(self.status(far)["state"], "cancelled")

    def assert_ended_cancelled(self, batch, jobs):
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["cancelled"], status["ok"]), ("cancelled", jobs, 0), status)
        self.assertEqual(sorted(row[:2] for row in self.command.results(batch)), [[i, "cancelled"] for i in range(jobs)])


class SameId(StoreTest):
    def assert_same_and_no_other(self):
        """Of the batches that begin_some() made: as they were, and with other content."""
        submit = lambda *words: self.command.ask("SUBMIT", *words)
        self.assertEqual(submit("sleep", "ID", "jobs", "JOBS", "0", "1"), "jobs")
        self.assertEqual(submit("sleep", "WEIGHT", 5, "ID", "jobs", "JOBS", "0", "1"), "jobs")
        for other in (("sleep", "ID", "jobs", "JOBS", "0"), ("sleep", "ID", "jobs", "JOBS", "1", "0"), ("echo", "ID", "jobs", "JOBS", "0", "1"),
                      ("sleep", "ID", "jobs", "RANGE", 0, 2), ("sleep", "ID", "jobs", "JOBS", "01", "")):
            self.assert_error("EXISTS", submit(*other))
        self.assertEqual(submit("echo", "ID", "range", "RANGE", 0, 100, "x{}"), "range")
        for other in (("RANGE", 0, 101, "x{}"), ("RANGE", 0, 100), ("RANGE", 0, 100, "y{}"), ("RANGE", 1, 101, "x{}"), ("JOBS", "x")):
            self.assert_error("EXISTS", submit("echo", "ID", "range", *other))
        self.assert_known("jobs", "range")

    def begin_some(self):
        self.command("SUBMIT", "sleep", "ID", "jobs", "JOBS", "0", "1")
        self.command("SUBMIT", "echo", "ID", "range", "RANGE", 0, 100, "x{}")

    def test_while_it_is_unfinished(self):
        self.begin_held()
        self.begin_some()
        self.kill_and_begin()
        self.assert_same_and_no_other()
        self.assert_whole("jobs", [["ok", ""]] * 2)
        self.assert_whole("range", [["ok", f"x{i}"] for i in range(100)])
        ran = self.daemon.metrics()
        self.assertEqual((ran['locksley_jobs_total{handler="sleep",status="ok"}'], ran['locksley_jobs_total{handler="echo",status="ok"}']), (2, 100))

    def test_when_it_is_over(self):
        self.begin()
        self.begin_some()
        before = self.command.wait("jobs"), self.command.wait("range")
        self.settle()
        self.kill_and_begin()
        self.assert_same_and_no_other()
        self.assertEqual((self.status("jobs"), self.status("range")), before, "nothing started again")
        self.kill_and_begin()
        self.assert_same_and_no_other()

    def test_of_a_stream(self):
        self.begin()
        self.command("OPEN", "echo", "ID", "empty")
        self.command("OPEN", "echo", "ID", "begun")
        self.command("ADD", "begun", "a")
        self.command("SUBMIT", "echo", "ID", "whole", "JOBS", "a")
        self.kill_and_begin()
        self.assertEqual(self.command("OPEN", "echo", "ID", "empty"), "empty")
        self.assert_error("EXISTS", self.command.ask("OPEN", "sleep", "ID", "empty"))
        self.assert_error("EXISTS", self.command.ask("OPEN", "echo", "ID", "begun"))
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "echo", "ID", "begun", "JOBS", "a"))
        self.assert_error("EXISTS", self.command.ask("OPEN", "echo", "ID", "whole"))

    def stream(self, rounds=10):
        """What a program does that takes EXISTS for success, and knows nothing else of its earlier runs."""
        if (reply := self.command.ask("OPEN", "echo", "ID", "nightly", "RETAIN", 3600)) != "nightly":
            self.assert_error("EXISTS", reply)
        for at in range(0, 1000 * rounds, 1000):
            self.command("ADDAT", "nightly", at, *range(at, at + 1000))

    def test_a_program_that_streams_may_be_run_again_wherever_it_was_interrupted(self):
        self.begin()
        self.stream(rounds=3)
        self.stream(rounds=2)
        self.kill_and_begin()
        for restart in (None, None, self.kill_and_begin):  # while it is open; once it is over; when only the store has it
            if restart:
                self.settle()
                restart()
            self.stream()
            self.assertEqual(self.command("CLOSE", "nightly"), 10_000)
            self.assert_whole("nightly", [["ok", str(i)] for i in range(10_000)])
        self.assert_error("CLOSED", self.command.ask("ADDAT", "nightly", 10_000, "more"))
        self.assert_error("EXISTS", self.command.ask("OPEN", "sleep", "ID", "nightly"))
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "echo", "ID", "nightly", "JOBS", *range(10_000)))


if __name__ == "__main__":
    unittest.main()
