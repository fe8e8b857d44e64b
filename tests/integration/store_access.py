#!/usr/bin/python3
"""Who may use the files of a store: those of another user are no damage, nor are too few descriptors, and no other user can enter the folder.

As root the daemon gives root up, and files of root are what it may not read; without root these are files of its own that it has closed to itself."""

import json
import os
import pathlib
import pwd
import signal
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DEFAULTS, end_with_parent, merged, program
from scratch import scratch
from store_daemon import StoreTest, at_store, run_daemon

OK, UNAVAILABLE, STORE = 0, 69, 72
IS_ROOT = os.geteuid() == 0
USER = pwd.getpwnam("nobody") if IS_ROOT else pwd.getpwuid(os.geteuid())


class AccessTest(StoreTest):
    def make(self):
        """Three batches, of which two are in tables."""
        self.begin()
        for batch in ("a", "b"):
            self.command("SUBMIT", "echo", "ID", batch, "JOBS", *["x" * 3000] * 20)
            self.command.wait(batch)
        self.stop_and_begin()
        self.command("SUBMIT", "echo", "ID", "c", "JOBS", "y")
        self.command.wait("c")
        self.settle()

    def contents(self):
        return {path.name: path.read_bytes() for path in self.store.iterdir() if path.is_file() and not path.name.startswith(("LOG", "LOCK"))}


class OtherUsersFiles(AccessTest):
    settings = merged(StoreTest.settings, {"process": {"user": USER.pw_name}})

    def setUp(self):
        super().setUp()
        os.chown(self.store, USER.pw_uid, USER.pw_gid)

    def take(self, paths):
        for path in paths:
            if IS_ROOT:
                os.chown(path, 0, 0)
            path.chmod(0o600 if IS_ROOT else 0)

    def give_back(self):
        for path in self.store.iterdir():
            path.chmod(0o600)
            os.chown(path, USER.pw_uid, USER.pw_gid)

    def assert_kept_out(self, paths):
        before = self.contents()
        self.take(paths)
        remedy = f"as root, `chown -R {USER.pw_name} {self.store}`" if IS_ROOT else f"`chmod -R u+rwX {self.store}`"
        for arguments in ((), ("--repair",)):
            refused = run_daemon(self.store, self.settings, arguments)
            self.assertEqual((refused.returncode, refused.stdout), (STORE, ""), refused.stderr)
            self.assertRegex(refused.stderr, rf"{self.store}/\S+: Permission denied\. It belongs to \w+, and this process runs as {USER.pw_name}: {remedy}")
            self.assertNotRegex(refused.stderr, "damaged|--repair")
        self.give_back()
        self.assertEqual(self.contents(), before)
        self.assertFalse((self.store / "lost").exists())

    def test_one_file_is_no_damage(self):
        self.make()
        self.stop()
        for name in ("CURRENT", "CLEAN_END", next(self.store.glob("MANIFEST-*")).name, min(self.store.glob("*.sst")).name):
            with self.subTest(name):
                self.assert_kept_out([self.store / name])
        self.begin()
        self.assert_known("a", "b", "c")

    def test_a_whole_store_is_no_damage_and_is_not_emptied_by_repair(self):
        self.make()
        self.kill()
        self.assert_kept_out(list(self.store.iterdir()))
        self.assert_kept_out([path for path in self.store.iterdir() if path.name != "LOCK"])
        self.begin()
        self.assert_known("a", "b", "c")


class Descriptors(AccessTest):
    def run_with(self, descriptors, *arguments):
        """What it ended with, and said. `ready`: it serves, and was asked to end."""
        config = scratch(self) / "locksley.yaml"
        config.write_text(json.dumps(merged(DEFAULTS, at_store(self.store, StoreTest.settings))))
        command = ["prlimit", f"--nofile={descriptors}", program("LOCKSLEYD"), "--config", config, *arguments]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, preexec_fn=end_with_parent) as process:
            said = process.stdout.readline()
            if is_ready := said.startswith(b"ready "):
                process.terminate()
            rest, errors = process.communicate(timeout=DEADLINE_S)
        return process.returncode, is_ready, (said + rest + errors).decode()

    def test_too_few_are_no_damage_and_end_the_start_with_a_message(self):
        self.make()
        self.kill()
        served, refused = 0, 0
        for descriptors in (*range(14, 44, 2), 64, 256):
            code, is_ready, said = self.run_with(descriptors)
            with self.subTest(descriptors):
                self.assertNotRegex(said, "damaged|--repair")
                if is_ready:
                    self.assertEqual(code, OK, said)
                else:
                    self.assertEqual(code, UNAVAILABLE, said)
                    self.assertIn("Too many open files", said)
            served, refused = served + is_ready, refused + (not is_ready)
        self.assertTrue(served and refused, "both were seen")

    def test_too_few_threads_end_a_start_under_running_jobs(self):
        """The pool's first workers run jobs of the store when the next one cannot be started."""
        if not IS_ROOT:
            return  # the limit counts all threads of a user, so it takes a user of this test alone
        other = 54_321
        settings = merged(DEFAULTS, at_store(self.store, merged(StoreTest.settings, {"pool": {"workers": 24}})))
        config = scratch(self) / "locksley.yaml"
        config.write_text(json.dumps(settings))
        config.parent.chmod(0o755)
        self.make()
        self.command("SUBMIT", "sleep", "RANGE", 0, 200, 400)  # holds up those that come later
        for _ in range(20):
            self.command("SUBMIT", "sha256", "RANGE", 0, 20_000, "{}")
        self.kill()
        for path in (self.store, *self.store.rglob("*")):
            os.chown(path, other, other)
        ends = []
        for threads in range(20, 44, 3):
            command = ["prlimit", f"--nproc={threads}", "setpriv", f"--reuid={other}", f"--regid={other}", "--clear-groups", program("LOCKSLEYD")]
            with subprocess.Popen([*command, "--config", config], stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=end_with_parent) as process:
                if process.stdout.readline().startswith(b"ready "):
                    process.kill()
                _, errors = process.communicate(timeout=DEADLINE_S)
            ends.append((threads, process.returncode, errors.decode()))
        refused = [each for each in ends if each[1] != -signal.SIGKILL]
        self.assertTrue(refused, ends)
        for threads, code, said in refused:
            self.assertEqual(code, UNAVAILABLE, (threads, said))
            self.assertIn("the daemon cannot start: ", said)

    def test_repair_sets_nothing_aside_for_want_of_them(self):
        self.make()
        self.stop()
        (self.store / "CLEAN_END").unlink()
        for manifest in self.store.glob("MANIFEST-*"):
            manifest.unlink()
        refused = 0
        for descriptors in (*range(8, 40), 256):
            code, _, said = self.run_with(descriptors, "--repair")
            if code == OK:
                break
            self.assertEqual(code, UNAVAILABLE, said)
            self.assertIn("Too many open files", said)
            refused += 1
        self.assertEqual(code, OK, said)
        self.assertGreater(refused, 0, "the first had too few")
        self.assertEqual(list(self.store.glob("lost/*.sst")), [])
        self.begin()
        self.assert_known("a", "b", "c")


class Others(AccessTest):
    WARNING = "other users of this machine can enter its folder"

    def test_none_can_enter_the_folder_that_the_daemon_makes(self):
        self.store.chmod(0o755)
        above, self.store = self.store, self.store / "of this machine" / "store"
        self.addCleanup(os.umask, os.umask(0o022))
        self.begin()
        self.assertEqual(stat.S_IMODE(self.store.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(self.store.parent.stat().st_mode), 0o755, "as the umask says")
        self.stop()
        self.assertNotIn(self.WARNING, self.daemon.log())
        self.store.chmod(0o755)
        self.begin()
        self.assertRegex(self.daemon.log(), rf"warning.*{self.WARNING}.*`chmod 700 {self.store}`")
        self.assertEqual(stat.S_IMODE(self.store.stat().st_mode), 0o755, "it is the operator's")
        self.stop()
        above.chmod(0o700)
        self.begin()
        self.assertNotIn(self.WARNING, self.daemon.log(), "a folder above keeps them out")


if __name__ == "__main__":
    unittest.main()
