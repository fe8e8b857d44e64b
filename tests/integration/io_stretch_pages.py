#!/usr/bin/python3
"""The longest stretch of the I/O thread while the HTTP side makes long pages for many connections, with and without a login. As io_stretch.py, which
has the costly commands."""

import base64
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
from attempts import TooSlow, attempts
from io_stretch import once_of_three
from locksley_daemon import DEADLINE_S, program

PASSWORD = "a password"


def basic(user):
    return "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()


class Pages(io_stretch.Crowd):
    CONNECTIONS = 60
    TIMES = 10  # that each connection asks
    fields = ""  # of each request

    def ask(self, target):
        """Each connection asks again as soon as it has its page."""
        clients = self.connections(self.CONNECTIONS, port=int(self.daemon.http.rsplit(":", 1)[1]))
        request = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{self.fields}%s\r\n"
        for each in clients:
            each.sendall(((self.TIMES - 1) * (request % "") + request % "Connection: close\r\n").encode())
        for each in clients:
            data = b""
            while piece := each.recv(1 << 20):
                data += piece
            self.assertEqual(data.count(b"HTTP/1.1 200 OK"), self.TIMES, data[:1000])
            self.assertGreater(data.count(b'"customer":"c'), self.TIMES, data[:1000])
        self.note_longest(f"{self.CONNECTIONS} connections that ask for {target} {self.TIMES} times")

    @once_of_three
    def test_pages_for_very_many_connections(self):
        self.pipelined([("SUBMIT", "echo", "DELAY", 600_000, "FOR", f"c{i}", "JOBS", "") for i in range(5_000)])
        self.note_longest("5,000 customers")
        self.ask("/api/customers?count=1000")


class OnePage(io_stretch.Stretches):
    BATCHES = 20_000
    PAGES = 100

    def long_stretches(self):
        return self.daemon.metrics()["locksley_io_long_stretches_total"]

    @attempts
    def test_a_page_of_batches_ends_before_it_has_taken_2_ms(self):
        """The daemon counts the stretches that are longer. A few may be: the machine adds to them."""
        self.pipelined([("SUBMIT", "sleep", "NAME", 'n"\\' * 85, "FOR", f"c{i}", "EPHEMERAL", "JOBS", "3600000") for i in range(self.BATCHES)])
        before, cursor, listed = self.long_stretches(), "0", []
        for _ in range(self.PAGES):
            status, text = self.daemon.get(f"/api/batches?count=200&cursor={cursor}")
            self.assertEqual(status, 200, text)
            page = json.loads(text)
            self.assertTrue(page["batches"])
            listed += [batch["customer"] for batch in page["batches"]]
            cursor = page["cursor"] or "0"
        print(f"{len(listed)} batches on {self.PAGES} pages, {int(self.long_stretches() - before)} above 2 ms", flush=True)
        self.assertEqual(listed, [f"c{-i % self.BATCHES}" for i in range(1, len(listed) + 1)])
        long = self.long_stretches() - before
        if long >= self.PAGES / 2:
            raise TooSlow(f"{int(long)} of {self.PAGES} pages took more than 2 ms")


class Metrics(io_stretch.Stretches):
    HANDLERS, LANES, PAGES = 200, 20, 30
    LINES = 10_000

    def long_stretches(self):
        return self.daemon.metrics()["locksley_io_long_stretches_total"]

    @attempts
    def test_a_scrape_of_very_many_handlers_ends_before_it_has_taken_2_ms(self):
        lane = lambda number: f"lane{number % self.LANES}"
        settings = {
            "lanes": {lane(i): {"slots": 2} for i in range(self.LANES)},
            "handlers": {f"h{i}": {"command": ["cat"], "lane": lane(i)} for i in range(self.HANDLERS)},
        }
        self.daemon = self.start(settings)
        before = self.long_stretches()
        for _ in range(self.PAGES):
            status, text = self.daemon.get("/metrics")
            self.assertEqual(status, 200, text)
            self.assertGreater(text.count("\n"), self.LINES)
        long = self.long_stretches() - before
        print(f"{self.PAGES} scrapes: {int(long)} stretches above 2 ms", flush=True)
        if long >= self.PAGES / 2:
            raise TooSlow(f"{int(long)} stretches of {self.PAGES} scrapes took more than 2 ms")


class LoggedIn(io_stretch.Stretches):
    """With a login: `user` and "root", and `MORE_USERS` beside them. The password is remembered since AUTH."""

    user = "alice"
    MORE_USERS = 0

    @classmethod
    def setUpClass(cls):
        words = [program("LOCKSLEY"), "hash-password"]
        done = subprocess.run(words, input=PASSWORD, capture_output=True, text=True, check=True, timeout=DEADLINE_S)
        of_all = {"password_hash": done.stdout.strip()}
        users = {"alice": of_all, "root": of_all | {"commands": ["submit", "read", "control", "admin"]}}
        cls.settings = {"http": {"login": "users"}, "users": users | {f"u{i}": of_all for i in range(cls.MORE_USERS)}}

    def connect(self, daemon, **options):
        connection = super().connect(daemon, **options)
        self.assertEqual(connection("AUTH", self.user, PASSWORD), "OK")
        return connection

    def start(self, settings):
        daemon = super().start(settings)
        daemon.http_fields = {"Authorization": basic("root")}
        return daemon


class PagesOfUsers(LoggedIn, Pages):
    fields = f"Authorization: {basic('alice')}\r\n"


if __name__ == "__main__":
    unittest.main()
