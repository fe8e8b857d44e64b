#!/usr/bin/python3
"""Two daemons, a PostgreSQL server and clients on hosts of their own, whose links are cut and healed under load: a daemon without its database
acknowledges nothing, the other one takes over, and nothing that was acknowledged is lost. Takes root. Prints how long takeovers took."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cluster import ClusterDaemon
from cluster_ledger import ClusterTest, LedgerCluster, OneJob
from locksley_daemon import merged, wait_for
from net import Network
from postgres_server import PostgresServer
from resp import encode
from users import ALL, PASSWORD, users

PORT = 5432  # each host has its own ports
LEASE_S = 5


class HostedServer(PostgresServer):
    """Reached from all hosts."""

    def __init__(self):
        super().__init__(f"listen_addresses = '*'\nport = {PORT}\n")

    def make_data(self):
        super().make_data()
        with open(self.data / "pg_hba.conf", "a") as file:
            file.write("host all all 10.77.0.0/16 trust\n")


class HostedCluster(LedgerCluster):
    """Each daemon on one of two machines. Clients of other machines are users with passwords."""

    login = ("anna", PASSWORD.format("anna"))

    def __init__(self, settings, machines, clients):
        self.machines, self.clients_side = machines, clients.inside
        super().__init__(merged(settings, users(anna={"commands": ALL})), (OneJob,) * 3)

    def start(self):
        taken = [daemon.host for daemon in self.daemons()]
        machine = next(machine for machine in self.machines if machine.address not in taken)
        with machine.inside():
            return ClusterDaemon(merged(self.settings, {"listen": {"address": machine.address}}))

    def machine_of(self, daemon):
        return next(machine for machine in self.machines if machine.address == daemon.host)


class PartitionTest(ClusterTest):
    def setUp(self):
        network = Network(self)
        self.database, one, two, self.clients = (network.host(name) for name in ("database", "one", "two", "clients"))
        with self.database.inside():
            self.server = HostedServer()
        self.addCleanup(self.server.close)
        settings = self.server.settings(url=f"postgresql://locksley@{self.database.address}:{PORT}/postgres")
        self.cluster = HostedCluster(settings, (one, two), self.clients)
        self.addCleanup(self.cluster.close)
        self.cluster.await_batches(10)
        self.active = self.cluster.active
        with self.cluster.connect(self.active) as connection:
            wait_for("the active one to see the other", lambda: "connected_slaves:1" in connection("INFO", "replication"))
        self.machine = self.cluster.machine_of(self.active)

    def witness(self):
        """A client of the daemon that is active now; it tries no other one."""
        connection = self.cluster.connect(self.active)
        self.addCleanup(connection.close)
        connection("PING")
        return connection

    def cut(self, *cuts):
        """Returns when."""
        for cut in cuts:
            cut(self.database)
        return time.monotonic()

    def assert_the_other_takes_over(self, began):
        """The former one ends by itself before its link is healed, so that no client reads from it what is old."""
        former = self.cluster.wait_for_successor()
        served = time.monotonic() - began
        self.cluster.await_batches(2)
        clients = time.monotonic() - began
        print(f"{self._testMethodName}: the other one served after {served:.2f} s, and all clients had found it after {clients:.2f} s", flush=True)
        self.cluster.check_new()
        self.cluster.forget(former, 69)
        self.machine.heal()
        self.cluster.add_standby()
        self.cluster.await_batches(2)

    def assert_no_acknowledgement(self, witness):
        """Of a command that a daemon was sent before it ended, but after it had lost its database."""
        said = witness.read_until_closed()
        self.assertRegex(said, rb"^(-STORE [^\r\n]*\r\n)?$")

    def assert_the_same_goes_on(self):
        self.cluster.await_batches(2)
        self.assertIsNone(self.active.process.poll())
        self.assertTrue(self.cluster.active is self.active and not self.cluster.standby.is_active)
        self.assertEqual(self.server.query("select count(*) from locksley_node where committed >= 0"), "1", "one daemon has ever been active")


class WithoutDatabase(PartitionTest):
    def test_the_active_one_loses_its_database(self):
        witness = self.witness()
        began = self.cut(self.machine.cut_to, self.machine.cut_from)
        witness.send(encode("SUBMIT", "echo", "ID", "in-vain", "JOBS", "x"))
        self.assert_the_other_takes_over(began)
        self.assert_no_acknowledgement(witness)
        self.cluster.check_all()

    def test_what_it_sends_does_not_arrive(self):
        witness = self.witness()
        began = self.cut(self.machine.cut_to)
        witness.send(encode("SUBMIT", "echo", "ID", "in-vain", "JOBS", "x"))
        self.assert_the_other_takes_over(began)
        self.assert_no_acknowledgement(witness)
        self.cluster.check_all()

    def test_what_the_database_answers_does_not_arrive(self):
        """What it has committed is there, though it cannot know."""
        witness = self.witness()
        began = self.cut(self.machine.cut_from)
        witness.send(encode("SUBMIT", "echo", "ID", "in-vain", "JOBS", "x"))
        self.assert_the_other_takes_over(began)
        self.assert_no_acknowledgement(witness)
        self.cluster.check_all()

    def test_for_less_than_its_lease(self):
        for cuts in ((self.machine.cut_to,), (self.machine.cut_from,), (self.machine.cut_to, self.machine.cut_from)):
            self.cut(*cuts)
            time.sleep(LEASE_S / 10)  # what is sent again comes at the latest after three times as long
            self.machine.heal()
            self.assert_the_same_goes_on()
        self.cluster.check_all()

    def test_both_lose_it(self):
        """It is back before the active one has given up a commit, or later: the same daemon goes on or the other takes over, and one of them alone."""
        for seconds in (LEASE_S / 2, 3 * LEASE_S):
            self.database.cut()
            time.sleep(seconds)
            self.database.heal()
            self.cluster.await_batches(2)
            if self.server.query("select wire from locksley_node where alive") == self.cluster.standby.address:
                former = self.cluster.wait_for_successor()
                self.cluster.resume_fenced(former)
                self.cluster.add_standby()
            self.cluster.check_new()
        self.cluster.check_all()


class WithDatabase(PartitionTest):
    def test_the_active_one_loses_its_clients(self):
        """It says that it lives, so no other one takes over."""
        self.machine.drop(f"to {self.clients.address}/32 iif {self.machine.port}", f"iif {self.clients.port} to {self.machine.address}/32")
        time.sleep(2 * LEASE_S)
        self.machine.heal()
        self.assert_the_same_goes_on()
        self.cluster.check_all()

    def test_the_one_that_stands_by_loses_its_database(self):
        machine = self.cluster.machine_of(self.cluster.standby)
        for cut in (machine.cut_to, machine.cut_from):
            cut(self.database)
            time.sleep(2 * LEASE_S)
            machine.heal()
            self.assert_the_same_goes_on()
        self.cluster.check_all()

    def test_the_machine_of_the_active_one_is_gone(self):
        began = time.monotonic()
        self.machine.cut()
        self.assert_the_other_takes_over(began)
        self.cluster.check_all()


if __name__ == "__main__":
    unittest.main()
