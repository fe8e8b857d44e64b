#!/usr/bin/python3
"""Connections of remote workers that change their user."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, merged
from remote_worker import RemoteWorker, wait_for_machines
from resp import Connection
from users import ALL, PASSWORD, users

SETTINGS = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}}


class Logins(DaemonTest):
    def test_a_worker_that_has_joined_keeps_its_user(self):
        handlers = {"handlers": ["shout"]}
        settings = users(first={"commands": ["work"], **handlers}, second={"commands": ["work"], **handlers}, boss={"commands": ALL, **handlers})
        daemon = self.start(merged(SETTINGS, settings))
        worker = RemoteWorker(daemon, "shout", user="first", password=PASSWORD.format("first"))
        self.addCleanup(worker.close)
        second = ("second", PASSWORD.format("second"))
        refusal = "ERR this connection has joined as the user first: LEAVE first"
        self.assertEqual(worker.ask("AUTH", *second), refusal)
        self.assertEqual(worker.ask("HELLO", 2, "AUTH", *second), refusal)
        self.assertEqual(worker("AUTH", "first", PASSWORD.format("first")), "OK")
        boss = Connection(daemon.host, daemon.port)
        self.addCleanup(boss.close)
        boss("AUTH", "boss", PASSWORD.format("boss"))
        self.assertEqual([machine["user"] for machine in wait_for_machines(boss, 1)], ["first"])
        self.assertEqual(worker("LEAVE"), "OK")
        self.assertEqual(worker("AUTH", *second), "OK")


if __name__ == "__main__":
    unittest.main()
