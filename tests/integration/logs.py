#!/usr/bin/python3
"""The log: each line stands for itself whatever clients and programs write, says what it is about in fields, and floods are counted and
not written."""

import datetime
import json
import pathlib
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import merged, wait_for
from programs import shell, worker
from resp import Error, encode
from scratch import scratch
from users import ALL, BUILTIN, UsersTest, users

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACE = f"00-{TRACE_ID}-00f067aa0ba902b7-01"
LEVELS = {"trace", "debug", "info", "warning", "error", "critical"}
# An id and a name that try to look like other fields, in both formats.
ID = 'a"b\\c=d\',"batch":"forged'
NAME = b'x" batch="forged" \\ \xff\xfe \xc3\xa9 {} %s "batch":"forged"'
STDERR = b'said "it", \\\x1b[31m \x00\x1c\x1d\x1e\x1f \xff\xc3 \xe2\x82\xac\n'
HOUR_MS = 3_600_000
ABOUT = ("batch", "tenant", "handler")
FIELD = re.compile(r' ([a-z_]+)=("(?:[^"\\]|\\.)*"|[^\s"=\\]+)')


def whole_lines(daemon):
    """Of its log, without the one that it may be writing at this moment."""
    return daemon.log().rpartition("\n")[0].splitlines()


class LogTest(UsersTest):
    def settings(self, folder, **log):
        handlers = {"py": worker(), "sh": shell(concurrency=2)}
        return {
            "handlers": handlers,
            "store": {"path": folder + "/store"},
            "log": log,
            "limits": {"open_timeout": "50ms", "max_queued_jobs": 1000, "max_batch_jobs": 1000},
            "shutdown": {"drain_timeout": "100ms"},
        }

    def lead_a_life(self, **log):
        """All that makes lines. The bytes of the log, from the start to the end."""
        folder = scratch(self)
        settings = merged(self.settings(str(folder), **log), users(alice={"commands": ALL, "handlers": ["py", "sh", *BUILTIN["handlers"]], "max_queued_jobs": 0}))
        daemon = self.start(settings)
        connection = self.log_in(daemon, "alice")

        def run(handler, *jobs, options=()):
            batch = connection("SUBMIT", handler, *options, "TRACE", TRACE, "JOBS", *jobs)
            return connection.wait(batch)

        run("fail", 'no "luck"\r\n\x00', options=("ID", ID, "NAME", NAME))
        run("fail", "again", options=("RETRIES", 1))
        run("py", b"os.write(2, " + repr(STDERR).encode() + b"); answer(1)", "os.write(2, b'\\x01' * 5000 + b'\\n'); answer(2)", "os.abort()", "raw(b'\\xff\"\\r\\n')")
        run("sh", "echo '\"' >&2; kill -SEGV $$")
        connection("SUBMIT", "sleep", "ID", "told", "TRACE", TRACE, "JOBS", HOUR_MS)
        connection("CANCEL", "told")
        run("sleep", HOUR_MS, options=("DELAY", HOUR_MS, "DEADLINE", 20))
        stream = self.log_in(daemon, "alice")
        open_batch = stream("OPEN", "echo", "TRACE", TRACE)
        stream.close()
        connection.wait(open_batch)
        self.assert_error("TOOBIG|QUEUEFULL", connection.ask("SUBMIT", "echo", "RANGE", 0, 5000))
        connection("SUBMIT", "sleep", "ID", "fills", "TRACE", TRACE, "RANGE", 0, 999, HOUR_MS)
        self.assert_error("QUEUEFULL", connection.ask("SUBMIT", "echo", "RANGE", 0, 100))
        stranger = self.connect(daemon)
        stranger.ask("AUTH", b'mal"lory\r\n\xff\x1d', "wrong")
        rude = self.connect(daemon)
        rude.send(b"*1\r\n$x\r\n\x1c\x1dbatch\x1fforged\xff\r\n")
        rude.read_until_closed()
        daemon.configure(merged(settings, {"limits": {"max_clientz": 5}}))
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("stays as it was")
        daemon.configure(merged(settings, {"limits": {"max_clients": 50}, "handlers": {"sh": {"concurrency": 3}}}))
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("configuration read again")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 75)
        again = self.start(settings)
        again.send_signal(signal.SIGTERM)
        again.wait_end()
        return daemon.log_path.read_bytes() + again.log_path.read_bytes()

    def check(self, lines):
        """`lines`: of each the words and the fields."""
        seen = {}
        for words, fields in lines:
            seen.setdefault(words, []).append(fields)
            if "batch" in fields and words != "audit":
                self.assertLessEqual(set(ABOUT), set(fields), words)
                self.assertEqual((fields["tenant"], fields["trace"]), ("alice", TRACE_ID), words)
                self.assertNotEqual(fields["batch"], "forged", words)
        about_batches = {
            "batch accepted": {"jobs"},
            "batch done": {"name", "jobs", "ok", "failed", "cancelled", "took_ms", "unlogged"},
            "batch cancelled": {"reason", "jobs"},
            "batch is told to stop": {"reason"},
            "batch left unfinished": {"jobs", "queued", "running", "ok", "failed"},
            "job failed and is tried again": {"job", "status", "output", "unlogged"},
            "worker wrote": {"stderr", "unlogged"},
            "worker has ended by itself": {"pid", "reason", "jobs_answered", "unlogged"},
            "worker is ended": {"pid", "reason", "unlogged"},
            "command crashed": {"job", "reason", "unlogged"},
            "open batch closed: its connection has gone, and limits.open_timeout passed": {"unlogged"},
        }
        about_others = {
            "queue full": {"tenant", "handler", "limit", "most", "unlogged"},
            "wrong password, or no such user": {"user", "peer", "unlogged"},
            "protocol error": {"peer", "client", "reason"},
            "handler in force": {"handler", "kind", "concurrency"},
            "started": {"version", "revision", "listen", "http", "workers", "handlers", "config", "store", "durability"},
            "store: read": {"took_ms", "batches_over", "batches_unfinished", "jobs_left"},
            "configuration changed": {"key"},
            "configuration read again": {"file"},
            "the configuration stays as it was: the file has problems": {"file", "problems"},
            "draining: nothing new is accepted": {"active_batches", "queued_jobs", "drain_timeout"},
            "closing": {"reason"},
        }
        for words, fields in about_batches.items():
            self.assertIn(words, seen)
            for line in seen[words]:
                self.assertLessEqual(fields | set(ABOUT), set(line), words)
        for words, fields in about_others.items():
            self.assertIn(words, seen)
            self.assertLessEqual(fields, set(seen[words][0]), words)
        self.assertIn(ID, [fields["batch"] for fields in seen["batch done"]])
        return seen


class Formats(LogTest):
    def test_json_is_one_object_a_line(self):
        lines = []
        for line in self.lead_a_life(format="json", level="debug").splitlines():
            entry = json.loads(line.decode())  # UTF-8, or it raises
            datetime.datetime.fromisoformat(entry.pop("time"))
            self.assertIn(entry.pop("level"), LEVELS)
            lines.append((entry.pop("message"), entry))
            self.assertNotIn("=", lines[-1][0], "what looks like a field is a member")
            self.assertLessEqual(len(line), 4096)
        seen = self.check(lines)
        names = [fields["name"] for fields in seen["batch done"] if fields["batch"] == ID]
        self.assertEqual(names, [NAME.decode(errors="replace")])
        numbers = seen["batch done"][0]
        self.assertTrue(all(isinstance(numbers[name], int) for name in ("jobs", "ok", "failed", "cancelled", "took_ms", "unlogged")), numbers)
        self.assertTrue(any('said "it", \\\x1b[31m \x00???? \ufffd\ufffd €' in fields["stderr"] for fields in seen["worker wrote"]), seen["worker wrote"])
        self.assertTrue(any(fields["stderr"].startswith("\x01" * 500) for fields in seen["worker wrote"]), "a line that is longer escaped than it may be")
        self.assertIn("reason", seen["batch cancelled"][0])

    def test_text_is_one_line_each_without_control_characters(self):
        lines = []
        for line in self.lead_a_life(format="text", level="debug").split(b"\n")[:-1]:
            self.assertNotRegex(line, rb"[\x00-\x1f\x7f]")
            match = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (\w+) (.*)", line.decode(errors="surrogateescape"), re.DOTALL)
            self.assertTrue(match, line)
            self.assertIn(match[1], LEVELS)
            words, fields = match[2], {}
            # From the first field on there is nothing but fields.
            tail = re.search(r"(?: [a-z_]+=(?:\"(?:[^\"\\]|\\.)*\"|[^\s\"=\\]+))+$", words)
            if tail:
                words = words[: tail.start()]
                for name, value in FIELD.findall(tail[0]):
                    self.assertNotIn(name, fields, line)
                    fields[name] = re.sub(r"\\([\"\\])", r"\1", value[1:-1]) if value.startswith('"') else value
            lines.append((words, fields))
        self.check(lines)


class Audits(LogTest):
    def audited(self, daemon):
        lines = [json.loads(line) for line in whole_lines(daemon)]
        return [line for line in lines if line["message"] == "audit"]

    def test_each_command_that_changes_something_has_a_line(self):
        everybody = {"alice": {"commands": ALL, "handlers": BUILTIN["handlers"]}, "bob": {"commands": ["read", "submit"], "handlers": ["echo"]}}
        daemon = self.start_with({"log": {"format": "json"}}, **everybody)
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        secret = "a payload, or a password"
        alice("SUBMIT", "sleep", "ID", "long", "JOBS", HOUR_MS, secret)
        alice("WEIGHT", "long", 3)
        alice("PAUSE", "long")
        alice("RESUME", "long")
        alice("CANCEL", "long")
        alice("RUN", "echo", "JOBS", secret)
        open_batch = alice("OPEN", "echo")
        alice("ADD", open_batch, secret)
        alice("CLOSE", open_batch)
        alice.wait(open_batch)
        alice("FORGET", open_batch)
        alice("CONFIG", "SET", "limits.max_batch_jobs", 1000, "metrics.tenants", 7)
        for wrong in (("CONFIG", "SET", secret, secret), ("CONFIG", "SET", "workers.lease", "3s", "upstream.url", secret), ("CANCEL", "none"), ("SUBMIT", "echo", "ID", secret, "JOBS", secret)):
            self.assertIsInstance(alice.ask(*wrong), Error)
        self.assert_error("NOPERM", bob.ask("CONFIG", "RELOAD"))
        self.assert_error("ERR", alice.ask("HANDLER", "RESTART", "echo"))
        for reading in (("STATUS", "long"), ("CONFIG", "GET", "*"), ("LIST",)):
            alice(*reading)
        shown = [(line["user"], line["command"], line.get("batch"), line["outcome"]) for line in self.audited(daemon)]
        run = shown[5][2]
        self.assertEqual(shown, [
            ("alice", "SUBMIT", "long", "ok"), ("alice", "WEIGHT", "long", "ok"), ("alice", "PAUSE", "long", "ok"), ("alice", "RESUME", "long", "ok"),
            ("alice", "CANCEL", "long", "ok"), ("alice", "RUN", run, "ok"), ("alice", "OPEN", open_batch, "ok"), ("alice", "ADD", open_batch, "ok"),
            ("alice", "CLOSE", open_batch, "ok"), ("alice", "FORGET", open_batch, "ok"), ("alice", "CONFIG SET", None, "ok"),
            ("alice", "CONFIG SET", None, "ERR"), ("alice", "CONFIG SET", None, "ERR"), ("alice", "CANCEL", "none", "NOBATCH"), ("alice", "SUBMIT", None, "ERR"), ("bob", "CONFIG RELOAD", None, "NOPERM"),
            ("alice", "HANDLER RESTART", None, "ERR"),
        ])  # fmt: skip
        lines = self.audited(daemon)
        self.assertEqual([line["keys"] for line in lines if "keys" in line], ["limits.max_batch_jobs metrics.tenants", "?", "workers.lease upstream.url"])
        self.assertEqual([line["handler"] for line in lines if "handler" in line], ["echo"])
        self.assertRegex(lines[0]["peer"], r"^127\.0\.0\.1:\d+$")
        self.assertNotIn(secret, daemon.log())

    def test_a_flood_is_counted_and_hides_nothing_of_other_users(self):
        daemon = self.start_with({"log": {"format": "json"}}, alice={"commands": ALL, "handlers": ["echo"]}, bob={"commands": ALL, "handlers": ["echo"]})
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        count, began = 2000, time.monotonic()
        alice.send(encode("SUBMIT", "echo", "JOBS", "x") * count)
        last = [alice.read() for _ in range(count)][-1]
        bob("SUBMIT", "echo", "ID", "found", "JOBS", "x")
        alice("PAUSE", last)
        seconds = time.monotonic() - began
        lines = self.audited(daemon)
        self.assertIn(("bob", "found"), [(line["user"], line.get("batch")) for line in lines])
        self.assertIn(("alice", "PAUSE"), [(line["user"], line["command"]) for line in lines])
        self.assertLessEqual(len(lines), 20 * (seconds + 1) + 2)

        def told():
            alice("SUBMIT", "echo", "JOBS", "x")
            told.total += 1
            lines = [line for line in self.audited(daemon) if line["user"] == "alice" and line["command"] == "SUBMIT"]
            return sum(line["unlogged"] for line in lines) + len(lines) == told.total

        told.total = count
        wait_for("all to be accounted for", told, every=0.3)

    def test_no_level_of_the_log_hides_the_audit(self):
        daemon = self.start({"log": {"format": "json", "level": "error"}})
        connection = self.connect(daemon)
        for level in ("info", "error"):
            self.assertEqual(connection("CONFIG", "SET", "log.level", level), "OK")
        connection("SUBMIT", "echo", "ID", "hidden", "JOBS", "x")
        self.assertEqual(connection("CONFIG", "SET", "log.audit", "false"), "OK")
        connection("SUBMIT", "echo", "JOBS", "x")
        shown = [(line["command"], line.get("keys", line.get("batch"))) for line in self.audited(daemon)]
        sets = [("CONFIG SET", key) for key in ("log.level", "log.level", "log.audit")]
        self.assertEqual(shown, [*sets[:2], ("SUBMIT", "hidden"), sets[2]])

    def test_it_can_be_turned_off(self):
        daemon = self.start({"log": {"format": "json", "audit": False}})
        connection = self.connect(daemon)
        connection("SUBMIT", "echo", "JOBS", "x")
        self.assertEqual(connection("CONFIG", "SET", "log.audit", "true"), "OK")
        connection("SUBMIT", "echo", "ID", "second", "JOBS", "x")
        self.assertEqual([line.get("batch") for line in self.audited(daemon)], ["second"])


class Floods(LogTest):
    def lines(self, daemon, words):
        return [fields for line in whole_lines(daemon) if (fields := json.loads(line)).get("message") == words]

    def assert_counted(self, daemon, words, total, most, again):
        """At most `most` lines of so many, and all are accounted for once it happens again after a while."""
        self.assertLessEqual(len(self.lines(daemon, words)), most)

        def told():
            again()
            lines = self.lines(daemon, words)
            told.total += 1
            return sum(line["unlogged"] for line in lines) + len(lines) == told.total

        told.total = total
        wait_for(f"all of {words} to be accounted for", told, every=0.3)

    def test_of_batches_that_fail(self):
        daemon = self.start({"log": {"format": "json"}})
        connection = self.connect(daemon)
        count, began = 2000, time.monotonic()  # of which ten a second are written
        connection.send(encode("SUBMIT", "fail", "JOBS", "x") * count)
        last = [connection.read() for _ in range(count)][-1]
        connection.wait(last)
        wait_for("all to be over", lambda: daemon.metrics()["locksley_active_batches"] == 0)
        seconds = time.monotonic() - began
        one_more = lambda: connection.wait(connection("SUBMIT", "fail", "JOBS", "x"))
        self.assert_counted(daemon, "batch done", count, 10 * (seconds + 1), one_more)

    def test_good_batches_do_not_hide_one_that_failed(self):
        daemon = self.start({"log": {"format": "json"}})
        connection = self.connect(daemon)
        connection.send(encode("SUBMIT", "echo", "JOBS", "x") * 500 + encode("SUBMIT", "fail", "ID", "found", "JOBS", "x"))
        [connection.read() for _ in range(501)]
        connection.wait("found")
        daemon.wait_for_log('"message":"batch done".*"batch":"found"')

    def test_of_commands_that_crash(self):
        daemon = self.start({"log": {"format": "json"}, "handlers": {"sh": shell(concurrency=4)}})
        connection = self.connect(daemon)
        count, began = 200, time.monotonic()
        connection.wait(connection("SUBMIT", "sh", "JOBS", *["kill -9 $$"] * count))
        seconds = time.monotonic() - began
        one_more = lambda: connection.wait(connection("SUBMIT", "sh", "JOBS", "kill -9 $$"))
        self.assert_counted(daemon, "command crashed", count, 5 * (seconds + 1), one_more)

    def test_of_wrong_passwords_on_the_wire_and_by_http(self):
        daemon = self.start_with({"log": {"format": "json"}, "http": {"login": "users"}}, alice={})
        for number in range(20):
            self.connect(daemon).ask("AUTH", f"user{number}", "wrong")
        self.assertEqual(daemon.get("/metrics")[0], 401)
        lines = [line for line in whole_lines(daemon) if "wrong password" in line]
        self.assertEqual(len(lines), 1, lines)
        self.assertEqual(json.loads(lines[0])["unlogged"], 0)


if __name__ == "__main__":
    unittest.main()
