#!/usr/bin/python3
"""Daemons whose store is a PostgreSQL server: what was accepted is there after kill -9 of the daemon or of the server, one daemon at a time
writes, and the password of the URL is shown nowhere. crash.py does the same to a daemon at random moments."""

import pathlib
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, merged, program, wait_for
from postgres_server import PostgresServer
from resp import Error
from store_daemon import StoreTest, run_daemon

JOBS = 2000
DELAYS_MS = 5000, 30_000  # longer than a start takes, on a slow machine the second
PYTHON_WORKER = [sys.executable, str(pathlib.Path(__file__).resolve().parents[1] / "support/python_worker.py")]


class PostgresStore(StoreTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = PostgresServer()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        super().setUp()
        # Each test has a store of its own.
        self.schema = self._testMethodName[:40]
        self.server.query(f"create schema {self.schema}")
        self.url = f"{self.server.url}&options=-csearch_path%3D{self.schema}"
        self.settings = merged(StoreTest.settings, self.server.settings(url=self.url))

    def query(self, sql):
        return self.server.query(f"set search_path = {self.schema}; {sql}")

    def submit(self, name):
        return self.command("SUBMIT", "echo", "ID", name, "JOBS", *[f"{name} {i}" for i in range(JOBS)])

    def assert_all_once(self, name):
        self.assert_whole(name, [["ok", f"{name} {i}"] for i in range(JOBS)])

    def test_batches_that_run_survive_kills_and_each_result_is_recorded_once(self):
        self.begin()
        names = []
        for round_ in range(3):
            for i in range(4):
                names.append(self.submit(f"b{round_}-{i}"))
            self.kill_and_begin()
            self.assertEqual(set(names), set(self.listed()))
        for name in names:
            self.assert_all_once(name)
        self.kill_and_begin()
        for name in names:
            self.assert_all_once(name)
        self.assertEqual(self.query("select count(*) from locksley_node where alive"), "1")

    def test_batches_survive_the_death_of_the_server(self):
        self.begin()
        self.submit("before")
        self.command("SUBMIT", "sleep", "ID", "runs", "JOBS", *["2"] * 500)
        self.server.kill()
        self.server.start()
        wait_for("new batches to be accepted", lambda: not self.is_error(self.command.ask("SUBMIT", "echo", "ID", "x", "JOBS", "x")))
        self.submit("after")
        self.assertEqual(self.command.wait("runs")["ok"], 500)
        self.kill_and_begin()
        for name in ("before", "after"):
            self.assert_all_once(name)
        # Jobs whose ends were not written yet run again.
        self.assertEqual(self.command.wait("runs")["ok"], 500)

    def test_a_server_that_says_nothing_holds_up_only_the_batches_whose_payloads_it_has(self):
        handlers = {"echo": "x", "cat": "x", "python": "answer('x')"}  # each with a payload to which it answers "x"
        self.settings = merged(self.settings, {"handlers": {"cat": {"command": ["cat"]}, "python": {"worker": PYTHON_WORKER}}, "shutdown": {"drain_timeout": "100ms"}})
        self.begin()
        self.addCleanup(self.server.resume)
        reason = lambda batch: self.command.explain(batch)["reason"]

        def paused_before_they_are_due(delay_ms):
            for handler, payload in handlers.items():
                # In rows of their own, and not read at the start.
                self.command("SUBMIT", handler, "ID", handler, "DELAY", delay_ms, "JOBS", *[f"{payload} # {'x' * 1000}"] * 200)
            self.stop_and_begin()
            self.server.pause()
            if {reason(each) for each in handlers} == {"delayed"}:
                return delay_ms
            self.server.resume()
            for handler in handlers:
                self.command("CANCEL", handler)
                self.command.wait(handler)
                self.command("FORGET", handler)
            return 0

        delay_ms = next(filter(None, map(paused_before_they_are_due, DELAYS_MS)), 0)
        self.assertGreater(delay_ms, 0, "a start takes too long")
        wait_for("the payloads of all to be wanted", lambda: {reason(each) for each in handlers} == {"store-unreadable"}, delay_ms / 1000 + DEADLINE_S)
        for handler, payload in handlers.items():
            began = time.monotonic()
            self.assertEqual(self.command("RUN", handler, "JOBS", payload), [["ok", "x"]])
            self.assertLess(time.monotonic() - began, 10)  # for as long as a thread waits for the server, there is no reply
        self.assert_error("STORE", self.command.ask("JOB", "echo", "0"))
        self.daemon.send_signal(signal.SIGTERM)
        # 75: batches are left unfinished. 74: the server replied no more when it was asked to store that they were due.
        self.assertIn(self.daemon.wait_end(60), (74, 75), self.daemon.log())
        self.daemon.process.returncode = 0  # as it should have ended
        self.server.resume()
        self.begin()
        for handler in handlers:
            self.assertEqual(self.command.wait(handler)["ok"], 200)

    def is_error(self, reply):
        return isinstance(reply, Error)

    def test_a_daemon_that_was_paused_ends_once_another_has_taken_over(self):
        self.begin()
        self.submit("kept")
        first = self.daemon
        first.send_signal(signal.SIGSTOP)
        self.begin()
        self.assert_all_once("kept")
        first.send_signal(signal.SIGCONT)
        self.assertEqual(first.wait_end(), 69, first.log())
        self.assertIn("another daemon has taken over", first.log())
        first.process.returncode = 0  # as it should have ended
        self.submit("later")
        self.assert_all_once("later")

    def test_a_daemon_that_ends_in_order_is_followed_at_once(self):
        self.begin()
        self.submit("kept")
        self.command.wait("kept")
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(self.daemon.wait_end(), 0)
        self.assertEqual(self.query("select count(*) from locksley_shard where owner is not null"), "0")
        self.begin()
        self.assert_all_once("kept")

    def test_a_server_without_a_standby_is_refused(self):
        refused = run_daemon(self.store, merged(self.settings, {"store": {"replication": "required"}}))
        self.assertEqual(refused.returncode, 69)
        self.assertIn("synchronous_standby_names is empty", refused.stderr)
        self.assertIn("store.replication", refused.stderr)

    def test_the_password_is_shown_nowhere(self):
        secret = self.url.replace("locksley@", "locksley:geheim@")
        settings = merged(self.settings, {"store": {"url": secret}, "log": {"level": "trace"}})
        self.begin(settings)
        self.submit("x")
        self.assertNotIn("geheim", str(self.command("CONFIG", "GET", "*")))
        self.assertIn("locksley:***@", str(self.command("CONFIG", "GET", "store.url")))
        self.daemon.configure(merged(settings, {"store": {"url": secret + "&x=geheim"}}))
        self.daemon.send_signal(signal.SIGHUP)
        self.daemon.wait_for_log("store.url")
        self.assertNotIn("geheim", self.daemon.log())
        self.daemon.configure(settings)
        shown = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", self.daemon.config_path], capture_output=True, text=True, check=True)
        self.assertIn("locksley:***@", shown.stdout)
        self.assertNotIn("geheim", shown.stdout + shown.stderr)
        refused = run_daemon(self.store, merged(settings, {"store": {"url": "postgresql://u:geheim@127.0.0.1:1/x"}}))
        self.assertEqual(refused.returncode, 69)
        self.assertNotIn("geheim", refused.stderr + refused.stdout)

    def test_repair_is_for_the_embedded_store(self):
        refused = run_daemon(self.store, self.settings, ["--repair"])
        self.assertEqual(refused.returncode, 78)
        self.assertIn("database on a server", refused.stderr)

    def test_backups_are_for_the_embedded_store(self):
        self.begin(self.settings)
        self.assertIn("use the tools of the database", str(self.command.ask("BACKUP", "one")))


if __name__ == "__main__":
    unittest.main()
