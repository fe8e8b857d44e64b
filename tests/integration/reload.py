#!/usr/bin/python3
"""SIGHUP: handlers come, change and go while jobs run, and a file that is wrong changes nothing. LOCKSLEY_BUILD names the build directory,
which has the plugins."""

import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, end_with_parent, program, wait_for
from programs import marked, new_mark, shell, worker
from reloading import ReloadTest
from resp import Error
from scratch import scratch
from store_daemon import StoreDaemon

PLUGINS = pathlib.Path(os.environ["LOCKSLEY_BUILD"], "plugins")
C_PLUGIN = str(PLUGINS / "in_c.so")


class StartAndEnd(DaemonTest):
    def test_a_hangup_during_the_start_has_the_file_read_again_and_ends_nothing(self):
        fifo = scratch(self) / "locksley.yaml"
        os.mkfifo(fifo)

        def give(settings):
            """To the daemon, which waits for it."""
            descriptor = wait_for("the daemon to open its configuration", lambda: opened(fifo))
            between()
            os.set_blocking(descriptor, True)
            os.write(descriptor, settings)
            os.close(descriptor)

        def opened(path):
            try:
                return os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:
                self.assertEqual(error.errno, errno.ENXIO)
                return None

        log = (scratch(self) / "log").open("w+b")
        self.addCleanup(log.close)
        daemon = subprocess.Popen([program("LOCKSLEYD"), "--config", fifo], stdout=subprocess.PIPE, stderr=log, preexec_fn=end_with_parent)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        settings = b"{listen: {port: 0}, http: {port: 0}, store: {path: ''}, limits: {max_clients: %d}}"
        between = lambda: daemon.send_signal(signal.SIGHUP)
        give(settings % 10)
        self.assertRegex(daemon.stdout.readline(), b"^ready ")
        between = lambda: None
        give(settings % 11)
        read = lambda: pathlib.Path(log.name).read_text()
        wait_for("the second file to be in force", lambda: "configuration changed key=limits.max_clients" in read())
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(DEADLINE_S), 0, read())

    def test_a_hangup_at_the_end_changes_nothing(self):
        daemon = self.start({"store": {"path": str(scratch(self) / "store")}})
        with daemon.connect() as connection:
            connection("SUBMIT", "sleep", "JOBS", 60_000)
            wait_for("the job to run", lambda: connection("RUNNING"))
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_for_log("draining")  # the next one is another one, then, and not the same
        daemon.send_signal(signal.SIGTERM)
        while daemon.process.poll() is None:  # for two seconds, the most that a job in the pool has
            daemon.send_signal(signal.SIGHUP)
            time.sleep(0.02)
        self.assertEqual(daemon.wait_end(), 143, daemon.log())


class Added(ReloadTest):
    def test_handlers_of_each_kind_come_and_are_seen(self):
        connection = self.serve({})
        self.assert_error("NOHANDLER", connection.ask("SUBMIT", "sh", "JOBS", "echo a"))
        self.reload({"sh": shell(), "py": worker(concurrency=2), "c": {"plugin": C_PLUGIN}, "i": {"plugin": C_PLUGIN, "isolate": True}})
        self.assertEqual(connection("RUN", "sh", "JOBS", "echo a"), [["ok", "a\n"]])
        self.assertEqual(connection("RUN", "py", "JOBS", "answer(1)"), [["ok", "1"]])
        self.assertEqual(connection("RUN", "c", "JOBS", "echo b"), [["ok", "b"]])
        self.assertEqual(connection("RUN", "i", "JOBS", "echo c"), [["ok", "c"]])
        kinds = self.kinds(connection)
        self.assertEqual([kinds[name] for name in ("sh", "py", "c", "i")], ["command", "worker", "plugin", "plugin"])
        metrics = self.daemon.metrics()
        self.assertEqual(metrics['locksley_lane_slots{lane="processes"}'], 2)
        self.assertEqual(metrics['locksley_jobs_total{handler="c",status="ok"}'], 1)
        self.assertEqual(metrics['locksley_batches_total{handler="sh",event="accepted"}'], 1)
        self.assertRegex(self.daemon.log(), r"configuration changed key=handlers\.sh\n")

    def test_a_helper_that_the_init_of_an_isolated_plugin_starts_holds_up_nothing(self):
        """It has the standard output of the process that checks the plugin, and does not end with it."""
        connection = self.serve({})
        self.reload({"h": {"plugin": str(PLUGINS / "init_leaves_a_helper.so"), "isolate": True}})
        self.assertEqual(connection("RUN", "h", "JOBS", "x"), [["ok", "x"]])

    def test_batches_of_the_store_begin_when_their_handler_comes(self):
        for later in (shell(), worker(), {"plugin": C_PLUGIN}):
            with tempfile.TemporaryDirectory() as store:
                payload = {"command": "sleep 0; echo x", "worker": "answer('x')", "plugin": "echo x"}[next(iter(later))]
                first = StoreDaemon(store, {"handlers": {"h": {"command": ["sh", "-c", "sleep 60"], "grace": "100ms"}}})
                with first.connect() as connection:
                    batch = connection("SUBMIT", "h", "JOBS", *[payload] * 20)
                    opened = connection("OPEN", "h")
                    connection("ADD", opened, payload)
                first.close()
                self.settings = {"store": {"path": store}}
                self.daemon = self.start(self.settings)
                connection = self.connect(self.daemon)
                self.assertEqual(connection.explain(batch)["reason"], "handler-missing")
                self.assertNotIn("h", self.kinds(connection))
                self.reload({"h": later})
                status = connection.wait(batch)
                self.assertEqual((status["ok"], status["failed"]), (20, 0), self.daemon.log())
                self.assertEqual({output.strip() for _, _, output in connection.results(batch)}, {"x"})
                connection("ADD", opened, payload)
                connection("CLOSE", opened)
                self.assertEqual(connection.wait(opened)["ok"], 2)


class Changed(ReloadTest):
    def test_what_runs_ends_as_it_began_and_the_next_is_new(self):
        connection = self.serve({"sh": shell(environment=["V=old"])})
        script, go = self.held()
        batch = connection("SUBMIT", "sh", "JOBS", script, 'echo "$V"', 'echo "$V"')
        self.wait_running(connection, batch, 1)
        self.reload({"sh": shell(environment=["V=new"])})
        go.touch()
        self.assertEqual(self.outputs(connection, batch), ["old", "new", "new"])

    def test_workers_are_replaced_when_they_have_answered_and_at_once_when_they_idle(self):
        connection = self.serve({"py": worker(environment=["V=old"], concurrency=2)})
        say = "answer(os.environ['V'] + ' ' + str(os.getpid()))"
        old = {output.split()[1] for _, output in connection("RUN", "py", "JOBS", *["time.sleep(0.1); " + say] * 4)}
        go = self.folder / "go"
        batch = connection("SUBMIT", "py", "JOBS", f"while not os.path.exists('{go}'): time.sleep(0.01)\n{say}")
        self.wait_running(connection, batch, 1)
        self.reload({"py": worker(environment=["V=new"], concurrency=2)})
        (_, output), = connection("RUN", "py", "JOBS", say)
        self.assertEqual(output.split()[0], "new")
        go.touch()
        self.assertEqual(self.outputs(connection, batch)[0].split()[0], "old")
        wait_for("the old workers to end", lambda: not any(os.path.exists(f"/proc/{pid}") for pid in old))

    def test_workers_stay_where_only_numbers_change(self):
        connection = self.serve({"py": worker()})
        pid = connection("RUN", "py", "JOBS", "answer(os.getpid())")
        self.reload({"py": worker(timeout="60s", retries=1, rate="1000/s", max_jobs=1000, grace="100ms")})
        self.assertEqual(connection("RUN", "py", "JOBS", "answer(os.getpid())"), pid)
        self.assertEqual(connection.map("CONFIG", "GET", "handlers.py.rate"), {"handlers.py.rate": "1000/s"})

    def test_more_slots_at_once_and_fewer_as_jobs_end(self):
        for handler, wait in ((shell, "while [ ! -e {} ]; do sleep 0.01; done"), (worker, "while not os.path.exists('{}'): time.sleep(0.01)\nanswer(1)")):
            connection = self.serve({"h": handler(concurrency=1)})
            files = [self.folder / str(i) for i in range(6)]
            batch = connection("SUBMIT", "h", "JOBS", *[wait.format(file) for file in files])
            self.wait_running(connection, batch, 1)
            self.reload({"h": handler(concurrency=4)})
            self.wait_running(connection, batch, 4)
            self.assertEqual(self.daemon.metrics()['locksley_lane_slots{lane="processes"}'], 4)
            self.reload({"h": handler(concurrency=2)})
            for ended, file in enumerate(files[:4], 1):
                file.touch()
                wait_for("a job to end", lambda: connection.status(batch)["ok"] == ended)
                # The end of a job is there a moment before its slot is free.
                wait_for("no job in its slot", lambda: connection.status(batch)["running"] <= max(2, 4 - ended))
            self.wait_running(connection, batch, 2)
            for file in files:
                file.touch()
            self.assertEqual(connection.wait(batch)["ok"], 6)

    def test_a_rate_and_what_batches_are_given(self):
        connection = self.serve({"sh": shell(rate="1/h")})
        connection("RUN", "sh", "JOBS", "true")
        batch = connection("SUBMIT", "sh", "JOBS", "true")
        wait_for("the rate to be felt", lambda: connection.explain(batch)["reason"] == "rate-limited")
        self.reload({"sh": shell(rate="1000/s")})
        self.assertEqual(connection.wait(batch)["ok"], 1)
        self.reload({"sh": shell(timeout="50ms", rate="1000/s")})
        self.assertEqual(connection("RUN", "sh", "JOBS", "sleep 60")[0][0], "timeout")

    def test_a_worker_that_could_not_work_is_mended(self):
        connection = self.serve({"w": {"worker": ["sh", "-c", "exit 3"], "retries": 1000}})
        batch = connection("SUBMIT", "w", "JOBS", "answer(1)")
        wait_for("a try in vain", lambda: connection.status(batch)["retried"] > 0)
        self.reload({"w": worker(retries=1000)})
        self.assertEqual(connection.wait(batch)["ok"], 1)

    def test_a_handler_of_another_kind_runs_the_same_batches(self):
        """Each payload is right for all kinds: in the end each job has one result."""
        ways = [{"command": ["cat"], "concurrency": 2}, worker_that_echoes(self), {"plugin": C_PLUGIN}, {"plugin": C_PLUGIN, "isolate": True, "concurrency": 3}]
        connection = self.serve({"h": ways[0]})
        batches, added = [], 0
        stream = connection("OPEN", "h")
        for turn in range(16):
            batches.append(connection("SUBMIT", "h", "JOBS", *[f"echo {i}" for i in range(200)]))
            wait_for("a job to end", lambda: connection.status(batches[-1])["ok"] > 0)
            self.reload({"h": ways[(turn + 1) % 4]})
            added = connection("ADD", stream, *[f"echo {i}" for i in range(10)])
            self.assertEqual(connection("RUN", "h", "JOBS", "echo run")[0][0], "ok")
        connection("CLOSE", stream)
        for batch in (*batches, stream):
            status = connection.wait(batch)
            self.assertEqual((status["ok"], status["failed"]), (status["jobs"], 0), status)
            rows = connection.results(batch)
            self.assertEqual(sorted(index for index, _, _ in rows), list(range(status["jobs"])))
        self.assertEqual(status["jobs"], added)

    def test_a_plugin_waits_until_nothing_of_it_runs(self):
        connection = self.serve({"c": {"plugin": C_PLUGIN}, "sh": shell()})
        lingering = connection("SUBMIT", "c", "JOBS", "linger")
        self.wait_running(connection, lingering, 1)
        self.reload({"c": shell(), "sh": shell()})
        held = connection("SUBMIT", "c", "JOBS", "echo later")
        self.assertEqual(connection("RUN", "sh", "JOBS", "echo meanwhile"), [["ok", "meanwhile\n"]])
        self.assertEqual(connection.status(held)["running"], 0)
        self.assertEqual(connection.explain(held)["reason"], "handler-missing")
        connection("CANCEL", lingering)
        self.assertEqual(self.outputs(connection, held), ["later"])


def worker_that_echoes(test):
    return {"worker": [sys.executable, "-c", "import sys\nr = sys.stdin.buffer\nw = sys.stdout.buffer\nb = lambda: r.read(int(r.readline()[1:]) + 2)\n"
            "while r.readline():\n  p = b(); b(); b()\n  w.write(b'$%d\\r\\n%b' % (len(p) - 2, p)); w.flush()"], "concurrency": 2}  # fmt: skip


class Removed(ReloadTest):
    def test_what_is_queued_waits_and_goes_on_when_it_is_back(self):
        for kind, before, after in (("sh", shell(environment=["V=1"]), shell(environment=["V=2"])), ("c", {"plugin": C_PLUGIN}, {"plugin": C_PLUGIN})):
            with self.subTest(kind):
                connection = self.serve({"h": before})
                script, go = self.held()
                first, rest = (script, 'echo "$V"') if kind == "sh" else ("linger", "echo 2")
                batch = connection("SUBMIT", "h", "SLOTS", 1, "RETRIES", 0, "JOBS", first, *[rest] * 5)
                self.wait_running(connection, batch, 1)
                self.reload({})
                self.assert_error("NOHANDLER", connection.ask("SUBMIT", "h", "JOBS", "a"))
                self.assertNotIn("h", self.kinds(connection))
                self.assertEqual(connection.map("CONFIG", "GET", "handlers.h.*"), {})
                go.touch()
                if kind == "c":
                    # The only way for `linger` to end is that its batch is cancelled.
                    connection("CANCEL", batch)
                    wait_for("the running job to end", lambda: connection.status(batch)["running"] == 0)
                    batch = None
                else:
                    wait_for("the running job to end", lambda: connection.status(batch)["running"] == 0)
                    self.assertEqual(connection.status(batch)["ok"], 1)
                    self.assertEqual(connection.explain(batch)["reason"], "handler-missing")
                    self.assertEqual(self.daemon.metrics()['locksley_lane_slots{lane="processes"}'], 0)
                self.reload({"h": after})
                if batch:
                    self.assertEqual(self.outputs(connection, batch), ["1", *["2"] * 5])
                self.assertEqual(connection("RUN", "h", "JOBS", "echo x")[0][1].strip(), "x")

    def test_its_workers_end_and_failed_jobs_wait_for_it(self):
        mark = new_mark()
        connection = self.serve({"py": worker(mark, concurrency=2)})
        batch = connection("SUBMIT", "py", "JOBS", "error('ERR no')", "answer(1)")
        self.assertEqual(connection.wait(batch)["failed"], 1)
        self.assertTrue(marked(mark))
        self.reload({})
        wait_for("its workers to end", lambda: not marked(mark))
        self.assertEqual(connection("RETRY", batch), 1)
        self.assertEqual(connection.explain(batch)["reason"], "handler-missing")
        self.reload({"py": worker(mark)})
        self.assertEqual(connection.wait(batch)["failed"], 1)  # as it failed before
        waiting = connection("SUBMIT", "py", "JOBS", "answer(1)")
        connection.wait(waiting)

    def test_a_plugin_is_taken_down_once(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "torn-down")
            os.environ["LOCKSLEY_TEST_TEARDOWN"] = str(file)
            self.addCleanup(os.environ.pop, "LOCKSLEY_TEST_TEARDOWN")
            connection = self.serve({"c": {"plugin": C_PLUGIN}})
            self.assertEqual(connection("RUN", "c", "JOBS", "echo x"), [["ok", "x"]])
            self.reload({})
            first = wait_for("its teardown", lambda: (file.exists() and file.read_text()) or None)
            self.reload({"c": {"plugin": C_PLUGIN}})
            self.assertEqual(connection("RUN", "c", "JOBS", "echo y"), [["ok", "y"]])
            self.assertEqual(file.read_text(), first)


class Refused(ReloadTest):
    def test_a_file_that_is_wrong_changes_nothing_and_says_why(self):
        good = {"sh": shell(environment=["V=1"]), "c": {"plugin": C_PLUGIN}}
        connection = self.serve(good)
        pattern = "limits.max_clients"
        for name, handler, why in (
            ("none", {"command": ["no-such-program"]}, r"handlers\.none\.command: the program 'no-such-program' cannot be started: No such file"),
            ("dir", {"worker": ["/tmp"]}, r"handlers\.dir\.worker: the program '/tmp' cannot be started"),
            ("user", {"command": ["true"], "user": "no-such-user"}, r"handlers\.user\.user: there is no user 'no-such-user'"),
            ("p", {"plugin": "/nowhere.so"}, r"handlers\.p\.plugin: /nowhere\.so: there is no such file"),
            ("p", {"plugin": str(PLUGINS / "init_fails.so")}, r"handlers\.p\.plugin: .*its init failed: there is no market today"),
            ("p", {"plugin": str(PLUGINS / "init_crashes.so"), "isolate": True}, r"handlers\.p\.plugin: .*killed by signal"),
            ("echo", {"command": ["true"]}, r"handlers\.echo: a handler of this name is built in"),
            ("many", {"command": ["true"], "concurrency": 100_000}, r"handlers\.many\.concurrency: expected"),
            ("kinds", {"command": ["true"], "worker": ["true"]}, r"handlers\.kinds: expected exactly one of"),
        ):  # fmt: skip
            with self.subTest(why):
                self.reload({"sh": shell(environment=["V=2"]), name: handler}, limits={"max_clients": 77})
                self.assertRegex(self.daemon.log(), r"\.yaml:\d+:\d+: " + why)
                self.assertEqual(connection.map("CONFIG", "GET", pattern), {pattern: "10000"})
                self.assertEqual(connection("RUN", "sh", "JOBS", 'echo "$V"'), [["ok", "1\n"]])
                self.assertEqual(connection("RUN", "c", "JOBS", "echo x"), [["ok", "x"]])
                self.assertNotIn(name, self.kinds(connection).keys() - {"echo"})
                self.assertRegex(connection.ask("CONFIG", "RELOAD"), "^ERR nothing was changed: .*" + why)
        self.reload({"sh": shell(environment=["V=2"])}, limits={"max_clients": 77})
        self.assertEqual(connection.map("CONFIG", "GET", pattern), {pattern: "77"})
        self.assertEqual(connection("RUN", "sh", "JOBS", 'echo "$V"'), [["ok", "2\n"]])

    def test_one_after_the_other(self):
        """SIGHUP in the middle of one that takes long: a plugin is tried out, and connections are served."""
        connection = self.serve({})
        slow = {"plugin": C_PLUGIN, "isolate": True}
        self.daemon.configure({"handlers": {f"i{n}": slow for n in range(10)}})
        for _ in range(5):
            self.daemon.send_signal(signal.SIGHUP)
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection("RUN", "i9", "JOBS", "echo x"), [["ok", "x"]])


class UnderLoad(ReloadTest):
    def test_fifty_reloads_while_clients_submit(self):
        mark = new_mark()
        versions = [
            {"sh": shell(concurrency=1 + n % 3, environment=[f"V={n}"]), "py": worker(mark, concurrency=1 + n % 2, environment=[f"V={n // 5}"]), "c": {"plugin": C_PLUGIN},
             **({"comes": {"command": ["cat"]}} if n % 2 else {})}
            for n in range(50)
        ]  # fmt: skip
        connection = self.serve(versions[1])
        subscriber = self.connect(self.daemon)
        subscriber("SUBSCRIBE", "batches")
        told = set()
        stop = threading.Event()
        failures, done = [], []

        def client(number):
            try:
                with self.daemon.connect() as mine:
                    while not stop.is_set():
                        batches = {mine("SUBMIT", "sh", "JOBS", *['echo "$V"'] * 5): 5, mine("SUBMIT", "py", "JOBS", *["answer(index)"] * 50): 50, mine("SUBMIT", "c", "JOBS", *["echo x"] * 50): 50}
                        late = mine.ask("SUBMIT", "comes", "JOBS", "a", "b")
                        if isinstance(late, Error):
                            self.assertRegex(late, "^NOHANDLER")
                        else:
                            batches[late] = 2
                        assert mine("RUN", "py", "JOBS", "answer(7)") == [["ok", "7"]]
                        assert mine("RUN", "c", "JOBS", "echo 7") == [["ok", "7"]]
                        for batch, jobs in batches.items():
                            status = mine.wait(batch)
                            assert (status["ok"], status["jobs"]) == (jobs, jobs), status
                            rows = mine.results(batch)
                            assert sorted(index for index, _, _ in rows) == list(range(jobs)), rows
                            done.append(batch)
            except Exception as failure:
                failures.append(f"client {number}: {failure!r}")

        clients = [threading.Thread(target=client, args=(number,)) for number in range(3)]
        for each in clients:
            each.start()
        seen = lambda: [len(os.listdir(f"/proc/{self.daemon.pid}/{kind}")) for kind in ("fd", "task")]
        after_first = None
        for number, version in enumerate(versions):
            self.reload(version)
            if number == 5:
                after_first = seen()
        stop.set()
        self.reload(versions[1])  # the clients' last batches need all handlers
        for each in clients:
            each.join(120)
            self.assertFalse(each.is_alive())
        self.assertEqual(failures, [])
        self.assertEqual(self.lines_of("the configuration stays"), 0)
        finished = connection("SUBMIT", "echo", "ID", "the-last", "JOBS", "x")
        while finished not in told:
            _, text = subscriber.read_message()
            event = json.loads(text)
            if event["event"] in ("done", "cancelled"):
                told.add(event["batch"])
        self.assertEqual(set(done) - told, set())
        wait_for("descriptors and threads not to have grown", lambda: all(now <= then + 8 for now, then in zip(seen(), after_first)))
        self.reload({})
        wait_for("no process to be left", lambda: not marked(mark))


if __name__ == "__main__":
    unittest.main()
