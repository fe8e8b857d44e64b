#!/usr/bin/python3
"""The program locksley and single jobs: `job`, `running`, `log`, and the payloads of failed jobs for a pipe."""

import fcntl
import json
import pathlib
import signal
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli_program import DATA_ERROR, INTERRUPTED, OK, TERMINATED, USAGE, CliTest
from locksley_daemon import program, wait_for

# Says what it is told to, waits for a file, and ends as it is told to.
SCRIPT = """
read -r words; echo "begins with $words" >&2
case $words in
  wait*) while ! test -e "${words#wait }"; do sleep 0.02; done; echo "goes on" >&2;;
  bad*) exit 3;;
esac
echo "did $words"
"""


def unread(pipe):
    """How many bytes are in it."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


class Jobs(CliTest):
    settings = {"handlers": {"script": {"command": ["bash", "-c", SCRIPT], "concurrency": 4}}}

    def setUp(self):
        super().setUp()
        self.never = self.daemon.folder / "never"  # a file that there is not

    def test_a_job_in_the_hand(self):
        batch = self.command("SUBMIT", "script", "ID", "b", "JOBS", "good\n", "bad\n")
        self.command.wait(batch)
        good, bad = self.json("job", batch, 0), self.json("job", batch, 1)
        self.assertEqual((good["status"], good["output"], good["payload"], good["exit_status"]), ("ok", "did good\n", None, 0))
        self.assertEqual((bad["status"], bad["payload"], bad["exit_status"], bad["attempt"], bad["note"]), ("error", "bad\n", 3, 1, "begins with bad"))
        self.assertGreater(bad["duration_us"], 0)
        self.assertEqual(good, self.command.map("JOB", batch, 0))
        text = self.out("job", batch, 1)
        for line in (r"job +1 of b", r"status +error", r"exit status +3", r"attempt +1", r"worker +\S+", r"took +\S+", r"note +begins with bad", r"log +16 bytes: locksley log b 1", r"payload, 4 bytes:", r"  bad", r"error, \d+ bytes:"):
            self.assertRegex(text, rf"(?m)^{line}$")
        self.assertRegex(self.out("job", batch, 0), r"payload: no longer kept\noutput, 9 bytes:\n  did good\n\Z")
        self.assertEqual(self.out("job", batch, 1, "--payload"), "bad\n")
        self.assertEqual(self.out("job", batch, 0, "--output"), "did good\n")
        self.assertIn(b"no longer kept", self.run_cli("job", batch, 0, "--payload", code=DATA_ERROR).stderr)
        self.assertIn(b"2 jobs", self.run_cli("job", batch, 2, code=DATA_ERROR).stderr)
        self.assertIn(b"no batch", self.run_cli("job", "nosuch", 0, code=DATA_ERROR).stderr)
        self.run_cli("job", batch, code=USAGE)

    def test_of_a_long_error_the_end_is_shown(self):
        words = "x" * 9_000 + " SyntaxError: invalid syntax"
        batch = self.command("SUBMIT", "fail", "JOBS", words)
        self.command.wait(batch)
        error = self.json("job", batch, 0)["output"]
        self.assertGreater(len(error), 9_000)
        self.assertRegex(self.out("job", batch, 0), rf"error, .* bytes:\n  \({len(error) - 8192} earlier bytes?\)\n  x+ SyntaxError: invalid syntax\n\Z")

    def test_bytes_that_are_no_text(self):
        batch = self.command("SUBMIT", "fail", "JOBS", b"\x89PNG\0\x1b[2J")
        self.command.wait(batch)
        self.assertIn("000000  89 50 4e 47 00 1b 5b 32 4a", self.out("job", batch, 0))
        self.assertEqual(self.run_cli("job", batch, 0, "--payload").stdout, b"\x89PNG\0\x1b[2J")
        self.assertEqual(self.json("job", batch, 0)["payload_base64"], "iVBORwAbWzJK")

    def test_what_runs_and_its_log_live(self):
        gate = self.daemon.folder / "gate"
        batch = self.command("SUBMIT", "script", "ID", "long", "JOBS", f"wait {gate}\n", f"wait {gate}\n")
        other = self.command("SUBMIT", "script", "ID", "other", "JOBS", f"wait {gate}\n")
        wait_for("all three to run", lambda: len(self.json("running")) == 3)
        rows = self.json("running")
        self.assertEqual([row["since_ms"] for row in rows], sorted((row["since_ms"] for row in rows), reverse=True))
        self.assertEqual({(row["id"], row["index"], row["attempt"]) for row in rows}, {("long", 0, 1), ("long", 1, 1), ("other", 0, 1)})
        self.assertEqual([row["id"] for row in self.json("running", other)], ["other"])
        wait_for("its first line to be its note", lambda: self.json("running", other)[0]["note"] == f"begins with wait {gate}")
        self.assertRegex(self.out("running", other), rf"\ABATCH +JOB +ATTEMPT +RUNS FOR +WORKER +PROGRESS +NOTE\nother +0 +1 +\S+ +\S+ +- +begins with wait {gate}\n\Z")
        wait_for("the first line of another one", lambda: self.out("log", batch, 1) == f"begins with wait {gate}\n")
        process = self.popen("log", batch, 1, "--follow")
        self.assertEqual(process.stdout.readline().decode(), f"begins with wait {gate}\n")
        self.assertIsNone(process.poll())
        gate.touch()
        self.assertEqual(process.stdout.read(), b"goes on\n")
        self.assertEqual(self.end_of(process, "log"), OK)
        self.command.wait(batch)
        self.command.wait(other)
        self.assertEqual(self.json("running"), [])
        self.command("SUBMIT", "sleep", "ID", "silent", "JOBS", 3_600_000)
        wait_for("a job that says nothing to run", lambda: self.json("running", "silent"))
        row, = self.json("running", "silent")
        self.assertEqual((row["progress"], row["note"]), (None, None), "as on the wire")
        self.command("CANCEL", "silent")
        self.assertEqual(self.out("log", other, 0, "--follow"), f"begins with wait {gate}\ngoes on\n", "of a job that has ended")
        self.assertEqual(self.json("log", other, 0), {"offset": 0, "log": f"begins with wait {gate}\ngoes on\n"})

    def test_a_follower_is_interrupted(self):
        batch = self.command("SUBMIT", "script", "JOBS", f"wait {self.never}\n")
        process = self.popen("log", batch, 0, "--follow")
        self.assertEqual(process.stdout.readline(), f"begins with wait {self.never}\n".encode())
        process.send_signal(2)
        self.assertEqual(self.end_of(process, "log"), INTERRUPTED)
        self.command("CANCEL", batch)

    def test_what_a_signal_cuts_off_is_no_success(self):
        self.command("SUBMIT", "echo", "ID", "cut", "JOBS", *["x" * 100_000] * 10)
        self.command.wait("cut")
        for words in (["results", "cut"], ["results", "cut", "--ordered"]):
            with self.subTest(words):
                process = self.popen(*words, stdin=subprocess.DEVNULL)
                wait_for("the pipe to be full", lambda: unread(process.stdout) >= 60_000)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(self.end_of(process, "results"), TERMINATED)  # although its output is not read

    def test_the_next_attempt_is_followed_too(self):
        batch = self.command("SUBMIT", "script", "RETRIES", 1, "JOBS", "bad\n")
        process = self.popen("log", batch, 0, "--follow")
        self.assertEqual(self.end_of(process, "log"), OK)
        self.assertIn(process.stdout.read(), (b"begins with bad\n" * 2, b"begins with bad\n"))
        self.assertEqual(self.command.wait(batch)["failed"], 1)

    def test_failed_payloads_for_a_pipe(self):
        payloads = ["x" if i % 100 == 7 else 0 for i in range(1000)]
        payloads[107] = "two\nlines"
        batch = self.command("SUBMIT", "sleep", "JOBS", *payloads)
        self.command.wait(batch)
        shown = self.run_cli("results", batch, "--failed", "--payloads", "-0").stdout
        self.assertEqual(sorted(shown.split(b"\0")[:-1]), sorted([b"two\nlines", *[b"x"] * 9]))
        self.assertTrue(shown.endswith(b"\0"))
        done = self.run_cli("results", batch, "--failed", "--payloads")
        self.assertEqual(done.stderr, b"locksley: payloads that have newlines: 1; as input of `submit` each of their lines would be a job: use -0 here and there\n")
        self.assertEqual(self.run_cli("results", batch, "--failed", "--payloads", "-0").stderr, b"")
        again = self.run_cli("submit", "echo", "-0", stdin=shown).stdout.decode().strip()
        self.assertEqual(self.command.wait(again)["ok"], 10)
        rows = [json.loads(line) for line in self.out("--json", "results", batch, "--failed", "--payloads").splitlines()]
        self.assertEqual({row["index"]: row["payload"] for row in rows}, {i: payload for i, payload in enumerate(payloads) if payload != 0})
        self.assertEqual({row["status"] for row in rows}, {"error"})
        names = [f"n{i}" for i in range(1000)]
        rows = [json.loads(line) for line in self.out("--json", "results", batch, "--failed", "--payloads", "--files", stdin="\n".join(names).encode()).splitlines()]
        self.assertEqual({row["input"] for row in rows}, {f"n{i}" for i in range(1000) if payloads[i] != 0})

    def test_a_payload_that_is_gone_is_no_silence(self):
        batch = self.command("SUBMIT", "sleep", "SLOTS", 1, "JOBS", "x", 3_600_000, 0)
        wait_for("the first to fail", lambda: self.command.status(batch)["failed"] == 1)
        self.command("CANCEL", batch)
        self.command.wait(batch)
        done = self.run_cli("results", batch, "--failed", "--payloads", code=DATA_ERROR)
        gone = [index for index in range(3) if self.json("job", batch, index)["payload"] is None]
        self.assertGreater(len(gone), 0)
        for index in gone:
            self.assertIn(f"job {index}: its payload is no longer kept\n", done.stderr.decode())

    def test_large_payloads(self):
        large = [bytes([65 + i]) * (300_000 * (i + 1)) for i in range(8)]
        batch = self.command("SUBMIT", "fail", "JOBS", *large)
        self.command.wait(batch)
        shown = self.run_cli("results", batch, "--failed", "--payloads").stdout
        self.assertEqual(sorted(shown.split(b"\n")[:-1]), large)

    def test_completions_know_the_jobs(self):
        batch = self.command("SUBMIT", "script", "ID", "b", "JOBS", "good\n", "bad\n", f"wait {self.never}\n")
        wait_for("one to run alone", lambda: self.command.status(batch)["failed"] == 1 and [row[1] for row in self.command("RUNNING", batch)] == [2])
        script = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "completions" / "locksley.bash"
        for command, expected in (("job", ["1", "2"]), ("log", ["1", "2"]), ("retry", ["1"])):
            words = f'{program("LOCKSLEY")} {command} b'
            done = subprocess.run(["bash", "-c", f'source {script}; COMP_WORDS=({words} ""); COMP_CWORD=3; _locksley "${{COMP_WORDS[0]}}" "" b; printf "%s\\n" "${{COMPREPLY[@]}}"'], capture_output=True, text=True, env=self.environment, timeout=60)
            self.assertEqual(sorted(done.stdout.split()), expected, done.stderr)
        self.command("CANCEL", batch)


if __name__ == "__main__":
    unittest.main()
