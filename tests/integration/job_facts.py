#!/usr/bin/python3
"""One job in the hand: JOB, LOG and RUNNING, for jobs of commands, of workers and of the pool; progress and notes, and the note that reaches the
next attempt; in memory and in the store, across kill -9; permissions, RESP3 and the JSON API; and many jobs that write without end."""

import json
import pathlib
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, merged, wait_for
from neighbour import Timer
from resp import encode
from store_daemon import HOUR_MS, StoreTest

TALKER = """
import os, sys, time
note = os.environ.get("LOCKSLEY_NOTE", "-")
payload = sys.stdin.read()
print("note before:", note, file=sys.stderr)
if payload == "fail":
    print("checkpoint", os.environ["LOCKSLEY_ATTEMPT"], file=sys.stderr)
    sys.exit(3)
if payload == "once" and note == "-":
    print("half", file=sys.stderr)
    sys.exit(1)
if payload.startswith("wait"):
    print("waits", file=sys.stderr, flush=True)
    while not os.path.exists(payload[4:]):
        time.sleep(0.01)
print("done", file=sys.stderr)
print(payload, end="")
"""
# Protocol 1: messages before the answer, and standard error.
WORKER = """
import os, sys, time
def read():
    def line(): return sys.stdin.buffer.readline()
    if not line(): sys.exit()
    words = []
    for _ in range(3):
        size = int(line()[1:]); words.append(sys.stdin.buffer.read(size).decode()); line()
    return words
def say(text):
    sys.stdout.buffer.write(text.encode()); sys.stdout.buffer.flush()
def bulk(text): return f"${len(text.encode())}\\r\\n{text}\\r\\n"
while True:
    payload, index, batch = read()
    print("works on", payload, file=sys.stderr, flush=True)
    say("*2\\r\\n" + bulk("progress") + ":40\\r\\n")
    say("*2\\r\\n" + bulk("note") + bulk("at " + payload))
    while payload.startswith("wait") and not os.path.exists(payload[4:]):
        time.sleep(0.01)
    if payload == "wrong": say("*2\\r\\n" + bulk("progress") + ":101\\r\\n")
    if payload == "fail": say("-ERR no\\r\\n")
    else: say(bulk(payload))
"""
FLOOD = """
import os, sys
chunk = b"x" * 65535 + b"\\n"
while True: os.write(2, chunk)
"""


def handlers():
    python = sys.executable
    return {"handlers": {"talk": {"command": [python, "-c", TALKER], "concurrency": 2},
                         "work": {"worker": [python, "-c", WORKER], "concurrency": 2},
                         "flood": {"command": [python, "-c", FLOOD], "concurrency": 40}},
            "lanes": {"processes": {"slots": 44}}}


def as_map(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


class JobTest(DaemonTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="locksley-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.daemon = self.start(handlers())
        self.command = self.connect(self.daemon)

    def job(self, batch, index=0):
        return as_map(self.command("JOB", batch, index))

    def go(self):
        return self.folder / "go"


class OneJob(JobTest):
    def test_a_command_that_failed_has_everything(self):
        before = time.time() * 1000
        batch = self.command("SUBMIT", "talk", "JOBS", "fine", "fail")
        self.command.wait(batch)
        job = self.job(batch, 1)
        self.assertEqual((job["status"], job["attempt"], job["exit_status"], job["payload"]), ("error", 1, 3, "fail"))
        self.assertTrue(job["worker"].startswith("processes/"), job)
        self.assertTrue(before - 1000 <= job["started_at"] <= job["finished_at"] <= time.time() * 1000 + 1000, job)
        self.assertAlmostEqual(job["finished_at"] - job["started_at"], job["duration_us"] / 1000, delta=2)
        self.assertGreater(job["duration_us"], 1000)
        self.assertEqual((job["note"], job["progress"]), ("checkpoint 1", None))
        log = "note before: -\ncheckpoint 1\n"
        self.assertEqual(job["log_bytes"], len(log))
        self.assertEqual(self.command("LOG", batch, 1), [len(log), log])
        self.assertEqual(self.command("LOG", batch, 1, "FROM", 15), [len(log), "checkpoint 1\n"])
        good = self.job(batch, 0)
        self.assertEqual((good["status"], good["output"], good["exit_status"], good["payload"], good["note"]), ("ok", "fine", 0, None, "done"))
        self.assertEqual(self.command("LOG", batch, 0)[1], "note before: -\ndone\n", "of jobs that succeed, too")

    def test_a_job_is_watched_while_it_runs(self):
        go = self.go()
        batch = self.command("SUBMIT", "talk", "JOBS", f"wait{go}")
        log = "note before: -\nwaits\n"
        wait_for("the job to write", lambda: self.job(batch)["log_bytes"] == len(log))
        job = self.job(batch)
        self.assertEqual((job["status"], job["note"], job["output"], job["payload"], job["finished_at"]), ("running", "waits", None, f"wait{go}", 0))
        self.assertEqual(self.command("LOG", batch, 0), [len(log), log])
        self.assertEqual(self.command("LOG", batch, 0, "FROM", len(log), "BLOCK", 5), [len(log), ""])
        row, = self.command("RUNNING", batch)
        self.assertEqual((row[0], row[1], row[2], row[4], row[5], row[6]), (batch, 0, 1, job["worker"], None, "waits"))
        self.assertGreater(row[3], 0)
        with self.daemon.connect() as follower:
            follower.send(encode("LOG", batch, 0, "FROM", len(log), "BLOCK", 0))
            time.sleep(0.05)
            go.touch()
            self.assertEqual(follower.read(), [len(log) + 5, "done\n"], "as soon as there is more")
            self.assertEqual(follower("LOG", batch, 0, "FROM", len(log) + 5, "BLOCK", 0), [len(log) + 5, ""], "the job has ended")
        self.command.wait(batch)
        self.assertEqual(self.command("RUNNING", batch), [])

    def test_a_follower_waits_for_a_job_that_is_queued(self):
        first = self.command("SUBMIT", "talk", "JOBS", f"wait{self.go()}", f"wait{self.go()}")
        wait_for("both places to be taken", lambda: len(self.command("RUNNING", first)) == 2)
        self.command("SUBMIT", "talk", "ID", "b", "JOBS", "x")
        self.assertEqual(self.command("LOG", "b", 0), [0, ""])
        with self.daemon.connect() as follower:
            follower.send(encode("LOG", "b", 0, "BLOCK", 0))
            wait_for("the follower to wait", lambda: "blocked_clients:1" in self.command("INFO", "clients"))
            self.go().touch()
            next_offset, text = follower.read()
        self.assertTrue(text.startswith("note before: -\n"), text)
        self.assertEqual(next_offset, len(text))

    def test_a_follower_goes_with_a_job_that_moves_to_another_lane(self):
        first = self.command("SUBMIT", "talk", "JOBS", f"wait{self.go()}", f"wait{self.go()}")
        wait_for("both places to be taken", lambda: len(self.command("RUNNING", first)) == 2)
        batch = self.command("SUBMIT", "talk", "JOBS", f"wait{self.folder / 'never'}")
        with self.daemon.connect() as follower:
            follower.send(encode("LOG", batch, 0, "BLOCK", 0))
            wait_for("the follower to wait", lambda: "blocked_clients:1" in self.command("INFO", "clients"))
            changed = merged(handlers(), {"handlers": {"talk": {"lane": "other"}}, "lanes": {"other": {"slots": 2}}})
            self.daemon.configure(changed)
            self.command("CONFIG", "RELOAD")
            self.go().touch()
            self.assertTrue(follower.read()[1].startswith("note before: -\n"))
        self.assertTrue(self.job(batch)["worker"].startswith("other/"))
        self.command("CANCEL", batch)

    def test_running_lists_the_longest_first(self):
        go = self.go()
        first = self.command("SUBMIT", "talk", "JOBS", f"wait{go}")
        wait_for("the first to run", lambda: self.command("RUNNING", first))
        time.sleep(0.02)
        second = self.command("SUBMIT", "work", "JOBS", f"wait{go}")
        native = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS)
        wait_for("all to run", lambda: len(self.command("RUNNING")) == 3)
        rows = self.command("RUNNING")
        self.assertEqual(rows[0][:2], [first, 0])
        self.assertEqual(sorted(row[0] for row in rows), sorted([first, second, native]))
        self.assertEqual([row[3] for row in rows], sorted((row[3] for row in rows), reverse=True))
        self.assertEqual([row[0] for row in self.command("RUNNING", "COUNT", 1)], [first])
        self.assertTrue(next(row for row in rows if row[0] == native)[4].startswith("pool/"))
        self.assertEqual(self.job(native)["status"], "running")
        self.assertTrue(self.job(native)["worker"].startswith("pool/"))
        self.command("CANCEL", native)
        go.touch()
        for batch in (first, second, native):
            self.command.wait(batch)
        self.assertEqual(self.job(native)["status"], "cancelled")
        self.assertEqual(self.command("RUNNING"), [])

    def test_a_worker_says_how_far_it_is(self):
        go = self.go()
        batch = self.command("SUBMIT", "work", "JOBS", f"wait{go}")
        wait_for("a note, and what it wrote, which comes by another pipe", lambda: self.job(batch)["note"] and self.job(batch)["log_bytes"] > 0)
        job = self.job(batch)
        self.assertEqual((job["status"], job["progress"], job["note"]), ("running", 40, f"at wait{go}"))
        self.assertEqual(self.command("LOG", batch, 0)[1], f"works on wait{go}\n")
        self.assertEqual(self.command("RUNNING", batch)[0][5:], [40, f"at wait{go}"])
        go.touch()
        self.command.wait(batch)
        job = self.job(batch)
        self.assertEqual((job["status"], job["progress"], job["note"], job["exit_status"]), ("ok", 40, f"at wait{go}", None))
        self.assertEqual(self.command("LOG", batch, 0)[1], f"works on wait{go}\n")

    def test_what_is_no_message_ends_the_job(self):
        batch = self.command("SUBMIT", "work", "JOBS", "wrong")
        self.command.wait(batch)
        self.assertEqual(self.job(batch)["status"], "error")
        self.assertIn("neither progress (0 to 100) nor a note", self.job(batch)["output"])

    def test_the_note_reaches_the_next_attempt(self):
        batch = self.command("SUBMIT", "talk", "RETRIES", 2, "JOBS", "once")
        self.assertEqual(self.command.wait(batch)["ok"], 1)
        self.assertEqual(self.command("LOG", batch, 0)[1], "note before: half\ndone\n")
        self.assertEqual(self.job(batch)["attempt"], 2)
        failed = self.command("SUBMIT", "talk", "JOBS", "fail")
        self.command.wait(failed)
        self.assertEqual(self.command("RETRY", failed, 0), 1)
        self.command.wait(failed)
        self.assertEqual(self.command("LOG", failed, 0)[1], "note before: checkpoint 1\ncheckpoint 2\n", "of a RETRY, too")
        self.assertEqual(self.job(failed)["attempt"], 2)

    def test_one_job_among_many(self):
        payloads = ["x" if i == 7_777 else 0 for i in range(20_000)]
        batch = self.command("SUBMIT", "sleep", "JOBS", *payloads)
        self.command.wait(batch)
        for index in (0, 1, 7_776, 7_778, 19_999):
            self.assertEqual((self.job(batch, index)["status"], self.job(batch, index)["index"]), ("ok", index))
        bad = self.job(batch, 7_777)
        self.assertEqual((bad["status"], bad["payload"]), ("error", "x"))
        self.assertEqual(self.command("RETRY", batch, 7_777), 1)
        self.command.wait(batch)
        self.assertEqual(self.job(batch, 7_777)["attempt"], 2, "the last row counts, at the end of the others")

    def test_what_is_not_kept_is_not_shown(self):
        for keep, expected in ("failures", ("ok", None)), ("none", ("ok", None)):
            batch = self.command("SUBMIT", "talk", "KEEP", keep, "JOBS", "fine", "fail")
            self.command.wait(batch)
            job = self.job(batch, 0)
            self.assertEqual((job["status"], job["output"]), expected)
            self.assertEqual(self.job(batch, 1)["status"], "error" if keep == "failures" else "failed")
            self.assertEqual(self.job(batch, 1)["payload"], "fail")
            self.assertEqual(self.command("LOG", batch, 0), [0, ""])

    def test_errors(self):
        batch = self.command("SUBMIT", "echo", "JOBS", "x")
        for words in (("JOB", batch, 1), ("LOG", batch, 1), ("JOB", batch, "x"), ("JOB", batch, -1), ("LOG", batch, 0, "FROM"),
                      ("RUNNING", "COUNT", 0), ("RUNNING", batch, "COUNT"), ("JOB", batch)):
            self.assert_error("ERR", self.command.ask(*words))
        for words in (("JOB", "nosuch", 0), ("LOG", "nosuch", 0), ("RUNNING", "nosuch")):
            self.assert_error("NOBATCH", self.command.ask(*words))

    def test_resp3_a_transaction_and_the_api(self):
        batch = self.command("SUBMIT", "talk", "JOBS", "fail")
        self.command.wait(batch)
        with self.daemon.connect() as other:
            other("HELLO", 3)
            job = other("JOB", batch, 0)
            self.assertIsInstance(job, dict)
            self.assertEqual((job["status"], job["exit_status"], job["progress"]), ("error", 3, None))
        self.command("MULTI")
        for words in (("JOB", batch, 0), ("LOG", batch, 0, "FROM", 28, "BLOCK", 0), ("RUNNING",)):
            self.command(*words)
        replies = self.command("EXEC")
        self.assertEqual(as_map(replies[0])["status"], "error")
        self.assertEqual(replies[1:], [[28, ""], []])
        page = json.loads(self.daemon.get(f"/api/batches/{batch}/jobs/0")[1])
        same = {name: page[name] for name in job}
        self.assertEqual({**same, "started_at": 0, "finished_at": 0, "duration_us": 0}, {**job, "started_at": 0, "finished_at": 0, "duration_us": 0})
        log = json.loads(self.daemon.get(f"/api/batches/{batch}/jobs/0/log?from=15")[1])
        self.assertEqual(log, {"next": 28, "text": "checkpoint 1\n", "ended": True})
        self.assertEqual(json.loads(self.daemon.get("/api/running")[1]), {"jobs": []})
        self.assertEqual(self.daemon.get(f"/api/batches/{batch}/jobs/1")[0], 400)


class Memory(JobTest):
    # Not under AddressSanitizer, which keeps what is freed.
    def test_jobs_that_write_without_end_stay_within_the_limit(self):
        self.command("CONFIG", "SET", "limits.max_log_bytes", "1MiB")
        before = self.daemon.resident_bytes()
        batch = self.command("SUBMIT", "flood", "JOBS", *range(200))
        wait_for("all slots to run", lambda: len(self.command("RUNNING", batch)) == 40, 4 * DEADLINE_S)
        written = lambda: [self.job(batch, row[1])["log_bytes"] for row in self.command("RUNNING", batch)]
        wait_for("all to write more than is kept", lambda: min(written()) > 1 << 20, 4 * DEADLINE_S)
        spent, _ = Timer(self.daemon.pid).measure(lambda: self.command("PING"))
        self.assertLess(spent, 1, "seconds of the I/O thread that a client has to wait for")
        kept = [len(self.command("LOG", batch, row[1])[1]) for row in self.command("RUNNING", batch)]
        self.assertLessEqual(sum(kept), 1 << 20)
        self.assertGreater(min(kept), 0, "each has its part")
        self.assertLess(self.daemon.resident_bytes() - before, 48 << 20)
        metrics = self.daemon.metrics()
        self.assertTrue(0 < metrics["locksley_log_bytes"] <= metrics["locksley_max_log_bytes"] == 1 << 20, metrics["locksley_log_bytes"])
        self.command("CANCEL", batch)
        self.command.wait(batch)
        self.assertEqual(self.job(batch, 0)["status"], "cancelled")


class InTheStore(StoreTest):
    def job(self, batch, index=0):
        return as_map(self.command("JOB", batch, index))

    def test_it_is_there_after_kill_9(self):
        command = self.begin(handlers())
        batch = command("SUBMIT", "talk", "ID", "b", "JOBS", "fine", "fail")
        command.wait(batch)
        known = lambda: ([self.job(batch, index) for index in range(2)], [self.command("LOG", batch, index) for index in range(2)])
        before = known()
        # What a client waits for is on the disk, and so is all before it.
        command("SUBMIT", "echo", "JOBS", "x")
        command = self.kill_and_begin(handlers())
        self.assertEqual(known(), before)
        self.assertEqual((self.job(batch, 1)["payload"], self.job(batch, 1)["exit_status"]), ("fail", 3))
        self.assertEqual(command("RETRY", batch, 1), 1)
        command.wait(batch)
        self.assertEqual(command("LOG", batch, 1)[1], "note before: checkpoint 1\ncheckpoint 2\n", "the note, too")

    def test_the_note_of_a_running_worker_survives_kill_9(self):
        command = self.begin(handlers())
        batch = command("SUBMIT", "work", "JOBS", "wait/nosuch")
        wait_for("a note", lambda: self.job(batch)["note"])
        # A later step is on the disk after its WAIT, and so is the note before it.
        command.wait(command("SUBMIT", "echo", "JOBS", "x"))
        command("PAUSE", batch)
        self.kill_and_begin(handlers())
        job = self.job(batch)
        self.assertEqual((job["status"], job["note"], job["payload"], job["attempt"]), ("queued", "at wait/nosuch", "wait/nosuch", 2))

    def test_one_job_among_many_that_left_the_memory(self):
        settings = {"limits": {"max_result_bytes": "64KiB"}}
        command = self.begin(settings)
        payloads = ["x" if i == 7_777 else 0 for i in range(20_000)]
        batch = command("SUBMIT", "sleep", "JOBS", *payloads)
        command.wait(batch)
        for index in (0, 7_776, 7_777, 19_999):
            self.assertEqual((self.job(batch, index)["index"], self.job(batch, index)["status"]), (index, "error" if index == 7_777 else "ok"))
        self.assertEqual(self.job(batch, 7_777)["payload"], "x")


if __name__ == "__main__":
    unittest.main()
