#!/usr/bin/python3
"""A batch's life as its owner sees it: options of SUBMIT, changes to what is already queued, results, lists, explanations."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import Error, encode, pairs

HOUR_MS = 3_600_000


class BatchTest(DaemonTest):
    def setUp(self):
        self.daemon = self.start({"limits": {"max_batch_jobs": 10**10, "max_queued_jobs": 10**11}})
        self.command = self.connect(self.daemon)

    def status(self, batch):
        return self.command.map("STATUS", batch)

    def wait_for_status(self, batch, **expected):
        def look():
            status = self.status(batch)
            return status if expected.items() <= status.items() else None

        return wait_for(f"{batch} to have {expected}", look)

    def is_known(self, batch):
        return not isinstance(self.command.ask("STATUS", batch), Error)

    def take_all_workers(self):
        """So that what is submitted behind it stays queued. The id."""
        blocker = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS, HOUR_MS)
        self.wait_for_status(blocker, running=2)
        return blocker


class Options(BatchTest):
    def test_an_id_makes_submit_safe_to_repeat(self):
        submit = lambda *words: self.command.ask("SUBMIT", *words)
        self.assertEqual(submit("sleep", "ID", "mine", "JOBS", "0", "1"), "mine")
        self.command.wait("mine")
        first = self.status("mine")
        for again in (("sleep", "ID", "mine", "JOBS", "0", "1"), ("sleep", "WEIGHT", 5, "ID", "mine", "JOBS", "0", "1")):
            self.assertEqual(submit(*again), "mine")
        self.assertEqual(self.status("mine"), first, "nothing started again")
        for other in (("sleep", "ID", "mine", "JOBS", "0"), ("sleep", "ID", "mine", "JOBS", "1", "0"), ("echo", "ID", "mine", "JOBS", "0", "1"),
                      ("sleep", "ID", "mine", "RANGE", 0, 2), ("sleep", "ID", "mine", "JOBS", "01", "")):
            self.assert_error("EXISTS", submit(*other))
        self.assertEqual(submit("echo", "ID", "r", "RANGE", 0, 10**9), "r")
        self.assertEqual(submit("echo", "ID", "r", "RANGE", 0, 10**9), "r")
        self.assert_error("EXISTS", submit("echo", "ID", "r", "RANGE", 0, 10**9 + 1))
        self.assert_error("EXISTS", submit("echo", "ID", "r", "RANGE", 0, 10**9, "x{}"))
        self.command("CANCEL", "r")

    def test_an_id_submitted_again_after_the_connection_broke_is_one_batch(self):
        for _ in range(20):
            with self.daemon.connect() as connection:
                connection.send(b"SUBMIT echo ID once JOBS a b\r\n")
        wait_for("the batch to be there", lambda: self.is_known("once"))
        self.assertEqual(self.command("SUBMIT", "echo", "ID", "once", "JOBS", "a", "b"), "once")
        self.assertEqual(self.command.wait("once")["ok"], 2)
        self.assertEqual(len(self.command.listed()), 1)

    def test_slots_bound_what_runs_at_once(self):
        batch = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", *[30] * 10)
        most = 0
        while (status := self.status(batch))["state"] != "done":
            most = max(most, status["running"])
        self.assertEqual(most, 1)
        self.assertGreaterEqual(status["finished_at"] - status["started_at"], 290)

    def test_a_deadline_cancels_what_has_not_started(self):
        blocker = self.take_all_workers()
        batch = self.command("SUBMIT", "echo", "DEADLINE", 100, "JOBS", "a", "b", "c")
        status = self.command.wait(batch)
        self.assertEqual((status["cancelled"], status["ok"]), (3, 0), status)
        self.assertEqual(status["state"], "cancelled")
        self.assertGreaterEqual(status["finished_at"] - status["submitted_at"], 99)
        self.assertEqual(sorted(row[:2] for row in self.command.results(batch)), [[i, "cancelled"] for i in range(3)])
        self.assertEqual(self.status(blocker)["running"], 2)
        in_time = self.command("SUBMIT", "echo", "DEADLINE", HOUR_MS, "JOBS", "a")
        self.command("CANCEL", blocker)
        self.assertEqual(self.command.wait(in_time)["state"], "done")

    def test_a_job_that_takes_too_long_ends_timeout(self):
        # A job that is quick enough is another batch's, whose limit no machine makes too short for it.
        for timeout, job, ended in ((50, HOUR_MS, "timeout"), (HOUR_MS, 1, "ok")):
            batch = self.command("SUBMIT", "sleep", "TIMEOUT", timeout, "JOBS", job)
            status = self.command.wait(batch)
            self.assertEqual((status["ok"], status["failed"]), (ended == "ok", ended == "timeout"), status)
            self.assertEqual([row[:2] for row in self.command.results(batch)], [[0, ended]])

    def test_too_many_failures_cancel_the_rest(self):
        batch = self.command("SUBMIT", "fail", "MAXFAILS", 3, "SLOTS", 1, "RANGE", 0, 1_000_000)
        status = self.command.wait(batch)
        self.assertEqual(status["state"], "cancelled")
        self.assertGreaterEqual(status["failed"], 3)
        self.assertLess(status["failed"], 10_000)
        self.assertEqual(status["failed"] + status["cancelled"], 1_000_000)
        below = self.command("SUBMIT", "fail", "MAXFAILS", 4, "JOBS", "a", "b", "c")
        self.assertEqual(self.command.wait(below)["state"], "done")

    def test_retain_says_how_long_a_finished_batch_stays(self):
        long = self.command("SUBMIT", "echo", "RETAIN", 100, "JOBS", "a")
        self.command.wait(long)
        # Together, because it may be gone a second later.
        self.command.send(encode("SUBMIT", "echo", "ID", "short", "RETAIN", 1, "JOBS", "a") + encode("WAIT", "short"))
        self.assertEqual(self.command.read(), "short")
        finished = pairs(self.command.read())["finished_at"]
        wait_for("the batch to be gone", lambda: not self.is_known("short"))
        self.assertGreaterEqual(time.time() * 1000 - finished, 990)
        self.assertEqual(self.status(long)["state"], "done")
        self.assertEqual(len(self.command.listed()), 1)

    def test_keep_says_which_results_stay(self):
        jobs = ("1", "not a number", "2")
        for keep, left in (("all", [0, 1, 2]), ("failures", [1]), ("none", [])):
            batch = self.command("SUBMIT", "sleep", "KEEP", keep, "JOBS", *jobs)
            self.assertEqual(self.command.wait(batch)["ok"], 2)
            self.assertEqual(sorted(row[0] for row in self.command.results(batch)), left, keep)


class Control(BatchTest):
    def test_pause_and_resume_act_on_what_is_queued(self):
        batch = self.command("SUBMIT", "sleep", "RANGE", 0, 10_000_000, "1")
        self.wait_for_status(batch, state="running")
        self.command("PAUSE", batch)
        self.wait_for_status(batch, running=0)
        ok = self.status(batch)["ok"]
        # Others have the pool meanwhile; a job of the paused batch would have had its turn.
        for _ in range(20):
            self.command("RUN", "sleep", "JOBS", 1, 1)
        self.assertEqual(self.status(batch)["ok"], ok)
        self.assertEqual(self.command.map("EXPLAIN", batch)["reason"], "paused")
        self.command("RESUME", batch)
        wait_for("jobs to run again", lambda: self.status(batch)["ok"] > ok)
        self.command("CANCEL", batch)

    def test_a_weight_acts_on_what_is_queued(self):
        # Shares of starts: of time, the lighter one would catch up with a job of the other before WEIGHT that the machine kept waiting.
        self.daemon = self.start({"scheduling": {"share": "jobs"}})
        self.command = self.connect(self.daemon)
        batches = [self.command("SUBMIT", "spin", "KEEP", "none", "RANGE", 0, 1_000_000, 200) for _ in range(2)]
        self.command("WEIGHT", batches[1], 1000)
        self.assertEqual(self.status(batches[1])["weight"], 1000)
        before = [self.status(batch)["ok"] for batch in batches]
        wait_for("500 jobs of the heavier one", lambda: self.status(batches[1])["ok"] > before[1] + 500)
        light, heavy = (self.status(batch)["ok"] - then for batch, then in zip(batches, before))
        self.assertGreater(heavy, 10 * max(light, 1), "1000 times the weight must show")
        for batch in batches:
            self.command("CANCEL", batch)

    def test_cancel_takes_what_waits_and_stops_what_runs(self):
        batch = self.command("SUBMIT", "sleep", "JOBS", *[HOUR_MS] * 10)
        self.wait_for_status(batch, running=2)
        self.assertIn(self.command("CANCEL", batch), (8, 10))
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["cancelled"], status["running"], status["queued"]), ("cancelled", 10, 0, 0))
        self.assertEqual(self.command("CANCEL", batch), 0)
        self.assertEqual(len(self.command.results(batch)), 10)
        self.assertEqual(self.command("FORGET", batch), 1)
        self.assert_error("NOBATCH", self.command.ask("STATUS", batch))

    def test_sub_jobs_hear_of_a_cancellation(self):
        batch = self.command("SUBMIT", "fib", "JOBS", 50)
        self.wait_for_status(batch, running=1)
        self.command("CANCEL", batch)
        self.assertEqual(self.command.wait(batch)["state"], "cancelled")


class Reading(BatchTest):
    def test_results_can_be_read_again_from_any_cursor(self):
        batch = self.command("SUBMIT", "echo", "RANGE", 0, 2500)
        self.command.wait(batch)
        rows = self.command.results(batch, count=100)
        self.assertEqual(sorted(rows), [[i, "ok", str(i)] for i in range(2500)])
        for count in (1000, 999, 2500, 100_000):
            self.assertEqual(self.command.results(batch, count), rows)
        cursor, first = self.command("RESULTS", batch)
        self.assertEqual(first, rows[:1000], "1,000 at a time unless COUNT says otherwise")
        self.assertEqual(self.command("RESULTS", batch, "FROM", cursor, "COUNT", 10)[1], rows[1000:1010])
        self.assertEqual(self.command("RESULTS", batch, "FROM", cursor, "COUNT", 10)[1], rows[1000:1010])

    def test_results_wait_with_block_and_only_then(self):
        batch = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", 1, HOUR_MS)
        cursor, rows = self.command("RESULTS", batch, "BLOCK", 0)
        self.assertEqual([row[0] for row in rows], [0], "a row comes as soon as there is one")
        self.assertNotEqual(cursor, "0")
        begin = time.monotonic()
        self.assertEqual(self.command("RESULTS", batch, "FROM", cursor), [cursor, []])
        self.assertEqual(self.command("RESULTS", batch, "FROM", cursor, "BLOCK", 200), [cursor, []])
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        with self.daemon.connect() as reader:
            reader.send(f"RESULTS {batch} FROM {cursor} BLOCK 0\r\n".encode())
            reader.assert_silent()
            self.command("CANCEL", batch)
            end, rows = reader.read()
            self.assertEqual((end, [row[:2] for row in rows]), ("0", [[1, "cancelled"]]))

    def test_a_slow_job_does_not_hold_back_the_results_of_others(self):
        batch = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS, *[0] * 50)
        wait_for("the 50 quick results", lambda: len(self.command("RESULTS", batch)[1]) == 50)
        self.command("CANCEL", batch)

    def test_wait_answers_at_its_timeout_with_what_is(self):
        batch = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS)
        begin = time.monotonic()
        self.assertIn(self.command.map("WAIT", batch, 200)["state"], ("queued", "running"))
        self.assertGreaterEqual(time.monotonic() - begin, 0.2)
        self.command("CANCEL", batch)

    def test_list_pages_newest_first_and_each_once(self):
        ids = [self.command("SUBMIT", "echo", "ID", f"b{i}", "NAME", f"name-{i % 3}", "JOBS", "a") for i in range(25)]
        for batch in ids:
            self.command.wait(batch)
        opened = self.command("OPEN", "echo", "ID", "still-open")
        seen, cursor = [], "0"
        while True:
            cursor, page = self.command("LIST", "CURSOR", cursor, "COUNT", 7)
            seen += [dict(zip(row[::2], row[1::2]))["id"] for row in page]
            if len(seen) == 14:  # what comes later is newer than all of the rest
                self.command("SUBMIT", "echo", "ID", "late", "JOBS", "a")
            if cursor == "0":
                break
        self.assertEqual(seen, [opened, *reversed(ids)])
        listed = lambda *words: {row["id"] for row in self.command.listed(*words)}
        self.assertEqual(listed("STATE", "open"), {opened})
        self.assertEqual(listed("MATCH", "name-1"), {f"b{i}" for i in range(25) if i % 3 == 1})
        self.assertEqual(listed("MATCH", "b2?"), {f"b{i}" for i in range(20, 25)})

    def test_explain_says_why(self):
        explain = lambda batch: self.command.map("EXPLAIN", batch)
        stream = self.command("OPEN", "echo")
        self.assertEqual(explain(stream)["reason"], "open-and-empty")
        blocker = self.take_all_workers()
        self.assertEqual(explain(blocker)["reason"], "running")
        waiting = self.command("SUBMIT", "echo", "JOBS", "a")
        behind = self.command("SUBMIT", "echo", "JOBS", "a")
        for batch in (waiting, behind):
            self.assertEqual((explain(batch)["reason"], explain(batch)["state"]), ("waiting-its-turn", "queued"))
        self.assertGreaterEqual(explain(behind)["ahead"], 1)
        self.command("PAUSE", waiting)
        self.assertEqual(explain(waiting)["reason"], "paused")
        self.command("RESUME", waiting)
        self.command("CANCEL", blocker)
        self.command.wait(waiting)
        self.assertEqual((explain(waiting)["reason"], explain(waiting)["eta_ms"]), ("ended", 0))

    def test_explain_knows_shares_and_the_end(self):
        batches = [self.command("SUBMIT", "spin", "WEIGHT", weight, "RANGE", 0, 100_000, 500) for weight in (1, 3)]
        wait_for("rates to be known", lambda: all(float(self.command.map("EXPLAIN", batch)["jobs_per_second"]) > 0 for batch in batches))
        light, heavy = (self.command.map("EXPLAIN", batch) for batch in batches)
        self.assertAlmostEqual(float(light["share"]), 0.25, 2)
        self.assertAlmostEqual(float(heavy["share"]), 0.75, 2)
        self.assertGreater(heavy["eta_ms"], 1000)
        for batch in batches:
            self.command("CANCEL", batch)


if __name__ == "__main__":
    unittest.main()
