#!/usr/bin/python3
"""Who is served by the HTTP side, as curl and Prometheus meet it: users with their passwords, and whoever has the token."""

import base64
import http.client
import json
import pathlib
import signal
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DEFAULTS, DaemonTest, program, wait_for
from prometheus_server import PrometheusServer
from scratch import scratch

CONFIG = 78  # daemon/base/exit_codes.h
TOKEN, OTHER_TOKEN = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"


def password_of(name):
    return f"{name}'s password: ä"


def hash_of(password):
    return subprocess.run([program("LOCKSLEY"), "hash-password"], input=password, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout.strip()


class HttpLogin(DaemonTest):
    @classmethod
    def setUpClass(cls):
        cls.hashes = {name: hash_of(password_of(name)) for name in ("root", "alice")}

    def setUp(self):
        self.folder = scratch(self, "locksley-http-login-")
        self.token_file = self.folder / "token"
        self.write_token(TOKEN)

    def write_token(self, token, mode=0o600):
        self.token_file.write_text(token)
        self.token_file.chmod(mode)

    def settings(self, **http):
        users = {"root": {"password_hash": self.hashes["root"], "commands": ["read", "admin"]}, "alice": {"password_hash": self.hashes["alice"]}}
        return {"http": {"login": "users", "token_file": str(self.token_file), **http}, "users": users}

    def curl(self, path, *options, url=None):
        """Status and text. The options are a file: what is secret is no argument."""
        config = self.folder / "curl"
        config.write_text("".join(option + "\n" for option in options))
        words = ["curl", "--silent", "--show-error", "--max-time", str(DEADLINE_S), "--config", config, "--write-out", "%{http_code}", (url or self.daemon.http) + path]
        done = subprocess.run(words, capture_output=True, text=True, timeout=2 * DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout[-3:]), done.stdout[:-3]

    def basic(self, user, password=None):
        return "user = " + json.dumps(f"{user}:{password or password_of(user)}", ensure_ascii=False)

    def bearer(self, token):
        return f'header = "Authorization: Bearer {token}"'


class Requests(HttpLogin):
    def setUp(self):
        super().setUp()
        self.daemon = self.start(self.settings())

    def status(self, path, *options):
        return self.curl(path, *options)[0]

    def test_metrics_are_for_the_token_and_for_admins(self):
        for options in ((self.basic("root"),), (self.bearer(TOKEN),)):
            status, text = self.curl("/metrics", *options)
            self.assertEqual(status, 200)
            self.assertIn("locksley_build_info", text)
        status, text = self.curl("/metrics", self.basic("alice"))
        self.assertEqual((status, text), (403, "only for the token, and for users with the group admin\n"))

    def test_others_are_told_how_to_log_in(self):
        status, text = self.curl("/metrics", "include")
        self.assertEqual(status, 401)
        self.assertIn('WWW-Authenticate: Basic realm="Locksley", charset="UTF-8"', text)
        self.assertIn('WWW-Authenticate: Bearer realm="Locksley"', text)
        for options in ((self.basic("root", "wrong"),), (self.basic("nobody"),), (self.bearer(OTHER_TOKEN),), ('header = "Authorization: garbage"',)):
            status, text = self.curl("/metrics", *options)
            self.assertEqual(status, 401, options)
            self.assertNotIn("locksley_", text)
        text = self.curl("/metrics", self.bearer(TOKEN))[1]
        self.assertIn("\nlocksley_authentication_failures_total 3\n", text)

    def test_health_needs_no_login(self):
        for options in ((), (self.basic("root", "wrong"),)):
            self.assertEqual(self.curl("/healthz", *options), (200, "ok\n"))
            self.assertEqual(self.curl("/readyz", *options), (200, "ready\n"))
        self.assertEqual(self.status("/nothing"), 404)

    def test_a_connection_goes_on_after_a_refusal(self):
        connection = socket.create_connection(self.daemon.http.removeprefix("http://").split(":"), timeout=DEADLINE_S)
        self.addCleanup(connection.close)
        file = connection.makefile("rb")
        self.addCleanup(file.close)
        seen = []
        for field in ("", "Authorization: Bearer x\r\n", f"Authorization: Bearer {TOKEN}\r\n", ""):
            connection.sendall(f"GET /metrics HTTP/1.1\r\nHost: h\r\n{field}\r\n".encode())
            seen.append(file.readline().split()[1])
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.startswith(b"Content-Length: "):
                    length = int(line.split()[1])
            file.read(length)
        self.assertEqual(seen, [b"401", b"401", b"200", b"401"])

    def reload(self, pattern):
        before = len(self.daemon.log())
        self.daemon.send_signal(signal.SIGHUP)
        wait_for(f"{pattern!r} in the log", lambda: pattern in self.daemon.log()[before:])

    def test_a_new_token_is_in_force_after_a_reload(self):
        self.write_token(OTHER_TOKEN)
        self.assertEqual(self.status("/metrics", self.bearer(TOKEN)), 200)
        self.reload("configuration read again")
        self.assertEqual(self.status("/metrics", self.bearer(TOKEN)), 401)
        self.assertEqual(self.status("/metrics", self.bearer(OTHER_TOKEN)), 200)

    def test_a_changed_password(self):
        """It is refused on a connection that it opened, too."""
        connection = http.client.HTTPConnection(self.daemon.http.removeprefix("http://"), timeout=DEADLINE_S)
        self.addCleanup(connection.close)

        def ask():
            credentials = base64.b64encode(f"root:{password_of('root')}".encode()).decode()
            connection.request("GET", "/metrics", headers={"Authorization": f"Basic {credentials}"})
            reply = connection.getresponse()
            reply.read()
            return reply.status, reply.getheader("Connection")

        self.assertEqual(ask(), (200, "keep-alive"))
        settings = self.settings()
        settings["users"]["root"]["password_hash"] = hash_of("new")
        self.daemon.configure(settings)
        self.reload("configuration read again")
        self.assertEqual(ask(), (401, "keep-alive"))
        self.assertEqual(self.status("/metrics", self.basic("root", "new")), 200)

    def test_a_reload_with_a_bad_token_changes_nothing(self):
        for token, mode, why in (("", 0o600, "it holds no token"), (OTHER_TOKEN, 0o644, "every user of this machine")):
            self.write_token(token, mode)
            self.daemon.configure(self.settings() | {"users": {"bob": {"password_hash": self.hashes["root"], "commands": ["admin"]}}})
            self.reload("the configuration stays as it was")
            self.assertIn(f"http.token_file: {self.token_file}: {why}", self.daemon.log())
            self.assertEqual(self.status("/metrics", self.bearer(TOKEN)), 200)
            self.assertEqual(self.status("/metrics", self.basic("root")), 200)
            self.assertEqual(self.status("/metrics", self.basic("bob", password_of("root"))), 401)

    def test_without_login_everybody_is_served_again(self):
        self.assertEqual(self.status("/metrics"), 401)
        self.daemon.configure({"http": {"login": "none"}})
        self.reload("configuration read again")
        self.assertEqual(self.status("/metrics"), 200)


class Start(HttpLogin):
    def test_users_without_a_login_are_warned_of(self):
        config = self.folder / "locksley.yaml"
        one = {"users": {"alice": {"password_hash": self.hashes["root"]}}}
        for settings, warning in (one, r"warning: http.login: none, though there are users: .*; set http.login: users, and .*\n"), ({**one, "http": {"login": "users"}}, ""), ({}, ""):
            config.write_text(json.dumps(settings))
            done = subprocess.run([program("LOCKSLEYD"), "--check-config", "--config", config], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stderr, rf"\A{warning}\Z")

    def test_a_bad_token_file_is_an_error_of_the_configuration(self):
        config = self.folder / "locksley.yaml"
        config.write_text(json.dumps({**DEFAULTS, "http": {"port": 0, "login": "users", "token_file": str(self.token_file)}}))
        for token, mode, why in (("", 0o600, "it holds no token"), ("short", 0o600, "expected 16 characters at least, found 5"), (TOKEN, 0o604, "every user of this machine"), (None, 0, "No such file")):
            if token is None:
                self.token_file.unlink()
            else:
                self.write_token(token, mode)
            done = subprocess.run([program("LOCKSLEYD"), "--config", config], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, done.stdout), (CONFIG, ""), done.stderr)
            self.assertIn(f"http.token_file: {self.token_file}: {why}", done.stderr)


class Prometheus(HttpLogin):
    def test_it_scrapes_with_the_token_and_with_a_password(self):
        self.daemon = self.start(self.settings())
        (self.folder / "password").write_text(password_of("root"))
        jobs = {
            "token": {"authorization": {"credentials_file": str(self.token_file)}},
            "password": {"basic_auth": {"username": "root", "password_file": str(self.folder / "password")}},
            "nobody": {},
        }
        prometheus = PrometheusServer(self, self.folder, self.daemon, jobs)
        up = lambda: {one["metric"]["job"]: one["value"][1] for one in prometheus.series("up")}
        wait_for("the token and the password to be served, and a scrape without them to be refused", lambda: up() == {"token": "1", "password": "1", "nobody": "0"})


if __name__ == "__main__":
    unittest.main()
