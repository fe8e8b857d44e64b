#!/usr/bin/python3
"""The JSON that requests under /api/ bring."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from api import OURS, ask, get, post
from store_daemon import HOUR_MS
from users import UsersTest


class Bodies(UsersTest):
    def test_a_key_that_is_there_twice_is_named(self):
        self.daemon = self.start()
        self.wire = self.connect(self.daemon)
        id_ = self.wire("SUBMIT", "sleep", "DELAY", HOUR_MS, "JOBS", "1")
        twice = lambda key: (400, {"error": f'ERR the body has "{key}" twice: a key may appear once'})
        for action, body, key in (
            ("weight", '{"weight": 3, "weight": 4}', "weight"), ("weight", '{"weight": 3, "weigh\\u0074": 3}', "weight"), ("slots", '{"slots": 1, "slots": 1}', "slots"),
            ("retry", '{"round": 0, "indexes": [1], "round": 0}', "round"), ("pause", '{"x": [{"y": 1, "y": 2}, {"y": 3}]}', "y"),
        ):  # fmt: skip
            self.assertEqual(post(self.daemon, id_, action, body), twice(key), body)
        self.assertEqual(post(self.daemon, id_, "pause", '{"x": {"y": 1}, "y": 2}')[1], {"error": "ERR the body must be {}"}, "keys of two objects")
        row = get(self.daemon, f"/api/batches/{id_}")
        self.assertEqual((row["weight"], row["slots"], row["paused"]), (1, 0, False))
        restart = lambda body: ask(self.daemon, "POST", "/api/handlers/echo/restart", body=body, headers=OURS)[:2]
        self.assertEqual(restart('{"x": 1, "x": 1}'), twice("x"))
        change = lambda body: ask(self.daemon, "POST", "/api/customers/acme/set", body=body, headers=OURS)[:2]
        self.assertEqual(change('{"weight": 3, "rate": "1/s", "weight": 5}'), twice("weight"))
        self.assertEqual(get(self.daemon, "/api/customers/acme")["weight"], 1)


if __name__ == "__main__":
    unittest.main()
