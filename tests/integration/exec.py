#!/usr/bin/python3
"""locksley exec: any command for each argument, as xargs and GNU parallel run it; its words, outputs and exit statuses."""

import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import DATA_ERROR
from exec_daemon import EXEC, EXEC_FAILED, ExecTest
from locksley_daemon import wait_for
from resp import Error, pairs


class Words(ExecTest):
    def test_replacement_strings_and_where_arguments_come_from(self):
        for words, stdin, expected in (
            (("echo", "{}"), "a b\nc\n", ["echo 'a b'", "echo c"]),
            (("echo",), "a\n\nb", ["echo a", "echo ''", "echo b"]),
            (("echo", "{.}", "{/}", "{//}", "{/.}", "{#}"), "x/y.tar.gz\n", ["echo x/y.tar y.tar.gz x y.tar 1"]),
            (("echo", "<{}>{#}"), "a\n", ["echo '<a>1'"]),
            (("echo", "{1}", "{2}", "{3}", "{2.}"), "a\n", ["echo a '' '' ''"]),
            (("echo", "{x}", "{", "}", "{ }"), "a\n", ["echo '{x}' '{' '}' '{ }' a"]),
            (("echo", ":::", "a", "--joblog", "-j"), "", ["echo a", "echo --joblog", "echo -j"]),
            (("echo", ":::", "a", "b", ":::", "1", "2"), "", ["echo a 1", "echo a 2", "echo b 1", "echo b 2"]),
            (("echo", ":::", "a", "b", ":::+", "1", "2"), "", ["echo a 1", "echo b 2"]),
            (("echo", ":::", "a", "b", ":::+", "1", ":::", "x", "y"), "", ["echo a 1 x", "echo a 1 y"]),
            (("echo", "{2}-{1}", "{}", ":::", "a", ":::", "1"), "", ["echo 1-a a 1"]),
            (("echo", "{}", ":::", "{}", "{#}", "$HOME"), "", ["echo '{}'", "echo '{#}'", "echo '$HOME'"]),
        ):
            with self.subTest(words=words):
                out = self.exec("--dry-run", "--", *words, stdin=stdin.encode()).stdout.decode().splitlines()
                self.assertEqual(out, expected)

    def test_options_of_standard_input(self):
        self.assertEqual(self.exec("-k", "-0", "--", "printf", "<%s>", stdin=b"a\nb\0-n\0").stdout, b"<a\nb><-n>")
        self.assertEqual(self.exec("-k", "-r", "--", "echo", "x", "{}", stdin=b"a\n\n \nb\n").stdout, b"x a\nx b\n")
        self.assertEqual(self.exec("-k", "-n", 2, "--", "echo", "{}", "-", "<{}>", "{2}", stdin=b"a\nb\nc\n").stdout, b"a b - <a b> b\nc - <c> \n")
        self.assertEqual(self.exec("--", "echo", stdin=b"").stdout, b"")

    def test_options_as_xargs_and_gnu_parallel_have_them(self):
        words = ("-k", "-P", 0, "-N2", "-I{}", "--will-cite", "--wd", "/", "--timeout", 30, "--halt", 2, "--", "echo", "{1}-{2}")
        self.assertEqual(self.exec(*words, stdin=b"a\nb\nc\n").stdout, b"a-b\nc-\n")
        self.assertIn(b"1/1", self.exec("--eta", "-j", "50%", "--", "true", ":::", 1).stderr)

    def test_no_shell_is_involved(self):
        words = ["; touch pwned", "$(touch pwned)", "`touch pwned`", "a b  c", "'", '"', "\\", "*", "-rf", "--", "-n", "&& false", "{}", "\u00e9", "\x01", ""]
        out = self.exec("-k", "--", "printf", "<%s>\\n", "{}", ":::", *words).stdout.decode()
        self.assertEqual(out, "".join(f"<{word}>\n" for word in words))
        self.assertEqual(list(self.work.iterdir()), [])
        (self.work / "a program").write_text("#!/bin/sh\necho ran\n")
        (self.work / "a program").chmod(0o755)
        self.assertEqual(self.exec("--", "./a program", ":::", "a").stdout, b"ran\n")
        self.assertEqual(self.exec("--", "sh", "-c", "{}", ":::", "echo a | tr a b").stdout, b"b\n", "the argument is meant as a script")
        self.assertEqual(self.exec("--", "sh", "-c", 'echo "$1" | tr a b', "_", "{}", ":::", "a; exit 3").stdout, b"b; exit 3\n")

    def test_arguments_of_any_size_and_bytes(self):
        long = b"x" * 100_000
        self.assertEqual(self.exec("--", "printf", "%s", stdin=long).stdout, long)
        # More than the kernel takes for one argument; and more than the daemon takes for a payload.
        longest = 32 * os.sysconf("SC_PAGESIZE") - 1
        self.assertEqual(self.exec("--", "printf", "%s", stdin=b"y" * longest).stdout, b"y" * longest)
        for size, said in ((longest + 1, f"its arguments are too long: an argument or a variable has {longest + 1} bytes, and the kernel takes {longest} at most"),
                           (9 << 20, "too long")):
            done = self.exec("--joblog", "log", "--", "printf", "%s", "{}", "x", stdin=b"y" * size, code=1)
            self.assertIn(said, done.stderr.decode())
            self.assertEqual(self.rows()[0][6:8], ["127", "0"])
        self.assertEqual(self.exec("--", "printf", "%s", "{}", stdin=b"\xff\xfe\x80").stdout, b"\xff\xfe\x80")
        done = self.exec("--", "echo", stdin=b"a\nb\0c\n", code=EXEC_FAILED)
        self.assertIn("line 2 of the input has a NUL byte", done.stderr.decode())

    def test_where_and_with_which_variables(self):
        self.assertEqual(self.exec("--", "pwd", ":::", "-P").stdout.decode(), f"{self.work.resolve()}\n")
        (self.work / "in").mkdir(mode=0o755)
        self.assertEqual(self.exec("--workdir", "in", "--", "pwd", ":::", "-P").stdout.decode(), f"{self.work.resolve()}/in\n")
        self.environment["SEEN"] = "by name"
        out = self.exec("--env", "SEEN", "--env", "SET=a=b c", "--env", "NOT_THERE", "--", "sh", "-c", 'echo "$SEEN|$SET|${NOT_THERE-none}|${LOCKSLEY_URL-none}|$1"', "_", ":::", "x")
        self.assertEqual(out.stdout, b"by name|a=b c|none|none|x\n")
        (self.work / "hello").write_text("#!/bin/sh\necho hello $1\n")
        (self.work / "hello").chmod(0o755)
        self.assertEqual(self.exec("--env", f"PATH={self.work}:/bin:/usr/bin", "--", "hello", ":::", "you").stdout, b"hello you\n")
        self.assertIn("cannot", self.exec("--workdir", "/no/such/folder", "--", "pwd", ":::", "-P", code=1).stderr.decode())

    def test_words_that_are_refused(self):
        for words, said in (
            (("echo", "a"), "exec: -- must stand before the command: locksley exec -- COMMAND {}\n"),
            (("wc", "-l"), "exec: -- must stand before the command: locksley exec -- COMMAND {}\n"),
            (("sort {} | uniq",), "a pipe or a variable needs a shell: locksley exec -- sh -c "),
            (("--no-such-option", "wc", "-l", "--", "echo"), "no option is named '--no-such-option'"),
            (("--",), "a command must follow --"),
            (("--", ":::", "a"), "a command must follow --"),
            (("--", "echo", ":::+", "a"), "goes along with the list before it"),
            (("--", "", ":::", "a"), "empty name"),
            (("--", "echo", "::::", "list"), ":::: is missing here: give the lines of a file on standard input, < FILE"),
            (("--", "echo", ":::", "a", "::::+", "list"), "::::+ is missing here"),
            (("--", "echo", "{}", "{%}", ":::", "a"), "{%} is missing here: a command has the number of its slot as $LOCKSLEY_SLOT"),
            (("--", "echo {} && touch ran"), "no program. A command with a pipe or a variable needs a shell: locksley exec -- sh -c 'echo \"$1\" && touch ran' _ {}"),
            (("--", "sh", "-c", "echo {}; touch ran", ":::", "a"), "{} within the script of sh -c is refused: the shell would execute what an argument"),
            (("-0", "--", "echo", ":::", "a"), "-0, -n and -r are for standard input"),
            (("--resume", "--", "echo", ":::", "a"), "need --joblog"),
            (("--resume", "--retry-failed", "--joblog", "log", "--", "echo"), "only one of"),
            (("--retry-failed", "--joblog", "log", "--", "echo"), "takes the commands from the joblog"),
            (("-k", "--results", "out", "--", "echo"), "cannot be combined with --results"),
            (("--halt", "now,fail=0", "--", "echo"), "--halt: expected never"),
            (("--halt", "later,fail=1", "--", "echo"), "--halt: expected never"),
            (("--halt", "soon,fail=101%", "--", "echo"), "--halt: expected never"),
            (("--env", "=x", "--", "echo"), "--env needs NAME"),
            (("--joblog", "", "--", "echo"), "--joblog: must not be empty"),
            (("--results", "", "--", "echo"), "--results: must not be empty"),
            (("--workdir", "", "--", "echo"), "--workdir: must not be empty"),
            (("--keep", "none", "--", "echo"), "--keep"),
            (("--no-such-option", "--", "echo"), "no-such-option"),
            (("-j", "x", "--", "echo"), "-j: expected a number of commands, or 50%, +1 or -1"),
            (("-I", "@", "--", "echo"), "-I: the replacement string is {} and no other"),
            (("--delay", "1", "--", "echo"), "--delay: '1' has no unit. It is not the pause of GNU parallel"),
            (("--timeout", "x", "--", "echo"), "--timeout: 'x' is not a duration"),
            (("-L1", "--", "echo"), "exec has no option -L1: -n N takes N lines for one command"),
            (("-k", "-u", "--", "echo"), "exec has no option -u: an output is printed when its job has ended"),
            (("-a", "file", "--", "echo"), "exec has no option -a: give the file on standard input, < FILE"),
            (("--colsep", ",", "--", "echo"), "exec has no option --colsep: split the arguments"),
            (("--joblog", "+log", "--", "echo"), "--joblog +FILE, to append, is missing here: --resume appends to FILE"),
            (("--results", "out.csv", "--", "echo"), "--results: one file for all jobs, such as out.csv, is missing here"),
        ):
            with self.subTest(words=words):
                self.assertIn(said, self.exec(*words, code=EXEC_FAILED).stderr.decode())
        self.assertFalse((self.work / "ran").exists())
        done = self.exec("--", "{}", stdin=b"\n", code=EXEC_FAILED)
        self.assertIn("job 1: its program has an empty name", done.stderr.decode())


class Outputs(ExecTest):
    def test_outputs_are_not_mixed(self):
        script = "for i in 1 2 3 4 5 6 7 8 9; do echo $1 $i; done"
        out = self.exec("--", "sh", "-c", script, "_", stdin="".join(f"{i}\n" for i in range(100)).encode()).stdout.decode().split("\n")
        self.assertEqual(out.pop(), "")
        blocks = [out[i : i + 9] for i in range(0, 900, 9)]
        self.assertEqual({tuple(block) for block in blocks}, {tuple(f"{job} {i}" for i in range(1, 10)) for job in range(100)})

    def test_in_the_order_of_the_input(self):
        out = self.exec("-k", "--", "sh", "-c", "sleep 0.$1; echo $1", "_", ":::", 3, 0, 2, 1).stdout
        self.assertEqual(out, b"3\n0\n2\n1\n")

    def test_a_failed_job_keeps_its_output(self):
        done = self.exec("--", "sh", "-c", "echo out; echo err >&2; exit $1", "_", ":::", 3, code=1)
        self.assertEqual(done.stdout, b"out\n")
        self.assertEqual(done.stderr.decode().splitlines()[0], "err")
        batch = re.search(r"batch (\S+)", done.stderr.decode())[1]
        self.assertEqual(self.command("RESULTS", batch), ["0", [[0, "error", "exit status 3: err\0out\n"]]])
        # What a program says has no meaning for what is known of it.
        done = self.exec("--joblog", "log", "--", "sh", "-c", r'printf "exit status 0\0x"; printf "a\0b" >&2; exit 4', "_", ":::", 1, code=1)
        self.assertEqual(done.stdout, b"exit status 0\0x")
        self.assertTrue(done.stderr.startswith(b"a\0b"))
        self.assertEqual(self.rows()[0][6], "4")

    def test_no_newline_is_added(self):
        self.assertEqual(self.exec("-k", "--", "printf", "%s", ":::", "a", "b").stdout, b"ab")

    def test_tags(self):
        done = self.exec("-k", "--tag", "--", "sh", "-c", "echo $1; printf $2; echo e >&2", "_", "{1}", "{2}", ":::", "a", ":::", "1", "2")
        self.assertEqual(done.stdout, b"a 1\ta\na 1\t1a 2\ta\na 2\t2")
        self.assertEqual(done.stderr, b"a 1\te\na 2\te\n")

    def test_json(self):
        done = self.run_cli("--json", "exec", "-k", "--", "sh", "-c", r'printf "$1"; exit $2', "_", "{1}", "{2}", ":::", "a", r"\377", ":::", 0, 2, cwd=self.work, code=2)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(row["seq"], row["input"], row["status"], row["exit_status"], row["signal"]) for row in rows],
                         [(1, "a 0", "ok", 0, 0), (2, "a 2", "error", 2, 0), (3, r"\377 0", "ok", 0, 0), (4, r"\377 2", "error", 2, 0)])
        self.assertEqual([rows[0]["output"], rows[1]["output"], rows[2]["output_base64"]], ["a", "a", "/w=="])

    def test_results_in_a_folder(self):
        self.exec("--results", "out", "--", "sh", "-c", "echo $1-$2; echo e >&2; exit $2", "_", "{1}", "{2}", ":::", "a", "x/y+z", "..", ":::", 0, 1, code=3)
        found = {str(path.relative_to(self.work / "out")): path.read_text() for path in (self.work / "out").rglob("*") if path.is_file()}
        expected = {}
        for number, (name, code, folder) in enumerate((n, c, f) for n, f in (("a", "a"), ("x/y+z", "x+zy++z"), ("..", "+d+d")) for c in (0, 1)):
            for file, text in (("stdout", f"{name}-{code}\n"), ("stderr", "e\n"), ("seq", str(number + 1))):
                expected[f"1/{folder}/2/{code}/{file}"] = text
        self.assertEqual(found, expected)

    def test_results_by_a_path(self):
        done = self.exec("--results", "out/{/.}.{#}", "--", "echo", ":::", "x/a.txt", "b")
        self.assertEqual(done.stdout, b"")
        self.assertEqual({path.name: path.read_text() for path in (self.work / "out").iterdir()},
                         {"a.1": "x/a.txt\n", "a.1.err": "", "a.1.seq": "1", "b.2": "b\n", "b.2.err": "", "b.2.seq": "2"})
        done = self.exec("--results", "out/{}", "--", "echo", ":::", "../up", code=EXEC_FAILED)
        self.assertIn("would leave out/", done.stderr.decode())
        self.assertFalse((self.work / "up").exists())

    def test_results_by_a_path_of_single_arguments(self):
        self.exec("--results", "out/{1}-{2/.}{3}", "--", "echo", "{2}", ":::", "a", "b", ":::", "x/c.txt")
        outputs = {path.name: path.read_text() for path in (self.work / "out").iterdir() if path.suffix == ""}
        self.assertEqual(outputs, {"a-c": "x/c.txt\n", "b-c": "x/c.txt\n"})
        done = self.exec("--results", "out/{2}", "--", "echo", ":::", "a", ":::", "../up", code=EXEC_FAILED)
        self.assertIn("would leave out/", done.stderr.decode())

    def test_messages_are_short(self):
        done = self.exec("-n", 30_000, "--", "no-such-program", stdin=b"argument\n" * 60_000, code=2)
        messages = done.stderr.decode().splitlines()
        self.assertEqual(len(messages), 3)
        for message in messages[:2]:
            self.assertRegex(message, r"\Alocksley: job [12] \((argument )+.*\.\.\.\): the program")
            self.assertLess(len(message), 400)

    def test_an_output_that_cannot_be_written(self):
        """What is left can be taken later, with a joblog or without."""
        for words, said in (((), "; `locksley results {0}` has its outputs\n"), (("--joblog", "log"), "; the same command with --resume goes on with it\n")):
            with open("/dev/full", "wb") as full:
                process = self.popen("exec", *words, "--", "echo", ":::", 1, cwd=self.work, stdout=full)
                self.assertEqual(self.end_of(process, "exec"), EXEC_FAILED)
            errors = process.stderr.read().decode()
            batch = re.search(r"batch (\S+) is left as it is", errors)[1]
            self.assertIn(f"see `locksley status {batch}`" + said.format(batch), errors)
            self.assertEqual(self.command("RESULTS", batch)[1], [[0, "ok", "1\n"]])

    def test_progress(self):
        done = self.exec("--progress", "--", "true", ":::", *range(7))
        self.assertIn(b"7/7", done.stderr)
        self.assertEqual(self.exec("--", "true", ":::", *range(7)).stderr, b"")

    def test_ten_thousand_tiny_jobs(self):
        numbers = range(10_000)
        done = self.exec("--joblog", "log", "--", "echo", stdin="".join(f"{i}\n" for i in numbers).encode(), timeout=300)
        self.assertEqual(sorted(map(int, done.stdout.split())), list(numbers))
        self.assertEqual(sorted(int(row[0]) for row in self.rows()), [i + 1 for i in numbers])
        self.assertEqual(self.command.listed(), [], "all were ok, so nothing is kept")

    def test_a_closed_pipe_cancels(self):
        process = self.popen("exec", "--", "sh", "-c", "echo $1; sleep 0.1", "_", ":::", *range(2000), cwd=self.work)
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(self.end_of(process, "exec without a reader"), 141)
        wait_for("the jobs to end", lambda: [batch["state"] for batch in self.command.listed()] == ["cancelled"])


    def test_an_id_that_was_there_already(self):
        words = ("--id", "again", "--retain", "1h", "--", "echo", ":::", "a")
        self.assertEqual(self.exec(*words).stderr, b"")
        done = self.exec(*words)
        self.assertEqual((done.stdout, done.stderr), (b"a\n", b"locksley: batch again was there already: nothing was started\n"))


class TooLong(ExecTest):
    settings = {**EXEC, "limits": {"max_payload": "1KiB"}}

    def test_an_argument_that_is_too_long_is_named(self):
        long = b"x" * 2000
        for before in (2, 20_000):  # one SUBMIT, and a stream
            with self.subTest(before=before):
                lines = b"".join(b"%d\n" % i for i in range(before)) + long + b"\nlast\n"
                done = self.exec("--", "true", stdin=lines, code=EXEC_FAILED)
                said = done.stderr.decode()
                self.assertRegex(said, rf"(?m)^locksley: job {before + 1} \(x{{197}}\.\.\.\): TOOBIG bytes of a payload: 20\d\d, and limits\.max_payload is 1024$")
                self.assertEqual(re.findall(r"batch \S+ is cancelled; [\d,]+ jobs? will not run", said) != [], before > 2)
                done = self.run_cli("run", "echo", stdin=lines, code=DATA_ERROR)
                self.assertIn(f"locksley: job {before}: TOOBIG", done.stderr.decode())


class Ends(ExecTest):
    def test_the_exit_status_is_the_number_of_failed_jobs(self):
        for count, code in ((0, 0), (1, 1), (7, 7), (100, 100), (101, 101), (300, 101)):
            done = self.exec("--", "sh", "-c", "[ $1 -lt 0 ]" if count else "true", "_", ":::", *range(max(count, 1)), code=code)
            self.assertEqual(b"jobs failed" in done.stderr, count != 0)

    def test_what_is_not_about_jobs_is_255(self):
        self.environment["LOCKSLEY_URL"] = "redis://127.0.0.1:1"
        self.assertIn(b"127.0.0.1:1", self.exec("--", "echo", ":::", "a", code=EXEC_FAILED).stderr)
        self.environment["LOCKSLEY_URL"] = "http://x"
        self.exec("--", "echo", ":::", "a", code=EXEC_FAILED)

    def test_signals_and_time_limits(self):
        run = ("-k", "--joblog", "log", "--", "sh", "-c", "eval \"$1\"", "_", ":::")
        done = self.exec(*run, "echo e >&2; kill -9 $$", "exit 9", "true", code=2)
        self.assertEqual(done.stderr.decode().splitlines()[:2], ["e", "locksley: job 1 (echo e >&2; kill -9 $$): killed by signal 9 (Killed)"])
        rows = lambda: {int(row[0]): (row[6], row[7]) for row in self.rows()}
        self.assertEqual(rows(), {1: ("0", "9"), 2: ("9", "0"), 3: ("0", "0")})
        # A limit that none but a program without an end comes to would be long.
        done = self.exec("--timeout", 1, *run, "sleep 600", code=1)
        self.assertIn("job 1 (sleep 600): timed out after 1s", done.stderr.decode())
        done = self.exec("--timeout", "300ms", *run, "sleep 600", "sleep 600", code=2)
        self.assertEqual(done.stderr.decode().splitlines()[:2], [f"locksley: job {job} (sleep 600): timed out after 300ms" for job in (1, 2)])
        self.assertEqual(rows(), {1: ("-1", "15"), 2: ("-1", "15")})

    def test_retries(self):
        script = "echo x >> tries; [ $(wc -l < tries) -ge 3 ]"
        self.exec("--retries", 2, "--", "sh", "-c", script, "_", ":::", 1)
        self.assertEqual((self.work / "tries").read_text(), "x\n" * 3)

    def test_jobs_at_once(self):
        script = "echo + >> log; sleep 0.05; echo - >> log"
        self.exec("-j", 1, "--", "sh", "-c", script, "_", ":::", *range(6))
        self.assertEqual((self.work / "log").read_text(), "+\n-\n" * 6)
        done = self.exec("-j", 50, "--", "true", ":::", 1)
        self.assertIn("at most 2 commands run at once, the slots of lane processes", done.stderr.decode())

    def test_halt_now(self):
        # The job that fails does so when the other one runs.
        script = "echo $1 >> ran; [ $1 = 2 ] || exec sleep $1; until grep -q 100 ran; do sleep 0.01; done; exit 7"
        done = self.exec("-j", 2, "--halt", "now,fail=1", "--", "sh", "-c", script, "_", ":::", 100, 2, 101, 102, code=7, timeout=90)  # before the 100 s
        self.assertIn("--halt: the batch is cancelled", done.stderr.decode())
        ran = set((self.work / "ran").read_text().split())
        self.assertLessEqual({"100", "2"}, ran)
        self.assertNotIn("102", ran)  # 101 may have begun before the program got the failure

    def is_held(self):
        """Whether a batch that runs, or takes more jobs, is paused; one that the program has forgotten meanwhile is not."""
        explained = [self.command.ask("EXPLAIN", batch["id"]) for batch in self.command.listed() if batch["state"] in ("running", "open")]
        return any(pairs(one)["paused"] for one in explained if not isinstance(one, Error))

    def processed(self):
        """How many commands the daemon has taken from other connections than this test's."""
        self.asked += 1
        return int(re.search(r"total_commands_processed:(\d+)", self.command("INFO", "stats"))[1]) - self.asked

    def test_halt_soon(self):
        for halt, code in (("soon,fail=1", 7), ("soon,fail=3", 3), ("soon,fail=10%", 10), ("soon,success=1", 0), ("soon,done=1", 0)):
            with self.subTest(halt=halt):
                fails = "fail" in halt
                # The fourth runs until the batch is held, so that it depends on no time how many begin.
                script = "echo $1 >> ran; [ $1 -lt 3 ] || until [ -e held ]; do sleep 0.01; done; echo $1 >> done; exit " + ("7" if fails else "0")
                process = self.popen("exec", "-j", 1, "--halt", halt, "--", "sh", "-c", script, "_", ":::", *range(20), cwd=self.work)
                wait_for("no more to start", lambda: self.is_held() or process.poll() is not None)
                (self.work / "held").touch()
                self.assertEqual(self.end_of(process, "exec"), code)
                ran, done = ((self.work / name).read_text().split() for name in ("ran", "done"))
                self.assertEqual(ran, done, "what ran came to its end")
                self.assertLessEqual(len(ran), 4)
                # One at a time, the daemon itself ends the batch at the right job.
                self.assertEqual(len(ran), {"soon,fail=1": 1, "soon,fail=3": 3}.get(halt, len(ran)))
                for name in ("ran", "done", "held"):
                    (self.work / name).unlink()
        self.exec("--halt", "never", "--", "false", ":::", 1, 2, code=2)
        self.exec("--halt", "now,success=100%", "--", "sh", "-c", "exit $1", "_", ":::", 7, 0, 0, code=34)  # a third failed

    def test_halt_soon_lets_the_running_commands_end(self):
        # The first one fails once the second runs, which ends once the failure is known.
        script = "echo $1 >> ran; if [ $1 = 1 ]; then until grep -q 2 ran; do sleep 0.01; done; exit 7; fi; until [ -e go ]; do sleep 0.01; done; echo whole"
        process = self.popen("exec", "-j", 2, "--halt", "soon,fail=1", "--", "sh", "-c", script, "_", ":::", 1, 2, 3, 4, 5, cwd=self.work)
        wait_for("no more to start", lambda: self.is_held() or process.poll() is not None)
        (self.work / "go").touch()
        self.assertEqual(self.end_of(process, "exec"), 7)
        began = len((self.work / "ran").read_text().split())
        self.assertEqual(process.stdout.read(), b"whole\n" * (began - 1))

    def test_halt_soon_lets_them_end_while_input_is_still_to_come(self):
        """From a producer that pauses, and from one whose input is still being sent."""
        script = "echo $1 >> ran; if [ $1 = 1 ]; then until grep -q 2 ran; do sleep 0.01; done; exit 7; fi; until [ -e go ]; do sleep 0.01; done; echo whole"
        for lines in (3, 300_000):
            with self.subTest(lines=lines), open(self.work / "in", "w+b") as file:
                file.write(b"".join(b"%d\n" % i for i in range(1, lines + 1)))
                file.flush()
                file.seek(0)
                stdin = file if lines > 3 else subprocess.PIPE
                process = self.popen("exec", "-j", 2, "--joblog", "log", "--halt", "soon,fail=1", "--", "sh", "-c", script, "_", cwd=self.work, stdin=stdin)
                if lines == 3:
                    process.stdin.write(file.read())
                    process.stdin.flush()  # and left open
                wait_for("no more to start", lambda: self.is_held() or process.poll() is not None)
                # Nor does it end the batch when it looks at it again, by RESULTS and STATUS.
                self.asked = 0
                enough = self.processed() + 6
                wait_for("more looks at the batch", lambda: self.processed() >= enough or process.poll() is not None)
                (self.work / "go").touch()
                self.assertEqual(self.end_of(process, "exec"), 7, process.stderr.read())
                began = (self.work / "ran").read_text().split()
                self.assertEqual(process.stdout.read(), b"whole\n" * (len(began) - 1))
                self.assertEqual(sorted((row[0], row[6], row[7]) for row in self.rows()), sorted((job, "7" if job == "1" else "0", "0") for job in began))
                self.assertEqual([batch["state"] for batch in self.command.listed()], ["cancelled"])
                self.command("FORGET", self.command.listed()[0]["id"])
                for name in ("ran", "go", "log"):
                    (self.work / name).unlink()


if __name__ == "__main__":
    unittest.main()
