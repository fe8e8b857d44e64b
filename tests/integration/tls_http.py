#!/usr/bin/python3
"""TLS on the HTTP side: curl, browsers' habits, a real Prometheus, and what is refused."""

import json
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import urllib.parse
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE / "prometheus")]
import prometheus_test
from locksley_daemon import wait_for
from tls_client import Records, TlsTest, client_context

MINUTE_S = 60


class Https(TlsTest):
    def start_https(self, **tls):
        daemon = self.start({"http": {"tls": self.server.settings(**tls)}})
        self.port = int(daemon.http.rsplit(":", 1)[1])
        self.url = f"https://127.0.0.1:{self.port}"
        return daemon

    def setUp(self):
        self.daemon = self.start_https()

    def curl(self, *arguments):
        words = ["curl", "-sS", "--max-time", str(MINUTE_S), "--cacert", str(self.authority.certificate), *arguments]
        return subprocess.run(words, capture_output=True, text=True, timeout=2 * MINUTE_S)

    def test_curl(self):
        run = self.curl("-D", "-", self.url + "/metrics")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertTrue(run.stdout.startswith("HTTP/1.1 200 OK\n") or run.stdout.startswith("HTTP/1.1 200 OK\r\n"), run.stdout[:100])
        self.assertIn('locksley_tls_certificate_expiry_timestamp_seconds{side="http"} ', run.stdout)
        untrusting = subprocess.run(["curl", "-sS", self.url + "/healthz"], capture_output=True, text=True, timeout=MINUTE_S)
        self.assertEqual(untrusting.returncode, 60, untrusting.stderr)

    def test_a_connection_is_kept_for_the_next_request(self):
        run = self.curl("-w", "%{num_connects} ", self.url + "/healthz", self.url + "/readyz", self.url + "/metrics", "-o", "/dev/null", "-o", "/dev/null", "-o", "/dev/null")
        self.assertEqual((run.returncode, run.stdout), (0, "1 0 0 "))

    def test_pipelined_requests_and_a_large_page(self):
        client = Records("127.0.0.1", self.port, self.context)
        self.addCleanup(client.close)
        client.handshake()
        client.send(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n" * 3 + b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        replies = client.read(1 << 20)
        self.assertEqual(replies.count(b"HTTP/1.1 200 OK"), 4)
        self.assertTrue(replies.endswith(b"\n"))

    def test_a_request_of_which_each_byte_is_a_record(self):
        client = Records("127.0.0.1", self.port, self.context)
        self.addCleanup(client.close)
        client.handshake()
        for byte in b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n":
            client.send(bytes([byte]))
        self.assertTrue(client.read(1 << 20).endswith(b"\r\n\r\nok\n"))

    def test_http_on_the_port_of_https(self):
        run = self.curl("-o", "-", "-w", "%{http_code}", self.url.replace("https", "http") + "/metrics")
        self.assertEqual((run.returncode, run.stdout), (0, "this port speaks TLS: use https:// instead of http://\n400"))

    def test_protocols(self):
        for offered, chosen in ((["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)):
            context = client_context(self.authority.certificate)
            if offered:
                context.set_alpn_protocols(offered)
            client = Records("127.0.0.1", self.port, context)
            client.handshake()
            self.assertEqual(client.tls.selected_alpn_protocol(), chosen)
            client.close()
        context = client_context(self.authority.certificate)
        context.set_alpn_protocols(["h2"])
        client = Records("127.0.0.1", self.port, context)
        self.addCleanup(client.close)
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            client.handshake()

    def test_garbage_ends_the_connection_alone(self):
        for rubbish in (b"\x16" * 1000, b"\x16\x03\x01\0\x05\x01\0\0\x01\0", b"\0" * 10):
            with socket.create_connection(("127.0.0.1", self.port), timeout=MINUTE_S) as client:
                client.sendall(rubbish)
                client.shutdown(socket.SHUT_WR)
                while client.recv(4096):
                    pass
        self.assertEqual(self.curl(self.url + "/healthz").stdout, "ok\n")

    def test_seventy_handshakes_that_are_never_finished_keep_nobody_out(self):
        """A new one takes the place of the one that has said nothing for longest."""
        silent = [socket.create_connection(("127.0.0.1", self.port), timeout=MINUTE_S) for _ in range(70)]
        self.addCleanup(lambda: [each.close() for each in silent])
        self.assertEqual(self.curl(self.url + "/healthz").stdout, "ok\n")

    def test_a_client_certificate(self):
        daemon = self.start_https(client_ca=str(self.authority.certificate))
        alice = self.authority.issue("alice")
        self.assertNotEqual(self.curl(self.url + "/healthz").returncode, 0)
        run = self.curl("--cert", alice.certificate, "--key", alice.key, self.url + "/healthz")
        self.assertEqual((run.returncode, run.stdout), (0, "ok\n"), run.stderr)
        self.assertIsNone(daemon.process.poll())

    def test_a_new_certificate_on_sighup(self):
        other = self.authority.issue("other")
        self.daemon.configure({"http": {"tls": other.settings()}})
        self.daemon.send_signal(signal.SIGHUP)
        wanted = pathlib.Path(other.certificate).read_text().strip()
        wait_for("the new certificate", lambda: ssl.get_server_certificate(("127.0.0.1", self.port)).strip() == wanted)

    def test_prometheus_scrapes_it(self):
        process, api = prometheus_test.start_prometheus(
            self.folder,
            f"127.0.0.1:{self.port}",
            f"scheme: https, tls_config: {{ca_file: '{self.authority.certificate}'}}",
        )
        self.addCleanup(prometheus_test.end, process)
        url = api + "query?" + urllib.parse.urlencode({"query": 'up{job="locksley"}'})

        def is_up():
            result = json.loads(prometheus_test.http_get(url)[2])["data"]["result"]
            return bool(result) and result[0]["value"][1] == "1"

        wait_for("Prometheus to find it up", is_up, MINUTE_S)


if __name__ == "__main__":
    unittest.main()
