#!/usr/bin/python3
"""The HTTP side's door: clients that take all connections and say nothing, and web pages whose name points to this machine."""

import http.client
import pathlib
import signal
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for

MOST_CONNECTIONS = 64  # daemon/http/limits.h
HALF_A_HEAD = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class HttpTest(DaemonTest):
    def address(self):
        host, port = self.daemon.http.removeprefix("http://").split(":")
        return host, int(port)

    def open(self, data, receive_buffer=None):
        client = socket.socket()
        self.addCleanup(client.close)
        client.settimeout(DEADLINE_S)
        if receive_buffer:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(self.address())
        client.sendall(data)
        return client

    def status(self, path, **fields):
        """Of a connection of its own, as an orchestrator's probe makes it."""
        connection = http.client.HTTPConnection(*self.address(), timeout=DEADLINE_S)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers=fields)
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply.status


class Crowds(HttpTest):
    def setUp(self):
        self.daemon = self.start()

    def test_half_sent_heads_keep_nobody_out(self):
        clients = [self.open(HALF_A_HEAD) for _ in range(2 * MOST_CONNECTIONS)]
        for _ in range(3):
            self.assertEqual([self.status(path) for path in ("/healthz", "/readyz", "/metrics", "/")], [200] * 4)
        clients[-1].sendall(b"\r\n")
        self.assertTrue(clients[-1].recv(4096).startswith(b"HTTP/1.1 200 "), "a head that began late was cut off")

    def test_clients_that_do_not_read_leave_room_for_health(self):
        """The socket has room for a part of the replies; the rest waits in the daemon."""
        pipelined = b"GET /app.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 400
        clients = [self.open(pipelined, receive_buffer=4096) for _ in range(MOST_CONNECTIONS)]
        wait_for("all connections to be busy", lambda: self.status("/metrics") == 503)
        for _ in range(20):
            self.assertEqual([self.status(path) for path in ("/healthz", "/readyz")], [200, 200])
        for client in clients:
            client.close()
        wait_for("room for other pages", lambda: self.status("/metrics") == 200)


class Names(HttpTest):
    PAGES = ("/", "/app.js", "/metrics", "/api/overview", "/api/session")

    def setUp(self):
        self.daemon = self.start()

    def assert_served(self, host, expected):
        port = self.address()[1]
        for name in (host, f"{host}:{port}"):
            with self.subTest(name):
                self.assertEqual({path: self.status(path, Host=name) for path in self.PAGES}, {path: expected for path in self.PAGES})
                self.assertEqual([self.status(path, Host=name) for path in ("/healthz", "/readyz")], [200, 200])

    def test_a_name_that_a_web_page_brings_is_refused_but_for_health(self):
        self.assert_served("evil.example", 403)

    def test_addresses_and_names_of_this_machine_are_served(self):
        for host in ("127.0.0.1", "[::1]", "192.0.2.7", "localhost", "LOCALHOST", socket.gethostname()):
            self.assert_served(host, 200)

    def test_the_configuration_adds_names(self):
        self.daemon.configure({"http": {"hosts": ["Locksley.example", "prometheus-target"]}})
        self.daemon.send_signal(signal.SIGHUP)
        self.daemon.wait_for_log("configuration read again")
        self.assert_served("locksley.example", 200)
        self.assert_served("prometheus-target", 200)
        self.assert_served("evil.locksley.example", 403)


if __name__ == "__main__":
    unittest.main(verbosity=2)
