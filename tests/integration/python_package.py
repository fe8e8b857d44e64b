#!/usr/bin/python3
"""The Python package locksley: batches across broken connections and killed daemons, tasks that fork. Its Executor is tested by
python_executors.py, its workers by python_workers.py, App.inline() by python_inline.py, and what its page shows by python_pages.py."""

import asyncio
import inspect
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from datetime import timedelta
from decimal import Decimal

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from late_proxy import FORWARD, LOSE_REPLY, LateProxy
from locksley_daemon import DEADLINE_S, DaemonTest, merged, wait_for
from python_tasks import ENVIRONMENT, HANDLER, locksley, tasks, url_of
from remote_worker import port_for_workers
from secured import Secured
from store_daemon import StoreTest
from users import PASSWORD, users

from locksley import wire
from locksley.app import option_words
from locksley.errors import decode_failure, encode_failure


def job_of(value):
    """What the handler `echo` returns for identity(value)."""
    return {"task": "identity", "args": [value]}


def echo_app(url, **options):
    """An application whose handler is the daemon's `echo`, which returns the payload: as fast as it goes, without a worker."""
    app = locksley.App(url, handler="echo", **options)
    return app, app.task(tasks.identity.function)


class Kills(StoreTest):
    """`kill -9` of the daemon while a batch is streamed in, and while its results are read."""

    JOBS = int(os.environ.get("LOCKSLEY_PACKAGE_JOBS", "100000"))

    def restart(self, port):
        self.kill()
        self.begin({"listen": {"port": port}})

    def items(self, at, port):
        for item in range(self.JOBS):
            if item in at:
                self.restart(port)
            yield item

    def test_a_map_across_kills_loses_no_job_and_runs_none_under_two_indexes(self):
        port = hold_port(self)
        self.begin({"listen": {"port": port}})
        app, identity = echo_app(url_of(self.daemon))
        batch = identity.map(self.items([self.JOBS // 3, self.JOBS * 4 // 5], port), id="streamed")
        seen = {}
        for number, result in enumerate(batch):
            if number == self.JOBS // 2:
                self.restart(port)
            self.assertNotIn(result.index, seen)
            seen[result.index] = result.value
        self.assertEqual(len(seen), self.JOBS)
        wrong = [index for index, value in seen.items() if value != job_of(index)]
        self.assertEqual(wrong, [])
        self.assertEqual((batch.status().jobs, batch.status().ok), (self.JOBS, self.JOBS))
        app.close()

    def test_a_program_that_was_interrupted_goes_on(self):
        self.begin()
        app, identity = echo_app(url_of(self.daemon))
        self.addCleanup(app.close)

        def interrupted():
            yield from range(35_000)
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            identity.map(interrupted(), id="mine")
        self.assertLess(0, app.batch("mine").status().jobs)
        again = identity.map(range(50_000), id="mine")
        self.assertEqual([value["args"][0] for value in again.values()], list(range(50_000)))
        self.assertEqual(identity.map(range(50_000), id="mine").status().jobs, 50_000)
        with self.assertRaisesRegex(locksley.LocksleyError, "has 50000 jobs, not these 60000|CLOSED"):
            identity.map(range(60_000), id="mine")


class Bytes(DaemonTest):
    def test_what_is_known_of_a_job_has_its_bytes(self):
        app = locksley.App(url_of(self.start()))
        self.addCleanup(app.close)
        for handler, key, status in (("echo", "output", "ok"), ("sleep", "payload", "error")):  # of one that is ok the payload is not kept
            batch = app.named("x", handler=handler, raw=True).map([b"\xff\xd8\0"])
            batch.wait(DEADLINE_S)
            self.assertEqual((getattr(batch.job(0), key), batch.job(0).status), (b"\xff\xd8\0", status))


class TimeLimits(DaemonTest):
    def test_a_result_is_waited_for_no_longer_than_its_timeout(self):
        app = locksley.App(url_of(self.start()))
        self.addCleanup(app.close)
        naps = app.named("naps", handler="sleep", raw=True)
        self.assertEqual(naps.submit("0").result(timeout=DEADLINE_S), b"")
        batch = naps.submit("3600000")
        with self.assertRaisesRegex(TimeoutError, "is not over after 0.05 s"):
            batch.result(timeout=0.05)
        with self.assertRaises(TimeoutError):
            asyncio.run(batch.aresult(0.05))
        batch.cancel()


class LostReplies(DaemonTest):
    def proxied(self, *words):
        """An application whose connection breaks at the first of each of these commands, before its reply."""
        self.daemon = self.start()
        losses, lost = list(words), []

        def rule(command):
            word = command[0].decode().upper()
            if word not in losses:
                return FORWARD
            losses.remove(word)
            lost.append(word)
            return LOSE_REPLY

        self.proxy = LateProxy(self.daemon.host, self.daemon.port, rule)
        self.addCleanup(self.proxy.close)
        self.lost = lost
        app, task = echo_app(f"redis://{self.proxy.address}")
        self.addCleanup(app.close)
        return app, task

    def test_a_lost_reply_repeats_nothing(self):
        app, identity = self.proxied("SUBMIT", "RESULTS", "STATUS", "WAIT", "CANCEL", "EXPLAIN", "FORGET")
        batch = identity.map(range(10))
        self.assertEqual([value["args"][0] for value in batch.values()], list(range(10)))
        self.assertEqual((batch.wait().ok, batch.status().ok, batch.cancel(), batch.explain().reason), (10, 10, 0, "ended"))
        batch.forget()
        self.assertEqual(sorted(self.lost), ["CANCEL", "EXPLAIN", "FORGET", "RESULTS", "STATUS", "SUBMIT", "WAIT"])
        self.assertEqual(self.connect(self.daemon)("LIST")[1], [])

    def test_nor_in_a_stream(self):
        app, identity = self.proxied("OPEN", "ADDAT", "ADDAT", "ADDAT", "CLOSE")
        batch = identity.map(range(20_000))
        self.assertEqual([value["args"][0] for value in batch.values()], list(range(20_000)))
        self.assertEqual(len(self.lost), 5)

    def test_nor_with_asyncio(self):
        app, identity = self.proxied("OPEN", "ADDAT", "CLOSE", "RESULTS")

        async def main():
            batch = await identity.amap(range(10_000))
            indexes = [result.index async for result in batch]
            self.assertEqual(sorted(indexes), list(range(10_000)))
            self.assertEqual(((await batch).ok, (await batch.astatus()).ok), (10_000, 10_000))
            await app.aclose()

        asyncio.run(main())
        self.assertEqual(len(self.lost), 4)

    def test_the_patience_for_a_daemon_ends(self):
        daemon = self.start()
        app, identity = echo_app(["redis://127.0.0.1:1", url_of(daemon)], patience=5)
        self.assertEqual(identity.submit(7).result(), job_of(7))  # the second URL
        app, identity = echo_app("redis://127.0.0.1:1", patience=0)
        with self.assertRaisesRegex(locksley.Unreachable, "127.0.0.1:1"):
            identity.submit(7)

    def test_a_full_queue_is_waited_for(self):
        daemon = self.start({"limits": {"max_queued_jobs": 5000}, "pool": {"workers": 1}})
        app, identity = echo_app(url_of(daemon))
        connection = self.connect(daemon)
        connection("SUBMIT", "sleep", "ID", "blocker", "JOBS", 3_600_000)
        wait_for("the only worker to be held", lambda: connection.status("blocker")["running"] == 1)
        waiting = identity.map(range(4990))
        with self.assertLogs("locksley", "WARNING") as logged:
            # There is room from the first warning on.
            makes_room = threading.Thread(target=lambda: (wait_for("a warning", lambda: bool(logged.output)), connection("CANCEL", "blocker")))
            makes_room.start()
            self.assertEqual(identity.map(range(100)).wait(DEADLINE_S).ok, 100)
        makes_room.join()
        self.assertIn("QUEUEFULL", logged.output[0])
        self.assertEqual(waiting.wait(DEADLINE_S).ok, 4990)


class TwoPages:
    """In the place of a Transport: a batch whose results come in two pages."""

    PAGES = {"0": ("3", [[0, "ok", b"0"], [1, "ok", b"1"]]), "3": ("0", [[2, "ok", b"2"]])}

    def __init__(self):
        self.asked = []

    async def ask(self, commands):
        (words,) = commands
        self.asked.append((words[3], words[-1] == "DISCARD"))
        return [self.PAGES[words[3]]]


class Readers(unittest.TestCase):
    def test_only_a_reader_that_wants_it_discards_and_then_what_it_delivered(self):
        for discard in (False, True):
            app = locksley.App()
            app.transport = TwoPages()
            results = wire.each(app.batch("b").read(app.transport.ask, discard=discard))
            self.assertEqual([result.value for result in results], [0, 1, 2])
            self.assertEqual(app.transport.asked, [("0", False), ("3", discard)])


class Refusals(DaemonTest):
    def test_a_worker_without_an_application_says_so_in_a_line(self):
        for target, said in (("nosuch:app", "there is no module nosuch in "), ("json:loads", "json:loads is not a locksley.App")):
            ended = subprocess.run([sys.executable, "-B", "-m", "locksley", target], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.assertEqual((ended.returncode, len(ended.stderr.splitlines())), (1, 1), ended.stderr)
            self.assertIn(said, ended.stderr)

    def test_an_authority_is_for_tls(self):
        for words in (["--url", "redis://127.0.0.1:1"], ["--url", "127.0.0.1:1"], []):
            words = [sys.executable, "-B", "-m", "locksley", "package_tasks:far", *words, "--ca-file", "ca.pem"]
            done = subprocess.run(words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--ca-file is for TLS: it needs --url rediss://", done.stderr)

    def test_how_to_name_an_authority_that_is_missing(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        settings = Secured(folder.name, ["far"]).settings
        daemon = self.start(merged(settings, {"workers": {"port": 0, "tls": settings["listen"]["tls"]}, "handlers": {"far": {"remote": True}}}))
        url = f"rediss://renderer:x@127.0.0.1:{port_for_workers(daemon)}"
        worker = subprocess.Popen([sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", url], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
        self.addCleanup(worker.communicate)
        self.addCleanup(worker.kill)
        advice = "certificate.*: name the authority that signed it: --ca-file FILE"
        self.assertRegex(worker.stderr.readline(), advice)
        app = locksley.App(f"rediss://{daemon.host}:{daemon.port}", patience=0)
        self.addCleanup(app.close)
        with self.assertRaisesRegex(locksley.Unreachable, advice):
            app.batch("x").status()

    def test_errors_of_the_daemon(self):
        daemon = self.start(users(alice={"handlers": ["echo"]}))
        app = locksley.App(f"redis://alice:{PASSWORD.format('alice')}@{daemon.host}:{daemon.port}", handler="sha256")
        task = app.task(tasks.identity.function)
        for code, call in (("NOPERM", lambda: task.submit(1)), ("NOBATCH", lambda: app.batch("nosuch").status())):
            with self.assertRaises(locksley.Refused) as caught:
                call()
            self.assertEqual(caught.exception.code, code)
        for code, url in (("WRONGPASS", f"redis://alice:wrong@{daemon.host}:{daemon.port}"), ("NOAUTH", url_of(daemon))):
            with self.assertRaises(locksley.Refused) as caught:
                locksley.App(url).batch("x").status()
            self.assertEqual(caught.exception.code, code)

    def test_options_of_a_connection(self):
        """Replies are bytes here, even if the program's other connections decode theirs."""
        app, identity = echo_app(url_of(self.start()), decode_responses=True, client_name="shop", health_check_interval=1)
        self.addCleanup(app.close)
        self.assertEqual(identity.submit("é").result(), job_of("é"))

    def test_options_become_words(self):
        options = {"name": "n", "weight": 3, "timeout": 0.25, "retries": 0, "deadline": 60, "keep": "failures", "delay": 2.5, "retain": 0, "slots": 4,
                   "max_fails": 5, "trace": "t", "for_": "cust-42", "after": ["a", locksley.App().batch("b")], "after_ok": "c", "ephemeral": True}
        self.assertEqual(option_words(options), ["NAME", "n", "WEIGHT", 3, "TIMEOUT", 250, "RETRIES", 0, "DEADLINE", 60_000, "KEEP", "failures",
                                                 "DELAY", 2500, "RETAIN", 0, "SLOTS", 4, "MAXFAILS", 5, "TRACE", "t", "FOR", "cust-42",
                                                 "AFTER", "a", "AFTER", "b", "AFTEROK", "c", "EPHEMERAL"])
        self.assertEqual(option_words({"ephemeral": False, "timeout": None, "after": []}), [])
        self.assertEqual(option_words({"retain": 1.5, "timeout": Decimal("0.5")}), ["RETAIN", 2, "TIMEOUT", 500])
        self.assertEqual(option_words({"delay": 0}), [])
        for wrong in ({"timeout": 0}, {"timeout": -1}, {"deadline": 0}, {"delay": -0.5}, {"retain": -1}):
            with self.assertRaisesRegex(ValueError, "must be (more than|at least) 0"):
                option_words(wrong)
        for wrong in ("30s", timedelta(seconds=30), float("nan"), b"3"):
            with self.assertRaisesRegex(TypeError, "the option 'timeout' is a number of seconds, such as 0.5 or 30, not "):
                option_words({"timeout": wrong})

    def test_a_task_with_further_options(self):
        app = locksley.App()
        task = app.task(retries=3, weight=2)(tasks.identity.function)
        later = task.using(weight=5, delay=60)
        self.assertEqual((later.options, later.name, later.handler), ({"retries": 3, "weight": 5, "delay": 60}, "identity", "python"))
        self.assertEqual(task.options, {"retries": 3, "weight": 2})
        with app.inline():
            self.assertEqual(later.submit("a").result(), "a")
        with self.assertRaisesRegex(TypeError, "no option 'countdown'"):
            task.using(countdown=60)

    def test_mistakes_in_a_program(self):
        app = locksley.App()
        app.task(tasks.identity.function)
        with self.assertRaisesRegex(ValueError, "two tasks named 'identity'"):
            app.task(tasks.identity.function)
        with self.assertRaisesRegex(ValueError, "handler of its own"):
            app.task(tasks.fails.function, raw=True)
        with self.assertRaisesRegex(TypeError, "no option 'prio'; there are: name, "):
            app.tasks["identity"].map([1], prio=3)
        with self.assertRaisesRegex(TypeError, "set is not JSON"):
            app.tasks["identity"].submit({1})
        with self.assertRaisesRegex(TypeError, r"takes one iterable; starmap\(zip\(a, b\)\)"):
            app.tasks["identity"].map([1], [2])

    def test_help_shows_what_a_program_may_call(self):
        for function, name, parameters in ((locksley.Batch.wait, "Batch.wait", ["self", "timeout", "on_progress"]), (locksley.Task.asubmit, "Task.asubmit", ["self", "args", "kwargs"])):
            self.assertEqual((function.__qualname__, list(inspect.signature(function).parameters)), (name, parameters))
        for call in (locksley.Batch.values, locksley.Batch.avalues):
            with self.assertRaisesRegex(TypeError, r"^(Batch\.values|_values)\(\) got an unexpected keyword argument 'timeout'"):  # Python 3.9: _values()
                call(locksley.App().batch("b"), timeout=1)


class Cancellations(DaemonTest):
    def test_a_wait_that_is_cancelled_costs_its_connection_and_no_other(self):
        daemon = self.start()
        connection = self.connect(daemon)
        connection("SUBMIT", "sleep", "ID", "blocker", "JOBS", 3_600_000)
        app, _ = echo_app(url_of(daemon))

        def accepted():
            return int(re.search(r"total_connections_received:(\d+)", connection("INFO"))[1])

        async def main():
            wait = asyncio.create_task(app.batch("blocker").await_end())
            await asyncio.gather(*[app.batch("blocker").astatus() for _ in range(4)])
            while (before := accepted()) < 6:  # with that of the test
                await asyncio.sleep(0.01)
            wait.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await wait
            await asyncio.gather(*[app.batch("blocker").astatus() for _ in range(4)])
            self.assertEqual(accepted(), before)
            await app.aclose()

        asyncio.run(main())


    def test_the_end_of_an_event_loop_closes_its_connections(self):
        """Also where the program does not call aclose()."""
        daemon = self.start()
        connection = self.connect(daemon)
        app, identity = echo_app(url_of(daemon))

        async def main():
            return await asyncio.gather(*[(await identity.asubmit(value)).aresult() for value in range(3)])

        for _ in range(3):
            self.assertEqual(asyncio.run(main()), list(map(job_of, range(3))))
        wait_for("only the test to be connected", lambda: "connected_clients:1\r" in connection("INFO"))


class Failures(unittest.TestCase):
    def test_whatever_the_codec_makes_of_it_an_error_is_a_line_that_the_daemon_takes(self):
        class Wide:
            """Eight bytes for each character that is not ASCII, and more of all."""

            def dumps(self, value):
                return json.dumps(value).encode().hex().encode()

            def loads(self, data):
                return json.loads(bytes.fromhex(data.decode()))

        try:
            raise ValueError("é漢" * 50_000)
        except ValueError as error:
            encoded = encode_failure(error, 3, Wide())
        self.assertLess(len(encoded), 64 << 10)
        error = decode_failure("b", 0, "error", encoded, Wide())
        self.assertEqual((error.exception, error.attempt), ("ValueError", 3))
        self.assertRegex(error.message, "^ValueError: (é漢){500}")
        self.assertRegex(error.remote_traceback, "(é漢){500}")


class Forks(DaemonTest):
    """Tasks that fork."""

    def setUp(self):
        daemon = self.start({"handlers": {"python": HANDLER}})
        tasks.app.connect(url_of(daemon))
        self.addCleanup(tasks.app.close)

    def test_the_process_that_a_task_forks_answers_no_job(self):
        self.assertEqual([tasks.forks.submit().result(), tasks.identity.submit(1).result(), tasks.forks.submit().result()], ["parent", 1, "parent"])

    def test_a_process_of_multiprocessing_can_be_terminated(self):
        self.assertEqual(tasks.ends_a_process.submit().result(), -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
