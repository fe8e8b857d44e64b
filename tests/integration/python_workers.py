#!/usr/bin/python3
"""Workers of the Python package locksley: on standard input, and on the port for workers."""

import asyncio
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from late_proxy import FORWARD, LOSE_REPLY, LateProxy
from locksley_daemon import DEADLINE_S, DaemonTest, merged, program, wait_for
from python_tasks import ENVIRONMENT, HANDLER, HANDLER_2, locksley, tasks, url_of
from remote_worker import port_for_workers, wait_for_machines
from scratch import scratch
from secured import Secured
from store_daemon import StoreTest
from time_limits import with_growing_limits
from users import PASSWORD, users

from locksley import wire

TEMPORARY = 75  # daemon/base/exit_codes.h


class LocalWorker(DaemonTest):
    def setUp(self):
        self.daemon = self.start({"handlers": {"python": {**HANDLER, "grace": "1h"}, "raw": HANDLER}})
        tasks.app.connect(url_of(self.daemon))
        self.addCleanup(tasks.app.close)

    def test_values_come_back(self):
        values = [None, True, 1, 2.5, "Käse", [1, [2]], {"a": b"\0\xff"}, b"", {"$bytes": 1, "x": 2}]
        self.assertEqual(list(tasks.identity.map(values).values()), values)
        self.assertEqual((tasks.coroutine.submit("later").result(), tasks.says_too_much.submit().result()), ("later", ""))
        elsewhere = locksley.App(url_of(self.daemon)).named("identity")
        self.assertEqual(elsewhere.submit("named").result(), "named")
        with self.assertRaisesRegex(locksley.LocksleyError, "in another program"):
            elsewhere(1)
        batch = tasks.about.starmap([(), ()])
        self.assertEqual(list(batch.values()), [[batch.id, 0, "python"], [batch.id, 1, "python"]])

    def test_failures(self):
        batch = tasks.fails.map(["two\nlines"])
        [error] = batch.failed()
        self.assertEqual((error.batch, error.index, error.status, error.exception), (batch.id, 0, "error", "ValueError"))
        self.assertEqual((error.message, batch.status().retried), ("ValueError: two lines", 2))
        self.assertIn("package_tasks.py", error.remote_traceback)
        self.assertIn("two\nlines", str(error.__cause__))
        facts = batch.job(0)
        self.assertEqual(list(vars(facts)), list(self.connect(self.daemon).map("JOB", batch.id, 0)))
        self.assertEqual((facts.status, facts.attempt, facts.exit_status, facts.output[:10]), ("error", 3, None, b"ValueError"))
        self.assertEqual((facts.payload, 0 < facts.started_at <= facts.finished_at), (b'{"task":"fails","args":["two\\nlines"]}', True))
        with self.assertRaisesRegex(locksley.JobCrashed, "exit status 3"):
            tasks.dies.submit().result()
        with self.assertRaisesRegex(locksley.JobError, "SystemExit: left"):
            tasks.leaves.submit().result()
        run_cli = lambda *words: subprocess.run([program("LOCKSLEY"), "--server", f"{self.daemon.host}:{self.daemon.port}", *words], capture_output=True, text=True).stdout
        self.assertRegex(run_cli("job", batch.id, "0"), r"\nerror, 21 bytes:\n  ValueError: two lines\ntraceback, \d+ bytes:\n  Traceback \(most recent call last\):\n    File .*\n(  .*\n)+  ValueError: two\n  lines\n\Z")
        self.assertEqual(run_cli("results", batch.id, "--failed"), "job 0: error: ValueError: two lines\n")
        self.assertIn('"traceback\\":', run_cli("--json", "results", batch.id, "--failed"), "as it is, for programs")
        self.assertEqual(batch.retry(), 1)
        self.assertEqual((batch.wait(DEADLINE_S).retry_rounds, batch.retry(0)), (1, 1))

    def test_payloads_that_other_programs_write(self):
        run = self.connect(self.daemon)
        self.assertEqual(run("RUN", "python", "JOBS", '{"task": "identity", "args": [7]}', '{"task": "identity", "args": [], "kwargs": {"value": 8}}'),
                         [["ok", "7"], ["ok", "8"]])
        self.assertEqual(run("RUN", "python", "JOBS", ' {"task": "identity", "args": [9]}\r\n'), [["ok", "9"]])
        rows = run("RUN", "python", "JOBS", "no JSON", '{"task": "nosuch"}', "[]", '{"task": "identity", "args": [7]} more', "")
        self.assertEqual([row[0] for row in rows], ["error"] * 5)
        self.assertRegex(rows[1][1], r"^LocksleyError: no task is named 'nosuch'; there are: about, .*\t\{")
        self.assertEqual(run("RUN", "raw", "JOBS", "abc"), [["ok", "ABC"]])
        self.assertEqual(tasks.shout.submit(b"abc").result(), b"ABC")

    def test_a_job_that_must_stop(self):
        """Long before SIGKILL."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for task in (tasks.sleeps, tasks.sleeps_as_a_coroutine):
            late, cancelled = pathlib.Path(folder.name) / f"{task.name}-late", pathlib.Path(folder.name) / f"{task.name}-cancelled"
            self.assertEqual(tasks.identity.submit(1).result(), 1)  # a process is there: its start is not a job's time
            late_began = late.with_name(late.name + "-began")

            def attempt(ms, _):
                with self.assertRaises(locksley.JobTimeout):
                    task.starmap([(str(late), 3600)], timeout=ms / 1000).result()
                return late_began.exists()

            with_growing_limits(attempt)
            wait_for("the task that was late to clean up", late.exists)
            batch = task.submit(str(cancelled), 3600)
            wait_for("the job to run", lambda: batch.status().running == 1)
            batch.cancel()
            self.assertEqual(batch.wait(DEADLINE_S).cancelled, 1)

    def test_a_signal_between_jobs(self):
        """By hand, since the daemon sends SIGTERM only to stop a job."""
        worker = subprocess.Popen([sys.executable, "-B", "-m", "locksley", "package_tasks:app"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env=ENVIRONMENT, bufsize=0)
        payload = b'{"task": "coroutine", "args": ["%s"]}' % (b"x" * 1000)
        request = b"*3\r\n$%d\r\n%b\r\n$1\r\n0\r\n$1\r\nb\r\n" % (len(payload), payload)
        worker.stdin.write(request)
        self.assertEqual(worker.stdout.readline(), b"$1002\r\n")
        worker.stdout.read(1004)
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        worker.stdin.close()
        worker.stdout.close()


def check_what_is_too_much(test, task):
    batch = task.submit()
    test.assertEqual(batch.result(), "x" + "é" * 2047)
    test.assertEqual((batch.job(0).progress, batch.status().retried), (33, 1))


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Version2(DaemonTest):
    """worker_protocol: 2, where a local worker is told what a remote one is."""

    def setUp(self):
        self.daemon = self.start({"handlers": {"python": {**HANDLER_2, "grace": "1h", "concurrency": 1}}})
        tasks.app.connect(url_of(self.daemon))
        self.addCleanup(tasks.app.close)

    def test_what_a_task_is_told_and_what_it_says(self):
        values = list(range(5000))
        self.assertEqual(list(tasks.identity.map(values).values()), values)
        batch = tasks.told.starmap([()], trace=TRACE, timeout=7)
        self.assertEqual(batch.result()[:3], [1, TRACE, 7.0])
        self.assertEqual((batch.job(0).status, batch.log(0)), ("ok", "as it was told\n"))
        noted = tasks.notes.submit("")
        self.assertEqual(noted.result(), [2, "half of it"])
        [error] = tasks.fails.map(["again"]).failed()
        self.assertEqual((error.attempt, error.exception), (3, "ValueError"))
        check_what_is_too_much(self, tasks.says_too_much)

    def test_a_note_that_is_no_text(self):
        """Another program may have left it."""
        words = [b"job", b'{"task": "notes", "args": [""]}', b"0", b"b", b"2", b"", b"\xc3", b"0"]
        done = subprocess.run([sys.executable, "-B", "-m", "locksley", "package_tasks:app"], input=wire.packed([words]), capture_output=True,
                              env=ENVIRONMENT, timeout=DEADLINE_S)
        self.assertIn('[2,"\N{REPLACEMENT CHARACTER}"]', done.stdout.decode(), done.stderr.decode())

    def test_a_cancelled_job_is_told_and_the_process_goes_on(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        process = tasks.told.submit().result()[3]
        batch = tasks.holds.map([folder.name] * 20)
        wait_for("the job to run", lambda: bool(list(pathlib.Path(folder.name).glob("began-*"))))
        batch.cancel()
        self.assertEqual(batch.wait(DEADLINE_S).cancelled, 20)
        # One; or some more, if the stops reached it one after another.
        self.assertLess(len(list(pathlib.Path(folder.name).glob("began-*"))), 10)
        self.assertEqual(tasks.told.submit().result()[3], process)

    def test_a_process_that_dies(self):
        batch = tasks.dies.submit()
        [error] = batch.failed()
        self.assertIsInstance(error, locksley.JobCrashed)
        found = batch.job(error.index)
        self.assertEqual((found.status, found.attempt), ("crashed", 1))
        self.assertIn(b'"dies"', found.payload)


class AfterTheDrain(StoreTest):
    settings = {
        "handlers": {"python": {**HANDLER, "grace": "1h", "concurrency": 2}, "python2": {**HANDLER_2, "grace": "1h", "concurrency": 2}},
        "lanes": {"processes": {"slots": 4}},
        "shutdown": {"drain_timeout": "0s"},
    }

    def test_a_task_that_the_daemon_stops_has_not_failed(self):
        """SIGTERM reaches the task, which raises Stopped, and the programs that it has started."""
        self.begin()
        folder = scratch(self)
        batches = {}
        for handler in ("python", "python2"):
            for program in (False, True):
                began = folder / f"{handler}-{program}"
                payload = json.dumps({"task": "is_stopped_once", "args": [str(began), program]})
                batches[began] = self.command("SUBMIT", handler, "JOBS", payload)
        for began in batches:
            wait_for(f"{began.name} to run", began.exists)
        self.stop(TEMPORARY)
        self.begin()
        for began, batch in batches.items():
            self.assert_whole(batch, [["ok", '"again"']])
            self.assertEqual(self.command.map("JOB", batch, 0)["attempt"], 2, began.name)


class RemoteWorker(StoreTest):
    settings = {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}}

    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.begin()
        tasks.far.connect(url_of(self.daemon))
        self.addCleanup(tasks.far.close)

    def work(self, *options, port=None):
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", f"redis://127.0.0.1:{port or port_for_workers(self.daemon)}", *options]
        worker = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE)
        self.addCleanup(worker.stderr.close)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def ask_to_stop(self, worker):
        """SIGTERM, and returns when the worker has noticed it: from then on it begins no job."""
        self.said = b""
        worker.terminate()
        while b"stopping" not in (line := worker.stderr.readline()):
            self.assertTrue(line, "the worker ended without a word")
            self.said += line

    def began(self, count):
        wait_for(f"{count} jobs that began", lambda: len(list(self.path.glob("began-*"))) >= count)

    def test_many_jobs_and_coroutines_side_by_side(self):
        self.work("--slots", "50")
        # First: once the handler has had many short jobs, a lease has several.
        batch = tasks.gathers.starmap([(str(self.path), 50)] * 50)
        self.assertEqual(sorted(batch.values()), list(range(50)))
        values = list(range(300))
        self.assertEqual(list(tasks.far.tasks["identity"].map(values).values()), values)
        self.assertEqual(tasks.far.tasks["notes"].submit("").result(), [2, "half of it"])
        check_what_is_too_much(self, tasks.far.tasks["says_too_much"])
        self.assertEqual(tasks.far.tasks["told"].starmap([()], trace=TRACE, timeout=7).result()[:3], [1, TRACE, 7.0])

    def test_cancel_and_time_out(self):
        self.work("--slots", "8")
        cancelled = tasks.far.tasks["holds"].map([str(self.path)] * 2)
        self.began(2)
        naps = tasks.nap.map([3600] * 2)
        wait_for("coroutines to run", lambda: naps.status().running == 2)
        cancelled.cancel()
        naps.cancel()
        self.assertEqual((cancelled.wait(DEADLINE_S).cancelled, naps.wait(DEADLINE_S).cancelled), (2, 2))
        late = tasks.nap.map([3600] * 8, timeout=0.2)  # as many as there are slots, which they leave
        self.assertEqual([result.status for result in late], ["timeout"] * 8)
        deaf = tasks.deaf.map([str(self.path)] * 2, timeout=0.2)
        self.assertEqual({type(error) for error in deaf.failed()}, {locksley.JobTimeout})
        self.assertEqual(tasks.nap.submit(0).result(), 0)  # it still works

    def test_a_daemon_that_is_killed(self):
        ports = {"workers": {"port": hold_port(self), "reclaim": "20s"}, "listen": {"port": hold_port(self)}}
        self.kill()
        self.begin(ports)
        tasks.far.connect(url_of(self.daemon))
        self.work("--slots", "4")
        batch = tasks.far.tasks["holds"].map([str(self.path)] * 4)
        self.began(4)
        self.kill()
        self.begin(ports)
        wait_for_machines(self.command, 1)
        (self.path / "go").touch()
        self.assertEqual(list(batch.values()), [0, 1, 2, 3])
        self.assertEqual((batch.status().ok, len(list(self.path.glob("began-*")))), (4, 4))  # none began twice

    def test_a_daemon_that_ends_in_order_says_before_that_it_has_the_last_results(self):
        ports = {"workers": {"port": hold_port(self)}, "listen": {"port": hold_port(self)}}
        self.kill()
        self.begin(ports)
        tasks.far.connect(url_of(self.daemon))
        worker = self.work("--slots", "4")
        batch = tasks.far.tasks["holds"].map([str(self.path)] * 4)
        self.began(4)
        self.daemon.process.terminate()
        self.daemon.wait_for_log("draining")
        (self.path / "go").touch()
        self.assertEqual(self.daemon.wait_end(), 0)
        self.begin(ports)
        wait_for_machines(self.command, 1)
        self.assertEqual(batch.status().ok, 4)
        self.ask_to_stop(worker)
        self.assertNotIn(b"run elsewhere", self.said, "the worker has asked for jobs that it has settled")

    def test_a_signal_lets_running_jobs_end_and_gives_back_the_others(self):
        worker = self.work("--slots", "2")
        batch = tasks.far.tasks["holds"].map([str(self.path)] * 6)
        self.began(2)
        self.ask_to_stop(worker)
        wait_for("the others to be given back", lambda: batch.status().running == 2)
        (self.path / "go").touch()
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        status = batch.status()
        self.assertEqual((status.ok, status.queued, status.running), (2, 4, 0))
        self.work("--slots", "2")
        self.assertEqual(batch.wait(DEADLINE_S).ok, 6)

    def test_a_signal_gives_back_what_its_leases_hold(self):
        worker = self.work()
        batch = tasks.holds_from.starmap([(100, str(self.path))] * 400)  # by then a lease has many jobs
        self.began(1)
        self.ask_to_stop(worker)
        wait_for("the others to be given back", lambda: batch.status().running == 1)
        (self.path / "go").touch()
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        self.assertEqual((batch.status().ok, batch.status().queued), (101, 299))

    def test_a_signal_and_jobs_that_do_not_end(self):
        worker = self.work("--grace", "0.1")
        batch = tasks.deaf.map([str(self.path)])
        wait_for("the job to run", lambda: batch.status().running == 1)
        worker.terminate()
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        (self.path / "go").touch()
        self.work()
        self.assertEqual(batch.wait(DEADLINE_S).ok, 1)

    def test_a_signal_and_a_thread_that_a_coroutine_has_left(self):
        worker = self.work("--grace", "0.1")
        tasks.far.named("leaves_a_thread").submit(str(self.path / "left"), 3600).result()
        worker.terminate()
        self.assertEqual(worker.wait(DEADLINE_S), 0)

    def test_a_connection_that_breaks_unknown_to_the_daemon(self):
        words = ["SETTLE", "CLAIM"]

        def rule(command):
            word = command[0].decode()
            if word in words and self.cut:
                words.remove(word)
                return LOSE_REPLY
            return FORWARD

        self.cut = False
        proxy = LateProxy("127.0.0.1", port_for_workers(self.daemon), rule)
        self.addCleanup(proxy.close)
        self.work("--slots", "2", "--lease", "1", port=int(proxy.address.rsplit(":")[-1]))
        self.assertEqual(tasks.nap.submit(0).result(), 0)
        self.cut = True
        batch = tasks.far.tasks["identity"].map(range(200))
        self.assertEqual(list(batch.values()), list(range(200)))
        self.assertEqual(words, [])

    def test_options_that_are_wrong(self):
        for words, said in ((["--slots", "99999"], "--slots is a number from 1 to 4096"), (["--grace", "-1"], "--grace is a number of seconds"), (["--url", "http://127.0.0.1:1"], "http:// is the scheme of the dashboard: an App connects to the port `listen.port`, 7770"), (["--url", "redis://127.0.0.1:x"], "Port could not be cast")):
            command = [sys.executable, "-B", "-m", "locksley", "package_tasks:app", "--url", "redis://127.0.0.1:1", *words]
            worker = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=DEADLINE_S, text=True)
            self.assertEqual(worker.returncode, 2)
            self.assertIn(said, worker.stderr)
            self.assertNotIn("Traceback", worker.stderr)

    def test_what_the_daemon_refuses_ends_the_worker(self):
        http = self.daemon.http.rpartition(":")[2]
        for port, said in ((port_for_workers(self.daemon), "NOHANDLER"), (self.daemon.port, "the port for workers is another one"), (http, "this port speaks HTTP, for the dashboard: an App connects to the port `listen.port`, 7770")):
            command = [sys.executable, "-B", "-m", "locksley", "package_tasks:app", "--url", f"redis://127.0.0.1:{port}"]
            worker = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=DEADLINE_S, text=True)
            self.assertEqual(worker.returncode, 78)
            self.assertIn(said, worker.stderr)
            self.assertNotIn("Traceback", worker.stderr)


class Secure(DaemonTest):
    """TLS on both ports, with users: the client may submit, and the worker may only work."""

    def test_a_client_and_a_worker(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        secured = Secured(folder.name, ["far"])
        settings = merged(secured.settings, {"workers": {"port": 0, "tls": secured.settings["listen"]["tls"]}, "handlers": {"far": {"remote": True}}})
        daemon = self.start(merged(settings, users(renderer={"commands": ["work"], "handlers": ["far"]})))
        password = urllib.parse.quote(PASSWORD.format("renderer"))
        url = f"rediss://renderer:{password}@127.0.0.1:{port_for_workers(daemon)}"
        worker = subprocess.Popen([sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", url, "--ca-file", secured.authority],
                                  env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        app = locksley.App(f"rediss://alice:{urllib.parse.quote(PASSWORD.format('alice'))}@{daemon.host}:{daemon.port}", handler="far",
                           ssl_ca_certs=secured.authority)
        self.addCleanup(app.close)
        identity = app.task(tasks.identity)
        self.assertEqual(list(identity.map(range(1000)).values()), list(range(1000)))

        async def main():
            batch = await identity.amap("ab")
            return [value async for value in batch.avalues()]

        self.assertEqual(asyncio.run(main()), ["a", "b"])


if __name__ == "__main__":
    unittest.main()
