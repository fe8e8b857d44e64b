#!/usr/bin/python3
"""A daemon that stands by beside the active one on the same PostgreSQL server: what it answers on its ports, whom it lets in, how it ends, and
what it says while it takes over; and jobs on worker machines when that happens. failover.py has the takeovers under load."""
# Length: the tests share the server and the pair of daemons of one class.

import json
import pathlib
import select
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from browser import Browser
from cluster import ClusterDaemon
from dashboard_page import TABLE
from locksley_daemon import Daemon, DaemonTest, end_with_parent, merged, program, wait_for
from postgres_server import PostgresServer, programs, signal_each
from programs import shell, worker
from remote_worker import RemoteWorker, port_for_workers
from resp import Closed, Connection, Error, encode, pairs
from scratch import scratch
from users import PASSWORD, users

REMOTE = {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}}
JOIN = ("JOIN", "by-hand", "SLOTS", "1", "HANDLERS", "far")


class StandbyTest(DaemonTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = PostgresServer()
        cls.addClassCleanup(cls.server.close)

    def setUp(self):
        # Each test has a store of its own.
        self.schema = self._testMethodName[:40]
        self.server.query(f"create schema {self.schema}")
        self.settings = self.server.settings(url=f"{self.server.url}&options=-csearch_path%3D{self.schema}")

    def query(self, sql):
        return self.server.query(f"set search_path = {self.schema}; {sql}")

    def start(self, settings=None):
        daemon = ClusterDaemon(merged(self.settings, settings or {}))
        self.addCleanup(self._end, daemon)
        return daemon

    def _end(self, daemon):
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.wait_end()
        daemon.process.returncode = 0
        super()._end(daemon)

    def start_pair(self, settings=None):
        active = self.start(settings).wait_active()
        standby = self.start(settings)
        self.assertFalse(standby.is_active)
        return active, standby

    def info(self, connection, section="replication"):
        lines = connection("INFO", section).split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def nodes(self, connection):
        return [pairs(row) for row in connection("NODES")]

    def worker_at(self, daemon, *handlers, **options):
        worker = RemoteWorker(daemon, *handlers, **options)
        self.addCleanup(worker.close)
        return worker


class Answers(StandbyTest):
    def test_what_concerns_the_connection_is_executed_and_all_else_sent_to_the_active_one(self):
        active, standby = self.start_pair()
        connection = self.connect(standby)
        self.assertEqual(connection("PING"), "PONG")
        self.assertEqual(connection("ECHO", "x"), "x")
        self.assertEqual(connection("SELECT", "0"), "OK")
        self.assertEqual(connection("CLIENT", "SETNAME", "me"), "OK")
        self.assertEqual(connection("CLIENT", "GETNAME"), "me")
        self.assertGreater(connection("COMMAND", "COUNT"), 40)
        readonly = f"READONLY the active daemon is {active.address}"
        for command in ("SUBMIT echo JOBS x", "RUN echo JOBS x", "OPEN echo", "STATUS x", "LIST", "WAIT x", "WORKERS", "HANDLERS", "SUBSCRIBE batches",
                        "CONFIG GET *", "CONFIG RELOAD", "CUSTOMER LIST", "TENANTS"):  # fmt: skip
            self.assertEqual(connection.ask(*command.split()), readonly, command)
        self.assert_error("ERR unknown command", connection.ask("NOSUCH"))
        self.assert_error("ERR wrong number of arguments", connection.ask("SUBMIT"))
        connection("MULTI")
        self.assertEqual(connection("PING"), "QUEUED")
        self.assertEqual(connection.ask("SUBMIT", "echo", "JOBS", "x"), readonly)
        self.assert_error("EXECABORT", connection.ask("EXEC"))
        self.assertEqual(connection("CLIENT", "REPLY", "ON"), "OK")
        self.assertEqual(connection("RESET"), "RESET")
        self.assertEqual(pairs(connection("HELLO", "3"))["proto"], 3)
        self.assertEqual(connection("QUIT"), "OK")

    def test_both_say_who_is_who(self):
        active, standby = self.start_pair({"cluster": {"name": "one"}})
        at_active, at_standby = self.connect(active), self.connect(standby)
        info = self.info(at_standby)
        self.assertEqual((info["role"], info["master_host"], info["master_port"]), ("slave", active.host, str(active.port)))
        persistence = self.info(at_standby, "persistence")
        self.assertEqual((persistence["loading"], persistence["store"]), ("0", "standby"))
        self.assertEqual(self.info(at_standby, "server")["tcp_port"], str(standby.port))
        self.assertEqual(self.info(at_active)["role"], "master")
        wait_for("the active one to see the other", lambda: self.info(at_active)["connected_slaves"] == "1")
        for connection in (at_active, at_standby):
            first, second = wait_for("both rows", lambda: len(nodes := self.nodes(connection)) == 2 and nodes)
            self.assertEqual((first["state"], first["wire"], first["shards"], first["name"]), ("active", active.address, 64, "one"))
            self.assertEqual((second["state"], second["wire"], second["shards"]), ("standby", standby.address, 0))
            self.assertLess(first["node"], second["node"])
            wait_for("fresh beats", lambda: all(node["beat_ms"] < 5000 for node in self.nodes(connection)))

    def test_the_http_port_says_where_the_active_one_is(self):
        active, standby = self.start_pair()
        where = f"stands by: the active daemon is {active.address}\n"
        self.assertEqual(standby.get("/healthz"), (200, "ok\n"))
        self.assertEqual(standby.get("/readyz"), (503, where))
        self.assertEqual(standby.get("/api/overview"), (503, where))
        self.assertEqual(standby.get("/"), (503, where))
        self.assertEqual(active.get("/readyz"), (200, "ready\n"))
        wait_for("the active one to see the other", lambda: active.metrics()['locksley_cluster_nodes{state="standby"}'] == 1)
        for daemon in (active, standby):
            metrics = wait_for("a look", lambda: (seen := daemon.metrics())['locksley_cluster_nodes{state="active"}'] == 1 and seen)
            self.assertEqual(metrics['locksley_cluster_shards{state="owned"}'], 64)
            self.assertEqual(metrics['locksley_cluster_shards{state="unowned"}'], 0)
            self.assertEqual(metrics["locksley_cluster_adoptions_total"], 1 if daemon is active else 0)
            self.assertEqual(metrics["locksley_cluster_fenced_total"], 0)
        self.assertGreater(active.metrics()["locksley_cluster_lease_seconds_left"], 0)
        self.assertNotIn("locksley_cluster_lease_seconds_left", standby.metrics())
        # It is measured every 5 s, and at first once the daemon serves.
        oldest = "locksley_cluster_oldest_transaction_seconds"
        self.assertGreaterEqual(wait_for("the database to be measured", lambda: active.metrics().get(oldest)), 0)

    def test_the_dashboard_names_the_daemons_and_the_database(self):
        active, standby = self.start_pair({"cluster": {"name": "queue-<b>1</b>"}})
        wait_for("the active one to see the other", lambda: active.metrics()['locksley_cluster_nodes{state="standby"}'] == 1)
        browser = Browser()
        self.addCleanup(browser.close)
        page = browser.open(f"{active.http}/")
        self.addCleanup(page.close)
        daemons = wait_for("both daemons on the page", lambda: len(rows := page.run(TABLE, "Daemons")) == 2 and rows)
        shown = [[row[title][0] for title in ("Daemon", "State", "Clients connect to")] for row in daemons]
        self.assertEqual(shown, [["queue-<b>1</b>", "serves", active.address], ["queue-<b>1</b>", "stands by", standby.address]])
        self.assertIn(f"postgresql://{self.server.folder}/postgres", page.text("main"))

    def test_clients_and_workers_are_sent_to_the_advertised_addresses(self):
        active = self.start(merged(REMOTE, {"cluster": {"advertise": "queue.example:7770"}})).wait_active()
        standby = self.start(merged(REMOTE, {"cluster": {"advertise": "other.example:7770", "advertise_workers": "workers.example:7772"}}))
        connection = self.connect(standby)
        self.assertEqual(connection.ask("LIST"), "READONLY the active daemon is queue.example:7770")
        info = self.info(connection)
        self.assertEqual((info["master_host"], info["master_port"]), ("queue.example", "7770"))
        where = f"queue.example:{port_for_workers(active)}"
        self.assertEqual(self.worker_at(standby, join=False).ask(*JOIN), f"READONLY the active daemon is {where}")
        connection = self.connect(active)
        wait_for("the active one to see the other", lambda: len(self.nodes(connection)) == 2)
        self.assertEqual(self.worker_at(active, "far").joined["addresses"], [where, "workers.example:7772"])

    def test_the_port_for_workers_sends_them_to_the_active_one(self):
        active, standby = self.start_pair(REMOTE)
        where, other = (f"127.0.0.1:{port_for_workers(daemon)}" for daemon in (active, standby))
        worker = self.worker_at(standby, join=False)
        self.assertEqual(worker("PING"), "PONG")
        self.assertIn("role:slave", worker("INFO"))
        self.assertEqual(worker.ask(*JOIN), f"READONLY the active daemon is {where}")
        self.assert_error("NOTJOINED", worker.ask("CLAIM"))
        connection = self.connect(active)
        nodes = wait_for("both rows", lambda: len(nodes := self.nodes(connection)) == 2 and nodes)
        self.assertEqual([node["workers"] for node in nodes], [where, other])
        worker = self.worker_at(active, "far")
        self.assertIn("role:master", worker("INFO"))
        self.assertEqual(worker.joined["addresses"], [where, other])
        self.assertEqual(worker.joined["store"], self.query("select id from locksley_cluster"))
        # One that has ended in order, or is gone, is named to no worker.
        standby.send_signal(signal.SIGTERM)
        standby.wait_end()
        wait_for("its row to go", lambda: len(self.nodes(connection)) == 1)
        self.assertEqual(self.worker_at(active, "far").joined["addresses"], [where])

    def test_a_daemon_without_a_port_for_workers_is_named_to_none(self):
        self.start().wait_active()
        standby = self.start(REMOTE)
        self.assertEqual(self.worker_at(standby, join=False).ask(*JOIN), "READONLY the active daemon has no port for workers")

    def test_users_log_in_as_at_the_active_one(self):
        settings = users(alice={"commands": ["submit", "read"]}, bob={"commands": ["submit"]}, worker={"commands": ["work"], "handlers": ["far"]})
        _, standby = self.start_pair(merged(REMOTE, settings))
        for user, answer in (("worker", "READONLY"), ("bob", "NOPERM")):
            login = {"user": user, "password": PASSWORD.format(user)}
            self.assert_error(answer, self.worker_at(standby, join=False, **login).ask(*JOIN))
        self.assert_error("NOAUTH", self.worker_at(standby, join=False).ask(*JOIN))
        connection = self.connect(standby)
        self.assert_error("NOAUTH", connection.ask("SUBMIT", "echo", "JOBS", "x"))
        self.assert_error("NOAUTH", connection.ask("INFO"))
        self.assert_error("WRONGPASS", connection.ask("AUTH", "alice", "wrong"))
        self.assertEqual(connection("AUTH", "alice", PASSWORD.format("alice")), "OK")
        self.assert_error("READONLY", connection.ask("SUBMIT", "echo", "JOBS", "x"))
        self.assert_error("NOPERM", connection.ask("CANCEL", "x"))
        wait_for("both rows", lambda: len(connection("NODES")) == 2)
        connection("AUTH", "bob", PASSWORD.format("bob"))
        self.assert_error("NOPERM", connection.ask("NODES"))


class TakesOver(StandbyTest):
    def test_a_daemon_that_ends_in_order_is_followed_on_the_same_ports(self):
        active, standby = self.start_pair()
        connection = self.connect(active)
        connection.wait(connection("SUBMIT", "echo", "ID", "kept", "JOBS", "x"))
        listed = self.connect(standby)
        where = (standby.port, standby.http)
        active.send_signal(signal.SIGTERM)
        standby.wait_active()
        self.assertEqual(active.wait_end(), 0)
        self.assertEqual((standby.port, standby.http, listed.read_until_closed()), (*where, b""))
        connection = self.connect(standby)
        self.assertEqual((connection.results("kept"), self.info(connection)["role"]), ([[0, "ok", "x"]], "master"))
        self.assertEqual(standby.get("/readyz"), (200, "ready\n"))
        self.assertEqual([standby.metrics()[f"locksley_cluster_{what}_total"] for what in ("adoptions", "fenced")], [1, 0])

    def test_a_daemon_that_was_paused_says_nothing_of_its_batches(self):
        active, standby = self.start_pair()
        former = [self.connect(active) for _ in range(20)]
        self.assertEqual({connection("PING") for connection in former}, {"PONG"})
        former[0].wait(former[0]("SUBMIT", "echo", "ID", "kept", "JOBS", "x"))
        wait_for("the active one to see the other", lambda: "connected_slaves:1" in former[0]("INFO", "replication"))
        active.send_signal(signal.SIGSTOP)
        standby.wait_active()
        self.assertEqual(self.connect(standby)("FORGET", "kept"), 1)
        for connection in former:
            connection.send((encode("STATUS", "kept") + encode("FORGET", "another")) * 100)
        active.send_signal(signal.SIGCONT)
        for connection in former:
            self.assertRegex(connection.read_until_closed(), rb"^(-LOADING this daemon was paused[^\r\n]*\r\n)*(-LOADING[^\r\n]*)?$")
        self.assertEqual(active.wait_end(), 69)

    def test_a_daemon_that_was_paused_goes_on_once_it_knows_that_none_has_taken_over(self):
        active = self.start().wait_active()
        connection, transaction = self.connect(active), self.connect(active)
        self.assertEqual((connection("PING"), transaction("MULTI"), transaction("LIST")), ("PONG", "OK", "QUEUED"))
        page = self.enterContext(Connection(active.host, int(active.http.rsplit(":", 1)[1])))
        self.server.pause()
        try:
            active.send_signal(signal.SIGSTOP)
            time.sleep(5.1)  # the lease
            connection.send(encode("LIST") + encode("INFO", "replication"))
            transaction.send(encode("EXEC"))
            page.send(b"GET /api/batches HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            active.send_signal(signal.SIGCONT)
            self.assert_error("LOADING", connection.read())
            self.assertIn("master_host:\r\nmaster_port:0\r\nmaster_link_status:down", connection.read())
            self.assert_error("LOADING", transaction.read())
            self.assertRegex(page.read_until_closed(), rb"(?s)^HTTP/1.1 503 .*was paused")
            wait_for("it to know", lambda: not isinstance(connection.ask("LIST"), Error))
        finally:
            signal_each(self.server.processes(), signal.SIGCONT)

    def test_clients_that_wait_for_a_daemon_that_was_paused_learn_of_batches_once_it_knows_that_it_serves(self):
        active = self.start({"handlers": {"sh": shell(concurrency=2)}}).wait_active()
        asking, submitter = self.connect(active), self.connect(active)
        may_end = scratch(self) / "may-end"
        until_it_may_end = f"until [ -e {may_end} ]; do sleep 0.05; done"
        words = {"events": ("SUBSCRIBE", "batch:late"), "WAIT": ("WAIT", "late"), "RESULTS": ("RESULTS", "late", "BLOCK", 0),
                 "RUN": ("RUN", "sh", "JOBS", until_it_may_end)}
        waiting = {name: self.connect(active) for name in words}
        self.assertEqual(waiting["events"](*words["events"]), ["subscribe", "batch:late", 1])
        # The jobs end while the daemon is paused.
        self.assertEqual(submitter("SUBMIT", "sh", "ID", "late", "JOBS", f"{until_it_may_end}; echo ended"), "late")
        self.assertEqual([json.loads(waiting["events"].read()[2])["event"] for _ in range(2)], ["accepted", "started"])
        for name in ("WAIT", "RESULTS", "RUN"):
            waiting[name].send(encode(*words[name]))
        wait_for("them to wait", lambda: "blocked_clients:3" in asking("INFO", "clients"))
        self.server.pause()
        try:
            active.send_signal(signal.SIGSTOP)
            may_end.touch()
            time.sleep(5.1)  # the lease
            active.send_signal(signal.SIGCONT)
            looks = 0
            for _ in range(1000):
                told = [name for name, connection in waiting.items() if select.select([connection.socket], [], [], 0)[0]]
                if not isinstance(reply := asking.ask("LIST"), Error):
                    break
                self.assert_error("LOADING", reply)
                self.assertEqual(told, [])
                looks += 1
                time.sleep(0.005)
            self.assertGreater(looks, 0)
            self.assertEqual(pairs(waiting["WAIT"].read())["state"], "done")
            self.assertEqual(waiting["RESULTS"].read()[1], [[0, "ok", "ended\n"]])
            self.assertEqual(waiting["RUN"].read(), [["ok", ""]])
            while (event := json.loads(waiting["events"].read()[2])["event"]) != "done":
                self.assertEqual(event, "progress")
        finally:
            signal_each(self.server.processes(), signal.SIGCONT)

    def test_it_follows_the_index_and_reads_only_what_has_changed(self):
        active, standby = self.start_pair()
        connection = self.connect(active)
        for batch in ("one", "two", "three"):
            connection.wait(connection("SUBMIT", "echo", "ID", batch, "JOBS", batch))
        followed = "locksley_cluster_followed_batches"
        wait_for("the standby to have read the index", lambda: standby.metrics().get(followed) == 3)
        wait_for("the active one to see the other", lambda: active.metrics()['locksley_cluster_nodes{state="standby"}'] == 1)
        connection("SUBMIT", "sleep", "ID", "left", "JOBS", 600_000)
        connection.wait(connection("SUBMIT", "echo", "ID", "four", "JOBS", "four"))
        self.assertEqual(connection("FORGET", "two"), 1)
        active.send_signal(signal.SIGKILL)
        active.wait_end()
        standby.wait_active()
        self.assertIn("the index was followed: only what had changed last was read batches=4", standby.log())
        self.assertNotIn(followed, standby.metrics())
        connection = self.connect(standby)
        self.assertEqual(sorted(row["id"] for row in connection.listed()), ["four", "left", "one", "three"])
        for batch in ("one", "three", "four"):
            self.assertEqual(connection.results(batch), [[0, "ok", batch]])
        wait_for("the job that was left to run", lambda: connection.status("left")["state"] == "running")

    def test_it_says_that_it_reads_the_batches_and_ends_in_order_if_it_is_told_to_meanwhile(self):
        active, standby = self.start_pair(REMOTE)
        connection = self.connect(active)
        connection.wait(connection("SUBMIT", "echo", "ID", "kept", "JOBS", "x"))
        waiting = self.connect(standby)
        worker = self.worker_at(standby, join=False)
        # While another session has the lock, the index cannot be read. It has it before the other daemon could begin to read.
        command = [programs() / "psql", "-qAtX", "-h", self.server.folder, "-U", "locksley", "-d", "postgres"]
        lock = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.addCleanup(lock.stdout.close)
        self.addCleanup(lock.wait)
        self.addCleanup(lock.stdin.close)
        self.addCleanup(lock.kill)
        lock.stdin.write(f"begin; lock table {self.schema}.locksley_index in access exclusive mode; select 'locked';\n")
        lock.stdin.flush()
        self.assertEqual(lock.stdout.readline(), "locked\n")
        active.process.kill()
        active.wait_end()
        wait_for("the other to take over", lambda: str(waiting.ask("LIST")).startswith("LOADING"))
        self.assertEqual(self.info(waiting, "persistence")["loading"], "1")
        self.assertEqual(self.info(waiting)["role"], "slave")
        self.assert_error("LOADING", worker.ask(*JOIN))
        self.assertIn("loading:1", worker("INFO"))
        self.assertEqual(standby.get("/readyz"), (503, "takes over: reads the batches\n"))
        self.assertEqual(standby.get("/healthz"), (200, "ok\n"))
        self.assertEqual(standby.metrics()["locksley_cluster_fenced_total"], 1)
        standby.send_signal(signal.SIGTERM)
        lock.stdin.write("rollback;\n")
        lock.stdin.flush()
        self.assertEqual(standby.wait_end(), 0, standby.log())
        self.assertEqual(self.query("select count(*) from locksley_shard where owner is not null"), "0", "it gave the batches up")

    def test_jobs_on_worker_machines_outlive_the_daemon_that_leased_them(self):
        """A machine that knows one address and learns the other, and a program that knows both and asks the standby first."""
        settings = merged(REMOTE, {"workers": {"reclaim": "30s"}, "handlers": {"sh": {"remote": True}, "py": {"remote": True}}})
        active, standby = self.start_pair(settings)
        connection = self.connect(active)
        wait_for("the active one to see the other", lambda: len(self.nodes(connection)) == 2)
        first, second = (f"127.0.0.1:{port_for_workers(daemon)}" for daemon in (active, standby))
        machine = Daemon({"upstream": {"url": f"redis://{first}", "name": "machine"}, "handlers": {"sh": shell(concurrency=2)}})
        self.addCleanup(DaemonTest._end, self, machine)
        command = ["work", "py", "--url", f"redis://{second},{first}", "--name", "program", "--slots", "2", "--", *worker()["worker"]]
        program_of_py = subprocess.Popen([program("LOCKSLEY"), *command], stderr=subprocess.DEVNULL, preexec_fn=end_with_parent)
        self.addCleanup(program_of_py.wait)
        self.addCleanup(program_of_py.kill)

        # Each begins a line, and ends when the test says so: the first two while no daemon serves, the others later.
        folder = scratch(self)
        begun, go = folder / "begun", [folder / "go-0", folder / "go-1"]
        in_shell = [f"echo sh-$LOCKSLEY_INDEX >> {begun}; until [ -e {each} ]; do sleep 0.05; done; printf done" for each in go]
        in_python = [
            f"open({str(begun)!r}, 'a').write(f'py-{{index}}\\n')\nwhile not os.path.exists({str(each)!r}): time.sleep(0.05)\nanswer('done')" for each in go
        ]
        connection("SUBMIT", "sh", "ID", "sh", "JOBS", *in_shell)
        connection("SUBMIT", "py", "ID", "py", "JOBS", *in_python)
        wait_for("all to run", lambda: begun.exists() and len(begun.read_text().splitlines()) == 4)
        active.process.kill()
        active.wait_end()
        go[0].touch()
        standby.wait_active()
        connection = self.connect(standby)
        wait_for("the first results", lambda: [connection.status(batch)["ok"] for batch in ("sh", "py")] == [1, 1])
        go[1].touch()
        for batch in ("sh", "py"):
            status = connection.wait(batch)
            self.assertEqual((status["jobs"], status["ok"], status["failed"]), (2, 2, 0))
            self.assertEqual(sorted(connection.results(batch)), [[0, "ok", "done"], [1, "ok", "done"]])
        self.assertEqual(sorted(begun.read_text().split()), ["py-0", "py-1", "sh-0", "sh-1"], "each began once")
        wait_for("the metrics to show it", lambda: standby.metrics()["locksley_remote_reclaimed_jobs_total"] >= 4)
        self.assertEqual(machine.metrics()['locksley_upstream_lost_leases_total{lane="processes"}'], 0)

    def test_a_third_one_goes_on_standing_by(self):
        active, standby = self.start_pair()
        third = self.start()
        active.send_signal(signal.SIGTERM)
        either = {standby.address: (standby, third), third.address: (third, standby)}
        follower, other = wait_for("one of the two to serve", lambda: either.get(self.query("select wire from locksley_node where alive")))
        follower.wait_active()
        connection = self.connect(other)
        wait_for("the new address", lambda: connection.ask("LIST") == f"READONLY the active daemon is {follower.address}")


class Ends(StandbyTest):
    def test_a_signal_ends_it_with_0_and_its_row_goes(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            active, standby = self.start_pair() if number == signal.SIGTERM else (active, self.start())
            connection = self.connect(standby)
            self.assertEqual(connection("PING"), "PONG")
            standby.send_signal(number)
            self.assertEqual(standby.wait_end(), 0, standby.log())
            self.assertEqual(self.query("select count(*) from locksley_node"), "1")
        self.assertEqual(self.connect(active)("PING"), "PONG")

    def test_a_hangup_is_kept_until_it_is_active(self):
        active, standby = self.start_pair()
        standby.configure(merged(self.settings, {"limits": {"open_timeout": "7h"}}))
        standby.send_signal(signal.SIGHUP)
        standby.wait_for_log("read again once this daemon is active")
        self.assert_error("READONLY", self.connect(standby).ask("LIST"))
        active.send_signal(signal.SIGTERM)
        standby.wait_active()
        connection = self.connect(standby)
        wait_for("the other configuration", lambda: connection("CONFIG", "GET", "limits.open_timeout") == ["limits.open_timeout", "7h"])

    def test_it_survives_the_death_of_the_database(self):
        active, standby = self.start_pair()
        self.server.kill()
        try:
            wait_for("it to notice", lambda: "the database cannot be reached" in standby.get("/readyz")[1])
        finally:
            self.server.start()
        wait_for("it to stand by again", lambda: standby.get("/readyz")[1].startswith("stands by: the active daemon is "))
        active.send_signal(signal.SIGTERM)
        standby.wait_active()


if __name__ == "__main__":
    unittest.main()
