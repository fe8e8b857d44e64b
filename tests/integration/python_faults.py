#!/usr/bin/python3
"""Workers of the Python package where something goes wrong: a daemon that ends while jobs run, threads that outlive their jobs, and tasks
that end in unusual ways."""

import asyncio
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from local_worker import told_to_stop
from locksley_daemon import DEADLINE_S, wait_for
from python_tasks import ENVIRONMENT, HANDLER, HANDLER_2, locksley, tasks, url_of
from scripted_daemons import JOINED, NIL, lease_of
from scripted_upstream import array
from standby_server import StandbyServer
from store_daemon import StoreTest

from locksley import wire, worker

# A remote worker with a bug in the package itself.
BROKEN_SLOT = """
import sys, unittest.mock, package_tasks
from locksley import remote

with unittest.mock.patch.object(remote, "run_job", side_effect=ZeroDivisionError("a bug")):
    remote.RemoteWorker(package_tasks.far, sys.argv[1]).run()
"""


class Stops(unittest.TestCase):
    """SIGTERM, as the daemon sends it, to a local worker whose job runs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)

    def answer_of(self, task, version):
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:app"]
        return told_to_stop(self, command, task, self.path / f"{task}-{version}", version, env=ENVIRONMENT)

    def test_a_job_that_it_ended_is_not_answered(self):
        """Only the daemon knows why it sent the signal. If the daemon itself ends, the job is to run again."""
        for task in ("sleeps", "sleeps_as_a_coroutine"):
            for version in (1, 2):
                self.assertEqual(self.answer_of(task, version), b"", f"{task}, {version}")
                self.assertTrue((self.path / f"{task}-{version}").exists(), "it did not clean up")

    def test_a_job_that_returns_nevertheless_is_answered(self):
        self.assertEqual(self.answer_of("sleeps_unless_stopped", 1), b'$9\r\n"stopped"\r\n')


class Ends(unittest.TestCase):
    """Tasks that end in unusual ways, in a slot's thread. The slot has an answer, and runs the next job."""

    def setUp(self):
        self.app = locksley.App()

    def end_of(self, function):
        """How a job ends that runs it; and then one whose task is a coroutine that returns at once."""
        self.app.tasks.clear()
        self.app.task(name="unusual")(function)
        self.app.task(name="usual")(tasks.coroutine.function)
        ends = []

        def run():
            for call in (b'{"task": "unusual"}', b'{"task": "usual", "args": [7]}'):
                ends.append(worker.run_job(self.app, locksley.Job("b", 0, "python"), call))

        slot = threading.Thread(target=run, daemon=True)
        slot.start()
        slot.join(DEADLINE_S)
        self.assertFalse(slot.is_alive(), f"waited {DEADLINE_S} s for the slot")
        (status, output), usual = ends
        self.assertEqual((status, usual), ("error", ("ok", b"7")))
        return output.partition(b"\t")[0].decode()

    def test_a_coroutine_that_ends_its_event_loop(self):
        async def leaves():
            sys.exit("left")

        async def leaves_in_a_task_of_its_own():
            await asyncio.gather(leaves(), asyncio.sleep(0))

        async def stops_the_loop():
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0)
            raise KeyboardInterrupt

        self.assertEqual([self.end_of(each) for each in (leaves, leaves_in_a_task_of_its_own, stops_the_loop)],
                         ["SystemExit: left", "SystemExit: left", "KeyboardInterrupt"])

    def test_a_coroutine_that_is_stopped_as_soon_as_it_has_begun_cleans_up(self):
        """The signal reaches the main thread before that waits for the coroutine."""
        begin, begun, cleaned = asyncio.run_coroutine_threadsafe, threading.Event(), []
        job = locksley.Job("b", 0, "python")

        def is_stopped_at_once(*args):
            begin(*args)
            begun.wait(DEADLINE_S)
            job.stop("SIGTERM")
            raise locksley.Stopped("SIGTERM")

        @self.app.task
        async def unusual():
            begun.set()
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.01)
                cleaned.append(True)

        with unittest.mock.patch("asyncio.run_coroutine_threadsafe", is_stopped_at_once):
            self.assertEqual(worker.run_job(self.app, job, b'{"task": "unusual"}'), ("cancelled", b"SIGTERM"))
        self.assertEqual(cleaned, [True])

    def test_a_function_that_raises_what_is_no_exception(self):
        for kind in (KeyboardInterrupt, GeneratorExit, BaseException):

            def raises():
                raise kind

            self.assertEqual(self.end_of(raises), kind.__name__)

    def test_an_error_that_the_codec_does_not_take(self):
        class Picky:
            loads = staticmethod(locksley.JSON.loads)

            def dumps(self, value):
                if isinstance(value, dict):
                    raise OverflowError
                return locksley.JSON.dumps(value)

        self.app = locksley.App(codec=Picky())

        def divides():
            return 1 / 0

        self.assertEqual(self.end_of(divides), "ZeroDivisionError")

    def test_errors_that_cannot_be_shown(self):
        """By their own fault, by that of the codec, or because there is no memory for it."""

        class Odd(Exception):
            def __str__(self):
                sys.exit(3)

        class Noted(Exception):
            @property
            def __notes__(self):
                raise KeyError

        def raises(error):
            def unusual():
                raise error

            return unusual

        self.assertEqual(self.end_of(raises(Odd())), "Odd")
        self.assertEqual(self.end_of(raises(Noted("a note"))), "Noted: a note")
        self.assertEqual(self.end_of(raises(SyntaxError("m", ("f", 1, 1, 5)))), "SyntaxError: m (f, line 1)")
        with unittest.mock.patch("traceback.format_exception", side_effect=MemoryError):
            self.assertEqual(self.end_of(raises(ValueError("short"))), "ValueError: short")
        self.app = locksley.App(codec=unittest.mock.Mock(dumps=unittest.mock.Mock(side_effect=SystemExit), loads=locksley.JSON.loads))
        self.app.task(name="unusual")(raises(ValueError("secret")))
        self.assertEqual(worker.run_job(self.app, locksley.Job("b", 0, "python"), b'{"task": "unusual"}'), ("error", b"ValueError"))

    def test_a_message_of_any_length_is_cut_and_does_not_hide_the_traceback(self):
        def unusual():
            raise ValueError("x" * 10_000_000)

        self.app.task(unusual)
        _, output = worker.run_job(self.app, locksley.Job("b", 0, "python"), b'{"task": "unusual"}')
        error = locksley.errors.decode_failure("b", 0, "error", output, locksley.JSON)
        self.assertEqual(error.message, "ValueError: ".ljust(4096, "x"))
        self.assertIn("in unusual", error.remote_traceback)

    def test_a_slot_that_ends_unexpectedly_ends_its_worker(self):
        """Else the worker would go on with its BEATs, and the job would run for ever."""
        leases = [lease_of("{}")]
        does = {"JOIN": lambda: JOINED, "CLAIM": lambda: leases.pop() if leases else NIL, "BEAT": array}
        server = StandbyServer(lambda words: does[words[0]]())
        self.addCleanup(server.close)
        done = subprocess.run([sys.executable, "-B", "-c", BROKEN_SLOT, f"redis://{server.address}"], env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertRegex(done.stderr, "(?s)slot 0 ended by an unexpected error, and this worker with it.*a bug")


class Threads(unittest.TestCase):
    """Threads of a task that say something while its job is answered, and after that."""

    def setUp(self):
        self.reader, writer = os.pipe()
        self.addCleanup(os.close, self.reader)
        words = [b"job", b"", b"7", b"b", b"1", b"", b"", b"0"]
        self.local = worker.LocalWorker(tasks.app, io.BytesIO(wire.packed([words, words])), writer)
        self.local._read_ahead()
        self.jobs = [self.local._ahead.get()[0] for _ in range(2)]
        self.local._running = self.jobs[0]

    def test_they_write_neither_into_an_answer_nor_about_the_next_job(self):
        output = b"x" * (1 << 20)  # more than a pipe takes
        answers = threading.Thread(target=self.local._answer, args=(self.jobs[0], "ok", output))
        answers.start()
        read = os.read(self.reader, 1)  # it has begun
        tells = threading.Thread(target=self.jobs[0].save_note, args=("late",))
        tells.start()
        expected = wire.packed([(b"7", "ok", output)])
        while len(read) < len(expected):
            read += os.read(self.reader, len(expected) - len(read))
        for thread in (answers, tells):
            thread.join(DEADLINE_S)
            self.assertFalse(thread.is_alive())
        self.local._running = self.jobs[1]
        self.jobs[0].save_note("later")
        self.jobs[1].save_note("mine")
        os.close(self.local._answers)
        with open(os.dup(self.reader), "rb") as rest:
            self.assertEqual(rest.read(), wire.packed([("note", "mine")]))
        self.assertEqual(read, expected)


class Restarts(StoreTest):
    def test_jobs_that_ran_when_the_daemon_ended_run_again(self):
        handlers = {"python": {**HANDLER_2, "concurrency": 2}, "first": {**HANDLER, "concurrency": 2}}
        settings = {"handlers": handlers, "lanes": {"processes": {"slots": 4}}, "shutdown": {"drain_timeout": "100ms"}}
        self.begin(settings)
        tasks.app.connect(url_of(self.daemon))
        self.addCleanup(tasks.app.close)
        batches = [tasks.app.named(name, handler=handler).starmap([(str(self.store / f"{name}-{handler}"), 3600)])
                   for name in ("sleeps", "sleeps_as_a_coroutine") for handler in handlers]
        wait_for("the jobs to begin", lambda: len(list(self.store.glob("*-began"))) == len(batches))
        self.stop(75)  # the jobs are left
        self.begin(settings)
        tasks.app.connect(url_of(self.daemon))
        for batch in batches:
            wait_for("the job to run again", lambda: batch.job(0).attempt == 2 or batch.status().is_over)
            self.assertEqual((batch.status().failed, batch.job(0).attempt), (0, 2))


if __name__ == "__main__":
    unittest.main()
