"""A daemon with `exec: true`, and a folder in which its commands run."""

import os
import signal

from cli_program import OK, CliTest
from scratch import scratch

EXEC_FAILED = 255
# As root, `exec: true` is refused without another user.
EXEC = {"exec": True, **({"process": {"user": "nobody"}} if os.geteuid() == 0 else {})}


class ExecTest(CliTest):
    settings = EXEC

    def setUp(self):
        super().setUp()
        self.work = scratch(self)
        self.work.chmod(0o777)

    def exec(self, *words, code=OK, timeout=300, **more):
        """`locksley exec` in the folder."""
        process = self.popen("exec", *words, cwd=self.work)
        out, errors = process.communicate(more.get("stdin", b""), timeout=timeout)
        self.assertEqual(process.returncode, code, (words, out[-500:], errors[-1000:]))
        process.args, process.stdin = words, None
        return Done(out, errors)

    def rows(self, name="log"):
        """The rows of the joblog; none if it has just been made. A line that is being written is not counted."""
        lines = (self.work / name).read_text().rpartition("\n")[0].splitlines()
        if not lines:
            return []
        self.assertEqual(lines[0].split("\t"), ["Seq", "Host", "Starttime", "JobRuntime", "Send", "Receive", "Exitval", "Signal", "Command"])
        return [line.split("\t", 8) for line in lines[1:]]

    def interrupt(self, process, number=signal.SIGINT):
        process.send_signal(number)


class Done:
    def __init__(self, stdout, stderr):
        self.stdout, self.stderr = stdout, stderr
