#!/usr/bin/python3
"""Clients that do harm, on purpose or not, beside one that does not: its PINGs and small RUNs are still served soon, and memory goes back to
where it was.

The neighbour is a process of its own, which measures at rest and during each kind of abuse. "Soon" is counted in processor time of the I/O
thread between the neighbour's command and its reply, that is, in the work that the thread does for others first. The clock would count what
other programs on the machine do as well."""

import contextlib
import pathlib
import re
import resource
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from attempts import TooSlow, attempts
from locksley_daemon import Daemon, DaemonTest, wait_for
from neighbour import WAIT_S, Neighbour, text
from processor_reference import slowdown
from resp import encode

KIBI, MEBI = 1 << 10, 1 << 20
HOUR_MS = 3_600_000
MEASURE_S = 0.5  # of each abuse, at least; the neighbour decides by the number of its commands
MANY = 1_000  # connections of most kinds of abuse
CROWD = 10_000  # of those that only sit there
IP_BIND_ADDRESS_NO_PORT = 24  # <linux/in.h>; the module socket has no name for it


def raise_descriptor_limit():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Beside(DaemonTest):
    """The tests of a class have one daemon and one neighbour, one test after the other."""

    settings = {}
    busy = None  # beside a flood of PINGs

    def __init_subclass__(cls):
        for name in [name for name in vars(cls) if name.startswith("test_")]:
            setattr(cls, name, attempts(getattr(cls, name)))

    @classmethod
    def setUpClass(cls):
        raise_descriptor_limit()
        cls.daemon = Daemon(cls.settings)
        cls.addClassCleanup(cls.daemon.close)
        with cls.daemon.connect() as command:
            command("RUN", "echo", "JOBS", "a")
        cls.neighbour = Neighbour(cls.daemon, seconds=0)
        cls.addClassCleanup(cls.neighbour.close)

    def setUp(self):
        self.addCleanup(lambda: self._logs.append(self.daemon.log()[-8000:]))
        self.command = self.connect(self.daemon)
        self.threads = []
        self.stopping = threading.Event()
        self.addCleanup(self.stopping.set)
        self.sockets = []
        self.addCleanup(self.close_all)
        if not self.busy:
            self.flood_with_pings()
        self.only_two_are_connected()
        self.rss = self.daemon.resident_bytes()
        self.most_rss = self.rss

    def only_two_are_connected(self):
        """The neighbour, and the test's own command connection."""
        wait_for("the connections to be gone", lambda: self.daemon.metrics()["locksley_connections"] == 2, every=0.1)

    def close_all(self):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)  # a thread that waits for it goes on
            each.close()
        self.sockets.clear()

    def open(self, count, port=None, receive_buffer=None):
        """Plain sockets, from as many addresses as it takes to have enough ports."""
        made = []
        for i in range(count):
            each = socket.socket()
            if receive_buffer:
                each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            # connect() chooses the port: bind() takes milliseconds to find a free one among thousands in use.
            each.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            each.bind((f"127.0.0.{2 + i // 5_000}", 0))
            each.settimeout(30)
            each.connect((self.daemon.host, port or self.daemon.port))
            made.append(each)
        self.sockets += made
        return made

    def look(self):
        self.most_rss = max(self.most_rss, self.daemon.resident_bytes())

    @contextlib.contextmanager
    def abused(self, what, seconds=MEASURE_S, mebibytes=64):
        """Runs the block beside the neighbour, for `seconds` at least. Then compares the neighbour's figures with those beside a flood of PINGs,
        since an I/O thread that never rests always has work for others, and the daemon's memory with `mebibytes` more than before."""
        with slowdown() as machine, self.neighbour.beside(seconds) as figures:
            yield
            self.look()
        self.look()
        self.close_all()
        rest = self.neighbour.rest
        print(f"{what}: {text(figures)}\n  at rest: {text(rest)}; RSS {self.rss >> 20} MiB, {self.most_rss >> 20} MiB at most", flush=True)
        self.assertLess(self.most_rss, self.rss + mebibytes * MEBI, what)
        for kind, before in self.busy.items():
            now = figures[kind]
            for figure, most in (("p50", 5), ("p99", 60), ("max", 500)):
                if now[figure] >= most * machine.factor + 10 * before[figure]:
                    raise TooSlow(f"{what}: {kind} {figure}: {text(figures)}; at rest {text(rest)}")

    def settles(self, mebibytes=48):
        self.only_two_are_connected()
        wait_for(
            f"memory to be within {mebibytes} MiB of where it was, {self.rss >> 20} MiB",
            lambda: self.daemon.resident_bytes() < self.rss + mebibytes * MEBI,
            every=0.1,
        )
        self.assertEqual(self.command("PING"), "PONG")

    def in_background(self, work):
        """work() again and again, in a thread, until the test ends; what it raises because its connection was closed ends it."""
        stopping = self.stopping  # of this attempt

        def loop():
            try:
                while not stopping.is_set():
                    work()
            except (OSError, ValueError):
                pass

        self.threads.append(threading.Thread(target=loop, daemon=True))
        self.threads[-1].start()

    def flood(self, command, connections=4, pipeline=50):
        """That command, pipelined without end by a few connections, whose replies are read as they come."""
        for each in self.open(connections):
            data = command * pipeline
            self.in_background(lambda each=each, data=data: each.sendall(data))
            self.in_background(lambda each=each: each.recv(1 << 20) or each.close())

    def flood_with_pings(self):
        """The baseline of all tests of the class: the I/O thread never rests, and each command costs it little."""
        with self.neighbour.beside(MEASURE_S) as busy:
            self.flood(encode("PING"), pipeline=500)
        self.close_all()
        type(self).busy = busy
        print(f"a flood of PING: {text(busy)}", flush=True)


class Connections(Beside):
    settings = {"limits": {"max_clients": 20_000}}

    def test_ten_thousand_that_sit_there(self):
        with self.abused("10,000 idle clients", mebibytes=128):
            self.open(CROWD)
            wait_for("all to be taken in", lambda: self.daemon.metrics()["locksley_connections"] == CROWD + 2, every=0.1)
        self.settles()

    def test_thousands_that_send_a_byte_at_a_time(self):
        clients = self.open(3_000)
        data = encode("ECHO", "x" * 60)
        with self.abused("3,000 clients, a byte a turn each"):
            for i in range(12):
                for each in clients:
                    each.sendall(data[i : i + 1])
        self.settles()

    def test_clients_that_come_and_go(self):
        address = (self.daemon.host, self.daemon.port)

        def come_and_go():
            with socket.create_connection(address) as each:
                each.sendall(b"PING\r\n")
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        for _ in range(4):
            self.in_background(come_and_go)
        with self.abused("4 clients that reconnect without end"):
            pass
        self.stopping.set()
        self.settles()

    def test_peers_that_are_half_gone(self):
        with self.abused("1,000 peers that have closed their side in mid command"):
            for each in self.open(MANY):
                each.sendall(b"*2\r\n$4\r\nECHO\r\n$1000\r\nabc")
                each.shutdown(socket.SHUT_WR)
        self.settles()

    def test_half_of_a_large_command_from_each_of_a_thousand(self):
        with self.abused("half of a command of 400 KB from each of 1,000", mebibytes=700):
            for each in self.open(MANY):
                each.sendall(b"*4\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$4\r\nJOBS\r\n$400000\r\n" + b"x" * 200_000)
        self.settles(mebibytes=300)  # the allocator keeps some of it

    def test_waits_by_the_thousand(self):
        batch = self.command("SUBMIT", "sleep", "RANGE", 0, 1_000_000, "1")
        with self.abused("3,000 clients that wait for a batch, 1,000 for its rows, while it runs"):
            for i, each in enumerate(self.open(4_000)):
                each.sendall(encode("WAIT", batch) if i % 4 else encode("RESULTS", batch, "FROM", 900_000, "BLOCK", 0))
        with self.abused("… and all are answered"):
            waiting = self.open(4_000)
            for each in waiting:
                each.sendall(encode("WAIT", batch))
            wait_for("them to wait", lambda: f"blocked_clients:{len(waiting)}" in self.command("INFO", "clients"))
            self.command("CANCEL", batch)
            for each in waiting:
                self.assertIn(b"cancelled", each.recv(1000))
        self.settles()


class BeyondTheLimit(Beside):
    settings = {"limits": {"max_clients": 50}}

    def test_a_storm_of_connections_beyond_max_clients(self):
        self.open(48)
        address = (self.daemon.host, self.daemon.port)
        replies = set()

        def knock():
            with socket.create_connection(address) as each:
                replies.add(each.recv(100))

        for _ in range(4):
            self.in_background(knock)
        with self.abused("a storm of connections beyond max_clients"):
            time.sleep(MEASURE_S)
            self.stopping.set()
            for thread in self.threads:  # the last of them are refused before others leave
                thread.join(WAIT_S)
                self.assertFalse(thread.is_alive(), f"waited {WAIT_S} s for the last refusals")
        self.assertEqual(replies, {b"-ERR max number of clients reached\r\n"})


class Readers(Beside):
    settings = {"limits": {"output_buffer": "8MiB", "client_memory": "128MiB"}}

    def test_readers_that_do_not_read(self):
        batch = self.command("SUBMIT", "echo", "JOBS", *["x" * 1000] * 5000)
        self.command.wait(batch)
        with self.abused("300 clients that ask for megabytes and read nothing", mebibytes=128 + 96):
            for each in self.open(300, receive_buffer=4096):
                each.sendall(encode("RESULTS", batch, "COUNT", 5000) * 20)
        self.command("FORGET", batch)
        self.settles()

    def test_subscribers_that_do_not_read(self):
        for each in self.open(300, receive_buffer=4096):
            each.sendall(encode("SUBSCRIBE", "batches") + encode("PSUBSCRIBE", "batch:*"))
        name = "n" * 256
        with self.abused("300 subscribers that read nothing", mebibytes=128 + 96):
            for _ in range(200):
                self.command.send(encode("SUBMIT", "echo", "EPHEMERAL", "RETAIN", 0, "NAME", name, "JOBS", "a"))
                self.command.read()
        self.settles()


class LargeCommands(Beside):
    settings = {"limits": {"max_command": "64MiB", "max_payload": "48MiB", "output_buffer": "8MiB"}}

    def test_a_million_tiny_commands_in_one_pipeline(self):
        client, watcher = self.connect(self.daemon), self.connect(self.daemon)
        self.in_background(lambda: client.send(b"PING\r\n" * 100_000))
        most = 0
        with self.abused("millions of PINGs in one pipeline"):
            for _ in range(7):
                got = 0
                while got < 1_000_000:
                    got += len(client.read_some())
                most = max(most, *map(int, re.findall(r"qbuf=(\d+)", watcher("CLIENT", "LIST"))))
        watcher.close()
        self.assertLess(most, 2 * MEBI, "what is not executed yet stays with the sender")
        self.stopping.set()
        client.socket.shutdown(socket.SHUT_RDWR)  # else the thread that sends holds it until its time is over
        client.close()
        self.settles()

    def test_commands_of_the_largest_size(self):
        data = encode("SUBMIT", "echo", "ID", "x" * 129, "JOBS", "x" * 40 * MEBI)
        with self.abused("commands of 40 MiB, refused", mebibytes=200):
            for each in self.open(3):
                each.sendall(data)
        self.settles()

    def test_a_million_arguments(self):
        data = encode("SUBMIT", "echo", "JOBS", *["payload"] * 1_000_000)
        client = self.connect(self.daemon)
        with self.abused("a SUBMIT of 1,000,000 jobs, whole and by half, and the end of it", mebibytes=300):
            for each in self.open(3):
                each.sendall(data[: len(data) // 2])
            client.send(data)
            batch = client.read()
            client.wait(batch)
            self.assertEqual(client("FORGET", batch), 1)
        client.close()
        self.settles(mebibytes=100)


class Floods(Beside):
    """Commands whose cost is out of proportion to their size, while very many batches are there, each second one of another customer."""

    batches = 50_000
    # A lane of its own, so that they wait for a turn, which never comes, and the neighbour does not.
    settings = {"handlers": {"never": {"command": ["sleep", "3600"], "concurrency": 1}}}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with cls.daemon.connect() as command:
            for first in range(0, cls.batches, 1000):
                command.send(b"".join(encode("SUBMIT", "never", "NAME", "a" * 256, *(("FOR", f"c{i}") if i % 2 else ()), "JOBS", "") for i in range(first, first + 1000)))
                for _ in range(1000):
                    cls.last = command.read()

    def test_floods_of_commands(self):
        commands = {
            "EXPLAIN": encode("EXPLAIN", self.last),
            "LIST MATCH with stars": encode("LIST", "MATCH", "*a*a*a*a*b"),
            "LIST MATCH with a set": encode("LIST", "MATCH", "*[^" + "b" * 200 + "]z"),
            "LIST COUNT 10000": encode("LIST", "COUNT", 10_000),
            "LIST FOR": encode("LIST", "FOR", "nobody"),
            "CUSTOMER LIST COUNT 10000": encode("CUSTOMER", "LIST", "COUNT", 10_000),
            "CUSTOMER LIST MATCH": encode("CUSTOMER", "LIST", "MATCH", "*a*a*a*a*b"),
            "CUSTOMER SET": encode("CUSTOMER", "SET", "c1", "WEIGHT", 2),
            "TENANTS": encode("TENANTS"),
            "HANDLERS": encode("HANDLERS"),
            "COMMAND DOCS": encode("COMMAND", "DOCS"),
            "CONFIG GET": encode("CONFIG", "GET", *["*a*a*a*b"] * 97),
            "INFO": encode("INFO"),
            "CLIENT LIST": encode("CLIENT", "LIST"),
        }
        for name, command in commands.items():
            with self.abused(f"a flood of {name} beside {self.batches} batches"):
                self.flood(command)

    def test_scrapes_without_end(self):
        http_port = int(self.daemon.http.rsplit(":", 1)[1])
        with self.abused(f"4 clients that scrape /metrics without end beside {self.batches} batches"):
            for each in self.open(4, port=http_port):
                self.in_background(lambda each=each: each.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"))
                self.in_background(lambda each=each: each.recv(1 << 20) or each.close())


class Http(Beside):
    def test_what_sits_on_the_http_side(self):
        port = int(self.daemon.http.rsplit(":", 1)[1])
        with self.abused("1,000 connections to the HTTP side, each with half a head or a long one"):
            for i, each in enumerate(self.open(MANY, port=port)):
                with contextlib.suppress(OSError):
                    each.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"x" * (8_000 if i % 2 else 1))
        # Others are let in again.
        wait_for("the HTTP side to answer", lambda: self.daemon.get("/healthz")[0] == 200)

    def test_pipelines_bodies_and_heads(self):
        port = int(self.daemon.http.rsplit(":", 1)[1])
        requests = {
            "GET": b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "HEAD": b"HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            "POST": b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n" + b"x" * 1_000_000,
            "RESP": encode("PING"),
        }
        for name, request in requests.items():
            with self.abused(f"a pipeline of 1,000 {name} to the HTTP side"):
                (client,) = self.open(1, port=port)
                data = request * (1000 if len(request) < 1000 else 1)

                def send(client=client, data=data):
                    with contextlib.suppress(OSError):
                        client.sendall(data)
                        client.shutdown(socket.SHUT_WR)

                threading.Thread(target=send, daemon=True).start()
                with contextlib.suppress(ConnectionResetError):
                    while client.recv(1 << 20):
                        pass


if __name__ == "__main__":
    unittest.main()
