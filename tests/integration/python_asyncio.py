#!/usr/bin/python3
"""The Python package under asyncio: what a program cancels ends at once, whatever it was about to hear; how many connections there are."""

import asyncio
import pathlib
import re
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest
from python_package import echo_app
from python_tasks import url_of

from locksley import wire


class AsyncioTest(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.app, self.echo = echo_app(url_of(self.daemon))
        self.sleeps = self.app.named("x", handler="sleep", raw=True)


class Connections(AsyncioTest):
    def test_many_commands_at_once_have_few_connections_and_do_not_wait_for_those_that_wait_for_jobs(self):
        connection = self.connect(self.daemon)

        async def main():
            long = await self.sleeps.asubmit(b"3600000")
            waits = [asyncio.ensure_future(long.await_end()) for _ in range(100)]
            while "connected_clients:101\r" not in connection("INFO"):  # with that of the test
                await asyncio.sleep(0.01)
            batches = await asyncio.wait_for(asyncio.gather(*map(self.echo.asubmit, range(500))), DEADLINE_S)
            self.assertEqual(len({batch.id for batch in batches}), 500)
            await long.acancel()
            await asyncio.gather(*waits)
            await self.app.aclose()

        asyncio.run(asyncio.wait_for(main(), DEADLINE_S))
        accepted = int(re.search(r"total_connections_received:(\d+)", connection("INFO"))[1])
        self.assertLessEqual(accepted, 1 + 100 + wire._AT_ONCE)


class Cancellations(AsyncioTest):

    async def is_obeyed(self, awaitable, turns):
        """Whether it is cancelled by cancel() after so many turns of the event loop. False if it had ended before that."""
        task = asyncio.ensure_future(awaitable)
        for _ in range(turns):
            await asyncio.sleep(0)
        if task.done():
            return False
        task.cancel()
        await asyncio.wait([task], timeout=DEADLINE_S)
        self.assertTrue(task.cancelled(), f"it goes on, or has ended, although it was cancelled after {turns} turns")
        return True

    def test_a_cancellation_after_any_turn_of_the_event_loop_is_obeyed(self):
        async def main():
            await self.echo.asubmit(0)  # now there is a connection
            for turns in range(100):
                await self.is_obeyed(self.echo.asubmit(1), turns)
                self.assertTrue(await self.is_obeyed(self.echo.amap(range(200_000), keep="none"), turns))
                long = await self.sleeps.asubmit(b"3600000")
                self.assertTrue(await self.is_obeyed(long.await_end(), turns))
                await long.acancel()

        asyncio.run(main())

    def test_a_cancellation_is_obeyed_where_the_connection_cannot_be_closed(self):
        """As with TLS, and a daemon that hangs."""

        async def fails(_):
            raise wire.redis.TimeoutError("the connection did not close in time")

        async def main():
            batch = await self.sleeps.asubmit(b"3600000")
            task = asyncio.ensure_future(batch.await_end())
            await asyncio.sleep(0.05)
            with unittest.mock.patch.object(wire.redis_asyncio.Connection, "disconnect", fails):
                self.assertTrue(await self.is_obeyed(task, 1))
                await asyncio.sleep(0.05)  # for what it was about to do
            await batch.acancel()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
