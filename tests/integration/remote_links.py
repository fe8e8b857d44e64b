#!/usr/bin/python3
"""Connections of remote workers that are slow, or change their user."""

import concurrent.futures
import contextlib
import pathlib
import select
import signal
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, merged, wait_for
from remote_worker import RemoteWorker, port_for_workers, wait_for_machines
from resp import Connection, Error, encode
from users import ALL, PASSWORD, users

SETTINGS = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}}


class SlowLinks(DaemonTest):
    SIZE = 8 << 20

    def test_a_payload_that_comes_for_longer_than_a_lease(self):
        """The worker sends BEATs meanwhile, which the daemon reads only once the payload is out."""
        daemon = self.start(SETTINGS)
        client = self.connect(daemon)

        def attempt(lease_s):
            """False if the worker, which is this test, was silent for a lease by itself."""
            batch = client("SUBMIT", "shout", "JOBS", "x" * self.SIZE)
            with Connection("127.0.0.1", port_for_workers(daemon), receive_buffer=64 << 10) as worker:
                worker("JOIN", "slow", "SLOTS", 1, "LEASE", lease_s * 1000, "HANDLERS", "shout")
                worker.send(encode("CLAIM", "BLOCK", 30_000))
                beats, longest_s, beaten = self.read_slowly(worker, 3 * lease_s, lease_s / 3)
                lease = worker.read()
                self.assertEqual([worker.read() for _ in range(beats)], [[]] * beats)
                reply = worker.ask("SETTLE", lease[0], "ok", 0, "done")
                if isinstance(reply, Error) and max(longest_s, time.monotonic() - beaten) > lease_s / 2:
                    client("CANCEL", batch)
                    return False
            self.assertEqual(reply, [1, 0])
            self.assertEqual(client.wait(batch)["ok"], 1)
            return True

        self.assertTrue(any(map(attempt, (1, 4, 16))), "the worker was silent for too long")

    def read_slowly(self, worker, seconds, beat_s):
        """The payload, for so long. How many BEATs were sent, the longest time between two of them, and when the last one was."""
        received, beats, longest_s, began = bytearray(), 0, 0, time.monotonic()
        beaten = began
        while len(received) < self.SIZE:
            received += worker.socket.recv(64 << 10)
            time.sleep(max(0, began + seconds * len(received) / self.SIZE - time.monotonic()))
            if (now := time.monotonic()) - began > beats * beat_s:
                worker.send(encode("BEAT"))
                beats, beaten, longest_s = beats + 1, now, max(longest_s, now - beaten)
        worker.buffer += received
        return beats, longest_s, beaten


class LargeResults(DaemonTest):
    """Commands that have come in part may take 16 MiB, of one user 8 MiB."""

    SIZE = 39 * (1 << 20) // 10

    def serve(self, **settings):
        self.daemon = self.start(merged(SETTINGS | settings, {"workers": {"max_leased_bytes": "16MiB", "lease": "1m", "reclaim": "20s"}}))
        return self.connect(self.daemon)

    def worker(self):
        worker = RemoteWorker(self.daemon, "shout")
        self.addCleanup(worker.close)
        return worker

    def losses(self):
        return sum(value for name, value in self.daemon.metrics().items() if name.startswith("locksley_remote_lost_jobs_total"))

    def test_machines_that_send_them_at_the_same_time_wait_for_each_other(self):
        client = self.serve()
        batch = client("SUBMIT", "shout", "KEEP", "failures", "JOBS", *["x"] * 24)
        workers = [self.worker() for _ in range(12)]

        def work(worker):
            for _ in range(2):
                lease = worker.claim("JOBS", 1)
                self.assertEqual(worker.settle(lease, [b"x" * self.SIZE]), [1, 0])

        with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
            list(pool.map(work, workers))
        self.assertEqual(client.wait(batch)["ok"], 24)
        self.assertEqual(self.losses(), 0)

    def test_one_that_stops_half_way_gives_way_and_reclaims_its_job(self):
        client = self.serve()
        batch = client("SUBMIT", "shout", "KEEP", "failures", "JOBS", "x", "x", "x")
        stuck, honest, idle = [self.worker() for _ in range(3)]
        lease, other = [worker.claim("JOBS", 1) for worker in (stuck, honest)]
        settle = encode("SETTLE", lease.name, "ok", lease.first, b"x" * (7 << 20))
        before = self.daemon.resident_bytes()
        stuck.send(settle[: 6 << 20])
        wait_for("most of the other result to be read", lambda: self.daemon.resident_bytes() > before + (5 << 20))
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor() as pool:
            settled = pool.submit(honest.settle, other, [b"x" * self.SIZE])
            self.assertEqual(idle("PING"), "PONG", "small commands do not wait")
            self.assert_error("QUEUEFULL", stuck.read())
            self.assertEqual(settled.result(60), [1, 0])
        self.assertGreater(time.monotonic() - began, 8)
        stuck.close()
        self.assertEqual(idle.claim("JOBS", 2, block=0).count, 1, "the other job is leased to the worker that may return")
        again = self.worker()
        name, ranges, _ = again("RECLAIM", lease.batch, lease.attempt, lease.first, lease.end, "LEASE", lease.name)
        self.assertEqual(ranges, [[lease.first, lease.end]])
        self.assertEqual(again("SETTLE", name, "ok", lease.first, "x"), [1, 0])
        self.assertEqual(self.losses(), 0)
        client("CANCEL", batch)

    def test_the_daemon_ends_well_just_after_one_had_to_give_way(self):
        """The second gives way if the daemon reads more of the first before: the machine decides, so this is tried a few times."""
        self.assertTrue(any(self.ends_just_after_one_had_to_give_way() for _ in range(4)), "none had to give way")

    def ends_just_after_one_had_to_give_way(self):
        client = self.serve(shutdown={"drain_timeout": "100ms"})
        client("SUBMIT", "shout", "JOBS", "x", "x")
        first, second = self.worker(), self.worker()
        lease, other = first.claim("JOBS", 1), second.claim("JOBS", 1)
        settle = encode("SETTLE", lease.name, "ok", lease.first, b"x" * (7 << 20))
        first.send(settle[: 1 << 20])
        second.send(encode("SETTLE", other.name, "ok", other.first, b"x" * (3 << 20))[: 2 << 20])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            sent = pool.submit(first.send, settle[1 << 20 :])
            if not select.select([second.socket], [], [], 15)[0]:
                self.daemon.close()
                return False
            self.assert_error("QUEUEFULL", second.read())
            self.daemon.send_signal(signal.SIGTERM)
            self.assertEqual(self.daemon.wait_end(), 75, "jobs are left")
            with contextlib.suppress(OSError):
                sent.result()
        return True

    def test_peers_that_have_not_logged_in_do_not_keep_workers_from_it(self):
        self.serve(**users(worker={"commands": ["work"]}))
        part = b"*10\r\n" + 9 * (b"$16384\r\n" + b"x" * 16384 + b"\r\n") + b"$16384\r\n"
        for size in [len(part)] * 100 + [size for size in (60_000, 16_000, 4_000, 1_000, 250, 60, 16, 4, 1) for _ in range(4)]:
            peer = Connection("127.0.0.1", port_for_workers(self.daemon))
            self.addCleanup(peer.close)
            peer.send(part[:size])
            time.sleep(0.005)  # each comes for itself
        with RemoteWorker(self.daemon, user="worker", password=PASSWORD.format("worker"), join=False) as worker:
            self.assertEqual(worker("PING"), "PONG")

    def test_a_connection_that_the_daemon_closes_gets_no_jobs(self):
        client = self.serve()
        worker, other = self.worker(), self.worker()
        worker.send(encode("CLAIM", "BLOCK", 30_000) + b"*1\r\n!wrong\r\n")
        self.assertIsNone(worker.read())
        self.assert_error("ERR", worker.read())
        batch = client("SUBMIT", "shout", "JOBS", "x")
        self.assertEqual(other.settle(other.claim(), ["X"]), [1, 0])
        self.assertEqual(client.wait(batch)["ok"], 1)
        self.assertEqual(self.losses(), 0)

    def test_an_error_behind_a_result_that_is_being_stored_ends_the_connection(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        client = self.serve(store={"path": folder.name})
        client("SUBMIT", "shout", "JOBS", "x")
        worker = self.worker()
        lease = worker.claim("JOBS", 1)
        worker.send(encode("SETTLE", lease.name, "ok", lease.first, "x") + b"*1\r\n!wrong\r\n")
        self.assertEqual(worker.read(), [1, 0])
        self.assert_error("ERR", worker.read())
        self.assertEqual(worker.socket.recv(1), b"")


class Logins(DaemonTest):
    def test_a_worker_that_has_joined_keeps_its_user(self):
        handlers = {"handlers": ["shout"]}
        settings = users(first={"commands": ["work"], **handlers}, second={"commands": ["work"], **handlers}, boss={"commands": ALL, **handlers})
        daemon = self.start(merged(SETTINGS, settings))
        worker = RemoteWorker(daemon, "shout", user="first", password=PASSWORD.format("first"))
        self.addCleanup(worker.close)
        second = ("second", PASSWORD.format("second"))
        refusal = "ERR this connection has joined as the user first: LEAVE first"
        self.assertEqual(worker.ask("AUTH", *second), refusal)
        self.assertEqual(worker.ask("HELLO", 2, "AUTH", *second), refusal)
        self.assertEqual(worker("AUTH", "first", PASSWORD.format("first")), "OK")
        boss = Connection(daemon.host, daemon.port)
        self.addCleanup(boss.close)
        boss("AUTH", "boss", PASSWORD.format("boss"))
        self.assertEqual([machine["user"] for machine in wait_for_machines(boss, 1)], ["first"])
        self.assertEqual(worker("LEAVE"), "OK")
        self.assertEqual(worker("AUTH", *second), "OK")


if __name__ == "__main__":
    unittest.main()
