#!/usr/bin/python3
"""An admin's batches for the customers of another user, which may have the ids of the admin's own: no client takes one for the other."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, program, wait_for
from resp import Error
from users import ALL, PASSWORD, UsersTest

HOUR_MS = 3_600_000


class OfAnotherUser(UsersTest):

    def setUp(self):
        self.daemon = self.start_with(root={"commands": ALL, "handlers": ["echo", "sleep"]}, alice={"handlers": ["echo", "sleep"]})
        self.root = self.log_in(self.daemon, "root")
        self.root("SUBMIT", "echo", "ID", "n", "JOBS", "own-1", "own-2")

    def environment(self):
        url = f"redis://root@{self.daemon.host}:{self.daemon.port}"
        return {**os.environ, "LOCKSLEY_PASSWORD": PASSWORD.format("root"), "LOCKSLEY_URL": url}

    def locksley(self, *words, **more):
        command = [program("LOCKSLEY"), *map(str, words)]
        return subprocess.run(command, env=self.environment(), capture_output=True, text=True, timeout=DEADLINE_S, **more)

    def test_the_program_does_not_take_it_for_the_admins_own(self):
        run = self.locksley("run", "echo", "--for", "alice/c", "--id", "n", "hers")
        self.assertEqual((run.returncode, run.stdout), (0, "hers\n"), run.stderr)
        self.assertNotIn("was there already", run.stderr)
        submit = self.locksley("submit", "echo", "--for", "alice/c", "--id", "m", "hers")
        self.assertEqual((submit.returncode, submit.stdout, submit.stderr), (0, "alice/m\n", ""))
        again = self.locksley("submit", "echo", "--for", "alice/c", "--id", "m", "hers")
        self.assertIn("batch alice/m was there already", again.stderr)
        # A batch of another user is not the admin's own either.
        own = self.locksley("submit", "echo", "--id", "m", "own")
        self.assertEqual((own.returncode, own.stdout, own.stderr), (0, "m\n", ""))

    def test_a_stream_goes_to_the_batch_that_it_has_opened(self):
        self.root("OPEN", "echo", "ID", "s")
        lines = "".join(f"{i}\n" for i in range(20_000))
        submit = self.locksley("submit", "echo", "--for", "alice/c", "--id", "s", input=lines)
        self.assertEqual((submit.returncode, submit.stdout), (0, "alice/s\n"), submit.stderr)
        self.assertEqual([self.root.status(name)["jobs"] for name in ("s", "alice/s")], [0, 20_000])

    def test_an_interruption_cancels_no_batch_of_the_admins_own(self):
        own = self.root("SUBMIT", "sleep", "ID", "long", "JOBS", HOUR_MS)
        wait_for("the admin's own to run", lambda: self.root.status(own)["running"] == 1)
        words = ["run", "sleep", "--for", "alice/c", "--id", "long", str(HOUR_MS)]
        run = subprocess.Popen([program("LOCKSLEY"), *words], env=self.environment(), stderr=subprocess.PIPE)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.kill)
        wait_for("the batch to run", lambda: not isinstance(self.root.ask("STATUS", "alice/long"), Error) and self.root.status("alice/long")["running"] == 1)
        run.terminate()
        self.assertEqual(run.wait(DEADLINE_S), 143)
        self.assertIn(b"batch alice/long is cancelled", run.stderr.read())
        self.assertEqual(self.root.wait("alice/long")["state"], "cancelled")
        self.assertEqual(self.root.status(own)["state"], "running")

    def test_the_python_package_does_not_either(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "proto" / "clients" / "python"))
        import locksley

        app = locksley.App(f"redis://root@{self.daemon.host}:{self.daemon.port}", handler="echo", password=PASSWORD.format("root"))
        self.addCleanup(app.close)
        task = app.task(raw=True)(lambda payload: payload)
        for chunk in ([b"hers"], [b"x"] * 6000):
            batch = task.map(chunk, id="n" if len(chunk) == 1 else "p", for_="alice/c")
            self.assertEqual(batch.id, "alice/n" if len(chunk) == 1 else "alice/p")
            self.assertEqual([result.value for result in batch.ordered()], chunk)
            again = task.map(chunk, id="n" if len(chunk) == 1 else "p", for_="alice/c")
            self.assertEqual(again.id, batch.id)


if __name__ == "__main__":
    unittest.main()
