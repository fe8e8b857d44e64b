#!/usr/bin/python3
"""The longest stretch of the I/O thread while an admin looks at thousands of users. As io_stretch.py, which has the other costly commands."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from io_stretch import once_of_three
from io_stretch_pages import LoggedIn


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
