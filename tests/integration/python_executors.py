#!/usr/bin/python3
"""The Executor of the Python package: as the executors of concurrent.futures, also where a program ends, forks, or makes mistakes."""

import colorsys
import functools
import math
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest
import unittest.mock
import urllib.parse
from concurrent import futures

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for
from python_package import echo_app, job_of
from python_tasks import ENVIRONMENT, HANDLER, locksley, tasks, url_of
from users import PASSWORD, users

# Its main thread ends long before its jobs have been sent.
ENDS_EARLY = """
import locksley, package_tasks as tasks

pool = locksley.Executor(tasks.app, max_workers=1)
for value in range(20):
    pool.submit(tasks.identity, value).add_done_callback(lambda future: print(future.result()))
print("the end")
"""


class Executors(DaemonTest):
    def setUp(self):
        self.daemon = self.start({"handlers": {"python": HANDLER}, "pool": {"workers": 1}})
        tasks.app.connect(url_of(self.daemon))
        self.addCleanup(tasks.app.close)

    def test_as_in_concurrent_futures(self):
        with locksley.Executor(tasks.app) as pool:
            self.assertEqual(list(pool.map(tasks.identity, range(3000))), list(range(3000)))
            done, _ = futures.wait([pool.submit(tasks.identity, value) for value in "abc"], DEADLINE_S)
            self.assertEqual(sorted(future.result() for future in done), ["a", "b", "c"])
            self.assertIsInstance(pool.submit(tasks.fails, "x").exception(DEADLINE_S), locksley.JobError)
        with self.assertRaises(RuntimeError):
            pool.submit(tasks.identity, 1)
        self.assertEqual(self.connect(self.daemon)("LIST")[1], [])

    def test_of_one_task(self):
        with locksley.Executor(tasks.app, "identity", max_workers=3, weight=7) as pool:
            self.assertEqual((list(pool.map("abc")), pool.submit(4).result(DEADLINE_S)), (["a", "b", "c"], 4))
            [batch] = self.connect(self.daemon).listed()
            self.assertEqual((batch["weight"], batch["name"]), (7, "identity"))

    def test_its_first_argument_may_be_max_workers(self):
        with unittest.mock.patch.dict(os.environ, LOCKSLEY_URL=url_of(self.daemon)):
            with locksley.Executor(2) as pool:
                self.assertEqual(pool.submit(tasks.identity, 4).result(DEADLINE_S), 4)
                self.assertEqual([batch["slots"] for batch in self.connect(self.daemon).listed()], [2])

    def test_options_that_it_cannot_have_are_refused_with_what_takes_their_place(self):
        start, processes = "what stands at the top of the workers' module runs once", "jobs run in processes that the daemon starts"
        said = {"initializer": start, "initargs": start, "mp_context": processes, "max_tasks_per_child": "the handler has `max_jobs`"}
        for name, instead in {"keep": "each result is some future's", **said}.items():
            with self.assertRaisesRegex(TypeError, f"an executor has no option '{name}': {instead}"):
                locksley.Executor(tasks.app, **{name: 1})
        for name, arguments in {"mp_context": (object(),), "initializer": (None, print)}.items():
            with self.assertRaisesRegex(TypeError, f"an executor has no option '{name}'"):
                locksley.Executor(4, *arguments)

    def test_functions_of_a_module_have_a_handler_of_their_own(self):
        pool = {**HANDLER, "worker": [sys.executable, "-B", "-m", "locksley", "colorsys"]}
        daemon = self.start({"handlers": {"python": HANDLER, "pool": pool}})
        app = locksley.App(url_of(daemon))
        self.addCleanup(app.close)
        with locksley.Executor(app, handler="pool") as pool:
            self.assertEqual(list(pool.map(colorsys.rgb_to_hls, [1], [1], [1])), [[0, 1, 0]])
        with locksley.Executor(app) as pool:
            said = pool.submit(colorsys.rgb_to_hls, 1, 1, 1).exception(DEADLINE_S).message
            self.assertIn("no task is named 'colorsys:rgb_to_hls'; there are: ", said)
            self.assertIn(". For functions of the module colorsys: a handler with worker: [python3, -m, locksley, colorsys], and Executor(", said)
            self.assertNotIn("For functions", pool.submit(tasks.identity.function, 1).exception(DEADLINE_S).message)

    def test_cancel(self):
        blocker = self.connect(self.daemon)("SUBMIT", "python", "ID", "blocker", "JOBS", "{}")
        self.connect(self.daemon).wait(blocker)
        with locksley.Executor(tasks.app, max_workers=1) as pool:
            futures_of_pool = [pool.submit(tasks.identity, value) for value in range(500)]
            with pool._changed:  # now some have been sent, perhaps, and none is sent until those after them are cancelled
                futures_of_pool += [pool.submit(tasks.identity, value) for value in range(500, 1000)]
                cancelled = [future.cancel() for future in reversed(futures_of_pool)]
            self.assertTrue(any(cancelled))
            done = [future for future in futures_of_pool if not future.cancelled()]
            self.assertEqual([future.result(DEADLINE_S) for future in done], list(range(len(done))))
        pool = locksley.Executor(tasks.app, max_workers=1)
        more = [pool.submit(tasks.identity, value) for value in range(500)]
        pool.shutdown(cancel_futures=True)
        self.assertTrue(all(future.done() for future in more))

    def test_a_shutdown_while_the_batch_is_opened(self):
        app, task = echo_app(url_of(self.daemon))
        ask, opening, goes_on = app.transport.ask, threading.Event(), threading.Event()

        async def asks(commands):
            if commands[0][0] == "OPEN":
                opening.set()
                goes_on.wait(DEADLINE_S)
            return await ask(commands)

        with unittest.mock.patch.object(app.transport, "ask", asks):
            pool = locksley.Executor(app)
            future = pool.submit(task, b"a")
            self.assertTrue(opening.wait(DEADLINE_S))
            ends = threading.Thread(target=pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
            ends.start()
            wait_for("the future to be cancelled", future.cancelled)
            time.sleep(0.05)  # for a thread that would end too early
            goes_on.set()
            ends.join(DEADLINE_S)
            self.assertFalse(ends.is_alive(), "a thread waits for one that has ended")

    def test_large_payloads_are_sent_in_commands_that_the_daemon_takes(self):
        app, task = echo_app(url_of(self.start({"limits": {"max_command": "16MiB"}})))
        with locksley.Executor(app) as pool:
            values = [str(number) * 3_000_000 for number in range(10)]
            self.assertEqual(list(pool.map(task, values)), [job_of(value) for value in values])
        app.close()

    def test_a_refusal_fails_all(self):
        app = locksley.App(url_of(self.daemon), handler="nosuch")
        task = app.task(tasks.identity.function)
        with locksley.Executor(app) as pool:
            self.assertRegex(str(pool.submit(task, 1).exception(DEADLINE_S)), "NOHANDLER")
        app.close()

    def test_a_user_who_may_not_discard_results_has_all_of_them(self):
        daemon = self.start(users(alice={"commands": ["submit", "read"], "handlers": ["echo"]}))
        password = urllib.parse.quote(PASSWORD.format("alice"))
        app, task = echo_app(f"redis://alice:{password}@{daemon.host}:{daemon.port}")
        self.addCleanup(app.close)
        with locksley.Executor(app) as pool:
            for value in range(5):  # each has a page of its own
                self.assertEqual(pool.submit(task, value).result(DEADLINE_S), job_of(value))
            self.assertEqual(list(pool.map(task, range(3000))), list(map(job_of, range(3000))))

    def ends(self, pool):
        end = threading.Thread(target=pool.shutdown)
        end.start()
        end.join(DEADLINE_S)
        self.assertFalse(end.is_alive())

    def test_a_refusal_in_the_middle_of_a_stream_ends_it(self):
        app, task = echo_app(url_of(self.daemon))
        self.addCleanup(app.close)
        ask = app.transport.ask

        async def refuses(commands):
            if commands[0][0] == "ADDAT" and commands[0][2] > 0:
                raise locksley.Refused("NOPERM", "for the test")
            return await ask(commands)

        with unittest.mock.patch.object(app.transport, "ask", refuses):
            pool = locksley.Executor(app)
            self.assertEqual(pool.submit(task, "a").result(DEADLINE_S), job_of("a"))
            self.assertRegex(str(pool.submit(task, "b").exception(DEADLINE_S)), "NOPERM")
            with self.assertRaisesRegex(futures.BrokenExecutor, "NOPERM"):
                pool.submit(task, "c")
            self.ends(pool)

    def test_jobs_that_are_too_large_fail_alone(self):
        for limits in ({"max_queued_bytes": "1MiB"}, {"max_payload": "1MiB"}):
            app, task = echo_app(url_of(self.start({"limits": limits})))
            self.addCleanup(app.close)
            pool = locksley.Executor(app)
            self.assertEqual(pool.submit(task, "first").result(DEADLINE_S), job_of("first"))
            with pool._changed:  # so that they are sent together
                sent = [pool.submit(task, letter * (2 << 20 if letter.isupper() else 1)) for letter in "aBcDe"]
            found = [str(future.exception(DEADLINE_S) or future.result()["args"][0])[:6] for future in sent]
            self.assertEqual(found, ["a", "TOOBIG", "c", "TOOBIG", "e"])
            self.assertEqual(pool.submit(task, "last").result(DEADLINE_S), job_of("last"))
            self.ends(pool)

    def test_it_outlives_its_batch(self):
        """Which the daemon closes, for one, long after its connection broke."""
        connection = self.connect(self.daemon)
        with locksley.Executor(tasks.app) as pool:
            for value in range(3):
                self.assertEqual(pool.submit(tasks.identity, value).result(DEADLINE_S), value)
                [batch] = connection.listed()
                connection("CLOSE", batch["id"])
                wait_for("the batch to be forgotten", lambda: connection.listed() == [])

    def pool_whose_stream_meets(self, meets):
        """A pool of `echo` whose first job has ended. meets(id) is called once, just before the second ADDAT."""
        app, task = echo_app(url_of(self.daemon))
        self.addCleanup(app.close)
        ask, calls = app.transport.ask, [meets]

        async def asks(commands):
            if commands[0][0] == "ADDAT" and commands[0][2] > 0 and calls:
                calls.pop()(commands[0][1])
            return await ask(commands)

        patch = unittest.mock.patch.object(app.transport, "ask", asks)
        patch.start()
        self.addCleanup(patch.stop)
        pool = locksley.Executor(app)
        self.assertEqual(pool.submit(task, "a").result(DEADLINE_S), job_of("a"))
        return pool, task

    def test_it_outlives_a_batch_that_ends_while_jobs_are_sent(self):
        connection = self.connect(self.daemon)

        def forget(batch):
            connection("CANCEL", batch)
            wait_for("the batch to be forgotten, by the thread that reads", lambda: connection.listed() == [])

        for meets in (lambda batch: connection("CANCEL", batch), lambda batch: connection("CLOSE", batch), forget):
            pool, task = self.pool_whose_stream_meets(meets)
            with pool._changed:  # so that they are sent together
                sent = [pool.submit(task, letter) for letter in "bcd"]
            self.assertEqual([future.result(DEADLINE_S) for future in sent], list(map(job_of, "bcd")))
            self.assertEqual(pool.submit(task, "e").result(DEADLINE_S), job_of("e"))
            self.ends(pool)
        self.assertEqual(connection.listed(), [])

    def test_a_shutdown_cancels_jobs_whose_batch_ended_while_they_were_sent(self):
        pool, task = self.pool_whose_stream_meets(lambda _: pool.shutdown(wait=False, cancel_futures=True))
        with pool._changed:
            sent = [pool.submit(task, letter) for letter in "bcd"]
        self.assertEqual([type(future.exception(DEADLINE_S)) for future in sent], [futures.CancelledError] * 3)
        self.ends(pool)

    def test_it_outlives_a_batch_that_is_full(self):
        app, task = echo_app(url_of(self.start({"limits": {"max_batch_jobs": 100}})))
        self.addCleanup(app.close)
        with locksley.Executor(app) as pool:
            self.assertEqual(list(pool.map(task, range(250))), list(map(job_of, range(250))))
            for value in range(110):
                self.assertEqual(pool.submit(task, value).result(DEADLINE_S), job_of(value))

    def test_batches_that_end_before_they_have_a_job_are_not_opened_for_ever(self):
        app, task = echo_app(url_of(self.daemon))
        self.addCleanup(app.close)
        ask, connection = app.transport.ask, self.connect(self.daemon)

        async def asks(commands):
            if commands[0][0] == "ADDAT":
                connection("CLOSE", commands[0][1])
            return await ask(commands)

        with unittest.mock.patch.object(app.transport, "ask", asks):
            pool = locksley.Executor(app)
            self.assertRegex(str(pool.submit(task, "a").exception(DEADLINE_S)), "^3 batches of this executor ended before they had a job")
            self.ends(pool)

    def test_futures_that_a_shutdown_cancels_are_done(self):
        """Also for futures.wait(), which knows only those that have been notified."""
        pool = locksley.Executor(tasks.app, max_workers=1)
        waiting = [pool.submit(tasks.identity, value) for value in range(100)]
        waits = threading.Thread(target=futures.wait, args=(waiting,), daemon=True)
        waits.start()
        pool.shutdown(cancel_futures=True)
        waits.join(DEADLINE_S)
        self.assertFalse(waits.is_alive())

    def test_a_program_that_ends_without_shutdown_has_all_its_results(self):
        environment = dict(ENVIRONMENT, LOCKSLEY_URL=url_of(self.daemon))

        def has_ended_early():
            """Whether its main thread ended before the first result was there: else that thread had to wait for a processor."""
            done = subprocess.run([sys.executable, "-B", "-c", ENDS_EARLY], capture_output=True, text=True, env=environment, timeout=DEADLINE_S)
            said = done.stdout.splitlines()
            self.assertEqual(([line for line in said if line != "the end"], done.stderr), ([str(value) for value in range(20)], ""))
            return said[0] == "the end"

        wait_for("the main thread to end first", has_ended_early)
        self.assertEqual(self.connect(self.daemon)("LIST")[1], [])

    def test_in_a_process_that_was_forked_it_refuses(self):
        """Its threads are the parent's, so a future would not end."""
        with locksley.Executor(tasks.app) as pool:
            self.assertEqual(pool.submit(tasks.identity, 1).result(DEADLINE_S), 1)
            child = os.fork()
            if child == 0:
                try:
                    pool.submit(tasks.identity, 2)
                except RuntimeError:
                    os._exit(3)
                finally:
                    os._exit(4)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
            self.assertEqual(pool.submit(tasks.identity, 3).result(DEADLINE_S), 3)

    def test_what_no_worker_could_run_is_refused_at_once(self):
        with locksley.Executor(tasks.app) as pool:
            for wrong in (lambda: 1, functools.partial(job_of, 1), pow, "abc".upper, self.setUp, futures.Future.cancel, math.sqrt, os._exit):
                with self.assertRaisesRegex(TypeError, "public functions of a module that its workers serve, not "):
                    pool.submit(wrong)
        session = "import locksley\ndef double(n): return 2 * n\nlocksley.Executor().submit(double, 1)"  # which is in no file
        said = subprocess.run([sys.executable, "-B", "-c", session], capture_output=True, text=True, env=ENVIRONMENT, timeout=DEADLINE_S).stderr
        self.assertRegex(said, "TypeError: an executor runs tasks and public functions of a module that its workers serve, not <function double")
        for workers in (0, -1):
            with self.assertRaisesRegex(ValueError, "max_workers must be greater than 0"):
                locksley.Executor(tasks.app, max_workers=workers)
        with self.assertRaisesRegex(locksley.LocksleyError, "no task is named 'nosuch'; there are: .*identity"):
            locksley.Executor(tasks.app, "nosuch")


if __name__ == "__main__":
    unittest.main()
