#!/usr/bin/python3
"""Where `exec: true` is refused, who cannot reach it, and what the handler makes of payloads that are no commands."""

import json
import os
import pathlib
import pwd
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from exec_daemon import EXEC, ExecTest
from locksley_daemon import DEADLINE_S, DEFAULTS, DaemonTest, merged, program, wait_for
from resp import CommandError
from scratch import scratch

CONFIG_ERROR = 78
USERS = {"users": {"alice": {"password_hash": "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"}}}


class Configurations(DaemonTest):
    def ends_with(self, settings, *arguments):
        """Exit code and log of a daemon that is not to start."""
        file = scratch(self) / "locksley.yaml"
        file.write_text(json.dumps(merged(DEFAULTS, settings)))
        done = subprocess.run([program("LOCKSLEYD"), *arguments, "--config", file], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        return done.returncode, done.stderr

    def test_together_with_users(self):
        code, log = self.ends_with(merged(EXEC, USERS))
        self.assertEqual(code, CONFIG_ERROR)
        self.assertIn("exec: expected exec: false if there are users", log)

    def test_together_with_a_handler_of_this_name(self):
        code, log = self.ends_with(merged(EXEC, {"handlers": {"exec": {"command": ["cat"]}}}))
        self.assertEqual(code, CONFIG_ERROR)
        self.assertIn("handlers.exec: expected another name", log)
        connection = self.connect(self.start({"handlers": {"exec": {"command": ["cat"]}}}))
        self.assertEqual(connection("RUN", "exec", "JOBS", "a"), [["ok", "a"]], "without exec: true it is a name like any other")

    def test_as_root(self):
        """Where the tests do not run as root there is no root that could be refused: then it starts."""
        if os.geteuid() != 0:
            self.start({"exec": True})
            return
        for user, said in (({}, "exec: as root every command of every local user would run as root"), ({"process": {"user": "root"}}, "'root' is root")):
            code, log = self.ends_with({"exec": True, **user})
            self.assertEqual(code, CONFIG_ERROR)
            self.assertIn(said, log)

    def test_a_check_as_root_warns_of_it(self):
        """Other users are not warned, since they may check the file for their own service; nor is root, if the file names another user."""
        warning = "warning: started as root, the daemon will refuse this file: exec: as root every command of every local user would run as root"
        code, said = self.ends_with({"exec": True}, "--check-config")
        self.assertEqual((code, warning in said), (0, os.geteuid() == 0), said)
        for settings in ({"exec": False}, {"exec": True, "process": {"user": "nobody"}}):
            self.assertEqual(self.ends_with(settings, "--check-config"), (0, ""))

    def test_it_is_off_by_default_and_no_client_can_turn_it_on(self):
        daemon = self.start({})
        connection = self.connect(daemon)
        self.assertEqual(connection("CONFIG", "GET", "exec"), ["exec", "false"])
        with self.assertRaisesRegex(CommandError, "exec: the file alone says which programs run"):
            connection("CONFIG", "SET", "exec", "true")
        self.assertNotIn("exec", [row[1] for row in connection("HANDLERS")])
        with self.assertRaisesRegex(CommandError, "NOHANDLER"):
            connection("SUBMIT", "exec", "JOBS", "/\0\0true")

    def test_the_file_turns_it_on_and_off_while_the_daemon_serves(self):
        daemon = self.start({key: value for key, value in EXEC.items() if key != "exec"})
        daemon.folder.chmod(0o755)
        daemon.config_path.chmod(0o644)
        connection = self.connect(daemon)
        daemon.configure(EXEC)
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection("RUN", "exec", "JOBS", "/\0\0echo\0a"), [["ok", "a\n"]])
        with self.assertRaisesRegex(CommandError, "exec: the file alone"):
            connection("CONFIG", "SET", "exec", "false")
        daemon.configure(merged(EXEC, {"exec": False}))
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        with self.assertRaisesRegex(CommandError, "NOHANDLER"):
            connection("RUN", "exec", "JOBS", "/\0\0echo\0a")

    def test_the_bound_of_its_outputs(self):
        daemon = self.start(merged(EXEC, {"exec": {"max_output": "20MiB"}}))
        daemon.folder.chmod(0o755)
        daemon.config_path.chmod(0o644)
        connection = self.connect(daemon)
        self.assertEqual(connection("CONFIG", "GET", "exec"), ["exec", "{max_output: 20MiB}"])
        zeros = "/\0\0head\0-c\x00%d\0/dev/zero"
        ((status, output),) = connection("RUN", "exec", "JOBS", zeros % (20 << 20))
        self.assertEqual((status, len(output)), ("ok", 20 << 20))
        self.assertEqual(connection("RUN", "exec", "JOBS", zeros % ((20 << 20) + 1)), [["error", "its output is larger than exec.max_output (20MiB)"]])
        daemon.configure(merged(EXEC, {"exec": {"max_output": "1KiB"}}))
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        self.assertEqual(connection("RUN", "exec", "JOBS", zeros % 1025), [["error", "its output is larger than exec.max_output (1KiB)"]])

    def test_it_has_as_many_slots_as_its_lane(self):
        def concurrency(connection):
            (row,) = [dict(zip(row[::2], row[1::2])) for row in connection("HANDLERS") if row[1] == "exec"]
            self.assertEqual((row["kind"], row["lane"]), ("exec", "processes"))
            return row["concurrency"]

        connection = self.connect(self.start(merged(EXEC, {"pool": {"workers": 3}})))
        self.assertEqual(concurrency(connection), 3)
        connection("CONFIG", "SET", "pool.workers", "5")
        self.assertEqual(concurrency(connection), 5)
        self.assertEqual(concurrency(self.connect(self.start(merged(EXEC, {"handlers": {"cat": {"command": ["cat"], "concurrency": 9}}})))), 9)
        self.assertEqual(concurrency(self.connect(self.start(merged(EXEC, {"lanes": {"processes": {"slots": 50}}})))), 50)

    def test_it_is_not_offered_to_another_daemon(self):
        queue = self.start({"workers": {"port": 0}, "handlers": {"exec": {"remote": True}, "cat": {"remote": True}}})
        port = queue.ready_line.rsplit(":", 1)[1].strip()
        worker = merged(EXEC, {"upstream": {"url": f"redis://127.0.0.1:{port}", "name": "w"}, "handlers": {"cat": {"command": ["cat"]}}})
        self.start(worker)
        connection = self.connect(queue)
        self.assertEqual(connection("RUN", "cat", "JOBS", "a"), [["ok", "a"]])
        (machine,) = wait_for("the worker", lambda: [row for row in (dict(zip(row[::2], row[1::2])) for row in connection("WORKERS")) if row["kind"] == "remote"] or None)
        self.assertEqual(machine["handlers"], ["cat"])
        batch = connection("SUBMIT", "exec", "JOBS", "/\0\0touch\0/tmp/never")
        said = connection("EXPLAIN", batch)
        self.assertEqual(said[said.index("reason") + 1], "waiting-for-workers")


class Payloads(ExecTest):
    def run_one(self, payload):
        ((status, output),) = self.command("RUN", "exec", "JOBS", payload)
        return status, output

    def test_payloads_that_are_no_commands(self):
        for payload, said in (("", "ends before the program's name"), ("/", "ends before the program's name"), ("echo hello", "not an absolute path"),
                              ("tmp\0\0echo", "not an absolute path"), ("/\0echo\0hello", "a variable is not NAME=value"), ("/\0=x\0\0echo", "a variable is not NAME=value"),
                              ("/\0A=b", "ends before the program's name"), ("/\0", "the program has no name"), ("/\0\0", "the program has no name"),
                              ("/\0\0\0x", "the program has no name")):
            with self.subTest(payload=payload):
                status, output = self.run_one(payload)
                self.assertEqual(status, "error")
                self.assertIn(said, output)

    def test_commands(self):
        self.assertEqual(self.run_one(f"{self.work}\0\0pwd"), ("ok", f"{self.work.resolve()}\n"))
        self.assertEqual(self.run_one("/\0A=1\0B=\0\0sh\0-c\0echo $A${B-none}$#\0_\0\0x"), ("ok", "12\n"))
        self.assertEqual(self.run_one("/\0HOME=/x\0HOME=/y\0\0sh\0-c\0echo $HOME"), ("ok", "/y\n"))
        self.assertEqual(self.run_one("/\0\0cat"), ("ok", ""), "standard input is empty")
        self.assertEqual(self.run_one("/\0\0sh\0-c\0echo $LOCKSLEY_HANDLER$LOCKSLEY_INDEX$LOCKSLEY_ATTEMPT"), ("ok", "exec01\n"))
        self.assertEqual(self.run_one("/\0\0sh\0-c\0echo out; kill -11 $$")[0], "crashed")
        batch = self.command("SUBMIT", "exec", "RANGE", "7", "10", "/\0\0echo\0number {}")
        self.command("WAIT", batch)
        self.assertEqual(sorted(row[2] for row in self.command("RESULTS", batch)[1]), [f"number {i}\n" for i in (7, 8, 9)])

    def test_commands_that_are_longer_than_the_kernel_takes(self):
        many = "\0" * (6 << 20)
        for payload, said in (("/\0\0true" + many, "its arguments are too long: with 8 bytes for each they have "), ("/\0A=" + "x" * (3 << 20) + "\0\0true", "a variable has 3145730 bytes"),
                              ("/\0PATH=" + "/a:" * 4000 + "\0\0" + "x" * 100_000, "the program's name has 100000 bytes"),
                              ("/\0PATH=" + "/a:" * 4000 + "\0\0" + "x" * 4000, "cannot be started: File name too long")):
            status, output = self.run_one(payload)
            self.assertEqual(status, "error")
            self.assertIn(said, output)
        variables = "".join(f"V{i}={i}\0" for i in range(50_000))
        self.assertEqual(self.run_one(f"/\0{variables}V7=last\0\0sh\0-c\0echo $V7 $V49999"), ("ok", "last 49999\n"))

    def test_output_is_bounded(self):
        status, output = self.run_one("/\0\0head\0-c\x00100000000\0/dev/zero")
        self.assertEqual(status, "error")
        self.assertTrue(output.startswith("its output is larger than exec.max_output (16MiB)"))
        self.assertLess(len(output), 100)

    def test_programs_run_as_the_daemons_user(self):
        uid = os.stat(f"/proc/{self.daemon.pid}").st_uid if os.geteuid() != 0 else pwd.getpwnam("nobody").pw_uid
        self.assertEqual(self.run_one("/\0\0id\0-u"), ("ok", f"{uid}\n"))


if __name__ == "__main__":
    unittest.main()
