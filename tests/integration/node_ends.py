#!/usr/bin/python3
"""The Node.js package: programs end when they are done, signals end what waits, and wrong addresses are named."""

import json
import pathlib
import re
import socket
import subprocess
import sys
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import node_package
from locksley_daemon import DEADLINE_S
from node_package import NODE
from users import PASSWORD, UsersTest

HEAD = """
import { Locksley } from '@locksley/client';

const [url] = process.argv.slice(2);
const queue = new Locksley(url, { handler: 'sleep' });
const sleeps = queue.task('sleeps', (ms) => ms, { raw: true });
const HOUR = '3600000';
"""
AFTER_EVENTS = """
const batch = await sleeps.map(['100']);
const end = batch.wait();
await batch.status(); // the listener asks after that, and so hears of the end later
batch.on('progress', () => {});
console.log((await end).ok);
queue.close();
"""
WHILE_IT_RUNS = """
const batch = await sleeps.map([HOUR], { id: 'long' });
batch.on('end', () => console.log('over'));
await batch.status();
queue.close();
console.log((await queue.batch('long').status()).id);
"""
WITHOUT_CLOSE = """
console.log((await (await sleeps.map(['1'])).wait()).ok);
"""
ANOTHER_DAEMON = """
await sleeps.map(['1']);
queue.connect(url);
console.log((await (await sleeps.map(['1'])).wait()).ok);
queue.inline();
queue.close();
"""
ABORTED = """
const began = Date.now();
const reasons = [];
const aborts = async (what) => reasons.push((await what(AbortSignal.timeout(100)).catch((error) => error)).name);
await aborts((signal) => sleeps.map(['1'], { signal }));
await aborts((signal) => queue.batch('b').wait({ signal }));
await aborts((signal) => queue.batch('b').values({ signal }));
console.log(reasons.join(' '), Date.now() - began < 20_000);
process.exit(0);
"""
# A signal that cancels a batch, and a batch that is cancelled without it.
CANCELLED = """
const controller = new AbortController();
const batch = await sleeps.map(['1', HOUR, HOUR, HOUR], { signal: controller.signal });
const [first, ended] = [batch.values().catch((error) => error), batch.wait()];
for await (const { index } of batch) if (index === 0) controller.abort();
console.log((await first).name, (await ended).state, (await first) === controller.signal.reason);
const statuses = [];
for await (const { status, error } of batch.ordered()) statuses.push(status, error?.name);
console.log(statuses.slice(0, 2).join(' '), statuses.slice(2).join(' '));
const other = await sleeps.map([HOUR], { signal: new AbortController().signal });
await other.cancel();
console.log(await other.result().catch((error) => error.name));
queue.close();
"""
ADDRESSES = """
import { Locksley } from '@locksley/client';

const found = [];
for (const url of ['http://queue', 'redis://u:secret@queue:99999', 'redis://', 'redis://queue,:1', 'queue:7770']) {
  try {
    new Locksley(url);
    found.push('right');
  } catch (error) {
    found.push(`${error.name}: ${error.message}`);
  }
}
console.log(JSON.stringify(found));
"""
HTTP = """
await sleeps.map(['1']).catch((error) => console.log(error.name, error.message));
queue.close();
"""
ARGUMENTS = """
import { Locksley } from '@locksley/client';

const queue = new Locksley();
queue.inline();
const size = queue.task('size', (path, size = 256) => size);
console.log(await (await size.submit('a', undefined)).result(), await (await size.mapArgs([['a', undefined], ['a', null], ['a', 1]])).values());
"""
# What JSON would send as null, and what it may leave out.
NO_JSON = """
import { Locksley } from '@locksley/client';

const queue = new Locksley();
queue.inline();
const kind = queue.task('kind', (x, n) => (n === 0 ? -x / 0 : JSON.stringify(x)));
for (const args of [[NaN], [{ deep: [Infinity] }], [-Infinity, 1], [undefined, 1], [[1, undefined]], [new Array(1)], [5n]]) {
  const refused = await kind.submit(...args).catch((error) => error);
  console.log(refused instanceof TypeError, refused.message.split(':')[0]);
}
for await (const { error } of await kind.submit(1, 0)) console.log(error.exception, error.text.split(': ')[1]);
console.log(await (await kind.map([undefined, { a: undefined, b: 1 }, 1.5])).values());
"""
# What is printed of a job that failed.
PRINTED = """
import { inspect } from 'node:util';
import { Locksley } from '@locksley/client';

const queue = new Locksley();
queue.inline();
const fails = queue.task('fails', function inTheWorker(n) { throw new RangeError(n); });
for await (const error of (await fails.map([7])).failed()) {
  console.log(inspect(error).split('inTheWorker').length - 1, error.remoteStack.split('inTheWorker').length - 1, error.cause.stack === error.remoteStack);
}
"""
# A batch that came slowly at first, and then the same program again.
AGAIN = """
import { setTimeout as sleep } from 'node:timers/promises';

const echo = queue.named('echo', { handler: 'echo', raw: true });
async function* slowly(n) {
  for (let i = 0; i < n; i += 1) {
    await sleep(250);
    yield `${i}`;
  }
  if (n < 4) throw new Error('interrupted');
}
const values = async (items, id) => (await (await echo.map(items, { id })).values()).map(String).join('');
const failed = (items, id) => values(items, id).catch((error) => error.code ?? error.message);
console.log(await failed(slowly(3), 'mine'), await values('012345', 'mine'), await values('012345', 'mine'));
console.log(await values(slowly(4), 'yours'), await values('0123', 'yours'));
console.log(await values('abc', 'other'), await failed('abd', 'other'), await failed('', 'other'));
queue.close();
"""
# What is known of a job whose payload is no text.
BYTES = """
for (const handler of ['echo', 'sleep']) { // which takes no such payload; of a job that is ok the payload is not kept
  const batch = await queue.named('x', { handler, raw: true }).map([Buffer.from([255, 216, 0])]);
  await batch.wait();
  const facts = await batch.job(0);
  console.log((facts.payload ?? facts.output).toString('hex'), facts.status, Object.keys(facts).join(' '));
}
queue.close();
"""
# Listeners of a batch, where no daemon answers.
EVENTS = """
const hasty = new Locksley(url, { patience: 0 });
hasty.batch('b').on('progress', () => {});
const error = new Promise((resolve) => hasty.batch('b').on('progress', () => {}).on('error', resolve));
console.log((await error).name);
await hasty.batch('b').status().catch(() => console.log('here')); // by then both have had their error
"""
# Sources of map(): one that is silent while its signal is aborted, one whose batch is refused, one that pauses, and one that fails.
SOURCES = """
import { getEventListeners } from 'node:events';

const echo = queue.named('echo', { handler: 'echo', raw: true });
const controller = new AbortController();
let goOn;
async function* silent() {
  yield 'a';
  controller.abort(new Error('enough'));
  await new Promise((resolve) => (goOn = resolve));
}
console.log(await echo.map(silent(), { signal: controller.signal }).catch((error) => error.message));
goOn();

async function* endless() {
  try {
    for (;;) yield 'a';
  } finally {
    console.log('closed');
  }
}
console.log(await queue.named('x', { handler: 'nosuch', raw: true }).map(endless()).catch((error) => error.code));

const jobs = async (id) => (await queue.batch(id).status().catch(() => ({ jobs: 0 }))).jobs;
async function* pauses() {
  yield* ['a', 'b', 'c'];
  while ((await jobs('pauses')) < 3);
  yield 'd';
}
await echo.map(pauses(), { id: 'pauses' });
console.log(await jobs('pauses'));

async function* fails() {
  for (let i = 0; i < 3000; i += 1) yield 'a';
  throw new Error('line 3000');
}
console.log(await echo.map(fails(), { id: 'fails' }).catch((error) => error.message), await jobs('fails'));
console.log((await queue.batch('fails').status()).state, await echo.map(fails(), { name: 'unknown' }).catch((error) => error.message));
const [[, [unknown]]] = await queue.transport.ask([['LIST', 'MATCH', 'unknown']]);
console.log((await queue.batch(String(unknown[1])).wait()).state);

const { signal } = new AbortController();
for (let i = 0; i < 12; i += 1) await (await echo.map(['a'], { signal })).wait();
console.log(getEventListeners(signal, 'abort').length);
queue.close();
"""
# A user who has room for fewer jobs than the package sends at a time; and limits that no part of the jobs would fit into.
ROOM = """
const echo = queue.named('echo', { handler: 'echo', raw: true });
for (const count of [1000, 12_001]) { // one command, and a stream
  const values = await (await echo.map(Array.from({ length: count }, (_, i) => `${i}`))).values();
  console.log(values.length, values.every((value, i) => String(value) === `${i}`));
}
for (const items of [Array(20_001).fill('a'), ['a', 'x'.repeat(2000)]]) console.log(await echo.map(items, { name: 'refused' }).catch((error) => error.code));
queue.close();
"""
# Many commands at once, one of which is aborted while it waits for its turn, beside many that wait for a job.
MANY = """
const long = await sleeps.submit(HOUR);
const waits = Array.from({ length: 100 }, () => long.wait());
const turn = new AbortController();
const submits = Array.from({ length: 500 }, () => sleeps.map(['1'], {}));
const aborted = sleeps.map(['1'], { signal: turn.signal }).catch((error) => error.name);
await new Promise((resolve) => setImmediate(resolve));
turn.abort();
console.log(await aborted, new Set((await Promise.all(submits)).map((batch) => batch.id)).size);
await long.cancel();
console.log((await Promise.all(waits)).length);
queue.close();
"""
# Log-ins, by URLs, with and without options of ioredis, and with passwords of the environment.
LOG_INS = """
import { Locksley } from '@locksley/client';

const [host, alice] = JSON.parse(process.argv[2]);
const asks = async (url, redis = {}) => {
  const queue = new Locksley(url, { redis });
  const error = await queue.batch('nosuch').status().catch((error) => error);
  console.log([error.code, /[^.][.] Log in by .*LOCKSLEY_PASSWORD/.test(error.message)]);
  queue.close();
};
await asks(`redis://alice@${host}`);
await asks(`redis://${host}`);
await asks(`redis://alice@${host}`, { password: alice });
await asks(`redis://${host}`, { username: 'alice', password: alice });
process.env.LOCKSLEY_PASSWORD = alice;
process.env.LOCKSLEY_URL = `redis://alice@127.0.0.1:1,${host}`;
await asks(undefined);
await asks(`redis://${host}`, { username: 'alice' });
await asks(`redis://alice:wrong@${host}`);
await asks(`redis://alice@${host}`, { password: 'wrong' });
process.env.LOCKSLEY_PASSWORD = 'wrong';
await asks(`redis://alice:${encodeURIComponent(alice)}@${host}`);
await asks(`redis://${host}`);
"""


def setUpModule():
    node_package.setUpModule()


class Ends(UsersTest):
    def run_to_its_end(self, text, url=None):
        """What it prints. It fails for a program that does not end."""
        (node_package.INSTALLED / "program.mjs").write_text(text)
        done = subprocess.run([NODE, "program.mjs", *([url] if url else [])], cwd=node_package.INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def with_a_daemon(self, text):
        daemon = self.start()
        return self.run_to_its_end(HEAD + text, f"redis://{daemon.host}:{daemon.port}")

    def test_a_program_that_had_a_listener_ends(self):
        self.assertEqual(self.with_a_daemon(AFTER_EVENTS), "1\n")

    def test_close_ends_events_and_a_command_that_follows_does_not_keep_the_program(self):
        self.assertEqual(self.with_a_daemon(WHILE_IT_RUNS), "long\n")

    def test_a_program_that_does_not_close_ends(self):
        self.assertEqual(self.with_a_daemon(WITHOUT_CLOSE), "1\n")

    def test_a_program_that_connected_twice_and_is_inline_ends(self):
        self.assertEqual(self.with_a_daemon(ANOTHER_DAEMON), "1\n")

    def test_a_signal_ends_what_waits_for_a_server_that_says_nothing(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            said = self.run_to_its_end(HEAD + ABORTED, f"redis://127.0.0.1:{silent.getsockname()[1]}")
        self.assertEqual(said, "TimeoutError TimeoutError TimeoutError true\n")

    def test_a_signal_ends_what_waits_for_a_daemon_that_is_not_there(self):
        self.assertEqual(self.run_to_its_end(HEAD + ABORTED, "redis://127.0.0.1:1"), "TimeoutError TimeoutError TimeoutError true\n")

    def test_values_of_jobs_that_a_signal_cancelled_throw_its_reason(self):
        cancelled = " ".join(["cancelled JobError"] * 3)
        self.assertEqual(self.with_a_daemon(CANCELLED), f"AbortError cancelled true\nok  {cancelled}\nJobError\n")

    def test_a_wrong_address_is_named_at_once_without_its_password(self):
        found = json.loads(self.run_to_its_end(ADDRESSES))
        wrong = ["http://queue:7770", "redis://queue:99999", "redis://:7770", "redis://:1"]
        expected = "TypeError: an address is such as redis://queue:7770, or rediss://user:password@queue:7770 for TLS; found '{}'"
        ports = "clients connect to the port `listen.port`, 7770 unless it is configured otherwise, and workers to `workers.port`, 7771"
        hints = [f"; the dashboard has a port of its own: {ports}", "", "", ""]
        self.assertEqual(found, [*(expected.format(url) + hint for url, hint in zip(wrong, hints)), "right"])

    def test_the_port_for_http_is_named_at_once(self):
        said = self.run_to_its_end(HEAD + HTTP, self.start().http.replace("http:", "redis:"))
        self.assertRegex(said, "^Refused PROTOCOL this port speaks HTTP, for the dashboard: clients connect to the port `listen.port`, 7770 ")

    def test_a_program_that_is_run_again_adds_what_is_missing(self):
        self.assertEqual(self.with_a_daemon(AGAIN), "interrupted 012345 012345\n0123 0123\nabc EXISTS EXISTS\n")

    def test_what_is_known_of_a_job_has_its_bytes(self):
        facts = "index status attempt startedAt finishedAt durationUs worker exitStatus progress note logBytes output payload"  # as in index.d.ts
        self.assertEqual(self.with_a_daemon(BYTES), f"ffd800 ok {facts}\nffd800 error {facts}\n")

    def test_the_password_of_the_environment(self):
        daemon = self.start_with(alice={"handlers": ["echo"]})
        said = self.run_to_its_end(LOG_INS, json.dumps([f"{daemon.host}:{daemon.port}", PASSWORD.format("alice")]))
        good, wrong = "[ 'NOBATCH', false ]", "[ 'WRONGPASS', true ]"
        self.assertEqual(said.splitlines(), [wrong, "[ 'NOAUTH', true ]", good, good, good, good, wrong, wrong, good, wrong])

    def test_an_event_error_without_a_listener_ends_no_program(self):
        self.assertEqual(self.run_to_its_end(HEAD + EVENTS, "redis://127.0.0.1:1"), "Unreachable\nhere\n")

    def test_sources_that_are_silent_or_refused_or_pause_or_fail(self):
        self.assertEqual(self.with_a_daemon(SOURCES).split(), "enough closed NOHANDLER 4 line 3000 2000 open line 3000 cancelled 1".split())

    def test_a_user_may_have_room_for_few_jobs(self):
        alice = {"commands": ["submit", "read"], "handlers": ["echo"], "max_queued_jobs": 300}
        daemon = self.start_with({"limits": {"max_batch_jobs": 20_000, "max_payload": 1000}}, alice=alice)
        url = f"redis://alice:{urllib.parse.quote(PASSWORD.format('alice'))}@{daemon.host}:{daemon.port}"
        self.assertEqual(self.run_to_its_end(HEAD + ROOM, url).split(), "1000 true 12001 true TOOBIG TOOBIG".split())
        [_, batches] = self.log_in(daemon, "alice")("LIST", "MATCH", "refused")
        self.assertEqual(len(batches), 1, "a part of what was one command has been accepted")

    def test_many_commands_at_once_have_few_connections_and_do_not_wait_for_those_that_wait_for_jobs(self):
        daemon = self.start()
        self.assertEqual(self.run_to_its_end(HEAD + MANY, f"redis://{daemon.host}:{daemon.port}"), "AbortError 500\n100\n")
        accepted = int(re.search(r"total_connections_received:(\d+)", self.connect(daemon)("INFO"))[1])
        self.assertLessEqual(accepted, 1 + 100 + 64)

    def test_an_argument_that_is_undefined_at_the_end_is_not_given(self):
        self.assertEqual(self.run_to_its_end(ARGUMENTS), "256 [ 256, null, 1 ]\n")

    def test_an_error_that_is_printed_shows_the_stack_of_the_worker_once(self):
        self.assertEqual(self.run_to_its_end(PRINTED), "1 1 true\n")

    def test_what_is_not_json_is_refused_and_not_sent_as_null(self):
        said = self.run_to_its_end(NO_JSON).splitlines()
        refused = ["NaN", "Infinity", "-Infinity", "undefined", "undefined", "undefined", "a bigint"]
        self.assertEqual(said[:8], [*(f"true {what} is not JSON" for what in refused), "TypeError -Infinity is not JSON"])
        self.assertEqual(said[8], "[ null, '{\"b\":1}', '1.5' ]")


if __name__ == "__main__":
    unittest.main()
