#!/usr/bin/python3
"""Commands and workers: how a job ends, in status and text; what a process is given, and what the kernel holds it to."""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import Daemon, DaemonTest, program, wait_for
from programs import PYTHON, WORKER, keeper_of, new_mark, marked, python, shell, text, worker
from scratch import scratch
from time_limits import with_growing_limits

MEBI = 1 << 20
DEAF = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(1000)"
OPEN_ONES = "import os; print([fd for fd in range(1000) if os.path.lexists(f'/proc/self/fd/{fd}')], os.getcwd())"
NO_ANSWER = "an answer is a RESP2 bulk string of at most max_output (16MiB) or an error, and only answers may go to standard output"


class ProcessTest(DaemonTest):
    def serve(self, **handlers):
        """A connection to a daemon with these handlers."""
        self.daemon = self.start({"handlers": handlers})
        return self.connect(self.daemon)

    def assert_ends_in_time(self, connection, handler, expected):
        """As assert_ends(), with a time limit, whose text stands for {} in the outputs. Where the machine was too slow for it, jobs time out that should not,
        or before they have said a word."""

        def attempt(ms, limit):
            rows = connection("RUN", handler, "TIMEOUT", ms, "JOBS", *expected)
            wanted = [(status, output.replace("{}", limit)) for status, output in expected.values()]
            for payload, row, right in zip(expected, rows, wanted, strict=True):
                if (row[0], text(row[1])) != right:
                    self.assertEqual(row, ["timeout", f"timed out after {limit}"], payload)
                    return False
            return True

        with_growing_limits(attempt)

    def assert_ends(self, connection, handler, expected, *options):
        """`expected`: from payload to status and output. All in one batch."""
        rows = connection("RUN", handler, *options, "JOBS", *expected)
        for payload, row, wanted in zip(expected, rows, expected.values(), strict=True):
            self.assertEqual((row[0], text(row[1])), wanted, payload)


class Ends(ProcessTest):
    """The table in daemon/process/README.md, row by row."""

    def test_of_a_daemon_whose_parent_ignores_the_ends_of_children(self):
        """A program inherits that its parent ignores SIGCHLD. Then the kernel reaps its children without a signal."""
        script = scratch(self) / "ignores"
        script.write_text(f"#!/bin/sh\nexec env --ignore-signal=CHLD '{program('LOCKSLEYD')}' \"$@\"\n")
        script.chmod(0o755)
        with mock.patch.dict(os.environ, {"LOCKSLEYD": str(script)}):
            connection = self.serve(sh=shell(), py=worker(max_jobs=1))
        self.assert_ends(connection, "sh", {"exit 3": ("error", "exit status 3"), "echo ran": ("ok", "ran\n")})
        self.assert_ends(connection, "py", {"answer(1)": ("ok", "1"), "answer(2)": ("ok", "2")})

    def test_command(self):
        connection = self.serve(sh=shell(concurrency=4))
        tail = "x" * 4095 + "y"
        self.assert_ends(connection, "sh", {
            "printf out; echo err >&2": ("ok", "out"),
            "true": ("ok", ""),
            "exit 3": ("error", "exit status 3"),
            "echo out; echo the reason >&2; echo >&2; exit 255": ("error", "exit status 255: the reason"),
            f"head -c 20000 /dev/zero | tr '\\0' x >&2; printf y >&2; exit 1": ("error", f"exit status 1: …{tail}"),
            "kill -SEGV $$": ("crashed", "killed by signal 11 (Segmentation fault)"),
            "echo last words >&2; kill -KILL $$": ("crashed", "killed by signal 9 (Killed): last words"),
            "kill -TERM $$": ("crashed", "killed by signal 15 (Terminated)"),
        })  # fmt: skip

    def test_worker(self):
        connection = self.serve(py=worker())
        self.assert_ends(connection, "py", {
            "answer('out')": ("ok", "out"),
            "answer('')": ("ok", ""),
            "raw('+simple\\r\\n')": ("ok", "simple"),
            "error('ERR the reason')": ("error", "ERR the reason"),
            "os._exit(3)": ("crashed", "the worker ended with exit status 3"),
            "os._exit(0)": ("crashed", "the worker ended with exit status 0"),
            "os.write(2, b'last words\\n'); os.abort()": ("crashed", "the worker was killed by signal 6 (Aborted): last words"),
            "answer(index)": ("ok", "7"),
        })  # fmt: skip

    def test_words_of_one_job_are_not_those_of_the_next(self):
        connection = self.serve(py=worker())
        with tempfile.TemporaryDirectory() as folder:
            heard = folder + "/heard"
            batch = connection("SUBMIT", "py", "JOBS", f"os.write(2, b'old words\\n')\nwhile not os.path.exists({heard!r}): time.sleep(0.01)\nanswer(1)", "os._exit(3)")
            self.daemon.wait_for_log("old words")
            pathlib.Path(heard).touch()
            connection.wait(batch)
            self.assertEqual(connection.results(batch), [[0, "ok", "1"], [1, "crashed", "the worker ended with exit status 3"]])

    def test_answers_that_are_none(self):
        connection = self.serve(py=worker(), wordy=worker())
        something_else = "its worker answered with something else than a bulk string or an error"
        self.assert_ends(connection, "py", {
            "raw('hello\\n')": ("error", f"its worker wrote what is no answer (broken reply: unexpected 'h'): {NO_ANSWER}"),
            "raw('+hello\\n')": ("error", f"its worker wrote what is no answer (broken reply: LF without CR): {NO_ANSWER}"),
            "answer(1)": ("ok", "1"),
            "raw(':5\\r\\n')": ("error", something_else),
            "raw('$-1\\r\\n')": ("error", something_else),
            "raw('*1\\r\\n+x\\r\\n')": ("error", something_else),
            "answer(2)": ("ok", "2"),
        })  # fmt: skip
        # One at a time: who says too much is not asked again. By another handler: the log takes five ends a second of the workers of one.
        pid = connection("RUN", "wordy", "JOBS", "answer(os.getpid()); raw('+more\\r\\n')")[0][1]
        self.daemon.wait_for_log(f'worker is ended .*handler=wordy pid={pid} .*reason="it answered though it was not asked"')
        self.assert_ends(connection, "wordy", {"answer(3)": ("ok", "3")})

    def test_half_an_answer_runs_into_the_time_limit(self):
        connection = self.serve(py=worker())
        self.assert_ends(connection, "py", {"raw('$5\\r\\nhel')": ("timeout", "timed out after 500ms")}, "TIMEOUT", 500)

    def test_a_worker_that_closes_its_output_or_its_input(self):
        connection = self.serve(py=worker())
        self.assert_ends(connection, "py", {"os.close(1); time.sleep(1000)": ("crashed", "the worker closed its standard output")})
        # It reads one job and no other. The second is either not written any more, or written and never read; another process runs it.
        for pause in ("", "time.sleep(0.05);"):
            self.assert_ends(connection, "py", {f"answer(1); flush(); {pause} os.close(0); time.sleep(1000)": ("ok", "1")})
            self.assert_ends(connection, "py", {"answer(2)": ("ok", "2")})
        # One that has read all may answer in its own time.
        self.assert_ends(connection, "py", {"os.close(0); time.sleep(0.8); answer(4); flush(); os._exit(0)": ("ok", "4")})
        self.daemon.wait_for_log('worker has ended by itself .*handler=py pid=\\d+ jobs_answered=2 reason="exit status 0"')
        self.assert_ends(connection, "py", {"answer(5)": ("ok", "5")})

    def test_timeout(self):
        connection = self.serve(sh=shell(timeout="300ms"), deaf=python(concurrency=2), polite=python(grace="1h"), py=worker())
        self.assert_ends(connection, "sh", {"sleep 1000": ("timeout", "timed out after 300ms")})
        # The batch's limit counts for more than the handler's.
        self.assert_ends(connection, "sh", {"sleep 1000": ("timeout", "timed out after 100ms")}, "TIMEOUT", 100)
        self.assert_ends(connection, "sh", {"sleep 0.5; echo slept": ("ok", "slept\n")}, "TIMEOUT", 20_000)
        self.assert_ends_in_time(connection, "sh", {
            "echo still at it >&2; sleep 1000": ("timeout", "timed out after {}: still at it"),
            "true": ("ok", ""),
        })  # fmt: skip
        self.assert_ends_in_time(connection, "py", {
            "answer('first')": ("ok", "first"),
            "os.write(2, b'at it'); time.sleep(1000)": ("timeout", "timed out after {}: at it"),
            "answer('third')": ("ok", "third"),
        })  # fmt: skip
        self.assert_ends(connection, "py", {DEAF.replace("print('deaf', flush=True)", "0"): ("timeout", "timed out after 500ms")}, "TIMEOUT", 500)
        # One that has left its group is ended, too.
        self.assert_ends(connection, "deaf", {
            DEAF: ("timeout", "timed out after 500ms"),
            "import os, time; p = os.fork()\nif not p: os.setpgid(0, 0); time.sleep(1000)\nwhile os.getpgid(p) != p: time.sleep(0.01)\nos.setpgid(0, p); time.sleep(1000)":
                ("timeout", "timed out after 500ms"),
        }, "TIMEOUT", 500)  # fmt: skip
        # What a process says on SIGTERM is heard.
        polite = "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: (os.write(2, b'bye'), os._exit(0))); time.sleep(1000)"
        self.assert_ends_in_time(connection, "polite", {polite: ("timeout", "timed out after {}: bye")})

    def test_the_time_limit_does_not_count_the_start_of_a_worker(self):
        delay = scratch(self) / "delay"
        program = f"import runpy, time; time.sleep(float(open({str(delay)!r}).read())); runpy.run_path({WORKER!r}, run_name='__main__')"
        connection = self.serve(py={"worker": [PYTHON, "-B", "-c", program], "max_jobs": 1})

        def attempt(ms, _):
            delay.write_text(str(1.5 * ms / 1000))
            return connection("RUN", "py", "TIMEOUT", ms, "JOBS", "answer(1)", "answer(2)") == [["ok", "1"], ["ok", "2"]]

        with_growing_limits(attempt)

    def test_a_worker_is_written_three_things_whatever_the_batch_has(self):
        """Programs rely on it; a trace is for commands, handlers and the log."""
        shows = "import os\nwhile asked := os.read(0, 4096): shown = asked.hex().encode(); os.write(1, b'$%d\\r\\n%b\\r\\n' % (len(shown), shown))"
        connection = self.serve(shows={"worker": [PYTHON, "-c", shows]})
        batch = connection("SUBMIT", "shows", "ID", "mine", "TRACE", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "JOBS", "a")
        connection.wait(batch)
        ((_, status, output),) = connection.results(batch)
        self.assertEqual((status, bytes.fromhex(output)), ("ok", b"*3\r\n$1\r\na\r\n$1\r\n0\r\n$4\r\nmine\r\n"))

    def test_cancel_reaches_what_runs(self):
        mark = new_mark()
        connection = self.serve(deaf={"command": [PYTHON, "-c", DEAF, mark], "grace": "100ms", "concurrency": 2}, py=worker(mark))
        at_work = "open('/proc/self/comm', 'w').write('at-work'); "
        for handler, payload, name in (("deaf", "x", None), ("py", at_work + "time.sleep(1000)", "at-work\n")):
            batch = connection("SUBMIT", handler, "JOBS", *[payload] * 5)
            # A command is its job; a worker is there before it has one.
            wait_for("its process", lambda: any(name in (None, pathlib.Path(f"/proc/{pid}/comm").read_text()) for pid in marked(mark)))
            self.assertIn(connection("CANCEL", batch), range(5))
            status = connection.wait(batch)
            self.assertEqual((status["state"], status["cancelled"]), ("cancelled", 5))
            wait_for("no process of it any more", lambda: not marked(mark))
        # A worker that is nearly done is not killed for it.
        pid = connection("RUN", "py", "JOBS", "answer(os.getpid())")[0][1]
        batch = connection("SUBMIT", "py", "JOBS", at_work + "time.sleep(0.03); answer(1)")
        wait_for("the job to run", lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() == "at-work\n")
        connection("CANCEL", batch)
        connection.wait(batch)
        if connection("RUN", "py", "JOBS", "answer(os.getpid())")[0][1] != pid:
            self.assertIn("cancelled", str(connection.results(batch)), "killed, though it had answered in time")

    def test_max_output(self):
        connection = self.serve(sh=shell(max_output="100KiB"), py=worker(max_output="100KiB"))
        too_much = "its output is larger than max_output (100KiB)"
        for size in (102_399, 102_400):
            rows = connection("RUN", "sh", "JOBS", f"head -c {size} /dev/zero") + connection("RUN", "py", "JOBS", f"answer(b'x' * {size})")
            self.assertEqual([(status, len(output)) for status, output in rows], [("ok", size)] * 2)
        self.assert_ends(connection, "sh", {"head -c 102401 /dev/zero": ("error", too_much), "exec cat /dev/zero": ("error", too_much)})
        status, output = connection("RUN", "py", "JOBS", "answer(b'x' * 102401)")[0]
        self.assertEqual(status, "error")
        self.assertIn("max_output (100KiB)", output)
        # What goes to standard error is not output.
        self.assert_ends(connection, "sh", {"head -c 3000000 /dev/zero >&2": ("ok", "")})

    def test_not_started(self):
        with tempfile.TemporaryDirectory() as folder:
            goes, plain = pathlib.Path(folder, "goes"), pathlib.Path(folder, "plain")
            for file in (goes, plain):
                file.write_text("#!/bin/sh\n")
                file.chmod(0o755)
            connection = self.serve(
                none={"command": [str(goes)]}, no_worker={"worker": [str(goes)]}, dir={"command": ["true"], "directory": "/no/such"},
                plain={"command": [str(plain)]}, sh=shell())  # fmt: skip
            goes.unlink()
            plain.chmod(0o644)
            missing = ("error", f"the program '{goes}' cannot be started: No such file or directory")
            self.assert_ends(connection, "none", {"a": missing, "b": missing})
            self.assert_ends(connection, "no_worker", {"a": missing, "b": missing})
            self.assert_ends(connection, "dir", {"a": ("error", "its directory cannot be entered: No such file or directory")})
            self.assert_ends(connection, "plain", {"a": ("error", f"the program '{plain}' cannot be started: Permission denied")})
        # The kernel takes 128 KiB in one argument.
        self.assert_ends(connection, "sh", {"#" * 5 * MEBI: ("error", "the program 'sh' cannot be started: Argument list too long"), "echo on": ("ok", "on\n")})
        self.assert_ends(connection, "sh", {"a\0b": ("error", "the payload has a NUL byte, which an argument cannot have: use input: stdin, or file")})

    def test_the_keeper_is_killed(self):
        connection = self.serve(sh=shell(concurrency=2), py=worker())
        connection("RUN", "py", "JOBS", "answer(1)")
        folder = scratch(self)
        batch = connection("SUBMIT", "sh", "JOBS", *[f"touch {folder}/{i}; exec sleep 1000" for i in range(2)], "echo on")
        wait_for("two processes to run", lambda: len(list(folder.iterdir())) == 2)
        os.kill(keeper_of(self.daemon), 9)
        status = connection.wait(batch)
        self.assertEqual(status["ok"], 1)
        self.assertEqual(sorted(row[1:] for row in connection.results(batch)), [["crashed", "killed by signal 9 (Killed)"]] * 2 + [["ok", "on\n"]])
        self.assert_ends(connection, "py", {"answer(2)": ("ok", "2")})


class Given(ProcessTest):
    """What a process gets, by which way."""

    def test_input(self):
        digest = {"cat": {"command": ["cat"]}, "arg": {"command": ["printf", "<%s|%s>", "{}", "a{}b{}"], "input": "argument"},
                  "file": {"command": ["cat", "{}"], "input": "file"}, "py": worker()}  # fmt: skip
        connection = self.serve(**digest)
        for payload in (b"", b"x", b"a\0b\r\n\xff\0", b"z", bytes(range(256)) * 20480):
            for handler in ("cat", "file"):
                self.assertEqual(connection("RUN", handler, "JOBS", payload), [["ok", payload.decode("latin-1")]], handler)
        self.assertEqual(connection("RUN", "arg", "JOBS", "", "$(id) *'", "{}"), [["ok", "<|ab>"], ["ok", "<$(id) *'|a$(id) *'b$(id) *'>"], ["ok", "<{}|a{}b{}>"]])
        self.assertEqual(connection("RUN", "py", "JOBS", "answer(7)#" + "x" * 5 * MEBI), [["ok", "7"]])

    def test_input_that_is_not_read(self):
        connection = self.serve(deaf={"command": ["true"]}, closes={"command": ["sh", "-c", "exec <&-; echo done"]},
                                part={"command": ["head", "-c", "3"]}, file={"command": ["echo", "{}"], "input": "file"})  # fmt: skip
        for handler, output in {"deaf": "", "closes": "done\n", "part": "xxx", "file": "/dev/fd/3\n"}.items():
            self.assertEqual(connection("RUN", handler, "JOBS", "x" * 5 * MEBI), [["ok", output]])

    def test_environment_descriptors_and_directory(self):
        os.environ["LOCKSLEY_ODD"] = os.environ["LD_ODD"] = "x"
        self.addCleanup(lambda: [os.environ.pop(name) for name in ("LOCKSLEY_ODD", "LD_ODD")])
        show = ["env", "-0"]
        connection = self.serve(env={"command": show}, more={"command": show, "environment": ["A=1=2", "EMPTY=", "HOME=/here"]},
                                fds={"command": [PYTHON, "-c", OPEN_ONES], "directory": "/usr/lib"},
                                file={"command": [PYTHON, "-c", OPEN_ONES, "{}"], "input": "file"}, py=worker(environment=["B=2"], directory="/usr"),
                                path={"command": ["here"], "environment": ["PATH=/nowhere:" + str(self.folder_with("here"))]})  # fmt: skip
        batch = connection("SUBMIT", "env", "TRACE", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "JOBS", "a", "b")
        connection.wait(batch)
        rows = {index: dict(v.split("=", 1) for v in output.split("\0") if v) for index, _, output in connection.results(batch)}
        base = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LOCKSLEY_HANDLER": "env", "LOCKSLEY_BATCH": batch, "LOCKSLEY_INDEX": "1",
                "LOCKSLEY_ATTEMPT": "1", "LOCKSLEY_TENANT": "default", "LOCKSLEY_LANE": "processes", "LOCKSLEY_SLOT": "0"}  # fmt: skip
        self.assertEqual(rows[1], {**base, "TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
        self.assertEqual(rows[0]["LOCKSLEY_INDEX"], "0")
        found = dict(v.split("=", 1) for v in connection("RUN", "more", "JOBS", "x")[0][1].split("\0") if v)
        self.assertEqual(set(found), set(base) | {"A", "EMPTY"})
        self.assertEqual((found["A"], found["EMPTY"], found["HOME"]), ("1=2", "", "/here"))
        environment = connection("RUN", "py", "JOBS", "answer(sorted(os.environ))")[0][1]
        self.assertEqual(set(eval(environment)) - {"LC_CTYPE"}, {"PATH", "HOME", "LOCKSLEY_HANDLER", "LOCKSLEY_LANE", "LOCKSLEY_SLOT", "B"})  # Python sets LC_CTYPE itself
        self.assertEqual(connection("RUN", "fds", "JOBS", "x"), [["ok", "[0, 1, 2] /usr/lib\n"]])
        self.assertEqual(connection("RUN", "file", "JOBS", "x"), [["ok", f"[0, 1, 2, 3] {os.getcwd()}\n"]])
        self.assertEqual(connection("RUN", "py", "JOBS", OPEN_ONES.replace("print(", "answer((") + ")"), [["ok", "([0, 1, 2], '/usr')"]])
        self.assertEqual(connection("RUN", "path", "JOBS", "x"), [["ok", "found\n"]])

    def folder_with(self, name):
        folder = scratch(self)
        script = folder / name
        script.write_text("#!/bin/sh\necho found\n")
        script.chmod(0o755)
        return str(folder)

    def test_descriptors_are_limited_as_usual_though_the_daemon_has_raised_its_own(self):
        connection = self.serve(sh=shell(), more=shell(limits={"files": 77}))
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        most = 1024 if hard == resource.RLIM_INFINITY else min(1024, hard)
        self.assertEqual(connection("RUN", "sh", "JOBS", "ulimit -Sn"), [["ok", f"{most}\n"]])
        self.assertEqual(connection("RUN", "more", "JOBS", "ulimit -Sn; ulimit -Hn"), [["ok", "77\n77\n"]])

    def test_signals_groups_and_privileges(self):
        connection = self.serve(py=python())
        code = "import os; print(os.getpgid(0) == os.getpid(), *sorted(l.split()[1] for l in open('/proc/self/status') if l[:6] in ('SigBlk', 'SigIgn', 'NoNewP')))"
        # Python itself ignores SIGPIPE and SIGXFSZ.
        ignored = f"{1 << 12 | 1 << 24:016x}"
        self.assertEqual(connection("RUN", "py", "JOBS", code), [["ok", f"True {0:016x} {ignored} 1\n"]])

    def test_user(self):
        code = "import os; print(os.getresuid(), os.getresgid(), os.getgroups(), os.environ['HOME'], open('/dev/fd/3').read() if os.path.exists('/dev/fd/3') else '')"
        if os.geteuid() == 0:
            # The tree may lie where nobody else may read.
            folder = scratch(self)
            folder.chmod(0o755)
            program_of_worker = shutil.copy(WORKER, str(folder))
            connection = self.serve(one={"command": [PYTHON, "-c", code], "user": "nobody"},
                                    py={"worker": [PYTHON, "-B", program_of_worker], "user": "nobody"},
                                    file={"command": [PYTHON, "-c", code, "{}"], "user": "nobody", "input": "file"})  # fmt: skip
            nobody = "(65534, 65534, 65534) (65534, 65534, 65534) [] /nonexistent"
            self.assertEqual(connection("RUN", "one", "JOBS", "x"), [["ok", f"{nobody} \n"]])
            self.assertEqual(connection("RUN", "file", "JOBS", "secret"), [["ok", f"{nobody} secret\n"]])
            self.assertEqual(connection("RUN", "py", "JOBS", "answer((os.getuid(), os.getgid(), os.getgroups()))"), [["ok", "(65534, 65534, [])"]])
        with self.assertRaisesRegex(AssertionError, "handlers.one.user: there is no user 'no-such-user' on this machine"):
            self.start({"handlers": {"one": {"command": ["true"], "user": "no-such-user"}}})

    def test_limits(self):
        user = {"user": "nobody"} if os.geteuid() == 0 else {}
        folder = scratch(self)
        folder.chmod(0o777)
        limits = {"cpu": "1s", "memory": "200MiB", "files": 20, "file_size": "10KiB"}
        connection = self.serve(py=python(limits=limits, concurrency=2, directory=str(folder)), many=python(limits={"processes": 30}, **user), free=python())
        read = "import resource as r; print([r.getrlimit(l) for l in (r.RLIMIT_CPU, r.RLIMIT_AS, r.RLIMIT_NOFILE, r.RLIMIT_FSIZE, r.RLIMIT_CORE)])"
        self.assert_ends(connection, "py", {
            read: ("ok", f"{[(1, 2), (200 * MEBI,) * 2, (20, 20), (10240, 10240), (0, 0)]}\n"),
            "while True: pass": ("crashed", "killed by signal 24 (CPU time limit exceeded): more processor time than limits.cpu"),
            "import signal; signal.signal(25, signal.SIG_DFL); open('f', 'wb').write(b'x' * 10241)":
                ("crashed", "killed by signal 25 (File size limit exceeded): a larger file than limits.file_size"),
            "open('g', 'wb').write(b'x' * 10240); print('wrote')": ("ok", "wrote\n"),
        })  # fmt: skip
        for code, reason in {"bytearray(300 << 20)": "MemoryError", "x = [open('/dev/null') for i in range(30)]": "Too many open files"}.items():
            status, output = connection("RUN", "py", "JOBS", code)[0]
            self.assertEqual(status, "error")
            self.assertIn(reason, output)
        status, output = connection("RUN", "many", "JOBS", "import os, time\nfor i in range(60):\n  if os.fork() == 0: time.sleep(100)")[0]
        self.assertEqual(status, "error")
        self.assertIn("Resource temporarily unavailable", output)
        self.assertNotIn("(1, 2)", connection("RUN", "free", "JOBS", read)[0][1])


class Configuration(ProcessTest):
    def check(self, handlers, *arguments):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(f"store: {{path: ''}}\nlisten: {{port: 0}}\nhttp: {{port: 0}}\nhandlers: {handlers}\n")
            file.flush()
            done = subprocess.run([program("LOCKSLEYD"), "--config", file.name, *arguments], capture_output=True, text=True, timeout=30)
            return done.returncode, done.stdout, done.stderr.replace(file.name, "FILE")

    def test_all_keys_are_accepted_and_shown(self):
        command = ("{c: {command: [wc, '{}'], input: file, concurrency: 4, rate: 20/s, timeout: 30s, directory: /tmp, environment: [A=1], user: nobody, "
                   "max_output: 1MiB, grace: 1s, limits: {cpu: 60s, memory: 1GiB, file_size: 100MiB, files: 256, processes: 64}}, "
                   "w: {worker: [cat], max_jobs: 1000, max_memory: 512MiB}}")  # fmt: skip
        code, shown, errors = self.check(command, "--check-config")
        self.assertEqual((code, errors), (0, ""))
        for line in ("input: file", "rate: 20/s", "directory: /tmp", "user: nobody", "max_output: 1MiB", "grace: 1s", "cpu: 1m", "memory: 1GiB", "file_size: 100MiB",
                     "files: 256", "processes: 64", "max_jobs: 1000", "max_memory: 512MiB"):  # fmt: skip
            self.assertIn(line, shown)

    def test_what_is_refused_says_why(self):
        for handler, error in {
            "{command: [a], worker: [b]}": "handlers.h: expected exactly one of command, worker and plugin, found 2",
            "{concurrency: 2}": "handlers.h: expected exactly one of command, worker and plugin, found none",
            "{command: [a], input: file}": "handlers.h.command: expected {} in an argument, because input is file, found none",
            "{command: [a], max_jobs: 5}": "handlers.h.max_jobs: expected max_jobs with a worker or an isolated plugin only, found it with a command",
            "{worker: [a], input: file}": 'handlers.h.input: expected input with a command only, found "file"',
            "{worker: [a], limits: {cpu: 1500ms}}": 'handlers.h.limits.cpu: expected whole seconds, found "1500ms"',
            "{worker: [a], limits: {cup: 1s}}": 'handlers.h.limits.cup: unknown key; did you mean "cpu"?',
            "{worker: [a], environment: ['1A=x']}": 'handlers.h.environment[0]: expected a variable such as LANG=C.UTF-8, found "1A=x"',
            "{worker: [a], max_output: 0}": 'handlers.h.max_output: expected a size from 1 to 1GiB, found "0"',
            "{worker: [a], isolate: true}": "handlers.h.isolate: expected isolate with a plugin only, found it with a worker",
        }.items():
            code, _, errors = self.check(f"{{h: {handler}}}", "--check-config")
            self.assertEqual(code, 78, handler)
            self.assertRegex(errors, r"^FILE:4:\d+: ")
            self.assertIn(error, errors)

    def test_the_name_of_a_built_in_handler_is_taken(self):
        code, _, errors = self.check("{echo: {command: [cat]}}")
        self.assertEqual(code, 78)
        self.assertIn("handlers.echo: a handler of this name is built in; give this one another", errors)


if __name__ == "__main__":
    unittest.main()
