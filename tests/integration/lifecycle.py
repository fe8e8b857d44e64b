#!/usr/bin/python3
"""The daemon as an operator meets it: its options, its configuration, its signals, its log, its end."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from held_port import hold_port
from locksley_daemon import DEADLINE_S, DaemonTest, program, wait_for
from programs import worker
from resp import Closed, Connection, Error
from scratch import scratch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECOND_MS = 1000
# daemon/base/exit_codes.h
OK, USAGE, UNAVAILABLE, TEMPORARY, CONFIG, TERMINATED = 0, 2, 69, 75, 78, 143


def run(*arguments):
    return subprocess.run([program("LOCKSLEYD"), *map(str, arguments)], capture_output=True, text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL)


class CommandLine(unittest.TestCase):
    def setUp(self):
        folder = scratch(self)
        self.file = folder / "locksley.yaml"

    def test_version_and_help(self):
        version = run("--version")
        self.assertEqual((version.returncode, version.stderr), (OK, ""))
        self.assertRegex(version.stdout, r"^locksleyd \d+\.\d+\.\d+\n$")
        manual = run("--help")
        self.assertEqual((manual.returncode, manual.stderr), (OK, ""))
        for option in ("--config", "--check-config", "--version", "--help"):
            self.assertIn(option, manual.stdout)

    def test_wrong_options_are_refused(self):
        wrong = run("--no-such-option")
        self.assertEqual((wrong.returncode, wrong.stdout), (USAGE, ""))
        self.assertIn("--no-such-option", wrong.stderr)

    def test_more_reserved_workers_than_there_can_be_are_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "locksley.yaml")
            for reserved, warning in ((0, r"\Z"), (1023, r"warning: scheduling.reserved_workers: 1023 of \d+ workers would leave none for other batches: \d+ will be reserved\n\Z")):
                file.write_text(json.dumps({"scheduling": {"reserved_workers": reserved}}))
                checked = run("--check-config", "--config", file)
                self.assertEqual(checked.returncode, OK)
                self.assertRegex(checked.stderr, warning)

    def test_a_port_is_a_number_from_0_to_65535(self):
        for option in ("--port", "--http-port"):
            for port in ("65536", "-1", "7770x", "70000000000", "0x10", "+1", ""):
                with self.subTest(option, port=port):
                    wrong = run(f"{option}={port}")
                    self.assertEqual((wrong.returncode, wrong.stdout), (USAGE, ""), wrong.stderr)
                    self.assertIn(option, wrong.stderr)
            self.assertRegex(run(option, 65536).stderr, "'65536' is not a decimal number from 0 to 65535")

    def test_a_port_of_the_command_line_stands_for_that_of_the_configuration(self):
        for arguments, ports in {("--port", 7001): (7001, 9770), ("--http-port", 7002): (7770, 7002), ("--port", 0, "--http-port", 65535): (0, 65535)}.items():
            self.assertEqual(self.ports(*arguments), ports)
        self.file.write_text("listen: {address: 127.0.0.2, port: 7100}\nhttp: {port: 7101}\n")
        self.assertEqual(self.ports("--config", self.file), (7100, 7101))
        self.assertEqual(self.ports("--config", self.file, "--port", 7001), (7001, 7101))
        clash = run("--config", self.file, "--port", 7101, "--check-config")
        self.assertEqual((clash.returncode, clash.stdout), (OK, clash.stdout), "another address, so no clash")
        clash = run("--port", 9770, "--check-config")
        self.assertEqual((clash.returncode, clash.stdout), (CONFIG, ""))
        self.assertIn("--port 9770: http.port: expected another port than listen.port", clash.stderr)

    def ports(self, *arguments):
        """Of the two ports in what --check-config prints."""
        checked = run("--check-config", *arguments)
        self.assertEqual((checked.returncode, checked.stderr), (OK, ""))
        listen, http = (re.search(rf"(?m)^{section}:\n(?:  .*\n)*?  port: (\d+)", checked.stdout) for section in ("listen", "http"))
        return int(listen[1]), int(http[1])

    def test_days_are_read_and_the_print_has_the_largest_unit(self):
        for written, printed in {"3d": "3d", "72h": "3d", "36h": "36h", "1440m": "1d"}.items():
            self.file.write_text(f"store: {{retention: {written}}}\n")
            checked = run("--check-config", "--config", self.file)
            self.assertEqual((checked.returncode, checked.stderr), (OK, ""))
            self.assertRegex(checked.stdout, rf"(?m)^  retention: {printed}$")

    def test_check_config_prints_what_would_be_in_force_and_accepts_it_again(self):
        self.file.write_text("pool: {workers: 3}\nlimits: {max_payload: 1MiB}\n")
        first = run("--check-config", "--config", self.file)
        self.assertEqual((first.returncode, first.stderr), (OK, ""))
        self.assertRegex(first.stdout, r"workers: 3\b")
        self.assertRegex(first.stdout, r"max_payload: 1MiB\b")
        self.assertRegex(first.stdout, r"port: 7770\b")
        self.file.write_text(first.stdout)
        again = run("--check-config", "--config", self.file)
        # What is `auto` may come to something else meanwhile: the disk's free space changes.
        values = lambda text: re.sub(r": auto +#.*", ": auto", text)
        self.assertEqual((again.returncode, values(again.stdout)), (OK, values(first.stdout)))

    def test_the_configuration_that_is_shipped_is_right(self):
        shipped = run("--check-config", "--config", ROOT / "deploy" / "locksley.yaml")
        self.assertEqual((shipped.returncode, shipped.stderr), (OK, ""))

    def warnings(self, text):
        """Of a configuration that is accepted."""
        self.file.write_text(text)
        checked = run("--check-config", "--config", self.file)
        self.assertEqual(checked.returncode, OK, checked.stderr)
        return checked.stderr

    def test_results_that_remote_workers_cannot_send_are_warned_of(self):
        remote = "handlers: {far: {remote: true, max_output: %s}}\nworkers: {max_leased_bytes: 16MiB}\n"
        self.assertEqual(self.warnings(remote % "4MiB"), "")
        self.assertIn("handlers.far.max_output: 5MiB is more than 4MiB, a quarter of workers.max_leased_bytes", self.warnings(remote % "5MiB"))

    def test_names_that_are_no_handlers_are_warned_of(self):
        upstream = "upstream: {url: redis://127.0.0.1:1, handlers: [%s]}\nhandlers: {mine: {command: ['true']}}\n"
        self.assertEqual(self.warnings(upstream % "mine, echo"), "")
        self.assertEqual(self.warnings(upstream % "mine, mien"), "warning: upstream.handlers: there is no handler 'mien'\n")
        none = self.warnings(upstream % "mien")
        self.assertIn("warning: upstream.handlers: none of these handlers can run jobs of the upstream", none)
        hash = "$argon2id$v=19$m=19456,t=2,p=1$" + "A" * 22 + "$" + "A" * 43
        self.assertIn("warning: users.alice.handlers: there is no handler 'nosuch'\n",
                      self.warnings(f"users: {{alice: {{password_hash: '{hash}', handlers: [echo, nosuch]}}}}\n"))

    def test_files_and_users_that_are_not_there_are_warned_of(self):
        self.assertIn("process.user: there is no user 'nosuchuser' on this machine", self.warnings("process: {user: nosuchuser}\n"))
        upstream = "upstream: {url: rediss://u@127.0.0.1, %s}\n"
        refused = "warning: started by this user, the daemon will refuse this file: "
        for file, said in {"/no/such/file": "no password can be read from it", "/etc/passwd": "every user of this machine can read or change it"}.items():
            told = self.warnings(upstream % f"password_file: {file}")
            self.assertIn(refused, told)
            self.assertIn(f"upstream.password_file: {file}: {said}", told)
        self.assertIn("upstream.ca_file: /no/such/file cannot be read", self.warnings("upstream: {url: rediss://127.0.0.1, ca_file: /no/such/file}\n"))
        folder = "handlers: {mine: {command: ['true'], directory: %s}}\n"
        self.assertIn("handlers.mine.directory: /no/such/file is no folder", self.warnings(folder % "/no/such/file"))
        self.assertEqual(self.warnings(folder % "/tmp"), "")

    def test_every_problem_of_a_configuration_is_told_at_once(self):
        self.file.write_text("listen:\n  prot: 1\npool: {workers: many}\nlimits:\n  max_payload: 3 apples\nusers:\n  alice: {weight: 2}\n")
        for arguments in (["--config", self.file], ["--check-config", "--config", self.file]):
            bad = run(*arguments)
            self.assertEqual((bad.returncode, bad.stdout), (CONFIG, ""), bad.stderr)
            for place in ("2:3: listen.prot", r"3:\d+: pool.workers", r"5:\d+: limits.max_payload", r"7:\d+: users.alice"):
                self.assertRegex(bad.stderr, rf"(?m)^{re.escape(str(self.file))}:{place}\b")
            self.assertIn("port", bad.stderr, "the nearest known key is suggested")

    def test_a_program_that_is_not_there_is_refused_by_the_check_and_by_the_start(self):
        for handler, error in {
            "{command: [no-such-program]}": "handlers.h.command: the program 'no-such-program' cannot be started: No such file or directory; install it",
            "{worker: [/etc/passwd]}": "handlers.h.worker: the program '/etc/passwd' cannot be started: Permission denied",
            "{plugin: /no/such.so}": "handlers.h.plugin: /no/such.so: there is no such file",
            "{plugin: /no/such.so, isolate: true}": "handlers.h.plugin: /no/such.so: there is no such file",
        }.items():
            self.file.write_text(f"store: {{path: ''}}\nlisten: {{port: 0}}\nhttp: {{port: 0}}\nhandlers: {{h: {handler}}}\n")
            for arguments in (["--check-config"], []):
                refused = run("--config", self.file, *arguments)
                self.assertEqual((refused.returncode, refused.stdout), (CONFIG, ""), handler)
                self.assertRegex(refused.stderr, rf"{re.escape(str(self.file))}:4:\d+: {re.escape(error)}")

    def test_a_file_that_is_not_there(self):
        missing = run("--config", self.file)
        self.assertEqual((missing.returncode, missing.stdout), (CONFIG, ""))
        self.assertIn(str(self.file), missing.stderr)

    def test_a_port_that_is_taken(self):
        for section in ("listen", "http"):
            with self.subTest(section), socket.create_server(("127.0.0.1", 0)) as taken:
                port = taken.getsockname()[1]
                self.file.write_text(f"store: {{path: ''}}\nlisten: {{port: 0}}\nhttp: {{port: 0}}\n{section}: {{port: {port}}}\n".replace(f"{section}: {{port: 0}}\n", ""))
                refused = run("--config", self.file)
                self.assertEqual((refused.returncode, refused.stdout), (UNAVAILABLE, ""), refused.stderr)
                self.assertIn(str(port), refused.stderr)
                self.assertRegex(refused.stderr, rf"{re.escape(str(self.file))}:\d+:\d+: {section}: .*in use")


class Running(DaemonTest):
    def test_the_ready_line_is_true_and_all_of_standard_output(self):
        daemon = self.start()  # checks the form of the line
        self.assertEqual(self.connect(daemon)("PING"), "PONG")
        self.assertEqual(daemon.get("/readyz"), (200, "ready\n"))
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), OK)
        self.assertEqual(daemon.process.stdout.read(), b"")

    def test_no_socket_or_file_gets_the_number_of_a_closed_standard_error(self):
        """As in `locksleyd <&- 2>&- &` of a script: each line of the log would be written into it."""
        script = scratch(self) / "closed"
        script.write_text(f'#!/bin/sh\nexec "{program("LOCKSLEYD")}" "$@" <&- 2>&-\n')
        script.chmod(0o755)
        with mock.patch.dict(os.environ, {"LOCKSLEYD": str(script)}):
            daemon = self.start()
        self.assertEqual([os.readlink(f"/proc/{daemon.pid}/fd/{number}") for number in (0, 2)], ["/dev/null"] * 2)
        self.assertEqual(self.connect(daemon)("RUN", "echo", "JOBS", "a"), [["ok", "a"]])

    def test_a_port_of_the_command_line_is_served_and_stays_at_a_reload(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            # A start that took the file's ports would fail.
            port = taken.getsockname()[1]
            settings = {"listen": {"port": port}, "http": {"port": port, "address": "127.0.0.2"}}
            daemon = self.start(settings, arguments=["--port", "0", "--http-port", "0"])
            self.assertNotEqual(daemon.port, port)
            self.assertEqual(daemon.host, "127.0.0.1")
            connection = self.connect(daemon)
            self.assertEqual(connection("PING"), "PONG")
            daemon.configure(settings | {"limits": {"max_clients": 77}})
            self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
            self.assertEqual(connection.map("CONFIG", "GET", "limits.max_clients"), {"limits.max_clients": "77"})
            self.assertEqual(connection.map("CONFIG", "GET", "listen.port"), {"listen.port": "0"})
            self.assertNotIn("needs a restart", daemon.log())

    def test_every_line_of_the_json_log_parses(self):
        daemon = self.start({"log": {"format": "json", "level": "debug"}})
        connection = self.connect(daemon)
        connection.wait(connection("SUBMIT", "echo", "NAME", 'quote " backslash \\', "JOBS", "a"))
        connection.ask("SUBMIT", b'no\r\n"such\xff', "JOBS", "a")
        with daemon.connect() as rude:
            rude.send(b"*1\r\n\"\xff\r\n")
            rude.read_until_closed()
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("configuration read again")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), OK)
        lines = daemon.log().splitlines()
        self.assertGreater(len(lines), 4, lines)
        for line in lines:
            self.assertEqual(list(json.loads(line))[:3], ["time", "level", "message"], line)

    def test_a_good_file_changes_what_is_in_force_and_a_bad_one_nothing(self):
        daemon = self.start({"limits": {"max_payload": "10B"}})
        connection = self.connect(daemon)
        submit = lambda size: connection.ask("SUBMIT", "echo", "KEEP", "none", "JOBS", "x" * size)
        self.assertRegex(submit(20), "^TOOBIG")
        daemon.configure({"limits": {"max_payload": "20B"}, "pool": {"workers": 3}})
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("configuration read again")
        self.assertRegex(daemon.log(), r"configuration changed key=limits\.max_payload")
        self.assertNotIsInstance(submit(20), Error)
        self.assertRegex(submit(21), "^TOOBIG")
        wait_for("a third worker", lambda: len(connection("WORKERS")) == 3)

        daemon.config_path.write_text("limits: {max_payload: 30B, max_clientz: 1}\nlisten: {port: 99999}\n")
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("the configuration stays as it was")
        self.assertRegex(daemon.log(), r"locksley\.yaml:1:\d+: limits\.max_clientz")
        self.assertRegex(daemon.log(), r"locksley\.yaml:2:\d+: listen\.port")
        self.assertRegex(submit(21), "^TOOBIG")
        self.assertNotIsInstance(submit(20), Error)

    def test_a_key_that_needs_a_restart_says_so(self):
        daemon = self.start()
        daemon.configure({"scheduling": {"share": "jobs"}})
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log(r"needs a restart key=scheduling\.share")

    def test_peers_of_other_machines_are_refused(self):
        address = other_address()
        daemon = self.start({"listen": {"address": "0.0.0.0"}})
        with Connection(address, daemon.port) as stranger:
            stranger.send(b"PING\r\n")
            self.assertRegex(stranger.read_until_closed(), rb"^-DENIED [^\r\n]*\r\n$")
        with Connection("127.0.0.1", daemon.port) as local:
            self.assertEqual(local("PING"), "PONG")

    def test_the_api_serves_this_machine_alone(self):
        daemon = self.start({"http": {"address": "0.0.0.0"}})
        statuses = {}
        for address in (other_address(), "127.0.0.1"):
            connection = http.client.HTTPConnection(address, int(daemon.http.rpartition(":")[2]), timeout=DEADLINE_S)
            self.addCleanup(connection.close)
            for path in ("/api/overview", "/healthz"):
                connection.request("GET", path)
                reply = connection.getresponse()
                reply.read()
                statuses.setdefault(path, []).append(reply.status)
        self.assertEqual(statuses, {"/api/overview": [403, 200], "/healthz": [200, 200]})

    def test_ipv6(self):
        daemon = self.start({"listen": {"address": "::1"}, "http": {"address": "::1"}})
        self.assertIn("listen=[::1]:", daemon.ready_line)
        self.assertEqual(self.connect(daemon)("PING"), "PONG")
        self.assertEqual(daemon.get("/healthz"), (200, "ok\n"))


def other_address():
    """An address of this machine that is not loopback; on a machine without a network the test fails, as it could show nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return probe.getsockname()[0]
        except OSError as error:
            raise AssertionError(f"this machine has no address but loopback, so nothing can be shown: {error}") from None


class TheEnd(DaemonTest):
    def drain(self, daemon):
        daemon.send_signal(signal.SIGTERM)
        daemon.wait_for_log("draining: nothing new is accepted")

    def test_sigterm_finishes_what_was_accepted_and_takes_nothing_new(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number.name):
                daemon = self.start()
                connection, waiter = self.connect(daemon), self.connect(daemon)
                # It is held, so that there is something left to do until the test has seen all that it wants to see.
                batch = connection("OPEN", "sleep", "SLOTS", 1)
                connection("PAUSE", batch)
                connection("ADD", batch, *[5] * 10)
                connection("CLOSE", batch)
                streamed = connection("OPEN", "echo")
                connection("ADD", streamed, "a")
                waiter.send(f"WAIT {batch}\r\n".encode())
                daemon.send_signal(number)
                daemon.wait_for_log("draining: nothing new is accepted")
                for command in (("SUBMIT", "echo", "JOBS", "a"), ("OPEN", "echo"), ("RUN", "echo", "JOBS", "a")):
                    self.assert_error("DRAINING", connection.ask(*command))
                self.assertEqual(daemon.get("/readyz"), (503, "draining\n"))
                connection("RESUME", batch)
                reply = waiter.read()
                self.assertEqual(dict(zip(reply[::2], reply[1::2]))["ok"], 10)
                self.assertEqual(daemon.wait_end(), OK)
                self.assertNotIn("left unfinished", daemon.log())

    def test_a_second_sigterm_ends_at_once(self):
        daemon = self.start()
        batch = self.connect(daemon)("SUBMIT", "sleep", "JOBS", *[3600 * SECOND_MS] * 5)
        self.drain(daemon)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), TERMINATED)
        self.assertRegex(daemon.log(), rf"batch left unfinished batch={batch} tenant=default handler=sleep jobs=5")

    def test_the_time_to_drain_runs_out(self):
        daemon = self.start({"shutdown": {"drain_timeout": "300ms"}})
        self.connect(daemon)("SUBMIT", "sleep", "JOBS", 3600 * SECOND_MS)
        self.drain(daemon)
        self.assertEqual(daemon.wait_end(), TEMPORARY)
        self.assertIn("drain_timeout passed", daemon.log())

    def test_after_the_drain_timeout_a_worker_begins_no_job_from_its_buffer(self):
        """One that does not end at SIGTERM may finish its job. It has read many more."""
        with tempfile.NamedTemporaryFile("r") as ran:
            daemon = self.start({"store": {"path": str(scratch(self))}, "handlers": {"py": worker(grace="1m")}, "shutdown": {"drain_timeout": "100ms"}})
            connection = self.connect(daemon)
            quick = ["answer(1)"] * 2000  # of which turns have many, so the first that are slow come in one turn
            told = scratch(self) / "told"
            deaf = f"import pathlib, signal; told = pathlib.Path({str(told)!r}); signal.signal(signal.SIGTERM, lambda *_: told.touch()); "
            # The first of them runs until the signal has come, however late that is.
            note = f"os.write(os.open({ran.name!r}, os.O_WRONLY | os.O_APPEND), b'x'); [time.sleep(0.01) for _ in iter(told.exists, True)]; time.sleep(0.3); answer(1)"
            connection("SUBMIT", "py", "JOBS", *quick, *[deaf + note] * 200)
            begun = lambda: os.path.getsize(ran.name)
            wait_for("the first slow job", lambda: begun() > 0)
            daemon.send_signal(signal.SIGTERM)
            daemon.wait_for_log("closing")
            wait_for("the worker to be told to end", told.exists)
            before = begun()
            self.assertEqual(daemon.wait_end(), 75)
            self.assertLessEqual(begun(), before + 3)

    def test_cancelling_what_is_left_ends_the_drain(self):
        daemon = self.start()
        connection = self.connect(daemon)
        batch = connection("SUBMIT", "sleep", "JOBS", 3600 * SECOND_MS)
        self.drain(daemon)
        connection("CANCEL", batch)
        self.assertEqual(daemon.wait_end(), OK)

    def test_an_idle_daemon_ends_at_once_with_clients_connected(self):
        daemon = self.start()
        clients = [self.connect(daemon) for _ in range(20)]
        clients[0]("SUBSCRIBE", "batches")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), OK)  # and not TEMPORARY, as after the time to drain
        for client in clients:
            with self.assertRaises(Closed):
                client.read()

    def test_sigkill_leaves_nothing_behind(self):
        """Neither a port that stays taken nor a child."""
        port = hold_port(self)
        daemon = self.start({"listen": {"port": port}})
        daemon.send_signal(signal.SIGKILL)
        self.assertEqual(daemon.wait_end(), -signal.SIGKILL)
        daemon.process.returncode = OK  # close() need not wonder
        self.assertEqual(self.connect(self.start({"listen": {"port": port}}))("PING"), "PONG")


if __name__ == "__main__":
    unittest.main()
