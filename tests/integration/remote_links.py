#!/usr/bin/python3
"""Connections of remote workers that are slow, or change their user."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, merged
from remote_worker import RemoteWorker, port_for_workers, wait_for_machines
from resp import Connection, encode
from users import ALL, PASSWORD, users

SETTINGS = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}}


class SlowLinks(DaemonTest):
    LEASE_S = 1

    def test_a_payload_that_comes_for_longer_than_a_lease(self):
        """The worker sends BEATs meanwhile, which the daemon reads only once the payload is out."""
        size, seconds = 8 << 20, 3 * self.LEASE_S
        daemon = self.start(SETTINGS)
        client = self.connect(daemon)
        batch = client("SUBMIT", "shout", "JOBS", "x" * size)
        worker = Connection("127.0.0.1", port_for_workers(daemon), receive_buffer=64 << 10)
        self.addCleanup(worker.close)
        worker("JOIN", "slow", "SLOTS", 1, "LEASE", self.LEASE_S * 1000, "HANDLERS", "shout")
        worker.send(encode("CLAIM", "BLOCK", 30_000))
        received, beats, began = bytearray(), 0, time.monotonic()
        while len(received) < size:
            received += worker.socket.recv(64 << 10)
            time.sleep(max(0, began + seconds * len(received) / size - time.monotonic()))
            if time.monotonic() - began > beats * self.LEASE_S / 3:
                worker.send(encode("BEAT"))
                beats += 1
        worker.buffer += received
        lease = worker.read()
        self.assertEqual([worker.read() for _ in range(beats)], [[]] * beats)
        self.assertEqual(worker("SETTLE", lease[0], "ok", 0, "done"), [1, 0])
        self.assertEqual(client.wait(batch)["ok"], 1)


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
