#!/usr/bin/python3
"""RESULTS … DISCARD: a reader gives the space of what it has read back, in memory and in the store."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from store_daemon import StoreTest
from users import ALL, BUILTIN, UsersTest

MIB = 1 << 20
OUTPUT = 60_000


def account(connection, name):
    """What the user has in use, by INFO."""
    line = next(line for line in connection("INFO", "account").splitlines() if line.startswith(f"account_{name}:"))
    return int(line.split("used=")[1].split(",")[0])


def read_and_discard(connection, batch, count=100):
    """Every row from the first one that is left, until the batch is over; each page discards those before it."""
    cursor, rows = "0", []
    while True:
        cursor, page = connection("RESULTS", batch, "FROM", cursor, "COUNT", count, "BLOCK", 10_000, "DISCARD")
        rows += page
        if cursor == "0":
            return rows


def so_many(connection, batch, count):
    """The first rows that are left, so many, of a batch that may go on."""
    cursor, rows = "0", []
    while len(rows) < count:
        cursor, page = connection("RESULTS", batch, "FROM", cursor, "BLOCK", 10_000)
        rows += page
    return rows


class InMemory(DaemonTest):
    LIMIT = 4 * MIB
    settings = {"store": {"path": ""}, "limits": {"max_result_bytes": LIMIT}}

    def setUp(self):
        self.daemon = self.start(self.settings)
        self.command = self.connect(self.daemon)

    def test_a_batch_with_more_results_than_memory_may_hold_comes_to_its_end(self):
        jobs = 400  # 24 MB of results
        self.command("SUBMIT", "echo", "ID", "large", "RANGE", 0, jobs, "x" * OUTPUT)
        wait_for("the results to be at their limit", lambda: self.command.map("EXPLAIN", "large")["reason"] == "results-at-limit")
        rows = read_and_discard(self.command, "large", 10)
        self.assertEqual(sorted(row[0] for row in rows), list(range(jobs)))
        self.assertEqual(self.command.status("large")["ok"], jobs)
        wait_for("the room to be free", lambda: account(self.command, "result_bytes") < self.LIMIT)

    def test_a_batch_that_is_over_stays_for_its_reader(self):
        self.command("SUBMIT", "echo", "ID", "read", "SLOTS", 1, "RANGE", 0, 40, "x" * OUTPUT)
        self.command("SUBMIT", "echo", "ID", "unread", "JOBS", "x" * OUTPUT)
        for id_ in ("read", "unread"):
            self.command.wait(id_)
        self.command("RESULTS", "read", "FROM", 11, "COUNT", 1, "DISCARD")
        self.command("CONFIG", "SET", "limits.max_result_bytes", "1MiB")
        wait_for("the batch that no one reads to be evicted", lambda: "NOBATCH" in str(self.command.ask("STATUS", "unread")))
        self.assertEqual([row[0] for row in read_and_discard(self.command, "read", 10)], list(range(10, 40)))

    def test_a_reader_of_discarded_rows_gets_the_first_that_are_left(self):
        self.command("SUBMIT", "echo", "ID", "b", "SLOTS", 1, "JOBS", *"abcdef")
        self.command.wait("b")
        rows = self.command.results("b")
        self.assertEqual(self.command("RESULTS", "b", "FROM", 4, "COUNT", 1, "DISCARD"), ["5", rows[3:4]])
        for cursor in (0, 1, 2, 4):
            self.assertEqual(self.command("RESULTS", "b", "FROM", cursor), ["0", rows[3:]], cursor)
        self.assertEqual(self.command("RESULTS", "b", "FROM", 2, "DISCARD"), ["0", rows[3:]], "an earlier cursor brings nothing back")
        self.assertEqual(self.command("RESULTS", "b", "FROM", 0, "COUNT", 1, "DISCARD"), ["5", rows[3:4]], "0 discards nothing")
        self.assertEqual(self.command("RESULTS", "b", "FROM", 99, "DISCARD"), ["0", []], "all")
        self.assertEqual(self.command("RESULTS", "b"), ["0", []])
        self.assertEqual(account(self.command, "result_bytes"), 0)
        self.assertEqual(self.command.status("b")["ok"], 6, "the counters stay")
        self.assertEqual(str(self.command.ask("RESULTS", "b", "DISCARD")), "ERR option 'DISCARD' needs 'FROM'")
        self.assert_error("NOBATCH", self.command.ask("RESULTS", "nosuch", "FROM", 1, "DISCARD"))

    def test_a_failed_job_whose_row_is_gone_is_retried(self):
        self.command("SUBMIT", "fail", "ID", "f", "JOBS", "a", "b", "c")
        self.command.wait("f")
        self.assertEqual(self.command("RESULTS", "f", "FROM", 4, "DISCARD"), ["0", []])
        self.assertEqual(self.command("RETRY", "f"), 3)
        status = self.command.wait("f")
        self.assertEqual((status["failed"], status["retried"]), (3, 3))
        self.assertEqual(sorted(row[0] for row in self.command.results("f")), [0, 1, 2])

    def test_many_chunks_go_on_another_thread(self):
        self.command("CONFIG", "SET", "limits.max_result_bytes", "256MiB")
        self.command("SUBMIT", "echo", "ID", "large", "RANGE", 0, 1000, "x" * OUTPUT)
        self.command.wait("large")
        self.assertEqual(self.command("RESULTS", "large", "FROM", 1001, "DISCARD"), ["0", []])
        wait_for("the memory to be free", lambda: account(self.command, "result_bytes") == 0)


class Stored(StoreTest):
    settings = {}

    def submit(self, jobs=200, handler="echo"):
        self.command("SUBMIT", handler, "ID", "b", "RANGE", 0, jobs, "x" * OUTPUT)
        self.command.wait("b")
        return self.command.results("b", 10)

    def test_what_is_discarded_is_free_and_stays_discarded(self):
        self.begin({"limits": {"max_result_bytes": "1MiB"}})
        rows = self.submit()
        wait_for("the results to be in the store alone", lambda: account(self.command, "result_bytes") < 2 * MIB)
        before = account(self.command, "stored_bytes")
        self.assertGreater(before, 200 * OUTPUT)
        self.assertEqual(self.command("RESULTS", "b", "FROM", 101, "COUNT", 1, "DISCARD"), ["102", rows[100:101]])
        half = account(self.command, "stored_bytes")
        self.assertLess(half, before - 90 * OUTPUT)
        self.assertGreater(half, 100 * OUTPUT, "what is left still counts")
        self.stop_and_begin()
        self.assertEqual(self.command.results("b", 10), rows[100:])
        self.assertEqual(account(self.command, "stored_bytes"), half)
        self.assertEqual(read_and_discard(self.command, "b", 7), rows[100:])
        self.assertEqual(self.command("RESULTS", "b", "FROM", 1000, "DISCARD"), ["0", []])
        self.assertLess(account(self.command, "stored_bytes"), 2 * OUTPUT, "the payload's pattern, and the records")
        self.kill_and_begin()
        self.assertEqual(self.command("FORGET", "b"), 1)
        self.assertEqual(account(self.command, "stored_bytes"), 0)

    def test_while_the_batch_runs_and_across_a_crash(self):
        self.begin({"pool": {"workers": 1}})
        self.command("OPEN", "echo", "ID", "b")
        self.command("ADD", "b", *[f"{i}{'x' * OUTPUT}" for i in range(50)])
        wait_for("50 results", lambda: self.status("b")["ok"] == 50)
        rows = so_many(self.command, "b", 50)
        self.assertEqual(self.command("RESULTS", "b", "FROM", 41, "COUNT", 1, "DISCARD"), ["42", rows[40:41]])
        self.settle()
        self.kill_and_begin()
        self.assertEqual(so_many(self.command, "b", 10), rows[40:])
        self.assertEqual(self.status("b")["ok"], 50)
        self.command("ADD", "b", "last")
        self.command("CLOSE", "b")
        self.assertEqual(self.command.wait("b")["ok"], 51)
        self.assertEqual(self.command.results("b"), [*rows[40:], [50, "ok", "last"]])

    def test_a_retry_after_a_restart_needs_no_rows(self):
        self.begin()
        self.command("SUBMIT", "fail", "ID", "b", "JOBS", *"abc")
        self.command.wait("b")
        self.assertEqual(self.command("RESULTS", "b", "FROM", 4, "DISCARD"), ["0", []])
        self.settle()
        self.kill_and_begin()
        self.assertEqual(self.command("RETRY", "b"), 3)
        self.command.wait("b")
        self.assertEqual(sorted(row[0] for row in self.command.results("b")), [0, 1, 2])


class Permissions(UsersTest):
    def test_discarding_is_control(self):
        daemon = self.start_with({}, alice=BUILTIN, reader={"commands": ["read"]}, root={"commands": ALL})
        alice, reader = self.log_in(daemon, "alice"), self.log_in(daemon, "reader")
        alice("SUBMIT", "echo", "ID", "b", "JOBS", "x")
        alice.wait("b")
        self.assert_error("NOPERM User reader has no permissions to run the 'results discard' command", reader.ask("RESULTS", "b", "FROM", 1, "DISCARD"))
        self.assert_error("NOBATCH", reader.ask("RESULTS", "b", "FROM", 1))
        self.assertEqual(alice("RESULTS", "b", "FROM", 2, "DISCARD"), ["0", []])


if __name__ == "__main__":
    unittest.main()
