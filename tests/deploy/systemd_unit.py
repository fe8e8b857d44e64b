#!/usr/bin/python3
"""The unit for systemd: what systemd-analyze says of it, whether its walls leave the daemon what it needs, and what the two tell each other.
No systemd runs here: the daemon is started by hand, with a socket in systemd's place."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from locksley_daemon import DEADLINE_S, DaemonTest, program, wait_for
from programs import shell
from scratch import scratch

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "systemd" / "locksleyd.service"
MOST_EXPOSURE = 1.3  # of 10, as `systemd-analyze security` of Debian 12 counts; what remains is explained beside the unit
OTHER_DESCRIPTORS = 128  # daemon/main.cc
SECONDS = {"s": 1, "min": 60, "m": 60, "h": 3600}


def settings():
    """Of all sections: each key with its values, in order; an empty value forgets those before it."""
    found = {}
    for line in UNIT.read_text().splitlines():
        if line and line[0] not in "#[":
            key, value = line.split("=", 1)
            found.setdefault(key, []).append(value)
    return found


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", text).groups()
    return int(number) * SECONDS[unit]


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, timeout=DEADLINE_S)


def allowed():
    """The names of system calls that the unit's filter lets through."""
    sets, group = {}, None
    for line in analyze("syscall-filter").stdout.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("@"):
            group = sets.setdefault(name, set())
        elif name and line.startswith(" "):
            group.add(name)

    def names(word):
        return set().union(*map(names, sets[word])) if word in sets else {word}

    result = set()
    for value in settings()["SystemCallFilter"]:
        these = set().union(*map(names, value.removeprefix("~").split()))
        result = result - these if value.startswith("~") else result | these
    return result


class File(unittest.TestCase):
    def setUp(self):
        self.folder = scratch(self)

    def copy(self, old="", new=""):
        """The unit as it would be installed here, with a change."""
        self.assertIn(old, UNIT.read_text())
        text = UNIT.read_text().replace(old, new).replace("/usr/bin/locksleyd", program("LOCKSLEYD"))
        path = self.folder / UNIT.name
        path.write_text(text)
        return path

    def test_systemd_has_nothing_to_complain_about(self):
        # Of this machine's other units, which it loads too, it may say what it likes.
        verify = lambda unit: analyze("verify", "--man=no", "--recursive-errors=no", unit)
        done = verify(self.copy())
        self.assertEqual((done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]), (0, []))
        wrong = verify(self.copy("KillMode=mixed", "KillMood=mixed"))
        self.assertRegex(wrong.stderr, f"{UNIT.name}.*KillMood", "its silence means nothing")

    def test_the_walls_are_as_high_as_they_were(self):
        threshold = f"--threshold={round(MOST_EXPOSURE * 10)}"
        done = analyze("security", "--offline=yes", "--no-pager", threshold, self.copy())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"locksleyd.service: {MOST_EXPOSURE} ", done.stdout, "better than before: lower the bound")
        lower = analyze("security", "--offline=yes", "--no-pager", threshold, self.copy("ProtectSystem=strict", ""))
        self.assertNotEqual(lower.returncode, 0, "its consent means nothing")

    def test_figures_agree_with_the_configuration(self):
        defaults = subprocess.run([program("LOCKSLEYD"), "--check-config"], capture_output=True, text=True, timeout=DEADLINE_S, check=True)
        config, unit = yaml.safe_load(defaults.stdout), settings()
        self.assertGreaterEqual(int(unit["LimitNOFILE"][0]), config["limits"]["max_clients"] + OTHER_DESCRIPTORS)
        self.assertGreater(seconds(unit["TimeoutStopSec"][0]), seconds(config["shutdown"]["drain_timeout"]))

    def test_a_daemon_whose_database_is_away_is_started_again_without_end(self):
        self.assertEqual(settings()["StartLimitIntervalSec"], ["0"])
        self.assertEqual(settings()["Restart"], ["on-failure"])
        for key in ("RestartPreventExitStatus", "SuccessExitStatus"):
            self.assertNotIn("69", settings()[key][-1].split())
        self.assertEqual(settings()["RestartPreventExitStatus"][-1].split(), ["2", "72", "78"], "what does not pass by itself")
        self.assertGreaterEqual(seconds(settings()["RestartSec"][-1]), 1, "it does not spin")

    def test_the_filter_knows_what_it_is_asked(self):
        self.assertLessEqual({"futex", "epoll_wait", "fdatasync", "vfork", "fchown", "landlock_restrict_self"}, allowed())
        self.assertFalse({"setuid", "setresuid", "chroot", "mount", "ptrace", "keyctl", "reboot"} & allowed())


class Filter(DaemonTest):
    def setUp(self):
        self.folder = scratch(self)

    def test_the_daemon_calls_nothing_that_the_filter_forbids(self):
        """Under strace: a store, a command with limits and confinement, a scrape, a reload, a drain."""
        calls = self.folder / "calls"
        wrapper = self.folder / "traced"
        wrapper.write_text(f'#!/bin/sh\nexec strace -D -f -q -e signal=none -o {calls} "{program("LOCKSLEYD")}" "$@"\n')
        wrapper.chmod(0o755)
        before = os.environ["LOCKSLEYD"]
        os.environ["LOCKSLEYD"] = str(wrapper)
        self.addCleanup(os.environ.__setitem__, "LOCKSLEYD", before)
        limits = {"cpu": "10s", "memory": "1GiB", "file_size": "1MiB", "files": 64}
        confine = {"read": ["/usr", "/etc", "/lib", "/lib64", "/bin", "/dev"], "network": False}
        daemon = self.start({"store": {"path": str(self.folder / "store")}, "handlers": {"sh": shell(limits=limits, confine=confine)}})
        connection = self.connect(daemon)
        for submission in (("sha256", "RANGE", 0, 100), ("fib", "JOBS", 15), ("sh", "JOBS", "true", "exit 3")):
            connection.wait(connection("SUBMIT", *submission))
        self.assertEqual(daemon.get("/metrics")[0], 200)
        daemon.send_signal(signal.SIGHUP)
        daemon.wait_for_log("configuration read again")
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 0)
        wait_for("strace to write the daemon's end", lambda: re.search(rf"^{daemon.pid} +\+\+\+ exited", calls.read_text(), re.MULTILINE))
        seen = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", calls.read_text(), re.MULTILINE))
        self.assertLessEqual({"execve", "futex", "fdatasync", "landlock_restrict_self", "membarrier"}, seen, "strace saw too little")
        self.assertEqual(seen - allowed(), set())


class Manager:
    """systemd's end of the notification socket."""

    def __init__(self, folder):
        self.path = str(pathlib.Path(folder) / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(DEADLINE_S)

    def close(self):
        self.socket.close()

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())


class Notifications(DaemonTest):
    def start_under(self, watchdog=None, drain="7s"):
        folder = scratch(self)
        manager = Manager(str(folder))
        self.addCleanup(manager.close)
        told = {"NOTIFY_SOCKET": manager.path} | ({"WATCHDOG_USEC": str(watchdog)} if watchdog else {})
        os.environ.update(told)
        try:
            return self.start({"shutdown": {"drain_timeout": drain}}), manager
        finally:
            for name in told:
                del os.environ[name]

    def test_ready_reload_and_stop(self):
        daemon, manager = self.start_under()
        self.assertEqual(manager.next(), {"READY": "1"})
        daemon.send_signal(signal.SIGHUP)
        reloading = manager.next()
        self.assertEqual(reloading.pop("RELOADING"), "1")
        self.assertGreater(int(reloading.pop("MONOTONIC_USEC")), 0)
        self.assertEqual(reloading, {})
        self.assertEqual(manager.next(), {"READY": "1"})
        daemon.send_signal(signal.SIGTERM)
        # Whoever watches for signs of life would have had one by now: the first comes with READY.
        stopping = manager.next()
        self.assertEqual(stopping.pop("STOPPING"), "1")
        self.assertGreater(int(stopping.pop("EXTEND_TIMEOUT_USEC")), 7_000_000, "its drain and a bit")
        self.assertEqual(stopping, {})
        self.assertEqual(daemon.wait_end(), 0)

    def test_signs_of_life_where_they_are_asked_for(self):
        daemon, manager = self.start_under(watchdog=100_000, drain="1h")
        self.assertEqual(manager.next(), {"READY": "1"})
        for _ in range(5):
            self.assertEqual(manager.next(), {"WATCHDOG": "1"})
        # Also while it drains.
        batch = self.connect(daemon)("SUBMIT", "sleep", "JOBS", 3_600_000)
        daemon.send_signal(signal.SIGTERM)
        wait_for("STOPPING", lambda: "STOPPING" in manager.next())
        self.assertEqual(manager.next(), {"WATCHDOG": "1"})
        self.assertEqual(manager.next(), {"WATCHDOG": "1"})
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait_end(), 143, batch)


if __name__ == "__main__":
    unittest.main()
