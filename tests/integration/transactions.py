#!/usr/bin/python3
"""MULTI and EXEC beyond one connection: permissions, accounts, the store, a broken connection."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import Error, encode
from store_daemon import StoreTest
from users import ALL, BUILTIN, UsersTest

ABORTED = "EXECABORT Transaction discarded because of previous errors."


class Permissions(UsersTest):
    def test_each_command_is_checked_when_it_is_queued(self):
        daemon = self.start_with(alice={"commands": ["read", "submit"], "handlers": ["echo"]})
        alice = self.log_in(daemon, "alice")
        for command in ("CANCEL x", "RESULTS x FROM 1 DISCARD", "CONFIG SET log.level info", "SUBMIT sha256 JOBS a", "OPEN sha256"):
            with self.subTest(command):
                self.assertEqual(alice("MULTI"), "OK")
                self.assertEqual(alice("SUBMIT", "echo", "ID", "no", "JOBS", "a"), "QUEUED")
                self.assert_error("NOPERM", alice.ask(*command.split()))
                self.assertEqual(alice.ask("EXEC"), ABORTED)
        self.assert_error("NOBATCH", alice.ask("STATUS", "no"))
        self.assert_error("NOAUTH", self.connect(daemon).ask("MULTI"))

    def test_each_command_is_checked_when_it_is_executed(self):
        daemon = self.start_with(alice={"commands": ALL}, bob={})
        alice = self.log_in(daemon, "alice")
        alice("MULTI")
        alice("SUBMIT", "echo", "ID", "late", "JOBS", "a")
        alice("PING")
        self.reload(daemon, alice={"commands": ["read"]}, bob={})
        submitted, pong = alice("EXEC")
        self.assert_error("NOPERM", submitted)
        self.assertEqual(pong, "PONG")

    def test_a_user_that_is_removed_executes_nothing(self):
        daemon = self.start_with(alice={"commands": ALL}, bob={"commands": ALL})
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        alice("MULTI")
        alice("SUBMIT", "echo", "ID", "late", "JOBS", "a")
        self.reload(daemon, bob={"commands": ALL})
        alice.read_until_closed()
        self.assert_error("NOBATCH", bob.ask("STATUS", "alice/late"))


class Account(UsersTest):
    LIMIT = 1 << 20

    def used(self, connection):
        line = next(line for line in connection("INFO", "account").splitlines() if line.startswith("account_client_bytes"))
        return int(line.split("used=")[1].split(",")[0])

    def test_the_queue_is_the_user_s_and_the_error_names_the_limit(self):
        daemon = self.start_with(alice={**BUILTIN, "client_memory": f"{self.LIMIT}B"}, bob=BUILTIN)
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        alice("MULTI")
        replies = [alice.ask("SUBMIT", "echo", "JOBS", "x" * 100_000) for _ in range(12)]
        self.assertEqual(replies[:8], ["QUEUED"] * 8)
        refused = next(reply for reply in replies if isinstance(reply, Error))
        self.assert_error("TOOBIG", refused)
        self.assertIn(f"users.alice.client_memory is {self.LIMIT}", refused)
        self.assertEqual(alice.ask("EXEC"), ABORTED)
        # Of several connections.
        second = self.log_in(daemon, "alice")
        for connection in (alice, second):
            connection("MULTI")
            for _ in range(4):
                self.assertEqual(connection("SUBMIT", "echo", "JOBS", "x" * 100_000), "QUEUED")
        third = self.log_in(daemon, "alice")
        third("MULTI")
        self.assert_error("QUEUEFULL", third.ask("SUBMIT", "echo", "JOBS", "x" * 300_000))
        self.assertEqual(bob("RUN", "echo", "JOBS", "x"), [["ok", "x"]])
        self.assertEqual([type(reply) for reply in alice("EXEC")], [str] * 4)
        second.close()
        wait_for("the memory of both queues to be free", lambda: self.used(alice) < 100_000)
        self.assertEqual(third.ask("EXEC"), ABORTED)
        self.assertIn(" multi=-1 ", third("CLIENT", "INFO"))
        third("MULTI")
        third("PING")
        self.assertIn(" multi=1 ", alice("CLIENT", "LIST"))


class Broken(DaemonTest):
    def test_before_exec_has_arrived_nothing_runs(self):
        daemon = self.start()
        command = self.connect(daemon)
        whole = encode("MULTI") + encode("SUBMIT", "echo", "ID", "lost", "JOBS", "a") + encode("EXEC")
        for sent in range(len(whole)):
            with daemon.connect() as connection:
                connection.send(whole[:sent])
        self.assert_error("NOBATCH", command.ask("STATUS", "lost"))


class Stored(StoreTest):
    def test_what_exec_reports_is_on_the_disk(self):
        self.begin_held()
        self.command("MULTI")
        for i in range(100):
            self.command("SUBMIT", "echo", "ID", f"b{i}", "JOBS", f"{i}")
        self.command("OPEN", "echo", "ID", "stream")
        self.command("ADD", "stream", "a", "b")
        self.assertEqual(self.command("EXEC"), [*(f"b{i}" for i in range(100)), "stream", 2])
        self.kill_and_begin()
        for i in range(100):
            self.assert_whole(f"b{i}", [["ok", f"{i}"]])
        self.assertEqual(self.status("stream")["jobs"], 2)

    def test_transactions_may_be_pipelined(self):
        self.begin()
        for i in range(50):
            self.command.send(encode("MULTI") + encode("SUBMIT", "echo", "ID", f"p{i}", "JOBS", "x") + encode("PING") + encode("EXEC") + encode("ECHO", i))
        for i in range(50):
            self.assertEqual([self.command.read() for _ in range(5)], ["OK", "QUEUED", "QUEUED", [f"p{i}", "PONG"], f"{i}"])


if __name__ == "__main__":
    unittest.main()
