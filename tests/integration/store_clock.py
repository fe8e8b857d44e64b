#!/usr/bin/python3
"""A wall clock that jumps by weeks between the end of a daemon and the next start on its store. libfaketime sets the clock of the daemon alone; the
monotonic clock stays as it is."""

import os
import pathlib
import re
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from store_daemon import HOUR_MS, StoreTest

(LIBRARY,) = pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")
DAY_MS = 24 * HOUR_MS


class Jumps(StoreTest):
    def setUp(self):
        super().setUp()
        self.begin()
        self.command("SUBMIT", "echo", "ID", "kept", "RETAIN", HOUR_MS, "JOBS", "a result")
        self.command.wait("kept")
        self.command("SUBMIT", "echo", "ID", "delayed", "DELAY", 2000, "JOBS", "x")
        self.command("SUBMIT", "echo", "ID", "held", "DEADLINE", HOUR_MS, "DELAY", HOUR_MS // 2, "JOBS", "x")
        self.command("PAUSE", "held")
        self.settle()
        self.stop()

    def begin_after(self, days):
        fake = {"LD_PRELOAD": str(LIBRARY), "FAKETIME": f"{days:+d}d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        with mock.patch.dict(os.environ, fake):
            self.begin()
        # What is due at once is done before that: it comes first in the order of what is due.
        self.command("SUBMIT", "echo", "ID", "due", "RETAIN", 1, "JOBS", "x")
        wait_for("a batch of now to be forgotten", lambda: "due" not in self.listed())

    def assert_all_there(self, days):
        self.assertEqual(self.command.results("kept"), [[0, "ok", "a result"]])
        self.assertEqual(self.command("SUBMIT", "echo", "ID", "kept", "RETAIN", HOUR_MS, "JOBS", "a result"), "kept", "it is known, and does not run again")
        self.assertEqual(self.status("held")["cancelled"], 0, "its deadline has not passed")
        self.assertEqual(self.command.wait("delayed")["ok"], 1, "its two seconds are over")
        for line in ("store: read ", "store: the wall clock stands before|store: the newest time in the store is old"):
            (found,) = re.findall(rf"(?:{line}).*newest_time_age_ms=(-?\d+)", self.daemon.log())
            self.assertAlmostEqual(int(found) / DAY_MS, days, delta=0.1)

    def test_weeks_forward(self):
        self.begin_after(days=21)
        self.assert_all_there(days=21)

    def test_weeks_back(self):
        self.begin_after(days=-21)
        self.assert_all_there(days=-21)
        # And with the right time again; what was written meanwhile has the wrong one.
        self.stop()
        self.begin()
        self.assertEqual(self.command.results("kept"), [[0, "ok", "a result"]])
        self.assertEqual(self.status("delayed")["ok"], 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
