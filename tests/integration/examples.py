#!/usr/bin/python3
"""What deploy/examples/ has for workers: each configuration as it stands there, and the libraries for Python and Node.js at their limits."""

import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DEFAULTS, Daemon, DaemonTest, wait_for
from resp import encode

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "deploy/examples"
WORKERS = ROOT / "tests/integration/workers"
WITH_LIBRARY = [f"PYTHONPATH={EXAMPLES / 'python'}"]
PYTHON = [sys.executable, "-B", str(WORKERS / "cases.py")]
NODE = [shutil.which("node") or "nodejs", str(WORKERS / "cases.js")]


class ExampleDaemon(Daemon):
    """With a configuration of the examples, but on free ports and without a store."""

    def configure(self, settings):
        text = (EXAMPLES / settings / "locksley.yaml").read_text()
        self.config_path.write_text(text + "".join(f"{key}: {json.dumps(value)}\n" for key, value in DEFAULTS.items()))


class ExampleTest(DaemonTest):
    def start_example(self, name):
        daemon = ExampleDaemon(name)
        self.addCleanup(self._end, daemon)
        return daemon


def processes_of(daemon, word):
    """Ids of the processes below the daemon whose command line has the word in it."""
    parents, found = {}, []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(re.search(r"PPid:\t(\d+)", (folder / "status").read_text())[1])
            if word.encode() in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            pass

    def is_below(process):
        while process and process != daemon.pid:
            process = parents.get(process)
        return bool(process)

    return [process for process in found if is_below(process)]


class Configurations(ExampleTest):
    def test_python(self):
        run = self.connect(self.start_example("python"))
        self.assertEqual(run("RUN", "shout", "JOBS", "abc", "d"), [["ok", "ABC"], ["ok", "D"]])
        (status, text), good = run("RUN", "shout", "JOBS", b"\xff", "e")
        self.assertEqual((status, good), ("error", ["ok", "E"]))
        self.assertIn("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff", text)
        self.assertEqual(run("RUN", "plain", "JOBS", "a\r\nb", ""), [["ok", "a\r\nb"], ["ok", ""]])

    def test_node(self):
        run = self.connect(self.start_example("node"))
        self.assertEqual(run("RUN", "shout", "JOBS", "abc", "d"), [["ok", "ABC"], ["ok", "D"]])


class ReadmeDaemon(Daemon):
    """Started in its own folder, with what README.md says of a handler of one's own."""

    def configure(self, settings):
        section = (ROOT / "README.md").read_text().split("## A handler of your own\n")[1]
        text = {kind: re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1] for kind in ("yaml", "python")}
        self.config_path.write_text(text["yaml"] + "".join(f"{key}: {json.dumps(value)}\n" for key, value in DEFAULTS.items()))
        (self.folder / "shout.py").write_text(text["python"])
        shutil.copy(EXAMPLES / "python/locksley_worker.py", self.folder)
        os.chdir(self.folder)


class Readme(ExampleTest):
    def test_handlers_of_ones_own(self):
        self.addCleanup(os.chdir, ROOT)
        daemon = ReadmeDaemon()
        self.addCleanup(self._end, daemon)
        run = self.connect(daemon)
        self.assertEqual(run("RUN", "lines", "JOBS", "a\nb\n", ""), [["ok", "2\n"], ["ok", "0\n"]])
        self.assertEqual(run("RUN", "shout", "JOBS", "hello"), [["ok", "HELLO"]])


class Library:
    """The same for each language: `command` is its worker of cases, `error` what its exceptions are called, `prints` what it prints."""

    def start_cases(self, **settings):
        handler = {"worker": self.command, "environment": WITH_LIBRARY, **settings}
        self.daemon = self.start({"handlers": {"cases": handler}})
        return self.connect(self.daemon)

    def test_what_may_be_returned(self):
        run = self.start_cases()
        rows = run("RUN", "cases", "JOBS", "text", "nothing", "view", "number", "", "as it is")
        self.assertEqual(rows[:3], [["ok", "Käse".encode().decode("latin-1")], ["ok", ""], ["ok", "seen"]])
        self.assertEqual(rows[3][0], "error")
        self.assertRegex(rows[3][1], r"^TypeError: the handler returned \w+; it may return ")
        self.assertEqual(rows[4:], [["ok", ""], ["ok", "as it is"]])

    def test_the_job(self):
        run = self.start_cases()
        batch = run("SUBMIT", "cases", "JOBS", "job", "job")
        run("WAIT", batch)
        self.assertEqual(run("RESULTS", batch)[1], [[0, "ok", f"0 of {batch}"], [1, "ok", f"1 of {batch}"]])

    def test_what_is_thrown_is_the_jobs_error_in_one_line(self):
        run = self.start_cases()
        payloads = ["two lines", "unspeakable", "long", *self.more_errors, "still there"]
        rows = run("RUN", "cases", "JOBS", *payloads)
        self.assertEqual(rows.pop(), ["ok", "still there"])
        self.assertEqual({status for status, _ in rows}, {"error"})
        texts = [text for _, text in rows]
        self.assertEqual(texts[0], self.error)
        self.assertRegex(texts[1], r"^\w*(Error|Unspeakable)\b")
        self.assertRegex(texts[2], r"^(Key)?Error: '?x{4000}")
        self.assertLess(len(texts[2]), 5000)
        for text, expected in zip(texts[3:], self.more_errors.values()):
            self.assertRegex(text, expected)
        self.daemon.wait_for_log(rf"{re.escape(pathlib.Path(self.command[-1]).name)}\W.*\d+")  # where it was thrown

    def test_what_is_printed_goes_to_the_log(self):
        run = self.start_cases()
        payloads = ["prints", "a", "prints", "b"]
        self.assertEqual([row[1] for row in run("RUN", "cases", "JOBS", *payloads)], ["quiet", "a", "quiet", "b"])
        for text in ("on its way", *self.prints):
            self.daemon.wait_for_log(text)

    def test_any_bytes(self):
        run = self.start_cases()
        generator = random.Random(7)
        payloads = [b"\r\n", b"$5\r\nhello\r\n", b"*3\r\n", b"-ERR\r\n", b"\0", bytes(range(256))]
        payloads += [generator.randbytes(size) for size in (1 << 20, 65_535, 65_536, 65_537, (1 << 20) + 1)]
        generator.shuffle(payloads)
        rows = run("RUN", "cases", "JOBS", *payloads)
        for payload, (status, output) in zip(payloads, rows, strict=True):
            self.assertEqual(status, "ok")
            self.assertTrue(output.encode("latin-1") == payload, f"{len(payload)} bytes came back otherwise")

    def test_many_in_order(self):
        jobs = 20_000
        run = self.start_cases(concurrency=2)
        batch = run("SUBMIT", "cases", "RANGE", 0, jobs)
        run("WAIT", batch)
        outputs, cursor = {}, "0"
        while True:
            cursor, rows = run("RESULTS", batch, "FROM", cursor, "COUNT", jobs)
            outputs.update({int(index): (status, output) for index, status, output in rows})
            if str(cursor) == "0":
                break
        self.assertEqual(outputs, {index: ("ok", str(index)) for index in range(jobs)})

    def test_the_job_that_kills_its_worker_is_the_one_that_crashed(self):
        run = self.start_cases()
        deadly = [7000, 8111, 9222]  # by then many jobs are sent at once
        payloads = ["dies" if index in deadly else str(index) for index in range(10_000)]
        rows = run("RUN", "cases", "JOBS", *payloads)
        self.assertEqual([(index, row[0]) for index, row in enumerate(rows) if row[0] != "ok"], [(index, "crashed") for index in deadly])

    def test_a_worker_ends_when_its_input_does(self):
        # Were it not to end by itself, SIGKILL would come after the grace time, which is too late for this test.
        run = self.start_cases(max_jobs=1, grace="1h")
        for _ in range(3):
            self.assertEqual(run("RUN", "cases", "JOBS", "a"), [["ok", "a"]])
        wait_for("no process left", lambda: not processes_of(self.daemon, self.command[-1]))

    def test_an_end_between_or_within_requests(self):
        request = encode("abc", 0, "batch")
        for sent, answered in (("", ""), (request, "$3\r\nabc\r\n"), (request + request[:-4], "$3\r\nabc\r\n"), (request[:6], "")):
            sent = sent.encode() if isinstance(sent, str) else sent
            environment = dict(os.environ, PYTHONPATH=str(EXAMPLES / "python"))
            done = subprocess.run(self.command, input=sent, capture_output=True, timeout=DEADLINE_S, env=environment)
            self.assertEqual((done.stdout.decode(), done.stderr, done.returncode), (answered, b"on its way\n", 0))


class Python(Library, ExampleTest):
    command = PYTHON
    error = "ValueError: two lines"
    more_errors = {"half a character": r"^UnicodeEncodeError: "}
    prints = ("printed by Python", "written by C", "printed by a child")

    def test_what_a_function_may_ask_for(self):
        functions = {
            "bytes.upper": "A",
            "lambda payload: payload * 2": "aa",
            "lambda payload, times=3: payload * times": "aaa",
            "lambda payload, *more: str(len(more))": "0",
            "lambda payload, job: f'{job.index} {job.batch}'": "5 b",
        }
        for function, output in functions.items():
            words = [sys.executable, "-B", "-c", f"import locksley_worker as w; w.serve({function})"]
            environment = dict(os.environ, PYTHONPATH=str(EXAMPLES / "python"))
            done = subprocess.run(words, input=encode("a", 5, "b"), capture_output=True, timeout=DEADLINE_S, env=environment)
            self.assertEqual((done.stdout.decode(), done.stderr), (f"${len(output)}\r\n{output}\r\n", b""), function)


class Node(Library, ExampleTest):
    command = NODE
    error = "RangeError: two lines"
    more_errors = {"no error": "^Error: a string$", "fails later": "^TypeError: failed later$"}
    prints = ("printed by console", "written by a stream")

    def test_a_promise_is_waited_for(self):
        run = self.start_cases()
        rows = run("RUN", "cases", "JOBS", "later", "a", "later", "b")
        self.assertEqual([row[1] for row in rows], ["done later", "a", "done later", "b"])


if __name__ == "__main__":
    os.chdir(ROOT)  # the examples' paths begin there
    unittest.main()
