#!/usr/bin/python3
"""The program `locksley` over TLS: whom it trusts, what it shows, and what it says when it does not."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from locksley_daemon import program
from tls_client import TlsTest

MINUTE_S = 60
UNAVAILABLE, USAGE, NO_INPUT, NO_PERMISSION = 69, 2, 66, 77


class Program(TlsTest):
    def setUp(self):
        self.daemon = self.start_tls()

    def locksley(self, *arguments, daemon=None, host="127.0.0.1", scheme="rediss", ca_file="authority", stdin="", environment=None):
        url = f"{scheme}://{host}:{(daemon or self.daemon).port}"
        trust = ["--ca-file", str(self.authority.certificate)] if ca_file == "authority" else ["--ca-file", str(ca_file)] if ca_file else []
        return subprocess.run(
            [program("LOCKSLEY"), "--url", url, *trust, *arguments],
            **dict(input=stdin, capture_output=True, text=True, timeout=MINUTE_S, env={**os.environ, **(environment or {})}),
        )

    def assert_fails(self, run, code, *said):
        self.assertEqual(run.returncode, code, run.stderr)
        for text in said:
            self.assertIn(text, run.stderr)

    def test_runs_a_batch(self):
        for host in ("127.0.0.1", "localhost"):
            run = self.locksley("run", "echo", "--ordered", host=host, stdin="".join(f"{i}\n" for i in range(50_000)))
            self.assertEqual((run.returncode, run.stdout), (0, "".join(f"{i}\n" for i in range(50_000))), run.stderr[-2000:])

    def test_large_payloads_both_ways(self):
        payload = self.folder / "payload"
        payload.write_bytes(os.urandom(8 << 20))
        outputs = self.folder / "outputs"
        run = self.locksley("run", "echo", "--files", "--results", str(outputs), stdin=f"{payload}\n" * 3)
        self.assertEqual(run.returncode, 0, run.stderr)
        for index in range(3):
            self.assertEqual((outputs / str(index)).read_bytes(), payload.read_bytes())

    def test_bench(self):
        run = self.locksley("bench", "--jobs", "20000", "--batch", "1000")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_the_authority_comes_from_the_environment_too(self):
        run = self.locksley("ping", ca_file=None, environment={"LOCKSLEY_CA_FILE": str(self.authority.certificate)})
        self.assertEqual(run.returncode, 0, run.stderr)
        run = self.locksley("ping", ca_file=None, environment={"SSL_CERT_FILE": str(self.authority.certificate)})
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_an_unknown_authority(self):
        self.assert_fails(self.locksley("ping", ca_file=None), UNAVAILABLE, "no authority that is trusted has signed", "--ca-file")
        stranger = Authority(self.folder, "others")
        self.assert_fails(self.locksley("ping", ca_file=stranger.certificate), UNAVAILABLE, f"those in {stranger.certificate} have not")

    def test_another_host(self):
        daemon = self.start({"listen": {"tls": self.authority.issue("elsewhere", names="DNS:elsewhere.example").settings()}})
        for host in ("127.0.0.1", "localhost"):
            self.assert_fails(self.locksley("ping", daemon=daemon, host=host), UNAVAILABLE, f"the server's certificate is not for {host}")

    def test_an_expired_certificate(self):
        daemon = self.start({"listen": {"tls": self.authority.issue("late", days=-1).settings()}})
        self.assert_fails(self.locksley("ping", daemon=daemon), UNAVAILABLE, "the server's certificate has expired")

    def test_a_client_certificate(self):
        daemon = self.start_tls(client_ca=str(self.authority.certificate))
        alice = self.authority.issue("alice", names="DNS:alice")
        run = self.locksley("ping", "--cert", alice.certificate, "--key", alice.key, daemon=daemon)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_fails(self.locksley("ping", daemon=daemon), UNAVAILABLE, "certificate required")

    def test_a_client_certificate_of_no_user(self):
        users = {"bob": {"certificate": "bob"}}
        daemon = self.start({"listen": {"tls": self.server.settings(client_ca=str(self.authority.certificate))}, "users": users})
        alice, bob = (self.authority.issue(name, names=f"DNS:{name}") for name in ("alice", "bob"))
        run = self.locksley("ping", "--cert", bob.certificate, "--key", bob.key, daemon=daemon)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assert_fails(self.locksley("ping", "--cert", alice.certificate, "--key", alice.key, daemon=daemon), NO_PERMISSION, "NOAUTH", "users.NAME.certificate")

    def test_files_that_cannot_be_used(self):
        alice = self.authority.issue("alice", names="DNS:alice")
        self.assert_fails(self.locksley("ping", ca_file="/nowhere.pem"), NO_INPUT, "/nowhere.pem", "No such file or directory")
        self.assert_fails(self.locksley("ping", "--cert", "/nowhere.pem", "--key", alice.key), NO_INPUT, "/nowhere.pem")
        self.assert_fails(self.locksley("ping", "--cert", alice.certificate, "--key", self.server.key), NO_INPUT, self.server.key, "key values mismatch")
        self.assert_fails(self.locksley("ping", "--cert", alice.certificate), USAGE, "--key")

    def test_the_wrong_port(self):
        plain = self.start()
        self.assert_fails(self.locksley("ping", daemon=plain), UNAVAILABLE, "the server does not speak TLS on this port")
        run = self.locksley("ping", scheme="redis", ca_file=None)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("this port speaks TLS", run.stderr)
        self.assert_fails(self.locksley("ping", scheme="redis"), USAGE, "rediss://")


if __name__ == "__main__":
    unittest.main()
