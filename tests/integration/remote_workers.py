#!/usr/bin/python3
"""Remote workers as the port serves them: leases, results, losses, logins, the store, restarts. By connections that a test drives by hand; the
state machine itself has unit tests, with all its orders of events."""
# Length: a short test for each promise of the port.

import contextlib
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from held_port import hold_port
from locksley_daemon import Daemon, DaemonTest, merged, wait_for
from programs import shell
from remote_worker import RemoteWorker, machines, port_for_workers
from resp import Connection, encode
from tls_client import TlsConnection, client_context
from users import PASSWORD, users

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "deploy/examples"


class RemoteTest(DaemonTest):
    SETTINGS = {"workers": {"port": 0}, "handlers": {"shout": {"remote": True}}}

    def serve(self, settings=None):
        self.daemon = self.start(merged(self.SETTINGS, settings or {}))
        return self.connect(self.daemon)

    def worker(self, *handlers, **options):
        worker = RemoteWorker(self.daemon, *(handlers or ["shout"]), **options)
        self.addCleanup(worker.close)
        return worker

    def folder_of_test(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)


class Leases(RemoteTest):
    def test_a_worker_that_gets_pushes_stays_with_resp3(self):
        self.serve()
        worker = self.worker(join=False)
        worker("HELLO", 3)
        worker("JOIN", "me", "SLOTS", 1, "PUSH", "HANDLERS", "shout")
        self.assert_error("ERR this connection has joined with PUSH", worker.ask("HELLO", 2))
        worker("LEAVE")
        self.assertIn("proto", worker("HELLO", 2))

    def test_the_port_for_clients_says_which_port_is_meant(self):
        port = hold_port(self)
        remote = {"handlers": {"shout": {"remote": True}}}
        for settings, said in (
            ({}, "which is closed, because no handler has `remote: true`"),
            ({**remote, "workers": {"port": 0}}, "whose number is in the daemon's log"),
            ({**remote, "workers": {"port": port}}, str(port)),
        ):
            connection = self.connect(self.start(settings))
            for command in (("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout"), ("claim",), ("SETTLE", "x")):
                self.assertRegex(str(connection.ask(*command)), rf"^ERR unknown command '{command[0]}', with args beginning with: .*\(the port for workers is another one: workers\.port, {said}\)$")
            self.assertNotIn("workers", str(connection.ask("SETTLED", "x")))

    def test_jobs_run_elsewhere_and_their_results_are_here(self):
        connection = self.serve()
        worker = self.worker(slots=2)
        batch = connection("SUBMIT", "shout", "JOBS", "a", "b", "c", "d")
        rows = {}
        while len(rows) < 4:
            lease = worker.claim()
            self.assertEqual((lease.handler, lease.id, lease.attempt), ("shout", batch, 1))
            outputs = [payload.upper() for payload in lease.payloads]
            recorded, left = worker.settle(lease, outputs)
            self.assertEqual((recorded, left), (len(outputs), 0))
            rows.update(zip(range(lease.first, lease.end), outputs))
        self.assertEqual(connection.wait(batch)["ok"], 4)
        self.assertEqual({index: output for index, _, output in connection.results(batch)}, rows)
        self.assertEqual(rows, dict(enumerate("ABCD")))

    def test_a_claim_waits_until_there_is_a_job(self):
        connection = self.serve()
        worker = self.worker()
        self.assertIsNone(worker.claim(block=0))
        submits = threading.Timer(0.05, lambda: connection("SUBMIT", "shout", "JOBS", "x"))
        submits.start()
        self.assertEqual(worker.claim().payloads, ["x"])
        submits.join()

    def test_a_run_is_answered_with_a_remote_result(self):
        connection = self.serve()
        worker = self.worker()
        done = threading.Event()
        thread = threading.Thread(target=worker.work, args=(str.upper, done.is_set))
        thread.start()
        try:
            self.assertEqual(connection("RUN", "shout", "JOBS", "hello"), [["ok", "HELLO"]])
        finally:
            done.set()
            thread.join()

    def test_a_range_is_leased_without_payloads(self):
        connection = self.serve()
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "RANGE", 10, 20, "page-{}")
        lease = worker.claim()
        self.assertEqual((lease.payloads, lease.range), ([], [10 + lease.first, "page-{}"]))
        worker.settle(lease, ["seen"] * lease.count)
        self.assertGreater(connection.status(batch)["ok"], 0)

    def test_statuses_of_jobs(self):
        connection = self.serve()
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", *"abc")
        seen = {}
        while len(seen) < 3:
            lease = worker.claim()
            for index in range(lease.first, lease.end):
                status = ("ok", "error", "timeout")[index]
                worker.settle(lease, [f"it was {status}"], status, first=index)
                seen[index] = status
        status = connection.wait(batch)
        self.assertEqual((status["ok"], status["failed"]), (1, 2))
        self.assertEqual({row[0]: row[1] for row in connection.results(batch)}, seen)

    def test_what_a_lost_connection_held_goes_to_others_once(self):
        connection = self.serve()
        first, second = self.worker(), self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", *"abcd")
        lost = first.claim()
        first.close()
        rest = {}
        while len(rest) < 4:
            lease = second.claim()
            second.settle(lease, lease.payloads)
            rest.update(zip(range(lease.first, lease.end), lease.payloads))
        self.assertEqual(connection.wait(batch)["ok"], 4)
        self.assertGreater(lost.count, 0)
        self.assertEqual(len(connection.results(batch)), 4)

    def test_a_wrong_lease_is_lost_and_records_nothing(self):
        connection = self.serve()
        worker, other = self.worker(), self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", "a")
        lease = worker.claim()
        for name in ("1-1", "0-0", lease.name + "1"):
            self.assert_error("LOST", worker.ask("SETTLE", name, "ok", 0, "X"))
        self.assert_error("LOST", other.ask("SETTLE", lease.name, "ok", 0, "X"))
        self.assert_error("ERR", worker.ask("SETTLE", lease.name, "ok", 0, "X", "too many"))
        self.assertEqual(connection.status(batch)["ok"], 0)
        self.assertEqual(worker.settle(lease, ["A"]), [1, 0])
        self.assert_error("LOST", worker.ask("SETTLE", lease.name, "ok", 0, "again"))
        self.assertEqual(connection.results(batch), [[0, "ok", "A"]])

    def test_a_lease_that_no_socket_takes_at_once(self):
        connection = self.serve()
        worker = self.worker()
        large = "x" * (8 << 20)
        batch = connection("SUBMIT", "shout", "JOBS", large, large)
        for _ in range(2):
            lease = worker.claim("JOBS", 1)
            self.assertEqual([len(payload) for payload in lease.payloads], [len(large)])
            worker.settle(lease, lease.payloads)
        self.assertEqual(connection.wait(batch)["ok"], 2)

    def test_cancel_and_push(self):
        connection = self.serve()
        worker = self.worker(push=True)
        batch = connection("SUBMIT", "shout", "JOBS", "a")
        lease = worker.claim()
        connection("CANCEL", batch)
        self.assertEqual(worker.read(), ["STOP", lease.name])
        self.assertEqual(worker.settle(lease, ["stopped"], "cancelled"), [1, 0])
        self.assertEqual(connection.wait(batch)["state"], "cancelled")

    def test_max_running_bounds_all_machines(self):
        connection = self.serve({"handlers": {"shout": {"remote": True, "max_running": 2}}})
        workers = [self.worker() for _ in range(3)]
        connection("SUBMIT", "shout", "JOBS", *"abcdefghij")
        leases = [worker.claim("JOBS", 1, block=0) for worker in workers]
        self.assertEqual(sum(lease is not None for lease in leases), 2)
        workers[0].settle(leases[0], leases[0].payloads)
        self.assertIsNotNone(workers[2].claim("JOBS", 1))

    def test_here_and_there(self):
        """`concurrency` bounds this machine alone."""
        with_program = {"handlers": {"here": {**shell(concurrency=1), "remote": True}}}
        connection = self.serve(with_program)
        worker = self.worker("here")
        go = self.folder_of_test() / "go"
        batch = connection("SUBMIT", "here", "JOBS", *[f"until [ -e {go} ]; do sleep 0.01; done; echo -n here"] * 20)
        lease = worker.claim("JOBS", 1)
        go.touch()
        worker.settle(lease, ["there"])
        self.assertEqual(connection.wait(batch)["ok"], 20)
        outputs = [row[2] for row in connection.results(batch)]
        self.assertEqual((outputs.count("there"), outputs.count("here")), (1, 19))


class Doors(RemoteTest):
    def test_before_join(self):
        self.serve()
        stranger = self.worker(join=False)
        self.assertEqual(stranger("PING"), "PONG")
        for command in (["CLAIM"], ["BEAT"], ["LEAVE"], ["SETTLE", "1-1", "ok", 0, "x"]):
            self.assert_error("NOTJOINED", stranger.ask(*command))
        self.assert_error("NOHANDLER", stranger.ask("JOIN", "me", "SLOTS", 1, "HANDLERS", "nobody"))
        self.assert_error("NOHANDLER", stranger.ask("JOIN", "me", "SLOTS", 1, "HANDLERS", "echo"))

    def test_only_who_may_work_joins(self):
        self.serve(merged(users(renderer={"commands": ["work"], "handlers": ["shout"]}, alice={}), {"handlers": {"other": {"remote": True}}}))
        self.assert_error("NOAUTH", self.worker(join=False).ask("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout"))
        self.assert_error("WRONGPASS", self.worker(join=False).ask("AUTH", "renderer", "wrong"))
        alice = self.worker(join=False, user="alice", password=PASSWORD.format("alice"))
        self.assert_error("NOPERM", alice.ask("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout"))
        renderer = self.worker(join=False, user="renderer", password=PASSWORD.format("renderer"))
        self.assert_error("NOPERM", renderer.ask("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout", "other"))
        self.assertEqual(renderer.map("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout")["lease_ms"], 10_000)
        client = Connection(self.daemon.host, self.daemon.port)
        self.addCleanup(client.close)
        client("AUTH", "renderer", PASSWORD.format("renderer"))
        self.assert_error("NOPERM", client.ask("SUBMIT", "shout", "JOBS", "a"))

    def test_tls(self):
        folder = self.folder_of_test()
        authority = Authority(folder, "authority")
        self.serve({"workers": {"tls": authority.issue("server").settings()}})
        with TlsConnection("127.0.0.1", port_for_workers(self.daemon), client_context(str(authority.certificate))) as worker:
            self.assertEqual(worker("PING"), "PONG")
            self.assertEqual(worker.map("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout")["worker"], "me")
        plain = self.worker(join=False)
        plain.send(b"PING\r\n")
        self.assertIn("this port speaks TLS", plain.read())

    def test_an_authority_that_is_removed(self):
        """What its certificates opened is closed; the workers of the other authority go on."""
        folder = self.folder_of_test()
        first, second = Authority(folder, "first"), Authority(folder, "second")
        both = folder / "both.pem"
        both.write_text(pathlib.Path(first.certificate).read_text() + pathlib.Path(second.certificate).read_text())
        tls = first.issue("server").settings()
        self.serve({"workers": {"tls": tls | {"client_ca": str(both)}}})
        port, workers = port_for_workers(self.daemon), []
        for authority in (first, second):
            context = client_context(str(first.certificate), authority.issue("worker", names="DNS:worker"))
            workers.append(TlsConnection("127.0.0.1", port, context))
            self.addCleanup(workers[-1].close)
            self.assertEqual(workers[-1]("PING"), "PONG")
        self.daemon.configure(merged(self.SETTINGS, {"workers": {"tls": tls | {"client_ca": str(first.certificate)}}}))
        self.daemon.send_signal(1)
        self.assertEqual(workers[1].read_until_closed(), b"")
        self.assertEqual(workers[0]("PING"), "PONG")

    def test_a_login_that_changes_closes_what_it_opened(self):
        settings = merged(self.SETTINGS, users(renderer={"commands": ["work"]}))
        self.serve(settings)
        worker = self.worker(user="renderer", password=PASSWORD.format("renderer"))
        admin = merged(settings, users(other={"commands": ["work"]}))
        del admin["users"]["renderer"]
        self.daemon.configure(admin)
        self.daemon.send_signal(1)
        self.assertEqual(worker.socket.recv(1), b"")

    def test_who_reads_nothing_is_not_listened_to(self):
        """Replies that are not read stay in few bytes, however many commands are sent."""
        self.serve()
        # A small buffer: else the kernel alone may take 32 MB, as the daemon's end grows while replies find room.
        peers = [Connection("127.0.0.1", port_for_workers(self.daemon), receive_buffer=4096) for _ in range(10)]
        for peer in peers:
            self.addCleanup(peer.close)
        before = self.daemon.resident_bytes()
        flood = b"*2\r\n$4\r\nECHO\r\n$16000\r\n" + b"x" * 16000 + b"\r\n"
        for peer in peers:
            peer.socket.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                for _ in range(2000):
                    peer.socket.sendall(flood)
                self.fail("32 MB were taken from a peer that reads nothing")
        # 64 KiB of replies each, and a buffer of 1 MiB for what they send.
        self.assertLess(self.daemon.resident_bytes() - before, 20 << 20)
        self.assertEqual(self.worker(join=False)("PING"), "PONG")
        self.assert_error("TOOBIG", self.worker(join=False).ask("ECHO", "x" * 16385))

    def test_who_holds_all_that_it_can_leaves_leases_to_others(self):
        """A user whose worker claims, never settles and only beats: the worker of another user runs all jobs that are left."""
        work = {"commands": ["work"]}
        self.serve(merged(users(mallory=work, grace=work, alice={}), {"workers": {"max_leased_bytes": "64KiB"}}))
        client = Connection(self.daemon.host, self.daemon.port)
        self.addCleanup(client.close)
        client("AUTH", "alice", PASSWORD.format("alice"))
        batch = client("SUBMIT", "shout", "JOBS", *["x" * 4096] * 24)
        mallory, grace = (self.worker(user=user, password=PASSWORD.format(user), slots=16) for user in ("mallory", "grace"))
        held = []
        while (lease := mallory.claim("JOBS", 1, block=0)) is not None:
            held.append(lease)
        self.assertEqual(len(held), 8)  # half of the limit
        wait_for("WORKERS to show them", lambda: {row["user"]: row["leases"] for row in machines(client)} == {"mallory": 8, "grace": 0})
        for _ in range(16):
            self.assertEqual(mallory("BEAT"), [])
            lease = grace.claim("JOBS", 1)
            self.assertIsNotNone(lease)
            grace.settle(lease, ["X"])
        self.assertEqual(client.map("STATUS", batch)["ok"], 16)
        for lease in held:
            self.assertEqual(mallory.settle(lease, ["X"]), [1, 0])
        self.assertEqual(client.wait(batch)["ok"], 24)

    def test_the_first_remote_handler_of_a_reload_opens_the_port(self):
        port = hold_port(self)
        closed = {"workers": {"port": port}, "handlers": {}}
        self.daemon = self.start(closed)
        connection = self.connect(self.daemon)
        self.assertNotIn("workers=", self.daemon.ready_line)
        with self.assertRaises(ConnectionRefusedError):
            Connection("127.0.0.1", port)
        opened = merged(closed, self.SETTINGS | {"workers": {"port": port}})
        # Refused for another reason, after the port was bound.
        self.daemon.configure(merged(opened, {"http": {"login": "users", "token_file": "/nowhere"}}))
        self.assert_error("ERR", connection.ask("CONFIG", "RELOAD"))
        self.daemon.configure(opened)
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.daemon.wait_for_log(f" opened the port for workers workers=127.0.0.1:{port}\n")
        with Connection("127.0.0.1", port) as worker:
            self.assertEqual(worker.map("JOIN", "me", "SLOTS", 1, "HANDLERS", "shout")["worker"], "me")

    def test_garbage_ends_its_own_connection_alone(self):
        self.serve()
        good = self.worker()
        for bytes_ in (b"*1\r\n$-5\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"*99999999999\r\n"):
            bad = self.worker(join=False)
            bad.send(bytes_)
            bad.socket.settimeout(10)
            while bad.socket.recv(4096):
                pass
        self.assertEqual(good("PING"), "PONG")


class Restarts(RemoteTest):
    def serve(self, settings=None):
        """A daemon that may be killed; the last one ends as any other."""
        self.daemon = Daemon(merged(self.SETTINGS, settings or {}))
        self.addCleanup(lambda daemon=self.daemon: daemon.process.returncode == -9 or daemon.close())
        return self.connect(self.daemon)

    def kill(self):
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.process.stdout.close()
        shutil.rmtree(self.daemon.folder)

    def test_a_worker_reclaims_what_it_runs(self):
        folder = self.folder_of_test()
        connection = self.serve({"store": {"path": str(folder / "store")}, "workers": {"reclaim": "30s"}})
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", *"abc")
        lease = worker.claim("JOBS", 2)
        self.kill()
        connection = self.serve({"store": {"path": str(folder / "store")}, "workers": {"reclaim": "30s"}})
        again = self.worker()
        self.assertIsNone(again.claim(block=0))
        name, held, attempt = again("RECLAIM", lease.batch, lease.attempt, lease.first, lease.end)
        self.assertEqual(attempt, lease.attempt + 1)
        self.assertEqual(held, [[lease.first, lease.end]])
        self.assertEqual(again("SETTLE", name, "ok", lease.first, *[p.upper() for p in lease.payloads]), [lease.count, 0])
        self.assertEqual(connection.status(batch)["ok"], lease.count)

    def test_a_worker_that_quits_gets_the_replies_that_wait_for_the_store(self):
        connection = self.serve({"store": {"path": str(self.folder_of_test() / "store")}})
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", "a")
        lease = worker.claim()
        worker.send(encode("SETTLE", lease.name, "ok", lease.first, "A") + encode("QUIT"))
        self.assertEqual(worker.read(), [1, 0])
        self.assertEqual(worker.read(), "OK")
        self.assertEqual(connection.wait(batch)["ok"], 1)

    def test_an_output_above_max_output_fails_its_job_before_and_after_a_restart(self):
        settings = {"store": {"path": str(self.folder_of_test() / "store")}, "workers": {"reclaim": "0s"}, "handlers": {"shout": {"max_output": "1KiB"}}}
        connection = self.serve(settings)
        batch = connection("SUBMIT", "shout", "JOBS", *"abcd")
        for index in range(4):
            worker = self.worker()
            lease = worker.claim("JOBS", 1)
            worker.settle(lease, ["x" * (1024 + index % 2)])
            worker.close()
            if index == 1:
                self.kill()
                connection = self.serve(settings)
        self.assertEqual(connection.wait(batch)["failed"], 2)
        self.assertEqual([how for _, how, _ in sorted(connection.results(batch))], ["ok", "error"] * 2)

    def test_settled_is_on_the_disk(self):
        folder = self.folder_of_test()
        connection = self.serve({"store": {"path": str(folder / "store")}})
        worker = self.worker()
        batch = connection("SUBMIT", "shout", "JOBS", *"abc")
        done = 0
        while done < 3:
            lease = worker.claim()
            done += worker.settle(lease, [p.upper() for p in lease.payloads])[0]
        self.kill()
        connection = self.serve({"store": {"path": str(folder / "store")}})
        self.assertEqual(sorted(row[2] for row in connection.results(batch)), ["A", "B", "C"])


class Examples(RemoteTest):
    def test_the_example_in_python_as_it_stands_also_after_a_restart_of_the_daemon(self):
        port = hold_port(self)
        program = subprocess.Popen([sys.executable, "-B", str(EXAMPLES / "worker/shout.py"), f"redis://127.0.0.1:{port}"])
        self.addCleanup(program.wait)
        self.addCleanup(program.kill)
        for _ in range(2):
            connection = self.serve({"workers": {"port": port}})
            batch = connection("SUBMIT", "shout", "JOBS", *[f"word-{n}" for n in range(1000)])
            self.assertEqual(connection.wait(batch)["ok"], 1000)
            self.assertEqual({row[0]: row[2] for row in connection.results(batch)}, {n: f"WORD-{n}" for n in range(1000)})
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait_end()


if __name__ == "__main__":
    unittest.main()
