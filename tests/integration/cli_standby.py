#!/usr/bin/python3
"""The program locksley and several daemons, of which one serves: it finds that one, follows a daemon on standby, and waits for one that takes over."""

import json
import pathlib
import signal
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import UNAVAILABLE, USAGE, CliTest
from locksley_daemon import wait_for
from scripted_standby import ScriptedStandby

LOADING = "LOADING the daemon reads the store"


class Standby(CliTest):
    settings = {"shutdown": {"drain_timeout": "1ms"}}

    def setUp(self):
        super().setUp()
        self.active = f"{self.daemon.host}:{self.daemon.port}"

    def standby(self, say=None):
        made = ScriptedStandby(say or (lambda words: f"READONLY the active daemon is {self.active}"))
        self.addCleanup(made.close)
        return made

    def gone(self):
        """An address at which connections are refused: the port is bound, so no other program gets it."""
        bound = socket.socket()
        self.addCleanup(bound.close)
        bound.bind(("127.0.0.1", 0))
        return "{}:{}".format(*bound.getsockname())

    def printed(self, *arguments, **more):
        """On standard output: `run` also has a summary, on the other."""
        return self.run_cli(*arguments, **more).stdout.decode()

    def test_a_list_finds_the_daemon_that_serves(self):
        for addresses in (f"{self.gone()},{self.active}", f"{self.active},{self.gone()}", f"{self.gone()},{self.standby().address},{self.active}"):
            with self.subTest(addresses):
                self.assertEqual(self.printed("--server", addresses, "run", "echo", "a"), "a\n")
                self.assertEqual(self.printed("--url", f"redis://{addresses}/0", "run", "echo", "b"), "b\n")
                self.environment["LOCKSLEY_URL"] = f"redis://{addresses}"
                self.assertEqual(self.printed("run", "echo", "c"), "c\n")

    def test_every_kind_of_command_follows_a_standby_also_from_one_address(self):
        standby = self.standby()
        self.environment["LOCKSLEY_URL"] = f"redis://{standby.address}"
        batch = self.out("submit", "echo", "a", "b").strip()
        self.assertEqual(self.json("wait", batch)["ok"], 2)
        self.assertEqual(self.out("results", "--ordered", batch), "a\nb\n")
        self.assertEqual(self.json("job", batch, 1)["output"], "b")
        self.assertEqual([one["id"] for one in self.json("list")], [batch])
        self.assertEqual(self.printed("run", "--ordered", "echo", stdin=b"x\n" * 20_000).count("x"), 20_000)  # a stream
        self.assertGreater(json.loads(self.out("--json", "bench", "--jobs", "100", "--batch", "10"))["jobs_per_second"], 0)
        self.assertEqual(self.json("forget", batch), {"id": batch, "forgotten": True})
        shown = self.out("top", "--once")
        self.assertRegex(shown, rf"(?m)^locksley \S+  {self.active}\b", "it says at which daemon it looks")
        self.assertTrue(standby.commands)

    def test_one_that_takes_over_is_asked_until_it_serves(self):
        replies = [LOADING, f"READONLY the active daemon is {self.gone()}", LOADING]
        standby = self.standby(lambda words: replies.pop(0) if replies else f"READONLY the active daemon is {self.active}")
        self.assertEqual(self.printed("--server", standby.address, "run", "echo", "a"), "a\n")
        self.assertEqual(replies, [])

    def test_the_list_goes_on_when_the_daemon_that_served_is_gone(self):
        other = self.start()
        process = self.popen("--server", f"{self.active},{other.host}:{other.port}", "submit", "--id", "moved", "echo")
        process.stdin.write(b"first\n")
        process.stdin.flush()
        # Its reply is sent then; a client that had none would ask the other daemon at once, and end before it reads more.
        wait_for("the stream's first job", lambda: any(row["id"] == "moved" and row["jobs"] == 1 for row in self.command.listed()))
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        # The other daemon has another store, and so no such batch: that it says so shows that it was asked.
        process.stdin.write(b"second\n")
        process.stdin.close()
        self.assertNotEqual(self.end_of(process, "submit"), 0)
        self.assertIn(b"the daemon no longer knows the batch", process.stderr.read())

    def test_what_cannot_be_reached_is_named(self):
        one, other = self.gone(), self.gone()
        refused = self.run_cli("--server", one, "status", "x", code=UNAVAILABLE).stderr.decode()
        self.assertRegex(refused, rf"^locksley: {one}: cannot connect: ")
        self.assertIn("the host is missing", self.run_cli("--server", f"{one},", "ping", code=USAGE).stderr.decode())


if __name__ == "__main__":
    unittest.main()
