#!/usr/bin/python3
"""The HTTP side's door: clients that take all connections and say nothing, and web pages whose name points to this machine."""

import base64
import http.client
import pathlib
import signal
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for
from users import PASSWORD, users

MOST_CONNECTIONS = 64  # daemon/http/limits.h
HALF_A_HEAD = b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
ANOTHER_ADDRESS = "127.0.0.2"  # than that of the clients; both are this machine's
PAGES = ("/", "/app.js", "/metrics", "/api/overview", "/api/session")


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

    def open_without_reading(self, **fields):
        """As many clients as there are connections. Their replies have begun; the socket has room for a part, and the rest waits in the daemon."""
        head = "".join(f"{name}: {value}\r\n" for name, value in {"Host": "127.0.0.1", **fields}.items())
        pipelined = f"GET /app.js HTTP/1.1\r\n{head}\r\n".encode() * 400
        clients = [self.open(pipelined, receive_buffer=4096) for _ in range(MOST_CONNECTIONS)]
        for client in clients:
            self.assertEqual(client.recv(1), b"H")
        return clients

    def status(self, path, source=None, **fields):
        """Of a connection of its own, as an orchestrator's probe makes it."""
        connection = http.client.HTTPConnection(*self.address(), timeout=DEADLINE_S, source_address=source and (source, 0))
        self.addCleanup(connection.close)
        connection.request("GET", path, headers=fields)
        reply = connection.getresponse()
        reply.read()
        connection.close()
        return reply.status


class Crowds(HttpTest):
    def setUp(self):
        self.daemon = self.start()

    def fill(self):
        """Clients that read nothing, on all connections. They are made anew if this machine took so long that the first of them give way already."""

        def made():
            clients = self.open_without_reading()
            if any(self.status("/metrics") == 503 for _ in range(10)):
                return clients
            for client in clients:
                client.close()
            wait_for("room for other pages", lambda: self.status("/metrics") == 200)
            return None

        return wait_for("all connections to be busy", made)

    def test_half_sent_heads_keep_nobody_out(self):
        clients = [self.open(HALF_A_HEAD) for _ in range(2 * MOST_CONNECTIONS)]
        for _ in range(3):
            self.assertEqual([self.status(path) for path in ("/healthz", "/readyz", "/metrics", "/")], [200] * 4)
        clients[-1].sendall(b"\r\n")
        self.assertTrue(clients[-1].recv(4096).startswith(b"HTTP/1.1 200 "), "a head that began late was cut off")

    def test_clients_that_do_not_read_leave_room_for_health(self):
        clients = self.fill()
        for _ in range(20):
            self.assertEqual([self.status(path) for path in ("/healthz", "/readyz")], [200, 200])
        for client in clients:
            client.close()
        wait_for("room for other pages", lambda: self.status("/metrics") == 200)

    def test_clients_that_do_not_read_keep_no_other_address_out(self):
        self.fill()
        for _ in range(3):
            self.assertEqual({path: self.status(path, ANOTHER_ADDRESS) for path in PAGES}, {path: 200 for path in PAGES})

    def test_clients_that_do_not_read_give_way_to_their_own_address(self):
        self.fill()
        wait_for("a client that reads nothing to give way", lambda: self.status("/metrics") == 200, seconds=20)  # write_timeout: 30 s


class Users(HttpTest):
    def test_a_user_that_does_not_read_keeps_no_other_user_out(self):
        """From one address, as behind a proxy."""
        admin = {"commands": ["read", "admin"]}
        self.daemon = self.start({"http": {"login": "users"}, **users(alice=admin, bob=admin)})
        alice, bob = ({"Authorization": "Basic " + base64.b64encode(f"{name}:{PASSWORD.format(name)}".encode()).decode()} for name in ("alice", "bob"))
        for fields in (alice, bob):  # the first check of a password takes longer
            self.assertEqual(self.status("/metrics", **fields), 200)
        self.open_without_reading(**alice)
        for _ in range(3):
            self.assertEqual({path: self.status(path, **bob) for path in PAGES}, {path: 200 for path in PAGES})


class Names(HttpTest):
    def setUp(self):
        self.daemon = self.start()

    def assert_served(self, host, expected):
        port = self.address()[1]
        for name in (host, f"{host}:{port}"):
            with self.subTest(name):
                self.assertEqual({path: self.status(path, Host=name) for path in PAGES}, {path: expected for path in PAGES})
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
