#!/usr/bin/python3
"""The Node.js package @locksley/client: its page, batches across broken connections and killed daemons, workers, types."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from urllib.parse import quote

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from client_packages import ROOT, install_node
from held_port import hold_port
from late_proxy import FORWARD, LOSE_REPLY, LateProxy
from locksley_daemon import DEADLINE_S, DaemonTest, merged, wait_for
from page_programs import Page
from remote_worker import port_for_workers, wait_for_machines
from secured import Secured
from store_daemon import StoreTest
from time_limits import with_growing_limits
from users import PASSWORD, users

PACKAGE = ROOT / "proto/clients/node"
TASKS = ROOT / "tests/integration/workers/package_tasks.mjs"
NODE = shutil.which("node") or "nodejs"
# Streams JOBS jobs to `echo`; before those of KILLS, and when half of the results are read, it waits for a line: the test kills the daemon.
STREAM = """
import { createInterface } from 'node:readline';
import { Locksley } from '@locksley/client';

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const [url, jobs, ...kills] = process.argv.slice(2).map((word, i) => (i === 0 ? word : Number(word)));
const queue = new Locksley(url, { handler: 'echo' });
const task = queue.task('identity', (value) => value);
const pause = async () => { console.log('kill'); await lines.next(); };
async function* items() {
  for (let i = 0; i < jobs; i += 1) {
    if (kills.includes(i)) await pause();
    yield i;
  }
}
const batch = await task.map(items(), { id: 'streamed' });
const seen = new Set();
let wrong = 0;
for await (const { index, value } of batch) {
  if (seen.size === jobs / 2 && kills.length > 0) await pause();
  if (seen.has(index) || value.args[0] !== index) wrong += 1;
  seen.add(index);
}
const status = await batch.wait();
console.log(JSON.stringify([seen.size, wrong, status.jobs, status.ok]));
process.exit(0);
"""
FACTS = """
import { Locksley } from '@locksley/client';

const queue = new Locksley(process.argv[2], { handler: 'far' });
const batch = await queue.named('prints').submit();
await batch.wait();
const { status, attempt, startedAt, finishedAt, exitStatus } = await batch.job(0);
console.log(status, attempt, finishedAt >= startedAt, exitStatus, (await batch.log(0)).trim());
queue.close();
"""
INLINE = """
import { Locksley } from '@locksley/client';

const queue = new Locksley();
queue.inline();
const batch = await queue.task('doubled', (n) => n * 2).map([1, 2]);
const { status, attempt, exitStatus, payload } = await batch.job(1);
console.log(status, attempt, exitStatus, String(payload), (await batch.log(1)).length, await batch.job(2).catch((error) => error.code));
const items = function* (count, error) { yield* Array(count).keys(); if (error) throw error; }; // a stream, which may be interrupted
const double = (...of) => queue.named('doubled').map(items(...of), { id: 'mine' }).then((again) => again.status());
console.log(await double(5000, new Error('interrupted')).catch((error) => error.message), (await double(6000)).ok, (await double(6000)).ok);
console.log((await (await queue.named('doubled').map([1], { for: 'acme' })).status()).customer);
"""
# A codec that makes many bytes of a character.
WIDE = """
import { Locksley } from '@locksley/client';

const codec = { dumps: (v) => Buffer.from(Buffer.from(JSON.stringify(v)).toString('hex')), loads: (b) => JSON.parse(Buffer.from(b.toString(), 'hex')) };
const queue = new Locksley(undefined, { codec });
queue.inline();
const batch = await queue.task('fails', () => { throw new RangeError('é漢'.repeat(50_000)); }).map([1]);
for await (const { output, error } of batch) console.log(output.length < 65536, error.exception, /^RangeError: (é漢){500}/.test(error.text), error.attempt);

// One that does not take errors.
codec.dumps = (v) => { if (v.exception) throw new Error('not this'); return Buffer.from(JSON.stringify(v)); };
codec.loads = (b) => JSON.parse(b);
for await (const error of (await queue.named('fails').map([1])).failed()) console.log(error.text);
"""
SECURE = """
import { Locksley } from '@locksley/client';

const count = async (url) => (await new Locksley(url, { handler: 'far' }).task('identity', (x) => x).map(Array(1000).keys())).values();
const [good] = process.argv.slice(2);
const values = await count(good);
await count(good.replace('alice:', 'alice:not')).catch((error) => console.log(values.filter((n, i) => n === i).length, error.code));
process.exit(0);
"""
GOOD = """import { Batch, JobError, Locksley, currentJob } from '@locksley/client';

const queue = new Locksley('redis://127.0.0.1:7770', { codec: { dumps: (v) => Buffer.from(String(v)), loads: (b) => b.toString() } });
const length = queue.task('length', async (text: string, factor = 1) => text.length * factor, { retries: 3 });
export async function main(): Promise<number> {
  const batch: Batch<number> = await length.map(['a'], { for: 'cust-42', signal: AbortSignal.timeout(5) });
  batch.on('progress', (status) => console.log(status.ok + status.slots, status.customer.length));
  for await (const result of batch) console.log(result.ok ? result.value + 1 : (result.error as JobError).remoteStack);
  await length.mapArgs([['a', 2]]);
  currentJob().progress(5);
  console.log((await batch.job(0)).attempt + 1, (await batch.job(0)).exitStatus ?? 0, (await batch.log(0)).length);
  return (await batch.values())[0] ?? (await length('a', 2)) ?? (await (await length.submit('a')).result());
}
"""
WRONG = "export const wrong: string = await (await length.submit('a')).result();\nawait length.map([1]);\nawait length.map(['a'], { prio: 1 });\n"


def setUpModule():
    global INSTALLED
    folder = tempfile.TemporaryDirectory(prefix="locksley-node-")
    unittest.addModuleCleanup(folder.cleanup)
    INSTALLED = pathlib.Path(folder.name)
    install_node(INSTALLED)
    shutil.copy(TASKS, INSTALLED)
    (INSTALLED / "stream.mjs").write_text(STREAM)


class Pages(unittest.TestCase):
    def test_its_programs_do_what_it_says(self):
        page = Page(self, PACKAGE / "README.md", {"PYTHONPATH": str(ROOT / "proto/clients/python")})
        (page.folder / "node_modules").symlink_to(INSTALLED / "node_modules")
        self.assertGreater(page.carry_out(), 6)

    def test_a_job_without_a_daemon(self):
        (INSTALLED / "inline.mjs").write_text(INLINE)
        said = subprocess.run([NODE, "inline.mjs"], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(said.stdout, 'ok 1 null {"task":"doubled","args":[2]} 0 ERR\ninterrupted 6000 6000\nacme\n', said.stderr)

    def test_an_error_is_a_line_that_the_daemon_takes(self):
        (INSTALLED / "wide.mjs").write_text(WIDE)
        said = subprocess.run([NODE, "wide.mjs"], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(said.stdout, "true RangeError true 1\nRangeError\n", said.stderr)

    def test_types(self):
        (INSTALLED / "good.mts").write_text(GOOD)
        (INSTALLED / "wrong.mts").write_text(GOOD + WRONG)
        tsc = [NODE, "node_modules/typescript/bin/tsc", "--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck"]
        done = subprocess.run([*tsc, "--exactOptionalPropertyTypes", "good.mts", "wrong.mts"], cwd=INSTALLED, capture_output=True, text=True)
        found = [line for line in done.stdout.splitlines() if "error" in line]
        first = GOOD.count("\n") + 1
        self.assertEqual([line.split(",")[0] for line in found], [f"wrong.mts({line}" for line in range(first, first + 3)], done.stdout)


class Kills(StoreTest):
    JOBS = 100_000

    def test_a_map_across_kills_loses_no_job_and_runs_none_under_two_indexes(self):
        port = hold_port(self)
        self.begin({"listen": {"port": port}})
        kills = [self.JOBS // 3, self.JOBS * 4 // 5]
        words = [NODE, "stream.mjs", f"redis://127.0.0.1:{port}", self.JOBS, *kills]
        with subprocess.Popen(list(map(str, words)), cwd=INSTALLED, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            for _ in range(3):
                self.assertEqual(program.stdout.readline(), "kill\n")
                self.kill()
                self.begin({"listen": {"port": port}})
                program.stdin.write("\n")
                program.stdin.flush()
            self.assertEqual(json.loads(program.stdout.readline()), [self.JOBS, 0, self.JOBS, self.JOBS])


class LostReplies(DaemonTest):
    def test_a_lost_reply_repeats_nothing(self):
        daemon = self.start()
        losses = ["OPEN", "ADDAT", "ADDAT", "CLOSE", "RESULTS", "WAIT"]

        def rule(command):
            word = command[0].decode().upper()
            if word not in losses:
                return FORWARD
            losses.remove(word)
            return LOSE_REPLY

        proxy = LateProxy(daemon.host, daemon.port, rule)
        self.addCleanup(proxy.close)
        done = subprocess.run([NODE, "stream.mjs", f"redis://{proxy.address}", "20000"], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual((done.stdout, losses), ("[20000,0,20000,20000]\n", []), done.stderr)


TOO_MUCH = ("x" + "é" * 2047).encode().decode("latin-1")  # as Connection reads 4 KiB of it, without a part of a character


def call(task, *args):
    return json.dumps({"task": task, "args": args})


class LocalWorker(DaemonTest):
    HANDLER = {"worker": ["node_modules/.bin/locksley-worker", "package_tasks.mjs"], "environment": [f"PATH={os.environ['PATH']}"]}

    def test_values_failures_and_what_is_printed(self):
        daemon = self.start({"handlers": {"far": {**self.HANDLER, "directory": str(INSTALLED), "grace": "1h"}}})
        run = self.connect(daemon)
        run("RUN", "far", "JOBS", call("identity", 1))  # a process is there: its start is not a job's time

        def attempt(ms, _):
            self.assertEqual(run("RUN", "far", "TIMEOUT", ms, "JOBS", call("sleeps", str(INSTALLED / "slept")))[0][0], "timeout")
            return (INSTALLED / "slept-began").exists()

        with_growing_limits(attempt)
        wait_for("the task that was late to clean up", (INSTALLED / "slept").exists)
        values = [None, True, 1.5, [1, [2]], {"a": {"$bytes": "AP8="}}]
        self.assertEqual([json.loads(row[1]) for row in run("RUN", "far", "JOBS", *[call("identity", value) for value in values])], values)
        rows = run("RUN", "far", "JOBS", call("fails", "two\nlines"), "no JSON", call("nosuch"), call("dies"), call("prints"))
        self.assertEqual([row[0] for row in rows], ["error", "error", "error", "crashed", "ok"])
        text, detail = rows[0][1].split("\t")
        self.assertEqual((text, json.loads(detail)["exception"]), ("RangeError: two lines", "RangeError"))
        self.assertIn("package_tasks.mjs", json.loads(detail)["traceback"])
        daemon.wait_for_log("this is no answer")
        self.assertEqual(json.loads(run("RUN", "far", "JOBS", call("about"))[0][1])[1:], [0, "far"])
        self.assertEqual(run("RUN", "far", "JOBS", call("saysTooMuch")), [["ok", '""']])
        rows = run("RUN", "far", "JOBS", *[call("throws", what) for what in ("nothing", "no text", "no words")], call("returnsAFunction"))
        self.assertEqual([(status, text.split("\t")[0][:40]) for status, text in rows], [
            ("error", "Error: undefined"), ("error", "Error: what was thrown cannot be shown"), ("error", "Error: what was thrown cannot be shown"),
            ("error", "TypeError: a function is not JSON: give ")])

    def test_worker_protocol_2(self):
        settings = {**self.HANDLER, "directory": str(INSTALLED), "grace": "1h", "worker_protocol": 2, "concurrency": 1, "retries": 1}
        daemon = self.start({"handlers": {"far": settings}, "lanes": {"processes": {"slots": 1}}})
        run = self.connect(daemon)
        self.assertEqual(json.loads(run("RUN", "far", "JOBS", call("notes"))[0][1]), [2, "half of it"])
        self.assertEqual([json.loads(row[1]) for row in run("RUN", "far", "JOBS", *[call("napsBeside", 20)] * 8)], [1] * 8)  # one at a time
        self.assertEqual(json.loads(run("RUN", "far", "JOBS", call("saysTooMuch"))[0][1]), TOO_MUCH)
        self.assertEqual([json.loads(row[1]) for row in run("RUN", "far", "JOBS", *[call("identity", n) for n in range(300)])], list(range(300)))
        stopped = INSTALLED / "stopped"
        batch = run("SUBMIT", "far", "JOBS", call("sleeps", str(stopped)))
        wait_for("the job to run", (INSTALLED / "stopped-began").exists)
        run("CANCEL", batch)
        wait_for("the task to clean up", stopped.exists)
        self.assertEqual(run("RUN", "far", "JOBS", call("fails", "x"))[0][0], "error")
        (INSTALLED / "facts.mjs").write_text(FACTS)
        said = subprocess.run([NODE, "facts.mjs", f"redis://127.0.0.1:{daemon.port}"], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(said.stdout, "ok 1 true null this is no answer\n", said.stderr)
        self.assertEqual(run("RUN", "far", "JOBS", call("dies"), call("identity", 1))[0][0], "crashed")


class RemoteWorker(StoreTest):
    settings = {"workers": {"port": 0}, "handlers": {"far": {"remote": True, "retries": 1}}}

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name)
        self.begin()

    def work(self, *options, port=None):
        command = ["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", f"redis://127.0.0.1:{port or port_for_workers(self.daemon)}", *options]
        worker = subprocess.Popen(command, cwd=INSTALLED, stderr=subprocess.PIPE)
        self.addCleanup(worker.stderr.close)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def submit(self, task, *args, jobs=1, options=()):
        return self.command("SUBMIT", "far", *options, "JOBS", *[call(task, *args)] * jobs)

    def outputs(self, batch):
        return [json.loads(row[2]) for row in sorted(self.command.results(batch))]

    def test_options_that_are_wrong(self):
        worker = str(INSTALLED / "node_modules/.bin/locksley-worker")
        for words, said in ((["--slot", "2", "package_tasks.mjs"], "'--slot'"), (["package_tasks.mjs", "--slots", "0"], "--slots: expected a whole number from 1 on"), (["package_tasks.mjs", "--lease", "1s"], "--lease: expected"), (["none.mjs"], "there is no file none.mjs")):
            done = subprocess.run([worker, *words, "--url", "redis://127.0.0.1:1"], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, "    at " in done.stderr), (64, False), done.stderr)
            self.assertIn(said, done.stderr)

    def test_many_jobs_side_by_side(self):
        self.work("--slots", "50")
        # First: once the handler has had many short jobs, a lease has several.
        together = self.submit("gathers", str(self.path), 50, jobs=50)
        self.assertEqual(self.command.wait(together)["ok"], 50)
        self.assertEqual(self.outputs(together), list(range(50)))
        many = self.command("SUBMIT", "far", "JOBS", *[call("identity", n) for n in range(300)])
        self.assertEqual(self.command.wait(many)["ok"], 300)
        self.assertEqual(self.outputs(many), list(range(300)))
        ranged = self.command("SUBMIT", "far", "RANGE", 5, 8, '{"task": "identity", "args": [{}]}')
        self.command.wait(ranged)
        self.assertEqual(self.outputs(ranged), [5, 6, 7])
        notes = self.submit("notes")
        self.command.wait(notes)
        self.assertEqual(self.outputs(notes), [[2, "half of it"]])
        too_much = self.submit("saysTooMuch")
        self.command.wait(too_much)
        self.assertEqual((self.outputs(too_much), self.command.map("JOB", too_much, 0)["progress"]), ([TOO_MUCH], 33))

    def test_cancel_and_time_out(self):
        self.work("--slots", "8")
        held, naps = self.submit("holds", str(self.path), jobs=2), self.submit("nap", 3_600_000, jobs=2)
        wait_for("all to run", lambda: self.status(held)["running"] + self.status(naps)["running"] == 4)
        self.command("CANCEL", held)
        self.command("CANCEL", naps)
        self.assertEqual((self.command.wait(held)["cancelled"], self.command.wait(naps)["cancelled"]), (2, 2))
        for task in (("nap", 3_600_000), ("deaf", str(self.path))):
            count = 8 if task[0] == "nap" else 2  # as many as there are slots, which these leave
            late = self.submit(*task, jobs=count, options=["TIMEOUT", 200, "RETRIES", 0])
            self.command.wait(late)
            self.assertEqual([row[1] for row in self.command.results(late)], ["timeout"] * count)

    def test_a_daemon_that_is_killed(self):
        ports = {"workers": {"port": hold_port(self), "reclaim": "20s"}, "listen": {"port": hold_port(self)}}
        self.kill()
        self.begin(ports)
        self.work("--slots", "4")
        batch = self.submit("holds", str(self.path), jobs=4)
        wait_for("4 jobs that began", lambda: len(list(self.path.glob("began-*"))) == 4)
        self.kill()
        self.begin(ports)
        wait_for_machines(self.command, 1)
        (self.path / "go").touch()
        self.assertEqual(self.command.wait(batch)["ok"], 4)
        self.assertEqual(self.outputs(batch), [0, 1, 2, 3])
        self.assertEqual(len(list(self.path.glob("began-*"))), 4)  # none began twice

    def ask_to_stop(self, worker):
        """SIGTERM, and returns when the worker has noticed it: from then on it begins no job."""
        worker.send_signal(signal.SIGTERM)
        while b"stopping" not in (line := worker.stderr.readline()):
            self.assertTrue(line, "the worker ended without a word")

    def test_a_signal_lets_running_jobs_end_and_gives_back_the_others(self):
        worker = self.work("--slots", "2")
        batch = self.submit("holds", str(self.path), jobs=6)
        wait_for("2 jobs that began", lambda: len(list(self.path.glob("began-*"))) == 2)
        self.ask_to_stop(worker)
        wait_for("the others to be given back", lambda: self.status(batch)["running"] == 2)
        (self.path / "go").touch()
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        self.assertEqual([self.status(batch)[key] for key in ("ok", "queued", "running")], [2, 4, 0])

    def test_a_signal_gives_back_what_its_leases_hold(self):
        worker = self.work()
        batch = self.submit("holdsFrom", 300, str(self.path), jobs=1000)  # by then a lease has many jobs
        wait_for("a job that began", lambda: any(self.path.glob("began-*")))
        self.ask_to_stop(worker)
        wait_for("the others to be given back", lambda: self.status(batch)["running"] == 1)
        (self.path / "go").touch()
        self.assertEqual(worker.wait(DEADLINE_S), 0)
        self.assertEqual([self.status(batch)[key] for key in ("ok", "queued")], [301, 699])

    def test_a_connection_that_breaks_unknown_to_the_daemon(self):
        words, is_cut = ["SETTLE", "CLAIM"], []

        def rule(command):
            word = command[0].decode().upper()
            if word in words and is_cut:
                words.remove(word)
                return LOSE_REPLY
            return FORWARD

        proxy = LateProxy("127.0.0.1", port_for_workers(self.daemon), rule)
        self.addCleanup(proxy.close)
        self.work("--slots", "2", "--lease", "1000", port=int(proxy.address.rsplit(":")[-1]))
        self.command.wait(self.submit("nap", 0))
        is_cut.append(True)
        batch = self.command("SUBMIT", "far", "JOBS", *[call("identity", n) for n in range(200)])
        self.assertEqual(self.command.wait(batch)["ok"], 200)
        self.assertEqual((self.outputs(batch), words), (list(range(200)), []))

    def test_what_the_daemon_refuses_ends_the_worker(self):
        os.environ["TEST_HANDLER"] = "nosuch"
        self.addCleanup(os.environ.pop, "TEST_HANDLER")
        self.assertEqual(self.work().wait(DEADLINE_S), 78)


class Secure(DaemonTest):
    def test_tls_and_a_user(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        secured = Secured(folder.name, ["far"])
        settings = merged(secured.settings, {"workers": {"port": 0, "tls": secured.settings["listen"]["tls"]}, "handlers": {"far": {"remote": True}}})
        daemon = self.start(merged(settings, users(renderer={"commands": ["work"], "handlers": ["far"]})))
        os.environ["NODE_EXTRA_CA_CERTS"] = secured.authority
        self.addCleanup(os.environ.pop, "NODE_EXTRA_CA_CERTS")
        url = f"rediss://renderer:{quote(PASSWORD.format('renderer'))}@127.0.0.1:{port_for_workers(daemon)}"
        worker = subprocess.Popen(["node_modules/.bin/locksley-worker", "package_tasks.mjs", "--url", url], cwd=INSTALLED)
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        (INSTALLED / "secure.mjs").write_text(SECURE)
        url = f"rediss://alice:{quote(PASSWORD.format('alice'))}@{daemon.host}:{daemon.port}"
        done = subprocess.run([NODE, "secure.mjs", url], cwd=INSTALLED, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.stdout, "1000 WRONGPASS\n", done.stderr)


if __name__ == "__main__":
    unittest.main()
