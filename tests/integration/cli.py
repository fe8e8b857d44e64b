#!/usr/bin/python3
"""The program locksley against a daemon: what it prints, for people and for programs, and what it ends with."""
# Length: the tests share the daemon and the program of one class.

import fcntl
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import BROKEN_PIPE, CONFIG, DATA_ERROR, INTERRUPTED, IO_ERROR, JOBS_FAILED, NO_INPUT, OK, TEMPORARY, TERMINATED, UNAVAILABLE, USAGE, CliTest
from locksley_daemon import DEADLINE_S, wait_for
from resp import pairs

HOUR_MS = 3_600_000


class Batches(CliTest):
    def test_a_batch_from_submit_to_forget(self):
        batch = self.out("submit", "echo", "--name", "a name", "--weight", 7, "a", "b").strip()
        self.assertEqual(self.json("wait", batch)["ok"], 2)
        status = self.json("status", batch)
        self.assertEqual((status["id"], status["name"], status["weight"], status["state"]), (batch, "a name", 7, "done"))
        self.assertRegex(self.out("status", batch), r"(?m)^state +done$")
        rows = [json.loads(line) for line in self.out("--json", "results", batch).splitlines()]
        self.assertEqual(len(rows), 2)
        self.assertEqual(self.out("results", "--ordered", batch), "a\nb\n")
        # All in one page, the last one: so nothing is discarded yet. Of several pages, all but the last are.
        self.assertEqual(sorted(self.out("results", "--discard", batch).split()), ["a", "b"])
        self.assertEqual(self.out("results", "--ordered", batch), "a\nb\n")
        many = self.out("submit", "echo", "--range", "0", "10010").strip()
        self.out("wait", many)
        self.assertEqual(len(self.out("results", "--discard", many).split()), 10010)
        self.assertLess(len(self.out("results", many).split()), 10000)
        self.run_cli("results", "--discard", "--ordered", many, code=USAGE)
        self.assertIn("a name", self.out("list"))
        self.assertEqual([one["id"] for one in self.json("list", "--match", "a n*", "--state", "done")], [batch])
        self.assertEqual(self.json("explain", batch)["reason"], "ended")
        self.assertRegex(self.out("explain", batch), r"(?m)^reason +ended$")
        self.assertEqual(self.json("forget", batch), {"id": batch, "forgotten": True})
        self.assertIn(b"no batch", self.run_cli("status", batch, code=DATA_ERROR).stderr)

    def test_changes_to_what_is_queued(self):
        batch = self.out("submit", "--slots", 1, "sleep", *[HOUR_MS] * 3).strip()
        wait_for("a job to run", lambda: self.command.map("STATUS", batch)["running"] == 1)
        self.assertEqual(self.json("weight", batch, 9), {"id": batch, "weight": 9})
        self.assertEqual(self.json("status", batch)["weight"], 9)
        self.assertEqual(self.json("pause", batch), {"id": batch, "paused": True})
        self.assertEqual(self.json("explain", batch)["state"], "running")
        self.assertEqual(self.json("resume", batch), {"id": batch, "paused": False})
        self.run_cli("wait", "--timeout", "100ms", batch, code=TEMPORARY)
        self.run_cli("forget", batch, code=DATA_ERROR)
        self.assertIn(self.json("cancel", batch)["cancelled"], (2, 3))
        self.run_cli("wait", batch, code=JOBS_FAILED)

    def test_the_daemon_looked_at(self):
        self.assertIn("sha256", [one["name"] for one in self.json("handlers")])
        self.assertEqual([one["tenant"] for one in self.json("tenants")], ["default"])
        self.assertEqual(len(self.json("workers")), 2)
        self.assertIn("us", self.json("ping"))
        for command, head in {"handlers": "HANDLER", "tenants": "TENANT", "workers": "WORKER", "list": "BATCH"}.items():
            self.assertIn(head, self.out(command).split("\n")[0])
        self.assertRegex(self.out("ping"), r"answers in \d+ us\n$")

    def test_a_handler_is_restarted(self):
        self.daemon.configure({"handlers": {"naps": {"command": ["sleep", "1000"]}}})
        self.command("CONFIG", "RELOAD")
        self.assertEqual(self.json("handler", "restart", "naps"), {"handler": "naps", "restarted": 0})
        batch = self.command("SUBMIT", "naps", "JOBS", "")
        processes = lambda: {row["name"]: row["processes"] for row in map(pairs, self.command("HANDLERS"))}
        wait_for("its program to run", lambda: processes()["naps"] == 1)
        self.assertEqual(self.out("handler", "restart", "naps"), "1 process is replaced\n")
        self.assertIn(b"no processes", self.run_cli("handler", "restart", "sha256", code=DATA_ERROR).stderr)
        self.run_cli("handler", code=USAGE)
        self.run_cli("handler", "restart", code=USAGE)
        self.command("CANCEL", batch)

    def test_bench(self):
        load = self.json("bench", "--jobs", 100_000, "--batch", 1000)
        self.assertEqual((load["jobs"], load["ok"], load["outputs_right"]), (100_000, 100_000, True))
        self.assertGreater(load["jobs_per_second"], 0)
        latency = self.json("bench", "--latency", "--jobs", 500)
        self.assertEqual(latency["jobs"], 500)
        self.assertLessEqual(latency["p50_us"], latency["p99_us"])
        self.assertIn("jobs/s", self.out("bench", "--jobs", 1000, "--batch", 10))

    def test_a_bench_that_is_interrupted_leaves_no_batch(self):
        process = self.popen("bench", "--jobs", 10_000, "--batch", 100, "--handler", "sleep", "--text", 1000, stdin=subprocess.DEVNULL)
        wait_for("its batches", lambda: self.json("list") or None)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process, "bench"), INTERRUPTED)
        self.assertEqual(self.json("list"), [])

    def test_help_of_every_command(self):
        manual = self.out("--help")
        for command in "submit run results wait list status explain cancel retry forget weight pause resume handler handlers tenants workers ping bench".split():
            self.assertRegex(manual, rf"(?m)^\s+{command}\b")
            self.assertIn("Example", self.out(command, "--help"))


class Input(CliTest):
    def test_a_thousand_lines_in_order_have_the_right_digests(self):
        done = self.run_cli("run", "sha256", "--ordered", stdin="".join(f"{i}\n" for i in range(1, 1001)).encode())
        self.assertEqual(done.stdout.decode().splitlines(), [hashlib.sha256(b"%d" % i).hexdigest() for i in range(1, 1001)])
        self.assertRegex(done.stderr.decode(), r"^1,000 jobs in .*: 1,000 ok")

    def test_lines_that_end_or_not_and_empty_ones(self):
        for text, jobs, lines in ((b"a\nb", 2, "a\nb\n"), (b"a\n\nb\n", 3, "a\nb\n"), (b"", 0, ""), (b"\n", 1, "")):
            done = self.run_cli("run", "echo", "--ordered", stdin=text)
            self.assertEqual(done.stdout.decode(), lines, "a job without output has no line")
            self.assertRegex(done.stderr.decode(), rf"^{jobs} jobs? in", "and is a job")

    def test_an_empty_line_is_no_name_of_a_file(self):
        (self.daemon.folder / "f").write_bytes(b"x")
        for more in ((), ("--results", str(self.daemon.folder / "{/}.out"))):
            done = self.run_cli("run", "echo", "--files", *more, stdin=f"{self.daemon.folder}/f\n\n".encode(), code=NO_INPUT)
            self.assertEqual(done.stderr, b"locksley: line 2 is empty: it names no file\n")

    def test_separated_by_nul(self):
        self.assertEqual(self.run_cli("run", "echo", "--ordered", "-0", stdin=b"a\nb\0c\0").stdout, b"a\nb\nc\n")

    def test_files(self):
        contents = [b"", b"one", bytes(range(256)) * 1000]
        for number, content in enumerate(contents):
            (self.daemon.folder / f"f{number}").write_bytes(content)
        digests = "".join(hashlib.sha256(content).hexdigest() + "\n" for content in contents)
        names = [str(self.daemon.folder / f"f{number}") for number in range(len(contents))]
        self.assertEqual(self.run_cli("run", "sha256", "--ordered", "--files", *names).stdout.decode(), digests)
        self.assertEqual(self.run_cli("run", "sha256", "--ordered", "--files", stdin="\n".join(names).encode()).stdout.decode(), digests)
        missing = self.run_cli("run", "sha256", "--files", self.daemon.folder / "nothing", code=NO_INPUT)
        self.assertIn(b"nothing", missing.stderr)

    def test_a_range(self):
        self.assertEqual(self.run_cli("run", "echo", "--ordered", "--range", -2, 3).stdout, b"-2\n-1\n0\n1\n2\n")
        self.assertEqual(self.run_cli("run", "echo", "--ordered", "--range", 8, 10, "<{}>").stdout, b"<8>\n<9>\n")

    def test_a_file_for_each_output(self):
        folder = self.daemon.folder / "outputs"
        done = self.run_cli("run", "echo", "--results", folder, "a\n", "b")
        self.assertEqual(done.stdout, b"")
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, {"0": b"a\n", "1": b"b"})

    def test_with_json_a_file_for_each_output_and_a_line_that_names_it(self):
        folder = self.daemon.folder / "outputs of json"
        failed = self.run_cli("--json", "run", "fail", "--results", folder, "x", code=JOBS_FAILED)
        done = self.run_cli("--json", "run", "echo", "--results", folder, "a\n")
        self.assertEqual([json.loads(line) for line in failed.stdout.splitlines() + done.stdout.splitlines()],
                         [{"index": 0, "status": "error", "output": "x"}, {"index": 0, "status": "ok", "file": f"{folder}/0"}])
        self.assertEqual({path.name: path.read_bytes() for path in folder.iterdir()}, {"0": b"a\n"})

    def test_words_after_two_dashes_are_payloads(self):
        self.assertEqual(self.run_cli("run", "echo", "--", "-5").stdout, b"-5\n")
        self.assertEqual(self.run_cli("run", "echo", "--ordered", "-1", "--", "--json").stdout, b"-1\n--json\n")

    def test_a_name_cannot_turn_the_screen_around(self):
        batch = self.out("submit", "echo", "--name", "a\u202eb\u2069", "x").strip()
        self.out("wait", batch)
        self.assertIn("a?b?", self.out("list"))
        self.assertIn(r'"name":"a\u202eb\u2069"', self.out("--json", "status", batch))

    def test_failed_jobs_are_queued_again(self):
        batch = self.out("submit", "fail", "x", "y").strip()
        self.run_cli("wait", batch, code=JOBS_FAILED)
        self.assertEqual(self.out("retry", batch), "2 jobs queued again\n")
        self.run_cli("wait", batch, code=JOBS_FAILED)
        self.assertEqual(self.json("retry", batch), {"id": batch, "retried": 2})
        self.run_cli("wait", batch, code=JOBS_FAILED)
        self.assertEqual(self.json("status", batch)["retry_rounds"], 2)

    def test_an_id_that_is_submitted_again_was_there_already(self):
        said = b"locksley: batch again was there already: nothing was started\n"
        self.assertEqual(self.json("submit", "echo", "--id", "again", "a", "b"), {"id": "again", "jobs": 2, "was_there": False})
        self.assertEqual(self.json("submit", "echo", "--id", "again", "a", "b"), {"id": "again", "jobs": 2, "was_there": True})
        done = self.run_cli("submit", "echo", "--id", "again", "a", "b")
        self.assertEqual((done.stdout, done.stderr), (b"again\n", said))
        self.assertEqual(self.out("submit", "echo", "--id", "range", "--range", 0, 3), "range\n")
        self.assertIn(b"batch range was there already", self.run_cli("submit", "echo", "--id", "range", "--range", 0, 3).stderr)
        other = self.run_cli("submit", "echo", "--id", "again", "c", code=DATA_ERROR)
        self.assertEqual(other.stdout, b"")
        self.assertIn(b"it has other jobs", other.stderr)
        done = self.run_cli("run", "echo", "--id", "again", "--ordered", "a", "b")
        self.assertEqual(done.stdout, b"a\nb\n")
        self.assertIn(said, done.stderr)
        # A stream that is complete, and one of which a part was there.
        lines = "".join(f"{i}\n" for i in range(20_000)).encode()
        self.run_cli("submit", "echo", "--id", "long", stdin=lines)
        self.assertIn(b"batch long was there already", self.run_cli("submit", "echo", "--id", "long", stdin=lines).stderr)
        self.command("OPEN", "echo", "ID", "part")
        self.command("ADD", "part", *range(10))
        done = self.run_cli("submit", "echo", "--id", "part", stdin=lines)
        self.assertNotIn(b"was there already", done.stderr)
        self.assertIn(b"has 10 jobs already", done.stderr)

    def test_input_of_any_length_is_streamed(self):
        count = 300_000
        done = self.run_cli("run", "echo", stdin="".join(f"line {i}\n" for i in range(count)).encode())
        self.assertEqual(sorted(done.stdout.decode().splitlines()), sorted(f"line {i}" for i in range(count)))

    def test_submit_streams_before_its_input_ends(self):
        process = self.popen("submit", "echo", "--id", "streamed")
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        wait_for("the batch to be open with its jobs done", lambda: self.ok("streamed") == 2)
        self.assertEqual(self.command.map("STATUS", "streamed")["state"], "open")
        process.stdin.write(b"c\n")
        process.stdin.close()
        self.assertEqual(self.end_of(process, "submit"), OK)
        self.assertEqual(process.stdout.read(), b"streamed\n")
        self.assertEqual(self.command.wait("streamed")["ok"], 3)

    def ok(self, batch):
        reply = self.command.ask("STATUS", batch)
        return reply[reply.index("ok") + 1] if isinstance(reply, list) else None


class Ends(CliTest):
    def test_exit_codes(self):
        self.assertEqual(self.run_cli("run", "echo", "a").stdout, b"a\n")
        failed = self.run_cli("run", "fail", "no luck", code=JOBS_FAILED)
        self.assertEqual(failed.stdout, b"")
        self.assertIn(b"job 0: error: no luck", failed.stderr)
        self.assertIn(b"1 failed", failed.stderr)
        for arguments in ((), ("nosuch",), ("submit",), ("weight", "x", 0), ("run", "echo", "--weight", 1001, "a"), ("--server", "host:port", "ping"), ("--server", "", "ping"),
                          ("--password-file", "", "ping"), ("run", "echo", "--results", "", "a")):
            self.assertNotEqual(self.run_cli(*arguments, code=USAGE).stderr, b"")
        self.assertIn(b"nosuch", self.run_cli("run", "nosuch", "a", code=DATA_ERROR).stderr)
        for command in ("status", "wait", "results", "cancel", "explain", "pause", "resume", "forget"):
            self.assertIn(b"no batch 'nosuch'", self.run_cli(command, "nosuch", code=DATA_ERROR).stderr)
        self.assertIn(b"no section 'nosuch'", self.run_cli("info", "nosuch", code=DATA_ERROR).stderr)
        self.assertRegex(self.run_cli("--server", "127.0.0.1:1", "ping", code=UNAVAILABLE).stderr, rb"127\.0\.0\.1:1: .*\n.*start locksleyd")

    def test_a_reader_that_went_away(self):
        process = self.popen("--json", "run", "sleep", "--range", 0, 3_000_000, 1)  # of jobs without output JSON has a line
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(self.end_of(process, "run"), BROKEN_PIPE)
        self.assertEqual(process.stderr.read(), b"")
        # A job that runs when it is cancelled still ends.
        self.assertEqual(self.command.wait(self.only_batch())["state"], "cancelled")

    def only_batch(self):
        (batch,) = [row["id"] for row in self.command.listed()]
        return batch

    def test_an_output_that_cannot_be_written(self):
        with open("/dev/full", "wb") as full:
            process = self.popen("run", "echo", "a", stdout=full)
            self.assertEqual(self.end_of(process, "run"), IO_ERROR)
        self.assertIn(b"No space left", process.stderr.read())

    def test_each_command_says_that_its_output_cannot_be_written(self):
        """Results that waited for those before them, too."""
        batch = self.command("SUBMIT", "sleep", "ID", "gap", "JOBS", HOUR_MS, 0)
        wait_for("the second job to end", lambda: self.command.map("STATUS", batch)["ok"] == 1)
        for words in (["list"], ["status", batch], ["ping"], ["job", batch, 0], ["--json", "results", "gap", "--ordered"]):
            with self.subTest(words), open("/dev/full", "wb") as full:
                process = self.popen(*words, stdout=full)
                self.assertEqual(self.end_of(process, words[0]), IO_ERROR)
                self.assertEqual(process.stderr.read(), b"locksley: standard output: No space left on device\n")
        for words in (["list"], ["status", batch], ["--json", "results", "gap", "--ordered"]):
            with self.subTest(words, pipe="closed"):
                reader, writer = os.pipe()
                os.close(reader)
                process = self.popen(*words, stdout=writer)
                os.close(writer)
                self.assertEqual(self.end_of(process, words[0]), BROKEN_PIPE)
                self.assertEqual(process.stderr.read(), b"")

    def test_descriptors_that_are_closed_at_the_start(self):
        """No socket gets their numbers: nothing waits for it, and nothing is written into it."""
        def closes(*descriptors):
            return lambda: [os.close(number) for number in descriptors]

        for words in (["run", "echo", "a"], ["list"], ["run", "echo", "a", "--ordered"]):
            with self.subTest(words):
                process = self.popen(*words, preexec_fn=closes(1))
                self.assertEqual(self.end_of(process, words[0]), IO_ERROR)
                self.assertIn(b"standard output: Bad file descriptor", process.stderr.read())
        process = self.popen("run", "nosuch", "a", preexec_fn=closes(0, 1, 2))
        self.assertEqual(self.end_of(process, "run"), DATA_ERROR)
        process = self.popen("submit", "echo", "--id", "silent", "a", preexec_fn=closes(0, 1, 2))
        self.assertEqual(self.end_of(process, "submit"), IO_ERROR)
        self.assertEqual(self.command.wait("silent")["ok"], 1)

    def test_interrupted_with_nobody_to_ask_it_cancels(self):
        for number, code in ((signal.SIGINT, INTERRUPTED), (signal.SIGTERM, TERMINATED)):
            with self.subTest(number.name):
                batch = f"interrupted-{code}"
                process = self.popen("run", "sleep", "--id", batch, HOUR_MS, HOUR_MS, HOUR_MS, stdin=subprocess.DEVNULL)
                wait_for("its jobs to run", lambda: not isinstance(self.command.ask("STATUS", batch), str) and self.command.map("STATUS", batch)["running"] == 2)
                process.send_signal(number)
                self.assertEqual(self.end_of(process, "run"), code)
                self.assertIn(b"is cancelled", process.stderr.read())
                self.assertEqual(self.command.wait(batch)["state"], "cancelled")

    def test_it_says_once_that_no_worker_serves_its_handler(self):
        daemon = self.start({"workers": {"port": 0}, "handlers": {"far": {"remote": True}}})
        process = self.popen("--server", f"{daemon.host}:{daemon.port}", "run", "far", "--id", "waits", "a", stdin=subprocess.DEVNULL)
        self.assertEqual(process.stderr.readline(), b"locksley: batch waits waits: no worker serves the handler 'far' now\n")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(self.end_of(process, "run"), TERMINATED)
        self.assertNotIn(b"serves", process.stderr.read())

    def test_what_is_wrong_with_the_options_of_work(self):
        for handler, worker, problem in (("a name", "true", r"handlers\.a name: expected a name .*"), ("a", "/is/not/there", r".*handlers\.a\.worker: the program '/is/not/there' cannot be started: .*")):
            wrong = self.run_cli("work", handler, "--", worker, code=CONFIG)
            self.assertRegex(wrong.stderr.decode().splitlines()[0], rf"\A{problem}\Z")
            self.assertNotIn(b"/dev/fd", wrong.stderr, "a file that the user has not written")

    def test_interrupted_while_its_input_is_open(self):
        process = self.popen("run", "echo", "--id", "half")
        process.stdin.write(b"a\n")
        process.stdin.flush()
        wait_for("the job to end", lambda: not isinstance(self.command.ask("STATUS", "half"), str) and self.command.map("STATUS", "half")["ok"] == 1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process, "run"), INTERRUPTED)
        self.assertEqual(self.command.wait("half")["state"], "cancelled")

    def test_the_daemon_ends_in_the_middle(self):
        process = self.popen("run", "sleep", HOUR_MS, stdin=subprocess.DEVNULL)
        wait_for("its job to run", lambda: any(row["running"] for row in self.command.listed()))
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_for_log("draining")
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_end()
        code = self.end_of(process, "run")
        self.assertIn(code, (JOBS_FAILED, UNAVAILABLE))
        self.assertNotEqual(process.stderr.read(), b"")

    def test_a_draining_daemon(self):
        blocker = self.command("SUBMIT", "sleep", "JOBS", HOUR_MS)
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait_for_log("draining")
        self.assertIn(b"shutting down", self.run_cli("submit", "echo", "a", code=UNAVAILABLE).stderr)
        self.command("CANCEL", blocker)
        self.assertEqual(self.daemon.wait_end(), 0)


class Full(CliTest):
    settings = {"limits": {"max_queued_jobs": 10}}

    def test_queue_full_is_for_trying_again(self):
        self.command("SUBMIT", "sleep", "JOBS", *[HOUR_MS] * 10)
        full = self.run_cli("submit", "echo", "--range", 0, 10, code=TEMPORARY)
        self.assertIn(b"limits.max_queued_jobs", full.stderr)
        self.assertIn(b"TOOBIG", self.run_cli("submit", "echo", "--range", 0, 11, code=DATA_ERROR).stderr)


class FewAddresses(CliTest):
    """Not with sanitizers, which take more addresses than the limit leaves."""

    def test_a_bench_for_whose_threads_there_is_no_room_ends(self):
        stack, limit = 1 << 26, 1 << 30  # bytes of addresses: for some twelve stacks

        def few_addresses():
            resource.setrlimit(resource.RLIMIT_STACK, (stack, resource.getrlimit(resource.RLIMIT_STACK)[1]))
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

        done = self.run_cli(
            *("bench", "--jobs", 1000, "--batch", 1, "--connections", 500),
            code=IO_ERROR,
            preexec_fn=few_addresses,
        )
        self.assertRegex(done.stderr, rb"only \d+ of 500 threads can be started .* use fewer --connections")


class Terminal(CliTest):
    def test_payloads_that_are_typed_are_asked_for(self):
        for command, what, said in (
            (("run", "echo"), "payloads", "one a line"),
            (("submit", "echo"), "payloads", "one a line"),
            (("run", "echo", "--files"), "names of files", "one a line"),
            (("run", "echo", "--files", "--results", f"{self.daemon.folder}/{{/}}.out"), "names of files", "one a line"),
            (("run", "echo", "-0"), "payloads", "each ended by a NUL"),
            (("exec", "--dry-run", "--", "true"), "arguments", "one a line"),
        ):
            with self.subTest(command):
                main, terminal = os.openpty()
                process = self.popen(*command, stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                os.close(terminal)
                os.write(main, b"/dev/null\n\x04")  # Ctrl-D
                _, err = process.communicate(timeout=DEADLINE_S)
                os.close(main)
                self.assertEqual(process.returncode, 0, err)
                self.assertIn(f"locksley: reading {what} from the terminal, {said}; end with Ctrl-D\n", err.decode())

    def test_a_progress_bar_on_a_terminal_and_the_question_after_an_interrupt(self):
        """On a pseudo-terminal: bar and rate; Ctrl-C asks; Enter goes on, `l` leaves the batch to run, however long that took."""
        main, terminal = os.openpty()
        process = self.popen(
            *("run", "sleep", "--id", "seen", *[20] * 20, *[HOUR_MS] * 380),
            **dict.fromkeys(("stdin", "stdout", "stderr"), terminal),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(terminal)
        self.addCleanup(os.close, main)
        os.set_blocking(main, False)
        seen = bytearray()

        def read_until(pattern):
            def look():
                try:
                    seen.extend(os.read(main, 65536))
                except BlockingIOError:
                    pass
                match = re.search(pattern, seen)
                if match:
                    del seen[: match.end()]
                return match

            wait_for(f"{pattern!r} on the terminal", look)

        read_until(rb"\[#*-+\] \d+/400 \d+(\.\d+)?%.* jobs/s")
        for answer in (b"\n", b"l\n"):
            os.write(main, b"\x03")
            read_until(rb"Interrupted\. Batch seen: .*\? ")
            os.write(main, answer)
            if answer == b"\n":
                read_until(rb"\d+/400 \d")
        read_until(rb"is left as it is")
        self.assertEqual(self.end_of(process, "run"), INTERRUPTED)
        wait_for("it to go on", lambda: (self.command.status("seen")["ok"], self.command.status("seen")["running"]) == (20, 2))
        self.assertEqual(self.command.status("seen")["cancelled"], 0)


if __name__ == "__main__":
    unittest.main()
