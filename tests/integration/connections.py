#!/usr/bin/python3
"""What happens to waits, runs, streams and subscriptions when clients wait, leave or break off."""

import json
import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import encode
from scratch import scratch
from store_daemon import HOUR_MS, StoreTest


def end_waits_for_one_who_has_gone(test, daemon):
    """Of each command that waits, although the daemon does not read all that is pipelined after it."""
    command = test.connect(daemon)
    batch = command("OPEN", "echo")
    for words in (("RUN", "sleep", "JOBS", HOUR_MS), ("WAIT", batch), ("RESULTS", batch, "BLOCK", 0)):
        for leave in ("close", "half_close"):
            with test.subTest(words[0], leave=leave), daemon.connect() as client:
                blocked = lambda: daemon.metrics()["locksley_blocked_connections"]
                client.send(encode(*words) + encode("PING", "x" * 1000) * 100)
                wait_for("the command to wait", lambda: blocked() == 1)
                getattr(client, leave)()
                wait_for("the wait to end", lambda: blocked() == 0)
    wait_for("nothing to run any more", lambda: command("RUNNING") == [])


class Blocked(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def connections(self):
        return self.daemon.metrics()["locksley_connections"]

    def test_a_half_close_while_blocked_ends_the_wait_without_a_reply(self):
        batch = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS)
        for words in (("WAIT", batch), ("RESULTS", batch, "BLOCK", 0)):
            with self.daemon.connect() as waiter:
                waiter.send(encode(*words))
                waiter.assert_silent()
                waiter.half_close()
                self.assertEqual(waiter.read_until_closed(), b"")
        wait_for("the connections to be gone", lambda: self.connections() == 1)
        wait_for("the batch, which outlives those who wait for it, to run", lambda: self.command.status(batch)["running"] == 1)
        self.command("CANCEL", batch)

    def test_who_half_closes_while_blocked_is_told_of_what_came_before(self):
        # With a store: the reply of OPEN waits for the disk, while WAIT has begun.
        folder = scratch(self)  # removed after the daemon, which is started later, has ended
        daemon = self.start({"store": {"path": str(folder)}})
        for n in range(20):
            with daemon.connect() as client:
                client.send(encode("OPEN", "echo", "ID", f"stream-{n}") + encode("WAIT", f"stream-{n}") + encode("PING"))
                client.half_close()
                self.assertEqual(client.read_until_closed().decode(), f"${len(str(n)) + 7}\r\nstream-{n}\r\n")

    def test_commands_behind_a_wait_are_answered_after_it_in_order(self):
        batch = self.command("SUBMIT", "sleep", "JOBS", 200)
        self.command.send(encode("WAIT", batch) + encode("PING", "1") + encode("STATUS", batch) + encode("PING", "2"))
        self.assertIn("done", self.command.read())
        self.assertEqual(self.command.read(), "1")
        self.assertIn("done", self.command.read())
        self.assertEqual(self.command.read(), "2")

    def test_many_wait_for_one_batch(self):
        batch = self.command("OPEN", "echo")
        waiters = [self.connect(self.daemon) for _ in range(50)]
        for waiter in waiters:
            waiter.send(encode("WAIT", batch))
        self.command("ADD", batch, "a")
        self.command("CLOSE", batch)
        for waiter in waiters:
            reply = waiter.read()
            self.assertEqual(reply[reply.index("state") + 1], "done")

    def test_run_cancels_its_batch_when_the_client_goes_away(self):
        for leave in ("close", "half_close"):
            with self.subTest(leave):
                runner = self.connect(self.daemon)
                runner.send(encode("RUN", "sleep", "JOBS", HOUR_MS, HOUR_MS, HOUR_MS))
                wait_for("its jobs to run", lambda: self.tenant()["running"] == 2)
                getattr(runner, leave)()
                wait_for("them to be cancelled", lambda: (self.tenant()["running"], self.tenant()["queued"]) == (0, 0))
                wait_for("nothing to be kept", lambda: self.command("LIST") == ["0", []])

    def test_a_client_that_goes_away_is_missed_although_much_is_pipelined_after_its_command(self):
        end_waits_for_one_who_has_gone(self, self.daemon)

    def tenant(self):
        (tenant,) = self.command("TENANTS")
        return dict(zip(tenant[::2], tenant[1::2]))

    def test_a_batch_that_was_submitted_outlives_its_connection(self):
        with self.daemon.connect() as connection:
            batch = connection("SUBMIT", "sleep", "JOBS", 100, 100)
        self.assertEqual(self.command.wait(batch)["ok"], 2)

    def test_jobs_of_a_stream_run_while_more_arrive(self):
        stream = self.command("OPEN", "echo")
        for i in range(5):
            self.assertEqual(self.command("ADD", stream, f"{i}"), i + 1)
            wait_for("the job to end while the batch is open", lambda: self.command.map("STATUS", stream)["ok"] == i + 1)
            self.assertEqual(self.command.map("STATUS", stream)["state"], "open")
        self.assertEqual(self.command("CLOSE", stream), 5)
        self.assertEqual(self.command.wait(stream)["state"], "done")

    def test_one_client_kills_another(self):
        victim = self.connect(self.daemon)
        number = victim("CLIENT", "ID")
        self.assertEqual(self.command("CLIENT", "KILL", "ID", number), 1)
        self.assertEqual(victim.read_until_closed(), b"")
        self.assertEqual(self.command("CLIENT", "KILL", "ID", number), 0)


class NetworkThreads(DaemonTest):
    THREADS = 3  # two network threads

    def setUp(self):
        self.daemon = self.start({"listen": {"threads": self.THREADS}})

    def each_thread(self, metric):
        metrics = self.daemon.metrics()
        return [metrics[f'locksley_network_{metric}{{thread="{thread}"}}'] for thread in range(1, self.THREADS)]

    def connections(self):
        return self.each_thread("thread_connections")

    def test_connections_are_spread_over_them(self):
        clients = [self.connect(self.daemon) for _ in range(4)]
        for client in clients:
            self.assertEqual(client("PING"), "PONG")
        self.assertEqual(self.connections(), [2, 2])
        wait_for("each thread to be woken for a reply", lambda: [client("PING") for client in clients] and all(self.each_thread("wakeups_total")))
        for client in clients[1:]:
            client.close()
        wait_for("the others to be gone", lambda: sum(self.connections()) == 1)
        series = [key for key in self.daemon.metrics() if key.startswith("locksley_network_lock_waits_total")]
        self.assertEqual(len(series), 2 * (self.THREADS - 1), series)

    def test_a_client_that_goes_away_is_missed_although_much_is_pipelined_after_its_command(self):
        end_waits_for_one_who_has_gone(self, self.daemon)

    def test_they_move_the_bytes_and_one_thread_executes(self):
        payloads = ["x" * 100_000] * 20
        client = self.connect(self.daemon)
        for _ in range(5):
            self.assertEqual(client("RUN", "echo", "JOBS", *payloads), [["ok", payload] for payload in payloads])
        threads = [name for name, _, _ in self.daemon.threads().values()]
        self.assertEqual(threads.count("network"), self.THREADS - 1, threads)
        wait_for("large buffers to be used up", lambda: self.daemon.metrics()["locksley_network_large_buffers"] == 0)
        fd = client("CLIENT", "LIST").split(" fd=")[1].split()[0]
        self.assertTrue(pathlib.Path(f"/proc/{self.daemon.pid}/fd/{fd}").is_symlink())

    def test_a_reply_that_is_read_late_is_whole_although_the_peer_has_said_its_end(self):
        texts = [str(number) * 100_000 for number in range(10)]  # more than the relay holds
        with self.daemon.connect() as client:
            client.send(b"".join(encode("PING", text) for text in texts))
            client.half_close()
            wait_for("a reply to be made", lambda: self.daemon.metrics()["locksley_sent_bytes_total"] > 0)
            reply = client.read_until_closed(30)
        self.assertEqual(reply, "".join(f"${len(text)}\r\n{text}\r\n" for text in texts).encode())

    def test_the_daemon_ends_after_its_last_replies(self):
        client = self.connect(self.daemon)
        payload = "x" * 60_000  # the sockets have room for it at once
        client.send(encode("RUN", "echo", "JOBS", payload))
        wait_for("the reply to be made", lambda: self.daemon.metrics()["locksley_sent_bytes_total"] > 0)
        self.daemon.send_signal(signal.SIGTERM)
        self.assertEqual(client.read(), [["ok", payload]])
        self.assertEqual(self.daemon.wait_end(), 0)


class Streams(DaemonTest):
    def test_a_stream_whose_connection_died_closes_itself(self):
        daemon = self.start({"limits": {"open_timeout": "500ms"}})
        command = self.connect(daemon)
        kept = command("OPEN", "echo")
        with daemon.connect() as streamer:
            lost = streamer("OPEN", "echo")
            streamer("ADD", lost, "a", "b")
            taken_over = streamer("OPEN", "echo")
            command("ADD", taken_over, "a")
            begin = time.monotonic()
        self.assertEqual(command.wait(lost)["ok"], 2)
        self.assertGreaterEqual(time.monotonic() - begin, 0.49)
        self.assert_error("CLOSED", command.ask("ADD", lost, "c"))
        for batch in (kept, taken_over):
            self.assertEqual(command.map("STATUS", batch)["state"], "open", "its connection lives")
        self.assertEqual(command("CLOSE", taken_over), 1)

    def test_the_connection_of_a_repeated_open_streams_the_batch(self):
        daemon = self.start({"limits": {"open_timeout": "100ms"}})
        command = self.connect(daemon)
        with daemon.connect() as streamer:
            for batch in ("reopened", "left"):
                self.assertEqual(streamer("OPEN", "echo", "ID", batch), batch)
            self.assertEqual(command("OPEN", "echo", "ID", "reopened"), "reopened")
        self.assertEqual(command.wait("left")["jobs"], 0)
        self.assertEqual(command("ADDAT", "reopened", 0, "a"), 1)
        self.assertEqual(command("CLOSE", "reopened"), 1)

    def test_open_does_not_repeat_a_batch_that_was_closed(self):
        command = self.connect(self.start())
        opens = ("OPEN", "echo", "ID", "closed", "DELAY", HOUR_MS)
        self.assertEqual([command(*opens), command(*opens), command("CLOSE", "closed")], ["closed", "closed", 0])
        self.assert_error("EXISTS", command.ask(*opens))


class EventsOfStoredBatches(StoreTest):
    def test_they_come_after_the_replies_before_the_subscription_and_its_confirmation(self):
        self.begin()
        for protocol in (2, 3):
            for subscribe, channel in (("SUBSCRIBE", "batch:{}"), ("PSUBSCRIBE", "batch:{}*")):
                with self.subTest(protocol=protocol, subscribe=subscribe), self.daemon.connect() as client:
                    batch = f"{subscribe}-{protocol}"
                    client("HELLO", protocol)
                    submit = encode("SUBMIT", "echo", "ID", batch, "DELAY", 3000, "JOBS", "a")
                    client.send(submit + encode(subscribe, channel.format(batch)))
                    self.assertEqual(client.read(), batch)
                    self.assertEqual(client.read(), [subscribe.lower(), channel.format(batch), 1])
                    # If the daemon is held up between the two commands, the batch may be stored before there is a subscriber.
                    self.assertIn(json.loads(client.read()[-1])["event"], ("accepted", "started"))


class Events(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def listen(self, *words, protocol=2):
        listener = self.connect(self.daemon)
        if protocol == 3:
            listener("HELLO", 3)
        self.assertEqual(listener(*words)[2], 1)
        return listener

    def until_over(self, listener):
        """All events up to the last."""
        events = []
        while not events or events[-1]["event"] not in ("done", "cancelled"):
            _, payload = listener.read_message()
            events.append(json.loads(payload.encode("latin-1")))
        return events

    def test_a_batch_tells_its_life_in_order(self):
        for protocol in (2, 3):
            one = self.listen("SUBSCRIBE", f"batch:b{protocol}", protocol=protocol)
            everything = self.listen("SUBSCRIBE", "batches", protocol=protocol)
            by_pattern = self.listen("PSUBSCRIBE", "batch:*", protocol=protocol)
            self.command("SUBMIT", "sleep", "ID", f"b{protocol}", "NAME", "é\"", "JOBS", 1, "bad")
            for listener in (one, everything, by_pattern):
                events = self.until_over(listener)
                kinds = [event["event"] for event in events if event["event"] != "progress"]
                self.assertEqual(kinds, ["accepted", "started", "done"])
                self.assertEqual({event["batch"] for event in events}, {f"b{protocol}"})
                last = events[-1]
                self.assertEqual((last["ok"], last["failed"], last["jobs"], last["state"], last["name"]), (1, 1, 2, "done", 'é"'))

    def test_a_cancelled_batch_says_so(self):
        listener = self.listen("SUBSCRIBE", "batch:x")
        self.command("SUBMIT", "sleep", "ID", "x", "JOBS", HOUR_MS)
        self.command("CANCEL", "x")
        self.assertEqual(self.until_over(listener)[-1]["event"], "cancelled")

    def test_progress_comes_at_most_four_times_a_second(self):
        listener = self.listen("SUBSCRIBE", "batch:long")
        self.command("SUBMIT", "sleep", "ID", "long", "RANGE", 0, 1_000_000, 5)  # it ends when there was progress enough
        ended = []
        while (event := json.loads(listener.read_message()[1]))["event"] != "cancelled":
            if event["event"] == "progress":
                ended.append(event["ok"])
                if len(ended) == 4:
                    self.command("CANCEL", "long")
        status = self.command.wait("long")
        seconds = (status["finished_at"] - status["started_at"]) / 1000
        self.assertLessEqual(len(ended), 4 * seconds + 1)
        self.assertEqual(ended, sorted(ended))

    def test_nobody_gets_a_message_that_was_not_asked_for(self):
        silent = self.connect(self.daemon)
        silent("HELLO", 3)
        left = self.listen("SUBSCRIBE", "batches")
        left("UNSUBSCRIBE")
        self.command.wait(self.command("SUBMIT", "echo", "JOBS", "a"))
        for connection in (silent, left, self.command):
            self.assertEqual(connection("PING", "only this"), "only this")


if __name__ == "__main__":
    unittest.main()
