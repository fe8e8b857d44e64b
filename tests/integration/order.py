#!/usr/bin/python3
"""When a batch starts: DELAY, AFTER, AFTEROK; and that it is so after kill -9, too."""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import encode, pairs
from scratch import scratch
from store_daemon import HOUR_MS, StoreTest
from time_limits import with_growing_limits


class InMemory(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def status(self, batch):
        return self.command.status(batch)

    def test_a_delayed_batch_starts_no_earlier(self):
        delay_ms = 300
        before = time.time() * 1000
        # One directly after the other, so that the delay is not over before it is looked at.
        self.command("MULTI")
        self.command("SUBMIT", "echo", "ID", "delayed", "DELAY", delay_ms, "JOBS", "a")
        self.command("EXPLAIN", "delayed")
        batch, explained = self.command("EXEC")
        explained = pairs(explained)
        self.assertEqual((explained["state"], explained["reason"]), ("queued", "delayed"))
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["ok"]), ("done", 1))
        self.assertGreaterEqual(status["started_at"], int(before) + delay_ms)

    def test_what_is_held_can_be_cancelled_and_its_deadline_counts(self):
        for held in (["DELAY", HOUR_MS], ["AFTER", self.command("OPEN", "echo")]):
            batch = self.command("SUBMIT", "echo", *held, "JOBS", "a", "b")
            self.assertEqual(self.command("CANCEL", batch), 2)
            self.assertEqual(self.command.wait(batch)["state"], "cancelled")
            batch = self.command("SUBMIT", "echo", *held, "DEADLINE", 20, "JOBS", "a", "b")
            self.assertEqual((self.command.wait(batch)["state"], self.command.results(batch)[0][2]), ("cancelled", "deadline passed"))

    def test_pause_and_delay_are_two_reasons(self):
        batch = self.command("SUBMIT", "echo", "DELAY", HOUR_MS, "JOBS", "a")
        self.command("PAUSE", batch)
        self.assertEqual(self.command.explain(batch)["reason"], "paused")
        self.command("RESUME", batch)
        self.assertEqual(self.command.explain(batch)["reason"], "delayed")
        # Paused before it has a job that could start when the delay is over.
        batch = self.command("OPEN", "echo", "DELAY", 50)
        self.command("PAUSE", batch)
        self.command("ADD", batch, "a")
        self.command("CLOSE", batch)
        over_ms = self.status(batch)["submitted_at"] + 50
        wait_for("the delay to be over", lambda: time.time() * 1000 > over_ms + 10)
        self.assertEqual(self.status(batch)["started_at"], 0)
        self.assertEqual(self.command.explain(batch)["reason"], "paused")
        self.command("RESUME", batch)
        self.assertEqual(self.command.wait(batch)["ok"], 1)

    def test_after_starts_when_the_others_are_over(self):
        first = self.command("OPEN", "echo")
        second = self.command("OPEN", "fail")
        self.command("ADD", second, "x")
        batch = self.command("SUBMIT", "echo", "AFTER", first, "after", second, "JOBS", "a", "b")
        self.assertEqual(self.command.explain(batch)["reason"], "after-batch")
        self.command("CLOSE", second)
        self.command.wait(second)
        self.assertEqual((self.command.explain(batch)["reason"], self.status(batch)["started_at"]), ("after-batch", 0))
        self.command("CLOSE", first)
        status = self.command.wait(batch)
        self.assertEqual((status["state"], status["ok"]), ("done", 2))
        self.assertGreaterEqual(status["started_at"], self.status(first)["finished_at"])

    def test_afterok_ends_cancelled_if_not_all_is_ok(self):
        good, bad, gone = (self.command("OPEN", handler) for handler in ("echo", "fail", "echo"))
        for batch in (good, bad, gone):
            self.command("ADD", batch, "x")
        waiting = {
            name: self.command("SUBMIT", "echo", *after, "JOBS", "a", "b")
            for name, after in {
                "good": ["AFTEROK", good],
                "bad": ["AFTEROK", good, "AFTEROK", bad],
                "gone": ["AFTEROK", gone],
                "stricter": ["AFTER", bad, "AFTEROK", bad],
                "any": ["AFTER", bad, "AFTER", gone, "AFTEROK", good],
            }.items()
        }
        self.command("PAUSE", gone)
        self.command("CANCEL", gone)
        for batch in (good, bad):
            self.command("CLOSE", batch)
        states = {name: self.command.wait(batch)["state"] for name, batch in waiting.items()}
        expected = {"good": "done", "bad": "cancelled", "gone": self.status(gone)["state"], "stricter": "cancelled", "any": "done"}
        self.assertEqual(states, expected)
        rows = [[0, "cancelled", f"not every job of the batch '{bad}' was ok"], [1, "cancelled", f"not every job of the batch '{bad}' was ok"]]
        self.assertEqual(self.command.results(waiting["bad"]), rows)

    def test_a_batch_that_is_named_in_two_ways_is_waited_for_once(self):
        first = self.command("OPEN", "echo")
        twice = self.command("SUBMIT", "echo", "AFTER", first, "AFTEROK", f"default/{first}", "AFTER", first, "JOBS", "a")
        self.assertEqual(self.command.explain(twice)["reason"], "after-batch")
        self.command("CLOSE", first)
        self.assertEqual(self.command.wait(twice)["ok"], 1)

    def test_what_is_over_already_decides_at_once(self):
        good, bad = self.command("SUBMIT", "echo", "JOBS", "a"), self.command("SUBMIT", "fail", "JOBS", "a")
        self.command.wait(good)
        self.command.wait(bad)
        for after, state in ((["AFTER", bad, "AFTEROK", good], "done"), (["AFTEROK", bad], "cancelled"), (["AFTEROK", bad, "DELAY", HOUR_MS], "cancelled")):
            self.assertEqual(self.command.wait(self.command("SUBMIT", "echo", *after, "JOBS", "a"))["state"], state)

    def test_ids_that_are_not_there_are_refused(self):
        self.assert_error("NOBATCH", self.command.ask("SUBMIT", "echo", "AFTER", "nobody", "JOBS", "a"))
        self.assert_error("NOBATCH", self.command.ask("RUN", "echo", "AFTEROK", "nobody", "JOBS", "a"))
        self.assert_error("ERR", self.command.ask("SUBMIT", "echo", "ID", "me", "AFTER", "me", "JOBS", "a"))
        self.assert_error("ERR", self.command.ask("OPEN", "echo", "AFTER", ""))
        self.assertEqual(self.command("LIST")[1], [])

    def test_a_repetition_finds_its_batch_though_the_others_have_gone(self):
        first = self.command("SUBMIT", "echo", "JOBS", "a")
        self.command("SUBMIT", "echo", "ID", "mine", "AFTER", first, "JOBS", "a")
        self.command.wait("mine")
        self.command("FORGET", first)
        self.assertEqual(self.command("SUBMIT", "echo", "ID", "mine", "AFTER", first, "JOBS", "a"), "mine")

    def test_a_batch_without_jobs_waits_too(self):
        gate = self.command("OPEN", "fail")
        self.command("ADD", gate, "x")
        barrier = self.command("SUBMIT", "echo", "AFTER", gate, "RANGE", 0, 0)
        strict = self.command("SUBMIT", "echo", "AFTEROK", gate, "RANGE", 0, 0)
        behind = self.command("SUBMIT", "echo", "AFTEROK", barrier, "JOBS", "a")
        delayed = self.command("SUBMIT", "echo", "DELAY", 50, "RANGE", 0, 0)
        self.assertEqual([self.status(batch)["state"] for batch in (barrier, strict, behind)], ["queued"] * 3)
        self.command("CLOSE", gate)
        self.assertEqual([self.command.wait(batch)["state"] for batch in (barrier, strict, behind, delayed)], ["done", "cancelled", "done", "done"])

    def test_run_and_open_wait_too(self):
        gate = self.command("OPEN", "echo")
        stream = self.command("OPEN", "echo", "AFTER", gate)
        self.assertEqual(self.command("ADD", stream, "a", "b"), 2)
        with self.daemon.connect() as runner:
            runner.send(encode("RUN", "echo", "AFTER", gate, "DELAY", 1, "JOBS", "r"))
            self.assertEqual(self.status(stream)["queued"], 2)
            self.command("CLOSE", gate)
            self.assertEqual(runner.read(), [["ok", "r"]])
        self.command("CLOSE", stream)
        self.assertEqual(self.command.wait(stream)["ok"], 2)
        with self.daemon.connect() as runner:
            runner.send(encode("RUN", "echo", "DELAY", HOUR_MS, "JOBS", "r"))
        self.assertEqual(self.command("RUN", "echo", "DELAY", HOUR_MS, "DEADLINE", 20, "JOBS", "a"), [["cancelled", "deadline passed"]])
        wait_for("the RUN whose client has gone to be forgotten", lambda: self.daemon.metrics()["locksley_lane_queued_jobs{lane=\"cpu\"}"] == 0)

    def test_a_long_chain_runs_and_breaks(self):
        links = 10_000
        for word, state in (("AFTER", "done"), ("AFTEROK", "cancelled")):
            with self.subTest(word):
                gate = self.command("OPEN", "fail", "ID", f"{word}-0")
                self.command("ADD", gate, "x")
                for begin in range(1, links, 500):
                    self.command.send(b"".join(encode("SUBMIT", "echo", "ID", f"{word}-{i}", word, f"{word}-{i - 1}", "JOBS", "a") for i in range(begin, begin + 500)))
                    for i in range(begin, begin + 500):
                        self.assertEqual(self.command.read(), f"{word}-{i}")
                self.command("CLOSE", gate)
                self.assertEqual(self.command.wait(f"{word}-{links}")["state"], state)

    def test_many_wait_for_one_and_one_for_many(self):
        gates = [self.command("OPEN", "echo") for _ in range(300)]
        words = [word for gate in gates for word in ("AFTER", gate)]
        behind = [self.command("SUBMIT", "echo", *words, "JOBS", str(i)) for i in range(20)]
        for gate in gates:
            self.assertEqual({self.status(batch)["ok"] for batch in behind}, {0})
            self.command("CLOSE", gate)
        for i, batch in enumerate(behind):
            self.assertEqual((self.command.wait(batch)["ok"], self.command.results(batch)), (1, [[0, "ok", str(i)]]))


class Deadline(DaemonTest):
    def test_what_runs_goes_on_and_nothing_else_starts(self):
        """The jobs run longer than the deadline, in a worker of the pool and in a process, which ends when the test has seen that the deadline has passed."""
        go = scratch(self) / "go"
        nap = {"command": ["sh", "-c", f"until [ -e {go} ]; do sleep 0.01; done; echo up"], "concurrency": 1}
        daemon = self.start({"pool": {"workers": 1}, "handlers": {"nap": nap}})
        command = self.connect(daemon)

        def attempt(ms, _):
            """False if no job had begun when the deadline passed."""
            go.unlink(missing_ok=True)
            batches = {
                command("SUBMIT", "sleep", "DEADLINE", ms, "RETRIES", 5, "JOBS", ms + 500, 0): "",
                command("SUBMIT", "nap", "DEADLINE", ms, "JOBS", "a", "b"): "up\n",
            }
            wait_for("the deadlines to pass", lambda: all(command.status(batch)["cancelled"] for batch in batches))
            go.touch()
            for batch, output in batches.items():
                status = command.wait(batch)
                self.assertEqual(status["state"], "cancelled")
                if status["cancelled"] == 2:
                    return False
                self.assertEqual(sorted(command.results(batch)), [[0, "ok", output], [1, "cancelled", "deadline passed"]])
            return True

        with_growing_limits(attempt)

    def test_cancel_stops_what_the_deadline_let_run(self):
        daemon = self.start()
        command = self.connect(daemon)

        def attempt(ms, _):
            batch = command("SUBMIT", "sleep", "DEADLINE", ms, "SLOTS", 1, "JOBS", HOUR_MS, 0)
            if wait_for("the deadline to pass", lambda: command.status(batch)["cancelled"] or None) == 2:
                return False  # no job had begun by then
            self.assertEqual(command.status(batch)["running"], 1)
            self.assertEqual(command("CANCEL", batch), 0)
            self.assertEqual(command.wait(batch)["cancelled"], 2)
            return True

        with_growing_limits(attempt)

    def test_run_has_the_same_deadline(self):
        daemon = self.start({"pool": {"workers": 1}})
        command = self.connect(daemon)

        def attempt(ms, _):
            rows = command("RUN", "sleep", "DEADLINE", ms, "JOBS", ms + 500, 0)
            self.assertEqual(rows[1], ["cancelled", "deadline passed"])
            self.assertIn(rows[0], (["ok", ""], rows[1]))
            return rows[0] == ["ok", ""]  # or it had not begun by then

        with_growing_limits(attempt)


class Stored(StoreTest):
    def test_a_batch_without_jobs_is_accepted_before_it_is_done(self):
        self.begin()
        with self.daemon.connect() as listener:
            listener.send(encode("SUBSCRIBE", "batches"))
            listener.read()
            for submit in (["SUBMIT", "echo", "ID", "empty", "RANGE", 0, 0], ["SUBMIT", "echo", "ID", "late", "DELAY", 1, "RANGE", 0, 0]):
                batch = self.command(*submit)
                heard = [json.loads(listener.read()[2]) for _ in range(2)]
                self.assertEqual([(event["batch"], event["event"], event["retried"]) for event in heard], [(batch, "accepted", 0), (batch, "done", 0)])
            self.command.send(encode("OPEN", "echo", "ID", "opened") + encode("CANCEL", "opened"))
            heard = [json.loads(listener.read()[2])["event"] for _ in range(2)]
            self.assertEqual(heard, ["accepted", "cancelled"])

    def test_a_delay_is_kept(self):
        self.begin()
        delay_ms = 1500
        before = int(time.time() * 1000)
        soon = self.command("SUBMIT", "echo", "DELAY", delay_ms, "JOBS", "a")
        late = self.command("SUBMIT", "echo", "DELAY", HOUR_MS, "JOBS", "a")
        self.kill_and_begin()
        self.assertEqual(self.command.explain(late)["reason"], "delayed")
        self.assertGreaterEqual(self.command.wait(soon)["started_at"], before + delay_ms)
        self.kill_and_begin()
        self.assertEqual((self.status(late)["state"], self.status(late)["started_at"]), ("queued", 0))
        self.assertEqual(self.command.explain(late)["reason"], "delayed")
        self.assertEqual(self.command("CANCEL", late), 1)
        passed = self.command("SUBMIT", "echo", "DELAY", 100, "JOBS", "a")
        self.kill()
        time.sleep(0.2)
        self.begin()
        self.assertEqual(self.command.wait(passed)["ok"], 1)

    def test_what_waits_goes_on_waiting(self):
        self.begin()
        gate, bad = self.command("OPEN", "echo"), self.command("OPEN", "fail")
        self.command("ADD", bad, "x")
        behind = self.command("SUBMIT", "echo", "AFTER", gate, "AFTER", bad, "JOBS", "a")
        strict = self.command("SUBMIT", "echo", "AFTEROK", bad, "AFTEROK", gate, "JOBS", "a")
        last = self.command("SUBMIT", "echo", "AFTER", strict, "AFTEROK", behind, "JOBS", "a")
        self.kill_and_begin()
        for batch in (behind, strict, last):
            self.assertEqual(self.command.explain(batch)["reason"], "after-batch")
        self.command("CLOSE", bad)
        self.assertEqual(self.command.wait(strict)["state"], "cancelled")
        self.settle()
        self.assertEqual(self.command("FORGET", bad), 1)
        self.kill_and_begin()
        self.assertEqual(self.status(strict)["state"], "cancelled")
        self.assertEqual(self.command.explain(behind)["reason"], "after-batch")
        self.command("CLOSE", gate)
        for batch in (behind, last):
            self.assertEqual(self.command.wait(batch)["state"], "done")

    def test_what_was_released_stays_so_though_the_others_have_gone(self):
        self.begin_held()
        first = self.command("SUBMIT", "echo", "EPHEMERAL", "RANGE", 0, 0)
        gates = [self.command("OPEN", "echo") for _ in range(20)]
        behind = self.command("SUBMIT", "echo", *[word for gate in gates for word in ("AFTEROK", gate)], "AFTER", first, "JOBS", "a")
        for gate in gates[:-1]:
            self.command("CLOSE", gate)
            self.command.wait(gate)
            self.assertEqual(self.command("FORGET", gate), 1)
        self.kill_and_begin()
        self.assertEqual(self.command.explain(behind)["reason"], "after-batch")
        self.command("CLOSE", gates[-1])
        self.assertEqual(self.command.wait(behind)["state"], "done")

    def test_what_is_lost_with_the_memory_was_not_ok(self):
        self.begin()
        lost = self.command("OPEN", "echo", "EPHEMERAL")
        loose, strict = (self.command("SUBMIT", "echo", word, lost, "JOBS", "a") for word in ("AFTER", "AFTEROK"))
        self.kill_and_begin()
        self.assertEqual(self.command.wait(loose)["state"], "done")
        self.assertEqual(self.command.wait(strict)["state"], "cancelled")
        self.assertIn(lost, self.command.results(strict)[0][2])

    def test_a_batch_that_somebody_waits_for_is_never_in_doubt(self):
        """Killed at random moments while chains run: each link ran once the one before it was over, whatever was forgotten."""
        self.begin()
        for round_ in range(5):
            ids = [f"{round_}-{i}" for i in range(60)]
            self.command("SUBMIT", "spin", "ID", ids[0], "RANGE", 0, 50, 100)
            for before, id_ in zip(ids, ids[1:]):
                self.command("SUBMIT", "echo", "ID", id_, "AFTEROK", before, "JOBS", "a")
            for id_ in ids[: round_ * 10]:
                self.command.wait(id_)
                self.command("FORGET", id_)
            time.sleep(0.002 * round_)
            self.kill_and_begin()
            self.assertEqual(self.command.wait(ids[-1])["state"], "done")

    def test_the_end_does_not_wait_for_what_is_held(self):
        self.begin()
        batches = [self.command("SUBMIT", "echo", "DELAY", HOUR_MS, "JOBS", "a")]
        batches.append(self.command("SUBMIT", "echo", "AFTER", batches[0], "JOBS", "a"))
        self.stop(code=0)
        self.begin()
        self.assertEqual([self.command.explain(batch)["reason"] for batch in batches], ["delayed", "after-batch"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
