#!/usr/bin/python3
"""worker_protocol: 2: what a worker is told of its jobs, answers in any order, notes and progress by index, cancellation; by a worker without a
library, and by those for Python and Node.js."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DaemonTest, wait_for

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "deploy/examples"
NODE_PROGRAM = shutil.which("node") or "nodejs"
NODE_LIBRARY = str(EXAMPLES.parents[1] / "proto/clients/node/lib/locksley_worker.cjs")
# Takes the jobs of a turn together: answers the last one first.
RAW = """
import os, sys, time
source = sys.stdin.buffer
def read():
    head = source.readline()
    if not head: sys.exit()
    words = []
    for _ in range(int(head[1:])):
        size = int(source.readline()[1:]); words.append(source.read(size).decode()); source.readline()
    return words
def bulk(text): return f"${len(text.encode())}\\r\\n{text}\\r\\n"
def say(text):
    sys.stdout.buffer.write(text.encode()); sys.stdout.buffer.flush()
def answer(index, status, output): say("*3\\r\\n:" + str(index) + "\\r\\n" + bulk(status) + bulk(output))
held = []
while True:
    message = read()
    if message[0] == "stop":
        held = [job for job in held if job[2] != message[1]]
        answer(message[1], "cancelled", "stopped")
        continue
    kind, payload, index, batch, attempt, trace, note, timeout = message
    if payload == "tell": answer(index, "ok", repr(message))
    elif payload == "hold": held.append(message)
    elif payload == "release":
        for job in [message, *reversed(held)]: answer(job[2], "ok", "released")
        held = []
    elif payload == "word":
        say("*3\\r\\n" + bulk("note") + bulk("of " + index) + ":" + index + "\\r\\n")
        say("*3\\r\\n" + bulk("progress") + ":7\\r\\n:" + index + "\\r\\n")
        held.append(message)
    elif payload == "last":
        os.close(0)
        say("*2\\r\\n" + bulk("note") + bulk("closed"))
        time.sleep(1000)
    elif payload == "late":
        end = "*3\\r\\n:" + index + "\\r\\n" + bulk("ok") + bulk("x")
        say(end + "*3\\r\\n" + bulk("note") + bulk("late") + ":" + index + "\\r\\n*3\\r\\n" + bulk("progress") + ":7\\r\\n" + bulk(index))
    elif payload == "retry":
        if not note: say("*2\\r\\n" + bulk("note") + bulk("half"))
        answer(index, "ok" if note else "error", note)
    elif payload == "die": os.kill(os.getpid(), 9)
    else: answer(*payload.split())
"""
PYTHON = """
import sys, time, locksley_worker
def run(payload, job):
    if payload == b"tell": return repr((job.index, job.attempt, job.trace, job.note, job.timeout_ms))
    if payload == b"retry":
        if job.note is None:
            job.progress(50); job.write_note("half")
            raise ValueError("not yet")
        return job.note
    if payload == b"long":
        while not job.should_stop(): time.sleep(0.01)
        raise RuntimeError("stopped")
    return payload
locksley_worker.serve(run)
"""
NODE = """
const { serve } = require(process.argv[1]);
serve(async (payload, job) => {
  const text = payload.toString();
  if (text === 'tell') return JSON.stringify([job.index, job.attempt, job.trace, job.note, job.timeoutMs]);
  if (text === 'retry') {
    if (job.note === null) { job.progress(50); job.writeNote('half'); throw new Error('not yet'); }
    return job.note;
  }
  if (text === 'slow') await new Promise((resolve) => setTimeout(resolve, 300));
  // It may have been stopped before it begins.
  if (text === 'long' && !job.signal.aborted) await new Promise((resolve) => job.signal.addEventListener('abort', resolve));
  if (text === 'long') throw new Error('stopped');
  return payload;
});
"""


def as_map(reply):
    return dict(zip(reply[::2], reply[1::2]))


class Version2(DaemonTest):
    def serve(self, program, **more):
        # `grace`: a process that does not stop by itself is not killed, but fails the test.
        settings = {"worker": program, "worker_protocol": 2, "concurrency": 1, "grace": "1h", **more}
        # So that a turn has several jobs, although the first one of a process takes as long as its start; and leaves none to another slot.
        self.daemon = self.start({"handlers": {"w": settings}, "scheduling": {"quantum": "1s"}, "lanes": {"processes": {"slots": 1}}})
        self.command = self.connect(self.daemon)

    def results(self, batch):
        self.command.wait(batch)
        return {row[0]: tuple(row[1:]) for row in self.command.results(batch)}

    def test_what_a_worker_is_told(self):
        self.serve([sys.executable, "-c", RAW])
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        batch = self.command("SUBMIT", "w", "ID", "b", "TRACE", trace, "TIMEOUT", 7000, "JOBS", "tell")
        self.assertEqual(self.results(batch)[0], ("ok", repr(["job", "tell", "0", "b", "1", trace, "", "7000"])))

    def test_answers_come_in_any_order(self):
        self.serve([sys.executable, "-c", RAW])
        self.results(self.command("SUBMIT", "w", "JOBS", "0 ok x"))  # a process is there: its start is not a job's time
        warm = self.command("SUBMIT", "w", "JOBS", *["0 ok x".replace("0", str(i)) for i in range(64)])
        self.assertEqual(set(self.results(warm).values()), {("ok", "x")})
        jobs = [*[f"{i} ok x" for i in range(32)], *["hold"] * 7, "release", *[f"{i} error y" for i in range(40, 50)]]

        def held_and_released_in_one_turn():
            """The batch. Where earlier jobs were slow to end, the turn of those that are held is over before the one that releases them."""
            batch = self.command("SUBMIT", "w", "JOBS", *jobs)
            if as_map(self.command("WAIT", batch, 5000))["state"] == "done":
                return batch
            self.command("CANCEL", batch)
            self.command.wait(batch)
            return None

        batch = wait_for("a turn that has all of them", held_and_released_in_one_turn)
        found = self.results(batch)
        self.assertEqual([found[i] for i in range(32, 40)], [("ok", "released")] * 8)
        self.assertEqual(found[45], ("error", "y"))
        self.assertEqual(len(found), 50)

    def test_words_name_their_job(self):
        self.serve([sys.executable, "-c", RAW])
        self.results(self.command("SUBMIT", "w", "JOBS", "0 ok x"))  # a process is there: its start is not a job's time

        def last_two_in_one_turn():
            """The batch. Where an earlier job was slow to end, the second one of them is left for another turn."""
            batch = self.command("SUBMIT", "w", "JOBS", "0 ok x", "word", "word")
            wait_for("the words", lambda: any(row[6] == "of 1" for row in self.command("RUNNING", batch)))
            if sorted(row[1] for row in self.command("RUNNING", batch)) == [1, 2]:
                return batch
            self.command("CANCEL", batch)
            self.command.wait(batch)
            return None

        batch = wait_for("a turn that has both", last_two_in_one_turn)
        wait_for("the second job", lambda: as_map(self.command("JOB", batch, 2))["note"] == "of 2")
        wait_for("their progress", lambda: [as_map(self.command("JOB", batch, i))["progress"] for i in (1, 2)] == [7, 7])
        self.assertEqual(sorted(row[1] for row in self.command("RUNNING", batch)), [1, 2])
        self.command("CANCEL", batch)
        self.command.wait(batch)
        self.assertEqual([as_map(self.command("JOB", batch, i))["status"] for i in range(3)], ["ok", "cancelled", "cancelled"])
        self.assertEqual(self.results(self.command("SUBMIT", "w", "JOBS", "0 ok y"))[0], ("ok", "y"))
        self.assertNotIn("worker has ended", self.daemon.log(), "it was told, and not killed")

    def test_a_word_about_a_job_that_has_ended_is_ignored(self):
        self.serve([sys.executable, "-c", RAW])
        self.results(self.command("SUBMIT", "w", "JOBS", "late"))  # no job runs then

        def held_and_late_in_one_turn():
            """The batch. Where an earlier job was slow to end, the last one is left for another turn."""
            batch = self.command("SUBMIT", "w", "JOBS", "0 ok x", "hold", "late")
            if self.ended_soon(batch, 2):
                return batch
            self.command("CANCEL", batch)
            self.command.wait(batch)
            return None

        batch = wait_for("a turn that has both", held_and_late_in_one_turn)
        self.command("CANCEL", batch)
        self.assertEqual({i: end for i, (end, _) in self.results(batch).items()}, {0: "ok", 1: "cancelled", 2: "ok"})
        self.assertEqual(as_map(self.command("JOB", batch, 1))["note"], None, "it was about the other one")
        self.assertEqual(self.results(self.command("SUBMIT", "w", "JOBS", "0 ok y"))[0], ("ok", "y"))
        self.assertNotRegex(self.daemon.log(), "worker (is|has) ended")

    def ended_soon(self, batch, index):
        deadline = time.monotonic() + 5
        while as_map(self.command("JOB", batch, index))["status"] in ("queued", "running") and time.monotonic() < deadline:
            time.sleep(0.01)
        return as_map(self.command("JOB", batch, index))["status"] == "ok"

    def test_each_cancellation_is_told(self):
        """Soon after the one before, to the same process."""
        self.serve([sys.executable, "-c", RAW])
        for _ in range(3):
            batch = self.command("SUBMIT", "w", "JOBS", "hold", "hold")
            wait_for("a job to run", lambda: self.command("RUNNING", batch))
            self.command("CANCEL", batch)
            self.assertEqual(self.command.wait(batch)["cancelled"], 2)
        self.assertNotIn("worker has ended", self.daemon.log(), "it was told, and not killed")

    def test_one_that_reads_no_more_can_be_cancelled(self):
        """A stop does not reach it, but it may have until SIGTERM to answer."""
        self.serve([sys.executable, "-c", RAW], grace="1s")
        batch = self.command("SUBMIT", "w", "JOBS", "last")
        wait_for("its note", lambda: as_map(self.command("JOB", batch, 0))["note"] == "closed")
        self.command("CANCEL", batch)
        self.assertEqual(self.results(batch)[0], ("cancelled", "cancelled"))

    def test_the_note_reaches_the_next_attempt(self):
        self.serve([sys.executable, "-c", RAW])
        batch = self.command("SUBMIT", "w", "RETRIES", 1, "JOBS", "retry")
        self.assertEqual(self.results(batch)[0], ("ok", "half"))

    def test_the_first_job_without_an_answer_ends_with_the_process(self):
        self.serve([sys.executable, "-c", RAW])
        batch = self.command("SUBMIT", "w", "JOBS", *[f"{i} ok x" for i in range(20)], "die", *[f"{i} ok x" for i in range(21, 30)])
        found = self.results(batch)
        self.assertEqual({i for i, (status, _) in found.items() if status != "ok"}, {20})
        self.assertEqual(found[20][0], "crashed")
        self.assertEqual(len(found), 30)

    def test_answers_that_are_none(self):
        self.serve([sys.executable, "-c", RAW])
        for payload, why in (("7 ok x", "answered job 7, which it was not given"), ("0 fine x", "an answer that is not [job, status, output]"),
                             ("0 crashed x", "an answer that is not [job, status, output]")):
            status, output = self.results(self.command("SUBMIT", "w", "JOBS", payload))[0]
            self.assertEqual(status, "error", payload)
            self.assertIn(why, output)
        self.assertEqual(self.results(self.command("SUBMIT", "w", "JOBS", "0 cancelled x"))[0], ("error", "x"), "nobody has asked it to")

    def check_library(self, as_tuple):
        told = self.results(self.command("SUBMIT", "w", "TIMEOUT", 7000, "JOBS", "tell"))[0]
        self.assertEqual(told[0], "ok")
        self.assertEqual(as_tuple(told[1]), (0, 1, "", None, 7000))
        retried = self.command("SUBMIT", "w", "RETRIES", 1, "JOBS", "retry", "x")
        self.assertEqual(self.results(retried), {0: ("ok", "half"), 1: ("ok", "x")})
        many = self.command("SUBMIT", "w", "JOBS", *range(500))
        self.assertEqual(self.results(many), {i: ("ok", str(i)) for i in range(500)})
        long = self.command("SUBMIT", "w", "JOBS", "long")
        wait_for("it to run", lambda: self.command("RUNNING", long))
        self.command("CANCEL", long)
        self.assertEqual(self.results(long)[0][0], "cancelled")
        self.assertEqual(self.results(self.command("SUBMIT", "w", "JOBS", "y"))[0], ("ok", "y"))
        self.assertNotIn("worker has ended", self.daemon.log(), "it stopped by itself")

    def test_the_library_for_python(self):
        self.serve([sys.executable, "-B", "-c", PYTHON], environment=[f"PYTHONPATH={EXAMPLES / 'python'}"])
        self.check_library(eval)

    def test_the_library_for_node(self):
        self.serve([NODE_PROGRAM, "-e", NODE, NODE_LIBRARY])
        self.check_library(lambda text: tuple(json.loads(text)))


class Version1(DaemonTest):
    def test_the_library_for_python_says_words_too(self):
        with tempfile.TemporaryDirectory() as folder:
            go = pathlib.Path(folder) / "go"
            program = """
import os, time, locksley_worker
def run(payload, job):
    job.progress(40); job.write_note("half")
    while not os.path.exists(payload): time.sleep(0.01)
    return b""
locksley_worker.serve(run)
"""
            daemon = self.start({"handlers": {"w": {"worker": [sys.executable, "-B", "-c", program], "environment": [f"PYTHONPATH={EXAMPLES / 'python'}"]}}})
            command = self.connect(daemon)
            batch = command("SUBMIT", "w", "JOBS", str(go))
            wait_for("its words", lambda: as_map(command("JOB", batch, 0))["note"] == "half")
            self.assertEqual(as_map(command("JOB", batch, 0))["progress"], 40)
            go.touch()
            self.assertEqual(command.wait(batch)["ok"], 1)

    def test_the_library_for_node_says_nothing_about_a_job_after_its_end(self):
        """The daemon would take it to be about the next one."""
        program = """
let said;
require(process.argv[1]).serve(async (payload, job) => {
  await said; // by the job before
  said = new Promise((resolve) => setTimeout(() => { job.progress(7); job.writeNote('late'); resolve(); }, 0));
  return '';
});
"""
        daemon = self.start({"handlers": {"w": {"worker": [NODE_PROGRAM, "-e", program, NODE_LIBRARY]}}})
        command = self.connect(daemon)
        batch = command("SUBMIT", "w", "JOBS", "x", "x", "x")
        self.assertEqual(command.wait(batch)["ok"], 3)
        jobs = [as_map(command("JOB", batch, i)) for i in range(3)]
        self.assertEqual([(job["progress"], job["note"]) for job in jobs], [(None, None)] * 3)


class WithoutDaemon(unittest.TestCase):
    def test_the_library_for_python_forgets_a_stop_that_came_after_the_answer(self):
        """The job of the same name may be given to the same process again, as another attempt."""
        environment = {**os.environ, "PYTHONPATH": str(EXAMPLES / "python")}
        message = lambda *words: b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
        job = message(b"job", b"x", b"3", b"b", b"1", b"", b"", b"0")
        answer = message(b"3", b"ok", b"x")
        with subprocess.Popen([sys.executable, "-B", "-c", PYTHON], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as worker:
            worker.stdin.write(job)
            self.assertEqual(worker.stdout.read(len(answer)), answer)
            worker.stdin.write(message(b"stop", b"3", b"b") + job)
            worker.stdin.close()
            self.assertEqual(worker.stdout.read(), answer)


if __name__ == "__main__":
    unittest.main()
