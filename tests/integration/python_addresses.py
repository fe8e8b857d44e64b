#!/usr/bin/python3
"""The Python package where one of several daemons serves: standbys, daemons that are about to take over, and a daemon that is killed while another
one starts on its store at another address."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from late_proxy import LateProxy
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for
from python_tasks import ENVIRONMENT, locksley, tasks
from remote_worker import port_for_workers, wait_for_machines
from scratch import scratch
from standby_server import LOADING, StandbyServer, readonly
from store_daemon import StoreTest
from users import PASSWORD, UsersTest

from locksley.wire import Addresses

NOWHERE = "127.0.0.1:1"


def address_of(daemon):
    return f"{daemon.host}:{daemon.port}"


def job_of(value):
    """What the handler `echo` returns for identity(value)."""
    return {"task": "identity", "args": [value]}


class Lists(unittest.TestCase):
    def test_the_addresses_of_a_url(self):
        def turns(urls, *said):
            addresses = Addresses(urls, 7770, {})
            seen = [addresses.url]
            for text in said:
                addresses.turn(addresses.url, text)
                seen.append(addresses.url)
            return seen

        a, b, c = "redis://u:p%2C@a:7770/0", "redis://u:p%2C@b:7/0", "redis://u:p%2C@c:9/0"
        several = "redis://u:p%2C@a,b:7/0"
        self.assertEqual(turns(several, "no answer", "no answer"), [a, b, a])
        self.assertEqual(turns([a, b], "no answer", "no answer"), [a, b, a])
        self.assertEqual(turns(several, "READONLY the active daemon is c:9", "no answer", "READONLY the active daemon is c:9", "no answer"), [a, c, b, c, a])
        self.assertEqual(turns(several, "READONLY the active daemon is a:7770"), [a, b])  # it says that of itself
        self.assertEqual(turns("rediss://[::1]:5,[::2]", "no answer"), ["rediss://[::1]:5", "rediss://[::2]:7770"])
        self.assertEqual(turns(["a:7,b", "redis://c"], "no answer", "no answer"), ["redis://a:7", "redis://b:7770", "redis://c:7770"])

    def test_only_the_first_of_several_threads_turns(self):
        addresses = Addresses("redis://a,b,c", 7770, {})
        first = addresses.url
        addresses.turn(first, "no answer")
        addresses.turn(first, "no answer")
        self.assertEqual(addresses.url, "redis://b:7770")


class Standbys(DaemonTest):
    def setUp(self):
        self.daemon = self.start()

    def standby(self, says):
        server = StandbyServer(says)
        self.addCleanup(server.close)
        return server

    def task_at(self, *addresses, **options):
        self.app = locksley.App("redis://" + ",".join(addresses), handler="echo", **options)
        self.addCleanup(self.app.close)
        return self.app.task(tasks.identity.function)

    def ids(self, server):
        """Of the batches that it was asked to accept."""
        return {words[words.index("ID") + 1] for words in server.heard if words[0] in ("SUBMIT", "OPEN")}

    def test_a_standby_names_the_daemon_that_serves(self):
        server = self.standby(lambda _: readonly(address_of(self.daemon)))
        for addresses in ([server.address], [server.address, address_of(self.daemon)], [NOWHERE, server.address]):
            server.heard.clear()
            batch = self.task_at(*addresses).map(range(20))
            self.assertEqual(list(batch.values()), list(map(job_of, range(20))))
            self.assertEqual(self.ids(server), {batch.id})
            self.assertEqual(len(server.heard), 1)  # from then on it is left alone

    def test_one_that_names_a_daemon_which_is_gone(self):
        server = self.standby(lambda _: readonly(NOWHERE))
        self.assertEqual(self.task_at(server.address, address_of(self.daemon)).submit(1).result(), job_of(1))

    def test_one_that_takes_over(self):
        """It says LOADING a few times, and then that another one is faster."""
        answers = [LOADING] * 3
        server = self.standby(lambda _: answers.pop() if answers else readonly(address_of(self.daemon)))
        batch = self.task_at(server.address).map(range(20_000))
        self.assertEqual(batch.wait(DEADLINE_S).jobs, 20_000)
        self.assertEqual((self.ids(server), len(server.heard)), ({batch.id}, 4))
        self.assertEqual([status["id"] for status in self.connect(self.daemon).listed()], [batch.id])

    def test_one_that_takes_over_and_says_so_at_the_log_in(self):
        answers = [LOADING] * 2
        server = self.standby(lambda _: answers.pop() if answers else readonly(address_of(self.daemon)))
        server.connection_commands = {}
        self.assertEqual(self.task_at(server.address, client_name="shop").submit(1).result(), job_of(1))
        self.assertEqual(answers, [])

    def test_with_asyncio(self):
        answers = [LOADING]
        server = self.standby(lambda _: answers.pop() if answers else readonly(address_of(self.daemon)))
        identity = self.task_at(NOWHERE, server.address)

        async def main():
            batch = await identity.amap("ab")
            values = [value async for value in batch.avalues()]
            await self.app.aclose()
            return values

        self.assertEqual(asyncio.run(main()), [job_of("a"), job_of("b")])

    def test_patience_ends(self):
        for answer, code in ((LOADING, "LOADING"), (readonly(NOWHERE), "READONLY")):
            server = self.standby(lambda _, answer=answer: answer)
            with self.assertRaises(locksley.Refused) as caught:
                self.task_at(server.address, patience=0).submit(1)
            self.assertEqual(caught.exception.code, code)


class LogIns(UsersTest):
    def asks(self, url, **options):
        """The code of the refusal of a question."""
        app = locksley.App(url, **options)
        self.addCleanup(app.close)
        with self.assertRaises(locksley.Refused) as caught:
            app.batch("nosuch").status()
        return caught.exception.code

    def test_the_password_of_the_environment(self):
        daemon = self.start_with(alice={}, default={})
        host, right = address_of(daemon), urllib.parse.quote(PASSWORD.format("alice"))
        with unittest.mock.patch.dict(os.environ, LOCKSLEY_PASSWORD=PASSWORD.format("alice")):
            for url in (f"redis://alice@{host}", f"redis://alice@{NOWHERE},{host}"):
                with unittest.mock.patch.dict(os.environ, LOCKSLEY_URL=url):
                    self.assertEqual((self.asks(url), self.asks(None)), ("NOBATCH", "NOBATCH"))
            self.assertEqual(self.asks(f"redis://{host}", username="alice"), "NOBATCH")
            # Another one comes before it.
            self.assertEqual(self.asks(f"redis://alice:wrong@{host}"), "WRONGPASS")
            self.assertEqual(self.asks(f"redis://alice@{host}", password="wrong"), "WRONGPASS")
        with unittest.mock.patch.dict(os.environ, LOCKSLEY_PASSWORD="wrong"):
            self.assertEqual(self.asks(f"redis://alice:{right}@{host}"), "NOBATCH")
            self.assertEqual(self.asks(f"redis://alice@{host}", password=PASSWORD.format("alice")), "NOBATCH")
        with unittest.mock.patch.dict(os.environ, LOCKSLEY_PASSWORD=PASSWORD.format("default")):  # as the command line
            self.assertEqual((self.asks(f"redis://{host}"), self.asks(f"redis://{address_of(self.start())}")), ("NOBATCH", "NOBATCH"))

    def test_a_refusal_says_where_the_log_in_comes_from(self):
        daemon = self.start_with(alice={})
        for url in (f"redis://{address_of(daemon)}", f"redis://alice@{address_of(daemon)}"):
            app = locksley.App(url)
            self.addCleanup(app.close)
            with self.assertRaisesRegex(locksley.Refused, r"^(NOAUTH|WRONGPASS) .*[^.]\. Log in by .*LOCKSLEY_PASSWORD"):
                app.batch("nosuch").status()

    def test_a_worker_has_the_password_of_the_environment(self):
        settings, renderer = {"workers": {"port": 0}, "handlers": {"far": {"remote": True}}}, {"commands": ["work"], "handlers": ["far"]}
        daemon = self.start_with(settings, renderer=renderer, root={"commands": ["read", "admin"]})
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", f"redis://renderer@127.0.0.1:{port_for_workers(daemon)}"]
        worker = subprocess.Popen(command, env={**ENVIRONMENT, "LOCKSLEY_PASSWORD": PASSWORD.format("renderer")})
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        wait_for_machines(self.log_in(daemon, "root"), 1)


class Takeover(StoreTest):
    """The second address leads nowhere until the second daemon is there: it is that of a proxy."""

    settings = {"workers": {"port": 0, "reclaim": "20s"}, "handlers": {"far": {"remote": True}}}

    def setUp(self):
        super().setUp()
        self.begin()

    def proxy(self):
        proxy = LateProxy("127.0.0.1", 1)
        self.addCleanup(proxy.close)
        return proxy

    def take_over(self):
        self.kill()
        self.begin()

    def test_a_map_goes_on_at_another_address(self):
        proxy = self.proxy()
        app = locksley.App(f"redis://{address_of(self.daemon)},{proxy.address}", handler="echo")
        self.addCleanup(app.close)
        identity = app.task(tasks.identity.function)

        def items():
            for item in range(40_000):
                if item == 15_000:
                    self.take_over()
                    proxy.port = self.daemon.port
                yield item

        batch = identity.map(items())
        self.assertEqual(list(batch.values()), list(map(job_of, range(40_000))))
        self.assertEqual((batch.status().jobs, batch.status().ok), (40_000, 40_000))

    def test_what_a_worker_holds_of_another_store_is_dropped(self):
        """There the numbers of its batch and jobs mean others."""
        before, after, another = (scratch(self) for _ in range(3))
        proxy = self.proxy()
        url = f"redis://127.0.0.1:{port_for_workers(self.daemon)},{proxy.address}"
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", url, "--slots", "2"]
        worker = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        self.command("SUBMIT", "far", "JOBS", *[json.dumps({"task": "holds", "args": [str(before)]})] * 2)
        wait_for("the jobs to run", lambda: len(list(before.glob("began-*"))) == 2)
        self.kill()
        self.store = another
        self.begin()
        (after / "go").touch()
        batch = self.command("SUBMIT", "far", "JOBS", *[json.dumps({"task": "holds", "args": [str(after)]})] * 2)
        proxy.port = port_for_workers(self.daemon)
        self.assertEqual(self.command.wait(batch)["ok"], 2)
        self.assertEqual(len(list(after.glob("began-*"))), 2)  # and were not taken for those before

    def test_a_worker_joins_the_daemon_that_serves_and_loses_no_job(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path, proxy = pathlib.Path(folder.name), self.proxy()
        # What it names is no port for workers: the list goes on.
        standby = StandbyServer(lambda _: LOADING if len(standby.heard) % 2 else readonly(address_of(self.daemon)))
        self.addCleanup(standby.close)
        url = f"redis://{standby.address},127.0.0.1:{port_for_workers(self.daemon)},{proxy.address}"
        command = [sys.executable, "-B", "-m", "locksley", "package_tasks:far", "--url", url, "--slots", "4"]
        worker = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        wait_for_machines(self.command, 1)
        self.assertEqual({words[0] for words in standby.heard}, {"JOIN"})
        submit = locksley.App(f"redis://{address_of(self.daemon)}", handler="far")
        batch = submit.named("holds").map([folder.name] * 4)
        submit.close()
        wait_for("the jobs to run", lambda: len(list(path.glob("began-*"))) == 4)
        self.take_over()
        proxy.port = port_for_workers(self.daemon)
        wait_for_machines(self.command, 1)
        (path / "go").touch()
        batch = locksley.App(f"redis://{address_of(self.daemon)}").batch(batch.id)
        self.addCleanup(batch.app.close)
        self.assertEqual(batch.wait(DEADLINE_S).ok, 4)
        self.assertEqual(len(list(path.glob("began-*"))), 4)  # none began twice


if __name__ == "__main__":
    unittest.main()
