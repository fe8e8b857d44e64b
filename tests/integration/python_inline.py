#!/usr/bin/python3
"""App.inline() of the Python package: tests of programs without a daemon."""

import asyncio
import pathlib
import sys
import threading
import types
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S
from python_tasks import locksley, tasks


class Inline(unittest.TestCase):
    def test_the_same_without_a_daemon(self):
        before = tasks.app.transport
        with tasks.app.inline():
            self.assertEqual(list(tasks.identity.map([b"a", (1, 2)]).values()), [b"a", [1, 2]])
            batch = tasks.fails.map(range(30_000, 30_003))
            self.assertEqual([(error.attempt, error.exception) for error in batch.failed()], [(3, "ValueError")] * 3)
            self.assertEqual((batch.retry(1), batch.wait().failed, batch.status().retried), (1, 3, 8))
            self.assertEqual(tasks.identity.map(range(5000)).status().ok, 5000)
            status = tasks.identity.map([1], for_="acme", slots=3).status()
            self.assertEqual((status.customer, status.slots, batch.status().customer, batch.status().slots), ("acme", 3, "", 0))
            with locksley.Executor(tasks.app) as pool:
                self.assertEqual(list(pool.map(tasks.identity, range(20))), list(range(20)))
            self.assertEqual((batch.job(2).status, batch.log(2)), ("error", ""))
            self.assertIn(b"30002", batch.job(2).payload)
            with self.assertRaisesRegex(locksley.Refused, "has 3 jobs"):
                batch.job(3)
            with self.assertRaisesRegex(locksley.LocksleyError, "no job of which a result is kept"):
                tasks.identity.map([]).result()
            with self.assertRaisesRegex(TypeError, "not JSON"):
                tasks.identity.submit(object())
            with self.assertRaisesRegex(locksley.Refused, "EXISTS"):
                tasks.identity.map([1], id=batch.id)
        self.assertIs(tasks.app.transport, before)

    def test_progress_has_the_bar_of_tqdm_or_says_that_there_is_none(self):
        with tasks.app.inline():
            batch, bar = tasks.identity.map("abc", name="letters"), unittest.mock.Mock()
            with unittest.mock.patch.dict(sys.modules, tqdm=types.SimpleNamespace(tqdm=bar)):
                self.assertEqual([result.value for result in batch.progress(leave=False)], ["a", "b", "c"])
            bar.assert_called_once_with(total=3, desc="letters", unit="job", leave=False)
            self.assertEqual([call[0] for call in bar.return_value.method_calls], ["update"] * 3 + ["close"])
            with unittest.mock.patch.dict(sys.modules, tqdm=None), self.assertLogs("locksley", "WARNING") as said:
                self.assertEqual([result.value for result in batch.progress()], ["a", "b", "c"])
            self.assertRegex(said.output[0], "no bar: tqdm is not installed")

    def test_a_stream_that_was_interrupted_goes_on(self):
        def items():
            yield from range(11_000)  # more than a chunk
            raise KeyboardInterrupt

        with tasks.app.inline():
            with self.assertRaises(KeyboardInterrupt):
                tasks.identity.map(items(), id="mine")
            for _ in range(2):
                self.assertEqual(tasks.identity.map(range(12_000), id="mine").status().ok, 12_000)

    def test_tasks_that_submit_tasks(self):
        """And ask for their own batch."""
        app = locksley.App()

        @app.task
        async def leaf(number):
            return number + 1

        @app.task
        async def tree(number):
            if await app.batch(locksley.current_job().batch).astatus():
                return await (await leaf.asubmit(number)).aresult()

        @app.task
        def plain(number):
            return app.batch(locksley.current_job().batch).status().jobs, tree.submit(number).result()

        found = []
        with app.inline():
            asks = threading.Thread(target=lambda: found.append(list(plain.map([1, 2]).values())), daemon=True)
            asks.start()
            asks.join(DEADLINE_S)
        self.assertEqual(found, [[[0, 2], [1, 3]]])

    def test_with_asyncio(self):
        async def main():
            batch = await tasks.coroutine.amap(range(3))
            return [value async for value in batch.avalues()], (await batch).state

        with tasks.app.inline():
            self.assertEqual(asyncio.run(main()), ([0, 1, 2], "done"))


if __name__ == "__main__":
    unittest.main()
