#!/usr/bin/python3
"""The Node.js package where one of several daemons serves: standbys, daemons that are about to take over, one that is killed while another one starts on
its store at another address, and, for workers, one that hangs."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import node_package
from late_proxy import LateProxy
from locksley_daemon import DEADLINE_S, DaemonTest, wait_for
from node_package import NODE
from remote_worker import port_for_workers, wait_for_machines
from scratch import scratch
from scripted_daemons import NIL, SILENCE, ScriptedDaemons, reclaimed
from scripted_upstream import array
from standby_server import LOADING, StandbyServer, readonly
from store_daemon import StoreTest
from time_limits import with_growing_limits

NOWHERE = "127.0.0.1:1"
# Prints the batch's id, and how many results are right; or the code of the error.
SUBMIT = """
import { Locksley } from '@locksley/client';

const [url, jobs, patience] = process.argv.slice(2);
const queue = new Locksley(url, { handler: 'echo', patience: Number(patience) });
try {
  const batch = await queue.named('identity').map(Array(Number(jobs)).keys());
  const values = await batch.values();
  console.log(JSON.stringify([batch.id, values.filter((value, n) => value.args[0] === n).length]));
} catch (error) {
  console.log(JSON.stringify(error.code));
}
queue.close();
"""
ADDRESSES = """
import { Addresses } from './node_modules/@locksley/client/lib/addresses.js';

function turns(urls, ...said) {
  const addresses = new Addresses(urls, 7770);
  return [addresses.url, ...said.map((text) => (addresses.turn(addresses.url, text), addresses.url))];
}
const [a, b, c] = ['redis://u:p%2C@a:7770/0', 'redis://u:p%2C@b:7/0', 'redis://u:p%2C@c:9/0'];
const several = 'redis://u:p%2C@a,b:7/0';
const c9 = 'READONLY the active daemon is c:9';
const addresses = new Addresses('redis://a,b,c', 7770);
for (const first = addresses.url, n = [1, 2]; n.pop(); ) addresses.turn(first, 'no answer');
const expected = [
  [turns(several, 'no answer', 'no answer'), [a, b, a]],
  [turns([a, b], 'no answer', 'no answer'), [a, b, a]],
  [turns(several, c9, 'no answer', c9, 'no answer'), [a, c, b, c, a]],
  [turns(several, 'READONLY the active daemon is a:7770'), [a, b]],
  [turns('rediss://[::1]:5,[::2]', 'no answer'), ['rediss://[::1]:5', 'rediss://[::2]:7770']],
  [addresses.url, 'redis://b:7770'],
];
console.log(expected.map(([found, right]) => (String(found) === String(right) ? 'right' : found)).join(' '));
"""
# A worker of one slot. Its job runs until it is told to go on, and returns the attempt that it was told.
WORKER = """
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Locksley, RemoteWorker, currentJob } from '@locksley/client';

const [url, go, replyMs] = process.argv.slice(2);
const app = new Locksley(undefined, { handler: 'far' });
app.task('attempt', async () => {
  while (!existsSync(go)) await sleep(5);
  return currentJob().attempt;
});
const worker = Object.assign(new RemoteWorker(app, url, { name: 'one' }), { replyMs: Number(replyMs) });
process.once('SIGTERM', () => worker.stop());
await worker.run();
process.exit(0);
"""

def setUpModule():
    node_package.setUpModule()
    (node_package.INSTALLED / "worker.mjs").write_text(WORKER)
    (node_package.INSTALLED / "submit.mjs").write_text(SUBMIT)
    (node_package.INSTALLED / "addresses.mjs").write_text(ADDRESSES)


def address_of(daemon):
    return f"{daemon.host}:{daemon.port}"


def output_of(*words):
    done = subprocess.run([NODE, *words], cwd=node_package.INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout, done.stderr
    return done.stdout.strip()


class Lists(unittest.TestCase):
    def test_the_addresses_of_a_url(self):
        self.assertEqual(output_of("addresses.mjs"), " ".join(["right"] * 6))


class Standbys(DaemonTest):
    def setUp(self):
        self.daemon = self.start()

    def standby(self, says):
        server = StandbyServer(says)
        self.addCleanup(server.close)
        return server

    def submit(self, *addresses, jobs=20, patience=60_000):
        return json.loads(output_of("submit.mjs", "redis://" + ",".join(addresses), str(jobs), str(patience)))

    def ids(self, server):
        """Of the batches that it was asked to accept."""
        return {words[words.index("ID") + 1] for words in server.heard if words[0] in ("SUBMIT", "OPEN")}

    def test_a_standby_names_the_daemon_that_serves(self):
        server = self.standby(lambda _: readonly(address_of(self.daemon)))
        for addresses in ([server.address], [server.address, address_of(self.daemon)], [NOWHERE, server.address]):
            server.heard.clear()
            id, right = self.submit(*addresses)
            self.assertEqual((right, self.ids(server), len(server.heard)), (20, {id}, 1))  # from then on it is left alone

    def test_one_that_names_a_daemon_which_is_gone(self):
        server = self.standby(lambda _: readonly(NOWHERE))
        self.assertEqual(self.submit(server.address, address_of(self.daemon))[1], 20)

    def test_one_that_takes_over(self):
        """It says LOADING a few times, and then that another one is faster."""
        answers = [LOADING] * 3
        server = self.standby(lambda _: answers.pop() if answers else readonly(address_of(self.daemon)))
        id, right = self.submit(server.address, jobs=20_000)
        self.assertEqual((right, self.ids(server), len(server.heard)), (20_000, {id}, 4))
        self.assertEqual([status["id"] for status in self.connect(self.daemon).listed()], [id])

    def test_patience_ends(self):
        for answer, code in ((LOADING, "LOADING"), (readonly(NOWHERE), "READONLY")):
            server = self.standby(lambda _, answer=answer: answer)
            self.assertEqual(self.submit(server.address, patience=0), code)


class Daemons(ScriptedDaemons, unittest.TestCase):
    def setUp(self):
        super().setUp()
        self.PAYLOAD = node_package.call("attempt")
        self.go = scratch(self) / "go"

    def let_go(self):
        self.go.touch()

    def stop_worker(self):
        self.worker.terminate()

    def start_worker(self, addresses, reply_s=DEADLINE_S):
        command = [NODE, "worker.mjs", "redis://" + ",".join(addresses), str(self.go), str(int(1000 * reply_s))]
        self.worker = subprocess.Popen(command, cwd=node_package.INSTALLED, stderr=subprocess.DEVNULL)
        self.addCleanup(self.worker.wait)
        self.addCleanup(self.worker.kill)

    def run_worker(self, addresses, **limits):
        self.start_worker(addresses, **limits)
        self.assert_it_ends()

    def assert_it_ends(self):
        self.assertEqual(self.worker.wait(DEADLINE_S), 0)

    def test_a_daemon_that_hangs_at_the_start_or_at_the_end(self):
        def attempt(ms, _):
            """Whether the worker left the daemon that replies. It goes to the other one, too, if the machine is too slow for a reply in this time."""
            self.doCleanups()
            self.setUp()
            silent, leaves = (self.says(0, CLAIM=lambda _: time.sleep(0.05) or NIL, **{name: lambda _: SILENCE}) for name in ("JOIN", "LEAVE"))
            servers = self.servers_of(silent, leaves)
            self.start_worker([server.address for server in servers], reply_s=ms / 1000)
            other = servers[1]
            wait_for("the worker to claim from the other", lambda: self.named(other, "CLAIM") or None)
            self.worker.terminate()
            self.assert_it_ends()
            return len(self.named(other, "LEAVE")) == 1

        with_growing_limits(attempt)

    def test_a_worker_that_was_paused_reads_what_has_come_before_it_gives_up(self):
        def attempt(ms, _):
            """Whether the worker has kept its connection. It gives it up, too, if the machine is too slow for a reply in this time."""
            self.doCleanups()
            self.setUp()
            paused = threading.Event()

            def go_on():
                self.worker.send_signal(signal.SIGCONT)
                self.let_go()

            def beat(_):
                if not paused.is_set():
                    self.worker.send_signal(signal.SIGSTOP)
                    paused.set()
                    threading.Timer(1.5 * ms / 1000, go_on).start()
                return array()

            [server] = self.work_for(self.says(1, BEAT=beat, RECLAIM=lambda _: reclaimed("again", 1)), reply_s=ms / 1000)
            self.assertEqual(self.settled, ["1"])
            return paused.is_set() and len(self.named(server, "JOIN")) == 1

        with_growing_limits(attempt)


class Takeover(StoreTest):
    """The second address leads nowhere until the second daemon is there: it is that of a proxy."""

    JOBS = 40_000
    settings = {"workers": {"port": 0, "reclaim": "20s"}, "handlers": {"far": {"remote": True}}}

    def setUp(self):
        super().setUp()
        self.begin()
        self.proxy = LateProxy("127.0.0.1", 1)
        self.addCleanup(self.proxy.close)

    def take_over(self):
        self.kill()
        self.begin()

    def test_a_map_goes_on_at_another_address(self):
        words = [NODE, "stream.mjs", f"redis://{address_of(self.daemon)},{self.proxy.address}", self.JOBS, 15_000]
        with subprocess.Popen(list(map(str, words)), cwd=node_package.INSTALLED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            self.assertEqual(program.stdout.readline(), "kill\n")
            self.take_over()
            self.proxy.port = self.daemon.port
            program.stdin.write("\n\n")  # and half way through the results nothing is killed
            program.stdin.flush()
            self.assertEqual([program.stdout.readline(), json.loads(program.stdout.readline())], ["kill\n", [self.JOBS, 0, self.JOBS, self.JOBS]])

    def test_what_a_worker_holds_of_another_store_is_dropped(self):
        """There the numbers of its batch and jobs mean others."""
        before, after, another = (scratch(self) for _ in range(3))
        url = f"redis://127.0.0.1:{port_for_workers(self.daemon)},{self.proxy.address}"
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", url, "--slots", "2"]
        worker = subprocess.Popen(command, cwd=node_package.INSTALLED, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        self.command("SUBMIT", "far", "JOBS", *[node_package.call("holds", str(before))] * 2)
        wait_for("the jobs to run", lambda: len(list(before.glob("began-*"))) == 2)
        self.kill()
        self.store = another
        self.begin()
        (after / "go").touch()
        batch = self.command("SUBMIT", "far", "JOBS", *[node_package.call("holds", str(after))] * 2)
        self.proxy.port = port_for_workers(self.daemon)
        self.assertEqual(self.command.wait(batch)["ok"], 2)
        self.assertEqual(len(list(after.glob("began-*"))), 2)  # and were not taken for those before

    def test_a_worker_joins_the_daemon_that_serves_and_loses_no_job(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        # What it names is no port for workers: the list goes on.
        standby = StandbyServer(lambda _: LOADING if len(standby.heard) % 2 else readonly(address_of(self.daemon)))
        self.addCleanup(standby.close)
        url = f"redis://{standby.address},127.0.0.1:{port_for_workers(self.daemon)},{self.proxy.address}"
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", url, "--slots", "4"]
        worker = subprocess.Popen(command, cwd=node_package.INSTALLED, stderr=subprocess.DEVNULL)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        wait_for_machines(self.command, 1)
        self.assertEqual({words[0].upper() for words in standby.heard}, {"JOIN"})
        batch = self.command("SUBMIT", "far", "JOBS", *[node_package.call("holds", folder.name)] * 4)
        wait_for("the jobs to run", lambda: len(list(path.glob("began-*"))) == 4)
        self.take_over()
        self.proxy.port = port_for_workers(self.daemon)
        wait_for_machines(self.command, 1)
        (path / "go").touch()
        self.assertEqual(self.command.wait(batch)["ok"], 4)
        self.assertEqual(len(list(path.glob("began-*"))), 4)  # none began twice


if __name__ == "__main__":
    unittest.main()
