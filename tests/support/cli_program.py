"""The program locksley for tests: its exit codes, and a test with a daemon that it talks to."""

import json
import os
import subprocess

from locksley_daemon import DEADLINE_S, DaemonTest, program

# daemon/base/exit_codes.h
OK, JOBS_FAILED, USAGE, DATA_ERROR, NO_INPUT, UNAVAILABLE, IO_ERROR, TEMPORARY = 0, 1, 2, 65, 66, 69, 74, 75
CONFIG = 78
INTERRUPTED, BROKEN_PIPE, TERMINATED = 130, 141, 143


class CliTest(DaemonTest):
    settings = None

    def setUp(self):
        self.daemon = self.start(self.settings)
        self.command = self.connect(self.daemon)
        self.environment = {**os.environ, "LOCKSLEY_URL": f"redis://{self.daemon.host}:{self.daemon.port}"}

    def popen(self, *arguments, **more):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
        process = subprocess.Popen([program("LOCKSLEY"), *map(str, arguments)], env=self.environment, **pipes)
        self.addCleanup(self.reap, process)
        return process

    def reap(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def end_of(self, process, what):
        try:
            return process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"waited {DEADLINE_S} s for {what} to end") from None

    def run_cli(self, *arguments, stdin=b"", code=OK, **more):
        words = [program("LOCKSLEY"), *map(str, arguments)]
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=DEADLINE_S, env=self.environment, **more)
        self.assertEqual(done.returncode, code, (words, done.stdout[-500:], done.stderr[-1000:]))
        return done

    def out(self, *arguments, **more):
        done = self.run_cli(*arguments, **more)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def json(self, *arguments, **more):
        return json.loads(self.out("--json", *arguments, **more))
