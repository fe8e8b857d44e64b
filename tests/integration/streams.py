#!/usr/bin/python3
"""`locksley run` and `submit` stream their input: broken connections, commands that arrive late, restarts, a second run that goes on."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_proxy import FORWARD, HOLD, LOSE_REPLY, LateProxy
from locksley_daemon import DEADLINE_S, program, wait_for
from small_disk import SmallDisk
from store_daemon import HOUR_MS, StoreTest

OK, JOBS_FAILED, DATA_ERROR = 0, 1, 65
CHUNK = 10_000  # jobs: BatchStream::kChunkJobs


def lines(numbers):
    return b"".join(b"%d\n" % number for number in numbers)


class StreamTest(StoreTest):
    """A daemon with a store, and clients that reach it through a proxy, which stays when the daemon is restarted."""

    settings = {"pool": {"workers": 2}}

    def setUp(self):
        super().setUp()
        self.prepare()
        self.begin()
        self.proxy = LateProxy(self.daemon.host, self.daemon.port, self.rule)
        self.addCleanup(self.proxy.close)
        self.adds = 0

    def prepare(self):
        """Before the daemon starts."""

    def rule(self, words):
        self.adds += words[0].startswith(b"ADD")
        return FORWARD

    def restarted(self):
        self.proxy.port = self.daemon.port

    def popen(self, *arguments, stdin=subprocess.PIPE):
        environment = {**os.environ, "LOCKSLEY_URL": f"redis://{self.proxy.address}"}
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([program("LOCKSLEY"), *map(str, arguments)], env=environment, **pipes)
        self.addCleanup(self.reap, process)
        return process

    def reap(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def feed(self, process, numbers):
        process.stdin.write(lines(numbers))
        process.stdin.flush()

    def wait_for_jobs(self, batch, count):
        def look():
            reply = self.command.ask("STATUS", batch)
            return isinstance(reply, list) and self.status(batch)["jobs"] == count

        wait_for(f"the batch to have {count} jobs", look)

    def assert_outputs(self, process, count, rest=b""):
        """It ends well, and each number below `count` is there once."""
        out, err = process.communicate(rest if process.stdin else None, timeout=2 * DEADLINE_S)
        self.assertEqual(process.returncode, OK, err[-1000:])
        self.assertEqual(sorted(map(int, out.split())), list(range(count)))
        return err.decode()


class Late(StreamTest):
    def stream_through(self, rule):
        """Three chunks. From a file: if a pipe has nothing for 100 ms, the client sends a chunk that is not full."""
        self.proxy.rule = rule
        with tempfile.TemporaryFile() as file:
            file.write(lines(range(2 * CHUNK + 5)))
            file.seek(0)
            self.assert_outputs(self.popen("run", "echo", stdin=file), 2 * CHUNK + 5)

    def test_the_last_chunk_that_arrives_late_is_added_once(self):
        for at in (b"ADD", b"CLOSE"):
            with self.subTest(f"it arrives just before the next {at.decode()}"):
                adds, replies = 0, []

                def rule(words):
                    nonlocal adds
                    is_add = words[0].startswith(b"ADD")
                    adds += is_add
                    if is_add and adds == 3:
                        return HOLD
                    if adds > 3 - (at == b"ADD") and words[0].startswith(at):
                        replies.extend(self.proxy.release())
                    return FORWARD

                self.stream_through(rule)
                self.assertEqual(replies, [f":{2 * CHUNK + 5}\r\n"])

    def test_a_chunk_whose_reply_was_lost_is_added_once(self):
        adds = 0

        def rule(words):
            nonlocal adds
            is_add = words[0].startswith(b"ADD")
            adds += is_add
            return LOSE_REPLY if is_add and adds in (1, 3) else FORWARD

        self.stream_through(rule)
        self.assertEqual(adds, 5)

    def test_a_submit_whose_reply_never_comes_names_its_batch(self):
        submitted = threading.Event()

        def rule(words):
            if words[0] != b"SUBMIT":
                return FORWARD
            self.proxy.close()  # so that it cannot ask again
            submitted.set()
            return LOSE_REPLY

        self.proxy.rule = rule
        process = self.popen("submit", "echo", "a", "b")
        self.assertTrue(submitted.wait(DEADLINE_S), "waited for the SUBMIT")
        process.terminate()
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (128 + signal.SIGTERM, b""))
        said = re.search(r"batch (\S+) may have been submitted; the same command with --id \1 does no harm", err.decode())
        self.assertTrue(said, err)
        self.assertEqual(self.command("SUBMIT", "echo", "ID", said[1], "JOBS", "a", "b"), said[1])
        self.assertEqual([batch["id"] for batch in self.command.listed()], [said[1]])


class Restarts(StreamTest):
    def begin_stream(self):
        process = self.popen("run", "echo", "--id", "hours")
        self.feed(process, range(1000))
        self.wait_for_jobs("hours", 1000)
        return process

    def test_a_graceful_restart(self):
        process = self.begin_stream()
        blocker = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: self.status(blocker)["running"] == 1)
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_for_log("draining")
        before = self.adds
        self.feed(process, range(1000, 2000))
        wait_for("jobs to be refused twice", lambda: self.adds >= before + 2)
        self.assertEqual(self.status("hours")["jobs"], 1000)
        self.command("CANCEL", blocker)
        self.assertEqual(self.daemon.wait_end(), 0, self.daemon.log())
        self.feed(process, range(2000, 3000))
        self.begin()
        self.restarted()
        self.wait_for_jobs("hours", 3000)
        self.assert_outputs(process, 4000, lines(range(3000, 4000)))

    def test_kill_9(self):
        process = self.begin_stream()
        self.kill()
        self.feed(process, range(1000, 2000))
        self.begin()
        self.restarted()
        self.wait_for_jobs("hours", 2000)
        self.assert_outputs(process, 3000, lines(range(2000, 3000)))

    def test_submit_too(self):
        process = self.popen("submit", "echo", "--id", "submitted")
        self.feed(process, range(1000))
        self.wait_for_jobs("submitted", 1000)
        self.kill()
        self.begin()
        self.restarted()
        out, err = process.communicate(lines(range(1000, 2000)), timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (OK, b"submitted\n"), err)
        self.assert_whole("submitted", [["ok", f"{i}"] for i in range(2000)])


class Cancelled(StreamTest):
    def test_a_batch_that_its_failures_cancel_ends_as_any_that_failed(self):
        for _ in range(5):
            process = self.popen("run", "fail", "--max-fails", 1)
            _, err = process.communicate(lines(range(3 * CHUNK)), timeout=DEADLINE_S)
            self.assertEqual(process.returncode, JOBS_FAILED, err[-1000:])
            self.assertIn(b" cancelled", err)


class FullDisk(StreamTest):
    settings = {"pool": {"workers": 2}, "store": {"max_bytes": 0}}

    def prepare(self):
        self.disk = SmallDisk(self, self.store)
        self.store = self.store / "store"

    def test_a_disk_that_refuses_writes_for_a_while(self):
        process = self.popen("run", "echo", "--id", "hours")
        self.feed(process, range(1000))
        self.wait_for_jobs("hours", 1000)
        self.disk.fill()
        # 4 MB, so that the rest of a file in use has no room for them.
        writer = threading.Thread(target=lambda: process.stdin.write(b"".join(b"%04000d\n" % number for number in range(1000, 2000))))
        writer.start()
        errors = lambda: self.daemon.metrics().get('locksley_command_errors_total{code="STORE"}', 0)
        wait_for("jobs to be refused twice", lambda: errors() >= 2)
        self.disk.make_room()
        writer.join()
        self.assert_outputs(process, 3000, lines(range(2000, 3000)))


class Again(StreamTest):
    def interrupted(self, count):
        """A stream whose client was killed after so many jobs."""
        process = self.popen("run", "echo", "--id", "again")
        self.feed(process, range(count))
        self.wait_for_jobs("again", count)
        process.kill()
        process.communicate()

    def test_the_same_command_goes_on(self):
        for count, whole in ((3, 5), (CHUNK + 500, 2 * CHUNK + 1)):
            with self.subTest(count=count):
                self.interrupted(count)
                said = self.assert_outputs(self.popen("run", "echo", "--id", "again"), whole, lines(range(whole)))
                self.assertIn(f"batch again has {count:,} jobs already", said)

    def test_it_goes_on_after_a_restart(self):
        self.interrupted(700)
        self.kill_and_begin()
        self.restarted()
        self.assert_outputs(self.popen("run", "echo", "--id", "again"), 1000, lines(range(1000)))

    def test_a_shorter_input_is_another_one_and_changes_nothing(self):
        self.interrupted(700)
        process = self.popen("run", "echo", "--id", "again")
        _, err = process.communicate(lines(range(600)), timeout=DEADLINE_S)
        self.assertEqual(process.returncode, DATA_ERROR, err)
        self.assertIn(b"batch again has 700 jobs, and the input has 600", err)
        status = self.status("again")
        self.assertEqual((status["state"], status["jobs"], status["cancelled"]), ("open", 700, 0))

    def test_a_batch_that_was_submitted_whole_is_not_gone_on_with(self):
        self.command("SUBMIT", "sleep", "ID", "again", "JOBS", HOUR_MS)
        for count in (2, CHUNK + 1):
            process = self.popen("run", "sleep", "--id", "again")
            _, err = process.communicate(b"1\n" * count, timeout=DEADLINE_S)
            self.assertEqual(process.returncode, DATA_ERROR, err)
            self.assertIn(b"EXISTS", err)
            status = self.status("again")
            self.assertEqual((status["jobs"], status["cancelled"]), (1, 0))

    def test_a_submit_with_an_id_that_a_signal_ends_goes_on(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                batch = f"ends-{number.value}"
                process = self.popen("submit", "echo", "--id", batch)
                self.feed(process, range(700))
                self.wait_for_jobs(batch, 700)
                process.send_signal(number)
                _, err = process.communicate(timeout=DEADLINE_S)
                self.assertEqual(process.returncode, 128 + number.value)
                self.assertIn(b"is left open; the same command and input with --id %b goes on with it" % batch.encode(), err)
                status = self.status(batch)
                self.assertEqual((status["state"], status["jobs"], status["cancelled"]), ("open", 700, 0))
                process = self.popen("submit", "echo", "--id", batch)
                out, err = process.communicate(lines(range(1000)), timeout=DEADLINE_S)
                self.assertEqual((process.returncode, out), (OK, batch.encode() + b"\n"), err)
                self.assertEqual(self.command.wait(batch)["ok"], 1000)

    def test_a_submit_without_an_id_that_a_signal_ends_is_cancelled(self):
        process = self.popen("submit", "sleep")
        self.feed(process, [HOUR_MS] * 3)
        wait_for("a batch with three jobs", lambda: [row["jobs"] for row in self.command.listed()] == [3])
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (128 + signal.SIGINT, b""))
        batch = self.command.listed()[0]["id"]
        said = f"locksley: batch {batch} was cancelled, because its input was incomplete; with --id it would have been left open\n"
        self.assertEqual(err.decode(), said)
        self.assertEqual(self.command.wait(batch)["state"], "cancelled")

    def test_a_cancelled_batch_is_no_success_of_submit(self):
        self.interrupted(10)
        wait_for("its ten jobs to run", lambda: self.status("again")["ok"] == 10)
        self.command("SUBMIT", "sleep", "ID", "whole", "JOBS", HOUR_MS, HOUR_MS, HOUR_MS)
        for batch in ("again", "whole"):
            self.command("CANCEL", batch)
            self.command.wait(batch)
        whole = self.popen("submit", "sleep", "--id", "whole", HOUR_MS, HOUR_MS, HOUR_MS)
        self.assert_says_that_it_is_cancelled(whole, None, "whole", "0 of its 3 jobs have run")
        self.assert_says_that_it_is_cancelled(self.popen("submit", "echo", "--id", "again"), lines(range(10)), "again", "10 of its 10 jobs have run")

    def assert_says_that_it_is_cancelled(self, process, rest, batch, count):
        out, err = process.communicate(rest, timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (JOBS_FAILED, batch.encode() + b"\n"), err)
        self.assertIn(f"batch {batch} was there already, and is cancelled: {count}", err.decode())
        self.assertNotIn(b"nothing was started", err)

    def test_a_batch_that_was_closed_meanwhile_is_left_as_it_is(self):
        self.interrupted(10)
        self.command("CLOSE", "again")
        process = self.popen("run", "echo", "--id", "again")
        _, err = process.communicate(lines(range(11)), timeout=DEADLINE_S)
        self.assertEqual(process.returncode, DATA_ERROR, err)
        self.assertIn(b"CLOSED", err)
        self.assertEqual(self.command.wait("again")["ok"], 10)


if __name__ == "__main__":
    unittest.main()
