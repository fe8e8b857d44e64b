#!/usr/bin/python3
"""The longest stretch of the I/O thread while the HTTP side makes long pages for many connections, with and without a login. As io_stretch.py, which
has the costly commands."""

import base64
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import io_stretch
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
        self.note_longest(f"{self.CONNECTIONS} connections that ask for {target} {self.TIMES} times")

    @once_of_three
    def test_pages_for_very_many_connections(self):
        self.pipelined([("SUBMIT", "echo", "DELAY", 600_000, "FOR", f"c{i}", "JOBS", "") for i in range(5_000)])
        self.note_longest("5,000 customers")
        self.ask("/api/customers?count=1000")


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
