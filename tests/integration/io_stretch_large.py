#!/usr/bin/python3
"""The longest stretch of the I/O thread while clients send and receive single texts of many megabytes. As io_stretch.py, which has the other costly
commands."""

import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from io_stretch import once_of_three
from locksley_daemon import wait_for
from resp import Error, encode
from scratch import scratch

MEBI = 1 << 20


class Large(io_stretch.Stretches):
    def held(self):
        """Bytes that connections hold."""
        account = self.command("INFO", "account")
        return int(account.split("account_client_bytes:used=")[1].split(",")[0])


class Words(Large):
    @once_of_three
    def test_words_of_many_megabytes(self):
        """They would be hashed, matched, parsed, copied and freed at once."""
        word = b"x" * (64 * MEBI)
        commands = [("STATUS",), ("ADD",), ("CONFIG", "SET", "limits.open_timeout"), ("COMMAND", "LIST", "FILTERBY", "PATTERN")]
        commands += [("CLIENT", "SETNAME"), ("AUTH", "a"), ("SUBMIT", "echo", "WEIGHT"), ("BACKUP",)]
        for command in commands:
            rest = ["JOBS", "a"] if command[0] in ("ADD", "SUBMIT") else []
            self.assertIsInstance(self.command.ask(*command, word, *rest), Error)
            self.note_longest(f"{command} with a word of 64 MiB")
        self.assertIsInstance(self.command.ask("CONFIG", "SET", word, word), Error)
        self.note_longest("CONFIG SET with a key of 64 MiB")

    @once_of_three
    def test_refused_commands_of_very_many_words(self):
        words = ["x" * 60_000] * 1_200
        self.command("MULTI")
        for _ in range(2):
            self.assertIsInstance(self.command.ask("SUBMIT", "echo", *words), Error)
            self.note_longest("a SUBMIT of 72 MB that is not queued since MULTI")
        self.command("RESET")
        self.assertIsInstance(self.command.ask("SUBSCRIBE", *words * 4), Error)
        self.note_longest("a SUBSCRIBE of 290 MB")


class Replies(Large):
    """To copy a text into a reply takes as long as to receive it, and to free it takes milliseconds."""

    SIZE = 48 * MEBI

    def large(self):
        """A batch whose only job has a large payload and a large result."""
        self.command("SUBMIT", "echo", "ID", "large", "JOBS", "x" * self.SIZE)
        self.command.wait("large")
        self.note_longest("an echo of 48 MiB")

    @once_of_three
    def test_messages_that_come_back(self):
        message = b"m" * self.SIZE
        for command in ("ECHO", "PING"):
            self.assertEqual(self.command(command, message), message.decode())
            self.note_longest(f"{command} of 48 MiB")
        self.command("MULTI")
        self.command("ECHO", message[: self.SIZE // 2])
        self.command.send(encode("EXEC"))
        self.assertEqual(self.command.read(), [message[: self.SIZE // 2].decode()])
        self.note_longest("EXEC with an ECHO of 24 MiB")

    @once_of_three
    def test_a_large_result(self):
        self.large()
        self.assertEqual(self.command("RESULTS", "large"), ["0", [[0, "ok", "x" * self.SIZE]]])
        self.note_longest("RESULTS")
        self.assertEqual(self.command.map("JOB", "large", 0)["output"], "x" * self.SIZE)
        self.note_longest("JOB")
        self.assertEqual(self.daemon.get("/api/batches/large/jobs/0")[0], 200)
        self.note_longest("its page of the HTTP API")

    @once_of_three
    def test_a_large_run(self):
        self.assertEqual(self.command("RUN", "echo", "JOBS", "a", "x" * self.SIZE, "b"), [["ok", "a"], ["ok", "x" * self.SIZE], ["ok", "b"]])
        self.note_longest("RUN of three jobs, one with a result of 48 MiB")
        payloads = [f"{n}" for n in range(300_000)]
        self.assertEqual(self.command("RUN", "echo", "JOBS", *payloads), [["ok", payload] for payload in payloads])
        self.note_longest("RUN of 300,000 jobs")
        self.assertIn("TOOBIG", self.command.ask("RUN", "echo", "JOBS", *["x" * self.SIZE] * 2))
        self.note_longest("RUN with more than fits into a reply")

    @once_of_three
    def test_a_large_payload(self):
        self.command("SUBMIT", "echo", "ID", "later", "DELAY", 600_000, "JOBS", "x" * self.SIZE)
        self.assertEqual(self.command.map("JOB", "later", 0)["payload"], "x" * self.SIZE)
        self.note_longest("JOB of a job with a payload of 48 MiB")
        self.command("SUBMIT", "echo", "ID", "range", "DELAY", 600_000, "RANGE", 0, 9, "{}" * (8 * MEBI))
        self.assertEqual(self.command.map("JOB", "range", 7)["payload"], "7" * (8 * MEBI))
        self.note_longest("JOB of a job of a range with a pattern of 16 MiB")

    @once_of_three
    def test_readers_that_leave(self):
        self.large()
        with self.connect(self.daemon) as reader:
            reader.send(encode("RESULTS", "large"))
            wait_for("the reply to wait", lambda: self.held() > self.SIZE // 2)
        wait_for("the reader to have left", lambda: self.held() < MEBI)
        self.note_longest("a reader of a result of 48 MiB leaves")
        with self.connect(self.daemon) as writer:
            writer.send(b"*2\r\n$4\r\nECHO\r\n$%d\r\n" % (2 * self.SIZE) + b"m" * self.SIZE)
            self.command("PING")
        wait_for("the writer to have left", lambda: self.daemon.metrics()["locksley_connections"] == 1)
        self.note_longest("a client leaves in the middle of a message of 96 MiB")


class StoredReplies(Replies):
    def setUp(self):
        self.settings = {"store": {"path": str(scratch(self) / "store"), "durability": "none"}}
        super().setUp()

    def large(self):
        super().large()
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        self.daemon = self.start(self.settings)
        self.command = self.connect(self.daemon)


class Patterns(Large):
    """The pattern of a range is as large as a payload; what is asked of its batch needs nothing of it."""

    SIZE = 30 * MEBI

    def setUp(self):
        self.settings = {"store": {"path": str(scratch(self) / "store"), "durability": "none"}}
        super().setUp()

    def restart(self):
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        self.daemon = self.start(self.settings)
        self.command = self.connect(self.daemon)

    def submit(self, handler, batch, size, wait=True):
        self.command("SUBMIT", handler, "ID", batch, "RANGE", 7, 8, "{}" + "x" * (size - 2))
        if wait:
            self.command.wait(batch)

    @once_of_three
    def test_of_a_batch_that_is_over(self):
        self.submit("echo", "ok", self.SIZE)
        self.submit("fail", "failed", self.SIZE)
        self.submit("fail", "forgotten", self.SIZE)
        self.note_longest("three batches with patterns of 30 MiB end")
        self.restart()
        self.note_longest("restart")
        for batch, ok in (("ok", 1), ("failed", 0)):
            self.assertEqual(self.command.map("STATUS", batch)["ok"], ok)
            self.note_longest(f"STATUS of '{batch}', which the store alone has")
        self.assertEqual(self.command("RESULTS", "failed")[1][0][:2], [0, "error"])
        self.assertEqual(self.command.map("JOB", "failed", 0)["payload"], "7" + "x" * (self.SIZE - 2))
        self.note_longest("RESULTS and JOB of 'failed'")
        self.assertEqual(self.daemon.get("/api/batches/failed")[0], 200)
        self.note_longest("its page of the HTTP API")
        self.submit("echo", "ok", self.SIZE, wait=False)
        self.assertIn("EXISTS", str(self.command.ask("SUBMIT", "echo", "ID", "ok", "RANGE", 7, 8, "{}" + "y" * (self.SIZE - 2))))
        self.note_longest("its SUBMIT once more, and another with its id")
        self.assertEqual(self.command("RETRY", "failed"), 1)
        self.command.wait("failed")
        self.assertEqual(self.command.map("STATUS", "failed")["failed"], 1)
        self.note_longest("RETRY of 'failed'")
        self.command("FORGET", "forgotten")
        self.note_longest("FORGET of the third")

    @once_of_three
    def test_a_list_of_20(self):
        for n in range(20):
            self.submit("echo", f"b{n}", 4 * MEBI)
        self.restart()
        self.assertEqual(len(self.command("LIST")[1]), 20)
        self.note_longest("LIST of 20 batches with patterns of 4 MiB")

    @once_of_three
    def test_a_list_of_250_that_waited_for_1000_each(self):
        first = ["x" * 100 + str(n) for n in range(1_000)]
        self.command("SUBMIT", "echo", "ID", "gate", "DELAY", 600_000, "RANGE", 0, 1)
        self.pipelined([("SUBMIT", "echo", "ID", id, "AFTER", "gate", "RANGE", 0, 1) for id in first])
        after = [word for id in first for word in ("AFTER", id)]
        self.pipelined([("SUBMIT", "echo", *after, "RANGE", 0, 1)] * 250, batch=10)
        self.command("CANCEL", "gate")
        wait_for("all to be over", lambda: self.daemon.metrics()["locksley_active_batches"] == 0)
        self.restart()
        listed = []
        cursor = None
        while cursor != "0":
            cursor, page = self.command("LIST", *(("CURSOR", cursor) if cursor else ()), "COUNT", 10_000)
            listed += page
        self.assertEqual(len(listed), 1_251)
        self.note_longest("LIST of 250 batches that waited for 1,000 others each")

    @once_of_three
    def test_batches_that_leave_memory(self):
        self.submit("echo", "first", self.SIZE)
        self.pipelined([("SUBMIT", "echo", "RANGE", 0, 1)] * 6_000)
        wait_for("all to be over", lambda: self.daemon.metrics()["locksley_active_batches"] == 0)
        self.submit("fail", "last", self.SIZE)
        self.note_longest("a batch with a pattern of 30 MiB leaves memory for the store")
        self.command("FORGET", "last")
        self.note_longest("another one is forgotten")


class WaitingEvents(Large):
    """Events wait until the patterns of their subscriber have been matched: as many as limits.output_buffer has room for."""

    @once_of_three
    def test_a_subscriber_with_100_heavy_patterns_that_it_gives_up(self):
        heavy = ["*" + "a" * (40 + n) + "*[^" + "b" * 100 + "]z" for n in range(100)]
        for how in ("RESET", "PUNSUBSCRIBE", "it leaves"):
            listener = self.connect(self.daemon)
            listener.send(encode("PSUBSCRIBE", *heavy))
            for _ in heavy:
                listener.read()
            self.pipelined([("SUBMIT", "echo", "ID", "a" * 120 + f"{how[0]}{n}", "RANGE", 0, 1) for n in range(15_000)])
            self.assertGreater(self.held(), 20 * MEBI, "events wait")
            self.note_longest("the events of 15,000 batches flood a connection with 100 patterns")
            if how == "it leaves":
                listener.close()
            else:
                listener.send(encode(how))
            wait_for(f"the end after {how}", lambda: self.held() < MEBI)
            self.note_longest(how)


if __name__ == "__main__":
    unittest.main()
