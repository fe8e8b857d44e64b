#!/usr/bin/python3
"""redis-cli and redis-benchmark (Debian's redis-tools), unmodified, against a daemon."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from resp import encode

MINUTE_S = 60


class ToolTest(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.command = self.connect(self.daemon)

    def tool(self, program, *arguments, stdin=b""):
        """What it prints, if it ends well and complains of nothing."""
        words = [program, "-h", self.daemon.host, "-p", self.daemon.port, *arguments]
        done = subprocess.run(list(map(str, words)), input=stdin, capture_output=True, timeout=MINUTE_S)
        self.assertEqual((done.returncode, done.stderr), (0, b""), (words, done.stdout[-2000:]))
        return done.stdout.decode()

    def cli(self, *arguments, **more):
        return self.tool("redis-cli", *arguments, **more)


class RedisCli(ToolTest):
    def test_one_command(self):
        batch = self.cli("SUBMIT", "echo", "JOBS", "a", "b c").strip()
        for protocol in ([], ["-2"], ["-3"]):
            status = self.cli(*[flag for flag in protocol if flag != "-2"], "WAIT", batch, "10000")
            self.assertRegex(status, r"state[ \n]done\n")
            self.assertRegex(status, r"ok[ \n]2\n")
        self.assertEqual(self.cli("--no-raw", "RUN", "echo", "JOBS", "a", "b"), '1) 1) "ok"\n   2) "a"\n2) 1) "ok"\n   2) "b"\n')

    def test_errors_are_seen(self):
        self.assertRegex(self.cli("SUBMIT", "nosuch", "JOBS", "a"), "^NOHANDLER ")
        refused = subprocess.run(["redis-cli", "-e", "-p", str(self.daemon.port), "STATUS", "nosuch"], capture_output=True, text=True, timeout=MINUTE_S)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("NOBATCH", refused.stdout + refused.stderr)

    def test_json(self):
        batch = self.cli("SUBMIT", "echo", "JOBS", "é").strip()
        status = json.loads(self.cli("--json", "WAIT", batch, "10000"))
        self.assertEqual((status["id"], status["state"], status["ok"]), (batch, "done", 1))
        self.assertEqual(json.loads(self.cli("--json", "RESULTS", batch)), ["0", [[0, "ok", "é"]]])
        explained = json.loads(self.cli("--json", "EXPLAIN", batch))
        self.assertEqual((explained["share"], explained["reason"]), (0, "ended"))
        for command in ("HANDLERS", "TENANTS", "WORKERS", "LIST"):
            json.loads(self.cli("--json", command))

    def test_commands_on_standard_input_one_of_them_long(self):
        """It asks for COMMAND DOCS first."""
        payloads = " ".join(f"payload-{i}" for i in range(100_000))
        output = self.cli(stdin=f"PING\nSUBMIT echo ID long JOBS {payloads}\nWAIT long 30000\n".encode())
        self.assertTrue(output.startswith("PONG\nlong\n"), output[:200])
        self.assertEqual(self.command.wait("long")["ok"], 100_000)

    def test_the_last_argument_from_standard_input_is_binary_safe(self):
        payload = bytes(range(256)) * 4096
        batch = self.cli("-x", "SUBMIT", "sha256", "JOBS", stdin=payload).strip()
        self.command.wait(batch)
        self.assertEqual(self.command.results(batch), [[0, "ok", hashlib.sha256(payload).hexdigest()]])

    def test_pipe_mode_with_thousands_of_submits(self):
        count = 5000
        output = self.cli("--pipe", stdin=b"".join(encode("SUBMIT", "echo", "ID", f"p{i}", "JOBS", f"{i}\r\n") for i in range(count)))
        self.assertIn(f"errors: 0, replies: {count}", output)
        for batch in ("p0", f"p{count - 1}"):
            self.command.wait(batch)
            self.assertEqual(self.command.results(batch), [[0, "ok", f"{batch[1:]}\r\n"]])

    def test_help_knows_every_command(self):
        docs = json.loads(self.cli("--json", "COMMAND", "DOCS"))
        names = self.command("COMMAND", "LIST")
        self.assertEqual(sorted(docs), sorted(names))
        for name in "submit open add close run status wait results cancel retry forget list handlers tenants workers explain weight pause resume".split():
            self.assertTrue(docs[name]["summary"], name)
            self.assertTrue(docs[name]["group"], name)
        self.assertEqual(len(names), self.command("COMMAND", "COUNT"))
        manual = re.sub(r"\x1b\[\d+m", "", self.cli(stdin=b"help submit\n"))
        self.assertIn("SUBMIT handler", manual)

    def test_messages_of_a_channel(self):
        listener = subprocess.Popen(
            ["redis-cli", "-p", str(self.daemon.port), "SUBSCRIBE", "batch:heard"], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.addCleanup(listener.stdout.close)
        self.addCleanup(listener.wait, MINUTE_S)
        self.addCleanup(listener.kill)
        while "1\n" != listener.stdout.readline():  # subscribe, its channel, the count
            self.assertIsNone(listener.poll(), "redis-cli ended")
        self.command("SUBMIT", "echo", "ID", "heard", "JOBS", "a")
        for line in listener.stdout:
            if line.startswith("{") and json.loads(line)["event"] == "done":
                return
        self.fail("no done was heard")


class RedisBenchmark(ToolTest):
    def bench(self, *arguments):
        output = self.tool("redis-benchmark", "-q", *arguments)
        self.assertNotRegex(output, "(?i)warning|error")
        rates = re.findall(r"([\d.]+) requests per second", output)
        self.assertTrue(rates and all(float(rate) > 0 for rate in rates), output)
        return rates

    def test_ping(self):
        self.assertEqual(len(self.bench("-n", 10_000, "-t", "ping_inline,ping_mbulk")), 2)

    def test_pipelined_submits(self):
        self.bench("-n", 5000, "-c", 20, "-P", 16, "SUBMIT", "echo", "RETAIN", 1, "JOBS", "a", "b")
        self.bench("-n", 1000, "-c", 20, "-P", 16, "-3", "-r", 1_000_000, "RUN", "echo", "JOBS", "a", "__rand_int__")
        ended = lambda: self.daemon.metrics()['locksley_jobs_total{handler="echo",status="ok"}']
        wait_for("its jobs to end", lambda: ended() >= 12_000)
        self.assertLess(ended(), 13_000, "it sends whole pipelines, so perhaps a few more than asked for")


if __name__ == "__main__":
    unittest.main()
