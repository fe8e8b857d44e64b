#!/usr/bin/python3
"""What the store promises of a daemon that ends by itself: cursors, open batches and the rest of the work go on at the next start."""

import pathlib
import re
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from store_daemon import HOUR_MS, StoreTest

OK, TEMPORARY, TERMINATED = 0, 75, 143


class CleanEnd(StoreTest):
    def test_cursors_mean_the_same_rows(self):
        self.begin({"pool": {"workers": 2}})
        over = self.command("SUBMIT", "echo", "RANGE", 0, 2500)
        stream = self.command("OPEN", "echo")
        for i in range(20):
            self.command("ADD", stream, *[f"{i}.{j}" for j in range(50)])
        self.command.wait(over)
        wait_for("the stream's jobs to end", lambda: self.status(stream)["ok"] == 1000)
        pages = {}
        for batch in (over, stream):
            cursor = "0"
            while not pages.get((batch, cursor)):
                came_to, rows = self.command("RESULTS", batch, "FROM", cursor, "COUNT", 300)
                if rows:
                    pages[batch, cursor] = [came_to, rows]
                cursor = came_to
                if cursor == "0" or not rows:
                    break
        self.assertGreater(len(pages), 10)
        for restart in (self.stop_and_begin, self.kill_and_begin):
            restart()
            for (batch, cursor), page in pages.items():
                self.assertEqual(self.command("RESULTS", batch, "FROM", cursor, "COUNT", 300), page)
        last = max(int(came_to) for (batch, _), (came_to, _) in pages.items() if batch == stream)
        self.assertEqual(self.command("RESULTS", stream, "FROM", last), [str(last), []])
        self.command("ADD", stream, "one more")
        self.assertEqual(self.command("RESULTS", stream, "FROM", last, "BLOCK", 10_000)[1], [[1000, "ok", "one more"]])

    def test_what_is_open_stays_open_and_does_not_keep_the_daemon(self):
        self.begin()
        stream = self.command("OPEN", "echo")
        self.command("ADD", stream, "a", "b")
        wait_for("its jobs to end", lambda: self.status(stream)["ok"] == 2)
        self.stop_and_begin()
        self.assertEqual(self.status(stream)["state"], "open")
        self.assertEqual(self.command("ADD", stream, "c"), 3)
        self.command("CLOSE", stream)
        self.assert_whole(stream, [["ok", "a"], ["ok", "b"], ["ok", "c"]])

    def test_the_rest_goes_on_when_the_time_to_drain_has_run_out(self):
        def interrupted(jobs):
            """False if all jobs had ended before the signal, or before PAUSE: for that the machine was too slow."""
            self.begin({"shutdown": {"drain_timeout": "100ms"}, "pool": {"workers": 2}})
            batch = self.command("SUBMIT", "sleep", "RANGE", 0, jobs, 10)
            wait_for("some jobs to end", lambda: self.status(batch)["ok"] >= 10)
            seen, rows = self.status(batch)["ok"], self.command("RESULTS", batch)[1]
            self.daemon.send_signal(signal.SIGTERM)
            if self.daemon.wait_end() == OK:
                self.assertIn("draining", self.daemon.log())
                return False
            left = re.search(rf"batch left unfinished batch={batch} .*queued=(\d+).* ok=(\d+)", self.daemon.log())
            self.assertTrue(left, self.daemon.log())
            self.assertEqual(self.daemon.process.returncode, TEMPORARY)
            self.begin({"pool": {"workers": 2}})
            self.command("PAUSE", batch)
            status = self.status(batch)
            if status["state"] == "done":
                self.stop()
                return False
            self.assertGreaterEqual(status["ok"], max(seen, int(left[2])))
            self.assertEqual((status["state"], status["cancelled"]), ("running", 0))
            self.assertEqual(self.command("RESULTS", batch, "COUNT", len(rows))[1], rows)
            self.command("RESUME", batch)
            self.assert_whole(batch, [["ok", ""]] * jobs)
            ran = self.daemon.metrics()['locksley_jobs_total{handler="sleep",status="ok"}']
            self.assertLessEqual(ran, jobs - int(left[2]), "none runs again")
            return True

        self.assertTrue(any(map(interrupted, (400, 4000))), "jobs of 20 s have ended too early")

    def test_a_job_that_takes_too_long_is_left_for_the_next_start(self):
        self.begin({"shutdown": {"drain_timeout": "100ms"}})
        batch = self.command("SUBMIT", "sleep", "JOBS", 1, HOUR_MS, 1)
        wait_for("the long job to run", lambda: self.status(batch)["ok"] == 1 and self.status(batch)["running"])
        self.stop(TEMPORARY)
        self.begin()
        status = self.status(batch)
        self.assertEqual((status["state"], status["ok"], status["cancelled"]), ("running", 1, 0))
        self.daemon.send_signal(15)
        self.daemon.wait_for_log("draining")
        self.stop(TERMINATED)
        self.begin()
        self.assertEqual((self.status(batch)["ok"], self.status(batch)["cancelled"]), (1, 0))
        self.command("CANCEL", batch)
        self.assertEqual(self.command.wait(batch)["cancelled"], 2)


if __name__ == "__main__":
    unittest.main()
