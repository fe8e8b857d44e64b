#!/usr/bin/python3
"""Faults of machines and links between a daemon and its remote workers: real processes, each daemon on a host of its own (a network namespace). Whatever
fails, each job is recorded exactly once, as a ledger outside of the daemons shows. Takes root."""

import pathlib
import signal
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from execution_ledger import ExecutionLedger
from late_proxy import FORWARD, HOLD, LOSE_REPLY, LateProxy
from locksley_daemon import Daemon, merged, wait_for
from net import Network
from postgres_server import PostgresServer
from remote_worker import RemoteWorker, machines, wait_for_machines
from resp import Error, Push, encode
from scratch import scratch
from users import ALL, PASSWORD, UsersTest, users

PORT = 7771  # for workers: each host has its own ports


def kill(daemon):
    """As kill -9 does, without an end that the daemon could prepare."""
    daemon.process.kill()
    daemon.process.wait()
    daemon.process.stdout.close()


class FaultsTest(UsersTest):
    """An owner, and machines that run `step` for it."""

    def setUp(self):
        self.folder = scratch(self)
        self.ledger = ExecutionLedger(self.folder)
        self.network = Network(self)
        self.hosts = {"owner": self.network.host("owner")}
        self.password = self.folder / "password"
        self.password.write_text(PASSWORD.format("machine"))
        self.password.chmod(0o600)

    def own(self, lease, settings=None, start=None):
        """The daemon that owns the batches, and a client on its host. No job ends for its losses."""
        self.settings = merged(
            {
                "workers": {"address": "0.0.0.0", "port": PORT, "insecure": True, "lease": lease, "max_losses": 1000},
                "handlers": {"step": {"remote": True}},
                **users(anna={"commands": ALL, "handlers": ["step"]}, machine={"commands": ["work"], "handlers": ["step"]}),
            },
            settings or {},
        )
        with self.hosts["owner"].inside():
            self.owner = (start or self.start)(self.settings)
        return self.client()

    def unattended(self, settings):
        """A daemon that the test kills."""
        daemon = Daemon(settings)
        self.addCleanup(lambda: daemon.process.returncode == -signal.SIGKILL or daemon.close())
        return daemon

    def client(self):
        with self.hosts["owner"].inside():
            return self.log_in(self.owner, "anna")

    def lost(self, reason):
        """Jobs that the owner has counted as lost with their machine."""
        with self.hosts["owner"].inside():
            return self.owner.metrics()[f'locksley_remote_lost_jobs_total{{reason="{reason}"}}']

    def host(self, name):
        if name not in self.hosts:
            self.hosts[name] = self.network.host(name)
        return self.hosts[name]

    def machine(self, name, slots=2, upstream=None, start=None):
        """A daemon of that name, on the host of that name, which works for the owner."""
        url = f"redis://machine@{upstream or '%s:%d' % (self.hosts['owner'].address, PORT)}"
        settings = {"url": url, "name": name, "password_file": str(self.password), "insecure": True, "handlers": ["step"]}
        with self.host(name).inside():
            return (start or self.start)({"upstream": settings, "handlers": {"step": self.ledger.handler(name, slots)}})

    def by_hand(self, name, **options):
        """A connection to the owner from the host of that name, as a worker that says what the test wants."""
        with self.host(name).inside():
            worker = RemoteWorker(self.owner, "step", user="machine", password=PASSWORD.format("machine"), host=self.hosts["owner"].address, **options)
        self.addCleanup(worker.close)
        return worker

    def submit(self, connection, jobs, seconds=0.05):
        return connection("SUBMIT", "step", "JOBS", *[seconds] * jobs)

    def wait_until_it_runs(self, batch, *names, count=1):
        for name in names:
            wait_for(f"{count} jobs to begin on machine {name}", lambda name=name: self.ledger.count(batch, name) >= count)

    def serves_again(self, connection, *names):
        """Each of the machines runs jobs of a new batch, and their results are recorded once."""
        batch = connection("OPEN", "step")
        jobs = 0
        while not all(self.ledger.count(batch, name) for name in names):
            self.assertLess(jobs, 3000, f"no job came to one of {names}")
            connection("ADD", batch, *[0.02] * 10)
            jobs += 10
            wait_for("a place for more jobs", lambda: connection.status(batch)["queued"] == 0)
        connection("CLOSE", batch)
        self.ledger.check(self, connection, batch, jobs)


class Store(FaultsTest):
    def test_a_settle_has_no_reply_until_its_results_are_in_the_store(self):
        server = PostgresServer()
        self.addCleanup(server.close)
        connection = self.own("60s", merged(server.settings(), {"workers": {"reclaim": "30s"}}), start=self.unattended)
        worker = self.by_hand("a", push=True)
        batch = self.submit(connection, 2)
        first, second = worker.claim("JOBS", 1), worker.claim("JOBS", 1)

        def settle_while_the_store_is_away(lease):
            server.kill()
            worker.send(encode("SETTLE", lease.name, "ok", lease.first, f"of job {lease.first}"))
            self.assertEqual(worker.read(), ["NONE"])

        settle_while_the_store_is_away(first)
        server.start()
        self.assertEqual(self.read_reply(worker), [1, 0])

        settle_while_the_store_is_away(second)
        connection.close()
        kill(self.owner)
        server.start()
        with self.hosts["owner"].inside():
            self.owner = self.unattended(self.settings)
        connection, worker = self.client(), self.by_hand("a")
        name, _, _ = worker("RECLAIM", second.batch, second.attempt, second.first, second.end)
        self.assertEqual(worker("SETTLE", name, "ok", second.first, "again"), [1, 0])
        self.assertEqual(connection.wait(batch)["ok"], 2)
        self.assertEqual(dict((row[0], row[2]) for row in connection.results(batch)), {first.first: f"of job {first.first}", second.first: "again"})

    def read_reply(self, worker):
        """The next one that is no push."""
        reply = worker.read()
        return self.read_reply(worker) if isinstance(reply, Push) else reply


class Processes(FaultsTest):
    def test_machines_that_are_killed_or_lose_their_power(self):
        connection = self.own(lease="1s")
        killed, dark = (self.machine(name, start=self.unattended) for name in ("killed", "dark"))
        wait_for_machines(connection, 2)
        batch = self.submit(connection, 60, seconds=0.2)
        self.wait_until_it_runs(batch, "killed", "dark")
        self.hosts["dark"].cut()  # the owner gets no FIN or RST, so it does not learn that this machine has ended
        kill(dark)
        kill(killed)
        self.machine("good", slots=8)
        self.ledger.check(self, connection, batch, 60)
        self.assertGreaterEqual(self.lost("disconnected"), 1)
        self.assertGreaterEqual(self.lost("silent"), 1)

    def test_an_owner_that_is_killed_again_and_again(self):
        store = {"store": {"path": str(self.folder / "store")}, "workers": {"reclaim": "500ms"}}
        connection = self.own("2s", store, start=self.unattended)
        self.machine("a"), self.machine("b")
        batch = self.submit(connection, 60, seconds=0.1)
        for ended in (4, 16, 32):
            wait_for(f"{ended} jobs to end", lambda: connection.status(batch)["ok"] >= ended)
            connection.close()
            kill(self.owner)
            with self.hosts["owner"].inside():
                self.owner = self.unattended(self.settings)
            connection = self.client()
        self.ledger.check(self, connection, batch, 60)

    def test_a_machine_that_stops_for_longer_than_its_lease(self):
        """What it says when it goes on is too late: others have run its jobs."""
        connection = self.own(lease="1s")
        stopped = self.machine("stopped")
        wait_for_machines(connection, 1)
        batch = self.submit(connection, 20, seconds=0.3)
        self.wait_until_it_runs(batch, "stopped")
        stopped.send_signal(signal.SIGSTOP)
        try:
            wait_for("the machine to count as silent", lambda: connection.explain(batch)["reason"] == "waiting-for-workers")
            self.machine("good", slots=6)
            recorded = self.ledger.check(self, connection, batch, 20)
        finally:
            stopped.send_signal(signal.SIGCONT)
        late = [index for index, ran in self.ledger.executions(batch).items() if "stopped" in ran and recorded[index] == "good"]
        self.assertTrue(late, "a job ran on both")
        self.assertGreaterEqual(self.lost("silent"), 1)
        # Its late results come before anything that it says of this batch.
        self.serves_again(connection, "stopped")
        self.assertEqual(self.ledger.check(self, connection, batch, 20), recorded)

    def test_an_owner_that_stops_for_longer_than_a_lease(self):
        """The machine said in time that it lives, but the owner could not read it: the machine keeps its jobs."""
        connection = self.own(lease="2s")
        self.machine("a")
        wait_for_machines(connection, 1)
        batch = self.submit(connection, 2, seconds=4)
        self.wait_until_it_runs(batch, "a", count=2)
        self.machine("idle")
        wait_for_machines(connection, 2)
        self.owner.send_signal(signal.SIGSTOP)
        time.sleep(3)
        self.owner.send_signal(signal.SIGCONT)
        self.ledger.check(self, connection, batch, 2)
        self.assertEqual(self.lost("silent"), 0)
        self.assertEqual(self.ledger.executions(batch), {0: ["a"], 1: ["a"]}, "each job ran once")


class Links(FaultsTest):
    CUTS = {"both": "cut", "out": "cut_out", "in": "cut_in"}

    def cut(self):
        for name, how in self.CUTS.items():
            getattr(self.hosts[name], how)()

    def heal(self):
        for name in self.CUTS:
            self.hosts[name].heal()

    def test_links_that_are_cut_for_less_than_a_lease(self):
        connection = self.own(lease="20s")
        for name in self.CUTS:
            self.machine(name)
        wait_for_machines(connection, 3)
        batch = self.submit(connection, 60, seconds=0.1)
        self.wait_until_it_runs(batch, *self.CUTS)
        self.cut()
        time.sleep(0.5)
        self.heal()
        self.ledger.check(self, connection, batch, 60)
        self.assertEqual((self.lost("silent"), self.lost("disconnected")), (0, 0))
        self.assertEqual({len(ran) for ran in self.ledger.executions(batch).values()}, {1}, "each job ran once")

    def test_links_that_are_cut_for_longer_than_a_lease_beside_a_job_of_five_leases(self):
        connection = self.own(lease="2s")
        self.machine("patient", slots=1)
        wait_for_machines(connection, 1)
        long = self.submit(connection, 1, seconds=10.5)
        self.wait_until_it_runs(long, "patient")
        daemons = [self.machine(name) for name in self.CUTS]
        wait_for_machines(connection, 4)
        batch = self.submit(connection, 60, seconds=0.2)
        self.wait_until_it_runs(batch, *self.CUTS)
        self.cut()
        self.machine("good", slots=8)
        self.ledger.check(self, connection, batch, 60)
        for daemon in daemons:
            daemon.wait_for_log("no connection to the upstream daemon")
        self.heal()
        self.serves_again(connection, *self.CUTS)
        for daemon in daemons:
            self.assertGreaterEqual(daemon.log().count("joined the upstream daemon"), 2, "it has connected again")
        self.ledger.check(self, connection, batch, 60)
        self.assertGreaterEqual(self.lost("silent"), 3)
        self.ledger.check(self, connection, long, 1)
        self.assertEqual(self.ledger.executions(long)[0], ["patient"], "it ran once: its daemon said that it lives")

    def test_results_that_arrive_late(self):
        """A proxy loses the connection of a machine, and keeps its results for a while."""
        connection = self.own(lease="1s")
        todo = [HOLD, LOSE_REPLY]
        rule = lambda words: todo.pop() if words[0] == b"SETTLE" and todo else FORWARD
        with self.host("late").inside():
            proxy = LateProxy(self.hosts["owner"].address, PORT, rule)
        self.addCleanup(proxy.close)
        self.machine("late", upstream=proxy.address)
        wait_for_machines(connection, 1)
        batch = self.submit(connection, 20)
        wait_for("results to be held", lambda: proxy.held)
        recorded = self.ledger.check(self, connection, batch, 20)
        link = proxy.held[0][0]
        proxy.release()
        wait_for("the answer to them", lambda: b"-LOST the lease is gone; nothing was recorded\r\n" in link.late_replies)
        self.assertEqual(self.ledger.check(self, connection, batch, 20), recorded)
        self.assertEqual({len(ran) for ran in self.ledger.executions(batch).values()}, {1}, "the machine has reclaimed its jobs")


class Hands(FaultsTest):
    """Workers that do what they must not."""

    def test_a_worker_that_claims_and_never_settles(self):
        connection = self.own(lease="10s")

        def claim_all(lease_ms):
            """The batch, the worker and its leases. None if a lease was over before the last CLAIM: the test itself was too slow."""
            batch, began = self.submit(connection, 4), time.monotonic()
            idler = self.by_hand("idler", slots=2, lease=lease_ms)
            leases = [idler.claim("SLOT", slot, "JOBS", 1) for slot in (0, 0, 1, 1)]
            refusal = idler.ask("CLAIM", "SLOT", 0)
            if time.monotonic() - began < lease_ms / 1000:
                self.assert_error("ERR a slot has at most 2 leases", refusal)
                return batch, idler, leases
            idler.close()
            connection("CANCEL", batch)
            connection.wait(batch)
            self.lost_before = self.lost("silent")
            return None

        self.lost_before = 0
        claimed = next(filter(None, map(claim_all, (1000, 5000))), None)
        self.assertIsNotNone(claimed, "the test is too slow")
        batch, idler, leases = claimed
        self.machine("good")
        recorded = self.ledger.check(self, connection, batch, 4)
        self.assertEqual(set(recorded.values()), {"good"})
        for lease in leases:
            self.assert_error("LOST", idler.ask("SETTLE", lease.name, "ok", lease.first, "too late"))
        self.assertEqual(self.ledger.check(self, connection, batch, 4), recorded)
        self.assertEqual(self.lost("silent") - self.lost_before, 2, "of each slot, what may have run")

    def test_a_worker_that_waited_for_longer_than_its_lease(self):
        """The lease that it gets at last is a whole one."""
        connection = self.own(lease="10s")

        def attempt(lease_ms):
            """False if the test itself needed longer than a lease for its two commands."""
            worker, before = self.by_hand("patient", lease=lease_ms), self.lost("silent")
            worker.send(encode("CLAIM", "BLOCK", 30_000))
            time.sleep(1.5 * lease_ms / 1000)
            batch, began = self.submit(connection, 1), time.monotonic()
            reply = worker.ask("SETTLE", worker.read()[0], "ok", 0, "patient")
            if isinstance(reply, Error) and time.monotonic() - began > lease_ms / 2000:
                worker.close()
                connection("CANCEL", batch)
                return False
            self.assertEqual(reply, [1, 0])
            self.assertEqual(connection.results(batch), [[0, "ok", "patient"]])
            self.assertEqual(self.lost("silent"), before)
            return True

        self.assertTrue(any(map(attempt, (1000, 5000))), "the test is too slow")

    def test_a_result_that_comes_slowly_is_not_too_late_for_the_time_out(self):
        connection = self.own(lease="10s", settings={"handlers": {"step": {"timeout": "200ms"}}})
        batch = self.submit(connection, 1)
        worker = self.by_hand("slow")
        lease = worker.claim()
        command = encode("SETTLE", lease.name, "ok", lease.first, "x" * 1_000_000)
        for i in range(10):
            worker.send(command[i * 100_000 : (i + 1) * 100_000 if i < 9 else None])
            time.sleep(0.4)
        self.assertEqual(worker.read(), [1, 0])
        self.assertEqual(connection.results(batch), [[0, "ok", "x" * 1_000_000]])

    def test_a_worker_that_settles_what_it_must_not(self):
        connection = self.own(lease="10s", settings={"handlers": {"step": {"max_output": "1KiB"}}})
        batch = self.submit(connection, 12)
        liar, other = self.by_hand("liar", slots=2), self.by_hand("other")
        lease = liar.claim("SLOT", 0)
        foreign = other.claim()
        for name in ("1-1", "0-0", "no lease", lease.name + "1", foreign.name):
            self.assert_error("LOST the lease is gone; nothing was recorded", liar.ask("SETTLE", name, "ok", lease.first, "false"))
        self.assert_error("ERR the lease has jobs", liar.ask("SETTLE", lease.name, "ok", lease.first, *["false"] * (lease.count + 1)))
        self.assert_error("ERR the lease has jobs", liar.ask("SETTLE", lease.name, "ok", foreign.first, "false"))
        self.assert_error("ERR", liar.ask("SETTLE", lease.name, "fine", lease.first, "false"))
        self.assertEqual(connection.status(batch)["ok"], 0)
        # Larger than the handler's results may be: that job has failed.
        self.assertEqual(liar.settle(lease, ["x" * 1025]), [1, lease.count - 1])
        self.assertEqual((connection.status(batch)["ok"], connection.status(batch)["failed"]), (0, 1))
        # Larger than any command may be: the connection ends, and what it held goes back.
        self.assertIsNotNone(liar.claim())
        liar.send(b"*5\r\n$6\r\nSETTLE\r\n$1\r\nx\r\n$2\r\nok\r\n$1\r\n0\r\n$99999999999\r\n")
        self.assertIn(b"-ERR", liar.read_until_closed())
        other.close()
        self.machine("good")
        status = connection.wait(batch)
        self.assertEqual((status["ok"], status["failed"]), (11, 1))
        rows = {index: (how, output) for index, how, output in connection.results(batch)}
        self.assertEqual(len(connection.results(batch)), 12)
        self.assertEqual(rows.pop(lease.first)[0], "error")
        self.assertEqual(set(rows.values()), {("ok", "good")})


if __name__ == "__main__":
    unittest.main()
