#!/usr/bin/python3
"""Each quota of a user: below it and at it goes what is new, above it is refused with its name; and other users are not touched by it."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import merged, wait_for
from resp import Error
from store_daemon import StoreTest
from users import ALL, BUILTIN, PASSWORD, UsersTest, users

HOUR_MS = 3_600_000


class Quotas(UsersTest):
    def begin(self, **quotas):
        """A daemon whose worker is taken by another user, so that what alice submits stays queued."""
        daemon = self.start_with({"pool": {"workers": 1}}, alice={**BUILTIN, **quotas}, bob=BUILTIN, root={"commands": ALL})
        self.bob = self.log_in(daemon, "bob")
        self.bob("SUBMIT", "sleep", "ID", "blocker", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: self.bob.status("blocker")["running"] == 1)
        self.alice = self.log_in(daemon, "alice")
        return daemon

    def assert_full(self, key, *commands):
        for command in commands:
            error = self.alice.ask(*command.split())
            self.assert_error("QUEUEFULL", error)
            self.assertIn(f"users.alice.{key} is ", error)

    def assert_too_big(self, key, *commands):
        for command in commands:
            error = self.alice.ask(*command.split())
            self.assert_error("TOOBIG", error)
            self.assertIn(f"users.alice.{key} is ", error)

    def test_queued_jobs(self):
        self.begin(max_queued_jobs=10)
        self.assert_too_big("max_queued_jobs", "SUBMIT echo RANGE 0 11", "SUBMIT echo JOBS" + " x" * 11, "RUN echo JOBS" + " x" * 11)
        self.assertEqual(self.alice("SUBMIT", "echo", "ID", "full", "RANGE", 0, 10), "full")
        self.assert_full("max_queued_jobs", "SUBMIT echo JOBS x", "RUN echo JOBS x", "SUBMIT echo RANGE 0 10")
        self.assertEqual(self.alice("SUBMIT", "echo", "ID", "full", "RANGE", 0, 10), "full", "a repetition takes no room")
        self.alice("OPEN", "echo", "ID", "stream")
        self.assert_full("max_queued_jobs", "ADD stream x")
        self.bob("SUBMIT", "echo", "RANGE", 0, 1000)
        self.alice("CANCEL", "full")
        self.assertEqual(self.alice("ADD", "stream", *"x" * 9), 9)
        self.assertEqual(self.alice("ADD", "stream", "x"), 10)
        self.assert_full("max_queued_jobs", "ADD stream x")
        self.bob("CANCEL", "blocker")
        self.alice("CLOSE", "stream")
        self.assertEqual(self.alice.wait("stream")["ok"], 10)
        self.assertEqual(self.alice("RUN", "echo", "JOBS", *"x" * 10), [["ok", "x"]] * 10)

    def test_jobs_that_run_again_count(self):
        self.begin(max_queued_jobs=3)
        self.bob("CANCEL", "blocker")
        self.alice("SUBMIT", "fail", "ID", "failed", "RETRIES", 0, "JOBS", *"abc")
        self.alice.wait("failed")
        self.bob("SUBMIT", "sleep", "ID", "blocker2", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: self.bob.status("blocker2")["running"] == 1)
        self.alice("SUBMIT", "echo", "ID", "one", "JOBS", "x")
        self.assert_full("max_queued_jobs", "RETRY failed")
        self.alice("CANCEL", "one")
        self.assertEqual(self.alice("RETRY", "failed"), 3)
        self.assert_full("max_queued_jobs", "SUBMIT echo JOBS x")

    def test_queued_bytes(self):
        self.begin(max_queued_bytes=1000)
        big = "x" * 1001
        self.assert_too_big("max_queued_bytes", f"SUBMIT echo JOBS {big}", f"RUN echo JOBS {big}")
        self.alice("SUBMIT", "echo", "ID", "a", "JOBS", "x" * 600)
        self.assert_full("max_queued_bytes", "SUBMIT echo JOBS " + "x" * 401)
        self.alice("SUBMIT", "echo", "ID", "b", "JOBS", "x" * 200, "y" * 200)
        self.assert_full("max_queued_bytes", "SUBMIT echo JOBS x", "RUN echo JOBS x")
        self.alice("OPEN", "echo", "ID", "stream")
        self.assert_full("max_queued_bytes", "ADD stream x")
        self.bob("SUBMIT", "echo", "JOBS", "x" * 10_000)
        self.alice("CANCEL", "a")
        self.assertEqual(self.alice("ADD", "stream", "x" * 600), 1)
        self.assert_full("max_queued_bytes", "ADD stream x")
        self.bob("CANCEL", "blocker")
        wait_for("what was added to end", lambda: self.alice.status("stream")["ok"] == 1)
        # A stream may be longer than the quota.
        for n in range(5):
            self.assertEqual(self.alice("ADD", "stream", "x" * 1000), n + 2)
            wait_for("what was added to end", lambda: self.alice.status("stream")["ok"] == n + 2)

    def test_batches(self):
        self.begin(max_batches=2)
        self.alice("SUBMIT", "echo", "ID", "a", "JOBS", "x")
        self.alice("OPEN", "echo", "ID", "b")
        self.assert_full("max_batches", "SUBMIT echo JOBS x", "OPEN echo", "RUN echo JOBS x")
        self.assertEqual(self.alice("SUBMIT", "echo", "ID", "a", "JOBS", "x"), "a")
        self.bob("OPEN", "echo")
        self.bob("CANCEL", "blocker")
        self.alice.wait("a")
        self.alice("SUBMIT", "sleep", "ID", "c", "JOBS", HOUR_MS)
        self.assert_full("max_batches", "SUBMIT echo JOBS x")
        self.alice("CANCEL", "b")
        self.assertEqual(self.alice.wait("b")["state"], "cancelled")
        self.alice("CANCEL", "c")
        self.alice.wait("c")
        self.assertEqual(self.alice("RUN", "echo", "JOBS", "x"), [["ok", "x"]])

    def test_clients(self):
        daemon = self.begin(max_clients=2)
        second = self.log_in(daemon, "alice")
        third = self.connect(daemon)
        for command in (("AUTH", "alice", PASSWORD.format("alice")), ("HELLO", 3, "AUTH", "alice", PASSWORD.format("alice"))):
            self.assertEqual(third.ask(*command), "ERR max number of clients reached")
            self.assert_error("NOAUTH", third.ask("PING"))
        self.assertEqual(self.alice("AUTH", "alice", PASSWORD.format("alice")), "OK", "that one counts already")
        self.assertEqual(third("AUTH", "bob", PASSWORD.format("bob")), "OK")
        self.assertEqual(third.ask("AUTH", "alice", PASSWORD.format("alice")), "ERR max number of clients reached")
        self.assertIn("user=bob", third("CLIENT", "INFO"))
        self.assertEqual(second("RESET"), "RESET")
        self.assertEqual(third("AUTH", "alice", PASSWORD.format("alice")), "OK")
        third.close()
        root = self.log_in(daemon, "root")
        wait_for("the connection to be gone", lambda: root("CLIENT", "LIST").count("user=alice") == 1)
        self.assertEqual(second("AUTH", "alice", PASSWORD.format("alice")), "OK")

    def test_lowered_quotas_hold_for_what_is_new(self):
        daemon = self.begin()
        self.alice("SUBMIT", "echo", "ID", "many", "RANGE", 0, 100)
        self.reload(daemon, {"pool": {"workers": 1}}, alice={"max_queued_jobs": 50, "max_clients": 1, **BUILTIN}, bob=BUILTIN, root={"commands": ALL})
        self.assert_full("max_queued_jobs", "SUBMIT echo JOBS x")
        self.assert_too_big("max_queued_jobs", "SUBMIT echo RANGE 0 51")
        self.bob("CANCEL", "blocker")
        self.assertEqual(self.alice.wait("many")["ok"], 100)
        self.assertEqual(self.alice("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.reload(daemon, {"pool": {"workers": 1}}, alice=BUILTIN, bob=BUILTIN, root={"commands": ALL})
        self.alice("SUBMIT", "echo", "RANGE", 0, 1000)


class AfterARestart(StoreTest):
    def log_in(self, name):
        connection = self.connect(self.daemon)
        connection("AUTH", name, PASSWORD.format(name))
        return connection

    def test_what_was_there_before_counts_and_is_still_its_users(self):
        quotas = {"max_queued_jobs": 10, "max_queued_bytes": 100, "max_batches": 3}
        settings = users(alice=BUILTIN, bob=BUILTIN, root={"commands": ALL})
        daemon = self.begin(settings)
        bob = self.log_in("bob")
        bob("SUBMIT", "echo", "ID", "over", "JOBS", "of bob")
        bob.wait("over")
        bob("SUBMIT", "sleep", "ID", "blocker", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: bob.status("blocker")["running"] == 1)
        alice = self.log_in("alice")
        alice("SUBMIT", "echo", "ID", "over", "DELAY", HOUR_MS, "JOBS", *["x" * 20] * 4)
        alice("OPEN", "echo", "ID", "stream", "DELAY", HOUR_MS)
        self.daemon.kill()
        daemon = self.begin(merged(settings, users(alice=quotas)))
        alice, bob, root = self.log_in("alice"), self.log_in("bob"), self.log_in("root")
        self.assertEqual(alice.status("over")["tenant"], "alice")
        self.assertEqual(bob.results("over"), [[0, "ok", "of bob"]])
        self.assert_error("NOBATCH", alice.ask("STATUS", "blocker"))
        self.assertEqual([row["id"] for row in alice.listed("STATE", "queued")], ["over"])
        self.assertEqual(len(root.listed()), 4)
        # 4 jobs of 80 bytes in 2 batches.
        error = alice.ask("ADD", "stream", *["x"] * 7)
        self.assert_error("QUEUEFULL", error)
        self.assertIn("users.alice.max_queued_jobs", error)
        error = alice.ask("ADD", "stream", "x" * 21)
        self.assertIn("users.alice.max_queued_bytes", error)
        self.assertEqual(alice("ADD", "stream", *["xxxx"] * 5), 5)
        alice("OPEN", "echo", "ID", "third")
        self.assertIn("users.alice.max_batches", str(alice.ask("OPEN", "echo")))
        # Its batches go on when their user is not there any more.
        self.daemon.kill()
        self.begin(users(root={"commands": ALL}))
        root = self.log_in("root")
        self.assertEqual(root.status("alice/over")["queued"], 4)
        self.assertEqual(root.status("bob/over")["state"], "done")
        self.assertEqual(root("CANCEL", "stream"), 5)
        self.assertNotIsInstance(root.ask("SUBMIT", "echo", "AFTER", "alice/stream", "JOBS", "x"), Error)


if __name__ == "__main__":
    unittest.main(verbosity=2)
