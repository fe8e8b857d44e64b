#!/usr/bin/python3
"""The dashboard of a daemon without batches, in a real browser: the command that it names is one that works for this user."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from certificates import Authority
from dashboard_page import DashboardTest
from locksley_daemon import DEADLINE_S, program
from users import PASSWORD

NONE = "There are no batches."


class FirstLook(DashboardTest):
    def hint(self, daemon, user=None):
        """What the list of batches says, once the page knows the handlers."""
        page = self.open(daemon, user=user)
        page.wait_for_text("main", "that have ended")
        seen = page.text(".view > .quiet").partition("that have ended")[2]
        page.run("() => { location.hash = '#/batches'; }")
        page.wait_for_text(".card > .quiet", NONE)
        command = page.text(".card > .quiet").removeprefix(NONE).removeprefix(" Submit one: ")
        self.assertEqual(seen, f", or submit one: {command}." if command else ".")
        page.run("() => { location.hash = '#/customers'; }")
        page.wait_for_text(".card > .quiet", "No customer has settings or unfinished batches.")
        self.assertEqual("--for acme" in page.text(".card > .quiet"), command != "")
        return command

    def carry_out(self, command, user, **variables):
        words = [program("LOCKSLEY") if word == "locksley" else word for word in command.split()]
        environment = dict(os.environ, LOCKSLEY_PASSWORD=PASSWORD.format(user), **variables)
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_without_users_it_spins(self):
        daemon = self.start()
        command = self.hint(daemon)
        self.assertEqual(command, f"locksley --url redis://127.0.0.1:{daemon.port} run spin 1000")
        self.carry_out(command, "")

    def test_a_user_is_told_a_handler_of_its_own(self):
        nap = {"command": ["sleep", "0"], "concurrency": 1}
        daemon = self.start_with({"http": {"login": "users"}, "handlers": {"nap": nap}}, anna={"handlers": ["fail", "echo"]}, mill={"handlers": ["fail", "nap"]},
                                 reader={"commands": ["read"]}, nothing={"handlers": ["fail"]})
        at = f"locksley --url redis://{{}}@127.0.0.1:{daemon.port} run"
        command = self.hint(daemon, "anna")
        self.assertEqual(command, f"{at.format('anna')} echo hello")
        self.assertEqual([self.hint(daemon, name) for name in ("mill", "reader", "nothing")], [f"{at.format('mill')} nap PAYLOAD", "", ""])
        self.assertEqual(self.carry_out(command, "anna"), "hello\n")

    def test_a_port_with_tls_is_named_by_its_scheme(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        authority = Authority(folder.name, "authority")
        daemon = self.start({"listen": {"tls": authority.issue("server").settings()}})
        command = self.hint(daemon)
        self.assertEqual(command, f"locksley --url rediss://127.0.0.1:{daemon.port} run spin 1000")
        self.carry_out(command, "", LOCKSLEY_CA_FILE=str(authority.certificate))


if __name__ == "__main__":
    unittest.main()
