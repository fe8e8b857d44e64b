#!/usr/bin/python3
"""Batches that are over leave the memory for the store, at a start all of them at once: they answer as before, and go when they should."""

import pathlib
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from resp import CommandError, encode, pairs
from store_daemon import StoreTest

MANY = 6000  # more than stay in memory (kMostInMemory in daemon/server/batches/retention/retention.h)


class Retired(StoreTest):
    def submit_many(self, prefix, count=MANY):
        """And waits for their ends."""
        ids = self.only_submit_many(prefix, count)
        for id_ in ids[-1:] + ids:
            self.command.wait(id_)
        return ids

    def only_submit_many(self, prefix, count, *options):
        ids = [f"{prefix}{i}" for i in range(count)]
        self.command.send(b"".join(encode("SUBMIT", "echo", "ID", id_, *options, "JOBS", f"of {id_}") for id_ in ids))
        for id_ in ids:
            self.assertEqual(self.command.read(), id_)
        return ids

    def assert_answers(self, id_):
        """As a batch of submit_many() does, whatever is asked."""
        status = self.status(id_)
        self.assertEqual((status["id"], status["handler"], status["state"], status["jobs"], status["ok"]), (id_, "echo", "done", 1, 1))
        self.assertEqual(self.command.results(id_), [[0, "ok", f"of {id_}"]])
        self.assertEqual(self.command.wait(id_), status)
        self.assertEqual(self.command.map("EXPLAIN", id_)["reason"], "ended")
        self.assertEqual(self.command("CANCEL", id_), 0)
        self.assertEqual([self.command(*words) for words in (("WEIGHT", id_, 3), ("PAUSE", id_), ("RESUME", id_))], ["OK"] * 3)
        self.assertEqual(self.status(id_), status)
        self.assert_error("CLOSED", self.command.ask("ADD", id_, "x"))
        self.assertEqual(self.command("CLOSE", id_), 1)
        self.assertEqual(self.command("SUBMIT", "echo", "ID", id_, "JOBS", f"of {id_}"), id_)
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "echo", "ID", id_, "JOBS", "other"))
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "fail", "ID", id_, "JOBS", f"of {id_}"))
        self.assert_error("EXISTS", self.command.ask("OPEN", "echo", "ID", id_))
        self.assertEqual(self.status(id_), status)

    def assert_forgets(self, id_):
        self.assertEqual(self.command("FORGET", id_), 1)
        self.assertEqual(self.command("FORGET", id_), 0)
        for words in (("STATUS", id_), ("RESULTS", id_), ("WAIT", id_), ("CANCEL", id_)):
            self.assert_error("NOBATCH", self.command.ask(*words))

    def test_they_answer_as_before_and_are_forgotten(self):
        self.begin()
        ids = self.submit_many("b")
        for restart in (None, self.stop_and_begin, self.kill_and_begin):
            if restart:
                self.settle()
                restart()
            for id_ in (ids[0], ids[1], ids[MANY // 2], ids[-1]):
                self.assert_answers(id_)
            self.assertEqual(self.daemon.metrics()["locksley_retained_batches"], len(ids))
            self.assert_forgets(ids.pop(2))
            self.assertEqual(list(self.listed()), ids[::-1])
        self.command("SUBMIT", "echo", "ID", "b2", "JOBS", "anew")
        self.assert_whole("b2", [["ok", "anew"]])

    def test_list_goes_through_all_of_them_with_filters_too(self):
        self.begin()
        ids = self.submit_many("b", 3000)
        held = self.command("SUBMIT", "sleep", "ID", "held", "JOBS", 3_600_000)
        for restart in (None, self.kill_and_begin):
            if restart:
                self.settle()
                restart()
            for words, expected in ((("MATCH", "b1"), ["b1"]), (("STATE", "done", "MATCH", "b*7"), [id_ for id_ in ids[::-1] if id_.endswith("7")]),
                                    (("STATE", "cancelled"), []), (("STATE", "running"), [held])):
                found, cursor = [], 0
                while True:
                    cursor, page = self.command("LIST", *words, "CURSOR", cursor, "COUNT", 50)
                    self.assertLessEqual(len(page), 50)
                    found += [pairs(status)["id"] for status in page]
                    if cursor == "0":
                        break
                self.assertEqual([id_ for id_ in found if not id_.startswith("held") or words[1] == "running"], expected, words)

    def test_their_time_runs_out(self):
        self.begin()
        stay = self.submit_many("stay", 100)
        self.only_submit_many("go", 1500, "RETAIN", 2)
        # None of them is asked for: the first may be gone by then.
        wait_for("the last to end", lambda: self.daemon.metrics()['locksley_jobs_total{handler="echo",status="ok"}'] == 1600)
        self.settle()
        self.kill_and_begin()
        wait_for("those whose time is up to be gone", lambda: self.daemon.metrics()["locksley_retained_batches"] == len(stay))
        self.assertEqual(list(self.listed()), stay[::-1])
        self.stop_and_begin()
        self.assertEqual(list(self.listed()), stay[::-1])

    def test_the_oldest_make_room(self):
        settings = {"store": {"max_bytes": "1MiB"}}
        self.begin(settings)
        first = self.submit_many("a", 3200)
        self.settle()
        self.kill_and_begin(settings)
        before = list(self.listed())[::-1]
        self.assertEqual(before, first[-len(before):])
        self.submit_many("b", 500)
        after = list(self.listed())[::-1]
        self.assertEqual(after, (before + [f"b{i}" for i in range(500)])[-len(after):])
        self.assertGreater(len(before) + 500, len(after), "none was forgotten")
        self.assertGreater(len(after), 2500, "more were forgotten than had to be")

    def test_a_refused_command_evicts_nothing(self):
        settings = {"store": {"max_bytes": "1MiB"}}
        self.begin(settings)
        kept = [self.command("SUBMIT", "echo", "ID", f"kept{i}", "JOBS", *["x" * 50_000] * 4) for i in range(4)]
        for id_ in kept:
            self.command.wait(id_)
        too_much = ["y" * 50_000] * 6  # beside what is kept
        self.assert_error("NOBATCH", self.command.ask("SUBMIT", "echo", "AFTER", "unknown", "JOBS", *too_much))
        self.assert_error("NOBATCH", self.command.ask("OPEN", "echo", "AFTER", "unknown"))
        self.assert_error("TOOBIG", self.command.ask("SUBMIT", "echo", "JOBS", *["y" * 50_000] * 21))  # never fits
        self.assertEqual(list(self.listed())[::-1], kept)
        self.settle()
        self.kill_and_begin(settings)  # the same for batches that are in the store alone
        self.assert_error("NOBATCH", self.command.ask("SUBMIT", "echo", "AFTER", "unknown", "JOBS", *too_much))
        self.assert_error("TOOBIG", self.command.ask("SUBMIT", "echo", "JOBS", *["y" * 50_000] * 21))
        self.assertEqual(list(self.listed())[::-1], kept)
        fits = self.command("SUBMIT", "echo", "JOBS", *too_much)
        self.assertNotIn(kept[0], self.listed())
        self.assertIn(fits, self.listed())

    def test_each_is_found_by_its_id_whatever_that_is(self):
        self.begin()
        ids = [self.command("SUBMIT", "echo", "ID", id_, "JOBS", id_) for id_ in ("a", "A", "~!", "aa", "a" * 128)]
        for id_ in ids:
            self.command.wait(id_)
        self.settle()
        self.kill_and_begin()
        for id_ in ids:
            self.assertEqual(self.command.results(id_), [[0, "ok", id_]])
        self.assert_error("NOBATCH", self.command.ask("STATUS", "b"))

    def test_reading_many_at_the_start_is_logged(self):
        self.begin()
        self.submit_many("b", 50)
        self.settle()
        self.stop_and_begin()
        self.assertTrue(re.search(r"store: read took_ms=\d+ batches_over=50 batches_unfinished=\d+", self.daemon.log()), self.daemon.log())


class ResultsFromTheStore(StoreTest):
    """Rows that are not in memory are read by a thread of the store."""

    ROWS = 20_000

    def begin_with_results(self):
        self.begin()
        batch = self.command("SUBMIT", "echo", "ID", "large", "RANGE", 0, self.ROWS, "x" * 200 + "{}")
        self.command.wait(batch)
        self.settle()
        self.kill_and_begin()
        return batch

    def test_pages_come_whole_and_in_order_on_many_connections(self):
        batch = self.begin_with_results()
        whole = self.command.results(batch, count=3000)
        self.assertEqual(sorted(row[0] for row in whole), list(range(self.ROWS)))
        readers = [self.connect(self.daemon) for _ in range(8)]
        for reader in readers:
            reader.send(encode("PING") + encode("RESULTS", batch, "COUNT", 200) + encode("STATUS", batch) + encode("RESULTS", batch, "FROM", 5001, "COUNT", 10))
        for reader in readers:
            self.assertEqual(reader.read(), "PONG")
            self.assertEqual(reader.read(), ["201", whole[:200]])
            self.assertEqual(pairs(reader.read())["id"], batch)
            self.assertEqual(reader.read(), ["5011", whole[5000:5010]])

    def test_a_client_that_has_said_all_gets_its_reply(self):
        batch = self.begin_with_results()
        reader = self.connect(self.daemon)
        reader.send(encode("RESULTS", batch, "COUNT", 1000))
        reader.half_close()
        self.assertEqual(len(reader.read()[1]), 1000)
        self.assertEqual(reader.read_until_closed(), b"")

    def test_clients_that_leave_meanwhile_leave_nothing(self):
        batch = self.begin_with_results()
        for _ in range(100):
            with self.daemon.connect() as reader:
                reader.send(encode("RESULTS", batch, "COUNT", 20_000))
        wait_for("their connections to be gone", lambda: self.daemon.metrics()["locksley_connections"] == 1)
        self.assertEqual(len(self.command.results(batch)), self.ROWS)
        self.assertEqual(self.daemon.metrics()["locksley_blocked_connections"], 0)
        with self.daemon.connect() as reader:
            reader.send(encode("RESULTS", batch, "COUNT", 20_000))
            self.stop()

    def test_what_is_forgotten_meanwhile_is_whole_or_gone(self):
        self.begin()
        for round_ in range(10):
            self.command.wait(self.command("SUBMIT", "echo", "ID", f"b{round_}", "RANGE", 0, 2000))
        self.settle()
        self.kill_and_begin()
        outcomes = set()

        def read(id_):
            with self.daemon.connect() as reader:
                try:
                    while True:
                        outcomes.add(len(reader("RESULTS", id_, "COUNT", 2000)[1]))
                except CommandError as error:
                    outcomes.add(str(error).split(": ")[1].split()[0])

        for round_ in range(10):
            reader = threading.Thread(target=read, args=(f"b{round_}",))
            reader.start()
            self.assertEqual(self.command("FORGET", f"b{round_}"), 1)
            reader.join()
        self.assertLessEqual(outcomes, {2000, "NOBATCH"})
        self.assertIn("NOBATCH", outcomes)

    def test_a_daemon_starts_no_thread_to_read_the_store(self):
        # The system might have none left. So the thread is there from the start.
        self.begin()
        self.command.wait(self.command("SUBMIT", "echo", "ID", "b", "JOBS", "a"))
        self.command.results("b")
        before = len(self.daemon.threads())
        self.settle()
        self.kill_and_begin()
        self.assertEqual(len(self.daemon.threads()), before)
        self.command.results("b")
        self.assertEqual(len(self.daemon.threads()), before)


if __name__ == "__main__":
    unittest.main()
