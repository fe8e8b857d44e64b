#!/usr/bin/python3
"""What is said to a newcomer who starts a worker in a wrong way, by the Python package and by the libraries of one file: each mistake is named in a
line, and ends the program."""

import os
import pathlib
import pty
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from client_packages import ROOT
from locksley_daemon import DEADLINE_S
from python_tasks import ENVIRONMENT, locksley

PACKAGE = [sys.executable, "-B", "-m", "locksley"]
ONE_FILE = {
    "shout.py": f"import sys\nsys.path.insert(0, {str(ROOT / 'deploy/examples/python')!r})\nimport locksley_worker\nlocksley_worker.serve(bytes.upper)\n",
    "shout.cjs": f"require({str(ROOT / 'proto/clients/node/lib/locksley_worker.cjs')!r}).serve((payload) => payload);\n",
}


class Mistakes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def ended(self, *words, **options):
        done = subprocess.run(words, cwd=self.folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=DEADLINE_S, **options)
        return done.returncode, done.stderr

    def by_hand(self, *words):
        """On a terminal."""
        ours, theirs = pty.openpty()
        try:
            return self.ended(*words, stdin=theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    def test_a_worker_that_is_started_by_hand_says_what_it_is_for(self):
        (self.folder / "tasks.py").write_text("import locksley\napp = locksley.App()\n")
        said = "jobs come from the daemon: name this program as `worker:` in its configuration, or"
        self.assertEqual(self.by_hand(*PACKAGE, "tasks:app"), (64, f"locksley: {said} give --url redis://HOST:7771\n"))
        for name, program in (("shout.py", sys.executable), ("shout.cjs", "node")):
            (self.folder / name).write_text(ONE_FILE[name])
            self.assertEqual(self.by_hand(program, name), (64, f"{said} start it by `locksley work HANDLER --url redis://HOST:7771 -- PROGRAM`\n"))

    def test_a_module_whose_app_was_not_named(self):
        (self.folder / "tasks.py").write_text("import locksley\n\nqueue = locksley.App()\n\ndef helper(): pass\n\n@queue.task\ndef thumbnail(path): return path\n")
        for words in ((), ("--url", "redis://127.0.0.1:1")):
            code, said = self.ended(*PACKAGE, "tasks", *words, stdin=subprocess.DEVNULL)
            self.assertEqual((code, said), (1, "locksley: the module tasks has the App `queue`: serve tasks:queue\n"))
        # An App without tasks of the module is for an Executor, whose functions are the module's.
        (self.folder / "squares.py").write_text("import tasks\n\nqueue = tasks.queue\n\ndef square(x): return x * x\n")
        self.assertEqual(self.ended(*PACKAGE, "squares", stdin=subprocess.DEVNULL), (0, ""))

    def test_a_file_of_certificates_that_is_not_there(self):
        (self.folder / "tasks.py").write_text("import locksley\n\napp = locksley.App()\n")
        code, said = self.ended(*PACKAGE, "tasks:app", "--url", "rediss://127.0.0.1:1", "--ca-file", "nosuch.pem", stdin=subprocess.DEVNULL)
        self.assertEqual((code, said), (78, "locksley: [Errno 2] No such file or directory: 'nosuch.pem'\n"))
        for option in ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile"):
            app = locksley.App("rediss://127.0.0.1:1", patience=3, **{option: f"{self.folder}/nosuch.pem"})
            for _ in range(2):
                with self.assertRaisesRegex(FileNotFoundError, "nosuch.pem"):
                    app.batch("x").status()

    def test_a_file_of_certificates_that_has_none(self):
        (self.folder / "tasks.py").write_text("import locksley\n\napp = locksley.App()\n")
        for name, text in (("words.pem", "no certificate\n"), ("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")):
            path = self.folder / name
            path.write_text(text)
            code, said = self.ended(*PACKAGE, "tasks:app", "--url", "rediss://127.0.0.1:1", "--ca-file", name, stdin=subprocess.DEVNULL)
            self.assertEqual(code, 78)
            self.assertRegex(said, rf"^locksley: {name} has no certificates in PEM format, or damaged ones: .+\n$")
            app = locksley.App("rediss://127.0.0.1:1", patience=3_600, ssl_ca_certs=str(path))
            for _ in range(2):
                with self.assertRaisesRegex(OSError, f"{name} has no certificates"):
                    app.batch("x").status()

    def test_a_certificate_of_the_client_that_cannot_be_used(self):
        mine, other = Authority(self.folder, "mine"), Authority(self.folder, "other")
        words = self.folder / "words.pem"
        words.write_text("no certificate\n")
        for certificate, key in ((words, mine.key), (mine.certificate, words), (mine.certificate, other.key)):
            app = locksley.App("rediss://127.0.0.1:1", patience=3_600, ssl_certfile=str(certificate), ssl_keyfile=str(key))
            for _ in range(2):
                with self.assertRaisesRegex(OSError, f"{certificate} and {key} are no certificate and its key in PEM format: "):
                    app.batch("x").status()
        app = locksley.App("rediss://127.0.0.1:1", patience=0, ssl_certfile=str(mine.certificate), ssl_keyfile=str(mine.key))
        with self.assertRaisesRegex(locksley.Unreachable, "no answer"):
            app.batch("x").status()


if __name__ == "__main__":
    unittest.main()
