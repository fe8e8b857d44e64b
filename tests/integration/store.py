#!/usr/bin/python3
"""What the store promises: what was acknowledged is there after kill -9, reads the same, and goes on; what was cancelled or forgotten stays
so. Its options are in store_options.py, a daemon that ends by itself in store_clean_end.py; what the disk does to it is in store_faults.py."""

import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from remote_worker import RemoteWorker
from resp import Error, encode, pairs
from store_daemon import HOUR_MS, StoreTest


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

    def test_a_reader_that_goes_on_with_its_cursor_gets_each_result_once(self):
        """It reads at the heels of the jobs, so at each kill it would have rows that were not on the disk, if it could. How long a job takes
        depends on its process, so these rows come in another order when their jobs run again."""
        jobs, kills = 300, 6
        uneven = {"handlers": {"uneven": {"command": ["sh", "-c", "sleep 0.00$(($$ % 10))"], "concurrency": 3}}}
        self.begin(uneven)
        self.command("SUBMIT", "uneven", "ID", "b", "RANGE", 0, jobs)
        cursor, seen = "0", []
        while True:
            cursor, rows = self.command("RESULTS", "b", "FROM", cursor, "COUNT", 7, "BLOCK", 60_000)
            seen += [row[0] for row in rows]
            if cursor == "0":
                break
            if kills > 0 and len(seen) > jobs * (7 - kills) // 8:
                kills -= 1
                self.kill_and_begin(uneven)
        self.assertEqual((sorted(seen), kills), (list(range(jobs)), 0))

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


class CancelAndForget(StoreTest):
    def test_a_batch_that_was_cancelled_half_way_reads_the_same(self):
        self.begin()
        batch = self.command("SUBMIT", "sleep", "JOBS", *[2] * 100, HOUR_MS, *[2] * 899)
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
                    wait_for("the first job to run", lambda: self.status(batch)["running"] > 0)
                self.command("CANCEL", batch)
                self.kill_and_begin()
                status = self.command.wait(batch)
                self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 3))
                self.assert_agree(status, self.command.results(batch))
                self.kill()

    def test_cancel_that_overtakes_an_add_ends_the_batch_after_a_kill(self):
        self.begin_held()
        for round_ in range(20):
            batch = self.command("OPEN", "sleep", "ID", f"open-{round_}")
            self.command.send(encode("ADD", batch, *[HOUR_MS] * 3) + encode("CANCEL", batch))
            self.assertEqual(self.command.read(), 3)
            self.command.read()
        self.kill_and_begin()
        for round_ in range(20):
            status = self.command.wait(f"open-{round_}")
            self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 3))
            self.assert_agree(status, self.command.results(f"open-{round_}"))

    def test_cancel_ends_a_batch_that_has_yet_to_start_after_a_kill(self):
        # A cancellation is on the disk with its reply; that the jobs have ended by it comes some milliseconds later.
        self.begin()
        self.command("OPEN", "echo", "ID", "unfinished")
        for waits in (["DELAY", HOUR_MS], ["AFTER", "unfinished"], ["DELAY", HOUR_MS, "AFTEROK", "unfinished"]):
            with self.subTest(waits):
                batches = [f"{waits[-2]}-{len(waits)}-{number}" for number in range(20)]
                commands = [["SUBMIT", "echo", "ID", batch, *waits, "JOBS", "a"] for batch in batches]
                commands += [["CANCEL", batch] for batch in batches]
                self.command.send(b"".join(encode(*words) for words in [["MULTI"], *commands, ["EXEC"]]))
                replies = [self.command.read() for _ in range(len(commands) + 2)]
                self.assertEqual(replies[-1], batches + [1] * len(batches))
                self.kill_and_begin()
                for batch in batches:
                    status = self.command.wait(batch, 10)
                    self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 1))
                    self.assert_agree(status, self.command.results(batch))

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


class Numbers(StoreTest):
    settings = {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}, "shutdown": {"drain_timeout": "1ms"}}

    def test_no_number_of_a_batch_is_used_again(self):
        """Not even that of a batch which the store never had: a machine that holds its jobs would be given those of another batch."""
        seen = []
        for end in self.kill, lambda: self.stop(75):
            self.begin()
            for options in ("EPHEMERAL",), ("RETAIN", 0):
                self.command("SUBMIT", "far", *options, "JOBS", "of before")
                with RemoteWorker(self.daemon, "far") as worker:
                    lease = worker.claim()
                    worker.settle(lease, ["done"])
                seen.append(lease.batch)
            self.command("SUBMIT", "far", "EPHEMERAL", "JOBS", "of before")
            with RemoteWorker(self.daemon, "far") as worker:
                held = worker.claim()
            seen.append(held.batch)
            end()
            self.begin()
            self.command("SUBMIT", "far", "ID", "new", "JOBS", "of another user")
            with RemoteWorker(self.daemon, "far") as worker:
                self.assertIsInstance(worker.ask("RECLAIM", held.batch, held.attempt, 0, 1), Error)
                lease = worker.claim()
                self.assertEqual(lease.payloads, ["of another user"])
                worker.settle(lease, ["done"])
            seen.append(lease.batch)
            self.command.wait("new")
            self.command("FORGET", "new")
            self.stop()
        self.assertEqual(len(set(seen)), len(seen), seen)


if __name__ == "__main__":
    unittest.main()
