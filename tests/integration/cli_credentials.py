#!/usr/bin/python3
"""The program locksley and passwords: as whom it speaks to a daemon, and the hashes that it makes for the daemon's configuration."""

import fcntl
import os
import pathlib
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from cli import DATA_ERROR, INTERRUPTED, NO_INPUT, OK, USAGE, CliTest
from locksley_daemon import DEADLINE_S, program, wait_for

NO_PERMISSION = 77  # daemon/base/exit_codes.h
HASH = rb"\$argon2id\$v=19\$m=\d+,t=\d+,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}"


class HashPassword(CliTest):
    """Whether the hash is right is seen where somebody logs in with it: http_login.py."""

    def setUp(self):
        self.environment = {**os.environ, "LOCKSLEY_URL": "no address: it is not asked for"}

    def test_one_line_of_standard_input_is_the_password(self):
        for line in (b"pass word\n", b"pass word", b"pass word\nmore\n", "p\u00e4ss\n".encode(), b"\xff\n", b"x" * 1024):
            done = self.run_cli("hash-password", stdin=line)
            self.assertRegex(done.stdout, b"^" + HASH + b"\n$")
            self.assertEqual(done.stderr, b"")
        self.assertNotEqual(*(self.run_cli("hash-password", stdin=b"same").stdout for _ in range(2)))
        self.assertRegex(self.json("hash-password", stdin=b"x")["password_hash"].encode(), HASH)

    def test_no_password_is_refused(self):
        for line, why in ((b"", b"empty"), (b"\n", b"empty"), (b"\nx\n", b"empty"), (b"x" * 1025, b"longer than 1024 bytes")):
            done = self.run_cli("hash-password", stdin=line, code=DATA_ERROR)
            self.assertEqual(done.stdout, b"")
            self.assertIn(why, done.stderr)

    def test_a_password_on_the_command_line_is_refused(self):
        self.assertEqual(self.run_cli("hash-password", "secret", code=USAGE).stdout, b"")
        self.assertIn(b"standard input", self.run_cli("hash-password", "--help").stdout)

    def on_a_terminal(self, *answers):
        """What the terminal showed, standard output and how it ended; each answer is typed when it is asked for."""
        main, terminal = os.openpty()
        self.addCleanup(os.close, main)
        process = self.popen(
            "hash-password",
            **dict.fromkeys(("stdin", "stderr"), terminal),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.set_blocking(main, False)
        shown = bytearray()

        def look():
            try:
                shown.extend(os.read(main, 65536))
            except BlockingIOError:
                pass
            return shown.count(b": ") > asked

        for asked, answer in enumerate(answers):
            wait_for(f"question {asked + 1}, after {bytes(shown)}", look)
            self.assertFalse(termios.tcgetattr(terminal)[3] & termios.ECHO)
            os.write(main, answer)
        code = self.end_of(process, "hash-password")
        self.assertTrue(termios.tcgetattr(terminal)[3] & termios.ECHO, "the terminal is left as it was")
        asked = len(answers)
        look()
        os.close(terminal)
        return bytes(shown), process.stdout.read(), code

    def test_a_terminal_is_asked_twice_and_shows_nothing(self):
        shown, out, code = self.on_a_terminal(b"secret\n", b"secret\n")
        self.assertEqual((shown, code), (b"Password: \r\nAgain: \r\n", OK))
        self.assertRegex(out, b"^" + HASH + b"\n$")

    def test_two_that_differ_are_refused(self):
        shown, out, code = self.on_a_terminal(b"secret\n", b"secrets\n")
        self.assertEqual((out, code), (b"", DATA_ERROR))
        self.assertIn(b"the two passwords differ", shown)
        self.assertNotIn(b"secret", shown)

    def test_one_that_is_too_long_is_not_asked_for_again(self):
        shown, out, code = self.on_a_terminal(b"x" * 1100 + b"\n")
        self.assertEqual((out, code), (b"", DATA_ERROR))
        self.assertIn(b"longer than 1024 bytes", shown)

    def test_an_interrupt_leaves_the_terminal_as_it_was(self):
        shown, out, code = self.on_a_terminal(b"sec\x03")
        self.assertEqual((out, code), (b"", INTERRUPTED))


class Credentials(CliTest):
    """As whom the program speaks to the daemon, and what it says if that may not be."""

    @classmethod
    def setUpClass(cls):
        hashed = subprocess.run([program("LOCKSLEY"), "hash-password"], input=b"al's pass\n", capture_output=True, check=True, timeout=DEADLINE_S)
        cls.users = {"al": {"password_hash": hashed.stdout.decode().strip(), "commands": ["submit", "read"]}}

    def setUp(self):
        self.daemon = self.start({"users": self.users})
        self.environment = {**os.environ, "LOCKSLEY_URL": f"redis://al@{self.daemon.host}:{self.daemon.port}"}
        self.environment.pop("LOCKSLEY_PASSWORD", None)

    def refused(self, code, *arguments, status=NO_PERMISSION):
        done = self.run_cli(*arguments, code=status)
        self.assertEqual(done.stdout, b"")
        self.assertIn(code, done.stderr)
        return done.stderr

    def test_the_password_comes_from_the_environment_or_a_file(self):
        self.environment["LOCKSLEY_PASSWORD"] = "al's pass"
        self.assertEqual(self.run_cli("run", "echo", "a").stdout, b"a\n")  # more than one connection
        self.assertEqual(self.run_cli("run", "echo", "--url", self.environment.pop("LOCKSLEY_URL"), "b").stdout, b"b\n")
        del self.environment["LOCKSLEY_PASSWORD"]
        file = self.daemon.folder / "password"
        file.write_text("al's pass\n")
        self.assertEqual(self.run_cli("--url", f"redis://al@{self.daemon.host}:{self.daemon.port}", "--password-file", file, "run", "echo", "c").stdout, b"c\n")
        file.write_bytes(b"al's pass\r\n")
        self.assertEqual(self.run_cli("--url", f"redis://al@{self.daemon.host}:{self.daemon.port}", "--password-file", file, "run", "echo", "c").stdout, b"c\n")
        for text, reason in ((None, "No such file or directory"), ("", "it is empty")):
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_text(text)
            self.assertIn(f"{file}: no password can be read from it: {reason}\n".encode(), self.run_cli("--password-file", file, "ping", code=NO_INPUT).stderr)
        self.environment["LOCKSLEY_URL"] = f"redis://al:al%27s%20pass@{self.daemon.host}:{self.daemon.port}"
        self.assertEqual(self.run_cli("run", "echo", "d").stdout, b"d\n")

    def test_who_is_refused_is_told_where_credentials_come_from(self):
        self.assertIn(b"LOCKSLEY_PASSWORD", self.refused(b"WRONGPASS", "ping"))
        self.environment["LOCKSLEY_PASSWORD"] = "wrong"
        self.assertIn(b"LOCKSLEY_PASSWORD", self.refused(b"WRONGPASS", "run", "echo", "a"))
        del self.environment["LOCKSLEY_PASSWORD"]
        said = self.refused(b"NOAUTH", "--server", f"{self.daemon.host}:{self.daemon.port}", "ping")
        self.assertRegex(said, rb"\Alocksley: \S+: NOAUTH this daemon has users: log in as one of them\nlocksley: the user comes from --url redis://USER@HOST:PORT, .*\n\Z")
        self.refused(b"LOCKSLEY_PASSWORD", "--url", f"redis://al:secret@{self.daemon.host}:{self.daemon.port}", "ping", status=USAGE)

    def test_what_the_user_may_not_do_is_refused(self):
        self.environment["LOCKSLEY_PASSWORD"] = "al's pass"
        self.out("submit", "echo", "--id", "mine", "a")
        self.refused(b"NOPERM", "pause", "mine")


if __name__ == "__main__":
    unittest.main()
