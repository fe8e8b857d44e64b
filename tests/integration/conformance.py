#!/usr/bin/python3
"""The daemon behaves on the wire as Redis does, case by case, however the bytes are cut into packets.

    conformance.py                       against a daemon of its own
    conformance.py --server HOST:PORT    against a server that runs, such as redis-server: are the cases right?"""

import os
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from conformance_cases import CASES, CLOSED, EITHER, HALF_CLOSE, OPEN, command
from conformance_login_cases import LOGIN_CASES, PASSWORD
from locksley_daemon import DEADLINE_S, Daemon
from resp import Connection
from users import ALL, hash_of

SEED = int(os.environ.get("LOCKSLEY_SEED") or time.time_ns() % 1_000_000)
BYTE_BY_BYTE_AT_MOST = 2_000  # bytes; longer cases are cut at random only
SERVER = None  # (host, port), from the command line


class Conformance(unittest.TestCase):
    address = None
    cases = CASES
    settings = None
    login = b""  # what the connection sends before it is asked whether it is open
    logged_in = b""

    @classmethod
    def setUpClass(cls):
        cls.daemon = None
        cls.address = SERVER
        if not SERVER:
            cls.daemon = Daemon(cls.settings)
            cls.addClassCleanup(cls.daemon.close)
            cls.address = (cls.daemon.host, cls.daemon.port)

    def exchange(self, case, pieces):
        """What comes back for a case that is sent in `pieces`, and whether the connection is open then."""
        with Connection(*self.address) as connection:
            mark = self.login + command("ECHO", b"the end of " + case.name.encode())
            end_mark = self.logged_in + b"$%d\r\nthe end of %b\r\n" % (11 + len(case.name), case.name.encode())
            try:
                for piece in pieces:
                    connection.send(piece)
                if case.then == OPEN:
                    connection.send(mark)
                elif case.then in (HALF_CLOSE, EITHER):
                    connection.half_close()
            except (ConnectionResetError, BrokenPipeError, OSError):
                pass  # it closed before it had read all: what it had to say is read below
            received = bytearray()
            while not received.endswith(end_mark):
                try:
                    piece = connection.read_some()
                except TimeoutError:
                    self.fail(f"{case.name}: waited {DEADLINE_S} s for the reply, or for the connection to close; so far came {bytes(received[:300])!r}")
                if not piece:
                    return bytes(received), False
                received += piece
            return bytes(received[: -len(end_mark)]), True

    def check(self, case, pieces, how):
        received, is_open = self.exchange(case, pieces)
        shown = received if len(received) <= 400 else received[:200] + b" ... " + received[-200:]
        if not case.expect.fullmatch(received):
            self.fail(f"{case.name}, sent {how}: expected {case.expect.pattern[:400]!r}, got {shown!r}")
        if case.then in (OPEN, CLOSED) and is_open != (case.then == OPEN):
            self.fail(f"{case.name}, sent {how}: the connection {case.then}, expected; it is {'open' if is_open else 'closed'} after {shown!r}")

    def test_all_at_once(self):
        for case in self.cases:
            with self.subTest(case.name):
                self.check(case, case.pieces or (case.send,), "as it is")

    def test_byte_by_byte(self):
        for case in self.cases:
            if len(case.send) <= BYTE_BY_BYTE_AT_MOST:
                with self.subTest(case.name):
                    self.check(case, [case.send[i : i + 1] for i in range(len(case.send))], "byte by byte")

    def test_cut_at_random(self):
        print(f"LOCKSLEY_SEED={SEED}")
        chance = random.Random(SEED)
        for case in self.cases:
            if case.big:
                continue
            for _ in range(3):
                cuts = sorted(chance.sample(range(1, len(case.send)), min(len(case.send) - 1, chance.randint(1, 8))))
                pieces = [case.send[a:b] for a, b in zip([0, *cuts], [*cuts, len(case.send)])]
                with self.subTest(case.name, cuts=cuts):
                    self.check(case, pieces, f"cut at {cuts} (LOCKSLEY_SEED={SEED})")

    def test_zz_the_server_lives(self):
        """The last one: none of it did any harm."""
        with Connection(*self.address) as connection:
            if self.login:
                connection("AUTH", PASSWORD)
            self.assertEqual(connection("PING"), "PONG")


class WithPassword(Conformance):
    cases = LOGIN_CASES
    settings = {"users": {"default": {"password_hash": hash_of(PASSWORD), "commands": ALL}}}
    login = command("AUTH", PASSWORD)
    logged_in = b"+OK\r\n"


if __name__ == "__main__":
    if sys.argv[1:2] == ["--server"]:
        host, port = sys.argv[2].rsplit(":", 1)
        SERVER = (host, int(port))
        del WithPassword  # that server asks for none
        del sys.argv[1:3]
    unittest.main()
