#!/usr/bin/python3
"""The keys of the configuration, one by one: what SIGHUP changes is in force at once; CONFIG GET, SET and RELOAD."""

import pathlib
import shutil
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import wait_for
from programs import shell
from reloading import ReloadTest
from scratch import scratch


class Keys(ReloadTest):
    LIVE = {
        "pool.workers": "3", "scheduling.quantum": "2ms", "limits.max_clients": "9", "limits.max_batch_jobs": "7", "limits.max_payload": "10",
        "limits.max_command": "10KiB", "limits.max_queued_jobs": "8", "limits.max_queued_bytes": "20KiB", "limits.idle_timeout": "1h", "limits.login_timeout": "2s",
        "limits.open_timeout": "2h", "limits.output_buffer": "2KiB", "limits.client_memory": "1GiB", "store.retention": "3h", "store.max_bytes": "1GiB", "metrics.deepest_batches": "2", "metrics.tenants": "0",
        "log.level": "debug", "log.format": "json", "log.audit": "false", "shutdown.drain_timeout": "5s",
    }  # fmt: skip

    def test_each_live_key_is_in_force_at_once(self):
        connection = self.serve({})
        old = self.connect(self.daemon)
        self.assertEqual(old("PING"), "PONG")
        sections = {}
        for key, value in self.LIVE.items():
            section, name = key.split(".")
            sections.setdefault(section, {})[name] = int(value) if value.isdigit() else value
        self.reload({}, **{**sections, "store": {"path": "", **sections["store"]}})
        self.assertNotRegex(self.daemon.log(), "needs a restart")
        shown = connection.map("CONFIG", "GET", "*.*")
        self.assertEqual({key: shown[key] for key in self.LIVE}, self.LIVE)
        self.assert_error("TOOBIG .*limits.max_batch_jobs", connection.ask("SUBMIT", "echo", "RANGE", 0, 8))
        self.assert_error("TOOBIG .*limits.max_payload", old.ask("SUBMIT", "echo", "JOBS", "x" * 11))
        held = connection("SUBMIT", "sleep", "SLOTS", 1, "JOBS", *["60000"] * 5)
        self.assert_error("QUEUEFULL limits.max_queued_jobs", connection.ask("SUBMIT", "echo", "RANGE", 0, 4))
        connection("CANCEL", held)
        wait_for("a third worker", lambda: len(connection("WORKERS")) == 3)
        self.assertIn('locksley_batch_queue_depth{lane="cpu",rank="2"}', self.daemon.metrics())
        self.assertNotIn('locksley_batch_queue_depth{lane="cpu",rank="3"}', self.daemon.metrics())
        self.assertIn('locksley_tenant_queued_jobs{tenant="other"}', self.daemon.metrics())
        self.assertRegex(self.daemon.log(), r'\{"time":.*configuration read again')
        self.assert_error("ERR Protocol error: too big command", old.ask("PING", "x" * 20_000))
        wait_for("its connection to be gone", lambda: self.daemon.metrics()["locksley_connections"] == 1)
        more = [self.connect(self.daemon) for _ in range(8)]
        self.assertEqual(more[-2]("PING"), "PONG")
        refused = self.connect(self.daemon)
        self.assertRegex(str(refused.read()), "max number of clients")

    def test_metrics_show_the_limits_that_are_in_force(self):
        folder = scratch(self)
        connection = self.serve({}, store={"path": str(folder)})
        names = ("locksley_max_clients", "locksley_max_queued_jobs", "locksley_max_queued_bytes", "locksley_store_max_bytes")

        def limits():
            metrics = self.daemon.metrics()
            return tuple(metrics[name] for name in names)

        _, _, queued, stored = limits()
        self.assertEqual(limits()[:2], (10_000, 100_000_000))
        self.assertTrue(64 << 20 <= queued <= 8 << 30 and stored > 0, "auto follows from the machine")
        values = ("limits.max_clients", 9, "limits.max_queued_jobs", 8, "limits.max_queued_bytes", "20KiB", "store.max_bytes", "1GiB")
        self.assertEqual(connection("CONFIG", "SET", *values, "limits.max_payload", "10KiB", "limits.max_batch_jobs", 8), "OK")
        self.assertEqual(limits(), (9, 8, 20 << 10, 1 << 30))
        self.reload({}, limits={"max_clients": 77}, store={"path": str(folder), "max_bytes": "3GiB"})
        self.assertEqual(limits(), (77, 100_000_000, queued, 3 << 30))
        metrics = self.daemon.metrics()
        found = shutil.disk_usage(folder)
        self.assertEqual(metrics["locksley_store_disk_size_bytes"], found.total)
        # Others write and delete meanwhile.
        self.assertAlmostEqual(metrics["locksley_store_disk_free_bytes"], found.free, delta=found.total / 4)

    def test_without_a_store_there_is_no_limit_of_it(self):
        self.serve({})
        self.assertEqual([name for name in self.daemon.metrics() if name.startswith("locksley_store_")], [])

    def test_silence_is_counted_from_the_change(self):
        connection = self.serve({})
        self.assertEqual(connection("PING"), "PONG")
        time.sleep(0.2)
        began = time.monotonic()
        self.reload({}, limits={"idle_timeout": "300ms"})
        connection.read_until_closed()
        self.assertGreater(time.monotonic() - began, 0.29)


class Config(ReloadTest):
    def test_get_shows_every_key_as_the_file_has_it(self):
        connection = self.serve({"lines": {"command": ["wc", "-l"], "concurrency": 4, "rate": "20/s", "environment": ["A=b c"]}}, limits={"max_payload": "1MiB"})
        shown = connection.map("CONFIG", "GET", "*")
        for key, value in {"limits.max_payload": "1MiB", "handlers.lines.command": '[wc, "-l"]', "handlers.lines.rate": "20/s", "handlers.lines.environment": '["A=b c"]',
                           "handlers.lines.grace": "5s", "store.path": '""', "log.level": "info", "users": "{}", "save": "", "appendonly": "no", "maxclients": "10000"}.items():  # fmt: skip
            self.assertEqual(shown[key], value, key)
        self.assertEqual(connection.map("CONFIG", "GET", "HANDLERS.LINES.R*", "log.*"), {"handlers.lines.rate": "20/s", "handlers.lines.retries": "0", "handlers.lines.remote": "false", "log.level": "info", "log.format": "text", "log.audit": "true"})

    def test_set_is_in_force_until_the_file_is_read_again(self):
        connection = self.serve({"sh": shell()})
        self.assertEqual(connection("CONFIG", "SET", "limits.max_payload", "10B", "handlers.sh.concurrency", 3), "OK")
        self.assert_error("TOOBIG", connection.ask("SUBMIT", "echo", "JOBS", "x" * 11))
        self.assertEqual(connection.map("CONFIG", "GET", "handlers.sh.concurrency"), {"handlers.sh.concurrency": "3"})
        batch = connection("SUBMIT", "sh", "JOBS", *["sleep 1000"] * 3)
        self.wait_running(connection, batch, 3)
        connection("CANCEL", batch)
        self.assertRegex(self.daemon.log(), r"configuration changed key=limits\.max_payload\n.*configuration changed key=handlers\.sh\n")
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection.map("CONFIG", "GET", "handlers.sh.concurrency", "limits.max_payload"), {"handlers.sh.concurrency": "1", "limits.max_payload": "64MiB"})

    def test_set_is_all_or_nothing_and_says_why(self):
        connection = self.serve({"sh": shell()})
        before = connection.map("CONFIG", "GET", "*")
        for why, *values in (
            (r"limits\.max_clients: expected a whole number from 1 to 1000000, found \"x\"", "limits.max_batch_jobs", 5, "limits.max_clients", "x"),
            (r"limits\.max_client: unknown key; did you mean \"max_clients\"", "limits.max_batch_jobs", 5, "limits.max_client", 5),
            (r"limit\.max_clients: there is no such key; did you mean \"limits\.max_clients\"", "limit.max_clients", 5),
            (r"listen\.port: needs a restart", "limits.max_batch_jobs", 5, "listen.port", 7),
            (r"limits\.max_batch_jobs: given twice", "limits.max_batch_jobs", 5, "limits.max_batch_jobs", 6),
            (r"handlers\.sh\.command: the file alone says which programs run", "handlers.sh.command", "[bash, -c, '{}']"),
            (r"handlers\.new: the file alone says", "handlers.new", "{command: [sh]}"),
            (r"users\.a: the file alone says", "users", "{a: {password_hash: '$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA'}}"),
            (r"limits\.max_payload: expected at most limits\.max_command", "limits.max_payload", "1GiB", "limits.max_command", "1MiB"),
            (r"scheduling\.quantum: expected a duration from 10us to 1s, found a mapping", "scheduling.quantum", "{a: b}"),
            (r"scheduling\.quantum: not valid YAML", "scheduling.quantum", "[1"),
            (r"limits\.max_payload: anchors", "limits.max_payload", "&a 1MiB"),
        ):  # fmt: skip
            with self.subTest(why):
                self.assertRegex(connection.ask("CONFIG", "SET", *values), "^ERR nothing was changed: .*(" + why + ")")
                self.assertEqual(connection.map("CONFIG", "GET", "*"), before)
        self.assert_error("ERR wrong number of arguments for 'config.set' command", connection.ask("CONFIG", "SET", "limits.max_clients", 5, "log.level"))
        self.assertEqual(connection("CONFIG", "SET", "listen.port", 0), "OK")  # as it is

    def test_set_takes_4_kib_of_keys_and_values(self):
        """The reader of YAML would read megabytes on the I/O thread."""
        connection = self.serve({"sh": shell()})
        key, bytes_of_all = "limits.max_clients", 4 * 1024
        self.assertEqual(connection("CONFIG", "SET", key, "77".ljust(bytes_of_all - len(key))), "OK")
        self.assertEqual(connection.map("CONFIG", "GET", key), {key: "77"})
        why = "ERR CONFIG SET takes keys and values of at most 4096 bytes together"
        self.assertEqual(str(connection.ask("CONFIG", "SET", key, "78".ljust(bytes_of_all - len(key) + 1))), why)
        many = [word for i in range(90) for word in (f"k{i}", "v" * 64_000)]
        self.assertEqual(str(connection.ask("CONFIG", "SET", key, "78", *many)), why)
        self.assertEqual(connection.map("CONFIG", "GET", key), {key: "77"})

    def test_reload_without_a_file_says_so(self):
        connection = self.serve({})
        self.daemon.config_path.unlink()
        self.assertRegex(connection.ask("CONFIG", "RELOAD"), "^ERR nothing was changed: .*cannot be opened")


if __name__ == "__main__":
    unittest.main()
