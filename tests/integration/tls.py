#!/usr/bin/python3
"""TLS on the port of the wire protocol: the clients that users have, bytes that are cut anywhere, what is refused, peers that misbehave.
tls_certificates.py has the certificates of both sides, tls_http.py the HTTP side, tls_program.py the program `locksley`."""

import asyncio
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import select
import socket
import ssl
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import redis
from certificates import openssl
from locksley_daemon import DEADLINE_S, wait_for
from resp import Closed, encode
from tls_client import Records, TlsConnection, TlsTest

HOUR_MS = 3_600_000
MINUTE_S = 60


class Clients(TlsTest):
    """Those that users have, unmodified."""

    def setUp(self):
        self.daemon = self.start_tls()

    def test_redis_cli(self):
        words = ["redis-cli", "-h", self.daemon.host, "-p", str(self.daemon.port), "--tls", "--cacert", str(self.authority.certificate)]
        run = lambda *more: subprocess.run([*words, *more], capture_output=True, text=True, timeout=MINUTE_S)
        batch = run("SUBMIT", "echo", "JOBS", "a", "b c").stdout.strip()
        self.assertRegex(run("-3", "WAIT", batch, "10000").stdout, r"state[ \n]done\n")
        self.assertIn("b c", run("RESULTS", batch).stdout)

    def test_redis_py(self):
        client = redis.Redis(
            self.daemon.host, self.daemon.port, ssl=True, ssl_ca_certs=str(self.authority.certificate), socket_timeout=DEADLINE_S
        )
        self.addCleanup(client.close)
        batch = client.execute_command("SUBMIT", "echo", "JOBS", b"a\0\r\n\xff", "b")
        client.execute_command("WAIT", batch, DEADLINE_S * 1000)
        _, rows = client.execute_command("RESULTS", batch)
        self.assertEqual(sorted(rows), [[0, b"ok", b"a\0\r\n\xff"], [1, b"ok", b"b"]])

    def test_ioredis(self):
        script = """
          const { Redis } = require('ioredis');
          const [host, port, file] = process.argv.slice(1);
          const redis = new Redis({ host, port: Number(port), tls: { ca: require('fs').readFileSync(file) } });
          (async () => {
            const batch = await redis.call('SUBMIT', 'echo', 'JOBS', 'a', 'b');
            await redis.call('WAIT', batch, '30000');
            console.log(JSON.stringify((await redis.call('RESULTS', batch))[1]));
            await redis.quit();
          })();"""
        modules = pathlib.Path(os.environ["LOCKSLEY_NODE_MODULES"]) / "node_modules"
        run = subprocess.run(
            ["node", "-e", script, self.daemon.host, str(self.daemon.port), str(self.authority.certificate)],
            **dict(capture_output=True, text=True, timeout=MINUTE_S, env={**os.environ, "NODE_PATH": str(modules)}),
        )
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(sorted(json.loads(run.stdout)), [[0, "ok", "a"], [1, "ok", "b"]])

    def test_the_log_and_the_metrics_tell_of_handshakes_and_expiry(self):
        self.secure(self.daemon)("PING")
        metrics = self.daemon.metrics()
        self.assertEqual(metrics["locksley_tls_handshakes_total"], 1)
        end = openssl("x509", "-in", self.server.certificate, "-noout", "-enddate").strip().removeprefix("notAfter=")
        expected = datetime.datetime.strptime(end, "%b %d %H:%M:%S %Y %Z").replace(tzinfo=datetime.timezone.utc)
        self.assertEqual(metrics['locksley_tls_certificate_expiry_timestamp_seconds{side="listen"}'], expected.timestamp())


class Bytes(TlsTest):
    """What goes in comes out, however it is cut."""

    def setUp(self):
        self.daemon = self.start_tls()

    def test_a_payload_and_a_result_as_large_as_they_may_be(self):
        client = self.secure(self.daemon)
        payload = bytes(range(256)) * (256 * 1024)  # 64 MiB
        batch = client("SUBMIT", "echo", "JOBS", payload)
        client.wait(batch)
        ((index, status, output),) = client.results(batch)
        self.assertEqual((index, status), (0, "ok"))
        digest = lambda data: hashlib.sha256(data).hexdigest()
        self.assertEqual(digest(output.encode("latin-1")), digest(payload))

    def test_a_hundred_thousand_results(self):
        client = self.secure(self.daemon)
        batch = client("SUBMIT", "echo", "RANGE", 0, 100_000)
        client.wait(batch)
        rows = client.results(batch, count=100_000)
        self.assertEqual(sorted((index, output) for index, _, output in rows), [(i, str(i)) for i in range(100_000)])

    def test_a_command_of_which_each_byte_is_a_record(self):
        client = self.records(self.daemon)
        client.handshake()
        for byte in encode("ECHO", "slowly"):
            client.send(bytes([byte]))
        self.assertEqual(client.read(12), b"$6\r\nslowly\r\n")

    def test_records_cut_anywhere(self):
        client = self.records(self.daemon)
        client.handshake()
        sealed = b"".join(client.sealed(encode("ECHO", f"number {i}")) for i in range(20))
        for byte in range(len(sealed)):
            client.socket.sendall(sealed[byte : byte + 1])
        expected = b"".join(b"$%d\r\nnumber %d\r\n" % (len(f"number {i}"), i) for i in range(20))
        self.assertEqual(client.read(len(expected)), expected)

    def test_a_command_that_comes_with_the_end_of_the_handshake(self):
        client = self.records(self.daemon)
        client.socket.sendall(client.first_flight())
        # The client's last flight, and a command right behind it in one write.
        while True:
            client.incoming.write(client.socket.recv(1 << 16))
            try:
                client.tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        client.tls.write(encode("PING"))
        client.push()
        self.assertEqual(client.read(7), b"+PONG\r\n")

    def test_a_pipeline_longer_than_all_buffers(self):
        client = self.records(self.daemon)
        client.handshake()
        count = 200_000
        sealed = client.sealed(encode("PING") * count)
        client.socket.setblocking(False)
        sent, got = 0, 0
        while got < 7 * count:
            readable, writable, _ = select.select(
                [client.socket], [client.socket] if sent < len(sealed) else [], [], DEADLINE_S
            )
            self.assertTrue(readable or writable, "nothing moves")
            if writable:
                sent += client.socket.send(sealed[sent : sent + 100_000])
            if readable:
                client.incoming.write(client.socket.recv(1 << 16))
                try:
                    while piece := client.tls.read(1 << 16):
                        self.assertEqual(piece.replace(b"+PONG\r\n", b"").strip(b"+PONG\r\n"), b"")
                        got += len(piece)
                except ssl.SSLWantReadError:
                    pass
        self.assertEqual(got, 7 * count)

    def test_commands_before_the_peers_end_are_answered(self):
        client = self.records(self.daemon)
        client.handshake()
        client.tls.write(encode("PING") + encode("ECHO", "last"))
        client.say_end()
        self.assertEqual(client.read(1000), b"+PONG\r\n$4\r\nlast\r\n")
        self.no_connection_is_left(self.daemon)

    def test_a_peer_that_breaks_off_without_a_word_has_gone(self):
        client = self.records(self.daemon)
        client.handshake()
        client.send(encode("PING"))
        client.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(client.read(1000), b"+PONG\r\n")
        self.no_connection_is_left(self.daemon)

    def test_the_last_reply_and_the_end_arrive(self):
        client = self.secure(self.daemon)
        client.send(encode("QUIT") + encode("PING") * 1000)
        self.assertEqual(client.read_until_closed(), b"+OK\r\n")
        self.no_connection_is_left(self.daemon)

    def test_run_is_cancelled_when_its_client_ends(self):
        for leave in ("end", "close"):
            with self.subTest(leave):
                client = self.records(self.daemon)
                client.handshake()
                client.send(encode("RUN", "sleep", "JOBS", HOUR_MS))
                batches = lambda: self.daemon.metrics()['locksley_lane_active_batches{lane="cpu"}']
                wait_for("the batch to be there", lambda: batches() == 1)
                client.say_end() if leave == "end" else client.close()
                wait_for("the batch to be gone", lambda: batches() == 0)

    def test_events(self):
        listener = self.secure(self.daemon)
        listener("SUBSCRIBE", "batches")
        batch = self.secure(self.daemon)("SUBMIT", "echo", "JOBS", "a")
        event = json.loads(listener.read()[2])
        self.assertEqual(event["batch"] if "batch" in event else event["id"], batch)


class Refused(TlsTest):
    def setUp(self):
        self.daemon = self.start_tls()

    def first_flight(self, daemon):
        """The ClientHello of a connection that is gone."""
        records = self.records(daemon)
        hello = records.first_flight()
        records.close()
        return hello

    def s_client(self, *arguments, text=""):
        words = ["openssl", "s_client", "-connect", f"{self.daemon.host}:{self.daemon.port}", "-CAfile", str(self.authority.certificate)]
        run = subprocess.run([*words, *arguments], input=text, capture_output=True, text=True, timeout=MINUTE_S)
        return run.stdout + run.stderr

    def test_versions(self):
        for version, name in (("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")):
            out = self.s_client(version)
            self.assertIn(f"New, {name}", out)
            self.assertIn("Verify return code: 0 (ok)", out)
            self.assertIn("Compression: NONE", out)
            self.assertNotIn("session ticket", out)
        for version in ("-tls1_1", "-tls1"):
            self.assertIn("alert protocol version", self.s_client(version, "-cipher", "ALL:@SECLEVEL=0"))

    def test_ciphers(self):
        for cipher in ("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384", "ECDHE-ECDSA-AES128-CCM", "AES128-GCM-SHA256", "PSK", "aNULL"):
            out = self.s_client("-tls1_2", "-cipher", f"{cipher}:@SECLEVEL=0", "-psk", "00")
            self.assertIn("handshake failure", out, cipher)
        out = self.s_client("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256")
        self.assertIn("Cipher is ECDHE-ECDSA-AES128-GCM-SHA256", out, "the server's order counts")

    def test_renegotiation(self):
        self.assertRegex(self.s_client("-tls1_2", text="R\n"), "no renegotiation")

    def test_plain_on_the_port_of_tls(self):
        for first in (encode("PING"), b"PING\r\n", b"\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\0", b"\xff" * 100_000):
            with self.daemon.connect() as client:
                client.send(first)
                self.assertRegex(client.read_until_closed(), rb"^-ERR this port speaks TLS: [^\r]*\r\n$")
        self.daemon.wait_for_log("a client that does not speak TLS")
        self.no_connection_is_left(self.daemon)

    def test_tls_on_a_plain_port(self):
        daemon = self.start()
        for context in (self.context, ssl._create_unverified_context()):
            with self.assertRaisesRegex(ssl.SSLError, "WRONG_VERSION_NUMBER"):
                TlsConnection(daemon.host, daemon.port, context)
        daemon.wait_for_log("a client that speaks TLS")
        # Only the first byte of a connection says so.
        with daemon.connect() as client:
            client.send(b"PING\r\n\x16\x03\x01\r\n")
            self.assertEqual(client.read(), "PONG")
            self.assertRegex(client.read(), "^ERR unknown command")

    def test_garbage(self):
        daemon = self.start_tls(limits={"login_timeout": "2s"})
        hello = self.first_flight(daemon)
        rubbish = (b"\x16" * 1000, b"\x16\x03\x01\xff\xff" + b"a" * 70_000, hello[:50] + b"\xff" * 500, hello + hello, b"\x16\x03\x03\0\0" * 500)
        clients = [self.connect(daemon) for _ in rubbish]
        for client, data in zip(clients, rubbish):
            with contextlib.suppress(OSError):  # the time for its login is over
                client.send(data)
        for client in clients:
            client.read_until_closed()
            client.close()
        daemon.wait_for_log("TLS handshake failed")
        self.no_connection_is_left(daemon)
        self.assertEqual(self.secure(daemon)("PING"), "PONG")

    def test_garbage_after_the_handshake(self):
        client = self.records(self.daemon)
        client.handshake()
        client.send(encode("PING"))
        client.socket.sendall(b"\x17\x03\x03\0\x20" + b"\0" * 32)
        with self.assertRaisesRegex(ssl.SSLError, "BAD_RECORD_MAC"):
            client.read(1000)
        self.no_connection_is_left(self.daemon)

    def test_a_handshake_that_is_never_finished(self):
        daemon = self.start_tls(limits={"login_timeout": "1s"})
        hello = self.first_flight(daemon)
        clients = [self.connect(daemon) for _ in range(4)]
        for client, part in zip(clients, (b"", hello[:1], hello[:100], hello)):
            with contextlib.suppress(OSError):  # its time is over already
                client.send(part)
        for client in clients:
            client.read_until_closed()
        self.assertGreaterEqual(daemon.metrics()["locksley_tls_handshake_failures_total"], 4)
        for client in clients:
            client.close()
        self.no_connection_is_left(daemon)

    def test_connections_broken_off_anywhere(self):
        steady = self.secure(self.daemon)
        hello = self.first_flight(self.daemon)
        for cut in range(0, len(hello), 16):
            with self.daemon.connect() as client:
                client.send(hello[:cut])
        command = encode("SUBMIT", "echo", "JOBS", "x" * 100_000)
        for cut in range(0, len(command), 7000):
            client = Records(self.daemon.host, self.daemon.port, self.context)
            client.handshake()
            client.socket.sendall(client.sealed(command)[:cut])
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            client.close()
        self.assertEqual(steady("PING"), "PONG")
        wait_for("all others to be gone", lambda: self.daemon.metrics()["locksley_connections"] == 1)
        self.assertEqual(steady("LIST")[1], [])


class Many(TlsTest):
    def test_five_hundred_connections_at_once(self):
        daemon = self.start_tls()
        steady = self.secure(daemon)

        async def talk(number):
            reader, writer = await asyncio.open_connection(daemon.host, daemon.port, ssl=self.context, ssl_handshake_timeout=MINUTE_S)
            writer.write(encode("ECHO", f"I am {number}"))
            line = await reader.readline()
            echo = await reader.readline()
            return line, echo, writer

        async def all_of_them():
            answers = await asyncio.wait_for(asyncio.gather(*(talk(i) for i in range(500))), MINUTE_S)
            self.assertEqual([echo for _, echo, _ in answers], [b"I am %d\r\n" % i for i in range(500)])
            self.assertEqual(daemon.metrics()["locksley_connections"], 501)
            for _, _, writer in answers:
                writer.transport.abort()

        asyncio.run(all_of_them())
        self.assertEqual(steady("PING"), "PONG")
        wait_for("the others to be gone", lambda: daemon.metrics()["locksley_connections"] == 1)

    def test_a_killed_daemon_is_the_end_of_its_connections(self):
        daemon = self.start_tls()
        client = self.secure(daemon)
        batch = client("OPEN", "echo")
        client("ADD", batch, "x" * 100_000)
        daemon.process.kill()
        daemon.process.wait()
        with self.assertRaises((Closed, ssl.SSLError, ConnectionError)):
            client("PING")
        daemon.process.returncode = 0  # as was meant

    def test_max_clients(self):
        daemon = self.start_tls(limits={"max_clients": 1})
        self.secure(daemon)("PING")
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.secure(daemon)


if __name__ == "__main__":
    unittest.main()
