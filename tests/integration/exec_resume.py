#!/usr/bin/python3
"""locksley exec that is interrupted: by Ctrl-C, kill -9 of either side, a restart of the daemon. Its joblog, and what --resume makes of it."""
# Length: a short test for each way to be interrupted; they share the runs that are killed.

import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import INTERRUPTED
from exec_daemon import EXEC, EXEC_FAILED, ExecTest
from held_port import hold_port
from locksley_daemon import merged, wait_for
from resp import CommandError, pairs
from scratch import scratch

# Notes that a job ran, in one write.
NOTE = "echo $1 >> ran; echo $1"
# Those that have come late in a list wait for the file `go`: so what kills comes in the middle, however late it comes.
GATED = f"[ $1 -lt 40 ] || until [ -e go ]; do sleep 0.01; done; {NOTE}"


class ResumeTest(ExecTest):
    def ran(self):
        path = self.work / "ran"
        return sorted(map(int, path.read_text().split())) if path.exists() else []

    def numbers(self):
        return sorted(int(row[0]) for row in self.rows())

    def go(self):
        (self.work / "go").touch()

    def some_results(self):
        wait_for("some results", lambda: (self.work / "log").exists() and len(self.rows()) >= 20)

    def begin(self, *words, stdin=None):
        process = self.popen("exec", "--joblog", "log", *words, cwd=self.work)
        if stdin is not None:
            process.stdin.write(stdin)
            process.stdin.flush()
        return process

    def kill(self, process):
        process.kill()
        process.wait()


class Joblogs(ResumeTest):
    def test_only_the_rest_runs(self):
        self.exec("--joblog", "log", "--", "sh", "-c", NOTE, "_", ":::", 1, 2, 3)
        done = self.exec("--joblog", "log", "--resume", "--", "sh", "-c", NOTE, "_", ":::", 1, 2, 3, 4, 5)
        self.assertEqual(sorted(done.stdout.split()), [b"4", b"5"])
        self.assertEqual((self.ran(), self.numbers()), ([1, 2, 3, 4, 5], [1, 2, 3, 4, 5]))
        self.assertEqual(self.exec("--joblog", "log", "--resume", "--", "sh", "-c", NOTE, "_", ":::", 1, 2, 3, 4, 5).stdout, b"")
        # Without --resume everything runs, and the joblog begins anew.
        self.exec("--joblog", "log", "--", "sh", "-c", NOTE, "_", ":::", 9)
        self.assertEqual((self.ran(), self.numbers()), ([1, 2, 3, 4, 5, 9], [1]))

    def test_failed_jobs_run_again(self):
        script = "echo $1 >> ran; [ -e fixed ] || [ $1 != 2 ]"
        self.exec("--joblog", "log", "--", "sh", "-c", script, "_", ":::", 1, 2, code=1)
        self.exec("--joblog", "log", "--resume", "--", "sh", "-c", script, "_", ":::", 1, 2, 3)
        self.assertEqual(self.ran(), [1, 2, 3])
        (self.work / "fixed").write_text("")
        self.exec("--joblog", "log", "--resume-failed", "--", "sh", "-c", script, "_", ":::", 1, 2, 3)
        self.assertEqual((self.ran(), self.numbers()), ([1, 2, 2, 3], [1, 2, 2, 3]))
        self.exec("--joblog", "log", "--resume-failed", "--", "sh", "-c", script, "_", ":::", 1, 2, 3)
        self.assertEqual(self.ran(), [1, 2, 2, 3], "the last row of a job counts")

    def test_retry_failed_takes_the_commands_of_the_joblog(self):
        odd = ["a b", "it's", "tab\tnew\nline", "\\", '"$HOME"', "", "*", "\x7f", "\u00e9"]
        self.exec("--joblog", "log", "--", "sh", "-c", 'printf "<%s>" "$1" >> said; [ -e fixed ]', "_", "{}", ":::", *odd, code=len(odd))
        first = (self.work / "said").read_text()
        (self.work / "said").unlink()
        (self.work / "fixed").write_text("")
        self.exec("-j", 1, "--joblog", "log", "--retry-failed")
        self.assertEqual((self.work / "said").read_text(), "".join(f"<{word}>" for word in odd))
        self.assertEqual(sorted(first), sorted((self.work / "said").read_text()))
        self.exec("--joblog", "log", "--retry-failed")
        self.assertEqual(len(self.rows()), 2 * len(odd), "nothing failed any more")

    def test_a_dry_run_prints_what_would_run(self):
        words = ("--", "sh", "-c", "exit $1", "_", ":::", 0, 1, 2)
        self.exec("--joblog", "log", "--", *words[1:-1], code=1)
        before = (self.work / "log").read_bytes()
        for option, expected, rest in (("--resume", [2], words), ("--resume-failed", [1, 2], words), ("--retry-failed", [1], ())):
            out = self.exec("--dry-run", "--joblog", "log", option, *rest).stdout.decode()
            self.assertEqual(out, "".join(f"sh -c 'exit $1' _ {i}\n" for i in expected), option)
        self.assertEqual(len(self.exec("--dry-run", "--joblog", "log", *words).stdout.splitlines()), 3)
        self.assertEqual(len(self.exec("--dry-run", "--joblog", "none", "--resume", *words).stdout.splitlines()), 3)
        self.assertEqual((self.work / "log").read_bytes(), before)
        self.assertEqual([path.name for path in self.work.iterdir()], ["log"])

    def test_a_joblog_of_gnu_parallel(self):
        head = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
        row = "{}\t:\t1385568113.432\t     0.003\t0\t2\t{}\t0\t{}\n"
        (self.work / "log").write_text(head + row.format(2, 1, "echo b\\ c") + row.format(1, 0, "echo a"))
        (self.work / "log").chmod(0o666)
        self.assertEqual(self.exec("--joblog", "log", "--resume", "--", "echo", ":::", "a", "b", "c").stdout, b"c\n")
        self.assertEqual(self.exec("--joblog", "log", "--retry-failed").stdout, b"b c\n")
        for command in ("echo $HOME", "echo a | wc", "echo `x`", "echo a; echo b", "echo \"$x\"", "echo 'open", "echo *"):
            (self.work / "log").write_text(head + row.format(1, 1, command))
            done = self.exec("--joblog", "log", "--retry-failed", code=EXEC_FAILED)
            self.assertIn("the joblog's command of job 1: only a shell could carry it out", done.stderr.decode(), command)

    def test_what_is_no_joblog_is_left_alone(self):
        head = "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"
        for text, said in (("precious\n", "line 1 is not the first line of a joblog"), (head + "1\t:\n", "line 2 has less than nine columns"),
                           (head + "x\t:\t0\t0\t0\t0\t0\t0\techo\n", "line 2 is not a row"), (head + "0\t:\t0\t0\t0\t0\t0\t0\techo\n", "line 2 is not a row")):
            (self.work / "log").write_text(text)
            self.assertIn(said, self.exec("--joblog", "log", "--resume", "--", "echo", ":::", "a", code=EXEC_FAILED).stderr.decode())
            self.assertEqual((self.work / "log").read_text(), text)
        self.assertIn("No such file", self.exec("--joblog", "none", "--retry-failed", code=EXEC_FAILED).stderr.decode())
        # A line that kill -9 has cut off is removed, and its job runs.
        (self.work / "log").write_text(head + "1\t:\t0\t0\t0\t0\t0\t0\techo a\n2\t:\t0\t0\t0")
        self.assertEqual(self.exec("--joblog", "log", "--resume", "--", "echo", ":::", "a", "b").stdout, b"b\n")
        self.assertEqual(self.numbers(), [1, 2])

    def test_what_is_no_file_only_takes_the_lines(self):
        run = ("--", "echo", ":::", "a")
        self.assertEqual(self.exec("--joblog", "/dev/null", *run).stdout, b"a\n")
        self.assertEqual(self.exec("--joblog", "/dev/stdout", *run).stdout.splitlines()[0].split(b"\t")[0], b"Seq")
        self.assertFalse(os.path.exists("/dev/null.batch"))
        self.assertIn("/dev/null: not a regular file", self.exec("--joblog", "/dev/null", "--resume", *run, code=EXEC_FAILED).stderr.decode())

    def test_one_program_at_a_time(self):
        process = self.begin("--", "sh", "-c", "echo $1; sleep 60", "_", ":::", 1)
        wait_for("the joblog", lambda: (self.work / "log.batch").exists())
        done = self.exec("--joblog", "log", "--resume", "--", "echo", ":::", 1, code=EXEC_FAILED)
        self.assertIn("another locksley exec writes this joblog", done.stderr.decode())
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process, "exec"), INTERRUPTED)


class NotShown(ResumeTest):
    """A job whose output did not leave the program is not in the joblog, and --resume shows it."""

    words = ("--", "sh", "-c", NOTE, "_", ":::", 1, 2, 3)

    def resumed(self, *options):
        done = self.exec(*options, "--joblog", "log", "--resume", *self.words)
        self.assertEqual((self.ran(), self.numbers()), ([1, 2, 3], [1, 2, 3]), "no job runs or is logged again")
        self.assertFalse((self.work / "log.batch").exists())
        return sorted(done.stdout.split())

    def test_standard_output_that_is_full(self):
        with open("/dev/full", "wb") as full:
            process = self.popen("exec", "--joblog", "log", *self.words, cwd=self.work, stdout=full)
            self.assertEqual(self.end_of(process, "exec with a full standard output"), EXEC_FAILED)
        self.assertIn(b"No space left on device", process.stderr.read())
        self.assertEqual(self.rows(), [])
        self.assertEqual(self.resumed(), [b"1", b"2", b"3"])

    def test_a_file_that_cannot_be_written(self):
        (self.work / "out/1/2/stdout").mkdir(parents=True)
        self.exec("-j", 1, "--results", "out", "--joblog", "log", *self.words, code=EXEC_FAILED)
        self.assertEqual(self.numbers(), [1])
        wait_for("all jobs", lambda: self.ran() == [1, 2, 3])
        (self.work / "out/1/2/stdout").rmdir()
        self.resumed("--results", "out")
        self.assertEqual([(self.work / f"out/1/{i}/stdout").read_text() for i in (1, 2, 3)], ["1\n", "2\n", "3\n"])


class Interrupted(ResumeTest):
    def test_ctrl_c_cancels_and_the_rest_can_run_later(self):
        words = ("--", "sh", "-c", "[ -e free ] || trap 'exit 1' TERM; echo $1 >> ran; [ -e free ] || [ $1 -lt 20 ] || sleep 60 & wait", "_", ":::", *range(40))
        process = self.begin(*words)
        wait_for("the end of the jobs that are short", lambda: [batch["ok"] for batch in self.command.listed()] == [20])
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.end_of(process, "exec after Ctrl-C"), INTERRUPTED)
        self.assertIn(b"interrupted; the batch is cancelled", process.stderr.read())
        self.assertEqual(self.numbers(), list(range(1, 21)))
        self.assertFalse((self.work / "log.batch").exists())
        (batch,) = self.command.listed()
        self.assertEqual((batch["state"], batch["running"]), ("cancelled", 0))
        (self.work / "free").write_text("")
        self.exec("--joblog", "log", "--resume", *words)
        self.assertEqual(self.numbers(), list(range(1, 41)))
        self.assertEqual(self.ran()[:20], list(range(20)))

    def test_a_second_signal_does_not_wait(self):
        process = self.begin("--", "sh", "-c", "trap '' TERM; echo $1 >> ran; sleep 60", "_", ":::", 1)
        wait_for("the job", lambda: self.ran() != [])
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            wait_for("the signal to be taken", lambda: process.poll() is not None or b"interrupted" in os.read(process.stderr.fileno(), 4096))
        self.assertEqual(self.end_of(process, "exec after two signals"), 128 + signal.SIGTERM)
        wait_for("the job to be killed", lambda: [batch["state"] for batch in self.command.listed()] == ["cancelled"])

    def test_kill_9_of_the_client_and_resume(self):
        """The batch goes on; the next run takes its results, and none is run or logged twice."""
        words = ("-k", "--", "sh", "-c", GATED, "_", ":::", *range(300))
        process = self.begin(*words)
        self.some_results()
        self.kill(process)
        before = len(self.rows())
        self.assertLess(before, 300)
        self.go()
        done = self.exec("--joblog", "log", "--resume", *words)
        self.assertIn(b"going on with batch", done.stderr)
        self.assertEqual((self.ran(), self.numbers()), (list(range(300)), list(range(1, 301))))
        self.assertEqual(len(done.stdout.split()), 300 - before)
        self.assertFalse((self.work / "log.batch").exists())
        self.assertEqual(self.command.listed(), [], "its batch is forgotten like that of any run")

    def killed_with_failures(self):
        """A run of 100 jobs that was killed, of which every tenth fails until there is a file `fixed`; its batch, and its command. The joblog has four failures."""
        script = "echo $1 >> ran; [ $1 -lt 40 ] || until [ -e go ]; do sleep 0.01; done; [ $(($1 % 10)) != 0 ] || [ -e fixed ] || exit 1; echo $1"
        words = ("--", "sh", "-c", script, "_", ":::", *range(100))
        process = self.begin(*words)
        wait_for("some results", lambda: (self.work / "log").exists() and len(self.rows()) == 40)
        self.kill(process)
        (batch,) = [batch["id"] for batch in self.command.listed()]
        return batch, words

    def fix(self):
        (self.work / "fixed").touch()

    def assert_all_ok(self, again):
        """These jobs ran twice, and the joblog knows the end of all."""
        self.assertEqual([number for number, code in {int(row[0]): row[6] for row in self.rows()}.items() if code != "0"], [])
        self.assertEqual(self.ran(), sorted([*range(100), *again]))
        self.assertFalse((self.work / "log.batch").exists())
        self.assertEqual(self.command.listed(), [])

    def test_kill_9_and_resume_failed(self):
        """The jobs of the batch that have failed run again in it, those that the joblog has and those that failed after the kill."""
        batch, words = self.killed_with_failures()
        shown = {int(row[0]) for row in self.rows() if row[6] == "0"}
        self.go()
        self.command("WAIT", batch)
        self.fix()
        done = self.exec("--joblog", "log", "--resume-failed", *words)
        self.assertEqual(done.stderr.decode(), f"locksley: going on with batch {batch}\nlocksley: jobs of it that had failed run again: 10\n")
        self.assertEqual(sorted(int(line) + 1 for line in done.stdout.split()), sorted({*range(1, 101)} - shown))
        self.assertEqual(self.numbers(), sorted([*range(1, 101), 1, 11, 21, 31]), "a row for each result that was shown")
        self.assert_all_ok(again=range(0, 100, 10))

    def test_kill_9_and_resume_failed_while_the_batch_runs(self):
        batch, words = self.killed_with_failures()
        self.fix()
        process = self.begin("--resume-failed", *words)
        wait_for("the failed ones to be queued again", lambda: pairs(self.command("STATUS", batch))["retry_rounds"] == 1 or process.poll() is not None)
        self.kill(process)
        # What that run has queued again, --resume shows and logs.
        self.go()
        self.exec("--joblog", "log", "--resume", *words)
        self.assert_all_ok(again=range(0, 40, 10))

    def test_kill_9_and_a_retry_by_another_client(self):
        batch, words = self.killed_with_failures()
        self.fix()
        self.assertEqual(self.command("RETRY", batch), 4)
        self.go()
        self.exec("--joblog", "log", "--resume", *words)
        self.assert_all_ok(again=range(0, 40, 10))

    def test_kill_9_and_resume_leaves_failures(self):
        _, words = self.killed_with_failures()
        self.go()
        done = self.exec("--joblog", "log", "--resume", *words, code=10)
        self.assertIn(b"10 of 100 jobs failed", done.stderr)
        self.assertEqual((self.ran(), self.numbers()), (list(range(100)), list(range(1, 101))))

    def test_resume_failed_names_failures_that_the_killed_batch_does_not_have(self):
        self.exec("--joblog", "log", "--", "false", ":::", 0, code=1)
        words = ("--", "sh", "-c", GATED, "_", ":::", *range(100))
        process = self.begin("--resume", *words)
        self.some_results()
        self.kill(process)
        self.go()
        said = self.exec("--joblog", "log", "--resume-failed", *words).stderr.decode()
        self.assertIn("jobs that failed before it was begun are not in it: 1; the same command runs them once it is over", said)
        self.assertEqual(self.ran(), list(range(1, 100)))
        self.assertEqual(self.exec("--joblog", "log", "--resume-failed", *words).stderr, b"")
        self.assertEqual(self.ran(), list(range(100)))

    def test_the_same_command_without_resume_starts_nothing_while_the_batch_runs(self):
        words = ("--", "sh", "-c", GATED, "_", ":::", *range(60))
        process = self.begin(*words)
        self.some_results()
        self.kill(process)
        (batch,) = [batch["id"] for batch in self.command.listed()]
        before = (self.work / "log").read_bytes()
        said = self.exec("--joblog", "log", *words, code=EXEC_FAILED).stderr.decode()
        self.assertIn(f"batch {batch} of log still runs: --resume goes on with it, `locksley cancel {batch}` ends it", said)
        self.assertEqual((self.work / "log").read_bytes(), before)
        self.go()
        self.exec("--joblog", "log", "--resume", *words)
        self.assertEqual((self.ran(), self.numbers()), (list(range(60)), list(range(1, 61))))

    def test_kill_9_while_the_input_still_comes(self):
        words = ("--", "sh", "-c", NOTE, "_")
        lines = [f"{i}\n".encode() for i in range(400)]
        process = self.begin(*words, stdin=b"".join(lines[:150]))
        wait_for("the first jobs", lambda: len(self.ran()) == 150, seconds=300)
        self.kill(process)
        self.exec("--joblog", "log", "--resume", *words, stdin=b"".join(lines))
        self.assertEqual((self.ran(), self.numbers()), (list(range(400)), list(range(1, 401))))

    def test_an_early_end_before_the_input_has_come_to_the_results(self):
        """The batch of the killed run has results of jobs that this run's input has not reached: they are not shown, and the next run has their jobs."""
        words = ("--", "sh", "-c", "echo $1 >> ran; [ $1 != 3 ] || [ -e fixed ] || exit 7; echo $1", "_")
        lines = [f"{i}\n".encode() for i in range(100)]
        for when in ("soon", "now"):
            with self.subTest(when=when):
                process = self.begin("-j", 1, *words, stdin=b"".join(lines))
                wait_for("all jobs", lambda: len(self.rows() if (self.work / "log").exists() else []) == 100)
                self.kill(process)
                (self.work / "log").write_text("".join((self.work / "log").read_text().splitlines(keepends=True)[:1]))
                process = self.begin("-j", 1, "--resume", "--halt", f"{when},fail=1", *words, stdin=b"".join(lines[:10]))  # and left open
                code, said = self.end_of(process, "exec"), process.stderr.read().decode()
                self.assertEqual(code, 7, said)
                self.assertIn("results of 90 jobs are not shown, because the input ended before them; --resume runs them again\n", said)
                self.assertEqual(self.numbers(), list(range(1, 11)))
                self.assertEqual([batch["state"] for batch in self.command.listed()], ["cancelled"])
                (self.work / "fixed").touch()
                self.exec("--joblog", "log", "--resume-failed", *words, stdin=b"".join(lines))
                self.assertEqual(sorted({*self.numbers()}), list(range(1, 101)))
                self.command("FORGET", self.command.listed()[0]["id"])
                for name in ("ran", "fixed", "log"):
                    (self.work / name).unlink()

    def test_kill_9_of_a_run_that_resumed(self):
        """The jobs of its batch are not those of the input by their places, and are found all the same."""
        self.exec("--joblog", "log", "--", "sh", "-c", NOTE, "_", ":::", *range(0, 10))
        words = ("--", "sh", "-c", GATED, "_", ":::", *range(100))
        process = self.begin("--resume", *words)
        self.some_results()
        self.kill(process)
        self.go()
        self.exec("--joblog", "log", "--resume", *words)
        self.assertEqual((self.ran(), self.numbers()), (list(range(100)), list(range(1, 101))))
        for row in self.rows():
            self.assertTrue(row[8].endswith(f" {int(row[0]) - 1}"), row)

    def test_a_batch_that_is_gone_is_not_waited_for(self):
        words = ("--", "sh", "-c", NOTE, "_", ":::", 1, 2, 3)
        self.exec("--joblog", "log", *words)
        lines = (self.work / "log").read_text().splitlines(keepends=True)
        (self.work / "log").write_text("".join(lines[:2]))
        (self.work / "log.batch").write_text("no-such-batch 0 all\n")
        self.exec("--joblog", "log", "--resume", *words)
        self.assertEqual((self.numbers(), len(self.ran())), ([1, 2, 3], 5))


class Restarts(ResumeTest):
    def setUp(self):
        folder = scratch(self)
        folder.chmod(0o777)
        self.settings = merged(EXEC, {"store": {"path": str(folder / "store")}, "listen": {"port": hold_port(self)}})
        super().setUp()

    def again(self, changes):
        """Another daemon in the place of the one before, which has ended."""
        self.daemon = self.start(merged(self.settings, changes))
        self.command = self.connect(self.daemon)

    def kill_daemon(self):
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.daemon.process.returncode = 0  # close() need not wonder

    def test_kill_9_of_the_daemon_in_the_middle(self):
        process = self.begin("-k", "--", "sh", "-c", GATED, "_", ":::", *range(300))
        self.some_results()
        recorded = len(self.rows())
        self.command("OPEN", "echo")  # once it is acknowledged, the results of those are on the disk
        self.kill_daemon()
        said = process.stderr.readline().decode()  # while there is no daemon
        self.assertRegex(said, r"\Alocksley: 127\.0\.0\.1:\d+: cannot connect: Connection refused; waiting for the daemon, for up to 60 s\n\Z")
        began = len(self.ran())
        self.again({})
        self.go()
        out, errors = process.communicate(timeout=300)
        self.assertEqual((process.returncode, errors), (0, b""))
        self.assertEqual(list(map(int, out.split())), list(range(300)))
        self.assertEqual(self.numbers(), list(range(1, 301)))
        self.assertEqual(sorted(set(self.ran())), list(range(300)))
        # Only jobs that ran at the kill, of which two may note it after it, or whose results were not on the disk, ran twice.
        self.assertLessEqual(len(self.ran()) - 300, began + 2 - recorded)

    def test_another_store_does_not_have_the_batch(self):
        process = self.begin("--", "sh", "-c", GATED, "_", ":::", *range(60))
        self.some_results()
        self.kill_daemon()
        self.again({"store": {"path": f"{self.settings['store']['path']}-2"}})
        _, errors = process.communicate(timeout=300)
        said = errors.decode()
        self.assertEqual(process.returncode, EXEC_FAILED)
        self.assertIn("NOBATCH", said)
        self.assertIn("a client may have forgotten it, or the daemon that serves now has another store (store.path", said)
        self.assertNotIn("is left as it is", said)

    def test_batches_wait_while_exec_is_off(self):
        batch = self.command("SUBMIT", "exec", "ID", "kept", "SLOTS", "1", "RANGE", "0", "6", f"{self.work}\0A=b\0\0sh\0-c\0echo $1 >> ran; until [ -e go ]; do sleep 0.01; done; echo $A$1\0_\0{{}}")
        self.assertEqual(batch, "kept")
        wait_for("a job", lambda: self.ran() != [])
        self.kill_daemon()
        self.again({"exec": False})
        said = dict(zip(*[iter(self.command("EXPLAIN", "kept"))] * 2))
        self.assertEqual(said["reason"], "handler-missing")
        with self.assertRaisesRegex(CommandError, "NOHANDLER no handler is named 'exec'"):
            self.command("SUBMIT", "exec", "JOBS", "/\0\0true")
        self.assertIn(b"needs exec: true", self.exec("--", "true", ":::", 1, code=EXEC_FAILED).stderr)
        self.kill_daemon()
        self.again({})
        self.go()
        self.assertEqual(dict(zip(*[iter(self.command("WAIT", "kept"))] * 2))["state"], "done")
        self.assertEqual(sorted(row[2] for row in self.command("RESULTS", "kept")[1]), [f"b{i}\n" for i in range(6)])

    def test_a_client_that_was_killed_finds_its_batch_after_a_restart(self):
        words = ("--", "sh", "-c", GATED, "_", ":::", *range(200))
        process = self.begin(*words)
        self.some_results()
        self.kill(process)
        self.kill_daemon()
        self.again({})
        self.go()
        self.exec("--joblog", "log", "--resume", *words)
        self.assertEqual(self.numbers(), list(range(1, 201)))
        self.assertEqual(sorted(set(self.ran())), list(range(200)))


if __name__ == "__main__":
    unittest.main()
