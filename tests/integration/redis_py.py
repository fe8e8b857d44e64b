#!/usr/bin/python3
"""redis-py (Debian's python3-redis), unmodified, against a daemon."""

import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import redis
from locksley_daemon import DEADLINE_S, DaemonTest
from resp import pairs

WAIT_MS = DEADLINE_S * 1000


def status(reply):
    return pairs([part.decode() if isinstance(part, bytes) else part for part in reply])


class RedisPy(DaemonTest):
    def setUp(self):
        self.daemon = self.start()
        self.client = self.make()

    def make(self, **options):
        client = redis.Redis(self.daemon.host, self.daemon.port, socket_timeout=DEADLINE_S, **options)
        self.addCleanup(client.close)
        return client

    def test_submit_wait_results(self):
        call = self.client.execute_command
        batch = call("SUBMIT", "echo", "NAME", "from redis-py", "JOBS", b"a\0\r\n\xff", "b", "")
        done = status(call("WAIT", batch, WAIT_MS))
        self.assertEqual((done["state"], done["ok"], done["name"]), ("done", 3, "from redis-py"))
        cursor, rows = call("RESULTS", batch)
        self.assertEqual(cursor, b"0")
        self.assertEqual(sorted(rows), [[0, b"ok", b"a\0\r\n\xff"], [1, b"ok", b"b"], [2, b"ok", b""]])
        self.assertEqual(call("RUN", "echo", "JOBS", "x"), [[b"ok", b"x"]])

    def test_a_million_payloads_in_one_command(self):
        count = 1_000_000
        batch = self.client.execute_command("SUBMIT", "echo", "JOBS", *map(str, range(count)))
        self.assertEqual(status(self.client.execute_command("WAIT", batch, WAIT_MS))["ok"], count)
        seen, cursor = 0, b"0"
        while True:
            cursor, rows = self.client.execute_command("RESULTS", batch, "FROM", cursor, "COUNT", 100_000)
            self.assertTrue(all(index == int(output) for index, _, output in rows))
            seen += len(rows)
            if cursor == b"0":
                break
        self.assertEqual(seen, count)

    def test_a_pipeline(self):
        with self.client.pipeline(transaction=False) as pipeline:
            for i in range(1000):
                pipeline.execute_command("SUBMIT", "echo", "ID", f"p{i}", "JOBS", i)
                pipeline.execute_command("WAIT", f"p{i}", WAIT_MS)
                pipeline.execute_command("RESULTS", f"p{i}")
            replies = pipeline.execute()
        for i in range(1000):
            batch, done, results = replies[3 * i : 3 * i + 3]
            self.assertEqual((batch, status(done)["state"]), (b"p%d" % i, "done"))
            self.assertEqual(results, [b"0", [[0, b"ok", b"%d" % i]]])

    def test_what_it_says_of_connections(self):
        client = self.make(client_name="shop", decode_responses=True)
        self.assertEqual((client.client_info()["name"], [one["name"] for one in client.client_list()][-1]), ("shop", "shop"))

    def test_an_error_in_a_pipeline_spoils_only_itself(self):
        with self.client.pipeline(transaction=False) as pipeline:
            pipeline.ping().execute_command("SUBMIT", "nosuch", "JOBS", "a").echo("still here")
            replies = pipeline.execute(raise_on_error=False)
        self.assertEqual((replies[0], replies[2]), (True, b"still here"))
        self.assertRegex(str(replies[1]), "^NOHANDLER")

    def test_a_pipeline_is_a_transaction_by_default(self):
        with self.client.pipeline() as pipeline:
            for i in range(100):
                pipeline.execute_command("SUBMIT", "echo", "ID", f"t{i}", "JOBS", i)
            pipeline.ping().execute_command("WAIT", "t0", WAIT_MS)
            replies = pipeline.execute()
        self.assertEqual(replies[:100], [b"t%d" % i for i in range(100)])
        self.assertTrue(replies[100])
        self.assertEqual(status(replies[101])["id"], "t0")
        for i in range(100):
            self.assertEqual(status(self.client.execute_command("WAIT", f"t{i}", WAIT_MS))["ok"], 1)

    def test_an_error_in_a_transaction_is_that_commands_and_the_others_run(self):
        with self.client.pipeline() as pipeline:
            pipeline.execute_command("SUBMIT", "echo", "ID", "before", "JOBS", "a").execute_command("SUBMIT", "nosuch", "JOBS", "a")
            replies = pipeline.echo("after").execute(raise_on_error=False)
        self.assertEqual((replies[0], replies[2]), (b"before", b"after"))
        self.assertRegex(str(replies[1]), "^NOHANDLER")

    def test_a_transaction_with_a_wrong_command_runs_nothing(self):
        with self.client.pipeline() as pipeline, self.assertRaisesRegex(redis.ResponseError, "unknown command 'NOSUCH'"):
            pipeline.execute_command("SUBMIT", "echo", "ID", "never", "JOBS", "a").execute_command("NOSUCH").execute()
        with self.assertRaisesRegex(redis.ResponseError, "NOBATCH"):
            self.client.execute_command("STATUS", "never")
        with self.client.pipeline() as pipeline, self.assertRaisesRegex(redis.ResponseError, "WATCH is not supported"):
            pipeline.watch("key")

    def test_events(self):
        pubsub = self.client.pubsub()
        self.addCleanup(pubsub.close)
        pubsub.subscribe("batch:told")
        self.assertEqual(pubsub.get_message(timeout=DEADLINE_S)["type"], "subscribe")
        self.client.execute_command("SUBMIT", "echo", "ID", "told", "JOBS", "a")
        kinds, end = [], time.monotonic() + DEADLINE_S
        while "done" not in kinds:
            self.assertLess(time.monotonic(), end, f"waited for the event done; there came {kinds}")
            message = pubsub.get_message(timeout=1)
            if message:
                self.assertEqual((message["type"], message["channel"]), ("message", b"batch:told"))
                kinds.append(json.loads(message["data"])["event"])
        # It has progress if its end comes late.
        self.assertEqual([kind for kind in kinds if kind != "progress"], ["accepted", "started", "done"])

    def test_threads_share_a_pool_of_connections(self):
        wrong = []

        def work(number):
            for i in range(50):
                reply = self.client.execute_command("RUN", "echo", "JOBS", f"{number}/{i}")
                if reply != [[b"ok", b"%d/%d" % (number, i)]]:
                    wrong.append(reply)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            self.assertFalse(thread.is_alive(), f"waited {DEADLINE_S} s for a thread of commands to end")
        self.assertEqual(wrong, [])

    def test_its_own_commands(self):
        client = self.make(client_name="tester", db=0, decode_responses=True)
        self.assertTrue(client.ping())
        self.assertEqual(client.echo("x"), "x")
        self.assertEqual(client.client_getname(), "tester")
        self.assertEqual(client.info()["role"], "master")
        self.assertIn("tester", [one["name"] for one in client.client_list()])
        self.assertEqual(client.config_get("save"), {"save": ""})
        self.assertGreater(client.command_count(), 30)
        self.assertIn("submit", client.command())
        with self.assertRaisesRegex(redis.ResponseError, "DB index is out of range"):
            self.make(db=3).ping()

    def test_a_password_that_nobody_asked_for(self):
        with self.assertRaisesRegex(redis.RedisError, "without any password configured"):
            self.make(password="x").ping()


if __name__ == "__main__":
    unittest.main()
