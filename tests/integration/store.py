#!/usr/bin/python3
"""What the store promises: what was acknowledged is there after kill -9, reads the same, and goes on; what was cancelled or forgotten stays
so; what a client sends again runs once. What the disk does to it is in store_faults.py."""

# Length: each option and command that has to outlive the process, with the same few steps for each.

import pathlib
import random
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from resp import Error, encode, pairs
from store_daemon import HOUR_MS, StoreTest

TEMPORARY, TERMINATED = 75, 143


class AfterKill(StoreTest):
    def test_what_was_just_accepted_is_there_and_comes_to_its_end(self):
        for is_held in (True, False):
            with self.subTest("before a job ran" if is_held else "while jobs run"):
                self.begin_held() if is_held else self.begin()
                payloads = [f"job {i}\r\n\0\xff" for i in range(500)]
                jobs = self.command("SUBMIT", "echo", "JOBS", *payloads)
                range_ = self.command("SUBMIT", "echo", "RANGE", -3, 2000, "<{}>")
                empty = self.command("SUBMIT", "echo", "RANGE", 5, 5)
                stream = self.command("OPEN", "echo")
                for count, added in ((1, ["a"]), (3, ["b", ""]), (1003, ["c"] * 1000)):
                    self.assertEqual(self.command("ADD", stream, *added), count)
                self.kill_and_begin()
                there = {id_: status["jobs"] for id_, status in self.listed().items()}
                self.assertLessEqual({jobs: 500, range_: 2003, empty: 0, stream: 1003}.items(), there.items())
                self.assertEqual(self.status(stream)["state"], "open")
                self.assertEqual(self.command("ADD", stream, "d", "e"), 1005)
                self.assertEqual(self.command("ADD", stream, "f"), 1006)
                self.assertEqual(self.command("CLOSE", stream), 1006)
                self.assert_error("CLOSED", self.command.ask("ADD", stream, "g"))
                in_latin_1 = [payload.encode().decode("latin-1") for payload in payloads]
                self.assert_whole(jobs, [["ok", payload] for payload in in_latin_1])
                self.assert_whole(range_, [["ok", f"<{i}>"] for i in range(-3, 2000)])
                self.assertEqual(self.command.wait(empty)["state"], "done")
                self.assert_whole(stream, [["ok", p] for p in ["a", "b", "", *["c"] * 1000, "d", "e", "f"]])
                self.kill()

    def test_each_add_of_a_stream_is_there_across_many_kills(self):
        self.begin()
        stream, added = self.command("OPEN", "echo", "ID", "stream"), 0
        for round_ in range(4):
            for size in (1, 5, 300):
                added += size
                self.assertEqual(self.command("ADD", stream, *[f"{added - size + i}" for i in range(size)]), added)
            self.kill_and_begin()
            self.assertEqual((self.status(stream)["state"], self.status(stream)["jobs"]), ("open", added), round_)
        self.assertEqual(self.command("CLOSE", stream), added)
        self.kill_and_begin()
        self.assertNotEqual(self.status(stream)["state"], "open")
        self.assert_whole(stream, [["ok", str(i)] for i in range(added)])

    def test_a_stream_that_is_closed_when_all_its_jobs_have_ended_keeps_its_results(self):
        self.begin()
        stream = self.command("OPEN", "echo")
        self.command("ADD", stream, "a", "b", "c")
        wait_for("the jobs to end", lambda: self.status(stream)["ok"] == 3)
        self.command("CLOSE", stream)
        rows = self.command.results(stream)
        self.settle()
        self.kill_and_begin()
        self.assertEqual(self.command.results(stream), rows)
        self.assert_whole(stream, [["ok", "a"], ["ok", "b"], ["ok", "c"]])

    def test_large_payloads_and_results(self):
        """Of a group that is written in several parts, too."""
        self.begin_held()
        payloads = [random.Random(i).randbytes(1 << 20) for i in range(10)] + [b""] * 10_000
        batch = self.command("SUBMIT", "echo", "JOBS", *payloads)
        self.kill_and_begin()
        self.assert_whole(batch, [["ok", payload.decode("latin-1")] for payload in payloads])
        self.settle()
        self.kill_and_begin()
        self.assert_whole(batch, [["ok", payload.decode("latin-1")] for payload in payloads])

    def test_what_is_over_reads_the_same(self):
        self.begin()
        batches = [
            self.command("SUBMIT", "echo", "NAME", "a name", "RANGE", 0, 5000),
            self.command("SUBMIT", "fail", "JOBS", *range(50)),
            self.command("SUBMIT", "sleep", "JOBS", 1, "x", 1, "y"),
            self.command("SUBMIT", "sleep", "TIMEOUT", 1, "JOBS", 100, 0),
            self.command("SUBMIT", "fail", "MAXFAILS", 5, "RANGE", 0, 5000),
            self.command("SUBMIT", "sleep", "KEEP", "failures", "SLOTS", 1, "JOBS", "x", *[1] * 10, "y", *[1] * 10),
            self.command("SUBMIT", "sleep", "KEEP", "none", "JOBS", 1, "x", 1),
        ]
        stream = self.command("OPEN", "echo")
        self.command("ADD", stream, "a")
        self.command("ADD", stream, "b", "c")
        self.command("CLOSE", stream)
        batches.append(stream)
        before = {batch: (self.command.wait(batch), self.command.results(batch)) for batch in batches}
        self.settle()
        for restart in (self.kill_and_begin, self.stop_and_begin, self.kill_and_begin):
            restart()
            for batch in batches:
                self.assertEqual((self.status(batch), self.command.results(batch)), before[batch])
                self.assertEqual(self.command.results(batch, count=7), before[batch][1])

    def test_what_had_ended_does_not_run_again(self):
        self.begin()
        batch = self.command("SUBMIT", "sleep", "RANGE", 0, 300, 2)
        wait_for("half of the jobs to end", lambda: self.status(batch)["ok"] >= 150)
        ended = self.status(batch)["ok"]
        self.settle()
        self.kill_and_begin()
        self.assertGreaterEqual(self.status(batch)["ok"], ended)
        self.assert_whole(batch, [["ok", ""]] * 300)
        ran = self.daemon.metrics()['locksley_jobs_total{handler="sleep",status="ok"}']
        self.assertLessEqual(ran, 300 - ended)

    def test_without_syncing_what_was_accepted_is_there_too(self):
        for durability in ("async", "none"):
            with self.subTest(durability):
                self.settings = {"pool": {"workers": 1}, "store": {"durability": durability}}
                self.begin_held()
                ids = [self.command("SUBMIT", "echo", "JOBS", "a", "b") for _ in range(20)]
                stream = self.command("OPEN", "echo")
                self.command("ADD", stream, "c")
                self.kill_and_begin()
                for batch in ids:
                    self.assert_whole(batch, [["ok", "a"], ["ok", "b"]])
                self.assertEqual(self.status(stream)["jobs"], 1)
                self.kill()

    def test_what_is_ephemeral_leaves_nothing(self):
        self.begin()
        stored = self.command("SUBMIT", "echo", "JOBS", "a")
        self.command.wait(self.command("SUBMIT", "echo", "EPHEMERAL", "JOBS", "a"))
        self.command.wait(self.command("SUBMIT", "echo", "EPHEMERAL", "ID", "mine", "RANGE", 0, 10))
        self.assertEqual(self.command("RUN", "echo", "JOBS", "a"), [["ok", "a"]])
        self.command("ADD", self.command("OPEN", "echo", "EPHEMERAL"), "a")
        self.command("SUBMIT", "sleep", "EPHEMERAL", "JOBS", HOUR_MS)
        with self.daemon.connect() as runner:
            runner.send(encode("RUN", "sleep", "JOBS", HOUR_MS))
            after = self.command("SUBMIT", "echo", "JOBS", "b")
            self.kill_and_begin()
        self.assert_known(stored, after)
        self.assertEqual(self.command("SUBMIT", "echo", "ID", "mine", "JOBS", "x"), "mine", "its id is free")
        self.assert_whole("mine", [["ok", "x"]])
        self.assert_whole(after, [["ok", "b"]])

    def test_the_list_keeps_its_order_and_new_ones_come_first(self):
        self.begin()
        ids = [self.command("SUBMIT", "echo", "ID", f"b{i}", "JOBS", "a") for i in range(20)]
        self.command("FORGET", self.command.wait("b19")["id"])
        self.kill_and_begin()
        ids[19:] = [self.command("SUBMIT", "echo", "ID", "late", "JOBS", "a")]
        self.kill_and_begin()
        self.assertEqual(list(self.listed()), list(reversed(ids)))


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
        most = 0
        while (status := self.status(slots))["state"] != "done":
            most = max(most, status["running"])
        self.assertEqual(most, 1)
        self.assertEqual(self.command.wait(timeout)["failed"], 1)
        self.assertEqual(self.command.results(timeout)[0][:2], [0, "timeout"])

    def test_retain_goes_on_from_when_it_was_over(self):
        self.begin()
        short, soon, long, none = (self.command("SUBMIT", "echo", "RETAIN", seconds, "JOBS", "a") for seconds in (1, 3, 100, 0))
        configured = self.command("SUBMIT", "echo", "JOBS", "a")
        finished = {batch: self.command.wait(batch)["finished_at"] for batch in (short, soon, long, configured)}
        self.settle()
        self.kill()
        time.sleep(max(0, finished[short] / 1000 + 1.1 - time.time()))  # its time runs out while there is no daemon
        self.begin({"store": {"retention": "2s"}})
        wait_for("what was due to be gone", lambda: short not in self.listed(), 5)
        self.assertIn(configured, self.listed(), "retention is as it was when the batch was accepted")
        wait_for("the next to be gone", lambda: soon not in self.listed(), 10)
        self.assertGreaterEqual(time.time() * 1000 - finished[soon], 2990)
        self.kill_and_begin()
        # Killed before it was written that they are forgotten, they are forgotten once more.
        wait_for("the two that stay to be all", lambda: set(self.listed()) == {long, configured}, 5)

    def test_deadline_goes_on_from_the_submission(self):
        self.begin_held()
        submitted = time.time()
        passed = [self.command("SUBMIT", "echo", "DEADLINE", 100, "JOBS", "a", "b") for _ in range(30)]
        later = self.command("SUBMIT", "sleep", "DEADLINE", 1500, "SLOTS", 1, "JOBS", HOUR_MS, 1)
        far = self.command("SUBMIT", "echo", "DEADLINE", HOUR_MS, "JOBS", "a")
        self.kill()
        time.sleep(max(0, submitted + 0.2 - time.time()))
        self.begin({"pool": {"workers": 8}})  # that would like to run them at once
        for batch in passed:
            self.assert_ended_cancelled(batch, 2)
        status = self.command.wait(later)
        self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 2))
        self.assertGreaterEqual(status["finished_at"] - status["submitted_at"], 1490)
        self.assertLess(status["finished_at"] - status["submitted_at"], 10_000)
        self.assertNotEqual(self.status(far)["state"], "cancelled")

    def assert_ended_cancelled(self, batch, jobs):
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["cancelled"], status["ok"]), ("cancelled", jobs, 0), status)
        self.assertEqual(sorted(row[:2] for row in self.command.results(batch)), [[i, "cancelled"] for i in range(jobs)])


class CancelAndForget(StoreTest):
    def test_a_batch_that_was_cancelled_half_way_reads_the_same(self):
        self.begin()
        batch = self.command("SUBMIT", "sleep", "RANGE", 0, 1000, 2)
        wait_for("some jobs to end", lambda: self.status(batch)["ok"] >= 20)
        self.command("CANCEL", batch)
        before = self.command.wait(batch), self.command.results(batch)
        self.assert_agree(*before)
        self.assertGreater(before[0]["cancelled"], 0)
        self.settle()
        for restart in (self.kill_and_begin, self.stop_and_begin):
            restart()
            self.assertEqual((self.status(batch), self.command.results(batch)), before)

    def test_cancel_holds_from_its_reply_on(self):
        for what in ("queued", "running", "open", "paused"):
            with self.subTest(what):
                self.begin() if what == "running" else self.begin_held()
                batch = self.command("OPEN", "sleep") if what == "open" else self.command("SUBMIT", "sleep", "JOBS", *[HOUR_MS] * 3)
                if what == "open":
                    self.command("ADD", batch, *[HOUR_MS] * 3)
                if what == "paused":
                    self.command("PAUSE", batch)
                if what == "running":
                    wait_for("the first job to run", lambda: self.status(batch)["running"])
                self.command("CANCEL", batch)
                self.kill_and_begin()
                status = self.command.wait(batch, 5)
                self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 3))
                self.assert_agree(status, self.command.results(batch))
                self.kill()

    def test_forget_holds_from_its_reply_on(self):
        self.begin()
        small = self.command("SUBMIT", "echo", "ID", "small", "JOBS", "a")
        large = self.command("SUBMIT", "echo", "ID", "large", "RANGE", 0, 100_000)
        failed = self.command("SUBMIT", "fail", "ID", "failed", "JOBS", *["x" * 10_000] * 100)
        stays = self.command("SUBMIT", "echo", "JOBS", "a")
        for batch in (small, large, failed, stays):
            self.command.wait(batch)
        for batch in (small, large, failed):
            self.assertEqual(self.command("FORGET", batch), 1)
        self.kill_and_begin()
        self.assert_known(stays)
        for batch in (small, large, failed):
            self.assert_error("NOBATCH", self.command.ask("RESULTS", batch))
            self.assertEqual(self.command("SUBMIT", "echo", "ID", batch, "JOBS", "anew"), batch)
        self.kill_and_begin()
        self.assert_known(stays, small, large, failed)
        for batch in (small, large, failed):
            self.assert_whole(batch, [["ok", "anew"]])


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
        self.kill_and_begin()
        self.assertEqual(self.command("OPEN", "echo", "ID", "empty"), "empty")
        self.assert_error("EXISTS", self.command.ask("OPEN", "sleep", "ID", "empty"))
        self.assert_error("EXISTS", self.command.ask("OPEN", "echo", "ID", "begun"))
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "echo", "ID", "begun", "JOBS", "a"))


class CleanEnd(StoreTest):
    def test_cursors_mean_the_same_rows(self):
        self.begin({"pool": {"workers": 2}})
        over = self.command("SUBMIT", "echo", "RANGE", 0, 2500)
        stream = self.command("OPEN", "echo")
        for i in range(20):
            self.command("ADD", stream, *[f"{i}.{j}" for j in range(50)])
        self.command.wait(over)
        wait_for("the stream's jobs to end", lambda: self.status(stream)["ok"] == 1000)
        pages = {}
        for batch in (over, stream):
            cursor = "0"
            while not pages.get((batch, cursor)):
                came_to, rows = self.command("RESULTS", batch, "FROM", cursor, "COUNT", 300)
                if rows:
                    pages[batch, cursor] = [came_to, rows]
                cursor = came_to
                if cursor == "0" or not rows:
                    break
        self.assertGreater(len(pages), 10)
        for restart in (self.stop_and_begin, self.kill_and_begin):
            restart()
            for (batch, cursor), page in pages.items():
                self.assertEqual(self.command("RESULTS", batch, "FROM", cursor, "COUNT", 300), page)
        last = max(int(came_to) for (batch, _), (came_to, _) in pages.items() if batch == stream)
        self.assertEqual(self.command("RESULTS", stream, "FROM", last), [str(last), []])
        self.command("ADD", stream, "one more")
        self.assertEqual(self.command("RESULTS", stream, "FROM", last, "BLOCK", 10_000)[1], [[1000, "ok", "one more"]])

    def test_what_is_open_stays_open_and_does_not_keep_the_daemon(self):
        self.begin()
        stream = self.command("OPEN", "echo")
        self.command("ADD", stream, "a", "b")
        wait_for("its jobs to end", lambda: self.status(stream)["ok"] == 2)
        self.stop_and_begin()
        self.assertEqual(self.status(stream)["state"], "open")
        self.assertEqual(self.command("ADD", stream, "c"), 3)
        self.command("CLOSE", stream)
        self.assert_whole(stream, [["ok", "a"], ["ok", "b"], ["ok", "c"]])

    def test_the_rest_goes_on_when_the_time_to_drain_has_run_out(self):
        self.begin({"shutdown": {"drain_timeout": "100ms"}, "pool": {"workers": 2}})
        batch = self.command("SUBMIT", "sleep", "RANGE", 0, 200, 10)
        wait_for("some jobs to end", lambda: self.status(batch)["ok"] >= 10)
        seen, rows = self.status(batch)["ok"], self.command("RESULTS", batch)[1]
        self.stop(TEMPORARY)
        left = re.search(rf"batch left unfinished batch={batch} .*queued=(\d+).* ok=(\d+)", self.daemon.log())
        self.assertTrue(left, self.daemon.log())
        self.begin_and_hold_queue(batch)
        status = self.status(batch)
        self.assertGreaterEqual(status["ok"], max(seen, int(left[2])))
        self.assertEqual((status["state"], status["cancelled"]), ("running", 0))
        self.assertEqual(self.command("RESULTS", batch, "COUNT", len(rows))[1], rows)
        self.command("RESUME", batch)
        self.assert_whole(batch, [["ok", ""]] * 200)
        ran = self.daemon.metrics()['locksley_jobs_total{handler="sleep",status="ok"}']
        self.assertLessEqual(ran, 200 - int(left[2]), "none runs again")

    def begin_and_hold_queue(self, batch):
        self.begin({"pool": {"workers": 2}})
        self.command("PAUSE", batch)

    def test_a_job_that_takes_too_long_is_left_for_the_next_start(self):
        self.begin({"shutdown": {"drain_timeout": "100ms"}})
        batch = self.command("SUBMIT", "sleep", "JOBS", 1, HOUR_MS, 1)
        wait_for("the long job to run", lambda: self.status(batch)["ok"] == 1 and self.status(batch)["running"])
        began = time.monotonic()
        self.stop(TEMPORARY)
        self.assertLess(time.monotonic() - began, 10)
        self.begin()
        status = self.status(batch)
        self.assertEqual((status["state"], status["ok"], status["cancelled"]), ("running", 1, 0))
        self.daemon.send_signal(15)
        self.daemon.wait_for_log("draining")
        self.stop(TERMINATED)
        self.begin()
        self.assertEqual((self.status(batch)["ok"], self.status(batch)["cancelled"]), (1, 0))
        self.command("CANCEL", batch)
        self.assertEqual(self.command.wait(batch)["cancelled"], 2)


class Pipelining(StoreTest):
    def test_replies_come_in_order_and_what_is_behind_them_sees_them(self):
        self.begin()
        count = 1000
        commands = [encode("SUBMIT", "echo", "ID", f"b{i}", "JOBS", f"payload {i}") for i in range(count)]
        self.command.send(b"".join(commands) + encode("STATUS", f"b{count - 1}") + encode("PING"))
        self.assertEqual([self.command.read() for _ in range(count)], [f"b{i}" for i in range(count)])
        self.assertLessEqual({"id": f"b{count - 1}", "jobs": 1}.items(), pairs(self.command.read()).items())
        self.assertEqual(self.command.read(), "PONG")
        self.kill_and_begin()
        self.assertEqual(len(self.listed()), count)
        for i in (0, 1, 500, count - 1):
            self.assert_whole(f"b{i}", [["ok", f"payload {i}"]])

    def test_who_waits_together_shares_a_sync(self):
        self.begin()
        before = self.daemon.metrics()["locksley_store_commit_seconds_count"]
        self.command.send(b"".join(encode("SUBMIT", "echo", "JOBS", "a") for _ in range(1000)))
        for _ in range(1000):
            self.assertNotIsInstance(self.command.read(), Error)
        self.assertLess(self.daemon.metrics()["locksley_store_commit_seconds_count"] - before, 300)

    def test_metrics(self):
        self.begin()
        self.command("SUBMIT", "echo", "JOBS", "a" * 100_000)
        metrics = self.daemon.metrics()
        self.assertGreaterEqual(metrics["locksley_store_commit_seconds_count"], 1)
        self.assertGreater(metrics["locksley_store_commit_seconds_sum"], 0)
        self.assertEqual(metrics["locksley_store_errors_total"], 0)
        self.assertGreater(metrics["locksley_store_bytes"], 0)


if __name__ == "__main__":
    unittest.main()
