#!/usr/bin/python3
"""Every limit of the configuration: what is below and at it goes, what is above is refused with its name, whole, and the daemon lives on."""
# Length: one test or more for each limit.

import contextlib
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for
from resp import Closed, Error, encode
from store_daemon import StoreTest

KIBI, MEBI = 1 << 10, 1 << 20
HOUR_MS = 3_600_000
# Of ranges; four of 300 KiB are too many.
PATTERNS = {
    "limits": {"max_queued_bytes": "1MiB", "max_payload": "512KiB", "max_command": "1MiB"},
    "handlers": {"nope": {"command": ["false"], "concurrency": 2}},
}


def rss_settles_below(daemon, bytes_, what):
    wait_for(f"memory to be below {bytes_ >> 20} MiB {what}", lambda: daemon.resident_bytes() < bytes_, every=0.1)


class LimitsTest(DaemonTest):
    def assert_ready(self, daemon):
        """At a limit /readyz stays as it is: who watches it would send all clients elsewhere."""
        self.assertEqual(daemon.get("/readyz"), (200, "ready\n"))


class QueueLimits(LimitsTest):
    def stuck(self, settings):
        """A daemon whose workers are taken, so that what is submitted stays queued; nothing of that is counted as queued."""
        daemon = self.start({"pool": {"workers": 1}, "limits": settings})
        connection = self.connect(daemon)
        blocker = connection("SUBMIT", "sleep", "JOBS", HOUR_MS)
        wait_for("the blocking job to run", lambda: connection.map("STATUS", blocker)["running"] == 1)
        return daemon, connection, blocker

    def assert_nothing_came_of_it(self, connection, batches):
        self.assertEqual([row["id"] for row in connection.listed()], list(reversed(batches)))

    def test_queued_jobs(self):
        daemon, connection, blocker = self.stuck({"max_queued_jobs": 100})
        # Whatever counts as queued of the job that runs: find the room, then go to its edges.
        room = next(n for n in range(100, 0, -1) if str(connection.ask("SUBMIT", "echo", "ID", "fill", "RANGE", 0, n)) == "fill")
        self.assertIn(room, (99, 100))
        error = connection.ask("SUBMIT", "echo", "JOBS", "one more")
        self.assert_error("QUEUEFULL", error)
        self.assertIn("limits.max_queued_jobs", error)
        self.assert_ready(daemon)
        self.assert_error("QUEUEFULL", connection.ask("RUN", "echo", "JOBS", "one more"))
        stream = connection("OPEN", "echo")
        self.assert_error("QUEUEFULL", connection.ask("ADD", stream, "one more"))
        self.assertEqual(connection.map("STATUS", stream)["jobs"], 0)
        self.assertEqual(connection("SUBMIT", "echo", "ID", "fill", "RANGE", 0, room), "fill", "a repetition takes no room")
        self.assert_nothing_came_of_it(connection, [blocker, "fill", stream])
        self.assertGreater(daemon.metrics()['locksley_command_errors_total{code="QUEUEFULL"}'], 2)
        # Below the limit again.
        connection("CANCEL", "fill")
        self.assertEqual(connection("ADD", stream, *"ab"), 2)
        half = connection("SUBMIT", "echo", "RANGE", 0, room - 2)
        self.assert_error("QUEUEFULL", connection.ask("SUBMIT", "echo", "JOBS", "one more"))
        connection("CANCEL", blocker)
        connection.wait(half)

    def test_what_status_shows_as_free_is_free(self):
        connection = self.connect(self.start({"limits": {"max_queued_jobs": 1000}}))
        for _ in range(50):
            batch = connection("SUBMIT", "spin", "RANGE", 0, 1000, 20)
            status = {}
            while not 10 < status.get("ok", 0) < 1000 and status.get("state") != "done":
                status = connection.map("STATUS", batch)
            more = connection("SUBMIT", "spin", "RANGE", 0, status["ok"], 20)
            for each in (batch, more):
                connection.wait(each)

    def test_queued_bytes(self):
        """Counted is what the payloads hold in memory, so that a little more than their lengths; hence not to the byte."""
        _, connection, blocker = self.stuck({"max_queued_bytes": "1MiB", "max_payload": "1MiB"})
        submit = lambda: connection.ask("SUBMIT", "echo", "JOBS", "x" * 50 * KIBI, "y" * 50 * KIBI)
        batches = [blocker]
        while not isinstance(reply := submit(), Error):
            batches.append(reply)
            self.assertLessEqual(len(batches), 11, "more than 1 MiB is queued")
        self.assertGreaterEqual(len(batches), 6, "less than half of 1 MiB is queued")
        self.assert_error("QUEUEFULL", reply)
        self.assertIn("limits.max_queued_bytes", reply)
        self.assert_nothing_came_of_it(connection, batches)
        connection("CANCEL", batches.pop(1))
        batches.append(submit())
        self.assertIsInstance(submit(), Error)
        connection("CANCEL", blocker)
        for batch in batches[1:]:
            self.assertEqual(connection.wait(batch)["ok"], 2)

    def test_finished_batches_keep_the_patterns_that_a_retry_needs_while_there_is_room(self):
        command = self.connect(self.start(PATTERNS))
        pattern = "x" * 300 * KIBI
        for number in range(8):
            batch = command("SUBMIT", "echo", "ID", f"b{number}", "RANGE", 0, 1, pattern)
            command.wait(batch)
        self.assertEqual(command("SUBMIT", "echo", "ID", "b0", "RANGE", 0, 1, pattern), "b0", "a repetition")
        self.assert_error("EXISTS", command.ask("SUBMIT", "echo", "ID", "b0", "RANGE", 0, 1, pattern + "x"))
        for number in range(3):
            batch = command("SUBMIT", "nope", "ID", f"f{number}", "RANGE", 0, 1, pattern)
            self.assertEqual(command.wait(batch)["failed"], 1)
        self.assertEqual(command("RETRY", "f0"), 1, "there was room for all so far")
        command.wait("f0")
        command.wait(command("SUBMIT", "nope", "ID", "f3", "RANGE", 0, 1, pattern))
        self.assert_error("ERR the payloads of the batch 'f0", command.ask("RETRY", "f0"))
        self.assertEqual(command.map("STATUS", "f0")["failed"], 1, "nothing else of it is lost")
        self.assertEqual(command("SUBMIT", "nope", "ID", "f0", "RANGE", 0, 1, pattern), "f0", "a repetition")
        self.assert_error("EXISTS", command.ask("SUBMIT", "nope", "ID", "f0", "RANGE", 0, 1, pattern + "x"))
        self.assertEqual(command("RETRY", "f1"), 1)
        command.wait("f1")

    def test_a_user_whose_jobs_fail_can_go_on_without_a_store(self):
        command = self.connect(self.start(PATTERNS))
        payload = "x" * 300 * KIBI
        for number in range(20):
            command.wait(command("SUBMIT", "nope", "ID", f"b{number}", "JOBS", payload))
            info = dict(line.split(":") for line in command("INFO", "locksley").splitlines() if ":" in line)
            self.assertLessEqual(int(info["queued_bytes"]), MEBI, "the limit is kept")
        self.assert_error("ERR the payloads of the batch 'b16", command.ask("RETRY", "b16"))
        self.assertEqual(command("RETRY", "b19"), 1)
        command.wait("b19")

    def test_a_stream_may_be_larger_than_the_memory(self):
        """What has ended makes room; but payloads of jobs that failed stay, since RETRY may want them."""
        daemon = self.start({"limits": {"max_queued_bytes": "8MiB", "max_payload": "1MiB"}})
        connection = self.connect(daemon)

        def add(batch, payload):
            def is_in():
                reply = connection.ask("ADD", batch, payload)
                if isinstance(reply, Error):
                    self.assert_error("QUEUEFULL", reply)
                return not isinstance(reply, Error)

            wait_for("room for another payload", is_in, every=0.002)

        payloads = [chr(ord("a") + i % 26) * MEBI for i in range(40)]
        batch = connection("OPEN", "echo")
        for payload in payloads:
            add(batch, payload)
        connection("CLOSE", batch)
        self.assertEqual(connection.wait(batch)["ok"], 40)
        rows = {index: output for index, _, output in connection.results(batch)}
        self.assertTrue(all(rows[i] == payload for i, payload in enumerate(payloads)))

        failing = connection("OPEN", "fail")
        for payload in payloads[:5]:
            add(failing, payload)
        wait_for("all to fail", lambda: connection.map("STATUS", failing)["failed"] == 5)
        rest = connection("OPEN", "echo")
        for payload in payloads[:20]:
            add(rest, payload)
        connection("CLOSE", rest)
        connection("CLOSE", failing)
        connection.wait(failing)
        self.assertEqual(connection("RETRY", failing), 5)
        self.assertEqual(connection.wait(failing)["failed"], 5)
        rows = {index: output for index, _, output in connection.results(failing)}
        self.assertTrue(all(rows[i] == payloads[i] for i in range(5)))

    def test_what_can_never_fit_is_too_big_not_queue_full(self):
        _, connection, _ = self.stuck({"max_queued_jobs": 100, "max_batch_jobs": 50, "max_queued_bytes": "1MiB", "max_payload": "10KiB"})
        for command, name in {
            ("SUBMIT", "echo", "RANGE", 0, 51): "limits.max_batch_jobs",
            ("SUBMIT", "echo", "JOBS", *["a"] * 51): "limits.max_batch_jobs",
            ("RUN", "echo", "JOBS", *["a"] * 51): "limits.max_batch_jobs",
            ("SUBMIT", "echo", "JOBS", "a", "x" * (10 * KIBI + 1)): "limits.max_payload",
        }.items():
            error = connection.ask(*command)
            self.assert_error("TOOBIG", error)
            self.assertIn(name, error)
        stream = connection("OPEN", "echo")
        self.assertEqual(connection("ADD", stream, *["a"] * 50), 50)
        self.assert_error("TOOBIG", connection.ask("ADD", stream, "a"))
        self.assertEqual(connection.map("STATUS", stream)["jobs"], 50)
        connection("CANCEL", stream)
        for command in (("RANGE", 0, 50), ("JOBS", *["a"] * 50), ("JOBS", "x" * 10 * KIBI)):
            connection("CANCEL", connection("SUBMIT", "echo", *command))

    def test_a_command_that_is_too_large(self):
        daemon = self.start({"limits": {"max_command": "100KiB", "max_payload": "50KiB"}})
        with daemon.connect() as connection:
            self.assertEqual(connection("RUN", "echo", "KEEP", "none", "JOBS", "x" * 50 * KIBI, "x" * 45 * KIBI), [["ok", ""]] * 2)
            connection.send(encode("RUN", "echo", "JOBS", "x" * 50 * KIBI, "x" * 50 * KIBI, "x" * KIBI))
            self.assertRegex(connection.read_until_closed(), rb"^-ERR Protocol error: too big command[^\r\n]*\r\n$")
        self.assertEqual(self.connect(daemon)("LIST"), ["0", []])

    def test_outputs_of_run_that_are_larger_than_the_output_limit(self):
        connection = self.connect(self.start({"limits": {"output_buffer": "64KiB"}}))
        self.assertEqual(connection("RUN", "echo", "JOBS", "x" * 60 * KIBI), [["ok", "x" * 60 * KIBI]])
        error = connection.ask("RUN", "echo", "JOBS", "x" * 60 * KIBI, "x" * 60 * KIBI)
        self.assert_error("TOOBIG", error)
        self.assertIn("limits.output_buffer", error)
        self.assertEqual(connection("PING"), "PONG")


    def test_a_result_that_no_reply_has_room_for_is_an_error_of_its_job(self):
        connection = self.connect(self.start({"limits": {"output_buffer": "64KiB"}}))
        batch = connection("SUBMIT", "echo", "JOBS", "x" * 65_537, "small", "y" * 60_000)
        connection.wait(batch)
        rows = {row[0]: row[1:] for row in connection.results(batch)}
        self.assertEqual(rows[0][0], "error")
        self.assertIn("65537 bytes", rows[0][1])
        self.assertEqual([rows[1][1], rows[2][1]], ["small", "y" * 60_000])

    def test_a_result_that_has_become_too_large_is_an_error_reply_and_can_be_passed_over(self):
        connection = self.connect(self.start({"limits": {"output_buffer": "1MiB"}}))
        batch = connection("SUBMIT", "echo", "JOBS", "x" * 100_000)
        connection.wait(batch)
        connection("CONFIG", "SET", "limits.output_buffer", "64KiB")
        error = connection.ask("RESULTS", batch)
        self.assert_error("TOOBIG", error)
        self.assertIn("continue FROM 2", str(error))
        self.assertEqual(connection("RESULTS", batch, "FROM", 2), ["0", []])


class PatternsInTheStore(StoreTest):
    def test_finished_batches_keep_none(self):
        self.begin(PATTERNS)
        pattern = "x" * 300 * KIBI
        for number in range(8):
            batch = self.command("SUBMIT", "nope", "ID", f"f{number}", "RANGE", 0, 1, pattern)
            self.assertEqual(self.command.wait(batch)["failed"], 1)
        self.assertEqual(self.command("SUBMIT", "nope", "ID", "f0", "RANGE", 0, 1, pattern), "f0", "a repetition")
        self.assert_error("EXISTS", self.command.ask("SUBMIT", "nope", "ID", "f0", "RANGE", 0, 1, pattern + "x"))
        self.assertEqual(self.command.map("JOB", "f0", 0)["payload"], pattern)
        self.assertEqual(self.command("RETRY", "f0"), 1)
        self.assertEqual(self.command.wait("f0")["failed"], 1)

    def test_what_the_store_can_keep_takes_no_payloads_that_a_retry_may_need(self):
        self.begin(PATTERNS)
        payload = "x" * 300 * KIBI
        for number in range(3):
            self.command.wait(self.command("SUBMIT", "nope", "ID", f"f{number}", "EPHEMERAL", "JOBS", payload))
        stored = [self.command("SUBMIT", "nope", "JOBS", payload, payload) for _ in range(16)]
        for batch in stored:
            self.assertEqual(self.command.wait(batch)["failed"], 2)
        self.command("OPEN", "nope", "ID", "stream")
        self.command("PAUSE", "stream")
        self.command("ADD", "stream", "x")  # memory has room for the byte, and not for the block in which it lies
        for batch in ("f0", "f1", "f2", stored[0]):
            self.assertGreaterEqual(self.command("RETRY", batch), 1)
            self.command.wait(batch)


class Memory(DaemonTest):
    def test_a_range_of_a_billion_jobs_takes_none(self):
        daemon = self.start({"limits": {"max_batch_jobs": 10**10, "max_queued_jobs": 10**11}})
        connection = self.connect(daemon)
        before = daemon.resident_bytes()
        batches = [connection("SUBMIT", "echo", "KEEP", "none", "RANGE", -5, 10**9) for _ in range(10)]
        wait_for("a million jobs of the first to end", lambda: connection.map("STATUS", batches[0])["ok"] > 1_000_000)
        self.assertLess(daemon.resident_bytes(), before + 16 * MEBI)
        for batch in batches:
            self.assertGreater(connection("CANCEL", batch), 0)
        for batch in batches:
            connection.wait(batch)


class ClientLimits(LimitsTest):
    def test_clients(self):
        daemon = self.start({"limits": {"max_clients": 3}})
        first = [self.connect(daemon) for _ in range(3)]
        for client in first:
            self.assertEqual(client("PING"), "PONG")
        for _ in range(3):
            with daemon.connect() as refused:
                self.assertEqual(refused.read_until_closed(), b"-ERR max number of clients reached\r\n")
        self.assert_ready(daemon)
        for client in first:
            self.assertEqual(client("PING"), "PONG")
        first[0].close()

        def room():
            with daemon.connect() as client:
                return not client.ask("PING").startswith("ERR max number")

        wait_for("room for a client after another has left", room)

    def test_idle_clients_leave_but_not_those_that_wait_or_listen(self):
        daemon = self.start()
        listening, running, command = (self.connect(daemon) for _ in range(3))
        listening("SUBSCRIBE", "batch:nobody")
        running.send(encode("RUN", "sleep", "JOBS", 2500))
        wait_for("RUN to wait", lambda: "blocked_clients:1" in command("INFO", "clients"))
        command("CONFIG", "SET", "limits.idle_timeout", "1s")
        self.who_is_not_silent_stays(daemon, 2.2)
        while not self.waits_for_longer_and_then_has_its_time(daemon):
            pass
        self.assertEqual(running.read(), [["ok", ""]])
        self.assertEqual(listening("PING"), ["pong", ""])

    def who_is_not_silent_stays(self, daemon, seconds):
        """For so long, beside one that is silent and goes. A client that this machine kept from speaking for the second was silent."""
        end, silent = time.monotonic() + seconds, self.connect(daemon)
        while time.monotonic() < end:
            spoke = time.monotonic()
            busy = self.connect(daemon)
            try:
                while time.monotonic() < end:
                    began = time.monotonic()
                    busy("PING")
                    spoke = began
                    time.sleep(0.1)
            except (Closed, ConnectionError):
                self.assertGreater(time.monotonic() - spoke, 1, "it was not silent for so long")
        self.assertEqual(silent.read_until_closed(), b"")

    def waits_for_longer_and_then_has_its_time(self, daemon):
        """Its silence counts from the end of the wait. False if this machine let it speak too late."""
        silent_since = began = time.monotonic()  # at the earliest
        waiting = self.connect(daemon)
        try:
            waiting.send(encode("OPEN", "echo", "ID", "open") + encode("WAIT", "open", 1500))
            self.assertEqual(waiting.read(), "open")
            silent_since += 1.5
            waited = waiting.read()
            self.assertEqual(waited[waited.index("state") + 1], "open")
            self.assertGreater(time.monotonic() - began, 1.4)
            self.assertEqual(waiting("PING"), "PONG")
        except (Closed, ConnectionError):
            self.assertGreater(time.monotonic() - silent_since, 1, "it was not silent for so long")
            return False
        self.assertEqual(waiting.read_until_closed(), b"")
        return True

    def test_a_reader_that_does_not_read_is_dropped_and_its_memory_freed(self):
        daemon = self.start({"limits": {"output_buffer": "1MiB"}})
        watcher = self.connect(daemon)
        base = daemon.resident_bytes()
        slow = self.connect(daemon, receive_buffer=4096)
        ask = encode("ECHO", "x" * 100_000)
        slow.socket.settimeout(1)
        try:
            for _ in range(400):
                slow.send(ask)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass  # not read any more, or dropped: both are good
        self.assertLess(daemon.resident_bytes(), base + 16 * MEBI)
        slow.close()
        wait_for("the connection to be gone", lambda: daemon.metrics()["locksley_connections"] == 1)
        rss_settles_below(daemon, base + 8 * MEBI, "after the slow reader")
        self.assertEqual(watcher("PING"), "PONG")

    def test_a_subscriber_that_does_not_read_is_dropped_and_nobody_waits_for_it(self):
        daemon = self.start({"limits": {"output_buffer": "64KiB"}})
        slow = self.connect(daemon, receive_buffer=4096)
        slow("SUBSCRIBE", "batches")
        connection = self.connect(daemon)
        name = "n" * 256

        def dropped():
            for _ in range(200):
                batch = connection("SUBMIT", "echo", "NAME", name, "JOBS", "a")
                connection.wait(batch)
                connection("FORGET", batch)
            return daemon.metrics()["locksley_connections"] == 1

        wait_for("the slow subscriber to be dropped", dropped)
        wait_for("its end to arrive", lambda: b"" == slow.read_some())

    def test_a_client_killed_in_mid_command_leaves_no_batch_and_no_memory(self):
        daemon = self.start()
        watcher = self.connect(daemon)
        base = daemon.resident_bytes()
        with daemon.connect() as victim:
            victim.send(b"*4\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$4\r\nJOBS\r\n$%d\r\n" % (64 * MEBI) + b"x" * (60 * MEBI))
            wait_for("the payload to arrive", lambda: daemon.resident_bytes() > base + 50 * MEBI)
            # As kill -9 does it: no half-close, a reset when there is unread data.
        wait_for("the connection to be gone", lambda: daemon.metrics()["locksley_connections"] == 1)
        rss_settles_below(daemon, base + 10 * MEBI, "after the killed client")
        self.assertEqual(watcher("LIST"), ["0", []])

    def test_half_commands_of_all_clients_together_are_bounded(self):
        daemon = self.start({"limits": {"max_queued_bytes": "32MiB", "max_payload": "16MiB"}})
        watcher = self.connect(daemon)
        clients = [self.connect(daemon) for _ in range(6)]
        for client in clients:
            try:
                client.send(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (16 * MEBI) + b"x" * (15 * MEBI))
            except (ConnectionResetError, BrokenPipeError):
                pass
        wait_for("too much to be refused", lambda: daemon.metrics()["locksley_connections"] < 7)
        self.assertLess(daemon.resident_bytes(), 100 * MEBI)
        self.assertEqual(watcher("PING"), "PONG")

    def test_half_commands_that_were_refused_take_nothing_while_their_clients_stay(self):
        daemon = self.start({"limits": {"max_queued_bytes": "32MiB", "max_payload": "16MiB"}})
        watcher = self.connect(daemon)
        clients = [self.connect(daemon) for _ in range(100)]
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (16 * MEBI) + b"x" * 600_000)
        used, limit = map(int, re.search(r"account_input_bytes:used=(\d+),limit=(\d+)", watcher("INFO", "account")).groups())
        self.assertEqual(limit, 32 * MEBI)
        self.assertLessEqual(used, limit)

    def test_headers_that_announce_much_take_no_memory(self):
        daemon = self.start()
        base = daemon.resident_bytes()
        clients = [self.connect(daemon) for _ in range(50)]
        for client in clients:
            client.send(b"*2147483647\r\n$67108864\r\nx")
        # They have been read once a later one has been answered, and PING is answered in the same turn or a later one.
        self.assertEqual(self.connect(daemon)("PING"), "PONG")
        self.assertLess(daemon.resident_bytes(), base + 16 * MEBI)


if __name__ == "__main__":
    unittest.main()
