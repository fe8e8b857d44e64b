#!/usr/bin/python3
"""The Python package under asyncio: what a program cancels ends at once, whatever it was about to hear."""

import asyncio
import pathlib
import sys
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest
from python_package import echo_app
from python_tasks import url_of

from locksley import wire


class Cancellations(DaemonTest):
    def setUp(self):
        self.app, self.echo = echo_app(url_of(self.start()))

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
                batch = self.app.named("x", handler="sleep", raw=True)
                long = await batch.asubmit(b"3600000")
                self.assertTrue(await self.is_obeyed(long.await_end(), turns))
                await long.acancel()

        asyncio.run(main())

    def test_a_cancellation_is_obeyed_where_the_connection_cannot_be_closed(self):
        """As with TLS, and a daemon that hangs."""

        async def fails(_):
            raise wire.redis.TimeoutError("the connection did not close in time")

        async def main():
            batch = await self.app.named("x", handler="sleep", raw=True).asubmit(b"3600000")
            task = asyncio.ensure_future(batch.await_end())
            await asyncio.sleep(0.05)
            with unittest.mock.patch.object(wire.redis_asyncio.Connection, "disconnect", fails):
                self.assertTrue(await self.is_obeyed(task, 1))
                await asyncio.sleep(0.05)  # for what it was about to do
            await batch.acancel()

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
