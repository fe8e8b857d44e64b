#!/usr/bin/python3
"""BACKUP: copies of the store that are made while the daemon serves, and daemons that start from them."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import program, wait_for
from small_disk import SmallDisk
from store_daemon import StoreTest


class Submitter(threading.Thread):
    """A client that submits, and reads all results of each batch before the next. `ledger`: from id to results, of batches whose results it
    has read; `accepted`: from id to payloads, of those that were acknowledged."""

    def __init__(self, daemon, number, stop):
        super().__init__()
        self.connection = daemon.connect()
        self.number, self.stop = number, stop
        self.ledger, self.accepted, self.problem = {}, {}, None

    def run(self):
        try:
            for turn in range(10**6):
                if self.stop.is_set():
                    return
                payloads = [f"{self.number}.{turn}.{i}." + "x" * (turn % 7 * 300) for i in range(1 + turn % 5)]
                batch = self.connection("SUBMIT", "echo", "JOBS", *payloads)
                self.accepted[batch] = payloads
                self.connection.wait(batch)
                self.ledger[batch] = sorted(self.connection.results(batch))
        except Exception as problem:  # for the test's thread
            self.problem = problem
        finally:
            self.connection.close()


class BackupTest(StoreTest):
    settings = {"pool": {"workers": 2}}

    def setUp(self):
        super().setUp()
        self.backups = pathlib.Path(tempfile.mkdtemp(prefix="locksley-backups-"))
        self.addCleanup(shutil.rmtree, self.backups, ignore_errors=True)

    def begin(self, settings=None):
        return super().begin({"store": {"backup_directory": str(self.backups)}} | (settings or {}))

    def begin_on_copy(self, name):
        """The daemon of the test, and its connection, are from now on those of the copy."""
        self.store = self.backups / name
        return super().begin({})

    def assert_copy_has(self, connection, ledger, accepted):
        for batch, rows in ledger.items():
            self.assertEqual(sorted(connection.results(batch)), rows, batch)
        for batch, payloads in accepted.items():
            connection.wait(batch)
            self.assertEqual(sorted(connection.results(batch)), [[i, "ok", payload] for i, payload in enumerate(payloads)], batch)


class UnderLoad(BackupTest):
    def test_what_was_acknowledged_before_is_in_the_copy_and_the_daemon_goes_on(self):
        original = self.begin()
        streamed = original("OPEN", "echo")
        original("ADD", streamed, "a", "b" * 200_000)
        wait_for("its results to be there for a client to read", lambda: len(original.results_so_far(streamed)) == 2)
        held = original("SUBMIT", "echo", "DELAY", 3_600_000, "JOBS", "later")
        stop = threading.Event()
        submitters = [Submitter(self.daemon, number, stop) for number in range(3)]
        for submitter in submitters:
            submitter.start()
        copies = {}
        for name in ("first", "second"):
            goal = sum(len(each.ledger) for each in submitters) + 100
            wait_for("batches to end", lambda: sum(len(each.ledger) for each in submitters) >= goal or any(each.problem for each in submitters))
            seen = [(dict(each.ledger), dict(each.accepted)) for each in submitters]  # before BACKUP is sent
            self.assertEqual(original("BACKUP", name), str(self.backups / name))
            copies[name] = seen
        before = sum(len(each.accepted) for each in submitters)
        wait_for("more batches", lambda: sum(len(each.accepted) for each in submitters) > before or any(each.problem for each in submitters))
        stop.set()
        for submitter in submitters:
            submitter.join()
            self.assertIsNone(submitter.problem)
        for each in submitters:
            self.assert_copy_has(original, each.ledger, each.accepted)
        daemon = self.daemon
        for name, seen in copies.items():
            copy = self.begin_on_copy(name)
            for ledger, accepted in seen:
                self.assert_copy_has(copy, ledger, accepted)
            self.assertEqual(sorted(copy.results_so_far(streamed)), [[0, "ok", "a"], [1, "ok", "b" * 200_000]])
            self.assertEqual(copy.status(held)["queued"], 1)
            self.kill()
        self.assertIsNone(daemon.process.poll(), "the first daemon serves all the while")
        self.assertEqual(original.status(held)["jobs"], 1)

    def test_jobs_that_have_not_ended_run_from_the_copy_as_well(self):
        original = self.begin({"pool": {"workers": 1}})
        self.take_worker()
        waiting = original("SUBMIT", "echo", "JOBS", "a", "b", "c")
        original("BACKUP", "now")
        original("CANCEL", waiting)
        copy = self.begin_on_copy("now")
        copy.wait(waiting)
        self.assertEqual(sorted(copy.results(waiting)), [[0, "ok", "a"], [1, "ok", "b"], [2, "ok", "c"]])


class Refused(BackupTest):
    def test_without_a_directory_or_a_store_and_by_names_that_leave_it(self):
        without = StoreTest.begin(self)
        self.assertIn("store.backup_directory is not set", str(without.ask("BACKUP", "one")))
        self.assert_error("ERR", without.ask("CONFIG", "SET", "store.backup_directory", str(self.backups)))
        self.stop()
        command = self.begin()
        for name in ("", ".", "..", ".hidden", "../one", "a/b", "/tmp/one"):
            self.assertIn("takes the name of a new folder", str(command.ask("BACKUP", name)), name)
        self.assertEqual(command("BACKUP", "one"), str(self.backups / "one"))
        self.assertIn("exists already", str(command.ask("BACKUP", "one")))
        self.assertEqual(os.listdir(self.backups), ["one"])
        in_memory = StoreTest.begin(self, {"store": {"path": ""}})
        self.assertIn("there is no store", str(in_memory.ask("BACKUP", "one")))

    def test_the_directory_may_be_set_by_a_reload(self):
        command = StoreTest.begin(self)
        settings = {"store": {"path": str(self.store), "backup_directory": str(self.backups)}}
        self.daemon.configure(settings | self.settings)
        self.assertEqual(command("CONFIG", "RELOAD"), "OK")
        self.assertEqual(command("BACKUP", "one"), str(self.backups / "one"))

    def test_in_a_transaction(self):
        command = self.begin()
        command("MULTI")
        self.assertIn("not allowed inside a transaction: 'backup'", str(command.ask("BACKUP", "one")))


class Seen(BackupTest):
    def test_the_log_the_metrics_and_the_command_line_tell_of_it(self):
        self.begin({"log": {"format": "json"}})
        arguments = [program("LOCKSLEY"), "--server", f"127.0.0.1:{self.daemon.port}"]
        said = subprocess.run([*arguments, "backup", "one"], capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, f"{self.backups}/one\n")
        said = subprocess.run([*arguments, "--json", "backup", "two"], capture_output=True, text=True, check=True)
        self.assertEqual(json.loads(said.stdout), {"folder": f"{self.backups}/two"})
        refused = subprocess.run([*arguments, "backup", "two"], capture_output=True, text=True, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (65, ""))
        self.assertIn("exists already", refused.stderr)
        lines = [json.loads(line) for line in self.daemon.log().splitlines()]
        audited = [(line["command"], line["backup"], line["outcome"]) for line in lines if line["message"] == "audit"]
        self.assertEqual(audited, [("BACKUP", "one", "ok"), ("BACKUP", "two", "ok"), ("BACKUP", "two", "ERR")])
        self.assertEqual([line["folder"] for line in lines if line["message"] == "store: backup made"], [f"{self.backups}/{name}" for name in ("one", "two")])
        metrics = self.daemon.metrics()
        self.assertEqual(metrics['locksley_store_backups_total{outcome="made"}'], 2)
        self.assertEqual(metrics['locksley_store_backups_total{outcome="failed"}'], 0)
        self.assertGreater(metrics["locksley_store_last_backup_timestamp_seconds"], 1_700_000_000)


class Faults(BackupTest):
    def test_a_full_disk_fails_the_backup_alone(self):
        disk = SmallDisk(self, self.backups, size="3m")
        command = self.begin()
        batches = [command("SUBMIT", "echo", "JOBS", *[f"{batch}.{i}." + "x" * 100_000 for i in range(10)]) for batch in range(6)]
        for batch in batches:
            command.wait(batch)
        reply = command.ask("BACKUP", "one")
        self.assert_error("STORE", reply)
        self.assertIn("No space left", str(reply))
        self.assertEqual(os.listdir(self.backups), [])
        self.assertEqual(self.daemon.metrics()['locksley_store_backups_total{outcome="failed"}'], 1)
        command("SUBMIT", "echo", "ID", "after", "JOBS", "a")
        self.assertEqual(self.daemon.get("/readyz")[0], 200)
        disk.resize("256m")
        command("BACKUP", "one")
        self.kill()
        self.store = self.backups / "one"
        copy = StoreTest.begin(self)
        for number, batch in enumerate(batches):
            copy.wait(batch)
            self.assertEqual(sorted(copy.results(batch)), [[i, "ok", f"{number}.{i}." + "x" * 100_000] for i in range(10)])
        copy.wait("after")
        self.kill()  # before the disk goes

    def test_a_backup_that_a_kill_cut_off_has_no_name_and_the_next_removes_it(self):
        SmallDisk(self, self.backups, size="512m")  # another file system, so the copy takes time
        command = self.begin()
        for batch in range(8):
            command.wait(command("SUBMIT", "echo", "JOBS", *[f"{batch}.{i}." + "x" * 100_000 for i in range(40)]))
        command.send(b"BACKUP one\r\n")
        wait_for("the copy to begin", lambda: bool(os.listdir(self.backups)))
        self.kill()
        # Killed before it had its name, or after: it is whole, or has none.
        left = set(os.listdir(self.backups))
        self.assertIn(left, [{".unfinished-backup"}, {"one"}])
        command = self.begin()
        command("BACKUP", "two")
        self.assertEqual(set(os.listdir(self.backups)), (left - {".unfinished-backup"}) | {"two"})
        self.kill()
        for name in left - {".unfinished-backup"} | {"two"}:
            copy = self.begin_on_copy(name)
            self.assertEqual(len(copy.listed()), 8)
            self.kill()


if __name__ == "__main__":
    unittest.main()
