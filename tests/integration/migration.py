#!/usr/bin/python3
"""A store moves from its folder to a PostgreSQL server, and back to another folder: interrupted on the way, with batches in every state, and
all that a client can see of them is the same afterwards."""

import json
import os
import pathlib
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DEFAULTS, end_with_parent, merged, program, wait_for
from postgres_server import PostgresServer, programs
from resp import pairs
from store_daemon import HOUR_MS, StoreTest, at_store, run_daemon

OK, USAGE, DATA_ERROR, UNAVAILABLE, STORE, CONFIG, INTERRUPTED = 0, 2, 65, 69, 72, 78, 130
LARGE = 300_000


class Migrating:
    """locksleyd --migrate-to, under way."""

    def __init__(self, config, target):
        self.folder = tempfile.TemporaryDirectory(prefix="locksley-test-")
        self.log_path = pathlib.Path(self.folder.name) / "log"
        path = pathlib.Path(self.folder.name) / "locksley.yaml"
        path.write_text(json.dumps(merged(DEFAULTS, config)))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [program("LOCKSLEYD"), "--config", path, "--migrate-to", target],
                stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent,
            )

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, pattern):
        wait_for(f"{pattern!r} in the log of the migration", lambda: re.search(pattern, self.log()))

    def wait_end(self):
        code = self.process.wait(DEADLINE_S)
        log = self.log()
        self.folder.cleanup()
        return code, log


class Migration(StoreTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = PostgresServer()
        cls.addClassCleanup(cls.server.close)

    def database(self):
        return self.server.settings(), self.server.url

    def lock(self, table, mode):
        """Holds a lock on a table of the database, until the returned function is called."""
        command = [programs() / "psql", "-qAtX", "-h", self.server.folder, "-U", "locksley", "-d", "postgres"]
        psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=end_with_parent)
        self.addCleanup(psql.stdout.close)
        psql.stdin.write(f"begin; lock table {table} in {mode} mode; select 'locked';\n")
        psql.stdin.flush()
        self.assertEqual(psql.stdout.readline().strip(), "locked")

        def release():
            psql.stdin.close()  # psql ends, and so its transaction
            psql.wait(DEADLINE_S)

        return release

    def wait_for_blocked(self):
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        wait_for("the migration to wait for the lock", lambda: self.server.query(waiting) != "0")

    # What is in the store.

    def submit_all(self):
        command = self.command
        command("CUSTOMER", "SET", "shop", "WEIGHT", 7, "SLOTS", 3)
        command("SUBMIT", "echo", "ID", "done", "FOR", "shop", "RANGE", 0, 3000)
        command("SUBMIT", "fail", "ID", "failed", "JOBS", *[f"f{i}" for i in range(1500)])
        command("SUBMIT", "echo", "ID", "large", "JOBS", *[str(i) * LARGE for i in range(8)])
        command("SUBMIT", "echo", "ID", "small", "JOBS", "x")
        command("SUBMIT", "echo", "ID", "discarded", "JOBS", *[f"d{i}" for i in range(2000)])
        command("OPEN", "echo", "ID", "open")
        command("ADD", "open", *[f"o{i}" for i in range(100)])
        for name in ("done", "failed", "large", "small", "discarded"):
            command.wait(name)
        command("RESULTS", "discarded", "FROM", 700, "COUNT", 1, "DISCARD")
        wait_for("the stream's jobs to end", lambda: self.status("open")["ok"] == 100)
        # It has the only worker, so what comes after it is queued.
        command("SUBMIT", "sleep", "ID", "runs", "JOBS", HOUR_MS)
        wait_for("the job to run", lambda: self.status("runs")["running"] == 1)
        command("SUBMIT", "echo", "ID", "queued", "JOBS", *[f"q{i}" for i in range(2000)])
        command("SUBMIT", "echo", "ID", "paused", "JOBS", "p0", "p1")
        command("PAUSE", "paused")

    def ledger(self, *batches):
        """All that is to be seen of these batches, and of customers."""
        seen = {}
        for name in batches:
            status = self.status(name)
            read = self.command.results if status["finished_at"] else self.command.results_so_far
            seen[name] = (status, read(name))
        seen["customers"] = [{key: row[key] for key in ("customer", "weight", "slots")} for row in map(pairs, self.command("CUSTOMER", "LIST")[1])]
        return seen

    # Steps.

    def migrate(self, settings, target):
        return run_daemon(self.store, settings, ["--migrate-to", str(target)])

    def assert_refused(self, ended, code, *words):
        self.assertEqual(ended.returncode, code, ended)
        for word in words:
            self.assertIn(word, ended.stderr)

    def test_there_and_back(self):
        settled = ("done", "failed", "large", "small", "discarded")
        postgresql, url = self.database()
        self.begin()
        self.assert_refused(self.migrate(self.settings, url), UNAVAILABLE, "in use by another daemon")
        self.submit_all()
        before = self.ledger(*settled)
        self.kill()

        # The tables, so that one can be locked: the copy then stops in its middle.
        self.assert_refused(run_daemon(self.store, merged(self.settings, postgresql), ["--undo-migration"]), UNAVAILABLE, "nothing to undo")
        release = self.lock("locksley_index", "exclusive")
        migrating = Migrating(at_store(self.store, self.settings), url)
        self.wait_for_blocked()
        migrating.process.kill()
        migrating.wait_end()
        release()
        self.assertGreater(int(self.server.query("select sum(length(value)) from locksley_result")), 8 * LARGE, "results had been copied")
        refused = run_daemon(self.store, merged(self.settings, postgresql))
        self.assert_refused(refused, STORE, f"unfinished copy of {self.store}", "--migrate-to")
        finished = self.migrate(self.settings, url)
        self.assertEqual(finished.returncode, OK, finished)
        self.assertIn("migration: goes on", finished.stderr)
        self.assertRegex(finished.stdout, r"engine: postgresql")
        again = self.migrate(self.settings, url)
        self.assertEqual(again.returncode, OK, again)
        self.assert_refused(run_daemon(self.store, self.settings), STORE, "was migrated to postgresql://", "--undo-migration")

        self.begin(postgresql)
        self.assertEqual(self.ledger(*settled), before)
        self.assertIn(self.status("runs")["state"], ("queued", "running"))
        self.command("CANCEL", "runs")
        self.assertEqual(self.command.wait("runs")["cancelled"], 1)
        self.assert_whole("queued", [["ok", f"q{i}"] for i in range(2000)])
        self.assertEqual(self.command.explain("paused")["reason"], "paused")
        self.assertEqual(self.command("ADD", "open", "more"), 101)
        wait_for("the stream's job to end", lambda: self.status("open")["ok"] == 101)
        settled = (*settled, "queued", "runs", "paused", "open")
        before = self.ledger(*settled)
        self.stop()

        with tempfile.TemporaryDirectory(prefix="locksley-store-") as folder:
            back = pathlib.Path(folder) / "back"
            settings = merged(self.settings, postgresql)
            release = self.lock("locksley_index", "access exclusive")
            migrating = Migrating(at_store(self.store, settings), back)
            self.wait_for_blocked()
            migrating.process.send_signal(signal.SIGINT)
            migrating.wait_for_log("stops")
            release()
            code, log = migrating.wait_end()
            self.assertEqual(code, INTERRUPTED, log)
            self.assertIn("run the same command again", log)
            finished = self.migrate(settings, back)
            self.assertEqual(finished.returncode, OK, finished)
            self.assertIn(f"path: {back}", finished.stdout)
            self.assert_refused(run_daemon(self.store, settings), STORE, f"was migrated to {back}")

            self.begin({"store": {"path": str(back)}})
            self.assertEqual(self.ledger(*settled), before)
            self.command("CLOSE", "open")
            self.assert_whole("open", [["ok", f"o{i}"] for i in range(100)] + [["ok", "more"]])
            self.command("RESUME", "paused")
            self.assert_whole("paused", [["ok", "p0"], ["ok", "p1"]])
            self.kill()

            undone = run_daemon(self.store, self.settings, ["--undo-migration"])
            self.assertEqual(undone.returncode, OK, undone)
            self.begin()
            self.assertEqual(self.status("large")["ok"], 8)

    def test_what_cannot_be_migrated_is_said(self):
        somewhere = self.store / "new"
        for target in ("relative/folder", "", "rediss://x"):
            self.assert_refused(self.migrate(self.settings, target), USAGE, "--migrate-to: expected postgresql://")
        self.assert_refused(self.migrate(self.settings, self.store), USAGE, "the configuration itself")
        self.assert_refused(self.migrate(merged(self.settings, {"store": {"path": str(self.store / "none")}}), somewhere), UNAVAILABLE, "no store in")
        no_store = run_daemon("", self.settings, ["--migrate-to", str(somewhere)])
        self.assert_refused(no_store, CONFIG, "store.path is empty")
        self.assert_refused(self.migrate(self.settings, "postgresql://u:geheim@127.0.0.1:1/x"), UNAVAILABLE, "cannot use the database")
        both = run_daemon(self.store, self.settings, ["--migrate-to", str(somewhere), "--undo-migration"])
        self.assertEqual(both.returncode, USAGE, both)
        self.begin()
        self.stop()
        if os.geteuid() == 0:  # only root could make files that the daemon cannot open
            nobody = pwd.getpwnam("nobody")
            os.chown(self.store, nobody.pw_uid, nobody.pw_gid)
            self.assert_refused(self.migrate(self.settings, somewhere), UNAVAILABLE, "belongs to nobody", "runuser -u nobody")
            os.chown(self.store, 0, 0)
        with tempfile.TemporaryDirectory(prefix="locksley-store-") as other:
            self.assertEqual(self.migrate(self.settings, other).returncode, OK, "a folder that is empty")


if __name__ == "__main__":
    unittest.main()
