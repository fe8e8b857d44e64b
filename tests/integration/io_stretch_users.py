#!/usr/bin/python3
"""The longest stretch of the I/O thread while an admin looks at thousands of users. As io_stretch.py, which has the other costly commands."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from io_stretch import once_of_three
from io_stretch_pages import LoggedIn
from resp import Error


class Users(LoggedIn):
    """One look at the metrics, at the end: it sums over all tenants itself."""

    user = "root"
    MORE_USERS = 5_000

    @once_of_three
    def test_the_configuration_key_by_key(self):
        for _ in range(3):
            self.assertEqual(self.command.map("CONFIG", "GET", "save"), {"save": ""})
            weights = self.command.map("CONFIG", "GET", "users.*.weight")
            self.assertEqual(len(weights), self.MORE_USERS + 2)
            self.assertEqual(set(weights.values()), {"1"})
        self.note_longest(f"CONFIG GET with {self.MORE_USERS} users")

    @once_of_three
    def test_the_configuration_is_changed(self):
        for values in (("log.level", "debug"), ("log.level", "info"), ("limits.open_timeout", "2h")):
            self.assertEqual(self.command("CONFIG", "SET", *values), "OK")
        self.assertIsInstance(self.command.ask("CONFIG", "SET", "limits.open_timeout", "soon"), Error)
        self.assertIsInstance(self.command.ask("CONFIG", "SET", "users.u1.weight", "2"), Error)
        self.note_longest(f"CONFIG SET with {self.MORE_USERS} users")

    @once_of_three
    def test_the_configuration_is_read_again(self):
        self.assertEqual(self.command("CONFIG", "RELOAD"), "OK")
        self.note_longest(f"CONFIG RELOAD with {self.MORE_USERS} users")

    @once_of_three
    def test_the_overview_of_tenants(self):
        self.pipelined([("SUBMIT", "echo", "FOR", f"u{i}/c", "EPHEMERAL", "DELAY", 600_000, "JOBS", "") for i in range(self.MORE_USERS)])
        for _ in range(3):
            status, text = self.daemon.get("/api/overview")
            self.assertEqual(status, 200, text)
            tenants = {tenant["tenant"]: tenant for tenant in json.loads(text)["tenants"]}
            self.assertGreaterEqual(set(tenants), {f"u{i}" for i in range(self.MORE_USERS)})
        self.note_longest(f"the overview with {self.MORE_USERS} tenants")


if __name__ == "__main__":
    unittest.main()
