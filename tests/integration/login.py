#!/usr/bin/python3
"""Logging in: what is said to whom, in the words that stock clients know; how long a stranger may stay; what becomes of users that are
removed; and the clients that people have."""

import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import redis
from locksley_daemon import DEADLINE_S, wait_for
from programs import shell
from resp import CommandError, encode, pairs
from scratch import scratch
from users import ALL, PASSWORD, UsersTest, hash_of, user

NOAUTH = "NOAUTH Authentication required."
WRONGPASS = "WRONGPASS invalid username-password pair or user is disabled."
LOGIN_FIRST = (
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
    "authenticate the client and select the RESP protocol version at the same time"
)
HOUR_MS = 3_600_000


class Words(UsersTest):
    def setUp(self):
        self.daemon = self.start_with(alice={}, default={"commands": ["read"]})
        self.stranger = self.connect(self.daemon)

    def test_auth(self):
        ask = self.stranger.ask
        self.assertEqual(ask("PING"), NOAUTH)
        self.assertEqual(ask("AUTH", "alice", "wrong"), WRONGPASS)
        self.assertEqual(ask("AUTH", "nobody", PASSWORD.format("alice")), WRONGPASS)
        self.assertEqual(ask("AUTH", "alice", ""), WRONGPASS)
        self.assertEqual(ask("AUTH"), "ERR wrong number of arguments for 'auth' command")
        self.assertEqual(ask("AUTH", "a", "b", "c"), "ERR wrong number of arguments for 'auth' command")
        self.assertEqual(ask("PING"), NOAUTH)
        self.assertEqual(ask("AUTH", "alice", PASSWORD.format("alice")), "OK")
        self.assertEqual(ask("PING"), "PONG")
        self.assertIn("user=alice ", ask("CLIENT", "INFO"))
        # A failure changes nothing; another user may follow, and alone the password is that of `default`.
        self.assertEqual(ask("AUTH", "default", "wrong"), WRONGPASS)
        self.assertIn("user=alice ", ask("CLIENT", "INFO"))
        self.assertEqual(ask("AUTH", PASSWORD.format("default")), "OK")
        self.assertIn("user=default ", ask("CLIENT", "INFO"))
        self.assert_error("NOPERM", ask("SUBMIT", "echo", "JOBS", "x"))
        self.assertEqual(ask("RESET"), "RESET")
        self.assertEqual(ask("PING"), NOAUTH)

    def test_hello(self):
        ask, password = self.stranger.ask, PASSWORD.format("alice")
        self.assertEqual(ask("HELLO"), LOGIN_FIRST)
        self.assertEqual(ask("HELLO", 3), LOGIN_FIRST)
        self.assertEqual(ask("HELLO", 4, "AUTH", "alice", password), "NOPROTO unsupported protocol version")
        # Options are looked at before the password; and whatever fails, nothing has changed.
        self.assertEqual(ask("HELLO", 3, "AUTH", "alice", password, "FOO"), "ERR Syntax error in HELLO option 'FOO'")
        self.assert_error("ERR Client names", ask("HELLO", 3, "AUTH", "alice", password, "SETNAME", "a b"))
        self.assertEqual(ask("PING"), NOAUTH)
        self.assertEqual(ask("HELLO", 3, "AUTH", "alice", "wrong", "SETNAME", "x"), WRONGPASS)
        self.assertEqual(ask("PING"), NOAUTH)
        self.assertEqual(ask("HELLO", 2, "AUTH", "alice", password)[:2], ["server", "locksley"])
        self.assertIsNone(ask("CLIENT", "GETNAME"))
        self.stranger.send(encode("HELLO", 3, "AUTH", "alice", "wrong") + encode("CLIENT", "GETNAME"))
        self.assertEqual(self.stranger.read(), WRONGPASS)
        self.assertTrue(self.stranger.read_some().startswith(b"$-1\r\n"), "the protocol is still RESP2")
        self.assertEqual(ask("HELLO", 3, "AUTH", "alice", password, "SETNAME", "hers")["proto"], 3)
        self.assertEqual(ask("CLIENT", "GETNAME"), "hers")

    def test_commands_behind_a_login_wait_for_it(self):
        """In one packet, also with a wrong password before; and a peer that has sent all and closed its side gets all replies."""
        ping, login = encode("PING"), encode("AUTH", "alice", PASSWORD.format("alice"))
        self.stranger.send(ping + encode("AUTH", "alice", "wrong") + ping + login + ping * 100 + encode("QUIT"))
        self.stranger.half_close()
        errors = f"-{NOAUTH}\r\n-{WRONGPASS}\r\n-{NOAUTH}\r\n"
        self.assertEqual(self.stranger.read_until_closed().decode(), errors + "+OK\r\n" + "+PONG\r\n" * 100 + "+OK\r\n")

    def test_a_login_lifts_the_limits_of_what_is_behind_it(self):
        payload = "x" * 100_000
        self.stranger.send(encode("AUTH", "alice", PASSWORD.format("alice")) + encode("RUN", "echo", "JOBS", *[payload] * 20))
        self.assertEqual(self.stranger.read(), "OK")
        self.assertEqual(self.stranger.read(), [["ok", payload]] * 20)
        self.stranger("RESET")
        self.stranger.send(encode("AUTH", *"x" * 10))
        self.assertIn(b"-ERR Protocol error: unauthenticated multibulk length\r\n", self.stranger.read_until_closed())

    def test_what_a_stranger_may_send_is_small(self):
        for sent, reply in (
            (b"*11\r\n", b"-ERR Protocol error: unauthenticated multibulk length\r\n"),
            (b"*1\r\n$16385\r\n", b"-ERR Protocol error: unauthenticated bulk length\r\n"),
            (b"POST / HTTP/1.1\r\nPING\r\n", b""),
        ):
            with self.daemon.connect() as connection:
                connection.send(sent)
                self.assertEqual(connection.read_until_closed(), reply)

    def test_quit_needs_no_login(self):
        self.assertEqual(self.stranger.ask("QUIT"), "OK")
        self.stranger.read_until_closed()

    def test_failures_are_counted_and_logged_without_the_password(self):
        secret = "the-secret-nobody-may-read"
        self.assertEqual(self.stranger.ask("AUTH", "mal\r\nlory" + "y" * 500, secret), WRONGPASS)
        self.assertEqual(self.stranger.ask("AUTH", "alice", secret), WRONGPASS)
        self.stranger.ask("AUTH", "alice", PASSWORD.format("alice"))
        metrics = self.daemon.metrics()
        self.assertEqual(metrics["locksley_authentication_failures_total"], 2)
        self.assertEqual(metrics['locksley_command_errors_total{code="WRONGPASS"}'], 2)
        line = self.daemon.wait_for_log(r"wrong password.*")[0]
        self.assertRegex(line, r'user="mal  lory+" peer=127\.0\.0\.1:\d+')
        self.assertLess(len(line), 200)
        for hidden in (secret, PASSWORD.format("alice")):
            self.assertNotIn(hidden, self.daemon.log())

    def test_a_password_is_not_left_in_memory(self):
        password = PASSWORD.format("alice") * 20  # long enough to be in no register, and in no short string
        daemon = self.start({"users": {"alice": {"password_hash": hash_of(password)}}})
        connection = self.connect(daemon)
        connection("AUTH", "alice", password)
        self.assertEqual(connection.ask("AUTH", "alice", password[:-1] + "!"), WRONGPASS)
        connection("PING")
        needle, found = password[10:-10].encode(), 0
        with open(f"/proc/{daemon.pid}/mem", "rb", buffering=0) as memory:
            for line in pathlib.Path(f"/proc/{daemon.pid}/maps").read_text().splitlines():
                begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                if "rw" not in line.split()[1]:
                    continue
                try:
                    memory.seek(begin)
                    found += memory.read(end - begin).count(needle)
                except OSError:
                    continue
        self.assertEqual(found, 0)


class Strangers(UsersTest):
    def test_who_does_not_log_in_is_closed_whatever_he_does(self):
        daemon = self.start_with(alice={})
        alice = self.log_in(daemon, "alice")  # while there is time
        self.reload(daemon, {"limits": {"login_timeout": "300ms"}}, alice={})
        silent, busy, resetting = (self.connect(daemon) for _ in range(3))
        end = time.monotonic() + DEADLINE_S
        closed = False
        while not closed and time.monotonic() < end:
            try:
                busy.send(encode("PING") * 10)
                resetting.send(encode("RESET"))
                closed = not busy.read_some()
            except ConnectionError:
                closed = True
        self.assertTrue(closed, "it was closed, though it went on sending")
        for connection in (silent, resetting):
            connection.read_until_closed()
        time.sleep(0.4)
        self.assertEqual(alice("PING"), "PONG")
        # Who logs out is a stranger again, from then on. In one packet, because the time begins.
        alice.send(encode("RESET") + encode("PING"))
        self.assertEqual((alice.read(), alice.read()), ("RESET", NOAUTH))
        alice.read_until_closed()

    def test_what_a_stranger_makes_the_daemon_hold_is_little(self):
        """Replies that he does not read: 16 KiB and what the sockets take, not a megabyte for each connection."""
        daemon = self.start_with({"limits": {"login_timeout": "1h"}}, alice={})
        before = daemon.resident_bytes()
        strangers = [self.connect(daemon, receive_buffer=4096, timeout=0.1) for _ in range(40)]
        for stranger in strangers:
            try:
                for _ in range(100):
                    stranger.send(encode("PING") * 10_000)
            except TimeoutError:
                pass
        self.assertLess(daemon.resident_bytes() - before, 20 << 20)
        self.assertEqual(self.log_in(daemon, "alice")("PING"), "PONG")


class Changes(UsersTest):
    def test_a_user_that_is_removed_loses_its_connections_and_not_its_batches(self):
        settings, go = {"handlers": {"sh": shell()}}, scratch(self) / "go"
        daemon = self.start_with(settings, alice={"handlers": ["sh"]}, bob={}, root={"commands": ALL})
        alice, blocked, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        alice("SUBMIT", "sh", "ID", "hers", "JOBS", f"until test -e {go}; do sleep 0.01; done")
        blocked.send(encode("WAIT", "hers"))
        wait_for("it to run", lambda: alice.status("hers")["running"] == 1)
        self.reload(daemon, settings, bob={}, root={"commands": ALL})
        for connection in (alice, blocked):
            self.assertEqual(connection.read_until_closed(), b"")
        self.assertEqual(bob("PING"), "PONG")
        with self.assertRaisesRegex(CommandError, "WRONGPASS"):
            self.log_in(daemon, "alice")
        go.touch()
        self.assertEqual(self.log_in(daemon, "root").wait("alice/hers")["ok"], 1)

    def test_a_changed_password(self):
        daemon = self.start_with(alice={})
        alice = self.log_in(daemon, "alice")
        daemon.configure({"users": {"alice": {"password_hash": hash_of("another")}}})
        before = daemon.log().count("configuration read again")
        daemon.send_signal(1)
        wait_for("the configuration to be read again", lambda: daemon.log().count("configuration read again") > before)
        self.assertEqual(alice.read_until_closed(), b"")
        alice = self.connect(daemon)
        self.assertEqual(alice.ask("AUTH", "alice", PASSWORD.format("alice")), WRONGPASS)
        self.assertEqual(alice.ask("AUTH", "alice", "another"), "OK")

    def test_connections_stay_where_the_password_did(self):
        daemon = self.start_with(alice={}, bob={})
        alice, bob = self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        waiting = self.log_in(daemon, "alice")
        waiting.send(encode("SUBSCRIBE", "batches"))
        waiting.read()
        changed = {"alice": {"password_hash": hash_of("another"), "weight": 3}, "bob": user("bob", weight=3, certificate="bob")}
        self.reload(daemon, {"users": changed})
        for connection in (alice, waiting):
            self.assertEqual(connection.read_until_closed(), b"")
        self.assertEqual(bob("PING"), "PONG")

    def test_users_come_and_go_altogether(self):
        daemon = self.start()
        anybody = self.connect(daemon)
        for command in (("AUTH", "alice", "x"), ("HELLO", 3, "AUTH", "alice", "x")):
            self.assertEqual(anybody.ask(*command), f"{WRONGPASS} No users are configured here: log in without a name, or not at all")
        anybody("SUBMIT", "echo", "ID", "before", "JOBS", "x")
        self.reload(daemon, alice={}, default={})
        anybody.read_until_closed()
        default, stranger = self.log_in(daemon, "default"), self.connect(daemon)
        self.assertEqual(default.wait("before")["tenant"], "default")
        self.assertEqual(stranger.ask("STATUS", "before"), NOAUTH)
        self.assertEqual(stranger.ask("AUTH", "bob", "x"), WRONGPASS)
        self.reload(daemon)
        for connection in (default, stranger):
            connection.read_until_closed()
        self.assertEqual(self.connect(daemon).wait("before")["ok"], 1)

    def test_subscriptions_go_with_the_user(self):
        daemon = self.start_with(alice={}, bob={}, submitter={"commands": ["submit"]})
        listener, alice, bob = self.log_in(daemon, "alice", protocol=3), self.log_in(daemon, "alice"), self.log_in(daemon, "bob")
        listener("SUBSCRIBE", "batches")
        listener("AUTH", "bob", PASSWORD.format("bob"))
        alice("RUN", "echo", "JOBS", "x")
        alice("SUBMIT", "echo", "ID", "of-alice", "JOBS", "x")
        alice.wait("of-alice")
        bob("SUBMIT", "echo", "ID", "of-bob", "JOBS", "x")
        self.assertIn('"batch":"of-bob"', listener.read()[-1])
        bob.wait("of-bob")
        while '"event":"done"' not in listener.read()[-1]:
            pass
        listener("AUTH", "submitter", PASSWORD.format("submitter"))
        bob("SUBMIT", "echo", "ID", "unheard", "JOBS", "x")
        bob.wait("unheard")
        self.assertEqual(listener("PING"), "PONG")
        self.assertEqual(daemon.metrics()["locksley_subscribed_connections"], 0)

    def test_ten_thousand_users(self):
        """Read, changed, logged in to, and a bounded number of labels."""
        one_hash = hash_of("x")
        everybody = {f"user-{n}": {"password_hash": one_hash, "weight": 1 + n % 1000, "max_queued_jobs": 100, "handlers": ["sleep"]} for n in range(10_000)}
        daemon = self.start({"users": everybody, "metrics": {"tenants": 20}})
        connections = []
        for n in range(0, 10_000, 250):
            connection = self.connect(daemon)
            connection("AUTH", f"user-{n}", "x")
            connection("SUBMIT", "sleep", "ID", "same", "RANGE", 0, 2, HOUR_MS)
            connections.append(connection)
        for n, connection in enumerate(connections):
            self.assertEqual(connection.status("same")["tenant"], f"user-{n * 250}")
            (own,) = connection("TENANTS")
            self.assertEqual(pairs(own)["weight"], 1 + n * 250 % 1000)
        labels = {re.search('tenant="(.*?)"', key)[1] for key in daemon.metrics() if "tenant=" in key}
        self.assertEqual(len(labels), 21)
        self.assertIn("other", labels)
        daemon.configure({"users": dict(list(everybody.items())[:1])})
        daemon.send_signal(1)
        for connection in connections[1:]:
            connection.read_until_closed()
        self.assertEqual(connections[0].status("same")["tenant"], "user-0")


class SharedAddress(UsersTest):
    """Many clients behind one address, as behind a proxy, one of which guesses passwords."""

    def guess(self, daemon, user, connections=8):
        """Guesses without a pause until the test ends, on connections that are opened again and again. Returns after the first answer."""
        ended, answered = threading.Event(), threading.Event()

        def go_on(name):
            number = 0
            while not ended.is_set():
                with daemon.connect() as connection:
                    connection.send(b"".join(encode("AUTH", user, f"guess {name} {number + i}") for i in range(20)))
                    number += 20
                    if connection.read_some():
                        answered.set()

        threads = [threading.Thread(target=go_on, args=(name,)) for name in range(connections)]
        for thread in threads:
            thread.start()

        def end():
            ended.set()
            for thread in threads:
                thread.join()

        self.addCleanup(end)
        self.assertTrue(answered.wait(DEADLINE_S), "no guess was answered")

    def test_guesses_keep_no_right_password_out(self):
        daemon = self.start_with(alice={}, bob={}, carol={})

        def seconds_to_log_in(name):
            start = time.monotonic()
            self.log_in(daemon, name).close()
            return time.monotonic() - start

        for name in ("alice", "bob"):
            seconds_to_log_in(name)
        self.guess(daemon, "alice")
        # A busy machine slows the logins of bob as much, and there are no guesses of his password.
        took = [[seconds_to_log_in(name) for name in ("alice", "bob")] for _ in range(20)]
        alice, bob = map(statistics.median, zip(*took))
        self.assertLess(alice, 0.1 + 5 * bob, f"a password that was accepted before waited: {took}")
        self.assertLess(seconds_to_log_in("carol"), 3 + 20 * bob, "the first password of another user waited for more than a few checks")


class Clients(UsersTest):
    def setUp(self):
        self.daemon = self.start_with(alice={}, default={"commands": ["read"]})

    def make(self, **options):
        client = redis.Redis(self.daemon.host, self.daemon.port, socket_timeout=DEADLINE_S, **options)
        self.addCleanup(client.close)
        return client

    def test_redis_py(self):
        client = self.make(username="alice", password=PASSWORD.format("alice"))
        self.assertEqual(client.execute_command("RUN", "echo", "JOBS", "x"), [[b"ok", b"x"]])
        self.assertTrue(self.make(password=PASSWORD.format("default")).ping())
        with self.assertRaises(redis.exceptions.NoPermissionError):
            self.make(password=PASSWORD.format("default")).execute_command("RUN", "echo", "JOBS", "x")
        with self.assertRaisesRegex(redis.exceptions.RedisError, "invalid username-password pair"):
            self.make(username="alice", password="wrong").ping()
        with self.assertRaisesRegex(redis.exceptions.RedisError, "Authentication required"):
            self.make().ping()

    def test_a_client_that_tries_again_and_again_is_slowed_down_and_not_locked_out(self):
        for _ in range(6):
            with self.connect(self.daemon) as connection:
                self.assertEqual(connection.ask("AUTH", "alice", "wrong"), WRONGPASS)
        self.assertEqual(self.log_in(self.daemon, "alice")("PING"), "PONG")

    def test_redis_cli(self):
        run = lambda *words, **options: subprocess.run(
            ["redis-cli", "-h", self.daemon.host, "-p", str(self.daemon.port), *words], capture_output=True, text=True, timeout=DEADLINE_S, **options
        )
        login = ("--no-auth-warning", "--user", "alice", "--pass", PASSWORD.format("alice"))
        for protocol in ("-2", "-3"):
            self.assertEqual(run(protocol, *login, "PING").stdout, "PONG\n")
            self.assertIn("NOAUTH", run(protocol, "PING").stdout)
        commands = "".join(f"SUBMIT echo ID piped-{n} JOBS x\r\n" for n in range(100))
        self.assertIn("replies: 100", run(*login, "--pipe", input=commands).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
