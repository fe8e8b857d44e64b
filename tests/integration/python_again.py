#!/usr/bin/python3
"""Programs with the Python package that are run again with the same id for a batch, and streams that do not go through at once."""

import asyncio
import itertools
import pathlib
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for
from python_package import echo_app
from python_tasks import locksley, url_of
from users import PASSWORD, UsersTest

from locksley import wire
from locksley.app import option_words, stream


class Again(DaemonTest):
    """One that has so few jobs that a single command has room for them."""

    def setUp(self):
        app, self.identity = echo_app(url_of(self.start()))
        self.addCleanup(app.close)

    def slowly(self, items):
        """Streams them in, as if each had taken long to come; one that is None interrupts the program."""

        def payloads():
            for item in items:
                if item is None:
                    raise KeyboardInterrupt
                yield [self.identity.payload((item,), {})]

        wire.now(stream(self.identity.app.transport.ask, "echo", "mine", option_words({"name": "identity"}), payloads()))

    def mapped(self, items):
        return [value["args"][0] for value in self.identity.map(items, id="mine").values()]

    def test_it_adds_what_is_missing_though_the_jobs_came_slowly_at_first(self):
        for before in ([None], [0, None], [0, 1, 2, None]):
            with self.assertRaises(KeyboardInterrupt):
                self.slowly(before)
        self.assertEqual(self.mapped(range(6)), list(range(6)))
        self.assertEqual(self.mapped(range(6)), list(range(6)))  # complete, and closed
        with self.assertRaisesRegex(locksley.LocksleyError, "CLOSED|has 6 jobs, not these 7|OFFSET"):
            self.identity.map(range(7), id="mine")

    def test_other_jobs_under_the_same_id_are_refused(self):
        self.assertEqual((self.mapped("abc"), self.mapped("abc")), (["a", "b", "c"], ["a", "b", "c"]))
        for other in ("abd", "abcd", ""):
            with self.assertRaisesRegex(locksley.Refused, "EXISTS"):
                self.identity.map(other, id="mine")


class Interrupted(UsersTest):
    """While the jobs are streamed in, under an id that the program did not choose."""

    def wait_for_states(self, connection, *states):
        """Of all batches, the newest first. Jobs of one that was cancelled may still run."""
        wait_for(f"batches that are {states}", lambda: [batch["state"] for batch in connection.listed()] == [*states])

    def interrupt(self, task, kind, **options):
        def items():
            yield from range(11_000)  # two chunks, and a part of one
            raise kind("in the middle")

        with self.assertRaisesRegex(kind, "in the middle"):
            task.map(items(), **options)

    def test_a_batch_that_is_not_known_is_cancelled_and_another_one_stays_open(self):
        daemon = self.start()
        app, task = echo_app(url_of(daemon))
        self.addCleanup(app.close)
        for kind in (ValueError, KeyboardInterrupt):
            self.interrupt(task, kind)
        self.wait_for_states(self.connect(daemon), "cancelled", "cancelled")
        self.interrupt(task, ValueError, id="mine")
        self.wait_for_states(self.connect(daemon), "open", "cancelled", "cancelled")

    def test_it_is_closed_for_a_user_who_may_not_cancel(self):
        daemon = self.start_with(alice={"commands": ["submit", "read"], "handlers": ["echo"]})
        app, task = echo_app(f"redis://alice:{urllib.parse.quote(PASSWORD.format('alice'))}@{daemon.host}:{daemon.port}")
        self.addCleanup(app.close)
        self.interrupt(task, ValueError)
        self.wait_for_states(self.log_in(daemon, "alice"), "done")

    def test_a_coroutine_that_is_cancelled(self):
        daemon = self.start()
        app, task = echo_app(url_of(daemon))

        async def main():
            is_streaming, items = asyncio.Event(), itertools.count()

            def watched():
                for item in items:
                    if item == 12_000:
                        is_streaming.set()
                    yield item

            streams = asyncio.ensure_future(task.amap(watched(), keep="none"))
            await is_streaming.wait()
            streams.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await streams

        asyncio.run(main())
        self.wait_for_states(self.connect(daemon), "cancelled")


class Parts(UsersTest):
    """Streams of a user who has room for fewer jobs than the package sends at a time."""

    def begin(self, settings=None):
        self.daemon = self.start_with(settings, alice={"commands": ["submit", "read"], "handlers": ["echo"], "max_queued_jobs": 300})
        password = urllib.parse.quote(PASSWORD.format("alice"))
        app, task = echo_app(f"redis://alice:{password}@{self.daemon.host}:{self.daemon.port}")
        self.addCleanup(app.close)
        return task

    def test_a_user_may_have_room_for_few_jobs(self):
        task = self.begin()
        for count in (1000, 12_001):  # one command, and a stream
            self.assertEqual([value["args"][0] for value in task.map(range(count)).values()], list(range(count)))

    def test_what_no_part_of_would_help_is_refused_at_once(self):
        task = self.begin({"limits": {"max_batch_jobs": 200, "max_payload": 1000}})
        for items in (range(201), ["a", "x" * 2000]):
            with self.assertRaisesRegex(locksley.Refused, "TOOBIG"):
                task.map(items)
        self.assertEqual(self.log_in(self.daemon, "alice")("LIST")[1], [])


if __name__ == "__main__":
    unittest.main()
