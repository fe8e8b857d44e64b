#!/usr/bin/python3
"""As whom the daemon runs: `process.user`, what nobody may get back, and what others of the same user see.

Where the tests do not run as root there is no root to give up: then what is tested is that the daemon says so."""

import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DEFAULTS, DaemonTest, end_with_parent, merged, program
from programs import children, shell
from scratch import scratch

IS_ROOT = os.geteuid() == 0
USER, OTHER = pwd.getpwnam("nobody"), pwd.getpwnam("daemon")
CONFIG_ERROR = 78


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class PrivilegesTest(DaemonTest):
    def setUp(self):
        self.folder = scratch(self)
        self.folder.chmod(0o755)

    def ends_with(self, settings, as_user=None):
        """Exit code and log of a daemon that is not to start."""
        file = self.folder / "locksley.yaml"
        file.write_text(json.dumps(merged(DEFAULTS, settings)))
        file.chmod(0o644)
        # By descriptor: the folder that it lies in may be closed to the user.
        with open(program("LOCKSLEYD"), "rb") as binary:
            command = [f"/proc/self/fd/{binary.fileno()}", "--config", str(file)]
            done = subprocess.run(command, pass_fds=[binary.fileno()], capture_output=True, text=True, timeout=DEADLINE_S,
                                  user=as_user, group=as_user and USER.pw_gid, extra_groups=as_user and [])
        return done.returncode, done.stderr

    def start_as_user(self, settings=None, user=USER):
        """A daemon that gives up root; or None, where there is none to give up, and it says so."""
        if IS_ROOT:
            return self.start(merged({"process": {"user": user.pw_name}}, settings or {}))
        self.assert_cannot_become(next(other for other in (USER, OTHER) if other.pw_uid != os.geteuid()))
        return None

    def assert_cannot_become(self, user, **options):
        code, log = self.ends_with({"process": {"user": user.pw_name}}, **options)
        self.assertEqual(code, CONFIG_ERROR)
        self.assertIn(f"process.user: only root can become '{user.pw_name}': start the daemon as root, or as that user", log)

    def assert_is(self, user, pid):
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            try:
                status = status_of(f"{pid}/task/{task.name}")
            except OSError:
                continue  # the thread has ended
            self.assertEqual(status["Uid"].split(), [str(user.pw_uid)] * 4, status["Name"])
            self.assertEqual(status["Gid"].split(), [str(user.pw_gid)] * 4, status["Name"])
            self.assertEqual({status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Amb")}, {"0" * 16}, status["Name"])
            self.assertEqual(status["NoNewPrivs"], "1", status["Name"])
            groups = set(map(int, status["Groups"].split()))
            self.assertEqual(groups, set(os.getgrouplist(user.pw_name, user.pw_gid)), status["Name"])


class Dropping(PrivilegesTest):
    def test_all_threads_and_all_files_are_the_users(self):
        store = self.folder / "store"
        settings = {"store": {"path": str(store)}, "handlers": {"sh": shell()}}
        if not (daemon := self.start_as_user(settings)):
            return
        connection = self.connect(daemon)
        self.assertEqual(connection("RUN", "sh", "JOBS", "id -u; id -g; echo $HOME"), [["ok", f"{USER.pw_uid}\n{USER.pw_gid}\n{USER.pw_dir}\n"]])
        batch = connection("SUBMIT", "echo", "JOBS", "kept")
        connection("WAIT", batch)
        self.assert_is(USER, daemon.pid)
        self.assertEqual(stat.S_IMODE(store.stat().st_mode), 0o700)
        for path in (store, *store.rglob("*")):
            self.assertEqual((path.stat().st_uid, path.stat().st_gid), (USER.pw_uid, USER.pw_gid), path)
        (keeper,) = children(daemon.pid)
        self.assert_is(USER, keeper)
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 0)
        # The folder is the user's now, and so it is opened.
        again = self.connect(self.start_as_user(settings))
        self.assertEqual(again("RESULTS", batch), ["0", [[0, "ok", "kept"]]])

    def test_a_store_of_root_is_refused_by_name(self):
        store = self.folder / "store"
        store.mkdir(mode=0o700)
        if not IS_ROOT:
            return self.assertIsNone(self.start_as_user())
        code, log = self.ends_with({"process": {"user": USER.pw_name}, "store": {"path": str(store)}})
        self.assertEqual(code, 72)
        self.assertRegex(log, rf"{store}.*[Pp]ermission denied.*chown -R {USER.pw_name} {store}")

    def test_ports_are_bound_before(self):
        if not IS_ROOT:
            return self.assertIsNone(self.start_as_user())

        def is_free(port):
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    return False
                return True

        listen, http = [port for port in range(1023, 600, -1) if is_free(port)][:2]
        daemon = self.start_as_user({"listen": {"port": listen}, "http": {"port": http}})
        self.assertEqual(self.connect(daemon)("PING"), "PONG")
        self.assertEqual(daemon.get("/healthz")[0], 200)
        self.assert_is(USER, daemon.pid)

    def test_a_file_that_the_user_may_not_read_leaves_the_configuration_in_force(self):
        if not (daemon := self.start_as_user()):
            return
        daemon.configure({"process": {"user": USER.pw_name}, "log": {"level": "debug"}})
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log(r"cannot be opened: Permission denied")
        daemon.folder.chmod(0o755)
        daemon.config_path.chmod(0o644)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log(r"configuration changed key=log\.level")

    def test_who_cannot_be_become(self):
        for user, reason in (("no-such-user", "there is no user 'no-such-user' on this machine"), ("root", "'root' is root: name an ordinary user")):
            code, log = self.ends_with({"process": {"user": user}})
            self.assertEqual(code, CONFIG_ERROR)
            self.assertIn(f"process.user: {reason}", log)

    def test_only_root_can_become_another(self):
        if IS_ROOT:
            self.assert_cannot_become(OTHER, as_user=USER.pw_uid)
        else:
            # Who is the user already has nothing to give up.
            own = pwd.getpwuid(os.geteuid()).pw_name
            self.assertEqual(self.connect(self.start({"process": {"user": own}}))("PING"), "PONG")


class Keeper(PrivilegesTest):
    def test_it_stays_root_only_for_the_users_of_handlers(self):
        settings = {"handlers": {"own": shell(), "other": shell(user=OTHER.pw_name)}}
        if not (daemon := self.start_as_user(settings)):
            return
        connection = self.connect(daemon)
        who = "id -u; id -G; grep NoNewPrivs /proc/self/status"
        for handler, user in (("own", USER), ("other", OTHER)):
            self.assertEqual(connection("RUN", handler, "JOBS", who), [["ok", f"{user.pw_uid}\n{user.pw_gid}\nNoNewPrivs:\t1\n"]])
        self.assert_is(USER, daemon.pid)
        (keeper,) = children(daemon.pid)
        self.assertEqual(status_of(keeper)["Uid"].split(), ["0"] * 4)
        # And what the keeper starts is never root, whoever asks: tests/unit/daemon/process/keeper/keeper_test.cc. Nor can the daemon start another keeper that is.
        os.kill(keeper, signal.SIGKILL)
        daemon.wait_for_log("only root can start it")
        ((status, text),) = connection("RUN", "own", "JOBS", who)
        self.assertEqual(status, "error")
        self.assertIn("restart the daemon", text)
        self.assertEqual(connection("RUN", "echo", "JOBS", "x"), [["ok", "x"]])


    def test_a_client_of_exec_enters_no_folder_that_is_closed_to_its_user(self):
        """The keeper, which is root, could."""
        closed = self.folder / "closed"
        (closed / "sub").mkdir(parents=True)
        (closed / "sub/notes").write_text("text")
        for path, mode in ((closed / "sub/notes", 0o644), (closed / "sub", 0o755), (closed, 0o700)):
            path.chmod(mode)
        settings = {"exec": True, "handlers": {"other": {"command": ["true"], "user": OTHER.pw_name}}}
        if not (daemon := self.start_as_user(settings)):
            return
        run = lambda folder: self.connect(daemon)("RUN", "exec", "JOBS", f"{folder}\0\0sh\0-c\0cat notes")
        self.assertEqual(run(closed / "sub"), [["error", "its directory cannot be entered: Permission denied"]])
        closed.chmod(0o755)
        self.assertEqual(run(closed / "sub"), [["ok", "text"]])

    def test_a_reload_changes_handlers_and_adds_no_user(self):
        handlers = {"own": shell(), "other": shell(user=OTHER.pw_name)}
        base = {"process": {"user": USER.pw_name}, "exec": True}
        if not (daemon := self.start_as_user({**base, "handlers": handlers})):
            return
        daemon.folder.chmod(0o755)
        daemon.config_path.chmod(0o644)
        connection = self.connect(daemon)
        runs_as = lambda handler, user: self.assertEqual(connection("RUN", handler, "JOBS", "id -u; id -G"), [["ok", f"{user.pw_uid}\n{user.pw_gid}\n"]])
        # A program that the daemon may not see, since root has been given up.
        closed = self.folder / "closed"
        closed.mkdir()
        shutil.copy("/bin/true", closed / "program")
        os.chown(closed, OTHER.pw_uid, OTHER.pw_gid)
        closed.chmod(0o700)
        handlers = {name: {**handler, "timeout": "30s"} for name, handler in handlers.items()}
        added = {"new": shell(), "closed": {"command": [str(closed / "program")], "user": OTHER.pw_name}}
        daemon.configure({**base, "handlers": {**handlers, **added}})
        self.assertEqual(connection("CONFIG", "RELOAD"), "OK")
        for handler, user in (("own", USER), ("other", OTHER), ("new", USER)):
            runs_as(handler, user)
        self.assertEqual(connection("RUN", "closed", "JOBS", "x"), [["ok", ""]])
        self.assertEqual(connection("CONFIG", "SET", "pool.workers", "3"), "OK")
        self.assertEqual(connection("RUN", "exec", "JOBS", "/\0\0id\0-u"), [["ok", f"{USER.pw_uid}\n"]])
        stranger = pwd.getpwnam("games")
        daemon.configure({**base, "handlers": {**handlers, "third": shell(user=stranger.pw_name)}})
        self.assertIn("handlers.third.user: no handler ran programs as 'games' when root was given up: restart the daemon", str(connection.ask("CONFIG", "RELOAD")))
        runs_as("other", OTHER)


class Memory(PrivilegesTest):
    def owner(self, pid):
        """Of what the kernel shows of the process to those who may look into it: root's, if nobody but root may."""
        return os.stat(f"/proc/{pid}/environ").st_uid

    def core_limit(self, pid):
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        return re.search(r"Max core file size +(\S+) +(\S+)", limits).groups()

    def test_others_of_the_same_user_may_not_look_into_it(self):
        settings = {"process": {"user": USER.pw_name if IS_ROOT else "", "core_dumps": False}, "handlers": {"sh": shell()}}
        daemon = self.start(settings)
        connection = self.connect(daemon)
        # A program of a handler is the same user here.
        for look in (f"cat /proc/{daemon.pid}/environ", "cat /proc/$PPID/environ"):
            ((status, text),) = connection("RUN", "sh", "JOBS", look)
            self.assertEqual(status, "error", look)
            self.assertIn("Permission denied", text, look)
        self.assertEqual(self.owner(daemon.pid), 0)
        self.assertEqual(self.core_limit(daemon.pid), ("0", "0"))

    def test_unless_that_is_wanted(self):
        daemon = self.start({"process": {"user": USER.pw_name if IS_ROOT else "", "core_dumps": True}})
        self.assertEqual(self.owner(daemon.pid), USER.pw_uid if IS_ROOT else os.geteuid())


if __name__ == "__main__":
    unittest.main(verbosity=2)
